"""Tradeoffs between risks: correlations over the same encoders, selection, and the Pareto front."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from analysis.full_shot_or_few_shot.tradeoffs import beyond_selection, correlation_change, pareto_front
from zoo.analysis.table import StudyTable, build_table


def population(n: int = 60, *, tie: float = 0.5, seed: int = 0) -> StudyTable:
    """Usability and probe generalization that have nothing to do with each other, and errors that follow one each."""
    rng = np.random.default_rng(seed)
    usability, probe = rng.normal(10, 3, n), rng.normal(20, 3, n)
    return build_table(
        {
            f"enc{i:03d}": {
                "usability": round(usability[i] / tie) * tie,
                "probe_gen": probe[i],
                "enc_gen": 3.0,
                "train_test": usability[i] + probe[i] + 3,
                "train-nperclass-3_test": 40 + 2 * probe[i],
                "year": 2020 + i % 2,
                "objective": f"obj{i % 7}",
            }
            for i in range(n)
        }
    )


def test_a_change_of_tau_is_over_the_same_encoders() -> None:
    table = population()
    table.frame.loc["enc000", "train-nperclass-3_test"] = float("nan")
    first, second = ("probe_gen", "train-nperclass-3_test"), ("probe_gen", "train_test")
    change = correlation_change(table, first, second)
    rows = table.frame.dropna(subset=["train-nperclass-3_test"])
    expected = 1.0 - kendalltau(rows["probe_gen"], rows["train_test"]).statistic
    assert (change.value, change.n, change.p) == (pytest.approx(expected), 59, None)
    assert change.ci_low is not None and change.ci_low > 0
    same = correlation_change(table, second, second)
    assert (same.value, same.ci_low, same.ci_high) == (0.0, 0.0, 0.0)


def test_choosing_by_the_sum_makes_unrelated_risks_trade_off_and_nothing_is_left_beyond_it() -> None:
    found = {one.term: one for one in beyond_selection(population(200), "usability", "probe_gen", fraction=0.2)}
    assert found["all groups"].value is not None and found["all groups"].value < -0.2
    assert found["by selection alone"].value is not None and found["by selection alone"].value < -0.2
    beyond = found["beyond selection"]
    assert beyond.p is not None and beyond.p > 0.05
    assert beyond.ci_low is not None and beyond.ci_high is not None and beyond.ci_low < 0 < beyond.ci_high
    assert (found["2020"].n, found["2021"].n, beyond.n) == (20, 20, 40)


def test_a_real_tradeoff_is_found_beyond_selection() -> None:
    rng = np.random.default_rng(1)
    usability = rng.uniform(0, 10, 100)
    probe = 20 - usability + rng.normal(0, 0.5, 100)
    table = build_table(
        {
            f"e{i:03d}": {
                "usability": usability[i],
                "probe_gen": probe[i],
                "year": 2020,
                "train_test": usability[i] + probe[i],
            }
            for i in range(100)
        }
    )
    for fraction in (0.2, 1.0):
        *_, beyond = beyond_selection(table, "usability", "probe_gen", fraction=fraction)
        assert beyond.value is not None and beyond.value < 0 and beyond.p is not None and beyond.p < 0.05


def test_the_pareto_front_keeps_whom_nobody_beats() -> None:
    points = {"a": (1, 5), "b": (2, 3), "c": (3, 3), "d": (4, 1), "e": (4, 1), "f": (5, 5), "g": (2, None)}
    frame = build_table({name: {"usability": x, "probe_gen": y} for name, (x, y) in points.items()}).frame
    assert list(pareto_front(frame, "usability", "probe_gen").index) == ["a", "b", "d", "e"]
