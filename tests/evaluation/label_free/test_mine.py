"""MINE: mutual information that is known in closed form, the bound by a direct formula, and what may not change it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.mine import MutualInformation, compute_donsker_varadhan, mutual_information


def gaussian(n: int, *, correlation: float, seed: int, dim: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Pairs with -dim / 2 log(1 - correlation^2) nats of mutual information."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, dim))
    return x, correlation * x + math.sqrt(1 - correlation**2) * generator.normal(size=(n, dim))


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_gaussians_have_the_mutual_information_of_their_correlation(correlation: float) -> None:
    found = mutual_information(
        *gaussian(1500, correlation=correlation, seed=0),
        *gaussian(800, correlation=correlation, seed=1),
        n_steps=80,
        learning_rate=5e-3,
    )
    assert abs(found.value + math.log(1 - correlation**2)) < 0.04 + 3 * found.standard_error < 0.25
    assert found.critic == "perceptron" and found.n_val == 800


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_the_bound_and_its_standard_error_are_right_for_the_critic_that_is_best(correlation: float) -> None:
    """The log ratio of densities attains the bound; over many samples its estimates scatter as each says."""
    shifts, square = list(range(1, 200, 7)), 1 - correlation**2
    values, errors = [], []
    for seed in range(80):
        x, z = (part[:, 0] for part in gaussian(200, correlation=correlation, seed=seed, dim=1))

        def score(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            exact = -((b - correlation * a) ** 2) / (2 * square) + b**2 / 2 - math.log(square) / 2
            return exact + 1e-3 * a * b  # a little off, for without it nothing scatters where the correlation is 0

        joint, shifted = score(x, z), np.stack([score(x, np.roll(z, shift)) for shift in shifts])
        value, error = compute_donsker_varadhan(torch.from_numpy(joint + 1e4), torch.from_numpy(shifted + 1e4), shifts)
        assert value == pytest.approx(joint.mean() - math.log(np.exp(shifted).mean()), abs=1e-8)
        values.append(value)
        errors.append(error)
    assert np.mean(values) == pytest.approx(-math.log(square) / 2, abs=0.02)
    assert np.std(values, ddof=1) == pytest.approx(np.mean(errors), rel=0.3)
    with pytest.raises(DataError, match="learning_rate"):
        compute_donsker_varadhan(torch.tensor([0.0, torch.nan]), torch.zeros(1, 2), [1])


def short(x: Any, z: Any, **options: Any) -> MutualInformation:
    return mutual_information(x, z, **{"n_steps": 20, "batch_size": 64, "learning_rate": 3e-3, **options})


X, Z = gaussian(300, correlation=0.8, seed=0)


def test_a_seed_gives_the_same_number_with_one_thread_and_with_two_and_leaves_randomness_alone() -> None:
    state, before = torch.get_rng_state(), torch.get_num_threads()
    try:
        found = []
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with torch.inference_mode():
                found.append(short(X, Z))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] != short(X, Z, seed=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_scale_and_containers_do_not_matter() -> None:
    expected = short(X, Z)
    assert short(X * 2.0**40, Z * 2.0**-40) == expected
    assert short(X[:, :, None, None], Z) == expected
    assert short(torch.from_numpy(X), torch.from_numpy(Z)) == expected
    assert short(X, 1000 * Z - 7).value == pytest.approx(expected.value, abs=0.01)
    constant = np.concatenate([Z, np.full((300, 1), 0.1)], axis=1)
    assert math.isfinite(short(X, constant).value)


def quadrants(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy uint8 images of 16 px with a bright quadrant, and a feature that says which: log 4 nats."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 120, size=(n, 3, 16, 16), dtype=np.uint8)
    quadrant = generator.integers(4, size=n)
    for image, number in zip(images, quadrant, strict=True):
        image[:, 8 * (number // 2) :, 8 * (number % 2) :][:, :8, :8] += 100
    return images, np.eye(4)[quadrant]


def test_of_images_the_small_critic_finds_what_the_feature_tells() -> None:
    found = mutual_information(*quadrants(400, seed=0), *quadrants(128, seed=1), n_steps=30, learning_rate=4e-3)
    assert 0.9 < found.value < math.log(4) + 3 * found.standard_error + 0.01 and found.critic == "small"
    assert found.n_stopping == 40 and found.n_train == 360


def test_a_critic_that_only_learns_by_heart_is_kept_untrained() -> None:
    generator = np.random.default_rng(0)
    x, z = generator.normal(size=(256, 40)), generator.normal(size=(256, 40))
    kept, last = (short(x, z, n_steps=60, learning_rate=5e-3, stopping_share=share) for share in (0.1, 0.0))
    assert last.value < -0.5 < 0.5 < last.value_train and last.chosen_step == 60 and last.n_stopping == 0
    assert abs(kept.value) < 0.2 and kept.chosen_step < 60


PIXELS = np.random.default_rng(0).normal(size=(300, 1, 2, 2))


@pytest.mark.parametrize(
    ("arguments", "options", "fragment"),
    [
        ((X[:255], Z[:255]), {}, "at least 256"),
        ((X[:-1], Z), {}, "299 images and z 300 rows"),
        ((PIXELS[:, 0], Z), {}, "shape (300, 2, 2)"),
        ((X, np.zeros_like(Z)), {}, "rows of z are equal"),
        ((np.ones_like(X), Z), {}, "images are equal"),
        ((np.where(X > 2, np.nan, X), Z), {}, "NaN"),
        ((X + 1j, Z), {}, "complex128"),
        ((X, Z, X), {}, "only one of images_val"),
        ((X, Z, X[:31], Z[:31]), {}, "at least 32"),
        ((X, Z, X, Z[:, :1]), {}, "z_val has 1 features"),
        ((X, Z, PIXELS, Z), {}, "images_val has the shape (1, 2, 2)"),
        ((X, Z), {"n_steps": 0}, "n_steps"),
        ((X, Z), {"n_shuffles": 1.5}, "n_shuffles"),
        ((X, Z), {"learning_rate": math.nan}, "learning_rate"),
        ((X, Z), {"stopping_share": 0.9}, "stopping_share"),
        ((X, Z), {"critic": "vit"}, "critic"),
        ((X, Z), {"critic": "resnet18"}, "take 'perceptron'"),
    ],
)
def test_what_has_no_answer_is_refused_in_a_sentence(
    arguments: tuple[Any, ...], options: dict[str, Any], fragment: str
) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        mutual_information(*arguments, **options)
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
