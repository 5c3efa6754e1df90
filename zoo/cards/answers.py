"""An answer as one record: a title, columns with their units, rows and notes.

Terminals (:mod:`zoo.cli.output`), pages, notebooks, DataFrames and plots show the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..optional import require_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST = 20  # rows that a notebook's table or a plot has
_TOLD_APART_BY = ("encoder", "probe", "labels", "part", "tag", "metric", "dataset", "split", "protocol", "source")
_ROW_INCHES = 0.28
_STYLE = (  # no colours but the page's own, light or dark; notebooks align cells by rules of more weight
    "<style>.zoo-table table{border-collapse:collapse;min-width:min(32em,100%)}"
    ".zoo-table caption{text-align:left;caption-side:top;font-weight:600;padding:.3em 0}"
    ".zoo-table caption span{display:block;font-weight:400;max-width:44em}"
    ".zoo-table th,.zoo-table td{text-align:left!important;vertical-align:top;padding:.2em 1em .2em 0;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.4);background:none}"
    ".zoo-table th{font-weight:600}.zoo-table thead~tbody *{white-space:nowrap}"
    ".zoo-table .n{text-align:right!important;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".zoo-table p{margin:.3em 0;opacity:.75}</style>"
)


def format_ends(low: float | None, high: float | None, *, digits: int = 1) -> str:
    """The ends of an interval; nothing where they are not known.

    >>> format_ends(3.0, 4.26), format_ends(None, None)
    ('3.0 to 4.3', '')
    """
    return "" if low is None or high is None else f"{low:.{digits}f} to {high:.{digits}f}"


def format_interval(found: Any) -> str:
    """A value with its interval, as :class:`zoo.evaluation.bootstrap.Interval` has them.

    >>> from zoo.evaluation.bootstrap import Interval
    >>> format_interval(Interval(value=4.25, ci_low=3.5, ci_high=5.0))
    '4.2 (3.5 to 5.0)'
    """
    ends = format_ends(found.ci_low, found.ci_high)
    return f"{found.value:.1f}" + f" ({ends})" * bool(ends)


def format_value(value: Any) -> str:
    """A value as a cell: texts as they are, whole numbers in groups of thousands, others in three digits.

    >>> [format_value(one) for one in (21_665_664, 0.12345, "open", True)]
    ['21,665,664', '0.123', 'open', 'yes']
    """
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """What the rows of an answer say of one thing."""

    heading: str | None  # on screens, with the unit, as "error %"; None: in a DataFrame alone
    values: Sequence[Any]  # of each row: a number, a text, or the two ends of an interval
    _: KW_ONLY
    form: Callable[[Any], str] = format_value
    key: str = ""  # in a DataFrame, with the unit, as "error_percent"; "ci_{}_percent" has two ends
    role: str = ""  # a class of its cells on a page
    has_numbers: bool = False  # in texts
    spare: int = 0  # a screen too narrow for all columns leaves out those of the highest first; 0: never

    @property
    def is_number(self) -> bool:
        """Whether cells are aligned to the right."""
        kinds = {*map(type, self.values)} - {bool}
        return self.has_numbers or any(issubclass(kind, Real | tuple) for kind in kinds)

    @property
    def cells(self) -> list[str]:
        """The values as texts; one that is not known is an empty cell."""
        if self.form is format_value and {*map(type, self.values)} == {str}:  # as in long listings
            return [*self.values]
        return ["" if value is None else self.form(value) for value in self.values]

    def list_keyed(self) -> dict[str, Sequence[Any]]:
        """The values by their keys in a DataFrame."""
        if "{}" not in self.key:
            return {self.key: self.values} if self.key else {}
        ends = [(None, None) if one is None else one for one in self.values]
        return {self.key.format("low"): [low for low, _ in ends], self.key.format("high"): [high for _, high in ends]}


def make_interval_columns(
    found: Iterable[Any],
    heading: str = "error %",
    *,
    key: str = "error_percent",
    between: str = "interval",
    digits: int = 1,
) -> tuple[AnswerColumn, AnswerColumn]:
    """Two columns of values and of the ends of their intervals, as :class:`zoo.evaluation.bootstrap.Interval` has them.

    ``digits`` are those behind the point. A row is None where nothing is known.
    """
    known = [*found]
    ends = [None if one is None or None in (one.ci_low, one.ci_high) else (one.ci_low, one.ci_high) for one in known]
    return (
        AnswerColumn(
            heading,
            [None if one is None else one.value for one in known],
            form=lambda value: f"{value:.{digits}f}",
            key=key,
        ),
        AnswerColumn(
            between,
            ends,
            form=lambda two: format_ends(*two, digits=digits),
            key=key and f"ci_{{}}_{key.rpartition('_')[2]}",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTable:
    """One table of an answer, with what is said above and below it."""

    columns: Sequence[AnswerColumn] = ()
    title: str = ""
    about: str = ""  # behind the title, with less weight
    answer: Sequence[str] = ()  # sentences below
    notes: Sequence[str] = ()  # on how to read it

    def __len__(self) -> int:
        """Rows."""
        return len(self.columns[0].values) if self.columns else 0

    @property
    def shown(self) -> list[AnswerColumn]:
        """The columns on screens."""
        return [one for one in self.columns if one.heading is not None]

    @property
    def headings(self) -> list[str]:
        """What the columns are called."""
        return [one.heading or "" for one in self.shown]

    @property
    def headed(self) -> list[list[str]]:
        """The cells of the columns on screens, each with its heading first."""
        return [[one.heading or "", *one.cells] for one in self.shown]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of each row."""
        return [*zip(*(one.cells for one in self.shown), strict=True)]

    @property
    def numbers(self) -> list[int]:
        """Places of the columns that are aligned to the right."""
        return [place for place, one in enumerate(self.shown) if one.is_number]

    @property
    def spare(self) -> list[str]:
        """Headings of the columns that a narrow screen leaves out, in this order."""
        return [str(one.heading) for one in sorted(self.shown, key=lambda one: -one.spare) if one.spare]

    @property
    def records(self) -> list[dict[str, Any]]:
        """Each row by the keys of a DataFrame."""
        keyed: dict[str, Sequence[Any]] = {}
        for one in self.columns:
            keyed |= one.list_keyed()
        return [dict(zip(keyed, values, strict=True)) for values in zip(*keyed.values(), strict=True)]

    def as_texts(self) -> dict[str, Any]:
        """What screens show, for JSON; :func:`read_table` makes a table of it."""
        said = {"title": self.title, "about": self.about, "answer": [*self.answer], "notes": [*self.notes]}
        return {"headings": self.headings, "rows": self.rows, "numbers": self.numbers, "spare": self.spare, **said}

    def take(self, most: int) -> AnswerTable:
        """The first rows."""
        return replace(self, columns=[replace(one, values=one.values[:most]) for one in self.columns])

    def drop(self, heading: str) -> AnswerTable:
        """The table without the columns of one heading."""
        return replace(self, columns=[one for one in self.columns if one.heading != heading])

    def set_apart(self, names: Collection[str] | None = None) -> tuple[AnswerTable, dict[str, str]]:
        """The table without columns, of these or of all texts, that have one cell in all rows; and those cells."""
        same = {
            heading: one.cells[0]
            for heading, one in zip(self.headings, self.shown, strict=True)
            if (one.heading in names if names is not None else not one.is_number or not any(one.cells))
            and len({*one.cells}) == 1
        }
        return replace(self, columns=[one for one in self.columns if one.heading not in same]), same


def make_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[int] = (),
    spare: Sequence[str] = (),
    **said: Any,
) -> AnswerTable:
    """A table of rows of texts; ``numbers`` are the places of columns that are aligned to the right.

    A narrow screen leaves out the columns whose headings are ``spare``, in this order.
    """
    cells = [*zip(*rows, strict=True)] or [()] * len(headings)
    order = {heading: len(spare) - place for place, heading in enumerate(spare)}
    columns = [
        AnswerColumn(heading, values, has_numbers=place in numbers, spare=order.get(heading, 0))
        for place, (heading, values) in enumerate(zip(headings, cells, strict=True))
    ]
    return AnswerTable(columns=columns, **said)


def read_table(texts: Mapping[str, Any]) -> AnswerTable:
    """The table whose :meth:`AnswerTable.as_texts` was stored."""
    return make_table(**texts)


def make_column_table(
    columns: Mapping[str, Sequence[str]], *, numbers: Collection[str] = (), **said: Any
) -> AnswerTable:
    """A table of columns of texts by their headings; the rest is as of :func:`make_table`."""
    places = [place for place, name in enumerate(columns) if name in numbers]
    return make_table([*columns], zip(*columns.values(), strict=True), numbers=places, **said)


# --- notebooks and pages ---------------------------------------------------------------------------------------------


class ShownInNotebooks:
    """An answer that shows its tables in a notebook, and has the rows of the first as ``.df`` and by ``.plot()``."""

    __slots__ = ()

    def build_tables(self) -> Sequence[AnswerTable]:
        """What terminals, pages and notebooks show."""
        raise NotImplementedError

    def _axis(self) -> str:
        return "error, percent (lower is better)"

    @property
    def df(self) -> pd.DataFrame:
        """All rows as a DataFrame, with units in the names of the columns."""
        with require_extra("tables", needed_for="A DataFrame"):
            import pandas as pd
        return pd.DataFrame(self.build_tables()[0].records)

    def _repr_html_(self) -> str:
        return "".join(map(render_html_answer, self.build_tables()))

    def plot(self, ax: Axes | None = None, *, most: int = MOST) -> Axes:
        """Draws values with their intervals, a line each and ``most`` at most, on ``ax`` or a new figure.

        QueryError if there is nothing to draw, or values have several units.
        """
        records = self.build_tables()[0].records
        if not records:
            raise QueryError("There is nothing to plot: got no rows, expected one at least.")
        if len(units := {one["unit"] for one in records if "unit" in one}) > 1:
            raise QueryError(
                f"Got values in {' and '.join(sorted(units))}, expected one unit in a plot; ask for one metric alone."
            )
        value = next(name for name in records[0] if name.endswith(("value", "_percent", "_points")))
        low, high = (next(name for name in records[0] if name.startswith(end)) for end in ("ci_low", "ci_high"))
        known = [name for name in _TOLD_APART_BY if name in records[0]]
        differ = [name for name in known if len({one[name] for one in records}) > 1] or known[:1]
        lines: dict[str, list[dict[str, Any]]] = {}
        for one in records:
            if one[value] is not None:
                lines.setdefault(", ".join(str(one[name]) for name in differ), []).append(one)
        names = [*lines][:most]
        axes = ax if ax is not None else make_axes(height=0.8 + _ROW_INCHES * len(names))
        for place, one in ((place, one) for place, name in enumerate(names) for one in lines[name]):
            ends = [one[value] if one[end] is None else one[end] for end in (low, high)]
            axes.plot(ends, [place, place], color="#0072B2", linewidth=3.0, alpha=0.45, solid_capstyle="butt")
            axes.plot(one[value], place, "o", color="#0072B2", markersize=5.5)
        axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="x", color="#808080", alpha=0.25)
        axes.set_xlabel(self._axis())
        return axes


def make_axes(*, height: float, width: float = 7.0) -> Axes:
    """Axes of a new figure of so many inches, which a notebook shows below the cell."""
    with require_extra("study", needed_for="A plot"):
        import matplotlib.pyplot as plt
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def render_html_answer(table: AnswerTable) -> str:
    """A table for light and dark notebooks, with what all rows share said once; :data:`MOST` rows at most.

    >>> table = make_table(["", ""], [["<b>", "24.6"]], numbers=[1], title="A & B")
    >>> render_html_answer(table).partition("<tbody>")[2]
    '<tr><th scope="row">&lt;b&gt;</th><td class="n">24.6</td></tr></tbody></table></div>'
    """
    from html import escape

    shown = table.take(MOST)
    notes = [f"The first {MOST} rows; .df has all."] * (len(shown) < len(table))
    if any(shown.headings) and len(shown) > 1:
        shown, same = shown.set_apart()
        said = [f"{heading}: {text}" for heading, text in same.items() if text and text not in table.title]
        notes += ["; ".join(said)] * bool(said)
    about = f"<span>{escape(table.about.lstrip(': '))}</span>" if table.about else ""
    text = render_html_table(shown, caption=escape(table.title) + about)
    said = [f"<p>{escape(note)}</p>" for note in (*notes, *table.answer, *table.notes)]
    return f'{_STYLE}<div class="zoo-table">{text}{"".join(said)}</div>'


def render_html_table(table: AnswerTable, *, kind: str = "", marks: Sequence[str] = (), caption: str = "") -> str:
    """A table as HTML with everything escaped but the caption; ``kind`` is its class, ``marks`` those of its rows."""
    from html import escape

    classes = [" ".join(filter(None, (one.role, "n" * one.is_number))) for one in table.shown]
    of_cells = [f' class="{name}"' * bool(name) for name in classes]
    heads = [escape(heading) for heading in table.headings]
    labels = [head if head not in heads[:place] else f"{head} {heads[place - 1]}" for place, head in enumerate(heads)]
    labels = [f' data-label="{label}"' * (kind == "cards") for label in labels]  # which narrow pages show
    head = "".join(f'<th scope="col"{of}>{name}</th>' for of, name in zip(of_cells, heads, strict=True))
    begins = [f"<td{of}{label}>" for of, label in zip(of_cells, labels, strict=True)]
    ends = ["</td>"] * len(begins)
    if not kind and begins:
        begins[0], ends[0] = f'<th scope="row"{of_cells[0]}>', "</th>"
    rows = []
    for number, row in enumerate(table.rows):
        mark = f' class="{marks[number]}"' if marks else ""
        cells = "".join(f"{begin}{escape(cell)}{end}" for begin, cell, end in zip(begins, row, ends, strict=True))
        rows.append(f"<tr{mark}>{cells}</tr>")
    thead = f"<thead><tr>{head}</tr></thead>" * any(heads)
    of_table = f' class="{kind}"' * bool(kind)
    title = f"<caption>{caption}</caption>" * bool(caption)
    return f"<table{of_table}>{title}{thead}<tbody>{''.join(rows)}</tbody></table>"
