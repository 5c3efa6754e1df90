"""ResNets by torchvision's names, networks that are built from their parts, and AlexNets of the first methods.

Every constructor gives the module without its classifier, and the dimensions of its features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from .residual_networks import BasicBlock, Bottleneck, ResNet, make_resnet


def build_torchvision_resnet(name: str, **options: Any) -> tuple[nn.Module, int]:
    """A ResNet by its name in torchvision."""
    return remove_classifier(make_resnet(name, **options))


def build_resnet50_wide(*, width: int) -> tuple[nn.Module, int]:
    """A ResNet-50 with ``width`` times the channels everywhere, including stem and residual stream.

    torchvision's ``wide_resnet50_2`` is another network: it widens the 3 x 3 convolutions alone. This one is the "w2"
    of SwAV, SimCLR's VISSL re-runs and VICReg.
    """
    return remove_classifier(make_widened_resnet(50, width))


def build_resnet_wide(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """The same of another depth: 50, 101, 152 or 200."""
    return remove_classifier(make_widened_resnet(depth, width))


_DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


def make_widened_resnet(depth: int, width: int, *, block: type[Bottleneck] = Bottleneck) -> ResNet:
    """A ResNet with ``width`` times the channels, and a classifier that nobody needs."""
    if not isinstance(width, int) or width < 1:
        raise ValueError(f"width is {width!r}, expected a whole number from 1")
    if depth not in _DEPTHS:
        raise ValueError(f"depth is {depth!r}, expected one of {', '.join(map(str, _DEPTHS))}")
    model = make_resnet("resnet50") if block is Bottleneck else ResNet(block, [1, 1, 1, 1])
    model.inplanes = 64 * width  # what make_stage takes as the channels so far
    model.conv1 = nn.Conv2d(3, model.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(model.inplanes)
    for stage, (n_blocks, stride) in enumerate(zip(_DEPTHS[depth], (1, 2, 2, 2), strict=True)):
        blocks = model.make_stage(block, 64 * width * 2**stage, n_blocks, stride=stride)
        setattr(model, f"layer{stage + 1}", blocks)
    model.fc = nn.Linear(model.inplanes, 1)
    draw_convolutions(model)
    return model


def draw_convolutions(network: nn.Module) -> None:
    """Initial weights of all convolutions as torchvision draws them for its ResNets."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def build_resnet50_last_block(*, dim: int, residual: bool) -> tuple[nn.Module, int]:
    """A ResNet-50 with one more bottleneck before its average pool, which sets the dimensions of the features."""
    model = make_resnet("resnet50")
    n_channels = cast(int, model.fc.in_features)
    if residual and (dim < n_channels or dim % n_channels):
        raise ValueError(f"dim is {dim}, expected a multiple of {n_channels} for a residual that repeats the channels")
    model.avgpool = nn.Sequential(LastBlock(n_channels, 512, dim, residual=residual), model.avgpool)
    model.fc = nn.Linear(dim, 1)
    return remove_classifier(model)


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
        draw_convolutions(self)

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


def remove_classifier(model: ResNet) -> tuple[nn.Module, int]:
    """The network and the channels of its last feature map."""
    width = cast(int, model.fc.in_features)
    model.fc = nn.Identity()
    return model, width


def convert_to_lightness(images: Tensor) -> Tensor:
    """CIE L* of sRGB images with pixels in [0, 1], less 50: (n, 3, px, px) -> (n, 1, px, px).

    What colorization is trained on, in [-50, 50]. VISSL rounds it to 8 bits on the way, which is not repeated here;
    that moves a pixel by up to 0.2.
    """
    linear = torch.where(images > 0.04045, ((images.clamp(min=0) + 0.055) / 1.055) ** 2.4, images / 12.92)
    luminance = 0.212671 * linear[:, :1] + 0.715160 * linear[:, 1:2] + 0.072169 * linear[:, 2:]  # of D65
    cube_root = luminance.clamp(min=1e-6) ** (1 / 3)
    return torch.where(luminance > 0.008856, 116 * cube_root - 16, 903.3 * luminance) - 50


class LightnessConv(nn.Conv2d):
    """A convolution that sees the lightness of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(convert_to_lightness(images))


class SobelConv(nn.Conv2d):
    """A convolution that sees the gradients across and down of the mean of an image's channels."""

    def forward(self, images: Tensor) -> Tensor:
        across = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
        kernels = torch.stack((across, across.t()))[:, None].to(images)
        gradients = nn.functional.conv2d(images.mean(dim=1, keepdim=True), kernels, padding=1)
        return super().forward(gradients)  # (n, 2, px, px) before


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlexNetVariant:
    """How one AlexNet differs from another."""

    channels: tuple[int, ...]
    first: type[nn.Conv2d] = nn.Conv2d
    n_inputs: int = 3
    stride: int = 4
    padding: int = 0
    groups: int = 2  # of the second, the fourth and the fifth convolution
    n_response_norms: int = 0  # local response norms, after the first pools, in place of batch norms
    px: int = 6  # side of the last map at the size of its authors


_ORIGINAL = (96, 256, 384, 384, 256)
_KINDS = {
    "colorization": _AlexNetVariant(channels=_ORIGINAL, first=LightnessConv, n_inputs=1),
    "jigsaw": _AlexNetVariant(channels=_ORIGINAL, stride=2, n_response_norms=2, px=12),
    "deepcluster": _AlexNetVariant(channels=_ORIGINAL, first=SobelConv, n_inputs=2, padding=2, groups=1),
    "rotnet": _AlexNetVariant(channels=(64, 192, 384, 256, 256), padding=2, groups=1),
}


class AlexNet(nn.Module):
    """Five convolutions, and three pools after the first, the second and the last of them.

    The features are the last map, flattened; their number follows from the side of the images. Source:
    facebookresearch/vissl, ``models/trunks/alexnet_*.py``.
    """

    def __init__(self, kind: _AlexNetVariant) -> None:
        super().__init__()
        n_in = kind.n_inputs
        for number, n_out in enumerate(kind.channels, start=1):
            size, padding = {1: (11, kind.padding), 2: (5, 2)}.get(number, (3, 1))
            stride, groups = kind.stride if number == 1 else 1, kind.groups if number in (2, 4, 5) else 1
            make = kind.first if number == 1 else nn.Conv2d
            layers: list[nn.Module] = [make(n_in, n_out, size, stride=stride, padding=padding, groups=groups)]
            if number > kind.n_response_norms:
                layers.append(nn.BatchNorm2d(n_out))
            self.add_module(f"conv{number}", nn.Sequential(*layers, nn.ReLU(inplace=True)))
            n_in = n_out
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2)
        self.response_norm = (
            nn.LocalResponseNorm(size=5, alpha=1e-4, beta=0.75) if kind.n_response_norms else nn.Identity()
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_features(images).flatten(1)  # (n, channels * px * px)

    def forward_features(self, images: Tensor) -> Tensor:
        """The last map, (n, channels, px, px)."""
        modules = self._modules
        convs = [cast(nn.Sequential, modules[f"conv{number}"]) for number in range(1, 6)]
        x = self.response_norm(self.pool(convs[0](images)))
        x = self.response_norm(self.pool(convs[1](x)))
        x = convs[4](convs[3](convs[2](x)))
        return cast(Tensor, self.pool(x))


def build_alexnet(*, kind: str) -> tuple[nn.Module, int]:
    """The AlexNet of colorization, of jigsaw, of DeepCluster or of RotNet."""
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {', '.join(_KINDS)}")
    facts = _KINDS[kind]
    return AlexNet(facts), facts.channels[-1] * facts.px**2


def build_resnet50_lightness() -> tuple[nn.Module, int]:
    """A ResNet-50 that sees the lightness of an image, and whose last stage keeps the size of its map.

    It is given images that are not normalised, pixels in [0, 1]. Source: facebookresearch/vissl,
    ``models/trunks/resnext.py`` with ``LAYER4_STRIDE: 1``.
    """
    model: Any = make_resnet("resnet50")
    model.conv1 = LightnessConv(1, 64, kernel_size=7, stride=2, padding=3, bias=False)
    draw_convolutions(model.conv1)
    model.layer4[0].conv2.stride = model.layer4[0].downsample[0].stride = (1, 1)
    return remove_classifier(model)


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    f"zoo:{constructor.__name__.removeprefix('build_')}": constructor
    for constructor in (
        build_resnet50_wide,
        build_resnet_wide,
        build_resnet50_last_block,
        resnet_small,
        build_alexnet,
        build_resnet50_lightness,
    )
}
