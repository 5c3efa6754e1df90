"""Numbers, texts, bytes and empty containers of a pickle."""

from __future__ import annotations

import pickle  # only the names of its instructions
import struct
from collections.abc import Callable
from typing import Any

from .reading_inert import Refusal
from .reading_machine import Machine, table

_MOST_INTEGER_BYTES = 128  # the state of a random number generator; more digits take quadratic time to print
_MOST_NAME_BYTES = 1000
_SET_BYTES = 216  # of an empty one, which takes one byte in a file


def line(machine: Machine) -> str:
    """The text up to the end of the line: a module or a name."""
    end = machine.data.find(b"\n", machine.position, machine.position + _MOST_NAME_BYTES)
    if end < 0:
        raise Refusal("its pickle has a name that does not end")
    text = _text(machine.take(end - machine.position))
    machine.position += 1
    return text


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Refusal("its pickle has a text that is not UTF-8") from error


def _old_string(raw: bytes) -> str | bytes:
    """A string of Python 2, which was text or bytes; encoding the text again gives the same bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _integer(machine: Machine, n_bytes: int) -> int:
    if n_bytes > _MOST_INTEGER_BYTES:
        raise Refusal(f"its pickle has an integer of {n_bytes} bytes, expected at most {_MOST_INTEGER_BYTES}")
    return int.from_bytes(machine.take(n_bytes), "little", signed=True)


def _float(machine: Machine) -> float:
    (number,) = struct.unpack(">d", machine.take(8))
    return float(number)


def _empty_set(machine: Machine) -> set[Any]:
    machine.budget.spend(_SET_BYTES)
    return set()


_BY_CODE: dict[bytes, Callable[[Machine], Any]] = {
    pickle.NONE: lambda machine: None,
    pickle.NEWTRUE: lambda machine: True,
    pickle.NEWFALSE: lambda machine: False,
    pickle.BININT: lambda machine: _integer(machine, 4),
    pickle.BININT1: lambda machine: machine.byte(),
    pickle.BININT2: lambda machine: machine.number(2),
    pickle.LONG1: lambda machine: _integer(machine, machine.byte()),
    pickle.LONG4: lambda machine: _integer(machine, machine.number(4)),
    pickle.BINFLOAT: _float,
    pickle.SHORT_BINBYTES: lambda machine: machine.take(machine.byte()),
    pickle.BINBYTES: lambda machine: machine.take(machine.number(4)),
    pickle.BINBYTES8: lambda machine: machine.take(machine.number(8)),
    pickle.BYTEARRAY8: lambda machine: machine.take(machine.number(8)),
    pickle.SHORT_BINUNICODE: lambda machine: _text(machine.take(machine.byte())),
    pickle.BINUNICODE: lambda machine: _text(machine.take(machine.number(4))),
    pickle.BINUNICODE8: lambda machine: _text(machine.take(machine.number(8))),
    pickle.SHORT_BINSTRING: lambda machine: _old_string(machine.take(machine.byte())),
    pickle.BINSTRING: lambda machine: _old_string(machine.take(machine.number(4))),
    pickle.EMPTY_TUPLE: lambda machine: (),
    pickle.EMPTY_LIST: lambda machine: [],
    pickle.EMPTY_DICT: lambda machine: {},
    pickle.EMPTY_SET: _empty_set,
}
LITERALS = table(_BY_CODE)
"""What an instruction that only pushes a value pushes, after it has taken what it needs; by its code."""
