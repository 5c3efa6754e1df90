"""The preprocessing of a card that does to an image what a repository's image processor of transformers does.

transformers itself reads the settings, whatever their age, and makes the processor. Flat images tell where it puts
black and white, and the order of channels; resize and crop are those under which the zoo's pixels are the processor's.
No setting is trusted and none can be overlooked: what the zoo cannot do with an image is refused.

The reference is the processor on Pillow, from which no pixel may differ; the one on torchvision, which transformers
takes by itself, rounds otherwise, and must be the same but for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..cards.schema import Preprocess
from ..optional import require_extra
from .preprocess import build_preprocess
from .transformers_models import mute_transformers

with require_extra("transformers", needed_for="Preprocessing images as transformers does"):
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoImageProcessor, AutoVideoProcessor

# what transformers raises for settings, for images, and without a library that a processor needs
_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError),
    *(ValueError, StrictDataclassError),
)
_SHAPES = ((420, 300), (300, 420), (100, 60), (701, 523))  # of pictures: width and height
_EXACT_LEVELS = 0.01  # of 255: rounding of float32
_KERNEL_LEVELS = 2  # by which kernels of torchvision and Pillow differ at most where no value leaves 0 to 255
_MEAN_LEVELS = 1  # by which they differ on average where some do: 0.5 on any processor, 4 if these are not cut off
_SAID = ("do_resize", "size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_pad", "pad_size")


def derive_preprocess(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Facts of the preprocessing that equals a processor, from the JSON objects of its repository by their file names.

    ValueError with a clause that names the processor if transformers does not make one of them, or if the zoo makes
    other pixels of pictures of several shapes, whatever it tries.
    """
    with mute_transformers():
        processors = _made(files)
        name = type(processors[-1]).__name__.removesuffix("Pil")
        try:
            taken = [[_output(processor, picture) for picture in _pictures()] for processor in processors]
            flat = [_output(processors[0], Image.new("RGB", (64, 64), colour)) for colour in ("black", "white", "red")]
        except _ERRORS as error:
            raise ValueError(f"its {name} makes no input of an image ({_in_a_line(error)})") from error
    shapes = {tuple(output.shape) for output in (*flat, *(output for outputs in taken for output in outputs))}
    px = flat[0].shape[-1]
    if shapes != {(3, px, px)}:
        listed = " and ".join(f"{shape[-1]} x {shape[-2]}" for shape in sorted(shapes)[:3])
        raise ValueError(f"its {name} makes inputs of {listed} px, expected squares of one size")
    colours = _colours(*(output[:, px // 2, px // 2].double() for output in flat), stated=processors[0])
    for geometry in _geometries(processors[0], px):
        tried = Preprocess(crop_px=px, **geometry, **colours)
        if all(_is_same(tried, *one) for one in zip(processors, taken, strict=True)):
            return asdict(tried) | {"mean": list(tried.mean), "std": list(tried.std)}
    settings = {key: getattr(processors[0], key, None) for key in _SAID}
    listed = ", ".join(f"{key} {_plain(value)}" for key, value in settings.items() if value is not None)
    raise ValueError(f"its {name} makes other pixels than any resize and centre crop of the zoo ({listed})")


def _made(files: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """The processor of a repository on each library that transformers has it for, Pillow first."""
    has_images = "preprocessor_config.json" in files or any("image_processor" in content for content in files.values())
    images: Any = AutoImageProcessor  # whose methods have no types
    videos: Any = AutoVideoProcessor
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_text(json.dumps(content), encoding="utf-8")
        try:
            if not has_images:
                return [videos.from_pretrained(folder, trust_remote_code=False)]
            found = [
                images.from_pretrained(folder, trust_remote_code=False, backend=backend)
                for backend in ("pil", "torchvision")
            ]
        except _ERRORS as error:
            reason = _in_a_line(error).replace(folder, "its repository")
            raise ValueError(f"transformers makes no image processor of its files ({reason})") from error
    return list({type(one): one for one in found}.values())


def _output(processor: Any, image: Image.Image) -> Tensor:
    """What a processor makes of one image, (3, height, width)."""
    if "pixel_values_videos" in processor.model_input_names:
        output = processor(videos=[[image]], return_tensors="pt")["pixel_values_videos"][0]
    else:
        output = processor(image, return_tensors="pt")["pixel_values"]
    if output.ndim != 4 or len(output) != 1:
        raise ValueError(f"its output has the shape {tuple(output.shape)}")
    return torch.as_tensor(output[0])


@cache
def _pictures() -> tuple[Image.Image, ...]:
    """Soft ones, whose values no resize moves out of 0 to 255, and hard ones, in turns."""
    made = []
    for width, height in _SHAPES:
        y, x = np.mgrid[:height, :width]
        soft = (x * 37 % 128 + 64, y * 53 % 128 + 64, (x + y) // 7 % 2 * 120 + 64)
        hard = (x // 5 % 2 * 255, y // 7 % 2 * 255, (x + y) // 9 % 2 * 255)
        made += [Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8)) for channels in (soft, hard)]
    return tuple(made)


def _colours(black: Tensor, white: Tensor, red: Tensor, *, stated: Any) -> dict[str, Any]:
    """Mean, standard deviation and order of channels; as the processor states them where it does so."""
    if not bool((white > black).all()):
        name = type(stated).__name__.removesuffix("Pil")
        raise ValueError(f"its {name} does not make white lighter than black")
    std = 1 / (white - black)
    mean = -black * std
    is_bgr = int((white - red).abs().argmin()) == 2
    if is_bgr:
        mean, std = mean.flip(0), std.flip(0)

    def exact(values: Tensor, said: Any) -> tuple[float, ...]:
        numbers = said if isinstance(said, list | tuple) and len(said) == 3 else (said,) * 3
        return tuple(
            float(number)
            if isinstance(number, int | float) and abs(number - value) < 1e-6
            else round(value, 6) + 0.0  # not -0.0
            for value, number in zip(values.tolist(), numbers, strict=True)
        )

    return {
        "mean": exact(mean, getattr(stated, "image_mean", None)),
        "std": exact(std, getattr(stated, "image_std", None)),
        "channels": "BGR" if is_bgr else "RGB",
    }


def _geometries(processor: Any, px: int) -> Iterator[dict[str, Any]]:
    """Every resize that the settings may mean, the plainest first."""
    size = getattr(processor, "size", None)
    size = dict(size) if size else {}
    side = size.get("shortest_edge") or size.get("height") or px
    share = getattr(processor, "crop_pct", None)
    sides = dict.fromkeys([side, px, int(side / share) if share else px, int(256 / 224 * side)])  # LeViT's
    fits: tuple[Literal["crop", "squash"], ...] = ("crop", "squash")
    for resize_px, fit, interpolation in product(sides, fits, ("bilinear", "bicubic")):
        rounding = "half even" if (fit, resize_px) == ("squash", px) else "down"
        yield {"resize_px": resize_px, "fit": fit, "interpolation": interpolation, "crop_rounding": rounding}


def _is_same(preprocess: Preprocess, processor: Any, taken: list[Tensor]) -> bool:
    """True if the zoo's pixels are those that a processor has made of all pictures."""
    std = preprocess.std if preprocess.channels == "RGB" else preprocess.std[::-1]
    ours, levels = build_preprocess(preprocess), torch.tensor(std)[:, None, None] * 255
    is_exact = getattr(processor, "backend", "") == "pil"
    for number, (picture, theirs) in enumerate(zip(_pictures(), taken, strict=True)):
        apart = (ours(picture) - theirs).abs() * levels
        if is_exact:
            is_same = apart.max() < _EXACT_LEVELS
        else:
            is_same = apart.mean() <= _MEAN_LEVELS if number % 2 else apart.max() < _KERNEL_LEVELS + _EXACT_LEVELS
        if not is_same:
            return False
    return True


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "shortest_edge") else value  # a size


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(". ") or type(error).__name__
