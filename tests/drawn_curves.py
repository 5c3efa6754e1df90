"""Calibrated learning curves made of numbers, for tests of what draws and prints them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zoo.evaluation.bootstrap import Drawn
from zoo.evaluation.curves.curve import CalibratedCurve, calibrated_curve

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
