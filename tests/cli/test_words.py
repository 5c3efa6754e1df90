"""What verbs say of one thing, of equal ends, and of options that have nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import REPOSITORY, Run
from zoo.cli import zoo
from zoo.errors import format_count, format_range


def said(*arguments: str) -> str:
    return " ".join(CliRunner().invoke(zoo, arguments).output.split())


def test_one_thing_is_singular_and_equal_ends_are_one_number() -> None:
    assert (format_count(1, "row"), format_count(0, "row"), format_count(1_200, "class", "classes")) == (
        "1 row",
        "0 rows",
        "1,200 classes",
    )
    assert (format_range(801, 801), format_range(1, 2)) == ("801", "1 to 2")


@pytest.mark.parametrize(
    ("typed", "shown"), [("100000000", "100M"), ("1e8", "100M"), ("22500k", "22500k"), ("93456789", "93456789")]
)
def test_a_number_of_parameters_is_said_exactly_and_as_people_type_it(typed: str, shown: str) -> None:
    text = said("recommend", "--labels", "5000", "--max-parameters", typed, "--top", "2")
    assert text.count(f"--max-parameters {shown}") == 2  # why others are left out, and the next command


def test_a_glob_lists_encoders_by_id() -> None:
    table = CliRunner().invoke(zoo, ["list", "dino_v*", "--columns", "encoder"]).output.split()[1:12]
    assert len(table) == 11 and table == sorted(table, key=str.casefold)


def test_ranking_says_that_it_downloads_nothing() -> None:
    assert "Got --offline, but ranking downloads nothing" in said("recommend", "--labels", "500", "--offline")


def test_encoders_that_cannot_be_fetched_for_one_reason_are_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    lines = CliRunner().invoke(zoo, ["get", "dino_v*"]).output.splitlines()
    assert [line for line in lines if "forbids to fetch" in line] == lines[-1:]
    assert "dino_vitS16, " in lines[-1]


def test_a_named_encoder_that_a_constraint_leaves_out_is_named(tmp_path: Path) -> None:
    named = "pocket_simclr_rn_shapes,pocket_simclr_vit_shapes"
    text = said("choose", "digits", "--encoders", named, "--max-dim", "60", "--dry-run", "--out", str(tmp_path))
    assert "Left out: pocket_simclr_vit_shapes, --max-dim 60." in text


@pytest.mark.parametrize("verb", ["data", "choose", "evaluate", "layers", "features", "look", "metric rankme"])
def test_a_scale_that_does_nothing_is_refused_by_its_name(verb: str) -> None:
    encoder = [] if verb in ("data", "choose") else ["pocket_simclr_rn_shapes"]
    text = said(*verb.split(), *encoder, "digits", "--scale", "0,100")
    assert text == (
        "Error: --scale 0,100 has no effect: no image of 'digits' has values of more than 8 bits; leave it out."
    )


def test_a_misspelt_image_set_is_answered_shortly_and_without_torch(run_apart: Run) -> None:
    script = (
        "import sys; from click.testing import CliRunner; from zoo.cli import zoo; "
        "done = CliRunner().invoke(zoo, ['evaluate', 'pocket_simclr_rn_shapes', 'digit']); "
        "print('torch' in sys.modules, done.output)"
    )
    text = run_apart(script, path=[REPOSITORY]).stdout
    assert text.startswith("False Error: There is no image set named 'digit'; did you mean digits?") and len(text) < 400
