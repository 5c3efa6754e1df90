"""Features with a known answer, and a small tuned probe, for the tests of settings and risks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from zoo.datasets.images import hash_group_names
from zoo.features import Features, Origin

ORIGIN = Origin(
    encoder="planted",
    dataset="planted-images",
    split="train",
    weights_hash="w",
    preprocess_hash="p",
    images_hash="i",
    representation="card",
    precision="float32",
    code_version="zoo 0, featurising 1",
)
"""Of features that no encoder computed."""

GRID = (1e-4, 1e-2, 1.0, 1e2, 1e4)


class GridProbe:
    """Scikit-learn's logistic regression with the C of the lowest validation error, the strongest of equals."""

    grid = GRID

    def __init__(self) -> None:
        self.report_: dict[str, Any] = {}

    def fit(self, x: Any, y: Any, *, x_val: Any = None, y_val: Any = None) -> GridProbe:
        if x_val is None:
            order = np.random.default_rng(0).permutation(len(y))
            held_out, rest = order[: len(y) // 5], order[len(y) // 5 :]
            self.fit(np.asarray(x)[rest], y[rest], x_val=np.asarray(x)[held_out], y_val=y[held_out])
            return self.refit(x, y)
        models = [_fitted(c, x, y) for c in self.grid]
        errors = [100 * float((model.predict(np.asarray(x_val)) != y_val).mean()) for model in models]
        best = int(np.argmin(errors))
        self.model = models[best]
        self.report_ = {"C": self.grid[best], "validation_error_percent": errors[best]}
        return self

    def refit(self, x: Any, y: Any) -> GridProbe:
        self.model = _fitted(self.report_["C"], x, y)
        return self

    def predict(self, x: Any) -> Any:
        return self.model.predict(np.asarray(x))


def _fitted(c: float, x: Any, y: Any) -> LogisticRegression:
    return LogisticRegression(C=c, tol=1e-6, max_iter=5000).fit(np.asarray(x, dtype=np.float64), y)


def features(x: Any, y: Any, *, split: str = "train", **origin: str) -> Features:
    """Features as an encoder would have given them; every split has images of its own."""
    labels = np.asarray(y, dtype=np.int64)
    facts = replace(ORIGIN, split=split, images_hash=f"{split}-{len(labels)}")
    return Features(
        x=np.asarray(x, dtype=np.float32),
        y=labels,
        origin=replace(facts, **origin),  # type: ignore[arg-type]
        names=[f"{split}/{number}.png" for number in range(len(labels))],
        classes=tuple(f"class {number}" for number in range(int(labels.max()) + 1)),
    )


def balanced_labels(n: int, n_classes: int) -> Any:
    """0, 1, ..., 0, 1, ...: as many of each class."""
    assert n % n_classes == 0
    return np.arange(n) % n_classes


def one_hot(numbers: Any, width: int) -> Any:
    return np.eye(width)[np.asarray(numbers)]


def gaussian_pair(
    *, n_train: int = 240, n_test: int = 80, n_classes: int = 4, dim: int = 6, shift: float = 1.2, seed: int = 0
) -> tuple[Features, Features]:
    """Overlapping classes, so that no risk is 0; training and test features have one distribution."""
    random = np.random.default_rng(seed)
    means = shift * random.normal(size=(n_classes, dim))
    made = []
    for split, n in (("train", n_train), ("val", n_test)):
        y = balanced_labels(n, n_classes)
        made.append(features(means[y] + random.normal(size=(n, dim)), y, split=split))
    return made[0], made[1]


def planted_groups(seed: int, *, n: int = 240, part: str = "train") -> Features:
    """Features in which a group says more than the class does."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n // 4), 4)
    y = of % 2
    x = (rng.normal(size=(n // 4, 6))[of] + 0.5 * y[:, None] + 0.1 * rng.normal(size=(n, 6))).astype(np.float32)
    names = hash_group_names([f"{part} {one}" for one in of])
    return replace(features(x, y, split=part), groups=names, contents=np.arange(n).astype(np.uint64))
