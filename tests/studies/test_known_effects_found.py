"""Methods asked for effects: their answers are those of the methods themselves, and counts are right."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.which_methods_find_the_effects.known_effects import (
    ASSOCIATION,
    CONTROLLED,
    LINEAR,
    QUESTIONS,
    TREES,
    Answers,
    Plan,
    answered_by,
    fared,
    fared_together,
    linear_answers,
    no_answer,
    questions_of,
    tree_answers,
)
from tests.shipped import shipped_table
from zoo.analysis.linear import fit_ols
from zoo.analysis.table import build_table

DIM = next(one for one in QUESTIONS if one.name == "dim")
VIT = next(one for one in QUESTIONS if one.name == "vit")
LIGHT = {"rounds": 30, "eta": 0.3, "max_depth": 3, "min_child_weight": 1, "lambda": 1.0, "alpha": 0.0,
         "subsample": 1.0, "colsample_bytree": 1.0}  # fmt: skip


def answers(value: list[float], found: list[bool], *, half: float = 1.0, method: str = LINEAR, question=DIM) -> Answers:
    """Answers with intervals of the half-width ``half``."""
    numbers = np.array(value)
    return Answers(
        method=method, question=question, n=9, value=numbers, low=numbers - half, high=numbers + half,
        low_robust=numbers - 2 * half, high_robust=numbers + 2 * half, p=np.where(found, 0.01, 0.5),
        found=np.array(found),
    )  # fmt: skip


def test_many_outcomes_are_answered_as_least_squares_answers_each():
    chance = np.random.default_rng(0)
    design = pd.DataFrame(chance.normal(size=(30, 3)), columns=["constant", "a", "b"]).assign(constant=1.0)
    outcomes = pd.DataFrame(chance.normal(size=(30, 4)) * np.exp(design[["a"]].to_numpy()))
    plan = Plan(
        method=LINEAR, question=DIM, rows=design.index, design=design.to_numpy(), weights=np.array([0.0, 2.0, 0.0])
    )
    found = answered_by(plan, outcomes)
    for draw in outcomes:
        one = fit_ols(design, outcomes[draw], outcome_name="y", unit="", method="").estimate("a")
        assert found.value[draw] == pytest.approx(2 * one.value)
        assert found.p[draw] == pytest.approx(one.p)
        assert (found.low[draw], found.high[draw]) == pytest.approx((2 * one.ci_low, 2 * one.ci_high))
        assert (found.low_robust[draw], found.high_robust[draw]) == pytest.approx(
            (2 * one.ci_low_robust, 2 * one.ci_high_robust)
        )


def test_what_a_method_cannot_answer_has_the_reason():
    table = shipped_table()
    found = {(one.method, one.question.name): one for one in linear_answers(table, questions_of(table), "usability")}
    generative = found[LINEAR, "mode generative"]
    assert not generative.answered.any() and "not identified" in generative.why
    vit = found[CONTROLLED, "vit"]
    assert vit.n == 0 and "varies in no group" in vit.why
    assert found[ASSOCIATION, "vit"].answered.all()


def steps(n: int = 40):
    """Encoders whose usability is 10 lower with 4 times the dimensions, and nothing else."""
    return build_table(
        {
            f"enc_{number:02}": {
                "z_dim": 512 if number % 2 else 2048, "family": "vit" if number % 4 < 2 else "resnet", "epochs": 200,
                "usability": 20.0 - 10.0 * (number % 2 == 0),
            }
            for number in range(n)
        }
    )  # fmt: skip


def test_trees_give_a_planted_step_its_size_and_say_what_they_cannot_see():
    views = next(one for one in QUESTIONS if one.name == "epochs")
    dim, vit, epochs = tree_answers(steps(), [DIM, VIT, views], "usability", parameters=LIGHT)
    assert dim.method == TREES and dim.found.all()
    assert dim.value[0] == pytest.approx(-10, abs=0.5)  # 30 rounds of a third leave next to nothing over
    assert not vit.found.any() and vit.value[0] == pytest.approx(0, abs=0.2)
    assert not epochs.answered.any() and "does not vary" in epochs.why
    assert np.isnan(dim.low).all() and np.isnan(dim.p).all()


def test_answers_are_counted_against_the_truth():
    truth = np.array([2.0, 2.0, 2.0, 0.0, 0.0])
    found = fared(answers([2.5, -2.0, 4.0, 0.5, 3.0], [True, True, False, False, True]), truth)
    assert (found.n_draws, found.answered, found.with_effect, found.without_effect) == (5, 5, 3, 2)
    assert (found.right_sign, found.found, found.wrong, found.false) == (2, 1, 1, 1)
    assert (found.with_interval, found.covered, found.covered_robust) == (5, 2, 3)
    assert found.bias == pytest.approx((0.5 - 4.0 + 2.0 + 0.5 + 3.0) / 5)
    assert found.product / found.square == pytest.approx((2.5 - 2.0 + 4.0) / 3 / 2)
    nothing = fared(no_answer(TREES, DIM, 5, "why"), truth)
    assert (nothing.answered, nothing.with_effect, nothing.found, nothing.with_interval) == (0, 0, 0, 0)


def test_false_discoveries_and_order_are_means_over_draws():
    first = answers([3.0, 3.0], [True, False])
    second = answers([-2.0, 2.0], [True, True], question=VIT)
    third = answers([1.0, 1.0], [False, True], question=VIT)
    found = fared_together([first, second, third], [np.array([3.0, 3.0]), np.array([2.0, 2.0]), np.zeros(2)], [1, 1, 1])
    assert found.false_share == pytest.approx((1 / 2 + 1 / 2) / 2)  # wrong sign in one, no effect in the other
    assert found.order == pytest.approx(1.0)
    swapped = fared_together(
        [first, second, third], [np.zeros(2), np.array([2.0, 2.0]), np.array([3.0, 3.0])], [1, 1, 1]
    )
    assert swapped.order == pytest.approx(-1.0)
