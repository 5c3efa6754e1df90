"""The directory of a zip archive, read so strictly that no two readers could disagree on what is in it.

Archives of torch are written by torch, in one manner: from the first byte to the last, member after member, with the
directory at the end. Anything else that zip files may be is refused before a byte of a member is looked at. PKWARE's
APPNOTE.TXT, 6.3, describes the records.
"""

from __future__ import annotations

import mmap
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Any

from .reading_inert import Refusal, clipped
from .reading_machine import Bytes

MOST_MEMBERS = 100_000  # an optimizer's state has three a parameter
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF
_ZIP64 = 1  # the extra field that holds sizes beyond 4 GB
_BLOCK = 16 * 1024**2  # bytes of a member that are checked at a time


@dataclass(frozen=True, slots=True)
class Member:
    """Where the bytes of a member are. A member that is not stored is compressed, and never looked into."""

    start: int
    size: int
    is_stored: bool
    crc: int


def members(data: Bytes) -> dict[str, Member]:
    """The members of an archive by name, in the order of its directory.

    Raises
    ------
    Refusal
        If the directory is not at the very end, members overlap or are encrypted, two have one name, or any of the
        records says other things of a member than the rest.
    """
    start, end, count = _directory(data)
    found: dict[str, Member] = {}
    position = start
    for _ in range(count):
        position = _add_member(data, position, found, before=start, end=end)
    if position != end:
        raise Refusal("its zip directory is longer or shorter than it says")
    previous = 0
    for member in sorted(found.values(), key=lambda member: member.start):
        if member.start < previous:
            raise Refusal("its zip members overlap")
        previous = member.start + member.size
    return found


def check_sums(data: Bytes, found: dict[str, Member]) -> None:
    """Refuses an archive with a stored member whose bytes are not those that its CRC-32 was computed from.

    ``torch.serialization.set_crc32_options(False)`` writes 0 for every member; of such an archive nothing is known.
    The pages of a mapped file are given back while they are read, so that a check of gigabytes takes no memory.

    Raises
    ------
    Refusal
        If a member differs; names it.
    """
    if not any(member.crc for member in found.values()):
        return
    with memoryview(data) as view:
        for name, member in found.items():
            if not member.is_stored:
                continue
            crc = 0
            for start in range(member.start, member.start + member.size, _BLOCK):
                crc = zlib.crc32(view[start : min(start + _BLOCK, member.start + member.size)], crc)
                if member.size > _BLOCK:
                    forget_pages(data)
            if crc != member.crc:
                raise Refusal(f"its zip member {clipped(name)} is damaged: its bytes differ from its CRC-32")
    forget_pages(data)


def forget_pages(data: Bytes) -> None:
    """Gives the memory of a mapped file back; what is read again comes from the file, so nothing may have changed."""
    if isinstance(data, mmap.mmap) and sys.platform == "linux":  # elsewhere it is advice that may be ignored
        data.madvise(mmap.MADV_DONTNEED)


def _directory(data: Bytes) -> tuple[int, int, int]:
    """Start, end and number of entries of the directory."""
    last = len(data) - _END.size
    signature, disk, first_disk, here, count, size, start, comment = _unpack(_END, data, last)
    if signature != b"PK\5\6" or disk or first_disk or here != count or comment:
        raise Refusal("it is a zip file that does not end with its directory: cut off, or with something appended")
    end = last
    locator = last - _LOCATOR.size
    if locator >= 0 and data[locator : locator + 4] == b"PK\6\7":
        _, disk, end, disks = _unpack(_LOCATOR, data, locator)
        record = _unpack(_END_64, data, end)
        if record[0] != b"PK\6\6" or end + _END_64.size != locator or record[1] != _END_64.size - 12:
            raise Refusal("its zip directory contradicts itself")
        here_64, count_64, size_64, start_64 = record[6:]
        if disk or disks != 1 or record[4] or record[5] or here_64 != count_64:
            raise Refusal("it is one of several parts of a zip archive")
        for short, long, full in (
            (count, count_64, _FULL_16),
            (size, size_64, _FULL_32),
            (start, start_64, _FULL_32),
        ):
            if short not in (long, full):
                raise Refusal("its zip directory contradicts itself")
        count, size, start = count_64, size_64, start_64
    if start + size != end:
        raise Refusal("its zip directory is not where it says")
    if count > MOST_MEMBERS:
        raise Refusal(f"it has {count} zip members, expected at most {MOST_MEMBERS}")
    return start, end, count


def _add_member(data: Bytes, position: int, found: dict[str, Member], *, before: int, end: int) -> int:
    """Adds the member whose entry is at ``position`` and returns where the next entry is."""
    entry = _unpack(_ENTRY, data, position)
    signature, _, _, flags, method, _, _, crc, packed, size, n_name, n_extra, n_comment, disk, _, _, offset = entry
    after_name = position + _ENTRY.size + n_name
    following: int = after_name + n_extra + n_comment
    if signature != b"PK\1\2" or disk or following > end:
        raise Refusal("its zip directory is damaged")
    raw_name = data[position + _ENTRY.size : after_name]
    try:
        name = raw_name.decode()
    except UnicodeDecodeError as error:
        raise Refusal("it has a zip member whose name is not UTF-8") from error
    size, packed, offset = _long_sizes(data[after_name : after_name + n_extra], size, packed, offset)
    if flags & _ENCRYPTED:
        raise Refusal(f"its zip member {clipped(name)} is encrypted")
    if name in found:
        raise Refusal(f"it has two zip members named {clipped(name)}")
    local = _unpack(_LOCAL, data, offset)
    start = offset + _LOCAL.size + local[9] + local[10]
    name_again = data[offset + _LOCAL.size : offset + _LOCAL.size + n_name] if local[9] == n_name else None
    if local[0] != b"PK\3\4" or local[3] != method or name_again != raw_name or start + packed > before:
        raise Refusal(f"its zip member {clipped(name)} is not where and what the directory says")
    if method == 0 and packed != size:
        raise Refusal(f"its zip member {clipped(name)} has two sizes")
    found[name] = Member(start, packed, method == 0, crc)
    return following


def _long_sizes(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The sizes and the offset, those that do not fit in 32 bits from the extra field that is for them."""
    values = [size, packed, offset]
    wanted = [place for place, value in enumerate(values) if value == _FULL_32]
    position = 0
    while wanted and position + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, position)
        if tag == _ZIP64:
            if length < 8 * len(wanted) or position + 4 + length > len(extra):
                break
            for place, value in zip(wanted, struct.unpack_from(f"<{len(wanted)}Q", extra, position + 4), strict=True):
                values[place] = value
            wanted = []
        position += 4 + length
    if wanted:
        raise Refusal("its zip directory lacks sizes")
    return values[0], values[1], values[2]


def _unpack(record: struct.Struct, data: Bytes, position: int) -> tuple[Any, ...]:
    if not 0 <= position <= len(data) - record.size:
        raise Refusal("it is a zip file that is cut off, or whose directory points outside of it")
    return record.unpack(data[position : position + record.size])
