"""BEiT and BEiT-v2: one table of relative positions for all blocks, layer scales, a norm that timm would leave out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import timm
import torch
from torch import Tensor

from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.sources import saved
from tests.sources.vit_checkpoints import beit_of_deepspeed, beit_training
from tests.sources.vit_forward import beit, cls, cls_by_average
from tests.sources.vit_names import REDUCED, State, beit_shapes, filled
from zoo.encoders import Encoder
from zoo.encoders.layouts import get_layout
from zoo.errors import WeightsRefused

IMAGES = exact_images(2, 224)
LIKE = {1: "beit_vitB16_pt22k", 2: "beitv2_vitB16_pt1k"}
WEIGHTS = {version: filled(beit_shapes(REDUCED, version=version), seed=version) for version in LIKE}
TABLE = "rel_pos_bias.relative_position_bias_table"


def reduced(**more: Any) -> dict[str, Any]:
    options = {"embed_dim": REDUCED.width, "depth": REDUCED.depth, "num_heads": REDUCED.n_heads}
    return {"options": options | more}


def load_reduced(content: Any, *, like: str, dim: int = REDUCED.width, **more: Any) -> Encoder:
    encoder, _ = load_served(like, saved(content, legacy=False), architecture=reduced(**more), dim=dim)
    return encoder.double()


def with_a_table_a_block(weights: State) -> State:
    """As fine-tuning holds it."""
    state = {name: tensor for name, tensor in weights.items() if not name.startswith("rel_pos_bias.")}
    for number in range(REDUCED.depth):
        for name in ("relative_position_bias_table", "relative_position_index"):
            state[f"blocks.{number}.attn.{name}"] = weights[f"rel_pos_bias.{name}"].clone()
    return state


def class_token(weights: State) -> Tensor:
    return cls(beit(weights, IMAGES, n_heads=REDUCED.n_heads))


@cache
def target() -> State:
    with torch.device("meta"):
        model = timm.create_model("beit_base_patch16_224", num_classes=0, global_pool="", **reduced()["options"])
    return dict(model.state_dict())


def converted(weights: State) -> State:
    return get_layout("beit").convert({"model": weights}, target=target())


@for_each(LIKE)
def test_the_released_file_gives_the_class_token_of_its_source(version: int) -> None:
    encoder = load_reduced({"model": OrderedDict(WEIGHTS[version])}, like=LIKE[version])
    assert relative_difference(class_token(WEIGHTS[version]), encoder(IMAGES)) < SAME
    tables = [block.attn.relative_position_bias_table for block in encoder.backbone.blocks]
    assert all(torch.equal(table, WEIGHTS[version][TABLE]) for table in tables)
    assert len({table.data_ptr() for table in tables}) == REDUCED.depth


@for_each([beit_training, beit_of_deepspeed])
def test_what_the_training_script_saves_gives_the_features_of_its_source(write: Callable[[State], Any]) -> None:
    encoder = load_reduced(write(WEIGHTS[2]), like="beitv2_vitB16_pt1k_extractB", dim=2 * REDUCED.width)
    reference = cls_by_average(beit(WEIGHTS[2], IMAGES, n_heads=REDUCED.n_heads))
    assert relative_difference(reference, encoder(IMAGES)) < SAME


def test_tables_of_both_kinds_are_refused() -> None:
    name = "blocks.0.attn.relative_position_bias_table"
    with pytest.raises(WeightsRefused, match=name):
        load_reduced({"model": WEIGHTS[1] | {name: WEIGHTS[1][TABLE].clone()}}, like=LIKE[1])


def test_a_fine_tuned_file_is_refused_for_its_classifier() -> None:
    finetuned = with_a_table_a_block(WEIGHTS[1])
    finetuned = {name: tensor for name, tensor in finetuned.items() if not name.startswith(("lm_head", "mask_token"))}
    finetuned |= {"head.weight": torch.zeros(1000, REDUCED.width), "head.bias": torch.zeros(1000)}
    with pytest.raises(WeightsRefused, match=r"head\.bias"):
        load_reduced({"model": finetuned}, like=LIKE[1])
