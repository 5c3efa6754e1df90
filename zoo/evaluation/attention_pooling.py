"""Several learned queries that each pool the patches of an image: the model of an attentive probe, and its training.

Maps x (n, places, channels) are standardised by channel, z = (x - mean) / deviation, and beyond so many channels turned
into their first principal components. Query q_m gives place p the weight a_mp = softmax_p(q_m . z_p), pools
u_m = sum_p a_mp z_p and reads ``value_dim`` values of it, V_m u_m. All queries read one space of values, and one linear
classifier reads all their values and the average of the patches (and the class token):

    logits = W_0 average + sum_m W_m V_m u_m + b.                                                              (1)

This is efficient probing (Psomas et al., ICLR 2026, https://arxiv.org/abs/2506.10178), which has no keys, with two
differences. The average has its own weights, so that a linear probe of it is a special case. And patches are pooled
before they are projected, which is the same, for both are linear, and takes n * queries * channels numbers in place of
n * places * channels.

What is minimised is the mean cross-entropy plus ``penalty / 2`` times the squares of q, V, W and W_0. V_m and W_m are a
product, whose equal penalties favour few values. That is not convex: a one-cycle of Adam goes near a minimum in a few
passes, and L-BFGS on all rows goes on until five steps lower the objective by less than ``tol`` of it. Probes from
several starting points err differently, and the mean of their logits is again (1), with more queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..optional import require_extra
from .arrays import Array, check_finite_rows
from .eigen import compute_eigh

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from scipy.optimize import minimize
    from torch import Tensor

_NUMBERS_AT_A_TIME = 1 << 19  # of maps, two megabytes, which stay in the cache of a core between the four products
_IN_MEMORY = 4 << 30  # bytes of standardised maps that are held; of more, blocks are standardised as they are read
_SAMPLED = 1 << 17  # patches that the components are found on
_FLAT = 1e-6  # a deviation below this part of the largest is rounding
_WARMUP = 0.3  # share of a one-cycle in which the learning rate rises
_ADAM = 0.9, 0.99  # decay of the means of gradients and of their squares
_STEPS = 5  # of L-BFGS, over which its progress is judged
_MOST_STEPS = 500


@dataclass(frozen=True, slots=True, eq=False)
class MapScale:
    """How maps are standardised: ``(x - mean) @ axes``."""

    mean: Tensor  # (channels,)
    axes: Tensor  # (channels, n_components): a diagonal of 1 / deviation, or principal axes of standardised channels
    share: float  # of the variance of standardised channels that the axes keep

    @property
    def is_diagonal(self) -> bool:
        return self.axes.shape[0] == self.axes.shape[1]


def fit_map_scale(x: Any, channels: int, n_components: int, *, seed: int, device: torch.device) -> MapScale:
    """The scale of flattened maps (n, places * channels), in one pass, and of components by a sample of patches."""
    n, places = x.shape[0], x.shape[1] // channels
    total, squares = torch.zeros(2, channels, dtype=torch.float64)
    shift = torch.from_numpy(np.asarray(x[:1]).reshape(places, channels).astype(np.float32)).mean(dim=0)
    for rows in split_rows(n, x.shape[1]):
        block = check_finite_rows(x[rows], "x", first=rows.start).reshape(-1, channels)
        centred = torch.from_numpy(block).float() - shift  # large means would cost the squares their digits
        total += centred.sum(dim=0)
        squares += centred.square_().sum(dim=0)
    count = n * places
    deviation = (squares / count - (total / count).square()).clamp(min=0).sqrt()
    deviation[deviation <= _FLAT * float(deviation.max())] = math.inf
    mean, axes, share = shift.double() + total / count, torch.diag(1 / deviation), 1.0
    if n_components < channels:
        drawn = np.random.default_rng(seed).permutation(n)[: max(1, _SAMPLED // places)]
        sample = torch.from_numpy(np.asarray(x[np.sort(drawn)]).reshape(-1, channels).astype(np.float64))
        sample = (sample - mean) / deviation
        values, vectors = compute_eigh(sample.T @ sample / len(sample))
        values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
        share = float(values[:n_components].sum() / values.sum())
        # one factor for all, after which the components vary by 1 on average: directions keep their proportions
        factor = math.sqrt(n_components / float(values[:n_components].sum()))
        axes = axes @ vectors[:, :n_components] * factor
    return MapScale(mean.float().to(device), axes.float().to(device), share)


def split_rows(n: int, width: int) -> Iterator[slice]:
    """Blocks of rows whose numbers fit into the cache."""
    step = max(8, _NUMBERS_AT_A_TIME // width)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


class StandardisedMaps:
    """Flattened maps as standardised blocks with their averages; held in memory where they are small enough."""

    def __init__(self, x: Any, scale: MapScale, *, class_token: bool = False, in_memory: int = _IN_MEMORY) -> None:
        self.x, self.scale, self.class_token = x, scale, class_token
        self.n, self.places = int(x.shape[0]), int(x.shape[1]) // len(scale.mean)
        kept = self.places * scale.axes.shape[1]
        self.blocks = list(split_rows(self.n, kept))
        averages = []
        self.held: Tensor | None = None
        if 4 * self.n * kept <= in_memory:
            self.held = torch.empty(self.n, self.places, scale.axes.shape[1], device=scale.axes.device)
        for rows in split_rows(self.n, self.x.shape[1]):
            maps = self._read(rows)
            averages.append(self._average(maps))
            if self.held is not None:
                self.held[rows] = maps
        self.averages = torch.cat(averages)

    def get(self, rows: Any) -> tuple[Tensor, Tensor]:
        """Maps (n, places, n_components) and averages of some rows, a slice or ascending numbers."""
        return self._read(rows) if self.held is None else self.held[rows], self.averages[rows]

    def _read(self, rows: Any) -> Tensor:
        at = rows if isinstance(rows, slice) else rows.cpu().numpy()
        block = check_finite_rows(self.x[at], "x").astype(np.float32, copy=False)
        maps = torch.from_numpy(block).to(self.scale.mean.device).view(len(block), self.places, -1) - self.scale.mean
        return maps * self.scale.axes.diagonal() if self.scale.is_diagonal else maps @ self.scale.axes

    def _average(self, maps: Tensor) -> Tensor:
        """The mean of the patches, and the class token behind it, (n, n_components or twice as many)."""
        read = [maps[:, int(self.class_token) :].mean(dim=1)] + [maps[:, 0]] * self.class_token
        return torch.cat(read, dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Views of the parameters, or of their gradient, in one vector."""

    queries: Tensor  # (n_queries, n_components)
    values: Tensor  # (n_queries, n_components, value_dim)
    weights: Tensor  # (n_queries, value_dim, n_classes)
    averages: Tensor  # (n_components, n_classes), or twice as many with a class token
    intercepts: Tensor  # (n_classes,), the only ones without a penalty


@dataclass(slots=True, kw_only=True, eq=False)
class AttentionObjective:
    """The penalised mean cross-entropy of (1) on standardised maps, and its gradient."""

    maps: StandardisedMaps
    y: Tensor  # (n,) int64
    n_classes: int
    n_queries: int
    value_dim: int
    penalty: float
    evaluations: int = 0

    def split(self, vector: Tensor) -> Parts:
        """Views of a vector of all parameters."""
        sizes = [math.prod(shape) for shape in self._shapes]
        pieces = zip(torch.split(vector, sizes), self._shapes, strict=True)
        return Parts(*(piece.view(shape) for piece, shape in pieces))

    @property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        m, h, k = self.n_queries, self.value_dim, self.n_classes
        dim = self.maps.scale.axes.shape[1]
        return (m, dim), (m, dim, h), (m, h, k), (self.maps.averages.shape[1], k), (k,)

    def start(self, seed: int) -> Tensor:
        """Nearly even attention, random values, weights near 0, and log frequencies as intercepts."""
        draws = torch.Generator().manual_seed(seed)
        vector = torch.zeros(sum(map(math.prod, self._shapes)))
        parts, dim = self.split(vector), self._shapes[0][1]
        for part, size in ((parts.queries, 0.1 / math.sqrt(dim)), (parts.values, 1 / math.sqrt(dim))):
            part.copy_(torch.randn(part.shape, generator=draws) * size)
        parts.weights.copy_(torch.randn(parts.weights.shape, generator=draws) * 0.03)
        parts.intercepts.copy_((torch.bincount(self.y.cpu(), minlength=self.n_classes) + 0.5).log())
        parts.intercepts.sub_(parts.intercepts.mean())
        return vector.to(self.maps.averages.device)

    def measure(self, vector: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at all rows, a block of rows at a time."""
        self.evaluations += 1
        gradient, total = torch.zeros_like(vector), 0.0
        parts, grown = self.split(vector), self.split(gradient)
        for rows in self.maps.blocks:
            right, logs = self._add(parts, grown, rows, 1 / self.maps.n)
            total -= float(logs.gather(1, right).double().sum())
        free = self.n_classes  # intercepts, the last of the parameters, have no penalty
        gradient[:-free].add_(vector[:-free], alpha=self.penalty)
        return total / self.maps.n + 0.5 * self.penalty * float(vector[:-free].double().square().sum()), gradient

    def make_step(self, vector: Tensor) -> Callable[[Tensor], Tensor]:
        """From some rows to the gradient of the mean over them, at what ``vector`` holds then; one tensor for all."""
        gradient = torch.zeros_like(vector)
        parts, grown = self.split(vector), self.split(gradient)
        penalised, grown_penalised = vector[: -self.n_classes], gradient[: -self.n_classes]

        def step(rows: Tensor) -> Tensor:
            gradient.zero_()
            self._add(parts, grown, rows, 1 / len(rows))
            grown_penalised.add_(penalised, alpha=self.penalty)
            return gradient

        return step

    def _add(self, parts: Parts, grown: Parts, rows: Any, share: float) -> tuple[Tensor, Tensor]:
        """Adds the gradient of ``share`` times the summed cross-entropy; returns right classes, log probabilities."""
        maps, averages = self.maps.get(rows)
        right = self.y[rows, None]
        attention, pooled, values = compute_attention(parts, maps)
        logs = torch.log_softmax(compute_logits(parts, values, averages), dim=1)
        residuals = logs.exp().scatter_add_(1, right, torch.full_like(right, -1, dtype=logs.dtype)).mul_(share)
        grown.intercepts.add_(residuals.sum(dim=0))
        grown.averages.addmm_(averages.T, residuals)
        grown.weights.add_(values.transpose(1, 2) @ residuals)
        of_values = residuals @ parts.weights.transpose(1, 2)  # (n_queries, n, value_dim)
        grown.values.baddbmm_(pooled.permute(1, 2, 0), of_values)
        of_pooled = torch.bmm(of_values, parts.values.transpose(1, 2)).transpose(0, 1)  # (n, n_queries, dim)
        # d a_p / d score: a_p (g_p - sum_p a_p g_p), where g_p = of_pooled . z_p and the sum is of_pooled . u
        scores = torch.bmm(of_pooled, maps.transpose(1, 2)).sub_((of_pooled * pooled).sum(dim=2, keepdim=True))
        scores.mul_(attention)
        grown.queries.add_(torch.bmm(scores, maps).sum(dim=0))
        return right, logs


def compute_attention(parts: Parts, maps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention (n, n_queries, places), pooled patches (n, n_queries, dim), values (n_queries, n, value_dim)."""
    attention = torch.softmax(parts.queries @ maps.transpose(1, 2), dim=2)
    pooled = torch.bmm(attention, maps)
    return attention, pooled, torch.bmm(pooled.transpose(0, 1), parts.values)


def compute_logits(parts: Parts, values: Tensor, averages: Tensor) -> Tensor:
    """Equation (1), (n, n_classes)."""
    return parts.intercepts + averages @ parts.averages + torch.bmm(values, parts.weights).sum(dim=0)


def predict_logits(objective: AttentionObjective, vector: Tensor, maps: StandardisedMaps) -> Tensor:
    """Logits of all rows of some maps, float64 (n, n_classes)."""
    parts = objective.split(vector)
    found = []
    for rows in maps.blocks:
        block, averages = maps.get(rows)
        found.append(compute_logits(parts, compute_attention(parts, block)[2], averages).double())
    return torch.cat(found)


def run_one_cycle(
    objective: AttentionObjective, *, seed: int, epochs: int, batch_size: int, learning_rate: float
) -> Tensor:
    """Adam for some passes over the rows; its rate rises linearly and falls by a cosine to 0 (Smith & Topin 2018)."""
    vector = objective.start(seed)
    measure = objective.make_step(vector)
    mean, square = torch.zeros_like(vector), torch.zeros_like(vector)
    draws, n = torch.Generator().manual_seed(seed), objective.maps.n
    n_steps = epochs * math.ceil(n / batch_size)
    rows = (
        some.sort().values
        for _ in range(epochs)
        for some in torch.split(torch.randperm(n, generator=draws), batch_size)
    )
    for step, some in enumerate(rows, start=1):
        done = step / n_steps
        falling = 0.5 * (1 + math.cos(math.pi * (done - _WARMUP) / (1 - _WARMUP)))
        rate = learning_rate * (done / _WARMUP if done < _WARMUP else falling)
        gradient = measure(some.to(vector.device))
        # Kingma & Ba 2015, Algorithm 1; torch's takes two seconds to import, as long as all of these steps
        mean.lerp_(gradient, 1 - _ADAM[0])
        square.lerp_(gradient.square(), 1 - _ADAM[1])
        size = (square / (1 - _ADAM[1] ** step)).sqrt_().add_(1e-8)
        vector.addcdiv_(mean, size, value=-rate / (1 - _ADAM[0] ** step))
    return vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MinimisedObjective:
    """Where L-BFGS ended."""

    vector: Tensor
    value: float
    gradient_norm: float
    n_steps: int
    converged: bool  # the last five steps lowered the value by less than the tolerance


def run_lbfgs(objective: AttentionObjective, vector: Tensor, *, tol: float) -> MinimisedObjective:
    """L-BFGS on all rows, until five steps lower the objective by less than ``tol`` of it."""
    history: list[float] = []
    last: list[Tensor] = []

    def measure(x: Array) -> tuple[float, Array]:
        value, gradient = objective.measure(torch.from_numpy(x).to(vector))
        last[:] = [gradient]
        return value, gradient.double().cpu().numpy()

    def judge(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun))
        if len(history) > _STEPS and history[-1 - _STEPS] - history[-1] < tol * history[-1]:
            raise StopIteration

    found = minimize(
        measure,
        vector.double().cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        callback=judge,
        options={"maxcor": 20, "maxiter": _MOST_STEPS, "ftol": 0.0, "gtol": 0.0},
    )
    return MinimisedObjective(
        vector=torch.from_numpy(found.x).to(vector),
        value=float(found.fun),
        gradient_norm=float(last[0].double().norm()),
        n_steps=len(history),
        converged=len(history) < _MOST_STEPS,
    )


def compute_pooled_patches(maps: Tensor, queries: Tensor, values: Tensor, *, class_token: bool) -> Tensor:
    """What the classifier of (1) reads of maps (n, places, channels) as they were given.

    The average of the patches (n, channels), the class token where the first place is one, and what queries
    (m, channels) read by values (m, channels, value_dim).
    """
    read = [maps[:, int(class_token) :].mean(dim=1)] + [maps[:, 0]] * class_token
    if len(queries):
        attention = torch.softmax(queries @ maps.transpose(1, 2), dim=2)
        pooled = attention @ maps
        read.append((pooled.transpose(0, 1) @ values).transpose(0, 1).flatten(1))
    return torch.cat(read, dim=1)


def compute_pooled_maps(x: Any, queries: Array, values: Array, *, class_token: bool) -> Array:
    """The same of flattened maps (n, places * channels), in their precision, a block of rows at a time."""
    channels, found = queries.shape[1], []
    for rows in split_rows(x.shape[0], x.shape[1]):
        block = torch.from_numpy(check_finite_rows(x[rows], "x", first=rows.start))
        maps = block.view(len(block), -1, channels)
        read = [torch.from_numpy(np.asarray(one)).to(maps) for one in (queries, values)]
        found.append(compute_pooled_patches(maps, *read, class_token=class_token).double().numpy())
    return np.concatenate(found)
