"""The ridge score against refitting, and the probe of a race against that of `zoo evaluate`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from tests.evaluation.test_evaluating import clouds
from zoo.choosing.scoring import PROTOCOLS_OF_PROBES, Chunk, Task, build_logistic_scorer, build_schedule, score_by_ridge
from zoo.errors import DataError
from zoo.evaluation.evaluating import build_probe_maker
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.measuring import ProbeCache, label_setting, measure
from zoo.evaluation.protocols import PROTOCOLS
from zoo.evaluation.transferability.leave_one_out import PENALTIES

NOISE = 2.5  # so that some are wrong


def chunk_of(n: int, dim: int, *, of_group: int = 1, seed: int = 0) -> Chunk:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(3, dim))
    y, y_test = np.arange(n) % 3, np.arange(40) % 3
    x = centres[y] + NOISE * random.normal(size=(n, dim)) + 4.0
    x_test = centres[y_test] + NOISE * random.normal(size=(40, dim)) + 4.0
    groups = np.arange(n) // of_group
    return Chunk(
        x_train=x.astype(np.float32),
        y_train=y.astype(np.int64),
        x_test=x_test.astype(np.float32),
        y_test=y_test.astype(np.int64),
        groups=groups if of_group > 1 else None,
    )


@for_each([(45, 8, 1), (24, 60, 1), (45, 8, 5), (24, 60, 5)], arguments=3)  # more images than dimensions, and fewer
def test_ridge_is_that_of_refitting_without_each_image_or_group(n: int, dim: int, of_group: int) -> None:
    from sklearn.linear_model import Ridge

    chunk = chunk_of(n, dim, of_group=of_group)
    x, y = chunk.x_train.astype(np.float64), np.eye(3)[chunk.y_train]
    total = float(np.square(x - x.mean(axis=0)).sum())
    found = []
    for penalty in np.array(PENALTIES) * total:
        left_out = np.empty_like(y)
        for group in np.unique(np.arange(n) // of_group):
            inside = np.arange(n) // of_group == group
            left_out[inside] = Ridge(alpha=penalty, solver="svd").fit(x[~inside], y[~inside]).predict(x[inside])
        on_test = Ridge(alpha=penalty, solver="svd").fit(x, y).predict(chunk.x_test.astype(np.float64))
        found.append((np.square(y - left_out).sum(), left_out, on_test))
    squares, by_left_out, by_test = min(found, key=lambda one: one[0])
    is_wrong, is_wrong_on_test, value = score_by_ridge(chunk)
    assert np.array_equal(is_wrong, by_left_out.argmax(axis=1) != chunk.y_train)
    assert np.array_equal(is_wrong_on_test, by_test.argmax(axis=1) != chunk.y_test)
    assert 0 < is_wrong.sum() < n
    of_test = np.square(np.eye(3)[chunk.y_test] - by_test).sum()
    assert value == pytest.approx((squares + of_test) / (n + len(chunk.y_test)), rel=1e-6)


def test_missing_classes_are_wrong_equal_features_are_chance_and_one_group_has_no_left_out_images() -> None:
    chunk = chunk_of(30, 5)
    some = chunk.y_train != 1
    fewer = replace(chunk, x_train=chunk.x_train[some], y_train=chunk.y_train[some])
    assert score_by_ridge(fewer)[1][chunk.y_test == 1].all()
    same = replace(chunk, x_train=np.ones_like(chunk.x_train), x_test=np.ones_like(chunk.x_test))
    assert score_by_ridge(same)[1].mean() > 0.5
    left_out, on_test, _ = score_by_ridge(chunk_of(30, 5, of_group=30))
    assert (len(left_out), len(on_test)) == (0, 40)


@pytest.mark.parametrize("n_per_class", [40, 250])  # chosen by cross-validation, and on rows held out
@pytest.mark.parametrize("protocol", PROTOCOLS_OF_PROBES)
def test_on_all_labels_the_probe_is_that_of_zoo_evaluate(protocol: str, n_per_class: int) -> None:
    train, test = clouds("train", n_per_class, seed=0), clouds("val", 50, seed=1)
    run = measure(train, test, label_setting("full"), seed=0, probe=partial(build_probe_maker(PROTOCOLS[protocol])))
    rows = np.arange(len(train.y))
    task = Task(y_train=train.y, y_test=test.y)
    predict = build_logistic_scorer(task, protocol=protocol)("any", rows, train.x, train.y)
    assert np.array_equal(predict(test.x, np.arange(len(test.y))) == test.y, run.correct)
    assert 0 < run.correct.mean() < 1


def test_the_probe_tunes_on_whole_groups() -> None:
    train, test = clouds("train", 40, seed=0), clouds("val", 30, seed=1)
    groups = (np.arange(len(train.y)) // 4).astype(np.uint64)
    task = Task(y_train=train.y, y_test=test.y, groups_train=groups)
    predict = build_logistic_scorer(task)("any", np.arange(len(train.y)), train.x, train.y)
    assert (predict(test.x, np.arange(len(test.y))) == test.y).mean() > 0.5


def task_of(y: np.ndarray, *, n_test: int = 900, groups: np.ndarray | None = None) -> Task:
    return Task(y_train=y, y_test=np.resize(np.unique(y), n_test), groups_train=groups, classes=("ant", "bee", "cow"))


def test_every_beginning_has_the_classes_in_their_proportions() -> None:
    y = np.repeat(np.arange(3), [2_000, 900, 100]).astype(np.int64)
    found = build_schedule(task_of(y), first_images=256, seed=3)
    assert np.array_equal(np.sort(found.train), np.arange(3_000))
    for n, _ in found.sizes:
        counts = np.bincount(y[found.train[:n]], minlength=3)
        assert np.abs(counts - n * np.array([2_000, 900, 100]) / 3_000).max() <= 1  # less than one image per class


@for_each(
    [
        (3_000, 3, ((128, 128), (256, 256), (512, 512), (1_024, 900), (2_048, 900), (3_000, 900))),
        (60, 3, ((60, 128), (60, 256), (60, 512), (60, 900))),  # few labels: all from the first rung on
        (3_000, 500, ((1_000, 128), (2_000, 256), (3_000, 512), (3_000, 900))),  # two images per class
    ],
    arguments=3,
)
def test_rungs_double_and_end_with_all_images(n: int, n_classes: int, sizes: tuple[tuple[int, int], ...]) -> None:
    y = (np.arange(n) % n_classes).astype(np.int64)
    found = build_schedule(task_of(y), first_images=256, seed=0)
    assert found.sizes == sizes
    assert np.bincount(y[found.train[: sizes[0][0]]]).min() >= 2


def test_the_seed_decides_the_order() -> None:
    y = (np.arange(600) % 3).astype(np.int64)
    one, again, other = (build_schedule(task_of(y), first_images=64, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.train, again.train)
    assert np.array_equal(one.test, again.test)
    assert not np.array_equal(one.train, other.train)
    assert not np.array_equal(one.test, other.test)


def test_images_of_a_group_come_together_and_never_on_both_sides_of_a_step() -> None:
    random = np.random.default_rng(0)
    groups = random.integers(0, 120, 2_000).astype(np.uint64)
    y = (groups % 3).astype(np.int64)
    found = build_schedule(task_of(y, groups=groups), first_images=256, seed=5)
    for n, _ in found.sizes:
        inside, outside = set(groups[found.train[:n]].tolist()), set(groups[found.train[n:]].tolist())
        assert not inside & outside
    assert set(y[found.train[: found.sizes[0][0]]].tolist()) == {0, 1, 2}


@for_each(
    [
        ([1, 1, 1, 1], [1], "All 4 training images have the label 'bee'"),
        ([0, 1, 2], [0], "one training image"),
        ([0, 0, 1, 1], [0, 2, 2], "2 test images have the label 'cow', which no training image has"),
        ([0, 0, 1], [], "empty"),
    ],
    arguments=3,
)
def test_images_that_no_probe_can_be_trained_or_tested_on_are_refused(
    train: list[int], test: list[int], match: str
) -> None:
    with pytest.raises(DataError, match=match):
        Task(y_train=np.array(train), y_test=np.array(test, np.int64), classes=("ant", "bee", "cow"))


@pytest.mark.parametrize("n_per_class", [40, 250])
def test_a_probe_is_trained_once_and_then_comes_from_the_cache_with_the_same_predictions(
    n_per_class: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = clouds("train", n_per_class, seed=0), clouds("val", 50, seed=1)
    task, rows = Task(y_train=train.y, y_test=test.y), np.arange(len(train.y))

    def predicted(**options: Any) -> list[int]:
        caches = ProbeCache(tmp_path, protocol=PROTOCOLS_OF_PROBES[0])
        probe = build_logistic_scorer(task, kept=lambda name, rows: (train, caches), **options)
        found: list[int] = probe("any", rows, train.x, train.y)(test.x, np.arange(len(test.y))).tolist()
        return found

    first = predicted()
    assert first == build_logistic_scorer(task)("any", rows, train.x, train.y)(test.x, np.arange(len(test.y))).tolist()
    (path,) = tmp_path.glob("*.npz")
    with monkeypatch.context() as patch:
        patch.setattr(LogisticProbe, "fit", lambda *given, **more: pytest.fail("a probe was trained again"))
        assert predicted() == first
    predicted(seed=1)
    assert len(list(tmp_path.glob("*.npz"))) == 2
    path.write_bytes(path.read_bytes()[:200])  # damaged
    assert predicted() == first


def test_a_cache_without_room_for_a_probe_says_so_and_the_probe_is_trained_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    train, test = clouds("train", 40, seed=0), clouds("val", 50, seed=1)
    cache = ProbeCache(tmp_path / "taken" / "below", protocol="zoo-logistic-3")
    probe = build_logistic_scorer(Task(y_train=train.y, y_test=test.y), kept=lambda name, rows: (train, cache))
    predict = probe("any", np.arange(len(train.y)), train.x, train.y)
    assert (predict(test.x, None) == test.y).mean() > 0.5
    (problem,) = cache.problems
    assert "could not be stored" in problem and "taken" in problem
