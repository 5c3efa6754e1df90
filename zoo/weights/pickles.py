"""Reads a pickle without running anything of it: its instructions are checked, recorded, and then built.

1. One pass of ``pickletools.genops`` follows what kind of value every instruction finds on the stack, and refuses
   whatever Python's unpickler would fail on: instructions that checkpoints do not use, calls of what is no name, keys
   that take long to hash, distant places of the memo, more memory than the size of the file justifies.
2. ``pickle.Unpickler`` then follows the same instructions. For every name it gets a stand-in, a class that only records
   the arguments it is called with; nothing is imported, and no object of torch or NumPy exists yet.
3. From the record, innermost first, functions of this package build tensors and plain containers in place of the names
   that have such a function; every other name becomes an ``Inert``.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar, NamedTuple, NoReturn, TypeAlias, cast

MOST_INSTRUCTIONS = 5_000_000  # training checkpoints of large encoders have some 100,000
MOST_DEPTH = 100  # of containers in containers, so that content may be walked through by recursion
MOST_VALUES = 10_000_000  # counted as often as a walk through the content meets them

_MOST_NAME_CHARACTERS = 1000  # TorchScript sets no limit
_MOST_ARGUMENTS = 64  # of a call: named tuples and paths have the most
_MOST_INTEGER_BITS = 1024  # the state of a random number generator; more digits take quadratic time to print
_MOST_WIDE_TEXT_BYTES = 1024**2  # of a text beyond Latin-1, which takes up to four times as many in memory
_MOST_TUPLE_KEYS = 1000  # a file can make their hashes collide
_MOST_KEY_CHARACTERS = 10_000
_MOST_KEY_ITEMS = 16
_MOST_KEY_DEPTH = 3
_SMALL_INTEGER = 2**63
_WIDE = re.compile(rb"[\xc4-\xff]")  # in UTF-8, the first byte of any character beyond Latin-1
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = frozenset({bool, int, float, str, bytes, type(None)})
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
_DAMAGE = (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, OverflowError)

# Memory that an instruction of each kind takes, with all that is made of it later: rough upper bounds.
_VALUE_BYTES, _CONTAINER_BYTES, _CALL_BYTES = 40, 600, 2000


class Refusal(Exception):
    """Why a file cannot be read safely: a clause about "it", which ``read_checkpoint`` completes to a sentence."""


class Budget:
    """Memory that the content of a file of ``size_bytes`` may take: a file of kilobytes may not ask for gigabytes."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = 2 * size_bytes + 48 * 1024**2
        self._shown = 4 * size_bytes + 16 * 1024**2

    def spend(self, n_bytes: int) -> None:
        """Takes bytes of memory from the budget; refuses the file if too few are left."""
        self._memory -= n_bytes
        if self._memory < 0:
            raise Refusal("its content would take far more memory than the file has bytes")

    def show(self, n_bytes: int) -> None:
        """Likewise for the numbers of tensors, which take no memory before they are copied."""
        self._shown -= n_bytes
        if self._shown < 0:
            raise Refusal("its tensors have far more numbers than the file has bytes")


class Inert:
    """Stands for an object, a class or a function whose name is known and which is not built.

    Attributes
    ----------
    name : str
        The dotted name in the file: "argparse.Namespace".
    arguments : tuple
        Of its construction; empty for a class itself.
    attributes : dict of str
        Attributes it would have had.
    state : object
        Any other state it would have been given, None mostly.
    """

    __slots__ = ("arguments", "attributes", "name", "state")

    def __init__(self, name: str, arguments: tuple[Any, ...] = (), state: Any = None) -> None:
        self.name = name
        self.arguments = arguments
        self.attributes: dict[str, Any] = {}
        self.state = state

    def __repr__(self) -> str:
        return f"<inert {clipped(self.name)}>"  # not what it holds, which may hold itself


Builder: TypeAlias = Callable[[tuple[Any, ...], Budget], Any]
"""What is run in place of a call of a name: from arguments that are built already to the result."""


class StandIn:
    """Replaces a name in Python's unpickler: a class, as the unpickler needs one, which records its arguments."""

    __slots__ = ("arguments", "has_state", "items", "state")
    name: ClassVar[str] = ""
    build: ClassVar[Builder | None] = None  # None makes an ``Inert``
    step: ClassVar[Callable[[tuple[Any, ...]], Any] | None] = None  # gives another stand-in at once
    takes_state: ClassVar[bool] = False  # the state becomes the last argument

    arguments: tuple[Any, ...]
    items: dict[Any, Any]
    state: Any
    has_state: bool

    def __new__(cls, *arguments: Any) -> Any:
        if cls.step is not None:
            return cls.step(arguments)
        made = object.__new__(cls)
        made.arguments, made.items, made.state, made.has_state = arguments, _NO_ITEMS, None, False
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        """Records an item of what may be a dictionary."""
        if self.items is _NO_ITEMS:
            self.items = {}
        self.items[key] = value

    def __setstate__(self, state: Any) -> None:
        """Records what would have been its attributes."""
        if self.has_state:
            raise Refusal("its pickle sets the state of an object twice")
        self.has_state = True
        if self.takes_state:
            self.arguments += (state,)
        else:
            self.state = state


_NO_ITEMS: dict[Any, Any] = {}
Lookup: TypeAlias = Callable[[str], type[StandIn] | None]
"""From a dotted name to its stand-in; None if it has none."""


def stand_in(
    name: str,
    build: Builder | None = None,
    *,
    step: Callable[[tuple[Any, ...]], Any] | None = None,
    takes_state: bool = False,
) -> type[StandIn]:
    """A stand-in for a name."""
    members = {"__slots__": (), "name": name, "build": build, "step": step, "takes_state": takes_state}
    return type("StandIn", (StandIn,), members)


def named(name: str, lookup: Lookup) -> type[StandIn]:
    """The stand-in for a name of a pickle; refuses a name that has no place in a checkpoint."""
    kind = lookup(name) if len(name) <= _MOST_NAME_CHARACTERS else None
    if kind is None:
        raise Refusal(f"it asks for {clipped(name)}, which no known kind of checkpoint needs")
    return kind


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
        return len(key) <= _MOST_KEY_CHARACTERS
    return key is None or type(key) is float or type(key) is bool


def clipped(name: object) -> str:
    """A text from a file, fit for a message: on one line, quoted, not longer than a line."""
    text = name if isinstance(name, str) else type(name).__name__
    return repr(text if len(text) <= 80 else f"{text[:60]}...")


# --- 1. the pass over the instructions -------------------------------------------------------------------------------

# Kinds of values on the stack. Those of tuples that may be keys are 1 to 3, by their depth.
_VALUE, _TUPLE, _MADE, _LIST, _DICT, _SET, _OTHER = 0, 4, 5, 6, 7, 8, 9
_PUSHED = {
    **dict.fromkeys(("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINFLOAT"), _VALUE),
    **dict.fromkeys(("LONG1", "LONG4", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "SHORT_BINSTRING"), _VALUE),
    **dict.fromkeys(("BINSTRING", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"), _VALUE),
    "BYTEARRAY8": _OTHER,
    "EMPTY_TUPLE": 1,
    "GLOBAL": _MADE,
}
_EMPTY = {"EMPTY_LIST": _LIST, "EMPTY_DICT": _DICT, "EMPTY_SET": _SET}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ADDED_TO = {"APPEND": _LIST, "APPENDS": _LIST, "SETITEM": _DICT, "SETITEMS": _DICT, "ADDITEMS": _SET}
_TEXTS = (b"X", b"\x8d")  # BINUNICODE and BINUNICODE8


class _Source:
    """A file for ``genops``, which reads as much as it is asked for: not beyond the end, no endless lines."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self.tell = file.tell
        self._file = file
        self._end = end
        self._code = b""

    def read(self, n: int) -> bytes:
        """The next bytes: an instruction, a length, or an argument of that length."""
        if n > 255 and n > self._end - self._file.tell():
            raise Refusal("it ends in the middle of a pickle")
        raw = self._file.read(n)
        if n == 1:
            self._code = raw  # before anything long, this is the instruction
        elif n > _MOST_WIDE_TEXT_BYTES and self._code in _TEXTS and _WIDE.search(raw):
            raise Refusal(f"it has a text of {n} bytes that are no numbers")
        return raw

    def readline(self) -> bytes:
        """The next line: a module or a name; other instructions with lines are those of protocol 0."""
        if self._code != b"c":
            raise Refusal(f"its pickle uses the instruction {clipped(self._code.decode('latin-1'))} of protocol 0")
        line = self._file.readline(_MOST_NAME_CHARACTERS)
        if not line.endswith(b"\n"):
            raise Refusal("its pickle has a name that does not end")
        return line


class _Pass:
    """Kinds of the values that the stack and the memo of an unpickler would hold."""

    def __init__(self, budget: Budget) -> None:
        self.spend = budget.spend
        self.stack: list[int] = []
        self.marked: list[list[int]] = []  # the stack below each mark
        self.memo: dict[int, int] = {}
        self.n_tuple_keys = 0

    def follow(self, name: str, argument: Any, n: int) -> None:
        """Refuses the ``n``-th instruction, or does to the kinds what it would do to the values."""
        stack = self.stack
        if name in _PUSHED:
            self.spend((_CALL_BYTES if name == "GLOBAL" else _VALUE_BYTES) + sys.getsizeof(argument))
            stack.append(_PUSHED[name] if _is_short(argument) else _OTHER)
            return
        if name in ("BINGET", "LONG_BINGET"):
            self.spend(_VALUE_BYTES)
            if argument not in self.memo:
                raise Refusal("its pickle refers to an object that it does not have")
            stack.append(self.memo[argument])
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self.spend(_VALUE_BYTES)
            place = len(self.memo) if name == "MEMOIZE" else argument
            if place > max(n, 255):  # the unpickler makes room for all places before it
                raise Refusal("its pickle skips most places of its memo")
            self.memo[place] = stack[-1]
        elif name in _EMPTY:
            self.spend(_CONTAINER_BYTES)
            stack.append(_EMPTY[name])
        elif name == "MARK":
            self.spend(_VALUE_BYTES)
            self.marked.append(stack)
            self.stack = []
        elif name in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[name])]
            self.push_tuple(items)
        elif name == "TUPLE":
            self.push_tuple(self.above_mark())
        elif name in _ADDED_TO:
            self.add(name)
        else:
            self.spend(_CALL_BYTES)
            self.call(name)

    def above_mark(self) -> list[int]:
        """Removes the topmost mark and returns what lies above it."""
        items, self.stack = self.stack, self.marked.pop()
        return items

    def push_tuple(self, items: list[int]) -> None:
        """Pushes a tuple: one that may be a key, one that may be arguments, or one that may be neither."""
        self.spend(_CONTAINER_BYTES)
        depth = 1 + max(items, default=0)
        if depth <= _MOST_KEY_DEPTH and len(items) <= _MOST_KEY_ITEMS:
            self.stack.append(depth)
        else:
            self.stack.append(_TUPLE if len(items) <= _MOST_ARGUMENTS else _OTHER)

    def add(self, name: str) -> None:
        """Adds items to a list, a dictionary, a set, or to what may become a dictionary."""
        if name in ("APPEND", "SETITEM"):
            items = [self.stack.pop() for _ in range(1 if name == "APPEND" else 2)][::-1]
        else:
            items = self.above_mark()
        target, wanted = self.stack[-1], _ADDED_TO[name]
        if target != wanted and not (target == _MADE and wanted == _DICT):
            raise Refusal("its pickle adds items to what has no such items")
        if wanted == _DICT:
            if len(items) % 2:
                raise Refusal("its pickle has a key without a value")
            self.keys(items[::2])
        elif wanted == _SET:
            self.keys(items)

    def keys(self, keys: Sequence[int]) -> None:
        """Refuses keys that take long to hash or to compare."""
        self.n_tuple_keys += sum(0 < key <= _MOST_KEY_DEPTH for key in keys)
        if self.n_tuple_keys > _MOST_TUPLE_KEYS:
            raise Refusal("it uses very many tuples as keys")
        if any(_MOST_KEY_DEPTH < key != _MADE for key in keys):
            raise Refusal("it uses a container, a large tuple or a huge number as a key")

    def call(self, name: str) -> None:
        """Names, calls, states, and references to the outside."""
        stack = self.stack
        if name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX"):
            if name == "NEWOBJ_EX" and stack.pop() != _DICT:
                raise Refusal("its pickle calls something with odd arguments")
            arguments, called = stack.pop(), stack.pop()
            if called != _MADE or not 0 < arguments <= _TUPLE:
                raise Refusal("its pickle calls what is not a name, or with what are no arguments of it")
            stack.append(_MADE)
        elif name == "BUILD":
            stack.pop()
            if stack[-1] != _MADE:
                raise Refusal("its pickle sets the state of something that has none")
        elif name == "STACK_GLOBAL":
            if (stack.pop(), stack.pop()) != (_VALUE, _VALUE):
                raise Refusal("its pickle has a name that is not a text")
            stack.append(_MADE)
        elif name == "BINPERSID":
            stack.pop()
            stack.append(_OTHER)
        elif name == "FROZENSET":
            self.keys(self.above_mark())
            self.stack.append(_OTHER)
        else:
            raise Refusal(f"its pickle uses the instruction {name}, which checkpoints do not")


def _is_short(argument: Any) -> bool:
    """True if a value may be a key; refuses what no pickle of a checkpoint has."""
    if type(argument) is str and not argument.isascii() and _SURROGATE.search(argument):
        raise Refusal("its pickle has a text that is not UTF-8")
    if type(argument) is int and argument.bit_length() > _MOST_INTEGER_BITS:
        raise Refusal(f"its pickle has an integer of {argument.bit_length()} bits, expected at most 1024")
    return is_plain_key(argument)


def _check_instructions(file: BinaryIO, *, end: int, budget: Budget) -> None:
    """Refuses a pickle that is not safe to be recorded; ``file`` is then behind it."""
    values = _Pass(budget)
    frame_end = 0
    position = file.tell()
    try:
        for n, (instruction, argument, at) in enumerate(pickletools.genops(cast(BinaryIO, _Source(file, end)))):
            position = cast(int, at)
            if n >= MOST_INSTRUCTIONS:
                raise Refusal(f"its pickle has more than {MOST_INSTRUCTIONS} instructions")
            if frame_end and position >= frame_end:
                if position > frame_end:  # the unpickler would go on elsewhere than this pass
                    raise Refusal("its pickle has an instruction in two frames")
                frame_end = 0
            if instruction.name == "FRAME":
                frame_end = position + 9 + cast(int, argument) if not frame_end else end + 1
                if frame_end > end:
                    raise Refusal("its pickle has a frame that does not end, or frames in frames")
            elif instruction.name == "PROTO":
                if cast(int, argument) > 5:
                    raise Refusal(f"its pickle is of protocol {argument}, expected at most 5")
            elif instruction.name != "STOP":
                values.follow(instruction.name, argument, n)
    except IndexError as error:
        raise Refusal("its pickle takes more off its stack than is there") from error
    except ValueError as error:
        raise Refusal(f"its pickle is damaged ({clipped(str(error))})") from error
    if len(values.stack) != 1 or values.marked:
        raise Refusal("its pickle does not end with one object")
    if file.tell() > end or frame_end not in (0, file.tell()):
        raise Refusal("it ends in the middle of a pickle")


# --- 2. the record ---------------------------------------------------------------------------------------------------


class _Recorder(pickle.Unpickler):
    """Python's unpickler, with stand-ins for all names and no way to any other."""

    def __init__(self, file: BinaryIO, lookup: Lookup, persistent: Callable[[Any], Any] | None) -> None:
        super().__init__(file, encoding="latin1")  # strings of Python 2, of which numbers of arrays are some
        self._lookup = lookup
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> type[StandIn]:
        return named(f"{module}.{name}", self._lookup)

    def persistent_load(self, identity: Any) -> Any:
        if self._persistent is None:
            raise Refusal("its pickle refers to tensors outside of it, where there are none")
        return self._persistent(identity)


def recorded(
    file: BinaryIO,
    *,
    end: int,
    lookup: Lookup,
    budget: Budget,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The content of the pickle at the position of a file, as plain values and stand-ins; the file is then behind it.

    The file is read twice. The pickle ends at ``end`` at the latest; one with persistent ids is refused if
    ``persistent``, which gives the storage that an id names, is None.
    """
    start = file.tell()
    _check_instructions(file, end=end, budget=budget)
    behind = file.tell()
    file.seek(start)
    try:
        content = _Recorder(file, lookup, persistent).load()
    except _DAMAGE as error:
        raise Refusal(f"its pickle is damaged ({clipped(str(error))})") from error
    if file.tell() != behind:
        raise Refusal("its pickle does not end where its instructions do")
    return content


# --- 3. what is built of the record ----------------------------------------------------------------------------------


def built(content: Any, budget: Budget) -> Any:
    """The content that a record describes: plain values in plain containers, tensors, and ``Inert``.

    Refused are containers that hold themselves, are nested deeply, or hold each other so often that a walk through them
    would not end, and calls that no checkpoint makes. Inert objects may hold each other, as configurations do; code
    that walks through containers must not enter them.
    """
    building = _Building(budget)
    value = building.of(content)
    while building.inert:
        made, of = building.inert.pop()
        made.arguments = building.of(of.arguments)
        _set_state(made, building.of(of.state), budget)
    return value


class _Done(NamedTuple):
    record: Any  # referenced, so that its id is not reused
    value: Any
    n: int  # values in it
    depth: int
    is_loose: bool  # contains a storage, which only the arguments of a call may


class _Building:
    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.inert: list[tuple[Inert, StandIn]] = []  # their content is built last
        self._done: dict[int, _Done] = {}

    def of(self, root: Any) -> Any:
        """What is built from a record, after everything in it."""
        path: list[tuple[Any, list[Any], Iterator[Any]]] = []  # from the root to the present record
        open_: set[int] = set()
        entered: list[Any] = [] if type(root) in _PLAIN or id(root) in self._done else [root]
        while path or entered:
            if entered:
                record = entered.pop()
                parts = _parts(record)
                path.append((record, parts, iter(parts)))
                open_.add(id(record))
            record, parts, rest = path[-1]
            for part in rest:
                if type(part) not in _PLAIN and id(part) not in self._done:
                    if id(part) in open_ or len(path) > MOST_DEPTH:
                        raise Refusal("it has containers that hold themselves, or nests them too deeply")
                    entered.append(part)
                    break
            else:
                path.pop()
                open_.discard(id(record))
                self._finish(record, parts)
        done = self._done.get(id(root))
        if done is not None and done.is_loose:
            raise Refusal("it holds a storage that is no tensor's")
        return self._value(root)

    def _finish(self, record: Any, parts: list[Any]) -> None:
        n, depth, is_loose = 1, 1, False
        for part in parts:
            done = self._done.get(id(part))
            n += 1 if done is None else done.n
            if done is not None:
                depth = max(depth, done.depth + 1)
                is_loose = is_loose or done.is_loose
        if n > MOST_VALUES or depth > MOST_DEPTH:
            raise Refusal("it nests containers too deeply, or uses them over and over in each other")
        value = self._made(record)
        if type(value) not in _CONTAINERS:
            is_loose = type(record) not in _RECORDS and not isinstance(record, StandIn | type)
        self._done[id(record)] = _Done(record, value, n, depth, is_loose)

    def _made(self, record: Any) -> Any:
        if type(record) is dict:
            return self._filled({} if any(id(key) in self._done for key in record) else record, record)
        if type(record) is list:
            record[:] = map(self._value, record)
        elif type(record) is tuple:
            return tuple(map(self._value, record))
        elif type(record) is set or type(record) is frozenset:
            return type(record)(map(self._key, record))
        elif type(record) is bytearray:
            return bytes(record)
        elif isinstance(record, StandIn):
            return self._called(record)
        elif isinstance(record, type) and issubclass(record, StandIn):
            return Inert(record.name)
        return record

    def _called(self, record: StandIn) -> Any:
        kind = type(record)
        if kind.build is None:
            if record.items:
                raise Refusal(f"it has items of {clipped(kind.name)}, which is no dictionary")
            made = Inert(kind.name, record.arguments, record.state)
            self.inert.append((made, record))
            return made
        value = kind.build(tuple(map(self._value, record.arguments)), self.budget)
        if type(value) is dict:  # attributes of a subclass of dict are left out
            return self._filled(value, record.items)
        if record.items or (record.has_state and not kind.takes_state):
            raise Refusal(f"it sets items or the state of {clipped(kind.name)}, which has none")
        return value

    def _filled(self, target: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
        for key, value in items.items():
            target[self._key(key)] = self._value(value)
        return target

    def _value(self, record: Any) -> Any:
        done = self._done.get(id(record))
        return record if done is None else done.value

    def _key(self, record: Any) -> Any:
        key = self._value(record)
        if not (is_plain_key(key, depth=_MOST_KEY_DEPTH) or isinstance(key, Inert)):
            raise Refusal("it uses a container, a tensor or a huge number as a key")
        return key


_RECORDS = _CONTAINERS | {bytearray}


def _parts(record: Any) -> list[Any]:
    """Records that must be built before this one."""
    if type(record) is dict:
        return [*record.keys(), *record.values()]
    if isinstance(record, StandIn):
        if type(record).build is None:  # which may hold itself
            return []
        return [*record.arguments, *record.items.keys(), *record.items.values()]
    return list(record) if type(record) in _CONTAINERS else []


def _set_state(target: Inert, state: Any, budget: Budget) -> None:
    target.state = None
    parts = state if type(state) is tuple and len(state) == 2 else (state,)  # two dicts of a class with __slots__
    if not all(part is None or type(part) is dict for part in parts):
        target.state = state
        return
    for part in parts:
        budget.spend(100 * len(part or {}))  # about what an entry of a dict takes
        for name, value in (part or {}).items():
            if type(name) is str and is_plain_key(name):
                target.attributes[name] = value


def odd_arguments(name: str) -> NoReturn:
    """Refuses a known name that is called with unexpected arguments."""
    raise Refusal(f"it calls {clipped(name)} in a way that checkpoints do not")
