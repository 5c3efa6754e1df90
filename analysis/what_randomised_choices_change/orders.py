"""How metrics order the encoders: Kendall's tau with errors, over pairs of encoders that have more and more in common.

A metric that tells encoders of all kinds apart may do so by what everybody knows beforehand, such as the number of
dimensions. Whoever searches hyper-parameters compares encoders that share all of that: so tau is also taken over the
pairs of one objective, of one architecture, and of both. Every number comes from the same resamples of encoders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import Floats, drawn_counts, kendall, percentiles
from zoo.analysis.label_free import directed, needs_labels, title_of
from zoo.analysis.randomised_population import SWITCHES, Population
from zoo.datasets.recipes import WORDS
from zoo.errors import QueryError
from zoo.results.vocabulary import LABEL_FREE_METRICS

N_RESAMPLES = 1_000
TARGETS: Mapping[str, str] = {
    "full": "the error with all labels",
    "3-shot": "the 3-shot error",
    "usability": "the usability error",
}
ALL, SELF, WITHIN = "all encoders", "self-supervised", "one objective"
WIDTH, ARCHITECTURE, SEARCH = "one width", "one network and width", "one objective, network and width"
SHARED: Mapping[str, tuple[str, ...]] = {  # what two encoders must have in common to be compared
    ALL: (),
    SELF: (),
    WITHIN: ("objective",),
    WIDTH: ("dim",),
    ARCHITECTURE: ("network", "dim"),
    SEARCH: ("objective", "network", "dim"),
}
DIMENSIONS, FEW_LABELS = "number of dimensions", "5-shot accuracy"
SPECTRAL = "alpha_req"  # a power law of eigenvalues, which needs that they are not 0
AUGMENTED_BY_THEMSELVES = ("context_encoder", "rotnet")  # objectives whose own masks and turns make views that differ
FREE, LABELLED, BASELINE = "without labels", "with labels", "to compare with"
FEWEST_PAIRS = 10
Masks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Orders:
    """Tau of every metric with every error over all kinds of pairs, and what it was computed of."""

    predictors: pd.DataFrame  # more is better; index: encoders; NaN where an encoder did not allow a metric
    errors: pd.DataFrame  # columns: TARGETS
    masks: Mapping[str, Floats]  # by SHARED: 1 where a pair of encoders is compared, (n, n)
    counts: Floats  # (1 + n_resamples, n): each encoder once, and resamples
    known: Mapping[tuple[str, str, str], Estimate]  # by metric, target and pairs

    def one(self, metric: str, target: str, pairs: str) -> Estimate:
        """Tau of a metric with a target."""
        return self.known[metric, target, pairs]

    def against(self, metric: str, other: str, target: str, pairs: str) -> Estimate:
        """Tau of a metric minus that of another one, of the encoders that have both."""
        has = _has(self.predictors, metric, other)
        values, others = (
            _taus(self.predictors[name], self.errors[target], self.masks[pairs], self.counts, has)
            for name in (metric, other)
        )
        term = f"{title_of(metric)} - {title_of(other)}"
        return _estimate(term, values - others, has, target, pairs, _n_pairs(self.masks[pairs], has))

    def more_among(self, metric: str, target: str, pairs: str, others: str) -> Estimate:
        """How much larger tau of a metric is among some pairs than among others."""
        has = _has(self.predictors, metric)
        values, less = (
            _taus(self.predictors[metric], self.errors[target], self.masks[name], self.counts, has)
            for name in (pairs, others)
        )
        n_pairs = min(_n_pairs(self.masks[name], has) for name in (pairs, others))
        return _estimate(title_of(metric), values - less, has, target, f"{pairs} minus {others}", n_pairs)

    def n_pairs(self, pairs: str) -> int:
        """How many pairs of encoders share so much."""
        return _n_pairs(self.masks[pairs], np.ones(len(self.predictors), dtype=bool))

    def estimates(self) -> Iterator[Estimate]:
        """All of them, and what each metric has more than the number of dimensions."""
        yield from self.known.values()
        for metric in map(str, self.predictors.drop(columns=DIMENSIONS)):
            yield from (self.against(metric, DIMENSIONS, "full", pairs) for pairs in (ALL, WITHIN))


def orders_of(population: Population, metrics: pd.DataFrame, few_shot: pd.Series[float], *, seed: int = 0) -> Orders:
    """Every metric turned so that more is better, the number of dimensions and the accuracy with few labels.

    ``metrics`` are as measured, ``few_shot`` are errors with 5 labels a class; both have the encoders of the population
    as their index. Metrics that are the same for all are left out.
    """
    if not metrics.index.equals(population.choices.index) or not few_shot.index.equals(population.choices.index):
        raise QueryError("The encoders of the metrics are not those of the population, expected the same in one order.")
    varying = [str(name) for name in metrics if metrics[name].nunique() > 1]
    predictors = pd.DataFrame({name: directed(metrics[name]) for name in varying}, index=metrics.index)
    predictors[DIMENSIONS] = population.choices["dim"].astype("float64")
    predictors[FEW_LABELS] = 100 - few_shot
    n, errors = len(population), population.outcomes[list(TARGETS)]
    masks = {name: _mask(population.choices, name) for name in SHARED}
    counts = np.concatenate([np.ones((1, n)), drawn_counts(n, N_RESAMPLES, seed)])
    known = {}
    for metric in map(str, predictors):
        has = _has(predictors, metric)
        for target, pairs in product(TARGETS, SHARED):
            values = _taus(predictors[metric], errors[target], masks[pairs], counts, has)
            known[metric, target, pairs] = _estimate(
                title_of(metric), values, has, target, pairs, _n_pairs(masks[pairs], has)
            )
    return Orders(predictors=predictors, errors=errors, masks=masks, counts=counts, known=known)


def _taus(predictor: pd.Series[float], error: pd.Series[float], mask: Floats, counts: Floats, has: Masks) -> Floats:
    """Tau of the encoders that have a metric, and of the resamples; (1 + n_resamples,)."""
    x, y = (np.asarray(one[has], dtype=np.float64) for one in (predictor, -error))
    return kendall(x, y, counts[:, has], mask[np.ix_(has, has)])


def _has(predictors: pd.DataFrame, *metrics: str) -> Masks:
    return np.asarray(predictors[list(metrics)].notna().all(axis=1), dtype=bool)


def _n_pairs(mask: Floats, has: Masks) -> int:
    own = mask[np.ix_(has, has)]
    return int((own.sum() - own.trace()) / 2)


def _estimate(term: str, values: Floats, has: Masks, target: str, pairs: str, n_pairs: int) -> Estimate:
    blank = Estimate(
        term=term,
        n=int(has.sum()),
        unit="tau",
        outcome=target,
        method=f"Kendall, pairs of {pairs}, bootstrap over encoders",
    )
    if n_pairs < FEWEST_PAIRS:
        return blank.described(note=f"{n_pairs} pairs, too few for an order")
    if not np.isfinite(values[0]):
        return blank.described(note="it never varies among such pairs")
    return blank.with_value(values[0], percentiles(values[1:]), note=f"{n_pairs} pairs")


def kind_of(metric: str) -> str:
    """Whether a metric needs labels, or is only there to compare with."""
    if metric in (DIMENSIONS, FEW_LABELS):
        return BASELINE
    return LABELLED if needs_labels(metric) else FREE


def why_missing(population: Population, metrics: pd.DataFrame) -> dict[str, dict[str, int]]:
    """By metric that some encoders lack, how many lack it and why, in words."""
    choices = population.choices
    made = [name for name in SWITCHES if name in WORDS]
    has_views = choices[made].any(axis=1) | choices["objective"].isin(AUGMENTED_BY_THEMSELVES)
    rank = metrics["feature_rank"] if "feature_rank" in metrics else pd.Series(np.inf, index=choices.index)
    is_low_rank = rank < choices["dim"].astype("float64")
    found: dict[str, dict[str, int]] = {}
    for name in map(str, metrics):
        gone, needs = metrics[name].isna(), LABEL_FREE_METRICS[name].needs
        networks = " and ".join(sorted(set(choices.loc[gone & is_low_rank, "network"])))
        reasons = {
            f"drawn without what the zoo makes views with ({', '.join(made)})": gone & ~has_views & (needs == "views"),
            f"features of lower rank than dimensions ({networks})": gone & is_low_rank & (name == SPECTRAL),
        }
        reasons["refused: images differ in a direction in which views of an image do not"] = (
            gone & ~np.logical_or.reduce([*reasons.values()]) & (needs == "views")
        )
        reasons["refused"] = gone & ~np.logical_or.reduce([*reasons.values()])
        if gone.any():
            found[name] = {words: int(which.sum()) for words, which in reasons.items() if which.any()}
    return found


def _mask(choices: pd.DataFrame, name: str) -> Floats:
    if name == SELF:
        is_one = (choices["objective"] != "supervised").to_numpy()
        return np.outer(is_one, is_one).astype(float)
    keys = choices[list(SHARED[name])].astype(str).agg("/".join, axis=1).to_numpy() if SHARED[name] else None
    return np.ones((len(choices), len(choices))) if keys is None else (keys[:, None] == keys).astype(float)
