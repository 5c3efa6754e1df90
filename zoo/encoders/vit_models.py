"""Vision transformers that timm does not build, from timm's with a part of them exchanged.

Attributes that the poolings read (``num_prefix_tokens``, ``forward_features``, ``forward_intermediates``) are timm's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

import timm
import torch
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from ..errors import QueryError

Turns: TypeAlias = Callable[[int], Tensor]


class PostNormBlock(Block):
    """A block that norms the sum of its input and a branch, as data2vec 2.0 does; others norm what a branch sees."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = self.norm1(x + self.drop_path1(self.ls1(self.attn(x, *args, **kwargs))))
        return cast(Tensor, self.norm2(x + self.drop_path2(self.ls2(self.mlp(x)))))


def build_vit_post_norm(*, size: str, is_finetuned: bool = False, **options: Any) -> tuple[nn.Module, int]:
    """A vision transformer of data2vec 2.0: a norm before the blocks, norms after their branches, and none at the end.

    The class token has no position. A fine-tuned one averages the patch tokens, and has a norm for the average.
    """
    names = {"base": "vit_base_patch16_224", "large": "vit_large_patch16_224", "huge": "vit_huge_patch14_224"}
    if size not in names:
        raise ValueError(f"size is {size!r}, expected 'base', 'large' or 'huge'")
    model, width = _timm_model(
        names[size],
        block_fn=PostNormBlock,
        no_embed_class=True,
        global_pool="avg" if is_finetuned else "",
        final_norm=is_finetuned,
        fc_norm=is_finetuned,
        **options,
    )
    model.norm_pre = nn.LayerNorm(width, eps=1e-6)  # timm's own takes the bias from the patch embedding
    return model, width


class RepeatedImage(nn.Module):
    """Tokens of a clip that shows one image all the time: one for each patch of every few frames (a tubelet)."""

    def __init__(self, *, width: int, patch_px: int, img_px: int, n_frames: int, n_in_tubelet: int) -> None:
        super().__init__()
        kernel = (n_in_tubelet, patch_px, patch_px)
        self.proj = nn.Conv3d(3, width, kernel, stride=kernel)
        self.patch_size, self.img_size = (patch_px, patch_px), (img_px, img_px)
        self.n_in_tubelet, self.n_tubelets = n_in_tubelet, n_frames // n_in_tubelet

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, px, px) -> (n, tubelets * patches, width), all of the first tubelet first."""
        tubelet = images[:, :, None].expand(-1, -1, self.n_in_tubelet, -1, -1)
        tokens: Tensor = self.proj(tubelet).flatten(2).transpose(1, 2)
        return tokens.repeat(1, self.n_tubelets, 1)


def build_vit_of_clips(
    *, name: str, n_frames: int, n_in_tubelet: int, img_size: int, patch_size: int, **options: Any
) -> tuple[nn.Module, int]:
    """A video transformer of V-JEPA, which sees an image as a clip that shows it all the time, as its authors probe it.

    Every token has a position in time and space. There is no class token, and no map of the tokens.
    """
    model, width = _timm_model(
        name, img_size=img_size, patch_size=patch_size, class_token=False, global_pool="", **options
    )
    model.patch_embed = RepeatedImage(
        width=width, patch_px=patch_size, img_px=img_size, n_frames=n_frames, n_in_tubelet=n_in_tubelet
    )
    n_tokens = model.patch_embed.n_tubelets * (img_size // patch_size) ** 2
    model.pos_embed = nn.Parameter(torch.randn(1, n_tokens, width) * 0.02)
    model.feature_info = []
    return model, width


class TurnedAttention(nn.Module):
    """Attention whose queries and keys are turned by where their token is; CAPI's registers sit around the image.

    ``compute_rotations`` gives the radians from one side of the image to the other, (2, channels of a head).
    """

    def __init__(self, width: int, *, n_heads: int, n_registers: int, bias: bool, turns: Turns) -> None:
        super().__init__()
        self.n_heads, self.n_registers, self.turns = n_heads, n_registers, turns
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Tokens (n, registers + patches, width); patches are those of a square, row by row."""
        n, n_tokens, width = x.shape
        qkv = self.qkv(x).reshape(n, n_tokens, 3, self.n_heads, width // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (n, heads, tokens, width / heads)
        places = compute_patch_positions(n_tokens - self.n_registers, self.n_registers).to(x)
        angles = places @ self.turns(width // self.n_heads).to(x)  # (tokens, width / heads)
        cos, sin = angles.cos(), angles.sin()
        q, k = (each * cos + _quarter_turn(each) * sin for each in (q, k))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=is_causal)
        return cast(Tensor, self.proj(mixed.transpose(1, 2).flatten(2)))


def compute_patch_positions(n_patches: int, n_registers: int) -> Tensor:
    """Rows and columns from 0 to 1, (registers + patches, 2): registers once around the edge, then the patches."""
    side = math.isqrt(n_patches)
    if side * side != n_patches:
        raise QueryError(f"The encoder was given {n_patches} patches, expected those of a square image; crop it.")
    along = torch.arange(n_registers // 4) / (n_registers // 4)
    edges = [(along, 0 * along), (0 * along + 1, along), (1 - along, 0 * along + 1), (0 * along, 1 - along)]
    line = torch.linspace(0, 1, side)
    return torch.cat([torch.stack(edge, dim=1) for edge in edges] + [torch.cartesian_prod(line, line)])


def compute_rotations(head_dim: int) -> Tensor:
    """CAPI's radians from one side of the image to the other: half of the channels turn with the row."""
    fastest, slowest = 7.0, 7e-4
    rates = fastest * (fastest / slowest) ** torch.linspace(0, -1, head_dim // 4)
    rates = 2 * math.pi * torch.cat((rates, rates))
    return torch.stack((torch.cat((rates, 0 * rates)), torch.cat((0 * rates, rates))))


def compute_vjepa_rotations(head_dim: int) -> Tensor:
    """V-JEPA 2.1's: a third of the channels each for time, which stands still, row and column, and a few for none.

    Patches are counted from 0 to 15, however many there are. Source: facebookresearch/vjepa2, ``RoPEAttention``.
    """
    n_pairs = head_dim // 6
    rates = 15 * 10_000 ** -(torch.arange(n_pairs) / n_pairs)
    rows, columns = torch.zeros(2, head_dim // 2)
    rows[n_pairs : 2 * n_pairs] = columns[2 * n_pairs : 3 * n_pairs] = rates
    return torch.stack((rows, columns)).repeat(1, 2)


def _quarter_turn(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def build_capi(**options: Any) -> tuple[nn.Module, int]:
    """CAPI's encoder: rotary positions, also of registers; root-mean-square norms; no bias but that of the patches."""
    norm = partial(nn.RMSNorm, eps=1e-5)
    model, width = _timm_model(
        "vit_large_patch14_224",
        class_token=False,
        pos_embed="none",
        qkv_bias=False,
        proj_bias=False,
        norm_layer=norm,
        global_pool="",
        **({"reg_tokens": 16} | options),
    )
    model.norm = norm(width, elementwise_affine=False)
    _turn(model, bias=False, turns=compute_rotations)
    return model, width


def build_vjepa21(*, name: str, **options: Any) -> tuple[nn.Module, int]:
    """V-JEPA 2.1 for images, which are one frame in patches of their own; positions are rotary."""
    model, width = _timm_model(name, class_token=False, pos_embed="none", global_pool="", **options)
    _turn(model, bias=True, turns=compute_vjepa_rotations)
    return model, width


def _turn(model: Any, *, bias: bool, turns: Turns) -> None:
    about = {"n_registers": model.num_prefix_tokens, "bias": bias, "turns": turns}
    for block in model.blocks:
        block.attn = TurnedAttention(model.num_features, n_heads=block.attn.num_heads, **about)


class MeanOfClassTokens(VisionTransformer):
    """A transformer that pools the mean of all tokens before the patches."""

    def pool(self, x: Tensor, pool_type: str | None = None) -> Tensor:
        return x[:, : self.num_prefix_tokens].mean(dim=1)


def build_pixio(**options: Any) -> tuple[nn.Module, int]:
    """Pixio's encoder: eight class tokens, each with a position, whose mean it pools; seven are timm's registers."""
    model, width = _timm_model("vit_base_patch16_224", reg_tokens=7, **options)
    model.__class__ = MeanOfClassTokens  # timm's function for a name gives its own class alone
    return model, width


class PositionsOfDINOv2(VisionTransformer):
    """A transformer with a class token that interpolates its positions as DINOv2's authors do without registers.

    timm's antialiases, and takes the plain ratio of the two numbers of patches.
    """

    def _pos_embed(self, x: Tensor) -> Tensor:
        n, rows, columns, _ = x.shape
        assert self.cls_token is not None and self.pos_embed is not None
        tokens = torch.cat((self.cls_token.expand(n, -1, -1), x.flatten(1, 2)), dim=1)
        positions = interpolate_dinov2_positions(self.pos_embed, self.patch_embed.grid_size, (rows, columns))
        return cast(Tensor, self.pos_drop(tokens + positions.to(tokens.dtype)))


def interpolate_dinov2_positions(positions: Tensor, learned: tuple[int, int], wanted: tuple[int, int]) -> Tensor:
    """Positions (1, 1 + patches, width), that of the class token first, for as many rows and columns as wanted.

    Bicubic without antialiasing. The scale is that of a tenth of a patch more than there are, once against errors of
    rounding, and kept since. Source: facebookresearch/dinov2, ``models/vision_transformer.py``.
    """
    if wanted == tuple(learned):
        return positions
    of_class, of_patches = positions[:, :1], positions[:, 1:]
    grid = of_patches.float().transpose(1, 2).reshape(1, -1, *learned)  # (1, width, rows, columns)
    scales = [(new + 0.1) / old for new, old in zip(wanted, learned, strict=True)]
    grid = nn.functional.interpolate(grid, scale_factor=scales, mode="bicubic")
    return torch.cat((of_class, grid.flatten(2).transpose(1, 2).to(of_class.dtype)), dim=1)


def build_dinov2(*, name: str, **options: Any) -> tuple[nn.Module, int]:
    """A DINOv2 without registers, by timm's name, at sizes that its positions are not for as its authors evaluate it.

    With registers they interpolate as timm does.
    """
    model, width = _timm_model(name, **({"global_pool": ""} | options | {"dynamic_img_size": True}))
    if type(model) is not VisionTransformer or model.cls_token is None or model.num_prefix_tokens != 1:
        raise ValueError(f"{name} has other tokens than a class token and patches")
    model.__class__ = PositionsOfDINOv2  # timm's function for a name gives its own class alone
    return model, width


def vit_small(
    *, img_size: int, patch_size: int, width: int, depth: int, n_heads: int, dim: int
) -> tuple[nn.Module, int]:
    """A transformer for images of some 32 px: its normed patch tokens are averaged and mapped linearly to ``dim``.

    So the dimensions of the features say little of the size of the network.
    """
    model = timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=img_size,
        patch_size=patch_size,
        embed_dim=width,
        depth=depth,
        num_heads=n_heads,
        mlp_ratio=2.0,
        class_token=False,
        global_pool="avg",
        fc_norm=True,
        num_classes=dim,
    )
    return model, dim


def _timm_model(name: str, **options: Any) -> tuple[Any, int]:
    model = timm.create_model(name, pretrained=False, num_classes=0, **options)
    return model, cast(int, model.num_features)


BACKBONES: dict[str, Callable[..., tuple[nn.Module, int]]] = {
    f"zoo:{constructor.__name__.removeprefix('build_')}": constructor
    for constructor in (
        build_vit_post_norm,
        build_vit_of_clips,
        build_capi,
        build_dinov2,
        vit_small,
        build_vjepa21,
        build_pixio,
    )
}
