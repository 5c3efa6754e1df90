"""Labels in files of other forms than tables, read as a :class:`~zoo.datasets.tables.LabelTable` of paths and labels.

Lists of "path label" as text, JSON lines and lists of records, the JSON of COCO and iNaturalist, and YOLO's text file
per image. An image with several labels has them in one cell, with "|" between them, and is refused by
:func:`require_one_label` unless tags were asked for.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from .folders import list_entries
from .image_files import SUFFIXES
from .images import TAG_SEPARATOR
from .split_names import find_part, find_split, parse_part_name
from .tables import IMAGE_NAMES, LABEL_NAMES, LabelTable, read_table, read_text

_LIST_ROW = re.compile(r"(.*[^\s,;])[\s,;]+([^\s,;]+)")  # a path, which may have blanks, and a label
_USUAL_HEADER = {*IMAGE_NAMES, *LABEL_NAMES}
_IMAGES, _LABELS = "images", "labels"  # folders of YOLO


def read_annotations(file: Path, *, is_unlabelled: bool = False) -> LabelTable:
    """The paths and labels of a file, or its paths alone, by its ending; DataError says what is wrong with it."""
    ending = file.suffix.lower()
    if ending == ".txt":
        return _read_paths(file) if is_unlabelled else read_list(file)
    if ending in (".json", ".jsonl"):
        return _read_json(file, is_unlabelled=is_unlabelled)
    table = _with_parts(read_table(file))
    if is_unlabelled and len(table.header) == 1 and table.header[0].lower().endswith(SUFFIXES):
        return _read_paths(file)  # without a line of names
    cells = [table.header[0], table.columns[0][0]] if len(table.header) == 1 else [""]  # a name may have blanks, too
    return read_list(file) if all(" " in one and not one.lower().endswith(SUFFIXES) for one in cells) else table


def read_list(file: Path) -> LabelTable:
    """A line per image, with its path and as the last word, or behind a tab, its label; a line of names is left out."""
    rows, lines = [], []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if not line.strip():
            continue
        path, tab, label = map(str.strip, line.partition("\t"))
        match = None if tab else _LIST_ROW.fullmatch(line.strip())
        if not label and match is None:
            raise DataError(
                f"Line {number} of {file} has no label, {line[:80]!r}; expected the path of an image and its label."
            )
        rows.append((path, label) if match is None else (match[1], match[2]))
        lines.append(number)
    if rows and {cell.casefold() for cell in rows[0]} <= _USUAL_HEADER:
        rows, lines = rows[1:], lines[1:]
    return _table(file, ("path", "label"), rows, lines)


def _read_paths(file: Path) -> LabelTable:
    """A line per image with its path, behind which a label may stand where no image is called like the line."""
    lines = [(line.strip(), number) for number, line in enumerate(read_text(file).splitlines(), 1) if line.strip()]
    names = {line for line, _ in lines if not (file.parent / line).is_file()}
    labelled = {line: match[1] for line in names if (match := _LIST_ROW.fullmatch(line))}
    if lines and {*lines[0][0].casefold().split()} <= _USUAL_HEADER:
        del lines[0]
    return _table(file, ("path",), [(labelled.get(line, line),) for line, _ in lines], [number for _, number in lines])


def _table(
    file: Path, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], lines: Sequence[int] = ()
) -> LabelTable:
    if not rows:
        raise DataError(f"{file} names no image with a label; expected some.")
    columns = tuple(map(list, zip(*rows, strict=True)))
    return _with_parts(LabelTable(file=file, header=header, columns=columns, lines=lines or range(1, len(rows) + 1)))


def _with_parts(table: LabelTable) -> LabelTable:
    """With a column of the parts that folders in the paths say, where they say it of every image and no column does."""
    at = table.usual(IMAGE_NAMES)
    if at is None or "split" in map(str.casefold, table.header):
        return table
    folders = {path: os.path.dirname(path.replace("\\", "/")) for path in table.columns[at]}
    part_in_folder = {
        one: next(filter(None, map(parse_part_name, one.split("/"))), "") for one in set(folders.values())
    }
    of_paths = [part_in_folder[folders[path]] for path in table.columns[at]]
    if "train" not in of_paths or len(set(of_paths) - {""}) < 2:
        return table
    others = {name: cells for name, cells in zip(table.header, table.columns, strict=True) if name != table.header[at]}
    if find_split(others).columns:
        return table
    if n := of_paths.count(""):
        note = f"parts that folders in paths say were not used, for {n:,} of {len(table):,} paths have none"
        return replace(table, notes=(note,))
    notes = ("training and test images are those of the folders in the paths",)
    return replace(table, header=(*table.header, "split"), columns=(*table.columns, of_paths), notes=notes)


def _read_json(file: Path, *, is_unlabelled: bool = False) -> LabelTable:
    """Records, one per line or in a list; paths with a label each; or what COCO and iNaturalist write."""
    text = read_text(file)
    try:
        is_lines = file.suffix.lower() == ".jsonl"
        found: Any = [json.loads(line) for line in text.splitlines() if line.strip()] if is_lines else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is no JSON ({error}); check it.") from error
    if _is_coco(found):
        return _coco_table(file, found)
    if isinstance(found, dict) and all(isinstance(one, str | int) for one in found.values()):
        return _table(file, ("path", "label"), [(path, str(label)) for path, label in found.items()])
    if is_unlabelled and isinstance(found, list) and all(isinstance(one, str) for one in found):
        return _table(file, ("path",), [(one,) for one in found])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(
            f"{file} holds something else than paths and labels; expected records with file_name and label, or "
            "images, annotations and categories as COCO and iNaturalist have them."
        )
    header = tuple(dict.fromkeys(name for record in found for name in record))
    return _table(file, header, [tuple(_cell(record.get(name)) for name in header) for record in found])


def read_coco(file: Path) -> LabelTable | None:
    """The table of a file if it is the JSON of COCO or iNaturalist."""
    try:
        found = json.loads(read_text(file))
    except (ValueError, RecursionError):
        return None
    return _coco_table(file, found) if _is_coco(found) else None


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return TAG_SEPARATOR.join(map(str, value))
    return "" if value is None else str(value).strip()


def _is_coco(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("images"), list) and "annotations" in found


def _coco_table(file: Path, found: Mapping[str, Any]) -> LabelTable:
    """An image per row, without those that have no annotation; where the images lie is looked for around the file."""
    try:
        names = {one["id"]: str(one.get("name", one["id"])) for one in found.get("categories", ())}
        labels: dict[Any, set[str]] = {}
        for one in found["annotations"]:
            labels.setdefault(one["image_id"], set()).add(names.get(one["category_id"], str(one["category_id"])))
        paths = {one["id"]: one["file_name"] for one in found["images"] if one["id"] in labels}
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{file} has no {error} where COCO's JSON has it; expected images with id and file_name, annotations with "
            "image_id and category_id, and categories with id and name."
        ) from error
    root = find_image_root(file, next(iter(paths.values()), ""))
    rows = [(f"{root}{path}", TAG_SEPARATOR.join(sorted(labels[key]))) for key, path in paths.items()]
    return _table(file, ("file_name", "label"), rows)


def find_image_root(file: Path, first: str) -> str:
    """What paths begin with below the folder of a file: that folder, or one around it in which the first image is."""
    above, part = file.parent.parent, find_part(file.stem)
    if (file.parent / first).is_file():
        return ""
    beside = [path for path in (file.parent, above, above / _IMAGES) if path.is_dir()]
    below = [Path(one.path) for folder in beside for one in list_entries(folder, Counter())[0]]
    roots = [folder for folder in dict.fromkeys((*beside, *below)) if (folder / first).is_file()]
    of_part = [folder for folder in roots if part and find_part(folder.name) == part]
    if len(roots) > 1 and len(of_part) != 1:
        raise DataError(f"{file} names {first!r}, which is in {roots[0]} and in {roots[1]}; put it next to its images.")
    root = (of_part or roots or [file.parent])[0]
    return "" if root == file.parent else f"{os.path.relpath(root, file.parent)}/"


def find_yolo_labels(folder: Path) -> Path | None:
    """The folder with YOLO's text files for a folder of images: labels/ for images/, wherever in the path that is."""
    parts = list(folder.parts)
    if _IMAGES not in parts:
        return None
    parts[len(parts) - 1 - parts[::-1].index(_IMAGES)] = _LABELS
    there = Path(*parts)
    return there if next(there.glob("*.txt"), None) else None


def read_yolo_table(folder: Path, images: Iterable[str], labels: Path, names: Sequence[str]) -> LabelTable:
    """The images with a text file below ``labels``, whose lines begin with the number of a class."""
    rows = []
    for image in images:
        file = labels / f"{os.path.splitext(image)[0]}.txt"
        text = read_text(file) if file.is_file() else ""
        numbers = {line.split()[0] for line in text.splitlines() if line.strip()}
        if odd := next((one for one in numbers if not one.isdecimal()), None):
            raise DataError(f"{file} has {odd!r} where a line of YOLO begins with the number of a class; check it.")
        found = [names[int(one)] if int(one) < len(names) else one for one in sorted(numbers, key=int)]
        rows += [(image, TAG_SEPARATOR.join(found))] if found else []
    return _table(folder / "labels", ("path", "label"), rows)


def read_yolo_names(file: Path) -> list[str]:
    """Names of classes in data.yaml, as a list or by number; none where it says them otherwise."""
    block = re.search(r"^names:[ ]*(\[[^\]]*\]|(?:\n[ ]*(?:-|\d+:)[ ]*[^\n]+)+)", read_text(file), re.MULTILINE)
    if block is None:
        return []
    cells = block[1][1:-1].split(",") if block[1].startswith("[") else block[1].strip().splitlines()
    return [re.sub(r"^\s*(?:-|\d+:)\s+", "", cell).strip().strip("'\"") for cell in cells]


def join_tables(tables: Mapping[str, LabelTable], root: Path) -> LabelTable:
    """Tables of several parts as one, with paths below ``root`` and a column of the parts; messages name a pattern."""
    header = dict.fromkeys(name for table in tables.values() for name in table.header if name.casefold() != "split")
    columns: dict[str, list[str]] = {name: [] for name in (*header, "split")}
    for part, table in tables.items():
        below, at = os.path.relpath(table.file.parent, root), table.usual(IMAGE_NAMES)
        for name in header:
            cells = table.columns[table.header.index(name)] if name in table.header else [""] * len(table)
            if at is not None and name == table.header[at]:
                cells = [os.path.normpath(os.path.join(below, cell)) for cell in cells]
            columns[name] += cells
        columns["split"] += [part] * len(table)
    file = root / f"*{next(iter(tables.values())).file.suffix or '.txt'}"
    lines = [line for table in tables.values() for line in table.lines]
    return LabelTable(file=file, header=tuple(columns), columns=tuple(columns.values()), lines=lines)


def require_one_label(table: LabelTable) -> None:
    """Refuses images with several labels."""
    at = table.usual(LABEL_NAMES)
    several = [] if at is None else [row for row, cell in enumerate(table.columns[at]) if TAG_SEPARATOR in cell]
    if several:
        image = table.usual(IMAGE_NAMES)
        name = "" if image is None else f" {table.columns[image][several[0]]!r} with"
        raise DataError(
            f"{len(several):,} of {len(table):,} images of {table.file} have several classes, the first is{name} "
            f"{table.columns[at or 0][several[0]]!r}; expected one per image, or --multi-label, which takes them for "
            "tags."
        )
