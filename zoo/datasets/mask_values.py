"""What masks store, and which class each stored value is: grey levels, indices of palettes and colours.

:func:`infer_coding` looks at the values that occur in all masks of a data set, and at what a file next to them says of
classes, for one mask alone does not say whether 255 is the second class or none.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, QueryError, format_count, format_list
from ..optional import require_extra
from .rgb import apply_orientation, read_orientation
from .tables import read_text

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

BACKGROUND, FOREGROUND = "background", "foreground"
IGNORED = -1
_USUALLY_IGNORED = (255, 65535)  # the largest of 8 and of 16 bits, as in VOC, ADE20K and Cityscapes
_MOST_CLASSES = 1000  # different values of masks without names of classes, of which more are no classes
_MOST_COLOURS = 256
_SMEARED_FROM, _SMEARED_SHARE = 16, 0.8  # other values than 0 and 255; share of the pixels that have these two
_COLOUR = re.compile(r"#?([0-9a-fA-F]{6})")

VOC_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
CITYSCAPES_CLASSES = (
    *("road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation"),
    *("terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle"),
)
CITYSCAPES_IDS = (  # of these classes, among the 34 of labelIds; the others are not evaluated
    7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33,
)  # fmt: skip


class StoredMask(NamedTuple):
    """A mask as it is stored."""

    values: np.ndarray  # int32 (height, width): grey levels, indices of a palette, colours as 0xrrggbb, or classes
    kind: str  # "grey", "palette", "colour" or "classes", whose values are numbers of classes
    is_lossy: bool = False  # of a format that changes values
    palette: np.ndarray | None = None  # int32 (n,), the colour of each index
    orientation: int = 1  # of EXIF, of the mask itself

    def turn_upright(self, height: int, width: int, orientation: int, shown: str) -> np.ndarray:
        """The values on the pixels of the upright image, whose stored size and orientation are given.

        A mask of the stored size is turned with its image, one of the size of the upright image lies on it already,
        as tools show it; where both are one size it is taken to be stored as the image is.
        """
        own = apply_orientation(self.values, self.orientation)
        upright = (width, height) if orientation > 4 else (height, width)
        is_turned_already = self.orientation > 1 or (own.shape == upright and own.shape != (height, width))
        if own.shape != (upright if is_turned_already else (height, width)):
            raise DataError(
                f"{shown} is {self.values.shape[1]} x {self.values.shape[0]} px and its image {width} x {height} px; "
                "expected the same size: resize masks without blending (nearest neighbour), or images."
            )
        return own if is_turned_already else apply_orientation(own, orientation)


def read_stored_mask(opened: Image.Image) -> StoredMask:
    """The values of a mask that Pillow has opened; transparent pixels of colours are black.

    Colours whose three channels are equal everywhere are grey levels.
    """
    opened.load()
    is_lossy = opened.format in ("JPEG", "MPO", "WEBP", "HEIF", "AVIF")
    how: dict[str, Any] = {"is_lossy": is_lossy, "orientation": read_orientation(opened)}
    if opened.mode == "P":
        colours = np.array(opened.getpalette("RGB") or [], np.int32).reshape(-1, 3)
        return StoredMask(np.asarray(opened).astype(np.int32), "palette", palette=encode_colours(colours), **how)
    if opened.mode in ("1", "L", "I", "I;16", "I;16B", "LA"):
        grey = np.asarray(opened)
        return StoredMask((grey[..., 0] if grey.ndim == 3 else grey).astype(np.int32), "grey", **how)
    if opened.mode == "F":
        raise ValueError("it holds floating point")
    if opened.mode == "RGB":
        colours = np.asarray(opened)
    else:
        pixels = np.asarray(opened.convert("RGBA"))
        colours = pixels[..., :3] * (pixels[..., 3:] > 0)
    if (colours[..., 0] == colours[..., 1]).all() and (colours[..., 0] == colours[..., 2]).all():
        return StoredMask(colours[..., 0].astype(np.int32), "grey", **how)
    return StoredMask(encode_colours(colours), "colour", **how)


def read_stored_array(values: np.ndarray) -> StoredMask:
    """The values of a mask that is an array, (height, width) of whole numbers; ValueError of any other."""
    if values.ndim != 2 or values.dtype.kind not in "iub":
        raise ValueError(f"it is {values.dtype} {values.shape}, expected whole numbers (height, width)")
    if values.size and not -(1 << 31) <= int(values.min()) <= int(values.max()) < 1 << 31:
        raise ValueError(f"it holds {int(values.max())}, expected numbers of classes")
    return StoredMask(values.astype(np.int32), "grey")


def encode_colours(colours: np.ndarray) -> np.ndarray:
    """Colours (..., 3) as numbers 0xrrggbb, int32 (...)."""
    red, green, blue = (colours[..., channel].astype(np.int32) for channel in range(3))
    return np.asarray(red << 16 | green << 8 | blue)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassNames:
    """What a file, or a layout, says of classes."""

    source: str  # what messages call it
    by_value: Mapping[int, str] = field(default_factory=dict)  # by the stored value
    by_colour: Mapping[int, str] = field(default_factory=dict)
    is_list: bool = False  # names in their order, so that the first value may be of the background
    ignored: frozenset[int] = frozenset()
    are_others_ignored: bool = False  # values that have no name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskCoding:
    """From stored values to numbers of classes."""

    classes: tuple[str, ...]
    kind: str  # of stored values, "number" or "colour"
    values: np.ndarray  # int64 (n,), ascending
    numbers: np.ndarray  # int64 (n,): the class of each value, -1 where ignored
    is_halved: bool = False  # values below 128 are 0, the others 255

    def facts(self) -> list[str | np.ndarray]:
        """All that decides the class of a value."""
        return [*self.classes, self.kind, str(self.is_halved), self.values.astype("<i8"), self.numbers.astype("<i8")]

    def decode(self, stored: StoredMask) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of classes, float32 (h, w, 1), 0 where not valid; valid pixels, bool (h, w); values without class."""
        values = convert_kind(stored, self.kind).values
        if self.is_halved:
            values = np.where(values >= 128, 255, 0)
        places = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        unknown = self.values[places] != values
        numbers = np.where(unknown, IGNORED, self.numbers[places])
        valid = numbers != IGNORED
        return np.where(valid, numbers, 0).astype(np.float32)[:, :, None], valid, np.unique(values[unknown])


def convert_kind(stored: StoredMask, kind: str) -> StoredMask:
    """The mask with its values as numbers, or as the colours that palettes and grey levels are shown in."""
    if kind != "colour" or stored.kind in ("colour", "classes"):
        return stored
    if stored.palette is not None:
        return stored._replace(values=stored.palette[np.minimum(stored.values, len(stored.palette) - 1)])
    return stored._replace(values=stored.values * 0x010101)


class MaskSurvey(NamedTuple):
    """What one mask holds."""

    counts: dict[int, int]  # pixels of each value
    kind: str
    is_lossy: bool
    palette: dict[int, int]  # the colour of each index that occurs


def count_mask_values(stored: StoredMask) -> MaskSurvey:
    """The values of a mask and how many pixels have them."""
    if stored.values.size and stored.values.min() >= 0 and stored.values.max() < 1 << 16:
        n_of_each = np.bincount(stored.values.reshape(-1))
        values = np.flatnonzero(n_of_each)
        counts = dict(zip(values.tolist(), n_of_each[values].tolist(), strict=True))
    else:
        flat = stored.values.reshape(-1)  # whose runs are few, as areas are of one colour
        starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]])[: flat.size])
        lengths = np.diff(starts, append=flat.size)
        found, of_run = np.unique(flat[starts], return_inverse=True)
        n_of_each = np.bincount(of_run, weights=lengths)
        counts = {int(value): int(n) for value, n in zip(found, n_of_each, strict=True)}
    colours = (
        {}
        if stored.palette is None
        else {one: int(stored.palette[min(one, len(stored.palette) - 1)]) for one in counts}
    )
    return MaskSurvey(counts, stored.kind, stored.is_lossy, colours)


def build_class_coding(classes: tuple[str, ...]) -> MaskCoding:
    """The coding of masks whose values are numbers of classes already."""
    numbers = np.arange(IGNORED, len(classes))
    return MaskCoding(classes=classes, kind="number", values=numbers, numbers=numbers)


def infer_coding(
    surveys: Sequence[MaskSurvey], named: ClassNames | None, ignore: Sequence[str], *, shown: Sequence[str]
) -> tuple[MaskCoding, list[str]]:
    """Which class each stored value of some masks is, and notes on what was found.

    ``ignore`` has values, colours or names of classes that are no class; ``shown`` is what messages call each mask.
    """
    named, notes = _as_colours(named or ClassNames(source=""), surveys)
    kind = "colour" if named.by_colour or _are_colours(surveys) else "number"
    counts: Counter[int] = Counter()
    for one in surveys:
        for value, n in one.counts.items():
            counts[_colour_of(one, value) if kind == "colour" else value] += n
    is_halved = kind == "number" and _is_smeared(counts, any(one.is_lossy for one in surveys))
    if is_halved:
        notes.append("masks of 0 and 255 with values in between, as JPEG and resizing make them, were cut at 128")
        counts = Counter({255 * (value >= 128): 1 for value in counts})
        surveys = [one._replace(counts={255 * (value >= 128): 1 for value in one.counts}) for one in surveys]
    elif lossy := [at for at, one in enumerate(surveys) if one.is_lossy and len(one.counts) > 2]:
        n = len(surveys[lossy[0]].counts)
        raise DataError(
            f"{shown[lossy[0]]} has {n:,} different values and is of a format that smears them, so that pixels at "
            "borders would be of wrong classes; expected masks as PNG."
        )
    number_of, classes, more = (_colours if kind == "colour" else _numbers)(counts, named)
    values = np.array(sorted(number_of), np.int64)
    numbers = np.array([number_of[value] for value in values.tolist()], np.int64)
    whole = MaskCoding(classes=classes, kind=kind, values=values, numbers=numbers, is_halved=is_halved)
    coding, ignored = ignore_classes(whole, ignore)
    _require_known(surveys, counts, {*coding.values.tolist()}, named, shown, kind)
    return coding, [*notes, *more, *ignored]


def _are_colours(surveys: Sequence[MaskSurvey]) -> bool:
    """Whether a mask has colours, or an index of a palette is another colour in another mask."""
    colour_of: dict[int, int] = {}
    is_other = any(
        colour_of.setdefault(index, colour) != colour for one in surveys for index, colour in one.palette.items()
    )
    return is_other or any(one.kind == "colour" for one in surveys)


def _colour_of(survey: MaskSurvey, value: int) -> int:
    return value if survey.kind == "colour" else survey.palette.get(value, value * 0x010101)


def _as_colours(named: ClassNames, surveys: Sequence[MaskSurvey]) -> tuple[ClassNames, list[str]]:
    """The names by colour where masks have these colours, else by number in the order of their file."""
    if not named.by_colour or _are_colours(surveys):
        return (named if named.by_colour and _are_colours(surveys) else replace(named, by_colour={})), []
    used = {_colour_of(one, value) for one in surveys for value in one.counts}
    if used <= named.by_colour.keys():
        return named, []
    by_value = named.by_value or dict(enumerate(named.by_colour.values()))
    said = f"masks hold numbers, not the colours of {named.source}: they are taken for the order of its classes"
    return replace(named, by_colour={}, by_value=by_value, is_list=True), [said]


def _is_smeared(counts: Mapping[int, int], is_lossy: bool) -> bool:
    """Whether values are 0 and 255 but for those that compression and resizing put between them, of all heights."""
    between = [value for value in counts if 0 < value < 255]
    share = (counts.get(0, 0) + counts.get(255, 0)) / max(1, sum(counts.values()))
    is_all_heights = all(any(low <= value < low + 64 for value in between) for low in (0, 64, 128, 192))
    is_many = is_lossy or (len(between) >= _SMEARED_FROM and is_all_heights)
    return bool(between) and max(counts) == 255 and share >= _SMEARED_SHARE and is_many


def _numbers(counts: Mapping[int, int], named: ClassNames) -> tuple[dict[int, int], tuple[str, ...], list[str]]:
    """The class of each number that masks hold."""
    found, notes = sorted(counts), list[str]()
    by_value = dict(named.by_value)
    is_binary = found == [0, 255] and len(by_value) <= 2
    largest = [value for value in _USUALLY_IGNORED if value in found and value not in by_value and not is_binary]
    ignored = {*named.ignored, *largest, *(value for value in found if value < 0)}
    if named.are_others_ignored:
        ignored |= set(found) - by_value.keys()
    kept = [value for value in found if value not in ignored]
    if by_value and kept and set(kept) <= {0, kept[-1]} and kept[-1] not in by_value and len(by_value) <= 2:
        names = [*by_value.values()]
        by_value = dict(zip((0, kept[-1]), names if len(names) == 2 else (BACKGROUND, *names), strict=True))
    elif named.is_list and kept and kept[-1] == len(by_value):  # names begin with 1
        by_value = {value + 1: name for value, name in by_value.items()} | ({0: BACKGROUND} if 0 in kept else {})
        is_said = f", and 0 for {BACKGROUND}" if 0 in kept else ""
        notes.append(f"1 was taken for the first class of {named.source}{is_said}")
    elif not by_value and kept == [0, 255]:
        by_value = {0: BACKGROUND, 255: FOREGROUND}
    elif not by_value:
        by_value = {value: str(value) for value in kept}
    order = sorted(by_value)
    number_of = {value: number for number, value in enumerate(order)} | dict.fromkeys(ignored, IGNORED)
    if gone := sorted(ignored & set(found)):
        notes.append(f"pixels of {format_list(gone)} are ignored")
    return number_of, tuple(by_value[value] for value in order), notes


def _colours(counts: Mapping[int, int], named: ClassNames) -> tuple[dict[int, int], tuple[str, ...], list[str]]:
    """The class of each colour; those that no file names are classes by themselves, which is said."""
    if named.by_colour:
        classes = tuple(dict.fromkeys(named.by_colour.values()))
        return {colour: classes.index(name) for colour, name in named.by_colour.items()}, classes, []
    found = sorted(counts)
    if len(found) > _MOST_COLOURS:
        raise DataError(
            f"Masks have {len(found):,} colours, such as {format_list(map(format_colour, found), 3)}; expected one per "
            f"class, at most {_MOST_COLOURS}, as PNG keeps them, or a file class_dict.csv of name,r,g,b next to them."
        )
    classes = tuple(map(format_colour, found))
    said = f"{format_count(len(found), 'colour')} of masks are the classes: {format_list(classes, 12)}"
    how = "a file class_dict.csv of name,r,g,b next to them names them"
    return {colour: number for number, colour in enumerate(found)}, classes, [f"{said}; {how}"]


def ignore_classes(coding: MaskCoding, ignore: Sequence[str]) -> tuple[MaskCoding, list[str]]:
    """The coding without some classes, by stored value, colour or name, others numbered anew; and a note."""
    if not ignore:
        return coding, []
    number_of = dict(zip(coding.values.tolist(), coding.numbers.tolist(), strict=True))
    gone = set[int]()
    for text in ignore:
        colour = _COLOUR.fullmatch(text) if coding.kind == "colour" else None
        value = int(colour[1], 16) if colour else int(text) if text.isdecimal() else None
        if text in coding.classes:
            gone.add(coding.classes.index(text))
        elif value is not None and (value in number_of or coding.kind == "number"):
            gone.add(number_of.setdefault(value, IGNORED))
        else:
            raise QueryError(
                f"{text!r} was to be ignored, and is no value or class of the masks; expected one of "
                f"{format_list(coding.classes, 12)}."
            )
    left = [number for number in range(len(coding.classes)) if number not in gone]
    place = {number: at for at, number in enumerate(left)}
    values = np.array(sorted(number_of), np.int64)
    numbers = np.array([place.get(number_of[value], IGNORED) for value in values.tolist()], np.int64)
    names = [coding.classes[number] for number in sorted(gone - {IGNORED})]
    said = [f"pixels of {format_list(names)} are ignored, as asked"] * bool(names)
    kept = tuple(coding.classes[number] for number in left)
    return replace(coding, classes=kept, values=values, numbers=numbers), said


def _require_known(
    surveys: Sequence[MaskSurvey],
    counts: Mapping[int, int],
    known: Set[int],
    named: ClassNames,
    shown: Sequence[str],
    kind: str,
) -> None:
    """Refuses values that are of no class, or far too many of them."""
    if len(known) > _MOST_CLASSES and not named.source:
        raise DataError(
            f"Masks have {len(known):,} different values, such as {format_list(known)}; expected numbers of classes, "
            "and no instances or depth."
        )
    unknown = sorted(counts.keys() - known)
    if not unknown:
        return
    at = next(
        at
        for at, one in enumerate(surveys)
        if not known >= {_colour_of(one, value) if kind == "colour" else value for value in one.counts}
    )
    write = format_colour if kind == "colour" else str
    share = 100 * sum(counts[value] for value in unknown) / sum(counts.values())
    raise DataError(
        f"{format_count(len(unknown), 'value')} of masks, {share:.2g} % of their pixels, are none of the classes of "
        f"{named.source}, such as {format_list(map(write, unknown), 3)}, the first in {shown[at]}; expected those "
        f"alone: name them, or ignore them (--ignore {write(unknown[0])})."
    )


def format_colour(packed: int) -> str:
    """A colour as #rrggbb."""
    return f"#{packed:06x}"


_NAME_FILES = (
    *("objectInfo150.txt", "class_dict.csv", "labelmap.txt", "label_colors.txt", "classes.csv", "colors.csv"),
    *("classes.txt", "labels.txt", "class_names.txt", "label_names.txt", "names.txt", "classes.json", "labels.json"),
    *("class_names.json", "label_names.json", "id2label.json", "colors.json"),
)
_COLOUR_LINE = re.compile(r"(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\S.*)")  # as of CamVid
_CVAT_LINE = re.compile(r"([^:]+):(\d{1,3}),(\d{1,3}),(\d{1,3})(?::.*)?")
_NUMBERED = re.compile(r"(\d+)\s*[:,;\t ]\s*(\S.*)")


def find_class_names(folders: Sequence[Path]) -> ClassNames | None:
    """What the first file of names of classes in some folders says; its values are numbers or colours."""
    file = next((folder / name for folder in folders for name in _NAME_FILES if (folder / name).is_file()), None)
    if file is None:
        return None
    if file.name == "objectInfo150.txt":  # of ADE20K's challenge: 0 is all else
        lines = [line.split("\t") for line in read_text(file).splitlines()[1:] if line.strip()]
        names = {int(cells[0]): cells[-1].strip().split(",")[0] for cells in lines}
        return ClassNames(source=file.name, by_value=names, ignored=frozenset([0]))
    read = {".json": _names_of_json, ".csv": _names_of_csv}.get(file.suffix, _names_of_text)
    try:
        found = read(read_text(file), file.name)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise DataError(
            f"{file} says no names of classes ({error}); expected a name per line, a number or three of a colour and a "
            "name, or JSON of them."
        ) from error
    return found if found.by_value or found.by_colour else None


def _names_of_text(text: str, source: str) -> ClassNames:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and all(match := [_COLOUR_LINE.fullmatch(line) for line in lines]):
        return ClassNames(source=source, by_colour={_pack(*one.groups()[:3]): one[4] for one in match if one})
    if lines and all(match := [_CVAT_LINE.fullmatch(line) for line in lines]):
        return ClassNames(source=source, by_colour={_pack(*one.groups()[1:]): one[1] for one in match if one})
    if lines and all(match := [_NUMBERED.fullmatch(line) for line in lines]):
        return ClassNames(source=source, by_value={int(one[1]): one[2] for one in match if one})
    return ClassNames(source=source, by_value=dict(enumerate(lines)), is_list=True)


def _names_of_csv(text: str, source: str) -> ClassNames:
    rows = list(csv.DictReader(io.StringIO(text)))
    rows = [{key.strip().casefold(): cell.strip() for key, cell in row.items() if key} for row in rows]
    of_name = next(key for key in ("name", "class", "label", "class_name") if key in rows[0])
    colour = next((keys for keys in (("r", "g", "b"), ("red", "green", "blue")) if keys[0] in rows[0]), None)
    if colour:
        return ClassNames(source=source, by_colour={_pack(*(row[key] for key in colour)): row[of_name] for row in rows})
    of_value = next((key for key in ("id", "value", "index", "number") if key in rows[0]), None)
    values = range(len(rows)) if of_value is None else (int(row[of_value]) for row in rows)
    names = dict(zip(values, (row[of_name] for row in rows), strict=True))
    return ClassNames(source=source, by_value=names, is_list=of_value is None)


def _names_of_json(text: str, source: str) -> ClassNames:
    held = json.loads(text)
    if isinstance(held, list) and all(isinstance(one, str) for one in held):
        return ClassNames(source=source, by_value=dict(enumerate(held)), is_list=True)
    if isinstance(held, list):
        if all("color" in one for one in held) and not any("id" in one for one in held):
            return ClassNames(source=source, by_colour={_pack(*one["color"]): one["name"] for one in held})
        return ClassNames(source=source, by_value={int(one["id"]): one["name"] for one in held})
    if all(isinstance(one, list) for one in held.values()):
        return ClassNames(source=source, by_colour={_pack(*one): name for name, one in held.items()})
    if all(isinstance(one, int) for one in held.values()):
        return ClassNames(source=source, by_value={value: name for name, value in held.items()})
    return ClassNames(source=source, by_value={int(value): str(name) for value, name in held.items()})


def _pack(*channels: Any) -> int:
    red, green, blue = (int(one) for one in channels)
    if not all(0 <= one < 256 for one in (red, green, blue)):
        raise ValueError(f"the colour {red}, {green}, {blue}")
    return red << 16 | green << 8 | blue
