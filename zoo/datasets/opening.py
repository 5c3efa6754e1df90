"""Opens image sets from one text, whatever their source: labelled images, or images with maps of depth or normals.

A source is one entry of :data:`KINDS` or :data:`DENSE_KINDS`, with the function that opens it; messages and the help of
the command line follow from these tables. The modules of the sources are imported when they are opened, so that the
tables can be shown without NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import QueryError, UnknownName

if TYPE_CHECKING:
    from .dense import DenseData
    from .imagefiles import Show
    from .images import ImageData
    from .rgb import Scale

T = TypeVar("T")
_VAL_SHARE = 0.2
_STANDING = ("FOLDER", "FILE.csv", "FILE.npz")  # kinds that stand for paths
_SHAPES_OPTIONS = ("classes", "train", "val", "size_px", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for."""

    text: str
    name: str | None = None
    val_share: float | None = None
    seed: int = 0
    image_column: str | None = None
    label_column: str | None = None
    label_columns: tuple[str, ...] = ()
    split_column: str | None = None
    group: str | None = None
    multi_label: bool = False
    scale: Scale | None = None
    background: str = "white"
    max_pixels: int | None = None
    fold_labels: bool = False
    task: str = ""  # of maps

    def rest(self, expected: str = "") -> str:
        """What is behind the kind and its colon; QueryError if that is nothing and something is expected."""
        rest = self.text.partition(":")[2]
        if expected and not rest:
            raise QueryError(f"The image set {self.text!r} is not complete; expected {expected}.")
        return rest

    def show(self, name: str) -> Show:
        """How images are shown; ``name`` is the name of the set if none was asked for."""
        from .imagefiles import shown_as

        return shown_as(self.name or name, self.scale, self.background, self.max_pixels)

    def columns(self) -> dict[str, Any]:
        """The columns of images and of labels."""
        return {"image": self.image_column, "label": self.label_column}

    def division(self) -> dict[str, Any]:
        """How what has no parts is split, and whether labels are joined."""
        share = _VAL_SHARE if self.val_share is None else self.val_share
        return {"val_share": share, "seed": self.seed, "fold_labels": self.fold_labels}


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of source: what it is, and the function that opens it."""

    meaning: str
    open: Callable[[Request], T]


def _folder_name(folder: str) -> str:
    return Path(folder).resolve().name or "images"  # the root of a disk has no name


def _digits(asked: Request) -> ImageData:
    from .libraries import DIGITS_VAL_SHARE, digits_data

    if asked.rest():
        raise QueryError(f"The image set {asked.text!r} has options; expected digits alone.")
    return digits_data(val_share=DIGITS_VAL_SHARE if asked.val_share is None else asked.val_share, seed=asked.seed)


def _shapes(asked: Request) -> ImageData:
    from .rendering import shapes

    options: dict[str, int] = {}
    for entry in asked.rest().split(",") if ":" in asked.text else ():
        key, _, value = entry.partition("=")
        if key.strip() not in _SHAPES_OPTIONS or key.strip() in options or not value.strip().isdecimal():
            raise QueryError(
                f"The image set {asked.text!r} has {entry!r}; expected OPTION=NUMBER, each once, of "
                f"{', '.join(_SHAPES_OPTIONS)}, with commas between them."
            )
        options[key.strip()] = int(value)
    return shapes(**options)


def _folder(asked: Request) -> ImageData:
    from .folders import folder_data

    return folder_data(Path(asked.text), asked.show(_folder_name(asked.text)), **asked.division())


def _npz(asked: Request) -> ImageData:
    from .folders import npz_data

    return npz_data(Path(asked.text), asked.show(Path(asked.text).stem), **asked.division())


def _table(asked: Request) -> ImageData:
    from .tables import Columns, table_data

    columns = Columns(
        image=asked.image_column,
        label=asked.label_column,
        labels=asked.label_columns,
        split=asked.split_column,
        group=asked.group,
        multi_label=asked.multi_label,
    )
    return table_data(Path(asked.text), asked.show(Path(asked.text).stem), columns, **asked.division())


def _torchvision(asked: Request) -> ImageData:
    dataset, _, root = asked.rest().partition(":")
    if not dataset or not root:
        raise QueryError(f"The image set {asked.text!r} is not complete; expected torchvision:NAME:ROOT.")
    from .libraries import torchvision_data

    return torchvision_data(dataset, Path(root), asked.show(dataset.lower()), fold_labels=asked.fold_labels)


def _huggingface(asked: Request) -> ImageData:
    folder = asked.rest("huggingface:PATH")
    from .libraries import huggingface_data

    return huggingface_data(Path(folder), asked.show(_folder_name(folder)), **asked.columns(), **asked.division())


def _webdataset(asked: Request) -> ImageData:
    pattern = asked.rest("webdataset:PATTERN, such as webdataset:/data/train-{000..127}.tar")
    from .shards import webdataset_data

    return webdataset_data(pattern, asked.show(_shards_name(pattern)), **asked.columns(), **asked.division())


def _parquet(asked: Request) -> ImageData:
    pattern = asked.rest("parquet:PATH, a file, a folder or a pattern")
    from .shards import parquet_data

    return parquet_data(pattern, asked.show(_shards_name(pattern)), **asked.columns(), **asked.division())


def _shards_name(pattern: str) -> str:
    """The name of the folder of the first of some shards."""
    folder, _, last = pattern.partition(",")[0].rstrip("/").rpartition("/")
    if last and not any(mark in last for mark in ("*", "?", "[", "{", ".tar", ".tgz", ".parquet")):
        folder = last
    return folder.partition("{")[0].rstrip("/").rpartition("/")[2] or "images"


def _idx(asked: Request) -> ImageData:
    from .folders import DEBIAN, idx_data

    dataset = asked.text.partition(":")[0]
    if asked.rest() or dataset != "fashion-mnist" or not DEBIAN.is_dir():
        return idx_data(dataset, Path(asked.rest(f"{dataset}:PATH, the folder of its files")))
    return idx_data(dataset, DEBIAN)


def _shapes_with_maps(asked: Request) -> DenseData:
    from .dense import with_geometry

    return with_geometry(open_images(asked.text, name=asked.name, scale=asked.scale), task=asked.task)


def _folder_with_maps(asked: Request) -> DenseData:
    from .dense import dense_folder_data

    share = asked.division()["val_share"]
    show = asked.show(_folder_name(asked.text))
    return dense_folder_data(Path(asked.text), show, task=asked.task, val_share=share, seed=asked.seed)


KINDS: dict[str, Kind[ImageData]] = {
    "digits": Kind("scikit-learn's handwritten digits", _digits),
    "shapes": Kind("rendered images; shapes:classes=20,train=5000,val=1000,size_px=32,seed=0", _shapes),
    "FOLDER": Kind("a folder a class, below train/ and val/, or split by hash", _folder),
    "FILE.csv": Kind("columns path and label, maybe split and groups (--group); also .tsv", _table),
    "FILE.npz": Kind("arrays x and y, or x_train, y_train, x_val and y_val", _npz),
    "fashion-mnist:PATH": Kind("the folder of its four idx files, or the one above FashionMNIST/raw", _idx),
    "mnist:PATH": Kind("the same of MNIST", _idx),
    "kmnist:PATH": Kind("the same of Kuzushiji-MNIST", _idx),
    "torchvision:NAME:ROOT": Kind("a data set of torchvision on the disk", _torchvision),
    "huggingface:PATH": Kind("what save_to_disk of the library datasets wrote", _huggingface),
    "webdataset:PATTERN": Kind("tar files, {000..127}.tar or TRAIN,VAL, also at an address", _webdataset),
    "parquet:PATH": Kind("parquet files with a column of images, as on the Hub, also at an address", _parquet),
}
"""What :func:`open_images` takes; what is written in capitals stands for a text of the user's."""

DENSE_KINDS: dict[str, Kind[DenseData]] = {
    "shapes": Kind("the same rendered images, with their exact depth and normals", _shapes_with_maps),
    "FOLDER": Kind(
        "images/ beside depth/ or normals/ (png, npy, npz), below train/ and val/, or split by hash", _folder_with_maps
    ),
}
"""What :func:`open_dense` takes."""


def help_on(kinds: Mapping[str, Kind[Any]]) -> str:
    """A line a kind, for the help of the command line."""
    return "".join(f"  {name:<23}  {kind.meaning}\n" for name, kind in kinds.items())


def open_images(
    spec: str | os.PathLike[str],
    *,
    name: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    image_column: str | None = None,
    label_column: str | None = None,
    label_columns: Sequence[str] = (),
    split_column: str | None = None,
    group: str | None = None,
    multi_label: bool = False,
    fold_labels: bool = False,
    scale: Scale | None = None,
    background: str = "white",
    max_pixels: int | None = None,
) -> ImageData:
    """A training and a validation set of labelled images.

    Parameters
    ----------
    spec : str or path
        One of :data:`KINDS`. A folder that has the name of another kind is given as "./NAME".
    name : str, optional
        Of the data set, as it goes into results; by default that of the kind, folder, file or torchvision's class.
    val_share : float, optional
        Share of the images for validation where the source does not say: 0.2, and 0.25 of the digits. A folder is
        split by the hash of each path, anything else stratified by class.
    seed : int
        Of that split; the rendered set has one among its options.
    image_column, label_column : str, optional
        Of a source with columns that has several; of a CSV file, if they are not path, file, image or filename, and
        label, class or target.
    label_columns : sequence of str, optional
        Columns of 0 and 1 of a CSV file, whose images then may have several labels.
    split_column : str, optional
        The column of a CSV file with train, val, valid, validation or test; by default split, or subset, partition,
        set, fold or phase if it names parts.
    group : str, optional
        The column of a CSV file with the group of each image, such as its patient: the images of a group are on one
        side of every split, and intervals are over groups.
    multi_label : bool
        Images of a CSV file may have several labels: in all columns of 0 and 1, or in the label column with "|" or ";"
        between them.
    fold_labels : bool
        Labels that differ only in case, in Unicode form, in spaces or in how a number is written are one class, with
        the spelling that most images have.
    scale : (float, float), optional
        The values that are black and white, of images with more than 8 bits a channel; by default the ends of their
        range, 0 and 65535 or 0 and 1. Other values than integers of 16 bits and shares of 1 need it.
    background : str
        The colour that transparent parts of images are shown over, by a name or as "#rrggbb"; "drop" shows the colours
        that are stored in them.
    max_pixels : int, optional
        Images of up to so many pixels are read, if that is more than Pillow allows (179 million); its limit is then
        raised in this process.

    Raises
    ------
    UnknownName, QueryError
        If it is none of them; if it is wrongly written, or has no use for an option of CSV files.
    DataError
        If the images or labels are not what a probe needs; says what and where.
    MissingExtra
        If a library for the source is not installed.

    >>> data = open_images("shapes:classes=4,train=8,val=4,size_px=8")
    >>> len(data.train), len(data.val), data.train.classes[3]
    (8, 4, 'checks cube')
    """
    kind = _kind_of(os.fspath(spec), KINDS, "image set")
    of_tables: dict[str, Any] = {
        "split_column": split_column,
        "group": group,
        "label_columns": tuple(label_columns),
        "multi_label": multi_label,
    }
    if not is_table(os.fspath(spec)) and (idle := [option for option, given in of_tables.items() if given]):
        raise QueryError(f"{idle[0]} is of CSV files, and {os.fspath(spec)!r} is none; leave it out.")
    from .labels import with_notes

    asked = Request(
        text=os.fspath(spec),
        name=name,
        val_share=val_share,
        seed=seed,
        image_column=image_column,
        label_column=label_column,
        fold_labels=fold_labels,
        scale=scale,
        background=background,
        max_pixels=max_pixels,
        **of_tables,
    )
    data = with_notes(kind.open(asked))
    if name is None:
        return data
    return replace(data, name=name, train=replace(data.train, name=name), val=replace(data.val, name=name))


def open_dense(
    spec: str | os.PathLike[str],
    *,
    task: str,
    name: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    scale: Scale | None = None,
    background: str = "white",
    max_pixels: int | None = None,
) -> DenseData:
    """A training and a validation set of images with a map each.

    Parameters
    ----------
    spec : str or path
        One of :data:`DENSE_KINDS`. A folder that has the name of another kind is given as "./NAME".
    task : str
        "depth" or "normals".
    name, val_share, seed, scale, background, max_pixels
        As for :func:`open_images`; maps stay as they are.

    Raises
    ------
    UnknownName, QueryError, DataError
        As :func:`open_images`; also if no such task has maps.

    >>> data = open_dense("shapes:classes=4,train=8,val=4,size_px=16", task="depth")
    >>> values, valid = data.train.maps[0]
    >>> len(data.train), data.train.unit, values.shape, int(valid.sum())
    (8, 'half widths of the image', (16, 16, 1), 256)
    """
    from .dense import checked_task

    checked_task(task)
    kind = _kind_of(os.fspath(spec), DENSE_KINDS, f"image set with maps of {task}")
    how: dict[str, Any] = {"scale": scale, "background": background, "max_pixels": max_pixels}
    return kind.open(Request(text=os.fspath(spec), name=name, val_share=val_share, seed=seed, task=task, **how))


def _kind_of(text: str, kinds: Mapping[str, Kind[T]], what: str) -> Kind[T]:
    """The kind of a text: by its first word, else by its ending, else a folder that is there."""
    first = text.partition(":")[0]
    name = next((name for name in KINDS if name.partition(":")[0] == first and first not in _STANDING), "")
    if not name:  # a folder with the name of a kind is "./NAME"
        endings = {".npz": "FILE.npz", ".csv": "FILE.csv", ".tsv": "FILE.csv"}
        name = "FOLDER" if os.path.isdir(text) else endings.get(os.path.splitext(text)[1].lower(), "")
    if name in kinds:
        return kinds[name]
    if ":" not in text and ("/" in text or text.startswith((".", "~"))):
        raise QueryError(f"There is no folder {text!r}; expected a folder of images, a .csv or a .npz file.")
    words = [name.partition(":")[0] for name in kinds if name not in _STANDING]
    hint = f"Expected {'; '.join(f'{name} ({kind.meaning})' for name, kind in kinds.items())}."
    raise UnknownName(what, text, words, hint=hint)


def is_table(text: str) -> bool:
    """Whether a text names a CSV or TSV file of images, which has columns."""
    try:
        return _kind_of(text, KINDS, "") is KINDS["FILE.csv"]
    except (UnknownName, QueryError):
        return False
