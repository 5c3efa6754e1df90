"""Images with tags: one probe per tag, their mean average precision, and what goes into the results."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from tests.planted_features import ORIGIN
from zoo.datasets.images import indicators_of
from zoo.errors import DataError
from zoo.evaluation import LogisticProbe, load_probe, save_probe
from zoo.evaluation.evaluating import Request
from zoo.evaluation.multilabel import METRIC, PROTOCOL, evaluate_tags, make_tag_rows, select_tuning_mask
from zoo.features import Features
from zoo.results.vocabulary import METRICS

TAGS = ("cat", "dog", "owl")
CLASSES = ("", "cat", "dog", "owl", "cat|dog", "cat|owl", "dog|owl", "cat|dog|owl")
REQUEST = Request(device="cpu")


def tagged(n: int, split: str, *, seed: int, share: float = 0.4, tags: tuple[str, ...] = TAGS) -> Features:
    """Features that tell the tags, with noise."""
    random = np.random.default_rng(seed)
    has = random.random((n, 3)) < share
    names = ["|".join(tag for tag, one in zip(TAGS, row, strict=True) if one) for row in has]
    x = random.standard_normal((n, 8)) + 5.0
    x[:, :3] += 1.5 * has
    origin = replace(ORIGIN, encoder="tiny", dataset="tagged", split=split, images_hash=f"{split}{seed}")
    y = np.array([CLASSES.index(name) for name in names], np.int64)
    return Features(x=x.astype(np.float32), y=y, origin=origin, classes=CLASSES, tags=tags)


@pytest.fixture(scope="module")
def pair() -> tuple[Features, Features]:
    return tagged(400, "train", seed=0), tagged(200, "val", seed=1)


def test_each_tag_has_a_probe_like_that_of_scikit_learn(pair: tuple[Features, Features]) -> None:
    found = evaluate_tags(*pair, REQUEST)
    p, y, y_test = found.kept.probe.predict_proba(pair[1]), *map(indicators_of, pair)
    assert found.chosen.keys() == set(TAGS) and not found.left_out and not found.not_converged
    for number, tag in enumerate(TAGS):
        oracle = LogisticRegression(C=found.chosen[tag], tol=1e-10, max_iter=10_000).fit(pair[0].x, y[:, number])
        assert np.allclose(p[:, number], oracle.predict_proba(pair[1].x)[:, 1], atol=0.02)
    expected = 100 * average_precision_score(y_test, p, average="macro")
    assert found.metrics.metrics[METRIC].value == pytest.approx(expected)
    assert expected > 70  # where naming nothing has 40


def test_c_has_the_smallest_log_loss_of_held_out_images(pair: tuple[Features, Features]) -> None:
    found = evaluate_tags(*pair, REQUEST)
    out = select_tuning_mask(pair[0], n_test=200, seed=0)
    assert (found.n_tuning, found.protocol.name) == (int(out.sum()), PROTOCOL) == (80, PROTOCOL)
    x, y = pair[0].x, indicators_of(pair[0])[:, 0]

    def loss(c: float) -> float:
        fitted = LogisticRegression(C=c, tol=1e-8, max_iter=10_000).fit(x[~out], y[~out])
        return float(-np.log(fitted.predict_proba(x[out])[np.arange(out.sum()), y[out].astype(int)]).mean())

    assert loss(found.chosen["cat"]) < min(loss(c) for c in np.logspace(-4, 2, 13)) + 2e-3


def test_the_probe_of_a_tag_is_trained_once(
    pair: tuple[Features, Features], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate_tags(*pair, REQUEST, cache=tmp_path)
    monkeypatch.setattr(LogisticProbe, "fit", lambda *given, **more: pytest.fail("a probe was trained again"))
    again = evaluate_tags(*pair, REQUEST, cache=tmp_path)
    assert again.metrics.as_dict() == first.metrics.as_dict() and again.chosen == first.chosen
    assert np.array_equal(again.kept.probe.coefficients, first.kept.probe.coefficients)


def test_copies_and_groups_are_held_out_together(pair: tuple[Features, Features]) -> None:
    grouped = replace(pair[0], groups=(np.arange(400) // 8).astype(np.uint64))
    out = select_tuning_mask(grouped, n_test=80, seed=3).reshape(50, 8)
    assert (out.all(axis=1) | ~out.any(axis=1)).all() and 0 < out.sum() < 400
    alone = replace(pair[0], groups=np.zeros(400, np.uint64))
    with pytest.raises(DataError, match="belong together so that none can be held out"):
        select_tuning_mask(alone, n_test=80, seed=3)


def test_it_is_saved_and_predicts_tags(pair: tuple[Features, Features], tmp_path: Path) -> None:
    found = evaluate_tags(*pair, REQUEST)
    loaded = load_probe(save_probe(found.kept.probe, tmp_path / "tags"))
    assert (loaded.kind, loaded.classes) == ("tags", TAGS)
    assert np.array_equal(loaded.predict_proba(pair[1]), found.kept.probe.predict_proba(pair[1]))
    assert loaded.about["chosen"] == {"C": found.chosen} and loaded.about["protocol"] == PROTOCOL


def test_a_row_of_results_is_the_tag_average_precision(pair: tuple[Features, Features]) -> None:
    found = evaluate_tags(*pair, replace(REQUEST, seed=4))
    ((row, provenance),) = make_tag_rows(found, source="me", day=date(2026, 1, 2)).items()
    metric = METRICS[row.metric]
    assert metric.takes(row.split) and row.unit == metric.unit and metric.lower_is_better is False
    assert (row.metric, row.protocol, row.n_train, row.seed) == (METRIC, PROTOCOL, 400, 4)
    assert (row.source, row.date) == ("me", "2026-01-02") and row.ci_low is not None and row.ci_low < row.value
    assert provenance["report"]["C"] == found.chosen and provenance["settings"]["name"] == PROTOCOL


def test_a_tag_that_too_few_images_have_gets_no_probe_and_nothing_is_recorded(pair: tuple[Features, Features]) -> None:
    train, test = pair
    without = np.array([CLASSES.index(name.replace("|owl", "").replace("owl", "")) for name in CLASSES])
    found = evaluate_tags(replace(train, y=without[train.y]), test, REQUEST)
    assert list(found.chosen) == ["cat", "dog"] and found.kept.probe.classes == ("cat", "dog")
    assert found.left_out["owl"].startswith("0 training images have it and 320 do not")
    assert make_tag_rows(found) == {}
    assert found.kept.probe.about["left_out"] == found.left_out


def test_what_cannot_be_measured_is_refused(pair: tuple[Features, Features]) -> None:
    train, test = pair
    for wrong, says in (
        ((train, replace(test, tags=())), "have 3 tags and the test images 0; expected the same"),
        ((train, train), "are of the same 400 images"),
        ((replace(train, y=np.zeros(400, np.int64)), test), "All 400 training images have the label"),
        ((replace(train, x=np.full_like(train.x, np.nan)), test), "features that are not finite"),
    ):
        with pytest.raises(DataError, match=says):
            evaluate_tags(*wrong, REQUEST)
