"""ResNets against the same network written out as plain functions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torchvision.models import resnet50

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
from zoo.cards.catalogue import catalogue
from zoo.encoders import build_encoder


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
@pytest.mark.parametrize("name", ["simclr_rn50", "simclr_rn101"])
def test_a_plain_resnet_averages_its_last_feature_map(name: str) -> None:
    encoder = encoder_with_random_statistics(name)
    images = exact_images(2, 64)
    by_hand = average(
        resnet_by_hand(weights_of(encoder.backbone), images, conv=symmetric_conv, max_pool=symmetric_max_pool)
    )
    assert relative_difference(by_hand, encoder(images)) < SAME


@SLIM
@pytest.mark.parametrize("px", [64, 75])
def test_byol_pads_as_tensorflow_does(px: int) -> None:
    encoder = encoder_with_random_statistics("byol_rn50_bs4096")
    images = exact_images(2, px)
    by_hand = average(resnet_by_hand(weights_of(encoder.backbone), images, conv=same_conv, max_pool=same_max_pool))
    assert relative_difference(by_hand, encoder(images)) < SAME


@SLIM
def test_a_wide_resnet_is_wide_everywhere() -> None:
    encoder = encoder_with_random_statistics("swav_rn50w2")
    images = exact_images(1, 64)
    weights = weights_of(encoder.backbone)
    by_hand = average(resnet_by_hand(weights, images, conv=symmetric_conv, max_pool=symmetric_max_pool))
    assert relative_difference(by_hand, encoder(images)) < SAME
    assert weights["conv1.weight"].shape == (128, 3, 7, 7)
    assert weights["layer1.0.conv1.weight"].shape == (128 // 4, 128, 1, 1)  # slim
    assert weights["layer4.2.conv3.weight"].shape == (4096, 1024 // 4, 1, 1)


@pytest.mark.parametrize(("name", "width"), [("swav_rn50w2", 2), ("swav_rn50w4", 4), ("swav_rn50w5", 5)])
def test_a_wide_resnet_has_torchvisions_keys_with_more_channels(name: str, width: int) -> None:
    with torch.device("meta"):
        narrow = resnet50(weights=None).state_dict()
    wide = build_encoder(catalogue()[name], device="meta").backbone.state_dict()
    assert list(wide) == [key for key in narrow if not key.startswith("fc.")]
    for key, tensor in wide.items():
        grown = tuple(n if n in (1, 3, 7) else n * width for n in narrow[key].shape[:2]) + narrow[key].shape[2:]
        expected = (64 * width, 3, 7, 7) if key == "conv1.weight" else grown
        assert tensor.shape == expected, key


@SLIM
@pytest.mark.parametrize(("name", "n_repeats"), [("init_rn50_d8192", 4), ("init_rn50_d4096", 2), ("init_rn50_d512", 0)])
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
    card = catalogue()["clip_rn50"]
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
