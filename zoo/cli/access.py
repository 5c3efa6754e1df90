"""``zoo doctor --access``: whether the files of weights are where their cards say, open to whom they say, and the same.

The host of every place of a card is asked, several at once, and nothing is downloaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import click

from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import ZooError
from ..progress import Bar
from ..storage import is_offline
from ..weights.access import ask, host_to_ask, located
from ..weights.answers import Answer, Recorded
from ..weights.hosts import asking_once, why_unreachable
from ..weights.lock import known
from ..weights.places import shown
from ..weights.store import recorded_name
from .facts import matching
from .output import NothingFound, print_json, print_notes, print_table, size

_AT_ONCE = 8  # requests; the Hub and the others stay polite to so many
Role: TypeAlias = Literal["weights", "mirror", "companion", "authors' copy"]
_FITS: dict[str, tuple[str, ...]] = {  # what a card says, and what its host may answer then
    "open": ("open", "here"),
    "unfit": ("open", "here"),
    "gated": ("gated",),
    "by request": ("gated",),
    "gone": ("gone",),
}


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a card, and what the card says of it."""

    role: Role
    recorded: Recorded
    says: str  # availability; "" if the card does not say

    def agrees(self, answer: Answer) -> bool | None:
        """Whether the answer is what the card says; None if it says neither."""
        if answer.access == "unreachable":
            return None
        fitting = _FITS.get(self.says, ("open", "here", "gated"))
        return answer.access in fitting


def report(pattern: str, *, offline: bool, as_json: bool) -> None:
    """Asks about every card that the pattern matches, and prints what was answered."""
    if offline or is_offline():
        raise click.UsageError("Got --access where no host may be asked (--offline or ZOO_OFFLINE), expected one.")
    names = matching([pattern])
    if not names:
        raise NothingFound(f"No encoder has a name like {pattern!r}.")
    cards = catalogue()
    places = {name: list(_places(cards[name])) for name in names}
    answers = _answers({place.recorded for of_card in places.values() for place in of_card})
    if as_json:
        print_json(_document(places, answers))
    else:
        _print(places, answers)
    _require_agreement(places, answers)


def _places(card: EncoderCard) -> Iterator[Place]:
    """Every place of a card's files, each repository of the Hub once."""
    weights = card.weights
    says = _text(weights.availability)
    seen: list[tuple[object, ...]] = []
    roles: list[tuple[Role, Any, str]] = [("weights", weights.url, says)]
    roles += [("mirror", place, "") for place in weights.mirrors]
    roles += [("companion", place, says) for place in weights.companions]
    roles += [("authors' copy", weights.authors_url, _text(weights.authors_availability))]
    for role, place, expected in roles:
        if isinstance(place, Missing):
            continue
        identity = _identity(place)
        if identity in seen or (role == "authors' copy" and identity[0] != "hub"):  # a page says nothing of a file
            continue
        seen.append(identity)
        yield Place(role, _recorded(card, place, is_first=role == "weights"), expected)


def _recorded(card: EncoderCard, place: str, *, is_first: bool) -> Recorded:
    """What the card knows of its file, and of any place what a lock file has."""
    weights = card.weights
    locked = known(recorded_name(place))
    sha256 = _text(weights.sha256) if is_first else ""
    n_bytes = weights.size_bytes if is_first and not isinstance(weights.size_bytes, Missing) else None
    return Recorded(
        place=place,
        revision=_text(weights.revision) if is_first else "",
        sha256=sha256 or (locked.sha256 if locked else ""),
        size_bytes=n_bytes if n_bytes is not None else (locked.size_bytes if locked else None),
    )


def _text(fact: Any) -> str:
    return "" if isinstance(fact, Missing) else str(fact)


def _identity(place: str) -> tuple[object, ...]:
    """What two places have in common that are one: a name of timm and its repository on the Hub are."""
    try:
        resolved = located(place)
    except ZooError:  # asking will say why
        return ("?", place)
    if resolved.kind == "hub":
        return ("hub", resolved.repository, resolved.filenames[0].rpartition(".")[0], resolved.revision)
    return (resolved.kind, resolved.url or resolved.path)


def _answers(questions: Iterable[Recorded]) -> dict[Recorded, Answer]:
    """What the hosts answer; one that cannot be reached is found out once."""
    ordered = sorted(questions, key=lambda one: one.place)
    bar = Bar("places")
    bar.start("asking", len(ordered), 0)
    answers = {}
    with asking_once(one.place for one in ordered), ThreadPoolExecutor(_AT_ONCE) as pool:
        for host in {host for one in ordered if (host := _host(one.place))}:
            why_unreachable(host)
        pending = {one: pool.submit(copy_context().run, ask, one) for one in ordered}
        try:
            for one, answer in pending.items():
                answers[one] = answer.result()
                bar.advance(1)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an interrupt nothing more is asked
            bar.end()
    return answers


def _host(place: str) -> str:
    try:
        return host_to_ask(located(place))
    except ZooError:
        return ""


def _rows(places: dict[str, list[Place]], answers: dict[Recorded, Answer]) -> Iterator[list[str]]:
    """A row for the file of every encoder, and one for each other place that is not as it should be."""
    for encoder, of_card in places.items():
        for place in of_card:
            answer = answers[place.recorded]
            agrees = place.agrees(answer)
            if place.role != "weights" and agrees:
                continue
            amount = "" if answer.size_bytes is None else size(answer.size_bytes)
            says = "as its card says" if agrees else f"its card says {place.says or 'nothing'}"
            if agrees is None:
                says = f"{place.says or 'nothing'} in its card"
            yield [encoder, place.role, answer.access, says, amount, shown(place.recorded.place), answer.detail]


def _print(places: dict[str, list[Place]], answers: dict[Recorded, Answer]) -> None:
    rows = list(_rows(places, answers))
    if rows:
        print_table(["encoder", "file", "access", "card", "size", "place", "answer"], rows, right=[4])
    counts = _counts(places, answers)
    without = [encoder for encoder, of_card in places.items() if not of_card]
    lacking = f"; without a place: {', '.join(without)}" if without else ""
    print_notes([", ".join(f"{n} {access}" for access, n in counts.items()) + lacking])


def _counts(places: dict[str, list[Place]], answers: dict[Recorded, Answer]) -> dict[str, int]:
    """Encoders by what the host of their file says."""
    firsts = [of_card[0] for of_card in places.values() if of_card]
    return dict(Counter(answers[place.recorded].access for place in firsts).most_common())


def _document(places: dict[str, list[Place]], answers: dict[Recorded, Answer]) -> dict[str, Any]:
    found = {encoder: [_record(one, answers[one.recorded]) for one in of_card] for encoder, of_card in places.items()}
    return {
        "n_encoders": len(places),
        "counts": _counts(places, answers),
        "agrees": all(record["agrees"] for records in found.values() for record in records),
        "encoders": [
            {"encoder": encoder, "access": records[0]["access"] if records else None, "places": records}
            for encoder, records in found.items()
        ],
    }


def _record(place: Place, answer: Answer) -> dict[str, Any]:
    return {
        "file": place.role,
        "place": shown(place.recorded.place),
        "access": answer.access,
        "card_says": place.says or None,
        "agrees": place.agrees(answer),
        "detail": answer.detail or None,
        "revision": answer.revision or None,
        "sha256": answer.sha256 or None,
        "size_bytes": answer.size_bytes,
    }


def _require_agreement(places: dict[str, list[Place]], answers: dict[Recorded, Answer]) -> None:
    """Ends with exit code 1 if a host says otherwise than a card, or did not say."""
    judged = [(encoder, place.agrees(answers[place.recorded])) for encoder, found in places.items() for place in found]
    parts = []
    for verdict, what in ((False, "not as the card says"), (None, "not known, for a host could not be asked")):
        among = list(dict.fromkeys(encoder for encoder, agrees in judged if agrees is verdict))
        if among:
            parts.append(f"{what}: {_some(among)}")
    if parts:
        raise NothingFound(f"Access is {'; '.join(parts)}.")


def _some(names: Sequence[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
