"""Figures of a choice as SVG: what is drawn, in the ink of the page, with all text escaped."""

from __future__ import annotations

import re
from functools import partial
from itertools import product
from xml.etree import ElementTree

from tests.each import for_each
from zoo.choosing.comparing import LabelCurve, LabelPoint
from zoo.choosing.figures import (
    ErrorBar,
    draw_against_cost,
    draw_error_parts,
    draw_label_curve,
    draw_ranking,
    find_pareto_points,
)
from zoo.evaluation.bootstrap import Interval
from zoo.looking.pages import render_svg

NAMES = ("dino_vitS16", "<b>&co", "pocket_simclr_rn_shapes")


def about(value: float) -> Interval:
    return Interval(value=value, ci_low=value - 1, ci_high=value + 1)


BARS = [
    ErrorBar(name=name, error=about(5.0 + place), verdict=verdict, is_final=place < 2)
    for place, (name, verdict) in enumerate(zip(NAMES, ("leader", "tie", "worse"), strict=True))
]
CURVES = [
    LabelCurve(
        encoder=name,
        points=tuple(LabelPoint(n_labels=n, error=about(30 - n / 100), n_draws=1) for n in (250, 500, 1000)),
        expected=(LabelPoint(n_labels=2000, error=about(18.0), n_draws=0),) if name == NAMES[0] else (),
        exponent=None,
        floor=None,
        refusal="" if name == NAMES[0] else "too few",
    )
    for name in NAMES[:2]
]
FIGURES = {
    "ranking": partial(draw_ranking, BARS),
    "cost": partial(draw_against_cost, BARS, (10.0, 40.0, 5.0), label="images per second", more_is_better=True),
    "curve": partial(draw_label_curve, CURVES),
    "parts": partial(draw_error_parts, {"usability": 1.5, "probe generalization": -0.2}),
}


@for_each(product(FIGURES, (3.7, 7.5)), arguments=2)
def test_a_figure_is_one_svg_element_in_the_ink_of_the_page(name: str, width: float) -> None:
    text = render_svg(FIGURES[name], width, name=name)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert (root.get("width"), bool(root.get("viewBox"))) == ("100%", True)
    assert "currentColor" in text and not re.search("#010203|#040506", text)


def test_names_are_text_escaped_and_shortened_in_the_middle_of_a_narrow_figure() -> None:
    text = render_svg(FIGURES["ranking"], 7.5, name="ranking")
    assert "&lt;b&gt;&amp;co" in text and "<b>" not in text
    written = "".join(ElementTree.fromstring(text).itertext())
    assert all(name in written for name in NAMES)
    long = ErrorBar(name="a" * 60 + "_the_end", error=about(3.0), verdict="leader", is_final=True)
    text = render_svg(partial(draw_ranking, [long, *BARS]), 3.7, name="narrow")
    assert "a" * 60 not in text and "…the_end" in text


def test_ids_of_two_figures_differ_and_the_same_figure_is_the_same_bytes() -> None:
    first, second, again = (render_svg(FIGURES["ranking"], 7.5, name=name) for name in ("one", "two", "one"))
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in (first, second)]
    assert ids[0] and not ids[0] & ids[1]
    assert set(re.findall(r"#([\w-]+)[\")]", first)) - ids[0] <= set(re.findall(r"#([0-9a-fA-F]{6})", first))
    assert first == again


def test_the_front_has_whom_none_beats_in_both() -> None:
    points = [(float(cost), float(error)) for cost, error in product(range(6), range(6))]
    for more_is_better in (True, False):
        front = find_pareto_points(points, more_is_better=more_is_better)
        best = (5.0, 0.0) if more_is_better else (0.0, 0.0)
        assert [points[i] for i in front] == [best]
    assert find_pareto_points([(1.0, 1.0), (1.0, 1.0)], more_is_better=True) == {0, 1}


@for_each([3.7, 8.8])
def test_names_of_the_front_stay_within_the_figure(width: float) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    bars = [
        ErrorBar(name=f"pocket_simclr_rn_shapes_{place}", error=about(9.0 - place), verdict="tie", is_final=True)
        for place in range(3)
    ]
    drawing = draw_against_cost(bars, (22_300.0, 30_000.0, 43_700.0), width, label="parameters", more_is_better=False)
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()  # type: ignore[no-untyped-call]
    boxes = [text.get_window_extent() for text in drawing.axes[0].texts]
    assert len(boxes) == 3
    assert all(box.x0 >= 0 and box.x1 <= canvas.get_width_height()[0] for box in boxes)
    assert boxes[0].x0 >= drawing.axes[0].bbox.x0


def test_names_cover_no_bar_where_there_is_room_and_the_front_is_drawn_in_steps() -> None:
    bars = [ErrorBar(name=f"encoder_{n}", error=about(12.0 - n), verdict="tie", is_final=True) for n in range(4)]
    drawing = draw_against_cost(bars, (10.0, 30.0, 90.0, 270.0), 8.8, label="parameters", more_is_better=False)
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    names = [text.get_window_extent() for text in axes.texts]
    lines = [line for line in axes.lines if len({*line.get_xdata()}) == 1 and len(line.get_xdata()) == 2]
    assert len(lines) == len(names) == 4
    for line in lines:
        (x, low), (_, high) = axes.transData.transform(line.get_xydata())
        assert not any(one.x0 < x < one.x1 and one.y0 < high and one.y1 > low for one in names)
    (front,) = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert [*front.get_xdata()] == [10.0, 30.0, 90.0, 270.0]


@for_each([3.7, 8.8])
def test_all_of_a_few_encoders_are_named_off_the_steps_of_the_front(width: float) -> None:
    bars = [
        ErrorBar(name=f"pocket_encoder_{n}", error=about(error), verdict="tie", is_final=True)
        for n, error in enumerate((2.1, 3.3, 4.2))
    ]
    drawing = draw_against_cost(bars, (140.0, 30.0, 176.0), width, label="images per second", more_is_better=True)
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    assert {text.get_text() for text in axes.texts} == {bar.name for bar in bars}
    (right, up), (left, low) = axes.transData.transform([(176.0, 4.2), (140.0, 2.1)])
    for box in (text.get_window_extent() for text in axes.texts):
        assert not (box.x0 < left < box.x1 and box.y0 < up and box.y1 > low)
        assert not (box.y0 < up < box.y1 and box.x0 < right and box.x1 > left)
