"""Traps: where the usual way gives another number than the right one, and the zoo must give the right one.

The tables are ``tests/test_traps_images.py`` (pixels of files), ``test_traps_sets.py`` (images, parts and labels),
``test_traps_networks.py`` (preprocessing, networks, costs) and ``test_traps_numbers.py`` (metrics, statistics). A row
names the trap and has three values: what the zoo says, what is right by the plain definition or by hand, and what the
usual way says, so that it is seen to be another one. ``test_traps_elsewhere.py`` lists traps that tests next to their
modules hold, which need more than a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import ZooError

_APART = 10  # times the tolerance that the usual value must be from the right one


@dataclass(frozen=True, slots=True)
class Trap:
    """A row: the values are functions of an empty folder, or the value itself; text is searched for a pattern."""

    name: str
    zoo: Callable[[Path], Any]
    right: Any
    usual: Any
    within: float = 0.0  # relative and absolute, of the zoo to the right value; 0 for the same

    def __str__(self) -> str:
        return self.name


def hold(trap: Trap, folder: Path) -> None:
    """Asserts that the zoo has the right value of a trap and that the usual way has another one."""
    values = []
    for number, value in enumerate((trap.right, trap.usual, trap.zoo)):
        (folder / str(number)).mkdir()
        values.append(value(folder / str(number)) if callable(value) else value)
    right, usual, ours = values
    assert _are_same(ours, right, trap.within), f"{trap.name}: the zoo says {ours!r}, right is {right!r}"
    assert not _are_same(usual, right, _APART * trap.within), f"{trap.name}: the usual way says {usual!r} as well"


def refusal(call: Callable[[], Any]) -> str:
    """The sentence by which the zoo refuses; what it returns if it does not."""
    try:
        return f"not refused: {call()!r}"
    except ZooError as error:
        return str(error)


def _are_same(one: Any, right: Any, within: float) -> bool:
    if isinstance(right, re.Pattern):
        return isinstance(one, str) and right.search(one) is not None
    if isinstance(right, str | bool | list | tuple | dict | set | type(None)) and not within:
        return bool(one == right)
    one, right = np.asarray(one, np.float64), np.asarray(right, np.float64)
    return one.shape == right.shape and bool(np.allclose(one, right, rtol=within, atol=within))
