"""Image sets in files of the IDX format: Fashion-MNIST, MNIST and Kuzushiji-MNIST, 70,000 grey images of 28 x 28 px.

A folder has four files, two a part, unpacked or compressed by gzip; torchvision keeps them below ``FashionMNIST/raw``.
A file is two zero bytes, the type of its numbers (8: uint8), the number of axes, the length of each axis as a
big-endian integer of 32 bits, and the numbers.

References
----------
Y. LeCun, C. Cortes and C. Burges 1998, The MNIST Database of Handwritten Digits (the data and the format).
H. Xiao, K. Rasul and R. Vollgraf 2017, Fashion-MNIST.
T. Clanuwat et al. 2018, Deep Learning for Classical Japanese Literature (Kuzushiji-MNIST).
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ..errors import DataError
from ..optional import requires_extra
from .imagefiles import reason_of
from .images import ImageData, ImageSet, array_images

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
_UNSIGNED_BYTES = 8  # the type, as the format numbers it
_FILES = {"train": "train", "val": "t10k"}  # of each part, what its files begin with
_AXES = {"images": 3, "labels": 1}


@dataclass(frozen=True, slots=True)
class IdxSet:
    """A data set of which such files exist."""

    folder: str  # of torchvision
    classes: tuple[str, ...]


_GARMENTS = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"

SETS = {
    "fashion-mnist": IdxSet("FashionMNIST", tuple(_GARMENTS.split(","))),
    "mnist": IdxSet("MNIST", tuple("0123456789")),
    "kmnist": IdxSet("KMNIST", ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")),
}


def idx_data(dataset: str, folder: Path) -> ImageData:
    """The training and the test images of one of :data:`SETS`, all in memory; the fingerprint is over every pixel.

    ``folder`` holds the four files, or the folder ``FashionMNIST/raw`` (of the data set) with them.
    """
    of = SETS[dataset]
    there = _folder(folder, of, dataset)
    return ImageData(name=dataset, **{part: _part(there, part, dataset, of.classes) for part in _FILES})  # type: ignore[arg-type]


def read_idx(file: Path, *, n_axes: int) -> NDArray[np.uint8]:
    """The array of a file of the IDX format, uint8, unpacked if its name ends in .gz.

    DataError says what is wrong with the file: it is cut off or damaged, of another type or number of axes, or has more
    or fewer numbers than its head says.
    """
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else open(file, "rb") as opened:
            head = opened.read(4 + 4 * n_axes)
            if head[:4] != bytes((0, 0, _UNSIGNED_BYTES, n_axes)):
                raise DataError(
                    f"{file} begins with the bytes {head[:4].hex(' ') or 'of an empty file'}; expected "
                    f"00 00 08 {n_axes:02x}, the magic number of {n_axes} {'axis' if n_axes == 1 else 'axes'} of bytes "
                    "in the IDX format: put the file there again."
                )
            if len(head) < 4 + 4 * n_axes:
                raise EOFError("it ends within its head")
            shape = tuple(int(length) for length in np.frombuffer(head, ">u4", offset=4))
            content = opened.read(prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{file} cannot be read to its end ({reason_of(error)}); it is cut off or damaged, put it there again."
        ) from error
    if len(content) != prod(shape):
        less = f"{len(content):,} bytes" if len(content) < prod(shape) else "more bytes than that"
        sizes = " x ".join(map(str, shape))
        raise DataError(
            f"{file} announces {sizes} = {prod(shape):,} bytes and holds {less}; it is cut off or damaged, put it "
            "there again."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _folder(given: Path, of: IdxSet, dataset: str) -> Path:
    if not given.is_dir():
        known = f", such as {DEBIAN} of Debian's package dataset-fashion-mnist" if dataset == "fashion-mnist" else ""
        raise DataError(f"There is no folder {given}; expected one with the four files of {of.folder}{known}.")
    places = (given, given / "raw", given / of.folder / "raw")
    there = next((place for place in places if _file(place, "train", "images") is not None), None)
    if there is None:
        raise DataError(
            f"Neither {given} nor {of.folder}/raw below it has train-images-idx3-ubyte.gz, or the same file unpacked; "
            "expected the four files of the data set."
        )
    return there


def _file(folder: Path, part: str, what: str) -> Path | None:
    """The file of a part, unpacked if it is there in both forms; some copies have a dot in place of the second dash."""
    form = f"idx{_AXES[what]}-ubyte"
    names = (f"{_FILES[part]}-{what}{dash}{form}{end}" for end in ("", ".gz") for dash in "-.")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _part(folder: Path, part: str, dataset: str, classes: tuple[str, ...]) -> ImageSet:
    found = {}
    for what, n_axes in _AXES.items():
        file = _file(folder, part, what)
        if file is None:
            raise DataError(
                f"{folder} has no {_FILES[part]}-{what}-idx{n_axes}-ubyte.gz, or the same file unpacked; expected the "
                "four files of the data set."
            )
        found[what] = read_idx(file, n_axes=n_axes)
    images, labels = found["images"], found["labels"].astype(np.int64)
    if len(images) != len(labels):
        raise DataError(
            f"{folder} has {len(images):,} images and {len(labels):,} labels of the part {_FILES[part]!r}; expected "
            "one label an image: the files are of different data sets."
        )
    if 0 in images.shape:
        raise DataError(
            f"{folder} has no pixels in the part {_FILES[part]!r}: its images have the shape {images.shape}."
        )
    if labels.max() >= len(classes):
        raise DataError(
            f"{folder} has the label {labels.max()} in the part {_FILES[part]!r}; expected 0 to {len(classes) - 1}, "
            f"the classes of {dataset}."
        )
    return array_images(images, labels, name=dataset, split=part, classes=classes)
