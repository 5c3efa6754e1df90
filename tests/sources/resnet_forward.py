"""A ResNet with bottlenecks: the names and shapes that all sources share, random weights, and the forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..encoder_checks import SAME, relative_difference, resnet_by_hand, symmetric_conv, symmetric_max_pool
from . import in_double

State = dict[str, Tensor]
Window = Callable[[Tensor, Tensor, int], Tensor]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a ResNet differs from a ResNet-50: blocks a stage, channels of the stem, and how wide its bottlenecks are."""

    depths: tuple[int, int, int, int] = (3, 4, 6, 3)
    width: int = 64
    bottleneck: float = 1.0
    n_channels: int = 3


SHAPES = {
    "resnet50": Shape(),
    "resnet50w2": Shape(width=128),
    "resnet50w4": Shape(width=256),
    "resnet50w5": Shape(width=320),
    "resnet50 lightness": Shape(n_channels=1),
    "resnet101": Shape(depths=(3, 4, 23, 3)),
    "resnet152": Shape(depths=(3, 8, 36, 3)),
    "resnet200": Shape(depths=(3, 24, 36, 3)),
    "resnet200w2": Shape(depths=(3, 24, 36, 3), width=128),
    "wide_resnet50_2": Shape(bottleneck=2),
    "resnet50 slim": Shape(bottleneck=1 / 4),
    "resnet50 thin": Shape(bottleneck=1 / 64),
    "resnet101 slim": Shape(depths=(3, 4, 23, 3), bottleneck=1 / 4),
}


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Random tensors from a source of randomness of their own; on the meta device they have shapes alone."""

    seed: int = 0
    device: str = "cpu"
    source: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", torch.Generator().manual_seed(self.seed))

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        tensor = torch.empty(shape, device=self.device)
        return tensor if tensor.is_meta else tensor.uniform_(low, high, generator=self.source)

    def weight(self, n_out: int, *inner: int) -> Tensor:
        """Of a convolution or a linear layer before a ReLU: variances stay about as they are."""
        bound = (6 / (torch.Size(inner).numel() or 1)) ** 0.5
        return self.between(-bound, bound, n_out, *inner)

    def linear(self, name: str, n_in: int, n_out: int, *, bias: bool = True) -> State:
        layer = {f"{name}.weight": self.weight(n_out, n_in)}
        return layer | {f"{name}.bias": self.between(-0.1, 0.1, n_out)} if bias else layer

    def norm(self, name: str, n: int, *, scale: float = 1.0, affine: bool = True) -> State:
        """Of a batch; the statistics are not those with which training starts."""
        tensors = {f"{name}.weight": self.between(0.6 * scale, 1.4 * scale, n)} if affine else {}
        tensors |= {f"{name}.bias": self.between(-0.2, 0.2, n)} if affine else {}
        tensors |= {f"{name}.running_mean": self.between(-0.2, 0.2, n)}
        tensors |= {f"{name}.running_var": self.between(0.6, 1.4, n)}
        return tensors | {f"{name}.num_batches_tracked": torch.tensor(1000, device=self.device)}


def resnet_tensors(shape: Shape, draw: Draw) -> State:
    """The state dict of a ResNet without its classifier."""
    tensors = {"conv1.weight": draw.weight(shape.width, shape.n_channels, 7, 7)} | draw.norm("bn1", shape.width)
    for at, n_in, n_inner, n_out, is_first in _blocks(shape):
        tensors |= {f"{at}.conv1.weight": draw.weight(n_inner, n_in, 1, 1)} | draw.norm(f"{at}.bn1", n_inner)
        tensors |= {f"{at}.conv2.weight": draw.weight(n_inner, n_inner, 3, 3)} | draw.norm(f"{at}.bn2", n_inner)
        tensors |= {f"{at}.conv3.weight": draw.weight(n_out, n_inner, 1, 1)} | draw.norm(f"{at}.bn3", n_out, scale=0.3)
        if is_first:
            tensors[f"{at}.downsample.0.weight"] = draw.weight(n_out, n_in, 1, 1) * 0.5
            tensors |= draw.norm(f"{at}.downsample.1", n_out)
    return tensors


def _blocks(shape: Shape) -> Iterator[tuple[str, int, int, int, bool]]:
    n_in = shape.width
    for stage, depth in enumerate(shape.depths):
        n_out = shape.width * 4 * 2**stage
        for block in range(depth):
            yield f"layer{stage + 1}.{block}", n_in, int(n_out // 4 * shape.bottleneck), n_out, block == 0
            n_in = n_out


def padded_twice(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    """The padding of the stem of SwAV and VICReg: a frame of zeros first, and one pixel less in the convolution."""
    if weight.shape[-1] == 7:
        return F.conv2d(F.pad(x, (1, 1, 1, 1)), weight, stride=stride, padding=2)
    return symmetric_conv(x, weight, stride)


def resnet_map(weights: Mapping[str, Tensor], images: Tensor, *, conv: Window = symmetric_conv) -> Tensor:
    """The last feature map, (n, channels, px / 32, px / 32)."""
    return resnet_by_hand(in_double(weights), images.double(), conv=conv, max_pool=symmetric_max_pool)


def resnet_features(weights: Mapping[str, Tensor], images: Tensor, *, conv: Window = symmetric_conv) -> Tensor:
    """The average of the last feature map, (n, channels)."""
    return resnet_map(weights, images, conv=conv).mean(dim=(2, 3))


def assert_same(features: Tensor, reference: Tensor) -> None:
    """Equal in float64 but for the order of sums, features of a size for which that means something."""
    assert features.shape == reference.shape
    assert features.dtype == reference.dtype == torch.float64
    assert 0.1 < reference.abs().mean() < 3
    assert relative_difference(reference, features) < SAME


def largest_difference(left: Tensor, right: Tensor) -> float:
    return float((left - right).abs().max())
