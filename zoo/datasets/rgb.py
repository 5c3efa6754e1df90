"""From an image of any kind to an encoder's input: 8-bit RGB, upright, resized, cropped, and as numbers.

Nothing of the zoo is imported when this file is run, for a pickled step carries its text: worker processes that are
started afresh unpickle it without the zoo, which under ``torch.hub`` they could not import.

The steps do to an image of Pillow what those of torchvision with the same names do, to the last bit; torchvision
itself, with its operators and torch's compiler, takes as long to import as torch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import numpy as np
    from PIL import Image, ImageColor
except ModuleNotFoundError as error:
    from ..errors import MissingExtra

    raise MissingExtra(str(error.name), extra="models", needed_for="Working with images") from error

if TYPE_CHECKING:
    from torch import Tensor

Scale = tuple[float, float]
"""Which values are black and white."""

WHITE, DROP = "white", "drop"
"""What transparent pixels are shown over by default; and that they are shown as if they were opaque."""

_DEEP_MODES = ("I;16", "I;16B", "I;16L", "I;16N", "I", "F")
_KEYED_MODES = ("1", "L", "RGB", *_DEEP_MODES)  # in which a PNG names one shade or colour that is transparent
_ALPHA_MODES = ("LA", "La", "PA", "RGBA", "RGBa")
_ORIENTATION_TAG, _BITS_TAG, _PHOTOMETRIC_TAG = 0x112, 258, 262  # of EXIF, and of TIFF
_WHITE_IS_ZERO = 0
_METADATA = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")  # where an orientation may be
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ARRAY_TURNS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda rows: rows[:, ::-1],
    3: lambda rows: rows[::-1, ::-1],
    4: lambda rows: rows[::-1],
    5: lambda rows: rows.swapaxes(0, 1),
    6: lambda rows: np.rot90(rows, -1),
    7: lambda rows: rows[::-1, ::-1].swapaxes(0, 1),
    8: lambda rows: np.rot90(rows, 1),
}
_EXTREME_RATIO = 16  # length over width; more of an image, resized, would be cut away, and may not fit in memory

REMEDY = "say which values are black and white, as in zoo.datasets.rgb.to_rgb(image, scale=({low}, {high}))"


class ValueKind(NamedTuple):
    """The kind of the values of an image of more than 8 bits per channel."""

    kind: str  # "16-bit integers", "floating point", ...
    range: Scale | None  # black and white; None where they do not follow from the kind
    is_inverted: bool = False  # the lowest value is white


def to_rgb(image: Image.Image | np.ndarray, *, scale: Scale | None = None, background: str = WHITE) -> Image.Image:
    """An image as an encoder gets it: 8-bit RGB, upright as its EXIF orientation says, transparent parts over white.

    Images of 8 bits per channel are converted as Pillow does. Unsigned integers of 16 bits (12 in a TIFF of 12 bits)
    keep their high 8 bits, as in 16-bit colour files that Pillow reads; floating point from 0 to 1 is rounded to 255
    steps. A TIFF whose lowest value is white is inverted. Alpha that is opaque everywhere changes nothing.

    Parameters
    ----------
    image : PIL image or array
        Arrays have the shape (height, width) or (height, width, channels) with 1, 3 or 4 channels, and the types bool,
        uint8, uint16 or floating point from 0 to 1. The fourth channel is alpha, from 0 to the largest value of the
        type, or 1.
    scale : (float, float), optional
        The values that are black and white, for images and arrays of more than 8 bits per channel; what lies outside
        becomes black or white. With it, integers of any type are taken.
    background : str
        The colour that transparent parts are shown over, as :func:`PIL.ImageColor.getrgb` takes it, or "drop".

    Raises
    ------
    DataError, QueryError
        If it is none of these, the scale is not two numbers or the background no colour: a ValueError in a process that
        cannot import the zoo.

    >>> np.asarray(to_rgb(np.array([[0, 30000, 65535]], np.uint16)))[0, :, 0].tolist()
    [0, 117, 255]
    >>> np.asarray(to_rgb(np.array([[-1000.0, 200.0, 3000.0]]), scale=(-1000, 1400)))[0, :, 0].tolist()
    [0, 128, 255]
    >>> np.asarray(to_rgb(np.array([[[0, 0, 0, 255], [0, 0, 0, 0]]], np.uint8)))[0, :, 0].tolist()
    [0, 255]
    """
    scale = None if scale is None else check_scale(scale)
    upright = convert_to_8_bits(image, scale=scale, background=check_background(background))
    if upright.mode == "La":  # grey, premultiplied, which Pillow converts to this alone
        upright = upright.convert("LA")
    return upright if upright.mode == "RGB" else upright.convert("RGB")


def convert_to_8_bits(
    image: Image.Image | np.ndarray,
    *,
    scale: Scale | None = None,
    background: str = WHITE,
    name: str = "The image",
    remedy: str = REMEDY,
) -> Image.Image:
    """The image, upright, with 8 bits per channel and no transparent pixel, in any mode; unchanged if it is so already.

    ``name`` is that of the image in messages, ``remedy`` the advice on values without a range.
    """
    if isinstance(image, np.ndarray):
        return _of_array(image, scale, background, name, remedy)
    if not isinstance(image, Image.Image):
        raise _refused(
            f"{name} is a {type(image).__module__}.{type(image).__qualname__}; expected a PIL image, or an array of "
            "shape (height, width) or (height, width, channels): a tensor becomes an image with "
            "torchvision.transforms.functional.to_pil_image."
        )
    image.load()  # metadata may be behind the pixels
    upright, orientation, values, alpha = image, read_orientation(image), infer_value_kind(image), extract_alpha(image)
    if values is not None:
        pixels = scale_to_8_bits(np.asarray(image), values, scale=scale, name=name, remedy=remedy)
        upright = Image.fromarray(255 - pixels if values.is_inverted else pixels)
    if alpha is not None:
        upright = _flat(upright, alpha, background)
    if orientation in _TURNS:
        upright = upright.transpose(_TURNS[orientation])
        for key in _METADATA:  # or it would be turned again
            upright.info.pop(key, None)
    return upright


def read_orientation(image: Image.Image) -> int:
    """The orientation by EXIF or XMP, from 1 (upright) to 8; 1 if they cannot be read.

    Pillow turns the images of TIFF files itself when it reads their pixels; from then on it is 1.
    """
    try:
        tag = Image.Image.getexif(image).get(_ORIENTATION_TAG, 1)  # that of PNG files would read the pixels first
    except (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, struct.error):
        return 1  # Pillow raises these on damaged metadata, which say nothing about the pixels
    return tag if isinstance(tag, int) and tag in _TURNS else 1


def can_be_transparent(image: Image.Image) -> bool:
    """Whether the head of an image says that pixels may be transparent, which its pixels may not be.

    A transparent shade or colour counts only in an image that comes from a file: Pillow leaves one behind where it
    converts a palette, and opaque pixels may have the same colour.
    """
    if image.mode in _KEYED_MODES:
        key = image.info.get("transparency")
        return image.format is not None and isinstance(key, tuple if image.mode == "RGB" else int)
    return image.mode in _ALPHA_MODES or (image.mode == "P" and image.has_transparency_data)


def extract_alpha(image: Image.Image) -> Image.Image | None:
    """The alpha of an image whose pixels are read, of mode L; None if all of them are opaque."""
    if not can_be_transparent(image):
        return None
    if image.mode in _KEYED_MODES:
        pixels, key = (
            np.asarray(image.convert("L") if image.mode == "1" else image),
            np.array(image.info["transparency"]),
        )
        if image.mode == "RGB":
            key = key >> 8 if key.max() > 255 else key  # of 16 bits, of which Pillow keeps the high 8
            hidden = (pixels == key).all(axis=2)
        else:
            hidden = pixels == key
        alpha = Image.fromarray(np.where(hidden, 0, 255).astype(np.uint8))
    else:
        with_band = image.convert("RGBA") if image.mode == "P" else image
        alpha = with_band.getchannel(with_band.getbands()[-1])
    return None if alpha.getextrema()[0] == 255 else alpha


def extract_array_alpha(array: np.ndarray, *, name: str = "The image") -> np.ndarray | None:
    """The alpha of an array with four channels, uint8 (height, width); None if it has none, or is opaque everywhere."""
    if array.ndim != 3 or array.shape[2] != 4:
        return None
    alpha, values = array[..., 3], infer_array_value_kind(array.dtype)
    if values is not None:
        most = 1.0 if array.dtype.kind == "f" else int(np.iinfo(array.dtype).max)
        alpha = scale_to_8_bits(np.clip(alpha, 0, most), ValueKind(values.kind, (0, most)), name=name)
    return None if alpha.min() == 255 else alpha


def infer_value_kind(image: Image.Image) -> ValueKind | None:
    """The kind of the values of an image of more than 8 bits per channel; None of others.

    16-bit colour counts as 8 bits, for Pillow reads the high 8 of them.
    """
    if image.mode not in _DEEP_MODES:
        return None
    tags = getattr(image, "tag_v2", {})  # of a TIFF
    is_inverted = tags.get(_PHOTOMETRIC_TAG) == _WHITE_IS_ZERO
    if image.mode == "F":
        return ValueKind("floating point", (0.0, 1.0), is_inverted)
    bits = int(tags.get(_BITS_TAG, (16,))[0])
    if image.mode == "I" and image.format not in ("PNG", "PPM"):  # what these call I has 16 bits and no sign
        return ValueKind("signed 16-bit integers" if tags and bits == 16 else "32-bit integers", None, is_inverted)
    return ValueKind(f"{bits}-bit integers", (0, 2**bits - 1), is_inverted)


def scale_to_8_bits(
    array: np.ndarray, values: ValueKind, *, scale: Scale | None = None, name: str = "The image", remedy: str = REMEDY
) -> np.ndarray:
    """Grey levels or colours of an array of more than 8 bits, uint8 of the same shape; not inverted.

    Values that are not numbers are refused, and without a scale values without a range or outside it.
    """
    n_missing = int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0
    if n_missing:
        raise _refused(
            f"{name} has {n_missing:,} of {array.size:,} values that are not a number; expected numbers: replace them, "
            "as with numpy.nan_to_num."
        )
    if scale is not None:
        low, high = check_scale(scale)
        share = np.clip((array.astype(np.float64) - low) / (high - low), 0, 1)
        return np.asarray(np.rint(share * 255).astype(np.uint8))
    is_floating = array.dtype.kind == "f"
    outside = values.range is None or (is_floating and array.size and (array.min() < 0 or array.max() > 1))
    if values.range is None or outside:
        first, last = (_plain(end) for end in (array.min(), array.max())) if array.size else ("0", "1")
        raise _refused(
            f"{name} has {values.kind} from {first} to {last}; expected unsigned integers of 8 or 16 bits, or "
            f"floating point from 0 to 1: {remedy.format(low=first, high=last)}."
        )
    if is_floating:
        return np.asarray(np.rint(array * array.dtype.type(255)).astype(np.uint8))
    n_low_bits = int(values.range[1]).bit_length() - 8
    return np.asarray(np.minimum(array >> n_low_bits, 255).astype(np.uint8))


def infer_array_value_kind(dtype: np.dtype[Any]) -> ValueKind | None:
    """The kind of the values of an array of this type; None for uint8 and bool. Other than real numbers are refused."""
    if dtype in (np.uint8, np.bool_):
        return None
    if dtype.kind == "f":
        return ValueKind("floating point", (0.0, 1.0))
    if dtype.kind not in "iu":
        raise _refused(f"Got an array of {dtype}; expected uint8, uint16, or floating point from 0 to 1.")
    if dtype.kind == "u" and dtype.itemsize == 2:
        return ValueKind("16-bit integers", (0, 65535))
    signed = "signed " * (dtype.kind == "i")
    return ValueKind(f"{signed}{8 * dtype.itemsize}-bit integers", None)


def check_scale(scale: Scale) -> Scale:
    """The scale as two finite numbers, the first below the second; anything else is refused as a QueryError."""
    try:
        low, high = (float(end) for end in scale)
    except (TypeError, ValueError):
        low, high = 0.0, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        sentence = f"The scale is {scale!r}; expected two numbers (LOW, HIGH) with LOW below HIGH, as (0, 4095)."
        raise _refused(sentence, kind="QueryError")
    return low, high


def check_background(background: str) -> str:
    """ "drop", "white", or another colour as #rrggbb; what is no opaque colour is refused as a QueryError.

    >>> check_background("#FFF"), check_background("black")
    ('white', '#000000')
    """
    if background == DROP:
        return DROP
    try:
        red, green, blue, alpha = (*ImageColor.getrgb(background), 255)[:4]
    except (ValueError, AttributeError, TypeError):
        alpha = 0
    if alpha < 255:
        sentence = f"The background is {background!r}; expected a colour, as white or '#808080', or drop."
        raise _refused(sentence, kind="QueryError")
    return WHITE if (red, green, blue) == (255, 255, 255) else f"#{red:02x}{green:02x}{blue:02x}"


def apply_orientation(array: np.ndarray, orientation: int) -> np.ndarray:
    """Rows and columns of a stored array, shape (height, width, ...), turned as an EXIF orientation says."""
    return array if orientation == 1 else np.ascontiguousarray(_ARRAY_TURNS[orientation](array))


def crop_extreme_ratio(image: Image.Image) -> Image.Image:
    """The middle of an extremely long image, which is more than a resize and centre crop leave; others unchanged."""
    width, height = image.size
    cut = (max(width, height) - _EXTREME_RATIO * min(width, height)) // 2
    if cut <= 0:
        return image
    return image.crop((0, cut, width, height - cut) if width < height else (cut, 0, width - cut, height))


class ImageStep:
    """A step of a preprocessing, as it is pickled: with the text of this file."""

    def __reduce__(self) -> tuple[Any, ...]:
        """The text of this file, for there may be no zoo where it is unpickled."""
        text = globals().get("_TEXT") or Path(__file__).read_text(encoding="utf-8")
        return eval, (_UNPICKLE, {"text": text, "kind": type(self).__name__, "options": vars(self)})


class RGB(ImageStep):
    """First step of a preprocessing: :func:`to_rgb`, then :func:`crop_extreme_ratio` for what follows.

    Where the resize squashes the image into a square, nothing of it is cut away.
    """

    def __init__(self, *, is_squashed: bool = False) -> None:
        self.is_squashed = is_squashed

    def __call__(self, image: Image.Image | np.ndarray) -> Image.Image:
        upright = to_rgb(image)
        return upright if self.is_squashed else crop_extreme_ratio(upright)

    def __repr__(self) -> str:
        """Enters the hash of a preprocessing, as the reprs of all steps do."""
        return "RGB()"


class ResizeStep(ImageStep):
    """Pillow's resize: of the shorter side to a number of pixels, or of height and width to two."""

    def __init__(self, size: int | tuple[int, int], *, interpolation: str = "bilinear") -> None:
        self.size, self.interpolation = size, interpolation

    def __call__(self, image: Image.Image) -> Image.Image:
        if isinstance(self.size, tuple):
            height, width = self.size
        else:
            short, long = sorted(image.size)
            rest = int(self.size * long / short)
            width, height = (self.size, rest) if image.width <= image.height else (rest, self.size)
        if image.size == (width, height):
            return image
        return image.resize((width, height), Image.Resampling[self.interpolation.upper()])

    def __repr__(self) -> str:
        return f"Resize(size={self.size}, interpolation={self.interpolation}, max_size=None, antialias=True)"


class CropStep(ImageStep):
    """The middle of an image, padded with black where it is smaller.

    The first pixel of an odd rest is rounded half to even, as by torchvision, or with ``rounds_down`` as by
    transformers.
    """

    def __init__(self, size: tuple[int, int], *, rounds_down: bool = False) -> None:
        self.size, self.rounds_down = size, rounds_down  # height, width

    def __call__(self, image: Any) -> Any:
        """Of an image of Pillow, or of a tensor (..., height, width)."""
        is_tensor = not isinstance(image, Image.Image)
        shape = image.shape[-2:] if is_tensor else (image.height, image.width)
        top, left = (self._begin(side, px) for side, px in zip(shape, self.size, strict=True))
        bottom, right = top + self.size[0], left + self.size[1]
        if not is_tensor:
            return image.crop((left, top, right, bottom))
        from torch.nn.functional import pad  # which cuts where a number is negative

        return pad(image, (-left, right - shape[1], -top, bottom - shape[0]))

    def _begin(self, side: int, px: int) -> int:
        if self.rounds_down:
            return int((side - px) / 2)
        return round((side - px) / 2) if side >= px else -((px - side) // 2)

    def __repr__(self) -> str:
        return f"{'CentreCrop' if self.rounds_down else 'CenterCrop'}(size={self.size})"


class TensorStep(ImageStep):
    """From an RGB image to a tensor float32 (3, height, width) in [0, 1]."""

    def __call__(self, image: Image.Image) -> Tensor:
        import torch

        pixels = torch.from_numpy(np.array(image, np.uint8))  # (height, width, 3)
        return pixels.permute(2, 0, 1).contiguous().to(torch.get_default_dtype()).div(255)

    def __repr__(self) -> str:
        return "ToTensor()"


class NormalizeStep(ImageStep):
    """Less the mean and over the standard deviation of each channel, of a tensor (3, height, width)."""

    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, pixels: Tensor) -> Tensor:
        import torch

        mean, std = (torch.as_tensor(one, dtype=pixels.dtype)[:, None, None] for one in (self.mean, self.std))
        return (pixels - mean).div_(std)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


def make_channel_reorder(channels: str) -> list[itemgetter[Any]]:
    """The last step of a preprocessing whose channels are not red, green and blue; workers unpickle it."""
    return [itemgetter([2, 1, 0])] if channels == "BGR" else []


class Steps(ImageStep):
    """Steps one after the other, in ``transforms`` as torchvision's ``Compose`` has them."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for step in self.transforms:
            image = step(image)
        return image

    def __repr__(self) -> str:
        return "\n".join(["Compose(", *(f"    {step}" for step in self.transforms), ")"])


_UNPICKLE = """(
    exec(text, names := {"__name__": "zoo.datasets.rgb", "__package__": "zoo.datasets", "_TEXT": text})
    or names[kind](**options)
)"""


def _of_array(array: np.ndarray, scale: Scale | None, background: str, name: str, remedy: str) -> Image.Image:
    flat = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if 0 in flat.shape or not (flat.ndim == 2 or (flat.ndim == 3 and flat.shape[2] in (3, 4))):
        hint = ""
        if array.ndim == 3 and array.shape[0] in (1, 3, 4):
            hint = "; move the channels to the end with .transpose(1, 2, 0)"
        raise _refused(
            f"{name} is an array of shape {array.shape}; expected (height, width) or (height, width, channels) with 1, "
            f"3 or 4 channels{hint}."
        )
    colours, alpha, values = (
        flat[..., :3] if flat.ndim == 3 else flat,
        extract_array_alpha(flat, name=name),
        infer_array_value_kind(flat.dtype),
    )
    if values is not None:
        colours = scale_to_8_bits(colours, values, scale=scale, name=name, remedy=remedy)
    image = Image.fromarray(np.ascontiguousarray(colours))
    return image if alpha is None else _flat(image, Image.fromarray(np.ascontiguousarray(alpha)), background)


def _flat(image: Image.Image, alpha: Image.Image, background: str) -> Image.Image:
    """The colours of an image over a background, of mode RGB."""
    if image.mode in ("La", "P"):  # which Pillow does not convert, or warns of
        image = image.convert("LA" if image.mode == "La" else "RGBA")
    colours = image.convert("RGB")
    if background != DROP:
        colours = Image.composite(colours, Image.new("RGB", image.size, background), alpha)
    colours.info.pop("transparency", None)  # or it would be looked for again
    return colours


def _plain(value: Any) -> str:
    """A number for a sentence and for a command line."""
    return f"{value:d}" if np.asarray(value).dtype.kind in "iu" else f"{float(value):.6g}"


def _refused(sentence: str, *, kind: str = "DataError") -> ValueError:
    try:
        from .. import errors
    except ImportError:  # unpickled where there is no zoo
        return ValueError(sentence)
    error: ValueError = getattr(errors, kind)(sentence)
    return error
