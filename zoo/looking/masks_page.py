"""Predicted masks and depth as pictures: image, mask, prediction and error side by side, on a page or in files.

Classes have the colours of VOC's palette, the first black; a wrong prediction is said in words, never by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerTable
from ..optional import require_extra
from .mistakes_page import PX, make_section, render_mistakes_page
from .pages import encode_data_address, make_thumbnail

with require_extra("models", needed_for="Pictures of masks"):
    import numpy as np
    from PIL import Image

if TYPE_CHECKING:
    from ..evaluation.segmentation_runs import SegmentedVariant

IGNORED_INDEX = 255
"""What masks in files have where no class is given."""

_N_SHOWN = 6  # images of each section
_WRONG, _DIM = (213, 94, 0), 0.45  # what is wrong, over the image in dimmed grey
_IGNORED = (224, 224, 192)
_SWATCH_PX = 24
_MOST_NAMED = 40  # classes with a swatch


def make_palette() -> Any:
    """The colours of 256 classes as VOC's development kit makes them, uint8 (256, 3): bits of the number, by turns."""
    palette = np.zeros((256, 3), np.uint8)
    numbers = np.arange(256)
    for place in range(8):
        for channel in range(3):
            palette[:, channel] |= ((numbers >> (3 * place + channel)) & 1).astype(np.uint8) << (7 - place)
    palette[IGNORED_INDEX] = _IGNORED
    return palette


def make_mask_image(classes: Any, valid: Any | None = None) -> Image.Image:
    """Numbers of classes (height, width) as an image with a palette, 255 where not valid; of 16 bits from 255 on."""
    numbers = np.asarray(classes)
    if numbers.size and numbers.max() >= IGNORED_INDEX:
        return Image.fromarray(np.where(True if valid is None else valid, numbers, 65535).astype(np.uint16))
    stored = np.where(True if valid is None else valid, numbers, IGNORED_INDEX).astype(np.uint8)
    image = Image.fromarray(stored)
    image.putpalette(make_palette().reshape(-1).tolist())
    return image


def make_depth_image(depth: Any, valid: Any, ends: tuple[float, float]) -> Image.Image:
    """Numbers (height, width) in grey, the larger the brighter, between two ends; what is not valid in the colour of
    ignored pixels."""
    low, high = ends
    share = np.clip((np.asarray(depth, np.float64) - low) / max(high - low, 1e-12), 0, 1)
    grey = np.repeat(np.rint(255 * share).astype(np.uint8)[:, :, None], 3, axis=2)
    grey[~np.asarray(valid)] = _IGNORED
    return Image.fromarray(grey)


def render_masks_page(
    variant: SegmentedVariant,
    tables: Sequence[AnswerTable],
    *,
    answer: Sequence[str],
    notes: Iterable[str] = (),
    hides_images: bool = False,
) -> str:
    """A page of what a probe predicts of the best, the typical and the worst test images, with tables above them."""
    is_depth = variant.data.task == "depth"
    score = _score_images(variant)
    order = np.argsort(-score, kind="stable")
    n = min(_N_SHOWN, max(1, len(order) // 3))
    middle = max(n, (len(order) - n) // 2)
    chosen = {"Worst": order[::-1][:n], "Typical": order[middle : middle + n], "Best": order[:n]}
    what = "by the error of their depth" if is_depth else "by the mean intersection over union of their classes"
    text = {
        "Worst": f"Test images {what}, the worst first: image, {'depth' if is_depth else 'mask'}, prediction, error.",
        "Typical": f"The middle of {len(order):,} test images.",
        "Best": "The best first.",
    }
    sections = [
        make_section(title, text[title], ("", [_make_tile(variant, int(image), hides_images) for image in some]))
        for title, some in chosen.items()
        if len(some)
    ]
    if not is_depth:
        sections.append(_make_legend(variant))
    title = f"{'Depth' if is_depth else 'Masks'} of {variant.data.name} by {variant.result.name}"
    return render_mistakes_page(title, answer, sections, tables=tables, notes=notes)


def _score_images(variant: SegmentedVariant) -> Any:
    """Of each test image, higher is better: percent, or minus the error of depth."""
    result: Any = variant.result
    if variant.data.task == "depth":
        return -np.sqrt(result.sums[:, 0] / np.maximum(result.sums[:, 3], 1))
    return result.image_ious


def _make_tile(variant: SegmentedVariant, image: int, hides_images: bool) -> dict[str, Any]:
    """Four pictures of a test image, and what is wrong in words."""
    part = variant.data.val
    wanted, valid = variant.read_mask(image)
    given = variant.predict(image)
    shown = part.images.images[image].convert("RGB").resize(wanted.shape[::-1])
    if variant.data.task == "depth":
        off = np.abs(given - wanted)
        ends = (float(wanted[valid].min()), float(wanted[valid].max())) if valid.any() else (0.0, 1.0)
        pictures = [make_depth_image(one, valid, ends) for one in (wanted, given)]
        pictures.append(make_depth_image(off, valid, (0.0, ends[1] - ends[0])))
        head, lines = f"RMSE {-_score_images(variant)[image]:.3g} {part.unit}", []
    else:
        wrong = valid & (given != wanted)
        pictures = [make_mask_image(wanted, valid).convert("RGB"), make_mask_image(given).convert("RGB")]
        pictures.append(mark_wrong(shown, wrong))
        head = f"IoU {_score_images(variant)[image]:.0f}\xa0%"
        lines = _describe_wrong(part.classes, wanted[valid], given[valid])
    called = ("image", "depth" if variant.data.task == "depth" else "mask", "prediction", "error")
    small = [make_thumbnail(one, PX) if at == 0 else _shrink(one) for at, one in enumerate([shown, *pictures])]
    images = [
        {
            "name": name,
            "address": None if hides_images else encode_data_address(one),
            "is_small": max(wanted.shape) <= PX // 2,
        }
        for name, one in zip(called, small, strict=True)
    ]
    return {"images": images, "head": f"{part.images.names[image]}: {head}", "lines": lines}


def _shrink(picture: Image.Image) -> Image.Image:
    """A picture of classes without new colours, its longer side as that of a thumbnail."""
    share = min(1.0, PX / max(picture.size))
    return picture.resize([max(1, round(share * side)) for side in picture.size], Image.Resampling.NEAREST)


def mark_wrong(image: Image.Image, wrong: Any) -> Image.Image:
    """The image in dimmed grey, with wrong pixels in orange."""
    grey = np.asarray(image.convert("L"), np.float64) * _DIM + 255 * (1 - _DIM) * 0.5
    pixels = np.repeat(np.rint(grey).astype(np.uint8)[:, :, None], 3, axis=2)
    pixels[wrong] = _WRONG
    return Image.fromarray(pixels)


def _describe_wrong(classes: Sequence[str], wanted: Any, given: Any) -> list[str]:
    """The share of pixels that are wrong, and the two classes that are confused most."""
    wrong = wanted != given
    if not wrong.any():
        return ["no pixel is wrong"]
    pairs, n = np.unique(np.stack([wanted[wrong], given[wrong]]), axis=1, return_counts=True)
    first = pairs[:, n.argmax()].tolist()
    shares = f"{100 * wrong.mean():.1f}\xa0%", f"{100 * n.max() / wanted.size:.1f}\xa0%"
    return [f"{shares[0]} of pixels are wrong", f"{classes[first[0]]} → {classes[first[1]]}: {shares[1]}"]


def _make_legend(variant: SegmentedVariant) -> dict[str, Any]:
    """The colour of each class."""
    classes, palette = variant.data.val.classes, make_palette()
    tiles = []
    for number, name in enumerate(classes[:_MOST_NAMED]):
        swatch = Image.new("RGB", (_SWATCH_PX, _SWATCH_PX), tuple(palette[number % 255].tolist()))
        image = {"name": name, "address": encode_data_address(swatch), "is_small": True, "is_swatch": True}
        tiles.append({"images": [image], "head": "", "lines": []})
    more = f" {len(classes) - _MOST_NAMED:,} more are left out." * (len(classes) > _MOST_NAMED)
    return make_section("Colours", f"Of classes in masks and predictions; ignored pixels are pale.{more}", ("", tiles))
