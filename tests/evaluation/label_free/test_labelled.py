"""Label entropy, one-shot accuracy and rotation prediction: oracles, closed forms, and what may not change them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.labelled import (
    one_shot_accuracy,
    rotation_accuracy,
    source_label_entropy,
    target_label_entropy,
)


def classes(n: int, *, seed: int, distance: float = 2.0, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.permutation(np.arange(n) % n_classes)
    return distance * np.eye(n_classes, 6)[y] + generator.normal(size=(n, 6)), y


TRAIN, VAL = classes(240, seed=0), classes(120, seed=1)
NAMES = np.array(["zebra", "ant", "mole"])


@pytest.mark.parametrize("c", [0.01, 1.0])
def test_the_entropy_is_that_of_scikit_learns_classifier(c: float) -> None:
    reference = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(*TRAIN)
    p = reference.predict_proba(VAL[0])
    found = source_label_entropy(*TRAIN, *VAL, C=c)
    assert found.value == pytest.approx(-(p * np.log(p)).sum(axis=1).mean(), abs=2e-3)
    assert found.accuracy == pytest.approx(100 * reference.score(*VAL), abs=1.3)
    assert (found.C, found.n_classes, found.held_out_accuracy) == (c, 3, None) and found.converged
    named = source_label_entropy(TRAIN[0], NAMES[TRAIN[1]], VAL[0][::-1], NAMES[VAL[1]][::-1], C=c)
    assert named.value == pytest.approx(found.value, abs=1e-4) and named.accuracy == found.accuracy


def test_entropies_between_certainty_and_log_n_classes() -> None:
    far = source_label_entropy(*classes(120, seed=0, distance=60.0), *classes(60, seed=1, distance=60.0))
    assert 0 <= far.value < 0.02 and far.accuracy == 100.0 == far.held_out_accuracy
    none = source_label_entropy(*classes(600, seed=0, distance=0.0), *classes(300, seed=1, distance=0.0))
    assert 0.96 * math.log(3) < none.value <= math.log(3) + 1e-12
    z = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    between = target_label_entropy(z, [0, 0, 1, 1], [[0.0], [0.0]], C=1.0)
    assert between.value == pytest.approx(math.log(2), abs=1e-4)


def test_the_target_is_measured_with_the_same_classifier_and_scale_and_containers_do_not_matter() -> None:
    source, target = source_label_entropy(*TRAIN, *VAL), target_label_entropy(*TRAIN, VAL[0])
    assert target.value == source.value and target.C == source.C and target.accuracy is None
    for scale in (1e-25, 1e25):
        scaled = source_label_entropy(TRAIN[0] * scale, TRAIN[1], VAL[0] * scale, VAL[1])
        assert scaled.value == pytest.approx(source.value, abs=1e-3)
    z, y, z_val, y_val = (torch.from_numpy(x) for x in (*TRAIN, *VAL))
    assert source_label_entropy(z.float(), y, z_val.float(), y_val).value == pytest.approx(source.value, abs=1e-4)


def nearest(z: np.ndarray, y: np.ndarray, z_val: np.ndarray, y_val: np.ndarray) -> float:
    """Accuracy in percent of the nearest of some rows by cosine similarity."""
    unit, unit_val = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, z_val))
    return 100 * float((y[(unit_val @ unit.T).argmax(axis=1)] == y_val).mean())


def test_one_shot_is_the_mean_over_all_choices_of_one_image_a_class() -> None:
    z, y = classes(9, seed=3, distance=1.5)
    rows = [np.flatnonzero(y == label) for label in range(3)]
    possible = [nearest(z[[a, b, c]], y[[a, b, c]], *VAL) for a in rows[0] for b in rows[1] for c in rows[2]]
    found = one_shot_accuracy(z, y, *VAL, n_draws=200)
    assert set(np.round(found.draws, 6)) <= set(np.round(possible, 6))
    assert found.standard_error == pytest.approx(np.std(found.draws, ddof=1) / 200**0.5)
    assert abs(found.value - np.mean(possible)) < 4 * found.standard_error
    assert one_shot_accuracy(z, y, *VAL, n_draws=1).standard_error is None


@pytest.mark.parametrize("classifier", ["nearest", "logistic"])
def test_one_shot_does_not_see_names_scale_order_of_validation_or_containers(classifier: str) -> None:
    expected = one_shot_accuracy(*TRAIN, *VAL, classifier=classifier)
    order = np.random.default_rng(5).permutation(120)
    found = one_shot_accuracy(
        TRAIN[0] * 1e60, NAMES[TRAIN[1]], VAL[0][order] * 1e60, NAMES[VAL[1][order]], classifier=classifier
    )
    assert found.draws == pytest.approx(expected.draws) and 40 < found.value < 100
    z, y, z_val, y_val = (torch.from_numpy(x) for x in (*TRAIN, *VAL))
    assert one_shot_accuracy(z.float(), y, z_val.float(), y_val, classifier=classifier).draws == expected.draws
    assert one_shot_accuracy(*TRAIN, *VAL, classifier=classifier, seed=1).draws != expected.draws
    far = [classes(40, seed=seed, distance=90.0) for seed in (0, 1)]
    assert one_shot_accuracy(*far[0], *far[1], classifier=classifier).value == 100.0


def turned(n: int, *, seed: int, signal: float) -> np.ndarray:
    """Features of turned images: what the image is like, noise, and ``signal`` in a direction of the turn."""
    generator = np.random.default_rng(seed)
    z = generator.normal(size=(n, 1, 8)) + 0.3 * generator.normal(size=(n, 4, 8))
    z[:, :, :4] += signal * np.eye(4)
    return z


TURNS, TURNS_VAL = turned(40, seed=0, signal=0.6), turned(25, seed=1, signal=0.6)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (5, 0.5), (20, 0.07)])
def test_the_vote_on_turns_is_that_of_a_direct_formula(k: int, temperature: float) -> None:
    rows, rows_val = (x.reshape(-1, 8) / np.linalg.norm(x, axis=2).reshape(-1, 1) for x in (TURNS, TURNS_VAL))
    similarity = rows_val @ rows.T  # (100, 160)
    neighbours = np.argsort(-similarity, axis=1)[:, :k]
    weights = np.exp(np.take_along_axis(similarity, neighbours, axis=1) / temperature)
    votes = np.stack([(weights * (neighbours % 4 == turn)).sum(axis=1) for turn in range(4)], axis=1)
    expected = (votes.argmax(axis=1) == np.tile(np.arange(4), 25)).reshape(25, 4)
    for scale in (1.0, 1e60):
        found = rotation_accuracy(TURNS * scale, TURNS_VAL * scale, k=k, temperature=temperature)
        assert found.value == pytest.approx(100 * expected.mean()) and 25 < found.value < 100
        assert found.per_rotation == pytest.approx(tuple(100 * expected.mean(axis=0)))
        assert found.standard_error == pytest.approx(100 * expected.mean(axis=1).std(ddof=1) / 5)


def test_turns_that_features_tell_or_do_not_tell() -> None:
    told = rotation_accuracy(turned(50, seed=0, signal=50.0), turned(30, seed=1, signal=50.0))
    assert told.value == 100.0 and (told.n_train, told.n_val, told.n_shared, told.k) == (50, 30, 0, 20)
    same = [np.repeat(np.random.default_rng(seed).normal(size=(40, 1, 6)), 4, axis=1) for seed in (0, 1)]
    assert rotation_accuracy(*same).per_rotation == (100.0, 0.0, 0.0, 0.0)
    one, again, other = (rotation_accuracy(TURNS, TURNS_VAL, one_each=True, seed=seed) for seed in (0, 0, 1))
    assert one == again != other
    assert rotation_accuracy(TURNS[:4], TURNS_VAL, k=50).k == 16
    assert rotation_accuracy(TURNS, np.concatenate([TURNS[:3], TURNS_VAL])).n_shared == 3
    assert rotation_accuracy(torch.from_numpy(TURNS), torch.from_numpy(TURNS_VAL).float()) == rotation_accuracy(
        TURNS, TURNS_VAL
    )


Z, Y = TRAIN


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: source_label_entropy(Z, Y[:-1], *VAL), "y has the shape (239,)"),
        (lambda: source_label_entropy(Z, Y, VAL[0], VAL[1][:5]), "y_val has the shape (5,)"),
        (lambda: source_label_entropy(Z, np.zeros(240), *VAL), "one class only"),
        (lambda: source_label_entropy(Z, np.minimum(Y, 1), *VAL), "1 class of y_val (2 first)"),
        (lambda: source_label_entropy(Z, Y.astype(str), *VAL), "labels of one kind"),
        (lambda: source_label_entropy(Z, Y, VAL[0][:, :4], VAL[1]), "z_val has 4 features"),
        (lambda: source_label_entropy(Z[:3], Y[:3], *VAL), "at least 4"),
        (lambda: source_label_entropy(np.ones((240, 6)), Y, *VAL), "are equal"),
        (lambda: source_label_entropy(Z, None, *VAL), "y is None"),
        (lambda: source_label_entropy(Z[:4], list("abcd"), VAL[0], ["a"] * 120), "No class has two images"),
        (lambda: target_label_entropy(*TRAIN, VAL[0] * 1e60), "scale the features of all images"),
        (lambda: target_label_entropy(*TRAIN, np.ones((5, 2))), "z_target has 2 features"),
        (lambda: target_label_entropy(*TRAIN, VAL[0], C=0.0), "C"),
        (lambda: one_shot_accuracy(Z, Y, np.full((120, 6), np.inf), VAL[1]), "NaN"),
        (lambda: one_shot_accuracy(Z, Y, VAL[0], None), "y_val is None"),
        (lambda: one_shot_accuracy(*TRAIN, *VAL, n_draws=2.5), "n_draws"),
        (lambda: one_shot_accuracy(*TRAIN, *VAL, classifier="forest"), "classifier"),
        (lambda: rotation_accuracy(TURNS[0], TURNS_VAL), "(n_images, 4, dim)"),
        (lambda: rotation_accuracy(TURNS, TURNS_VAL[:, :2]), "z_val has the shape (25, 2, 8)"),
        (lambda: rotation_accuracy(TURNS, TURNS_VAL[:, :, :5]), "z_val has 5 features"),
        (lambda: rotation_accuracy(TURNS[:3], TURNS_VAL), "at least 4"),
        (lambda: rotation_accuracy(TURNS, TURNS_VAL[:1]), "z_val holds views of 1 image"),
        (lambda: rotation_accuracy(TURNS, TURNS), "All 40 images of z_val"),
        (lambda: rotation_accuracy(TURNS, TURNS_VAL, k=0), "k"),
    ],
)
def test_what_has_no_answer_is_refused_in_a_sentence(call: Any, fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        call()
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
