"""Vision transformers written out as plain functions, from nothing but the weights under their sources' names.

They are what encoders are held against, so nothing here comes from the zoo, from timm or from torchvision, and all of
it is computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double

Weights = Mapping[str, Tensor]
Affine = tuple[Tensor, Tensor | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The weights of one block, and how much of each branch is added."""

    norm_1: Affine
    qkv: Affine
    out: Affine
    norm_2: Affine
    up: Affine
    down: Affine
    scale_1: Tensor | float = 1.0
    scale_2: Tensor | float = 1.0


def affine(weights: Weights, name: str) -> Affine:
    return weights[f"{name}.weight"], weights.get(f"{name}.bias")


def read_block(weights: Weights, at: str) -> Block:
    """The block at a place, by the names that DINO's script gave and most took over."""
    return Block(
        norm_1=affine(weights, f"{at}.norm1"),
        qkv=affine(weights, f"{at}.attn.qkv"),
        out=affine(weights, f"{at}.attn.proj"),
        norm_2=affine(weights, f"{at}.norm2"),
        up=affine(weights, f"{at}.mlp.fc1"),
        down=affine(weights, f"{at}.mlp.fc2"),
        scale_1=weights.get(f"{at}.ls1.gamma", 1.0),
        scale_2=weights.get(f"{at}.ls2.gamma", 1.0),
    )


def layer_norm(x: Tensor, norm: Affine, *, eps: float) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    scale, shift = norm
    assert shift is not None
    return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps) * scale + shift


def exact_gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def attention(x: Tensor, block: Block, *, n_heads: int, bias: Tensor | float = 0.0) -> Tensor:
    """Every token of (n, tokens, width) looks at all tokens of its own image."""
    n, n_tokens, width = x.shape
    q, k, v = (
        part.reshape(n, n_tokens, n_heads, width // n_heads).transpose(1, 2)
        for part in F.linear(x, *block.qkv).chunk(3, dim=-1)
    )  # each (n, heads, tokens, width / heads)
    scores = q @ k.transpose(-2, -1) / math.sqrt(width // n_heads) + bias
    mixed = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, n_tokens, width)
    return F.linear(mixed, *block.out)


def outputs_of_blocks(
    x: Tensor,
    blocks: Sequence[Block],
    *,
    n_heads: int,
    eps: float,
    activation: Callable[[Tensor], Tensor] = exact_gelu,
    bias: Tensor | float = 0.0,
    sequence_first: bool = False,
) -> list[Tensor]:
    """Tokens (n, tokens, width) after every block.

    ``sequence_first`` is a fault to be told from the truth: feeding (tokens, n, width) to blocks that expect the batch
    first, so that tokens of one position look at each other across images.
    """
    seen = []
    for block in blocks:
        normed = layer_norm(x, block.norm_1, eps=eps)
        if sequence_first:
            normed = normed.transpose(0, 1)
        branch = attention(normed, block, n_heads=n_heads, bias=bias)
        x = x + block.scale_1 * (branch.transpose(0, 1) if sequence_first else branch)
        hidden = activation(F.linear(layer_norm(x, block.norm_2, eps=eps), *block.up))
        x = x + block.scale_2 * F.linear(hidden, *block.down)
        seen.append(x)
    return seen


def patches(images: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(n, 3, px, px) -> (n, patches, width), row by row; what does not fill a patch is left out."""
    return F.conv2d(images, weight, bias, stride=weight.shape[-1]).flatten(2).transpose(1, 2)


def with_class_token(tokens: Tensor, class_token: Tensor) -> Tensor:
    return torch.cat((class_token.reshape(1, 1, -1).expand(len(tokens), -1, -1), tokens), dim=1)


def vit(weights: Weights, images: Tensor, *, n_heads: int, eps: float = 1e-6) -> list[Tensor]:
    """Normed tokens after every block of the ViT of DINO, iBOT, Mugs, MAE, MSN and MoCo v3."""
    weights, images = in_double(weights), images.double()
    blocks = [read_block(weights, at) for at in _places(weights, "blocks")]
    x = with_class_token(patches(images, *affine(weights, "patch_embed.proj")), weights["cls_token"])
    seen = outputs_of_blocks(x + weights["pos_embed"], blocks, n_heads=n_heads, eps=eps)
    return [layer_norm(tokens, affine(weights, "norm"), eps=eps) for tokens in seen]


def beit(weights: Weights, images: Tensor, *, n_heads: int) -> list[Tensor]:
    """Normed tokens after every block of BEiT: layer scales, no key bias, one table of relative positions for all."""
    weights, images = in_double(weights), images.double()
    blocks = []
    for at in _places(weights, "blocks"):
        q_bias, v_bias = weights[f"{at}.attn.q_bias"], weights[f"{at}.attn.v_bias"]
        qkv_bias = torch.cat((q_bias, torch.zeros_like(q_bias), v_bias))
        blocks.append(
            replace(
                read_block(weights, at),
                qkv=(weights[f"{at}.attn.qkv.weight"], qkv_bias),
                scale_1=weights[f"{at}.gamma_1"],
                scale_2=weights[f"{at}.gamma_2"],
            )
        )
    x = with_class_token(patches(images, *affine(weights, "patch_embed.proj")), weights["cls_token"])
    bias = relative_position_bias(weights["rel_pos_bias.relative_position_bias_table"], n_patches=x.shape[1] - 1)
    seen = outputs_of_blocks(x, blocks, n_heads=n_heads, eps=1e-6, bias=bias)
    return [layer_norm(tokens, affine(weights, "norm"), eps=1e-6) for tokens in seen]


def relative_position_bias(table: Tensor, *, n_patches: int) -> Tensor:
    """(offsets + 3, heads) -> (heads, tokens, tokens), the looking token first.

    Row ``(rows apart + side - 1) * (2 side - 1) + columns apart + side - 1`` of the table is for two patches; its last
    three are for the class token that looks at a patch, a patch that looks at it, and the class token itself.
    """
    side = math.isqrt(n_patches)
    at = torch.arange(n_patches)
    rows_apart = (at // side)[:, None] - (at // side)[None, :]
    columns_apart = (at % side)[:, None] - (at % side)[None, :]
    rows = torch.empty(n_patches + 1, n_patches + 1, dtype=torch.int64)
    rows[1:, 1:] = (rows_apart + side - 1) * (2 * side - 1) + columns_apart + side - 1
    rows[0, 1:], rows[1:, 0], rows[0, 0] = len(table) - 3, len(table) - 2, len(table) - 1
    return table[rows].permute(2, 0, 1)


def clip_vit(
    weights: Weights,
    images: Tensor,
    *,
    activation: Callable[[Tensor], Tensor],
    n_heads: int,
    sequence_first: bool = False,
) -> list[Tensor]:
    """Normed tokens after every block of the image tower of CLIP and OpenCLIP."""
    prefix, images = "visual.", images.double()
    tower = in_double({name.removeprefix(prefix): weights[name] for name in weights if name.startswith(prefix)})
    blocks = [
        Block(
            norm_1=affine(tower, f"{at}.ln_1"),
            qkv=(tower[f"{at}.attn.in_proj_weight"], tower[f"{at}.attn.in_proj_bias"]),
            out=affine(tower, f"{at}.attn.out_proj"),
            norm_2=affine(tower, f"{at}.ln_2"),
            up=affine(tower, f"{at}.mlp.c_fc"),
            down=affine(tower, f"{at}.mlp.c_proj"),
        )
        for at in _places(tower, "transformer.resblocks")
    ]
    x = with_class_token(patches(images, tower["conv1.weight"], None), tower["class_embedding"])
    x = layer_norm(x + tower["positional_embedding"], affine(tower, "ln_pre"), eps=1e-5)
    seen = outputs_of_blocks(x, blocks, n_heads=n_heads, eps=1e-5, activation=activation, sequence_first=sequence_first)
    return [layer_norm(tokens, affine(tower, "ln_post"), eps=1e-5) for tokens in seen]


def cls(seen: Sequence[Tensor]) -> Tensor:
    return seen[-1][:, 0]


def four_cls(seen: Sequence[Tensor]) -> Tensor:
    return torch.cat([tokens[:, 0] for tokens in seen[-4:]], dim=1)


def cls_then_average(seen: Sequence[Tensor]) -> Tensor:
    return torch.cat((seen[-1][:, 0], seen[-1][:, 1:].mean(dim=1)), dim=1)


def cls_by_average(seen: Sequence[Tensor]) -> Tensor:
    """Class token and average patch, dimension by dimension in turn."""
    n, _, width = seen[-1].shape
    features = seen[-1].new_empty(n, 2 * width)
    features[:, 0::2], features[:, 1::2] = seen[-1][:, 0], seen[-1][:, 1:].mean(dim=1)
    return features


def _places(weights: Weights, stem: str) -> list[str]:
    n_parts = stem.count(".") + 1
    numbers = {int(name.split(".")[n_parts]) for name in weights if name.startswith(f"{stem}.")}
    return [f"{stem}.{number}" for number in sorted(numbers)]
