"""The converted files: safetensors that are written whole, named by their content, and checked whenever they are read.

At every reading each block of the file is held against its sums. SHA-256, which names the
file and is what ``zoo verify`` recomputes, would take three times as long as reading the weights without any check.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from ..errors import StoreError, WeightsRefused
from ..files import replaced
from ..optional import requires_extra
from .store import file_name

with requires_extra("models", needed_for="Checking weights"):
    import torch
    from torch import Tensor

BLOCK = 1024**2  # bytes of which one sum is kept
_ROWS, _COLUMNS = 256, 512  # of words of 8 bytes


class Summing:
    """The sums of bytes that come in pieces of any length."""

    def __init__(self) -> None:
        self._block = bytearray(BLOCK)
        self._filled = 0
        self._sums: list[str] = []

    def update(self, piece: memoryview) -> None:
        """Takes the next bytes."""
        while len(piece):
            taken = piece[: BLOCK - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            piece = piece[len(taken) :]
            if self._filled == BLOCK:
                self._close()

    def sums(self) -> tuple[str, ...]:
        """Of every block, the last one filled up with zeros; call it once, at the end."""
        if self._filled:
            self._block[self._filled :] = bytes(BLOCK - self._filled)
            self._close()
        return tuple(self._sums)

    def _close(self) -> None:
        self._sums += _of_blocks(self._block, 1)
        self._filled = 0


def block_sums(mapped: mmap.mmap) -> list[str]:
    """The sums of a file that is mapped into memory, as :class:`Summing` gives them; torch shares them out to cores."""
    n_whole, rest = divmod(len(mapped), BLOCK)
    sums = _of_blocks(mapped, n_whole) if n_whole else []
    if rest:
        tail = Summing()
        with memoryview(mapped) as view:
            tail.update(view[n_whole * BLOCK :])
        sums += tail.sums()
    return sums


def _of_blocks(data: mmap.mmap | bytearray, n: int) -> list[str]:
    words = torch.frombuffer(data, dtype=torch.int64, count=n * _ROWS * _COLUMNS).view(n, _ROWS, _COLUMNS)
    sums = torch.cat((words.sum(2), words.sum(1)), dim=1).numpy()  # (n, rows + columns)
    return [blake2b(of_block, digest_size=8).hexdigest() for of_block in sums]


_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


_TYPES = {name: dtype for dtype, name in _NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file of tensors holds, as far as its bytes go."""

    sha256: str
    size_bytes: int
    sums: tuple[str, ...]  # of each block, in hexadecimal


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], *, about: Mapping[str, str]) -> Content:
    """Writes tensors of the CPU to ``folder``, under a name made of their content.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    tensors : mapping of str to Tensor
        Contiguous, on the CPU.
    about : mapping of str to str
        Kept in the header; equal tensors with equal ``about`` are equal files.

    Raises
    ------
    StoreError
        If the file cannot be written; nothing is left of it.
    """
    content = content_of(tensors, about=about)
    target = folder / file_name(content.sha256)
    try:
        with replaced(target) as file:
            for part in _parts(tensors, about):
                file.write(part)
    except OSError as error:
        raise StoreError(
            f"The weights cannot be written to {folder} ({error.strerror}), where {content.size_bytes / 1e6:,.1f} MB "
            "are needed; nothing was changed, make room there or make it writable, or set ZOO_CACHE to another folder."
        ) from error
    return content


def read_tensors(path: Path, content: Content, *, remedy: str) -> dict[str, Tensor]:
    """Maps a file of tensors into memory, once all of it is what it was when it was written.

    What was checked is what is returned: there is one mapping.

    Parameters
    ----------
    path : Path
    content : Content
        What was written.
    remedy : str
        What to do about a damaged file, to end the sentence with.

    Returns
    -------
    dict of str to Tensor
        On the CPU; pages of the file, copied when somebody writes to them.

    Raises
    ------
    WeightsRefused
        If the file differs; says where.
    StoreError
        If it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != content.size_bytes:
                raise WeightsRefused(
                    f"The weights {path} are damaged: found {size:,} bytes, expected {content.size_bytes:,}; {remedy}."
                )
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise StoreError(f"The weights {path} cannot be read ({error.strerror or error}); {remedy}.") from error
    if len(content.sums) != -(-size // BLOCK):
        raise WeightsRefused(f"The record of the weights {path} is of another file; {remedy}.")
    for number, (now, then) in enumerate(zip(block_sums(mapped), content.sums, strict=True)):
        if now != then:
            raise WeightsRefused(
                f"The weights {path} are damaged between bytes {number * BLOCK:,} and "
                f"{min(size, (number + 1) * BLOCK):,}; {remedy}."
            )
    try:
        return _mapped_tensors(mapped)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:  # of whoever wrote file and record, but not we
        raise WeightsRefused(f"The weights {path} are no safetensors file ({error}); {remedy}.") from error


def _mapped_tensors(mapped: mmap.mmap) -> dict[str, Tensor]:
    start = 8 + int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        dtype, shape = _TYPES[entry["dtype"]], entry["shape"]
        first, end = entry["data_offsets"]
        if end - first != dtype.itemsize * math.prod(shape):
            raise ValueError(f"{name!r} has {end - first} bytes for shape {shape}")
        n = math.prod(shape)
        flat = (
            torch.frombuffer(mapped, dtype=dtype, offset=start + first, count=n) if n else torch.empty(0, dtype=dtype)
        )
        found[name] = flat.view(shape)
    return found


def content_of(tensors: Mapping[str, Tensor], *, about: Mapping[str, str]) -> Content:
    """What :func:`write_tensors` makes of the same arguments; nothing is written."""
    sha256, summing, size = hashlib.sha256(), Summing(), 0
    for part in _parts(tensors, about):
        sha256.update(part)
        summing.update(part)
        size += len(part)
    return Content(sha256=sha256.hexdigest(), size_bytes=size, sums=summing.sums())


def _parts(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> Iterator[memoryview]:
    """The bytes of a safetensors file: length of the header, header, tensors, those with the largest numbers first."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(sorted(about.items()))}
    position = 0
    for name in order:
        tensor = tensors[name]
        end = position + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors start where the processor likes it
    yield memoryview(len(text).to_bytes(8, "little"))
    yield memoryview(text)
    for name in order:
        yield tensors[name].reshape(-1).view(torch.uint8).numpy().data
