"""What label-free metrics say of a population: how they correlate with accuracy, and what selecting by them costs.

Predictors are turned so that more is better. In every group of encoders that differ in one choice the metric picks one,
and the oracle the most accurate. Regret is what the pick lacks; the gain recovered is 0 for a random pick and 1 for the
oracle's. Ties count by their mean accuracy. Intervals come from a bootstrap over objectives where there are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from zoo.analysis.columns import Estimate
from zoo.analysis.controlled import CORE_COLUMNS
from zoo.analysis.correlations import (
    FEWEST_CLUSTERS,
    RESAMPLED,
    Floats,
    Resampling,
    compute_kendall,
    compute_middle_interval,
    draw_counts,
    is_constant,
)
from zoo.analysis.linear import adjust_discovery_rates
from zoo.analysis.table import FEWEST
from zoo.errors import QueryError
from zoo.evaluation.label_free.catalogue import compute_joint_rank
from zoo.optional import require_extra

from .populations import MetricPopulation, find_hyperparameter_groups

with require_extra("study", needed_for="A correlation of metrics with accuracy"):
    import numpy as np
    import pandas as pd
    from scipy import stats

BY_ENCODER = Resampling()
STATISTICS = ("Pearson", "Spearman", "Kendall")
UNITS = {"Pearson": "r", "Spearman": "rho", "Kendall": "tau"}
_MEASURES: dict[str, Callable[..., tuple[float, float]]] = {
    "Pearson": stats.pearsonr,
    "Spearman": stats.spearmanr,
    "Kendall": stats.kendalltau,
}


def oracle_correlations(
    predictors: pd.DataFrame, oracle: pd.Series[float], *, population: str, resampling: Resampling = BY_ENCODER
) -> list[Estimate]:
    """Pearson's r, Spearman's rho and Kendall's tau-b of each predictor with an accuracy: three a predictor.

    Predictors that fewer than 5 encoders have with the accuracy are left out; the value is None where a column never
    varies. p-values take encoders as independent.
    """
    return [
        one
        for name in predictors
        if len(predictors[[name]].dropna().index.intersection(oracle.dropna().index)) >= FEWEST
        for one in _pair(predictors[name], oracle, str(name), population, resampling)
    ]


def mutual_correlations(
    predictors: pd.DataFrame, *, population: str, resampling: Resampling = BY_ENCODER
) -> list[Estimate]:
    """The same of each two predictors that at least 5 encoders have; term and outcome are their names."""
    estimates = []
    for first, second in combinations(predictors.columns, 2):
        if len(predictors[[first, second]].dropna()) >= FEWEST:
            second_one = predictors[second].rename(str(second))
            estimates += _pair(predictors[first], second_one, str(first), population, resampling)
    return estimates


def within_correlations(
    predictors: pd.DataFrame,
    oracle: pd.Series[float],
    groups: pd.Series[str],
    *,
    population: str,
    of: str,
    resampling: Resampling = BY_ENCODER,
) -> list[Estimate]:
    """Kendall's tau-b over pairs of encoders of one group only; the bootstrap draws groups.

    ``of`` is what a group is, in words: "objective". Predictors with fewer than 5 encoders in groups are left out.
    """
    estimates = []
    for name in predictors:
        rows = pd.DataFrame({"x": predictors[name], "y": oracle, "group": groups.reindex(oracle.index)}).dropna()
        rows = rows[rows.groupby("group")["group"].transform("size") > 1]
        codes, _ = rows["group"].factorize(sort=True)
        n_groups = int(codes.max()) + 1 if len(rows) else 0
        if len(rows) < FEWEST or n_groups < 2:
            continue
        x, y = rows["x"].to_numpy(dtype=float), rows["y"].to_numpy(dtype=float)
        same = (codes[:, None] == codes).astype(float)
        value = float(compute_kendall(x, y, np.ones((1, len(rows))), same)[0])
        counts = draw_counts(n_groups, resampling.n_resamples, resampling.seed)[:, codes]
        low, high = (
            compute_middle_interval(compute_kendall(x, y, counts, same))
            if n_groups >= FEWEST_CLUSTERS
            else (None, None)
        )
        method = f"Kendall within {of}, {population}, bootstrap over {n_groups} groups"
        label = Estimate(term=str(name), n=len(rows), unit="tau", outcome=str(oracle.name), method=method)
        if np.isfinite(value):
            note = "" if low is not None else f"no interval from {n_groups} groups"
            estimates.append(label.with_value(value, (low, high), note=note))
        else:
            estimates.append(label.described(note="never varies within a group"))
    return estimates


def correlation_differences(
    predictors: pd.DataFrame,
    oracle: pd.Series[float],
    pairs: Sequence[tuple[str, str]],
    *,
    population: str,
    resampling: Resampling = BY_ENCODER,
) -> list[Estimate]:
    """Kendall's tau of the first of two predictors minus that of the second, over the encoders that have both."""
    estimates = []
    for first, second in pairs:
        rows = pd.DataFrame({"first": predictors[first], "second": predictors[second], "oracle": oracle}).dropna()
        rows = rows.sort_index()
        if len(rows) < FEWEST or any(is_constant(rows[name]) for name in rows):
            continue
        counts, drawn = resampling.counts(rows.index)
        y = rows["oracle"].to_numpy(dtype=float)
        one, two = (rows[name].to_numpy(dtype=float) for name in ("first", "second"))
        whole, spread = (
            compute_kendall(one, y, some) - compute_kendall(two, y, some) for some in (np.ones((1, len(rows))), counts)
        )
        method = f"difference of Kendall, {population}, bootstrap over {drawn}"
        label = Estimate(term=f"{first} - {second}", n=len(rows), unit="difference of tau", method=method)
        estimates.append(label.with_value(whole[0], compute_middle_interval(spread), outcome=str(oracle.name)))
    return estimates


def joint_correlations(
    predictors: pd.DataFrame,
    first_oracle: pd.Series[float],
    target: pd.Series[float],
    *,
    population: str,
    resampling: Resampling = BY_ENCODER,
) -> list[Estimate]:
    """What a metric adds to a known accuracy: Kendall's tau of their joint rank with another accuracy.

    The joint rank is the geometric mean of the two ranks (CLID, arXiv:2206.01251, section 3.5 and Table 3). Terms are
    ``M with A``, ``A`` alone over the same encoders, and ``M with A - A``.
    """
    estimates = []
    for name in predictors:
        rows = pd.DataFrame({"metric": predictors[name], "first": first_oracle, "target": target}).dropna()
        if len(rows) < FEWEST or any(is_constant(rows[column]) for column in rows):
            continue
        alone, both = str(first_oracle.name), f"{name} with {first_oracle.name}"
        joint = pd.Series(-compute_joint_rank(rows["metric"].tolist(), rows["first"].tolist()), index=rows.index)
        pair = pd.DataFrame({both: joint, alone: rows["first"]})
        goal = rows["target"].rename(str(target.name))
        taus = oracle_correlations(pair, goal, population=population, resampling=resampling)
        estimates += [one for one in taus if one.unit == UNITS["Kendall"]]
        estimates += correlation_differences(pair, goal, [(both, alone)], population=population, resampling=resampling)
    return estimates


def setting_correlations(
    values: Mapping[tuple[int, int], pd.Series[float]],
    oracle: pd.Series[float],
    *,
    population: str,
    combine: Callable[[pd.Series[float]], pd.Series[float]] | None = None,
    resampling: Resampling = BY_ENCODER,
) -> list[Estimate]:
    """Correlations of a metric by setting of its hyper-parameters (CLID, Figure 2): three a setting, in order.

    ``combine`` makes of the metric at one setting what is correlated, such as CLID of cluster learnability.
    """
    estimates = []
    for (n_clusters, k), column in sorted(values.items()):
        made = column if combine is None else combine(column)
        estimates += _pair(made, oracle, f"n_clusters={n_clusters}, k={k}", population, resampling)
    return estimates


def _pair(
    first: pd.Series[float], second: pd.Series[float], term: str, population: str, resampling: Resampling
) -> list[Estimate]:
    rows = pd.DataFrame({"first": first, "second": second}).dropna().sort_index()  # the bootstrap draws places
    if len(rows) < FEWEST:
        raise QueryError(
            f"{len(rows)} encoders of {population!r} have both {term} and {second.name}, expected at least {FEWEST} "
            "for a correlation; measure more."
        )
    constant = next(
        (words for words, column in ((term, "first"), (second.name, "second")) if is_constant(rows[column])), None
    )
    counts, drawn = resampling.counts(rows.index)
    x, y = (rows[name].to_numpy(dtype=float) for name in ("first", "second"))
    estimates = []
    for name in STATISTICS:
        method = f"{name}, {population}, bootstrap over {drawn}"
        label = Estimate(term=term, n=len(rows), unit=UNITS[name], outcome=str(second.name), method=method)
        if constant is not None:
            estimates.append(label.described(note=f"{constant} never varies"))
            continue
        value, p = _MEASURES[name](x, y)
        low, high = compute_middle_interval(RESAMPLED[name](x, y, counts))
        note = "" if low is not None else "no interval: most samples of the bootstrap do not vary"
        estimates.append(label.with_value(value, (low, high), p=p, note=note))
    return estimates


ACCURACY, ORACLE, CHANCE = "accuracy recovered", "accuracy of the oracle's choice", "accuracy of a choice at random"
REGRET, GAIN = "regret", "gain recovered"
OUTCOMES = {ACCURACY: "percent", ORACLE: "percent", CHANCE: "percent", REGRET: "percentage points", GAIN: "share"}
FEWEST_GROUPS = 8  # for an interval by drawing groups: with 8 it covers 87 %, with 3 only 67 %
_NO_GAIN = 1e-9  # percentage points of a gain below which there is nothing to gain


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What a metric picks in one group."""

    group: str
    n: int
    chosen: tuple[str, ...]  # several if the metric cannot tell them apart
    accuracy: float  # percent, of the pick; the mean over ties
    best: str  # the oracle's, the first of several
    oracle: float  # percent
    chance: float  # percent, mean of the group

    @property
    def regret(self) -> float:
        """Percentage points that the pick lacks."""
        return self.oracle - self.accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one metric recovers, over all groups of a kind."""

    metric: str
    picks: tuple[Pick, ...]
    n_singles: int  # encoders that are alone in their group and so were left out
    estimates: tuple[Estimate, ...]  # of the OUTCOMES, in their order

    @property
    def n_ties(self) -> int:
        """Groups in which the metric holds several encoders to be best."""
        return sum(len(pick.chosen) > 1 for pick in self.picks)

    def estimate(self, outcome: str) -> Estimate:
        """One of the estimates, by its outcome."""
        return self.estimates[list(OUTCOMES).index(outcome)]


def selections(
    predictors: pd.DataFrame,
    accuracy: pd.Series[float],
    groups: pd.Series[str],
    *,
    population: str,
    of: str,
    resampling: Resampling = BY_ENCODER,
) -> list[Selection]:
    """What each predictor recovers, over groups of encoders: one selection a predictor.

    ``accuracy`` is in percent; ``of`` is what differs within a group, in words: "epochs". Intervals draw groups, or
    the encoders of a single group of at least 5.
    """
    of_predictors = []
    for name in predictors:
        rows = pd.DataFrame({"x": predictors[name], "y": accuracy, "group": groups.reindex(accuracy.index)}).dropna()
        rows = rows.sort_index()  # the bootstrap draws places
        sizes = rows.groupby("group")["group"].transform("size")
        rows, n_singles = rows[sizes > 1], int((sizes == 1).sum())
        if rows.empty:
            continue
        picks = tuple(_pick(str(group), members) for group, members in rows.groupby("group", sort=True))
        spread, drawn = _spread(rows, picks, resampling)
        method = f"selection by {of}, {population}, {drawn}"
        of_predictors.append(_selection(str(name), picks, n_singles, spread, method=method))
    return of_predictors


def pooled(
    of_choices: Sequence[Selection], *, of: str, population: str, resampling: Resampling = BY_ENCODER
) -> Selection:
    """The picks of one metric over the groups of several choices, as one selection."""
    picks = tuple(pick for one in of_choices for pick in one.picks)
    spread = _of_groups(_triples(picks), resampling)
    return _selection(
        of_choices[0].metric,
        picks,
        sum(one.n_singles for one in of_choices),
        spread,
        method=f"selection by {of}, {population}, {'bootstrap over groups' if spread else 'no interval'}",
    )


def _selection(
    metric: str, picks: tuple[Pick, ...], n_singles: int, spread: dict[str, Floats] | None, *, method: str
) -> Selection:
    ties = sum(len(pick.chosen) > 1 for pick in picks)
    note = f"{len(picks)} group{'s' * (len(picks) != 1)}" + (f", {ties} with ties" if ties else "")
    label = Estimate(term=metric, n=sum(pick.n for pick in picks), unit="", note=note, method=method)
    totals = _outcomes(_triples(picks).mean(axis=0)[None])
    estimates = (_estimate(label, one, totals[one], spread[one] if spread else None) for one in OUTCOMES)
    return Selection(metric=metric, picks=picks, n_singles=n_singles, estimates=tuple(estimates))


def _triples(picks: Sequence[Pick]) -> Floats:
    return np.array([[pick.accuracy, pick.oracle, pick.chance] for pick in picks])  # (n_groups, 3)


def _pick(group: str, rows: pd.DataFrame) -> Pick:
    chosen = rows[rows["x"] == rows["x"].max()]
    return Pick(
        group=group,
        n=len(rows),
        chosen=tuple(map(str, chosen.index)),
        accuracy=float(chosen["y"].mean()),
        best=str(rows["y"].idxmax()),
        oracle=float(rows["y"].max()),
        chance=float(rows["y"].mean()),
    )


def _outcomes(triples: Floats) -> dict[str, Floats]:
    """By outcome, of mean accuracies (n, 3) of the pick, the oracle's and one at random; no gain where none can be."""
    accuracy, oracle, chance = triples.T
    possible = oracle - chance
    is_some = possible > _NO_GAIN
    gain = np.where(is_some, (accuracy - chance) / np.where(is_some, possible, 1.0), np.nan)
    return {ACCURACY: accuracy, ORACLE: oracle, CHANCE: chance, REGRET: oracle - accuracy, GAIN: gain}


def _spread(rows: pd.DataFrame, picks: Sequence[Pick], resampling: Resampling) -> tuple[dict[str, Floats] | None, str]:
    if len(picks) > 1:
        spread = _of_groups(_triples(picks), resampling)
        return spread, "bootstrap over groups" if spread else "no interval"
    if len(rows) < FEWEST:
        return None, "no interval"
    counts, drawn = resampling.counts(rows.index)
    return _outcomes(_chosen_anew(rows["x"].to_numpy(dtype=float), rows["y"].to_numpy(dtype=float), counts)), (
        f"bootstrap over {drawn}"
    )


def _of_groups(triples: Floats, resampling: Resampling) -> dict[str, Floats] | None:
    if len(triples) < FEWEST_GROUPS:
        return None
    counts = draw_counts(len(triples), resampling.n_resamples, resampling.seed)
    return _outcomes(counts @ triples / len(triples))


def _chosen_anew(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Accuracies of the pick, the oracle's and one at random in each sample of encoders, (n_resamples, 3)."""
    drawn = counts > 0
    best = np.where(drawn, x, -np.inf).max(axis=1, keepdims=True)
    tied = counts * (x == best)
    return np.column_stack(
        [(tied @ y) / tied.sum(axis=1), np.where(drawn, y, -np.inf).max(axis=1), (counts @ y) / counts.sum(axis=1)]
    )


def _estimate(label: Estimate, outcome: str, whole: Floats, spread: Floats | None) -> Estimate:
    label = label.described(outcome=outcome, unit=OUTCOMES[outcome])
    if not np.isfinite(whole[0]):
        return label.described(note=f"{label.note}; all encoders of a group are equally accurate")
    return label.with_value(whole[0], (None, None) if spread is None else compute_middle_interval(spread))


_NO_SINGLE_CHOICE = ("other", "z_layer", "projection_same", "projection1_arch", "year")
CHOICES = tuple(name for name in CORE_COLUMNS if name not in _NO_SINGLE_CHOICE)
"""Columns in which the encoders of a group may differ; a remark, a date or what always comes with another is none."""
ANY, WITHIN, OVERALL = "any one choice", "one objective", "all encoders"
_OBJECTIVE = "objective"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Correlations and selections of one population."""

    population: MetricPopulation
    correlations: tuple[Estimate, ...]  # of every predictor with every accuracy
    mutual: tuple[Estimate, ...]  # of every two predictors
    within: tuple[Estimate, ...]  # with the oracle, over pairs of encoders of one objective
    differences: tuple[Estimate, ...]  # tau of each predictor minus that of every other one
    selected: Mapping[str, tuple[Selection, ...]]  # a choice, or ANY, WITHIN or OVERALL -> one a predictor

    def correlation(self, metric: str, statistic: str, accuracy: str | None = None) -> Estimate | None:
        """One correlation with an accuracy, by default the oracle; None if too few encoders have it."""
        wanted = metric, str(self.population.oracle.name) if accuracy is None else accuracy
        return next(
            (
                one
                for one in self.correlations
                if (one.term, one.outcome) == wanted and one.method.startswith(statistic)
            ),
            None,
        )

    def within_of(self, metric: str) -> Estimate | None:
        """Kendall's tau within objectives; None if too few encoders share one."""
        return next((one for one in self.within if one.term == metric), None)

    def difference(self, first: str, second: str) -> Estimate | None:
        """Tau of the first predictor minus that of the second; None if too few encoders have both."""
        for one in self.differences:
            if one.term == f"{first} - {second}":
                return one
            if one.term == f"{second} - {first}" and one.value is not None:
                low, high = (None if end is None else -end for end in (one.ci_high, one.ci_low))
                return one.with_value(-one.value, (low, high), term=f"{first} - {second}")
        return None

    def selection(self, metric: str, of: str = ANY) -> Selection | None:
        """What a metric recovers in groups of a kind; None if it has none."""
        return next((one for one in self.selected.get(of, ()) if one.metric == metric), None)

    def estimates(self) -> list[Estimate]:
        """All of them, in order."""
        of_selections = [
            one for selections in self.selected.values() for selection in selections for one in selection.estimates
        ]
        return [*self.correlations, *self.mutual, *self.within, *self.differences, *of_selections]


def predictions(
    population: MetricPopulation, *, seed: int = 0, n_resamples: int = 1_000, choices: Sequence[str] = CHOICES
) -> Predictions:
    """Correlations and selections of one population; false-discovery rates are over all its correlations."""
    resampling = Resampling(clusters=population.objectives, n_resamples=n_resamples, seed=seed)
    predictors, name = population.predictors, population.name
    correlations = [
        one
        for accuracy in population.accuracies
        for one in oracle_correlations(
            predictors, population.accuracies[accuracy], population=name, resampling=resampling
        )
    ]
    choosers = population.choosers
    pairs = [(one, other) for place, one in enumerate(choosers) for other in choosers[place + 1 :]]
    return Predictions(
        population=population,
        correlations=tuple(adjust_discovery_rates(correlations, family=f"metrics with accuracies, {name}")),
        mutual=tuple(mutual_correlations(predictors, population=name, resampling=resampling)),
        within=tuple(
            within_correlations(
                predictors,
                population.oracle,
                population.objectives,
                population=name,
                of=_OBJECTIVE,
                resampling=resampling,
            )
        ),
        differences=tuple(
            correlation_differences(predictors, population.oracle, pairs, population=name, resampling=resampling)
        ),
        selected=_selected(population, resampling, choices),
    )


def _selected(
    population: MetricPopulation, resampling: Resampling, choices: Sequence[str]
) -> dict[str, tuple[Selection, ...]]:
    choosing, oracle, name = population.predictors[population.choosers], population.oracle, population.name
    by_choice = {
        choice: tuple(selections(choosing, oracle, groups, population=name, of=choice, resampling=resampling))
        for choice, groups in find_hyperparameter_groups(population, choices).items()
    }
    by_choice = {choice: selected for choice, selected in by_choice.items() if selected}
    every: list[Selection] = []
    for metric in choosing:
        of_metric = [one for selected in by_choice.values() for one in selected if one.metric == metric]
        if of_metric:
            every.append(pooled(of_metric, of=ANY, population=name, resampling=resampling))
    within = selections(choosing, oracle, population.objectives, population=name, of=WITHIN, resampling=resampling)
    everybody = pd.Series("everybody", index=oracle.index)
    overall = selections(
        choosing, oracle, everybody, population=name, of="whatever sets them apart", resampling=resampling
    )
    kinds = {**by_choice, ANY: tuple(every), WITHIN: tuple(within), OVERALL: tuple(overall)}
    return {kind: selected for kind, selected in kinds.items() if selected}
