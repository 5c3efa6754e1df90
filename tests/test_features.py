"""Features: computed in order, saved whole, read back equal, refused when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.datasets import ImageSet, digits
from zoo.errors import DataError
from zoo.features import Features, Origin, featurise, load_features


class FirstPixels(torch.nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :5]


def to_tensor(image: object) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image, dtype=np.float32)).expand(3, -1, -1)


def test_the_digits_are_the_1797_images_of_scikit_learn_in_ten_classes() -> None:
    images = digits()
    assert len(images) == 1797 and len(images.classes) == 10
    image, label = images[0]
    assert image.size == (8, 8) and label == 0
    assert np.asarray(image).max() == 239  # 15 of 16 levels of grey


@pytest.mark.parametrize("wanted", [0, -1, 1798])
def test_asking_for_more_digits_than_there_are_is_refused(wanted: int) -> None:
    with pytest.raises(DataError, match="between 1 and 1,797"):
        digits(n_images=wanted)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_features_come_in_the_order_of_the_images_whatever_the_batch(batch_size: int) -> None:
    images = digits(n_images=20)
    seen: list[int] = []
    features = featurise(FirstPixels(), to_tensor, images, name="pixels", batch_size=batch_size, progress=seen.append)
    expected = np.stack([np.asarray(image, dtype=np.float32).ravel()[:5] for image in images.images])
    np.testing.assert_array_equal(features.x, expected)
    np.testing.assert_array_equal(features.y, images.labels)
    assert sum(seen) == 20


def test_saved_features_are_read_back_equal_with_their_origin(tmp_path: Path) -> None:
    features = featurise(FirstPixels(), to_tensor, digits(n_images=9), name="pixels")
    read = load_features(features.save(tmp_path / "deep" / "pixels.safetensors"))
    np.testing.assert_array_equal(read.x, features.x)
    np.testing.assert_array_equal(read.y, features.y)
    assert read.origin == features.origin
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["pixels.safetensors"]


def test_other_weights_give_another_origin() -> None:
    images = digits(n_images=3)
    one, other = (featurise(layer(seed), to_tensor, images, name="linear").origin for seed in (0, 1))
    assert one.weights_hash != other.weights_hash
    assert featurise(layer(0), to_tensor, images, name="linear").origin == one


def layer(seed: int) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 2))


def test_features_that_are_not_finite_name_the_image() -> None:
    class Breaks(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1)[:, :5] / (images.flatten(1).sum(1, keepdim=True) - total)

    images = digits(n_images=6)
    total = 3 * float(np.asarray(images.images[4]).sum())
    with pytest.raises(DataError, match="first is image 4"):
        featurise(Breaks(), to_tensor, images, name="breaks")


def test_one_number_that_is_not_finite_is_enough() -> None:
    class BreaksOnce(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            features = images.flatten(1)[:, :5].clone()
            features[2, 3] = torch.inf
            return features

    with pytest.raises(DataError, match=r"1 of 6 images .* the first is image 2"):
        featurise(BreaksOnce(), to_tensor, digits(n_images=6), name="breaks")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_encoder_in_half_precision_gives_float32_features(dtype: torch.dtype) -> None:
    images = digits(n_images=4)
    half, full = (featurise(layer(0).to(kind), to_tensor, images, name="linear") for kind in (dtype, torch.float32))
    assert half.x.dtype == np.float32
    np.testing.assert_allclose(half.x, full.x, rtol=0.05, atol=5)
    assert half.origin.weights_hash != full.origin.weights_hash


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones((3, 2)), np.arange(3)),
        (np.ones((3, 2), np.float32), np.arange(5)),
        (np.ones(3, np.float32), np.arange(3)),
        (np.ones((3, 2), np.float32), np.arange(3, dtype=np.int32)),
    ],
)
def test_arrays_that_are_no_features_are_refused_when_read(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    origin = Origin(encoder="e", dataset="d", split="s", weights_hash="w", preprocess_hash="p")
    file = Features(x, y, origin).save(tmp_path / "odd.safetensors")
    with pytest.raises(DataError, match="expected float32"):
        load_features(file)


def test_an_empty_image_set_and_labels_that_do_not_match_are_refused() -> None:
    with pytest.raises(DataError, match="holds no image"):
        empty = ImageSet(name="none", split="all", images=[], labels=np.zeros(0, np.int64), classes=())
        featurise(FirstPixels(), to_tensor, empty, name="pixels")
    with pytest.raises(DataError, match="0 images and 2 labels"):
        ImageSet(name="odd", split="all", images=[], labels=np.zeros(2, np.int64), classes=())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    origin = Origin(encoder="e", dataset="d", split="s", weights_hash="w", preprocess_hash="p")
    return Features(np.ones((4, 2), np.float32), np.arange(4), origin).save(tmp_path / "f.safetensors")


@pytest.mark.parametrize("n_bytes", [0, 5, 60, -1])
def test_a_features_file_cut_in_the_middle_is_refused(saved: Path, n_bytes: int) -> None:
    saved.write_bytes(saved.read_bytes()[:n_bytes])
    with pytest.raises(DataError, match="damaged"):
        load_features(saved)


def test_an_absent_file_and_a_file_of_something_else_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(DataError, match="There is no features file"):
        load_features(tmp_path / "absent.safetensors")
    save_file({"x": np.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(DataError, match="no features of this zoo"):
        load_features(tmp_path / "other.safetensors")


def test_features_that_cannot_be_written_leave_the_old_file_as_it_was(saved: Path, tmp_path: Path) -> None:
    features = load_features(saved)
    with pytest.raises(DataError, match="nothing was changed"):
        features.save(saved / "below-a-file")
    np.testing.assert_array_equal(load_features(saved).x, features.x)
