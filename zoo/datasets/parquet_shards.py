"""Image sets in parquet files, as the Hugging Face Hub has ImageNet; what they share with tar files is in shards.py."""

from __future__ import annotations

import io
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import DataError
from ..optional import require_extra
from .image_files import DisplayOptions, format_reason
from .images import NO_LABEL, ImageData, ImageSet
from .labels import add_notes
from .shards import (
    EncodedImages,
    ImageShard,
    ImageShardIndex,
    ShardStream,
    build_shard_indexes,
    find_shards,
    get_encoded_images,
    list_names,
    make_image_data,
    make_shard_sets,
)
from .split_names import MASK_WORDS, N_FIRST, can_name_parts
from .tables import LABEL_NAMES, find_group_column

with require_extra("models", needed_for="Working with images"):
    import numpy as np


def open_parquet_data(
    text: str, show: DisplayOptions, *, image: str | None, label: str | None, **division: Any
) -> ImageData:
    """Images of parquet files: ``text`` names them as :func:`find_shards` says.

    The image column holds encoded images, as binary or as a struct with ``bytes``, or, where these are None, the
    ``path`` of a file, absolute or below the folder of the parquet file. It is the one that the metadata of
    the library datasets call an image, or the only one of such a type; ``image`` names another. The label column is the
    one that they call a class label, or ``label``, ``class`` or ``target``; ``label`` names another. It holds texts, or
    whole numbers (of any type), with the names of classes that the metadata give; with ``label`` "" all images are
    read without one. Images are read by row groups.
    """
    with require_extra("images", needed_for="An image set in parquet files"):
        import pyarrow.parquet  # noqa: F401
    parts, notes = find_shards(text, (".parquet",), is_whole=label == "")
    indexes = build_shard_indexes(
        parts, lambda shard: _look_in_parquet(shard, image, label), f"parquet {image!r} {label!r}"
    )
    columns: dict[str, list[str]] = {}
    with _parquet(next(iter(parts.values()))[0]) as file:
        group = find_group_column(file.schema_arrow.names)
    said = f"images with the same {group!r} may be on both sides; a table with --group keeps them together"
    notes += [said] * (group is not None and label != "")
    for number, shard in enumerate(parts.get("all", ()) if label != "" else ()):
        with _parquet(shard) as file:
            if not number:
                columns = {
                    column: [] for column in _may_say_parts(file, _label_column(file.schema_arrow, label, shard))
                }
            for column, values in columns.items():
                values += _texts(file, file.read(columns=[column], use_threads=False), column)

    def rows(*arguments: Any) -> EncodedImages:
        return _ParquetImages(*arguments, image_column=image)

    data = make_image_data(parts, indexes, rows, "parquet", show, columns, division)
    return add_notes(data, notes)


def open_parquet_columns(
    text: str, show: DisplayOptions, *, image: str | None, mask: str | None
) -> list[tuple[ImageSet, EncodedImages, EncodedImages]]:
    """The images of each part of parquet files, or of all, and what reads the encoded images and masks of their rows.

    The two columns are those that are named, or the only two of encoded images, of which the name of the one of
    masks has a word for them.
    """
    with require_extra("images", needed_for="An image set in parquet files"):
        import pyarrow.parquet  # noqa: F401
    parts, notes = find_shards(text, (".parquet",))
    first = next(iter(parts.values()))[0]
    with _parquet(first) as file:
        image, mask = _find_mask_columns(file.schema_arrow, image, mask, first)
    of_column = {}
    for column in (image, mask):
        look = partial(_look_in_parquet, wanted_image=column, wanted_label="")
        indexes = build_shard_indexes(parts, look, f"parquet {column!r} ''")
        reader = partial(_ParquetImages, image_column=column)
        of_column[column] = make_shard_sets(parts, indexes, reader, "parquet", show)
    return [
        (
            replace(images, reading=images.reading.with_notes(notes)),
            get_encoded_images(images),
            get_encoded_images(of_column[mask][part]),
        )
        for part, images in of_column[image].items()
    ]


def _find_mask_columns(schema: Any, image: str | None, mask: str | None, shard: ImageShard) -> tuple[str, str]:
    fitting = [field.name for field in schema if _holds_images(field.type)]
    masks = [name for name in fitting if name != image and (name == mask if mask else _is_of_masks(name))]
    images = [name for name in fitting if name not in masks and name == (image or name)]
    if len(images) != 1 or len(masks) != 1:
        raise DataError(
            f"{shard.shown} has the columns of encoded images {list_names(fitting) or 'none'}; expected one of images "
            "and one of masks: say which with --image-column and --label-column."
        )
    return images[0], masks[0]


def _is_of_masks(name: str) -> bool:
    return not {*re.split(r"[\W_]+", name.casefold())}.isdisjoint(MASK_WORDS)


def _may_say_parts(file: Any, label: str) -> list[str]:
    """Columns that may say parts, by their first values."""
    from pyarrow import types

    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_boolean, types.is_dictionary)
    names = [one.name for one in file.schema_arrow if one.name != label and any(fits(one.type) for fits in plain)]
    first = next(file.iter_batches(N_FIRST, columns=names, use_threads=False)) if names else None
    return [one for one in names if can_name_parts(one, _texts(file, first, one))]


def _texts(file: Any, rows: Any, column: str) -> list[str]:
    """The values of a column as texts, those of classes by their names."""
    names = dict(enumerate(_features(file.schema_arrow).get(column, {}).get("names") or ()))
    return [str(names.get(value, value)) for value in rows[column].to_pylist()]


class _ParquetImages(EncodedImages):
    """Images of parquet files; each thread keeps the row group that it read last."""

    def __init__(
        self, shards: Sequence[ImageShard], indexes: Sequence[ImageShardIndex], *rest: Any, image_column: str | None
    ) -> None:
        super().__init__(shards, indexes, *rest)
        self.image_column = image_column
        self.blocks = [np.cumsum([0, *index.blocks]) for index in indexes]  # first row of each row group

    def read(self, of: int, number: int) -> bytes:
        row = number - int(self.firsts[of])
        block = bisect_right(self.blocks[of], row) - 1
        if self.kept.place != (of, block):
            self.kept.held = None  # before the next is read, or both would be in memory
            with _parquet(self.shards[of]) as file:
                column = _image_column(file.schema_arrow, self.image_column, self.shards[of])
                is_there = block < file.num_row_groups
                held = _rows(file, block, column).column(column) if is_there else []
            self.kept.held, self.kept.place = held, (of, block)
        row -= int(self.blocks[of][block])
        return _bytes_of(self.kept.held[row], self.shards[of])[0] if row < len(self.kept.held) else b""


def _look_in_parquet(shard: ImageShard, wanted_image: str | None, wanted_label: str | None) -> ImageShardIndex:
    """Reads a file from its beginning to its end."""
    with _parquet(shard) as file:
        image = _image_column(file.schema_arrow, wanted_image, shard)
        label = "" if wanted_label == "" else _label_column(file.schema_arrow, wanted_label, shard)
        index = ImageShardIndex(classes=_features(file.schema_arrow).get(label, {}).get("names"))
        for block in range(file.num_row_groups):
            rows = _rows(file, block, *filter(None, (image, label)))
            index.blocks.append(len(rows))
            labels = rows.column(label).to_pylist() if label else [NO_LABEL] * len(rows)
            for found, stored in zip(labels, rows.column(image), strict=True):
                row = len(index.names)
                encoded, path = _bytes_of(stored, shard)
                index.outside.extend([path] if path and not index.outside else [])
                told = f"Row {row} of {shard.shown} in the column {label!r}" if label else ""
                index.add(str(row), encoded, found, told)
    if not index.names:
        raise DataError(f"The file {shard.shown} has no row; expected images.")
    return index


@contextmanager
def _parquet(shard: ImageShard) -> Iterator[Any]:
    """A parquet file; what is wrong with it becomes a sentence that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stream = pa.PythonFile(io.BufferedReader(ShardStream(shard), 1 << 20), mode="r")
        with pq.ParquetFile(stream, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        what = "is cut off or damaged"
        if shard.place.states().get(shard.file) != (shard.size, shard.state):
            what = "has changed since the image set was opened"
        raise DataError(
            f"The parquet file {shard.shown} {what} ({format_reason(error)}); put it there again, or open the set "
            "again."
        ) from error


def _rows(file: Any, block: int, *columns: str) -> Any:
    """Columns of a row group, by this thread alone.

    Threads of Arrow may still be letting go of the file, which is an object of Python, when an error has ended it:
    that aborts the process.
    """
    return file.read_row_group(block, columns=list(dict.fromkeys(columns)), use_threads=False)


def _bytes_of(stored: Any, shard: ImageShard) -> tuple[bytes, str]:
    """The encoded image of a cell, and the file that it is in if the cell has its path alone.

    Nothing if there is none, which is refused when it is asked for.
    """
    value = stored.as_py()
    cell = value if isinstance(value, dict) else {"bytes": value}
    content, path = cell.get("bytes"), cell.get("path")
    if content is not None or not path:
        return content if isinstance(content, bytes) else b"", ""
    try:
        if shard.place.folder is None:
            raise OSError(f"paths in {shard.where} are not followed")
        path = os.path.join(shard.place.folder, path)
        with open(path, "rb") as file:
            return file.read(), path
    except (OSError, ValueError) as error:
        raise DataError(
            f"A row of {shard.shown} has no bytes of its image, only the path {path!r}, which cannot be read "
            f"({format_reason(error)}); expected a file there, or the encoded image in the column."
        ) from error


def _holds_images(kind: Any) -> bool:
    """Whether a type of Arrow is that of encoded images."""
    from pyarrow import types

    if types.is_struct(kind):
        of = {field.name: field.type for field in kind}
        return "bytes" in of and (_holds_images(of["bytes"]) or (types.is_null(of["bytes"]) and "path" in of))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _image_column(schema: Any, wanted: str | None, shard: ImageShard) -> str:
    fitting = [field.name for field in schema if _holds_images(field.type)]
    said = [name for name in fitting if _features(schema).get(name, {}).get("_type") == "Image"]
    return _the_column(said or fitting, fitting, wanted, schema, shard, "encoded images, binary or a struct with bytes")


def _label_column(schema: Any, wanted: str | None, shard: ImageShard) -> str:
    from pyarrow import types

    def holds_labels(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        return bool(is_number or types.is_string(kind) or types.is_large_string(kind))

    fitting = [field.name for field in schema if holds_labels(field.type)]
    said = [name for name in fitting if _features(schema).get(name, {}).get("_type") == "ClassLabel"]
    usual = said or [name for name in fitting if name.lower() in LABEL_NAMES]
    what = f"labels ({', '.join(LABEL_NAMES)}), whole numbers or texts"
    return _the_column(usual, fitting, wanted, schema, shard, what)


def _the_column(
    usual: list[str], fitting: list[str], wanted: str | None, schema: Any, shard: ImageShard, what: str
) -> str:
    """The one column that is usual for something, or the wanted one of those that fit."""
    found = usual if wanted is None else [name for name in fitting if name == wanted]
    if len(found) == 1:
        return found[0]
    columns = list_names(f"{field.name} ({field.type})" for field in schema)
    asked = "one column" if wanted is None else f"a column {wanted!r}"
    option = "--image-column" if "images" in what else "--label-column"
    which = f": say which with {option}, such as {option} {(found or fitting)[0]}" if fitting else ""
    if b"zoo" in (schema.metadata or {}) and "features" in schema.names:
        raise DataError(
            f"{shard.shown} holds features that zoo features export wrote, and no images; give the images that they "
            "are of, or to zoo probe the folders of features that were exported."
        )
    raise DataError(f"{shard.shown} has {len(found)} columns of {what}; expected {asked} among {columns}{which}.")


def _features(schema: Any) -> dict[str, Any]:
    """What the library datasets wrote of the columns."""
    try:
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return {name: one for name, one in said.items() if isinstance(one, dict)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
