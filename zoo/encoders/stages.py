"""Maps of what an encoder computes on its way to the features, at several depths: what a dense decoder starts from.

Three kinds of backbones have them:

* ResNets of torchvision and of :mod:`zoo.encoders.resnet`: the stem before its max pool, then every stage. The last
  block of ``zoo:resnet50_last_block`` takes the place of the last stage, for its output is what is pooled;
* networks of timm whose maps get smaller (ConvNeXt, CLIP's ResNets, Swin, ...): the deepest map of each size;
* transformers, and whatever else of timm keeps the size of its maps: four blocks, evenly spaced, the last one among
  them, or all if there are fewer. Patch tokens take their places in the image, row by row; class and register tokens
  are left out. Every block goes through the final norm, as :mod:`zoo.representations` has it. All four maps have the
  stride of the patches: a decoder that wants a pyramid of them resizes what it has projected, which is cheaper.

A backbone of the user's own is read as those of timm are, if it has their ``feature_info`` and
``forward_intermediates``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torchvision.models.resnet import ResNet

from ..errors import QueryError
from .encoder import Encoder
from .resnet import SmallResNet

N_DEPTHS = 4
"""Of a backbone that keeps the size of its maps."""


@dataclass(frozen=True, slots=True, eq=False)
class StageReader:
    """From images to the maps of an encoder's stages.

    Shares the modules of the encoder, and follows them to another device, into training and out of it.

    Attributes
    ----------
    channels : tuple of int
        Of each stage, shallow first.
    strides : tuple of int
        Pixels of the input from one cell of its map to the next, ascending; equal for depths of a transformer.
    read : callable
        Images -> maps.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    read: Callable[[Tensor], list[Tensor]]

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Maps, each (n, channels, height, width), shallow first, of normalised images, float32 (n, 3, px, px).

        Raises
        ------
        QueryError
            If a backbone of the user's own does not do what it says.
        """
        maps = self.read(images)
        found = tuple(each.shape[1] for each in maps)
        if found != self.channels:
            raise QueryError(
                f"The backbone gives maps of {found} channels, and its feature_info says {self.channels}; correct its "
                "feature_info, or take another encoder."
            )
        return maps


def stage_reader(encoder: Encoder, *, px: int) -> StageReader:
    """The maps that an encoder has.

    Parameters
    ----------
    encoder : Encoder
    px : int
        Height and width of the images.

    Raises
    ------
    QueryError
        If the encoder has no spatial features, or not for images of this size.
    """
    backbone = encoder.backbone
    if isinstance(backbone, ResNet | SmallResNet):
        return _of_resnet(backbone)
    if not (getattr(backbone, "feature_info", None) and hasattr(backbone, "forward_intermediates")):
        raise QueryError(
            f"The encoder has no spatial features: its backbone is a {type(backbone).__name__}, expected a ResNet of "
            "torchvision, a network of timm, or one with timm's feature_info and forward_intermediates; take another "
            "encoder, or the task classification."
        )
    _check_size(backbone, px)
    return _of_timm(backbone)


def _of_resnet(backbone: Any) -> StageReader:
    channels = [backbone.conv1.out_channels]
    strides = [_one(backbone.conv1.stride)]
    layers = [layer for name, layer in backbone.named_children() if name.startswith("layer")]
    pool = getattr(backbone, "maxpool", nn.Identity())
    stride = strides[0] * _one(getattr(pool, "stride", 1))  # networks for small images have nn.Identity here
    for layer in layers:
        norms = [module for name, module in layer[-1].named_children() if name.startswith("bn")]
        stride *= _one(layer[0].stride)
        channels.append(norms[-1].num_features)
        strides.append(stride)
    last = list(backbone.avgpool.children())[:-1]  # zoo:resnet50_last_block has a block before its average
    if last:
        channels[-1] = last[-1].bn3.num_features
        layers[-1] = nn.Sequential(layers[-1], *last)
    stem = nn.Sequential(backbone.conv1, backbone.bn1, backbone.relu)
    return StageReader(tuple(channels), tuple(strides), partial(_read_resnet, [stem, pool, *layers]))


def _read_resnet(parts: list[nn.Module], images: Tensor) -> list[Tensor]:
    stem, pool, *layers = parts
    maps = [stem(images)]
    x = pool(maps[0])
    for layer in layers:
        x = layer(x)
        maps.append(x)
    return maps


def _of_timm(backbone: Any) -> StageReader:
    about = list(backbone.feature_info)
    strides = [_one(stage["reduction"]) for stage in about]
    if len(about) > 1 and len(set(strides)) == 1:
        n, n_depths = len(about), min(N_DEPTHS, len(about))
        taken = [(depth + 1) * n // n_depths - 1 for depth in range(n_depths)]
        norm = True
    else:
        taken = [i for i, stride in enumerate(strides) if stride not in strides[i + 1 :]]
        norm = hasattr(backbone, "norm_pre")  # ConvNeXt: what is pooled; others cannot all norm their maps
    return StageReader(
        tuple(about[i]["num_chs"] for i in taken),
        tuple(strides[i] for i in taken),
        partial(_read_timm, backbone, taken=taken, norm=norm),
    )


def _read_timm(backbone: Any, images: Tensor, *, taken: list[int], norm: bool) -> list[Tensor]:
    return list(backbone.forward_intermediates(images, indices=taken, norm=norm, intermediates_only=True))


def _check_size(backbone: Any, px: int) -> None:
    """Transformers with a table of positions see images of one size; none sees a part of a patch."""
    embed = getattr(backbone, "patch_embed", None)
    patch_px, built_px = _one(getattr(embed, "patch_size", 1)), _one(getattr(embed, "img_size", None) or px)
    overlaps = patch_px != _one(backbone.feature_info[0]["reduction"])  # then windows, which are padded
    expected = ""
    if built_px != px and getattr(embed, "strict_img_size", True):
        expected = f"{built_px} px, for which its positions are"
    elif px % patch_px and not overlaps and not getattr(embed, "dynamic_img_pad", False):
        expected = f"a multiple of its patches of {patch_px} px"
    if expected:
        raise QueryError(
            f"The encoder has no spatial features for images of {px} px: its backbone, a {type(backbone).__name__}, "
            f"needs {expected}; correct the crop of its preprocessing."
        )


def _one(of_both_axes: Any) -> int:
    return int(of_both_axes[0]) if isinstance(of_both_axes, tuple | list) else int(of_both_axes)
