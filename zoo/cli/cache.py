"""``zoo cache``: which weights are kept, whose they are, and how to be rid of them."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..cards import catalogue
from ..errors import MissingExtra, UnknownName
from ..files import user_folder
from ..representations import MARK, own_id
from ..weights import care, store
from ..weights.environment import weights_folder
from ..weights.places import shown
from .options import encoder_names
from .output import NothingFound, json_option, print_json, print_notes, print_table, wrapped

_EPILOG = """\b
Examples:
  zoo cache ls
  zoo cache rm 'mae_*' --yes
  zoo cache gc --dry-run
"""


@click.group("cache", epilog=f"{_EPILOG}\n\b\nEvery one of them takes --json.\n")
def command() -> None:
    """List, remove or tidy the weights that are kept.

    They lie in $ZOO_CACHE/weights, or below $TORCH_HOME, or else in your cache folder; 'zoo doctor' says where that is.
    """


@command.command("ls", epilog="\b\nExample:\n  zoo cache ls")
@json_option
def ls(as_json: bool) -> None:
    """List the weights that are kept, and which encoders read them.

    Encoders that take other features of the same network share their weights. The day of the last reading is as your
    file system keeps it; verifying and mirroring do not count.
    """
    found = _in_cache()
    known = care.by_places(catalogue().values())
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
    n = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}, {size(total)}" if rows else "nothing is kept"
    notes = [f"{n} in {folder}"]
    if partial:
        notes.append(f"{size(partial)} of unfinished downloads")
    if any(row["state"] != "kept" for row in rows):
        notes.append("damaged or missing weights: zoo verify says which, zoo cache gc removes them")
    print_notes([*notes, *_registered_note()])


@command.command("rm", epilog="\b\nExamples:\n  zoo cache rm dino_vitS16\n  zoo cache rm 'mae_*' --yes")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=encoder_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def rm(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove weights from the cache.

    NAME is an encoder or a glob such as 'mae_*'. All that was made from an encoder's file goes, also what other
    encoders read; the next load fetches it again. Registered encoders are left alone, and so are the features of the
    first load, with which 'zoo check' compares what the next one brings.
    """
    cards = catalogue()
    everything = _in_cache()
    converted_for = {item.record.encoder for item in everything if item.record}
    wanted = named(names, dict.fromkeys([*cards, *sorted(converted_for - set(cards))]))
    found = [item for item in everything if _is_wanted(item, wanted)]
    if not found:
        raise NothingFound(_why_nothing(wanted))
    known = care.by_places(cards.values())
    rows = [_row(item, known) for item in found]
    if not yes and not _agrees(rows):
        raise NothingFound("Nothing was removed.")
    freed = care.remove(found)
    left = {encoder for item in _in_cache() if item.record for encoder in care.readers(item.record, known)}
    gone = sorted({encoder for row in rows for encoder in row["encoders"]} - left)
    if as_json:
        print_json({"freed_bytes": freed, "encoders": gone, "removed": rows})
    else:
        click.echo(wrapped(f"Removed the weights of {', '.join(gone)}; {size(freed)} are free again."))


@command.command("gc", epilog="\b\nExamples:\n  zoo cache gc --dry-run\n  zoo cache gc")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Remove what is of no use to anybody: collect garbage.

    Downloads that nobody goes on with, files that a crash left half-written, weights without a record, damaged records,
    and what an older version has converted in another way. Safe while others load: what is younger than an hour stays,
    unless it is certain that nobody uses it.
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


def named(patterns: Sequence[str], known: Collection[str]) -> list[str]:
    """Ids by name or by glob, without regard to case, in the order of the patterns and each of them once.

    Raises
    ------
    UnknownName
        If a name is no encoder's; lists the nearest ones.
    NothingFound
        If a glob matches none.
    """
    from fnmatch import fnmatchcase

    by_folded = {encoder.casefold(): encoder for encoder in known}
    found: dict[str, None] = {}
    for pattern in patterns:
        folded = pattern.casefold()
        if folded in by_folded:
            found[by_folded[folded]] = None
            continue
        if MARK in pattern:  # other features of an encoder have its weights
            found.update(dict.fromkeys(named([own_id(pattern)], known)))
            continue
        if not any(mark in pattern for mark in "*?["):
            raise UnknownName("encoder", pattern, known, hint="Run 'zoo list' to see them all.")
        matching = [encoder for encoder in known if fnmatchcase(encoder.casefold(), folded)]
        if not matching:
            raise NothingFound(f"No encoder has a name like {pattern!r}.")
        found.update(dict.fromkeys(matching))
    return list(found)


def size(n_bytes: float) -> str:
    """Bytes as people read them, in the units of a download's progress bar.

    >>> [size(n) for n in (0, 999, 86_664_000, 1_011_223_040)]
    ['0 B', '999 B', '86.7 MB', '1.0 GB']
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.95:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def where(place: str) -> str:
    """A place as a column of a table holds it: whose it is.

    >>> [where(place) for place in ("https://host/a.pth", "hf:owner/repository/a.pth", "timm:vit_small.dino")]
    ['host', 'hf:owner/repository', 'timm']
    """
    scheme, _, rest = place.partition(":")
    match scheme:
        case "http" | "https":
            return rest.removeprefix("//").partition("/")[0].rpartition("@")[2]
        case "hf":
            return "/".join(place.split("/")[:2])
        case "sha256":
            return "your own file"
    return scheme if rest else Path(place).name


def _in_cache() -> list[care.Kept]:
    """What is kept in the cache and in its copies of mirrors."""
    shelves = [shelf for shelf in care.shelves() if shelf.kind in ("cache", "copy of a mirror")]
    return [item for shelf in shelves for item in care.kept(shelf) if not item.is_registered]


def _row(item: care.Kept, known: dict[care.Places, list[Any]]) -> dict[str, Any]:
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
    place = where(row["places"][0]) + (" (mirror)" if row["store"] == "copy of a mirror" else "")
    return [", ".join(row["encoders"]), amount, place, row["layout"], row["kept_since"], row["last_read"] or ""]


def _partial_bytes() -> int:
    total = 0
    for path in (weights_folder() / "partial").glob("*.part"):
        with suppress(FileNotFoundError):  # finished in the meantime
            total += path.stat().st_size
    return total


def _registered_note() -> list[str]:
    own = [
        item for shelf in care.shelves() if shelf.kind != "mirror" for item in care.kept(shelf) if item.is_registered
    ]
    total = sum(status.st_size for status in {item.weights: item.status for item in own}.values() if status)
    return [f"{len(own)} registered, {size(total)}, in {_registered_folder()}: not part of the cache"] if own else []


def _registered_folder() -> Path:
    return user_folder() / "weights"


def _is_wanted(item: care.Kept, wanted: Sequence[str]) -> bool:
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


def _agrees(rows: Sequence[dict[str, Any]]) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Got no --yes, expected it where nobody can be asked.")
    for row in rows:
        click.echo(wrapped(f"{', '.join(row['encoders'])}: {size(row['size_bytes'] or 0)}"), err=True)
    return click.confirm("Remove these weights?", err=True)


def _layouts() -> tuple[dict[str, int] | None, str]:
    """Version of every layout, and a note if that is not known."""
    try:
        from ..encoders.layouts import LAYOUTS
    except (MissingExtra, ModuleNotFoundError) as error:
        return None, f"what older versions converted was left alone, because {error.name!r} is not installed"
    return {name: layout.version for name, layout in LAYOUTS.items()}, ""


def _below(path: Path, folder: Path) -> str:
    """A path as a table shows it: below the folder, its hash cut short."""
    below = path.relative_to(folder)
    return str(below.with_name(re.sub(r"^([0-9a-f]{12})[0-9a-f]{20,}.*", r"\1...", below.name)))
