"""Mutual information of images and their features, estimated from below by MINE."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ...optional import requires_extra
from ..streamed_checks import Array
from ..threads import threads_for
from .mine_critic import Bound, Critic, critic_named, donsker_varadhan, log_mean_exp
from .mine_pairs import (
    StandardisedPairs,
    batches_of,
    checked_options,
    moments_of,
    pairs_of,
    split_of,
    standardised_pairs,
)

with requires_extra("models", needed_for="MINE"):
    import numpy as np
    import torch

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
