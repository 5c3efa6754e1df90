"""``zoo mirror``: weights, cards and a manifest, copied to where machines without a network find them."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..cards import catalogue, read_card_files
from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable, ZooError
from ..files import cache_folder, content_folder, local_folder, user_folder
from ..metadata import EncoderCard
from ..version import __version__
from ..weights import care, store
from ..weights.environment import mirror_place, weights_folder
from ..weights.hosts import asking_once
from ..weights.mirror import shown_mirror
from ..weights.places import portable
from .cache import size
from .get import Had, announce, chosen, licence_notes, licence_of, obtained, places_of, require_all
from .options import encoder_names
from .output import NothingFound, json_option, print_json, print_notes, print_table
from .output import record as json_record

_EPILOG = """\b
Examples:
  zoo mirror /shared/zoo 'dino_*' mae_vitB16
  zoo mirror s3://bucket/zoo
  ZOO_MIRROR=/shared/zoo python train.py
"""


@click.command("mirror", epilog=_EPILOG)
@click.argument("destination", metavar="DEST")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=encoder_names)
@click.option("--where", "condition", metavar="EXPR", help="Only encoders for which this is true; see zoo list.")
@json_option
def command(destination: str, names: tuple[str, ...], condition: str | None, as_json: bool) -> None:
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
        print_json(_document(destination, done))
    else:
        _print(destination, done)
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
    records = [item.record for shelf in care.shelves() if shelf.kind in kinds for item in care.kept(shelf)]
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


def _print(destination: str, done: Sequence[tuple[Had, int]]) -> None:
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


def _document(destination: str, done: Sequence[tuple[Had, int]]) -> dict[str, Any]:
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
