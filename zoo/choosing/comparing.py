"""Errors on the same images: paired differences from a leader with simultaneous intervals, and label curves.

For a label curve, probes are trained on eighths, quarters, halves and all of the labels, up to three of a size that
share no image, each within one of the next size. A power law with a floor, ``floor + scale * n^-exponent``,
extrapolates the errors. Four sizes do not determine its three numbers, so that every law counts by how well it fits:
the floor is uniform between 0 and the error with all labels, the exponent between 0.05 and 1.5, and the interval holds
95 % of the posterior. It covers the choice of test images and of labels and the form of the law. The law tells by which
share the measured error falls, so that this less the fall is what is expected. Nothing is expected where the error does
not fall significantly on the same test images, or where the interval is wider than the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..evaluation.bootstrap import (
    Interval,
    compute_error_interval,
    compute_error_percents,
    compute_interval,
    estimate_surplus_variances,
    resample_error_percents,
)
from ..optional import require_extra
from .scoring import Probe, compute_losses

with require_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np
    from scipy.special import stdtr, stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Rows = NDArray[np.int64]
    Truths = NDArray[np.bool_]

SHARES = (8, 4, 2, 1)  # the labels over these
FACTORS = (2.0, 4.0)  # times the labels that errors are expected for
MOST_DRAWS = 3  # probes of a size
FEWEST_SIZES = 3
FALLS = 0.975  # probability with which the error must fall from the fewest labels to all
WIDEST = 1.0  # width of the widest interval, as a share of the error with all labels
_EXPONENTS = 0.05, 1.5
_N_LAWS = 20_000
_ROUNDING = 0.05  # points, so that errors of few images are not taken for exact


@dataclass(slots=True, eq=False)
class RungComparison:
    """Outcomes of all that ran a rung, on the same images in the order of the data, whatever that of the visits was."""

    number: int
    n_train: int
    n_test: int
    score: str
    wrong: dict[str, Truths]  # or squared errors
    gained: dict[str, Any]  # test images that a quarter of the labels gets wrong and all right, less the reverse, int8
    clusters: Any  # number of the group of each outcome, or None
    values: dict[str, float]  # what contenders are ordered by; empty where it is their errors
    n_doublings: float  # of the labels, slowed, that are still to come
    groups: Any  # as clusters, without copies where test images alone judge: of the interval of one error
    numbers: Any = None  # of the test images, which alone judge then, if labels are numbers

    def error(self, name: str) -> float:
        return float(compute_error_percents(self.wrong[name], self.numbers))

    def projected(self, name: str) -> float:
        """The error if it went on falling as over the last two doublings."""
        gained = self.gained.get(name, np.zeros(1))
        return self.error(name) - 0.5 * self.n_doublings * float(compute_error_percents(gained, self.numbers))

    def behind(self, name: str, leader: str, *, catching_up: bool = False) -> tuple[float, float, int]:
        """Points behind the leader, their standard error, and degrees of freedom.

        ``catching_up``: less what it would gain on the leader with all labels, if it is gaining on it.
        """
        apart = self.wrong[name].astype(np.float64) - self.wrong[leader]
        variance, part = 1.0, np.ones(1)
        if self.numbers is not None:  # a ratio of means m and v has the influence (m_i - v_i m / v) / v
            squares = np.square(self.numbers - self.numbers.mean())
            variance, part = float(squares.mean()), squares / squares.mean()
        value = float(apart.mean()) / variance
        influence = (apart / variance - value * part) / len(apart)
        if catching_up and name in self.gained:
            gain = (self.gained[name].astype(np.float64) - self.gained[leader]) / (2 * variance)  # a doubling
            if (speed := float(gain.mean())) > 0:
                value -= self.n_doublings * speed
                influence[-len(gain) :] -= self.n_doublings * (gain - speed * part) / len(gain)
        if self.clusters is not None:
            influence = np.asarray(np.bincount(self.clusters, weights=influence), np.float64)
        n = len(influence)
        if n < 2:
            return 100 * value, math.inf, 1
        variance = float(np.square(influence).sum()) * n / (n - 1) + 1.0 / n**2  # half an image more either way
        return 100 * value, 100 * math.sqrt(variance), n - 1

    def worse(self, name: str, leader: str, *, margin: float) -> float:
        """The p-value of a contender that is not behind by more than ``margin`` points, against one that is."""
        value, error, freedom = self.behind(name, leader, catching_up=True)
        return float(stdtr(freedom, -(value - margin) / error))


def compare_with_leader(
    look: RungComparison, names: Sequence[str], *, level: float, seed: int
) -> tuple[dict[str, Interval], dict[str, Interval], float]:
    """Contenders, the leader first, on the images of a look: errors, points behind the leader, optimism of its error.

    Errors in percent have 95 % intervals of their own. The intervals of differences are simultaneous, with one critical
    value, that of the largest of all pairs. Optimism is the selection bias of the lowest of several errors, in points.
    Draws are of the names in their order by letters, so that nothing depends on the order in which they were given.
    """
    by_letters = sorted(names)
    wrong = np.stack([look.wrong[name] for name in by_letters], axis=1)  # (n, k)
    draws = resample_error_percents(wrong, look.clusters, numbers=look.numbers, seed=seed)  # (n_draws, k)
    order = [by_letters.index(name) for name in names]
    errors, moved = compute_error_percents(wrong, look.numbers)[order], (draws - draws.mean(axis=0))[:, order]
    spread = np.stack([(moved - moved[:, [i]]).std(axis=0) for i in range(len(names))])  # (k, k)
    largest = np.zeros(len(draws))
    for i in range(len(names) - 1):
        others = spread[i, i + 1 :]  # 0 where both have the same squared errors
        apart = np.abs(moved[:, i + 1 :] - moved[:, [i]]) / np.where(others > 0, others, np.inf)
        largest = np.maximum(largest, apart.max(axis=1))
    width = float(np.quantile(largest, level)) * spread[0]
    behind = {}
    for name, error, half in zip(names[1:], errors[1:], width[1:], strict=True):
        value = float(error - errors[0])
        behind[name] = Interval(value=value, ci_low=value - float(half), ci_high=value + float(half))
    chosen = (errors + moved).argmin(axis=1)
    optimism = float((moved[:, 0] - moved[np.arange(len(moved)), chosen]).mean())  # the leader's are 0 in the mean
    own = {name: estimate_error(look, name, seed=seed) for name in names}
    return own, behind, max(0.0, optimism) if len(names) > 1 else 0.0


def estimate_error(look: RungComparison, name: str, *, seed: int = 0) -> Interval:
    """The error of one contender on the images of a look, percent."""
    wrong = look.wrong[name]
    if wrong.dtype.kind == "f" and look.numbers is None:  # shares of the pixels of each image
        draws = resample_error_percents(wrong[:, None], look.groups, seed=seed)
        return compute_interval(float(compute_error_percents(wrong)), draws[:, 0])
    return compute_error_interval(look.wrong[name], groups=look.groups, numbers=look.numbers, seed=seed)


def estimate_gap(look: RungComparison, name: str, leader: str, *, level: float) -> Interval:
    """Points behind a leader with an interval of this pair alone, by Student's t."""
    value, error, freedom = look.behind(name, leader)
    width = error * float(stdtrit(freedom, (1 + level) / 2))
    return Interval(value=value, ci_low=value - width, ci_high=value + width)


# --- label curves -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPoint:
    """The error with so many labels, percent."""

    n_labels: int
    error: Interval  # over test images and draws of the labels
    n_draws: int  # probes; 0 of an expected one
    gain: Interval | None = None  # of an expected one: points less than with all labels


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCurve:
    """The errors of an encoder by labels, and what is expected of more."""

    encoder: str
    points: tuple[LabelPoint, ...]  # fewest labels first; the last one has all
    expected: tuple[LabelPoint, ...]  # with FACTORS times the labels; empty where nothing can be said
    exponent: Interval | None  # of the power law
    floor: Interval | None  # percent
    refusal: str  # why nothing is expected, "" otherwise


def draw_label_parts(y: Rows, order: Rows, groups: Array | None) -> list[tuple[Rows, ...]]:
    """Parts of the labels by size, fewest first: up to three a size, disjoint, each within one of the next size.

    ``order`` are the images in the order of visits. Without groups the parts of a size have the classes alike. Sizes at
    which a class has no image, or with fewer than two per class on average, are left out.
    """
    n_classes = len(np.unique(y))
    turn = np.empty(len(y), np.int64)
    if groups is None:
        for label in np.unique(y):
            mine = order[y[order] == label]
            turn[mine] = np.arange(len(mine))
    else:
        _, first = np.unique(groups[order], return_index=True)
        numbers = {int(groups[order[at]]): i for i, at in enumerate(np.sort(first))}
        turn[order] = [numbers[int(group)] for group in groups[order]]
    found = []
    for share in SHARES:
        parts = tuple(
            part
            for block in range(min(share, MOST_DRAWS))
            if len(np.unique(y[part := np.sort(order[turn[order] % share == block])])) == n_classes
        )
        if share == 1 or (parts and min(map(len, parts)) >= 2 * n_classes):
            found.append(parts or (np.sort(order),))
    return found


def measure_label_curve(
    encoder: str,
    parts: Sequence[tuple[Rows, ...]],
    x: Array,
    y: Rows,
    x_test: Array,
    rows_test: Rows,
    y_test: Rows,
    *,
    probe: Probe,
    clusters: Array | None = None,
    groups: Array | None = None,
    seed: int = 0,
) -> LabelCurve:
    """Measures the errors with parts of the labels and continues them.

    ``parts`` are the training images of each probe, fewest first (:func:`draw_label_parts`); ``x`` (n, dim) and ``y``
    (n,) are features and labels of all training images, ``x_test``, ``y_test`` and ``rows_test`` of the test images;
    ``clusters`` (n_test,) numbers what belongs together, ``groups`` the same without copies, as of a
    :class:`RungComparison`; ``seed`` is that of the bootstrap. Labels in float64 are numbers.
    """
    numbers = y_test if y_test.dtype.kind == "f" else None
    columns: list[range] = []
    sizes: list[int] = []
    wrong: list[Array] = []
    for some in parts:
        columns.append(range(len(wrong), len(wrong) + len(some)))
        sizes.append(round(float(np.mean([len(rows) for rows in some]))))
        for rows in some:
            predict = probe(encoder, rows, x[rows], y[rows])
            wrong.append(compute_losses(predict(x_test, rows_test), y_test))
    table = np.stack(wrong, axis=1)  # (n_test, n_probes)
    draws = resample_error_percents(table, clusters, numbers=numbers, seed=seed)  # (n_draws, n_probes)
    found = extrapolate_label_curve(encoder, sizes, compute_error_percents(table, numbers), draws, columns, seed=seed)
    own = partial(compute_error_interval, groups=groups, numbers=numbers, seed=seed)
    points = [
        replace(point, error=own(table[:, some[0]])) if len(some) == 1 else point
        for point, some in zip(found.points, columns, strict=True)
    ]
    return replace(found, points=tuple(points))


def extrapolate_label_curve(
    encoder: str, sizes: Sequence[int], measured: Array, draws: Array, columns: Sequence[range], *, seed: int
) -> LabelCurve:
    """The curve of measured errors (n_probes,) with their bootstrap draws (n_draws, n_probes), percent.

    ``columns`` are the probes of each size. Errors of different draws of the labels are taken to scatter by the same
    share of the error at all sizes, beyond what the test images explain; a draw of the bootstrap has one such share.
    """
    random = np.random.default_rng([seed, 1])
    means = [float(measured[list(some)].mean()) for some in columns]
    several = [(measured[list(some)], draws[:, some]) for some in columns if measured[list(some)].any()]
    relative = [(values / values.mean(), by_images / values.mean()) for values, by_images in several]
    shares = estimate_surplus_variances(relative, random=random) ** 0.5 if relative else 0.0
    values, drawn = [], []
    for mean, some in zip(means, columns, strict=True):
        moved = shares * mean * random.standard_normal(len(draws)) / len(some) ** 0.5
        values.append(mean)
        drawn.append(draws[:, some].mean(axis=1) + moved)
    points = tuple(
        LabelPoint(n_labels=n, error=compute_interval(value, np.clip(one, 0, 100)), n_draws=len(some))
        for n, value, one, some in zip(sizes, values, drawn, columns, strict=True)
    )
    table = np.stack(drawn, axis=1)
    falls = draws[:, columns[0]].mean(axis=1) > draws[:, columns[-1]].mean(axis=1)
    refusal = _why_not(sizes, values, float(falls.mean()))
    if refusal:
        return LabelCurve(encoder=encoder, points=points, expected=(), exponent=None, floor=None, refusal=refusal)
    floor, scale, exponent, weights = _laws(
        np.array(sizes, np.float64), np.array(values), np.cov(table, rowvar=False), random
    )
    expected, known = [], []
    for factor in FACTORS:
        then = floor + scale * factor**-exponent
        with np.errstate(invalid="ignore", divide="ignore"):  # laws of weight 0
            law, gain = _interval(then, weights), _interval(values[-1] * (1 - then / (floor + scale)), weights)
        error = law.moved(times=(values[-1] - gain.value) / law.value)
        expected.append(LabelPoint(n_labels=round(factor * sizes[-1]), error=error, n_draws=0, gain=gain))
        if (error.ci_high or 0.0) - (error.ci_low or 0.0) <= WIDEST * max(values[-1], _ROUNDING):
            known.append(expected[-1])
    if not known:
        refusal = (
            f"the laws that fit leave the error with {expected[0].n_labels:,} labels between "
            f"{expected[0].error.ci_low:.1f} and {expected[0].error.ci_high:.1f} %"
        )
    return LabelCurve(
        encoder=encoder,
        points=points,
        expected=tuple(known),
        exponent=_interval(exponent, weights) if known else None,
        floor=_interval(floor, weights) if known else None,
        refusal=refusal,
    )


def _why_not(sizes: Sequence[int], values: Sequence[float], falls: float) -> str:
    """``falls`` is the share of draws, of the same test images, in which all labels are better than the fewest."""
    if len(sizes) < FEWEST_SIZES:
        return (
            f"errors with {len(sizes)} numbers of labels say nothing of more, at least {FEWEST_SIZES} are needed: too "
            "few labels to train on parts of them"
        )
    if values[-1] == 0:
        return (
            f"with {sizes[-1]:,} labels no test image is wrong, so that these images cannot show what more would bring"
        )
    if falls < FALLS:
        return (
            f"from {sizes[0]:,} to {sizes[-1]:,} labels the error does not fall by more than chance explains "
            f"({values[0]:.1f} to {values[-1]:.1f} %)"
        )
    return ""


def _interval(values: Array, weights: Array) -> Interval:
    """The weighted median and the interval of 95 %."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    places = np.minimum(np.searchsorted(below, np.array([0.025, 0.5, 0.975]) * below[-1]), len(order) - 1)
    low, middle, high = values[order[places]].tolist()
    return Interval(value=middle, ci_low=low, ci_high=high)


def _laws(
    sizes: Array, values: Array, covariance: Array, random: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Floors, scales and exponents of power laws in multiples of all labels, and their weights, each (n_laws,)."""
    precision = np.linalg.inv(covariance + _ROUNDING**2 * np.eye(len(values)))
    floor = random.uniform(0.0, values[-1], _N_LAWS)
    exponent = random.uniform(*_EXPONENTS, _N_LAWS)
    shape = (sizes / sizes[-1]) ** -exponent[:, None]  # (n_laws, m)
    above = values - floor[:, None]
    information = np.einsum("li,ij,lj->l", shape, precision, shape)
    best = np.einsum("li,ij,lj->l", shape, precision, above) / information
    missed = above - best[:, None] * shape
    log_weights = -0.5 * np.einsum("li,ij,lj->l", missed, precision, missed) - 0.5 * np.log(information)
    scale = best + random.standard_normal(_N_LAWS) / np.sqrt(information)
    weights = np.where(scale > 0, np.exp(log_weights - log_weights.max()), 0.0)
    return floor, scale, exponent, weights
