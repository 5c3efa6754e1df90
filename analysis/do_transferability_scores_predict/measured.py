"""The measurements next to the study: true errors, scores and seconds, and what each score is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import (
    POINTS,
    TAU,
    Floats,
    estimate_of,
)
from zoo.errors import ContentError

from .selection import Resamples, average_data_sets, compute_regret, draw_resamples, order

HERE = Path(__file__).parent
KEYS = ["data", "labels", "seed", "encoder"]
PROBE, LABELLED, LABEL_FREE, BLIND = "a probe", "a score of labels", "without labels", "blind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One way of judging encoders by a few labelled images."""

    label: str
    kind: str
    judge: str  # what computes it, as the seconds name it
    lower_is_better: bool = False
    source: str = ""


SCORES: dict[str, Score] = {
    "folds": Score(label="logistic probe, halves, error", kind=PROBE, judge="folds", lower_is_better=True),
    "folds_loss": Score(label="logistic probe, halves, log loss", kind=PROBE, judge="folds", lower_is_better=True),
    "ridge": Score(label="ridge, leave one out", kind=PROBE, judge="ridge", source="Allen 1974"),
    "ridge_squares": Score(
        label="ridge, leave one out, squares",
        kind=PROBE,
        judge="ridge_squares",
        lower_is_better=True,
        source="Allen 1974",
    ),
    "neighbours": Score(label="k-NN, leave one out", kind=PROBE, judge="neighbours"),
    "logme": Score(label="LogME, exact", kind=LABELLED, judge="logme", source="arXiv:2102.11005"),
    "logme_published": Score(
        label="LogME, as published code", kind=LABELLED, judge="logme_published", source="arXiv:2102.11005"
    ),
    "h_score": Score(label="H-score, shrunk", kind=LABELLED, judge="h_score", source="arXiv:2110.06893"),
    "gbc": Score(label="GBC", kind=LABELLED, judge="gbc", source="arXiv:2111.12780"),
    "nleep": Score(label="NLEEP", kind=LABELLED, judge="nleep", source="arXiv:2011.11200"),
    "transrate": Score(label="TransRate", kind=LABELLED, judge="transrate", source="arXiv:2106.09362"),
    "rankme": Score(label="RankMe", kind=LABEL_FREE, judge="spectrum", source="arXiv:2210.02885"),
    "nesum": Score(label="NESum", kind=LABEL_FREE, judge="spectrum", source="He and Ozay 2022"),
    "stable_rank": Score(label="stable rank", kind=LABEL_FREE, judge="spectrum"),
    "matrix_entropy": Score(label="matrix entropy", kind=LABEL_FREE, judge="spectrum"),
    "width": Score(label="width of the features", kind=BLIND, judge="width"),
}
"""By their columns; probes first."""
REFERENCE = "ridge_squares"
"""The probe on the same labels, and of the same cost, that every score is held against."""
PROBED = "folds"
"""The probe that is trained as one would train it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One data set and number of labels per class: true errors and scores, (n_draws, n_encoders)."""

    data: str
    labels: int
    errors: Floats
    scores: Mapping[str, Floats]  # higher is better


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """Everything that was measured."""

    encoders: tuple[str, ...]
    n_draws: int
    cells: Mapping[tuple[str, int], Cell]
    seconds: Mapping[tuple[str, int, str], Floats]  # data set, labels, judge -> (n_encoders,)
    seconds_an_image: Mapping[str, Floats]  # data set -> (n_encoders,)
    n_classes: Mapping[str, int]
    provenance: Mapping[str, Any]

    @property
    def data(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.cells))

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(sorted({labels for _, labels in self.cells}))

    @property
    def scores(self) -> tuple[str, ...]:
        """Those that every cell has, in the order of :data:`SCORES`."""
        return tuple(name for name in SCORES if all(name in cell.scores for cell in self.cells.values()))


@cache
def measurements() -> Measurements:
    """The shipped measurements; ContentError if the files do not fit each other."""
    provenance = tomllib.loads((HERE / "provenance.toml").read_text(encoding="utf-8"))
    frame = pd.read_csv(HERE / "scores.csv.gz")
    seconds = pd.read_csv(HERE / "seconds.csv")
    encoders = tuple(dict.fromkeys(frame["encoder"]))
    n_draws = frame["seed"].nunique()
    if (
        len(frame) != len(encoders) * n_draws * frame.groupby(["data", "labels"]).ngroups
        or frame[KEYS].duplicated().any()
    ):
        raise ContentError(f"{HERE / 'scores.csv.gz'} has no row of some draw and encoder, or two; measure again.")
    return Measurements(
        encoders=encoders,
        n_draws=n_draws,
        cells={(cell.data, cell.labels): cell for cell in _cells(frame, encoders)},
        seconds={
            (str(data), int(str(labels)), str(judge)): some.set_index("encoder")["seconds"]
            .reindex(encoders)
            .to_numpy(float)
            for (data, labels, judge), some in seconds.groupby(["data", "labels", "judge"], sort=False)
        },
        seconds_an_image={
            data: pd.Series(of, dtype="float64").reindex(encoders).to_numpy()
            for data, of in provenance["seconds_an_image"].items()
        },
        n_classes={data: facts["classes"] for data, facts in provenance["images"].items()},
        provenance=provenance,
    )


def _cells(frame: pd.DataFrame, encoders: tuple[str, ...]) -> Iterator[Cell]:
    for (data, labels), some in frame.groupby(["data", "labels"], sort=False):
        tables = {
            column: some.pivot(index="seed", columns="encoder", values=column)[list(encoders)].to_numpy(float)
            for column in some.columns.drop(KEYS)
        }
        errors = tables.pop("truth")
        turned = {name: -one if SCORES[name].lower_is_better else one for name, one in tables.items() if name in SCORES}
        yield Cell(data=str(data), labels=int(str(labels)), errors=errors, scores=turned)


N_RESAMPLES = 1_000
ALL = "all"  # data sets
SAME, MOST = "the same labels", "the most labels"  # what the probe has whose error is to be predicted
NEAR = 0.25  # points of regret within which the faster score is taken
COMPARABLE = 2.0  # times the seconds, within which two take as long
ORDER, REGRET, CHANCE = "order", "regret", "random pick"
Key = tuple[str, str, str, int, str]  # ORDER or REGRET, score, data set or ALL, labels per class, SAME or MOST


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
        return average_data_sets([self.values[what, score, ALL, labels, target] for labels in numbers])

    def _label(self, what: str, score: str, data: str, labels: int, target: str) -> Estimate:
        of = f"{labels} labels per class" if labels else "all numbers of labels"
        return Estimate(
            term=_name(score),
            n=self.n_encoders,
            unit=TAU if what == ORDER else POINTS,
            outcome=f"{what}, {data if data != ALL else 'all data sets'}, {of}, to predict {target}",
            method=f"mean of {self.n_draws} draws of the labels, bootstrap over encoders and draws",
        )


def quality_of(measured: Measurements, *, seed: int = 0) -> Quality:
    """Every score on every data set, with every number of labels, for a probe with as many labels and with the most."""
    counts = draw_resamples(len(measured.encoders), measured.n_draws, n_resamples=N_RESAMPLES, seed=seed)
    values: dict[Key, Floats] = {}
    most = measured.labels[-1]
    for labels in measured.labels:
        for target in (SAME, MOST) if labels != most else (SAME,):
            for data in measured.data:
                errors = measured.cells[data, most if target == MOST else labels].errors
                for name in measured.scores:
                    scores = measured.cells[data, labels].scores[name]
                    values[ORDER, name, data, labels, target] = order(scores, errors, counts)
                    values[REGRET, name, data, labels, target] = compute_regret(scores, errors, counts)
                values[REGRET, CHANCE, data, labels, target] = chance(errors, counts)
            for what, name in [*product((ORDER, REGRET), measured.scores), (REGRET, CHANCE)]:
                values[what, name, ALL, labels, target] = average_data_sets(
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
    return compute_regret(np.zeros_like(errors), errors, counts)


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
