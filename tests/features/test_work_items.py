"""Items: the same shards by any way, and what becomes of damaged images, too small memory and other faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.feature_runs import encoder, image_set, to_tensor, with_damaged
from zoo.datasets import ImageData
from zoo.errors import CorruptImage, DataError, OtherFeatures, QueryError, WeightsUnavailable
from zoo.features import featurise, load_features
from zoo.features.filling import Present
from zoo.features.shards import compute_digest
from zoo.features.store import read_index
from zoo.features.work_items import (
    FeatureItem,
    FeatureRunSettings,
    FeaturisingOptions,
    complete,
    compute_item,
    get_features_location,
    make_items,
    open_image_source,
    split_by_encoder,
)
from zoo.storage import resolve_place

SIZE, N_TRAIN, N_VAL = 16, 34, 21


class Darker(torch.nn.Module):
    """Changes what it is given."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mul_(0.5)


class SmallMemory(torch.nn.Module):
    """Has no room for more than four images."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if len(images) > 4:
            raise torch.OutOfMemoryError("out of memory")
        return images


class NoVector(torch.nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, :, 0, 0].argmax(dim=1)


BEFORE = {"darker": Darker, "small": SmallMemory}


def load(name: str) -> tuple[torch.nn.Module, Any]:
    """A tiny encoder by what comes first in it, or by its seed."""
    if name == "gone":
        raise WeightsUnavailable("The weights of 'gone' are gone.")
    if name == "wrong":
        return NoVector(), to_tensor
    before = BEFORE.get(name)
    preprocess = upside_down if name == "turned" else to_tensor
    return encoder(*([before()] if before else []), seed=sum(map(ord, name))), preprocess


def upside_down(image: object) -> torch.Tensor:
    return to_tensor(image).flip(1)


def data_of(damaged: tuple[int, ...] = ()) -> ImageData:
    train = with_damaged(image_set(N_TRAIN), *damaged) if damaged else image_set(N_TRAIN)
    return ImageData(name="noise", train=train, val=image_set(N_VAL, seed=1, split="val"))


def setting_in(folder: Path, *, skip_corrupt: bool = True, **of_data: Any) -> FeatureRunSettings:
    source = partial(data_of, **of_data)
    data = open_image_source(source)
    return FeatureRunSettings(
        source=source,
        place=str(folder),
        fingerprints={"train": data.train.fingerprint, "val": data.val.fingerprint},
        load=load,
        how=FeaturisingOptions(batch_size=8, device="cpu", skip_corrupt=skip_corrupt),
        shard_size=SIZE,
    )


def folder_of(setting: FeatureRunSettings, name: str, part: str = "train") -> Path:
    images = getattr(open_image_source(setting.source), part)
    place = get_features_location(
        resolve_place(setting.place), name, images, precision="float32", stored=setting.stored
    )
    assert place.folder is not None
    return place.folder


def planned(setting: FeatureRunSettings, *names: str, **how: Any) -> list[FeatureItem]:
    return make_items(setting, names, open_image_source(setting.source), ("train", "val"), **how)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_group_gives_the_files_of_each_encoder_alone_in_any_order_and_of_featurise(tmp_path: Path) -> None:
    names = ("one", "darker", "two", "turned")
    together, apart = setting_in(tmp_path / "together"), setting_in(tmp_path / "apart")
    items = planned(together, *names)
    assert [(item.part, item.encoders, item.number) for item in items[:5]] == [
        *(("train", ("one", "darker", "two"), number) for number in range(3)),
        *(("val", ("one", "darker", "two"), number) for number in range(2)),
    ]
    done = [compute_item(together, item) for item in items]
    assert [(one.n_rows, one.n_skipped, one.batch_size, one.n_there) for one in done[2:4]] == [
        (2, 0, 8, 0),
        (16, 0, 8, 0),
    ]
    by_one = [one for item in planned(apart, *names) for one in split_by_encoder(item)]
    for item in reversed(by_one):
        compute_item(apart, item)
    for name in names:
        for part in ("train", "val"):
            assert complete(together, name, part) and complete(apart, name, part) and complete(apart, name, part)
            files = files_of(folder_of(together, name, part))
            assert files == files_of(folder_of(apart, name, part)) and len(files) == {"train": 4, "val": 3}[part]
            own, preprocess = load(name)
            images = getattr(open_image_source(together.source), part)
            where = tmp_path / "library" / name / part
            featurise(own, preprocess, images, name=name, folder=where, batch_size=8, shard_size=SIZE, device="cpu")
            assert files == files_of(where)
    assert not planned(together, *names) and len(planned(together, *names, everything=True)) == len(items)


def test_what_is_there_is_neither_planned_nor_loaded_nor_computed_again(tmp_path: Path) -> None:
    setting = setting_in(tmp_path)
    items = planned(setting, "one", "two")
    first = compute_item(setting, items[1])
    compute_item(setting, split_by_encoder(items[0])[1])
    assert [(item.encoders, item.number) for item in planned(setting, "one", "two")[:2]] == [
        (("one",), 0),
        (("one", "two"), 2),
    ]
    compute_item(setting, replace(items[-1], encoders=("turned",)))  # after which the others are forgotten
    cannot_load = replace(setting, load=refused)
    again = compute_item(cannot_load, items[1])
    assert again.was_there and (again.digest, again.n_there) == (first.digest, 2) and not first.was_there
    with pytest.raises(QueryError, match="must not be loaded"):
        compute_item(cannot_load, items[2])


def refused(name: str) -> Any:
    raise QueryError(f"{name} must not be loaded")


def test_groups_are_made_from_cards_by_preprocessing_and_memory(tmp_path: Path) -> None:
    setting = replace(setting_in(tmp_path), load=None)
    names = ["dino_vitS16", "dino_rn50", "pocket_simclr_rn_shapes", "DINO_vitS8_last"]
    groups = {item.encoders: None for item in planned(setting, *names, group_bytes=1 << 34)}
    assert list(groups) == [("dino_vitS16", "dino_rn50", "dino_vitS8_last"), ("pocket_simclr_rn_shapes",)]
    few = {item.encoders: None for item in planned(setting, *names, group_bytes=1)}
    assert list(few) == [("dino_vitS16",), ("dino_rn50",), ("dino_vitS8_last",), ("pocket_simclr_rn_shapes",)]


def test_other_images_another_size_of_shards_and_other_features_are_refused(tmp_path: Path) -> None:
    setting = setting_in(tmp_path)
    item = planned(setting, "one")[0]
    with pytest.raises(DataError, match=r"have the fingerprint \w+..., and the run was begun with other..."):
        compute_item(replace(setting, fingerprints={"train": "other", "val": ""}), item)
    compute_item(setting, item)
    assert planned(replace(setting, shard_size=7), "one")[0] == replace(item, number=1)  # as the folder was begun
    with pytest.raises(QueryError, match="begun with 16 images per shard"):
        compute_item(setting, replace(item, shard_size=7, number=3))
    run = folder_of(setting, "one") / "run.json"
    run.write_text(run.read_text().replace('"card"', '"avg"'))
    assert len(planned(setting, "one")) == 5
    with pytest.raises(OtherFeatures, match=r"holds other features than those asked for: .* representation"):
        compute_item(setting, item)


def test_an_encoder_that_fails_leaves_the_others_their_shards(tmp_path: Path) -> None:
    setting = setting_in(tmp_path)
    item = planned(replace(setting, load=anything), "one", "wrong", "gone", "two")[0]
    with pytest.raises(WeightsUnavailable, match="'gone' are gone"):
        compute_item(setting, item)
    done = [compute_item(setting, one) for one in (split_by_encoder(item)[0], split_by_encoder(item)[3])]
    assert all(one.was_there for one in done)
    with pytest.raises(DataError, match=r"'wrong' gives torch.int64 \(8,\) for 8 images"):
        compute_item(setting, split_by_encoder(item)[1])


def anything(name: str) -> tuple[torch.nn.Module, Any]:
    return encoder(), to_tensor


def test_too_small_memory_halves_the_batches_of_the_encoder_that_needs_it(tmp_path: Path) -> None:
    setting = setting_in(tmp_path)
    item = planned(setting, "one", "small")[0]
    done = compute_item(setting, item)
    assert (done.batch_size, done.n_rows) == (4, 16)
    apart = setting_in(tmp_path / "apart")
    assert compute_item(apart, split_by_encoder(item)[0]).batch_size == 8
    names = [sorted(files_of(folder_of(one, "one"))) for one in (setting, apart)]
    assert names[0] == names[1]


def test_images_that_cannot_be_read_are_left_out_or_refused_as_asked_for(tmp_path: Path) -> None:
    setting = setting_in(tmp_path, damaged=(3, 17, 18))
    items = planned(setting, "one")
    assert [compute_item(setting, item).n_skipped for item in items] == [1, 2, 0, 0, 0]
    strict = replace(setting, how=replace(setting.how, skip_corrupt=False))
    with pytest.raises(CorruptImage, match=r"class/003\.png"):
        complete(strict, "one", "train")
    assert complete(setting, "one", "train")
    assert [image.position for image in load_features(folder_of(setting, "one")).skipped] == [3, 17, 18]
    with pytest.raises(CorruptImage, match=r"class/003\.png"):
        compute_item(replace(strict, place=str(tmp_path / "strict")), items[0])


def test_of_two_different_shards_one_is_used_and_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = setting_in(tmp_path)
    items = planned(setting, "one")
    for item in items:
        compute_item(setting, item)
    folder = folder_of(setting, "one")
    [there] = folder.glob("shard-000001-*")
    content = bytearray(there.read_bytes())
    content[-200] ^= 1  # among the features, as another machine rounds them
    (folder / f"shard-000001-{compute_digest(bytes(content))}.safetensors").write_bytes(content)
    monkeypatch.setattr(Present, "has", lambda there, number: False)
    assert compute_item(setting, items[1]).nondeterministic == ("one",)
    assert complete(setting, "one", "train") and len(files_of(folder)) == 4
    assert len(load_features(folder)) == N_TRAIN


def test_damaged_shards_are_found_at_the_end_and_made_again(tmp_path: Path) -> None:
    setting = setting_in(tmp_path)
    items = planned(setting, "one")
    assert not complete(setting, "one", "train")
    for item in items:
        compute_item(setting, item)
    whole = files_of(folder_of(setting, "one"))
    damaged = folder_of(setting, "one") / next(name for name in whole if name.startswith("shard-000001"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert not planned(setting, "one") and not complete(setting, "one", "train")
    assert planned(setting, "one") == items[1:2]
    compute_item(setting, items[1])
    assert complete(setting, "one", "train") and not planned(setting, "one")
    index = read_index(resolve_place(folder_of(setting, "one")))
    assert index is not None and {shard.file for shard in index.shards} == whole.keys() - {"run.json"}


def test_an_address_gets_the_same_files_as_a_folder_also_of_half_the_bytes(tmp_path: Path) -> None:
    here = replace(setting_in(tmp_path), stored="float16")
    there = replace(here, place=f"memory://items-{tmp_path.name}")
    for setting in (here, there):
        for item in planned(setting, "one", "two"):
            compute_item(setting, item)
        assert not planned(setting, "one", "two") and complete(setting, "two", "train")
    images = open_image_source(there.source).train
    place = get_features_location(resolve_place(there.place), "two", images, precision="float32", stored="float16")
    whole = {name: place.read(name) for name in place.names()}
    assert whole == files_of(folder_of(here, "two")) and len(whole) == 4
    features = load_features(place)
    assert features.origin.precision == "float32, stored as float16" and features.x[:].dtype == np.float32
    own = featurise(*load("two"), images, name="two", batch_size=8, shard_size=SIZE, device="cpu")
    np.testing.assert_array_equal(features.x[:], np.asarray(own.x).astype(np.float16).astype(np.float32))
