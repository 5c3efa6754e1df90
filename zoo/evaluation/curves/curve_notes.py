"""What a reader of a calibrated learning curve must know, in sentences; nothing is hidden, and nothing cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from .draws import MOST_LOST

if TYPE_CHECKING:
    from ..intervals import Interval
    from .curve import CurvePoint

NEAR_BLIND, NEAR_MAXIMAL = 0.9, 0.1  # calibrated risks of scratch between which the range counts as covered
_ENOUGH_SEEDS = 3


class Lost(NamedTuple):
    """Bootstrap draws in which a number is not identified."""

    what: Literal["calibrated", "relative", "improvement"]
    n: int
    regime: int = 0


def notes_of(
    points: Sequence[CurvePoint],
    *,
    improvement: Interval | None,
    no_improvement: str,
    frozen: bool,
    maximal_n: int | None,
    lost: Sequence[Lost],
    n_draws: Sequence[int],
) -> tuple[str, ...]:
    """All notes on a curve.

    Parameters
    ----------
    points : sequence of CurvePoint
        From the fewest labels to the most.
    improvement : Interval or None
        The cumulative one.
    no_improvement : str
        Why there is none; empty if there is.
    frozen : bool
        Whether the encoder stayed as it was.
    maximal_n : int or None
        Labels of maximal supervision; None of a recorded risk.
    lost : sequence of Lost
        Draws in which a number is not identified.
    n_draws : sequence of int
        Of each calibrated risk; 0 without an interval.
    """
    notes = [
        *_on_values(points, frozen=frozen),
        *_on_scratch(points, maximal_n=maximal_n),
        *_on_improvement(improvement, no_improvement),
        *_on_range(points),
        *_on_uncertainty(points, lost, n_draws=n_draws),
    ]
    return tuple(notes)


def _on_values(points: Sequence[CurvePoint], *, frozen: bool) -> Iterator[str]:
    below = [point for point in points if point.calibrated.value < 0]
    if below:
        chance = _within([point.calibrated for point in below], 0)
        yield (
            f"{_at(below)} the calibrated risk of the encoder is below 0{chance}: it does better than maximal "
            "supervision, which is then no good approximation of the best that labels can buy; improvements over "
            "scratch and comparisons of encoders on this task stay valid, but the curve does not end at maximal "
            "supervision."
        )
    above = [point for point in points if point.calibrated.value > 1]
    if above:
        chance = _within([point.calibrated for point in above], 1)
        yield (
            f"{_at(above)} the calibrated risk of the encoder is above 1{chance}: it does worse than a guess that "
            "never looks at the image."
        )
    worse = [point for point in points if point.calibrated.value > point.calibrated_scratch.value]
    if worse:
        chance = _within([point.relative_improvement for point in worse], 0)
        why = " (the encoder stayed frozen, and all of scratch was trained)" if frozen else ""
        what = "which tells nothing" if chance else "pre-training does worse there than random weights"
        yield f"{_at(worse)} the curve is above the diagonal{chance}{', ' if chance else ': '}{what}{why}."


def _on_scratch(points: Sequence[CurvePoint], *, maximal_n: int | None) -> Iterator[str]:
    below = [point for point in points if point.calibrated_scratch.value < 0]
    if below:
        chance = _within([point.calibrated_scratch for point in below], 0)
        control = "the recorded risk of maximal supervision" if maximal_n is None else "maximal supervision"
        yield (
            f"{_at(below)} the calibrated risk of scratch is below 0{chance}: it does better than {control}, so that "
            "there is no relative improvement there, and this part of the curve does not count in the cumulative "
            "improvement."
        )
    above = [point for point in points if point.calibrated_scratch.value > 1]
    if above:
        chance = _within([point.calibrated_scratch for point in above], 1)
        yield (
            f"{_at(above)} the calibrated risk of scratch is above 1{chance}: it does worse than a guess that never "
            "looks at the image."
        )
    same = [
        point
        for point in points
        if maximal_n is not None and point.n_actual >= maximal_n and point.calibrated_scratch.value == 0
    ]
    if same:
        yield (
            f"{_at(same)} scratch is maximal supervision itself, so that its calibrated risk is 0 and there is no "
            "relative improvement."
        )
    rising = [right for left, right in pairwise(points) if right.risk_scratch.value > left.risk_scratch.value]
    if rising:
        yield (
            f"{_at(rising)} scratch does worse than in the regime before: the cumulative improvement takes the area of "
            "this step back, and labels saved count to where scratch first reaches a risk; more seeds would tell "
            "whether it is chance."
        )


def _on_improvement(improvement: Interval | None, no_improvement: str) -> Iterator[str]:
    if no_improvement:
        yield f"There is no cumulative improvement: {no_improvement[0].lower()}{no_improvement[1:]}"
    elif improvement is not None and improvement.value > 1:
        yield (
            "The cumulative improvement is above 1, for the encoder does better than maximal supervision over much of "
            "the range."
        )
    elif improvement is not None and improvement.value < 0:
        chance = _within([improvement], 0)
        yield (
            f"The cumulative improvement is below 0{chance}: over the range as a whole, pre-training does worse than "
            "random weights."
        )


def _on_range(points: Sequence[CurvePoint]) -> Iterator[str]:
    scratch = [point.calibrated_scratch.value for point in points]
    if max(scratch) < NEAR_BLIND:
        yield (
            f"Scratch is nowhere near the blind guess (its highest calibrated risk is {max(scratch):.2f}), so that the "
            "range with few labels, where pre-training is mostly worth most, is not covered; fewer labels would cover "
            "it."
        )
    if min(scratch) > NEAR_MAXIMAL:
        yield (
            f"Scratch is nowhere near maximal supervision (its lowest calibrated risk is {min(scratch):.2f}), so that "
            "the range with many labels is not covered; more labels would cover it."
        )


def _on_uncertainty(points: Sequence[CurvePoint], lost: Sequence[Lost], *, n_draws: Sequence[int]) -> Iterator[str]:
    fewest = min(point.n_seeds for point in points)
    if fewest < _ENOUGH_SEEDS:
        few = [point for point in points if point.n_seeds == fewest]
        known = "nothing" if fewest == 1 else "little"
        yield (
            f"{_at(few)} there {'is one run' if fewest == 1 else f'are {fewest} runs'}, which "
            f"{'tells' if fewest == 1 else 'tell'} {known} about how much the seed matters; expected at least "
            f"{_ENOUGH_SEEDS} seeds."
        )
    if not all(n_draws):
        which = "some calibrated risks are without" if any(n_draws) else "no calibrated risk has"
        yield f"Nothing is known of the uncertainty of some risks, so that {which} an interval."
    most = max(n_draws)
    without_scale = max((each.n for each in lost if each.what == "calibrated"), default=0)
    own = {each: each.n if each.what == "calibrated" else each.n - without_scale for each in lost}
    of_regimes = [each for each in lost if each.what == "relative" and own[each] > 0]
    for each in [each for each in lost if each.what != "relative" and own[each] > 0]:
        yield f"In {own[each]:,} of {most:,} bootstrap draws {_REASONS[each.what]} {_kept([each], most)}."
    for some in ([each for each in of_regimes if each.n <= MOST_LOST * most],
                 [each for each in of_regimes if each.n > MOST_LOST * most]):  # fmt: skip
        if some:
            up_to = "up to " if len(some) > 1 else ""
            regimes = _listed([f"{each.regime:,}" for each in some])
            yield (
                f"In {up_to}{max(own[each] for each in some):,} of {most:,} bootstrap draws scratch with {regimes} "
                f"labels is no worse than maximal supervision; the interval of the relative improvement there "
                f"{_kept(some, most)}."
            )


_REASONS = {
    "calibrated": "maximal supervision is no better than the blind guess; the interval of calibrated risks, and of all "
    "that follows from them,",
    "improvement": "scratch does not improve from the first regime to the last; the interval of the cumulative "
    "improvement",
}


def _kept(some: Sequence[Lost], n_draws: int) -> str:
    return "counts them as outside" if some[0].n <= MOST_LOST * n_draws else "is left out for it"


def _at(points: Sequence[CurvePoint]) -> str:
    """Regimes as the opening of a sentence: With 100, 200 and 400 labels."""
    return f"With {_listed([f'{point.n_requested:,}' for point in points])} labels"


def _listed(shown: Sequence[str]) -> str:
    return f"{', '.join(shown[:-1])}{' and ' if shown[1:] else ''}{shown[-1]}"


def _within(intervals: Sequence[Interval | None], level: float) -> str:
    """Whether all intervals hold the level, so that what is said may be chance."""
    for each in intervals:
        if each is None or each.ci_low is None or each.ci_high is None or not each.ci_low <= level <= each.ci_high:
            return ""
    return ", by no more than the uncertainty"
