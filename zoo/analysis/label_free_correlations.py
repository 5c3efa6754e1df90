"""Whether metrics order encoders as their accuracies do: three correlations, with intervals that know of families.

Intervals come from a bootstrap that draws objectives with all of their encoders, where there are enough of them.
Every predictor comes with the direction in which more is better (:mod:`.label_free_populations`); a positive
correlation then says that it predicts, whatever its sign was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from ..errors import QueryError
from ..evaluation.label_free.population import joint_rank_product
from ..optional import requires_extra
from .estimates import Estimate
from .populations import FEWEST
from .resampled_correlations import (
    FEWEST_CLUSTERS,
    RESAMPLED,
    ROUNDING,
    Resampling,
    drawn_counts,
    kendall,
    percentiles,
)

with requires_extra("study", needed_for="A correlation of metrics with accuracy"):
    import numpy as np
    import pandas as pd
    from scipy import stats

STATISTICS = ("Pearson", "Spearman", "Kendall")
UNITS = {"Pearson": "r", "Spearman": "rho", "Kendall": "tau"}
_MEASURES: dict[str, Callable[..., tuple[float, float]]] = {
    "Pearson": stats.pearsonr, "Spearman": stats.spearmanr, "Kendall": stats.kendalltau,
}  # fmt: skip


def oracle_correlations(
    predictors: pd.DataFrame, oracle: pd.Series[float], *, population: str, resampling: Resampling | None = None
) -> list[Estimate]:
    """Pearson's r, Spearman's rho and Kendall's tau-b of each predictor with an accuracy.

    Parameters
    ----------
    predictors : DataFrame, float, shape (n_encoders, n_predictors)
        Index: encoders. More is better; a missing cell keeps its encoder out of that predictor alone.
    oracle : Series of float
        Accuracy in percent by encoder; its name is the outcome of the estimates.
    population : str
        Name of the encoders, for the method of the estimates.

    Returns
    -------
    list of Estimate
        Three a predictor, in [-1, 1], 1 if it orders the encoders as the oracle does. Intervals: percentiles of the
        bootstrap. p-values: those of scipy, which take encoders as independent and so flatter. The value is None where
        a column never varies. Predictors that fewer than 5 encoders have with the accuracy are left out.
    """
    return [
        one
        for name in predictors
        if len(predictors[[name]].dropna().index.intersection(oracle.dropna().index)) >= FEWEST
        for one in _pair(predictors[name], oracle, str(name), population, resampling or Resampling())
    ]


def mutual_correlations(
    predictors: pd.DataFrame, *, population: str, resampling: Resampling | None = None
) -> list[Estimate]:
    """The same of each two predictors that at least 5 encoders have; term and outcome are their names."""
    found = []
    for first, second in combinations(predictors.columns, 2):
        if len(predictors[[first, second]].dropna()) >= FEWEST:
            second_one = predictors[second].rename(str(second))
            found += _pair(predictors[first], second_one, str(first), population, resampling or Resampling())
    return found


def within_correlations(
    predictors: pd.DataFrame, oracle: pd.Series[float], groups: pd.Series[str], *, population: str, of: str,
    resampling: Resampling | None = None,
) -> list[Estimate]:  # fmt: skip
    """Kendall's tau-b over pairs of encoders of one group only, so that what sets groups apart counts for nothing.

    Parameters
    ----------
    groups : Series of str
        Group of each encoder, such as its objective; encoders that are alone in theirs say nothing and are left out.
    of : str
        What a group is, in words: "objective".

    Returns
    -------
    list of Estimate
        One a predictor; n counts the encoders of groups of two or more. The bootstrap draws groups. Predictors with
        fewer than 5 such encoders, or in a single group, are left out.
    """
    settings = resampling or Resampling()
    found = []
    for name in predictors:
        rows = pd.DataFrame({"x": predictors[name], "y": oracle, "group": groups.reindex(oracle.index)}).dropna()
        rows = rows[rows.groupby("group")["group"].transform("size") > 1]
        codes, _ = rows["group"].factorize(sort=True)
        n_groups = int(codes.max()) + 1 if len(rows) else 0
        if len(rows) < FEWEST or n_groups < 2:
            continue
        x, y = rows["x"].to_numpy(dtype=float), rows["y"].to_numpy(dtype=float)
        same = (codes[:, None] == codes).astype(float)
        value = float(kendall(x, y, np.ones((1, len(rows))), same)[0])
        counts = drawn_counts(n_groups, settings.n_resamples, settings.seed)[:, codes]
        low, high = percentiles(kendall(x, y, counts, same)) if n_groups >= FEWEST_CLUSTERS else (None, None)
        known = np.isfinite(value)
        found.append(
            Estimate(
                term=str(name), value=value if known else None, ci_low=low if known else None,
                ci_high=high if known else None, n=len(rows), unit="tau", outcome=str(oracle.name),
                method=f"Kendall within {of}, {population}, bootstrap over {n_groups} groups",
                note="" if known and low is not None else
                f"no interval from {n_groups} groups" if known else "never varies within a group",
            )
        )  # fmt: skip
    return found


def correlation_differences(
    predictors: pd.DataFrame, oracle: pd.Series[float], pairs: Sequence[tuple[str, str]], *, population: str,
    resampling: Resampling | None = None,
) -> list[Estimate]:  # fmt: skip
    """Kendall's tau of the first of two predictors minus that of the second, over the encoders that have both.

    Returns
    -------
    list of Estimate
        Above 0 the first one orders the encoders more as the oracle does. The bootstrap draws the same encoders for
        both. Pairs that fewer than 5 encoders have, or of which one never varies, are left out.
    """
    settings = resampling or Resampling()
    found = []
    for first, second in pairs:
        rows = pd.DataFrame({"first": predictors[first], "second": predictors[second], "oracle": oracle}).dropna()
        rows = rows.sort_index()
        if len(rows) < FEWEST or any(never_varies(rows[name]) for name in rows):
            continue
        counts, drawn = settings.counts(rows.index)
        y = rows["oracle"].to_numpy(dtype=float)
        one, two = (rows[name].to_numpy(dtype=float) for name in ("first", "second"))
        whole, spread = (kendall(one, y, some) - kendall(two, y, some) for some in (np.ones((1, len(rows))), counts))
        low, high = percentiles(spread)
        found.append(
            Estimate(term=f"{first} - {second}", value=float(whole[0]), ci_low=low, ci_high=high, n=len(rows),
                     unit="difference of tau", outcome=str(oracle.name),
                     method=f"difference of Kendall, {population}, bootstrap over {drawn}")
        )  # fmt: skip
    return found


def joint_correlations(
    predictors: pd.DataFrame, first_oracle: pd.Series[float], target: pd.Series[float], *, population: str,
    resampling: Resampling | None = None,
) -> list[Estimate]:  # fmt: skip
    """What a metric adds to an accuracy that is known already: Kendall's tau of their joint rank with another one.

    The joint rank is the geometric mean of the two ranks (CLID, section 3.5), over all encoders that have the three; a
    sample of the bootstrap keeps them. Predictors that fewer than 5 encoders have are left out.

    Returns
    -------
    list of Estimate
        Three a predictor, whose names are ``M with A``, ``A`` and ``M with A - A`` for the metric M and the first
        oracle's name A: tau of the joint rank with the target, tau of the first oracle alone over the same encoders,
        and what the metric adds.

    References
    ----------
    CLID, arXiv:2206.01251, Table 3.
    """
    found = []
    for name in predictors:
        rows = pd.DataFrame({"metric": predictors[name], "first": first_oracle, "target": target}).dropna()
        if len(rows) < FEWEST or any(never_varies(rows[column]) for column in rows):
            continue
        alone, both = str(first_oracle.name), f"{name} with {first_oracle.name}"
        joint = pd.Series(-joint_rank_product(rows["metric"].tolist(), rows["first"].tolist()), index=rows.index)
        pair = pd.DataFrame({both: joint, alone: rows["first"]})
        goal = rows["target"].rename(str(target.name))
        taus = oracle_correlations(pair, goal, population=population, resampling=resampling)
        found += [one for one in taus if one.unit == UNITS["Kendall"]]
        found += correlation_differences(pair, goal, [(both, alone)], population=population, resampling=resampling)
    return found


def setting_correlations(
    values: Mapping[tuple[int, int], pd.Series[float]], oracle: pd.Series[float], *, population: str,
    combine: Callable[[pd.Series[float]], pd.Series[float]] | None = None, resampling: Resampling | None = None,
) -> list[Estimate]:  # fmt: skip
    """How the correlations of a metric depend on its hyper-parameters (CLID, Figure 2).

    Parameters
    ----------
    values : mapping
        (number of clusters, number of neighbours) -> value of the metric by encoder, more being better.
    combine : callable, optional
        From the metric at one setting to what is correlated, such as CLID from cluster learnability.

    Returns
    -------
    list of Estimate
        Three a setting, the term being ``n_clusters=16, k=1``, in the order of the settings.

    Raises
    ------
    QueryError
        If fewer than 5 encoders have a setting and the accuracy.
    """
    found = []
    for (n_clusters, k), column in sorted(values.items()):
        made = column if combine is None else combine(column)
        term = setting_term(n_clusters, k)
        found += _pair(made, oracle, term, population, resampling or Resampling())
    return found


def setting_term(n_clusters: int, k: int) -> str:
    """The words for a setting.

    >>> setting_term(16, 1)
    'n_clusters=16, k=1'
    """
    return f"n_clusters={n_clusters}, k={k}"


def never_varies(values: pd.Series[float]) -> bool:
    """True if all values are the same but for rounding."""
    column = values.to_numpy(dtype=float)
    return len(column) == 0 or bool(np.ptp(column) <= ROUNDING * np.abs(column).max())


def _pair(
    first: pd.Series[float], second: pd.Series[float], term: str, population: str, resampling: Resampling
) -> list[Estimate]:
    rows = pd.DataFrame({"first": first, "second": second}).dropna().sort_index()  # the bootstrap draws places
    if len(rows) < FEWEST:
        raise QueryError(
            f"{len(rows)} encoders of {population!r} have both {term} and {second.name}, expected at least {FEWEST} "
            "for a correlation; measure more."
        )
    constant = next((name for name, column in (("first", first), ("second", second)) if never_varies(rows[name])), None)
    counts, drawn = resampling.counts(rows.index)
    x, y = (rows[name].to_numpy(dtype=float) for name in ("first", "second"))
    label = Estimate(term=term, value=None, n=len(rows), unit="", outcome=str(second.name))
    found = []
    for name in STATISTICS:
        method = f"{name}, {population}, bootstrap over {drawn}"
        if constant is not None:
            what = term if constant == "first" else str(second.name)
            found.append(label.described(unit=UNITS[name], method=method, note=f"{what} never varies"))
            continue
        value, p = _MEASURES[name](x, y)
        low, high = percentiles(RESAMPLED[name](x, y, counts))
        found.append(
            label.described(value=float(value), ci_low=low, ci_high=high, p=float(p), unit=UNITS[name], method=method,
                            note="" if low is not None else "no interval: most samples of the bootstrap do not vary")
        )  # fmt: skip
    return found
