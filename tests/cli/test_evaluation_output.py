"""What the output of ``zoo evaluate`` says of the preparations that probes chose, from features with a known answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from tests.planted_features import balanced_labels, features
from zoo.cli.evaluation_output import build_evaluation_document, list_scaling_notes, print_evaluation, print_many
from zoo.evaluation.evaluating import Evaluation, Request, evaluate
from zoo.features import Features

N_CLASSES, DIM = 4, 24


def hidden(n: int, *, seed: int, split: str) -> Features:
    """Classes differ in four directions of little variance next to twenty of much."""
    random = np.random.default_rng(seed)
    y = balanced_labels(n, N_CLASSES)
    x = random.normal(size=(n, DIM))
    x[:, :N_CLASSES] = 0.01 * (2.5 * np.eye(N_CLASSES)[y] + x[:, :N_CLASSES])
    return features(x.astype(np.float32), y, split=split)


def documented(
    protocol: str, cache: Path | None = None, *, n_test: int = 200, **how: Any
) -> tuple[Evaluation, dict[str, Any]]:
    train, test = hidden(800, seed=0, split="train"), hidden(n_test, seed=1, split="val")
    request = Request(settings=("10-shot",), n_seeds=2, neighbours=False, protocol=protocol, device="cpu", **how)
    measured = evaluate(train, test, request, cache=cache)
    return measured, build_evaluation_document(measured)


def test_a_preparation_that_tells_is_in_the_document_and_in_one_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured, found = documented("zoo-logistic-3", tmp_path)
    (setting,) = found["errors"]
    choice = setting["preparation"]
    assert sum(choice["chosen"].values()) == 2 and "as they are" not in choice["chosen"]
    tried = [
        {one["preparation"]: one["validation_error_percent"] for one in run["report"]["preparations"]}
        for run in setting["runs"]
    ]
    chosen = [run["report"]["preparation"] for run in setting["runs"]]
    assert choice["error"] == sum(each[name] for each, name in zip(tried, chosen, strict=True)) / 2
    assert choice["as_they_are"] == sum(each["as they are"] for each in tried) / 2
    assert choice["as_they_are"] > choice["error"] + 2 and not choice["cross_validated"]
    print_evaluation(measured, found)
    note = f"({choice['error']:.1f} for {choice['as_they_are']:.1f} %)"
    printed = capsys.readouterr().err
    assert printed.count(note) == printed.count("features are prepared as tuned") == 1
    print_many([found, found])
    printed = capsys.readouterr().err
    assert printed.count(note) == printed.count("planted: features are prepared") == 1  # the same note is said once
    assert documented("zoo-logistic-3", tmp_path)[1] == found  # from cached runs


def told(**changed: Any) -> dict[str, Any]:
    chosen = {"chosen": {"whitened 0.1": 5}, "error": 15.72, "as_they_are": 20.26, "cross_validated": False}
    return chosen | changed


MIXED = {"whitened 0.1": 3, "as they are": 2}


@for_each(
    [
        ((told(),), "10-shot whitened 0.1 (15.7 for 20.3 %)"),
        (
            (told(chosen={"standardised": 5}), told(error=18.26), told(chosen=MIXED)),
            "10-shot standardised (15.7 for 20.3 %), 30-shot whitened 0.1 in 3 of 5 seeds (15.7 for 20.3 %)",
        ),
        ((None, told(as_they_are=None), told(error=None)), None),
    ],
    arguments=2,
)
def test_settings_are_named_where_the_error_moved_by_more_than_two_points(
    by_setting: tuple[dict[str, Any] | None, ...], note: str | None
) -> None:
    names = ("10-shot", "20-shot", "30-shot")
    errors = [{"setting": name, "preparation": one} for name, one in zip(names, by_setting, strict=False)]
    assert list_scaling_notes({"errors": errors}) == (
        [] if note is None else [f"features are prepared as tuned (tuning error, for that unscaled): {note}"]
    )


def test_documents_without_preparations_have_no_note() -> None:
    assert list_scaling_notes({"errors": [{"setting": "10-shot"}]}) == list_scaling_notes({"tags": ["a"]}) == []


def test_few_tuning_rows_are_those_of_the_cross_validation() -> None:
    assert documented("zoo-logistic-3", n_test=32)[1]["errors"][0]["preparation"]["cross_validated"]


def test_probes_of_features_as_they_are_have_no_preparation(capsys: pytest.CaptureFixture[str]) -> None:
    measured, found = documented("zoo-logistic-2")
    assert found["errors"][0]["preparation"] is None
    print_evaluation(measured, found)
    assert "features" not in capsys.readouterr().err


def test_a_given_C_has_no_tuning_errors_to_tell_of(capsys: pytest.CaptureFixture[str]) -> None:  # noqa: N802
    measured, found = documented("zoo-logistic-3", changed={"C": 1.0, "preparations": ("whitened 0.1",)})
    assert found["errors"][0]["preparation"]["chosen"] == {"whitened 0.1": 2}
    assert found["errors"][0]["preparation"]["as_they_are"] is None
    print_evaluation(measured, found)
    assert "features" not in capsys.readouterr().err
