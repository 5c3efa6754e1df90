"""Image sets in tables: a CSV or TSV file of paths and labels, maybe with columns of splits, groups and tags.

A path is absolute, or below the folder of the table. Columns are found by their usual names (:data:`IMAGE_NAMES`,
:data:`LABEL_NAMES`, :data:`~zoo.datasets.parts.SPLIT_NAMES`), whatever their case, or named by the caller. Everything
that is wrong with a table is counted and said in one sentence, with the first line and the column.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ..errors import DataError, QueryError
from ..optional import requires_extra
from .endings import SUFFIXES
from .folders import files_image_set, read_below
from .groups import groups_of_names
from .images import NO_TAG, TAG_SEPARATOR, ImageData, ImageSet
from .labels import data_of, label_notes, spellings
from .parts import PART_OF, Rows, called_like_parts, rows_of_parts, split_column
from .rgb import WHITE, Scale

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
    fold_labels: bool = False,
) -> ImageData:
    """The images of a table: with a column of parts, train and the first of val and test that occurs; else split here.

    What is split here is stratified by class, with all images of a group on one side. Labels that are whole numbers are
    classes in their order, others by code points. In a multi-label set (``columns.labels``, or ``multi_label``) an
    image may have several tags: of columns of 0 and 1, or of one column with "|" or ";" between them. With
    ``fold_labels`` labels, or tags, that differ only in how they are written are one. A row that repeats another is
    left out.

    The fingerprint is over the paths as they are written, the bytes of the files, labels, classes, groups and tags, and
    over the orientations, kinds of values, scale and background of the images that are turned, scaled or transparent.
    """
    wanted = columns or Columns()
    table = read_table(file)
    at_image = _image_column(table, wanted.image)
    at_group = None if wanted.group is None else table.column(wanted.group)
    named = [name for name in (wanted.image, wanted.label, wanted.group, *wanted.labels) if name is not None]
    like = [] if wanted.split else called_like_parts(table.header, [table.header[table.column(one)] for one in named])
    usual = {name: table.columns[table.column(name)] for name in like}
    sure = next((name for name in like if name.casefold() == "split"), "")
    advice = "; --split-column names a column of train, val or test"
    chosen, of_split = split_column(usual, sure=sure, advice=advice)
    at_split = table.column(wanted.split or chosen) if wanted.split or chosen else None
    parts = None if at_split is None else _parts(table, at_split)
    rows = np.arange(len(table)) if parts is None else np.concatenate(list(parts.values()))
    n_train = len(rows) if parts is None else len(parts["train"])
    paths, files = _paths(table, at_image, rows)
    taken = {number for number in (at_image, at_split, at_group, *map(table.column, like)) if number is not None}
    labels, classes, tags, joined = _labels(table, wanted, taken, rows, fold_labels=fold_labels)
    groups = None if at_group is None else _groups(table, at_group, rows)
    notes = (*of_split, *joined, *_notes(table, wanted, taken, n_used=len(rows), parts=parts))
    kept = _distinct(table, at_image, rows, files, n_train, labels, groups)
    if len(kept) < len(rows):
        n = len(rows) - len(kept)
        repeat = "row repeats an earlier one and is" if n == 1 else "rows repeat an earlier one and are"
        notes = (*notes, f"{n:,} {repeat} left out")
        rows, labels, n_train = rows[kept], labels[kept], int((kept < n_train).sum())
        paths, groups = [paths[place] for place in kept.tolist()], None if groups is None else groups[kept]

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
        return data_of([image_set(slice(None), "all")], val_share=val_share, seed=seed)
    _require_taught(table, labels, classes, tags, n_train, rows)
    return data_of([image_set(slice(n_train), "train"), image_set(slice(n_train, None), "val")])


def read_table(file: Path) -> Table:
    """The cells of a CSV or TSV file in UTF-8: quoted as RFC 4180 has it, with commas, semicolons or tabs between."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as opened:
            first = next((line for line in opened if line.strip()), "")
            opened.seek(0)
            reader = csv.reader(opened, delimiter=_delimiter(first, file), strict=True)
            filled = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
            header = tuple(cell.strip() for cell in next(filled, (0, []))[1])
            cells: tuple[list[str], ...] = tuple([] for _ in header)
            lines, uneven = array("q"), []
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


def _parts(table: Table, at: int) -> Rows:
    """Rows of the training part, and of the first of val and test that occurs."""
    column, name = table.columns[at], table.header[at]
    unknown = [row for row, cell in enumerate(column) if cell.casefold() not in PART_OF]
    if unknown:
        raise DataError(
            f"{len(unknown):,} of {len(table):,} rows of {table.file} have no part in the column {name!r}, "
            f"the first is {table.first_of(unknown)} with {column[unknown[0]]!r}; expected train, val or "
            "test in each, or another column (--split-column)."
        )
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
    column, name, root = table.columns[at], table.header[at], str(table.file.parent)
    given = [column[row] for row in rows.tolist()]
    paths = [
        path.replace("\\", "/") if "\\" in path and not os.path.isfile(os.path.join(root, path)) else path
        for path in given
    ]
    if empty := [row for row in rows.tolist() if not column[row]]:
        raise DataError(
            f"{len(empty):,} rows of {table.file} have no path in the column {name!r}, the first is "
            f"{table.first_of(empty)}; name an image in each."
        )
    files = [os.path.normpath(os.path.join(root, path)) for path in paths]
    missing = [place for place, file in enumerate(files) if not os.path.isfile(file)]
    if missing:
        first = missing[0]
        ending = next((end for end in SUFFIXES if os.path.isfile(files[first] + end)), None)
        advice = f"add the ending {ending}" if ending else "paths are absolute, or below the folder of the table"
        raise DataError(
            f"{len(missing):,} of {len(paths):,} images of {table.file} are not there, the first is {given[first]!r} "
            f"in line {table.lines[int(rows[first])]}, column {name!r}, looked for as {files[first]}; {advice}."
        )
    return paths, files


def _distinct(
    table: Table,
    at: int,
    rows: NDArray[np.int64],
    files: list[str],
    n_train: int,
    labels: NDArray[np.int64],
    groups: NDArray[np.uint64] | None,
) -> NDArray[np.int64]:
    """Places among the rows without those that repeat an earlier one; refuses rows that say something else of it."""
    of_group = [0] * len(rows) if groups is None else groups.tolist()
    facts = [
        (label, place < n_train, group)
        for place, (label, group) in enumerate(zip(labels.tolist(), of_group, strict=True))
    ]
    first: dict[str, int] = {}
    repeated = [(one, place) for place, file in enumerate(files) if (one := first.setdefault(file, place)) != place]
    if contrary := [pair for pair in repeated if facts[pair[0]] != facts[pair[1]]]:
        one, other = (int(rows[place]) for place in contrary[0])
        raise DataError(
            f"{len(contrary):,} rows of {table.file} name an image in the column {table.header[at]!r} that an earlier "
            f"row names with another label, part or group, the first is {table.columns[at][other]!r} in the lines "
            f"{table.lines[one]} and {table.lines[other]}; expected one row an image, with several labels in one cell "
            f"as 'a{TAG_SEPARATOR}b' (--multi-label)."
        )
    return np.fromiter(first.values(), np.int64)


Labels = tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...], list[str]]  # of classes, classes, tags, notes


def _labels(table: Table, wanted: Columns, taken: set[int], rows: NDArray[np.int64], *, fold_labels: bool) -> Labels:
    if wanted.labels:
        if wanted.label is not None:
            raise QueryError("Got a column of labels and columns of 0 and 1; expected one of them.")
        return _indicated(table, [table.column(name) for name in wanted.labels], rows, fold_labels)
    at = table.column(wanted.label) if wanted.label is not None else table.usual(LABEL_NAMES)
    if at is not None and at in taken:
        raise QueryError(f"The column {table.header[at]!r} of {table.file} was named for two things; name another one.")
    if wanted.multi_label:
        if at is not None:
            return _written(table, at, rows, fold_labels)
        found = _indicator_columns(table, taken)
        if len(found) < 2:
            raise DataError(
                f"{table.file} has {len(found)} columns of 0 and 1 and no column of labels ({', '.join(LABEL_NAMES)}); "
                "expected two columns or more with one tag each, or one with tags (--label-column)."
            )
        return _indicated(table, found, rows, fold_labels)
    if at is None:
        several = [table.header[number] for number in _indicator_columns(table, taken)]
        hint = f", or --multi-label for the columns of 0 and 1 ({', '.join(several[:5])})" if len(several) > 1 else ""
        raise DataError(
            f"{table.file} has no column of labels under a usual name ({', '.join(LABEL_NAMES)}); its columns are "
            f"{table._listed()}: say which with --label-column, or label_column= in Python{hint}."
        )
    return _classes(table, at, rows, fold_labels)


def _classes(table: Table, at: int, rows: NDArray[np.int64], fold_labels: bool) -> Labels:
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
    classes, number, notes = _in_order(Counter(given), "labels", fold_labels)
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


def _indicator_columns(table: Table, taken: set[int]) -> list[int]:
    """Columns that hold 0 and 1 alone, and are nothing else."""
    others = (number for number in range(len(table.header)) if number not in taken)
    return [at for at in others if {cell.casefold() for cell in set(table.columns[at])} <= _BINARY.keys()]


def _indicated(table: Table, numbers: Sequence[int], rows: NDArray[np.int64], fold_labels: bool) -> Labels:
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
    alike = spellings(dict(zip(tags, has.sum(axis=0).tolist(), strict=True))) if fold_labels else []
    for first, *others in alike:
        places = [tags.index(tag) for tag in (first, *others)]
        has[:, places[0]] = has[:, places].any(axis=1)
        kept = [tag not in others for tag in tags]
        has, tags = has[:, kept], tuple(tag for tag in tags if tag not in others)
    return _combined(table, has, tags, label_notes(alike, what="tags", joined=True))


def _written(table: Table, at: int, rows: NDArray[np.int64], fold_labels: bool) -> Labels:
    """Tags of one column, with | or ; between them; an empty cell has none."""
    column = table.columns[at]
    of_cell = {
        cell: tuple(filter(None, (tag.strip() for tag in _SEPARATORS.split(cell))))
        for cell in {column[row] for row in rows.tolist()}
    }
    counts = Counter(tag for row in rows.tolist() for tag in of_cell[column[row]])
    tags, place, notes = _in_order(counts, "tags", fold_labels)
    if len(tags) < 2:
        raise DataError(
            f"The images of {table.file} have {len(tags)} tags in the column {table.header[at]!r}; expected two or "
            "more, with | or ; between those of an image."
        )
    has = np.zeros((len(rows), len(tags)), bool)
    for number, row in enumerate(rows.tolist()):
        has[number, [place[tag] for tag in of_cell[column[row]]]] = True
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
        alike = [group for group in spellings(dict.fromkeys(names, 1)) if unknown in group]
        advice = f": {label_notes(alike)[0]}" if alike else ""
        raise DataError(
            f"{wrong.size:,} test images of {table.file} have a {what} that no training image has, the first is in "
            f"line {table.lines[int(rows[n_train + wrong[0]])]} with {unknown!r}; expected every {what} among the "
            f"training images{advice}."
        )


def _has(classes: tuple[str, ...], tags: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which tags each class has, (n_classes, n_tags)."""
    return np.array([[tag in name.split(TAG_SEPARATOR) for tag in tags] for name in classes])


def _notes(table: Table, wanted: Columns, taken: set[int], *, n_used: int, parts: Rows | None) -> tuple[str, ...]:
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
