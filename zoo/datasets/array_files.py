"""Images in arrays: npz files, and files of the IDX format.

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
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..optional import requires_extra
from .imagefiles import REMEDY, Reading, Show, Spread, Stored, reason_of
from .images import ImageData, array_images
from .labels import data_of
from .rgb import array_alpha, array_values, to_8_bits

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
