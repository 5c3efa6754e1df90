"""What nobody measured: kinds of images, encoders without any number, and constraints that leave no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.expectations import list_domains, read_difficulties
from zoo.results.derived import summaries
from zoo.results.reported import reported_numbers

X_RAYS = ("recommend", "--classes", "2", "--labels", "5k", "--domain", "radiology")
NOBODY = "nobody measured a probe on radiology images"


def said(text: str) -> str:
    return " ".join(text.split()).casefold()


@pytest.fixture(scope="module")
def numberless() -> list[str]:
    """Cards of which nothing was measured here or reported, as most of special images are."""
    known = summaries().keys() | {one.encoder for one in reported_numbers()}
    return [name for name, card in load_catalogue().items() if name not in known and not card.is_untrained]


def test_kinds_of_images_that_nobody_measured_are_answered_and_that_is_said_without_being_asked() -> None:
    unmeasured = [kind for kind in list_domains() if kind not in read_difficulties()]
    assert {"radiology", "skin", "biology", "microscopy"} <= set(unmeasured)
    for kind in unmeasured:
        found = document(*X_RAYS[:-1], kind)
        assert found["encoders"]
        assert any(f"nobody measured a probe on {kind} images" in said(one) for one in found["cautions"])
    assert NOBODY in said(run(*X_RAYS).stderr)
    assert "nobody measured" not in said(run(*X_RAYS[:-1], "satellite").stderr)


def test_a_race_on_such_images_says_so_too(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for i in range(24):
        path = tmp_path / "x-rays" / ("train", "val")[i // 12] / ("normal", "opacity")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 255, (16, 16), np.uint8)).save(path)
    asked = ("choose", str(tmp_path / "x-rays"), "--dry-run", "--domain", "radiology", "--device", "cpu")
    result = run(*asked, "--encoders", "3", "--out", str(tmp_path / "none"))
    assert NOBODY in said(result.output)


@pytest.mark.parametrize("verb", [X_RAYS[:-1], ("choose", "digits", "--dry-run", "--domain")], ids=lambda verb: verb[0])
def test_what_is_no_kind_of_images_is_one_sentence_with_those_there_are(verb: tuple[str, ...]) -> None:
    for kind, words in (("robots", "radiology"), ("x-rays", "there are natural"), ("captions", "there are natural")):
        result = run(*verb, kind, code=2)
        assert result.stdout == "" and kind in result.stderr and words in said(result.stderr)


def test_a_card_without_any_number_is_shown_and_what_is_missing_is_one_sentence(numberless: list[str]) -> None:
    name = "rad_dino_vitB14"
    assert name in numberless
    assert "nothing was measured of it" in said(run("show", name, "--all").stdout)
    assert document("show", name)["expected"]["rests_on"] == "similar encoders"
    for asked, words in (
        ((), f"nothing was measured of {name}"),
        (("--reported",), f"nothing was reported of {name}"),
        (("--dataset", "eurosat"), f"nothing was measured of {name} on eurosat"),
    ):
        result = run("results", name, *asked, code=1)
        assert words.casefold() in said(result.stderr) and result.stdout == ""
    assert run("compare", name, "chexagent_vitL16_512").stdout


def test_where_a_constraint_leaves_only_expected_ones_all_rest_on_kin_and_measured_ranks_say_what_removes_them(
    numberless: list[str],
) -> None:
    families = [load_catalogue()[name].family for name in numberless]
    assert "pixio" in families
    asked = ("recommend", "--labels", "20k", "--where", 'card_family == "pixio"')
    found = document(*asked)
    assert {one["rests_on"] for one in found["encoders"]} == {"similar encoders"}
    assert any("any number known" in one for one in found["cautions"])
    assert "any number known" in said(run(*asked).stderr)
    for option in (("--measured",), ("--by", "reported-linear")):
        result = run(*asked[:1], *(asked[1:3] if option[0] == "--measured" else ()), *option, *asked[3:], code=1)
        assert result.stdout == "" and "no encoder is left" in said(result.stderr)
        assert "removes all" in said(result.stderr)
