"""The risk decomposition on planted problems whose risks are known in closed form."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group

from tests.each import for_each
from tests.planted_features import GridProbe, balanced_labels, features, gaussian_pair, one_hot
from zoo.cards.schema import NOT_PUBLISHED
from zoo.errors import DataError
from zoo.evaluation import LogisticProbe
from zoo.evaluation.risk import ORDERS, RiskReport, decompose
from zoo.features import Features

K, N_TRAIN, N_TEST = 4, 80, 20
CHANCE = 100 * (K - 1) / K
Y_TRAIN, Y_TEST = balanced_labels(N_TRAIN, K), balanced_labels(N_TEST, K)
PARTS = ("approximation", "usability", "probe_generalization", "encoder_generalization")
TOLERANCE = 1e-12
PROBES = (GridProbe, LogisticProbe)


def planted(x_train: Any, x_test: Any, *, y_train: Any = Y_TRAIN, y_test: Any = Y_TEST) -> tuple[Features, Features]:
    return features(x_train, y_train), features(x_test, y_test, split="val")


def parts(report: RiskReport) -> list[float]:
    found = [getattr(report.decomposition, name) for name in PARTS]
    assert all(isinstance(value, float) for value in found)
    return found


CLASS_TRAIN, CLASS_TEST = one_hot(Y_TRAIN, K), one_hot(Y_TEST, K)


IDS, ONES = np.eye(N_TRAIN + N_TEST), np.ones((N_TRAIN + N_TEST, 3))
PLANTED = {  # features of training and test images, and the parts of their error
    "the class": (CLASS_TRAIN, CLASS_TEST, [0, 0, 0, 0]),
    "constant": (ONES[:N_TRAIN], ONES[N_TRAIN:], [0, CHANCE, 0, 0]),
    "the image": (IDS[:N_TRAIN], IDS[N_TRAIN:], [0, 0, CHANCE, 0]),
    "the class of training images alone": (CLASS_TRAIN, np.zeros((N_TEST, K)), [0, 0, 0, CHANCE]),
}


@for_each(product(PLANTED, PROBES), arguments=2)
def test_planted_features_have_all_their_error_in_one_part(kind: str, probe: Any) -> None:
    x_train, x_test, expected = PLANTED[kind]
    for order in ORDERS if kind in ("the class", "constant") else ORDERS[:1]:
        report = decompose(*planted(x_train, x_test), probe=probe, supervised=0.0, order=order)
        assert parts(report) == pytest.approx(expected, abs=TOLERANCE)


@for_each(PROBES)
def test_label_noise_of_a_known_rate_is_usability(probe: Any) -> None:
    n, rate = 400, 0.1
    clean_train, clean_test = balanced_labels(n, K), balanced_labels(100, K)
    flips = np.arange(n) // K % 10 == 0  # a tenth of each class
    test_flips = np.arange(100) // K % 5 == 0  # a fifth of each class
    train = features(one_hot(clean_train, K), np.where(flips, (clean_train + 1) % K, clean_train))
    test = features(one_hot(clean_test, K), np.where(test_flips, (clean_test + 1) % K, clean_test), split="val")
    report = decompose(train, test, probe=probe, supervised=0.0, n_subsets=8)
    assert report.decomposition.usability == pytest.approx(100 * rate, abs=TOLERANCE)
    assert report.decomposition.full_shot_error == pytest.approx(20, abs=TOLERANCE)
    found = report.intervals["probe_generalization"]
    assert found.ci_low is not None and found.ci_high is not None and found.ci_low <= 0 <= found.ci_high
    assert abs(found.value) < 3


def test_a_twin_with_a_recorded_error_shifts_usability_and_keeps_its_sign() -> None:
    report = decompose(*planted(CLASS_TRAIN, CLASS_TEST), probe=GridProbe, supervised=7.5)
    assert parts(report) == [7.5, -7.5, 0, 0]
    assert report.intervals["approximation"].ci_low is None  # nobody recorded how sure it is


def test_the_features_of_a_twin_give_its_training_error() -> None:
    train, test = planted(CLASS_TRAIN, CLASS_TEST)
    twin = features(np.ones((N_TRAIN, 2)), Y_TRAIN, encoder="twin", weights_hash="v")
    report = decompose(train, test, probe=GridProbe, supervised=twin)
    assert parts(report) == pytest.approx([CHANCE, -CHANCE, 0, 0], abs=TOLERANCE)
    twin_risk = report.risks["R_PhiF"]
    assert (twin_risk.metric, twin_risk.split) == ("supervised_twin_error", "train -> train")
    assert twin_risk.error.ci_low is not None and twin_risk.error.ci_low < CHANCE


def test_without_a_twin_approximation_and_usability_are_merged() -> None:
    report = decompose(*planted(np.ones((N_TRAIN, 3)), np.ones((N_TEST, 3))), probe=GridProbe)
    assert report.decomposition.approximation is NOT_PUBLISHED and report.decomposition.usability is NOT_PUBLISHED
    assert report.decomposition.approximation_plus_usability == pytest.approx(CHANCE)
    assert set(report.intervals) == {
        "approximation_plus_usability",
        "probe_generalization",
        "encoder_generalization",
        "full_shot_error",
    }


@for_each(product(ORDERS, [None, 3.0]), arguments=2)
def test_the_parts_add_up_to_the_full_shot_error(order: Any, supervised: float | None) -> None:
    train, test = gaussian_pair()
    report = decompose(train, test, probe=GridProbe, supervised=supervised, order=order)
    assert report.decomposition.full_shot_error == pytest.approx(report.risks["R_US"].error.value, abs=TOLERANCE)
    own = report.draws["approximation_plus_usability"]
    total = own + report.draws["probe_generalization"] + report.draws["encoder_generalization"]
    assert np.abs(total - report.draws["full_shot_error"]).max() < TOLERANCE
    for name, found in report.intervals.items():
        assert found.ci_low is None or found.ci_low <= found.value <= found.ci_high, name  # type: ignore[operator]


def test_the_alternative_order_switches_the_generalizations() -> None:
    ids = np.eye(N_TRAIN + N_TEST)
    report = decompose(*planted(ids[:N_TRAIN], ids[N_TRAIN:]), probe=GridProbe, order="alternative")
    assert set(report.risks) == {"R_US", "R_AF", "R_UF"}
    assert report.risks["R_UF"].error.value == 0  # the probe fits all test images
    assert report.decomposition.probe_generalization == pytest.approx(CHANCE)
    assert report.decomposition.encoder_generalization == 0


def test_a_class_without_a_test_image_is_said_and_one_class_alone_has_no_alternative() -> None:
    train, test = planted(CLASS_TRAIN, CLASS_TEST)
    few = features(np.asarray(test.x)[test.y != 1], test.y[test.y != 1], split="val")
    report = decompose(train, few, probe=GridProbe, supervised=0.0)
    assert report.n_classes == len(np.unique(train.y)) and sum(parts(report)) == pytest.approx(0, abs=TOLERANCE)
    assert "errors on training images count" in report.warning and "no test image" in report.warning
    assert "no test image" not in decompose(train, test, probe=GridProbe).warning
    last = test.y == test.y.max()
    one = features(np.asarray(test.x)[last], test.y[last], split="val")
    with pytest.raises(DataError, match=r"test images are of the class .* expected two classes or more"):
        decompose(train, one, probe=GridProbe, order="alternative")


@for_each(PROBES)
def test_rotated_features_have_the_same_risks(probe: Any) -> None:
    train, test = gaussian_pair()
    turn = ortho_group.rvs(train.dim, random_state=1)
    turned = [features(found.x @ turn, found.y, split=found.origin.split) for found in (train, test)]
    before, after = (decompose(*pair, probe=probe, supervised=1.0) for pair in ((train, test), turned))
    assert parts(after) == pytest.approx(parts(before), abs=0.5)
