"""``zoo get``, ``mirror`` and ``export``: weights fetched, copied to a mirror, or written for the Hub, like a site."""

from __future__ import annotations

import shlex
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..cards.catalogue import catalogue, read_card_files
from ..cards.gates import GATED
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable, ZooError
from ..files import cache_folder, content_folder, local_folder, user_folder
from ..storage import shown_place
from ..version import __version__
from ..weights import care, store
from ..weights.hosts import asking_once
from ..weights.places import mirror_place, portable, shown, weights_folder
from .facts import chosen
from .options import encoder_names, refuse_idle
from .output import (
    NothingFound,
    announce,
    json_option,
    place_name,
    print_command,
    print_json,
    print_notes,
    print_table,
    record,
    size,
    wrapped,
)
from .site_output import CONTENT_OPTIONS, content_options, document_of, made_site, print_made

if TYPE_CHECKING:
    from ..loading import WeightsSource


State = Literal["there", "fetched", "to fetch", "gone", "nothing to fetch", "failed"]
_GET_EXAMPLES = """\b
Examples:
  zoo get dino_vitS16 mae_vitB16
  zoo get 'dino_*' --dry-run
  zoo get --where 'family == "vit" and z_dim <= 384 and availability == "open"'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of obtaining the weights of one encoder."""

    card: EncoderCard
    state: State
    record: store.Record | None = None
    reason: str = ""  # why it failed
    unreached: tuple[str, ...] = ()  # why each host cannot be reached, where nothing else is in the way
    seconds: float = 0.0

    @property
    def size_bytes(self) -> int | None:
        """Of the files that were or would be fetched; of the converted weights if they are stored."""
        if self.record is None:
            known = self.card.weights.size_bytes
            return None if isinstance(known, Missing) or self.state == "nothing to fetch" else known
        if self.state == "there" or mirror_place():
            return self.record.size_bytes
        return sum(origin.size_bytes for origin in self.record.origins)

    @property
    def place(self) -> str | None:
        """Where the weights come from, or would."""
        if self.state == "nothing to fetch":
            return None
        mirror = mirror_place()
        if mirror and self.state != "there":
            return shown_place(mirror)
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
    outcomes = []
    with asking_once(places_of(cards)):
        for number, card in enumerate(cards, start=1):
            if not dry_run:
                announce(number, len(cards), card.id)
            outcomes.append(_expected(card) if dry_run else _fetched(card))
    if as_json:
        print_json(_document(outcomes, dry_run))
    else:
        _print(outcomes)
    require_all(outcomes)


def places_of(cards: Iterable[EncoderCard]) -> Iterator[str]:
    """Every place of the weights of these encoders and of their companions."""
    for card in cards:
        for place in (card.weights.url, *card.weights.mirrors, *card.weights.companions):
            if not isinstance(place, Missing):
                yield place


def obtained(card: EncoderCard) -> tuple[Outcome, Any]:
    """Load the weights of a trained encoder once if they are not stored; also returns where they are stored."""
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
    return Outcome(card=card, state=state, record=found.record, seconds=time.monotonic() - start), found


def require_all(outcomes: Iterable[Outcome]) -> None:
    """Ends with exit code 1 if anything failed, with the reasons."""
    failed = [one for one in outcomes if one.state == "failed"]
    if failed:
        by_reason: dict[str, list[str]] = {}
        for one in failed:
            by_reason.setdefault("; ".join(one.unreached) or one.reason, []).append(one.card.id)
        reasons = "\n".join(f"  {', '.join(encoders)}: {reason}" for reason, encoders in by_reason.items())
        raise NothingFound(f"{len(failed)} of {len(list(outcomes))} could not be obtained.\n{reasons}")


def licence_notes(cards: Iterable[EncoderCard]) -> list[str]:
    """Restrictions of the weights' licences."""
    restricted: dict[str, list[str]] = {}
    for card in cards:
        licence = card.licence.weights
        if licence is Missing.NOT_PUBLISHED:
            restricted.setdefault("no licence was published, ask the authors before you use", []).append(card.id)
        elif licence is Missing.NOT_RECORDED:
            restricted.setdefault("no licence is recorded, look it up before you use", []).append(card.id)
        elif card.commercial_use == "no":
            restricted.setdefault(f"not for commercial use ({licence})", []).append(card.id)
        elif card.commercial_use == "conditions":
            restricted.setdefault(f"commercial use under conditions ({licence})", []).append(card.id)
        if card.weights.availability in GATED:
            restricted.setdefault("gated, its publisher grants access", []).append(card.id)
    return [f"{what}: {', '.join(encoders)}" for what, encoders in restricted.items()]


def licence_of(card: EncoderCard) -> str:
    """SPDX id of the weights' licence, as a table shows it."""
    licence = card.licence.weights
    if isinstance(licence, Missing):
        return {Missing.NOT_PUBLISHED: "?", Missing.NOT_RECORDED: "."}.get(licence, "-")
    return licence


def _candidates(card: EncoderCard) -> list[WeightsSource]:
    from ..encoders import build_encoder
    from ..loading import weights_sources

    return weights_sources(card, build_encoder(card, device="meta"))


def _find(choices: Sequence[WeightsSource]) -> store.Record | None:
    """The record that a load would use; unlike a load, this writes nothing, not even to a lock file."""
    records = (store.find(shelf.folder, choice.key) for shelf in _shelves_of_loads() for choice in choices)
    return next((found for found in records if found is not None), None)


def _shelves_of_loads() -> list[care.Shelf]:
    """The folders of converted weights that a load looks into."""
    kinds = ("registered", "mirror", "copy of a mirror") if mirror_place() else ("registered", "cache")
    return [shelf for shelf in care.shelves() if shelf.kind in kinds]


def _expected(card: EncoderCard) -> Outcome:
    if card.is_untrained:
        return Outcome(card=card, state="nothing to fetch")
    try:
        found = _find(_candidates(card))
    except ZooError as error:
        return _failed(card, error)
    if found is not None:
        return Outcome(card=card, state="there", record=found)
    return Outcome(card=card, state="gone" if card.weights.availability == "gone" else "to fetch")


def _fetched(card: EncoderCard) -> Outcome:
    if card.is_untrained:
        return Outcome(card=card, state="nothing to fetch")
    try:
        return obtained(card)[0]
    except ZooError as error:
        return _failed(card, error)


def _failed(card: EncoderCard, error: ZooError) -> Outcome:
    unreached = error.unreached if isinstance(error, WeightsUnavailable) else ()
    return Outcome(card=card, state="failed", reason=str(error), unreached=unreached)


def _print(outcomes: Sequence[Outcome]) -> None:
    rows = []
    for one in outcomes:
        amount = "" if one.size_bytes is None or one.state == "failed" else size(one.size_bytes)
        seconds = f"{one.seconds:.0f} s" if one.state == "fetched" else ""
        place = "" if one.place is None or one.state == "failed" else place_name(one.place)
        rows.append([one.card.id, one.state, amount, seconds, place, licence_of(one.card)])
    print_table(["encoder", "weights", "size", "time", "from", "licence"], rows, right=[2, 3])
    print_notes([_summary(outcomes), *licence_notes(one.card for one in outcomes)])


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(one.state for one in outcomes)
    wanted = [one.card.weights for one in outcomes if one.state == "to fetch"]
    n_files = len({(weights.url, weights.companions) for weights in wanted})
    shared = f" ({n_files} file{'s' if n_files > 1 else ''})" if n_files < len(wanted) else ""
    fetched = sum(one.size_bytes or 0 for one in outcomes if one.state == "fetched")
    parts = {"to fetch": shared, "fetched": f" ({size(fetched)})"}
    mirror = mirror_place()
    kept = f"loads come from {shown_place(mirror)}" if mirror else f"kept in {weights_folder()}"
    said = [f"{n} {state}{parts.get(state, '')}" for state, n in counts.items()]
    return f"{', '.join(said)}    {kept}"


def _document(outcomes: Sequence[Outcome], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "n_failed": sum(one.state == "failed" for one in outcomes),
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
            for one in outcomes
        ],
    }


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
    done: list[tuple[Outcome, int]] = []
    with asking_once(places_of(cards)):
        for number, card in enumerate(cards, start=1):
            announce(number, len(cards), card.id)
            done.append(_mirrored(destination, card))
    if as_json:
        print_json(_mirror_document(destination, done))
    else:
        _print_mirrored(destination, done)
    require_all([outcome for outcome, _ in done])


def _require_elsewhere(destination: str) -> None:
    """Refuses a mirror that would be taken for the cache, the user's folder or the current mirror."""
    if not destination.strip():
        raise click.UsageError("Got an empty text for DEST, expected a folder or an address.")
    here = local_folder(destination)
    current = mirror_place()
    if current is not None and _same(destination, current):
        raise QueryError(
            f"The mirror {shown_place(destination)} is what ZOO_MIRROR names, so loads come from it; unset ZOO_MIRROR."
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
    cards = catalogue().with_unlisted
    known = care.by_places(cards.values())
    records = [item.record for shelf in _shelves_of_loads() for item in care.stored(shelf)]
    ids = {name for found in records if found is not None for name in care.readers(found, known)}
    kept = [card for card in cards.values() if card.id in ids]
    if not kept:
        raise NothingFound("Nothing is in the cache and nothing is registered; name the encoders to mirror.")
    return kept


def _mirrored(destination: str, card: EncoderCard) -> tuple[Outcome, int]:
    """Copies one encoder; returns the result and the bytes copied."""
    from ..weights.mirror import Item, write_mirror

    if card.is_untrained:
        return Outcome(card=card, state="nothing to fetch"), 0
    try:
        outcome, found = obtained(card)
        _require_whole(destination, found.path, found.record)
        origins = (
            replace(one, place=portable(one.place), address=portable(one.address)) for one in found.record.origins
        )
        record = replace(found.record, origins=tuple(origins))
        item = Item(encoder=card.id, record=record, path=found.path, licence=licence_of(card))
        return outcome, write_mirror(destination, [item], {}, zoo_version=__version__)
    except ZooError as error:
        return _failed(card, error), 0


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
    """All shipped card files, and the user's that these encoders need, by their path in the mirror."""
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
    """A card file in which :func:`zoo.weights.places.portable` names replace files of this machine."""
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
    """A card file's path below ``metadata/`` of the user, or of the mirror that it came from."""
    home = user_folder() / "metadata"
    current = local_folder(mirror_place() or "memory://")
    root = home if path.is_relative_to(home) or current is None else current / "metadata" / "own"
    return path.relative_to(root).as_posix()


def _named_in(content: bytes) -> list[str]:
    """Encoders that the cards of this file refer to."""
    encoders = tomllib.loads(content.decode("utf-8-sig"))["encoders"].values()
    tables = [facts for facts in encoders if isinstance(facts, dict)]
    weights = [facts.get("weights") for facts in tables]
    named = [facts.get("like") for facts in tables]
    named += [part.get("same_file_as") for part in weights if isinstance(part, dict)]
    return [name for name in named if isinstance(name, str)]


def _print_mirrored(destination: str, done: Sequence[tuple[Outcome, int]]) -> None:
    rows = []
    for outcome, n_copied in done:
        whole = outcome.record.size_bytes if outcome.record else 0
        state: str = "nothing to copy" if outcome.card.is_untrained else outcome.state
        if outcome.record is not None:
            state = "copied" if n_copied else "there"
        rows.append([outcome.card.id, state, size(whole) if whole else "", licence_of(outcome.card)])
    print_table(["encoder", "mirror", "size", "licence"], rows, right=[2])
    print_notes(
        [
            f"{size(sum(n for _, n in done))} copied",
            "anyone who passes these weights on is bound by their licences",
            *licence_notes(outcome.card for outcome, _ in done),
        ]
    )
    click.echo(f"\nTo load from there:\n  export ZOO_MIRROR={shlex.quote(_as_named(destination))}")


def _as_named(destination: str) -> str:
    return str(local_folder(destination) or destination)


def _mirror_document(destination: str, done: Sequence[tuple[Outcome, int]]) -> dict[str, Any]:
    return {
        "mirror": str(local_folder(destination) or shown_place(destination)),
        "copied_bytes": sum(n for _, n in done),
        "n_failed": sum(outcome.state == "failed" for outcome, _ in done),
        "encoders": [
            {
                "encoder": outcome.card.id,
                "state": outcome.state,
                "reason": outcome.reason or None,
                "copied_bytes": n_copied,
                "size_bytes": outcome.record.size_bytes if outcome.record else None,
                "sha256": outcome.record.sha256 if outcome.record else None,
                **record({"licence": outcome.card.licence.weights, "availability": outcome.card.weights.availability}),
            }
            for outcome, n_copied in done
        ],
    }


_EXPORT_EXAMPLES = """\b
Examples:
  zoo export dino_vitS16 --hub exports/dino_vitS16
  hf upload OWNER/dino_vitS16 exports/dino_vitS16
  zoo export --space space --title 'Encoders of our lab' --only 'dino*' --with-mine
"""


@click.command("export", epilog=_EXPORT_EXAMPLES)
@click.argument("name", required=False, shell_complete=encoder_names)
@click.option(
    "--hub",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write an encoder to: absent, empty, or an untouched earlier export of the same encoder.",
)
@click.option(
    "--space",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to write a site to, as a static Space: absent, empty, or an untouched earlier one.",
)
@content_options
@json_option
def export_command(name: str | None, folder: Path | None, space: Path | None, as_json: bool, **content: Any) -> None:
    """Write a folder for the Hugging Face Hub: an encoder, or the site as a Space.

    With NAME and --hub it gets the converted weights, byte for byte; config.json with the facts that are needed to
    build and to use the encoder, and the source of the weights; and a model card with the measured results. The weights
    are fetched first if they are not there.

    With --space it gets the pages of zoo site, and a README.md that makes them a static Space; the options on what a
    site shows are those of zoo site. Nothing is uploaded.
    """
    if space is not None:
        if name is not None or folder is not None:
            got = f"the encoder {name}" if folder is None else "--hub"
            raise click.UsageError(
                f"Got --space and {got}, expected NAME --hub DIR for an encoder, or --space DIR alone for the site."
            )
        _export_space(space, content, as_json=as_json)
        return
    if folder is None:
        raise click.UsageError("Missing option '--hub', expected NAME --hub DIR, or --space DIR for the site.")
    if name is None:
        raise click.UsageError("Missing argument 'NAME', expected the encoder to write to the folder of --hub.")
    refuse_idle(CONTENT_OPTIONS, "they say what a site shows and an encoder is written", remedy=", or name --space")
    _export_encoder(name, folder, as_json=as_json)


def _export_encoder(name: str, folder: Path, *, as_json: bool) -> None:
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


def _export_space(folder: Path, content: dict[str, Any], *, as_json: bool) -> None:
    from ..hub.space import UPLOAD, space_files

    made = made_site(folder, more=space_files, **content)
    upload = UPLOAD.format(folder=shlex.quote(str(folder)))
    if as_json:
        print_json(document_of(made) | {"upload": upload})
        return
    print_made(made)
    print_command("to upload it", upload)
