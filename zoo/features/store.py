"""Features on disk: the folder that :class:`Features` are saved to and loaded from, its index, and hashes of origins.

``index.json`` makes a folder of shards complete. It is written last and never changed: format, origin, classes, the
shards with their sizes and hashes, the images that were skipped, hashes of the content and of the group of each other
image if they are known, the tags of a multi-label set, and a checksum of all this. ``run.json`` is there during a run:
its origin and the size of its shards. Of several processes that finish one folder, the first to write the index is
right, and the others read it.

Hashes of an encoder's weights and of a preprocessing are part of the origin.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from ..datasets.groups import together
from ..errors import DataError
from ..files import replaced
from ..optional import requires_extra
from .origin import Origin, differences, origin_from, run_hash
from .shards import (
    FORMAT,
    Listed,
    Names,
    Rows,
    Shard,
    Skipped,
    file_digest,
    labels_of,
    read_shard,
    shard_files,
    write_shard,
)

with requires_extra("models", needed_for="Working with features"):
    import numpy as np
    import torch

INDEX, RUN = "index.json", "run.json"

_TEMPORARY = re.compile(r"\.(shard-|index|run).*-[0-9a-f]{16}\.tmp")  # as zoo.files names them
_STALE_S = 3_600.0  # after which a shard that is half written is abandoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A shard of an unfinished run."""

    listed: Listed
    dim: int  # 0 if it has no rows
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What a complete folder holds."""

    origin: Origin
    classes: tuple[str, ...]
    dim: int
    shard_size: int
    shards: tuple[Listed, ...]
    skipped: tuple[Skipped, ...]
    contents: str | None = None  # base64 of uint64, little-endian: a hash of what is in the image of each row
    groups: str | None = None  # the same of the name of its group; left out of the file where groups are not known
    tags: tuple[str, ...] = ()  # of a multi-label set; left out of the file where there are none


_OPTIONAL = ("groups", "tags")


def encode_contents(contents: np.ndarray | None) -> str | None:
    """Hashes of the content of images, or of their groups, uint64 (n_rows,), as base64 for an index."""
    return None if contents is None else base64.b64encode(contents.astype("<u8").tobytes()).decode()


def decode_contents(contents: str | None) -> np.ndarray | None:
    """Hashes of the content of images, uint64 (n_rows,), from an index."""
    return None if contents is None else np.frombuffer(base64.b64decode(contents), "<u8").astype(np.uint64)


def write_index(folder: Path, index: Index, *, replacing: bool = False) -> bool:
    """Makes a folder complete; False if another process did that first."""
    facts = {"format": FORMAT, **asdict(index)}
    facts = {name: fact for name, fact in facts.items() if fact or name not in _OPTIONAL}
    text = json.dumps({**facts, "checksum": _checksum(facts)}, indent=1, ensure_ascii=True)
    try:
        with replaced(folder / INDEX, must_be_new=not replacing) as file:
            file.write(text.encode())
    except FileExistsError:
        if not (folder / INDEX).is_file():
            raise
        return False
    return True


def read_index(folder: Path) -> Index | None:
    """The index of a folder; None if the folder or its index does not exist."""
    facts = _read(folder / INDEX)
    if facts is None:
        return None
    try:
        if facts["format"] != FORMAT:
            raise DataError(
                f"{folder} holds no features that this version reads (format {facts['format']!r}, expected "
                f"{FORMAT!r}); compute the features again."
            )
        if facts.pop("checksum") != _checksum(facts):
            raise ValueError("its checksum differs")
        return Index(
            origin=origin_from(facts["origin"]),
            classes=tuple(facts["classes"]),
            dim=facts["dim"],
            shard_size=facts["shard_size"],
            shards=tuple(Listed(**shard) for shard in facts["shards"]),
            skipped=tuple(Skipped(**image) for image in facts["skipped"]),
            contents=facts.get("contents"),  # older folders have none
            groups=facts.get("groups"),
            tags=tuple(facts.get("tags", ())),
        )
    except DataError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(folder, INDEX, error) from error


def claim(folder: Path, origin: Origin, *, shard_size: int) -> int:
    """Begins a run in a folder, or continues the one that is there; returns the size of its shards."""
    text = json.dumps({"format": FORMAT, "origin": asdict(origin), "shard_size": shard_size}, indent=1)
    for _ in range(2):  # a process that ends just now removes the file
        facts = _read(folder / RUN)
        if facts is not None:
            break
        try:
            with replaced(folder / RUN, must_be_new=True) as file:
                file.write(text.encode())
            return shard_size
        except FileExistsError:
            if not (folder / RUN).is_file():
                raise
    else:
        return shard_size
    try:
        begun, size = origin_from(facts["origin"]), facts["shard_size"]
        if type(size) is not int or size < 1:
            raise ValueError(f"its shard_size is {size!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(folder, RUN, error) from error
    require_same_origin(folder, begun, origin)
    return size


def require_same_origin(folder: Path, there: Origin, wanted: Origin) -> None:
    """Refuses to mix features in one folder."""
    if different := differences(there, wanted):
        raise DataError(
            f"The folder {folder} holds other features than those asked for: they differ in "
            f"{' and '.join(different)}; name another folder, or remove this one to start again."
        )


def finished_shards(folder: Path, origin: Origin, *, n_images: int, shard_size: int) -> dict[int, Finished]:
    """The whole shards of a run, by number; every byte of them is read.

    A shard that is damaged, of another run, or of another number of images does not count, and is computed again.
    """
    run = run_hash(origin, shard_size=shard_size)
    whole: dict[int, Finished] = {}
    for number, beginning, path in shard_files(folder):
        n_expected = min(shard_size, n_images - number * shard_size)
        try:
            shard = read_shard(path)
            if (shard.run, shard.number) != (run, number) or shard.n_rows + len(shard.skipped) != n_expected:
                continue
            digest = file_digest(path)
        except (OSError, ValueError):
            continue
        if digest.startswith(beginning):
            listed = Listed(file=path.name, n_rows=shard.n_rows, size_bytes=shard.size_bytes, digest=digest)
            whole.setdefault(number, Finished(listed=listed, dim=shard.dim, skipped=shard.skipped))
    return whole


def listed_shards(folder: Path, index: Index) -> list[Shard]:
    """The shards of an index, checked against its sizes and the hash of its origin; their rows are not read."""
    run = run_hash(index.origin, shard_size=index.shard_size)
    shards = []
    for listed in index.shards:
        try:
            shard = read_shard(folder / listed.file)
            if (shard.size_bytes, shard.n_rows) != (listed.size_bytes, listed.n_rows):
                raise ValueError(f"it has {shard.size_bytes:,} bytes instead of {listed.size_bytes:,}")
            if shard.run != run or (shard.n_rows and shard.dim != index.dim):
                raise ValueError("it belongs to other features")
        except (OSError, ValueError) as error:
            raise damaged(folder, listed.file, error) from error
        shards.append(shard)
    return shards


def require_intact(folder: Path, index: Index) -> None:
    """Reads every byte of every shard again, and refuses one whose hash differs."""
    for listed in index.shards:
        try:
            if file_digest(folder / listed.file) != listed.digest:
                raise ValueError("its hash differs")
        except (OSError, ValueError) as error:
            raise damaged(folder, listed.file, error) from error


def damaged(folder: Path, name: str, error: Exception) -> DataError:
    """The error about a damaged file of a folder."""
    reason = (error.strerror or error) if isinstance(error, OSError) else error
    return DataError(
        f"The features in {folder} are damaged ({name}: {reason}); restore the file, or remove the folder and compute "
        "the features again."
    )


def remove_leftovers(folder: Path) -> None:
    """Removes half-written files of killed processes."""
    for path in folder.glob(".*.tmp"):
        try:
            stale = time.time() - path.stat().st_mtime > _STALE_S
        except FileNotFoundError:  # its process has just finished it
            continue
        if stale and _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        facts = json.loads(path.read_bytes())
        if not isinstance(facts, dict):
            raise ValueError("it is no table")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise damaged(path.parent, path.name, error) from error
    return facts


def _checksum(facts: dict[str, Any]) -> str:
    return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


SHARD_SIZE = 1024
"""Images a shard, which a kill may lose: 8 MB at 2,048 dimensions, and a multiple of usual batch sizes."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of one image set under one encoder.

    Attributes
    ----------
    x : float32 array or Rows, shape (n_images, dim)
        One row an image; :class:`Rows` where they stay on the disk, whose slices are arrays.
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
        From where they were loaded.
    contents : uint64 array, shape (n_images,), or None
        A hash of what is in each image, as :class:`~zoo.datasets.ImageSet` has it; copies have the same one. None
        where it is not known.
    groups : uint64 array, shape (n_images,), or None
        A hash of the name of the group of each image, such as its patient; None where groups are not known.
    tags : tuple of str
        Names of the labels of a multi-label set, as :class:`~zoo.datasets.ImageSet` has them; else empty.
    """

    x: np.ndarray | Rows
    y: np.ndarray
    origin: Origin
    names: Sequence[str] = ()
    classes: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    folder: Path | None = None
    contents: np.ndarray | None = None
    groups: np.ndarray | None = None
    tags: tuple[str, ...] = ()

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
        """Which images belong on one side of a split, as copies and groups do; see zoo.datasets.images.together."""
        return together(self.contents, self.groups)

    def batches(self, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and labels in order, ``n_rows`` at a time: float32 (n_rows, dim) and int64 (n_rows,)."""
        for start in range(0, len(self), n_rows):
            yield self.x[start : start + n_rows], self.y[start : start + n_rows]

    def save(self, folder: str | Path, *, replace: bool = False, shard_size: int = SHARD_SIZE) -> Path:
        """Writes a features folder; it is complete at its end or not at all.

        Parameters
        ----------
        folder : path
            Made if it does not exist. If it holds the same features, nothing is written.
        replace : bool
            Put these in place of other features that are there, which are readable until these are complete.
        shard_size : int
            Rows a shard.

        Raises
        ------
        DataError
            If it cannot be written, or holds other features; says why.
        """
        target = Path(folder)
        before = None if replace else read_index(target)
        if before is not None:
            require_same_origin(target, before.origin, self.origin)
            shard_size = before.shard_size
        elif not replace and (target / RUN).exists():
            raise DataError(f"A run that did not end has its shards in {target}; end it, or name another folder.")
        written: list[Path] = []  # that were not there before
        try:
            try:
                index = self._written(target, shard_size, written)
                if before is not None and (before.shards, before.origin) != (index.shards, index.origin):
                    raise DataError(
                        f"The folder {target} holds features of the same origin but with other numbers, as another "
                        "machine or library rounds them; name another folder."
                    )
            except BaseException:
                for path in written:
                    path.unlink(missing_ok=True)
                raise
            if before is None and not write_index(target, index, replacing=replace):
                raise DataError(f"Another process has just written features to {target}; name another folder.")
            if replace:
                tidy(target, index)
        except OSError as error:
            raise DataError(
                f"The features could not be written to {target} ({error.strerror or error}); nothing was changed, make "
                "room or make it writable."
            ) from error
        return target

    def _written(self, target: Path, shard_size: int, written: list[Path]) -> Index:
        """Writes the shards, and adds to ``written`` the files that did not exist before."""
        run = run_hash(self.origin, shard_size=shard_size)
        there = set(target.glob("shard-*.safetensors"))
        listed: list[Listed] = []
        for number, start in enumerate(range(0, len(self), shard_size)):
            rows = slice(start, start + shard_size)
            listed.append(write_shard(target, self.x[rows], self.y[rows], self.names[rows], run=run, number=number))
            if target / listed[-1].file not in there:
                written.append(target / listed[-1].file)
        return Index(
            origin=self.origin,
            classes=self.classes,
            dim=self.dim,
            shard_size=shard_size,
            shards=tuple(listed),
            skipped=self.skipped,
            contents=encode_contents(self.contents),
            groups=encode_contents(self.groups),
            tags=self.tags,
        )


def load_features(folder: str | Path) -> Features:
    """The features of a complete folder; the rows stay on the disk and are read as they are asked for.

    Sizes of all files and the hash of the origin are checked; :func:`verify` reads every byte.

    Raises
    ------
    DataError
        If the folder is absent, unfinished, damaged, or holds no features; says which.
    """
    source = Path(folder)
    index = read_index(source)
    if index is None:
        raise DataError(_why_none(source))
    shards = listed_shards(source, index)
    n_names = sum(shard.arrays["names"].shape[0] for shard in shards)
    return Features(
        x=Rows(shards, dim=index.dim),
        y=labels_of(shards),
        origin=index.origin,
        names=Names(shards) if n_names else (),
        classes=index.classes,
        skipped=index.skipped,
        folder=source,
        contents=decode_contents(index.contents),
        groups=decode_contents(index.groups),
        tags=index.tags,
    )


def verify(folder: str | Path) -> Features:
    """Reads every byte of a features folder again, and gives its features.

    Raises
    ------
    DataError
        If it is not what was written; names the file.
    """
    features = load_features(folder)
    index = read_index(Path(folder))
    assert index is not None  # or there were no features
    require_intact(Path(folder), index)
    return features


def tidy(folder: Path, index: Index) -> None:
    """Removes what a complete folder does not need: the notes of the run, and shards that the index does not list."""
    listed = {shard.file for shard in index.shards}
    (folder / RUN).unlink(missing_ok=True)
    for _, _, path in shard_files(folder):
        if path.name not in listed:
            path.unlink(missing_ok=True)


def _why_none(folder: Path) -> str:
    if (folder / RUN).exists():
        return f"The features in {folder} are unfinished; run the same command again to go on where it was."
    if folder.is_file():
        return f"{folder} is a file and holds no features of this version; expected a folder with {INDEX}."
    if folder.is_dir():
        return f"The folder {folder} holds no features of this zoo ({INDEX} is missing)."
    return f"There is no features folder {folder}; write one with Features.save or zoo features."


_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LIBRARIES = ("builtins", "timm", "torch", "torchvision", "zoo")  # the name of a class determines its code
_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict)


def weights_hash(encoder: torch.nn.Module) -> str:
    """Of names, types, shapes and bytes of every tensor in the state dict; the device does not matter."""
    digest = blake2b(digest_size=16)
    for name, tensor in sorted(encoder.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy())  # as bytes, for numpy has no bfloat16
    return digest.hexdigest()


def code_hash(network: torch.nn.Module) -> str:
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


def preprocess_hash(preprocess: Callable[[Any], torch.Tensor]) -> str:
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
