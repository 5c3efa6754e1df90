"""Figures of calibrated learning curves: against the number of labels, against training from scratch, and strips.

The curves are those of the paper's Figures 1 to 3: the blind guess lies at 1 and maximal supervision at 0, an encoder
that is worth nothing lies on the curve of scratch, on the left, and on the diagonal, on the right. A strip has examples
of the predictions with each number of labels, as in Figures 1 and 3: a row an image, a column what was predicted of it.
One that is wider than a page is broken into bands, each with image, truth, blind guess and maximal supervision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...errors import DataError
from ...optional import requires_extra
from ..drawing import COLOURS, FULL_WIDTH, MARKS, SMALLEST, Figure, letter, new_figure
from .curve import caption_of, improvement_text, label_of, require_drawable, words_of

with requires_extra("study", needed_for="A figure"):
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgb
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ..bootstrap import Interval
    from .curve import CalibratedCurve, CurvePoint

    Maps = NDArray[np.float32]


Look = Mapping[str, tuple[str, str]]  # colour and mark of each curve, by its label

_CURVE_COLOURS = tuple(colour for colour in COLOURS if colour != "#444444")  # the controls have black and greys, ...
_CURVE_MARKS = MARKS[1:]  # ... and circles
_SCRATCH_LOOKS: Any = (("black", "-"), ("#777777", (0, (4, 1.5))), ("#AAAAAA", (0, (1.5, 1))))
_BLIND_LINE: Any = (0, (5, 2))
_MAXIMAL_LINE: Any = (0, (1, 1.5))
_DODGE_SHARE = 0.011  # of the span of risks of scratch, between the bars of two encoders with as many labels
_MOST_WITH_BANDS = 3  # curves; the bands of more would hide each other, and are bars
_INTERVAL_SHARE = 0.6  # of the span of all values, that intervals may add to the axis at either end
_LEGEND_LINE_INCHES = 0.155
_TITLE_POINTS = 13.0  # between frame and title, for numbers of labels


@dataclass(frozen=True, slots=True)
class _Scratch:
    name: str
    ink: str
    line: Any
    points: Sequence[CurvePoint]


def curves_figure(curves: Sequence[CalibratedCurve], *, name: str | None = None) -> Figure:
    """Both panels, for curves of one metric on one data set, one an encoder; up to about 8 can be told apart."""
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
        height=3.1 + _LEGEND_LINE_INCHES * n_lines, n_columns=2, sharey=True, width_ratios=(1.15, 1)
    )
    look = look_of(curves)
    draw_against_n(left, curves, look)
    draw_against_scratch(right, curves, look)
    right.set_ylabel("")
    letter([left, right], above=_TITLE_POINTS)
    drawing.legend(handles=handles, loc="outside lower center", ncols=n_columns)
    return drawing


def draw_against_n(axes: Axes, curves: Sequence[CalibratedCurve], look: Look | None = None) -> None:
    """Calibrated risk of encoders, scratch and controls against the number of labels that were used."""
    chosen = look or look_of(curves)
    axes.set_xscale("log")
    axes.set_ylim(*limits(curves))
    _draw_controls(axes, corners=("right", "left"))  # where curves seldom are
    for scratch in _by_scratch(curves):
        values = [point.calibrated_scratch for point in scratch.points]
        n = [point.n_actual for point in scratch.points]
        risks = [each.value for each in values]
        axes.plot(n, risks, color=scratch.ink, linestyle=scratch.line, marker="o", markerfacecolor="white", zorder=3)
        _draw_uncertainty(axes, n, values, scratch.ink, band=len(curves) <= _MOST_WITH_BANDS)
    every = sorted({point.n_actual for curve in curves for point in curve.points})
    for place, curve in enumerate(curves):
        ink, mark = chosen[label_of(curve)]
        move = _dodge(place, len(curves), every)
        x = [point.n_actual * move for point in curve.points]
        _draw_curve(axes, x, curve, ink, mark, n_curves=len(curves))
    if len(every) == 1:
        axes.set_xlim(every[0] / 3, every[0] * 3)
    ticks = _legible(every)
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
        for risk in (point.calibrated_scratch for point in scratch.points):
            axes.plot(risk.value, risk.value, "o", color=scratch.ink, markerfacecolor="white", zorder=3)
            if risk.ci_low is not None and risk.ci_high is not None:  # how well the place on the other axis is known
                axes.plot([risk.ci_low, risk.ci_high], [risk.value] * 2, color=scratch.ink, linewidth=0.7, alpha=0.6)
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
        aside = _DODGE_SHARE * (ends[1] - ends[0]) * (place - (len(curves) - 1) / 2)
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
    for scratch in _by_scratch(curves):
        handles.append(_handle(scratch.ink, scratch.name, linestyle=scratch.line, marker="o", markerfacecolor="white"))
    handles.append(_handle("#555555", "blind guess", linestyle=_BLIND_LINE))
    handles.append(_handle("#555555", "maximal supervision", linestyle=_MAXIMAL_LINE))
    return handles


def look_of(curves: Sequence[CalibratedCurve]) -> dict[str, tuple[str, str]]:
    """Colour and mark of each curve, in their order; given to several panels, an encoder looks alike in all of them."""
    labels = list(dict.fromkeys(label_of(curve) for curve in curves))
    return {
        label: (_CURVE_COLOURS[place % len(_CURVE_COLOURS)], _CURVE_MARKS[place % len(_CURVE_MARKS)])
        for place, label in enumerate(labels)
    }


def limits(curves: Sequence[CalibratedCurve]) -> tuple[float, float]:
    """Ends of the vertical axis: all values and both controls, and intervals as far as the values stay legible."""
    shown = [
        each for curve in curves for point in curve.points for each in (point.calibrated, point.calibrated_scratch)
    ]
    low, high = min(0.0, *(one.value for one in shown)), max(1.0, *(one.value for one in shown))
    span = high - low
    lowest = min([low, *(one.ci_low for one in shown if one.ci_low is not None)])
    highest = max([high, *(one.ci_high for one in shown if one.ci_high is not None)])
    return (
        max(lowest, low - _INTERVAL_SHARE * span) - 0.05 * span,
        min(highest, high + _INTERVAL_SHARE * span) + 0.05 * span,
    )


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
    """Blind guess and maximal supervision, with words in the ``corners`` for the ranges above and below them."""
    axes.axhline(1, color="#555555", linestyle=_BLIND_LINE, linewidth=1)
    axes.axhline(0, color="#555555", linestyle=_MAXIMAL_LINE, linewidth=1.2)
    low, high = axes.get_ylim()
    beyond = (
        (1, high, "worse than the blind guess", 0.985, "top"),
        (low, 0, "better than maximal supervision", 0.015, "bottom"),
    )
    for (start, end, text, height, edge), corner in zip(beyond, corners, strict=True):
        if end - start > 0.1 * (high - low):  # more than the margin
            axes.axhspan(start, end, color="#F4F4F4", zorder=0)
            x, grey = 0.02 if corner == "left" else 0.98, "#777777"
            axes.text(x, height, text, transform=axes.transAxes, va=edge, ha=corner, fontsize=6, color=grey)


def _draw_curve(
    axes: Axes, x: Sequence[float], curve: CalibratedCurve, ink: str, mark: str, *, n_curves: int, band: bool = True
) -> None:
    values = [point.calibrated for point in curve.points]
    risks = [each.value for each in values]
    axes.plot(x, risks, color=ink, marker=mark, zorder=4, markeredgecolor="white", markeredgewidth=0.4)
    _draw_uncertainty(axes, x, values, ink, band=band and n_curves <= _MOST_WITH_BANDS)


def _draw_uncertainty(axes: Axes, x: Sequence[float], values: Sequence[Interval], ink: str, *, band: bool) -> None:
    known = [
        (at, each.ci_low, each.ci_high)
        for at, each in zip(x, values, strict=True)
        if each.ci_low is not None and each.ci_high is not None
    ]
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
            above, grey = axes.get_xaxis_transform(), "#555555"
            axes.text(place, 1.012, text, transform=above, ha="center", va="bottom", fontsize=6, color=grey)
            axes.axvline(place, color="#BBBBBB", linewidth=0.5, linestyle=_MAXIMAL_LINE, zorder=1)
            taken.append((place - half, place + half))


def _by_scratch(curves: Sequence[CalibratedCurve]) -> list[_Scratch]:
    """Each scratch once: encoders of one architecture share theirs."""
    groups: dict[tuple[tuple[int, float], ...], list[CalibratedCurve]] = {}
    for curve in curves:
        key = tuple((point.n_actual, point.calibrated_scratch.value) for point in curve.points)
        groups.setdefault(key, []).append(curve)
    scratches = []
    for place, members in enumerate(groups.values()):
        name = "scratch"
        if len(groups) > 1:
            more = f" and {len(members) - 1} more" if len(members) > 1 else ""
            name = f"scratch for {members[0].encoder}{more}"
        ink, line = _SCRATCH_LOOKS[place % len(_SCRATCH_LOOKS)]
        scratches.append(_Scratch(name, ink, line, members[0].points))
    return scratches


def _handle(ink: str, text: str, **look: Any) -> Line2D:
    return Line2D([], [], color=ink, label=text, **look)


def _columns(labels: Sequence[str]) -> int:
    """Number of columns of a legend, by the width of its longest line."""
    inches = max(len(label) for label in labels) * 0.048 + 0.5
    return max(1, min(3, int(FULL_WIDTH / inches)))


def _dodge(place: int, n_curves: int, every: Sequence[int]) -> float:
    """A factor that moves curves apart, so that bars at one number of labels do not hide each other."""
    if n_curves <= _MOST_WITH_BANDS and len(every) > 1:
        return 1.0
    steps = [math.log(b / a) for a, b in pairwise(every)]
    width = 0.35 * min([*steps, 0.5])
    return math.exp(width * ((place + 0.5) / n_curves - 0.5))


def _legible(every: Sequence[int]) -> list[int]:
    """Numbers whose labels do not touch each other on a logarithmic axis; the first and the last are among them."""
    span = math.log(every[-1] / every[0]) or 1.0
    chosen = [every[0]]
    for n in every[1:-1]:
        room = 0.022 * (len(f"{n:,}") + 1)
        if math.log(n / chosen[-1]) > room * span and math.log(every[-1] / n) > room * span:
            chosen.append(n)
    return [*chosen, *every[1:][-1:]]


_MOST_COLUMNS = 11  # of a band; narrower cells could not be read on a page
_LARGEST_CELL = 1.05  # inches, as all of these lengths
_EDGE, _GAP, _GROUP_GAP, _ROW_GAP = 0.06, 0.03, 0.12, 0.03
_TEXT_LINE, _BAND_GAP, _COLOUR_BAR = 0.115, 0.12, 0.5
_DEPTH_COLOURS = "viridis"  # perceptually uniform; the smaller the darker
_INVALID_COLOUR = "#BBBBBB"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """Predictions for the images of a strip, from one number of labels."""

    name: str  # "scratch", or the encoder
    n: int  # labelled images
    maps: Maps  # (n_images, n_channels, px, px); px may differ from column to column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strip:
    """Example predictions of a dense task."""

    task: str  # "depth" has one channel; "normals" have three, each in [-1, 1]
    dataset: str
    unit: str  # of the maps
    images: NDArray[np.float32]  # (n_images, px, px, 3) in [0, 1]
    truth: Maps  # (n_images, n_channels, px, px)
    valid: NDArray[np.bool_]  # (n_images, px, px): where the truth is known
    blind: Maps | None
    maximal: Maps | None
    columns: Sequence[Column]  # in the order of labels, and of scratch and encoders within them

    def __post_init__(self) -> None:
        n = len(self.images)
        parts = {"truth": self.truth, "valid": self.valid, "blind guess": self.blind, "maximal": self.maximal}
        parts |= {f"{column.name} with {column.n:,} labels": column.maps for column in self.columns}
        for name, maps in parts.items():
            if maps is not None and len(maps) != n:
                raise DataError(
                    f"The strip of {self.dataset!r} has {n} images and {len(maps)} maps of {name}; expected one an "
                    "image."
                )


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column as it is drawn."""

    name: str
    pictures: Sequence[Any]  # (h, w, 3) in [0, 1], or masked (h, w)
    group: str = ""


def strip_figure(strip: Strip, *, name: str = "strip") -> Figure:
    """The strip as a figure with its caption."""
    if _is_depth(strip):
        colours = f"Depth in {strip.unit}, one scale for all maps; grey where it is not known."
    else:
        colours = (
            "Normals as colours: red to the right, green upwards, blue towards the camera, each from -1 (dark) to 1; "
            "grey where they are not known."
        )
    return Figure(
        name=name,
        title=f"What {strip.task} on {strip.dataset} looks like by the number of labels n",
        caption=f"Predictions for the first {len(strip.images)} test images, of the first seed and of some of the "
        f"numbers of labels. {colours}",
        draw=partial(draw_strip, strip),
    )


def draw_strip(strip: Strip) -> Drawing:
    """Rows: images; columns: image, truth, blind guess, scratch and encoders by number of labels, and maximal."""
    scale = _scale(strip)
    truth = [_picture(maps, scale, valid) for maps, valid in zip(strip.truth, strip.valid, strict=True)]
    fixed = [_Cells("image", list(strip.images)), _Cells("truth", truth)]
    if strip.blind is not None:
        fixed.append(_cells("blind guess", strip.blind, scale))
    last = [] if strip.maximal is None else [_cells("maximal supervision", strip.maximal, scale)]
    bands = [
        [*fixed, *(_cells(column.name, column.maps, scale, group=f"n = {column.n:,}") for column in band), *last]
        for band in _bands(strip.columns, _MOST_COLUMNS - len(fixed) - len(last))
    ]
    widest = max(map(_gaps, bands)), max(map(len, bands))
    cell = min(_LARGEST_CELL, (FULL_WIDTH - 2 * _EDGE - widest[0]) / widest[1])
    names = [[_wrapped(column.name, cell) for column in band] for band in bands]
    heads = [_TEXT_LINE * (max(map(len, lines)) + 1) + 0.09 for lines in names]
    rows = len(strip.images) * cell + (len(strip.images) - 1) * _ROW_GAP
    width = max(2 * _EDGE + max(len(band) * cell + _gaps(band) for band in bands), 2.6)
    height = _EDGE + sum(heads) + rows * len(bands) + _BAND_GAP * len(bands) + _COLOUR_BAR * _is_depth(strip)
    drawing = Drawing(figsize=(width, height))
    top = height - _EDGE
    for band, lines, head in zip(bands, names, heads, strict=True):
        _draw_band(drawing, band, lines, top=top, head=head, cell=cell)
        top -= head + rows + _BAND_GAP
    if scale is not None:
        bar = drawing.add_axes((0.25, 0.3 / height, 0.5, 0.09 / height))
        mappable = ScalarMappable(Normalize(*scale), cmap=_DEPTH_COLOURS)
        drawing.colorbar(mappable, cax=bar, orientation="horizontal", extend="both")
        bar.set_xlabel(f"depth [{strip.unit}]", labelpad=1)
        bar.tick_params(labelsize=6, length=2, pad=1)
        bar.grid(visible=False)
    return drawing


def _draw_band(
    drawing: Drawing, band: Sequence[_Cells], lines: Sequence[list[str]], *, top: float, head: float, cell: float
) -> None:
    width, height = (float(inches) for inches in drawing.get_size_inches())
    x, begun = _EDGE, _EDGE
    for place, (column, name) in enumerate(zip(band, lines, strict=True)):
        before = band[place - 1].group if place else column.group
        if place:
            x += _GROUP_GAP if column.group != before else _GAP
        if column.group != before or not place:
            begun = x
        y = top - head
        at, text = ((x + cell / 2) / width, (y + 0.03) / height), "\n".join(name)
        drawing.text(*at, text, ha="center", va="bottom", fontsize=SMALLEST, linespacing=1.15)
        for row, picture in enumerate(column.pictures):
            bottom = y - (row + 1) * cell - row * _ROW_GAP
            axes = drawing.add_axes((x / width, bottom / height, cell / width, cell / height))
            axes.imshow(picture, interpolation="nearest", aspect="auto")
            axes.set_axis_off()
        x += cell
        if column.group and (place + 1 == len(band) or band[place + 1].group != column.group):
            middle, line = (begun + x) / 2, (top - _TEXT_LINE - 0.02) / height
            drawing.text(middle / width, line + 0.01 / height, column.group, ha="center", va="bottom", fontsize=7)
            rule = Line2D([begun / width, x / width], [line, line], color="black", linewidth=0.6)
            drawing.add_artist(rule)


def _is_depth(strip: Strip) -> bool:
    return bool(strip.truth.shape[1] == 1)


def _scale(strip: Strip) -> tuple[float, float] | None:
    """Least and greatest known depth; None for normals."""
    if not _is_depth(strip):
        return None
    known = strip.truth[:, 0][strip.valid]
    if not known.size:
        raise DataError(f"No pixel of the first test images of {strip.dataset!r} has a depth; expected some to draw.")
    low, high = float(known.min()), float(known.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _cells(name: str, maps: Maps, scale: tuple[float, float] | None, *, group: str = "") -> _Cells:
    return _Cells(name, [_picture(each, scale) for each in maps], group)


def _picture(one: Maps, scale: tuple[float, float] | None, valid: Any = None) -> NDArray[np.float32]:
    """A map (c, h, w) as colours (h, w, 3) in [0, 1]; grey where it is not valid."""
    if scale is None:
        colours = np.clip((one.astype(np.float32).transpose(1, 2, 0) + 1) / 2, 0, 1)  # (h, w, 3)
    else:
        colours = colormaps[_DEPTH_COLOURS](Normalize(*scale, clip=True)(one[0].astype(np.float32)))[..., :3]
    known = np.asarray(np.isfinite(one).all(axis=0)) & (True if valid is None else valid)  # (h, w)
    return np.asarray(np.where(known[..., None], colours, np.array(to_rgb(_INVALID_COLOUR))), dtype=np.float32)


def _bands(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Columns of one number of labels stay together, unless they are more than a band has room for."""
    bands: list[list[Column]] = [[]]
    for n in dict.fromkeys(column.n for column in columns):
        group = [column for column in columns if column.n == n]
        parts = -(-len(group) // room)
        for part in range(parts):
            some = group[part * len(group) // parts : (part + 1) * len(group) // parts]
            if len(bands[-1]) + len(some) > room:
                bands.append([])
            bands[-1] += some
    return bands


def _gaps(band: Sequence[_Cells]) -> float:
    """Inches between the columns of a band."""
    return sum(_GROUP_GAP if one.group != other.group else _GAP for one, other in pairwise(band))


def _wrapped(name: str, cell: float) -> list[str]:
    """A name on as many lines as the width of a cell requires, broken after its separators.

    >>> _wrapped("pocket_simclr_rn_shapes", 0.6)
    ['pocket_', 'simclr_rn_', 'shapes']
    """
    letters = max(6, int(cell * 72 / (SMALLEST * 0.6)))
    pieces = [
        piece[start : start + letters]
        for piece in re.split(r"(?<=[_@+:\- ])", name)
        for start in range(0, len(piece), letters)
    ]
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > letters:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines]
