"""The study of full-shot and few-shot: Tables 2 and 4, risks of the best, rank correlations and tradeoffs."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.full_shot_or_few_shot.best import estimate_risks_of_best, select_best_fraction, select_best_fractions
from tests.each import for_each
from tests.shipped import shipped_table, study_module
from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable, build_table
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, find_study, load_study

statements = study_module("full_shot_or_few_shot")

PUBLISHED = shipped_table()
NO_ESTIMATES = {
    name: []
    for name in (
        "best 20 %",
        "ranks",
        "pairs, all",
        "pairs, all, by objective",
        "pairs, best",
        "all of a year",
        "chosen 20 %",
        "chosen 10 %",
        "probe_gen ranks few-shot more than full-shot",
        "usability ranks full-shot more than few-shot",
    )
}
run = load_study(find_study("full_shot_or_few_shot"))


def claims(found: list[Claim] | Findings) -> dict[str, Claim]:
    return {claim.claim: claim for claim in (found.claims if isinstance(found, Findings) else found)}


@for_each(
    [(-0.5, 0.01, "agrees"), (-0.5, 0.6, "corrected"), (0.0, 0.6, "not reproducible"), (0.0, 0.01, "not reproducible")],
    arguments=3,
)
def test_figures_6_and_31b_are_judged_by_one_rule(together: float, p: float, verdict: str) -> None:
    def tau(term: str, value: float, **more: float) -> Estimate:
        return Estimate(term=term, value=value, n=9, unit="tau", outcome="usability, probe_gen", **more)  # type: ignore

    both = [
        tau("2021", -0.9),
        tau("2022", 0.3),
        tau("all groups", together),
        tau("by selection alone", -0.3, ci_low=-0.6, ci_high=0.1),
        tau("beyond selection", together + 0.3 if p > 0.05 else -0.2, p=p),
    ]
    found = statements.Found(
        PUBLISHED, PUBLISHED.frame.iloc[:0], NO_ESTIMATES | dict.fromkeys(("chosen 20 %", "chosen 10 %"), both)
    )
    judged = statements.of_tradeoffs.judged(found)
    assert [one.verdict for one in judged if "usability/probe" in one.claim] == [verdict] * 2


def small(n: int = 3) -> StudyTable:
    rng = np.random.default_rng(0)
    return build_table(
        {
            f"e{i}": {
                "train_test": 30.0 + i,
                "train-nperclass-3_test": 60.0 + i,
                "usability": float(rng.uniform(1, 9)),
                "probe_gen": 15.0,
                "year": 2022,
                "family": "vit",
                "pretraining_data": "ImageNet-1K",
            }
            for i in range(n)
        }
    )


def test_encoders_that_lack_most_columns_answer_what_they_can_and_say_why_not_the_rest() -> None:
    found = run(small(5), StudyOptions())
    gone = [claim for claim in found.claims if claim.ours == "not available"]
    assert len(gone) == 32
    assert all(claim.verdict == "not reproducible" and claim.reason.count(". ") == 0 for claim in gone)
    assert found.tables[3].rows[0][0] == "e0"  # nobody beats it in both settings
    with use_style():
        for figure in found.figures:
            figure.draw()


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
    return build_table({name: {**cells, **changes.get(name, {})} for name, cells in rows.items()})


def test_the_winner_has_the_lowest_error_of_its_category_and_ties_go_to_the_first_id() -> None:
    found = winners.winner(planted(), RESNET, "train_test")
    assert (found.encoder, found.runner_up, found.error, found.margin, found.n) == ("b", "c", 20.0, 0.0, 3)


def test_the_best_fraction_is_rounded_up_and_ordered() -> None:
    frame = planted().frame
    assert list(select_best_fraction(frame, by="train_test", fraction=0.2).index) == ["w"]
    assert list(select_best_fraction(frame, by="train_test", fraction=0.5).index) == ["w", "v", "b"]
    assert list(select_best_fractions(frame, "year", by="train_test", fraction=0.1).index) == ["d", "b"]


def traded(n: int = 50) -> StudyTable:
    """Encoders whose usability counts with all labels and whose probe generalization counts with few."""
    return build_table(
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
    found = {
        (one.term, one.outcome): one for one in estimate_risks_of_best(traded(), SETTINGS, ("usability", "probe_gen"))
    }
    full, few = (found[f"best 20 % by {setting}", "usability"] for setting in SETTINGS)
    assert (full.value, few.value, full.n) == (4.5, 44.5, 10)  # the means of 0..9 and of 40..49
    change = found[f"best 20 % by {SETTINGS[1]} - by {SETTINGS[0]}", "probe_gen"]
    assert change.value == pytest.approx(-40.0)
    assert change.ci_low is not None and change.ci_high is not None and change.ci_low < -40 < change.ci_high < -30
