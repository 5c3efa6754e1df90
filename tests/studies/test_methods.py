"""The study of methods: its verdicts follow from what is recorded, and what is recorded is whole."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.which_methods_find_the_effects.known_effects import (
    ASSOCIATION,
    CONTROLLED,
    LINEAR,
    METHODS,
    QUESTIONS,
    STUDY_OUTCOMES,
    TREES,
    Fared,
    FaredTogether,
)
from tests.each import for_each
from tests.shipped import shipped_findings, study_module
from zoo.analysis.randomised import load_randomised_population
from zoo.errors import ContentError
from zoo.studies.findings import Claim, Findings

STUDY = "which_methods_find_the_effects"
AGREE = f"{LINEAR}, and {TREES}"
N = 200


def recorded(**changes: dict[str, Any]) -> Any:
    """Counts of methods that fare well about two choices and one outcome; ``changes`` by method."""
    module = study_module(STUDY, "recorded")
    rows, together = [], []
    by_method = {name.replace("_", " "): change for name, change in changes.items()}
    for scenario in ("randomised", "confounded", "wide ranges"):
        for method in (*METHODS, AGREE):
            change = by_method.get({CONTROLLED: "pairs", LINEAR: "linear", TREES: "trees"}.get(method, method), {})
            for question in ("dim", "epochs"):
                has_effect = question == "dim"
                row = {
                    "scenario": scenario, "outcome": "usability", "method": method, "question": question,
                    "n_draws": N, "n_encoders": 100, "answered": N, "with_effect": N * has_effect,
                    "right_sign": N * has_effect, "found": 180 * has_effect, "wrong": 0,
                    "without_effect": N * (not has_effect), "false": 10 * (not has_effect), "with_interval": N,
                    "covered": 190, "with_robust": N, "covered_robust": 192, "effect": -4.0 * has_effect, "bias": 0.0,
                    "rmse": 1.0, "product": 16.0, "square": 16.0,
                }  # fmt: skip
                if method == TREES:
                    row |= {"with_interval": 0, "covered": 0, "with_robust": 0, "covered_robust": 0}
                rows.append(row | {key: value for key, value in change.items() if row.get(key)})
            whole = {"scenario": scenario, "outcome": "usability", "method": method, "n_draws": N, "false_share": 0.05,
                     "false_share_error": 0.005, "order": 0.5, "order_error": 0.01}  # fmt: skip
            together.append(whole | {key: value for key, value in change.items() if key in whole})
    return module.Recorded(
        fared=pd.DataFrame(rows),
        together=pd.DataFrame(together),
        inflation=pd.DataFrame({"encoders": ["published"], "n_encoders": 169, "question": "dim", "inflation": 2.0}),
        provenance={
            "n_draws": N, "n_randomised": 9,
            "scenarios": dict.fromkeys(("randomised", "confounded", "wide ranges"), ""),
            "release_share": {"usability": 0.1}, "residual_sd": {"usability": 2.0},
        },
    )  # fmt: skip


def verdict_of(words: str, found: Any) -> Claim:
    """The claim that begins so, on recorded counts alone."""
    module = study_module(STUDY)
    claims = [
        claim
        for group in (module.of_methods, module.of_together)
        for claim in group.judged(module.Found(own=None, recorded=found))
    ]
    return next(claim for claim in claims if claim.claim.startswith(words))


@pytest.fixture(scope="module")
def findings() -> Findings:
    return shipped_findings(STUDY)


def test_what_is_recorded_is_whole_and_of_this_population():
    found = study_module(STUDY, "recorded").recorded()
    assert found.n_draws >= 200
    assert found.provenance["n_randomised"] == len(load_randomised_population())
    assert list(found.scenarios) == [
        "randomised", "confounded", "all effects", "wide ranges", "releases", "interactions"
    ]  # fmt: skip
    assert set(found.fared["outcome"]) == set(STUDY_OUTCOMES.values())
    assert {"scenario", "outcome", *(one.name for one in fields(Fared))} == set(found.fared)
    assert {"scenario", "outcome", *(one.name for one in fields(FaredTogether))} == set(found.together)
    assert {one.name for one in QUESTIONS} == set(found.questions("randomised"))
    counts = found.fared
    assert (counts["right_sign"] <= counts["with_effect"]).all()
    assert (counts["found"] + counts["wrong"] <= counts["with_effect"]).all()
    assert (counts["with_effect"] + counts["without_effect"] == counts["answered"]).all()
    assert (counts["covered"] <= counts["with_interval"]).all()


@for_each([
        ("Controlled pairs remove", {}, "agrees"),
        ("Controlled pairs remove", {"pairs": {"covered": 120}}, "corrected"),
        ("Controlled pairs remove", {"pairs": {"false": 60}}, "not reproducible"),
        ("The p-values and intervals", {}, "agrees"),
        ("The p-values and intervals", {"linear": {"covered": 150}}, "corrected"),
        ("Controlled pairs have an issue", {}, "corrected"),
        ("Controlled pairs have an issue", {"pairs": {"answered": 50}}, "agrees"),
        ("The sign of a SHAP value", {}, "agrees"),
        ("The sign of a SHAP value", {"trees": {"right_sign": 120}}, "corrected"),
        ("SHAP values cannot quantify", {}, "corrected"),
        ("SHAP values cannot quantify", {"trees": {"false": 100}}, "agrees"),
        ("SHAP values say how large", {}, "agrees"),
        ("SHAP values say how large", {"trees": {"product": 8.0}}, "corrected"),
        ("SHAP values show which", {"trees": {"order": 0.8}}, "agrees"),
        ("SHAP values show which", {"trees": {"order": 0.2}}, "corrected"),
        ("Analyses that agree", {"linear": {"false_share": 0.4}}, "agrees"),
        ("Analyses that agree", {}, "corrected"),
        ("The methods that control", {"association": {"false_share": 0.6}}, "agrees"),
        ("The methods that control", {"linear": {"false_share": 0.6}}, "corrected"),
    ], arguments=3)  # fmt: skip
def test_verdicts_follow_from_the_counts(words: str, changes: dict[str, Any], verdict: str):
    assert verdict_of(words, recorded(**changes)).verdict == verdict


def test_what_is_believed_is_what_was_right_nine_times_in_ten():
    believed = study_module(STUDY).believed
    found = recorded(linear={"covered": 150, "false": 50}, trees={"right_sign": 170})
    assert believed(found, LINEAR, "dim") == {"sign": True, "interval": False}
    assert believed(found, LINEAR, "epochs") == {"test": False, "interval": False}
    assert believed(found, TREES, "dim") == {"sign": False}
    assert believed(found, ASSOCIATION, "epochs") == {"test": True, "interval": True}
    assert believed(found, ASSOCIATION, "no such choice") is None


def test_a_damaged_record_says_what_to_run(tmp_path: Path):
    (tmp_path / "fared.csv").write_text("scenario,outcome\n")
    with pytest.raises(ContentError, match=r"scripts/simulate_methods\.py"):
        study_module(STUDY, "recorded").recorded(tmp_path)
