"""``zoo cache`` and ``zoo verify``: list, remove, tidy and re-hash the stored weights."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import MissingExtra, StoreError, WeightsRefused, WeightsUnavailable
from ..files import user_folder
from ..weights import care, lock, store
from ..weights.places import shown, weights_folder
from .facts import named
from .options import encoder_names
from .output import (
    NothingFound,
    json_option,
    place_name,
    print_json,
    print_notes,
    print_table,
    require_agreement,
    size,
    wrapped,
)

_CACHE_EXAMPLES = """\b
Examples:
  zoo cache ls
  zoo cache rm 'mae_*' --yes
  zoo cache gc --dry-run
"""


@click.group("cache", epilog=f"{_CACHE_EXAMPLES}\n\b\nEvery one of them takes --json.\n")
def cache_command() -> None:
    """List, remove or tidy the stored weights.

    They lie in $ZOO_CACHE/weights, or below $TORCH_HOME, or else in your cache folder; 'zoo doctor' says where that is.
    """


@cache_command.command("ls", epilog="\b\nExample:\n  zoo cache ls")
@json_option
def ls(as_json: bool) -> None:
    """List the stored weights, and which encoders read them.

    Encoders that take other features of the same network share their weights. The day of the last reading is as your
    file system keeps it; verifying and mirroring do not count.
    """
    found = _in_cache()
    known = care.by_places(catalogue().with_unlisted.values())
    rows = sorted((_row(item, known) for item in found), key=lambda row: str(row["encoders"]).casefold())
    total = sum(status.st_size for status in {item.weights: item.status for item in found}.values() if status)
    partial = _partial_bytes()
    folder = weights_folder()
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "n_records": len(rows),
                "size_bytes": total,
                "partial_bytes": partial,
                "weights": rows,
            }
        )
        return
    if rows:
        headers = ["encoders", "size", "from", "layout", "kept since", "last read"]
        print_table(headers, [_cells(row) for row in rows], right=[1])
    n = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}, {size(total)}" if rows else "nothing is stored"
    notes = [f"{n} in {folder}"]
    if partial:
        notes.append(f"{size(partial)} of unfinished downloads")
    if any(row["state"] != "kept" for row in rows):
        notes.append("damaged or missing weights: zoo verify says which, zoo cache gc removes them")
    print_notes([*notes, *_registered_note()])


@cache_command.command("rm", epilog="\b\nExamples:\n  zoo cache rm dino_vitS16\n  zoo cache rm 'mae_*' --yes")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=encoder_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def rm(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove weights from the cache.

    NAME is an encoder or a glob such as 'mae_*'. All that was made from an encoder's file goes, also what other
    encoders read; the next load fetches it again. Registered encoders are left alone, and so are the features of the
    first load, with which 'zoo check' compares what the next one brings.
    """
    cards = catalogue().with_unlisted
    everything = _in_cache()
    converted_for = {item.record.encoder for item in everything if item.record}
    wanted = named(names, dict.fromkeys([*cards, *sorted(converted_for - set(cards))]))
    found = [item for item in everything if _is_wanted(item, wanted)]
    if not found:
        raise NothingFound(_why_nothing(wanted))
    known = care.by_places(cards.values())
    rows = [_row(item, known) for item in found]
    if not yes:
        lines = [f"{', '.join(row['encoders'])}: {size(row['size_bytes'] or 0)}" for row in rows]
        require_agreement(lines, "Remove these weights?")
    freed = care.remove(found)
    left = {encoder for item in _in_cache() if item.record for encoder in care.readers(item.record, known)}
    gone = sorted({encoder for row in rows for encoder in row["encoders"]} - left)
    if as_json:
        print_json({"freed_bytes": freed, "encoders": gone, "removed": rows})
    else:
        click.echo(wrapped(f"Removed the weights of {', '.join(gone)}; {size(freed)} are free again."))


@cache_command.command("gc", epilog="\b\nExamples:\n  zoo cache gc --dry-run\n  zoo cache gc")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Remove unused files: collect garbage.

    Abandoned downloads, files that a crash left half-written, weights without a record, damaged records, and what an
    older version has converted in another way. Safe while others load: what is younger than an hour stays, unless it is
    certainly unused.
    """
    layouts, note = _layouts()
    items = care.garbage(layouts=layouts)
    freed, failures = (sum(item.size_bytes for item in items), []) if dry_run else care.discard(items)
    rows = [{"path": str(item.path), "reason": item.reason, "size_bytes": item.size_bytes} for item in items]
    if as_json:
        print_json(
            {"dry_run": dry_run, "freed_bytes": freed, "failures": failures, "note": note or None, "files": rows}
        )
    else:
        folder = weights_folder()
        if items:
            cells = [[_below(item.path, folder), size(item.size_bytes), item.reason] for item in items]
            print_table(["file", "size", "why"], cells, right=[1])
        done = f"{'would be' if dry_run else 'are'} free again"
        click.echo(wrapped(f"{size(freed)} {done}." if items else f"Nothing in {folder} is without use."))
        print_notes([note] if note else [])
    if failures:
        raise NothingFound(" ".join(failures))


def _in_cache() -> list[care.Stored]:
    """Everything stored in the cache and in its copies of mirrors."""
    shelves = [shelf for shelf in care.shelves() if shelf.kind in ("cache", "copy of a mirror")]
    return [item for shelf in shelves for item in care.stored(shelf) if not item.is_registered]


def _row(item: care.Stored, known: dict[care.Places, list[Any]]) -> dict[str, Any]:
    record = item.record
    if record is None:
        return {"encoders": [], "state": "damaged", "record": str(item.path), "store": item.shelf.kind}
    read = None if item.status is None else datetime.date.fromtimestamp(item.status.st_atime).isoformat()
    return {
        "encoders": list(care.readers(record, known)),
        "state": "kept" if item.status is not None else "missing",
        "size_bytes": None if item.status is None else item.status.st_size,
        "places": [shown(origin.place) for origin in record.origins],
        "layout": record.layout,
        "layout_version": record.layout_version,
        "kept_since": record.created,
        "last_read": read,
        "sha256": record.sha256,
        "record": str(item.path),
        "store": item.shelf.kind,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    if row["state"] == "damaged":
        return [f"({Path(row['record']).name} is damaged)", "", "", "", "", ""]
    amount = "missing" if row["state"] == "missing" else size(row["size_bytes"])
    place = place_name(row["places"][0]) + (" (mirror)" if row["store"] == "copy of a mirror" else "")
    return [", ".join(row["encoders"]), amount, place, row["layout"], row["kept_since"], row["last_read"] or ""]


def _partial_bytes() -> int:
    total = 0
    for path in (weights_folder() / "partial").glob("*.part"):
        with suppress(FileNotFoundError):  # finished in the meantime
            total += path.stat().st_size
    return total


def _registered_note() -> list[str]:
    own = [
        item for shelf in care.shelves() if shelf.kind != "mirror" for item in care.stored(shelf) if item.is_registered
    ]
    total = sum(status.st_size for status in {item.weights: item.status for item in own}.values() if status)
    return [f"{len(own)} registered, {size(total)}, in {_registered_folder()}: not part of the cache"] if own else []


def _registered_folder() -> Path:
    return user_folder() / "weights"


def _is_wanted(item: care.Stored, wanted: Sequence[str]) -> bool:
    cards = catalogue()
    return item.record is not None and any(
        care.concerns(item.record, cards[name]) if name in cards else item.record.encoder == name for name in wanted
    )


def _why_nothing(wanted: Sequence[str]) -> str:
    cards = catalogue()
    registered = [
        name for name in wanted if name in cards and str(cards[name].weights.url).startswith(store.REGISTERED)
    ]
    if registered:
        return (
            f"{', '.join(registered)}: registered, so the weights are in {_registered_folder()}, which rm leaves alone."
        )
    names = ", ".join(wanted[:5]) + (f" and {len(wanted) - 5} others" if len(wanted) > 5 else "")
    return f"The cache has no weights of {names}."


def _layouts() -> tuple[dict[str, int] | None, str]:
    """Version of every layout, or None and a note if a library is missing."""
    try:
        from ..encoders.layouts import LAYOUTS
    except (MissingExtra, ModuleNotFoundError) as error:
        return None, f"what older versions converted was left alone, because {error.name!r} is not installed"
    return {name: layout.version for name, layout in LAYOUTS.items()}, ""


def _below(path: Path, folder: Path) -> str:
    """A path as a table shows it: below the folder, its hash cut short."""
    below = path.relative_to(folder)
    return str(below.with_name(re.sub(r"^([0-9a-f]{12})[0-9a-f]{20,}.*", r"\1...", below.name)))


_OWN_HASH = (store.REGISTERED, "sha256:")  # schemes of places that are their own hash, of which no lock file speaks

_REMEDIES = {
    "cache": "remove the weights with 'zoo cache rm NAME', a damaged record with 'zoo cache gc', and load again",
    "copy of a mirror": "remove them with 'zoo cache rm NAME', and load again",
    "mirror": "run 'zoo mirror DEST NAME' once more where the weights are whole",
    "registered": "restore the file from a backup, or register the encoder again from its checkpoint",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result for one record and its weights, or for weights without a record."""

    shelf: care.Shelf
    path: Path  # of the weights; of the record if that is damaged
    encoders: tuple[str, ...]
    state: Literal["whole", "damaged", "missing", "refused", "orphaned"]
    detail: str  # "" if it is whole
    size_bytes: int

    @property
    def is_problem(self) -> bool:
        """True unless a load succeeds; weights without a record are harmless."""
        return self.state not in ("whole", "orphaned")


@click.command("verify", epilog="\b\nExamples:\n  zoo verify\n  zoo verify dino_vitS16 'mae_*'\n  zoo verify --json")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=encoder_names)
@json_option
def verify_command(names: tuple[str, ...], as_json: bool) -> None:
    """Re-hash all stored weights.

    In the cache, of registered encoders, and in the folder that ZOO_MIRROR names: the SHA-256 of every file, the
    checksum of every record, and whether the file that it was made from is still the one of its card and of zoo.lock.
    Exit code 1 if anything is damaged, missing or contradicted, or a NAME is not kept. NAME is an encoder or a glob
    such as 'mae_*'.
    """
    cards = catalogue().with_unlisted
    shelves = _shelves()
    among = everything = [item for shelf in shelves for item in care.stored(shelf)]
    whose, lost = _whose(shelves, everything, cards)
    absent: list[str] = []
    if names:
        ids = dict.fromkeys([*cards, *sorted({name for readers in whose.values() for name in readers} - set(cards))])
        wanted = {pattern: set(named([pattern], ids)) for pattern in names}
        either = {name for group in wanted.values() for name in group}
        among = [item for item in everything if either.intersection(whose[item.path])]
        lost = [one for one in lost if either.intersection(one.encoders)]
        kept = {name for readers in whose.values() for name in readers}
        absent = [pattern for pattern, group in wanted.items() if not group & kept]
    among = sorted(among, key=lambda item: (shelves.index(item.shelf), [name.casefold() for name in whose[item.path]]))
    with _progress(sum(item.status.st_size for item in among if item.status), show=not as_json) as advance:
        found = [*_verified(among, whose, cards, advance), *lost]
    if not names:
        found += [orphan for shelf in shelves for orphan in _orphans(shelf, everything)]
    problems = [one for one in found if one.is_problem]
    if as_json:
        print_json(_verify_document(found, problems, absent))
    else:
        _print_verified(found, problems, shelves)
    complaints = [f"{len(problems)} of {len(found)} differ from what was stored."] if problems else []
    complaints += [f"Not kept here: {', '.join(absent)}."] if absent else []
    if complaints:
        raise NothingFound(" ".join(complaints))


def contradiction(record: store.Record, cards: Mapping[str, EncoderCard]) -> str:
    """How a lock file or the card contradicts the source of weights, so that loads refuse them; "" if neither does."""
    for origin in record.origins:
        if origin.place.startswith(_OWN_HASH):
            continue
        try:
            entry = lock.known(origin.place)
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


def _shelves() -> list[care.Shelf]:
    shelves = care.shelves()
    for shelf in shelves:
        if shelf.kind == "mirror" and not shelf.folder.is_dir():
            raise WeightsUnavailable(f"There is no mirror at {shelf.folder}; correct ZOO_MIRROR or unset it.")
    return shelves


def _whose(
    shelves: Sequence[care.Shelf], everything: Sequence[care.Stored], cards: Mapping[str, EncoderCard]
) -> tuple[dict[Path, tuple[str, ...]], list[Finding]]:
    """Encoders by the path of their record; and findings for records that only the manifest of a mirror lists."""
    known = care.by_places(cards.values())
    whose = {item.path: care.readers(item.record, known) if item.record else () for item in everything}
    detail = "the manifest lists its record, which is not there"
    lost = []
    for shelf in shelves:
        for path, encoders in _listed(shelf).items():
            if path not in whose:
                found = Finding(shelf=shelf, path=path, encoders=encoders, state="missing", detail=detail, size_bytes=0)
                lost.append(found)
            whose[path] = whose.get(path) or encoders  # also of a record that is damaged
    return whose, lost


def _listed(shelf: care.Shelf) -> dict[Path, tuple[str, ...]]:
    """The records that the manifest of a mirror lists, and the encoders of each."""
    path = shelf.folder / "manifest.json"
    if shelf.kind != "mirror" or not path.is_file():
        return {}
    found: dict[Path, tuple[str, ...]] = {}
    try:
        for encoder, facts in json.loads(path.read_bytes())["encoders"].items():
            record = store.record_path(shelf.folder, facts["record"])
            found[record] = (*found.get(record, ()), encoder)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); make it readable.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error!r}); remove it, and run 'zoo mirror DEST' again.") from error
    return found


def _verified(
    among: Sequence[care.Stored],
    whose: Mapping[Path, tuple[str, ...]],
    cards: Mapping[str, EncoderCard],
    progress: Callable[[int], None],
) -> Iterator[Finding]:
    hashed: dict[Path, str] = {}
    for item in among:
        record, weights, status = item.record, item.weights, item.status
        state: Literal["whole", "damaged", "missing", "refused"] = "damaged"
        if record is None or weights is None:
            detail = "the record is damaged"
        elif record.key != item.path.stem:
            detail = "the record has the name of another one"
        elif status is None:
            state, detail = "missing", "the weights are not there"
        else:
            if weights not in hashed:
                hashed[weights] = care.damage(weights, record, progress=progress)
            detail = hashed[weights]
            if not detail:
                detail = contradiction(record, cards)
                state = "refused" if detail else "whole"
        yield Finding(
            shelf=item.shelf,
            path=weights or item.path,
            encoders=whose[item.path],
            state=state,
            detail=detail,
            size_bytes=status.st_size if status else 0,
        )


def _orphans(shelf: care.Shelf, everything: Sequence[care.Stored]) -> Iterator[Finding]:
    needed = {item.weights for item in everything}
    detail = "no record speaks of it"
    for path in sorted((shelf.folder / "tensors").glob("*.safetensors")):
        if path in needed:
            continue
        with suppress(FileNotFoundError):  # removed by another process in the meantime
            n = path.stat().st_size
            yield Finding(shelf=shelf, path=path, encoders=(), state="orphaned", detail=detail, size_bytes=n)


def _print_verified(found: Sequence[Finding], problems: Sequence[Finding], shelves: Sequence[care.Shelf]) -> None:
    if found:
        rows = [
            [", ".join(one.encoders) or f"({one.path.name[:12]}...)", one.state, size(one.size_bytes), one.shelf.kind]
            for one in found
        ]
        print_table(["encoders", "state", "size", "where"], rows, right=[2])
    details = [f"{one.path}: {one.detail}" for one in found if one.detail]
    if details:
        click.echo("\n" + "\n".join(details))
    notes = [f"{shelf.kind}: {shelf.folder}" for shelf in shelves if any(one.shelf == shelf for one in found)]
    notes += [
        f"{kind}: {_REMEDIES[kind]}"
        for kind in dict.fromkeys(one.shelf.kind for one in problems if one.state != "refused")
    ]
    n_whole = sum(one.state == "whole" for one in found)
    total = sum({one.path: one.size_bytes for one in found if one.state == "whole"}.values())
    click.echo(f"\n{n_whole} of {len(found)} whole, {size(total)}." if found else "Nothing is stored here yet.")
    print_notes(notes)


def _verify_document(found: Sequence[Finding], problems: Sequence[Finding], absent: Sequence[str]) -> dict[str, Any]:
    return {
        "sound": not problems and not absent,
        "n_problems": len(problems),
        "not_kept": list(absent),
        "weights": [
            {
                "encoders": list(one.encoders),
                "state": one.state,
                "detail": one.detail or None,
                "size_bytes": one.size_bytes,
                "path": str(one.path),
                "store": one.shelf.kind,
            }
            for one in found
        ],
    }


@contextmanager
def _progress(n_bytes: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; nothing in a pipe or with --json."""
    if not show or not n_bytes or not sys.stderr.isatty():
        yield lambda n: None
        return
    from ..progress import Bar

    bar = Bar("B")
    bar.start("hashing", n_bytes, 0)
    try:
        yield bar.advance
    finally:
        bar.end()
