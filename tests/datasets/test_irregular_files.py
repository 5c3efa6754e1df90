"""What is no regular file where images, tables, arrays and weights are looked for: pipes, sockets, devices, links."""

from __future__ import annotations

import io
import os
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.children import Child
from tests.cli_runner import run
from zoo.datasets import open_images
from zoo.datasets.folders import list_tree, make_unlabelled_images
from zoo.datasets.notes import describe_decoding
from zoo.errors import DataError, ZooError

ENCODER = "pocket_simclr_rn_shapes"


def folder_of_two(root: Path) -> Path:
    """Six images in each of two classes."""
    for number in range(12):
        file = root / ("cat", "dog")[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)).save(file)
    return root


@contextmanager
def within(folder: Path) -> Iterator[None]:
    """The address of a socket is short, so that it is bound from its folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def bind(path: Path) -> None:
    with within(path.parent), socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)


KINDS: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "socket": bind,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link in a circle": lambda path: path.symlink_to(path.name),
}


def found_by(function: Callable[[], Any]) -> Any:
    """What a function returns or refuses, in a process of its own, for it may wait forever."""

    def done() -> Any:
        try:
            return function()
        except ZooError as error:
            return f"{type(error).__name__}: {error}"

    child = Child(done)
    try:
        return child.result()
    finally:
        child.process.kill()


def test_only_regular_files_of_a_folder_are_images_and_the_rest_is_counted(tmp_path: Path) -> None:
    root = folder_of_two(tmp_path / "pets")
    for kind, make in KINDS.items():
        make(root / "cat" / f"{kind[:4]}.png")
        make(root / f"{kind[:4]}.jpg")
    (root / "link.jpg").unlink()
    (root / "here").symlink_to("here")

    def opened() -> tuple[int, list[str]]:
        data = open_images(root)
        return len(data.train) + len(data.val), describe_decoding([data.train, data.val])

    n, notes = found_by(opened)
    assert n == 12
    assert notes == ["8 files were left out: 2 device, 2 link in a circle, 2 pipe, 2 socket"]
    tree = list_tree(root)
    assert len(tree.paths()) == tree.n == 12 and tree.all_left_out().total() == 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_refuses_a_path_that_is_no_regular_file(kind: str, tmp_path: Path) -> None:
    root = folder_of_two(tmp_path / "pets")
    KINDS[kind](root / "odd.png")
    rows = [f"{path.relative_to(root)},{path.parent.name}" for path in sorted(root.glob("*/*.png"))]
    (root / "set.csv").write_text("\n".join(["path,label", *rows, "odd.png,cat"]))
    said = found_by(lambda: open_images(root / "set.csv"))
    assert said.startswith("DataError: 1 of 13 images") and f"it is a {kind}, no regular file." in said


@pytest.mark.parametrize("kind", KINDS)
def test_images_and_sources_that_are_no_regular_files_are_one_sentence(kind: str, tmp_path: Path) -> None:
    def refused(function: Callable[[], Any]) -> None:
        assert "no regular file" in (said := found_by(function)) and "\n" not in said, said

    for ending in ("csv", "tsv", "npz", "json", "txt", "toml", "pt", "png"):
        KINDS[kind](tmp_path / f"odd.{ending}")
        if ending != "png":
            refused(lambda ending=ending: open_images(tmp_path / f"odd.{ending}"))
    refused(lambda: make_unlabelled_images([tmp_path / "odd.png"])[0])
    said = found_by(lambda: run("look", ENCODER, str(tmp_path / "odd.png"), code=2).stderr)
    assert f"is a {kind}; expected image files" in said


def test_arrays_weights_and_studies_that_are_pipes_are_one_sentence(tmp_path: Path) -> None:
    for name in ("z.npy", "z.npz", "w.pth", "study.py", "facts.toml", "a.tar", "a.parquet", "probe.json"):
        os.mkfifo(tmp_path / name)
    weights = ("register", str(tmp_path / "w.pth"), "--like", ENCODER, "--id", "mine")
    commands = (
        ("metric", "rankme", str(tmp_path / "z.npy")),
        ("metric", "rankme", str(tmp_path / "z.npz")),
        weights,
        (*weights, "--facts", str(tmp_path / "facts.toml")),
        ("study", str(tmp_path / "study.py")),
        ("evaluate", ENCODER, f"webdataset:{tmp_path}/a.tar"),
        ("evaluate", ENCODER, f"parquet:{tmp_path}/a.parquet"),
        ("predict", str(tmp_path), str(tmp_path)),
    )
    for command in commands:
        code = 2 if "--facts" in command else 1
        said = found_by(lambda command=command, code=code: run(*command, code=code).stderr)
        assert said.count("Error: ") == 1 and "Traceback" not in said, (command, said)


def archive_of(declared: tuple[int, ...], held: bytes, compression: int) -> bytes:
    """An npz file whose array x says that it has this shape, of float32."""
    head, file = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": declared})
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("x.npy", head.getvalue() + held)
        with archive.open("y.npy", "w") as labels:
            np.save(labels, np.arange(4) % 2)
    return file.getvalue()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_declares_more_than_it_holds_takes_no_memory_for_it(compression: int, tmp_path: Path) -> None:
    file = tmp_path / "set.npz"
    declared = (2**30, 2**20, 3)  # 12 petabytes, which no machine has
    file.write_bytes(archive_of(declared, bytes(4 * 8 * 8), compression))
    with pytest.raises(DataError, match=r"x\.npy declares 13,510,798,882,111,488 bytes of float32"):
        open_images(file)
    large = bytearray(archive_of(declared, bytes(64), compression))
    at = large.index(b"PK\x01\x02")  # the directory says that the member is as large, which the member is not
    large[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")
    file.write_bytes(large)
    with pytest.raises(DataError, match=r"set\.npz is damaged or of another kind"):
        open_images(file)
    array = tmp_path / "z.npy"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2**45, 16)})
    array.write_bytes(head.getvalue() + bytes(1024))
    assert "declares 4,503,599,627,370,496 bytes of float64" in run("metric", "rankme", str(array), code=1).stderr


def test_a_whole_archive_is_read_as_before(tmp_path: Path) -> None:
    x, y = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 2
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "set.npz", x=x + np.arange(40, dtype=np.uint8)[:, None, None], y=y)
        with suppress(FileNotFoundError):
            data = open_images(tmp_path / "set.npz")
            assert len(data.train) + len(data.val) == 40
