"""Fashion-MNIST and its like: the four files in every place and form, and every way in which they are damaged."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import FashionMNIST

from zoo.datasets import open_images, pixels_of
from zoo.datasets.idx import SETS
from zoo.errors import DataError, QueryError

N = {"train": 40, "t10k": 20}


def content(array: np.ndarray) -> bytes:
    """A file of the format, written by its definition."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def arrays(part: str, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Images of 28 x 28 px and labels of a part."""
    rng = np.random.default_rng([seed, N[part]])
    pixels = rng.integers(0, 256, (N[part], 28, 28), np.uint8)
    return {"images-idx3-ubyte": pixels, "labels-idx1-ubyte": rng.permutation(N[part]).astype(np.uint8) % 10}


def written(folder: Path, *, packed: bool = True, seed: int = 0) -> Path:
    """The four files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in N:
        for name, array in arrays(part, seed=seed).items():
            held = content(array)
            path = folder / f"{part}-{name}{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(held) if packed else held)
    return folder


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("below", ["", "raw", "FashionMNIST/raw"])
def test_the_files_are_read_wherever_they_lie_and_packed_or_not(tmp_path: Path, below: str, packed: bool) -> None:
    written(tmp_path / below, packed=packed)
    data = open_images(f"fashion-mnist:{tmp_path}")
    assert (data.name, data.train.split, data.val.split) == ("fashion-mnist", "train", "val")
    assert data.train.classes[9] == "Ankle boot" and not data.is_split_here
    for images, part in ((data.train, "train"), (data.val, "t10k")):
        pixels, labels = arrays(part).values()
        np.testing.assert_array_equal(pixels_of(images), pixels)
        np.testing.assert_array_equal(images.labels, labels)


def test_images_are_those_of_torchvision(tmp_path: Path) -> None:
    written(tmp_path / "FashionMNIST" / "raw", packed=False)
    data = open_images(f"fashion-mnist:{tmp_path}")
    for images, is_train in ((data.train, True), (data.val, False)):
        there = FashionMNIST(str(tmp_path), train=is_train)
        np.testing.assert_array_equal(pixels_of(images), there.data.numpy())
        np.testing.assert_array_equal(images.labels, there.targets.numpy())
        assert images.classes == tuple(there.classes)


def test_the_place_and_the_packing_do_not_matter_to_the_fingerprint_and_every_pixel_does(tmp_path: Path) -> None:
    one, same, other = (
        open_images(f"fashion-mnist:{written(tmp_path / name, packed=packed, seed=seed)}").train.fingerprint
        for name, packed, seed in (("a", True, 0), ("b", False, 0), ("c", True, 1))
    )
    assert one == same != other


@pytest.mark.parametrize("name", ["mnist", "kmnist"])
def test_other_sets_of_the_format_have_their_own_classes(tmp_path: Path, name: str) -> None:
    data = open_images(f"{name}:{written(tmp_path / SETS[name].folder / 'raw').parents[1]}")
    assert (data.name, data.train.classes) == (name, SETS[name].classes)


Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, tuple[str, Damage, str]] = {
    "cut off within gzip": ("train-images-idx3-ubyte", lambda held: gzip.compress(held)[:-9], "cannot be read to its"),
    "not gzip": ("train-images-idx3-ubyte", lambda held: held, "cannot be read to its end"),
    "empty": ("train-labels-idx1-ubyte", lambda held: gzip.compress(b""), "begins with the bytes of an empty file"),
    "another magic number": (
        "t10k-labels-idx1-ubyte",
        lambda held: gzip.compress(b"\0\0\x08\x03" + held[4:]),
        "begins with the bytes 00 00 08 03; expected 00 00 08 01, the magic number of 1 axis",
    ),
    "cut off": (
        "t10k-images-idx3-ubyte",
        lambda held: gzip.compress(held[:-5]),
        "announces 20 x 28 x 28 = 15,680 bytes and holds 15,675 bytes; it is cut off or damaged",
    ),
    "cut off in its head": ("t10k-images-idx3-ubyte", lambda held: gzip.compress(held[:9]), "it ends within its head"),
    "too long": ("t10k-labels-idx1-ubyte", lambda held: gzip.compress(held + b"\1"), "20 bytes and holds more bytes"),
    "of another set": (
        "train-labels-idx1-ubyte",
        lambda held: gzip.compress(content(np.zeros(39, np.uint8))),
        "has 40 images and 39 labels of the part 'train'",
    ),
    "a class too many": (
        "train-labels-idx1-ubyte",
        lambda held: gzip.compress(content(np.full(40, 10, np.uint8))),
        "has the label 10 in the part 'train'; expected 0 to 9",
    ),
    "no image": (
        "train-images-idx3-ubyte",
        lambda held: gzip.compress(content(np.zeros((40, 28, 0), np.uint8))),
        "has no pixels in the part 'train'",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path, damage: str) -> None:
    name, change, words = DAMAGES[damage]
    path = written(tmp_path) / f"{name}.gz"
    path.write_bytes(change(gzip.decompress(path.read_bytes())))
    with pytest.raises(DataError, match=words):
        open_images(f"fashion-mnist:{tmp_path}")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no folder .*absent; .* such as /usr/share/datasets/fashion-mnist"):
        open_images(f"fashion-mnist:{tmp_path / 'absent'}")
    with pytest.raises(DataError, match=r"Neither .* nor KMNIST/raw below it has train-images-idx3-ubyte.gz"):
        open_images(f"kmnist:{tmp_path}")
    (written(tmp_path) / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"has no t10k-labels-idx1-ubyte\.gz"):
        open_images(f"fashion-mnist:{tmp_path}")
    with pytest.raises(QueryError, match="is not complete; expected mnist:PATH"):
        open_images("mnist:")
