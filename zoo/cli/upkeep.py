"""``zoo verify``: every byte of the weights that are kept, hashed again."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from ..cards.catalogue import catalogue, read_card_files
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable, ZooError
from ..files import cache_folder, content_folder, local_folder, user_folder
from ..version import __version__
from ..weights import care, lock, store
from ..weights.hosts import asking_once
from ..weights.mirror import shown_mirror
from ..weights.places import mirror_place, portable, weights_folder
from .options import encoder_names
from .output import NothingFound, json_option, print_json, print_notes, print_table, wrapped
from .output import record as json_record
from .weights import Had, announce, chosen, licence_notes, licence_of, named, obtained, places_of, require_all, size

_OWN_HASH = (store.REGISTERED, "sha256:")  # schemes of places that are their own hash, of which no lock file speaks
_REMEDIES = {
    "cache": "remove the weights with 'zoo cache rm NAME', a damaged record with 'zoo cache gc', and load again",
    "copy of a mirror": "remove them with 'zoo cache rm NAME', and load again",
    "mirror": "run 'zoo mirror DEST NAME' once more where the weights are whole",
    "registered": "restore the file from a backup, or register the encoder again from its checkpoint",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found of one record and its weights, or of weights without a record."""

    shelf: care.Shelf
    path: Path  # of the weights; of the record if that is damaged
    encoders: tuple[str, ...]
    state: Literal["whole", "damaged", "missing", "refused", "orphaned"]
    detail: str  # "" if it is whole
    size_bytes: int

    @property
    def is_problem(self) -> bool:
        """True unless a load can go well; weights without a record harm nobody."""
        return self.state not in ("whole", "orphaned")


@click.command("verify", epilog="\b\nExamples:\n  zoo verify\n  zoo verify dino_vitS16 'mae_*'\n  zoo verify --json")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=encoder_names)
@json_option
def verify_command(names: tuple[str, ...], as_json: bool) -> None:
    """Re-hash all weights that are kept.

    In the cache, of registered encoders, and in the folder that ZOO_MIRROR names: the SHA-256 of every file, the
    checksum of every record, and whether the file that it was made from is still the one of its card and of zoo.lock.
    Exit code 1 if anything is damaged, missing or contradicted, or a NAME is not kept. NAME is an encoder or a glob
    such as 'mae_*'.
    """
    cards = catalogue()
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
    complaints = [f"{len(problems)} of {len(found)} are not as they were kept."] if problems else []
    complaints += [f"Not kept here: {', '.join(absent)}."] if absent else []
    if complaints:
        raise NothingFound(" ".join(complaints))


def contradiction(record: store.Record, cards: Mapping[str, EncoderCard]) -> str:
    """What a lock file or the card says against the source of weights, so that no load takes them; "" if nothing.

    Raises
    ------
    StoreError
        If a lock file cannot be read.
    """
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
    """Encoders by the path of their record; and those of which only the manifest of a mirror knows."""
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
    click.echo(f"\n{n_whole} of {len(found)} whole, {size(total)}." if found else "Nothing is kept here yet.")
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
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("hashing", total=n_bytes)
        yield lambda n: bar.update(task, advance=n)


_MIRROR_EXAMPLES = """\b
Examples:
  zoo mirror /shared/zoo 'dino_*' mae_vitB16
  zoo mirror s3://bucket/zoo
  ZOO_MIRROR=/shared/zoo python train.py
"""


@click.command("mirror", epilog=_MIRROR_EXAMPLES)
@click.argument("destination", metavar="DEST")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=encoder_names)
@click.option("--where", "condition", metavar="EXPR", help="Only encoders for which this is true; see zoo list.")
@json_option
def mirror_command(destination: str, names: tuple[str, ...], condition: str | None, as_json: bool) -> None:
    """Copy weights to where there is no network.

    DEST is a folder or an address that fsspec understands, such as s3://bucket/folder. NAME is an encoder or a glob
    such as 'dino_*'; without names, everything that is in the cache or registered. Weights that are not there yet are
    fetched first. Where the environment variable ZOO_MIRROR names DEST, every load comes from there.

    Run it again to add encoders, to go on after an interruption, or to replace what is damaged: only what is missing is
    copied.
    """
    from ..weights.mirror import write_mirror

    _require_elsewhere(destination)
    cards = chosen(names, condition) if names or condition is not None else _kept_here()
    write_mirror(destination, [], _card_files(cards), zoo_version=__version__)  # says at once if it cannot be written
    done: list[tuple[Had, int]] = []
    with asking_once(places_of(cards)):
        for number, card in enumerate(cards, start=1):
            announce(number, len(cards), card.id)
            done.append(_mirrored(destination, card))
    if as_json:
        print_json(_mirror_document(destination, done))
    else:
        _print_mirrored(destination, done)
    require_all([had for had, _ in done])


def _require_elsewhere(destination: str) -> None:
    """Refuses a mirror in places where it would be taken for something else."""
    if not destination.strip():
        raise click.UsageError("Got an empty text for DEST, expected a folder or an address.")
    here = local_folder(destination)
    current = mirror_place()
    if current is not None and _same(destination, current):
        raise QueryError(
            f"The mirror {shown_mirror(destination)} is what ZOO_MIRROR names, so loads come from it; unset ZOO_MIRROR."
        )
    if here is None:
        return
    for what, folder in (("cache", weights_folder()), ("cache", cache_folder()), ("folder of your own", user_folder())):
        if here.resolve().is_relative_to(folder.resolve()):
            raise QueryError(f"The mirror {here} would lie in the {what}, {folder}; choose a folder outside of it.")


def _same(one: str, other: str) -> bool:
    here, there = local_folder(one), local_folder(other)
    if here is None or there is None:
        return one.rstrip("/") == other.rstrip("/")
    return here.resolve() == there.resolve()


def _kept_here() -> list[EncoderCard]:
    """Encoders that load here without a network."""
    cards = catalogue()
    known = care.by_places(cards.values())
    kinds = ("registered", "mirror", "copy of a mirror") if mirror_place() else ("registered", "cache")
    records = [item.record for shelf in care.shelves() if shelf.kind in kinds for item in care.stored(shelf)]
    ids = {name for found in records if found is not None for name in care.readers(found, known)}
    kept = [card for card in cards.values() if card.id in ids]
    if not kept:
        raise NothingFound("Nothing is in the cache and nothing is registered; name the encoders to mirror.")
    return kept


def _mirrored(destination: str, card: EncoderCard) -> tuple[Had, int]:
    """Copies one encoder; returns what became of it, and the bytes that were copied."""
    from ..weights.mirror import Item, write_mirror

    if card.is_untrained:
        return Had(card=card, state="nothing to fetch"), 0
    try:
        had, found = obtained(card)
        _require_whole(destination, found.path, found.record)
        origins = (
            replace(one, place=portable(one.place), address=portable(one.address)) for one in found.record.origins
        )
        record = replace(found.record, origins=tuple(origins))
        item = Item(encoder=card.id, record=record, path=found.path, licence=licence_of(card))
        return had, write_mirror(destination, [item], {}, zoo_version=__version__)
    except WeightsUnavailable as error:
        return Had(card=card, state="failed", reason=str(error), unreached=error.unreached), 0
    except ZooError as error:
        return Had(card=card, state="failed", reason=str(error)), 0


def _require_whole(destination: str, path: Path, record: store.Record) -> None:
    """Removes damaged weights from a mirror in a folder, and refuses to copy damaged ones."""
    here = local_folder(destination)
    there = None if here is None else here / "tensors" / path.name
    if there is not None and there.is_file():
        if not care.damage(there, record):
            return
        try:
            there.unlink()
        except OSError as error:
            raise StoreError(f"{there} is damaged and cannot be removed ({error.strerror}); remove it.") from error
    damage = care.damage(path, record)
    if damage:
        raise WeightsRefused(f"The weights {path} are damaged: {damage}; run 'zoo verify', which says what to do.")


def _card_files(cards: Iterable[EncoderCard]) -> dict[str, bytes]:
    """All shipped card files, and those of the user's own that the encoders need, by their path in the mirror."""
    shipped, known = content_folder("metadata"), catalogue()
    files: dict[str, bytes] = {}
    own: dict[str, tuple[Path, bytes]] = {}  # by encoder
    for path, content in read_card_files().items():
        if path.is_relative_to(shipped):
            files[f"shipped/{path.relative_to(shipped).as_posix()}"] = content
        else:
            own |= {encoder: (path, content) for encoder in _encoders_of(content) if encoder in known}
    wanted = [card.id for card in cards if card.id in own]
    while wanted:
        path, content = own[wanted.pop()]
        name = f"own/{_relative(path)}"
        if name not in files:
            files[name] = _without_paths(path, content)
            wanted += [other for other in _named_in(content) if other in own]
    return files


def _without_paths(path: Path, content: bytes) -> bytes:
    """A card file that names no file of this machine: :func:`zoo.weights.places.portable` names instead."""
    for place in sorted(_places(content), key=len, reverse=True):  # lest one that begins another one break it
        content = content.replace(place.encode(), portable(place).encode())
    if left := sorted(place for place in _places(content) if portable(place) != place):
        raise StoreError(
            f"The card file {path} names {left[0]!r} with escapes, and a path of this machine is not copied; write it "
            "plainly, or relative to your own folder."
        )
    return content


def _places(content: bytes) -> set[str]:
    """Every place that a card file names."""
    document = tomllib.loads(content.decode("utf-8-sig"))
    found: list[Any] = []
    for facts in (document.get("defaults", {}), *document["encoders"].values()):
        parts = [facts.get(part, {}) if isinstance(facts, dict) else {} for part in ("weights", "provenance")]
        for part in (part for part in parts if isinstance(part, dict)):
            found.append(part.get("url"))
            found += [place for name in ("mirrors", "companions") for place in part.get(name) or ()]
    return {place for place in found if isinstance(place, str)}


def _encoders_of(content: bytes) -> Iterable[str]:
    try:
        encoders = tomllib.loads(content.decode("utf-8-sig")).get("encoders")
    except ValueError:  # a broken file, of which the catalogue warns
        return ()
    return encoders if isinstance(encoders, dict) else ()


def _relative(path: Path) -> str:
    """Below ``metadata/`` of the user, or below that of the mirror that brought the file."""
    home = user_folder() / "metadata"
    current = local_folder(mirror_place() or "memory://")
    root = home if path.is_relative_to(home) or current is None else current / "metadata" / "own"
    return path.relative_to(root).as_posix()


def _named_in(content: bytes) -> list[str]:
    """Encoders on whose cards those of this file are built."""
    encoders = tomllib.loads(content.decode("utf-8-sig"))["encoders"].values()
    tables = [facts for facts in encoders if isinstance(facts, dict)]
    weights = [facts.get("weights") for facts in tables]
    named = [facts.get("like") for facts in tables]
    named += [part.get("same_file_as") for part in weights if isinstance(part, dict)]
    return [name for name in named if isinstance(name, str)]


def _print_mirrored(destination: str, done: Sequence[tuple[Had, int]]) -> None:
    rows = []
    for had, n_copied in done:
        whole = had.record.size_bytes if had.record else 0
        state: str = "nothing to copy" if had.card.is_untrained else had.state
        if had.record is not None:
            state = "copied" if n_copied else "there"
        rows.append([had.card.id, state, size(whole) if whole else "", licence_of(had.card)])
    print_table(["encoder", "mirror", "size", "licence"], rows, right=[2])
    print_notes(
        [
            f"{size(sum(n for _, n in done))} copied",
            "whoever hands these weights on is bound by their licences",
            *licence_notes(had.card for had, _ in done),
        ]
    )
    click.echo(f"\nTo load from there:\n  export ZOO_MIRROR={shlex.quote(_as_named(destination))}")


def _as_named(destination: str) -> str:
    return str(local_folder(destination) or destination)


def _mirror_document(destination: str, done: Sequence[tuple[Had, int]]) -> dict[str, Any]:
    return {
        "mirror": str(local_folder(destination) or shown_mirror(destination)),
        "copied_bytes": sum(n for _, n in done),
        "n_failed": sum(had.state == "failed" for had, _ in done),
        "encoders": [
            {
                "encoder": had.card.id,
                "state": had.state,
                "reason": had.reason or None,
                "copied_bytes": n_copied,
                "size_bytes": had.record.size_bytes if had.record else None,
                "sha256": had.record.sha256 if had.record else None,
                **json_record({"licence": had.card.licence.weights, "availability": had.card.weights.availability}),
            }
            for had, n_copied in done
        ],
    }


_EXPORT_EXAMPLES = """\b
Examples:
  zoo export dino_vitS16 --hub exports/dino_vitS16
  hf upload OWNER/dino_vitS16 exports/dino_vitS16
"""


@click.command("export", epilog=_EXPORT_EXAMPLES)
@click.argument("name", shell_complete=encoder_names)
@click.option(
    "--hub",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write: absent, empty, or an untouched earlier export of the same encoder.",
)
@json_option
def export_command(name: str, folder: Path, as_json: bool) -> None:
    """Write a folder for the Hugging Face Hub.

    It gets the converted weights, byte for byte; config.json with the facts that are needed to build and to use the
    encoder, and the source of the weights; and a model card with the measured results. The weights are fetched first if
    they are not there. Nothing is uploaded.
    """
    from ..hub.export import export_to_hub_folder, require_exportable
    from ..hub.modelcard import redistribution_note

    card = catalogue()[name]
    require_exportable(card, folder)
    _, found = obtained(card)
    paths = export_to_hub_folder(card, found, folder)
    note = redistribution_note(card)
    sizes = {path.name: path.stat().st_size for path in paths}
    if as_json:
        files = [{"file": file, "size_bytes": n_bytes} for file, n_bytes in sizes.items()]
        print_json(
            {"encoder": card.id, "folder": str(folder), "sha256": found.record.sha256, "note": note, "files": files}
        )
        return
    listed = ", ".join(f"{file} ({size(n_bytes)})" for file, n_bytes in sizes.items())
    click.echo(wrapped(f"Wrote {card.id} to {folder}: {listed}."))
    if note:
        click.secho(wrapped(note), fg="yellow", err=True)
