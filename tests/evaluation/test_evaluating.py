"""Everything that is measured of one encoder: settings, neighbours, parts, rows, and going on after a stop."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from tests.planted_features import features
from zoo.errors import DataError, QueryError
from zoo.evaluation.evaluating import (
    Evaluation,
    Request,
    evaluate,
    evaluate_decomposition,
    hash_features,
    make_evaluation_rows,
)
from zoo.features import Features, load_features
from zoo.results.recording import PROVENANCE_KEYS

N_CLASSES, DIM = 4, 6


def clouds(split: str, n_per_class: int, *, seed: int, spread: float = 0.9) -> Features:
    """Gaussian clouds around the corners of a simplex."""
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(N_CLASSES), n_per_class)
    x = np.eye(DIM)[y] + spread * random.normal(size=(len(y), DIM))
    order = random.permutation(len(y))
    return features(x[order].astype(np.float32), y[order], split=split)


@pytest.fixture(scope="module")
def train() -> Features:
    return clouds("train", 60, seed=0)


@pytest.fixture(scope="module")
def test() -> Features:
    return clouds("val", 20, seed=1)


@pytest.fixture(scope="module")
def evaluation(train: Features, test: Features) -> Evaluation:
    request = Request(settings=("full", "5-shot", "10%"), n_seeds=2, n_subsets=2, decompose=True, n_bootstrap=400)
    return evaluate(train, test, request)


def test_settings_come_from_few_labels_to_all_with_the_seeds_that_were_asked_for(evaluation: Evaluation) -> None:
    found = {result.setting.name: [run.n_train for run in result.runs] for result in evaluation.settings}
    assert found == {"5-shot": [20, 20], "10%": [24, 24], "full": [240]}
    assert list(found) == ["5-shot", "10%", "full"]


def test_every_number_is_one_row_with_all_that_it_was_measured_from(evaluation: Evaluation) -> None:
    rows = make_evaluation_rows(evaluation, day=date(2026, 11, 20))
    keys = [(row.metric, row.split, row.seed) for row in rows]
    assert len(set(keys)) == len(keys)
    assert sorted(keys, key=str) == sorted(
        [
            *[("linear_probe_error", f"train {few} -> val", seed) for few in ("5-shot", "10%") for seed in (0, 1)],
            ("linear_probe_error", "train -> val", 0),
            ("linear_probe_error", "train -> train", 0),
            *[("linear_probe_error", "train minus subset -> subset", seed) for seed in (0, 1)],
            ("knn_error", "train -> val", 0),
            *[
                (part, "train -> val", 0)
                for part in ("approximation_plus_usability", "probe_generalization", "encoder_generalization")
            ],
        ],
        key=str,
    )
    for row, provenance in rows.items():
        assert (row.encoder, row.dataset, row.date, row.source) == (
            "planted",
            "planted-images",
            "2026-11-20",
            "measured",
        )
        assert provenance.keys() >= PROVENANCE_KEYS.keys()
        assert row.ci_low is not None and row.ci_high is not None and row.ci_low <= row.value <= row.ci_high
        assert json.dumps(provenance["images_hash"])
    parts = [row.value for row in rows if row.unit == "percentage points"]
    assert sum(parts) == pytest.approx(evaluation.settings[-1].error.value)


def test_a_run_goes_on_where_it_was_and_ends_as_if_it_had_not_been_stopped(
    train: Features, test: Features, tmp_path: Path
) -> None:
    class StoppedError(Exception):
        pass

    def stop_at_full(text: str) -> None:
        if text.startswith("full"):
            raise StoppedError

    request = Request(settings=("3-shot", "full"), n_seeds=2, n_bootstrap=200)
    with pytest.raises(StoppedError):
        evaluate(train, test, request, cache=tmp_path, tell=stop_at_full)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 2
    resumed = evaluate(train, test, request, cache=tmp_path)
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in kept} == kept  # found, not repeated
    whole = evaluate(train, test, request)
    for one, other in zip(resumed.settings, whole.settings, strict=True):
        assert one.error == other.error
        assert all(np.array_equal(a.correct, b.correct) for a, b in zip(one.runs, other.runs, strict=True))
        assert [run.rows for run in one.runs] == [run.rows for run in other.runs]


def test_a_damaged_kept_probe_is_measured_again(train: Features, test: Features, tmp_path: Path) -> None:
    request = Request(settings=("3-shot",), n_seeds=1, neighbours=False, n_bootstrap=200)
    first = evaluate(train, test, request, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    again = evaluate(train, test, request, cache=tmp_path)
    assert again.settings[0].error == first.settings[0].error


def test_published_settings_that_the_images_do_not_allow_are_left_out_with_the_reason(test: Features) -> None:
    small = clouds("train", 25, seed=2)
    found = evaluate(small, test, Request(n_seeds=1, neighbours=False, n_bootstrap=200))
    assert "30-shot" in found.left_out and "25" in found.left_out["30-shot"]
    assert {"full", "5-shot", "3-shot"} <= {result.setting.name for result in found.settings}
    with pytest.raises(DataError, match="25"):
        evaluate(small, test, Request(settings=("30-shot",), n_seeds=1, neighbours=False))


def test_the_digest_of_features_is_that_of_their_numbers_wherever_they_lie(train: Features, tmp_path: Path) -> None:
    train.save(tmp_path / "features", shard_size=64)
    assert hash_features(load_features(tmp_path / "features")) == hash_features(train)
    other = Features(x=train.x + np.float32(1e-3), y=train.y, origin=train.origin)
    assert hash_features(other) != hash_features(train)


def test_a_decomposition_alone_is_that_of_the_evaluation(
    train: Features, test: Features, evaluation: Evaluation
) -> None:
    alone = evaluate_decomposition(train, test, Request(n_subsets=2, n_bootstrap=400))
    assert evaluation.risk is not None and alone.intervals == evaluation.risk.intervals


@pytest.mark.parametrize(
    ("settings", "n_seeds", "says"),
    [(("5-shot", "full", "5-shot"), 1, "twice"), (("few",), 1, "few"), (("full",), 0, "seeds")],
)
def test_a_request_that_makes_no_sense_is_refused_before_anything_is_trained(
    train: Features, test: Features, settings: tuple[str, ...], n_seeds: int, says: str
) -> None:
    with pytest.raises(QueryError, match=says):
        evaluate(train, test, Request(settings=settings, n_seeds=n_seeds))
