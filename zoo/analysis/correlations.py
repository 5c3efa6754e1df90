"""Comparisons of measurements of the same encoders: paired differences and correlations.

Encoders are not independent (many are versions of one), so p-values are optimistic. Bootstrap samples are counts of how
often each row is drawn; Pearson's r, Spearman's rho and tau-b of a sample are sums weighted by these counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import QueryError, format_count
from ..optional import require_extra
from .columns import Estimate

with require_extra("study", needed_for="A comparison of two measurements"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from scipy import stats
    from statsmodels.regression.linear_model import OLS
    from statsmodels.stats.power import TTestPower

HIGH = 0.5  # a correlation of this size, in the direction that is claimed, is called high
_LEVEL, _POWER = 0.05, 0.8
FEWEST_ENCODERS = 5  # of a correlation
TAU, POINTS = "Kendall's tau", "percentage points"
FEWEST_CLUSTERS = 5  # for a bootstrap that draws them; with fewer it draws encoders
N_RESAMPLES = 1_000
Floats = NDArray[np.float64]
_ROUNDING = 1e-12  # share of the largest value below which a spread is none
_LEAST_DEFINED = 0.5  # share of samples in which a statistic must exist for an interval
_KENDALL_VARIANCE = 0.437  # of atanh(tau), times n - 4: Fieller, Hartley and Pearson 1957


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """Two measurements of the same encoders, by their differences."""

    mean: Estimate  # of the differences, with the paired t-test
    median: Estimate  # of the differences, with Wilcoxon's signed-rank test, which one outlier cannot move
    by_group: Estimate | None  # the mean again, with standard errors that let the members of a group err alike
    sd: float  # of the differences, n - 1 in the denominator
    smallest_p: float  # that Wilcoxon's test can give with so many pairs
    detectable: float  # mean difference that a paired t-test at 5 % would find in four of five repetitions
    n: int


def compare_pairs(
    differences: pd.Series[float],
    *,
    term: str,
    outcome: str = "",
    unit: str = "percentage points",
    groups: pd.Series[str] | None = None,
) -> PairedComparison:
    """Mean and median of paired differences, shape (n_pairs,), none missing.

    Standard errors are also clustered by ``groups``, such as objectives. QueryError below two pairs, and if all
    differences are the same.
    """
    values = differences.to_numpy(dtype=float)
    n = len(values)
    if n < 2:
        raise QueryError(f"A paired comparison of {term} has {n} pairs, expected at least 2; measure more encoders.")
    if wrong := int((~np.isfinite(values)).sum()):
        raise QueryError(f"{wrong} of {n} differences of {term} are missing or infinite; leave these pairs out first.")
    sd = float(values.std(ddof=1))
    if is_constant(values):
        raise QueryError(f"All {n} differences of {term} are {values[0]:g}, expected some spread to judge them by.")
    t_test = stats.ttest_1samp(values, 0.0)
    label = Estimate(term=term, n=n, outcome=outcome, unit=unit)
    mean = label.with_value(
        values.mean(), t_test.confidence_interval(1 - _LEVEL), p=t_test.pvalue, method="paired t-test"
    )
    effect = float(TTestPower().solve_power(nobs=n, alpha=_LEVEL, power=_POWER))
    return PairedComparison(
        mean=mean,
        median=_median(values, label),
        by_group=None if groups is None else _by_group(values, groups, mean),
        sd=sd,
        smallest_p=min(1.0, 2.0 ** (1 - n)),
        detectable=effect * sd,
        n=n,
    )


def correlate_columns(
    first: pd.Series[float], second: pd.Series[float], *, term: str, outcome: str = "", method: str = "correlation"
) -> tuple[Estimate, Estimate]:
    """Pearson's r and Kendall's tau-b of two columns, of the rows that have both (five at least).

    Intervals are those of Fisher's transformation, for tau with the variance 0.437 / (n - 4) of atanh(tau) (Fieller,
    Hartley and Pearson 1957, Biometrika 44).
    """
    pairs = pd.DataFrame({"first": first, "second": second}).dropna()
    n = len(pairs)
    if n < FEWEST_ENCODERS:
        raise QueryError(
            f"A correlation ({term}) has {format_count(n, 'row')}, expected at least 5; measure more encoders."
        )
    for name, values in pairs.items():
        if is_constant(values):
            raise QueryError(f"The {name} column of a correlation ({term}) never varies over {format_count(n, 'row')}.")
    pearson = stats.pearsonr(pairs["first"], pairs["second"])
    tau = stats.kendalltau(pairs["first"], pairs["second"])
    low, high = _kendall_interval(float(tau.statistic), n)
    label = Estimate(term=term, n=n, unit="r", outcome=outcome, method=f"{method}, Pearson")
    r = label.with_value(pearson.statistic, pearson.confidence_interval(1 - _LEVEL), p=pearson.pvalue)
    note = "" if low is not None else "no interval: the order is the same throughout"
    label = label.described(unit="tau", method=f"{method}, Kendall", note=note)
    return r, label.with_value(tau.statistic, (low, high), p=tau.pvalue)


def is_high(correlation: Estimate, *, sign: int = 0) -> bool:
    """True if a correlation is at least 0.5 in size, in the direction of ``sign`` or, if it is 0, in either."""
    value = correlation.value or 0.0
    return (abs(value) if sign == 0 else sign * value) >= HIGH


def is_constant(values: pd.Series[float] | NDArray[Any]) -> bool:
    """True if all values are the same but for rounding: a test of their spread would divide by about 0."""
    column = np.asarray(values, dtype=float)
    return len(column) == 0 or bool(np.ptp(column) <= _ROUNDING * np.abs(column).max())


def _median(values: np.ndarray, label: Estimate) -> Estimate:
    ends = stats.quantile_test(values, q=0.0, p=0.5).confidence_interval(1 - _LEVEL)
    known = bool(np.isfinite(ends).all())
    return label.with_value(
        np.median(values),
        ends if known else (None, None),
        p=stats.wilcoxon(values).pvalue,
        method="Wilcoxon signed-rank test",
        note="" if known else "too few pairs for a 95 % interval of the median",
    )


def _by_group(values: np.ndarray, groups: pd.Series[str], mean: Estimate) -> Estimate | None:
    codes = pd.factorize(groups.astype(str))[0]
    if len(set(codes)) < 2 or len(set(codes)) == len(codes):  # clustering then says nothing, or nothing new
        return None
    fit = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True)
    method = f"mean, standard errors clustered in {format_count(len(set(codes)), 'group')}"
    return mean.with_value(mean.value, fit.conf_int(alpha=_LEVEL)[0], p=fit.pvalues[0], method=method)


def _kendall_interval(tau: float, n: int) -> tuple[float | None, float | None]:
    if abs(tau) > 1 - 1e-9:
        return None, None
    half = stats.norm.ppf(1 - _LEVEL / 2) * np.sqrt(_KENDALL_VARIANCE / (n - 4))
    return float(np.tanh(np.arctanh(tau) - half)), float(np.tanh(np.arctanh(tau) + half))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How many bootstrap samples of what: ``clusters``, such as objectives, where there are five, else encoders."""

    clusters: pd.Series[str] | None = None  # index: encoders; what is drawn together, such as their objectives
    n_resamples: int = N_RESAMPLES
    seed: int = 0

    def counts(self, rows: pd.Index[str]) -> tuple[Floats, str]:
        """How often each of the rows is drawn, shape (n_resamples, n_rows), and in words what was drawn."""
        if self.clusters is not None:
            of = self.clusters.to_dict()  # reindexing a column of text for every pair of metrics took most of the time
            codes = np.unique([str(of.get(row)) for row in rows], return_inverse=True)[1]
            n_clusters = int(codes.max()) + 1
            if n_clusters >= FEWEST_CLUSTERS:
                return draw_counts(n_clusters, self.n_resamples, self.seed)[:, codes], f"{n_clusters} clusters"
        return draw_counts(len(rows), self.n_resamples, self.seed), "encoders"


def compute_pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Pearson's r of each sample; columns of shape (n,) or (n_resamples, n)."""
    total = counts.sum(axis=1, keepdims=True)
    dx, dy = (one - (counts * one).sum(axis=1, keepdims=True) / total for one in (_scaled(x), _scaled(y)))
    variances = (counts * dx * dx).sum(axis=1), (counts * dy * dy).sum(axis=1)
    return _ratio((counts * dx * dy).sum(axis=1), *(np.where(one > _ROUNDING, one, 0.0) for one in variances))


def compute_spearman(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Spearman's rho of each sample: ranks are counts of drawn rows below, and half of those that are equal."""
    below = ((one[:, None] < one) + 0.5 * (one[:, None] == one) for one in (x, y))  # (n, n)
    ranks_x, ranks_y = (counts @ one for one in below)  # (n_resamples, n)
    return compute_pearson(ranks_x, ranks_y, counts)


def compute_pair_signs(values: Floats) -> Floats:
    """Which of two rows is higher, shape (n, n)."""
    return np.sign(values[:, None] - values)


def compute_kendall(x: Floats, y: Floats, counts: Floats, mask: Floats | None = None) -> Floats:
    """Kendall's tau-b of each sample, over the pairs that a mask (n, n) admits; copies of one row are ties."""
    signs = [compute_pair_signs(one) for one in (x, y)]
    if mask is not None:
        signs = [one * mask for one in signs]
    concordant, *untied = (
        ((counts @ one) * counts).sum(axis=1) for one in (signs[0] * signs[1], np.abs(signs[0]), np.abs(signs[1]))
    )
    return _ratio(concordant, *untied)


RESAMPLED: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "Pearson": compute_pearson,
    "Spearman": compute_spearman,
    "Kendall": compute_kendall,
}


def _scaled(values: Floats) -> Floats:
    scaled: Floats = (values - values.min()) / (np.ptp(values) or 1.0)
    return scaled


def _ratio(numerator: Floats, first: Floats, second: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # samples in which a column does not vary are NaN
        ratio: Floats = np.where(first * second > 0, numerator / np.sqrt(first * second), np.nan)
    return ratio


def compute_middle_interval(spread: Floats) -> tuple[float | None, float | None]:
    """The middle 95 % of a statistic over samples; none if it exists in fewer than half of them."""
    known = spread[np.isfinite(spread)]
    if len(known) < _LEAST_DEFINED * len(spread):
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


@lru_cache(maxsize=32)  # many columns have the same rows
def draw_counts(n: int, n_resamples: int, seed: int) -> Floats:
    """How often each of n units is drawn, shape (n_resamples, n)."""
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(float)
    counts.flags.writeable = False
    return counts


def estimate_of(values: Floats, label: Estimate) -> Estimate:
    """The first of the values with the middle 95 % of the others, under a label; the interval holds the value."""
    low, high = compute_middle_interval(values[1:]) if len(values) > 1 else (None, None)
    if low is None or high is None:
        return label.with_value(values[0])
    return label.with_value(values[0], (min(low, float(values[0])), max(high, float(values[0]))))
