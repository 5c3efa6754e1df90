"""Folders of images with a map of depth or normals each: which map is of which image, and how map files are read."""

from __future__ import annotations

import os
import struct
import tokenize
import unicodedata
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..errors import CorruptImage, DataError
from ..optional import requires_extra
from .dense import CHANNELS, CLASS, DenseData, Maps, MapSet, checked_task
from .endings import SUFFIXES, USUAL, images_among
from .folders import VAL_FOLDERS, Seen, claim, entries_of, files_image_set, split_folders
from .imagefiles import DECODING_ERRORS, grid_of, read_image, reason_of
from .images import digest
from .rgb import WHITE, Scale, turned
from .subsets import hash_halves

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

_MAP_SUFFIXES = (".npy", ".npz", ".png")
_SHORTEST_NORMAL = 0.1  # length from which on three numbers are a direction; a mean of opposite ones, or grey, is none
_ARRAY_ERRORS = (  # of numpy's readers on damaged files
    OSError,
    ValueError,
    KeyError,
    EOFError,
    TypeError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


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
    stored = _pixels(path, task, shown) if path.lower().endswith(".png") else _array(path, task, shown)
    values, valid = _depth(stored) if task == "depth" else _normals(stored)
    if not valid.any():
        what = "0, the largest of its type or not finite" if task == "depth" else "black, not finite or of no direction"
        raise DataError(f"{shown} has no valid pixel, for all are {what}; remove it and its image, or store others.")
    return values, valid


def _pixels(path: str, task: str, shown: str) -> np.ndarray:
    """Uint8 or uint16, of a shape that fits the task."""
    try:
        with Image.open(path, formats=("PNG",)) as opened:
            opened.load()
            image = opened
    except DECODING_ERRORS as error:
        raise _unreadable(shown, reason_of(error)) from error
    bands = f"{len(image.getbands())} channel{'s' * (len(image.getbands()) > 1)} (mode {image.mode})"
    if task == "normals":
        if image.mode != "RGB":
            raise DataError(f"{shown} has {bands}; expected RGB of 8 bits: save it again so.")
        return np.asarray(image)
    if image.mode == "L":
        return np.asarray(image)
    if image.mode not in ("I;16", "I;16B", "I"):  # "I" is what an older Pillow makes of 16 bits
        raise DataError(f"{shown} has {bands}; expected one, grey of 8 or 16 bits: save it again so.")
    return np.asarray(image).astype(np.uint16)


def _array(path: str, task: str, shown: str) -> np.ndarray:
    """Whole numbers or floating point, of a shape that fits the task."""
    try:
        with open(path, "rb") as file:  # numpy would leave it open where an archive is damaged
            opened = np.load(file, allow_pickle=False)
            archive = isinstance(opened, np.lib.npyio.NpzFile)
            stored: object = opened[_key(opened.files, task, shown)] if archive else opened
    except DataError:
        raise
    except _ARRAY_ERRORS as error:
        is_pickle = "pickle" in str(error)
        reason = "it holds Python objects, which are never unpickled, or no array" if is_pickle else reason_of(error)
        raise _unreadable(shown, reason) from error
    if not isinstance(stored, np.ndarray):  # a file in the archive that is no array comes as bytes
        raise _unreadable(shown, "it holds no array")
    _require_fit(stored, task, shown)
    return stored[..., 0] if task == "depth" and stored.ndim == 3 else stored


def _key(keys: list[str], task: str, shown: str) -> str:
    if task in keys:
        return task
    if len(keys) == 1:
        return keys[0]
    held = ", ".join(sorted(keys)) or "no array"
    raise DataError(f"{shown} holds {held}; expected one array, or one of them named {task!r}.")


def _require_fit(stored: np.ndarray, task: str, shown: str) -> None:
    n = CHANNELS[task]
    fits = (stored.ndim == 3 and stored.shape[2] == n) or (n == 1 and stored.ndim == 2)
    kinds = stored.dtype.kind in "iuf" if task == "depth" else stored.dtype.kind == "f" or stored.dtype == np.uint8
    if fits and kinds and 0 not in stored.shape:
        return
    shape = "(height, width) or (height, width, 1)" if n == 1 else "(height, width, 3)"
    types = "floating point or whole numbers" if n == 1 else "floating point or uint8"
    hint = ""
    if kinds and not fits and stored.ndim == 3 and stored.shape[0] == n:
        hint = "; move the channels to the end with .transpose(1, 2, 0)"
    raise DataError(f"{shown} is {stored.dtype} of shape {stored.shape}; expected {types} of shape {shape}{hint}.")


def _depth(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):  # what float32 cannot hold is missing
        values = stored.astype(np.float32)  # (h, w)
    floating = stored.dtype.kind == "f"
    valid = np.isfinite(values) if floating else (stored != 0) & (stored != np.iinfo(stored.dtype).max)
    values[~valid] = 0
    return values[:, :, None], valid


def _normals(stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    coded = stored.dtype == np.uint8
    vectors = stored.astype(np.float64)  # (h, w, 3)
    if coded:
        vectors = vectors / 255 * 2 - 1
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt((vectors**2).sum(axis=2))  # (h, w)
        valid = np.isfinite(lengths) & (lengths >= _SHORTEST_NORMAL)
    if coded:
        valid &= stored.any(axis=2)
    values = np.zeros(vectors.shape, np.float32)
    values[valid] = vectors[valid] / lengths[valid][:, None]
    return values, valid


def _unreadable(shown: str, reason: str) -> DataError:
    return DataError(f"{shown} cannot be read ({reason}); restore it, or remove it and its image.")


IMAGE_FOLDERS = ("images", "rgb")
MAP_FOLDERS = {"depth": ("depth", "depth_zbuffer", "depth_euclidean"), "normals": ("normals", "normal")}


_TASK_OF = {word: task for task, words in MAP_FOLDERS.items() for word in words}
_ENDINGS = tuple(f"_domain_{word}" for word in (*IMAGE_FOLDERS, *_TASK_OF))  # of Taskonomy's names
_OTHER_MAPS = (*SUFFIXES, ".exr", ".hdr", ".mat", ".pfm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Paths below the folder of the part, with / between, and the size of the map."""

    image: str
    map: str
    map_bytes: int


def pairs_of(root: Path, *, task: str, split: str, seen: Seen, left_out: Counter[str]) -> tuple[list[Pair], str]:
    """Images of a part with their maps, sorted by what their paths share, and the name of the folder of the maps.

    ``seen`` has the folders that were read for any part so far, and is added to, as is ``left_out`` for other files.
    """
    walk = _Walk(root, task, split, seen, left_out)
    walk.enter(root, below="", key="", word=None)
    walk.require_both()
    walk.require_pairs()
    pairs = []
    for key in sorted(walk.images):
        map_path = walk.maps[key]
        pairs.append(Pair(image=walk.images[key], map=map_path, map_bytes=walk.sizes[map_path]))
    return pairs, next(word for word in MAP_FOLDERS[task] if word in walk.words)


@dataclass
class _Walk:
    """A walk through the folders of a part, with the images and maps in them."""

    root: Path
    task: str
    split: str
    seen: Seen
    left_out: Counter[str]
    words: set[str] = field(default_factory=set)  # names of folders of images or maps of any task
    images: dict[str, str] = field(default_factory=dict)  # what an image and its map share: path
    maps: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # path: bytes

    def enter(self, folder: Path, *, below: str, key: str, word: str | None) -> None:
        """Reads a folder at the path ``below``; ``word`` says what is in it, and ``key`` is the path without it."""
        if not claim(folder, f"{self.split} {word}" if word else self.split, self.seen):
            return
        folders, files = entries_of(folder, self.left_out)
        if word is not None:
            for entry in files:
                self.add(entry, path=f"{below}{entry.name}", key=key, word=word)
        for entry in folders:
            path, inner = Path(entry.path), f"{below}{entry.name}/"
            if word is not None or not (entry.name in IMAGE_FOLDERS or entry.name in _TASK_OF):
                self.enter(path, below=inner, key=f"{key}{entry.name}/", word=word)
            elif self.is_wanted(path):
                self.enter(path, below=inner, key=key, word=entry.name)

    def is_wanted(self, folder: Path) -> bool:
        """Notes a folder of images or maps, and says whether it is to be read."""
        self.words.add(folder.name)
        if _TASK_OF.get(folder.name, self.task) != self.task:
            return False
        words = [word for word in MAP_FOLDERS[self.task] if word in self.words]
        if len(words) > 1:
            raise DataError(
                f"{self.root} holds {self.task} in {' and in '.join(f'{word}/' for word in words)}; expected one of "
                "them: move the other elsewhere."
            )
        if (folder / "train").is_dir() and any((folder / part).is_dir() for part in VAL_FOLDERS):
            raise DataError(
                f"{folder} holds train/ and a part to test on, which would be mixed; expected these above it, as "
                f"train/{folder.name}/."
            )
        return True

    def add(self, file: os.DirEntry[str], *, path: str, key: str, word: str) -> None:
        """Notes an image or a map."""
        is_map, lowered = word in _TASK_OF, file.name.lower()
        if not lowered.endswith(_MAP_SUFFIXES if is_map else SUFFIXES):
            if is_map and lowered.endswith(_OTHER_MAPS):
                raise DataError(
                    f"The map {file.path} ends in {os.path.splitext(file.name)[1]}; expected one of "
                    f"{', '.join(_MAP_SUFFIXES)}: convert it without loss."
                )
            images_among([] if is_map else [file.name], self.left_out)
            return
        stem = os.path.splitext(file.name)[0]
        stem = next((stem.removesuffix(ending) for ending in _ENDINGS if stem.endswith(ending)), stem)
        shared = unicodedata.normalize("NFC", f"{key}{stem}")
        there = self.maps if is_map else self.images
        if shared in there:
            raise DataError(
                f"{there[shared]!r} and {path!r} in {self.root} would both be the {'map' if is_map else 'image'} of "
                f"{shared!r}; expected one: rename or remove the other."
            )
        try:
            self.sizes[path] = file.stat().st_size
        except OSError as error:
            raise DataError(f"The file {file.path} cannot be read ({error.strerror}); restore or remove it.") from error
        there[shared] = path

    def require_both(self) -> None:
        """Refuses a part without images or without maps."""
        words = MAP_FOLDERS[self.task]
        if not self.images:
            raise DataError(
                f"{self.root} holds no image in a folder images/ or rgb/; expected images/NAME, {USUAL}, and "
                f"{words[0]}/NAME with one of {', '.join(_MAP_SUFFIXES)}."
            )
        if not self.maps:
            others = sorted(word for word in self.words if _TASK_OF.get(word, self.task) != self.task)
            there = f"maps of {_TASK_OF[others[0]]} in {others[0]}/" if others else "images without any map"
            wanted = " or ".join(f"{word}/" for word in words)
            raise DataError(
                f"{self.root} holds no maps of {self.task}, but {there}; expected {wanted} with a map an image: add "
                "them, or take another task."
            )

    def require_pairs(self) -> None:
        """Refuses images without a map, maps without an image, and names that some disk takes for one."""
        for what, have, lack, wanted in (
            ("images", self.images, self.maps, f"map of {self.task}"),
            (f"maps of {self.task}", self.maps, self.images, "image"),
        ):
            alone = sorted(have[key] for key in have.keys() - lack.keys())
            if alone:
                raise DataError(
                    f"{len(alone):,} of {len(have):,} {what} in {self.root} have no {wanted} of the same name, such as "
                    f"{', '.join(map(repr, alone[:3]))}; add what is missing, or remove them."
                )
        by_folded: dict[str, str] = {}
        for key, path in self.images.items():
            first = by_folded.setdefault(key.casefold(), path)
            if first != path:
                raise DataError(
                    f"The images {first!r} and {path!r} in {self.root} have names that differ only by case, which many "
                    "disks take for one; rename one of them."
                )


UNITS = {"depth": "as stored", "normals": "unit vectors"}
_SAMPLE_BYTES = 4096


def dense_folder_data(
    folder: Path,
    *,
    task: str,
    name: str,
    val_share: float,
    seed: int,
    scale: Scale | None = None,
    background: str = WHITE,
) -> DenseData:
    """Images with maps below train/ and val/ (or validation/, or test/: the first that exists), or split by hash.

    Images lie in images/ or rgb/; depth in depth/, depth_zbuffer/ or depth_euclidean/; normals in normals/ or normal/.
    There may be folders above these (BUILDING/rgb/1.png) and in them (rgb/BUILDING/1.png); other folders are ignored.
    An image and its map have the same path but for that folder and the ending, and but for what Taskonomy appends
    (1_domain_rgb.png, 1_domain_depth_zbuffer.png). :func:`read_map` says what the files hold; the unit of depth stays
    as stored.

    A folder without train/ is split by the hash of the path of each image, as one of labelled images is. Names that
    begin with a dot are ignored and links followed, as there. Images and maps are read when they are asked for, images
    as those of a folder of labelled ones. A map lies on the pixels of its image as they are stored: where EXIF turns
    the image, a map of depth is turned with it, and a map of normals is refused, for the file does not say by which
    convention its directions would turn.

    The fingerprint is over the paths below the split's folder, the bytes of the images and the sizes of the maps, and
    over the orientations, kinds of values, scale and background of images that are turned, scaled or transparent; of
    arrays, whose sizes stay when their values change, also over three samples of their content.
    """
    checked_task(task)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one with images/ and {MAP_FOLDERS[task][0]}/.")
    seen: Seen = {}
    how: dict[str, Any] = {"task": task, "name": name, "seen": seen, "scale": scale, "background": background}
    parts = split_folders(folder)
    if parts is None:
        whole, _ = _map_set(folder, split="all", **how)
        positions = hash_halves(whole.images, val_share=val_share, seed=seed)
        train, val = (whole.subset(half, split=split) for half, split in zip(positions, ("train", "val"), strict=True))
        return DenseData(name=name, task=task, train=train, val=val, is_split_here=True)
    train, word = _map_set(parts[0], split="train", **how)
    val, other = _map_set(parts[1], split="val", **how)
    if task == "depth" and word != other:
        raise DataError(f"{parts[0]} has {word}/ and {parts[1]} has {other}/; expected one kind of depth in both.")
    return DenseData(name=name, task=task, train=train, val=val)


def _map_set(
    root: Path, *, task: str, name: str, split: str, seen: Seen, scale: Scale | None, background: str
) -> tuple[MapSet, str]:
    """The part, and the name of the folder of its maps."""
    left_out: Counter[str] = Counter()
    pairs, word = pairs_of(root, task=task, split=split, seen=seen, left_out=left_out)
    paths, maps = [pair.image for pair in pairs], [pair.map for pair in pairs]
    labels = np.zeros(len(pairs), np.int64)
    images = files_image_set(
        root,
        paths,
        labels,
        (CLASS,),
        read=_read_image,
        name=name,
        split=split,
        scale=scale,
        background=background,
        left_out=left_out,
    )
    # images that a library turns already have no orientation in their fingerprint, but their maps are turned here
    turned_images = [f"{path} {one.orientation}" for path, one in images.reading.stored.items() if one.turned_by]
    map_sizes = np.array([pair.map_bytes for pair in pairs], "<i8")
    samples = [_sample(root, pair.map, pair.map_bytes) for pair in pairs]
    map_set = MapSet(
        images=images,
        maps=Maps(partial(_read_map, str(root), paths, maps, task, name), np.arange(len(pairs))),
        task=task,
        unit=UNITS[task],
        fingerprint=digest(["maps", task, images.fingerprint, *maps, map_sizes, *samples, *turned_images]),
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


def _read_image(
    root: str, images: list[str], image_set: str, scale: Scale | None, background: str, index: int
) -> Image.Image:
    image = images[index]
    path = os.path.join(root, *image.split("/"))
    try:
        return read_image(path, image=image, image_set=image_set, scale=scale, background=background)
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
            "the file does not say how directions turn with it: store image and map upright."
        )
    return turned(values, orientation), turned(valid, orientation)


def _corrupt(image: str, image_set: str, error: BaseException) -> CorruptImage:
    return CorruptImage(
        image,
        f"The image {image!r} of {image_set!r} cannot be read ({reason_of(error)}); restore it, or remove it and its "
        "map.",
    )
