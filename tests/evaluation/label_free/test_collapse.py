"""NC1 is the trace of its definition, in both of the normalisations in use."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.catalogue import compute
from zoo.evaluation.label_free.labelled import neural_collapse

Definition = Literal["papyan", "dubois"]


def drawn(n: int = 12, q: int = 6, dim: int = 5, *, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return 3 * generator.normal(size=(n, 1, dim)) + generator.normal(size=(n, q, dim)) * np.arange(1, dim + 1) + 2


def papyan(z: np.ndarray) -> float:
    means = z.mean(axis=1)
    deviations = (z - means[:, None]).reshape(-1, z.shape[2])
    centred = means - means.mean(axis=0)
    within, between = deviations.T @ deviations / len(deviations), centred.T @ centred / len(means)
    return float(np.trace(within @ np.linalg.pinv(between, rcond=1e-10, hermitian=True)) / len(means))


def dubois(z: np.ndarray) -> float:
    within = np.mean([np.cov(image.T) for image in z], axis=0)
    between = torch.from_numpy(np.cov(z.mean(axis=1).T))
    inverse = torch.linalg.pinv(between, atol=1e-4, rtol=0.01, hermitian=True).numpy()
    return float(np.trace(inverse @ within))


@pytest.mark.parametrize(("n", "q", "dim"), [(12, 6, 5), (4, 3, 20), (9, 2, 9)])
def test_it_is_the_trace_of_the_definition(n: int, q: int, dim: int) -> None:
    z = drawn(n, q, dim)
    assert neural_collapse(z).value == pytest.approx(papyan(z), rel=1e-10)
    assert neural_collapse(z, definition="dubois").value == pytest.approx(dubois(z), rel=1e-10)
    assert neural_collapse(z).rank_between == min(n - 1, dim)


def test_directions_of_little_variance_do_not_count_for_dubois() -> None:
    z = drawn() * np.array([1.0, 1.0, 1.0, 1e-3, 1.0])
    z[:, :, 4] += 20 * np.arange(12)[:, None]
    found = neural_collapse(z, definition="dubois")
    assert found.value == pytest.approx(dubois(z), rel=1e-10)
    assert found.rank_between < neural_collapse(z).rank_between == 5


def test_a_simplex_with_noise_of_known_variance() -> None:
    noise = np.concatenate([np.eye(4), -np.eye(4)])
    z = 5 * np.eye(4)[:, None, :] + 0.5 * noise
    found = neural_collapse(z)
    within, between = 0.25 / 4, 25 / 4  # variance in each of 4 directions, and in each of the 3 that tell classes apart
    assert found.value == pytest.approx(3 * within / between / 4, rel=1e-13)
    assert found.variance_within == pytest.approx(4 * within, rel=1e-13)
    assert found.variance_between == pytest.approx(3 * between, rel=1e-13)
    assert neural_collapse(5 * np.eye(4)[:, None].repeat(3, axis=1)).value == 0.0


@pytest.mark.parametrize("power", [-60, -9, 9, 60])
def test_scale_and_offset_change_nothing(power: int) -> None:
    z = drawn(8, 4, 5)
    assert neural_collapse(z * 10.0**power + 10.0**power).value == pytest.approx(neural_collapse(z).value, rel=1e-10)
    small = drawn(4, 4, 9)
    assert neural_collapse(small * 10.0**power).value == pytest.approx(neural_collapse(small).value, rel=1e-10)


def test_an_invertible_map_changes_nothing_where_the_means_span_the_space() -> None:
    z, generator = drawn(), np.random.default_rng(2)
    assert neural_collapse(z @ generator.normal(size=(5, 5))).value == pytest.approx(neural_collapse(z).value, rel=1e-9)


def test_dimensions_that_are_rounding_do_not_count() -> None:
    z = (drawn(30, 4, 3) @ np.random.default_rng(4).normal(size=(3, 12))).astype(np.float32)
    found = neural_collapse(z)
    assert found.rank_between == 3
    assert found.value == pytest.approx(neural_collapse(drawn(30, 4, 3)).value, rel=1e-4)
    dead = np.concatenate([drawn(), np.zeros((12, 6, 2)), np.full((12, 6, 1), 9.0)], axis=2)
    assert neural_collapse(dead).value == pytest.approx(neural_collapse(drawn()).value, rel=1e-10)


@pytest.mark.parametrize("definition", ["papyan", "dubois"])
def test_classes_are_images_or_labels_in_any_order(definition: Definition) -> None:
    z = drawn()
    rows, ids = z.reshape(-1, 5), np.repeat(np.arange(12), 6)
    order = np.random.default_rng(1).permutation(len(rows))
    expected = neural_collapse(z, definition=definition)
    names = [f"class {one}" for one in ids[order]]
    for found in (
        neural_collapse(rows[order], ids[order], definition=definition),
        neural_collapse(rows[order], y=names, definition=definition),
        neural_collapse(z, y=np.arange(12), definition=definition),
        neural_collapse(torch.from_numpy(z), y=ids, definition=definition),
    ):
        assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert compute("neural_collapse", z=z).value == neural_collapse(z).value


def test_classes_of_different_sizes_count_by_their_members_or_once_each() -> None:
    rows, ids = drawn().reshape(-1, 5)[9:], np.repeat(np.arange(12), 6)[9:]
    classes = [rows[ids == one] for one in np.unique(ids)]
    means = np.array([one.mean(axis=0) for one in classes])
    pooled = sum((one - one.mean(axis=0)).T @ (one - one.mean(axis=0)) for one in classes) / len(rows)
    between = np.cov(means.T)
    expected = np.trace(pooled @ np.linalg.inv(between * (len(means) - 1) / len(means))) / len(means)
    assert neural_collapse(rows, ids).value == pytest.approx(expected, rel=1e-10)
    averaged = np.mean([np.cov(one.T) for one in classes], axis=0)
    inverse = torch.linalg.pinv(torch.from_numpy(between), atol=1e-4, rtol=0.01, hermitian=True).numpy()
    found = neural_collapse(rows, ids, definition="dubois")
    assert found.value == pytest.approx(np.trace(inverse @ averaged), rel=1e-10)
    assert found.n_members == (3, 6)


@pytest.mark.parametrize(
    ("z", "options", "sentence"),
    [
        (drawn(q=1), {}, "one view only"),
        (drawn(n=1), {}, "at least 2 images"),
        (np.ones((3, 3, 4)), {}, "All 9 rows of z are equal"),
        (np.full((3, 3, 4), np.nan), {}, "NaN or infinity"),
        (drawn()[:1].repeat(3, axis=0), {}, "The means of all 3 classes are the same"),
        (drawn(), {"y": np.zeros(12)}, "y has 1 class, the smallest with 72 of the 72 rows"),
        (drawn()[0], {"y": [0, 0, 0, 1, 1, 2]}, "y has 3 classes, the smallest with 1 of the 6 rows"),
        (drawn()[0], {"y": [0, 0]}, "expected one label for each of the 6 rows"),
        (drawn() * 1e-6, {"definition": "dubois"}, "No direction has a variance of the means above 1e-4"),
        (drawn()[0], {"y": [0, 0, 0, 1, 1, 1], "ids": [0, 0, 0, 1, 1, 1]}, "both ids and y"),
        (drawn(), {"definition": "other"}, "expected one of 'papyan', 'dubois'"),
    ],
)
def test_what_has_no_value_is_refused_in_a_sentence(z: np.ndarray, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        neural_collapse(z, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
