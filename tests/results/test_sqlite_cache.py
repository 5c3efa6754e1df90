"""The table of the user's rows: what is read again after a change, and that it never says anything but the files."""

from __future__ import annotations

import csv
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.result_rows import ERRATUM, ROW
from zoo.cards import content_cache
from zoo.errors import ContentWarning, ResultsError
from zoo.results import reading
from zoo.results.derived import summaries
from zoo.results.rows import errata, measurements, read_rows
from zoo.results.values import COLUMNS, PROBE, RISKS, Row

NAMES = ("dinov2_vitS14", "mae_vitB16", "simclr_rn50")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a file of rows of each of three encoders, on two data sets; a change soon after has its stamp."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(content_cache, "_SETTLED_NS", -(10**9))
    for name in NAMES:
        write(tmp_path / "home", name, [{"encoder": name}, {"encoder": name, "dataset": "birds", "n_train": ""}])
    return tmp_path / "home"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose rows are checked."""
    rows_of, names = reading.parse_rows, list[str]()

    def noting(path: Path, *others: object) -> list[Row]:
        names.append(path.stem)
        return rows_of(path, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "parse_rows", noting)
    return names


def write(home: Path, name: str, changes: Iterable[Mapping[str, str]]) -> Path:
    path = home / "results" / "measured" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(ROW | dict(change) for change in changes)
    return path


def own() -> list[Row]:
    return [row for row in read_rows() if row.source == "me"]


def in_files(home: Path) -> list[Row]:
    rows = []
    for path in sorted((home / "results").rglob("*.csv")):
        with open(path, newline="") as file:
            rows += [Row(**row) for row in csv.DictReader(file)]
    return rows


def test_the_copy_says_what_the_files_say_whatever_is_asked(home: Path) -> None:
    everything = in_files(home)
    for _ in range(2):  # made, and from the copy
        assert own() == everything and len(everything) == 6
        for name in NAMES:
            found = [row for row in read_rows(encoders=[name]) if row.source == "me"]
            assert found == [row for row in everything if row.encoder == name]
        assert read_rows(dataset="birds") == [row for row in everything if row.dataset == "birds"]
        assert read_rows([PROBE], encoders=NAMES[:2], dataset="birds") == read_rows(RISKS, dataset="birds")[:2]
        assert read_rows(["rankme"], dataset="birds") == []
        assert len(measurements(dataset="birds")) == 3


def test_only_what_has_changed_is_checked_again(home: Path, checked: list[str]) -> None:
    own()
    assert sorted(set(checked) & {*NAMES}) == sorted(NAMES)
    checked.clear()
    own(), summaries()
    assert not checked
    write(home, NAMES[1], [{"encoder": NAMES[1], "value": "30", "ci_low": "", "ci_high": ""}])
    write(home, "a_new_one", [{"encoder": "dino_vitS16"}])
    assert own() == in_files(home)  # a new file in front of others
    assert checked == ["a_new_one", NAMES[1]]
    (home / "results" / "measured" / "a_new_one.csv").unlink()
    checked.clear()
    assert own() == in_files(home) and not checked


def test_of_two_equal_rows_the_first_counts_whichever_file_changes(home: Path, checked: list[str]) -> None:
    rows = own()
    copied = write(home, "zz_copy", [{"encoder": NAMES[0], "value": "1", "ci_low": "", "ci_high": ""}])
    checked.clear()
    for _ in range(2):
        with pytest.warns(ContentWarning, match=rf"zz_copy.csv, line 2, .*first in .*{NAMES[0]}.csv, line 2"):
            assert own() == rows
    assert checked == [NAMES[0], "zz_copy"]
    (home / "results" / "measured" / f"{NAMES[0]}.csv").unlink()
    assert own() == in_files(home)
    copied.unlink()
    assert own() == in_files(home)


def test_rows_wait_for_their_card_and_go_with_it(home: Path, checked: list[str]) -> None:
    write(home, "tiny", [{"encoder": "tiny_vitS16"}])
    with pytest.warns(ContentWarning, match="found 'tiny_vitS16'"):
        assert len(own()) == 6
    card = home / "metadata" / "tiny.toml"
    card.parent.mkdir()
    card.write_text(VALID)
    checked.clear()
    assert len(own()) == 7 and checked == ["tiny"]
    card.unlink()
    with pytest.warns(ContentWarning, match="found 'tiny_vitS16'"):
        assert len(own()) == 6


def test_errata_and_the_kept_risks_follow_the_files(home: Path) -> None:
    n_shipped = len(errata())
    assert summaries()[NAMES[0]] == summaries(encoders=[NAMES[0]])[NAMES[0]]
    (home / "results" / "errata.toml").write_text(ERRATUM.replace("dino_vits16", NAMES[0]))
    assert len(errata()) == n_shipped + 1 and summaries()[NAMES[0]].errata
    for wrong in (False, True):
        everyone = list(summaries(exclude_wrong=wrong))
        one_by_one = summaries(exclude_wrong=wrong, encoders=everyone)  # few enough to ask the rows
        assert summaries(exclude_wrong=wrong) == one_by_one and list(one_by_one) == everyone
    assert NAMES[0] not in summaries(exclude_wrong=True)


@pytest.mark.parametrize("content", [b"", b"no table", b"SQLite format 3\0" + bytes(500)])
def test_a_broken_copy_is_made_again(content: bytes, home: Path) -> None:
    rows = own()
    (copy,) = home.parent.glob("cache/own_rows-*.sqlite")
    copy.write_bytes(content)
    assert own() == rows
    with sqlite3.connect(copy) as table:
        assert table.execute("SELECT count(*) FROM rows").fetchone() == (6,)
    table.close()
    copy.unlink()
    assert own() == rows


def test_a_copy_that_breaks_off_is_removed_with_a_sentence(home: Path) -> None:
    rows = own()
    (copy,) = home.parent.glob("cache/own_rows-*.sqlite")
    whole = copy.read_bytes()
    with sqlite3.connect(copy) as table:
        (page,) = table.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rows'").fetchone()
        (size,) = table.execute("PRAGMA page_size").fetchone()
    table.close()
    copy.write_bytes(whole[: (page - 1) * size] + b"\xff" * size + whole[page * size :])
    with pytest.raises(ResultsError, match=r"own_rows-.* was damaged .*; ask again"):
        own()
    assert own() == rows


def test_without_a_cache_to_write_to_every_question_is_answered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", os.devnull)
    assert own() == in_files(home) == own()


def test_ids_like_an_unknown_one_are_searched_once_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nearest, names = reading.find_nearest_names, list[str]()

    def noting(name: str, *others: Iterable[str]) -> list[str]:
        names.append(name)
        return list(nearest(name, *others))

    monkeypatch.setattr(reading, "find_nearest_names", noting)
    write(home, "unknown", [{"encoder": "nobody", "seed": str(seed)} for seed in range(50)])
    with pytest.warns(ContentWarning, match="unknown.csv, line 2, .*'nobody'.* and 49 more of its lines are left out"):
        own()
    assert names == ["nobody"]
