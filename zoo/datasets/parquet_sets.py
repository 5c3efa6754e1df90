"""Image sets in parquet files with a column of encoded images, as the Hugging Face Hub has ImageNet."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import DataError
from ..optional import requires_extra
from .imagefiles import reason_of
from .images import ImageData
from .parts import called_like_parts
from .rgb import WHITE, Scale
from .sharded import Index, OfThread, SequentialFile, Shard, found_parts, indexed, require_unchanged, sharded_data, take

with requires_extra("images", needed_for="An image set in parquet files"):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

_ENDINGS = (".parquet",)
_LABELS = ("label", "class", "target")
_BYTES = "bytes"  # the encoded image in a column of structs, beside its path
_AHEAD = 1 << 20  # bytes of a file that are read at once; columns of a row group come in one piece anyway


def parquet_data(
    text: str,
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
    """Images of parquet files: ``text`` names them as :func:`zoo.datasets.sharded.found_parts` says.

    The image column holds encoded images, as binary or as a struct with ``bytes``. It is the one that the metadata of
    the library datasets call an image, or the only one of such a type; ``image_column`` names another. The label column
    is the one that they call a class label, or ``label``, ``class`` or ``target``; ``label_column`` names another. It
    holds texts, or whole numbers, with the names of classes that the metadata give. Images are read by row groups.
    """
    parts = found_parts(text, _ENDINGS)
    wanted = _Wanted(image_column, label_column)
    what = f"parquet {image_column!r} {label_column!r}"
    indexes = {part: indexed(shards, wanted.look, what=what) for part, shards in parts.items()}

    def reader(shards: Sequence[Shard], held: Sequence[Index]) -> Callable[[int], bytes]:
        return Rows(shards, held, image_column)

    columns: dict[str, list[str]] = {}
    for shard in parts.get("all", ()):
        with _opened(shard) as file:
            for column in called_like_parts(file.schema_arrow.names, [image_column, label_column]):
                values = file.read(columns=[column]).column(column).to_pylist()
                columns.setdefault(column, []).extend(map(str, values))
    how: dict[str, Any] = {"val_share": val_share, "seed": seed, "scale": scale, "background": background}
    return sharded_data(
        parts, indexes, reader, kind="parquet", name=name, columns=columns, fold_labels=fold_labels, **how
    )


class Rows:
    """Encoded images of parquet files by their number; each thread keeps the row group that it read last."""

    def __init__(self, shards: Sequence[Shard], indexes: Sequence[Index], image_column: str | None) -> None:
        self.shards, self.image_column = list(shards), image_column
        self.firsts = np.cumsum([0, *(len(index.names) for index in indexes)])  # first image of each shard
        self.blocks = [np.cumsum([0, *index.blocks]) for index in indexes]  # first row of each row group
        self.of_thread = OfThread()

    def __call__(self, number: int) -> bytes:
        of = bisect_right(self.firsts, number) - 1
        row = number - int(self.firsts[of])
        block = bisect_right(self.blocks[of], row) - 1
        kept = self.of_thread.kept
        if kept.get("place") != (of, block):
            kept.clear()  # before the next is read, or both would be in memory
            kept["images"], kept["place"] = self._read(self.shards[of], block), (of, block)
        images = kept["images"]
        row -= int(self.blocks[of][block])
        return _encoded(images[row]) if row < len(images) else b""

    def _read(self, shard: Shard, block: int) -> Any:
        with _opened(shard) as file:
            column, _ = _image_column(file.schema_arrow, self.image_column, shard)
            if block >= file.num_row_groups:
                return []
            return file.read_row_group(block, columns=[column]).column(column)


class _Wanted:
    """Which columns are the image and the label."""

    def __init__(self, image: str | None, label: str | None) -> None:
        self.image, self.label = image, label

    def look(self, shard: Shard) -> Index:
        """Reads a file from its beginning to its end."""
        with _opened(shard) as file:
            image, features = _image_column(file.schema_arrow, self.image, shard)
            label = _label_column(file.schema_arrow, self.label, features, shard)
            names = features.get(label, {}).get("names")
            index = Index(names=[], labels=[], contents=[], stored={}, classes=names)
            for block in range(file.num_row_groups):
                rows = file.read_row_group(block, columns=list({image, label}))
                index.blocks.append(len(rows))
                labels = rows.column(label).to_pylist()
                for found, stored in zip(labels, rows.column(image), strict=True):
                    row = len(index.names)
                    is_label = (isinstance(found, int) and found >= 0) or (isinstance(found, str) and found)
                    if not is_label:
                        raise DataError(
                            f"Row {row} of {shard.shown} has {found!r} in the label column {label!r}; expected a whole "
                            "number from 0, or a text: label it or leave it out."
                        )
                    take(index, str(row), _encoded(stored), int(found) if isinstance(found, int) else str(found))
        if not index.names:
            raise DataError(f"The file {shard.shown} has no row; expected images.")
        return index


@contextmanager
def _opened(shard: Shard) -> Iterator[Any]:
    """A parquet file; what is wrong with it becomes a sentence that names it."""
    try:
        with pq.ParquetFile(pa.PythonFile(SequentialFile(shard, ahead=_AHEAD), mode="r"), pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        require_unchanged(shard)
        raise DataError(
            f"The parquet file {shard.shown} is cut off or damaged ({reason_of(error)}); put it there again."
        ) from error


def _encoded(stored: Any) -> bytes:
    """The encoded image of a cell; nothing if there is none, which is refused when it is asked for."""
    value = stored.as_py()
    if isinstance(value, dict):
        value = value.get(_BYTES)
    return value if isinstance(value, bytes) else b""


def _image_column(schema: Any, wanted: str | None, shard: Shard) -> tuple[str, dict[str, Any]]:
    """The column of images, and what the library datasets says of all columns."""
    features = _features(schema)
    fitting = [field.name for field in schema if _holds_images(field.type)]
    if wanted is None:
        said = [column for column in fitting if features.get(column, {}).get("_type") == "Image"]
        fitting = said or fitting
    else:
        fitting = [column for column in fitting if column == wanted]
    if len(fitting) == 1:
        return fitting[0], features
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
    if wanted is not None:
        raise DataError(
            f"{shard.shown} has no column {wanted!r} of encoded images, binary or a struct with bytes; expected one of "
            f"{columns}."
        )
    advice = "say which with --image-column, or image_column= in Python" if fitting else "write the bytes of its files"
    raise DataError(
        f"{shard.shown} has {len(fitting)} columns that may be encoded images, binary or a struct with bytes, expected "
        f"one; it has {columns}: {advice}."
    )


def _label_column(schema: Any, wanted: str | None, features: dict[str, Any], shard: Shard) -> str:
    fitting = [field.name for field in schema if _holds_labels(field.type)]
    if wanted is None:
        said = [column for column in fitting if features.get(column, {}).get("_type") == "ClassLabel"]
        fitting = said or [column for column in fitting if column.lower() in _LABELS]
    else:
        fitting = [column for column in fitting if column == wanted]
    if len(fitting) == 1:
        return str(fitting[0])
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
    if wanted is not None:
        raise DataError(f"{shard.shown} has no column {wanted!r} of whole numbers or texts; it has {columns}.")
    raise DataError(
        f"{shard.shown} has {len(fitting)} columns that may be labels ({', '.join(_LABELS)}, or a ClassLabel of the "
        f"library datasets), expected one; it has {columns}: say which with --label-column, or label_column= in Python."
    )


def _features(schema: Any) -> dict[str, Any]:
    """What the library datasets wrote of the columns."""
    try:
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return {name: one for name, one in said.items() if isinstance(one, dict)} if isinstance(said, dict) else {}


def _holds_images(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(field.name == _BYTES and _holds_images(field.type) for field in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _holds_labels(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_labels(kind.value_type)
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
