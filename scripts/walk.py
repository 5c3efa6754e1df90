"""Runs a verb and counts its walk through the package, or lists where an encoder's name goes.

    python scripts/walk.py -- evaluate pocket_simclr_rn_shapes digits --settings full
    python scripts/walk.py --names A,B -- choose digits --encoders A,B --time 2m

Without ``--names`` it prints how many functions in how many modules of the zoo ran, and how often a call went to
another module than the call before it; then the same without what runs while modules are imported, such as a table
that a comprehension fills, which nobody meets who follows the verb. With names it lists the functions that are handed
one of them, in their order: a function counts once, if one of its arguments is the name, or a list of few names that
has it.

The verb really runs: take a home and a cache of its own (ZOO_HOME, ZOO_CACHE), and run `zoo list` in them first, or the
cards are compiled on the way. Worker threads and processes are not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

import zoo
from zoo.cli import main

_FEW = 10  # names in a list; longer ones are of all encoders
_PACKAGE = os.path.dirname(zoo.__file__) + os.sep


def run_profiled(look: Callable[[FrameType, str, Any], None], arguments: list[str]) -> None:
    """Runs the command ``zoo`` with a profiler."""
    sys.argv = ["zoo", *arguments]
    sys.setprofile(look)
    try:
        main()
    except SystemExit as end:
        if end.code:
            print(f"The verb ended with {end.code}.", file=sys.stderr)
    finally:
        sys.setprofile(None)


@dataclass
class Walk:
    """What a verb passed."""

    functions: set[CodeType] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    changes: int = 0
    last: str = ""

    def add(self, code: CodeType) -> None:
        """Counts a call."""
        self.functions.add(code)
        self.modules.add(code.co_filename)
        self.changes += code.co_filename != self.last
        self.last = code.co_filename

    def __str__(self) -> str:
        return f"{len(self.functions)} functions in {len(self.modules)} modules, {self.changes} changes of module"


def count_walk(arguments: list[str]) -> tuple[Walk, Walk]:
    """The walk of a verb, and without what runs while modules are imported."""
    everything, called = Walk(), Walk()
    n_importing = 0  # modules of the zoo that are being imported

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal n_importing
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(_PACKAGE):
            return
        if code.co_name == "<module>":
            n_importing += 1 if event == "call" else -1
        elif event == "call" and code.co_flags & CO_OPTIMIZED:  # no body of a class
            everything.add(code)
            if not n_importing:
                called.add(code)

    run_profiled(look, arguments)
    return everything, called


def list_stops(names: set[str], arguments: list[str]) -> list[tuple[str, str]]:
    """Module and function of each stop of a name."""
    stops: dict[tuple[str, str], None] = {}

    def is_named(value: Any) -> bool:
        some = value if isinstance(value, list | tuple) and len(value) < _FEW else [value]
        return any(isinstance(one, str) and one in names for one in some)

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGE):
            n = code.co_argcount + code.co_kwonlyargcount
            if any(is_named(frame.f_locals.get(name)) for name in code.co_varnames[:n]):
                stops[code.co_filename.removeprefix(_PACKAGE), code.co_qualname] = None

    run_profiled(look, arguments)
    return list(stops)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", help="list where these encoders' names go, separated by commas")
    parser.add_argument("arguments", nargs="+", metavar="VERB ...", help="after --: what follows `zoo`")
    options = parser.parse_args()
    if options.names:
        found = list_stops(set(options.names.split(",")), options.arguments)
        print()
        for module, function in found:
            print(f"{module:<32} {function}")
        print(f"\n{len(found)} stops in {len({module for module, _ in found})} modules")
    else:
        everything, called = count_walk(options.arguments)
        print(f"\n{everything}\nwithout imports: {called}")
