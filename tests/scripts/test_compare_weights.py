"""The page of the same weights in other libraries: words, numbers and table agree, and name encoders that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import compare_weights as script
import torch

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.encoders.build import build_empty_encoder


def test_the_page_is_what_words_numbers_and_table_say(repository: Path) -> None:
    page = script.render_page(script.read_words(), script.read_numbers(), script.read_told())
    assert (repository / "docs" / "same_weights.md").read_text() == page, (
        "run: python scripts/compare_weights.py --render"
    )


def test_each_family_has_a_module_words_and_numbers_of_the_pinned_versions() -> None:
    numbers = script.read_numbers()
    assert set(script.FAMILIES) == set(script.read_words()) == set(numbers)
    for family, found in numbers.items():
        versions = {name: found["versions"][name].partition("+")[0] for name in script.REQUIREMENTS}
        assert versions == script.REQUIREMENTS, family
        assert found["differences"], family


def test_words_are_of_subjects_and_libraries_that_the_page_shows() -> None:
    for family, about in script.read_words().items():
        subjects = {name for name, value in about.items() if isinstance(value, dict)} - {"front"}
        assert set(about) - subjects == {"title", "encoders", "network", "follows", "front"}, family
        assert subjects <= set(script.SUBJECTS), family
        assert all(set(about[name]) <= set(script.LIBRARIES) for name in subjects), family
    for found in script.read_numbers().values():
        assert {one["about"] for one in found["differences"]} <= set(script.SUBJECTS)


def test_the_table_at_the_front_names_numbers_of_each_family_and_leaves_out_who_agrees() -> None:
    words, numbers = script.read_words(), script.read_numbers()
    head = script.render_page(words, numbers, script.read_told()).partition("\n## ")[0]
    rows = {
        cells[1]: cells[2:-1]
        for cells in ([*map(str.strip, line.split("|"))] for line in head.splitlines())
        if cells[1:]
    }
    for family, about in words.items():
        _, networks, inputs, follows = rows[about["title"]]
        assert follows == about["front"]["follows"], family
        for kind, cell in (("network", networks), ("input", inputs)):
            for who, *named in about["front"][kind]:
                found = [
                    one
                    for one in numbers[family]["differences"]
                    if [one["about"], one["between"], one["case"]] == named
                ]
                assert len(found) == (len(named) == 3), (family, who)
                is_told = any(text.startswith(who) for text in cell.split("; "))
                assert is_told == (not found or found[0]["value"] >= 1e-5), (family, who)


def test_every_encoder_that_is_named_is_one(repository: Path) -> None:
    named = {encoder for about in script.read_words().values() for encoder in about["encoders"]}
    told = {encoder for row in script.read_told() for encoder in row["encoders"].split()}
    assert told <= named
    assert named <= set(load_catalogue())


@torch.no_grad()
@for_each([(0, 518, True), (0, 224, False), (4, 224, True)], arguments=3)
def test_dinov2_of_transformers_is_the_card_at_518_px_or_with_registers(n_registers: int, px: int, alike: bool) -> None:
    from same_weights.shared import as_published, batch, randomise, relative, shortened, to_transformers_vit
    from transformers import Dinov2Config, Dinov2Model, Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    card = load_catalogue()["dinov2_vitS14_reg4" if n_registers else "dinov2_vitS14"]
    ours = build_empty_encoder(shortened(card, 1))
    randomise(ours.backbone)
    state = dict(ours.backbone.state_dict())
    if n_registers:  # timm's file has the position of the class token in the class token
        state["pos_embed"] = torch.cat((torch.zeros(1, 1, 384), state["pos_embed"]), dim=1)
    config: Any = {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 1, "image_size": 518}
    kind, settings = (
        (Dinov2WithRegistersModel, Dinov2WithRegistersConfig(**config, num_register_tokens=4, patch_size=14))
        if n_registers
        else (Dinov2Model, Dinov2Config(**config, patch_size=14))
    )
    theirs = as_published(kind, settings, to_transformers_vit(state), unused="mask_token")
    ours.px = px
    inputs = batch(px, n=1)
    assert (relative(ours(inputs), theirs(inputs).pooler_output) < 1e-5) == alike


@torch.no_grad()
def test_mae_of_transformers_gives_the_class_token_of_the_card_once_nothing_is_hidden() -> None:
    from same_weights.shared import as_published, batch, randomise, relative, renamed, shortened, to_transformers_vit
    from transformers import ViTMAEConfig, ViTMAEModel

    ours = build_empty_encoder(shortened(load_catalogue()["mae_vitB16"], 1))
    randomise(ours.backbone)
    names = ((r"norm1\.", "layernorm_before."), (r"norm2\.", "layernorm_after."), ("^", "vit."))
    published = renamed(to_transformers_vit(ours.backbone.state_dict()), *names)
    inputs = batch(224, n=1)
    tokens = {}
    for share in (0.0, 0.75):
        network = as_published(ViTMAEModel, ViTMAEConfig(num_hidden_layers=1, mask_ratio=share), published)
        tokens[share] = [network(inputs).last_hidden_state for _ in range(2)]
    first, second = tokens[0.0]
    assert relative(ours(inputs), first[:, 0]) < 1e-5
    assert relative(first[:, 1:], second[:, 1:]) > 0.1, "patches would come in the order of the image"
    assert [one.shape[1] for one in tokens[0.75]] == [50, 50]
    assert relative(ours(inputs), tokens[0.75][0][:, 0]) > 0.01
