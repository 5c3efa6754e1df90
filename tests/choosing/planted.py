"""Contenders whose errors are known: their features say which class they take each image for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from zoo.choosing.scoring import Task
from zoo.choosing.successive_halving import Contender
from zoo.errors import ZooError

K = 4
_COMMON = 0.5  # share of the difficulty of an image that is the same for all


class Planted:
    """Features are a row of the unit matrix: the class that the contender takes the image for."""

    def __init__(self, name: str, train: Any, test: Any, seconds: float = 1.0) -> None:
        self.name, self.train, self.test, self.seconds_per_image = name, train, test, seconds
        self.asked: list[tuple[str, Any]] = []
        self.is_there = False  # all its features, so that they cost no time

    def features(self, part: str, rows: Any) -> Any:
        self.asked.append((part, rows))
        return (self.train if part == "train" else self.test)[rows]

    def n_missing(self, part: str, rows: Any) -> int:
        return 0 if self.is_there else len(rows)

    def n_featurised(self) -> int:
        """Different images that were asked for."""
        return len({(part, int(row)) for part, rows in self.asked for row in rows})


class Broken(Planted):
    """Has no features after the first so many calls."""

    def __init__(self, name: str, like: Planted, error: Exception, after: int = 0) -> None:
        super().__init__(name, like.train, like.test)
        self._error, self._after = error, after

    def features(self, part: str, rows: Any) -> Any:
        if len(self.asked) >= self._after:
            raise self._error
        return super().features(part, rows)


def population(
    errors: Sequence[float], *, n_train: int, n_test: int, seed: int = 0, of_group: int = 1
) -> tuple[list[Planted], Task]:
    """Contenders with these expected errors (shares); the images of a group of so many are right or wrong together."""
    random = np.random.default_rng(seed)
    labels, hard, groups = [], [], []
    for n in (n_train, n_test):
        n_groups = -(-n // of_group)
        groups.append(np.repeat(np.arange(n_groups), of_group)[:n])
        labels.append(np.asarray(random.permutation(n_groups) % K)[groups[-1]])
        hard.append(random.normal(size=n_groups))
    found = []
    for i, error in enumerate(errors):
        tables = []
        for y, common, group in zip(labels, hard, groups, strict=True):
            own = random.normal(size=len(common))
            wrong = norm.cdf(_COMMON**0.5 * common + (1 - _COMMON) ** 0.5 * own)[group] < error
            other = (y + random.integers(1, K, len(common))[group]) % K
            tables.append(np.eye(K, dtype=np.float32)[np.where(wrong, other, y)])
        found.append(Planted(f"e{i:02}", *tables))
    several = of_group > 1
    return found, Task(
        y_train=labels[0].astype(np.int64),
        y_test=labels[1].astype(np.int64),
        groups_train=groups[0].astype(np.uint64) if several else None,
        groups_test=groups[1].astype(np.uint64) if several else None,
        given_groups_test=groups[1].astype(np.uint64) if several else None,
    )


def says_it(name: str, rows: Any, x: Any, y: Any) -> Callable[[Any, Any], Any]:
    """A probe that reads the class off the features."""
    return lambda x_test, rows_test: np.asarray(x_test).argmax(axis=1)


def errors_on_all(contenders: Sequence[Planted], task: Task) -> dict[str, Any]:
    """Which test images each gets wrong."""
    return {one.name: one.test.argmax(axis=1) != task.y_test for one in contenders}


def as_contenders(some: Sequence[Planted]) -> list[Contender]:
    return list(some)


class Refused(ZooError):
    """An error of an encoder."""
