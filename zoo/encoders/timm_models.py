"""Networks that timm builds, or that are built from its parts.

Every constructor gives the module without its classifier, and how many numbers it pools an image to: in nearly all the
channels of its last feature map or of one token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import timm
import torch
import torch.nn.functional as F  # noqa: N812
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.pool2d_same import MaxPool2dSame
from timm.models import byobnet
from timm.models.byobnet import ByoBlockCfg, ByobNet
from timm.models.convnext import ConvNeXtBlock
from timm.models.regnet import RegNet, RegNetCfg
from torch import Tensor, nn
from torchvision.models import get_model

from . import vit_models
from .residual_networks import Bottleneck
from .resnet import (
    build_resnet_wide,
    build_torchvision_resnet,
    draw_convolutions,
    make_widened_resnet,
    remove_classifier,
)


def build_timm_model(name: str, **options: Any) -> tuple[nn.Module, int]:
    """A model of timm, by its name there."""
    if not timm.is_model(name):
        raise ValueError(f"timm {timm.__version__} has no model {name}")
    model = timm.create_model(name, pretrained=False, num_classes=0, **options)
    width = getattr(model, "head_hidden_size", None) or model.num_features  # some have a layer after their average
    return model, cast(int, width)


def _any_model(name: str, **options: Any) -> tuple[Any, int]:
    """The same, of whose parts type checkers know nothing, for constructors that exchange some."""
    return build_timm_model(name, **options)


def build_convnext_norm_first(*, size: str) -> tuple[nn.Module, int]:
    """A ConvNeXt as VICRegL trains it: LayerNorm before the average pool, and no layer scale.

    timm ignores ``ls_init_value=None``, and 0 would silence every block, so the scales are taken out afterwards.
    """
    if size not in ("small", "base", "xlarge"):
        raise ValueError(f"size is {size!r}, expected 'small', 'base' or 'xlarge'")
    model, width = build_timm_model(f"convnext_{size}", head_norm_first=True)
    for module in model.modules():
        if isinstance(module, ConvNeXtBlock):
            module.gamma = None
    return model, width


def build_convnext_without_norm(*, name: str) -> tuple[nn.Module, int]:
    """A ConvNeXt of timm, by its name there, whose pooled map is not normed.

    SparK and networks like it never train the last norm, for what they decode is the map before it.
    """
    model, width = build_timm_model(name)
    cast(Any, model).head.norm = nn.Identity()
    return model, width


def build_regnety_10b() -> tuple[nn.Module, int]:
    """The RegNetY of ten billion parameters that SEER was trained with; timm has smaller ones.

    Source: facebookresearch/vissl, ``projects/SEER``; its widths are those of RegNetParams(depth=27, w_0=1744,
    w_a=620.83, w_m=2.52, group_width=1010).
    """
    numbers = RegNetCfg(depth=27, w0=1744, wa=620.83, wm=2.52, group_size=1010, se_ratio=0.25)
    model = RegNet(numbers, num_classes=0)
    return model, model.num_features


def build_resnet50_same_padding() -> tuple[nn.Module, int]:
    """torchvision's ResNet-50 with the padding of TensorFlow and Haiku, as BYOL was trained.

    SAME padding of a strided window puts the odd pixel at the far side, where torchvision pads both sides alike. The
    weights fit either network; with the other padding the features are off by half their size.
    """
    model, width = build_torchvision_resnet("resnet50")
    _pad_as_tensorflow(model)
    return model, width


def build_resnet_same_padding(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """The same of a wider or deeper ResNet."""
    model, n_channels = build_resnet_wide(depth=depth, width=width)
    _pad_as_tensorflow(model)
    return model, n_channels


def build_resnet_same_pool(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """A ResNet whose max pool alone has that padding, as SimCLR was trained, whose convolutions pad by hand."""
    model, n_channels = build_resnet_wide(depth=depth, width=width)
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


def build_vit_without_patch_bias(*, name: str, **options: Any) -> tuple[nn.Module, int]:
    """A vision transformer of timm whose patches are projected without a bias, though no norm precedes its blocks.

    CLIPA's, OpenVision's and RADIO's; in timm only transformers with such a norm have no bias there.
    """
    model, width = _any_model(name, **options)
    model.patch_embed.proj.bias = None
    return model, width


def build_coca_vit(
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


def build_vit_with_mlp_head(*, name: str, head_dim: int, **options: Any) -> tuple[nn.Module, int]:
    """A transformer of timm whose class token goes through two layers to the space shared with text: KEEP's."""
    model, width = _any_model(name, **options)
    model.head = nn.Sequential(nn.Linear(width, head_dim), nn.GELU(), nn.Linear(head_dim, head_dim))
    model.head_hidden_size = head_dim
    return model, head_dim


def build_clip_resnet(*, width: int) -> tuple[nn.Module, int]:
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


class FirstQuery(nn.Module):
    """CoCa's attentional pooling, of the one query whose answer is compared with texts; the norm of the answer too.

    OpenCLIP trains further queries of the same pooling for its captioner; queries do not see each other.
    """

    def __init__(self, width: int, dim: int, *, n_heads: int, has_bias: bool = True) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Parameter(torch.randn(1, dim))
        self.norm_q, self.norm_kv, self.norm = nn.LayerNorm(dim), nn.LayerNorm(width), nn.LayerNorm(dim)
        self.q, self.proj = nn.Linear(dim, dim, bias=has_bias), nn.Linear(dim, dim, bias=has_bias)
        self.k, self.v = nn.Linear(width, dim, bias=has_bias), nn.Linear(width, dim, bias=has_bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, tokens, width) -> (n, dim)."""
        tokens = self.norm_kv(tokens)
        query = self.q(self.norm_q(self.query)).expand(len(tokens), 1, -1)
        q, k, v = (self._heads(each) for each in (query, self.k(tokens), self.v(tokens)))
        answer = nn.functional.scaled_dot_product_attention(q, k, v)  # (n, heads, 1, dim / heads)
        return self.norm(self.proj(answer.transpose(1, 2).flatten(1)))  # type: ignore[no-any-return]

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # type: ignore[no-untyped-call, no-any-return]


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


class SelectiveBottleneck(Bottleneck):
    """A bottleneck whose convolution of 3 x 3 is a selective kernel."""

    def __init__(self, n_in: int, n: int, stride: int = 1, downsample: Any = None, **sizes: Any) -> None:
        super().__init__(n_in, n, stride, downsample, **sizes)
        self.conv2 = SelectiveKernel(n, n, stride)
        self.bn2 = nn.Identity()  # the kernel has its own
        if downsample is not None:
            projection = nn.Conv2d(n_in, 4 * n, kernel_size=1, bias=False)
            self.downsample = nn.Sequential(AveragedShortcut(stride), projection, nn.BatchNorm2d(4 * n))


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


def build_resnet_selective(*, depth: int, width: int) -> tuple[nn.Module, int]:
    """A ResNet of SimCLRv2 with selective kernels, ``width`` times as wide."""
    model = cast(Any, make_widened_resnet(depth, width, block=SelectiveBottleneck))
    model.conv1 = DeepStem(32 * width)
    model.maxpool = MaxPool2dSame(kernel_size=3, stride=2)
    draw_convolutions(model)
    return remove_classifier(model)


def build_swin_conv_stem(*, name: str) -> tuple[nn.Module, int]:
    """A Swin of timm, by its name there, whose patches are embedded by three convolutions, as CTransPath is.

    Source: Xiyue-Wang/TransPath, ``ctran.py``.
    """
    model: Any = timm.create_model(name, pretrained=False, num_classes=0)
    n = model.patch_embed.proj.out_channels
    model.patch_embed.proj = nn.Sequential(
        nn.Conv2d(3, n // 8, kernel_size=3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(n // 8),
        nn.ReLU(inplace=True),
        nn.Conv2d(n // 8, n // 4, kernel_size=3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(n // 4),
        nn.ReLU(inplace=True),
        nn.Conv2d(n // 4, n, kernel_size=1),
    )
    return model, model.num_features


def build_swin_fine_norm(*, name: str, window_size: int) -> tuple[nn.Module, int]:
    """A Swin of timm whose norms add 1e-6 to a variance, a tenth of the usual, as iBOT's."""
    model: Any = timm.create_model(name, pretrained=False, num_classes=0, window_size=window_size)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    return model, model.num_features


class PositionedNorm(nn.LayerNorm):
    """A LayerNorm of patches that adds their positions: (n, rows, columns, channels)."""

    def __init__(self, n_channels: int, grid: tuple[int, int]) -> None:
        super().__init__(n_channels)
        self.positions = nn.Parameter(torch.zeros(1, *grid, n_channels))

    def forward(self, patches: Tensor) -> Tensor:
        return super().forward(patches) + self.positions


def build_swin_without_shift(*, name: str, window_size: int) -> tuple[nn.Module, int]:
    """A Swin of timm whose windows stay in place and are told apart by fixed positions, as MixMIM's.

    Source: open-mmlab/mmpretrain, ``models/backbones/mixmim.py``.
    """
    model: Any = timm.create_model(name, pretrained=False, num_classes=0, window_size=window_size)
    embed = model.patch_embed
    embed.norm = PositionedNorm(embed.proj.out_channels, embed.grid_size)
    for stage in model.layers:
        for block in stage.blocks:
            block.shift_size = block.target_shift_size = (0, 0)
            block.attn_mask = None
    return model, model.num_features


def build_swinv2_of_torchvision(*, name: str) -> tuple[nn.Module, int]:
    """A Swin V2 of torchvision, by its name there, whose last map is not normed.

    torchvision pads maps that are smaller than a window, and timm takes smaller windows. Decoders of the map, as
    SatlasPretrain's, never train the last norm.
    """
    model: Any = get_model(name, weights=None)
    width: int = model.head.in_features
    model.norm = nn.Identity()
    model.head = nn.Identity()
    return cast(nn.Module, model), width


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = vit_models.BACKBONES | {
    f"zoo:{constructor.__name__.removeprefix('build_')}": constructor
    for constructor in (
        *(
            build_convnext_norm_first,
            build_convnext_without_norm,
            build_regnety_10b,
            build_resnet50_same_padding,
            build_resnet_same_padding,
        ),
        *(
            build_resnet_same_pool,
            build_resnet_selective,
            build_clip_resnet,
            build_vit_without_patch_bias,
            build_coca_vit,
            build_vit_with_mlp_head,
        ),
        *(build_swin_conv_stem, build_swin_fine_norm, build_swin_without_shift, build_swinv2_of_torchvision),
    )
}
