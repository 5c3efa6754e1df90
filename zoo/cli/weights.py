"""``zoo get``: weights fetched before they are needed."""

from __future__ import annotations

import datetime
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..cards.catalogue import catalogue
from ..cards.representations import MARK, own_id
from ..cards.schema import EncoderCard, Missing
from ..errors import MissingExtra, StoreError, UnknownName, WeightsUnavailable, ZooError
from ..files import user_folder
from ..weights import care, store
from ..weights.hosts import asking_once
from ..weights.mirror import shown_mirror
from ..weights.places import mirror_place, shown, weights_folder
from .options import encoder_names
from .output import NothingFound, json_option, print_json, print_notes, print_table, record, wrapped

if TYPE_CHECKING:
    from ..loading import Candidate

_CACHE_EXAMPLES = """\b
Examples:
  zoo cache ls
  zoo cache rm 'mae_*' --yes
  zoo cache gc --dry-run
"""


@click.group("cache", epilog=f"{_CACHE_EXAMPLES}\n\b\nEvery one of them takes --json.\n")
def cache_command() -> None:
    """List, remove or tidy the weights that are kept.

    They lie in $ZOO_CACHE/weights, or below $TORCH_HOME, or else in your cache folder; 'zoo doctor' says where that is.
    """


@cache_command.command("ls", epilog="\b\nExample:\n  zoo cache ls")
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


@cache_command.command("gc", epilog="\b\nExamples:\n  zoo cache gc --dry-run\n  zoo cache gc")
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


def _in_cache() -> list[care.Stored]:
    """What is kept in the cache and in its copies of mirrors."""
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


State = Literal["there", "fetched", "to fetch", "gone", "nothing to fetch", "failed"]
_GET_EXAMPLES = """\b
Examples:
  zoo get dino_vitS16 mae_vitB16
  zoo get 'dino_*' --dry-run
  zoo get --where 'family == "vit" and z_dim <= 384 and availability == "open"'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Had:
    """What has become of the weights of one encoder."""

    card: EncoderCard
    state: State
    record: store.Record | None = None
    reason: str = ""  # why it failed
    unreached: tuple[str, ...] = ()  # why each host cannot be reached, where nothing else is in the way
    seconds: float = 0.0

    @property
    def size_bytes(self) -> int | None:
        """Of the files that were or would be fetched; of the converted weights where they are there."""
        if self.record is None:
            known = self.card.weights.size_bytes
            return None if isinstance(known, Missing) or self.state == "nothing to fetch" else known
        if self.state == "there" or mirror_place():
            return self.record.size_bytes
        return sum(origin.size_bytes for origin in self.record.origins)

    @property
    def place(self) -> str | None:
        """From where the weights are, or would be."""
        if self.state == "nothing to fetch":
            return None
        mirror = mirror_place()
        if mirror and self.state != "there":
            return shown_mirror(mirror)
        url = self.card.weights.url
        if self.record is not None:
            return shown(self.record.origins[0].place)
        return None if isinstance(url, Missing) else shown(url)


@click.command("get", epilog=_GET_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=encoder_names)
@click.option("--where", "condition", metavar="EXPR", help="Only encoders for which this is true; see zoo list.")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched, and fetch nothing.")
@json_option
def get_command(names: tuple[str, ...], condition: str | None, dry_run: bool, as_json: bool) -> None:
    """Fetch the weights of encoders into the cache.

    They are checked, converted and kept, and the features of the first load recorded, as a load does it; later loads
    need no network. NAME is an encoder or a glob such as 'dino_*'. What fails does not keep the others from being
    fetched; exit code 1 if anything did.
    """
    cards = chosen(names, condition)
    had = []
    with asking_once(places_of(cards)):
        for number, card in enumerate(cards, start=1):
            if not dry_run:
                announce(number, len(cards), card.id)
            had.append(_seen(card) if dry_run else _gotten(card))
    if as_json:
        print_json(_document(had, dry_run))
    else:
        _print(had)
    require_all(had)


def chosen(names: Sequence[str], condition: str | None) -> list[EncoderCard]:
    """The cards that a user means by names, globs and a condition.

    Raises
    ------
    click.UsageError
        If there is neither.
    UnknownName, QueryError
        If a name or the condition cannot be understood.
    NothingFound
        If no encoder is meant.
    """
    cards = catalogue()
    if not names and condition is None:
        raise click.UsageError("Got no name, expected encoders or globs such as 'dino_*', or --where.")
    ids = named(names, cards) if names else list(cards)
    if condition is not None:
        from .facts import find_fact, kinds, satisfying, subjects
        from .where import parse_condition

        parsed = parse_condition(condition, kinds())
        among = subjects(ids, with_risks=any(find_fact(name).from_results for name in parsed.names))
        ids = [subject.card.id for subject in satisfying(parsed, among)]
        if not ids:
            raise NothingFound(f"No encoder {'of these ' if names else ''}satisfies {condition}.")
    return [cards[name] for name in ids]


def places_of(cards: Iterable[EncoderCard]) -> Iterator[str]:
    """Every place that the weights of encoders, or companions of them, may be had from."""
    for card in cards:
        for place in (card.weights.url, *card.weights.mirrors, *card.weights.companions):
            if not isinstance(place, Missing):
                yield place


def announce(number: int, total: int, encoder: str) -> None:
    """Says on a terminal which encoder comes next."""
    if sys.stderr.isatty() and total > 1:
        click.secho(f"({number} of {total}) {encoder}", dim=True, err=True)


def obtained(card: EncoderCard) -> tuple[Had, Any]:
    """The weights of a trained encoder, loaded once if they are not there; also where they are.

    Returns
    -------
    Had
    zoo.loading.StoredWeights

    Raises
    ------
    ZooError
        As a load.
    """
    from ..loading import cached, load

    choices = _candidates(card)
    was_there = _find(choices) is not None
    start = time.monotonic()
    found = cached(choices)
    if found is None:
        load(card.id)
        found = cached(choices)
    if found is None:
        raise StoreError(
            f"The weights of {card.id!r} load, but are not kept: {weights_folder()} cannot be written, or another "
            "process has removed them; set ZOO_CACHE to a folder that can be written, or try again."
        )
    state: State = "there" if was_there else "fetched"
    return Had(card=card, state=state, record=found.record, seconds=time.monotonic() - start), found


def require_all(had: Iterable[Had]) -> None:
    """Refuses to end well if anything failed.

    Raises
    ------
    NothingFound
        Names what failed and why.
    """
    failed = [one for one in had if one.state == "failed"]
    if failed:
        by_reason: dict[str, list[str]] = {}
        for one in failed:
            by_reason.setdefault("; ".join(one.unreached) or one.reason, []).append(one.card.id)
        reasons = "\n".join(f"  {', '.join(encoders)}: {reason}" for reason, encoders in by_reason.items())
        raise NothingFound(f"{len(failed)} of {len(list(had))} could not be had.\n{reasons}")


def licence_notes(cards: Iterable[EncoderCard]) -> list[str]:
    """What the licences of weights say that users must know before they use them."""
    restricted: dict[str, list[str]] = {}
    for card in cards:
        licence = card.licence.weights
        if licence is Missing.NOT_PUBLISHED:
            restricted.setdefault("no licence was published, ask the authors before you use", []).append(card.id)
        elif not isinstance(licence, Missing) and "-NC" in licence:
            restricted.setdefault(f"not for commercial use ({licence})", []).append(card.id)
        if card.weights.availability == "gated":
            restricted.setdefault("gated, its publisher grants access", []).append(card.id)
    return [f"{what}: {', '.join(encoders)}" for what, encoders in restricted.items()]


def licence_of(card: EncoderCard) -> str:
    """SPDX id of the licence of the weights, as a table shows it."""
    licence = card.licence.weights
    if isinstance(licence, Missing):
        return "?" if licence is Missing.NOT_PUBLISHED else "-"
    return licence


def _candidates(card: EncoderCard) -> list[Candidate]:
    from ..encoders import build_encoder
    from ..loading import weights_sources

    return weights_sources(card, build_encoder(card, device="meta"))


def _find(choices: Sequence[Candidate]) -> store.Record | None:
    """What a load would find on this machine; unlike it, this writes nothing, not even to a lock file."""
    kinds = ("registered", "mirror", "copy of a mirror") if mirror_place() else ("registered", "cache")
    folders = [shelf.folder for shelf in care.shelves() if shelf.kind in kinds]
    records = (store.find(folder, choice.key) for folder in folders for choice in choices)
    return next((found for found in records if found is not None), None)


def _seen(card: EncoderCard) -> Had:
    if card.is_untrained:
        return Had(card=card, state="nothing to fetch")
    try:
        found = _find(_candidates(card))
    except ZooError as error:
        return Had(card=card, state="failed", reason=str(error))
    if found is not None:
        return Had(card=card, state="there", record=found)
    return Had(card=card, state="gone" if card.weights.availability == "gone" else "to fetch")


def _gotten(card: EncoderCard) -> Had:
    if card.is_untrained:
        return Had(card=card, state="nothing to fetch")
    try:
        return obtained(card)[0]
    except WeightsUnavailable as error:
        return Had(card=card, state="failed", reason=str(error), unreached=error.unreached)
    except ZooError as error:
        return Had(card=card, state="failed", reason=str(error))


def _print(had: Sequence[Had]) -> None:
    rows = []
    for one in had:
        amount = "" if one.size_bytes is None or one.state == "failed" else size(one.size_bytes)
        seconds = f"{one.seconds:.0f} s" if one.state == "fetched" else ""
        place = "" if one.place is None or one.state == "failed" else where(one.place)
        rows.append([one.card.id, one.state, amount, seconds, place, licence_of(one.card)])
    print_table(["encoder", "weights", "size", "time", "from", "licence"], rows, right=[2, 3])
    print_notes([_summary(had), *licence_notes(one.card for one in had)])


def _summary(had: Sequence[Had]) -> str:
    counts = Counter(one.state for one in had)
    wanted = [one.card.weights for one in had if one.state == "to fetch"]
    n_files = len({(weights.url, weights.companions) for weights in wanted})
    shared = f" ({n_files} file{'s' if n_files > 1 else ''})" if n_files < len(wanted) else ""
    fetched = sum(one.size_bytes or 0 for one in had if one.state == "fetched")
    parts = {"to fetch": shared, "fetched": f" ({size(fetched)})"}
    mirror = mirror_place()
    kept = f"loads come from {shown_mirror(mirror)}" if mirror else f"kept in {weights_folder()}"
    said = [f"{n} {state}{parts.get(state, '')}" for state, n in counts.items()]
    return f"{', '.join(said)}    {kept}"


def _document(had: Sequence[Had], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "n_failed": sum(one.state == "failed" for one in had),
        "encoders": [
            {
                "encoder": one.card.id,
                "state": one.state,
                "reason": one.reason or None,
                "size_bytes": one.size_bytes,
                "seconds": round(one.seconds, 3),
                "place": one.place,
                "sha256": one.record.sha256 if one.record else None,
                **record({"licence": one.card.licence.weights, "availability": one.card.weights.availability}),
            }
            for one in had
        ],
    }
