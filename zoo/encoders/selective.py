"""The ResNets of SimCLRv2 with selective kernels: two streams a block, mixed by what the whole map says.

Source: google-research/simclr, ``resnet.py`` with ``sk_ratio = 0.0625``; Li et al. 2019, Selective Kernel Networks; He
et al. 2019, Bag of Tricks, for stem and shortcut ("ResNet-D").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from timm.layers.pool2d_same import MaxPool2dSame
from torch import Tensor, nn
from torchvision.models.resnet import Bottleneck

from .resnet import wide_resnet

_SHARE = 0.0625  # channels that the mixing sees, of those of a stream
_FEWEST = 32


class SelectiveKernel(nn.Module):
    """Two convolutions of 3 x 3; a softmax over the two for every channel mixes them."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        n_seen = max(int(n_out * _SHARE), _FEWEST)
        self.conv = nn.Conv2d(n_in, 2 * n_out, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(2 * n_out)
        self.squeeze = nn.Conv2d(n_out, n_seen, kernel_size=1, bias=False)
        self.squeeze_bn = nn.BatchNorm2d(n_seen)
        self.mix = nn.Conv2d(n_seen, 2 * n_out, kernel_size=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        streams = torch.stack(self.bn(self.conv(x)).relu().chunk(2, dim=1))  # (2, n, channels, px, px)
        seen = streams.sum(dim=0).mean(dim=(2, 3), keepdim=True)
        seen = self.squeeze_bn(self.squeeze(seen)).relu()
        shares = torch.stack(self.mix(seen).chunk(2, dim=1)).softmax(dim=0)
        return (streams * shares).sum(dim=0)


class AveragedShortcut(nn.Module):
    """Averages windows of 2 x 2 before a shortcut is projected.

    With stride 1 the last row and column are averaged over the pixels that there are, as TensorFlow pads.
    """

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(F.pad(x, (0, 1, 0, 1), mode="replicate") if self.stride == 1 else x, 2, self.stride)


class SelectiveBottleneck(Bottleneck):  # type: ignore[misc]  # torchvision has no types
    """A bottleneck whose convolution of 3 x 3 is a selective kernel."""

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: Any = None, *rest: Any, **options: Any
    ) -> None:
        super().__init__(inplanes, planes, stride, downsample, *rest, **options)
        self.conv2 = SelectiveKernel(planes, planes, stride)
        self.bn2 = nn.Identity()  # the kernel has its own
        if downsample is not None:
            projection = nn.Conv2d(inplanes, 4 * planes, kernel_size=1, bias=False)
            self.downsample = nn.Sequential(AveragedShortcut(stride), projection, nn.BatchNorm2d(4 * planes))


class DeepStem(nn.Sequential):
    """Three convolutions of 3 x 3 in place of one of 7 x 7; ``n`` channels, and twice as many at last."""

    stride = (2, 2)

    def __init__(self, n: int) -> None:
        super().__init__(
            nn.Conv2d(3, n, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(n),
            nn.ReLU(inplace=True),
            nn.Conv2d(n, n, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(n),
            nn.ReLU(inplace=True),
            nn.Conv2d(n, 2 * n, kernel_size=3, padding=1, bias=False),
        )
        self.out_channels = 2 * n


def resnet_selective(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """A ResNet of SimCLRv2 with selective kernels, ``width`` times as wide."""
    model = cast(Any, wide_resnet(depth, width, block=SelectiveBottleneck))
    model.conv1 = DeepStem(32 * width)
    model.maxpool = MaxPool2dSame(kernel_size=3, stride=2)
    n_channels: int = model.fc.in_features
    model.fc = nn.Identity()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model, n_channels


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {"zoo:resnet_selective": resnet_selective}
