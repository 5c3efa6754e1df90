"""A small vision transformer of DINO's layout, for tests of everything around the weights."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from zoo.cards.catalogue import load_catalogue
from zoo.encoders import build_encoder

_STATES: dict[tuple[str, int], dict[str, torch.Tensor]] = {}  # which are small
_ARCHITECTURE = "{ options = { depth = 2, embed_dim = 32, num_heads = 2 }, n_parameters = 1 }"


def write_card(
    name: str,
    url: str,
    *,
    mirrors: Sequence[str] = (),
    layer: str = "cls",
    same_file_as: str = "not applicable",
    sha256: str = "not published",
    size_bytes: int | str = "not published",
    availability: str = "open",
) -> Path:
    """A card of the small encoder in the user's folder."""
    text = f"""\
[encoders.{name}]
like = "dino_vitS16_last"
architecture = {_ARCHITECTURE}
representation = {{ dim = {32 if layer == "cls" else 64}, layer = "{layer}", order = "{_order(layer)}" }}
preprocess = {{ resize_px = 224, crop_px = 224 }}
weights.url = {json.dumps(url)}
weights.mirrors = {json.dumps(list(mirrors))}
weights.same_file_as = "{same_file_as}"
weights.sha256 = "{sha256}"
weights.size_bytes = {json.dumps(size_bytes)}
weights.availability = "{availability}"
"""
    path = Path(os.environ["ZOO_HOME"], "metadata", f"{name}.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _order(layer: str) -> str:
    return "interleaved" if layer == "cls+avg" else "not applicable"


def state(name: str, *, seed: int = 1) -> dict[str, torch.Tensor]:
    """Random weights of the small encoder under the names of DINO's files, none as before training."""
    card = load_catalogue()[name]
    key = repr((card.architecture, card.representation)), seed
    if key not in _STATES:
        generator = torch.Generator().manual_seed(seed)
        _STATES[key] = {
            key.removeprefix("backbone."): torch.randn(tensor.shape, generator=generator) * 0.1
            for key, tensor in build_encoder(card).state_dict().items()
        }
    return {name: tensor.clone() for name, tensor in _STATES[key].items()}


def checkpoint(name: str, *, seed: int = 1) -> bytes:
    """The same as a file of DINO's, as bytes."""
    buffer = io.BytesIO()
    torch.save(state(name, seed=seed), buffer)
    return buffer.getvalue()
