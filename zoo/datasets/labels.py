"""Classes of data sets: labels that differ only in how they are written, and the classes of both parts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import isfinite

from ..errors import DataError, format_count, format_list
from ..optional import require_extra
from .folders import join_parts
from .images import ImageData, ImageSet, compute_digest, indicators_of, unify_copy_contents
from .split_names import is_generic_name, normalise_text, parse_part_name
from .subsets import split_stratified

with require_extra("models", needed_for="Working with images"):
    import numpy as np

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_TRUTHS = {"true": "1", "false": "0"}
_MISSING = frozenset(
    (
        *("", "?", "-", "--", "nan", "na", "n/a", "#n/a", "<na>", "null", "none", "unknown", "unlabeled", "unlabelled"),
        *("no_label", "no label", "nolabel"),
    )
)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?(?:[0-9]*,(?:[0-9]{1,2}|[0-9]{4,})|0,[0-9]{3})")  # 1,234 may be thousands
_CODE = re.compile(r"0[0-9]+")  # such as 007 or a postcode
_MOST_FRACTIONS = 30  # different numbers that may be classes, such as ratings by half stars
_SHARE_OF_NUMBERS = 0.9  # of the labels of a column that measures something
_FEWEST_NUMBERS = 3  # classes that are numbers, such as grades, of which a note is made
_AMOUNTS = frozenset(("age", "years", "months", "days", "count", "number", "height", "weight", "size", "score"))
_CLASS_WORDS = frozenset(("label", "labels", "class", "classes", "category", "species", "breed", "id", "code"))
_N_NAMED, _MANY = 5, 20


def normalise_label(text: str) -> str:
    """What labels have in common that differ only in case, Unicode form, spaces or how a number is written.

    >>> normalise_label("Cafe\\u0301  au lait") == normalise_label("CAF\\u00c9 au lait")
    True
    >>> normalise_label("01") == normalise_label("1.0")
    True
    """
    plain = normalise_text(text)
    if _NUMBER.fullmatch(plain):
        return str(Decimal(plain).normalize() + 0)  # -0 is 0
    plain = unicodedata.normalize("NFKC", plain.casefold())
    return _TRUTHS.get(plain, plain)


def find_missing_labels(labels: Collection[str]) -> set[str]:
    """Those labels that may stand for none: "NA", "?", "unknown", or the one whole number below 0 among others.

    >>> [sorted(find_missing_labels(labels)) for labels in (["cat", "None", "?"], ["0", "-1", "7"], ["-1", "1"])]
    [['?', 'None'], ['-1'], []]
    """
    missing = {label for label in labels if normalise_text(label).casefold() in _MISSING}
    keys = {label: normalise_label(label) for label in labels if label not in missing}
    below = {key for key in keys.values() if key.startswith("-")}
    others = set(keys.values()) - below
    if len(below) == 1 and others not in (set(), {"1"}) and all(map(str.isdecimal, others)) and "." not in min(below):
        missing |= {label for label, key in keys.items() if key in below}
    return missing


def read_number(text: str) -> float:
    """The number that a text is, with a decimal point or comma, in percent maybe; NaN if it is none.

    >>> read_number("31.42"), read_number("-1e3"), read_number("31,42 %"), read_number("1,234"), read_number("1_0")
    (31.42, -1000.0, 31.42, nan, nan)
    """
    plain = normalise_text(text).removesuffix("%").rstrip()
    if _DECIMAL_COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    return float(plain) if _DECIMAL.fullmatch(plain) else float("nan")


def is_measurement(counts: Mapping[str, int], name: str = "") -> bool:
    """Whether the labels of a column are numbers so many and so different that they measure something.

    Numbers with fractions are, and whole ones unless the name of the column says that they stand for classes, or they
    are the first numbers from 0 or 1, as numbers of classes are, and the name is none of an amount. A few texts among
    many numbers change nothing; numbers with zeros before them are codes.

    >>> [is_measurement(counts) for counts in ({"31.42": 1, "27.1": 1, "44.9": 1}, {"0.5": 30, "1": 40}, {"7": 1})]
    [True, False, False]
    >>> ages = {str(age): 1 for age in range(18, 90)}
    >>> is_measurement(ages, "age"), is_measurement(ages, "label")
    (True, False)
    >>> is_measurement({str(one): 5 for one in range(100)}, "y")
    False
    """
    numbers = {label: number for label in counts if isfinite(number := read_number(label))}
    values, n = set(numbers.values()), sum(counts.values())
    if sum(counts[label] for label in numbers) < _SHARE_OF_NUMBERS * n or any(map(_CODE.fullmatch, counts)):
        return False
    if any(value % 1 for value in values):
        return len(values) > min(_MOST_FRACTIONS, n / 3)
    is_amount, is_name = (bool(_words_of(name) & some) for some in (_AMOUNTS, _CLASS_WORDS))
    return len(values) > _MOST_FRACTIONS and not is_name and (is_amount or not _are_first(values))


def _are_first(values: Collection[float]) -> bool:
    """Whether whole numbers are the first from 0 or 1, as numbers of classes are, of which few may be missing."""
    return min(values, default=0) in (0, 1) and max(values, default=0) < len(values) / _SHARE_OF_NUMBERS


def _words_of(name: str) -> set[str]:
    return set(re.split(r"[\W_0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold()))


def describe_numeric_labels(counts: Mapping[str, int], name: str) -> list[str]:
    """A note on labels that are numbers and were taken for classes, unless the name of their column says so.

    Many that leave numbers out, or begin elsewhere than classes do, may be ages whatever the name is.
    """
    values = {read_number(one) for one in counts}
    is_name = _CLASS_WORDS & _words_of(name) and (len(values) <= _MOST_FRACTIONS or _are_first(values))
    if len(counts) < _FEWEST_NUMBERS or is_name or not all(map(isfinite, values)) or any(map(_CODE.fullmatch, counts)):
        return []
    return [f"the {len(counts):,} numbers of {name!r} were taken for classes; --target number predicts them as numbers"]


def group_spellings(counts: Mapping[str, int]) -> list[list[str]]:
    """Labels that differ only in how they are written, together; first the one that most images have.

    >>> group_spellings({"cat": 3, "Cat": 5, "CAT": 3, "dog": 1})
    [['Cat', 'CAT', 'cat']]
    """
    alike: dict[str, list[str]] = {}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        alike.setdefault(normalise_label(label), []).append(label)
    return sorted(group for group in alike.values() if len(group) > 1)


def describe_label_spellings(
    groups: Sequence[Sequence[str]], *, what: str = "labels", joined: bool = False
) -> list[str]:
    """A sentence on labels, or tags, that differ only in how they are written."""
    if not groups:
        return []

    def shown(group: Sequence[str]) -> str:
        look_same = len(set(map(normalise_text, group))) < len(group)
        return ", ".join(ascii(label) if look_same else repr(label) for label in group)

    more = f"; and {len(groups) - _N_NAMED:,} more" if len(groups) > _N_NAMED else ""
    differ = f"{sum(map(len, groups)):,} {what} differ only in case, in Unicode form or in how a number is written"
    end = "--fold-labels has joined them under the first of each" if joined else "--fold-labels joins them"
    return [f"{differ}: {'; '.join(map(shown, groups[:_N_NAMED]))}{more}; {end}"]


def build_image_data(
    parts: Sequence[ImageSet],
    *,
    val_share: float = 0.2,
    seed: int = 0,
    fold_labels: bool = False,
    is_new: bool = False,
    split: Callable[..., ImageData] = split_stratified,
) -> ImageData:
    """A data set of its training and its test part, or of all images, which are split here.

    The parts may name different classes, as folders do where a class has no test image: the classes are then those of
    the training part. A class that test images alone have is refused. Images that show the same are copies, whatever
    their files. ``fold_labels`` joins labels that differ only in how they are written, into the one that most images
    have. Images without labels, and new ones that no source splits, are all in both parts.
    """
    if not parts[0].classes:
        parts = [join_parts(parts)]
        return ImageData(name=parts[0].name, train=parts[0], val=parts[0], all=parts[0])
    n_of = sum((Counter(_n_of_each(part)) for part in parts), Counter[str]())
    alike = group_spellings(n_of)
    if fold_labels and alike and not parts[0].tags:
        name_of = {name: group[0] for group in alike for name in group}
        notes = describe_label_spellings(alike, joined=True)
        parts = [_renamed(part, [name_of.get(name, name) for name in part.classes], notes) for part in parts]
    parts = unify_copy_contents(parts)
    if is_new and len(parts) == 1:
        return ImageData(name=parts[0].name, train=parts[0], val=parts[0], all=parts[0])
    if len(parts) == 1:
        return split(parts[0], val_share=val_share, seed=seed)
    train, val = parts
    n_train, n_val = _n_of_each(train), _n_of_each(val)
    if new := [name for name, n in n_val.items() if n and not n_train.get(name)]:
        written = [group for group in alike if set(group) & set(new) and set(group) & n_train.keys()]
        advice = f": {describe_label_spellings(written)[0]}" if written else ""
        what, n = "tag" if train.tags else "class", sum(n_val[name] for name in new)
        raise DataError(
            f"{format_count(n, 'test image')} of {val.name!r} {'has' if n == 1 else 'have'} a {what} that no training "
            f"image has, the first is {new[0]!r}; expected every {what} among the training images{advice}."
        )
    if train.classes != val.classes and not train.tags and not train.target:
        place = {name: i for i, name in enumerate(train.classes)}
        val = _relabelled(val, [place.get(name, 0) for name in val.classes], train.classes)
    return ImageData(name=train.name, train=train, val=val)


def _n_of_each(part: ImageSet) -> dict[str, int]:
    """How many images each class, or each tag of a multi-label set, has; of numbers nothing is asked."""
    if part.target:
        return {}
    if part.tags:
        return dict(zip(part.tags, indicators_of(part).sum(axis=0).tolist(), strict=True))
    return dict(zip(part.classes, part.n_per_class().tolist(), strict=True))


def _renamed(part: ImageSet, names: Sequence[str], notes: Sequence[str]) -> ImageSet:
    """The images with other names of their classes, of which some may be the same."""
    classes = tuple(dict.fromkeys(names))
    if part.classes == tuple(sorted(part.classes)):
        classes = tuple(sorted(classes))
    place = {name: i for i, name in enumerate(classes)}
    renamed = _relabelled(part, [place[name] for name in names], classes)
    return replace(renamed, reading=part.reading.with_notes(notes))


def _relabelled(part: ImageSet, number_of: Sequence[int], classes: tuple[str, ...]) -> ImageSet:
    labels = np.array(number_of, np.int64)[part.labels]
    fingerprint = compute_digest(["classes", part.fingerprint, *classes, labels.astype("<i8")])
    return replace(part, labels=labels, classes=classes, fingerprint=fingerprint)


def add_label_notes(data: ImageData, more: Sequence[str] = ()) -> ImageData:
    """The data set with notes on its labels, and ``more``."""
    return add_notes(data, [*more, *describe_class_doubts(data)])


def add_notes(data: ImageData, notes: Sequence[str], *, layout: str = "") -> ImageData:
    """The data set with notes on both parts, and how its source was understood."""

    def noted(part: ImageSet) -> ImageSet:
        return replace(part, reading=replace(part.reading.with_notes(notes), layout=layout or part.reading.layout))

    whole = data.all if data.all is None else noted(data.all)
    return replace(data, train=noted(data.train), val=noted(data.val), all=whole)


def describe_class_doubts(data: ImageData) -> list[str]:
    """Sentences on labels that differ only in how they are written or may stand for none, and on those without test."""
    if data.is_whole:
        return []
    what = "tags" if data.train.tags else "classes"
    n_train, n_test = _n_of_each(data.train), _n_of_each(data.val)
    n_of = Counter(n_train) + Counter(n_test)  # without those that no image has
    notes = describe_label_spellings(group_spellings(n_of), what="tags" if data.train.tags else "labels")
    if missing := sorted(find_missing_labels(n_of)):
        n, those = sum(n_of[name] for name in missing), format_list(map(repr, missing))
        some = format_count(n, "image has", "images have")
        notes.append(f"{some} {what} that may stand for no label, {those}; leave them out if they do")
    absent = [name for name, n in n_train.items() if n and not n_test[name]]
    if absent:
        has, covers = ("has", "it") if len(absent) == 1 else ("have", "them")
        notes.append(
            f"{len(absent):,} of {len(n_of):,} {what} {has} no test image, so that no test metric covers {covers}: "
            f"{format_list(map(repr, absent))}"
        )
    return notes


def find_doubts(data: ImageData) -> list[str]:
    """Sentences on what is likely to be misunderstood: classes that are parts or amounts, and very rare ones."""
    n_of = {name: n for name, n in (Counter(_n_of_each(data.train)) + Counter(_n_of_each(data.val))).items() if n}
    doubts = []
    if odd := [name for name in n_of if parse_part_name(name) or is_generic_name(name)]:
        names = format_list(map(repr, odd))
        doubts.append(f"of {len(n_of):,} classes {len(odd):,} have names of parts of a data set: {names}")
    if len(n_of) > _MANY and all(map(_NUMBER.fullmatch, n_of)):
        doubts.append(
            f"the {len(n_of):,} classes are numbers: of amounts, such as ages, classes are not the task; --target "
            "number predicts numbers"
        )
    if not n_of:
        return []
    most, least = max(n_of, key=n_of.__getitem__), min(n_of, key=n_of.__getitem__)
    if n_of[most] >= 100 * n_of[least]:
        doubts.append(f"{most!r} has {n_of[most]:,} images, {least!r} {n_of[least]:,}")
    if 2 * len(n_of) > sum(n_of.values()):
        doubts.append(f"{sum(n_of.values()):,} images have {len(n_of):,} classes, fewer than two images each")
    return doubts
