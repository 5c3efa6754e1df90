"""Label settings: their names, the rows they train on, and the rows that a probe's settings are chosen on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.each import for_each
from tests.planted_features import balanced_labels, features
from zoo.errors import DataError, QueryError
from zoo.evaluation.measuring import PUBLISHED_SETTINGS, TUNING_SHARE, TuningSplit, divide, label_setting
from zoo.features import Features
from zoo.results.values import SETTINGS

LABELS = balanced_labels(1000, 10)


def labelled(labels: np.ndarray, *, classes: tuple[str, ...] = ()) -> Features:
    return replace(features(np.zeros((len(labels), 1), np.float32), labels), classes=classes)


def divided(name: str, *, n_test: int = 200, seed: int = 0) -> TuningSplit:
    return divide(label_setting(name), labelled(LABELS), n_test=n_test, seed=seed)


def test_the_published_settings_have_their_published_splits() -> None:
    published = {setting.split for setting in SETTINGS}
    assert {label_setting(name).split for name in PUBLISHED_SETTINGS} == published


@for_each([("100%", "full"), ("100.0 %", "full"), ("5SHOT", "5-shot"), ("1.50%", "1.5%")], arguments=2)
def test_two_spellings_are_one_setting(name: str, same_as: str) -> None:
    assert label_setting(name) == label_setting(same_as)
    assert label_setting(same_as).name == same_as


@for_each(["", "0-shot", "03-shot", "0%", "101%", "-1%", "half", "1.5-shot", "%"])
def test_another_name_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(
        QueryError, match=r"There is no label setting .* expected 'full', labels per class as in '30-shot'"
    ):
        label_setting(name)


def test_few_shot_probes_are_tuned_on_as_many_other_training_images_as_there_are_test_images() -> None:
    found = divided("5-shot")
    assert np.bincount(LABELS[found.train]).tolist() == [5] * 10
    assert len(found.tuning) == 200 and not found.refits
    assert not set(found.tuning) & set(found.train)
    assert np.bincount(LABELS[found.tuning]).tolist() == [20] * 10


def test_a_full_shot_probe_holds_a_fifth_out_and_is_trained_again_on_all() -> None:
    found = divided("full", n_test=500)
    assert len(found.train) == 1000 and found.refits
    assert len(found.tuning) == TUNING_SHARE * 1000 and len(found.choice) == 800
    assert sorted([*found.choice, *found.tuning]) == list(range(1000))


def test_where_too_few_images_lie_outside_the_setting_its_own_are_held_out() -> None:
    found = divided("98-shot")
    assert found.refits and len(found.train) == 980
    assert set(found.tuning) <= set(found.train)


def test_a_seed_gives_the_same_rows_and_another_others() -> None:
    first, again, other = (divided("5-shot", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.train, again.train) and np.array_equal(first.tuning, again.tuning)
    assert not np.array_equal(first.train, other.train) and not np.array_equal(first.tuning, other.tuning)


def test_fewer_images_than_shots_name_the_class_and_its_number() -> None:
    labels = np.append(LABELS, [10, 10])
    with pytest.raises(DataError, match="'crane' has 2"):
        divide(label_setting("5-shot"), labelled(labels, classes=(*"abcdefghij", "crane")), n_test=9, seed=0)
