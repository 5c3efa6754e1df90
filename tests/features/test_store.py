"""Features on the disk: read back equal without being loaded, refused when damaged, never half written."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from zoo.errors import DataError
from zoo.features import Features, Origin, Rows, Skipped, load_features, verify

ORIGIN = Origin(
    encoder="e",
    dataset="d",
    split="s",
    weights_hash="w",
    preprocess_hash="p",
    images_hash="i",
    representation="card",
    precision="float32",
    code_version="zoo 1.0, featurising 1",
)


def some(n: int = 23, *, dim: int = 5, seed: int = 0) -> Features:
    random = np.random.default_rng(seed)
    return Features(
        x=random.standard_normal((n, dim)).astype(np.float32),
        y=random.integers(0, 3, n),
        origin=ORIGIN,
        names=[f"Bär-{number}/\udcff.png" for number in range(n)],  # a name of a file that is no text
        classes=("a", "b", "c"),
        skipped=(Skipped(image="z.png", position=4, reason="It is cut."),),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return some().save(tmp_path / "deep" / "features", shard_size=10)


def test_saved_features_are_read_back_equal_in_every_part(saved: Path) -> None:
    features, read = some(), load_features(saved)
    assert isinstance(read.x, Rows) and read.x.shape == (23, 5) and read.x.nbytes == 23 * 5 * 4
    np.testing.assert_array_equal(np.asarray(read.x), features.x)
    np.testing.assert_array_equal(read.y, features.y)
    assert read.origin == features.origin and read.classes == features.classes and read.skipped == features.skipped
    assert list(read.names) == list(features.names) and read.names[22] == features.names[22] == read.names[-1]
    assert read.names[8:12] == features.names[8:12]
    assert len(list(saved.iterdir())) == 4  # three shards and the index, no temporary file
    assert read.folder == saved and len(verify(saved)) == 23


def test_any_reader_of_safetensors_reads_a_shard(saved: Path) -> None:
    tensors = load_file(sorted(saved.glob("shard-*"))[1])
    np.testing.assert_array_equal(tensors["x"], some().x[10:20])
    np.testing.assert_array_equal(tensors["y"], some().y[10:20])


def test_rows_on_the_disk_are_indexed_as_an_array_is(saved: Path) -> None:
    x, rows = some().x, load_features(saved).x
    for key in (
        *(0, -1, np.int64(12), slice(None), slice(3, 8), slice(8, 21), slice(-4, None), slice(20, 3, -3), slice(5, 5)),
        *(slice(9, 2), slice(0, 99), [22, 0, 11, 11, -1], np.array([], dtype=int), np.arange(23) % 2 == 0),
        *((slice(8, 12), slice(1, 3)), (7, 2), (slice(None), -1), ([3, 15], slice(2))),
    ):
        found = rows[key]
        np.testing.assert_array_equal(found, x[key], err_msg=str(key))  # type: ignore[index]
        assert found.dtype == np.float32 and np.shape(found) == np.shape(x[key])  # type: ignore[index]
    assert rows[[]].shape == (0, 5)
    for key in (23, -24, [0, 23], [True], 1.5, [[1, 2]], (0, [1, 2]), (0, 1, 2), "x"):
        with pytest.raises(IndexError):
            rows[key]


def test_rows_come_in_batches_and_as_copies_that_may_be_changed(saved: Path) -> None:
    features, x = load_features(saved), some().x
    assert isinstance(features.x, Rows)
    assert [len(batch) for batch in features.x.batches(9)] == [9, 9, 5]
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in features.batches(7)]), x)
    np.testing.assert_array_equal(np.stack(list(features.x)), x)
    features.x[2:4][:] = 0
    np.testing.assert_array_equal(features.x[2:4], x[2:4])


def test_rows_survive_pickling_and_keep_no_more_files_open_than_64(tmp_path: Path) -> None:
    features = some(200)
    rows = load_features(features.save(tmp_path, shard_size=1)).x
    n_open = len(os.listdir("/proc/self/fd"))
    np.testing.assert_array_equal(rows[:], features.x)
    assert len(os.listdir("/proc/self/fd")) - n_open <= 64
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[::-1], features.x[::-1])


def test_saving_again_changes_nothing_and_other_features_are_refused(saved: Path) -> None:
    before = {path: path.stat().st_ino for path in saved.glob("index*")}
    some().save(saved)
    assert {path: path.stat().st_ino for path in saved.glob("index*")} == before
    with pytest.raises(DataError, match=r"differ in encoder \('e' and 'other'\)"):
        replace(some(), origin=replace(ORIGIN, encoder="other")).save(saved)
    with pytest.raises(DataError, match="of the same origin but with other numbers"):
        some(seed=1).save(saved)
    assert len(list(saved.glob("shard-*"))) == 3
    np.testing.assert_array_equal(verify(saved).x[:], some().x)


def test_features_may_be_replaced_by_others_on_request(saved: Path) -> None:
    other = replace(some(7, dim=3, seed=1), origin=replace(ORIGIN, encoder="other"))
    other.save(saved, replace=True)
    np.testing.assert_array_equal(verify(saved).x[:], other.x)
    assert len(list(saved.iterdir())) == 2


def test_features_without_names_or_classes_are_fine(tmp_path: Path) -> None:
    plain = Features(some().x, some().y, ORIGIN)
    read = load_features(plain.save(tmp_path))
    assert (len(read.names), read.classes) == (0, ())
    np.testing.assert_array_equal(read.x[:], plain.x)


def test_arrays_that_are_no_features_are_refused() -> None:
    for x, y in (
        (np.ones((3, 2)), np.arange(3)),
        (np.ones((3, 2), np.float32), np.arange(5)),
        (np.ones(3, np.float32), np.arange(3)),
        (np.ones((3, 2), np.float32), np.arange(3, dtype=np.int32)),
    ):
        with pytest.raises(DataError, match="expected float32"):
            Features(x, y, ORIGIN)
    with pytest.raises(DataError, match="3 rows and 2 names"):
        Features(np.ones((3, 2), np.float32), np.arange(3), ORIGIN, names=["a", "b"])


def test_a_file_cut_in_the_middle_is_refused_by_name(saved: Path) -> None:
    for which in ("index.json", "shard-000001-*"):
        [path] = saved.glob(which)
        whole = path.read_bytes()
        for n_bytes in (0, 5, 60, -1):
            path.write_bytes(whole[:n_bytes])
            with pytest.raises(DataError, match=f"are damaged .{path.name}: "):
                load_features(saved)
        path.write_bytes(whole)


def test_a_flipped_bit_is_found_by_verify_and_a_missing_shard_at_once(saved: Path) -> None:
    path = sorted(saved.glob("shard-*"))[2]
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    load_features(saved)
    with pytest.raises(DataError, match=f"{path.name}: its hash differs"):
        verify(saved)
    path.unlink()
    with pytest.raises(DataError, match=f"{path.name}: No such file"):
        load_features(saved)


def test_an_edited_index_and_a_shard_of_other_features_are_refused(saved: Path, tmp_path: Path) -> None:
    other = replace(some(), origin=replace(ORIGIN, weights_hash="other")).save(tmp_path / "other", shard_size=10)
    mine, theirs = (sorted(folder.glob("shard-*"))[0] for folder in (saved, other))
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(DataError, match="it belongs to other features"):
        load_features(saved)
    facts = json.loads((other / "index.json").read_text())
    facts["origin"]["weights_hash"] = "w"
    (other / "index.json").write_text(json.dumps(facts))
    with pytest.raises(DataError, match="its checksum differs"):
        load_features(other)


def test_a_shard_that_vanishes_or_shrinks_under_a_reader_is_one_sentence(saved: Path) -> None:
    rows = load_features(saved).x
    first, second, _ = sorted(saved.glob("shard-*"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:100])
    for row in (0, 10):
        with pytest.raises(DataError, match="cannot be read any more"):
            rows[row]


def test_an_absent_folder_a_file_and_a_folder_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no features folder"):
        load_features(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is a file"):
        load_features(tmp_path / "file")
    with pytest.raises(DataError, match="holds no features of this zoo"):
        load_features(tmp_path)
    (tmp_path / "index.json").write_text('{"format": "zoo-features-1"}')
    with pytest.raises(DataError, match="zoo-features-1"):
        load_features(tmp_path)


def test_features_that_cannot_be_written_change_nothing(saved: Path) -> None:
    with pytest.raises(DataError, match="nothing was changed"):
        some().save(saved / "index.json" / "below-a-file")
    np.testing.assert_array_equal(verify(saved).x[:], some().x)
