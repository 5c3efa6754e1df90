"""DICOM files as 8-bit images, through pydicom."""

from __future__ import annotations

import struct
import warnings
from typing import Any

from ..errors import DataError
from ..optional import require_extra
from .bands import COLOURS
from .rgb import Scale, ValueKind, scale_to_8_bits

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

with require_extra("dicom", needed_for="Reading DICOM files (or convert them to 16-bit PNG first)"):
    from pydicom import dcmread, pixel_array
    from pydicom.errors import InvalidDicomError
    from pydicom.pixels import processing
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import RLELossless

warnings.filterwarnings("ignore", module=r"pydicom\.", append=True)  # odd metadata; what does not decode raises

READING_ERRORS = (  # of pydicom on damaged files, and where it has no library to decompress one
    *(InvalidDicomError, OSError, EOFError, AttributeError, LookupError, ValueError, TypeError, NotImplementedError),
    *(RuntimeError, ArithmeticError, struct.error),
)


def read_dicom_head(path: str) -> tuple[dict[str, Any], bool, tuple[int, int]]:
    """What a head says of its image, whether a window is applied, and the sides, the shorter first; {} if damaged."""
    try:
        file = dcmread(path, stop_before_pixels=True)
        found: dict[str, Any] = {"has_frames": int(file.get("NumberOfFrames") or 1) > 1}
        low, high = sorted((int(file.Rows), int(file.Columns)))
        if file.PhotometricInterpretation == "PALETTE COLOR" or int(file.get("SamplesPerPixel", 1)) > 1:
            n_bits = _colour_bits(file)
            return found | {"values": f"{n_bits}-bit {COLOURS}" * (n_bits > 8)}, False, (low, high)
        n_windows = len(file.get("VOILUTSequence") or ()) or (file["WindowCenter"].VM if _has_window(file) else 0)
    except READING_ERRORS:  # said when it is asked for
        return {}, False, (0, 0)
    return found | {"remark": _MORE_WINDOWS * (n_windows > 1)}, n_windows > 0, (low, high)


_MORE_WINDOWS = "with several windows, of which the first is applied where --scale LOW,HIGH names no other"


def _has_window(file: Any) -> bool:
    return bool(file.get("VOILUTSequence")) or ("WindowCenter" in file and "WindowWidth" in file)


def _colour_bits(file: Any) -> int:
    """Bits of a colour of a file: of its palette, or of its pixels."""
    if file.PhotometricInterpretation != "PALETTE COLOR":
        return int(file.BitsStored)
    tables = [file.get(f"{colour}PaletteColorLookupTableData") for colour in ("Red", "Green", "Blue")]
    n_bits = int(file.RedPaletteColorLookupTableDescriptor[2])
    # some files say 16 bits of entries that have 8
    is_small = all(table and np.frombuffer(table, "<u2").max() < 256 for table in tables)
    return 8 if n_bits == 16 and is_small else n_bits


def read_dicom_image(path: str, *, scale: Scale | None, name: str, remedy: str) -> Image.Image:
    """The first frame of a file, grey or RGB: rescaled, through its window, MONOCHROME1 inverted; or in its colours.

    Without a window, black and white are the ends of the range that its bits allow, rescaled. A scale replaces the
    window, in rescaled values; MONOCHROME1 is inverted all the same. ``name`` and ``remedy`` are for messages; the
    image's ``info["window"]`` is True if a window was applied. Values without a range are refused without a scale.
    """
    file = dcmread(path)
    syntax = file.file_meta.TransferSyntaxUID
    try:
        is_readable = not syntax.is_compressed or get_decoder(syntax).is_available
    except NotImplementedError:  # pydicom has none, whatever is installed
        is_readable = False
    if not is_readable:
        raise DataError(
            f"{name} is compressed as {syntax.name}, for which no library is installed; run: pip install pylibjpeg "
            "pylibjpeg-libjpeg, or decompress the files first, as with gdcmconv --raw."
        )
    n_below = int(file.get("HighBit") or 0) + 1 - int(file.get("BitsStored") or 64)
    is_stored = not syntax.is_compressed or syntax == RLELossless  # bits where HighBit says, as other codecs have not
    if n_below > 0 and is_stored:  # as the standard once allowed; pydicom would cut off the upper bits
        raise DataError(
            f"{name} keeps its values of {file.BitsStored} bits above {n_below} others (HighBit is {file.HighBit}); "
            f"expected {file.BitsStored - 1}: move its values down by {n_below} bits, and write it again."
        )
    stored = pixel_array(file, index=0)  # (h, w) or (h, w, 3)
    kind = str(file.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        stored = processing.apply_color_lut(stored, file)
    if stored.ndim == 3:
        return Image.fromarray(_eight_bits(stored, _colour_bits(file), scale, name, remedy))
    values = processing.apply_modality_lut(stored, file)
    has_window = _has_window(file)
    ends = None if scale else _rescaled_ends(file)
    black_and_white = scale or (ends and (min(ends), max(ends)))
    if has_window and scale is None:
        values, black_and_white = _windowed(values, file, ends), (0.0, 1.0)
    grey = scale_to_8_bits(values, ValueKind("DICOM values", None), scale=black_and_white, name=name, remedy=remedy)
    image = Image.fromarray(255 - grey if kind == "MONOCHROME1" else grey)
    image.info["window"] = has_window and scale is None
    return image


def _windowed(values: np.ndarray, file: Any, ends: Scale | None) -> np.ndarray:
    """Values through the first window or table of a file, from 0, black, to 1, white."""
    if tables := file.get("VOILUTSequence"):
        return _tabled(values, tables[0], is_little_endian=file.file_meta.TransferSyntaxUID.is_little_endian)
    if ends is None:
        raise ValueError("it has a window, and does not say of how many bits its values are")
    return np.asarray((processing.apply_windowing(values, file) - ends[0]) / (ends[1] - ends[0]))


def _tabled(values: np.ndarray, table: Any, *, is_little_endian: bool) -> np.ndarray:
    """Values through a table of shades; not by pydicom 3.0, which counts the entries in 8 bits if shades have 8."""
    n, first, n_bits = (int(number) for number in table.LUTDescriptor)
    n = n or 1 << 16
    entries = table.LUTData
    if isinstance(entries, bytes):
        is_packed = n_bits == 8 and len(entries) < 2 * n
        entries = np.frombuffer(entries, "u1" if is_packed else "<u2" if is_little_endian else ">u2")
    entries = np.asarray(entries)
    if len(entries) < n:
        raise ValueError(f"its table of shades has {len(entries)} entries, expected {n}")
    return np.asarray(entries[np.clip(np.rint(values).astype(np.int64) - first, 0, n - 1)] / (2**n_bits - 1))


def _rescaled_ends(file: Any) -> Scale | None:
    """The ends of the range of a file's bits, rescaled: a negative slope exchanges them; None where it does not say."""
    if file.get("ModalityLUTSequence"):
        return 0, 2 ** int(file.ModalityLUTSequence[0].LUTDescriptor[2]) - 1
    if file.get("BitsStored") is None:
        return None
    n_bits, is_signed = int(file.BitsStored), int(file.get("PixelRepresentation", 0)) == 1
    ends = (-(2 ** (n_bits - 1)), 2 ** (n_bits - 1) - 1) if is_signed else (0, 2**n_bits - 1)
    slope, intercept = float(file.get("RescaleSlope", 1)), float(file.get("RescaleIntercept", 0))
    return ends[0] * slope + intercept, ends[1] * slope + intercept


def _eight_bits(colours: np.ndarray, n_bits: int, scale: Scale | None, name: str, remedy: str) -> np.ndarray:
    if colours.dtype.kind == "u" and n_bits == 8:
        return colours.astype(np.uint8)
    if colours.dtype.kind != "u" or n_bits < 8:
        raise DataError(f"{name} holds DICOM colours as {colours.dtype} of {n_bits} bits; expected unsigned integers.")
    return scale_to_8_bits(
        colours, ValueKind(f"{n_bits}-bit {COLOURS}", (0, 2**n_bits - 1)), scale=scale, name=name, remedy=remedy
    )
