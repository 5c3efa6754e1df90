"""Features at an address: the files of a local folder, read in parts, compared with their hashes, kept a while."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.feature_runs import AfterBatches, encoder, image_set, to_tensor
from tests.features.test_store import ORIGIN, some
from tests.s3_here import Server, s3_here
from zoo.errors import DataError, PlaceError, QueryError
from zoo.features import Features, Rows, featurise, load_features, verify
from zoo.features.origin import format_storage
from zoo.features.store import find_finished_shards
from zoo.files import get_cache_folder
from zoo.storage import Location, resolve_place

OPTIONS = {"name": "small", "batch_size": 4, "shard_size": 10}


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_here() as server:
        yield server


@pytest.fixture
def place(s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """An empty place on the server, and an empty cache."""
    s3.allow()
    s3.log.clear()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return resolve_place(f"s3://zoo{tmp_path}")


def copies() -> list[Path]:
    return sorted((get_cache_folder() / "features").glob("*.safetensors"))


def test_a_run_at_an_address_leaves_the_files_of_a_local_one(place: Location, tmp_path: Path, s3: Server) -> None:
    here = featurise(encoder(), to_tensor, image_set(50), folder=tmp_path / "here", **OPTIONS)  # type: ignore[arg-type]
    there = featurise(encoder(), to_tensor, image_set(50), folder=place, **OPTIONS)  # type: ignore[arg-type]
    files = {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    assert {name: place.read(name) for name in place.names()} == files and len(files) == 6
    assert (there.folder, there.where, here.where) == (None, place.shown, str(tmp_path / "here"))
    assert copies() == []  # labels and names need no rows
    np.testing.assert_array_equal(there.y, here.y)
    assert list(there.names) == list(here.names) and there.names[33] == here.names[33]
    assert copies() == []
    np.testing.assert_array_equal(there.x[:], here.x[:])
    assert len(copies()) == 5
    puts = s3.asked("PUT", "shard-")
    assert len(puts) == 5  # one each
    verify(place)


def test_rows_stream_and_are_fetched_once(place: Location, s3: Server) -> None:
    features = some(40)
    features.save(f"s3://zoo/{place.shown.removeprefix('s3://zoo/')}", shard_size=10)
    rows = load_features(place).x
    assert isinstance(rows, Rows)
    np.testing.assert_array_equal(rows[12:15], features.x[12:15])
    assert len(copies()) == 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[[39, 11]], features.x[[39, 11]])
    assert len(copies()) == 2
    s3.log.clear()
    np.testing.assert_array_equal(np.concatenate(list(load_features(place).x.batches(7)))[12:15], features.x[12:15])
    whole = [one for one in s3.asked("GET", "shard-") if not one]
    assert len(whole) == 2  # those that were not there yet


def test_the_copies_that_were_not_used_for_longest_go(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    features = some(40, dim=500)
    features.save(place.shown, shard_size=10)
    monkeypatch.setenv("ZOO_FEATURES_CACHE_GB", str(2.5 * 20_500 / 1e9))
    rows = load_features(place).x
    first = rows[:10]
    [oldest] = copies()
    rows[10:20]
    again = load_features(place).x[:10]  # used again, so that the second is the oldest now
    load_features(place).x[20:30]
    assert oldest in copies() and len(copies()) == 2
    np.testing.assert_array_equal(rows[10:20], features.x[10:20])  # a copy that is gone stays mapped
    np.testing.assert_array_equal(first, again)
    monkeypatch.setenv("ZOO_FEATURES_CACHE_GB", "0")
    np.testing.assert_array_equal(load_features(place).x[:], features.x)
    assert len(copies()) == 1
    monkeypatch.setenv("ZOO_FEATURES_CACHE_GB", "much")
    with pytest.raises(QueryError, match="ZOO_FEATURES_CACHE_GB is 'much'; expected a number of gigabytes"):
        load_features(place).x[:20]


def test_a_damaged_shard_is_refused_by_its_hash_and_a_missing_one_at_once(place: Location) -> None:
    some().save(place.shown, shard_size=10)
    name = place.names()[2]
    content = bytearray(place.read(name) or b"")
    content[-200] ^= 1
    place.write(name, bytes(content))
    rows = load_features(place).x
    rows[:10]
    with pytest.raises(DataError, match=f"{name} cannot be read any more .its hash differs"):
        rows[10:]
    assert len(copies()) == 1
    with pytest.raises(DataError, match=f"{name}: its hash differs"):
        verify(place)
    place.write(name, bytes(content[:-8]))
    with pytest.raises(DataError, match=f"damaged .{name}: it has"):
        load_features(place)
    place.remove(name)
    with pytest.raises(DataError, match=f"damaged .{name}: No such file"):
        load_features(place)
    with pytest.raises(DataError, match="There are no features at memory://nothing/there"):
        load_features("memory://nothing/there")


def test_an_interrupted_upload_leaves_no_index_and_the_run_goes_on(place: Location, s3: Server) -> None:
    def cut() -> None:
        s3.cut("shard-000002")

    network, images = encoder(AfterBatches(5, cut)), image_set(50)
    with pytest.raises(DataError, match=r"could not be written to s3://zoo/.* finished shards stay") as caught:
        featurise(network, to_tensor, images, folder=place, **OPTIONS)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value) and place.size("index.json") is None
    assert [name[:12] for name in place.names()] == ["run.json", "shard-000000", "shard-000001"]
    with pytest.raises(DataError, match="unfinished; run the same command again"):
        load_features(place)
    s3.allow()
    s3.log.clear()
    features = featurise(encoder(), to_tensor, images, folder=place, **OPTIONS)  # type: ignore[arg-type]
    assert len(s3.asked("PUT", "shard-")) == 3
    alone = featurise(encoder(), to_tensor, images, **OPTIONS)  # type: ignore[arg-type]
    np.testing.assert_array_equal(features.x[:], alone.x)


def test_a_network_that_fails_makes_no_shard_be_computed_again(place: Location, s3: Server) -> None:
    features = some()
    features.save(place.shown, shard_size=10)
    assert sorted(find_finished_shards(place, replace(ORIGIN), n_images=23, shard_size=10)) == [0, 1, 2]
    s3.refuse("GET", "shard-000001")
    with pytest.raises(PlaceError, match="Access Denied"):
        find_finished_shards(place, replace(ORIGIN), n_images=23, shard_size=10)


@pytest.mark.parametrize("at", ["folder", "memory"])
def test_float16_shards_are_half_as_large_and_read_as_float32(tmp_path: Path, at: str) -> None:
    place = resolve_place(tmp_path if at == "folder" else f"memory:/{tmp_path}")
    origin = replace(ORIGIN, precision=format_storage("float32", "float16"))
    features = replace(some(40, dim=512), origin=origin, names=())
    where = tmp_path if at == "folder" else place.shown
    features.save(where, shard_size=10)
    read = verify(place)
    assert read.x.dtype == np.float32 and read.origin.precision == "float32, stored as float16"
    np.testing.assert_array_equal(read.x[:], features.x.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(read.x[[3, 17]], read.x[:][[3, 17]])
    sizes = [size for name, size in place.sizes().items() if name.startswith("shard-")]
    assert sum(sizes) < 1.1 * 40 * 512 * 2
    assert read.save(where) == (tmp_path if at == "folder" else where)  # the same, so that nothing is written
    too_large = Features(features.x * 1e6, features.y, origin)
    with pytest.raises(DataError, match="stored as float16, which ends at 65,504; store them as float32"):
        too_large.save(tmp_path / "large")
    assert not (tmp_path / "large").exists() or list((tmp_path / "large").iterdir()) == []
