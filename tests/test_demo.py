"""The demo: its numbers are the measured ones, and two real encoders are measured as they were before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoo.cli import zoo as command
from zoo.features import load_features
from zoo.results.derived import summaries

PARTS = ("approximation", "usability", "probe_generalization", "encoder_generalization")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict:
    out = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(command, ["demo", "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_best_encoder_of_each_setting_is_the_minimum_of_the_measurements(document: dict) -> None:
    measured = summaries(exclude_wrong=True)
    for best in document["best"]:
        errors = {
            name: summary.errors[best["setting"]]
            for name, summary in measured.items()
            if best["setting"] in summary.errors and not name.startswith(("sup_", "init_"))
        }
        assert best["error"] == min(errors.values()) == errors[best["encoder"]]
        assert best["small_error"] >= best["error"]


def test_both_encoders_are_measured_and_decomposed_on_held_out_images(document: dict) -> None:
    assert [one["encoder"] for one in document["evaluations"]] == ["pocket_simclr_rn_digits", "pocket_mae_vit_digits"]
    for one in document["evaluations"]:
        errors = {error["setting"]: error["value"] for error in one["errors"]}
        assert 0 < errors["full"] < errors["5-shot"] < 90  # chance
        parts = [one["decomposition"]["parts"][name]["value"] for name in PARTS]
        assert sum(parts) == pytest.approx(errors["full"])
        assert (one["n_train"], one["n_test"]) == (1346, 451)


def test_its_numbers_are_those_of_the_results(document: dict) -> None:
    standing = {one["encoder"]: one for one in document["standing"]}
    assert len(standing) >= 12
    for one in document["evaluations"]:
        for error in one["errors"]:
            recorded = standing[one["encoder"]][error["setting"]]
            assert error["value"] == pytest.approx(recorded, abs=0.5)  # two images of 451, for rounding elsewhere


def test_features_and_probes_are_kept_where_it_was_told(document: dict) -> None:
    for one in document["evaluations"]:
        features = load_features(Path(one["features"]["val"]))
        assert (len(features), features.origin.encoder) == (451, one["encoder"])


def test_as_text_it_shows_every_step(tmp_path_factory: pytest.TempPathFactory, document: dict) -> None:
    folder = Path(document["evaluations"][0]["features"]["val"]).parents[2]  # what was computed above is found there
    result = CliRunner().invoke(command, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    for words in (
        "best of all",
        "$ zoo recommend",
        "$ zoo compare",
        "$ zoo evaluate",
        "encoder generalization",
        "ImageNet's law, extrapolated",
        "Where they stand",
        "pocket_simclr_rn_digits <",
        f" of {len(document['standing'])} encoders: zoo results --dataset digits shows all",
    ):
        assert words in result.output
    assert "randomised" not in result.output
    assert result.output.partition("Where they stand")[2].count("\n") <= 18  # of a terminal of 24 lines


def test_without_a_library_it_ends_with_one_sentence(tmp_path: Path) -> None:
    script = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "sklearn":
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
from zoo.cli import main
main()
"""
    printed = subprocess.run(
        [sys.executable, "-c", script, "demo", "--json", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (printed.returncode, printed.stdout) == (1, "")
    assert printed.stderr.startswith("Error: The demo needs the library 'scikit-learn', which is not installed; run: ")
    assert printed.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
