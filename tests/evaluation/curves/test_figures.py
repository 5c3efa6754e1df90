"""Figures of calibrated learning curves: what is drawn where, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from tests.drawn_curves import SCRATCH, N, curve, strip
from tests.figure_checks import figure_faults
from zoo.cards.schema import Preprocess
from zoo.datasets.dense import aligned
from zoo.datasets.opening import open_dense
from zoo.errors import DataError, QueryError
from zoo.evaluation.curves.figures import (
    curves_figure,
    draw_curves,
    draw_strip,
    legend_handles,
    limits,
    look_of,
    strip_figure,
)
from zoo.evaluation.curves.inputs import transfer_data
from zoo.evaluation.curves.report import strip_of
from zoo.evaluation.curves.runs import CurveRun
from zoo.evaluation.drawing import save, style

EIGHT = tuple(f"pocket_{method}_shapes" for method in ("a", "b", "c", "d", "e", "f", "g", "h"))
PREPROCESS = Preprocess(resize_px=16, crop_px=16, interpolation="bilinear", mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))


def panels(drawing: Drawing) -> tuple[Axes, Axes]:
    left, right = drawing.axes
    return left, right


def lines(axes: Axes) -> list[tuple[list[float], list[float]]]:
    """Points of every line with more than two of them."""
    found = [([*map(float, line.get_xdata())], [*map(float, line.get_ydata())]) for line in axes.get_lines()]
    return [one for one in found if len(one[0]) > 2]


def test_curves_lie_at_their_calibrated_risks_over_labels_and_over_scratch() -> None:
    one = curve()
    left, right = panels(draw_curves([one]))
    expected = [point.calibrated.value for point in one.points]
    assert lines(left) == [([*map(float, N)], pytest.approx(SCRATCH)), ([*map(float, N)], pytest.approx(expected))]
    assert lines(right) == [(pytest.approx(SCRATCH), pytest.approx(expected))]
    assert left.get_xscale() == "log" and [tick.get_text() for tick in left.get_xticklabels()][-1] == "1,000"


def test_controls_are_drawn_in_both_panels_and_scratch_is_the_diagonal() -> None:
    left, right = panels(draw_curves([curve()]))
    for axes in (left, right):
        level = [
            float(line.get_ydata()[0])
            for line in axes.get_lines()
            if list(line.get_xdata()) == [0, 1] and line.get_ydata()[0] == line.get_ydata()[1]
        ]
        assert level == [1.0, 0.0]  # blind guess, maximal supervision
    assert any(list(line.get_xdata()) == list(line.get_ydata()) == [0.0, 1.0] for line in right.get_lines())


def test_no_area_is_shaded_where_scratch_beats_maximal_supervision_for_it_does_not_count() -> None:
    _, right = panels(draw_curves([curve(scratch=(0.95, 0.8, 0.6, 0.35, -0.4), width=None)]))
    (area,) = [one for one in right.collections if one.get_hatch()]
    (box,) = [right.transData.inverted().transform_bbox(one) for one in [area.get_clip_box()] if one is not None]
    assert box.x0 == pytest.approx(0.0, abs=1e-9)


def test_the_legend_has_the_improvement_with_its_interval_and_every_control() -> None:
    texts = [str(handle.get_label()) for handle in legend_handles([curve(), curve("other", width=None, frozen=True)])]
    assert texts[0].startswith("pocket_simclr_rn_shapes: CCI 0.40 [0.3")
    assert texts[1] == "other (frozen): CCI 0.40"
    assert texts[2:] == ["scratch", "blind guess", "maximal supervision"]


def test_another_architecture_has_a_scratch_of_its_own() -> None:
    curves = [curve(), curve("again"), curve("vit", scratch=(1.2, 0.9, 0.7, 0.4, 0.2))]
    texts = [str(handle.get_label()) for handle in legend_handles(curves)]
    assert texts[3:5] == ["scratch for pocket_simclr_rn_shapes and 1 more", "scratch for vit"]
    assert len(lines(panels(draw_curves(curves))[0])) == 5


def test_negative_risks_are_in_the_frame_and_explained() -> None:
    low = curve(calibrated=[0.4, 0.2, 0.0, -0.2, -0.5])
    left, _ = panels(draw_curves([low]))
    assert left.get_ylim()[0] < -0.5
    assert any(text.get_text() == "better than maximal supervision" for text in left.texts)
    caption = curves_figure([low]).caption
    assert "Below 0 the risk is lower than with maximal supervision" in caption and "Above 1" not in caption
    assert "Below 0" not in curves_figure([curve()]).caption


def test_huge_intervals_do_not_press_the_values_together() -> None:
    low, high = limits([curve(width=200.0)])
    assert -1 < low < 0 and 1 < high < 2
    assert curves_figure([curve(width=200.0)]).caption.endswith("Intervals that leave the frame are cut.")
    assert "cut" not in curves_figure([curve()]).caption


def test_a_single_regime_has_points_and_no_improvement() -> None:
    one = curve(n=(200,), scratch=(0.5,))
    left, _ = panels(draw_curves([one]))
    assert left.get_xlim() == pytest.approx((200 / 3, 600))
    assert "CCI not identified" in str(legend_handles([one])[0].get_label())


def test_eight_encoders_differ_in_colour_and_mark() -> None:
    looks = look_of([curve(name) for name in EIGHT])
    assert len({ink for ink, _ in looks.values()}) == len({mark for _, mark in looks.values()}) == 8


@pytest.mark.parametrize("n_curves", [2, 4, 8])
def test_bars_of_encoders_with_as_many_labels_stand_apart_in_both_panels(n_curves: int) -> None:
    curves = [curve(name, calibrated=[0.5 * one for one in SCRATCH]) for name in EIGHT[:n_curves]]
    with style():
        drawing = draw_curves(curves)
    assert figure_faults(drawing) == []
    for axes, bars in zip(panels(drawing), (n_curves > 3, True), strict=True):
        inks = {ink for ink, _ in look_of(curves).values()}
        upright = [
            float(line.get_xdata()[0])
            for line in axes.get_lines()
            if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1] and line.get_color() in inks
        ]
        assert len(upright) == len(set(upright)) == n_curves * len(N) * bars
    left, _ = panels(drawing)
    assert "transfer" not in left.get_ylabel() and "normals angular error" in left.get_ylabel()
    assert "side by side" in curves_figure(curves).caption


def test_a_strip_has_no_title_and_no_small_letters() -> None:
    for task in ("depth", "normals"):
        assert figure_faults(draw_strip(strip(task))) == []


def test_curves_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(QueryError, match="no curve"):
        curves_figure([])
    with pytest.raises(QueryError, match="one metric"):
        draw_curves([curve(), curve("other", metric="normals_l1_error")])
    with pytest.raises(QueryError, match="two curves of 'pocket_simclr_rn_shapes'"):
        curves_figure([curve(), curve()])


def test_a_figure_is_written_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    figure = curves_figure([curve(name) for name in EIGHT[:2]])
    assert figure.name == "curves_normals_angular_error"
    with style():
        first = [path.read_bytes() for path in save(figure.draw(), tmp_path / "a")]
        assert [path.read_bytes() for path in save(figure.draw(), tmp_path / "b")] == first


class TestStrip:
    def test_columns_are_image_truth_and_controls_around_the_numbers_of_labels(self) -> None:
        drawing = draw_strip(strip())
        texts = [text.get_text().replace("\n", "") for text in drawing.texts]
        assert [text for text in texts if text.startswith("n = ")] == ["n = 50", "n = 200", "n = 1,000"]
        names = [text for text in texts if not text.startswith("n = ")]
        assert names[:3] == ["image", "truth", "blind guess"] and names[-1].replace(" ", "") == "maximalsupervision"
        assert names.count("scratch") == 3 == names.count("pocket_simclr_rn_shapes")
        assert len(drawing.axes) == 3 * 10 + 1  # and the colour bar
        assert drawing.axes[-1].get_xlabel() == "depth [half widths of the image]"

    def test_depth_has_one_scale_and_pixels_without_truth_are_grey(self) -> None:
        given = strip()
        shown = [np.asarray(axes.images[0].get_array()) for axes in draw_strip(given).axes[:-1]]
        truth, maximal = shown[3], shown[-3]  # rows of a column follow each other
        assert np.allclose(truth[:2], 0xBB / 255, atol=1e-6) and not np.allclose(maximal[:2], 0xBB / 255, atol=1e-6)
        assert np.array_equal(truth[2:], maximal[2:])  # equal depths, equal colours

    def test_normals_are_colours(self) -> None:
        given = strip("normals")
        drawing = draw_strip(given)
        truth = np.asarray(drawing.axes[3].images[0].get_array())
        assert truth[5, 7] == pytest.approx((given.truth[0, :, 5, 7] + 1) / 2, abs=1e-6)
        assert len(drawing.axes) == 3 * 10  # no colour bar
        assert "red to the right" in strip_figure(given).caption

    @pytest.mark.parametrize(("n_encoders", "n_bands"), [(1, 1), (2, 2), (4, 2), (8, 4)])
    def test_a_strip_is_never_wider_than_a_page(self, n_encoders: int, n_bands: int) -> None:
        n = (50, 1000) if n_encoders > 2 else (50, 200, 1000)
        drawing = draw_strip(strip("normals", n_images=2, encoders=EIGHT[:n_encoders], n=n))
        width, height = drawing.get_size_inches()
        assert width <= 7.01 and height < 10
        assert sum(text.get_text() == "truth" for text in drawing.texts) == n_bands
        right = max(axes.get_position().x1 for axes in drawing.axes)
        bottom = min(axes.get_position().y0 for axes in drawing.axes)
        assert right <= 1 and bottom >= 0

    def test_maps_that_do_not_fit_the_images_are_refused(self) -> None:
        whole = strip()
        with pytest.raises(DataError, match="3 images and 2 maps of truth"):
            type(whole)(**{name: getattr(whole, name) for name in type(whole).__slots__} | {"truth": whole.truth[:2]})


def run(control: str, n: int, seed: int | None, value: float) -> CurveRun:
    return CurveRun(
        control=control,
        n_requested=n,
        n_actual=n,
        seed=seed,
        risks={"depth_l1_error": np.full(4, value, np.float32)},
        examples=np.full((4, 1, 16, 16), value, np.float16),
    )


def test_examples_come_from_the_first_seed_and_from_the_data_as_the_encoder_sees_it() -> None:
    data = transfer_data(open_dense("shapes:classes=4,train=8,val=4,size_px=24", task="depth"), "depth")
    scratch = tuple(run("scratch", n, seed, 0.1 * n) for n in (4, 6) for seed in (1, 0))
    runs = {
        ("a", "encoder"): tuple(run("encoder", n, seed, n + seed) for n in (6, 4) for seed in (1, 0)),
        ("a", "scratch"): scratch, ("b", "scratch"): scratch, ("b", "encoder"): (run("encoder", 4, 0, 9.0),),
        ("a", "blind"): (run("blind", 8, None, 2.5),), ("a", "maximal"): (run("maximal", 8, 0, 3.5),),
    }  # fmt: skip
    found = strip_of(data, runs, encoders=["a", "b"], preprocess=PREPROCESS, n_images=2)
    assert found is not None and found.unit == data.test.unit
    assert [(one.name, one.n, float(one.maps[0, 0, 0, 0])) for one in found.columns] == [
        ("scratch", 4, pytest.approx(0.4, abs=1e-3)), ("a", 4, 4.0), ("b", 4, 9.0),
        ("scratch", 6, pytest.approx(0.6, abs=1e-3)), ("a", 6, 6.0),
    ]  # fmt: skip
    frozen = strip_of(data, runs, encoders=["a", "b"], preprocess=PREPROCESS, n_images=2, frozen=True)
    assert frozen is not None and [one.name for one in frozen.columns[:3]] == ["scratch", "a (frozen)", "b (frozen)"]
    assert found.blind is not None and found.maximal is not None and found.maximal.max() == 3.5
    assert found.images.shape == (2, 16, 16, 3) and 0 <= found.images.min() < found.images.max() <= 1
    values, valid = aligned(*data.test.maps[1], PREPROCESS)
    assert np.array_equal(found.truth[1], values) and np.array_equal(found.valid[1], valid)
    assert len(draw_strip(found).axes) == 2 * 9 + 1


def test_a_classification_has_no_strip() -> None:
    data = transfer_data("shapes:classes=4,train=8,val=4,size_px=24", "classification")
    assert strip_of(data, {}, encoders=["a"], preprocess=PREPROCESS) is None
