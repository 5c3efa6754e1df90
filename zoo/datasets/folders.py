"""Images in files: listed folders, and files without labels."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..optional import require_extra
from .image_files import (
    DecodingInfo,
    DisplayOptions,
    build_display_options,
    classify_hidden_name,
    classify_odd_entry,
    inspect_image_files,
    prepare_arrays,
    read_image,
    select_image_names,
)
from .images import (
    NO_LABEL,
    ImageSet,
    LazyImages,
    compute_digest,
    compute_fingerprint,
    hash_image_files,
    list_fingerprint_parts,
)
from .rgb import WHITE, Scale, to_rgb
from .split_names import group_names_by_part, is_generic_name

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image


def split_folders(folder: Path) -> tuple[Path, Path] | None:
    """Folders of the training and of the validation images, or of the test images; None if none is of training."""
    train, val = find_part_folders(group_names_by_part(one.name for one in list_entries(folder, Counter())[0]), folder)
    return None if not train else (folder / train, folder / val)


def find_part_folders(found: Mapping[str, Sequence[str]], folder: Path) -> tuple[str, str]:
    """The names of the folders of training and of validation images, or of test images; none without the former."""
    if "train" not in found:
        return "", ""
    second = "val" if "val" in found else "test"
    if second not in found:
        raise DataError(describe_missing_part(folder, found["train"][0]))
    return require_one_folder(found["train"], folder), require_one_folder(found[second], folder)


def require_one_folder(names: Sequence[str], folder: Path) -> str:
    """The name of the only folder of a part; refuses several."""
    if len(names) > 1:
        raise DataError(
            f"{folder} has {' and '.join(f'{name}/' for name in names)}, which say the same part; expected one folder "
            "of each: join or move them."
        )
    return names[0]


def describe_missing_part(folder: Path, train: str) -> str:
    """A sentence on a folder of training images without one of others."""
    return (
        f"{folder} has {train}/ but none of val/, validation/, test/ or alike with folders of classes; add one, or "
        f"give {folder / train} to have it split."
    )


def list_entries(folder: Path, left_out: Counter[str]) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Folders and other entries, each sorted by code points; hidden ones and those of systems are counted instead."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        kinds: tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]] = [], []
        for entry in found:
            odd = classify_odd_entry(entry)
            is_folder = not odd and entry.is_dir()
            if is_folder and entry.is_symlink() and folder.resolve().is_relative_to(os.path.realpath(entry.path)):
                continue  # a link back to a folder that it is in
            if skipped := classify_hidden_name(entry.name, is_folder=is_folder) or odd:
                left_out[skipped] += 1
            else:
                kinds[not is_folder].append(entry)
        return kinds
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error


@dataclass(frozen=True, slots=True, eq=False)
class ImageTree:
    """A folder with all below it, each listed once."""

    path: Path
    folders: dict[str, ImageTree]
    images: list[str]  # directly in it
    files: list[str]  # that are no images
    left_out: Counter[str]  # directly in it
    n: int  # images at any depth

    @property
    def filled(self) -> dict[str, ImageTree]:
        """The folders with images below them."""
        return {name: tree for name, tree in self.folders.items() if tree.n}

    @property
    def inside(self) -> ImageTree:
        """The only folder with images where it is called images or alike, or as this one; else this one."""
        filled = list(self.filled.items())
        if len(filled) == 1 and not self.images and (is_generic_name(filled[0][0]) or filled[0][0] == self.path.name):
            return filled[0][1].inside
        return self

    def paths(self) -> list[str]:
        """Paths of the images: those directly in it before those of its folders."""
        return [*self.images, *(f"{name}/{path}" for name, tree in self.folders.items() for path in tree.paths())]

    def all_left_out(self) -> Counter[str]:
        """Other files at any depth, by their endings."""
        return sum((tree.all_left_out() for tree in self.folders.values()), self.left_out)


def list_tree(folder: Path, depth: float = math.inf) -> ImageTree:
    """The folder with all below it, down to some depth; hidden entries and those of systems are counted."""
    left_out: Counter[str] = Counter()
    folders, files = list_entries(folder, left_out)
    names = [file.name for file in files]
    known = {*(images := select_image_names(names, left_out, folder))}
    others = [name for name in names if name not in known]
    below = {one.name: list_tree(Path(one.path), depth - 1) for one in folders if depth}
    return ImageTree(folder, below, images, others, left_out, len(images) + sum(tree.n for tree in below.values()))


def make_files_image_set(
    root: Path,
    paths: list[str],
    labels: np.ndarray,
    classes: tuple[str, ...],
    show: DisplayOptions,
    *,
    split: str,
    left_out: Mapping[str, int] | None = None,
    groups: np.ndarray | None = None,
    tags: tuple[str, ...] = (),
) -> ImageSet:
    """The image set of files at paths below a folder, with / between."""
    files = [os.path.join(root, path) for path in paths]
    contents = hash_image_files(files)
    reading = inspect_image_files(files, paths, show, left_out)
    return ImageSet(
        name=show.image_set,
        split=split,
        images=LazyImages(partial(_read_below, str(root), paths, show), np.arange(len(paths))),
        labels=labels,
        classes=classes,
        names=paths,
        fingerprint=compute_fingerprint(
            [
                "folder",
                *classes,
                *paths,
                labels.astype("<i8"),
                contents.astype("<u8"),
                *list_fingerprint_parts(groups, tags),
            ],
            reading,
        ),
        reading=reading,
        contents=contents,
        groups=groups,
        tags=tags,
    )


def _read_below(root: str, paths: list[str], show: DisplayOptions, index: int) -> Image.Image:
    return read_image(os.path.join(root, paths[index]), paths[index], show)


def make_unlabelled_images(
    images: Iterable[Any],
    *,
    names: Sequence[str] | None = None,
    name: str = "images",
    scale: Scale | None = None,
    background: str = WHITE,
    max_pixels: int | None = None,
) -> ImageSet:
    """Images without labels, such as those that a probe is to classify, as an image set; its labels are all -1.

    ``images`` are PIL images, arrays (height, width[, 3]) or paths; ``names``, one per image, are by default the paths,
    and numbers of images in memory. ``scale``, ``background`` and ``max_pixels`` are as for
    :func:`~zoo.datasets.open_images`. DataError says if one is none of these, two have the same name, or the values of
    one have no range.

    >>> found = make_unlabelled_images([np.zeros((4, 6), np.uint8)])
    >>> found[0][0].size, found.names
    ((6, 4), ['0'])
    """
    items, show = list(images), build_display_options(name, scale, background, max_pixels)
    for number, item in enumerate(items):
        if not isinstance(item, Image.Image | np.ndarray | str | os.PathLike):
            raise DataError(f"Image {number} is a {type(item).__name__}; expected a PIL image, an array or a path.")
    arrays = {i: item[None] for i, item in enumerate(items) if isinstance(item, np.ndarray)}
    ready, notes = prepare_arrays(list(arrays.values()), f"The arrays of {name!r}", show)
    for i, array in zip(arrays, ready, strict=True):
        items[i] = array[0]
    paths = {i: os.fspath(item) for i, item in enumerate(items) if isinstance(item, str | os.PathLike)}
    given = [paths.get(i, str(i)) for i in range(len(items))] if names is None else list(names)
    found = ImageSet(
        name=name,
        split="all",
        images=LazyImages(partial(_read_item, items, show), np.arange(len(items))),
        labels=np.full(len(items), NO_LABEL, np.int64),
        classes=(),
        names=given,
        fingerprint="",
    )
    reading = inspect_image_files(list(paths.values()), [given[i] for i in paths], show)
    return replace(found, reading=reading.with_notes(notes))


def _read_item(items: Sequence[Any], show: DisplayOptions, number: int) -> Image.Image:
    item = items[number]
    if isinstance(item, str | os.PathLike):
        return read_image(os.fspath(item), os.fspath(item), show)
    return to_rgb(item, scale=show.scale, background=show.background)


def join_parts(parts: Sequence[ImageSet]) -> ImageSet:
    """Several parts of one data set as one, whose names begin with the part if there are several."""
    if len(parts) == 1:
        return parts[0]
    both = [(part.contents, part.groups) for part in parts]
    hashes = [[one for one in some if one is not None] for some in zip(*both, strict=True)]
    contents, groups = (np.concatenate(some) if len(some) == len(parts) else None for some in hashes)
    return ImageSet(
        name=parts[0].name,
        split="all",
        images=LazyImages(partial(_read_joined, parts), np.arange(sum(map(len, parts)))),
        labels=np.concatenate([part.labels for part in parts]),
        classes=parts[0].classes,
        names=[f"{part.split}/{name}" for part in parts for name in part.names],
        fingerprint=compute_digest(["joined", *chain(*((part.split, part.fingerprint) for part in parts))]),
        reading=DecodingInfo(notes=tuple(dict.fromkeys(chain(*(part.reading.notes for part in parts))))),
        contents=contents,
        groups=groups,
        tags=parts[0].tags,
        target=parts[0].target,
    )


def _read_joined(parts: Sequence[ImageSet], number: int) -> Image.Image:
    for part in parts:
        if number < len(part):
            return part.images[number]
        number -= len(part)
    raise IndexError(number)
