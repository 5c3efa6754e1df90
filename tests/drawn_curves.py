"""Calibrated learning curves and strips made of numbers, for tests of what draws and prints them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zoo.evaluation.bootstrap import Drawn
from zoo.evaluation.curves.curve import CalibratedCurve, calibrated_curve
from zoo.evaluation.curves.figures import Column, Strip

N = (50, 100, 200, 500, 1000)
SCRATCH = (0.95, 0.8, 0.6, 0.35, 0.08)
BLIND, MAXIMAL = 30.0, 10.0


def curve(
    encoder: str = "pocket_simclr_rn_shapes",
    *,
    calibrated: Sequence[float] | None = None,
    scratch: Sequence[float] = SCRATCH,
    n: Sequence[int] = N,
    width: float | None = 0.5,
    frozen: bool = False,
    metric: str = "normals_angular_error",
) -> CalibratedCurve:
    """A curve by its calibrated risks; ``width`` is the standard deviation of its risks, None for no draws."""
    rng = np.random.default_rng(0)

    def drawn(share: float, wide: float | None = width) -> Drawn:
        value = MAXIMAL + (BLIND - MAXIMAL) * share
        draws = np.empty(0) if width is None else value + (wide or 0.0) * rng.normal(size=400)
        return Drawn(value=value, draws=draws)

    return calibrated_curve(
        encoder=encoder,
        task="normals",
        metric=metric,
        unit="degrees",
        dataset="shapes-10-classes",
        protocol="zoo-curve-normals-1",
        frozen=frozen,
        regimes=[(each, each) for each in n],
        risks=[drawn(share) for share in (calibrated or [0.6 * share for share in scratch])],
        scratch=[drawn(share) for share in scratch],
        blind=drawn(1.0, 0.0),
        maximal=drawn(0.0, 0.1),
        n_seeds=[3] * len(n),
        n_test=1000,
        maximal_n=2 * n[-1],
    )


def strip(
    task: str = "depth",
    *,
    n_images: int = 3,
    encoders: Sequence[str] = ("pocket_simclr_rn_shapes",),
    n: Sequence[int] = (50, 200, 1000),
    px: int = 16,
) -> Strip:
    """Predictions that come closer to the truth with more labels; the first two rows of pixels have no truth."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(-1, 1, size=(n_images, 1 if task == "depth" else 3, px, px)).astype(np.float32)
    valid = np.ones((n_images, px, px), dtype=bool)
    valid[:, :2] = False
    blind = np.median(truth, axis=0, keepdims=True).repeat(n_images, axis=0)
    columns = [
        Column(name=name, n=each, maps=(truth * each / max(n) + blind * (1 - each / max(n))).astype(np.float32))
        for each in n
        for name in ("scratch", *encoders)
    ]
    return Strip(
        task=task,
        dataset="shapes-10-classes",
        unit="half widths of the image",
        valid=valid,
        truth=truth,
        blind=blind,
        images=rng.uniform(size=(n_images, px, px, 3)).astype(np.float32),
        maximal=truth,
        columns=columns,
    )
