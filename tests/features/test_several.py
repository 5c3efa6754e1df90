"""Several features from one pass: in the folders that each would have by itself, and nothing computed twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.feature_runs import Told, image_set, to_tensor, with_damaged
from zoo.features import featurise, load_features
from zoo.features.computing import FeaturisingOptions
from zoo.features.featurising import FeatureColumns, compute_shard_size, featurise_parts, join_features
from zoo.features.store import read_index
from zoo.storage import LocalLocation


class Columns(torch.nn.Module):
    """Some pixels of an image, and how often they were asked for."""

    def __init__(self, *columns: int) -> None:
        super().__init__()
        self.columns, self.n_calls = list(columns), 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.n_calls += 1
        return images.flatten(1)[:, self.columns]


def parts_in(folder: Path) -> list[FeatureColumns]:
    chosen = {"one": ("card", [0, 1]), "one@avg:0": ("avg:0", [3, 2, 4])}
    return [
        FeatureColumns(name=n, representation=r, columns=c, place=LocalLocation(folder / r.replace(":", "_")))
        for n, (r, c) in chosen.items()
    ]


def test_each_part_is_what_its_own_run_gives_in_the_same_folder(tmp_path: Path) -> None:
    images, wide = image_set(30), Columns(7, 8, 9, 10, 11)
    found = featurise_parts(wide, wide, to_tensor, images, parts_in(tmp_path), how=FeaturisingOptions(batch_size=8))
    for part, own in zip(parts_in(tmp_path), (Columns(7, 8), Columns(10, 9, 11)), strict=True):
        how = {"name": part.name, "representation": part.representation}
        alone = featurise(own, to_tensor, images, batch_size=8, folder=tmp_path / f"alone {part.representation}", **how)
        np.testing.assert_array_equal(np.asarray(found[part.name].x[:]), np.asarray(alone.x[:]))
        np.testing.assert_array_equal(found[part.name].y, alone.y)
        assert found[part.name].origin == alone.origin and list(found[part.name].names) == list(alone.names)
        again = featurise(own, to_tensor, images, batch_size=8, folder=part.place, **how)  # is there already
        assert again.origin == alone.origin and own.n_calls == 4


def test_what_is_there_is_not_computed_again(tmp_path: Path) -> None:
    images, parts = image_set(20), parts_in(tmp_path)
    first = Columns(0, 1, 2, 3, 4)
    featurise_parts(first, first, to_tensor, images, parts[:1], how=FeaturisingOptions())
    assert first.n_calls == 1 and read_index(parts[1].place) is None
    featurise_parts(first, first, to_tensor, images, parts, how=FeaturisingOptions())
    assert first.n_calls == 2 and load_features(parts[1].place).dim == 3
    told = Told()
    featurise_parts(first, first, to_tensor, images, parts, how=FeaturisingOptions(), progress=told)
    assert first.n_calls == 2


def test_an_unreadable_image_is_left_out_of_every_part(tmp_path: Path) -> None:
    images, wide = with_damaged(image_set(20), 3), Columns(0, 1, 2, 3, 4)
    found = featurise_parts(
        wide, wide, to_tensor, images, parts_in(tmp_path), how=FeaturisingOptions(skip_corrupt=True)
    )
    assert [len(features.y) for features in found.values()] == [19, 19]
    assert all(features.skipped[0].position == 3 for features in found.values())


def test_parts_side_by_side_are_features_of_another_name(tmp_path: Path) -> None:
    images, wide = image_set(10), Columns(0, 1, 2, 3, 4)
    found = featurise_parts(wide, wide, to_tensor, images, parts_in(tmp_path), how=FeaturisingOptions())
    both = join_features(found, ["one@avg:0", "one"], name="one@both", representation="both")
    assert both.dim == 5 and both.origin.encoder == "one@both" and both.origin.representation == "both"
    np.testing.assert_array_equal(both.x[:, 3:], np.asarray(found["one"].x[:]))


def test_wide_rows_have_smaller_shards() -> None:
    assert [compute_shard_size(width) for width in (768, 40_000, 10_000_000, 10**9)] == [1024, 512, 2, 1]
