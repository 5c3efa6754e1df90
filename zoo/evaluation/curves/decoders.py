"""From what an encoder computes to what a task asks for: a linear head for classes, a U-Net for maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...optional import requires_extra

with requires_extra("models", needed_for="A decoder"):
    import torch.nn.functional as F  # noqa: N812
    from torch import Tensor, nn
    from torchvision.ops import Conv2dNormActivation

MOST_CHANNELS = 256  # of the decoder's deepest map
LEAST_CHANNELS = 8  # of any of its maps
CHANNELS_A_GROUP = 8  # of a group norm


class LinearHead(nn.Module):
    """One fully connected layer.

    Parameters
    ----------
    dim : int
        Dimensions of the features.
    n_outputs : int
        Classes.
    """

    def __init__(self, dim: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, n_outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Logits, float32 (n, n_outputs), of features, float32 (n, dim)."""
        output: Tensor = self.linear(features)
        return output


class UNetDecoder(nn.Module):
    """Blocks that double the resolution, from the deepest stage of an encoder to its images, with skip connections.

    A block enlarges the map that comes from below, bilinearly, adds the stages of the new resolution and convolves,
    with half as many channels for the next block; the last one adds the image itself. There are as many blocks as
    halvings between the image and the deepest stage, five for a ResNet-50, behind a convolution of the deepest stage.
    Where sizes are no powers of two (255 px, patches of 14 px), whatever joins at a level is brought to its size.

    Of stages of one stride, as the depths of a transformer are, the last one has its own place and each earlier one the
    level above: a pyramid with the shallowest stage the finest, as in Ranftl et al. 2021.

    Every stage is projected to the channels of its level and normalised before it is added, so that neither the scale
    nor the width of an encoder's maps decides how fast a decoder learns; what is added costs half of what is
    concatenated. Norms are over groups of channels of one image: statistics of a batch would mean little for a handful
    of images, differ between training and testing, and change with the images a forward pass.

    Parameters
    ----------
    channels, strides : sequences of int
        Of the stages, shallow first; see :class:`zoo.encoders.stages.StageReader`.
    n_outputs : int
        Channels of the map that is predicted.
    px : int
        Height and width of the images.

    References
    ----------
    Ronneberger et al. 2015, U-Net. Ranftl et al. 2021, Vision Transformers for Dense Prediction: the pyramid.
    """

    def __init__(self, channels: Sequence[int], strides: Sequence[int], n_outputs: int, px: int) -> None:
        super().__init__()
        level_strides, self.levels = pyramid((1, *strides))  # the image is a stage too
        self.sizes = [math.ceil(px / stride) for stride in level_strides]
        widths = [_width(min(channels[-1], MOST_CHANNELS))]
        for _ in level_strides[1:]:
            widths.append(_width(widths[-1] // 2))
        self.projections = nn.ModuleList(
            _convolution(n_in, widths[level], kernel_px=1)
            for n_in, level in zip((3, *channels), self.levels, strict=True)
        )
        self.blocks = nn.ModuleList()
        for level, width in enumerate(widths[:-1]):
            narrowing = _convolution(width, widths[level + 1])
            self.blocks.append(nn.Sequential(_convolution(width, width), narrowing) if level else narrowing)
        self.blocks.append(_convolution(widths[-1], widths[-1]))
        self.output = nn.Conv2d(widths[-1], n_outputs, kernel_size=1)

    def forward(self, stages: Sequence[Tensor], images: Tensor) -> Tensor:
        """Map, float32 (n, n_outputs, px, px), of an encoder's stages and the images that it saw, (n, 3, px, px)."""
        joining: list[list[Tensor]] = [[] for _ in self.sizes]
        for stage, project, level in zip((images, *stages), self.projections, self.levels, strict=True):
            joining[level].append(_resized(project(stage), self.sizes[level]))
        x: Tensor | None = None
        for block, size, added in zip(self.blocks, self.sizes, joining, strict=True):
            x = block(sum(added) if x is None else sum(added, _resized(x, size)))  # (n, width, size, size)
        output: Tensor = self.output(x)
        return output


def pyramid(strides: Sequence[int]) -> tuple[list[float], list[int]]:
    """Levels of a U-Net, and at which of them each stage joins.

    Parameters
    ----------
    strides : sequence of int
        Of the image, which is 1, and of the stages, ascending.

    Returns
    -------
    level_strides : list of float
        Of every level, that of the deepest stage first, 1 last.
    levels : list of int
        Of every stride: the first level as fine as it, and finer than that of the stage below; or else the last.

    >>> pyramid([1, 2, 4, 8, 16, 32])  # a ResNet
    ([32.0, 16.0, 8.0, 4.0, 2.0, 1.0], [5, 4, 3, 2, 1, 0])
    >>> pyramid([1, 16, 16, 16, 16])  # a transformer
    ([16.0, 8.0, 4.0, 2.0, 1.0], [4, 3, 2, 1, 0])
    """
    level_strides = [float(strides[-1])]
    while len(level_strides) == 1 or level_strides[-1] > 1:
        level_strides.append(max(level_strides[-1] / 2, 1.0))
    levels = [0]
    for stride in reversed(strides[:-1]):
        finer = range(levels[-1] + 1, len(level_strides))
        levels.append(next((level for level in finer if level_strides[level] <= stride), len(level_strides) - 1))
    return level_strides, levels[::-1]


def _convolution(n_in: int, n_out: int, *, kernel_px: int = 3) -> nn.Module:
    block: nn.Module = Conv2dNormActivation(n_in, n_out, kernel_px, norm_layer=_group_norm)
    return block


def _group_norm(n_channels: int) -> nn.Module:
    return nn.GroupNorm(n_channels // CHANNELS_A_GROUP, n_channels)


def _width(n_channels: int) -> int:
    return max(LEAST_CHANNELS, math.ceil(n_channels / CHANNELS_A_GROUP) * CHANNELS_A_GROUP)


def _resized(x: Tensor, px: int) -> Tensor:
    if x.shape[-2:] == (px, px):
        return x
    return F.interpolate(x, size=(px, px), mode="bilinear", align_corners=False)
