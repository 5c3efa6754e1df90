"""The measurements: what is in the shipped files, what is derived from them, and what is refused."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import NOT_PUBLISHED
from zoo.cards import catalogue
from zoo.errors import QueryError, ResultsError, UnknownName
from zoo.metadata import Missing
from zoo.resultfiles import COLUMNS
from zoo.results import PUBLISHED_SOURCE, SETTINGS, Summary, errata, measurements, summaries
from zoo.vocabulary import ERRATUM_KINDS, METRICS, SPLITS

PUBLISHED = summaries()
IN_THE_TABLE = [name for name, summary in PUBLISHED.items() if "3-shot" in summary.errors]
UNMEASURED = next(name for name in catalogue() if name not in PUBLISHED)
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
ROW = {
    "encoder": "dino_vitS16",
    "metric": "linear_probe_error",
    "dataset": "imagenet-1k",
    "split": "train -> val",
    "n_train": "1281167",
    "seed": "0",
    "value": "24.5",
    "unit": "percent",
    "ci_low": "24.1",
    "ci_high": "24.9",
    "protocol": "mine",
    "source": "me",
    "date": "2026-11-20",
}

AddRows = Callable[..., Path]


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    """Writes a results file into an empty zoo home, one row for each set of changes to ROW."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "results").mkdir()

    def add(*changes: dict[str, str]) -> Path:
        path = tmp_path / "results" / "mine.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows({**ROW, **change} for change in changes)
        return path

    return add


def test_the_published_counts_are_those_of_the_readme(repository: Path) -> None:
    assert len(PUBLISHED) == 200
    assert len(IN_THE_TABLE) == 169
    assert len([name for name in IN_THE_TABLE if "30-shot" not in PUBLISHED[name].errors]) == 2
    readme = (repository / "results" / "README.md").read_text()
    for path in sorted((repository / "results" / "published").glob("*.csv")):
        n_rows = len(path.read_text().splitlines()) - 1
        assert f"[published/{path.name}](published/{path.name}) | {n_rows} |" in readme
    assert len({row.encoder for row in measurements(metrics=["correlation_rank"])}) == 142


def test_the_decomposition_is_missing_or_assumed_where_no_twin_was_measured() -> None:
    parts = [PUBLISHED[name].decomposition for name in IN_THE_TABLE]
    assert all(part is not None for part in parts)
    without = [part for part in parts if part and part.approximation is NOT_PUBLISHED]
    assert len(without) == 23
    assert all(part.usability is NOT_PUBLISHED and part.approximation_plus_usability > 0 for part in without)
    assumed = [part for part in parts if part and part.approximation_assumed]
    assert len(assumed) == 12
    assert all(part.approximation == 0 for part in assumed)
    assert all(part.approximation != 0 for part in parts if part and not part.approximation_assumed)


@pytest.mark.parametrize("encoder", IN_THE_TABLE)
def test_fewer_labels_give_a_higher_error(encoder: str) -> None:
    errors = PUBLISHED[encoder].errors
    in_order = [errors[setting.name] for setting in SETTINGS if setting.name in errors]
    assert in_order == sorted(in_order)
    assert len(set(in_order)) == len(in_order) >= 4


@pytest.mark.parametrize("encoder", PUBLISHED)
def test_signed_components_sum_to_the_full_shot_error(encoder: str) -> None:
    summary = PUBLISHED[encoder]
    part = summary.decomposition
    assert part is not None
    assert part.full_shot_error == pytest.approx(summary.errors["100%"], abs=1e-6)
    if not isinstance(part.approximation, Missing) and not isinstance(part.usability, Missing):
        assert part.approximation + part.usability == pytest.approx(part.approximation_plus_usability, abs=1e-9)


def test_derived_components_are_the_published_ones_except_where_those_were_clipped() -> None:
    rows = measurements(metrics=["approximation", "usability", "probe_generalization", "encoder_generalization"])
    assert len(rows) == 2 * len(PUBLISHED) + 2 * sum(
        summary.decomposition.approximation is not NOT_PUBLISHED
        for summary in PUBLISHED.values()
        if summary.decomposition
    )
    negative = []
    for row in rows:
        ours = getattr(PUBLISHED[row.encoder].decomposition, row.metric)
        assert max(ours, 0) == pytest.approx(row.value, abs=1e-6), row
        if ours < 0:
            negative.append((row.metric, row.encoder))
    in_table = [metric for metric, encoder in negative if encoder in IN_THE_TABLE]
    assert in_table.count("usability") == 12
    assert in_table.count("encoder_generalization") == 1
    assert ("encoder_generalization", "dissl_resnet50_d4096_e100_m2") in negative
    assert sorted(set(negative) - {(metric, name) for metric, name in negative if name in IN_THE_TABLE}) == [
        ("encoder_generalization", "init_vitB32"),
        ("encoder_generalization", "init_vitL16"),
    ]


def test_components_of_encoders_without_raw_risks_come_from_the_published_ones() -> None:
    part = PUBLISHED["openclip_vitH14_extractPred"].decomposition
    assert part is not None
    assert part.probe_generalization == 9.35737453401089
    assert part.approximation_plus_usability == pytest.approx(15.72999954223632 - 9.35737453401089 - 2.4480000138282687)


def test_settings_have_the_labels_that_their_rows_were_trained_on() -> None:
    for setting in SETTINGS:
        assert setting.n_labels == SPLITS[setting.split].n_train
    trained_on = {(row.split, row.n_train) for row in measurements(metrics=["linear_probe_error"])}
    assert trained_on == {(name, split.n_train) for name, split in SPLITS.items() if split.n_train}


def test_derived_statistics_follow_from_the_others() -> None:
    value = {(row.encoder, row.metric, row.split): row.value for row in measurements()}
    for (encoder, metric, split), published in value.items():
        if metric == "variance_ratio":
            intra, inter = (value[encoder, f"{kind}_class_variance", split] for kind in ("intra", "inter"))
            assert published == pytest.approx(intra / inter, rel=1e-12)
        if metric == "nc1_per_root_rank":
            rank = value[encoder, "correlation_rank", split.split()[0]]
            assert published == pytest.approx(value[encoder, "nc1", split] / rank**0.5, rel=1e-12)


def test_published_values_keep_every_digit(repository: Path) -> None:
    for path in (repository / "results" / "published").glob("*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                assert repr(float(row["value"])) == row["value"]


def test_the_wrong_encoder_is_left_out_on_request_only() -> None:
    assert any(erratum.exclude for erratum in PUBLISHED[WRONG].errata)
    assert set(PUBLISHED) - set(summaries(exclude_wrong=True)) == {WRONG}
    assert {row.encoder for row in measurements()} - {row.encoder for row in measurements(exclude_wrong=True)} == {
        WRONG
    }


def test_the_misprint_of_the_paper_is_known_and_not_ours() -> None:
    (misprint,) = (erratum for erratum in errata() if erratum.kind == "misprint")
    assert not misprint.exclude
    assert all(PUBLISHED[name].errors.get("30-shot") != PUBLISHED[name].errors["5-shot"] for name in IN_THE_TABLE)


def test_measurements_can_be_chosen_by_metric_and_encoder_in_any_case() -> None:
    (train, val) = measurements(metrics=["uniformity"], encoders=["DINO_VITS16"])
    assert (train.encoder, train.split, val.split) == ("dino_vitS16", "train", "val")
    assert train.value == -3.083756028358562
    assert (train.n_train, train.seed, train.ci_low, train.ci_high) == (None, None, None, None)
    with pytest.raises(UnknownName, match=r"linear_prob.*did you mean linear_probe_error"):
        measurements(metrics=["linear_prob"])
    with pytest.raises(UnknownName, match="dino_vitS16"):
        measurements(encoders=["dino_vitS17"])


def test_the_readme_explains_every_word_of_the_vocabulary(repository: Path) -> None:
    readme = (repository / "results" / "README.md").read_text()
    better = {True: "lower", False: "higher", None: "neither"}
    groups = {"all with a probe": True, "all without a probe": False}
    names = {
        tuple(name for name, split in SPLITS.items() if bool(split.n_train) is probe): text
        for text, probe in groups.items()
    }
    for metric in METRICS.values():
        splits = names.get(metric.splits) or ", ".join(f"`{split}`" for split in metric.splits)
        direction = better[metric.lower_is_better]
        assert f"| `{metric.name}` | {metric.unit} | {direction} | {splits} | {metric.meaning} |" in readme
    for split in SPLITS.values():
        assert f"| `{split.name}` | {split.n_train or ''} | {split.meaning} |" in readme
    for kind, meaning in ERRATUM_KINDS.items():
        assert f"| `{kind}` | {meaning} |" in readme
    for column in COLUMNS:
        assert f"`{column}`" in readme.split("## Metrics")[0]
    for protocol in {row.protocol for row in measurements()}:
        assert f"| `{protocol}` |" in readme


def test_a_row_of_the_user_is_one_more_measurement(add_rows: AddRows) -> None:
    add_rows({})
    mine = measurements()[-1]
    assert (mine.encoder, mine.value, mine.seed, mine.ci_low, mine.source) == ("dino_vitS16", 24.5, 0, 24.1, "me")


def test_the_published_source_counts_unless_another_is_asked_for(add_rows: AddRows) -> None:
    add_rows({})
    assert summaries() == PUBLISHED
    assert summaries(source=PUBLISHED_SOURCE) == PUBLISHED
    assert summaries(source="me") == {
        "dino_vitS16": Summary(encoder="dino_vitS16", errors={"100%": 24.5}, decomposition=None, errata=())
    }
    with pytest.raises(QueryError, match=r"'you'.*arXiv:2302.03068.*me"):
        summaries(source="you")


def test_of_several_sources_of_an_unpublished_encoder_the_newest_counts_with_its_seeds_averaged(
    add_rows: AddRows,
) -> None:
    new = {"encoder": UNMEASURED.upper(), "source": "new", "date": "2026-11", "ci_low": "", "ci_high": ""}
    add_rows(
        new | {"seed": "0", "value": "30"},
        new | {"seed": "1", "value": "31"},
        new | {"split": "train -> train", "value": "10"},
        new | {"split": "train minus subset -> subset", "n_train": "", "value": "28"},
        new | {"dataset": "cifar-10", "n_train": "50000", "value": "2"},
        {"encoder": UNMEASURED, "source": "old", "date": "2026-10-31"},
    )
    part = summaries()[UNMEASURED].decomposition
    assert part is not None
    assert part.full_shot_error == 30.5
    assert (part.approximation_plus_usability, part.probe_generalization, part.encoder_generalization) == (10, 18, 2.5)
    assert part.usability is NOT_PUBLISHED
    assert summaries(source="old")[UNMEASURED].errors == {"100%": 24.5}


@pytest.mark.parametrize(
    ("change", "column", "words"),
    [
        ({"encoder": "dino_vitS17"}, "encoder", ["'dino_vitS17'", "'dino_vitS16'"]),
        ({"metric": "linear_probe_eror"}, "metric", ["'linear_probe_eror'", "'linear_probe_error'"]),
        ({"split": "train -> test"}, "split", ["'train -> test'", "'train -> train'"]),
        ({"unit": "fraction"}, "unit", ["'fraction'", "'percent'"]),
        ({"dataset": ""}, "dataset", ["nothing"]),
        ({"n_train": "1e6"}, "n_train", ["'1e6'", "whole number"]),
        ({"n_train": "1300000"}, "n_train", ["1300000", "1281167"]),
        ({"seed": "-1"}, "seed", ["'-1'", "whole number"]),
        ({"value": "24,5"}, "value", ["'24,5'", "finite number"]),
        ({"value": ""}, "value", ["''", "finite number"]),
        ({"value": "nan"}, "value", ["'nan'", "finite number"]),
        ({"value": "inf"}, "value", ["'inf'", "finite number"]),
        ({"value": "124.5"}, "value", ["124.5", "between 0 and 100"]),
        ({"ci_low": "24.6"}, "ci_low", ["24.6", "24.5"]),
        ({"ci_high": ""}, "ci_high", ["''", "finite number"]),
        ({"protocol": " "}, "protocol", ["nothing"]),
        ({"source": ""}, "source", ["nothing"]),
        ({"date": "20.11.2026"}, "date", ["'20.11.2026'", "'2023-02-06'"]),
        ({"date": "2026-13"}, "date", ["'2026-13'"]),
    ],
)
def test_a_wrong_field_is_refused_with_its_place(
    add_rows: AddRows, change: dict[str, str], column: str, words: list[str]
) -> None:
    path = add_rows({"seed": "1"}, change)
    with pytest.raises(ResultsError) as refusal:
        measurements()
    message = str(refusal.value)
    assert message.startswith(f"{path}, line 3, column {column!r}: found ")
    assert all(word in message for word in words)


def test_a_row_that_is_there_already_is_refused(add_rows: AddRows) -> None:
    add_rows({}, {"value": "25", "ci_high": "26", "date": "2026-11-21"})
    with pytest.raises(ResultsError, match=r"mine.csv, line 3, .*again \(first in mine.csv, line 2\)"):
        summaries()
    add_rows({"protocol": "ssl-risk-decomposition", "source": PUBLISHED_SOURCE, "seed": ""})
    with pytest.raises(ResultsError, match=r"mine.csv, line 2, .*first in risks.csv, line "):
        summaries()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[:-30], "line 2: the file breaks off after"),
        (lambda content: content[:-30] + b"\n", "line 2: found 9 fields, expected 13"),
        (lambda content: content + b'"dino_vitS16,linear_probe_error\n', "line 3: not readable as CSV"),
        (lambda content: content.replace(b"seed", b"run"), "line 1: found the columns"),
        (lambda content: content.replace(b"mine", b"m\xe9thode"), "is not UTF-8 text"),
        (lambda content: b"", "the file breaks off"),
    ],
    ids=["cut off", "cut off at a line", "open quote", "other columns", "other encoding", "empty"],
)
def test_a_damaged_file_is_refused(add_rows: AddRows, damage: Callable[[bytes], bytes], words: str) -> None:
    path = add_rows({})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ResultsError, match=words) as refusal:
        measurements()
    assert str(path) in str(refusal.value)


ERRATUM = """[[erratum]]
encoder = "dino_vits16"
metric = "linear_probe_error"
kind = "suspicious"
reason = "Measured after lunch."
exclude = true
"""


def test_an_erratum_of_the_user_excludes_too(add_rows: AddRows) -> None:
    add_rows().with_name("errata.toml").write_text(ERRATUM)
    assert set(PUBLISHED) - set(summaries(exclude_wrong=True)) == {WRONG, "dino_vitS16"}
    assert summaries()["dino_vitS16"].errata[0].reason == "Measured after lunch."
    assert measurements(encoders=["dino_vitS16"], metrics=["uniformity"], exclude_wrong=True)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("dino_vits16", "dino_vits17", "key 'encoder': found 'dino_vits17'.*'dino_vitS16'"),
        ("linear_probe_error", "linear_probe_eror", "key 'metric'.*'linear_probe_error'"),
        ("suspicious", "suspect", "key 'kind'.*'suspicious'"),
        ("true", '"yes"', "key 'exclude': found 'yes', expected true or false"),
        ("Measured after lunch.", "", "key 'reason': found ''"),
        ("reason", "because", "found the keys .*because.*, expected encoder, metric, kind, reason, exclude"),
        ("[[erratum]]", "[erratum]", r"expected only \[\[erratum\]\] entries"),
        ("[[erratum]]", "[[erratum]", "not readable as TOML"),
    ],
)
def test_a_wrong_erratum_is_refused(add_rows: AddRows, old: str, new: str, words: str) -> None:
    add_rows().with_name("errata.toml").write_text(ERRATUM.replace(old, new))
    with pytest.raises(ResultsError, match=f"errata.toml.*{words}"):
        summaries()


def test_results_need_no_heavy_library() -> None:
    heavy = ("torch", "numpy", "pandas", "statistics")
    script = f"import sys, zoo.results; zoo.results.summaries(); print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
