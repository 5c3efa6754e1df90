"""Random choices among many operations on pixels: RandAugment, and PIRL's photometric transformations."""

from __future__ import annotations

from collections.abc import Callable

from ..optional import requires_extra
from .masks import Uniform

with requires_extra("models", needed_for="Augmenting images"):
    from PIL import Image
    from torchvision.transforms.v2 import functional as F  # noqa: N812

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
