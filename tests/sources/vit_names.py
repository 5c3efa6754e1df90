"""What the sources of vision transformers call their tensors, and how large these are: from their own model files.

A state is written as names and shapes first, so that the same names can be filled with numbers or, for the largest
networks, with tensors that have no memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Shapes = dict[str, tuple[int, ...]]
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Size:
    """Of a vision transformer, in the words of the papers."""

    width: int
    depth: int
    n_heads: int
    patch_px: int
    image_px: int = 224
    mlp_width: int = 0

    @property
    def hidden(self) -> int:
        return self.mlp_width or 4 * self.width

    @property
    def side(self) -> int:
        """Patches in a row; pixels that do not fill one are left out."""
        return self.image_px // self.patch_px


SMALL = Size(384, 12, 6, 16)
REDUCED = Size(64, 5, 4, 16)
"""Deeper than the four blocks that some features are read from."""


def vit_shapes(size: Size) -> Shapes:
    """DINO's, iBOT's, Mugs', MAE's, MSN's and MoCo v3's, without heads."""
    shapes: Shapes = {
        "cls_token": (1, 1, size.width),
        "pos_embed": (1, size.side**2 + 1, size.width),
        "patch_embed.proj.weight": (size.width, 3, size.patch_px, size.patch_px),
        "patch_embed.proj.bias": (size.width,),
    }
    for number in range(size.depth):
        shapes |= block_shapes(f"blocks.{number}", size.width, size.hidden)
        shapes |= linear_shapes(f"blocks.{number}.attn.qkv", size.width, 3 * size.width)
    return shapes | norm_shapes("norm", size.width)


def beit_shapes(size: Size, *, version: int, shared_head: bool = True) -> Shapes:
    """BEiT's during pretraining; version 2 has two more blocks for the class token."""
    n_offsets = (2 * size.side - 1) ** 2 + 3
    shapes: Shapes = {
        "cls_token": (1, 1, size.width),
        "mask_token": (1, 1, size.width),
        "patch_embed.proj.weight": (size.width, 3, size.patch_px, size.patch_px),
        "patch_embed.proj.bias": (size.width,),
        "rel_pos_bias.relative_position_bias_table": (n_offsets, size.n_heads),
        "rel_pos_bias.relative_position_index": (size.side**2 + 1, size.side**2 + 1),
    }
    places = [f"blocks.{number}" for number in range(size.depth)]
    places += ["cls_pt_layers.0", "cls_pt_layers.1"] if version == 2 else []
    for at in places:
        shapes |= block_shapes(at, size.width, size.hidden)
        shapes[f"{at}.attn.qkv.weight"] = (3 * size.width, size.width)
        for name in ("attn.q_bias", "attn.v_bias", "gamma_1", "gamma_2"):
            shapes[f"{at}.{name}"] = (size.width,)
    shapes |= norm_shapes("norm", size.width) | linear_shapes("lm_head", size.width, 8192)
    if not shared_head:
        shapes |= norm_shapes("cls_pt_norm", size.width) | linear_shapes("cls_pt_lm_head", size.width, 8192)
    return shapes


def block_shapes(at: str, width: int, hidden: int) -> Shapes:
    """A block but for its queries, keys and values."""
    return {
        **norm_shapes(f"{at}.norm1", width),
        **linear_shapes(f"{at}.attn.proj", width, width),
        **norm_shapes(f"{at}.norm2", width),
        **linear_shapes(f"{at}.mlp.fc1", width, hidden),
        **linear_shapes(f"{at}.mlp.fc2", hidden, width),
    }


def linear_shapes(name: str, n_in: int, n_out: int, *, bias: bool = True) -> Shapes:
    return {f"{name}.weight": (n_out, n_in)} | ({f"{name}.bias": (n_out,)} if bias else {})


def norm_shapes(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def batch_norm_shapes(name: str, width: int, *, affine: bool = True) -> Shapes:
    statistics = {f"{name}.running_mean": (width,), f"{name}.running_var": (width,), f"{name}.num_batches_tracked": ()}
    return (norm_shapes(name, width) if affine else {}) | statistics


def prefixed(prefix: str, shapes: Shapes) -> Shapes:
    return {prefix + name: shape for name, shape in shapes.items()}


def filled(shapes: Shapes, *, seed: int) -> State:
    """Random numbers under which every tensor matters: no norm is the identity, no bias zero, no scale small."""
    source = torch.Generator().manual_seed(seed)
    state: State = {}
    for name, shape in shapes.items():
        last = name.rpartition(".")[2]
        if last in ("num_batches_tracked", "relative_position_index"):
            state[name] = torch.full(shape, 1234, dtype=torch.int64)
        elif last in ("running_var", "gamma_1", "gamma_2") or (last == "weight" and len(shape) == 1):
            state[name] = torch.empty(shape).uniform_(0.6, 1.4, generator=source)
        elif len(shape) == 1:
            state[name] = torch.empty(shape).uniform_(-0.3, 0.3, generator=source)
        elif last in ("pos_embed", "cls_token", "positional_embedding", "relative_position_bias_table"):
            state[name] = torch.empty(shape).uniform_(-1, 1, generator=source)
        else:
            n_in = max(1, torch.Size(shape[1:]).numel())
            state[name] = torch.empty(shape).normal_(0, n_in**-0.5, generator=source)
    return state


def without_memory(shapes: Shapes) -> State:
    """Names, shapes and types alone."""
    whole = ("num_batches_tracked", "relative_position_index")
    return {
        name: torch.empty(shape, device="meta", dtype=torch.int64 if name.endswith(whole) else torch.float32)
        for name, shape in shapes.items()
    }
