"""LiDAR of features that were rounded before they came, by storage or by an encoder in half precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from zoo.evaluation.label_free import Monitor
from zoo.evaluation.label_free.scatter import lidar


def collapsed(n: int = 300, q: int = 5, rank: int = 20, dim: int = 128) -> np.ndarray:
    """Views of images that use a few directions only."""
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(n, 1, rank)) + 0.3 * rng.normal(size=(n, q, rank))
    found: np.ndarray = inner @ rng.normal(size=(rank, dim))
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_collapsed_representation_stays_so_in_every_precision(dtype: torch.dtype) -> None:
    z = collapsed()
    expected, half = lidar(z).value, torch.from_numpy(z).to(dtype)
    assert lidar(half).value == pytest.approx(expected, rel=0.01)
    assert lidar(half.float()).value == pytest.approx(expected, rel=0.01)
    monitor = Monitor()
    monitor.update(half)
    assert monitor.compute()["lidar"] == pytest.approx(expected, rel=0.01)


def test_sums_of_processes_remember_in_which_precision_features_came() -> None:
    z = torch.from_numpy(collapsed()).half()
    states = []
    for part in z.chunk(3):
        monitor = Monitor()
        monitor.update(part)
        states.append(monitor.state())
    both = Monitor.from_state({name: sum(state[name] for state in states) for name in states[0]})
    assert both.compute()["lidar"] == pytest.approx(lidar(collapsed()).value, rel=0.01)


@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e5), (np.float16, 10.0)])
def test_an_offset_far_above_the_spread_drops_no_column(dtype: Any, offset: float) -> None:
    generator = np.random.default_rng(0)
    spread = np.where(np.arange(30) < 15, 2.0, 0.3)
    z = generator.normal(size=(200, 1, 30)) * spread + generator.normal(size=(200, 8, 30)) * spread
    stored = (z + offset).astype(dtype)
    assert lidar(stored).rank_within == 30
    assert lidar(stored).value == pytest.approx(lidar(stored.astype(np.float64) - offset).value, rel=1e-6)
