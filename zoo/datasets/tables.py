"""Image sets in tables: a CSV or TSV file of paths and labels, maybe with columns of splits, groups and tags.

A path is absolute, or below the folder of the table. Columns are found by their usual names (:data:`IMAGE_NAMES`,
:data:`LABEL_NAMES`, ``split``), whatever their case, or named by the caller. Everything that is wrong with a table is
counted and said in one sentence, with the first line and the column.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ..errors import DataError, QueryError
from ..optional import requires_extra
from .endings import SUFFIXES
from .folders import files_image_set, read_below
from .groups import groups_of_names
from .images import NO_TAG, TAG_SEPARATOR, ImageData, ImageSet
from .rgb import WHITE, Scale
from .subsets import stratified_split

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray

IMAGE_NAMES = ("path", "file", "image", "filename", "file_name", "filepath", "file_path", "image_path")
LABEL_NAMES = ("label", "class", "target")
SPLIT_NAMES = ("split",)
_LIKE_GROUPS = ("patient", "patient_id", "patientid", "subject", "subject_id", "case_id", "group", "slide_id")
_PARTS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_MISSING = frozenset(("", "nan", "na", "n/a", "<na>", "null"))
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_BINARY = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_SEPARATORS = re.compile(r"[|;]")
_ROWS_AT_A_TIME = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Which columns of a table are meant; None: by the usual names."""

    image: str | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()  # of 0 and 1, one a tag
    split: str | None = None
    group: str | None = None
    multi_label: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The cells of a file, without blanks around them; empty lines are left out."""

    file: Path
    header: tuple[str, ...]
    columns: tuple[list[str], ...]
    lines: Sequence[int]  # of each row, in the file, from 1

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> int:
        """The number of the column with this name, whatever its case if that is unique."""
        for same in (str, str.casefold):
            found = [number for number, other in enumerate(self.header) if same(other) == same(name)]
            if len(found) == 1:
                return found[0]
            if len(found) > 1:
                raise DataError(f"{self.file} has {len(found)} columns {name!r}; expected one, rename the others.")
        raise DataError(f"{self.file} has no column {name!r}; its columns are {self._listed()}.")

    def usual(self, names: Sequence[str]) -> int | None:
        """The first column that has one of these names; None if there is none."""
        folded = [name.casefold() for name in self.header]
        return next((self.column(name) for name in names if name in folded), None)

    def first_of(self, rows: NDArray[np.int64] | Sequence[int]) -> str:
        """The first of some rows, for a message."""
        return f"line {self.lines[int(rows[0])]}"

    def _listed(self) -> str:
        shown = ", ".join(map(repr, self.header[:12]))
        return shown if len(self.header) <= 12 else f"{shown} and {len(self.header) - 12} more"


def table_data(
    file: Path,
    *,
    name: str,
    val_share: float,
    seed: int,
    columns: Columns | None = None,
    scale: Scale | None = None,
    background: str = WHITE,
) -> ImageData:
    """The images of a table: with a column ``split``, train and the first of val and test that occurs; else split here.

    What is split here is stratified by class, with all images of a group on one side. Labels that are whole numbers are
    classes in their order, others by code points. In a multi-label set (``columns.labels``, or ``multi_label``) an
    image may have several tags: of columns of 0 and 1, or of one column with "|" or ";" between them.

    The fingerprint is over the paths as they are written, the bytes of the files, labels, classes, groups and tags, and
    over the orientations, kinds of values, scale and background of the images that are turned, scaled or transparent.
    """
    wanted = columns or Columns()
    table = read_table(file)
    at_image = _image_column(table, wanted.image)
    at_split = table.column(wanted.split) if wanted.split is not None else table.usual(SPLIT_NAMES)
    at_group = None if wanted.group is None else table.column(wanted.group)
    parts = None if at_split is None else _parts(table, at_split)
    rows = np.arange(len(table)) if parts is None else np.concatenate(list(parts.values()))
    paths = _paths(table, at_image, rows)
    taken = {number for number in (at_image, at_split, at_group) if number is not None}
    labels, classes, tags = _labels(table, wanted, taken, rows)
    groups = None if at_group is None else _groups(table, at_group, rows)
    notes = _notes(table, wanted, taken, n_used=len(rows), parts=parts)

    def image_set(of: slice, split: str) -> ImageSet:
        found = files_image_set(
            file.parent,
            paths[of],
            labels[of],
            classes,
            read=read_below,
            name=name,
            split=split,
            scale=scale,
            background=background,
            groups=None if groups is None else groups[of],
            tags=tags,
        )
        return replace(found, reading=replace(found.reading, notes=notes))

    if parts is None:
        _require_two_each(table, wanted, labels, classes, tags)
        return stratified_split(image_set(slice(None), "all"), val_share=val_share, seed=seed)
    n_train = len(next(iter(parts.values())))
    _require_taught(table, labels, classes, tags, n_train, rows)
    train, val = image_set(slice(n_train), "train"), image_set(slice(n_train, None), "val")
    return ImageData(name=name, train=train, val=val)


def read_table(file: Path) -> Table:
    """The cells of a CSV or TSV file in UTF-8: quoted as RFC 4180 has it, with commas, semicolons or tabs between."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as opened:
            first = opened.readline()
            opened.seek(0)
            reader = csv.reader(opened, delimiter=_delimiter(first, file), strict=True)
            header = tuple(cell.strip() for cell in next(reader, []))
            cells: tuple[list[str], ...] = tuple([] for _ in header)
            lines, uneven = array("q"), []
            filled = ((reader.line_num, row) for row in reader if any(row))
            while rows := list(islice(filled, _ROWS_AT_A_TIME)):
                uneven += [(line, len(row)) for line, row in rows if len(row) != len(header)]
                if uneven:
                    continue
                lines.extend(line for line, _ in rows)
                for column, values in zip(cells, zip(*(row for _, row in rows), strict=True), strict=True):
                    column.extend(sys.intern(value.strip()) for value in values)
    except FileNotFoundError as error:
        raise DataError(f"There is no file {file}; expected a table of paths and labels.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is no text in UTF-8 ({error.reason}); save it as CSV in UTF-8.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error}); check it.") from error
    except csv.Error as error:
        raise DataError(
            f"Line {reader.line_num} of {file} is no row of a table ({error}); check its quotes."
        ) from error
    if uneven:
        line, n = uneven[0]
        raise DataError(
            f"{len(uneven):,} rows of {file} do not have the {len(header)} cells of its first line, the first is line "
            f"{line} with {n}; put cells that hold the delimiter into double quotes."
        )
    if not len(lines):
        raise DataError(f"{file} holds no row below its first line; expected names of columns, then an image a row.")
    return Table(file=file, header=header, columns=cells, lines=lines)


def _delimiter(first: str, file: Path) -> str:
    """What stands most often between the names of the columns, outside of quotes."""
    counts = Counter(re.sub(r'"[^"]*"', "", first))
    usual = "\t" if file.suffix.lower() == ".tsv" else ","
    return max((usual, ",", ";", "\t"), key=lambda sign: counts[sign])


def _image_column(table: Table, name: str | None) -> int:
    if name is not None:
        return table.column(name)
    found = table.usual(IMAGE_NAMES)
    if found is None:
        raise DataError(
            f"{table.file} has no column of paths under a usual name ({', '.join(IMAGE_NAMES[:4])}); its columns are "
            f"{table._listed()}: say which with --image-column, or image_column= in Python."
        )
    return found


def _parts(table: Table, at: int) -> dict[str, NDArray[np.int64]]:
    """Rows of the training part, and of the first of val and test that occurs."""
    part_of = {value: part for part, values in _PARTS.items() for value in values}
    given = [part_of.get(cell.casefold(), "") for cell in table.columns[at]]
    unknown = [row for row, part in enumerate(given) if not part]
    if unknown:
        raise DataError(
            f"{len(unknown):,} of {len(table):,} rows of {table.file} have no part in the column {table.header[at]!r}, "
            f"the first is {table.first_of(unknown)} with {table.columns[at][unknown[0]]!r}; expected train, val or "
            "test in each, or another column (--split-column)."
        )
    split = np.array(given)
    second = next((part for part in ("val", "test") if (split == part).any()), None)
    if second is None or not (split == "train").any():
        raise DataError(
            f"All {len(table):,} rows of {table.file} are {given[0]!r} in the column {table.header[at]!r}; expected "
            "images to train on and images to test on: rename the column to have the images split here."
        )
    return {part: np.flatnonzero(split == part) for part in ("train", second)}


def _paths(table: Table, at: int, rows: NDArray[np.int64]) -> list[str]:
    """The paths of some rows; refuses empty ones, those of one file, and those of no file."""
    column, name = table.columns[at], table.header[at]
    paths = [column[row] for row in rows.tolist()]
    if empty := [row for row in rows.tolist() if not column[row]]:
        raise DataError(
            f"{len(empty):,} rows of {table.file} have no path in the column {name!r}, the first is "
            f"{table.first_of(empty)}; name an image in each."
        )
    root = str(table.file.parent)
    files = [os.path.normpath(os.path.join(root, path)) for path in paths]
    seen: dict[str, int] = {}
    repeated = [
        (seen[file], row) for file, row in zip(files, rows.tolist(), strict=True) if seen.setdefault(file, row) != row
    ]
    if repeated:
        one, other = repeated[0]
        raise DataError(
            f"{len(repeated):,} rows of {table.file} name an image in the column {name!r} that an earlier row names, "
            f"the first is {column[other]!r} in the lines {table.lines[one]} and {table.lines[other]}; expected one "
            f"row an image, with several labels in one cell as 'a{TAG_SEPARATOR}b' (--multi-label)."
        )
    missing = [place for place, file in enumerate(files) if not os.path.isfile(file)]
    if missing:
        first = missing[0]
        ending = next((end for end in SUFFIXES if os.path.isfile(files[first] + end)), None)
        advice = f"add the ending {ending}" if ending else "paths are absolute, or below the folder of the table"
        raise DataError(
            f"{len(missing):,} of {len(paths):,} images of {table.file} are not there, the first is {paths[first]!r} "
            f"in line {table.lines[int(rows[first])]}, column {name!r}, looked for as {files[first]}; {advice}."
        )
    return paths


Labels = tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]  # numbers of classes, classes, tags


def _labels(table: Table, wanted: Columns, taken: set[int], rows: NDArray[np.int64]) -> Labels:
    if wanted.labels:
        if wanted.label is not None:
            raise QueryError("Got a column of labels and columns of 0 and 1; expected one of them.")
        return _indicated(table, [table.column(name) for name in wanted.labels], rows)
    at = table.column(wanted.label) if wanted.label is not None else table.usual(LABEL_NAMES)
    if at is not None and at in taken:
        raise QueryError(f"The column {table.header[at]!r} of {table.file} was named for two things; name another one.")
    if wanted.multi_label:
        if at is not None:
            return _written(table, at, rows)
        found = _indicator_columns(table, taken)
        if len(found) < 2:
            raise DataError(
                f"{table.file} has {len(found)} columns of 0 and 1 and no column of labels ({', '.join(LABEL_NAMES)}); "
                "expected two columns or more with one tag each, or one with tags (--label-column)."
            )
        return _indicated(table, found, rows)
    if at is None:
        several = [table.header[number] for number in _indicator_columns(table, taken)]
        hint = f", or --multi-label for the columns of 0 and 1 ({', '.join(several[:5])})" if len(several) > 1 else ""
        raise DataError(
            f"{table.file} has no column of labels under a usual name ({', '.join(LABEL_NAMES)}); its columns are "
            f"{table._listed()}: say which with --label-column, or label_column= in Python{hint}."
        )
    return (*_classes(table, at, rows), ())


def _classes(table: Table, at: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    column, name = table.columns[at], table.header[at]
    given = [column[row] for row in rows.tolist()]
    missing = [row for row in rows.tolist() if column[row].casefold() in _MISSING]
    if missing:
        value = column[missing[0]]
        shown = f"holds {value!r}" if value else "is empty"
        raise DataError(
            f"{len(missing):,} of {len(rows):,} images of {table.file} have no label in the column {name!r}, which "
            f"{shown} in {table.first_of(missing)}; label them or leave them out."
        )
    classes, number = _in_order(set(given))
    if len(classes) == 1:
        raise DataError(
            f"All {len(rows):,} images of {table.file} have the label {classes[0]!r} in the column {name!r}; expected "
            "two classes or more."
        )
    if len(classes) == len(rows):
        raise DataError(
            f"All {len(rows):,} images of {table.file} have different labels in the column {name!r}, such as "
            f"{given[0]!r} in {table.first_of(rows)}; expected fewer classes than images: name a column of classes."
        )
    return np.array([number[label] for label in given], np.int64), classes


def _in_order(labels: set[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The classes of labels in their order, and the number of each label; 1 and 1.0 are one class."""
    if all(_WHOLE.fullmatch(label) for label in labels):
        as_numbers = {label: int(label.partition(".")[0]) for label in labels}
        classes = sorted(set(as_numbers.values()))
        place = {number: at for at, number in enumerate(classes)}
        return tuple(map(str, classes)), {label: place[number] for label, number in as_numbers.items()}
    ordered = tuple(sorted(labels))
    return ordered, {label: at for at, label in enumerate(ordered)}


def _indicator_columns(table: Table, taken: set[int]) -> list[int]:
    """Columns that hold 0 and 1 alone, and are nothing else."""
    others = (number for number in range(len(table.header)) if number not in taken)
    return [at for at in others if {cell.casefold() for cell in set(table.columns[at])} <= _BINARY.keys()]


def _indicated(table: Table, numbers: Sequence[int], rows: NDArray[np.int64]) -> Labels:
    """Tags of columns of 0 and 1."""
    tags = tuple(table.header[at] for at in numbers)
    if len(set(numbers)) < len(numbers) or len(tags) < 2:
        raise QueryError(f"Got the label columns {', '.join(tags)}; expected two or more, each once.")
    has = np.zeros((len(rows), len(tags)), bool)
    for place, at in enumerate(numbers):
        column = table.columns[at]
        known = {cell: _BINARY.get(cell.casefold()) for cell in set(column)}
        wrong = [row for row in rows.tolist() if known[column[row]] is None]
        if wrong:
            raise DataError(
                f"{len(wrong):,} of {len(rows):,} images of {table.file} have neither 0 nor 1 in the column "
                f"{table.header[at]!r}, the first is {column[wrong[0]]!r} in {table.first_of(wrong)}; say for each "
                "image whether it has the label, or leave it out."
            )
        has[:, place] = [known[column[row]] for row in rows.tolist()]
    return _combined(table, has, tags)


def _written(table: Table, at: int, rows: NDArray[np.int64]) -> Labels:
    """Tags of one column, with | or ; between them; an empty cell has none."""
    column = table.columns[at]
    of_cell = {
        cell: tuple(filter(None, (tag.strip() for tag in _SEPARATORS.split(cell))))
        for cell in {column[row] for row in rows.tolist()}
    }
    tags, place = _in_order({tag for found in of_cell.values() for tag in found})
    if len(tags) < 2:
        raise DataError(
            f"The images of {table.file} have {len(tags)} tags in the column {table.header[at]!r}; expected two or "
            "more, with | or ; between those of an image."
        )
    has = np.zeros((len(rows), len(tags)), bool)
    for number, row in enumerate(rows.tolist()):
        has[number, [place[tag] for tag in of_cell[column[row]]]] = True
    return _combined(table, has, tags)


def _combined(table: Table, has: NDArray[np.bool_], tags: tuple[str, ...]) -> Labels:
    """The combinations of tags that occur, as classes."""
    if odd := [tag for tag in tags if TAG_SEPARATOR in tag or not tag]:
        raise DataError(f"{table.file} has the tag {odd[0]!r}; expected a name without {TAG_SEPARATOR!r}.")
    everywhere = np.flatnonzero(has.all(axis=0) | ~has.any(axis=0))
    if everywhere.size:
        first = int(everywhere[0])
        who = "every image has" if has[0, first] else "no image has"
        raise DataError(
            f"{len(everywhere)} of {len(tags)} tags of {table.file} tell no images apart, the first is "
            f"{tags[first]!r}, which {who}; leave it out."
        )
    packed, number = np.unique(np.packbits(has, axis=1), axis=0, return_inverse=True)
    combinations = np.unpackbits(packed, axis=1, count=len(tags)).astype(bool)
    classes = tuple(TAG_SEPARATOR.join(np.array(tags)[row].tolist()) or NO_TAG for row in combinations)
    return number.reshape(-1).astype(np.int64), classes, tags


def _groups(table: Table, at: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    column, name = table.columns[at], table.header[at]
    missing = [row for row in rows.tolist() if column[row].casefold() in _MISSING]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(rows):,} images of {table.file} have no group in the column {name!r}, the first "
            f"is {table.first_of(missing)}; name one for each, such as the image itself."
        )
    groups = groups_of_names(column[row] for row in rows.tolist())
    if len(np.unique(groups)) == 1:
        raise DataError(
            f"All {len(rows):,} images of {table.file} are of the group {column[int(rows[0])]!r} in the column "
            f"{name!r}; expected several, of which some are to be tested on."
        )
    return groups


def _require_two_each(
    table: Table, wanted: Columns, labels: NDArray[np.int64], classes: tuple[str, ...], tags: tuple[str, ...]
) -> None:
    """Refuses a class, or a tag, that has one image, which cannot be on both sides of a split."""
    names, what = (tags, "tags") if tags else (classes, "classes")
    has = np.eye(len(classes), dtype=bool) if not tags else _has(classes, tags)
    counts = np.bincount(labels, minlength=len(classes)) @ has
    single = np.flatnonzero(counts == 1)
    if single.size:
        row = int(np.flatnonzero(has[labels, single[0]])[0])
        at = wanted.label or next((table.header[n] for n in [table.usual(LABEL_NAMES)] if n is not None), "label")
        where = f"column {names[int(single[0])]!r}" if wanted.labels else f"column {at!r}"
        raise DataError(
            f"{len(single):,} of {len(names):,} {what} of {table.file} have a single image, the first is "
            f"{names[int(single[0])]!r} in line {table.lines[row]}, {where}; expected one to train on and one to test "
            "on: add images or leave them out."
        )


def _require_taught(
    table: Table,
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    tags: tuple[str, ...],
    n_train: int,
    rows: NDArray[np.int64],
) -> None:
    """Refuses test images of a class, or with a tag, that no training image has."""
    has = np.eye(len(classes), dtype=bool) if not tags else _has(classes, tags)
    names, what = (tags, "tag") if tags else (classes, "class")
    taught = has[np.unique(labels[:n_train])].any(axis=0)
    new = has[labels[n_train:]] & ~taught
    wrong = np.flatnonzero(new.any(axis=1))
    if wrong.size:
        unknown = names[int(np.argmax(new[wrong[0]]))]
        raise DataError(
            f"{wrong.size:,} test images of {table.file} have a {what} that no training image has, the first is in "
            f"line {table.lines[int(rows[n_train + wrong[0]])]} with {unknown!r}; expected every {what} among the "
            "training images."
        )


def _has(classes: tuple[str, ...], tags: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which tags each class has, (n_classes, n_tags)."""
    return np.array([[tag in name.split(TAG_SEPARATOR) for tag in tags] for name in classes])


def _notes(
    table: Table, wanted: Columns, taken: set[int], *, n_used: int, parts: dict[str, NDArray[np.int64]] | None
) -> tuple[str, ...]:
    """What a user may want to know of how a table was read."""
    notes = []
    if parts is not None and n_used < len(table):
        notes.append(f"{len(table) - n_used:,} images of the part 'test' are left out, for there are some of 'val'")
    grouping = None if wanted.group is not None else table.usual(_LIKE_GROUPS)
    if grouping is not None and grouping not in taken and len(set(table.columns[grouping])) < len(table):
        name = table.header[grouping]
        notes.append(f"images with the same {name!r} may be on both sides; --group {name} keeps them together")
    at = None if wanted.multi_label or wanted.labels else table.usual(LABEL_NAMES)
    if at is not None and wanted.label is None and any(TAG_SEPARATOR in cell for cell in set(table.columns[at])):
        notes.append(f"labels with {TAG_SEPARATOR!r} are classes of their own; --multi-label takes them for several")
    return tuple(notes)
