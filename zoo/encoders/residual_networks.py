"""ResNets, ResNeXts and wide ResNets as torchvision has them: the same names, shapes, first weights and arithmetic.

They stand here because torchvision cannot be imported without its operators and torch's compiler, which take as long as
torch itself; a test compares every one with torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn


def _conv3x3(n_in: int, n_out: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, kernel_size=3, stride=stride, padding=1, groups=groups, bias=False)


def _conv1x1(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions of 3 x 3 and a shortcut: He et al. 2016, Figure 5, left."""

    expansion = 1

    def __init__(
        self,
        n_in: int,
        n: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        *,
        groups: int = 1,
        width: int = 64,
    ) -> None:
        super().__init__()
        if groups != 1 or width != 64:
            raise ValueError(f"groups is {groups} and width_per_group {width}, expected 1 and 64 for basic blocks")
        self.conv1 = _conv3x3(n_in, n, stride)
        self.bn1 = nn.BatchNorm2d(n)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(n, n)
        self.bn2 = nn.BatchNorm2d(n)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(x)  # a line each, so that what is not needed any more is not kept
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        shortcut = x if self.downsample is None else self.downsample(x)
        out += shortcut
        return cast(Tensor, self.relu(out))


class Bottleneck(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 (which has the stride) and 1 x 1 and a shortcut: He et al. 2016, Figure 5, right."""

    expansion = 4

    def __init__(
        self,
        n_in: int,
        n: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        *,
        groups: int = 1,
        width: int = 64,
    ) -> None:
        super().__init__()
        n_hidden = int(n * (width / 64)) * groups
        self.conv1 = _conv1x1(n_in, n_hidden)
        self.bn1 = nn.BatchNorm2d(n_hidden)
        self.conv2: nn.Module = _conv3x3(n_hidden, n_hidden, stride, groups)
        self.bn2: nn.Module = nn.BatchNorm2d(n_hidden)
        self.conv3 = _conv1x1(n_hidden, n * self.expansion)
        self.bn3 = nn.BatchNorm2d(n * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        out = self.relu(out)
        out = self.conv3(out)
        out = self.bn3(out)
        shortcut = x if self.downsample is None else self.downsample(x)
        out += shortcut
        return cast(Tensor, self.relu(out))


class ResNet(nn.Module):
    """A stem, four stages of blocks, an average pool and a classifier of 1,000 classes."""

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        depths: Sequence[int],
        *,
        groups: int = 1,
        width_per_group: int = 64,
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        self.groups, self.base_width = groups, width_per_group
        self.inplanes = 64  # channels so far, while stages are made
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self.make_stage(block, 64, depths[0])
        self.layer2 = self.make_stage(block, 128, depths[1], stride=2)
        self.layer3 = self.make_stage(block, 256, depths[2], stride=2)
        self.layer4 = self.make_stage(block, 512, depths[3], stride=2)
        self.avgpool: nn.Module = nn.AdaptiveAvgPool2d((1, 1))
        self.fc: nn.Module = nn.Linear(512 * block.expansion, 1000)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        for module in self.modules() if zero_init_residual else ():
            if isinstance(module, BasicBlock | Bottleneck):  # starts as the shortcut alone
                last = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                nn.init.zeros_(cast(Tensor, last.weight))

    def make_stage(
        self, block: type[BasicBlock | Bottleneck], n: int, n_blocks: int, *, stride: int = 1
    ) -> nn.Sequential:
        """Blocks of ``n`` channels, times the block's expansion, from the channels so far; the first has the stride."""
        n_out = n * block.expansion
        make = partial(block, groups=self.groups, width=self.base_width)
        shortcut = None
        if stride != 1 or self.inplanes != n_out:
            shortcut = nn.Sequential(_conv1x1(self.inplanes, n_out, stride), nn.BatchNorm2d(n_out))
        first = make(self.inplanes, n, stride, shortcut)
        self.inplanes = n_out
        return nn.Sequential(first, *(make(n_out, n) for _ in range(1, n_blocks)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)  # (n, channels, px / 32, px / 32)
        x = self.avgpool(x)
        return cast(Tensor, self.fc(torch.flatten(x, 1)))


RESNETS: dict[str, tuple[type[BasicBlock | Bottleneck], tuple[int, ...], dict[str, int]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2), {}),
    "resnet34": (BasicBlock, (3, 4, 6, 3), {}),
    "resnet50": (Bottleneck, (3, 4, 6, 3), {}),
    "resnet101": (Bottleneck, (3, 4, 23, 3), {}),
    "resnet152": (Bottleneck, (3, 8, 36, 3), {}),
    "resnext50_32x4d": (Bottleneck, (3, 4, 6, 3), {"groups": 32, "width_per_group": 4}),
    "resnext101_32x8d": (Bottleneck, (3, 4, 23, 3), {"groups": 32, "width_per_group": 8}),
    "resnext101_64x4d": (Bottleneck, (3, 4, 23, 3), {"groups": 64, "width_per_group": 4}),
    "wide_resnet50_2": (Bottleneck, (3, 4, 6, 3), {"width_per_group": 128}),
    "wide_resnet101_2": (Bottleneck, (3, 4, 23, 3), {"width_per_group": 128}),
}
"""Block, blocks of each stage, and other sizes, by torchvision's names."""


def make_resnet(name: str, **options: Any) -> ResNet:
    """A ResNet by torchvision's name, with first weights and a classifier; ValueError if it has none of that name.

    ``options`` are those of :class:`ResNet`, which go before the name's.
    """
    if name not in RESNETS:
        raise ValueError(f"torchvision's {name} is no ResNet; timm may have it, as timm:NAME")
    block, depths, own = RESNETS[name]
    return ResNet(block, depths, **own | options)


def is_resnet(network: Any) -> bool:
    """Whether a network has the parts of torchvision's ResNets, as those of the zoo and of torchvision itself do."""
    return all(hasattr(network, part) for part in ("conv1", "bn1", "layer1", "avgpool"))
