"""Mistakes of probes: counts and rankings whose answer is known, planted wrong labels, planted near duplicates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.planted_features import ORIGIN
from zoo.errors import DataError
from zoo.evaluation.evaluating import Request, evaluate
from zoo.evaluation.multilabel import evaluate_tags
from zoo.evaluation.protocols import PROTOCOLS
from zoo.evaluation.refit import keep_probe
from zoo.features import Features
from zoo.looking import mistakes
from zoo.looking.mistakes import (
    Predicted,
    build_predictions,
    count_confusions,
    find_contradicted,
    find_near_duplicates,
    find_wrong_labels,
    mistakes_of,
    select_confident_mistakes,
    select_most_sure,
    select_near_boundary,
)

CLASSES = ("ant", "bee", "cat")


def predicted(rows: list[list[float]], labels: list[int] | None) -> Predicted:
    names = [f"image {number}" for number in range(len(rows))]
    y = None if labels is None else np.array(labels)
    return build_predictions(names, CLASSES, np.array(rows), y, is_tags=False)[0]


def made(x: Any, y: Any, *, split: str = "train", classes: tuple[str, ...] = CLASSES, **more: Any) -> Features:
    origin = replace(ORIGIN, encoder="tiny", dataset="planted", split=split, images_hash=split)
    names = [f"{split} {number}" for number in range(len(y))]
    return Features(x=np.asarray(x, np.float32), y=y, origin=origin, names=names, classes=classes, **more)


def clusters(n: int, *, split: str = "train", seed: int = 0, spread: float = 0.4) -> Features:
    """Three Gaussians that touch nowhere with the usual spread."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return made(4 * np.eye(8)[y] + spread * rng.standard_normal((n, 8)), y, split=split)


ROWS = [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.45, 0.55], [0.3, 0.1, 0.6]]
LABELS = [0, 0, 1, 0, 2, 0]  # rows 1 and 3: ant as bee, 2: bee as ant, 5: ant as cat


def test_confident_mistakes_come_first() -> None:
    found = select_confident_mistakes([predicted(ROWS, LABELS)], 3)
    assert [one.image for one in found] == ["image 3", "image 1", "image 5"]
    first = found[0]
    assert (first.label, first.predicted, first.second) == ("ant", "bee", "ant")
    assert (first.probability, first.label_probability, first.second_probability) == (0.8, 0.1, 0.1)
    assert select_confident_mistakes([predicted(ROWS[:1], LABELS[:1])], 3) == ()


def test_confusions_are_counted_in_both_directions() -> None:
    found = count_confusions(predicted(ROWS, LABELS), n_images=1)
    counts = [(one.label, one.predicted, one.n) for one in found]
    assert counts == [("ant", "bee", 2), ("bee", "ant", 1), ("ant", "cat", 1), ("cat", "ant", 0)]
    assert [[image.image for image in one.images] for one in found] == [["image 3"], ["image 2"], ["image 5"], []]
    assert len(count_confusions(predicted(ROWS, LABELS), n_pairs=1)) == 2
    assert count_confusions(predicted(ROWS, None)) == () == count_confusions(predicted(ROWS[:1], [0]))


def test_the_boundary_has_the_smallest_margins_right_or_wrong() -> None:
    found = select_near_boundary([predicted(ROWS, LABELS)], 2)
    assert [(one.image, one.label == one.predicted) for one in found] == [("image 4", True), ("image 2", False)]
    assert [one.label for one in select_near_boundary([predicted(ROWS, None)], 2)] == [None, None]


def test_the_most_sure_of_each_predicted_class() -> None:
    found = select_most_sure(predicted(ROWS, None), 3, 1)
    assert {name: [one.image for one in some] for name, some in found.items()} == {
        "ant": ["image 0"],
        "bee": ["image 3"],
        "cat": ["image 5"],
    }
    assert select_most_sure(predicted(ROWS[:1], None), 3, 1).keys() == {"ant"}


def test_labels_are_contradicted_by_the_ratio_and_counted_by_the_usual_confidence() -> None:
    p = np.array([[0.9, 0.1, 0], [0.7, 0.3, 0], [0.1, 0.9, 0], [0.45, 0.55, 0], [0.05, 0.9, 0.05], [0.2, 0.1, 0.7]])
    y = np.array([0, 0, 1, 0, 2, 2])
    rows, n_confident = find_contradicted(p, y)
    assert rows.tolist() == [4, 3]  # 18 and 1.2 times as probable as the label
    assert n_confident == 1  # bees usually have 0.9
    none, n_none = find_contradicted(np.eye(3), np.arange(3))
    assert (none.tolist(), n_none) == ([], 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_wrong_labels_are_found_first(seed: int) -> None:
    right = clusters(150, seed=seed)
    planted = np.random.default_rng(seed).permutation(150)[:6]
    wrong = right.y.copy()
    wrong[planted] = (wrong[planted] + 1) % 3
    found = find_wrong_labels(replace(right, y=wrong), device="cpu")
    first = {one.image: one.predicted for one in found.found[:6]}
    assert first == {f"train {row}": CLASSES[right.y[row]] for row in planted}
    assert (found.n_judged, found.n_folds) == (150, 5) and found.n_found >= 6
    assert find_wrong_labels(right, device="cpu").found == ()


def test_a_probe_that_errs_on_most_images_cannot_tell_which_labels_are_wrong() -> None:
    right = clusters(150)
    drawn = replace(right, y=np.random.default_rng(0).permutation(right.y))
    found = find_wrong_labels(drawn, chosen={"C": 1.0, "preparation": "as they are"}, device="cpu")
    assert f"({found.n_found} of 150)" in found.cannot_tell and found.n_found > 60
    assert find_wrong_labels(right, device="cpu").cannot_tell == ""


def test_copies_and_groups_are_in_one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    features = replace(
        clusters(60), groups=np.arange(60, dtype=np.uint64) // 3, contents=np.arange(60, dtype=np.uint64) // 2
    )
    seen = []
    folds_of = mistakes.split_folds

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.extend(folds_of(*arguments, **options))
        return seen

    monkeypatch.setattr(mistakes, "split_folds", watched)
    find_wrong_labels(features, chosen={"C": 1.0, "preparation": "as they are"}, device="cpu")
    together = features.together
    assert together is not None and len(seen) > 1
    assert not any(set(together[rows].tolist()) & set(together[out].tolist()) for rows, out in seen)


def test_only_images_of_a_class_are_not_judged() -> None:
    many = clusters(40)
    y = np.where(many.y == 2, 0, many.y)
    y[5] = 2
    found = find_wrong_labels(replace(many, y=y), chosen={"C": 1.0, "preparation": "as they are"}, device="cpu")
    assert found.n_judged == 39
    with pytest.raises(DataError, match="none can be left out"):
        find_wrong_labels(clusters(3), device="cpu")


def test_planted_near_duplicates_are_found_and_nothing_else() -> None:
    train, test = clusters(600), clusters(200, split="val", seed=1)
    assert find_near_duplicates(train, test, device="cpu").pairs == ()
    x, y = test.x.copy(), test.y.copy()
    x[7], x[11], x[40] = train.x[70] * 1.001, train.x[30], train.x[31]
    x[7, :3] += 1e-3
    y[7] = (train.y[70] + 1) % 3
    contents = np.arange(600, dtype=np.uint64)
    of_test = np.arange(1000, 1200, dtype=np.uint64)
    of_test[40] = contents[31]  # an exact copy, which others count
    found = find_near_duplicates(
        replace(train, contents=contents), replace(test, x=x, y=y, contents=of_test), device="cpu"
    )
    assert [(one.test, one.train) for one in found.pairs] == [("val 11", "train 30"), ("val 7", "train 70")]
    same, other = found.pairs
    assert same.distance < other.distance < found.usual / 10
    assert (other.train_label, other.test_label) == (CLASSES[train.y[70]], CLASSES[y[7]])
    assert same.train_label == CLASSES[train.y[30]]


def test_few_and_equal_images_have_no_near_duplicates() -> None:
    few = clusters(4)
    assert find_near_duplicates(few, clusters(6, split="val", seed=1), device="cpu").pairs == ()
    equal = made(np.ones((30, 8)), np.arange(30) % 3)
    assert find_near_duplicates(equal, made(np.ones((9, 8)), np.arange(9) % 3, split="val"), device="cpu").pairs == ()


def test_the_record_of_a_probe_has_all_of_it() -> None:
    train, test = clusters(120, spread=2.0), clusters(60, split="val", seed=1, spread=2.0)
    request = Request(settings=("full",), neighbours=False, device="cpu")
    evaluation = evaluate(train, test, request)
    kept = keep_probe(evaluation, request)
    found = mistakes_of(train, test, kept.probe, protocol=evaluation.protocols.errors, device="cpu")
    error = evaluation.settings[0].error.value
    assert found.n_wrong == round(error * found.n_test / 100) > 0
    assert sum(one.n for one in found.confusions) == found.n_wrong
    assert found.wrong_labels is not None and found.wrong_labels.n_judged == 180
    assert {one.part for one in found.wrong_labels.found} == {"train", "val"}
    assert found.notes == ()
    streamed = mistakes_of(train, test, kept.probe, protocol=PROTOCOLS["zoo-streamed-2"], device="cpu")
    assert streamed.wrong_labels is None and "zoo-streamed-2" in streamed.notes[0]
    assert streamed.confident == found.confident


def test_images_with_tags_have_mistakes_of_each_tag() -> None:
    rng = np.random.default_rng(0)
    has = rng.random((160, 2)) < 0.5
    x = rng.standard_normal((160, 6)) + np.pad(2.0 * has, ((0, 0), (0, 4)))
    classes = ("", "cat", "dog", "cat|dog")
    train, test = (
        made(x[rows], (has[rows] @ [1, 2]).astype(np.int64), split=split, classes=classes, tags=("cat", "dog"))
        for rows, split in ((slice(0, 100), "train"), (slice(100, 160), "val"))
    )
    evaluation = evaluate_tags(train, test, Request(device="cpu"))
    found = mistakes_of(train, test, evaluation.kept.probe, protocol=evaluation.protocol, device="cpu")
    assert found.n_wrong is None and found.wrong_labels is None and "tags" in found.notes[0]
    assert {one.label for one in found.confident} <= {"cat", "no cat", "dog", "no dog"}
    assert all(one.label != one.predicted for one in found.confident) and found.confident
    (cat, _) = build_predictions(["one"], ("cat", "dog"), np.array([[0.2, 0.6]]), None, is_tags=True)
    assert (cat.judged(0).predicted, cat.judged(0).probability) == ("no cat", 0.8)
