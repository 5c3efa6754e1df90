"""Features whose singular values are chosen, and the plain float64 formulas of spectral metrics."""

from __future__ import annotations

import numpy as np

SPECTRA = {
    "flat": lambda k: np.ones(k),
    "power law": lambda k: np.arange(1.0, k + 1) ** -0.5,
    "steep power law": lambda k: np.arange(1.0, k + 1) ** -1.5,
    "exponential": lambda k: np.exp(-np.arange(k) / 8.0),
    "rank 20": lambda k: np.where(np.arange(k) < 20, 1.0, 0.0),
    "rank 20 and noise": lambda k: np.where(np.arange(k) < 20, 1.0, 3e-5),
    "one direction": lambda k: np.where(np.arange(k) < 1, 1.0, 1e-4),
}


def planted(n: int, dim: int, singular: np.ndarray, *, seed: int = 0, offset: float = 0.0) -> np.ndarray:
    """Float64 rows with these singular values, but for an offset."""
    generator = np.random.default_rng(seed)
    k = min(n, dim)
    left = np.linalg.qr(generator.normal(size=(n, k)))[0]
    right = np.linalg.qr(generator.normal(size=(dim, k)))[0]
    return np.asarray((left * singular) @ right.T * n**0.5 + offset * generator.normal(size=dim))


def direct_rankme(z: np.ndarray, eps: float = 1e-7) -> float:
    """RankMe as its paper writes it."""
    values = np.linalg.svd(z.astype(np.float64), compute_uv=False)
    shares = values / values.sum() + eps
    return float(np.exp(-(shares * np.log(shares)).sum()))
