"""Errors of tuned probes in a label setting, with seeds and intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.each import for_each
from tests.planted_features import GridProbe, balanced_labels, features, gaussian_pair, one_hot
from zoo.evaluation import LogisticProbe
from zoo.evaluation.arrays import find_non_finite_row
from zoo.evaluation.measuring import ProbeCache, label_setting, measure, measure_seeds


@for_each(["full", "5-shot", "10%"])
def test_features_that_are_the_class_have_no_error_in_any_setting(name: str) -> None:
    y_train, y_test = balanced_labels(200, 5), balanced_labels(40, 5)
    train, test = features(one_hot(y_train, 5), y_train), features(one_hot(y_test, 5), y_test, split="val")
    run = measure(train, test, label_setting(name), seed=0, probe=GridProbe)
    assert run.error_percent == 0 and run.correct.all() and run.correct.shape == (40,)
    assert (run.n_train, run.n_tuning) == {"full": (200, 40), "5-shot": (25, 40), "10%": (20, 40)}[name]


def test_a_logistic_probe_is_trained_again_on_all_labels_at_the_chosen_c() -> None:
    train, test = gaussian_pair()
    run = measure(train, test, label_setting("full"), seed=0, probe=LogisticProbe)
    assert (run.n_train, run.n_tuning, run.refitted) == (240, 48, True)
    assert run.report["C"] == pytest.approx(run.report["choice"]["C"])
    assert (run.report["n_train"], run.report["choice"]["n_train"], run.report["choice"]["n_val"]) == (240, 192, 48)
    at_once = LogisticProbe(C=run.report["C"]).fit(train.x, train.y)
    assert np.array_equal(run.correct, at_once.predict(test.x) == test.y)


def test_seeds_are_averaged_and_their_interval_holds_each_ones_neighbourhood() -> None:
    train, test = gaussian_pair()
    found = measure_seeds(train, test, label_setting("3-shot"), probe=GridProbe, n_seeds=4, seed=2)
    errors = [run.error_percent for run in found.runs]
    assert [run.seed for run in found.runs] == [2, 3, 4, 5]
    assert found.error.value == pytest.approx(np.mean(errors)) and len(set(errors)) > 1
    assert found.error.ci_low is not None and found.error.ci_high is not None
    assert found.error.ci_low < found.error.value < found.error.ci_high
    again = measure_seeds(train, test, label_setting("3-shot"), probe=GridProbe, n_seeds=4, seed=2)
    assert again.error == found.error


def test_a_run_that_was_kept_is_found_again_and_another_is_not(tmp_path: Path) -> None:
    pair = gaussian_pair()

    class Unfit(GridProbe):
        def fit(self, x: object, y: object, *, x_val: object = None, y_val: object = None) -> Unfit:
            raise AssertionError("a cached run was measured again")

    kept = ProbeCache(tmp_path, protocol="grid-1")
    first = measure_seeds(*pair, label_setting("3-shot"), probe=GridProbe, n_seeds=2, cache=kept)
    again = measure_seeds(*pair, label_setting("3-shot"), probe=Unfit, n_seeds=2, cache=kept)
    assert again.error == first.error
    for one, other in zip(first.runs, again.runs, strict=True):
        assert one.correct.tolist() == other.correct.tolist() and one.rows == other.rows and one.report == other.report
    with pytest.raises(AssertionError, match="measured again"):
        measure_seeds(*pair, label_setting("3-shot"), probe=Unfit, n_seeds=3, cache=kept)  # one seed more
    with pytest.raises(AssertionError, match="measured again"):
        measure(*pair, label_setting("3-shot"), probe=Unfit, seed=0, cache=ProbeCache(tmp_path, protocol="grid-2"))


def test_the_first_row_that_is_not_finite_is_found_in_any_block() -> None:
    x = np.ones((20_000, 2), dtype=np.float32)
    assert find_non_finite_row(x) is None
    x[17_001, 1] = np.inf
    x[19_000, 0] = np.nan
    assert find_non_finite_row(x) == 17_001
