"""How a folder of images is understood: which folders in it are parts, which are classes, and what is left out.

:func:`recognise_layout` looks at the tree of names by one list of rules, the surest first: maps are no classes; folders
of parts above those of classes; parts within classes; labels in files, only where folders give none; folds, domains and
classes by themselves. Where the names allow two readings the folder is refused, with the options that say which.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError, QueryError, format_count, format_list
from ..optional import require_extra
from .annotations import find_yolo_labels, join_tables, read_annotations, read_coco, read_yolo_names, read_yolo_table
from .folders import (
    ImageTree,
    describe_missing_part,
    find_part_folders,
    list_tree,
    make_files_image_set,
    require_one_folder,
)
from .image_files import USUAL, DisplayOptions, describe_left_out_files
from .images import ImageData
from .labels import add_notes, build_image_data
from .split_names import find_part, group_names_by_part, is_generic_name, normalise_text, parse_part_name, split_words
from .subsets import split_by_hash
from .tables import IMAGE_NAMES, LabelTable

with require_extra("models", needed_for="Working with images"):
    import numpy as np

_FOLD = re.compile(r"(?:k?fold|cv|split)[\W_]*\d+", re.IGNORECASE)
_MAP_WORDS = {
    *("mask", "masks", "gt", "groundtruth", "segmentation", "segmentations", "segmentationclass"),
    *("annotations", "labels", "depth", "normals", "superpixels"),
}
_MAP_OF = re.compile(rf"(.+)[\W_]({'|'.join(_MAP_WORDS)}|ground[\W_]truth|seg)(?:[\W_]*\d+)?", re.IGNORECASE)
_SOLUTION, _MEANINGS = "LOC_val_solution.csv", "LOC_synset_mapping.txt"  # of ImageNet on Kaggle
_METADATA = ("metadata.csv", "metadata.jsonl")  # of ImageFolder of the library datasets
_TABLES = (".csv", ".tsv", ".json", ".jsonl")
_LISTS = (*_TABLES, ".txt", ".lst", ".mat", ".xlsx", ".parquet")
_LIKELY = re.compile("^train|label|annotation|^_classes|metadata", re.IGNORECASE)  # names of files with labels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImagePart:
    """The images of a part, by class, with paths below ``root``."""

    root: Path
    split: str
    by_class: Mapping[str, list[str]]
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderLayout:
    """What a folder was understood as: parts with folders of classes, or a table of paths and labels."""

    meaning: str  # "" of folders of classes alone, of which there is nothing to say
    parts: tuple[ImagePart, ...] = ()
    table: LabelTable | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LayoutContext:
    """What the rules look at."""

    chain: list[ImageTree]  # the folder, and those in it that alone hold images
    level: int | None  # of the folder that names the class, from 0; -1: the innermost
    test: str | None  # the folder to test on

    @property
    def top(self) -> ImageTree:
        return self.chain[-1]

    def left_out(self) -> Counter[str]:
        return sum((tree.left_out for tree in self.chain), Counter())

    def all_left_out(self) -> Counter[str]:
        return sum((tree.left_out for tree in self.chain[:-1]), self.top.all_left_out())

    def files(self, *endings: str) -> list[Path]:
        return [tree.path / name for tree in self.chain for name in tree.files if name.lower().endswith(endings)]

    def hint(self, part: str = "train") -> str:
        """What to do where a file lies in the folder, or in those of parts, that may have labels of a part."""
        below = [
            tree.path / name for part, tree in self.top.filled.items() if parse_part_name(part) for name in tree.files
        ]
        found = [file for file in (*self.files(*_TABLES, ".txt"), *below) if file.name != _SOLUTION]
        found = [file for file in found if file.suffix.lower() in _TABLES or _LIKELY.search(file.stem)]
        found = [file for file in found if not {"sample", "submission"} & {*split_words(file.stem.lower())}]
        is_of = {file: (find_part(file.stem) or find_part(file.parent.name)) == part for file in found}
        found.sort(key=lambda file: (not (is_of[file] or _LIKELY.search(file.stem)), not is_of[file]))
        return f", or give {found[0]}, if it has their labels" if found else ""

    def may_say_split(self) -> list[str]:
        """Files next to the classes, and in folders there without images, whose names have words of parts."""
        trees = [*self.chain, *(inner for tree in self.chain for inner in tree.folders.values() if not inner.n)]
        files = [tree.path / name for tree in trees for name in tree.files if name.lower().endswith(_LISTS)]
        words = {file: [word.lower().removesuffix("list") for word in split_words(file.stem)] for file in files}
        found = [
            file for file in files if any(parse_part_name(word) or word in ("split", "splits") for word in words[file])
        ]
        return [os.path.relpath(file, self.chain[0].path) for file in found]


def recognise_layout(folder: Path, *, class_folder: str | None = None, test_folder: str | None = None) -> FolderLayout:
    """How a folder of images is understood.

    ``class_folder`` says which folder of the path of an image names its class: "first", "last" or a number from 1.
    ``test_folder`` is one of several folders, such as of folds or domains, to test on. DataError says what is not
    clear, or has no labels.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder of images {folder}; expected one with a folder per class.")
    look = _LayoutContext(chain=_unwrapped(list_tree(folder)), level=_level_of(class_folder), test=test_folder)
    notes = [f"images are those of {look.top.path.relative_to(folder)}/"] if len(look.chain) > 1 else []
    _refuse_maps(look)
    look.chain[-1] = _without_maps(look.top, is_class=False)
    rules = (_with_tested_folder, _with_parts, _with_parts_in_classes, _with_labels_in_files)
    found = next(filter(None, (rule(look) for rule in rules)), None) or _classes_alone(look)
    if found.table is not None and (class_folder or test_folder):
        raise QueryError(f"The labels of {folder} are in files; leave --class-folder and --test-folder out.")
    return FolderLayout(meaning=found.meaning, parts=found.parts, table=found.table, notes=(*notes, *found.notes))


def open_folder_data(layout: FolderLayout, show: DisplayOptions, **division: Any) -> ImageData:
    """The images of folders of classes: in two parts, or split by hash.

    What is split here goes by the hash of the path of each image, so that images which are added move no other, but
    for copies, files with the same bytes, which go with the first of them, and for a class whose images would all be
    tested on. Hidden files, those of systems and those that do not end like an image are left out and counted. Links
    are followed. Names are sorted by code points, whatever the locale. Images are read when they are asked for, as
    :func:`zoo.datasets.rgb.to_rgb` shows them.

    The fingerprint is over the paths below the part's folder, the bytes of the files, labels and classes, and over how
    images are shown that are turned, scaled or transparent.
    """
    sets = []
    for part in layout.parts:
        paths = [path for of_class in part.by_class.values() for path in of_class]
        labels = np.repeat(np.arange(len(part.by_class)), list(map(len, part.by_class.values()))).astype(np.int64)
        classes = tuple(part.by_class)
        sets.append(
            make_files_image_set(part.root, paths, labels, classes, show, split=part.split, left_out=part.left_out)
        )
    return add_notes(build_image_data(sets, split=split_by_hash, **division), layout.notes, layout=layout.meaning)


def _level_of(class_folder: str | None) -> int | None:
    if class_folder is None or class_folder in ("first", "last"):
        return {"first": 0, "last": -1}.get(class_folder or "")
    if not class_folder.isascii() or not class_folder.isdecimal() or int(class_folder) < 1:
        raise QueryError(f"Got {class_folder!r} for the folder of the class; expected first, last or a number from 1.")
    return int(class_folder) - 1


def _unwrapped(tree: ImageTree) -> list[ImageTree]:
    """The folder, and the only one in it that holds images, and so on, down to folders of parts or classes."""
    chain = [tree]
    while len(filled := chain[-1].filled) == 1 and not chain[-1].images:
        ((name, only),) = filled.items()
        if parse_part_name(name) or (only.images and not is_generic_name(name)):
            break
        chain.append(only)
    return chain


def _named(names: Iterable[str]) -> str:
    return format_list((f"{name}/" for name in names), 3)


def _refuse_maps(look: _LayoutContext) -> None:
    """Refuses images next to masks, or other maps, which would be two classes."""
    for tree in (look.top, *(tree for name, tree in look.top.filled.items() if parse_part_name(name))):
        flat = {name: not inner.inside.filled for name, inner in tree.filled.items()}
        maps = [*filter(_is_of_maps, flat)]
        images = [
            name
            for name in flat
            if name not in maps and (is_generic_name(name) or (parse_part_name(name) and flat[name]))
        ]
        if maps and images and look.level is None:
            raise DataError(
                f"{tree.path} holds {_named(images)} and {_named(maps)}, pictures and what seem to be maps of them, "
                f"such as masks, which are no classes (zoo segment takes them); expected a folder per "
                f"class{look.hint()}."
            )


def _is_of_maps(folder: str) -> bool:
    words = re.split(r"[\W_]+", folder.casefold())
    return not _MAP_WORDS.isdisjoint([*words, "".join(words)])


def _without_maps(tree: ImageTree, *, is_class: bool = True) -> ImageTree:
    """The folder without maps, such as masks, next to the images of a class, which are counted as left out."""
    stems = {name: os.path.splitext(name)[0] for name in tree.images}
    known = {*stems.values()}
    of_image = {name: found for name in stems if (found := _MAP_OF.fullmatch(stems[name])) and found[1] in known}
    maps = [*filter(_is_of_maps, tree.filled)]
    others = [name for name in tree.filled if name not in maps]
    maps *= is_class and bool(tree.images or others) and all(map(is_generic_name, others))
    left_out = Counter(
        [*(f"*_{found[2].lower()} (maps)" for found in of_image.values()), *(f"{name}/" for name in maps)]
    )
    images = [name for name in tree.images if name not in of_image]
    kept = {name: inner for name, inner in tree.folders.items() if name not in maps}
    folders = {
        name: _without_maps(inner, is_class=is_class or not parse_part_name(name)) for name, inner in kept.items()
    }
    n = len(images) + sum(inner.n for inner in folders.values())
    return replace(tree, folders=folders, images=images, left_out=tree.left_out + left_out, n=n)


def _with_tested_folder(look: _LayoutContext) -> FolderLayout | None:
    """One folder is tested on, all others are trained on."""
    if look.test is None:
        return None
    filled = look.top.filled
    if look.test not in filled or len(filled) < 2:
        raise QueryError(
            f"Got the test folder {look.test!r}; expected one of two or more folders with images in {look.top.path}, "
            f"which has {_named(filled) or 'none'}."
        )
    others = [tree.inside for name, tree in filled.items() if name != look.test]
    level, notes = _class_level(look, others[0])
    train = _part(look, others, look.top.path, "train", level, look.all_left_out())
    val = _part(look, [filled[look.test].inside], look.top.path, "val", level, {})
    on = _named(name for name in filled if name != look.test)
    meaning = f"trained on {on}, tested on {look.test}/; a folder per class in each"
    return FolderLayout(meaning=meaning, parts=(train, val), notes=tuple(notes))


def _with_parts(look: _LayoutContext) -> FolderLayout | None:
    """Folders of parts, with folders of classes in them."""
    filled = look.top.filled
    found = group_names_by_part(filled)
    if not found:
        return None
    of_parts = [name for names in found.values() for name in names]
    if look.level is None and not any(map(parse_part_name, of_parts)):
        require_one_folder(found["train"], look.top.path)  # trainA/ and trainB/
    others = [name for name in filled if name not in of_parts]
    deep = [name for name in of_parts if filled[name].inside.filled]
    solution = _above(look, _SOLUTION) if "val" in found and not {*found["val"]} & {*deep} else None
    parts = {part: some for part, names in found.items() if (some := [name for name in names if name in deep])}
    parts |= {"val": found["val"]} if solution else {}
    if "train" in parts and len(parts) > 1:
        train, second = find_part_folders(parts, look.top.path)
        return _two_parts(look, train, second, solution if second in found.get("val", ()) else None)
    if len(found) > 1 or not others or "train" in parts:
        table = _labels_in_files(look, {part: filled[names[0]].inside for part, names in found.items()})
        if table is not None:
            if len(found) > 1:
                find_part_folders(found, look.top.path)
            return table
    is_flat = not any(tree.inside.filled for tree in filled.values())
    if others and (look.level == 0 or (is_flat and not (len(found) > 1 and look.files(*_TABLES)))):
        return None  # classes that are called like parts
    flat = [name for part in ("train", "val", "test") for name in found.get(part, ()) if name not in deep]
    if [*found] == ["train"] and not others and not parts:
        raise DataError(describe_missing_part(look.top.path, found["train"][0]))
    if flat:
        first, of_flat = filled[flat[0]].inside, next(part for part, names in found.items() if flat[0] in names)
        also = f", or give {look.top.path / parts['train'][0]} to have it split" if "train" in parts else ""
        raise _loose(first, f"; expected {flat[0]}/CLASS/IMAGE{look.hint(of_flat)}{also}")
    both = f"; --class-folder first takes {_named(filled)} for classes" * bool(others)
    if "train" in parts:
        raise DataError(
            f"{describe_missing_part(look.top.path, parts['train'][0]).removesuffix('.')}{look.hint()}{both}."
        )
    raise DataError(f"{look.top.path} has {_named(deep)} but no train/; add it, or give one to have it split{both}.")


def _two_parts(look: _LayoutContext, train: str, val: str, solution: Path | None) -> FolderLayout:
    top, meaning, notes = look.top, f"{train}/ and {val}/, a folder per class in each", list[str]()
    level, said = _class_level(look, top.filled[train].inside)
    left_out = look.left_out() + top.filled[train].all_left_out()
    left_out -= Counter([".csv"] if solution and look.files(_SOLUTION.lower()) else [])  # which is read
    first = _part(look, [top.filled[train].inside], None, "train", level, left_out)
    if solution is None:
        second = _part(look, [top.filled[val].inside], None, "val", level, top.filled[val].all_left_out())
    else:
        second, n = _solved(top.filled[val], solution, first.by_class)
        meaning = f"{train}/ with a folder per class, and {val}/ with labels of {solution.name}"
        unnamed = f"of {val}/ that {solution.name} does not name"
        notes += [format_count(n, f"image {unnamed} is", f"images {unnamed} are") + " left out"] * bool(n)
    known = {normalise_text(name).casefold() for name in first.by_class}
    if (hint := look.hint()) and known.isdisjoint(normalise_text(name).casefold() for name in second.by_class):
        raise DataError(
            f"{train}/ and {val}/ in {top.path} have no class in common, the first are {next(iter(first.by_class))!r} "
            f"and {next(iter(second.by_class))!r}; expected the same folders of classes in both{hint}."
        )
    beside = {name: tree.n for name, tree in top.filled.items() if name not in (train, val)}
    if n := sum(beside.values()) + len(top.images):
        of = f"{_named(beside)} next to {train}/ and {val}/" if beside else f"{top.path.name}/ itself"
        notes.append(f"{n:,} image{'s' * (n > 1)} in {of} {'are' if n > 1 else 'is'} left out")
    notes += [f"what the classes mean is in {file}" for file in [_above(look, _MEANINGS)] if file]
    return FolderLayout(meaning=meaning, parts=(first, second), notes=(*said, *notes))


def _above(look: _LayoutContext, name: str) -> Path | None:
    """A file in one of the folders of the chain, or in the three above it."""
    top = look.top.path.resolve()
    return next((folder / name for folder in (top, *top.parents[:3]) if (folder / name).is_file()), None)


def _solved(tree: ImageTree, solution: Path, classes: Iterable[str]) -> tuple[ImagePart, int]:
    """The images of a flat folder, by the classes that a solution names, and how many it does not name."""
    table = read_annotations(solution)
    said = zip(table.columns[table.column("ImageId")], table.columns[table.column("PredictionString")], strict=True)
    label_of = {image: (text.split() or [""])[0] for image, text in said}
    by_class: dict[str, list[str]] = {name: [] for name in classes}
    for image in tree.images:
        if label := label_of.get(os.path.splitext(image)[0]):
            by_class.setdefault(label, []).append(image)
    n = tree.n - sum(map(len, by_class.values()))
    return ImagePart(root=tree.path, split="val", by_class=by_class, left_out=tree.left_out), n


def _with_parts_in_classes(look: _LayoutContext) -> FolderLayout | None:
    """Folders of parts within those of classes."""
    trees = {name: tree.inside for name, tree in look.top.filled.items()}
    of = {name: group_names_by_part(tree.filled) for name, tree in trees.items()}
    split = [name for name, found in of.items() if "train" in found and len(found) > 1]
    if not split:
        return None
    first = of[split[0]]
    pair = " and ".join(f"{first[part][0]}/" for part in ("train", "val", "test") if part in first)
    if look.level != 0 and any(trees[name].filled[one].filled for name in split for one in of[name]["train"]):
        raise DataError(
            f"{_named(split)} in {look.top.path} each hold {pair} with folders in them, as data sets of their own do; "
            f"give one of them, such as {look.top.path / split[0]}, or --class-folder first to take "
            f"{_named(trees)} for classes."
        )
    if without := [name for name in of if not of[name]]:
        raise DataError(
            f"{_named(split)} in {look.top.path} hold {pair}, but {_named(without)} do not; expected the same parts in "
            "every class, or in none."
        )
    second = "val" if any("val" in found for found in of.values()) else "test"
    parts, n = [], look.top.n
    for part in ("train", second):
        by_class: dict[str, list[str]] = {}
        for name, tree in trees.items():
            folder = require_one_folder(of[name][part], tree.path) if part in of[name] else ""
            below = tree.path.relative_to(look.top.path).as_posix()
            by_class[name] = [f"{below}/{folder}/{path}" for path in tree.filled[folder].paths()] if folder else []
        n -= sum(map(len, by_class.values()))
        split_name, left_out = ("train", look.all_left_out()) if part == "train" else ("val", Counter())
        parts.append(ImagePart(root=look.top.path, split=split_name, by_class=by_class, left_out=left_out))
    notes = [
        f"{format_count(n, 'image')} outside these parts of the classes {'is' if n == 1 else 'are'} left out"
    ] * bool(n)
    return FolderLayout(meaning=f"{pair} in each folder of a class", parts=tuple(parts), notes=tuple(notes))


def _with_labels_in_files(look: _LayoutContext) -> FolderLayout | None:
    """Images in no folder of a class."""
    if not look.top.images:
        return None
    table = _labels_in_files(look, {})
    if table is None:
        raise _loose(look.top, f"; move each into a folder named for its class{look.hint()}")
    return table


def _labels_in_files(look: _LayoutContext, parts: Mapping[str, ImageTree]) -> FolderLayout | None:
    """Labels of images that lie in one folder, or in one per part, where there is a file that is known to have them."""
    places = parts or {"": look.top}

    def is_enough(tables: Mapping[str, LabelTable]) -> bool:
        if [*tables] == [""]:  # one file says the parts, or there are none
            return not parts or "split" in tables[""].header
        return len(tables) > 1 and "train" in tables and "" not in tables

    by_part = {part: _tables_in([tree]) for part, tree in places.items()}
    whole = _tables_in(look.chain)
    of_parts = {part: tables[0] for part, tables in by_part.items() if len(tables) == 1}
    of_all = {find_part(table.file.stem) or "": table for table in whole}
    if len(of_all) < len(whole):
        of_all = {}  # two of one part
    names = next((names for file in look.files(".yaml", ".yml") if (names := read_yolo_names(file))), list[str]())
    yolo = {
        part: read_yolo_table(tree.path, tree.paths(), labels, names)
        for part, tree in places.items()
        if (labels := find_yolo_labels(tree.path)) is not None
    }
    tables = next(filter(is_enough, (of_parts, of_all, yolo)), None)
    if tables is None:
        return None
    table = join_tables(tables, look.chain[0].path) if len(tables) > 1 else next(iter(tables.values()))
    at = table.usual(IMAGE_NAMES)
    n = sum(tree.n for tree in places.values()) - len(set(table.columns[at or 0]))
    notes = [format_count(n, "image without a label there is", "images without a label there are") + " left out"] * (
        n > 0
    )
    files = ", ".join(os.path.relpath(one.file, look.chain[0].path) for one in tables.values())
    meaning = f"labels of {files}" if tables is not yolo else "labels of YOLO's text files in labels/"
    return FolderLayout(meaning=meaning, table=table, notes=tuple(notes))


def _tables_in(trees: Iterable[ImageTree]) -> list[LabelTable]:
    """Of files with these well-known names or contents: metadata, and COCO's JSON, also in annotations/."""
    found: list[LabelTable] = []
    for tree in trees:
        found += [read_annotations(tree.path / name) for name in tree.files if name in _METADATA]
        below = tree.folders.get("annotations")
        files = [tree.path / name for name in tree.files]
        if below is not None:
            files += [below.path / name for name in below.files if name.startswith("instances") or not tree.files]
        found += [table for file in files if file.suffix.lower() == ".json" and (table := read_coco(file)) is not None]
    return found


def _classes_alone(look: _LayoutContext) -> FolderLayout:
    """Folders of classes without parts."""
    level, notes = _class_level(look, look.top)
    if like := [name for name in look.top.filled if parse_part_name(name)]:
        others = [name for name in look.top.filled if name not in like]
        notes.append(f"{_named(like)} and {_named(others)} are taken for classes, for all hold images themselves")
    if level:
        above = _named(look.top.filled)
        notes.append(f"images of {above} may be on both sides of the split; a table with --group keeps each on one")
    if files := look.may_say_split():
        which = f"{format_list(files, 3)} next to the classes may say a split, which is not used"
        notes.append(f"{which}; make a table with a column split")
    unused = look.files(*_METADATA)
    notes += [f"{file} is not used, for folders say the labels; give it for those in it" for file in unused]
    part = _part(look, [look.top], None, "all", level, look.all_left_out())
    how = {0: "a folder per class" if notes or look.level == 0 else "", -1: "the innermost folder is the class"}
    meaning = how.get(level, f"the folder of level {level + 1} is the class")
    return FolderLayout(meaning=meaning, parts=(part,), notes=tuple(notes))


def _class_level(look: _LayoutContext, top: ImageTree) -> tuple[int, list[str]]:
    """Which folder of a path names the class, and a note where another one might; refuses what has two readings."""
    if look.level is not None:
        return look.level, []
    inner = {name: [*tree.inside.filled] for name, tree in top.filled.items()}
    counts = Counter(name for names in inner.values() for name in names)
    last = shlex.quote([*inner][-1]) if inner else ""
    if len(inner) > 1 and all(map(_FOLD.fullmatch, inner)):
        raise DataError(
            f"{top.path} holds folders of folds, {_named(inner)}; say what they are for: --test-folder {last} tests on "
            "one and trains on the others, --class-folder last joins them and splits all images anew, --class-folder "
            "first takes them for classes."
        )
    is_all = len(inner) > 1 and all(inner.values()) and not any(tree.inside.images for tree in top.filled.values())
    if is_all and len(counts) > 1 and 2 * sum(n > 1 for n in counts.values()) >= len(counts):
        raise DataError(
            f"{top.path} has two readings, for {_named(inner)} hold folders of the same names, {_named(counts)}: "
            f"--class-folder last takes {_named(counts)} for classes, as below domains, --class-folder first takes "
            f"{_named(inner)}, as above sessions, and --test-folder {last} tests on that one and trains on the others."
        )
    if len(counts) < 2:
        return 0, []
    outer = next(name for name in inner if inner[name])
    return 0, [
        f"the {len(inner):,} folders {_named(inner)} are the classes, with all folders in them, such as "
        f"{outer}/{inner[outer][0]}/; --class-folder last takes the innermost ones"
    ]


def _part(
    look: _LayoutContext,
    trees: Sequence[ImageTree],
    above: Path | None,
    split: str,
    level: int,
    left_out: Mapping[str, int],
) -> ImagePart:
    """Folders of classes as a part; paths are below ``above``, or below the only tree."""
    root = above or trees[0].path
    by_class: dict[str, list[str]] = {}
    for tree in trees:
        if tree.images:
            raise _loose(tree, f"; move each into a folder named for its class{look.hint()}")
        below = tree.path.relative_to(root).as_posix()
        prefix = "" if below == "." else f"{below}/"
        by_class |= {name: by_class.get(name, []) for name in tree.folders if level == 0}
        for path in tree.paths():
            folders = path.split("/")[:-1]
            if len(folders) <= level:
                raise DataError(
                    f"{path!r} in {tree.path} lies below {format_count(len(folders), 'folder')}; expected {level + 1} "
                    "at least."
                )
            by_class.setdefault(folders[level], []).append(prefix + path)
    also = f" ({describe_left_out_files(left_out)})" if left_out else ""
    if not any(by_class.values()):
        raise DataError(f"{root} holds no image in a folder of a class{also}; expected CLASS/IMAGE, {USUAL}.")
    empty = [label for label, of_class in by_class.items() if not of_class]
    if empty and split != "val":  # a class may have no test image
        raise DataError(
            f"{len(empty)} of {len(by_class)} class folders in {root} hold{'s' * (len(empty) == 1)} no image, the "
            f"first is {empty[0]!r}{also}; add images or remove the folder."
        )
    return ImagePart(root=root, split=split, by_class=dict(sorted(by_class.items())), left_out=left_out)


def _loose(tree: ImageTree, advice: str) -> DataError:
    return DataError(
        f"{tree.path} holds {format_count(len(tree.images), 'image')} outside a folder of a class, such as "
        f"{tree.images[0]!r}, and so without a label{advice}."
    )
