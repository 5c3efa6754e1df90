"""Files of ``torch.save``: zip archives, which it writes since 1.6, and the row of pickles it wrote before."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .reading_inert import Budget, Global, Refusal, clipped, is_plain_key
from .reading_machine import Bytes, Machine
from .reading_names import lookup, lookup_scripted
from .reading_pickle import run
from .reading_tensors import STORAGES, Storage
from .reading_zip import Member, check_sums, forget_pages, members

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a file of torch before 1.6
_LEGACY_VERSION = 1001
_ALIGNMENT = 64  # bytes; torch aligns its storages to it
_PICKLE = "data.pkl"
_LARGE = 1024**2  # bytes of a storage
_LENGTH = struct.Struct("<q")


def read_archive(data: Bytes, *, budget: Budget) -> tuple[Any, bool]:
    """What a zip archive of torch holds, and if it is one of TorchScript, whose code is never looked at."""
    found = members(data)
    roots = [name.removesuffix(_PICKLE) for name in found if name.count("/") == 1 and name.endswith(f"/{_PICKLE}")]
    if len(roots) != 1:
        raise Refusal(f"it is a zip file with {len(roots)} members {_PICKLE!r}, expected 1 as torch writes")
    root = roots[0]
    is_scripted = f"{root}constants.pkl" in found
    for name, member in found.items():
        if not (member.is_stored or (is_scripted and name.startswith(f"{root}code/"))):
            raise Refusal(f"its zip member {clipped(name)} is compressed, which torch does to code alone")
    check_sums(data, found)
    order = found.get(f"{root}byteorder")
    if order is not None and _bytes_of(data, order) != b"little":
        raise Refusal("its numbers are not little-endian")
    storages: dict[str, tuple[str, int, Storage]] = {}

    def persistent(identity: Any) -> Storage:
        kind, key, n = _storage_named(identity, n_parts=5)
        if key not in storages:
            member = found.get(f"{root}data/{key}")
            if member is None or member.size < n * STORAGES[kind].itemsize:
                raise Refusal(f"its storage {clipped(key)} is missing or shorter than its {n} elements")
            storages[key] = kind, n, Storage(_elements(data, member.start, n, STORAGES[kind]))
        return _same(storages[key], kind, n)

    machine = Machine(
        _bytes_of(data, found[f"{root}{_PICKLE}"]),
        lookup=lookup_scripted if is_scripted else lookup,
        budget=budget,
        persistent=persistent,
    )
    content = run(machine)
    if machine.position != machine.end:
        raise Refusal("it has something after the end of its pickle")
    return content, is_scripted


def read_legacy(data: Bytes, *, budget: Budget) -> Any:
    """What a file of torch before 1.6 holds: magic number, version, system, content, names of storages, storages."""
    position = 0

    def pickle(persistent: Callable[[Any], Any] | None = None) -> Any:
        nonlocal position
        machine = Machine(data, lookup=lookup, budget=budget, persistent=persistent, start=position)
        value = run(machine)
        position = machine.position
        return value

    magic, version, system = pickle(), pickle(), pickle()
    if (type(magic), magic, type(version), version) != (int, MAGIC, int, _LEGACY_VERSION):
        raise Refusal("it is of a version of torch's format that torch never released")
    if type(system) is not dict or system.get("little_endian") is not True:
        raise Refusal("its numbers are not little-endian")
    wanted: dict[str, tuple[str, int, Storage]] = {}

    def persistent(identity: Any) -> Storage:
        kind, key, n = _storage_named(identity, n_parts=6)
        if key not in wanted:
            budget.spend(n * STORAGES[kind].itemsize)
            if n * STORAGES[kind].itemsize > len(data):
                raise Refusal(f"its storage {clipped(key)} is longer than the file")
            wanted[key] = kind, n, Storage(_unfilled(n, STORAGES[kind]))
        return _same(wanted[key], kind, n)

    content = pickle(persistent)
    keys = pickle()
    is_list = type(keys) is list and all(type(key) is str and is_plain_key(key) for key in keys)
    if not is_list or len(keys) != len(wanted) or set(keys) != wanted.keys():
        raise Refusal("its list of storages is not that of its content")
    for key in keys:
        _, n, storage = wanted[key]
        size = storage.elements.nbytes
        if len(data) - position < _LENGTH.size + size:
            raise Refusal("it ends before its last storage does")
        (length,) = _LENGTH.unpack(data[position : position + _LENGTH.size])
        if length != n:
            raise Refusal(f"its storage {clipped(key)} has two lengths")
        position += _LENGTH.size
        if size:
            storage.elements.view(torch.uint8).copy_(_raw(data, position, size))
            if size > _LARGE:
                forget_pages(data)  # which are in memory twice now
        position += size
    forget_pages(data)
    if position != len(data):
        raise Refusal("it has something after its last storage")
    return content


def _storage_named(identity: Any, *, n_parts: int) -> tuple[str, str, int]:
    """Class, key and number of elements of the storage that a persistent id means; the device is left out."""
    match identity:
        case (str(what), Global(name=kind), str(key), str(), int(n), *rest) if (
            what == "storage" and kind in STORAGES and type(n) is int and n >= 0 and is_plain_key(key)
        ):
            if len(rest) == n_parts - 5 and all(part is None for part in rest):
                return kind, key, n
    raise Refusal("it refers to a storage in a way that torch does not")


def _same(storage: tuple[str, int, Storage], kind: str, n: int) -> Storage:
    if storage[:2] != (kind, n):
        raise Refusal("it refers to one storage in two ways")
    return storage[2]


def _elements(data: Bytes, start: int, n: int, dtype: torch.dtype) -> Tensor:
    """Elements of the file: mapped where they are aligned, so that only what is used is read, otherwise copied."""
    if n == 0:
        return torch.empty(0, dtype=dtype)
    raw = _raw(data, start, n * dtype.itemsize)
    return (raw.clone() if start % _ALIGNMENT else raw).view(dtype)


def _unfilled(n: int, dtype: torch.dtype) -> Tensor:
    """Elements to be filled; large ones in memory of their own, all of which goes back when they do."""
    n_bytes = n * dtype.itemsize
    return torch.frombuffer(mmap.mmap(-1, n_bytes), dtype=dtype) if n_bytes > _LARGE else torch.empty(n, dtype=dtype)


def _raw(data: Bytes, start: int, size: int) -> Tensor:
    """Bytes of the file, as they are mapped."""
    return torch.frombuffer(data, dtype=torch.uint8, count=size, offset=start)


def _bytes_of(data: Bytes, member: Member) -> bytes:
    return data[member.start : member.start + member.size]
