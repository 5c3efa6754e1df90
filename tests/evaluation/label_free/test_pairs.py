"""Alignment, uniformity and contrast are means over pairs, and keep the digits of features that are close."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import scatter
from zoo.evaluation.label_free.scatter import alignment, contrast, uniformity


def drawn(n: int = 30, q: int = 4, dim: int = 7) -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(n, 1, dim)) + 0.5 * generator.normal(size=(n, q, dim)) + 0.3


def unit(z: np.ndarray) -> np.ndarray:
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("alpha", [0.5, 2.0, 3.0])
def test_alignment_is_the_mean_over_pairs_of_views(alpha: float, normalise: bool) -> None:
    for q in (2, 5):
        z = drawn(q=q)
        views, pairs = unit(z) if normalise else z, list(itertools.combinations(range(q), 2))
        lengths = [np.linalg.norm(image[a] - image[b]) for image in views for a, b in pairs]
        found = alignment(z, alpha=alpha, normalise=normalise)
        assert found == pytest.approx(np.mean(np.array(lengths) ** alpha), rel=1e-12)
    rows, ids = drawn().reshape(-1, 7), np.repeat(np.arange(30), 4)
    order = np.random.default_rng(2).permutation(len(rows))
    order = order[(order % 4 > 1) | (order < 60)]  # two views of half of the images
    means = []
    for image in np.unique(ids[order]):
        own = unit(rows[order][ids[order] == image])
        means.append(np.mean([np.linalg.norm(a - b) ** alpha for a, b in itertools.combinations(own, 2)]))
    assert alignment(rows[order], ids[order], alpha=alpha) == pytest.approx(np.mean(means), rel=1e-12)


def test_scale_rotation_and_order_change_nothing() -> None:
    z, generator = drawn(), np.random.default_rng(4)
    turn = np.linalg.qr(generator.normal(size=(7, 7)))[0]
    for scale in (1e-60, 1e60):
        assert alignment(z * scale) == pytest.approx(alignment(z), rel=1e-12)
        assert alignment(z * scale, normalise=False) == pytest.approx(
            alignment(z, normalise=False) * scale**2, rel=1e-12
        )
        rows = z.reshape(-1, 7)
        assert uniformity(generator.permutation(rows) @ turn * scale) == pytest.approx(uniformity(rows), rel=1e-12)
    assert alignment(z[:, :1].repeat(3, axis=1), alpha=1.0) == 0.0


def exactly(z: np.ndarray, t: float = 2.0) -> float:
    """With differences of pairs in float64, and numbers near 1 less 1."""
    points = unit(z.astype(np.float64))
    first, second = np.triu_indices(len(z), 1)
    squared = ((points[first] - points[second]) ** 2).sum(axis=1)
    return math.log1p(float(np.mean(np.expm1(-t * squared))))


@pytest.mark.parametrize("block", [7, 2048])
def test_uniformity_and_contrast_are_over_pairs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter, "_BLOCK_ROWS", block)
    z = drawn()
    rows, ids = z.reshape(-1, 7), np.repeat(np.arange(30), 4)
    for t in (0.5, 2.0, 30.0):
        assert uniformity(rows, t=t) == pytest.approx(exactly(rows, t), rel=1e-10)
    squared = torch.pdist(torch.from_numpy(rows)).square().numpy()
    expected = np.logaddexp.reduce(-300 * squared) - math.log(len(squared))
    assert uniformity(rows, t=300.0, normalise=False) == pytest.approx(expected, rel=1e-12)
    found = contrast(z, alpha=1.0, t=3.0)
    first, second = np.triu_indices(len(rows), 1)
    different = ids[first] != ids[second]
    squared = ((unit(rows)[first] - unit(rows)[second]) ** 2).sum(axis=1)[different]
    assert found.uniformity == pytest.approx(np.log(np.exp(-3 * squared).mean()), rel=1e-12)
    assert found.value == alignment(z, alpha=1.0) + found.uniformity
    assert (found.n_images, found.n_views) == (30, (4, 4))


@pytest.mark.parametrize("single", [False, True])
def test_features_that_lie_close_together_keep_their_digits(single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter, "_FLOAT32_FROM", 0 if single else math.inf)
    generator = np.random.default_rng(1)
    centre, noise = unit(generator.normal(size=9)), generator.normal(size=(120, 9)) / 3
    for distance in (1e-2, 1e-4):
        z = (centre + distance * noise).astype(np.float32 if single else np.float64)
        assert uniformity(z) == pytest.approx(exactly(z), rel=1e-6)
    assert uniformity(np.eye(9)) == pytest.approx(-4.0, rel=1e-14)


WITH_A_ZERO = np.concatenate([np.eye(4), np.zeros((1, 4)), np.eye(4)])


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: uniformity(WITH_A_ZERO), "Row 4 of z is all 0"),
        (lambda: alignment(WITH_A_ZERO, [0, 0, 0, 1, 1, 1, 2, 2, 2]), "Row 4 of z is all 0"),
        (lambda: uniformity(np.ones((1, 3))), "at least 2"),
        (lambda: uniformity(np.ones((5, 3))), "collapsed to a point"),
        (lambda: alignment(np.ones((5, 2, 3))), "collapsed to a point"),
        (lambda: uniformity(np.full((3, 3), np.nan)), "NaN"),
        (lambda: alignment(drawn() * 1e90, alpha=4.0, normalise=False), "overflow"),
        (lambda: contrast(drawn().reshape(-1, 7), [1, 2]), "one label for each"),
        (lambda: alignment(drawn(), alpha=0.0), "alpha"),
        (lambda: uniformity(np.eye(3), t=math.nan), "t is nan"),
    ],
)
def test_what_has_no_value_is_refused_in_a_sentence(call: Any, fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        call()
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
