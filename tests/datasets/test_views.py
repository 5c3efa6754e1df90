"""Image sets of views and of turned images: what is in them, and that they are the same whoever asks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import REPOSITORY, Run
from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.datasets import ImageSet, pixels_of, shapes
from zoo.datasets.recipes import AugmentationRecipe, build_recipe
from zoo.datasets.views import build_view_preprocess, draw_image_positions, make_rotations, make_views
from zoo.encoders.preprocess import build_preprocess

CARD = load_catalogue()["pocket_simclr_rn_shapes"]


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return shapes(classes=4, train=12, val=8).train


@pytest.fixture(scope="module")
def recipe() -> AugmentationRecipe:
    return replace(build_recipe(CARD), size_px=8, resize_px=8)


def bytes_of(views: ImageSet, numbers: Sequence[int] | None = None) -> dict[str, bytes]:
    chosen = range(len(views)) if numbers is None else numbers
    return {views.names[number]: views.images[number].tobytes() for number in chosen}


def test_row_iq_plus_j_is_view_j_of_image_i(images: ImageSet, recipe: AugmentationRecipe) -> None:
    views = make_views(images, recipe, q=3)
    assert len(views) == 36 and views.labels.tolist() == np.repeat(np.arange(12), 3).tolist()
    assert views.names[7] == f"{images.names[2]}#view1" and views.classes == tuple(images.names)
    assert (views.name, views.split) == ("shapes-4-classes-32px", "train pretraining-augmented")
    assert {views.images[number].size for number in (0, 35)} == {(8, 8)}
    assert len(set(bytes_of(views).values())) == 36


def test_a_view_depends_neither_on_other_images_nor_on_the_order_nor_on_who_comes_first(
    images: ImageSet, recipe: AugmentationRecipe
) -> None:
    whole = make_views(images, recipe, q=3)
    expected = bytes_of(whole)
    assert bytes_of(whole, [35, 3, 4, 0, 35, 1]) == {name: expected[name] for name in bytes_of(whole, [0, 1, 3, 4, 35])}
    backwards = make_views(images.subset(np.arange(12)[::-1].copy(), split="train"), recipe, q=3)
    assert bytes_of(backwards) == expected and backwards.fingerprint != whole.fingerprint
    some = make_views(images.subset([5, 2], split="train"), recipe, q=3)
    assert bytes_of(some).items() <= expected.items()


def test_what_makes_other_views_makes_another_fingerprint(images: ImageSet, recipe: AugmentationRecipe) -> None:
    usual = make_views(images, recipe, n=4, q=3, seed=0).fingerprint
    for what in ("q", "n", "seed"):
        assert make_views(images, recipe, **({"n": 4, "q": 3, "seed": 0} | {what: 5})).fingerprint != usual
    assert make_views(images, replace(recipe, augmentations=("flip",)), n=4, q=3, seed=0).fingerprint != usual


def test_views_are_the_same_after_a_pickle_and_in_a_process_started_afresh(
    images: ImageSet, recipe: AugmentationRecipe, run_apart: Run, tmp_path: Path
) -> None:
    both = make_views(images, recipe, n=4, q=2), make_rotations(images, n=2)
    here = [bytes_of(views) for views in both]  # computed before they are pickled
    again = pickle.loads(pickle.dumps(both))
    assert [bytes_of(views) for views in again] == here
    (tmp_path / "both").write_bytes(pickle.dumps(both))
    script = (
        "import pickle, sys\n"
        "with open(sys.argv[1], 'rb') as file: both = pickle.load(file)\n"
        "found = [{name: views.images[n].tobytes() for n, name in enumerate(views.names)} for views in both]\n"
        "with open(sys.argv[1], 'wb') as file: pickle.dump(found, file)\n"
    )
    done = run_apart(script, tmp_path / "both", path=[REPOSITORY], warm=True)
    assert done.returncode == 0, done.stderr
    assert pickle.loads((tmp_path / "both").read_bytes()) == here


def test_turned_images_are_turned_by_quarters_to_the_last_pixel(images: ImageSet) -> None:
    turned = make_rotations(images, n=3, seed=1)
    chosen = draw_image_positions(images, 3, seed=1)
    assert len(turned) == 12 and turned.labels.tolist() == [0, 1, 2, 3] * 3
    assert turned.classes[1] == "90 degrees" and turned.names[2] == f"{images.names[chosen[0]]}#180"
    pixels = pixels_of(turned).reshape(3, 4, 32, 32, 3)
    sources = pixels_of(images)[chosen]
    for turns in range(4):
        assert np.array_equal(pixels[:, turns], np.rot90(sources, turns, axes=(1, 2)))
    assert turned.fingerprint != make_rotations(images, n=3, seed=2).fingerprint


@for_each(["pocket_simclr_rn_shapes", "dino_vitS16", "clip_vitB32"])
def test_the_preprocessing_of_views_is_the_encoders_without_resize_and_crop(name: str) -> None:
    preprocess = load_catalogue()[name].preprocess
    same_size = replace(preprocess, resize_px=32, crop_px=32)
    image = shapes(classes=2, train=2, val=2).train.images[0]
    assert torch.equal(build_view_preprocess(load_catalogue()[name])(image), build_preprocess(same_size)(image))
    assert pickle.loads(pickle.dumps(build_view_preprocess(load_catalogue()[name])))(image).shape == (3, 32, 32)
