"""How a table fits a terminal: as it is; else closer, with broken headers and wrapped texts; else not at all.

prettytable draws the tables, for rich takes longer over 204 rows than all the rest of ``zoo list``. Which columns give
way on a narrow terminal is decided here, because numbers must not be wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import click
from prettytable import PrettyTable

from .output import n_cells

_NARROWEST_FIRST = (30, 22)  # characters that the first column keeps; fewer where the table would not fit otherwise
_NARROWEST = 14  # characters that another column of text keeps, or the table becomes blocks
_SHORT_HEADER = 6  # characters; not worth a break


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is drawn."""

    headers: tuple[str, ...]  # perhaps on several lines
    widths: tuple[int, ...]  # characters a column; longer cells are wrapped
    gap: int  # characters between columns


def layout(
    headers: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int], *, width: int
) -> Layout | None:
    """The roomiest layout that is no wider than ``width``; None if every one would be unreadable.

    Columns whose positions are in ``right`` hold numbers and keep what they need.

    >>> layout(["encoder", "augmentations"], [["dino_rn50", "crop, color, gray, blur"]], [], width=30).widths
    (9, 20)
    """
    roomy = Layout(tuple(headers), _natural_widths(headers, rows), gap=2)
    if _total(roomy.widths, roomy.gap) <= width:
        return roomy
    broken = tuple(_broken(header) if position in right else header for position, header in enumerate(headers))
    natural, gap = _natural_widths(broken, rows), 1
    for narrowest_first in _NARROWEST_FIRST:
        leasts = [
            wanted if position in right else min(wanted, max(len(header), _NARROWEST if position else narrowest_first))
            for position, (wanted, header) in enumerate(zip(natural, broken, strict=True))
        ]
        if _total(leasts, gap) <= width:
            return Layout(broken, _shrunk(natural, leasts, _total(natural, gap) - width), gap)
    return None


def drawn(chosen: Layout, rows: Sequence[Sequence[str]], right: Collection[int]) -> str:
    """The table as text without rules, its headers bold."""
    names = [str(position) for position in range(len(chosen.headers))]  # must differ, which headers need not
    table = PrettyTable(names, border=False, header=False, break_on_hyphens=False)
    table.left_padding_width, table.right_padding_width = 0, chosen.gap
    table.align = {name: "r" if position in right else "l" for position, name in enumerate(names)}
    table.max_width = dict(zip(names, chosen.widths, strict=True))
    head = [header.split("\n") for header in chosen.headers]
    n_lines = max(map(len, head))
    padded = [[""] * (n_lines - len(lines)) + lines for lines in head]  # names stand right above their columns
    table.add_rows([list(line) for line in zip(*padded, strict=True)])
    table.add_rows([list(row) for row in rows])
    lines = [line.rstrip() for line in table.get_string().splitlines()]
    return "\n".join([*(click.style(line, bold=True) for line in lines[:n_lines]), *lines[n_lines:]])


def _natural_widths(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    columns = zip(*rows, strict=True)
    return tuple(
        max(map(n_cells, [*header.split("\n"), *cells])) for header, cells in zip(headers, columns, strict=True)
    )


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _shrunk(widths: Sequence[int], leasts: Sequence[int], surplus: int) -> tuple[int, ...]:
    """Widths less ``surplus`` characters, each from the column that is widest by then and may still shrink."""
    left = list(widths)
    for _ in range(surplus):
        free = [position for position, least in enumerate(leasts) if left[position] > least]
        left[max(free, key=left.__getitem__)] -= 1
    return tuple(left)


def _broken(header: str) -> str:
    """A name on several lines, broken where it has a joint.

    >>> _broken("train-nperclass-30_test").splitlines(), _broken("z_dim").splitlines()
    (['train-', 'nperclass-', '30_', 'test'], ['z_dim'])
    """
    return "\n".join(re.split(r"(?<=[-_])", header)) if len(header) > _SHORT_HEADER else header
