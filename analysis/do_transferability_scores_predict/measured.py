"""The measurements beside the study: true errors, scores and seconds, and what each score is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.analysis.correlations import Floats
from zoo.errors import ContentError

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
    """One data set and number of labels a class: true errors and scores, (n_draws, n_encoders)."""

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
