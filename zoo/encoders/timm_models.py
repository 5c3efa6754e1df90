"""Backbones that timm builds, or that are built from its parts.

Every constructor gives the module without its classifier, and how many numbers it pools an image to: in nearly all the
channels of its last feature map or of one token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import timm
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.pool2d_same import MaxPool2dSame
from timm.models.convnext import ConvNeXtBlock
from torch import nn

from .resnet import resnet_wide, torchvision_resnet


def timm_model(name: str, **options: Any) -> tuple[nn.Module, int]:
    """A model of timm, by its name there."""
    if not timm.is_model(name):
        raise ValueError(f"timm {timm.__version__} has no model {name}")
    model = timm.create_model(name, pretrained=False, num_classes=0, **options)
    width = getattr(model, "head_hidden_size", None) or model.num_features  # some have a layer after their average
    return model, cast(int, width)


def convnext_norm_first(*, size: str) -> tuple[nn.Module, int]:
    """A ConvNeXt as VICRegL trains it: LayerNorm before the average pool, and no layer scale.

    timm ignores ``ls_init_value=None``, and 0 would silence every block, so the scales are taken out afterwards.
    """
    if size not in ("small", "base", "xlarge"):
        raise ValueError(f"size is {size!r}, expected 'small', 'base' or 'xlarge'")
    model, width = timm_model(f"convnext_{size}", head_norm_first=True)
    for module in model.modules():
        if isinstance(module, ConvNeXtBlock):
            module.gamma = None
    return model, width


def convnext_without_norm(*, name: str) -> tuple[nn.Module, int]:
    """A ConvNeXt of timm, by its name there, whose pooled map is not normed.

    SparK and its kin never train the last norm, for what they decode is the map before it.
    """
    model, width = timm_model(name)
    cast(Any, model).head.norm = nn.Identity()
    return model, width


def resnet50_same_padding() -> tuple[nn.Module, int]:
    """torchvision's ResNet-50 with the padding of TensorFlow and Haiku, as BYOL was trained.

    SAME padding of a strided window puts the odd pixel at the far side, where torchvision pads both sides alike. The
    weights fit either network; with the other padding the features are off by half their size.
    """
    model, width = torchvision_resnet("resnet50")
    _pad_as_tensorflow(model)
    return model, width


def resnet_same_padding(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """The same of a wider or deeper ResNet."""
    model, n_channels = resnet_wide(depth=depth, width=width)
    _pad_as_tensorflow(model)
    return model, n_channels


def resnet_same_pool(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """A ResNet whose max pool alone has that padding, as SimCLR was trained, whose convolutions pad by hand."""
    model, n_channels = resnet_wide(depth=depth, width=width)
    cast(Any, model).maxpool = MaxPool2dSame(kernel_size=3, stride=2)
    return model, n_channels


def _pad_as_tensorflow(model: nn.Module) -> None:
    for parent in list(model.modules()):
        for name, module in parent.named_children():
            if isinstance(module, nn.Conv2d) and module.stride[0] > 1:
                kernel_px, stride = module.kernel_size[0], module.stride[0]
                same = Conv2dSame(module.in_channels, module.out_channels, kernel_px, stride, bias=False)
                same.weight = module.weight
                setattr(parent, name, same)
            elif isinstance(module, nn.MaxPool2d):
                setattr(parent, name, MaxPool2dSame(kernel_size=3, stride=2))


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    "zoo:convnext_norm_first": convnext_norm_first,
    "zoo:convnext_without_norm": convnext_without_norm,
    "zoo:resnet50_same_padding": resnet50_same_padding,
    "zoo:resnet_same_padding": resnet_same_padding,
    "zoo:resnet_same_pool": resnet_same_pool,
}
