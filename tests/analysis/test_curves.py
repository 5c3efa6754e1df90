"""Learning curves from rows: which rows belong together, what is refused, and what the draws of their numbers are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.planted_curves import ROTNET, SCALES, SCRATCH, SIMCLR, curve
from zoo.analysis.curves import (
    MeasuredCurve,
    Panel,
    Run,
    drawn_mean,
    estimate_of,
    found_curves,
    largest_of,
    main_panels,
    panels_of,
    seed_variances,
    spread_of,
)
from zoo.evaluation.bootstrap import Drawn
from zoo.evaluation.curves.recipe import TASKS, Recipe, protocol_of
from zoo.results.rows import Measurement


def only(rows: list[Measurement]) -> MeasuredCurve:
    (panel,) = panels_of(found_curves(rows))
    (found,) = panel.curves
    return found


@pytest.mark.parametrize("task", TASKS)
def test_an_encoder_that_takes_away_a_share_of_the_risk_of_scratch_has_that_share_as_its_improvement(task: str) -> None:
    found = only(curve(SIMCLR, 0.3, task=task))
    assert found.improvement is not None and found.improvement.value == pytest.approx(0.3)
    assert found.curve.improvement_range == pytest.approx((0.9, 0.1))
    assert [point.calibrated.value for point in found.curve.points] == pytest.approx([0.63, 0.35, 0.07])
    assert [gain.value for gain in found.gains] == pytest.approx([0.27, 0.15, 0.03])
    assert (found.curve.blind.value, found.curve.maximal.value) == pytest.approx(SCALES[task])
    assert [point.n_seeds for point in found.curve.points] == [2, 2, 2]


def test_an_encoder_equal_to_scratch_is_worth_nothing_and_its_interval_says_so() -> None:
    found = only(curve(SIMCLR, 0.0, half_width=0.05))
    assert found.curve.improvement is not None and found.curve.improvement.value == pytest.approx(0.0, abs=1e-12)
    low, high = found.curve.improvement.ci_low, found.curve.improvement.ci_high
    assert low is not None and high is not None and low < -0.01 and high > 0.01


def test_the_interval_of_an_improvement_is_that_of_its_draws() -> None:
    found = only(curve(SIMCLR, 0.3, half_width=0.02))
    assert found.improvement is not None and found.curve.improvement is not None
    ordered = np.sort(found.improvement.draws)  # those without a value last: they are outside of the interval
    n_lost = int(np.isnan(ordered).sum())
    beyond = (0.05 * len(ordered) - n_lost) / 2 / (len(ordered) - n_lost)
    ends = np.quantile(ordered[: len(ordered) - n_lost], [beyond, 1 - beyond])
    assert [found.curve.improvement.ci_low, found.curve.improvement.ci_high] == pytest.approx(list(ends))


def test_scratch_with_all_labels_is_maximal_supervision_in_every_draw() -> None:
    found = only(curve(SIMCLR, 0.3, scratch={**SCRATCH, 4000: 0.0}, half_width=0.05))
    assert found.curve.points[-1].n_actual == 4000
    last = found.calibrated_scratch[-1]
    assert last.value == pytest.approx(0.0, abs=1e-12) and np.nanmax(np.abs(last.draws)) < 1e-12


def test_encoders_that_share_their_controls_share_their_draws_and_nothing_else() -> None:
    (panel,) = panels_of(found_curves([*curve(SIMCLR, 0.3, half_width=0.05), *curve(ROTNET, 0.3, half_width=0.05)]))
    one, other = panel.curves
    assert np.array_equal(one.calibrated_scratch[0].draws, other.calibrated_scratch[0].draws, equal_nan=True)
    assert not np.array_equal(one.calibrated[0].draws, other.calibrated[0].draws)


@pytest.mark.parametrize("control", ["scratch", "maximal", "blind"])
def test_a_curve_without_a_control_is_refused_and_the_others_stay(control: str) -> None:
    present = [name for name in ("scratch", "maximal", "blind") if name != control]
    (panel,) = panels_of(found_curves([*curve(SIMCLR, 0.3, controls=present), *curve(ROTNET, 0.1)]))
    assert [one.encoder for one in panel.curves] == [ROTNET]
    (sentence,) = panel.refused
    assert f"{SIMCLR} has transfer_error on planted" in sentence and f"no rows with control={control};" in sentence


def test_maximal_supervision_no_better_than_guessing_is_refused_in_one_sentence() -> None:
    (panel,) = panels_of(found_curves([*curve(SIMCLR, 0.3, scale=(10.0, 20.0)), *curve(ROTNET, 0.1)]))
    assert [one.encoder for one in panel.curves] == [ROTNET]
    assert panel.refused[0].startswith(f"{SIMCLR}, transfer_error on planted: Maximal supervision has a risk of 20")


def test_regimes_that_scratch_was_not_trained_in_are_left_out_and_counted() -> None:
    found = only(curve(SIMCLR, 0.3, calibrated={50: 0.63, 200: 0.35, 500: 0.2, 1000: 0.07}))
    assert [n for _, n in found.rows.regimes] == [50, 200, 1000] and found.rows.n_alone == 1


def test_a_frozen_encoder_goes_with_the_controls_of_the_same_options() -> None:
    frozen, longer = Recipe(frozen=True), Recipe(epochs=3.0, learning_rates=(1e-3, 3e-3))
    rows = [*curve(SIMCLR, 0.3), *curve(SIMCLR, 0.1, recipe=frozen, controls=())]
    rows += curve(SIMCLR, 0.2, recipe=longer, controls=("scratch", "maximal"))  # the blind guess has no options
    panels = panels_of(found_curves(rows))
    found = {panel.protocol: panel.curves[0] for panel in panels}
    told = "zoo-curve-classification-1"
    assert {name: round(one.improvement.value, 9) for name, one in found.items() if one.improvement} == {
        told: 0.3,
        f"{told} (frozen=true)": 0.1,
        f"{told} (epochs=3.0, learning_rates=[0.001, 0.003])": 0.2,
    }
    assert [one.rows.frozen for one in found.values()] == ["frozen" in name for name in found]
    (main,) = main_panels(panels)
    assert main.protocol == told  # fine-tuned as in the paper, and by the shorter name


def test_of_two_sources_the_one_that_measured_last_counts() -> None:
    rows = [*curve(SIMCLR, 0.3, source="measured", day="2026-11-01"), *curve(SIMCLR, 0.5, day="2026-11-02")]
    found = only(rows)
    assert found.rows.source == "own" and found.improvement is not None
    assert found.improvement.value == pytest.approx(0.5)


def test_a_recorded_risk_is_taken_as_exact_and_a_run_without_interval_as_unknown() -> None:
    rows = [row for row in curve(SIMCLR, 0.3) if "maximal" not in row.protocol]
    first = rows[0]
    name = protocol_of(TASKS["classification"], Recipe(), control="maximal")
    rows.append(
        replace(
            first, split="train -> val", n_train=None, seed=None, value=10.0, ci_low=None, ci_high=None, protocol=name
        )
    )
    found = only(rows)
    assert found.curve.maximal.value == 10.0 and found.curve.improvement is not None
    assert found.curve.improvement.ci_low is not None
    assert not drawn_mean([Run(50, 50, 0, 20.0, None, None)], whose=["a"]).draws.size
    assert len({*drawn_mean([Run(50, 50, None, 20.0, None, None)], whose=["a"]).draws.tolist()}) == 1


def test_rows_of_two_data_sets_under_one_name_are_refused_instead_of_mixed() -> None:
    smaller = curve(SIMCLR, 0.3, scratch={30: 0.9, 60: 0.5}, n_all=200)
    (panel,) = panels_of(found_curves([*curve(SIMCLR, 0.3), *smaller, *curve(ROTNET, 0.1)]))
    assert [one.encoder for one in panel.curves] == [ROTNET]
    (sentence,) = panel.refused
    assert "with controls of 200 and 4,000 images, which are several data sets under one name" in sentence


def test_seeds_that_agree_are_as_uncertain_as_one_for_they_have_the_same_images() -> None:
    runs = [Run(50, 50, seed, 20.0, 18.0, 22.0) for seed in range(3)]
    one, three = (drawn_mean(some, whose=["a"], n_draws=20_000).draws.std() for some in (runs[:1], runs))
    assert three == pytest.approx(one, rel=0.03)


def test_seeds_that_differ_add_their_variance_which_all_networks_of_a_task_tell() -> None:
    generator = np.random.default_rng(0)
    groups = [
        [Run(50, 50, seed, value, value, value) for seed, value in enumerate(generator.normal(place, 2.0, size=2))]
        for place in range(200)
    ]
    variances = seed_variances([*groups, groups[0]], whose=["a"], n_draws=4000)
    assert variances is not None and variances.mean() == pytest.approx(4.0, rel=0.15)
    drawn = drawn_mean(groups[0], whose=["a"], variances=variances)
    assert drawn.draws.std() == pytest.approx(2.0 / 2**0.5, rel=0.1)


def test_the_variance_of_two_seeds_alone_is_hardly_known_and_that_of_one_not_at_all() -> None:
    runs = [Run(50, 50, seed, value, value, value) for seed, value in enumerate((19.0, 21.0))]
    variances = seed_variances([runs], whose=["a"], n_draws=40_000)
    drawn = drawn_mean(runs, whose=["a"], variances=variances, n_draws=40_000).draws
    assert np.percentile(drawn, 97.5) - 20 == pytest.approx(12.7, rel=0.1)  # Student's t with one degree of freedom
    assert seed_variances([runs[:1]], whose=["a"]) is None


def test_noise_does_not_pass_for_a_spread_or_for_a_best_encoder() -> None:
    generator = np.random.default_rng(0)
    n_held = {"spread": 0, "largest": 0}
    for _ in range(60):
        values = 0.5 + 0.1 * np.array([-1.5, -0.5, 0.5, 1.5]) + 0.1 * generator.normal(size=4)
        several = [Drawn(value=value, draws=value + 0.1 * generator.normal(size=1000)) for value in values]
        for name, of, truth in (("spread", spread_of, 0.1291), ("largest", largest_of, 0.65)):
            found = estimate_of(of(several), term="", outcome="", n=4, unit="", method="", is_pulled=True)
            assert found.ci_low is not None and found.ci_high is not None
            n_held[name] += found.ci_low <= truth <= found.ci_high
    assert min(n_held.values()) >= 50


def test_a_panel_is_named_by_task_data_metric_and_options() -> None:
    about = {"dataset": "shapes", "task": "normals", "curves": ()}
    plain = Panel(**about, metric="normals_l1_error", protocol="zoo-curve-normals-1")  # type: ignore[arg-type]
    other = Panel(**about, metric="normals_angular_error", protocol="zoo-curve-normals-1 (frozen=true)")  # type: ignore
    assert (plain.name, other.name) == (
        "normals on shapes",
        "normals on shapes (normals_angular_error, frozen=true)",
    )
