"""The ridge score against refitting, and the probe of a race against that of `zoo evaluate`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.each import for_each
from tests.evaluation.test_evaluating import clouds
from zoo.choosing.judging import Chunk, logistic_probe, ridge_score
from zoo.choosing.visiting import Task
from zoo.evaluation.evaluating import probe_maker
from zoo.evaluation.measuring import label_setting, measure
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
    is_wrong, is_wrong_on_test, value = ridge_score(chunk)
    assert np.array_equal(is_wrong, by_left_out.argmax(axis=1) != chunk.y_train)
    assert np.array_equal(is_wrong_on_test, by_test.argmax(axis=1) != chunk.y_test)
    assert 0 < is_wrong.sum() < n
    of_test = np.square(np.eye(3)[chunk.y_test] - by_test).sum()
    assert value == pytest.approx((squares + of_test) / (n + len(chunk.y_test)), rel=1e-6)


def test_missing_classes_are_wrong_equal_features_are_chance_and_one_group_has_no_left_out_images() -> None:
    chunk = chunk_of(30, 5)
    some = chunk.y_train != 1
    fewer = replace(chunk, x_train=chunk.x_train[some], y_train=chunk.y_train[some])
    assert ridge_score(fewer)[1][chunk.y_test == 1].all()
    same = replace(chunk, x_train=np.ones_like(chunk.x_train), x_test=np.ones_like(chunk.x_test))
    assert ridge_score(same)[1].mean() > 0.5
    left_out, on_test, _ = ridge_score(chunk_of(30, 5, of_group=30))
    assert (len(left_out), len(on_test)) == (0, 40)


def test_on_all_labels_the_probe_is_that_of_zoo_evaluate() -> None:
    train, test = clouds("train", 40, seed=0), clouds("val", 30, seed=1)
    run = measure(train, test, label_setting("full"), seed=0, probe=partial(probe_maker(PROTOCOLS["zoo-logistic-2"])))
    rows = np.arange(len(train.y))
    predict = logistic_probe(Task(y_train=train.y, y_test=test.y))("any", rows, train.x, train.y)
    assert np.array_equal(predict(test.x, np.arange(len(test.y))) == test.y, run.correct)
    assert 0 < run.correct.mean() < 1


def test_the_probe_tunes_on_whole_groups() -> None:
    train, test = clouds("train", 40, seed=0), clouds("val", 30, seed=1)
    groups = (np.arange(len(train.y)) // 4).astype(np.uint64)
    task = Task(y_train=train.y, y_test=test.y, groups_train=groups)
    predict = logistic_probe(task)("any", np.arange(len(train.y)), train.x, train.y)
    assert (predict(test.x, np.arange(len(test.y))) == test.y).mean() > 0.5
