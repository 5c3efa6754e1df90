"""Draws of risks by a bootstrap over test images and over seeds, jointly for all runs that were tested on them.

Images. The Bayesian bootstrap: every test image gets a random weight, exponentially distributed, the same for every
run, so that an encoder, its controls and whatever is calculated from them go up and down together. Where a loss has
bounds, as an error has 0 and 100 %, one image at each of them, of half an image's weight, is added: a single error then
has Jeffreys' interval of a proportion, and does not shrink to a point where no image is wrong.

Seeds. The risks of several seeds vary by more than the images explain if the seed itself matters, and their mean is
moved by that surplus, as in :mod:`zoo.evaluation.intervals`. Two or three seeds of one network know next to nothing of
how much seeds vary (with two, a 95 % interval has 13 standard errors on either side), so that all networks of a task
that were given equally many labels tell it together: that they scatter alike, and each by itself, is an assumption.
A seed draws the labels of all of them, and each mean is moved by itself: what it does to all alike makes intervals of
differences in a regime too wide, and is less well known than is assumed, which makes those of risks too narrow. In the
limit where nothing else matters, with five networks, they hold the risk in 76 % of cases with two seeds, 84 % with
three and 90 % with five. What a seed does to one network in several regimes alike makes the interval of a cumulative
improvement too narrow. Means of the same losses are moved alike. One seed says nothing of how seeds differ, and its
interval is of the images alone.

Coverage of the 95 % intervals on planted problems where a seed does not do to all networks alike: 94 to 98 % for a mean
of two to five seeds and for a difference of means; for a difference more, where it does. Of five networks on 300 images
whose seeds move a risk by a standard deviation of 0, 1.2 and 4.9 standard errors of the images (300 repetitions each,
whose own standard error is at most 3 points):

=====  =====================  ===========================
seeds  risk                   difference of two risks
=====  =====================  ===========================
1      95 %, 80 % and 28 %    94 %, 26 % and 10 %
2      95 %, 93 % and 93 %    99 %, 96 % and 95 %
3      93 %, 95 % and 95 %    95 %, 94 % and 94 %
5      94 %, 95 % and 96 %    95 %, 97 % and 97 %
=====  =====================  ===========================

So an interval of one seed is stated as one of the images only, wherever it is shown.

References
----------
D. B. Rubin 1981, The Bayesian Bootstrap.
S. Weerahandi 1993, Generalized Confidence Intervals (the seeds' variance).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeVar

from ...errors import DataError
from ...optional import requires_extra
from ..intervals import N_DRAWS, Interval, interval
from .curve import Drawn

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_BLOCK = 2_000_000  # weights in memory at once
_Name = TypeVar("_Name")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled(Generic[_Name]):
    """What a bootstrap gave.

    Attributes
    ----------
    means : mapping from a name to Drawn
        Mean risk over the runs of that name; draw i of one is of the same images as draw i of another.
    runs : tuple of Interval
        Each single run's risk with its interval over images.
    """

    means: Mapping[_Name, Drawn]
    runs: tuple[Interval, ...]


def resampled(
    losses: Sequence[np.ndarray],
    groups: Mapping[_Name, Sequence[int]],
    *,
    pools: Mapping[_Name, Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> Resampled[_Name]:
    """Bootstrap draws of mean risks.

    Parameters
    ----------
    losses : sequence of float arrays, shape (n_test,)
        Of each run, on the same test images in the same order; any unit.
    groups : mapping from a name to numbers of runs
        A risk is the mean over its runs, which differ in their seed alone.
    pools : mapping from these names, optional
        Groups with the same value have seeds that vary equally much; without it, or where a name has none, a group is
        by itself.
    bounds : (float, float), optional
        The lowest and the highest that a loss can be.
    n_draws : int
        Of the bootstrap; 0 for values without intervals.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Resampled
        In the unit of the losses; lower is better.

    Raises
    ------
    DataError
        If there is no run, the runs have other numbers of images, or a loss is not finite.

    Examples
    --------
    >>> found = resampled([np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])], {"a": [0], "b": [1]}, n_draws=100)
    >>> bool(np.allclose(found.means["b"].draws - found.means["a"].draws, 1.0))  # the same images
    True
    """
    table = _table(losses)  # (n_test, n_runs)
    measured = table.mean(axis=0)
    drawn = image_draws(table, bounds=bounds, n_draws=n_draws, random=np.random.default_rng([seed, 0]))
    pool_of = {name: (pools or {}).get(name, (name,)) for name in groups}
    pooled: dict[Hashable, list[Sequence[int]]] = {}
    for name, columns in groups.items():
        pooled.setdefault(pool_of[name], []).append(columns)
    surplus = {
        pool: _surplus(table, drawn, own, random=np.random.default_rng([seed, 1, number]))
        for number, (pool, own) in enumerate(pooled.items())
    }
    moved: dict[bytes, Floats] = {}  # the same losses are moved alike
    means = {}
    for name, columns in groups.items():
        own, values = drawn[:, list(columns)], measured[list(columns)]
        mean, extra = own.mean(axis=1), surplus[pool_of[name]]
        if len(columns) > 1 and extra is not None:
            random = np.random.default_rng([seed, 2, len(moved)])
            normal = moved.setdefault(_losses_of(table, columns), random.standard_normal(n_draws))
            mean = mean + (extra / len(columns)) ** 0.5 * normal
            mean = mean if bounds is None else np.clip(mean, *bounds)
        means[name] = Drawn(value=float(values.mean()), draws=mean)
    single = tuple(
        interval(float(value), draws) if n_draws else Interval(value=float(value), ci_low=None, ci_high=None)
        for value, draws in zip(measured, drawn.T, strict=True)
    )
    return Resampled(means=means, runs=single)


def image_draws(
    losses: np.ndarray, *, bounds: tuple[float, float] | None, n_draws: int, random: np.random.Generator
) -> Floats:
    """Weighted means of losses of shape (n_test, n_runs), with new weights of the images in each draw.

    Returns
    -------
    float array, shape (n_draws, n_runs)
        Only so many weights are in memory as make some megabytes, however many images and draws there are.
    """
    n_test, n_runs = losses.shape
    drawn = np.empty((n_draws, n_runs))
    block = max(1, _BLOCK // n_test)
    for start in range(0, n_draws, block):
        rows = min(block, n_draws - start)
        weights = random.standard_exponential((rows, n_test))
        above, below = weights @ losses, weights.sum(axis=1)  # (rows, n_runs), (rows,)
        if bounds is not None:
            added = random.standard_gamma(0.5, size=(rows, 2))
            above, below = above + (added @ np.asarray(bounds, np.float64))[:, None], below + added.sum(axis=1)
        drawn[start : start + rows] = above / below[:, None]
    return drawn


def constant_draws(value: float, *, n_draws: int = N_DRAWS) -> Drawn:
    """A risk that was recorded elsewhere, of which nothing but its value is known.

    >>> constant_draws(2.5, n_draws=2).draws.tolist()
    [2.5, 2.5]
    """
    return Drawn(value=value, draws=np.full(n_draws, value))


def _surplus(
    table: Floats, drawn: Floats, groups: Sequence[Sequence[int]], *, random: np.random.Generator
) -> Floats | None:
    """How much seeds vary beyond what the choice of images explains, as a variance, shape (n_draws,); at least 0.

    The variance of the risks is that of the seeds plus that of the images, and its estimate from several groups, times
    their degrees of freedom, is distributed as the variance times chi squared: each draw of chi squared gives a
    variance of the seeds that fits what was seen. None where no group has several seeds.
    """
    several = list({_losses_of(table, columns): columns for columns in groups if len(columns) > 1}.values())
    n_free = sum(len(columns) - 1 for columns in several)
    if not n_free or len(drawn) < 2:
        return None
    measured, squares, by_images = table.mean(axis=0), 0.0, 0.0
    for columns in several:
        n_seeds = len(columns)
        squares += float(measured[list(columns)].var()) * n_seeds
        covariance = np.cov(drawn[:, list(columns)], rowvar=False)
        by_images += float(np.trace(covariance) - covariance.sum() / n_seeds)  # as many times as degrees of freedom
    return np.asarray(np.maximum(0.0, squares / random.chisquare(n_free, size=len(drawn)) - by_images / n_free))


def _losses_of(table: Floats, columns: Sequence[int]) -> bytes:
    """What is the same of the same runs; means alone are often equal by chance, of few images with errors."""
    return blake2b(np.ascontiguousarray(table[:, list(columns)]).tobytes(), digest_size=16).digest()


def _table(losses: Sequence[np.ndarray]) -> np.ndarray:
    if not losses:
        raise DataError("No run was given to resample; expected at least one.")
    sizes = sorted({np.shape(one) for one in losses})
    if len(sizes) > 1 or len(sizes[0]) != 1 or not sizes[0][0]:
        raise DataError(
            f"The losses to resample have the shapes {', '.join(map(str, sizes))}; expected one loss an image, of the "
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
