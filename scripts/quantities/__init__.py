"""What docs/other_packages.md compares: inputs made by a seed, and what the zoo computes, a module per family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from . import definitions, made

MODULES = ("spectral", "dimensions")  # each has QUANTITIES by name, in the order of the page


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity by the name that it has in the words and programs of packages."""

    title: str
    cases: tuple[str, ...]  # of inputs(), whose arrays go to programs and to ``ours`` by their names
    ours: Callable[..., float]
    call: str  # how a user of the zoo gets it
    in_zoo: bool = True  # else ``ours`` is what its paper defines (.definitions)


def quantities() -> dict[str, Quantity]:
    """Every quantity by name, in the order of the page."""
    found: dict[str, Quantity] = {}
    for module in MODULES:
        found |= import_module(f"{__name__}.{module}").QUANTITIES
    return found


def inputs() -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Arrays by case and name, the same at every call; features are float32, as encoders give them."""
    random = np.random.default_rng(50)

    def gaussian(*shape: int) -> Any:
        return random.standard_normal(shape)

    turn = np.linalg.qr(gaussian(128, 128))[0]
    power = gaussian(2000, 128) * np.arange(1, 129) ** -0.5 @ turn  # eigenvalues fall as 1 / rank
    relu = np.maximum(gaussian(1500, 24) @ gaussian(24, 256) / 5 + 0.3 * gaussian(1500, 256) - 0.5, 0)
    wide = gaussian(200, 512) * np.arange(1, 513) ** -0.4
    objects = gaussian(300, 1, 32) * np.arange(1, 33) ** -0.7
    views = objects + gaussian(300, 8, 32) * 0.4 * np.arange(1, 33) ** -0.2 + gaussian(32)
    few = gaussian(40, 1, 64) * np.arange(1, 65) ** -0.5 + 0.3 * gaussian(40, 2, 64)  # fewer deviations than dimensions
    sizes = np.array([400, 240, 160, 120, 80, 50, 30, 20])  # of classes, from common to rare
    y = random.permutation(np.repeat(np.arange(8), sizes))
    classes = 1.1 * gaussian(8, 32)[y] + gaussian(1100, 32) * np.arange(1, 33) ** -0.1 + 2
    angles = gaussian(1500, 4)
    manifold = np.concatenate([np.sin(angles), np.cos(angles), angles**2], axis=1) @ gaussian(12, 20)
    even = np.repeat(np.arange(8), 50)
    balanced = 1.1 * gaussian(8, 32)[even] + gaussian(400, 32)
    cases = {
        "power": {"z": power},
        "offset": {"z": power + 5 * gaussian(128) / 128**0.5},  # the same rows, whose mean is not 0
        "relu": {"z": relu},
        "wide": {"z": wide},  # fewer rows than dimensions
        "views": {"z": views},
        "few views": {"z": few},
        "classes": {"z": classes[:800], "y": y[:800], "z_test": classes[800:], "y_test": y[800:]},
        "balanced": {"z": balanced, "y": even},
        "manifold": {"z": manifold},
        **made.made(),
    }
    return {
        case: {
            name: array.astype(np.float32 if array.dtype.kind == "f" else np.int64) for name, array in arrays.items()
        }
        for case, arrays in cases.items()
    }


def lidar_matrix(z: np.ndarray[Any, Any], delta: float = 0.0) -> np.ndarray[Any, Any]:
    """Sigma_w^-1/2 Sigma_b Sigma_w^-1/2 (dim, dim) of views (n_images, n_views, dim), whose spectrum LiDAR is."""
    views = z.astype(np.float64)
    means = views.mean(axis=1)
    apart = (views - means[:, None]).reshape(-1, views.shape[2])
    within = apart.T @ apart / (len(apart) - len(means)) + delta * np.eye(views.shape[2])
    values, vectors = np.linalg.eigh(within)
    root: np.ndarray[Any, Any] = vectors / np.sqrt(values) @ vectors.T
    return root @ np.cov(means.T) @ root  # type: ignore[no-any-return]


HELPERS = {"lidar_matrix": lidar_matrix, **definitions.HELPERS}
"""What formulas of the page may call in addition to the zoo's functions."""

CASES = {
    "power": "2,000 rows of 128 features whose variances fall as 1 / rank, mean 0",
    "offset": "the same rows with a mean of length 5",
    "relu": "1,500 rows of 256 features of 0 or above, of 24 dimensions and noise",
    "wide": "200 rows of 512 features",
    "views": "300 images of 8 views, 32 features",
    "few views": "40 images of 2 views, 64 features",
    "classes": "800 rows of 32 features in 8 classes of 400 to 20 in 1,100, and 300 test rows",
    "balanced": "400 rows of 32 features in 8 classes of 50",
    "manifold": "1,500 rows of 20 features on a curved surface of 4 dimensions",
    **made.CASES,
}
"""What the page says of each case."""
