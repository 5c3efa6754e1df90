"""Cards that a script makes from timm's registry: that the pinned timm says the same, and how a family is added."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts import derive_cards
from tests.each import for_each
from zoo.files import get_content_folder

METADATA = get_content_folder("metadata")
DERIVED = sorted((METADATA / "derived").glob("*.toml"))


@for_each(DERIVED, name=lambda path: path.name)
def test_the_pinned_timm_and_the_cards_agree_on_names_input_normalisation_place_and_licence(path: Path) -> None:
    family = derive_cards.Family(METADATA / path.name)
    entries = tomllib.loads(path.read_text())["encoders"]
    assert entries.keys() == family.names.keys(), f"run scripts/derive_cards.py {path.stem}"
    for identifier, name in family.names.items():
        stated, now = entries[identifier], derive_cards.of_config(name)
        library, _, backbone = stated["architecture"]["backbone"].partition(":")
        backbone = backbone if library == "timm" else stated["architecture"]["options"]["name"]
        assert f"timm:{backbone}" == now.pop("architecture")["backbone"]
        for part, facts in now.items():
            for field, value in facts.items():
                assert stated[part][field] == value, f"{identifier}, {part}.{field}"


def test_every_card_file_that_asks_for_derived_cards_has_them() -> None:
    asking = [path.name for path in METADATA.glob("*.toml") if "derive" in tomllib.loads(path.read_text())]
    assert sorted(asking) == [path.name for path in DERIVED]


FAMILY = """
[derive.timm]
"vit_*_patch14_dinov2.lvd142m" = "mine_vit{1}14"

[derive.left_out]
"vit_base_*" = "left out"
"vit_large_*" = "left out"
"vit_giant_*" = "left out"

[[derive.facts]]
of = ["vit_*_patch14_*"]
objective.variant = "size {1}"

[defaults.representation]
layer = "cls"
"""


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(derive_cards, "METADATA", tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(FAMILY)
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status."""
    monkeypatch.setattr("sys.argv", ["derive_cards.py", *arguments])
    try:
        derive_cards.main()
    except SystemExit as end:
        assert isinstance(end.code, int), end.code
        return end.code
    return 0


def test_a_pattern_gives_cards_and_the_check_says_what_is_new_gone_and_changed(
    family: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--check") == 1
    assert "new      mine_vitS14" in capsys.readouterr().out
    assert not (family.parent / "derived").exists()
    assert run(monkeypatch) == 0
    written = (family.parent / "derived" / "mine.toml").read_text()
    card: dict[str, Any] = tomllib.loads(written)["encoders"]["mine_vitS14"]
    assert card["architecture"]["n_parameters"] == 22_056_192
    assert (card["architecture"]["native_px"], card["architecture"]["size_step_px"]) == (518, 14)
    assert card["representation"] == {"dim": 384, "layer": "cls"}
    assert card["objective"] == {"variant": "size S"}
    capsys.readouterr()
    assert run(monkeypatch, "--check") == 0  # the same again
    assert capsys.readouterr().out == ""
    (family.parent / "derived" / "mine.toml").write_text(
        written.replace("crop_px = 518", "crop_px = 224") + '\n[encoders.gone]\nweights = { url = "timm:a.b" }\n'
    )
    assert run(monkeypatch, "--check") == 1
    out = capsys.readouterr().out
    assert "changed  mine_vitS14  preprocess.crop_px: 224 -> 518" in out
    assert "gone     gone  timm:a.b" in out
