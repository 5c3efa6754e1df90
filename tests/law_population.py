"""Encoders whose errors follow a known law of the number of labels, for the tests of scaling laws."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.analysis.columns import ERRORS
from zoo.analysis.scaling_law import predict_law_errors

FAMILIES = ("resnet", "vit")
MODES = ("contrastive", "siamese", "clustering")


def population(
    n_encoders: int = 60, *, alpha: float = 0.15, w: float = 0.5, noise: float = 0.0, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Cells of encoders that obey Eq. 25 but for normal noise, in percentage points, on each measured error."""
    random = np.random.default_rng(seed)
    rows = {}
    for number in range(n_encoders):
        approx, usability, probe_gen, enc_gen = random.uniform([0.5, 1, 5, 2], [1.5, 18, 20, 4])
        cells = {"T": approx + usability, "probe_gen": probe_gen, "enc_gen": enc_gen}
        rows[f"encoder{number}"] = {
            "approx": approx,
            "usability": usability,
            "probe_gen": probe_gen,
            "enc_gen": enc_gen,
            "approx_plus_usability": approx + usability,
            "family": FAMILIES[number % 2],
            "architecture": f"a{number % 4}",
            "objective": f"o{number % 6}",
            "ssl_mode": MODES[number % 3],
            "year": 2019 + number % 4,
            "z_dim": (384, 768, 2048)[number % 3],
            **{
                error.column: predict_law_errors({**cells, "n": error.n_labels}, alpha=alpha, w=w).item()
                + random.normal(0, noise)
                for error in ERRORS
            },
        }
    return rows
