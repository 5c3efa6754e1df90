"""The best encoders of a category, of a year and of a population."""

from __future__ import annotations

import pytest

from tests.shipped import study_module
from zoo.analysis.groups import best_fraction, best_fraction_of_each, risks_of_best
from zoo.analysis.table import StudyTable, table_of

winners = study_module("full_shot_or_few_shot", "tables")

RESNET, VIT = winners.Category("ResNets", {"family": ("resnet",)}), winners.Category("ViTs", {"family": ("vit",)})
SETTINGS = ("train_test", "train-nperclass-3_test")


def planted(**changes: dict[str, object]) -> StudyTable:
    rows: dict[str, dict[str, object]] = {
        "d": {"family": "resnet", "year": 2020, "train_test": 25.0},
        "c": {"family": "resnet", "year": 2021, "train_test": 20.0, "usability": 3.0},
        "b": {"family": "resnet", "year": 2021, "train_test": 20.0},
        "a": {"family": "resnet", "year": 2021},
        "v": {"family": "vit", "train_test": 10.0},
        "w": {"train_test": 1.0},
    }
    return table_of({name: {**cells, **changes.get(name, {})} for name, cells in rows.items()})


def test_the_winner_has_the_lowest_error_of_its_category_and_ties_go_to_the_first_id() -> None:
    found = winners.winner(planted(), RESNET, "train_test")
    assert (found.encoder, found.runner_up, found.error, found.margin, found.n) == ("b", "c", 20.0, 0.0, 3)


def test_the_best_fraction_is_rounded_up_and_ordered() -> None:
    frame = planted().frame
    assert list(best_fraction(frame, by="train_test", fraction=0.2).index) == ["w"]
    assert list(best_fraction(frame, by="train_test", fraction=0.5).index) == ["w", "v", "b"]
    assert list(best_fraction_of_each(frame, "year", by="train_test", fraction=0.1).index) == ["d", "b"]


def test_a_difference_of_errors_has_the_interval_of_two_proportions() -> None:
    found = winners.error_difference(planted(), "d", "c", "train_test")
    # 1.96 sqrt((.25 .75 + .2 .8) / 50000) by hand, in percentage points
    assert found.value == pytest.approx(5.0)
    assert found.ci_low == pytest.approx(5.0 - 0.517, abs=0.01)
    assert found.ci_high == pytest.approx(5.0 + 0.517, abs=0.01)
    assert found.p is not None and found.p < 1e-9


def traded(n: int = 50) -> StudyTable:
    """Encoders whose usability counts with all labels and whose probe generalization counts with few."""
    return table_of(
        {
            f"enc{i:02d}": {
                "usability": float(i),
                "probe_gen": float(n - i),
                SETTINGS[0]: 10.0 + i,
                SETTINGS[1]: 90.0 - i,
            }
            for i in range(n)
        }
    )


def test_the_risks_of_the_best_follow_the_setting() -> None:
    found = {(one.term, one.outcome): one for one in risks_of_best(traded(), SETTINGS, ("usability", "probe_gen"))}
    full, few = (found[f"best 20 % by {setting}", "usability"] for setting in SETTINGS)
    assert (full.value, few.value, full.n) == (4.5, 44.5, 10)  # the means of 0..9 and of 40..49
    change = found[f"best 20 % by {SETTINGS[1]} - by {SETTINGS[0]}", "probe_gen"]
    assert change.value == pytest.approx(-40.0)
    assert change.ci_low is not None and change.ci_high is not None and change.ci_low < -40 < change.ci_high < -30
