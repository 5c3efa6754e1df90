"""Maps as features: which number is which, one pass for all layers, what their origin says, bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from tests.feature_runs import image_set, to_tensor
from zoo.datasets import ImageSet
from zoo.encoders import Encoder
from zoo.encoders.encoder import apply_backbone
from zoo.errors import QueryError
from zoo.features import featurising, load_features
from zoo.features.computing import FeaturisingOptions
from zoo.features.maps import MapEncoder, MapGrid, featurise_maps, iterate_maps, parse_map_grid

VIT, RESNET = "pocket_dino_vit_shapes", "pocket_simclr_rn_shapes"
SETS = {"train": image_set(24), "val": image_set(10, seed=1, split="val")}


class OwnMaps(torch.nn.Module):
    """An encoder of somebody's own: averages of two by two pixels as a map."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1), requires_grad=False)
        self.n_calls = 0

    def maps(self, images: torch.Tensor, layer: int | None = None) -> torch.Tensor:
        self.n_calls += 1
        return torch.nn.functional.avg_pool2d(images, 2) * self.scale  # (n, 3, 4, 4)


def own(_: str = "") -> tuple[OwnMaps, Any]:
    return OwnMaps(), to_tensor


def batch(images: ImageSet, preprocess: Any, n: int = 10) -> torch.Tensor:
    return torch.stack([preprocess(images.images[number]) for number in range(n)])


@pytest.mark.parametrize(("name", "blocks"), [(VIT, (2, 0)), (RESNET, (2, 1))])
def test_rows_are_the_maps_of_each_layer_place_by_place(name: str, blocks: tuple[int, int]) -> None:
    encoder, preprocess = zoo.load(name)
    found = featurise_maps(name, SETS, layers=(None, blocks[1] - 3), parts=("val",))
    assert [key.partition(" ")[0] for key in found] == [f"map:{block}" for block in blocks]
    images = batch(SETS["val"], preprocess)
    for block, features in zip(blocks, found.values(), strict=True):
        grid = parse_map_grid(features["val"].origin.representation)
        with torch.inference_mode():
            map_ = encoder.maps(images, block)  # (n, channels, rows, columns)
        assert tuple(map_.shape[1:]) == (grid.channels, grid.rows, grid.columns)
        ((x, y),) = iterate_maps(features["val"])
        np.testing.assert_allclose(x, map_.flatten(2).transpose(1, 2).numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(y, SETS["val"].labels)
        assert features["val"].origin.encoder == name


def test_the_class_token_stands_before_the_patches() -> None:
    encoder, preprocess = zoo.load(f"{VIT}@cls:2")
    ((name, found),) = featurise_maps(VIT, SETS, class_token=True, parts=("val",)).items()
    ((x, _),) = iterate_maps(found["val"])
    assert name == "cls+map:2 8x8x40" and x.shape == (10, 65, 40)
    np.testing.assert_allclose(x[:, 0], encoder(batch(SETS["val"], preprocess)).numpy(), rtol=1e-5, atol=1e-5)
    with pytest.raises(QueryError, match="has no class token"):
        featurise_maps(RESNET, SETS, class_token=True)


def test_layers_of_one_pass_are_stored_where_each_would_be_by_itself(tmp_path: Path) -> None:
    both = featurise_maps(VIT, SETS, layers=(-1, 0), root=tmp_path)
    for layer, (name, parts) in zip((2, 0), both.items(), strict=True):
        ((again, alone),) = featurise_maps(VIT, SETS, layers=(layer,), root=tmp_path).items()
        assert again == name and alone["val"].folder == parts["val"].folder
        folder = parts["val"].folder
        assert folder is not None and load_features(folder).origin == parts["val"].origin
        in_memory = featurise_maps(VIT, SETS, layers=(layer,), parts=("val",))[name]["val"]
        np.testing.assert_array_equal(in_memory.x, parts["val"].x[:])
        assert in_memory.origin == parts["val"].origin


def test_maps_that_are_there_are_not_computed_again(tmp_path: Path) -> None:
    encoder = OwnMaps()
    for _ in range(2):
        found = featurise_maps("mine", SETS, load=lambda _: (encoder, to_tensor), root=tmp_path)
    assert list(found) == ["map 4x4x3"] and encoder.n_calls == 2 + 2  # a look at its grid each time, and two parts
    expected = encoder.maps(batch(SETS["val"], to_tensor)).flatten(2).transpose(1, 2).numpy()
    ((x, _),) = iterate_maps(found["map 4x4x3"]["val"])
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_half_precision_on_the_disk_is_read_as_float32(tmp_path: Path) -> None:
    exact = featurise_maps("mine", SETS, load=own, parts=("val",))["map 4x4x3"]["val"]
    found = featurise_maps("mine", SETS, load=own, root=tmp_path, stored="float16", parts=("val",))
    half = found["map 4x4x3"]["val"]
    assert half.x.dtype == np.float32 and half.origin.precision == "float32, stored as float16"
    np.testing.assert_array_equal(half.x[:], exact.x[:].astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("class_token", [False, True])
def test_components_are_those_of_the_training_patches(tmp_path: Path, class_token: bool) -> None:
    how: Any = {"class_token": class_token, "root": tmp_path}
    ((_, whole),) = featurise_maps(VIT, SETS, **how).items()
    ((name, found),) = featurise_maps(VIT, SETS, n_components=7, **how).items()
    patches = whole["train"].x[:].reshape(24, -1, 40)[:, int(class_token) :].reshape(-1, 40).astype(np.float64)
    _, values, axes = np.linalg.svd(patches - patches.mean(axis=0), full_matrices=False)
    share = np.square(values[:7]).sum() / np.square(values).sum()
    assert f"8x8x7 of 40 ({100 * share:.1f} % of variance, components " in name
    for part, features in found.items():
        x = whole[part].x[:].reshape(len(features), -1, 40)
        expected = (x - patches.mean(axis=0)) @ axes[:7].T
        got = np.concatenate([maps for maps, _ in iterate_maps(features, 5)])
        np.testing.assert_allclose(np.abs(got), np.abs(expected), atol=1e-3)  # of a length of some 10


def test_every_number_of_components_is_of_one_stored_fit(tmp_path: Path) -> None:
    encoder = OwnMaps()
    for number in (2, 3):
        featurise_maps("mine", SETS, load=lambda _: (encoder, to_tensor), root=tmp_path, n_components=number)
    assert encoder.n_calls == 2 + 1 + 2 * 2  # grids, one fit, two parts each
    with pytest.raises(QueryError, match="expected 1 to 3"):
        featurise_maps("mine", SETS, load=own, root=tmp_path, n_components=4)
    other = SETS | {"train": image_set(24, seed=5)}
    (one,), (two,) = (featurise_maps("mine", sets, load=own, n_components=2) for sets in (SETS, other))
    assert one.partition("components")[0][:14] == two.partition("components")[0][:14] and one != two


def test_sizes_of_images_have_folders_of_their_own(tmp_path: Path) -> None:
    found = [featurise_maps(VIT, SETS, px=px, root=tmp_path, parts=("val",)) for px in (None, 32, 40)]
    assert [list(one) for one in found] == [["map:2 8x8x40"], ["map:2 8x8x40"], ["map:2 10x10x40"]]
    assert len({one["val"].folder for each in found for one in each.values()}) == 2


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("map:11 14x14x384", MapGrid(14, 14, 384)),
        ("cls+map:11 14x7x384", MapGrid(14, 7, 384, True)),
        ("map 7x7x1280", MapGrid(7, 7, 1280)),
        ("map:-1 4x4x8 of 40 (91.2 % of variance, components 3f1c09ab)", MapGrid(4, 4, 8)),
    ],
)
def test_a_representation_says_the_grid(text: str, grid: MapGrid) -> None:
    assert parse_map_grid(text) == grid and grid.width == grid.n_places * grid.channels
    with pytest.raises(QueryError, match="expected maps"):
        parse_map_grid(f"avg of {text}")


def test_what_has_no_maps_is_refused() -> None:
    with pytest.raises(QueryError, match=r"of an encoder with maps"):
        MapEncoder(torch.nn.Identity(), size=(8, 8))
    with pytest.raises(QueryError, match="from 0 to 2"):
        featurise_maps(VIT, SETS, layers=(3,))
    with pytest.raises(QueryError, match="The encoder has no maps"):
        MapEncoder(Encoder(torch.nn.Flatten(), apply_backbone, dim=1), size=(8, 8))


def test_memory_depends_on_a_shard_and_not_on_the_number_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = 4 * 64 * 40  # bytes of a map
    monkeypatch.setattr(featurising, "SHARD_BYTES", 16 * row)
    peaks = {}
    for n in (16, 64, 256):  # of which the first loads what stays
        tracemalloc.start()
        try:
            (found,) = featurise_maps(
                VIT, {"train": image_set(n)}, root=tmp_path, parts=("train",), how=FeaturisingOptions(batch_size=8)
            ).values()
            for _ in iterate_maps(found["train"], 8):
                pass
            peaks[n] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peaks[256] - peaks[64] < 32 * row  # and 192 rows more were computed, and read
