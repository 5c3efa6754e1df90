"""Comparing contenders on the same images: paired differences from a leader, tests, and simultaneous intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..evaluation.bootstrap import N_DRAWS, Interval, error_draws, interval, outcomes_of
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np
    from scipy.special import stdtr, stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Truths = NDArray[np.bool_]

_WEIGHTS_AT_A_TIME = 2_000_000


@dataclass(slots=True, eq=False)
class Look:
    """Outcomes of all that ran a rung, on the same images."""

    number: int
    n_train: int
    n_test: int
    score: str
    wrong: dict[str, Truths]
    gained: dict[str, Any]  # test images that a quarter of the labels gets wrong and all right, less the reverse, int8
    clusters: Any  # number of the group of each outcome, or None
    values: dict[str, float]  # what contenders are ordered by; empty where it is their errors
    n_doublings: float  # of the labels, slowed, that are still to come

    def error(self, name: str) -> float:
        return 100.0 * float(self.wrong[name].mean())

    def projected(self, name: str) -> float:
        """The error if it went on falling as over the last two doublings."""
        gained = self.gained.get(name)
        return self.error(name) - (50.0 * self.n_doublings * float(gained.mean()) if gained is not None else 0.0)

    def behind(self, name: str, leader: str, *, catching_up: bool = False) -> tuple[float, float, int]:
        """Points behind the leader, their standard error, and degrees of freedom.

        ``catching_up``: less what it would gain on the leader with all labels, if it is gaining on it.
        """
        apart = self.wrong[name].astype(np.float64) - self.wrong[leader]
        value = float(apart.mean())
        influence = (apart - value) / len(apart)
        if catching_up and name in self.gained:
            gain = (self.gained[name].astype(np.float64) - self.gained[leader]) / 2  # a doubling
            if (speed := float(gain.mean())) > 0:
                value -= self.n_doublings * speed
                influence[-len(gain) :] -= self.n_doublings * (gain - speed) / len(gain)
        if self.clusters is not None:
            influence = np.asarray(np.bincount(self.clusters, weights=influence), np.float64)
        n = len(influence)
        if n < 2:
            return 100 * value, math.inf, 1
        variance = float(np.square(influence).sum()) * n / (n - 1) + 1.0 / n**2  # half an image more either way
        return 100 * value, 100 * math.sqrt(variance), n - 1

    def worse(self, name: str, leader: str, *, margin: float) -> float:
        """The p-value of a contender that is not behind by more than ``margin`` points, against one that is."""
        value, error, freedom = self.behind(name, leader, catching_up=True)
        return float(stdtr(freedom, -(value - margin) / error))


def compared(
    look: Look, names: Sequence[str], *, level: float, seed: int
) -> tuple[dict[str, Interval], dict[str, Interval], float]:
    """Contenders, the leader first, on the images of a look: errors, points behind the leader, optimism of its error.

    Errors in percent have 95 % intervals of their own. The intervals of differences are simultaneous, with one critical
    value, that of the largest of all pairs. Optimism is the selection bias of the lowest of several errors, in points.
    """
    wrong = np.stack([look.wrong[name] for name in names], axis=1)  # (n, k)
    draws = error_percent_draws(wrong, look.clusters, seed=seed)  # (n_draws, k)
    errors = 100.0 * wrong.mean(axis=0)
    moved = draws - draws.mean(axis=0)
    spread = np.stack([(moved - moved[:, [i]]).std(axis=0) for i in range(len(names))])  # (k, k)
    largest = np.zeros(len(draws))
    for i in range(len(names) - 1):
        apart = np.abs(moved[:, i + 1 :] - moved[:, [i]]) / spread[i, i + 1 :]
        largest = np.maximum(largest, apart.max(axis=1))
    width = float(np.quantile(largest, level)) * spread[0]
    behind = {}
    for name, error, half in zip(names[1:], errors[1:], width[1:], strict=True):
        value = float(error - errors[0])
        behind[name] = Interval(value=value, ci_low=value - float(half), ci_high=value + float(half))
    resampled = errors + moved
    chosen = resampled.argmin(axis=1)
    optimism = float((errors[chosen] - resampled[np.arange(len(resampled)), chosen]).mean())
    own = {name: interval(float(errors[i]), draws[:, i]) for i, name in enumerate(names)}
    return own, behind, max(0.0, optimism) if len(names) > 1 else 0.0


def error_of(look: Look, name: str, *, seed: int) -> Interval:
    """The error of one contender on the images of a look, percent."""
    draws = error_percent_draws(look.wrong[name][:, None], look.clusters, seed=seed)
    return interval(look.error(name), draws[:, 0])


def behind_alone(look: Look, name: str, leader: str, *, level: float) -> Interval:
    """Points behind a leader with an interval of this pair alone, by Student's t."""
    value, error, freedom = look.behind(name, leader)
    width = error * float(stdtrit(freedom, (1 + level) / 2))
    return Interval(value=value, ci_low=value - width, ci_high=value + width)


def error_percent_draws(wrong: Any, clusters: Any, *, seed: int) -> Any:
    """Bootstrap draws of errors on the same images, percent (n_draws, k); whole groups are resampled."""
    k = wrong.shape[1]
    if clusters is None:
        table = outcomes_of(len(wrong), [(None, ~column) for column in wrong.T])
        by_column = error_draws(table, {str(i): [i] for i in range(k)}, seed=seed)
        return np.stack([by_column[str(i)] for i in range(k)], axis=1)
    random = np.random.default_rng(seed)
    n_groups = int(clusters.max()) + 1
    above = np.zeros((n_groups, k))
    np.add.at(above, clusters, wrong.astype(np.float64))
    size = np.bincount(clusters, minlength=n_groups).astype(np.float64)
    added = random.standard_gamma(0.5, size=(2, N_DRAWS, k)) * len(wrong) / n_groups
    drawn = np.empty((N_DRAWS, k))
    block = max(1, _WEIGHTS_AT_A_TIME // n_groups)
    for start in range(0, N_DRAWS, block):
        rows = slice(start, min(start + block, N_DRAWS))
        weights = random.standard_exponential((rows.stop - rows.start, n_groups))
        drawn[rows] = (weights @ above + added[0, rows]) / ((weights @ size)[:, None] + added[:, rows].sum(axis=0))
    return 100.0 * drawn
