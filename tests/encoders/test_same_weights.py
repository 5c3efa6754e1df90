"""What the table says of other places of the same weights is so, on random weights in timm and transformers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.cards import catalogue as cards
from zoo.cards.catalogue import load_catalogue
from zoo.cards.same_weights import COLUMNS, SameWeights, find_same_weights, read_same_weights
from zoo.encoders import unlisted
from zoo.encoders.build import build_empty_encoder
from zoo.errors import ContentError, NameNote
from zoo.files import get_content_folder

ROWS = read_same_weights(get_content_folder("metadata") / "same_weights.tsv")


def drawn(network: nn.Module) -> Any:
    """A network whose parameters are random numbers, none of them alike."""
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return network.eval()


def shortened(name: str, depth: int = 1) -> Any:
    card = load_catalogue()[name]
    options = card.architecture.options | {"depth": depth}
    return build_empty_encoder(replace(card, architecture=replace(card.architecture, options=options)))


def images_of(px: int) -> Tensor:
    return torch.randn(1, 3, px, px, generator=torch.Generator().manual_seed(1))


def is_same(one: Tensor, other: Tensor) -> bool:
    """Same but for rounding, which is many times smaller than what the table speaks of."""
    return float((one - other).norm() / one.norm()) < 1e-5


def test_every_row_is_of_an_encoder_and_of_a_place() -> None:
    assert {one.encoder for one in ROWS} <= set(load_catalogue())
    assert len({(one.encoder, one.place) for one in ROWS}) == len(ROWS)
    known = set(timm.list_pretrained())
    for one in ROWS:
        assert one.place == "timm" or re.fullmatch(r"timm:[\w.]+|hf:[\w.-]+/[\w.-]+", one.place)
        assert not one.place.startswith("timm:") or one.place.removeprefix("timm:") in known


@for_each(["place\tsays\na\tb\n", "\t".join(COLUMNS) + "\na b\thf:a/b\tis other\n"])
def test_a_damaged_table_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "same_weights.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ContentError, match=r"same_weights\.tsv cannot be read .*; restore it"):
        read_same_weights(path)


def test_show_says_in_a_line_where_the_same_weights_give_other_features() -> None:
    (line,) = [
        line
        for line in run("show", "dinov2_vitS14", "--all").stdout.splitlines()
        if "hf:facebook/dinov2-small:" in line
    ]
    assert line.split()[:2] == ["other", "features"] and "the same at 518 px" in line
    told = {one["place"]: one["says"] for one in document("show", "dinov2_vitS14")["same_weights"]}
    assert set(told) == {"hf:facebook/dinov2-small", "timm"}
    assert document("show", "dino_vitS16")["same_weights"] == []


def test_show_of_a_place_names_the_encoder_with_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlisted, "_BY_PLACE", {})
    monkeypatch.setattr(cards, "_UNLISTED", {})
    name = "timm:vit_base_patch16_clip_224.openai"
    with pytest.warns(NameNote, match=r"of the same weights is 'clip_vitB16', whose features are others: GELU "):
        unlisted.load_unlisted_card(name)
    (line,) = [line for line in run("show", name, "--all").stdout.splitlines() if line.startswith("  other features")]
    assert "than clip_vitB16, of the same weights: GELU is the exact one" in line
    assert document("show", name)["same_weights"][0]["encoder"] == "clip_vitB16"
    assert [one.place for one in find_same_weights(load_catalogue()["clip_vitB16@avg"])] == [
        one.place for one in ROWS if one.encoder == "clip_vitB16"
    ]


@torch.no_grad()
def test_timm_averages_the_patches_of_dinov3_and_the_card_takes_the_class_token() -> None:
    ours = drawn(shortened("dinov3_vitS16_lvd1689m"))
    plain, token = (
        timm.create_model("vit_small_patch16_dinov3", num_classes=0, depth=1, **more).eval()
        for more in ({}, {"global_pool": "token"})
    )
    for network in (plain, token):
        network.load_state_dict(ours.backbone.state_dict())
    own = ours(images_of(256))
    assert is_same(own, token(images_of(256))) and not is_same(own, plain(images_of(256)))


@for_each([one for one in ROWS if "GELU" in one.says or (one.encoder.startswith("siglip") and "hf:" in one.place)])
def test_what_is_said_of_a_gelu_is_that_of_timm(row: SameWeights) -> None:
    place = row.place if row.place.startswith("timm:") else str(load_catalogue()[row.encoder].weights.url)
    with torch.device("meta"):
        network = timm.create_model(place.removeprefix("timm:").partition(".")[0], num_classes=0)
    kinds = {type(module).__name__ for module in network.modules() if "GELU" in type(module).__name__}
    is_exact = "has the exact one" in row.says or "GELU is the exact one" in row.says
    assert kinds == {"GELU" if is_exact else "GELUTanh"}


def test_the_network_of_the_clip_cards_has_the_quick_gelu() -> None:
    kinds = {type(module).__name__ for module in shortened("clip_vitB32").modules() if "GELU" in type(module).__name__}
    assert kinds == {"QuickGELU"}


OF_TIMM = [one for one in ROWS if one.place == "timm" and "context encoder" not in one.says]


@for_each([*OF_TIMM, *(one for one in ROWS if one.encoder.startswith("siglip"))])
def test_what_is_said_of_the_input_of_timm_is_in_its_settings(row: SameWeights) -> None:
    card = load_catalogue()[row.encoder]
    place = next(str(place) for place in (card.weights.url, *card.weights.mirrors) if str(place).startswith("timm:"))
    config = timm.get_pretrained_cfg(place.removeprefix("timm:"))
    said = {
        "takes images of 518 px": (config.input_size[-1], config.crop_pct) == (518, 1.0),
        "crops 224 px of 248": (config.input_size[-1], int(224 / config.crop_pct)) == (224, 248),
        "the card, as timm, crops the middle 90 %": config.crop_pct == 0.9 and card.preprocess.fit == "crop",
        "the mean of the patch tokens": True,
        "of up to 256 patches": (card.preprocess.crop_px // 16) ** 2 == 576,
    }
    assert [is_so for words, is_so in said.items() if words in row.says] == [True]
