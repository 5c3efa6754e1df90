"""Sentences for users on how images are read: what is turned, scaled, laid over a colour, left out or enlarged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import CorruptImage, format_count, format_range
from .image_files import DICOM, ValueStatistics, describe_left_out_files, find_range, format_decimal, pick_evenly
from .rgb import DROP, WHITE, Scale

if TYPE_CHECKING:
    from .images import ImageSet

_FEW_LEVELS = 128  # of the 256 grey levels: with fewer, a scale is advised


def describe_decoding(image_sets: Iterable[ImageSet]) -> list[str]:
    """Sentences for users on how the images of some sets are read."""
    readings = [images.reading for images in image_sets]
    stored = [one for reading in readings for one in reading.stored.values()]
    notes = []
    if turned := Counter(one.orientation for one in stored if one.orientation > 1):
        by = ", ".join(f"{n:,} of orientation {orientation}" for orientation, n in sorted(turned.items()))
        notes.append(f"{format_count(turned.total(), 'image was', 'images were')} turned upright, as EXIF says ({by})")
    scale = next((reading.scale for reading in readings if reading.scale is not None), None)
    for kind, n in sorted(Counter(one.values for one in stored if one.values).items()):
        spreads = {id(reading.spread): reading.spread[kind] for reading in readings if kind in reading.spread}
        notes.append(_on_values(kind, n, list(spreads.values()), scale))
    if framed := [name for reading in readings for name, one in reading.stored.items() if one.has_frames]:
        some = format_count(len(framed), "image has", "images have")
        notes.append(f"{some} several frames, such as {framed[0]!r}; the first is shown")
    for remark, n in Counter(one.remark for one in stored if one.remark).items():
        notes.append(f"{n:,} image{'s' * (n > 1)} {remark}")
    if n := sum(one.is_transparent for one in stored):
        background = readings[0].background
        how = "in the colours that are stored there" if background == DROP else f"over {background}"
        option = "--background COLOUR, or drop" if background == WHITE else f"--background {background}"
        notes.append(f"{n:,} image{'s have' if n > 1 else ' has'} transparent parts, shown {how} ({option})")
    folders = {id(reading.left_out): reading.left_out for reading in readings}  # both parts may be of one
    left_out = sum(map(Counter, folders.values()), Counter[str]())
    notes += filter(None, [describe_left_out_files(left_out)])
    return [*notes, *dict.fromkeys(note for reading in readings for note in reading.notes)]


def _on_values(kind: str, n: int, spreads: Sequence[ValueStatistics], scale: Scale | None) -> str:
    looked = sum(one.n_images for one in spreads)
    if kind == DICOM and scale is None:
        without = looked - sum(one.n_windows for one in spreads)
        note = f"{n:,} DICOM images are shown through their windows"
        others = (
            f"; {without} of {looked} that were looked at have none and are shown by the range of their bits, for "
            "which --scale LOW,HIGH may take another one"
        )
        return note + others * bool(without)
    ends = scale or find_range(kind)
    assert ends is not None  # or they were refused
    what = "DICOM images" if kind == DICOM else f"images of {kind}"
    note = f"{n:,} {what} are shown with {format_decimal(ends[0])} as black and {format_decimal(ends[1])} as white"
    if scale is not None:
        return f"{note}, as --scale says"
    if not spreads:  # of colours in DICOM
        return note
    low, high = min(one.low for one in spreads), max(one.high for one in spreads)
    first = min(one.low if one.first is None else one.first for one in spreads)
    last = max(one.high if one.last is None else one.last for one in spreads)
    lowest, highest = (int(255.999 * (one - ends[0]) / (ends[1] - ends[0])) for one in (first, last))
    n_levels = highest - lowest + 1
    if n_levels >= _FEW_LEVELS or high <= low:
        return note
    proposed = low, high  # where they lie, or the bits that they have
    if high <= 0.25 * ends[1]:
        proposed = 0, 2 ** max(8, int(high).bit_length()) - 1 if ends[1] > 1 else float(f"{high:.2g}")
    elif last - first < 0.5 * (high - low):  # a few values are far from the others
        proposed = first, last
    return (
        f"{note}; {looked} that were looked at hold {format_range(format_decimal(low), format_decimal(high))}, of "
        f"which nearly all become {n_levels} of 256 shades: --scale "
        f"{format_decimal(proposed[0])},{format_decimal(proposed[1])} would use all of them"
    )


def describe_small_images(images: ImageSet, *, encoder: str, px: int) -> list[str]:
    """A sentence where images are much smaller than the ``px`` on a side that an encoder takes, by a sample of them."""
    sides = []
    for i in pick_evenly(range(len(images))):
        with suppress(CorruptImage):  # raised again when its features are computed
            sides.append(min(images.images[i].size))
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
