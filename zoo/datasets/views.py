"""Several views of each image as an image set: random augmentations by a recipe, or quarter turns.

A set of views is an image set like any other, whose images are made when they are asked for: it goes through an
encoder, in worker processes or not, and its features are cached. Row i q + j is view j of image i.

The random numbers of a view belong to the seed, the name of the image, the number of the view and the augmentation.
They depend neither on other images nor on the order in which views are asked for, nor on the process, and a recipe
without one of its augmentations draws the same numbers for all others. Torchvision and Pillow do the work on pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, cast

from ..cards.schema import EncoderCard
from ..errors import QueryError
from ..optional import require_extra
from .images import ImageSet, LazyImages, compute_digest
from .recipes import WORDS, AugmentationRecipe, PatchMasking
from .rgb import RGB, NormalizeStep, Steps, TensorStep, crop_extreme_ratio, make_channel_reorder, to_rgb
from .subsets import draw_image_positions, draw_uniform, is_whole

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image, ImageFilter
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as F  # noqa: N812

Uniform = Callable[[int], np.ndarray]
"""From a number n to n draws in [0, 1), the same at every call."""

_BLOCK_RATIO = (0.3, 1 / 0.3)  # BEiT, arXiv:2106.08254, Algorithm 1
_SMALLEST_BLOCK = 16 / 196  # share of the patches, likewise
_MASK_ATTEMPTS = 100
# I-JEPA, arXiv:2301.08243, Appendix A: shares of the patches, height over width of targets, and their number
_CONTEXT_SHARE, _TARGET_SHARE, _TARGET_RATIO, _N_TARGETS = (0.85, 1.0), (0.15, 0.2), (0.75, 1.5), 4


def draw_patch_mask(masking: PatchMasking, n_rows: int, n_columns: int, uniform: Uniform) -> np.ndarray:
    """True where a patch is hidden, bool (n_rows, n_columns); at least one patch stays.

    >>> int(draw_patch_mask(PatchMasking(share=0.75), 4, 4, lambda n: np.linspace(0, 0.9, n)).sum())
    12
    """
    n = n_rows * n_columns
    if masking.kind == "context":
        hidden = ~_context(n_rows, n_columns, uniform)
    elif masking.kind == "blocks":
        hidden = _blocks(n_rows, n_columns, round(masking.share * n), uniform)
    else:
        hidden = np.zeros(n, bool)
        hidden[np.argsort(uniform(n), kind="stable")[: int(masking.share * n)]] = True
        hidden = hidden.reshape(n_rows, n_columns)
    if hidden.all():
        hidden[n_rows // 2, n_columns // 2] = False
    return hidden


def _blocks(n_rows: int, n_columns: int, n_hidden: int, uniform: Uniform) -> np.ndarray:
    """Hides rectangles one after the other, as long as they hide no more than the share."""
    hidden = np.zeros((n_rows, n_columns), bool)
    least = min(max(1, round(_SMALLEST_BLOCK * n_rows * n_columns)), max(n_hidden, 1))
    for size, ratio, top, left in uniform(4 * _MASK_ATTEMPTS).reshape(-1, 4).tolist():
        n_open = n_hidden - int(hidden.sum())
        if n_open <= 0:
            break
        area = least + size * max(n_open - least, 0)
        rows = _block(n_rows, n_columns, area, _between(_BLOCK_RATIO, ratio, logarithmic=True), top, left)
        n_new = int((~hidden[rows]).sum())
        if 0 < n_new <= n_open:
            hidden[rows] = True
    return hidden


def _context(n_rows: int, n_columns: int, uniform: Uniform) -> np.ndarray:
    """True where the encoder sees the image."""
    draws = uniform(4 * (1 + _N_TARGETS)).reshape(-1, 4).tolist()
    n = n_rows * n_columns
    size, _, top, left = draws[0]
    seen = np.zeros((n_rows, n_columns), bool)
    seen[_block(n_rows, n_columns, n * _between(_CONTEXT_SHARE, size), 1.0, top, left)] = True
    size, ratio = draws[1][:2]  # one size for the four targets of an image
    for _, _, top, left in draws[1:]:
        area = n * _between(_TARGET_SHARE, size)
        seen[_block(n_rows, n_columns, area, _between(_TARGET_RATIO, ratio), top, left)] = False
    return seen


def _block(n_rows: int, n_columns: int, area: float, ratio: float, top: float, left: float) -> tuple[slice, slice]:
    """A rectangle of about ``area`` patches, with ``ratio`` = height over width, placed by two draws."""
    height = min(n_rows, max(1, round(math.sqrt(area * ratio))))
    width = min(n_columns, max(1, round(math.sqrt(area / ratio))))
    first_row, first_column = int(top * (n_rows - height + 1)), int(left * (n_columns - width + 1))
    return slice(first_row, first_row + height), slice(first_column, first_column + width)


def _between(ends: tuple[float, float], draw: float, *, logarithmic: bool = False) -> float:
    low, high = ends
    return low * (high / low) ** draw if logarithmic else low + (high - low) * draw


Fill = tuple[int, int, int]

_LARGEST_MAGNITUDE = 10.0
_N_OPERATIONS, _OPERATION_PROBABILITY, _MAGNITUDE_DEVIATION = 2, 0.5, 0.5


def apply_random_policy(image: Image.Image, magnitude: float, uniform: Uniform, *, fill: Fill) -> Image.Image:
    """Two of fifteen operations, each with probability one half: RandAugment (arXiv:1909.13719) as in timm.

    Each operation draws its magnitude around ``magnitude`` (0 to 10), with deviation 0.5. ``fill`` is the colour of
    what comes from outside the image. The first draw of ``uniform`` is not used.
    """
    draws = uniform(1 + 8 * _N_OPERATIONS)[1:].reshape(_N_OPERATIONS, 8).tolist()
    for which, whether, sign, *summands in draws:
        if whether >= _OPERATION_PROBABILITY:
            continue
        noise = (sum(summands) - len(summands) / 2) * (12 / len(summands)) ** 0.5  # mean 0, variance 1, nearly normal
        level = min(max(magnitude + _MAGNITUDE_DEVIATION * noise, 0.0), _LARGEST_MAGNITUDE) / _LARGEST_MAGNITUDE
        image = _OPERATIONS[int(which * len(_OPERATIONS))](image, level, -1.0 if sign < 0.5 else 1.0, fill)
    return image


def apply_photometric(image: Image.Image, uniform: Uniform) -> Image.Image:
    """Fewer levels, another sharpness, solarised from some level on, full contrast: as VISSL does for PIRL."""
    _, levels, sharpness, threshold = uniform(4).tolist()
    changed = F.posterize(image, 4 + int(5 * levels))
    changed = F.adjust_sharpness(changed, 0.1 + 1.8 * sharpness)
    changed = F.solarize(changed, int(257 * threshold))
    stretched: Image.Image = F.autocontrast(changed)
    return stretched


def _moved(image: Image.Image, matrix: tuple[float, ...], fill: Fill) -> Image.Image:
    """The image resampled: each pixel of the result comes from where the affine map sends it."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


def _shifted_levels(image: Image.Image, n_levels: int) -> Image.Image:
    """The image with dark pixels brighter by so many levels."""
    return image.point([min(255, level + n_levels) if level < 128 else level for level in range(256)] * 3)


_Operation = Callable[[Image.Image, float, float, Fill], Image.Image]
_OPERATIONS: tuple[_Operation, ...] = (
    lambda image, level, sign, fill: F.autocontrast(image),
    lambda image, level, sign, fill: F.equalize(image),
    lambda image, level, sign, fill: F.invert(image),
    lambda image, level, sign, fill: F.rotate(image, 30 * level * sign, fill=list(fill)),
    lambda image, level, sign, fill: F.posterize(image, 4 - int(4 * level) or 1),
    lambda image, level, sign, fill: F.solarize(image, 255 - int(255 * level)),
    lambda image, level, sign, fill: _shifted_levels(image, int(110 * level)),
    lambda image, level, sign, fill: F.adjust_saturation(image, 1 + 0.9 * level * sign),
    lambda image, level, sign, fill: F.adjust_contrast(image, 1 + 0.9 * level * sign),
    lambda image, level, sign, fill: F.adjust_brightness(image, 1 + 0.9 * level * sign),
    lambda image, level, sign, fill: F.adjust_sharpness(image, 1 + 0.9 * level * sign),
    lambda image, level, sign, fill: _moved(image, (1, 0.3 * level * sign, 0, 0, 1, 0), fill),
    lambda image, level, sign, fill: _moved(image, (1, 0, 0, 0.3 * level * sign, 1, 0), fill),
    lambda image, level, sign, fill: _moved(image, (1, 0, 0.45 * level * sign * image.width, 0, 1, 0), fill),
    lambda image, level, sign, fill: _moved(image, (1, 0, 0, 0, 1, 0.45 * level * sign * image.height), fill),
)  # by a level in [0, 1] and a direction, -1 or 1


DRAWING = "views-1"
"""Name of the way from a seed to views; part of their fingerprints, and new whenever a pixel would change."""

_STREAM = 7_020  # keeps these draws apart from all others of a seed
_NUMBERS = {word: number for number, word in enumerate(sorted(WORDS))}
_CROP_ATTEMPTS = 10  # of a crop that lies within the image, as in torchvision's RandomResizedCrop


def augment_image(image: Image.Image, recipe: AugmentationRecipe, *, seed: int, name: str, view: int) -> Image.Image:
    """View number ``view`` of an image of any mode and size with a name in its set: RGB of recipe.size_px."""
    made, strengths = recipe.augmentations, recipe.strengths
    image_key = int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")

    def uniform(word: str) -> Uniform:
        return lambda n: draw_uniform((_STREAM, seed, image_key, view, _NUMBERS[word]), n)

    def happens(word: str, probability: float) -> bool:
        """Whether an augmentation is applied, by its first draw."""
        return word in made and bool(uniform(word)(1)[0] < probability)

    shown = to_rgb(image)
    if "crop" not in made or strengths.resizes_first:
        shown = _resized(shown, recipe)
    if "crop" in made:
        shown = _cropped(shown, recipe, uniform("crop"))
    if happens("flip", strengths.flip_probability):
        shown = F.horizontal_flip(shown)
    if "rotate" in made:
        shown = F.rotate(shown, strengths.rotation_degrees * (2 * float(uniform("rotate")(1)[0]) - 1))
    if happens("autoaugment", strengths.policy_probability):
        shown = apply_random_policy(shown, strengths.policy_magnitude, uniform("autoaugment"), fill=recipe.mean_colour)
    if happens("color", strengths.jitter_probability):
        shown = _jittered(shown, recipe, uniform("color"))
    if happens("photometric", strengths.photometric_probability):
        shown = apply_photometric(shown, uniform("photometric"))
    if happens("gray", strengths.gray_probability):
        shown = F.rgb_to_grayscale(shown, num_output_channels=3)
    if happens("blur", _in_turn(strengths.blur_probability, view)):
        low, high = strengths.blur_sigma_px
        sigma_px = low + (high - low) * float(uniform("blur")(2)[1])
        shown = shown.filter(ImageFilter.GaussianBlur(sigma_px))  # as MoCo, DINO and VICReg do, and ten times faster
    if happens("solarize", _in_turn(strengths.solarize_probability, view)):
        shown = F.solarize(shown, strengths.solarize_threshold)
    if happens("erasing", strengths.erasing_probability):
        shown = _erased(shown, recipe, uniform("erasing"))
    if happens("masking", strengths.masking.probability):
        shown = _masked(shown, recipe, uniform("masking"))
    return shown


def _in_turn(probabilities: tuple[float, ...], view: int) -> float:
    return probabilities[view % len(probabilities)]


def _resized(image: Image.Image, recipe: AugmentationRecipe) -> Image.Image:
    """The image after the resize and crop of the encoder's preprocessing."""
    resized = F.resize(
        crop_extreme_ratio(image), [recipe.resize_px], interpolation=InterpolationMode(recipe.resize_interpolation)
    )
    cropped: Image.Image = F.center_crop(resized, [recipe.size_px, recipe.size_px])
    return cropped


def _cropped(image: Image.Image, recipe: AugmentationRecipe, uniform: Uniform) -> Image.Image:
    width, height = image.size
    size, interpolation = [recipe.size_px, recipe.size_px], InterpolationMode(recipe.strengths.interpolation)
    window = _window(width, height, recipe, uniform)
    cropped: Image.Image = F.resized_crop(image, *window, size, interpolation=interpolation, antialias=True)
    return cropped


def _window(width: int, height: int, recipe: AugmentationRecipe, uniform: Uniform) -> tuple[int, int, int, int]:
    """Top, left, height and width of a crop: the first of ten that lies within the image, else the middle of it."""
    (small, large), (narrow, wide) = recipe.strengths.crop_scale, recipe.strengths.crop_ratio
    for area, ratio, down, across in uniform(4 * _CROP_ATTEMPTS).reshape(-1, 4).tolist():
        n_pixels = width * height * (small + (large - small) * area)
        chosen = narrow * (wide / narrow) ** ratio
        columns, rows = round(math.sqrt(n_pixels * chosen)), round(math.sqrt(n_pixels / chosen))
        if 0 < columns <= width and 0 < rows <= height:
            return int(down * (height - rows + 1)), int(across * (width - columns + 1)), rows, columns
    within = min(max(width / height, narrow), wide)
    columns, rows = min(width, round(height * within)), min(height, round(width / within))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _jittered(image: Image.Image, recipe: AugmentationRecipe, uniform: Uniform) -> Image.Image:
    draws = uniform(9)  # the first says whether colours are changed at all
    brightness, contrast, saturation, hue = recipe.strengths.jitter
    signs = (2 * draws[5:9] - 1).tolist()  # in [-1, 1)
    steps = (
        lambda image: F.adjust_brightness(image, max(0.0, 1 + brightness * signs[0])),
        lambda image: F.adjust_contrast(image, max(0.0, 1 + contrast * signs[1])),
        lambda image: F.adjust_saturation(image, max(0.0, 1 + saturation * signs[2])),
        lambda image: F.adjust_hue(image, hue * signs[3]),
    )
    for number in np.argsort(draws[1:5], kind="stable").tolist():
        if recipe.strengths.jitter[number] > 0:
            image = steps[number](image)
    return image


def _erased(image: Image.Image, recipe: AugmentationRecipe, uniform: Uniform) -> Image.Image:
    """A rectangle of 2 % to a third of the area without its pixels, as in Random Erasing, arXiv:1708.04896."""
    _, area, ratio, down, across = uniform(5).tolist()
    n_pixels, chosen = recipe.size_px**2 * (0.02 + (1 / 3 - 0.02) * area), 0.3 * (1 / 0.09) ** ratio
    columns = min(recipe.size_px, max(1, round(math.sqrt(n_pixels * chosen))))
    rows = min(recipe.size_px, max(1, round(math.sqrt(n_pixels / chosen))))
    top, left = int(down * (recipe.size_px - rows + 1)), int(across * (recipe.size_px - columns + 1))
    erased = image.copy()
    erased.paste(recipe.mean_colour, (left, top, left + columns, top + rows))
    return erased


def _masked(image: Image.Image, recipe: AugmentationRecipe, uniform: Uniform) -> Image.Image:
    n = -(-recipe.size_px // recipe.patch_size_px)
    hidden = draw_patch_mask(recipe.strengths.masking, n, n, lambda k: uniform(k + 1)[1:])
    pixels = np.array(image)  # (px, px, 3)
    whole = np.kron(hidden, np.ones((recipe.patch_size_px,) * 2, bool))[: recipe.size_px, : recipe.size_px]
    pixels[whole.astype(bool)] = recipe.mean_colour
    return Image.fromarray(pixels)


ANGLES = (0, 90, 180, 270)
"""Degrees, counter-clockwise."""

_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def make_views(
    images: ImageSet, recipe: AugmentationRecipe, *, n: int | None = None, q: int = 10, seed: int = 0
) -> ImageSet:
    """q random views (at least 2) of each of n images, drawn by seed, or of all: n * q RGB images of recipe.size_px.

    Labels are the numbers of the source images, 0 to n - 1, and classes their names. A view depends on the seed, the
    name of the image, the number of the view and the recipe alone; more images or views of one seed include the fewer.
    """
    if not is_whole(q, 2):
        raise QueryError(
            f"{q!r} views of each image of {images.name!r} were asked for; expected at least q=2, for views of one "
            "image are compared with each other."
        )
    chosen = images.subset(draw_image_positions(images, n, seed=seed), split=images.split)
    # splits of the vocabulary of results: views as in pretraining, or alike for every encoder
    how = "pretraining-augmented" if recipe.is_of_card else "augmented"
    return ImageSet(
        name=images.name,
        split=f"{images.split} {how}",
        images=LazyImages(
            ViewReader(chosen.images, int(q), partial(_view, chosen.names, recipe, int(seed))),
            np.arange(len(chosen) * q),
        ),
        labels=np.repeat(np.arange(len(chosen)), q).astype(np.int64),
        classes=tuple(chosen.names),
        names=[f"{name}#view{view}" for name in chosen.names for view in range(q)],
        fingerprint=compute_digest([DRAWING, chosen.fingerprint, recipe.fingerprint_text, str(int(seed)), str(int(q))]),
    )


def make_rotations(images: ImageSet, *, n: int | None = None, seed: int = 0) -> ImageSet:
    """Each of n images, drawn by seed, or of all, turned counter-clockwise by 0, 90, 180 and 270 degrees: n * 4 images.

    They are turned before any resize; labels are 0 to 3, the number of quarter turns.

    >>> from zoo.datasets import digits_data
    >>> turned = make_rotations(digits_data().val, n=5)
    >>> len(turned), turned.labels[:5].tolist(), turned.split
    (20, [0, 1, 2, 3, 0], 'val rotated')
    """
    chosen = images.subset(draw_image_positions(images, n, seed=seed), split=images.split)
    return ImageSet(
        name=images.name,
        split=f"{images.split} rotated",
        images=LazyImages(ViewReader(chosen.images, len(ANGLES), _turned), np.arange(len(chosen) * len(ANGLES))),
        labels=np.tile(np.arange(len(ANGLES)), len(chosen)).astype(np.int64),
        classes=tuple(f"{angle} degrees" for angle in ANGLES),
        names=[f"{name}#{angle}" for name in chosen.names for angle in ANGLES],
        fingerprint=compute_digest(["rotations-1", chosen.fingerprint]),
    )


def build_view_preprocess(card: EncoderCard) -> Steps:
    """From a view to an encoder's input, float32 (3, px, px): its preprocessing without resize and crop."""
    about = card.preprocess
    normalize = NormalizeStep(mean=list(about.mean), std=list(about.std))
    return Steps([RGB(is_squashed=True), TensorStep(), normalize, *make_channel_reorder(about.channels)])


class ViewReader:
    """From i q + j to view j of image i, which ``view`` makes of the image, i and j; worker processes unpickle it.

    Remembers the last source image, for its views are asked for one after the other.
    """

    def __init__(self, sources: Sequence[Image.Image], q: int, view: Callable[[Image.Image, int, int], Any]) -> None:
        self.sources, self.q, self.view = sources, q, view
        self._last: tuple[int, Image.Image] | None = None

    def __call__(self, number: int) -> Image.Image:
        index, view = divmod(number, self.q)
        last = self._last  # read once, for another thread may change it
        if last is None or last[0] != index:
            self._last = last = (index, self.sources[index])
        return cast(Image.Image, self.view(last[1], index, view))

    def __reduce__(self) -> tuple[type[ViewReader], tuple[object, ...]]:
        return ViewReader, (self.sources, self.q, self.view)


def _view(
    names: Sequence[str], recipe: AugmentationRecipe, seed: int, image: Image.Image, index: int, view: int
) -> Image.Image:
    return augment_image(image, recipe, seed=seed, name=names[index], view=view)


def _turned(image: Image.Image, index: int, turns: int) -> Image.Image:
    turn = _TURNS[turns]
    return image if turn is None else image.transpose(turn)
