"""Features as Parquet: every number, label and name, their origin, a row group a shard."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli_runner import document, run
from tests.feature_runs import DIM, image_set
from zoo.errors import DataError, QueryError
from zoo.features import Features
from zoo.features.exporting import export_features
from zoo.features.origin import Origin, build_origin_document, get_code_version
from zoo.features.store import RUN, read_index
from zoo.storage import resolve_place

ORIGIN = Origin(
    encoder="pocket_init_rn",
    dataset="noise",
    split="train",
    weights_hash="a" * 32,
    preprocess_hash="b" * 32,
    images_hash="c" * 32,
    representation="card",
    precision="float32",
    code_version=get_code_version(),
)


def features(split: str = "train", *, names: bool = True) -> Features:
    images = image_set(50, split=split)
    x = np.random.default_rng(0).normal(size=(50, DIM)).astype(np.float32)
    told = [name if number else "caf\udce9.png" for number, name in enumerate(images.names)] if names else []
    return Features(x, images.labels, replace(ORIGIN, split=split), names=told, classes=images.classes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Features in shards of 16 rows."""
    return features().save(tmp_path / "features", shard_size=16)


def test_a_file_has_every_number_with_its_label_name_and_origin(folder: Path, tmp_path: Path) -> None:
    (done,) = export_features([folder], tmp_path / "out.parquet")
    file, whole = pq.ParquetFile(tmp_path / "out.parquet"), features()
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [16, 16, 16, 2]
    table = file.read()
    assert table.schema.field("features").type.list_size == DIM
    stacked = np.stack(table["features"].to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(stacked, whole.x)
    assert stacked.dtype == np.float32
    assert table["label"].to_pylist() == whole.y.tolist()
    assert table["image"].to_pylist() == ["caf\\xe9.png", *whole.names[1:]]
    about = json.loads(table.schema.metadata[b"zoo"])
    index = read_index(resolve_place(folder))
    assert index is not None
    assert about["origin"] == build_origin_document(ORIGIN)
    assert (about["classes"], about["shards"]) == (["a", "b", "c"], [shard.digest for shard in index.shards])
    assert (done.n_rows, done.dim, done.n_groups) == (50, DIM, 4)
    before = (tmp_path / "out.parquet").read_bytes()
    export_features([folder], tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").read_bytes() == before


def test_several_features_and_an_address_become_files_of_a_folder(folder: Path, tmp_path: Path) -> None:
    other = features("val", names=False).save(tmp_path / "val")
    place = resolve_place("memory://exporting/val")
    for path in other.iterdir():
        place.write(path.name, path.read_bytes())
    written = document("features", "export", str(folder), "memory://exporting/val", "--parquet", str(tmp_path / "out"))
    names = [Path(one["file"]).name for one in written["files"]]
    assert names == [f"pocket_init_rn-noise-{part}-{'c' * 12}.parquet" for part in ("train", "val")]
    assert [one["n_images"] for one in written["files"]] == [50, 50]
    assert pq.read_schema(tmp_path / "out" / names[1]).names == ["features", "label"]


def test_what_cannot_be_exported_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(QueryError, match="2 sets of features cannot go into the one file"):
        export_features([folder, folder], out)
    with pytest.raises(QueryError, match="Two sets of features would be pocket_init_rn-noise-train-"):
        export_features([folder, folder], tmp_path / "out")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / RUN).write_text("{}")
    with pytest.raises(DataError, match="unfinished"):
        export_features([folder, tmp_path / "begun"], tmp_path / "out")
    assert not out.exists()
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    blocked = run("features", "export", str(folder), "--parquet", str(tmp_path / "file" / "out.parquet"), code=1)
    assert "cannot be written" in blocked.stderr
