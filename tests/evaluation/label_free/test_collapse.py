"""NC1 is the trace of its definition, in both of the normalisations in use."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.labelled import neural_collapse


def drawn(n: int = 12, q: int = 6, dim: int = 5) -> np.ndarray:
    generator = np.random.default_rng(0)
    return 3 * generator.normal(size=(n, 1, dim)) + generator.normal(size=(n, q, dim)) * np.arange(1, dim + 1) + 2


def by_definition(classes: list[np.ndarray], definition: str) -> float:
    means = np.array([one.mean(axis=0) for one in classes])
    between = np.cov(means.T)
    if definition == "dubois":
        within = np.mean([np.cov(one.T) for one in classes], axis=0)
        inverse = torch.linalg.pinv(torch.from_numpy(between), atol=1e-4, rtol=0.01, hermitian=True).numpy()
        return float(np.trace(inverse @ within))
    within = sum((one - one.mean(axis=0)).T @ (one - one.mean(axis=0)) for one in classes) / sum(map(len, classes))
    inverse = np.linalg.pinv(between * (len(means) - 1) / len(means), rcond=1e-10, hermitian=True)
    return float(np.trace(within @ inverse) / len(means))


@pytest.mark.parametrize("definition", ["papyan", "dubois"])
def test_it_is_the_trace_of_the_definition(definition: Literal["papyan", "dubois"]) -> None:
    uneven = drawn() * np.array([1.0, 1.0, 1.0, 1e-3, 1.0])
    for z in (drawn(), drawn(4, 3, 20), drawn(9, 2, 9), uneven):
        assert neural_collapse(z, definition=definition).value == pytest.approx(
            by_definition(list(z), definition), rel=1e-10
        )
    rows, ids = drawn().reshape(-1, 5)[9:], np.repeat(np.arange(12), 6)[9:]
    order = np.random.default_rng(1).permutation(len(rows))
    expected = by_definition([rows[ids == one] for one in np.unique(ids)], definition)
    for found in (
        neural_collapse(rows[order], ids[order], definition=definition),
        neural_collapse(torch.from_numpy(rows), y=[f"class {one}" for one in ids], definition=definition),
    ):
        assert found.value == pytest.approx(expected, rel=1e-10) and found.n_members == (3, 6)
    assert neural_collapse(drawn(), y=np.arange(12)).value == pytest.approx(neural_collapse(drawn()).value, rel=1e-12)


def test_a_simplex_with_noise_of_known_variance() -> None:
    noise = np.concatenate([np.eye(4), -np.eye(4)])
    found = neural_collapse(5 * np.eye(4)[:, None, :] + 0.5 * noise)
    within, between = 0.25 / 4, 25 / 4  # variance in each of 4 directions, and in each of the 3 that tell classes apart
    assert found.value == pytest.approx(3 * within / between / 4, rel=1e-13)
    assert found.variance_within == pytest.approx(4 * within, rel=1e-13)
    assert found.variance_between == pytest.approx(3 * between, rel=1e-13)


def test_scale_offset_linear_maps_and_dimensions_of_rounding_change_nothing() -> None:
    z, generator = drawn(), np.random.default_rng(2)
    expected = neural_collapse(z).value
    for other in (z * 1e-60, z * 1e60, z + 100, z @ generator.normal(size=(5, 5))):
        assert neural_collapse(other).value == pytest.approx(expected, rel=1e-9)
    few = (drawn(30, 4, 3) @ np.random.default_rng(4).normal(size=(3, 12))).astype(np.float32)
    assert neural_collapse(few).rank_between == 3
    assert neural_collapse(few).value == pytest.approx(neural_collapse(drawn(30, 4, 3)).value, rel=1e-4)
    dead = np.concatenate([z, np.zeros((12, 6, 2)), np.full((12, 6, 1), 9.0)], axis=2)
    assert neural_collapse(dead).value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("z", "options", "fragment"),
    [
        (drawn(q=1), {}, "2 views"),
        (np.ones((3, 3, 4)), {}, "are equal"),
        (np.full((3, 3, 4), np.nan), {}, "NaN"),
        (drawn()[:1].repeat(3, axis=0), {}, "The means of all 3 classes are the same"),
        (drawn(), {"y": np.zeros(12)}, "y has 1 class"),
        (drawn()[0], {"y": [0, 0, 0, 1, 1, 2]}, "y has 3 classes, the smallest with 1"),
        (drawn()[0], {"y": [0, 0]}, "one label for each of the 6"),
        (drawn() * 1e-6, {"definition": "dubois"}, "No direction"),
        (drawn()[0], {"y": [0, 0, 0, 1, 1, 1], "ids": [0, 0, 0, 1, 1, 1]}, "both ids and y"),
        (drawn(), {"definition": "other"}, "definition"),
    ],
)
def test_what_has_no_value_is_refused_in_a_sentence(z: np.ndarray, options: dict[str, Any], fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        neural_collapse(z, **options)
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
