"""ResNets that torchvision builds, or that are built from its parts.

Every constructor gives the module without its classifier, and the channels of its last feature map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor, nn
from torchvision.models import get_model
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet


def torchvision_resnet(name: str, **options: Any) -> tuple[nn.Module, int]:
    """A ResNet of torchvision, by its name there."""
    model = get_model(name, weights=None, **options)
    if not isinstance(model, ResNet):
        raise ValueError(f"torchvision's {name} is no ResNet; timm may have it, as timm:NAME")
    return _without_classifier(model)


def resnet50_wide(*, width: int) -> tuple[nn.Module, int]:
    """A ResNet-50 with ``width`` times the channels everywhere, including stem and residual stream.

    torchvision's ``wide_resnet50_2`` is another network: it widens the 3 x 3 convolutions alone. This one is the "w2"
    of SwAV, SimCLR's VISSL re-runs and VICReg.
    """
    return _without_classifier(wide_resnet(50, width))


def resnet_wide(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """The same of another depth: 50, 101, 152 or 200."""
    return _without_classifier(wide_resnet(depth, width))


_DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


def wide_resnet(depth: int, width: int, *, block: type[Bottleneck] = Bottleneck) -> ResNet:
    """A ResNet with ``width`` times the channels, and a classifier that nobody needs."""
    if not isinstance(width, int) or width < 1:
        raise ValueError(f"width is {width!r}, expected a whole number from 1")
    if depth not in _DEPTHS:
        raise ValueError(f"depth is {depth!r}, expected one of {', '.join(map(str, _DEPTHS))}")
    model = get_model("resnet50", weights=None) if block is Bottleneck else ResNet(block, [1, 1, 1, 1])
    model.inplanes = 64 * width  # what _make_layer takes as the channels so far
    model.conv1 = nn.Conv2d(3, model.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(model.inplanes)
    for stage, (n_blocks, stride) in enumerate(zip(_DEPTHS[depth], (1, 2, 2, 2), strict=True)):
        blocks = model._make_layer(block, 64 * width * 2**stage, n_blocks, stride=stride)
        setattr(model, f"layer{stage + 1}", blocks)
    model.fc = nn.Linear(model.inplanes, 1)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def resnet50_last_block(*, dim: int, residual: bool) -> tuple[nn.Module, int]:
    """A ResNet-50 with one more bottleneck before its average pool, which sets the dimensions of the features."""
    model = get_model("resnet50", weights=None)
    n_channels = model.fc.in_features
    if residual and (dim < n_channels or dim % n_channels):
        raise ValueError(f"dim is {dim}, expected a multiple of {n_channels} for a residual that repeats the channels")
    model.avgpool = nn.Sequential(LastBlock(n_channels, 512, dim, residual=residual), model.avgpool)
    model.fc = nn.Linear(dim, 1)
    return _without_classifier(model)


class LastBlock(nn.Module):
    """A bottleneck that ends in another number of channels than it starts with.

    With ``residual`` the input is added, its channels repeated ``n_out / n_in`` times. Dubois et al. 2022, Improving
    Self-Supervised Learning by Characterizing Idealized Representations.
    """

    def __init__(self, n_in: int, n_hidden: int, n_out: int, *, residual: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_hidden, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_hidden)
        self.conv2 = nn.Conv2d(n_hidden, n_hidden, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_hidden)
        self.conv3 = nn.Conv2d(n_hidden, n_out, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU(inplace=True)
        self.n_repeats = n_out // n_in if residual else 0
        nn.init.normal_(self.conv1.weight, std=n_hidden**-0.5)  # a random projection that keeps distances

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.n_repeats:
            out = out + x.repeat(1, self.n_repeats, 1, 1)
        return cast(Tensor, self.relu(out))


def resnet_small(*, width: int, n_blocks: int, dim: int, last_width: int = 0) -> tuple[nn.Module, int]:
    """A ResNet for images of 32 px: three stages of basic blocks with ``width``, ``2 * width`` and ``dim`` channels.

    The form that He et al. 2016 (section 4.2) gave to CIFAR, but for a stem of stride 2, which spares a processor three
    quarters of the work. With ``last_width`` the last stage has that many channels, and a 1 x 1 convolution makes
    ``dim`` of them, so that the dimensions of the features say little of the size of the network.
    """
    if min(width, n_blocks, dim) < 1 or last_width < 0:
        numbers = f"{width}, {n_blocks}, {dim} and {last_width}"
        raise ValueError(f"width, n_blocks, dim and last_width are {numbers}, expected whole numbers from 1")
    return SmallResNet(width, n_blocks, dim, last_width), dim


class SmallResNet(nn.Module):
    """See :func:`resnet_small`; its parts have the names of torchvision's ResNets."""

    def __init__(self, width: int, n_blocks: int, dim: int, last_width: int = 0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _basic_stage(width, width, n_blocks, stride=1)
        self.layer2 = _basic_stage(width, 2 * width, n_blocks, stride=2)
        self.layer3 = _basic_stage(2 * width, last_width or dim, n_blocks, stride=2)
        if last_width:
            expansion = nn.Conv2d(last_width, dim, kernel_size=1, bias=False)
            self.layer3.append(nn.Sequential(expansion, nn.BatchNorm2d(dim), nn.ReLU(inplace=True)))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))  # (n, dim, px / 8, px / 8)
        return cast(Tensor, self.avgpool(x).flatten(1))  # (n, dim)


def _basic_stage(n_in: int, n_out: int, n_blocks: int, *, stride: int) -> nn.Sequential:
    shortcut = None
    if stride != 1 or n_in != n_out:
        convolution = nn.Conv2d(n_in, n_out, kernel_size=1, stride=stride, bias=False)
        shortcut = nn.Sequential(convolution, nn.BatchNorm2d(n_out))
    return nn.Sequential(
        BasicBlock(n_in, n_out, stride, shortcut), *(BasicBlock(n_out, n_out) for _ in range(n_blocks - 1))
    )


def _without_classifier(model: ResNet) -> tuple[nn.Module, int]:
    width: int = model.fc.in_features
    model.fc = nn.Identity()
    return model, width


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    "zoo:resnet50_wide": resnet50_wide,
    "zoo:resnet_wide": resnet_wide,
    "zoo:resnet50_last_block": resnet50_last_block,
    "zoo:resnet_small": resnet_small,
}
