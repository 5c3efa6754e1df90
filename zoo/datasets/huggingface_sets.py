"""Data sets of the Hugging Face library ``datasets`` that were saved to the disk."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import CorruptImage, DataError
from ..optional import requires_extra
from .imagefiles import DECODING_ERRORS, as_shown, reading_of, reason_of
from .images import (
    Contents,
    ImageData,
    ImageSet,
    LazyImages,
    cached_contents,
    contents_of_bytes,
    contents_of_files,
    fingerprint_of,
)
from .labels import data_of
from .parts import called_like_parts, in_parts
from .rgb import WHITE, Scale

with requires_extra("images", needed_for="A data set of the Hugging Face library datasets"):
    import datasets
    import numpy as np
    import pyarrow
    from PIL import Image, ImageFile

_ROWS_AT_A_TIME = 64
_VAL_SPLITS = ("val", "valid", "validation", "test")


def huggingface_data(
    folder: Path,
    *,
    name: str,
    val_share: float,
    seed: int,
    image_column: str | None = None,
    label_column: str | None = None,
    scale: Scale | None = None,
    background: str = WHITE,
    fold_labels: bool = False,
) -> ImageData:
    """What ``save_to_disk`` wrote: train and one of val, valid, validation and test, or one set, which is split.

    One set is split by its column of parts, such as ``split``, or stratified by class. The image column is the one of
    type ``Image``, the label column the one of type ``ClassLabel``; of several, ``image_column`` and ``label_column``
    name one. The library turns images by their EXIF orientation. The fingerprint is over labels, classes, the bytes of
    the images, and the kinds of values, scale and background of the images that are scaled or transparent.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one that save_to_disk of the library datasets wrote.")
    try:
        opened = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder} holds no data set of the library datasets ({reason_of(error)}); expected what save_to_disk "
            "wrote."
        ) from error
    how = name, image_column, label_column, scale, background
    if isinstance(opened, datasets.Dataset):
        parts = {"all": opened}
    else:
        second = next((split for split in _VAL_SPLITS if split in opened), None)
        if "train" not in opened or second is None:
            raise DataError(
                f"{folder} has the splits {', '.join(map(str, opened))}; expected train and one of "
                f"{', '.join(_VAL_SPLITS)}."
            )
        parts = {"train": opened["train"], "val": opened[second]}
    sets = [_huggingface_image_set(rows, folder, split, *how) for split, rows in parts.items()]
    if len(sets) == 1:
        like = called_like_parts(parts["all"].column_names, [image_column, label_column])
        plain = parts["all"].with_format(None)
        sets = in_parts(sets[0], {column: list(map(str, plain[column][:])) for column in like})
    return data_of(sets, val_share=val_share, seed=seed, fold_labels=fold_labels)


def _huggingface_image_set(
    opened: Any,
    folder: Path,
    split: str,
    name: str,
    image_column: str | None,
    label_column: str | None,
    scale: Scale | None,
    background: str,
) -> ImageSet:
    image_key = _column(opened, datasets.Image, image_column, "image_column", folder)
    label_key = _column(opened, datasets.ClassLabel, label_column, "label_column", folder)
    classes = tuple(opened.features[label_key].names)
    given = opened.with_format(None)[label_key][:]
    missing = [i for i, label in enumerate(given) if label is None or label < 0]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(given):,} images in the split {split!r} of {folder} have no label in "
            f"{label_key!r}, the first is image {missing[0]}; label them or leave them out."
        )
    labels = np.array(given, np.int64)
    names = list(map(str, range(len(labels))))
    files = [str(file["filename"]) for file in opened.cache_files]
    column, mode = opened.select_columns([image_key]), opened.features[image_key].mode
    contents = _contents(column, image_key, files)
    if mode is not None:  # converted below, for the library makes 16 bits white and drops transparency
        column = column.cast_column(image_key, datasets.Image())
    opener = partial(_opened_image, column.with_format("arrow"), image_key)
    reading = reading_of(names, opener, image_set=name, scale=scale, background=background, turned_by="datasets")
    return ImageSet(
        name=name,
        split=split,
        images=LazyImages(
            partial(_read_huggingface, column, image_key, name, reading.scale, reading.background, mode),
            np.arange(len(labels)),
        ),
        labels=labels,
        classes=classes,
        names=names,
        fingerprint=fingerprint_of(
            ["huggingface", *classes, *names, labels.astype("<i8"), contents.astype("<u8")], reading
        ),
        reading=reading,
        contents=contents,
    )


def _contents(opened: Any, column: str, files: list[str]) -> Contents:
    """Contents of the encoded images, without decoding them; they are in Arrow files, or each in a file."""
    encoded = opened.with_format(None).cast_column(column, datasets.Image(decode=False))
    first = encoded[0][column] if len(encoded) else None
    if first is not None and first["bytes"] is None:
        return contents_of_files([str((image or {}).get("path")) for image in _images(encoded, column)])
    return cached_contents(
        files, lambda: contents_of_bytes(_bytes_of(image) for image in _images(encoded, column)), what=column
    )


def _images(encoded: Any, column: str) -> Iterator[dict[str, Any] | None]:
    for batch in encoded.iter(batch_size=_ROWS_AT_A_TIME):
        yield from batch[column]


def _bytes_of(image: dict[str, Any] | None) -> bytes:
    """The encoded image, or a text in its place where there is none: such an image is refused when it is asked for."""
    encoded = (image or {}).get("bytes")
    return encoded if isinstance(encoded, bytes) else repr(image).encode()


def _column(opened: Any, kind: type, wanted: str | None, option: str, folder: Path) -> str:
    """The one column of a type, or the one that was asked for."""
    columns = ", ".join(f"{key} ({type(feature).__name__})" for key, feature in opened.features.items())
    fitting = [key for key, feature in opened.features.items() if isinstance(feature, kind)]
    if wanted is not None:
        if wanted in fitting:
            return wanted
        raise DataError(f"{folder} has no column {wanted!r} of type {kind.__name__}; it has {columns}.")
    if len(fitting) != 1:
        advice = f"say which with {option}=" if fitting else f"cast the right one with cast_column to {kind.__name__}"
        raise DataError(
            f"{folder} has {len(fitting)} columns of type {kind.__name__}, expected one; it has {columns}: {advice}."
        )
    return str(fitting[0])


def _opened_image(opened: Any, column: str, index: int) -> ImageFile.ImageFile:
    """The image as Pillow opens it, which reads no more of it than is used."""
    stored = opened[index][column][0]
    content = stored["bytes"]
    if content.is_valid:
        return Image.open(pyarrow.BufferReader(content.as_buffer()))
    return Image.open(str(stored["path"]))


def _read_huggingface(
    opened: Any, column: str, image_set: str, scale: Scale | None, background: str, mode: str | None, index: int
) -> Image.Image:
    try:
        image = opened[index][column]
    except DECODING_ERRORS as error:
        raise CorruptImage.of(str(index), image_set=image_set, reason=reason_of(error)) from error
    if image is None:
        raise CorruptImage.of(str(index), image_set=image_set, reason="there is none")
    shown = as_shown(image, image=str(index), image_set=image_set, scale=scale, background=background)
    return shown if mode in (None, shown.mode) else shown.convert(mode)
