"""Numbers printed in the papers of RankMe, LiDAR and CLID on how well label-free metrics predict and select encoders.

The rows are in ``results/published/label_free.tsv``, every digit as it is printed, faults included: a contradiction
is noted in the column ``note`` and the number next to it is untouched. ``results/README.md`` says what the columns
mean. They are not measurements of encoders, so that they have another file format, which readers of measurements
ignore.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ResultsError, UnknownName
from ..files import get_content_folder
from .reading import iterate_tab_separated, raise_error

PAPERS = {"RankMe": "arXiv:2210.02885", "LiDAR": "arXiv:2312.04000", "CLID": "arXiv:2206.01251"}
"""Title of each paper, and the identifier that the rows have."""
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
_FILES = ("label_free.tsv", "label_free_checkpoints.tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedNumber:
    """A cell of a table of a paper."""

    paper: str  # one of the values of PAPERS
    table: str  # "Table 7b", "Figure 1"
    page: int | None  # None where the text of the paper that was read has no page numbers
    population: str  # whose checkpoints
    n: int | None  # checkpoints that the number is about; None where the paper does not state it
    metric: str  # one of METRICS
    variant: str  # branch, samples or views it was computed from; "" where there is one only
    negated: bool  # the printed metric is minus ours, so that more is better
    statistic: str  # one of STATISTICS
    target: str  # data set whose accuracy is predicted or recovered
    hyperparameter: str  # that varies; "" where nothing does
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


def read_printed_label_free(
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
    others as the rows have them. A word that no row has is refused with the nearest ones.

    >>> (row,) = read_printed_label_free(paper="CLID", table="Table 1", metric="clid", statistic="kendall")
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


def read_clid_checkpoints() -> tuple[PrintedCheckpoint, ...]:
    """The 28 checkpoints of the CLID paper, with the id of the card that has the same weights.

    >>> len(read_clid_checkpoints()), read_clid_checkpoints()[-1].encoder
    (28, 'swav_rn50')
    """
    return tuple(PrintedCheckpoint(**fields) for fields in _lines(_FILES[1], tuple(PrintedCheckpoint.__slots__)))


_HEADER = (
    "paper", "table", "page", "population", "n", "metric", "variant", "sign", "statistic", "target", "hyperparameter",
    "value", "unit", "note",
)  # fmt: skip


def _numbers() -> Iterator[PrintedNumber]:
    for fields in _lines(_FILES[0], _HEADER):
        values: dict[str, Any] = {**fields}
        values |= {column: int(fields[column]) if fields[column] else None for column in ("page", "n")}
        values |= {"value": float(fields["value"]), "decimals": len(fields["value"].partition(".")[2])}
        yield PrintedNumber(negated=values.pop("sign") == "negated", **values)


def _lines(name: str, header: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The fields of every line below the header."""
    path = get_content_folder("results") / "published" / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"{path} cannot be read ({error}); restore it or install ssl-zoo again.") from error
    for _, fields in iterate_tab_separated(path, content, header, raise_error):
        yield fields
