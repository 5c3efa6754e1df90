"""The kept copy of the summaries: it is quick, always as new as the files, and never needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.conftest import REPOSITORY, Run
from tests.result_rows import ERRATUM, AddRows, user_of
from zoo.errors import ContentWarning
from zoo.results.derived import summaries

SCRIPT = """
import sys
import zoo.results.derived
print([module for module in sys.argv[1].split() if module in sys.modules])
print([zoo.results.derived.summaries(exclude_wrong=wrong) for wrong in (False, True)])
print([module for module in sys.argv[1].split() if module in sys.modules])
"""


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return user_of(tmp_path, monkeypatch)


def test_a_second_start_gives_the_same_and_reads_and_derives_nothing(
    run_apart: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    makers = ("csv", "tomllib", "zoo.results.rows", "zoo.results.rows", "zoo.results.rows", "zoo.results.vocabulary")
    first, second = (run_apart(SCRIPT, " ".join(makers), path=[REPOSITORY]) for _ in range(2))
    assert not first.stderr + second.stderr
    (before, made, imported), (_, kept, needed) = first.stdout.splitlines(), second.stdout.splitlines()
    assert before == needed == "[]"
    assert imported == str([*makers])
    assert kept == made == str([summaries(), summaries(exclude_wrong=True)])


def test_results_need_no_heavy_library(run_apart: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        done = run_apart(SCRIPT, "torch numpy pandas statistics", path=[REPOSITORY])
        assert done.stdout.splitlines()[-1] == "[]"


def test_without_a_cache_everything_is_derived_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    expected = summaries()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "file" / "cache"))
    assert summaries() == summaries() == expected


def test_a_change_of_a_results_file_is_seen_at_once(add_rows: AddRows) -> None:
    shipped = summaries()
    unmeasured = {"encoder": "swav_rn50w5"}
    add_rows(unmeasured)
    assert summaries()["swav_rn50w5"].errors == {"100%": 24.5}
    add_rows(unmeasured | {"value": "24.6"})
    assert summaries()["swav_rn50w5"].errors == {"100%": 24.6}
    add_rows().unlink()
    assert summaries() == shipped


def test_a_change_of_the_errata_is_seen_at_once(add_rows: AddRows) -> None:
    shipped, believable = summaries(), summaries(exclude_wrong=True)
    errata = add_rows().with_name("errata.toml")
    errata.write_text(ERRATUM)
    assert set(believable) - set(summaries(exclude_wrong=True)) == {"dino_vitS16"}
    assert shipped["dino_vitS16"].errata == ()
    assert summaries()["dino_vitS16"].errata[0].kind == "suspicious"
    errata.unlink()
    assert (summaries(), summaries(exclude_wrong=True)) == (shipped, believable)


def test_a_card_that_is_gone_takes_the_right_to_its_rows_along(add_rows: AddRows) -> None:
    card = add_rows({"encoder": "tiny_vitS16"}).parent.parent / "metadata" / "tiny.toml"
    card.parent.mkdir()
    card.write_text(VALID)
    for _ in range(2):
        assert summaries()["tiny_vitS16"].errors == {"100%": 24.5}
    card.unlink()
    with pytest.warns(ContentWarning, match=r"column 'encoder': found 'tiny_vitS16'"):
        assert "tiny_vitS16" not in summaries()


@pytest.mark.parametrize("exclude_wrong", [False, True])
def test_a_wrong_row_is_told_every_time_although_a_copy_of_the_rest_is_kept(
    add_rows: AddRows, exclude_wrong: bool
) -> None:
    shipped = summaries(exclude_wrong=exclude_wrong)
    add_rows({"value": "none"})
    for _ in range(2):
        with pytest.warns(ContentWarning, match="column 'value'"):
            assert summaries(exclude_wrong=exclude_wrong) == shipped
