"""Columns that say which images are to be trained on and which are to be tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..optional import requires_extra
from .images import ImageSet

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

    Rows = dict[str, np.ndarray]

SPLIT_NAMES = ("split", "subset", "partition", "set", "fold", "phase")  # from the most usual to the least
_VALUES = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "validate", "dev"),
    "test": ("test", "testing", "tst", "eval", "evaluation", "holdout", "hold-out", "heldout", "held-out"),
}
PART_OF = {value: part for part, values in _VALUES.items() for value in values}
"""The part that a value names: train, val or test."""


def split_column(columns: Mapping[str, Sequence[str]], *, sure: str = "", advice: str = "") -> tuple[str, list[str]]:
    """Which of some columns with usual names, the most usual first, has the parts ("": none), and notes on that.

    It names training and test images, or is ``sure``. ``advice`` is what a user can do about one that names none.

    >>> split_column({"subset": ["0", "1"], "fold": ["Train", "val"]})[0]
    'fold'
    """
    found = {name: {PART_OF.get(value.casefold()) for value in set(values)} for name, values in columns.items()}
    naming = [name for name, parts in found.items() if name == sure or ("train" in parts and parts & {"val", "test"})]
    chosen = naming[0] if naming else ""
    notes = []
    if chosen and chosen != sure:
        notes.append(f"training and test images are those of the column {chosen!r}")
    for name, values in columns.items():
        if name != chosen and name in naming:
            notes.append(f"the column {name!r} was not used, for {chosen!r} says which images are tested on")
        elif not chosen:
            notes.append(
                f"the column {name!r} was not used (its values name no training and test part, the first is "
                f"{values[0]!r}){advice}"
            )
    return chosen, notes


def rows_of_parts(values: Sequence[str]) -> Rows:
    """Rows of the training part, and of the first of val and test that occurs, by "train" and "val" or "test"."""
    split = np.array([PART_OF.get(value.casefold(), "") for value in values])
    return {
        part: np.flatnonzero(split == part)
        for part in ("train", "val" if (split == "val").any() else "test")
        if (split == part).any()
    }


def called_like_parts(names: Sequence[str], meant: Sequence[str | None] = ()) -> list[str]:
    """Those names of columns that are usual for parts, the most usual first, without those meant for something else."""
    free = {name.casefold(): name for name in names if name not in meant}
    return [free[usual] for usual in SPLIT_NAMES if usual in free]


def in_parts(whole: ImageSet, columns: Mapping[str, Sequence[str]]) -> list[ImageSet]:
    """The training and the test part by one of some columns, a value an image; or the whole if none has parts."""
    chosen, notes = split_column(columns)
    rows = rows_of_parts(columns[chosen]) if chosen else {}
    if chosen and (n := len(whole) - sum(map(len, rows.values()))):
        notes.append(f"{n:,} images of other parts are left out")
    noted = replace(whole, reading=replace(whole.reading, notes=(*whole.reading.notes, *notes)))
    if not chosen:
        return [noted]
    return [noted.subset(some, split="train" if part == "train" else "val") for part, some in rows.items()]
