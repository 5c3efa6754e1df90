"""Numbers printed in the papers of RankMe, LiDAR and CLID on how well label-free metrics predict and select encoders.

The rows are in ``results/published/label_free.tsv``, every digit as it is printed, faults included: a contradiction
is noted in the column ``note`` and the number beside it is untouched. ``results/README.md`` says what the columns mean.
They are not measurements of encoders, so that they have another file format, which readers of measurements ignore.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ..errors import ResultsError, UnknownName, nearest_names
from ..files import content_folder

PAPERS = {"RankMe": "arXiv:2210.02885", "LiDAR": "arXiv:2312.04000", "CLID": "arXiv:2206.01251"}
"""Title of each paper, and the identifier that the rows have."""
POPULATIONS = (
    "VICReg ResNet-50, 100 epochs",
    "SimCLR ResNet-50, 100 epochs",
    "DINO ResNet-50, 100 epochs",
    "I-JEPA ViT-B, 600 epochs",
    "I-JEPA ViT-B, 600 epochs, grid search",
    "I-JEPA ViT-B, 600 epochs, random search",
    "data2vec ViT-B, 800 epochs, grid search",
    "DINO ViT-S/16, 300 epochs",
    *(f"VICReg ResNet-50, {epochs} epochs, grid search" for epochs in (20, 40, 60, 80, 100)),
    "SimCLR ResNet-50, 100 epochs, grid search",
    "SimCLR ResNet-50, 100 epochs, random search",
    "SimCLR ResNet-50, stronger augmentations, random search",
    "28 checkpoints",
)
METRICS = (
    "oracle", "rankme", "rankme_augmented", "lidar", "alpha_req", "alignment", "uniformity", "contrast", "coding_rate",
    "coding_rate_of_clusters", "coding_rate_reduction", "mutual_information", "rotation_accuracy",
    "cluster_learnability", "intrinsic_dimension", "clid", "w_clid", "source_label_entropy", "target_label_entropy",
    "one_shot_accuracy",
)  # fmt: skip
"""Named as in ``zoo.results.vocabulary.LABEL_FREE_METRICS``, where it has them; ``oracle`` is ImageNet accuracy."""
STATISTICS = {
    "pearson": "dimensionless",
    "spearman": "dimensionless",
    "kendall": "dimensionless",
    "kendall_of_joint_rank": "dimensionless",
    "recovered_accuracy": "percent",
    "seconds": "seconds",
    "seconds_deviation": "seconds",
    "feature_seconds": "seconds",
}
"""What a number is, and its unit."""
TARGETS = (
    "imagenet-1k", "ood-average", "cifar10", "cifar100", "eurosat", "food101", "sun397",
    "foods", "flowers", "pets", "caltech101", "stl10", "aircraft", "cars",
)  # fmt: skip
HYPERPARAMETERS = (
    "overall", "learning_rate", "weight_decay", "temperature", "teacher_temperature", "student_temperature",
    "covariance_weight", "invariance_weight", "target_mask_scale", "context_mask_scale", "mask_ratio",
)  # fmt: skip
_FILES = ("label_free.tsv", "label_free_checkpoints.tsv")
_NUMBER = re.compile(r"-?\d+\.(\d+)", re.ASCII)
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_TABLE = re.compile(r"(?:Table|Figure) [1-9]\d?[a-z]?", re.ASCII)
_Refuse = Callable[[str, str, str], NoReturn]  # column, found, expected


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedNumber:
    """A cell of a table of a paper."""

    paper: str  # one of the values of PAPERS
    table: str  # "Table 7b", "Figure 1"
    page: int | None  # None where the text of the paper that was read has no page numbers
    population: str  # whose checkpoints, one of POPULATIONS
    n: int | None  # checkpoints that the number is about; None where the paper does not state it
    metric: str  # one of METRICS
    variant: str  # branch, samples or views it was computed from; "" where there is one only
    negated: bool  # the printed metric is minus ours, so that more is better
    statistic: str  # one of STATISTICS
    target: str  # data set whose accuracy is predicted or recovered, one of TARGETS
    hyperparameter: str  # that varies, one of HYPERPARAMETERS; "" where nothing does
    value: float  # in `unit`
    decimals: int  # digits printed behind the point: the value is right to half a unit of the last
    unit: str
    note: str  # what contradicts it, or how to read it; "" if there is nothing to say

    @property
    def key(self) -> tuple[str, ...]:
        """What no two cells have in common."""
        return (
            self.paper,
            self.table,
            self.population,
            self.metric,
            self.variant,
            self.statistic,
            self.target,
            self.hyperparameter,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedCheckpoint:
    """A line of Table 4 of the CLID paper, the 28 checkpoints behind its correlations."""

    name: str
    method: str
    architecture: str
    encoder: str  # id of a card of the same weights; "" where there is none, or the paper leaves open which
    note: str


def published_label_free(
    *,
    paper: str | None = None,
    table: str | None = None,
    metric: str | None = None,
    statistic: str | None = None,
    target: str | None = None,
    hyperparameter: str | None = None,
) -> tuple[PrintedNumber, ...]:
    """Printed numbers, in the order of the papers and their tables, that match every given word.

    ``paper`` is its title (a key of :data:`PAPERS`) or its identifier, ``table`` as it is printed ("Table 7b"), the
    others words of :data:`METRICS`, :data:`STATISTICS`, :data:`TARGETS` and :data:`HYPERPARAMETERS`. A word that no row
    has is refused with the nearest ones.

    >>> (row,) = published_label_free(paper="CLID", table="Table 1", metric="clid", statistic="kendall")
    >>> row.value, row.n
    (0.75, 28)
    """
    rows = tuple(_numbers())
    asked = {
        "paper": None if paper is None else PAPERS.get(paper, paper),
        "table": table,
        "metric": metric,
        "statistic": statistic,
        "target": target,
        "hyperparameter": hyperparameter,
    }
    for column, word in asked.items():
        if word is not None:
            known = {getattr(row, column) for row in rows} | (set(PAPERS) if column == "paper" else set())
            if word not in known:
                raise UnknownName(f"{column} among the printed numbers", word, sorted(known))
    return tuple(
        row for row in rows if all(word is None or getattr(row, column) == word for column, word in asked.items())
    )


def clid_checkpoints() -> tuple[PrintedCheckpoint, ...]:
    """The 28 checkpoints of the CLID paper, with the id of the card that has the same weights.

    >>> len(clid_checkpoints()), clid_checkpoints()[-1].encoder
    (28, 'swav_rn50')
    """
    rows: dict[str, PrintedCheckpoint] = {}
    for fields, refuse in _lines(_FILES[1], tuple(PrintedCheckpoint.__dataclass_fields__)):
        row = PrintedCheckpoint(**fields)
        for column in ("name", "method", "architecture"):
            if not fields[column].strip():
                refuse(column, "nothing", "a text")
        if row.name in rows:
            refuse("name", f"{row.name!r} again", "one row a checkpoint; delete one of them")
        rows[row.name] = row
    return tuple(rows.values())


_HEADER = (
    "paper", "table", "page", "population", "n", "metric", "variant", "sign", "statistic", "target", "hyperparameter",
    "value", "unit", "note",
)  # fmt: skip


def _numbers() -> Iterator[PrintedNumber]:
    seen: set[tuple[str, ...]] = set()
    for fields, refuse in _lines(_FILES[0], _HEADER):
        row = _number(fields, refuse)
        if row.key in seen:
            refuse("table", f"{row.table}, {row.metric}, {row.target}, {row.hyperparameter} again", "one row a cell")
        seen.add(row.key)
        yield row


def _number(fields: Mapping[str, str], refuse: _Refuse) -> PrintedNumber:
    known: dict[str, Collection[str]] = {
        "paper": PAPERS.values(),
        "population": POPULATIONS,
        "metric": METRICS,
        "sign": ("", "negated"),
        "statistic": STATISTICS,
        "target": TARGETS,
        "hyperparameter": ("", *HYPERPARAMETERS),
    }
    for column, words in known.items():
        if fields[column] not in words:
            near = ", ".join(map(repr, nearest_names(fields[column], words))) or ", ".join(map(repr, words))
            refuse(column, repr(fields[column]), f"a known word, such as {near}")
    if not _TABLE.fullmatch(fields["table"]):
        refuse("table", repr(fields["table"]), "the name of a table, such as 'Table 7b'")
    for column in ("page", "n"):
        if fields[column] and not _COUNT.fullmatch(fields[column]):
            refuse(column, repr(fields[column]), "a whole number above 0, or nothing where the paper states none")
    if fields["unit"] != STATISTICS[fields["statistic"]]:
        refuse("unit", repr(fields["unit"]), f"{STATISTICS[fields['statistic']]!r} for {fields['statistic']!r}")
    number = _NUMBER.fullmatch(fields["value"])
    low, high = {"dimensionless": (-1.0, 1.0), "percent": (0.0, 100.0), "seconds": (0.0, math.inf)}[fields["unit"]]
    if number is None or not low <= float(fields["value"]) <= high:
        refuse("value", repr(fields["value"]), f"a number with its printed decimals, from {low:g} to {high:g}")
    values: dict[str, Any] = {column: text for column, text in fields.items() if column != "sign"}
    values |= {column: int(fields[column]) if fields[column] else None for column in ("page", "n")}
    return PrintedNumber(
        **values | {"value": float(fields["value"])}, negated=fields["sign"] == "negated", decimals=len(number[1])
    )


def _lines(name: str, header: tuple[str, ...]) -> Iterator[tuple[dict[str, str], _Refuse]]:
    """The fields of every line below the header, and the function that refuses one of them."""
    path = content_folder("results") / "published" / name
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path} cannot be read ({error}); restore it or install ssl-zoo again.") from error
    if tuple(lines[0].split("\t")) != header:
        columns = lines[0].split()
        raise ResultsError(f"{path}, line 1: found the columns {columns}, expected exactly {' '.join(header)}.")
    if lines[-1]:
        raise ResultsError(f"{path}, line {len(lines)}: the file breaks off, expected a line end; restore it.")
    for number, line in enumerate(lines[1:-1], start=2):
        fields = line.split("\t")
        if len(fields) != len(header):
            n_fields = f"found {len(fields)} fields, expected {len(header)} between tabs"
            raise ResultsError(f"{path}, line {number}: {n_fields}; restore it.")

        def refuse(column: str, found: str, expected: str, number: int = number) -> NoReturn:
            raise ResultsError(f"{path}, line {number}, column {column!r}: found {found}, expected {expected}.")

        yield dict(zip(header, fields, strict=True)), refuse
