"""Parts of data sets: which words name the training, the validation and the test images, and columns that do.

Names of folders, of shards, of arrays and values of columns are one vocabulary: :func:`part_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..optional import requires_extra
from .images import ImageSet

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

    Rows = dict[str, np.ndarray]

SPLIT_NAMES = ("split", "subset", "partition", "set", "fold", "phase")  # from the most usual to the least
_WORDS = {
    "train": ("train", "training", "trn", "trainval", "traindev"),
    "val": ("val", "valid", "validation", "validate", "validating", "dev", "publictest"),  # FER2013
    "test": ("test", "testing", "tst", "eval", "evaluation", "holdout", "heldout", "privatetest"),
}
_PART_OF = {word: part for part, words in _WORDS.items() for word in words}
_NEUTRAL = {
    *("set", "split", "part", "data", "dataset", "image", "images", "img", "imgs", "folder", "batch", "is"),
    *("jpg", "jpeg", "jpegimages", "png", "rgb"),
}
_BORDERS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=\D)(?=\d)|(?<=\d)(?=\D)")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")  # train2017


def part_of(name: str) -> str | None:
    """The part that a name or a value says, "train", "val" or "test", whatever its case and punctuation; None if none.

    Words such as "set" and "images", and years, say nothing of it.

    >>> [part_of(name) for name in ("Training", "test_set", "val2017", "PublicTest", "held-out", "train station", "3")]
    ['train', 'test', 'val', 'val', 'test', None, None]
    """
    pieces = [piece.casefold() for piece in _BORDERS.split(name) if not _YEAR.fullmatch(piece)]
    rest = "".join(piece for piece in pieces if piece not in _NEUTRAL) or "".join(pieces)
    for ending in ("", "set", "data", "images", "imgs"):  # trainset
        if part := _PART_OF.get(rest.removesuffix(ending)):
            return part
    return None


def says_nothing(name: str) -> bool:
    """Whether the name of a folder is of words such as "images" and "data" alone.

    >>> says_nothing("JPEGImages"), says_nothing("image data"), says_nothing("cats")
    (True, True, False)
    """
    return {piece.casefold() for piece in re.split(r"[\W_]+", name) if piece} <= _NEUTRAL


def part_in(name: str) -> str | None:
    """The part that a name, or else a word of it, says.

    >>> part_in("instances_train2017"), part_in("trainer")
    ('train', None)
    """
    return next(filter(None, map(part_of, (name, *re.split(r"[\W_]+", name)))), None)


def names_of_parts(names: Iterable[str]) -> dict[str, list[str]]:
    """Those names that say a part, by part; or those with a word that does where they differ in that word alone.

    >>> names_of_parts(["Testing", "Training", "docs", "test"])
    {'test': ['Testing', 'test'], 'train': ['Training']}
    >>> names_of_parts(["seg_pred", "seg_test", "seg_train"]), names_of_parts(["steam train", "test bench"])
    ({'test': ['seg_test'], 'train': ['seg_train']}, {})
    """
    found: dict[str, list[str]] = {}
    alike: dict[tuple[str, ...], dict[str, list[str]]] = {}  # by the other words
    for name in names:
        if part := part_of(name):
            found.setdefault(part, []).append(name)
        elif part := part_in(name):
            others = tuple(word for word in re.split(r"[\W_]+", name) if not part_of(word))
            alike.setdefault(others, {}).setdefault(part, []).append(name)
    pairs = [parts for parts in alike.values() if "train" in parts and len(parts) > 1]
    return pairs[0] if len(pairs) == 1 and not found else found


def split_column(columns: Mapping[str, Sequence[str]], *, sure: str = "", advice: str = "") -> tuple[str, list[str]]:
    """Which of some columns with usual names, the most usual first, has the parts ("": none), and notes on that.

    It names training and test images, or is ``sure``. ``advice`` is what a user can do about one that names none.

    >>> split_column({"subset": ["0", "1"], "fold": ["Train", "val"]})[0]
    'fold'
    """
    found = {name: {part_of(value) for value in set(values)} for name, values in columns.items()}
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
    split = np.array([part_of(value) or "" for value in values])
    parts = ("train", "val" if (split == "val").any() else "test")
    return {part: np.flatnonzero(split == part) for part in parts if (split == part).any()}


def called_like_parts(names: Iterable[str], meant: Sequence[str | None] = ()) -> list[str]:
    """Those names of columns that are usual for parts, the most usual first, without those meant for something else."""
    free = {name.casefold(): name for name in names if name not in meant}
    return [free[usual] for usual in SPLIT_NAMES if usual in free]


def in_parts(whole: ImageSet, columns: Mapping[str, Sequence[str]]) -> list[ImageSet]:
    """The training and the test part by one of some columns, a value an image; or the whole if none has parts."""
    chosen, notes = split_column(columns)
    rows = rows_of_parts(columns[chosen]) if chosen else {}
    if chosen and (n := len(whole) - sum(map(len, rows.values()))):
        notes.append(f"{n:,} images of other parts are left out")
    noted = replace(whole, reading=whole.reading.with_notes(notes))
    if not chosen:
        return [noted]
    return [noted.subset(some, split="train" if part == "train" else "val") for part, some in rows.items()]
