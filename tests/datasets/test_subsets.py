"""Subsets: balanced, stratified, held out; nested by seed, the same for ever, and files that cannot be edited."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from zoo.datasets import Subset, balanced, digits_data, fraction, held_out, load_subset, save_subset
from zoo.datasets.images import digest
from zoo.datasets.subsets import normal_noise, raw_draws, uniform_draws
from zoo.errors import DataError

LABELS = np.repeat(np.arange(5), [40, 7, 100, 33, 20])[np.argsort(uniform_draws((1, 2), 200))]
FIRST_DRAWS = [8572904877659512946, 4625405768784920320]
FIRST_SUBSETS = "2a41711b59e56b069977bafe297d1c4f"


def counts(subset: Subset) -> list[int]:
    return np.bincount(LABELS[subset.indices], minlength=5).tolist()


def test_the_draws_are_the_ones_they_have_always_been() -> None:
    assert raw_draws((0,), 2).tolist() == FIRST_DRAWS
    assert raw_draws((1, 0), 1)[0] != raw_draws((1,), 1)[0] != raw_draws((1, 0, 0), 1)[0]
    noise = normal_noise((3,), (200, 201))
    assert noise.dtype == np.float32 and abs(noise.mean()) < 0.01 and abs(noise.std() - 1) < 0.01


def test_the_subsets_are_the_ones_they_have_always_been() -> None:
    chosen = [balanced(LABELS, 3, seed=0), fraction(LABELS, 0.1, seed=0), held_out(LABELS, 20, seed=0)]
    assert digest([subset.indices.astype("<i8") for subset in chosen]) == FIRST_SUBSETS


def test_a_balanced_subset_has_so_many_of_each_class_and_is_called_a_shot() -> None:
    subset = balanced(LABELS, 6, seed=3, parent="abc")
    assert counts(subset) == [6] * 5 and subset.name == "6-shot"
    assert (np.diff(subset.indices) > 0).all() and subset.indices.dtype == np.int64
    assert (subset.seed, subset.parent, subset.n_parent, len(subset)) == (3, "abc", 200, 30)


def test_a_share_is_rounded_in_each_class_and_leaves_none_out() -> None:
    assert counts(fraction(LABELS, 0.1)) == [4, 1, 10, 3, 2]
    assert counts(fraction(LABELS, 0.01)) == [1] * 5
    assert counts(fraction(LABELS, 1.0)) == [40, 7, 100, 33, 20]
    assert [fraction(LABELS, share).name for share in (0.01, 0.1, 0.005, 0.07)] == ["1%", "10%", "0.5%", "7%"]


@pytest.mark.parametrize("seed", range(3))
def test_subsets_of_one_seed_are_nested_and_those_of_another_are_others(seed: int) -> None:
    three, five, seven = (set(balanced(LABELS, n, seed=seed).indices.tolist()) for n in (3, 5, 7))
    assert three < five < seven
    assert set(fraction(LABELS, 0.05, seed=seed).indices) < set(fraction(LABELS, 0.3, seed=seed).indices)
    assert set(held_out(LABELS, 20, seed=seed).indices) < set(held_out(LABELS, 60, seed=seed).indices)
    assert three != set(balanced(LABELS, 3, seed=seed + 1).indices.tolist())


def test_subsets_of_other_seeds_meet_no_more_than_chance_would_have_it() -> None:
    labels = np.zeros(4000, np.int64)
    shared = np.intersect1d(*(fraction(labels, 0.25, seed=seed).indices for seed in (0, 1))).size
    assert abs(shared - 250) < 60  # four standard deviations


def test_a_held_out_part_is_in_proportion_keeps_every_class_and_avoids_the_few_shots() -> None:
    part = held_out(LABELS, 100, seed=1)
    assert len(part) == 100 and counts(part) == [20, 4, 50, 16, 10]  # 3.5 and 16.5: the first of equals is rounded up
    most = held_out(LABELS, 195, seed=1)
    assert counts(most) == [39, 6, 99, 32, 19]
    assert len(held_out(LABELS, 190, seed=1)) == 190
    assert not np.intersect1d(part.indices, balanced(LABELS, 3, seed=1).indices).size
    np.testing.assert_array_equal(np.sort(np.concatenate([part.indices, part.rest()])), np.arange(200))


def test_labels_may_be_any_whole_numbers_and_their_order_does_not_matter_to_a_class() -> None:
    assert balanced(LABELS * 7 - 3, 3).indices.tolist() == balanced(LABELS, 3).indices.tolist()


def test_too_few_images_for_the_shots_names_the_class_and_how_many() -> None:
    with pytest.raises(DataError, match="8 images a class were asked for, but 'b' has 7; ask for at most 7"):
        balanced(LABELS, 8, classes=("a", "b", "c", "d", "e"))
    with pytest.raises(DataError, match=r"class 0 has 40, class 1 has 7, class 3 has 33 and 1 more have too few"):
        balanced(LABELS, 50)


@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_a_number_of_shots_that_is_none_is_refused(n: int) -> None:
    with pytest.raises(DataError, match="expected 1 or more"):
        balanced(LABELS, n)


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(DataError, match="above 0 and at most 1"):
        fraction(LABELS, share)


@pytest.mark.parametrize("n", [0, 196, 200])
def test_holding_out_too_much_is_refused(n: int) -> None:
    with pytest.raises(DataError, match=r"expected 1 to 195.*the smallest, class 1, has 7"):
        held_out(LABELS, n)


@pytest.mark.parametrize("labels", [np.zeros(0, np.int64), np.zeros((2, 2), np.int64), np.zeros(3)])
def test_labels_that_are_none_are_refused(labels: np.ndarray) -> None:
    with pytest.raises(DataError, match="expected whole numbers"):
        balanced(labels, 1)
    with pytest.raises(DataError, match="The seed is -1"):
        balanced(LABELS, 1, seed=-1)


def test_an_index_file_is_read_back_equal_and_written_the_same(tmp_path: Path) -> None:
    for subset in (balanced(LABELS, 3, parent="p"), fraction(LABELS, 0.01, seed=4), held_out(LABELS, 50)):
        file = save_subset(subset, tmp_path / "deep" / "subset.json")
        read = load_subset(file)
        np.testing.assert_array_equal(read.indices, subset.indices)
        assert read.indices.dtype == np.int64
        facts = ("name", "kind", "amount", "seed", "parent", "n_parent", "fingerprint")
        assert all(getattr(read, fact) == getattr(subset, fact) for fact in facts)
        content = file.read_bytes()
        save_subset(read, file)
        assert file.read_bytes() == content


@pytest.mark.parametrize(
    "edit",
    [
        {"seed": 9},
        {"indices": [0, 1, 2]},
        {"indices": [5, 4]},
        {"indices": [-1]},
        {"indices": [0, "1"]},
        {"indices": [2**80]},
        {"indices": None},
        {"parent": "other"},
        {"n_parent": 7},
        {"name": "4-shot"},
        {"kind": "any"},
        {"amount": 3},
        {"fingerprint": "00"},
        {"fingerprint": None},
        {"seed": True},
    ],
    ids=str,
)
def test_an_edited_index_file_is_refused(tmp_path: Path, edit: dict[str, object]) -> None:
    file = save_subset(balanced(LABELS, 3), tmp_path / "subset.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **edit}))
    with pytest.raises(DataError, match=r"subset\.json was changed after it was written"):
        load_subset(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "damaged"),
        ('{"format": "zoo-sub', "damaged"),
        ("[]", "no index file"),
        ('{"a": 1}', "no index file"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "subset.json").write_text(content)
    with pytest.raises(DataError, match=words):
        load_subset(tmp_path / "subset.json")
    with pytest.raises(DataError, match="There is no index file"):
        load_subset(tmp_path / "absent.json")
    with pytest.raises(DataError, match="cannot be read"):
        load_subset(tmp_path)


def test_a_subset_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="nothing was changed"):
        save_subset(balanced(LABELS, 3), tmp_path / "file" / "subset.json")


def test_a_subset_of_an_image_set_picks_its_images_and_refuses_those_of_another(tmp_path: Path) -> None:
    data = digits_data()
    subset = balanced(data.train.labels, 2, parent=data.train.fingerprint)
    few = subset.of(data.train)
    assert few.n_per_class().tolist() == [2] * 10 and few.split == "train 2-shot"
    assert few.names == [data.train.names[index] for index in subset.indices]
    np.testing.assert_array_equal(np.asarray(few[3][0]), np.asarray(data.train[int(subset.indices[3])][0]))
    file = save_subset(subset, tmp_path / "few.json")
    assert load_subset(file, of=data.train).fingerprint == subset.fingerprint
    with pytest.raises(DataError, match="was made of 1,346 images"):
        load_subset(file, of=data.val)
    with pytest.raises(DataError, match="make the subset of this image set"):
        balanced(data.train.labels, 2, parent="0" * 32).of(data.train)
