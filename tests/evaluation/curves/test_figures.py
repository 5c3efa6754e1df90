"""Figures of calibrated learning curves: what is drawn where, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from tests.drawn_curves import SCRATCH, N, curve
from tests.figure_checks import figure_faults
from zoo.cards.schema import Preprocess
from zoo.datasets.dense import align_map
from zoo.errors import QueryError
from zoo.evaluation.curves.data import transfer_data
from zoo.evaluation.curves.figures import (
    PredictionStrip,
    draw_curves,
    draw_strip,
    make_curves_figure,
    make_prediction_strip,
    make_strip_figure,
)
from zoo.evaluation.curves.runs import Control, CurveRun
from zoo.evaluation.drawing import save, use_style

EIGHT = tuple(f"pocket_{method}_shapes" for method in ("a", "b", "c", "d", "e", "f", "g", "h"))
PREPROCESS = Preprocess(resize_px=16, crop_px=16, interpolation="bilinear", mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))


def lines(axes: Axes) -> list[tuple[list[float], list[float]]]:
    """Points of every line with more than two of them."""
    found = [([*map(float, line.get_xdata())], [*map(float, line.get_ydata())]) for line in axes.get_lines()]
    return [one for one in found if len(one[0]) > 2]


def legend(drawing: Drawing) -> list[str]:
    return [text.get_text() for text in drawing.legends[0].get_texts()]


def test_curves_lie_at_their_calibrated_risks_over_labels_and_over_scratch_between_the_controls() -> None:
    one = curve()
    drawing = draw_curves([one])
    left, right = drawing.axes
    expected = [point.calibrated.value for point in one.points]
    assert lines(left) == [([*map(float, N)], pytest.approx(SCRATCH)), ([*map(float, N)], pytest.approx(expected))]
    assert lines(right) == [(pytest.approx(SCRATCH), pytest.approx(expected))]
    assert left.get_xscale() == "log" and [tick.get_text() for tick in left.get_xticklabels()][-1] == "1,000"
    for axes in (left, right):
        assert {1.0, 0.0} <= {float(line.get_ydata()[0]) for line in axes.get_lines() if line.get_xdata()[0] == 0}
    assert any(list(line.get_xdata()) == list(line.get_ydata()) == [0.0, 1.0] for line in right.get_lines())
    assert legend(drawing)[0].startswith("pocket_simclr_rn_shapes: CCI 0.40 [0.3")
    assert legend(drawing)[1:] == ["scratch", "constant baseline", "maximal supervision"]
    single = draw_curves([curve(n=(200,), scratch=(0.5,))])
    assert single.axes[0].get_xlim() == pytest.approx((200 / 3, 600)) and "not identified" in legend(single)[0]


def test_another_architecture_has_a_scratch_of_its_own() -> None:
    drawing = draw_curves([curve(), curve("again", frozen=True), curve("vit", scratch=(1.2, 0.9, 0.7, 0.4, 0.2))])
    assert legend(drawing)[1].startswith("again (frozen): CCI 0.40")
    assert legend(drawing)[3:5] == ["scratch for pocket_simclr_rn_shapes and 1 more", "scratch for vit"]


def test_values_beyond_the_controls_are_in_the_frame_and_huge_intervals_do_not_hide_the_values() -> None:
    low = curve(calibrated=[0.4, 0.2, 0.0, -0.2, -0.5])
    left, _ = draw_curves([low]).axes
    assert left.get_ylim()[0] < -0.5
    assert any(text.get_text() == "better than maximal supervision" for text in left.texts)
    caption = make_curves_figure([low]).caption
    assert "Below 0" in caption and "Above 1" not in caption and "Below 0" not in make_curves_figure([curve()]).caption
    bottom, top = draw_curves([curve(width=200.0)]).axes[0].get_ylim()
    assert -1 < bottom < 0 and 1 < top < 2


@pytest.mark.parametrize("n_curves", [2, 8])
def test_encoders_differ_in_colour_and_mark_and_nothing_overlaps(n_curves: int, tmp_path: Path) -> None:
    figure = make_curves_figure([curve(name, calibrated=[0.5 * one for one in SCRATCH]) for name in EIGHT[:n_curves]])
    with use_style():
        drawing = figure.draw()
        assert figure_faults(drawing) == []
        first = [path.read_bytes() for path in save(figure.draw(), tmp_path / "a")]
        assert [path.read_bytes() for path in save(figure.draw(), tmp_path / "b")] == first
    handles = drawing.legends[0].legend_handles[:n_curves]
    assert len({(one.get_color(), one.get_marker()) for one in handles}) == n_curves  # type: ignore[union-attr]
    assert figure.name == "curves_normals_angular_error" and "side by side" in figure.caption


def test_curves_that_do_not_belong_together_are_refused() -> None:
    for curves in ([], [curve(), curve("other", metric="normals_l1_error")], [curve(), curve()]):
        with pytest.raises(QueryError, match="expected"):
            make_curves_figure(curves)


def run(control: Control, n: int, seed: int | None, value: float, n_channels: int = 1) -> CurveRun:
    examples = np.full((4, n_channels, 16, 16), value, np.float16)
    return CurveRun(control=control, n_requested=n, n_actual=n, seed=seed, risks={}, examples=examples)


def strip(task: str, n_encoders: int = 2, n: tuple[int, ...] = (4, 6)) -> PredictionStrip:
    data = transfer_data("shapes:classes=4,train=8,val=4,size_px=24", task)
    n_channels = data.n_outputs
    runs: dict[tuple[str, Control], list[CurveRun]] = {}
    for name in EIGHT[:n_encoders]:
        runs[name, "encoder"] = [run("encoder", each, seed, each + seed, n_channels) for each in n for seed in (1, 0)]
        runs[name, "scratch"] = [run("scratch", each, 0, 0.1 * each, n_channels) for each in n]
        runs[name, "blind"] = [run("blind", 8, None, 2.5, n_channels)]
        runs[name, "maximal"] = [run("maximal", 8, 0, 3.5, n_channels)]
    found = make_prediction_strip(data, runs, encoders=EIGHT[:n_encoders], preprocess=PREPROCESS, n_images=2)
    assert found is not None and data.test.maps is not None  # type: ignore[union-attr]
    values, valid = align_map(*data.test.maps[1], PREPROCESS)  # type: ignore[union-attr]
    assert np.array_equal(found.columns[0][1][1], values) and np.array_equal(found.valid[1], valid)
    return found


def test_a_strip_has_examples_of_the_first_seed_between_the_controls() -> None:
    found = strip("depth")
    a, b = EIGHT[:2]
    assert [(name, float(maps[0, 0, 0, 0])) for name, maps in found.columns[1:]] == [
        ("constant baseline", 2.5),
        ("scratch\nn = 4", pytest.approx(0.4, abs=1e-3)),
        (f"{a}\nn = 4", 4.0),
        (f"{b}\nn = 4", 4.0),
        ("scratch\nn = 6", pytest.approx(0.6, abs=1e-3)),
        (f"{a}\nn = 6", 6.0),
        (f"{b}\nn = 6", 6.0),
        ("maximal supervision", 3.5),
    ]
    assert found.images.shape == (2, 16, 16, 3) and 0 <= found.images.min() < found.images.max() <= 1
    drawing = draw_strip(found)
    assert len(drawing.axes) == 2 * 10 + 1 and "depth" in drawing.axes[-1].get_xlabel()  # and the colour bar
    data = transfer_data("shapes:classes=4,train=8,val=4,size_px=24", "classification")
    assert make_prediction_strip(data, {}, encoders=["a"], preprocess=PREPROCESS) is None


@pytest.mark.parametrize(("task", "n_encoders"), [("depth", 1), ("normals", 8)])
def test_a_strip_fits_a_page_and_what_is_not_known_is_grey(task: str, n_encoders: int) -> None:
    found = strip(task, n_encoders)
    found.valid[0, :2] = False
    with use_style():
        drawing = draw_strip(found)
    assert figure_faults(drawing) == []
    width, height = drawing.get_size_inches()
    assert width <= 7.01 and height < 10
    truth = np.asarray(drawing.axes[1].images[0].get_array())
    assert np.allclose(truth[:2], 0xBB / 255, atol=1e-6)
    if task == "normals":
        assert truth[5, 7] == pytest.approx((found.columns[0][1][0, :, 5, 7] + 1) / 2, abs=1e-6)
    assert ("red to the right" in make_strip_figure(found).caption) == (task == "normals")
