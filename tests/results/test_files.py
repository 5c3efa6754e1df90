"""Results of a user along with the shipped ones: which count, what is left out and why; shipped ones must be right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.conftest import REPOSITORY, Run
from tests.each import for_each
from tests.result_rows import ERRATUM, AddRows, user_of
from zoo import NOT_PUBLISHED
from zoo.cards.catalogue import load_catalogue
from zoo.errors import ContentWarning, QueryError, ResultsError
from zoo.files import get_content_folder
from zoo.results.derived import summaries
from zoo.results.reported import reported_numbers
from zoo.results.rows import measurements
from zoo.results.values import PUBLISHED_SOURCE

PUBLISHED = summaries()
UNMEASURED = next(name for name in load_catalogue() if name not in PUBLISHED)
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


@for_each(
    [
        ({"encoder": "dino_vitS17"}, "encoder", ["'dino_vitS17'", "'dino_vitS16'"]),
        ({"metric": "linear_probe_eror"}, "metric", ["'linear_probe_eror'", "'linear_probe_error'"]),
        ({"split": "train -> test"}, "split", ["'train -> test'", "'train -> train'"]),
        ({"unit": "fraction"}, "unit", ["'fraction'", "'percent'"]),
        ({"dataset": ""}, "dataset", ["nothing"]),
        ({"n_train": "1e6"}, "n_train", ["'1e6'", "whole number"]),
        ({"n_train": "1300000"}, "n_train", ["1300000", "1281167"]),
        ({"seed": "01"}, "seed", ["'01'", "whole number"]),
        ({"n_train": "9" * 5000}, "n_train", ["whole number"]),
        ({"value": "24,5"}, "value", ["'24,5'", "finite number"]),
        ({"value": "2_4.5"}, "value", ["'2_4.5'", "finite number"]),
        ({"value": " 24.5 "}, "value", ["' 24.5 '", "finite number"]),
        ({"value": "\N{FULLWIDTH DIGIT TWO}4.5"}, "value", ["4.5'", "finite number"]),  # float() takes it
        ({"value": "nan"}, "value", ["'nan'", "finite number"]),
        ({"value": "124.5"}, "value", ["124.5", "between 0 and 100"]),
        ({"ci_low": "24.6"}, "ci_low", ["24.6", "24.5"]),
        ({"ci_high": ""}, "ci_high", ["''", "finite number"]),
        ({"protocol": " "}, "protocol", ["nothing"]),
        ({"source": ""}, "source", ["nothing"]),
        ({"date": "20.11.2026"}, "date", ["'20.11.2026'", "'2023-02-06'"]),
        ({"date": "2024-02-31"}, "date", ["'2024-02-31'"]),
        ({"date": "20231105"}, "date", ["'20231105'"]),
    ],
    arguments=3,
)
def test_a_wrong_field_leaves_out_its_row_and_no_other(
    change: dict[str, str], column: str, words: list[str], add_rows: AddRows
) -> None:
    path = add_rows({"seed": "1"}, change, {"seed": "2"})
    with pytest.warns(ContentWarning) as caught:
        rows = measurements()
    (message,) = {str(warning.message) for warning in caught}
    assert message.startswith(f"{path}, line 3, column {column!r}: found ")
    assert all(word in message for word in words)
    assert [row.seed for row in rows if row.source == "me"] == [1, 2]


def test_of_many_wrong_rows_of_a_file_the_first_is_told_and_the_others_are_counted(add_rows: AddRows) -> None:
    path = add_rows({"value": "none"}, {"value": "nothing"}, {"seed": "2"}, {"encoder": "nobody"})
    with pytest.warns(ContentWarning, match=rf"^{path}, line 2, .*; this and 2 more of its lines are left out\.$"):
        assert [row.seed for row in measurements() if row.source == "me"] == [2]


@for_each(
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
    arguments=3,
)
def test_a_wrong_erratum_is_left_out(old: str, new: str, words: str, add_rows: AddRows) -> None:
    add_rows().with_name("errata.toml").unlink(missing_ok=True)
    before = summaries()
    add_rows().with_name("errata.toml").write_text(ERRATUM.replace(old, new))
    with pytest.warns(ContentWarning, match=f"errata.toml.*{words}"):
        assert summaries() == before


DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("cut off", lambda content: content[:-30], "line 2: the file breaks off after"),
    ("cut off at a line", lambda content: content[:-30] + b"\n", "line 2: found 9 fields, expected 13"),
    ("open quote", lambda content: content + b'"dino_vitS16,linear_probe_error\n', "line 3: not readable as CSV"),
    ("other columns", lambda content: content.replace(b"seed", b"run"), "line 1: found the columns"),
    ("other encoding", lambda content: content.replace(b"mine", b"m\xe9thode"), "is not UTF-8 text"),
    ("empty", lambda content: b"", "the file breaks off"),
    ("UTF-16", lambda content: content.decode().encode("utf-16-le"), "line 1: found a NUL character"),
    (
        "misspelt metric",
        lambda content: content.replace(b"probe_error", b"prob_error"),
        "line 2, column 'metric': found",
    ),
]


@for_each(DAMAGES, name=lambda case: str(case[0]), arguments=3)
def test_a_damaged_file_stops_nothing_but_itself(
    name: str, damage: Callable[[bytes], bytes], words: str, add_rows: AddRows
) -> None:
    path = add_rows({})
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):  # the second time from the copy
        with pytest.warns(ContentWarning, match=words) as caught:
            assert summaries() == PUBLISHED
        assert all(str(path) in str(warning.message) for warning in caught)


def test_a_row_that_is_there_already_is_left_out(add_rows: AddRows) -> None:
    add_rows({}, {"value": "25", "ci_high": "26", "date": "2026-11-21"})
    with pytest.warns(ContentWarning, match=r"mine.csv, line 3, .*again \(first in .*mine.csv, line 2\)"):
        assert [row.value for row in measurements() if row.source == "me"] == [24.5]
    add_rows({"protocol": "ssl-risk-decomposition", "source": PUBLISHED_SOURCE, "seed": ""})
    with pytest.warns(ContentWarning, match=r"mine.csv, line 2, .*first in the zoo's own results"):
        assert summaries() == PUBLISHED


def test_files_that_cannot_be_opened_are_left_out(add_rows: AddRows) -> None:
    for name in ("more.csv", "errata.toml"):
        path = add_rows({}).with_name(name)
        path.symlink_to("gone")
        with pytest.warns(ContentWarning, match=rf"^The results file {path} cannot be read \(No such file"):
            assert summaries() == PUBLISHED
        path.unlink()


def test_what_was_shipped_must_be_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("metadata", "results"):
        shutil.copytree(get_content_folder(name), tmp_path / name, copy_function=os.symlink)
    monkeypatch.setattr("zoo.files._PACKAGE", tmp_path / "zoo")
    for name, old, new in (
        ("published/risks.csv", "linear_probe_error", "linear_probe_eror"),
        ("errata.toml", "[[erratum]]", "[erratum]"),
        ("reported.tsv", "reported-linear", "reported-liner"),
    ):
        broken = tmp_path / "results" / name
        text = broken.read_text()
        broken.unlink()
        broken.write_text(text.replace(old, new, 1))
        with pytest.raises(ResultsError, match=str(broken)):
            reported_numbers() if name == "reported.tsv" else summaries()
        broken.write_text(text)


def test_a_change_of_a_file_is_seen_at_once(add_rows: AddRows) -> None:
    add_rows({"encoder": UNMEASURED})
    assert summaries()[UNMEASURED].errors == {"100%": 24.5}
    add_rows({"encoder": UNMEASURED, "value": "24.6"})
    assert summaries()[UNMEASURED].errors == {"100%": 24.6}
    errata = add_rows().with_name("errata.toml")
    errata.write_text(ERRATUM)
    assert summaries()["dino_vitS16"].errata[0].kind == "suspicious"
    errata.unlink()
    assert summaries() == PUBLISHED


def test_a_card_that_is_gone_takes_the_right_to_its_rows_along(add_rows: AddRows) -> None:
    card = add_rows({"encoder": "tiny_vitS16"}).parent.parent / "metadata" / "tiny.toml"
    card.parent.mkdir()
    card.write_text(VALID)
    assert summaries()["tiny_vitS16"].errors == {"100%": 24.5}
    card.unlink()
    with pytest.warns(ContentWarning, match=r"column 'encoder': found 'tiny_vitS16'"):
        assert "tiny_vitS16" not in summaries()


def test_a_start_from_the_copies_reads_and_checks_nothing(
    run_apart: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    makers = ("csv", "tomllib", "zoo.cards.reading", "zoo.results.reading", "numpy", "pandas")
    script = "import sys, zoo.results; print(len(zoo.results.summaries()), {*sys.argv} & {*sys.modules})"
    first, second = (run_apart(script, *makers, path=[REPOSITORY]).stdout for _ in range(2))
    assert "zoo.results.reading" in first and "pandas" not in first
    assert second == f"{len(PUBLISHED)} set()\n"


def test_the_published_source_counts_unless_another_is_asked_for(add_rows: AddRows) -> None:
    add_rows({})
    assert summaries() == PUBLISHED
    assert summaries(source=PUBLISHED_SOURCE) == PUBLISHED
    (mine,) = summaries(source="me").values()
    assert mine.errors == {"100%": 24.5} and mine.decomposition is None and mine.campaign.source == "me"
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


def test_an_erratum_of_the_user_excludes_too(add_rows: AddRows) -> None:
    add_rows().with_name("errata.toml").write_text(ERRATUM)
    assert set(PUBLISHED) - set(summaries(exclude_wrong=True)) == {WRONG, "dino_vitS16"}
    assert summaries()["dino_vitS16"].errata[0].reason == "Measured after lunch."
    assert measurements(encoders=["dino_vitS16"], metrics=["uniformity"], exclude_wrong=True)
