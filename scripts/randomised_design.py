"""The design of the randomised population: levels of every choice, how they are drawn, and the card that follows.

``docs/randomised.md`` says why these; the numbers here are the ones that count.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zoo.cards.catalogue import build_card
from zoo.cards.reading import parse_cards
from zoo.cards.schema import EncoderCard

FAMILY = "randomised"
DATASET = "fashion-mnist"
SEED = 20261124
N_DRAWN = 96
IMAGE_PX = 28
RECIPE_RATE = 0.002  # learning rate of AdamW, of every objective
N_CLASSES = 64  # prototypes of SwAV, classes of DINO
TWIN_EPOCHS = 8
AUGMENTATIONS = ("crop", "flip", "intensity", "blur", "cutout")
LEVELS: Mapping[str, tuple[Any, ...]] = {
    "objective": ("simclr", "vicreg", "byol", "swav", "dino", "context_encoder", "rotnet", "supervised"),
    "projector": ("none", "linear", "mlp"),
    "projector_width": (64, 256),
    "dim": (16, 64, 256),
    "network": ("resnet", "vit"),
    "size": ("small", "large"),
    "epochs": (1, 2, 4),
    **dict.fromkeys(AUGMENTATIONS, (False, True)),
    "batch_size": (64, 128, 256),
    "rate_factor": (0.33, 1.0, 3.0),
    "n_views": (2, 4),
}
MODES = {
    "simclr": "contrastive", "vicreg": "siamese", "byol": "siamese", "swav": "clustering", "dino": "distillation",
    "context_encoder": "generative", "rotnet": "transform", "supervised": "supervised",
}  # fmt: skip
PAPERS = {
    "simclr": ("A Simple Framework for Contrastive Learning of Visual Representations", "2002.05709"),
    "vicreg": ("VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning", "2105.04906"),
    "byol": ("Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning", "2006.07733"),
    "swav": ("Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", "2006.09882"),
    "dino": ("Emerging Properties in Self-Supervised Vision Transformers", "2104.14294"),
    "context_encoder": ("Context Encoders: Feature Learning by Inpainting", "1604.07379"),
    "rotnet": ("Unsupervised Representation Learning by Predicting Image Rotations", "1803.07728"),
    "supervised": ("Deep Residual Learning for Image Recognition", "1512.03385"),
}
OWN_WORDS = {"context_encoder": ["masking"], "rotnet": ["rotate"]}
NETWORKS: Mapping[tuple[str, str], dict[str, int]] = {
    ("resnet", "small"): {"width": 6, "n_blocks": 1, "last_width": 24},
    ("resnet", "large"): {"width": 10, "n_blocks": 1, "last_width": 40},
    ("vit", "small"): {"img_size": IMAGE_PX, "patch_size": 4, "width": 24, "depth": 2, "n_heads": 2},
    ("vit", "large"): {"img_size": IMAGE_PX, "patch_size": 4, "width": 32, "depth": 3, "n_heads": 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What was drawn for one encoder; the fields are the keys of :data:`LEVELS`."""

    objective: str
    projector: str
    projector_width: int
    dim: int
    network: str
    size: str
    epochs: int
    crop: bool
    flip: bool
    intensity: bool
    blur: bool
    cutout: bool
    batch_size: int
    rate_factor: float
    n_views: int

    @property
    def words(self) -> list[str]:
        """The augmentations of a view, and what the objective does itself, as a card names them."""
        return [
            *(name for name in AUGMENTATIONS if getattr(self, name)),
            *OWN_WORDS.get(self.objective, []),
            "normalize",
        ]


def drawn(number: int) -> Choices:
    """The choices of one encoder: every level has the same chance, whatever else was drawn."""
    chance = random.Random(f"{SEED}/{number}")
    return Choices(**{name: levels[int(chance.random() * len(levels))] for name, levels in LEVELS.items()})


def name_of(number: int) -> str:
    return f"{FAMILY}_{number:03}"


def population() -> dict[str, Choices]:
    """Every encoder that was drawn, in the order of the runs."""
    return {name_of(number): drawn(number) for number in range(N_DRAWN)}


def twins() -> dict[str, Choices]:
    """The supervised twin of every architecture, for the approximation error; no part of the population."""
    plain: dict[str, Any] = dict.fromkeys(AUGMENTATIONS, False)
    return {
        f"{FAMILY}_twin_{network}_{size}_{dim}": Choices(
            objective="supervised", projector="none", projector_width=64, dim=dim, network=network, size=size,
            epochs=TWIN_EPOCHS, batch_size=128, rate_factor=1.0, n_views=1, **plain,
        )
        for network in LEVELS["network"]
        for size in LEVELS["size"]
        for dim in LEVELS["dim"]
    }  # fmt: skip


def card_of(name: str, choices: Choices) -> EncoderCard:
    """The card, as it is before the training."""
    text = f"{DEFAULTS}\n{block_of(name, choices)}"
    facts, refused = parse_cards({Path(f"{FAMILY}.toml"): text.encode()})
    if refused:
        raise SystemExit(refused[0])
    return build_card(facts[name])


def block_of(name: str, choices: Choices, weights: Mapping[str, Any] | None = None, hours: float | None = None) -> str:
    """The part of the card file that is about one encoder."""
    is_vit = choices.network == "vit"
    options = {**NETWORKS[choices.network, choices.size], "dim": choices.dim}
    exact = f"{choices.network}_28 {choices.size} d{choices.dim}"
    objective, width = choices.objective, choices.projector_width
    title, number = PAPERS[objective]
    shape: dict[str, Any] = {"first_arch": {"none": "identity"}.get(choices.projector, choices.projector), "same": True}
    shape["second_arch"] = shape["first_arch"]
    if choices.projector != "none":
        shape["output_dim"] = width
    if choices.projector == "mlp":
        shape |= {"hidden_width": width, "hidden_depth": 1}
    shape["n_parameters"] = n_projector_parameters(choices)
    about: dict[str, Any] = {
        "objective": {
            "name": objective,
            "mode": MODES[objective],
            "n_negatives": 2 * choices.batch_size - 2 if objective == "simclr" else "not applicable",
            "n_classes": {"swav": N_CLASSES, "dino": N_CLASSES, "rotnet": 4, "supervised": 10}.get(
                objective, "not applicable"
            ),
            "stop_gradient": objective in ("byol", "dino", "swav"),
            "ema": objective in ("byol", "dino"),
        },
        "architecture": {
            "family": choices.network,
            "name": f"{choices.network}_28",
            "exact": exact,
            "patch_size_px": options["patch_size"] if is_vit else "not applicable",
            "n_parameters": _n_parameters(choices.network, choices.size, choices.dim),
            "backbone": "zoo:vit_small" if is_vit else "zoo:resnet_small",
            "options": options,
        },
        "projector": shape,
        "representation": {"dim": choices.dim, "layer": "pooled" if is_vit else "avgpool"},
        "pretraining": {
            "views": f"{choices.n_views}x{IMAGE_PX}",
            "augmentations": choices.words,
            "epochs": choices.epochs,
            "batch_size": choices.batch_size,
            "learning_rate": round(RECIPE_RATE * choices.rate_factor, 6),
            **({} if hours is None else {"duration_hours": round(hours, 4)}),
        },
        "paper": {"title": title, "url": f"https://arxiv.org/abs/{number}"},
        "weights": weights or {"url": f"shipped:{FAMILY}/{name}.safetensors"},
    }
    return "\n".join([f"[encoders.{name}]", *(f"{part} = {_toml(facts)}" for part, facts in about.items()), ""])


def n_projector_parameters(choices: Choices) -> int:
    """Weights and biases between the features and the last layer of the objective."""
    width, dim = choices.projector_width, choices.dim
    if choices.projector == "none":
        return 0
    linear = dim * width + width
    return linear if choices.projector == "linear" else linear + 2 * width + width * width + width


@cache
def _n_parameters(network: str, size: str, dim: int) -> int:
    from zoo.encoders import resnet, vit_models

    build = {"resnet": resnet.resnet_small, "vit": vit_models.vit_small}[network]
    module, _ = build(**NETWORKS[network, size], dim=dim)
    return sum(one.numel() for one in module.parameters())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


DEFAULTS = """\
[defaults]
released = "2026-11"

[defaults.objective]
version = 1
variant = "not applicable"

[defaults.projector]
output_dim = "not applicable"
hidden_width = "not applicable"
hidden_depth = "not applicable"

[defaults.representation]
order = "not applicable"

[defaults.pretraining]
dataset = "fashion-mnist"
domain = "garments in grey"
finetuning_dataset = "not applicable"
augmentation_invariant = true
optimizer = "adamw"
weight_decay = 0.01
scheduler = "cosine"
n_processors = 1
processor = "CPU"

[defaults.preprocess]
resize_px = 28
crop_px = 28
interpolation = "bilinear"
mean = [0.286, 0.286, 0.286]
std = [0.353, 0.353, 0.353]

[defaults.weights]
availability = "open"
mirrors = []
companions = []
same_file_as = "not applicable"
format = "safetensors"
converter = "zoo"
note = "not applicable"

[defaults.licence]
code = "MIT"
weights = "MIT"
published = "not applicable"

[defaults.reported]
top1_percent = "not applicable"
top1_percent_with_1_percent_labels = "not applicable"
top1_percent_with_5_shot = "not applicable"

[defaults.provenance]
url = "scripts/train_randomised.py"
official = false
industry = false
extracted = false
"""
