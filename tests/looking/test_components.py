"""Colours of patches and their similarity, on maps whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.eigen import compute_eigh
from zoo.looking import components
from zoo.looking.components import component_colours, patch_similarity, principal_components


def planted(seed: int = 0) -> np.ndarray:
    """Maps (3, 20, 4, 5) of four kinds of patches, in three directions of different strength, and some noise."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(20, 3)))[0].T
    kinds = np.array([[8.0, 0, 0], [-8, 4, 0], [-8, -4, 2], [-8, -4, -2]]) @ directions
    return np.moveaxis(kinds[rng.integers(0, 4, (3, 4, 5))] + 0.01 * rng.normal(size=(3, 4, 5, 20)), 3, 1)


def test_components_of_points_along_known_axes() -> None:
    rows = np.array([[3.0, 0, 1], [-3, 0, 1], [0, 1, 1], [0, -1, 1]])
    scores, explained = principal_components(rows, 3)
    assert np.allclose(scores, [[3, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]])
    assert np.allclose(explained, [0.9, 0.1, 0])


@pytest.mark.parametrize("n", [6, 40])  # fewer rows than features, and more
def test_components_are_those_of_the_singular_values(n: int) -> None:
    rows = np.random.default_rng(0).normal(size=(n, 12)) * np.arange(1, 13)
    scores, explained = principal_components(rows, 3)
    left, values, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    assert np.allclose(np.abs(scores), np.abs(left[:, :3] * values[:3]))
    assert np.allclose(explained, (values**2 / (values**2).sum())[:3])


def test_signs_and_order_do_not_depend_on_order_noise_or_signs_of_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = planted()
    colours, explained = component_colours(maps)
    swapped, _ = component_colours(maps[[2, 0, 1]])
    assert np.array_equal(swapped, colours[[2, 0, 1]])
    noisy, _ = component_colours(maps + 1e-7 * np.random.default_rng(1).normal(size=maps.shape))
    assert np.abs(noisy.astype(int) - colours).max() <= 1
    assert explained[0] > explained[1] > explained[2] > 0.001

    def flipped(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, vectors = compute_eigh(matrix)
        return values, -vectors

    monkeypatch.setattr(components, "compute_eigh", flipped)
    assert np.abs(component_colours(maps)[0].astype(int) - colours).max() <= 1


def test_two_kinds_of_patches_have_two_colours_in_all_images() -> None:
    is_first = np.random.default_rng(0).random((2, 3, 3)) < 0.5
    maps = np.where(is_first[:, None], np.array([1.0, 2, 3, 4])[:, None, None], np.array([4.0, 0, 1, 1])[:, None, None])
    colours, explained = component_colours(maps)
    assert len(np.unique(colours[is_first], axis=0)) == len(np.unique(colours[~is_first], axis=0)) == 1
    assert {*colours[is_first][0, :1], *colours[~is_first][0, :1]} == {0, 255}
    assert (colours[..., 1:] == 128).all()  # no variance is left
    assert np.allclose(explained, [1, 0, 0])


def test_equal_and_broken_patches_are_refused() -> None:
    with pytest.raises(DataError, match="the same"):
        component_colours(np.full((1, 3, 2, 2), 0.1, np.float32))
    with pytest.raises(DataError, match="not finite"):
        component_colours(np.full((1, 3, 2, 2), np.nan))


def test_similarity_is_the_cosine_and_1_with_itself() -> None:
    maps = planted()
    found = patch_similarity(maps, 1, (2, 3))
    assert found.shape == (3, 4, 5) and found[1, 2, 3] == pytest.approx(1, abs=1e-12)
    one, other = maps[1, :, 2, 3], maps[0, :, 1, 1]
    assert found[0, 1, 1] == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other), abs=1e-12)
    maps[0, :, 0, 0] = 0
    assert patch_similarity(maps, 1, (2, 3))[0, 0, 0] == 0


def test_a_patch_outside_of_the_grid_is_refused() -> None:
    with pytest.raises(QueryError, match=r"4,0 of a grid of 4 rows and 5 columns, expected 0,0 to 3,4"):
        patch_similarity(planted(), 0, (4, 0))
