"""The study of randomised choices: what it finds in planted populations, and that it counts the shipped files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from analysis.what_randomised_choices_change.effects import RandomisedEffect
from tests.each import for_each
from tests.randomised_plan import N_MEASURED, planted_law_rows, planted_population
from tests.shipped import shipped_findings, shipped_table, study_module, with_few_draws
from tests.studies.parts import claim
from zoo.analysis.columns import Estimate
from zoo.analysis.randomised import RandomisedPopulation
from zoo.studies.findings import ClaimAnswer, Findings, FindingsTable
from zoo.studies.running import StudyOptions

STUDY = "what_randomised_choices_change"
claims, experiment = study_module(STUDY), study_module(STUDY, "experiment")
EFFECTS = {
    ("dim", "usability"): -4.0,
    ("vit", "probe_gen"): 1.0,
    ("large", "full"): -6.0,
    ("objective supervised", "3-shot"): -30.0,
}


def metrics_of(population: RandomisedPopulation) -> pd.DataFrame:
    """RankMe is the number of dimensions, LiDAR the error itself for most encoders, uniformity noise."""
    noise = np.random.default_rng(8).normal(size=len(population))
    lidar = 100 - population.outcomes["full"]
    lidar[population.choices.index[:5]] = np.nan
    return pd.DataFrame({"rankme": population.choices["dim"].astype(float), "lidar": lidar, "uniformity": noise})


def found_in(population: RandomisedPopulation, *, alpha: float = 0.3, table: Any = None, **changes: Any) -> Findings:
    rows = planted_law_rows(population, alpha=alpha)
    study = with_few_draws(
        STUDY,
        load_randomised_population=lambda: population,
        randomised_law_rows=lambda _: (rows, N_MEASURED),
        label_free_values=metrics_of,
        **changes,
    )
    findings = study(shipped_table() if table is None else table, StudyOptions())
    assert isinstance(findings, Findings)
    return findings


def table(findings: Findings, words: str) -> FindingsTable:
    (found,) = [one for one in findings.tables if words in one.title]
    return found


def estimate(findings: Findings, term: str, outcome: str, method: str) -> Estimate:
    (found,) = [one for one in findings.estimates if (one.term, one.outcome, one.method) == (term, outcome, method)]
    return found


@pytest.fixture(scope="module")
def planted() -> RandomisedPopulation:
    return planted_population(EFFECTS, unmeasured=("enc_900", "enc_901"))


@pytest.fixture(scope="module")
def findings(planted: RandomisedPopulation) -> Findings:
    return found_in(planted)


# --- effects ---------------------------------------------------------------------------------------------------------


def test_planted_effects_are_found_and_of_the_opposite_the_reason_says_so(findings: Findings) -> None:
    assert claim(findings, "More dimensions improve usability").verdict == "agrees"
    opposite = claim(findings, "ViTs improve probe generalization")
    assert opposite.verdict == "not reproducible"  # other encoders and images than the paper's
    assert "the other way here" in opposite.reason
    assert claim(findings, "Larger networks lower the error with all labels").verdict == "agrees"
    batch = claim(findings, "Larger batches improve usability")
    assert batch.verdict == "not reproducible" and "80 % power for" in batch.reason
    assert all("grey images of 28 px" in one.reason for one in findings.claims if one.source.startswith("Section 5.3"))


def effect_of(
    *, p: float, alone: float, beside: float, p_family: float = 0.5, half: float = 1.0, term: str = "dim"
) -> RandomisedEffect:
    one = Estimate(term=term, outcome="usability", value=beside, n=64, unit="percentage points per step")
    return RandomisedEffect(
        term=term,
        outcome="usability",
        alone=one.described(value=alone, ci_low=alone - 1, ci_high=alone + 1),
        beside=one.described(ci_low_robust=beside - half, ci_high_robust=beside + half),
        p=p,
        p_family=p_family,
        n=64,
    )


def experiment_with(*effects: RandomisedEffect) -> Any:
    return experiment.Experiment(
        population=None,
        first={(one.term, one.outcome): one for one in effects},
        second={},
        n_second=0,
        together={},
        interactions=(),
        t_of_family=3.5,
    )


@for_each(
    [
        (effect_of(p=0.01, p_family=0.04, alone=-2, beside=-2), True, ""),
        (effect_of(p=0.05, p_family=0.4, alone=-2, beside=-2), True, "family-wise p is 0.4"),
        (effect_of(p=0.01, p_family=0.04, alone=-2, beside=-0.5), True, "0 lies in the least-squares interval"),
        (effect_of(p=0.01, p_family=0.04, alone=2, beside=2), False, "the other way"),
        (effect_of(p=0.01, p_family=0.04, alone=-2, beside=0.5), False, "different signs"),
        (effect_of(p=0.06, alone=-2, beside=-0.5), False, "not detected"),
        (effect_of(p=0.06, alone=-2, beside=-2), False, "does not count as a test"),
    ],
    arguments=3,
)
def test_a_verdict_takes_the_sign_of_both_estimates_and_the_p_of_permutations(
    effect: RandomisedEffect, holds: bool, words: str
) -> None:
    answer = claims.the_effect_has_the_sign(experiment_with(effect), "dim", "usability", -1)
    assert isinstance(answer, ClaimAnswer)
    assert answer.holds == holds
    assert not answer.contradicted  # nothing here corrects what was said of ImageNet
    assert words in (answer.caveat if holds else f"{answer.reason}; {answer.caveat}")


@for_each(
    [
        (-1, 0.01, -2.0, "expectation found"),
        (-1, 0.01, 2.0, "opposite"),
        (1, 0.01, 2.0, "expectation found"),
        (1, 0.06, 2.0, "not detected"),
        (0, 0.06, 2.0, "not detected"),
        (0, 0.01, 2.0, "there is one"),
    ],
    arguments=4,
)
def test_an_interaction_is_judged_by_what_was_expected(expected: int, p: float, value: float, verdict: str) -> None:
    one = experiment.Interaction(effect=effect_of(p=p, alone=value, beside=value, term="dim x vit"), expected=expected)
    assert one.verdict == verdict
    if expected:
        answer = claims.an_interaction(experiment_with(), one)
        assert (answer.holds, answer.contradicted) == (verdict == "expectation found", verdict == "opposite")


@pytest.fixture
def few_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "N_PERMUTATIONS", 199)


@pytest.mark.usefixtures("few_permutations")
def test_a_planted_interaction_is_found() -> None:
    population = planted_population(seed=3)
    population.outcomes["full"] += -8 * population.contrasts["epochs"] * (population.contrasts["vit"] - 0.5)
    found = {
        (one.effect.term, one.effect.outcome): one.verdict for one in experiment.experiment_of(population).interactions
    }
    assert len(found) == 6
    assert found.pop(("epochs x vit", "full")) == "expectation found"
    assert list(found.values()).count("not detected") >= 4  # the other five have a chance of 5 % each


# --- scaling law -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "noise", "holds", "contradicted"),
    [(0.145, 0.5, True, False), (0.3, 0.5, False, True), (0.145, 15.0, False, False)],
)
def test_the_exponent_is_that_of_imagenet_if_the_difference_says_so(
    planted: RandomisedPopulation,
    monkeypatch: pytest.MonkeyPatch,
    alpha: float,
    noise: float,
    holds: bool,
    contradicted: bool,
) -> None:
    monkeypatch.setattr(experiment, "N_RESAMPLES", 60)
    rows = planted_law_rows(planted, alpha=alpha, noise=noise)
    laws = experiment.laws_of(rows, N_MEASURED, shipped_table())
    answer = claims.exponents_are_alike(laws)
    assert (answer.holds, answer.contradicted) == (holds, contradicted)
    known = {one.term: one for one in laws.estimates()}
    assert known["alpha, imagenet-1k"].value == pytest.approx(0.1453, abs=1e-3)
    if noise < 1:
        assert known["alpha, fashion-mnist minus imagenet-1k"].value == pytest.approx(alpha - 0.1453, abs=0.01)
        assert known["alpha, fashion-mnist"].value == pytest.approx(alpha, abs=0.01)


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_a_metric_that_reads_the_width_orders_all_encoders_and_none_of_one_width(
    planted: RandomisedPopulation, findings: Findings
) -> None:
    method = "Kendall, pairs of {}, bootstrap over encoders"
    over_all = estimate(findings, "RankMe", "usability", method.format("all encoders"))
    expected = kendalltau(planted.choices["dim"].astype(float), -planted.outcomes["usability"]).statistic
    assert over_all.value == pytest.approx(expected) and expected > 0.3
    alike = estimate(findings, "RankMe", "usability", method.format("one width"))
    assert alike.value is None and alike.note == "it never varies among such pairs"
    assert claim(findings, "RankMe tells encoders of one network").ours == "not available"
    more = claim(findings, "RankMe tells more than the number of dimensions")
    assert more.value == 0 and more.verdict == "not reproducible"


# --- the shipped population ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> Findings:
    return shipped_findings(STUDY)
