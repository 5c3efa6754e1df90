"""Tables on a terminal: as wide as they need, else with broken headers and wrapped texts, else as blocks of lines.

Written out here, for a library that draws tables takes longer over 204 rows than all the rest of ``zoo list``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

import click

from .output import aligned, entry, natural_widths, width

_NARROWEST_FIRST, _NARROWEST = 22, 14  # characters that a column of text keeps, or the table becomes blocks
_SHORT_HEADER = 6  # characters; not worth a break


def fitted(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> str:
    """A table no wider than the terminal; columns whose positions are in ``right`` hold numbers and are not wrapped."""
    gap = 2
    head = [[header] for header in headers]
    widths = natural_widths([headers, *rows])
    if _total(widths, gap) > width():
        gap = 1
        head = [_broken(header) if position in right else [header] for position, header in enumerate(headers)]
        widths = natural_widths([*zip_longest(*head, fillvalue=""), *rows])
        leasts = [
            natural if position in right else min(natural, _NARROWEST if position else _NARROWEST_FIRST)
            for position, natural in enumerate(widths)
        ]
        if _total(leasts, gap) > width():
            return "\n".join(_blocks(headers, rows))
        _shrink(widths, leasts, _total(widths, gap) - width())
    tallest = max(map(len, head))
    head = [[""] * (tallest - len(parts)) + parts for parts in head]
    lines = [click.style(line, bold=True) for line in aligned(zip(*head, strict=True), widths, right, gap)]
    for row in rows:
        if all(len(cell) <= limit for cell, limit in zip(row, widths, strict=True)):
            lines += aligned([row], widths, right, gap)
        else:
            parts = [textwrap.wrap(cell, limit) for cell, limit in zip(row, widths, strict=True)]
            lines += aligned(zip_longest(*parts, fillvalue=""), widths, right, gap)
    return "\n".join(lines)


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _shrink(widths: list[int], leasts: Sequence[int], surplus: int) -> None:
    """Take ``surplus`` characters away, each from the column that is widest at that moment and may still shrink."""
    for _ in range(surplus):
        free = [position for position, least in enumerate(leasts) if widths[position] > least]
        widths[max(free, key=widths.__getitem__)] -= 1


def _broken(header: str) -> list[str]:
    """A name on several lines, broken where it has a joint.

    >>> _broken("train-nperclass-30_test"), _broken("z_dim")
    (['train-', 'nperclass-', '30_', 'test'], ['z_dim'])
    """
    return re.split(r"(?<=[-_])", header) if len(header) > _SHORT_HEADER else [header]


def _blocks(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    for row in rows:
        yield click.style(row[0], bold=True)
        for header, cell in zip(headers[1:], row[1:], strict=True):
            yield from entry(header, cell)
