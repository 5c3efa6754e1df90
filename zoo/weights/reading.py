"""Reads a file of weights, whatever wrote it, and runs nothing that is in it.

===========  ==========================================================  ==============================================
kind         how it is recognised                                        who reads it
===========  ==========================================================  ==============================================
safetensors  a length, then a brace                                      the library of that name
torch, zip   a zip archive with ``data.pkl``                             ``reading_zip``, ``reading_torch``
TorchScript  the same with ``constants.pkl``                             the same, and ``reading_torchscript``
torch, old   a pickle of torch's magic number                            ``reading_torch``
dill         any other pickle                                            ``reading_pickle``
===========  ==========================================================  ==============================================

``torch.load(weights_only=True)`` is not used: its list of allowed names belongs to the whole process and its threads,
it cannot read pickles of protocol 4, it would unpack tar files to the disk, and what it reads is found by another zip
reader than the one a check beforehand would use. It is what the tests compare with.
"""

from __future__ import annotations

import mmap
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, StoreError, WeightsRefused
from ..metadata import Format

try:
    import torch
    from safetensors import SafetensorError, safe_open
except ImportError as error:
    raise MissingExtra(error.name or "torch", extra="models", needed_for="Reading weights") from error

from .reading_content import check_content
from .reading_inert import Budget, Inert, Refusal
from .reading_machine import Bytes, Machine
from .reading_names import lookup
from .reading_pickle import run
from .reading_torch import MAGIC, read_archive, read_legacy
from .reading_torchscript import flattened

__all__ = ["Checkpoint", "Inert", "is_mapped", "read_checkpoint"]

_MAGIC_BYTES = MAGIC.to_bytes(10, "little")
_OTHERS = (
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"\xfd7zXZ", "an xz file"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"\x93NUMPY", "an array of NumPy"),
    (0, b"version https://git-lfs", "a pointer of git-lfs, not the file it points to"),
    (0, b"<", "a page of a web server"),
    (257, b"ustar", "a tar archive"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a file of weights holds.

    ``content`` is made of dicts, lists, tuples, sets, plain values, torch tensors on the CPU, and ``Inert``. Tensors of
    zip archives and safetensors are mapped from the file, which must stay as it is while they are used.
    """

    content: Any
    format: Format  # by its bytes, whatever its name says


def read_checkpoint(path: Path, *, what: str) -> Checkpoint:
    """Reads a file of weights.

    Parameters
    ----------
    path : Path
        Of the file; its name does not matter.
    what : str
        How messages name the file.

    Raises
    ------
    WeightsRefused
        If the file is damaged, is of no known kind, or asks for anything but numbers in plain containers.
    StoreError
        If the file cannot be read at all.
    """
    try:
        content, kind = _read(path)
    except OSError as error:
        raise StoreError(f"The weights of {what} cannot be read from {path}: {error.strerror or error}.") from error
    except Refusal as reason:
        raise WeightsRefused(
            f"The file of {what} is refused, because {reason}; "
            "nothing of it was run, take it from another source or save its tensors alone."
        ) from reason.with_traceback(None)  # whose frames would keep the file mapped
    return Checkpoint(content=content, format=kind)


def is_mapped(path: Path) -> bool:
    """True if the tensors of a file are mapped from it; those of files of torch before 1.6 and of dill are copied."""
    try:
        with path.open("rb") as file:
            return file.read(1) != b"\x80"
    except OSError:
        return False


def _read(path: Path) -> tuple[Any, Format]:
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "it is not a file")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        # changes of the mapped bytes would stay in memory; torch insists on bytes that it could change
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) if size else b""
    content, kind = _content(path, data)
    check_content(content)
    return content, kind


def _content(path: Path, data: Bytes) -> tuple[Any, Format]:
    budget = Budget(len(data))
    if data[:4] == b"PK\3\4":
        content, is_scripted = read_archive(data, budget=budget)
        return (flattened(content, budget=budget), "torchscript") if is_scripted else (content, "torch pickle")
    if data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data) - 8:
        return _safetensors(path), "safetensors"
    if data[:1] != b"\x80":
        raise Refusal(f"it is {_guessed(data)}, expected safetensors or a pickle of torch or dill")
    if _is_legacy(data):
        return read_legacy(data, budget=budget), "torch pickle"
    machine = Machine(data, lookup=lookup, budget=budget)
    content = run(machine)
    if machine.position != machine.end:
        raise Refusal("it has something after the end of its pickle")
    return content, "dill pickle"


def _is_legacy(data: Bytes) -> bool:
    """True if the first pickle is torch's magic number, whatever protocol wrote it."""
    return _MAGIC_BYTES in data[:64]


def _safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
    except (SafetensorError, TypeError) as error:  # TypeError: a shape with more elements than torch can count
        reason = str(error).splitlines()[0][:200]
        raise Refusal(f"its safetensors header does not describe it ({reason})") from error


def _guessed(data: Bytes) -> str:
    if not data:
        return "empty"
    for offset, start, kind in _OTHERS:
        if data[offset : offset + len(start)] == start:
            return kind
    return f"a file of another kind that starts with {data[:8].hex(' ')}"
