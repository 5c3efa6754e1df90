"""Whether two risks go together, against each other, or neither: rank correlations, Pareto fronts, and selection.

Kendall's tau is the share of pairs of encoders that both columns put in the same order minus the share that they put in
opposite orders. Encoders are not independent of each other (many are versions of one), so p-values, which assume that
they are, flatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..optional import requires_extra
from .best_encoders import n_best
from .estimates import Estimate
from .ols import adjusted
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A rank correlation"):
    import numpy as np
    from scipy.stats import kendalltau

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FEWEST = 5  # encoders for a rank correlation
TAU = "Kendall's tau"


def rank_correlations(
    table: StudyTable,
    pairs: Sequence[tuple[str, str]],
    *,
    family: str,
    drawn: str | None = None,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> list[Estimate]:
    """Kendall's tau-b of each pair of columns, over the encoders that have both.

    Parameters
    ----------
    pairs : sequence of (str, str)
        A number column, and the one that it should rank.
    family : str
        Name of these tests, over which the false-discovery rate is computed.
    drawn : str, optional
        A column whose values the bootstrap draws, each with all of its encoders; by default it draws encoders. Drawing
        objectives allows for encoders of one objective being alike. There is no p-value then: the usual one takes
        encoders as independent.
    n_resamples : int
        Of the bootstrap, whose percentiles are the interval.

    Returns
    -------
    list of Estimate
        Term: the first column; outcome: the second. Values in [-1, 1], 1 if both give the same order.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, fewer than 5 encoders have both, or one of them never varies.
    """
    found = []
    for first, second in pairs:
        rows = _rows(table, (first, second), drawn)
        statistic, p = _tau(rows, first, second)
        spread = _resampled(rows, [(first, second)], drawn, seed, n_resamples)[0]
        low, high = np.quantile(spread[np.isfinite(spread)], [0.025, 0.975])
        found.append(
            Estimate(term=first, value=statistic, ci_low=float(low), ci_high=float(high),
                     p=p if drawn is None else None, n=len(rows),
                     unit=TAU, outcome=second, method=f"rank correlation, bootstrap over {drawn or 'encoder'}s")
        )  # fmt: skip
    return adjusted(found, family=family)


def correlation_change(
    table: StudyTable,
    first: tuple[str, str],
    second: tuple[str, str],
    *,
    drawn: str | None = None,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> Estimate:
    """How much larger Kendall's tau-b of one pair of columns is than that of another, over the same encoders.

    Parameters
    ----------
    drawn : str, optional
        What the bootstrap draws, as in :func:`rank_correlations`.

    Returns
    -------
    Estimate
        Tau of the first pair minus tau of the second, with the percentile interval of a bootstrap that draws the same
        encoders for both; no p-value.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, fewer than 5 encoders have them all, or one of them never varies.
    """
    rows = _rows(table, (*first, *second), drawn)
    value = _tau(rows, *first)[0] - _tau(rows, *second)[0]
    one, other = _resampled(rows, [first, second], drawn, seed, n_resamples)
    spread = one - other
    low, high = np.quantile(spread[np.isfinite(spread)], [0.025, 0.975])
    return Estimate(
        term=f"tau({first[0]}, {first[1]}) - tau({second[0]}, {second[1]})", value=value, ci_low=float(low),
        ci_high=float(high), n=len(rows), unit=TAU, outcome=first[1],
        method=f"difference of rank correlations, bootstrap over {drawn or 'encoder'}s",
    )  # fmt: skip


def beyond_selection(
    table: StudyTable,
    first: str,
    second: str,
    *,
    total: str = "train_test",
    within: str = "year",
    fraction: float = 0.2,
    seed: int = 0,
    n_shuffles: int = 999,
) -> tuple[Estimate, ...]:
    """Whether the best encoders trade two risks off more than choosing them by a sum of both makes any numbers do.

    Encoders with a low sum of two risks have, among themselves, one low where the other is high, whether or not the
    risks have anything to do with each other (Berkson 1946). So the second risk is shuffled among the encoders of each
    group, the total is computed anew, and the best are chosen from that: what tau they have then is due to the choice
    alone.

    Parameters
    ----------
    first, second : str
        Two risks that are parts of the total.
    total, within : str
        The column by which the best are chosen, and the column of the groups within which they are.
    fraction : float
        The best fraction of each group, in (0, 1], rounded up.

    Returns
    -------
    tuple of Estimate
        Kendall's tau (tau-a, over the pairs of best encoders within a group): first that of each group with at least
        two chosen, terms ``"2022"``; then ``"all groups"``, ``"by selection alone"`` with the middle 95 % of the
        shuffles, and ``"beyond selection"``, the difference of these two with its interval and two-sided permutation
        p-value. ``n`` are chosen encoders.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, fewer than 5 encoders have both risks, one of them never varies, or in no group two
        encoders are chosen.
    """
    table = table.only(table.complete(total, within).index, because=f"no {total} or no {within}")
    rows = _rows(table, (first, second), None)
    groups = [
        (str(label).removesuffix(".0"), group[[first, second, total]].to_numpy())
        for label, group in rows.groupby(within)
        if n_best(len(group), fraction) >= 2
    ]
    if not groups:
        raise QueryError(
            f"In no {within} the best {100 * fraction:g} % of the encoders with {first} and {second} are two or more; "
            "expected a pair to compare."
        )
    observed = [_concordance(values, values[:, 1], fraction) for _, values in groups]
    pairs = np.array([k * (k - 1) / 2 for _, k in observed])
    chosen = int(sum(k for _, k in observed))
    method = f"best {100 * fraction:g} % of each {within}"
    found = [
        Estimate(term=label, value=float(signs / n_pairs), n=k, unit=TAU, outcome=f"{first}, {second}", method=method)
        for (label, _), (signs, k), n_pairs in zip(groups, observed, pairs, strict=True)
    ]
    value = sum(signs for signs, _ in observed) / pairs.sum()
    rng = np.random.default_rng(seed)
    shuffled = np.array([
        sum(_concordance(values, rng.permutation(values[:, 1]), fraction)[0] for _, values in groups) / pairs.sum()
        for _ in range(n_shuffles)
    ])  # fmt: skip
    alone, (low, high) = float(shuffled.mean()), np.quantile(shuffled, [0.025, 0.975])
    extreme = int((np.abs(shuffled - alone) >= abs(value - alone) - 1e-12).sum())
    label = Estimate(term="", value=None, n=chosen, unit=TAU, outcome=f"{first}, {second}", method=method)
    return (
        *found,
        label.described(term="all groups", value=float(value)),
        label.described(term="by selection alone", value=alone, ci_low=float(low), ci_high=float(high),
                        note=f"{second} shuffled among the encoders of each {within}, {n_shuffles} times"),
        label.described(term="beyond selection", value=float(value - alone), ci_low=float(value - high),
                        ci_high=float(value - low), p=(extreme + 1) / (n_shuffles + 1)),
    )  # fmt: skip


def pareto_front(frame: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Encoders that no other one beats: none is at most as high in both columns and lower in one of them.

    Parameters
    ----------
    frame : DataFrame
        Rows without one of the columns do not count; lower is better in both.

    Returns
    -------
    DataFrame
        Its rows on the front, by the first column, then the second, then the id.
    """
    rows = frame.dropna(subset=[first, second]).sort_index().sort_values([first, second], kind="stable")
    x, y = rows[first].to_numpy(), rows[second].to_numpy()
    beaten = [bool((((x <= x[i]) & (y <= y[i])) & ((x < x[i]) | (y < y[i]))).any()) for i in range(len(rows))]
    return rows[~np.array(beaten, dtype=bool)]


def _rows(table: StudyTable, columns: Sequence[str], drawn: str | None) -> pd.DataFrame:
    names = list(dict.fromkeys(columns))
    needed = names if drawn is None else [*names, drawn]
    require_columns(needed)
    rows = table.frame.dropna(subset=needed).sort_index()  # resamples must not depend on the order of the rows
    if len(rows) < FEWEST:
        raise QueryError(
            f"{len(rows)} of the {len(table)} encoders have {' and '.join(names)}, expected at least {FEWEST} for a "
            "rank correlation."
        )
    for name in names:
        if rows[name].nunique() == 1:
            raise QueryError(f"{name} is the same for all {len(rows)} encoders, so it ranks none; expected it to vary.")
    return rows


def _tau(rows: pd.DataFrame, first: str, second: str) -> tuple[float, float]:
    result: Any = kendalltau(rows[first], rows[second])
    return float(result.statistic), float(result.pvalue)


def _signs(values: Floats) -> Floats:
    return np.sign(values[:, None] - values)  # (n, n): which of two encoders is higher


def _resampled(
    rows: pd.DataFrame, pairs: Sequence[tuple[str, str]], drawn: str | None, seed: int, n_resamples: int
) -> list[Floats]:
    """Tau-b of bootstrap samples, each sample the same for all pairs; NaN where a sample does not vary.

    How often each encoder is drawn weights the signs of all pairs of encoders, which is tau-b of the drawn rows (pairs
    of one and the same encoder are ties) without ranking every sample anew.
    """
    units = np.arange(len(rows)) if drawn is None else rows[drawn].astype(str).factorize(sort=True)[0]
    draws = _counts(int(units.max()) + 1, n_resamples, seed)[:, units]  # (n_resamples, encoders)
    values = {name: rows[name].to_numpy(dtype=float) for pair in pairs for name in pair}
    untied = {name: _untied(draws, column) for name, column in values.items()}
    taus = []
    for one, two in pairs:
        concordant = ((draws @ (_signs(values[one]) * _signs(values[two]))) * draws).sum(axis=1)
        with np.errstate(invalid="ignore"):  # 0 / 0 in a sample of one value
            taus.append(concordant / np.sqrt(untied[one] * untied[two]))
    return taus


def _untied(draws: Floats, values: Floats) -> Floats:
    """Ordered pairs of drawn rows that differ in a column, by resample."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)  # of the groups of equal values
    in_groups = np.add.reduceat(draws[:, order], starts, axis=1)
    pairs: Floats = draws.sum(axis=1) ** 2 - (in_groups**2).sum(axis=1)
    return pairs


@lru_cache(maxsize=4)  # many pairs of columns have the same rows
def _counts(n: int, n_resamples: int, seed: int) -> Floats:
    """How often each of n units is drawn in each resample."""
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(float)
    counts.flags.writeable = False
    return counts


def _concordance(values: Floats, second: Floats, fraction: float) -> tuple[float, int]:
    """Sum of signs over the pairs of the best, and how many they are, if the second risk were this one."""
    total = values[:, 2] - values[:, 1] + second
    k = n_best(len(values), fraction)
    best = np.argsort(total, kind="stable")[:k]
    return float((_signs(values[best, 0]) * _signs(second[best])).sum() / 2), k
