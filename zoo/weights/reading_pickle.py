"""Follows the instructions of a pickle, and can do nothing but fill plain containers.

Python's own unpickler imports whatever a file names and calls whatever a file likes, before any check can step in. This
one has the instructions that checkpoints use and no others, looks names up in a table of the reader's own, and calls
nothing that is not in there; nothing is imported, and no method of any object in the file is called. The bytes that are
checked are the bytes that are read. The instructions are described in Python's module pickletools.
"""

from __future__ import annotations

import pickle  # only the names of its instructions
import pickletools
from collections.abc import Callable
from typing import Any

from .reading_inert import Budget, Global, Inert, Refusal, is_plain_key, named
from .reading_literals import LITERALS, line
from .reading_machine import Machine, table
from .reading_tensors import UnfilledArray

MOST_INSTRUCTIONS = 5_000_000  # training checkpoints of large encoders have some 100,000
_STOP = pickle.STOP[0]
_MOST_ARGUMENTS = 64  # of a call: named tuples and paths have the most
_ATTRIBUTE_BYTES = 100  # about what an entry of a dict takes


def run(machine: Machine) -> Any:
    """What the pickle holds; ``machine.position`` is then where it has ended.

    Raises
    ------
    Refusal
        If it is damaged, or asks for anything that checkpoints do not need.
    """
    try:
        for _ in range(MOST_INSTRUCTIONS):
            code = machine.byte()
            literal = LITERALS[code]
            if literal is not None:
                machine.stack.append(literal(machine))
                continue
            if code == _STOP:
                break
            step = _STEPS[code]
            if step is None:
                raise Refusal(f"its pickle uses {_described(code)}, which checkpoints do not")
            step(machine)
        else:
            raise Refusal(f"its pickle has more than {MOST_INSTRUCTIONS} instructions")
    except IndexError as error:
        raise Refusal("its pickle takes more off its stack than is there") from error
    if len(machine.stack) != 1 or machine.marked:
        raise Refusal("its pickle does not end with one object")
    return machine.stack[0]


def _described(code: int) -> str:
    names = [known.name for known in pickletools.opcodes if ord(known.code) == code]
    return f"the instruction {names[0]}" if names else f"the byte {code}, no instruction"


def _protocol(machine: Machine) -> None:
    version = machine.byte()
    if version > 5:
        raise Refusal(f"its pickle is of protocol {version}, expected at most 5")


def _frame(machine: Machine) -> None:
    if machine.number(8) > machine.end - machine.position:
        raise Refusal("it ends in the middle of a pickle")


def _mark(machine: Machine) -> None:
    machine.marked.append(machine.stack)
    machine.stack = []


def _pop(machine: Machine) -> None:
    machine.stack.pop()


def _pop_mark(machine: Machine) -> None:
    machine.above_mark()


def _append(machine: Machine) -> None:
    item = machine.stack.pop()
    _extend(machine.stack[-1], [item])


def _appends(machine: Machine) -> None:
    items = machine.above_mark()
    _extend(machine.stack[-1], items)


def _extend(target: Any, items: list[Any]) -> None:
    if type(target) is not list:
        raise Refusal("its pickle appends to what is not a list")
    target.extend(items)


def _set_item(machine: Machine) -> None:
    value = machine.stack.pop()
    key = machine.stack.pop()
    _update(machine, [key, value])


def _set_items(machine: Machine) -> None:
    _update(machine, machine.above_mark())


def _update(machine: Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not dict or len(items) % 2:
        raise Refusal("its pickle sets items of what is not a dictionary, or a key without a value")
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[machine.key(key)] = value


def _add_items(machine: Machine) -> None:
    items = machine.above_mark()
    target = machine.stack[-1]
    if type(target) is not set:
        raise Refusal("its pickle adds items to what is not a set")
    target.update(machine.key(item) for item in items)


def _frozen_set(machine: Machine) -> None:
    items = machine.above_mark()
    machine.stack.append(frozenset(machine.key(item) for item in items))


def _tuple(machine: Machine) -> None:
    items = machine.above_mark()
    machine.stack.append(tuple(items))


def _tuple_of(n: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        items = [machine.stack.pop() for _ in range(n)]
        machine.stack.append(tuple(reversed(items)))

    return step


def _global(machine: Machine) -> None:
    module = line(machine)
    _push_named(machine, module, line(machine))


def _stack_global(machine: Machine) -> None:
    name = machine.stack.pop()
    _push_named(machine, machine.stack.pop(), name)


def _push_named(machine: Machine, module: Any, name: Any) -> None:
    if type(module) is not str or type(name) is not str:
        raise Refusal("its pickle has a name that is not a text")
    machine.stack.append(named(f"{module}.{name}", machine.lookup))


def _call(machine: Machine) -> None:
    """REDUCE and NEWOBJ: they differ in what Python would call, and nothing of that is called."""
    arguments = machine.stack.pop()
    called = machine.stack.pop()
    if type(called) is not Global or type(arguments) is not tuple or len(arguments) > _MOST_ARGUMENTS:
        raise Refusal("its pickle calls what is not a name, or with what are no arguments of it")
    machine.stack.append(called.called(arguments, machine.budget))


def _call_with_names(machine: Machine) -> None:
    named = machine.stack.pop()
    if type(named) is not dict or named:
        raise Refusal("its pickle calls something with named arguments")
    _call(machine)


def _build(machine: Machine) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if type(target) is UnfilledArray:
        machine.stack[-1] = filled = target.filled(state, machine.budget)
        for place in target.memo_places:
            machine.memo[place] = filled
    elif isinstance(target, Inert) and type(target) is not Global:
        _set_state(target, state, machine.budget)
    elif type(target) is not dict:  # attributes of a subclass of dict are left out
        raise Refusal("its pickle sets the state of something that has none")


def _set_state(target: Inert, state: Any, budget: Budget) -> None:
    parts = state if type(state) is tuple and len(state) == 2 else (state,)  # two dicts of a class with __slots__
    if not all(part is None or type(part) is dict for part in parts):
        target.state = state
        return
    for part in parts:
        budget.spend(_ATTRIBUTE_BYTES * len(part or {}))
        for name, value in (part or {}).items():
            if type(name) is str and is_plain_key(name):
                target.attributes[name] = value


def _persistent(machine: Machine) -> None:
    identity = machine.stack.pop()
    if machine.persistent is None:
        raise Refusal("its pickle refers to tensors outside of it, where there are none")
    machine.stack.append(machine.persistent(identity))


def _put(machine: Machine, place: int) -> None:
    item = machine.stack[-1]
    machine.memo[place] = item
    if type(item) is UnfilledArray:
        item.memo_places.append(place)


def _get(machine: Machine, place: int) -> None:
    if place not in machine.memo:
        raise Refusal("its pickle refers to an object that it does not have")
    machine.stack.append(machine.memo[place])


_BY_CODE: dict[bytes, Callable[[Machine], None]] = {
    pickle.PROTO: _protocol,
    pickle.FRAME: _frame,
    pickle.MARK: _mark,
    pickle.POP: _pop,
    pickle.POP_MARK: _pop_mark,
    pickle.TUPLE: _tuple,
    pickle.TUPLE1: _tuple_of(1),
    pickle.TUPLE2: _tuple_of(2),
    pickle.TUPLE3: _tuple_of(3),
    pickle.APPEND: _append,
    pickle.APPENDS: _appends,
    pickle.SETITEM: _set_item,
    pickle.SETITEMS: _set_items,
    pickle.ADDITEMS: _add_items,
    pickle.FROZENSET: _frozen_set,
    pickle.GLOBAL: _global,
    pickle.STACK_GLOBAL: _stack_global,
    pickle.REDUCE: _call,
    pickle.NEWOBJ: _call,
    pickle.NEWOBJ_EX: _call_with_names,
    pickle.BUILD: _build,
    pickle.BINPERSID: _persistent,
    pickle.BINPUT: lambda machine: _put(machine, machine.byte()),
    pickle.LONG_BINPUT: lambda machine: _put(machine, machine.number(4)),
    pickle.MEMOIZE: lambda machine: _put(machine, len(machine.memo)),
    pickle.BINGET: lambda machine: _get(machine, machine.byte()),
    pickle.LONG_BINGET: lambda machine: _get(machine, machine.number(4)),
}
_STEPS = table(_BY_CODE)
