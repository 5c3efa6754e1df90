"""Image files: which files are images, their metadata, and how they become upright images of 8 bits per channel.

Every source of images reads through :func:`read_image` or :func:`convert_opened_image`. When a source is opened, the
heads of its files are read: orientation, kind of values and transparency decide the pixels, so that they enter the
fingerprint of the images, and :mod:`zoo.datasets.notes` says them to users. What Pillow reads differs from machine to
machine, so that no message and no page lists :data:`SUFFIXES`.
"""

from __future__ import annotations

import math
import os
import re
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ..errors import CorruptImage, DataError, QueryError
from ..files import describe_irregular_file, map_in_threads, open_regular, require_regular
from ..optional import require_extra
from .bands import COLOURS, BandImage, detect_pillow_narrowing, open_image, require_libraries
from .rgb import (
    DROP,
    WHITE,
    Scale,
    can_be_transparent,
    check_background,
    check_scale,
    convert_to_8_bits,
    extract_alpha,
    extract_array_alpha,
    infer_array_value_kind,
    infer_value_kind,
    read_orientation,
)

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image, ImageFile

with suppress(ImportError):  # the extra heif
    from pillow_heif import register_heif_opener

    register_heif_opener()

if TYPE_CHECKING:
    from .bands import Source

# Odd metadata and large images do not matter to a probe: what does not decode raises, and so does a bomb of pixels.
# Once here, for a filter around each image is not safe with other threads; a filter of the user's comes first.
warnings.filterwarnings("ignore", module=r"PIL\.", append=True)

DECODING_ERRORS = (  # of Pillow's readers on damaged files
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, OverflowError, NotImplementedError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)

# Documents and videos, of which Pillow knows the head alone; stubs for data that other libraries read; and EPS, which
# is a program that Ghostscript runs.
_NO_PICTURES = ("BUFR", "EPS", "GRIB", "HDF5", "IPTC", "MPEG", "WMF")

DICOM_SUFFIXES = (".dcm", ".dicom")
SUFFIXES = tuple(
    sorted(
        {*DICOM_SUFFIXES, ".mpo"}  # which the reader of JPEG opens
        | {
            ending
            for ending, kind in Image.registered_extensions().items()
            if kind in Image.OPEN and kind not in _NO_PICTURES
        }
    )
)
"""Endings of files that are taken for images, in lower case."""

USUAL = "such as .jpg, .png, .tif, .webp or .dcm"  # for messages

_REMEDIES = {  # for images that cannot be read unless their ending is among the suffixes
    **dict.fromkeys((".heic", ".heif", ".hif"), "pip install pillow-heif"),
    ".avif": "pip install --upgrade pillow",
    **dict.fromkeys(
        (".arw", ".cr2", ".cr3", ".dng", ".emf", ".eps", ".exr", ".hdr", ".jxl", ".nef", ".orf", ".ps", ".raf", ".rw2"),
        "convert to PNG",
    ),
    **dict.fromkeys((".svg", ".wmf", ".xcf"), "convert to PNG"),
}

_OF_SYSTEMS = {  # names in lower case of what file servers, archives, systems and tools put next to images
    *("@eadir", "@recycle", "@recently-snapshot", "@tmp", "#recycle", "#snapshot", "lost+found"),
    *("__macosx", ".ds_store", ".trashes", ".spotlight-v100", ".fseventsd", "icon\r"),
    *("$recycle.bin", "system volume information", "thumbs.db", "ehthumbs.db", "desktop.ini"),
    *(".git", ".ipynb_checkpoints", "__pycache__"),
}
_MOST_SAID = 8  # kinds of files in a sentence

REMEDY = "say which values are black and white with --scale {low},{high}, or scale=({low}, {high}) in Python"

RULES = "images-1"
"""Name of the way from stored values and orientations to pixels; part of fingerprints where it matters."""

DICOM = "DICOM"  # as a kind of values
_OBJECT = re.compile(r" <[\w.]+ (?:object at 0x[0-9a-fA-F]+|name=.*)>")  # bytes or an open file, in messages of Pillow
_N_REFUSED = 2000  # the same where a scale is proposed, which must fit all of them
_LIKE_A_BAND = (
    "with a further band that is marked as alpha and mostly neither opaque nor transparent, as near infrared: "
    "--background drop shows the colours alone"
)
_LOSSY, _TAIL = ("JPEG", "MPO", "HEIF", "AVIF"), 1024
_ORIENTATION_TAG = 0x112
_N_SAMPLED, _N_VALUES = 32, 1 << 14  # images whose values are read; values of each that are counted
_NO_DATA = (-9999, -99999, -32768, float(np.finfo(np.float32).min))  # what stands for missing values in maps
_METADATA_CHUNKS = (b"eXIf", b"zTXt", b"tEXt", b"iTXt")  # of PNG, which may hold an orientation behind the pixels
_LATE_METADATA = (b"eXIf", b"zTXtRaw profile type exif", b"tEXtRaw profile type exif", b"iTXtXML:com.adobe.xmp")

_MOST_DEFLATED = 1032  # bytes that one byte of deflate can become

ARRAY_ERRORS = (  # of numpy's readers on damaged files
    *(OSError, ValueError, KeyError, EOFError, TypeError, SyntaxError, NotImplementedError, RuntimeError, MemoryError),
    *(tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)

Shape = tuple[int, int]
Opener = Callable[[int], ImageFile.ImageFile | BandImage]


def classify_hidden_name(name: str, *, is_folder: bool) -> str:
    """As what a hidden file or folder, or one of a system, is counted; "" if it is neither."""
    slash = "/" * is_folder
    if name.lower() in _OF_SYSTEMS:
        return f"{name.strip()}{slash}"
    if name.startswith("._"):  # what macOS keeps next to a file
        return f"._*{slash}"
    return f"hidden{slash}" if name.startswith(".") else ""


def classify_odd_entry(entry: os.DirEntry[str]) -> str:
    """As what an entry of a folder is counted that is neither a regular file nor a folder; "" if it is one."""
    try:
        return "" if entry.is_dir() or entry.is_file() else describe_irregular_file(entry.path)
    except OSError:  # of a link that leads back to itself
        return describe_irregular_file(entry.path)


def select_image_names(names: Iterable[str], left_out: Counter[str], folder: str | os.PathLike[str] = "") -> list[str]:
    """Names of files that end like an image; the others are counted by their endings.

    Files of a ``folder`` without an ending, or that a scanner has numbered, are opened: DICOM files are images.
    """
    found = []
    for name in names:
        ending = os.path.splitext(name)[1].lower()
        is_usual = ending.isascii() and ending[1:].isalnum() and not ending[1:].isdecimal()
        path = os.path.join(folder, name) if folder and not is_usual else ""
        if name.lower().endswith(SUFFIXES) or (path and os.path.isfile(path) and is_dicom(path)):
            found.append(name)
        else:
            left_out[ending if is_usual else "other"] += 1
    return found


def require_held(path: str | os.PathLike[str]) -> None:
    """ValueError if an npy or npz file declares arrays of more bytes than are in it, for which memory would be taken.

    OSError if it is no regular file; anything but arrays is left to NumPy.
    """
    require_regular(path)
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            _require_held(file, os.path.getsize(path), "it")
        return
    with zipfile.ZipFile(path) as archive:
        for one in archive.infolist():
            most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _MOST_DEFLATED}.get(one.compress_type, math.inf)
            with archive.open(one) as member:
                _require_held(member, min(one.file_size, most * one.compress_size), one.filename)


def _require_held(file: IO[bytes], n_bytes: float, name: str) -> None:
    headers = {b"\1\0": np.lib.format.read_array_header_1_0, b"\2\0": np.lib.format.read_array_header_2_0}
    head = file.read(8)
    if head[:6] != b"\x93NUMPY" or head[6:] not in headers:
        return
    shape, _, dtype = headers[head[6:]](file)
    if not dtype.hasobject and (declared := math.prod(shape) * dtype.itemsize) > n_bytes:
        raise ValueError(f"{name} declares {declared:,} bytes of {dtype} and has at most {int(n_bytes):,}")


def find_remedy(path: str) -> str:
    """What helps against an image that cannot be read here; "" where that is not known."""
    ending = f".{path.lower().rpartition('.')[2]}"
    return "" if ending in SUFFIXES else _REMEDIES.get(ending, "")


def describe_left_out_files(left_out: Mapping[str, int]) -> str:
    """A sentence on files that were left out, images first; "" if there are none.

    >>> describe_left_out_files({".txt": 2, ".svg": 3, "@eaDir/": 1})
    '5 files and 1 folder were left out: 3 .svg (convert to PNG), 2 .txt, 1 @eaDir/'
    """
    if not left_out:
        return ""
    n_folders = sum(n for kind, n in left_out.items() if kind.endswith("/"))
    n_files = sum(left_out.values()) - n_folders
    counts = [f"{n:,} {what}{'s' * (n > 1)}" for n, what in ((n_files, "file"), (n_folders, "folder")) if n]
    kinds = sorted(left_out, key=lambda kind: (not find_remedy(kind), -left_out[kind], kind))
    said = [f"{left_out[kind]:,} {kind}" + f" ({find_remedy(kind)})" * bool(find_remedy(kind)) for kind in kinds]
    if len(said) > _MOST_SAID:
        said[_MOST_SAID:] = [f"{sum(left_out[kind] for kind in kinds[_MOST_SAID:]):,} more"]
    verb = "was" if n_files + n_folders == 1 else "were"
    return f"{' and '.join(counts)} {verb} left out: {', '.join(said)}"


class DisplayOptions(NamedTuple):
    """The name of an image set in messages, and how its images are shown."""

    image_set: str
    scale: Scale | None = None
    background: str = WHITE
    max_pixels: int | None = None  # of an image; None: as many as Pillow allows

    def open(self, source: Source) -> ImageFile.ImageFile | BandImage:
        """An image as it is to be shown, with its pixels not yet read."""
        self.allow_pixels()
        return open_image(source, self.scale)

    def allow_pixels(self) -> None:
        """Raises Pillow's limit, which is one of the whole process, and so has to be raised in each worker."""
        limit = Image.MAX_IMAGE_PIXELS
        if self.max_pixels is not None and limit is not None and 2 * limit < self.max_pixels:
            Image.MAX_IMAGE_PIXELS = -(-self.max_pixels // 2)  # Pillow refuses from twice as many on


def build_display_options(
    image_set: str, scale: Scale | None, background: str, max_pixels: int | None = None
) -> DisplayOptions:
    """The same from a user's words, which are checked."""
    if max_pixels is not None and max_pixels < 1:
        raise QueryError(f"The largest number of pixels is {max_pixels!r}; expected a whole number from 1 on.")
    checked = None if scale is None else check_scale(scale)
    show = DisplayOptions(image_set, checked, check_background(background), max_pixels)
    show.allow_pixels()
    return show


class StoredFormat(NamedTuple):
    """In what a file differs from one upright image of 8-bit pixels."""

    orientation: int = 1  # of EXIF, from 1 to 8
    values: str = ""  # of more than 8 bits per channel: their kind
    has_frames: bool = False  # more than the one that is shown
    turned_by: str = ""  # the library that turns the image before the zoo reads it
    is_transparent: bool = False  # a pixel is not opaque
    reader: str = ""  # the library that reads it where Pillow does not, or would read it wrongly
    remark: str = ""  # what else to say of it, behind "images "


class ValueStatistics(NamedTuple):
    """Values of some images of a kind."""

    low: float
    high: float
    n_images: int
    n_windows: int = 0  # of DICOM: images that say how they are to be shown
    first: float | None = None  # the value that 1 of 1,000 of their pixels is below, where they were counted
    last: float | None = None  # and the one that 1 of 1,000 is above
    no_data: float | None = None  # a value that stands for missing ones, and is none of the others


@dataclass(frozen=True, slots=True, eq=False)
class DecodingInfo:
    """How the images of a set are read."""

    stored: Mapping[str, StoredFormat] = field(
        default_factory=dict
    )  # by name, of the images that are not just 8-bit pixels
    scale: Scale | None = None  # the values that are black and white; None: those of their range
    spread: Mapping[str, ValueStatistics] = field(default_factory=dict)  # by kind of values, of a sample of the images
    notes: tuple[str, ...] = ()  # what a user may want to know of how their source was read
    background: str = WHITE  # what transparent parts are shown over, or "drop"
    left_out: Mapping[str, int] = field(default_factory=dict)  # other files in their folders, by ending
    layout: str = ""  # how their folder was understood, in words
    shapes: np.ndarray | None = None  # of each image, uint64 (n, 2): what may tell that it shows others than another

    def of(self, names: Sequence[str], chosen: np.ndarray) -> DecodingInfo:
        """The same for some of the images, by their names and positions."""
        wanted = set(names) if self.stored else set()
        shapes = None if self.shapes is None else self.shapes[chosen]
        stored = {name: stored for name, stored in self.stored.items() if name in wanted}
        return replace(self, stored=stored, shapes=shapes)

    def not_by_pillow(self) -> set[str]:
        """Names of images that Pillow alone would misread, or narrow before they are scaled."""
        is_scaled = self.scale is not None
        return {name for name, one in self.stored.items() if one.reader or (is_scaled and one.values.endswith(COLOURS))}

    def with_notes(self, notes: Iterable[str]) -> DecodingInfo:
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def facts(self) -> dict[str, str]:
        """What decides the pixels of images beyond their files, by name of the image.

        Images where nothing does, or that Pillow or datasets turn by themselves, are not in it.
        """
        facts = {}
        scale = "" if self.scale is None else f" {self.scale[0]!r} to {self.scale[1]!r}"
        for name, stored in self.stored.items():
            turn = "" if stored.turned_by or stored.orientation == 1 else f"turned {stored.orientation}"
            # without a scale, colours of 16 bits have the high byte that they always had
            values = "" if stored.values.endswith(COLOURS) and not scale else stored.values and stored.values + scale
            # nothing where transparency is dropped, as it was of all images once: these have the pixels that they had
            over = f"\0over {self.background}" if stored.is_transparent and self.background != DROP else ""
            by = f"\0by {stored.reader}" if stored.reader else ""
            if turn or values or over or by:
                facts[name] = f"{turn}\0{values}{over}{by}"
        return facts

    def as_dict(self) -> dict[str, Any]:
        """Numbers of images by what is done to them, for JSON."""
        images = self.stored.values()
        turned = Counter(str(one.orientation) for one in images if one.orientation > 1)
        scaled = Counter(one.values for one in images if one.values)
        n_transparent = sum(one.is_transparent for one in images)
        return {
            "turned_by_exif_orientation": dict(sorted(turned.items())),
            "scaled": dict(sorted(scaled.items())),
            "first_frame": sum(one.has_frames for one in images),
            "scale": None if self.scale is None or not scaled else list(self.scale),
            "transparent": n_transparent,
            "background": self.background if n_transparent else None,
            "left_out": dict(self.left_out),
            "spread": {kind: self.spread[kind]._asdict() for kind in sorted(scaled) if kind in self.spread},
        }


def read_image(path: str, image: str, show: DisplayOptions) -> Image.Image:
    """The first image of a file, read to the end, upright, of 8 bits per channel and without transparency, in any mode.

    ``image`` is its name in messages. Raises CorruptImage if it cannot be read or a value is not a number, DataError if
    its values have no range and there is no scale.
    """
    if is_dicom(path):
        from .dicom import READING_ERRORS, read_dicom_image  # which needs another extra

        try:
            name = f"The image {image!r} of {show.image_set!r}"
            return read_dicom_image(path, scale=show.scale, name=name, remedy=REMEDY)
        except DataError:
            raise
        except READING_ERRORS as error:
            raise CorruptImage.of(image, image_set=show.image_set, reason=format_reason(error)) from error
    try:
        # not by its name, or Pillow maps some files into memory, and scrambles TIFF images with orientations above 4
        with open_regular(path) as file, show.open(file) as opened:
            opened.load()
    except DECODING_ERRORS as error:
        is_empty = os.path.isfile(path) and not os.path.getsize(path)
        reason = ": ".join(filter(None, ("it is empty" if is_empty else format_reason(error), find_remedy(path))))
        raise CorruptImage.of(image, image_set=show.image_set, reason=reason) from error
    return convert_opened_image(opened, image, show)


def convert_opened_image(opened: Image.Image | BandImage, image: str, show: DisplayOptions) -> Image.Image:
    """An image that a library has read, as :func:`read_image` returns it."""
    pixels = np.asarray(opened) if isinstance(opened, BandImage) or opened.mode == "F" else np.zeros(0)
    if pixels.dtype.kind == "f" and (n_missing := int(np.isnan(pixels).sum())):
        reason = f"{n_missing:,} of its {pixels.size:,} values are not a number"
        raise CorruptImage.of(image, image_set=show.image_set, reason=reason)
    name, scale = f"The image {image!r} of {show.image_set!r}", show.scale
    if not isinstance(opened, BandImage):
        return convert_to_8_bits(opened, scale=scale, background=show.background, name=name, remedy=REMEDY)
    if scale is None and pixels.dtype == np.uint16 and opened.values is not None:
        scale = opened.values.range if opened.values.range != (0, 65535) else None  # of fewer bits
    return convert_to_8_bits(pixels, scale=scale, background=show.background, name=name, remedy=REMEDY)


def read_stored_format(opened: ImageFile.ImageFile | BandImage) -> StoredFormat:
    """What the head of a file says; its pixels are read only if metadata are behind them, as PNG allows."""
    if isinstance(opened, BandImage):
        kind = "" if opened.values is None else opened.values.kind
        how: dict[str, Any] = {"has_frames": opened.has_frames, "reader": opened.reader, "remark": opened.remark}
        return StoredFormat(opened.orientation, kind, turned_by=opened.reader, **how)
    kind, remark, _ = detect_pillow_narrowing(opened)
    if opened.format == "PNG" and "exif" not in opened.info and _has_late_metadata(opened):
        opened.load()
    values = infer_value_kind(opened)
    is_tiff = opened.format == "TIFF"
    tag = opened.tag_v2.get(_ORIENTATION_TAG, 1) if is_tiff else read_orientation(opened)  # type: ignore[attr-defined]
    orientation = tag if tag in range(1, 9) else 1
    is_lying = orientation > 4 and opened.mode != "RGB"  # and was scrambled once, as read_image says
    return StoredFormat(
        orientation=orientation,
        values=kind if values is None else values.kind,
        has_frames=bool(getattr(opened, "is_animated", False)) and opened.format != "MPO",  # a photo with a preview
        turned_by="Pillow" if is_tiff and not is_lying else "",
        remark=remark,
    )


def _has_late_metadata(opened: ImageFile.ImageFile) -> bool:
    """Whether a PNG has EXIF or XMP behind its pixels."""
    file = opened.fp
    assert file is not None  # of an image that was just opened
    position, place, is_behind = file.tell(), 8, False
    head = b"\0" * 8
    while head[4:] != b"IEND" and len(head) == 8:
        file.seek(place)
        head = file.read(8)
        is_behind |= head[4:] == b"IDAT"
        if is_behind and head[4:] in _METADATA_CHUNKS and (head[4:] + file.read(21)).startswith(_LATE_METADATA):
            break
        place += 12 + int.from_bytes(head[:4], "big")
    file.seek(position)
    return head[4:] in _METADATA_CHUNKS


def read_shape(opened: ImageFile.ImageFile | BandImage) -> Shape:
    """The size of an image, and of a photograph a hash of its last bytes, or 0: equal pixels have equal sizes.

    A JPEG and a HEIC file end with their pixels; an image in them that is compressed anew has others.
    """
    tail = 0
    if opened.format in _LOSSY and isinstance(opened, ImageFile.ImageFile) and opened.fp is not None:
        place = opened.fp.tell()
        opened.fp.seek(max(0, opened.fp.seek(0, os.SEEK_END) - _TAIL))
        tail = 1 + zlib.crc32(opened.fp.read(_TAIL))
        opened.fp.seek(place)
    sides = sorted((opened.width, opened.height))  # whichever way it is turned
    return sides[0] << 32 | sides[1], tail


def read_head(open_one: Callable[[], ImageFile.ImageFile | BandImage]) -> tuple[StoredFormat | None, Shape]:
    """What the head of an image says if it is not just opaque 8-bit pixels, and its shape; (None, (0, 0)) if damaged.

    An image whose head says that it may be transparent is decoded, for most of them are opaque.
    """
    try:
        with open_one() as opened:
            shape, stored = read_shape(opened), read_stored_format(opened)
            alpha: Image.Image | np.ndarray | None = None
            if isinstance(opened, BandImage):
                alpha = extract_array_alpha(np.asarray(opened)) if opened.has_alpha else None
            elif can_be_transparent(opened):
                opened.load()
                alpha = extract_alpha(opened)
            if alpha is not None:
                shades = np.asarray(alpha)
                is_band = opened.format == "TIFF" and ((shades > 0) & (shades < 255)).mean() > 0.5
                stored = stored._replace(is_transparent=True, remark=stored.remark or _LIKE_A_BAND * bool(is_band))
    except DECODING_ERRORS:
        return None, (0, 0)
    return None if stored._replace(turned_by="") == StoredFormat() else stored, shape


def inspect_image_files(
    paths: Sequence[str], names: Sequence[str], show: DisplayOptions, left_out: Mapping[str, int] | None = None
) -> DecodingInfo:
    """How image files are read, by their heads and a sample of their values; ``names`` are those in the image set."""
    dicoms = [i for i, path in enumerate(paths) if is_dicom(path)]
    others = sorted({*range(len(paths))} - {*dicoms})
    reading = inspect_opened_images([names[i] for i in others], lambda i: open_image(paths[others[i]]), show)
    reading = replace(reading, left_out=left_out or {})
    if not dicoms:
        return reading
    from .dicom import read_dicom_head

    for i in pick_evenly(dicoms):  # for what all of them lack, such as a library
        with suppress(CorruptImage):  # raised again when it is asked for
            read_image(paths[i], names[i], show)
    heads = map_in_threads(read_dicom_head, [paths[i] for i in dicoms])
    stored = {
        names[i]: StoredFormat(**{"values": DICOM, **facts}) for i, (facts, _, _) in zip(dicoms, heads, strict=True)
    }
    n_grey = sum(one.values == DICOM for one in stored.values())
    spread = {DICOM: ValueStatistics(0, 0, n_grey, sum(has_window for _, has_window, _ in heads))} if n_grey else {}
    shapes = np.zeros((len(paths), 2), np.uint64)
    shapes[dicoms, 0] = [low << 32 | high for _, _, (low, high) in heads]
    if reading.shapes is not None:
        shapes[others] = reading.shapes
    return replace(reading, stored={**reading.stored, **stored}, spread={**reading.spread, **spread}, shapes=shapes)


def inspect_opened_images(
    names: Sequence[str],
    open_one: Opener,
    show: DisplayOptions,
    *,
    turned_by: str = "",
    heads: Iterable[tuple[int, StoredFormat]] | None = None,
) -> DecodingInfo:
    """How images that Pillow opens are read, by their heads and a sample of their values.

    ``open_one`` returns the result of ``PIL.Image.open`` of the image with a number; ``turned_by`` is the library that
    turns the images before, if one does; ``heads`` has what :func:`read_head` returned on each image, by its number, if
    that is known already. Values without a range are refused if there is no scale.
    """
    by_number, shapes = {}, None
    if heads is None:
        heads, shapes = _heads(len(names), open_one)
    for i, stored in heads:
        turned = turned_by or stored.turned_by
        by_number[i] = stored._replace(turned_by=turned if stored.orientation > 1 else "")
    if show.scale is not None and any(stored.values.endswith(COLOURS) for stored in by_number.values()):
        require_libraries()
    spread = {}
    for kind in dict.fromkeys(stored.values for stored in by_number.values() if stored.values):
        numbers = [i for i, stored in by_number.items() if stored.values == kind]
        sample = _spread(numbers, open_one)
        if sample is None:
            continue
        spread[kind] = sample
        ends = find_range(kind)
        is_outside = ends is None or sample.low < ends[0] or sample.high > ends[1] or sample.no_data is not None
        if show.scale is None and is_outside:
            sample = _spread(numbers, open_one, _N_REFUSED) or sample
            which = (
                f"{len(numbers):,} of the {len(names):,} images of {show.image_set!r}, such as {names[numbers[0]]!r},"
            )
            raise _without_range(which, kind, sample)
    stored_by_name = {names[i]: stored for i, stored in by_number.items()}
    return DecodingInfo(
        stored=stored_by_name, scale=show.scale, spread=spread, background=show.background, shapes=shapes
    )


def _without_range(which: str, kind: str, spread: ValueStatistics) -> DataError:
    """The refusal of images whose values have no range, with the scale that fits all that were looked at."""
    low, high = spread.low, spread.high
    if low >= 0 and "integers" in kind:
        low, high = 0, 2 ** max(8, int(high).bit_length()) - 1
    elif low >= 0 and 127 < high <= 255:
        low, high = 0, 255
    elif low < 0 and max(-low, high) <= 1:
        low, high = (-1, 1) if max(-low, high) > 0.5 else (-0.5, 0.5)
    normalised = " (of normalised images it is better to undo that, x * std + mean)" * (low < -1 and kind[0] == "f")
    also = "" if spread.no_data is None else f", and {format_decimal(spread.no_data)} where values seem to be missing"
    return DataError(
        f"{which} hold {kind}, from {format_decimal(spread.low)} to {format_decimal(spread.high)} in the "
        f"{spread.n_images:,} that were looked at{also}; expected unsigned integers of 8 or 16 bits, or floating point "
        f"from 0 to 1: {REMEDY.format(low=format_decimal(low), high=format_decimal(high))}{normalised}."
    )


def prepare_arrays(
    arrays: Sequence[np.ndarray], which: str, show: DisplayOptions
) -> tuple[list[np.ndarray], list[str]]:
    """Arrays of images (n, ...) whose values have a range: whole numbers are uint8 if all lie from 0 to 255; and notes.

    Others are refused if there is no scale, and what is not finite is.
    """
    deep = [
        one for one in arrays if one.size and one.dtype != np.uint8 and infer_array_value_kind(one.dtype) is not None
    ]
    for one in deep:
        if one.dtype.kind == "f" and (n := int(np.count_nonzero(~np.isfinite(one)))):
            raise DataError(
                f"{which} have {n:,} values that are infinite or not a number; replace them, as with numpy.nan_to_num."
            )
    notes = []
    for kinds in ("iu", "f") if show.scale is None else ():
        if not (some := [one for one in deep if one.dtype.kind in kinds]):
            continue
        low, high = min(float(one.min()) for one in some), max(float(one.max()) for one in some)
        values = [found for one in some if (found := infer_array_value_kind(one.dtype)) is not None]
        if kinds == "iu" and low >= 0 and high <= 255:
            dark = f"; --scale {low:.0f},{high:.0f} would use the whole range" * (low < high < 64)
            notes.append(f"images of {some[0].dtype} from {low:.0f} to {high:.0f} are taken as 8-bit values{dark}")
            arrays = [one.astype(np.uint8) if one.dtype.kind in "iu" else one for one in arrays]
        elif (odd := [one.kind for one in values if one.range is None]) or (kinds == "f" and not 0 <= low <= high <= 1):
            raise _without_range(which, (odd or [values[0].kind])[0], ValueStatistics(low, high, sum(map(len, some))))
    plain = [one for one in arrays if one.size and one.dtype == np.uint8]
    if plain and not deep and 0 < (high := max(int(one.max()) for one in plain)) < 16:
        notes.append(f"images of uint8 hold 0 to {high} of 0 to 255, nearly black; multiply them by {255 // high}")
    return list(arrays), notes


def _heads(n: int, open_one: Opener) -> tuple[Iterable[tuple[int, StoredFormat]], np.ndarray]:
    """Numbers and heads of the images that are not just 8-bit pixels, and the shapes of all, (n, 2)."""

    heads = map_in_threads(lambda i: read_head(lambda: open_one(i)), range(n))
    shapes = np.array([shape for _, shape in heads], np.uint64).reshape(-1, 2)
    return [(i, stored) for i, (stored, _) in enumerate(heads) if stored is not None], shapes


def _spread(numbers: Sequence[int], open_one: Opener, most: int = _N_SAMPLED) -> ValueStatistics | None:
    """Where the finite values of some of the images lie; None if none can be read."""
    ends, sampled, missing, n_images = [], [], set[float](), 0
    for i in pick_evenly(numbers, most):
        try:
            with open_one(i) as opened:
                opened.load()
                pixels = np.asarray(opened)
        except DECODING_ERRORS:
            continue
        n_images += 1
        if pixels.ndim == 3:  # colours, without their alpha
            pixels = pixels[..., : 1 if pixels.shape[2] == 2 else 3]
            pixels = pixels.astype(np.uint16) * 257 if pixels.dtype == np.uint8 else pixels
        finite = pixels[np.isfinite(pixels)]
        is_missing = np.isin(finite, _NO_DATA)
        missing.update(finite[is_missing].tolist())
        finite = finite[~is_missing]
        if finite.size:
            ends += [float(finite.min()), float(finite.max())]
            sampled.append(finite[:: 1 + finite.size // _N_VALUES])
    if not ends:
        return None
    first, last = np.percentile(np.concatenate(sampled).astype(np.float64), (0.1, 99.9)).tolist()
    return ValueStatistics(min(ends), max(ends), n_images, first=first, last=last, no_data=min(missing, default=None))


def pick_evenly(numbers: Sequence[int], most: int = _N_SAMPLED) -> list[int]:
    places = np.linspace(0, len(numbers) - 1, min(len(numbers), most)).round().astype(int)
    return [numbers[place] for place in places.tolist()]


def find_range(kind: str) -> Scale | None:
    if kind == "floating point":
        return 0.0, 1.0
    bits, _, what = kind.partition("-bit ")
    return (0, 2 ** int(bits) - 1) if what in ("integers", COLOURS) and bits.isdecimal() and int(bits) <= 16 else None


def read_image_grid(path: str) -> tuple[int, int, int]:
    """Width and height of an image as it is stored, and its orientation, from 1 to 8."""
    with open_image(path) as opened:
        return read_opened_grid(opened)


def read_opened_grid(opened: ImageFile.ImageFile | BandImage) -> tuple[int, int, int]:
    """The same of an image that is opened and whose pixels are not read yet."""
    stored = read_stored_format(opened)
    if opened.format == "TIFF" and not isinstance(opened, BandImage):  # its size is given as it will be turned
        tags = opened.tag_v2  # type: ignore[attr-defined]
        return int(tags[256]), int(tags[257]), stored.orientation
    return opened.width, opened.height, stored.orientation


def is_dicom(path: str) -> bool:
    """By its name; by its beginning if the name does not end like an image, as of files that a scanner numbers."""
    if path.lower().endswith(SUFFIXES):
        return path.lower().endswith(DICOM_SUFFIXES)
    with suppress(OSError), open_regular(path) as file:
        return file.read(132)[128:] == b"DICM"
    return False


def format_reason(error: BaseException) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, Image.DecompressionBombError):
        return f"{error}: --max-pixels N, or max_pixels= in Python, allows an image of N pixels"
    if isinstance(error, AttributeError) and error.name:  # of pydicom
        return f"it has no {error.name}"
    if "pickle" in str(error):  # what NumPy takes any other file for
        return "it is of another kind, or holds Python objects, which are never unpickled"
    said = _OBJECT.sub("", str(error))
    return " ".join(said.split()) or type(error).__name__


def format_decimal(value: float) -> str:
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"
