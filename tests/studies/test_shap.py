"""Drawing SHAP values, on made-up arrays: every encoder is a point, and colours mean what they say."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from matplotlib.axes import Axes

from zoo.evaluation.drawing import MODE_COLOURS, new_figure, style
from zoo.studies.shap import (
    MISSING,
    OTHER,
    OTHER_COLOUR,
    NumberColours,
    Swarm,
    ValueColours,
    beeswarm,
    colours_for,
    explain_colours,
    importance_bars,
    number_colours,
    short,
    spread,
    value_colours,
)

RNG = np.random.default_rng(0)
DIMENSIONS = [384.0, 768.0, 2048.0, 8192.0] * 10
SWARMS = [Swarm(label, RNG.normal(0, 0.2, 40).tolist(), DIMENSIONS) for label in ("Usability", "3-shot error")]


def points(axes: Axes) -> np.ndarray:
    return np.concatenate([np.asarray(collection.get_offsets()) for collection in axes.collections])


def colours_drawn(axes: Axes) -> set[str]:
    from matplotlib.colors import to_hex

    return {
        to_hex(row, keep_alpha=False).upper() for collection in axes.collections for row in collection.get_facecolors()
    }


def test_every_encoder_is_one_point_of_its_row() -> None:
    _, (axes,) = new_figure()
    beeswarm(axes, SWARMS, number_colours(DIMENSIONS))
    found = points(axes)
    assert len(found) == 80
    assert sorted(found[found[:, 1] < 0.5][:, 0]) == pytest.approx(sorted(SWARMS[0].x))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Usability", "3-shot error"]
    assert axes.get_ylim() == (1.5, -0.5)  # the first row is on top


def test_an_uncut_axis_holds_every_point_and_zero() -> None:
    _, (axes,) = new_figure()
    beeswarm(axes, [Swarm("row", [3.0, 4.0], ["a", "b"])], value_colours(["a", "b"]))
    low, high = axes.get_xlim()
    assert low < 0 < 4.0 < high < 5


def test_points_beyond_the_limit_are_drawn_at_the_border() -> None:
    swarms = [Swarm("row", [-2.0, -0.1, 0.0, 0.7, 0.71], [1.0, 2.0, 3.0, 4.0, 5.0])]
    _, (axes,) = new_figure()
    beeswarm(axes, swarms, number_colours(swarms[0].choices), limit=0.7)
    assert axes.get_xlim() == pytest.approx((-0.728, 0.728))  # triangles at the border are whole
    assert sorted(points(axes)[:, 0]) == pytest.approx([-0.7, -0.1, 0.0, 0.7, 0.7])
    assert len(axes.collections) == 3  # circles, and triangles to either side


def test_points_at_one_place_move_apart_within_their_row_and_always_alike() -> None:
    x = np.zeros(60)
    moves = spread(x, width=0.1)
    assert len(set(moves.round(9))) == 60 and abs(moves).max() <= 0.43
    assert np.array_equal(moves, spread(x, width=0.1))
    assert spread(np.arange(5.0), width=0.1).tolist() == [0.0] * 5


def test_ticks_of_colours_are_numbers_that_occur() -> None:
    colours = number_colours(DIMENSIONS)
    assert colours.log and set(colours.ticks) <= set(DIMENSIONS)
    assert colours.ticks[0] == 384 and colours.ticks[-1] == 8192
    many = number_colours(list(range(1, 500)))
    assert 3 <= len(many.ticks) <= 8


def test_numbers_at_or_below_zero_get_a_linear_scale() -> None:
    assert not number_colours([0.0, 10.0, 1000.0]).log
    one = number_colours([5.0, 5.0])
    assert one.low < 5 < one.high and one.ticks == (5.0,)


def test_missing_choices_are_grey_and_the_key_says_so() -> None:
    swarm = Swarm("row", [0.1, 0.2, 0.3], [384.0, math.nan, 2048.0])
    drawing, (axes,) = new_figure()
    colours = colours_for(swarm.choices)
    assert isinstance(colours, NumberColours)
    beeswarm(axes, [swarm], colours)
    assert MISSING in colours_drawn(axes)
    explain_colours(drawing, axes, colours, [swarm], label="dimensions")
    (bar,) = [one for one in drawing.axes if one is not axes]
    assert bar.get_xlabel() == "dimensions (grey: missing)"
    assert [label.get_text() for label in bar.get_xticklabels()] == ["384", "2048"]


def test_a_value_keeps_its_known_colour_and_the_legend_lists_every_value() -> None:
    choices = ["contrastive"] * 3 + ["mine"] * 2 + [math.nan]
    swarm = Swarm("row", [0.1 * place for place in range(6)], choices)
    colours = colours_for(choices, MODE_COLOURS)
    assert isinstance(colours, ValueColours)
    assert colours.by_value["contrastive"] == MODE_COLOURS["contrastive"]
    assert colours.by_value["mine"] not in (MODE_COLOURS["contrastive"], MISSING)
    drawing, (axes,) = new_figure()
    beeswarm(axes, [swarm], colours)
    explain_colours(drawing, axes, colours, [swarm])
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["contrastive", "mine", "missing"]


def test_rare_values_share_one_colour() -> None:
    choices = [letter for place, letter in enumerate("abcdefghijkl") for _ in range(20 - place)]
    colours = value_colours(choices)
    assert list(colours.by_value) == [*"abcdefg", OTHER]
    assert colours.by_value[OTHER] == OTHER_COLOUR
    assert len(set(colours.by_value.values())) == 8


def test_bars_show_the_largest_first_with_their_numbers() -> None:
    _, (axes,) = new_figure()
    means = {f"feature {place}": float(place) for place in range(12)}
    importance_bars(axes, means, {"feature 11": "representation dimensions"}, n_features=5)
    assert [bar.get_width() for bar in axes.patches] == [11.0, 10.0, 9.0, 8.0, 7.0]
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["representation dimensions", "feature 10"]
    assert {"11.0", "7.0"} <= {text.get_text() for text in axes.texts}


@pytest.mark.parametrize(
    ("number", "text"), [(384, "384"), (86016, "86016"), (632e6, "632M"), (22e6, "22M"), (0.1, "0.1")]
)
def test_ticks_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_the_same_swarms_give_the_same_picture() -> None:
    def picture() -> bytes:
        file = io.BytesIO()
        with style():
            drawing, (axes,) = new_figure()
            beeswarm(axes, SWARMS, number_colours(DIMENSIONS), limit=0.3)
            explain_colours(drawing, axes, number_colours(DIMENSIONS), SWARMS, below=False)
            drawing.savefig(file, format="png", metadata={"Software": None})
        return file.getvalue()

    first = picture()
    assert len(first) > 1000 and first == picture()
