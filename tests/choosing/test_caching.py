"""Kept predictions: a probe is trained where one is missing, and for what is missing alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.choosing.judging import Predict, Probe, cached
from zoo.errors import DataError

N_TEST = 12
X = np.arange(N_TEST, dtype=np.float32)[:, None]


class Counted:
    """A probe that says how often it was trained, and on which images it was asked."""

    def __init__(self) -> None:
        self.trained = 0
        self.asked: list[int] = []

    def __call__(self, name: str, rows: Any, x: Any, y: Any) -> Predict:
        self.trained += 1

        def predict(x_test: Any, rows_test: Any) -> Any:
            self.asked += rows_test.tolist()
            return x_test[:, 0].astype(np.int64) % 3

        return predict


def kept_in(folder: Path, probe: Counted, **facts: Any) -> Probe:
    return cached(probe, n_test=N_TEST, facts=lambda name: (folder, {"name": name, **facts}))


def ask(probe: Probe, rows_test: list[int], *, train: int = 5) -> list[int]:
    rows = np.arange(train)
    some = np.array(rows_test)
    found: list[int] = probe("a", rows, X[:train], rows % 2)(X[some], some).tolist()
    return found


def test_a_probe_is_trained_for_what_is_missing_alone(tmp_path: Path) -> None:
    counted = Counted()
    probe = kept_in(tmp_path, counted)
    assert ask(probe, [3, 1, 4]) == [0, 1, 1]
    assert ask(probe, [1, 4, 3]) == [1, 1, 0]
    assert (counted.trained, counted.asked) == (1, [3, 1, 4])
    assert ask(probe, [4, 5]) == [1, 2]
    assert (counted.trained, counted.asked) == (2, [3, 1, 4, 5])
    (path,) = tmp_path.glob("*.npy")
    path.write_bytes(path.read_bytes()[:20])  # damaged
    assert ask(probe, [0]) == [0]
    ask(probe, [0], train=6)
    ask(kept_in(tmp_path, counted, seed=1), [0])
    assert counted.trained == 5


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(DataError, match="taken"):
        ask(kept_in(tmp_path / "taken" / "below", Counted()), [0])
