"""Figures of a choice, each drawn for a width, as SVG in the colours of the page around it (:mod:`zoo.looking.pages`).

Lower is better in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..evaluation.drawing import COLOURS, COMPONENT_COLOURS, MARKS, make_figure
from ..looking.pages import INK
from ..results.facts import format_short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from ..evaluation.bootstrap import Interval
    from .comparing import LabelCurve
    from .successive_halving import CandidateState

_BY_VERDICT = {"leader": "#0072B2", "tie": "#56B4E9", "not told apart": "#CC79A7", "worse": "#D55E00"}
_OTHER = "#8A8F98"
_LONGEST_NAME = {True: 40, False: 24}  # characters, by whether the figure is wide
_WIDE = 5.0  # inches, from which on a figure counts as wide
_ROW_INCHES = 0.24
_NAMED = 6  # so many encoders have their names in a figure, of more those on the front
_DECADE = 5.0  # ratio of the largest to the smallest value from which on an axis is logarithmic


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBar:
    """The error of one encoder."""

    name: str
    error: Interval  # percent
    verdict: str
    is_final: bool  # probed with the others of the last rung, and so comparable with them


def list_race_bars(standings: Sequence[CandidateState]) -> list[ErrorBar]:
    """The errors at the end of a race, of those that did not fail."""
    return [
        ErrorBar(name=one.name, error=one.error, verdict=one.verdict, is_final=one.status == "probed")
        for one in standings
        if one.error is not None
    ]


def _of_height(what: str) -> str:
    """The label of a vertical axis, which has less room."""
    return f"{what.removeprefix('share of ').removesuffix(' variance')}, percent (lower is better)"


def draw_ranking(bars: Sequence[ErrorBar], width: float, *, what: str = "error", axes: Axes | None = None) -> Drawing:
    """Errors with their intervals, best first; hollow where an encoder was dropped before the end."""
    drawing, axes = _place(axes, width, 0.75 + _ROW_INCHES * len(bars))
    for place, bar in enumerate(bars):
        colour = _colour(bar.verdict)
        axes.plot(_ends(bar.error), [place, place], color=colour, linewidth=3.0, alpha=0.45, solid_capstyle="butt")
        axes.plot(
            bar.error.value, place, "o", color=colour, markersize=5.5, fillstyle="full" if bar.is_final else "none"
        )
    axes.set_yticks(range(len(bars)), [_short(bar.name, width) for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{what}, percent (lower is better)")
    _key(drawing, [bar.verdict for bar in bars], width)
    return drawing


def draw_against_cost(
    bars: Sequence[ErrorBar],
    costs: Sequence[float],
    width: float,
    *,
    label: str,
    more_is_better: bool,
    what: str = "error",
    axes: Axes | None = None,
) -> Drawing:
    """Error against a cost, with the Pareto front."""
    drawing, axes = _place(axes, width, 3.0)
    _scale(axes, costs)
    points = [(cost, bar.error.value) for bar, cost in zip(bars, costs, strict=True)]
    front = find_pareto_points(points, more_is_better=more_is_better)
    path = sorted(points[i] for i in front)
    where: Any = "pre" if more_is_better else "post"  # what is as good or better there is at the end of a step
    axes.step(*zip(*path, strict=True), where=where, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    for i, (bar, cost) in enumerate(zip(bars, costs, strict=True)):
        colour = _colour(bar.verdict)
        axes.plot([cost, cost], _ends(bar.error), color=colour, alpha=0.45, linewidth=2.0)
        axes.plot(cost, bar.error.value, "o" if i in front else "s", color=colour, markersize=5)
    axes.margins(x=0.06, y=0.16)
    axes.set(xlabel=label, ylabel=_of_height(what))
    _key(drawing, [bar.verdict for bar in bars], width)
    named = [i for i, bar in enumerate(bars) if i in front or bar.verdict == "leader" or len(bars) <= _NAMED]
    marks = [(cost, *_ends(bar.error)) for bar, cost in zip(bars, costs, strict=True)]
    _write_names(axes, marks, {i: _short(bars[i].name, width) for i in named}, path, f"steps-{where}")
    return drawing


def _write_names(
    axes: Axes,
    marks: Sequence[tuple[float, float, float]],
    names: Mapping[int, str],
    front: Sequence[tuple[float, float]],
    steps: str,
) -> None:
    """Writes names of marks, each (x, low, high), within the axes where they cover the fewest bars, names and steps."""
    import numpy as np
    from matplotlib.cbook import STEP_LOOKUP_MAP
    from matplotlib.transforms import Bbox

    drawing = axes.get_figure(root=True)
    assert drawing is not None
    drawing.draw_without_rendering()  # lays everything out, so that places in pixels are known
    ends = [axes.transData.transform([(x, low), (x, high)]) for x, low, high in marks]
    taken = [Bbox([[low[0] - 4, low[1] - 4], [high[0] + 4, high[1] + 4]]) for low, high in ends]
    corners = axes.transData.transform(np.transpose(STEP_LOOKUP_MAP[steps](*np.transpose(front))))
    taken += [
        Bbox.from_extents(*np.minimum(one, other) - 1, *np.maximum(one, other) + 1) for one, other in pairwise(corners)
    ]
    inside = axes.get_window_extent()
    for place, name in names.items():
        x, low, high = marks[place]
        text = axes.annotate(name, (x, high), (0, 0), textcoords="offset points", size=6.5, color=INK)
        tried: list[tuple[Any, ...]] = []
        for at, (dx, dy), across, up in (
            (high, (0, 4), "center", "bottom"), (low, (0, -4), "center", "top"), (high, (0, 4), "left", "bottom"),
            (high, (0, 4), "right", "bottom"), (low, (0, -4), "left", "top"), (low, (0, -4), "right", "top"),
            ((low + high) / 2, (6, 0), "left", "center"), ((low + high) / 2, (-6, 0), "right", "center"),
        ):  # fmt: skip
            text.xy, text.xyann = (x, at), (dx, dy)
            text.set(ha=across, va=up)
            box = text.get_window_extent()
            is_out = box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1
            tried.append((sum(box.overlaps(one) for one in taken) + 9 * is_out, len(tried), at, (dx, dy), across, up))
        *_, at, offset, across, up = min(tried)
        text.xy, text.xyann = (x, at), offset
        text.set(ha=across, va=up)
        taken.append(text.get_window_extent())


def find_pareto_points(points: Sequence[tuple[float, float]], *, more_is_better: bool) -> set[int]:
    """Places of the points (cost, error) that no other point beats in one and equals or beats in the other.

    >>> sorted(find_pareto_points([(10, 5.0), (20, 4.0), (5, 6.0), (20, 5.0)], more_is_better=True))
    [1]
    >>> sorted(find_pareto_points([(10, 5.0), (20, 4.0), (5, 6.0), (20, 5.0)], more_is_better=False))
    [0, 1, 2]
    """
    turned = [(-cost if more_is_better else cost, error) for cost, error in points]
    return {
        place
        for place, one in enumerate(turned)
        if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in turned)
    }


def draw_label_curve(curves: Sequence[LabelCurve], width: float, *, what: str = "error") -> Drawing:
    """Errors with parts of the labels; what is expected of more is dashed and hollow."""
    from matplotlib.ticker import NullLocator

    drawing, (axes,) = make_figure(width=width, height=3.0)
    axes.set_xscale("log")
    for place, curve in enumerate(curves):
        colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
        path = [(point.n_labels, point.error.value) for point in curve.points]
        axes.plot(*zip(*path, strict=True), color=colour, marker=mark, label=_short(curve.encoder, width))
        for point in (*curve.points, *curve.expected):
            axes.plot([point.n_labels] * 2, _ends(point.error), color=colour, alpha=0.35, linewidth=3.0)
        if curve.expected:
            beyond = [path[-1], *((point.n_labels, point.error.value) for point in curve.expected)]
            axes.plot(*zip(*beyond, strict=True), color=colour, linestyle=(0, (3, 2)))
            axes.plot(*zip(*beyond[1:], strict=True), mark, color=colour, fillstyle="none")
    counts = sorted({point.n_labels for curve in curves for point in (*curve.points, *curve.expected)}, reverse=True)
    ticks = counts[:: math.ceil(len(counts) / (8 if width > _WIDE else 4))]  # as many as can be read
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="labelled images", ylabel=_of_height(what))
    handles, labels = axes.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=2 if width > _WIDE else 1)
    return drawing


def draw_error_parts(parts: Mapping[str, float], width: float) -> Drawing:
    """The parts of an error, in points, as bars from zero; they add up to the error."""
    drawing, (axes,) = make_figure(width=width, height=0.7 + 0.3 * len(parts))
    for place, (name, value) in enumerate(parts.items()):
        axes.barh(place, value, color=COMPONENT_COLOURS.get(name, _OTHER), height=0.6)
        axes.annotate(
            f"{value:.2f}", (max(value, 0.0), place), (4, 0), textcoords="offset points", va="center", color=INK
        )
    axes.set_yticks(range(len(parts)), list(parts))
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=INK, linewidth=0.7)
    axes.margins(x=0.14)
    axes.set_xlabel("points of error (lower is better)")
    return drawing


# --- parts of figures ------------------------------------------------------------------------------------------------


def _place(axes: Axes | None, width: float, height: float) -> tuple[Drawing, Axes]:
    """Given axes with their figure, or new ones of so many inches."""
    axes = axes or make_figure(width=width, height=height)[1][0]
    drawing = axes.get_figure(root=True)
    assert drawing is not None
    return drawing, axes


def _colour(verdict: str) -> str:
    return _BY_VERDICT.get(verdict, _OTHER)


def _ends(error: Interval) -> tuple[float, float]:
    low = error.value if error.ci_low is None else error.ci_low
    high = error.value if error.ci_high is None else error.ci_high
    return low, high


def _short(name: str, width: float) -> str:
    """A name that fits; a dollar would begin a formula."""
    most = _LONGEST_NAME[width > _WIDE]
    return (name if len(name) <= most else f"{name[: most - 8]}…{name[-7:]}").replace("$", r"\$")


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis with ticks in plain numbers, or a linear one where the values are close."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    is_wide = max(values) > _DECADE * min(values)
    axes.set_xscale("log" if is_wide else "linear")
    steps = (1.0,) if max(values) > _DECADE**4 * min(values) else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps) if is_wide else MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: format_short_number(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _key(drawing: Drawing, verdicts: Sequence[str], width: float) -> None:
    """A legend of the colours that are there."""
    from matplotlib.lines import Line2D

    order = [verdict for verdict in (*_BY_VERDICT, "failed") if verdict in verdicts]
    handles = [Line2D([], [], color=_colour(one), marker="o", linestyle="", label=one) for one in order]
    if len(handles) > 1:
        drawing.legend(handles=handles, loc="outside lower center", ncols=4 if width > _WIDE else 2, handlelength=1.0)
