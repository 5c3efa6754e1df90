"""One-shot accuracy: closed forms, a brute-force classifier, and what may not change it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.labelled import one_shot_accuracy


def _classes(n: int, *, seed: int, distance: float, n_classes: int = 5, dim: int = 8) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.permutation(np.arange(n) % n_classes)
    return distance * np.eye(n_classes, dim)[y] + generator.normal(size=(n, dim)), y


_TRAIN, _VAL = _classes(100, seed=0, distance=2.0), _classes(60, seed=1, distance=2.0)


def _nearest(z: np.ndarray, y: np.ndarray, z_val: np.ndarray, y_val: np.ndarray) -> float:
    """Accuracy in percent of the nearest of some rows by cosine similarity."""
    unit, unit_val = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, z_val))
    return 100 * float((y[(unit_val @ unit.T).argmax(axis=1)] == y_val).mean())


@pytest.mark.parametrize("classifier", ["nearest", "logistic"])
def test_classes_far_apart_are_told_from_any_image(classifier: str) -> None:
    train, val = _classes(50, seed=0, distance=90.0), _classes(40, seed=1, distance=90.0)
    found = one_shot_accuracy(*train, *val, classifier=classifier)
    assert found.value == 100.0 and found.standard_error == 0.0 and found.draws == (100.0,) * 10
    assert (found.n_classes, found.n_train, found.n_val, found.classifier) == (5, 50, 40, classifier)


def test_with_one_image_a_class_every_draw_is_the_nearest_of_them() -> None:
    z, y = _classes(5, seed=2, distance=2.0)
    found = one_shot_accuracy(z, y, *_VAL, n_draws=3)
    assert found.draws == (pytest.approx(_nearest(z, y, *_VAL)),) * 3 and found.standard_error == 0.0


def test_the_mean_over_draws_is_that_over_all_choices_of_one_image_a_class() -> None:
    z, y = _classes(9, seed=3, distance=1.5, n_classes=3)
    val = _classes(60, seed=4, distance=1.5, n_classes=3)
    rows = [np.flatnonzero(y == label) for label in range(3)]
    every = [[a, b, c] for a in rows[0] for b in rows[1] for c in rows[2]]
    possible = [_nearest(z[some], y[some], *val) for some in every]
    found = one_shot_accuracy(z, y, *val, n_draws=200)
    assert set(np.round(found.draws, 6)) <= set(np.round(possible, 6))
    assert found.standard_error == pytest.approx(np.std(found.draws, ddof=1) / 200**0.5)
    assert abs(found.value - np.mean(possible)) < 4 * found.standard_error


def test_features_without_signal_are_near_chance() -> None:
    train, val = _classes(200, seed=0, distance=0.0), _classes(1000, seed=1, distance=0.0)
    assert one_shot_accuracy(*train, *val, n_draws=20).value == pytest.approx(20, abs=2)


@pytest.mark.parametrize("classifier", ["nearest", "logistic"])
def test_names_of_classes_scale_and_order_of_validation_images_do_not_matter(classifier: str) -> None:
    expected = one_shot_accuracy(*_TRAIN, *_VAL, classifier=classifier)
    names = np.array(["zebra", "ant", "mole", "cat", "eel"])
    order = np.random.default_rng(5).permutation(60)
    found = one_shot_accuracy(
        _TRAIN[0] * 1e100, names[_TRAIN[1]], _VAL[0][order] * 1e100, names[_VAL[1][order]], classifier=classifier
    )
    assert found.draws == pytest.approx(expected.draws) and 20 < found.value < 100


def test_one_seed_draws_the_same_images_for_every_encoder_and_another_draws_others() -> None:
    mixed = np.random.default_rng(6).normal(size=(8, 8))
    rotation = np.linalg.qr(mixed)[0]  # cosines stay as they are
    first, turned = (one_shot_accuracy(_TRAIN[0] @ m, _TRAIN[1], _VAL[0] @ m, _VAL[1]) for m in (np.eye(8), rotation))
    assert turned.draws == first.draws != one_shot_accuracy(*_TRAIN, *_VAL, seed=1).draws


def test_tensors_in_float32_give_the_same_draws() -> None:
    z, y, z_val, y_val = (torch.from_numpy(x) for x in (*_TRAIN, *_VAL))
    found = one_shot_accuracy(z.float(), y, z_val.float(), y_val)
    assert found.draws == one_shot_accuracy(*_TRAIN, *_VAL).draws


def test_one_draw_has_no_standard_error() -> None:
    assert one_shot_accuracy(*_TRAIN, *_VAL, n_draws=1).standard_error is None


_Z, _Y = _TRAIN


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((_Z, _Y[:-1], *_VAL), r"y has the shape \(99,\)"),
        ((_Z, _Y, _VAL[0], _VAL[1][:5]), r"y_val has the shape \(5,\)"),
        ((_Z, np.zeros(100), *_VAL), "one class only"),
        ((_Z, np.minimum(_Y, 2), *_VAL), r"2 classes of y_val \(3 first\) have no image in y"),
        ((_Z, _Y, _VAL[0][:, :4], _VAL[1]), "z_val has 4 features"),
        ((_Z[:1], _Y[:1], *_VAL), "needs at least 2"),
        ((np.ones((100, 8)), _Y, *_VAL), "All 100 rows of z are equal"),
        ((_Z, _Y, np.full((60, 8), np.inf), _VAL[1]), "NaN or infinity"),
        ((_Z, _Y, _VAL[0], None), "y_val is None"),
    ],
)
def test_what_has_no_answer_is_refused_in_one_sentence(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        one_shot_accuracy(*arguments)


@pytest.mark.parametrize("options", [{"n_draws": 0}, {"n_draws": 2.5}, {"classifier": "forest"}])
def test_options_without_a_meaning_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(QueryError):
        one_shot_accuracy(*_TRAIN, *_VAL, **options)
