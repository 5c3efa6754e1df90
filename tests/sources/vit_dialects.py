"""One vision transformer under plain names, its forward written out, and its files as other sources name its tensors.

Plain names are ``cls_token``, ``reg_token``, ``pos_embed``, ``patch_embed.{proj,norm}``, ``norm_pre``, ``norm`` and,
in ``blocks.N``, ``norm1``, ``attn.{qkv,proj}``, ``ls1.gamma``, ``norm2``, ``mlp.{fc1,fc2}``, ``ls2.gamma``. Nothing is
from the zoo, from timm or from transformers; the forward is computed in float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double
from .vit_forward import Block, affine, attention, exact_gelu, layer_norm, patches, read_block
from .vit_names import Shapes, Size, State, filled, linear_shapes, norm_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a transformer has in addition to blocks of attention and MLP."""

    n_registers: int = 0
    has_class_token: bool = True
    has_class_position: bool = True
    has_scales: bool = False
    has_biases: bool = True
    is_gated: bool = False  # MLPs with SiLU of one half times the other
    norms_patches: bool = False
    norms_first: bool = False
    norms_last: bool = True
    is_post_norm: bool = False
    positions: bool = True  # False: sines and cosines
    activation: Callable[[Tensor], Tensor] = exact_gelu


def shapes_of(kind: Kind, size: Size) -> Shapes:
    """Plain names and shapes; a gated MLP has twice the width before its gate."""
    width, n_patches = size.width, size.side**2
    shapes: Shapes = {
        "patch_embed.proj.weight": (width, 3, size.patch_px, size.patch_px),
        "patch_embed.proj.bias": (width,),
    }
    if kind.has_class_token:
        shapes["cls_token"] = (1, 1, width)
    if kind.n_registers:
        shapes["reg_token"] = (1, kind.n_registers, width)
    if kind.positions:
        shapes["pos_embed"] = (1, n_patches + kind.has_class_position, width)
    for name, is_there in (
        ("patch_embed.norm", kind.norms_patches),
        ("norm_pre", kind.norms_first),
        ("norm", kind.norms_last),
    ):
        shapes |= norm_shapes(name, width) if is_there else {}
    for number in range(size.depth):
        at, bias = f"blocks.{number}", kind.has_biases
        shapes |= norm_shapes(f"{at}.norm1", width) | norm_shapes(f"{at}.norm2", width)
        shapes |= linear_shapes(f"{at}.attn.qkv", width, 3 * width, bias=bias)
        shapes |= linear_shapes(f"{at}.attn.proj", width, width, bias=bias)
        shapes |= linear_shapes(f"{at}.mlp.fc1", width, size.hidden * (1 + kind.is_gated), bias=bias)
        shapes |= linear_shapes(f"{at}.mlp.fc2", size.hidden, width, bias=bias)
        if kind.has_scales:
            shapes |= {f"{at}.ls1.gamma": (width,), f"{at}.ls2.gamma": (width,)}
    return shapes


def weights_of(kind: Kind, size: Size, *, seed: int) -> State:
    """Random numbers, tokens as large as patches."""
    state = filled(shapes_of(kind, size), seed=seed)
    if "reg_token" in state:
        state["reg_token"] = 16 * state["reg_token"]
    return state


def tokens(weights: Mapping[str, Tensor], images: Tensor, kind: Kind, *, n_heads: int) -> Tensor:
    """All tokens at the end: class token, registers, patches row by row."""
    state, images = in_double(weights), images.double()
    x = patches(images, *affine(state, "patch_embed.proj"))
    n, n_patches, width = x.shape
    if kind.norms_patches:
        x = layer_norm(x, affine(state, "patch_embed.norm"), eps=1e-6)
    table = state["pos_embed"] if kind.positions else waves(n_patches, width)
    x = x + table[:, table.shape[1] - n_patches :]
    if kind.n_registers:
        x = torch.cat((state["reg_token"].expand(n, -1, -1), x), dim=1)
    if kind.has_class_token:
        first = state["cls_token"] + (table[:, :1] if kind.has_class_position else 0)
        x = torch.cat((first.expand(n, -1, -1), x), dim=1)
    if kind.norms_first:
        x = layer_norm(x, affine(state, "norm_pre"), eps=1e-6)
    for number in sorted({int(name.split(".")[1]) for name in state if name.startswith("blocks.")}):
        block = read_block(state, f"blocks.{number}")
        if kind.is_post_norm:
            x = layer_norm(x + attention(x, block, n_heads=n_heads), block.norm_1, eps=1e-6)
            x = layer_norm(x + mlp(x, block, kind), block.norm_2, eps=1e-6)
        else:
            x = x + block.scale_1 * attention(layer_norm(x, block.norm_1, eps=1e-6), block, n_heads=n_heads)
            x = x + block.scale_2 * mlp(layer_norm(x, block.norm_2, eps=1e-6), block, kind)
    return layer_norm(x, affine(state, "norm"), eps=1e-6) if kind.norms_last else x


def mlp(x: Tensor, block: Block, kind: Kind) -> Tensor:
    hidden = F.linear(x, *block.up)
    if kind.is_gated:
        gate, value = hidden.chunk(2, dim=-1)
        return F.linear(gate * torch.sigmoid(gate) * value, *block.down)
    return F.linear(kind.activation(hidden), *block.down)


def waves(n_patches: int, width: int) -> Tensor:
    """Of the patches of a square, a quarter of the channels each: sine and cosine of the column, then of the row."""
    side, table = round(n_patches**0.5), torch.empty(1, n_patches, width, dtype=torch.float64)
    for p in range(n_patches):
        for channel in range(width):
            place = p % side if channel < width // 2 else p // side
            within = channel % (width // 2)
            angle = torch.tensor(place / 10_000 ** ((within % (width // 4)) / (width // 4)), dtype=torch.float64)
            table[0, p, channel] = torch.sin(angle) if within < width // 4 else torch.cos(angle)
    return table


def respelled(state: State, *rules: tuple[str, str]) -> State:
    result = {}
    for name, tensor in state.items():
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        result[name] = tensor
    return result


def as_dinov2(state: State, *, chunk: int, is_gated: bool) -> State:
    """DINOv2's code, with blocks in chunks that leave out those before them."""
    in_chunks = {
        re.sub(r"^blocks\.(\d+)\.", lambda match: f"blocks.{int(match[1]) // chunk}.{match[1]}.", name): tensor
        for name, tensor in state.items()
    }
    rules = [(r"^reg_token$", "register_tokens")]
    rules += [(r"\.mlp\.fc1\.", ".mlp.w12."), (r"\.mlp\.fc2\.", ".mlp.w3.")] if is_gated else []
    return respelled(in_chunks, *rules) | {"mask_token": torch.ones(1, 1)}


def as_transformers(state: State, *, dinov2: bool) -> State:
    """The Hub's ViT, or DINOv2, which names norms and MLPs otherwise."""
    width = state["cls_token"].shape[-1] if "cls_token" in state else state["patch_embed.proj.weight"].shape[0]
    apart: State = {}
    for name, tensor in state.items():
        if ".attn.qkv." in name:
            for word, part in zip(("query", "key", "value"), tensor.split(width), strict=True):
                apart[name.replace(".attn.qkv.", f".attention.attention.{word}.")] = part
        else:
            apart[name] = tensor
    own = (
        [
            (r"\.mlp\.fc1\.", ".mlp.weights_in."),
            (r"\.mlp\.fc2\.", ".mlp.weights_out."),
            (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
        ]
        if dinov2
        else [
            (r"\.norm1\.", ".layernorm_before."),
            (r"\.norm2\.", ".layernorm_after."),
            (r"\.mlp\.fc1\.", ".intermediate.dense."),
            (r"\.mlp\.fc2\.", ".output.dense."),
        ]
    )
    return respelled(
        apart,
        (r"^norm\.", "layernorm."),
        (r"^(cls_token)$", r"embeddings.\1"),
        (r"^reg_token$", "embeddings.register_tokens"),
        (r"^pos_embed$", "embeddings.position_embeddings"),
        (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
        (r"\.attn\.proj\.", ".attention.output.dense."),
        *own,
        (r"^blocks\.", "encoder.layer."),
    )


def as_mmpretrain(state: State) -> dict[str, Any]:
    """A training's checkpoint of MAE there, with the decoder and what MFF has to fuse blocks."""
    inner = respelled(
        state,
        (r"^norm\.", "ln1."),
        (r"\.norm([12])\.", r".ln\1."),
        (r"\.mlp\.fc1\.", ".ffn.layers.0.0."),
        (r"\.mlp\.fc2\.", ".ffn.layers.1."),
        (r"^patch_embed\.proj\.", "patch_embed.projection."),
        (r"^blocks\.", "layers."),
    )
    inner |= {"mask_token": torch.ones(1), "proj_layers.0.weight": torch.ones(1), "proj_weights": torch.ones(1)}
    whole = {f"backbone.{name}": tensor for name, tensor in inner.items()}
    return {"meta": {"epoch": 300}, "state_dict": whole | {"neck.mask_token": torch.ones(1)}}


def as_swag(state: State) -> State:
    inner = respelled(
        state,
        (r"^norm\.", "encoder.ln."),
        (r"\.norm([12])\.", r".ln_\1."),
        (r"\.attn\.qkv\.", ".self_attention.in_proj_"),
        (r"\.attn\.proj\.", ".self_attention.out_proj."),
        (r"\.mlp\.fc([12])\.", r".mlp.linear_\1."),
        (r"^cls_token$", "class_token"),
        (r"^pos_embed$", "encoder.pos_embedding"),
        (r"^patch_embed\.proj\.", "conv_proj."),
        (r"^blocks\.", "encoder.layers.layer_"),
    )
    inner["encoder.pos_embedding"] = inner["encoder.pos_embedding"].transpose(0, 1).contiguous()
    return inner | {"head.layers.head.weight": torch.ones(2, 2)}


def as_refiner(state: State) -> dict[str, Any]:
    inner = respelled(
        state, (r"^cls_token$", "cls_tokens.tokens"), (r"^pos_embed$", "pos_embed.embed"), (r"^norm_pre", "embed_norm")
    )
    table = inner["pos_embed.embed"]
    side = round(table.shape[1] ** 0.5)
    inner["pos_embed.embed"] = table.reshape(1, side, side, -1)
    return {"state_dict": inner}


def as_data2vec2(state: State, *, n_first: int) -> dict[str, Any]:
    """The student, whose first blocks belong to the encoder of images, and its teacher next to it."""
    image = "modality_encoders.IMAGE"
    inner = {}
    for name, tensor in state.items():
        number = int(name.split(".")[1]) if name.startswith("blocks.") else -1
        if 0 <= number < n_first:
            name = f"{image}.context_encoder.{name}"
        elif number >= n_first:
            name = re.sub(r"^blocks\.\d+", f"blocks.{number - n_first}", name)
        inner[name] = tensor
    inner = respelled(
        inner,
        (r"^cls_token$", f"{image}.extra_tokens"),
        (r"^pos_embed$", f"{image}.fixed_positional_encoder.positions"),
        (r"^patch_embed\.proj\.", f"{image}.local_encoder.proj."),
        (r"^norm_pre\.", f"{image}.context_encoder.norm."),
    )
    teacher = {name: torch.zeros_like(tensor) for name, tensor in inner.items() if name.startswith("blocks.")}
    return {"model": {**inner, f"{image}.decoder.proj.weight": torch.ones(1), "_ema": teacher}}


def as_aim(state: State) -> State:
    return respelled(
        state,
        (r"^patch_embed\.", "preprocessor.patchifier."),
        (r"^norm\.", "trunk.post_trunk_norm."),
        (r"\.norm([12])\.", r".norm_\1."),
        (r"^blocks\.", "trunk.blocks."),
    )


def as_radio(state: State, *, side: int) -> dict[str, Any]:
    """Patches as vectors without a bias, registers behind several class tokens, a table of ``side`` squared positions.

    That table has every position of ``state`` several times, as neighbours: scaled down, it gives it back.
    """
    width = state["cls_token"].shape[-1]
    here = round(state["pos_embed"].shape[1] ** 0.5)
    grid = state["pos_embed"].reshape(here, here, width)
    for axis in (0, 1):
        grid = grid.repeat_interleave(side // here, dim=axis)
    inner = {name: tensor for name, tensor in state.items() if name.startswith("blocks.")} | {
        "patch_generator.pos_embed": grid.reshape(1, side * side, width),
        "patch_generator.embedder.weight": state["patch_embed.proj.weight"].flatten(1),
        "patch_generator.cls_token.token": torch.cat((state["cls_token"], state["reg_token"]), dim=1)[0],
    }
    whole = {f"base_model.{name}": tensor for name, tensor in inner.items()}
    return {
        "state_dict": whole | {"input_conditioner.norm_mean": torch.ones(3, 1, 1), "_heads.0.weight": torch.ones(1)}
    }


def clip_tokens(weights: Mapping[str, Tensor], images: Tensor, *, n_heads: int, n_frames: int) -> Tensor:
    """V-JEPA's tokens of a clip that shows one image in every frame; plain names, a convolution in time and space."""
    state, images = in_double(weights), images.double()
    clip = torch.stack([images] * n_frames, dim=2)
    kernel = state["patch_embed.proj.weight"]
    x = F.conv3d(clip, kernel, state["patch_embed.proj.bias"], stride=kernel.shape[2:]).flatten(2).transpose(1, 2)
    x = x + state["pos_embed"]
    for block in _blocks(state):
        x = x + attention(layer_norm(x, block.norm_1, eps=1e-6), block, n_heads=n_heads)
        x = x + mlp(layer_norm(x, block.norm_2, eps=1e-6), block, Kind())
    return layer_norm(x, affine(state, "norm"), eps=1e-6)


def capi_tokens(weights: Mapping[str, Tensor], images: Tensor, *, n_heads: int) -> Tensor:
    """CAPI's registers and patches; plain names, norms without shifts, and none for the last norm, which has no scale.

    A pair of channels, half a head apart, is turned by an angle that grows with the row for the first and third quarter
    of the pairs, counted within a head, and with the column for the others.
    """
    state, images = in_double(weights), images.double()
    x = patches(images, *affine(state, "patch_embed.proj"))
    n, n_patches, width = x.shape
    side, n_registers = round(n_patches**0.5), state["reg_token"].shape[1]
    quarter = n_registers // 4
    places = [(i / quarter, 0.0) for i in range(quarter)] + [(1.0, i / quarter) for i in range(quarter)]
    places += [(1 - i / quarter, 1.0) for i in range(quarter)] + [(0.0, 1 - i / quarter) for i in range(quarter)]
    places += [(row / (side - 1), column / (side - 1)) for row in range(side) for column in range(side)]
    head = width // n_heads
    angles = torch.zeros(len(places), head, dtype=torch.float64)
    for token, (row, column) in enumerate(places):
        for channel in range(head):
            place = row if channel < head // 2 else column
            step = channel % (head // 4) / (head // 4 - 1)
            angles[token, channel] = 2 * torch.pi * place * 7.0 * (7.0 / 7e-4) ** -step
    x = torch.cat((state["reg_token"].expand(n, -1, -1), x), dim=1)
    for block in _blocks(state):
        normed = rms_norm(x, block.norm_1[0])
        q, k, v = (
            part.reshape(n, len(places), n_heads, head).transpose(1, 2)
            for part in F.linear(normed, *block.qkv).chunk(3, dim=-1)
        )
        q, k = (each * angles.cos() + half_turned(each) * angles.sin() for each in (q, k))
        mixed = ((q @ k.transpose(-2, -1) / head**0.5).softmax(dim=-1) @ v).transpose(1, 2).reshape(n, -1, width)
        x = x + F.linear(mixed, *block.out)
        x = x + mlp(rms_norm(x, block.norm_2[0]), block, Kind())
    return rms_norm(x, torch.ones(width, dtype=torch.float64))


def vjepa21_tokens(state: Mapping[str, Tensor], images: Tensor, *, n_heads: int) -> Tensor:
    """V-JEPA 2.1's tokens of one frame; its own names.

    A third of a head's channels belongs to the time, which is 0, a third each to row and column, and a rest to none.
    Neighbouring channels are turned together.
    """
    state, images = in_double(state), images.double()
    kernel = state["patch_embed_img.proj.weight"]
    x = F.conv3d(images[:, :, None], kernel, state["patch_embed_img.proj.bias"], stride=kernel.shape[2:])
    x = x.flatten(2).transpose(1, 2) + state["img_mod_embed"]
    side, head = round(x.shape[1] ** 0.5), x.shape[2] // n_heads
    third = 2 * (head // 3 // 2)
    angles = torch.zeros(side, side, head, dtype=torch.float64)
    for channel in range(third):
        rate = 10_000 ** -((channel // 2) / (third / 2))
        along = torch.arange(side, dtype=torch.float64) * 15 / (side - 1) * rate
        angles[:, :, third + channel] = along[:, None]
        angles[:, :, 2 * third + channel] = along
    x = _with_turns(x, state, angles.flatten(0, 1), neighbour_turned, n_heads=n_heads, eps=1e-6)
    return layer_norm(x, affine(state, "norms_block.3"), eps=1e-6)


def dinov3_tokens(state: Mapping[str, Tensor], images: Tensor, *, n_heads: int) -> Tensor:
    """DINOv3's tokens, class token and registers first; its own names. Places are middles of patches, from -1 to 1."""
    state, images = in_double(state), images.double()
    x = patches(images, *affine(state, "patch_embed.proj"))
    before = torch.cat((state["cls_token"], state["storage_tokens"]), dim=1)
    side, head = round(x.shape[1] ** 0.5), x.shape[2] // n_heads
    middles = 2 * (torch.arange(side, dtype=torch.float64) + 0.5) / side - 1
    turns = 2 * torch.pi * middles[:, None] / 100 ** (torch.arange(head // 4) / (head / 4))
    places = torch.cat((turns[:, None].expand(-1, side, -1), turns[None].expand(side, -1, -1)), dim=2).flatten(0, 1)
    angles = torch.cat((torch.zeros(before.shape[1], head // 2), places)).repeat(1, 2)
    x = torch.cat((before.expand(len(x), -1, -1), x), dim=1)
    for number in {name.split(".")[1] for name in state if name.startswith("blocks.")}:
        width = x.shape[2]  # the bias of the keys is masked
        state[f"blocks.{number}.attn.qkv.bias"][width : 2 * width] = 0
    x = _with_turns(x, state, angles, half_turned, n_heads=n_heads, eps=1e-5)
    return layer_norm(x, affine(state, "norm"), eps=1e-5)


def _with_turns(
    x: Tensor,
    state: Mapping[str, Tensor],
    angles: Tensor,
    partner: Callable[[Tensor], Tensor],
    *,
    n_heads: int,
    eps: float,
) -> Tensor:
    n, n_tokens, width = x.shape
    for number, block in enumerate(_blocks(state)):
        q, k, v = (
            part.reshape(n, n_tokens, n_heads, width // n_heads).transpose(1, 2)
            for part in F.linear(layer_norm(x, block.norm_1, eps=eps), *block.qkv).chunk(3, dim=-1)
        )
        q, k = (each * angles.cos() + partner(each) * angles.sin() for each in (q, k))
        weights = (q @ k.transpose(-2, -1) / (width // n_heads) ** 0.5).softmax(dim=-1)
        scale_1, scale_2 = (state.get(f"blocks.{number}.ls{i}.gamma", 1.0) for i in (1, 2))
        x = x + scale_1 * F.linear((weights @ v).transpose(1, 2).reshape(n, -1, width), *block.out)
        x = x + scale_2 * mlp(layer_norm(x, block.norm_2, eps=eps), block, Kind())
    return x


def neighbour_turned(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def half_turned(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rms_norm(x: Tensor, scale: Tensor) -> Tensor:
    return x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + 1e-5) * scale


def _blocks(state: Mapping[str, Tensor]) -> list[Block]:
    return [
        read_block(state, f"blocks.{number}")
        for number in sorted({int(name.split(".")[1]) for name in state if name.startswith("blocks.")})
    ]


def as_capi(state: State) -> State:
    width = state["reg_token"].shape[-1]
    inner: State = {"registers": state["reg_token"], "mask_token": torch.ones(1, 8)}
    for name, tensor in state.items():
        if ".attn.qkv." in name:
            for word, part in zip("qkv", tensor.split(width), strict=True):
                inner[name.replace(".attn.qkv.", f".residual1.fn.{word}_proj.")] = part
        elif name != "reg_token":
            inner[name] = tensor
    inner = respelled(
        inner,
        (r"^patch_embed\.proj\.", "patch_embed."),
        (r"\.attn\.proj\.", ".residual1.fn.proj."),
        (r"\.norm([12])\.", r".residual\1.norm."),
        (r"\.mlp\.", ".residual2.fn."),
        (r"^blocks\.", "encoder.blocks."),
    )
    whole = {f"backbone.{name}": tensor for name, tensor in inner.items()}
    return whole | {"backbone.decoder.blocks.0.x": torch.ones(1), "head.last_layer.weight": torch.ones(1)}
