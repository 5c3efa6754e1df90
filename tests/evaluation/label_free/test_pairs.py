"""Alignment and uniformity are means over pairs, each of them once, and keep the digits of features that are close."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import pairs
from zoo.evaluation.label_free.catalogue import compute
from zoo.evaluation.label_free.pairs import alignment, contrast, uniformity


def drawn(n: int = 30, q: int = 4, dim: int = 7, *, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, 1, dim)) + 0.5 * generator.normal(size=(n, q, dim)) + 0.3


def unit(z: np.ndarray) -> np.ndarray:
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


def by_torch(z: np.ndarray, t: float = 2.0) -> float:
    """As the paper prints it."""
    points = torch.nn.functional.normalize(torch.from_numpy(z).double(), dim=-1)
    return float(torch.pdist(points, p=2).pow(2).mul(-t).exp().mean().log())


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("q", [2, 5])
def test_alignment_is_the_mean_over_pairs_of_views(q: int, alpha: float, normalise: bool) -> None:
    z = drawn(q=q)
    views = unit(z) if normalise else z
    lengths = [np.linalg.norm(image[a] - image[b]) for image in views for a, b in itertools.combinations(range(q), 2)]
    found = alignment(z, alpha=alpha, normalise=normalise)
    assert found == pytest.approx(np.mean(np.array(lengths) ** alpha), rel=1e-12)


def test_two_views_are_aligned_as_appendix_f6_computes_it() -> None:
    z = torch.from_numpy(drawn(q=2))
    assert alignment(z, normalise=False) == pytest.approx(
        float((z[:, 0] - z[:, 1]).norm(dim=-1).pow(2).mean()), rel=1e-12
    )


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_alignment_takes_views_in_any_order_and_number(alpha: float) -> None:
    rows, ids = drawn().reshape(-1, 7), np.repeat(np.arange(30), 4)
    order = np.random.default_rng(2).permutation(len(rows))
    assert alignment(rows[order], ids[order], alpha=alpha) == pytest.approx(alignment(drawn(), alpha=alpha), rel=1e-12)
    order = order[(order % 4 > 1) | (order < 60)]  # two views of half of the images
    means = []
    for image in np.unique(ids[order]):
        own = unit(rows[order][ids[order] == image])
        means.append(np.mean([np.linalg.norm(a - b) ** alpha for a, b in itertools.combinations(own, 2)]))
    assert alignment(rows[order], ids[order], alpha=alpha) == pytest.approx(np.mean(means), rel=1e-12)


@pytest.mark.parametrize("power", [-150, -20, 20, 150])
def test_alignment_of_features_of_any_size(power: int) -> None:
    z = drawn() * 10.0**power
    assert alignment(z) == pytest.approx(alignment(drawn()), rel=1e-12)
    assert alignment(z, normalise=False) == pytest.approx(alignment(drawn(), normalise=False) * 100.0**power, rel=1e-12)


def test_views_that_do_not_differ_are_aligned() -> None:
    z = drawn()[:, :1].repeat(3, axis=1)
    assert alignment(z, normalise=False) == 0.0
    assert alignment(z, alpha=1.0) == 0.0


@pytest.mark.parametrize("block", [7, 64, 2048])
@pytest.mark.parametrize("t", [0.5, 2.0, 30.0])
def test_uniformity_is_what_pdist_gives(t: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    z = drawn().reshape(-1, 7)
    monkeypatch.setattr(pairs, "_BLOCK_ROWS", block)
    assert uniformity(z, t=t) == pytest.approx(by_torch(z, t), rel=1e-10)


def test_uniformity_of_a_simplex() -> None:
    assert uniformity(np.eye(9)) == pytest.approx(-4.0, rel=1e-14)
    assert uniformity([[1.0], [-1.0]], t=1000.0) == pytest.approx(-4000.0, rel=1e-14)


@pytest.mark.parametrize("metric", [uniformity, lambda z: alignment(z[None].repeat(2, axis=0))])
def test_features_that_never_differ_are_refused_not_praised(metric: Any) -> None:
    with pytest.raises(DataError, match="collapsed to a point"):
        metric(np.ones((5, 3)))


def test_uniformity_does_not_depend_on_order_scale_or_rotation() -> None:
    z = drawn().reshape(-1, 7)
    generator = np.random.default_rng(4)
    rotation = np.linalg.qr(generator.normal(size=(7, 7)))[0]
    changed = generator.permutation(z)[::-1] @ rotation * 1e-12
    assert uniformity(changed) == pytest.approx(uniformity(z), rel=1e-12)


def close(distance: float, *, n: int = 120, dim: int = 9) -> np.ndarray:
    generator = np.random.default_rng(1)
    return unit(generator.normal(size=dim)) + distance * generator.normal(size=(n, dim)) / dim**0.5


def exactly(z: np.ndarray, t: float = 2.0) -> float:
    """With differences of pairs in float64, and numbers near 1 less 1."""
    points = unit(z.astype(np.float64))
    first, second = np.triu_indices(len(z), 1)
    squared = ((points[first] - points[second]) ** 2).sum(axis=1)
    return math.log1p(float(np.mean(np.expm1(-t * squared))))


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("single", [False, True])
def test_features_that_lie_close_together_keep_their_digits(
    distance: float, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = close(distance).astype(np.float32 if single else np.float64)
    monkeypatch.setattr(pairs, "_FLOAT32_FROM", 0 if single else math.inf)
    expected = exactly(z)
    assert uniformity(z) == pytest.approx(expected, rel=1e-6 if single else 1e-9)
    points = torch.nn.functional.normalize(torch.from_numpy(z.astype(np.float32)), dim=1)
    by_cosine = float((2 * (points @ points.T) - 2).mul(2).exp().mean().log())
    assert distance > 1e-4 or abs(by_cosine / expected - 1) > 1e-3  # the way that loses them


def test_two_tight_clusters_and_an_outlier_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_FLOAT32_FROM", 0)
    clusters = np.concatenate([close(1e-4), -close(1e-4), close(1e-3)[:, ::-1]]).astype(np.float32)
    assert uniformity(clusters) == pytest.approx(exactly(clusters), rel=1e-6)
    outlier = np.concatenate([close(1e-5), -close(1e-5)[:1]]).astype(np.float32)
    assert uniformity(outlier) == pytest.approx(exactly(outlier), rel=1e-6)


def test_features_that_are_not_normalised_may_be_far_apart() -> None:
    z = drawn().reshape(-1, 7)
    squared = torch.pdist(torch.from_numpy(z)).square().numpy()
    for t in (2.0, 300.0):
        expected = np.logaddexp.reduce(-t * squared) - math.log(len(squared))
        assert uniformity(z, t=t, normalise=False) == pytest.approx(expected, rel=1e-12)


def test_contrast_adds_alignment_to_the_uniformity_of_different_images() -> None:
    z = drawn()
    found = contrast(z, alpha=1.0, t=3.0)
    rows, ids = unit(z.reshape(-1, 7)), np.repeat(np.arange(30), 4)
    first, second = np.triu_indices(len(rows), 1)
    different = ids[first] != ids[second]
    squared = ((rows[first] - rows[second]) ** 2).sum(axis=1)[different]
    assert found.uniformity == pytest.approx(np.log(np.exp(-3 * squared).mean()), rel=1e-12)
    assert found.alignment == alignment(z, alpha=1.0)
    assert found.value == found.alignment + found.uniformity
    assert (found.n_images, found.n_views) == (30, (4, 4))
    order = np.random.default_rng(2).permutation(len(rows))
    assert contrast(rows[order], ids[order], alpha=1.0, t=3.0).value == pytest.approx(found.value, rel=1e-12)


@pytest.mark.parametrize("t", [2.0, 100.0])
@pytest.mark.parametrize("block", [7, 2048])
def test_contrast_leaves_pairs_of_one_image_out_of_blocks_of_any_size(
    t: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    z = drawn()
    expected = contrast(z, t=t)
    monkeypatch.setattr(pairs, "_BLOCK_ROWS", block)
    assert contrast(z, t=t).value == pytest.approx(expected.value, rel=1e-12)
    one_view = uniformity(z[:, 0], t=t), uniformity(z[:, 1], t=t)
    assert contrast(z, t=2.0).uniformity == pytest.approx(contrast(z[:, :2], t=2.0).uniformity, rel=0.1)
    assert min(one_view) < 0


def test_the_catalogue_computes_them() -> None:
    z = drawn()
    assert compute("alignment", z=z).value == alignment(z)
    assert compute("uniformity", z=z[:, 0]).value == uniformity(z[:, 0])
    assert compute("contrast", z=z).value == contrast(z).value


WITH_A_ZERO = np.concatenate([np.eye(4), np.zeros((1, 4)), np.eye(4)])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: uniformity(WITH_A_ZERO), "Row 4 of z is all 0"),
        (lambda: alignment(WITH_A_ZERO[:8].reshape(4, 2, 4)), "Row 4 of z is all 0"),
        (lambda: alignment(WITH_A_ZERO, [0, 0, 0, 1, 1, 1, 2, 2, 2]), "Row 4 of z is all 0"),
        (lambda: contrast(WITH_A_ZERO, [0, 0, 0, 1, 1, 1, 2, 2, 2]), "Row 4 of z is all 0"),
        (lambda: uniformity(np.ones((1, 3))), "needs at least 2"),
        (lambda: uniformity(np.full((3, 3), np.nan)), "NaN or infinity"),
        (lambda: uniformity(np.eye(3) * 1e200, normalise=False), "overflow float64"),
        (lambda: alignment(drawn() * 1e200, normalise=False), "overflow float64"),
        (lambda: alignment(drawn(q=1)), "one view only"),
        (lambda: alignment(drawn(n=1)), "at least 2 images"),
        (lambda: contrast(drawn().reshape(-1, 7), [1, 2]), "expected one label for each of the 120 rows"),
    ],
)
def test_what_has_no_value_is_refused_in_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [0.0, -1.0, math.nan, math.inf])
def test_powers_and_temperatures_are_above_0(number: float) -> None:
    for call in (
        lambda: alignment(drawn(), alpha=number),
        lambda: uniformity(np.eye(3), t=number),
        lambda: contrast(drawn(), t=number),
    ):
        with pytest.raises(QueryError, match="expected a finite number above 0"):
            call()
