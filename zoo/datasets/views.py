"""Several views of each image as an image set: random augmentations by a recipe, or quarter turns.

A set of views is an image set like any other, whose images are made when they are asked for: it goes through an
encoder, in worker processes or not, and its features are kept and found again. Row i q + j is view j of image i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b

from ..cards.schema import EncoderCard
from ..errors import QueryError
from ..optional import requires_extra
from .images import ImageSet, LazyImages, digest
from .recipes import WORDS, Masking, Recipe
from .rgb import narrowed, to_rgb
from .subsets import checked_seed, uniform_draws

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image, ImageFilter
    from torchvision import transforms
    from torchvision.transforms import InterpolationMode, v2
    from torchvision.transforms.v2 import functional as F  # noqa: N812

Uniform = Callable[[int], np.ndarray]
"""From a number n to n draws in [0, 1), the same whenever it is asked."""

_BLOCK_RATIO = (0.3, 1 / 0.3)  # BEiT, arXiv:2106.08254, Algorithm 1
_SMALLEST_BLOCK = 16 / 196  # share of the patches, likewise
_MASK_ATTEMPTS = 100
_CONTEXT, _TARGET, _TARGET_RATIO, _N_TARGETS = (0.85, 1.0), (0.15, 0.2), (0.75, 1.5), 4  # I-JEPA, Appendix A


def hidden_patches(masking: Masking, n_rows: int, n_columns: int, uniform: Uniform) -> np.ndarray:
    """True where a patch is hidden, bool (n_rows, n_columns); at least one patch stays.

    >>> int(hidden_patches(Masking(share=0.75), 4, 4, lambda n: np.linspace(0, 0.9, n)).sum())
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
    """Rectangles one after the other, as long as they hide no more than the share."""
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
    """True where the encoder sees something."""
    draws = uniform(4 * (1 + _N_TARGETS)).reshape(-1, 4).tolist()
    n = n_rows * n_columns
    size, _, top, left = draws[0]
    seen = np.zeros((n_rows, n_columns), bool)
    seen[_block(n_rows, n_columns, n * _between(_CONTEXT, size), 1.0, top, left)] = True
    size, ratio = draws[1][:2]  # one size for the four targets of an image
    for _, _, top, left in draws[1:]:
        area = n * _between(_TARGET, size)
        seen[_block(n_rows, n_columns, area, _between(_TARGET_RATIO, ratio), top, left)] = False
    return seen


def _block(n_rows: int, n_columns: int, area: float, ratio: float, top: float, left: float) -> tuple[slice, slice]:
    """A rectangle of so many patches, height over width as said, somewhere in the image."""
    height = min(n_rows, max(1, round(math.sqrt(area * ratio))))
    width = min(n_columns, max(1, round(math.sqrt(area / ratio))))
    first_row, first_column = int(top * (n_rows - height + 1)), int(left * (n_columns - width + 1))
    return slice(first_row, first_row + height), slice(first_column, first_column + width)


def _between(ends: tuple[float, float], draw: float, *, logarithmic: bool = False) -> float:
    low, high = ends
    return low * (high / low) ** draw if logarithmic else low + (high - low) * draw


Fill = tuple[int, int, int]

_SCALE = 10.0  # of magnitudes
_N_OPERATIONS, _PROBABILITY, _SPREAD = 2, 0.5, 0.5  # operations a view, of each of them, deviation of magnitudes


def random_policy(image: Image.Image, magnitude: float, uniform: Uniform, *, fill: Fill) -> Image.Image:
    """Two of fifteen operations, each with probability one half: RandAugment (arXiv:1909.13719) as in timm.

    Parameters
    ----------
    image : PIL image
        RGB.
    magnitude : float
        0 to 10; each operation draws its own around it, with deviation 0.5.
    uniform : callable
        Source of draws, whose first is not used.
    fill : tuple of int
        Colour of what comes from outside the image.
    """
    draws = uniform(1 + 8 * _N_OPERATIONS)[1:].reshape(_N_OPERATIONS, 8).tolist()
    for which, whether, sign, *summands in draws:
        if whether >= _PROBABILITY:
            continue
        noise = (sum(summands) - len(summands) / 2) * (12 / len(summands)) ** 0.5  # mean 0, variance 1, nearly normal
        level = min(max(magnitude + _SPREAD * noise, 0.0), _SCALE) / _SCALE
        image = _OPERATIONS[int(which * len(_OPERATIONS))](image, level, -1.0 if sign < 0.5 else 1.0, fill)
    return image


def photometric(image: Image.Image, uniform: Uniform) -> Image.Image:
    """Fewer levels, another sharpness, solarised from some level on, full contrast: as VISSL does for PIRL."""
    _, levels, sharpness, threshold = uniform(4).tolist()
    found = F.posterize(image, 4 + int(5 * levels))
    found = F.adjust_sharpness(found, 0.1 + 1.8 * sharpness)
    found = F.solarize(found, int(257 * threshold))
    stretched: Image.Image = F.autocontrast(found)
    return stretched


def _moved(image: Image.Image, matrix: tuple[float, ...], fill: Fill) -> Image.Image:
    """Each pixel of the result comes from where the affine map sends it."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


def _shifted_levels(image: Image.Image, n_levels: int) -> Image.Image:
    """Dark pixels brighter by so many levels."""
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
)  # by level in [0, 1] and a direction


DRAWING = "views-1"
"""Name of the way from a seed to views; part of their fingerprints, and new whenever a pixel would change."""

_STREAM = 7_020  # keeps these draws apart from all others of a seed
_NUMBERS = {word: number for number, word in enumerate(sorted(WORDS))}
_CROP_ATTEMPTS = 10  # of a crop that lies within the image, as in torchvision's RandomResizedCrop


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
    for area, ratio, down, across in uniform(4 * _CROP_ATTEMPTS).reshape(-1, 4).tolist():
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


ANGLES = (0, 90, 180, 270)
"""Degrees, against the clock."""

_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def views_of(images: ImageSet, recipe: Recipe, *, n: int | None = None, q: int = 10, seed: int = 0) -> ImageSet:
    """q random views of each of n images.

    Parameters
    ----------
    images : ImageSet
    recipe : Recipe
        From :func:`zoo.datasets.recipes.recipe_of`.
    n : int, optional
        How many images, drawn by seed; all of them by default. More images of one seed hold the fewer.
    q : int
        Views of each, at least 2; more views of one seed hold the fewer.
    seed : int

    Returns
    -------
    ImageSet
        n * q RGB images of recipe.size_px; labels are the numbers of the source images, 0 to n - 1, and classes their
        names. A view depends on the seed, the name of the image, its own number and the recipe alone.

    Raises
    ------
    QueryError
        If there are fewer than n images, or q is below 2.
    DataError
        If the seed is none.
    """
    if isinstance(q, bool) or not isinstance(q, int | np.integer) or q < 2:
        raise QueryError(
            f"{q!r} views of each image of {images.name!r} were asked for; expected at least q=2, for views of one "
            "image are compared with each other."
        )
    chosen = images.subset(drawn_images(images, n, seed=seed), split=images.split)
    # as the vocabulary of results has it: views as in pretraining, or alike for every encoder
    how = "pretraining-augmented" if recipe.is_own else "augmented"
    return ImageSet(
        name=images.name,
        split=f"{images.split} {how}",
        images=LazyImages(
            ViewReader(chosen.images, chosen.names, recipe, int(q), int(seed)), np.arange(len(chosen) * q)
        ),
        labels=np.repeat(np.arange(len(chosen)), q).astype(np.int64),
        classes=tuple(chosen.names),
        names=[f"{name}#view{view}" for name in chosen.names for view in range(q)],
        fingerprint=digest([DRAWING, chosen.fingerprint, recipe.fingerprint_text, str(int(seed)), str(int(q))]),
    )


def rotations_of(images: ImageSet, *, n: int | None = None, seed: int = 0) -> ImageSet:
    """Each of n images turned by 0, 90, 180 and 270 degrees against the clock, before any resize.

    Parameters
    ----------
    images : ImageSet
    n : int, optional
        How many images, drawn by seed; all of them by default.
    seed : int

    Returns
    -------
    ImageSet
        n * 4 images; labels are 0 to 3, the number of quarter turns.

    Raises
    ------
    QueryError
        If there are fewer than n images.
    DataError
        If the seed is none.

    Examples
    --------
    >>> from zoo.datasets import digits_data
    >>> turned = rotations_of(digits_data().val, n=5)
    >>> len(turned), turned.labels[:5].tolist(), turned.split
    (20, [0, 1, 2, 3, 0], 'val rotated')
    """
    chosen = images.subset(drawn_images(images, n, seed=seed), split=images.split)
    return ImageSet(
        name=images.name,
        split=f"{images.split} rotated",
        images=LazyImages(TurnReader(chosen.images), np.arange(len(chosen) * len(ANGLES))),
        labels=np.tile(np.arange(len(ANGLES)), len(chosen)).astype(np.int64),
        classes=tuple(f"{angle} degrees" for angle in ANGLES),
        names=[f"{name}#{angle}" for name in chosen.names for angle in ANGLES],
        fingerprint=digest(["rotations-1", chosen.fingerprint]),
    )


def drawn_images(images: ImageSet, n: int | None, *, seed: int = 0) -> np.ndarray:
    """Positions of n images, int64, ascending: those whose names have the lowest hashes under a seed.

    Raises
    ------
    QueryError
        If there are fewer.
    DataError
        If the seed is none.
    """
    checked_seed(seed)
    n_there = len(images)
    if n is None:
        return np.arange(n_there)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= n_there:
        raise QueryError(
            f"{n!r} images of {images.name!r} ({images.split}) were asked for, which has {n_there:,}; expected 1 to "
            f"{n_there:,}."
        )
    if n == n_there:
        return np.arange(n_there)
    key = str(int(seed)).encode()
    ranks = np.array([_rank(name, key) for name in images.names], np.uint64)
    return np.sort(np.argsort(ranks, kind="stable")[:n]).astype(np.int64)


def view_preprocess(card: EncoderCard) -> transforms.Compose:
    """From a view to an encoder's input: its preprocessing without resize and crop, which views have behind them.

    Parameters
    ----------
    card : EncoderCard

    Returns
    -------
    torchvision.transforms.Compose
        A PIL image -> float32 tensor (3, px, px), normalised as the card says; of torchvision's classes alone.
    """
    about = card.preprocess
    return transforms.Compose(
        [v2.RGB(), transforms.ToTensor(), transforms.Normalize(mean=list(about.mean), std=list(about.std))]
    )


class _Reader:
    """Reads source images; keeps the last one, for its views are asked for one after the other."""

    def __init__(self, sources: Sequence[Image.Image]) -> None:
        self.sources = sources
        self._last: tuple[int, Image.Image] | None = None

    def source(self, index: int) -> Image.Image:
        last = self._last  # one look, for another thread may read, too
        if last is None or last[0] != index:
            last = (index, self.sources[index])
            self._last = last
        return last[1]


class ViewReader(_Reader):
    """From i q + j to view j of image i; a class so that worker processes can unpickle it."""

    def __init__(self, sources: Sequence[Image.Image], names: Sequence[str], recipe: Recipe, q: int, seed: int) -> None:
        super().__init__(sources)
        self.names, self.recipe, self.q, self.seed = names, recipe, q, seed

    def __call__(self, number: int) -> Image.Image:
        index, view = divmod(number, self.q)
        return augmented(self.source(index), self.recipe, seed=self.seed, name=self.names[index], view=view)

    def __reduce__(self) -> tuple[type[ViewReader], tuple[object, ...]]:
        return ViewReader, (self.sources, self.names, self.recipe, self.q, self.seed)


class TurnReader(_Reader):
    """From 4 i + j to image i after j quarter turns."""

    def __call__(self, number: int) -> Image.Image:
        index, turns = divmod(number, len(ANGLES))
        source, turn = self.source(index), _TURNS[turns]
        return source if turn is None else source.transpose(turn)

    def __reduce__(self) -> tuple[type[TurnReader], tuple[object, ...]]:
        return TurnReader, (self.sources,)


def _rank(name: str, key: bytes) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8, key=key).digest(), "big")
