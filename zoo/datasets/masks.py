"""Images with masks of semantic segmentation, in the layouts that people keep them in.

A source pairs images and masks (:func:`open_mask_folder`, :func:`open_mask_file`, :func:`open_mask_shards`), and
:func:`build_mask_data` looks at all masks: at their sizes, the values in them, and which classes these are.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CorruptImage, DataError, QueryError, format_count, format_list
from ..files import map_in_threads, open_regular
from ..optional import require_extra
from .annotations import read_annotations
from .coco_masks import CocoMasks, PanopticMasks, is_coco_file, read_coco_masks
from .dense import CLASS, NUMBERS_OF_CLASSES, DenseData, Maps, MapSet
from .folders import ImageTree, list_tree, make_files_image_set
from .image_files import (
    ARRAY_ERRORS,
    DECODING_ERRORS,
    SUFFIXES,
    DisplayOptions,
    format_reason,
    read_image_grid,
    read_opened_grid,
)
from .images import ImageSet, compute_digest, hash_encoded_images, hash_image_files
from .mask_values import (
    BACKGROUND,
    CITYSCAPES_CLASSES,
    CITYSCAPES_IDS,
    IGNORED,
    VOC_CLASSES,
    ClassNames,
    MaskCoding,
    MaskSurvey,
    StoredMask,
    build_class_coding,
    count_mask_values,
    find_class_names,
    ignore_classes,
    infer_coding,
    read_stored_array,
    read_stored_mask,
)
from .split_names import MASK_WORDS, find_part, is_generic_name
from .subsets import split_positions_by_hash
from .tables import (
    LabelTable,
    find_image_column,
    find_table_split,
    group_table_rows,
    hash_group_column,
    locate_images,
    read_text,
    suggest_groups,
)

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

if TYPE_CHECKING:
    from .shards import EncodedImages
    from .sources import SourceRequest

MASK_NAMES = ("mask", "mask_path", "mask_file", "segmentation", "annotation", "label", "label_path", "gt", "target")
"""Usual names of a column of masks."""

MASKS = "masks-1"
"""Name of the way from files to masks; part of the fingerprint, and new whenever a value would change."""

_OTHER_MAPS = {"segmentationobject", "gtcoarse", "instances", "panoptic", "depth", "normals", "superpixels"}
_MASK_ENDING = re.compile(
    r"(.+?)[\W_]+(?:gtFine[\W_]+label(?:Train)?Ids|masks?|labels?|seg|segmentation|gt|annotation|L)", re.IGNORECASE
)
_IMAGE_ENDING = re.compile(r"(.+?)[\W_]+(?:leftImg8bit|image|img|rgb|sat)")
_BEGINNING = re.compile(r"(?:image|img|mask|label|seg|gt)[\W_]+(.+)")
_ARRAY = ".npy"
_CITYSCAPES = ("_labelIds", "_labelTrainIds")

Grid = tuple[int, int, int]  # width and height as stored, and the orientation of EXIF


@dataclass(frozen=True, slots=True, eq=False)
class FileMasks:
    """Masks in files, one per image, or one per class of an image: by the number of the image; picklable."""

    root: str
    paths: tuple[tuple[tuple[int, str], ...], ...]  # of each image: numbers of classes, 0 of a whole mask, and paths
    image_set: str

    def __call__(self, number: int) -> StoredMask:
        """The stored mask, or the classes of several; where two of these overlap it is ignored."""
        if self.paths[number][0][0] == 0:
            return self._read(self.paths[number][0][1])
        found: np.ndarray | None = None
        for class_number, path in self.paths[number]:
            inside = self._read_one_class(path)
            found = np.zeros(inside.shape, np.int32) if found is None else found
            if inside.shape != found.shape:
                raise DataError(
                    f"The masks {path!r} and {self.paths[number][0][1]!r} of {self.image_set!r} are not of one size; "
                    "expected one size for all classes of an image."
                )
            found[inside] = np.where(found[inside] == 0, class_number, IGNORED)
        assert found is not None  # there is a path
        return StoredMask(found, "classes")

    def _read_one_class(self, path: str) -> np.ndarray:
        """Where a mask of one class is, bool: 0 and one other value, with few between where it was compressed."""
        values = self._read(path).values
        most = values.max()
        if np.isin(values, (0, most)).mean() < 0.8:
            raise DataError(
                f"The mask {path!r} of {self.image_set!r} was taken for one of a single class, by its name, and holds "
                f"{len(np.unique(values))} values; expected 0 and one other, or masks of all classes with the names of "
                "their images."
            )
        return np.asarray((values > most // 2) & (values > 0))

    def _read(self, path: str) -> StoredMask:
        file = os.path.join(self.root, path)
        try:
            with open_regular(file) as stream:
                if path.lower().endswith(_ARRAY):
                    return read_stored_array(np.load(stream, allow_pickle=False))
                with Image.open(stream) as opened:
                    return read_stored_mask(opened)
        except (*DECODING_ERRORS, *ARRAY_ERRORS) as error:
            raise DataError(
                f"The mask {path!r} of {self.image_set!r} cannot be read ({format_reason(error)}); restore it, or "
                "remove it and its image."
            ) from error

    @property
    def contents(self) -> np.ndarray:
        """A hash of the files of each image, uint64 (n,)."""
        n_of_each = [len(some) for some in self.paths]
        hashes = hash_image_files([os.path.join(self.root, path) for some in self.paths for _, path in some])
        parts = np.split(hashes, np.cumsum(n_of_each)[:-1])
        return hash_encoded_images(part.astype("<u8").tobytes() for part in parts)


@dataclass(frozen=True, slots=True, eq=False)
class ShardMasks:
    """Masks in a column of shards, by the number of the image; picklable."""

    encoded: EncodedImages

    def __call__(self, number: int) -> StoredMask:
        """The stored mask."""
        try:
            with self.encoded.opened(number) as opened:
                return read_stored_mask(opened)
        except DECODING_ERRORS as error:
            raise DataError(
                f"The mask of {self.encoded.names[number]!r} of {self.encoded.show.image_set!r} cannot be read "
                f"({format_reason(error)}); restore it, or leave its row out."
            ) from error

    def grid(self, number: int) -> Grid:
        """Of images, not of masks."""
        with self.encoded.opened(number) as opened:
            return read_opened_grid(opened)


@dataclass(frozen=True, slots=True, eq=False)
class PairedPart:
    """The images of a part with their masks, in the same order."""

    images: ImageSet
    stored: Callable[[int], StoredMask]
    grid: Callable[[int], Grid]
    contents: np.ndarray  # of the masks
    masks: Sequence[str]  # what each mask is called

    def shown(self, number: int) -> str:
        """What messages call a mask."""
        return f"The mask {self.masks[number]!r} of {self.images.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class CodedMasks:
    """Masks of a part on the pixels of their upright images."""

    part: PairedPart
    grids: tuple[Grid, ...]
    coding: MaskCoding

    def __call__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of classes, float32 (height, width, 1), and valid pixels, bool (height, width)."""
        width, height, orientation = self.grids[number]
        shown = self.part.shown(number)
        stored = self.part.stored(number)
        upright = stored._replace(values=stored.turn_upright(height, width, orientation, shown))
        values, valid, unknown = self.coding.decode(upright)
        if len(unknown):
            raise DataError(
                f"{shown} has changed since the image set was opened, and holds {format_list(unknown)}; open the set "
                "again."
            )
        return values, valid


def build_mask_data(
    parts: Sequence[PairedPart], named: ClassNames | tuple[str, ...] | None, asked: SourceRequest, notes: Sequence[str]
) -> DenseData:
    """The data set of a training and a test part, or of one that is split here by the hash of each name.

    ``named`` is what is known of classes, or all of them where stored values are their numbers. Every mask is read
    once: for its size, and for the values that say what the classes are. Images of whose masks all pixels are ignored
    are left out. The fingerprint of a part is over its images, the bytes of the masks, and the coding.
    """
    name, surveys, grids = parts[0].images.name, [], []
    for part in parts:
        found = map_in_threads(partial(_survey, part), range(len(part.images)))
        surveys.append([survey for survey, _ in found])
        grids.append(tuple(grid for _, grid in found))
    if isinstance(named, tuple):
        coding, said = ignore_classes(build_class_coding(named), asked.ignore_labels)
    else:
        shown = [part.shown(number) for part in parts for number in range(len(part.images))]
        coding, said = infer_coding([one for some in surveys for one in some], named, asked.ignore_labels, shown=shown)
    sets, presence = [], []
    for part, some, of_part in zip(parts, surveys, grids, strict=True):
        has = np.array([_classes_in(one, coding) for one in some])  # (n, n_classes)
        kept = np.flatnonzero(has.any(axis=1))
        if len(kept) < len(has):
            n, first = len(has) - len(kept), part.images.names[int(np.flatnonzero(~has.any(axis=1))[0])]
            masks = format_count(n, "image is", "images are")
            said.append(f"{masks} left out, for all pixels of the mask are ignored, the first is {first!r}")
        whole = MapSet(
            images=part.images,
            maps=Maps(CodedMasks(part, of_part, coding), np.arange(len(has))),
            task="segmentation",
            unit=NUMBERS_OF_CLASSES,
            fingerprint=compute_digest([MASKS, part.images.fingerprint, part.contents.astype("<u8"), *coding.facts()]),
            classes=coding.classes,
        )
        sets.append(whole.subset(kept, split=part.images.split))
        presence.append(has[kept])
    is_split_here = len(sets) == 1
    if is_split_here:
        share = asked.division()["val_share"]
        halves = split_positions_by_hash(sets[0].images, val_share=share, seed=asked.seed)
        sets = [sets[0].subset(half, split=split) for half, split in zip(halves, ("train", "val"), strict=True)]
        presence = [presence[0][half] for half in halves]
    said += _describe_absent(coding.classes, *presence, name=name)
    noted = [
        replace(one, images=replace(one.images, reading=one.images.reading.with_notes([*notes, *said]))) for one in sets
    ]
    return DenseData(name=name, task="segmentation", train=noted[0], val=noted[1], is_split_here=is_split_here)


@dataclass(frozen=True, slots=True, eq=False)
class RecodedMaps:
    """Maps of classes some of which are ignored, others numbered anew."""

    read: Callable[[int], tuple[np.ndarray, np.ndarray]]
    coding: MaskCoding

    def __call__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """As the maps that are read."""
        values, valid = self.read(number)
        stored = StoredMask(np.where(valid, values[:, :, 0], IGNORED).astype(np.int32), "classes")
        numbers, valid, _ = self.coding.decode(stored)
        return numbers, valid


def ignore_map_classes(data: DenseData, ignore: Sequence[str]) -> DenseData:
    """Images with masks of which some classes are ignored; QueryError if there is no such class."""
    if not ignore:
        return data
    coding, said = ignore_classes(build_class_coding(data.train.classes), ignore)
    parts = [
        replace(
            part,
            images=replace(part.images, reading=part.images.reading.with_notes(said)),
            maps=Maps(RecodedMaps(part.maps.read, coding), part.maps.indices),
            fingerprint=compute_digest(["ignored", part.fingerprint, *coding.facts()]),
            classes=coding.classes,
        )
        for part in (data.train, data.val)
    ]
    return replace(data, train=parts[0], val=parts[1])


def _survey(part: PairedPart, number: int) -> tuple[MaskSurvey, Grid]:
    try:
        grid = part.grid(number)
    except DECODING_ERRORS as error:
        image = part.images.names[number]
        raise CorruptImage.of(image, image_set=part.images.name, reason=format_reason(error)) from error
    stored = part.stored(number)
    width, height, orientation = grid
    stored.turn_upright(height, width, orientation, part.shown(number))
    return count_mask_values(stored), grid


def _classes_in(survey: MaskSurvey, coding: MaskCoding) -> np.ndarray:
    """Which classes have a pixel in a mask, bool (n_classes,)."""
    values = np.array([[value] for value in survey.counts], np.int32)
    palette = None
    if survey.palette:
        palette = np.zeros(max(survey.palette) + 1, np.int32)
        palette[[*survey.palette]] = [*survey.palette.values()]
    numbers, valid, _ = coding.decode(StoredMask(values, survey.kind, palette=palette))
    return np.isin(np.arange(len(coding.classes)), numbers[valid])


def _describe_absent(classes: Sequence[str], train: np.ndarray, val: np.ndarray, *, name: str) -> list[str]:
    """Notes on classes without a pixel in a part; refuses training masks of one class."""
    in_train, in_val = train.any(axis=0), val.any(axis=0)
    if in_train.sum() < 2:
        only = classes[int(in_train.argmax())] if in_train.any() else "none"
        raise DataError(f"All masks of {name!r} to train on show one class, {only!r}; expected two or more.")
    notes = []
    for absent, what in ((~in_train, "training"), (in_train & ~in_val, "test")):
        if absent.any():
            names = format_list((classes[number] for number in np.flatnonzero(absent).tolist()), 5)
            notes.append(f"{absent.sum():,} of {len(classes):,} classes are in no {what} mask: {names}")
    return notes


def open_mask_folder(folder: Path, show: DisplayOptions, asked: SourceRequest) -> DenseData:
    """Images and masks below a folder, by names of folders and files, or the JSON of COCO in it.

    Folders called masks/, labels/, annotations/, SegmentationClass/, gtFine/ or alike hold masks, all others images;
    train/ and val/ or alike may be above or below, or in the same name (train_masks/). An image and its mask have the
    same path but for these, or but for an ending such as _mask or _labelIds. Masks of one class each lie in a folder
    per class, or end with its name.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one with images/ and masks/.")
    tree = list_tree(folder)
    found = _sort_paths([*tree.paths(), *_list_arrays(tree)])
    if not found.masks:
        return _open_coco(_find_coco_files(folder), show, asked)
    pairs, classes, notes = _pair(found, folder)
    part_of = _read_split_lists(folder, pairs) or {
        image: found.part_of[image] or found.part_of[masks[0][1]] for image, masks in pairs.items()
    }
    parts = {part: [image for image in pairs if part_of.get(image) == part] for part in ("train", "val", "test")}
    second = "val" if parts["val"] else "test"
    if parts["train"] and parts[second]:
        if n := len(pairs) - len(parts["train"]) - len(parts[second]):
            notes.append(f"{format_count(n, 'image')} of other parts left out")
        chosen = {"train": parts["train"], "val": parts[second]}
    else:
        chosen = {"all": sorted(pairs)}

    def paired(split: str, images: list[str]) -> PairedPart:
        left_out = tree.all_left_out() if split != "val" else Counter()
        del left_out[_ARRAY]
        image_set = make_files_image_set(
            folder, images, np.zeros(len(images), np.int64), (CLASS,), show, split=split, left_out=left_out
        )
        masks = FileMasks(str(folder), tuple(tuple(pairs[image]) for image in images), show.image_set)
        files = [os.path.join(folder, image) for image in images]
        return PairedPart(image_set, masks, _FileGrids(files), masks.contents, [pairs[one][0][1] for one in images])

    named = classes or _name_classes(folder, found)
    return build_mask_data([paired(*one) for one in chosen.items()], named, asked, notes)


@dataclass(frozen=True, slots=True)
class _FileGrids:
    """Sizes of image files by their numbers; a class so that workers can unpickle it."""

    files: list[str]

    def __call__(self, number: int) -> Grid:
        return read_image_grid(self.files[number])


@dataclass(frozen=True, slots=True, eq=False)
class _SortedPaths:
    """Paths of images and of masks below a folder, by their part and what an image shares with its mask."""

    images: dict[tuple[str, str], str]  # path by part, "" where no folder says one, and key
    masks: dict[tuple[str, str], str]
    part_of: dict[str, str]  # of each path


def _list_arrays(tree: ImageTree) -> list[str]:
    """Paths of arrays below a folder."""
    below = (f"{name}/{path}" for name, one in tree.folders.items() for path in _list_arrays(one))
    return [*(name for name in tree.files if name.lower().endswith(_ARRAY)), *below]


def _sort_paths(paths: Sequence[str]) -> _SortedPaths:
    """Which paths are of masks, by the words of their folders, and what is left of each without them and the parts."""
    found = _SortedPaths({}, {}, {})
    endings = next((end for end in _CITYSCAPES if any(os.path.splitext(path)[0].endswith(end) for path in paths)), "")
    for path in paths:
        *folders, file = path.split("/")
        stem = os.path.splitext(file)[0]
        if any("".join(re.split(r"[\W_]+", name.casefold())) in _OTHER_MAPS for name in folders):
            continue
        kept, is_mask, part = [], False, ""
        for name in folders:
            word = _word_of_masks(name)
            of = find_part(name) or find_part(name.casefold().removesuffix(word)) or ""
            is_mask, part = is_mask or bool(word), part or of
            if not (word or of or is_generic_name(name) or name.casefold() == "leftimg8bit"):
                kept.append(name)
        if is_mask and endings and not stem.endswith(endings):
            continue  # Cityscapes' colours and instances
        if file.lower().endswith(_ARRAY) and not (is_mask or _MASK_ENDING.fullmatch(stem)):
            continue  # that may be anything
        found.part_of[path] = part
        of_kind = found.masks if is_mask else found.images
        first = of_kind.setdefault((part, "/".join([*kept, stem])), path)
        if first != path:
            raise DataError(f"{first!r} and {path!r} would both be of {stem!r}; expected one: rename the other.")
    if not found.masks:  # next to the images, with an ending of their own
        plain = {(part, _plain(key)) for part, key in found.images if not _MASK_ENDING.fullmatch(key)}
        for part, key in list(found.images):
            if (match := _MASK_ENDING.fullmatch(key)) and (part, match[1]) in plain:
                found.masks[part, match[1]] = found.images.pop((part, key))
    return found


def _word_of_masks(folder: str) -> str:
    """The word of a folder's name that says that it holds masks; "" if none does."""
    words = [one for one in re.split(r"[\W_]+", folder.casefold()) if one]
    joined = "".join(words)
    tails = [joined.removeprefix(part) for part in ("train", "val", "test")]  # as trainannot
    return next((word for word in (joined, *words, *tails) if word in MASK_WORDS), "")


def _plain(key: str) -> str:
    """A key without what names of files add to that of the image."""
    folder, slash, stem = key.rpartition("/")
    for pattern in (_MASK_ENDING, _IMAGE_ENDING, _BEGINNING):
        match = pattern.fullmatch(stem)
        stem = match[1] if match else stem
    return f"{folder}{slash}{stem}"


Pairs = dict[str, list[tuple[int, str]]]  # by the path of an image: numbers of classes, 0 of a whole mask, and paths


def _pair(found: _SortedPaths, folder: Path) -> tuple[Pairs, tuple[str, ...], list[str]]:
    """The masks of each image; the classes, if masks are of one class each; and notes on what has no partner.

    A mask is of the image of its part with its key, else of the only one whose key is the same but for words in it.
    """
    plain: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (part, key), path in found.images.items():
        for name in dict.fromkeys((part, "any")):
            plain[name, _plain(key)].append(path)
    pairs: Pairs = {}
    alone, twice = [], []
    for (part, key), path in found.masks.items():
        others = plain.get((part, _plain(key))) or plain.get(("any", _plain(key)), [])
        image = found.images.get((part, key)) or (others[0] if len(others) == 1 else None)
        if image is None:
            alone.append(path)
        elif image in pairs:
            twice.append((path, pairs[image][0][1], image))
        else:
            pairs[image] = [(0, path)]
    classes: tuple[str, ...] = ()
    of_class = [one for key, path in found.masks.items() for one in _class_of(*key, path, found)]
    if of_class and len(alone) > len(pairs):
        names = sorted({name for _, name, _ in of_class if name.casefold() != BACKGROUND})
        is_one_folder = len(names) == 1  # of whole masks, or of a binary one each
        classes, pairs, twice = () if is_one_folder else (BACKGROUND, *names), {}, []
        for image, name, path in of_class:
            if name in names:
                pairs.setdefault(image, []).append((0 if is_one_folder else classes.index(name), path))
        alone = sorted({*alone} - {path for *_, path in of_class})
    if twice:
        first, second, image = twice[0]
        raise DataError(
            f"{folder} has two masks of {image!r}, {second!r} and {first!r}; expected one, or masks/CLASS/IMAGE.png of "
            "one class each."
        )
    if not pairs:
        mask, image = next(iter(found.masks.values())), next(iter(found.images.values()), "none")
        raise DataError(
            f"No mask in {folder} has the name of an image, such as {mask!r} and {image!r}; expected equal names but "
            "for the ending, as images/1.jpg and masks/1.png."
        )
    lacking = sorted(found.images.values() - pairs.keys())
    notes = [
        f"{n:,} of {len(of):,} {what} left out, the first is {some[0]!r}"
        for some, of, what in (
            (lacking, found.images, "images without a mask"),
            (sorted(alone), found.masks, "masks without an image"),
        )
        if (n := len(some))
    ]
    return pairs, classes, notes


def _class_of(part: str, key: str, path: str, found: _SortedPaths) -> list[tuple[str, str, str]]:
    """The image, class and path of a mask of one class: CLASS/IMAGE, IMAGE/CLASS or IMAGE_CLASS; none if it is none."""
    *folders, stem = key.split("/")
    places = [("/".join([*folders[:at], *folders[at + 1 :], stem]), name) for at, name in enumerate(folders)]
    places.append(("/".join(folders), stem))
    for match in reversed(list(re.finditer(r"[\W_]+", stem))):
        places.append(("/".join([*folders, stem[: match.start()]]), stem[match.end() :]))
    images = [(found.images.get((part, place)), name) for place, name in places]
    return [(image, name, path) for image, name in images if image is not None][:1]


def _read_split_lists(folder: Path, pairs: Mapping[str, object]) -> dict[str, str]:
    """The part of each image by VOC's lists in ImageSets/Segmentation; empty where there are none."""
    deep = [one for above in ("", "*/", "*/*/") for one in folder.glob(f"{above}ImageSets/Segmentation")]
    lists = next(filter(Path.is_dir, deep), None)
    if lists is None:
        return {}
    part_of_stem = dict[str, str]()
    for part in ("val", "train"):
        if (file := lists / f"{part}.txt").is_file():
            part_of_stem |= dict.fromkeys(read_text(file).split(), part)
    return {image: part_of_stem.get(Path(image).stem, "") for image in pairs}


def _name_classes(folder: Path, found: _SortedPaths) -> ClassNames | None:
    """What is known of the classes: by a file of names, or by a layout that has the same ones always."""
    first = next(iter(found.masks.values()))
    if (named := find_class_names([folder / parent for parent in reversed(Path(first).parents)])) is not None:
        return named
    stem = os.path.splitext(first)[0]
    if stem.endswith("_gtFine_labelIds"):
        by_value = dict(zip(CITYSCAPES_IDS, CITYSCAPES_CLASSES, strict=True))
        return ClassNames(source="Cityscapes", by_value=by_value, are_others_ignored=True)
    if stem.endswith("_gtFine_labelTrainIds"):
        return ClassNames(source="Cityscapes", by_value=dict(enumerate(CITYSCAPES_CLASSES)), are_others_ignored=True)
    if "SegmentationClass" in first.split("/") and next(folder.glob("**/ImageSets/Segmentation"), None):
        return ClassNames(source="VOC", by_value=dict(enumerate(VOC_CLASSES)))
    return None


def _find_coco_files(folder: Path) -> list[Path]:
    """The JSON files of COCO in a folder and in those of it, without those of captions and points."""
    files = [file for pattern in ("*.json", "*/*.json") for file in sorted(folder.glob(pattern))]
    instances = [file for file in files if "instances" in file.stem]
    found = [file for file in instances or files if is_coco_file(file)]
    if not found:
        raise DataError(
            f"{folder} holds no masks; expected images/ next to masks/ (or labels/, annotations/, SegmentationClass/, "
            "gtFine/), masks in the same folders with the ending _mask, or COCO's JSON."
        )
    return found


def _open_coco(files: Sequence[Path], show: DisplayOptions, asked: SourceRequest) -> DenseData:
    """The images of one file of COCO, which are split here, or of those of two parts."""
    by_part: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        by_part[find_part(file.stem) or find_part(file.parent.name) or "all"].append(file)
    second = "val" if by_part.get("val") else "test"
    chosen: dict[str, Sequence[Path]] = {"all": files}
    if by_part["train"] and by_part[second]:
        chosen = {"train": by_part["train"], "val": by_part[second]}
    if crowded := [some for some in chosen.values() if len(some) > 1]:
        raise DataError(
            f"{crowded[0][0]} and {crowded[0][1]} are of one part; expected one file for each of train and val, or "
            "name one of them."
        )
    sets = {part: read_coco_masks(some[0]) for part, some in chosen.items()}
    first = next(iter(sets.values()))
    for one in sets.values():
        if one.classes != first.classes:
            raise DataError(f"{first.file} and {one.file} have not the same categories; expected the same in both.")
    parts = [_pair_coco(one, show, split) for split, one in sets.items()]
    notes = [note for one in sets.values() for note in one.describe_objects()]
    return build_mask_data(parts, first.classes, asked, notes)


def _pair_coco(masks: CocoMasks | PanopticMasks, show: DisplayOptions, split: str) -> PairedPart:
    files = [os.path.join(masks.root, path) for path in masks.paths]
    if missing := [path for path, file in zip(masks.paths, files, strict=True) if not os.path.isfile(file)]:
        raise DataError(
            f"{len(missing):,} of {len(files):,} images of {masks.file} are not there, the first is {missing[0]!r}, "
            f"looked for in {masks.root}; put the images next to the file."
        )
    labels = np.zeros(len(files), np.int64)
    image_set = make_files_image_set(masks.root, list(masks.paths), labels, (CLASS,), show, split=split)
    return PairedPart(image_set, masks, _FileGrids(files), masks.contents, masks.paths)


def open_mask_file(file: Path, show: DisplayOptions, asked: SourceRequest) -> DenseData:
    """COCO's JSON, or a table (.csv, .tsv, .jsonl) with a column of images, one of masks and maybe one of parts."""
    if is_coco_file(file):
        if idle := [name for name in ("label_column", "split_column", "group") if getattr(asked, name)]:
            raise QueryError(f"{idle[0]} is of tables, and {file} is COCO's JSON; leave it out.")
        return _open_coco([file], show, asked)
    table = read_annotations(file, is_unlabelled=True)
    at_image, notes = find_image_column(table, asked)
    at_mask = _mask_column(table, asked, at_image)
    at_group = None if asked.group is None else table.column(asked.group)
    split = find_table_split(table, asked, [at_image, at_mask, at_group])
    parts = []
    for part, rows in group_table_rows(table, split).items():
        (root, images, found), (root_of_masks, masks, _) = (
            locate_images(table, at, rows, asked.image_folder) for at in (at_image, at_mask)
        )
        if len(set(images)) < len(images):
            twice = next(path for path, n in Counter(images).items() if n > 1)
            raise DataError(f"The image {twice!r} stands in two rows of {file}; expected one row for each image.")
        labels = np.zeros(len(images), np.int64)
        name_of_part = {"test": "val"}.get(part, part)
        groups = None if at_group is None else hash_group_column(table, at_group, rows)
        image_set = make_files_image_set(root, images, labels, (CLASS,), show, split=name_of_part, groups=groups)
        of_files = FileMasks(str(root_of_masks), tuple(((0, mask),) for mask in masks), show.image_set)
        grids = _FileGrids([os.path.join(root, image) for image in images])
        parts.append(PairedPart(image_set, of_files, grids, of_files.contents, masks))
        notes = [*notes, *found]
    named = find_class_names([file.parent, root_of_masks])
    suggested = suggest_groups(table, asked, [at_image, at_mask])
    return build_mask_data(parts, named, asked, [*split.notes, *notes, *suggested])


def _mask_column(table: LabelTable, asked: SourceRequest, at_image: int) -> int:
    """The column of masks: the one asked for, of a usual name, or the only other one of image files."""
    at = table.usual(MASK_NAMES) if asked.label_column is None else table.column(asked.label_column)
    if at is None:
        of_files = [
            one for one, cells in enumerate(table.columns) if all(cell.lower().endswith(SUFFIXES) for cell in cells)
        ]
        others = [one for one in of_files if one != at_image]
        at = others[0] if len(others) == 1 else None
    if at is None:
        raise DataError(
            f"{table.file} has no column of masks under a usual name ({', '.join(MASK_NAMES[:4])}); its columns are "
            f"{table.listed()}: say which with --label-column, or label_column= in Python."
        )
    return at


def open_mask_shards(text: str, show: DisplayOptions, asked: SourceRequest) -> DenseData:
    """Parquet files with a column of images and one of masks, both encoded, as the Hub has them."""
    from .parquet_shards import open_parquet_columns

    parts = []
    columns = {"image": asked.image_column, "mask": asked.label_column}
    for images, of_images, of_masks in open_parquet_columns(text, show, **columns):
        labelled = replace(images, labels=np.zeros(len(images), np.int64), classes=(CLASS,))
        masks = ShardMasks(of_masks)
        parts.append(PairedPart(labelled, masks, ShardMasks(of_images).grid, of_masks.contents, images.names))
    return build_mask_data(parts, None, asked, [])
