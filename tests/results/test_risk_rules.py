"""What a risk decomposition trains, tunes and tests on, what it refuses, and what it warns of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from tests.planted_features import GridProbe, balanced_labels, features, gaussian_pair
from zoo import card
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED
from zoo.errors import DataError, QueryError
from zoo.evaluation.risk import ASSUMPTION, decompose, format_pretraining_warning

N_TRAIN, N_TEST = 60, 16


class Watched:
    """Keeps which rows it is given; the features are the number of the image, test images come after 1,000."""

    made: list[Watched]

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int], list[int]]] = []
        self.report_: dict[str, Any] = {}
        Watched.made.append(self)

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> Watched:
        self.calls.append(("fit", _numbers(x), _numbers(x_val)))
        return self

    def refit(self, x: Any, y: Any) -> Watched:
        self.calls.append(("refit", _numbers(x), []))
        return self

    def predict(self, x: Any) -> Any:
        self.calls.append(("predict", _numbers(x), []))
        return np.zeros(len(x), dtype=np.int64)


def _numbers(x: Any) -> list[int]:
    return np.asarray(x)[:, 0].astype(int).tolist()


def numbered() -> Any:
    y_train, y_test = balanced_labels(N_TRAIN, 2), balanced_labels(N_TEST, 2)
    train = features(np.arange(N_TRAIN)[:, None], y_train)
    return train, features(1000 + np.arange(N_TEST)[:, None], y_test, split="val")


def watched(**options: Any) -> list[Watched]:
    Watched.made = []
    decompose(*numbered(), probe=Watched, **options)
    return Watched.made


def test_each_risk_is_tuned_on_what_mirrors_its_evaluation() -> None:
    everything, tests = list(range(N_TRAIN)), [1000 + number for number in range(N_TEST)]
    full_shot, own, *held_out = watched(n_subsets=2)

    (_, choice, tuning), (_, refitted, _), (_, evaluated, _) = full_shot.calls
    assert sorted(choice + tuning) == refitted == everything and evaluated == tests
    assert len(tuning) == N_TRAIN * 0.2  # no more than a fifth, which is fewer than the test images

    assert own.calls == [("fit", everything, everything), ("predict", everything, [])]

    for probe in held_out:
        (_, choice, tuning), (_, refitted, _), (_, subset, _) = probe.calls
        assert len(subset) == N_TEST and sorted(refitted + subset) == everything
        assert sorted(choice + tuning) == refitted and not set(tuning) & set(subset)
    assert held_out[0].calls[-1] != held_out[1].calls[-1]


def test_the_alternative_order_trains_on_the_test_set_alone() -> None:
    tests = [1000 + number for number in range(N_TEST)]
    assert watched(order="alternative")[-1].calls == [("fit", tests, tests), ("predict", tests, [])]


def test_features_that_cannot_be_decomposed_are_refused_in_a_sentence() -> None:
    train, test = gaussian_pair()
    broken = np.array(test.x)
    broken[5, 2] = np.nan
    fewer = replace(features(train.x, train.y % 3), classes=train.classes)
    unlabelled = features(train.x, np.where(np.arange(len(train.y)) == 7, -1, train.y))
    twin = features(train.x, train.y, encoder="twin", images_hash="other")
    ones = features(np.ones((9, 2)), np.zeros(9)), features(np.ones((3, 2)), np.zeros(3), split="val")
    cases: list[tuple[Any, Any, str]] = [
        (train, features(test.x, test.y, split="val", encoder="other"), "differ in encoder"),
        (train, train, "expected test images that no probe is trained on"),
        (train, features(broken, test.y, split="val"), r"The image 'val/5.png' .* has features that are not"),
        (*ones, "All 9 training images have the label 'class 0'"),
        (fewer, test, "20 test images have the label 'class 3', which no training image has"),
        (unlabelled, test, r"1 image .* has no label, the first is the image 'train/7\.png'"),
    ]
    for one, other, words in cases:
        with pytest.raises(DataError, match=words):
            decompose(one, other, probe=GridProbe)
    with pytest.raises(DataError, match="The features of the supervised twin 'twin' are of other images"):
        decompose(train, test, probe=GridProbe, supervised=twin)


@for_each(
    [
        ({"order": "Eq. 6"}, "There is no decomposition 'Eq. 6'"),
        ({"n_subsets": 0}, "Asked for 0 held-out subsets; expected at least 1"),
        ({"n_bootstrap": 5}, "Asked for 5 draws of the bootstrap; expected at least 100"),
        ({"supervised": 120.0}, "supervised twin is 120.0; expected 0 to 100 percent"),
    ],
    arguments=2,
)
def test_a_request_that_cannot_be_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        decompose(*gaussian_pair(), probe=GridProbe, **options)


def with_pretraining(**facts: Any) -> Any:
    known = card("dino_rn50")
    return replace(known, pretraining=replace(known.pretraining, **facts))


@for_each(
    [
        ({"dataset": "CLIP"}, "was pretrained on CLIP, not on imagenet-1k"),
        ({"dataset": NOT_PUBLISHED}, "What dino_rn50 was pretrained on is not published"),
        ({"dataset": NOT_APPLICABLE}, "was not pretrained on images"),
        ({"dataset": "30% ImageNet-1K"}, "was pretrained on 30 % of ImageNet-1K"),
        ({"dataset": "ImageNet-1K", "finetuning_dataset": "mscoco"}, "was trained further on mscoco"),
    ],
    arguments=2,
)
def test_another_pretraining_distribution_has_a_sentence_of_its_own(facts: dict[str, Any], words: str) -> None:
    assert words in format_pretraining_warning(with_pretraining(**facts), dataset="imagenet-1k")


def test_the_report_says_what_must_be_true_and_warns_by_the_card() -> None:
    train, test = gaussian_pair()
    silent, warned = (
        decompose(train, test, probe=GridProbe, n_subsets=1, card=known) for known in (None, card("dino_rn50"))
    )
    assert silent.assumption == warned.assumption == ASSUMPTION
    assert silent.warning == "" and "not on planted-images" in warned.warning
