"""Reads a checkpoint of any kind, recognised by its bytes, without running anything that is in it.

safetensors by the library of that name; zip archives of torch, TorchScript (whose code is never looked at) and NumPy
with their tensors mapped from the file; pickles of torch before 1.6 and of dill. ``torch.load(weights_only=True)`` is
not used: it hangs at keys that take long to hash, accepts storages longer than the file, tensors of a billion elements
and containers that hold themselves, and cannot read pickles of protocol 4.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..cards.schema import Format
from ..errors import StoreError, WeightsRefused
from ..optional import require_extra
from .parts import INDEX, SAVE_TENSORS, read_index
from .pickle_names import NUMPY_TYPES, STORAGES, Storage, check_tensor, lookup, lookup_scripted
from .pickles import (
    MOST_KEY_CHARACTERS,
    GlobalName,
    InertObject,
    MemoryBudget,
    PickleRefusal,
    finish_content,
    read_pickle,
    shorten_name,
)

with require_extra("models", needed_for="Reading weights"):
    import torch
    from safetensors import SafetensorError, safe_open
    from torch import Tensor

__all__ = ["CheckpointContent", "InertObject", "is_mapped", "read_checkpoint"]

_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a file of torch before 1.6
_LEGACY_VERSION = 1001
_ALIGNMENT = 64  # bytes; torch aligns its storages to it
_PICKLE = "data.pkl"
_ARRAY = ".npy"
_MOST_HEADER_BYTES = 1000  # of an array; NumPy writes some hundred
_HEADER = re.compile(
    rb"\{'descr': '[<|](?P<type>[a-z][0-9])', 'fortran_order': (?P<order>True|False), "
    rb"'shape': \((?P<shape>|[0-9]{1,18},|[0-9]{1,18}(?:, [0-9]{1,18}){1,31})\), \} *\n"
)
_BLOCK = 1024**2  # bytes that are read at a time
_END = struct.Struct("<4s4H2LH")  # the last record of a zip archive: PKWARE's APPNOTE.TXT, 6.3, describes all of them
_LOCAL = struct.Struct("<4s5H3L2H")  # the record before a member
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_MOST_DIRECTORY_BYTES = 3 * 1024**2  # some 30,000 members; an optimizer's state has three a parameter
_MEMBER_BYTES = 800  # of memory that zipfile takes for a member
_MOST_NESTED_MODULES = 100  # of TorchScript
_EXPORTED = "save its weights: torch.save(torch.export.load(FILE).state_dict, 'weights.pth')"
_OTHER_KINDS = (  # offset, bytes there, kind of file, what to do
    (0, b"\x1f\x8b", "a gzip file", "unpack it with gunzip"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes", SAVE_TENSORS),
    (0, b"GGUF", "a GGUF file of llama.cpp", "give the safetensors or the pickle of torch that it was made from"),
    (0, b"version https://git-lfs", "a pointer of git-lfs, not the file it points to", "fetch that by 'git lfs pull'"),
    (0, b"<", "a page of a web server", "download the file itself"),
    (0, b"{", "a JSON file", "give the file of weights, or a folder with an index and its shards"),
    (0, b"\x93NUMPY", "a single array of NumPy", "save all arrays by their names: numpy.savez(FILE, **state)"),
    (0, b"\x08", "an ONNX model, which has lost the names of the weights", "give what it was exported from"),
    (257, b"ustar", "a tar archive", "unpack it with tar -xf"),
    *(
        (0, bytes([first]), "a msgpack file, as Flax writes", SAVE_TENSORS)
        for first in (*range(0x81, 0x90), 0xDE, 0xDF)
    ),
)
_OTHER_ARCHIVES = (  # end of a member's name, kind of archive, what to do
    ("model.weights.h5", "a Keras archive", SAVE_TENSORS),
    ("archive_format", "a program of torch.export", _EXPORTED),
    ("serialized_exported_program.json", "a program of torch.export", _EXPORTED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """The content of a checkpoint.

    ``content`` is made of dicts, lists, tuples, sets, plain values, torch tensors on the CPU, and ``InertObject``.
    Tensors of zip archives and safetensors are mapped from the file, which must stay as it is while they are used.
    """

    content: Any
    format: Format  # by its bytes, whatever its name says


def read_checkpoint(path: Path, *, what: str) -> CheckpointContent:
    """The content of a file of weights, whatever its name, or of an index of shards; ``what`` names it in messages.

    WeightsRefused if it is damaged, of no known kind, or asks for anything but numbers in plain containers; StoreError
    if it cannot be read at all.
    """
    if path.name.endswith(INDEX):
        return _read_shards(path, what=what)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(0, "it is not a file")
        with path.open("rb") as file:
            content, kind = _content(path, file)
    except OSError as error:
        raise StoreError(f"The weights of {what} cannot be read from {path}: {error.strerror or error}.") from error
    except PickleRefusal as reason:
        reason.__cause__ = reason.__context__ = None  # their frames would hold the mapping of the file
        raise WeightsRefused(
            f"The file of {what} is refused, because {reason}; {reason.remedy}."
        ) from reason.with_traceback(None)
    return CheckpointContent(content=content, format=kind)


def _read_shards(index: Path, *, what: str) -> CheckpointContent:
    """The tensors of all shards by name; refused if one is in two shards, or in none."""
    listed = read_index(index)
    tensors: dict[str, Any] = {}
    for name in sorted(set(listed.values())):
        shard = read_checkpoint(index.parent / name, what=f"{what}, shard {name}")
        state = shard.content if isinstance(shard.content, dict) else {}
        if twice := sorted(state.keys() & tensors.keys()):
            raise WeightsRefused(
                f"The shards of {what} have the tensor {shorten_name(twice[0])} twice; save them again."
            )
        tensors |= state
    if absent := sorted(listed.keys() - tensors.keys()):
        raise WeightsRefused(
            f"The shards of {what} lack the tensor {shorten_name(absent[0])} that their index has in "
            f"{listed[absent[0]]!r}; copy them anew, index and shards of one checkpoint."
        )
    return CheckpointContent(content=tensors, format=shard.format)


def is_mapped(path: Path) -> bool:
    """True if the tensors of a file are mapped from it; those of files of torch before 1.6 and of dill are copied."""
    try:
        with path.open("rb") as file:
            return file.read(1) != b"\x80"
    except OSError:
        return False


def _content(path: Path, file: BinaryIO) -> tuple[Any, Format]:
    start = file.read(512)
    size = file.seek(0, os.SEEK_END)
    budget = MemoryBudget(size)
    if start[:4] == b"PK\3\4":
        members = _members(file, size)
        budget.spend(_MEMBER_BYTES * len(members))
        _check_sums(file, members)
        # changes of the mapped bytes stay in memory; torch insists on bytes that it could change
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        if members and all(name.endswith(_ARRAY) for name in members):
            return {name.removesuffix(_ARRAY): _array(data, name, members[name], budget) for name in members}, "npz"
        content, is_scripted = _read_archive(data, members, budget)
        return (_flattened(content, budget), "torchscript") if is_scripted else (content, "torch pickle")
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= size - 8:
        return _safetensors(path), "safetensors"
    if start[:1] != b"\x80":
        kind, remedy = _guessed(start)
        raise PickleRefusal(f"it is {kind}, expected safetensors or a pickle of torch or dill", remedy=remedy)
    with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
        if _MAGIC.to_bytes(10, "little") in start[:64]:  # whatever protocol wrote it
            return _read_legacy(file, data, budget), "torch pickle"
        pickled = read_pickle(data, end=size, lookup=lookup, budget=budget)
        if data.tell() != size:
            raise PickleRefusal("it has something after the end of its pickle")
    return finish_content(pickled, plain=[Tensor]), "dill pickle"


def _guessed(start: bytes) -> tuple[str, str]:
    """Kind of file, and what to do with it."""
    if not start:
        return "empty", ""
    for offset, magic, kind, remedy in _OTHER_KINDS:
        if start[offset : offset + len(magic)] == magic:
            return kind, remedy
    return f"a file of another kind that starts with {start[:8].hex(' ')}", ""


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: check_tensor(file.get_tensor(name), name) for name in file.keys()}  # noqa: SIM118, it is no dict
    except (SafetensorError, TypeError) as error:  # TypeError: a shape with more elements than torch can count
        reason = str(error).splitlines()[0][:200]
        raise PickleRefusal(f"its safetensors header does not describe it ({reason})") from error


# --- zip archives: what torch writes since 1.6, and TorchScript ------------------------------------------------------


class _ZipMember(NamedTuple):
    """A zip member, and where its bytes are. Of torch's archives, one that is compressed is never looked into."""

    start: int
    info: zipfile.ZipInfo

    @property
    def is_stored(self) -> bool:
        return self.info.compress_type == zipfile.ZIP_STORED

    @property
    def end(self) -> int:
        return self.start + self.info.compress_size


class _ZipFile:
    """The file of an archive for zipfile, which would read a directory of any size."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell = file.seek, file.tell
        self._file = file

    def read(self, n: int = -1) -> bytes:
        """A record, or the whole directory; -1 reads the last record."""
        if n > _MOST_DIRECTORY_BYTES:
            raise PickleRefusal(f"it has a zip directory of {n} bytes, expected at most {_MOST_DIRECTORY_BYTES}")
        return self._file.read(n if n >= 0 else _END.size)


def _members(file: BinaryIO, size: int) -> dict[str, _ZipMember]:
    """The members of an archive by name.

    Torch writes archives in one way: from the first byte to the last, member after member, with the directory at the
    end. An archive is refused if anything precedes or follows, or if two records contradict each other.
    """
    last = size - _END.size
    signature, disk, first, here, count, length, start, comment = _unpack(_END, file, last)
    if signature != b"PK\5\6" or disk or first or here != count or comment:
        raise PickleRefusal(
            "it is a zip file that does not end with its directory: cut off, or with something appended"
        )
    try:
        archive = zipfile.ZipFile(_ZipFile(file))  # which needs no more of a file
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise PickleRefusal(f"its zip directory is damaged ({shorten_name(str(error))})") from error
    infos, first_entry = archive.infolist(), archive.start_dir
    is_same = count in (len(infos), 0xFFFF) and start in (first_entry, 0xFFFFFFFF)
    if not is_same or not (first_entry + length <= last or length == 0xFFFFFFFF):
        raise PickleRefusal("its zip directory contradicts itself")
    members: dict[str, _ZipMember] = {}
    position = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < position or (not position and info.header_offset):
            raise PickleRefusal("its zip members overlap, or do not begin at its start")
        name, member = _member(file, info)
        position = member.end
        if name in members:
            raise PickleRefusal(f"it has two zip members named {shorten_name(name)}")
        members[name] = member
    if position > first_entry:
        raise PickleRefusal("its zip members overlap its directory")
    return members


def _member(file: BinaryIO, info: zipfile.ZipInfo) -> tuple[str, _ZipMember]:
    """Name and place of a member, by its local record, which must agree with the directory."""
    signature, _, _, method, _, _, _, _, _, n_name, n_extra = _unpack(_LOCAL, file, info.header_offset)
    raw = file.read(n_name)
    in_directory = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
    if signature != b"PK\3\4" or method != info.compress_type or raw != in_directory:
        raise PickleRefusal(
            f"its zip member {shorten_name(info.orig_filename)} is not where and what the directory says"
        )
    if info.flag_bits & _ENCRYPTED:
        raise PickleRefusal(f"its zip member {shorten_name(info.orig_filename)} is encrypted")
    if method == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        raise PickleRefusal(f"its zip member {shorten_name(info.orig_filename)} has two sizes")
    try:
        name = raw.decode()
    except UnicodeDecodeError as error:
        raise PickleRefusal("it has a zip member whose name is not UTF-8") from error
    return name, _ZipMember(info.header_offset + _LOCAL.size + n_name + n_extra, info)


def _unpack(record: struct.Struct, file: BinaryIO, position: int) -> tuple[Any, ...]:
    raw = b""
    if position >= 0:
        file.seek(position)
        raw = file.read(record.size)
    if len(raw) != record.size:
        raise PickleRefusal("it is a zip file that is cut off, or whose directory points outside of it")
    return record.unpack(raw)


def _check_sums(file: BinaryIO, members: dict[str, _ZipMember]) -> None:
    """Refuses an archive with a stored member whose bytes are not those that its CRC-32 was computed from.

    ``torch.serialization.set_crc32_options(False)`` writes 0 for every member: such an archive passes.
    """
    if not any(member.info.CRC for member in members.values()):
        return
    for name, member in members.items():
        if not member.is_stored:
            continue
        crc = 0
        file.seek(member.start)
        for start in range(member.start, member.end, _BLOCK):
            crc = zlib.crc32(file.read(min(_BLOCK, member.end - start)), crc)
        if crc != member.info.CRC:
            raise PickleRefusal(f"its zip member {shorten_name(name)} is damaged: its bytes differ from its CRC-32")


def _read_archive(data: mmap.mmap, members: dict[str, _ZipMember], budget: MemoryBudget) -> tuple[Any, bool]:
    """Content of a zip archive of torch, and whether it is one of TorchScript."""
    for ending, kind, remedy in _OTHER_ARCHIVES:
        if any(name.endswith(ending) for name in members):
            raise PickleRefusal(f"it is {kind}, expected what torch.save writes", remedy=remedy)
    roots = [name.removesuffix(_PICKLE) for name in members if name.count("/") == 1 and name.endswith(f"/{_PICKLE}")]
    if len(roots) != 1:
        raise PickleRefusal(f"it is a zip file with {len(roots)} members {_PICKLE!r}, expected 1 as torch writes")
    root = roots[0]
    is_scripted = f"{root}constants.pkl" in members
    for name, member in members.items():
        if not (member.is_stored or (is_scripted and name.startswith(f"{root}code/"))):
            raise PickleRefusal(f"its zip member {shorten_name(name)} is compressed, which torch does to code alone")
    order = members.get(f"{root}byteorder")
    if order is not None and data[order.start : min(order.end, order.start + 10)] != b"little":
        raise PickleRefusal("its numbers are not little-endian")

    def elements(key: str, n: int, dtype: torch.dtype) -> Tensor:
        member = members.get(f"{root}data/{key}")
        if member is None or member.info.file_size < n * dtype.itemsize:
            raise PickleRefusal(f"its storage {shorten_name(key)} is missing or shorter than its {n} elements")
        return check_tensor(_mapped(data, member.start, n, dtype))

    pickled = members[f"{root}{_PICKLE}"]
    data.seek(pickled.start)
    names = lookup_scripted if is_scripted else lookup
    storages = _Storages(elements, n_parts=5)
    content = read_pickle(data, end=pickled.end, lookup=names, budget=budget, persistent=storages.named)
    if data.tell() != pickled.end:
        raise PickleRefusal("it has something after the end of its pickle")
    return finish_content(content, plain=[Tensor]), is_scripted


class _Storages:
    """The storages that the persistent ids of a pickle name; ``elements`` gives those of a key, each asked for once."""

    def __init__(self, elements: Callable[[str, int, torch.dtype], Tensor], *, n_parts: int) -> None:
        self.elements, self.n_parts = elements, n_parts
        self.found: dict[str, tuple[str, int, Storage]] = {}  # class, number of elements

    def named(self, identity: Any) -> Storage:
        """By class, key and number of elements; the device is ignored."""
        match identity:
            case ("storage", GlobalName(name="torch.storage.UntypedStorage"), *_):
                return Storage(torch.empty(0))  # whoever builds a tensor on it refuses its type by name
            case ("storage", GlobalName(name="torch.ComplexFloatStorage" | "torch.ComplexDoubleStorage"), *_):
                raise PickleRefusal("it holds a tensor of complex numbers, expected plain numbers")
            case ("storage", GlobalName(name=kind), str(key), str(), int(n), *rest) if (
                kind in STORAGES and type(n) is int and n >= 0 and len(key) <= MOST_KEY_CHARACTERS
            ):
                if len(rest) == self.n_parts - 5 and all(part is None for part in rest):
                    if key not in self.found:
                        self.found[key] = kind, n, Storage(self.elements(key, n, STORAGES[kind]))
                    if self.found[key][:2] != (kind, n):
                        raise PickleRefusal("it refers to one storage in two ways")
                    return self.found[key][2]
        raise PickleRefusal("it refers to a storage in a way that torch does not")


def _mapped(data: mmap.mmap | bytearray, start: int, n: int, dtype: torch.dtype) -> Tensor:
    """Elements of the file: mapped where they are aligned, so that only what is used is read, otherwise copied."""
    if n == 0:
        return torch.empty(0, dtype=dtype)
    raw = torch.frombuffer(data, dtype=torch.uint8, count=n * dtype.itemsize, offset=start)
    return (raw.clone() if start % _ALIGNMENT else raw).view(dtype)


def _flattened(content: Any, budget: MemoryBudget) -> dict[str, Tensor]:
    """The tensors of a scripted or traced module by their dotted names, like its ``state_dict()``.

    Only the archive's code, which is not read, distinguishes parameters and buffers from other attributes: a plain
    tensor attribute is included.
    """
    if type(content) is not InertObject:
        raise PickleRefusal("its TorchScript archive does not hold a module")
    tensors: dict[str, Tensor] = {}
    waiting: list[tuple[str, InertObject, int]] = [("", content, 0)]
    while waiting:
        prefix, module, depth = waiting.pop()
        inner: list[tuple[str, InertObject, int]] = []
        for name, value in module.attributes.items():
            budget.spend(100 + len(prefix) + len(name))  # a module that is met often has as many names
            if depth > _MOST_NESTED_MODULES:
                raise PickleRefusal("it holds modules in modules without end")
            if isinstance(value, Tensor):
                if prefix + name in tensors or "." in name:
                    raise PickleRefusal("its modules have names that do not tell them apart")
                tensors[prefix + name] = value
            elif type(value) is InertObject:
                inner.append((f"{prefix}{name}.", value, depth + 1))
        waiting.extend(reversed(inner))
    return tensors


# --- npz: arrays of NumPy in a zip archive ---------------------------------------------------------------------------


def _array(data: mmap.mmap, name: str, member: _ZipMember, budget: MemoryBudget) -> Tensor:
    """An array as ``numpy.load(allow_pickle=False)`` gives it, of plain numbers: a header, then exactly its numbers.

    NumPy itself evaluates a header as Python; what it writes has one form alone.
    """
    content: mmap.mmap | bytearray = data
    start, end = member.start, member.end
    if member.info.compress_type == zipfile.ZIP_DEFLATED:
        budget.spend(member.info.file_size)
        content, start, end = _inflated(data[start:end], member.info, name), 0, member.info.file_size
    elif not member.is_stored:
        raise PickleRefusal(f"its zip member {shorten_name(name)} is compressed in a way that NumPy does not")
    magic, length = content[start : start + 8], int.from_bytes(content[start + 8 : start + 10], "little")
    first = start + 10 + length  # of the numbers
    header = _HEADER.fullmatch(content[start + 10 : min(first, end)]) if length <= _MOST_HEADER_BYTES else None
    if magic != b"\x93NUMPY\1\0" or header is None:
        raise PickleRefusal(
            f"its array {shorten_name(name)} has no header as NumPy writes it, of little-endian numbers"
        )
    kind, is_fortran = NUMPY_TYPES.get(header["type"].decode()), header["order"] == b"True"
    if kind is None:
        raise PickleRefusal(
            f"its array {shorten_name(name)} is of type {header['type'].decode()!r}, expected plain numbers"
        )
    shape = tuple(int(side) for side in header["shape"].split(b",") if side.strip())
    n = math.prod(shape)
    if first + n * kind.itemsize != end:
        raise PickleRefusal(
            f"its array {shorten_name(name)} has more or fewer numbers than its shape {shorten_name(str(shape))}"
        )
    elements = check_tensor(_mapped(content, first, n, kind))
    return elements.reshape(shape[::-1]).permute(*range(len(shape))[::-1]) if is_fortran else elements.reshape(shape)


def _inflated(packed: bytes, info: zipfile.ZipInfo, name: str) -> bytearray:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = bytearray(inflater.decompress(packed, info.file_size + 1))
    except zlib.error as error:
        raise PickleRefusal(f"its zip member {shorten_name(name)} is damaged ({error})") from error
    if not inflater.eof or len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise PickleRefusal(
            f"its zip member {shorten_name(name)} is damaged: its bytes differ from its length or its CRC-32"
        )
    return content


# --- what torch wrote before 1.6 -------------------------------------------------------------------------------------


def _read_legacy(file: BinaryIO, data: mmap.mmap, budget: MemoryBudget) -> Any:
    """Content of such a file: magic number, version, system, content, names of storages, storages."""
    size = left = len(data)

    def plain() -> Any:
        return finish_content(read_pickle(data, end=size, lookup=lookup, budget=budget), plain=[])

    def unfilled(key: str, n: int, dtype: torch.dtype) -> Tensor:
        nonlocal left
        left -= n * dtype.itemsize
        if left < 0:
            raise PickleRefusal(f"its storage {shorten_name(key)} is longer than the file")
        budget.spend(_MEMBER_BYTES)
        return torch.empty(n, dtype=dtype)

    magic, version, system = plain(), plain(), plain()
    if (type(magic), magic, type(version), version) != (int, _MAGIC, int, _LEGACY_VERSION):
        raise PickleRefusal("it is of a version of torch's format that torch never released")
    if type(system) is not dict or system.get("little_endian") is not True:
        raise PickleRefusal("its numbers are not little-endian")
    storages = _Storages(unfilled, n_parts=6)
    content = read_pickle(data, end=size, lookup=lookup, budget=budget, persistent=storages.named)
    keys = plain()
    is_list = type(keys) is list and all(type(key) is str and len(key) <= MOST_KEY_CHARACTERS for key in keys)
    if not is_list or len(keys) != len(storages.found) or set(keys) != storages.found.keys():
        raise PickleRefusal("its list of storages is not that of its content")
    file.seek(data.tell())
    for key in keys:
        _, n, storage = storages.found[key]
        if file.read(8) != struct.pack("<q", n):
            raise PickleRefusal(f"its storage {shorten_name(key)} has two lengths, or none")
        if n and file.readinto(storage.elements.view(torch.uint8).numpy()) != storage.elements.nbytes:  # type: ignore[attr-defined]
            raise PickleRefusal("it ends before its last storage does")
        check_tensor(storage.elements)
    if file.tell() != size:
        raise PickleRefusal("it has something after its last storage")
    return finish_content(content, plain=[Tensor])
