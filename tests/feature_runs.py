"""Small encoders and image sets for tests of features, and processes that may be killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from tests.children import Child
from zoo.datasets import ImageSet, LazyImages, array_images
from zoo.errors import CorruptImage

DIM = 6


def image_set(n: int = 50, *, seed: int = 0, split: str = "train") -> ImageSet:
    """Random images of 8 x 8 px in three classes, named as files."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    names = [f"class/{number:03}.png" for number in range(n)]
    labels = np.arange(n, dtype=np.int64) % 3
    return array_images(pixels, labels, name="noise", split=split, classes=["a", "b", "c"], names=names)


class DamagedHere:
    """Reads the images of another set, except some that are damaged."""

    def __init__(self, whole: ImageSet, damaged: tuple[int, ...]) -> None:
        self.whole, self.damaged = whole, damaged

    def __call__(self, index: int) -> object:
        if index in self.damaged:
            raise CorruptImage.of(self.whole.names[index], image_set=self.whole.name, reason="cut in the middle")
        return self.whole.images[index]


def with_damaged(whole: ImageSet, *damaged: int) -> ImageSet:
    """The same set with some images that cannot be read."""
    return ImageSet(
        name=whole.name,
        split=whole.split,
        images=LazyImages(DamagedHere(whole, damaged), np.arange(len(whole))),
        labels=whole.labels,
        classes=whole.classes,
        names=whole.names,
        fingerprint=whole.fingerprint,
    )


def to_tensor(image: object) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255).permute(2, 0, 1)


class Slowly(torch.nn.Module):
    """Passes its input on after a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return images


class AfterBatches(torch.nn.Module):
    """Passes its input on, and does something before a certain batch."""

    def __init__(self, n_before: int, what: object) -> None:
        super().__init__()
        self.n_left, self.what = n_before, what

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.n_left == 0:
            assert callable(self.what)
            self.what()
        self.n_left -= 1
        return images


def encoder(*before: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Convolution, nonlinearity and projection with fixed random weights, of about 900 parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(256, DIM)]
    return Named(torch.nn.Sequential(*layers), before)


class Named(torch.nn.Module):
    """Layers whose weights have the same names and values whatever happens before them."""

    def __init__(self, layers: torch.nn.Module, before: tuple[torch.nn.Module, ...]) -> None:
        super().__init__()
        self.layers = layers
        self.first = torch.nn.Sequential(*before)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(self.first(images))  # (n, DIM)


class Told:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, int | None, int]] = []
        self.advances: list[int] = []
        self.n_ends = 0

    def start(self, name: str, total: int | None, done: int) -> None:
        self.starts.append((name, total, done))

    def advance(self, n: int) -> None:
        self.advances.append(n)

    def end(self) -> None:
        self.n_ends += 1


def shard_names(folder: Path) -> list[str]:
    """Names of the shards in a folder."""
    return sorted(path.name for path in folder.glob("shard-*.safetensors"))


def kill_at_work(work: Callable[[], object], folder: Path) -> None:
    """Starts it in a process, which is killed (SIGKILL) when a folder has two shards of features."""
    process, patience = Child(work).process, time.monotonic() + 100
    while len(shard_names(folder)) < 2 and time.monotonic() < patience:
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -9
