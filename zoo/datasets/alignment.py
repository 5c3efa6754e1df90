"""From a map to the pixels of an encoder's input: the same places as the image's, and no value that is not measured."""

from __future__ import annotations

from functools import lru_cache

from ..errors import DataError
from ..metadata import Preprocess
from ..optional import requires_extra

with requires_extra("models", needed_for="Preprocessing images"):
    import numpy as np
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import functional


def aligned(values: np.ndarray, valid: np.ndarray, preprocess: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    """A map on the grid of an encoder's input.

    The geometry is that of :func:`zoo.preprocess.build_preprocess`: the shorter side becomes ``resize_px``, the centre
    is cropped, and what is smaller than the crop is padded. Each pixel takes the value of the map's pixel that its
    centre falls into, none is blended: directions keep their length, and no depth lies between an object and what is
    behind it.

    Parameters
    ----------
    values : float array, shape (height, width, channels)
    valid : bool array, shape (height, width)
    preprocess : Preprocess
        ``card.preprocess`` of the encoder.

    Returns
    -------
    values : float32 array, shape (channels, crop_px, crop_px)
        0 where not valid.
    valid : bool array, shape (crop_px, crop_px)
        False in the padding, too.

    Raises
    ------
    DataError
        If the shapes do not fit each other.

    >>> ramp, everywhere = np.arange(8.0).reshape(2, 4, 1), np.ones((2, 4), bool)
    >>> about = Preprocess(resize_px=2, crop_px=2, interpolation="bilinear", mean=(0, 0, 0), std=(1, 1, 1))
    >>> aligned(ramp, everywhere, about)[0].tolist()
    [[[1.0, 2.0], [5.0, 6.0]]]
    """
    if values.ndim != 3 or valid.shape != values.shape[:2] or valid.dtype != np.bool_:
        raise DataError(
            f"A map has values of shape {values.shape} and valid pixels as {valid.dtype} of shape {valid.shape}; "
            "expected (height, width, channels) and bool (height, width)."
        )
    height, width, n_channels = values.shape
    taken = _taken(height, width, preprocess.resize_px, preprocess.crop_px)  # (px, px)
    found_valid = valid.reshape(-1)[taken] & (taken >= 0)
    found = values.reshape(-1, n_channels)[taken].astype(np.float32)  # (px, px, c)
    found[~found_valid] = 0
    return np.ascontiguousarray(found.transpose(2, 0, 1)), found_valid


@lru_cache(maxsize=16)
def _taken(height: int, width: int, resize_px: int, crop_px: int) -> np.ndarray:
    """The number of the map's pixel for each pixel of the input, int64 (crop_px, crop_px); -1 in the padding.

    Torchvision moves a row and a column whose pixels are their own numbers from 1 on, so that its rounding is ours.
    """
    short, long = min(height, width), max(height, width)
    resized = {long: int(resize_px * long / short), short: resize_px}  # px of each side, as torchvision rounds it

    def moved(side: int) -> np.ndarray:
        numbers = Image.fromarray(np.arange(1, side + 1, dtype=np.int32)[:, None])
        column = functional.resize(numbers, [resized[side], 1], transforms.InterpolationMode.NEAREST_EXACT)
        return np.asarray(functional.center_crop(column, [crop_px, 1]))[:, 0].astype(np.int64) - 1  # padded with 0

    rows, columns = moved(height)[:, None], moved(width)[None, :]
    taken = np.where((rows >= 0) & (columns >= 0), rows * width + columns, -1)
    taken.setflags(write=False)
    return taken
