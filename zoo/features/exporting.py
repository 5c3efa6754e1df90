"""Features as Parquet files, for others: one file for each image set under one encoder, a row group for each shard.

The columns are ``features``, a list of as many float32 as the encoder has dimensions; ``label``, int64; ``image``, its
name, if names are known (bytes in it that are no UTF-8 are written as ``\\xNN``); ``content`` and ``group``, uint64
hashes of what is in the image and of its group, if they are known. The metadata of the file have under ``zoo`` a JSON
object with the origin of the features, the names of the classes by their label, the tags of a multi-label set, the
images that were skipped, and the hash of each shard. Shards are read, and row groups written, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError, QueryError
from ..files import replaced
from ..optional import requires_extra
from ..progress import Progress, Silent
from ..storage import place_at
from .store import Features, Index, load_features, read_index

with requires_extra("images", needed_for="Writing features as Parquet"):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

FORMAT = "zoo-features-parquet-1"
SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A Parquet file that was written."""

    where: str  # the features
    path: Path
    n_rows: int
    dim: int
    n_groups: int  # row groups
    size_bytes: int


def export_parquet(
    places: Sequence[str | Path], out: str | Path, *, progress: Progress | None = None
) -> list[Exported]:
    """Writes features as Parquet.

    Parameters
    ----------
    places : sequence of path or address
        Complete features, as :func:`~zoo.features.load_features` takes them.
    out : path
        The file, if its name ends with ``.parquet``, for one place; else a folder, which gets a file for each place,
        named ``ENCODER-DATASET-SPLIT-IMAGES.parquet``. A file that is there is replaced as a whole.

    Raises
    ------
    DataError
        If there are no features, or unfinished or damaged ones; before anything is written.
    QueryError
        If several places are to go into one file, or two of them would have one name.
    """
    target = Path(out)
    loaded = [(load_features(where), read_index(place_at(where))) for where in places]
    paths = _paths(target, [features for features, _ in loaded])
    told = progress or Silent()
    told.start("features", sum(len(features) for features, _ in loaded), 0)
    try:
        return [_exported(features, index, path, told) for (features, index), path in zip(loaded, paths, strict=True)]
    finally:
        told.end()


def _exported(features: Features, index: Index | None, path: Path, progress: Progress) -> Exported:
    assert index is not None  # or there were no features
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            n_groups = _write(features, index, file, progress)
        size_bytes = path.stat().st_size
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror or error}); make room, and export again."
        ) from error
    return Exported(
        where=features.where,
        path=path,
        n_rows=len(features),
        dim=features.dim,
        n_groups=n_groups,
        size_bytes=size_bytes,
    )


def _paths(target: Path, loaded: Sequence[Features]) -> list[Path]:
    """The files that features go to."""
    if target.suffix == SUFFIX:
        if len(loaded) > 1:
            raise QueryError(
                f"{len(loaded)} sets of features cannot go into the one file {target}; name a folder, which gets a "
                "file for each."
            )
        return [target]
    names = [_file_name(features) for features in loaded]
    again = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if again is not None:
        raise QueryError(f"Two sets of features would be {again} in {target}; export them into folders of their own.")
    return [target / name for name in names]


def _file_name(features: Features) -> str:
    origin = features.origin
    parts = (origin.encoder, origin.dataset, origin.split, origin.images_hash[:12])
    plain = "-".join("".join(one if one.isalnum() or one in "_.+" else "_" for one in part) for part in parts)
    return plain + ("" if origin.precision == "float32" else f"-{origin.precision.replace(' ', '_')}") + SUFFIX


def schema_of(features: Features, index: Index) -> pa.Schema:
    """The columns, and the metadata about them."""
    columns = [("features", pa.list_(pa.float32(), features.dim)), ("label", pa.int64())]
    columns += [("image", pa.string())] if len(features.names) else []
    columns += [("content", pa.uint64())] if features.contents is not None else []
    columns += [("group", pa.uint64())] if features.groups is not None else []
    about = {
        "format": FORMAT,
        "origin": asdict(features.origin),
        "classes": list(features.classes),
        "tags": list(features.tags),
        "target": features.target,
        "skipped": [asdict(image) for image in features.skipped],
        "shards": [shard.digest for shard in index.shards],
    }
    return pa.schema(columns, metadata={"zoo": json.dumps(about, ensure_ascii=True)})


def _write(features: Features, index: Index, file: BinaryIO, progress: Progress) -> int:
    schema, n_groups, names = schema_of(features, index), 0, iter(features.names)
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        for start, stop in _ranges(index):
            x = np.ascontiguousarray(features.x[start:stop], np.float32)
            columns = {
                "features": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), features.dim),
                "label": pa.array(features.y[start:stop]),
            }
            if "image" in schema.names:
                columns["image"] = pa.array([_plain(name) for name in islice(names, stop - start)])
            for name, hashes in (("content", features.contents), ("group", features.groups)):
                if hashes is not None:
                    columns[name] = pa.array(hashes[start:stop])
            writer.write_table(pa.table(columns, schema=schema), row_group_size=stop - start)
            n_groups += 1
            progress.advance(stop - start)
    return n_groups


def _ranges(index: Index) -> Iterator[tuple[int, int]]:
    """First row and end of each shard that has rows."""
    ends = list(accumulate(shard.n_rows for shard in index.shards))
    for start, stop in zip([0, *ends], ends, strict=False):
        if stop > start:
            yield start, stop


def _plain(name: str) -> str:
    """A name of a file, which may hold any bytes, as text."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
