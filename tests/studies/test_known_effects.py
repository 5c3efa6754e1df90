"""Known effects: they are what was planted, on any table, and outcomes drawn with them have them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.which_methods_find_the_effects.known_effects import (
    PRODUCTS,
    QUESTIONS,
    KnownEffects,
    drawn,
    known_effects,
    randomised_table,
    variance_inflation,
)
from zoo.analysis.columns import Estimate
from zoo.analysis.randomised import RandomisedPopulation, load_randomised_population
from zoo.analysis.table import StudyTable, build_table


@pytest.fixture(scope="module")
def population() -> RandomisedPopulation:
    return load_randomised_population()


@pytest.fixture(scope="module")
def table(population: RandomisedPopulation) -> StudyTable:
    return randomised_table(population)


def planted(population: RandomisedPopulation, coefficients: dict[str, float]) -> RandomisedPopulation:
    """The population with an outcome that is a sum of its contrasts, exactly."""
    y = pd.Series(20.0, index=population.contrasts.index)
    for name, value in coefficients.items():
        y = y + value * population.contrasts[name].fillna(0.0)
    return replace(population, outcomes=population.outcomes.assign(usability=y))


def known(
    values: dict[str, float] | None = None,
    *,
    residuals: tuple[float, ...] = (0.0, 0.0),
    spreads: dict[str, float] | None = None,
) -> KnownEffects:
    """Effects by question, 0 where none is given, all certain; numbers are not scaled unless ``spreads`` says so."""
    estimates = {
        one.name: Estimate(term=one.words, value=(values or {}).get(one.name, 0.0), p=0.001, n=9, unit="")
        for one in QUESTIONS
    }
    return KnownEffects(
        outcome="usability", estimates=estimates, products=dict.fromkeys(PRODUCTS, 0.0),
        spreads=spreads or {},
        residuals=np.array(residuals), mean=20.0,
    )  # fmt: skip


def small_table(n: int = 12) -> StudyTable:
    """Encoders that differ in dimensions, epochs, network and mode."""
    modes = ["contrastive", "siamese", "clustering"]
    return build_table(
        {
            f"enc_{number}": {
                "z_dim": 64 * 4 ** (number % 3), "epochs": 100 * 2 ** (number % 4), "batch_size": 256,
                "learning_rate": 0.1, "nviews": 2, "n_parameters": 1e6, "n_augmentations": 4.0 + number % 2,
                "family": "vit" if number % 2 else "resnet", "ssl_mode": modes[number % 3], "optimizer": "sgd",
                "projection1_arch": "mlp", "pretraining_data": "here", "patch_size": 7, "usability": float(number),
            }
            for number in range(n)
        }
    )  # fmt: skip


def test_a_planted_sum_of_contrasts_comes_out_question_by_question(population: RandomisedPopulation):
    found = known_effects(
        planted(population, {"dim": -4.0, "objective vicreg": 2.0, "objective byol": 6.0, "crop": -5.0}), "usability"
    )
    values = {name: one.value for name, one in found.estimates.items()}
    expected = {"dim": -4.0, "mode siamese": 4.0, "augmentations": -1.0}
    for name, value in values.items():
        assert value == pytest.approx(expected.get(name, 0.0), abs=1e-8), name


def test_drawn_outcomes_have_the_effects_they_say():
    table = small_table()
    found = drawn(table, known({"dim": -4.0, "vit": 3.0, "mode siamese": 2.0}), n_draws=3, seed=0)
    assert found.outcomes.shape == (12, 3)
    assert found.outcomes.mean(axis=0) == pytest.approx(20.0)
    frame = pd.DataFrame(found.outcomes, index=table.frame.index)
    # enc_1 has 4 times the dimensions of enc_0, is a ViT and siamese
    assert (frame.loc["enc_1"] - frame.loc["enc_0"]).to_numpy() == pytest.approx(-4.0 + 3.0 + 2.0)
    assert found.truth["dim"].tolist() == [-4.0] * 3 and found.truth["mode siamese"].tolist() == [2.0] * 3


def test_inflation_is_one_where_choices_are_independent_and_infinite_where_one_follows():
    rows = {
        f"enc_{number}": {
            "z_dim": 64 * (1 + number % 2), "epochs": 100 * (1 + number // 2 % 2), "batch_size": 64 * (1 + number % 2),
            "family": "resnet", "ssl_mode": "contrastive", "n_parameters": 1e6, "learning_rate": 0.1, "nviews": 2,
            "n_augmentations": 3.0,
        }
        for number in range(8)
    }  # fmt: skip
    found = variance_inflation(build_table(rows))
    assert found["epochs"] == pytest.approx(1)
    assert math.isinf(found["dim"]) and math.isinf(found["batch"])
    assert "views" not in found  # it never varies
