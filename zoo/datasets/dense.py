"""Images with maps of depth, normals or classes: of rendered images, and of folders with a map next to each image.

:func:`align_map` brings a map to the pixels of an encoder's input. Maps of classes, which are masks of semantic
segmentation, are read in :mod:`zoo.datasets.masks`.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path

from ..cards.schema import Preprocess
from ..errors import CorruptImage, DataError, UnknownName
from ..files import require_regular
from ..optional import require_extra
from .folders import list_entries, make_files_image_set, split_folders
from .image_files import (
    ARRAY_ERRORS,
    DECODING_ERRORS,
    SUFFIXES,
    DisplayOptions,
    format_reason,
    read_image_grid,
    require_held,
    select_image_names,
)
from .images import ImageData, ImageSet, LazyItems, compute_digest, require_two_parts
from .rendering import ShapesRenderer, compute_geometry, get_renderer, load_cached_array
from .rgb import CropStep, apply_orientation
from .split_names import group_names_by_part
from .subsets import split_positions_by_hash

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

CHANNELS = {"depth": 1, "normals": 3, "segmentation": 1}
"""Tasks that have maps, and the numbers at a pixel of each."""

CLASS = "image"
"""The one class of images that have maps in place of labels."""

GEOMETRY = "shapes-maps-1"
"""Name of the way from a scene to maps; part of the fingerprint, and new whenever a value would change."""

NUMBERS_OF_CLASSES = "numbers of classes"
"""The unit of maps of segmentation."""

RENDERED_BACKGROUND, RENDERED_BAR = "background", "bar"
"""Classes of rendered masks that are none of the images."""

_RENDERED_UNITS = {
    "depth": "half widths of the image",
    "normals": "unit vectors",
    "segmentation": NUMBERS_OF_CLASSES,
}


class Maps(LazyItems[tuple[np.ndarray, np.ndarray]]):
    """Maps that are read or computed each time they are asked for; indexing gives ``(values, valid)``.

    Attributes
    ----------
    read : callable
        From a number to ``values``, float32 (height, width, channels), 0 where not valid, and ``valid``, bool (height,
        width); neither is to be written to. Workers of a loader get a pickled copy, as of
        :class:`~zoo.datasets.LazyImages`.
    indices : int64 array, shape (n,)
        The number that ``read`` takes for each map.
    """


@dataclass(frozen=True, eq=False)
class MapSet:
    """Images of one split with a map each.

    Attributes
    ----------
    images : ImageSet
        All of the one class :data:`CLASS`.
    maps : Maps
        As many, in the same order, each of the height and width of its image.
    task : str
        "depth" (1 channel), "normals" (3: unit vectors) or "segmentation" (1: the number of a class, not valid where
        the mask says none).
    unit : str
        Of the values, in words.
    fingerprint : str
        Hex. Two sets with the same fingerprint have the same images and maps; the function that makes a set says how
        they enter it.
    classes : tuple of str
        Names of the classes of segmentation, in the order of their numbers; empty for other tasks.
    """

    images: ImageSet
    maps: Maps
    task: str
    unit: str
    fingerprint: str
    classes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.images.name

    @property
    def split(self) -> str:
        """Of its part: "train", "val", ..."""
        return self.images.split

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, indices: np.ndarray | Sequence[int], *, split: str) -> MapSet:
        """Some of the images with their maps, in the order of ``indices``, as :meth:`ImageSet.subset`."""
        images = self.images.subset(indices, split=split)
        chosen = np.asarray(indices).astype(np.int64)
        whole = np.array_equal(chosen, np.arange(len(self)))
        return MapSet(
            images=images,
            maps=Maps(self.maps.read, self.maps.indices[chosen]),
            task=self.task,
            unit=self.unit,
            fingerprint=self.fingerprint
            if whole
            else compute_digest(["subset", self.fingerprint, chosen.astype("<i8")]),
            classes=self.classes,
        )


@dataclass(frozen=True)
class DenseData:
    """A data set of a dense task: train on ``train``, test on ``val``."""

    name: str
    task: str
    train: MapSet
    val: MapSet
    is_split_here: bool = False  # by the zoo, and not by the source of the images

    def __post_init__(self) -> None:
        require_two_parts(self.name, self.train, self.val, learner="a decoder")


def check_task(task: str) -> str:
    """The name of a task, if it has maps.

    >>> check_task("depth")
    'depth'
    """
    if task not in CHANNELS:
        raise UnknownName("task with maps", task, CHANNELS, hint=f"Expected one of {', '.join(CHANNELS)}.")
    return task


@dataclass(frozen=True)
class RenderedMaps:
    """Computes the maps of one rendered split by the numbers of its images."""

    renderer: ShapesRenderer
    task: str

    def __call__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Float32 (size_px, size_px, channels) and bool (size_px, size_px), all true; read-only."""

        def compute() -> np.ndarray:
            exact = compute_geometry(self.renderer.scene(number), self.renderer.size_px)
            if self.task == "segmentation":  # of 0 the background, 1 the object and 2 the bar in front of it
                n_classes = self.renderer.n_classes
                numbers = np.array([0, 1 + number % n_classes, n_classes + 1], np.float32)
                return np.asarray(numbers[exact.layer][:, :, None])
            return exact.depth[:, :, None] if self.task == "depth" else exact.normals

        values = load_cached_array(_computed, (self, number), compute)
        return values, np.ones(values.shape[:2], bool)


_computed: dict[Hashable, np.ndarray] = {}


def add_geometry(data: ImageData, *, task: str) -> DenseData:
    """Images of :func:`zoo.datasets.shapes` with the depth, the normals or the class at each pixel, all of them valid.

    Depth is the distance from the plane of the camera in half widths of the image; normals have x to the right, y
    upwards and z towards the camera. Classes are "background", those of the images, and "bar", what is in front of some
    objects; a pixel has the class of what is seen at its centre. The fingerprint of a part is of that of its images,
    the task and the version of the geometry.

    >>> from zoo.datasets import shapes
    >>> values, valid = add_geometry(shapes(train=20, val=20), task="normals").train.maps[3]
    >>> values.shape, bool(valid.all())
    ((32, 32, 3), True)
    """
    train, val = _rendered_map_set(data.train, task), _rendered_map_set(data.val, task)
    return DenseData(name=data.name, task=task, train=train, val=val)


def _rendered_map_set(images: ImageSet, task: str) -> MapSet:
    renderer, numbers = get_renderer(images)
    unlabelled = replace(
        images,
        labels=np.zeros(len(images), np.int64),
        classes=(CLASS,),
        fingerprint=compute_digest(["unlabelled", images.fingerprint]),
    )
    return MapSet(
        images=unlabelled,
        maps=Maps(RenderedMaps(renderer, task), numbers),
        task=task,
        unit=_RENDERED_UNITS[task],
        fingerprint=compute_digest([GEOMETRY, task, images.fingerprint]),
        classes=(RENDERED_BACKGROUND, *images.classes, RENDERED_BAR) if task == "segmentation" else (),
    )


def align_map(values: np.ndarray, valid: np.ndarray, preprocess: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    """A map on the grid of an encoder's input: values float32 (channels, crop_px, crop_px), valid pixels bool.

    ``values`` (height, width, channels) and ``valid`` (height, width) go through the geometry of
    :func:`zoo.encoders.preprocess.build_preprocess`. Each pixel takes the value of the map's pixel that its centre
    falls into, none is blended. Values are 0 where not valid, as in the padding.

    >>> ramp, everywhere = np.arange(8.0).reshape(2, 4, 1), np.ones((2, 4), bool)
    >>> about = Preprocess(resize_px=2, crop_px=2, interpolation="bilinear", mean=(0, 0, 0), std=(1, 1, 1))
    >>> align_map(ramp, everywhere, about)[0].tolist()
    [[[1.0, 2.0], [5.0, 6.0]]]
    """
    height, width, n_channels = values.shape
    source = _source_pixels(height, width, preprocess)  # (px, px)
    valid_there = valid.reshape(-1)[source] & (source >= 0)
    moved = values.reshape(-1, n_channels)[source].astype(np.float32)  # (px, px, c)
    moved[~valid_there] = 0
    return np.ascontiguousarray(moved.transpose(2, 0, 1)), valid_there


@lru_cache(maxsize=16)
def _source_pixels(height: int, width: int, preprocess: Preprocess) -> np.ndarray:
    """The number of the map's pixel for each pixel of the input, int64 (crop_px, crop_px); -1 in the padding.

    Pillow resizes a row and a column of numbers from 1 on, so that the rounding is the same as that of images.
    """
    short, long = min(height, width), max(height, width)
    resize_px, crop_px, is_squashed = preprocess.resize_px, preprocess.crop_px, preprocess.fit == "squash"
    crop = CropStep((crop_px, 1), rounds_down=preprocess.crop_rounding == "down")
    longer_px = resize_px if is_squashed else int(resize_px * long / short)  # as torchvision rounds it
    resized = {long: longer_px, short: resize_px}  # px of each side

    def moved(side: int) -> np.ndarray:
        numbers = Image.fromarray(np.arange(1, side + 1, dtype=np.int32)[:, None])
        column = numbers.resize((1, resized[side]), Image.Resampling.NEAREST)
        return np.asarray(crop(column))[:, 0].astype(np.int64) - 1  # padded with 0

    rows, columns = moved(height)[:, None], moved(width)[None, :]
    source = np.where((rows >= 0) & (columns >= 0), rows * width + columns, -1)
    source.setflags(write=False)
    return source


IMAGE_FOLDERS = ("images", "rgb")
MAP_FOLDERS = {"depth": ("depth", "depth_zbuffer", "depth_euclidean"), "normals": ("normals", "normal")}

_UNITS = {"depth": "as stored", "normals": "unit vectors"}
_TASK_OF = {word: task for task, words in MAP_FOLDERS.items() for word in words}
_ENDINGS = tuple(f"_domain_{word}" for word in (*IMAGE_FOLDERS, *_TASK_OF))  # of Taskonomy's names
_MAP_SUFFIXES = (".npy", ".npz", ".png")
_SAMPLE_BYTES = 4096
_SHORTEST_NORMAL = 0.1  # length from which on three numbers are a direction; a mean of opposite ones, or grey, is none


def open_dense_folder(folder: Path, show: DisplayOptions, *, task: str, val_share: float, seed: int) -> DenseData:
    """Images with maps below train/ and val/ (or validation/, or test/: the first that exists), or split by hash.

    Images lie in images/ or rgb/; depth in depth/, depth_zbuffer/ or depth_euclidean/; normals in normals/ or normal/.
    There may be folders above these (BUILDING/rgb/1.png) and in them (rgb/BUILDING/1.png); other folders are ignored.
    An image and its map have the same path but for that folder and the ending, and but for what Taskonomy appends
    (1_domain_rgb.png, 1_domain_depth_zbuffer.png). A map lies on the pixels of its image as they are stored: where EXIF
    turns the image, a map of depth is turned with it, and a map of normals is refused.

    The fingerprint is over the paths below the split's folder, the bytes of the images, how they are shown, and the
    sizes of the maps; of arrays, whose sizes stay when their values change, also over three samples of their content.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one with images/ and {MAP_FOLDERS[task][0]}/.")
    parts = split_folders(folder)
    if parts is None:
        whole, _ = _map_set(folder, show, task, "all")
        positions = split_positions_by_hash(whole.images, val_share=val_share, seed=seed)
        train, val = (whole.subset(half, split=split) for half, split in zip(positions, ("train", "val"), strict=True))
        return DenseData(name=show.image_set, task=task, train=train, val=val, is_split_here=True)
    (train, word), (val, other) = (
        _map_set(part, show, task, split) for part, split in zip(parts, ("train", "val"), strict=True)
    )
    if task == "depth" and word != other:
        raise DataError(f"{parts[0]} has {word}/ and {parts[1]} has {other}/; expected one kind of depth in both.")
    return DenseData(name=show.image_set, task=task, train=train, val=val)


def _map_set(root: Path, show: DisplayOptions, task: str, split: str) -> tuple[MapSet, str]:
    """The part, and the name of the folder of its maps."""
    left_out: Counter[str] = Counter()
    found: dict[str, dict[str, str]] = {}
    _find(root, root, task, found, left_out)
    words = [word for word in MAP_FOLDERS[task] if word in found]
    if len(words) != 1 or not any(word in found for word in IMAGE_FOLDERS):
        there = " and ".join(f"{word}/" for word in found) or "no such folder"
        raise DataError(
            f"{root} holds {there}; expected images/ (or rgb/) and, with a map of {task} for each image, one of "
            f"{', '.join(f'{word}/' for word in MAP_FOLDERS[task])}."
        )
    images: dict[str, str] = {}
    maps = found[words[0]]
    for word in IMAGE_FOLDERS:
        if twice := sorted(images.keys() & found.get(word, {}).keys()):
            raise DataError(f"{root} has two images of {twice[0]!r}; expected one: rename or remove the other.")
        images |= found.get(word, {})
    for what, have, lack, wanted in (("images", images, maps, "map"), ("maps", maps, images, "image")):
        if alone := sorted(have[key] for key in have.keys() - lack.keys()):
            raise DataError(
                f"{len(alone):,} of {len(have):,} {what} in {root} have no {wanted} of the same name for the task "
                f"{task}, such as {', '.join(map(repr, alone[:3]))}; add what is missing (maps end in "
                f"{', '.join(_MAP_SUFFIXES)}), or remove them."
            )
    if not images:
        raise DataError(f"{root} holds no image in images/ or rgb/; expected images and maps of the same name.")
    image_paths, map_paths = [images[key] for key in sorted(images)], [maps[key] for key in sorted(images)]
    labels = np.zeros(len(images), np.int64)
    image_set = make_files_image_set(root, image_paths, labels, (CLASS,), show, split=split, left_out=left_out)
    # images that a library turns already have no orientation in their fingerprint, but their maps are turned here
    turned_images = [f"{path} {one.orientation}" for path, one in image_set.reading.stored.items() if one.turned_by]
    samples = [_sample(root / path) for path in map_paths]
    sizes = np.array([size for size, _ in samples], "<i8")
    read = partial(_read_map, str(root), image_paths, map_paths, task, show.image_set)
    map_set = MapSet(
        images=image_set,
        maps=Maps(read, np.arange(len(images))),
        task=task,
        unit=_UNITS[task],
        fingerprint=compute_digest(
            ["maps", task, image_set.fingerprint, *map_paths, sizes, *(held for _, held in samples), *turned_images]
        ),
    )
    return map_set, words[0]


def _find(
    root: Path,
    folder: Path,
    task: str,
    found: dict[str, dict[str, str]],
    left_out: Counter[str],
    *,
    below: str = "",
    key: str = "",
    word: str = "",
) -> None:
    """Adds the paths below a folder of images or maps by what an image and its map share, below the folder's name.

    ``word`` is the name of the folder of images or maps that this one is in, and ``key`` the path without it.
    """
    folders, files = list_entries(folder, left_out)
    suffixes = _MAP_SUFFIXES if word in _TASK_OF else SUFFIXES
    for name in [entry.name for entry in files] if word else ():
        if not name.lower().endswith(suffixes):
            select_image_names([] if word in _TASK_OF else [name], left_out)
            continue
        stem = os.path.splitext(name)[0]
        stem = next((stem.removesuffix(ending) for ending in _ENDINGS if stem.endswith(ending)), stem)
        shared = unicodedata.normalize("NFC", f"{key}{stem}")
        first = found[word].setdefault(shared, f"{below}{name}")
        if first != f"{below}{name}":
            raise DataError(
                f"{first!r} and {below + name!r} in {root} would both be of {shared!r}; expected one: rename or remove "
                "the other."
            )
    for entry in folders:
        path, inner = Path(entry.path), f"{below}{entry.name}/"
        if word or not (entry.name in IMAGE_FOLDERS or entry.name in _TASK_OF):
            _find(root, path, task, found, left_out, below=inner, key=f"{key}{entry.name}/", word=word)
        elif _TASK_OF.get(entry.name, task) == task:
            if {"train"} < group_names_by_part(one.name for one in list_entries(path, Counter())[0]).keys():
                raise DataError(f"{path} holds train/; expected the parts above it, as train/{entry.name}/.")
            found.setdefault(entry.name, {})
            _find(root, path, task, found, left_out, below=inner, key=key, word=entry.name)


def _sample(path: Path) -> tuple[int, str]:
    """Bytes of a map, and of arrays the hash of their start, middle and end; the size of a png follows its content."""
    try:
        require_regular(path)
        n_bytes = path.stat().st_size
        if path.suffix.lower() == ".png":
            return n_bytes, ""
        with open(path, "rb") as file:
            found = blake2b(digest_size=16)
            for start in sorted({0, max(0, n_bytes // 2), max(0, n_bytes - _SAMPLE_BYTES)}):
                file.seek(start)
                found.update(file.read(_SAMPLE_BYTES))
    except OSError as error:
        raise DataError(f"The map {path} cannot be read ({error.strerror}); restore or remove it.") from error
    return n_bytes, found.hexdigest()


def _read_map(
    root: str, images: list[str], maps: list[str], task: str, image_set: str, index: int
) -> tuple[np.ndarray, np.ndarray]:
    shown = f"The {'depth' if task == 'depth' else 'normal'} map {maps[index]!r} of {image_set!r}"
    values, valid = read_map(os.path.join(root, maps[index]), task=task, shown=shown)
    image = images[index]
    try:
        width, height, orientation = read_image_grid(os.path.join(root, image))
    except DECODING_ERRORS as error:
        raise CorruptImage.of(image, image_set=image_set, reason=format_reason(error)) from error
    if values.shape[:2] != (height, width):
        turn = f" before it is turned by its EXIF orientation {orientation}" * (orientation > 1)
        raise DataError(
            f"{shown} is {values.shape[1]} x {values.shape[0]} px and its image {image!r} is {width} x {height} px"
            f"{turn}; expected the same width and height: resize one of them{', or store both upright' * bool(turn)}."
        )
    if orientation > 1 and task == "normals":
        raise DataError(
            f"{shown} has an image {image!r} that is turned by its EXIF orientation {orientation}; expected none, for "
            "the file does not say how directions turn with it: store image and map upright."
        )
    return apply_orientation(values, orientation), apply_orientation(valid, orientation)


def read_map(path: str, *, task: str, shown: str) -> tuple[np.ndarray, np.ndarray]:
    """Values of a file, float32 (height, width, channels) with 0 where missing, and valid pixels, bool (height, width).

    Depth: a grey png of 8 or 16 bits, whose values stay as they are stored and are missing where they are 0 or the
    largest of the type; an array of whole numbers likewise; or an array of floating point, missing where it is not
    finite. Of shape (height, width) or (height, width, 1).

    Normals: an RGB png of 8 bits, v / 255 * 2 - 1, missing where it is black; an array of uint8 likewise; or an array
    of floating point, missing where it is not finite. Of shape (height, width, 3); missing where shorter than 0.1,
    and brought to length 1 elsewhere.

    An npz file holds one array, or several of which one has the name of the task. Nothing is ever unpickled. ``shown``
    is what messages call the map; a map without a valid pixel is refused.
    """
    try:
        require_regular(path)
        if path.lower().endswith(".png"):
            with Image.open(path, formats=("PNG",)) as opened:
                opened.load()
            if opened.mode not in ("RGB", "L", "I;16", "I;16B", "I"):
                raise DataError(f"{shown} has the mode {opened.mode}; expected RGB, or grey of 8 or 16 bits.")
            stored = np.asarray(opened)
            stored = stored.astype(np.uint16) if opened.mode == "I" else stored  # what an older Pillow calls 16 bits
        else:
            require_held(path)
            with open(path, "rb") as file:  # numpy would leave it open where an archive is damaged
                array = np.load(file, allow_pickle=False)
                if isinstance(array, np.lib.npyio.NpzFile):
                    key = array.files[0] if len(array.files) == 1 else task
                    if key not in array.files:
                        held = ", ".join(sorted(array.files)) or "no array"
                        raise DataError(f"{shown} holds {held}; expected one array, or one of them named {task!r}.")
                    array = array[key]
            stored = np.asarray(array)
    except DataError:
        raise
    except (*DECODING_ERRORS, *ARRAY_ERRORS) as error:
        reason = format_reason(error)
        raise DataError(f"{shown} cannot be read ({reason}); restore it, or remove it and its image.") from error
    n, kind = CHANNELS[task], stored.dtype.kind
    fits = (stored.ndim == 3 and stored.shape[2] == n) or (n == 1 and stored.ndim == 2)
    if not fits or 0 in stored.shape or not (kind == "f" or stored.dtype == np.uint8 or (n == 1 and kind in "iu")):
        shape = "(height, width) or (height, width, 1)" if n == 1 else "(height, width, 3)"
        types = "floating point or whole numbers" if n == 1 else "floating point or uint8"
        is_turned = stored.ndim == 3 and stored.shape[0] == n
        hint = "; move the channels to the end with .transpose(1, 2, 0)" if is_turned and not fits else ""
        raise DataError(f"{shown} is {stored.dtype} of shape {stored.shape}; expected {types} of shape {shape}{hint}.")
    values, valid = _depth(stored.reshape(stored.shape[:2])) if task == "depth" else _normals(stored)
    if not valid.any():
        what = "0, the largest of its type or not finite" if task == "depth" else "black, not finite or of no direction"
        raise DataError(f"{shown} has no valid pixel, for all are {what}; remove it and its image, or store others.")
    return values, valid


def _depth(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):  # what float32 cannot hold is missing
        values = stored.astype(np.float32)  # (h, w)
    is_floating = stored.dtype.kind == "f"
    valid = np.isfinite(values) if is_floating else (stored != 0) & (stored != np.iinfo(stored.dtype).max)
    values[~valid] = 0
    return values[:, :, None], valid


def _normals(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    is_coded = stored.dtype == np.uint8
    vectors = stored.astype(np.float64)  # (h, w, 3)
    if is_coded:
        vectors = vectors / 255 * 2 - 1
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt((vectors**2).sum(axis=2))  # (h, w)
        valid = np.isfinite(lengths) & (lengths >= _SHORTEST_NORMAL)
    if is_coded:
        valid &= stored.any(axis=2)
    values = np.zeros(vectors.shape, np.float32)
    values[valid] = vectors[valid] / lengths[valid][:, None]
    return values, valid
