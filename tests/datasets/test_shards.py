"""Shards: tar files of webdataset and parquet files; order, labels, splits, addresses, kept indexes, and bad input."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features
from datasets import Image as ImageFeature

from tests.each import for_each
from tests.shard_files import Members, pixels, png, put, samples, tar
from zoo.datasets import ImageData, open_images, pixels_of, shards
from zoo.datasets.notes import describe_decoding
from zoo.errors import CorruptImage, DataError, QueryError

N_TRAIN, N_VAL = 12, 6
NAMES = ["ant", "bee", "cow"]


def tars(n: int = 3) -> dict[str, bytes]:
    """Shards of training and of validation images, by name."""
    train = {f"train-{i:03d}.tar": tar(samples(range(4 * i, 4 * i + 4))) for i in range(n)}
    return train | {"val-0.tar": tar(samples(range(100, 100 + N_VAL)))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in tars().items():
        put(tmp_path / "set" / name, content)
    return tmp_path / "set"


def one(tmp_path: Path, members: Members, **options: str) -> ImageData:
    """The image set of one shard."""
    put(tmp_path / "one.tar", tar(members))
    return open_images(f"webdataset:{tmp_path / 'one.tar'}", **options)


def test_images_come_in_the_order_of_braces_or_of_names_with_their_labels(folder: Path) -> None:
    data = open_images(f"webdataset:{folder}/train-{{000..002}}.tar,{folder}/val-0.tar")
    assert (data.name, data.train.split, data.val.split, data.is_split_here) == ("set", "train", "val", False)
    assert data.train.classes == data.val.classes == ("0", "1", "2")
    assert list(data.train.names[3:5]) == ["train-000.tar/some/00003", "train-001.tar/some/00004"]
    assert data.train.labels.tolist() == [i % 3 for i in range(N_TRAIN)]
    np.testing.assert_array_equal(pixels_of(data.train), [pixels(i) for i in range(N_TRAIN)])
    np.testing.assert_array_equal(pixels_of(pickle.loads(pickle.dumps(data.val))), [pixels(100 + i) for i in range(6)])
    for text in (f"{folder}", f"{folder}/*.tar", f"{folder}/{{train-00[0-2],val-*}}.tar"):
        same = open_images(f"webdataset:{text}")
        assert (same.train.fingerprint, same.val.fingerprint) == (data.train.fingerprint, data.val.fingerprint)
    alone = open_images(f"webdataset:{folder}/train-*.tar", val_share=0.25)
    assert alone.is_split_here and (len(alone.train), len(alone.val)) == (9, 3)


def test_at_an_address_the_same_set_is_read_by_few_requests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = fsspec.filesystem("memory")
    for name, content in tars().items():
        files.pipe_file(f"/webdataset-few/{name}", content)
    data, here = open_images("webdataset:memory://webdataset-few"), open_images(f"webdataset:{folder}")
    assert data.train.fingerprint == here.train.fingerprint and data.val.fingerprint == here.val.fingerprint
    known, wanted, read = pixels_of(here.train), [], shards.read_range

    def counted(shard: shards.ImageShard, start: int, n_bytes: int) -> bytes:
        wanted.append(n_bytes)
        return read(shard, start, n_bytes)

    monkeypatch.setattr(shards, "read_range", counted)
    np.testing.assert_array_equal(pixels_of(data.train), known)
    assert len(wanted) <= 6  # of 12 images in three shards: 1, 2, 1, 2, 2 and 4
    wanted.clear()
    assert data.train[7][1] == 1 and wanted == [len(png(7))]  # one that stands by itself takes no neighbours along
    with ThreadPoolExecutor(4) as threads:
        shown = list(threads.map(lambda i: np.asarray(data.train.images[i % N_TRAIN]), range(4 * N_TRAIN)))
    np.testing.assert_array_equal(shown, [pixels(i % N_TRAIN) for i in range(4 * N_TRAIN)])


def test_what_is_in_a_shard_is_kept_until_the_shard_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, look = [], shards._look_in_tar
    monkeypatch.setattr(shards, "_look_in_tar", lambda shard, *rest: looked.append(shard.file) or look(shard, *rest))
    first = open_images(f"webdataset:{folder}")
    assert sorted(looked) == sorted(tars())
    assert open_images(f"webdataset:{folder}").train.fingerprint == first.train.fingerprint and len(looked) == 4
    changed = samples(range(4, 8))
    changed[1] = ("some/00004.png", png(5000))
    put(folder / "train-001.tar", tar(changed))
    second = open_images(f"webdataset:{folder}")
    assert looked[4:] == ["train-001.tar"] and second.train.fingerprint != first.train.fingerprint
    with pytest.raises(DataError, match=r"'train-001.tar/some/00004' of 'set' is not the one that was there when"):
        first.train[4]
    assert first.train[5][1] == 2  # which did not change
    put(folder / "train-002.tar", b"short")
    with pytest.raises(DataError, match=r"train-002.tar has become shorter; restore it"):
        second.train[8]


def test_labels_may_be_entries_of_json_and_a_damaged_image_is_named(tmp_path: Path) -> None:
    members: Members = []
    for i, kind in enumerate(["cow", "ant", "cow", "ant"]):
        facts = {"kind": kind, "label": i % 2, "caption": "..."}
        members += [(f"{i}.jpg", png(i)[: 60 if i == 2 else None]), (f"{i}.json", json.dumps(facts).encode())]
    data = one(tmp_path, members, label_column="kind", val_share=0.5)
    assert data.train.classes == ("ant", "cow") and one(tmp_path, members).train.classes == ("0", "1")
    with pytest.raises(CorruptImage, match=r"The image 'one.tar/2' of"):
        pixels_of(data.train), pixels_of(data.val)


FOUR = samples(range(4))


@for_each(
    [
        (tar(FOUR + FOUR[:3]), "same name"),
        (tar([*FOUR[:3], FOUR[1], *FOUR[3:]]), r"'png' of the key 'some/00000' twice"),
        (tar([member for member in FOUR if member[0] != "some/00002.png"]), r"'some/00002' .* no image \(it has cls"),
        (tar([member for member in FOUR if member[0] != "some/00002.cls"]), r"'some/00002' .* no label \(it has png"),
        (tar([("a.png", png(0)), ("a.jpg", png(0)), ("a.cls", b"0")]), r"2 images \(png, jpg\); say which"),
        (tar([("a.png", png(0)), ("a.cls", b"cat")]), "'cat' in its .cls"),
        (tar([("a.png", png(0)), ("a.cls", b"-1")]), "'-1' in its .cls"),
        (tar([("a.png", png(0)), ("a.json", b"{")]), "json of 'a' in .*one.tar cannot be read"),
        (tar([("a.png", png(0)), ("a.json", b'{"x": 1}')]), r"has no entry 'label' \(it has x\)"),
        (tar([("a.png", png(0)), ("a.json", b'{"label": null}')]), "label of 'a' .* is None"),
        (tar([(f"a.{i:04}.png", png(0)) for i in range(99)]), r"0007.png and 91 more\).* at the first dot of the name"),
        (tar([("birds/a.png", png(0))]), "no label .*unpack it if its folders are the classes"),
        (tar(FOUR)[:-10240], "cut off"),
        (tar(FOUR)[: 512 * 8] + b"x" * 512 + tar(FOUR)[512 * 9 :], "damaged"),
        (b"", "no tar file"),
        (tar([]), "holds no image"),
        (gzip.compress(tar(FOUR)), "packed by gzip"),
    ],
    arguments=2,
)
def test_what_is_wrong_in_a_tar_file_is_said_with_shard_and_key(content: bytes, message: str, tmp_path: Path) -> None:
    put(tmp_path / "one.tar", content)
    with pytest.raises(DataError, match=message):
        open_images(f"webdataset:{tmp_path / 'one.tar'}")


@for_each(
    [
        (
            "/train-{000..004}.tar,{}/val-0.tar",
            DataError,
            r"There is no .*train-003\.tar, one of 2 missing of the 5 files of",
        ),
        ("/no-*.tar", DataError, r"There is no .*no-\*.tar"),
        ("/nowhere", DataError, r"There is no file \.tar or"),
        ("/train-{000..002.tar", QueryError, "do not close"),
        ("/train-{5..2}.tar", QueryError, "expected upwards"),
        ("/*/train.tar", QueryError, "in the name of a folder"),
        ("/train-*.tar,", QueryError, "2 patterns"),
        ("/train-*.tar,{}/train-000.tar", DataError, "in both patterns"),
        ("/{val-0,train-000,other-0}.tar", DataError, "1 of no part.*other-0.tar"),
    ],
    arguments=3,
)
def test_patterns_that_name_no_set_are_refused(text: str, error: type[Exception], message: str, folder: Path) -> None:
    put(folder / "other-0.tar", tar(samples(range(200, 204))))
    with pytest.raises(error, match=message):
        open_images(f"webdataset:{folder}{text.replace('{}', str(folder))}")


def hub(path: Path, numbers: range) -> None:
    """A file as the Hub has ImageNet, with two images per row group."""
    cells = [{"bytes": png(i), "path": f"{i}.png"} for i in numbers]
    features = Features({"image": ImageFeature(), "label": ClassLabel(names=NAMES)})
    path.parent.mkdir(parents=True, exist_ok=True)
    found = Dataset.from_dict({"image": cells, "label": [i % 3 for i in numbers]}, features=features)
    found.to_parquet(path, batch_size=2)


def test_a_parquet_folder_of_the_hub_has_its_splits_classes_and_images(tmp_path: Path) -> None:
    for name, numbers in {"train-0": range(5), "train-1": range(5, 10), "validation-0": range(100, 106)}.items():
        hub(tmp_path / "data" / f"{name}.parquet", numbers)
    data = open_images(f"parquet:{tmp_path}", name="mine")
    assert data.train.classes == tuple(NAMES) and (len(data.train), len(data.val)) == (10, 6)
    assert data.train.names[5] == "train-1.parquet/0" and data.train.labels.tolist() == [i % 3 for i in range(10)]
    np.testing.assert_array_equal(pixels_of(data.train), [pixels(i) for i in range(10)])
    copy = pickle.loads(pickle.dumps(data.val))
    np.testing.assert_array_equal([np.asarray(copy.images[i]) for i in (5, 0, 3)], [pixels(i) for i in (105, 100, 103)])
    files = fsspec.filesystem("memory")
    for path in (tmp_path / "data").iterdir():
        files.pipe_file(f"/parquet-hub/data/{path.name}", path.read_bytes())
    there = open_images("parquet:memory://parquet-hub")
    assert (there.train.fingerprint, there.val.fingerprint) == (data.train.fingerprint, data.val.fingerprint)
    hub(tmp_path / "data" / "train-1.parquet", range(50, 55))
    with pytest.raises(DataError, match=r"train-1.parquet.* has changed"):
        data.train[7]
    assert open_images(f"parquet:{tmp_path}").train.fingerprint != data.train.fingerprint
    whole = (tmp_path / "data" / "train-0.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"cut.parquet is cut off or damaged"):
        open_images(f"parquet:{tmp_path / 'cut.parquet'}")


def test_folders_of_shards_that_say_no_part_are_refused_and_may_be_joined(tmp_path: Path) -> None:
    for i, folder in enumerate(("digits", "letters")):
        for name, n in (("train-0", 12), ("test-0", 6)):
            put(tmp_path / folder / f"{name}.tar", tar(samples(range(100 * i + 20 * n, 100 * i + 21 * n))))
    with pytest.raises(DataError, match=r"shards in 2 folders .* digits, letters: .* give one of them"):
        open_images(f"webdataset:{tmp_path}")
    joined = open_images(f"webdataset:{tmp_path}/{{digits,letters}}")
    assert (len(joined.train), len(joined.val)) == (24, 12)


def test_a_parquet_column_that_may_say_groups_is_named(tmp_path: Path) -> None:
    columns = {"image": [png(i) for i in range(20)], "label": ["a", "b"] * 10}
    for patients, is_said in (({"Patient ID": [i // 4 for i in range(20)]}, True), ({}, False)):
        pq.write_table(pa.table(columns | patients), tmp_path / "one.parquet")
        data = open_images(f"parquet:{tmp_path / 'one.parquet'}")
        said = "images with the same 'Patient ID' may be on both sides; a table with --group keeps them together"
        assert (said in describe_decoding([data.train])) == is_said


@for_each(
    [
        ("train train_aug test", (6, 6), "shards of train aug next to those of 'train' are left out"),
        ("train noisy-train val", (6, 6), "shards of noisy train next to"),
        ("train train_aug", (3, 3), "shards of train aug next to"),
        ("train train_10k val", (6, 6), "shards of train 10k next to"),
        ("train validation test", (6, 6), "shards of the part 'test' are left out, for there are some of 'val'"),
        ("train/a train/b val/c", (12, 6), ""),
        ("mini-train-0 mini-train-1-of-2 mini-val-0", (12, 6), ""),
        ("train-00-a9eb5ddd8e0e4d1b train-01-b7eb5ddd8e0e4d1c test_images-0", (12, 6), ""),
        ("train val_matched val_mismatched", DataError, "several names, val matched, val mismatched"),
        ("train_a train_b test", DataError, "The shards of train have several names, train a, train b"),
        ("fold0 fold1 fold2", DataError, "have several names, fold0, fold1, fold2.* name those to train on"),
    ],
    arguments=3,
)
def test_names_of_shards_say_the_parts_and_which_of_several(names: str, sizes: Any, said: str, tmp_path: Path) -> None:
    root = tmp_path / names.replace(" ", "+").replace("/", "_")
    for i, name in enumerate(names.split()):
        put(root / f"{name}.tar", tar(samples(range(100 * i, 100 * i + 6))))
    if sizes is DataError:
        with pytest.raises(DataError, match=said):
            open_images(f"webdataset:{root}")
        return
    data = open_images(f"webdataset:{root}")
    assert (len(data.train), len(data.val)) == sizes
    assert [note for note in describe_decoding([data.train]) if "shards" in note and said not in note] == []
    assert said in " ".join(describe_decoding([data.train]))


def test_plain_columns_labels_that_are_texts_and_a_cell_without_an_image(tmp_path: Path) -> None:
    labels, file = ["dog", "cat"] * 4, tmp_path / "all.parquet"
    columns = {"jpeg": [png(i) if i != 2 else None for i in range(8)], "animal": labels, "label": [7] * 8}
    pq.write_table(pa.table(columns), file, row_group_size=3)
    data = open_images(f"parquet:{file}", label_column="animal", val_share=0.25)
    assert data.train.classes == ("cat", "dog") and data.is_split_here
    for part in (data.train, data.val):
        for i, name in enumerate(part.names):
            number = int(name.rpartition("/")[2])
            assert part.classes[part.labels[i]] == labels[number]
            if number == 2:
                with pytest.raises(CorruptImage, match="parquet/2' of"):
                    part.images[i]
            else:
                np.testing.assert_array_equal(np.asarray(part.images[i]), pixels(number))


@for_each(
    [
        ({"x": [1], "label": [0]}, {}, "0 columns of encoded images"),
        ({"a": [b"x"], "b": [b"x"], "label": [0]}, {}, "2 columns .*--image-column"),
        ({"a": [b"x"], "label": [0]}, {"image_column": "label"}, "expected a column 'label'"),
        ({"a": [b"x"], "what": [0]}, {}, "0 columns of labels"),
        ({"a": [b"x"], "label": [0.5]}, {"label_column": "label"}, "is 0.5; expected a whole number"),
        ({"a": [b"x"], "fine_label": [0], "coarse_label": [0]}, {}, "with --label-column, such as .*column fine_label"),
        ({"a": [{"bytes": None, "path": "gone.png"}], "label": [0]}, {}, "only the path .*gone.png.*No such file"),
        ({"a": [b"x"], **{f"c{i}": [0] for i in range(50)}}, {}, r"c6 \(int64\) and 43 more: say which"),
        ({"a": [b"x", b"y"], "label": [0, -1]}, {}, "Row 1 of .* is -1"),
        ({"a": [b"x", b"y"], "label": [0, None]}, {}, "Row 1 of .* is None"),
        ({"a": pa.array([], pa.binary()), "label": pa.array([], pa.int64())}, {}, "has no row"),
    ],
    arguments=3,
)
def test_columns_that_do_not_fit(columns: Any, options: dict[str, str], message: str, tmp_path: Path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet")
    with pytest.raises(DataError, match=message):
        open_images(f"parquet:{tmp_path / 'bad.parquet'}", **options)


def test_images_without_bytes_are_read_from_their_paths(tmp_path: Path) -> None:
    paths = [str(tmp_path / "elsewhere" / f"{i}.png") if i % 2 else f"images/{i}.png" for i in range(8)]
    for i, path in enumerate(paths):
        put(tmp_path / path, png(i))
    cells = [{"bytes": None, "path": path} for path in paths]
    pq.write_table(pa.table({"image": cells, "label": [0.0, 1.0] * 4}), tmp_path / "all.parquet")
    text = f"parquet:{tmp_path / 'all.parquet'}"
    data = open_images(text, val_share=0.25)
    for part in (data.train, data.val):
        numbers = [int(name.rpartition("/")[2]) for name in part.names]
        np.testing.assert_array_equal(pixels_of(part), [pixels(i) for i in numbers])
    put(tmp_path / paths[0], png(9))
    assert (
        open_images(f"parquet:{tmp_path / 'all.parquet'}", val_share=0.25).train.fingerprint != data.train.fingerprint
    )


def test_messages_do_not_name_places_in_memory(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [b"x", b"", b"z", b"u"], "label": [0, 0, 1, 1]}), tmp_path / "all.parquet")
    data = open_images(f"parquet:{tmp_path / 'all.parquet'}", val_share=0.5)
    with pytest.raises(CorruptImage, match=r"cannot be read \(cannot identify image file\)"):
        data.train[1]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed in /proc")
def test_no_thread_of_arrow_is_left_that_would_abort_the_process_at_its_end(tmp_path: Path) -> None:
    """Arrow's threads hold the file, an object of Python, and may let go of it while Python ends."""
    pq.write_table(pa.table({"image": [png(i) for i in range(9)], "label": [*range(8), -1]}), tmp_path / "a.parquet")
    program = """if True:
        import os, sys, time, pyarrow.parquet
        from zoo.datasets import open_images
        from zoo.errors import DataError
        before = len(os.listdir("/proc/self/task"))
        try:
            open_images(f"parquet:{sys.argv[1]}")
        except DataError as error:
            patience = time.monotonic() + 20  # threads that were joined may take a moment to go
            while len(os.listdir("/proc/self/task")) > before and time.monotonic() < patience:
                time.sleep(0.01)
            print(len(os.listdir("/proc/self/task")) - before, error)
    """
    ran = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("0 Row 8 of")
