"""Backbones that timm builds, or that are built from its parts.

Every constructor gives the module without its classifier, and how many numbers it pools an image to: in nearly all the
channels of its last feature map or of one token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import timm
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.pool2d_same import MaxPool2dSame
from timm.models import byobnet
from timm.models.byobnet import ByoBlockCfg, ByobNet
from timm.models.convnext import ConvNeXtBlock
from timm.models.regnet import RegNet, RegNetCfg
from torch import nn

from . import vit_models
from .poolers import FirstQuery
from .resnet import resnet_wide, torchvision_resnet


def timm_model(name: str, **options: Any) -> tuple[nn.Module, int]:
    """A model of timm, by its name there."""
    if not timm.is_model(name):
        raise ValueError(f"timm {timm.__version__} has no model {name}")
    model = timm.create_model(name, pretrained=False, num_classes=0, **options)
    width = getattr(model, "head_hidden_size", None) or model.num_features  # some have a layer after their average
    return model, cast(int, width)


def _any_model(name: str, **options: Any) -> tuple[Any, int]:
    """The same, of whose parts type checkers know nothing, for constructors that exchange some."""
    return timm_model(name, **options)


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


def regnety_10b() -> tuple[nn.Module, int]:
    """The RegNetY of ten billion parameters that SEER was trained with; timm has smaller ones.

    Source: facebookresearch/vissl, ``projects/SEER``; its widths are those of RegNetParams(depth=27, w_0=1744,
    w_a=620.83, w_m=2.52, group_width=1010).
    """
    numbers = RegNetCfg(depth=27, w0=1744, wa=620.83, wm=2.52, group_size=1010, se_ratio=0.25)
    model = RegNet(numbers, num_classes=0)
    return model, model.num_features


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


def vit_without_patch_bias(*, name: str, **options: Any) -> tuple[nn.Module, int]:
    """A vision transformer of timm whose patches are projected without a bias, though no norm precedes its blocks.

    CLIPA's, OpenVision's and RADIO's; in timm only transformers with such a norm have no bias there.
    """
    model, width = _any_model(name, **options)
    model.patch_embed.proj.bias = None
    return model, width


def coca_vit(
    *, name: str, pooled_dim: int, final_norm: bool = False, has_bias: bool = True, **options: Any
) -> tuple[nn.Module, int]:
    """The image tower of a CoCa: a transformer of timm, and attention that pools its tokens.

    OpenCLIP's has no norm between the two, CONCH's has; CONCH v1.5 has no biases in the attention.
    """
    model, width = _any_model(name, final_norm=final_norm, **options)
    model.attn_pool = FirstQuery(width, pooled_dim, n_heads=8, has_bias=has_bias)
    model.pool_include_prefix = True  # the class token is pooled like a patch
    model.head_hidden_size = pooled_dim
    return model, pooled_dim


def vit_with_mlp_head(*, name: str, head_dim: int, **options: Any) -> tuple[nn.Module, int]:
    """A transformer of timm whose class token goes through two layers to the space shared with text: KEEP's."""
    model, width = _any_model(name, **options)
    model.head = nn.Sequential(nn.Linear(width, head_dim), nn.GELU(), nn.Linear(head_dim, head_dim))
    model.head_hidden_size = head_dim
    return model, head_dim


def clip_resnet(*, width: int) -> tuple[nn.Module, int]:
    """CLIP's ResNet-50 of another width than 64, a multiple of 4; its features are those of its attention pool."""
    stages = zip((3, 4, 6, 3), (4, 8, 16, 32), (1, 2, 2, 2), strict=True)
    blocks = tuple(ByoBlockCfg(type="bottle", d=d, c=times * width, s=stride, br=0.25) for d, times, stride in stages)
    about = replace(byobnet.model_cfgs["resnet50_clip"], blocks=blocks, stem_chs=(width // 2, width // 2, width))
    model: Any = ByobNet(about, num_classes=0, img_size=224)
    if width % 8:  # to a multiple of which timm rounds the narrow convolutions of a block
        for block in model.stages[0]:
            _narrow(block.conv1_1x1, block.conv1_1x1.conv.in_channels, width)
            _narrow(block.conv2_kxk, width, width)
            _narrow(block.conv3_1x1, width, block.conv3_1x1.conv.out_channels)
    return model, model.num_features


def _narrow(layer: Any, n_in: int, n_out: int) -> None:
    """Leaves a convolution and its norm the first of their channels."""
    conv, norm = layer.conv, layer.bn
    conv.weight = nn.Parameter(conv.weight.detach()[:n_out, :n_in].clone())
    conv.in_channels, conv.out_channels, norm.num_features = n_in, n_out, n_out
    norm.weight, norm.bias = (nn.Parameter(each.detach()[:n_out].clone()) for each in (norm.weight, norm.bias))
    norm.running_mean, norm.running_var = norm.running_mean[:n_out].clone(), norm.running_var[:n_out].clone()


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    "zoo:convnext_norm_first": convnext_norm_first,
    "zoo:convnext_without_norm": convnext_without_norm,
    "zoo:regnety_10b": regnety_10b,
    "zoo:resnet50_same_padding": resnet50_same_padding,
    "zoo:vit_without_patch_bias": vit_without_patch_bias,
    "zoo:coca_vit": coca_vit,
    "zoo:resnet_same_padding": resnet_same_padding,
    "zoo:resnet_same_pool": resnet_same_pool,
    "zoo:vit_with_mlp_head": vit_with_mlp_head,
    "zoo:clip_resnet": clip_resnet,
    **vit_models.BACKBONES,
}
