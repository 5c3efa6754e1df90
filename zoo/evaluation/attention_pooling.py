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
product, whose equal penalties favour few values. That is not convex: where training ends depends on where it starts.
Members from several starting points err differently, and the mean of their logits is again (1), with more queries. All
members, of all starts and penalties, are trained together by one one-cycle of Adam: they share each product with the
maps, which is most of the work, and nothing else.
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
    from torch import Tensor

_NUMBERS_AT_A_TIME = 1 << 19  # of maps, two megabytes, which stay in the cache of a core between the four products
_IN_MEMORY = 4 << 30  # bytes of standardised maps that are held; of more, blocks are standardised as they are read
_SAMPLED = 1 << 17  # patches that the components are found on
_FLAT = 1e-6  # a deviation below this part of the largest is rounding
_WARMUP = 0.3  # share of a one-cycle in which the learning rate rises
_ADAM = 0.9, 0.99  # decay of the means of gradients and of their squares
_MOST_EPOCHS = 60


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
        drawn = np.sort(np.random.default_rng(seed).permutation(n)[: max(1, _SAMPLED // places)])
        products = torch.zeros(channels, channels, dtype=torch.float64)
        for rows in split_rows(len(drawn), x.shape[1]):
            sample = torch.from_numpy(np.asarray(x[drawn[rows]]).reshape(-1, channels).astype(np.float64))
            sample = (sample - mean) / deviation
            products.addmm_(sample.T, sample)
        values, vectors = compute_eigh(products / (len(drawn) * places))
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
    """Views of the parameters of all members, or of their gradient, in one vector."""

    queries: Tensor  # (n_members * n_queries, n_components)
    values: Tensor  # (n_members * n_queries, value_dim, n_components)
    weights: Tensor  # (n_members, n_classes, n_queries * value_dim)
    averages: Tensor  # (n_members, n_classes, n_components), or twice as many with a class token
    intercepts: Tensor  # (n_members, n_classes, 1), the only ones without a penalty


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionObjective:
    """The penalised mean cross-entropies of (1) on standardised maps, one per member, and the gradient of their sum."""

    maps: StandardisedMaps
    y: Tensor  # (n,) int64
    n_classes: int
    n_queries: int
    value_dim: int
    penalties: Tensor  # (n_members,)

    def split(self, vector: Tensor) -> Parts:
        """Views of a vector of all parameters."""
        sizes = [math.prod(shape) for shape in self._shapes]
        pieces = zip(torch.split(vector, sizes), self._shapes, strict=True)
        return Parts(*(piece.view(shape) for piece, shape in pieces))

    @property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        members, m, h, k = len(self.penalties), self.n_queries, self.value_dim, self.n_classes
        dim = self.maps.scale.axes.shape[1]
        averages = (members, k, self.maps.averages.shape[1])
        return (members * m, dim), (members * m, h, dim), (members, k, m * h), averages, (members, k, 1)

    def start(self, seed: int) -> Tensor:
        """Nearly even attention, random values, weights near 0, and log frequencies as intercepts."""
        draws = torch.Generator().manual_seed(seed)
        vector = torch.zeros(sum(map(math.prod, self._shapes)))
        parts, dim = self.split(vector), self._shapes[0][1]
        for part, size in ((parts.queries, 0.1 / math.sqrt(dim)), (parts.values, 1 / math.sqrt(dim))):
            part.copy_(torch.randn(part.shape, generator=draws) * size)
        parts.weights.copy_(torch.randn(parts.weights.shape, generator=draws) * 0.03)
        frequencies = (torch.bincount(self.y.cpu(), minlength=self.n_classes) + 0.5).log()
        parts.intercepts.copy_((frequencies - frequencies.mean())[:, None])
        return vector.to(self.maps.averages.device)

    def measure(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Values (n_members,), float64, and the gradient of their sum, at all rows, a block of rows at a time."""
        gradient = torch.zeros_like(vector)
        parts, grown = self.split(vector), self.split(gradient)
        total = torch.zeros(len(self.penalties), dtype=torch.float64, device=vector.device)
        for rows in self.maps.blocks:
            total += self._add(parts, grown, rows, 1 / self.maps.n)
        gradient.addcmul_(self._compute_decay(), vector)
        penalised = (parts.queries, parts.values, parts.weights, parts.averages)
        squares = sum(one.double().square().view(len(total), -1).sum(dim=1) for one in penalised)
        return total + 0.5 * self.penalties.double() * squares, gradient

    def make_step(self, vector: Tensor) -> Callable[[Tensor], Tensor]:
        """From some rows to the gradient of the mean over them, at what ``vector`` holds then; one tensor for all."""
        gradient, decay = torch.zeros_like(vector), self._compute_decay()
        parts, grown = self.split(vector), self.split(gradient)

        def step(rows: Tensor) -> Tensor:
            gradient.zero_()
            self._add(parts, grown, rows, 1 / len(rows))
            return gradient.addcmul_(decay, vector)

        return step

    def _compute_decay(self) -> Tensor:
        """The penalty of each parameter; intercepts, the last, have none."""
        each = [self.penalties.repeat_interleave(math.prod(shape) // len(self.penalties)) for shape in self._shapes]
        each[-1].zero_()
        return torch.cat(each)

    def _add(self, parts: Parts, grown: Parts, rows: Any, share: float) -> Tensor:
        """Adds the gradient of ``share`` times the summed cross-entropies, and returns them, (n_members,)."""
        maps, averages = self.maps.get(rows)
        attention, pooled, values = compute_attention(parts, maps)
        logs = torch.log_softmax(compute_logits(parts, values, averages), dim=1)  # (n_members, n_classes, n)
        right = self.y[rows].expand(len(logs), 1, -1)
        loss = -share * logs.gather(1, right).double().sum(dim=(1, 2))
        residuals = logs.exp_().scatter_add_(1, right, torch.full_like(right, -1, dtype=logs.dtype)).mul_(share)
        grown.intercepts.add_(residuals.sum(dim=2, keepdim=True))
        grown.averages.add_(residuals @ averages)
        grown.weights.baddbmm_(residuals, values.view(len(logs), -1, values.shape[2]).transpose(1, 2))
        of_values = torch.bmm(parts.weights.transpose(1, 2), residuals).view_as(values)
        grown.values.baddbmm_(of_values, pooled.transpose(0, 1))
        of_pooled = torch.bmm(of_values.transpose(1, 2), parts.values).transpose(0, 1)  # (n, queries, dim)
        # d a_p / d score: a_p (g_p - sum_p a_p g_p), where g_p = of_pooled . z_p and the sum is of_pooled . u
        scores = torch.bmm(of_pooled, maps.transpose(1, 2)).sub_((of_pooled * pooled).sum(dim=2, keepdim=True))
        grown.queries.add_(torch.bmm(scores.mul_(attention), maps).sum(dim=0))
        return loss


def compute_attention(parts: Parts, maps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention (n, queries, places), pooled patches (n, queries, dim) and values (queries, value_dim, n)."""
    attention = torch.softmax(parts.queries @ maps.transpose(1, 2), dim=2)
    pooled = torch.bmm(attention, maps)
    return attention, pooled, torch.bmm(parts.values, pooled.permute(1, 2, 0))


def compute_logits(parts: Parts, values: Tensor, averages: Tensor) -> Tensor:
    """Equation (1), (n_members, n_classes, n)."""
    of_members = values.view(len(parts.weights), -1, values.shape[2])
    return torch.bmm(parts.weights, of_members) + parts.averages @ averages.T + parts.intercepts


def predict_logits(objective: AttentionObjective, vector: Tensor, maps: StandardisedMaps) -> Tensor:
    """Logits of all members for all rows of some maps, float64 (n_members, n, n_classes)."""
    parts = objective.split(vector)
    found = []
    for rows in maps.blocks:
        block, averages = maps.get(rows)
        found.append(compute_logits(parts, compute_attention(parts, block)[2], averages).double())
    return torch.cat(found, dim=2).transpose(1, 2)


def run_one_cycle(
    objective: AttentionObjective, *, seed: int, epochs: int, n_steps: int, batch_size: int, learning_rate: float
) -> Tensor:
    """Adam for ``epochs`` passes over the rows, more where these have fewer than ``n_steps`` batches.

    Its rate rises linearly and falls by a cosine to 0 (Smith & Topin 2018).
    """
    vector = objective.start(seed)
    measure = objective.make_step(vector)
    mean, square = torch.zeros_like(vector), torch.zeros_like(vector)
    draws, n = torch.Generator().manual_seed(seed), objective.maps.n
    n_batches = math.ceil(n / batch_size)
    epochs = max(epochs, min(_MOST_EPOCHS, math.ceil(n_steps / n_batches)))
    rows = (
        some.sort().values
        for _ in range(epochs)
        for some in torch.split(torch.randperm(n, generator=draws), batch_size)
    )
    for step, some in enumerate(rows, start=1):
        done = step / (epochs * n_batches)
        falling = 0.5 * (1 + math.cos(math.pi * (done - _WARMUP) / (1 - _WARMUP)))
        rate = learning_rate * (done / _WARMUP if done < _WARMUP else falling)
        gradient = measure(some.to(vector.device))
        # Kingma & Ba 2015, Algorithm 1; torch's takes two seconds to import, as long as all of these steps
        mean.lerp_(gradient, 1 - _ADAM[0])
        square.lerp_(gradient.square(), 1 - _ADAM[1])
        size = (square / (1 - _ADAM[1] ** step)).sqrt_().add_(1e-8)
        vector.addcdiv_(mean, size, value=-rate / (1 - _ADAM[0] ** step))
    return vector


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
