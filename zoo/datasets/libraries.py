"""Image sets of libraries: torchvision's on the disk, those that ``datasets`` has saved, and scikit-learn's digits."""

from __future__ import annotations

import gzip
import inspect
import io
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CorruptImage, DataError, MissingExtra, UnknownName
from ..optional import require_extra
from .bands import open_image
from .image_files import (
    DECODING_ERRORS,
    DecodingInfo,
    DisplayOptions,
    convert_opened_image,
    format_reason,
    inspect_image_files,
    inspect_opened_images,
    read_image,
)
from .images import (
    NO_LABEL,
    ImageData,
    ImageSet,
    LazyImages,
    array_images,
    compute_fingerprint,
    hash_encoded_images,
    hash_image_files,
    hash_pixels,
    load_file_contents,
)
from .labels import build_image_data
from .split_names import N_FIRST, can_name_parts, split_by_columns
from .subsets import split_stratified

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

if TYPE_CHECKING:
    from types import ModuleType

    from PIL import ImageFile

    from .bands import BandImage
    from .rgb import Scale

_PARTS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {  # values of the argument: to train on, to test on
    "train": ((True,), (False,)),
    "split": (("train", "trainval", "train-standard"), ("val", "valid", "test")),
}


def open_torchvision_data(kind: str, root: Path, show: DisplayOptions, *, fold_labels: bool = False) -> ImageData:
    """A data set of torchvision with an argument ``train`` or ``split``; nothing is downloaded.

    The second part is the first of "val", "valid" and "test" that the data set has. The fingerprint is over names,
    labels and classes, and the pixels where the data set holds them in memory, else the bytes of the files where it
    lists them, and how they are shown. Torchvision itself turns no image, drops transparency and makes images of 16
    bits white, so that these are read from their files.
    """
    with require_extra("models", needed_for="A data set of torchvision"):
        from torchvision import datasets as library
    usable = dict(_usable(library))
    if kind not in library.__all__:
        raise UnknownName("torchvision data set", kind, usable)
    if kind not in usable:
        raise DataError(
            f"The torchvision data set {kind} has no argument train= or split= that says which images are for "
            f"training; expected one of {', '.join(usable)}, or a folder with train/ and val/."
        )
    argument = usable[kind]
    train, val = (_opened(getattr(library, kind), root, argument, values) for values in _PARTS[argument])
    labelled = _labels(train, kind), _labels(val, kind)
    n_classes = 1 + max(int(labels.max(initial=-1)) for labels, _ in labelled)
    named = getattr(train, "classes", None)
    classes = tuple(map(str, range(n_classes)))
    if isinstance(named, list | tuple) and len(named) >= n_classes:
        classes = tuple(one[0] if isinstance(one, tuple) else str(one) for one in named)  # ImageNet: synonyms
    sets = [
        _torchvision_image_set(opened, *known, show, part, classes)
        for opened, known, part in zip((train, val), labelled, ("train", "val"), strict=True)
    ]
    return build_image_data(sets, fold_labels=fold_labels)


def _usable(library: ModuleType) -> Iterator[tuple[str, str]]:
    """Data sets that need no more than ``root`` and one of the arguments ``train`` and ``split``, with the latter."""
    for kind in library.__all__:
        constructor = getattr(library, kind)
        if inspect.isclass(constructor):
            parameters = inspect.signature(constructor).parameters
            argument = next((candidate for candidate in _PARTS if candidate in parameters), None)
            needed = {
                key
                for key, entry in parameters.items()
                if entry.default is entry.empty and entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)
            }
            if argument is not None and needed <= {"root", argument}:
                yield kind, argument


def _opened(constructor: Any, root: Path, argument: str, values: tuple[Any, ...]) -> Any:
    """The first part that the data set has."""
    kind = constructor.__name__
    for value in values:
        try:
            with require_extra("models", needed_for=f"The torchvision data set {kind}"), suppress(ValueError):
                return constructor(str(root), **{argument: value})
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"The torchvision data set {kind} is not whole below {root} ({format_reason(error)}); put its files "
                "there first, for the zoo downloads no images."
            ) from error
    raise DataError(
        f"The torchvision data set {kind} has no part {' or '.join(map(repr, values))}; give a folder with train/ and "
        "val/ instead."
    )


def _labels(opened: Any, kind: str) -> tuple[np.ndarray, list[str]]:
    """Labels int64 (n,), and the files of the images where the data set lists them, or none."""
    n = len(opened)

    def first_of(*keys: str) -> Any:
        found = (getattr(opened, key, None) for key in keys)
        return next((one for one in found if one is not None and len(one) == n), None)

    def is_label(target: Any) -> bool:
        number = target.item() if getattr(target, "ndim", None) == 0 else target  # a tensor, or a number of numpy
        return isinstance(number, int) and not isinstance(number, bool)

    samples = first_of("samples", "_samples", "imgs")
    paired = isinstance(samples, list) and all(isinstance(one, tuple) and len(one) == 2 for one in samples)
    files = [one[0] for one in samples] if paired else first_of("_image_files", "_images", "data")
    is_list = isinstance(files, list) and all(isinstance(file, str | Path) for file in files)
    targets = first_of("targets", "labels", "_labels")
    if targets is None and paired:
        targets = [one[1] for one in samples]
    elif targets is None and n and isinstance(opened[0], tuple) and len(opened[0]) == 2 and is_label(opened[0][1]):
        targets = [opened[i][1] for i in range(n)]  # which decodes every image
    known = targets is not None and (hasattr(targets, "__array__") or all(map(is_label, targets)))
    labels = np.asarray(targets) if known else np.empty(0)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or (n and labels.min() < 0):
        raise DataError(
            f"The torchvision data set {kind} does not give one whole number from 0 on as the label of each of its "
            f"{n:,} images; expected a data set for classification."
        )
    return labels.astype(np.int64), list(map(str, files)) if is_list else []


def _torchvision_image_set(
    opened: Any, labels: np.ndarray, files: list[str], show: DisplayOptions, part: str, classes: tuple[str, ...]
) -> ImageSet:
    names = list(map(str, range(len(labels))))
    reading = inspect_image_files(files, names, show) if files else DecodingInfo()
    from_files = {int(number): files[int(number)] for number in reading.facts()}
    data = getattr(opened, "data", None)
    known, contents = np.zeros(0, "<u8"), None
    if (
        data is not None
        and hasattr(data, "__array__")
        and len(data) == len(opened)
        and np.asarray(data).dtype == np.uint8
    ):
        known = np.asarray(data)
        contents = hash_pixels(known)
    elif files:
        contents = hash_image_files(files)
        known = contents.astype("<u8")
    return ImageSet(
        name=show.image_set,
        split=part,
        images=LazyImages(partial(_read_torchvision, opened, from_files, show), np.arange(len(labels))),
        labels=labels,
        classes=classes,
        names=names,
        fingerprint=compute_fingerprint(["torchvision", *classes, *names, labels.astype("<i8"), known], reading),
        reading=reading,
        contents=contents,
    )


def _read_torchvision(opened: Any, from_files: Mapping[int, str], show: DisplayOptions, index: int) -> Image.Image:
    if index in from_files:
        return read_image(from_files[index], str(index), show).convert("RGB")  # as torchvision would
    return _decoded(lambda: opened[index][0], index, show)


def _decoded(read: Any, index: int, show: DisplayOptions) -> Image.Image:
    """What a library reads, as everything else is shown."""
    show.allow_pixels()
    try:
        image = read()
    except DECODING_ERRORS as error:
        raise CorruptImage.of(str(index), image_set=show.image_set, reason=format_reason(error)) from error
    if image is None:
        raise CorruptImage.of(str(index), image_set=show.image_set, reason="there is none")
    return convert_opened_image(image, str(index), show)


_ROWS_AT_A_TIME = 64
_VAL_SPLITS = ("val", "valid", "validation", "test")


def open_huggingface_data(
    folder: Path, show: DisplayOptions, *, image: str | None, label: str | None, **division: Any
) -> ImageData:
    """What ``save_to_disk`` wrote: train and one of val, valid, validation and test, or one set, which is split.

    One set is split by its column of parts, such as ``split``, or stratified by class. The image column is the one of
    type ``Image``, the label column the one of type ``ClassLabel``; of several, ``image`` and ``label`` name one, and
    ``label`` "" says that there are none, in all splits. The library turns images by their EXIF orientation. The
    fingerprint is over labels, classes, the bytes of the images, and the kinds of values, scale and background of the
    images that are scaled or transparent.
    """
    with require_extra("images", needed_for="A data set of the Hugging Face library datasets"):
        import datasets as library

    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one that save_to_disk of the library datasets wrote.")
    try:
        opened = library.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder} holds no data set of the library datasets ({format_reason(error)}); expected what save_to_disk "
            "wrote."
        ) from error
    if label == "":
        parts = {"all": opened} if isinstance(opened, library.Dataset) else dict(opened)
        return build_image_data(
            [_saved_image_set(rows, folder, part, show, image, label) for part, rows in parts.items()]
        )
    if isinstance(opened, library.Dataset):
        whole = _saved_image_set(opened, folder, "all", show, image, label)
        of_label = _column(opened, library.ClassLabel, label, "label_column", folder)
        return build_image_data(split_by_columns(whole, _may_say_parts(opened, of_label)), **division)
    second = next((split for split in _VAL_SPLITS if split in opened), None)
    if "train" not in opened or second is None:
        raise DataError(
            f"{folder} has the splits {', '.join(map(str, opened))}; expected train and one of "
            f"{', '.join(_VAL_SPLITS)}."
        )
    parts = {"train": opened["train"], "val": opened[second]}
    return build_image_data(
        [_saved_image_set(rows, folder, part, show, image, label) for part, rows in parts.items()], **division
    )


def _may_say_parts(opened: Any, label: str) -> dict[str, list[str]]:
    """Columns that may say parts; numbers of classes by their names."""
    found = {}
    for column, kind in opened.features.items():
        if column != label and str(getattr(kind, "dtype", "")).startswith(("string", "large_string", "bool", "int")):
            names, cells = dict(enumerate(getattr(kind, "names", ()))), opened.with_format(None)[column]
            if can_name_parts(column, [str(names.get(one, one)) for one in cells[:N_FIRST]]):
                found[column] = [str(names.get(one, one)) for one in cells[:]]
    return found


def _saved_image_set(
    opened: Any, folder: Path, split: str, show: DisplayOptions, image: str | None, label: str | None
) -> ImageSet:
    import datasets as library

    image_key = _column(opened, library.Image, image, "image_column", folder)
    classes, given = tuple[str, ...](), [NO_LABEL] * len(opened)
    if label != "":
        label_key = _column(opened, library.ClassLabel, label, "label_column", folder)
        classes, given = tuple(opened.features[label_key].names), opened.with_format(None)[label_key][:]
    missing = [i for i, number in enumerate(given) if number is None or number < 0] if classes else []
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(given):,} images in the split {split!r} of {folder} have no label in "
            f"{label_key!r}, the first is image {missing[0]}; label them or leave them out."
        )
    labels, names = np.array(given, np.int64), list(map(str, range(len(given))))
    column, mode = opened.select_columns([image_key]), opened.features[image_key].mode
    encoded = column.with_format(None).cast_column(image_key, library.Image(decode=False))

    def stored() -> Iterator[dict[str, Any]]:
        for batch in encoded.iter(batch_size=_ROWS_AT_A_TIME):
            yield from (image or {} for image in batch[image_key])

    def bytes_of(image: dict[str, Any]) -> bytes:  # or a text in their place, which is refused when it is asked for
        return image["bytes"] if isinstance(image.get("bytes"), bytes) else repr(image or None).encode()

    if len(encoded) and (encoded[0][image_key] or {"bytes": b""})["bytes"] is None:  # each in a file
        contents = hash_image_files([str(image.get("path")) for image in stored()])
    else:
        files = [str(file["filename"]) for file in opened.cache_files]
        contents = load_file_contents(files, lambda: hash_encoded_images(map(bytes_of, stored())), what=image_key)
    if mode is not None:  # converted below, for the library makes 16 bits white and drops transparency
        column = column.cast_column(image_key, library.Image())
    reading = inspect_opened_images(
        names, partial(_opened_image, column.with_format("arrow"), image_key), show, turned_by="datasets"
    )
    by_zoo = set(map(int, reading.not_by_pillow()))
    return ImageSet(
        name=show.image_set,
        split=split,
        images=LazyImages(partial(_read_saved, column, image_key, show, mode, by_zoo), np.arange(len(labels))),
        labels=labels,
        classes=classes,
        names=names,
        fingerprint=compute_fingerprint(
            ["huggingface", *classes, *names, labels.astype("<i8"), contents.astype("<u8")], reading
        ),
        reading=reading,
        contents=contents,
    )


def _column(opened: Any, kind: type, wanted: str | None, option: str, folder: Path) -> str:
    """The one column of a type, or the one that was asked for."""
    columns = ", ".join(f"{key} ({type(feature).__name__})" for key, feature in opened.features.items())
    fitting = [str(key) for key, feature in opened.features.items() if isinstance(feature, kind)]
    if wanted in fitting:
        return str(wanted)
    if wanted is not None:
        raise DataError(f"{folder} has no column {wanted!r} of type {kind.__name__}; it has {columns}.")
    if len(fitting) != 1:
        advice = f"say which with {option}=" if fitting else f"cast the right one with cast_column to {kind.__name__}"
        raise DataError(
            f"{folder} has {len(fitting)} columns of type {kind.__name__}, expected one; it has {columns}: {advice}."
        )
    return fitting[0]


def _opened_image(opened: Any, column: str, index: int, scale: Scale | None = None) -> ImageFile.ImageFile | BandImage:
    """The image as Pillow opens it."""
    stored = opened[index][column][0]
    content = stored["bytes"]
    if content.is_valid:
        return open_image(io.BytesIO(content.as_buffer()), scale)  # a reader of pyarrow refuses places behind its end
    return open_image(str(stored["path"]), scale)


def _read_saved(
    opened: Any, column: str, show: DisplayOptions, mode: str | None, by_zoo: Collection[int], index: int
) -> Image.Image:
    def read() -> Any:
        if index not in by_zoo:
            return opened[index][column]
        with _opened_image(opened.with_format("arrow"), column, index, show.scale) as image:
            image.load()
        return image

    shown = _decoded(read, index, show)
    return shown if mode in (None, shown.mode) else shown.convert(mode)


DIGITS_VAL_SHARE = 0.25


def digits() -> ImageSet:
    """The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 px in 10 classes.

    MissingExtra if scikit-learn is not installed.

    References
    ----------
    E. Alpaydin and C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI (its test part).
    """
    found = find_spec("sklearn")  # whose import takes longer than all else of a short command
    if found is None or found.origin is None:
        raise MissingExtra("sklearn", extra="evaluate", needed_for="The handwritten digits")
    path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"  # that sklearn.datasets.load_digits reads
    try:
        table = np.loadtxt(gzip.decompress(path.read_bytes()).decode().splitlines(), delimiter=",", dtype=np.int64)
    except OSError as error:
        raise DataError(
            f"The handwritten digits of scikit-learn cannot be read ({path}: {error.strerror or error}); "
            "install it again."
        ) from error
    return array_images(
        np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8),  # pixels come as 0 to 16
        table[:, -1],
        name="digits",
        split="all",
        classes=tuple(map(str, range(10))),
    )


def digits_data(*, val_share: float = DIGITS_VAL_SHARE, seed: int = 0) -> ImageData:
    """All the digits, split stratified by class: by default 1,346 for training and 451 for testing.

    Writers are not named in the data, so that both parts may have digits of the same hand. Another ``val_share`` (of
    each class, between 0 and 1) or ``seed`` is another split, whose numbers are not comparable.
    """
    return split_stratified(digits(), val_share=val_share, seed=seed)
