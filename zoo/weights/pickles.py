"""Reads a pickle without Python's unpickler: its instructions are followed here, and no name in it is ever imported.

A name has a function of this package that is run in its place, or it becomes an ``InertObject``, which does nothing;
both are in :mod:`zoo.weights.pickle_names`, and any other name is refused. So are instructions that checkpoints do not
use, keys that take long to hash, and content that would take far more memory than the file has bytes.
"""

from __future__ import annotations

import mmap
import pickletools
import sys
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeAlias, cast

MOST_INSTRUCTIONS = 5_000_000  # training checkpoints of large encoders have some 100,000
MOST_DEPTH = 100  # of containers in containers, so that content may be walked through by recursion
MOST_VALUES = 10_000_000  # counted as often as a walk through the content meets them
MOST_KEY_CHARACTERS = 10_000  # of a key, for equal texts take long to compare

_MOST_NAME_CHARACTERS = 1000  # TorchScript sets no limit
_MOST_ARGUMENTS = 64  # of a call: named tuples and paths have the most
_MOST_INTEGER_BITS = 1024  # the state of a random number generator
_MOST_TUPLE_KEYS = 1000  # a file can make their hashes collide
_MOST_KEY_ITEMS = 16
_MOST_KEY_DEPTH = 3
_SMALL_INTEGER = 2**63

GATHER_FSDP = (
    "save the whole where it was trained: torch.distributed.checkpoint.state_dict.get_model_state_dict(model, "
    "options=StateDictOptions(full_state_dict=True, cpu_offload=True))"
)

# memory that an instruction of each kind takes, with all that is made of it later: rough upper bounds
_VALUE_BYTES, _CONTAINER_BYTES, _CALL_BYTES = 40, 600, 2000


class PickleRefusal(Exception):
    """Why a file cannot be read safely: a clause about "it", which ``read_checkpoint`` completes to a sentence."""

    def __init__(self, reason: str, *, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy or "nothing of it was run, take it from another source or save its tensors alone"


class MemoryBudget:
    """Memory that the content of a file of ``size_bytes`` may take: a file of kilobytes may not ask for gigabytes."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = 2 * size_bytes + 48 * 1024**2
        self._shown = 4 * size_bytes + 16 * 1024**2

    def spend(self, n_bytes: int) -> None:
        """Takes bytes of memory from the budget; refuses the file if too few are left."""
        self._memory -= n_bytes
        if self._memory < 0:
            raise PickleRefusal("its content would take far more memory than the file has bytes")

    def show(self, n_bytes: int) -> None:
        """Likewise for the numbers of tensors, which take no memory before they are copied."""
        self._shown -= n_bytes
        if self._shown < 0:
            raise PickleRefusal("its tensors have far more numbers than the file has bytes")


class InertObject:
    """Stands for an object, a class or a function whose name is known and which is not built."""

    __slots__ = ("arguments", "attributes", "name", "state")

    def __init__(self, name: str, arguments: tuple[Any, ...] = ()) -> None:
        self.name = name  # dotted, as in the file: "argparse.Namespace"
        self.arguments = arguments  # of its construction; empty for a class itself
        self.attributes: dict[str, Any] = {}  # that it would have had
        self.state: Any = None  # any other that it would have been given

    def __repr__(self) -> str:
        return f"<inert {shorten_name(self.name)}>"  # not what it holds, which may hold itself

    def set_state(self, state: Any, budget: MemoryBudget) -> None:
        """Takes what would have become its attributes: a dict, or two of a class with ``__slots__``."""
        parts = state if type(state) is tuple and len(state) == 2 else (state,)
        if not all(part is None or type(part) is dict for part in parts):
            self.state = state
            return
        for part in parts:
            budget.spend(100 * len(part or {}))  # about what an entry of a dict takes
            names = {name: value for name, value in (part or {}).items() if type(name) is str}
            self.attributes.update(names)


Builder: TypeAlias = Callable[[tuple[Any, ...], MemoryBudget], Any]
"""What is run in place of a call of a name: from its arguments to the result, None if they are unexpected."""


class GlobalName(InertObject):
    """A class or a function, by name: what a pickle calls; without a builder a call gives an ``InertObject``."""

    __slots__ = ("build",)

    def __init__(self, name: str, build: Builder | None = None) -> None:
        super().__init__(name)
        self.build = build


class DeferredObject:
    """What a call makes of its arguments and of the state that follows it, such as an array of NumPy."""

    __slots__ = ("_build", "value")

    def __init__(self, build: Callable[[Any, MemoryBudget], Any]) -> None:
        self._build, self.value = build, None

    def set_state(self, state: Any, budget: MemoryBudget) -> None:
        """Builds it."""
        if self.value is not None:
            raise PickleRefusal("its pickle sets the state of an object twice")
        self.value = self._build(state, budget)


Lookup: TypeAlias = Callable[[str], GlobalName | None]
"""From a dotted name to what stands for it; None if it has no place in a checkpoint."""


def resolve_global(name: str, lookup: Lookup) -> GlobalName:
    """What stands for a name; a name that has no place in a checkpoint is refused."""
    found = lookup(name) if len(name) <= _MOST_NAME_CHARACTERS else None
    if found is None and name.startswith("torch.distributed."):
        raise PickleRefusal(
            f"it holds {shorten_name(name)}, the part that one process has of a network", remedy=GATHER_FSDP
        )
    if found is None:
        raise PickleRefusal(f"it asks for {shorten_name(name)}, which no known kind of checkpoint needs")
    return found


def is_plain_key(key: object, *, depth: int = 0) -> bool:
    """True if looking a key up is fast, however often a file repeats it; ``depth`` is that of tuples in tuples.

    Long texts that are equal take long to compare, huge integers can be made to share one hash, and the hash of a tuple
    takes as long as everything in it, counted as often as it occurs there.
    """
    if type(key) is int:
        return -_SMALL_INTEGER <= key < 2 * _SMALL_INTEGER
    if type(key) is tuple:
        return depth > 0 and len(key) <= _MOST_KEY_ITEMS and all(is_plain_key(item, depth=depth - 1) for item in key)
    if type(key) is str or type(key) is bytes:
        return len(key) <= MOST_KEY_CHARACTERS
    return key is None or type(key) is float or type(key) is bool


def shorten_name(name: object) -> str:
    """A text from a file, fit for a message: on one line, quoted, not longer than a line."""
    text = name if isinstance(name, str) else type(name).__name__
    return repr(text if len(text) <= 80 else f"{text[:60]}...")


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_WITH_VALUES = {
    *("BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1", "LONG4", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("BYTEARRAY8", "SHORT_BINSTRING", "BINSTRING", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
}
_EMPTY: dict[str, type] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ADDED_TO: dict[str, type[Any]] = {"APPEND": list, "APPENDS": list, "SETITEM": dict, "SETITEMS": dict, "ADDITEMS": set}


class _PickleMachine:
    """The stack and the memo of a pickle, and what its instructions do to them."""

    def __init__(self, lookup: Lookup, budget: MemoryBudget, persistent: Callable[[Any], Any] | None) -> None:
        self.lookup, self.budget, self.persistent = lookup, budget, persistent
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []  # the stack below each mark
        self.memo: dict[int, Any] = {}
        self.n_tuple_keys = 0

    def follow(self, name: str, argument: Any) -> None:
        """Does what an instruction says, or refuses it."""
        stack, spend = self.stack, self.budget.spend
        if name in _WITH_VALUES:
            spend(_VALUE_BYTES + sys.getsizeof(argument))
            stack.append(_value(argument))
        elif name in ("BINGET", "LONG_BINGET"):
            spend(_VALUE_BYTES)
            if argument not in self.memo:
                raise PickleRefusal("its pickle refers to an object that it does not have")
            stack.append(self.memo[argument])
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            spend(_VALUE_BYTES)
            place = len(self.memo) if name == "MEMOIZE" else argument
            if place > len(self.memo) + 255:
                raise PickleRefusal("its pickle skips most places of its memo")
            self.memo[place] = stack[-1]
        elif name in _CONSTANTS:
            spend(_VALUE_BYTES)
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            spend(_CONTAINER_BYTES)
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            spend(_VALUE_BYTES)
            self.marked.append(stack)
            self.stack = []
        elif name in _TUPLES:
            spend(_CONTAINER_BYTES)
            items = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(reversed(items)))
        elif name == "TUPLE":
            spend(_CONTAINER_BYTES)
            items = self.above_mark()
            self.stack.append(tuple(items))
        elif name in _ADDED_TO:
            self.add(name)
        else:
            spend(_CALL_BYTES)
            self.call(name, argument)

    def above_mark(self) -> list[Any]:
        """Removes the topmost mark and returns what lies above it."""
        items, self.stack = self.stack, self.marked.pop()
        return items

    def add(self, name: str) -> None:
        """Adds items to a list, a dictionary or a set."""
        if name in ("APPEND", "SETITEM"):
            items = [self.stack.pop() for _ in range(1 if name == "APPEND" else 2)][::-1]
        else:
            items = self.above_mark()
        target, kind = self.stack[-1], _ADDED_TO[name]
        if type(target) is InertObject:  # of a class that is a list or a dictionary; the items are not kept
            return
        if type(target) is not kind:
            raise PickleRefusal("its pickle adds items to what has no such items")
        if kind is list:
            target.extend(items)
        elif kind is set:
            target.update(self.keys(items))
        elif len(items) % 2:
            raise PickleRefusal("its pickle has a key without a value")
        else:
            target.update(zip(self.keys(items[::2]), items[1::2], strict=True))

    def keys(self, keys: list[Any]) -> list[Any]:
        """The keys, unless they take long to hash or to compare."""
        self.n_tuple_keys += sum(type(key) is tuple for key in keys)
        if self.n_tuple_keys > _MOST_TUPLE_KEYS:
            raise PickleRefusal("it uses very many tuples as keys")
        if not all(isinstance(key, InertObject) or is_plain_key(key, depth=_MOST_KEY_DEPTH) for key in keys):
            raise PickleRefusal("it uses a container, a large tuple, a tensor or a huge number as a key")
        return keys

    def call(self, name: str, argument: Any) -> None:
        """Names, calls, states, and references to the outside."""
        stack = self.stack
        if name == "GLOBAL":
            stack.append(resolve_global(argument.replace(" ", ".", 1), self.lookup))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            if type(attribute) is not str or type(module) is not str:
                raise PickleRefusal("its pickle has a name that is not a text")
            stack.append(resolve_global(f"{module}.{attribute}", self.lookup))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, called = stack.pop(), stack.pop()
            if type(called) is not GlobalName or type(arguments) is not tuple or len(arguments) > _MOST_ARGUMENTS:
                raise PickleRefusal("its pickle calls what is not a name, or with what are no arguments of it")
            made = called.build(arguments, self.budget) if called.build else InertObject(called.name, arguments)
            if made is None:
                raise PickleRefusal(f"it calls {shorten_name(called.name)} in a way that checkpoints do not")
            stack.append(made)
        elif name == "BUILD":
            state, target = stack.pop(), stack[-1]
            if type(target) is InertObject or type(target) is DeferredObject:
                target.set_state(state, self.budget)
            elif type(target) is not dict:  # attributes of a subclass of dict are left out
                raise PickleRefusal("its pickle sets the state of something that has none")
        elif name == "BINPERSID":
            if self.persistent is None:
                raise PickleRefusal("its pickle refers to tensors outside of it, where there are none")
            stack.append(self.persistent(stack.pop()))
        elif name == "FROZENSET":
            items = self.keys(self.above_mark())
            self.stack.append(set(items))
        else:
            raise PickleRefusal(f"its pickle uses the instruction {name}, which checkpoints do not")


def _value(argument: Any) -> Any:
    """The value that an instruction pushes; refuses what no pickle of a checkpoint has."""
    if type(argument) is int and argument.bit_length() > _MOST_INTEGER_BITS:
        raise PickleRefusal(f"its pickle has an integer of {argument.bit_length()} bits, expected at most 1024")
    if type(argument) is str and not argument.isascii():
        argument.encode()  # half a character is an error
    return bytes(argument) if type(argument) is bytearray else argument


class _PickleReader:
    """A mapped file for ``genops``, which would import a codec for some instructions of protocol 0, all with lines."""

    def __init__(self, data: mmap.mmap) -> None:
        self.tell = data.tell
        self._data, self._code = data, b""

    def read(self, n: int) -> bytes:
        """The next bytes: an instruction, a length, or an argument of that length."""
        raw = self._data.read(n)
        if n == 1:
            self._code = raw  # before a line, this is the instruction
        return raw

    def readline(self) -> bytes:
        """The next line: a module or a name."""
        if self._code != b"c":
            raise PickleRefusal(
                f"its pickle uses the instruction {shorten_name(self._code.decode('latin-1'))} of protocol 0"
            )
        return self._data.readline()


def read_pickle(
    data: mmap.mmap,
    *,
    end: int,
    lookup: Lookup,
    budget: MemoryBudget,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The content of the pickle at the position of a mapped file, which is then behind it; see :func:`finish_content`.

    It ends at ``end`` at the latest. ``persistent`` gives the storage that a persistent id names.
    """
    machine = _PickleMachine(lookup, budget, persistent)
    frame_end = 0
    try:
        for number, (instruction, argument, at) in enumerate(pickletools.genops(cast(BinaryIO, _PickleReader(data)))):
            position, name = cast(int, at), instruction.name
            if number >= MOST_INSTRUCTIONS:
                raise PickleRefusal(f"its pickle has more than {MOST_INSTRUCTIONS} instructions")
            if position >= end:
                raise PickleRefusal("it ends in the middle of a pickle")
            if frame_end and position >= frame_end:
                if position > frame_end:  # another reader would go on elsewhere
                    raise PickleRefusal("its pickle has an instruction in two frames")
                frame_end = 0
            if name == "FRAME":
                frame_end = position + 9 + cast(int, argument) if not frame_end else end + 1
                if frame_end > end:
                    raise PickleRefusal("its pickle has a frame that does not end, or frames in frames")
            elif name == "PROTO":
                if cast(int, argument) > 5:
                    raise PickleRefusal(f"its pickle is of protocol {argument}, expected at most 5")
            elif name != "STOP":
                machine.follow(name, argument)
    except IndexError:
        raise PickleRefusal("its pickle takes more off its stack than is there") from None
    except (ValueError, OverflowError) as error:
        raise PickleRefusal(f"its pickle is damaged ({shorten_name(str(error))})") from error
    if len(machine.stack) != 1 or machine.marked:
        raise PickleRefusal("its pickle does not end with one object")
    if data.tell() > end or frame_end not in (0, data.tell()):
        raise PickleRefusal("it ends in the middle of a pickle")
    return machine.stack[0]


def finish_content(content: Any, *, plain: Iterable[type]) -> Any:
    """Content of plain values, containers, ``InertObject`` and types ``plain``; what is built later is put in place.

    Refused are containers that hold themselves, are nested deeply, or hold each other so often that a walk through them
    would not end. An ``InertObject`` may hold itself, as configurations do; a walk through content must not enter it.
    """
    return _ContentWalk({bool, int, float, str, bytes, type(None), set, InertObject, GlobalName, *plain}).through(
        content, 1
    )[0]


class _ContentWalk:
    """Through content; a class, for a function in a function would hold all of it until the next garbage collection."""

    def __init__(self, allowed: set[type]) -> None:
        self.allowed = allowed
        self.entered: set[int] = set()
        self.done: dict[int, tuple[Any, Any, int, int]] = {}  # by id: the container, and what ``through`` gives

    def through(self, value: Any, depth: int) -> tuple[Any, int, int]:
        """What a value becomes, how many values are in it, and how deep it is."""
        if type(value) is DeferredObject:
            if value.value is None:
                raise PickleRefusal("it has an object that is never given its state")
            return value.value, 1, 0
        if type(value) not in (dict, list, tuple):
            if type(value) not in self.allowed:
                raise PickleRefusal("it holds a storage that is no tensor's")
            return value, 1, 0
        if id(value) not in self.done:
            if id(value) in self.entered or depth > MOST_DEPTH:
                raise PickleRefusal("it has containers that hold themselves, or nests them too deeply")
            self.entered.add(id(value))
            parts = [self.through(part, depth + 1) for part in (value.values() if type(value) is dict else value)]
            became: Any = [item for item, _, _ in parts]
            if type(value) is tuple:
                became = tuple(became)
            elif type(value) is list:
                value[:], became = became, value
            else:
                value.update(dict(zip(value, became, strict=True)))
                became = value
            n = 1 + sum(n for _, n, _ in parts) + (len(value) if type(value) is dict else 0)
            height = 1 + max((height for _, _, height in parts), default=0)
            self.done[id(value)] = value, became, n, height
        _, became, n, height = self.done[id(value)]
        if n > MOST_VALUES or depth + height > MOST_DEPTH + 1:
            raise PickleRefusal("it nests containers too deeply, or uses them over and over in each other")
        return became, n, height
