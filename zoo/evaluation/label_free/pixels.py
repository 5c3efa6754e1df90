"""Small images as numbers, for metrics that look at pixels beside features."""

from __future__ import annotations

from ...datasets import ImageSet
from ...metadata import Preprocess
from ...optional import requires_extra
from ...rgb import RGB

with requires_extra("models", needed_for="Metrics of pixels"):
    import numpy as np
    from torchvision import transforms

LARGEST_PX = 64


def pixels_of_images(images: ImageSet, preprocess: Preprocess, *, largest_px: int = LARGEST_PX) -> np.ndarray:
    """What an encoder is shown of each image, made small.

    Parameters
    ----------
    images : ImageSet
        n images of any mode and size.
    preprocess : Preprocess
        Of the encoder's card: its resize and centre crop come first.
    largest_px : int
        Side of the result, unless the encoder's input is smaller.

    Returns
    -------
    float32 array, shape (n, 3, px, px)
        In [0, 1].

    Raises
    ------
    CorruptImage
        If an image cannot be read.

    Examples
    --------
    >>> from zoo.cards import catalogue
    >>> from zoo.datasets import digits_data
    >>> pixels_of_images(digits_data().val, catalogue()["pocket_init_rn"].preprocess).shape
    (451, 3, 32, 32)
    """
    px = min(largest_px, preprocess.crop_px)
    shown = transforms.Compose(
        [
            RGB(preprocess.resize_px, preprocess.crop_px, preprocess.interpolation),
            transforms.Resize(
                preprocess.resize_px, interpolation=transforms.InterpolationMode(preprocess.interpolation)
            ),
            transforms.CenterCrop(preprocess.crop_px),
            transforms.Resize(px),
        ]
    )
    found = np.empty((len(images), 3, px, px), np.float32)
    for place, image in enumerate(images.images):
        found[place] = np.asarray(shown(image), np.float32).transpose(2, 0, 1) / 255
    return found
