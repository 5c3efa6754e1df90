"""The demo: its numbers are the measured ones, its features are real and are read back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoo.cli import zoo as command
from zoo.features import load_features
from zoo.results import summaries


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict:
    out = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(command, ["demo", "--json", "--images", "40", "--out", str(out)])
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


def test_the_features_it_saves_are_those_of_the_encoder_that_it_names(document: dict) -> None:
    features = load_features(Path(document["folder"]))
    assert features.x.shape == (40, 384)
    assert features.origin.encoder == document["encoder"] == "init_vitS16"
    assert document["read_back_equal"] is True
    assert document["loaded_through"].startswith("torch.hub.load")


def test_raw_pixels_and_chance_frame_the_accuracy_honestly(document: dict) -> None:
    assert 0 <= document["accuracy"] < document["pixel_accuracy"] <= 1
    assert document["pixel_accuracy"] > document["majority_accuracy"]


def test_as_text_it_shows_the_ranking_the_recommendation_and_the_comparison(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["demo", "--images", "20", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for words in ("best of all", "$ zoo recommend", "$ zoo compare", "probe_gen", "read back: equal"):
        assert words in result.output


@pytest.mark.parametrize(
    ("module", "library"), [("numpy", "numpy"), ("torch", "torch"), ("PIL", "pillow"), ("sklearn", "scikit-learn")]
)
def test_without_a_library_it_ends_with_one_sentence(tmp_path: Path, module: str, library: str) -> None:
    script = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {module!r}:
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
    assert (printed.returncode, printed.stdout) == (2, "")
    assert printed.stderr.startswith(f"Error: The demo needs the library {library!r}, which is not installed; run: ")
    assert printed.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_too_many_images_are_misuse(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["demo", "--images", "1798", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []
