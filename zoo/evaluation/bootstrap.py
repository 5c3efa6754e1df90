"""Intervals of errors and risks, and of what is computed from them, by a bootstrap over images and over seeds.

What is resampled is which images were evaluated and which seeds were drawn; the probes stay as they were trained. An
interval does not say what another pretraining run, or other training images, would have given.

Images. The Bayesian bootstrap: every image gets a random weight, exponentially distributed (:func:`draw_weights`). The
weights depend on the number of images, their groups and the seed alone, whatever is computed of the images and whoever
asks, so that errors, differences and metrics on the same images go up and down together. Of more than ``MOST_UNITS``
images, random sets of equal size share a weight: the variance stays the same in expectation, and is off by 1.4 %. Added
to each error are one wrong and one right image of half an image's weight (of other losses with bounds, one image at
each of them), drawn for what the probe did: the same error has the same draws wherever it is resampled.

Errors of one probe. The interval of a share of images that one probe gets wrong is Jeffreys' of a binomial proportion
(:func:`compute_error_interval`), which has its nominal coverage also where few images are wrong, and does not shrink to
a point where none is. It needs no draws. All else (means over seeds, differences, parts, means over classes, losses,
rankings) has the percentiles of its draws. Of numbers an error is the unexplained variance, 1 - R2: a ratio, of which
the variance of the numbers is resampled as the squared errors are.

Groups. Where images come in groups, such as those of one patient, the images of a group are not independent, and groups
are resampled in place of images: all images of one share its weight. Half an image is then worth as many images as the
design effect says (:func:`compute_design_effects`), so that where a probe is wrong on whole groups or on none, the
interval is Jeffreys' of the groups, and where groups do not matter, about that of the images.

Seeds. The errors of several seeds vary by more than the images explain if the seed itself matters. That surplus
variance is estimated together with its uncertainty, and the mean is moved by it. Resampling the seeds as well as the
images would count the variation of the images twice, and three seeds determine their variance poorly. A single seed
does not show how seeds differ: its interval is of the images alone, and is stated so wherever it is shown.

Curves. Two or three seeds of one network determine next to nothing (with two, a 95 % interval has 13 standard errors on
either side), so that the surplus is pooled over all networks of a task with equally many labels: that they scatter
alike, and each by itself, is an assumption. A seed draws the labels of all of them: where it moves all alike, intervals
of differences in a regime are too wide, and those of risks too narrow, for the surplus is less well known than is
assumed. In the limit where nothing else matters, with five networks, 76 % of the intervals of a risk hold it with two
seeds, 84 % with three and 90 % with five. Where a seed moves one network alike in several regimes, the interval of a
cumulative improvement is too narrow.

Draws in which a number is not identified are NaN and count as outside of its interval, which holds 95 % of all draws:
if 3 % are lost, each end leaves out 1 % of them instead of 2.5. If more than 5 % are lost there is no interval.

Coverage of the 95 % intervals on planted problems: 94 to 98 % for single errors and for differences of errors on other
images; 94 to 98 % with five or ten seeds, and up to 99 % with two or three, which cannot show that seeds do not matter.

References
----------
D. B. Rubin 1981, The Bayesian Bootstrap.
L. D. Brown, T. T. Cai and A. DasGupta 2001, Interval Estimation for a Binomial Proportion (Jeffreys' interval).
E. L. Korn and B. I. Graubard 1998, Confidence Intervals for Proportions with Small Expected Number of Positive Counts
Estimated from Survey Data (the design effect).
K. M. Wolter 2007, Introduction to Variance Estimation (random groups: sets of images that share a weight).
S. Weerahandi 1993, Generalized Confidence Intervals (the seeds' variance).
A. B. Owen 2007, The Pigeonhole Bootstrap (why resampling rows and columns counts noise more than once).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import DataError
from ..optional import require_extra
from .curves.calibration import (
    Improvement,
    calibrate_risk_draws,
    calibrated_risk,
    compute_improvements,
    cumulative_improvement,
    interpolate_scratch_labels,
)

with require_extra("evaluate", needed_for="An interval"):
    import numpy as np
    from scipy.special import betaincinv, chdtrc, stdtrit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]
    Outcomes = NDArray[np.int8]

WRONG, RIGHT, ABSENT = 1, 0, -1
N_DRAWS = 4000  # the ends then vary by about 4 % of a standard error from one bootstrap seed to another
MOST_UNITS = 10_000  # images, or sets of them, with a weight of their own
MOST_LOST = 0.05  # share of the draws without which there still is an interval
_WEIGHTS_AT_A_TIME = 2_000_000
_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value and its 95 % interval; the ends are None where its uncertainty is unknown."""

    value: float
    ci_low: float | None
    ci_high: float | None

    def moved(self, points: float = 0.0, *, times: float = 1.0) -> Interval:
        """The same percentage so many times as high and so many points higher.

        It is 100 at most, unless its interval goes beyond that, as that of unexplained variance may. An end at 0 stays,
        for nothing bounds the error from below where none was seen.

        >>> Interval(value=0.0, ci_low=0.0, ci_high=29.0).moved(4.0)
        Interval(value=4.0, ci_low=0.0, ci_high=33.0)
        """
        ends = (self.value, self.ci_low, self.ci_high)
        most = 100.0 if max(one or 0.0 for one in ends) <= 100 else np.inf
        value, low, high = (one and min(times * one + points, most) for one in ends)
        return Interval(value=value or min(points, most), ci_low=low, ci_high=high)


def compute_interval(value: float, draws: Floats) -> Interval:
    """The percentile interval of a value from its bootstrap draws, widened to hold the value itself.

    >>> compute_interval(0.0, np.linspace(0.1, 0.2, 101)).ci_low
    0.0
    """
    return compute_drawn_interval(Drawn(value=value, draws=draws))


def compute_error_interval(
    wrong: NDArray[Any],
    *,
    groups: NDArray[Any] | None = None,
    numbers: NDArray[Any] | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> Interval:
    """The error of one probe on images, percent, with the one interval that is printed of it: Jeffreys', of no draws.

    Of ``groups`` (n_images,) it is Jeffreys' of as many independent images as the design effect leaves, fewer by the
    square of Student's t of the images over that of the groups (Korn and Graubard 1998). Of squared errors ``wrong`` of
    ``numbers``, float64 (n_images,) both, it is the unexplained variance, and resampled.

    >>> found = compute_error_interval(np.arange(100) < 4)
    >>> found.value, round(found.ci_low, 2), round(found.ci_high, 2)
    (4.0, 1.36, 9.23)
    """
    if numbers is not None:
        draws = resample_error_percents(wrong[:, None], groups, numbers=numbers, n_draws=n_draws, seed=seed)
        return compute_interval(float(compute_error_percents(wrong, numbers)), draws[:, 0])
    n, n_wrong, share = len(wrong), int(np.count_nonzero(wrong)), 1.0
    if groups is not None:
        n_free = max(len(np.unique(groups)) - 1, 1)
        effect = float(compute_design_effects(np.asarray(wrong, np.int8)[:, None], groups)[0])
        share = float(stdtrit(max(n - 1, 1), 0.975) / stdtrit(n_free, 0.975)) ** 2 / effect
    value = 100 * n_wrong / n
    ends = betaincinv(n_wrong * share + 0.5, (n - n_wrong) * share + 0.5, [0.025, 0.975])
    low, high = (100 * ends).tolist()
    return Interval(value=value, ci_low=min(low, value), ci_high=max(high, value))


def build_outcome_table(
    n_images: int, evaluated: Sequence[tuple[NDArray[np.int64] | None, NDArray[np.bool_]]]
) -> Outcomes:
    """Table int8 (n_images, n_probes): 1 wrong, 0 right, -1 not evaluated.

    ``evaluated`` has, for each probe, the images that it was evaluated on (None for all) and whether it named their
    class.
    """
    table = np.full((n_images, len(evaluated)), ABSENT, dtype=np.int8)
    for column, (indices, correct) in enumerate(evaluated):
        table[slice(None) if indices is None else indices, column] = np.where(correct, RIGHT, WRONG)
    return table


def number_groups(groups: ArrayLike | None, n: int) -> Indices | None:
    """Number of each image's group, from 0; None where every image is by itself."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n,):
        raise DataError(f"The groups have the shape {values.shape}; expected one for each of the {n} images.")
    numbers = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return None if numbers.max() + 1 == n else numbers


def number_units(n: int, groups: Indices | None) -> Indices | None:
    """What has a weight of its own, (n,) from 0: groups, or sets of more than ``MOST_UNITS`` images; None: each image.

    >>> number_units(5, None) is None, np.bincount(number_units(30_000, None)).tolist() == [3] * 10_000
    (True, True)
    """
    if groups is not None or n <= MOST_UNITS:
        return groups
    return np.asarray(np.random.default_rng(n).permutation(n) % MOST_UNITS)


def draw_weights(n: int, units: Indices | None, n_draws: int, *, seed: int, part: int = 0) -> Iterator[Floats]:
    """Weights of the units of ``n`` images (:func:`number_units`), (n_units, n_drawn), some draws at a time.

    They are a function of these numbers alone. ``part`` tells image sets apart that are compared with each other: 0 for
    test images, 1 for training images.
    """
    random = np.random.default_rng([seed, 0, part])
    n_units, block = n if units is None else int(units.max()) + 1, max(1, _WEIGHTS_AT_A_TIME // n)
    for start in range(0, n_draws, block):
        yield random.standard_exponential((n_units, min(block, n_draws - start)))


def draw_image_weights(n: int, groups: Indices | None, n_draws: int, *, seed: int) -> Iterator[Floats]:
    """Those of ``n`` test images, numbered groups (n,) of which are resampled: (n, n_drawn), some draws at a time."""
    units = number_units(n, groups)
    for weights in draw_weights(n, units, n_draws, seed=seed):
        yield weights if units is None else weights[units]


def average_draws(
    losses: Floats,
    *,
    bounds: tuple[float, float] | None,
    groups: ArrayLike | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    part: int = 0,
) -> Floats:
    """Bootstrap draws of mean losses (n, k) of k probes on n images of one set, float64 (n_draws, k).

    A loss is NaN where a probe was not evaluated on an image. Draw d of the mean loss of a probe j is, with weights w
    of images and h of an image at each of the bounds, the lowest and the highest that a loss can be ::

        (sum_i w_di losses_ij + effect_j (h_d0 low + h_d1 high)) / (sum_i w_di there_ij + effect_j (h_d0 + h_d1))

    where there is whether the probe was evaluated on the image, and effect the design effect of groups. Without
    ``bounds`` nothing is added. With ``groups`` (n,) whole groups are resampled; losses are then at a bound, if there
    are bounds. The others are as for :func:`draw_weights`.
    """
    n, k = losses.shape
    numbers, is_there = number_groups(groups, n), ~np.isnan(losses)
    units = number_units(n, numbers)
    above, below = np.where(is_there, losses, 0.0), (is_there[:, :1] if is_there.all() else is_there).astype(np.float64)
    if units is not None:
        above, below = _sums_of(above, units), _sums_of(below, units)
    added = np.zeros((2, n_draws, k))  # at the low bound, at the high one
    if bounds is not None:
        outcomes = np.where(is_there, losses == bounds[1], ABSENT).astype(np.int8)
        effects = 1.0 if numbers is None else compute_design_effects(outcomes, numbers)
        added = effects * _halves(losses, n_draws, seed)
    low, high = bounds or (0.0, 0.0)
    drawn, start = np.empty((n_draws, k)), 0
    for weights in draw_weights(n, units, n_draws, seed=seed, part=part):
        rows = slice(start, start := start + weights.shape[1])
        top = weights.T @ above + low * added[0, rows] + high * added[1, rows]
        drawn[rows] = top / (weights.T @ below + added[:, rows].sum(axis=0))
    return drawn


def _halves(losses: Floats, n_draws: int, seed: int) -> Floats:
    """Weights of half an image at the low and the high bound, (2, n_draws, k), by what each probe did.

    Probes that did the same are apart by their order, for that they are as good is not known.
    """
    seen, found = Counter[int](), []
    for column in losses.T:
        key = _hash_of(column)
        found.append(np.random.default_rng([seed, 1, key, seen[key]]).standard_gamma(0.5, size=(2, n_draws)))
        seen[key] += 1
    return np.stack(found, axis=-1)


def _hash_of(losses: Floats) -> int:
    """Of the losses of some runs; means alone are often equal by chance, with few images and errors."""
    return int.from_bytes(blake2b(np.ascontiguousarray(losses).tobytes(), digest_size=8).digest())


def resample_errors(
    outcomes: Outcomes,
    risks: Mapping[_Name, Sequence[int]],
    *,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    part: int = 0,
    groups: NDArray[np.uint64] | None = None,
) -> Mapping[_Name, Drawn]:
    """Errors on the images of one set, in percent, with their bootstrap draws, by name.

    An error is the mean over its columns of ``outcomes`` (:func:`build_outcome_table`), which differ in their seed
    alone. Draw i of one error and draw i of another are of the same images. With ``groups`` (n_images,) of the images,
    groups are resampled in place of images.

    >>> wrong = np.array([[1], [0], [0], [0]], dtype=np.int8)
    >>> draws = resample_errors(wrong, {"error": [0]}, n_draws=20_000)["error"].draws
    >>> bool(abs(draws.mean() - 100 * 1.5 / 5) < 0.5)  # Jeffreys: half an image wrong and half an image right added
    True
    """
    empty = np.flatnonzero((outcomes != ABSENT).sum(axis=0) == 0)
    if empty.size:
        raise DataError(f"Probe {empty[0]} was evaluated on no image; expected at least one to resample.")
    losses = np.where(outcomes == ABSENT, np.nan, 100.0 * (outcomes == WRONG))
    how: Any = {"groups": groups, "n_draws": n_draws, "seed": seed, "part": part}
    return _resampled(losses, risks, bounds=(0.0, 100.0), **how).means


def compute_error_percents(wrong: NDArray[Any], numbers: NDArray[Any] | None = None) -> Floats:
    """Shares of images (n_images, k) that are wrong, percent (k,); of squared errors of numbers, of their variance."""
    return np.asarray(100.0 * wrong.mean(axis=0) / (1.0 if numbers is None else numbers.var()))


def resample_error_percents(
    wrong: NDArray[Any],
    groups: NDArray[Any] | None,
    *,
    numbers: NDArray[Any] | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> Floats:
    """Bootstrap draws of errors on the same images, percent (n_draws, k); whole groups are resampled.

    ``wrong`` is bool (n_images, k); or float, the share of each image that is wrong, as of pixels, to which no image is
    added; or squared errors of ``numbers`` (n_images,), whose error is a ratio: the draw d of the unexplained variance
    is, with weights w that add up to 1 ::

        sum_i w_di wrong_i / (sum_i w_di c_i^2 - (sum_i w_di c_i)^2)   where c = numbers - their mean
    """
    how: Any = {"groups": groups, "n_draws": n_draws, "seed": seed}
    if numbers is None:
        return average_draws(100.0 * wrong, bounds=None if wrong.dtype.kind == "f" else (0.0, 100.0), **how)
    centred = numbers - numbers.mean()
    drawn = average_draws(np.column_stack([wrong, centred, np.square(centred)]), bounds=None, **how)
    return np.asarray(100.0 * drawn[:, :-2] / (drawn[:, -1:] - np.square(drawn[:, -2:-1])))


def estimate_surplus_variances(several: Sequence[tuple[Floats, Floats]], *, random: np.random.Generator) -> Floats:
    """Variance of a seed's expected error beyond what the choice of images explains, float64 (n_draws,), at least 0.

    ``several`` are errors by seed (n_seeds,), as measured, with draws of them (n_draws, n_seeds) by resampled images,
    of one network or of several whose seeds vary alike; 0 where none has two seeds.

    The variance of errors is that of the seeds plus that of the images, and its estimate, times its degrees of freedom,
    is distributed as the variance times chi squared: each draw of chi squared gives a variance that fits the data.
    """
    squares, by_images, n_free = 0.0, 0.0, 0
    for by_seed, draws in several:
        if len(by_seed) > 1 and len(draws) > 1:
            squares += float(by_seed.var()) * len(by_seed)
            by_images += _squares_by_images(np.cov(draws, rowvar=False))
            n_free += len(by_seed) - 1
    n_draws = len(several[0][1])
    if not n_free:
        return np.zeros(n_draws)
    return np.asarray(np.maximum(0.0, squares / random.chisquare(n_free, size=n_draws) - by_images / n_free))


def _squares_by_images(covariance: Floats) -> float:
    """Expected sum of squares around the mean of errors with this covariance (n_probes, n_probes)."""
    return float(np.trace(covariance) - covariance.sum() / len(covariance))


def compute_disagreement_p(outcomes: Outcomes, *, groups: NDArray[np.uint64] | None = None) -> float:
    """The p-value that errors of several probes vary so much though only the choice of images made them differ.

    The probes are those of several seeds, which draw what they are trained and evaluated on. If they are all as good,
    the sum of squares of their errors around the mean, over the variance that the images give a difference of two of
    them, is distributed as chi squared with one degree of freedom fewer than probes. ``outcomes`` are those of
    :func:`build_outcome_table`, of at least two probes; with ``groups`` of the images, it is the choice of groups.

    >>> apart = np.full((400, 2), -1, dtype=np.int8)
    >>> apart[:200, 0], apart[200:, 1] = np.arange(200) % 10 == 0, np.arange(200) % 2 == 0  # 10 and 50 % wrong
    >>> compute_disagreement_p(apart) < 1e-6, compute_disagreement_p(apart[:, [0, 0]])
    (True, 1.0)
    """
    there, wrong = outcomes != ABSENT, outcomes == WRONG
    n = there.sum(axis=0)  # (n_probes,)
    errors = wrong.sum(axis=0) / n
    around = np.where(there, wrong - errors, 0.0)
    smooth = (wrong.sum(axis=0) + 0.5) / (n + 1)  # as the intervals have it, so that no error is certain
    variances = smooth * (1 - smooth) / n
    if groups is not None:
        variances = variances * compute_design_effects(outcomes, groups)
        around, there = _sums_of(around, groups), _sums_of(there, groups) > 0  # (n_groups, n_probes)
    together = there.T.astype(float) @ there  # images, or groups, that two probes share
    covariance = (around.T @ around) / np.outer(n, n)
    np.fill_diagonal(covariance, variances)
    covariance[together == 0] = 0.0
    n_probes = len(errors)
    by_images = _squares_by_images(covariance) / (n_probes - 1)
    surplus = float(((errors - errors.mean()) ** 2).sum())
    if surplus == 0 or by_images <= 0:
        return 1.0 if surplus == 0 else 0.0
    return float(chdtrc(n_probes - 1, surplus / by_images))


def compute_design_effects(outcomes: Outcomes, groups: NDArray[Any]) -> Floats:
    """How many times the variance of independent images each error has, as images of a group go together, (n_probes,).

    From 1, as if they had nothing to do with each other, to what they would have if a probe were wrong on all images of
    a group or on none (the mean size of the groups, by images); the latter also where nothing shows it, for no image or
    every image is wrong, or there is one group.

    >>> alike = np.repeat(np.array([[1], [0], [0], [0]], dtype=np.int8), 5, axis=0)
    >>> compute_design_effects(alike, np.repeat(np.arange(4), 5).astype(np.uint64)).round(6).tolist()
    [5.0]
    """
    wrong, there = _sums_of(outcomes == WRONG, groups), _sums_of(outcomes != ABSENT, groups)  # (n_groups, n_probes)
    n, n_groups = there.sum(axis=0), (there > 0).sum(axis=0)
    most, share = (there**2).sum(axis=0) / n, wrong.sum(axis=0) / n
    by_images = n * share * (1 - share)
    is_known = (by_images > 0) & (n_groups > 1)
    by_groups = ((wrong - share * there) ** 2).sum(axis=0) * n_groups / np.maximum(n_groups - 1, 1)
    return np.asarray(np.where(is_known, np.clip(by_groups / np.where(is_known, by_images, 1), 1, most), most))


def _sums_of(table: NDArray[Any], groups: NDArray[Any]) -> Floats:
    """Sums over the rows of each group, float64 (n_groups, n_columns)."""
    number = np.unique(groups, return_inverse=True)[1]
    sums = [np.bincount(number, weights=column.astype(np.float64)) for column in table.T]
    return np.stack(sums, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResampledRisks(Generic[_Name]):
    """Mean risks with their draws, which are of the same images in all, and each run's risk with its interval over
    images.
    """

    means: Mapping[_Name, Drawn]
    runs: tuple[Interval, ...]


def resample_risks(
    losses: Sequence[np.ndarray],
    groups: Mapping[_Name, Sequence[int]],
    *,
    pools: Mapping[_Name, Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> ResampledRisks[_Name]:
    """Bootstrap draws of mean risks, in the unit of the losses.

    ``losses`` are one float array (n_test,) a run, on the same test images in the same order. A risk of ``groups`` is
    the mean over its runs, which differ in their seed alone. Groups with the same value in ``pools`` have seeds that
    vary equally much; without it, or where a name has none, a group is by itself. ``bounds`` are the lowest and the
    highest that a loss can be. ``n_draws`` of 0 gives values without intervals. Means of the same losses have the same
    draws.

    >>> losses = [np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])]
    >>> found = resample_risks(losses, {"a": [0], "b": [1]}, n_draws=100)
    >>> bool(np.allclose(found.means["b"].draws - found.means["a"].draws, 1.0))  # the same images
    True
    """
    table, first = _table(losses), dict[int, int]()
    place = [first.setdefault(_hash_of(column), run) for run, column in enumerate(table.T)]
    same = {name: [place[run] for run in columns] for name, columns in groups.items()}
    return _resampled(table, same, pools=pools, bounds=bounds, n_draws=n_draws, seed=seed)


def _resampled(
    table: Floats,
    members: Mapping[_Name, Sequence[int]],
    *,
    pools: Mapping[_Name, Hashable] | None = None,
    bounds: tuple[float, float] | None,
    n_draws: int,
    seed: int,
    **how: Any,
) -> ResampledRisks[_Name]:
    """Of losses (n_images, n_runs); ``how`` are groups and part of the images (:func:`average_draws`)."""
    measured = np.nanmean(table, axis=0)
    drawn = average_draws(table, bounds=bounds, n_draws=n_draws, seed=seed, **how)
    runs = [
        Drawn(
            value=float(value),
            draws=draws,
            exact=_exact(losses, how.get("groups")) if bounds == (0.0, 100.0) and n_draws else None,
        )
        for value, draws, losses in zip(measured, drawn.T, table.T, strict=True)
    ]
    key_of = {name: _hash_of(table[:, list(columns)]) for name, columns in members.items()}
    pool_of = {name: (pools or {}).get(name, (name,)) for name in members}
    pooled: dict[Hashable, dict[int, list[int]]] = {}  # runs of each pool; the same losses count once
    for name, columns in members.items():
        pooled.setdefault(pool_of[name], {})[key_of[name]] = list(columns)
    surplus = {
        pool: estimate_surplus_variances(
            [(measured[columns], drawn[:, columns]) for columns in some.values()],
            random=np.random.default_rng([seed, 2, *sorted(some)]),
        )
        for pool, some in pooled.items()
    }
    means: dict[_Name, Drawn] = {}
    for name, columns in members.items():
        if len(columns) == 1:
            means[name] = runs[columns[0]]
            continue
        normal = np.random.default_rng([seed, 3, key_of[name]]).standard_normal(n_draws)
        mean = drawn[:, list(columns)].mean(axis=1) + (surplus[pool_of[name]] / len(columns)) ** 0.5 * normal
        draws = mean if bounds is None else np.clip(mean, *bounds)
        means[name] = Drawn(value=sum(measured[list(columns)].tolist()) / len(columns), draws=draws)
    return ResampledRisks(means=means, runs=tuple(map(compute_drawn_interval, runs)))


def _exact(losses: Floats, groups: NDArray[Any] | None) -> Interval | None:
    """The interval of losses (n,) in percent, NaN where there is none, if each image is right or wrong."""
    is_there = ~np.isnan(losses)
    there = losses[is_there]
    if not ((there == 0) | (there == 100)).all():
        return None
    return compute_error_interval(there == 100, groups=None if groups is None else groups[is_there])


def make_constant_draws(value: float, *, n_draws: int = N_DRAWS) -> Drawn:
    """A risk that was recorded elsewhere, of which only the value is known.

    >>> make_constant_draws(2.5, n_draws=2).draws.tolist()
    [2.5, 2.5]
    """
    return Drawn(value=value, draws=np.full(n_draws, value))


def _table(losses: Sequence[np.ndarray]) -> np.ndarray:
    if not losses:
        raise DataError("No run was given to resample; expected at least one.")
    sizes = sorted({np.shape(one) for one in losses})
    if len(sizes) > 1 or len(sizes[0]) != 1 or not sizes[0][0]:
        raise DataError(
            f"The losses to resample have the shapes {', '.join(map(str, sizes))}; expected one loss per image, of the "
            "same test images in every run."
        )
    table = np.stack([np.asarray(one, np.float64) for one in losses], axis=1)
    if not np.isfinite(table).all():
        image, run = (int(at) for at in np.argwhere(~np.isfinite(table))[0])
        raise DataError(
            f"The loss of run {run} on test image {image} is {table[image, run]}; expected a finite number, of every "
            "image."
        )
    return table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """A risk with its bootstrap draws.

    Attributes
    ----------
    value : float
        As measured; the mean over seeds, if there are several.
    draws : float array, shape (n_draws,)
        Draw i of one risk and draw i of another are of the same resample of test images and seeds. Empty, if nothing
        is known of the uncertainty: whatever is computed from it has no interval either. A risk that is to be taken as
        exact has the same number in all draws.
    exact : Interval, optional
        That needs no draws, as of the error of one probe.
    """

    value: float
    draws: Floats = field(default_factory=lambda: np.empty(0))
    exact: Interval | None = None


def calibrate_draws(risks: Sequence[Drawn], *, blind: Drawn, maximal: Drawn) -> list[Drawn]:
    """Calibrated risks, one a risk (:func:`~zoo.evaluation.curves.calibration.calibrated_risk`)."""
    values = calibrated_risk([each.value for each in risks], blind=blind.value, maximal=maximal.value)
    draws = [
        calibrate_risk_draws(each.draws, blind=blind.draws, maximal=maximal.draws)
        if _all_drawn(each, blind, maximal)
        else np.empty(0)
        for each in risks
    ]
    return [Drawn(value=float(value), draws=one) for value, one in zip(values, draws, strict=True)]


def compute_relative_draws(calibrated: Drawn, scratch: Drawn) -> Drawn | None:
    """Share of scratch's calibrated risk that the encoder takes away; None where scratch has none.

    >>> compute_relative_draws(Drawn(value=0.25), Drawn(value=1.0)).value
    0.75
    """
    if scratch.value <= 0:
        return None
    draws = np.empty(0)
    if _all_drawn(calibrated, scratch):
        with np.errstate(over="ignore", invalid="ignore"):
            draws = 1 - calibrated.draws / np.where(scratch.draws > 0, scratch.draws, np.nan)
    return Drawn(value=(scratch.value - calibrated.value) / scratch.value, draws=draws)


def compute_improvement_draws(
    calibrated: Sequence[Drawn], scratch: Sequence[Drawn]
) -> tuple[Improvement | None, Drawn | None, str]:
    """Cumulative improvement, its draws and an empty text; or None, None, and the reason in a sentence."""
    try:
        found = cumulative_improvement([each.value for each in calibrated], [each.value for each in scratch])
    except DataError as error:
        return None, None, str(error)
    draws = np.empty(0)
    if _all_drawn(*calibrated, *scratch):
        draws = compute_improvements(
            *(np.stack([each.draws for each in some], axis=1) for some in (calibrated, scratch))
        )
    return found, Drawn(value=found.value, draws=draws), ""


def compute_scratch_interval(
    n: Sequence[int], risk: Drawn, scratch: Sequence[Drawn]
) -> tuple[float | None, float | None]:
    """95 % interval of the labels that scratch needs for a risk; None for an end beyond ``n``, or without draws."""
    if not _all_drawn(risk, *scratch):
        return None, None
    needed = interpolate_scratch_labels(n, risk.draws, np.stack([each.draws for each in scratch], axis=1))
    known = np.sort(needed[~np.isnan(needed)])
    beyond = compute_share_beyond(len(known), len(needed))
    if beyond is None:
        return None, None
    ends = (known[int(beyond * (len(known) - 1))], known[-1 - int(beyond * (len(known) - 1))])
    return tuple(float(end) if 0 < end < np.inf else None for end in ends)  # type: ignore[return-value]  # two


def compute_drawn_interval(drawn: Drawn) -> Interval:
    """Its 95 % interval, which holds the value; the ends are None without draws, or if too many are lost."""
    if drawn.exact is not None:
        return drawn.exact
    value, known = float(drawn.value), drawn.draws[np.isfinite(drawn.draws)]
    beyond = compute_share_beyond(len(known), len(drawn.draws))
    if beyond is None:
        return Interval(value=value, ci_low=None, ci_high=None)
    low, high = (float(end) for end in np.percentile(known, [100 * beyond, 100 * (1 - beyond)]))
    return Interval(value=value, ci_low=min(low, value), ci_high=max(high, value))


def count_lost_draws(drawn: Drawn) -> int:
    """Draws in which it is not identified."""
    return int((~np.isfinite(drawn.draws)).sum())


def compute_share_beyond(n_known: int, n_draws: int) -> float | None:
    """Share of the known draws beyond either end, so that 95 % of all are between; None where they are too few.

    >>> compute_share_beyond(4000, 4000), compute_share_beyond(3800, 4000), compute_share_beyond(3799, 4000)
    (0.025, 0.0, None)
    """
    n_lost = n_draws - n_known
    if n_known == 0 or n_lost > MOST_LOST * n_draws:
        return None
    return (MOST_LOST * n_draws - n_lost) / 2 / n_known


def _all_drawn(*risks: Drawn) -> bool:
    return all(len(each.draws) for each in risks)
