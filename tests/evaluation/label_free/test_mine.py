"""MINE: mutual information that is known in closed form, the bound by a direct formula, and what may not change it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.mine import (
    Critic,
    CriticCheck,
    MutualInformation,
    critic_named,
    donsker_varadhan,
    mutual_information,
)

_SHORT = {"n_steps": 40, "batch_size": 64, "learning_rate": 3e-3}


def _gaussian(n: int, *, correlation: float, seed: int, dim: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Pairs with -dim / 2 log(1 - correlation^2) nats of mutual information."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, dim))
    return x, correlation * x + math.sqrt(1 - correlation**2) * generator.normal(size=(n, dim))


def _log_ratio(x: np.ndarray, z: np.ndarray, correlation: float) -> np.ndarray:
    """Of the density of a pair and the product of the densities of its parts: the best critic there is."""
    square = 1 - correlation**2
    ratio: np.ndarray = (z**2 / 2 - (z - correlation * x) ** 2 / (2 * square) - math.log(square) / 2).sum(axis=1)
    return ratio


@pytest.mark.parametrize("correlation, n_steps", [(0.0, 80), (0.5, 150), (0.8, 150)])
def test_gaussians_have_the_mutual_information_of_their_correlation(correlation: float, n_steps: int) -> None:
    train, (x, z) = (_gaussian(n, correlation=correlation, seed=n) for n in (3000, 1500))
    found = mutual_information(*train, x, z, n_steps=n_steps, learning_rate=3e-3)
    shifted = np.stack([_log_ratio(x, np.roll(z, shift, axis=0), correlation) for shift in range(1, 200)])
    best = _log_ratio(x, z, correlation).mean() - math.log(np.exp(shifted).mean())  # on the same validation pairs
    assert -0.05 < found.value - best < 0.02
    assert abs(found.value + math.log(1 - correlation**2)) < 0.02 + 3 * found.standard_error < 0.15
    assert found.critic == "perceptron" and found.n_val == 1500


def test_a_nonlinear_map_of_the_feature_leaves_its_information() -> None:
    x, z = _gaussian(2500, correlation=0.9, seed=0, dim=1)
    found = mutual_information(x, z**3, n_steps=150, learning_rate=3e-3)
    assert found.value == pytest.approx(-math.log(1 - 0.81) / 2, abs=0.15)


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_the_bound_and_its_standard_error_are_right_for_the_critic_that_is_best(correlation: float) -> None:
    """The log ratio of densities attains the bound; over many samples its estimates scatter as each says."""
    shifts, n, square = list(range(1, 200, 7)), 200, 1 - correlation**2
    values, errors = [], []
    for seed in range(80):
        x, z = (part[:, 0] for part in _gaussian(n, correlation=correlation, seed=seed, dim=1))

        def score(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return (
                -((b - correlation * a) ** 2) / (2 * square) + b**2 / 2 - math.log(square) / 2 + 1e-3 * a * b
            )  # a little off, for without it nothing scatters where the correlation is 0

        joint, shifted = score(x, z), np.stack([score(x, np.roll(z, shift)) for shift in shifts])
        found = donsker_varadhan(torch.from_numpy(joint), torch.from_numpy(shifted), shifts)
        assert found.value == pytest.approx(joint.mean() - math.log(np.exp(shifted).mean()), abs=1e-12)
        values.append(found.value)
        errors.append(found.standard_error)
    assert np.mean(values) == pytest.approx(-math.log(square) / 2, abs=0.02)
    assert np.std(values, ddof=1) == pytest.approx(np.mean(errors), rel=0.3)


@pytest.mark.parametrize("constant", [-1e4, 1e4])
def test_a_constant_added_to_all_scores_changes_nothing_however_large(constant: float) -> None:
    generator = torch.Generator().manual_seed(0)
    joint, shifted = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((30,), (4, 30)))
    expected = donsker_varadhan(joint, shifted, [1, 2, 5, 9])
    moved = donsker_varadhan(joint + constant, shifted + constant, [1, 2, 5, 9])
    assert moved.value == pytest.approx(expected.value, abs=1e-9)
    assert moved.standard_error == pytest.approx(expected.standard_error, abs=1e-9)


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(DataError, match="lower learning_rate"):
        donsker_varadhan(torch.tensor([0.0, torch.nan]), torch.zeros(1, 2), [1])


def _short(x: np.ndarray, z: np.ndarray, **options: object) -> MutualInformation:
    return mutual_information(x, z, **{**_SHORT, **options})  # type: ignore[arg-type]


def test_a_seed_gives_the_same_number_with_one_thread_and_with_two_and_leaves_randomness_alone() -> None:
    pairs = _gaussian(400, correlation=0.8, seed=0)
    state, before = torch.get_rng_state(), torch.get_num_threads()
    try:
        found = []
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with torch.inference_mode():
                found.append(_short(*pairs))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] != _short(*pairs, seed=1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_the_scale_of_features_and_of_images_does_not_matter(scale: float) -> None:
    x, z = _gaussian(400, correlation=0.8, seed=0)
    assert _short(x * scale, z / scale) == _short(x, z)


def test_moved_and_scaled_features_give_the_same_number_within_what_rounding_does_to_training() -> None:
    x, z = _gaussian(400, correlation=0.8, seed=0)
    assert _short(x, 1000 * z - 7).value == pytest.approx(_short(x, z).value, abs=0.01)


def test_pairs_in_another_order_give_the_same_number_within_sampling_error() -> None:
    x, z = _gaussian(1500, correlation=0.8, seed=0)
    order = np.random.default_rng(1).permutation(1500)
    options = {"n_steps": 100, "learning_rate": 4e-3}
    one, other = mutual_information(x, z, **options), mutual_information(x[order], z[order], **options)
    assert abs(one.value - other.value) < 4 * math.hypot(one.standard_error, other.standard_error)


def test_images_of_one_pixel_are_vectors_and_containers_do_not_matter() -> None:
    x, z = _gaussian(400, correlation=0.8, seed=0)
    expected = _short(x, z)
    assert _short(x[:, :, None, None], z) == expected
    assert _short(torch.from_numpy(x), torch.from_numpy(z)) == expected  # type: ignore[arg-type]


def test_features_that_never_vary_in_training_change_nothing() -> None:
    x, z = _gaussian(400, correlation=0.8, seed=0)
    padded = np.concatenate([z, np.full((400, 1), 0.1)], axis=1)
    assert _short(x, padded).value == pytest.approx(_short(x, z).value, abs=0.15)


def _quadrants(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy uint8 images of 16 px with a bright quadrant, and a feature that says which: log 4 nats."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 120, size=(n, 3, 16, 16), dtype=np.uint8)
    quadrant = generator.integers(4, size=n)
    for image, number in zip(images, quadrant, strict=True):
        image[:, 8 * (number // 2) :, 8 * (number % 2) :][:, :8, :8] += 100
    return images, np.eye(4)[quadrant]


def test_of_images_the_small_critic_finds_what_the_feature_tells() -> None:
    told: list[CriticCheck] = []
    found = mutual_information(
        *_quadrants(512, seed=0), *_quadrants(256, seed=1), n_steps=40, learning_rate=4e-3, progress=told.append
    )
    assert 1.2 < found.value < math.log(4) + 3 * found.standard_error + 0.01 and found.critic == "small"
    assert [check.step for check in told] == list(range(2, 41, 2)) and told[-1].n_steps == 40
    assert found.chosen_step in range(2, 41, 2) and found.n_stopping == 51 and found.n_train == 461


def test_a_critic_that_only_learns_by_heart_is_kept_untrained() -> None:
    generator = np.random.default_rng(0)
    x, z = generator.normal(size=(256, 40)), generator.normal(size=(256, 40))
    options = {"n_steps": 60, "learning_rate": 5e-3}
    kept, last = mutual_information(x, z, **options), mutual_information(x, z, stopping_share=0.0, **options)
    assert last.value < -1 < 1 < last.value_train and last.chosen_step == 60 and last.n_stopping == 0
    assert abs(kept.value) < 0.2 and kept.chosen_step < 60


@pytest.mark.parametrize(
    "shape, name",
    [
        ((7,), "perceptron"),
        ((3, 1, 1), "perceptron"),
        ((1, 28, 28), "small"),
        ((3, 9, 13), "small"),
        ((3, 64, 64), "resnet18"),
        ((1, 64, 96), "resnet18"),
    ],
)
def test_the_critic_fits_the_size_of_images_and_scores_0_before_training(shape: tuple[int, ...], name: str) -> None:
    assert critic_named(None, shape) == name
    critic = Critic(name, shape, 5)
    of_image, of_feature = critic.halves(torch.randn(4, *shape), torch.randn(4, 5))
    assert of_image.shape == of_feature.shape == (4, 128)
    assert critic(of_image, of_feature).tolist() == [0.0] * 4


_X, _Z = _gaussian(300, correlation=0.5, seed=0)
_PIXELS = np.random.default_rng(0).normal(size=(300, 1, 2, 2))


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((_X[:255], _Z[:255]), "z has 255 rows, but mutual information needs at least 256"),
        ((_X[:-1], _Z), "images has 299 images and z 300 rows"),
        ((_X[:, 0], _Z), r"images has the shape \(300,\)"),
        ((_PIXELS[:, 0], _Z), r"images has the shape \(300, 2, 2\)"),
        ((_X, np.zeros_like(_Z)), "All 300 rows of z are equal"),
        ((np.ones_like(_X), _Z), "All 300 images are equal"),
        ((np.where(_X > 2, np.nan, _X), _Z), r"Image \d+ of images holds NaN or infinity"),
        ((_X + 1j, _Z), "images holds complex128"),
        ((_X, np.where(_Z > 2, np.inf, _Z)), "NaN or infinity"),
        ((_X, _Z, _X), "Got only one of images_val and z_val"),
        ((_X, _Z, _X[:31], _Z[:31]), "z_val has 31 rows, but mutual information needs at least 32"),
        ((_X, _Z, _X, _Z[:, :1]), "z_val has 1 features"),
        ((_X, _Z, _PIXELS, _Z), r"An image of images_val has the shape \(1, 2, 2\)"),
    ],
)
def test_pairs_that_do_not_fit_are_refused_in_one_sentence(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        mutual_information(*arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"n_steps": 0},
        {"batch_size": 1},
        {"n_shuffles": 1.5},
        {"learning_rate": 0.0},
        {"weight_decay": -1.0},
        {"stopping_share": 0.9},
        {"critic": "vit"},
        {"critic": "resnet18"},
        {"learning_rate": math.nan},
    ],
)
def test_options_without_a_meaning_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(QueryError):
        mutual_information(_X, _Z, **options)  # type: ignore[arg-type]
