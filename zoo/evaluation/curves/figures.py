"""Figures of calibrated learning curves: against the number of labels, against training from scratch, and strips.

The curves are those of the paper's Figures 1 to 3: the constant baseline lies at 1 and maximal supervision at 0, an
encoder that is worth nothing lies on the curve of scratch, on the left, and on the diagonal, on the right. A strip has
examples of the predictions with each number of labels: a row per image, a column what was predicted of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...cards.schema import Preprocess
from ...errors import DataError, QueryError, format_count, format_range
from ...optional import require_extra
from ..drawing import COLOURS, FULL_WIDTH, MARKS, SMALLEST, Figure, make_figure, write_panel_letters
from .curve import format_curve_label, format_improvement, format_metric_name, format_unit

with require_extra("study", needed_for="A figure"):
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgb
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ..bootstrap import Interval
    from .curve import CalibratedCurve, CurvePoint
    from .data import TransferData
    from .runs import Control, CurveRun

    Maps = NDArray[np.float32]

_CURVE_COLOURS = tuple(colour for colour in COLOURS if colour != "#444444")  # the controls have black and greys, ...
_CURVE_MARKS = MARKS[1:]  # ... and circles
_SCRATCH_LOOKS: Any = (("black", "-"), ("#777777", (0, (4, 1.5))), ("#AAAAAA", (0, (1.5, 1))))
_BLIND_LINE: Any = (0, (5, 2))
_MAXIMAL_LINE: Any = (0, (1, 1.5))
_MOST_WITH_BANDS = 3  # curves; the bands of more would hide each other, and are bars
_INTERVAL_SHARE = 0.6  # of the span of all values, that intervals may add to the axis at either end
_TITLE_POINTS = 13.0  # between frame and title, for numbers of labels


def make_curves_figure(curves: Sequence[CalibratedCurve], *, name: str | None = None) -> Figure:
    """Both panels, for curves of one metric on one data set, one per encoder; up to about 8 can be told apart."""
    if not curves:
        raise QueryError("Got no curve to draw, expected at least one.")
    labels = [format_curve_label(curve) for curve in curves]
    kinds = {(curve.metric, curve.dataset, curve.task) for curve in curves}
    if len(kinds) > 1 or len(set(labels)) < len(labels):
        raise QueryError(
            f"Got curves of {', '.join(labels)} by {sorted(kinds)} for one figure, expected one metric, data set and "
            "task, and one curve an encoder; draw a figure for each."
        )
    metric = curves[0].metric
    return Figure(
        name=name or f"curves_{metric}",
        title=f"What pre-training is worth: {curves[0].task} on {curves[0].dataset}, {format_metric_name(metric)}",
        caption=_caption(curves),
        draw=partial(draw_curves, tuple(curves)),
    )


def draw_curves(curves: Sequence[CalibratedCurve]) -> Drawing:
    """Calibrated risk against the number of labels, and against that of scratch; the legend has the improvements."""
    scratches = _by_scratch(curves)
    handles = []
    for place, curve in enumerate(curves):
        ink, mark = _look(place)
        only = " (images only)" if curve.images_only and curve.improvement is not None else ""
        text = f"{format_curve_label(curve)}: CCI {format_improvement(curve.improvement)}{only}"
        handles.append(Line2D([], [], color=ink, marker=mark, label=text))
    for text, (ink, line), _ in scratches:
        handles.append(Line2D([], [], color=ink, linestyle=line, marker="o", markerfacecolor="white", label=text))
    handles.append(Line2D([], [], color="#555555", linestyle=_BLIND_LINE, label="constant baseline"))
    handles.append(Line2D([], [], color="#555555", linestyle=_MAXIMAL_LINE, label="maximal supervision"))
    widest = max(len(str(handle.get_label())) for handle in handles) * 0.048 + 0.5  # inches
    n_columns = max(1, min(3, int(FULL_WIDTH / widest)))
    drawing, (left, right) = make_figure(
        height=3.1 + 0.155 * math.ceil(len(handles) / n_columns), n_columns=2, sharey=True, width_ratios=(1.15, 1)
    )
    left.set_ylim(*_limits(curves))
    _draw_against_n(left, curves, scratches)
    _draw_against_scratch(right, curves, scratches)
    left.set_ylabel(
        f"calibrated {format_metric_name(curves[0].metric)} cR\n[0 maximal, 1 constant baseline]\nlower is better"
    )
    write_panel_letters([left, right], above=_TITLE_POINTS)
    drawing.legend(handles=handles, loc="outside lower center", ncols=n_columns)
    return drawing


_Scratch = tuple[str, tuple[str, Any], "Sequence[CurvePoint]"]  # name, colour and line, points


def _by_scratch(curves: Sequence[CalibratedCurve]) -> list[_Scratch]:
    """Each scratch once: encoders of one architecture share theirs."""
    groups: dict[tuple[tuple[int, float], ...], list[CalibratedCurve]] = {}
    for curve in curves:
        key = tuple((point.n_actual, point.calibrated_scratch.value) for point in curve.points)
        groups.setdefault(key, []).append(curve)
    found: list[_Scratch] = []
    for place, members in enumerate(groups.values()):
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        name = "scratch" if len(groups) == 1 else f"scratch for {members[0].encoder}{more}"
        found.append((name, _SCRATCH_LOOKS[place % len(_SCRATCH_LOOKS)], members[0].points))
    return found


def _look(place: int) -> tuple[str, str]:
    """Colour and mark of a curve."""
    return _CURVE_COLOURS[place % len(_CURVE_COLOURS)], _CURVE_MARKS[place % len(_CURVE_MARKS)]


def _draw_against_n(axes: Axes, curves: Sequence[CalibratedCurve], scratches: Sequence[_Scratch]) -> None:
    axes.set_xscale("log")
    _draw_controls(axes, corners=("right", "left"))  # where curves seldom are
    has_bands = len(curves) <= _MOST_WITH_BANDS
    for _, (ink, line), points in scratches:
        x, values = [point.n_actual for point in points], [point.calibrated_scratch for point in points]
        risks = [each.value for each in values]
        axes.plot(x, risks, color=ink, linestyle=line, marker="o", markerfacecolor="white", zorder=3)
        _draw_uncertainty(axes, x, values, ink, band=has_bands)
    every = sorted({point.n_actual for curve in curves for point in curve.points})
    width = 0.35 * min([*(math.log(b / a) for a, b in pairwise(every)), 0.5])
    for place, curve in enumerate(curves):
        aside = 1.0  # a factor that moves curves apart, so that bars at one number of labels do not hide each other
        if not has_bands or len(every) == 1:
            aside = math.exp(width * ((place + 0.5) / len(curves) - 0.5))
        _draw_curve(axes, [point.n_actual * aside for point in curve.points], curve, place, band=has_bands)
    if len(every) == 1:
        axes.set_xlim(every[0] / 3, every[0] * 3)
    ticks, span = every[:1], math.log(every[-1] / every[0]) or 1.0
    for n in every[1:]:  # whose labels do not touch each other
        room = 0.022 * (len(f"{n:,}") + 1) * span
        if n == every[-1] or (math.log(n / ticks[-1]) > room and math.log(every[-1] / n) > room):
            ticks.append(n)
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="number of labelled images n")


def _draw_against_scratch(axes: Axes, curves: Sequence[CalibratedCurve], scratches: Sequence[_Scratch]) -> None:
    _draw_controls(axes, corners=("left", "right"))
    values = [point.calibrated_scratch.value for _, _, points in scratches for point in points]
    ends = min(0.0, *values), max(1.0, *values)
    span = ends[1] - ends[0]
    axes.plot(ends, ends, color="black", zorder=3)
    for _, (ink, _), points in scratches:
        for risk in (point.calibrated_scratch for point in points):
            axes.plot(risk.value, risk.value, "o", color=ink, markerfacecolor="white", zorder=3)
            if risk.ci_low is not None and risk.ci_high is not None:  # how well the place on the other axis is known
                axes.plot([risk.ci_low, risk.ci_high], [risk.value] * 2, color=ink, linewidth=0.7, alpha=0.6)
    if len(scratches) == 1:  # the numbers of labels above the frame, as far as they do not touch each other
        last = math.inf
        for point in scratches[0][2]:
            text = f"{point.n_actual:,}" if last < math.inf else f"n = {point.n_actual:,}"
            at, half = point.calibrated_scratch.value, 0.011 * span * (len(text) + 1)
            if at + half < last:
                above, grey = axes.get_xaxis_transform(), "#555555"
                axes.text(at, 1.012, text, transform=above, ha="center", va="bottom", fontsize=6, color=grey)
                axes.axvline(at, color="#BBBBBB", linewidth=0.5, linestyle=_MAXIMAL_LINE, zorder=1)
                last = at - half
    for place, curve in enumerate(curves):
        x = np.array([point.calibrated_scratch.value for point in curve.points])
        if len(curves) == 1 and len(x) > 1:  # the area of the cumulative improvement; what lies left of 0 is cut off
            y, ink = [point.calibrated.value for point in curve.points], _look(place)[0]
            area = {"color": ink, "edgecolor": ink, "alpha": 0.12, "linewidth": 0, "hatch": "////"}
            axes.fill_between(x, x, y, where=list(x >= 0), **area)  # type: ignore[arg-type]
        aside = 0.011 * span * (place - (len(curves) - 1) / 2)
        _draw_curve(axes, list(x + aside), curve, place, band=False)
    axes.set_xlim(ends[0] - 0.05 * span, ends[1] + 0.05 * span)
    axes.set(xlabel="cR of scratch [0 maximal, 1 constant baseline]\nmore labels to the left")


def _limits(curves: Sequence[CalibratedCurve]) -> tuple[float, float]:
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


def _draw_controls(axes: Axes, *, corners: tuple[str, str]) -> None:
    """Constant baseline and maximal supervision, with words in the ``corners`` for the ranges above and below them."""
    axes.axhline(1, color="#555555", linestyle=_BLIND_LINE, linewidth=1)
    axes.axhline(0, color="#555555", linestyle=_MAXIMAL_LINE, linewidth=1.2)
    low, high = axes.get_ylim()
    beyond = (
        (1, high, "worse than the constant baseline", 0.985, "top"),
        (low, 0, "better than maximal supervision", 0.015, "bottom"),
    )
    for (start, end, text, height, edge), corner in zip(beyond, corners, strict=True):
        if end - start > 0.1 * (high - low):  # more than the margin
            axes.axhspan(start, end, color="#F4F4F4", zorder=0)
            x, grey = 0.02 if corner == "left" else 0.98, "#777777"
            axes.text(x, height, text, transform=axes.transAxes, va=edge, ha=corner, fontsize=6, color=grey)


def _draw_curve(axes: Axes, x: Sequence[float], curve: CalibratedCurve, place: int, *, band: bool) -> None:
    ink, mark = _look(place)
    values = [point.calibrated for point in curve.points]
    risks = [each.value for each in values]
    axes.plot(x, risks, color=ink, marker=mark, zorder=4, markeredgecolor="white", markeredgewidth=0.4)
    _draw_uncertainty(axes, x, values, ink, band=band)


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


def _caption(curves: Sequence[CalibratedCurve]) -> str:
    """Metric, unit, images, seeds, range of the CCI, and what values beyond the controls mean."""
    first = curves[0]
    points = [point for curve in curves for point in curve.points]
    values = [risk for point in points for risk in (point.calibrated, point.calibrated_scratch)]
    seeds = sorted({point.n_seeds for point in points})
    n_seeds = format_range(seeds[0], seeds[-1])
    tested = "" if first.n_test is None else f" of {format_count(first.n_test, 'test image')}"
    only = " over test images only, without the spread over seeds" if any(one.images_only for one in curves) else ""
    has_intervals = any(point.calibrated.ci_low is not None for point in points)
    sentences = [
        "(a) Against the number of labels, (b) against training from scratch.",
        f"Risk is {format_metric_name(first.metric)}{format_unit(first.unit)}{tested}, calibrated so that the blind "
        f"guess ({first.blind.value:.4g}) lies at 1 and maximal supervision ({first.maximal.value:.4g}) at 0; lower is "
        "better.",
        f"Mean over {n_seeds} seed{'' if seeds == [1] else 's'}"
        + (f", bands and bars are 95 % intervals{only}." if has_intervals else ", without intervals."),
    ]
    ranges = [curve.improvement_range for curve in curves if curve.improvement_range is not None]
    if ranges:
        low, high = min(map(min, ranges)), max(map(max, ranges))
        sentences.append(
            "CCI: area between an encoder's curve and the diagonal over the area below the diagonal, for cR of scratch "
            f"within {low:z.2f} to {high:z.2f}; 0 is worth nothing, 1 reaches maximal supervision throughout."
        )
    if any(risk.value < 0 for risk in values):
        sentences.append(
            "Below 0 the risk is lower than with maximal supervision, which had too few labels to be the end of the "
            "scale."
        )
    if any(risk.value > 1 for risk in values):
        sentences.append("Above 1 the risk is higher than that of the constant baseline.")
    if len({curve.maximal.value for curve in curves}) > 1:
        sentences.append("Each encoder is calibrated by the maximal supervision of its own architecture.")
    if len(curves) > 1:
        sentences.append("Encoders stand side by side where their intervals would hide each other.")
    return " ".join(sentences)


# --- strips ----------------------------------------------------------------------------------------------------------

_MOST_COLUMNS = 13  # the narrower ones of more could not be read on a page
_LARGEST_CELL = 1.05  # inches
_DEPTH_COLOURS = "viridis"  # perceptually uniform; the smaller the darker
_INVALID_COLOUR = "#BBBBBB"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictionStrip:
    """Example predictions of a dense task."""

    task: str  # "depth" has one channel; "normals" have three, each in [-1, 1]
    dataset: str
    unit: str  # of the maps
    images: NDArray[np.float32]  # (n_images, px, px, 3) in [0, 1]
    valid: NDArray[np.bool_]  # (n_images, px, px): where the truth is known
    columns: Sequence[tuple[str, Maps]]  # name, and maps (n_images, n_channels, px, px); the first is the truth


def make_prediction_strip(
    data: TransferData,
    runs: Mapping[tuple[str, Control], Sequence[CurveRun]],
    *,
    encoders: Sequence[str],
    preprocess: Preprocess,
    n_images: int = 3,
) -> PredictionStrip | None:
    """The first test images with what the runs of a report predicted of them; None where the task is not dense.

    ``runs`` are those of :attr:`~zoo.evaluation.curves.report.CurveReport.runs`, of which the first seed is shown for
    some numbers of labels, and ``encoders`` the columns, in this order. ``preprocess`` is that of image and truth.
    """
    from ...datasets.dense import MapSet, align_map  # PyTorch, which no other figure needs
    from ...encoders.preprocess import build_preprocess

    if not isinstance(data.test, MapSet):
        return None
    every_run = [run.examples for group in runs.values() for run in group if run.examples is not None]
    n_images = min([n_images, *map(len, every_run)])

    def first_seeds(name: str, control: Control) -> dict[int, Maps]:
        """Maps by number of labels."""
        found: dict[int, Maps] = {}
        for run in sorted(runs.get((name, control), ()), key=lambda run: (run.n_requested, run.seed or 0)):
            if run.examples is not None:
                found.setdefault(run.n_requested, np.asarray(run.examples, np.float32)[:n_images])
        return found

    scratches: dict[str, dict[int, Maps]] = {}
    for name in encoders:  # each scratch once: encoders of one architecture share theirs
        own = first_seeds(name, "scratch")
        alike = [one for one in scratches.values() if one.keys() == own.keys()]
        if own and not any(all(np.array_equal(one[n], own[n]) for n in one) for one in alike):
            scratches[name] = own
    trained = {"scratch" if len(scratches) == 1 else f"scratch for {name}": own for name, own in scratches.items()}
    trained |= {name: first_seeds(name, "encoder") for name in encoders}
    ends = [first_seeds(name, control) for control in ("blind", "maximal") for name in encoders[:1]]
    blind, maximal = (list(end.values())[:1] for end in ends)
    every = sorted({n for by_n in trained.values() for n in by_n})
    room = (_MOST_COLUMNS - 2 - len(blind) - len(maximal)) // max(1, len(trained))
    places = np.unique(np.linspace(0, len(every) - 1, min(len(every), max(1, room))).round().astype(int))
    chosen = [every[place] for place in places]
    values, valid = zip(*(align_map(*data.test.maps[number], preprocess) for number in range(n_images)), strict=True)
    shown = build_preprocess(preprocess)
    normalised = [shown(data.test.images.images[number]).numpy().transpose(1, 2, 0) for number in range(n_images)]
    ordered = np.stack(normalised)[..., :: -1 if preprocess.channels == "BGR" else 1]
    pixels = ordered * np.array(preprocess.std) + np.array(preprocess.mean)
    return PredictionStrip(
        task=data.task.name,
        dataset=data.name,
        unit=data.test.unit,
        images=np.clip(pixels, 0, 1).astype(np.float32),
        valid=np.stack(valid),
        columns=[
            ("truth", np.stack(values)),
            *(("constant baseline", maps) for maps in blind),
            *((f"{name}\nn = {n:,}", by_n[n]) for n in chosen for name, by_n in trained.items() if n in by_n),
            *(("maximal supervision", maps) for maps in maximal),
        ],
    )


def make_strip_figure(strip: PredictionStrip, *, name: str = "strip") -> Figure:
    """The strip as a figure with its caption."""
    colours = (
        "Normals as colours: red to the right, green upwards, blue towards the camera, each from -1 (dark) to 1; grey "
        "where they are not known."
    )
    if strip.columns[0][1].shape[1] == 1:
        colours = f"Depth in {strip.unit}, one scale for all maps; grey where it is not known."
    return Figure(
        name=name,
        title=f"What {strip.task} on {strip.dataset} looks like by the number of labels n",
        caption=f"Predictions for the first {len(strip.images)} test images, of the first seed and of some of the "
        f"numbers of labels. {colours}",
        draw=partial(draw_strip, strip),
    )


def draw_strip(strip: PredictionStrip) -> Drawing:
    """Rows: images; columns: image, truth, constant baseline, scratch and encoders by number of labels, and maximal."""
    truth, scale = strip.columns[0][1], None
    if truth.shape[1] == 1:
        known = truth[:, 0][strip.valid]
        if not known.size:
            raise DataError(f"No pixel of the first test images of {strip.dataset!r} has a depth; expected some.")
        scale = Normalize(float(known.min()), max(float(known.max()), float(known.min()) + 1e-6), clip=True)
    n_rows, n_columns = len(strip.images), len(strip.columns) + 1
    cell = min(_LARGEST_CELL, FULL_WIDTH / n_columns)
    letters = max(6, int(cell * 72 / (SMALLEST * 0.6)))
    heads = ["image"]  # on as many lines as the width of a cell requires
    for name, _ in strip.columns:
        lines = [part[i : i + letters] for part in name.split("\n") for i in range(0, len(part), letters)]
        heads.append("\n".join(lines))
    head, foot = 0.08 + 0.11 * (1 + max(name.count("\n") for name in heads)), 0.02 if scale is None else 0.5  # inches
    height = cell * n_rows + head + foot
    drawing = Drawing(figsize=(cell * n_columns, height))
    edges = {"left": 0.005, "right": 0.995, "bottom": foot / height, "top": 1 - head / height}
    axes = drawing.subplots(n_rows, n_columns, squeeze=False, gridspec_kw={**edges, "wspace": 0.04, "hspace": 0.04})
    for column, text in enumerate(heads):
        above = axes[0, column].transAxes
        axes[0, column].text(0.5, 1.03, text, transform=above, ha="center", va="bottom", fontsize=SMALLEST)
        for row in range(n_rows):
            picture = strip.images[row]
            if column:
                picture = _picture(strip.columns[column - 1][1][row], scale, strip.valid[row] if column == 1 else None)
            axes[row, column].imshow(picture, interpolation="nearest", aspect="auto")
            axes[row, column].set_axis_off()
    if scale is not None:
        bar = drawing.add_axes((0.25, 0.3 / height, 0.5, 0.09 / height))
        mappable = ScalarMappable(scale, cmap=_DEPTH_COLOURS)
        drawing.colorbar(mappable, cax=bar, orientation="horizontal", extend="both")
        bar.set_xlabel(f"depth [{strip.unit}]", labelpad=1)
        bar.tick_params(labelsize=6, length=2, pad=1)
        bar.grid(visible=False)
    return drawing


def _picture(one: Maps, scale: Normalize | None, valid: Any = None) -> NDArray[np.float32]:
    """A map (c, h, w) as colours (h, w, 3) in [0, 1]; grey where it is not valid."""
    if scale is None:
        colours = np.clip((one.astype(np.float32).transpose(1, 2, 0) + 1) / 2, 0, 1)  # (h, w, 3)
    else:
        colours = colormaps[_DEPTH_COLOURS](scale(one[0].astype(np.float32)))[..., :3]
    known = np.asarray(np.isfinite(one).all(axis=0)) & (True if valid is None else valid)  # (h, w)
    return np.asarray(np.where(known[..., None], colours, np.array(to_rgb(_INVALID_COLOUR))), dtype=np.float32)
