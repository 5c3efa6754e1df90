"""Features: computed in order, with their names and origin, whatever the batch, the workers and the place."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.feature_runs import Told, encoder, image_set, to_tensor, with_damaged
from zoo.datasets import ImageSet
from zoo.errors import CorruptImage, DataError, QueryError
from zoo.features import featurise, load_features


class FirstPixels(torch.nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :5]


def test_features_come_in_the_order_of_the_images_whatever_the_batch(tmp_path: Path) -> None:
    images, options = image_set(20), {"name": "pixels", "shard_size": 9}
    expected = np.stack([to_tensor(image).flatten()[:5].numpy() for image in images.images])
    for batch_size, folder in ((1, None), (7, None), (64, None), (1, tmp_path / "1"), (7, tmp_path / "7")):
        features = featurise(FirstPixels(), to_tensor, images, batch_size=batch_size, folder=folder, **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(features.x, expected)
        np.testing.assert_array_equal(features.y, images.labels)
        assert list(features.names) == list(images.names)
        assert (features.classes, features.skipped, len(features), features.dim) == (("a", "b", "c"), (), 20, 5)
    module = encoder()
    with torch.no_grad():
        by_itself = module(torch.stack([to_tensor(image) for image in images.images])).numpy()
    np.testing.assert_allclose(featurise(module, to_tensor, images, name="small").x, by_itself, rtol=1e-5, atol=1e-6)


def test_two_worker_processes_give_the_same_bits_and_skip_the_same_images(tmp_path: Path) -> None:
    images = with_damaged(image_set(50), 3, 17)
    alone, together = (
        featurise(encoder(), to_tensor, images, name="small", batch_size=8, n_workers=n_workers, skip_corrupt=True)
        for n_workers in (0, 2)
    )
    np.testing.assert_array_equal(alone.x, together.x)
    assert alone.skipped == together.skipped and alone.origin == together.origin
    with pytest.raises(
        CorruptImage, match=r"'class/003.png' of 'noise' cannot be read \(cut in the middle\)"
    ) as caught:
        featurise(encoder(), to_tensor, images, name="small", batch_size=8, n_workers=2)
    assert caught.value.image == "class/003.png"


@pytest.mark.parametrize("in_folder", [False, True])
def test_damaged_images_are_left_out_named_and_counted_if_asked_for(tmp_path: Path, in_folder: bool) -> None:
    whole = image_set(50)
    images = with_damaged(whole, 0, 8, 9, 10, 11, 49)  # among them all of a batch
    folder = tmp_path / "features" if in_folder else None
    features = featurise(
        encoder(), to_tensor, images, name="small", batch_size=4, shard_size=20, folder=folder, skip_corrupt=True
    )
    left = [number for number in range(50) if number not in (0, 8, 9, 10, 11, 49)]
    assert [image.position for image in features.skipped] == [0, 8, 9, 10, 11, 49]
    assert features.skipped[1].image == "class/008.png" and "cut in the middle" in features.skipped[1].reason
    assert features.origin.n_skipped == 6
    assert list(features.names) == [whole.names[number] for number in left]
    np.testing.assert_array_equal(features.y, whole.labels[left])
    expected = featurise(encoder(), to_tensor, whole, name="small").x[left]
    np.testing.assert_allclose(features.x, expected, rtol=1e-5, atol=1e-6)


def test_a_whole_shard_of_damaged_images_is_fine_and_a_whole_set_is_not(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        options = {"name": "small", "shard_size": 5, "skip_corrupt": True}
        some, every = with_damaged(image_set(12), 0, 1, 2, 3, 4), with_damaged(image_set(12), *range(12))
        places = (None, None) if folder is None else (folder / "some", folder / "all")
        assert len(featurise(encoder(), to_tensor, some, folder=places[0], **options)) == 7  # type: ignore[arg-type]
        with pytest.raises(DataError, match=r"None of the 12 images of 'noise' can be read, the first is"):
            featurise(encoder(), to_tensor, every, folder=places[1], **options)  # type: ignore[arg-type]


def test_features_that_are_not_finite_name_the_image(tmp_path: Path) -> None:
    class BreaksOnce(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            features = images.flatten(1)[:, :5].clone()
            features[(images == marked).flatten(1).all(1), 3] = torch.inf
            return features

    images = image_set(6)
    marked = to_tensor(images.images[4])
    with pytest.raises(DataError, match=r"'class/004.png' of 'noise' \(number 4\) has features that are not finite"):
        featurise(BreaksOnce(), to_tensor, images, name="breaks", folder=tmp_path, shard_size=2)
    assert len(list(tmp_path.glob("shard-*"))) == 2


def test_half_precision_rounds_gives_float32_features_and_is_named() -> None:
    images = image_set(9)
    full = featurise(encoder(), to_tensor, images, name="small")
    rounded = featurise(encoder(), to_tensor, images, name="small", precision="bfloat16")
    half = featurise(encoder().half(), to_tensor, images, name="small")
    assert half.origin.precision == "float16 weights"
    for other in (rounded, half):
        assert other.x.dtype == np.float32 and not np.array_equal(full.x, other.x)
        np.testing.assert_allclose(other.x, full.x, atol=0.05)
    with pytest.raises(QueryError, match="stored in"):
        featurise(encoder().half(), to_tensor, images, name="small", precision="bfloat16")


def test_a_compiled_encoder_gets_batches_of_one_size_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        def run(*arguments: torch.Tensor) -> object:
            sizes.extend(len(one) for one in arguments if one.ndim == 4 and one.shape[1] == 3)
            return graph(*arguments)

        return run

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))  # a machine may have no compiler
    images = image_set(7)
    plain = featurise(encoder(), to_tensor, images, name="small")
    found = featurise(encoder(), to_tensor, images, name="small", precision="float32-compiled", batch_size=4)
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-4, atol=1e-6)
    assert set(sizes) == {4} and len(sizes) >= 2
    assert found.origin.precision == "float32-compiled"


def test_a_compiler_that_fails_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        raise OSError("no compiler here")

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    with pytest.raises(QueryError, match=r"cannot compile 'small' here \(no compiler here\); leave out --compile"):
        featurise(encoder(), to_tensor, image_set(3), name="small", precision="float32-compiled")


def test_an_encoder_that_gives_something_else_than_a_vector_an_image_is_refused() -> None:
    class Odd(torch.nn.Module):
        def __init__(self, forward: object) -> None:
            super().__init__()
            self.forward = forward  # type: ignore[assignment]

    for forward, got in (
        (lambda images: images, r"torch.float32 \(4, 3, 8, 8\)"),
        (lambda images: images.flatten(1)[:2], r"torch.float32 \(2, 192\)"),
        (lambda images: images.flatten(1).argmax(1, keepdim=True), r"torch.int64 \(4, 1\)"),
        (lambda images: {"features": images.flatten(1)}, "dict"),
        (lambda images: images.flatten(1)[:, :0], r"torch.float32 \(4, 0\)"),
    ):
        with pytest.raises(DataError, match=f"'odd' gives {got} for 4 images; expected floating-point"):
            featurise(Odd(forward), to_tensor, image_set(4), name="odd")


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_preprocessing_that_makes_different_shapes_is_refused(n_workers: int) -> None:
    with pytest.raises(DataError, match=r"^The preprocessing makes .* expected one shape for all images.*[^\n]$"):
        featurise(encoder(), uneven, image_set(9), name="small", n_workers=n_workers)


def uneven(image: object) -> torch.Tensor:
    tensor = to_tensor(image)
    return tensor[:, :, : 7 if tensor[0, 0, 0] > 0.5 else 8]


def test_options_that_make_no_sense_and_an_empty_image_set_are_refused() -> None:
    for changed, sentence in (
        ({"batch_size": 0}, "batch_size is 0"),
        ({"n_workers": -1}, "n_workers is -1"),
        ({"shard_size": 0}, "shard_size is 0"),
        ({"precision": "float8"}, "float32, bfloat16, float16"),
        ({"device": "abacus"}, "'abacus' cannot be used"),
        ({"device": "meta"}, "'meta'"),
    ):
        with pytest.raises(QueryError, match=sentence):
            featurise(encoder(), to_tensor, image_set(3), name="small", **changed)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="has no weights"):
        featurise(encoder().to("meta"), to_tensor, image_set(3), name="small")
    empty = ImageSet(
        name="none", split="all", images=[], labels=np.zeros(0, np.int64), classes=("a",), names=(), fingerprint="0"
    )
    with pytest.raises(DataError, match="holds no image"):
        featurise(FirstPixels(), to_tensor, empty, name="pixels")


@pytest.mark.parametrize("n_workers", [0, 1])
def test_nothing_of_the_users_is_changed(n_workers: int) -> None:
    module = encoder()
    state, drawn = module.state_dict(), torch.random.get_rng_state()
    strides = {name: tensor.stride() for name, tensor in state.items()}
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        featurise(module, to_tensor, image_set(9), name="small", n_workers=n_workers, channels_last=True)
        with ThreadPoolExecutor(1) as other:
            assert other.submit(torch.get_num_threads).result() == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(n_threads)
    assert torch.equal(torch.random.get_rng_state(), drawn) and not torch.is_inference_mode_enabled()
    assert {name: tensor.stride() for name, tensor in module.state_dict().items()} == strides


def test_running_out_of_memory_says_what_to_do(tmp_path: Path) -> None:
    class Hungry(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise torch.OutOfMemoryError

    with pytest.raises(QueryError, match=r"64 images at once do not fit .* smaller batch_size"):
        featurise(Hungry(), to_tensor, image_set(9), name="hungry")


def test_progress_counts_every_image_and_ends_even_after_a_failure(tmp_path: Path) -> None:
    told = Told()
    images = with_damaged(image_set(20), 13)
    with pytest.raises(CorruptImage):
        featurise(
            encoder(), to_tensor, images, name="small", batch_size=4, shard_size=8, folder=tmp_path, progress=told
        )
    assert (told.starts, told.advances, told.n_ends) == ([("small, noise (train)", 20, 0)], [4, 4, 4], 1)
    again = Told()
    options = {"batch_size": 4, "folder": tmp_path, "skip_corrupt": True, "progress": again}
    featurise(encoder(), to_tensor, images, name="small", **options)  # type: ignore[arg-type]
    assert again.starts[0][2] == 8 and sum(again.advances) == 12 and again.n_ends == 1
    featurise(encoder(), to_tensor, images, name="small", **options)  # type: ignore[arg-type]
    assert again.starts[1][2] == 20 and again.n_ends == 2


def test_a_folder_that_is_complete_is_read_and_not_computed_again(tmp_path: Path) -> None:
    class Broken(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise AssertionError

    images, module = image_set(9), encoder()
    features = featurise(module, to_tensor, images, name="small", folder=tmp_path)
    module.first.append(Broken())
    again = featurise(module, to_tensor, images, name="small", folder=tmp_path)
    np.testing.assert_array_equal(again.x, features.x)
    assert load_features(tmp_path).origin == again.origin == features.origin
