"""DINOv2's positions at other sizes than theirs, by a formula of their own, in timm's network built for that size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from torch import Tensor

import zoo
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import list_representations
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.sizes import derive_sized_card
from zoo.errors import QueryError

SAME = 5e-5
"""Of the mean magnitude of the features: in float32 the place of a new position among 37 old ones is off by some
2e-6 of their distance a step of its computation, and neighbours among random positions differ by several."""
SMALL: dict[str, Any] = {"depth": 2, "embed_dim": 96, "num_heads": 3}
NATIVE_PX, PATCH_PX = 518, 14
WITHOUT_REGISTERS = ("dinov2_vitS14", "dinov2_vitB14", "dinov2_vitL14", "dinov2_vitg14")


def small() -> EncoderCard:
    card = load_catalogue()["dinov2_vitS14"]
    architecture = replace(card.architecture, options=card.architecture.options | SMALL)
    return replace(card, architecture=architecture, representation=replace(card.representation, dim=96))


def with_random_positions() -> Encoder:
    encoder = build_encoder(small(), seed=3)
    positions: Any = encoder.backbone.pos_embed
    positions.normal_(generator=torch.Generator().manual_seed(4))
    return encoder


def images(px: int) -> Tensor:
    return torch.randn(2, 3, px, px, generator=torch.Generator().manual_seed(px))


def cubic(distance: float) -> float:
    """Keys' kernel of cubic convolution with a slope of -0.75, as most libraries of images have it."""
    x, a = abs(distance), -0.75
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def weights(n_old: int, n_new: int) -> Tensor:
    """What every old place adds to every new one, float64 (new, old); beyond the edge is what is at the edge."""
    matrix = torch.zeros(n_new, n_old, dtype=torch.float64)
    for new in range(n_new):
        at = (new + 0.5) * n_old / (n_new + 0.1) - 0.5
        for old in range(int(at // 1) - 1, int(at // 1) + 3):
            matrix[new, min(max(old, 0), n_old - 1)] += cubic(at - old)
    return matrix


def resampled(positions: Tensor, n_old: int, n_new: int) -> Tensor:
    grid = positions[0, 1:].double().reshape(n_old, n_old, -1)
    along = weights(n_old, n_new)
    grid = torch.einsum("ir,jc,rcw->ijw", along, along, grid)
    return torch.cat((positions[0, :1], grid.flatten(0, 1).float()))[None]


def timms(encoder: Encoder, px: int, positions: Tensor) -> Any:
    """timm's network for this size, with these positions."""
    network = timm.create_model("vit_small_patch14_dinov2", num_classes=0, img_size=px, global_pool="", **SMALL)
    network.load_state_dict(encoder.backbone.state_dict() | {"pos_embed": positions})
    return network.eval()


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().mean())


@torch.no_grad()
@pytest.mark.parametrize("px", [224, 98, 532])
def test_positions_of_dinov2_are_interpolated_as_its_authors_do(px: int) -> None:
    encoder = with_random_positions()
    stored: Any = encoder.backbone.pos_embed
    reference = timms(encoder, px, resampled(stored, NATIVE_PX // PATCH_PX, px // PATCH_PX))
    assert difference(encoder.backbone(images(px)), reference(images(px))) < SAME  # all tokens
    dynamic = timm.create_model(
        "vit_small_patch14_dinov2", num_classes=0, dynamic_img_size=True, global_pool="", **SMALL
    )
    dynamic.load_state_dict(encoder.backbone.state_dict())
    assert difference(encoder.backbone(images(px)), dynamic.eval()(images(px))) > 100 * SAME


def test_cards_without_registers_have_their_own_rule_and_those_with_registers_timms() -> None:
    for name in WITHOUT_REGISTERS:
        plain, registers = (load_catalogue()[each].architecture for each in (name, f"{name}_reg4"))
        assert (plain.backbone, registers.backbone.partition(":")[0]) == ("zoo:dinov2", "timm")
        assert plain.options["name"] == registers.backbone.removeprefix("timm:").replace("_reg4", "")
        assert list_representations(load_catalogue()[name]).keys() >= {
            name,
            f"{name}@avg",
            f"{name}@cls+avg",
            f"{name}@4xcls",
        }


@pytest.mark.filterwarnings("ignore::zoo.errors.NameNote")
@torch.no_grad()
def test_other_features_and_other_sizes_of_dinov2_come_from_the_same_tokens() -> None:
    card = small()
    encoder = build_encoder(card)
    backbone: Any = encoder.backbone
    for px in (224, 112):
        assert derive_sized_card(card, px).architecture == card.architecture
        tokens = backbone.forward_features(images(px))
        assert torch.equal(encoder(images(px)), tokens[:, 0])
    with pytest.raises(QueryError, match="expected 224 or a multiple of 14, such as 238"):
        derive_sized_card(card, 230)
    with pytest.warns(zoo.errors.NameNote, match=r"of 'dinov2_vitS14' are for 518 px, and interpolated to 56 px"):
        first, _ = zoo.load("dinov2_vitS14@cls:10+11", pretrained=False, px=56)
    last, _ = zoo.load("dinov2_vitS14@avg", pretrained=False, px=56)
    own, _ = zoo.load("dinov2_vitS14", pretrained=False)
    batch = images(56)
    backbone = own.backbone
    tokens = backbone.forward_features(batch)
    torch.testing.assert_close(first(batch)[:, 384:], tokens[:, 0])
    torch.testing.assert_close(last(batch), tokens[:, 1:].mean(dim=1))
