"""The verb layers: the map in a terminal and without one, figures, JSON, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.cli import layers as verb

VIT, IMAGES = "pocket_simclr_vit_shapes", "shapes:classes=4,train=80,val=60,size_px=32"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluations")


def test_the_map_is_printed_with_what_the_choice_brings(root: Path, tmp_path: Path) -> None:
    text = run(
        "layers", VIT, IMAGES, "--resolutions", "48", "--out", str(root), "--figure", str(tmp_path / "map")
    ).output
    assert "80 training and 60 test images" in text
    assert "32 px" in text and "48 px" in text and "cls+avg" in text and "*" in text and ">" in text
    assert "zoo.load('pocket_simclr_vit_shapes" in text and "chosen" in text and "--verbose" in text
    assert "\n@cls+avg" in text  # without the id, which is above: a long one leaves room for the table
    with Image.open(tmp_path / "map.png") as drawn:
        assert min(drawn.size) > 200 and len(drawn.convert("L").getcolors(1 << 20) or []) > 20
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_json_has_every_variant_and_both_estimates(root: Path) -> None:
    found = document("layers", VIT, IMAGES, "--resolutions", "48", "--out", str(root))
    assert (
        len(found["variants"]) == 18 and {"gain_naive", "gain_nested", "optimism", "images", "copies"} <= found.keys()
    )
    assert found["gain_nested"]["ci_low"] <= found["gain_nested"]["value"] <= found["gain_nested"]["ci_high"]
    assert [one["is_default"] for one in found["variants"]].count(True) == 1


def test_a_narrow_terminal_has_the_sizes_below_each_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "get_terminal_width", lambda: 60)
    text = run("layers", VIT, IMAGES, "--resolutions", "48", "--probes", "0", "--out", str(root)).output
    assert sum(line.startswith("block") for line in text.splitlines()) == 2
    assert [line.strip() for line in text.splitlines() if line.endswith(" px")] == ["32 px", "48 px"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--blocks", "x"), "expected whole numbers by comma, and ranges as 3..7"),
        (("--blocks", "7..3"), "expected whole numbers by comma"),
        (("--blocks", "9"), "no block 9"),
        (("--resolutions", "33"), "px=33"),
    ],
)
def test_what_cannot_be_understood_is_refused(arguments: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    result = run("layers", VIT, IMAGES, *arguments, "--out", str(tmp_path), code=2)
    assert reason in " ".join(result.output.split())
