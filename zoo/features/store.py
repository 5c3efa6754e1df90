"""Features on disk: the folder that :class:`Features` are saved to and loaded from, its index, and hashes of origins.

``index.json`` makes a folder of shards complete. It is written last and never changed: format, origin, classes, the
shards with their sizes and hashes, the images that were skipped, hashes of the content and of the group of each other
image if they are known, the tags of a multi-label set, and a checksum of all this. ``run.json`` is there during a run:
its origin, the size of its shards, and the batches and threads of workers, which move last bits. Of several processes
that finish one folder, the first to write the index is right, and the others read it.

Hashes of an encoder's weights and of a preprocessing are part of the origin.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar, overload

from ..datasets.images import compute_split_groups
from ..errors import DataError, OtherFeatures, PlaceError, QueryError
from ..optional import require_extra
from ..storage import Location, resolve_place
from ..weights.tensors import hash_weights as hash_weights
from .origin import (
    FACTS,
    Origin,
    build_origin_document,
    compute_run_hash,
    describe_origin_differences,
    get_stored_type,
    parse_origin,
)
from .shards import (
    FORMAT,
    STORED,
    FeatureShard,
    ImageNames,
    Rows,
    ShardEntry,
    Skipped,
    hash_shard_file,
    is_shard_name,
    list_shard_files,
    read_shard,
    read_shard_labels,
    write_shard,
)

with require_extra("models", needed_for="Working with features"):
    import numpy as np
    import torch

INDEX, RUN = "index.json", "run.json"

_STALE_S = 3_600.0  # after which a half-written shard is abandoned
_ORIGIN_BYTES = 1 << 14  # of an index, which have its origin
_N_REQUESTS = 16  # to an address at once
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedShard:
    """A shard of an unfinished run."""

    listed: ShardEntry
    dim: int  # 0 if it has no rows
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureIndex:
    """What a complete folder holds."""

    origin: Origin
    classes: tuple[str, ...]
    dim: int
    shard_size: int
    shards: tuple[ShardEntry, ...]
    skipped: tuple[Skipped, ...]
    contents: str | None = None  # base64 of uint64, little-endian: a hash of what is in the image of each row
    groups: str | None = None  # the same of the name of its group; left out of the file where groups are not known
    tags: tuple[str, ...] = ()  # of a multi-label set; left out of the file where there are none
    target: str = ""  # what labels measure that are numbers; left out of the file where they are classes


_OPTIONAL = ("groups", "tags", "target")


def encode_contents(contents: np.ndarray | None) -> str | None:
    """Hashes of the content of images, or of their groups, uint64 (n_rows,), as base64 for an index."""
    return None if contents is None else base64.b64encode(contents.astype("<u8").tobytes()).decode()


def decode_contents(contents: str | None) -> np.ndarray | None:
    """Hashes of the content of images, uint64 (n_rows,), from an index."""
    return None if contents is None else np.frombuffer(base64.b64decode(contents), "<u8").astype(np.uint64)


def write_index(place: Location, index: FeatureIndex, *, replacing: bool = False) -> bool:
    """Makes a place of features complete; False if another process did that first."""
    facts = {"format": FORMAT, **asdict(index), "origin": build_origin_document(index.origin)}
    facts = {name: fact for name, fact in facts.items() if fact or name not in _OPTIONAL}
    text = json.dumps({**facts, "checksum": _checksum(facts)}, indent=1, ensure_ascii=True)
    if replacing:
        place.write(INDEX, text.encode())
        return True
    return place.write_new(INDEX, text.encode())


def read_index(place: Location) -> FeatureIndex | None:
    """The index of a place of features; None if the place or its index does not exist."""
    facts = _read(place, INDEX)
    if facts is None:
        return None
    try:
        if facts["format"] != FORMAT:
            raise DataError(
                f"{place.shown} holds no features that this version reads (format {facts['format']!r}, expected "
                f"{FORMAT!r}); compute the features again."
            )
        if facts.pop("checksum") != _checksum(facts):
            raise ValueError("its checksum differs")
        return FeatureIndex(
            origin=parse_origin(facts["origin"]),
            classes=tuple(facts["classes"]),
            dim=facts["dim"],
            shard_size=facts["shard_size"],
            shards=tuple(ShardEntry(**shard) for shard in facts["shards"]),
            skipped=tuple(Skipped(**image) for image in facts["skipped"]),
            contents=facts.get("contents"),  # older folders have none
            groups=facts.get("groups"),
            tags=tuple(facts.get("tags", ())),
            target=facts.get("target", ""),
        )
    except DataError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise make_damage_error(place, INDEX, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that did not end."""

    origin: Origin
    shard_size: int
    way: Mapping[str, Any] | None  # by which workers compute; None: one process with all its threads


def claim(place: Location, origin: Origin, *, shard_size: int, way: Mapping[str, Any] | None = None) -> int:
    """Begins a run in a place, or continues the one that is there; returns the size of its shards.

    ``way`` are settings of workers that move last bits, by their names in :data:`WAYS`. Shards of two ways would be
    whole and right, but which of them an index lists would depend on who was first.
    """
    facts = {"format": FORMAT, "origin": build_origin_document(origin), "shard_size": shard_size, "way": way}
    for _ in range(2):  # a process that ends just now removes the file
        begun = find_unfinished_run(place)
        if begun is not None:
            break
        if place.write_new(RUN, json.dumps(facts, indent=1).encode()):
            return shard_size
    else:
        return shard_size
    require_same_origin(place, begun.origin, origin)
    require_same_way(place, begun.way, way)
    return begun.shard_size


def find_unfinished_run(place: Location) -> Begun | None:
    """The run of a place that did not end; None if there is none."""
    facts = _read(place, RUN)
    if facts is None:
        return None
    try:
        origin, size, way = parse_origin(facts["origin"]), facts["shard_size"], facts.get("way")  # older ones have none
        if type(size) is not int or size < 1:
            raise ValueError(f"its shard_size is {size!r}")
        if way is not None and way.keys() != WAYS.keys():
            raise ValueError("its way is not that of workers")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise make_damage_error(place, RUN, error) from error
    return Begun(origin=origin, shard_size=size, way=way)


WAYS = {"batch_size": "batches of {} image{}", "n_threads": "{} thread{} a worker", "stored": "{} stored"}
"""What moves last bits of features on workers, in words."""


def require_same_way(place: Location, there: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> None:
    """Refuses to go on with features that were begun with other batches or threads, which round otherwise."""
    if there == wanted:
        return
    if wanted is None:
        raise DataError(
            f"The features in {_called(place)} were begun on workers; go on with the command that began them, which "
            "zoo runs ls has, name another folder, or remove this one."
        )
    if there is None:
        raise QueryError(
            f"The features in {place.shown} were begun by one process with all its threads; end them by the same "
            "command without workers, name another place, or remove these features."
        )
    some = [(WAYS[one], there[one], wanted[one]) for one in wanted if there[one] != wanted[one]]
    begun, got = (" and ".join(one[0].format(one[k], "s" * (one[k] != 1)) for one in some) for k in (1, 2))
    raise QueryError(
        f"The features in {place.shown} were begun with {begun}, got {got}; ask for the same, name another "
        "place, or remove these features."
    )


def complete_origin(place: Location) -> Origin | None:
    """The origin of complete features, of which the beginning of the index is read; None if there is no index."""
    head = place.read(INDEX, 0, _ORIGIN_BYTES)
    if head is None:
        return None
    text = head.decode("ascii", "replace")  # as which an index is written
    try:
        facts, _ = json.JSONDecoder().raw_decode(text, text.index("{", text.index('"origin"')))
        return parse_origin(facts)
    except ValueError as error:
        raise make_damage_error(place, INDEX, error) from error


def require_same_origin(place: Location, there: Origin, wanted: Origin) -> None:
    """Refuses to mix features in one place; facts of ``wanted`` that are empty are not known yet."""
    known = tuple(name for name in FACTS if getattr(wanted, name))
    if different := describe_origin_differences(there, wanted, among=known):
        raise OtherFeatures(
            f"{_called(place)} holds other features than those asked for: they differ in "
            f"{' and '.join(different)}; name another folder, or remove this one to start again."
        )


def find_finished_shards(
    place: Location,
    origin: Origin,
    *,
    n_images: int,
    shard_size: int,
    trusted: Mapping[int, FinishedShard] | None = None,
) -> dict[int, FinishedShard]:
    """The whole shards of a run, by number: on a disk every byte of them is read, at an address their headers.

    A shard that is damaged, of another run, or of another number of images does not count, and is computed again. At
    an address the hash in its name is trusted, which whoever reads the rows compares with the bytes; so are shards
    that this process wrote, ``trusted`` by their numbers.
    """
    run = compute_run_hash(origin, shard_size=shard_size)
    files = list_shard_files(place)

    def finished(file: str) -> tuple[int, FinishedShard] | None:
        number, beginning, size = files[file]
        if (own := (trusted or {}).get(number)) is not None and own.listed.file == file:
            return number, own
        n_expected = min(shard_size, n_images - number * shard_size)
        try:
            shard = read_shard(place, file, size=size)
            if (shard.run, shard.number) != (run, number) or shard.n_rows + len(shard.skipped) != n_expected:
                return None
            digest = shard.digest if place.folder is None else hash_shard_file(place, file)
        except (OSError, PlaceError, ValueError) as error:
            if place.folder is None and isinstance(error, PlaceError):  # a network that fails damages no shard
                raise
            return None
        if not digest or not digest.startswith(beginning):
            return None
        listed = ShardEntry(file=file, n_rows=shard.n_rows, size_bytes=shard.size_bytes, digest=digest)
        return number, FinishedShard(listed=listed, dim=shard.dim, skipped=shard.skipped)

    whole: dict[int, FinishedShard] = {}
    for found in _of_each(place, finished, list(files)):
        if found is not None:
            whole.setdefault(*found)
    return whole


def check_listed_shards(place: Location, index: FeatureIndex) -> list[FeatureShard]:
    """The shards of an index, checked against its sizes and the hash of its origin; their rows are not read."""
    run = compute_run_hash(index.origin, shard_size=index.shard_size)
    sizes = {} if place.folder is not None else place.sizes()

    def checked(listed: ShardEntry) -> FeatureShard:
        try:
            if not is_shard_name(listed.file):
                raise ValueError("no shard is called so")
            shard = read_shard(place, listed.file, size=sizes.get(listed.file))
            if (shard.size_bytes, shard.n_rows) != (listed.size_bytes, listed.n_rows):
                raise ValueError(f"it has {shard.size_bytes:,} bytes instead of {listed.size_bytes:,}")
            if shard.run != run or (shard.n_rows and shard.dim != index.dim):
                raise ValueError("it belongs to other features")
            if shard.arrays["x"].dtype != STORED[get_stored_type(index.origin.precision)]:
                raise ValueError("its numbers are of another type than its origin says")
        except (OSError, ValueError) as error:
            raise make_damage_error(place, listed.file, error) from error
        return replace(shard, digest=listed.digest)

    return _of_each(place, checked, index.shards)


def require_intact(place: Location, index: FeatureIndex) -> None:
    """Reads every byte of every shard again, and refuses one whose hash differs."""

    def compare(listed: ShardEntry) -> None:
        if place.size(listed.file) is None:
            raise make_damage_error(place, listed.file, ValueError("No such file"))
        if hash_shard_file(place, listed.file) != listed.digest:
            raise make_damage_error(place, listed.file, ValueError("its hash differs"))

    _of_each(place, compare, index.shards)


def _of_each(place: Location, ask: Callable[[_Asked], _Answer], several: Sequence[_Asked]) -> list[_Answer]:
    """Answers in order; at an address many are asked for at once, for each takes as long as the network."""
    if place.folder is not None or len(several) < 2:
        return [ask(one) for one in several]
    with ThreadPoolExecutor(min(_N_REQUESTS, len(several)), thread_name_prefix="zoo-reading") as threads:
        return list(threads.map(ask, several))


def make_damage_error(place: Location, name: str, error: Exception) -> DataError:
    """The error about a damaged file of features."""
    reason = (error.strerror or error) if isinstance(error, OSError) else error
    return DataError(
        f"The features in {place.shown} are damaged ({name}: {reason}); restore the file, or remove the folder and "
        "compute the features again."
    )


def _read(place: Location, name: str) -> dict[str, Any] | None:
    content = place.read(name)
    if content is None:
        return None
    try:
        facts = json.loads(content)
        if not isinstance(facts, dict):
            raise ValueError("it is no table")
    except ValueError as error:
        raise make_damage_error(place, name, error) from error
    return facts


def _called(place: Location) -> str:
    return f"The {'place' if place.folder is None else 'folder'} {place.shown}"


def _checksum(facts: dict[str, Any]) -> str:
    return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


SHARD_SIZE = 1024
"""Images per shard, which a kill may lose: 8 MB at 2,048 dimensions, and a multiple of usual batch sizes."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of one image set under one encoder.

    Attributes
    ----------
    x : float32 array or Rows, shape (n_images, dim)
        One row per image; :class:`Rows` where they stay on the disk, whose slices are arrays.
    y : int64 array, shape (n_images,)
        The labels.
    origin : Origin
    names : sequence of str
        Of the images; empty if unknown.
    classes : tuple of str
        Names of the labels; empty if unknown.
    skipped : tuple of Skipped
        Images of the set that could not be read and have no row.
    folder : Path or None
        From where they were loaded, if that is a folder.
    where : str
        From where they were loaded, as it may be printed; empty if they are in memory alone.
    contents : uint64 array, shape (n_images,), or None
        A hash of what is in each image, as :class:`~zoo.datasets.ImageSet` has it; copies have the same one. None
        where it is not known.
    groups : uint64 array, shape (n_images,), or None
        A hash of the name of the group of each image, such as its patient; None where groups are not known.
    tags : tuple of str
        Names of the labels of a multi-label set, as :class:`~zoo.datasets.ImageSet` has them; else empty.
    target : str
        What labels that are numbers measure, as :class:`~zoo.datasets.ImageSet` has it; else empty.
    """

    x: np.ndarray | Rows
    y: np.ndarray
    origin: Origin
    names: Sequence[str] = ()
    classes: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    folder: Path | None = None
    where: str = ""
    contents: np.ndarray | None = None
    groups: np.ndarray | None = None
    tags: tuple[str, ...] = ()
    target: str = ""

    def __post_init__(self) -> None:
        x, y = self.x, self.y
        if x.dtype != np.float32 or x.ndim != 2 or y.dtype != np.int64 or y.shape != x.shape[:1]:
            raise DataError(
                f"The features of {self.origin.dataset!r} have x as {x.dtype} {x.shape} and y as {y.dtype} {y.shape}; "
                "expected float32 (n, dim) and int64 (n,)."
            )
        if len(self.names) not in (0, len(y)):
            raise DataError(
                f"The features of {self.origin.dataset!r} have {len(y):,} rows and {len(self.names):,} names of "
                "images; expected one a row."
            )
        for what, hashes in (("contents", self.contents), ("groups", self.groups)):
            if hashes is not None and (hashes.dtype, hashes.shape) != (np.dtype(np.uint64), y.shape):
                raise DataError(
                    f"The features of {self.origin.dataset!r} have {len(y):,} rows and {what} of images as "
                    f"{hashes.dtype} {hashes.shape}; expected uint64, one a row."
                )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """Dimensions."""
        return int(self.x.shape[1])

    @property
    def together(self) -> np.ndarray | None:
        """Which images belong on one side of a split (copies, groups); see zoo.datasets.images.compute_split_groups."""
        return compute_split_groups(self.contents, self.groups)

    def batches(self, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and labels in order, ``n_rows`` at a time: float32 (n_rows, dim) and int64 (n_rows,)."""
        for start in range(0, len(self), n_rows):
            yield self.x[start : start + n_rows], self.y[start : start + n_rows]

    @overload
    def save(self, where: Path, *, replace: bool = False, shard_size: int = SHARD_SIZE) -> Path: ...
    @overload
    def save(
        self, where: str | Path | Location, *, replace: bool = False, shard_size: int = SHARD_SIZE
    ) -> str | Path | Location: ...
    def save(
        self, where: str | Path | Location, *, replace: bool = False, shard_size: int = SHARD_SIZE
    ) -> str | Path | Location:
        """Writes features to a folder or an address; they are complete at its end or not at all.

        Parameters
        ----------
        where : path, str or Location
            A folder, made if it does not exist, or an address such as ``s3://bucket/features``, for these features
            alone. If it holds the same features, nothing is written.
        replace : bool
            Put these in place of other features that are there, which are readable until these are complete.
        shard_size : int
            Rows per shard.

        Returns
        -------
        path, str or Location
            ``where``: a folder as a path.

        Raises
        ------
        DataError
            If it cannot be written, or holds other features; says why.
        """
        place = resolve_place(where)
        before = None if replace else read_index(place)
        if before is not None:
            require_same_origin(place, before.origin, self.origin)
            shard_size = before.shard_size
        elif not replace and place.size(RUN) is not None:
            raise DataError(f"A run that did not end has its shards in {place.shown}; end it, or name another folder.")
        written: list[str] = []  # that were not there before
        try:
            try:
                index = self._written(place, shard_size, written)
                if before is not None and (before.shards, before.origin) != (index.shards, index.origin):
                    raise DataError(
                        f"{_called(place)} holds features of the same origin but with other numbers, as another "
                        "machine or library rounds them; name another folder."
                    )
            except BaseException:
                for file in written:
                    place.remove(file)
                raise
            if before is None and not write_index(place, index, replacing=replace):
                raise DataError(f"Another process has just written features to {place.shown}; name another folder.")
            if replace:
                tidy(place, index)
        except PlaceError as error:
            raise DataError(
                f"The features could not be written to {place.shown} ({error.reason}); nothing was changed, make "
                "room or make it writable."
            ) from error
        return place.folder or where

    def _written(self, place: Location, shard_size: int, written: list[str]) -> FeatureIndex:
        """Writes the shards, and adds to ``written`` the files that did not exist before."""
        run = compute_run_hash(self.origin, shard_size=shard_size)
        there = list_shard_files(place)
        stored = get_stored_type(self.origin.precision)
        listed: list[ShardEntry] = []
        for number, start in enumerate(range(0, len(self), shard_size)):
            rows = slice(start, start + shard_size)
            x, y, names = self.x[rows], self.y[rows], self.names[rows]
            listed.append(write_shard(place, x, y, names, run=run, number=number, stored=stored))
            if listed[-1].file not in there:
                written.append(listed[-1].file)
        return FeatureIndex(
            origin=self.origin,
            classes=self.classes,
            dim=self.dim,
            shard_size=shard_size,
            shards=tuple(listed),
            skipped=self.skipped,
            contents=encode_contents(self.contents),
            groups=encode_contents(self.groups),
            tags=self.tags,
            target=self.target,
        )


def load_features(where: str | Path | Location) -> Features:
    """The features of a complete folder or address; the rows stay there and are read as they are asked for.

    Sizes of all files and the hash of the origin are checked; :func:`verify` reads every byte. From an address a shard
    is fetched when its rows are first asked for, compared with its hash, and kept below ``$ZOO_CACHE/features``: what
    was not used for longest goes when that exceeds ``$ZOO_FEATURES_CACHE_GB`` gigabytes (50).

    Parameters
    ----------
    where : path, str or Place
        A folder, or an address that fsspec understands, such as ``s3://bucket/features``.

    Raises
    ------
    DataError
        If the features are absent, unfinished, damaged, or none; says which.
    PlaceError
        If an address cannot be read.
    """
    place = resolve_place(where)
    index = read_index(place)
    if index is None:
        raise DataError(_why_none(place))
    shards = check_listed_shards(place, index)
    n_names = sum(shard.arrays["names"].shape[0] for shard in shards)
    return Features(
        x=Rows(shards, dim=index.dim),
        y=read_shard_labels(shards),
        origin=index.origin,
        names=ImageNames(shards) if n_names else (),
        classes=index.classes,
        skipped=index.skipped,
        folder=place.folder,
        where=place.shown,
        contents=decode_contents(index.contents),
        groups=decode_contents(index.groups),
        tags=index.tags,
        target=index.target,
    )


def verify(where: str | Path | Location) -> Features:
    """Reads every byte of the features in a folder or at an address again, and gives them.

    Raises
    ------
    DataError
        If it is not what was written; names the file.
    """
    place = resolve_place(where)
    features = load_features(place)
    index = read_index(place)
    assert index is not None  # or there were no features
    require_intact(place, index)
    return features


def tidy(place: Location, index: FeatureIndex) -> None:
    """Removes what complete features do not need: the notes of the run, shards that the index does not list, halves."""
    listed = {shard.file for shard in index.shards}
    place.remove(RUN)
    for file in list_shard_files(place):
        if file not in listed:
            place.remove(file)
    for half in () if place.folder is None else place.folder.glob(".shard-*.tmp"):  # of killed processes
        with suppress(FileNotFoundError):
            if time.time() - half.stat().st_mtime > _STALE_S:
                half.unlink()


def publish(place: Location, index: FeatureIndex) -> None:
    """Makes a place of features complete by this index, or that of a process that was faster, and tidies it."""
    write_index(place, index)
    published = read_index(place)
    if published is not None:
        tidy(place, published)


def _why_none(place: Location) -> str:
    folder = place.folder
    if place.size(RUN) is not None:
        return f"The features in {place.shown} are unfinished; run the same command again to go on where it was."
    if folder is not None and folder.is_file():
        return f"{folder} is a file and holds no features of this version; expected a folder with {INDEX}."
    if folder is not None and folder.is_dir():
        return f"The folder {folder} holds no features of this zoo ({INDEX} is missing)."
    where = f"are no features at {place.shown}" if folder is None else f"is no features folder {folder}"
    return f"There {where}; write some with Features.save or zoo features."


_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LIBRARIES = ("builtins", "timm", "torch", "torchvision", "zoo")  # the name of a class determines its code
_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict)


def hash_network_code(network: torch.nn.Module) -> str:
    """Of what a network does beyond its tensors and its repr.

    That is functions that it holds, such as a pooling, and the code and plain attributes of modules that are of no
    library. Code is that of this version of Python; what it calls is known by name only.
    """
    digest = blake2b(digest_size=16)
    for name, module in network.named_modules():
        for text in _texts_of(module):
            digest.update(f"{name}\0{_ADDRESS.sub('', text)}\0".encode())
    return digest.hexdigest()


def _texts_of(module: torch.nn.Module) -> Iterator[str]:
    unknown = [kind for kind in type(module).__mro__ if kind.__module__.partition(".")[0] not in _LIBRARIES]
    for kind in unknown:
        yield f"{kind.__module__}.{kind.__qualname__}"
        yield from (_function_text(one) for _, one in sorted(vars(kind).items()) if isinstance(one, FunctionType))
    for name, value in sorted(vars(module).items()):
        if isinstance(value, FunctionType | MethodType | partial):
            yield f"{name} {_callable_text(value)}"
        elif unknown and isinstance(value, _PLAIN) and not name.startswith("_") and name != "training":
            yield f"{name} {value!r}"


def _callable_text(one: object) -> str:
    if isinstance(one, partial):
        return f"{_callable_text(one.func)} {one.args!r} {sorted(one.keywords.items())!r}"
    if isinstance(one, MethodType):
        return _callable_text(one.__func__)
    return _function_text(one) if isinstance(one, FunctionType) else repr(one)


def hash_preprocess(preprocess: Callable[[Any], torch.Tensor]) -> str:
    """Of the repr of a preprocessing, which for torchvision's transforms has all settings; of a function its code.

    The code of a function is that of this version of Python, with its defaults and what it closes over; what it calls
    is known by name only. DataError if the repr has an address in memory in place of the settings.
    """
    text = _function_text(preprocess) if isinstance(preprocess, FunctionType) else repr(preprocess)
    if _ADDRESS.search(text):
        raise DataError(
            f"The preprocessing {text[:200]!r} does not say what it does, so that its features could be mistaken for "
            "those of another; give it a __repr__ with all its settings, or make it a plain function."
        )
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _function_text(function: FunctionType) -> str:
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    parts = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items(), *held]
    return f"{function.__module__}.{function.__qualname__} {_code_text(function.__code__)} {parts!r}"


def _code_text(code: CodeType) -> str:
    """What a function does, without where its source is."""
    return f"{code.co_code.hex()} {code.co_names} {[_constant_text(part) for part in code.co_consts]}"


def _constant_text(part: object) -> str:
    if isinstance(part, CodeType):
        return _code_text(part)
    return repr(sorted(map(repr, part))) if isinstance(part, frozenset) else repr(part)  # a set has no order
