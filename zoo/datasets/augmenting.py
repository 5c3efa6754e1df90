"""One augmented view of one image, by a recipe; torchvision and Pillow do the work on pixels.

The random numbers of a view belong to the seed, the name of the image, the number of the view and the augmentation.
They depend neither on other images nor on the order in which views are asked for nor on who asks, and without one of
its augmentations a recipe draws the same numbers for all others.
"""

from __future__ import annotations

import math
from hashlib import blake2b

from ..optional import requires_extra
from ..rgb import narrowed, to_rgb
from .augmentations import WORDS, Recipe
from .draws import uniform_draws
from .masks import Uniform, hidden_patches
from .policies import photometric, random_policy

with requires_extra("models", needed_for="Augmenting images"):
    import numpy as np
    from PIL import Image, ImageFilter
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as F  # noqa: N812

DRAWING = "views-1"
"""Name of the way from a seed to views; part of their fingerprints, and new whenever a pixel would change."""

_STREAM = 7_020  # keeps these draws apart from all others of a seed
_NUMBERS = {word: number for number, word in enumerate(sorted(WORDS))}
_N_ATTEMPTS = 10  # of a crop that lies within the image, as in torchvision's RandomResizedCrop


def augmented(image: Image.Image, recipe: Recipe, *, seed: int, name: str, view: int) -> Image.Image:
    """One view of an image.

    Parameters
    ----------
    image : PIL image
        Of any mode and size.
    recipe : Recipe
    seed : int
    name : str
        Of the image in its set.
    view : int
        Number of the view, from 0 on.

    Returns
    -------
    PIL image
        RGB, (recipe.size_px, recipe.size_px).
    """
    made, strengths = recipe.augmentations, recipe.strengths
    named = int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")

    def uniform(word: str) -> Uniform:
        return lambda n: uniform_draws((_STREAM, seed, named, view, _NUMBERS[word]), n)

    found = to_rgb(image)
    if "crop" not in made or strengths.resizes_first:
        found = _resized(found, recipe)
    if "crop" in made:
        found = _cropped(found, recipe, uniform("crop"))
    if "flip" in made and _happens(uniform("flip"), strengths.flip_probability):
        found = F.horizontal_flip(found)
    if "rotate" in made:
        found = F.rotate(found, strengths.rotation_degrees * (2 * float(uniform("rotate")(1)[0]) - 1))
    if "autoaugment" in made:
        draws = uniform("autoaugment")
        if _happens(draws, strengths.policy_probability):
            found = random_policy(found, strengths.policy_magnitude, draws, fill=recipe.mean_colour)
    if "color" in made:
        found = _jittered(found, recipe, uniform("color"))
    if "photometric" in made and _happens(uniform("photometric"), strengths.photometric_probability):
        found = photometric(found, uniform("photometric"))
    if "gray" in made and _happens(uniform("gray"), strengths.gray_probability):
        found = F.rgb_to_grayscale(found, num_output_channels=3)
    if "blur" in made and _happens(uniform("blur"), _in_turn(strengths.blur_probability, view)):
        low, high = strengths.blur_sigma_px
        sigma_px = low + (high - low) * float(uniform("blur")(2)[1])
        found = found.filter(ImageFilter.GaussianBlur(sigma_px))  # as MoCo, DINO and VICReg do, and ten times faster
    if "solarize" in made and _happens(uniform("solarize"), _in_turn(strengths.solarize_probability, view)):
        found = F.solarize(found, strengths.solarize_threshold)
    if "erasing" in made and _happens(uniform("erasing"), strengths.erasing_probability):
        found = _erased(found, recipe, uniform("erasing"))
    if "masking" in made and _happens(uniform("masking"), strengths.masking.probability):
        found = _masked(found, recipe, uniform("masking"))
    return found


def _happens(uniform: Uniform, probability: float) -> bool:
    """The first draw of an augmentation says whether it is made at all."""
    return bool(uniform(1)[0] < probability)


def _in_turn(probabilities: tuple[float, ...], view: int) -> float:
    return probabilities[view % len(probabilities)]


def _resized(image: Image.Image, recipe: Recipe) -> Image.Image:
    """What the encoder's own preprocessing would show it."""
    middle = narrowed(image, recipe.resize_px, recipe.size_px, recipe.resize_interpolation)
    resized = F.resize(middle, [recipe.resize_px], interpolation=InterpolationMode(recipe.resize_interpolation))
    found: Image.Image = F.center_crop(resized, [recipe.size_px, recipe.size_px])
    return found


def _cropped(image: Image.Image, recipe: Recipe, uniform: Uniform) -> Image.Image:
    strengths, (width, height) = recipe.strengths, image.size
    top, left, rows, columns = _window(width, height, recipe, uniform)
    found: Image.Image = F.resized_crop(
        image, top, left, rows, columns, [recipe.size_px, recipe.size_px],
        interpolation=InterpolationMode(strengths.interpolation), antialias=True,
    )  # fmt: skip
    return found


def _window(width: int, height: int, recipe: Recipe, uniform: Uniform) -> tuple[int, int, int, int]:
    """Top, left, height and width of a crop: the first of ten that lies within the image, else the middle of it."""
    (small, large), (narrow, wide) = recipe.strengths.crop_scale, recipe.strengths.crop_ratio
    for area, ratio, down, across in uniform(4 * _N_ATTEMPTS).reshape(-1, 4).tolist():
        n_pixels = width * height * (small + (large - small) * area)
        chosen = narrow * (wide / narrow) ** ratio
        columns, rows = round(math.sqrt(n_pixels * chosen)), round(math.sqrt(n_pixels / chosen))
        if 0 < columns <= width and 0 < rows <= height:
            return int(down * (height - rows + 1)), int(across * (width - columns + 1)), rows, columns
    within = min(max(width / height, narrow), wide)
    columns, rows = min(width, round(height * within)), min(height, round(width / within))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _jittered(image: Image.Image, recipe: Recipe, uniform: Uniform) -> Image.Image:
    draws = uniform(9)
    if draws[0] >= recipe.strengths.jitter_probability:
        return image
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


def _erased(image: Image.Image, recipe: Recipe, uniform: Uniform) -> Image.Image:
    """A rectangle of 2 % to a third of the area without its pixels, as in Random Erasing, arXiv:1708.04896."""
    _, area, ratio, down, across = uniform(5).tolist()
    n_pixels, chosen = recipe.size_px**2 * (0.02 + (1 / 3 - 0.02) * area), 0.3 * (1 / 0.09) ** ratio
    columns = min(recipe.size_px, max(1, round(math.sqrt(n_pixels * chosen))))
    rows = min(recipe.size_px, max(1, round(math.sqrt(n_pixels / chosen))))
    top, left = int(down * (recipe.size_px - rows + 1)), int(across * (recipe.size_px - columns + 1))
    found = image.copy()
    found.paste(recipe.mean_colour, (left, top, left + columns, top + rows))
    return found


def _masked(image: Image.Image, recipe: Recipe, uniform: Uniform) -> Image.Image:
    n = -(-recipe.size_px // recipe.patch_size_px)
    hidden = hidden_patches(recipe.strengths.masking, n, n, lambda k: uniform(k + 1)[1:])
    pixels = np.array(image)  # (px, px, 3)
    whole = np.kron(hidden, np.ones((recipe.patch_size_px,) * 2, bool))[: recipe.size_px, : recipe.size_px]
    pixels[whole.astype(bool)] = recipe.mean_colour
    return Image.fromarray(pixels)
