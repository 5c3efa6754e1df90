"""Data sets of torchvision and of the library datasets, from files that those libraries wrote or can read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from datasets import Image as ImageFeature
from PIL import Image

from tests.each import for_each
from zoo.datasets import ImageData, open_images, pixels_of
from zoo.errors import CorruptImage, DataError, UnknownName

GENERATOR = np.random.default_rng(0)
PIXELS = GENERATOR.integers(0, 256, (12, 32, 32, 3), np.uint8)
LABELS = np.arange(12) % 3


def cifar(root: Path) -> None:
    """Files as CIFAR10 unpacks them; the checksums that torchvision wants are those of the real ones."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        (folder / name).write_bytes(pickle.dumps({"data": PIXELS.reshape(12, -1), "labels": LABELS.tolist()}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abc")}))


def svhn(root: Path, monkeypatch: pytest.MonkeyPatch) -> ImageData:
    from torchvision.datasets import SVHN, utils

    for part, n in (("train", 12), ("test", 6)):
        labels = np.where(LABELS == 0, 10, LABELS)[:n, None]  # the digit 0 is stored as 10
        scipy.io.savemat(root / f"{part}_32x32.mat", {"X": PIXELS[:n].transpose(1, 2, 3, 0), "y": labels})
        address, file, _ = SVHN.split_list[part]
        monkeypatch.setitem(SVHN.split_list, part, [address, file, utils.calculate_md5(str(root / file))])
    return open_images(f"torchvision:SVHN:{root}")


def test_a_data_set_with_a_split_argument_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = svhn(tmp_path, monkeypatch)
    assert (data.name, data.train.split, data.val.split) == ("svhn", "train", "val")
    assert len(data.train) == 12 and len(data.val) == 6 and data.train.classes == ("0", "1", "2")
    np.testing.assert_array_equal(data.train.labels, LABELS)
    np.testing.assert_array_equal(pixels_of(data.train), PIXELS)
    assert data.train.fingerprint == svhn(tmp_path, monkeypatch).train.fingerprint
    assert data.train[5][1] == 2


def test_a_data_set_of_files_is_opened_and_names_a_corrupt_one(tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / "fgvc-aircraft-2013b" / "data"
        (folder / "images").mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[number]).save(folder / "images" / f"{number}.jpg")
    (folder / "variants.txt").write_text("747\nA320\n")
    for part, numbers in (("train", (0, 1, 2, 3)), ("val", (4, 5))):
        lines = [f"{number} {('747', 'A320')[number % 2]}" for number in numbers]
        (folder / f"images_variant_{part}.txt").write_text("\n".join(lines))
    data = open_images(f"torchvision:FGVCAircraft:{tmp_path}")
    assert data.train.classes == ("747", "A320") and data.val.labels.tolist() == [0, 1]
    (folder / "images" / "3.jpg").write_bytes(b"")
    assert open_images(f"torchvision:FGVCAircraft:{tmp_path}").train.fingerprint != data.train.fingerprint
    with pytest.raises(CorruptImage, match="The image '3' of 'fgvcaircraft'"):
        data.train[3]


def test_torchvision_data_sets_that_are_absent_damaged_or_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"CIFAR10 is not whole below .*downloads no images"):
        open_images(f"torchvision:CIFAR10:{tmp_path}")
    cifar(tmp_path)
    with pytest.raises(DataError, match="CIFAR10 is not whole below"):
        open_images(f"torchvision:CIFAR10:{tmp_path}")
    with pytest.raises(DataError, match=r"FakeData has no argument train= or split=.*CIFAR10"):
        open_images(f"torchvision:FakeData:{tmp_path}")
    with pytest.raises(UnknownName, match="did you mean CIFAR10"):
        open_images(f"torchvision:cifar-10:{tmp_path}")


def hugging(n: int, **more: object) -> Dataset:
    columns = {"picture": [Image.fromarray(pixels) for pixels in PIXELS[:n]], "kind": LABELS[:n].tolist(), **more}
    features = {"picture": ImageFeature(), "kind": ClassLabel(names=["ant", "bee", "cow"])}
    if "coarse" in more:
        features["coarse"] = ClassLabel(names=["x", "y", "z"])
    return Dataset.from_dict(columns, features=Features(features))


@for_each(["val", "valid", "validation", "test"])
def test_a_saved_dictionary_is_opened_by_the_types_of_its_columns(second: str, tmp_path: Path) -> None:
    tmp_path = tmp_path / second
    DatasetDict({"train": hugging(12), second: hugging(6)}).save_to_disk(tmp_path / "own")
    data = open_images(f"huggingface:{tmp_path / 'own'}")
    assert data.name == "own" and data.val.classes == ("ant", "bee", "cow") and len(data.val) == 6
    np.testing.assert_array_equal(pixels_of(data.train), PIXELS)
    np.testing.assert_array_equal(data.train.labels, LABELS)
    np.testing.assert_array_equal(pixels_of(pickle.loads(pickle.dumps(data.val))), PIXELS[:6])


def test_saved_data_that_are_not_clear_or_whole_are_refused(tmp_path: Path) -> None:
    broken = hugging(12).cast_column("picture", ImageFeature(decode=False)).to_dict()
    broken["picture"][4] = {"bytes": b"no image", "path": None}
    broken = Dataset.from_dict(broken, features=hugging(12).features)
    none = hugging(12, kind=[None, *LABELS[1:].tolist()])
    for name, saved, words in (
        ("two", hugging(12, coarse=[0, 1] * 6), "2 columns of type ClassLabel, .*coarse.*say which"),
        ("cast", hugging(12).cast_column("kind", Value("int64")), r"0 columns .*kind \(Value\): cast the right one"),
        ("none", none, "1 of 12 images in the split 'all' .* no label in 'kind', the first is image 0"),
        ("odd", DatasetDict({"train": hugging(12), "extra": hugging(6)}), "splits train, extra; expected train and"),
        ("broken", DatasetDict({"train": broken, "val": hugging(3)}), "The image '4' of 'broken'"),
    ):
        saved.save_to_disk(tmp_path / name)
        with pytest.raises((DataError, CorruptImage), match=words):
            open_images(f"huggingface:{tmp_path / name}").train.images[4]
    assert open_images(f"huggingface:{tmp_path / 'two'}", label_column="coarse").train.classes == ("x", "y", "z")
    (tmp_path / "empty").mkdir()
    for name, words in (("absent", "There is no folder"), ("empty", "holds no data set of the library")):
        with pytest.raises(DataError, match=words):
            open_images(f"huggingface:{tmp_path / name}")
