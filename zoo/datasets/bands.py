"""Images that Pillow refuses, misreads or narrows: TIFF of other bands and types, 16-bit colours, FITS with an offset.

:func:`open_image` is ``PIL.Image.open`` for all sources. Where Pillow does right it returns what Pillow does; else a
:class:`BandImage`, which tifffile or imagecodecs read, or whose values this module corrects. What a file does not say,
such as which of five bands are red, green and blue, is not guessed.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..files import require_regular
from ..optional import require_extra
from .rgb import Scale, ValueKind, apply_orientation, infer_array_value_kind, read_orientation

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image, ImageFile, UnidentifiedImageError

if TYPE_CHECKING:
    Source = str | os.PathLike[str] | IO[bytes]

COLOURS = "colours"
"""Ends the kind of values of colours with more than 8 bits per channel, of which Pillow keeps the high 8."""

_ORIENTATION, _BITS, _PHOTOMETRIC, _N_SAMPLES, _PLANES, _EXTRA_SAMPLES, _FORMAT = 274, 258, 262, 277, 284, 338, 339
_GREY, _RGB, _SEPARATE, _SIGNED, _UNSIGNED = (0, 1), 2, 2, 2, 1  # of these tags
_WHITE_IS_ZERO, _ASSOCIATED, _ALPHA = 0, 1, (1, 2)
_TIFF_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_DEEP = f"16-bit {COLOURS}"
_MORE = "with {} bands, of which red, green and blue are shown"
_IN_ORDER = "with 3 bands that are not said to be colours, shown as red, green and blue in their order"
_FITS_CARD, _FITS_BLOCK = 80, 2880  # bytes
_FITS_TYPES = {"8 0": "u1", "8 -128": "i1", "16 0": "i2", "16 32768": "u2", "32 0": "i4", "32 2147483648": "u4"}
_HEIF_META = 1 << 16  # bytes in which HEIF says how an image is turned


class BandImage:
    """An image as an array, (height, width[, 3 or 4]), with what is used of one that Pillow has opened."""

    format, mode = "TIFF", ""
    info: dict[str, Any] = {}  # noqa: RUF012

    def __init__(
        self, file: IO[bytes], read: Callable[[], np.ndarray], values: ValueKind | None, size: tuple[int, int]
    ) -> None:
        self.file, self.read, self.values, self.remark, self.reader = file, read, values, "", "tifffile"
        self.orientation, self.has_frames, self.has_alpha, self.array = 1, False, False, np.zeros(0)
        self.width, self.height = size
        if Image.MAX_IMAGE_PIXELS is not None and self.width * self.height > 2 * Image.MAX_IMAGE_PIXELS:
            sentence = f"Image size ({self.width * self.height} pixels) exceeds limit"
            raise Image.DecompressionBombError(sentence)

    def __enter__(self) -> BandImage:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def load(self) -> None:
        """Reads the pixels, upright; what the libraries raise on damaged files becomes an OSError."""
        if not self.array.size:
            try:
                self.array = apply_orientation(self.read(), self.orientation)
            except (RuntimeError, ImportError) as error:  # of imagecodecs, and where it lacks a codec
                raise OSError(f"{error}") from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.load()
        return self.array


def open_image(source: Source, scale: Scale | None = None) -> ImageFile.ImageFile | BandImage:
    """As ``PIL.Image.open``, or a BandImage: of 16-bit colours only with a scale, for else their high byte is shown.

    HEIC files of which EXIF alone says that they are turned have that orientation again, which pillow-heif hides.
    """
    if isinstance(source, str | os.PathLike):
        require_regular(source)
    try:
        opened = Image.open(source)
    except UnidentifiedImageError:
        encoded = _bytes_of(source)
        if not encoded.startswith(_TIFF_MARKS):
            raise
        return _tiff(io.BytesIO(encoded))
    assert opened.fp is not None  # of an image that was just opened
    if opened.format == "HEIF" and (turn := opened.info.get("original_orientation")):
        opened.fp.seek(0)
        head = opened.fp.read(_HEIF_META)
        if b"irot" not in head and b"imir" not in head:  # which libheif obeys
            opened.getexif()[_ORIENTATION] = turn
    if opened.format == "FITS":
        return _fits(opened)
    kind, _, is_misread = detect_pillow_narrowing(opened)
    if opened.format == "TIFF" and (is_misread or (kind and scale is not None)):
        return _tiff(opened.fp)
    return _png(opened, ValueKind(kind, (0, 65535))) if kind and scale is not None else opened


def _bytes_of(source: Source) -> bytes:
    if isinstance(source, str | os.PathLike):
        return Path(source).read_bytes()
    source.seek(0)
    return source.read()


def require_libraries() -> None:
    """MissingExtra where the libraries are not installed that read colours of 16 bits."""
    with require_extra("tiff", needed_for="A scale of 16-bit colours"):
        import imagecodecs  # noqa: F401
        import tifffile  # noqa: F401


def detect_pillow_narrowing(opened: ImageFile.ImageFile) -> tuple[str, str, bool]:
    """What Pillow makes less of in a PNG or TIFF: the kind of values of 16-bit colours, bands, and if it misreads them.

    It would scramble planes of 16 bits, wrap values below 0 or from 2^31 on, and take a further band for alpha or the
    first for all.
    """
    tags = getattr(opened, "tag_v2", {})
    if opened.format != "TIFF":
        is_deep = opened.format == "PNG" and any(str(tile[3]).endswith(";16B") for tile in opened.tile)
        is_deep |= opened.format == "PPM" and any(tile[3] == ("RGB", 65535) for tile in opened.tile)
        return _DEEP * (is_deep and opened.mode in ("RGB", "RGBA", "LA")), "", False
    bits, n, extra = tags.get(_BITS, (1,)), tags.get(_N_SAMPLES, 1), tags.get(_EXTRA_SAMPLES, ())
    photometric, is_deep = tags.get(_PHOTOMETRIC), max(bits) > 8
    has_more = photometric == _RGB and n > 3 and not {*extra[:1]} & {*_ALPHA}
    is_misread = (
        (max(bits) == 8 and _SIGNED in tags.get(_FORMAT, ()))
        or (max(bits) == 32 and n == 1 and tags.get(_FORMAT, (_UNSIGNED,))[0] == _UNSIGNED)
        or (photometric in _GREY and n > 1 and not {*extra[:1]} & {*_ALPHA})
        or (has_more and not extra)
        or (photometric == _RGB and is_deep and tags.get(_PLANES) == _SEPARATE)
    )
    is_deep = is_deep and n > 1 and opened.mode in ("RGB", "RGBA")
    return _DEEP * is_deep, _MORE.format(n) * has_more, is_misread


def _tiff(file: IO[bytes]) -> BandImage:
    """The first page of a TIFF; refuses bands that are not grey, or red, green and blue, each maybe with alpha."""
    with require_extra("tiff", needed_for="This TIFF image"):
        import tifffile
    file.seek(0)
    opened: Any = tifffile.TiffFile(file)
    page = opened.pages[0]
    n, dtype, bits = int(page.samplesperpixel), np.dtype(page.dtype or "V"), int(page.bitspersample)
    alpha = next((kind for kind in page.extrasamples[:1] if kind in _ALPHA), None)
    is_rgb = page.photometric == _RGB
    n_colours = 3 if is_rgb or n == 3 else 1
    is_plain = page.photometric in (*_GREY, _RGB) and page.axes in ("YX", "YXS", "SYX") and dtype.kind in "buif"
    if not is_plain or (n_colours == 1 and n > 1 + (alpha is not None)):
        bands = "1 band" if n == 1 else f"{n} bands"
        raise UnidentifiedImageError(
            f"it holds {bands} of {page.dtype} of the kind {page.photometric.name}, which do not say how they are "
            "shown; expected grey, or red, green and blue: keep those, as with gdal_translate -b 1 -b 2 -b 3"
        )
    values = infer_array_value_kind(dtype)
    if values is not None and dtype.kind == "u" and bits <= 16:
        values = ValueKind(f"{bits}-bit {COLOURS if n > 1 else 'integers'}", (0, 2**bits - 1))
    most = 255 if values is None or values.range is None else values.range[1]

    def read() -> np.ndarray:
        pixels = np.asarray(page.asarray())
        pixels = np.moveaxis(pixels, 0, -1) if page.axes == "SYX" else pixels
        pixels = pixels if n == 1 else pixels[..., : n_colours + (alpha is not None)]
        if alpha == _ASSOCIATED:  # colours were multiplied by it
            share = np.maximum(pixels[..., -1:] / most, 1e-6)
            pixels = np.dstack([np.minimum(pixels[..., :-1] / share, most).astype(dtype), pixels[..., -1:]])
        return _in_colours(np.asarray(most - pixels, dtype) if page.photometric == _WHITE_IS_ZERO else pixels)

    found = BandImage(file, read, values, (int(page.imagewidth), int(page.imagelength)))
    found.remark = _MORE.format(n) if n > 3 and alpha is None else _IN_ORDER * (n == 3 and not is_rgb)
    found.orientation = next((tag.value for tag in [page.tags.get(_ORIENTATION)] if tag and tag.value in range(9)), 1)
    found.has_frames, found.has_alpha = len(opened.pages) > 1, alpha is not None
    return found


def _fits(opened: ImageFile.ImageFile) -> BandImage:
    """A FITS image with the values that its header means, BZERO + BSCALE * stored, of which Pillow reads the stored.

    Integers of 16 bits are signed, unless BZERO is 32,768; those that BLANK says are missing. Cubes, of which Pillow
    shows one plane, and tables are refused.
    """
    assert opened.fp is not None
    opened.fp.seek(0)
    head = opened.fp.read(opened.tile[0][2]).decode("latin-1")
    cards = [head[i : i + _FITS_CARD] for i in range(0, len(head), _FITS_CARD)]
    # of a compressed image, ZBITPIX is the BITPIX of what is compressed
    fields = {card[:8].strip().removeprefix("Z"): card[10:].partition("/")[0] for card in cards if card[8:9] == "="}
    said = {name: value for name, value in fields.items() if value.strip()}  # a value may be left undefined

    def number(name: str, default: float) -> float:
        return float(said.get(name, str(default)).replace("D", "E"))

    if "TABLE" in said.get("XTENSION", "") and opened.tile[0][0] == "raw":  # whose bytes Pillow takes for pixels
        raise UnidentifiedImageError("it holds a table, which may be a compressed image: unpack it, as with funpack")
    n_planes = math.prod(int(number(f"NAXIS{i}", 1)) for i in range(3, 1 + int(number("NAXIS", 2))))
    if n_planes > 1:
        raise UnidentifiedImageError(
            f"it holds {n_planes} planes, which do not say how they are shown; expected one: write it, "
            "as with astropy.io.fits.writeto(name, planes[0])"
        )
    bits, zero, scale = int(number("BITPIX", 8)), number("BZERO", 0), number("BSCALE", 1)
    blank = number("BLANK", math.nan) if bits > 0 else math.nan  # floating point has a value of its own for it
    dtype = np.dtype(_FITS_TYPES.get(f"{bits} {zero:.0f}" if zero.is_integer() and scale == 1 else "", "f8"))

    def read() -> np.ndarray:
        opened.load()
        stored = np.asarray(opened)
        stored = stored.astype(np.uint16).view(np.int16) if bits == 16 else stored
        values = np.asarray((stored * np.float64(scale) + zero).astype(dtype))
        is_missing = stored == blank
        return np.where(is_missing, np.nan, values) if is_missing.any() else values

    n_bytes = opened.width * opened.height * abs(bits) // 8
    opened.fp.seek(opened.tile[0][2] + -(-n_bytes // _FITS_BLOCK) * _FITS_BLOCK)
    found = BandImage(opened.fp, read, infer_array_value_kind(dtype), opened.size)
    found.has_frames = opened.fp.read(_FITS_CARD).startswith(b"XTENSION= 'IMAGE ")
    found.format, found.reader = "FITS", "the header of FITS"
    return found


def _png(opened: ImageFile.ImageFile, values: ValueKind) -> BandImage:
    """A PNG in all of its 16 bits."""
    if opened.format != "PNG":
        raise UnidentifiedImageError(f"colours of 16 bits cannot be scaled in {opened.format} files: convert to PNG")
    require_libraries()
    import imagecodecs

    assert opened.fp is not None
    encoded = _bytes_of(opened.fp)
    opened.load()  # metadata may be behind the pixels
    found = BandImage(
        io.BytesIO(), lambda: _in_colours(np.asarray(imagecodecs.png_decode(encoded))), values, opened.size
    )
    found.orientation = read_orientation(opened)
    return found


def _in_colours(pixels: np.ndarray) -> np.ndarray:
    """Grey with alpha, (height, width, 2), as colours with alpha; others as they are."""
    return pixels[..., [0, 0, 0, 1]] if pixels.shape[2:] == (2,) else pixels
