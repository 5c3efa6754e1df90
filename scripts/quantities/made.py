"""Inputs of pairs of encoders, of predictions, and of neighbours that tie: the same at every call."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

CASES = {
    "repeats": "1,000 rows of 40 features on a surface of 5 dimensions, and 200 of them once more",
    "two encoders": "400 images as 64 features (a) and 48 (b), which share 20 dimensions; means are not 0",
    "unrelated": "400 images as 512 features (a) and 384 (b) that have nothing in common",
    "ties": "60 training images that stand four times, as class 3, 2, 1 and 0, and 60 test images of class 0",
    "overlap": "500 training and 500 test images as 6 features, 10 classes that overlap; lengths differ",
    "gallery": "300 images and 60 queries as 24 features, 6 classes; a seventh is among the queries alone",
    "predictions": "probabilities of 6 classes for 600 images, too sure of some and not sure enough of others",
    "absent": "the same, but class 4 is never a label, and a class 5 neither a label nor predicted",
    "certain": "the same with two digits, so that many are exactly 1",
}


def made() -> dict[str, dict[str, Array]]:
    """Arrays by case and name."""
    random = np.random.default_rng(51)

    def gaussian(*shape: int) -> Any:
        return random.standard_normal(shape)

    surface = np.tanh(gaussian(1000, 5) @ gaussian(5, 40)) + 3
    shared = gaussian(400, 20) * np.arange(1, 21) ** -0.5
    a = shared @ gaussian(20, 64) + 0.5 * gaussian(400, 64) + 2
    b = np.tanh(shared @ gaussian(20, 48)) + 0.2 * gaussian(400, 48) + 1
    once = gaussian(60, 16)
    middles, y, y_test = gaussian(7, 24), random.integers(0, 6, 300), random.integers(0, 7, 60)
    labels = random.permutation(np.repeat(np.arange(6), [200, 160, 100, 80, 40, 20]))
    logits = random.choice([0.4, 2.5], (600, 1)) * (1.4 * np.eye(6)[labels] + gaussian(600, 6))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rounded = p.round(2) / p.round(2).sum(axis=1, keepdims=True)
    kept = (labels != 4) & (labels != 5) & (p.argmax(axis=1) != 5)
    found = {
        "repeats": {"z": np.concatenate([surface, surface[:200]])},
        "two encoders": {"a": a, "b": b},
        "unrelated": {"a": gaussian(400, 512), "b": gaussian(400, 384)},
        "ties": {
            "z": np.repeat(once, 4, axis=0),
            "y": np.tile([3, 2, 1, 0], 60),
            "z_test": once + 0.01 * gaussian(60, 16),
            "y_test": np.zeros(60, np.int64),
        },
        "gallery": {
            "z": 0.6 * middles[y] + gaussian(300, 24),
            "y": y,
            "z_test": 0.6 * middles[y_test] + gaussian(60, 24),
            "y_test": y_test,
        },
        "predictions": {"p": p, "y": labels},
        "absent": {"p": p[kept], "y": labels[kept]},
        "certain": {"p": rounded, "y": labels},
    }
    centres, classes = gaussian(10, 6), random.integers(0, 10, 1000)
    z = (centres[classes] + gaussian(1000, 6)) * random.uniform(0.5, 2, (1000, 1))
    found["overlap"] = {"z": z[:500], "y": classes[:500], "z_test": z[500:], "y_test": classes[500:]}
    return found
