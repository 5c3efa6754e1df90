"""Opens image sets from one text, whatever their source: labelled images, or images with maps of depth or normals.

A source is one entry of :data:`KINDS` or :data:`DENSE_KINDS`, with the function that opens it; messages and the help of
the command line follow from these tables. The modules of the sources are imported when they are opened, so that the
tables can be shown without NumPy.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import DataError, QueryError, UnknownName, find_nearest_names
from ..files import describe_irregular_file, require_regular

if TYPE_CHECKING:
    from .dense import DenseData
    from .image_files import DisplayOptions
    from .images import ImageData
    from .rgb import Scale
    from .tables import LabelTable

T = TypeVar("T")
_VAL_SHARE = 0.2
_STANDING = ("FOLDER", "FILE.csv", "FILE.npz", "FILE.txt", "FILE.json", "FILE.toml")  # kinds that stand for paths
ENDINGS = {
    ".csv": "FILE.csv", ".tsv": "FILE.csv", ".txt": "FILE.txt", ".json": "FILE.json", ".jsonl": "FILE.json",
    ".toml": "FILE.toml", ".parquet": "parquet:PATH", ".tar": "webdataset:PATTERN",
    **dict.fromkeys((".npz", ".npy", ".pt", ".pth", ".pkl", ".pickle"), "FILE.npz"),
}  # fmt: skip
"""The kinds of files, by their endings in lower case."""
_LABEL_OPTIONS = ("label_column", "label_columns", "class_folder", "test_folder")
_OF_CIFAR = ("data_batch_1", "meta")  # files of CIFAR-10 and CIFAR-100
_UNPACK = {".zip": "unzip -d images", ".7z": "7z x -oimages", ".rar": "unrar x"}
_UNPACK |= dict.fromkeys((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"), "tar -xf")
_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {  # of options in a file that are no texts
    "val_share": (lambda value: isinstance(value, float) and 0 < value < 1, "a number between 0 and 1"),
    "seed": (lambda value: type(value) is int and 0 <= value < 2**31, "a whole number from 0 on"),
    "max_pixels": (lambda value: type(value) is int and value > 0, "a whole number above 0"),
    "scale": (lambda value: _is_scale(value), "two numbers with the smaller one first, as [0, 4095]"),
    "uncertain": (lambda value: value in ("positive", "negative"), '"positive" or "negative"'),
    "label_kind": (lambda value: value in ("class", "number"), '"class" or "number"'),
    **dict.fromkeys(
        ("label_columns", "ignore_labels"),
        (lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value), "a list of texts"),
    ),
    **dict.fromkeys(
        ("multi_label", "fold_labels", "keep_na"), (lambda value: isinstance(value, bool), "true or false")
    ),
}
_TEXT: tuple[Callable[[Any], bool], str] = (lambda value: isinstance(value, str) and value != "", "a text")
TABLE_OPTIONS = (
    "split_column", "group", "label_columns", "multi_label", "image_folder", "ignore_labels", "keep_na", "uncertain",
    "label_kind",
)  # fmt: skip
MASK_COLUMNS = ("image_column", "label_column", "split_column", "group", "image_folder")
FOLDER_OPTIONS = ("class_folder", "test_folder")
_SHAPES_OPTIONS = ("classes", "train", "val", "size_px", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
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
    image_folder: str | os.PathLike[str] | None = None
    ignore_labels: tuple[str, ...] = ()
    keep_na: bool = False
    uncertain: str | None = None
    label_kind: str | None = None  # "class" or "number"; None: as its values say
    scale: Scale | None = None
    background: str = "white"
    max_pixels: int | None = None
    fold_labels: bool = False
    class_folder: str | None = None
    test_folder: str | None = None
    task: str = ""  # of maps
    is_new: bool = False  # images to predict, which are not split here, whatever their labels are
    is_unlabelled: bool = False

    def rest(self, expected: str = "") -> str:
        """What is behind the kind and its colon; QueryError if that is nothing and something is expected."""
        rest = self.text.partition(":")[2]
        if expected and not rest:
            raise QueryError(f"The image set {self.text!r} is not complete; expected {expected}.")
        return rest

    def show(self, name: str) -> DisplayOptions:
        """How images are shown; ``name`` is the name of the set if none was asked for."""
        from .image_files import build_display_options

        return build_display_options(self.name or name, self.scale, self.background, self.max_pixels)

    def columns(self) -> dict[str, Any]:
        """The columns of images and of labels."""
        return {"image": self.image_column, "label": "" if self.is_unlabelled else self.label_column}

    def division(self) -> dict[str, Any]:
        """How what has no parts is split, and whether labels are joined."""
        share = _VAL_SHARE if self.val_share is None else self.val_share
        return {"val_share": share, "seed": self.seed, "fold_labels": self.fold_labels, "is_new": self.is_new}


@dataclass(frozen=True, slots=True)
class SourceKind(Generic[T]):
    """A kind of source: what it is, and the function that opens it."""

    meaning: str
    open: Callable[[SourceRequest], T]


def _folder_name(folder: str) -> str:
    return Path(folder).resolve().name or "images"  # the root of a disk has no name


def _digits(asked: SourceRequest) -> ImageData:
    from .libraries import DIGITS_VAL_SHARE, digits_data

    if asked.rest():
        raise QueryError(f"The image set {asked.text!r} has options; expected digits alone.")
    return digits_data(val_share=DIGITS_VAL_SHARE if asked.val_share is None else asked.val_share, seed=asked.seed)


def _shapes(asked: SourceRequest) -> ImageData:
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


def _folder(asked: SourceRequest) -> ImageData:
    from .labels import add_notes
    from .layouts import open_folder_data, recognise_layout

    folders = {"class_folder": asked.class_folder, "test_folder": asked.test_folder}
    layout, show = recognise_layout(Path(asked.text), **folders), asked.show(_folder_name(asked.text))
    if layout.table is None:
        return open_folder_data(layout, show, **asked.division())
    return add_notes(_of_table(layout.table, show, asked), layout.notes, layout=layout.meaning)


def _arrays(asked: SourceRequest) -> ImageData:
    from .array_files import open_array_data

    show = asked.show(Path(os.path.abspath(asked.text)).stem)
    return open_array_data(Path(asked.text), show, **asked.columns(), **asked.division())


def _table(asked: SourceRequest) -> ImageData:
    from .annotations import read_annotations

    table = read_annotations(Path(asked.text), is_unlabelled=asked.is_unlabelled)
    return _of_table(table, asked.show(Path(asked.text).stem), asked)


def _of_table(table: LabelTable, show: DisplayOptions, asked: SourceRequest) -> ImageData:
    from .annotations import require_one_label
    from .tables import open_table_data

    if not (asked.multi_label or asked.is_unlabelled) and table.file.suffix.lower() not in (".csv", ".tsv"):
        require_one_label(table)
    return open_table_data(table, show, asked)


def _reject_data_file(asked: SourceRequest) -> ImageData:
    raise QueryError(f"{asked.text!r} names another file of options; expected images.")


def _torchvision(asked: SourceRequest) -> ImageData:
    dataset, _, root = asked.rest().partition(":")
    if not dataset or not root:
        raise QueryError(f"The image set {asked.text!r} is not complete; expected torchvision:NAME:ROOT.")
    from .libraries import open_torchvision_data

    return open_torchvision_data(dataset, Path(root), asked.show(dataset.lower()), fold_labels=asked.fold_labels)


def _huggingface(asked: SourceRequest) -> ImageData:
    folder = asked.rest("huggingface:PATH")
    from .libraries import open_huggingface_data

    return open_huggingface_data(Path(folder), asked.show(_folder_name(folder)), **asked.columns(), **asked.division())


def _webdataset(asked: SourceRequest) -> ImageData:
    pattern = asked.rest("webdataset:PATTERN, such as webdataset:/data/train-{000..127}.tar")
    from .shards import open_webdataset_data

    return open_webdataset_data(pattern, asked.show(_shards_name(pattern)), **asked.columns(), **asked.division())


def _parquet(asked: SourceRequest) -> ImageData:
    pattern = asked.rest("parquet:PATH, a file, a folder or a pattern")
    from .parquet_shards import open_parquet_data

    return open_parquet_data(pattern, asked.show(_shards_name(pattern)), **asked.columns(), **asked.division())


def _shards_name(pattern: str) -> str:
    """The name of the folder of the first of some shards."""
    folder, _, last = pattern.partition(",")[0].rstrip("/").rpartition("/")
    if last and not any(mark in last for mark in ("*", "?", "[", "{", ".tar", ".tgz", ".parquet")):
        folder = last
    return folder.partition("{")[0].rstrip("/").rpartition("/")[2] or "images"


def _idx(asked: SourceRequest) -> ImageData:
    from .array_files import DEBIAN, open_idx_data

    dataset = asked.text.partition(":")[0]
    if asked.rest() or dataset != "fashion-mnist" or not DEBIAN.is_dir():
        return open_idx_data(dataset, Path(asked.rest(f"{dataset}:PATH, the folder of its files")))
    return open_idx_data(dataset, DEBIAN)


def _shapes_with_maps(asked: SourceRequest) -> DenseData:
    from .dense import add_geometry

    return add_geometry(open_images(asked.text, name=asked.name, scale=asked.scale), task=asked.task)


def _folder_with_maps(asked: SourceRequest) -> DenseData:
    from .dense import open_dense_folder

    share = asked.division()["val_share"]
    show = asked.show(_folder_name(asked.text))
    return open_dense_folder(Path(asked.text), show, task=asked.task, val_share=share, seed=asked.seed)


def _shapes_with_masks(asked: SourceRequest) -> DenseData:
    from .masks import ignore_map_classes

    return ignore_map_classes(_shapes_with_maps(asked), asked.ignore_labels)


def _folder_with_masks(asked: SourceRequest) -> DenseData:
    from .masks import open_mask_folder

    return open_mask_folder(Path(asked.text), asked.show(_folder_name(asked.text)), asked)


def _file_with_masks(asked: SourceRequest) -> DenseData:
    from .masks import open_mask_file

    return open_mask_file(Path(asked.text), asked.show(Path(asked.text).stem), asked)


def _parquet_with_masks(asked: SourceRequest) -> DenseData:
    pattern = asked.rest("parquet:PATH, a file, a folder or a pattern")
    from .masks import open_mask_shards

    return open_mask_shards(pattern, asked.show(_shards_name(pattern)), asked)


KINDS: dict[str, SourceKind[ImageData]] = {
    "digits": SourceKind("scikit-learn's handwritten digits", _digits),
    "shapes": SourceKind("rendered images; shapes:classes=20,train=5000,val=1000,size_px=32,seed=0", _shapes),
    "FOLDER": SourceKind("a folder per class, below train/, val/ or alike, or split by hash; see 'zoo data'", _folder),
    "FILE.csv": SourceKind("columns path and label, maybe split and groups (--group); also .tsv", _table),
    "FILE.txt": SourceKind("lines of a path and a label", _table),
    "FILE.json": SourceKind("records of file_name and label, also .jsonl; or as COCO and iNaturalist have it", _table),
    "FILE.toml": SourceKind("images and options as 'zoo data --write' keeps them", _reject_data_file),
    "FILE.npz": SourceKind("arrays x, y or x_train, y_train, x_test, y_test; also .npy, .pt", _arrays),
    "fashion-mnist:PATH": SourceKind("the folder of its four idx files, or the one above FashionMNIST/raw", _idx),
    "mnist:PATH": SourceKind("the same of MNIST", _idx),
    "kmnist:PATH": SourceKind("the same of Kuzushiji-MNIST", _idx),
    "torchvision:NAME:ROOT": SourceKind("a data set of torchvision on the disk", _torchvision),
    "huggingface:PATH": SourceKind("what save_to_disk of the library datasets wrote", _huggingface),
    "webdataset:PATTERN": SourceKind("tar files, {000..127}.tar or TRAIN,VAL, also at an address", _webdataset),
    "parquet:PATH": SourceKind("parquet files with a column of images, as on the Hub, also at an address", _parquet),
}
"""What :func:`open_images` takes; what is written in capitals stands for a text of the user's."""

DENSE_KINDS: dict[str, SourceKind[DenseData]] = {
    "shapes": SourceKind("the same rendered images, with their exact depth and normals", _shapes_with_maps),
    "FOLDER": SourceKind(
        "images/ next to depth/ or normals/ (png, npy, npz), below train/ and val/, or split by hash", _folder_with_maps
    ),
}
"""What :func:`open_dense` takes for depth and normals."""

MASK_KINDS: dict[str, SourceKind[DenseData]] = {
    "shapes": SourceKind("the same rendered images, with their exact masks", _shapes_with_masks),
    "FOLDER": SourceKind("images/ next to masks/, as VOC, ADE20K and Cityscapes; or COCO's JSON", _folder_with_masks),
    "FILE.csv": SourceKind("columns image and mask, maybe split, --group; also .tsv, .jsonl", _file_with_masks),
    "FILE.json": SourceKind("COCO's instances, of polygons or run lengths, or its panoptic masks", _file_with_masks),
    "parquet:PATH": SourceKind("parquet files with a column of images and one of masks", _parquet_with_masks),
}
"""What it takes for segmentation."""


def format_sources_help(kinds: Mapping[str, SourceKind[Any]]) -> str:
    """A line per kind, for the help of the command line."""
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
    image_folder: str | os.PathLike[str] | None = None,
    ignore_labels: Sequence[str] = (),
    keep_na: bool = False,
    uncertain: str | None = None,
    label_kind: str | None = None,
    fold_labels: bool = False,
    scale: Scale | None = None,
    background: str = "white",
    class_folder: str | None = None,
    test_folder: str | None = None,
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
        Of a source with columns that has several; of a CSV file, if they have no usual name such as path, file, image
        or filename, and label, class or target.
    label_columns : sequence of str, optional
        Columns of 0 and 1 of a CSV file, whose images then may have several labels.
    split_column : str, optional
        The column of a CSV file with train, val or test, or of 0 and 1 and called such as is_test; by default split,
        or the one that names parts in every row.
    group : str, optional
        The column of a CSV file with the group of each image, such as its patient: the images of a group are on one
        side of every split, and intervals are over groups.
    multi_label : bool
        Images of a CSV file may have several labels: in all columns of 0 and 1, or in the label column with "|", ";",
        commas or blanks between them.
    image_folder : str or path, optional
        The folder that the paths of a CSV file are below; by default its own, or those in it that hold the images.
        Endings that all names lack are added.
    ignore_labels : sequence of str
        Labels of a CSV file, such as "-1" or "unknown", whose images are left out.
    keep_na : bool
        Labels of a CSV file that may stand for none, such as NA, None or "?", are classes; else they are refused.
    uncertain : "positive" or "negative", optional
        What -1 is in columns of 0 and 1, in which blank cells are 0; else it is refused.
    label_kind : "class" or "number", optional
        What the labels of a CSV file are; by default numbers, to be predicted by regression, where many different ones
        measure something, such as ages, else classes.
    fold_labels : bool
        Labels that differ only in case, in Unicode form, in spaces or in how a number is written are one class, with
        the spelling that most images have.
    scale : (float, float), optional
        The values that are black and white, of images with more than 8 bits per channel; by default the ends of their
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
    options = locals()
    return _opened(os.fspath(options.pop("spec")), options)


def _opened(spec: str, options: Mapping[str, Any], *, is_new: bool = False) -> ImageData:
    given, options = _merge_file_options(spec, options)
    images = _spelled_out(given)
    if options["label_kind"] not in (None, "class", "number"):
        raise QueryError(f"Got the label_kind {options['label_kind']!r}; expected 'class' or 'number'.")
    kind = _kind_of(images, KINDS, "image set")
    for what, names, is_used in (
        ("CSV files", TABLE_OPTIONS, is_table),
        ("folders", FOLDER_OPTIONS, lambda text: kind is KINDS["FOLDER"]),
    ):
        if (idle := [name for name in names if options[name]]) and not is_used(images):
            raise QueryError(f"{idle[0]} is of {what}, and {images!r} is none; leave it out.")
    from .labels import add_label_notes

    said = [f"{given!r} was read as {images!r}, by what it holds"] if images != given else []
    if images in ("digits", "shapes") and os.path.isdir(images):
        said.append(f"{images!r} was read as the set that the zoo brings; the folder of that name is './{images}'")
    data = add_label_notes(kind.open(SourceRequest(text=images, is_new=is_new, **options)), said)
    if (name := options["name"]) is None:
        return data
    whole = None if data.all is None else replace(data.all, name=name)
    return replace(data, name=name, train=replace(data.train, name=name), val=replace(data.val, name=name), all=whole)


def _merge_file_options(spec: str, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What names the images, and all options: those that were asked for before those of a file before the usual."""
    images, kept = read_data_options(spec)
    defaults = get_option_defaults()
    options = {**defaults, **kept, **{one: value for one, value in asked.items() if value != defaults[one]}}
    return images, options | {name: tuple(options[name]) for name in ("label_columns", "ignore_labels")}


def open_any_images(
    specs: str | os.PathLike[str] | Sequence[str], *, is_new: bool = False, **options: Any
) -> ImageData:
    """Images with labels as :func:`open_images` gives them, else all of them without, in their order, as ``all``.

    ``specs`` is one image set, or files of images and folders, of which all images at any depth are taken, sorted by
    path. Options are those of :func:`open_images`, and so are errors, but for those on labels that no option names: a
    note says then why images have none, no class, and -1 each. With ``is_new`` what has no parts stays one, ``all``,
    whatever its labels are.
    """
    given = [os.fspath(one) for one in ([specs] if isinstance(specs, str | os.PathLike) else specs)]
    if len(given) > 1 or is_image_file(given[0]):
        return _unlabelled_files(given, options)
    try:
        return _opened(given[0], get_option_defaults() | options, is_new=is_new)
    except DataError as error:
        if any(options.get(name) for name in _LABEL_OPTIONS):
            raise
        why = f"without labels: {str(error).partition(';')[0].rstrip('.')}"
    text, options = _merge_file_options(given[0], get_option_defaults() | options)
    kind = _kind_of(text := _spelled_out(text), KINDS, "image set")
    if kind is KINDS["FOLDER"]:
        return _unlabelled_files([text], options, why)
    from .labels import add_notes

    return add_notes(kind.open(SourceRequest(text=text, is_unlabelled=True, **options)), [why])


def is_image_file(text: str) -> bool:
    """Whether a text names a file by itself, which is no image set."""
    return os.path.isfile(text) and not text.lower().endswith((*ENDINGS, *_UNPACK))


def is_image_folder(text: str) -> bool:
    """Whether a text names a folder of image files, and not of shards."""
    return os.path.isdir(text) and _kind_of_folder(Path(text)) == "FOLDER"


def find_image_files(arguments: Sequence[str]) -> tuple[Path, list[str], Counter[str]]:
    """Images of files and of folders at any depth: what their paths are below, the paths, and what was left out.

    QueryError if there is no such file or one is named twice, DataError if a folder has no image.
    """
    from .folders import list_tree
    from .image_files import USUAL, describe_left_out_files

    paths, left_out = list[str](), Counter[str]()
    for text in arguments:
        if os.path.isdir(text):
            tree = list_tree(Path(text))
            left_out += tree.all_left_out()
            if not (below := sorted(tree.paths())):
                also = f" ({describe_left_out_files(left_out)})" if left_out else ""
                raise DataError(f"The folder {text} holds no image{also}; expected files {USUAL} below it.")
            paths += below if len(arguments) == 1 else [f"{text.rstrip('/')}/{one}" for one in below]
        elif is_image_file(text):
            paths.append(text)
        else:
            what = (
                f"{text!r} is a {odd}"
                if (odd := describe_irregular_file(text))
                else f"There is no file or folder {text!r}"
            )
            raise QueryError(f"{what}; expected image files and folders, or one image set of the zoo by itself.")
    if repeated := [path for path, n in Counter(paths).items() if n > 1]:
        raise QueryError(f"The image {repeated[0]!r} is asked for twice; name each once.")
    is_one_folder = len(arguments) == 1 and os.path.isdir(arguments[0])
    return Path(arguments[0] if is_one_folder else ""), paths, left_out


def _unlabelled_files(arguments: Sequence[str], options: Mapping[str, Any], why: str = "") -> ImageData:
    import numpy as np

    from .folders import make_files_image_set
    from .images import NO_LABEL
    from .labels import add_notes, build_image_data

    root, paths, left_out = find_image_files(arguments)
    shown = {name: options.get(name, default) for name, default in get_option_defaults().items()}
    show = SourceRequest(text=arguments[0], **shown).show(_folder_name(arguments[0]))
    labels = np.full(len(paths), NO_LABEL, np.int64)
    images = make_files_image_set(root, paths, labels, (), show, split="all", left_out=left_out)
    return add_notes(build_image_data([images]), [why] * bool(why))


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
    ignore_labels: Sequence[str] = (),
    image_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    group: str | None = None,
    image_folder: str | os.PathLike[str] | None = None,
) -> DenseData:
    """A training and a validation set of images with a map each.

    Parameters
    ----------
    spec : str or path
        One of :data:`DENSE_KINDS`, for segmentation of :data:`MASK_KINDS`. A folder that has the name of another kind
        is given as "./NAME".
    task : str
        "depth", "normals" or "segmentation".
    name, val_share, seed, scale, background, max_pixels
        As for :func:`open_images`; maps stay as they are.
    ignore_labels : sequence of str
        Of segmentation: stored values, colours or names of classes whose pixels are ignored.
    image_column, label_column
        Of segmentation in tables and parquet files: the columns of images and of masks.
    split_column, group, image_folder
        Of segmentation in tables, as for :func:`open_images`.

    Raises
    ------
    UnknownName, QueryError, DataError
        As :func:`open_images`; also if no such task has maps.

    >>> data = open_dense("shapes:classes=4,train=8,val=4,size_px=16", task="depth")
    >>> values, valid = data.train.maps[0]
    >>> len(data.train), data.train.unit, values.shape, int(valid.sum())
    (8, 'half widths of the image', (16, 16, 1), 256)
    """
    from .dense import check_task

    check_task(task)
    asked: dict[str, Any] = {"name": name, "val_share": val_share, "seed": seed}
    asked |= {"scale": scale, "background": background, "max_pixels": max_pixels}
    of_masks: dict[str, Any] = {
        "ignore_labels": tuple(ignore_labels),
        "image_column": image_column,
        "label_column": label_column,
    }
    of_masks |= {"split_column": split_column, "group": group, "image_folder": image_folder}
    kinds = MASK_KINDS if task == "segmentation" else DENSE_KINDS
    if kinds is MASK_KINDS:
        asked |= of_masks
    elif given := [name for name, value in of_masks.items() if value]:
        raise QueryError(f"{given[0]} is of masks, and the task is {task}; leave it out.")
    text, options = _merge_file_options(os.fspath(spec), get_option_defaults() | asked)
    if idle := [one for one, usual in get_option_defaults().items() if one not in asked and options[one] != usual]:
        raise QueryError(f"{os.fspath(spec)!r} has {idle[0]}, and images with maps of {task} have none; leave it out.")
    text = _spelled_out(text) if kinds is MASK_KINDS else text
    kind = _kind_of(text, kinds, "image set with masks" if kinds is MASK_KINDS else f"image set with maps of {task}")
    columns = MASK_COLUMNS[2:] if kind.open is _parquet_with_masks else MASK_COLUMNS
    if kind.open is not _file_with_masks and (idle := [name for name in columns if options[name]]):
        raise QueryError(f"{idle[0]} is of tables, and {text!r} is none; leave it out.")
    return kind.open(SourceRequest(text=text, task=task, **options))


def _kind_of(text: str, kinds: Mapping[str, SourceKind[T]], what: str) -> SourceKind[T]:
    """The kind of a text: by its first word, else by its ending, else a folder that is there."""
    first = text.partition(":")[0]
    name = next((name for name in KINDS if name.partition(":")[0] == first and first not in _STANDING), "")
    if not name:  # a folder with the name of a kind is "./NAME"
        name = (
            _kind_of_folder(Path(text)) if os.path.isdir(text) else ENDINGS.get(os.path.splitext(text)[1].lower(), "")
        )
    if name in kinds:
        return kinds[name]
    if os.path.isfile(text):
        command = next((command for ending, command in _UNPACK.items() if text.lower().endswith(ending)), "")
        remedy = f"; unpack it, as with '{command} {text}', and give the folder" if command else ""
        raise QueryError(
            f"The file {text!r} is of no kind that image sets are in; expected {', '.join(ENDINGS)}, or a folder of "
            f"images{remedy}."
        )
    require_present(text)
    raise _unknown(what, text, kinds)


def _unknown(what: str, text: str, kinds: Mapping[str, SourceKind[Any]]) -> UnknownName:
    words = [name.partition(":")[0] for name in kinds if name not in _STANDING]
    verb = "data" if kinds is KINDS else "segment" if kinds is MASK_KINDS else "curve"
    hint = f"Expected {', '.join(kinds)}; see 'zoo {verb} --help'."
    return UnknownName(what, text, words, hint=hint)


def require_present(text: str, *, may_be_name: bool = True) -> None:
    """Refuses a path at which there is nothing, and a plain word that is no image set unless it may be another name."""
    is_path = "/" in text or text.startswith((".", "~"))
    if is_path and not set(text) & set(":*?[{") and not os.path.lexists(text):
        raise QueryError(
            f"There is no folder or file {text!r}; expected a folder of images, or a file {', '.join(ENDINGS)}."
        )
    words = {name.partition(":")[0] for name in KINDS if name not in _STANDING}
    is_word = not is_path and not set(text) & set(":*?[{,") and os.path.splitext(text)[1].lower() not in ENDINGS
    if is_word and not may_be_name and text not in words and not os.path.exists(text):
        raise _unknown("image set", text, KINDS)


def _kind_of_folder(folder: Path) -> str:
    """FOLDER, or the kind of the files in it and in the folders directly in it where none of them is an image."""
    from .image_files import SUFFIXES

    kinds = set()
    for path in chain(folder.glob("*"), folder.glob("*/*")):
        is_inner, name = path.parent != folder, path.name.lower()
        if name.startswith(".") or (is_inner and path.parent.name.startswith(".")):
            continue
        if name.endswith(SUFFIXES) or (is_inner and path.is_dir()):
            return "FOLDER"
        kinds.add("FILE.npz" if name in _OF_CIFAR else ENDINGS.get(path.suffix.lower(), ""))
    found = kinds - {"", "FILE.csv"}
    is_of_folders = not found & {"FILE.txt", "FILE.json", "FILE.toml"}
    return found.pop() if len(found) == 1 and is_of_folders else "FOLDER"


def _spelled_out(text: str) -> str:
    """The text with its kind and a colon before it where a file or a folder of shards is given without them."""
    path = Path(text)
    kind = _kind_of_folder(path) if path.is_dir() else ENDINGS.get(path.suffix.lower(), "")
    first, colon, _ = kind.partition(":")
    return f"{first}:{text}" if colon and (path.exists() or ":" not in text) else text


def is_table(text: str) -> bool:
    """Whether a text names images with labels in a table or alike, which has columns; a folder may have one."""
    try:
        text = read_data_options(text)[0]
        kind = _kind_of(text, KINDS, "")
    except (UnknownName, QueryError):
        return False
    if kind is not KINDS["FOLDER"]:
        return kind.open is _table
    from .layouts import recognise_layout

    return recognise_layout(Path(text)).table is not None


def has_columns(text: str) -> bool:
    """Whether images and labels are found by names: of columns, entries or arrays."""
    named = (_table, _arrays, _huggingface, _webdataset, _parquet)
    try:
        return _kind_of(_spelled_out(read_data_options(text)[0]), KINDS, "").open in named or is_table(text)
    except (UnknownName, QueryError):
        return False


def get_option_defaults() -> dict[str, Any]:
    """The options of :func:`open_images`, with what they are by default."""
    return dict(open_images.__kwdefaults__ or {})


def read_data_options(text: str) -> tuple[str, dict[str, Any]]:
    """What a TOML file names as images, and its options by their names in :func:`open_images`; the text if it is none.

    Paths, also that of ``image_folder``, are absolute, or relative to the folder of the file.
    """
    if not text.lower().endswith(".toml") or os.path.isdir(text):
        return text, {}
    try:
        require_regular(text)
        content = Path(text).read_text(encoding="utf-8-sig")
        held = tomllib.loads(content)
    except (OSError, ValueError) as error:
        raise QueryError(f"{text!r} is no TOML file ({error}); expected what 'zoo data --write' keeps.") from error
    _require_kept(text, content, held)
    options: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in held.items()}
    folder = os.path.dirname(text)
    if "image_folder" in options:
        options["image_folder"] = os.path.join(folder, options["image_folder"])
    return place_images(options.pop("images"), folder), options


def _require_kept(text: str, content: str, held: Mapping[str, Any]) -> None:
    """Refuses a file of options without images, or with a name or a value that is none, and says in which line."""
    known = ("images", *get_option_defaults())
    for name, value in held.items():
        is_right, expected = _VALUES.get(name, _TEXT)
        if name in known and is_right(value):
            continue
        if name not in known:
            near = find_nearest_names(name, known)[:1]
            expected = f"{', '.join(known)}" + "".join(f"; did you mean {one}?" for one in near)
        starts = re.compile(rf"\s*\[*\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
        lines = [number for number, line in enumerate(content.splitlines(), 1) if starts.match(line)]
        where = f" in line {lines[0]}" if lines else ""
        raise QueryError(f"{text!r} has {name} = {value!r}{where}; expected {expected.removesuffix('.')}.")
    if "images" not in held:
        raise QueryError(f'{text!r} has no images; expected a line as images = "./birds".')


def place_images(images: str, folder: str) -> str:
    """What names images, with paths in it that are relative put below a folder."""
    kind, colon, rest = images.partition(":")
    words = {name.partition(":")[0] for name in KINDS if name not in _STANDING}
    if kind not in words:
        return os.path.join(folder, images)
    if not colon or kind == "shapes" or "://" in rest:
        return images
    name, colon, paths = rest.partition(":") if kind == "torchvision" else ("", "", rest)
    return f"{kind}:{name}{colon}{','.join(os.path.join(folder, path) for path in paths.split(','))}"


def _is_scale(value: Any) -> bool:
    """Whether a value of a file is two finite numbers, the smaller one first."""
    is_pair = isinstance(value, list) and [type(one) in (int, float) for one in value] == [True, True]
    return is_pair and -math.inf < value[0] < value[1] < math.inf
