"""What one population says of its label-free metrics: how they correlate, and what choosing by them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .controlled import CORE_COLUMNS
from .estimates import Estimate
from .label_free_correlations import (
    correlation_differences,
    mutual_correlations,
    oracle_correlations,
    within_correlations,
)
from .label_free_populations import Population, hyperparameter_groups
from .label_free_selection import Selection, overall_selections, pooled, selections
from .ols import adjusted
from .resampled_correlations import Resampling

_NO_SINGLE_CHOICE = ("other", "z_layer", "projection_same", "projection1_arch", "year")
CHOICES = tuple(name for name in CORE_COLUMNS if name not in _NO_SINGLE_CHOICE)
"""Columns in which the encoders of a group may differ; a remark, a date or what always comes with another is none."""
ANY, WITHIN, OVERALL = "any one choice", "one objective", "all encoders"
_OBJECTIVE = "objective"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What was found for one population."""

    population: Population
    correlations: tuple[Estimate, ...]  # of every predictor with every accuracy
    mutual: tuple[Estimate, ...]  # of every two predictors
    within: tuple[Estimate, ...]  # with the oracle, over pairs of encoders of one objective
    differences: tuple[Estimate, ...]  # tau of each predictor minus that of every other one
    selected: Mapping[str, tuple[Selection, ...]]  # a choice, or ANY, WITHIN or OVERALL -> one a predictor

    def correlation(self, metric: str, statistic: str, accuracy: str | None = None) -> Estimate | None:
        """One correlation with an accuracy, by default the oracle; None if too few encoders have it."""
        wanted = metric, str(self.population.oracle.name) if accuracy is None else accuracy
        return next((one for one in self.correlations
                     if (one.term, one.outcome) == wanted and one.method.startswith(statistic)), None)  # fmt: skip

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
                return one.described(term=f"{first} - {second}", value=-one.value, ci_low=low, ci_high=high)
        return None

    def selection(self, metric: str, of: str = ANY) -> Selection | None:
        """What a metric recovers in groups of a kind; None if it has none."""
        return next((one for one in self.selected.get(of, ()) if one.metric == metric), None)

    def estimates(self) -> list[Estimate]:
        """All of them, in order."""
        of_selections = [one for found in self.selected.values() for own in found for one in own.estimates]
        return [*self.correlations, *self.mutual, *self.within, *self.differences, *of_selections]


def predictions(
    population: Population, *, seed: int = 0, n_resamples: int = 1_000, choices: Sequence[str] = CHOICES
) -> Predictions:
    """Correlations and selections of one population.

    Intervals draw objectives with all of their encoders where there are at least 5, else encoders. False-discovery
    rates are over the correlations of this population with all of its accuracies.
    """
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
        correlations=tuple(adjusted(correlations, family=f"metrics with accuracies, {name}")),
        mutual=tuple(mutual_correlations(predictors, population=name, resampling=resampling)),
        within=tuple(within_correlations(predictors, population.oracle, population.objectives, population=name,
                                         of=_OBJECTIVE, resampling=resampling)),
        differences=tuple(correlation_differences(predictors, population.oracle, pairs, population=name,
                                                  resampling=resampling)),
        selected=_selected(population, resampling, choices),
    )  # fmt: skip


def _selected(
    population: Population, resampling: Resampling, choices: Sequence[str]
) -> dict[str, tuple[Selection, ...]]:
    choosing, oracle, name = population.predictors[population.choosers], population.oracle, population.name
    by_choice = {
        choice: tuple(selections(choosing, oracle, groups, population=name, of=choice, resampling=resampling))
        for choice, groups in hyperparameter_groups(population, choices).items()
    }
    by_choice = {choice: found for choice, found in by_choice.items() if found}
    every: list[Selection] = []
    for metric in choosing:
        own = [one for found in by_choice.values() for one in found if one.metric == metric]
        if own:
            every.append(pooled(own, of=ANY, population=name, resampling=resampling))
    within = selections(choosing, oracle, population.objectives, population=name, of=WITHIN, resampling=resampling)
    overall = overall_selections(choosing, oracle, population=name, resampling=resampling)
    kinds = {**by_choice, ANY: tuple(every), WITHIN: tuple(within), OVERALL: tuple(overall)}
    return {kind: found for kind, found in kinds.items() if found}
