"""Images in files: a folder a class, files without labels, arrays of npz files, and files of the IDX format.

IDX is the format of MNIST, Fashion-MNIST and Kuzushiji-MNIST. A file is two zero bytes, the type of its numbers (8:
uint8), the number of axes, the length of each axis as a big-endian integer of 32 bits, and the numbers.

References
----------
Y. LeCun, C. Cortes and C. Burges 1998, The MNIST Database of Handwritten Digits (the data and the format).
H. Xiao, K. Rasul and R. Vollgraf 2017, Fashion-MNIST.
T. Clanuwat et al. 2018, Deep Learning for Classical Japanese Literature (Kuzushiji-MNIST).
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..optional import requires_extra
from .imagefiles import (
    REMEDY,
    USUAL,
    Reading,
    Show,
    Spread,
    Stored,
    files_reading,
    images_among,
    left_out_note,
    read_image,
    reason_of,
    shown_as,
    skipped_as,
)
from .images import ImageData, ImageSet, LazyImages, array_images, contents_of_files, fingerprint_of, of_groups
from .labels import data_of
from .rgb import WHITE, Scale, array_alpha, array_values, to_8_bits, to_rgb
from .subsets import hash_split

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

VAL_FOLDERS = ("val", "validation", "test")


def folder_data(folder: Path, show: Show, **division: Any) -> ImageData:
    """A folder a class: below train/ and val/ (or validation/, or test/: the first that exists), or split by hash.

    A folder without train/ is split by the hash of the path of each image below it, so that images which are added move
    no other, but for copies: files with the same bytes go with the first of them. Hidden files, those of systems and
    those that do not end like an image are left out and counted. Links are followed. Names are sorted by code points,
    whatever the locale. Images are read when they are asked for, as :func:`zoo.datasets.rgb.to_rgb` shows them.

    The fingerprint is over the paths below the split's folder, the bytes of the files, labels and classes, and over how
    images are shown that are turned, scaled or transparent.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder of images {folder}; expected one with a folder a class.")
    parts = split_folders(folder)
    if parts is None:
        return data_of([_classes_in(folder, show, "all", Counter())], split=hash_split, **division)
    beside: Counter[str] = Counter()
    images_among((file.name for file in entries_of(folder, beside)[1]), beside, folder)
    train, val = parts
    sets = [_classes_in(train, show, "train", beside), _classes_in(val, show, "val", Counter())]
    return data_of(sets, split=hash_split, **division)


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


def entries_of(folder: Path, left_out: Counter[str]) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Folders and other entries, each sorted by code points; hidden ones and those of systems are counted instead."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        kinds: tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]] = [], []
        for entry in found:
            is_folder = entry.is_dir()
            if is_folder and entry.is_symlink() and folder.resolve().is_relative_to(os.path.realpath(entry.path)):
                continue  # a link back to a folder that it is in
            if skipped := skipped_as(entry.name, is_folder=is_folder):
                left_out[skipped] += 1
            else:
                kinds[not is_folder].append(entry)
        return kinds
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error


def images_below(folder: Path, left_out: Counter[str]) -> list[str]:
    """Paths of the images below a folder, at any depth: those directly in it before those of its folders."""
    folders, files = entries_of(folder, left_out)
    found = images_among((file.name for file in files), left_out, folder)
    for inner in folders:
        found += [f"{inner.name}/{path}" for path in images_below(Path(inner.path), left_out)]
    return found


def _classes_in(root: Path, show: Show, split: str, left_out: Counter[str]) -> ImageSet:
    """The images of a part, a folder a class."""
    beside: Counter[str] = Counter()
    folders, files = entries_of(root, beside)
    if loose := images_among((file.name for file in files), beside, root):
        raise DataError(
            f"{root} holds {len(loose):,} images outside a folder of a class, such as {loose[0]!r}, so that they have "
            "no label; move each into a folder named for its class."
        )
    by_class = {one.name: images_below(Path(one.path), beside) for one in folders}
    also = f" ({left_out_note(beside)})" if beside else ""
    if not any(by_class.values()):
        raise DataError(f"{root} holds no image in a folder of a class{also}; expected CLASS/IMAGE, {USUAL}.")
    empty = [label for label, of_class in by_class.items() if not of_class]
    if empty and split != "val":  # a class may have no test image
        raise DataError(
            f"{len(empty)} of {len(by_class)} class folders in {root} hold no image, the first is {empty[0]!r}{also}; "
            "add images or remove the folder."
        )
    paths = [f"{label}/{path}" for label, of_class in by_class.items() for path in of_class]
    labels = np.repeat(np.arange(len(by_class)), list(map(len, by_class.values()))).astype(np.int64)
    return files_image_set(root, paths, labels, tuple(by_class), show, split=split, left_out=beside + left_out)


def files_image_set(
    root: Path,
    paths: list[str],
    labels: np.ndarray,
    classes: tuple[str, ...],
    show: Show,
    *,
    split: str,
    left_out: Mapping[str, int] | None = None,
    groups: np.ndarray | None = None,
    tags: tuple[str, ...] = (),
) -> ImageSet:
    """The image set of files at paths below a folder, with / between."""
    files = [os.path.join(root, path) for path in paths]
    contents = contents_of_files(files)
    reading = files_reading(files, paths, show, left_out)
    return ImageSet(
        name=show.image_set,
        split=split,
        images=LazyImages(partial(_read_below, str(root), paths, show), np.arange(len(paths))),
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


def _read_below(root: str, paths: list[str], show: Show, index: int) -> Image.Image:
    return read_image(os.path.join(root, paths[index]), paths[index], show)


def unlabelled_images(
    images: Iterable[Any],
    *,
    names: Sequence[str] | None = None,
    name: str = "images",
    scale: Scale | None = None,
    background: str = WHITE,
    max_pixels: int | None = None,
) -> ImageSet:
    """Images without labels, such as those that a probe is to classify, as an image set; its labels are all 0.

    ``images`` are PIL images, arrays (height, width[, 3]) or paths; ``names``, one an image, are by default the paths,
    and numbers of images in memory. ``scale``, ``background`` and ``max_pixels`` are as for
    :func:`~zoo.datasets.open_images`. DataError says if one is none of these, two have the same name, or the values of
    one have no range.

    >>> found = unlabelled_images([np.zeros((4, 6), np.uint8)])
    >>> found[0][0].size, found.names
    ((6, 4), ['0'])
    """
    items, show = list(images), shown_as(name, scale, background, max_pixels)
    for number, item in enumerate(items):
        if not isinstance(item, Image.Image | np.ndarray | str | os.PathLike):
            raise DataError(f"Image {number} is a {type(item).__name__}; expected a PIL image, an array or a path.")
    paths = {i: os.fspath(item) for i, item in enumerate(items) if isinstance(item, str | os.PathLike)}
    given = [paths.get(i, str(i)) for i in range(len(items))] if names is None else list(names)
    found = ImageSet(
        name=name,
        split="all",
        images=LazyImages(partial(_read_item, items, show), np.arange(len(items))),
        labels=np.zeros(len(items), np.int64),
        classes=("not known",),
        names=given,
        fingerprint="",
    )
    return replace(found, reading=files_reading(list(paths.values()), [given[i] for i in paths], show))


def _read_item(items: Sequence[Any], show: Show, number: int) -> Image.Image:
    item = items[number]
    if isinstance(item, str | os.PathLike):
        return read_image(os.fspath(item), os.fspath(item), show)
    return to_rgb(item, scale=show.scale, background=show.background)


def image_files(folder: Path, left_out: Counter[str]) -> list[str]:
    """Paths of the images below a folder, at any depth, relative to it with / between, in the order of their names.

    Other files are added to ``left_out``.
    """
    return sorted(images_below(folder, left_out))


def joined(parts: Sequence[ImageSet]) -> ImageSet:
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
        fingerprint="",
        contents=contents,
        groups=groups,
        tags=parts[0].tags,
    )


def _read_joined(parts: Sequence[ImageSet], number: int) -> Image.Image:
    for part in parts:
        if number < len(part):
            return part.images[number]
        number -= len(part)
    raise IndexError(number)


_ARRAY_NAMES = "x and y, or x_train, y_train, x_val and y_val"


def npz_data(file: Path, show: Show, **division: Any) -> ImageData:
    """Images of a file that ``numpy.savez`` or ``savez_compressed`` wrote, all of it in memory; nothing is unpickled.

    x is uint8 (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels, the last of 4 alpha; or
    another type of the same shapes, which becomes uint8 as :func:`zoo.datasets.rgb.to_rgb` says. y is (n,) of whole
    numbers or of texts; its distinct values are the classes, in their order. An optional array ``classes`` of texts
    names the classes 0, 1, ... of whole numbers. The second part may be called test instead of val; x and y without
    parts are split stratified by class. The fingerprint is over all pixels.
    """
    arrays = _arrays(file)
    second = next((part for part in ("val", "test") if f"x_{part}" in arrays), "val")
    parts = {"": "all"} if "x" in arrays else {"_train": "train", f"_{second}": "val"}
    if missing := [name for suffix in parts for name in (f"x{suffix}", f"y{suffix}") if name not in arrays]:
        there = ", ".join(sorted(arrays)) or "no array"
        raise DataError(f"{file} holds {there} and no {missing[0]}; expected the arrays {_ARRAY_NAMES}.")
    classes, codes = _classes({suffix: arrays[f"y{suffix}"] for suffix in parts}, arrays.get("classes"), file)
    sets = []
    for suffix, split in parts.items():
        pixels, reading = _pixels(arrays[f"x{suffix}"], f"x{suffix}", file, show)
        images = array_images(pixels, codes[suffix], name=show.image_set, split=split, classes=classes)
        sets.append(replace(images, reading=reading))
    return data_of(sets, **division)


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        opened = np.load(file, allow_pickle=False)
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array")
        with opened:
            return {key: opened[key] for key in opened.files if key.partition("_")[0] in ("x", "y", "classes")}
    except FileNotFoundError as error:
        raise DataError(f"There is no file {file}; expected an npz file with {_ARRAY_NAMES}.") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = "it holds Python objects, which are never unpickled" if "pickle" in str(error) else str(error)
        raise DataError(
            f"{file} is damaged or of another kind ({reason}); expected an npz file with plain arrays {_ARRAY_NAMES}."
        ) from error


def _classes(
    labels: dict[str, np.ndarray], named: np.ndarray | None, file: Path
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the classes, and the labels as their numbers, int64."""
    for suffix, y in labels.items():
        if y.ndim != 1 or y.dtype.kind not in "iuU" or not len(y):
            raise DataError(
                f"The labels y{suffix} of {file} are {y.dtype} of shape {y.shape}; expected whole numbers or texts of "
                "shape (n,)."
            )
        missing = np.flatnonzero(y == "" if y.dtype.kind == "U" else y < 0)
        if missing.size:
            raise DataError(
                f"{missing.size:,} of {len(y):,} images of {file} have no label in y{suffix}, the first is image "
                f"{missing[0]} with {y[missing[0]].item()!r}; label them or leave them out."
            )
    if len({y.dtype.kind == "U" for y in labels.values()}) > 1:
        raise DataError(
            f"The labels of {file} are whole numbers in one part and texts in the other; expected one kind."
        )
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


def _pixels(x: np.ndarray, key: str, file: Path, show: Show) -> tuple[np.ndarray, Reading]:
    """Uint8 pixels, (n, height, width) or (n, height, width, 3), and how they were scaled and made opaque."""
    channels = x.shape[3:]
    if x.ndim < 3 or channels not in ((), (1,), (3,), (4,)) or 0 in x.shape or x.dtype.kind not in "iuf":
        is_turned = x.ndim == 4 and x.shape[1] in (1, 3, 4)
        hint = f"; move the channels to the end with {key}.transpose(0, 2, 3, 1)" if is_turned else ""
        raise DataError(
            f"The images {key} of {file} are {x.dtype} of shape {x.shape}; expected uint8, uint16, or floating point "
            f"from 0 to 1, of shape (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels{hint}."
        )
    if channels == (1,):
        x = x[..., 0]
    values = array_values(x.dtype)
    if values is None and channels != (4,):
        return x, Reading()
    kind, stored = "" if values is None else values.kind, {}
    pixels = np.empty((*x.shape[:3], 3)[: x.ndim], np.uint8)
    for i, one in enumerate(x):
        name = f"Image {i} of {key} of {file}"
        shown = to_8_bits(one, scale=show.scale, background=show.background, name=name, remedy=REMEDY)
        pixels[i] = np.asarray(shown)
        how = Stored(values=kind, is_transparent=array_alpha(one, name=name) is not None)
        if how != Stored():
            stored[str(i)] = how
    spread = {kind: Spread(float(x.min()), float(x.max()), len(x))} if kind else {}
    return pixels, Reading(stored=stored, scale=show.scale, spread=spread, background=show.background)


DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
_FILES = {"train": "train", "val": "t10k"}  # of each part, what its files begin with
_AXES = {"images": 3, "labels": 1}
_GARMENTS = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
IDX_SETS = {  # the folder of torchvision, and the classes
    "fashion-mnist": ("FashionMNIST", tuple(_GARMENTS.split(","))),
    "mnist": ("MNIST", tuple("0123456789")),
    "kmnist": ("KMNIST", ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")),
}


def idx_data(dataset: str, folder: Path) -> ImageData:
    """The training and the test images of one of :data:`IDX_SETS`, in memory; the fingerprint is over every pixel.

    ``folder`` holds the four files, unpacked or compressed by gzip, or the folder ``FashionMNIST/raw`` (of the data
    set) with them.
    """
    below, classes = IDX_SETS[dataset]
    places = (folder, folder / "raw", folder / below / "raw")
    there = next((place for place in places if _idx_file(place, "train", "images") is not None), None)
    if there is None:
        known = f", such as {DEBIAN} of Debian's package dataset-fashion-mnist" if dataset == "fashion-mnist" else ""
        raise DataError(
            f"Neither {folder} nor {below}/raw below it has train-images-idx3-ubyte.gz, or the same file unpacked; "
            f"expected a folder with the four files of the data set{known}."
        )
    sets = {}
    for part, begins in _FILES.items():
        images, labels = (_read_idx(there, part, what) for what in _AXES)
        if len(images) != len(labels) or 0 in images.shape or labels.max() >= len(classes):
            raise DataError(
                f"{there} has images of shape {images.shape} and {len(labels):,} labels up to {labels.max(initial=0)} "
                f"of the part {begins!r}; expected a label an image, from 0 to {len(classes) - 1}, the classes of "
                f"{dataset}."
            )
        sets[part] = array_images(images, labels.astype(np.int64), name=dataset, split=part, classes=classes)
    return ImageData(name=dataset, train=sets["train"], val=sets["val"])


def _idx_file(folder: Path, part: str, what: str) -> Path | None:
    """The file of a part, unpacked if it is there in both forms; some copies have a dot in place of the second dash."""
    form = f"idx{_AXES[what]}-ubyte"
    names = (f"{_FILES[part]}-{what}{dash}{form}{end}" for end in ("", ".gz") for dash in "-.")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_idx(folder: Path, part: str, what: str) -> NDArray[np.uint8]:
    """The array of a file of the IDX format; DataError says what is wrong with it."""
    file, n_axes = _idx_file(folder, part, what), _AXES[what]
    if file is None:
        raise DataError(
            f"{folder} has no {_FILES[part]}-{what}-idx{n_axes}-ubyte.gz, or the same file unpacked; expected the "
            "four files of the data set."
        )
    try:
        held = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        if held[:4] != bytes((0, 0, 8, n_axes)):
            raise ValueError(f"it begins with the bytes {held[:4].hex(' ')}")
        shape = np.frombuffer(held, ">u4", n_axes, offset=4)
        return np.frombuffer(held, np.uint8, offset=4 + 4 * n_axes).reshape(shape)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{file} is no whole file of the IDX format with {n_axes} axes ({reason_of(error)}); put it there again."
        ) from error
