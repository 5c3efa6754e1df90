"""Order and regret of every score, by data set, number of labels and what is to be predicted; and what judges best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import TAU, Floats
from zoo.analysis.selection import POINTS, Resamples, estimate_of, mean_of, order, regret, resamples

from .measured import BLIND, REFERENCE, SCORES, Measurements

N_RESAMPLES = 1_000
ALL = "all"  # data sets
SAME, MOST = "the same labels", "the most labels"  # what the probe has whose error is to be predicted
NEAR = 0.25  # points of regret within which the faster score is taken
COMPARABLE = 2.0  # times the seconds, within which two take as long
ORDER, REGRET, CHANCE = "order", "regret", "random pick"
Key = tuple[str, str, str, int, str]  # ORDER or REGRET, score, data set or ALL, labels a class, SAME or MOST


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quality:
    """Order and regret with their resamples, all of the same encoders and draws."""

    values: Mapping[Key, Floats]  # (1 + n_resamples,)
    scores: tuple[str, ...]
    data: tuple[str, ...]
    labels: tuple[int, ...]
    n_encoders: int
    n_draws: int

    def one(self, what: str, score: str, data: str, labels: int, target: str = SAME) -> Estimate:
        """An order or a regret with its interval."""
        return estimate_of(
            self.values[what, score, data, labels, target], self._label(what, score, data, labels, target)
        )

    def pooled(self, what: str, score: str, target: str = SAME) -> Estimate:
        """The mean over data sets and numbers of labels."""
        return estimate_of(self._over_labels(what, score, target), self._label(what, score, ALL, 0, target))

    def against(
        self, what: str, score: str, other: str = REFERENCE, *, labels: int = 0, target: str = SAME
    ) -> Estimate:
        """What a score has more than another one, paired, over all data sets; ``labels`` of 0 are all numbers."""
        both = [
            self.values[what, name, ALL, labels, target] if labels else self._over_labels(what, name, target)
            for name in (score, other)
        ]
        label = self._label(what, score, ALL, labels, target)
        return estimate_of(both[0] - both[1], label.described(term=f"{label.term} minus {_name(other)}"))

    def estimates(self) -> Iterator[Estimate]:
        """All of them, and the differences from the probe."""
        for key in self.values:
            yield self.one(*key)
        for what, score, target in product((ORDER, REGRET), self.scores, (SAME, MOST)):
            if score != REFERENCE:
                yield self.against(what, score, target=target)

    def _over_labels(self, what: str, score: str, target: str) -> Floats:
        numbers = self.labels if target == SAME else self.labels[:-1]
        return mean_of([self.values[what, score, ALL, labels, target] for labels in numbers])

    def _label(self, what: str, score: str, data: str, labels: int, target: str) -> Estimate:
        of = f"{labels} labels a class" if labels else "all numbers of labels"
        return Estimate(
            term=_name(score),
            n=self.n_encoders,
            unit=TAU if what == ORDER else POINTS,
            outcome=f"{what}, {data if data != ALL else 'all data sets'}, {of}, to predict {target}",
            method=f"mean of {self.n_draws} draws of the labels, bootstrap over encoders and draws",
        )


def quality_of(measured: Measurements, *, seed: int = 0) -> Quality:
    """Every score on every data set, with every number of labels, for a probe with as many labels and with the most."""
    counts = resamples(len(measured.encoders), measured.n_draws, n_resamples=N_RESAMPLES, seed=seed)
    values: dict[Key, Floats] = {}
    most = measured.labels[-1]
    for labels in measured.labels:
        for target in (SAME, MOST) if labels != most else (SAME,):
            for data in measured.data:
                errors = measured.cells[data, most if target == MOST else labels].errors
                for name in measured.scores:
                    scores = measured.cells[data, labels].scores[name]
                    values[ORDER, name, data, labels, target] = order(scores, errors, counts)
                    values[REGRET, name, data, labels, target] = regret(scores, errors, counts)
                values[REGRET, CHANCE, data, labels, target] = chance(errors, counts)
            for what, name in [*product((ORDER, REGRET), measured.scores), (REGRET, CHANCE)]:
                values[what, name, ALL, labels, target] = mean_of(
                    [values[what, name, data, labels, target] for data in measured.data]
                )
    return Quality(
        values=values,
        scores=measured.scores,
        data=measured.data,
        labels=measured.labels,
        n_encoders=len(measured.encoders),
        n_draws=measured.n_draws,
    )


def chance(errors: Floats, counts: Resamples) -> Floats:
    """The regret of choosing by lot."""
    return regret(np.zeros_like(errors), errors, counts)


def seconds_by_score(measured: Measurements) -> dict[str, dict[int, float]]:
    """Seconds that a score takes an encoder, by number of labels: means over encoders and data sets."""
    return {
        name: {
            labels: float(
                np.mean([measured.seconds[data, labels, SCORES[name].judge].mean() for data in measured.data])
            )
            for labels in measured.labels
        }
        for name in measured.scores
    }


def featurising_seconds(measured: Measurements) -> dict[int, float]:
    """Seconds of the processor that featurising the labelled images takes an encoder, by number of labels."""
    return {
        labels: float(
            np.mean(
                [labels * measured.n_classes[data] * measured.seconds_an_image[data].mean() for data in measured.data]
            )
        )
        for labels in measured.labels
    }


def best_for_its_cost(quality: Quality, seconds: Mapping[str, Mapping[int, float]]) -> str:
    """Of the scores whose regret is near the least, and that take about as long as the fastest of these, the best."""
    able = [name for name in quality.scores if SCORES[name].kind != BLIND]
    regrets = {name: quality.pooled(REGRET, name).value or 0.0 for name in able}
    near = [name for name in able if regrets[name] <= min(regrets.values()) + NEAR]
    taken = {name: sum(seconds[name].values()) for name in near}
    return min((name for name in near if taken[name] <= COMPARABLE * min(taken.values())), key=regrets.__getitem__)


def _name(score: str) -> str:
    return SCORES[score].label if score in SCORES else score
