"""Encoders from users' files, and what these say in addition to names and shapes: of which other card, what contradicts
one.

Positions tell for which size of image they are, a norm behind the pooling that patches are averaged. Heads, activation
and epsilon leave no trace in shapes: what a script has saved of them (``args``, ``config``, ...) is held against the
network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..cards.schema import NOT_APPLICABLE, EncoderCard
from ..errors import BuildError, WeightsRefused
from ..weights.pickle_names import is_skipped
from ..weights.pickles import InertObject, shorten_name
from ..weights.store import FileReading
from .build import build_empty_encoder, build_encoder
from .encoder import Encoder
from .layouts import Converted, convert_own, hash_parameters
from .layouts.lora import merge_lora, require_no_lora
from .layouts.wrappers import clean_names, find_state_dicts
from .sizes import preprocess_at

if TYPE_CHECKING:
    from ..loading import UserFile

_POSITIONS = ("pos_embed", "position_embedding", "position_embeddings", "positional_embedding", "pos_embedding")
_STATED_AT = ("args", "hyper_parameters", "hparams", "config", "cfg", "opt", "options", "model_args", "model_config")
_INNER = frozenset(
    ("model", "backbone", "encoder", "vit", "vision_config", "network", "net", "student", "teacher", "arch", "data")
)
_MODELS = ("arch", "model", "model_name", "architecture")
_ABOUT = {  # name of a statement -> what it is about
    **dict.fromkeys(("num_heads", "n_heads", "num_attention_heads", "attention_heads"), "heads"),
    **dict.fromkeys(("hidden_act", "act_layer"), "activation"),
    **dict.fromkeys(("layer_norm_eps", "norm_eps", "ln_eps"), "epsilon of norms"),
    "patch_size": "patch size",
    **dict.fromkeys(("img_size", "image_size", "input_size"), "crop_px"),
    **dict.fromkeys(("mean", "image_mean"), "mean"),
    **dict.fromkeys(("std", "image_std"), "std"),
}
_ACTIVATIONS = {"swish": "silu", "gelunew": "gelutanh", "gelupytorchtanh": "gelutanh", "gelufast": "gelutanh"} | {
    name: name for name in ("gelu", "quickgelu", "gelutanh", "relu", "silu")
}
_HEADS_OF_VIT_S = (  # words among keys and modules, method, heads, from the code of its authors
    ({"base_encoder", "momentum_encoder"}, "MoCo v3", 12),  # facebookresearch/moco-v3, vits.py
    ({"student", "teacher", "dino_loss"}, "DINO", 6),  # facebookresearch/dino, vision_transformer.py
    ({"student", "teacher", "ibot_loss"}, "iBOT", 6),  # bytedance/ibot, models/vision_transformer.py
)


def hash_untrained(card: EncoderCard) -> Mapping[str, bytes]:
    """Of the parameters before training."""
    return hash_parameters(build_encoder(card, device="cpu"))


def convert_own_file(
    contents: list[Any],
    card: EncoderCard,
    encoder: Encoder,
    search: UserFile,
    *,
    layout: str,
    what: str,
    untrained: Any,
) -> tuple[Converted, FileReading, EncoderCard]:
    """The state dict from a user's files, how they were read, and the card that they are of."""
    notes: list[str] = []
    if search.lora is not None:
        contents[0], said = merge_lora(contents[0], search.lora, what=what)
        notes.append(said)
    elif not search.checkpoint_key:
        require_no_lora(contents[0], what=what)
    convert_to = partial(
        convert_own,
        contents,
        layout=layout,
        is_only=search.is_layout_given,
        checkpoint_key=search.checkpoint_key,
        role=search.role,
        what=what,
    )
    try:
        tensors, reading = convert_to(encoder, untrained=untrained)
    except WeightsRefused as refusal:
        for other, said in suggest_cards(card, encoder, contents[0]):
            if other is None:
                raise WeightsRefused(f"The file of {what} {said}; nothing was loaded.") from refusal
            try:
                network = build_empty_encoder(other)
                tensors, reading = convert_to(network, untrained=partial(hash_untrained, other))
            except (BuildError, WeightsRefused):
                continue
            if not search.like:
                raise WeightsRefused(
                    f"The file of {what} does not fit the card of {card.id!r}, for {said}; 'zoo register' makes it an "
                    "encoder of its own with such a card."
                ) from refusal
            card, encoder = other, network
            notes.append(said)
            break
        else:
            raise
    is_given, like = search.is_network_given, search.like or card.id
    notes += require_agreement(contents[0], card, encoder, what=what, like=like, is_given=is_given)
    return tensors, replace(reading, notes=tuple(notes)), card


def suggest_cards(card: EncoderCard, encoder: Encoder, content: Any) -> Iterator[tuple[EncoderCard | None, str]]:
    """Cards like this one that a file may be of, and why: another size of image, a norm behind the pooling.

    In the end without a card why there can be none, where the file tells.
    """
    state = _tensors(content)
    norms = {name.split(".")[-2] for name in state if name.endswith("norm.weight") and ".blocks." not in f".{name}"}
    likes = [(card, "")]
    if "fc_norm" in norms and "norm" not in norms:
        width: Any = encoder.backbone.num_features
        built = replace(card.architecture, options=card.architecture.options | {"global_pool": "avg"})
        known = replace(card.representation, layer="avg", dim=width, order=NOT_APPLICABLE)
        averaged = replace(card, architecture=built, representation=known)
        likes.append((averaged, "it has 'fc_norm' and no 'norm', so that features are the normed mean of patches"))
        yield likes[-1]
    patch: Any = getattr(getattr(encoder.backbone, "patch_embed", None), "patch_size", 0)
    patch = patch[0] if isinstance(patch, tuple) else patch
    own = {tensor.shape for name, tensor in encoder.state_dict().items() if name.endswith(_POSITIONS)}
    prefixes = {0, 1, getattr(encoder.backbone, "num_prefix_tokens", 0)}  # positions before those of patches
    sides = {
        name: {side for k in prefixes if (side := math.isqrt(max(n - k, 0))) ** 2 == n - k and side * patch}
        for name, tensor in state.items()
        if name.endswith(_POSITIONS) and tensor.ndim > 1 and tensor.numel() and tensor.shape not in own
        if (n := tensor.numel() // tensor.shape[-1])
    }
    for like, why in likes:
        for side in sorted(set().union(*sides.values())):
            px, built = side * patch, like.architecture
            native = px if isinstance(built.native_px, int) else built.native_px
            built = replace(built, options=built.options | {"img_size": px}, native_px=native)
            at = f"its positions are of {side} x {side} patches, so that images are of {px} px"
            sized = replace(like, architecture=built, preprocess=preprocess_at(like.preprocess, px))
            yield sized, "; ".join(filter(None, (why, at)))
    if {"fc_norm", "norm"} <= norms and not any("fc_norm." in name for name in encoder.state_dict()):
        yield None, "has 'norm' and 'fc_norm', of which one makes the features: save it without the other"
    for name, found in sides.items():
        if not found and patch:
            shape = tuple(state[name].shape)
            yield None, f"has positions of no square of patches ({name!r}, {shape}), and encoders here take squares"


def _tensors(content: Any) -> dict[str, Tensor]:
    return {name: tensor for _, state in find_state_dicts(clean_names(content)) for name, tensor in state.items()}


def require_agreement(
    content: Any, card: EncoderCard, encoder: Encoder, *, what: str, like: str, is_given: bool
) -> tuple[str, ...]:
    """Refuses a file that says that its network is another one than the card's; what is open or left out, as clauses.

    ``like`` names the card. ``is_given``: a user has said what the network is, which counts more than the file.
    """
    network = _facts(encoder, card)
    clauses: list[str] = []
    known: set[str] = set()
    for where, about, values in _statements(content, encoder):
        its = network[about]
        known |= {about} if values else set()
        if not its or not values or values == its or is_given:
            continue
        shown = " and ".join(map(str, sorted(values)))
        if about in ("crop_px", "mean", "std"):
            clauses.append(f"{where} is {shown}, the card has {next(iter(its))} (--set preprocess.{about}=...)")
            continue
        raise WeightsRefused(
            f"The file of {what} has {about} {shown} ({where}), and the network of {like!r} {next(iter(its))}: name "
            f"a card with that, or overrule the file by 'zoo register ... --set architecture.options=...'."
        )
    if network["heads"] and "heads" not in known and not is_given:
        heads = " and ".join(map(str, sorted(network["heads"])))
        clauses.append(f"the number of heads cannot be read from shapes: {heads} taken from {like!r}")
    if skipped := sorted({shorten_name(name) for name in _names(content) if is_skipped(name)}):
        more = " and more" if len(skipped) > 4 else ""
        clauses.append(f"not read along with the weights: {', '.join(skipped[:4])}{more}")
    return tuple(dict.fromkeys(clauses))


def _facts(encoder: Encoder, card: EncoderCard) -> dict[str, set[Any]]:
    """What shapes do not tell of a network, and its input."""
    modules, seen = list(encoder.backbone.modules()), card.preprocess
    named = [getattr(module, name, None) for module in modules for name in ("num_heads", "num_attention_heads")]
    acts = [getattr(module, "act", None) for module in modules]
    return {
        "heads": {n for n in named if isinstance(n, int)},
        "activation": _values(
            "activation", next((type(act).__name__ for act in acts if isinstance(act, nn.Module)), "")
        ),
        "epsilon of norms": {float(f"{one.eps:.3g}") for one in modules if isinstance(one, nn.LayerNorm)},
        **{about: _values(about, getattr(seen, about)) for about in ("crop_px", "mean", "std")},
        "patch size": _values("patch size", card.architecture.patch_size_px),
    }


def _values(about: str, said: Any) -> set[Any]:
    """A statement as values to compare; empty if it is of no use."""
    if about == "activation":
        name = re.sub("[^a-z]", "", str(said).rpartition(".")[2].lower()).removesuffix("activation")
        return {_ACTIVATIONS[name]} if name in _ACTIVATIONS else set()
    values = list(said) if isinstance(said, list | tuple) else [said]
    if not values or not all(type(value) in (int, float) for value in values):
        return set()
    if about in ("mean", "std"):
        scale = 255 if max(values) > 2 else 1
        return {tuple(round(value / scale, 2) for value in values)}
    return {
        float(f"{value:.3g}") if type(value) is float else value for value in values if value > 3 or about != "crop_px"
    }


def _statements(content: Any, encoder: Encoder) -> Iterator[tuple[str, str, set[Any]]]:
    """Where a file says something, what it is about, and the values."""
    if not isinstance(content, Mapping):
        return
    words = {part for name in _tensors(content) for part in name.split(".")} | {str(key) for key in content}
    for marks, method, n_heads in _HEADS_OF_VIT_S:
        if marks <= words and getattr(encoder.backbone, "num_features", 0) == 384:
            yield f"as ViT-S of {method}, whose names it has", "heads", {n_heads}
    waiting: list[tuple[str, Mapping[Any, Any]]] = [
        ("", {key: content[key] for key in (*_STATED_AT, *_MODELS) if key in content})
    ]
    seen: set[int] = set()
    while waiting:
        where, about = waiting.pop()
        for key, held in about.items():
            value = _plain(held)
            if isinstance(value, Mapping):
                if (key in _INNER or not where) and id(value) not in seen:
                    seen.add(id(value))
                    waiting.append((f"{where}{key}.", value))
            elif key in _ABOUT and value is not None and where:
                yield f"{where}{key}", _ABOUT[key], _values(_ABOUT[key], value)
            elif key in _MODELS and isinstance(value, str):
                yield f"{where}{key} = {value}", "heads", _heads_of(value)


def _plain(value: Any) -> Any:
    """A namespace as a mapping, and what omegaconf has wrapped."""
    for _ in range(3):  # it may hold itself
        if type(value) is InertObject:
            value = value.attributes.get("_val", value.attributes.get("_content", value.attributes))
    return value.name if isinstance(value, InertObject) else value


def _heads_of(model: str) -> set[int]:
    """Of a model of timm."""
    import timm

    if not timm.is_model(model):
        return set()
    with torch.device("meta"):
        modules = timm.create_model(model, pretrained=False).modules()
    return {n for module in modules if isinstance(n := getattr(module, "num_heads", None), int)}


def _names(content: Any) -> Iterator[str]:
    """Of objects that are not built, which may hold themselves."""
    waiting, seen = [content], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, InertObject | Mapping | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if type(value) is InertObject:
                yield value.name
                value = value.attributes
            waiting += (
                value.values() if isinstance(value, Mapping) else value if not isinstance(value, InertObject) else ()
            )
