"""Image sets in tables: a CSV or TSV file of paths and labels, maybe with columns of splits, groups and tags.

A path is absolute, or below the folder of the table. Columns are found by their usual names (:data:`IMAGE_NAMES`,
:data:`LABEL_NAMES`, :data:`~zoo.datasets.labels.SPLIT_NAMES`), whatever their case, or named by the caller. What is
wrong with a table is counted and said in one sentence, with the first line and the column.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError, QueryError
from ..files import irregular, require_regular
from ..optional import requires_extra
from .folders import files_image_set
from .imagefiles import SUFFIXES, Show
from .images import NO_TAG, TAG_SEPARATOR, ImageData, ImageSet, groups_of_names
from .labels import PART_OF, Rows, called_like_parts, data_of, label_notes, rows_of_parts, spellings, split_column

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray

IMAGE_NAMES = ("path", "file", "image", "filename", "file_name", "filepath", "file_path", "image_path")
LABEL_NAMES = ("label", "class", "target")
_LIKE_GROUPS = ("patient", "patient_id", "patientid", "subject", "subject_id", "case_id", "group", "slide_id")
_MISSING = frozenset(("", "nan", "na", "n/a", "<na>", "null"))
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_BINARY = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_SEPARATORS = re.compile(r"[|;]")

Labels = tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...], list[str]]  # of classes, classes, tags, notes


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
    """The cells of a file, without blanks around them; lines without any are left out."""

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
        raise DataError(f"{self.file} has no column {name!r}; its columns are {self.listed()}.")

    def usual(self, names: Sequence[str]) -> int | None:
        """The first column that has one of these names; None if there is none."""
        folded = [name.casefold() for name in self.header]
        return next((self.column(name) for name in names if name in folded), None)

    def cells(self, at: int, rows: NDArray[np.int64]) -> list[str]:
        """Those of some rows in a column."""
        return [self.columns[at][row] for row in rows.tolist()]

    def listed(self) -> str:
        """Names of the columns, for messages."""
        shown = ", ".join(map(repr, self.header[:12]))
        return shown if len(self.header) <= 12 else f"{shown} and {len(self.header) - 12} more"

    def require(self, at: int, rows: NDArray[np.int64], wrong: Collection[str], what: str, advice: str) -> None:
        """Refuses cells of a column that are among the wrong ones."""
        found = [row for row in rows.tolist() if self.columns[at][row] in wrong]
        if found:
            raise DataError(
                f"{len(found):,} of {len(rows):,} images of {self.file} have {what} in the column {self.header[at]!r}, "
                f"the first is line {self.lines[found[0]]} with {self.columns[at][found[0]]!r}; {advice}."
            )


def table_data(file: Path, show: Show, columns: Columns, *, fold_labels: bool = False, **division: Any) -> ImageData:
    """The images of a table: with a column of parts, train and the first of val and test that occurs; else split here.

    What is split here is stratified by class, with all images of a group on one side. Labels that are whole numbers are
    classes in their order, others by code points. In a multi-label set (``columns.labels``, or ``multi_label``) an
    image may have several tags: of columns of 0 and 1, or of one column with "|" or ";" between them. With
    ``fold_labels`` labels, or tags, that differ only in how they are written are one. A row that repeats another is
    left out.

    The fingerprint is over the paths as they are written, the bytes of the files, labels, classes, groups and tags, and
    over the orientations, kinds of values, scale and background of the images that are turned, scaled or transparent.
    """
    table = read_table(file)
    at_image = table.usual(IMAGE_NAMES) if columns.image is None else table.column(columns.image)
    if at_image is None:
        raise DataError(
            f"{file} has no column of paths under a usual name ({', '.join(IMAGE_NAMES[:4])}); its columns are "
            f"{table.listed()}: say which with --image-column, or image_column= in Python."
        )
    at_group = None if columns.group is None else table.column(columns.group)
    named = [one for one in (columns.image, columns.label, columns.group, *columns.labels) if one is not None]
    like = [] if columns.split else called_like_parts(table.header, [table.header[table.column(one)] for one in named])
    chosen, of_split = split_column(
        {one: table.columns[table.column(one)] for one in like},
        sure=next((one for one in like if one.casefold() == "split"), ""),
        advice="; --split-column names a column of train, val or test",
    )
    at_split = table.column(columns.split or chosen) if columns.split or chosen else None
    parts = {"all": np.arange(len(table))} if at_split is None else _parts(table, at_split)
    rows, n_train = np.concatenate(list(parts.values())), len(next(iter(parts.values())))
    paths, files = _paths(table, at_image, rows)
    taken = {number for number in (at_image, at_split, at_group, *map(table.column, like)) if number is not None}
    labels, classes, tags, joined = _labels(table, columns, taken, rows, fold_labels)
    groups = None if at_group is None else _groups(table, at_group, rows)
    notes = [*of_split, *joined]
    if n := len(table) - len(rows):
        notes.append(f"{n:,} images of the part 'test' are left out, for there are some of 'val'")
    notes += _notes(table, columns, taken)
    kept = _distinct(table, rows, files, n_train, labels, groups)
    if n := len(rows) - len(kept):
        repeat = "row repeats an earlier one and is" if n == 1 else "rows repeat an earlier one and are"
        notes.append(f"{n:,} {repeat} left out")
        rows, labels, n_train = rows[kept], labels[kept], int((kept < n_train).sum())
        paths, groups = [paths[place] for place in kept.tolist()], None if groups is None else groups[kept]

    def image_set(of: slice, split: str) -> ImageSet:
        of_groups = None if groups is None else groups[of]
        found = files_image_set(
            file.parent, paths[of], labels[of], classes, show, split=split, groups=of_groups, tags=tags
        )
        return replace(found, reading=found.reading.with_notes(notes))

    if at_split is None:
        return data_of([image_set(slice(None), "all")], **division)
    return data_of([image_set(slice(n_train), "train"), image_set(slice(n_train, None), "val")])


def read_table(file: Path) -> Table:
    """The cells of a CSV or TSV file in UTF-8: quoted as RFC 4180 has it, with commas, semicolons or tabs between."""
    try:
        require_regular(file)
        with open(file, encoding="utf-8-sig", newline="") as opened:
            first = next((line for line in opened if line.strip()), "")
            opened.seek(0)
            reader = csv.reader(opened, delimiter=_delimiter(first, file), strict=True)
            filled = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
            header = tuple(cell.strip() for cell in next(filled, (0, []))[1])
            cells: tuple[list[str], ...] = tuple([] for _ in header)
            lines, uneven = [], []
            for line, row in filled:
                lines.append(line)
                uneven += [(line, len(row))] * (len(row) != len(header))
                for column, value in zip(cells, row, strict=False):
                    column.append(sys.intern(value.strip()))
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
    if not lines:
        raise DataError(f"{file} holds no row below its first line; expected names of columns, then an image a row.")
    return Table(file=file, header=header, columns=cells, lines=lines)


def _delimiter(first: str, file: Path) -> str:
    """What stands most often between the names of the columns, outside of quotes."""
    counts = Counter(re.sub(r'"[^"]*"', "", first))
    usual = "\t" if file.suffix.lower() == ".tsv" else ","
    return max((usual, ",", ";", "\t"), key=lambda sign: counts[sign])


def _parts(table: Table, at: int) -> Rows:
    """Rows of the training part, and of the first of val and test that occurs."""
    column, name = table.columns[at], table.header[at]
    unknown = {cell for cell in set(column) if cell.casefold() not in PART_OF}
    advice = "expected train, val or test in each, or another column (--split-column)"
    table.require(at, np.arange(len(table)), unknown, "no part", advice)
    parts = rows_of_parts(column)
    if len(parts) < 2 or "train" not in parts:
        raise DataError(
            f"All {len(table):,} rows of {table.file} are {PART_OF[column[0].casefold()]!r} in the column {name!r}; "
            "expected images to train on and images to test on: rename the column to have the images split here."
        )
    return parts


def _paths(table: Table, at: int, rows: NDArray[np.int64]) -> tuple[list[str], list[str]]:
    """The paths of some rows, and their files; refuses empty ones, and those of no file.

    A backslash is taken for a slash, as Windows writes it, where there is no file with a backslash in its name.
    """
    root, given = str(table.file.parent), table.cells(at, rows)
    table.require(at, rows, [""], "no path", "name an image in each")
    paths = [
        path.replace("\\", "/") if "\\" in path and not os.path.isfile(os.path.join(root, path)) else path
        for path in given
    ]
    files = [os.path.normpath(os.path.join(root, path)) for path in paths]
    if missing := [place for place, file in enumerate(files) if not os.path.isfile(file)]:
        first = missing[0]
        ending = next((end for end in SUFFIXES if os.path.isfile(files[first] + end)), None)
        advice = f"add the ending {ending}" if ending else "paths are absolute, or below the folder of the table"
        advice = f"it is a {odd}, no regular file" if (odd := irregular(files[first])) else advice
        raise DataError(
            f"{len(missing):,} of {len(paths):,} images of {table.file} are not there, the first is {given[first]!r} "
            f"in line {table.lines[int(rows[first])]}, column {table.header[at]!r}, looked for as {files[first]}; "
            f"{advice}."
        )
    return paths, files


def _distinct(
    table: Table,
    rows: NDArray[np.int64],
    files: list[str],
    n_train: int,
    labels: NDArray[np.int64],
    groups: NDArray[np.uint64] | None,
) -> NDArray[np.int64]:
    """Places among the rows without those that repeat an earlier one; refuses rows that say something else of it."""
    of_group = [0] * len(rows) if groups is None else groups.tolist()
    facts = list(zip(labels.tolist(), (np.arange(len(rows)) < n_train).tolist(), of_group, strict=True))
    first: dict[str, int] = {}
    contrary = [
        (one, place) for place, file in enumerate(files) if facts[one := first.setdefault(file, place)] != facts[place]
    ]
    if contrary:
        one, other = (int(rows[place]) for place in contrary[0])
        raise DataError(
            f"{len(contrary):,} rows of {table.file} name an image that an earlier row names with another label, part "
            f"or group, the first is {files[contrary[0][1]]} in the lines {table.lines[one]} and {table.lines[other]}; "
            f"expected one row an image, with several labels in one cell as 'a{TAG_SEPARATOR}b' (--multi-label)."
        )
    return np.fromiter(first.values(), np.int64)


def _labels(table: Table, wanted: Columns, taken: set[int], rows: NDArray[np.int64], fold_labels: bool) -> Labels:
    if wanted.labels:
        if wanted.label is not None:
            raise QueryError("Got a column of labels and columns of 0 and 1; expected one of them.")
        return _indicated(table, [table.column(name) for name in wanted.labels], rows, fold_labels)
    at = table.column(wanted.label) if wanted.label is not None else table.usual(LABEL_NAMES)
    if at is not None and at in taken:
        raise QueryError(f"The column {table.header[at]!r} of {table.file} was named for two things; name another one.")
    if at is not None:
        return (_written if wanted.multi_label else _classes)(table, at, rows, fold_labels)
    others = (number for number in range(len(table.header)) if number not in taken)
    binary = [at for at in others if {cell.casefold() for cell in set(table.columns[at])} <= _BINARY.keys()]
    if wanted.multi_label and len(binary) > 1:
        return _indicated(table, binary, rows, fold_labels)
    several = ", ".join(table.header[number] for number in binary[:5])
    hint = f", or --multi-label for the columns of 0 and 1 ({several})" if len(binary) > 1 else ""
    raise DataError(
        f"{table.file} has no column of labels under a usual name ({', '.join(LABEL_NAMES)})"
        f"{f' and {len(binary)} columns of 0 and 1' * wanted.multi_label}; its columns are {table.listed()}: say which "
        f"with --label-column, or label_column= in Python{hint}."
    )


def _classes(table: Table, at: int, rows: NDArray[np.int64], fold_labels: bool) -> Labels:
    name, given = table.header[at], table.cells(at, rows)
    missing = {cell for cell in set(given) if cell.casefold() in _MISSING}
    table.require(at, rows, missing, "no label", "label them or leave them out")
    classes, number, notes = _in_order(Counter(given), "labels", fold_labels)
    if len(classes) in (1, len(rows)):
        alike = f"the label {classes[0]!r}" if len(classes) == 1 else f"different labels, such as {given[0]!r},"
        raise DataError(
            f"All {len(rows):,} images of {table.file} have {alike} in the column {name!r}; expected two classes or "
            "more, and fewer than images: name a column of classes."
        )
    return np.array([number[label] for label in given], np.int64), classes, (), notes


def _in_order(
    labels: Mapping[str, int], what: str, fold_labels: bool
) -> tuple[tuple[str, ...], dict[str, int], list[str]]:
    """The classes of labels in their order, the number of each label, and notes; 1 and 1.0 are one class."""
    if fold_labels and (alike := spellings(labels)):
        name_of = {label: label for label in labels} | {label: group[0] for group in alike for label in group}
        classes, number, _ = _in_order(Counter(name_of.values()), what, False)
        notes = label_notes(alike, what=what, joined=True)
        return classes, {label: number[name] for label, name in name_of.items()}, notes
    if all(_WHOLE.fullmatch(label) for label in labels):
        as_numbers = {label: int(label.partition(".")[0]) for label in labels}
        values = sorted(set(as_numbers.values()))
        place = {number: at for at, number in enumerate(values)}
        return tuple(map(str, values)), {label: place[number] for label, number in as_numbers.items()}, []
    ordered = tuple(sorted(labels))
    return ordered, {label: at for at, label in enumerate(ordered)}, []


def _indicated(table: Table, numbers: Sequence[int], rows: NDArray[np.int64], fold_labels: bool) -> Labels:
    """Tags of columns of 0 and 1."""
    tags = tuple(table.header[at] for at in numbers)
    if len(set(numbers)) < len(numbers) or len(tags) < 2:
        raise QueryError(f"Got the label columns {', '.join(tags)}; expected two or more, each once.")
    advice = "say for each image whether it has the label, or leave it out"
    for at in numbers:
        wrong = {cell for cell in set(table.columns[at]) if cell.casefold() not in _BINARY}
        table.require(at, rows, wrong, "neither 0 nor 1", advice)
    has = np.array([[_BINARY[cell.casefold()] for cell in table.cells(at, rows)] for at in numbers], bool).T
    alike = spellings(dict(zip(tags, has.sum(axis=0).tolist(), strict=True))) if fold_labels else []
    for first, *others in alike:
        places = [tags.index(tag) for tag in (first, *others)]
        has[:, places[0]] = has[:, places].any(axis=1)
        kept = [tag not in others for tag in tags]
        has, tags = has[:, kept], tuple(tag for tag in tags if tag not in others)
    return _combined(table, has, tags, label_notes(alike, what="tags", joined=True))


def _written(table: Table, at: int, rows: NDArray[np.int64], fold_labels: bool) -> Labels:
    """Tags of one column, with | or ; between them; an empty cell has none."""
    cells = table.cells(at, rows)
    of_cell = {cell: list(filter(None, map(str.strip, _SEPARATORS.split(cell)))) for cell in set(cells)}
    tags, place, notes = _in_order(Counter(tag for cell in cells for tag in of_cell[cell]), "tags", fold_labels)
    if len(tags) < 2:
        raise DataError(
            f"The images of {table.file} have {len(tags)} tags in the column {table.header[at]!r}; expected two or "
            "more, with | or ; between those of an image."
        )
    has = np.zeros((len(rows), len(tags)), bool)
    for number, cell in enumerate(cells):
        has[number, [place[tag] for tag in of_cell[cell]]] = True
    return _combined(table, has, tags, notes)


def _combined(table: Table, has: NDArray[np.bool_], tags: tuple[str, ...], notes: list[str]) -> Labels:
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
    return number.reshape(-1).astype(np.int64), classes, tags, notes


def _groups(table: Table, at: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    cells = table.cells(at, rows)
    missing = {cell for cell in set(cells) if cell.casefold() in _MISSING}
    table.require(at, rows, missing, "no group", "name one for each, such as the image itself")
    if len(set(cells)) == 1:
        raise DataError(
            f"All {len(rows):,} images of {table.file} are of the group {cells[0]!r} in the column "
            f"{table.header[at]!r}; expected several, of which some are to be tested on."
        )
    return groups_of_names(cells)


def _notes(table: Table, wanted: Columns, taken: set[int]) -> list[str]:
    """What a user may want to know of columns that were not used."""
    notes = []
    grouping = None if wanted.group is not None else table.usual(_LIKE_GROUPS)
    if grouping is not None and grouping not in taken and len(set(table.columns[grouping])) < len(table):
        name = table.header[grouping]
        notes.append(f"images with the same {name!r} may be on both sides; --group {name} keeps them together")
    at = None if wanted.multi_label or wanted.labels else table.usual(LABEL_NAMES)
    if at is not None and wanted.label is None and any(TAG_SEPARATOR in cell for cell in set(table.columns[at])):
        notes.append(f"labels with {TAG_SEPARATOR!r} are classes of their own; --multi-label takes them for several")
    return notes
