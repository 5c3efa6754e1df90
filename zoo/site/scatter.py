"""A plot of points: drawn here as it looks at first, so that it is there without JavaScript.

``scripts/10-plot.js`` (``Zoo.plot``) takes the figure over, with the same shapes and classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..results.facts import points as in_percent
from .drawing import Scale, element, extent, plain

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 900.0, 480.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 14.0, 42.0, 66.0  # margins: room for texts of twice the size on a phone
MARKS = (
    "m-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
    "m-4.5,-4.5h9v9h-9z",
    "m0,-6l5.5,9.5h-11z",
    "m0,-6.2l6.2,6.2l-6.2,6.2l-6.2,-6.2z",
    "m0,6l5.5,-9.5h-11z",
    "m-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
    "m-6,-2.5l6,-3.5l6,3.5v5l-6,3.5l-6,-3.5z",
    "m-6,-3h12v6h-12z",
)
"""A shape a group, for colours alone do not tell eight groups apart: circle, square, triangle, diamond, triangle that
points down, plus, hexagon, bar; each as a path from the point."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What one axis shows."""

    label: str
    kind: Literal["linear", "log"] = "linear"
    format: Literal["count", "percent", "number", "month"] = "number"  # month: years with a fraction
    better: Literal["low", "high", ""] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One mark."""

    id: str
    label: str
    href: str  # from the page of the figure
    x: float
    y: float
    group: int = 1  # 1 to 8: colour and shape
    low: float | None = None  # interval of y
    high: float | None = None
    hollow: bool = False


def shown(value: float, axis: Axis) -> str:
    """A value of an axis as text.

    >>> shown(25_557_032, Axis("", format="count")), shown(24.561, Axis("", format="percent"))
    ('25.6M', '24.6')
    >>> shown(2021 + 3 / 12, Axis("", format="month"))
    '2021-04'
    """
    if axis.format == "percent":
        return in_percent(value)
    if axis.format == "month":
        months = round(value * 12)
        return f"{months // 12}-{months % 12 + 1:02}"
    return plain(value) if axis.format == "count" else f"{value:.4g}"


def scatter(
    points: Sequence[Point],
    x: Axis,
    y: Axis,
    *,
    title: str,
    description: str,
    groups: Sequence[str],
    front: bool = False,
) -> Markup:
    """A figure with the plot and its legend.

    Parameters
    ----------
    points : sequence of Point
        In the order in which arrow keys visit those of equal x.
    x, y : Axis
        Values of a logarithmic axis must be positive.
    title, description : str
        What a screen reader says of the plot.
    groups : sequence of str
        Names of the groups 1, 2 ..., at most eight.
    front : bool
        Draws the line of the points that no other one beats in both directions; both axes must say what is better.
    """
    if not points:
        return element("figure", {"class": "plot"}, element("p", None, "Nothing to show."))
    across = Scale(*_reach(x, [one.x for one in points]), LEFT, WIDTH - RIGHT, x.kind)
    ends = [end for one in points for end in (one.y, one.low, one.high) if end is not None]
    up = Scale(*_reach(y, ends), HEIGHT - BOTTOM, TOP, y.kind)
    marks = [_mark(one, across, up, x, y) for one in sorted(points, key=lambda one: one.x)]
    line = [_front(points, across, up, x, y)] if front else []
    drawing = element(
        "svg",
        {"viewBox": f"0 0 {WIDTH:g} {HEIGHT:g}", "role": "img", "aria-label": f"{title}. {description}"},
        *_axes(across, up, x, y),
        *line,
        element("g", {"class": "marks"}, *marks),
    )
    used = sorted({one.group for one in points})
    names = [element("li", None, _swatch(group), groups[group - 1]) for group in used]
    return element("figure", {"class": "plot"}, drawing, element("ul", {"class": "legend"}, *names))


def _reach(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis: values with a margin, on a logarithmic axis a factor."""
    if axis.kind == "log":
        low, high = extent(map(math.log, values))
        return math.exp(low), math.exp(high)
    return extent(values)


def _mark(one: Point, across: Scale, up: Scale, x: Axis, y: Axis) -> Markup:
    at_x, at_y = across(one.x), up(one.y)
    told = element("title", None, f"{one.label}: {shown(one.y, y)}, {shown(one.x, x)}")
    shape = element(
        "path",
        {
            "class": f"{'hollow s' if one.hollow else 'f'}{one.group}",
            "d": f"M{at_x:.1f},{at_y:.1f}{MARKS[one.group - 1]}",
        },
        told,
    )
    if one.low is None or one.high is None:
        return shape
    bar: dict[str, object] = {
        "class": f"interval s{one.group}",
        "d": f"M{at_x:.1f},{up(one.low):.1f}V{up(one.high):.1f}",
    }
    return element("g", None, element("path", bar), shape)


def _axes(across: Scale, up: Scale, x: Axis, y: Axis) -> list[Markup]:
    floor, left, right = HEIGHT - BOTTOM, LEFT, WIDTH - RIGHT
    drawn = []
    for value in _ticks(across, x):
        at = across(value)
        drawn.append(element("path", {"class": "grid", "d": f"M{at:.1f},{TOP:g}V{floor:g}"}))
        drawn.append(element("text", {"x": at, "y": floor + 24, "text-anchor": "middle"}, _tick(value, x)))
    for value in _ticks(up, y):
        at = up(value)
        drawn.append(element("path", {"class": "grid", "d": f"M{left:g},{at:.1f}H{right:g}"}))
        drawn.append(element("text", {"x": left - 8, "y": at + 4, "text-anchor": "end"}, _tick(value, y)))
    drawn.append(element("path", {"class": "axis", "d": f"M{left:g},{TOP:g}V{floor:g}H{right:g}"}))
    drawn.append(element("text", {"class": "name", "x": 2, "y": 20}, _name(y)))
    drawn.append(element("text", {"class": "name", "x": right, "y": HEIGHT - 10, "text-anchor": "end"}, _name(x)))
    return drawn


def _ticks(scale: Scale, axis: Axis) -> list[float]:
    """At most six, and of months whole years alone."""
    return [value for value in scale.ticks() if axis.format != "month" or value == round(value)]


def _tick(value: float, axis: Axis) -> str:
    return f"{value:.0f}" if axis.format == "month" else plain(value)


def _name(axis: Axis) -> str:
    better = {"low": ", lower is better", "high": ", higher is better", "": ""}[axis.better]
    return axis.label + better


def _front(points: Sequence[Point], across: Scale, up: Scale, x: Axis, y: Axis) -> Markup:
    """Steps along the points that no other one beats."""
    x_sign, y_sign = (-1 if axis.better == "high" else 1 for axis in (x, y))
    best: list[Point] = []
    for one in sorted(points, key=lambda one: (x_sign * one.x, y_sign * one.y)):
        if not best or y_sign * one.y < y_sign * best[-1].y:
            best.append(one)
    steps = "".join(f"H{across(one.x):.1f}V{up(one.y):.1f}" for one in best[1:])
    return element("path", {"class": "front", "d": f"M{across(best[0].x):.1f},{up(best[0].y):.1f}{steps}"})


def _swatch(group: int) -> Markup:
    mark = element("path", {"class": f"f{group}", "d": f"M8,8{MARKS[group - 1]}"})
    return element("svg", {"class": "swatch", "viewBox": "0 0 16 16", "aria-hidden": "true"}, mark)
