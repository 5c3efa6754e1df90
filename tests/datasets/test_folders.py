"""Folders of images: found in one order everywhere, split for good, and refused where a probe would be misled."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.each import for_each
from zoo.datasets import open_images
from zoo.errors import CorruptImage, DataError, QueryError


def put(path: Path, grey: int = 0, *, mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (3, 2), grey if mode == "L" else None).save(path)
    return path


@pytest.fixture
def two_parts(tmp_path: Path) -> Path:
    """Two classes; three images of each to train on, two to test on."""
    for part, n in (("train", 3), ("val", 2)):
        for label in ("cat", "dog"):
            for number in range(n):
                put(tmp_path / "pets" / part / label / f"{number}.png", grey=number + 10 * n)
    return tmp_path / "pets"


@pytest.fixture
def one_part(tmp_path: Path) -> Path:
    for number in range(40):
        put(tmp_path / "pets" / ("cat" if number % 2 else "dog") / f"{number}.png", grey=number)
    return tmp_path / "pets"


def test_a_folder_with_train_and_a_second_part_is_opened_and_links_are_followed(two_parts: Path) -> None:
    data = open_images(two_parts)
    for first, second in (("val", "validation"), ("validation", "test")):
        (two_parts / first).rename(two_parts / second)
        assert open_images(two_parts).val.fingerprint == data.val.fingerprint
    put(two_parts.parent / "elsewhere" / "9.png")
    (two_parts / "train" / "cat" / "more").symlink_to(two_parts.parent / "elsewhere", target_is_directory=True)
    (two_parts / "train" / "cat" / "self").symlink_to(".", target_is_directory=True)
    assert open_images(two_parts).train.names[3:5] == ["cat/more/9.png", "dog/0.png"]
    assert data.name == "pets" and data.train.classes == data.val.classes == ("cat", "dog")
    assert data.train.names == ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "dog/2.png"]
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1] and (data.train.split, data.val.split) == ("train", "val")
    assert np.asarray(data.train[4][0]).max() == 31


def test_names_are_in_the_order_of_their_code_points_and_hidden_or_other_files_are_ignored(two_parts: Path) -> None:
    for name in ("Z.JPG", "a.jpeg", "10.png", "é.png", "ß.webp"):
        put(two_parts / "train" / "cat" / name)
    for name in (".hidden.png", "notes.txt", "Thumbs.db"):
        (two_parts / "train" / "cat" / name).write_text("x")
    put(two_parts / "train" / ".cache" / "1.png")
    names = [name[4:] for name in open_images(two_parts).train.names if name.startswith("cat/")]
    assert names == ["0.png", "1.png", "10.png", "2.png", "Z.JPG", "a.jpeg", "ß.webp", "é.png"]
    assert names == sorted(names)


def test_one_folder_is_split_by_names_and_added_images_move_no_other(one_part: Path) -> None:
    before = open_images(one_part, val_share=0.3)
    assert 3 < len(before.val) < 22 and len(before.train) + len(before.val) == 40
    for number in range(100, 160):
        put(one_part / "cat" / f"{number}.png", grey=number)
    after = open_images(one_part, val_share=0.3)
    for part in ("train", "val"):
        assert set(getattr(before, part).names) < set(getattr(after, part).names)
    more = open_images(one_part, val_share=0.5)
    assert set(after.val.names) < set(more.val.names)
    assert set(open_images(one_part, val_share=0.3, seed=1).val.names) != set(after.val.names)


@pytest.mark.filterwarnings("error")
@for_each(["text", "cut", "empty", "link", "gone"])
def test_a_corrupt_image_is_named_when_it_is_read_and_the_others_are_not_touched(how: str, two_parts: Path) -> None:
    file, images = two_parts / "train" / "dog" / "1.png", open_images(two_parts).train
    Image.effect_noise((64, 64), 50).save(file)
    file.write_bytes({"text": b"this is no image", "cut": file.read_bytes()[:500]}.get(how, b""))
    if how in ("link", "gone"):
        file.unlink()
    if how == "link":
        file.symlink_to("nowhere")
    if how != "gone":
        images = open_images(two_parts).train
    why = {"empty": r".it is empty.; restore", "link": ".No such file or directory.; .* --skip-corrupt"}.get(how, "")
    with pytest.raises(CorruptImage, match=rf"The image 'dog/1.png' of 'pets' cannot be read {why}") as caught:
        images[4]
    assert caught.value.image == "dog/1.png" and images[3][1] == images[5][1] == 1


def same_parts(root: Path) -> None:
    shutil.rmtree(root / "val")
    shutil.copytree(root / "train", root / "val")


@for_each(
    [
        (shutil.rmtree, "There is no image set|no folder"),
        (lambda root: [shutil.rmtree(root / part) for part in ("train", "val")], "no image in a folder of a class"),
        (lambda root: put(root / "train" / "1.png"), "1 image outside a folder of a class, such as '1.png'"),
        (lambda root: shutil.rmtree(root / "val"), "has train/ but none of val/"),
        (lambda root: (root / "train" / "emu").mkdir(), "1 of 3 class folders .* the first is 'emu'"),
        (lambda root: put(root / "val" / "emu" / "1.png"), "1 test image of 'pets' has a class .* 'emu'"),
        (lambda root: [shutil.rmtree(root / part / "dog") for part in ("train", "val")], "same label, 'cat'"),
        (same_parts, "are the same 6 images"),
    ],
    arguments=2,
)
def test_folders_that_would_mislead_a_probe_are_refused(make: Any, words: str, two_parts: Path, tmp_path: Path) -> None:
    other = shutil.copytree(two_parts, tmp_path / "copy" / "pets")
    make(other)
    with pytest.raises((DataError, QueryError), match=words):
        open_images(other)
    shutil.rmtree(other, ignore_errors=True)
