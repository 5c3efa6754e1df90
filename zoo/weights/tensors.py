"""The converted files: safetensors that are written whole, named by their content, and checked whenever they are read.

At every reading each block of the file is held against its CRC-32, which finds any single flipped bit and any damage of
up to 32 bits in a row for certain, all other damage but one in four thousand million. SHA-256, which names the file and
is what ``zoo verify`` recomputes, would take four times as long as reading the weights without any check.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..atomic import replaced
from ..errors import StoreError, WeightsRefused

BLOCK = 4 * 1024**2  # bytes of which one CRC-32 is kept
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file of tensors holds, as far as its bytes go."""

    sha256: str
    size_bytes: int
    crc32: tuple[str, ...]  # of each block, in hexadecimal


def file_name(sha256: str) -> str:
    """Under which a file of tensors is kept."""
    return f"{sha256}.safetensors"


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
    content = _content(tensors, about)
    target = folder / file_name(content.sha256)
    try:
        with replaced(target) as file:
            for part in _parts(tensors, about):
                file.write(part)
    except OSError as error:
        raise StoreError(
            f"The weights cannot be written to {folder} ({error.strerror}): {content.size_bytes / 1e6:,.0f} MB are "
            "needed there; nothing was changed, free some space or set ZOO_CACHE to another folder."
        ) from error
    return content


def read_tensors(path: Path, content: Content, *, remedy: str) -> dict[str, Tensor]:
    """Maps a file of tensors into memory, once all of it is what it was when it was written.

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
        _check(path, content, remedy=remedy)
        return load_file(path)
    except SafetensorError as error:
        raise WeightsRefused(f"The weights {path} are no safetensors file ({error}); {remedy}.") from error
    except (OSError, RuntimeError) as error:  # the latter from torch, if the file is removed before it is mapped
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise StoreError(f"The weights {path} cannot be read ({reason}); {remedy}.") from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path, content: Content, *, remedy: str) -> None:
    size = os.stat(path).st_size
    if size != content.size_bytes:
        raise WeightsRefused(
            f"The weights {path} are damaged: found {size:,} bytes, expected {content.size_bytes:,}; {remedy}."
        )
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as workers,
    ):
        found = list(workers.map(lambda start: _crc32(view, start), range(0, size, BLOCK)))
    for number, (is_crc, was_crc) in enumerate(zip(found, content.crc32, strict=True)):
        if is_crc != was_crc:
            raise WeightsRefused(
                f"The weights {path} are damaged between bytes {number * BLOCK:,} and "
                f"{min(size, (number + 1) * BLOCK):,}; {remedy}."
            )


def _crc32(view: memoryview, start: int) -> str:
    with view[start : start + BLOCK] as block:
        return f"{zlib.crc32(block):08x}"


def _content(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> Content:
    sha256, size = hashlib.sha256(), 0
    blocks: list[str] = []
    crc, filled = 0, 0
    for part in _parts(tensors, about):
        sha256.update(part)
        size += len(part)
        while len(part):
            taken = part[: BLOCK - filled]
            crc, filled, part = zlib.crc32(taken, crc), filled + len(taken), part[len(taken) :]
            if filled == BLOCK:
                blocks.append(f"{crc:08x}")
                crc, filled = 0, 0
    if filled:
        blocks.append(f"{crc:08x}")
    return Content(sha256=sha256.hexdigest(), size_bytes=size, crc32=tuple(blocks))


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
