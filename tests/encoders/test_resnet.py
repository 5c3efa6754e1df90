"""ResNets and ConvNeXts against the same network written out as plain functions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tests.each import for_each
from tests.encoder_checks import (
    SAME,
    encoder_with_random_statistics,
    exact_images,
    relative_difference,
    resnet_by_hand,
    symmetric_conv,
    symmetric_max_pool,
    weights_of,
)
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder


def average(feature_map: Tensor) -> Tensor:
    return feature_map.mean(dim=(2, 3))


def pad_same(x: Tensor, kernel: int, stride: int, value: float) -> Tensor:
    """TensorFlow's rule, side by side: the output has ceil(size / stride) pixels, the odd pixel is padded last."""
    sides = []
    for size in (x.shape[-1], x.shape[-2]):
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        sides += [total // 2, total - total // 2]
    return F.pad(x, sides, value=value)


def same_conv(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    return F.conv2d(pad_same(x, weight.shape[-1], stride, 0.0), weight, stride=stride)


def same_max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(pad_same(x, 3, 2, -math.inf), 3, stride=2)


SLIM = pytest.mark.usefixtures("slim_resnets")


@SLIM
@pytest.mark.parametrize(
    ("name", "px"),
    [
        ("simclr_rn50", 64),
        ("simclr_rn101", 64),
        ("swav_rn50w2", 64),
        ("byol_rn50_bs4096", 64),
        ("byol_rn50_bs4096", 75),
    ],
)
def test_a_resnet_averages_its_last_feature_map_and_byol_pads_as_tensorflow_does(name: str, px: int) -> None:
    encoder = encoder_with_random_statistics(name)
    images, weights = exact_images(2, px), weights_of(encoder.backbone)
    ways = (same_conv, same_max_pool) if name.startswith("byol") else (symmetric_conv, symmetric_max_pool)
    by_hand = average(resnet_by_hand(weights, images, conv=ways[0], max_pool=ways[1]))
    assert relative_difference(by_hand, encoder(images)) < SAME
    if name.endswith("w2"):
        assert weights["conv1.weight"].shape == (128, 3, 7, 7)
        assert weights["layer4.2.conv3.weight"].shape == (4096, 1024 // 4, 1, 1)  # slim


@SLIM
@for_each([("init_rn50_d8192", 4), ("init_rn50_d4096", 2), ("init_rn50_d512", 0)], arguments=2)
def test_the_last_block_is_a_bottleneck_before_the_pool(name: str, n_repeats: int) -> None:
    encoder = encoder_with_random_statistics(name)
    images = exact_images(1, 64)
    weights = weights_of(encoder.backbone)
    x = resnet_by_hand(weights, images, conv=symmetric_conv, max_pool=symmetric_max_pool)
    out = x
    for number in (1, 2, 3):
        out = symmetric_conv(out, weights[f"avgpool.0.conv{number}.weight"], 1)
        statistics = [
            weights[f"avgpool.0.bn{number}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        ]
        out = F.batch_norm(out, *statistics)
        out = out.relu() if number < 3 else out
    if n_repeats:
        out = out + torch.cat([x] * n_repeats, dim=1)
    assert relative_difference(average(out.relu()), encoder(images)) < SAME


def test_clips_resnet_ends_before_its_projection() -> None:
    card = load_catalogue()["clip_rn50"]
    narrow = replace(card.architecture, options={"width_factor": 0.25})
    card = replace(card, architecture=narrow, representation=replace(card.representation, dim=512))
    encoder = encoder_with_random_statistics(card)
    backbone, images = encoder.backbone, exact_images(1, 224)
    feature_map = backbone.forward_features(images)  # (1, 512, 7, 7)
    patches = feature_map.flatten(2).transpose(1, 2)
    tokens = torch.cat((patches.mean(dim=1, keepdim=True), patches), dim=1) + backbone.head.pos_embed
    q, k, v = (getattr(backbone.head, part)(tokens).unflatten(-1, (-1, 64)).transpose(1, 2) for part in "qkv")
    attention = (q @ k.transpose(-1, -2) / 8).softmax(dim=-1)
    by_hand = (attention @ v).transpose(1, 2).flatten(2)[:, 0]
    assert relative_difference(by_hand, encoder(images)) < SAME


IMAGES = exact_images(2, 64)


def last_feature_map(encoder: Encoder) -> Tensor:
    """The output of the last stage, without any norm."""
    seen: list[Tensor] = []
    hook = encoder.backbone.stages[3].register_forward_hook(lambda *call: seen.append(call[-1]))
    encoder(IMAGES)
    hook.remove()
    return seen[0]  # (n, dim, 2, 2)


@pytest.mark.usefixtures("reduced_convnexts")
def test_vicregl_norms_every_position_and_then_averages() -> None:
    encoder = encoder_with_random_statistics("vicregl_convnexts_alpha09")
    feature_map = last_feature_map(encoder)
    scale, shift = encoder.backbone.norm_pre.weight, encoder.backbone.norm_pre.bias
    positions = feature_map.flatten(2).transpose(1, 2)  # (n, positions, dim)
    by_hand = F.layer_norm(positions, (768,), scale, shift, eps=1e-6).mean(dim=1)
    averaged_first = F.layer_norm(positions.mean(dim=1), (768,), scale, shift, eps=1e-6)
    assert relative_difference(by_hand, encoder(IMAGES)) < SAME
    assert relative_difference(averaged_first, encoder(IMAGES)) > 0.05
    encoder.backbone.stages[2].blocks[5].mlp.fc2.weight.zero_()  # a scale of zero would have silenced every block
    assert relative_difference(by_hand, encoder(IMAGES)) > 0.001


@pytest.mark.usefixtures("reduced_convnexts")
def test_the_supervised_convnext_averages_and_then_norms() -> None:
    encoder = encoder_with_random_statistics("sup_convnextS")
    scale, shift = encoder.backbone.head.norm.weight, encoder.backbone.head.norm.bias
    by_hand = F.layer_norm(last_feature_map(encoder).mean(dim=(2, 3)), (768,), scale, shift, eps=1e-6)
    assert relative_difference(by_hand, encoder(IMAGES)) < SAME
