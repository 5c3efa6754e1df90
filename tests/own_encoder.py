"""An encoder of a user's own with measurements, for the tests of studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.result_rows import user_of

MINE = "tiny_vitS16"  # of card_text
_PROBES = {
    "train -> val": ("1281167", "24.5"),
    "train 30-shot -> val": ("30000", "36"),
    "train 1% -> val": ("12811", "40"),
    "train 5-shot -> val": ("5000", "46"),
    "train 3-shot -> val": ("3000", "51"),
    "train -> train": ("1281167", "12"),
    "train minus subset -> subset": ("1231167", "22"),
}


def add_own_encoder(home: Path, monkeypatch: pytest.MonkeyPatch, *, splits: tuple[str, ...] = tuple(_PROBES)) -> str:
    """Makes ``home`` a zoo home with one more measured encoder; returns its id."""
    add_rows = user_of(home, monkeypatch)
    rows = [{"split": split, "n_train": _PROBES[split][0], "value": _PROBES[split][1]} for split in splits]
    blank = {"encoder": MINE, "ci_low": "", "ci_high": ""}
    twin = {"metric": "supervised_twin_error", "split": "train -> train", "n_train": "1281167", "value": "1.5"}
    (home / "metadata").mkdir()
    (home / "metadata" / "mine.toml").write_text(VALID)
    add_rows(*(blank | row for row in [*rows, twin]))
    return MINE
