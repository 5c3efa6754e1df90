"""Populations of the rows of ``results/``: each data set on which encoders have label-free metrics and accuracies.

Numbers of two protocols, or of two kinds of image, are not compared with each other: of each metric those count that
most encoders have. Rows of one encoder that differ in their seed are averaged, over the newest of its campaigns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ..cards import catalogue
from ..content import content_folder
from ..errors import QueryError, warn
from ..evaluation.label_free.population import clid, w_clid
from ..labelfree import LABEL_FREE_METRICS
from ..metadata import Missing
from ..optional import requires_extra
from ..publishedlayout import study_facts
from ..resultchecks import Key, Row
from ..resultfiles import believable_rows_of, errata, without_wrong
from ..results import PUBLISHED_SOURCE, read_files
from ..vocabulary import DATASET, DATE, ENCODER, METRIC, PROTOCOL, SOURCE, SPLIT, VALUE
from .label_free_populations import CLID, DIMENSION, FULL_SHOT, LEARNABILITY, W_CLID, Population, population_of
from .populations import FEWEST
from .studycolumns import STUDY_COLUMNS
from .table import table_of

with requires_extra("study", needed_for="A study of metrics"):
    import pandas as pd

ORACLES = {  # name -> metric and split of an error in percent
    FULL_SHOT: ("linear_probe_error", "train -> val"), "nearest neighbours": ("knn_error", "train -> val"),
    "3-shot": ("linear_probe_error", "train 3-shot -> val"),
}  # fmt: skip
_OTHERS = ("supervised", "initialized", Missing.NOT_PUBLISHED)  # modes of what is not known to be self-supervised
_VIEWS = ("train pretraining-augmented", "train augmented", "val pretraining-augmented", "val augmented")
_IMAGES = ("train", "val")
_SETTING = re.compile(r"\b(n_clusters|k)=\[?(\d+)")  # of a protocol with options of one's own

Values = Mapping[str, float]  # by encoder
_Kind = tuple[str, str]  # split, protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What ``results/`` has of label-free metrics beside accuracies."""

    populations: tuple[Population, ...]  # one a data set
    grids: Mapping[str, Mapping[tuple[int, int], pd.Series[float]]]  # data set -> clusters, neighbours -> learnability
    refused: Mapping[str, str]  # data set -> why it has no population


def measured_rows(*, with_mine: bool = False, exclude_wrong: bool = False) -> list[Row]:
    """Checked rows of results that were measured here, the shipped ones, and with ``with_mine`` those of the user.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    """
    cards, shipped = catalogue(), content_folder("results")
    seen: dict[Key, str] = {}
    found: list[Row] = []
    left_out: list[str] = []
    for path, content in read_files(".csv").items():
        if path.is_relative_to(shipped) and not path.is_relative_to(shipped / "measured"):
            continue
        rows = believable_rows_of(path, content, cards, seen, left_out)
        if with_mine or path.is_relative_to(shipped):
            found += [row for row in rows if row[SOURCE] != PUBLISHED_SOURCE]
    warn(left_out)
    return without_wrong(found, errata()) if exclude_wrong else found


def measured_populations(rows: Iterable[Row], *, fewest: int = FEWEST) -> Measured:
    """One population for every data set on which at least ``fewest`` self-supervised encoders have both.

    Accuracies of the same encoders on the other data sets stand beside the own ones, as ``full-shot on NAME``.

    CLID and W-CLID are added where learnability and dimension are known; W-CLID by weights that were learnt without
    the encoder that they are applied to.

    Parameters
    ----------
    rows : iterable of rows
        As of :func:`measured_rows`.
    """
    cards = catalogue()
    by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        if cards[row[ENCODER]].objective.mode not in _OTHERS:
            by_dataset.setdefault(row[DATASET], []).append(row)
    populations, grids, refused = [], {}, {}
    elsewhere = {_on(dataset): _errors(own, FULL_SHOT) for dataset, own in sorted(by_dataset.items())}
    for dataset, own in sorted(by_dataset.items()):
        errors = {name: _errors(own, name) for name in ORACLES}
        errors |= {name: values for name, values in elsewhere.items() if name != _on(dataset)}
        accuracies = {name: {encoder: 100 - error for encoder, error in values.items()}
                      for name, values in errors.items()}  # fmt: skip
        metrics = {name: _of(own, name, _VIEWS if one.needs == "views" else _IMAGES)
                   for name, one in LABEL_FREE_METRICS.items()}  # fmt: skip
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
        grids[dataset] = _grid(own)
    return Measured(populations=tuple(populations), grids=grids, refused=refused)


def with_clid(values: pd.DataFrame, oracle: pd.Series[float]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The same metrics with CLID and W-CLID of the encoders that have learnability and dimension.

    Parameters
    ----------
    values : DataFrame, index: encoders
        Metrics as measured.
    oracle : Series of float
        Accuracies that the weights of W-CLID are learnt from, one encoder always left out.

    Returns
    -------
    DataFrame, tuple of str
        The metrics, and a sentence for what cannot be had.
    """
    if gone := [name for name in (LEARNABILITY, DIMENSION) if name not in values]:
        return values, (f"CLID needs {' and '.join(gone)}, which nobody has measured here.",)
    pair = values[[LEARNABILITY, DIMENSION]].assign(oracle=oracle).dropna()
    found, refused = values.copy(), []
    learnability, dimension, accuracy = (pair[name].tolist() for name in pair)
    makers: dict[str, Callable[[], Sequence[float]]] = {
        CLID: lambda: clid(learnability, dimension).tolist(),
        W_CLID: lambda: w_clid(learnability, dimension, accuracy, leave_one_out=True).values,
    }
    for name, make in makers.items():
        try:
            found[name] = pd.Series(make(), index=pair.index)
        except QueryError as error:
            refused.append(str(error))
    return found, tuple(refused)


def clid_of(dimension: pd.Series[float], learnability: pd.Series[float]) -> pd.Series[float]:
    """CLID of the encoders that have both.

    Raises
    ------
    QueryError
        If there are fewer than two, or one never varies.
    """
    pair = pd.DataFrame({"learnability": learnability, "dimension": dimension}).dropna()
    return pd.Series(clid(pair["learnability"].tolist(), pair["dimension"].tolist()), index=pair.index)


def _population(dataset: str, metrics: Mapping[str, Values], accuracies: Mapping[str, Values]) -> Population:
    cards = catalogue()
    encoders = [encoder for encoder in cards if encoder in accuracies[FULL_SHOT]]
    encoders += [encoder for encoder in accuracies[FULL_SHOT] if encoder not in encoders]  # with other features
    index = pd.Index(encoders, name="enc", dtype="object")
    values = pd.DataFrame({name: pd.Series(own, dtype="float64").reindex(index) for name, own in metrics.items()})
    known = {name: pd.Series(own, dtype="float64").reindex(index) for name, own in accuracies.items() if own}
    facts = {encoder: {name: fact for name, fact in study_facts(cards[encoder], False).items() if name in STUDY_COLUMNS}
             for encoder in encoders}  # fmt: skip
    complete, refused = with_clid(values, known[FULL_SHOT])
    return replace(
        population_of(f"encoders measured on {dataset}", dataset, complete, pd.DataFrame(known), table_of(facts)),
        unanswered=refused,
    )


def _errors(rows: Iterable[Row], oracle: str) -> dict[str, float]:
    metric, split = ORACLES[oracle]
    return _of(rows, metric, [split])


def _on(dataset: str) -> str:
    return f"{FULL_SHOT} on {dataset}"


def _of(rows: Iterable[Row], metric: str, splits: Sequence[str]) -> dict[str, float]:
    """A metric by encoder, on the split and by the protocol that most encoders have; the earlier split if even."""
    by_kind: dict[_Kind, dict[str, list[Row]]] = {}
    for row in rows:
        if row[METRIC] == metric and (row[SPLIT] in splits or metric in _ELSEWHERE):
            by_kind.setdefault((row[SPLIT], row[PROTOCOL]), {}).setdefault(row[ENCODER], []).append(row)
    if not by_kind:
        return {}

    def preference(kind: _Kind) -> tuple[int, bool, int, str]:
        split, protocol = kind
        place = splits.index(split) if split in splits else len(splits)
        return -len(by_kind[kind]), "(" in protocol, place, protocol  # options of one's own come last

    return {encoder: _newest(own) for encoder, own in by_kind[min(by_kind, key=preference)].items()}


_ELSEWHERE = frozenset(name for name, one in LABEL_FREE_METRICS.items() if one.needs not in ("features", "views"))


def _newest(rows: Iterable[Row]) -> float:
    """Mean over the seeds of the newest campaign."""
    campaigns: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        campaigns.setdefault((row[DATE], row[SOURCE]), []).append(float(row[VALUE]))
    return fmean(campaigns[max(campaigns)])


def _grid(rows: Iterable[Row]) -> dict[tuple[int, int], pd.Series[float]]:
    """Learnability by setting, of protocols that name their number of clusters and of neighbours."""
    found: dict[tuple[int, int], dict[str, list[Row]]] = {}
    for row in rows:
        if row[METRIC] != LEARNABILITY or row[SPLIT] != "train":
            continue
        changed = row[PROTOCOL].partition(" (")[2].removesuffix(")")
        setting = {"k": "1"} | dict(_SETTING.findall(changed))  # 1 is what goes without saying
        if "n_clusters" in setting and not _SETTING.sub("", changed).strip(", "):
            place = int(setting["n_clusters"]), int(setting["k"])
            found.setdefault(place, {}).setdefault(row[ENCODER], []).append(row)
    return {place: pd.Series({encoder: _newest(own) for encoder, own in encoders.items()}, dtype="float64")
            for place, encoders in sorted(found.items()) if len(encoders) >= FEWEST}  # fmt: skip
