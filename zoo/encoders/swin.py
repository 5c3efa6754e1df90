"""Swin Transformers that differ from those of timm in a part.

Every constructor gives the module without its classifier, and the channels of its last feature map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import timm
import torch
from torch import Tensor, nn
from torchvision.models import get_model


def swin_conv_stem(*, name: str) -> tuple[nn.Module, int]:
    """A Swin of timm, by its name there, whose patches are embedded by three convolutions, as CTransPath is.

    Source: Xiyue-Wang/TransPath, ``ctran.py``.
    """
    model: Any = timm.create_model(name, pretrained=False, num_classes=0)
    n = model.patch_embed.proj.out_channels
    model.patch_embed.proj = nn.Sequential(
        nn.Conv2d(3, n // 8, kernel_size=3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(n // 8),
        nn.ReLU(inplace=True),
        nn.Conv2d(n // 8, n // 4, kernel_size=3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(n // 4),
        nn.ReLU(inplace=True),
        nn.Conv2d(n // 4, n, kernel_size=1),
    )
    return model, model.num_features


def swin_fine_norm(*, name: str, window_size: int) -> tuple[nn.Module, int]:
    """A Swin of timm whose norms add 1e-6 to a variance, a tenth of the usual, as iBOT's."""
    model: Any = timm.create_model(name, pretrained=False, num_classes=0, window_size=window_size)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    return model, model.num_features


class PositionedNorm(nn.LayerNorm):
    """A LayerNorm of patches that adds their positions: (n, rows, columns, channels)."""

    def __init__(self, n_channels: int, grid: tuple[int, int]) -> None:
        super().__init__(n_channels)
        self.positions = nn.Parameter(torch.zeros(1, *grid, n_channels))

    def forward(self, patches: Tensor) -> Tensor:
        return super().forward(patches) + self.positions


def swin_without_shift(*, name: str, window_size: int) -> tuple[nn.Module, int]:
    """A Swin of timm whose windows stay in place and are told apart by fixed positions, as MixMIM's.

    Source: open-mmlab/mmpretrain, ``models/backbones/mixmim.py``.
    """
    model: Any = timm.create_model(name, pretrained=False, num_classes=0, window_size=window_size)
    embed = model.patch_embed
    embed.norm = PositionedNorm(embed.proj.out_channels, embed.grid_size)
    for stage in model.layers:
        for block in stage.blocks:
            block.shift_size = block.target_shift_size = (0, 0)
            block.attn_mask = None
    return model, model.num_features


def swinv2_of_torchvision(*, name: str) -> tuple[nn.Module, int]:
    """A Swin V2 of torchvision, by its name there, whose last map is not normed.

    torchvision pads maps that are smaller than a window, and timm takes smaller windows. Decoders of the map, as
    SatlasPretrain's, never train the last norm.
    """
    model: Any = get_model(name, weights=None)
    width: int = model.head.in_features
    model.norm = nn.Identity()
    model.head = nn.Identity()
    return cast(nn.Module, model), width


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    "zoo:swin_conv_stem": swin_conv_stem,
    "zoo:swin_fine_norm": swin_fine_norm,
    "zoo:swin_without_shift": swin_without_shift,
    "zoo:swinv2_of_torchvision": swinv2_of_torchvision,
}
