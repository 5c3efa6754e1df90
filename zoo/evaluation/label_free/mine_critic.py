"""The critic of MINE: a network that scores an image and a feature, and the bound that its scores give."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import DataError, QueryError
from ...optional import requires_extra

with requires_extra("models", needed_for="MINE"):
    import torch
    from torch import Tensor, nn
    from torchvision.models import resnet18

CRITICS = ("perceptron", "small", "resnet18")
_SMALL_FROM_PX, _RESNET_FROM_PX = 8, 64
_EMBEDDING, _HIDDEN, _CHANNELS = 128, 128, (16, 32, 64)


def critic_named(name: str | None, image_shape: tuple[int, ...]) -> str:
    """The critic of that name, or, for None, the one for images of that size.

    "resnet18" from 64 px (the shorter side), "small" (three residual stages) from 8 px, "perceptron" below that and
    for vectors.

    Raises
    ------
    QueryError
        If there is none of that name, or it does not take such images.

    Examples
    --------
    >>> critic_named(None, (3, 32, 32)), critic_named(None, (3, 224, 160)), critic_named(None, (5,))
    ('small', 'resnet18', 'perceptron')
    """
    px = min(image_shape[1:], default=1)
    if name is None:
        return "resnet18" if px >= _RESNET_FROM_PX else "small" if px >= _SMALL_FROM_PX else "perceptron"
    if name not in CRITICS:
        raise QueryError(f"critic is {name!r}, expected one of {', '.join(map(repr, CRITICS))}, or None.")
    if name != "perceptron" and px < _SMALL_FROM_PX:
        raise QueryError(
            f"critic is {name!r}, which takes images of at least {_SMALL_FROM_PX} px, but an image has the shape "
            f"{image_shape}: take 'perceptron'."
        )
    return name


class Critic(nn.Module):
    """T(image, feature): a network for the image, whose output and the feature enter a perceptron of two layers.

    Its first layer is linear in both, and is computed once for each image and each feature; a pair costs the rest.
    Scores are 0 before training.
    """

    def __init__(self, name: str, image_shape: tuple[int, ...], dim: int) -> None:
        super().__init__()
        self.tower = _tower(name, image_shape)
        self.of_image = nn.Linear(_EMBEDDING, _HIDDEN)
        self.of_feature = nn.Linear(dim, _HIDDEN, bias=False)
        self.of_pair = nn.Linear(_HIDDEN, _HIDDEN)
        self.score = nn.Linear(_HIDDEN, 1, bias=False)  # a constant would not change the bound
        nn.init.zeros_(self.score.weight)

    def halves(self, images: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Images (b, ...) and features (b, dim) -> what each gives to the first layer, (b, hidden) both."""
        return self.of_image(self.tower(images)), self.of_feature(z)

    def forward(self, of_image: Tensor, of_feature: Tensor) -> Tensor:
        """Scores of pairs, (..., b), from halves (..., b, hidden)."""
        scores: Tensor = self.score(self.of_pair((of_image + of_feature).relu()).relu()).squeeze(-1)
        return scores


class _Stage(nn.Module):
    """A residual block at half the resolution; normalised within an image, so that no image depends on its batch."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.skip = nn.Conv2d(n_in, n_out, 1, stride=2, bias=False)
        self.residual = nn.Sequential(
            nn.GroupNorm(8, n_in), nn.ReLU(), nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(8, n_out), nn.ReLU(), nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(b, n_in, h, w) -> (b, n_out, h / 2, w / 2), rounded up."""
        halved: Tensor = self.skip(x) + self.residual(x)
        return halved


def _tower(name: str, image_shape: tuple[int, ...]) -> nn.Module:
    """Images -> (b, _EMBEDDING)."""
    if name == "perceptron":
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(image_shape), _EMBEDDING), nn.ReLU())
    n_channels, *size = image_shape
    if name == "resnet18":
        network: nn.Module = resnet18(weights=None, num_classes=_EMBEDDING)
        if n_channels != 3:
            network.conv1 = nn.Conv2d(n_channels, 64, 7, stride=2, padding=3, bias=False)
        return nn.Sequential(network, nn.ReLU())
    stride = 2 if max(size) > 16 else 1
    first, *more = _CHANNELS
    stages: list[nn.Module] = [nn.Conv2d(n_channels, first, 3, stride=stride, padding=1)]
    for n_in, n_out in zip(_CHANNELS, more, strict=False):
        stages.append(_Stage(n_in, n_out))
    reduction = stride * 2 ** len(more)
    n_places = math.prod(-(-side // reduction) for side in size)
    return nn.Sequential(*stages, nn.ReLU(), nn.Flatten(), nn.Linear(_CHANNELS[-1] * n_places, _EMBEDDING), nn.ReLU())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The Donsker-Varadhan bound in nats, and its standard error over the images."""

    value: float
    standard_error: float


def log_mean_exp(scores: Tensor) -> Tensor:
    """log of the mean of exp, of all scores, whatever their size."""
    return torch.logsumexp(scores.flatten(), dim=0) - math.log(scores.numel())


def donsker_varadhan(joint: Tensor, shifted: Tensor, shifts: list[int]) -> Bound:
    """E_P[T] - log E_{PxP}[exp T] from scores of pairs that belong together and of pairs that do not.

    Parameters
    ----------
    joint : tensor (n,)
        T(x_i, z_i).
    shifted : tensor (n_shifts, n)
        T(x_i, z_{i - s}), indices modulo n, for each s of ``shifts``.
    shifts : list of int
        Between 1 and n - 1.

    Returns
    -------
    Bound
        Its standard error is that of its linearisation in the images, each of which is in one pair of the first kind
        and, as image and as feature, in ``2 n_shifts`` of the second.

    Raises
    ------
    DataError
        If a score is not finite.

    References
    ----------
    Belghazi et al. 2018, MINE, Eq. 5 and 10.

    Examples
    --------
    >>> donsker_varadhan(torch.ones(4), torch.ones(2, 4), [1, 2])
    Bound(value=0.0, standard_error=0.0)
    """
    joint, shifted = joint.double(), shifted.double()
    if not (bool(joint.isfinite().all()) and bool(shifted.isfinite().all())):
        raise DataError(
            "Scores of the critic became NaN or infinite in training, so that there is no bound: look for outliers "
            "among images and features, or lower learning_rate."
        )
    log_mean = log_mean_exp(shifted)
    ratios = (shifted - log_mean).exp()  # mean 1
    as_image = ratios.mean(dim=0)
    back = torch.stack([row.roll(-shift) for row, shift in zip(ratios, shifts, strict=True)])
    influence = joint - as_image - back.mean(dim=0)
    n = len(joint)
    return Bound(
        value=float(joint.mean() - log_mean), standard_error=float(influence.std()) / math.sqrt(n) if n > 1 else 0.0
    )
