"""What the families share: rendered images, random weights, conversions by name, and measures of difference."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torchvision.transforms.functional import gaussian_blur

from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders.preprocess import build_geometry_steps

ROUNDING_LEVELS = 2.01  # by which kernels of libraries differ at most where they resize and crop alike
SHAPES = ((640, 427), (427, 640), (1024, 683), (333, 500), (180, 240))  # width and height, as photographs have them


@dataclass(frozen=True)
class Difference:
    """One row: what differs, between which libraries, in which case, by how much."""

    about: str  # of SUBJECTS in compare_weights.py
    between: str
    case: str
    value: float
    unit: str


def rendered(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture with soft shades, hard edges, fine gratings and a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width].astype(np.float64)
    fine = 127 * (1 + np.sin(x * x / 700 + y / 9))  # ever finer to the right
    shade = 255 * (x + y) / (width + height)
    discs = 255 * (((x // 67 + y // 53) % 3) == 1)
    noise = rng.normal(0, 8, (height, width, 3))
    return Image.fromarray(np.clip(np.dstack([fine, shade, discs]) + noise, 0, 255).astype(np.uint8))


def pictures() -> list[Image.Image]:
    """Rendered photographs, of all shapes."""
    return [rendered(width, height, seed) for seed, (width, height) in enumerate(SHAPES)]


def batch(px: int, n: int = 4) -> Tensor:
    """Normalised inputs (n, 3, px, px): rendered, with about the spread that normalised photographs have."""
    return _normalised([np.asarray(rendered(px, px, seed)).transpose(2, 0, 1) for seed in range(n)])


def _normalised(levels: list[np.ndarray]) -> Tensor:
    return (torch.from_numpy(np.stack(levels)).float() / 255 - 0.45) / 0.23


def randomise(network: nn.Module, *, seed: int = 0, positions: float = 0.5) -> None:
    """Weights as of a trained network's size: nothing is zero or one, and no two channels are alike.

    Position tables have the standard deviation ``positions``: patches of :func:`batch` have about one.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in network.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        if re.search("pos_embed|position_embedding|positional_embedding", name):
            drawn = drawn * positions
        elif parameter.ndim >= 2 and not re.search("token|probe|latent", name):
            drawn = drawn / parameter[0].numel() ** 0.5
        elif re.search(r"norm.*weight|ln.*weight|norm\d?\.scale|gamma|lambda1", name):
            drawn = 1 + drawn * 0.2
        elif parameter.ndim < 2:
            drawn = drawn * 0.1
        parameter.data.copy_(drawn)
    network.eval()


def renamed(state: Mapping[str, Tensor], *rules: tuple[str, str]) -> dict[str, Tensor]:
    """Tensors by their names in another library: regular expressions, each on what those before it gave."""
    taken = {}
    for name, tensor in state.items():
        for pattern, by in rules:
            name = re.sub(pattern, by, name)
        taken[name] = tensor.detach().clone()
    return taken


def as_published(network_class: Any, config: Any, state: Mapping[str, Tensor], *, unused: str = "^$") -> Any:
    """A network of transformers with the tensors of a published file, which it renames by its own rules.

    ``unused``: names that may be in one of both alone.
    """
    how: Any = {"config": config, "output_loading_info": True, "dtype": torch.float32}
    network, about = network_class.from_pretrained(None, state_dict=dict(state), **how)
    apart = [name for key in ("missing_keys", "unexpected_keys") for name in about[key] if not re.search(unused, name)]
    if apart or about["mismatched_keys"]:
        raise ValueError(f"{network_class.__name__} has not these tensors: {apart} {about['mismatched_keys']}")
    return network.eval()


def split_qkv(state: Mapping[str, Tensor], *names: str) -> dict[str, Tensor]:
    """A state in which queries, keys and values have a tensor each, in place of ``attn.qkv``."""
    whole = dict(state)
    for name in [name for name in whole if ".attn.qkv." in name]:
        parts = whole.pop(name).chunk(3)
        whole |= {name.replace(".qkv.", f".{own}."): part for own, part in zip(names, parts, strict=True)}
    return whole


def smoothed(table: Tensor, *, blur: float) -> Tensor:
    """A square table (1, places, width) whose neighbours are alike, as trained ones are: blurred, as wide."""
    n = round(table.shape[1] ** 0.5)
    grid = table.reshape(1, n, n, -1).permute(0, 3, 1, 2)
    soft = gaussian_blur(grid, [int(4 * blur) | 1] * 2, [blur, blur])
    return (soft * table.std() / soft.std()).permute(0, 2, 3, 1).flatten(1, 2)


def relative(one: Tensor, other: Tensor) -> float:
    """Root mean square of the difference of two features, over that of the first."""
    one, other = one.double(), other.double()
    return float((one - other).square().mean().sqrt() / one.square().mean().sqrt())


def levels_apart(one: Any, other: Any) -> list[float]:
    """The largest difference of pixels of each pair of images, (3, height, width) in steps of 255."""
    pairs = zip(one, other, strict=True)
    return [float(np.abs(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)).max()) for a, b in pairs]


def zoo_pixels(card: EncoderCard, images: list[Image.Image]) -> list[np.ndarray]:
    """The 8-bit squares that the zoo makes by a card, (3, px, px)."""
    taken = []
    for image in images:
        for step in build_geometry_steps(card.preprocess):
            image = step(image)
        taken.append(np.asarray(image).transpose(2, 0, 1))
    return taken


def card_of(name: str) -> EncoderCard:
    """A card of the zoo."""
    return load_catalogue()[name]


def import_from(folder: Path) -> None:
    """Makes the modules of a checkout importable."""
    sys.path.insert(0, str(folder))


_BLOCK = r"^blocks\.(\d+)\."


def to_transformers_vit(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by timm's or DINOv2's names, under those that files for transformers' ViT and DINOv2 have."""
    whole = dict(state)
    for name in [name for name in whole if ".attn.qkv." in name]:
        parts = whole.pop(name).chunk(3)
        for letter, part in zip(("query", "key", "value"), parts, strict=True):
            whole[name.replace("attn.qkv", f"attention.attention.{letter}")] = part
    return renamed(
        whole,
        (r"^cls_token$", "embeddings.cls_token"),
        (r"^(reg_token|register_tokens)$", "embeddings.register_tokens"),
        (r"^pos_embed$", "embeddings.position_embeddings"),
        (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
        (r"^norm\.", "layernorm."),
        (_BLOCK + r"attn\.proj\.", r"blocks.\1.attention.output.dense."),
        (_BLOCK + r"ls([12])\.gamma$", r"blocks.\1.layer_scale\2.lambda1"),
        (r"^blocks\.", "encoder.layer."),
    )


def shortened(card: EncoderCard, depth: int) -> EncoderCard:
    """A card whose network has fewer blocks."""
    options = card.architecture.options | {"depth": depth}
    return replace(card, architecture=replace(card.architecture, options=options))


def pixel_rows(
    theirs: Any,
    others: Mapping[str, Any],
    card: EncoderCard | None,
    *,
    images: list[Image.Image] | None = None,
    case: str = "five photographs",
    first: str = "authors",
) -> Iterator[Difference]:
    """How far the authors' pixels are from those of transforms, processors and a card; none of them normalises.

    ``theirs`` and ``others`` make numbers from 0 to 1 of an image, (3, height, width), those of transformers in their
    own way.
    """
    images = images or pictures()
    own = levels_made(theirs, images)
    made = {name: levels_made(other, images) for name, other in others.items()}
    if card is not None:
        made["zoo"] = zoo_pixels(card, images)
    for name, pixels in made.items():
        if pixels[0].shape != own[0].shape:
            sides = f"{own[0].shape[-1]} and {pixels[0].shape[-1]} px"
            raise ValueError(f"authors and {name} make images of {sides}, which have no pixels in common")
        apart = levels_apart(own, pixels)
        n_others = sum(most > ROUNDING_LEVELS for most in apart)
        yield Difference("resize", f"{first}, {name}", case, n_others, f"of {len(images)} images have other pixels")
        within = [most for most in apart if most <= ROUNDING_LEVELS]
        if within:
            yield Difference("resize", f"{first}, {name}", f"{case}, the rest", max(within), "of 255 at most")


def input_rows(
    card: EncoderCard,
    others: Mapping[str, Any],
    network: Callable[[Tensor], Tensor],
    *,
    images: list[Image.Image] | None = None,
    case: str = "five photographs",
) -> Iterator[Difference]:
    """How far one network's features of a card's default input are from those of other inputs, of any size."""
    images = images or pictures()
    own = network(_normalised(zoo_pixels(card, images)))
    for name, transform in others.items():
        other = network(_normalised(levels_made(transform, images)))
        yield Difference("resize", f"the card, {name}", f"features of {case}", relative(own, other), "relative")


def levels_made(transform: Any, images: list[Image.Image]) -> list[np.ndarray]:
    """Steps of 255 (3, height, width) of what a transform, or a processor of transformers, makes of images."""
    taken = []
    for image in images:
        is_processor = hasattr(transform, "model_input_names")
        made = transform(image, return_tensors="pt")["pixel_values"][0] if is_processor else transform(image)
        taken.append(np.asarray(made, dtype=np.float64) * 255)
    return taken
