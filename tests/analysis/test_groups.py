"""Means by group and their differences, on planted populations whose answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.which_objectives_are_usable.differences import compare_group_means, estimate_adjusted_differences
from zoo.analysis.groups import estimate_group_means
from zoo.analysis.table import build_table

WORSE = {"clustering": 4.0, "contrastive": 6.0, "generative": 15.0}  # planted means of usability


def planted(n: int = 30, *, seed: int = 0, **cells: Any) -> dict[str, dict[str, Any]]:
    noise = np.random.default_rng(seed)
    return {
        f"{mode}_{position}": {"usability": mean + noise.normal(), "ssl_mode": mode, **cells}
        for mode, mean in WORSE.items()
        for position in range(n)
    }


def test_means_are_ordered_and_their_intervals_hold_the_planted_means() -> None:
    means = estimate_group_means(build_table(planted()), "usability", "ssl_mode")
    assert [estimate.term for estimate in means] == list(WORSE)
    for estimate in means:
        assert estimate.n == 30 and estimate.unit == "percentage points"
        assert estimate.ci_low is not None and estimate.ci_high is not None
        assert estimate.ci_low < WORSE[estimate.term] < estimate.ci_high


def test_planted_differences_are_found_and_corrected_for_their_number() -> None:
    pairs = {
        estimate.term: estimate for estimate in compare_group_means(build_table(planted()), "usability", "ssl_mode")
    }
    assert set(pairs) == {"generative - contrastive", "generative - clustering", "contrastive - clustering"}
    planted_difference = {
        "generative - clustering": 11.0,
        "generative - contrastive": 9.0,
        "contrastive - clustering": 2.0,
    }
    for term, difference in planted_difference.items():
        found = pairs[term]
        assert found.ci_low is not None and found.ci_high is not None and found.p is not None
        assert found.ci_low < difference < found.ci_high
        assert found.p_adjusted is not None and found.p <= found.p_adjusted < 1e-6
        assert found.family == "usability by pairs of ssl_mode"


def test_a_group_that_a_fixed_column_determines_is_not_identified() -> None:
    rows = planted(10)
    for encoder, cells in rows.items():
        if cells["ssl_mode"] != "generative":  # generative ones have no projector, and only they
            cells["projection1_arch"] = "mlp" if encoder.endswith(("1", "2", "3")) else "linear"
    found = {
        estimate.term: estimate
        for estimate in estimate_adjusted_differences(
            build_table(rows), "usability", "ssl_mode", reference="contrastive", fixed=("projection1_arch",)
        )
    }
    lost = found["generative - contrastive"]
    assert lost.value is None and lost.p is None and lost.ci_low_robust is None
    assert "projection1_arch[none]" in lost.note
    assert found["clustering - contrastive"].value == pytest.approx(-2.0, abs=1.0)
    assumed = estimate_adjusted_differences(
        build_table(rows),
        "usability",
        "ssl_mode",
        reference="contrastive",
        fixed=("projection1_arch",),
        missing={"projection1_arch": "linear"},
    )
    assert {one.method for one in found.values()} == {"linear, fixed: projection1_arch"}
    assert {one.method for one in assumed} == {"linear, fixed: projection1_arch, no projector called linear"}
    assert next(one for one in assumed if one.term == lost.term).value == pytest.approx(9.0, abs=1.5)
