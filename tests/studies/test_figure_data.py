"""The numbers of a figure, read from what was drawn, and its SVG file."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zoo.evaluation.drawing import legend_below, letter, name_points, new_figure, scatter_groups, style
from zoo.studies.figure_data import COLUMNS, csv_of
from zoo.studies.figure_svg import size_of, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def marks(draw: Callable[[Axes], object], **subplots: Any) -> list[dict[str, str]]:
    """What the CSV says of one panel, without empty cells."""
    with style():
        drawing, (axes, *_) = new_figure(**subplots)
        draw(axes)
        svg_of(drawing, name="test")
    rows = list(csv.DictReader(io.StringIO(csv_of(drawing))))
    return [{name: cell for name, cell in row.items() if cell} for row in rows]


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda axes: axes.plot([1, 2], [3, np.nan], label="a"), [
            {"kind": "line", "series": "a", "x": "1", "y": "3"}, {"kind": "line", "series": "a", "x": "2"},
        ]),
        (lambda axes: axes.plot(1, 3, "o"), [{"kind": "point", "x": "1", "y": "3"}]),
        (lambda axes: axes.bar([0], [2], bottom=1), [{"kind": "bar", "x": "0", "y": "1", "y_end": "3"}]),
        (lambda axes: axes.barh([5], [2], label="b"), [
            {"kind": "bar", "series": "b", "x": "0", "y": "5", "x_end": "2"},
        ]),
        (lambda axes: axes.vlines(1, 2, 3), [{"kind": "interval", "x": "1", "y": "2", "x_end": "1", "y_end": "3"}]),
        (lambda axes: axes.scatter([1], [2], c=[7.5]), [{"kind": "point", "x": "1", "y": "2", "value": "7.5"}]),
        (lambda axes: axes.imshow(np.ma.masked_invalid([[4.0, np.nan]])), [
            {"kind": "cell", "x": "0", "y": "0", "value": "4"}, {"kind": "cell", "x": "1", "y": "0"},
        ]),
        (lambda axes: axes.text(1, 2, "here"), [{"kind": "text", "name": "here", "x": "1", "y": "2"}]),
        (lambda axes: axes.annotate("", (3, 4), (1, 2), arrowprops={}), [
            {"kind": "arrow", "x": "1", "y": "2", "x_end": "3", "y_end": "4"},
        ]),
        (lambda axes: [axes.axvline(0), axes.axhspan(0, 1), axes.text(0, 1, "r", transform=axes.transAxes)], []),
    ],
)  # fmt: skip
def test_every_kind_of_mark_is_a_row_in_the_units_of_the_axes(
    draw: Callable[[Axes], object], expected: list[dict[str, str]]
) -> None:
    assert marks(draw) == expected


def test_points_have_the_names_of_encoders_of_groups_and_of_ticks() -> None:
    def draw(axes: Axes) -> None:
        scatter_groups(axes, [1, 2, 3], [0, 1, 1.1], ["a", "b", "a"], names=["x", "y", "z"])
        axes.set_yticks([0, 1], ["first", "second"])
        axes.set_xlabel("error,\nlower is better")
        letter([axes], ["ResNet"])

    rows = marks(draw)
    assert [(row["series"], row["name"], row["y_name"]) for row in rows] == [
        ("a (2)", "x", "first"), ("a (2)", "z", "second"), ("b (1)", "y", "second"),
    ]  # fmt: skip
    assert {(row["panel"], row["x_axis"]) for row in rows} == {("(a) ResNet", "error, lower is better")}
    assert "x_name" not in rows[0]  # ticks that are their own places


def test_a_legend_of_other_marks_names_what_has_their_colour() -> None:
    def draw(axes: Axes) -> None:
        axes.plot([], [], "o", color="#0072B2", label="ours")
        points = axes.scatter([1], [2], c="#0072B2")
        name_points(points, ["x"])
        figure: Any = axes.figure
        legend_below(figure, axes)

    assert marks(draw) == [{"kind": "point", "series": "ours", "name": "x", "x": "1", "y": "2"}]


def test_panels_that_share_an_axis_share_its_label_and_an_empty_one_has_no_rows() -> None:
    with style():
        drawing, (left, right, off) = new_figure(n_columns=3, sharey=True)
        right.plot(1, 2, "o")
        left.set_ylabel("risk")
        off.set_axis_off()
    header, row = csv_of(drawing).splitlines()
    assert header == ",".join(COLUMNS)
    assert row == "2,,risk,point,,,1,2,,,,,"


def test_an_svg_is_the_same_every_time_has_text_and_follows_the_dark() -> None:
    def made() -> str:
        with style():
            drawing, (axes,) = new_figure(width=3.0, height=2.0)
            axes.imshow([[0.123456]])
            axes.text(0, 0, "0.123456 <b>", color="black")
            return svg_of(drawing, name="a")

    svg = made()
    assert svg == made()
    assert size_of(svg) == (288, 192)  # 96 dots an inch
    root = ElementTree.fromstring(svg)
    texts = [text for element in root.iter() if element.tag.endswith("}text") for text in element.itertext()]
    assert "0.123456 <b>" in texts  # as it was written, which rounding leaves alone
    assert "@media (prefers-color-scheme: dark)" in svg
    assert "fill:#000001" in svg  # on a coloured cell text stays dark
