"""What an encoder must satisfy: licence, access, sizes, memory, speed and a condition, as filters over candidates.

``zoo recommend`` and ``zoo choose`` read the same constraints; each becomes one :class:`Filter`. Speeds on this machine
need torch, which is imported only where a constraint asks for them; those on a named device ("RTX 4090") do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ..cards.catalogue import load_catalogue
from ..cards.costs import BATCH_SIZE, Cost, estimate_memory, explain_unknown_cost, find_cost, find_largest_batch_size
from ..cards.licences import LICENCE_WORDS, PERMISSIVE
from ..cards.schema import EncoderCard, Missing, format_fact
from ..cards.throughput import Device, Throughput, estimate_throughput, find_device
from ..errors import MissingExtra, QueryError, UnknownName
from ..results.facts import format_short_number, list_subjects, parse_condition, select_satisfying

ACCESS_WORDS = ("any", "open")
DEVICES = ("cuda", "cpu")


class HasCard(Protocol):
    """What filters look at."""

    @property
    def card(self) -> EncoderCard: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What the user asks of an encoder; None is no limit.

    QueryError or UnknownName for a word or a number that cannot be meant.
    """

    licence: str = "any"  # any, permissive, commercial, conditions, or ids of licences, joined by commas
    access: str = "any"  # any, or open: weights that are given to everybody
    max_parameters: int | None = None
    max_dim: int | None = None  # dimensions of the features
    max_memory: int | None = None  # bytes on the device, with batches of batch_size
    min_images_per_second: float | None = None  # on the device
    device: str | None = None  # "cpu", "cuda", "cuda:1" or "RTX 4090"; None: a GPU's memory, the speed of this machine
    where: str | None = None  # a condition as in zoo list --where
    batch_size: int = BATCH_SIZE  # images of one forward pass

    def __post_init__(self) -> None:
        if self.access not in ACCESS_WORDS:
            raise QueryError(f"Found access {self.access!r}, expected {' or '.join(map(repr, ACCESS_WORDS))}.")
        if self.device is not None and self.device.partition(":")[0] not in DEVICES:
            object.__setattr__(self, "device", find_device(self.device).name)
        for name in ("max_parameters", "max_dim", "max_memory", "min_images_per_second", "batch_size"):
            number = getattr(self, name)
            if number is not None and not 0 < number < math.inf:
                raise QueryError(f"Found {name} {number!r}, expected a number above 0.")

    @property
    def measured_device(self) -> Device | None:
        """The device by whose measured speeds encoders are judged; None where that is this machine's."""
        if self.device is None or self.device.partition(":")[0] in DEVICES:
            return None
        return find_device(self.device)

    @property
    def memory_device(self) -> str:
        """The device whose memory is limited, "cuda" or "cpu" of one that is not this machine's."""
        return self.measured_device.kind if self.measured_device else self.device or "cuda"

    def here(self) -> Constraints:
        """The same for what runs on this machine: without a device that is not here, and its speed."""
        return replace(self, device=None, min_images_per_second=None) if self.measured_device else self

    def speed_of(self, card: EncoderCard) -> Throughput | None:
        """Images per second on the named device; None if there is none or the cost is not known."""
        return (
            estimate_throughput(card, device, cost=find_known_cost(card)) if (device := self.measured_device) else None
        )

    def memory_of(self, card: EncoderCard) -> int | None:
        """Bytes that an encoder takes with these batches on this device, as computed; None if that is not known."""
        cost = find_known_cost(card)
        return None if cost is None else estimate_memory(cost, self.batch_size, device=self.memory_device)


def find_known_cost(card: EncoderCard) -> Cost | None:
    """The cost of an encoder: from the shipped table, or computed where torch is, as for a user's own; else None."""
    known = find_cost(card)
    if known is not None or explain_unknown_cost(card):
        return known
    try:
        from ..encoders.costs import obtain_cost
    except MissingExtra:
        return None
    return obtain_cost(card)


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on candidates, and the words for those that fail it."""

    reason: str  # an option and its value, or words
    keeps: Callable[[HasCard], bool]
    has: Callable[[EncoderCard], str] | None = None  # what a candidate has instead, in words; None: no number
    excess: Callable[[EncoderCard], float] | None = None  # how often the limit that is; above 1 for those that fail
    is_asked: bool = True  # False where it only says that a number is not known


LeftOut = dict[str, list[str]]
"""Ids of encoders by the reason why they are no candidates."""

NOT_GONE = Filter("weights gone, see --include-gone", lambda one: one.card.weights.availability != "gone")


def build_filters(constraints: Constraints) -> list[Filter]:
    """The filters of constraints, in the order of their fields; UnknownName if no encoder has that licence.

    Speeds are those of :mod:`zoo.cards.throughput` on a named device, else what :mod:`zoo.encoders.costs` expects of
    this machine's, on which it times three small networks.
    """
    found = _of_licence(constraints.licence)
    if constraints.access == "open":
        found.append(
            Filter(
                "--access open",
                lambda one: one.card.weights.availability == "open",
                lambda card: f"access {format_fact(card.weights.availability)}",
            )
        )
    if (most := constraints.max_parameters) is not None:
        found.append(
            _at_most("--max-parameters", most, lambda card: card.architecture.n_parameters, format_short_number)
        )
    if constraints.max_dim is not None:
        found.append(_at_most("--max-dim", constraints.max_dim, lambda card: card.representation.dim, str))
    if constraints.max_memory is not None:
        found += _of_memory(constraints, constraints.max_memory)
    if constraints.min_images_per_second is not None:
        found += _of_speed(constraints, constraints.min_images_per_second)
    if constraints.where is not None:
        found.append(_of_condition(constraints.where))
    return found


Found = TypeVar("Found", bound=HasCard)
Known = TypeVar("Known")


def apply_filters(
    everyone: Sequence[Found], filters: Sequence[Filter], left_out: Mapping[str, list[str]]
) -> tuple[list[Found], LeftOut, str]:
    """Candidates that pass every filter, all that are left out so far, and why none remains ("" if one does)."""
    kept, gone = list(everyone), dict(left_out)
    passed: list[str] = []
    if not kept:
        reasons = ", ".join(f"{len(names)} {reason}" for reason, names in gone.items()) or "none was measured"
        return [], gone, f"No encoder can be ranked: {reasons}."
    for one in filters:
        after = [candidate for candidate in kept if one.keeps(candidate)]
        if len(after) < len(kept):
            gone[one.reason] = [candidate.card.id for candidate in kept if not one.keeps(candidate)]
        if not after:
            which = f"that pass {' and '.join(passed)}" if passed else "there are"
            near = ", ".join(find_near_misses(everyone, filters))
            advice = f"; the nearest: {near}" if near else ""
            return [], gone, f"No encoder is left: '{one.reason}' removes all {len(kept)} {which}{advice}."
        passed += [f"'{one.reason}'"] * one.is_asked
        kept = after
    return kept, gone, ""


def find_near_misses(everyone: Sequence[HasCard], filters: Sequence[Filter], *, n: int = 3) -> list[str]:
    """The ``n`` that miss by least, as "NAME (what it misses)": the fewest filters, then the smallest factor.

    A filter without a number, such as a licence, counts as missed by more than any number; ties keep their order.
    """
    found = []
    for candidate in everyone:
        card = candidate.card
        failed = [one for one in filters if not one.keeps(candidate)]
        if failed:
            factors = [math.inf if one.excess is None else one.excess(card) for one in failed]
            words = ", ".join(f"not {one.reason}" if one.has is None else one.has(card) for one in failed)
            found.append((sum(map(math.isinf, factors)), len(failed), max(factors), f"{card.id} ({words})"))
    return [near for *_, near in sorted(found, key=lambda one: one[:3])[:n]]


def format_memory(n_bytes: float) -> str:
    """Bytes as the options of memory take them.

    >>> format_memory(8_000_000_000), format_memory(512_000_000)
    ('8GB', '512MB')
    """
    return f"{format_short_number(n_bytes)}B"


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence, the first ones of many.

    >>> join_names(["a", "b", "c"]), join_names(["a", "b", "c"], 2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _of_licence(text: str) -> list[Filter]:
    wanted = [_known_licence(word.strip()) for word in text.split(",") if word.strip()] or [_known_licence("")]
    if "any" in wanted:
        return []
    reason = f"--licence {','.join(wanted)}"
    return [Filter(reason, lambda one: any(_is_licensed(one.card, word) for word in wanted), _licence_words)]


def _licence_words(card: EncoderCard) -> str:
    return f"licence {format_fact(card.licence.weights)}"


def _is_licensed(card: EncoderCard, word: str) -> bool:
    """Whether an encoder may be used as a word of ``--licence`` says; an id is that of its weights."""
    match word:
        case "permissive":
            return card.licence.weights in PERMISSIVE and card.licence.code in PERMISSIVE
        case "commercial":
            return card.commercial_use == "yes"
        case "conditions":
            return card.commercial_use in ("yes", "conditions")
    return card.licence.weights == word


def _known_licence(name: str) -> str:
    """The id of a licence that some encoder has, or a word for several; case does not matter."""
    found = set(load_catalogue().column("licence.weights").values())
    known = {str(licence).casefold(): str(licence) for licence in found if not isinstance(licence, Missing)}
    if name.casefold() in LICENCE_WORDS:
        return name.casefold()
    if name.casefold() not in known:
        words = ", ".join(map(repr, LICENCE_WORDS))
        hint = f"Expected {words} or one of: {', '.join(sorted(known.values()))}."
        raise UnknownName("licence", name, [*LICENCE_WORDS, *known.values()], hint=hint)
    return known[name.casefold()]


def format_exact_count(n: int) -> str:
    """A count as people type it where that is exact: 100M, 22500k, 1234567."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n % size == 0:
            return f"{n // size}{letter}"
    return str(n)


def _at_most(option: str, limit: int, of: Callable[[EncoderCard], int], words: Callable[[float], str]) -> Filter:
    unit = option.removeprefix("--max-")
    return Filter(
        f"{option} {limit if words is str else format_exact_count(limit)}",
        lambda one: of(one.card) <= limit,
        lambda card: f"{words(of(card))} {unit}",
        lambda card: of(card) / limit,
    )


def _of_memory(constraints: Constraints, limit: int) -> list[Filter]:
    cost = _once(find_known_cost)
    device, n = constraints.memory_device, constraints.batch_size

    def needed(card: EncoderCard) -> float:
        known = cost(card)
        return math.inf if known is None else estimate_memory(known, n, device=device)

    def words(card: EncoderCard) -> str:
        known = cost(card)
        if known is None:
            return "memory not known"
        fitting = find_largest_batch_size(known, limit, device=device, most=n)
        smaller = f", {fitting} fit" if fitting else ""
        return f"{format_memory(needed(card))} of memory with batches of {n}{smaller}"

    reason = f"--max-memory {format_memory(limit)}"
    return [
        Filter(f"memory not known, for {reason}", lambda one: cost(one.card) is not None, is_asked=False),
        Filter(reason, lambda one: needed(one.card) <= limit, words, lambda card: needed(card) / limit),
    ]


def _of_speed(constraints: Constraints, limit: float) -> list[Filter]:
    known, device = _once(find_known_cost), constraints.measured_device

    @_once
    def speed(card: EncoderCard) -> float | None:
        cost = known(card)
        if cost is None:
            return None
        if device is not None:
            found = estimate_throughput(card, device, cost=cost)
            return None if found is None else found.value
        from ..encoders.costs import estimate_images_per_second  # torch, which no other constraint needs

        return estimate_images_per_second(cost, constraints.device)

    def slowness(card: EncoderCard) -> float:
        rate = speed(card)
        return math.inf if not rate else limit / rate

    def words(card: EncoderCard) -> str:
        rate = speed(card)
        return "speed not known" if rate is None else f"{format_short_number(float(f'{rate:.3g}'))} images per second"

    reason = f"--min-images-per-second {limit:g}"
    return [
        Filter(f"speed not known, for {reason}", lambda one: speed(one.card) is not None, is_asked=False),
        Filter(reason, lambda one: slowness(one.card) <= 1, words, slowness),
    ]


def _once(of: Callable[[EncoderCard], Known]) -> Callable[[EncoderCard], Known]:
    """The same function, called once per encoder; cards are not hashable."""
    found: dict[str, Known] = {}

    def known(card: EncoderCard) -> Known:
        if card.id not in found:
            found[card.id] = of(card)
        return found[card.id]

    return known


def _of_condition(text: str) -> Filter:
    parsed, reads_results = parse_condition(text)
    everyone = set(load_catalogue())
    listed = {one.id for one in select_satisfying(parsed, list_subjects(everyone, with_risks=reads_results))}

    def keeps(one: HasCard) -> bool:
        name = one.card.id
        if name in everyone:
            return name in listed
        return bool(select_satisfying(parsed, list_subjects([name], with_risks=reads_results)))

    return Filter(f"--where {text}", keeps)
