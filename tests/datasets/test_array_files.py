"""Arrays as MedMNIST, Keras, torch and CIFAR store them: names, labels, channels, ranges, and what is said."""

from __future__ import annotations

import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests.cli_runner import document
from tests.each import for_each
from tests.shard_files import png, samples, tar
from zoo.datasets import ImageData, open_images, pixels_of
from zoo.datasets.folders import make_unlabelled_images
from zoo.datasets.notes import describe_decoding
from zoo.errors import DataError, QueryError

RANDOM = np.random.default_rng(0)
X, XS = RANDOM.integers(0, 256, (24, 8, 9, 3), np.uint8), RANDOM.integers(0, 256, (12, 8, 9, 3), np.uint8)
Y, YS = np.arange(24) % 3, np.arange(12) % 3
XV = 255 - XS
PAIRS = {"x_train": X, "y_train": Y, "x_test": XS, "y_test": YS}


def saved(folder: Path, *unnamed: Any, **arrays: Any) -> str:
    np.savez(folder / "own.npz", *unnamed, **arrays)
    return str(folder / "own.npz")


def is_expected(data: ImageData) -> bool:
    """Whether it has the images of X and XS, with their labels."""
    fits = [np.array_equal(pixels_of(part), x) for part, x in ((data.train, X), (data.val, XS))]
    return all(fits) and data.train.labels.tolist() == Y.tolist() and data.val.labels.tolist() == YS.tolist()


def test_medmnist_is_tested_on_its_validation_images_and_the_others_are_said(tmp_path: Path) -> None:
    parts = {"train": (X, Y), "val": (XS, YS), "test": (XV, YS)}
    arrays = {f"{part}_images": x for part, (x, _) in parts.items()}
    arrays |= {f"{part}_labels": y[:, None].astype(np.uint8) for part, (_, y) in parts.items()}
    data = open_images(saved(tmp_path, **arrays))
    assert is_expected(data) and data.train.classes == ("0", "1", "2")
    assert "arrays of other parts are left out: test_images, test_labels" in describe_decoding([data.train, data.val])


@for_each([
    ("X_train", "Y_train", "X_test", "Y_test"),
    ("trainX", "trainY", "testX", "testY"),
    ("xtrain", "ytrain", "xtest", "ytest"),
    ("images_train", "labels_train", "images_val", "labels_val"),
    ("train_data", "train_targets", "holdout_data", "holdout_targets"),
    ("train/images", "train/label", "valid/images", "valid/label"),
    ("arr_0", "arr_1", "arr_2", "arr_3"),
], arguments=4)  # fmt: skip
def test_names_of_arrays_are_understood_by_their_words(x: str, y: str, xs: str, ys: str, tmp_path: Path) -> None:
    assert is_expected(open_images(saved(tmp_path, **{x: X, y: Y, xs: XS, ys: YS})))


@for_each([("images", "labels"), ("data", "label"), ("imgs", "target"), ("X", "y"), ("pixels", "Targets")], arguments=2)
def test_arrays_without_parts_are_split(x: str, y: str, tmp_path: Path) -> None:
    data = open_images(saved(tmp_path, **{x: X, y: Y, "extra": Y}))
    assert data.is_split_here and len(data.train) + len(data.val) == 24
    assert "arrays that their names do not call images or labels are not used: extra" in describe_decoding([data.train])


@for_each([
    (Y[:, None], ("0", "1", "2")),
    (np.eye(3)[Y], ("0", "1", "2")),
    (np.eye(3, dtype=bool)[Y], ("0", "1", "2")),
    (Y.astype(np.float32), ("0", "1", "2")),
    (np.array([b"ant", b"bee", b"cow"])[Y], ("ant", "bee", "cow")),
    (Y > 0, ("False", "True")),
], arguments=2)  # fmt: skip
def test_labels_of_any_form_are_classes(y: np.ndarray, classes: tuple[str, ...], tmp_path: Path) -> None:
    data = open_images(saved(tmp_path, x=X, y=y))
    assert data.train.classes == classes
    assert any("one-hot" in note for note in describe_decoding([data.train])) == (y.ndim == 2 and y.shape[1] > 1)


@for_each([
    ({"x": X, "y": np.eye(3)[Y] + np.eye(3)[0]}, r"expected whole numbers or texts"),
    ({"x": X, "y": np.eye(3, dtype=int)[Y] | np.eye(3, dtype=int)[0]}, "16 of 24 images .* label or several in y"),
    ({"x": X, "y": Y + 0.25}, "24 of 24 labels y of .* the first is 0.25"),
    ({"x": X, "y": np.where(Y == 1, np.nan, Y)}, "8 of 24 labels y of .* the first is nan of image 1"),
    ({"x": X, "images": X, "y": Y}, r"all images x, images and labels y"),
    ({"x": X, "y": Y, "x_test": XS, "y_test": YS}, "all images x and labels y; test images x_test and labels y_test"),
    ({"x": X.reshape(24, -1), "y": Y}, r"shape \(24, 216\).* channels, height, width\)\.$"),
    ({"x": X[:, :8, :8].reshape(24, -1), "y": Y}, r"x.reshape\(-1, 3, 8, 8\) where .* x.reshape\(-1, 8, 8, 3\)"),
    ({"x": X[:, :8, :8, 0].reshape(24, -1), "y": Y}, r"x.reshape\(-1, 8, 8\)"),
    ({"x": X[:, :3], "y": Y}, "both fit these"),
    ({"x": np.where(X == 7, np.inf, X / 255), "y": Y}, "values that are infinite or not a number"),
], arguments=2)  # fmt: skip
def test_arrays_that_are_in_doubt_are_refused(arrays: dict[str, np.ndarray], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        open_images(saved(tmp_path, **arrays))


@for_each([(0, 3, 1, 2), (0, 1, 2, 3)])
def test_channels_before_the_height_are_moved_and_said(order: tuple[int, ...], tmp_path: Path) -> None:
    data = open_images(saved(tmp_path, x_train=X.transpose(order), y_train=Y, x_test=XS.transpose(order), y_test=YS))
    assert is_expected(data)
    assert any("channels were moved" in note for note in describe_decoding([data.train])) == (order[1] == 3)


@for_each([np.int64, np.int32, np.uint32, np.uint16])
def test_whole_numbers_up_to_255_in_all_parts_are_of_8_bits(dtype: Any, tmp_path: Path) -> None:
    data = open_images(saved(tmp_path, x_train=X.astype(dtype), y_train=Y, x_test=XS.astype(dtype), y_test=YS))
    assert is_expected(data)
    assert f"images of {np.dtype(dtype)} from 0 to 255 are taken as 8-bit values" in describe_decoding([data.train])
    if dtype == np.int64:
        with pytest.raises(DataError, match=r"64-bit integers, from 0 to 300 in the 36 .*--scale 0,511"):
            arrays = {"x_train": X.astype(dtype), "x_test": XS.astype(dtype) + 45}
            open_images(saved(tmp_path, **arrays, y_train=Y, y_test=YS))


@for_each([
    (lambda x: x.astype(np.float32), "0,255"),
    (lambda x: x / np.float32(127.5) - 1, "-1,1"),
    (lambda x: x / np.float32(255) - np.float32(0.5), "-0.5,0.5"),
    (lambda x: x * np.float32(10) - 1000, "-1000,1550"),
    (lambda x: x.astype(np.int16) * 8, "0,2047"),
], arguments=2)  # fmt: skip
def test_the_scale_that_is_proposed_fits_all_images_of_all_parts(
    stored: Callable[[np.ndarray], np.ndarray], scale: str, tmp_path: Path
) -> None:
    train, test = stored(X), stored(XS)
    train[0] = train[0] / 5 if train.min() == 0 else train[0]  # the first image is darker than the others
    file = saved(tmp_path, x_train=train, y_train=Y, x_test=test, y_test=YS)
    with pytest.raises(DataError, match=rf"in the 36 that were looked at; .* --scale {scale}, or"):
        open_images(file)
    low, high = map(float, scale.split(","))
    data = open_images(file, scale=(low, high))
    assert pixels_of(data.val).max() >= 254 and pixels_of(data.val).min() <= 1


def test_arrays_to_be_classified_are_refused_with_the_range_of_all_of_them() -> None:
    dark, light = np.full((4, 4), 20.0), np.full((4, 5), 240.0)
    with pytest.raises(DataError, match=r"from 20 to 240 in the 2 .*--scale 0,255"):
        make_unlabelled_images([dark, light])
    found = make_unlabelled_images([dark.astype(int), light.astype(int)])
    assert [np.asarray(image).max() for image in found.images] == [20, 240]


def test_files_of_floating_point_are_refused_with_the_range_of_all_of_them(tmp_path: Path) -> None:
    for i in range(100):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(np.full((2, 2), 250.0 if i == 51 else 20.0, np.float32)).save(
            tmp_path / "ab"[i % 2] / f"{i}.tif"
        )
    with pytest.raises(DataError, match=r"from 20 to 250 in the \d+ .*--scale 0,255"):
        open_images(tmp_path)


def test_numpy_files_are_paired_by_their_names(tmp_path: Path) -> None:
    for name, array in PAIRS.items():
        np.save(tmp_path / f"{name}.npy", array)
    for spec in (tmp_path, tmp_path / "x_train.npy", tmp_path / "y_test.npy"):
        assert is_expected(open_images(spec))
    (tmp_path / "pair").mkdir()
    np.save(tmp_path / "pair" / "x.npy", X)
    with pytest.raises(DataError, match=r"x \(uint8 of shape .*all images x and labels none\); .*side by side"):
        open_images(tmp_path / "pair" / "x.npy")
    np.save(tmp_path / "pair" / "labels.npy", Y)
    assert open_images(tmp_path / "pair" / "x.npy").train.classes == ("0", "1", "2")


def test_fields_of_an_array_are_its_names_and_objects_are_refused_in_our_words(tmp_path: Path) -> None:
    cells = np.zeros(24, [("image", np.uint8, X.shape[1:]), ("label", int)])
    cells["image"], cells["label"] = X, Y
    np.save(tmp_path / "all.npy", cells)
    assert open_images(tmp_path / "all.npy").is_split_here
    np.save(tmp_path / "all.npy", np.zeros(24, [("image", object), ("label", int)]))
    with pytest.raises(DataError, match="Python objects, which are never unpickled"):
        open_images(tmp_path / "all.npy")


def test_tensors_have_their_channels_first(tmp_path: Path) -> None:
    first, others = torch.tensor(X).permute(0, 3, 1, 2), torch.tensor(XS).permute(0, 3, 1, 2)
    train, test = (first, torch.tensor(Y)), (others, torch.tensor(YS))
    for number, content in enumerate([(train, test), {"train": train, "test": test}]):
        torch.save(content, tmp_path / f"{number}.pt")
        assert is_expected(open_images(tmp_path / f"{number}.pt"))
    (tmp_path / "parts").mkdir()
    torch.save(train, tmp_path / "parts" / "training.pt")
    torch.save(test, tmp_path / "parts" / "test.pt")
    for spec in (tmp_path / "parts", tmp_path / "parts" / "training.pt"):
        assert is_expected(open_images(spec))
    torch.save(torch.utils.data.TensorDataset(*train), tmp_path / "set.pt")
    with pytest.raises(DataError, match="save its tensors alone"):
        open_images(tmp_path / "set.pt")


def test_the_folders_of_cifar_are_read_and_nothing_is_unpickled(tmp_path: Path) -> None:
    def put(name: str, content: Any) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol=2))

    def batch(x: np.ndarray, **labels: np.ndarray) -> dict[bytes, Any]:
        flat = x[:, :8, :8].transpose(0, 3, 1, 2).reshape(len(x), -1)
        return {name.encode(): y.tolist() for name, y in labels.items()} | {
            b"data": flat,
            b"filenames": [b"a"] * len(x),
        }

    put("ten/data_batch_1", batch(X[:12], labels=Y[:12]))
    put("ten/data_batch_2", batch(X[12:], labels=Y[12:]))
    put("ten/test_batch", batch(XS, labels=YS))
    put("ten/batches.meta", {b"label_names": [b"ant", b"bee", b"cow"]})
    data = open_images(tmp_path / "ten")
    np.testing.assert_array_equal(pixels_of(data.train), X[:, :8, :8])
    assert data.val.labels.tolist() == YS.tolist() and data.train.classes == ("ant", "bee", "cow")
    for name, x, y in (("train", X, Y), ("test", XS, YS)):
        put(f"hundred/{name}", batch(x, fine_labels=y, coarse_labels=y // 2))
    put("hundred/meta", {b"coarse_label_names": [b"a", b"b"]})
    with pytest.raises(DataError, match=r"train/fine_labels .*train/coarse_labels .*--label-column"):
        open_images(tmp_path / "hundred")
    assert open_images(tmp_path / "hundred", label_column="coarse_labels").train.classes == ("0", "1")
    put("ten/data_batch_1", print)
    with pytest.raises(DataError, match=r"asks for .*print.*nothing of it was run"):
        open_images(tmp_path / "ten")


def test_shards_need_no_prefix_and_a_folder_of_them_is_said(tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    (tmp_path / "tars" / "one.tar").write_bytes(tar(samples(range(12))))
    table = pa.table({"image": [png(i) for i in range(12)], "label": [0, 1] * 6})
    (tmp_path / "hub" / "data").mkdir(parents=True)
    (tmp_path / "hub" / "README.md").touch()
    pq.write_table(table, tmp_path / "hub" / "data" / "all.parquet")
    for plain in ("tars", "tars/one.tar", "hub", "hub/data/all.parquet"):
        kind = "webdataset" if plain.startswith("tars") else "parquet"
        data = open_images(tmp_path / plain)
        assert data.train.fingerprint == open_images(f"{kind}:{tmp_path / plain}").train.fingerprint
        assert any(f"was read as '{kind}:" in note for note in describe_decoding([data.train]))
    (tmp_path / "hub" / "data" / "0.png").write_bytes(png(0))
    with pytest.raises(DataError, match="folder of a class"):
        open_images(tmp_path / "hub" / "data")


def test_files_of_other_kinds_are_refused_with_what_to_do(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as file:
        file.writestr("cat/0.png", png(0))
    shutil.copy(tmp_path / "images.zip", tmp_path / "images.h5")
    with pytest.raises(
        QueryError, match=r"The file '.*images.zip' is .*'unzip -d images .*images.zip', and give the fol"
    ):
        open_images(tmp_path / "images.zip")
    with pytest.raises(QueryError, match=r"The file '.*images.h5' is of no kind .*\.npz.* or a folder of images\."):
        open_images(tmp_path / "images.h5")
    about = {"features": pa.array([[0.5, 1.0]]), "label": [0]}
    table = pa.table(about).replace_schema_metadata({"zoo": "{}"})
    pq.write_table(table, tmp_path / "features.parquet")
    with pytest.raises(DataError, match=r"features that zoo features export wrote, and no images; .*zoo probe"):
        open_images(tmp_path / "features.parquet")


def test_an_array_of_labels_is_named_on_the_command_line_too(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8), np.uint8)
    np.savez(tmp_path / "two.npz", x=pixels, fine_labels=np.arange(24) % 4, coarse_labels=np.arange(24) % 2)
    data = document("data", str(tmp_path / "two.npz"), "--label-column", "fine_labels")
    assert len(data["classes"]) == 4


def test_nearly_black_pixels_are_said(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 2, (24, 8, 8), np.uint8)
    np.savez(tmp_path / "masks.npz", x=pixels, y=np.arange(24) % 2)
    assert any(
        "nearly black; multiply them by 255" in note
        for note in describe_decoding([open_images(tmp_path / "masks.npz").train])
    )
