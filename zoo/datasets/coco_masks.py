"""Masks in COCO's JSON: polygons, run lengths and panoptic segments as a map of the classes of an image."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, format_count
from ..optional import require_extra
from .annotations import find_image_root
from .image_files import DECODING_ERRORS
from .images import hash_encoded_images, hash_image_files
from .mask_values import BACKGROUND, IGNORED, StoredMask
from .tables import read_text

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

_EXPECTED = (
    "expected images with id, file_name, height and width, annotations with image_id, category_id and segmentation, "
    "and categories with id and name"
)


@dataclass(frozen=True, slots=True, eq=False)
class CocoMasks:
    """The masks of one file, by the number of an image; picklable.

    A pixel has the class of the objects that it is in, and 0, the background, in none. It is ignored where objects of
    two classes overlap, and in crowds (``iscrowd``), whose outlines are rough.
    """

    file: str
    root: Path  # that paths of images are below
    paths: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]  # height and width of each image
    objects: tuple[tuple[tuple[int, bool, Any], ...], ...]  # of each: number of the class, is a crowd, segmentation
    classes: tuple[str, ...]

    def __call__(self, number: int) -> StoredMask:
        """The numbers of the classes, -1 where ignored."""
        height, width = self.sizes[number]
        found = np.zeros((height, width), np.int32)
        crowded = np.zeros((height, width), bool)
        for class_number, is_crowd, segmentation in self.objects[number]:
            try:
                inside = decode_segmentation(segmentation, height, width)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise DataError(
                    f"{self.file} has a segmentation of {self.paths[number]!r} that cannot be read ({error}); expected "
                    f"polygons, or run lengths of {height} x {width} pixels."
                ) from error
            if is_crowd:
                crowded |= inside
            else:
                found[inside] = np.where(np.isin(found[inside], (0, class_number)), class_number, IGNORED)
        found[crowded & (found == 0)] = IGNORED
        return StoredMask(found, "classes")

    @property
    def contents(self) -> np.ndarray:
        """A hash of the objects of each image, uint64 (n,)."""
        both = zip(self.sizes, self.objects, strict=True)
        return hash_encoded_images(json.dumps(one, sort_keys=True).encode() for one in both)

    def describe_objects(self) -> list[str]:
        """A note on how objects became classes."""
        are_crowds = [is_crowd for some in self.objects for _, is_crowd, _ in some]
        crowds = f", and {format_count(sum(are_crowds), 'crowd')}" if any(are_crowds) else ""
        said = format_count(len(are_crowds), "object")
        return [f"{said} of {self.file} became classes; overlaps of two classes{crowds} are ignored"]


@dataclass(frozen=True, slots=True, eq=False)
class PanopticMasks:
    """COCO's panoptic masks of one file, by the number of an image: PNG whose colours number segments; picklable.

    A pixel has the class of its segment. It is ignored in crowds, and where it is of none (black).
    """

    file: str
    root: Path  # that paths of images are below
    paths: tuple[str, ...]
    masks: tuple[str, ...]  # the PNG of each
    segments: tuple[Mapping[int, int], ...]  # of each: the class of each segment, -1 of crowds
    classes: tuple[str, ...]

    def __call__(self, number: int) -> StoredMask:
        """The numbers of the classes, -1 where ignored."""
        try:
            with Image.open(self.masks[number]) as opened:
                colours = np.asarray(opened.convert("RGB"), np.int32)
        except DECODING_ERRORS as error:
            raise DataError(
                f"The mask {self.masks[number]} of {self.file} cannot be read ({error}); restore it."
            ) from error
        ids, places = np.unique(colours @ np.array([1, 1 << 8, 1 << 16]), return_inverse=True)
        known = {0: IGNORED, **self.segments[number]}
        if unknown := [one for one in ids.tolist() if one not in known]:
            raise DataError(
                f"The mask {self.masks[number]} holds the segment {unknown[0]}, which {self.file} does not list; "
                "expected R + 256 G + 65536 B to be an id in segments_info."
            )
        found = np.array([known[one] for one in ids.tolist()], np.int32)[places.reshape(-1)]
        return StoredMask(found.reshape(colours.shape[:2]), "classes")

    @property
    def contents(self) -> np.ndarray:
        """A hash of the mask and the segments of each image, uint64 (n,)."""
        files = hash_image_files(list(self.masks))
        listed = zip(files.tolist(), self.segments, strict=True)
        return hash_encoded_images(json.dumps([one, sorted(some.items())]).encode() for one, some in listed)

    def describe_objects(self) -> list[str]:
        """A note on how segments became classes."""
        n = sum(map(len, self.segments))
        return [f"{format_count(n, 'segment')} of {self.file} became classes; crowds, and pixels of none, are ignored"]


def is_coco_file(file: Path) -> bool:
    """Whether a file is COCO's JSON with a segmentation, or with segments of panoptic masks."""
    if file.suffix.lower() != ".json" or not file.is_file():
        return False
    try:
        held = json.loads(read_text(file))
    except (ValueError, RecursionError):
        return False
    annotations = held.get("annotations") if isinstance(held, dict) and "images" in held else None
    some = [one for one in annotations if isinstance(one, dict)] if isinstance(annotations, list) else []
    return any("segmentation" in one or "segments_info" in one for one in some)


def read_coco_masks(file: Path) -> CocoMasks | PanopticMasks:
    """The masks of a file with all of its images, also those without an object; DataError says what is wrong."""
    try:
        held = json.loads(read_text(file))
        if any("segments_info" in one for one in held["annotations"]):
            return _read_panoptic(file, held)
        categories = sorted(held["categories"], key=lambda one: one["id"])
        number_of = {one["id"]: number for number, one in enumerate(categories, 1)}
        objects: dict[Any, list[tuple[int, bool, Any]]] = {one["id"]: [] for one in held["images"]}
        for one in held["annotations"]:
            segmentation = one.get("segmentation") or []
            objects[one["image_id"]] += [(number_of[one["category_id"]], bool(one.get("iscrowd")), segmentation)]
        images = {one["id"]: one for one in held["images"]}
        sizes = tuple((int(one["height"]), int(one["width"])) for one in images.values())
        paths, names = tuple(one["file_name"] for one in images.values()), [one["name"] for one in categories]
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} has no {error} where COCO's JSON has it; {_EXPECTED}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is no JSON ({error}); check it.") from error
    if boxes := sum(not segmentation for some in objects.values() for *_, segmentation in some):
        n = sum(map(len, objects.values()))
        raise DataError(f"{boxes:,} of {n:,} objects of {file} have no segmentation; {_EXPECTED}.")
    root = file.parent / find_image_root(file, next(iter(paths), ""))
    return CocoMasks(
        file=str(file),
        root=root,
        paths=paths,
        sizes=sizes,
        objects=tuple(tuple(objects[key]) for key in images),
        classes=(BACKGROUND, *names),
    )


def _read_panoptic(file: Path, held: Any) -> PanopticMasks:
    """The images of a panoptic file that have a mask; its PNG are in the folder of its name, or alike."""
    categories = sorted(held["categories"], key=lambda one: one["id"])
    number_of = {one["id"]: number for number, one in enumerate(categories)}
    path_of = {one["id"]: one["file_name"] for one in held["images"]}
    annotations = held["annotations"]
    masks, paths = [one["file_name"] for one in annotations], [path_of[one["image_id"]] for one in annotations]
    own = file.with_suffix("")
    root = own if (own / masks[0]).is_file() else file.parent / find_image_root(file, masks[0])
    if missing := [name for name in masks if not (root / name).is_file()]:
        raise DataError(
            f"{len(missing):,} of {len(masks):,} masks of {file} are not there, the first is {missing[0]!r}, looked "
            f"for in {root}; put them into {own}/."
        )
    return PanopticMasks(
        file=str(file),
        root=file.parent / find_image_root(file, paths[0]),
        paths=tuple(paths),
        masks=tuple(str(root / name) for name in masks),
        segments=tuple(
            {int(s["id"]): IGNORED if s.get("iscrowd") else number_of[s["category_id"]] for s in one["segments_info"]}
            for one in annotations
        ),
        classes=tuple(one["name"] for one in categories),
    )


def decode_segmentation(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Where an object is, bool (height, width), of polygons, run lengths or compressed run lengths of COCO."""
    if isinstance(segmentation, list):
        inside = np.zeros((height, width), bool)
        for polygon in segmentation:
            inside |= fill_polygon(polygon, height, width)
        return inside
    counts = segmentation["counts"]
    runs = _decompress(counts) if isinstance(counts, str | bytes) else np.asarray(counts, np.int64)
    rows, columns = segmentation["size"]
    if (rows, columns) != (height, width) or (runs < 0).any() or runs.sum() != height * width:
        raise ValueError(f"run lengths of {rows} x {columns} with {runs.sum():,} pixels")
    values = np.repeat(np.arange(len(runs)) % 2 == 1, runs)  # outside first, then inside and outside by turns
    return values.reshape(width, height).T  # column by column


def _decompress(counts: str | bytes) -> np.ndarray:
    """Run lengths from COCO's text, as its maskApi.c writes them.

    A number has 5 bits per character, lowest first, with 32 where more follow; the last one's 16 is the sign. From the
    third number on it is the difference from the number two before.
    """
    codes = [ord(one) - 48 for one in (counts.decode("ascii") if isinstance(counts, bytes) else counts)]
    runs: list[int] = []
    value = shift = 0
    for code in codes:
        value |= (code & 31) << shift
        shift += 5
        if code & 32:
            continue
        value -= (1 << shift) * (code >> 4 & 1)
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    return np.array(runs, np.int64)


def fill_polygon(polygon: Sequence[float] | Mapping[str, Any], height: int, width: int) -> np.ndarray:
    """The pixels whose centres are inside a polygon x1, y1, x2, y2, ..., bool (height, width), by the even-odd rule.

    Pillow's ImageDraw rounds corners to whole pixels and fills the outline, too: objects become half a pixel larger on
    all sides.

    >>> fill_polygon([0.5, 0, 2.4, 0, 2.4, 2, 0.5, 2], 2, 4).astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0]]
    """
    corners = np.asarray(polygon, np.float64).reshape(-1, 2)
    if not np.isfinite(corners).all():
        raise ValueError("a corner is not finite")
    crossings = np.zeros((height, width + 1), np.int64)
    for (x, y), (x_next, y_next) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        # rows whose centre line, at row + 1/2, an edge crosses: the lower end belongs to it and the upper does not
        first, last = (int(np.clip(np.ceil(end - 0.5), 0, height)) for end in sorted((y, y_next)))
        rows = np.arange(first, last)
        if len(rows):
            crossed = x + (rows + 0.5 - y) * (x_next - x) / (y_next - y)
            columns = np.clip(np.ceil(crossed - 0.5), 0, width).astype(np.int64)  # the first centre to the right of it
            np.add.at(crossings, (rows, columns), 1)
    return np.asarray(np.cumsum(crossings, axis=1)[:, :width] % 2 == 1)
