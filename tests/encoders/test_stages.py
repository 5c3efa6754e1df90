"""Maps of the stages of encoders: every architecture of the catalogue, and what stands where in them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from tests.each import for_each
from tests.encoder_checks import SAME, encoder_with_random_statistics, exact_images, random_images, relative_difference
from tests.published import EARLY
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.encoder import apply_backbone, select_class_token
from zoo.encoders.maps import StageReader, build_stage_reader
from zoo.errors import QueryError


def architectures() -> dict[str, EncoderCard]:
    """One card of each network: the features that are taken make no other stages."""
    cards = {
        repr((card.architecture.backbone, sorted(card.architecture.options.items()), card.preprocess.crop_px)): card
        for card in EARLY
    }
    return {card.id: card for card in cards.values()}


ARCHITECTURES = architectures()
RESNET_STRIDES = (2, 4, 8, 16, 32)


@for_each(ARCHITECTURES)
def test_the_maps_of_every_architecture_have_the_channels_and_strides_of_its_reader(name: str) -> None:
    card = ARCHITECTURES[name]
    px = card.preprocess.crop_px
    reader = build_stage_reader(build_encoder(card, device="meta"), px=px)
    maps = reader(torch.empty(2, 3, px, px, device="meta"))
    patch_px = card.architecture.patch_size_px
    assert not isinstance(patch_px, int) or set(reader.strides) == {patch_px}
    sizes = [-(-px // stride) for stride in reader.strides]
    assert [tuple(each.shape) for each in maps] == [
        (2, n_channels, size, size) for n_channels, size in zip(reader.channels, sizes, strict=True)
    ]
    assert list(reader.strides) == sorted(reader.strides)


@pytest.mark.usefixtures("slim_resnets", "reduced_convnexts")
@for_each(
    ["pocket_simclr_rn_shapes", "simclr_rn50", "byol_rn50_augCrop", "init_rn50_d512", "vicregl_convnexts_alpha09"]
)
def test_the_deepest_stage_pooled_is_what_the_encoder_gives(name: str) -> None:
    encoder = encoder_with_random_statistics(name)
    images = exact_images(2, 64)
    with torch.no_grad():
        maps = build_stage_reader(encoder, px=64)(images)
        assert relative_difference(encoder(images), maps[-1].mean(dim=(2, 3))) < SAME


def vision_transformer(name: str = "vit_tiny_patch16_224", **options: Any) -> Encoder:
    """Of timm, small, every number of it drawn."""
    sizes: dict[str, Any] = {"img_size": 12, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "depth": 6}
    model = timm.create_model(name, num_classes=0, **sizes | {"global_pool": ""} | options)
    source = torch.Generator().manual_seed(0)
    for tensor in model.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.2, 1.0, generator=source)
    pooling = select_class_token if options.get("class_token", True) else apply_backbone
    return Encoder(model.eval().requires_grad_(False), pooling, dim=8)


@for_each(
    [
        ({}, 1),
        ({"class_token": False, "global_pool": "avg"}, 0),
        ({"reg_tokens": 3}, 4),
        ({"name": "beit_base_patch16_224"}, 1),
        ({"name": "vit_base_patch16_clip_quickgelu_224"}, 1),
    ],
    arguments=2,
)
def test_each_cell_of_a_map_is_the_token_of_its_patch(options: dict[str, Any], n_prefix: int) -> None:
    encoder = vision_transformer(**options)
    images = random_images(2, 12)
    backbone: Any = encoder.backbone
    with torch.no_grad():
        last = build_stage_reader(encoder, px=12)(images)[-1]  # (2, 8, 3, 3)
        tokens = backbone.forward_features(images)  # (2, prefix + 9, 8)
    assert tokens.shape[1] == n_prefix + 9
    assert (tokens[:, 1:] - tokens[:, :-1]).abs().amax(dim=-1).min() > 1e-3  # or else any order would do
    for row in range(3):
        for column in range(3):
            torch.testing.assert_close(last[:, :, row, column], tokens[:, n_prefix + 3 * row + column])


def blocks_read(encoder: Encoder, images: Tensor) -> Iterator[int]:
    """Which block each map is of, found by comparing with what every block gives."""
    backbone: Any = encoder.backbone
    after_each = []
    hooks = [block.register_forward_hook(lambda _, __, out: after_each.append(out)) for block in backbone.blocks]
    maps = build_stage_reader(encoder, px=images.shape[-1])(images)
    for hook in hooks:
        hook.remove()
    for found in maps:
        tokens = found.flatten(2).transpose(1, 2)
        (block,) = (
            i for i, out in enumerate(after_each) if torch.allclose(backbone.norm(out)[:, 1:], tokens, atol=1e-5)
        )
        yield block


@for_each([(12, [2, 5, 8, 11]), (6, [0, 2, 3, 5]), (4, [0, 1, 2, 3]), (3, [0, 1, 2])], arguments=2)
def test_four_blocks_are_read_evenly_spaced_and_the_last_among_them(depth: int, blocks: list[int]) -> None:
    assert list(blocks_read(vision_transformer(depth=depth), random_images(1, 12))) == blocks


@for_each(
    [
        ("swin_tiny_patch4_window7_224", (4, 8, 16, 32)),
        ("vit_small_patch14_reg4_dinov2.lvd142m", (14,) * 4),
        ("vit_base_patch16_siglip_224", (16,) * 4),
        ("eva02_tiny_patch14_224", (14,) * 4),
        ("mixer_s32_224", (32,) * 4),
        ("hiera_tiny_224", (4, 8, 16, 32)),
        ("efficientnet_b0", RESNET_STRIDES),
        ("resnet18", RESNET_STRIDES),
        ("mobilenetv3_small_050", RESNET_STRIDES),
    ],
    arguments=2,
)
def test_other_networks_of_timm_are_read_too(name: str, strides: tuple[int, ...]) -> None:
    with torch.device("meta"):
        backbone = timm.create_model(name, num_classes=0)
    px = backbone.default_cfg["input_size"][-1]
    reader = build_stage_reader(Encoder(backbone, apply_backbone, dim=1), px=px)
    maps = reader(torch.empty(1, 3, px, px, device="meta"))
    assert reader.strides == strides
    assert [px / each.shape[-1] for each in maps] == list(strides)
    assert [each.shape[1] for each in maps] == list(reader.channels)


def test_a_copy_of_a_reader_belongs_to_the_copy_of_its_encoder() -> None:
    encoder = build_encoder(load_catalogue()["pocket_init_rn"])
    both: tuple[Encoder, StageReader] = deepcopy((encoder, build_stage_reader(encoder, px=32)))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        images = random_images(1, 32)
        torch.testing.assert_close(both[1](images)[-1].mean(dim=(2, 3)), both[0](images))
        assert both[0](images).abs().max() > 0


@for_each(
    [
        ("jigsaw_alexnet", 224, "has no spatial features: its backbone is a AlexNet, expected a ResNet"),
        ("dino_vitS16", 192, "needs 224 px, for which its positions are"),
        ("beit_vitB16_pt22k", 225, "needs 224 px"),
        ("pocket_init_vit", 33, "for images of 33 px.* needs 32 px"),
    ],
    arguments=3,
)
def test_an_encoder_says_which_images_it_sees(name: str, px: int, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        build_stage_reader(build_encoder(load_catalogue()[name], device="meta"), px=px)


def test_patches_must_fit_into_the_image() -> None:
    encoder = vision_transformer(dynamic_img_size=True)
    assert [each.shape[-1] for each in build_stage_reader(encoder, px=20)(random_images(1, 20))] == [5] * 4
    with pytest.raises(QueryError, match="needs a multiple of its patches of 4 px"):
        build_stage_reader(encoder, px=22)
    with torch.device("meta"):
        overlapping = Encoder(timm.create_model("pvt_v2_b0", num_classes=0), apply_backbone, dim=256)  # windows of 7 px
    assert build_stage_reader(overlapping, px=64).strides == (4, 8, 16, 32)


def test_a_backbone_of_ones_own_is_read_by_what_it_says_of_its_features() -> None:
    class Own(nn.Module):
        feature_info = [{"num_chs": 3, "reduction": 2}, {"num_chs": 3, "reduction": 4}]  # noqa: RUF012

        def forward_intermediates(
            self, images: Tensor, *, indices: list[int], norm: bool, intermediates_only: bool
        ) -> list[Tensor]:
            assert intermediates_only and not norm
            halved = nn.functional.avg_pool2d(images, 2)
            return [[halved, nn.functional.avg_pool2d(halved, 2)][i] for i in indices]

    own = Own()
    reader = build_stage_reader(Encoder(own, apply_backbone, dim=3), px=8)
    assert [tuple(each.shape) for each in reader(random_images(1, 8))] == [(1, 3, 4, 4), (1, 3, 2, 2)]
    wrong = replace(reader, channels=(3, 5))
    with pytest.raises(QueryError, match=r"maps of \(3, 3\) channels, and its feature_info says \(3, 5\)"):
        wrong(random_images(1, 8))
