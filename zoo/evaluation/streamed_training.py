"""Training linear probes by gradient descent in one pass over labelled features that may lie on disk.

Candidates that are trained together see the same rows in the same order, and are otherwise independent: each is a
linear map with an optimizer and a schedule of ``torch.optim``. Smaller batches are parts of what is read for the
largest. The intercept is not decayed.

An epoch reads blocks of a few neighbouring rows in random order, dealt out to windows that fit in memory, and shuffles
the rows of each window. If all rows fit into one window they are read once, and every epoch is a plain permutation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..datasets.images import follow_first_copy
from ..errors import DataError
from ..optional import require_extra
from .arrays import (
    Array,
    FeatureArray,
    check_labels,
    check_rows,
    check_width,
    convert_to_float32,
    convert_to_floats,
    has_validation,
    list_classes,
    number_labels,
)

with require_extra("evaluate", needed_for="Training probes"):
    import numpy as np
    import torch

OPTIMIZERS = ("adam", "sgd")
SCHEDULES = ("multistep", "cosine", "warmcosine", "constant")
MOMENTUM = 0.9
_ADAM_SHARE = 0.01  # of the learning rate, so that one range suits all optimizers
_WARM_UP_SHARE = 0.1  # of the steps
_DROPS = (0.6, 0.8)  # shares of the steps after which the learning rate falls to a tenth


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """Settings of one training."""

    learning_rate_per_256: float  # to be multiplied by batch_size / 256, and by 0.01 for Adam
    weight_decay: float
    batch_size: int
    batch_norm: bool
    optimizer: str
    schedule: str

    @property
    def learning_rate(self) -> float:
        """The largest of the schedule."""
        share = _ADAM_SHARE if self.optimizer == "adam" else 1.0
        return self.learning_rate_per_256 * self.batch_size / 256 * share


def compute_schedule_factor(schedule: str, step: int, n_steps: int) -> float:
    """The share of the largest learning rate at step 0 to ``n_steps - 1``.

    "constant"; "multistep": a tenth after 60 % of the steps and a hundredth after 80 %; "cosine": half a wave from 1 to
    0; "warmcosine": a straight rise over the first 10 % of the steps, and then half a wave.

    >>> [compute_schedule_factor("multistep", step, 10) for step in (0, 5, 6, 8)]
    [1.0, 1.0, 0.1, 0.01]
    >>> [round(compute_schedule_factor("cosine", step, 4), 2) for step in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    >>> [round(compute_schedule_factor("warmcosine", step, 20), 2) for step in (0, 1, 2, 11)]
    [0.5, 1.0, 1.0, 0.5]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "multistep":
        return float((1.0, 0.1, 0.01)[sum(step >= share * n_steps for share in _DROPS)])
    if schedule == "cosine":
        return _half_wave(step / n_steps)
    rise = max(1, round(_WARM_UP_SHARE * n_steps))
    return (step + 1) / rise if step < rise else _half_wave((step - rise) / max(1, n_steps - rise))


def _half_wave(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


_BYTES_AT_A_TIME = 1 << 25  # of features that are read in order


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Some of the rows of a set of features, and their classes.

    ``index`` are the chosen rows of ``x``, ascending, or None for all; ``y`` int64 (n,) are numbers of classes in the
    order of the rows, -1 for a label outside the classes; ``name`` is what errors call ``x``. Rows are read as float32
    unless ``is_wide``, which leaves float64 as it is.
    """

    x: FeatureArray
    y: Array
    index: Array | None = None
    name: str = "x"
    is_wide: bool = False

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        return self.x.shape[1]

    def read(self, position: slice | Array) -> Array:
        """The rows at ascending positions among the chosen ones: (m, dim)."""
        rows = self.x[_slice_if_possible(position if self.index is None else self.index[position])]
        return convert_to_floats(rows, self.name) if self.is_wide else convert_to_float32(rows, self.name)

    def blocks(self, n_rows: int = 0) -> Iterator[tuple[slice, Array]]:
        """All rows in their order, ``n_rows`` at a time or some megabytes."""
        step = n_rows or max(1, _BYTES_AT_A_TIME // (4 * max(1, self.dim)))
        for first in range(0, len(self), step):
            part = slice(first, min(first + step, len(self)))
            yield part, self.read(part)

    def finite_blocks(self, n_rows: int = 0) -> Iterator[tuple[slice, Array]]:
        """The same; a block with NaN or infinity is refused, naming the first row and feature."""
        for part, block in self.blocks(n_rows):
            finite = np.isfinite(block)
            if not finite.all():
                at, feature = (int(number) for number in np.argwhere(~finite)[0])
                row = part.start + at if self.index is None else int(self.index[part.start + at])
                raise DataError(
                    f"Row {row} of {self.name} holds {block[at, feature]} as feature {feature}, expected finite "
                    "numbers (no NaN or infinity): compute the features of that image again, or leave it out."
                )
            yield part, block

    def require_finite(self) -> None:
        for _ in self.finite_blocks():
            pass

    def subset(self, positions: Array) -> LabelledRows:
        """The rows at ascending positions."""
        index = positions if self.index is None else self.index[positions]
        return LabelledRows(self.x, self.y[positions], index, self.name, self.is_wide)


def check_labelled_sets(
    x: Any, y: Any, x_val: Any, y_val: Any, *, is_wide: bool = False
) -> tuple[Array, LabelledRows, LabelledRows | None]:
    """The classes, ascending, the training rows, and the validation rows if any; all checks but finiteness."""
    rows = check_rows(x, "x")
    labels = check_labels(y, rows.shape[0], "y")
    classes = list_classes(labels)
    data = LabelledRows(rows, number_labels(labels, classes), is_wide=is_wide)
    if not has_validation(x_val, y_val):
        return classes, data, None
    rows_val = check_width(check_rows(x_val, "x_val"), data.dim, "x_val", "the probe")
    labels_val = check_labels(y_val, rows_val.shape[0], "y_val")
    return classes, data, LabelledRows(rows_val, number_labels(labels_val, classes), name="x_val", is_wide=is_wide)


def wrap_unlabelled_rows(x: Any, dim: int, of: str) -> LabelledRows:
    """Rows of ``dim`` features that a probe classifies."""
    rows = check_width(check_rows(x, "x"), dim, "X", of)
    return LabelledRows(rows, np.zeros(rows.shape[0], dtype=np.int64), is_wide=True)


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Mean and variance (dividing by n) of each feature, float64 (dim,)."""

    mean: Array
    variance: Array


def compute_moments(data: LabelledRows) -> FeatureMoments:
    """Reads all rows once: their moments; refuses NaN and infinity."""
    n, mean = 0, np.zeros(data.dim)
    squares = np.zeros(data.dim)  # sum of squared deviations from the mean
    for _, block in data.finite_blocks():
        m, of_block = len(block), block.mean(axis=0, dtype=np.float64)
        shift = of_block.astype(np.float32)
        centred, rest, step = block - shift, of_block - shift, of_block - mean
        squares += np.square(centred, dtype=np.float64).sum(axis=0) - m * rest**2 + step**2 * (n * m / (n + m))
        n += m
        mean += step * (m / n)
    return FeatureMoments(mean, np.maximum(squares / n, 0))


class ShuffledRows:
    """Batches of nearly ``batch_rows`` rows in a new random order every epoch, with ``window_bytes`` of them in memory.

    ``block_rows`` neighbouring rows go to the same window.
    """

    def __init__(
        self, data: LabelledRows, *, batch_rows: int, window_bytes: int, block_rows: int, device: torch.device
    ) -> None:
        self._data, self._device = data, device
        rows = max(1, window_bytes // (4 * data.dim))
        self._held: torch.Tensor | None = None
        self._in_one = len(data) <= rows
        self._block = max(1, min(block_rows, rows // 2))
        self._blocks_a_window = max(1, rows // 2 // self._block)
        self._y = torch.from_numpy(np.ascontiguousarray(data.y)).to(device)
        self.sizes = split_near_equal(len(data), batch_rows)  # of the batches of an epoch

    def epoch(self, *seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Batches of an epoch: float32 (b, dim) and int64 (b,), on the device; every row once.

        ``seed`` decides the order, together with the sizes of block and window only.
        """
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        sizes = iter(self.sizes)
        missing, parts = next(sizes), list[tuple[torch.Tensor, torch.Tensor]]()
        for x, y, order in self._windows(generator):
            at = 0
            while at < len(order):
                take = order[at : at + missing]
                parts.append((x.index_select(0, take), y.index_select(0, take)))
                at, missing = at + len(take), missing - len(take)
                if not missing:
                    one = len(parts) == 1
                    yield parts[0] if one else (torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]))
                    missing, parts = next(sizes, 0), []

    def _windows(self, generator: np.random.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Rows of each window, their classes, and the order to take them in."""
        n = len(self._data)
        if self._in_one:
            if self._held is None:
                self._held = self._tensor(slice(0, n))
            yield self._held, self._y, torch.from_numpy(generator.permutation(n)).to(self._device)
            return
        blocks = generator.permutation(-(-n // self._block))
        windows = [
            self._positions(np.sort(blocks[first : first + self._blocks_a_window]))
            for first in range(0, len(blocks), self._blocks_a_window)
        ]
        orders = [torch.from_numpy(generator.permutation(len(window))) for window in windows]
        with ThreadPoolExecutor(max_workers=1) as reader:
            coming = reader.submit(self._tensor, windows[0])
            for number, (window, order) in enumerate(zip(windows, orders, strict=True)):
                x = coming.result()
                if number + 1 < len(windows):
                    coming = reader.submit(self._tensor, windows[number + 1])
                y = self._y.index_select(0, torch.from_numpy(window).to(self._device))
                yield x, y, order.to(self._device)

    def _positions(self, blocks: Array) -> Array:
        positions = (blocks[:, None] * self._block + np.arange(self._block)).ravel()
        return positions[positions < len(self._data)]

    def _tensor(self, position: slice | Array) -> torch.Tensor:
        return make_writable(self._data.read(position)).to(self._device)


def split_near_equal(n: int, batch_rows: int) -> list[int]:
    """Sizes of the batches that n rows make: their number is rounded, and no two sizes differ by more than one.

    Batches of one row are avoided, for they have no variance.

    >>> split_near_equal(10, 4), split_near_equal(9, 4), split_near_equal(3, 4), split_near_equal(3, 2)
    ([5, 5], [4, 5], [3], [3])
    """
    number = max(1, min(round(n / batch_rows), n // 2))
    return [(i + 1) * n // number - i * n // number for i in range(number)]


def select_stratified(y: Array, share: float, *, seed: Sequence[int], keep_one: bool) -> Array:
    """Positions of a share of each class, ascending.

    Of a class with n rows ``share * n`` are drawn, rounded, but at least one; to ``keep_one``, at most n - 1.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(list(seed))))
    drawn = []
    order = np.argsort(y, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(y[order])) + 1):
        wanted = max(1, int(share * len(rows) + 0.5))
        drawn.append(generator.permutation(rows)[: min(wanted, len(rows) - keep_one)])
    return np.sort(np.concatenate(drawn))


def keep_groups_together(held_out: Array, y: Array, groups: Array) -> Array:
    """Positions held out such that every row goes with the first of its group, and no class is held out whole.

    >>> keep_groups_together(np.array([0]), np.array([0, 0, 0, 1]), np.array([5, 6, 5, 7])).tolist()
    [0, 2]
    """
    is_out = np.zeros(len(y), bool)
    is_out[held_out] = True
    together = follow_first_copy(is_out, groups)
    whole = np.setdiff1d(y, y[~together])
    return np.flatnonzero(together & ~np.isin(groups, groups[np.isin(y, whole)]))


def make_writable(rows: Array) -> torch.Tensor:
    """A tensor of the rows; read-only memory is copied, for torch has no such tensors."""
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())


def _slice_if_possible(index: slice | Array) -> slice | Array:
    """A run of neighbouring rows as a slice, which reads without gathering."""
    if isinstance(index, slice) or not len(index) or index[-1] - index[0] != len(index) - 1:
        return index
    return slice(int(index[0]), int(index[-1]) + 1)


EPSILON = 1e-5  # of batch normalisation
_LOGITS_AT_A_TIME = 1 << 24  # while evaluating


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSettings:
    """The settings that all candidates of a pass have in common."""

    epochs: int
    n_classes: int
    seed: int
    stage: int  # 0 while tuning, 1 in the final training: another order of rows, another beginning
    largest_batch: int
    window_bytes: int
    block_rows: int
    device: torch.device


class TrainedCandidate:
    """One candidate after, or in the middle of, its training of ``n_steps`` steps."""

    def __init__(self, candidate: Hyperparameters, dim: int, n_steps: int, setting: PassSettings) -> None:
        self.candidate = candidate
        self.train_loss: float | None = None  # mean over the last epoch, while the weights moved
        self.diverged_at_epoch: int | None = None
        self.linear = _beginning(dim, setting)
        groups = [
            {"params": [self.linear.weight], "weight_decay": candidate.weight_decay},
            {"params": [self.linear.bias], "weight_decay": 0.0},
        ]
        self._optimizer: torch.optim.Optimizer = (
            torch.optim.Adam(groups, lr=candidate.learning_rate, fused=True)
            if candidate.optimizer == "adam"
            else torch.optim.SGD(groups, lr=candidate.learning_rate, momentum=MOMENTUM, fused=True)
        )
        self._n_done, self._n_steps = 0, n_steps
        self._loss = torch.zeros((), dtype=torch.float64, device=setting.device)  # summed over rows

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """One step on one batch: float32 (b, dim), int64 (b,)."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.candidate.learning_rate * compute_schedule_factor(
                self.candidate.schedule, self._n_done, self._n_steps
            )
        if self.candidate.batch_norm:
            x = torch.nn.functional.batch_norm(x, None, None, training=True, eps=EPSILON)
        self._optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.linear(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._loss += loss.detach() * len(x)
        self._n_done += 1

    def end_epoch(self, epoch: int, n: int) -> None:
        """Records the mean loss of an epoch over n rows, or that the candidate diverged in it."""
        loss = float(self._loss / n)
        self._loss.zero_()
        if math.isfinite(loss) and bool(torch.isfinite(self.linear.weight).all()):
            self.train_loss = loss
        else:
            self.train_loss, self.diverged_at_epoch = None, epoch


def train(
    data: LabelledRows,
    candidates: Sequence[Hyperparameters],
    setting: PassSettings,
    *,
    after_epoch: Callable[[int], None],
) -> list[TrainedCandidate]:
    """Trains candidates side by side, reading the data once an epoch for all; returns them in their order.

    ``after_epoch`` is called with the number of epochs done.
    """
    reader = ShuffledRows(
        data,
        batch_rows=setting.largest_batch,
        window_bytes=setting.window_bytes,
        block_rows=setting.block_rows,
        device=setting.device,
    )
    members = []
    for candidate in candidates:
        n_steps = setting.epochs * sum(len(split_near_equal(size, candidate.batch_size)) for size in reader.sizes)
        members.append(TrainedCandidate(candidate, data.dim, n_steps, setting))
    for epoch in range(setting.epochs):
        going_on = [member for member in members if member.diverged_at_epoch is None]
        if not going_on:
            break
        for x, y in reader.epoch(setting.seed, setting.stage, epoch):
            for member in going_on:
                sizes = split_near_equal(len(x), member.candidate.batch_size)
                for part, labels in zip(torch.split(x, sizes), torch.split(y, sizes), strict=True):
                    member.step(part, labels)
        for member in going_on:
            member.end_epoch(epoch + 1, len(data))
        after_epoch(epoch + 1)
    return members


@torch.no_grad()
def evaluate_candidates(
    trained: Sequence[TrainedCandidate], data: LabelledRows, moments: FeatureMoments, setting: PassSettings
) -> list[tuple[float | None, float | None]]:
    """Error in percent and mean log loss of each; (None, None) for one that diverged.

    Rows whose label is none of the classes count as errors, and have no log loss.
    """
    errors, losses, known = np.zeros(len(trained)), np.zeros(len(trained)), int((data.y >= 0).sum())
    mean, scale = (one.float().to(setting.device) for one in compute_normalisation(moments))
    for part, block in data.blocks(max(1, min(4096, _LOGITS_AT_A_TIME // setting.n_classes))):
        x, y = make_writable(block).to(setting.device), torch.from_numpy(data.y[part]).to(setting.device)
        normalised = (x - mean) * scale
        for number, one in enumerate(trained):
            logits = one.linear(normalised if one.candidate.batch_norm else x)
            errors[number] += int((logits.argmax(dim=1) != y).sum())
            loss = torch.nn.functional.cross_entropy(logits, y, ignore_index=-1, reduction="none")
            losses[number] += float(loss.sum(dtype=torch.float64))
    return [
        (None, None)
        if one.diverged_at_epoch is not None or not math.isfinite(loss)
        else (float(100 * wrong / len(data)), float(loss / known) if known else None)
        for one, wrong, loss in zip(trained, errors, losses, strict=True)
    ]


def compute_normalisation(moments: FeatureMoments) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and scale of all training rows, float64 (dim,), which replace those of a batch at test time.

    A feature that does not vary in training is scaled to 0.
    """
    scale: Array = np.where(moments.variance > 0, 1 / np.sqrt(moments.variance + EPSILON), 0.0)
    return torch.from_numpy(moments.mean), torch.from_numpy(scale)


def _beginning(dim: int, setting: PassSettings) -> torch.nn.Linear:
    """A linear map as torch.nn.Linear begins, with the same numbers for all candidates of a stage."""
    words = np.random.SeedSequence([setting.seed, setting.stage, 1]).generate_state(1)
    generator = torch.Generator().manual_seed(int(words[0]))
    linear = torch.nn.Linear(dim, setting.n_classes, device="meta").to_empty(device="cpu")
    for parameter in (linear.weight, linear.bias):
        torch.nn.init.uniform_(parameter, -1 / math.sqrt(dim), 1 / math.sqrt(dim), generator=generator)
    return linear.to(setting.device)
