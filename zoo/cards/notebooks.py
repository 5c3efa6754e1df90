"""What cards and rows of numbers show of themselves in a notebook: a table, a DataFrame, a plot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import QueryError
from ..optional import require_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Record = dict[str, Any]

MOST = 20  # rows that a table or a plot has
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


class NotebookTable:
    """Rows of numbers that show themselves in a notebook: as a table, as ``.df`` and by ``.plot()``."""

    __slots__ = ()
    _only_in_df: ClassVar[frozenset[str]] = frozenset()  # columns that a table has no room for

    def _records(self) -> Iterable[Record]:
        """Rows by column, as ``error_percent`` with ``ci_low_percent`` and ``ci_high_percent``, the same in each."""
        raise NotImplementedError

    def _caption(self) -> str:
        raise NotImplementedError

    def _notes(self) -> Sequence[str]:
        return ()

    def _axis(self) -> str:
        return "error, percent (lower is better)"

    @property
    def df(self) -> pd.DataFrame:
        """All rows as a DataFrame, with units in the names of the columns."""
        with require_extra("tables", needed_for="A DataFrame"):
            import pandas as pd
        return pd.DataFrame([*self._records()])

    def _repr_html_(self) -> str:
        records, caption = [*islice(self._records(), MOST + 1)], self._caption()
        notes = [f"The first {MOST} rows; .df has all."] * (len(records) > MOST)
        said, hidden = [], {*self._only_in_df}
        for name in records[0] if records else ():  # a text that all rows share is said once
            some = {one[name] for one in records[:MOST]}
            is_same = len(records) > 1 and len(some) == 1 and isinstance(records[0][name], str)
            if is_same and records[0][name] not in caption:
                said.append(f"{_heading(name)}: {records[0][name]}")
            if is_same or some == {None}:
                hidden.add(name)
        notes += ["; ".join(said)] * bool(said)
        return render_html_table(records[:MOST], caption=caption, notes=[*notes, *self._notes()], hidden=hidden)

    def plot(self, ax: Axes | None = None, *, most: int = MOST) -> Axes:
        """Draws values with their intervals, a line each and ``most`` at most, on ``ax`` or a new figure.

        QueryError if there is nothing to draw, or values have several units.
        """
        records = [*self._records()]
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
        lines: dict[str, list[Record]] = {}
        for one in records:
            if one[value] is not None:
                lines.setdefault(", ".join(str(one[name]) for name in differ), []).append(one)
        names = [*islice(lines, most)]
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


def render_html_table(
    records: Sequence[Mapping[str, Any]],
    *,
    caption: str,
    about: str = "",
    notes: Sequence[str] = (),
    hidden: Collection[str] = (),
    has_header: bool = True,
) -> str:
    """A compact table with everything escaped, for light and dark notebooks; the ends of an interval are one column.

    >>> render_html_table([{"encoder": "<b>", "error_percent": 24.61}], caption="A & B", has_header=False)[-84:]
    '<tr><th scope="row">&lt;b&gt;</th><td class="n">24.6</td></tr></tbody></table></div>'
    """
    from html import escape

    names = [name for name in (records[0] if records else ()) if name not in hidden and not name.startswith("ci_high")]
    classes = {name: ' class="n"' * any(_is_number(one[name]) for one in records) for name in names}
    head = "".join(f'<th scope="col"{classes[name]}>{escape(_heading(name))}</th>' for name in names)
    rows = []
    for one in records:
        first, *others = (escape(_cell(one, name)) for name in names)
        cells = "".join(f"<td{classes[name]}>{cell}</td>" for name, cell in zip(names[1:], others, strict=True))
        rows.append(f'<tr><th scope="row"{classes[names[0]]}>{first}</th>{cells}</tr>')
    said = "".join(f"<p>{escape(note)}</p>" for note in notes)
    thead = f"<thead><tr>{head}</tr></thead>" if has_header else ""
    title = escape(caption) + (f"<span>{escape(about)}</span>" if about else "")
    table = f"<table><caption>{title}</caption>{thead}<tbody>{''.join(rows)}</tbody></table>"
    return f'{_STYLE}<div class="zoo-table">{table}{said}</div>'


def _heading(name: str) -> str:
    if name.startswith("ci_low"):
        return "interval"
    name = {"n_train": "training images", "n_test": "test images"}.get(name, name)
    return name.removeprefix("n_").replace("_percent", " %").replace("_", " ")


def _cell(record: Mapping[str, Any], name: str) -> str:
    """Numbers with one decimal in percent or points, else in three digits."""

    def text(value: Any) -> str:
        if value is None or isinstance(value, bool):
            return "yes" if value else ""
        if not isinstance(value, float):
            return f"{value:,}" if isinstance(value, int) else str(value)
        unit = f"{name} {record.get('unit', '')}"
        return f"{value:,.1f}" if "percent" in unit or "points" in unit else f"{value:.3g}"

    ends = [record[name], record[name.replace("low", "high", 1)]] if name.startswith("ci_low") else [record[name]]
    return "" if None in ends else " to ".join(map(text, ends))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
