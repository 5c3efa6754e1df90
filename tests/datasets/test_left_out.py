"""Which files of folders and archives are images, and what users are told of those that are left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.datasets.test_image_files import dense_folder, folder_of, in_8_bits, pixels
from tests.image_files import exif, shades
from tests.shard_files import png, put, tar
from zoo.datasets import image_files, open_images
from zoo.datasets.folders import list_tree
from zoo.datasets.image_files import SUFFIXES
from zoo.datasets.notes import describe_decoding
from zoo.datasets.sources import open_dense
from zoo.errors import DataError

ENCODER = "pocket_simclr_rn_shapes"
QUICK = ("--settings", "full", "--no-knn", "--no-record")
COLOURS = np.kron(np.random.default_rng(0).integers(40, 200, (4, 4, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
FORMATS = {  # ending: what Pillow calls it, and by how much a pixel may differ
    "apng": ("PNG", 0), "avif": ("AVIF", 6), "bmp": ("BMP", 0), "dib": ("DIB", 0), "gif": ("GIF", 0),
    "ico": ("ICO", 0), "j2k": ("JPEG2000", 0), "jfif": ("JPEG", 12),
    "jp2": ("JPEG2000", 0), "jpe": ("JPEG", 12), "mpo": ("MPO", 12), "pcx": ("PCX", 0), "pnm": ("PPM", 0),
    "sgi": ("SGI", 0), "tga": ("TGA", 0), "tiff": ("TIFF", 0), "webp": ("WEBP", 0),
}  # fmt: skip
OPTIONS = {"WEBP": {"lossless": True}, "AVIF": {"quality": 100, "subsampling": "4:4:4"}, "ICO": {"sizes": [(32, 32)]}}

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "set", in_8_bits, n=(3, 2))


def test_images_of_every_format_that_pillow_reads_have_their_pixels(root: Path) -> None:
    for ending, (kind, _) in FORMATS.items():
        options = OPTIONS.get(kind, {}) | ({"quality": 95, "subsampling": 0} if kind in ("JPEG", "MPO") else {})
        Image.fromarray(COLOURS).save(root / "train" / "a" / f"of.{ending.upper()}", kind, **options)
    train = open_images(root).train
    for ending, (_, most) in FORMATS.items():
        shown = train.images[train.names.index(f"a/of.{ending.upper()}")].convert("RGB")
        assert np.abs(np.asarray(shown, int) - COLOURS).max() <= most, ending
    assert train.reading.left_out == {}


def test_photos_of_phones_are_read_and_turned_where_the_library_is_installed(root: Path) -> None:
    grey = np.kron(shades(), np.ones((8, 8), np.uint8))
    for name, turn in (("upright", 1), ("turned", 6)):
        held = Image.fromarray(grey).convert("RGB")
        pillow_heif.from_pillow(held).save(root / "train" / "a" / f"{name}.heic", quality=-1, exif=exif(turn).tobytes())
    train = open_images(root).train
    upright, turned = (train.images[train.names.index(f"a/{name}.heic")] for name in ("upright", "turned"))
    assert np.abs(np.asarray(upright, int)[..., 0] - grey).max() <= 4
    np.testing.assert_array_equal(np.asarray(turned), np.rot90(np.asarray(upright), -1))


@pytest.fixture
def littered(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with photos of phones that cannot be read here, other files, and what systems put there."""
    monkeypatch.setattr(image_files, "SUFFIXES", tuple(ending for ending in SUFFIXES if ending != ".heic"))
    for name in (
        "train/a/1.heic",
        "train/b/2.HEIC",
        "val/a/notes.txt",
        "val/b/x.svg",
        "train/b/.gitkeep",
        "classes.json",
    ):
        (root / name).write_text("x")
    for name in ("train/a/Thumbs.db", "train/.DS_Store", "val/b/._0.png", "train/b/IM.000123"):
        (root / name).write_text("x")
    for folder in ("train/@eaDir/a", "train/a/@eaDir", "train/__MACOSX", "lost+found", "val/.ipynb_checkpoints"):
        (root / folder).mkdir(parents=True)
        shutil.copy(root / "train" / "a" / "0.png", root / folder / "0.png")
    return root


TRAIN = {
    ".heic": 2, "hidden": 1, ".json": 1, "Thumbs.db": 1, ".DS_Store": 1, "other": 1, "@eaDir/": 2, "__MACOSX/": 1,
    "lost+found/": 1,
}  # fmt: skip
VAL = {".txt": 1, ".svg": 1, "._*": 1, ".ipynb_checkpoints/": 1}
NOTE = (
    "10 files and 5 folders were left out: 2 .heic (pip install pillow-heif), 1 .svg (convert to PNG), 2 @eaDir/, "
    "1 .DS_Store, 1 ._*, 1 .ipynb_checkpoints/, 1 .json, 1 .txt, 5 more"
)


def test_files_that_are_left_out_are_counted_once_in_one_sentence(littered: Path) -> None:
    data = open_images(littered)
    assert data.train.classes == ("a", "b") and (len(data.train), len(data.val)) == (6, 4)
    assert (data.train.reading.left_out, data.val.reading.left_out) == (TRAIN, VAL)
    assert describe_decoding([data.train, data.val]) == [NOTE]
    for number in range(10, 20):
        for label in "ab":
            in_8_bits(littered / "train" / label / str(number), shades(seed=number))
    whole = open_images(littered / "train")  # which is split here, so that both parts are of one folder
    assert whole.train.classes == ("a", "b")
    (note,) = describe_decoding([whole.train, whole.val])
    assert note.startswith("6 files and 3 folders were left out: 2 .heic (pip install pillow-heif), 2 @eaDir/")


def test_verbs_tell_of_them_on_the_screen_and_in_json(littered: Path, tmp_path: Path) -> None:
    probe = str(tmp_path / "probe")
    evaluate = ("evaluate", ENCODER, str(littered), *QUICK)
    assert NOTE in run(*evaluate, "--save", probe).output
    found = document("features", ENCODER, str(littered))["images"]
    assert (found["train"]["left_out"], found["val"]["left_out"]) == (TRAIN, VAL)
    assert document("predict", probe, str(littered / "val"))["images"]["all"]["left_out"] == VAL


def test_folders_without_labels_and_with_maps_leave_out_the_same(root: Path, tmp_path: Path) -> None:
    for folder in ("@eaDir", "a/__MACOSX", "a/deep"):
        (root / "val" / folder).mkdir(parents=True)
        shutil.copy(root / "val" / "a" / "0.png", root / "val" / folder / "9.png")
    tree = list_tree(root / "val")
    assert sorted(tree.paths()) == ["a/0.png", "a/1.png", "a/deep/9.png", "b/0.png", "b/1.png"]
    assert tree.all_left_out() == {"@eaDir/": 1, "__MACOSX/": 1}
    grey = shades()
    dense = dense_folder(tmp_path / "dense", Image.fromarray(grey), 1 + grey.astype(np.float32))
    (dense / "images" / "@eaDir").mkdir()
    shutil.copy(dense / "images" / "0.png", dense / "images" / "@eaDir" / "0.png")
    (dense / "images" / "notes.txt").write_text("x")
    data = open_dense(dense, task="depth")
    assert describe_decoding([data.train.images, data.val.images]) == [
        "1 file and 1 folder were left out: 1 .txt, 1 @eaDir/"
    ]


def test_members_of_archives_that_systems_put_there_are_left_out(tmp_path: Path) -> None:
    members = []
    for i in range(6):
        members += [(f"./some/{i}.png", png(i)), (f"./some/{i}.cls", b"%d" % (i % 2))]
        members += [(f"__MACOSX/some/._{i}.png", b"x"), (f"./some/@eaDir/{i}.png/SYNOPHOTO_THUMB_M.jpg", b"x")]
    members += [("./some/.DS_Store", b"x"), ("Thumbs.db", b"x")]
    put(tmp_path / "set.tar", tar(members))
    for _ in range(2):  # looked through, and then kept
        data = open_images(f"webdataset:{tmp_path / 'set.tar'}")
        assert len(data.train) + len(data.val) == 6
        assert data.train.reading.left_out == {"__MACOSX": 6, "@eaDir": 6, ".DS_Store": 1, "Thumbs.db": 1}
    put(tmp_path / "two.tar", tar([m for i in range(6) for m in (
        (f"{i}.png", png(i)), (f"{i}.pfm", b"a map of depth"), (f"{i}.cls", b"%d" % (i % 2)))]))  # fmt: skip
    assert pixels(open_images(f"webdataset:{tmp_path / 'two.tar'}").train).shape[1:] == (8, 8, 3)
    put(tmp_path / "phones.tar", tar([("0.jxl", b"x"), ("0.cls", b"0")]))
    with pytest.raises(DataError, match=r"has no image \(it has jxl, cls\); .*: convert to PNG"):
        open_images(f"webdataset:{tmp_path / 'phones.tar'}")
