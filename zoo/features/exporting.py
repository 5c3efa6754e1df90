"""Features as files for others: Parquet, or NumPy's .npy with a JSON file next to it; written whole, a shard at a time.

The columns of Parquet are ``features``, a list of as many float32 as the encoder has dimensions; ``label``, int64, if
there are labels, or float64 if they are numbers such as ages; ``image``, its name, if names are known (bytes in it that
are no UTF-8 are written as ``\\xNN``); ``split``, if several parts of a data set are in one file; ``content`` and
``group``, uint64 hashes of what is in the image and of its group, if they are known. The metadata of the file have
under ``zoo`` a JSON object with the origin of the features, pooling and size in pixels of the encoder's input, the
names of the classes by their label, the tags of a multi-label set, the images that were skipped, and the hash of each
shard.

A file OUT.npy is float32 (n, dim); OUT.npy.json has the same object, and lists of the other columns, a value per row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from ..cards.catalogue import load_catalogue
from ..datasets.folders import join_parts
from ..datasets.images import NO_LABEL, get_numbers
from ..datasets.sources import open_any_images
from ..errors import DataError, QueryError, StoreError
from ..files import replace_file
from ..optional import require_extra
from ..progress import Progress, SilentProgress
from ..storage import resolve_place
from .featurising import featurise
from .origin import Origin, build_origin_document, describe_origin_differences
from .store import FeatureIndex, Features, load_features, read_index
from .work_items import FeaturisingOptions

with require_extra("images", needed_for="Writing features as Parquet"):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

FORMAT = "zoo-features-parquet-1"

Part: TypeAlias = tuple[Features, FeatureIndex]
Writing: TypeAlias = Callable[[Sequence[Part], dict[str, Any], BinaryIO, Path], Iterator[int]]  # yields numbers of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """A file that was written, or was there."""

    where: str  # the features
    path: Path
    n_rows: int
    dim: int
    n_groups: int  # row groups
    size_bytes: int


def export_features(
    places: Sequence[str | Path], out: str | Path, kind: str = "parquet", *, progress: Progress | None = None
) -> list[ExportResult]:
    """Writes features as files for others, of kind "parquet" or "npy".

    Parameters
    ----------
    places : sequence of path or address
        Complete features, as :func:`~zoo.features.load_features` takes them.
    out : path
        The file, if its name ends with the kind, for one place or the parts of one data set under one encoder; else a
        folder, which gets a file for each place, named ``ENCODER-DATASET-SPLIT-IMAGES.parquet``. A file of the same
        features is left as it is, one of others replaced as a whole.

    Raises
    ------
    DataError
        If there are no features, or unfinished or damaged ones, before anything is written; if the disk is full.
    StoreError
        If a file cannot be written there, or is there and holds no features that were exported.
    QueryError
        If several places are to go into one file, or two of them would have one name.
    """
    loaded = [(load_features(where), read_index(resolve_place(where))) for where in places]
    files = _files(Path(out), [(features, index) for features, index in loaded if index is not None], kind)
    for path in files:
        require_target(path, kind)
    told = progress or SilentProgress()
    told.start("features", sum(len(features) for features, _ in loaded), 0)
    try:
        return [_exported(path, some, kind, told) for path, some in files.items()]
    finally:
        told.end()


def extract_features(
    name: str,
    images: str | os.PathLike[str] | Sequence[str],
    *,
    folder: str | Path | None = None,
    how: FeaturisingOptions | None = None,
    **options: Any,
) -> Features:
    """Features of any images under an encoder of the zoo, in their order; labels, where they have some, come along.

    ``images`` and ``options`` are those of :func:`~zoo.datasets.open_any_images`, errors also those of
    :func:`~zoo.features.featurise`. In a ``folder`` they are kept, and not computed again. By default images that
    cannot be read are left out, as ``skipped`` says.

    >>> features = extract_features("pocket_init_rn", "shapes:classes=2,train=6,val=2,size_px=8")
    >>> features.x.shape, features.names[-1]
    ((8, 48), 'val/val/1')
    """
    from ..loading import load

    data = open_any_images(images, is_new=True, **options)
    whole = data.train if data.is_whole else join_parts([data.train, data.val])
    chosen, known = asdict(how or FeaturisingOptions(skip_corrupt=True)), load_catalogue().id_of(name)
    representation = known.partition("@")[2] or "card"
    return featurise(*load(known), whole, name=known, folder=folder, representation=representation, **chosen)


def require_target(out: Path, kind: str, *, n_encoders: int = 1) -> None:
    """Refuses, before any work, a file that could not be written, or in whose place something else would be lost."""
    if out.suffix == f".{kind}" and n_encoders > 1:
        raise _not_one_file(n_encoders, out)
    there = next(one for one in (out, *out.absolute().parents) if os.path.lexists(one))
    is_file, is_folder = there == out and out.suffix == f".{kind}", there.is_dir()
    if is_folder == is_file or not os.access(there if is_folder else there.parent, os.W_OK):
        what = "not writable" if is_folder != is_file else "a folder" if is_folder else "no folder"
        raise StoreError(f"{out} cannot be written: {there} is {what}; name a file ending with .{kind}, or a folder.")
    if is_file and _about_in(out) is None:
        raise StoreError(f"{out} is there and holds no features that were exported; name another file, or remove it.")


def _not_one_file(n: int, out: Path, why: str = "") -> QueryError:
    what = f"{n} sets of features cannot go into the one file {out}{why}"
    return QueryError(f"{what}; name a folder, which gets a file for each.")


def _exported(path: Path, parts: Sequence[Part], kind: str, progress: Progress) -> ExportResult:
    about, first = _about(parts), parts[0][0]
    try:
        if _about_in(path) != about:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as file:
                for n_written in _WRITERS[kind](parts, about, file, path):
                    progress.advance(n_written)
        size_bytes = path.stat().st_size
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror or error}); make room, and export again."
        ) from error
    n_rows, n_groups = sum(len(features) for features, _ in parts), sum(1 for _ in _blocks(parts))
    sizes: dict[str, int] = {"n_rows": n_rows, "dim": first.dim, "n_groups": n_groups, "size_bytes": size_bytes}
    return ExportResult(where=first.where, path=path, **sizes)


def _files(target: Path, parts: Sequence[Part], kind: str) -> dict[Path, Sequence[Part]]:
    """The files, and what goes into each."""
    if target.suffix == f".{kind}":
        first = parts[0][0].origin
        facts = ("encoder", "dataset", "weights_hash", "preprocess_hash", "representation", "precision")
        differ = [
            one for features, _ in parts if (one := describe_origin_differences(first, features.origin, among=facts))
        ]
        if differ or len({features.origin.split for features, _ in parts}) < len(parts):
            why = f" (they differ in {' and '.join(differ[0])})" if differ else ""
            raise _not_one_file(len(parts), target, why)
        return {target: parts}
    names = [f"{_file_name(features)}.{kind}" for features, _ in parts]
    again = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if again is not None:
        raise QueryError(f"Two sets of features would be {again} in {target}; export them into folders of their own.")
    return {target / name: [part] for name, part in zip(names, parts, strict=True)}


def _file_name(features: Features) -> str:
    origin = features.origin
    encoder = f"{origin.encoder}@{origin.representation}" if _is_named_apart(origin) else origin.encoder
    parts = (encoder, origin.dataset, origin.split, origin.images_hash[:12])
    plain = "-".join("".join(one if one.isalnum() or one in "_.+" else "_" for one in part) for part in parts)
    return plain + ("" if origin.precision == "float32" else f"-{origin.precision.replace(' ', '_')}")


def _is_named_apart(origin: Origin) -> bool:
    """Whether the id of the encoder does not say which features these are, as of maps."""
    return origin.representation not in ("card", origin.encoder.partition("@")[2])


def _about(parts: Sequence[Part]) -> dict[str, Any]:
    """What the metadata say."""
    first = parts[0][0]
    card = None if _is_named_apart(first.origin) else load_catalogue().get(first.origin.encoder)
    origins = [features.origin for features, _ in parts]
    several = {name: ", ".join(getattr(one, name) for one in origins) for name in ("split", "images_hash")}
    return {
        "format": FORMAT,
        "origin": build_origin_document(first.origin) | several,
        "pooling": None if card is None else str(card.representation.layer),
        "image_size_px": None if card is None else card.preprocess.crop_px,
        "classes": list(first.classes),
        "tags": list(first.tags),
        "target": first.target,
        "skipped": [asdict(image) for features, _ in parts for image in features.skipped],
        "shards": [shard.digest for _, index in parts for shard in index.shards],
    }


def _about_in(path: Path) -> dict[str, Any] | None:
    """The same of a file that is there; None if it holds no features that were exported."""
    with suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        if path.suffix == ".parquet":
            return dict(json.loads(pq.read_schema(path).metadata[b"zoo"]))
        np.load(path, mmap_mode="r", allow_pickle=False)
        return {name: one for name, one in json.loads(Path(f"{path}.json").read_bytes()).items() if name not in _TYPES}
    return None


_TYPES = {"label": pa.int64(), "image": pa.string(), "split": pa.string(), "content": pa.uint64(), "group": pa.uint64()}


def _columns(parts: Sequence[Part], features: Features, rows: slice) -> dict[str, Any]:
    """What is known of some images, by the name of the column."""
    labels = get_numbers(features) if features.target else features.y
    found = {
        "label": labels[rows] if features.classes or (features.y != NO_LABEL).any() else None,
        "image": list(map(_plain, features.names[rows])) or None,
        "split": [features.origin.split] * (rows.stop - rows.start) if len(parts) > 1 else None,
        "content": None if features.contents is None else features.contents[rows],
        "group": None if features.groups is None else features.groups[rows],
    }
    return {name: values for name, values in found.items() if values is not None}


def _write_parquet(parts: Sequence[Part], about: dict[str, Any], file: BinaryIO, path: Path) -> Iterator[int]:
    first = parts[0][0]
    known = _columns(parts, first, slice(0, 1))
    of_column = _TYPES | ({"label": pa.float64()} if first.target else {})
    types = [("features", pa.list_(pa.float32(), first.dim)), *((name, of_column[name]) for name in known)]
    schema = pa.schema(types, metadata={"zoo": json.dumps(about, ensure_ascii=True)})
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        for features, rows in _blocks(parts):
            x = pa.array(np.ascontiguousarray(features.x[rows], np.float32).reshape(-1))
            columns = {"features": pa.FixedSizeListArray.from_arrays(x, first.dim)} | _columns(parts, features, rows)
            writer.write_table(pa.table(columns, schema=schema), row_group_size=rows.stop - rows.start)
            yield rows.stop - rows.start


def _write_npy(parts: Sequence[Part], about: dict[str, Any], file: BinaryIO, path: Path) -> Iterator[int]:
    shape = (sum(len(features) for features, _ in parts), parts[0][0].dim)
    np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    columns: dict[str, list[Any]] = {}
    for features, rows in _blocks(parts):
        file.write(np.ascontiguousarray(features.x[rows], "<f4").tobytes())
        for name, values in _columns(parts, features, rows).items():
            columns.setdefault(name, []).extend(np.asarray(values).tolist())
        yield rows.stop - rows.start
    path.unlink(missing_ok=True)  # so that a stop leaves no rows next to the names of others
    with replace_file(Path(f"{path}.json")) as beside:
        beside.write(json.dumps(about | columns, ensure_ascii=True).encode())


_WRITERS: dict[str, Writing] = {"parquet": _write_parquet, "npy": _write_npy}


def _blocks(parts: Sequence[Part]) -> Iterator[tuple[Features, slice]]:
    """The rows of each shard that has some."""
    for features, index in parts:
        ends = list(accumulate(shard.n_rows for shard in index.shards))
        yield from ((features, slice(*ends)) for ends in zip([0, *ends], ends, strict=False) if ends[0] < ends[1])


def _plain(name: str) -> str:
    """A name of a file, which may hold any bytes, as text."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
