"""The study of the two orders of the generalization errors: what agrees, what does not, and a planted population."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.shipped import shipped_findings
from tests.studies.parts import claim, find
from zoo.analysis.table import StudyTable, build_table
from zoo.studies.running import find_study, load_study

study = partial(find, load_study(find_study("does_the_order_matter")))
HELD_OUT = "train-cmplmnt-ntest_train-sbst-ntest"


def planted(n: int, union: Callable[[float, float, float, float], float]) -> StudyTable:
    """Encoders whose probe on both sets has the error that ``union`` makes of training, probe, encoder and noise."""
    rng = np.random.default_rng(0)
    rows = {}
    for number in range(n):
        training, probe, encoder = rng.uniform(2, 10), rng.uniform(10, 25), rng.uniform(1, 5)
        rows[f"planted_{number}"] = {
            "train_train": training,
            HELD_OUT: training + probe,
            "train_test": training + probe + encoder,
            "union_test": union(training, probe, encoder, rng.standard_normal()),
        }
    return build_table(rows)


def test_both_orders_add_up_to_the_same_error() -> None:
    found = shipped_findings("does_the_order_matter")
    probe, encoder = (one for one in found.estimates if "alternative minus main" in one.term)
    assert probe.value == pytest.approx(-encoder.value)  # type: ignore[operator]
    for row in found.tables[0].rows:
        first, second, third, fourth = map(float, row[1:])
        assert first + second == pytest.approx(third + fourth, abs=0.011)


def test_a_planted_population_whose_orders_agree_is_told_so() -> None:
    found = study(planted(25, lambda training, _, encoder, noise: training + encoder + 0.05 * noise))
    assert {one.verdict for one in found.claims} == {"agrees"}
    r = next(one for one in found.estimates if one.unit == "r" and one.outcome == "encoder generalization")
    assert r.value is not None and r.value > 0.99


def test_a_planted_population_whose_encoder_errors_are_unrelated_is_told_so() -> None:
    found = study(planted(25, lambda training, _, encoder, noise: training + 3 + noise))
    assert claim(found, "highly related probe").verdict == "agrees"
    assert claim(found, "highly related encoder").verdict == "corrected"
    assert claim(found, "similarly by encoder").verdict == "corrected"
