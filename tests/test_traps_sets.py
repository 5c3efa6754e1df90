"""Traps in which images, parts and labels a set has; :mod:`tests.traps` says how to read a row."""

from __future__ import annotations

import io
import pickle
import re
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.model_selection import train_test_split
from torchvision.datasets import ImageFolder

import zoo
from tests.image_sources import made
from tests.shard_files import pixels, png, put, tar
from tests.traps import Trap, hold, refusal
from zoo.datasets import ImageData, open_images, pixels_of
from zoo.datasets.images import get_numbers, indicators_of

N = 40
PICTURES = [png(number) for number in range(N)]
CLASSES = ["10", "2", "B", "a", "é"]


def folder(root: Path, files: Sequence[str]) -> Path:
    """Images of noise at these paths."""
    for number, name in enumerate(files):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(PICTURES[number % N])
    return root


def each(*folders: str, n: int = 6) -> list[str]:
    return [f"{one}/{number}.png" for one in folders for number in range(n)]


def table(root: Path, labels: Sequence[str], *, name: str = "label", **columns: Sequence[str]) -> Path:
    """A CSV file of images and their labels."""
    names = [f"{number:02}.png" for number in range(len(labels))]
    folder(root, names)
    rows = [["path", name, *columns], *zip(names, labels, *columns.values(), strict=True)]
    (root / "all.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    return root / "all.csv"


def by_pandas(labels: Sequence[str]) -> list[Any]:
    """The classes of the same table as ``pandas.read_csv`` has them."""
    read = pd.read_csv(io.StringIO("path,label\n" + "".join(f"x,{label}\n" for label in labels)))["label"]
    return sorted(map(str, read.dropna().unique()))


def npz(root: Path, **arrays: np.ndarray) -> Path:
    np.savez(root / "own.npz", **arrays)
    return root / "own.npz"


def whole(data: ImageData) -> dict[str, int]:
    """Images of both parts by class."""
    return dict(zip(data.train.classes, (data.train.n_per_class() + data.val.n_per_class()).tolist(), strict=True))


X = np.stack([pixels(number, px=32) for number in range(N)])
Y = np.arange(N) % 4
FLOATS = X.astype(np.float32)
TWO_HEADERS = "path,label\n,\n" + "".join(f"{number:02}.png,{'cat' if number % 2 else 'dog'}\n" for number in range(N))


def table_with_two_headers(root: Path) -> list[str]:
    folder(root, [f"{number:02}.png" for number in range(N)])
    (root / "all.csv").write_text(TWO_HEADERS)
    return list(open_images(root / "all.csv").train.classes)


@cache
def results() -> pd.DataFrame:
    return zoo.results_df()


def with_blank_name() -> pd.DataFrame:
    """The results with an empty name in the second header row, as tables have above a column without sections."""
    return results().rename(columns={"train_test": ""}, level=1)


def read_back(frame: pd.DataFrame) -> list[Any]:
    """The columns of a frame that was written with two header rows, and read."""
    columns = pd.read_csv(io.StringIO(frame.to_csv()), header=[0, 1], index_col=0).columns
    return columns.tolist()


def cifar(root: Path) -> Path:
    batches = root / "cifar-10-batches-py"
    batches.mkdir()
    rows = X.transpose(0, 3, 1, 2).reshape(N, -1)
    for name, half in (("data_batch_1", slice(0, 32)), ("test_batch", slice(32, N))):
        batch = {b"data": rows[half], b"labels": Y[half].tolist()}
        (batches / name).write_bytes(pickle.dumps(batch))
    return batches


def tag_columns(root: Path, columns: Mapping[str, Sequence[str]]) -> Path:
    """A table with these columns of 0 and 1 and no other labels."""
    file = table(root, ["x"] * N, **columns)
    rows = pd.read_csv(file, dtype=str).drop(columns="label")
    rows.to_csv(file, index=False)
    return file


def in_both(train: Sequence[Any], val: Sequence[Any]) -> int:
    return len(set(train) & set(val))


def copies_in_both(root: Path) -> int:
    """Pictures, each of them twice in other files, on both sides of the zoo's split."""
    again = [saved_anew(number) for number in range(N)]
    data = open_images(made(root / "set", "folder", ["a", "b"] * N, [*PICTURES, *again]))
    return in_both(*([image.tobytes() for image in part.images] for part in (data.train, data.val)))


def saved_anew(number: int) -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels(number)).save(held, "PNG", compress_level=1)
    assert held.getvalue() != PICTURES[number]
    return held.getvalue()


def split_at_random(units: np.ndarray) -> int:
    return in_both(*train_test_split(units, test_size=0.2, random_state=0))


def patients_in_both(root: Path) -> int:
    patients = [str(number // 4) for number in range(N)]
    data = open_images(table(root, ["a", "b"] * (N // 2), patient=patients), group="patient")
    return in_both(*([int(Path(name).stem) // 4 for name in part.names] for part in (data.train, data.val)))


def same_name_twice(root: Path) -> Path:
    """A table with two columns that are called label, of which the second one differs."""
    file = table(root, ["a", "b"] * (N // 2), second=["c", "d", "d", "d"] * (N // 4))
    file.write_text(file.read_text().replace("second", "label", 1))
    return file


def shard(root: Path) -> Path:
    """A tar file of 24 images in no order; each has its label behind it."""
    order = np.random.default_rng(0).permutation(24).tolist()
    members = [member for i in order for member in ((f"{i:03}.png", png(i)), (f"{i:03}.cls", b"%d" % (i % 3)))]
    return put(root / "one.tar", tar(members))


def labels_in_shard(root: Path) -> dict[int, str]:
    """Label of each picture by its number."""
    whole_set = open_images(f"webdataset:{shard(root)}").all
    numbers = {pixels(i).tobytes(): i for i in range(24)}
    return {
        numbers[image.tobytes()]: whole_set.classes[label]
        for image, label in zip(whole_set.images, whole_set.labels, strict=True)
    }


def labels_by_order(root: Path) -> dict[int, str]:
    """The same where sorted names of images are paired with labels as they come."""
    with tarfile.open(shard(root)) as file:
        names = file.getnames()
        labels = [file.extractfile(name).read().decode() for name in names if name.endswith(".cls")]
    return dict(zip(sorted(int(name[:3]) for name in names if name.endswith(".png")), labels, strict=True))


def cut_parquet(root: Path) -> str:
    """Two shards of which the second one is cut, as by an interrupted download."""
    for name in ("train-0", "train-1"):
        pq.write_table(pa.table({"image": PICTURES, "label": ["cat", "dog"] * (N // 2)}), root / f"{name}.parquet")
    content = (root / "train-1.parquet").read_bytes()
    (root / "train-1.parquet").write_bytes(content[: len(content) // 2])
    return f"parquet:{root}/*.parquet"


def readable(root: Path) -> str:
    """Rows of the shards that can be read, as loaders have them that go on after an error."""
    n = 0
    cut_parquet(root)
    for file in sorted(root.glob("*.parquet")):
        with suppress(pa.ArrowInvalid):
            n += pq.read_table(file).num_rows
    return f"{n} rows"


ONE_HOT = {name: [str(int(i % 3 == place)) for i in range(N)] for place, name in enumerate(("MEL", "NV", "BCC"))}
AGES = [str(20 + number * 7 % 61) for number in range(N)]
TAGS = {"ant": list("1100" * 10), "bee": list("1010" * 10), "cow": list("0001" * 10)}

SETS = [
    Trap(
        "an image of a tar file has the label of its own key",
        zoo=labels_in_shard,
        right={i: str(i % 3) for i in range(24)},
        usual=labels_by_order,
    ),
    Trap(
        "a shard that is cut is no smaller set",
        zoo=lambda root: refusal(lambda: open_images(cut_parquet(root))),
        right=re.compile(r"train-1\.parquet"),
        usual=readable,
    ),
    Trap(
        "columns of which each image has one are classes",
        zoo=lambda root: list(open_images(tag_columns(root, ONE_HOT)).train.classes),
        right=["BCC", "MEL", "NV"],
        usual=sorted(set(ONE_HOT["MEL"])),  # the first column as labels
    ),
    Trap(
        "classes of folders are in the order of code points",
        zoo=lambda root: list(open_images(folder(root, each(*CLASSES))).train.classes),
        right=["10", "2", "B", "a", "é"],
        usual=sorted(CLASSES, key=lambda name: (len(name), name.casefold())),  # as people and file managers sort
    ),
    Trap(
        "classes that are numbers in a table are in the order of numbers",
        zoo=lambda root: list(open_images(table(root, ["10", "2", "1", "9"] * 10)).train.classes),
        right=["1", "2", "9", "10"],
        usual=sorted({"10", "2", "1", "9"}),
    ),
    Trap(
        "Training and Testing are parts and no classes",
        zoo=lambda root: list(
            open_images(folder(root, each("Training/cat", "Training/dog", "Testing/cat", "Testing/dog"))).train.classes
        ),
        right=["cat", "dog"],
        usual=lambda root: (
            ImageFolder(str(folder(root, each("Training/cat", "Training/dog", "Testing/cat", "Testing/dog")))).classes
        ),
    ),
    Trap(
        "a class that is called train is a class among others",
        zoo=lambda root: whole(open_images(folder(root, each("bus", "car", "train")))),
        right={"bus": 6, "car": 6, "train": 6},
        usual={"train": 6},  # as load_dataset("imagefolder") of datasets: see findings/
    ),
    Trap(
        "labels with leading zeros are other labels",
        zoo=lambda root: list(open_images(table(root, ["007", "7", "008", "8"] * 10)).train.classes),
        right=["007", "008", "7", "8"],
        usual=by_pandas(["007", "7", "008", "8"]),
    ),
    Trap(
        "NA is a country where that is said",
        zoo=lambda root: list(open_images(table(root, ["NA", "ZA"] * 20), keep_na=True).train.classes),
        right=["NA", "ZA"],
        usual=by_pandas(["NA", "ZA"]),
    ),
    Trap(
        "a label that may stand for none is no class without a word",
        zoo=lambda root: refusal(lambda: open_images(table(root, ["cat", "dog", "?", "cat"] * 10))),
        right=re.compile(r"10 of 40 .*--ignore-label"),
        usual=str(by_pandas(["cat", "dog", "?"])),
    ),
    Trap(
        "two columns of one name are refused and not renamed",
        zoo=lambda root: refusal(lambda: open_images(same_name_twice(root))),
        right=re.compile("has 2 columns 'label'; expected one"),
        usual=str(pd.read_csv(io.StringIO("path,label,label\nx,a,b\n")).columns.tolist()),
    ),
    Trap(
        "a second header row without text becomes no NaN and no name of its own",
        zoo=table_with_two_headers,
        right=["cat", "dog"],
        usual=[str(name) for name in pd.read_csv(io.StringIO(TWO_HEADERS), header=[0, 1]).columns],
    ),
    Trap(
        "tables of two header rows have text in every cell and come back as they were written",
        zoo=lambda _: read_back(results()),
        right=lambda _: results().columns.tolist(),
        usual=lambda _: read_back(with_blank_name()),
    ),
    Trap(
        "ages are numbers and not forty classes",
        zoo=lambda root: sorted(get_numbers(open_images(table(root, AGES, name="age"), label_column="age").all)),
        right=sorted(map(float, AGES)),
        usual=[float(number) for number in range(len(set(AGES)))],  # as numbers of classes
    ),
    Trap(
        "images with two tags keep both",
        zoo=lambda root: indicators_of(open_images(tag_columns(root, TAGS), multi_label=True).all).sum(axis=0),
        right=[20, 20, 10],
        usual=np.bincount(np.transpose([list(map(int, has)) for has in TAGS.values()]).argmax(axis=1)),
        within=1e-9,
    ),
    Trap(
        "a column of labels (n, 1) is a label per image",
        zoo=lambda root: whole(open_images(npz(root, x=X, y=Y[:, None]))),
        right={"0": 10, "1": 10, "2": 10, "3": 10},
        usual={"0": int((Y[:, None].argmax(axis=1) == 0).sum())},
    ),
    Trap(
        "-1 is no class of its own",
        zoo=lambda root: refusal(lambda: open_images(npz(root, x=X, y=np.where(Y == 3, -1, Y)))),
        right=re.compile("10 of 40 images .* have no label .* -1"),
        usual=str(np.unique(np.where(Y == 3, -1, Y))),
    ),
    Trap(
        "class numbers with gaps stay the classes that they are",
        zoo=lambda root: list(open_images(table(root, ["1", "2", "5", "9"] * 10)).train.classes),
        right=["1", "2", "5", "9"],
        usual=[str(number) for number in range(4)],
    ),
    Trap(
        "images and their masks are no two classes",
        zoo=lambda root: refusal(lambda: open_images(folder(root, each("images", "masks")))),
        right=re.compile("masks, which are no classes"),
        usual=lambda root: str(ImageFolder(str(folder(root, each("images", "masks")))).classes),
    ),
    Trap(
        "floating point from 0 to 255 does not wrap",
        zoo=lambda root: pixels_of(open_images(npz(root, x=FLOATS, y=Y), scale=(0, 255)).all),
        right=X,
        usual=(FLOATS * 255).astype(np.int64).astype(np.uint8),
    ),
    Trap(
        "floating point from 0 to 255 is not shown without its range",
        zoo=lambda root: refusal(lambda: open_images(npz(root, x=FLOATS, y=Y))),
        right=re.compile("--scale 0,255"),
        usual=str((FLOATS * 255).max()),
    ),
    Trap(
        "rows of CIFAR have one colour after the other",
        zoo=lambda root: pixels_of(open_images(cifar(root)).train),
        right=X[:32],
        usual=X[:32].transpose(0, 3, 1, 2).reshape(32, -1).reshape(32, 32, 32, 3),
    ),
    Trap(
        "a picture that is saved twice is on one side of a split",
        zoo=copies_in_both,
        right=0,
        usual=split_at_random(np.repeat(np.arange(N), 2)),
    ),
    Trap(
        "images of a patient are on one side of a split",
        zoo=patients_in_both,
        right=0,
        usual=split_at_random(np.repeat(np.arange(N // 4), 4)),
    ),
]


@pytest.mark.parametrize("trap", SETS, ids=str)
def test_a_set_is_understood_rightly_where_the_usual_way_is_not(trap: Trap, tmp_path: Path) -> None:
    hold(trap, tmp_path)
