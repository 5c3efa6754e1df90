"""Which error to expect of an encoder with a given number of ImageNet labels, from the settings that were measured.

In the coordinates (n^-0.15, log error) learning curves are nearly straight (Eq. 25 of Dubois et al. 2023). Errors are
interpolated there by a monotone cubic (Fritsch and Butland 1984), and extrapolated below the fewest measured labels by
the parabola through the three settings with the fewest. Leaving each setting out over 167 encoders gives mean absolute
errors of 0.2 points between settings and 0.5 to 1.5 below them (docs/decisions/0006-studies.md).

:class:`Noise` states uncertainty as standard deviations in percentage points: of held-out misses, scaled by the
amplification of an extrapolation; of the difference to a power law with a floor, the same direction for all encoders;
and of the 50,000 validation images. Other trainings of the probe or of the encoder are not covered.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from typing import Literal, TypeAlias

from ..errors import QueryError

N_CLASSES = 1_000  # of ImageNet
FEWEST_LABELS = 1_000  # one per class
MOST_LABELS = 1_281_167  # the training set of ImageNet
EXPONENT = 0.15
N_VALIDATION_IMAGES = 50_000
LEVEL = 0.9  # of the intervals
_QUANTILE = 1.6448536269514722  # of the normal distribution, at (1 + LEVEL) / 2
_FEWEST_SETTINGS_OF_TRIAL = 4  # settings
_LARGEST_FLOOR_EXPONENT = 3.0  # of a power law with a floor

Curve: TypeAlias = Mapping[int, float]
"""Error in percent by number of labels, one encoder."""


@dataclass(frozen=True, slots=True)
class PredictedError:
    """The error of one encoder at one number of labels."""

    n_labels: int
    error: float  # percent, lower is better
    kind: Literal["measured", "interpolated", "extrapolated"]
    basis: tuple[int, ...]  # numbers of labels of the measured settings next to it, ascending


@dataclass(frozen=True, slots=True)
class HeldOutError:
    """How far the prediction of a setting that was left out lies from its measurement."""

    predicted: int  # labels of the setting that was predicted
    left_out: tuple[int, ...]  # labels of the settings that the prediction did not see
    mean_absolute_error: float  # percentage points
    percentile_90: float  # of the absolute errors, percentage points
    n: int  # encoders
    root_mean_square: float  # percentage points
    basis: tuple[int, ...]  # labels of the settings that the prediction is next to, as in PredictedError


@dataclass(frozen=True, slots=True)
class Noise:
    """How uncertain the error of one encoder is, in percentage points (standard deviations)."""

    images: float  # from the choice of the validation images
    prediction: float = 0.0  # of the misses of such a prediction; 0 where the error was measured
    scale: float = 1.0  # by which the misses of the trial were multiplied for it
    law: float = 0.0  # what a power law with a floor predicts, less the prediction; 0 unless it is an extrapolation

    @property
    def total(self) -> float:
        """Standard deviation of all of them together."""
        return math.hypot(self.images, self.prediction, self.law)

    def interval(self, error: float) -> tuple[float, float]:
        """Within which nine in ten such errors are expected to lie, in percent."""
        reach = _QUANTILE * self.total
        return max(error - reach, 0.0), min(error + reach, 100.0)


@dataclass(frozen=True, slots=True)
class RankOdds:
    """Which place an encoder may have among others; 1 is the lowest error."""

    lowest: int  # its rank lies from lowest to highest in nine of ten draws
    highest: int
    best: float  # probability that it is the best
    beats_first: float  # probability that it beats the encoder with the lowest shown error; 1/2 for that encoder

    @property
    def ties_with_first(self) -> bool:
        """Whether an interval for the difference, of the same level, holds 0."""
        return self.beats_first > (1 - LEVEL) / 2


@dataclass(frozen=True, slots=True)
class ImageNetBudget:
    """Labels of ImageNet that are as many a class as a user has."""

    n_labels: int  # of ImageNet's 1,000 classes
    asked: int  # labels of the user
    n_classes: int  # of the user
    is_capped: bool  # the user has more a class than ImageNet, so that all of ImageNet stands for them

    @property
    def labels_per_class(self) -> float:
        """The user's."""
        return self.asked / self.n_classes

    def __str__(self) -> str:
        """The translation as a sentence."""
        a_class = f"{self.asked:,} labels of {self.n_classes:,} classes are {_short(self.labels_per_class)} a class"
        if self.is_capped:
            return f"{a_class}; ImageNet has 1,281 per class on average, so that all of its labels stand for them."
        return f"{a_class}, as are {self.n_labels:,} labels of ImageNet's {N_CLASSES:,} classes."


def translate_to_imagenet(n_labels: int, n_classes: int) -> ImageNetBudget:
    """Translates a budget by labels per class; QueryError below one label per class, or below two classes.

    >>> translate_to_imagenet(2_000, 20).n_labels, translate_to_imagenet(5_000, 2).n_labels
    (100000, 1281167)
    """
    if n_classes < 2:
        raise QueryError(f"Got {n_classes} class, expected at least 2.")
    if n_labels < n_classes:
        raise QueryError(
            f"Got {n_labels:,} labels of {n_classes:,} classes, expected at least one per class: nothing was measured "
            "with classes that have no label."
        )
    exact = round(n_labels * N_CLASSES / n_classes)
    return ImageNetBudget(min(exact, MOST_LABELS), n_labels, n_classes, exact > MOST_LABELS)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def describe_labels_per_class(n_labels: int, n_classes: int) -> str:
    """How many labels each class has, in words."""
    short = f"{n_labels / n_classes:,.4g}"
    return f"{short} label{'s' * (short != '1')} per class"


def check_n_labels(n_labels: int) -> None:
    """Raise QueryError below one label per class, or above the whole training set."""
    if n_labels < FEWEST_LABELS:
        raise QueryError(
            f"Got {n_labels:,} labels, expected at least {FEWEST_LABELS:,}: ImageNet has 1,000 classes, "
            "and nothing was measured with classes that have no label."
        )
    if n_labels > MOST_LABELS:
        raise QueryError(
            f"Got {n_labels:,} labels, expected at most {MOST_LABELS:,}: that is all of ImageNet's training set, "
            "and nothing was measured beyond it."
        )


def predict_error(curve: Curve, n_labels: int) -> PredictedError | None:
    """Expected error of a linear probe with ``n_labels`` labels of ImageNet, 1,000 to 1,281,167.

    The measurement itself where there is one. None where the curve ends before ``n_labels``, or holds fewer than the
    three settings from which it could be continued to fewer labels. A power law in n is met exactly:

    >>> curve = {n: 20 * math.exp(3 * n**-0.15) for n in (3_000, 5_000, 12_811, 30_000)}
    >>> predicted = predict_error(curve, 20_000)
    >>> round(predicted.error / (20 * math.exp(3 * 20_000**-0.15)), 9), predicted.kind, predicted.basis
    (1.0, 'interpolated', (12811, 30000))
    """
    check_n_labels(n_labels)
    if any(error <= 0 for error in curve.values()):
        raise QueryError(f"Got an error of {min(curve.values())} percent, expected positive errors in every setting.")
    measured = sorted(curve)
    if n_labels in curve:
        return PredictedError(n_labels, curve[n_labels], "measured", (n_labels,))
    if not measured or n_labels > measured[-1]:
        return None
    if n_labels < measured[0]:
        if len(measured) < 3:
            return None
        nearest = tuple(measured[:3])
        return PredictedError(n_labels, _along(_parabola, curve, nearest, n_labels), "extrapolated", nearest)
    above = next(position for position, n in enumerate(measured) if n > n_labels)
    error = _along(_monotone_cubic, curve, measured, n_labels)
    return PredictedError(n_labels, error, "interpolated", (measured[above - 1], measured[above]))


def estimate_held_out_error(curves: Iterable[Curve], n_labels: int) -> HeldOutError | None:
    """How wrong predictions like that at ``n_labels`` were for settings whose measurement was left out.

    Each setting next to ``n_labels`` that has neighbours on both sides is left out, and the worse result counts; in the
    widest gap, and below the fewest labels, two are, so that the trial is at least as hard as the prediction. None
    where the settings include ``n_labels`` or are too few.
    """
    check_n_labels(n_labels)
    pool = list(curves)
    grid = sorted({n for curve in pool for n in curve})
    if n_labels in grid or len(grid) < _FEWEST_SETTINGS_OF_TRIAL or n_labels > grid[-1]:
        return None
    complete = [curve for curve in pool if len(curve) == len(grid)]
    results = [_leave_out(complete, predicted, left_out) for predicted, left_out in _trials(grid, n_labels)]
    return max(results, key=lambda result: result.mean_absolute_error) if complete else None


def estimate_noise(curve: Curve, predicted: PredictedError, held_out: HeldOutError | None) -> Noise | None:
    """How uncertain a prediction is, see the head of this module; None where its misses are unknown."""
    share = predicted.error / 100
    images = 100 * math.sqrt(share * (1 - share) / N_VALIDATION_IMAGES)
    if predicted.kind == "measured":
        return Noise(images)
    if held_out is None or not held_out.n:
        return None
    if predicted.kind == "interpolated":  # the trial is at least as hard
        return Noise(images, held_out.root_mean_square)
    scale = compute_amplification(predicted.basis, predicted.n_labels) / compute_amplification(
        held_out.basis, held_out.predicted
    )
    law = _floor_law(curve, predicted.n_labels) - predicted.error
    return Noise(images, scale * held_out.root_mean_square, scale, law)


def compute_amplification(settings: Sequence[int], n_labels: int) -> float:
    """By how much the parabola through three settings multiplies independent noise of their log errors.

    >>> settings = 3_000, 5_000, 12_811
    >>> round(compute_amplification(settings, 1_000), 1), compute_amplification(settings, 3_000)
    (10.1, 1.0)
    """
    x, at = [-(n**-EXPONENT) for n in settings], -(n_labels**-EXPONENT)
    weights = [math.prod((at - b) / (a - b) for b in x if b != a) for a in x]
    return math.hypot(*weights)


def simulate_ranks(
    errors: Sequence[float], noises: Sequence[Noise], *, n_draws: int = 2_000, seed: int = 0
) -> list[RankOdds]:
    """Which ranks encoders may have, by drawing their errors (percent) from normal distributions; in their order.

    >>> near, far = simulate_ranks([20.0, 30.0], [Noise(0.2), Noise(0.2)])
    >>> (near.lowest, near.highest, near.best), (far.lowest, far.highest, far.ties_with_first)
    ((1, 1, 1.0), (2, 2, False))
    """
    if not errors:
        return []
    draw = random.Random(seed).gauss
    first = min(range(len(errors)), key=errors.__getitem__)
    alone = [math.hypot(noise.images, noise.prediction) for noise in noises]
    laws = [noise.law for noise in noises]
    ranks = [[0] * (len(errors) + 1) for _ in errors]  # how often an encoder had a rank
    beats = [0] * len(errors)
    for _ in range(n_draws):
        common = draw(0.0, 1.0)
        drawn = [error + common * law + draw(0.0, sd) for error, law, sd in zip(errors, laws, alone, strict=True)]
        for rank, place in enumerate(sorted(range(len(drawn)), key=drawn.__getitem__), start=1):
            ranks[place][rank] += 1
        reference = drawn[first]
        for place, value in enumerate(drawn):
            beats[place] += value < reference
    outside = (1 - LEVEL) / 2 * n_draws
    return [
        RankOdds(
            lowest=_rank_at(counts, outside),
            highest=_rank_at(counts, n_draws - outside),
            best=counts[1] / n_draws,
            beats_first=0.5 if place == first else beats[place] / n_draws,
        )
        for place, counts in enumerate(ranks)
    ]


def _rank_at(counts: Sequence[int], n_below: float) -> int:
    below = 0
    for rank, count in enumerate(counts):
        below += count
        if below >= n_below:
            return rank
    return len(counts) - 1


def _trials(grid: Sequence[int], n_labels: int) -> list[tuple[int, tuple[int, ...]]]:
    """Which setting to predict, and which ones to hide from the prediction."""
    if n_labels < grid[0]:
        near = grid[0] / n_labels <= grid[1] / grid[0]
        return [(grid[0], (grid[0],) if near else (grid[0], grid[1]))]
    above = next(position for position, n in enumerate(grid) if n > n_labels)
    if above == len(grid) - 1:
        return [(grid[above - 1], (grid[above - 2], grid[above - 1]))]
    return [(grid[position], (grid[position],)) for position in (above - 1, above) if position > 0]


def _leave_out(curves: Collection[Curve], predicted: int, left_out: tuple[int, ...]) -> HeldOutError:
    misses: list[float] = []
    basis: tuple[int, ...] = ()
    for curve in curves:
        rest = {n: error for n, error in curve.items() if n not in left_out}
        guess = predict_error(rest, predicted)
        if guess is not None:
            misses.append(abs(guess.error - curve[predicted]))
            basis = guess.basis
    misses.sort()
    mean = sum(misses) / len(misses) if misses else math.inf
    ninetieth = misses[math.ceil(0.9 * len(misses)) - 1] if misses else math.inf
    mean_square = sum(miss**2 for miss in misses) / len(misses) if misses else math.inf
    return HeldOutError(predicted, left_out, mean, ninetieth, len(misses), math.sqrt(mean_square), basis)


Interpolant: TypeAlias = Callable[[Sequence[float], Sequence[float], float], float]


def _along(interpolant: Interpolant, curve: Curve, settings: Sequence[int], n_labels: int) -> float:
    """Interpolate log error against -n^-0.15, which ascends with n; at most 100 percent."""
    places = [-(n**-EXPONENT) for n in settings]
    heights = [math.log(curve[n]) for n in settings]
    return min(math.exp(interpolant(places, heights, -(n_labels**-EXPONENT))), 100.0)


def _parabola(x: Sequence[float], y: Sequence[float], at: float) -> float:
    """The parabola through three points, for ``at`` below them; constant beyond its summit."""
    (x0, x1, x2), (y0, y1, y2) = x, y
    slope = (y1 - y0) / (x1 - x0)
    bend = ((y2 - y1) / (x2 - x1) - slope) / (x2 - x0)
    if bend < 0:
        summit = (x0 + x1) / 2 - slope / (2 * bend)
        at = max(at, min(summit, x0))
    return y0 + slope * (at - x0) + bend * (at - x0) * (at - x1)


def _floor_law(curve: Curve, n_labels: int) -> float:
    """The power law a + b n^-c, with a and b at least 0, of the smallest relative errors; at most 100 percent."""
    _, error = min(
        _floor_law_of_exponent(curve, n_labels, _LARGEST_FLOOR_EXPONENT * (step / 100) ** 2) for step in range(7, 101)
    )
    return min(error, 100.0)


def _floor_law_of_exponent(curve: Curve, n_labels: int, exponent: float) -> tuple[float, float]:
    """Sum of squared relative errors of the best a and b with this exponent c, and what they predict."""
    first = [1 / error for error in curve.values()]
    second = [(n / n_labels) ** -exponent / error for n, error in curve.items()]
    aa, bb, ab = (sum(map(mul, *pair)) for pair in ((first, first), (second, second), (first, second)))
    ay, by = sum(first), sum(second)
    determinant = aa * bb - ab * ab
    a, b = (ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant
    if a < 0:
        a, b = 0.0, by / bb
    if b < 0:
        a, b = ay / aa, 0.0
    loss = sum((a * one + b * other - 1) ** 2 for one, other in zip(first, second, strict=True))
    return loss, a + b


def _monotone_cubic(x: Sequence[float], y: Sequence[float], at: float) -> float:
    """Piecewise cubic Hermite interpolation that never overshoots; ``x`` ascends and ``at`` is within it."""
    widths = [b - a for a, b in pairwise(x)]
    slopes = [(b - a) / width for (a, b), width in zip(pairwise(y), widths, strict=True)]
    if len(x) == 2:
        return y[0] + slopes[0] * (at - x[0])
    inner = [_inner_slope(*pair) for pair in zip(pairwise(widths), pairwise(slopes), strict=True)]
    first = _end_slope((widths[0], widths[1]), (slopes[0], slopes[1]))
    last = _end_slope((widths[-1], widths[-2]), (slopes[-1], slopes[-2]))
    tangents = [first, *inner, last]
    k = max(position for position in range(len(widths)) if x[position] <= at)
    width, t = widths[k], (at - x[k]) / widths[k]
    left = y[k] * (1 + 2 * t) + width * tangents[k] * t
    right = y[k + 1] * (3 - 2 * t) - width * tangents[k + 1] * (1 - t)
    return (1 - t) ** 2 * left + t**2 * right


def _inner_slope(widths: tuple[float, float], slopes: tuple[float, float]) -> float:
    """Weighted harmonic mean of the slopes on either side; flat at a turning point."""
    if slopes[0] * slopes[1] <= 0:
        return 0.0
    weights = (widths[0] + 2 * widths[1], 2 * widths[0] + widths[1])
    return sum(weights) / (weights[0] / slopes[0] + weights[1] / slopes[1])


def _end_slope(widths: tuple[float, float], slopes: tuple[float, float]) -> float:
    """Three-point slope at an end, limited so that the curve stays monotone; the nearer interval comes first."""
    slope = ((2 * widths[0] + widths[1]) * slopes[0] - widths[0] * slopes[1]) / (widths[0] + widths[1])
    if slope * slopes[0] <= 0:
        return 0.0
    if slopes[0] * slopes[1] <= 0 and abs(slope) > 3 * abs(slopes[0]):
        return 3 * slopes[0]
    return slope
