"""Whether two measurements of the same encoders agree: their mean difference, and how they order the encoders.

Agreement has two sides that a correlation alone confuses. Two columns can differ by a constant and order the encoders
alike, or have the same mean and order them differently; so each question has its own function here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import QueryError
from ..optional import requires_extra
from .estimates import Estimate

with requires_extra("study", needed_for="A comparison of two measurements"):
    import numpy as np
    import pandas as pd
    from scipy import stats
    from statsmodels.regression.linear_model import OLS
    from statsmodels.stats.power import TTestPower

HIGH = 0.5  # a correlation of this size, in the direction that is claimed, is called high
_LEVEL, _POWER = 0.05, 0.8
_ROUNDING = 1e-12  # share of the largest value below which a spread is none
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


def paired_comparison(
    differences: pd.Series[float],
    *,
    term: str,
    outcome: str = "",
    unit: str = "percentage points",
    groups: pd.Series[str] | None = None,
) -> PairedComparison:
    """Mean and median of paired differences.

    Parameters
    ----------
    differences : Series of float, shape (n_pairs,)
        One measurement minus the other, none missing.
    term, outcome, unit : str
        Labels of the estimates.
    groups : Series of str, shape (n_pairs,), optional
        Pairs of one group, such as encoders of one objective, may err alike: standard errors are clustered by it too.

    Returns
    -------
    PairedComparison
        The interval of the median is the exact one by order statistics; below six pairs there is none.

    Raises
    ------
    QueryError
        If there are fewer than two pairs, one is missing or infinite, or all differences are the same.
    """
    values = differences.to_numpy(dtype=float)
    n = len(values)
    if n < 2:
        raise QueryError(f"A paired comparison of {term} has {n} pairs, expected at least 2; measure more encoders.")
    if wrong := int((~np.isfinite(values)).sum()):
        raise QueryError(f"{wrong} of {n} differences of {term} are missing or infinite; leave these pairs out first.")
    sd = float(values.std(ddof=1))
    if _never_varies(values):
        raise QueryError(f"All {n} differences of {term} are {values[0]:g}, expected some spread to judge them by.")
    t_test = stats.ttest_1samp(values, 0.0)
    low, high = t_test.confidence_interval(1 - _LEVEL)
    label = Estimate(term=term, value=None, n=n, outcome=outcome, unit=unit)
    mean = label.described(value=float(values.mean()), ci_low=float(low), ci_high=float(high),
                           p=float(t_test.pvalue), method="paired t-test")  # fmt: skip
    effect = float(TTestPower().solve_power(nobs=n, alpha=_LEVEL, power=_POWER))
    return PairedComparison(
        mean=mean, median=_median(values, label), by_group=None if groups is None else _by_group(values, groups, mean),
        sd=sd, smallest_p=min(1.0, 2.0 ** (1 - n)), detectable=effect * sd, n=n,
    )  # fmt: skip


def pair_estimates(
    differences: pd.Series[float], *, outcome: str, method: str, unit: str = "percentage points"
) -> list[Estimate]:
    """The difference of every pair, an estimate from one pair and so without an interval, in the order of the index.

    Parameters
    ----------
    differences : Series of float, shape (n_pairs,)
        One measurement minus the other, none missing; the index holds the terms, such as ids of encoders.
    """
    return [
        Estimate(term=str(term), value=float(value), n=1, unit=unit, outcome=outcome, method=method)
        for term, value in differences.items()
    ]


def correlations(
    first: pd.Series[float], second: pd.Series[float], *, term: str, outcome: str = "", method: str = "correlation"
) -> tuple[Estimate, Estimate]:
    """Pearson's r and Kendall's tau-b of two columns, each from -1 to 1, of the rows that have both.

    Intervals are those of Fisher's transformation, for tau with the variance 0.437 / (n - 4); p-values those of scipy,
    exact for tau where nothing is tied.

    Raises
    ------
    QueryError
        If fewer than five rows have both, or one column never varies.

    References
    ----------
    Fieller, Hartley and Pearson 1957, Tests for rank correlation coefficients I, Biometrika 44.
    """
    pairs = pd.DataFrame({"first": first, "second": second}).dropna()
    n = len(pairs)
    if n < 5:
        raise QueryError(f"A correlation ({term}) has {n} rows, expected at least 5; measure more encoders.")
    for name, values in pairs.items():
        if _never_varies(values.to_numpy(dtype=float)):
            raise QueryError(f"The {name} column of a correlation ({term}) never varies over {n} rows.")
    pearson = stats.pearsonr(pairs["first"], pairs["second"])
    low, high = pearson.confidence_interval(1 - _LEVEL)
    tau = stats.kendalltau(pairs["first"], pairs["second"])
    tau_low, tau_high = _kendall_interval(float(tau.statistic), n)
    r = Estimate(term=term, value=float(pearson.statistic), ci_low=float(low), ci_high=float(high), n=n, unit="r",
                 p=float(pearson.pvalue), outcome=outcome, method=f"{method}, Pearson")  # fmt: skip
    ordered = Estimate(term=term, value=float(tau.statistic), ci_low=tau_low, ci_high=tau_high, n=n, unit="tau",
                       p=float(tau.pvalue), outcome=outcome, method=f"{method}, Kendall",
                       note="" if tau_low is not None else "no interval: the order is the same throughout")  # fmt: skip
    return r, ordered


def is_high(correlation: Estimate, *, sign: int = 0) -> bool:
    """True if a correlation is at least 0.5 in size, on the encoders at hand, whatever its interval is.

    Parameters
    ----------
    sign : int
        1 or -1 for the direction that it must have; 0 for either.
    """
    value = correlation.value or 0.0
    return (abs(value) if sign == 0 else sign * value) >= HIGH


def leave_one_out(first: pd.Series[float], second: pd.Series[float]) -> pd.Series[float]:
    """Pearson's r without each row in turn, in the order of the index; shows whether one row makes a correlation.

    Raises
    ------
    QueryError
        If fewer than five rows have both, or a column never varies without one of them.
    """
    pairs = pd.DataFrame({"first": first, "second": second}).dropna()
    if len(pairs) < 5:
        raise QueryError(f"Leaving out one row of {len(pairs)} leaves too few to correlate; expected at least 5.")
    found = {}
    for row in pairs.index:
        rest = pairs.drop(index=row)
        if any(_never_varies(rest[name].to_numpy(dtype=float)) for name in rest):
            raise QueryError(f"Without {row}, one column of a correlation never varies; expected some spread.")
        found[row] = float(stats.pearsonr(rest["first"], rest["second"]).statistic)
    return pd.Series(found, dtype="float64", name="r")


def _never_varies(values: np.ndarray) -> bool:
    """True if what differs is rounding: a test of it would divide by about 0."""
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def _median(values: np.ndarray, label: Estimate) -> Estimate:
    low, high = stats.quantile_test(values, q=0.0, p=0.5).confidence_interval(1 - _LEVEL)
    known = bool(np.isfinite(low) and np.isfinite(high))
    return label.described(
        value=float(np.median(values)), ci_low=float(low) if known else None, ci_high=float(high) if known else None,
        p=float(stats.wilcoxon(values).pvalue), method="Wilcoxon signed-rank test",
        note="" if known else "too few pairs for a 95 % interval of the median",
    )  # fmt: skip


def _by_group(values: np.ndarray, groups: pd.Series[str], mean: Estimate) -> Estimate | None:
    codes = pd.factorize(groups.astype(str))[0]
    if len(set(codes)) < 2 or len(set(codes)) == len(codes):  # clustering then says nothing, or nothing new
        return None
    fit = OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True)
    (low, high), *_ = fit.conf_int(alpha=_LEVEL)
    return mean.described(ci_low=float(low), ci_high=float(high), p=float(fit.pvalues[0]),
                          method=f"mean, standard errors clustered in {len(set(codes))} groups")  # fmt: skip


def _kendall_interval(tau: float, n: int) -> tuple[float | None, float | None]:
    if abs(tau) > 1 - 1e-9:
        return None, None
    half = stats.norm.ppf(1 - _LEVEL / 2) * np.sqrt(_KENDALL_VARIANCE / (n - 4))
    return float(np.tanh(np.arctanh(tau) - half)), float(np.tanh(np.arctanh(tau) + half))
