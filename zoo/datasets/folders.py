"""Image sets in folders, one folder a class, and in npz files with x and y, or x_train, y_train, x_val and y_val."""

from __future__ import annotations

import os
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..optional import requires_extra
from .endings import USUAL, images_among, left_out_note, skipped_as
from .imagefiles import REMEDY, Reading, Spread, Stored, files_reading, read_image
from .images import ImageData, ImageSet, LazyImages, array_images, contents_of_files, fingerprint_of, of_groups
from .labels import data_of
from .rgb import WHITE, Scale, array_alpha, array_values, checked_background, checked_scale, to_8_bits
from .subsets import hash_split

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

if TYPE_CHECKING:
    from PIL import Image

VAL_FOLDERS = ("val", "validation", "test")
Seen = dict[tuple[int, int], str]  # device and inode of each folder: the part and kind that it was first read for


def folder_data(
    folder: Path,
    *,
    name: str,
    val_share: float,
    seed: int,
    scale: Scale | None = None,
    background: str = WHITE,
    fold_labels: bool = False,
) -> ImageData:
    """A folder a class: below train/ and val/ (or validation/, or test/: the first that exists), or split by hash.

    A folder without train/ is split by the hash of the path of each image below it, so that images which are added move
    no other, but for copies: files with the same bytes go with the first of them. Folders and files whose names begin
    with a dot, or that systems put there (``@eaDir``, ``Thumbs.db``), are left out, and so are files that do not end
    like an image that can be read here; the reading of the images counts them. Links are followed. Names are sorted by
    code points, whatever the locale. Pixels are read when they are asked for: the first frame, turned by its EXIF
    orientation, scaled to 8 bits a channel if it has more, and shown over the background where it is transparent, by
    the rules of :func:`zoo.datasets.rgb.to_rgb`.

    The fingerprint is over the paths below the split's folder, the bytes of the files, labels and classes, and over the
    orientations, kinds of values, scale and background of the images that are turned, scaled or transparent.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder of images {folder}; expected one with a folder a class.")
    seen: Seen = {}
    parts = split_folders(folder)
    beside: Counter[str] = Counter()
    if parts is not None:
        images_among((file.name for file in entries_of(folder, beside)[1]), beside)
    named = {"all": folder} if parts is None else dict(zip(("train", "val"), parts, strict=True))
    how: dict[str, Any] = {"name": name, "seen": seen, "scale": scale, "background": background}
    sets = [_scan(part, split=split, **how) for split, part in named.items()]
    reading = sets[0].reading
    sets[0] = replace(sets[0], reading=replace(reading, left_out=Counter(reading.left_out) + beside))
    return data_of(sets, val_share=val_share, seed=seed, fold_labels=fold_labels, split=hash_split)


def split_folders(folder: Path) -> tuple[Path, Path] | None:
    """Folders of the training and of the validation images; None if there is no train/."""
    if not (folder / "train").is_dir():
        return None
    for part in VAL_FOLDERS:
        if (folder / part).is_dir():
            return folder / "train", folder / part
    raise DataError(
        f"{folder} has train/ but none of {', '.join(f'{part}/' for part in VAL_FOLDERS)}; add one, or give "
        f"{folder / 'train'} to have it split."
    )


def claim(folder: Path, owner: str, seen: Seen) -> bool:
    """Notes what a folder is read for; False if it was read for that before, which a loop of links leads to.

    A folder that was read for something else is refused.
    """
    try:
        status = folder.stat()
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error
    key = (status.st_dev, status.st_ino)
    first = seen.get(key)
    if first not in (None, owner):
        raise DataError(
            f"The folder {folder} is one with a folder of {first!r}, by a link; expected each image in one part "
            "and one class only, and images and maps apart: remove the link."
        )
    seen[key] = owner
    return first is None


def entries_of(folder: Path, left_out: Counter[str]) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Folders and other entries, each sorted by code points; hidden ones and those of systems are counted instead."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        kinds: tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]] = [], []
        for entry in found:
            is_folder = entry.is_dir()
            if skipped := skipped_as(entry.name, is_folder=is_folder):
                left_out[skipped] += 1
            else:
                kinds[not is_folder].append(entry)
        return kinds
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error


def _scan(root: Path, *, name: str, split: str, seen: Seen, scale: Scale | None, background: str) -> ImageSet:
    left_out: Counter[str] = Counter()
    folders, files = entries_of(root, left_out)
    loose = images_among((file.name for file in files), left_out)
    if loose:
        raise DataError(
            f"{root} holds {len(loose):,} images outside a folder of a class, such as {loose[0]!r}, so that they have "
            "no label; move each into a folder named for its class."
        )
    by_class: dict[str, list[str]] = {}  # paths below the folder of the split, with / between
    for folder in folders:
        by_class[folder.name] = []
        owner = f"{split} {folder.name}"
        _collect(Path(folder.path), folder.name, by_class[folder.name], left_out, owner=owner, seen=seen)
    classes = tuple(by_class)
    also = f" ({left_out_note(left_out)})" if left_out else ""
    if not any(by_class.values()):
        raise DataError(f"{root} holds no image in a folder of a class{also}; expected CLASS/IMAGE, {USUAL}.")
    empty = [label for label, of_class in by_class.items() if not of_class]
    if empty and split != "val":  # a class may have no test image
        raise DataError(
            f"{len(empty)} of {len(classes)} class folders in {root} hold no image, the first is {empty[0]!r}{also}; "
            "add images or remove the folder."
        )
    paths = [path for of_class in by_class.values() for path in of_class]
    _require_distinct(paths, root)
    labels = np.repeat(np.arange(len(classes)), [len(of_class) for of_class in by_class.values()]).astype(np.int64)
    return files_image_set(
        root,
        paths,
        labels,
        classes,
        read=read_below,
        name=name,
        split=split,
        scale=scale,
        background=background,
        left_out=left_out,
    )


def files_image_set(
    root: Path,
    paths: list[str],
    labels: np.ndarray,
    classes: tuple[str, ...],
    *,
    read: Callable[[str, list[str], str, Scale | None, str, int], Image.Image],
    name: str,
    split: str,
    scale: Scale | None,
    background: str,
    left_out: Mapping[str, int] | None = None,
    groups: np.ndarray | None = None,
    tags: tuple[str, ...] = (),
) -> ImageSet:
    """The image set of files at paths below a folder, with / between; ``read`` reads one of them by its number."""
    files = [os.path.join(root, path) for path in paths]
    contents = contents_of_files(files)
    reading = files_reading(files, paths, image_set=name, scale=scale, background=background, left_out=left_out)
    return ImageSet(
        name=name,
        split=split,
        images=LazyImages(
            partial(read, str(root), paths, name, reading.scale, reading.background), np.arange(len(paths))
        ),
        labels=labels,
        classes=classes,
        names=paths,
        fingerprint=fingerprint_of(
            ["folder", *classes, *paths, labels.astype("<i8"), contents.astype("<u8"), *of_groups(groups, tags)],
            reading,
        ),
        reading=reading,
        contents=contents,
        groups=groups,
        tags=tags,
    )


def _collect(folder: Path, below: str, paths: list[str], left_out: Counter[str], *, owner: str, seen: Seen) -> None:
    """Adds the images of a class, also those in folders of its folder."""
    if not claim(folder, owner, seen):
        return
    folders, files = entries_of(folder, left_out)
    paths += [f"{below}/{name}" for name in images_among((file.name for file in files), left_out)]
    for inner in folders:
        _collect(Path(inner.path), f"{below}/{inner.name}", paths, left_out, owner=owner, seen=seen)


def _require_distinct(paths: list[str], root: Path) -> None:
    by_folded: dict[tuple[str, str], str] = {}
    for path in paths:
        label, _, below = path.partition("/")  # classes may be "a" and "A"
        first = by_folded.setdefault((label, unicodedata.normalize("NFC", below).casefold()), path)
        if first != path:
            raise DataError(
                f"The images {first!r} and {path!r} in {root} have names that differ only by case or by the spelling "
                "of an accent, which many disks take for one; rename one of them."
            )


def read_below(
    root: str, paths: list[str], image_set: str, scale: Scale | None, background: str, index: int
) -> Image.Image:
    """The image with this number, of a folder or a table."""
    path = paths[index]
    return read_image(os.path.join(root, path), image=path, image_set=image_set, scale=scale, background=background)


_ARRAY_NAMES = "x and y, or x_train, y_train, x_val and y_val"


def npz_data(
    file: Path,
    *,
    name: str,
    val_share: float,
    seed: int,
    scale: Scale | None = None,
    background: str = WHITE,
    fold_labels: bool = False,
) -> ImageData:
    """Images of a file that ``numpy.savez`` or ``savez_compressed`` wrote, all of it in memory.

    x is uint8 (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels, the last of 4 alpha; or
    uint16 or floating point from 0 to 1 of the same shapes, which become uint8 as :func:`zoo.datasets.rgb.to_rgb`
    says; with a scale, whose ends become black and white, it may be any integers or floating point. y is (n,) of
    whole numbers or of texts; its distinct values are the classes, in their order. An optional array ``classes`` of
    texts names the classes 0, 1, ... of whole numbers. The second part may be called test instead of val; x and y
    without parts are split stratified by class.

    Nothing is ever unpickled. The fingerprint is over all pixels.
    """
    scale, background = None if scale is None else checked_scale(scale), checked_background(background)
    arrays = _arrays(file)
    second = next((part for part in ("val", "test") if f"x_{part}" in arrays), "val")
    parts = {"": "all"} if "x" in arrays else {"_train": "train", f"_{second}": "val"}
    for suffix in parts:
        if f"x{suffix}" not in arrays:
            raise DataError(
                f"{file} holds {', '.join(sorted(arrays)) or 'no array'}; expected the arrays {_ARRAY_NAMES}."
            )
        if f"y{suffix}" not in arrays:
            raise DataError(f"{file} holds images x{suffix} without labels; expected an array y{suffix} of shape (n,).")
    labels = {suffix: _labels(arrays[f"y{suffix}"], f"y{suffix}", file) for suffix in parts}
    if len({found.dtype.kind for found in labels.values()}) > 1:
        raise DataError(
            f"The labels of {file} are whole numbers in one part and texts in the other; expected one kind."
        )
    classes, codes = _classes(labels, arrays.get("classes"), file)
    sets = []
    for suffix, split in parts.items():
        pixels, reading = _pixels(arrays[f"x{suffix}"], f"x{suffix}", file, scale, background)
        images = array_images(pixels, codes[suffix], name=name, split=split, classes=classes)
        sets.append(replace(images, reading=reading))
    return data_of(sets, val_share=val_share, seed=seed, fold_labels=fold_labels)


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        opened = np.load(file, allow_pickle=False)
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise DataError(f"{file} holds a single array; expected an npz file with {_ARRAY_NAMES}.")
        with opened:
            return {key: opened[key] for key in opened.files if key.partition("_")[0] in ("x", "y", "classes")}
    except FileNotFoundError as error:
        raise DataError(f"There is no file {file}; expected an npz file with {_ARRAY_NAMES}.") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        if "pickle" in str(error):
            raise DataError(
                f"{file} holds Python objects, which are never unpickled; expected an npz file with plain arrays "
                f"{_ARRAY_NAMES}."
            ) from error
        raise DataError(f"The npz file {file} is damaged ({error}); write it again.") from error


def _labels(y: np.ndarray, key: str, file: Path) -> np.ndarray:
    if y.ndim != 1 or y.dtype.kind not in "iuU" or not len(y):
        raise DataError(
            f"The labels {key} of {file} are {y.dtype} of shape {y.shape}; expected whole numbers or texts of shape "
            "(n,)."
        )
    missing = np.flatnonzero(y == "" if y.dtype.kind == "U" else y < 0)
    if missing.size:
        raise DataError(
            f"{missing.size:,} of {len(y):,} images of {file} have no label in {key}, the first is image {missing[0]} "
            f"with {y[missing[0]].item()!r}; label them or leave them out."
        )
    return y


def _classes(
    labels: dict[str, np.ndarray], named: np.ndarray | None, file: Path
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the classes, and the labels as their numbers, int64."""
    values = np.unique(np.concatenate(list(labels.values())))
    if named is None:
        codes = {part: np.searchsorted(values, found).astype(np.int64) for part, found in labels.items()}
        return tuple(str(value) for value in values), codes
    if named.ndim != 1 or named.dtype.kind != "U" or values.dtype.kind == "U" or int(values[-1]) >= len(named):
        raise DataError(
            f"The array classes of {file} is {named.dtype} of shape {named.shape} for labels up to {values[-1]}; "
            "expected a text for each of the labels 0, 1, ..."
        )
    return tuple(str(value) for value in named), {part: found.astype(np.int64) for part, found in labels.items()}


def _pixels(x: np.ndarray, key: str, file: Path, scale: Scale | None, background: str) -> tuple[np.ndarray, Reading]:
    """Uint8 pixels, (n, height, width) or (n, height, width, 3), and how they were scaled and made opaque."""
    shaped = (x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3, 4))) and 0 not in x.shape
    values = array_values(x.dtype) if shaped and x.dtype.kind in "iuf" else None
    has_range = x.dtype == np.uint8 or (values is not None and (values.range is not None or scale is not None))
    if not shaped or not has_range:
        is_turned = x.ndim == 4 and x.shape[1] in (1, 3, 4)
        hint = f"; move the channels to the end with {key}.transpose(0, 2, 3, 1)" if is_turned else ""
        if shaped and values is not None:
            hint = f"; {REMEDY.format(low=x.min(), high=x.max())}"
        raise DataError(
            f"The images {key} of {file} are {x.dtype} of shape {x.shape}; expected uint8, uint16, or floating point "
            f"from 0 to 1, of shape (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels{hint}."
        )
    pixels, reading = x, Reading()
    if values is not None and values.kind == "floating point" and scale is None:
        _require_shares(x, key, file)
    if values is not None or x.shape[3:] == (4,):
        stored = {}
        pixels = np.empty((*x.shape[:3], 3) if x.shape[3:] in ((3,), (4,)) else x.shape[:3], np.uint8)
        for i, one in enumerate(x):
            called = f"Image {i} of {key} of {file}"
            pixels[i] = np.asarray(to_8_bits(one, scale=scale, background=background, name=called, remedy=REMEDY))
            how = Stored(
                values="" if values is None else values.kind, is_transparent=array_alpha(one, name=called) is not None
            )
            if how != Stored():
                stored[str(i)] = how
        spread = {} if values is None else {values.kind: Spread(float(x.min()), float(x.max()), len(x))}
        reading = Reading(stored=stored, scale=scale, spread=spread, background=background)
    return pixels[..., 0] if pixels.ndim == 4 and pixels.shape[3] == 1 else pixels, reading


def _require_shares(x: np.ndarray, key: str, file: Path) -> None:
    within = ((x >= 0) & (x <= 1)).reshape(len(x), -1).all(axis=1)  # False for what is not a number, too
    if not within.all():
        first = int(np.argmin(within))
        raise DataError(
            f"{int((~within).sum()):,} of {len(x):,} images {key} of {file} have values outside 0 to 1, the first is "
            f"image {first} with {x[first].min()} to {x[first].max()}; {REMEDY.format(low='LOW', high='HIGH')}, or "
            "store uint8."
        )
