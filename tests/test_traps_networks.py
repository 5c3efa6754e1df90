"""Traps in preprocessing, networks and what they cost; :mod:`tests.traps` says how to read a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision import transforms
from torchvision.transforms import functional

import zoo
from tests.traps import Trap, hold
from zoo.cards.catalogue import load_catalogue
from zoo.encoders.costs import compute_network_cost
from zoo.encoders.preprocess import build_preprocess

DIM, TOKENS = 64, 49


class Layer(nn.Module):
    """A layer of a transformer on 49 tokens of width 64, with torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, DIM, 2, 2)
        self.layer = nn.TransformerEncoderLayer(DIM, 4, 4 * DIM, batch_first=True)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(self.patches(images).flatten(2).transpose(1, 2))


OPERATIONS = 2 * (TOKENS * DIM * 3 * 4 + TOKENS * DIM * DIM * (4 + 2 * 4) + 2 * TOKENS * TOKENS * DIM)


def counted_by_zoo() -> float:
    with torch.device("meta"):
        return 1e9 * compute_network_cost(Layer().eval(), 14).gflops


def counted_by_torch() -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        Layer().eval()(torch.randn(1, 3, 14, 14))
    return int(counter.get_total_flops())


class Shared(nn.Module):
    """Two names of one weight of 27 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, bias=False)
        self.second = nn.Conv2d(3, 3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, images: Tensor) -> Tensor:
        return self.second(self.first(images))


def bytes_of_shared() -> tuple[int, int]:
    """Bytes of its weights by the zoo, and by the sum over its state dict, which is what a checkpoint lists."""
    with torch.device("meta"):
        network = Shared()
        listed = sum(tensor.nbytes for tensor in network.state_dict().values())
        return compute_network_cost(network, 8).parameter_bytes, listed


SQUARE = replace(load_catalogue()["dino_vitS16"].preprocess, resize_px=256, crop_px=225)
RAMP = Image.fromarray(np.broadcast_to(np.arange(256, dtype=np.uint8)[None, :, None], (256, 256, 3)).copy())
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (400, 600, 3), np.uint8))
SMALL = replace(load_catalogue()["dino_vitS16"].preprocess, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def first_column(image: Tensor) -> int:
    """The column of the ramp with which a crop begins."""
    values = image[0] * SQUARE.std[0] + SQUARE.mean[0]
    return round(float(values[0, 0]) * 255)


def by_pillow() -> np.ndarray:
    """Resized and cropped by Pillow alone, shares of white (3, height, width)."""
    width = round(SMALL.resize_px * 600 / 400)
    resized = PICTURE.resize((width, SMALL.resize_px), Image.Resampling.BICUBIC)
    left, top = ((side - SMALL.crop_px) // 2 for side in resized.size)
    cut = resized.crop((left, top, left + SMALL.crop_px, top + SMALL.crop_px))
    return np.asarray(cut, np.float32).transpose(2, 0, 1) / np.float32(255)


def without_antialiasing() -> np.ndarray:
    """The same of a tensor without the filter that resizing of images has."""
    tensor = functional.pil_to_tensor(PICTURE).float() / 255
    resized = functional.resize(tensor, SMALL.resize_px, transforms.InterpolationMode.BICUBIC, antialias=False)
    return functional.center_crop(resized, SMALL.crop_px).numpy()


def as_loaded(*, alone: bool, training: bool = False) -> np.ndarray:
    """Features of the first of four images, which comes alone or with the others."""
    encoder, preprocess = zoo.load("pocket_simclr_rn_shapes")
    colours = np.random.default_rng(1).integers(0, 256, (4, 32, 32, 3), np.uint8)
    images = torch.stack([preprocess(Image.fromarray(one)) for one in colours])
    if training:
        encoder.train()
    with torch.no_grad():
        return encoder(images[:1] if alone else images)[0].numpy()


def with_prefix(root: Path) -> tuple[Path, Tensor]:
    """A checkpoint of an encoder as DistributedDataParallel writes it, and an image."""
    encoder, _ = zoo.load("pocket_simclr_rn_shapes")
    torch.save({"module." + name: tensor for name, tensor in encoder.state_dict().items()}, root / "mine.pt")
    return root / "mine.pt", torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def features_of(encoder: nn.Module, image: Tensor) -> np.ndarray:
    with torch.no_grad():
        return encoder.eval()(image).numpy()


def features_loaded(root: Path) -> np.ndarray:
    file, image = with_prefix(root)
    return features_of(zoo.load("pocket_simclr_rn_shapes", weights=file)[0], image)


def features_loaded_loosely(root: Path) -> np.ndarray:
    """``load_state_dict(strict=False)``, which takes nothing of a file whose names have another beginning."""
    file, image = with_prefix(root)
    encoder, _ = zoo.load("pocket_simclr_rn_shapes", pretrained=False, seed=0)
    encoder.load_state_dict(torch.load(file, weights_only=True), strict=False)
    return features_of(encoder, image)


NETWORKS = [
    Trap(
        "a checkpoint whose names have another beginning is loaded and not passed over",
        zoo=features_loaded,
        right=lambda root: features_of(zoo.load("pocket_simclr_rn_shapes")[0], with_prefix(root)[1]),
        usual=features_loaded_loosely,
        within=1e-6,
    ),
    Trap(
        "operations of torch's own attention are counted",
        zoo=lambda _: counted_by_zoo(),
        right=OPERATIONS,
        usual=lambda _: counted_by_torch(),  # its fast path is one operation, which the counter does not know
        within=1e-4,  # costs are rounded to 1,000 operations
    ),
    Trap(
        "a weight with two names is stored once",
        zoo=lambda _: bytes_of_shared()[0],
        right=3 * 3 * 3 * 3 * 4,
        usual=lambda _: bytes_of_shared()[1],
    ),
    Trap(
        "a crop that leaves an odd rest begins where the library of the card begins it",
        zoo=lambda _: first_column(build_preprocess(replace(SQUARE, crop_rounding="down"))(RAMP)),
        right=(256 - 225) // 2,
        usual=lambda _: int(np.asarray(transforms.CenterCrop(225)(RAMP))[0, 0, 0]),
    ),
    Trap(
        "images are resized with the filter that they are resized with in training",
        zoo=lambda _: build_preprocess(SMALL)(PICTURE).numpy(),
        right=by_pillow(),
        usual=lambda _: without_antialiasing(),
        within=1e-3,
    ),
    Trap(
        "features of an image do not depend on the images next to it",
        zoo=lambda _: as_loaded(alone=False),
        right=lambda _: as_loaded(alone=True),
        usual=lambda _: as_loaded(alone=False, training=True),
        within=1e-4,
    ),
]


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path_factory.mktemp(variable)))


@pytest.mark.parametrize("trap", NETWORKS, ids=str)
def test_a_network_is_right_where_the_usual_way_is_not(trap: Trap, tmp_path: Path) -> None:
    hold(trap, tmp_path)
