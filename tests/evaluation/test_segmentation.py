"""Probes on maps: planted masks and depth, the minimum against plain PyTorch, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from zoo.datasets import shapes
from zoo.datasets.dense import Maps, MapSet, add_geometry
from zoo.errors import DataError
from zoo.evaluation import segmentation_solver as solver
from zoo.evaluation.segmentation import (
    DepthProbe,
    MaskReader,
    SegmentationProbe,
    evaluate_map_probe,
)
from zoo.evaluation.segmentation_metrics import (
    DepthResult,
    SegmentationResult,
    compare_results,
    compute_boundary_f1,
    measure_depth_errors,
)
from zoo.features import Features, Origin
from zoo.features.maps import MapGrid

GRID = MapGrid(rows=4, columns=5, channels=6)
CLASSES = ("sky", "road", "tree")


def planted(n: int, *, seed: int, noise: float = 0.3, grid: MapGrid = GRID, px: int = 8) -> tuple[Any, Any, Any]:
    """Maps whose first channels say the class of a place, its masks at ``px`` pixels per place, and a depth."""
    random = np.random.default_rng(seed)
    of_place = random.integers(0, 3, (n, grid.rows, grid.columns))
    x = noise * random.standard_normal((n, grid.rows, grid.columns, grid.channels))
    x[..., :3] += np.eye(3)[of_place]
    labels = of_place.repeat(px, axis=1).repeat(px, axis=2)
    valid = np.ones(labels.shape, bool)
    masks = [(one, ok) for one, ok in zip(labels, valid, strict=True)]
    depth = (2 + x[..., 0] - 0.5 * x[..., 4]).astype(np.float32).repeat(px, axis=1).repeat(px, axis=2)
    return x.reshape(n, -1).astype(np.float32), masks, [(one, np.ones(one.shape, bool)) for one in depth]


def featured(x: Any, split: str = "train", **known: Any) -> Features:
    unknown: dict[str, Any] = dict.fromkeys(("weights_hash", "preprocess_hash", "code_version"), "")
    origin = Origin(
        encoder="planted",
        dataset="planted",
        split=split,
        images_hash=split,
        representation="map:1 4x5x6",
        precision="float32",
        **unknown,
    )
    return Features(x=x, y=np.zeros(len(x), np.int64), origin=origin, **known)


def test_classes_that_places_say_are_found_and_the_interval_holds_the_value() -> None:
    x, masks, _ = planted(60, seed=0, noise=0.1)
    x_test, test_masks, _ = planted(40, seed=1, noise=0.1)
    probe = SegmentationProbe(GRID, n_classes=3).fit(x, masks)
    found = evaluate_map_probe(probe, featured(x), featured(x_test, "val"), test_masks, classes=CLASSES)
    miou = found.metrics["miou"]
    assert miou.value > 80  # the rest is where upsampled logits cross, between places
    assert miou.ci_low is not None and miou.ci_high is not None and miou.ci_low < miou.value < miou.ci_high
    assert {"iou sky", "iou road", "iou tree"} <= found.metrics.keys()


def test_maps_that_say_nothing_leave_the_commonest_class() -> None:
    x, masks, _ = planted(60, seed=0)
    noise = np.random.default_rng(5).standard_normal(x.shape).astype(np.float32)
    rare = [(np.where(labels == 2, 2, 0), valid) for labels, valid in masks]
    probe = SegmentationProbe(GRID, n_classes=3).fit(noise, rare)
    assert (probe.predict(noise) == 0).mean() > 0.95


def test_balanced_classes_name_the_rare_one_more_often() -> None:
    x, masks, _ = planted(60, seed=0, noise=1.0)
    rare = [(np.where((labels == 2) & (np.arange(40) < 8), 2, 0), valid) for labels, valid in masks]
    counts = [
        (SegmentationProbe(GRID, n_classes=3, balanced=one).fit(x, rare).predict(x) == 2).mean()
        for one in (False, True)
    ]
    assert counts[1] > 2 * counts[0]


def test_pixels_that_are_ignored_change_nothing() -> None:
    x, masks, _ = planted(30, seed=0)
    other = [
        (np.where(np.arange(40) < 20, labels, 2 - labels), np.broadcast_to(np.arange(40) < 20, labels.shape))
        for labels, _ in masks
    ]
    wild = [(np.where(valid, labels, 7), valid) for labels, valid in other]
    one, two = (SegmentationProbe(GRID, n_classes=3).fit(x, some) for some in (other, wild))
    assert np.array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("kind", ["masks", "depth"])
def test_the_scale_of_a_channel_and_a_dead_one_do_not_matter(kind: str) -> None:
    x, masks, depth = planted(40, seed=0)
    scaled = x.reshape(-1, GRID.channels) * np.float32([1, 1, 1, 1000, 0.001, 1])
    scaled[:, 5] = 7
    plain = x.reshape(-1, GRID.channels).copy()
    plain[:, 5] = 0
    one, two = (
        (
            SegmentationProbe(GRID, n_classes=3).fit(some, masks)
            if kind == "masks"
            else DepthProbe(GRID).fit(some, depth)
        )
        for some in (plain.reshape(40, -1), scaled.reshape(40, -1))
    )
    assert one.report_["penalty"] == two.report_["penalty"]
    found, other = (
        np.stack([*probe.iterate_logits(some.reshape(40, -1))]) for probe, some in ((one, plain), (two, scaled))
    )
    np.testing.assert_allclose(found, other, atol=1e-2 * np.abs(found).max())


def test_two_layers_are_read_side_by_side_and_the_coarser_one_is_upsampled() -> None:
    x, masks, _ = planted(40, seed=0)
    coarse = MapGrid(rows=2, columns=2, channels=3, has_class_token=True)
    more = np.random.default_rng(0).standard_normal((40, 5 * 3)).astype(np.float32)
    stacked = solver.LayeredMaps([x, more], [GRID, coarse])
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(more[:, 3:].reshape(40, 2, 2, 3)).permute(0, 3, 1, 2), size=(4, 5), mode="bilinear"
    )
    assert torch.allclose(stacked.read(slice(0, 40))[..., 6:], wanted.permute(0, 2, 3, 1), atol=1e-6)
    assert SegmentationProbe([GRID, coarse], n_classes=3).fit([x, more], masks).coef_.shape == (3, 9)


def test_interpolation_is_that_of_torch_and_gathering_its_transpose() -> None:
    maps = torch.randn(2, 4, 5, 3, generator=torch.Generator().manual_seed(0))
    for size in ((8, 10), (7, 13), (3, 2)):
        wanted = torch.nn.functional.interpolate(maps.permute(0, 3, 1, 2), size=size, mode="bilinear")
        found = solver.interpolate_maps(maps, size)
        assert torch.allclose(found.permute(0, 3, 1, 2), wanted, atol=1e-5)
        assert torch.allclose(solver.interpolate_maps(maps, size, rows=slice(1, 3)), found[:, 1:3], atol=1e-6)
        other = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
        assert torch.isclose((found * other).sum(), (maps * solver.gather_maps(other, (4, 5))).sum(), atol=1e-3)


def test_gradient_and_loss_are_those_of_autograd() -> None:
    x, masks, _ = planted(12, seed=3)
    maps, images = solver.LayeredMaps(x, GRID), np.arange(12)
    cells = solver.count_cell_classes(masks, images.tolist(), (8, 10), 3)
    basis = solver.compute_place_basis(maps, images)
    weights = np.array([1.0, 2.0, 0.5], np.float32)
    problem = solver.SoftmaxProblem(maps=maps, basis=basis, images=images, cells=cells, of_class=weights)
    head = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bias = torch.randn(3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    logits = ((maps.read(slice(0, 12)) - basis.mean) @ basis.vectors) @ head + bias
    log_p = torch.log_softmax(solver.interpolate_maps(logits, (8, 10)), dim=3)
    shares = torch.from_numpy(np.stack([np.eye(3)[labels[2::4, 2::4]] for labels, _ in masks])).float()
    wanted = shares * torch.from_numpy(weights)  # a cell of these masks is of one class
    loss = -(wanted * log_p).sum() / wanted.sum()
    loss.backward()
    found, of_head, of_bias = problem.evaluate(solver.MapHead(head=head.detach(), bias=bias.detach()))
    assert found == pytest.approx(loss.item(), rel=1e-5)
    assert head.grad is not None and torch.allclose(of_head, head.grad, atol=1e-5)
    assert bias.grad is not None and torch.allclose(of_bias, bias.grad, atol=1e-5)


def test_blocks_and_maps_on_disk_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    x, masks, _ = planted(40, seed=0)
    whole = SegmentationProbe(GRID, n_classes=3).fit(x, masks).predict_proba(x)
    monkeypatch.setattr(solver, "BLOCK_BYTES", 1)
    streamed = SegmentationProbe(GRID, n_classes=3, memory_bytes=0).fit(x, masks).predict_proba(x)
    assert np.abs(whole - streamed).max() < 0.02  # both ended at a decrease of 1e-4


def test_a_mask_smaller_than_the_cells_and_one_of_another_size_are_read() -> None:
    tiny = [(np.array([[0, 1]]), np.ones((1, 2), bool)), (np.eye(9, dtype=int), np.ones((9, 9), bool))]
    cells = solver.count_cell_classes(tiny, [0, 1], (4, 4), 2)
    assert cells.sum_by_class(np.array([0])).tolist() == [8.0, 8.0]
    assert cells.sum_by_class(np.array([1])).sum() == pytest.approx(16)


def test_depth_that_places_say_is_found_in_its_unit() -> None:
    x, _, depths = planted(60, seed=0, px=1)
    x_test, _, test_depths = planted(30, seed=1, px=1)
    how: dict[str, Any] = {"unit": "metres", "n_draws": 200}
    probe = DepthProbe(GRID).fit(x, depths)
    found = evaluate_map_probe(probe, featured(x), featured(x_test, "val"), test_depths, **how)
    assert found.values["rmse"] < 0.02 and found.values["within_ratio"] > 99
    away = DepthProbe(GRID, penalties=(1e6,)).fit(x, depths).predict(x_test)
    assert np.ptp(away) < 0.01  # the mean of all


def test_groups_are_on_one_side_of_the_choice() -> None:
    fit, tuning = SegmentationProbe(GRID, n_classes=3)._divide(12, np.arange(12) // 3)
    assert not {*(fit // 3)} & {*(tuning // 3)} and len(fit) + len(tuning) == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": np.zeros((4, 7), np.float32)}, "expected \\(4, 120\\)"),
        ({"masks": [(np.full((4, 5), 9), np.ones((4, 5), bool))] * 4}, "holds the class 9"),
        ({"masks": [(np.zeros((4, 5), int), np.zeros((4, 5), bool))] * 4}, "No pixel"),
        ({"masks": [(np.zeros((4, 5), int), np.ones((4, 5), bool))] * 5}, "maps of 4 images and 5 masks"),
        ({"x": np.full((4, 120), np.nan, np.float32)}, "NaN"),
        ({"x": np.ones((4, 120), np.float32)}, "alike"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_a_sentence(change: dict[str, Any], said: str) -> None:
    x, masks, _ = planted(4, seed=0)
    given = {"x": x, "masks": masks} | change
    with pytest.raises(DataError, match=said):
        SegmentationProbe(GRID, n_classes=3).fit(given["x"], given["masks"])


def test_masks_are_read_at_their_own_size_where_images_are_squashed_and_else_as_cropped() -> None:
    data = add_geometry(shapes(train=20, val=20, size_px=48), task="depth").train
    about = zoo.card("pocket_init_vit").preprocess
    wide = MapSet(
        images=data.images,
        maps=Maps(lambda i: (np.ones((20, 60, 1), np.float32), np.ones((20, 60), bool)), np.arange(20)),
        task="segmentation",
        unit="",
        fingerprint="",
    )
    assert MaskReader(wide, replace(about, fit="squash"))[0][0].shape == (20, 60)
    labels, valid = MaskReader(wide, about)[0]
    assert labels.shape == (32, 32) and labels.dtype == np.int64 and valid.all()


def result(counts: Any, **known: Any) -> SegmentationResult:
    """Of pixels in both, in the prediction and in the mask, (n, 3, k)."""
    n, _, k = np.shape(counts)
    sums = np.concatenate([np.reshape(counts, (n, 3 * k)), np.zeros((n, 2))], axis=1)
    classes = CLASSES[:k]
    return SegmentationResult(
        name=known.pop("name", "one"), sums=sums, classes=classes, confusion=np.zeros((k, k), np.int64), **known
    )


def test_the_mean_is_over_the_classes_of_the_test_masks_with_pixels_of_all_images_together() -> None:
    found = result([[[4, 0, 0], [6, 1, 1], [8, 0, 0]], [[0, 2, 0], [2, 2, 0], [0, 4, 0]]])
    assert found.values["iou sky"] == pytest.approx(100 * 4 / 12)  # 4 in both, 8 predicted, 8 in masks
    assert found.values["miou"] == pytest.approx((100 * 4 / 12 + 100 * 2 / 5) / 2)
    assert "iou tree" not in found.values
    assert found.values["pixel_accuracy"] == pytest.approx(50)
    assert found.image_ious.tolist() == pytest.approx([40, 50])


def test_differences_are_paired_by_image() -> None:
    random = np.random.default_rng(0)
    inside = random.integers(10, 90, (50, 1))
    worse = np.maximum(inside - 2, 0)
    one, other = (
        result(np.stack([some, np.full((50, 1), 100), np.full((50, 1), 100)], axis=1), name=name)
        for some, name in ((inside, "one"), (worse, "other"))
    )
    behind = compare_results([one, other], "miou")["other"]
    alone = one.metrics["miou"]
    assert behind.ci_low is not None and behind.ci_high is not None and behind.ci_low > 0
    assert alone.ci_low is not None and alone.ci_high is not None
    assert behind.ci_high - behind.ci_low < 0.2 * (alone.ci_high - alone.ci_low)


def test_groups_widen_an_interval_and_a_class_in_few_images_has_a_wide_one() -> None:
    random = np.random.default_rng(0)
    of_group = random.integers(10, 90, 12).repeat(10)
    counts = np.stack([of_group, np.full(120, 100), np.full(120, 100)], axis=1)[:, :, None]
    apart, together = (result(counts, groups=one).metrics["miou"] for one in (None, np.arange(120) // 10))
    assert together.ci_high - together.ci_low > 2 * (apart.ci_high - apart.ci_low)  # type: ignore[operator]
    rare = np.concatenate([counts, np.zeros_like(counts)], axis=2)
    rare[:3, :, 1] = [[20, 100, 100], [50, 100, 100], [70, 100, 100]]
    iou = result(rare).metrics["iou road"]
    assert iou.ci_low is not None and iou.ci_high is not None and iou.ci_high - iou.ci_low > 30


def test_boundaries_within_the_tolerance_are_right_and_ignored_pixels_have_none() -> None:
    labels = (np.arange(100)[None] >= 50).repeat(100, axis=0).astype(int)
    valid = np.ones(labels.shape, bool)
    assert compute_boundary_f1(np.roll(labels, 2, axis=1) * (np.arange(100) > 5), labels, valid) == 1.0
    assert compute_boundary_f1((np.arange(100)[None] >= 60).repeat(100, axis=0), labels, valid) == 0.0
    assert compute_boundary_f1(np.zeros_like(labels), labels, valid) == 0.0
    ignored = valid & (np.abs(np.arange(100) - 50) > 3)
    assert np.isnan(compute_boundary_f1(labels, labels, ignored))


def test_errors_of_depth_are_those_of_all_pixels_and_relative_ones_need_positive_depth() -> None:
    depth, predicted, valid = np.array([[2.0, 4.0]]), np.array([[2.2, 2.0]]), np.ones((1, 2), bool)
    sums = measure_depth_errors(predicted, depth, valid)[None].repeat(3, axis=0)
    found = DepthResult(name="one", sums=sums, unit="m")
    assert found.values["rmse"] == pytest.approx((4.04 / 2) ** 0.5)
    assert found.values["absolute_relative"] == pytest.approx((0.1 + 0.5) / 2)
    assert found.values["within_ratio"] == 50
    assert DepthResult(name="one", sums=sums, is_positive=False).values.keys() == {"rmse"}
