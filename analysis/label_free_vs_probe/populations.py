"""Populations of encoders with label-free metrics and accuracies: the published ones, and those measured here.

Predictors are the metrics turned so that more is better. Numbers of two protocols, or of two kinds of image, are not
mixed: of each metric those count that most encoders have, averaged over the seeds of the newest campaign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from zoo.analysis.columns import ERRORS, STUDY_COLUMNS
from zoo.analysis.label_free import CLID, W_CLID, Direction, direct_upwards, get_direction
from zoo.analysis.table import FEWEST, StudyTable, build_table
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import Missing
from zoo.errors import QueryError
from zoo.evaluation.label_free.catalogue import clid, w_clid
from zoo.optional import require_extra
from zoo.results.tables import list_study_facts
from zoo.results.values import Row
from zoo.results.vocabulary import LABEL_FREE_METRICS

with require_extra("study", needed_for="A study of metrics"):
    import numpy as np
    import pandas as pd

FULL_SHOT = "full-shot"
PUBLISHED = "published encoders"
RESNETS = "published ResNet-50s"
STATISTIC_COLUMNS = {  # metric -> column of the study table; views are the pretraining's own augmentations of an image
    "correlation_rank": "train_rank",
    "feature_rank": "train_rank_Z",
    "uniformity": "train_uniformity",
    "alignment": "trainrealaug_alignment",
    "neural_collapse": "trainrealaug_nc1",
}
LEARNABILITY, DIMENSION = "cluster_learnability", "intrinsic_dimension"
TOLD: Mapping[Direction, str] = {
    "more": "as it is: more is better",
    "less": "negated: less is better",
    "1": "minus the distance from 1",
    "none": "as it is: its paper claims no direction",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricPopulation:
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
        return pd.DataFrame({name: direct_upwards(self.values[name]) for name in enough}, index=self.values.index)

    @property
    def choosers(self) -> list[str]:
        """The predictors that say which encoder is better."""
        return [str(name) for name in self.predictors if get_direction(str(name)) != "none"]

    @property
    def objectives(self) -> pd.Series[str]:
        """The objective of each encoder, which is what its relatives share."""
        known = self.facts.frame["objective"].reindex(self.values.index)
        return known.fillna("unknown").astype(str)

    def only(self, encoders: Iterable[str], *, name: str, because: str) -> MetricPopulation:
        """The same population with these encoders only."""
        chosen = self.values.index[self.values.index.isin(list(encoders))]
        gone = len(self) - len(chosen)
        return replace(
            self,
            name=name,
            values=self.values.loc[chosen],
            accuracies=self.accuracies.loc[chosen],
            facts=self.facts.only(chosen, because=because),
            left_out={**self.left_out, **({because: gone} if gone else {})},
        )


def get_metric_unit(metric: str) -> str:
    """The unit of a metric; empty if it has none.

    >>> [get_metric_unit(metric) for metric in ("lidar", "rotation_accuracy", "clid", "w_clid")]
    ['dimensions', '%', '', '%']
    """
    known = LABEL_FREE_METRICS.get(metric)
    if known is None:
        return "%" if metric == W_CLID else ""  # W-CLID is a prediction of the accuracy
    return {"dimensionless": "", "percent": "%"}.get(known.unit, known.unit)


def load_published_population(table: StudyTable) -> MetricPopulation:
    """The encoders of the study table with statistics of their features on ImageNet-1K, and errors by labels."""
    frame = table.frame
    values = pd.DataFrame({name: frame[column] for name, column in STATISTIC_COLUMNS.items()}, index=frame.index)
    values["contrast"] = values["alignment"] + values["uniformity"]
    accuracies = pd.DataFrame({_setting(one.label): 100 - frame[one.column] for one in ERRORS}, index=frame.index)
    return _population_of(PUBLISHED, "imagenet-1k", values, accuracies, table)


def select_resnet50s(population: MetricPopulation) -> MetricPopulation:
    """The ResNet-50s, of which architecture and dimensions are the same."""
    frame = population.facts.frame
    resnets = frame.index[frame["architecture_exact"] == "resnet50"]
    return population.only(resnets, name=RESNETS, because="not a ResNet-50")


def build_population(
    name: str, dataset: str, values: pd.DataFrame, accuracies: pd.DataFrame, facts: StudyTable
) -> MetricPopulation:
    """A population of given values; encoders without the first accuracy, the oracle, or any metric are left out."""
    return _population_of(name, dataset, values, accuracies, facts)


def find_hyperparameter_groups(population: MetricPopulation, treatments: Sequence[str]) -> dict[str, pd.Series[str]]:
    """By choice, the groups of encoders that differ in that choice alone: by encoder, the id of the group's first one.

    Columns that have to change with a choice may. Choices that vary in no group are left out.
    """
    from zoo.analysis.controlled import VARIED_TOGETHER, find_controlled_groups

    by_choice = {}
    for treatment in treatments:
        together = VARIED_TOGETHER.get(treatment, (treatment,))
        facts = population.facts
        known = facts.frame.index[facts.why_missing[treatment] != "not published"]
        among = [encoder for encoder in population.values.index if encoder in known]
        groups = find_controlled_groups(facts, together, among=among)
        levels = facts.frame[treatment].astype(object).fillna("not applicable")[groups.index]
        varying = levels.astype(str).groupby(groups["group"]).transform("nunique") > 1
        if varying.any():
            by_choice[treatment] = groups["group"][varying].astype(str)
    return by_choice


def _population_of(
    name: str, dataset: str, values: pd.DataFrame, accuracies: pd.DataFrame, facts: StudyTable
) -> MetricPopulation:
    has_oracle, has_metric = accuracies.iloc[:, 0].notna(), values.notna().any(axis=1)
    why = {
        f"{accuracies.columns[0]} accuracy not measured": int((~has_oracle).sum()),
        "no label-free metric measured": int((has_oracle & ~has_metric).sum()),
    }
    complete = values.index[has_oracle & has_metric]
    return MetricPopulation(
        name=name,
        dataset=dataset,
        values=values.loc[complete].astype(np.float64),
        accuracies=accuracies.loc[complete],
        facts=facts.only(complete, because="metric or accuracy missing"),
        left_out={reason: n for reason, n in why.items() if n},
    )


def _setting(label: str) -> str:
    return label.removesuffix(" error").replace("Full", "full")


ORACLES = {  # name -> metric and split of an error in percent
    FULL_SHOT: ("linear_probe_error", "train -> val"),
    "nearest neighbours": ("knn_error", "train -> val"),
    "3-shot": ("linear_probe_error", "train 3-shot -> val"),
}
_NOT_SELF_SUPERVISED = ("supervised", "initialized", Missing.NOT_PUBLISHED)  # modes of objectives
_SPLITS_OF_VIEWS = ("train pretraining-augmented", "train augmented", "val pretraining-augmented", "val augmented")
_SPLITS_OF_IMAGES = ("train", "val")
_METRICS_ON_ANY_SPLIT = frozenset(
    name for name, one in LABEL_FREE_METRICS.items() if one.needs not in ("features", "views")
)
_SETTING = re.compile(r"\b(n_clusters|k)=\[?(\d+)")  # of a protocol with changed options

Values = Mapping[str, float]  # by encoder
_Kind = tuple[str, str]  # split, protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPopulations:
    """What ``results/`` has of label-free metrics along with accuracies."""

    populations: tuple[MetricPopulation, ...]  # one a data set
    grids: Mapping[str, Mapping[tuple[int, int], pd.Series[float]]]  # data set -> clusters, neighbours -> learnability
    refused: Mapping[str, str]  # data set -> why it has no population


def build_measured_populations(rows: Iterable[Row], *, fewest: int = FEWEST) -> MeasuredPopulations:
    """One population for every data set on which at least ``fewest`` self-supervised encoders have both.

    Full-shot accuracies on the other data sets, and CLID and W-CLID where they can be computed, are added.
    """
    cards = load_catalogue()
    by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        if cards[row.encoder].objective.mode not in _NOT_SELF_SUPERVISED:
            by_dataset.setdefault(row.dataset, []).append(row)
    populations, grids, refused = [], {}, {}
    elsewhere = {_on(dataset): _errors(dataset_rows, FULL_SHOT) for dataset, dataset_rows in sorted(by_dataset.items())}
    for dataset, dataset_rows in sorted(by_dataset.items()):
        errors = {name: _errors(dataset_rows, name) for name in ORACLES}
        errors |= {name: values for name, values in elsewhere.items() if name != _on(dataset)}
        accuracies = {
            name: {encoder: 100 - error for encoder, error in values.items()} for name, values in errors.items()
        }
        metrics = {
            name: _values_of(dataset_rows, name, _SPLITS_OF_VIEWS if one.needs == "views" else _SPLITS_OF_IMAGES)
            for name, one in LABEL_FREE_METRICS.items()
        }
        metrics = {name: values for name, values in metrics.items() if values}
        oracle = accuracies[FULL_SHOT]
        both = [encoder for encoder in oracle if any(encoder in values for values in metrics.values())]
        if len(both) < fewest:
            refused[dataset] = (
                f"{len(both)} of the {len(oracle)} self-supervised encoders with a full-shot accuracy on {dataset!r} "
                f"have a label-free metric in results/, expected at least {fewest}; measure and record some."
            )
            continue
        populations.append(_population(dataset, metrics, accuracies))
        grids[dataset] = _grid(dataset_rows)
    return MeasuredPopulations(populations=tuple(populations), grids=grids, refused=refused)


def add_clid(values: pd.DataFrame, oracle: pd.Series[float]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The same metrics with CLID and leave-one-out W-CLID where possible; and why not, if not."""
    if gone := [name for name in (LEARNABILITY, DIMENSION) if name not in values]:
        return values, (f"CLID needs {' and '.join(gone)}, which were not measured here.",)
    pair = values[[LEARNABILITY, DIMENSION]].assign(oracle=oracle).dropna()
    extended, refused = values.copy(), []
    learnability, dimension, accuracy = (pair[name].tolist() for name in pair)
    makers: dict[str, Callable[[], Sequence[float]]] = {
        CLID: lambda: clid(learnability, dimension).tolist(),
        W_CLID: lambda: w_clid(learnability, dimension, accuracy, leave_one_out=True).values,
    }
    for name, make in makers.items():
        try:
            extended[name] = pd.Series(make(), index=pair.index)
        except QueryError as error:
            refused.append(str(error))
    return extended, tuple(refused)


def compute_clid(dimension: pd.Series[float], learnability: pd.Series[float]) -> pd.Series[float]:
    """CLID of the encoders that have both, of which there must be two."""
    pair = pd.DataFrame({"learnability": learnability, "dimension": dimension}).dropna()
    return pd.Series(clid(pair["learnability"].tolist(), pair["dimension"].tolist()), index=pair.index)


def _population(dataset: str, metrics: Mapping[str, Values], accuracies: Mapping[str, Values]) -> MetricPopulation:
    cards = load_catalogue()
    encoders = [encoder for encoder in cards if encoder in accuracies[FULL_SHOT]]
    encoders += [encoder for encoder in accuracies[FULL_SHOT] if encoder not in encoders]  # with other features
    index = pd.Index(encoders, name="enc", dtype="object")
    values = pd.DataFrame(
        {name: pd.Series(by_encoder, dtype="float64").reindex(index) for name, by_encoder in metrics.items()}
    )
    known = {
        name: pd.Series(by_encoder, dtype="float64").reindex(index)
        for name, by_encoder in accuracies.items()
        if by_encoder
    }
    facts = {
        encoder: {name: fact for name, fact in list_study_facts(cards[encoder], False).items() if name in STUDY_COLUMNS}
        for encoder in encoders
    }
    complete, refused = add_clid(values, known[FULL_SHOT])
    return replace(
        build_population(f"encoders measured on {dataset}", dataset, complete, pd.DataFrame(known), build_table(facts)),
        unanswered=refused,
    )


def _errors(rows: Iterable[Row], oracle: str) -> dict[str, float]:
    metric, split = ORACLES[oracle]
    return _values_of(rows, metric, [split])


def _on(dataset: str) -> str:
    return f"{FULL_SHOT} on {dataset}"


def _values_of(rows: Iterable[Row], metric: str, splits: Sequence[str]) -> dict[str, float]:
    """A metric by encoder, on the split and by the protocol that most encoders have; the earlier split if even."""
    by_kind: dict[_Kind, dict[str, list[Row]]] = {}
    for row in rows:
        if row.metric == metric and (row.split in splits or metric in _METRICS_ON_ANY_SPLIT):
            by_kind.setdefault((row.split, row.protocol), {}).setdefault(row.encoder, []).append(row)
    if not by_kind:
        return {}

    def preference(kind: _Kind) -> tuple[int, bool, int, str]:
        split, protocol = kind
        place = splits.index(split) if split in splits else len(splits)
        return -len(by_kind[kind]), "(" in protocol, place, protocol  # changed options come last

    return {encoder: _newest(measured) for encoder, measured in by_kind[min(by_kind, key=preference)].items()}


def _newest(rows: Iterable[Row]) -> float:
    """Mean over the seeds of the newest campaign."""
    campaigns: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        campaigns.setdefault((row.date, row.source), []).append(float(row.value))
    return fmean(campaigns[max(campaigns)])


def _grid(rows: Iterable[Row]) -> dict[tuple[int, int], pd.Series[float]]:
    """Learnability by setting, of protocols that name their number of clusters and of neighbours."""
    by_setting: dict[tuple[int, int], dict[str, list[Row]]] = {}
    for row in rows:
        if row.metric != LEARNABILITY or row.split != "train":
            continue
        changed = row.protocol.partition(" (")[2].removesuffix(")")
        setting = {"k": "1"} | dict(_SETTING.findall(changed))  # 1 is what goes without saying
        if "n_clusters" in setting and not _SETTING.sub("", changed).strip(", "):
            place = int(setting["n_clusters"]), int(setting["k"])
            by_setting.setdefault(place, {}).setdefault(row.encoder, []).append(row)
    return {
        place: pd.Series({encoder: _newest(measured) for encoder, measured in encoders.items()}, dtype="float64")
        for place, encoders in sorted(by_setting.items())
        if len(encoders) >= FEWEST
    }
