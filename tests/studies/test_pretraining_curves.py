"""Learning curves from rows: which rows belong together, what is refused, and what the draws of their numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.what_is_pretraining_worth.curves import (
    MeasuredCurve,
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
from tests.each import for_each
from tests.planted_curves import ROTNET, SCALES, SIMCLR, curve
from zoo.evaluation.bootstrap import Drawn
from zoo.evaluation.curves.recipe import TASKS, Recipe
from zoo.results.rows import Measurement


def only(rows: list[Measurement]) -> MeasuredCurve:
    (panel,) = panels_of(found_curves(rows))
    (found,) = panel.curves
    return found


@for_each(TASKS)
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


@for_each(["scratch", "maximal", "blind"])
def test_a_curve_without_a_control_is_refused_and_the_others_stay(control: str) -> None:
    present = [name for name in ("scratch", "maximal", "blind") if name != control]
    (panel,) = panels_of(found_curves([*curve(SIMCLR, 0.3, controls=present), *curve(ROTNET, 0.1)]))
    assert [one.encoder for one in panel.curves] == [ROTNET]
    (sentence,) = panel.refused
    assert f"{SIMCLR} has transfer_error on planted" in sentence and f"no rows with control={control};" in sentence


def test_a_frozen_encoder_goes_with_the_controls_of_the_same_options() -> None:
    frozen, longer = Recipe(frozen=True), Recipe(epochs=3.0, learning_rates=(1e-3, 3e-3))
    rows = [*curve(SIMCLR, 0.3), *curve(SIMCLR, 0.1, recipe=frozen, controls=())]
    rows += curve(SIMCLR, 0.2, recipe=longer, controls=("scratch", "maximal"))  # the constant baseline has no options
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
