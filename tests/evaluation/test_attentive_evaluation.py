"""Attentive probes as evaluate measures them: rows, what pooling hides, and what is saved and predicted with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from zoo.cli.evaluation_output import build_evaluation_document, build_risk_document
from zoo.datasets import open_images
from zoo.errors import QueryError
from zoo.evaluation import load_probe, save_probe
from zoo.evaluation.evaluating import Evaluation, Request, average_maps, evaluate, make_evaluation_rows
from zoo.evaluation.refit import keep_probe
from zoo.features.maps import featurise_maps, parse_map_layer

ENCODER = "pocket_mae_vit_shapes"
REQUEST = Request(settings=("full",), probe="attentive", changed={"quick": True, "epochs": 3})


@pytest.fixture(scope="module")
def digits() -> Any:
    data = open_images("digits")
    return {
        "train": data.train.subset(np.arange(300), split="train"),
        "val": data.val.subset(np.arange(100), split="val"),
    }


@pytest.fixture(scope="module", params=[False, True], ids=["patches", "with the class token"])
def evaluation(request: Any, digits: Any) -> Evaluation:
    (maps,) = featurise_maps(ENCODER, digits, class_token=request.param).values()
    return evaluate(maps["train"], maps["val"], REQUEST)


def test_an_attentive_probe_has_rows_of_its_own_metric(evaluation: Evaluation) -> None:
    (row,) = make_evaluation_rows(evaluation)
    assert (row.metric, row.protocol) == ("attentive_probe_error", "zoo-attentive-2 (epochs=3, quick=true)")


def test_what_pooling_hides_is_the_difference_on_the_same_images(evaluation: Evaluation) -> None:
    (found,) = evaluation.pooled
    attentive, linear = evaluation.settings[0].runs[0].correct, found.linear.runs[0].correct
    assert found.gain.value == pytest.approx(100 * (attentive.mean() - linear.mean()))
    assert found.gain.ci_low <= found.gain.value <= found.gain.ci_high
    assert f"{found.gain.value:+.1f} points" in found.text


@pytest.mark.parametrize("evaluation", [False], ids=["patches"], indirect=True)
def test_components_of_the_average_stand_next_to_those_of_the_patches(evaluation: Evaluation) -> None:
    found = evaluate(evaluation.train, evaluation.test, replace(REQUEST, decompose=True, n_subsets=1))
    assert found.risk is not None and found.pooled_risk is not None
    assert found.risk.intervals["full_shot_error"].value == pytest.approx(found.settings[0].error.value)
    assert found.pooled_risk.intervals["full_shot_error"].value == pytest.approx(found.pooled[0].linear.error.value)
    _, *parts = found.build_tables()
    assert [one.title.rpartition(", ")[2] for one in parts] == [
        "by attentive probes",
        "by linear probes of averaged patches",
    ]
    assert build_evaluation_document(found)["pooled_decomposition"] == build_risk_document(found.pooled_risk)


def test_averages_are_of_the_patches_and_have_the_class_token_behind(evaluation: Evaluation) -> None:
    maps = evaluation.train.x[:].reshape(300, -1, 40)
    n_tokens = maps.shape[1] - 64
    expected = np.concatenate([maps[:, n_tokens:].mean(axis=1), maps[:, :n_tokens].reshape(300, -1)], axis=1)
    np.testing.assert_allclose(average_maps(evaluation.train).x, expected, atol=1e-5)


def test_a_saved_probe_predicts_images_as_it_was_measured(evaluation: Evaluation, digits: Any, tmp_path: Path) -> None:
    probe = load_probe(save_probe(keep_probe(evaluation, REQUEST).probe, tmp_path / "probe"))
    found = probe.predict_images(digits["val"])
    np.testing.assert_allclose(found.probabilities, probe.predict_proba(evaluation.test), atol=1e-4)
    right = found.probabilities.argmax(axis=1) == digits["val"].labels
    assert (right == evaluation.settings[0].runs[0].correct).mean() > 0.98
    _, preprocess = zoo.load(ENCODER)
    pixels = torch.stack([preprocess(digits["val"].images[number]) for number in range(4)])
    with torch.inference_mode():
        np.testing.assert_allclose(probe.module()(pixels).numpy(), found.probabilities[:4], atol=1e-4)


def test_features_that_are_no_maps_or_reduced_ones_are_refused(evaluation: Evaluation) -> None:
    averages = [average_maps(part) for part in (evaluation.train, evaluation.test)]
    with pytest.raises(QueryError, match="expected maps"):
        evaluate(averages[0], averages[1], REQUEST)
    with pytest.raises(QueryError, match="principal components"):
        parse_map_layer("map:2 8x8x16 of 40 (90.0 % of variance, components 3f1c09ab)")
