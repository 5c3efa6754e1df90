"""Numbers that the papers of RankMe, LiDAR and CLID print: complete, and where they contradict each other.

Tables that repeat each other and averages that are printed beside what they average check cells that were read apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

import pytest

from tests.conftest import REPOSITORY
from zoo.cards.catalogue import catalogue
from zoo.errors import UnknownName
from zoo.results.printed import METRICS, PAPERS, clid_checkpoints, published_label_free
from zoo.results.reading import read_files
from zoo.results.vocabulary import LABEL_FREE_METRICS

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
    rows = [row for table in tables for row in published_label_free(paper=paper, table=table)]
    kept = [row for row in rows if all(getattr(row, column) == value for column, value in equal.items())]
    found = {tuple(str(getattr(row, column)) for column in columns): row.value for row in kept}
    assert len(found) == len(kept) > 0
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_every_cell_of_every_table_is_a_row(paper: str) -> None:
    assert Counter(row.table for row in published_label_free(paper=paper)) == COUNTS[paper]
    assert {row.paper for row in published_label_free(paper=paper)} == {PAPERS[paper]}


def test_all_rows_come_in_the_order_of_papers_and_tables() -> None:
    expected = [(PAPERS[paper], table) for paper, counts in COUNTS.items() for table in counts]
    assert list(dict.fromkeys((row.paper, row.table) for row in published_label_free())) == expected


@pytest.mark.parametrize(
    ("question", "values"),
    [
        (
            {"metric": "rankme", "paper": RANKME, "target": "ood-average"},
            "67.7 68.3 68.7 68.4 67.6 68.4 68.8 71.8 72.5",
        ),
        ({"metric": "alpha_req", "target": "imagenet-1k"}, "67.9 67.5 59.5 67.8 63.5 68.1 32.3 71.7 66.2"),
        ({"paper": LIDAR, "table": "Table 2"}, "0.8314 0.8989 0.8434 0.8487 0.8616"),
        ({"paper": LIDAR, "table": "Table 24"}, "74.85 73.24 73.24 73.24 76.23 77.34"),
        ({"paper": LIDAR, "table": "Table 34", "statistic": "seconds"}, "0.38 0.53 0.71"),
        ({"paper": CLID, "table": "Table 1", "statistic": "pearson"}, "0.42 -0.05 0.37 -0.62 0.13 0.61 0.74 0.12 0.92"),
        (
            {"paper": CLID, "table": "Table 5", "target": "cars"},
            "0.2 0.81 0.72 0.18 0.12 0.32 -0.28 -0.11 -0.28 0.16 0.48 0.88",
        ),
        ({"paper": CLID, "table": "Table 6", "metric": "one_shot_accuracy"}, "0.86 0.82 0.84 0.78 0.72 0.87 0.79 0.81"),
    ],
)
def test_rows_hold_the_printed_lines(question: dict[str, str], values: str) -> None:
    assert [row.value for row in published_label_free(**question)] == [float(value) for value in values.split()]


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


@pytest.mark.parametrize(("paper", "one", "other", "columns", "of_one", "of_other"), REPEATED)
def test_tables_that_repeat_each_other_agree(
    paper: str, one: str, other: str, columns: tuple[str, ...], of_one: dict[str, str], of_other: dict[str, str]
) -> None:
    assert cells(paper, one, columns=columns, **of_one) == cells(paper, other, columns=columns, **of_other)


@pytest.mark.parametrize(("short", "full"), [("Table 2", "Table 5"), ("Table 3", "Table 6")])
def test_the_short_tables_of_the_clid_paper_are_part_of_the_full_ones(short: str, full: str) -> None:
    columns = ("metric", "negated", "statistic", "target")
    assert cells(CLID, short, columns=columns).items() <= cells(CLID, full, columns=columns).items()


def gaps(paper: str, averages: str, parts: str) -> dict[Cell, float]:
    """How far each printed average is from the mean of the data sets, where all of them can be read."""
    columns = ("metric", "variant", "hyperparameter", "statistic")
    found: dict[Cell, list[float]] = {}
    for row in published_label_free(paper=paper, table=parts):
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


@pytest.mark.parametrize("number", [22, 24, 26, 28, 30, 32])
def test_averages_over_data_sets_are_their_means_but_for_what_a_note_says(number: int) -> None:
    table = f"Table {number}"
    wrong = {
        cell[:3]: round(gap, 2)
        for cell, gap in gaps(LIDAR, table, f"Table {number + 1}").items()
        if abs(gap) > ROUNDING
    }
    assert wrong == BEYOND_ROUNDING.get(table, {})
    for row in published_label_free(paper=LIDAR, table=table):
        assert ("average to" in row.note) == ((row.metric, row.variant, row.hyperparameter) in wrong)


@pytest.mark.parametrize(("table", "incomplete"), [("Table 2", 0), ("Table 3", 0), ("Table 5", 1), ("Table 6", 1)])
def test_averages_over_tasks_are_their_means(table: str, incomplete: int) -> None:
    found = gaps(CLID, table, table)
    assert len(found) == len(published_label_free(paper=CLID, table=table, target="ood-average")) - incomplete
    assert max(map(abs, found.values())) <= ROUNDING


def test_cells_that_the_text_cuts_off_are_no_rows() -> None:
    tasks = {row.target for row in published_label_free(paper=CLID, table="Table 5")}
    for table, metric, missing in (
        ("Table 5", "intrinsic_dimension", {"aircraft", "cars"}),
        ("Table 6", "cluster_learnability", {"pets", "stl10"}),
    ):
        assert tasks - {row.target for row in published_label_free(paper=CLID, table=table, metric=metric)} == missing


def test_no_metric_recovers_more_than_the_oracle_on_the_data_set_of_the_oracle() -> None:
    columns = ("paper", "table", "population", "hyperparameter")
    rows = published_label_free(statistic="recovered_accuracy", target="imagenet-1k")
    best = {tuple(getattr(row, name) for name in columns): row.value for row in rows if row.metric == "oracle"}
    assert len(best) == sum(row.metric == "oracle" for row in rows)
    assert all(row.value <= best[tuple(getattr(row, name) for name in columns)] for row in rows)


def test_two_checkpoints_in_one_table_are_one_in_another() -> None:
    asked = {"metric": "rankme", "columns": ("hyperparameter",)}
    assert cells(LIDAR, "Table 6", **asked) == {
        ("learning_rate",): 48.604,
        ("mask_ratio",): 48.698,
        ("overall",): 48.698,
    }  # type: ignore[arg-type]
    elsewhere = published_label_free(paper=LIDAR, table="Table 27", metric="rankme")
    by_target = {row.target: {other.value for other in elsewhere if other.target == row.target} for row in elsewhere}
    assert {target: len(values) for target, values in by_target.items()} == dict.fromkeys(by_target, 1)


def test_what_the_text_says_and_the_tables_contradict_is_in_a_note() -> None:
    (best,) = [row for row in published_label_free(paper=LIDAR, table="Table 2") if row.note]
    assert best.value == max(row.value for row in published_label_free(paper=LIDAR, table="Table 2"))
    assert (best.metric, best.variant) == ("rankme_augmented", "student")
    chosen = cells(LIDAR, "Table 10", columns=("metric",), hyperparameter="weight_decay")
    assert chosen["oracle",] - chosen["lidar",] == pytest.approx(2.13)
    assert sum(bool(row.note) for row in published_label_free(paper=RANKME)) == 2


def test_metrics_are_named_as_in_the_table_of_contents() -> None:
    assert {row.metric for row in published_label_free()} == set(METRICS)
    assert set(METRICS) - set(LABEL_FREE_METRICS) <= {
        "oracle",
        "clid",
        "w_clid",
        "coding_rate",
        "coding_rate_of_clusters",
    }


def test_a_sign_says_which_printed_metrics_are_minus_ours() -> None:
    negated = {row.metric for row in published_label_free() if row.negated}
    assert negated == {
        "alignment",
        "uniformity",
        "contrast",
        "coding_rate_of_clusters",
        "source_label_entropy",
        "target_label_entropy",
    }
    assert all(row.negated == (row.metric in negated) for row in published_label_free())


def test_only_the_text_of_one_paper_tells_pages() -> None:
    assert {(row.paper, row.page) for row in published_label_free()} == {
        (PAPERS[RANKME], 3),
        (PAPERS[LIDAR], None),
        (PAPERS[CLID], None),
    }


def test_checkpoints_are_28_and_their_cards_have_weights_of_that_name() -> None:
    rows = clid_checkpoints()
    assert len(rows) == 28
    assert Counter(row.method for row in rows) == {"Unsupervised": 25, "Supervised": 3}
    assert Counter(row.architecture for row in rows) == {"ResNet": 23, "ViT": 4, "XCiT": 1}
    known = [row for row in rows if row.encoder]
    assert len(known) == 24
    named = {
        "insdis": "/InsDis.pth",
        "pcl_v1": "/PCL_v1_epoch200.pth.tar",
        "pcl_v2": "/PCL_v2_epoch200.pth.tar",
        "resnet18": "/resnet18-",
        "resnet34": "/resnet34-",
        "simclrv1_resnet50_1x": "simclrv1-imagenet1k-resnet50-1x/resnet50-1x.pth",
        "simclrv2_r501xsk0": "/r50_1x_sk0.pth",
        "simclrv2_r501xsk1": "/r50_1x_sk1.pth",
    }
    for row in known:
        assert named.get(row.name, f"/{row.name}_pretrain.pth") in str(catalogue()[row.encoder].weights.url)


def test_readers_of_measurements_do_not_come_across_the_file() -> None:
    published = REPOSITORY / "results" / "published"
    assert sorted(path.name for path in read_files(".csv") if path.parent == published) == [
        "feature_statistics.csv",
        "risks.csv",
    ]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"paper": "Lidar"}, r"no paper .* 'Lidar'; did you mean LiDAR"),
        ({"metric": "rank_me"}, r"no metric .* 'rank_me'; did you mean rankme"),
        ({"table": "Table 38"}, r"no table .* 'Table 38'; did you mean Table 3"),
    ],
)
def test_an_unknown_word_lists_the_nearest(question: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        published_label_free(**question)  # type: ignore[arg-type]
