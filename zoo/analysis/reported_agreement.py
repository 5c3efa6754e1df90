"""How reported accuracies go with measured ones: their differences, and whether both order encoders alike.

Pure Python, for ``zoo recommend`` says it as well as the study ``do_reported_numbers_agree``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from ..cards.catalogue import load_catalogue
from ..results.derived import select_main_protocol, summaries
from ..results.reported import reported_numbers
from ..results.reported_values import ReportedNumber, choose
from ..results.values import SETTINGS

FEWEST_PAIRS = 10
"""Pairs below which nothing is said of bias, spread and order."""
_HALF_WIDTH = 1.6448536269514722  # of 90 %, in standard deviations
GAPS = (0.0, 1.0, 3.0, 100.0)
"""Ends of the ranges of differences between reported accuracies, in percentage points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two accuracies of the same encoder, in percent."""

    encoder: str
    reported: float
    other: float  # measured, or reported by another source or protocol

    @property
    def difference(self) -> float:
        """Reported minus the other, in percentage points."""
        return self.reported - self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class Concordance:
    """How often two encoders whose reported accuracies differ by so much have the same order by the other ones."""

    more_than: float  # percentage points
    at_most: float
    n: int  # pairs of encoders
    n_alike: float  # those in the same order; equal other accuracies count half

    @property
    def share(self) -> float | None:
        """Share in the same order: 0.5 is what a coin would give; None of no encoders."""
        return self.n_alike / self.n if self.n else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Bias, spread and order of pairs; at least :data:`FEWEST_PAIRS`."""

    n: int
    mean: float  # reported minus other, percentage points
    low: float  # between these nine in ten differences lie
    high: float
    concordances: tuple[Concordance, ...]  # by growing gap


def select_reported_numbers(numbers: Iterable[ReportedNumber], protocol: str) -> dict[str, ReportedNumber]:
    """Of each encoder the ImageNet-1K accuracy of a protocol that listings show."""
    cards = load_catalogue()
    by_encoder: dict[str, list[ReportedNumber]] = {}
    for one in numbers:
        if one.protocol == protocol:
            by_encoder.setdefault(one.encoder, []).append(one)
    found = {encoder: choose(some, cards[encoder]).get(protocol) for encoder, some in by_encoder.items()}
    return {encoder: one for encoder, one in found.items() if one is not None}


def pair_sources(protocol: str) -> list[Pair]:
    """Pairs of the highest and the lowest number of a protocol of encoders that two sources measured; none in doubt.

    They are accuracies on ImageNet-1K at one size of images, as far as sources say it.
    """
    by_encoder: dict[tuple[str, str], dict[str, float]] = {}
    for one in reported_numbers():
        if one.protocol == protocol and one.is_of_imagenet and not one.doubt:
            own = by_encoder.setdefault((one.encoder, one.resolution), {})
            own[one.source] = max(one.value, own.get(one.source, 0.0))
    several = {key: values for key, values in by_encoder.items() if len(values) > 1}
    return [Pair(encoder=key[0], reported=max(of.values()), other=min(of.values())) for key, of in several.items()]


def pair_with_measured(protocol: str) -> list[Pair]:
    """Pairs with the full-shot accuracy of a linear probe on ImageNet-1K, of one protocol; no doubtful numbers."""
    errors = {name: summary.errors for name, summary in select_main_protocol(summaries(exclude_wrong=True)).items()}
    full_shot = SETTINGS[0].name
    return [
        Pair(encoder=encoder, reported=one.value, other=100 - errors[encoder][full_shot])
        for encoder, one in select_reported_numbers(reported_numbers(), protocol).items()
        if full_shot in errors.get(encoder, {}) and not one.doubt
    ]


def estimate_agreement(pairs: Sequence[Pair]) -> Agreement | None:
    """None of fewer than :data:`FEWEST_PAIRS` pairs, which say nothing.

    >>> pairs = [Pair(encoder=str(n), reported=70.0 + n, other=68.0 + n) for n in range(11)]
    >>> found = estimate_agreement(pairs)
    >>> found.mean, [one.share for one in found.concordances]
    (2.0, [1.0, 1.0, 1.0])
    >>> estimate_agreement(pairs[:9]) is None
    True
    """
    if len(pairs) < FEWEST_PAIRS:
        return None
    differences = sorted(pair.difference for pair in pairs)
    return Agreement(
        n=len(pairs),
        mean=fmean(differences),
        low=_quantile(differences, 0.05),
        high=_quantile(differences, 0.95),
        concordances=compute_concordances(pairs),
    )


def estimate_protocol_spread() -> float:
    """Points by which an error differs from that by another protocol: as linear probes of authors from the study's."""
    found = estimate_agreement(pair_with_measured("reported-linear"))
    assert found is not None  # the pairs that come with the zoo
    return math.hypot(found.mean, (found.high - found.low) / 2 / _HALF_WIDTH)


def compute_concordances(pairs: Sequence[Pair], gaps: Sequence[float] = GAPS) -> tuple[Concordance, ...]:
    """By ranges of the difference between two reported accuracies, above one end and up to the next."""
    counts = [[0, 0.0] for _ in gaps[1:]]
    for one, two in combinations(pairs, 2):
        gap = one.reported - two.reported
        product = gap * (one.other - two.other)
        for place, end in enumerate(gaps[1:]):
            if gaps[place] < abs(gap) <= end + 1e-9:  # decimal fractions, whose differences are off by rounding
                counts[place][0] += 1
                counts[place][1] += 1.0 if product > 0 else 0.5 if product == 0 else 0.0
                break
    return tuple(
        Concordance(more_than=low, at_most=high, n=int(n), n_alike=alike)
        for low, high, (n, alike) in zip(gaps, gaps[1:], counts, strict=False)
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between order statistics, as NumPy has it."""
    place = share * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])
