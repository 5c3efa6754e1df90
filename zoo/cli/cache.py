"""``zoo cache`` and ``zoo verify``: list, remove, tidy and re-hash the stored weights."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import MissingExtra, WeightsRefused, WeightsUnavailable
from ..files import get_user_folder
from ..progress import ProgressBar
from ..weights import lock, maintenance, store
from ..weights.locations import format_location, get_weights_folder
from .facts import match_encoder_ids
from .options import complete_encoder_names, dry_run_option, yes_option
from .output import (
    NothingFound,
    add_json_option,
    format_list,
    format_place_name,
    format_size,
    print_json,
    print_notes,
    print_table,
    require_confirmation,
    wrap_text,
)

_CACHE_EXAMPLES = """\b
Examples:
  zoo cache ls
  zoo cache rm 'mae_*' --yes
  zoo cache gc --dry-run

\b
Every one of them takes --json.
"""


@click.group("cache", epilog=_CACHE_EXAMPLES)
def cache_command() -> None:
    """List, remove or tidy the stored weights.

    They lie in $ZOO_CACHE/weights, or below $TORCH_HOME, or else in your cache folder; 'zoo doctor' says where that is.
    """


@cache_command.command("ls", epilog="\b\nExample:\n  zoo cache ls")
@add_json_option
def list_stored_weights(as_json: bool) -> None:
    """List the stored weights, and which encoders read them.

    Encoders that take other features of the same network share their weights. "last read" is what your file system
    records; verifying and mirroring do not count.
    """
    found, folder = _in_cache(), get_weights_folder()
    known = maintenance.group_by_places(load_catalogue().with_unlisted.values())
    rows = sorted((_row(item, known) for item in found), key=lambda row: str(row["encoders"]).casefold())
    total = _size_of(found)
    partial = 0
    for path in (folder / "partial").glob("*.part"):
        with suppress(FileNotFoundError):  # finished in the meantime
            partial += path.stat().st_size
    if as_json:
        counts = {"n_records": len(rows), "size_bytes": total, "partial_bytes": partial}
        print_json({"folder": str(folder), **counts, "weights": rows})
        return
    if rows:
        headers = ["encoders", "size", "from", "layout", "kept since", "last read"]
        print_table(make_table(headers, [_cells(row) for row in rows], numbers=[1]))
    n = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}, {format_size(total)}" if rows else "nothing is stored"
    notes = [f"{n} in {folder}"] + [f"{format_size(partial)} of unfinished downloads"] * bool(partial)
    if any(row["state"] != "kept" for row in rows):
        notes.append("damaged or missing weights: zoo verify says which, zoo cache gc removes them")
    own = [
        item
        for shelf in maintenance.list_stores()
        for item in maintenance.list_store_records(shelf)
        if item.is_registered
    ]
    if own:
        notes.append(
            f"{len(own)} registered, {format_size(_size_of(own))}, in {get_user_folder() / 'weights'}: not in the cache"
        )
    print_notes(notes)


@cache_command.command("rm", epilog="\b\nExamples:\n  zoo cache rm dino_vitS16\n  zoo cache rm 'mae_*' --yes")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_encoder_names)
@yes_option
@add_json_option
def remove_stored_weights(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove weights from the cache.

    NAME is an encoder or a glob such as 'mae_*'. Everything made from an encoder's file is removed, also what other
    encoders read; the next load fetches it again. Registered encoders stay, and so do the features recorded at the
    first load, which 'zoo check' compares with.
    """
    cards, everything = load_catalogue().with_unlisted, _in_cache()
    converted_for = {item.record.encoder for item in everything if item.record}
    wanted = match_encoder_ids(names, dict.fromkeys([*cards, *sorted(converted_for - set(cards))]))
    found = [
        item
        for item in everything
        if item.record is not None
        and any(
            maintenance.is_record_for(item.record, cards[name]) if name in cards else item.record.encoder == name
            for name in wanted
        )
    ]
    if not found:
        if any(name in cards and str(cards[name].weights.url).startswith(store.REGISTERED) for name in wanted):
            raise NothingFound(
                f"Registered weights, in {get_user_folder() / 'weights'}, are not part of the cache: see zoo "
                "unregister."
            )
        raise NothingFound(f"The cache has no weights of {format_list(wanted)}.")
    known = maintenance.group_by_places(cards.values())
    rows = [_row(item, known) for item in found]
    if not yes:
        lines = [f"{', '.join(row['encoders'])}: {format_size(row['size_bytes'] or 0)}" for row in rows]
        require_confirmation(lines, "Remove these weights?")
    freed = maintenance.remove(found)
    left = {
        encoder
        for item in _in_cache()
        if item.record
        for encoder in maintenance.find_loading_encoders(item.record, known)
    }
    gone = sorted({encoder for row in rows for encoder in row["encoders"]} - left)
    if as_json:
        print_json({"freed_bytes": freed, "encoders": gone, "removed": rows})
    else:
        click.echo(wrap_text(f"Removed the weights of {', '.join(gone)}; freed {format_size(freed)}."))


@cache_command.command("gc", epilog="\b\nExamples:\n  zoo cache gc --dry-run\n  zoo cache gc")
@dry_run_option
@add_json_option
def collect_garbage(dry_run: bool, as_json: bool) -> None:
    """Remove unused files: collect garbage.

    Abandoned downloads, half-written files, weights without a record, damaged records, and what an older version
    converted differently. Safe while others load: files younger than an hour stay unless they are certainly unused.
    """
    layouts, note = None, ""
    try:
        from ..encoders.layouts import LAYOUTS

        layouts = {name: layout.version for name, layout in LAYOUTS.items()}
    except (MissingExtra, ModuleNotFoundError) as error:
        note = f"what older versions converted was left alone, because {error.name!r} is not installed"
    items, folder = maintenance.find_garbage(layouts=layouts), get_weights_folder()
    freed, failures = (sum(item.size_bytes for item in items), []) if dry_run else maintenance.discard(items)
    if as_json:
        rows = [{"path": str(item.path), "reason": item.reason, "size_bytes": item.size_bytes} for item in items]
        done = {"dry_run": dry_run, "freed_bytes": freed, "failures": failures, "note": note or None}
        print_json({**done, "files": rows})
    else:
        if items:
            cells = [[_below(item.path, folder), format_size(item.size_bytes), item.reason] for item in items]
            print_table(make_table(["file", "size", "why"], cells, numbers=[1]))
        said = (
            f"{'Would free' if dry_run else 'Freed'} {format_size(freed)}."
            if items
            else f"{folder} has no unused files."
        )
        click.echo(wrap_text(said))
        print_notes([note] if note else [])
    if failures:
        raise NothingFound(" ".join(failures))


def _in_cache() -> list[maintenance.StoredRecord]:
    """Everything stored in the cache and in its copies of mirrors."""
    shelves = [shelf for shelf in maintenance.list_stores() if shelf.kind in ("cache", "copy of a mirror")]
    return [item for shelf in shelves for item in maintenance.list_store_records(shelf) if not item.is_registered]


def _size_of(items: Sequence[maintenance.StoredRecord]) -> int:
    return sum(status.st_size for status in {item.weights: item.status for item in items}.values() if status)


def _row(item: maintenance.StoredRecord, known: dict[maintenance.Places, list[EncoderCard]]) -> dict[str, Any]:
    record, status = item.record, item.status
    if record is None:
        return {"encoders": [], "state": "damaged", "record": str(item.path), "store": item.shelf.kind}
    return {
        "encoders": list(maintenance.find_loading_encoders(record, known)),
        "state": "missing" if status is None else "kept",
        "size_bytes": None if status is None else status.st_size,
        "places": [format_location(origin.place) for origin in record.origins],
        "layout": record.layout,
        "layout_version": record.layout_version,
        "kept_since": record.created,
        "last_read": None if status is None else datetime.date.fromtimestamp(status.st_atime).isoformat(),
        "sha256": record.sha256,
        "record": str(item.path),
        "store": item.shelf.kind,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    if row["state"] == "damaged":
        return [f"({Path(row['record']).name} is damaged)", "", "", "", "", ""]
    amount = "missing" if row["state"] == "missing" else format_size(row["size_bytes"])
    place = format_place_name(row["places"][0]) + (" (mirror)" if row["store"] == "copy of a mirror" else "")
    return [", ".join(row["encoders"]), amount, place, row["layout"], row["kept_since"], row["last_read"] or ""]


def _below(path: Path, folder: Path) -> str:
    """A path as a table shows it: below the folder, its hash cut short."""
    below = path.relative_to(folder)
    return str(below.with_name(re.sub(r"^([0-9a-f]{12})[0-9a-f]{20,}.*", r"\1...", below.name)))


# --- verify ----------------------------------------------------------------------------------------------------------

_OWN_HASH = (store.REGISTERED, "sha256:")  # schemes of places that are their own hash, of which no lock file speaks
_REMEDIES = {
    "cache": "remove the weights with 'zoo cache rm NAME', a damaged record with 'zoo cache gc', and load again",
    "copy of a mirror": "remove them with 'zoo cache rm NAME', and load again",
    "mirror": "run 'zoo mirror DEST NAME' once more where the weights are whole",
    "registered": "restore the file from a backup, or register the encoder again from its checkpoint",
}


@click.command("verify", epilog="\b\nExamples:\n  zoo verify\n  zoo verify dino_vitS16 'mae_*'\n  zoo verify --json")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_encoder_names)
@add_json_option
def verify_command(names: tuple[str, ...], as_json: bool) -> None:
    """Re-hash all stored weights.

    In the cache, of registered encoders, and in the folder that ZOO_MIRROR names: the SHA-256 of every file, the
    checksum of every record, and whether the source file is still the one of its card and of zoo.lock. Exit code 1 if
    anything is damaged, missing or contradicted, or a NAME is not kept. NAME is an encoder or a glob such as 'mae_*'.
    """
    cards, shelves = load_catalogue().with_unlisted, maintenance.list_stores()
    for shelf in shelves:
        if shelf.kind == "mirror" and not shelf.folder.is_dir():
            raise WeightsUnavailable(f"There is no mirror at {shelf.folder}; correct ZOO_MIRROR or unset it.")
    items, known = (
        [item for shelf in shelves for item in maintenance.list_store_records(shelf)],
        maintenance.group_by_places(cards.values()),
    )
    whose = {item.path: maintenance.find_loading_encoders(item.record, known) if item.record else () for item in items}
    absent: list[str] = []
    if names:
        kept = {name for readers in whose.values() for name in readers}
        ids = dict.fromkeys([*cards, *sorted(kept - set(cards))])
        wanted = {pattern: set(match_encoder_ids([pattern], ids)) for pattern in names}
        items = [item for item in items if any(group & set(whose[item.path]) for group in wanted.values())]
        absent = [pattern for pattern, group in wanted.items() if not group & kept]
    items.sort(key=lambda item: (shelves.index(item.shelf), [name.casefold() for name in whose[item.path]]))
    bar = ProgressBar("B")
    bar.start("hashing", sum(item.status.st_size for item in items if item.status), 0)
    try:
        found = [_verified(item, whose[item.path], cards, bar.advance) for item in items]
    finally:
        bar.end()
    problems = [one for one in found if one["state"] != "whole"]
    if as_json:
        counts = {"sound": not problems and not absent, "n_problems": len(problems), "not_kept": absent}
        print_json({**counts, "weights": found})
    else:
        if found:
            rows = [
                [
                    ", ".join(one["encoders"]) or f"({Path(one['path']).name[:12]}...)",
                    one["state"],
                    format_size(one["size_bytes"]),
                    one["store"],
                ]
                for one in found
            ]
            print_table(make_table(["encoders", "state", "size", "where"], rows, numbers=[2]))
        for one in problems:
            click.echo(f"{one['path']}: {one['detail']}")
        whole = {one["path"]: one["size_bytes"] for one in found if one["state"] == "whole"}
        said = f"{len(found) - len(problems)} of {len(found)} whole, {format_size(sum(whole.values()))}."
        click.echo(said if found else "Nothing is stored here yet.")
        kinds = dict.fromkeys(one["store"] for one in problems if one["state"] != "refused")
        folders = [f"{shelf.kind}: {shelf.folder}" for shelf in shelves if any(shelf == one.shelf for one in items)]
        print_notes([f"{kind}: {_REMEDIES[kind]}" for kind in kinds] + folders)
    complaints = [f"{len(problems)} of {len(found)} differ from what was stored."] if problems else []
    complaints += [f"Not kept here: {', '.join(absent)}."] if absent else []
    if complaints:
        raise NothingFound(" ".join(complaints))


def find_contradiction(record: store.WeightsRecord, cards: Mapping[str, EncoderCard]) -> str:
    """How a lock file or the card contradicts the source of weights, so that loads refuse them; "" if neither does."""
    for origin in record.origins:
        if origin.place.startswith(_OWN_HASH):
            continue
        try:
            entry = lock.find_locked_file(origin.place)
            if entry is not None:
                lock.require_same(entry, sha256=origin.sha256, size_bytes=origin.size_bytes)
        except WeightsRefused as error:
            return str(error)
    first = record.origins[0]
    if record.encoder in cards and not first.place.startswith(_OWN_HASH):
        said = cards[record.encoder].weights
        if first.place == said.url and said.sha256 not in (first.sha256, *Missing):
            return f"its source had sha256 {first.sha256}, but the card says {said.sha256}"
    return ""


def _verified(
    item: maintenance.StoredRecord,
    encoders: Sequence[str],
    cards: Mapping[str, EncoderCard],
    advance: Callable[[int], None],
) -> dict[str, Any]:
    record, weights, status = item.record, item.weights, item.status
    state = "damaged"
    if record is None or weights is None:
        detail = "the record is damaged"
    elif record.key != item.path.stem:
        detail = "the record has the name of another one"
    elif status is None:
        state, detail = "missing", "the weights are not there"
    elif not (detail := maintenance.find_damage(weights, record, progress=advance)):
        detail = find_contradiction(record, cards)
        state = "refused" if detail else "whole"
    return {
        "encoders": list(encoders),
        "state": state,
        "detail": detail or None,
        "size_bytes": status.st_size if status else 0,
        "path": str(weights or item.path),
        "store": item.shelf.kind,
    }
