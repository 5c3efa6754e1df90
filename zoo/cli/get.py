"""``zoo get``: weights fetched before they are needed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from ..cards import catalogue
from ..errors import StoreError, WeightsUnavailable, ZooError
from ..metadata import EncoderCard, Missing
from ..weights import care, store
from ..weights.environment import mirror_place, weights_folder
from ..weights.hosts import asking_once
from ..weights.mirror import shown_mirror
from ..weights.places import shown
from .cache import named, size, where
from .options import encoder_names
from .output import NothingFound, json_option, print_json, print_notes, print_table, record

if TYPE_CHECKING:
    from ..locations import Candidate

State = Literal["there", "fetched", "to fetch", "gone", "nothing to fetch", "failed"]
_EPILOG = """\b
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


@click.command("get", epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=encoder_names)
@click.option("--where", "condition", metavar="EXPR", help="Only encoders for which this is true; see zoo list.")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched, and fetch nothing.")
@json_option
def command(names: tuple[str, ...], condition: str | None, dry_run: bool, as_json: bool) -> None:
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
        from .facts import find_fact, kinds
        from .selection import satisfying, subjects
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
    zoo.provenance.Found

    Raises
    ------
    ZooError
        As a load.
    """
    from ..loading import load
    from ..pretrained import kept

    choices = _candidates(card)
    was_there = _find(choices) is not None
    start = time.monotonic()
    found = kept(choices)
    if found is None:
        load(card.id)
        found = kept(choices)
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
    from ..locations import candidates

    return candidates(card, build_encoder(card, device="meta"))


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
