"""The image towers of CLIP that are ResNets, and what is done with a projection, written out as plain functions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double
from .vit_forward import Weights


def clip_resnet(weights: Weights, images: Tensor, *, n_heads: int) -> Tensor:
    """What the attention pool of a ModifiedResNet mixes, before ``c_proj``, (n, 32 width).

    Strides are average pools: in the stem after its third convolution, in a block after its second one and before the
    convolution of its shortcut.
    """
    prefix, images = "visual.", images.double()
    tower = in_double({name.removeprefix(prefix): weights[name] for name in weights if name.startswith(prefix)})

    def conv(x: Tensor, name: str, *, stride: int = 1) -> Tensor:
        weight = tower[f"{name}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance, scale, shift = (
            tower[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(variance + 1e-5) * scale + shift

    x = norm(conv(images, "conv1", stride=2), "bn1").relu()
    x = norm(conv(x, "conv2"), "bn2").relu()
    x = F.avg_pool2d(norm(conv(x, "conv3"), "bn3").relu(), 2)
    for stage in range(1, 5):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in tower:
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = norm(conv(x, f"{at}.conv1"), f"{at}.bn1").relu()
            out = norm(conv(out, f"{at}.conv2"), f"{at}.bn2").relu()
            out = norm(conv(F.avg_pool2d(out, stride), f"{at}.conv3"), f"{at}.bn3")
            if f"{at}.downsample.0.weight" in tower:
                x = norm(conv(F.avg_pool2d(x, stride), f"{at}.downsample.0"), f"{at}.downsample.1")
            x = (x + out).relu()
            block += 1
    return attention_pool(tower, x, n_heads=n_heads)


def attention_pool(tower: Weights, grid: Tensor, *, n_heads: int) -> Tensor:
    """One query, the mean of the grid (n, width, side, side), looks at itself and at every place."""

    def linear(x: Tensor, name: str) -> Tensor:
        weight, bias = (tower[f"attnpool.{name}.{part}"] for part in ("weight", "bias"))
        return (x @ weight.T + bias).unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (n, heads, tokens, width / heads)

    tokens = grid.flatten(2).transpose(1, 2)
    tokens = torch.cat((tokens.mean(dim=1, keepdim=True), tokens), dim=1)
    tokens = tokens + tower["attnpool.positional_embedding"]
    query, keys, values = linear(tokens[:, :1], "q_proj"), linear(tokens, "k_proj"), linear(tokens, "v_proj")
    scores = (query @ keys.transpose(-2, -1)) / math.sqrt(keys.shape[-1])
    return (scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(1)


def projected(class_token: Tensor, weights: Weights) -> Tensor:
    """To the space shared with text; the matrix is (width, proj)."""
    return class_token @ weights["visual.proj"].double()


def quantised(z: Tensor, rate: Weights) -> Tensor:
    """What a receiver decodes of lossyless' features: whole steps are cut at halves."""
    steps_a_unit, shift = rate["scaling"].double().exp(), rate["biasing"].double()
    medians = rate["entropy_bottleneck.quantiles"].double()[:, 0, 1]
    symbols = torch.round((z.double() + shift) * steps_a_unit - medians)
    return (symbols + medians) / steps_a_unit - shift
