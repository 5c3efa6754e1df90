"""Images and their random views for the scripts that train: whole batches at once, on tensors.

A card's ``pretraining.augmentations`` name what is drawn here: crop, flip, color, intensity, gray, blur, cutout,
normalize. Images of one channel may be given as such, for speed; they have three once they are normalised.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torchvision import transforms

from zoo.cards.schema import Preprocess
from zoo.datasets import open_images
from zoo.files import replace_file

SMALLEST_CROP = {"shapes": 0.4, "digits": 0.5, "fashion-mnist": 0.3}  # share of the area
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """A set of images, resized and cropped as the cards say, before they are normalised."""

    train: Tensor  # uint8 (n, 3, px, px)
    train_labels: Tensor  # int64 (n,)
    val: Tensor
    val_labels: Tensor
    n_classes: int


def load_pixels(name: str, preprocess: Preprocess, scratch: Path) -> Pixels:
    """The images of a set by its name in :mod:`zoo.datasets`; rendered once, then read from ``scratch``."""
    path = scratch / f"{name}_{preprocess.crop_px}px.npz"
    if not path.exists():
        data = open_images(name)
        resize = transforms.Compose(
            [
                transforms.Resize(
                    preprocess.resize_px, interpolation=transforms.InterpolationMode(preprocess.interpolation)
                ),
                transforms.CenterCrop(preprocess.crop_px),
            ]
        )
        arrays = {"n_classes": np.array(len(data.train.classes))}
        for split, images in (("train", data.train), ("val", data.val)):
            pixels = [np.asarray(resize(images[i][0].convert("RGB"))) for i in range(len(images))]
            arrays |= {split: np.stack(pixels), f"{split}_labels": np.asarray(images.labels, dtype=np.int64)}
        with replace_file(path) as file:
            np.savez(file, **arrays)
    with np.load(path) as found:
        tensors = {key: torch.from_numpy(found[key]) for key in ("train", "train_labels", "val", "val_labels")}
        for split in ("train", "val"):
            tensors[split] = tensors[split].permute(0, 3, 1, 2).contiguous()
        return Pixels(**tensors, n_classes=int(found["n_classes"]))


class Views:
    """Draws a view of every image of a batch.

    Parameters
    ----------
    augmentations : sequence of str
        Words of a card; nothing else is done to an image, but scaling to [0, 1].
    preprocess : Preprocess
        For the normalisation.
    smallest_crop : float
        Least share of the area that a crop takes.
    generator : torch.Generator
        Every random number comes from it.
    """

    KNOWN = ("crop", "flip", "color", "intensity", "gray", "blur", "cutout", "normalize")

    def __init__(
        self, augmentations: Sequence[str], preprocess: Preprocess, *, smallest_crop: float, generator: torch.Generator
    ) -> None:
        self.words = frozenset(augmentations)
        unknown = self.words.difference(self.KNOWN)
        if unknown:
            raise SystemExit(f"The augmentation {min(unknown)!r} is not known here, expected {', '.join(self.KNOWN)}.")
        self.smallest_crop = smallest_crop
        self.generator = generator
        self.mean = torch.tensor(preprocess.mean)[:, None, None]
        self.std = torch.tensor(preprocess.std)[:, None, None]

    def __call__(self, images: Tensor) -> Tensor:
        """Float32 (n, 3, px, px) views of uint8 (n, 3 or 1, px, px) images, normalised."""
        x = images.float() / 255
        if not self.words.isdisjoint(("crop", "flip")):
            x = self._window(x)
        if "color" in self.words:
            x = self._colour(x)
        if "intensity" in self.words:
            x = self._intensity(x)
        if "gray" in self.words:
            x = torch.where(self._chance(len(x), 0.3), _luminance(x).expand_as(x), x)
        if "blur" in self.words:
            x = torch.where(self._chance(len(x), 0.3), _blurred(x), x)
        if "cutout" in self.words:
            x = x * self._holes(len(x), x.shape[-1])
        return self.plain(x)

    def plain(self, x: Tensor) -> Tensor:
        """Normalised and nothing else; x is in [0, 1]."""
        return (x - self.mean) / self.std

    def _window(self, x: Tensor) -> Tensor:
        """A random part of each image, mirrored half of the time, scaled to the whole."""
        n, px = len(x), x.shape[-1]
        centre, half = torch.zeros(n, 2), torch.ones(n, 2)  # (x, y), in half sides of the image
        if "crop" in self.words:
            area = self._uniform(n, self.smallest_crop, 1.0)
            ratio = self._uniform(n, math.log(3 / 4), math.log(4 / 3)).exp()
            half = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], dim=1).clamp(max=1)
            centre = (1 - half) * (torch.rand(n, 2, generator=self.generator) * 2 - 1)
        theta = torch.cat([torch.diag_embed(half), centre[:, :, None]], dim=2)  # (n, 2, 3)
        if "flip" in self.words:
            theta[:, 0, 0] *= torch.where(self._chance(n, 0.5).flatten(), -1.0, 1.0)
        grid = F.affine_grid(theta, [n, 3, px, px], align_corners=False)
        return F.grid_sample(x, grid, align_corners=False, padding_mode="reflection")

    def _colour(self, x: Tensor) -> Tensor:
        """Brightness, contrast and saturation by factors of 0.5 to 1.5, and any hue: one affine map of the colours."""
        n = len(x)
        brightness, contrast, saturation = (self._uniform(n, 0.5, 1.5) for _ in range(3))
        luma = torch.tensor(_LUMA).expand(3, 3)
        keep = saturation[:, None, None]
        mixing = _hue_rotations(self._uniform(n, -0.5, 0.5)) @ (keep * torch.eye(3) + (1 - keep) * luma)
        mixing = mixing * (brightness * contrast)[:, None, None]
        mean = (x.mean(dim=(2, 3)) @ torch.tensor(_LUMA) * brightness * (1 - contrast))[:, None, None]
        return (torch.bmm(mixing, x.flatten(2)) + mean).clamp(0, 1).reshape(x.shape)

    def _intensity(self, x: Tensor) -> Tensor:
        """Brightness and contrast by factors of 0.5 to 1.5."""
        brightness, contrast = (self._uniform(len(x), 0.5, 1.5)[:, None, None, None] for _ in range(2))
        x = x * brightness
        mean = x.mean(dim=(1, 2, 3), keepdim=True)
        return ((x - mean) * contrast + mean).clamp(0, 1)

    def _holes(self, n: int, px: int) -> Tensor:
        """0 in a square of a fifth to two fifths of the side, anywhere in the image, 1 elsewhere; (n, 1, px, px)."""
        side = (self._uniform(n, 0.2, 0.4) * px).round()
        place = torch.arange(px)
        inside = []
        for _ in range(2):
            start = (torch.rand(n, generator=self.generator) * (px - side + 1)).floor()[:, None]
            inside.append((place >= start) & (place < start + side[:, None]))
        return 1 - (inside[0][:, None, :, None] & inside[1][:, None, None, :]).float()

    def _uniform(self, n: int, low: float, high: float) -> Tensor:
        return torch.rand(n, generator=self.generator) * (high - low) + low

    def _chance(self, n: int, probability: float) -> Tensor:
        return (torch.rand(n, generator=self.generator) < probability)[:, None, None, None]


def _luminance(x: Tensor) -> Tensor:
    return torch.einsum("nchw,c->nhw", x, torch.tensor(_LUMA)).unsqueeze(1)


def _blurred(x: Tensor) -> Tensor:
    kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    n_channels = x.shape[1]
    weight = (kernel[:, None] * kernel).expand(n_channels, 1, 5, 5)
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), weight, groups=n_channels)


def _hue_rotations(turns: Tensor) -> Tensor:
    """Matrices (n, 3, 3) that turn colours about the grey axis."""
    angle = turns * 2 * math.pi
    third, root = 1 / 3, 3**-0.5
    cosine, sine = angle.cos()[:, None, None], angle.sin()[:, None, None]
    skew = torch.tensor([[0.0, -root, root], [root, 0.0, -root], [-root, root, 0.0]])
    return cosine * torch.eye(3) + sine * skew + (1 - cosine) * torch.full((3, 3), third)


def scratch_folder(named: str | None) -> Path:
    """Where rendered images and finished runs are kept between two calls of the script."""
    folder = Path(named) if named else Path(os.environ.get("TMPDIR", "/tmp"), "ssl-zoo-pocket")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
