"""The numbers of a figure as a table, read from what was drawn: every figure has them, and none writes them down.

A row is a point, a line's corner, a bar, an interval, a cell of a map, or a text within the axes; in the units of the
axes, and as drawn: points that were moved apart are where they stand. What has no place in the data (letters of panels,
lines across a panel, legends) is left out. Points whose encoders the figure knows
(:func:`~zoo.evaluation.drawing.name_points`) have their names.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..evaluation.drawing import Figure, names_of
from ..optional import requires_extra

with requires_extra("study", needed_for="The data of a figure"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Drawing

COLUMNS = (
    "panel", "x_axis", "y_axis", "kind", "series", "name", "x", "y", "x_end", "y_end", "value", "x_name", "y_name",
)  # fmt: skip
"""Of the CSV of a figure; ``x_end`` and ``y_end`` are of what has two ends, ``value`` is what a colour stands for."""
_LETTER = re.compile(r"\([a-z]\)")
_NUMBER = re.compile(r"[\d.,\s+%kMG×^{}$\\a-z−-]*\d[\d.,\s+%kMG×^{}$\\−-]*")  # noqa: RUF001 (as ticks have them)
_NEAR = 0.5  # of the distance of two ticks, within which a place belongs to the name of a tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One row of the CSV."""

    kind: str  # "point", "line", "bar", "interval", "area", "cell", "arrow", "text"
    x: float | None = None
    y: float | None = None
    x_end: float | None = None
    y_end: float | None = None
    value: float | None = None
    series: str = ""
    name: str = ""


def data_of(figure: Figure, drawing: Drawing) -> str:
    """The CSV of a figure: its own data if it has some, else :func:`csv_of` what was drawn."""
    if figure.data is None:
        return csv_of(drawing)
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(figure.data())
    return file.getvalue()


def csv_of(drawing: Drawing) -> str:
    """All marks of a figure that has been drawn or saved, under :data:`COLUMNS`."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    panels = [axes for axes in drawing.axes if axes.axison and not hasattr(axes, "_colorbar")]
    series = _legend_of(drawing)
    for number, axes in enumerate(panels, start=1):
        panel = _panel_name(axes) or (str(number) if len(panels) > 1 else "")
        x_axis, y_axis = _label(axes, "x", drawing), _label(axes, "y", drawing)
        x_names, y_names = _names_of_ticks(axes.xaxis), _names_of_ticks(axes.yaxis)
        for mark in _marks(axes, series):
            writer.writerow(
                [
                    panel, x_axis, y_axis, mark.kind, mark.series, mark.name,
                    *map(_text, (mark.x, mark.y, mark.x_end, mark.y_end, mark.value)),
                    _named(mark.x, x_names), _named(mark.y, y_names),
                ]
            )  # fmt: skip
    return file.getvalue()


def _text(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"


def _panel_name(axes: Axes) -> str:
    """Letter and name above a panel, or its title."""
    for text in axes.texts:
        if _LETTER.match(text.get_text()):
            return _plain(text.get_text())
    return _plain(" ".join(filter(None, (axes.get_title(loc=place) for place in ("left", "center", "right")))))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _label(axes: Axes, which: str, drawing: Drawing) -> str:
    """The label of an axis, or of another panel that shares it, or of the whole figure."""
    shared = axes.get_shared_x_axes() if which == "x" else axes.get_shared_y_axes()
    for one in (axes, *shared.get_siblings(axes)):
        if text := (one.get_xlabel() if which == "x" else one.get_ylabel()):
            return _plain(text)
    return _plain(drawing.get_supxlabel() if which == "x" else drawing.get_supylabel())


def _names_of_ticks(axis: Axis) -> dict[float, str]:
    """Places with a name; none if the ticks say no more than where they are."""
    texts = [_plain(text.get_text()) for text in axis.get_ticklabels()]
    ticks = [(float(place), text) for place, text in zip(axis.get_ticklocs(), texts, strict=False) if text]
    return {} if all(_is_number(text, place) for place, text in ticks) else dict(ticks)


def _is_number(text: str, place: float) -> bool:
    """True if a tick's text is its own place, rounded or with a unit."""
    try:
        return math.isclose(float(text.replace("−", "-").replace(",", "")), place, rel_tol=0.1, abs_tol=0.01)  # noqa: RUF001
    except ValueError:
        return _NUMBER.fullmatch(text) is not None


def _named(place: float | None, names: Mapping[float, str]) -> str:
    if place is None or not names:
        return ""
    nearest = min(names, key=lambda one: abs(one - place))
    places = sorted(names)
    step = min((after - before for before, after in pairwise(places)), default=1.0)
    return names[nearest] if abs(nearest - place) < _NEAR * step else ""


# --- which series a colour and a mark stand for ---------------------------------------------------------------------

_Look = tuple[str, str]  # colour, mark


def _legend_of(drawing: Drawing) -> dict[_Look, str]:
    """What the legends say of colours with marks, and of colours alone where these differ (mark "")."""
    legends = [*drawing.legends, *filter(None, (axes.get_legend() for axes in drawing.axes))]
    entries = [
        (_look(handle), _plain(text.get_text()))
        for legend in legends
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False)
        if handle is not None
    ]
    found = {(colour, mark): text for (colour, mark), text in entries if colour}
    for colour in {colour for (colour, _), _ in entries if colour}:
        texts = {text for (other, _), text in entries if other == colour}
        if len(texts) == 1:
            found[colour, ""] = texts.pop()
    return found


def _look(artist: Artist) -> _Look:
    """Colour and mark of an artist, "" where it has none or several."""
    from matplotlib.collections import Collection
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if isinstance(artist, Line2D):
        mark = artist.get_marker()
        return to_hex(artist.get_color()), mark if isinstance(mark, str) and mark != "None" else ""
    if isinstance(artist, Collection):
        colours: Any = artist.get_facecolor()
        colours = colours if len(colours) else artist.get_edgecolor()
        return (to_hex(colours[0]) if len(colours) == 1 else "", "")
    return (to_hex(artist.get_facecolor()), "") if isinstance(artist, Patch) else ("", "")


def _series(artist: Any, legend: Mapping[_Look, str]) -> str:
    own = str(artist.get_label())
    if own and not own.startswith("_"):
        return _plain(own)
    colour, mark = _look(artist)
    return legend.get((colour, mark)) or legend.get((colour, ""), "")


# --- marks of one panel ---------------------------------------------------------------------------------------------


def _marks(axes: Any, legend: Mapping[_Look, str]) -> Iterator[Mark]:
    from matplotlib.collections import LineCollection, PathCollection, PolyCollection
    from matplotlib.container import BarContainer

    for image in axes.images:
        yield from _cells(image)
    bars = {patch: one for one in axes.containers if isinstance(one, BarContainer) for patch in one.patches}
    for patch in axes.patches:
        if _is_data(patch, axes):
            series = _series(bars.get(patch, patch), legend) or _series(patch, legend)
            lies = patch in bars and bars[patch].orientation == "horizontal"
            for mark in _bar(patch, lies=lies) if patch in bars else _outline(patch):
                yield replace(mark, series=series)
    for collection in axes.collections:
        series = _series(collection, legend)
        if isinstance(collection, PathCollection):
            marks = _points(collection, axes)
        elif isinstance(collection, LineCollection):
            marks = _intervals(collection.get_segments()) if _is_data(collection, axes) else iter(())
        elif isinstance(collection, PolyCollection) and _is_data(collection, axes):
            marks = (mark for path in collection.get_paths() for mark in _corners("area", np.asarray(path.vertices)))
        else:
            marks = iter(())
        yield from (replace(mark, series=series) for mark in marks)
    for line in axes.lines:
        if _is_data(line, axes):
            series = _series(line, legend)
            joined = line.get_linestyle() not in ("None", "none", "", " ") and len(line.get_xdata()) > 1
            corners = zip(line.get_xdata(orig=False), line.get_ydata(orig=False), strict=True)
            names = names_of(line)
            for mark in _corners("line" if joined else "point", corners, names):
                yield replace(mark, series=series)
    yield from (mark for text in axes.texts for mark in _said(text, axes))


def _is_data(artist: Artist, axes: Axes) -> bool:
    return bool(artist.get_transform().contains_branch(axes.transData)) and all(
        artist.get_transform().contains_branch_seperately(axes.transData)
    )


def _corners(kind: str, corners: Iterable[Sequence[Any]], names: Sequence[str] = ()) -> Iterator[Mark]:
    for place, (x, y) in enumerate(corners):
        yield Mark(kind=kind, x=float(x), y=float(y), name=names[place] if place < len(names) else "")


def _points(collection: Any, axes: Axes) -> Iterator[Mark]:
    if not collection.get_offset_transform().contains_branch(axes.transData):
        return
    values, names = collection.get_array(), names_of(collection)
    for place, mark in enumerate(_corners("point", collection.get_offsets(), names)):
        yield mark if values is None else replace(mark, value=float(values[place]))


def _intervals(segments: Iterable[Any]) -> Iterator[Mark]:
    for segment in segments:
        if len(segment) == 2:
            (x, y), (x_end, y_end) = segment
            yield Mark(kind="interval", x=float(x), y=float(y), x_end=float(x_end), y_end=float(y_end))
        else:
            yield from _corners("line", segment)


def _bar(patch: Any, *, lies: bool) -> Iterator[Mark]:
    x, y, width, height = patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()
    if lies:
        yield Mark(kind="bar", x=x, y=y + height / 2, x_end=x + width)
    else:
        yield Mark(kind="bar", x=x + width / 2, y=y, y_end=y + height)


def _outline(patch: Any) -> Iterator[Mark]:
    yield from _corners("area", patch.get_patch_transform().transform(patch.get_path().vertices))


def _cells(image: Any) -> Iterator[Mark]:
    values = image.get_array()
    if values is None or values.ndim != 2:  # colours and no numbers
        return
    values = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    left, right, bottom, top = image.get_extent()
    n_rows, n_columns = values.shape
    if image.origin == "upper":
        bottom, top = top, bottom
    for row in range(n_rows):
        for column in range(n_columns):
            yield Mark(
                kind="cell",
                x=left + (column + 0.5) * (right - left) / n_columns,
                y=bottom + (row + 0.5) * (top - bottom) / n_rows,
                value=float(values[row, column]),
            )


def _said(text: Any, axes: Axes) -> Iterator[Mark]:
    """A text at a place of the data, and an arrow between two."""
    from matplotlib.text import Annotation

    is_note = isinstance(text, Annotation)
    if is_note and text.xycoords != "data":
        return
    if not is_note and not _is_data(text, axes):
        return
    x, y = (float(one) for one in (text.xy if is_note else text.get_position()))
    if text.get_text():
        yield Mark(kind="text", x=x, y=y, name=_plain(text.get_text()))
    elif is_note and text.arrow_patch is not None:
        start_x, start_y = (float(one) for one in text.xyann)
        yield Mark(kind="arrow", x=start_x, y=start_y, x_end=x, y_end=y)
