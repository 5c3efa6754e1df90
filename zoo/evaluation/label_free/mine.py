"""MINE: a lower bound of the mutual information of images and their features, by a critic that is trained for it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import require_extra
from ..arrays import Array, check_width
from ..threads import limit_threads
from .arrays import check_feature_rows, require_choice, require_number, require_varied

with require_extra("models", needed_for="MINE"):
    import numpy as np
    import torch
    from torch import Tensor, nn
    from torchvision.models import resnet18

CRITICS = ("perceptron", "small", "resnet18")
_SMALL_FROM_PX, _RESNET_FROM_PX = 8, 64
_EMBEDDING, _HIDDEN, _CHANNELS = 128, 128, (16, 32, 64)

_FOR = "mutual information"
_LEAST_IMAGES, _LEAST_VALIDATION, _LEAST_STOPPING, _MOST_STOPPING = 256, 32, 16, 4096
_VALIDATION_SHARE = 0.2
_SAMPLED_IMAGES = 16_384  # whose moments stand for those of all
_ROWS_AT_A_TIME, _PAIRS_AT_A_TIME = 256, 8192
_CONSTANT = 1e-12  # relative spread below which numbers differ by rounding only

_MOVING_AVERAGE_RATE = 0.01  # of the mean of exp T; the weight of a batch in the gradient is at most its inverse
_CHECKS = 20
_CHECKED_PAIRS, _FINAL_PAIRS = 1 << 15, 1 << 18  # scored for a check, and for the value that is returned
_LEAST_SHIFTS = 8
_WATCHED_ROWS = 4096  # at most, for choosing a step, and for the bound on training pairs

_Pairs = tuple[Array, Array]  # images (n, channels, height, width) or vectors (n, dim), and their features (n, dim)


class Critic(nn.Module):
    """T(image, feature): a network for the image, whose output and the feature enter a perceptron of two layers."""

    def __init__(self, name: str, image_shape: tuple[int, ...], dim: int) -> None:
        super().__init__()
        self.tower = _tower(name, image_shape)
        self.of_image = nn.Linear(_EMBEDDING, _HIDDEN)
        self.of_feature = nn.Linear(dim, _HIDDEN, bias=False)
        self.of_pair = nn.Linear(_HIDDEN, _HIDDEN)
        self.score = nn.Linear(_HIDDEN, 1, bias=False)  # a constant would not change the bound
        nn.init.zeros_(self.score.weight)

    def halves(self, images: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Contributions of images (b, ...) and of features (b, dim) to the first layer, (b, hidden) each."""
        return self.of_image(self.tower(images)), self.of_feature(z)

    def forward(self, of_image: Tensor, of_feature: Tensor) -> Tensor:
        """Scores of pairs, (..., b), from halves (..., b, hidden)."""
        scores: Tensor = self.score(self.of_pair((of_image + of_feature).relu()).relu()).squeeze(-1)
        return scores


class _ResidualBlock(nn.Module):
    """A residual block at half the resolution, normalised within an image, so that no image depends on its batch."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.skip = nn.Conv2d(n_in, n_out, 1, stride=2, bias=False)
        self.residual = nn.Sequential(
            nn.GroupNorm(8, n_in),
            nn.ReLU(),
            nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(8, n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(b, n_in, h, w) -> (b, n_out, h / 2, w / 2), rounded up."""
        halved: Tensor = self.skip(x) + self.residual(x)
        return halved


def _tower(name: str, image_shape: tuple[int, ...]) -> nn.Module:
    """Network for images: (b, ...) -> (b, _EMBEDDING)."""
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
    stages += [_ResidualBlock(n_in, n_out) for n_in, n_out in zip(_CHANNELS, more, strict=False)]
    n_places = math.prod(-(-side // (stride * 2 ** len(more))) for side in size)
    return nn.Sequential(*stages, nn.ReLU(), nn.Flatten(), nn.Linear(_CHANNELS[-1] * n_places, _EMBEDDING), nn.ReLU())


@dataclass(frozen=True, slots=True, kw_only=True)
class MutualInformation:
    """A lower bound of I(image; feature) on validation pairs, and what it rests on."""

    value: float  # nats; higher is better
    standard_error: float  # over the validation images, for the trained critic as it is
    value_train: float  # bound on training pairs; far above value, the critic has memorised pairs
    n_train: int  # pairs
    n_stopping: int  # training images that the step was chosen on and the critic was not trained on
    n_val: int
    n_steps: int
    chosen_step: int  # the best one on the n_stopping images; the last one where that is 0
    n_shifts: int  # other features that each image was set against
    critic: str
    validation_held_out_from_training: bool


def mutual_information(
    images: Any,
    z: Any,
    images_val: Any = None,
    z_val: Any = None,
    *,
    n_steps: int = 1500,
    batch_size: int = 128,
    learning_rate: float = 5e-4,
    weight_decay: float = 1e-3,
    critic: str | None = None,
    n_shuffles: int = 4,
    stopping_share: float = 0.1,
    seed: int = 0,
    device: str | None = None,
) -> MutualInformation:
    """MINE: the Donsker-Varadhan bound E_P[T] - log E_{PxP}[exp T], with a critic T(image, feature) trained for it.

    The gradient's bias is corrected by a moving average of E[exp T]. Images (by channel) and features are standardised
    by the training pairs; pairs that do not belong together are made by shifting features against images. A critic
    memorises a few thousand images long before the paper's 50,000 steps end. Therefore some training images are set
    aside, and the critic of the step that does best on them is used; an untrained one, whose bound is 0, counts, too.

    The bound cannot exceed about the logarithm of the number of pairs it is evaluated on: values compare what a critic
    of this size detects.

    Raises DataError if there are fewer than 256 images or 32 validation images; if images or features are not finite,
    are all the same, do not match each other, or have other shapes in validation; or if training diverges; QueryError
    if an option is out of its range.

    Source: Belghazi et al. 2018, MINE, Eq. 5 and 12, Algorithm 1; CLID, arXiv:2206.01251, section 3.2.

    >>> generator = np.random.default_rng(0)
    >>> x = generator.normal(size=(600, 1))
    >>> found = mutual_information(x, x + generator.normal(size=(600, 1)), n_steps=60, learning_rate=5e-3)
    >>> bool(0.1 < found.value < 0.6), found.critic  # log(2) / 2 = 0.35
    (True, 'perceptron')

    Parameters
    ----------
    images : array or tensor, shape (n, channels, height, width), or (n, dim) for vectors
        Numbers in any unit: uint8 pixels, or floats.
    z : array, shape (n, dim)
        Features of these images.
    images_val, z_val : optional
        Validation pairs, at least 32. Otherwise a fifth of the pairs, drawn by ``seed``.
    n_steps : int
        Batches to train on; the default takes about a minute of one core for images of 32 px.
    batch_size : int
        Pairs in a batch.
    learning_rate, weight_decay : float
        Of Adam; the defaults are the paper's.
    critic : {"perceptron", "small", "resnet18"}, optional
        The network for the image. None: the paper's ResNet-18 from 64 px (the shorter side), three residual stages
        ("small") from 8 px, and a perceptron below that and for vectors.
    n_shuffles : int
        Features of other images in the batch that each image is set against; more make the gradient less noisy.
    stopping_share : float
        Share of the training pairs, at most 4096, that the step is chosen on. 0: the last step, as in the paper.
    seed : int
        Of everything random. On a CPU, a seed gives the same number with any number of threads, except for "resnet18".
    device : str, optional
        Of torch; None takes a GPU if there is one.

    Returns
    -------
    MutualInformation
        ``value`` is in nats; higher is better. A lower bound up to sampling error, hence sometimes a little below 0.
    """
    require_number(n_steps, "n_steps", least=1, whole=True)
    require_number(batch_size, "batch_size", least=2, whole=True)
    require_number(n_shuffles, "n_shuffles", least=1, whole=True)
    require_number(learning_rate, "learning_rate", above=0)
    require_number(weight_decay, "weight_decay", least=0)
    require_number(stopping_share, "stopping_share", least=0, most=0.5)
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    generator = np.random.default_rng(seed)
    given = _pairs(images, z, "images", "z", least=_LEAST_IMAGES)
    require_varied(given[1], "z", needed_for=_FOR)
    if all(np.array_equal(image, given[0][0]) for image in given[0]):
        raise DataError(f"All {len(given[1])} images are equal: {_FOR} needs different images.")
    if (images_val is None) != (z_val is None):
        raise DataError("Got only one of images_val and z_val, expected both or neither.")
    shape = given[0].shape[1:]
    name = _critic_named(critic, shape)
    n = len(given[1])
    tested_rows, rest = np.split(generator.permutation(n), [round(_VALIDATION_SHARE * n) if images_val is None else 0])
    n_stopping = 0
    if stopping_share:
        n_stopping = min(max(round(stopping_share * len(rest)), _LEAST_STOPPING), _MOST_STOPPING)
    stopping, fitted = np.split(rest, [n_stopping])
    standards = _standards(given, fitted)
    train = tested = _StandardisedPairs(given, standards, on)
    if images_val is not None:
        given_val = _pairs(images_val, z_val, "images_val", "z_val", least=_LEAST_VALIDATION)
        check_width(given_val[1], given[1].shape[1], "z_val", _FOR)
        if given_val[0].shape[1:] != shape:
            raise DataError(
                f"An image of images_val has the shape {given_val[0].shape[1:]} and one of images {shape}, expected "
                "the same of both."
            )
        tested = _StandardisedPairs(given_val, standards, on)
        tested_rows = generator.permutation(len(given_val[1]))
    watched = stopping if len(stopping) else fitted[:_WATCHED_ROWS]
    with _surroundings(on, name, seed):
        network = Critic(name, shape, given[1].shape[1]).float().to(on)
        batches = _batches(fitted, batch_size, generator)
        optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
        log_average: Tensor | None = None
        best, chosen_step, weights = 0.0, 0, copy.deepcopy(network.state_dict())  # untrained: scores and bound are 0
        every = max(1, n_steps // _CHECKS)
        for step in range(1, n_steps + 1):
            rows = next(batches)
            shifts = 1 + generator.permutation(len(rows) - 1)[:n_shuffles]
            optimiser.zero_grad(set_to_none=True)
            log_average = _backward(network, train.read(rows), shifts.tolist(), log_average)
            optimiser.step()
            if step % every == 0 or step == n_steps:
                value, _ = _bound(network, train, watched, _shifts(len(watched), _CHECKED_PAIRS, generator))
                if not len(stopping) or value > best:
                    best, chosen_step, weights = value, step, copy.deepcopy(network.state_dict())
        network.load_state_dict(weights)
        shifts_val = _shifts(len(tested_rows), _FINAL_PAIRS, generator)
        value, standard_error = _bound(network, tested, tested_rows, shifts_val)
        trained_rows = fitted[:_WATCHED_ROWS]
        value_train, _ = _bound(network, train, trained_rows, _shifts(len(trained_rows), _CHECKED_PAIRS, generator))
    return MutualInformation(
        value=value,
        standard_error=standard_error,
        value_train=value_train,
        n_train=len(fitted),
        n_stopping=len(stopping),
        n_val=len(tested_rows),
        n_steps=n_steps,
        chosen_step=chosen_step,
        n_shifts=len(shifts_val),
        critic=name,
        validation_held_out_from_training=images_val is None,
    )


def _critic_named(name: str | None, image_shape: tuple[int, ...]) -> str:
    """The critic of that name, or, for None, the one for images of that size."""
    px = min(image_shape[1:], default=1)
    if name is None:
        return "resnet18" if px >= _RESNET_FROM_PX else "small" if px >= _SMALL_FROM_PX else "perceptron"
    require_choice(name, "critic", CRITICS)
    if name != "perceptron" and px < _SMALL_FROM_PX:
        raise QueryError(
            f"critic is {name!r}, which takes images of at least {_SMALL_FROM_PX} px, but an image has the shape "
            f"{image_shape}: take 'perceptron'."
        )
    return name


def _pairs(images: Any, z: Any, name: str, z_name: str, *, least: int) -> _Pairs:
    rows = check_feature_rows(z, z_name, least=least, needed_for=_FOR)
    found: Array = np.asarray(images.detach().cpu() if isinstance(images, Tensor) else images)
    if found.ndim not in (2, 4) or not found.size:
        raise DataError(
            f"{name} has the shape {found.shape}, expected (n, channels, height, width), or (n, dim) of vectors."
        )
    if len(found) != len(rows):
        raise DataError(f"{name} has {len(found)} images and {z_name} {len(rows)} rows, expected one row per image.")
    if found.dtype.kind not in "fiub":
        raise DataError(f"{name} holds {found.dtype}, expected real numbers.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError(f"{name} holds NaN or infinity, expected finite pixels.")
    return found, rows


def _floats(block: Array) -> Array:
    return block if block.dtype == np.float64 else block.astype(np.float32)


def _standards(pairs: _Pairs, rows: Array) -> tuple[Array, Array, Array, Array]:
    """Means and factors of images, by channel, and of features over the pairs of some rows, float64.

    The factor of features that do not vary among them is 0, for a critic has learnt nothing from them.
    """
    images, z = pairs

    def by_channel(some: Array) -> Array:  # (n_values, n_channels)
        block: Array = np.moveaxis(_floats(images[some]).astype(np.float64), 1, -1)
        return block.reshape(-1, block.shape[-1])

    peak, count, total = 0.0, 0, np.zeros(images.shape[1])
    blocks = [rows[part] for part in _slices(min(len(rows), _SAMPLED_IMAGES), _ROWS_AT_A_TIME)]
    for block in map(by_channel, blocks):
        peak, count = max(peak, float(np.abs(block).max())), count + len(block)
        total += block.sum(axis=0)
    peak = peak or 1.0
    mean, squares = total / count, np.zeros_like(total)
    for block in map(by_channel, blocks):
        squares += np.square((block - mean) / peak).sum(axis=0)
    spread = np.sqrt(squares / count)  # in units of the peak
    factor = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > _CONSTANT) / peak
    wide = z[rows].astype(np.float64)
    largest = np.abs(wide).max(axis=0)
    unit = np.where(largest > 0, largest, 1)
    wide /= unit
    z_spread = wide.std(axis=0)
    z_factor = np.divide(1.0, z_spread, out=np.zeros_like(z_spread), where=z_spread > _CONSTANT)
    shape = (-1,) + (1,) * (len(images.shape) - 2)
    return mean.reshape(shape), factor.reshape(shape), wide.mean(axis=0) * largest, z_factor / unit


class _StandardisedPairs:
    """Pairs that are read as standardised float32 batches on a device."""

    def __init__(self, pairs: _Pairs, standards: tuple[Array, Array, Array, Array], device: torch.device) -> None:
        self.images, z = pairs
        self.mean, self.factor, z_mean, z_factor = standards
        self.z = torch.from_numpy(((z - z_mean) * z_factor).astype(np.float32))
        self.device = device

    def read(self, rows: Array) -> tuple[Tensor, Tensor]:
        block = _floats(self.images[rows])
        mean, factor = self.mean.astype(block.dtype), self.factor.astype(block.dtype)
        images = torch.from_numpy(((block - mean) * factor).astype(np.float32, copy=False))
        return images.to(self.device), self.z[torch.from_numpy(rows)].to(self.device)


def _batches(rows: Array, batch_size: int, generator: np.random.Generator) -> Iterator[Array]:
    """Batches without end: every pass in a new order, without the rest that does not fill a batch."""
    size = min(batch_size, len(rows))
    while True:
        order = rows[generator.permutation(len(rows))]
        for at in range(0, len(order) - size + 1, size):
            yield order[at : at + size]


def _log_mean_exp(scores: Tensor) -> Tensor:
    return torch.logsumexp(scores.flatten(), dim=0) - math.log(scores.numel())


def _backward(network: Critic, batch: tuple[Tensor, Tensor], shifts: list[int], log_average: Tensor | None) -> Tensor:
    """Accumulates the gradient of a batch in the network, and returns the log of the moving average of E[exp T]."""
    of_image, of_feature = network.train().halves(*batch)
    joint = network(of_image, of_feature)  # (b,)
    shifted = network(of_image, torch.stack([of_feature.roll(shift, 0) for shift in shifts]))  # (n_shuffles, b)
    log_mean = _log_mean_exp(shifted)
    now = log_mean.detach()
    if log_average is None:
        log_average = now
    else:
        rate = _MOVING_AVERAGE_RATE
        log_average = torch.logaddexp(log_average + math.log(1 - rate), now + math.log(rate))
    # Its gradient is that of Eq. 12: E[grad T] - E[exp T grad T] / the average, which no batch's E[exp T] is far above.
    loss = (log_mean - log_average).exp() - joint.mean()
    loss.backward()
    return log_average


def _bound(network: Critic, pairs: _StandardisedPairs, rows: Array, shifts: list[int]) -> tuple[float, float]:
    """The bound and its standard error on pairs whose rows come in a random order, so that shifts unrelate them."""
    network.eval()
    with torch.no_grad():
        halves = [network.halves(*pairs.read(rows[part])) for part in _slices(len(rows), _ROWS_AT_A_TIME)]
        of_image, of_feature = (torch.cat(part) for part in zip(*halves, strict=True))  # (n, hidden) both

        def scores(shift: int) -> Tensor:
            other = of_feature.roll(shift, 0)
            return torch.cat([network(of_image[at], other[at]) for at in _slices(len(rows), _PAIRS_AT_A_TIME)])

        return compute_donsker_varadhan(scores(0).cpu(), torch.stack([scores(shift) for shift in shifts]).cpu(), shifts)


def compute_donsker_varadhan(joint: Tensor, shifted: Tensor, shifts: list[int]) -> tuple[float, float]:
    """E_P[T] - log E_{PxP}[exp T] from scores of pairs that belong together and of others (MINE, Eq. 5 and 10).

    ``joint`` (n,) is T(x_i, z_i) and ``shifted`` (n_shifts, n) is T(x_i, z_{i - s}), indices modulo n. The second
    number is the standard error, that of the linearisation in the images.

    >>> compute_donsker_varadhan(torch.ones(4), torch.ones(2, 4), [1, 2])
    (0.0, 0.0)
    """
    joint, shifted = joint.double(), shifted.double()
    if not (bool(joint.isfinite().all()) and bool(shifted.isfinite().all())):
        raise DataError(
            "Scores of the critic became NaN or infinite in training, so that there is no bound: look for outliers "
            "among images and features, or lower learning_rate."
        )
    log_mean = _log_mean_exp(shifted)
    ratios = (shifted - log_mean).exp()  # mean 1
    back = torch.stack([row.roll(-shift) for row, shift in zip(ratios, shifts, strict=True)])
    influence = joint - ratios.mean(dim=0) - back.mean(dim=0)
    return float(joint.mean() - log_mean), float(influence.std()) / math.sqrt(len(joint))


def _shifts(n: int, n_pairs: int, generator: np.random.Generator) -> list[int]:
    """Random shifts of features against ``n`` images: for about ``n_pairs`` pairs, at least 8 if n allows."""
    number = min(n - 1, max(_LEAST_SHIFTS, n_pairs // n))
    drawn: list[int] = np.sort(1 + generator.permutation(n - 1)[:number]).tolist()
    return drawn


def _slices(n: int, step: int) -> list[slice]:
    return [slice(at, min(at + step, n)) for at in range(0, n, step)]


@contextmanager
def _surroundings(device: torch.device, critic: str, seed: int) -> Iterator[None]:
    """Enable gradients, fix the order of sums and seed the generator, whatever the caller has set; restores all."""
    single = device.type != "cuda" and critic != "resnet18"
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.default_generator.manual_seed(seed)  # the CPU's alone, where the critic is made
        with limit_threads(0) if single else nullcontext():
            yield
