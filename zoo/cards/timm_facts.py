"""What timm knows of an encoder, as the facts of a card: its pretrained configuration, and its network without numbers.

Two readers share this: ``scripts/derive_cards.py``, which writes cards to be reviewed, and names without a card
(:mod:`zoo.encoders.unlisted`). Nothing is fetched; networks are built on the meta device, where they take no memory.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any

from ..errors import QueryError, find_nearest_names
from ..optional import require_extra
from .licences import resolve_licence_label
from .schema import LAYERS, NOT_APPLICABLE

with require_extra("models", needed_for="Reading what timm knows of an encoder"):
    import timm
    import torch
    from timm.models import PretrainedCfg, get_pretrained_cfg, model_entrypoint
    from torch import nn

Facts = dict[str, Any]

_NONE = NOT_APPLICABLE.value
_FAMILIES = {  # timm's module -> architecture.family, where they differ
    "vision_transformer": "vit",
    "eva": "vit",
    "beit": "vit",
    "deit": "vit",
    "cait": "vit",
    "naflexvit": "vit",
    "vision_transformer_relpos": "vit",
    "vision_transformer_sam": "vit",
    "qwen3_vit": "vit",
    "gemma4_vit": "vit",
    "deepseek_vit": "vit",
    "convnext": "convnext",
    "resnet": "resnet",
    "byobnet": "resnet",
    "resnetv2": "resnet",
    "res2net": "resnet",
    "resnest": "resnet",
    "senet": "resnet",
    "sknet": "resnet",
    "swin_transformer": "swin",
    "swin_transformer_v2": "swin",
    "swin_transformer_v2_cr": "swin",
    "regnet": "regnet",
    "hiera": "hiera",
    "hieradet_sam2": "hiera",
    "vision_transformer_hybrid": "hybrid",
    "vitamin": "hybrid",
    "fastvit": "fastvit",
    "xcit": "xcit",
    "davit": "davit",
    "mobilenetv3": "mobilenet",
    "mobilenetv5": "mobilenet",
    "efficientnet": "efficientnet",
}
_BY_NAME = (("resmlp_", "resmlp"), ("mobilenet", "mobilenet"))  # of modules with networks of several families
SIZES = {
    "atto": "A", "femto": "F", "pico": "P", "nano": "N", "tiny": "T", "xsmall": "XS", "small": "S",
    "small_plus": "Splus",
    "medium": "M", "base": "B", "base_plus": "Bplus", "large": "L", "large_mlp": "Ld", "large2": "L2", "xlarge": "XL",
    "xxlarge": "XXL", "so400m": "SO400M", "huge": "H", "huge_plus": "Hplus", "giant": "g", "giantopt": "gopt",
    "gigantic": "bigG", "enormous": "E", "1b": "1B", "3b": "3B", "5b": "5B", "7b": "7B",
}  # fmt: skip
"""Sizes in timm's names, as ids have them."""

_STEPS_PX = (1, 2, 4, 7, 8, 14, 16, 28, 32, 48, 64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Network:
    """What is seen of an architecture when it is built on the meta device and run once."""

    family: str
    layer: str  # representation.layer with which the encoder gives timm's own features
    dim: int
    n_parameters: int
    patch_size_px: int | None
    n_registers: int | None
    native_px: int | None  # side of the image that its position embeddings are for
    size_step_px: int | None  # None: it takes no other size


def resolve_timm_name(name: str) -> str:
    """``ARCH.TAG`` as timm spells it, of a name that may lack the tag or differ in case; QueryError if it has none."""
    known = _spellings()
    found = known.get(name.casefold())
    if found is None and "." not in name:
        tag = _default_tag(known.get(f"{name.casefold()}.", ""))
        found = tag or None
    if found is None:
        arch, _, tag = name.partition(".")
        tags = [full for full in timm.list_pretrained() if full.partition(".")[0] == arch.casefold()] if tag else []
        near = find_nearest_names(name, tags or timm.list_pretrained(), n=3) or tags[:3]
        if not tag:
            near = find_nearest_names(arch, {full.partition(".")[0] for full in timm.list_pretrained()}, n=3)
        raise QueryError(
            f"The installed timm {timm.__version__} has no weights {name!r}, expected ARCH.TAG"
            f"{', such as ' + ' or '.join(near) if near else ''}; correct the name or update timm."
        )
    return found


def read_timm_facts(name: str) -> Facts:
    """What timm knows of the weights ``ARCH.TAG``, as nested facts of a card; what it does not know is left out.

    The features are those that timm's network gives without its classifier, and ``preprocess`` is that of its
    configuration: families whose authors do otherwise say so in their defaults. QueryError if timm has no such weights,
    or its network does not take RGB images.
    """
    full = resolve_timm_name(name)
    config = _config(full)
    facts = _facts(full.partition(".")[0], {}, config, where=f"timm's {full}")
    facts["weights"] |= {
        "url": f"timm:{full}",
        "mirrors": [f"hf:{config.hf_hub_id}"] if config.hf_hub_id else [],
        "companions": [],
        "same_file_as": _NONE,
        "converter": "timm",
    }
    if config.hf_hub_id:
        facts["weights"]["format"] = "safetensors"
    return facts


def find_timm_name(repository: str, config: Mapping[str, Any]) -> str:
    """``ARCH.TAG`` of a repository of the Hub that timm knows, from its ``config.json``; "" if timm does not."""
    arch, about = config.get("architecture"), config.get("pretrained_cfg")
    tag = about.get("tag") if isinstance(about, dict) else None
    known = _spellings().get(f"{arch}.{tag}".casefold(), "")
    return known if known and str(_config(known).hf_hub_id).casefold() == repository.casefold() else ""


def read_config_facts(config: Mapping[str, Any], *, place: str) -> Facts:
    """The facts of a network of timm from the ``config.json`` of somebody's repository, but for where its weights are.

    QueryError if the installed timm cannot build it.
    """
    arch, options = str(config["architecture"]), config.get("model_args") or {}
    about = config.get("pretrained_cfg")
    about = about if isinstance(about, dict) else config  # as timm wrote it at first
    known = {field.name for field in fields(PretrainedCfg)}
    try:
        if not timm.is_model(arch):
            raise ValueError(f"timm {timm.__version__} has no network {arch!r}")
        if not isinstance(options, dict):
            raise ValueError(f"model_args is {options!r}, expected a table")
        options = {name: value for name, value in options.items() if name not in ("num_classes", "pretrained")}
        stated = {name: value for name, value in about.items() if name in known and value is not None}
        whole = replace(_config(arch), **{"crop_mode": "center", **stated})
        return _facts(arch, options, whole, where=place)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, QueryError):
            raise
        raise QueryError(
            f"The config.json of {place!r} does not describe a network of the installed timm ({error}); update timm, "
            "or run 'zoo register' with --like on its file."
        ) from error


def _facts(arch: str, options: dict[str, Any], config: PretrainedCfg, *, where: str) -> Facts:
    n_channels, height, width = config.input_size
    if n_channels != 3:
        raise QueryError(f"{where} takes images of {n_channels} channels, expected RGB; take another encoder.")
    px = max(height, width)
    network = _network(arch, json.dumps(options, sort_keys=True), px)
    name = format_coarse_name(arch, network.family)
    facts: Facts = {
        "architecture": {
            "family": network.family,
            "name": name,
            "exact": format_exact_name(
                name, network.layer, patch_px=network.patch_size_px, n_registers=network.n_registers
            ),
            "patch_size_px": _or_none(network.patch_size_px),
            "n_registers": _or_none(network.n_registers),
            "native_px": _or_none(network.native_px),
            "size_step_px": _or_none(network.size_step_px),
            "n_parameters": network.n_parameters,
            "backbone": f"timm:{arch}",
            "options": options,
        },
        "representation": {"dim": network.dim, "layer": network.layer, "order": _NONE},
        "preprocess": read_preprocess(config),
        "weights": {},
        "licence": {},
    }
    if height != width:
        facts["weights"]["note"] = f"timm's images are {height} x {width} px; here they are squares of {px} px."
    elif config.crop_mode == "border":
        facts["weights"]["note"] = PADDED
    if licence := resolve_spdx_id(config.license):
        facts["licence"]["timm"] = licence
    return facts


PADDED = "timm pads the whole image to a square; here its middle is cropped."


def read_preprocess(config: PretrainedCfg) -> Facts:
    """From an image to a square input, as timm's own transform does it; a whole image that is padded is cropped."""
    px = max(config.input_size[1:])
    facts: Facts = {
        "resize_px": math.floor(px / config.crop_pct),
        "crop_px": px,
        "interpolation": config.interpolation,
        "mean": list(config.mean),
        "std": list(config.std),
    }
    return facts | ({"fit": "squash"} if config.crop_mode == "squash" else {})


def format_exact_name(coarse: str, layer: str, *, patch_px: int | None, n_registers: int | None) -> str:
    """``vitb16reg4 cls``: the network with its patches and registers, and which tokens are taken."""
    fine = f"{coarse}{patch_px or ''}{f'reg{n_registers}' if n_registers else ''}"
    return f"{fine} {layer}" if LAYERS[layer].tokens or layer == "attnpool" else fine


def _or_none(value: int | None) -> int | str:
    return _NONE if value is None else value


def resolve_spdx_id(label: str | None) -> str | None:
    """The licence id of timm's label; None where timm says nothing, or that it does not know.

    >>> [resolve_spdx_id(label) for label in ("apache-2.0", "dinov3-license", "cvnets-license", "unknown")]
    ['Apache-2.0', 'LicenseRef-DINOv3', 'LicenseRef-cvnets', None]
    """
    if not label or label == "unknown":
        return None
    if (known := resolve_licence_label(label)) != label:
        return known
    return f"LicenseRef-{re.sub('[^A-Za-z0-9.-]', '-', label.removesuffix('-license'))}"


def format_coarse_name(arch: str, family: str) -> str:
    """The network and its size, of an architecture of timm.

    >>> format_coarse_name("vit_base_patch16_clip_224", "vit"), format_coarse_name("convnextv2_tiny", "convnext")
    ('vitb', 'convnextv2t')
    >>> format_coarse_name("resnet50", "resnet")
    'resnet50'
    """
    words = arch.split("_")
    for start in range(1, len(words)):
        for n in (2, 1):
            if (size := "_".join(words[start : start + n])) in SIZES:
                kind = family if family == "vit" else words[0]
                return f"{kind}{SIZES[size].lower()}"
    return re.sub(r"_(patch|window|clip|[0-9]{3}$).*", "", arch)


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    """Every ARCH.TAG with weights, and every ARCH with a full stop behind it, by their folded spelling."""
    names = timm.list_pretrained()
    known = {name.casefold(): name for name in names}
    return known | {f"{arch.casefold()}.": arch for arch in (name.partition(".")[0] for name in names)}


def _config(name: str) -> PretrainedCfg:
    config = get_pretrained_cfg(name, allow_unregistered=False)
    assert config is not None  # of names that timm lists
    return config


def _default_tag(arch: str) -> str:
    """The weights that timm itself takes for an architecture; "" if it has none."""
    config = get_pretrained_cfg(arch, allow_unregistered=False) if arch else None
    return f"{arch}.{config.tag}" if config is not None and config.tag and config.has_weights else ""


@lru_cache(maxsize=16)
def _network(arch: str, options: str, px: int) -> _Network:
    build = partial(timm.create_model, arch, pretrained=False, num_classes=0, **json.loads(options))
    try:
        with torch.device("meta"):
            model: Any = build().eval()
            features = model.forward_features(torch.empty(1, 3, px, px))
            pooled = model.forward_head(features)
    except NotImplementedError as error:
        raise QueryError(f"timm's {arch} is no encoder of images ({error}); take another one.") from error
    family = infer_architecture_family(arch, model)
    has_patches = family in ("vit", "hybrid")
    return _Network(
        family=family,
        layer=_layer(model, features, pooled),
        dim=int(pooled.shape[-1]),
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        patch_size_px=get_patch_px(model) if has_patches else None,
        n_registers=count_registers(model) if has_patches else None,
        native_px=get_native_px(model),
        size_step_px=_size_step(model, build, px, get_patch_px(model) if has_patches else 1),
    )


def infer_architecture_family(arch: str, network: Any) -> str:
    """``architecture.family`` of an architecture of timm, and of the network that it is; "other" of an unknown one."""
    if hasattr(getattr(network, "patch_embed", None), "backbone"):  # convolutions before its blocks
        return "hybrid"
    by_name = [family for prefix, family in _BY_NAME if arch.startswith(prefix)]
    module = model_entrypoint(arch).__module__.rpartition(".")[2]
    return by_name[0] if by_name else _FAMILIES.get(module, "other")


def get_patch_px(network: Any) -> int:
    """Side of the patches of a transformer in the image; those of maps count the pixels under them."""
    embed = getattr(network, "patch_embed", None) or getattr(network, "embeds", None)
    size = None if hasattr(embed, "backbone") else getattr(embed, "patch_size", None)
    size = size or network.feature_info[-1]["reduction"]
    return int(size[0] if isinstance(size, tuple | list) else size)


def count_registers(network: Any) -> int:
    """Number of register tokens."""
    embed = getattr(network, "patch_embed", None) or getattr(network, "embeds", None)
    tokens = getattr(network, "reg_token", getattr(embed, "reg_token", None))
    return 0 if tokens is None else int(tokens.shape[1])


def get_native_px(network: Any) -> int | None:
    """Side of the image that the position embeddings are for; None without learned ones."""
    embed = getattr(network, "patch_embed", None)
    positions = getattr(network, "pos_embed", None)
    if isinstance(positions, torch.Tensor) or _has_relative(network):
        size = getattr(embed, "img_size", None)
        return int(size[0]) if size else _hiera_px(network)
    positions = getattr(getattr(network, "embeds", None), "pos_embed", None)  # NaFlexVit: (1, rows, columns, width)
    rows = positions.shape[1] if isinstance(positions, torch.Tensor) else None
    rows = rows or getattr(getattr(network, "encoder", None), "pos_embed_grid_size", None)  # Qwen
    return rows * get_patch_px(network) if rows else None


def _hiera_px(network: Any) -> int | None:
    tokens = getattr(network, "tokens_spatial_shape", None)
    return int(tokens[0] * network.patch_stride[0]) if tokens else None


def _has_relative(network: Any) -> bool:
    """True for tables of positions in the image; those of Swin, which has no ``blocks``, are of a window."""
    blocks = getattr(network, "blocks", None)
    names = (name for name, _ in blocks.named_parameters()) if isinstance(blocks, nn.Module) else ()
    return any(name.endswith("relative_position_bias_table") for name in names)


def _layer(model: Any, features: Any, pooled: torch.Tensor) -> str:
    """Which layer of the cards gives what the network pools by itself, found out by pooling random numbers."""
    if getattr(model, "attn_pool", None) is not None:
        return "attnpool"
    n_prefix = getattr(model, "num_prefix_tokens", None)
    if isinstance(features, torch.Tensor):
        drawn = torch.randn(features.shape, generator=torch.Generator().manual_seed(0))
        try:
            given = model.forward_head(drawn)
        except RuntimeError:  # of weights on the meta device: it does more than average
            given = None
        if given is not None and given.device.type == "cpu":
            if drawn.ndim == 3 and n_prefix and _agree(given, drawn[:, 0]):
                return "cls"
            if drawn.ndim == 3 and n_prefix is not None and _agree(given, drawn[:, n_prefix:].mean(dim=1)):
                return "avg"
            axes: list[tuple[int, ...]] = [(1,)] if drawn.ndim == 3 else [(2, 3), (1, 2)]  # channels second, or last
            if any(_agree(given, drawn.mean(dim=over)) for over in axes):
                return "avgpool"
            return "pooled"
    norms_mean = n_prefix is not None and getattr(model, "global_pool", None) == "avg" and hasattr(model, "fc_norm")
    return "avgpool" if norms_mean else "pooled"


def _agree(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-5)


def _size_step(model: nn.Module, build: Callable[..., nn.Module], px: int, patch_px: int) -> int | None:
    """Of which number of pixels the sides of images are multiples that the network takes; None if it takes its own."""
    fits = [patch_px, *(step for step in _STEPS_PX if px % step == 0 and step % patch_px == 0)]
    for step in fits:
        if _runs(model, _next_side(px, step)):
            return step
    if not hasattr(model, "set_input_size"):  # timm would not fit its positions
        return None
    for step in fits:
        try:
            with torch.device("meta"):
                other = build(img_size=_next_side(px, step)).eval()
        except (AssertionError, RuntimeError, TypeError, ValueError):  # what networks of timm raise for a size
            continue
        if _runs(other, _next_side(px, step)):
            return step
    return None


def _next_side(px: int, step: int) -> int:
    return (px // step + 1) * step


def _runs(model: nn.Module, px: int) -> bool:
    try:
        with torch.device("meta"):
            model(torch.empty(1, 3, px, px))
    except (AssertionError, RuntimeError, TypeError, ValueError, IndexError):
        return False
    return True
