"""``zoo verify``: every byte of the weights that are kept, hashed again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from ..cards import catalogue
from ..errors import StoreError, WeightsRefused, WeightsUnavailable
from ..metadata import EncoderCard, Missing
from ..weights import care, lock, store
from .cache import named, size
from .options import encoder_names
from .output import NothingFound, json_option, print_json, print_notes, print_table

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
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Re-hash all weights that are kept.

    In the cache, of registered encoders, and in the folder that ZOO_MIRROR names: the SHA-256 of every file, the
    checksum of every record, and whether the file that it was made from is still the one of its card and of zoo.lock.
    Exit code 1 if anything is damaged, missing or contradicted, or a NAME is not kept. NAME is an encoder or a glob
    such as 'mae_*'.
    """
    cards = catalogue()
    shelves = _shelves()
    among = everything = [item for shelf in shelves for item in care.kept(shelf)]
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
        print_json(_document(found, problems, absent))
    else:
        _print(found, problems, shelves)
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
    shelves: Sequence[care.Shelf], everything: Sequence[care.Kept], cards: Mapping[str, EncoderCard]
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
    among: Sequence[care.Kept],
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


def _orphans(shelf: care.Shelf, everything: Sequence[care.Kept]) -> Iterator[Finding]:
    needed = {item.weights for item in everything}
    detail = "no record speaks of it"
    for path in sorted((shelf.folder / "tensors").glob("*.safetensors")):
        if path in needed:
            continue
        with suppress(FileNotFoundError):  # removed by another process in the meantime
            n = path.stat().st_size
            yield Finding(shelf=shelf, path=path, encoders=(), state="orphaned", detail=detail, size_bytes=n)


def _print(found: Sequence[Finding], problems: Sequence[Finding], shelves: Sequence[care.Shelf]) -> None:
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


def _document(found: Sequence[Finding], problems: Sequence[Finding], absent: Sequence[str]) -> dict[str, Any]:
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
