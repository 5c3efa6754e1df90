"""Label entropy of linear classifiers: closed forms, scikit-learn as an oracle, and what may not change it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.labelled import source_label_entropy, target_label_entropy


def _classes(n: int, *, seed: int, distance: float, n_classes: int = 3, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return distance * np.eye(n_classes, dim)[y] + generator.normal(size=(n, dim)), y


_TRAIN, _VAL = _classes(300, seed=0, distance=2.0), _classes(150, seed=1, distance=2.0)


@pytest.mark.parametrize("c", [0.01, 1.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_entropy_is_that_of_scikit_learns_classifier(c: float, n_classes: int) -> None:
    z, y = _classes(200, seed=0, distance=2.0, n_classes=n_classes)
    z_val, y_val = _classes(80, seed=1, distance=2.0, n_classes=n_classes)
    reference = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(z, y)
    p = reference.predict_proba(z_val)
    found = source_label_entropy(z, y, z_val, y_val, C=c)
    assert found.value == pytest.approx(-(p * np.log(p)).sum(axis=1).mean(), abs=2e-3)
    assert found.accuracy == pytest.approx(100 * reference.score(z_val, y_val), abs=1.3)
    assert (found.C, found.n_classes, found.held_out_accuracy) == (c, n_classes, None) and found.converged


def test_classes_far_apart_leave_no_doubt() -> None:
    z, y = _classes(120, seed=0, distance=60.0)
    z_val, y_val = _classes(60, seed=1, distance=60.0)
    found = source_label_entropy(z, y, z_val, y_val)
    assert 0 <= found.value < 0.02 and found.accuracy == 100.0 == found.held_out_accuracy


def test_labels_that_features_say_nothing_of_leave_nearly_all_of_log_n_classes() -> None:
    generator = np.random.default_rng(0)
    z, z_val = generator.normal(size=(600, 5)), generator.normal(size=(300, 5))
    y, y_val = np.arange(600) % 4, np.arange(300) % 4
    assert 0.97 * math.log(4) < source_label_entropy(z, y, z_val, y_val).value <= math.log(4) + 1e-12


def test_a_point_between_two_classes_has_the_entropy_log_2() -> None:
    z = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    found = target_label_entropy(z, [0, 0, 1, 1], [[0.0], [0.0]], C=1.0)
    assert found.value == pytest.approx(math.log(2), abs=1e-4) and found.standard_error == pytest.approx(0.0, abs=1e-6)


def test_the_target_is_measured_with_the_same_classifier_and_no_label() -> None:
    source = source_label_entropy(*_TRAIN, *_VAL)
    target = target_label_entropy(*_TRAIN, _VAL[0])
    assert target.value == source.value and target.C == source.C
    assert target.accuracy is None and source.accuracy is not None and source.accuracy > 60


def test_images_beyond_the_classes_are_certain_and_images_between_them_are_not() -> None:
    towards = target_label_entropy(*_TRAIN, 10 * np.eye(3, 6)).value
    between = target_label_entropy(*_TRAIN, np.full((5, 6), 2 / 3)).value
    assert towards < 0.1 < 0.9 * math.log(3) < between


@pytest.mark.parametrize("scale", [1e-25, 1e-4, 1000.0, 1e25])
def test_the_scale_of_features_does_not_matter_where_c_is_chosen(scale: float) -> None:
    expected = source_label_entropy(*_TRAIN, *_VAL).value
    scaled = source_label_entropy(_TRAIN[0] * scale, _TRAIN[1], _VAL[0] * scale, _VAL[1]).value
    assert scaled == pytest.approx(expected, abs=1e-3)


def test_the_order_of_rows_and_the_names_of_classes_do_not_matter_for_a_given_c() -> None:
    order, order_val = np.random.default_rng(3).permutation(300), np.random.default_rng(4).permutation(150)
    names = np.array(["zebra", "ant", "mole"])
    expected = source_label_entropy(*_TRAIN, *_VAL, C=0.1)
    found = source_label_entropy(
        _TRAIN[0][order], names[_TRAIN[1][order]], _VAL[0][order_val], names[_VAL[1][order_val]], C=0.1
    )
    assert found.value == pytest.approx(expected.value, abs=1e-4) and found.accuracy == expected.accuracy


def test_float32_and_tensors_give_the_same_number_within_rounding() -> None:
    expected = source_label_entropy(*_TRAIN, *_VAL).value
    z, y, z_val, y_val = (torch.from_numpy(x) for x in (*_TRAIN, *_VAL))
    assert source_label_entropy(z.float(), y, z_val.float(), y_val).value == pytest.approx(expected, abs=1e-4)


_Z, _Y = _TRAIN


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((_Z, _Y[:-1], *_VAL), r"y has the shape \(299,\)"),
        ((_Z, _Y, _VAL[0], _VAL[1][:5]), r"y_val has the shape \(5,\)"),
        ((_Z, np.zeros(300), *_VAL), "one class only"),
        ((_Z, np.minimum(_Y, 1), *_VAL), r"1 class of y_val \(2 first\) has no image in y"),
        ((_Z, _Y.astype(str), *_VAL), "expected labels of one kind"),
        ((_Z, _Y, _VAL[0][:, :4], _VAL[1]), "z_val has 4 features"),
        ((_Z[:3], _Y[:3], *_VAL), "needs at least 4"),
        ((np.ones((300, 6)), _Y, *_VAL), "All 300 rows of z are equal"),
        ((np.full_like(_Z, np.inf), _Y, *_VAL), "NaN or infinity"),
        ((_Z, None, *_VAL), "y is None"),
        ((_Z[:4], ["a", "b", "c", "d"], _VAL[0], ["a"] * 150), "No class has two images"),
    ],
)
def test_what_has_no_answer_is_refused_in_one_sentence(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        source_label_entropy(*arguments)


@pytest.mark.parametrize("scale, scale_val", [(1e-200, 1e-200), (1e200, 1e200), (1.0, 1e60), (1e-29, 1e29)])
def test_features_too_far_from_1_are_refused_instead_of_becoming_nan(scale: float, scale_val: float) -> None:
    with pytest.raises(DataError, match="scale the features of all images"):
        target_label_entropy(_TRAIN[0] * scale, _TRAIN[1], _VAL[0] * scale_val)


def test_a_target_of_another_width_and_options_without_a_meaning_are_refused() -> None:
    with pytest.raises(DataError, match="z_target has 2 features"):
        target_label_entropy(*_TRAIN, np.ones((5, 2)))
    for options in ({"C": 0.0}, {"select": "luck"}):
        with pytest.raises(QueryError):
            target_label_entropy(*_TRAIN, _VAL[0], **options)
