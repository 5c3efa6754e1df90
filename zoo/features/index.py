"""What makes a folder of shards complete, and what says whose an unfinished one is.

``index.json`` is written last and never changed: format, origin, classes, the shards with their sizes and hashes, the
images that were skipped, a hash of what is in each of the others if it is known, and a checksum of all this.
``run.json`` is there while a run is on: its origin and the size of its shards. Of several processes that finish one
folder, the first to write the index is right, and the others read what it wrote.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..atomic import replaced
from ..errors import DataError
from ..optional import requires_extra
from .origin import Origin, differences, origin_facts, origin_from, run_hash
from .shards import FORMAT, Listed, Shard, Skipped, file_digest, read_shard, shard_files

with requires_extra("models", needed_for="Working with features"):
    import numpy as np

INDEX, RUN = "index.json", "run.json"

_TEMPORARY = re.compile(r"\.(shard-|index|run).*-[0-9a-f]{16}\.tmp")  # as zoo.atomic names them
_STALE_S = 3_600.0  # nobody takes an hour to write one shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A shard of a run that is not at its end yet."""

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


def encoded(contents: np.ndarray | None) -> str | None:
    """Contents of images, uint64 (n_rows,), as an index has them."""
    return None if contents is None else base64.b64encode(contents.astype("<u8").tobytes()).decode()


def decoded(contents: str | None) -> np.ndarray | None:
    """Contents of images, uint64 (n_rows,), from an index."""
    return None if contents is None else np.frombuffer(base64.b64decode(contents), "<u8").astype(np.uint64)


def write_index(folder: Path, index: Index, *, replacing: bool = False) -> bool:
    """Makes a folder complete; False if another process did that first.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    facts = {"format": FORMAT, **asdict(index), "origin": origin_facts(index.origin)}
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
    """The index of a folder; None if there is none, be it that the folder is not there.

    Raises
    ------
    DataError
        If it is damaged, of another format, or cannot be read.
    """
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
        )
    except DataError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(folder, INDEX, error) from error


def claim(folder: Path, origin: Origin, *, shard_size: int) -> int:
    """Makes a folder that of one run, or finds that it is, and gives the size of its shards.

    Raises
    ------
    DataError
        If the folder was begun for other features; names what differs.
    OSError
        If it cannot be written.
    """
    text = json.dumps({"format": FORMAT, "origin": origin_facts(origin), "shard_size": shard_size}, indent=1)
    for _ in range(2):  # whoever ends just now takes the file away
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
    """Refuses to mix features in one folder.

    Raises
    ------
    DataError
        Names what differs.
    """
    if different := differences(there, wanted):
        raise DataError(
            f"The folder {folder} holds other features than those asked for: they differ in "
            f"{' and '.join(different)}; name another folder, or remove this one to begin anew."
        )


def finished_shards(folder: Path, origin: Origin, *, n_images: int, shard_size: int) -> dict[int, Finished]:
    """The shards of a run that are there and whole, by number; every byte of them is read.

    What is damaged, of another run, or of another number of images is no finished shard, and will be computed again.
    """
    run = run_hash(origin, shard_size=shard_size)
    found: dict[int, Finished] = {}
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
            found.setdefault(number, Finished(listed=listed, dim=shard.dim, skipped=shard.skipped))
    return found


def listed_shards(folder: Path, index: Index) -> list[Shard]:
    """The shards of an index, held against its sizes and the hash of its origin; their rows are not read.

    Raises
    ------
    DataError
        If one is missing, of another length, or of other features; names it.
    """
    run = run_hash(index.origin, shard_size=index.shard_size)
    found = []
    for listed in index.shards:
        try:
            shard = read_shard(folder / listed.file)
            if (shard.size_bytes, shard.n_rows) != (listed.size_bytes, listed.n_rows):
                raise ValueError(f"it has {shard.size_bytes:,} bytes instead of {listed.size_bytes:,}")
            if shard.run != run or (shard.n_rows and shard.dim != index.dim):
                raise ValueError("it belongs to other features")
        except (OSError, ValueError) as error:
            raise damaged(folder, listed.file, error) from error
        found.append(shard)
    return found


def require_intact(folder: Path, index: Index) -> None:
    """Reads every byte of every shard again.

    Raises
    ------
    DataError
        If one is not what was written; names it.
    """
    for listed in index.shards:
        try:
            if file_digest(folder / listed.file) != listed.digest:
                raise ValueError("its hash differs")
        except (OSError, ValueError) as error:
            raise damaged(folder, listed.file, error) from error


def damaged(folder: Path, name: str, error: Exception) -> DataError:
    """The sentence on a file of a folder that is not what it should be."""
    reason = (error.strerror or error) if isinstance(error, OSError) else error
    return DataError(
        f"The features in {folder} are damaged ({name}: {reason}); restore the file, or remove the folder and compute "
        "the features again."
    )


def surplus(folder: Path, kept: Sequence[Listed]) -> list[Path]:
    """The shards of a folder that its index does not list."""
    names = {listed.file for listed in kept}
    return [path for _, _, path in shard_files(folder) if path.name not in names]


def remove_leftovers(folder: Path) -> None:
    """Takes away the halves of files that killed processes left.

    Raises
    ------
    OSError
        If one cannot be removed.
    """
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
