"""Image sets in tables: a CSV or TSV file of paths and labels, maybe with columns of splits, groups and tags.

A path is absolute, or below the folder of the table. Columns are found by their usual names (:data:`IMAGE_NAMES`,
:data:`LABEL_NAMES`, :data:`~zoo.datasets.split_names.SPLIT_NAMES`), whatever their case, or named by the caller. What
is wrong with a table is counted and said in one sentence, with the first line and the column.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError, QueryError, format_count, format_list
from ..files import describe_irregular_file, require_regular
from ..optional import require_extra
from .folders import list_tree, make_files_image_set
from .image_files import SUFFIXES, DisplayOptions
from .images import NO_LABEL, NO_TAG, TAG_SEPARATOR, ImageData, ImageSet, hash_group_names
from .labels import (
    build_image_data,
    describe_label_spellings,
    describe_numeric_labels,
    find_missing_labels,
    group_spellings,
    is_measurement,
    normalise_label,
    read_number,
)
from .split_names import TRUTHS, GivenSplit, Rows, find_split, group_rows_by_part

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from numpy.typing import NDArray

if TYPE_CHECKING:
    from .sources import SourceRequest

IMAGE_NAMES = ("path", "file", "image", "filename", "file_name", "filepath", "file_path", "image_path")
LABEL_NAMES = ("label", "class", "target")
# without signs; of each text one column, which is said
_LESS_SURE_IMAGES = ("img imagename imageid imageindex imgname imgpath imgid idcode isicid", "id name photo patientid")
_LESS_SURE_LABELS = (
    "labels classes targets labelname classname labelid classid y",
    "diagnosis dx category species breed finding findinglabels disease tags level grade",
)
_LIKE_GROUPS = (
    *("patient", "subject", "participant", "person", "individual", "case", "lesion", "slide", "group"),
    *("studyinstanceuid", "study", "seriesinstanceuid", "series", "scene", "video", "site"),
)
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
_UNCERTAIN = frozenset(("-1", "-1.0"))  # of CheXpert
_FOLDERS_DEEP = 2  # where images are looked for that are not below the folder of the table itself

Labels = tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...], list[str]]  # of classes, classes, tags, notes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelTable:
    """The cells of a file, without blanks around them; lines without any are left out."""

    file: Path
    header: tuple[str, ...]
    columns: tuple[list[str], ...]
    lines: Sequence[int]  # of each row, in the file, from 1
    notes: tuple[str, ...] = ()  # on how its cells were understood

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

    def less_sure(self, names: Sequence[str], taken: Collection[int | None], what: str) -> int | None:
        """The one column that has a name of the first of some texts; refuses two."""
        keys = [re.sub(r"[\W_]+", "", name.casefold()) for name in self.header]
        for some in names:
            found = [at for at, key in enumerate(keys) if key in some.split() and at not in taken]
            if len(found) > 1:
                shown = " and ".join(repr(self.header[at]) for at in found)
                raise DataError(f"{self.file} may have its {what}s in {shown}; say in which with --{what}-column.")
            if found:
                return found[0]
        return None

    def cells(self, at: int, rows: NDArray[np.int64]) -> list[str]:
        """Those of some rows in a column."""
        return [self.columns[at][row] for row in rows.tolist()]

    def listed(self) -> str:
        """Names of the columns, for messages."""
        return format_list(map(repr, self.header), 12)

    def require(self, at: int, rows: NDArray[np.int64], wrong: Collection[str], what: str, advice: str) -> None:
        """Refuses cells of a column that are among the wrong ones."""
        self.refuse(at, [row for row in rows.tolist() if self.columns[at][row] in wrong], len(rows), what, advice)

    def refuse(self, at: int, found: Sequence[int], n: int, what: str, advice: str) -> None:
        """Refuses these rows of n for what they have in a column, if there are any."""
        if found:
            raise DataError(
                f"{len(found):,} of {n:,} images of {self.file} have {what} in the column {self.header[at]!r}, the "
                f"first is line {self.lines[found[0]]} with {self.columns[at][found[0]]!r}; {advice}."
            )


def open_table_data(table: LabelTable, show: DisplayOptions, asked: SourceRequest) -> ImageData:
    """The images of a table in parts: by a column, train and the first of val and test; or split here.

    What is split here is stratified by class, with all images of a group on one side. Labels that are whole numbers are
    classes in their order, others by code points; columns of 0 and 1, of which each image has one, are classes. A row
    that repeats another is left out. Options are those of :func:`~zoo.datasets.open_images`.

    The fingerprint is over the paths as they are written (with the ending that was added to them), the bytes of the
    files, labels, classes, groups and tags, and over the orientations, kinds of values, scale and background of the
    images that are turned, scaled or transparent.
    """
    return build_image_data(read_table_parts(table, show, asked), **asked.division())


def read_table_parts(table: LabelTable, show: DisplayOptions, asked: SourceRequest) -> list[ImageSet]:
    """The training and the test part of a table; or all of its images, if no column says parts."""
    file = table.file
    at_image, notes = find_image_column(table, asked)
    at_group = None if asked.group is None else table.column(asked.group)
    at_label, of_label = _label_column(table, asked, [at_image, at_group])
    split = find_table_split(table, asked, [at_image, at_label, at_group])
    taken = {at_image, at_group, *map(table.column, split.like)}
    if at_label in taken and at_label is not None:
        raise QueryError(f"The column {table.header[at_label]!r} of {file} was named for two things; name another one.")
    parts = group_table_rows(table, split)
    if at_label is None and not (asked.multi_label or asked.label_columns or asked.is_unlabelled):
        table, at_label, of_label = _one_hot(table, taken, np.concatenate(list(parts.values())))
    n_of = {part: len(rows) for part, rows in parts.items()}
    parts, ignored = _without_ignored(table, asked, at_label, parts)
    rows, n_train = np.concatenate(list(parts.values())), len(next(iter(parts.values())))
    root, paths, of_files = locate_images(table, at_image, rows, asked.image_folder)
    files = [os.path.normpath(os.path.join(root, path)) for path in paths]
    target = _target(table, asked, at_label, rows)
    labels, classes, tags, joined = (
        _numbers(table, asked, at_label or 0, parts) if target else _labels(table, asked, at_label, taken, parts)
    )
    groups = None if at_group is None else hash_group_column(table, at_group, rows)
    notes += [
        *of_label,
        *([] if asked.split_column or asked.is_unlabelled else table.notes),
        *split.notes,
        *ignored,
        *of_files,
        *joined,
    ]
    if n := len(table) - sum(n_of.values()):
        of_test = format_count(n, "image of the part 'test' is", "images of the part 'test' are")
        notes.append(f"{of_test} left out, for there are some of 'val'")
    notes += [] if asked.is_unlabelled else _notes(table, asked, at_label, taken)
    kept = _distinct(table, rows, files, n_train, labels, groups)
    if n := len(rows) - len(kept):
        repeat = "row repeats an earlier one and is" if n == 1 else "rows repeat an earlier one and are"
        notes.append(f"{n:,} {repeat} left out")
        rows, labels, n_train = rows[kept], labels[kept], int((kept < n_train).sum())
        paths, groups = [paths[place] for place in kept.tolist()], None if groups is None else groups[kept]

    def image_set(of: slice, part: str) -> ImageSet:
        of_groups = None if groups is None else groups[of]
        found = make_files_image_set(
            root, paths[of], labels[of], classes, show, split=part, groups=of_groups, tags=tags
        )
        return replace(found, reading=found.reading.with_notes(notes), target=target)

    if len(parts) == 1:
        return [image_set(slice(None), "all")]
    return [image_set(slice(n_train), "train"), image_set(slice(n_train, None), "val")]


def read_table(file: Path) -> LabelTable:
    """The cells of a CSV or TSV file in UTF-8: quoted as RFC 4180 has it, with commas, semicolons or tabs between."""
    opened = io.StringIO(read_text(file), newline="")
    first = next((line for line in opened if line.strip()), "")
    opened.seek(0)
    reader = csv.reader(opened, delimiter=_delimiter(first, file), strict=True)
    filled = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
    try:
        header = tuple(cell.strip() for cell in next(filled, (0, []))[1])
        cells: tuple[list[str], ...] = tuple([] for _ in header)
        lines, uneven = [], []
        for line, row in filled:
            lines.append(line)
            uneven += [(line, len(row))] * (len(row) != len(header))
            for column, value in zip(cells, row, strict=False):
                column.append(sys.intern(value.strip()))
    except csv.Error as error:
        raise DataError(
            f"Line {reader.line_num} of {file} is no row of a table ({error}); check its quotes."
        ) from error
    if uneven:
        line, n = uneven[0]
        raise DataError(
            f"{file} has {format_count(len(uneven), 'row')} without the {len(header)} cells of its first line, the "
            f"first is line {line} with {n}; put cells that hold the delimiter into double quotes."
        )
    if not lines:
        raise DataError(f"{file} holds no row below its first line; expected names of columns, then an image per row.")
    return LabelTable(file=file, header=header, columns=cells, lines=lines)


def read_text(file: Path) -> str:
    """The text of a file in UTF-8, its ends of lines as they are."""
    try:
        require_regular(file)
        with open(file, encoding="utf-8-sig", newline="") as opened:
            return opened.read()
    except FileNotFoundError as error:
        raise DataError(f"There is no file {file}; expected one with paths and labels of images.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is no text in UTF-8 ({error.reason}); save it in UTF-8.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error}); check it.") from error


def _delimiter(first: str, file: Path) -> str:
    """What stands most often between the names of the columns, outside of quotes."""
    counts = Counter(re.sub(r'"[^"]*"', "", first))
    usual = "\t" if file.suffix.lower() == ".tsv" else ","
    return max((usual, ",", ";", "\t"), key=lambda sign: counts[sign])


def find_image_column(table: LabelTable, asked: SourceRequest) -> tuple[int, list[str]]:
    """The column of paths, and a note if its name was not sure to be one."""
    at = table.usual(IMAGE_NAMES) if asked.image_column is None else table.column(asked.image_column)
    if at is not None:
        return at, []
    named = (asked.label_column, asked.split_column, asked.group, *asked.label_columns)
    at = table.less_sure(_LESS_SURE_IMAGES, [table.column(one) for one in named if one is not None], "image")
    if at is None:
        ending = [at for at, cells in enumerate(table.columns) if all(one.lower().endswith(SUFFIXES) for one in cells)]
        at = ending[0] if len(ending) == 1 else None
    if at is None:
        raise DataError(
            f"{table.file} has no column of paths under a usual name ({', '.join(IMAGE_NAMES[:4])}); its columns are "
            f"{table.listed()}: say which with --image-column, or image_column= in Python."
        )
    return at, [f"images are those of the column {table.header[at]!r}"]


def _label_column(table: LabelTable, asked: SourceRequest, taken: Sequence[int | None]) -> tuple[int | None, list[str]]:
    """The column of labels, None if there is none, and a note if its name was not sure to be one."""
    if asked.label_columns and asked.label_column is not None:
        raise QueryError("Got a column of labels and columns of 0 and 1; expected one of them.")
    if asked.label_columns or asked.is_unlabelled:
        return None, []
    at = table.usual(LABEL_NAMES) if asked.label_column is None else table.column(asked.label_column)
    if at is not None or (asked.multi_label and len(_of_truths(table, taken)) > 1):
        others = [name for name in table.header if name.casefold() in LABEL_NAMES and table.column(name) != at]
        is_said = at is not None and asked.label_column is None and others
        return at, [
            f"labels are those of the column {table.header[at or 0]!r}, not of {others[0]!r}"
        ] if is_said else []
    split = None if asked.split_column is None else table.column(asked.split_column)
    at = table.less_sure(_LESS_SURE_LABELS, [*taken, split], "label")
    return at, [] if at is None else [f"labels are those of the column {table.header[at]!r}"]


def find_table_split(table: LabelTable, asked: SourceRequest, taken: Sequence[int | None]) -> GivenSplit:
    """What the columns that are not taken say of parts."""
    if asked.is_unlabelled:
        return GivenSplit(columns=(), parts=(), like=(), notes=())
    others = {*taken, *map(table.column, asked.label_columns)}
    named = None if asked.split_column is None else table.column(asked.split_column)
    free = {name: table.columns[at] for at, name in enumerate(table.header) if at not in others or at == named}
    usual = next((name for name in free if name.casefold() == "split"), "")
    found = find_split(
        free,
        sure=usual if named is None else table.header[named],
        has_labels=taken[1] is not None,
        advice="; --split-column names a column of train, val or test",
    )
    return found if named is None else replace(found, notes=())


def group_table_rows(table: LabelTable, split: GivenSplit) -> Rows:
    """Rows of the training part, and of the first of val and test that occurs; or all."""
    if not split.columns:
        return {"all": np.arange(len(table))}
    unknown = [row for row, part in enumerate(split.parts) if not part]
    advice = "expected train, val or test in each, or another column (--split-column)"
    table.refuse(table.column(split.columns[0]), unknown, len(table), "no part", advice)
    parts = group_rows_by_part(split.parts)
    if len(parts) < 2 or "train" not in parts:
        there = " or ".join(map(repr, sorted(set(split.parts))))
        raise DataError(
            f"All {len(table):,} rows of {table.file} are {there} in the column {split.columns[0]!r}; expected images "
            "to train on and images to test on: rename the column to have the images split here."
        )
    return parts


def _without_ignored(table: LabelTable, asked: SourceRequest, at: int | None, parts: Rows) -> tuple[Rows, list[str]]:
    """The parts without images of labels that are to be left out, and a note; without its test part one is all."""
    if not asked.ignore_labels or asked.is_unlabelled:
        return parts, []
    if at is None:
        raise QueryError(f"Tags of {table.file} are columns of 0 and 1, of which --ignore-label leaves none out.")
    cells, keys = table.columns[at], set(map(normalise_label, asked.ignore_labels))
    tags_of = _tags_of(cells, is_asked=True)[1] if asked.multi_label else {}
    out = {cell for cell in set(cells) if not keys.isdisjoint(map(normalise_label, (cell, *tags_of.get(cell, ()))))}
    kept = {part: rows[[cells[row] not in out for row in rows.tolist()]] for part, rows in parts.items()}
    n_out = sum(map(len, parts.values())) - sum(map(len, kept.values()))
    shown = " or ".join(map(repr, asked.ignore_labels))
    if not n_out or not len(next(iter(kept.values()))):
        some = "All training images" if n_out else "No images"
        raise QueryError(
            f"{some} of {table.file} have the label {shown} in {table.header[at]!r}; expected some of them."
        )
    notes = [f"{format_count(n_out, 'image')} with the label {shown} {'is' if n_out == 1 else 'are'} left out"]
    if gone := [part for part, rows in kept.items() if not len(rows)]:
        notes.append(f"no image of the part {gone[0]!r} has another label: some of the others are tested on")
        kept = {"all": kept["train"]}
    return kept, notes


def locate_images(
    table: LabelTable, at: int, rows: NDArray[np.int64], folder: str | os.PathLike[str] | None
) -> tuple[Path, list[str], list[str]]:
    """The folder that the paths of some rows are below, the paths, and notes; refuses empty ones, and those of no file.

    A backslash is taken for a slash, as Windows writes it, and what begins with a slash for a path below the folder, as
    Places365 writes it, where no file has the path as it is written. Names that no file has may lack an ending, or, if
    none of them has one, the folder of their images in that of the table.
    """
    root = table.file.parent if folder is None else Path(folder)
    if not root.is_dir():
        raise DataError(f"There is no folder {root}; expected that of the images of {table.file}.")
    given = table.cells(at, rows)
    table.require(at, rows, [""], "no path", "name an image in each")
    paths = [_below(root, path) if "\\" in path or path.startswith("/") else path for path in given]
    absent = [place for place, path in enumerate(paths) if not os.path.isfile(os.path.join(root, path))]
    if not absent:
        return root, paths, []
    places = _places(root, {paths[place] for place in absent}, 0 if len(absent) < len(paths) else _FOLDERS_DEEP)
    if missing := [place for place in absent if len(places[paths[place]]) != 1]:
        first = missing[0]
        several = " and ".join("".join((below, paths[first], end)) for below, end in places[paths[first]][:3])
        advice = f"there are {several}: say in which folder they are with --image-folder, or add endings to them"
        if not several:
            advice = "paths are absolute, or below the folder of the table, or that of --image-folder"
        at_first = os.path.join(root, paths[first])
        advice = f"it is a {odd}, no regular file" if (odd := describe_irregular_file(at_first)) else advice
        raise DataError(
            f"{len(missing):,} of {len(paths):,} images of {table.file} are not there, the first is {given[first]!r} "
            f"in line {table.lines[int(rows[first])]}, column {table.header[at]!r}, looked for as "
            f"{os.path.normpath(at_first)}; {advice}."
        )
    found = {paths[place]: places[paths[place]][0] for place in absent}
    folders, endings = (sorted(set(some) - {""}) for some in zip(*found.values(), strict=True))
    where = f" in {', '.join(folders[:3])}{', ...' * (len(folders) > 3)}" if folders else ""
    how = f" with the ending {' or '.join(endings)}" if endings else ""
    notes = [f"{len(absent):,} of {len(paths):,} names of images were found{where}{how}"]
    paths = ["".join((found[path][0], path, found[path][1])) if path in found else path for path in paths]
    if len(folders) == 1 and len({below for below, _ in found.values()}) == 1:  # as with --image-folder
        return root / folders[0], [path.removeprefix(folders[0]) for path in paths], notes
    return root, paths, notes


def _below(root: Path, path: str) -> str:
    """A path with the slashes that it needs where there is no file as it is written."""
    if os.path.isfile(os.path.join(root, path)):
        return path
    path = path.replace("\\", "/")
    inside = path.lstrip("/")
    return inside if os.path.isfile(os.path.join(root, inside)) else path


def _places(root: Path, names: Collection[str], depth: int) -> Mapping[str, list[tuple[str, str]]]:
    """Where the images with these names are in a folder: the folders above them, and the endings that they lack.

    It is one place for all if one has them all, of which the folder itself is before those in it.
    """
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    levels = {name.count("/") + 1 for name in names}
    for path in list_tree(root, depth + max(levels) - 1).paths():
        pieces = path.split("/")
        for n in levels:
            below, tail = "".join(f"{piece}/" for piece in pieces[:-n]), "/".join(pieces[-n:])
            stem, ending = os.path.splitext(tail)
            for name, lacking in ((tail, ""), (stem, ending)):
                if name in names and below.count("/") <= depth:
                    found[name].append((below, lacking))
    whole = [place for place, n in Counter(chain(*found.values())).items() if n == len(names)]
    whole = [place for place in whole if not place[0]] or whole
    return dict.fromkeys(names, whole) if len(whole) == 1 else found


def _distinct(
    table: LabelTable,
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
            f"{table.file} has {format_count(len(contrary), 'row')} with an image that an earlier row has with another "
            f"label, part or group, the first is {files[contrary[0][1]]} in the lines {table.lines[one]} and "
            f"{table.lines[other]}; expected one row per image, with several labels in one cell as "
            f"'a{TAG_SEPARATOR}b' (--multi-label)."
        )
    return np.fromiter(first.values(), np.int64)


def _labels(table: LabelTable, asked: SourceRequest, at: int | None, taken: set[int | None], parts: Rows) -> Labels:
    rows = np.concatenate(list(parts.values()))
    if asked.is_unlabelled:
        return np.full(len(rows), NO_LABEL, np.int64), (), (), []
    if asked.label_columns:
        return _indicated(table, asked, [table.column(name) for name in asked.label_columns], rows)
    if at is not None:
        return (_written if asked.multi_label else _classes)(table, asked, at, parts)
    binary = _of_truths(table, taken)
    if asked.multi_label and len(binary) > 1:
        return _indicated(table, asked, binary, rows)
    several = ", ".join(table.header[number] for number in binary[:5])
    hint = f", or --multi-label for the columns of 0 and 1 ({several})" if len(binary) > 1 else ""
    raise DataError(
        f"{table.file} has no column of labels under a usual name ({', '.join(LABEL_NAMES)})"
        f"{f' and {len(binary)} columns of 0 and 1' * asked.multi_label}; its columns are {table.listed()}: say which "
        f"with --label-column, or label_column= in Python{hint}."
    )


def _of_truths(table: LabelTable, taken: Collection[int | None]) -> list[int]:
    """Columns of 0 and 1, some of which may be blank or -1."""
    found = []
    for at, cells in enumerate(table.columns):
        values = set(cells)
        if at not in taken and len(values) <= len(TRUTHS):
            known = {TRUTHS.get(one.casefold()) for one in values - find_missing_labels(values) - _UNCERTAIN}
            found += [at] * (True in known and None not in known)
    return found


def _one_hot(
    table: LabelTable, taken: set[int | None], rows: NDArray[np.int64]
) -> tuple[LabelTable, int | None, list[str]]:
    """The table with a column of labels, where of those of 0 and 1 each image has one; None if there are none."""
    binary = _of_truths(table, taken)
    names = [table.header[at] for at in binary]
    marks = zip(*([bool(TRUTHS.get(cell.casefold())) for cell in table.columns[at]] for at in binary), strict=True)
    cells = [names[row.index(True)] if sum(row) == 1 else "" for row in marks]
    if len(binary) < 2 or not all(cells[row] for row in rows.tolist()):
        return table, None, []
    named = replace(table, header=(*table.header, f"{names[0]} to {names[-1]}"), columns=(*table.columns, cells))
    shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
    return named, len(table.header), [f"classes are the {len(names)} columns {shown}, of which each image has one"]


def _refuse_missing(
    table: LabelTable, asked: SourceRequest, at: int, parts: Rows, labels: Mapping[str, Collection[str]]
) -> None:
    """Refuses cells with labels that may stand for none, unless they are to be kept."""
    every = {""} if asked.keep_na else set(chain(*labels.values()))
    missing = find_missing_labels(set(chain(*labels.values()))) & every
    wrong = {cell for cell, some in labels.items() if not missing.isdisjoint(some)}
    if not wrong:
        return
    found = [[row for row in rows.tolist() if table.columns[at][row] in wrong] for rows in parts.values()]
    options = " ".join(f"--ignore-label {shlex.quote(one)}" for one in sorted(missing)[:5])
    advice = f"{options} leaves them out" + ", --keep-na takes them as they are" * (not asked.keep_na)
    (*_, last), n = parts, sum(map(len, parts.values()))
    if len(parts) > 1 and len(found[-1]) == len(parts[last]):
        advice = f"all of the part {last!r} are such, whose labels are withheld: {options} tests on some of the others"
    table.refuse(at, sorted(chain(*found)), n, "no label, or one that may stand for none,", advice)


def _classes(table: LabelTable, asked: SourceRequest, at: int, parts: Rows) -> Labels:
    name, given = table.header[at], table.cells(at, np.concatenate(list(parts.values())))
    _refuse_missing(table, asked, at, parts, {cell: [cell] for cell in set(given)})
    counts = Counter(given)
    classes, number, notes = _in_order(counts, "labels", asked.fold_labels)
    notes += describe_numeric_labels(counts, name) if asked.label_kind is None else []
    if len(classes) in (1, len(given)) and not asked.is_new:
        alike = f"the label {classes[0]!r}" if len(classes) == 1 else f"different labels, such as {given[0]!r},"
        raise DataError(
            f"All {len(given):,} images of {table.file} have {alike} in the column {name!r}; expected two classes or "
            "more, and fewer than images: name a column of classes."
        )
    return np.array([number[label] for label in given], np.int64), classes, (), notes


def _target(table: LabelTable, asked: SourceRequest, at: int | None, rows: NDArray[np.int64]) -> str:
    """The name of the column of labels if they are numbers, found or asked for; "" if they are classes or tags."""
    if asked.is_unlabelled or asked.label_kind == "class":
        return ""
    if asked.label_kind == "number" and (asked.multi_label or asked.label_columns):
        raise QueryError(
            f"Numbers of {table.file} were asked for, expected one column of them (--label-column), without "
            "--multi-label and --label-columns: a probe predicts one number per image."
        )
    if asked.label_kind == "number" and at is None:
        raise DataError(
            f"{table.file} has no column of numbers under a usual name ({', '.join(LABEL_NAMES[:3])}); its columns are "
            f"{table.listed()}: say which with --label-column, or label_column= in Python."
        )
    if at is None or asked.multi_label:
        return ""
    counts = Counter(table.cells(at, rows))
    known = {cell: counts[cell] for cell in counts.keys() - find_missing_labels(counts)}
    return table.header[at] if asked.label_kind == "number" or is_measurement(known, table.header[at]) else ""


def _numbers(table: LabelTable, asked: SourceRequest, at: int, parts: Rows) -> Labels:
    """The different numbers of a column, ascending, as classes; refuses what is none, and a column of one number."""
    rows = np.concatenate(list(parts.values()))
    name, given = table.header[at], table.cells(at, rows)
    _refuse_missing(table, asked, at, parts, {cell: [cell] for cell in set(given)})
    of_cell = {cell: read_number(cell) for cell in set(given)}
    wrong = {cell for cell, number in of_cell.items() if not np.isfinite(number)}
    advice = (
        f"--ignore-label {shlex.quote(min(wrong, default=''))} leaves such images out, --target class takes classes"
    )
    table.require(at, rows, wrong, "no finite number (or one that may have thousands behind a comma)", advice)
    values, number = np.unique([of_cell[cell] for cell in given], return_inverse=True)
    if len(values) == 1 and not asked.is_new:
        raise DataError(
            f"All {len(given):,} images of {table.file} have the number {given[0]!r} in the column {name!r}; expected "
            "several: name another column."
        )
    written = tuple(np.format_float_positional(value, trim="-") for value in values)
    notes = [f"the labels of {name!r} are numbers ({len(values):,} distinct): a regression probe"]
    if asked.label_kind is None:
        notes[0] += "; --target class takes them for classes"
    notes += ["commas in them are taken for decimal points"] * any("," in cell for cell in of_cell)
    return number.reshape(-1).astype(np.int64), written, (), notes


def _in_order(
    labels: Mapping[str, int], what: str, fold_labels: bool
) -> tuple[tuple[str, ...], dict[str, int], list[str]]:
    """The classes of labels in their order, the number of each label, and notes; 1 and 1.0 are one class."""
    if fold_labels and (alike := group_spellings(labels)):
        name_of = {label: label for label in labels} | {label: group[0] for group in alike for label in group}
        classes, number, _ = _in_order(Counter(name_of.values()), what, False)
        notes = describe_label_spellings(alike, what=what, joined=True)
        return classes, {label: number[name] for label, name in name_of.items()}, notes
    if all(_WHOLE.fullmatch(label) for label in labels):
        as_numbers = {label: int(label.partition(".")[0]) for label in labels}
        values = sorted(set(as_numbers.values()))
        place = {number: at for at, number in enumerate(values)}
        return tuple(map(str, values)), {label: place[number] for label, number in as_numbers.items()}, []
    ordered = tuple(sorted(labels))
    return ordered, {label: at for at, label in enumerate(ordered)}, []


def _indicated(table: LabelTable, asked: SourceRequest, numbers: Sequence[int], rows: NDArray[np.int64]) -> Labels:
    """Tags of columns of 0 and 1; blank cells count as 0."""
    tags = tuple(table.header[at] for at in numbers)
    if len(set(numbers)) < len(numbers) or len(tags) < 2:
        raise QueryError(f"Got the label columns {', '.join(tags)}; expected two or more, each once.")
    advice, is_positive = "say for each image whether it has the label, or leave it out", asked.uncertain == "positive"
    written = set(chain(*(table.cells(at, rows) for at in numbers)))
    is_signed = asked.uncertain is None and all(one in _UNCERTAIN or TRUTHS.get(one.casefold()) for one in written)
    has, n_blank, n_uncertain = np.zeros((len(rows), len(tags)), bool), 0, 0
    for place, at in enumerate(numbers):
        cells = table.cells(at, rows)
        blank = find_missing_labels(set(cells)) - _UNCERTAIN
        wrong = {cell for cell in set(cells) - blank - _UNCERTAIN if cell.casefold() not in TRUTHS}
        table.require(at, rows, wrong, "neither 0 nor 1", advice)
        if asked.uncertain is None and not is_signed:  # as CelebA, of 1 and -1 alone, is
            both = "--uncertain positive takes it for 1, --uncertain negative for 0"
            table.require(at, rows, _UNCERTAIN, "-1, which is uncertain,", both)
        has[:, place] = [TRUTHS.get(cell.casefold(), is_positive and cell in _UNCERTAIN) for cell in cells]
        n_blank += sum(cell in blank for cell in cells)
        n_uncertain += sum(cell in _UNCERTAIN for cell in cells)
    notes = [f"{n_blank:,} blank cells of {len(tags)} columns of tags count as 0"] * bool(n_blank)
    why = ", for the others have 1" * is_signed
    notes += [f"{n_uncertain:,} cells with -1 count as {is_positive:d}{why}"] * bool(n_uncertain)
    alike = group_spellings(dict(zip(tags, has.sum(axis=0).tolist(), strict=True))) if asked.fold_labels else []
    for first, *others in alike:
        places = [tags.index(tag) for tag in (first, *others)]
        has[:, places[0]] = has[:, places].any(axis=1)
        kept = [tag not in others for tag in tags]
        has, tags = has[:, kept], tuple(tag for tag in tags if tag not in others)
    return _combined(table, asked, has, tags, [*notes, *describe_label_spellings(alike, what="tags", joined=True)])


def _tags_of(cells: Collection[str], *, is_asked: bool) -> tuple[str, dict[str, list[str]]]:
    """What stands between the tags of some cells, "" if nothing does, and the tags of each.

    It is | or ;, else a comma, else a blank where the pieces recur, so that names of two words are not taken apart.

    >>> [_tags_of(cells, is_asked=True)[0] for cells in (["red 1", "red 2", "2 1", "red"], ["a b", "c"], ["a,b c"])]
    [' ', '', ',']
    """
    distinct = sorted(set(cells))
    for signs in ("|;", ",", " "):
        around = " []'\"" if signs == "," else " "  # Python writes lists so
        pieces = {cell: (one.strip(around) for one in re.split(f"[{signs}]", cell)) for cell in distinct}
        found = {cell: list(filter(None, some)) for cell, some in pieces.items()}
        several, every = [some for some in found.values() if len(some) > 1], set(chain(*found.values()))
        alone = {some[0] for some in found.values() if len(some) == 1}
        do_recur = 2 * len(every) <= len(distinct) or (len(every) < len(distinct) and alone & set(chain(*several)))
        if several and (signs == "|;" or do_recur or (is_asked and signs == ",")):
            return next(sign for sign in signs if any(sign in cell for cell in distinct)), found
    return "", {cell: [cell] * bool(cell) for cell in distinct}


def _written(table: LabelTable, asked: SourceRequest, at: int, parts: Rows) -> Labels:
    """Tags of one column, with a sign between them; an empty cell has none."""
    cells = table.cells(at, np.concatenate(list(parts.values())))
    sign, of_cell = _tags_of(cells, is_asked=True)
    _refuse_missing(table, asked, at, parts, of_cell)
    tags, place, notes = _in_order(Counter(tag for cell in cells for tag in of_cell[cell]), "tags", asked.fold_labels)
    if len(tags) < 2 and not asked.is_new:
        raise DataError(
            f"The images of {table.file} have {len(tags)} tags in the column {table.header[at]!r}; expected two or "
            "more, with | or ; between those of an image."
        )
    has = np.zeros((len(cells), len(tags)), bool)
    for number, cell in enumerate(cells):
        has[number, [place[tag] for tag in of_cell[cell]]] = True
    what = "a comma" if sign == "," else "blanks"
    notes += [f"{len(tags)} tags are told apart by {what} in the column {table.header[at]!r}"] * (sign in (",", " "))
    return _combined(table, asked, has, tags, notes)


def _combined(
    table: LabelTable, asked: SourceRequest, has: NDArray[np.bool_], tags: tuple[str, ...], notes: list[str]
) -> Labels:
    """The combinations of tags that occur, as classes."""
    if odd := [tag for tag in tags if TAG_SEPARATOR in tag or not tag]:
        raise DataError(f"{table.file} has the tag {odd[0]!r}; expected a name without {TAG_SEPARATOR!r}.")
    everywhere = np.flatnonzero(has.all(axis=0) | ~has.any(axis=0))
    if everywhere.size and not asked.is_new:
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


def hash_group_column(table: LabelTable, at: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hashes of the groups of some rows; refuses rows without one, and a single group."""
    cells = table.cells(at, rows)
    table.require(at, rows, find_missing_labels(set(cells)), "no group", "name one for each, such as the image itself")
    if len(set(cells)) == 1:
        raise DataError(
            f"All {len(rows):,} images of {table.file} are of the group {cells[0]!r} in the column "
            f"{table.header[at]!r}; expected several, of which some are to be tested on."
        )
    return hash_group_names(cells)


def find_group_column(names: Sequence[str]) -> str | None:
    """The first column whose name says what several images may be of, whatever its case, blanks and signs."""
    key_of = {name: re.sub(r"[\W_]+", "", name.casefold()) for name in names}
    fitting = ((name, word) for word in _LIKE_GROUPS for name in names if key_of[name] in (word, f"{word}id"))
    return next((name for name, _ in fitting), None)


def suggest_groups(table: LabelTable, asked: SourceRequest, taken: Collection[int | None]) -> list[str]:
    """A note on a column that seems to have groups and was not asked for."""
    recurs = (at not in taken and 1 < len(set(cells)) < len(table) for at, cells in enumerate(table.columns))
    name = None if asked.group is not None else find_group_column(list(compress(table.header, recurs)))
    if name is None:
        return []
    how = f"--group {shlex.quote(name)} keeps them together"
    return [f"images with the same {name!r} may be on both sides; {how}"]


def _notes(table: LabelTable, asked: SourceRequest, at: int | None, taken: Collection[int | None]) -> list[str]:
    """What a user may want to know of columns that were not used."""
    notes = suggest_groups(table, asked, taken)
    sign = "" if at is None or asked.multi_label else _tags_of(table.columns[at], is_asked=False)[0]
    if sign:
        first = next(cell for cell in table.columns[at or 0] if sign in cell)
        are = f"labels with {sign!r}, such as {first!r}, are classes of their own"
        notes.append(f"{are}; --multi-label takes them for several")
    return notes
