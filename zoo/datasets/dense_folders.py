"""Folders of images with a map of depth or normals each, under the same name."""

from __future__ import annotations

import os
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CorruptImage, DataError
from ..optional import requires_extra
from ..rgb import Scale, turned
from .contents import contents_of_files
from .dense_pairs import MAP_FOLDERS, Seen, pairs_of
from .folders import VAL_FOLDERS
from .imagefiles import DECODING_ERRORS, files_reading, grid_of, read_image, reason_of
from .imagesets import ImageSet, LazyImages, digest, fingerprint_of
from .mapfiles import read_map
from .maps import CLASS, DenseData, Maps, MapSet, checked_task
from .splitting import in_val_by_name

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

if TYPE_CHECKING:
    from PIL import Image

UNITS = {"depth": "as stored", "normals": "unit vectors"}
_SAMPLE_BYTES = 4096


def dense_folder_data(
    folder: Path, *, task: str, name: str, val_share: float, seed: int, scale: Scale | None = None
) -> DenseData:
    """Images with maps below train/ and val/ (or validation/, or test/: the first of them that is there), or split.

    Images lie in images/ or rgb/; depth in depth/, depth_zbuffer/ or depth_euclidean/; normals in normals/ or normal/.
    There may be folders above these (BUILDING/rgb/1.png) and in them (rgb/BUILDING/1.png); other folders are ignored.
    An image and its map have the same path but for that folder and the ending, and but for what Taskonomy appends
    (1_domain_rgb.png, 1_domain_depth_zbuffer.png). What is in the files is said at
    :func:`~zoo.datasets.mapfiles.read_map`; the unit of depth stays as stored.

    A folder without train/ is split by the hash of the path of each image, as one of labelled images is. Names that
    begin with a dot are ignored and links followed, as there. Images and maps are read when they are asked for, images
    as those of a folder of labelled ones. A map lies on the pixels of its image as they are stored: where EXIF turns
    the image, a map of depth is turned with it, and a map of normals is refused, whose directions would have to be
    turned by a convention that the file does not tell.

    The fingerprint is over the paths below the split's folder, the bytes of the images and the sizes of the maps, and
    over the orientations, kinds of values and scale of images that are turned or scaled; of arrays, whose sizes stay
    when their values change, also over three samples of their content.

    Raises
    ------
    DataError
        If the folder cannot be read, has no images or no maps of the task, an image without a map or a map without an
        image, two of one name, two kinds of depth, or parts that share a folder or have different kinds; says where.
        Later, when a map is asked for that cannot be read, has another size than its image, other channels than the
        task, or no valid pixel; names it.
    CorruptImage
        Later, when an image is asked for that cannot be read; names it.
    """
    checked_task(task)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one with images/ and {MAP_FOLDERS[task][0]}/.")
    seen: Seen = {}
    if not (folder / "train").is_dir():
        whole, _ = _map_set(folder, task=task, name=name, split="all", seen=seen, scale=scale)
        return _hash_split(whole, val_share=val_share, seed=seed)
    second = next((folder / part for part in VAL_FOLDERS if (folder / part).is_dir()), None)
    if second is None:
        raise DataError(
            f"{folder} has train/ but none of {', '.join(f'{part}/' for part in VAL_FOLDERS)}; add one, or give "
            f"{folder / 'train'} to have it split."
        )
    train, word = _map_set(folder / "train", task=task, name=name, split="train", seen=seen, scale=scale)
    val, other = _map_set(second, task=task, name=name, split="val", seen=seen, scale=scale)
    if task == "depth" and word != other:
        raise DataError(
            f"{folder / 'train'} has {word}/ and {second} has {other}/; expected one kind of depth in both."
        )
    return DenseData(name=name, task=task, train=train, val=val)


def _map_set(root: Path, *, task: str, name: str, split: str, seen: Seen, scale: Scale | None) -> tuple[MapSet, str]:
    """The part, and the name of the folder of its maps."""
    pairs, word = pairs_of(root, task=task, split=split, seen=seen)
    images, maps = [pair.image for pair in pairs], [pair.map for pair in pairs]
    labels = np.zeros(len(pairs), np.int64)
    files = [os.path.join(root, *image.split("/")) for image in images]
    contents = contents_of_files(files)
    reading = files_reading(files, images, image_set=name, scale=scale)
    already = [f"{image} {one.orientation}" for image, one in reading.stored.items() if one.turned_by]  # maps are not
    image_set = ImageSet(
        name=name,
        split=split,
        images=LazyImages(partial(_read_image, str(root), images, name, reading.scale), np.arange(len(pairs))),
        labels=labels,
        classes=(CLASS,),
        names=images,
        fingerprint=fingerprint_of(["folder", CLASS, *images, labels.astype("<i8"), contents.astype("<u8")], reading),
        reading=reading,
        contents=contents,
    )
    map_sizes = np.array([pair.map_bytes for pair in pairs], "<i8")
    samples = [_sample(root, pair.map, pair.map_bytes) for pair in pairs]
    map_set = MapSet(
        images=image_set,
        maps=Maps(partial(_read_map, str(root), images, maps, task, name), np.arange(len(pairs))),
        task=task,
        unit=UNITS[task],
        fingerprint=digest(["maps", task, image_set.fingerprint, *maps, map_sizes, *samples, *already]),
    )
    return map_set, word


def _sample(root: Path, path: str, n_bytes: int) -> str:
    """Hash of the start, middle and end of a file of arrays; nothing of a png, whose size follows its content."""
    if path.lower().endswith(".png"):
        return ""
    try:
        with open(root / path, "rb") as file:
            found = blake2b(digest_size=16)
            for start in sorted({0, max(0, n_bytes // 2), max(0, n_bytes - _SAMPLE_BYTES)}):
                file.seek(start)
                found.update(file.read(_SAMPLE_BYTES))
    except OSError as error:
        raise DataError(f"The map {root / path} cannot be read ({error.strerror}); restore or remove it.") from error
    return found.hexdigest()


def _hash_split(whole: MapSet, *, val_share: float, seed: int) -> DenseData:
    """By the rule of :func:`zoo.datasets.splitting.hash_split`."""
    if not 0 < val_share < 1:
        raise DataError(
            f"{whole.name!r} was to be split with a validation share of {val_share!r}; expected above 0 and below 1."
        )
    in_val = in_val_by_name(whole.images, val_share=val_share, seed=seed)
    if in_val.all() or not in_val.any():
        raise DataError(
            f"Splitting the {len(whole):,} images of {whole.name!r} leaves a part without an image; take another share "
            "or seed, add images, or split them yourself into train/ and val/."
        )
    train, val = (
        whole.subset(np.flatnonzero(part), split=split) for part, split in ((~in_val, "train"), (in_val, "val"))
    )
    return DenseData(name=whole.name, task=whole.task, train=train, val=val, is_split_here=True)


def _read_image(root: str, images: list[str], image_set: str, scale: Scale | None, index: int) -> Image.Image:
    image = images[index]
    try:
        return read_image(os.path.join(root, *image.split("/")), image=image, image_set=image_set, scale=scale)
    except CorruptImage as error:
        raise _corrupt(image, image_set, error.__cause__ or error) from error


def _read_map(
    root: str, images: list[str], maps: list[str], task: str, image_set: str, index: int
) -> tuple[np.ndarray, np.ndarray]:
    shown = f"The {'depth' if task == 'depth' else 'normal'} map {maps[index]!r} of {image_set!r}"
    values, valid = read_map(os.path.join(root, *maps[index].split("/")), task=task, shown=shown)
    image = images[index]
    try:
        width, height, orientation = grid_of(os.path.join(root, *image.split("/")))
    except DECODING_ERRORS as error:
        raise _corrupt(image, image_set, error) from error
    if values.shape[:2] != (height, width):
        stored, advice = "", "resize one of them"
        if orientation > 1:
            stored = f" before it is turned by its EXIF orientation {orientation}"
            advice += ", or store both upright"
        raise DataError(
            f"{shown} is {values.shape[1]} x {values.shape[0]} px and its image {image!r} is {width} x {height} px"
            f"{stored}; expected the same width and height: {advice}."
        )
    if orientation > 1 and task == "normals":
        raise DataError(
            f"{shown} has an image {image!r} that is turned by its EXIF orientation {orientation}; expected none, for "
            "how directions turn with it is not said in the file: store image and map upright."
        )
    return turned(values, orientation), turned(valid, orientation)


def _corrupt(image: str, image_set: str, error: BaseException) -> CorruptImage:
    return CorruptImage(
        image,
        f"The image {image!r} of {image_set!r} cannot be read ({reason_of(error)}); restore it, or remove it and its "
        "map.",
    )
