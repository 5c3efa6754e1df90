"""The model of expected errors: planted effects are found again, and the shipped table is what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zoo.analysis.expected_error import (
    EFFECTS,
    FEW_SHOT,
    MEASURED,
    ZERO_SHOT,
    Effects,
    LeftOut,
    Model,
    Observation,
    Target,
    label_place,
    log_odds,
    observations,
    shipped_effects,
)
from zoo.cards.catalogue import catalogue
from zoo.choosing.expectations import _added
from zoo.files import content_folder
from zoo.results.evidence import datasets

CARDS = {name: card for name, card in catalogue().items() if not card.is_untrained}
SETS = ("dtd", "eurosat", "resisc45", "food-101", "cifar-10", "mnist")
ENCODERS = sorted(CARDS)[::11]


def effects(**sds: float) -> Effects:
    """Effects of .01 but for those given, as TRAIT_SCOPE."""
    found = {(trait, scope): sds.get(f"{trait}_{scope}", 0.01) for trait, scope in EFFECTS}
    return Effects(
        found, dict.fromkeys((FEW_SHOT, MEASURED, ZERO_SHOT), 0.1), dict.fromkeys((FEW_SHOT, ZERO_SHOT), 1.0)
    )


def drawn(truth: Effects, *, seed: int = 0) -> list[Observation]:
    """Few-shot errors of some encoders on some data sets, drawn from the model."""
    blank = [Observation(name, dataset, FEW_SHOT, label_place(16), 0.5) for name in ENCODERS for dataset in SETS]
    covariance = Model(CARDS, blank, truth).covariance(blank)
    values = np.random.default_rng(seed).multivariate_normal(np.zeros(len(blank)), covariance, method="cholesky")
    errors = np.clip(1 / (1 + np.exp(-values)), 0.003, 0.997)
    return [
        Observation(one.encoder, one.dataset, one.protocol, one.labels, float(error))
        for one, error in zip(blank, errors, strict=True)
    ]


def test_what_is_known_is_a_fact_each_and_no_doubtful_one() -> None:
    known = observations(CARDS)
    assert len({(one.encoder, one.task) for one in known}) == len(known) > 5_000
    assert all(0 <= one.error <= 1 and one.dataset in datasets() for one in known)
    assert not any(one.encoder.startswith("evaclip02_vitB16") and one.protocol == FEW_SHOT for one in known)
    protocols = {one.protocol for one in known}
    assert {MEASURED, FEW_SHOT, ZERO_SHOT, "linear", "linear, eva", "k-NN, torchgeo-bench"} <= protocols


def test_planted_effects_are_found_again() -> None:
    truth = effects(family_overall=0.6, supervision_dataset=0.5)
    model = Model(CARDS, drawn(truth))
    model.fit(n_steps=40)
    found = model.effects.sd
    assert 0.3 < found["family", "overall"] < 2.0
    assert found["supervision", "dataset"] > 0.2
    assert found["architecture", "overall"] < found["family", "overall"]
    assert 0.05 < model.effects.noise[FEW_SHOT] < 0.2


def test_leaving_out_a_block_is_conditioning_on_the_rest() -> None:
    truth = effects(family_overall=0.6, size_overall=0.5, data_domain=0.4)
    known = drawn(truth)
    block = [place for place, one in enumerate(known) if one.encoder in ENCODERS[:4]]
    mean, covariance = Model(CARDS, known, truth).left_out().predict(block)
    y = np.array([log_odds(one.error) for one in known])
    full = Model(CARDS, known, truth).covariance(known)
    rest = np.setdiff1d(np.arange(len(known)), block)
    gain = full[np.ix_(block, rest)] @ np.linalg.inv(full[np.ix_(rest, rest)])
    np.testing.assert_allclose(mean, gain @ y[rest], atol=1e-6)
    np.testing.assert_allclose(covariance, full[np.ix_(block, block)] - gain @ full[np.ix_(rest, block)], atol=1e-6)
    z = (y[block] - mean) / np.sqrt(np.diag(covariance))
    assert np.mean(np.abs(z) < 3) > 0.9
    assert isinstance(Model(CARDS, known, truth).left_out(), LeftOut)


def test_expectations_are_nearer_where_more_is_known() -> None:
    truth = effects(weights_overall=0.4, family_overall=0.4, supervision_domain=0.4, weights_labels=0.2)
    model = Model(CARDS, drawn(truth), truth)
    seen, unseen = ENCODERS[0], next(name for name in CARDS if name not in ENCODERS)
    wanted = [Target(seen), Target(unseen), Target(seen, "", "satellite"), Target(seen, "eurosat", "satellite")]
    _, sd = model.expect([*wanted, Target(seen, only_labels=True)])
    assert sd[0] < sd[1] and all(0 < one < 1.5 for one in sd)
    assert sd[4] == pytest.approx(0.2, rel=0.1)  # of labels nothing was seen


@pytest.mark.slow
def test_the_shipped_table_is_conditioned_on_what_is_shipped() -> None:
    lines = (content_folder("results") / "expected.tsv").read_text().splitlines()
    assert {line.partition("\t")[0] for line in lines[1:]} == set(CARDS), "run scripts/expect_errors.py"
    model = Model(CARDS, observations(CARDS), shipped_effects())
    names = sorted(CARDS)[::150]
    kinds = [("overall", Target), ("eurosat", lambda name: Target(name, "eurosat", "satellite"))]
    for column, target in kinds:
        mean, sd = model.expect([target(name) for name in names])
        for name, found, spread in zip(names, mean, sd, strict=True):
            shipped = _added(name, column)
            assert math.isclose(found, shipped[0], abs_tol=0.02), f"{name}: run scripts/expect_errors.py"
            assert math.isclose(spread, shipped[1], abs_tol=0.02)
