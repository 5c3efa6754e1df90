"""Converted weights as safetensors files: written whole, named by their content, and checked at every reading.

What is checked are sums of blocks: SHA-256, which ``zoo verify`` recomputes, takes three times as long as reading. A
block is a table of 64-bit words, whose rows and columns are added up modulo 2^64; a hash of these sums is stored. Every
change of up to three words changes a row or a column; more escape only where they form rectangles that cancel exactly.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from ..errors import StoreError, WeightsRefused
from ..files import open_regular, replace_file
from ..optional import require_extra
from .store import build_safetensors_header, format_weights_filename, parse_safetensors

with require_extra("models", needed_for="Checking weights"):
    import torch
    from torch import Tensor

BLOCK = 1024**2  # bytes a sum
_ROWS, _COLUMNS = 256, 512  # words of 8 bytes in a block


def hash_weights(network: torch.nn.Module) -> str:
    """Of names, types, shapes and bytes of every tensor in the state dict; the device does not matter."""
    digest = blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy())  # as bytes, for numpy has no bfloat16
    return digest.hexdigest()


class BlockChecksums:
    """The sums of bytes that come in pieces of any length."""

    def __init__(self) -> None:
        self._block = bytearray(BLOCK)
        self._filled = 0
        self._sums: list[str] = []

    def update(self, piece: memoryview) -> None:
        """Adds the next bytes."""
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


def compute_block_sums(mapped: mmap.mmap) -> list[str]:
    """The sums of a mapped file, as :class:`BlockChecksums` gives them, on all cores."""
    n_whole, rest = divmod(len(mapped), BLOCK)
    sums = _of_blocks(mapped, n_whole) if n_whole else []
    if rest:
        tail = BlockChecksums()
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
class TensorFileContent:
    """Hash, size and sums of a file of tensors."""

    sha256: str
    size_bytes: int
    sums: tuple[str, ...]  # of each block, in hexadecimal


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], *, about: Mapping[str, str]) -> TensorFileContent:
    """Writes contiguous tensors of the CPU to ``folder``, whole or not at all, under a name made of their content.

    ``about`` is stored in the header; equal tensors with equal ``about`` are equal files.
    """
    content = compute_content(tensors, about=about)
    target = folder / format_weights_filename(content.sha256)
    try:
        with replace_file(target) as file:
            for part in _parts(tensors, about):
                file.write(part)
    except OSError as error:
        raise StoreError(
            f"The weights cannot be written to {folder} ({error.strerror}), where {content.size_bytes / 1e6:,.1f} MB "
            "are needed; nothing was changed, make room there or make it writable, or set ZOO_CACHE to another folder."
        ) from error
    return content


def read_tensors(path: Path, content: TensorFileContent, *, remedy: str) -> dict[str, Tensor]:
    """Maps a file of tensors into memory, if all of it is what was written: one mapping, checked and returned.

    The tensors are pages of the file, copied when they are written to. ``remedy`` ends the sentence on a damaged file.
    """
    try:
        with open_regular(path) as file:
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
    for number, (now, then) in enumerate(zip(compute_block_sums(mapped), content.sums, strict=True)):
        if now != then:
            raise WeightsRefused(
                f"The weights {path} are damaged between bytes {number * BLOCK:,} and "
                f"{min(size, (number + 1) * BLOCK):,}; {remedy}."
            )
    try:
        return _mapped_tensors(mapped)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:  # not written by this module
        raise WeightsRefused(f"The weights {path} are no safetensors file ({error}); {remedy}.") from error


def _mapped_tensors(mapped: mmap.mmap) -> dict[str, Tensor]:
    tensors = {}
    for name, (kind, shape, offset) in parse_safetensors(mapped, len(mapped))[1].items():
        n, dtype = math.prod(shape), _TYPES[kind]
        flat = torch.frombuffer(mapped, dtype=dtype, offset=offset, count=n) if n else torch.empty(0, dtype=dtype)
        tensors[name] = flat.view(shape)
    return tensors


def compute_content(tensors: Mapping[str, Tensor], *, about: Mapping[str, str]) -> TensorFileContent:
    """Hash, size and sums of what :func:`write_tensors` would write."""
    sha256, summing, size = hashlib.sha256(), BlockChecksums(), 0
    for part in _parts(tensors, about):
        sha256.update(part)
        summing.update(part)
        size += len(part)
    return TensorFileContent(sha256=sha256.hexdigest(), size_bytes=size, sums=summing.sums())


def _parts(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> Iterator[memoryview]:
    """The bytes of a safetensors file: header, then tensors, those with the largest numbers first."""
    known = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    order = sorted(known, key=lambda name: (-known[name][0].itemsize, name))
    forms = {name: (_NAMES[known[name][0]], known[name][1]) for name in order}
    yield memoryview(build_safetensors_header(forms, dict(sorted(about.items()))))
    for name in order:
        yield tensors[name].reshape(-1).view(torch.uint8).numpy().data
