"""Runs a verb, and prints the functions of the zoo that an encoder's name is handed to, in the order in which they are.

    python scripts/walk.py pocket_simclr_rn_shapes -- evaluate pocket_simclr_rn_shapes digits --settings full
    python scripts/walk.py A,B -- choose digits --encoders A,B --time 2m

A function counts once, if one of its arguments is the name, or a list of few names that has it. The verb really runs:
take a home and a cache of its own (ZOO_HOME, ZOO_CACHE), and run `zoo list` in them first, or the cards are compiled on
the way.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

import zoo
from zoo.cli import main

_FEW = 10  # names in a list; longer ones are of all encoders
_PACKAGE = os.path.dirname(zoo.__file__) + os.sep


def walked(names: set[str], arguments: list[str]) -> list[tuple[str, str]]:
    """Module and function of each stop."""
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

    sys.argv = ["zoo", *arguments]
    sys.setprofile(look)
    try:
        main()
    except SystemExit as end:
        if end.code:
            print(f"The verb ended with {end.code}.", file=sys.stderr)
    finally:
        sys.setprofile(None)
    return list(stops)


if __name__ == "__main__":
    if "--" not in sys.argv[2:]:
        sys.exit(__doc__)
    split = sys.argv.index("--")
    found = walked(set(sys.argv[1].split(",")), sys.argv[split + 1 :])
    print()
    for module, function in found:
        print(f"{module:<32} {function}")
    print(f"\n{len(found)} stops in {len({module for module, _ in found})} modules")
