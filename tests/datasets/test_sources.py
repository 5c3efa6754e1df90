"""Image sets: what fits together, digits, npz and idx files, and how a text says which."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.conftest import REPOSITORY, Run
from tests.each import for_each
from zoo.datasets import ImageData, ImageSet, array_images, digits, open_images, pixels_of
from zoo.datasets.sources import KINDS, open_any_images
from zoo.errors import DataError, QueryError, UnknownName

PIXELS = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
LABELS = np.array([0, 1, 0, 1, 2, 2])


def small(**changes: object) -> ImageSet:
    given = {"pixels": PIXELS, "labels": LABELS, "name": "small", "split": "all", "classes": ("a", "b", "c"), **changes}
    return array_images(given.pop("pixels"), given.pop("labels"), **given)  # type: ignore[arg-type]


def test_an_image_set_of_an_array_gives_its_images_with_their_labels() -> None:
    images = small()
    assert len(images) == 6 and images.names == tuple("012345")
    image, label = images[4]
    assert image.size == (5, 4) and image.mode == "L" and label == 2
    np.testing.assert_array_equal(pixels_of(images), PIXELS)
    assert [np.asarray(image)[0, 0] for image in images.images[1:3]] == [20, 40]
    assert images.images[-1].tobytes() == PIXELS[5].tobytes()
    np.testing.assert_array_equal(pixels_of(pickle.loads(pickle.dumps(images))), PIXELS)
    assert images.n_per_class().tolist() == [2, 2, 2]


def test_the_fingerprint_is_of_pixels_labels_names_and_classes_and_of_nothing_else() -> None:
    other_pixels = PIXELS.copy()
    other_pixels[5, 3, 4] += 1
    others = [
        small(pixels=other_pixels),
        small(labels=LABELS[::-1].copy()),
        small(classes=("a", "b", "d")),
        small(names=list("abcdef")),
        small(pixels=PIXELS.reshape(6, 5, 4)),
    ]
    assert len({images.fingerprint for images in [small(), *others]}) == 6
    assert small(name="other", split="x").fingerprint == small(pixels=np.asfortranarray(PIXELS)).fingerprint
    assert small().fingerprint == "47b73e58ee59c744b817dccd1be2a41d"


@for_each(
    [
        ({"labels": LABELS[:5]}, "6 images and 5 labels"),
        ({"names": list("aabcde")}, "have the same name"),
        ({"labels": LABELS - 1}, "first is '0' with -1; expected 0 to 2"),
        ({"labels": LABELS.astype(np.int32)}, "labels as int32"),
        ({"pixels": PIXELS / 255}, "expected uint8"),
    ],
    arguments=2,
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        small(**changes)
    with pytest.raises(DataError, match="A subset of 'small'"):
        small().subset([0, 0], split="x")


def test_a_data_set_needs_two_parts_of_the_same_classes_and_pixels_one_size() -> None:
    train, val = small().subset([0, 1, 4], split="train"), small().subset([2, 3], split="val")
    for one, other in (
        (train, small(classes=("a", "b", "d"))),
        (train, small(classes=("b", "a", "c"))),
        (train, train),
        (train, small().subset([], split="val")),
        (small().subset([0, 2], split="train"), val),
    ):
        with pytest.raises(DataError, match="of 'x'"):
            ImageData("x", one, other)
    images = [image for image, _ in small()]
    images[3] = images[3].resize((2, 2))
    with pytest.raises(DataError, match="The image 'd' of 'plain'"):
        pixels_of(ImageSet("plain", "all", images, LABELS, ("a", "b", "c"), list("abcdef"), "0"))


def test_the_zoos_own_set_is_meant_where_a_folder_has_its_name_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label in ("cat", "dog"):
        (tmp_path / "digits" / label).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (8, 8), number).save(tmp_path / "digits" / label / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    data = open_images("digits")
    assert len(data.train.classes) == 10
    assert any("the folder of that name is './digits'" in note for note in data.train.reading.notes)
    assert open_images("./digits").train.classes == ("cat", "dog")


def test_the_digits_are_split_by_class_once_and_for_ever() -> None:
    data = open_images("digits")
    assert (len(data.train), len(data.val), data.name) == (1346, 451, "digits")
    whole = digits()
    np.testing.assert_array_equal(data.train.n_per_class() + data.val.n_per_class(), whole.n_per_class())
    np.testing.assert_allclose(data.val.n_per_class() / whole.n_per_class(), 0.25, atol=0.003)
    assert sorted(map(int, [*data.train.names, *data.val.names])) == list(range(1797))
    assert data.val.names[:5] == ["0", "2", "4", "5", "7"]
    with pytest.raises(DataError, match="expected above 0 and below 1"):
        open_images("digits", val_share=float("nan"))
    other = open_images("digits", seed=1, val_share=0.5, name="halves")
    assert abs(len(other.train) - len(other.val)) <= 10 and other.val.name == "halves"


def npz(folder: Path, **arrays: np.ndarray) -> str:
    np.savez(folder / "own.npz", **arrays)
    return str(folder / "own.npz")


def test_an_npz_file_without_parts_is_split_by_class_and_may_name_them(tmp_path: Path) -> None:
    x, y = np.zeros((30, 4, 4, 1), np.uint8), np.arange(30) % 3
    x[:, 0, 0, 0] = np.arange(30)
    data = open_images(npz(tmp_path, x=x, y=y, classes=np.array(["no", "yes", "maybe"])), val_share=0.3)
    assert data.val.n_per_class().tolist() == [3, 3, 3] and data.val.classes == ("no", "yes", "maybe")
    assert data.train[0][0].mode == "L"
    again = open_images(npz(tmp_path, x=x, y=np.array(["no", "yes", "zero"])[y]), val_share=0.3)
    assert again.val.names == data.val.names and again.val.classes == ("no", "yes", "zero")


@for_each(
    [
        ({"x": PIXELS}, r"holds x \(uint8 of shape .* all images x and labels none"),
        ({"other": LABELS}, r"holds other \(int64 of shape \(6,\)\) \(understood: nothing\)"),
        ({"x": PIXELS, "y": LABELS[:5]}, "6 images and 5 labels"),
        ({"x": PIXELS, "y": LABELS + 0.5}, "6 of 6 labels y of .* the first is 0.5"),
        ({"x": PIXELS, "y": LABELS - 1}, "2 of 6 images .* the first is image 0 with -1"),
        ({"x": PIXELS, "y": np.array(["a", "b", "", "a", "b", "b"])}, "first is image 2 with ''"),
        ({"x": PIXELS, "y": LABELS * 0}, "have the same label"),
        ({"x": PIXELS, "y": LABELS, "classes": np.array(["a", "b"])}, "expected a text for each"),
        ({"x": PIXELS.astype(np.int32) * 3, "y": LABELS}, "32-bit integers, from 0 to 357 .*--scale 0,511"),
        ({"x": np.zeros((6, 3, 8, 3), np.uint8), "y": LABELS}, "both fit these"),
        ({"x": PIXELS * 1.0, "y": LABELS}, "floating point, from 0 to 119 in the 6"),
        ({"x": PIXELS * np.nan, "y": LABELS}, "not a number"),
        ({"x": np.array([None] * 6), "y": LABELS}, "never unpickled"),
        ({"x": PIXELS[:3], "y": LABELS[[0, 1, 4]]}, "leaves"),
    ],
    arguments=2,
)
def test_an_npz_file_of_something_else_is_refused(arrays: dict[str, np.ndarray], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        open_images(npz(tmp_path, **arrays))


def test_a_damaged_or_absent_npz_file_is_refused(tmp_path: Path) -> None:
    file = Path(npz(tmp_path, x=PIXELS, y=LABELS))
    held = io.BytesIO()
    np.save(held, PIXELS)
    for damaged in (file.read_bytes()[:100], b"", b"\x80\x04N.", held.getvalue()[:-1]):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged or of another kind"):
            open_images(file)
    with pytest.raises(DataError, match="There is no file"):
        open_images(tmp_path / "absent.npz")


def test_the_help_of_the_command_line_lists_the_kinds_without_numpy(run_apart: Run) -> None:
    script = (
        "import sys; from zoo.datasets.sources import DENSE_KINDS, KINDS, format_sources_help; "
        "print(format_sources_help(KINDS)); "
    )
    done = run_apart(script + "print('numpy' in sys.modules or 'PIL' in sys.modules)", path=[REPOSITORY])
    *lines, _, is_loaded = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(KINDS) and is_loaded == "False", done.stderr


@for_each(["digit", "", "imagenet"])
def test_an_unknown_image_set_lists_the_kinds(spec: str) -> None:
    with pytest.raises(UnknownName, match=r"Expected digits, shapes, FOLDER.*npz.*torchvision:NAME:ROOT.*huggingface"):
        open_images(spec)


def test_a_path_that_is_not_there_is_no_unknown_name() -> None:
    for spec in ("no/such/folder", "./birds", "~/birds"):
        with pytest.raises(QueryError, match="There is no folder"):
            open_images(spec)


@for_each(["shapes:", "shapes:classes", "shapes:classes=-2", "shapes:depth=1",
    "shapes:train=40,train=50", "torchvision:CIFAR10:", "huggingface:", "parquet:", "digits:8x8"])  # fmt: skip
def test_a_kind_wrongly_written_says_how_it_is_written(spec: str) -> None:
    with pytest.raises(QueryError, match="expected"):
        open_images(spec)


N = {"train": 40, "t10k": 20}


def content(array: np.ndarray) -> bytes:
    """A file of the IDX format."""
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def written(folder: Path, *, packed: bool = True) -> Path:
    """The four files of noise in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in N.items():
        rng = np.random.default_rng(n)
        for name, array in {
            "images-idx3-ubyte": rng.integers(0, 256, (n, 28, 28), np.uint8),
            "labels-idx1-ubyte": rng.permutation(n).astype(np.uint8) % 10,
        }.items():
            held = content(array)
            path = folder / f"{part}-{name}{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(held) if packed else held)
    return folder


def test_idx_files_are_those_of_torchvision_wherever_they_lie_and_packed_or_not(tmp_path: Path) -> None:
    from torchvision.datasets import FashionMNIST

    written(tmp_path / "FashionMNIST" / "raw", packed=False)
    data = open_images(f"fashion-mnist:{tmp_path}")
    for images, is_train in ((data.train, True), (data.val, False)):
        there = FashionMNIST(str(tmp_path), train=is_train)
        np.testing.assert_array_equal(pixels_of(images), there.data.numpy())
        np.testing.assert_array_equal(images.labels, there.targets.numpy())
        assert images.classes == tuple(there.classes)
    for place in ("a", "b/raw"):
        written(tmp_path / place)
        packed = open_images(f"fashion-mnist:{tmp_path / place.partition('/')[0]}")
        assert packed.train.fingerprint == data.train.fingerprint
    assert open_images(f"kmnist:{written(tmp_path / 'c')}").train.classes[1] == "ki"


@for_each(
    [
        ("train-images-idx3-ubyte", lambda held: gzip.compress(held)[:-9], "no whole file"),
        ("train-images-idx3-ubyte", lambda held: held, "no whole file"),
        ("train-labels-idx1-ubyte", lambda held: gzip.compress(b""), "no whole file"),
        ("t10k-labels-idx1-ubyte", lambda held: gzip.compress(b"\0\0\x08\x03" + held[4:]), "bytes 00 00 08 03"),
        ("t10k-images-idx3-ubyte", lambda held: gzip.compress(held[:-5]), "no whole file"),
        ("t10k-labels-idx1-ubyte", lambda held: gzip.compress(held + b"\1"), "no whole file"),
        ("train-labels-idx1-ubyte", lambda held: gzip.compress(content(np.zeros(39, np.uint8))), "39 labels"),
        ("train-labels-idx1-ubyte", lambda held: gzip.compress(content(np.full(40, 10, np.uint8))), "up to 10"),
        ("t10k-labels-idx1-ubyte", None, r"has no t10k-labels-idx1-ubyte\.gz"),
        ("train-images-idx3-ubyte", None, "Neither .* nor FashionMNIST/raw"),
    ],
    arguments=3,
)
def test_a_damaged_idx_file_is_named_with_what_is_wrong(name: str, change: Any, words: str, tmp_path: Path) -> None:
    path = written(tmp_path) / f"{name}.gz"
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(gzip.decompress(path.read_bytes())))
    with pytest.raises(DataError, match=words):
        open_images(f"fashion-mnist:{tmp_path}")


def test_images_to_predict_may_be_named_by_a_list_of_records_by_a_file_in_their_folder_or_by_kept_options(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "pets"
    folder.mkdir()
    rows = [(f"{i}.png", "dog" if i % 2 else "cat") for i in range(6)]
    for i, (name, _) in enumerate(rows):
        Image.new("RGB", (8, 8), (40 * i, 0, 0)).save(folder / name)
    (folder / "metadata.csv").write_text("\n".join(map(",".join, [("file_name", "label"), *rows])))
    records = [{"file_name": f"pets/{name}", "label": label} for name, label in rows]
    (tmp_path / "list.json").write_text(json.dumps(records))
    (tmp_path / "set.toml").write_text('images = "list.json"\nimage_column = "file_name"\n')
    for text in (folder, tmp_path / "list.json", tmp_path / "set.toml"):
        images = open_any_images(text, is_new=True).all
        assert images is not None
        assert (len(images), images.classes, images.reading.notes) == (6, ("cat", "dog"), ())
