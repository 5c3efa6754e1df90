"""Numbers that the papers of RankMe, LiDAR and CLID print: complete, and where they contradict each other.

Tables that repeat each other and averages that are printed next to what they average check cells that were read apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

import pytest

from tests.conftest import REPOSITORY
from tests.each import for_each
from zoo.errors import UnknownName
from zoo.results.paper_tables import METRICS, PAPERS, STATISTICS, read_printed_label_free
from zoo.results.reading import read_files

RANKME, LIDAR, CLID = PAPERS
COUNTS = {
    RANKME: {"Figure 1": 54},
    LIDAR: {
        "Table 1": 25, "Table 2": 5, "Table 3": 30, "Table 4": 6, "Table 5": 15, "Table 6": 18, "Table 7a": 15,
        "Table 7b": 15, "Table 8a": 16, "Table 8b": 3, "Table 9": 6, "Table 10": 16, "Table 11a": 15, "Table 11b": 16,
        "Table 12": 25, "Table 13": 5, "Table 14": 15, "Table 15": 18, "Table 16": 6, "Table 17": 12, "Table 18a": 12,
        "Table 18b": 12, "Table 19": 6, "Table 20": 6, "Table 21": 16, "Table 22": 30, "Table 23": 150, "Table 24": 6,
        "Table 25": 30, "Table 26": 18, "Table 27": 90, "Table 28": 12, "Table 29": 60, "Table 30": 12, "Table 31": 60,
        "Table 32": 9, "Table 33": 45, "Table 34": 9, "Table 35": 10, "Table 36": 2, "Table 37": 6,
    },
    CLID: {"Table 1": 18, "Table 2": 40, "Table 3": 56, "Table 5": 102, "Table 6": 126},
}  # fmt: skip
Cell = tuple[str, ...]


def cells(paper: str, *tables: str, columns: Iterable[str], **equal: object) -> dict[Cell, float]:
    """Values of some rows of a table by these columns, which tell them apart."""
    rows = [row for table in tables for row in read_printed_label_free(paper=paper, table=table)]
    kept = [row for row in rows if all(getattr(row, column) == value for column, value in equal.items())]
    found = {tuple(str(getattr(row, column)) for column in columns): row.value for row in kept}
    assert len(found) == len(kept) > 0
    return found


def test_every_cell_of_every_table_is_a_row_once_in_known_words() -> None:
    rows = read_printed_label_free()
    for paper in PAPERS:
        assert Counter(row.table for row in read_printed_label_free(paper=paper)) == COUNTS[paper]
    assert len({row.key for row in rows}) == len(rows)
    assert {row.metric for row in rows} == set(METRICS)
    assert {(row.statistic, row.unit) for row in rows} == set(STATISTICS.items())
    assert [row.value for row in read_printed_label_free(paper=CLID, table="Table 1", statistic="pearson")] == [
        0.42, -0.05, 0.37, -0.62, 0.13, 0.61, 0.74, 0.12, 0.92,
    ]  # fmt: skip
    with pytest.raises(UnknownName, match=r"no metric .* 'rank_me'; did you mean rankme"):
        read_printed_label_free(metric="rank_me")


MEASURED = ("metric", "variant", "statistic", "hyperparameter")
VICREG = "VICReg ResNet-50, 100 epochs, grid search"
REPEATED = [
    (LIDAR, "Table 6", "Table 15", MEASURED, {}, {}),
    (LIDAR, "Table 7b", "Table 11a", ("population", "metric"), {}, {}),
    (LIDAR, "Table 8a", "Table 21", MEASURED, {}, {}),
    (LIDAR, "Table 8b", "Table 20", MEASURED, {}, {"statistic": "kendall"}),
    (LIDAR, "Table 10", "Table 11b", MEASURED, {}, {}),
    (LIDAR, "Table 18a", "Table 19", MEASURED, {"hyperparameter": "overall"}, {"statistic": "spearman"}),
    (LIDAR, "Table 18b", "Table 19", MEASURED, {"hyperparameter": "overall"}, {"statistic": "kendall"}),
    (LIDAR, "Table 7a", "Table 9", ("metric", "population"), {"population": VICREG}, {"statistic": "spearman"}),
    (LIDAR, "Table 7b", "Table 9", ("metric", "population"), {"population": VICREG}, {"statistic": "kendall"}),
    (LIDAR, "Table 1", "Table 35", ("metric", "hyperparameter"), {"metric": "rankme"}, {"variant": "10000 samples"}),
    (LIDAR, "Table 2", "Table 36", ("metric", "hyperparameter"), {"metric": "rankme"}, {"variant": "10000 samples"}),
    (LIDAR, "Table 5", "Table 37", ("metric", "hyperparameter"), {"metric": "rankme"}, {"variant": "10000 samples"}),
]


@for_each(REPEATED, arguments=6)
def test_tables_that_repeat_each_other_agree(
    paper: str, one: str, other: str, columns: tuple[str, ...], of_one: dict[str, str], of_other: dict[str, str]
) -> None:
    assert cells(paper, one, columns=columns, **of_one) == cells(paper, other, columns=columns, **of_other)


def test_the_short_tables_of_the_clid_paper_are_part_of_the_full_ones() -> None:
    columns = ("metric", "negated", "statistic", "target")
    for short, full in (("Table 2", "Table 5"), ("Table 3", "Table 6")):
        assert cells(CLID, short, columns=columns).items() <= cells(CLID, full, columns=columns).items()


def gaps(paper: str, averages: str, parts: str) -> dict[Cell, float]:
    """How far each printed average is from the mean of the data sets, where all of them can be read."""
    columns = ("metric", "variant", "hyperparameter", "statistic")
    found: dict[Cell, list[float]] = {}
    for row in read_printed_label_free(paper=paper, table=parts):
        if row.target != "ood-average":
            found.setdefault(tuple(getattr(row, column) for column in columns), []).append(row.value)
    n = max(map(len, found.values()))
    printed = cells(paper, averages, columns=columns, target="ood-average")
    assert printed.keys() == found.keys()
    return {cell: value - fmean(found[cell]) for cell, value in printed.items() if len(found[cell]) == n}


ROUNDING = 0.01 + 1e-9  # half a unit of the average, and as much of what it averages
BEYOND_ROUNDING = {
    "Table 22": {("rankme_augmented", "student", name): 0.06 for name in (
        "learning_rate", "weight_decay", "target_mask_scale", "context_mask_scale", "overall",
    )} | {("lidar", "teacher", "overall"): 0.04},
    "Table 26": {("oracle", "", "learning_rate"): -0.04},
    "Table 32": {
        ("oracle", "", "learning_rate"): 2.0, ("oracle", "", "weight_decay"): -0.01,
        ("rankme", "", "temperature"): -0.02, ("rankme", "", "weight_decay"): -0.01,
        ("lidar", "", "learning_rate"): -0.02, ("lidar", "", "weight_decay"): -0.01,
    },
}  # fmt: skip


@for_each([22, 24, 26, 28, 30, 32])
def test_averages_over_data_sets_are_their_means_but_for_what_a_note_says(number: int) -> None:
    table = f"Table {number}"
    wrong = {
        cell[:3]: round(gap, 2)
        for cell, gap in gaps(LIDAR, table, f"Table {number + 1}").items()
        if abs(gap) > ROUNDING
    }
    assert wrong == BEYOND_ROUNDING.get(table, {})
    for row in read_printed_label_free(paper=LIDAR, table=table):
        assert ("average to" in row.note) == ((row.metric, row.variant, row.hyperparameter) in wrong)


@for_each([("Table 2", 0), ("Table 3", 0), ("Table 5", 1), ("Table 6", 1)], arguments=2)
def test_averages_over_tasks_are_their_means(table: str, incomplete: int) -> None:
    found = gaps(CLID, table, table)
    assert len(found) == len(read_printed_label_free(paper=CLID, table=table, target="ood-average")) - incomplete
    assert max(map(abs, found.values())) <= ROUNDING


def test_readers_of_measurements_do_not_come_across_the_file() -> None:
    published = REPOSITORY / "results" / "published"
    assert sorted(path.name for path in read_files(".csv") if path.parent == published) == [
        "feature_statistics.csv",
        "risks.csv",
    ]
