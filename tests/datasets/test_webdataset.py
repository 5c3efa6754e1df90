"""Tar shards of webdataset: order, labels, splits, addresses, the kept index, shards that change, and bad input."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

from tests.image_files import exif, stored
from tests.shard_files import Members, pixels, png, put, samples, tar
from zoo.datasets import ImageData, open_images, pixels_of, sharded, webdataset_sets
from zoo.datasets.imagefiles import notes_on
from zoo.errors import CorruptImage, DataError, QueryError

N_TRAIN, N_VAL = 12, 6


def shards(n: int = 3) -> dict[str, bytes]:
    """Shards of training and of validation images, by name."""
    train = {f"train-{i:03d}.tar": tar(samples(range(4 * i, 4 * i + 4))) for i in range(n)}
    return train | {"val-0.tar": tar(samples(range(100, 100 + N_VAL)))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in shards().items():
        put(tmp_path / "set" / name, content)
    return tmp_path / "set"


def one(tmp_path: Path, members: Members, **options: str) -> ImageData:
    """The image set of one shard."""
    put(tmp_path / "one.tar", tar(members))
    return open_images(f"webdataset:{tmp_path / 'one.tar'}", **options)


def test_images_come_in_the_order_of_braces_with_labels_and_names(folder: Path) -> None:
    data = open_images(f"webdataset:{folder}/train-{{000..002}}.tar,{folder}/val-0.tar")
    assert (data.name, data.train.split, data.val.split, data.is_split_here) == ("set", "train", "val", False)
    assert data.train.classes == data.val.classes == ("0", "1", "2")
    assert list(data.train.names[3:5]) == ["train-000.tar/some/00003", "train-001.tar/some/00004"]
    assert data.train.labels.tolist() == [i % 3 for i in range(N_TRAIN)]
    np.testing.assert_array_equal(pixels_of(data.train), [pixels(i) for i in range(N_TRAIN)])
    np.testing.assert_array_equal(pixels_of(pickle.loads(pickle.dumps(data.val))), [pixels(100 + i) for i in range(6)])


def test_a_folder_or_pattern_is_divided_by_the_names_of_its_shards(folder: Path) -> None:
    by_braces = open_images(f"webdataset:{folder}/train-{{000..002}}.tar,{folder}/val-0.tar")
    for text in (f"{folder}", f"{folder}/", f"{folder}/*.tar", f"{folder}/{{train-00[0-2],val-*}}.tar"):
        data = open_images(f"webdataset:{text}")
        assert (data.train.fingerprint, data.val.fingerprint) == (
            by_braces.train.fingerprint,
            by_braces.val.fingerprint,
        )
    alone = open_images(f"webdataset:{folder}/train-*.tar", val_share=0.25)
    assert alone.is_split_here and (len(alone.train), len(alone.val)) == (9, 3)
    swapped = open_images(f"webdataset:{folder}/train-{{001,000,002}}.tar,{folder}/val-0.tar")
    assert swapped.train.fingerprint != by_braces.train.fingerprint


def test_at_an_address_the_same_set_is_read_by_few_requests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = fsspec.filesystem("memory")
    for name, content in shards().items():
        files.pipe_file(f"/webdataset-few/{name}", content)
    data, here = open_images("webdataset:memory://webdataset-few"), open_images(f"webdataset:{folder}")
    assert data.train.fingerprint == here.train.fingerprint and data.val.fingerprint == here.val.fingerprint
    known, wanted = pixels_of(here.train), []

    def counted(shard: sharded.Shard, start: int, n_bytes: int) -> bytes:
        wanted.append(n_bytes)
        return sharded.range_of(shard, start, n_bytes)

    monkeypatch.setattr(webdataset_sets, "range_of", counted)
    np.testing.assert_array_equal(pixels_of(data.train), known)
    assert len(wanted) <= 6  # of 12 images in three shards: 1, 2, 1, 2, 2 and 4
    wanted.clear()
    assert data.train[7][1] == 1 and len(wanted) == 1  # one that stands by itself takes no neighbours along
    assert wanted[0] == len(png(7))
    with ThreadPoolExecutor(4) as threads:
        shown = list(threads.map(lambda i: np.asarray(data.train.images[i % N_TRAIN]), range(4 * N_TRAIN)))
    np.testing.assert_array_equal(shown, [pixels(i % N_TRAIN) for i in range(4 * N_TRAIN)])


def test_what_is_in_a_shard_is_kept_until_the_shard_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    look = webdataset_sets._samples
    monkeypatch.setattr(
        webdataset_sets, "_samples", lambda shard, *rest: looked.append(shard.file) or look(shard, *rest)
    )
    first = open_images(f"webdataset:{folder}")
    assert sorted(looked) == sorted(shards())
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


def test_labels_may_be_entries_of_json_and_classes_texts(tmp_path: Path) -> None:
    members: Members = []
    for i, kind in enumerate(["cow", "ant", "cow", "ant"]):
        facts = {"kind": kind, "label": i % 2, "caption": "..."}
        members += [(f"{i}.jpg", png(i)), (f"{i}.json", json.dumps(facts).encode()), (f"{i}.mask.png", b"")]
    data = one(tmp_path, members, label_column="kind", val_share=0.5)
    assert data.train.classes == ("ant", "cow")
    assert one(tmp_path, members).train.classes == ("0", "1")


def test_images_are_turned_scaled_and_damaged_ones_named_as_everywhere(tmp_path: Path) -> None:
    upright, held, deep = Image.fromarray(pixels(0)), io.BytesIO(), io.BytesIO()
    stored(upright, 6).save(held, "PNG", exif=exif(6))
    Image.fromarray(np.arange(0, 65536, 1024, np.uint16).reshape(8, 8)).save(deep, "PNG")
    broken = png(2)[:60]
    images = [held.getvalue(), deep.getvalue(), broken, png(3), png(4), png(5)]
    members = [m for i, image in enumerate(images) for m in ((f"{i}.png", image), (f"{i}.cls", b"%d" % (i % 2)))]
    data = one(tmp_path, members, val_share=0.34)
    both = {name.partition("/")[2]: (part, i) for part in (data.train, data.val) for i, name in enumerate(part.names)}
    part, i = both["0"]
    np.testing.assert_array_equal(np.asarray(part[i][0]), pixels(0))
    part, i = both["1"]
    assert np.asarray(part[i][0]).max() == 252  # the high 8 bits
    part, i = both["2"]
    with pytest.raises(CorruptImage, match=r"The image 'one.tar/2' of"):
        part[i]
    assert any("1 images were turned upright" in note for note in notes_on([data.train, data.val]))


def dropped(members: Members, name: str) -> Members:
    return [member for member in members if member[0] != name]


FOUR = samples(range(4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tar(FOUR + FOUR[:3]), r"one.tar has the key 'some/00000' twice, apart"),
        (tar([*FOUR[:3], FOUR[1], *FOUR[3:]]), r"one.tar has 'png' of the key 'some/00000' twice"),
        (tar(dropped(FOUR, "some/00002.png")), r"key 'some/00002' in .*one.tar has no image \(it has cls, txt\)"),
        (tar(dropped(FOUR, "some/00002.cls")), r"key 'some/00002' in .*one.tar has no label \(it has png, txt\)"),
        (
            tar([("a.png", png(0)), ("a.jpg", png(0)), ("a.cls", b"0")]),
            r"'a' in .*has 2 images \(png, jpg\); say which",
        ),
        (
            tar([("a.png", png(0)), ("a.cls", b"cat")]),
            r"label of 'a' in .*one.tar is 'cat' in its .cls; expected a whole",
        ),
        (tar([("a.png", png(0)), ("a.cls", b"-1")]), r"label of 'a' in .*is '-1' in its .cls"),
        (tar([("a.png", png(0)), ("a.json", b"{")]), r"json of 'a' in .*one.tar cannot be read"),
        (tar([("a.png", png(0)), ("a.json", b'{"x": 1}')]), r"has no entry 'label' \(it has x\); say which"),
        (tar([("a.png", png(0)), ("a.json", b'{"label": null}')]), r"label of 'a' in .*is None in its .json"),
        (tar(FOUR)[:-10240], "is cut off, damaged or no tar file"),
        (tar(FOUR)[: 512 * 4], "is cut off, damaged or no tar file"),
        (tar(FOUR)[: 512 * 8] + b"x" * 512 + tar(FOUR)[512 * 9 :], "is cut off, damaged or no tar file"),
        (b"", "is cut off, damaged or no tar file"),
        (tar([]), "one.tar holds no image"),
        (gzip.compress(tar(FOUR)), "one.tar is packed by gzip, .*; unpack it"),
    ],
)
def test_what_is_wrong_in_a_shard_is_said_with_shard_and_key(tmp_path: Path, content: bytes, message: str) -> None:
    put(tmp_path / "one.tar", content)
    with pytest.raises(DataError, match=message):
        open_images(f"webdataset:{tmp_path / 'one.tar'}")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("/train-{000..004}.tar,{}/val-0.tar", DataError, r"2 of 5 files of .*, the first is .*train-003.tar; restore"),
        ("/no-*.tar", DataError, r"There is no .*no-\*.tar; restore"),
        ("/nowhere", DataError, "There is no a? ?file .tar"),
        ("/train-{000..002.tar", QueryError, "braces in .* do not close"),
        ("/train-{5..2}.tar", QueryError, "expected upwards"),
        ("/*/train.tar", QueryError, "in the name of a folder"),
        ("/train-*.tar,", QueryError, "2 patterns"),
        ("/train-*.tar,{}/train-000.tar", DataError, "train-000.tar is in both patterns"),
    ],
)
def test_patterns_that_name_other_shards_than_there_are(
    folder: Path, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        open_images(f"webdataset:{folder}{text.replace('{}', str(folder))}")


def test_names_that_do_not_tell_the_parts_apart_are_refused(folder: Path) -> None:
    put(folder / "other-0.tar", tar(samples(range(200, 204))))
    with pytest.raises(DataError, match=r"do not tell training from validation images \(.*1 of no part.*other-0.tar"):
        open_images(f"webdataset:{folder}")
