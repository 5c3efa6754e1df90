"""Mutual information of images and their features, estimated from below by MINE."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ...cards.schema import Preprocess
from ...datasets import ImageSet
from ...datasets.rgb import RGB
from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..arrays import Array, width_checked
from ..threads import threads_for
from .arrays import features_of, require_varied

with requires_extra("models", needed_for="MINE"):
    import numpy as np
    import torch
    from torch import Tensor, nn
    from torchvision import transforms
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


_NEEDED_FOR = "mutual information"
_LEAST, _LEAST_VALIDATION, _LEAST_STOPPING, _MOST_STOPPING = 256, 32, 16, 4096
_VALIDATION_SHARE = 0.2
_SAMPLED = 16_384  # images whose moments stand for those of all
_ROWS_AT_A_TIME = 256
_CONSTANT = 1e-12  # relative spread below which numbers differ by rounding only


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Images (n, channels, height, width) or vectors (n, dim), as they were given, and their features (n, dim)."""

    images: Any
    z: Array

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Of one image."""
        return tuple(int(side) for side in self.images.shape[1:])


@dataclass(frozen=True, eq=False, slots=True)
class Split:
    """Row numbers, each in a random order: to train on, to choose the step on, to evaluate on."""

    fitted: Array
    stopping: Array
    validation: Array


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """Mean of images by channel and of features, and what they are multiplied by after it is taken off, float64."""

    image_mean: Array
    image_factor: Array
    z_mean: Array
    z_factor: Array


@dataclass(frozen=True, eq=False, slots=True)
class StandardisedPairs:
    """Pairs whose batches come standardised, as float32 on a device."""

    images: Any
    z: torch.Tensor  # (n, dim), on the CPU
    moments: Moments
    device: torch.device

    def read(self, rows: Array) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and features of some rows."""
        block = _block(self.images, rows)
        mean, factor = (part.astype(block.dtype) for part in (self.moments.image_mean, self.moments.image_factor))
        images = torch.from_numpy(((block - mean) * factor).astype(np.float32, copy=False))
        return images.to(self.device), self.z[torch.from_numpy(rows)].to(self.device)


def checked_options(
    *, n_steps: Any, batch_size: Any, n_shuffles: Any, learning_rate: Any, weight_decay: Any, stopping_share: Any
) -> None:
    """Refuses options that have no meaning.

    Raises
    ------
    QueryError
    """
    for name, number, least in (("n_steps", n_steps, 1), ("batch_size", batch_size, 2), ("n_shuffles", n_shuffles, 1)):
        if not isinstance(number, Integral) or isinstance(number, bool) or number < least:
            raise QueryError(f"{name} is {number!r}, expected a whole number of at least {least}.")
    for name, value, low, high in (
        ("learning_rate", learning_rate, math.ulp(0.0), math.inf),
        ("weight_decay", weight_decay, 0.0, math.inf),
        ("stopping_share", stopping_share, 0.0, 0.5),
    ):
        if not (isinstance(value, Real) and math.isfinite(value) and low <= float(value) <= high):
            expected = "from 0 to 0.5" if high == 0.5 else "above 0" if low else "of at least 0"
            raise QueryError(f"{name} is {value!r}, expected a finite number {expected}.")


def pairs_of(images: Any, z: Any, images_val: Any, z_val: Any) -> tuple[Pairs, Pairs | None]:
    """Training pairs, and validation pairs where they are given.

    Raises
    ------
    DataError
        If images and features do not belong together, are too few, not finite or all the same, or if validation has
        other shapes.
    """
    train = _pairs(images, z, "images", "z", least=_LEAST)
    require_varied(train.z, "z", needed_for=_NEEDED_FOR)
    if _all_equal(train.images):
        raise DataError(
            f"All {len(train.z)} images are equal, so that there is nothing to know of them: {_NEEDED_FOR} needs "
            "different images."
        )
    if (images_val is None) != (z_val is None):
        raise DataError("Got only one of images_val and z_val, expected both or neither.")
    if images_val is None:
        return train, None
    validation = _pairs(images_val, z_val, "images_val", "z_val", least=_LEAST_VALIDATION)
    width_checked(validation.z, train.z.shape[1], "z_val", _NEEDED_FOR)
    if validation.image_shape != train.image_shape:
        raise DataError(
            f"An image of images_val has the shape {validation.image_shape} and one of images {train.image_shape}, "
            "expected the same of both."
        )
    return train, validation


def split_of(n: int, stopping_share: float, generator: np.random.Generator, *, hold_out: bool) -> Split:
    """Divides ``n`` training rows; ``validation`` is empty unless some are to be held out."""
    order = generator.permutation(n)
    validation, rest = np.split(order, [round(_VALIDATION_SHARE * n) if hold_out else 0])
    n_stopping = 0
    if stopping_share:
        n_stopping = min(max(round(stopping_share * len(rest)), _LEAST_STOPPING), _MOST_STOPPING)
    stopping, fitted = np.split(rest, [n_stopping])
    return Split(fitted, stopping, validation)


def moments_of(pairs: Pairs, rows: Array) -> Moments:
    """Moments of the pairs of some rows; of images, those of a sample where there are many.

    Features that do not vary among them are multiplied by 0, for a critic has learnt nothing from them.
    """
    peak, count, total = 0.0, 0, np.zeros(pairs.image_shape[0])
    blocks = [rows[at : at + _ROWS_AT_A_TIME] for at in range(0, min(len(rows), _SAMPLED), _ROWS_AT_A_TIME)]
    for block in (_by_channel(pairs, some) for some in blocks):
        peak, count = max(peak, float(np.abs(block).max())), count + len(block)
        total += block.sum(axis=0)
    mean, squares = total / count, np.zeros_like(total)
    for block in (_by_channel(pairs, some) for some in blocks):
        squares += np.square((block - mean) / (peak or 1.0)).sum(axis=0)
    spread = np.sqrt(squares / count)  # in units of the peak
    image_factor = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > _CONSTANT) / (peak or 1.0)
    own = pairs.z[rows].astype(np.float64)
    largest = np.abs(own).max(axis=0)
    own /= np.where(largest > 0, largest, 1)
    z_mean, z_spread = own.mean(axis=0), own.std(axis=0)
    factor = np.divide(1.0, z_spread, out=np.zeros_like(z_spread), where=z_spread > _CONSTANT)
    shape = (-1,) + (1,) * (len(pairs.image_shape) - 1)
    return Moments(
        mean.reshape(shape), image_factor.reshape(shape), z_mean * largest, factor / np.where(largest > 0, largest, 1)
    )


def standardised_pairs(pairs: Pairs, moments: Moments, device: torch.device) -> StandardisedPairs:
    """Pairs to read batches from."""
    z = np.empty(pairs.z.shape, dtype=np.float32)
    for at in range(0, len(z), _ROWS_AT_A_TIME):
        part = slice(at, at + _ROWS_AT_A_TIME)
        z[part] = (pairs.z[part] - moments.z_mean) * moments.z_factor
    return StandardisedPairs(pairs.images, torch.from_numpy(z), moments, device)


def batches_of(rows: Array, batch_size: int, generator: np.random.Generator) -> Iterator[Array]:
    """Batches without end: every pass in a new order; what does not fill a batch waits for another pass."""
    size = min(batch_size, len(rows))
    while True:
        order = rows[generator.permutation(len(rows))]
        for at in range(0, len(order) - size + 1, size):
            yield order[at : at + size]


def _pairs(images: Any, z: Any, name: str, z_name: str, *, least: int) -> Pairs:
    rows = features_of(z, z_name, least=least, needed_for=_NEEDED_FOR)
    if not hasattr(images, "shape") or not hasattr(images, "__getitem__"):
        images = np.asarray(images)
    shape = tuple(images.shape)
    if len(shape) not in (2, 4) or 0 in shape:
        raise DataError(f"{name} has the shape {shape}, expected (n, channels, height, width), or (n, dim) of vectors.")
    if shape[0] != len(rows):
        raise DataError(f"{name} has {shape[0]} images and {z_name} {len(rows)} rows, expected one row an image.")
    for at in range(0, len(rows), _ROWS_AT_A_TIME):
        block = _block(images, slice(at, at + _ROWS_AT_A_TIME))
        if block.dtype.kind != "f":
            raise DataError(f"{name} holds {block.dtype}, expected real numbers.")
        fine = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        if not fine.all():
            raise DataError(f"Image {at + int(fine.argmin())} of {name} holds NaN or infinity, expected finite pixels.")
    return Pairs(images, rows)


def _all_equal(images: Any) -> bool:
    first = _block(images, slice(0, 1))
    return all(
        bool((_block(images, slice(at, at + _ROWS_AT_A_TIME)) == first).all())
        for at in range(0, images.shape[0], _ROWS_AT_A_TIME)
    )


def _by_channel(pairs: Pairs, rows: Array) -> Array:
    """Numbers of each channel, float64 (n_numbers, n_channels)."""
    block = _block(pairs.images, rows).astype(np.float64)
    flat: Array = np.moveaxis(block, 1, -1).reshape(-1, block.shape[1])
    return flat


def _block(images: Any, rows: Array | slice) -> Array:
    """Some images in memory: float64 if they are, otherwise float32; of another kind if they are no real numbers."""
    if isinstance(images, torch.Tensor):
        index = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(images.device)
        some = images.detach()[index].cpu()
        return (some if some.is_complex() or some.dtype == torch.float64 else some.float()).numpy()
    block: Array = np.asarray(images[rows])
    return block if block.dtype.kind not in "fiub" or block.dtype == np.float64 else block.astype(np.float32)


_MOVING_AVERAGE_RATE = 0.01  # of the mean of exp T; the weight of a batch in the gradient is at most its inverse
_CHECKS = 20
_CHECKED_PAIRS, _SCORED_PAIRS = 1 << 15, 1 << 18  # scored for a check, and for the number that is reported
_LEAST_SHIFTS = 8
_WATCHED = 4096  # rows at most for choosing a step, and for the bound on training pairs
_IMAGES_AT_A_TIME, _PAIRS_AT_A_TIME = 256, 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticCheck:
    """What ``progress`` is told: the bound in nats on the watched pairs after a number of steps."""

    step: int
    n_steps: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MutualInformation:
    """A lower bound of I(image; feature) in nats, on validation pairs, and how it came about.

    ``standard_error`` is over the validation images, for the trained critic as it is. ``value_train`` is the bound on
    training pairs: far above ``value``, the critic has learnt pairs by heart. The critic is that of ``chosen_step`` of
    ``n_steps``, the best one on ``n_stopping`` training images that it was not trained on (where that is 0, the last).
    It was trained on ``n_train`` pairs and evaluated on ``n_val``, against ``n_shifts`` other features for each image.
    """

    value: float
    standard_error: float
    value_train: float
    n_train: int
    n_stopping: int
    n_val: int
    n_steps: int
    chosen_step: int
    n_shifts: int
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
    progress: Callable[[CriticCheck], None] | None = None,
) -> MutualInformation:
    """MINE: the Donsker-Varadhan bound E_P[T] - log E_{PxP}[exp T], with a critic T(image, feature) trained for it.

    The gradient's bias is corrected by a moving average of E[exp T]. Images (by channel) and features are standardised
    by the training pairs first, so that their units do not matter. Pairs that do not belong together are made by
    shifting features against images. The paper trains for 50,000 steps of 128 pairs of 1.28 million images, five
    passes; far fewer images are learnt by heart long before that, and the bound on validation pairs falls below 0.
    Therefore some training images are set aside, and the critic is kept as it was when it did best on them; an
    untrained one counts, too, whose bound is 0.

    The bound cannot see more than about the logarithm of the number of pairs it is evaluated on, and features that
    are a function of the image have, if continuous, infinite mutual information with it: what is compared is what a
    critic of this size finds.

    Parameters
    ----------
    images : array or tensor, shape (n, channels, height, width), or (n, dim) for vectors
        Numbers in any unit: uint8 pixels, or floats.
    z : array, shape (n, dim)
        Features of these images.
    images_val, z_val : optional
        Validation pairs, at least 32. Otherwise a fifth of the pairs, drawn by ``seed``.
    n_steps : int
        Batches trained on. The default is for some thousand images of 32 px, and takes about a minute of one core.
    batch_size : int
    learning_rate, weight_decay : float
        Of Adam; the defaults are the paper's.
    critic : {"perceptron", "small", "resnet18"}, optional
        The network for the image. None: by the size of the images (:func:`.mine_critic.critic_named`): the paper's
        ResNet-18 from 64 px.
    n_shuffles : int
        Features of other images in the batch that each image is set against; more make the gradient less noisy.
    stopping_share : float
        Of the training pairs, at most 4096 of them. 0: the critic after the last step, as in the paper.
    seed : int
        Of everything random. On a CPU, a seed gives the same number with any number of threads, but for "resnet18",
        whose sums depend on it; the other critics use one thread.
    device : str, optional
        Of torch; None takes a GPU if there is one.
    progress : callable, optional
        Told a :class:`CriticCheck` some twenty times.

    Returns
    -------
    MutualInformation
        ``value`` in nats; higher is better. A lower bound up to sampling error, hence sometimes a little below 0.

    Raises
    ------
    DataError
        If there are fewer than 256 images or 32 validation images, images or features are not finite, are all the
        same, do not match each other, or are of other shapes in validation; or if training diverges.
    QueryError
        If an option is out of its range.

    References
    ----------
    Belghazi et al. 2018, MINE, Eq. 5 and 12, Algorithm 1; CLID, arXiv:2206.01251, section 3.2.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> x = generator.normal(size=(600, 1))
    >>> found = mutual_information(x, x + generator.normal(size=(600, 1)), n_steps=60, learning_rate=5e-3)
    >>> bool(0.1 < found.value < 0.6), found.critic  # log(2) / 2 = 0.35
    (True, 'perceptron')
    """
    checked_options(
        n_steps=n_steps, batch_size=batch_size, n_shuffles=n_shuffles, learning_rate=learning_rate,
        weight_decay=weight_decay, stopping_share=stopping_share,
    )  # fmt: skip
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    generator = np.random.default_rng(seed)
    given, given_val = pairs_of(images, z, images_val, z_val)
    name = critic_named(critic, given.image_shape)
    split = split_of(len(given.z), stopping_share, generator, hold_out=given_val is None)
    moments = moments_of(given, split.fitted)
    train = standardised_pairs(given, moments, on)
    tested, tested_rows = train, split.validation
    if given_val is not None:
        tested, tested_rows = standardised_pairs(given_val, moments, on), generator.permutation(len(given_val.z))
    watched = split.stopping if len(split.stopping) else split.fitted[:_WATCHED]
    with _surroundings(on, name, seed):
        network = Critic(name, given.image_shape, given.z.shape[1]).float().to(on)
        batches = batches_of(split.fitted, batch_size, generator)
        optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
        log_average: torch.Tensor | None = None
        best, chosen_step, kept = 0.0, 0, copy.deepcopy(network.state_dict())  # untrained: scores and bound are 0
        every = max(1, n_steps // _CHECKS)
        for step in range(1, n_steps + 1):
            rows = next(batches)
            shifts = 1 + generator.permutation(len(rows) - 1)[:n_shuffles]
            optimiser.zero_grad(set_to_none=True)
            log_average = _backward(network, train.read(rows), shifts.tolist(), log_average)
            optimiser.step()
            if step % every == 0 or step == n_steps:
                value = _bound(network, train, watched, _shifts(len(watched), _CHECKED_PAIRS, generator)).value
                if progress is not None:
                    progress(CriticCheck(step=step, n_steps=n_steps, value=value))
                if not len(split.stopping) or value > best:
                    best, chosen_step, kept = value, step, copy.deepcopy(network.state_dict())
        network.load_state_dict(kept)
        shifts_val = _shifts(len(tested_rows), _SCORED_PAIRS, generator)
        found = _bound(network, tested, tested_rows, shifts_val)
        seen = split.fitted[:_WATCHED]
        found_train = _bound(network, train, seen, _shifts(len(seen), _CHECKED_PAIRS, generator))
    return MutualInformation(
        value=found.value, standard_error=found.standard_error, value_train=found_train.value,
        n_train=len(split.fitted), n_stopping=len(split.stopping), n_val=len(tested_rows), n_steps=n_steps,
        chosen_step=chosen_step, n_shifts=len(shifts_val), critic=name,
        validation_held_out_from_training=given_val is None,
    )  # fmt: skip


def _backward(
    network: Critic, batch: tuple[torch.Tensor, torch.Tensor], shifts: list[int], log_average: torch.Tensor | None
) -> torch.Tensor:
    """Leaves the gradient of a batch in the network, and gives the log of the moving average of E[exp T]."""
    of_image, of_feature = network.train().halves(*batch)
    joint = network(of_image, of_feature)  # (b,)
    shifted = network(of_image, torch.stack([of_feature.roll(shift, 0) for shift in shifts]))  # (n_shuffles, b)
    log_mean = log_mean_exp(shifted)
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


def _bound(network: Critic, pairs: StandardisedPairs, rows: Array, shifts: list[int]) -> Bound:
    """The bound on pairs, whose rows come in a random order, so that shifted ones are pairs of unrelated images."""
    network.eval()
    with torch.no_grad():
        halves = [network.halves(*pairs.read(some)) for some in _parts(rows, _IMAGES_AT_A_TIME)]
        of_image, of_feature = (torch.cat(part) for part in zip(*halves, strict=True))  # (n, hidden) both

        def scores(shift: int) -> torch.Tensor:
            other = of_feature.roll(shift, 0)
            return torch.cat([network(of_image[at], other[at]) for at in _slices(len(rows), _PAIRS_AT_A_TIME)])

        return donsker_varadhan(scores(0).cpu(), torch.stack([scores(shift) for shift in shifts]).cpu(), shifts)


def _shifts(n: int, n_pairs: int, generator: np.random.Generator) -> list[int]:
    """By how much features are shifted against ``n`` images to make some ``n_pairs`` pairs, but never few."""
    number = min(n - 1, max(_LEAST_SHIFTS, n_pairs // n))
    drawn: list[int] = np.sort(1 + generator.permutation(n - 1)[:number]).tolist()
    return drawn


def _slices(n: int, step: int) -> list[slice]:
    return [slice(at, at + step) for at in range(0, n, step)]


def _parts(rows: Array, step: int) -> list[Array]:
    return [rows[part] for part in _slices(len(rows), step)]


@contextmanager
def _surroundings(device: torch.device, critic: str, seed: int) -> Iterator[None]:
    """Gradients, whatever the caller has set, and sums in one order; the caller's randomness stays as it is."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        torch.default_generator.manual_seed(seed)  # the CPU's alone, where the critic is made
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if device.type == "cuda":
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False))
        elif critic != "resnet18":
            stack.enter_context(threads_for(0))
        yield


LARGEST_PX = 64


def pixels_of_images(images: ImageSet, preprocess: Preprocess, *, largest_px: int = LARGEST_PX) -> np.ndarray:
    """What an encoder is shown of each image, made small.

    Parameters
    ----------
    images : ImageSet
        n images of any mode and size.
    preprocess : Preprocess
        Of the encoder's card: its resize and centre crop come first.
    largest_px : int
        Side of the result, unless the encoder's input is smaller.

    Returns
    -------
    float32 array, shape (n, 3, px, px)
        In [0, 1].

    Raises
    ------
    CorruptImage
        If an image cannot be read.

    Examples
    --------
    >>> from zoo.cards.catalogue import catalogue
    >>> from zoo.datasets import digits_data
    >>> pixels_of_images(digits_data().val, catalogue()["pocket_init_rn"].preprocess).shape
    (451, 3, 32, 32)
    """
    px = min(largest_px, preprocess.crop_px)
    shown = transforms.Compose(
        [
            RGB(preprocess.resize_px, preprocess.crop_px, preprocess.interpolation),
            transforms.Resize(
                preprocess.resize_px, interpolation=transforms.InterpolationMode(preprocess.interpolation)
            ),
            transforms.CenterCrop(preprocess.crop_px),
            transforms.Resize(px),
        ]
    )
    found = np.empty((len(images), 3, px, px), np.float32)
    for place, image in enumerate(images.images):
        found[place] = np.asarray(shown(image), np.float32).transpose(2, 0, 1) / 255
    return found
