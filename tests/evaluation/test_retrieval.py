"""Nearest images of queries, and near duplicates: against a plain search, planted pairs, and sets that have none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import zoo.features
from tests.planted_features import ORIGIN
from zoo.errors import DataError, QueryError
from zoo.evaluation.nearest_neighbours import find_nearest as nearest_rows
from zoo.evaluation.retrieval import find_near_pairs, nearest
from zoo.features import Features
from zoo.looking import find_near_duplicates


def made(x: Any, **more: Any) -> Features:
    origin = replace(ORIGIN, encoder="tiny", dataset="planted", split="all")
    names = [f"{number}.png" for number in range(len(x))]
    return Features(x=np.asarray(x, np.float32), y=np.zeros(len(x), np.int64), origin=origin, names=names, **more)


def pairs_within(z: np.ndarray) -> set[tuple[int, ...]]:
    distances, rows = nearest_rows(z, 20)
    return {tuple(pair) for pair in find_near_pairs(distances, rows, np.arange(len(z)))[0].tolist()}


def test_neighbours_are_those_of_a_plain_search() -> None:
    generator = np.random.default_rng(0)
    query, gallery = (generator.standard_normal((n, 7)).astype(np.float32) for n in (9, 60))
    indices, distances = zoo.features.nearest(query, gallery, 5)
    unit = [x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True) for x in (query, gallery)]
    apart = 1 - unit[0] @ unit[1].T
    assert indices.tolist() == np.argsort(apart, axis=1, kind="stable")[:, :5].tolist()
    assert distances == pytest.approx(np.sort(apart, axis=1)[:, :5], abs=1e-11)
    assert nearest(made(query), made(gallery), 5)[0].tolist() == indices.tolist()


def test_an_image_is_its_own_neighbour_in_a_gallery_alone() -> None:
    gallery = made(np.random.default_rng(1).standard_normal((20, 4)))
    assert nearest(made(gallery.x), gallery, 1)[0][:, 0].tolist() == [*range(20)]
    within, _ = nearest(gallery, gallery, 19)
    assert all(row not in near for row, near in enumerate(within.tolist()))


@pytest.mark.parametrize(
    ("query", "gallery", "k", "error", "sentence"),
    [
        (np.ones((2, 3)), np.ones((4, 3)), 5, QueryError, "from 1 to 4"),
        (np.ones((2, 3)), np.ones((4, 3)), 0, QueryError, "from 1 to 4"),
        (np.ones((2, 3)), np.ones((4, 3)), 1.5, QueryError, "from 1 to 4"),
        (np.ones((2, 5)), np.ones((4, 3)), 1, DataError, "query has 5 features"),
        (np.ones(3), np.ones((4, 3)), 1, DataError, "query has the shape"),
        (np.full((2, 3), np.nan), np.ones((4, 3)), 1, DataError, "Row 0 of query"),
        (np.ones((2, 3)), np.full((4, 3), np.inf), 1, DataError, "Row 0 of gallery"),
    ],
)
def test_queries_that_cannot_be_answered_are_refused_in_a_sentence(
    query: Any, gallery: Any, k: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        nearest(query, gallery, k)


def test_features_of_two_encoders_are_not_compared_but_labels_may_differ() -> None:
    one = made(np.eye(3), classes=("not known",))
    nearest(one, made(np.eye(3), classes=("ant", "bee")), 1)
    with pytest.raises(DataError, match="'other'"):
        nearest(one, replace(made(np.eye(3)), origin=replace(one.origin, encoder="other")), 1)


def test_pairs_planted_within_a_set_are_all_found_however_it_is_asked_for() -> None:
    generator = np.random.default_rng(2)
    z = generator.standard_normal((400, 12))
    z = np.concatenate([z, z[:49] * (1 + 0.02 * generator.standard_normal((49, 12)))])
    features, planted = made(z), {(f"{row}.png", f"{400 + row}.png") for row in range(49)}
    for found in (find_near_duplicates(features), find_near_duplicates(features, features)):
        pairs = {(pair.train, pair.test) for pair in found.pairs}
        assert planted <= pairs and len(pairs - planted) <= 3  # about 5 % are false
        assert [pair.distance for pair in found.pairs] == sorted(pair.distance for pair in found.pairs)
        assert all(pair.false_share is not None and pair.false_share <= 0.05 for pair in found.pairs)
    assert find_near_duplicates(made(z[:400])).pairs == ()


def test_pairs_make_no_groups() -> None:
    z = np.random.default_rng(3).standard_normal((500, 12))
    step = 0.7 * np.eye(12)[0]
    found = pairs_within(np.concatenate([z, *[[z[row] + step, z[row] + 2 * step] for row in range(40)]]))
    steps = {pair for row in range(40) for pair in ((row, 500 + 2 * row), (500 + 2 * row, 501 + 2 * row))}
    ends = {(row, 501 + 2 * row) for row in range(40)}
    assert len(steps & found) >= 76 and len(ends & found) < 36  # that a is near b and b near c does not name a, c


def test_sets_without_near_duplicates_hardly_ever_have_any() -> None:
    generator, n_found = np.random.default_rng(4), 0
    for number in range(60):
        shape = (200, 3 + number % 10)
        z = generator.standard_t(3, shape) if number % 2 else generator.standard_normal(shape)
        if number % 3 == 0:
            z[:100] += 20  # two clusters
        n_found += bool(pairs_within(z))
    assert n_found <= 3
    flat = np.pad(generator.standard_normal((200, 2)), ((0, 0), (0, 8)))  # another dimension than the rest
    assert len(pairs_within(np.concatenate([flat, 9 + generator.standard_normal((200, 10))]))) <= 1


def test_small_classes_far_from_the_others_are_no_near_duplicates() -> None:
    n_found = 0
    for number in range(20):
        generator = np.random.default_rng(number)
        centres = 10 * generator.standard_normal((40, 16))
        shares = 1 / np.arange(1, 41) if number % 2 else np.ones(40)
        z = centres[generator.choice(40, 400, p=shares / shares.sum())] + generator.standard_normal((400, 16))
        n_found += bool(pairs_within(z))
    assert n_found <= 2


def test_exact_copies_are_told_apart_and_count_once() -> None:
    z = np.random.default_rng(5).standard_normal((60, 5))
    contents = np.arange(62, dtype=np.uint64)
    contents[60:] = 7
    found = find_near_duplicates(made(np.concatenate([z, z[[7, 7]]]), contents=contents))
    assert [(pair.train, pair.test, pair.is_copy) for pair in found.copies] == [
        ("7.png", "60.png", True),
        ("7.png", "61.png", True),
    ]
    assert found.pairs == ()
    unknown = find_near_duplicates(made(np.concatenate([z, z[[7, 7]]])))
    assert {(pair.train, pair.test) for pair in unknown.pairs} == {
        ("7.png", "60.png"),
        ("7.png", "61.png"),
        ("60.png", "61.png"),
    }


def test_too_few_images_are_said_and_not_guessed() -> None:
    found = find_near_duplicates(made(np.random.default_rng(6).standard_normal((5, 3))))
    assert found.pairs == () and "fewer than 5 others" in found.notes[0]
    assert find_near_duplicates(made(np.ones((1, 3)))).usual is None
    assert find_near_duplicates(made(np.ones((40, 3)))).pairs == ()
