"""What rows and files of results are left out for, and in which words; what was shipped must be right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.each import for_each
from tests.result_rows import ERRATUM, AddRows, user_of
from zoo.errors import ContentWarning, ResultsError
from zoo.files import content_folder
from zoo.results.derived import summaries
from zoo.results.rows import errata, measurements
from zoo.results.values import PUBLISHED_SOURCE


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
        ({"seed": "-1"}, "seed", ["'-1'", "whole number"]),
        ({"seed": "01"}, "seed", ["'01'", "whole number"]),
        ({"n_train": "9" * 5000}, "n_train", ["whole number"]),
        ({"value": "24,5"}, "value", ["'24,5'", "finite number"]),
        ({"value": ""}, "value", ["''", "finite number"]),
        ({"value": "2_4.5"}, "value", ["'2_4.5'", "finite number"]),
        ({"value": " 24.5 "}, "value", ["' 24.5 '", "finite number"]),
        ({"value": "1e999"}, "value", ["'1e999'", "finite number"]),
        ({"value": "\N{FULLWIDTH DIGIT TWO}4.5"}, "value", ["4.5'", "finite number"]),  # float() takes it
        ({"value": "nan"}, "value", ["'nan'", "finite number"]),
        ({"value": "inf"}, "value", ["'inf'", "finite number"]),
        ({"value": "124.5"}, "value", ["124.5", "between 0 and 100"]),
        ({"ci_low": "24.6"}, "ci_low", ["24.6", "24.5"]),
        ({"ci_high": ""}, "ci_high", ["''", "finite number"]),
        ({"protocol": " "}, "protocol", ["nothing"]),
        ({"source": ""}, "source", ["nothing"]),
        ({"date": "20.11.2026"}, "date", ["'20.11.2026'", "'2023-02-06'"]),
        ({"date": "2026-13"}, "date", ["'2026-13'"]),
        ({"date": "2024-02-31"}, "date", ["'2024-02-31'"]),
        ({"date": "2023-02-29"}, "date", ["'2023-02-29'"]),
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


def test_a_row_that_is_there_already_is_left_out(add_rows: AddRows) -> None:
    shipped = summaries()
    add_rows({}, {"value": "25", "ci_high": "26", "date": "2026-11-21"})
    with pytest.warns(ContentWarning, match=r"mine.csv, line 3, .*again \(first in .*mine.csv, line 2\)"):
        assert [row.value for row in measurements() if row.source == "me"] == [24.5]
    add_rows({"protocol": "ssl-risk-decomposition", "source": PUBLISHED_SOURCE, "seed": ""})
    with pytest.warns(ContentWarning, match=r"mine.csv, line 2, .*first in .*risks.csv, line "):
        assert summaries() == shipped


def test_an_error_of_zero_and_the_last_day_of_a_leap_february_are_legal(add_rows: AddRows) -> None:
    add_rows({"value": "0", "ci_low": "-1e-3", "ci_high": "+.5", "date": "2024-02-29"})
    assert (measurements()[-1].value, measurements()[-1].ci_high) == (0, 0.5)


READERS = [
    pytest.param(measurements, id="all"),
    pytest.param(summaries, id="summaries"),
    pytest.param(lambda: measurements(metrics="uniformity"), id="other metrics"),
]


@cache
def without_rows_of_a_user(read: Callable[[], Any]) -> Any:
    return read()


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[:-30], "line 2: the file breaks off after"),
        (lambda content: content[:-30] + b"\n", "line 2: found 9 fields, expected 13"),
        (lambda content: content + b'"dino_vitS16,linear_probe_error\n', "line 3: not readable as CSV"),
        (lambda content: content.replace(b"seed", b"run"), "line 1: found the columns"),
        (lambda content: content.replace(b"mine", b"m\xe9thode"), "is not UTF-8 text"),
        (lambda content: b"", "the file breaks off"),
        (lambda content: content.splitlines()[0], "line 1: the file breaks off after"),
        (lambda content: b"\x93\x00\xfe\x07" * 99, "is not UTF-8 text"),
        (lambda content: content.decode().encode("utf-16"), "is not UTF-8 text"),
        (lambda content: content.decode().encode("utf-16-le"), "line 1: found a NUL character"),
        (lambda content: content.replace(b"mine", b"mi\0ne"), "line 2: found a NUL character"),
        (lambda content: content.replace(b"probe_error", b"prob_error"), "line 2, column 'metric': found"),
        (lambda content: content.replace(b"linear_probe_error", b""), "line 2, column 'metric': found"),
    ],
    ids=[
        "cut off",
        "cut off at a line",
        "open quote",
        "other columns",
        "other encoding",
        "empty",
        "header cut off",
        "binary",
        "UTF-16",
        "UTF-16 without a mark",
        "NUL",
        "misspelt metric",
        "no metric",
    ],
)
def test_a_damaged_file_stops_nothing_but_itself_whatever_is_asked_for(
    add_rows: AddRows, damage: Callable[[bytes], bytes], words: str, read: Callable[[], Any]
) -> None:
    shipped = without_rows_of_a_user(read)
    path = add_rows({})
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):  # the second time from the compiled copy
        with pytest.warns(ContentWarning, match=words) as caught:
            found = read()
        assert all(str(path) in str(warning.message) for warning in caught)
        n_whole = words.startswith("line 3") and read is measurements  # rows before what is broken
        assert list(found)[: len(shipped)] == list(shipped)
        assert len(found) - len(shipped) == n_whole


@pytest.mark.parametrize("read", READERS[:2])
@pytest.mark.parametrize("name", ["more.csv", "deeper/more.csv", "errata.toml"])
@pytest.mark.parametrize(
    ("put", "reason"),
    [(Path.mkdir, "Is a directory"), (lambda path: path.symlink_to("gone"), "No such file or directory")],
    ids=["a folder", "a link to nothing"],
)
def test_what_is_no_file_is_left_out(
    add_rows: AddRows, read: Callable[[], object], name: str, put: Callable[[Path], None], reason: str
) -> None:
    path = add_rows({}).parent / name
    path.parent.mkdir(exist_ok=True)
    if name == "errata.toml" and read is measurements:
        read = errata
    before = read()
    put(path)
    with pytest.warns(ContentWarning, match=rf"^The results file {path} cannot be read \({reason}\); make it readable"):
        assert read() == before


@for_each(
    [
        ("dino_vits16", "dino_vits17", "key 'encoder': found 'dino_vits17'.*'dino_vitS16'"),
        ("linear_probe_error", "linear_probe_eror", "key 'metric'.*'linear_probe_error'"),
        ("dino_vits16", "qqq", r"key 'encoder': found 'qqq', expected the id of a card, or '\*' for all; it"),
        ("linear_probe_error", "qqq", r"found 'qqq', expected a metric of results/README.md, or '\*' for all; it"),
        ("suspicious", "suspect", "key 'kind'.*'suspicious'"),
        ("suspicious", "qqq", "found 'qqq', expected one of 'wrong weights', .*'suspicious'; it"),
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


@pytest.mark.parametrize("kind", ["row", "erratum"])
def test_what_was_shipped_must_be_right(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("metadata", "results"):
        shutil.copytree(content_folder(name), tmp_path / name)
    monkeypatch.setattr("zoo.files._PACKAGE", tmp_path / "zoo")
    broken = tmp_path / "results" / ("published/risks.csv" if kind == "row" else "errata.toml")
    old, new = ("linear_probe_error", "linear_probe_eror") if kind == "row" else ("[[erratum]]", "[erratum]")
    assert summaries()
    broken.write_text(broken.read_text().replace(old, new, 1))
    with pytest.raises(ResultsError, match=str(broken)):
        summaries()
