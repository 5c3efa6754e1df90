"""Figures of an encoder's page: components of its error as signed bars, and its error against the number of labels.

Both have one scale for all encoders, so that pages can be held side by side, and letters of one size however wide
the page is: lengths are percentages of the width, texts stand outside of what is stretched. Two laws say what error to
expect between and below the measured numbers of labels: the interpolation of :mod:`zoo.analysis.label_budget` and the
scaling law of :mod:`zoo.analysis.scaling_law`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..analysis.label_budget import (
    FEWEST_LABELS,
    MOST_LABELS,
    Curve,
    HeldOutError,
    estimate_held_out_error,
    estimate_noise,
    predict_error,
)
from ..cards.catalogue import load_catalogue
from ..cards.schema import Missing
from ..results.derived import summaries
from ..results.facts import format_points
from ..results.values import SETTINGS, RiskDecomposition, SeedMean, Summary
from .drawing import Scale, build_element, choose_linear_ticks, choose_log_ticks, format_tick

if TYPE_CHECKING:
    from markupsafe import Markup


LEFT, RIGHT = -10.0, 60.0
"""Ends of the bars' scale in percentage points; what lies beyond is cut, with a mark, and its number is next to it."""
_PLACES = Scale(LEFT, RIGHT, 0.0, 100.0)
Colour: TypeAlias = Literal["approximation", "usability", "together", "probe", "encoder", "sum"]
LABELS: dict[Colour, str] = {
    "approximation": "approximation",
    "usability": "usability",
    "together": "approximation + usability",
    "probe": "probe generalization",
    "encoder": "encoder generalization",
    "sum": "sum: the error",
}
MEANINGS: dict[Colour, str] = {
    "approximation": "error of the architecture, trained with supervision, on its own training images",
    "usability": "error that pretraining without labels adds on the training images",
    "together": "error of the probe on its own training images",
    "probe": "error from training the probe on finitely many labels",
    "encoder": "error from pretraining the encoder on finitely many images",
    "sum": "error of the linear probe with all labels",
}


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """A component of an error, or the error itself, which is their sum."""

    colour: Colour
    value: float  # percentage points, signed; lower is better
    low: float | None = None  # 95 % interval, where one was stated
    high: float | None = None
    note: str = ""  # next to the number: "assumed, not measured"


def list_published_parts(decomposition: RiskDecomposition) -> list[ErrorPart]:
    """The parts of a decomposition without intervals, as the published ones are, and their sum."""
    approximation, usability = decomposition.approximation, decomposition.usability
    if isinstance(approximation, Missing) or isinstance(usability, Missing):
        no_twin = "not separable without a supervised twin"
        first = [ErrorPart("together", decomposition.approximation_plus_usability, note=no_twin)]
    else:
        assumed = "assumed, not measured" if decomposition.approximation_assumed else ""
        first = [ErrorPart("approximation", approximation, note=assumed), ErrorPart("usability", usability)]
    return [
        *first,
        ErrorPart("probe", decomposition.probe_generalization),
        ErrorPart("encoder", decomposition.encoder_generalization),
        ErrorPart("sum", decomposition.full_shot_error),
    ]


_OF_METRIC: dict[str, Colour] = {
    "approximation": "approximation",
    "usability": "usability",
    "approximation_plus_usability": "together",
    "probe_generalization": "probe",
    "encoder_generalization": "encoder",
    "linear_probe_error": "sum",
}


def list_measured_parts(means: Sequence[SeedMean]) -> list[ErrorPart]:
    """The parts that one protocol measured on one data set, with their intervals; without components []."""
    found: dict[Colour, ErrorPart] = {}
    for mean in means:
        if mean.metric in _OF_METRIC and mean.split == "train -> val":
            colour = _OF_METRIC[mean.metric]
            found.setdefault(colour, ErrorPart(colour, mean.value, mean.low, mean.high))
    if "probe" not in found:
        return []
    if "approximation" in found and "usability" in found:
        found.pop("together", None)
    return [found[colour] for colour in LABELS if colour in found]


def draw_decomposition(parts: Sequence[ErrorPart], *, caption: str, is_wrong: bool = False) -> Markup:
    """A table with a signed bar a part on the common scale, its number, and the interval where it has one.

    Colours are those of the components (classes ``f-approximation`` ...); widths are percentages, so that it fits any
    column, and the numbers are text. With ``is_wrong`` they are marked as measured wrongly.
    """
    heads = [("part", None), (f"{LEFT:g} to {RIGHT:g} points", "bar"), ("points", "n")]
    with_intervals = any(part.low is not None for part in parts)
    heads += [("95 % interval", "n")] * with_intervals
    rows = []
    for part in parts:
        note = [" ", build_element("span", {"class": "note"}, f"({part.note})")] if part.note else []
        cells = [
            build_element("th", {"scope": "row", "title": MEANINGS[part.colour]}, LABELS[part.colour], *note),
            build_element("td", {"class": "bar"}, draw_bar(part)),
            build_element("td", {"class": "n"}, format_points(part.value) + (" !" if is_wrong else "")),
        ]
        if with_intervals:
            ends = (
                ""
                if part.low is None or part.high is None
                else f"{format_points(part.low)} to {format_points(part.high)}"
            )
            cells.append(build_element("td", {"class": "n"}, ends))
        rows.append(build_element("tr", {"class": "sum" if part.colour == "sum" else None}, *cells))
    head = build_element(
        "tr", {}, *(build_element("th", {"scope": "col", "class": name}, text) for text, name in heads)
    )
    foot = [build_element("td", {}, ""), build_element("td", {"class": "bar"}, _axis()), build_element("td", {}, "")]
    foot += [build_element("td", {}, "")] * with_intervals
    return build_element(
        "table",
        {"class": "bars wrong" if is_wrong else "bars"},
        build_element("caption", {}, build_element("span", {}, caption)),
        build_element("thead", {}, head),
        build_element("tbody", {}, *rows),
        build_element("tfoot", {"aria-hidden": "true"}, build_element("tr", {}, *foot)),
    )


def draw_bar(part: ErrorPart) -> Markup:
    """One bar on the common scale, as wide as what it stands in; the number next to it says the same."""
    zero, end = _PLACES(0.0), _PLACES(_within(part.value))
    x, width = f"{min(zero, end):.2f}%", f"{abs(end - zero):.2f}%"
    # over the lines of 0, 20 and 40 points, which are the style sheet's
    drawn = [build_element("rect", {"class": f"f-{part.colour}", "x": x, "y": 4, "width": width, "height": 12})]
    if part.value > RIGHT or part.value < LEFT:
        at = 97.0 if part.value > RIGHT else 3.0
        for start in (at, at - 1.4):  # the mark of a bar that is cut
            slant = {"class": "cut", "x1": f"{start:.2f}%", "x2": f"{start + 1:.2f}%", "y1": 18, "y2": 2}
            drawn.append(build_element("line", slant))
    if part.low is not None and part.high is not None:
        low, high = _PLACES(_within(part.low)), _PLACES(_within(part.high))
        lines = [(low, high, 10, 10)]
        lines += [(at, at, 6, 14) for at, end in ((low, part.low), (high, part.high)) if _within(end) == end]
        for x1, x2, y1, y2 in lines:
            whisker = {"class": "interval", "x1": f"{x1:.2f}%", "x2": f"{x2:.2f}%", "y1": y1, "y2": y2}
            drawn.append(build_element("line", whisker))
    return build_element("svg", {"class": "bar", "aria-hidden": "true", "height": 20}, *drawn)


def _axis() -> Markup:
    texts = [
        build_element("text", {"x": f"{_PLACES(tick):.2f}%", "y": 13, "text-anchor": "middle"}, f"{tick:g}")
        for tick in choose_linear_ticks(LEFT, RIGHT, 4)
        if LEFT < tick < RIGHT
    ]
    return build_element("svg", {"class": "bar", "height": 20}, *texts)


def _within(value: float) -> float:
    return min(max(value, LEFT), RIGHT)


HEIGHT = 240
"""Of the frame of a chart, in pixels."""


Line: TypeAlias = tuple[str, Sequence[tuple[float, float]]]
"""A curve of a chart: its class, which says colour and dashes, and its places."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A measured point of a chart."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    name: str = "f1"

    @classmethod
    def of(cls, mean: SeedMean, name: str) -> Mark:
        """An error, with its interval, at its number of labels."""
        return cls(mean.n_train or 1, mean.value, mean.low, mean.high, name)


def draw_chart(
    x_ends: tuple[float, float],
    y_ends: tuple[float, float],
    *,
    titles: tuple[str, str],
    lines: Sequence[Line] = (),
    marks: Sequence[Mark] = (),
    band: Sequence[tuple[float, float, float]] = (),
    description: str,
    readout: Sequence[tuple[float, float]] = (),
) -> Markup:
    """A chart as wide as its column, with letters of one size.

    ``x`` is logarithmic in whole numbers, ``y`` linear. ``band`` has x, low and high of an area; ``readout`` the values
    that a script shows under the pointer. What lies beyond the axes is cut at their ends.
    """
    across = Scale(*x_ends, 0.0, 100.0, "log")
    along = Scale(*x_ends, 0.0, 1000.0, "log")
    up = Scale(*y_ends, float(HEIGHT), 0.0)

    def at(x: float, y: float) -> str:
        return f"{along(x):.0f} {up(min(max(y, y_ends[0]), y_ends[1])):.1f}"

    drawn: list[Markup] = []
    for tick in choose_linear_ticks(*y_ends, 6):
        y = up(tick)
        drawn.append(build_element("line", {"class": "grid", "x2": "100%", "y1": y, "y2": y}))
        drawn.append(build_element("text", {"x": -8, "y": y + 4, "text-anchor": "end"}, f"{tick:g}"))
    for tick in choose_log_ticks(*x_ends, 5):
        x = f"{across(tick):.2f}%"
        drawn.append(build_element("line", {"class": "axis", "x1": x, "x2": x, "y1": HEIGHT, "y2": HEIGHT + 5}))
        drawn.append(build_element("text", {"x": x, "y": HEIGHT + 19, "text-anchor": "middle"}, format_tick(tick)))
    drawn.append(build_element("line", {"class": "axis", "x2": "100%", "y1": HEIGHT, "y2": HEIGHT}))
    drawn.append(build_element("text", {"x": "50%", "y": HEIGHT + 38, "text-anchor": "middle"}, titles[0]))
    drawn.append(build_element("text", {"x": -36, "y": -10}, titles[1]))
    paths = []
    if band:
        there = [at(x, high) for x, _, high in band]
        back = [at(x, low) for x, low, _ in reversed(band)]
        paths.append(build_element("path", {"class": "band", "d": f"M{'L'.join(there + back)}Z"}))
    paths += [
        build_element("path", {"class": f"line {name}", "d": f"M{'L'.join(at(x, y) for x, y in places)}"})
        for name, places in lines
        if len(places) > 1
    ]
    stretched = {"width": "100%", "height": HEIGHT, "viewBox": f"0 0 1000 {HEIGHT}", "preserveAspectRatio": "none"}
    drawn.append(build_element("svg", stretched, *paths))
    for mark in marks:
        x = f"{across(mark.x):.2f}%"
        if mark.low is not None and mark.high is not None:
            low, high = up(max(mark.low, y_ends[0])), up(min(mark.high, y_ends[1]))
            drawn.append(build_element("line", {"class": "interval", "x1": x, "x2": x, "y1": low, "y2": high}))
        drawn.append(build_element("circle", {"class": mark.name, "cx": x, "cy": up(mark.y), "r": 4}))
    values = " ".join(f"{x:g}:{y:.1f}" for x, y in readout) or None
    attributes = {"class": "chart", "role": "img", "aria-label": description, "data-values": values}
    if values:
        attributes |= {"data-low": f"{x_ends[0]:g}", "data-high": f"{x_ends[1]:g}"}
    return build_element("svg", attributes, *drawn)


def draw_key(items: Sequence[tuple[str, str]]) -> Markup:
    """What the marks of a chart mean: class and words of each."""
    entries = []
    for name, words in items:
        if name.startswith(("line", "band")):
            shape = build_element(
                "path", {"class": name, "d": "M0 6H26" if name.startswith("line") else "M0 1H26V11H0Z"}
            )
        else:
            shape = build_element("circle", {"class": name, "cx": 13, "cy": 6, "r": 4})
        picture = build_element("svg", {"class": "key", "width": 26, "height": 12, "aria-hidden": "true"}, shape)
        entries.append(build_element("li", {}, picture, " ", words))
    return build_element("ul", {"class": "key"}, *entries)


TABLED = (1_000, 2_000, 3_000, 5_000, 10_000, 12_811, 30_000, 100_000, 300_000, 1_281_167)
"""Numbers of labels of the table next to the figure: those of the settings, and round ones between them."""
_N_DRAWN = 33  # points of a drawn curve
_NO_TRIAL = ("supervised", "initialized")


@dataclass(frozen=True, slots=True)
class ExpectedDrawing:
    """An error at a number of labels, measured or to be expected."""

    n_labels: int
    error: float  # percent, lower is better
    kind: str  # measured, interpolated, extrapolated
    low: float | None = None  # 90 % interval, where it is known how far such predictions miss
    high: float | None = None


class LabelCurves:
    """Trials and fits that all pages share."""

    def __init__(self) -> None:
        self._trials: dict[tuple[int, tuple[int, ...]], HeldOutError | None] = {}

    @cached_property
    def _pool(self) -> list[Curve]:
        """Curves of the encoders that the label-budget study ranks."""
        cards = load_catalogue()
        trained = [one for name, one in summaries().items() if cards[name].objective.mode not in _NO_TRIAL]
        found = map(build_error_curve, trained)
        return [curve for curve in found if len(curve) > 2 and min(curve.values()) > 0]

    @cached_property
    def law(self) -> tuple[float, float, int]:
        """Alpha and W of Eq. 25, and the number of published encoders that they were fitted to."""
        from ..analysis.scaling_law import fit_scaling_law, law_rows  # pandas and SciPy
        from ..analysis.table import study_table

        fitted = fit_scaling_law(law_rows(study_table(), complete_only=False), n_resamples=0)
        assert fitted.alpha.value is not None and fitted.W.value is not None
        return fitted.alpha.value, fitted.W.value, fitted.n_encoders

    def expected(self, curve: Curve, n_labels: Sequence[int]) -> list[ExpectedDrawing]:
        """What the label-budget study expects; numbers of labels about which it says nothing are left out."""
        if not curve or min(curve.values()) <= 0:
            return []
        found = []
        for n in n_labels:
            predicted = predict_error(curve, n)
            if predicted is None:
                continue
            noise = estimate_noise(curve, predicted, None if n in curve else self._trial(n, tuple(sorted(curve))))
            low, high = noise.interval(predicted.error) if noise else (None, None)
            found.append(ExpectedDrawing(n, predicted.error, predicted.kind, low, high))
        return found

    def _trial(self, n_labels: int, settings: tuple[int, ...]) -> HeldOutError | None:
        """How far such predictions missed, of encoders measured in these settings; once for all encoders with them."""
        key = n_labels, settings
        if key not in self._trials:
            some = [{n: curve[n] for n in settings} for curve in self._pool if curve.keys() >= set(settings)]
            self._trials[key] = estimate_held_out_error(some, n_labels)
        return self._trials[key]

    def by_law(self, parts: RiskDecomposition, n_labels: Sequence[int]) -> list[float]:
        """What the scaling law predicts from the components, in percent."""
        from ..analysis.scaling_law import predict_law_errors

        cells = {
            "n": list(n_labels),
            "T": [parts.approximation_plus_usability] * len(n_labels),
            "probe_gen": [parts.probe_generalization] * len(n_labels),
            "enc_gen": [parts.encoder_generalization] * len(n_labels),
        }
        return [float(error) for error in predict_law_errors(cells, alpha=self.law[0], w=self.law[1])]


def build_error_curve(summary: Summary) -> Curve:
    """The measured errors by number of labels."""
    return {setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors}


def choose_curve_labels() -> list[int]:
    """Numbers of labels at which curves are drawn, evenly spaced by ratio, with those of the settings."""
    ratio = (MOST_LABELS / FEWEST_LABELS) ** (1 / (_N_DRAWN - 1))
    evenly = {round(FEWEST_LABELS * ratio**step) for step in range(_N_DRAWN - 1)} | {MOST_LABELS}
    return sorted(evenly | {setting.n_labels for setting in SETTINGS})
