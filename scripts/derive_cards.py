"""Writes the cards in ``metadata/derived`` from timm's registry, or says how they differ from it.

    python scripts/derive_cards.py [--check] [STEM ...]

A card file ``metadata/STEM.toml`` with a table ``[derive]`` asks for encoders of timm:

    [derive.timm]                       pattern of timm's names = id of the encoder
    "vit_*_patch14_dinov2.lvd142m" = "dinov2_vit{1}14"

    [derive.left_out]                   pattern = why these are no encoders of their own
    "vit_*_gap_*.v2_webli" = "the weights of the name without gap"

    [[derive.facts]]                    facts that some of the family share, laid under [defaults]
    of = ["convnextv2_*.fcmae_ft_in1k"]
    pretraining.finetuning_dataset = "ImageNet-1K"
    provenance.adapted_from = "fcmae_convnextv2{1}"

    [[derive.facts]]                    a backbone of the zoo that is made from timm's, whose name is then an option
    of = ["vit_*_patch14_dinov2.lvd142m"]
    architecture.backbone = "zoo:dinov2"

``{1}`` is what the first ``*`` stands for, shortened as ids have it: base is B, ft_in22k_in1k is ft22k_ft1k. The first
pattern that fits a name decides. What timm says (address, input, normalisation, licence) and what its network shows
when it is built on the meta device (dimensions, parameters, patches, registers, sizes) becomes one entry in
``metadata/derived/STEM.toml``; what somebody has reviewed stands in ``[defaults]`` and ``[encoders.ID]`` of
``metadata/STEM.toml`` and wins. Run again on the same timm, nothing changes. With ``--check`` nothing is written: what
is new, gone or changed is printed, and the exit status is 1 if anything is. To add all tags of a new family write one
pattern and one reviewed paragraph of defaults, and run this.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import timm
import torch
from timm.models import get_pretrained_cfg

from zoo.cards.catalogue import build_card
from zoo.cards.reading import check_facts
from zoo.cards.schema import LAYERS, EncoderCard
from zoo.cards.timm_facts import (
    PADDED,
    SIZES,
    count_registers,
    format_coarse_name,
    format_exact_name,
    get_native_px,
    get_patch_px,
    infer_architecture_family,
    read_preprocess,
    resolve_spdx_id,
)
from zoo.encoders.build import build_backbone
from zoo.encoders.encoder import Encoder, build_pooling

Facts = dict[str, Any]

ORDER = tuple(field.name for field in fields(EncoderCard))
METADATA = Path(__file__).resolve().parents[1] / "metadata"
NONE = "not applicable"


class Family:
    """One card file with a table ``[derive]``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        document = tomllib.loads(path.read_text())
        self.derive: Facts = document["derive"]
        self.defaults: Facts = document.get("defaults", {})
        self.encoders: Facts = document.get("encoders", {})

    @property
    def names(self) -> dict[str, str]:
        """Names of timm by id, in timm's order."""
        ids: dict[str, str] = {}
        left_out = [_pattern(text) for text in self.derive.get("left_out", {})]
        rules = [(_pattern(text), template) for text, template in self.derive["timm"].items()]
        for name in _tags():
            if any(pattern.fullmatch(name) for pattern in left_out):
                continue
            for pattern, template in rules:
                if match := pattern.fullmatch(name):
                    identifier = template.format("", *map(_short, match.groups()))
                    if identifier in ids:
                        raise SystemExit(f"{self.path}: {name} and {ids[identifier]} are both {identifier!r}.")
                    ids[identifier] = name
                    break
        return ids

    def entry(self, identifier: str, name: str) -> Facts:
        """What ``metadata/derived`` has of one encoder."""
        facts = of_config(name)
        for more in self.derive.get("facts", []):
            for match in filter(None, (_pattern(text).fullmatch(name) for text in more["of"])):
                parts = ["", *map(_short, match.groups())]
                _merge(facts, _filled({key: value for key, value in more.items() if key != "of"}, parts))
                break
        if facts["architecture"]["backbone"].startswith("zoo:"):
            _merge(facts, {"architecture": {"options": {"name": name.partition(".")[0]}}})
        _merge(facts, of_network(self.reviewed(identifier, facts)))
        return {part: facts[part] for part in ORDER if part in facts}

    def reviewed(self, identifier: str, derived: Facts) -> Facts:
        """All facts of an encoder, as the reader of cards lays them over each other."""
        facts: Facts = {}
        for layer in (derived, self.defaults, self.encoders.get(identifier, {})):
            _merge(facts, deepcopy(layer))
        return facts

    @property
    def written(self) -> Path:
        return self.path.parent / "derived" / self.path.name

    def text(self) -> str:
        """The generated file."""
        lines = [
            f"# Made by scripts/derive_cards.py from the registry of timm {timm.__version__} and the table [derive] of",
            f"# metadata/{self.path.name}. Do not edit: correct that file, and run the script again.",
        ]
        for identifier, name in sorted(self.names.items(), key=lambda item: item[0].casefold()):
            lines.append(f"\n[encoders.{identifier}]")
            lines += [f"{key} = {_toml(value)}" for key, value in self.entry(identifier, name).items()]
        return "\n".join(lines) + "\n"


def of_config(name: str) -> Facts:
    """What timm's registry says of a name with a tag."""
    config = get_pretrained_cfg(name)
    if config is None:
        raise SystemExit(f"timm {timm.__version__} has no {name}.")
    weights: Facts = {"url": f"timm:{name}", "mirrors": [f"hf:{config.hf_hub_id}"]}
    weights |= {"authors_url": config.url or NONE, "format": "safetensors", "converter": "timm"}
    if not config.hf_hub_id:  # nobody has copied the authors' file
        weights = {"url": config.url, "format": "torch pickle"}
    facts: Facts = {
        "architecture": {"backbone": f"timm:{name.partition('.')[0]}"},
        "preprocess": read_preprocess(config),
        "weights": weights,
    }
    if config.crop_mode == "border":
        weights["note"] = PADDED
    if config.hf_hub_id and (licence := resolve_spdx_id(config.license)):
        facts["licence"] = {"timm": licence}
    return facts


def of_network(facts: Facts) -> Facts:
    """What the network of an encoder shows when it is built on the meta device."""
    stated = facts.get("representation", {})
    layer, backbone = stated.get("layer"), facts["architecture"]["backbone"]
    if layer is None:
        raise SystemExit(f"{backbone} has no representation.layer; state it in [defaults] or [[derive.facts]].")
    seen = json.dumps(facts["architecture"].get("options", {}), sort_keys=True)
    return deepcopy(_network(backbone, seen, layer, facts["preprocess"]["crop_px"]))


@cache
def _network(backbone: str, options: str, layer: str, crop_px: int) -> Facts:
    stated = json.loads(options)
    stated = _default_options(backbone, stated, layer, crop_px) | stated
    card = _trial_card(backbone, stated, layer, dim=1)
    with torch.device("meta"):
        module, width = build_backbone(card)
        module.eval().requires_grad_(False)
        dim = width * LAYERS[layer].n_blocks * len(LAYERS[layer].tokens.split("+"))
        card = _trial_card(backbone, stated, layer, dim=dim)
        encoder = Encoder(module, build_pooling(card, width=width), dim=dim)
    if (measured := output_dim(encoder, crop_px)) != dim:
        raise SystemExit(f"{backbone} gives {measured} features at {crop_px} px as {layer!r}, expected {dim}.")
    arch = _timms_name(backbone, stated)
    family = infer_architecture_family(arch, module)
    if family == "other":
        raise SystemExit(f"{backbone} is of a family that timm_facts does not know; add its module of timm there.")
    has_patches = family in ("vit", "hybrid")
    patch_px = get_patch_px(module) if has_patches else None
    name = format_coarse_name(arch, family)
    architecture: Facts = {
        "family": family,
        "name": name,
        "exact": format_exact_name(
            name, layer, patch_px=patch_px, n_registers=count_registers(module) if has_patches else None
        ),
        "patch_size_px": patch_px or NONE,
        "n_registers": count_registers(module) if has_patches else NONE,
        "native_px": get_native_px(module) or NONE,
        "size_step_px": _step(encoder, crop_px) or NONE,
        "n_parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        "backbone": backbone,
        "options": stated,
    }
    return {"architecture": architecture, "representation": {"dim": dim, "layer": layer}}


def _default_options(backbone: str, stated: Facts, layer: str, crop_px: int) -> Facts:
    """Options that say what the zoo must know of a transformer without building it, and let it take other sizes."""
    own = {key: value for key, value in stated.items() if key != "name"}
    with torch.device("meta"):
        module: Any = timm.create_model(_timms_name(backbone, stated), num_classes=0, **own)
    accepted = inspect.signature(type(module).__init__).parameters
    if not {"depth", "embed_dim"} <= accepted.keys() or not hasattr(module, "fc_norm"):
        return {}
    options: Facts = {"depth": len(module.blocks)}
    if not LAYERS[layer].tokens:
        options["embed_dim"] = module.embed_dim
    if "class_token" in accepted and not module.num_prefix_tokens:
        options["class_token"] = False
    if layer == "avg" and module.global_pool == "avg":
        options["global_pool"] = "avg"  # a norm after the pooling stays there
    if "dynamic_img_size" in accepted and crop_px % get_patch_px(module) == 0:
        options["dynamic_img_size"] = True
    return options


def _timms_name(backbone: str, options: Facts) -> str:
    """What timm calls the network that a backbone is, or is made from."""
    library, _, name = backbone.partition(":")
    return name if library == "timm" else str(options["name"])


def output_dim(encoder: Encoder, px: int) -> int:
    """Dimensions of the features of an image of ``px`` x ``px``, computed on the meta device."""
    with torch.no_grad():
        features = encoder(torch.empty(1, 3, px, px, device="meta"))
    n, dim = features.shape
    assert n == 1
    return int(dim)


def _trial_card(backbone: str, options: Facts, layer: str, *, dim: int) -> EncoderCard:
    """A card with these facts and no others, to build from."""
    order = "concatenated" if "+" in layer else NONE
    facts: Facts = {
        "architecture": {
            "family": "vit", "name": "trial", "exact": "trial", "n_parameters": 1, "backbone": backbone,
            "options": options,
        },
        "representation": {"dim": dim, "layer": layer, "order": order},
        "preprocess": {"resize_px": 1, "crop_px": 1, "interpolation": "bicubic", "mean": [0], "std": [1]},
        "provenance": {"url": "https://example.org"},
    }  # fmt: skip
    return build_card({"id": "trial", "family": "trial", **check_facts("a trial card", facts)})


def _step(encoder: Encoder, px: int) -> int | None:
    """The smallest step between sides of images that the network takes, by trying; None if it takes ``px`` alone."""
    for step in (1, 2, 4, 8, 14, 16, 28, 32, 64):
        if px % step:
            continue
        try:
            output_dim(encoder, px + step)
        except (RuntimeError, AssertionError, ValueError):  # how PyTorch and timm refuse a size
            continue
        return step
    return None


@cache
def _tags() -> tuple[str, ...]:
    return tuple(timm.list_models(pretrained=True))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern whose every ``*`` is a group of any characters."""
    return re.compile("(.*?)".join(map(re.escape, text.split("*"))))


def _short(text: str) -> str:
    """A part of timm's name as ids have it."""
    if text in SIZES:
        return SIZES[text]
    return re.sub(r"ft_in(\d+)k(?:_in(\d+)k)?", lambda m: f"ft{m[1]}k" + (f"_ft{m[2]}k" if m[2] else ""), text)


def _filled(value: Any, parts: list[str]) -> Any:
    """Texts with what the stars of a pattern stand for."""
    if isinstance(value, dict):
        return {key: _filled(item, parts) for key, item in value.items()}
    return value.format(*parts) if isinstance(value, str) else value


def _merge(into: Facts, table: Facts) -> None:
    """Lays a table over facts, as the reader of cards does."""
    for key, value in table.items():
        if key != "options" and isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = deepcopy(value)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def families(stems: list[str]) -> list[Family]:
    """Card files with a table ``[derive]``; all, or those of the stems."""
    found = [path for path in sorted(METADATA.glob("*.toml")) if "derive" in tomllib.loads(path.read_text())]
    unknown = set(stems) - {path.stem for path in found}
    if unknown:
        raise SystemExit(f"metadata/{min(unknown)}.toml has no table [derive], expected one of a file that has.")
    return [Family(path) for path in found if not stems or path.stem in stems]


def differences(old: Facts, new: Facts) -> Iterator[str]:
    """New, gone and changed facts of a file's encoders, a line each."""
    for identifier in sorted(old.keys() | new.keys(), key=str.casefold):
        if identifier not in old:
            yield f"new      {identifier}  {new[identifier]['weights']['url']}"
        elif identifier not in new:
            yield f"gone     {identifier}  {old[identifier]['weights']['url']}"
        else:
            before, after = dict(_flat(old[identifier])), dict(_flat(new[identifier]))
            for field in dict.fromkeys([*before, *after]):
                if before.get(field) != after.get(field):
                    yield f"changed  {identifier}  {field}: {before.get(field)!r} -> {after.get(field)!r}"


def _flat(table: Facts, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def main() -> None:
    """Write, or check."""
    parser = argparse.ArgumentParser(description="Derive cards from timm's registry.")
    parser.add_argument("stems", nargs="*", metavar="STEM", help="card files of metadata/, without .toml [all]")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if anything differs")
    options = parser.parse_args()
    found = 0
    for family in families(options.stems):
        text = family.text()
        path = family.written
        there = path.read_text() if path.exists() else ""
        lines = list(differences(_encoders(there), _encoders(text)))
        found += len(lines)
        if lines:
            print(f"{path.relative_to(METADATA.parent)}", *lines, sep="\n  ")
        if not options.check and text != there:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if options.check and found:
        sys.exit(1)


def _encoders(text: str) -> Facts:
    encoders: Facts = tomllib.loads(text).get("encoders", {})
    return encoders


if __name__ == "__main__":
    main()
