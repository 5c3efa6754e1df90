"""How verbs print: tables that fit the terminal or are plain text in a pipe, notes, or one JSON document."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import click

from ..cards.answers import AnswerTable
from ..cards.schema import Missing
from ..errors import escape_unprintable
from ..errors import format_list as format_list

_LABEL_WIDTH = 36
_PIPE_WIDTH = 10_000  # characters a line where there is no terminal to fit
_MOST_NOTES = 5  # lines below an answer; --verbose prints all
_VERBOSE = "zoo.verbose"
TOLD = "zoo.told"
"""Name of the lines that were said before the answer, among what the context of click carries along."""


# How the codes of our own colours begin until they are printed; what a file or a class is called cannot know it.
_OURS = f"\x1b[{100_000 + int.from_bytes(os.urandom(4), 'big') % 900_000};"
_echo, _style = click.echo, click.style


def escape_text(text: object) -> str:
    """A text for a terminal, as :func:`zoo.errors.escape_unprintable` has it, but for our own colours."""
    shown = str(text)
    if shown.isascii() and shown.isprintable():  # without our colours, which begin with a character that is not
        return shown
    return _OURS.join(map(escape_unprintable, shown.split(_OURS)))


def _escape_cells(cells: Sequence[str]) -> list[str]:
    """Cells as :func:`escape_text` has them, in one line each; most need nothing."""
    joined = "".join(cells)
    if joined.isascii() and joined.isprintable():
        return list(cells)
    return [escape_text(cell).replace("\n", "\\n") for cell in cells]


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints what :func:`escape_text` makes of a text."""
    _echo(escape_text(text).replace(_OURS, "\x1b["), err=err, nl=nl)


def style_text(text: object, **style: Any) -> str:
    """A text in colours, for :func:`echo`."""
    before, after = _style("\0", **style).replace("\x1b[", _OURS).split("\0")
    return f"{before}{escape_text(text)}{after}"


@contextmanager
def escape_output() -> Iterator[None]:
    """Whatever a verb prints by click in the block is printed by :func:`echo`: one rule for them all."""
    before = click.echo, click.style, click.secho

    def secho(text: object = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
        echo(style_text(text, **style), err=err, nl=nl)

    click.echo, click.style, click.secho = echo, style_text, secho  # type: ignore[assignment]
    try:
        yield
    finally:
        click.echo, click.style, click.secho = before


class NothingFound(click.ClickException):
    """The request was understood and has no answer: one sentence, exit code 1."""

    exit_code = 1


def add_json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--json``, passed on as ``as_json``, and ``--verbose``, which :func:`print_notes` knows of."""

    def remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        ctx.meta[_VERBOSE] = value

    verbose = click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=remember, help="Print all notes, not five."
    )
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(verbose(command))


def is_verbose() -> bool:
    """Whether the running verb was given ``--verbose``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_VERBOSE))


def print_json(document: Any) -> None:
    """Prints one JSON document, a line for each record of its lists; missing values must be split off before."""
    if isinstance(document, dict):
        members = [f"{_dumps(key)}: {_records(value)}" for key, value in document.items()]
        _echo("{" + ",\n ".join(members) + "}")  # which escapes what it must
    else:
        _echo(_dumps(document))


def _records(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(map(_dumps, value)) + "\n ]"
    return _dumps(value)


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # json.dumps would make one for every record


def make_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """A record for JSON: missing values become null, and ``missing`` says why each of them is.

    >>> from zoo.cards.schema import NOT_APPLICABLE
    >>> make_record({"z_dim": 384, "patch_size": NOT_APPLICABLE})
    {'z_dim': 384, 'patch_size': None, 'missing': {'patch_size': 'not applicable'}}
    """
    missing = {name: value.value for name, value in values.items() if isinstance(value, Missing)}
    return {**{name: None if name in missing else value for name, value in values.items()}, "missing": missing}


# --- tables ----------------------------------------------------------------------------------------------------------

_NARROWEST = 10  # characters that a column of text keeps, or the table becomes blocks
_PIECE = re.compile(r"\s+|[^\s/]*/+|[^\s/]+")  # of texts, between which lines end; ids have neither spaces nor slashes


def fit_table(table: AnswerTable) -> AnswerTable:
    """The table without as many of its spare columns as the terminal has no room for; whole if it becomes blocks."""
    fitting = table
    for heading in table.spare:
        if can_fit_table(fitting):
            return fitting
        fitting = fitting.drop(heading)
    return fitting if can_fit_table(fitting) or _has_room(_measure_least(*_break_headers(fitting))) else table


def print_table(table: AnswerTable) -> None:
    """Prints a table; columns of numbers are aligned to the right and never wrapped, names never broken.

    A table that is wider than the terminal is printed without its spare columns, then with wrapped texts and broken
    headers; if numbers and names would not fit even so, each row becomes a block of lines.
    """
    fitting = fit_table(table)
    _print_fitting(fitting)
    if hidden := [heading for heading in table.headings if heading not in fitting.headings]:
        print_notes([f"this terminal is too narrow for: {', '.join(hidden)}"])


def _print_fitting(table: AnswerTable) -> None:
    right, columns = table.numbers, _escaped(table)
    if can_fit_table(table):
        padded = [
            _padded(cells, wide, place in right)
            for place, (cells, wide) in enumerate(zip(columns, _widths(columns), strict=True))
        ]
        lines = ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]
        echo("\n".join([style_text(lines[0], bold=True), *lines[1:]]))
        return
    columns, right = _break_headers(table)
    widths, leasts = _widths(columns), _measure_least(columns, right)
    headers, *rows = zip(*columns, strict=True)
    if not _has_room(leasts):
        for row in rows:
            echo(style_text(row[0], bold=True))
            for header, cell in zip(headers[1:], row[1:], strict=True):
                echo("\n".join(format_entry(header.replace("\n", ""), cell)))
        return
    while not _has_room(widths):  # the widest column that may still shrink does
        free = [place for place, least in enumerate(leasts) if widths[place] > least]
        widths[max(free, key=widths.__getitem__)] -= 1
    wrapped = [[_wrapped(cell, wide) for cell in cells] for cells, wide in zip(columns, widths, strict=True)]
    headers, *rows = zip(*wrapped, strict=True)
    _print_wrapped(headers, rows, widths, right)


def _break_headers(table: AnswerTable) -> tuple[list[list[str]], list[int]]:
    """The columns of a table with those of numbers headed on several lines, and which these are."""
    right = table.numbers
    columns = [[_broken(one[0]) if place in right else one[0], *one[1:]] for place, one in enumerate(_escaped(table))]
    return columns, right


def _has_room(widths: Sequence[int]) -> bool:
    return sum(widths) + len(widths) - 1 <= get_terminal_width()


def _measure_least(columns: Sequence[Sequence[str]], right: Collection[int]) -> list[int]:
    """How wide each column must be: numbers and the first one whole, others for their longest word."""
    leasts = [
        wide if place in right or not place else min(wide, max(_NARROWEST, _longest_piece(columns[place])))
        for place, wide in enumerate(_widths(columns))
    ]
    if leasts and not _has_room(leasts):  # only then are paths and addresses in the first column broken
        leasts[0] = min(leasts[0], max(_NARROWEST, _longest_piece(columns[0])))
    return leasts


def _pieces(text: str) -> list[str]:
    return [text] if "\x1b" in text else _PIECE.findall(text)  # colours end where they began


def _longest_piece(cells: Sequence[str]) -> int:
    return max(count_cells(piece) for cell in cells for piece in _pieces(cell) or [""])


def _wrapped(text: str, width: int) -> str:
    """A text on lines of that many characters, broken at spaces and behind slashes."""
    lines = [""]
    for piece in _pieces(text):
        if count_cells(lines[-1] + piece) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece if lines[-1] or not piece.isspace() else ""
    return "\n".join(line.rstrip() for line in lines)


def print_answer(*tables: AnswerTable, notes: Iterable[str] = (), more: Iterable[str] = ()) -> None:
    """Prints tables, each below its title and above its sentences; then notes, as :func:`print_notes` does."""
    for place, table in enumerate(tables):
        if table.title:
            text = wrap_text(table.title + table.about)
            if not place and text.startswith(table.title):
                text = style_text(table.title, bold=True) + text[len(table.title) :]
            echo(f"\n{text}" + "\n" * bool(len(table) or table.answer))
        if len(table):
            print_table(table)
        if table.answer:
            echo("\n" * bool(len(table)) + "\n".join(map(wrap_text, table.answer)))
    print_notes([*(note for table in tables for note in table.notes), *notes], more)


def _print_wrapped(
    headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], right: Collection[int]
) -> None:
    """Prints cells of several lines: headers above their column's end, the others from the top of their row."""
    for number, row in enumerate([headers, *rows]):
        cells = [cell.split("\n") for cell in row]
        height = max(map(len, cells))
        blanks = [[""] * (height - len(lines)) for lines in cells]
        whole = [[*lines, *more] if number else [*more, *lines] for lines, more in zip(cells, blanks, strict=True)]
        padded = [_padded(lines, widths[place], place in right) for place, lines in enumerate(whole)]
        for line in zip(*padded, strict=True):
            text = " ".join(line).rstrip()
            echo(text if number else style_text(text, bold=True))


def can_fit_table(table: AnswerTable) -> bool:
    """Whether :func:`print_table` breaks no cell and no header."""
    widths = _widths(_escaped(table))
    return sum(widths) + 2 * (len(widths) - 1) <= get_terminal_width()


def _escaped(table: AnswerTable) -> list[list[str]]:
    """The columns of a table, each with its heading first."""
    return [*map(_escape_cells, table.headed)]


def _widths(columns: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(map(len if _is_plain(cells) else count_cells, [*header.split("\n"), *cells])) for header, *cells in columns
    ]


def _padded(cells: Sequence[str], wide: int, is_right: bool) -> list[str]:
    if _is_plain(cells):
        return [cell.rjust(wide) if is_right else cell.ljust(wide) for cell in cells]
    gaps = (" " * (wide - count_cells(cell)) for cell in cells)
    return [gap + cell if is_right else cell + gap for gap, cell in zip(gaps, cells, strict=True)]


def _is_plain(cells: Sequence[str]) -> bool:
    """True if every character takes a column of a terminal, as in most tables, however many cells they have."""
    together = "".join(cells)
    return together.isascii() and "\x1b" not in together


def _broken(header: str) -> str:
    """A long header on several lines, broken behind hyphens and underscores.

    >>> _broken("train-nperclass-30_test").splitlines(), _broken("z_dim").splitlines()
    (['train-', 'nperclass-', '30_', 'test'], ['z_dim'])
    """
    return "\n".join(re.split(r"(?<=[-_])", header)) if len(header) > 6 else header


def count_cells(text: str) -> int:
    """Columns of a terminal that a text takes; East Asian wide characters take two each, colours none."""
    if "\x1b" in text:
        text = click.unstyle(text)
    return len(text) if text.isascii() else sum(1 + (east_asian_width(one) in "WF") for one in text)


def get_terminal_width() -> int:
    """Characters a line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


# --- text ------------------------------------------------------------------------------------------------------------


def print_notes(lines: Iterable[str], more: Iterable[str] = ()) -> None:
    """Prints notes on the answer above, those first that change what the reader does.

    At most five lines, each once; ``--verbose`` prints all, and ``more`` too; those told first are left out. They go to
    stderr if stdout is a pipe, where they would be taken for rows.
    """
    context = click.get_current_context(silent=True)
    told = {} if context is None else context.meta
    lines = [one for one in dict.fromkeys(lines) if f"Note: {one}" not in told.get(TOLD, ())]
    more = [one for one in dict.fromkeys(more) if one not in lines and f"Note: {one}" not in told.get(TOLD, ())]
    if is_verbose():
        lines += more
    elif more or len(lines) > _MOST_NOTES:
        shown = lines[: _MOST_NOTES - 1]
        n = len(lines) + len(more) - len(shown)
        lines = [*shown, f"{n} more note{'s' * (n > 1)}: --verbose"]
    for line in lines:
        echo(style_text(wrap_text(line), dim=True), err=not sys.stdout.isatty())


def print_command(purpose: str, command: str | None) -> None:
    """Prints which command comes next, on one line for copying; to stderr where :func:`print_notes` does."""
    if command is not None:
        echo(style_text(f"next, {purpose}: {command}", dim=True), err=not sys.stdout.isatty())


def wrap_text(text: str, *, rest: str = "") -> str:
    """A sentence broken to the width of the terminal, its later lines behind ``rest``; one line in a pipe."""
    return "\n".join(_lines(text, rest=rest)) or escape_text(text)


def wrap_indented(text: str) -> str:
    """Like :func:`wrap_text`, all lines but the first indented."""
    return wrap_text(text, rest="  ")


def format_entry(label: str, text: str, *, width: int = _LABEL_WIDTH) -> list[str]:
    """Lines of one labelled text, its later lines next to the label; below it on a narrow terminal."""
    first = f"  {label}".ljust(width)
    if get_terminal_width() < 64 or not first.endswith(" "):
        return [f"  {label}", *_lines(text, "    ", "    ")]
    return _lines(text, first, " " * width) or [f"  {label}"]


def _lines(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        escape_text(text),
        get_terminal_width(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_size(n_bytes: float) -> str:
    """Bytes as people read them, in the units of a download's progress bar.

    >>> [format_size(n) for n in (0, 999, 86_664_000, 1_011_223_040)]
    ['0 B', '999 B', '86.7 MB', '1.0 GB']
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.95:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def format_place_name(place: str) -> str:
    """The host, repository or library of a place, short enough for a table.

    >>> places = "https://host/a.pth", "hf:owner/repository/a.pth", "timm:vit_small.dino"
    >>> [format_place_name(place) for place in places]
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


# --- progress and questions ------------------------------------------------------------------------------------------


_QUIET_SECONDS = 60.0
_BEGAN = "zoo.cli.output.began"


def log_progress(text: str) -> None:
    """Prints on a terminal what is being done; in a pipe once a minute has passed since the command first said so."""
    now, context = time.monotonic(), click.get_current_context(silent=True)
    began = now if context is None else context.find_root().meta.setdefault(_BEGAN, now)
    if sys.stderr.isatty() or now - began > _QUIET_SECONDS:
        echo(style_text(wrap_text(text), dim=True), err=True)


def announce(number: int, total: int, encoder: str) -> None:
    """Prints on a terminal which encoder comes next."""
    if total > 1:
        log_progress(f"({number} of {total}) {encoder}")


@contextmanager
def show_steps(beginning: str) -> Iterator[Callable[[str, int, int], None]]:
    """A line on a terminal with what is being done, and how many steps are done of how many; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(beginning, total=None)
        yield lambda what, done, total: bar.update(
            task, description=escape_unprintable(what), completed=done, total=total
        )


def require_confirmation(lines: Iterable[str], question: str) -> None:
    """Shows on a terminal what would be removed, and goes on only if the user agrees."""
    if not sys.stdin.isatty():
        raise click.UsageError("Got no --yes, expected it where no terminal can ask.")
    for line in lines:
        echo(wrap_text(line), err=True)
    if not click.confirm(escape_text(question), err=True):
        raise NothingFound("Nothing was removed.")
