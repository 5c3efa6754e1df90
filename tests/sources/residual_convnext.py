"""ConvNeXts: names of the original and of timm, random weights, and the forward pass with either head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double
from .resnet_forward import Draw, State


@dataclass(frozen=True, kw_only=True)
class Names:
    """What a source calls the parts of a ConvNeXt."""

    stem: str
    downsample: str
    block: str
    depthwise: str
    expand: str
    reduce: str
    norm: str


ORIGINAL = Names(
    stem="downsample_layers.0.{part}",
    downsample="downsample_layers.{stage}.{part}",
    block="stages.{stage}.{block}",
    depthwise="dwconv",
    expand="pwconv1",
    reduce="pwconv2",
    norm="norm",
)
TIMM = Names(
    stem="stem.{part}",
    downsample="stages.{stage}.downsample.{part}",
    block="stages.{stage}.blocks.{block}",
    depthwise="conv_dw",
    expand="mlp.fc1",
    reduce="mlp.fc2",
    norm="head.norm",
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """Blocks and channels of each stage."""

    depths: tuple[int, ...] = (3, 3, 27, 3)
    widths: tuple[int, ...] = (96, 192, 384, 768)


SIZES = {
    "convnexts": Size(),
    "convnextb": Size(widths=(128, 256, 512, 1024)),
    "convnextxl": Size(widths=(256, 512, 1024, 2048)),
    "reduced": Size(depths=(2, 2, 6, 2), widths=(40, 80, 160, 768)),
    "atto": Size(depths=(2, 2, 6, 2), widths=(40, 80, 160, 320)),
}


def convnext_tensors(size: Size, draw: Draw, *, names: Names = ORIGINAL, scaled: bool = False) -> State:
    """The state dict of a ConvNeXt without its classifier; ``scaled`` if the blocks have a layer scale."""

    def layer(name: str, n_out: int, *inner: int, gain: float = 1.0) -> State:
        return {f"{name}.weight": draw.weight(n_out, *inner) * gain, f"{name}.bias": draw.between(-0.1, 0.1, n_out)}

    def norm(name: str, n: int) -> State:
        return {f"{name}.weight": draw.between(0.6, 1.4, n), f"{name}.bias": draw.between(-0.2, 0.2, n)}

    tensors = layer(names.stem.format(part=0), size.widths[0], 3, 4, 4)
    tensors |= norm(names.stem.format(part=1), size.widths[0])
    for stage, (depth, width) in enumerate(zip(size.depths, size.widths, strict=True)):
        if stage:
            before = size.widths[stage - 1]
            tensors |= norm(names.downsample.format(stage=stage, part=0), before)
            tensors |= layer(names.downsample.format(stage=stage, part=1), width, before, 2, 2)
        for block in range(depth):
            at = names.block.format(stage=stage, block=block)
            tensors |= layer(f"{at}.{names.depthwise}", width, 1, 7, 7) | norm(f"{at}.norm", width)
            tensors |= layer(f"{at}.{names.expand}", 4 * width, width)
            tensors |= layer(f"{at}.{names.reduce}", width, 4 * width, gain=0.2)
            if scaled:
                tensors[f"{at}.gamma"] = draw.between(0.5, 1.5, width)
    return tensors | norm(names.norm, size.widths[-1])


def convnext_features(
    weights: Mapping[str, Tensor], images: Tensor, size: Size, *, names: Names = ORIGINAL, pool_first: bool = False
) -> Tensor:
    """Features (n, channels): the mean of the normalised map, or with ``pool_first`` the norm of the mean."""
    weights, images = in_double(weights), images.double()

    def conv(x: Tensor, name: str, **more: int) -> Tensor:
        return F.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], **more)

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-6)

    def norm_of_channels(x: Tensor, name: str) -> Tensor:
        return norm(x.permute(0, 2, 3, 1), name).permute(0, 3, 1, 2)

    x = norm_of_channels(conv(images, names.stem.format(part=0), stride=4), names.stem.format(part=1))
    for stage, depth in enumerate(size.depths):
        if stage:
            x = norm_of_channels(x, names.downsample.format(stage=stage, part=0))
            x = conv(x, names.downsample.format(stage=stage, part=1), stride=2)
        for block in range(depth):
            at = names.block.format(stage=stage, block=block)
            out = conv(x, f"{at}.{names.depthwise}", padding=3, groups=x.shape[1])
            out = norm(out.permute(0, 2, 3, 1), f"{at}.norm")  # (n, px, px, channels)
            out = F.linear(out, weights[f"{at}.{names.expand}.weight"], weights[f"{at}.{names.expand}.bias"])
            out = F.linear(F.gelu(out), weights[f"{at}.{names.reduce}.weight"], weights[f"{at}.{names.reduce}.bias"])
            if f"{at}.gamma" in weights:
                out = out * weights[f"{at}.gamma"]
            x = x + out.permute(0, 3, 1, 2)
    tokens = x.flatten(2).transpose(1, 2)  # (n, px * px, channels)
    return norm(tokens.mean(dim=1), names.norm) if pool_first else norm(tokens, names.norm).mean(dim=1)
