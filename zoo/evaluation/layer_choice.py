"""Choosing one of many variants on training images, and judging the choice on test images that chose nothing.

The error of the chosen variant on the images that chose it is optimistic (selection bias). So the difference to the
default is estimated twice: naive, from the training images, and nested, from the test images, which is unbiased for the
variant chosen. Intervals are over images, or over groups of them (:mod:`.bootstrap`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..optional import require_extra
from .bootstrap import (
    N_DRAWS,
    Interval,
    compute_error_interval,
    compute_error_percents,
    compute_interval,
    resample_error_percents,
)

with require_extra("evaluate", needed_for="Choosing a layer"):
    import numpy as np
    from scipy.stats import binom

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[Any]  # or float64 squared errors
    Floats = NDArray[np.float64]

LEVEL = 0.05  # p-values below it tell two variants apart
_DRAWS_AT_A_TIME = 500
_N_SIGNS, _EXACTLY = 9_999, 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerChoice:
    """The variant that training images choose, and what test images say of it. Differences are points of error."""

    chosen: int  # fewest errors on training images; of equals the default, then the cheapest
    cheapest: int  # cheapest of those that training images do not tell apart from the chosen one
    naive: Interval  # chosen less default, on the training images that chose
    nested: Interval  # the same on the test images
    p_value: float | None  # that test images make them differ so much by chance; None if they are one
    behind: tuple[Interval, ...]  # each variant less the chosen one, on the test images
    p_values: tuple[float | None, ...]  # of each of these, by itself
    tied: tuple[bool, ...]  # not told apart from the chosen one on the test images

    @property
    def optimism(self) -> float:
        """How much better the naive estimate makes the choice look, in points of error."""
        return self.nested.value - self.naive.value


def choose(
    train_wrong: Bools,
    test_wrong: Bools,
    *,
    default: int,
    costs: Floats,
    train_groups: NDArray[np.uint64] | None = None,
    test_groups: NDArray[np.uint64] | None = None,
    train_numbers: Floats | None = None,
    test_numbers: Floats | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> LayerChoice:
    """Chooses a variant on training images, and judges the choice on test images.

    Parameters
    ----------
    train_wrong : bool array, shape (n_train, n_variants)
        Whether each training image was classified wrongly by what was learnt from others; of images that are labelled
        with numbers squared errors, float64.
    test_wrong : bool array, shape (n_test, n_variants)
        The same of test images, which nothing was learnt from.
    default : int
        The variant to compare with.
    costs : float array, shape (n_variants,)
        What each costs to compute, in any unit.
    train_groups, test_groups : array, shape (n,), optional
        Images with the same number, as those of one patient, are resampled together.
    train_numbers, test_numbers : float64 array, shape (n,), optional
        What squared errors are of.
    n_draws, seed : int
        Of the bootstrap.

    Raises
    ------
    DataError
        If the tables do not fit each other, or have no row.

    >>> wrong = np.array([[True, False]] * 6 + [[False, False]] * 4)
    >>> found = choose(wrong, wrong, default=0, costs=np.array([1.0, 1.0]))
    >>> found.chosen, found.nested.value, found.p_value
    (1, -60.0, 0.03125)
    """
    shape = np.shape(train_wrong)
    if len(shape) != 2 or np.shape(test_wrong)[1:] != shape[1:] or not all((*shape, len(test_wrong))):
        raise DataError(
            f"Outcomes of variants have the shapes {shape} and {np.shape(test_wrong)}; expected images x variants, of "
            "the same variants and at least one image each."
        )
    order = [(float(train_wrong[:, one].sum()), one != default, float(costs[one]), one) for one in range(shape[1])]
    chosen = min(order)[-1]
    of_train: Any = {"groups": train_groups, "numbers": train_numbers, "n_draws": n_draws, "seed": seed}
    of_test: Any = {"groups": test_groups, "numbers": test_numbers, "n_draws": n_draws, "seed": seed}
    on_training = compute_paired_p_values(train_wrong, chosen, **of_train)
    cheapest = min((float(costs[one]), *order[one]) for one in range(shape[1]) if on_training[one] >= LEVEL)[-1]
    p_values = compute_paired_p_values(test_wrong, chosen, **of_test)
    return LayerChoice(
        chosen=chosen,
        cheapest=cheapest,
        naive=compute_differences(train_wrong, default, **of_train)[chosen],
        nested=compute_differences(test_wrong, default, **of_test)[chosen],
        p_value=None if chosen == default else p_values[default],
        behind=compute_differences(test_wrong, chosen, **of_test),
        p_values=tuple(None if one == chosen else p for one, p in enumerate(p_values)),
        tied=tuple(p >= LEVEL for p in p_values),
    )


def compute_differences(
    wrong: Bools,
    other: int,
    *,
    groups: NDArray[np.uint64] | None = None,
    numbers: Floats | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> tuple[Interval, ...]:
    """The error of each variant less that of ``other`` on the same images, in points, with its 95 % interval."""
    draws = resample_error_percents(wrong, groups, numbers=numbers, n_draws=n_draws, seed=seed)
    errors, draws = compute_error_percents(wrong, numbers), draws - draws[:, [other]]
    return tuple(
        compute_interval(float(error - errors[other]), drawn) for error, drawn in zip(errors, draws.T, strict=True)
    )


def compute_variant_errors(
    wrong: Bools, *, groups: NDArray[np.uint64] | None = None, numbers: Floats | None = None, seed: int = 0
) -> tuple[Interval, ...]:
    """The error of each variant in percent, with its 95 % interval."""
    return tuple(compute_error_interval(column, groups=groups, numbers=numbers, seed=seed) for column in wrong.T)


def compute_paired_p_values(
    wrong: Bools,
    other: int,
    *,
    groups: NDArray[np.uint64] | None = None,
    numbers: Floats | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> tuple[float, ...]:
    """Two-sided p-values that each variant differs from ``other`` by chance, on the same images; each by itself.

    Of images alone, McNemar's exact test; of groups, whose images go together, the chance that the groups' differences
    with random signs add up to as much; of squared errors, twice the share of resamples in which their difference has
    the other sign. Of twenty variants that are as good, one has a p-value below 0.05 by chance.
    """
    if numbers is not None:
        apart = resample_error_percents(wrong, groups, numbers=numbers, n_draws=n_draws, seed=seed)
        apart -= apart[:, [other]]
        beyond = np.minimum((apart <= 0).sum(axis=0), (apart >= 0).sum(axis=0))
        return tuple(np.minimum(1.0, 2 * (1 + beyond) / (1 + len(apart))).tolist())
    if groups is None:
        return tuple(map(float, _mcnemar(wrong, wrong[:, other])))
    number = np.unique(groups, return_inverse=True)[1].reshape(-1)
    surplus = wrong.astype(np.int64) - wrong[:, [other]]
    sums = [np.bincount(number, weights=column).astype(np.float64) for column in surplus.T]
    return tuple(compute_sign_flip_p(one, seed=seed) for one in sums)


def _mcnemar(wrong: Bools, other: Bools) -> Floats:
    """That p-value of each column of outcomes (n, n_variants) next to others (n,)."""
    only_one, only_other = (wrong & ~other[:, None]).sum(axis=0), (~wrong & other[:, None]).sum(axis=0)
    p: Floats = np.minimum(1.0, 2 * binom.cdf(np.minimum(only_one, only_other), only_one + only_other, 0.5))
    return p


def compute_sign_flip_p(differences: Floats, *, seed: int = 0) -> float:
    """The chance that differences (n,) with random signs add up to as much as these do, or to more.

    Of up to 16 that are not 0 it is exact; of more, of 9,999 draws and the data themselves.

    >>> compute_sign_flip_p(np.array([2.0, 1.0, 1.0, 0.0]))
    0.25
    """
    known = differences[differences != 0]
    total = abs(float(known.sum()))
    if len(known) <= _EXACTLY:
        signs = 1 - 2 * ((np.arange(2 ** len(known))[:, None] >> np.arange(len(known))) & 1)
        return float((np.abs(signs @ known) >= total).mean())
    random = np.random.default_rng(seed)
    n_beyond = 1
    for _ in range(_N_SIGNS // _DRAWS_AT_A_TIME + 1):
        signs = 1 - 2 * random.integers(0, 2, (_DRAWS_AT_A_TIME, len(known)))
        n_beyond += int((np.abs(signs @ known) >= total).sum())
    return n_beyond / (1 + _DRAWS_AT_A_TIME * (_N_SIGNS // _DRAWS_AT_A_TIME + 1))
