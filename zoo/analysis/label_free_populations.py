"""Encoders whose label-free metrics and accuracies are both known: the published ones, and any others.

A population has values as they were measured, and *predictors*: the same values turned so that more is better, as the
metric's paper reads it. A metric for which less is better is negated; alpha-ReQ, which is best at 1, becomes minus its
distance from 1; one without a direction stays as it is and may not choose an encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..labelfree import LABEL_FREE_METRICS
from ..optional import requires_extra
from .outcomes import ERRORS
from .populations import FEWEST
from .table import StudyTable

with requires_extra("study", needed_for="A study of metrics"):
    import numpy as np
    import pandas as pd

Direction = Literal["more", "less", "1", "none"]
FULL_SHOT = "full-shot"
PUBLISHED = "published encoders"
RESNETS = "published ResNet-50s"
STATISTIC_COLUMNS = {  # metric -> column of the study table; views are the pretraining's own augmentations of an image
    "correlation_rank": "train_rank", "feature_rank": "train_rank_Z", "uniformity": "train_uniformity",
    "alignment": "trainrealaug_alignment", "neural_collapse": "trainrealaug_nc1",
}  # fmt: skip
CLID, W_CLID = "clid", "w_clid"
LEARNABILITY, DIMENSION = "cluster_learnability", "intrinsic_dimension"
_TITLES = {CLID: "CLID", W_CLID: "W-CLID"}
_BEST_AT_1 = "alpha_req"
TOLD: Mapping[Direction, str] = {
    "more": "as it is: more is better", "less": "negated: less is better", "1": "minus the distance from 1",
    "none": "as it is: its paper claims no direction",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Encoders with metrics and accuracies on one data set."""

    name: str
    dataset: str
    values: pd.DataFrame  # index: encoders; columns: metrics as measured; NaN where missing
    accuracies: pd.DataFrame  # the same index; percent, higher is better; the first column is the oracle
    facts: StudyTable  # of the encoders: what was chosen
    left_out: Mapping[str, int]  # reason -> encoders that the population could have had
    unanswered: tuple[str, ...] = ()  # a sentence for each metric that could not be made of the others

    def __len__(self) -> int:
        return len(self.values)

    @property
    def oracle(self) -> pd.Series[float]:
        """The accuracy that the others are held against."""
        return self.accuracies.iloc[:, 0]

    @property
    def predictors(self) -> pd.DataFrame:
        """Metrics turned so that more is better, those that at least 5 encoders have."""
        enough = [name for name in self.values if self.values[name].notna().sum() >= FEWEST]
        return pd.DataFrame({name: directed(self.values[name]) for name in enough}, index=self.values.index)

    @property
    def choosers(self) -> list[str]:
        """The predictors that say which encoder is better."""
        return [str(name) for name in self.predictors if direction_of(str(name)) != "none"]

    @property
    def objectives(self) -> pd.Series[str]:
        """The objective of each encoder, which is what its relatives share."""
        known = self.facts.frame["objective"].reindex(self.values.index)
        return known.fillna("unknown").astype(str)

    def only(self, encoders: Iterable[str], *, name: str, because: str) -> Population:
        """The same population with these encoders only."""
        kept = self.values.index[self.values.index.isin(list(encoders))]
        gone = len(self) - len(kept)
        return replace(
            self, name=name, values=self.values.loc[kept], accuracies=self.accuracies.loc[kept],
            facts=self.facts.only(kept, because=because),
            left_out={**self.left_out, **({because: gone} if gone else {})},
        )  # fmt: skip


def direction_of(metric: str) -> Direction:
    """Which way a metric points, as its paper reads it.

    >>> direction_of("rankme"), direction_of("uniformity"), direction_of("alpha_req"), direction_of("neural_collapse")
    ('more', 'less', '1', 'none')
    """
    if metric == _BEST_AT_1:
        return "1"
    known = LABEL_FREE_METRICS.get(metric)
    higher = True if known is None else known.higher_is_better
    return "none" if higher is None else "more" if higher else "less"


def needs_labels(metric: str) -> bool:
    """True for metrics that the papers compare with although labels go into them.

    >>> needs_labels("w_clid"), needs_labels("one_shot_accuracy"), needs_labels("rankme")
    (True, True, False)
    """
    known = LABEL_FREE_METRICS.get(metric)
    return metric == W_CLID if known is None else known.needs in ("labelled", "source and target")


def title_of(metric: str) -> str:
    """The words for a metric.

    >>> title_of("lidar"), title_of("clid")
    ('LiDAR', 'CLID')
    """
    known = LABEL_FREE_METRICS.get(metric)
    return _TITLES.get(metric, metric) if known is None else known.title


def unit_of(metric: str) -> str:
    """The unit of a metric; empty if it has none.

    >>> unit_of("lidar"), unit_of("rotation_accuracy"), unit_of("clid"), unit_of("w_clid")
    ('dimensions', '%', '', '%')
    """
    known = LABEL_FREE_METRICS.get(metric)
    if known is None:
        return "%" if metric == W_CLID else ""  # W-CLID is a prediction of the accuracy
    return {"dimensionless": "", "percent": "%"}.get(known.unit, known.unit)


def directed(values: pd.Series[float]) -> pd.Series[float]:
    """A metric turned so that more is better; the name of the column says which metric it is.

    >>> directed(pd.Series([0.5, 2.0], name="alpha_req")).tolist()
    [-0.5, -1.0]
    """
    direction = direction_of(str(values.name))
    if direction == "1":
        return -(values - 1).abs()
    return -values if direction == "less" else values


def published_population(table: StudyTable) -> Population:
    """The encoders of the study table with statistics of their features on ImageNet-1K, and errors by labels.

    Contrast is the sum of uniformity and alignment, where both were published.
    """
    frame = table.frame
    values = pd.DataFrame({name: frame[column] for name, column in STATISTIC_COLUMNS.items()}, index=frame.index)
    values["contrast"] = values["alignment"] + values["uniformity"]
    accuracies = pd.DataFrame({_setting(one.label): 100 - frame[one.column] for one in ERRORS}, index=frame.index)
    return _of(PUBLISHED, "imagenet-1k", values, accuracies, table)


def resnets_of(population: Population) -> Population:
    """The ResNet-50s, of which architecture and dimensions are the same."""
    frame = population.facts.frame
    resnets = frame.index[frame["architecture_exact"] == "resnet50"]
    return population.only(resnets, name=RESNETS, because="not a ResNet-50")


def population_of(
    name: str, dataset: str, values: pd.DataFrame, accuracies: pd.DataFrame, facts: StudyTable
) -> Population:
    """A population of values measured anywhere; encoders without the first accuracy or any metric are left out.

    Parameters
    ----------
    values : DataFrame, index: encoders
        Metrics as measured, one column each under its name.
    accuracies : DataFrame, the same index
        In percent; the first column is the oracle.
    facts : StudyTable
        With these encoders.
    """
    return _of(name, dataset, values, accuracies, facts)


def hyperparameter_groups(population: Population, treatments: Sequence[str]) -> dict[str, pd.Series[str]]:
    """By choice, the groups of encoders that differ in that choice alone.

    Parameters
    ----------
    treatments : sequence of str
        Columns of the study table. What has to change with one may: the layer with the dimensions, and the columns of
        the projector with each other.

    Returns
    -------
    dict of Series
        Choice -> id of the group's first encoder, by encoder; choices that vary in no group are left out.
    """
    from .controlled import VARIED_TOGETHER, controlled_groups

    found = {}
    for treatment in treatments:
        together = VARIED_TOGETHER.get(treatment, (treatment,))
        facts = population.facts
        known = facts.frame.index[facts.why_missing[treatment] != "not published"]
        among = [encoder for encoder in population.values.index if encoder in known]
        groups = controlled_groups(facts, together, among=among)
        levels = facts.frame[treatment].astype(object).fillna("not applicable")[groups.index]
        varying = levels.astype(str).groupby(groups["group"]).transform("nunique") > 1
        if varying.any():
            found[treatment] = groups["group"][varying].astype(str)
    return found


def _of(name: str, dataset: str, values: pd.DataFrame, accuracies: pd.DataFrame, facts: StudyTable) -> Population:
    has_oracle, has_metric = accuracies.iloc[:, 0].notna(), values.notna().any(axis=1)
    why = {
        f"{accuracies.columns[0]} accuracy not measured": int((~has_oracle).sum()),
        "no label-free metric measured": int((has_oracle & ~has_metric).sum()),
    }
    kept = values.index[has_oracle & has_metric]
    return Population(
        name=name, dataset=dataset, values=values.loc[kept].astype(np.float64), accuracies=accuracies.loc[kept],
        facts=facts.only(kept, because="metric or accuracy missing"),
        left_out={reason: n for reason, n in why.items() if n},
    )  # fmt: skip


def _setting(label: str) -> str:
    return label.removesuffix(" error").replace("Full", "full")
