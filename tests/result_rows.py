"""Results files of a user, for the tests that add some."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo.results.values import COLUMNS

ROW = {
    "encoder": "dino_vitS16",
    "metric": "linear_probe_error",
    "dataset": "imagenet-1k",
    "split": "train -> val",
    "n_train": "1281167",
    "seed": "0",
    "value": "24.5",
    "unit": "percent",
    "ci_low": "24.1",
    "ci_high": "24.9",
    "protocol": "mine",
    "source": "me",
    "date": "2026-11-20",
}

ERRATUM = """[[erratum]]
encoder = "dino_vits16"
metric = "linear_probe_error"
kind = "suspicious"
reason = "Measured after lunch."
exclude = true
"""

AddRows = Callable[..., Path]


def user_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    """Makes ``home`` the zoo home; what it returns writes a results file, a row for each set of changes to ROW."""
    monkeypatch.setenv("ZOO_HOME", str(home))
    (home / "results").mkdir()

    def add(*changes: dict[str, str]) -> Path:
        path = home / "results" / "mine.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows({**ROW, **change} for change in changes)
        return path

    return add
