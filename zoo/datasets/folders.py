"""Folders of images: one folder a class."""

from __future__ import annotations

import os
import unicodedata
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError
from ..optional import requires_extra
from ..rgb import Scale
from .contents import contents_of_files
from .imagefiles import SUFFIXES, files_reading, read_image
from .imagesets import ImageData, ImageSet, LazyImages, fingerprint_of
from .splitting import hash_split

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

if TYPE_CHECKING:
    from PIL import Image

VAL_FOLDERS = ("val", "validation", "test")


def folder_data(folder: Path, *, name: str, val_share: float, seed: int, scale: Scale | None = None) -> ImageData:
    """A folder a class: below train/ and val/ (or validation/, or test/: the first of them that is there), or split.

    A folder without train/ is split by the hash of the path of each image below it, so that images which are added move
    no other, but for copies: files with the same bytes go with the first of them. Folders and files whose names begin
    with a dot are ignored, and so are files that do not end like an image. Links are followed. Names are sorted by code
    points, whatever the locale. Pixels are read when they are asked for: the first frame, turned by its EXIF
    orientation, and scaled to 8 bits a channel if it has more, by the scale or by the rules of :func:`zoo.rgb.to_rgb`.

    The fingerprint is over the paths below the split's folder, the bytes of the files, labels and classes, and over the
    orientations, kinds of values and scale of the images that are turned or scaled.

    Raises
    ------
    DataError
        If the folder cannot be read, holds no image, has images without a class, a class without images or names that
        differ only by case, or values that no range or scale tells black and white of, or if the parts have different
        classes; says where.
    CorruptImage
        Later, when an image is asked for that cannot be read; names it.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder of images {folder}; expected one with a folder a class.")
    seen: dict[tuple[int, int], str] = {}
    if not (folder / "train").is_dir():
        return hash_split(_scan(folder, name=name, split="all", seen=seen, scale=scale), val_share=val_share, seed=seed)
    second = next((folder / part for part in VAL_FOLDERS if (folder / part).is_dir()), None)
    if second is None:
        raise DataError(
            f"{folder} has train/ but none of {', '.join(f'{part}/' for part in VAL_FOLDERS)}; add one, or give "
            f"{folder / 'train'} to have it split."
        )
    return ImageData(
        name=name,
        train=_scan(folder / "train", name=name, split="train", seen=seen, scale=scale),
        val=_scan(second, name=name, split="val", seen=seen, scale=scale),
    )


def _scan(root: Path, *, name: str, split: str, seen: dict[tuple[int, int], str], scale: Scale | None) -> ImageSet:
    folders, files = _entries(root)
    loose = [file.name for file in files if _is_image(file.name)]
    if loose:
        raise DataError(
            f"{root} holds {len(loose):,} images outside a folder of a class, such as {loose[0]!r}, so that they have "
            "no label; move each into a folder named for its class."
        )
    found: dict[str, list[str]] = {}  # class: paths below the folder of the split, with / between
    for folder in folders:
        found[folder.name] = []
        _collect(Path(folder.path), folder.name, found[folder.name], owner=f"{split} {folder.name}", seen=seen)
    classes = tuple(found)
    if not any(found.values()):
        raise DataError(
            f"{root} holds no image in a folder of a class; expected CLASS/IMAGE with one of {', '.join(SUFFIXES)}."
        )
    empty = [label for label, of_class in found.items() if not of_class]
    if empty:
        raise DataError(
            f"{len(empty)} of {len(classes)} class folders in {root} hold no image, the first is {empty[0]!r}; add "
            "images or remove the folder."
        )
    paths = [path for of_class in found.values() for path in of_class]
    _require_distinct(paths, root)
    labels = np.repeat(np.arange(len(classes)), [len(of_class) for of_class in found.values()]).astype(np.int64)
    full_paths = [os.path.join(root, *path.split("/")) for path in paths]
    contents = contents_of_files(full_paths)
    reading = files_reading(full_paths, paths, image_set=name, scale=scale)
    return ImageSet(
        name=name,
        split=split,
        images=LazyImages(partial(_read, str(root), paths, name, reading.scale), np.arange(len(paths))),
        labels=labels,
        classes=classes,
        names=paths,
        fingerprint=fingerprint_of(["folder", *classes, *paths, labels.astype("<i8"), contents.astype("<u8")], reading),
        reading=reading,
        contents=contents,
    )


def _collect(folder: Path, below: str, found: list[str], *, owner: str, seen: dict[tuple[int, int], str]) -> None:
    """The images of a class, also in folders of its folder; a folder that links lead to again is read once."""
    try:
        status = folder.stat()
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error
    first = seen.setdefault((status.st_dev, status.st_ino), owner)
    if first != owner:
        raise DataError(
            f"The folder {folder} is one with a folder of {first!r}, by a link; expected each image in one class of "
            "one part only: remove the link."
        )
    folders, files = _entries(folder)
    for file in files:
        if _is_image(file.name):
            found.append(f"{below}/{file.name}")
    for inner in folders:
        status = inner.stat()
        if seen.get((status.st_dev, status.st_ino)) != owner:
            _collect(Path(inner.path), f"{below}/{inner.name}", found, owner=owner, seen=seen)


def _entries(folder: Path) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Folders and other entries, each sorted by code points; no hidden ones."""
    try:
        with os.scandir(folder) as entries:
            shown = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
        return [entry for entry in shown if entry.is_dir()], [entry for entry in shown if not entry.is_dir()]
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _require_distinct(paths: list[str], root: Path) -> None:
    by_folded: dict[str, str] = {}
    for path in paths:
        first = by_folded.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if first != path:
            raise DataError(
                f"The images {first!r} and {path!r} in {root} have names that differ only by case or by the spelling "
                "of an accent, which many disks take for one; rename one of them."
            )


def _read(root: str, paths: list[str], image_set: str, scale: Scale | None, index: int) -> Image.Image:
    path = paths[index]
    return read_image(os.path.join(root, *path.split("/")), image=path, image_set=image_set, scale=scale)
