"""Predicting errors by labels: planted laws are met exactly, and the published encoders are held as often as stated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.law_population import population
from tests.shipped import shipped_table
from zoo.analysis.label_prediction import (
    CalibratedLaw,
    calibrated_law,
    fit_exponent,
    held_out_coverage,
    missed_elsewhere,
    predict_labels,
    published_law,
)
from zoo.analysis.scaling_law import N_FULL_SHOT, law_errors, law_rows
from zoo.analysis.table import table_of
from zoo.cards.schema import NOT_PUBLISHED
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import Interval
from zoo.evaluation.measuring import ProbeRun, SettingResult, label_setting, mean_error
from zoo.evaluation.risk import Risk, RiskReport
from zoo.results.rows import measurements
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
    return calibrated_law(law_rows(table_of(population(40, alpha=ALPHA, w=W, noise=noise))), n_resamples=50)


LAW = planted_law()


def test_encoders_that_obey_the_law_are_predicted_exactly() -> None:
    cells = {"n": np.array([3000, 30_000]), "T": 8.0, "probe_gen": 15.0, "enc_gen": 3.0}
    expected = law_errors(cells, alpha=ALPHA, w=W)
    found = predict_labels(report(), [3000, 30_000], law=LAW)
    assert [prediction.law_error for prediction in found] == pytest.approx(expected.tolist(), abs=1e-3)
    for prediction in found:
        assert prediction.ci_high - prediction.ci_low < 0.1
        assert prediction.caveats == ()


@pytest.mark.parametrize(("n_train", "n_test"), [(N_FULL_SHOT, 50_000), (1347, 450), (200, 199)])
def test_calibrated_predictions_meet_the_full_shot_error(n_train: int, n_test: int) -> None:
    made = report(n_train=n_train, n_test=n_test, n_classes=10, noise=0.5)
    (found,) = predict_labels(made, [n_train], law=LAW)
    assert found.error == pytest.approx(26, abs=1e-9)
    assert found.law_error < 26  # more labels than the components were measured with
    assert found.ci_low == pytest.approx(26 - 1.96 * 3**0.5 * 0.5, abs=0.15)


def test_only_the_ratios_of_the_numbers_of_labels_count() -> None:
    large, small = report(), report(n_train=N_FULL_SHOT // 100, n_test=500, n_classes=10)
    one, other = (predict_labels(made, [n], law=LAW)[0] for made, n in ((large, 30_000), (small, 300)))
    assert one.error == pytest.approx(other.error, abs=0.01)


def test_fewer_labels_are_predicted_to_be_worse_and_no_worse_than_a_guess() -> None:
    made = report(own=30, probe=40, n_train=10_000, n_test=1000, n_classes=10)
    errors = [found.error for found in predict_labels(made, [10, 100, 1000, 10_000], law=LAW)]
    assert errors == sorted(errors, reverse=True) and errors[0] == 90


def test_what_the_law_misses_widens_the_interval() -> None:
    sure, unsure = (predict_labels(report(), [5000], law=law)[0] for law in (LAW, planted_law(noise=2.0)))
    assert unsure.ci_high - unsure.ci_low > 4 > 10 * (sure.ci_high - sure.ci_low)


def test_uncertain_components_widen_the_interval() -> None:
    sure, unsure = (predict_labels(report(noise=noise), [5000], law=LAW)[0] for noise in (0.0, 2.0))
    assert unsure.ci_high - unsure.ci_low > 5 > 10 * (sure.ci_high - sure.ci_low)
    assert sure.error == unsure.error


def test_a_seed_gives_the_same_prediction() -> None:
    noisy = report(noise=1.0)
    assert predict_labels(noisy, [5000], law=LAW, seed=1) == predict_labels(noisy, [5000], law=LAW, seed=1)
    assert predict_labels(noisy, [5000], law=LAW, seed=1) != predict_labels(noisy, [5000], law=LAW, seed=2)


def test_other_data_fewer_labels_and_another_pretraining_are_said() -> None:
    made = replace(report(dataset="digits", n_train=10_000, n_test=100, n_classes=10), warning="Pretrained elsewhere.")
    found = predict_labels(made, [10], law=LAW)[0]
    assert (found.ci_low, found.ci_high) == (None, None)  # nothing is known of how far it is off there
    classes, beyond, pretrained = found.caveats
    assert "digits has 10" in classes and "a 1,000th of the training set" in beyond
    assert pretrained == "Pretrained elsewhere."


@pytest.mark.parametrize("n", [0, 999, N_FULL_SHOT + 1])
def test_fewer_labels_than_classes_or_more_than_there_are_are_refused(n: int) -> None:
    with pytest.raises(QueryError, match=r"expected 1,000 \(one a class\) to 1,281,167"):
        predict_labels(report(), [n], law=LAW)


def test_components_of_the_alternative_order_are_refused() -> None:
    with pytest.raises(QueryError, match=r"alternative decomposition \(Eq. 5\)"):
        predict_labels(replace(report(), order="alternative"), [5000], law=LAW)


def test_encoders_without_a_full_shot_error_tell_nothing_of_misses() -> None:
    few = EVERY[EVERY["n"] < 20_000]
    with pytest.raises(QueryError, match="No encoder has an error with every number of labels, the full-shot error"):
        calibrated_law(few, n_resamples=0)


def test_the_published_encoders_are_held_as_often_as_is_stated() -> None:
    law = published_law()
    assert len(law.encoders) == 167 and law.ratios[0] == 1
    facts = EVERY.groupby("encoder").first()
    one = held_out_coverage(law)
    assert list(one) == [30_000, 12_811, 5_000, 3_000]
    assert all(0.93 <= share <= 0.95 for share in one.values())
    for column in ("objective", "architecture", "year"):
        assert all(0.92 <= share <= 0.955 for share in held_out_coverage(law, facts[column]).values()), column
    assert np.abs(law.misses).mean(axis=0) == pytest.approx([0, 2.98, 3.27, 3.76, 4.82], abs=0.03)


def test_a_published_encoder_is_predicted_from_its_components_alone() -> None:
    rows: Any = EVERY[EVERY["encoder"] == "dino_rn50"].set_index("n")
    own = rows.iloc[0]
    made = report(own=own["T"], probe=own["probe_gen"], encoder=own["enc_gen"])
    for found in predict_labels(made, [30_000, 5_000]):
        assert found.ci_low <= rows["error"][found.n_labels] <= found.ci_high
        assert found.ci_high - found.ci_low < 25


N_ALL, N_TEST, FEW = 1500, 400, (10, 30, 50, 300)


def planted_errors(
    exponent: float, *, few: tuple[int, ...] = FEW, n_seeds: int = 3, seed: int = 0
) -> tuple[RiskReport, list[SettingResult]]:
    """An encoder on digits whose error falls as labels^-exponent, measured on the same test images by every probe."""
    made = report(own=0.5, probe=6.0, encoder=0.5, dataset="digits", n_train=N_ALL, n_test=N_TEST, n_classes=10)
    measured_with, w = N_ALL - N_TEST, float(published_law().law.W.value or 0)
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
        settings.append(SettingResult(setting=setting, error=mean_error(runs, n_bootstrap=100), runs=runs))
    return replace(made, decomposition=own, risks={"R_US": risk}), settings


@pytest.mark.parametrize("exponent", [0.15, 0.5])
def test_an_exponent_is_fitted_to_errors_of_other_data_and_its_interval_holds_it(exponent: float) -> None:
    held, n_repeats = 0, 40
    for repeat in range(n_repeats):
        found = fit_exponent(*planted_errors(exponent, seed=repeat))
        assert found.n_labels == FEW and found.n_settings == 4
        held += found.ci_low <= exponent <= found.ci_high
        assert found.ci_low <= found.exponent <= found.ci_high
    assert held >= 34  # of 95 %, fewer come by chance once in 50,000 times


def test_more_settings_and_seeds_tell_the_exponent_more_closely() -> None:
    wide, narrow = (
        fit_exponent(*planted_errors(0.4, few=few, n_seeds=n_seeds))
        for few, n_seeds in (((50, 300), 2), ((10, 20, 30, 50, 100, 200, 300, 600), 8))
    )
    assert narrow.ci_high - narrow.ci_low < (wide.ci_high - wide.ci_low) / 2


@pytest.mark.parametrize("few", [(), (50,), (50, 50)])
def test_an_exponent_of_fewer_than_two_numbers_of_labels_is_refused(few: tuple[int, ...]) -> None:
    with pytest.raises(QueryError, match=f"at least 2 different numbers of labels.*got {len(set(few))}"):
        fit_exponent(*planted_errors(0.4, few=few))


def test_how_far_the_law_was_off_elsewhere_is_what_the_shipped_rows_say() -> None:
    elsewhere = ("digits", "fashionmnist-10k", "shapes")
    rows = [row for row in measurements() if row.dataset in elsewhere and row.source == "measured"]
    misses = []
    for encoder, dataset in sorted(
        {(row.encoder, row.dataset) for row in rows if row.metric == "usability"}
        | {(row.encoder, row.dataset) for row in rows if row.metric == "approximation_plus_usability"}
    ):
        own = [row for row in rows if (row.encoder, row.dataset) == (encoder, dataset)]
        part = {row.metric: row.value for row in own if row.protocol.startswith("zoo-risk")}
        by_split: dict[str, list[Any]] = {}
        for row in own:
            if row.metric == "linear_probe_error":
                by_split.setdefault(row.split, []).append(row)
        error = {split: np.mean([row.value for row in some]) for split, some in by_split.items()}
        n = {split: some[0].n_train for split, some in by_split.items()}
        made = report(
            own=error["train -> train"],
            probe=part["probe_generalization"],
            encoder=part["encoder_generalization"],
            dataset=dataset,
            n_train=n["train -> val"],
            n_classes=n["train 3-shot -> val"] // 3,
            n_test=n["train -> val"] - n["train minus subset -> subset"],
        )
        few = [split for split in error if split.endswith("-> val") and split != "train -> val"]
        predicted = predict_labels(made, [n[split] for split in few])
        misses += [abs(error[split] - one.error) for split, one in zip(few, predicted, strict=True)]
    found = missed_elsewhere()
    assert found.n == len(misses) == 116 and found.datasets == elsewhere
    assert found.mean_absolute == pytest.approx(np.mean(misses), abs=1e-6)
    assert found.largest == pytest.approx(max(misses), abs=1e-6)
    assert found.mean_absolute > 2 * np.abs(published_law().misses[:, 1:]).mean()  # at home it is off by 3.7
