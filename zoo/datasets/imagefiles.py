"""Image files: their metadata, and how they become upright images of 8 bits a channel.

Every source of images reads through :func:`read_image` or :func:`as_shown`. When a source is opened, the heads of its
files are read, for orientation, kind of values and transparency decide the pixels: they enter the fingerprint of the
images, and :func:`notes_on` says them to users.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CorruptImage, DataError
from ..optional import requires_extra
from .endings import DICOM_SUFFIXES, SUFFIXES, left_out_note, remedy_for
from .rgb import (
    DROP,
    WHITE,
    Scale,
    alpha_of,
    checked_background,
    checked_scale,
    may_be_transparent,
    orientation_of,
    to_8_bits,
    values_of,
)

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image, ImageFile

if TYPE_CHECKING:
    from .images import ImageSet

# Odd metadata and large images do not matter to a probe: what does not decode raises, and so does a bomb of pixels.
# Once here, for a filter around each image is not safe beside other threads; a filter of the user's comes first.
warnings.filterwarnings("ignore", module=r"PIL\.", append=True)

DECODING_ERRORS = (  # of Pillow's readers on damaged files
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    OverflowError,
    NotImplementedError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

REMEDY = "say which values are black and white with --scale {low},{high}, or scale=({low}, {high}) in Python"

RULES = "images-1"
"""Name of the way from stored values and orientations to pixels; part of fingerprints where it matters."""

DICOM = "DICOM"  # as a kind of values
_ORIENTATION_TAG = 0x112
_N_SAMPLED = 32  # images whose values are read
_N_THREADS, _N_HEADS_A_TASK = 8, 256  # to read the heads of files, which may be far away
_LATE_METADATA = {  # types of PNG chunks that may hold an orientation behind the pixels, and what they begin with
    b"eXIf": b"",
    b"zTXt": b"Raw profile type exif",
    b"tEXt": b"Raw profile type exif",
    b"iTXt": b"XML:com.adobe.xmp",
}

Opener = Callable[[int], ImageFile.ImageFile]


class Stored(NamedTuple):
    """In what a file differs from one upright image of 8-bit pixels."""

    orientation: int = 1  # of EXIF, from 1 to 8
    values: str = ""  # of more than 8 bits a channel: their kind
    has_frames: bool = False  # more than the one that is shown
    turned_by: str = ""  # the library that turns the image before the zoo reads it
    is_transparent: bool = False  # a pixel is not opaque


class Spread(NamedTuple):
    """Values of some images of a kind."""

    low: float
    high: float
    n_images: int
    n_windows: int = 0  # of DICOM: images that say how they are to be shown


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """How the images of a set are read."""

    stored: Mapping[str, Stored] = field(default_factory=dict)  # by name, of the images that are not just 8-bit pixels
    scale: Scale | None = None  # the values that are black and white; None: those of their range
    spread: Mapping[str, Spread] = field(default_factory=dict)  # by kind of values, of a sample of the images
    notes: tuple[str, ...] = ()  # what a user may want to know of how their source was read
    background: str = WHITE  # what transparent parts are shown over, or "drop"
    left_out: Mapping[str, int] = field(default_factory=dict)  # other files in their folders, by ending

    def of(self, names: Sequence[str]) -> Reading:
        """The same for some of the images."""
        if not self.stored:
            return self
        wanted = set(names)
        return replace(self, stored={name: stored for name, stored in self.stored.items() if name in wanted})

    def facts(self) -> dict[str, str]:
        """What decides the pixels of images beyond their files, by name of the image.

        Images where nothing does, or that Pillow or datasets turn by themselves, are not in it.
        """
        facts = {}
        scale = "" if self.scale is None else f" {self.scale[0]!r} to {self.scale[1]!r}"
        for name, stored in self.stored.items():
            turn = "" if stored.turned_by or stored.orientation == 1 else f"turned {stored.orientation}"
            values = stored.values and stored.values + scale
            # nothing where transparency is dropped, as it was of all images once: these have the pixels that they had
            over = f"\0over {self.background}" if stored.is_transparent and self.background != DROP else ""
            if turn or values or over:
                facts[name] = f"{turn}\0{values}{over}"
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


def read_image(
    path: str, *, image: str, image_set: str, scale: Scale | None = None, background: str = WHITE
) -> Image.Image:
    """The first image of a file, read to the end, upright, of 8 bits a channel and without transparency, in any mode.

    ``image`` and ``image_set`` are its names in messages, ``scale`` and ``background`` as for
    :func:`zoo.datasets.rgb.to_rgb`. Raises CorruptImage if it cannot be read or a value is not a number, DataError if
    its values have no range and there is no scale.
    """
    if is_dicom(path):
        return _dicom_image(path, image=image, image_set=image_set, scale=scale)  # which has no transparency
    try:
        # not by its name, or Pillow maps some files into memory, and scrambles TIFF images with orientations above 4
        with open(path, "rb") as file, Image.open(file) as opened:
            opened.load()
    except DECODING_ERRORS as error:
        reason = ": ".join(filter(None, (reason_of(error), remedy_for(path))))
        raise CorruptImage.of(image, image_set=image_set, reason=reason) from error
    return as_shown(opened, image=image, image_set=image_set, scale=scale, background=background)


def as_shown(
    opened: Image.Image, *, image: str, image_set: str, scale: Scale | None = None, background: str = WHITE
) -> Image.Image:
    """An image that a library has read, as :func:`read_image` returns it."""
    if opened.mode == "F":
        n_missing = int(np.isnan(np.asarray(opened)).sum())
        if n_missing:
            reason = f"{n_missing:,} of its {opened.width * opened.height:,} values are not a number"
            raise CorruptImage.of(image, image_set=image_set, reason=reason)
    name = f"The image {image!r} of {image_set!r}"
    return to_8_bits(opened, scale=scale, background=background, name=name, remedy=REMEDY)


def stored_in(opened: ImageFile.ImageFile) -> Stored:
    """What the head of a file says; its pixels are read only if metadata are behind them, as PNG allows."""
    if opened.format == "PNG" and "exif" not in opened.info and _has_late_metadata(opened):
        opened.load()
    values = values_of(opened)
    is_tiff = opened.format == "TIFF"
    tag = opened.tag_v2.get(_ORIENTATION_TAG, 1) if is_tiff else orientation_of(opened)  # type: ignore[attr-defined]
    orientation = tag if tag in range(1, 9) else 1
    is_lying = orientation > 4 and opened.mode != "RGB"  # and was scrambled once, as read_image says
    return Stored(
        orientation=orientation,
        values="" if values is None else values.kind,
        has_frames=bool(getattr(opened, "is_animated", False)) and opened.format != "MPO",  # a photo with a preview
        turned_by="Pillow" if is_tiff and not is_lying else "",
    )


def head_of(open_one: Callable[[], ImageFile.ImageFile]) -> Stored | None:
    """What the head of an image says if it is not just opaque 8-bit pixels; None if it is, or cannot be read.

    An image whose head says that it may be transparent is decoded, for most of them are opaque: they have the pixels
    that they had before transparency was looked at, and so have to keep their fingerprint.
    """
    try:
        with open_one() as opened:
            stored = stored_in(opened)
            if may_be_transparent(opened):
                opened.load()
                stored = stored._replace(is_transparent=alpha_of(opened) is not None)
    except DECODING_ERRORS:
        return None
    return None if stored._replace(turned_by="") == Stored() else stored


def files_reading(
    paths: Sequence[str],
    names: Sequence[str],
    *,
    image_set: str,
    scale: Scale | None = None,
    background: str = WHITE,
    left_out: Mapping[str, int] | None = None,
) -> Reading:
    """How image files are read, by their heads and a sample of their values; ``names`` are those in the image set."""
    dicoms = {i: Stored(values=DICOM) for i, path in enumerate(paths) if is_dicom(path)}
    others = [i for i in range(len(paths)) if i not in dicoms]
    reading = reading_of(
        [names[i] for i in others],
        lambda i: Image.open(paths[others[i]]),
        image_set=image_set,
        scale=scale,
        background=background,
    )
    reading = replace(reading, left_out=left_out or {})
    if not dicoms:
        return reading
    sampled = []
    for i in _evenly(list(dicoms)):
        try:
            sampled.append(read_image(paths[i], image=names[i], image_set=image_set, scale=scale))
        except CorruptImage:  # raised again when it is asked for
            continue
    spread = {DICOM: Spread(0, 0, len(sampled), sum(bool(image.info["window"]) for image in sampled))}
    stored = {names[i]: stored for i, stored in dicoms.items()}
    return replace(reading, stored={**reading.stored, **stored}, spread={**reading.spread, **spread})


def reading_of(
    names: Sequence[str],
    open_one: Opener,
    *,
    image_set: str,
    scale: Scale | None = None,
    background: str = WHITE,
    turned_by: str = "",
    heads: Iterable[tuple[int, Stored]] | None = None,
) -> Reading:
    """How images that Pillow opens are read, by their heads and a sample of their values.

    ``open_one`` returns the result of ``PIL.Image.open`` of the image with a number; ``turned_by`` is the library that
    turns the images before, if one does; ``heads`` has what :func:`head_of` returned on each image, by its number, if
    that is known already. Values without a range are refused if there is no scale.
    """
    scale = None if scale is None else checked_scale(scale)
    by_number = {}
    for i, stored in _heads(len(names), open_one) if heads is None else heads:
        turned = turned_by if turned_by and stored.orientation > 1 else stored.turned_by
        by_number[i] = stored._replace(turned_by=turned if stored.orientation > 1 else "")
    spread = {}
    for kind in dict.fromkeys(stored.values for stored in by_number.values() if stored.values):
        numbers = [i for i, stored in by_number.items() if stored.values == kind]
        sample = _spread(numbers, open_one)
        if sample is None:
            continue
        spread[kind] = sample
        ends = _range_of(kind)
        if scale is None and (ends is None or sample.low < ends[0] or sample.high > ends[1]):
            low, high = _number(sample.low), _number(sample.high)
            raise DataError(
                f"{len(numbers):,} of the {len(names):,} images of {image_set!r}, such as {names[numbers[0]]!r}, hold "
                f"{kind}, from {low} to {high} in the {sample.n_images} that were looked at; expected unsigned "
                f"integers of 8 or 16 bits, or floating point from 0 to 1: {REMEDY.format(low=low, high=high)}."
            )
    stored_by_name = {names[i]: stored for i, stored in by_number.items()}
    return Reading(stored=stored_by_name, scale=scale, spread=spread, background=checked_background(background))


def grid_of(path: str) -> tuple[int, int, int]:
    """Width and height of an image as it is stored, and its orientation, from 1 to 8."""
    if is_dicom(path):
        from .dicom import grid

        return *grid(path), 1
    with Image.open(path) as opened:
        stored = stored_in(opened)
        if opened.format == "TIFF":  # whose size Pillow gives as it will be turned
            tags = opened.tag_v2  # type: ignore[attr-defined]
            return int(tags[256]), int(tags[257]), stored.orientation
        return opened.width, opened.height, stored.orientation


def notes_on(image_sets: Iterable[ImageSet]) -> list[str]:
    """Sentences for users on how the images of some sets are read."""
    readings = [images.reading for images in image_sets]
    stored = [one for reading in readings for one in reading.stored.values()]
    notes = []
    if turned := Counter(one.orientation for one in stored if one.orientation > 1):
        by = ", ".join(f"{n:,} of orientation {orientation}" for orientation, n in sorted(turned.items()))
        notes.append(f"{turned.total():,} images were turned upright, as EXIF says ({by})")
    scale = next((reading.scale for reading in readings if reading.scale is not None), None)
    for kind, n in sorted(Counter(one.values for one in stored if one.values).items()):
        spreads = {id(reading.spread): reading.spread[kind] for reading in readings if kind in reading.spread}
        notes.append((_on_dicom if kind == DICOM else _on_values)(kind, n, list(spreads.values()), scale))
    if framed := [name for reading in readings for name, one in reading.stored.items() if one.has_frames]:
        notes.append(f"{len(framed):,} images have several frames, such as {framed[0]!r}; the first is shown")
    if n_transparent := sum(one.is_transparent for one in stored):
        notes.append(_on_transparent(n_transparent, readings[0].background))
    folders = {id(reading.left_out): reading.left_out for reading in readings}  # both parts may be of one
    left_out = sum(map(Counter, folders.values()), Counter[str]())
    notes += filter(None, [left_out_note(left_out)])
    return [*notes, *dict.fromkeys(note for reading in readings for note in reading.notes)]


def size_notes(images: ImageSet, *, encoder: str, px: int) -> list[str]:
    """A sentence where images are much smaller than the ``px`` on a side that an encoder takes, by a sample of them.

    They are enlarged, which adds nothing that an encoder could see. Images that cannot be read do not count.
    """
    sides = []
    for i in _evenly(range(len(images))):
        try:
            sides.append(min(images.images[i].size))
        except CorruptImage:  # raised again when its features are computed
            continue
    middle = sorted(sides)[len(sides) // 2] if sides else px
    if 2 * middle > px:
        return []
    pixels = "1 pixel" if middle == 1 else f"{middle:,} pixels"
    blank = sides.count(1)
    none = f"; {blank} of them are 1 pixel wide or high, and show next to nothing" if blank else ""
    return [
        f"images are enlarged to the {px} pixels a side that {encoder} takes, from {pixels} (the shorter side, in the "
        f"middle of {len(sides)} that were looked at){none}"
    ]


def is_dicom(path: str) -> bool:
    """By its name; by its beginning if the name does not end like an image, as of files that a scanner numbers."""
    lowered = path.lower()
    if lowered.endswith(SUFFIXES):
        return lowered.endswith(DICOM_SUFFIXES)
    try:
        with open(path, "rb") as file:
            return file.read(132)[128:] == b"DICM"
    except OSError:
        return False


def reason_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _dicom_image(path: str, *, image: str, image_set: str, scale: Scale | None) -> Image.Image:
    from .dicom import READING_ERRORS, dicom_image  # which needs another extra

    try:
        return dicom_image(path, scale=scale, name=f"The image {image!r} of {image_set!r}", remedy=REMEDY)
    except DataError:
        raise
    except READING_ERRORS as error:
        raise CorruptImage.of(image, image_set=image_set, reason=reason_of(error)) from error


def _heads(n: int, open_one: Opener) -> list[tuple[int, Stored]]:
    """Numbers and heads of the images that are not just 8-bit pixels; unreadable ones are refused when asked for."""

    def look(numbers: range) -> list[tuple[int, Stored]]:
        heads = []
        for i in numbers:
            stored = head_of(partial(open_one, i))
            if stored is not None:
                heads.append((i, stored))
        return heads

    parts = [range(start, min(start + _N_HEADS_A_TASK, n)) for start in range(0, n, _N_HEADS_A_TASK)]
    if len(parts) <= 1:
        return [head for part in parts for head in look(part)]
    with ThreadPoolExecutor(_N_THREADS) as threads:
        return [one for part in threads.map(look, parts) for one in part]


def _has_late_metadata(opened: ImageFile.ImageFile) -> bool:
    """Whether a PNG has EXIF or XMP behind its pixels."""
    file = opened.fp
    assert file is not None  # of an image that was just opened
    position, place, behind = file.tell(), 8, False
    try:
        while True:
            file.seek(place)
            head = file.read(8)
            if len(head) < 8 or head[4:] == b"IEND":
                return False
            behind |= head[4:] == b"IDAT"
            keyword = _LATE_METADATA.get(head[4:])
            if behind and keyword is not None and file.read(len(keyword)) == keyword:
                return True
            place += 12 + int.from_bytes(head[:4], "big")
    finally:
        file.seek(position)


def _spread(numbers: Sequence[int], open_one: Opener) -> Spread | None:
    """The least and the largest finite value of some of the images; None if none can be read."""
    ends, n_images = [], 0
    for i in _evenly(numbers):
        try:
            with open_one(i) as opened:
                opened.load()
                pixels = np.asarray(opened)
        except DECODING_ERRORS:
            continue
        n_images += 1
        finite = pixels[np.isfinite(pixels)]
        ends += [float(finite.min()), float(finite.max())] if finite.size else []
    return Spread(min(ends), max(ends), n_images) if ends else None


def _evenly(numbers: Sequence[int]) -> list[int]:
    places = np.linspace(0, len(numbers) - 1, min(len(numbers), _N_SAMPLED)).round().astype(int)
    return [numbers[place] for place in places.tolist()]


def _range_of(kind: str) -> Scale | None:
    if kind == "floating point":
        return 0.0, 1.0
    bits, _, what = kind.partition("-bit ")
    return (0, 2 ** int(bits) - 1) if what == "integers" and bits.isdecimal() and int(bits) <= 16 else None


def _on_values(kind: str, n: int, spreads: Sequence[Spread], scale: Scale | None) -> str:
    ends = scale or _range_of(kind)
    assert ends is not None  # or they were refused
    note = f"{n:,} images of {kind} are shown with {_number(ends[0])} as black and {_number(ends[1])} as white"
    if scale is not None:
        return f"{note}, as --scale says"
    low, high = min(one.low for one in spreads), max(one.high for one in spreads)
    share = (high - low) / (ends[1] - ends[0])
    proposed = _proposed(low, high, ends)
    if share > 0.25 or proposed is None:
        return note
    looked = sum(one.n_images for one in spreads)
    return (
        f"{note}; {looked} that were looked at hold {_number(low)} to {_number(high)}, {100 * share:.2g} % of that: "
        f"--scale {_number(proposed[0])},{_number(proposed[1])} would use the whole range"
    )


def _proposed(low: float, high: float, ends: Scale) -> Scale | None:
    """A scale for values that use a small part of their range: the bits that they have, or where they lie."""
    if high <= low:
        return None
    if high <= 0.25 * ends[1]:
        return (0, 2 ** max(8, int(high).bit_length()) - 1) if ends[1] > 1 else (0, float(f"{high:.2g}"))
    return low, high


def _on_transparent(n: int, background: str) -> str:
    how = "in the colours that are stored there" if background == DROP else f"over {background}"
    option = "--background COLOUR, or drop" if background == WHITE else f"--background {background}"
    return f"{n:,} image{'s have' if n > 1 else ' has'} transparent parts, shown {how} ({option})"


def _on_dicom(kind: str, n: int, spreads: Sequence[Spread], scale: Scale | None) -> str:
    if scale is not None:
        ends = f"{_number(scale[0])} as black and {_number(scale[1])} as white"
        return f"{n:,} DICOM images are shown with {ends}, as --scale says"
    looked, windows = sum(one.n_images for one in spreads), sum(one.n_windows for one in spreads)
    note = f"{n:,} DICOM images are shown through their windows"
    if windows == looked:
        return note
    return (
        f"{note}; {looked - windows} of {looked} that were looked at have none and are shown by the range of their "
        "bits, for which --scale LOW,HIGH may take another one"
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"
