"""What every figure of a study keeps to: no title, axes with units, texts that are legible, whole and apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from zoo.evaluation.drawing import SMALLEST

_NUMBER = re.compile(r"[-+−]?[\d,.]+[kMB]?|\$\\mathdefault\{.*\}\$")  # noqa: RUF001 (the minus that matplotlib writes)
_TELLS = re.compile(r"\[[^]]+\]|[Yy]ear|[Nn]umber of")  # a unit, or what needs none
_TOUCH = 2.0  # pixels by which the boxes of two texts may overlap, for letters do not fill their boxes


def figure_faults(drawing: Drawing) -> list[str]:
    """Sentences on what is wrong; none if nothing is."""
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    renderer = canvas.get_renderer()
    faults = []
    titles = [drawing.get_suptitle(), *(axes.get_title(loc) for axes in drawing.axes for loc in _SIDES)]
    faults += [f"there is a title, {title!r}" for title in titles if title]
    texts = [*_texts(drawing)]
    faults += [
        f"{text.get_text()!r} has {text.get_fontsize()} points" for text in texts if text.get_fontsize() < SMALLEST
    ]
    width, height = canvas.get_width_height()
    for text in texts:
        box = text.get_window_extent(renderer)
        if box.x0 < -_TOUCH or box.y0 < -_TOUCH or box.x1 > width + _TOUCH or box.y1 > height + _TOUCH:
            faults.append(f"{text.get_text()!r} leaves the picture")
    for axes in _shown(drawing):
        for axis in (axes.xaxis, axes.yaxis):
            labels = _tick_labels(axis)
            numbers = [label for label in labels if _NUMBER.fullmatch(label.get_text())]
            label = axis.get_label().get_text()
            if len(numbers) > 1 and not _TELLS.search(label):
                faults.append(f"an axis of numbers is called {label!r}")
            for one, other in pairwise(labels):
                if one.get_rotation() % 90 == 0 and _overlap(
                    one.get_window_extent(renderer), other.get_window_extent(renderer)
                ):
                    faults.append(f"ticks {one.get_text()!r} and {other.get_text()!r} overlap")
    for one, other in combinations([*_apart(drawing, renderer)], 2):
        if _overlap(one[1], other[1]):
            faults.append(f"{one[0]!r} and {other[0]!r} overlap")
    return faults


_SIDES: Any = ("left", "center", "right")


def _shown(drawing: Drawing) -> list[Axes]:
    """Axes with an axis, that are no colour bar."""
    return [axes for axes in drawing.axes if axes.get_visible() and axes.axison and axes.get_label() != "<colorbar>"]


def _tick_labels(axis: Axis) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * max(abs(low), abs(high), 1.0)
    ticks = [tick for tick in axis.get_major_ticks() if low - margin <= tick.get_loc() <= high + margin]
    return [tick.label1 for tick in ticks if tick.label1.get_visible() and tick.label1.get_text()]


def _texts(drawing: Drawing) -> Iterator[Text]:
    """Every text that is drawn."""
    yield from (text for text in drawing.texts if text.get_text())
    for legend in (
        *drawing.legends,
        *(one for axes in drawing.axes if (one := axes.get_legend()) and axes.get_visible()),
    ):
        yield from (*legend.get_texts(), *([legend.get_title()] if legend.get_title().get_text() else []))
    for axes in drawing.axes:
        if not axes.get_visible():
            continue
        yield from (text for text in axes.texts if text.get_text() and text.get_visible())
        if axes.axison:
            for axis in (axes.xaxis, axes.yaxis):
                yield from _tick_labels(axis)
                if axis.get_label().get_text() and axis.get_label().get_visible():
                    yield axis.get_label()


def _apart(drawing: Drawing, renderer: Any) -> Iterator[tuple[str, Bbox]]:
    """What must not touch: names of axes, what stands over panels, and legends below the figure."""
    for axes in drawing.axes:
        if not axes.get_visible():
            continue
        frame = axes.get_window_extent(renderer)
        for text in axes.texts:
            box = text.get_window_extent(renderer)
            if text.get_text() and not _overlap(box, frame):
                yield text.get_text(), box
        if axes.axison:
            for axis in (axes.xaxis, axes.yaxis):
                if axis.get_label().get_text() and axis.get_label().get_visible():
                    yield axis.get_label().get_text(), axis.get_label().get_window_extent(renderer)
    for legend in drawing.legends:
        yield "the legend", legend.get_window_extent(renderer)


def _overlap(one: Bbox, other: Bbox) -> bool:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width > _TOUCH and height > _TOUCH
