"""Predicting errors by labels: planted laws are met exactly, and the published encoders are held as often as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.each import for_each
from tests.law_population import population
from tests.shipped import shipped_table
from zoo.analysis.label_prediction import (
    CalibratedLaw,
    calibrate_law,
    calibrate_published_law,
    compute_held_out_coverage,
    fit_exponent,
    predict_labels,
)
from zoo.analysis.scaling_law import N_FULL_SHOT, law_rows, predict_law_errors
from zoo.analysis.table import build_table
from zoo.cards.schema import NOT_PUBLISHED
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import Interval
from zoo.evaluation.measuring import ProbeRun, SettingResult, compute_mean_error, label_setting
from zoo.evaluation.risk import Risk, RiskReport
from zoo.results.values import RiskDecomposition

ALPHA, W = 0.15, 0.5
EVERY = law_rows(shipped_table(), complete_only=False)


def report(
    *,
    own: float = 8.0,
    probe: float = 15.0,
    encoder: float = 3.0,
    noise: float = 0.0,
    dataset: str = "imagenet-1k",
    n_train: int = N_FULL_SHOT,
    n_test: int = 50_000,
    n_classes: int = 1000,
) -> RiskReport:
    """Components as a decomposition gives them, each with normal noise in its draws."""
    random = np.random.default_rng(0)
    draws = {
        name: value + noise * random.normal(size=2000)
        for name, value in (
            ("approximation_plus_usability", own),
            ("probe_generalization", probe),
            ("encoder_generalization", encoder),
        )
    }
    decomposition = RiskDecomposition(
        approximation=NOT_PUBLISHED,
        usability=NOT_PUBLISHED,
        approximation_plus_usability=own,
        probe_generalization=probe,
        encoder_generalization=encoder,
        approximation_assumed=False,
    )
    return RiskReport(
        encoder="planted",
        dataset=dataset,
        order="standard",
        decomposition=decomposition,
        intervals={},
        risks={},
        draws=draws | {"full_shot_error": sum(draws.values())},
        n_train=n_train,
        n_test=n_test,
        n_classes=n_classes,
        seed=0,
        assumption="",
        warning="",
    )


def planted_law(noise: float = 0.0) -> CalibratedLaw:
    return calibrate_law(law_rows(build_table(population(40, alpha=ALPHA, w=W, noise=noise))), n_resamples=50)


LAW = planted_law()


def test_encoders_that_obey_the_law_are_predicted_exactly() -> None:
    cells = {"n": np.array([3000, 30_000]), "T": 8.0, "probe_gen": 15.0, "enc_gen": 3.0}
    expected = predict_law_errors(cells, alpha=ALPHA, w=W)
    found = predict_labels(report(), [3000, 30_000], law=LAW)
    assert [prediction.law_error for prediction in found] == pytest.approx(expected.tolist(), abs=1e-3)
    for prediction in found:
        assert prediction.ci_high - prediction.ci_low < 0.1
        assert prediction.caveats == ()


@for_each([(N_FULL_SHOT, 50_000), (1347, 450), (200, 199)], arguments=2)
def test_calibrated_predictions_meet_the_full_shot_error(n_train: int, n_test: int) -> None:
    made = report(n_train=n_train, n_test=n_test, n_classes=10, noise=0.5)
    (found,) = predict_labels(made, [n_train], law=LAW)
    assert found.error == pytest.approx(26, abs=1e-9)
    assert found.law_error < 26  # more labels than the components were measured with
    assert found.ci_low == pytest.approx(26 - 1.96 * 3**0.5 * 0.5, abs=0.15)


def test_other_data_fewer_labels_and_another_pretraining_are_said() -> None:
    made = replace(report(dataset="digits", n_train=10_000, n_test=100, n_classes=10), warning="Pretrained elsewhere.")
    found = predict_labels(made, [10], law=LAW)[0]
    assert (found.ci_low, found.ci_high) == (None, None)  # nothing is known of how far it is off there
    classes, beyond, pretrained = found.caveats
    assert "digits has 10" in classes and "a 1,000th of the training set" in beyond
    assert pretrained == "Pretrained elsewhere."


@for_each([0, 999, N_FULL_SHOT + 1])
def test_fewer_labels_than_classes_or_more_than_there_are_are_refused(n: int) -> None:
    with pytest.raises(QueryError, match=r"expected 1,000 \(one per class\) to 1,281,167"):
        predict_labels(report(), [n], law=LAW)


def test_the_published_encoders_are_held_as_often_as_is_stated() -> None:
    law = calibrate_published_law()
    assert len(law.encoders) == 167 and law.ratios[0] == 1
    facts = EVERY.groupby("encoder").first()
    one = compute_held_out_coverage(law)
    assert list(one) == [30_000, 12_811, 5_000, 3_000]
    assert all(0.93 <= share <= 0.95 for share in one.values())
    for column in ("objective", "architecture", "year"):
        assert all(0.92 <= share <= 0.955 for share in compute_held_out_coverage(law, facts[column]).values()), column
    assert np.abs(law.misses).mean(axis=0) == pytest.approx([0, 2.98, 3.27, 3.76, 4.82], abs=0.03)


N_ALL, N_TEST, FEW = 1500, 400, (10, 30, 50, 300)


def planted_errors(
    exponent: float, *, few: tuple[int, ...] = FEW, n_seeds: int = 3, seed: int = 0
) -> tuple[RiskReport, list[SettingResult]]:
    """An encoder on digits whose error falls as labels^-exponent, measured on the same test images by every probe."""
    made = report(own=0.5, probe=6.0, encoder=0.5, dataset="digits", n_train=N_ALL, n_test=N_TEST, n_classes=10)
    measured_with, w = N_ALL - N_TEST, float(calibrate_published_law().law.W.value or 0)
    falling = w * 0.5 + 6.0
    random = np.random.default_rng(seed)
    hard = random.random(N_TEST)  # the same images are easy for all probes

    def run(n: int, number: int) -> ProbeRun:
        error = 7.0 + falling * ((measured_with / n) ** exponent - (measured_with / N_ALL) ** exponent)
        mixed = np.where(random.random(N_TEST) < 0.5, hard, random.random(N_TEST))
        correct = mixed >= error / 100
        return ProbeRun(
            setting="",
            split="",
            seed=number,
            n_train=n,
            n_tuning=None,
            refitted=False,
            error_percent=100 * float((~correct).mean()),
            correct=correct,
            evaluated=None,
            rows={},
            report={},
        )

    full = run(N_ALL, 0)
    own = replace(
        made.decomposition, probe_generalization=6.0, encoder_generalization=full.error_percent - 6.5
    )  # so that the parts add up to what was measured
    risk = Risk(
        name="R_US",
        metric="linear_probe_error",
        split="train -> val",
        runs=(full,),
        error=Interval(value=full.error_percent, ci_low=None, ci_high=None),
    )
    settings = []
    for n in few:
        runs = tuple(run(n, number) for number in range(n_seeds))
        setting = label_setting("5-shot")
        settings.append(SettingResult(setting=setting, error=compute_mean_error(runs, n_bootstrap=100), runs=runs))
    return replace(made, decomposition=own, risks={"R_US": risk}), settings


@for_each([0.15, 0.5])
def test_an_exponent_is_fitted_to_errors_of_other_data_and_its_interval_holds_it(exponent: float) -> None:
    held, n_repeats = 0, 40
    for repeat in range(n_repeats):
        found = fit_exponent(*planted_errors(exponent, seed=repeat))
        assert found.n_labels == FEW and found.n_settings == 4
        held += found.ci_low <= exponent <= found.ci_high
        assert found.ci_low <= found.exponent <= found.ci_high
    assert held >= 34  # of 95 %, fewer come by chance once in 50,000 times
