"""The model of expected errors: planted effects are found again, and the shipped table is what it says."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from scripts.error_model import (
    ANCHOR,
    EFFECTS,
    FEW_SHOT,
    LINEAR,
    MEASURED,
    WEAK_ZERO_SHOT,
    ZERO_SHOT,
    Effects,
    LeftOut,
    Model,
    Observation,
    Target,
    label_place,
    lines,
    log_odds,
    observations,
    shipped_effects,
)
from scripts.expect_errors import LEAST_FACTOR, MOST_FACTOR, basis_of
from zoo.analysis.covariates import WRONG_LABELS
from zoo.cards.catalogue import load_catalogue
from zoo.choosing.expectations import _added
from zoo.files import get_content_folder
from zoo.results.evidence import list_datasets
from zoo.results.values import IMAGENET

CARDS = {name: card for name, card in load_catalogue().items() if not card.is_untrained}
SETS = ("dtd", "eurosat", "resisc45", "food-101", "cifar-10", "mnist")
ENCODERS = sorted(CARDS)[::11]


def effects(**sds: float) -> Effects:
    """Effects of .01 but for those given, as TRAIT_SCOPE."""
    found = {(trait, scope): sds.get(f"{trait}_{scope}", 0.01) for trait, scope in EFFECTS}
    protocols = (FEW_SHOT, LINEAR, MEASURED, ZERO_SHOT)
    return Effects(found, dict.fromkeys([*protocols, *(f"{one}, elsewhere" for one in protocols)], 0.1), {})


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
    facts = {(one.encoder, one.task, "" if one.protocol == ZERO_SHOT else one.origin, one.px) for one in known}
    assert len(facts) == len(known) > 5_500
    assert all(0 <= one.error <= 1 and one.dataset in list_datasets() for one in known)
    assert not any(one.encoder.startswith("evaclip02_vitB16") and one.protocol == FEW_SHOT for one in known)
    protocols = {one.protocol for one in known}
    assert protocols == {MEASURED, LINEAR, FEW_SHOT, ZERO_SHOT, WEAK_ZERO_SHOT, "k-NN", "attentive", "own head"}
    texts = [one for one in known if one.protocol == ZERO_SHOT and one.dataset == IMAGENET]
    assert len(texts) > 180 and all(one.labels == 0 for one in texts)
    few = {one.encoder for one in known if one.protocol == WEAK_ZERO_SHOT}
    assert {"slip_vitB16_yfcc15m_ep25", "openclip_vitB32_commonpools"} <= few and "openvision_vitT16_160" not in few


def test_features_pooled_otherwise_are_another_encoder_but_a_projection_is_not() -> None:
    pooled = [one for one in observations(CARDS) if one.encoder == "pe_core_vitL14_336" and one.protocol == "k-NN"]
    assert [round(100 * one.error, 1) for one in pooled if one.origin.startswith("billpsomas")] == [17.3]  # not 50.9
    projected = [one for one in observations(CARDS) if one.encoder == "clip_vitB16" and one.protocol == LINEAR]
    assert any(one.origin.endswith(", projected") for one in projected)


def test_a_protocol_is_translated_by_the_line_of_encoders_that_have_both() -> None:
    drawn = np.random.default_rng(0)
    odds = drawn.normal(-1.5, 0.5, 12)
    errors = {name: 1 / (1 + np.exp(-one)) for name, one in zip(ENCODERS, odds, strict=False)}
    floor = WRONG_LABELS[IMAGENET]
    known = [Observation(name, IMAGENET, MEASURED, 0.0, floor + (1 - floor) * one) for name, one in errors.items()]
    for name, one in errors.items():
        twice = 1 / (1 + np.exp(-2 * math.log(one / (1 - one)) - 1))
        known.append(Observation(name, IMAGENET, "k-NN", 0.0, floor + (1 - floor) * twice))
    known += [Observation(name, IMAGENET, "attentive", 0.0, 0.2) for name in ENCODERS[20:40]]  # which none links
    assert lines(known) == {ANCHOR: 1.0, (IMAGENET, "k-NN"): pytest.approx(2.0, abs=0.02)}


def test_planted_effects_are_found_again() -> None:
    truth = effects(family_overall=0.6, supervision_dataset=0.5)
    model = Model(CARDS, drawn(truth))
    model.fit(n_steps=40)
    found = model.effects.sd
    assert 0.3 < found["family", "overall"] < 2.0
    assert found["supervision", "dataset"] > 0.2
    assert found["architecture", "overall"] < found["family", "overall"]
    assert 0.05 < model.effects.noise[f"{FEW_SHOT}, elsewhere"] < 0.2


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
    _, sd = model.expect(wanted)
    assert sd[0] < sd[1] and all(0 < one < 1.5 for one in sd)


def test_what_all_targets_share_moves_their_errors_but_not_their_differences() -> None:
    truth = effects(weights_overall=0.1, objective_overall=0.5)
    others = [name for name in ENCODERS if not CARDS[name].saw_texts]
    known = [Observation(name, IMAGENET, MEASURED, 0.0, 0.2 + 0.001 * n) for n, name in enumerate(others)]
    model = Model(CARDS, known, truth)
    texts = [name for name, card in CARDS.items() if card.saw_texts and not card.saw_labels][:2]
    targets = [Target(name, IMAGENET, "natural", 0.0, MEASURED) for name in texts]
    together, (_, sd) = model.expect_together(targets), model.expect(targets)
    np.testing.assert_allclose(np.sqrt(np.diag(together)), sd, rtol=1e-6)
    apart = math.sqrt(together[0, 0] + together[1, 1] - 2 * together[0, 1])
    assert apart < 0.5 * math.hypot(*sd)


@pytest.mark.slow
def test_the_shipped_table_is_conditioned_on_what_is_shipped() -> None:
    lines_ = (get_content_folder("results") / "expected.tsv").read_text().splitlines()
    assert {line.partition("\t")[0] for line in lines_[1:]} == set(CARDS), "run scripts/expect_errors.py"
    model = Model(CARDS, observations(CARDS), shipped_effects())
    names, bases, times = sorted(CARDS)[::60], basis_of(observations(CARDS)), defaultdict(list)
    kinds = {
        "overall": lambda name: Target(name),
        "eurosat": lambda name: Target(name, "eurosat", "satellite"),
        IMAGENET: lambda name: Target(name, IMAGENET, "natural", 0.0, MEASURED),
    }
    for column, target in kinds.items():
        mean, sd = model.expect([target(name) for name in names])
        for name, found, spread in zip(names, mean, sd, strict=True):
            shipped = _added(name, column)
            assert math.isclose(found, shipped[0], abs_tol=0.02), f"{name}: run scripts/expect_errors.py"
            times[bases[name], column == IMAGENET].append(shipped[1] / spread)
    for factors in times.values():  # by what held-out numbers are further off than the model expects
        assert max(factors) - min(factors) < 0.06 and LEAST_FACTOR < np.mean(factors) < MOST_FACTOR
