"""Networks of the first self-supervised methods: AlexNets, and those that see the lightness of an image alone.

Every constructor gives the module without its classifier, and the dimensions of its features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torchvision.models import get_model


def lightness(images: Tensor) -> Tensor:
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
        return super().forward(lightness(images))


class SobelConv(nn.Conv2d):
    """A convolution that sees the gradients across and down of the mean of an image's channels."""

    def forward(self, images: Tensor) -> Tensor:
        across = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
        kernels = torch.stack((across, across.t()))[:, None].to(images)
        gradients = nn.functional.conv2d(images.mean(dim=1, keepdim=True), kernels, padding=1)
        return super().forward(gradients)  # (n, 2, px, px) before


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
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
    "colorization": _Kind(channels=_ORIGINAL, first=LightnessConv, n_inputs=1),
    "jigsaw": _Kind(channels=_ORIGINAL, stride=2, n_response_norms=2, px=12),
    "deepcluster": _Kind(channels=_ORIGINAL, first=SobelConv, n_inputs=2, padding=2, groups=1),
    "rotnet": _Kind(channels=(64, 192, 384, 256, 256), padding=2, groups=1),
}


class AlexNet(nn.Module):
    """Five convolutions, and three pools after the first, the second and the last of them.

    The features are the last map, flattened; their number follows from the side of the images. Source:
    facebookresearch/vissl, ``models/trunks/alexnet_*.py``.
    """

    def __init__(self, kind: _Kind) -> None:
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
        modules = self._modules
        convs = [cast(nn.Sequential, modules[f"conv{number}"]) for number in range(1, 6)]
        x = self.response_norm(self.pool(convs[0](images)))
        x = self.response_norm(self.pool(convs[1](x)))
        x = convs[4](convs[3](convs[2](x)))
        return cast(Tensor, self.pool(x).flatten(1))  # (n, channels * px * px)


def alexnet(*, kind: str) -> tuple[nn.Module, int]:
    """The AlexNet of colorization, of jigsaw, of DeepCluster or of RotNet."""
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {', '.join(_KINDS)}")
    facts = _KINDS[kind]
    return AlexNet(facts), facts.channels[-1] * facts.px**2


def resnet50_lightness() -> tuple[nn.Module, int]:
    """A ResNet-50 that sees the lightness of an image, and whose last stage keeps the size of its map.

    It is given images that are not normalised, pixels in [0, 1]. Source: facebookresearch/vissl,
    ``models/trunks/resnext.py`` with ``LAYER4_STRIDE: 1``.
    """
    model: Any = get_model("resnet50", weights=None)
    width: int = model.fc.in_features
    model.fc = nn.Identity()
    model.conv1 = LightnessConv(1, 64, kernel_size=7, stride=2, padding=3, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.layer4[0].conv2.stride = model.layer4[0].downsample[0].stride = (1, 1)
    return model, width


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    "zoo:alexnet": alexnet,
    "zoo:resnet50_lightness": resnet50_lightness,
}
