"""Any table, folder or file of arrays of small random shape: the right counts, or one sentence of zoo.errors.

Cases are drawn by hypothesis from a fixed seed, few of them; ZOO_TEST_EXAMPLES=1000 draws as many, anew in each run.
"""

from __future__ import annotations

import csv
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.properties import drawn
from zoo.datasets import ImageData, open_images
from zoo.errors import ZooError

ODD = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=6)
PLAIN = ["cat", "dog", "owl, barn", "weiß", "0", "1", "2"]
LABELS = st.sampled_from([*PLAIN, "Cat", "dog ", "", "1.0", "01", "-1", "NA", "?", "é", "e\u0301", "a|b"])
FOLDERS = st.sampled_from(["a", "b", "c", "train", "test", "val", "Images", "fold1", "0", "weiß", ".hidden", "masks"])
PARTS = st.sampled_from([("train", "val"), ("Training", "test"), ("train", "validation", "test"), ("",), ("images",)])
NAMES = st.tuples(  # as cameras, phones, tools and people call files
    st.text("aZ09 ._-'()&+=,;#%@!~[]{}$éßñ猫日😀", min_size=1, max_size=8).filter(lambda name: name[0] not in ".~ "),
    st.sampled_from([".png", ".PNG", ".Png", ".jpg.png", ".JPG.PNG", ". png.png", ".jpeg", ".JPEG", ".v1.2.tif"]),
).map("".join)
CLASSES = st.lists(st.sampled_from(["a", "b c", "weiß", "0", "10", "n01440764"]), min_size=2, max_size=4, unique=True)


def opened(spec: Path, **options: Any) -> ImageData | None:
    """The data, or None where one readable sentence says why not; any other exception fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return open_images(spec, **options)
    except ZooError as error:
        sentence = str(error)
        assert sentence and "\n" not in sentence and len(sentence) < 3000
        return None


@contextmanager
def place() -> Iterator[Path]:
    """A folder of one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def image(number: int, path: Path) -> None:
    """An image of its own at this path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.array([[number % 256, number // 256, 7]], np.uint8)).save(path, "PNG")


def plain(label: str) -> str | float:
    """What a label says: labels that are numbers are one however they are written."""
    try:
        return float(label)
    except ValueError:
        return label.strip()


def labels_by_name(data: ImageData) -> dict[str, str]:
    """The class of each image of both parts."""
    parts = (data.train, data.val)
    return {
        name: part.classes[label]
        for part in parts
        for name, label in zip(part.names, part.labels.tolist(), strict=True)
    }


@drawn
@given(
    st.one_of(
        st.lists(LABELS, min_size=1, max_size=12),
        st.lists(st.sampled_from(PLAIN[:3]), min_size=10, max_size=16),
        st.lists(st.sampled_from(PLAIN[3:]), min_size=10, max_size=16),
    ),
    st.sampled_from(["label", "class", "Target", "labels", "diagnosis"]),
    st.sampled_from(["path", "file", "filename", "Image", "ID"]),
    st.sampled_from([",", ";", "\t"]),
    st.dictionaries(ODD, LABELS, max_size=2),
)
def test_a_table_gives_the_labels_that_it_has_or_a_sentence(
    labels: list[str], label_name: str, path_name: str, delimiter: str, more: dict[str, str]
) -> None:
    with place() as folder:
        for number in range(len(labels)):
            image(number, folder / f"{number:02}.png")
        with open(folder / "own.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerow([path_name, label_name, *more])
            writer.writerows([f"{i:02}.png", label, *more.values()] for i, label in enumerate(labels))
        data = opened(folder / "own.csv", image_column=path_name, label_column=label_name, label_kind="class")
        if data is None:
            return
        found = labels_by_name(data)
        wanted = {f"{i:02}.png": label for i, label in enumerate(labels)}
        assert {name: plain(label) for name, label in found.items()} == {
            name: plain(label) for name, label in wanted.items()
        }
        assert len(data.train) + len(data.val) == len(labels)


@drawn
@given(
    st.lists(st.tuples(st.lists(FOLDERS, max_size=3), st.integers(1, 4)), min_size=1, max_size=6),
    st.lists(FOLDERS, max_size=1),
)
def test_a_folder_gives_each_of_its_images_once_or_a_sentence(
    folders: list[tuple[list[str], int]], empty: list[str]
) -> None:
    with place() as root:
        count, of_folder = 0, Counter[str]()
        for names, n in folders:
            for _ in range(n):
                image(count, (root / "set").joinpath(*names, f"{count:03}.png"))
                of_folder["/".join(names)] += 1
                count += 1
        for name in empty:
            (root / "set" / name).mkdir(exist_ok=True)
        data = opened(root / "set")
        if data is None:
            return
        named = [*data.train.names, *data.val.names]
        assert len(set(named)) == len(named) == len(data.train) + len(data.val) <= count
        for part in (data.train, data.val):
            assert int(part.n_per_class().sum()) == len(part) == len(part.labels)
            for name, label in zip(part.names, part.labels.tolist(), strict=True):
                assert part.classes[label] in (root / "set" / name).parts, "a class is a folder of the image's path"


@drawn
@given(PARTS, CLASSES, st.integers(3, 6), st.lists(FOLDERS, max_size=2), st.booleans())
def test_classes_in_parts_have_as_many_images_as_their_folders_or_there_is_a_sentence(
    parts: tuple[str, ...], classes: list[str], n: int, deeper: list[str], has_more: bool
) -> None:
    with place() as root:
        where = [(part, name) for part in parts for name in classes for _ in range(n)]
        for number, (part, name) in enumerate(where):
            image(number, (root / "set").joinpath(part, name, *deeper, f"{number:03}.png"))
        if has_more:
            (root / "set" / "readme.txt").write_text("of a camera")
        data = opened(root / "set")
    if data is None or not set(data.train.classes) <= set(classes):  # deeper folders may be the classes, too
        assert data is not None or deeper or len(parts) == 1  # few images may leave no one to validate on
        return
    assert data.train.classes == data.val.classes == tuple(sorted(classes))
    if len(parts) == 1:
        both = data.train.n_per_class() + data.val.n_per_class()
        assert data.is_split_here and both.tolist() == [n] * len(classes)
    else:
        assert data.train.n_per_class().tolist() == data.val.n_per_class().tolist() == [n] * len(classes)


@drawn
@given(st.lists(NAMES, min_size=4, max_size=8, unique_by=str.casefold), CLASSES)
def test_images_of_any_name_are_each_in_their_class(names: list[str], classes: list[str]) -> None:
    wanted = {f"{classes[number % 2]}/{name}": classes[number % 2] for number, name in enumerate(names)}
    with place() as root:
        for number, path in enumerate(f"{part}/{name}" for part in ("train", "val") for name in wanted):
            image(number, root / "set" / path)
        data = opened(root / "set")
    assert data is not None
    for part in (data.train, data.val):
        named = zip(part.names, part.labels.tolist(), strict=True)
        assert {name: part.classes[label] for name, label in named} == wanted


@drawn
@given(
    st.integers(1, 16),
    st.one_of(
        st.lists(st.integers(1, 9), min_size=0, max_size=3),
        st.tuples(st.integers(5, 9), st.integers(5, 9)),
        st.tuples(st.integers(5, 9), st.integers(5, 9), st.sampled_from([1, 3, 4])),
    ),
    st.sampled_from(["u1", "u1", "u1", "i8", "?", "f4", "f8", "u2", "U3", "c8"]),
    st.sampled_from(["i8", "f4", "?", "U2", "u1"]),
    st.sampled_from([0, 0, 0, -1, 1]),
    st.integers(1, 4),
)
def test_arrays_of_any_small_shape_give_each_of_their_images_or_a_sentence(
    n: int, shape: Sequence[int], of_images: str, of_labels: str, n_more: int, n_classes: int
) -> None:
    values = np.arange(n * int(np.prod(shape, dtype=int))) % 256
    x, y = values.reshape(n, *shape).astype(of_images), (np.arange(n + n_more) % n_classes).astype(of_labels)
    with place() as folder:
        np.savez(folder / "own.npz", x=x, y=y)
        data = opened(folder / "own.npz")
    if data is None:
        return
    assert n_more == 0 and len(data.train) + len(data.val) == n
    found = Counter[str]()
    for part in (data.train, data.val):
        found.update(part.classes[label] for label in part.labels.tolist())
    assert sorted(found.values()) == sorted(Counter(y.tolist()).values())
