"""How verbs print: a table that fits the terminal, the same table as plain text in a pipe, or one JSON document.

A table is printed as it is if it fits; else closer, with broken headers and wrapped texts; else each row as a block of
lines. Which columns shrink is decided here rather than by prettytable, because numbers must not be wrapped. rich would
take longer over all encoders than the rest of ``zoo list``.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import click

from ..cards.schema import Missing

_LABEL_WIDTH = 36
_FILLER = "\ue000"  # a character for private use, which no text has
_NARROWEST_TEXT = 16  # characters beside a label
_PIPE_WIDTH = 10_000  # characters a line where there is no terminal to fit


class NothingFound(click.ClickException):
    """The request was understood and has no answer: one sentence, exit code 1."""

    exit_code = 1


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--json``, passed on as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def print_json(document: Any) -> None:
    """Prints one JSON document, a line for each record of its lists; missing values must be split off before."""
    click.echo(_json(document))


def _json(document: Any) -> str:
    if isinstance(document, dict):
        members = [f"{_dumps(key)}: {_records(value)}" for key, value in document.items()]
        return "{" + ",\n ".join(members) + "}"
    return _dumps(document)


def _records(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(map(_dumps, value)) + "\n ]"
    return _dumps(value)


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # json.dumps would make one for every record


def record(values: Mapping[str, Any]) -> dict[str, Any]:
    """A record for JSON: missing values become null, and ``missing`` says why each of them is.

    >>> from zoo.cards.schema import NOT_APPLICABLE
    >>> record({"z_dim": 384, "patch_size": NOT_APPLICABLE})
    {'z_dim': 384, 'patch_size': None, 'missing': {'patch_size': 'not applicable'}}
    """
    plain: dict[str, Any] = {}
    missing = {}
    for name, value in values.items():
        if isinstance(value, Missing):
            plain[name], missing[name] = None, value.value
        else:
            plain[name] = value
    return {**plain, "missing": missing}


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Prints a table; columns at the positions in ``right`` are aligned to the right and never wrapped."""

    chosen = layout(headers, rows, right, width=width())
    click.echo("\n".join(_blocks(headers, rows)) if chosen is None else drawn(chosen, rows, right))


def is_easy_to_read(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), n_whole: int = 1
) -> bool:
    """True if :func:`print_table` breaks no cell of so many first columns, and makes no blocks."""
    chosen = layout(headers, rows, right, width=width())
    return chosen is not None and all(n_cells(row[i]) <= chosen.widths[i] for i in range(n_whole) for row in rows)


def _blocks(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    for row in rows:
        yield click.style(row[0], bold=True)
        for header, cell in zip(headers[1:], row[1:], strict=True):
            yield from entry(header, cell)


def print_notes(lines: Iterable[str]) -> None:
    """Prints how to read the table above; to stderr if stdout is a pipe, where it would be taken for rows."""
    piped = not sys.stdout.isatty()
    for line in lines:
        click.echo(click.style(wrapped(line), dim=True), err=piped)


def print_command(purpose: str, command: str | None) -> None:
    """Prints which command comes next, on one line for copying; to stderr where :func:`print_notes` does."""
    if command is not None:
        click.echo(click.style(f"next, {purpose}: {command}", dim=True), err=not sys.stdout.isatty())


def wrapped(text: str) -> str:
    """A sentence broken to the width of the terminal; one line if there is no terminal."""
    return "\n".join(_lines(text)) or text


def hanging(text: str) -> str:
    """Like :func:`wrapped`, all lines but the first indented."""
    return "\n".join(_lines(text, rest="  "))


def entry(label: str, text: str) -> list[str]:
    """Lines of one labelled text, its later lines beside the label.

    A word that does not fit beside the label stands below it, broken only if a whole line is too short for it.
    """
    first = f"  {label}".ljust(_LABEL_WIDTH)
    room = width() - len(first)
    if max(map(n_cells, text.split()), default=0) > room or room < _NARROWEST_TEXT:
        return [*_lines(label, "  ", "  "), *_lines(text, "    ", "    ", break_words=True)]
    return _lines(text, first, " " * _LABEL_WIDTH) or [f"  {label}"]


def n_cells(text: str) -> int:
    """Columns of a terminal that a text takes; East Asian wide characters take two each."""
    return len(text) if text.isascii() else len(text) + sum(map(_is_wide, text))


def _is_wide(character: str) -> bool:
    return east_asian_width(character) in "WF"


def _lines(text: str, first: str = "", rest: str = "", *, break_words: bool = False) -> list[str]:
    """A text broken to the width of the terminal, with prefixes for its first line and for the others."""
    if not text.isascii():  # textwrap counts characters, so that a wide one gets a second for the while
        text = "".join(character + _FILLER if _is_wide(character) else character for character in text)
    lines = textwrap.wrap(
        text,
        width(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=break_words,
        break_on_hyphens=False,
    )
    return [line.replace(_FILLER, "") for line in lines]


def width() -> int:
    """Characters a line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


_NARROWEST_FIRST = (1_000, 30, 22)  # characters that the first column keeps: all, or fewer where no table would fit
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
    """The widest layout that is no wider than ``width``; None if every one would be unreadable.

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
    head = [header.split("\n") for header in chosen.headers]
    n_lines = max(map(len, head))
    padded = [[""] * (n_lines - len(lines)) + lines for lines in head]  # names stand right above their columns
    above = [list(line) for line in zip(*padded, strict=True)]
    lines = _aligned([*above, *rows], chosen, right)
    return "\n".join([*(click.style(line, bold=True) for line in lines[:n_lines]), *lines[n_lines:]])


def _aligned(rows: Sequence[Sequence[str]], chosen: Layout, right: Collection[int]) -> list[str]:
    """Lines of the cells in their columns."""
    columns = []
    for position, cells in enumerate(zip(*rows, strict=True)):
        width = chosen.widths[position]
        if not all(cell.isascii() and cell.isprintable() and len(cell) <= width for cell in cells):
            return _wrapped_lines(rows, chosen, right)
        pad = str.rjust if position in right else str.ljust
        columns.append([pad(cell, width) for cell in cells])
    gap = " " * chosen.gap
    return [gap.join(line).rstrip() for line in zip(*columns, strict=True)]


def _wrapped_lines(rows: Sequence[Sequence[str]], chosen: Layout, right: Collection[int]) -> list[str]:
    """The same where cells need several lines, or take more columns of a terminal than they have characters."""
    from prettytable import PrettyTable  # slower, over a thousand rows, than all else that a listing does

    names = [str(position) for position in range(len(chosen.headers))]  # must differ, which headers need not
    table = PrettyTable(names, border=False, header=False, break_on_hyphens=False)
    table.left_padding_width, table.right_padding_width = 0, chosen.gap
    table.align = {name: "r" if position in right else "l" for position, name in enumerate(names)}
    table.max_width = dict(zip(names, chosen.widths, strict=True))
    table.add_rows([list(row) for row in rows])
    return [line.rstrip() for line in table.get_string().splitlines()]


def _natural_widths(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    columns = zip(*rows, strict=True)
    return tuple(
        max(map(n_cells, [*header.split("\n"), *cells])) for header, cells in zip(headers, columns, strict=True)
    )


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _shrunk(widths: Sequence[int], leasts: Sequence[int], surplus: int) -> tuple[int, ...]:
    """Widths less ``surplus`` characters, each taken from the widest column that may still shrink."""
    left = list(widths)
    for _ in range(surplus):
        free = [position for position, least in enumerate(leasts) if left[position] > least]
        left[max(free, key=left.__getitem__)] -= 1
    return tuple(left)


def _broken(header: str) -> str:
    """A header on several lines, broken behind hyphens and underscores.

    >>> _broken("train-nperclass-30_test").splitlines(), _broken("z_dim").splitlines()
    (['train-', 'nperclass-', '30_', 'test'], ['z_dim'])
    """
    return "\n".join(re.split(r"(?<=[-_])", header)) if len(header) > _SHORT_HEADER else header


def say(text: str) -> None:
    """Prints on a terminal what is being done; nothing in a pipe."""
    if sys.stderr.isatty():
        click.echo(click.style(text, dim=True), err=True)


def size(n_bytes: float) -> str:
    """Bytes as people read them, in the units of a download's progress bar.

    >>> [size(n) for n in (0, 999, 86_664_000, 1_011_223_040)]
    ['0 B', '999 B', '86.7 MB', '1.0 GB']
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.95:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def place_name(place: str) -> str:
    """The host, repository or library of a place, short enough for a table.

    >>> [place_name(place) for place in ("https://host/a.pth", "hf:owner/repository/a.pth", "timm:vit_small.dino")]
    ['host', 'hf:owner/repository', 'timm']
    """
    scheme, _, rest = place.partition(":")
    match scheme:
        case "http" | "https":
            return rest.removeprefix("//").partition("/")[0].rpartition("@")[2]
        case "hf":
            return "/".join(place.split("/")[:2])
        case "sha256":
            return "your own file"
    return scheme if rest else Path(place).name


def announce(number: int, total: int, encoder: str) -> None:
    """Prints on a terminal which encoder comes next."""
    if sys.stderr.isatty() and total > 1:
        click.secho(f"({number} of {total}) {encoder}", dim=True, err=True)


@contextmanager
def steps(beginning: str) -> Iterator[Callable[[str, int, int], None]]:
    """A line on a terminal with what is being done, and how many steps are done of how many; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns: tuple[Any, ...] = (
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(beginning, total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield tell


def require_agreement(lines: Iterable[str], question: str) -> None:
    """Shows on a terminal what would be removed, and goes on only if the user agrees."""
    if not sys.stdin.isatty():
        raise click.UsageError("Got no --yes, expected it where no terminal can ask.")
    for line in lines:
        click.echo(wrapped(line), err=True)
    if not click.confirm(question, err=True):
        raise NothingFound("Nothing was removed.")
