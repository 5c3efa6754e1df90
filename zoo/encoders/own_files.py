"""What a user's file says of its network beside names and shapes: the cards that it may be of, and what contradicts one.

Position embeddings tell for which size of image they are, a norm behind the pooling that tokens are averaged. Shapes do
not tell heads, activation or epsilon: what a training script has saved of them (``args``, ``hyper_parameters``, ...) is
held against the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..cards.schema import NOT_APPLICABLE, EncoderCard
from ..errors import WeightsRefused
from ..weights.pickles import Inert
from .encoder import Encoder
from .layouts.wrappers import cleaned, state_dicts
from .sizes import preprocess_at

_POSITIONS = ("pos_embed", "position_embedding", "position_embeddings", "positional_embedding", "pos_embedding")
_MOST_PREFIX_TOKENS = 16
_STATED_AT = ("args", "hyper_parameters", "hparams", "config", "cfg", "opt", "options", "model_args", "model_config")
_INNER = ("model", "backbone", "encoder", "vit", "vision_config", "network", "net", "student", "teacher", "arch", "data")
_KEYS = {  # of a statement -> what it is about
    **dict.fromkeys(("num_heads", "n_heads", "num_attention_heads", "attention_heads"), "heads"),
    **dict.fromkeys(("hidden_act", "act_layer"), "activation"),
    **dict.fromkeys(("layer_norm_eps", "norm_eps", "ln_eps"), "epsilon of norms"),
    **dict.fromkeys(("patch_size",), "patch size"),
    **dict.fromkeys(("img_size", "image_size", "input_size"), "crop_px"),
    **dict.fromkeys(("mean", "image_mean"), "mean"),
    **dict.fromkeys(("std", "image_std"), "std"),
}
_ACTIVATIONS = ("gelu", "quickgelu", "gelutanh", "relu", "silu")
_SPELLINGS = {"swish": "silu", "gelunew": "gelutanh", "gelupytorchtanh": "gelutanh", "gelufast": "gelutanh"}
_HEADS_OF_384 = (  # method, words among its keys and modules, heads of its ViT-S: from the authors' code
    ("MoCo v3", {"base_encoder", "momentum_encoder", "predictor"}, 12),  # facebookresearch/moco-v3, vits.py
    ("DINO", {"student", "teacher", "dino_loss"}, 6),  # facebookresearch/dino, vision_transformer.py
    ("iBOT", {"student", "teacher", "ibot_loss"}, 6),  # bytedance/ibot, models/vision_transformer.py
)


def other_cards(card: EncoderCard, encoder: Encoder, content: Any) -> Iterator[tuple[EncoderCard | None, str]]:
    """Cards like this one that a file may be of, and how they differ: another size of image, a norm behind the pooling.

    In the end without a card why there can be none, where the file tells.
    """
    state = {name: tensor for _, each in state_dicts(cleaned(content)) for name, tensor in each.items()}
    ends = {name.rpartition(".")[0].rpartition(".")[2] for name in state}
    pooled = [(card, "")]
    if "fc_norm" in ends and "norm" not in ends:
        pooled = [(_averaging(card, encoder), "it has 'fc_norm' and no 'norm': the features are the normed mean of patches")]
    sides = _sides(encoder, state)
    for like, said in pooled:
        yield from [(like, said)] if said else []
        for side, px in sides.items():
            at = f"its positions are of {side} x {side} patches: the card is for {px} px, not {card.preprocess.crop_px}"
            yield _at(like, px), "; ".join(filter(None, (said, at)))
    if {"fc_norm", "norm"} <= ends and not any("fc_norm." in name for name in encoder.state_dict()):
        yield None, (
            "has 'norm' and 'fc_norm', and which of them makes the features cannot be told: leave out fc_norm to take "
            "normed tokens, or norm to take their normed mean"
        )
    for name, tensor in state.items():
        n = _n_positions(name, tensor)
        if n > _MOST_PREFIX_TOKENS and not any(math.isqrt(n - k) ** 2 == n - k for k in range(_MOST_PREFIX_TOKENS)):
            yield None, f"has {n} positions in {name!r}, which are of no square of patches; encoders here take squares"


def _averaging(card: EncoderCard, encoder: Encoder) -> EncoderCard:
    width: Any = encoder.backbone.num_features
    options = card.architecture.options | {"global_pool": "avg"}
    known = replace(card.representation, layer="avg", dim=width, order=NOT_APPLICABLE)
    return replace(card, architecture=replace(card.architecture, options=options), representation=known)


def _at(card: EncoderCard, px: int) -> EncoderCard:
    built = card.architecture
    native = px if isinstance(built.native_px, int) else built.native_px
    built = replace(built, options=built.options | {"img_size": px}, native_px=native)
    return replace(card, architecture=built, preprocess=preprocess_at(card.preprocess, px))


def _sides(encoder: Encoder, state: Mapping[str, Tensor]) -> dict[int, int]:
    """Patches along a side that the tables of positions may be for, and the pixels of such an image."""
    embed = getattr(encoder.backbone, "patch_embed", None)
    patch: Any = getattr(embed, "patch_size", 0)
    patch = patch[0] if isinstance(patch, Sequence) and patch else patch
    if not isinstance(patch, int) or not patch:
        return {}
    found: dict[int, int] = {}
    for name, tensor in state.items():
        n = _n_positions(name, tensor)
        for n_prefix in range(min(_MOST_PREFIX_TOKENS, n)):
            side = math.isqrt(n - n_prefix)
            if side > 1 and side**2 == n - n_prefix and side * patch != encoder.px:
                found[side] = side * patch
    return found


def _n_positions(name: str, tensor: Tensor) -> int:
    return tensor.numel() // max(tensor.shape[-1], 1) if name.endswith(_POSITIONS) and tensor.ndim > 1 else 0


def require_agreement(content: Any, card: EncoderCard, encoder: Encoder, *, what: str, is_given: bool) -> tuple[str, ...]:
    """Refuses a file that says that its network is another one than the card's; what it leaves open, as clauses.

    ``is_given``: the user has said what the network is, which then counts more than the file.
    """
    network = _facts(encoder, card)
    said, clauses, knows_heads = list(_statements(content)), [], False
    for where, about, value in said:
        if about in ("crop_px", "mean", "std"):
            value = _pixels(about, value, where, what)
            if value is not None and not _is_close(value, getattr(card.preprocess, about)):
                shown = list(value) if isinstance(value, tuple) else value
                clauses.append(f"it says {where} = {shown}, which --set preprocess.{about}={str(shown).replace(' ', '')} follows")
        elif network.get(about) and (comparable := _comparable(about, value)):
            knows_heads |= about == "heads"
            if comparable != network[about] and not is_given:
                raise _contradicted(what, f"says {where} = {value!r}", card, about, network[about])
    heads = network["heads"]
    if heads and not knows_heads:
        words = {part for _, state in state_dicts(cleaned(content)) for name in state for part in name.split(".")}
        words |= {str(key) for key in content} if isinstance(content, Mapping) else set()
        for method, marks, its in _HEADS_OF_384:
            if marks <= words and getattr(encoder.backbone, "num_features", 0) == 384:
                if heads != {its} and not is_given:
                    raise _contradicted(what, f"has the names of {method}, whose ViT-S has {its} heads", card, "heads", heads)
                knows_heads = True
        if not knows_heads and not is_given:
            clauses.append(f"heads cannot be read from shapes, {_listed(heads)} are those of {card.id!r}")
    return tuple(dict.fromkeys(clauses))


def _contradicted(what: str, says: str, card: EncoderCard, about: str, its: set[Any]) -> WeightsRefused:
    option = " such as { num_heads = 12 }" if about == "heads" else ""
    return WeightsRefused(
        f"The file of {what} {says}, but the network of {card.id!r} has {about} {_listed(its)}: give --like an encoder "
        f"with that, or --set architecture.options=...{option} if you know better."
    )


def _listed(values: set[Any]) -> str:
    return " and ".join(map(str, sorted(values)))


def _facts(encoder: Encoder, card: EncoderCard) -> dict[str, set[Any]]:
    """What shapes do not tell of a network."""
    modules = list(encoder.backbone.modules())
    heads = {getattr(module, name, None) for module in modules for name in ("num_heads", "num_attention_heads")}
    acts = {_name_of(type(module.act).__name__) for module in modules if isinstance(getattr(module, "act", None), nn.Module)}
    patch = card.architecture.patch_size_px
    return {
        "heads": {n for n in heads if isinstance(n, int)},
        "activation": acts & {*_ACTIVATIONS},
        "epsilon of norms": {float(f"{module.eps:.3g}") for module in modules if isinstance(module, nn.LayerNorm)},
        "patch size": {patch} if isinstance(patch, int) else set(),
    }


def _statements(content: Any) -> Iterator[tuple[str, str, Any]]:
    """Where a file says something, what it is about, and the value."""
    if not isinstance(content, Mapping):
        return
    waiting = [(key, value, 0) for key in _STATED_AT if (value := _plain(content.get(key))) is not None]
    for name in ("arch", "model_name"):
        if isinstance(model := content.get(name), str):
            yield from _of_timm(name, model)
    while waiting:
        where, about, depth = waiting.pop(0)
        for key, held in about.items() if isinstance(about, Mapping) else ():
            value = _plain(held)
            if key in _KEYS and value is not None and not isinstance(value, Mapping):
                yield f"{where}.{key}", _KEYS[key], value
            elif isinstance(value, str) and key in ("arch", "model", "model_name"):
                yield from _of_timm(f"{where}.{key}", value)
            elif key in _INNER and isinstance(value, Mapping) and depth < 4:
                waiting.append((f"{where}.{key}", value, depth + 1))


def _plain(value: Any) -> Any:
    """A namespace as a mapping, and what omegaconf has wrapped."""
    while isinstance(value, Inert):
        attributes = value.attributes
        value = attributes.get("_val", attributes.get("_content", attributes or value.name))
    return value


def _of_timm(where: str, model: str) -> Iterator[tuple[str, str, Any]]:
    """What a model of timm that a file names has."""
    import timm

    if timm.is_model(model):
        with torch.device("meta"):
            network = timm.create_model(model, pretrained=False)
        heads = {module.num_heads for module in network.modules() if isinstance(getattr(module, "num_heads", None), int)}
        if heads:
            yield f"{where} = {model}: num_heads", "heads", sorted(heads)


def _comparable(about: str, value: Any) -> set[Any]:
    """A value as a set like that of :func:`_facts`; empty if it is of no use."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    if about in ("heads", "patch size"):
        return set(values) if values and all(type(one) is int for one in values) else set()
    if about == "epsilon of norms":
        return {float(f"{value:.3g}")} if isinstance(value, float) else set()
    return {_name_of(str(value).rpartition(".")[2])} & {*_ACTIVATIONS}


def _name_of(activation: str) -> str:
    name = re.sub(r"[^a-z]", "", activation.lower()).removesuffix("activation")
    return _SPELLINGS.get(name, name)


def _pixels(about: str, value: Any, where: str, what: str) -> Any:
    """A side of images, or three numbers of 0 to 1; None if the value is no such thing."""
    numbers = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not numbers or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        return None
    if about == "crop_px":
        sides = numbers[-2:]
        if len(set(sides)) > 1:
            raise WeightsRefused(
                f"The file of {what} says {where} = {list(numbers)}, and encoders of the zoo take square images."
            )
        return int(sides[0])
    return tuple(one / 255 if max(numbers) > 2 else float(one) for one in numbers) if len(numbers) == 3 else None


def _is_close(a: Any, b: Any) -> bool:
    pairs = zip(a, b, strict=True) if isinstance(a, tuple) else ((a, b),)
    return all(math.isclose(one, other, rel_tol=0.01) for one, other in pairs)

