"""Vision transformers trained on images alone: files as their sources write them give the features of their sources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.sources import saved
from tests.sources.vit_checkpoints import (
    dino_training,
    ibot_released,
    ibot_training,
    mae_decoder,
    mae_training,
    mocov3_training,
    msn_training,
    mugs_released,
    mugs_training,
    under,
)
from tests.sources.vit_forward import cls, cls_by_average, four_cls, vit
from tests.sources.vit_names import REDUCED, Size, State, filled, vit_shapes
from zoo.encoders import Encoder
from zoo.encoders.layouts import get_layout
from zoo.errors import WeightsRefused

FEATURES = {"cls": cls, "4xcls": four_cls, "cls+avg": cls_by_average}
WIDTHS = {"cls": 1, "4xcls": 4, "cls+avg": 2}
LIKE = {
    ("dino", "cls"): "dino_vitS16_last",
    ("dino", "4xcls"): "dino_vitS16",
    ("dino", "cls+avg"): "dino_vitS16_extractB",
    ("ibot", "cls"): "ibot_vitS16",
    ("ibot", "4xcls"): "ibot_vitS16_extractS",
    ("ibot", "cls+avg"): "ibot_vitL16_extractB",
    ("mugs", "cls"): "mugs_vits16_ep100",
    ("mugs", "4xcls"): "mugs_vits16_ep800_extractS",
    ("mugs", "cls+avg"): "mugs_vitb16_ep400_extractB",
    ("mae", "cls"): "mae_vitH14",
    ("msn", "cls"): "msn_vits16_ep800",
    ("msn", "4xcls"): "msn_vitb4_ep300_extracts",
    ("msn", "cls+avg"): "msn_vitl7_ep200_extractb",
    ("mocov3", "cls"): "mocov3_vitS_ep300",
}


@dataclass(frozen=True, slots=True)
class File:
    """How a source writes the network that is evaluated, next to another that is not."""

    layout: str
    content: Callable[[State, State, Size], Any]
    legacy: bool = False

    def written(self, weights: State, other: State, size: Size) -> bytes:
        content = self.content(weights, other, size)
        return content if isinstance(content, bytes) else saved(content, legacy=self.legacy)


def n_tokens(size: Size) -> int:
    return size.side**2 + 1


FILES: Mapping[str, File] = {
    "DINO released": File("dino", lambda w, other, size: OrderedDict(w)),
    "DINO training": File("dino", lambda w, other, size: dino_training(w, other, width=size.width, batch_norm=False)),
    "iBOT released": File("ibot", lambda w, other, size: ibot_released(w, width=size.width)),
    "iBOT student": File("ibot", lambda w, other, size: ibot_released(w, width=size.width, student=True)),
    "iBOT extracted": File("ibot", lambda w, other, size: w),
    "iBOT training": File("ibot", lambda w, other, size: ibot_training(w, other, width=size.width)),
    "Mugs released": File("mugs", lambda w, other, size: mugs_released(w, width=size.width)),
    "Mugs extracted": File("mugs", lambda w, other, size: mugs_released(w, width=size.width)["state_dict"]),
    "Mugs training": File("mugs", lambda w, other, size: mugs_training(w, other, width=size.width)),
    "MAE released": File("mae", lambda w, other, size: {"model": OrderedDict(w)}),
    "MAE with decoder": File(
        "mae",
        lambda w, other, size: {
            "model": w | filled(mae_decoder(width=size.width, n_tokens=n_tokens(size), patch_px=size.patch_px), seed=9)
        },
    ),
    "MAE training": File(
        "mae",
        lambda w, other, size: mae_training(w, width=size.width, n_tokens=n_tokens(size), patch_px=size.patch_px),
    ),
    "MAE by timm": File("mae", lambda w, other, size: save(w)),
    "MSN": File("msn", lambda w, other, size: msn_training(w, other, width=size.width)),
    "MSN, one process": File("msn", lambda w, other, size: msn_training(w, other, width=size.width, wrapped=False)),
    "MoCo v3": File("mocov3", lambda w, other, size: mocov3_training(w, other, width=size.width), legacy=True),
}


def reduced(size: Size, **more: Any) -> dict[str, Any]:
    """An architecture of one size, where a card says another."""
    options = {
        "embed_dim": size.width,
        "depth": size.depth,
        "num_heads": size.n_heads,
        "patch_size": size.patch_px,
        "img_size": size.image_px,
    }
    return {"backbone": "timm:vit_small_patch16_224", "options": options | more}


def load_reduced(name: str, layer: str, weights: State, *, size: Size = REDUCED, **more: Any) -> Encoder:
    file = FILES[name]
    encoder, _ = load_served(
        LIKE[file.layout, layer],
        file.written(weights, filled(vit_shapes(size), seed=2), size),
        architecture=reduced(size, **more),
        dim=WIDTHS[layer] * size.width,
        crop_px=size.image_px,
    )
    return encoder.double()


WEIGHTS = filled(vit_shapes(REDUCED), seed=1)
IMAGES = exact_images(2, 224)


@cache
def tokens() -> list[Tensor]:
    return vit(WEIGHTS, IMAGES, n_heads=REDUCED.n_heads)


@for_each(
    [
        ("DINO released", "cls+avg"),
        ("DINO training", "4xcls"),
        ("DINO training", "cls"),
        ("iBOT released", "cls+avg"),
        ("iBOT student", "4xcls"),
        ("iBOT extracted", "cls"),
        ("iBOT training", "cls"),
        ("Mugs released", "cls+avg"),
        ("Mugs extracted", "cls"),
        ("Mugs training", "4xcls"),
        ("MAE released", "cls"),
        ("MAE with decoder", "cls"),
        ("MAE training", "cls"),
        ("MAE by timm", "cls"),
        ("MSN, one process", "cls"),
        ("MoCo v3", "cls"),
    ],
    arguments=2,
)
def test_every_file_of_a_source_gives_the_features_of_its_source(name: str, layer: str) -> None:
    encoder = load_reduced(name, layer, WEIGHTS)
    assert relative_difference(FEATURES[layer](tokens()), encoder(IMAGES)) < SAME


@for_each([(4, "4xcls"), (7, "cls+avg")], arguments=2)
def test_msn_with_small_patches_gives_the_features_of_its_source(patch_px: int, layer: str) -> None:
    size = Size(64, 5, 4, patch_px, image_px=58)  # pixels that do not fill a patch are left out
    weights, images = filled(vit_shapes(size), seed=3), exact_images(2, size.image_px)
    encoder = load_reduced("MSN", layer, weights, size=size)
    reference = FEATURES[layer](vit(weights, images, n_heads=size.n_heads))
    assert relative_difference(reference, encoder(images)) < SAME


@for_each([name for name in FILES if "training" in name and "MAE" not in name] + ["MSN"])
def test_of_two_networks_in_a_file_the_one_that_the_authors_evaluate_is_taken(name: str) -> None:
    file, other = FILES[name], filled(vit_shapes(REDUCED), seed=2)
    taken = get_layout(file.layout).convert(file.content(WEIGHTS, other, REDUCED), target={})
    assert taken.keys() == WEIGHTS.keys()
    assert all(torch.equal(tensor, WEIGHTS[key]) for key, tensor in taken.items())
    assert not any(torch.equal(tensor, other[key]) for key, tensor in taken.items())


@torch.no_grad()
def test_of_ijepa_the_averaged_network_is_read_and_its_patch_tokens_are_averaged() -> None:
    shapes = vit_shapes(REDUCED) | {"pos_embed": (1, REDUCED.side**2, REDUCED.width)}
    del shapes["cls_token"]
    target, anchor = filled(shapes, seed=1), filled(shapes, seed=2)
    content = {name: under("module.", state) for name, state in (("encoder", anchor), ("target_encoder", target))}
    how: dict[str, Any] = {
        "architecture": reduced(REDUCED, class_token=False) | {"backbone": "timm:vit_huge_patch14_gap_224"},
        "dim": REDUCED.width,
        "crop_px": 224,
    }
    encoder, _ = load_served("ijepa_vitH14_in1k", saved(content | {"epoch": 300}, legacy=False), **how)
    state = encoder.backbone.state_dict()
    assert state.keys() == target.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in target.items())
    images = IMAGES.float()
    assert torch.allclose(encoder(images), encoder.backbone.forward_features(images).mean(dim=1), atol=1e-6)
    with pytest.raises(WeightsRefused, match="expected the key 'target_encoder'"):
        load_served("ijepa_vitH14_in1k", saved({"encoder": content["encoder"]}, legacy=False), **how)
