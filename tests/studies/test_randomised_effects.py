"""Effects of randomised choices: planted effects come out, and nothing else does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nct
from scipy.stats import t as student

from analysis.what_randomised_choices_change.effects import (
    detectable,
    permutation_p,
    randomised_effects,
    randomised_interactions,
    randomised_mean,
)

N = 64


def planted(seed: int = 0, *, effect: float = 0.0, interaction: float = 0.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two switches, a number of three levels, one that applies to some; outcomes with and without the effect."""
    draw = np.random.default_rng(seed)
    index = pd.Index([f"enc_{number:02}" for number in range(N)], name="enc")
    crop, vit = draw.integers(2, size=N).astype(float), draw.integers(2, size=N).astype(float)
    epochs = draw.integers(-1, 2, size=N).astype(float)
    width = np.where(draw.random(N) < 0.6, draw.integers(2, size=N), np.nan)
    contrasts = pd.DataFrame({"crop": crop, "vit": vit, "epochs": epochs, "width": width}, index=index)
    noise = draw.normal(size=(N, 2))
    with_effect = noise[:, 0] + effect * crop + 2 * epochs + interaction * (crop - 0.5) * (vit - 0.5)
    return contrasts, pd.DataFrame({"usability": with_effect, "probe_gen": noise[:, 1]}, index=index)


def test_a_planted_effect_is_found_and_its_interval_has_it():
    contrasts, outcomes = planted(effect=-3.0)
    found = {
        (one.term, one.outcome): one
        for one in randomised_effects(
            contrasts, outcomes, units={"epochs": "doubling of epochs"}, n_permutations=999, seed=1
        )
    }
    crop = found["crop", "usability"]
    assert crop.alone is not None
    assert crop.alone.value == pytest.approx(
        outcomes["usability"][contrasts["crop"] == 1].mean() - outcomes["usability"][contrasts["crop"] == 0].mean()
    )
    assert crop.beside.ci_low_robust is not None and crop.beside.ci_high_robust is not None
    assert crop.beside.ci_low_robust < -3.0 < crop.beside.ci_high_robust
    assert crop.p_family < 0.01
    assert found["epochs", "usability"].p == 0.001  # the least that 999 permutations can give
    assert found["epochs", "usability"].beside.unit == "percentage points per doubling of epochs"
    assert all(found[term, "probe_gen"].p_family > 0.05 for term in contrasts)
    assert found["width", "usability"].n == contrasts["width"].notna().sum() < N


def test_a_family_is_wrong_no_more_often_than_it_says():
    wrong, n_draws = 0, 60
    for seed in range(n_draws):
        contrasts, outcomes = planted(seed)
        nothing = outcomes[["probe_gen"]]
        p, p_family = permutation_p(contrasts, nothing, n_permutations=199, seed=seed)
        assert (p_family >= p).all()
        wrong += bool((p_family <= 0.05).any())
    assert wrong <= 9  # of 60 at 5 %: more has a chance of one in a thousand


def test_levels_of_one_choice_are_held_against_the_mean_of_the_others():
    contrasts, outcomes = planted()
    level = np.random.default_rng(7).integers(3, size=N)
    names = ["objective a", "objective b", "objective c"]
    for number, name in enumerate(names):
        contrasts[name] = (level == number).astype(float)
    outcomes["usability"] = np.array([0.0, 3.0, 6.0])[level] + 2 * contrasts["epochs"]  # nothing else
    found = {
        one.term: one
        for one in randomised_effects(contrasts, outcomes[["usability"]], factors=[names], n_permutations=99)
    }
    assert [found[name].beside.value for name in names] == pytest.approx([-4.5, 0.0, 4.5], abs=1e-9)
    alone = found["objective a"].alone
    assert alone is not None
    mean = outcomes["usability"].groupby(level == 0).mean()
    assert alone.value == pytest.approx(mean[True] - mean[False])


def test_interactions_are_found_next_to_the_effects():
    contrasts, outcomes = planted(5, effect=2.0, interaction=5.0)
    pairs = [("crop", "vit", "usability"), ("crop", "epochs", "usability"), ("crop", "vit", "probe_gen")]
    found = randomised_interactions(contrasts, outcomes, pairs, n_permutations=999)
    assert [one.term for one in found] == ["crop x vit", "crop x epochs", "crop x vit"]
    assert found[0].p_family < 0.01 and found[0].beside.value == pytest.approx(5.0, abs=1.5)
    assert all(one.p_family > 0.05 for one in found[1:])


def test_the_mean_of_effects_is_that_of_the_coefficients():
    contrasts, outcomes = planted(4, effect=-2.0)
    blur = np.random.default_rng(9).integers(2, size=N).astype(float)
    contrasts, terms = contrasts.assign(blur=blur), ["crop", "vit", "blur"]
    options = {"n_permutations": 499, "seed": 2}
    single = randomised_effects(contrasts, outcomes, **options)
    for found in randomised_mean(contrasts, outcomes, terms, name="switch", **options):
        own = [one.beside.value for one in single if one.term in terms and one.outcome == found.outcome]
        assert found.beside.value == pytest.approx(np.mean(own))
        assert found.beside.unit == "percentage points per switch"
        number = contrasts[terms].sum(axis=1)
        assert found.alone is not None
        assert found.alone.value == pytest.approx(np.polyfit(number, outcomes[found.outcome], 1)[0])


def test_an_effect_of_the_detectable_size_is_found_as_often_as_the_power_says():
    contrasts, outcomes = planted(1)
    t = float(student.ppf(0.975, N - 2))
    (nothing,) = randomised_effects(contrasts[["vit"]], outcomes[["probe_gen"]], n_permutations=9)
    size = detectable(nothing, t)
    assert nothing.alone is not None and nothing.alone.value is not None and nothing.alone.ci_high is not None
    error = (nothing.alone.ci_high - nothing.alone.value) / t
    assert detectable(nothing, t, power=0.5) == pytest.approx(t * error)
    assert nct.sf(t, N - 2, size / error) == pytest.approx(0.8, abs=0.01)  # of the noncentral t, the exact power
