"""Rank correlations between risks, whether the best trade them off more than selection makes them, and the front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import (
    FEWEST_ENCODERS,
    TAU,
    Floats,
    compute_kendall,
    compute_middle_interval,
    compute_pair_signs,
    draw_counts,
)
from zoo.analysis.linear import adjust_discovery_rates
from zoo.analysis.table import StudyTable, require_columns
from zoo.errors import QueryError

from .best import count_best


def rank_correlations(
    table: StudyTable,
    pairs: Sequence[tuple[str, str]],
    *,
    family: str,
    drawn: str | None = None,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> list[Estimate]:
    """Kendall's tau-b of each pair of columns, over the encoders with both; intervals are bootstrap percentiles.

    The bootstrap draws encoders, or values of the column ``drawn`` with all of their encoders; there is no p-value
    then. ``family`` names these tests, over which the false-discovery rate is computed.
    """
    estimates = []
    for first, second in pairs:
        rows = _rows(table, (first, second), drawn)
        tau = stats.kendalltau(rows[first], rows[second])
        spread = _resampled(rows, (first, second), drawn, seed, n_resamples)
        method = f"rank correlation, bootstrap over {drawn or 'encoder'}s"
        label = Estimate(term=first, n=len(rows), unit=TAU, outcome=second, method=method)
        estimates.append(
            label.with_value(tau.statistic, compute_middle_interval(spread), p=tau.pvalue if drawn is None else None)
        )
    return adjust_discovery_rates(estimates, family=family)


def correlation_change(
    table: StudyTable,
    first: tuple[str, str],
    second: tuple[str, str],
    *,
    drawn: str | None = None,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> Estimate:
    """How much larger tau-b of one pair of columns is than that of another, over the same encoders.

    The interval is that of a paired bootstrap over encoders, or over values of the column ``drawn``.
    """
    rows = _rows(table, (*first, *second), drawn)
    value = np.subtract(*(stats.kendalltau(rows[one], rows[other]).statistic for one, other in (first, second)))
    spread = np.subtract(*(_resampled(rows, pair, drawn, seed, n_resamples) for pair in (first, second)))
    return Estimate(
        term=f"tau({first[0]}, {first[1]}) - tau({second[0]}, {second[1]})",
        n=len(rows),
        unit=TAU,
        outcome=first[1],
        method=f"difference of rank correlations, bootstrap over {drawn or 'encoder'}s",
    ).with_value(value, compute_middle_interval(spread))


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
    """Whether the best encoders trade two risks off more than selection by their sum alone makes them (Berkson 1946).

    The second risk is shuffled among the encoders of each group (of the column ``within``), the ``total`` is computed
    anew, and the best ``fraction`` of each group is selected. Estimates are Kendall's tau of each group with at least
    two selected, then ``"all groups"``, ``"by selection alone"`` with the middle 95 % of the shuffles, and ``"beyond
    selection"``, their difference with a two-sided permutation p-value. ``n`` are selected encoders.
    """
    table = table.only(table.complete(total, within).index, because=f"no {total} or no {within}")
    rows = _rows(table, (first, second), None)
    groups = [
        (str(label).removesuffix(".0"), group[[first, second, total]].to_numpy())
        for label, group in rows.groupby(within)
        if count_best(len(group), fraction) >= 2
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
    by_group = [
        Estimate(term=label, value=float(signs / n_pairs), n=k, unit=TAU, outcome=f"{first}, {second}", method=method)
        for (label, _), (signs, k), n_pairs in zip(groups, observed, pairs, strict=True)
    ]
    value = sum(signs for signs, _ in observed) / pairs.sum()
    rng = np.random.default_rng(seed)
    shuffled = np.array(
        [
            sum(_concordance(values, rng.permutation(values[:, 1]), fraction)[0] for _, values in groups) / pairs.sum()
            for _ in range(n_shuffles)
        ]
    )
    alone, (low, high) = float(shuffled.mean()), np.quantile(shuffled, [0.025, 0.975])
    extreme = int((np.abs(shuffled - alone) >= abs(value - alone) - 1e-12).sum())
    label = Estimate(term="", value=None, n=chosen, unit=TAU, outcome=f"{first}, {second}", method=method)
    note = f"{second} shuffled among the encoders of each {within}, {n_shuffles} times"
    return (
        *by_group,
        label.with_value(value, term="all groups"),
        label.with_value(alone, (low, high), term="by selection alone", note=note),
        label.with_value(
            value - alone, (value - high, value - low), p=(extreme + 1) / (n_shuffles + 1), term="beyond selection"
        ),
    )


def pareto_front(frame: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Encoders that no other dominates in two columns, ordered by the first, the second and the id."""
    rows = frame.dropna(subset=[first, second]).sort_index().sort_values([first, second], kind="stable")
    x, y = rows[first].to_numpy(), rows[second].to_numpy()
    beaten = [bool((((x <= x[i]) & (y <= y[i])) & ((x < x[i]) | (y < y[i]))).any()) for i in range(len(rows))]
    return rows[~np.array(beaten, dtype=bool)]


def _rows(table: StudyTable, columns: Sequence[str], drawn: str | None) -> pd.DataFrame:
    names = list(dict.fromkeys(columns))
    needed = names if drawn is None else [*names, drawn]
    require_columns(needed)
    rows = table.frame.dropna(subset=needed).sort_index()  # resamples must not depend on the order of the rows
    if len(rows) < FEWEST_ENCODERS:
        raise QueryError(
            f"{len(rows)} of the {len(table)} encoders have {' and '.join(names)}, expected at least {FEWEST_ENCODERS} "
            "for a rank correlation."
        )
    for name in names:
        if rows[name].nunique() == 1:
            raise QueryError(f"{name} is the same for all {len(rows)} encoders, so it ranks none; expected it to vary.")
    return rows


def _resampled(rows: pd.DataFrame, pair: tuple[str, str], drawn: str | None, seed: int, n_resamples: int) -> Floats:
    """Tau-b of bootstrap samples, the same for every pair of columns; NaN where a sample does not vary."""
    units = np.arange(len(rows)) if drawn is None else rows[drawn].astype(str).factorize(sort=True)[0]
    draws = draw_counts(int(units.max()) + 1, n_resamples, seed)[:, units]  # (n_resamples, encoders)
    first, second = (rows[name].to_numpy(dtype=float) for name in pair)
    return compute_kendall(first, second, draws)


def _concordance(values: Floats, second: Floats, fraction: float) -> tuple[float, int]:
    """Sum of signs over the pairs of the best, and how many they are, if the second risk were this one."""
    total = values[:, 2] - values[:, 1] + second
    k = count_best(len(values), fraction)
    best = np.argsort(total, kind="stable")[:k]
    return float((compute_pair_signs(values[best, 0]) * compute_pair_signs(second[best])).sum() / 2), k
