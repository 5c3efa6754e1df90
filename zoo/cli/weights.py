"""``zoo get`` and ``zoo mirror``: weights fetched into the cache, or copied to a mirror."""

from __future__ import annotations

import logging
import shlex
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue, read_card_files
from ..cards.gated_access import GATED
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable, ZooError
from ..files import get_cache_folder, get_content_folder, get_user_folder, parse_local_folder
from ..storage import format_place
from ..version import __version__
from ..weights import maintenance, store
from ..weights.locations import format_location, format_portable_location, get_mirror, get_weights_folder
from .facts import fetch_converted_weights, select_cards
from .options import complete_encoder_names, dry_run_option, where_option
from .output import (
    NothingFound,
    add_json_option,
    announce,
    format_list,
    format_place_name,
    format_size,
    make_record,
    print_json,
    print_notes,
    print_table,
)

State = Literal["there", "fetched", "to fetch", "gone", "nothing to fetch", "failed"]
_GET_EXAMPLES = """\b
Examples:
  zoo get dino_vitS16 mae_vitB16
  zoo get 'dino_*' --dry-run
  zoo get --where 'family == "vit" and z_dim <= 384 and availability == "open"'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """Result of obtaining the weights of one encoder."""

    card: EncoderCard
    state: State
    record: store.WeightsRecord | None = None
    reason: str = ""  # why it failed
    unreached: tuple[str, ...] = ()  # why each host cannot be reached, where nothing else is in the way
    seconds: float = 0.0

    @property
    def size_bytes(self) -> int | None:
        """Of the files that were or would be fetched; of the converted weights if they are stored."""
        if self.record is None:
            known = self.card.weights.size_bytes
            return None if isinstance(known, Missing) or self.state == "nothing to fetch" else known
        if self.state == "there" or get_mirror():
            return self.record.size_bytes
        return sum(origin.size_bytes for origin in self.record.origins)

    @property
    def place(self) -> str | None:
        """Where the weights come from, or would."""
        if self.state == "nothing to fetch":
            return None
        mirror = get_mirror()
        if mirror and self.state != "there":
            return format_place(mirror)
        url = self.card.weights.url
        if self.record is not None:
            return format_location(self.record.origins[0].place)
        return None if isinstance(url, Missing) else format_location(url)


@click.command("get", epilog=_GET_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_encoder_names)
@where_option
@dry_run_option
@add_json_option
def get_command(names: tuple[str, ...], condition: str | None, dry_run: bool, as_json: bool) -> None:
    """Fetch the weights of encoders into the cache.

    They are checked, converted and kept, and the features of the first load recorded, as a load does it; later loads
    need no network. NAME is an encoder or a glob such as 'dino_*'. One that fails does not stop the others; exit code 1
    if any failed.
    """
    cards = select_cards(names, condition)
    outcomes = []
    logging.getLogger("huggingface_hub.utils._http").setLevel(logging.ERROR)  # the answer says what was not reached
    for number, card in enumerate(cards, start=1):
        if not dry_run:
            announce(number, len(cards), card.id)
        try:
            outcomes.append(_expected(card) if dry_run else obtain_weights(card)[0])
        except ZooError as error:
            outcomes.append(_failed(card, error))
    if as_json:
        n_failed = sum(one.state == "failed" for one in outcomes)
        records = [
            {**_facts(one), "seconds": round(one.seconds, 3), "size_bytes": one.size_bytes, "place": one.place}
            for one in outcomes
        ]
        print_json({"dry_run": dry_run, "n_failed": n_failed, "encoders": records})
    else:
        rows = []
        for one in outcomes:
            has_failed = one.state == "failed"
            amount = "" if one.size_bytes is None or has_failed else format_size(one.size_bytes)
            seconds = f"{one.seconds:.0f} s" if one.state == "fetched" else ""
            place = "" if one.place is None or has_failed else format_place_name(one.place)
            rows.append([one.card.id, one.state, amount, seconds, place, format_licence(one.card)])
        print_table(make_table(["encoder", "weights", "size", "time", "from", "licence"], rows, numbers=[2, 3]))
        print_notes([_summary(outcomes), *list_licence_notes(one.card for one in outcomes)])
    require_all(outcomes)


def obtain_weights(card: EncoderCard) -> tuple[FetchResult, Any]:
    """Loads the weights of an encoder once if they are not stored; also returns where they are stored."""
    if card.is_untrained:
        return FetchResult(card=card, state="nothing to fetch"), None
    state: State = "fetched" if _find(card) is None else "there"
    start = time.monotonic()
    found = fetch_converted_weights(card)
    return FetchResult(card=card, state=state, record=found.record, seconds=time.monotonic() - start), found


def require_all(outcomes: Iterable[FetchResult]) -> None:
    """Ends with exit code 1 if anything failed, with the reasons."""
    outcomes = list(outcomes)
    by_reason: dict[str, list[str]] = {}
    unreached = "; ".join(dict.fromkeys(why for one in outcomes for why in one.unreached))  # all hosts in one line
    for one in outcomes:
        if one.state == "failed":
            by_reason.setdefault(unreached if one.unreached else one.reason, []).append(one.card.id)
    if by_reason:
        n_failed = sum(map(len, by_reason.values()))
        reasons = "\n".join(f"  {', '.join(encoders)}: {reason}" for reason, encoders in by_reason.items())
        raise NothingFound(f"{n_failed} of {len(outcomes)} could not be obtained.\n{reasons}")


def list_licence_notes(cards: Iterable[EncoderCard]) -> list[str]:
    """Restrictions of the weights' licences."""
    restricted: dict[str, list[str]] = {}
    for card in cards:
        licence = card.licence.weights
        words = {
            Missing.NOT_PUBLISHED: "no licence was published, ask the authors before you use",
            Missing.NOT_RECORDED: "no licence is recorded, look it up before you use",
            "no": f"not for commercial use ({licence})",
            "conditions": f"commercial use under conditions ({licence})",
        }
        said = words.get(licence if isinstance(licence, Missing) else str(card.commercial_use))
        gate = "gated, its publisher grants access" if card.weights.availability in GATED else None
        for what in filter(None, (said, gate)):
            restricted.setdefault(what, []).append(card.id)
    return [f"{what}: {format_list(encoders, 10)}" for what, encoders in restricted.items()]


def format_licence(card: EncoderCard) -> str:
    """SPDX id of the weights' licence, as a table shows it."""
    licence = card.licence.weights
    if isinstance(licence, Missing):
        return {Missing.NOT_PUBLISHED: "?", Missing.NOT_RECORDED: "."}.get(licence, "-")
    return licence


def _find(card: EncoderCard) -> store.WeightsRecord | None:
    """The record that a load would use; unlike a load, this writes nothing, not even to a lock file."""
    from ..encoders import build_encoder
    from ..loading import list_weights_sources

    choices = list_weights_sources(card, build_encoder(card, device="meta"))
    records = (store.find(shelf.folder, choice.key) for shelf in _shelves_of_loads() for choice in choices)
    return next((found for found in records if found is not None), None)


def _shelves_of_loads() -> list[maintenance.WeightsStore]:
    """The folders of converted weights that a load looks into."""
    kinds = ("registered", "mirror", "copy of a mirror") if get_mirror() else ("registered", "cache")
    return [shelf for shelf in maintenance.list_stores() if shelf.kind in kinds]


def _expected(card: EncoderCard) -> FetchResult:
    if card.is_untrained:
        return FetchResult(card=card, state="nothing to fetch")
    found = _find(card)
    if found is not None:
        return FetchResult(card=card, state="there", record=found)
    return FetchResult(card=card, state="gone" if card.weights.availability == "gone" else "to fetch")


def _failed(card: EncoderCard, error: ZooError) -> FetchResult:
    unreached = error.unreached if isinstance(error, WeightsUnavailable) else ()
    return FetchResult(card=card, state="failed", reason=str(error), unreached=unreached)


def _summary(outcomes: Sequence[FetchResult]) -> str:
    wanted = [one.card.weights for one in outcomes if one.state == "to fetch"]
    n_files = len({(weights.url, weights.companions) for weights in wanted})
    shared = f" ({n_files} file{'s' if n_files > 1 else ''})" if n_files < len(wanted) else ""
    mirror = get_mirror()
    kept = f"loads come from {format_place(mirror)}" if mirror else f"kept in {get_weights_folder()}"
    counts = Counter(one.state for one in outcomes)
    said = [f"{n} {state}{shared * (state == 'to fetch')}" for state, n in counts.items()]
    return f"{', '.join(said)}    {kept}"


def _facts(one: FetchResult) -> dict[str, Any]:
    """What the documents of both verbs say of an encoder."""
    weights = one.card.weights
    return {
        "encoder": one.card.id,
        "state": one.state,
        "reason": one.reason or None,
        "sha256": one.record.sha256 if one.record else None,
        **make_record({"licence": one.card.licence.weights, "availability": weights.availability}),
    }


# --- mirrors ---------------------------------------------------------------------------------------------------------

_MIRROR_EXAMPLES = """\b
Examples:
  zoo mirror /shared/zoo 'dino_*' mae_vitB16
  zoo mirror s3://bucket/zoo
  ZOO_MIRROR=/shared/zoo python train.py
"""


@click.command("mirror", epilog=_MIRROR_EXAMPLES)
@click.argument("destination", metavar="DEST")
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_encoder_names)
@where_option
@add_json_option
def mirror_command(destination: str, names: tuple[str, ...], condition: str | None, as_json: bool) -> None:
    """Copy weights to where there is no network.

    DEST is a folder or an address that fsspec understands, such as s3://bucket/folder. NAME is an encoder or a glob
    such as 'dino_*'; without names, everything that is in the cache or registered. Weights that are not there yet are
    fetched first. Where the environment variable ZOO_MIRROR names DEST, every load comes from there.

    Run it again to add encoders, to go on after an interruption, or to replace damaged files: only what is missing is
    copied.
    """
    from ..weights.mirror import write_mirror

    _require_elsewhere(destination)
    cards = select_cards(names, condition) if names or condition is not None else _kept_here()
    write_mirror(destination, [], _card_files(cards), zoo_version=__version__)  # says at once if it cannot be written
    done: list[tuple[FetchResult, int]] = []
    for number, card in enumerate(cards, start=1):
        announce(number, len(cards), card.id)
        try:
            done.append(_mirrored(destination, card))
        except ZooError as error:
            done.append((_failed(card, error), 0))
    outcomes, n_copied = [outcome for outcome, _ in done], sum(n for _, n in done)
    sizes = [outcome.record.size_bytes if outcome.record else None for outcome in outcomes]
    if as_json:
        records = [
            {**_facts(outcome), "copied_bytes": n, "size_bytes": n_bytes}
            for (outcome, n), n_bytes in zip(done, sizes, strict=True)
        ]
        n_failed = sum(outcome.state == "failed" for outcome in outcomes)
        where = str(parse_local_folder(destination) or format_place(destination))
        print_json({"mirror": where, "copied_bytes": n_copied, "n_failed": n_failed, "encoders": records})
    else:
        rows = []
        for (outcome, n), n_bytes in zip(done, sizes, strict=True):
            state: str = "nothing to copy" if outcome.card.is_untrained else outcome.state
            if outcome.record is not None:
                state = "copied" if n else "there"
            rows.append([outcome.card.id, state, format_size(n_bytes) if n_bytes else "", format_licence(outcome.card)])
        print_table(make_table(["encoder", "mirror", "size", "licence"], rows, numbers=[2]))
        named = shlex.quote(str(parse_local_folder(destination) or destination))
        click.echo(f"\nTo load from there:\n  export ZOO_MIRROR={named}")
        bound = "the licences bind anyone who passes these weights on"
        print_notes(
            [f"{format_size(n_copied)} copied; {bound}", *list_licence_notes(outcome.card for outcome in outcomes)]
        )
    require_all(outcomes)


def _require_elsewhere(destination: str) -> None:
    """Refuses a mirror that would be taken for the cache, the user's folder or the current mirror."""
    if not destination.strip():
        raise click.UsageError("Got an empty text for DEST, expected a folder or an address.")

    def whole(place: str) -> str:
        folder = parse_local_folder(place)
        return place.rstrip("/") if folder is None else str(folder.resolve())

    current, here = get_mirror(), parse_local_folder(destination)
    if current is not None and whole(current) == whole(destination):
        raise QueryError(
            f"The mirror {format_place(destination)} is what ZOO_MIRROR names, so loads come from it; unset it."
        )
    for folder in (get_weights_folder(), get_cache_folder(), get_user_folder()):
        if here is not None and here.resolve().is_relative_to(folder.resolve()):
            raise QueryError(f"The mirror {here} would lie in the zoo's own {folder}; choose a folder outside of it.")


def _kept_here() -> list[EncoderCard]:
    """Encoders that load here without a network."""
    cards = load_catalogue().with_unlisted
    known = maintenance.group_by_places(cards.values())
    records = [item.record for shelf in _shelves_of_loads() for item in maintenance.list_store_records(shelf)]
    ids = {name for found in records if found is not None for name in maintenance.find_loading_encoders(found, known)}
    kept = [card for card in cards.values() if card.id in ids]
    if not kept:
        raise NothingFound("Nothing is in the cache and nothing is registered; name the encoders to mirror.")
    return kept


def _mirrored(destination: str, card: EncoderCard) -> tuple[FetchResult, int]:
    """Copies one encoder; returns the result and the bytes copied."""
    from ..weights.mirror import MirrorItem, write_mirror

    outcome, found = obtain_weights(card)
    if found is None:
        return outcome, 0
    here = parse_local_folder(destination)
    there = None if here is None else here / "tensors" / found.path.name
    if there is not None and there.is_file() and maintenance.find_damage(there, found.record):
        try:
            there.unlink()
        except OSError as error:
            raise StoreError(f"{there} is damaged and cannot be removed ({error.strerror}); remove it.") from error
    if damage := maintenance.find_damage(found.path, found.record):
        raise WeightsRefused(
            f"The weights {found.path} are damaged: {damage}; run 'zoo verify', which says what to do."
        )
    origins = (
        replace(one, place=format_portable_location(one.place), address=format_portable_location(one.address))
        for one in found.record.origins
    )
    copied = replace(found.record, origins=tuple(origins))
    item = MirrorItem(encoder=card.id, record=copied, path=found.path, licence=format_licence(card))
    return outcome, write_mirror(destination, [item], {}, zoo_version=__version__)


def _card_files(cards: Iterable[EncoderCard]) -> dict[str, bytes]:
    """All shipped card files, and the user's that these encoders need, by their path in the mirror."""
    shipped, known = get_content_folder("metadata"), load_catalogue()
    files: dict[str, bytes] = {}
    own: dict[str, tuple[Path, bytes]] = {}  # by encoder
    for path, content in read_card_files().items():
        if path.is_relative_to(shipped):
            files[f"shipped/{path.relative_to(shipped).as_posix()}"] = content
            continue
        try:
            encoders = _encoders_in(content)
        except ValueError:  # a broken file, of which the catalogue warns
            continue
        own |= {encoder: (path, content) for encoder in encoders if encoder in known}
    wanted = [card.id for card in cards if card.id in own]
    while wanted:
        path, content = own[wanted.pop()]
        name = f"own/{_relative(path)}"
        if name not in files:
            files[name] = _without_paths(path, content)
            facts = list(_encoders_in(content).values())
            named = [one.get("like") for one in facts] + [one.get("weights", {}).get("same_file_as") for one in facts]
            wanted += [other for other in named if other in own]
    return files


def _encoders_in(content: bytes) -> dict[str, dict[str, Any]]:
    """The encoders of a card file, by id."""
    found = tomllib.loads(content.decode("utf-8-sig")).get("encoders")
    return found if isinstance(found, dict) else {}


def _relative(path: Path) -> str:
    """A card file's path below ``metadata/`` of the user, or of the mirror that it came from."""
    home = get_user_folder() / "metadata"
    current = parse_local_folder(get_mirror() or "memory://")
    root = home if path.is_relative_to(home) or current is None else current / "metadata" / "own"
    return path.relative_to(root).as_posix()


def _without_paths(path: Path, content: bytes) -> bytes:
    """A card file without files of this machine; see :func:`zoo.weights.locations.format_portable_location`."""
    for place in sorted(_places(content), key=len, reverse=True):  # longest first: one may begin another
        content = content.replace(place.encode(), format_portable_location(place).encode())
    if left := sorted(place for place in _places(content) if format_portable_location(place) != place):
        raise StoreError(
            f"The card file {path} names {left[0]!r} with escapes, and a path of this machine is not copied; write it "
            "plainly, or relative to your own folder."
        )
    return content


def _places(content: bytes) -> set[str]:
    """Every place that a card file names."""
    defaults = tomllib.loads(content.decode("utf-8-sig")).get("defaults", {})
    found: list[Any] = []
    for facts in (defaults, *_encoders_in(content).values()):
        for part in (facts.get("weights", {}), facts.get("provenance", {})):
            found += [part.get("url"), *(part.get("mirrors") or ()), *(part.get("companions") or ())]
    return {place for place in found if isinstance(place, str)}
