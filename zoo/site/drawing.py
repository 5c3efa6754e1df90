"""SVG: elements, scales, ticks, and a plot of points; colours and sizes of text are classes of the style sheet.

``scripts/10-plot.js`` (``Zoo.plot``) takes a plot over, with the same shapes and classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..optional import require_extra
from ..results.facts import format_points as in_percent
from ..results.facts import format_short_number
from ..results.values import EXPECTED, STUDY

if TYPE_CHECKING:
    from markupsafe import Markup


def build_element(name: str, attributes: Mapping[str, object] | None = None, *children: Markup | str) -> Markup:
    """An element; attributes and texts are escaped, attributes that are None are left out, and floats are rounded.

    >>> str(build_element("text", {"x": 1.23456, "class": None}, "a < b"))
    '<text x="1.23">a &lt; b</text>'
    """
    with require_extra("site", needed_for="A figure"):
        from markupsafe import Markup, escape

    given = {key: value for key, value in (attributes or {}).items() if value is not None}
    opening = "".join(f' {key}="{escape(_text(value))}"' for key, value in given.items())
    inside = "".join(map(escape, children))
    return Markup(f"<{name}{opening}>{inside}</{name}>" if children else f"<{name}{opening}/>")


def split_name(name: str) -> Markup:
    """An id that a narrow column breaks behind its underscores alone, if it can.

    >>> str(split_name("a_<b"))
    'a_<wbr>&lt;b'
    """
    with require_extra("site", needed_for="A page"):
        from markupsafe import Markup

    return Markup("_<wbr>").join(name.split("_"))


def _text(value: object) -> str:
    return f"{round(value, 2):g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places in an SVG."""

    low: float  # values at both ends
    high: float
    start: float  # places of those
    end: float
    kind: Literal["linear", "log"] = "linear"

    def __call__(self, value: float) -> float:
        """The place of a value."""
        low, high, at = (
            map(math.log, (self.low, self.high, value)) if self.kind == "log" else (self.low, self.high, value)
        )
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the scale, at most ``most``."""
        return (
            choose_log_ticks(self.low, self.high, most)
            if self.kind == "log"
            else choose_linear_ticks(self.low, self.high, most)
        )


def choose_linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten.

    >>> choose_linear_ticks(18.0, 61.0), choose_linear_ticks(-1.2, 3.1, 5)
    ([20.0, 30.0, 40.0, 50.0, 60.0], [-1.0, 0.0, 1.0, 2.0, 3.0])
    """
    power = 10.0 ** (math.floor(math.log10(high - low)) - 2)
    for step in (factor * power * 10**more for more in range(4) for factor in (1, 2, 5)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return [round(place * step, 12) + 0.0 for place in range(first, last + 1)]
    raise AssertionError("a step of ten times the extent leaves at most two ticks")


def choose_log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten, with 1.5, 2, 3, 5 and 7 times them, or 2 and 5, or 3 times them, where there is room.

    >>> choose_log_ticks(5e6, 1e9), choose_log_ticks(1000, 1_281_167)
    ([10000000.0, 30000000.0, 100000000.0, 300000000.0, 1000000000.0], [1000.0, 10000.0, 100000.0, 1000000.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= most:
            return found
    step = math.ceil(len(found) / most)
    return found[::step]


def format_tick(value: float) -> str:
    """A tick as text.

    >>> format_tick(20.0), format_tick(0.5), format_tick(30_000_000)
    ('20', '0.5', '30M')
    """
    return format_short_number(value) if abs(value) >= 10_000 else f"{value:g}"


def compute_extent(values: Iterable[float], share: float = 0.04) -> tuple[float, float]:
    """Smallest and largest value, with a margin of that share on both sides.

    >>> compute_extent([10.0, 20.0], 0.1)
    (9.0, 21.0)
    """
    known = list(values)
    low, high = min(known), max(known)
    reach = (high - low) * share or abs(high) * share or 1.0
    return low - reach, high + reach


@dataclass(frozen=True, slots=True)
class Frame:
    """Size of a plot and the margins of its axes."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    below: float  # from the axis down to the feet of its numbers
    n_ticks: int


STILL = Frame(900.0, 480.0, 58.0, 14.0, 42.0, 66.0, 24.0, 6)  # room for texts of twice the size on a phone
LIVE = Frame(
    1260.0, 520.0, 48.0, 14.0, 30.0, 42.0, 18.0, 7
)  # as the script draws it on a wide page, so that nothing jumps
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
RIGHT_HALVES = (
    "m0,-5a5,5 0 0,1 0,10z",
    "m0,-4.5h4.5v9h-4.5z",
    "m0,-6l5.5,9.5h-5.5z",
    "m0,-6.2l6.2,6.2l-6.2,6.2z",
    "m0,6l5.5,-9.5h-5.5z",
    "m0,-6h2v4h4v4h-4v4h-2z",
    "m0,-6l6,3.5v5l-6,3.5z",
    "m0,-3h6v6h-6z",
)
"""What a half-filled mark leaves open of its shape."""
Fill: TypeAlias = Literal["full", "half", "open"]
STRIP = 1.08
"""How far :func:`spread_points` moves a point, at most: by this factor either way."""
FILLS: dict[Fill, str] = {
    "full": STUDY, "half": "expected from other linear probes", "open": f"{EXPECTED} from other numbers",
}  # fmt: skip
"""What the fill of a mark says of its number."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What one axis shows."""

    label: str
    kind: Literal["linear", "log"] = "linear"
    format: Literal["count", "percent", "number"] = "number"
    better: Literal["low", "high", ""] = ""

    @property
    def name(self) -> str:
        """Its label, and which direction is better."""
        return self.label + (f", {self.better}er is better" if self.better else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotPoint:
    """One mark."""

    id: str
    href: str  # from the page of the figure
    x: float
    y: float
    group: int = 1  # 1 to 8: colour and shape
    low: float | None = None  # interval of y
    high: float | None = None
    fill: Fill = "full"
    is_beside: bool = False  # takes no part in the front
    at: float | None = None  # x that it is drawn at next to others, unless it is on the front


def format_axis_value(value: float, axis: Axis) -> str:
    """A value of an axis as text.

    >>> format_axis_value(25_557_032, Axis("", format="count")), format_axis_value(24.561, Axis("", format="percent"))
    ('25.6M', '24.6')
    """
    if axis.format == "percent":
        return in_percent(value)
    return format_tick(value) if axis.format == "count" else f"{value:.4g}"


def draw_scatter(
    points: Sequence[PlotPoint],
    x: Axis,
    y: Axis,
    *,
    title: str,
    description: str,
    groups: Sequence[str],
    front: bool = False,
    by_fill: bool = False,
    frame: Frame = STILL,
) -> Markup:
    """A figure with the plot and its legend: names of ``groups``, and of fills with ``by_fill``; a :data:`LIVE` frame
    is for those that the script takes over.

    ``front`` draws the line of the points that no other one beats in both directions, with names where there is room;
    then the axis of y must say what is better, and smaller is better of x.
    """
    ends = [end for one in points for end in (one.y, one.low, one.high) if end is not None]
    best = find_pareto_front(points, lower=y.better == "low") if front else []
    on_front = {one.id for one in best}
    across = Scale(
        *_reach(x, [at for one in points for at in (one.x, one.at or one.x)], ROOM / 2 * bool(best)),
        frame.left,
        frame.width - frame.right,
        x.kind,
    )
    up = Scale(*_reach(y, ends, ROOM * bool(best)), frame.height - frame.bottom, frame.top, y.kind)
    ordered = sorted(points, key=lambda one: (one.id in on_front, FILL_ORDER[one.fill], one.x))
    marks = [_mark(one, across, up, x, y, " first" * (one.id in on_front)) for one in ordered]
    line = [_front(best, across, up), _names(best, across, up)] if best else []
    drawing = build_element(
        "svg",
        {"viewBox": f"0 0 {frame.width:g} {frame.height:g}", "role": "img", "aria-label": f"{title}. {description}"},
        *draw_grid(across, up, frame.n_ticks, frame.below),
        build_element("text", {"class": "name", "x": 2, "y": frame.top - 16}, y.name),
        build_element("text", {"class": "name", "x": across.end, "y": frame.height - 6, "text-anchor": "end"}, x.name),
        *line[:1],
        build_element("g", {"class": "marks crowded" if len(marks) > CROWD else "marks"}, *marks),
        *line[1:],
    )
    used = sorted({one.group for one in points})
    counts = Counter(one.group for one in points)
    named = [f"{groups[group - 1]} ({counts[group]})" if frame is LIVE else groups[group - 1] for group in used]
    names = [build_element("li", None, draw_swatch(group), words) for group, words in zip(used, named, strict=True)]
    fills = [build_element("li", None, draw_swatch(1, fill), words) for fill, words in FILLS.items()] if by_fill else []
    legends = [
        build_element("ul", {"class": f"legend{kind}"}, *of) for kind, of in (("", names), (" fills", fills)) if of
    ]
    return build_element("figure", {"class": "plot"}, *legends, drawing)


CROWD = 300  # marks, from which on they are smaller
GOLDEN = (1 + math.sqrt(5)) / 2
ROOM = 0.12  # share of the axis that is left below the front for its names; half as much on its left
FILL_ORDER = {"open": 0, "half": 1, "full": 2}  # what is drawn over what


def _reach(axis: Axis, values: Sequence[float], room: float = 0.0) -> tuple[float, float]:
    """Ends of an axis: values with a margin, a factor on a logarithmic axis, and a share of ``room`` at the low end."""
    low, high = compute_extent(map(math.log, values) if axis.kind == "log" else values)
    low -= room * (high - low) / 1.08  # without the margins
    return (math.exp(low), math.exp(high)) if axis.kind == "log" else (low, high)


def spread_points(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    """The points, those within about 3 % of the same x side by side, for a logarithmic axis.

    Steps of the golden ratio keep neighbours in y apart. A strip is as wide as :data:`STRIP` says, and at most 4 % of
    the axis.
    """
    strips: dict[int, list[PlotPoint]] = {}
    for one in sorted(points, key=lambda one: (one.y, one.id)):
        strips.setdefault(round(30 * math.log(one.x)), []).append(one)
    ends = [math.log(one.x) for one in points] or [0.0]
    half = min(math.log(STRIP), 0.02 * (max(ends) - min(ends)))
    places = {one.id: place for some in strips.values() if len(some) > 1 for place, one in enumerate(some)}
    at = {name: math.exp(half * ((2 * place / GOLDEN) % 2 - 1)) for name, place in places.items()}
    return [replace(one, at=one.x * at[one.id] if one.id in at else None) for one in points]


def _mark(one: PlotPoint, across: Scale, up: Scale, x: Axis, y: Axis, more: str) -> Markup:
    at_x, at_y = across(one.x if more else one.at or one.x), up(one.y)
    told = build_element("title", None, f"{one.id}: {format_axis_value(one.y, y)}, {format_axis_value(one.x, x)}")
    path = mark_path(f"{at_x:.1f},{at_y:.1f}", one.group, one.fill)
    shape = build_element("path", {"class": mark_class(one.group, one.fill) + more, "d": path}, told)
    if one.low is None or one.high is None:
        return shape
    ends = f"M{at_x:.1f},{up(one.low):.1f}V{up(one.high):.1f}"
    return build_element("g", None, build_element("path", {"class": f"interval s{one.group}", "d": ends}), shape)


def draw_grid(across: Scale, up: Scale, most: int = STILL.n_ticks, below: float = STILL.below) -> list[Markup]:
    """Lines and texts of both axes, between the places at the ends of the scales."""
    left, right, floor, top = across.start, across.end, up.start, up.end
    drawn = []
    for value in across.ticks(most):
        at = across(value)
        drawn.append(build_element("path", {"class": "grid", "d": f"M{at:.1f},{top:g}V{floor:g}"}))
        drawn.append(build_element("text", {"x": at, "y": floor + below, "text-anchor": "middle"}, format_tick(value)))
    for value in up.ticks(most):
        at = up(value)
        drawn.append(build_element("path", {"class": "grid", "d": f"M{left:g},{at:.1f}H{right:g}"}))
        drawn.append(build_element("text", {"x": left - 8, "y": at + 4, "text-anchor": "end"}, format_tick(value)))
    return [*drawn, build_element("path", {"class": "axis", "d": f"M{left:g},{top:g}V{floor:g}H{right:g}"})]


def find_pareto_front(points: Iterable[PlotPoint], *, lower: bool) -> list[PlotPoint]:
    """The points that no other one beats by less x and better y, by rising x; those with ``is_beside`` take no part."""
    sign = 1 if lower else -1
    best: list[PlotPoint] = []
    for one in sorted((one for one in points if not one.is_beside), key=lambda one: (one.x, sign * one.y)):
        if not best or sign * one.y < sign * best[-1].y:
            best.append(one)
    return best


def _front(best: Sequence[PlotPoint], across: Scale, up: Scale) -> Markup:
    steps = "".join(f"H{across(one.x):.1f}V{up(one.y):.1f}" for one in best[1:])
    return build_element("path", {"class": "front", "d": f"M{across(best[0].x):.1f},{up(best[0].y):.1f}{steps}"})


def _names(best: Sequence[PlotPoint], across: Scale, up: Scale) -> Markup:
    """Names of the front below it, where no ranked mark is, with lines to those that stand apart; the best first.

    A name that would come over a mark, another name or its line is left out.
    """
    marks = {one.id: (across(one.x) - 6, up(one.y) - 6, across(one.x) + 6, up(one.y) + 6) for one in best}  # boxes
    taken: list[tuple[float, ...]] = []  # the front itself; of names, and of points of their lines
    for one, after in pairwise(best):
        taken.append((across(one.x), up(one.y), across(after.x), up(one.y)))
        taken.append((across(after.x), up(one.y), across(after.x), up(after.y)))
    drawn = []
    for one in reversed(best):
        x, y = across(one.x), up(one.y)
        others = [box for name, box in marks.items() if name != one.id] + taken
        for down, aside in NAME_PLACES:
            right, foot, is_apart = x - aside, y + down, (down, aside) not in BESIDE
            box = right - 6.6 * len(one.id), foot - 11, right, foot + 3
            line = [(right + (x - right) * part / 16, foot - 4 + (y + 8 - foot) * part / 16) for part in range(16)]
            boxes = [box, *((at_x - 2, at_y - 2, at_x + 2, at_y + 2) for at_x, at_y in line[: 16 * is_apart])]
            if (
                box[0] < across.start + 2
                or box[3] > up.start - 1
                or any(do_boxes_overlap(a, b) for a in boxes for b in others)
            ):
                continue
            taken += boxes
            drawn.append(build_element("text", {"class": "top", "x": right, "y": foot, "text-anchor": "end"}, one.id))
            if is_apart:
                leader = f"M{right + 2:.1f},{foot - 4:.1f}L{x - 4:.1f},{y + 5:.1f}"
                drawn.append(build_element("path", {"class": "leader", "d": leader}))
            break
    return build_element("g", {"class": "names"}, *drawn)


BESIDE = ((4, 9), (14, 9))  # places from which a name needs no line to its mark
NAME_PLACES = sorted(
    ((down, aside) for down in (4, 14, *range(24, 96, 12)) for aside in (9, 22, 40, 64)), key=lambda at: math.hypot(*at)
)
"""Where a name may be: its foot so far below the mark, its end so far to the left of it; the nearest first."""


def do_boxes_overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two boxes, each from its upper left to its lower right, have a point in common."""
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def mark_class(group: int, fill: Fill = "full") -> str:
    """Classes of a mark."""
    return {"full": f"f{group}", "half": f"half f{group} s{group}", "open": f"hollow s{group}"}[fill]


def mark_path(at: str, group: int, fill: Fill = "full") -> str:
    """The path of a mark; a half-filled one has its right half twice, which the rule of even and odd leaves open."""
    return f"M{at}{MARKS[group - 1]}" + (f"M{at}{RIGHT_HALVES[group - 1]}" if fill == "half" else "")


def draw_swatch(group: int, fill: Fill = "full") -> Markup:
    """Colour, shape and fill of a group, from 1."""
    mark = build_element("path", {"class": mark_class(group, fill), "d": mark_path("8,8", group, fill)})
    return build_element("svg", {"class": "swatch", "viewBox": "0 0 16 16", "aria-hidden": "true"}, mark)
