"""Images in arrays with names, of NumPy's, torch's and CIFAR's files, and in files of the IDX format.

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
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, format_list
from ..files import require_regular
from ..optional import require_extra
from .image_files import (
    ARRAY_ERRORS,
    REMEDY,
    DecodingInfo,
    DisplayOptions,
    StoredFormat,
    ValueStatistics,
    format_reason,
    prepare_arrays,
    require_held,
)
from .images import NO_LABEL, ImageData, array_images
from .labels import build_image_data
from .rgb import convert_to_8_bits, extract_array_alpha, infer_array_value_kind
from .split_names import parse_part_name

with require_extra("models", needed_for="Working with images"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_IMAGES = frozenset(("x", "data", "image", "images", "img", "imgs", "pixels"))
_LABELS = frozenset(("y", "label", "labels", "target", "targets"))
_CLASS_NAMES = re.compile(r"(?:.*/)?(?:classes|(?:class|label|target|category)_?names)")
_BORDERS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_POSITION = re.compile(r"(.*/)?arr_[0-9]+")  # as savez names arrays that are given without a name
_EXPECTED = "x and y (or such words as images and labels), or x_train, y_train, x_test and y_test"
_PICKLED = (".pt", ".pth", ".pkl", ".pickle")
_SUFFIXES = (".npz", ".npy", *_PICKLED)
_PLAIN = (int, float, str, bytes)  # items of a list that is an array
_MOST_LISTED = 8

Arrays = dict[str, Callable[[], np.ndarray]]  # by name, read when they are asked for


def open_array_data(
    where: Path, show: DisplayOptions, *, image: str | None, label: str | None, **division: Any
) -> ImageData:
    """Images and labels in arrays with names, all of it in memory; Python unpickles nothing.

    ``where`` is a file of ``numpy.savez``, or of ``torch.save`` with tensors in a dict or a tuple; a .npy file with the
    other ones next to it; or a folder of such files, or of CIFAR's. A name has a word for images (x, images, data, ...)
    or for labels (y, labels, targets, ...), and maybe one for its part, in any order and case; ``image`` and ``label``
    are names without the part, ``label`` "" says that there are none. Of validation and test images the first are
    tested on; a set without parts is split stratified by class.

    Images are (n, height, width), or have 1, 3 or 4 channels, at the end or before the height, the last of 4 alpha.
    They are uint8, whole numbers from 0 to 255 in all parts, or what :func:`zoo.datasets.rgb.to_rgb` makes uint8.
    Labels are (n,) or (n, 1), whole numbers of any type, truth values or texts, or one-hot rows; their distinct values
    are the classes, in their order. An array ``classes`` of texts names the classes 0, 1, ... of whole numbers. The
    fingerprint is over all pixels.
    """
    with _reading(where):
        arrays = _arrays(where, image, label)
        pairs, notes = _parts(arrays, where, image, label)
        x, y = ({part: arrays[pair[i]]() for part, pair in pairs.items() if pair[i]} for i in (0, 1))
        named = next((arrays[name]() for name in arrays if _CLASS_NAMES.fullmatch(name.casefold())), None)
    y = {pairs[part][1]: _vector(labels, pairs[part][1], where, notes) for part, labels in y.items()}
    classes, codes = _classes(y, named, where) if y else ((), {})
    is_first = where.suffix.lower() in _PICKLED
    at_end = [_channels_last(of, pairs[part][0], where, notes, is_first=is_first) for part, of in x.items()]
    ready, said = prepare_arrays(at_end, f"Images of {where}", show)
    sets = []
    for (part, (key, of)), images in zip(pairs.items(), ready, strict=True):
        pixels, reading = _pixels(images, key, where, show)
        labels = codes[of] if of else np.full(len(pixels), NO_LABEL, np.int64)
        made = array_images(pixels, labels, name=show.image_set, split=part, classes=classes)
        sets.append(replace(made, reading=reading.with_notes(dict.fromkeys([*notes, *said]))))
    return build_image_data(sets, **division)


@contextmanager
def _reading(where: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"There is no file {where}; expected one with arrays {_EXPECTED}.") from error
    except ARRAY_ERRORS as error:
        reason = format_reason(error).removesuffix(".")
        raise DataError(
            f"{where} is damaged or of another kind ({reason}); expected a file with plain arrays {_EXPECTED}."
        ) from error


def _arrays(where: Path, image: str | None, label: str | None) -> Arrays:
    """The arrays of a folder, or of a file, with those of files next to it if it has not both images and labels."""
    if where.is_dir():
        return _cifar_arrays(where) or _joined(where, [*where.iterdir(), *where.glob("*/*")])
    held = _held(where)
    parts = {role[1] for name in held if (role := _role_of(name or where.stem, image, label))}
    by_file = parse_part_name(where.stem) is not None and parts <= {"all"}  # as train.npz with x and y
    own = {(name if name and not by_file else f"{where.stem}/{name}".rstrip("/")): held[name] for name in held}
    if len(held) > 1 and not by_file:
        return own
    has_parts, beside = by_file or not parts <= {"all"}, []
    for one in where.parent.iterdir():
        role = _role_of(one.stem, image, label)
        part = role[1] if role else parse_part_name(one.stem)
        if one.suffix == where.suffix and one.stem != where.stem and part and (part != "all") == has_parts:
            beside.append(one)
    return own | _joined(where.parent, beside)


def _joined(folder: Path, files: Iterable[Path]) -> Arrays:
    """The arrays of some files, whose names begin with those of the files."""
    taken = sorted(one for one in files if one.suffix.lower() in _SUFFIXES and one.name[0] != "." and one.is_file())
    stems = [(one, one.relative_to(folder).with_suffix("").as_posix()) for one in taken]
    return {f"{stem}/{name}".rstrip("/"): array for one, stem in stems for name, array in _held(one).items()}


def _held(file: Path) -> Arrays:
    """The arrays of a file; one without a name has the name ""."""
    if file.suffix.lower() in _PICKLED:
        require_regular(file)
        return _leaves(file)
    require_held(file)
    opened = np.load(file, allow_pickle=False)
    if isinstance(opened, np.lib.npyio.NpzFile):
        return {key: partial(opened.__getitem__, key) for key in opened.files}
    return {key: partial(opened.__getitem__, key or ...) for key in opened.dtype.names or ("",)}


def _leaves(file: Path) -> Arrays:
    """Tensors, arrays and lists in the containers that torch or pickle wrote."""
    from ..weights.checkpoints import read_checkpoint

    found: Arrays = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                walk(one, f"{name}/{key.decode() if isinstance(key, bytes) else key}".lstrip("/"))
        elif hasattr(value, "numpy") or (isinstance(value, list) and isinstance((value or [{}])[0], _PLAIN)):
            found[name] = partial(np.asarray, value)
        elif isinstance(value, list | tuple):
            around = name.rpartition("/")[0] if _POSITION.fullmatch(name) else name  # pairs in a pair are four
            for one in value:
                walk(one, f"{around}/arr_{len(found)}".lstrip("/"))

    walk(read_checkpoint(file, what=f"the images {file.name}").content, "")
    return found


def _cifar_arrays(folder: Path) -> Arrays:
    """The arrays of CIFAR's pickles: data_batch_1, ... and test_batch, or train and test of CIFAR-100."""
    files = {"train": sorted(folder.glob("data_batch_[0-9]")), "test": [folder / "test_batch"]}
    if not files["train"]:
        files = {part: [folder / part] for part in files if (folder / "meta").is_file()}
    arrays: Arrays = {}
    for part, some in files.items():
        held = [_leaves(file) for file in some if file.is_file()]
        for name in [one for one in held[0] if one == "data" or one.endswith("labels")] if held else ():
            arrays[f"{part}/{name}"] = partial(_concatenated, [one[name] for one in held])
    meta = folder / "batches.meta"
    return arrays | (_leaves(meta) if arrays and meta.is_file() else {})


def _concatenated(arrays: Sequence[Callable[[], np.ndarray]]) -> np.ndarray:
    """Arrays of CIFAR's files as one; in a row of its pixels one colour comes after the other."""
    whole = np.concatenate([array() for array in arrays])
    px = math.isqrt(whole.shape[-1] // 3)
    return whole.reshape(-1, 3, px, px) if whole.ndim == 2 and whole.shape[1] == 3 * px**2 else whole


def _role_of(name: str, image: str | None, label: str | None) -> tuple[str, str] | None:
    """What an array is by its name, "x" or "y", and of which part, or "all"; None if the name does not say it."""
    for kind, asked in (("x", image), ("y", label)):
        if asked and asked in (name, name.rpartition("/")[2]):
            return kind, parse_part_name(name.removesuffix(asked)) or "all"
    words = [word.casefold() for word in _BORDERS.split(name) if word]
    for i, word in enumerate(words):  # xtrain, trainx
        for letter, rest in ((word[0], word[1:]), (word[-1], word[:-1])):
            words[i : i + 1] = [letter, rest] if letter in "xy" and parse_part_name(rest) else words[i : i + 1]
    kind = "y" if _LABELS & {*words} else "x"
    if not (_LABELS | _IMAGES) & {*words} or (image if kind == "x" else label):
        return None
    rest = " ".join(dict.fromkeys(word for word in words if word not in _LABELS | _IMAGES))
    is_neutral = not rest or parse_part_name(f"train {rest}") == "train"
    return (kind, parse_part_name(rest) or "all") if parse_part_name(rest) or is_neutral else None


def _parts(
    arrays: Arrays, where: Path, image: str | None, label: str | None
) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """By part, "all" or "train" and "val", the names of images and labels; and notes on that."""
    notes: list[str] = []
    roles = {name: role for name in arrays if (role := _role_of(name, image, label))}
    if label == "" and not roles:
        roles = {name: ("x", "all") for name in arrays if arrays[name]().ndim > 2}
    if not roles and (roles := _roles_by_shape(arrays)):
        said = ", ".join(
            f"{name} {'images' if kind == 'x' else 'labels'} ({part})" for name, (kind, part) in roles.items()
        )
        notes.append(f"what arrays are was taken from their shapes and order: {said}")
    found: dict[str, dict[str, list[str]]] = {}
    for name, (kind, part) in roles.items():
        found.setdefault(part, {"x": [], "y": []})[kind].append(name)
    if label == "":
        found = {part: {**of, "y": [""]} for part, of in found.items() if of["x"]}
    pairs = {part: (of["x"][0], of["y"][0]) for part, of in found.items() if len(of["x"]) == len(of["y"]) == 1}
    if label == "" and pairs.keys() == found.keys():
        return pairs, notes
    parts = [*found] if len(found) == 1 else ["train", "val" if "val" in pairs else "test"]
    if not {*parts} <= {*pairs} or ("all" in found) > ("all" in parts):
        sides = {part: [format_list(of[kind]) or "none" for kind in "xy"] for part, of in found.items()}
        understood = "; ".join(f"{part} images {x} and labels {y}" for part, (x, y) in sides.items())
        raise DataError(
            f"{where} holds {_listed(arrays)} (understood: {understood or 'nothing'}); expected one array of images "
            f"and one of labels for each part, in one file or side by side: {_EXPECTED}; --image-column and "
            "--label-column name others."
        )
    if others := [name for name, (_, part) in roles.items() if part not in parts]:
        notes.append(f"arrays of other parts are left out: {', '.join(others)}")
    if unused := [one for one in arrays if one not in roles and not _CLASS_NAMES.fullmatch(one.casefold())]:
        notes.append(f"arrays that their names do not call images or labels are not used: {format_list(unused)}")
    if len(parts) == 1:
        if parts != ["all"]:
            notes.append(f"there are images of {parts[0]} alone, which are split here")
        return {"all": pairs[parts[0]]}, notes
    return {"train": pairs["train"], "val": pairs[parts[1]]}, notes


def _roles_by_shape(arrays: Arrays) -> dict[str, tuple[str, str]]:
    """The roles of arrays without names: images have more axes than labels; of two pairs the second is for testing."""
    folders = {name: match[1] for name in arrays if (match := _POSITION.fullmatch(name))}
    kinds = {name: "x" if arrays[name]().ndim > 2 else "y" for name in folders}
    is_two = [*kinds.values()].count("x") == 2 == len(kinds) / 2 and not any(folders.values())
    roles, seen = {}, Counter[str]()
    for name, kind in kinds.items():
        part = ("train", "test")[seen[kind] % 2] if is_two else parse_part_name(folders[name] or "")
        roles[name] = kind, part or "all"
        seen[kind] += 1
    return roles


def _listed(arrays: Arrays) -> str:
    """Names, types and shapes of arrays."""
    said = []
    for name in [*arrays][:_MOST_LISTED]:
        with suppress(ValueError):  # Python objects
            said.append(f"{name} ({(one := arrays[name]()).dtype} of shape {one.shape})")
    return format_list([*said, *[*arrays][_MOST_LISTED:]], _MOST_LISTED) or "no array"


def _vector(y: np.ndarray, key: str, where: Path, notes: list[str]) -> np.ndarray:
    """Labels (n,) from those of shape (n, 1), one-hot rows, bytes, and whole numbers of another type."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim == 2 and y.dtype.kind in "biuf" and y.size and np.isin(y, (0, 1)).all():
        n_each = np.count_nonzero(y, axis=1)
        if (odd := np.flatnonzero(n_each != 1)).size:
            raise DataError(
                f"{len(odd):,} of {len(y):,} images of {where} have no label or several in {key} (0 and 1 in "
                f"{y.shape[1]} columns; the first is image {odd[0]} with {n_each[odd[0]]}); expected one class each: "
                f"choose a column, as {key}[:, 0], or write a CSV file with these columns, for --multi-label."
            )
        notes.append(f"labels are one-hot rows, of the classes 0 to {y.shape[1] - 1}")
        return np.asarray(y.argmax(axis=1))
    if y.ndim == 1 and y.dtype.kind == "f":
        odd = np.flatnonzero(~(np.isfinite(y) & (y == np.round(y))))
        if odd.size:
            raise DataError(
                f"{len(odd):,} of {len(y):,} labels {key} of {where} are no whole numbers, the first is {y[odd[0]]} of "
                f"image {odd[0]}; expected classes: make some of measured values, as with numpy.digitize."
            )
        return y.astype(np.int64)
    return np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y


def _classes(
    labels: dict[str, np.ndarray], named: np.ndarray | None, file: Path
) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Names of the classes, and the labels as their numbers, int64."""
    for key, y in labels.items():
        if y.ndim != 1 or y.dtype.kind not in "biuU" or not len(y):
            raise DataError(
                f"The labels {key} of {file} are {y.dtype} of shape {y.shape}; expected whole numbers or texts of "
                "shape (n,), or one-hot rows."
            )
        missing = np.flatnonzero(y == "" if y.dtype.kind == "U" else y < 0)
        if missing.size:
            raise DataError(
                f"{missing.size:,} of {len(y):,} images of {file} have no label in {key}, the first is image "
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
    named = np.char.decode(named, "utf-8", "replace") if named.dtype.kind == "S" else named
    if named.ndim != 1 or named.dtype.kind != "U" or values.dtype.kind == "U" or int(values[-1]) >= len(named):
        raise DataError(
            f"The array classes of {file} is {named.dtype} of shape {named.shape} for labels up to {values[-1]}; "
            "expected a text for each of the labels 0, 1, ..."
        )
    return tuple(str(value) for value in named), {part: found.astype(np.int64) for part, found in labels.items()}


def _channels_last(x: np.ndarray, key: str, file: Path, notes: list[str], *, is_first: bool) -> np.ndarray:
    """Images (n, height, width[, channels]) of those that may have channels before the height, as of torch."""
    at_end, at_start = x.shape[3:] in ((), (1,), (3,), (4,)), x.ndim == 4 and x.shape[1] in (1, 3, 4)
    is_both = at_start and at_end and x.shape[1] != 4 and not is_first
    if x.ndim < 3 or not (at_end or at_start) or is_both or 0 in x.shape or x.dtype.kind not in "biuf":
        doubt = " (both fit these)" * is_both
        raise DataError(
            f"The images {key} of {file} are {x.dtype} of shape {x.shape}; expected uint8, uint16, or floating point "
            "from 0 to 1, of shape (n, height, width), or with 1, 3 or 4 channels (n, height, width, channels) or "
            f"(n, channels, height, width){doubt}{_reshaped(x, key)}."
        )
    if at_start and (is_first or not at_end):
        notes.append(f"channels were moved to the end, from {x.shape[1:]} for each image")
        return x.transpose(0, 2, 3, 1)
    return x


def _reshaped(x: np.ndarray, key: str) -> str:
    """How images in rows may get their shape."""
    n_values = x.shape[1] if x.ndim == 2 else 0
    grey, px = math.isqrt(n_values), math.isqrt(n_values // 3)
    if px and 3 * px**2 == n_values:
        first = f"{key}.reshape(-1, 3, {px}, {px}) where one colour comes after the other, as in CIFAR's files"
        return f": {first}, else {key}.reshape(-1, {px}, {px}, 3)"
    return f": {key}.reshape(-1, {grey}, {grey})" if grey and grey**2 == n_values else ""


def _pixels(x: np.ndarray, key: str, file: Path, show: DisplayOptions) -> tuple[np.ndarray, DecodingInfo]:
    """Uint8 pixels, (n, height, width) or (n, height, width, 3), and how they were scaled and made opaque."""
    if x.shape[3:] == (1,):
        x = x[..., 0]
    if x.dtype == np.bool_:
        x = x * np.uint8(255)
    values = infer_array_value_kind(x.dtype)
    if values is None and x.shape[3:] != (4,):
        return x, DecodingInfo()
    kind, stored = "" if values is None else values.kind, {}
    pixels = np.empty((*x.shape[:3], 3)[: x.ndim], np.uint8)
    for i, one in enumerate(x):
        name = f"Image {i} of {key} of {file}"
        shown = convert_to_8_bits(one, scale=show.scale, background=show.background, name=name, remedy=REMEDY)
        pixels[i] = np.asarray(shown)
        how = StoredFormat(values=kind, is_transparent=extract_array_alpha(one, name=name) is not None)
        if how != StoredFormat():
            stored[str(i)] = how
    spread = {kind: ValueStatistics(float(x.min()), float(x.max()), len(x))} if kind else {}
    return pixels, DecodingInfo(stored=stored, scale=show.scale, spread=spread, background=show.background)


DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
_FILES = {"train": "train", "val": "t10k"}  # of each part, what its files begin with
_AXES = {"images": 3, "labels": 1}
_GARMENTS = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
IDX_SETS = {  # the folder of torchvision, and the classes
    "fashion-mnist": ("FashionMNIST", tuple(_GARMENTS.split(","))),
    "mnist": ("MNIST", tuple("0123456789")),
    "kmnist": ("KMNIST", ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")),
}


def open_idx_data(dataset: str, folder: Path) -> ImageData:
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
                f"of the part {begins!r}; expected a label per image, from 0 to {len(classes) - 1}, the classes of "
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
            f"{file} is no whole file of the IDX format with {n_axes} axes ({format_reason(error)}); put it there "
            "again."
        ) from error
