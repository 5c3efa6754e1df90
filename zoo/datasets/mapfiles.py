"""One map of depth or normals from a png, npy or npz file."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

from ..errors import DataError
from ..optional import requires_extra
from .imagefiles import DECODING_ERRORS, reason_of
from .maps import CHANNELS

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

MAP_SUFFIXES = (".npy", ".npz", ".png")

SHORTEST = 0.1
"""Length from which on three numbers are a direction; a mean of opposite ones, or grey, is none."""

_ARRAY_ERRORS = (
    OSError, ValueError, KeyError, EOFError, TypeError, SyntaxError, NotImplementedError, RuntimeError, MemoryError,
    struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What numpy's readers are known to raise on damaged files."""


def read_map(path: str, *, task: str, shown: str) -> tuple[np.ndarray, np.ndarray]:
    """Values and valid pixels of a file.

    Depth: a grey png of 8 or 16 bits, whose values stay as they are stored and are missing where they are 0 or the
    largest of the type; an array of whole numbers likewise; or an array of floating point, missing where it is not
    finite. Of shape (height, width) or (height, width, 1).

    Normals: an RGB png of 8 bits, v / 255 * 2 - 1, missing where it is black; an array of uint8 likewise; or an array
    of floating point, missing where it is not finite. Of shape (height, width, 3); missing where shorter than 0.1,
    and brought to length 1 elsewhere.

    An npz file holds one array, or several of which one has the name of the task. Nothing is ever unpickled.

    Parameters
    ----------
    path : str
    task : str
        "depth" or "normals".
    shown : str
        What messages call the map, such as "The depth map 'depth/1.png' of 'rooms'".

    Returns
    -------
    values : float32 array, shape (height, width, channels)
        0 where not valid.
    valid : bool array, shape (height, width)

    Raises
    ------
    DataError
        If the file cannot be read, holds something else, or no pixel is valid; names it.
    """
    stored = _pixels(path, task, shown) if path.lower().endswith(".png") else _array(path, task, shown)
    values, valid = _depth(stored) if task == "depth" else _normals(stored)
    if not valid.any():
        what = "0, the largest of its type or not finite" if task == "depth" else "black, not finite or of no direction"
        raise DataError(f"{shown} has no valid pixel, for all are {what}; remove it and its image, or store others.")
    return values, valid


def _pixels(path: str, task: str, shown: str) -> np.ndarray:
    """Uint8 or uint16, of a shape that fits the task."""
    try:
        with Image.open(path, formats=("PNG",)) as opened:
            opened.load()
            image = opened
    except DECODING_ERRORS as error:
        raise _unreadable(shown, reason_of(error)) from error
    bands = f"{len(image.getbands())} channel{'s' * (len(image.getbands()) > 1)} (mode {image.mode})"
    if task == "normals":
        if image.mode != "RGB":
            raise DataError(f"{shown} has {bands}; expected RGB of 8 bits: save it again so.")
        return np.asarray(image)
    if image.mode == "L":
        return np.asarray(image)
    if image.mode not in ("I;16", "I;16B", "I"):  # "I" is what an older Pillow makes of 16 bits
        raise DataError(f"{shown} has {bands}; expected one, grey of 8 or 16 bits: save it again so.")
    return np.asarray(image).astype(np.uint16)


def _array(path: str, task: str, shown: str) -> np.ndarray:
    """Whole numbers or floating point, of a shape that fits the task."""
    try:
        with open(path, "rb") as file:  # numpy leaves its own open where an archive is damaged
            opened = np.load(file, allow_pickle=False)
            archive = isinstance(opened, np.lib.npyio.NpzFile)
            stored: object = opened[_key(opened.files, task, shown)] if archive else opened
    except DataError:
        raise
    except _ARRAY_ERRORS as error:
        told = "it holds Python objects, which are never unpickled, or no array" if "pickle" in str(error) else None
        raise _unreadable(shown, told or reason_of(error)) from error
    if not isinstance(stored, np.ndarray):  # a file in the archive that is no array comes as bytes
        raise _unreadable(shown, "it holds no array")
    _require_fit(stored, task, shown)
    return stored[..., 0] if task == "depth" and stored.ndim == 3 else stored


def _key(keys: list[str], task: str, shown: str) -> str:
    if task in keys:
        return task
    if len(keys) == 1:
        return keys[0]
    held = ", ".join(sorted(keys)) or "no array"
    raise DataError(f"{shown} holds {held}; expected one array, or one of them named {task!r}.")


def _require_fit(stored: np.ndarray, task: str, shown: str) -> None:
    n = CHANNELS[task]
    fits = (stored.ndim == 3 and stored.shape[2] == n) or (n == 1 and stored.ndim == 2)
    kinds = stored.dtype.kind in "iuf" if task == "depth" else stored.dtype.kind == "f" or stored.dtype == np.uint8
    if fits and kinds and 0 not in stored.shape:
        return
    shape = "(height, width) or (height, width, 1)" if n == 1 else "(height, width, 3)"
    types = "floating point or whole numbers" if n == 1 else "floating point or uint8"
    hint = ""
    if kinds and not fits and stored.ndim == 3 and stored.shape[0] == n:
        hint = "; move the channels to the end with .transpose(1, 2, 0)"
    raise DataError(f"{shown} is {stored.dtype} of shape {stored.shape}; expected {types} of shape {shape}{hint}.")


def _depth(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):  # what float32 cannot hold is missing
        values = stored.astype(np.float32)  # (h, w)
    floating = stored.dtype.kind == "f"
    valid = np.isfinite(values) if floating else (stored != 0) & (stored != np.iinfo(stored.dtype).max)
    values[~valid] = 0
    return values[:, :, None], valid


def _normals(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    coded = stored.dtype == np.uint8
    vectors = stored.astype(np.float64)  # (h, w, 3)
    if coded:
        vectors = vectors / 255 * 2 - 1
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt((vectors**2).sum(axis=2))  # (h, w)
        valid = np.isfinite(lengths) & (lengths >= SHORTEST)
    if coded:
        valid &= stored.any(axis=2)
    values = np.zeros(vectors.shape, np.float32)
    values[valid] = vectors[valid] / lengths[valid][:, None]
    return values, valid


def _unreadable(shown: str, reason: str) -> DataError:
    return DataError(f"{shown} cannot be read ({reason}); restore it, or remove it and its image.")
