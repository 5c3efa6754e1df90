"""Parts of data sets: which words name the training, the validation and the test images, and columns that do; masks.

Names of folders, of shards, of arrays and values of columns are one vocabulary: :func:`parse_part_name`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import DataError, format_count
from ..optional import require_extra
from .images import ImageSet

with require_extra("models", needed_for="Working with images"):
    import numpy as np

    Rows = dict[str, np.ndarray]

SPLIT_NAMES = ("split", "subset", "partition", "set", "fold", "phase", "usage")  # from the most usual to the least
TRUTHS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True, "no": False, "yes": True}
"""How columns of 0 and 1 are written, whatever their case."""

MASK_WORDS = frozenset(
    (
        *("mask", "masks", "label", "labels", "annotation", "annotations", "annot", "gt", "groundtruth", "seg"),
        *("segmentation", "segmentations", "segmentationclass", "gtfine", "semantic", "trimaps", "targets"),
    )
)
"""Words of folders and columns that hold semantic masks."""

_SPLIT_WORDS = frozenset((*SPLIT_NAMES, "splits", "folds", "kfold"))
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
_MARKS = re.compile(r"^(?:(?:is|in|used?|for)[\W_]*)+|[\W_]*(?:flag|indicator|samples?)$", re.IGNORECASE)  # is_test
N_FIRST = 1024  # values by which a column is known that need not be read to its end
_MOST_VALUES = 100  # of a column that says parts: a ready split has a few words


def normalise_text(text: str) -> str:
    """A text without what is not seen: full-width forms, characters of no width, and spaces but one between words.

    >>> normalise_text(" \uff11\uff12\u200b  cm")
    '12 cm'
    """
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")
    return " ".join(text.split())


def parse_part_name(name: str) -> str | None:
    """The part that a name or a value says, "train", "val" or "test", whatever its case and punctuation; None if none.

    Words such as "set" and "images", and years, say nothing of it.

    >>> names = "Training", "test_set", "val2017", "PublicTest", "held-out", "train station", "3"
    >>> [parse_part_name(name) for name in names]
    ['train', 'test', 'val', 'val', 'test', None, None]
    """
    pieces = [piece.casefold() for piece in _BORDERS.split(normalise_text(name)) if not _YEAR.fullmatch(piece)]
    rest = "".join(piece for piece in pieces if piece not in _NEUTRAL) or "".join(pieces)
    for ending in ("", "set", "data", "images", "imgs"):  # trainset
        if part := _PART_OF.get(rest.removesuffix(ending)):
            return part
    return None


def is_like_split(name: str) -> bool:
    """Whether a column is called like one of parts, such as "Usage", "dataset_split" or "cv_fold"."""
    return not _SPLIT_WORDS.isdisjoint(piece.casefold() for piece in _BORDERS.split(name))


def is_generic_name(name: str) -> bool:
    """Whether the name of a folder is of words such as "images" and "data" alone.

    >>> is_generic_name("JPEGImages"), is_generic_name("image data"), is_generic_name("cats")
    (True, True, False)
    """
    return {piece.casefold() for piece in re.split(r"[\W_]+", name) if piece} <= _NEUTRAL


def find_part(name: str) -> str | None:
    """The part that a name, or else a word of it, says.

    >>> find_part("instances_train2017"), find_part("trainer")
    ('train', None)
    """
    return next(filter(None, map(parse_part_name, (name, *re.split(r"[\W_]+", name)))), None)


def group_names_by_part(names: Iterable[str]) -> dict[str, list[str]]:
    """Those names that say a part, by part, also with a number; or with a word that does if they differ in it alone.

    >>> group_names_by_part(["Testing", "Training", "docs", "test"])
    {'test': ['Testing', 'test'], 'train': ['Training']}
    >>> group_names_by_part(["seg_pred", "seg_test", "seg_train"]), group_names_by_part(["steam train", "test bench"])
    ({'test': ['seg_test'], 'train': ['seg_train']}, {})
    >>> group_names_by_part(["test1", "train"]), group_names_by_part(["testA", "testB", "trainA", "trainB"])
    ({'test': ['test1'], 'train': ['train']}, {'test': ['testA', 'testB'], 'train': ['trainA', 'trainB']})
    """
    found: dict[str, list[str]] = {}
    alike: dict[tuple[str, ...], dict[str, list[str]]] = {}  # by the other words
    numbered: dict[str, list[str]] = {}
    for name in names:
        words = split_words(name)
        if part := parse_part_name(name):
            found.setdefault(part, []).append(name)
        elif part := next(filter(None, map(parse_part_name, words)), None):
            others = tuple(word for word in words if not parse_part_name(word) and not _YEAR.fullmatch(word))
            alike.setdefault(others, {}).setdefault(part, []).append(name)
            if all(map(str.isdecimal, others)):
                numbered.setdefault(part, []).append(name)
    if found:
        return {**numbered, **found} if len(found) == 1 and "train" in {**numbered, **found} else found
    pairs = [parts for parts in alike.values() if "train" in parts and len(parts) > 1]
    return {part: [name for pair in pairs for name in pair.get(part, ())] for parts in pairs for part in parts}


def split_words(name: str) -> list[str]:
    """The words of a name, also between small and capital letters and at digits, but for those that say a part."""
    words = re.split(r"[\W_]+", name)
    return [piece for word in words for piece in ([word] if parse_part_name(word) else _BORDERS.split(word)) if piece]


def can_name_parts(name: str, values: Sequence[str]) -> bool:
    """Whether a column may say parts, by its name and its first values."""
    return is_like_split(name) or bool(_marked(name) or find_part(name)) or any(map(parse_part_name, set(values)))


def _marked(name: str) -> str | None:
    """The part that a column of 0 and 1 marks by its name, such as "is_test" or "isTrain"."""
    return parse_part_name(_MARKS.sub("", name)) or parse_part_name(name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenSplit:
    """What columns say of the parts of rows, and notes on that."""

    columns: tuple[str, ...]  # one of words, or those of 0 and 1 together; () if none says parts
    parts: Sequence[str]  # "train", "val" or "test" of each row, "" where none is said
    like: tuple[str, ...]  # columns that look like one of parts, used or not
    notes: tuple[str, ...]


def find_split(
    columns: Mapping[str, Sequence[str]], *, sure: str = "", has_labels: bool = True, advice: str = ""
) -> GivenSplit:
    """Which of some columns, without those meant for something else, say the part of each row.

    A column does whose values all name parts, with training and test images among them: the one with the most usual
    name, else the first; one called like it (:func:`is_like_split`) also if values are left over. Else columns of 0
    and 1 do whose names say a part, such as "is_test"; not bare ones, "train", where labels are such columns, too, nor
    "is_valid" of most images, which may say that they can be used.
    ``sure`` was asked for. ``advice`` is what a user can do about one that is not used.

    >>> find_split({"subset": ["0", "1"], "fold": ["Train", "val"]}).columns
    ('fold',)
    >>> find_split({"is_test": ["0", "1", "0"]}).parts
    ['train', 'test', 'train']
    """
    said, marks, others = dict[str, dict[str, str]](), dict[str, str](), dict[str, str]()
    for name in sorted(columns, key=_rank):
        values = set(columns[name])
        if len(values) > _MOST_VALUES and name != sure:
            continue
        said[name] = {value: parse_part_name(value) or "" for value in values}
        truths = {TRUTHS.get(value.casefold()) for value in values}
        if truths == {False, True} and (part := _marked(name) or (find_part(name) if has_labels else None)):
            is_tag = not _marked(name) or (name.casefold() in _PART_OF and not has_labels)  # or not surely a part
            n_set = sum(TRUTHS[value.casefold()] for value in columns[name])
            means_usable = part == "val" and 2 * n_set > len(columns[name])
            (others if (is_tag or means_usable) and name != sure else marks)[name] = part
    both = [name for name, of in said.items() if "train" in of.values() and {"val", "test"} & set(of.values())]
    naming = [one for one in both if is_like_split(one) or all(part for value, part in said[one].items() if value)]
    if sure and sure not in marks:
        naming = [sure, *(name for name in naming if name != sure)]
    used = (sure,) if sure in marks else tuple(naming[:1]) or tuple(marks)
    parts = _marked_rows(columns, {name: marks[name] for name in used}) if used and used[0] in marks else []
    if used and not parts:
        parts = [said[used[0]][value] for value in columns[used[0]]]
    rivals = [name for name in said if name not in used and name in {*naming, *marks}]
    odd = [name for name, of in said.items() if is_like_split(name) or len(set(of.values()) - {""}) > 1]
    like = tuple(dict.fromkeys((*used, *rivals, *odd)))
    which = " and of ".join(f"{name!r}" + f" (1: {marks.get(name)})" * (name in marks) for name in used)
    notes = [f"training and test images are those of the column {which}"] * bool(used and used != (sure,))
    how = "; --split-column {0} takes it for them" * bool(advice)
    notes += [f"the column {name!r} of 0 and 1 was not taken for parts{how.format(name)}" for name in others]
    if used:
        notes += [f"the column {one!r} was not used, for {used[0]!r} says which images are tested on" for one in rivals]
    else:
        notes += [_unused(name, columns[name], said[name]) + advice for name in odd]
    return GivenSplit(columns=used, parts=parts, like=like, notes=tuple(notes))


def _rank(name: str) -> int:
    """The place of a column among those that may say parts: usual names, then those that have a usual word."""
    usual = {one: place for place, one in enumerate(SPLIT_NAMES)}
    return usual.get(name.casefold(), len(usual) + (not is_like_split(name)))


def _unused(name: str, values: Sequence[str], of_value: Mapping[str, str]) -> str:
    """Why a column that looks like one of parts is none."""
    what, first = "its values name no training and test part, the first is", values[0]
    if len(set(of_value.values()) - {""}) > 1 and "" in of_value.values():
        what, first = "not all of its values name a part, as", next(value for value in values if not of_value[value])
    folds = "; for one of its folds add a column of train and test" * all(map(str.isdecimal, of_value))
    return f"the column {name!r} was not used ({what} {first!r}){folds}"


def _marked_rows(columns: Mapping[str, Sequence[str]], marks: Mapping[str, str]) -> list[str]:
    """The part of each row by columns of 0 and 1; what none marks is the part that they leave, "" if two do."""
    rest = next((part for part in ("train", "test", "val") if part not in marks.values()), "")
    cells = zip(*([TRUTHS[cell.casefold()] for cell in columns[name]] for name in marks), strict=True)
    rows = ({part for part, is_set in zip(marks.values(), row, strict=True) if is_set} for row in cells)
    return [next(iter(row), rest) if len(row) < 2 else "" for row in rows]


def group_rows_by_part(values: Sequence[str]) -> Rows:
    """Rows of the training part, and of the first of val and test that occurs, by "train" and "val" or "test"."""
    split = np.array([parse_part_name(value) or "" for value in values])
    parts = ("train", "val" if (split == "val").any() else "test")
    return {part: np.flatnonzero(split == part) for part in parts if (split == part).any()}


def split_by_columns(whole: ImageSet, columns: Mapping[str, Sequence[str]]) -> list[ImageSet]:
    """The training and the test part by one of some columns, a value per image; or the whole if none has parts."""
    found = find_split(columns)
    if n := sum(not part for part in found.parts):
        name = " and ".join(map(repr, found.columns))
        raise DataError(
            f"{n:,} of {len(whole):,} images of {whole.name!r} have no part in the column {name}, the first is "
            f"{whole.names[list(found.parts).index('')]!r}; expected train, val or test in each, or another name."
        )
    rows = group_rows_by_part(found.parts)
    notes = [*found.notes]
    if found.columns and (n := len(whole) - sum(map(len, rows.values()))):
        notes.append(format_count(n, "image of other parts is", "images of other parts are") + " left out")
    noted = replace(whole, reading=whole.reading.with_notes(notes))
    if not found.columns:
        return [noted]
    return [noted.subset(some, split="train" if part == "train" else "val") for part, some in rows.items()]
