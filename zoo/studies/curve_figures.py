"""Figures of calibrated learning curves: against the number of labels, and against training from scratch.

Both are those of the paper's Figures 1 to 3: the blind guess lies at 1 and maximal supervision at 0, an encoder that is
worth nothing lies on the curve of scratch, on the left, and on the diagonal, on the right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra
from ..evaluation.drawing import COLOURS, FULL_WIDTH, MARKS, Figure, letter, new_figure
from .curve_texts import caption_of, improvement_text, label_of, require_drawable, words_of

try:
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import NullLocator
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="study", needed_for="A figure") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..evaluation.curves.curve import CalibratedCurve, CurvePoint
    from ..evaluation.intervals import Interval

Look = Mapping[str, tuple[str, str]]  # of each curve, by its label: colour and mark

_INK = tuple(colour for colour in COLOURS if colour != "#444444")  # black and greys are of the controls
_MARKS = MARKS[1:]  # circles too
_SCRATCH_LOOKS: Any = (("black", "-"), ("#777777", (0, (4, 1.5))), ("#AAAAAA", (0, (1.5, 1))))
_BLIND_LINE: Any = (0, (5, 2))
_MAXIMAL_LINE: Any = (0, (1, 1.5))
_ASIDE = 0.011  # of the span of risks of scratch, between the bars of two encoders with as many labels
_MOST_BANDS = 3  # curves with a band each; more of them would hide each other, and get bars
_BEYOND = 0.6  # of the span of all values, that intervals may add to the axis at either end
_LEGEND_INCHES = 0.155  # of a line
_ABOVE = 13.0  # points between frame and title, for numbers of labels


@dataclass(frozen=True, slots=True)
class _Scratch:
    name: str
    ink: str
    line: Any
    points: Sequence[CurvePoint]


def curves_figure(curves: Sequence[CalibratedCurve], *, name: str | None = None) -> Figure:
    """Both panels, for curves of one metric on one data set.

    Parameters
    ----------
    curves : sequence of CalibratedCurve
        One an encoder; from 1 to about 8 can be told apart.
    name : str, optional
        Of the file; ``curves_METRIC`` by default.

    Raises
    ------
    QueryError
        If there is no curve, or if they are of several metrics or data sets, or two of them have one name.
    """
    require_drawable(curves)
    metric = curves[0].metric
    return Figure(
        name=name or f"curves_{metric}",
        title=f"What pre-training is worth: {curves[0].task} on {curves[0].dataset}, {words_of(metric)}",
        caption=f"(a) Against the number of labels, (b) against training from scratch. {caption_of(curves)}"
        + " Encoders stand side by side where their intervals would hide each other." * (len(curves) > 1)
        + " Intervals that leave the frame are cut." * _is_cut(curves),
        draw=partial(draw_curves, tuple(curves)),
    )


def draw_curves(curves: Sequence[CalibratedCurve]) -> Drawing:
    """Calibrated risk against the number of labels, and against that of scratch; the legend has the improvements."""
    require_drawable(curves)
    handles = legend_handles(curves)
    n_columns = _columns([str(one.get_label()) for one in handles])
    n_lines = math.ceil(len(handles) / n_columns)
    drawing, (left, right) = new_figure(
        height=3.1 + _LEGEND_INCHES * n_lines, n_columns=2, sharey=True, width_ratios=(1.15, 1)
    )
    look = look_of(curves)
    draw_against_n(left, curves, look)
    draw_against_scratch(right, curves, look)
    right.set_ylabel("")
    letter([left, right], above=_ABOVE)
    drawing.legend(handles=handles, loc="outside lower center", ncols=n_columns)
    return drawing


def draw_against_n(axes: Axes, curves: Sequence[CalibratedCurve], look: Look | None = None) -> None:
    """Calibrated risk against the number of labels that were used, and the controls."""
    chosen = look or look_of(curves)
    axes.set_xscale("log")
    axes.set_ylim(*limits(curves))
    _draw_controls(axes, corners=("right", "left"))  # where curves seldom are
    for scratch in _by_scratch(curves):
        values = [point.calibrated_scratch for point in scratch.points]
        n = [point.n_actual for point in scratch.points]
        axes.plot(n, [one.value for one in values], color=scratch.ink, linestyle=scratch.line, marker="o",
                  markerfacecolor="white", zorder=3)  # fmt: skip
        _draw_uncertainty(axes, n, values, scratch.ink, band=len(curves) <= _MOST_BANDS)
    every = sorted({point.n_actual for curve in curves for point in curve.points})
    for place, curve in enumerate(curves):
        ink, mark = chosen[label_of(curve)]
        move = _dodge(place, len(curves), every)
        x = [point.n_actual * move for point in curve.points]
        _draw_curve(axes, x, curve, ink, mark, n_curves=len(curves))
    if len(every) == 1:
        axes.set_xlim(every[0] / 3, every[0] * 3)
    ticks = _told_apart(every)
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="number of labelled images n", ylabel=_risk_label(curves))


def draw_against_scratch(axes: Axes, curves: Sequence[CalibratedCurve], look: Look | None = None) -> None:
    """Calibrated risk against that of scratch, which is the diagonal itself."""
    chosen = look or look_of(curves)
    axes.set_ylim(*limits(curves))
    _draw_controls(axes, corners=("left", "right"))
    every = _by_scratch(curves)
    values = [point.calibrated_scratch.value for scratch in every for point in scratch.points]
    ends = min(0.0, *values), max(1.0, *values)
    axes.plot(ends, ends, color="black", zorder=3)
    for scratch in every:
        for own in (point.calibrated_scratch for point in scratch.points):
            axes.plot(own.value, own.value, "o", color=scratch.ink, markerfacecolor="white", zorder=3)
            if own.ci_low is not None and own.ci_high is not None:  # how well the place on the other axis is known
                axes.plot([own.ci_low, own.ci_high], [own.value] * 2, color=scratch.ink, linewidth=0.7, alpha=0.6)
    if len(every) == 1:
        _write_n(axes, every[0].points, ends)
    for place, curve in enumerate(curves):
        ink, mark = chosen[label_of(curve)]
        points = [point.calibrated_scratch.value for point in curve.points]
        if len(curves) == 1 and len(points) > 1:  # the area of the cumulative improvement
            y = [point.calibrated.value for point in curve.points]
            area = axes.fill_between(points, points, y, color=ink, alpha=0.12, linewidth=0, hatch="////", edgecolor=ink)
            low, high = axes.get_ylim()  # what lies left of 0 does not count
            area.set_clip_path(Rectangle((0, low), ends[1], high - low, transform=axes.transData))
        aside = _ASIDE * (ends[1] - ends[0]) * (place - (len(curves) - 1) / 2)
        _draw_curve(axes, [x + aside for x in points], curve, ink, mark, n_curves=len(curves), band=False)
    span = ends[1] - ends[0]
    axes.set_xlim(ends[0] - 0.05 * span, ends[1] + 0.05 * span)
    axes.set(xlabel="cR of scratch [0 maximal, 1 blind guess]\nmore labels to the left", ylabel=_risk_label(curves))


def legend_handles(curves: Sequence[CalibratedCurve], look: Look | None = None) -> list[Line2D]:
    """Encoders with their calibrated cumulative improvement, then the controls."""
    chosen = look or look_of(curves)
    handles = []
    for curve in curves:
        ink, mark = chosen[label_of(curve)]
        only = " (images only)" if curve.images_only and curve.improvement is not None else ""
        text = f"{label_of(curve)}: CCI {improvement_text(curve.improvement)}{only}"
        handles.append(_handle(ink, text, marker=mark))
    for one in _by_scratch(curves):
        handles.append(_handle(one.ink, one.name, linestyle=one.line, marker="o", markerfacecolor="white"))
    handles.append(_handle("#555555", "blind guess", linestyle=_BLIND_LINE))
    handles.append(_handle("#555555", "maximal supervision", linestyle=_MAXIMAL_LINE))
    return handles


def look_of(curves: Sequence[CalibratedCurve]) -> dict[str, tuple[str, str]]:
    """Colour and mark of each curve, in their order; given to several panels, an encoder looks alike in all of them."""
    labels = list(dict.fromkeys(label_of(curve) for curve in curves))
    return {label: (_INK[place % len(_INK)], _MARKS[place % len(_MARKS)]) for place, label in enumerate(labels)}


def limits(curves: Sequence[CalibratedCurve]) -> tuple[float, float]:
    """Of the vertical axis: all values and both controls, and intervals as far as they leave the values legible."""
    shown = [
        each for curve in curves for point in curve.points for each in (point.calibrated, point.calibrated_scratch)
    ]
    low, high = min(0.0, *(one.value for one in shown)), max(1.0, *(one.value for one in shown))
    span = high - low
    lowest = min([low, *(one.ci_low for one in shown if one.ci_low is not None)])
    highest = max([high, *(one.ci_high for one in shown if one.ci_high is not None)])
    return (max(lowest, low - _BEYOND * span) - 0.05 * span, min(highest, high + _BEYOND * span) + 0.05 * span)


def _risk_label(curves: Sequence[CalibratedCurve]) -> str:
    return f"calibrated {words_of(curves[0].metric)} cR\n[0 maximal, 1 blind guess]\nlower is better"


def _is_cut(curves: Sequence[CalibratedCurve]) -> bool:
    low, high = limits(curves)
    points = [point for curve in curves for point in curve.points]
    shown = [one for point in points for one in (point.calibrated, point.calibrated_scratch)]
    scratch = [point.calibrated_scratch for point in points]
    values = [one.value for one in scratch]
    first, last = min(0.0, *values), max(1.0, *values)
    span = last - first
    return any((one.ci_low or 0.0) < low or (one.ci_high or 0.0) > high for one in shown) or any(
        (one.ci_low or 0.0) < first - 0.05 * span or (one.ci_high or 0.0) > last + 0.05 * span for one in scratch
    )


def _draw_controls(axes: Axes, *, corners: tuple[str, str]) -> None:
    """Blind guess and maximal supervision; what lies beyond them is said in the ``corners`` above and below."""
    axes.axhline(1, color="#555555", linestyle=_BLIND_LINE, linewidth=1)
    axes.axhline(0, color="#555555", linestyle=_MAXIMAL_LINE, linewidth=1.2)
    low, high = axes.get_ylim()
    beyond = ((1, high, "worse than the blind guess", 0.985, "top"),
              (low, 0, "better than maximal supervision", 0.015, "bottom"))  # fmt: skip
    for (start, end, text, height, edge), corner in zip(beyond, corners, strict=True):
        if end - start > 0.1 * (high - low):  # more than the margin
            axes.axhspan(start, end, color="#F4F4F4", zorder=0)
            axes.text(0.02 if corner == "left" else 0.98, height, text, transform=axes.transAxes, va=edge, ha=corner,
                      fontsize=6, color="#777777")  # fmt: skip


def _draw_curve(
    axes: Axes, x: Sequence[float], curve: CalibratedCurve, ink: str, mark: str, *, n_curves: int, band: bool = True
) -> None:
    values = [point.calibrated for point in curve.points]
    axes.plot(x, [one.value for one in values], color=ink, marker=mark, zorder=4, markeredgecolor="white",
              markeredgewidth=0.4)  # fmt: skip
    _draw_uncertainty(axes, x, values, ink, band=band and n_curves <= _MOST_BANDS)


def _draw_uncertainty(axes: Axes, x: Sequence[float], values: Sequence[Interval], ink: str, *, band: bool) -> None:
    known = [(at, one.ci_low, one.ci_high) for at, one in zip(x, values, strict=True)
             if one.ci_low is not None and one.ci_high is not None]  # fmt: skip
    if band and len(known) > 1:
        axes.fill_between(*zip(*known, strict=True), color=ink, alpha=0.15, linewidth=0)  # type: ignore[arg-type]
    else:
        for at, low, high in known:
            axes.plot([at, at], [low, high], color=ink, linewidth=0.8, alpha=0.7, zorder=2)


def _write_n(axes: Axes, points: Sequence[CurvePoint], ends: tuple[float, float]) -> None:
    """The numbers of labels above the frame, as far as they do not touch each other."""
    taken: list[tuple[float, float]] = []
    span = ends[1] - ends[0]
    for point in points:
        text = f"{point.n_actual:,}" if taken else f"n = {point.n_actual:,}"
        place, half = point.calibrated_scratch.value, 0.011 * span * (len(text) + 1)
        if all(place + half < low or place - half > high for low, high in taken):
            axes.text(place, 1.012, text, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=6,
                      color="#555555")  # fmt: skip
            axes.axvline(place, color="#BBBBBB", linewidth=0.5, linestyle=_MAXIMAL_LINE, zorder=1)
            taken.append((place - half, place + half))


def _by_scratch(curves: Sequence[CalibratedCurve]) -> list[_Scratch]:
    """Each scratch there is, once: encoders of one architecture share theirs."""
    groups: dict[tuple[tuple[int, float], ...], list[CalibratedCurve]] = {}
    for curve in curves:
        key = tuple((point.n_actual, point.calibrated_scratch.value) for point in curve.points)
        groups.setdefault(key, []).append(curve)
    found = []
    for place, members in enumerate(groups.values()):
        name = "scratch"
        if len(groups) > 1:
            more = f" and {len(members) - 1} more" if len(members) > 1 else ""
            name = f"scratch for {members[0].encoder}{more}"
        ink, line = _SCRATCH_LOOKS[place % len(_SCRATCH_LOOKS)]
        found.append(_Scratch(name, ink, line, members[0].points))
    return found


def _handle(ink: str, text: str, **look: Any) -> Line2D:
    return Line2D([], [], color=ink, label=text, **look)


def _columns(labels: Sequence[str]) -> int:
    """Of a legend, by the width of its longest line."""
    inches = max(len(label) for label in labels) * 0.048 + 0.5
    return max(1, min(3, int(FULL_WIDTH / inches)))


def _dodge(place: int, n_curves: int, every: Sequence[int]) -> float:
    """A factor that moves curves apart, so that bars at one number of labels do not hide each other."""
    if n_curves <= _MOST_BANDS and len(every) > 1:
        return 1.0
    steps = [math.log(b / a) for a, b in pairwise(every)]
    width = 0.35 * min([*steps, 0.5])
    return math.exp(width * ((place + 0.5) / n_curves - 0.5))


def _told_apart(every: Sequence[int]) -> list[int]:
    """Numbers whose texts do not touch each other on a logarithmic axis; the first and the last are among them."""
    span = math.log(every[-1] / every[0]) or 1.0
    chosen = [every[0]]
    for n in every[1:-1]:
        room = 0.022 * (len(f"{n:,}") + 1)
        if math.log(n / chosen[-1]) > room * span and math.log(every[-1] / n) > room * span:
            chosen.append(n)
    return [*chosen, *every[1:][-1:]]
