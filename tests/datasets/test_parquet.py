"""Parquet files with a column of images: as the library datasets writes them, plain ones, and bad input."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features
from datasets import Image as ImageFeature

from tests.shard_files import pixels, png, put
from zoo.datasets import open_images, pixels_of
from zoo.errors import CorruptImage, DataError

NAMES = ["ant", "bee", "cow"]


def hub(path: Path, numbers: range) -> Path:
    """A file as the Hub has ImageNet, with two images a row group."""
    cells = [{"bytes": png(i), "path": f"{i}.png"} for i in numbers]
    features = Features({"image": ImageFeature(), "label": ClassLabel(names=NAMES)})
    path.parent.mkdir(parents=True, exist_ok=True)
    found = Dataset.from_dict({"image": cells, "label": [i % 3 for i in numbers]}, features=features)
    found.to_parquet(path, batch_size=2)
    return put(path, path.read_bytes())


def plain(path: Path, columns: dict[str, Any], **options: int) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return put(path, path.read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(2):
        hub(tmp_path / "data" / f"train-{i:05d}-of-00002.parquet", range(5 * i, 5 * i + 5))
    hub(tmp_path / "data" / "validation-00000-of-00001.parquet", range(100, 106))
    hub(tmp_path / "data" / "test-00000-of-00001.parquet", range(200, 206))
    return tmp_path


def test_a_folder_of_the_hub_has_its_splits_classes_and_images(folder: Path) -> None:
    data = open_images(f"parquet:{folder}", name="mine")
    assert data.train.classes == tuple(NAMES) and (len(data.train), len(data.val)) == (10, 6)
    assert data.train.names[5] == "train-00001-of-00002.parquet/0" and not data.is_split_here
    assert data.train.labels.tolist() == [i % 3 for i in range(10)]
    np.testing.assert_array_equal(pixels_of(data.train), [pixels(i) for i in range(10)])
    copy = pickle.loads(pickle.dumps(data.val))
    np.testing.assert_array_equal([np.asarray(copy.images[i]) for i in (5, 0, 3)], [pixels(i) for i in (105, 100, 103)])
    files = fsspec.filesystem("memory")
    for path in (folder / "data").iterdir():
        files.pipe_file(f"/parquet-hub/data/{path.name}", path.read_bytes())
    there = open_images("parquet:memory://parquet-hub")
    assert (there.train.fingerprint, there.val.fingerprint) == (data.train.fingerprint, data.val.fingerprint)
    np.testing.assert_array_equal(pixels_of(there.val), pixels_of(data.val))


def test_plain_columns_and_labels_that_are_texts(tmp_path: Path) -> None:
    labels = ["dog", "cat"] * 4
    columns = {"jpeg": [png(i) for i in range(8)], "animal": labels, "label": [7] * 8}
    file = plain(tmp_path / "all.parquet", columns, row_group_size=3)
    data = open_images(f"parquet:{file}", label_column="animal", val_share=0.25)
    assert data.train.classes == ("cat", "dog") and data.is_split_here
    for part in (data.train, data.val):
        for i, name in enumerate(part.names):
            number = int(name.rpartition("/")[2])
            np.testing.assert_array_equal(np.asarray(part.images[i]), pixels(number))
            assert part.classes[part.labels[i]] == labels[number]


def test_a_file_that_changes_is_noticed_and_a_cell_without_image_named(folder: Path) -> None:
    first = open_images(f"parquet:{folder}")
    second_file = folder / "data" / "train-00001-of-00002.parquet"
    hub(second_file, range(50, 55))
    with pytest.raises(DataError, match=r"train-00001-of-00002.parquet has changed since the image set was opened"):
        first.train[7]
    assert open_images(f"parquet:{folder}").train.fingerprint != first.train.fingerprint
    images = [{"bytes": png(i) if i != 2 else None, "path": "x"} for i in range(6)]
    plain(second_file, {"image": images, "label": [0, 1] * 3})
    data = open_images(f"parquet:{second_file}", val_share=0.34)
    part = data.train if f"{second_file.name}/2" in data.train.names else data.val
    with pytest.raises(CorruptImage, match="parquet/2' of 'data' cannot be read"):
        part[list(part.names).index(f"{second_file.name}/2")]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"x": [1], "label": [0]}, {}, "has 0 columns that may be encoded images, .*it has x"),
        ({"a": [b"x"], "b": [b"x"], "label": [0]}, {}, "has 2 columns .*say which with --image-column"),
        ({"a": [b"x"], "label": [0]}, {"image_column": "label"}, "no column 'label' of encoded images"),
        ({"a": [b"x"], "what": [0]}, {}, "has 0 columns that may be labels"),
        ({"a": [b"x"], "label": [0.5]}, {"label_column": "label"}, "no column 'label' of whole numbers or texts"),
        ({"a": [b"x", b"y"], "label": [0, -1]}, {}, "Row 1 of .*bad.parquet has -1 in the label column 'label'"),
        ({"a": [b"x", b"y"], "label": [0, None]}, {}, "Row 1 of .*bad.parquet has None in the label column"),
        ({"a": pa.array([], pa.binary()), "label": pa.array([], pa.int64())}, {}, "bad.parquet has no row"),
    ],
)
def test_columns_that_do_not_fit(tmp_path: Path, columns: Any, options: dict[str, str], message: str) -> None:
    file = plain(tmp_path / "bad.parquet", columns)
    with pytest.raises(DataError, match=message):
        open_images(f"parquet:{file}", **options)


def test_a_file_cut_off_and_none_at_all(tmp_path: Path, folder: Path) -> None:
    whole = (folder / "data" / "train-00000-of-00002.parquet").read_bytes()
    put(tmp_path / "cut.parquet", whole[:-20])
    with pytest.raises(DataError, match=r"cut.parquet is cut off or damaged"):
        open_images(f"parquet:{tmp_path / 'cut.parquet'}")
    with pytest.raises(DataError, match=r"There is no .*absent-0.parquet; restore"):
        open_images(f"parquet:{tmp_path}/absent-{{0..1}}.parquet")
