"""What stands for what is not built, and why a file is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

_MOST_NAME = 1000  # characters; names of TorchScript can be as a file likes
_MOST_KEY_CHARACTERS = 10_000
_MOST_KEY_ITEMS = 16
_SMALL_INTEGER = 2**63


class Refusal(Exception):
    """Why a file cannot be read safely: a clause about "it", which ``read_checkpoint`` makes a sentence of."""


class Budget:
    """Bytes that the content of a file may take in memory: a file of kilobytes may not ask for gigabytes.

    Parameters
    ----------
    size_bytes : int
        Of the file, whose numbers are counted when they are copied and again when tensors show them.
    """

    __slots__ = ("_left",)

    def __init__(self, size_bytes: int) -> None:
        self._left = 4 * size_bytes + 16 * 1024**2

    def spend(self, n_bytes: int) -> None:
        """Takes bytes from the budget.

        Raises
        ------
        Refusal
            If there are not as many left.
        """
        self._left -= n_bytes
        if self._left < 0:
            raise Refusal("its content would take far more memory than the file has bytes")


class Inert:
    """Stands for an object, a class or a function of a name that the reader knows and does not build.

    Attributes
    ----------
    name : str
        The dotted name that the file gives it: "argparse.Namespace".
    arguments : tuple
        What it would have been made of; empty for a class itself.
    attributes : dict of str
        What it would have had as attributes.
    state : object
        Any other state it would have been given, None mostly.
    """

    __slots__ = ("arguments", "attributes", "name", "state")

    def __init__(self, name: str, arguments: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.arguments = arguments
        self.attributes: dict[str, Any] = {}
        self.state: Any = None

    def __repr__(self) -> str:
        return f"<inert {clipped(self.name)}>"  # not what it holds, which may hold itself


Builder: TypeAlias = Callable[[tuple[Any, ...], Budget], Any]


class Global(Inert):
    """A name of a pickle, and the function of this package that stands for calling it; None makes an ``Inert``."""

    __slots__ = ("build",)

    def __init__(self, name: str, build: Builder | None = None) -> None:
        super().__init__(name)
        self.build = build

    def called(self, arguments: tuple[Any, ...], budget: Budget) -> Any:
        """What stands for an object that this name makes of arguments."""
        return Inert(self.name, arguments) if self.build is None else self.build(arguments, budget)


Lookup: TypeAlias = Callable[[str], Global | None]
"""From a dotted name to what stands for it; None if nothing does."""


def is_plain_key(key: object, *, depth: int = 0) -> bool:
    """True if looking a key up takes a moment, however a file repeats it; ``depth`` is that of tuples in tuples.

    Long texts that are equal take long to compare, huge integers can be made to share one hash, and the hash of a tuple
    takes as long as everything in it, counted as often as it is in there.
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


def named(name: str, lookup: Lookup) -> Global:
    """What stands for a name of a pickle.

    Raises
    ------
    Refusal
        If nothing does.
    """
    found = lookup(name) if len(name) <= _MOST_NAME else None
    if found is None:
        raise Refusal(f"it asks for {clipped(name)}, which no checkpoint that the zoo knows needs")
    return found


def odd_arguments(name: str) -> Refusal:
    """The refusal of a known name that is called with what it is never called with."""
    return Refusal(f"it calls {clipped(name)} in a way that checkpoints do not")
