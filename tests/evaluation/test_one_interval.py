"""One error has one interval, whichever part of the program computes it."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.each import for_each
from tests.evaluation.test_risk_refits import Least
from tests.planted_features import features
from zoo.choosing.comparing import RungComparison, compare_with_leader, estimate_error
from zoo.evaluation.bootstrap import (
    MOST_UNITS,
    Interval,
    compute_drawn_interval,
    compute_error_interval,
    compute_error_percents,
    resample_error_percents,
    resample_errors,
)
from zoo.evaluation.classification import classification_metrics
from zoo.evaluation.layer_choice import compute_differences, compute_variant_errors
from zoo.evaluation.measuring import measure_seeds
from zoo.evaluation.regression import compute_number_metrics
from zoo.evaluation.risk import FULL, decompose


@for_each([1, 3], name="{} images per group".format)
def test_evaluate_decompose_metrics_layers_and_a_race_print_the_same_interval(of_group: int) -> None:
    random = np.random.default_rng(0)
    parts = []
    for split, n in (("train", 240), ("val", 90)):
        y = np.repeat(np.arange(n // 6) % 2, 6)
        x = 1.5 * y[:, None] + random.standard_normal((n // 3, 4)).repeat(3, axis=0) + random.standard_normal((n, 4))
        groups = None if of_group == 1 else np.repeat(np.arange(n // 3), 3).astype(np.uint64)
        parts.append(replace(features(x, y, split=split, images_hash=split), groups=groups))
    train, test = parts
    measured = measure_seeds(train, test, FULL, n_seeds=1, probe=Least, seed=5)
    wrong = ~measured.runs[0].correct
    found = compute_error_interval(wrong, groups=test.groups)
    assert 0 < found.ci_low < found.value < found.ci_high < 100  # type: ignore[operator]
    outputs = np.eye(2)[np.where(wrong, 1 - test.y, test.y)]
    clusters = None if test.groups is None else test.groups.astype(int)
    look = RungComparison(1, 10, len(wrong), "probe", {"a": wrong}, {}, clusters, {}, 0.0, clusters)
    assert measured.error == found
    assert decompose(train, test, probe=Least, seed=9).intervals["full_shot_error"] == found
    assert classification_metrics(test.y, outputs, groups=test.groups, seed=3).metrics["error"] == found
    assert compute_variant_errors(wrong[:, None], groups=test.groups) == (found,)
    assert estimate_error(look, "a") == found


def test_errors_stay_below_100_where_they_are_moved_and_unexplained_variance_may_exceed_it() -> None:
    assert Interval(value=97.0, ci_low=94.0, ci_high=99.0).moved(4.0).value == 100
    worse = Interval(value=120.0, ci_low=98.0, ci_high=150.0).moved(4.0)
    assert (worse.value, worse.ci_low, worse.ci_high) == (124.0, 102.0, 154.0)


@for_each([None, np.repeat(np.arange(100), 4)], name=lambda groups: "images" if groups is None else "groups")
def test_an_unexplained_variance_is_resampled_with_that_of_the_numbers(groups: np.ndarray | None) -> None:
    random = np.random.default_rng(0)
    numbers = random.standard_normal(400) ** 3
    predicted = np.stack([numbers + random.normal(0, size, 400) for size in (1.0, 0.8, 1.2)], axis=1)
    losses = np.square(predicted - numbers[:, None])
    names = dict(zip("cab", losses.T, strict=True))
    look = RungComparison(1, 10, 400, "probe", names, {}, groups, {}, 0.0, groups, numbers)
    of_layers = compute_variant_errors(losses, groups=groups, numbers=numbers, seed=3)
    for name, one, layer in zip(names, predicted.T, of_layers, strict=True):
        found = compute_number_metrics(numbers, one, groups=groups, seed=3).unexplained
        for other in (layer, estimate_error(look, name, seed=3)):
            assert asdict(other) == pytest.approx(asdict(found), rel=1e-9)
    drawn = resample_error_percents(losses, groups, numbers=numbers)
    apart = drawn[:, 1] - drawn[:, 0]
    value, error, freedom = look.behind("a", "c")
    plain = (error**2 - (100 / (freedom + 1)) ** 2) ** 0.5  # without half an image more
    assert value == pytest.approx(compute_error_percents(losses[:, 1] - losses[:, 0], numbers))
    assert plain == pytest.approx(apart.std(), rel=0.15)  # by the ratio's influence, to first order


@given(
    wrong=arrays(bool, st.tuples(st.integers(2, 30), st.just(4))),
    order=st.permutations("abcd"),
    is_grouped=st.booleans(),
)
def test_differences_do_not_depend_on_the_order_of_encoders_and_are_those_of_layers(
    wrong: np.ndarray, order: list[str], is_grouped: bool
) -> None:
    clusters = np.arange(len(wrong)) // 2 if is_grouped else None
    by_name = dict(zip("abcd", wrong.T, strict=True))
    found = []
    for names in ("abcd", order):
        some = {name: by_name[name] for name in names}
        look = RungComparison(1, 10, len(wrong), "probe", some, {}, clusters, {}, 0.0, clusters)
        leader = min(sorted(names), key=look.error)
        found.append(compare_with_leader(look, [leader, *(one for one in names if one != leader)], level=0.95, seed=1))
    assert found[0] == found[1]
    draws = resample_error_percents(wrong, clusters, seed=1)
    of_layers = compute_differences(wrong, "abcd".index(leader), groups=clusters, seed=1)
    for name, layer, drawn in zip("abcd", of_layers, draws.T, strict=True):
        if name != leader:
            assert found[0][1][name].value == layer.value
            apart = drawn - draws[:, "abcd".index(leader)]
            assert layer.ci_low == min(np.percentile(apart, 2.5), layer.value)


def test_copies_of_images_in_groups_hardly_change_an_interval_and_without_groups_narrow_it() -> None:
    wrong = np.random.default_rng(1).uniform(size=80) < 0.2
    alone, again = compute_error_interval(wrong), np.repeat(wrong, 5)
    grouped, naive = compute_error_interval(again, groups=np.repeat(np.arange(80), 5)), compute_error_interval(again)
    widths = [float(one.ci_high - one.ci_low) for one in (alone, grouped, naive)]  # type: ignore[operator]
    assert widths[1] == pytest.approx(widths[0], rel=0.05) and widths[2] < 0.5 * widths[0]


def test_intervals_of_an_error_hold_it_in_nineteen_of_twenty_sets_of_groups() -> None:
    random = np.random.default_rng(2)
    held = 0
    for _ in range(300):
        sizes = 1 + random.poisson(4, 60)
        wrong = random.uniform(size=sizes.sum()) < np.repeat(random.beta(0.4, 1.6, 60), sizes)
        found = compute_error_interval(wrong, groups=np.repeat(np.arange(60), sizes))
        held += found.ci_low <= 20 <= found.ci_high  # type: ignore[operator]
    assert held >= 273  # 285 are expected; fewer than 273 with a probability of 1 %


def test_a_raised_error_of_which_none_was_seen_has_no_lower_bound_and_unexplained_variance_no_upper_one() -> None:
    raised = compute_error_interval(np.zeros(7, dtype=bool)).moved(3.8)
    assert (raised.value, raised.ci_low) == (3.8, 0.0) and raised.ci_high == pytest.approx(33.0, abs=0.1)
    assert compute_error_interval(np.ones(7, dtype=bool)).moved(3.8).ci_high == 100.0
    unexplained = Interval(value=104.0, ci_low=99.0, ci_high=120.0)  # of a probe of numbers
    assert unexplained.moved(0.0) == unexplained


@for_each([None, np.repeat(np.arange(40), 3)], name=lambda groups: "images" if groups is None else "groups")
def test_draws_of_an_error_do_not_depend_on_what_else_is_asked(groups: np.ndarray | None) -> None:
    wrong = np.random.default_rng(3).uniform(size=(120, 4)) < (0.1, 0.2, 0.2, 0.3)
    table = wrong.astype(np.int8)
    alone = resample_errors(table[:, 1:3], {"two seeds": [0, 1]}, groups=groups)["two seeds"]
    together = resample_errors(table, {"all": range(4), "two seeds": [1, 2], "one": [3]}, groups=groups)
    assert np.array_equal(alone.draws, together["two seeds"].draws)
    assert compute_drawn_interval(alone) == compute_drawn_interval(together["two seeds"])
    assert compute_drawn_interval(together["one"]) == compute_error_interval(wrong[:, 3], groups=groups)
    by_another = resample_error_percents(wrong[:, ::-1], groups)  # as layers and races have them
    assert np.allclose(by_another[:, 0], together["one"].draws)


def test_where_images_share_weights_for_they_are_many_intervals_are_as_wide_as_else() -> None:
    wrong = np.random.default_rng(4).uniform(size=(5 * MOST_UNITS, 1)) < 0.2
    drawn, known = resample_error_percents(wrong, None), compute_error_interval(wrong[:, 0])
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert high - low == pytest.approx(known.ci_high - known.ci_low, rel=0.06)  # type: ignore[operator]
