"""Semantic masks: those of the rendered set, and files in all layouts against arrays written by hand."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.each import for_each
from zoo.datasets import geometry, open_images
from zoo.datasets.coco_masks import decode_segmentation, fill_polygon
from zoo.datasets.dense import DenseData, MapSet
from zoo.datasets.sources import open_dense
from zoo.errors import DataError, QueryError, UnknownName

SMALL = "shapes:classes=4,train=12,val=8,size_px=16"
HEIGHT, WIDTH = 4, 6
X = -1  # ignored
TRUTH = {  # the classes of four images, by name
    "a": [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 2, 2, 1, 1], [0, 0, 2, 2, 1, 1]],
    "b": [[1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1]],
    "c": [[2, 2, 2, 0, 0, 0], [2, 2, 2, 0, 0, 0], [2, 2, 2, 0, 0, 0], [0, 0, 0, 0, 0, 1]],
    "d": [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [2, 2, 1, 1, 0, 0]],
}
PARTS = {"a": "train", "b": "train", "c": "val", "d": "val"}
NAMES = ("sky", "road", "car")
COLOURS = np.array([[0, 0, 0], [128, 64, 128], [0, 0, 142]], np.uint8)


def put(path: Path, pixels: Any, palette: np.ndarray | None = None, **options: Any) -> Path:
    """An image file of an array, of mode P with a palette."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    if palette is not None:
        image.putpalette(palette.reshape(-1).tolist())
    image.save(path, **options)
    return path


def picture(name: str) -> np.ndarray:
    return np.random.default_rng(ord(name)).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)


def lay_out(root: Path, image: str, mask: str, write: Callable[[Path, np.ndarray], Any] = put) -> Path:
    """The four images and masks under paths with {part} and {name}."""
    for name, classes in TRUTH.items():
        put(root / image.format(part=PARTS[name], name=name), picture(name))
        write(root / mask.format(part=PARTS[name], name=name), np.array(classes))
    return root


def read(data: DenseData) -> dict[str, np.ndarray]:
    """The classes of each image by the letter in its name, -1 where ignored; images and masks go together."""
    found = {}
    for part in (data.train, data.val):
        for (image, _), (values, valid) in zip(part.images, pickle.loads(pickle.dumps(part)).maps, strict=True):
            name = next(name for name in TRUTH if (np.asarray(image) == picture(name)).all())
            found[name] = np.where(valid, values[:, :, 0], X).astype(int)
    return found


def check(data: DenseData, classes: tuple[str, ...], *, truth: dict[str, Any] = TRUTH) -> None:
    assert data.train.classes == data.val.classes == classes
    found = read(data)
    assert found.keys() == truth.keys()
    for name in truth:
        np.testing.assert_array_equal(found[name], truth[name], err_msg=name)


def notes(data: DenseData) -> str:
    return "\n".join(data.train.images.reading.notes)


def test_rendered_masks_have_the_class_of_what_is_seen_at_the_centre_of_each_pixel() -> None:
    data, labelled = open_dense(SMALL, task="segmentation"), open_images(SMALL)
    assert data.train.classes == ("background", *labelled.train.classes, "bar") == data.val.classes
    for i, (values, valid) in enumerate(data.train.maps):
        layer = geometry(labelled.train, i).layer
        expected = np.select([layer == 0, layer == 1, layer == 2], [0, 1 + labelled.train.labels[i], 5])
        np.testing.assert_array_equal(values, expected[:, :, None])
        assert values.dtype == np.float32 and valid.all()
    few = data.train.subset([7, 2], split="two")
    assert few.classes == data.train.classes and few.fingerprint != data.train.fingerprint


def test_classes_of_rendered_masks_are_ignored_by_name_or_number() -> None:
    whole = open_dense(SMALL, task="segmentation").train
    for given in ("bar", "5"):
        data = open_dense(SMALL, task="segmentation", ignore_labels=["background", given])
        assert data.train.classes == whole.classes[1:5] and data.train.fingerprint != whole.fingerprint
        for (values, valid), (before, _) in zip(data.train.maps, whole.maps, strict=True):
            np.testing.assert_array_equal(valid, (before[:, :, 0] > 0) & (before[:, :, 0] < 5))
            np.testing.assert_array_equal(values[valid], before[valid] - 1)


PATHS = {
    "parts above": ("{part}/images/{name}.png", "{part}/masks/{name}.png"),
    "parts below": ("images/{part}/{name}.png", "labels/{part}/{name}.png"),
    "parts in the same word": ("{part}_images/{name}.png", "{part}_masks/{name}.png"),
    "as CamVid of SegNet": ("{part}/{name}.png", "{part}annot/{name}.png"),
    "endings": ("img/{part}/{name}.png", "gt/{part}/{name}_mask.png"),
    "both endings": ("{part}/imgs/{name}_image.png", "{part}/Annotations/{name}_label.png"),
    "beginnings": ("{part}/images/image_{name}.png", "{part}/masks/mask_{name}.png"),
    "next to the images": ("{part}/{name}.png", "{part}/{name}_mask.png"),
    "folders in them": ("images/{part}/city/{name}.png", "masks/{part}/city/{name}.png"),
    "as DeepGlobe": ("{part}/{name}_sat.png", "{part}/{name}_mask.png"),
    "as ISIC": ("Task1_{part}_Input/{name}.png", "Task1_{part}_GroundTruth/{name}_segmentation.png"),
    "as Oxford-IIIT Pet": ("{part}/images/{name}.png", "{part}/annotations/trimaps/{name}.png"),
    "a folder of masks more": ("{part}/images/{name}.png", "{part}/masks/final/{name}.png"),
    "masks in one folder": ("images/{part}/{name}.png", "masks/{name}.png"),
}


@for_each(PATHS)
def test_images_and_masks_are_paired_by_their_names_in_parts(layout: str, tmp_path: Path) -> None:
    root = lay_out(tmp_path / layout, *PATHS[layout])
    (root / "classes.txt").write_text("\n".join(NAMES))
    data = open_dense(root, task="segmentation")
    check(data, NAMES)
    assert [len(data.train), len(data.val), data.is_split_here] == [2, 2, False]
    other = open_dense(root, task="segmentation", name="x")
    assert (other.train.fingerprint, other.name) == (data.train.fingerprint, "x")


def test_one_folder_is_split_by_names_and_a_changed_mask_changes_the_fingerprint(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "images/{name}.png", "masks/{name}.png")
    data = open_dense(root, task="segmentation", val_share=0.5, seed=3)
    check(data, ("0", "1", "2"))
    assert data.is_split_here and len(data.train) + len(data.val) == 4
    put(root / "masks/a.png", 2 - np.array(TRUTH["a"]))
    put(root / "masks/b.png", 2 - np.array(TRUTH["b"]))
    changed = open_dense(root, task="segmentation", val_share=0.5, seed=3)
    assert changed.train.images.fingerprint == data.train.images.fingerprint
    assert changed.train.fingerprint != data.train.fingerprint


def of_palette(path: Path, classes: np.ndarray) -> None:
    put(path, classes, COLOURS)


def of_own_palette(path: Path, classes: np.ndarray) -> None:
    """As programs that save space write it: the colours of this mask alone, in the order they occur in."""
    used = np.unique(classes)
    put(path, np.searchsorted(used, classes), COLOURS[used])


def coloured(path: Path, classes: np.ndarray) -> None:
    put(path, COLOURS[classes])


def with_alpha(path: Path, classes: np.ndarray) -> None:
    put(path, np.dstack([COLOURS[classes], np.where(classes == 0, 0, 255)]))


def of_16_bits(path: Path, classes: np.ndarray) -> None:
    Image.fromarray((1000 * classes).astype(np.uint16)).save(put(path, classes))


HEX = ("#000000", "#00008e", "#804080")
BY_HEX = {name: np.array([0, 2, 1])[np.array(classes)] for name, classes in TRUTH.items()}
TABLE = "name,r,g,b\nsky,0,0,0\nroad,128,64,128\ncar,0,0,142\n"
STORED = {  # how masks are written, a file of names, and the classes
    "grey": (put, None, ("0", "1", "2"), TRUTH),
    "grey as colours": (lambda path, classes: put(path, np.dstack([classes] * 3)), None, ("0", "1", "2"), TRUTH),
    "a palette": (of_palette, ("labels.txt", "sky\nroad\ncar"), NAMES, TRUTH),
    "a palette of each mask": (of_own_palette, ("class_dict.csv", TABLE), NAMES, TRUTH),
    "colours of a table": (coloured, ("class_dict.csv", TABLE), NAMES, TRUTH),
    "colours of CamVid": (coloured, ("label_colors.txt", "0 0 0\tsky\n128 64 128\t\troad\n0 0 142\tcar"), NAMES, TRUTH),
    "colours of CVAT": (coloured, ("labelmap.txt", "# label:color_rgb:parts:actions\nsky:0,0,0::\nroad:128,64,128::\n"
                                   "car:0,0,142::"), NAMES, TRUTH),
    "colours without a table": (coloured, None, HEX, BY_HEX),
    "colours over nothing": (with_alpha, None, HEX, BY_HEX),
    "numbers with names": (lambda path, classes: put(path, 10 * classes + 7),
                           ("id2label.json", json.dumps({"7": "sky", "17": "road", "27": "car"})), NAMES, TRUTH),
    "names that begin with 1": (put, ("classes.txt", "road\ncar"), ("background", "road", "car"), TRUTH),
    "numbers from 1": (lambda path, classes: put(path, classes + 1), ("classes.json", json.dumps(NAMES)), NAMES, TRUTH),
    "16 bits": (of_16_bits, None, ("0", "1000", "2000"), TRUTH),
}  # fmt: skip


@for_each(STORED)
def test_stored_values_become_classes(how: str, tmp_path: Path) -> None:
    write, names, classes, truth = STORED[how]
    root = lay_out(tmp_path / how, "{part}/images/{name}.png", "{part}/masks/{name}.png", write)
    if names is not None:
        (root / names[0]).write_text(names[1])
    data = open_dense(root, task="segmentation")
    check(data, classes, truth=truth)
    if classes == HEX:
        assert "3 colours of masks are the classes: #000000, #00008e, #804080; a file class_dict.csv" in notes(data)


def test_binary_masks_have_a_background_and_255_is_ignored_only_among_others(tmp_path: Path) -> None:
    binary = lay_out(tmp_path / "binary", "images/{part}/{name}.png", "masks/{part}/{name}.png",
                     lambda path, classes: put(path, 255 * (classes == 1)))  # fmt: skip
    check(open_dense(binary, task="segmentation"), ("background", "foreground"),
          truth={name: np.array(classes) == 1 for name, classes in TRUTH.items()})  # fmt: skip
    (binary / "classes.txt").write_text("road")
    assert open_dense(binary, task="segmentation").val.classes == ("background", "road")
    voc = lay_out(tmp_path / "void", "images/{part}/{name}.png", "masks/{part}/{name}.png",
                  lambda path, classes: put(path, np.where(classes == 2, 255, classes)))  # fmt: skip
    data = open_dense(voc, task="segmentation")
    ignored = {name: np.where(np.array(classes) == 2, X, classes) for name, classes in TRUTH.items()}
    check(data, ("0", "1"), truth=ignored)
    assert "pixels of 255 are ignored" in notes(data)


def test_classes_are_ignored_by_value_and_by_name(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "{part}/images/{name}.png", "{part}/masks/{name}.png")
    (root / "classes.txt").write_text("\n".join(NAMES))
    truth = {name: np.array([X, 0, 1])[np.array(classes)] for name, classes in TRUTH.items()}
    for given in ("0", "sky"):
        check(open_dense(root, task="segmentation", ignore_labels=[given]), NAMES[1:], truth=truth)
    with pytest.raises(QueryError, match="'tree' was to be ignored, and is no value or class of the masks"):
        open_dense(root, task="segmentation", ignore_labels=["tree"])
    with pytest.raises(QueryError, match="ignore_labels is of masks, and the task is depth"):
        open_dense(root, task="depth", ignore_labels=["0"])


ONE_PER_CLASS = (
    *("masks/CLASS/{name}.png", "masks/{name}_CLASS.png", "masks/{name}/CLASS.png"),
    "{part}/masks/CLASS/{name}.png",
)


def one_per_class(path: Path, classes: np.ndarray) -> None:
    for number in np.unique(classes[classes > 0]).tolist():
        put(Path(str(path).replace("CLASS", NAMES[number])), 255 * (classes == number))


@for_each(ONE_PER_CLASS)
def test_masks_of_one_class_each_are_one_mask_and_ignored_where_they_overlap(mask: str, tmp_path: Path) -> None:
    image = "{part}/images/{name}.png" if "part" in mask else "images/{name}.png"
    root = lay_out(tmp_path / mask.replace("/", "-").replace("CLASS", "X"), image, mask, one_per_class)
    classes = ("background", "car", "road")
    swapped = {name: np.array([0, 2, 1])[np.array(one)] for name, one in TRUTH.items()}
    check(open_dense(root, task="segmentation", val_share=0.5, seed=3), classes, truth=swapped)
    first = next(root.glob(mask.format(part="*", name="a").replace("CLASS", "car")))
    put(first, 255 * (np.array(TRUTH["a"]) > 0))
    data = open_dense(root, task="segmentation", val_share=0.5, seed=3)
    swapped["a"] = np.where(swapped["a"] == 2, X, swapped["a"])
    check(data, classes, truth=swapped)


def test_adeks_layout_has_names_and_ignores_what_is_none_of_them(tmp_path: Path) -> None:
    longer = {"train": "training", "val": "validation"}
    for name, classes in TRUTH.items():
        put(tmp_path / "images" / longer[PARTS[name]] / f"{name}.png", picture(name))
        put(tmp_path / "annotations" / longer[PARTS[name]] / f"{name}.png", classes)
    (tmp_path / "objectInfo150.txt").write_text("Idx\tRatio\tTrain\tVal\tStuff\tName\n1\t.5\t9\t9\t1\twall, stone\n"
                                                "2\t.2\t9\t9\t1\tbuilding\n3\t.1\t9\t9\t1\tsky\n")  # fmt: skip
    data = open_dense(tmp_path, task="segmentation")
    check(data, ("wall", "building", "sky"), truth={name: np.array(one) - 1 for name, one in TRUTH.items()})
    assert "pixels of 0 are ignored" in notes(data) and "1 of 3 classes are in no training mask: sky" in notes(data)


def test_vocs_layout_has_its_lists_its_names_and_its_void(tmp_path: Path) -> None:
    palette = np.zeros((256, 3), np.uint8)

    def with_void(path: Path, classes: np.ndarray) -> None:
        put(path, np.where(classes == 2, 255, classes), palette)

    root = lay_out(tmp_path / "VOC2012", "JPEGImages/{name}.png", "SegmentationClass/{name}.png", with_void)
    put(root / "JPEGImages" / "unlabelled.png", picture("z"))
    put(root / "SegmentationObject" / "a.png", TRUTH["a"])
    lists = root / "ImageSets" / "Segmentation"
    lists.mkdir(parents=True)
    for part in ("train", "val"):
        (lists / f"{part}.txt").write_text("\n".join(name for name in TRUTH if PARTS[name] == part))
    data = open_dense(tmp_path, task="segmentation")
    assert data.train.classes[:3] == ("background", "aeroplane", "bicycle") and len(data.train.classes) == 21
    ignored = {name: np.where(np.array(classes) == 2, X, classes) for name, classes in TRUTH.items()}
    check(data, data.train.classes, truth=ignored)
    assert "1 of 5 images without a mask left out, the first is 'VOC2012/JPEGImages/unlabelled.png'" in notes(data)


@for_each([("labelIds", [0, 7, 33]), ("labelTrainIds", [255, 0, 18])], arguments=2)
def test_cityscapes_ids_are_the_19_classes(ending: str, values: list[int], tmp_path: Path) -> None:
    def write(path: Path, classes: np.ndarray) -> None:
        put(path, np.array(values)[classes])
        put(path.with_name(path.name.replace(ending, "color")), COLOURS[classes])

    root = lay_out(tmp_path / ending, "leftImg8bit/{part}/bonn/{name}_leftImg8bit.png",
                   f"gtFine/{{part}}/bonn/{{name}}_gtFine_{ending}.png", write)  # fmt: skip
    data = open_dense(root, task="segmentation")
    assert len(data.train.classes) == 19 and (data.train.classes[0], data.train.classes[18]) == ("road", "bicycle")
    check(data, data.train.classes, truth={name: np.array([X, 0, 18])[np.array(one)] for name, one in TRUTH.items()})


def encoded(pixels: Any) -> bytes:
    held = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(held, "PNG")
    return held.getvalue()


def test_a_table_names_images_masks_and_parts(tmp_path: Path) -> None:
    lay_out(tmp_path, "x/{name}.png", "y/m{name}.png")
    rows = [f"x/{name}.png,y/m{name}.png,{PARTS[name]}" for name in TRUTH]
    for header in ("image,mask,split", "file,truth,split"):
        (tmp_path / "pairs.csv").write_text("\n".join([header, *rows]))
        check(open_dense(tmp_path / "pairs.csv", task="segmentation"), ("0", "1", "2"))
    (tmp_path / "pairs.csv").write_text("\n".join(["image,other,split", *rows]).replace(".png,tr", ",tr"))
    with pytest.raises(DataError, match="no column of masks under a usual name"):
        open_dense(tmp_path / "pairs.csv", task="segmentation")


def test_images_of_a_group_are_on_one_side_and_every_image_has_one(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "{name}.png", "{name}_mask.png")
    lines = [f"{name}.png,{name}_mask.png,{'p1' if name in 'ac' else 'p2'}" for name in TRUTH]
    file = root / "all.csv"
    file.write_text("\n".join(["image,mask,patient", *lines]))
    data = open_dense(file, task="segmentation", group="patient", val_share=0.5, seed=2)
    assert {tuple(part.images.names) for part in (data.train, data.val)} == {("a.png", "c.png"), ("b.png", "d.png")}
    assert data.train.images.groups is not None and len(set(data.train.images.groups.tolist())) == 1
    ungrouped = open_dense(file, task="segmentation", val_share=0.5, seed=2)
    assert "--group patient keeps them together" in notes(ungrouped)
    file.write_text("\n".join(["image,mask,patient", *lines[:3], "d.png,d_mask.png,"]))
    with pytest.raises(DataError, match="no group"):
        open_dense(file, task="segmentation", group="patient")
    with pytest.raises(UnknownName, match=r"no image set with masks named 'digits'.*zoo segment --help"):
        open_dense("digits", task="segmentation")
    with pytest.raises(QueryError, match=r"group is of tables, and .* is none"):
        open_dense(root, task="segmentation", group="patient")


def test_arrays_of_whole_numbers_are_masks(tmp_path: Path) -> None:
    def write(path: Path, classes: np.ndarray) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.where(classes == 2, 300, classes).astype(np.int64))

    root = lay_out(tmp_path, "{part}/images/{name}.png", "{part}/masks/{name}.npy", write)
    np.save(root / "train/images/other.npy", np.zeros(3))
    check(open_dense(root, task="segmentation"), ("0", "1", "300"))
    write(root / "train/masks/a.npy", np.where(np.array(TRUTH["a"]) == 2, X, TRUTH["a"]))
    data = open_dense(root, task="segmentation")
    assert "pixels of -1 are ignored" in notes(data) and not data.train.maps[0][1].all()
    for wrong, words in ((np.zeros((4, 6)), "float64 .4, 6."), (np.zeros((4, 6, 1), int), "int64 .4, 6, 1.")):
        np.save(root / "train/masks/a.npy", wrong)
        with pytest.raises(DataError, match=f"The mask 'train/masks/a.npy' of .* cannot be read .it is {words}"):
            open_dense(root, task="segmentation")
    with open(root / "train/masks/a.npy", "wb") as file:  # a head of more numbers than any memory holds
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<i8", "fortran_order": False, "shape": (1 << 30, 1 << 25)}
        )
    with pytest.raises(DataError, match=r"The mask 'train/masks/a.npy' of .* cannot be read"):
        open_dense(root, task="segmentation")


def test_parquet_files_have_images_and_masks_in_two_columns(tmp_path: Path) -> None:
    for part in ("train", "val"):
        names = [name for name in TRUTH if PARTS[name] == part]
        columns = {"image": [{"bytes": encoded(picture(name)), "path": None} for name in names],
                   "annotation": [{"bytes": encoded(TRUTH[name]), "path": None} for name in names]}  # fmt: skip
        pq.write_table(pa.table(columns), tmp_path / f"{part}-0.parquet")
    data = open_dense(f"parquet:{tmp_path}", task="segmentation")
    check(data, ("0", "1", "2"))
    check(open_dense(tmp_path, task="segmentation", label_column="annotation"), ("0", "1", "2"))
    pq.write_table(pa.table({"image": columns["image"]}), tmp_path / "train-0.parquet")
    with pytest.raises(DataError, match="expected one of images and one of masks"):
        open_dense(f"parquet:{tmp_path}", task="segmentation")


def box(left: int, top: int, right: int, bottom: int) -> list[list[int]]:
    return [[left, top, right, top, right, bottom, left, bottom]]


def runs(inside: np.ndarray) -> list[int]:
    flat = inside.T.reshape(-1).astype(int)
    ends = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *ends.tolist(), len(flat)]).tolist()
    return [0, *counts] if flat[0] else counts


def coco(file: Path, names: str, annotations: list[dict[str, Any]]) -> Path:
    images = [
        {"id": 7 + i, "file_name": f"{name}.png", "height": HEIGHT, "width": WIDTH} for i, name in enumerate(names)
    ]
    for name in names:
        put(file.parent / f"{name}.png", picture(name))
    categories = [{"id": 18, "name": "dog"}, {"id": 3, "name": "cat"}]
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return file


def test_cocos_objects_become_classes_and_overlaps_and_crowds_are_ignored(tmp_path: Path) -> None:
    crowd = np.zeros((HEIGHT, WIDTH), bool)
    crowd[3, :] = True
    objects = [
        {"image_id": 7, "category_id": 3, "segmentation": box(0, 0, 3, 2), "iscrowd": 0},
        {"image_id": 7, "category_id": 18, "segmentation": box(2, 0, 5, 2)},
        {"image_id": 7, "category_id": 18, "iscrowd": 1, "segmentation": {"counts": runs(crowd), "size": [4, 6]}},
        {"image_id": 8, "category_id": 3, "segmentation": [*box(0, 0, 1, 1), *box(4, 3, 6, 4)]},
    ]  # fmt: skip
    data = open_dense(coco(tmp_path / "all.json", "abcd", objects), task="segmentation", val_share=0.3, seed=1)
    truth = {name: np.zeros((HEIGHT, WIDTH), int) for name in TRUTH}
    truth["a"][:2] = [1, 1, X, 2, 2, 0]
    truth["a"][3] = X
    truth["b"][0, 0] = truth["b"][3, 4:] = 1
    check(data, ("background", "cat", "dog"), truth=truth)
    assert "4 objects of " in notes(data) and "overlaps of two classes, and 1 crowd are ignored" in notes(data)


def test_panoptic_segments_become_the_classes_of_their_categories(tmp_path: Path) -> None:
    def write(path: Path, classes: np.ndarray) -> None:
        ids = np.array([9, 300, 70_000])[classes]
        ids[0, 0] = 0
        put(path, np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=2))

    lay_out(tmp_path, "images/{name}.bmp", "panoptic_all/{name}.png", write)
    some = [{"id": 9, "category_id": 1}, {"id": 300, "category_id": 18}]
    some += [{"id": 70_000, "category_id": 3, "iscrowd": 0}]
    annotations: list[dict[str, Any]] = [
        {"image_id": 7 + i, "file_name": f"{name}.png", "segments_info": some} for i, name in enumerate("abcd")
    ]
    annotations[3]["segments_info"] = [*some[:2], {**some[2], "iscrowd": 1}]
    images = [{"id": one["image_id"], "file_name": one["file_name"].replace("png", "bmp")} for one in annotations]
    categories = [{"id": 18, "name": "dog"}, {"id": 3, "name": "cat"}, {"id": 1, "name": "sky"}]
    held = {"images": images, "annotations": annotations, "categories": categories}
    file = tmp_path / "panoptic_all.json"
    file.write_text(json.dumps(held))
    truth = {name: np.array([0, 2, 1])[np.array(classes)] for name, classes in TRUTH.items()}
    truth["d"][truth["d"] == 1] = X
    for one in truth.values():
        one[0, 0] = X
    for spec in (file, tmp_path):
        data = open_dense(spec, task="segmentation", val_share=0.3, seed=1)
        check(data, ("sky", "cat", "dog"), truth=truth)
    assert "12 segments of " in notes(data)
    annotations[0]["segments_info"] = some[:2]
    file.write_text(json.dumps(held))
    with pytest.raises(DataError, match=r"a.png holds the segment 70000, which .* does not list"):
        open_dense(file, task="segmentation")
    (tmp_path / "panoptic_all/b.png").unlink()
    with pytest.raises(DataError, match=r"1 of 4 masks of .* are not there, the first is 'b.png'"):
        open_dense(file, task="segmentation")


def test_compressed_run_lengths_are_those_of_pycocotools() -> None:
    bits = ["0010110", "1010010", "1111110", "1100001", "1001000"]  # and what mask.encode of 2.0.11 wrote of them
    found = decode_segmentation({"counts": "142NO13NM10O123NL", "size": [5, 7]}, 5, 7)
    np.testing.assert_array_equal(found, [[one == "1" for one in row] for row in bits])
    square = np.zeros((300, 200), bool)
    square[20:250, 30:180] = True
    large = {"counts": "li8V7V2" + "0" * 297 + "lj5", "size": [300, 200]}
    np.testing.assert_array_equal(decode_segmentation(large, 300, 200), square)


def test_polygons_are_filled_where_centres_of_pixels_are_inside() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        corners = rng.uniform(-2, 14, (int(rng.integers(3, 9)), 2))
        found = fill_polygon(corners.reshape(-1).tolist(), 10, 12)
        expected = np.zeros((10, 12), bool)
        for row, column in np.ndindex(10, 12):
            x, y = column + 0.5, row + 0.5
            for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
                if (y1 <= y) != (y2 <= y):
                    expected[row, column] ^= x >= x1 + (y - y1) * (x2 - x1) / (y2 - y1)
        np.testing.assert_array_equal(found, expected)


def smeared(path: Path, classes: np.ndarray) -> None:
    """A JPEG of a large disc in white on black."""
    rows, columns = np.mgrid[:128, :128]
    put(path, 255 * ((rows - 64) ** 2 + (columns - 20 - ord(path.stem) % 7) ** 2 < 400), quality=60)


def test_binary_masks_of_jpeg_are_cut_in_the_middle_and_others_are_refused(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "binary", "{part}/images/{name}.png", "{part}/masks/{name}.jpg", smeared)
    for name in TRUTH:
        put(root / PARTS[name] / "images" / f"{name}.png", np.zeros((128, 128, 3)))
    data = open_dense(root, task="segmentation")
    assert data.train.classes == ("background", "foreground") and "were cut at 128" in notes(data)
    values, _ = data.train.maps[0]
    rows, columns = np.mgrid[:128, :128]
    disc = (rows - 64) ** 2 + (columns - 20 - ord("a") % 7) ** 2 < 400
    assert (values[:, :, 0] != disc).mean() < 0.01
    other = lay_out(tmp_path / "classes", "{part}/images/{name}.png", "{part}/masks/{name}.jpg",
                    lambda path, classes: put(path, 9 * classes))  # fmt: skip
    with pytest.raises(DataError, match=r"different values and is of a format that smears them.*expected masks as PNG"):
        open_dense(other, task="segmentation")


@for_each(range(2, 9))
def test_masks_of_turned_images_are_as_stored_or_upright_as_their_size_says(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = orientation
    upright = np.array(TRUTH["a"])
    turn = {2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
            5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
            8: Image.Transpose.ROTATE_270}[orientation]  # fmt: skip
    stored = np.asarray(Image.fromarray(upright.astype(np.uint8)).transpose(turn))
    for how, mask in {"as stored": stored, "upright": upright}.items():
        root = tmp_path / how
        for part in ("train", "val"):
            put(root / part / "images/a.png", 100 + stored * 40 + (part == "val"), exif=exif)
            put(root / part / "masks/a.png", mask)
        if how == "as stored" or orientation > 4:
            data = open_dense(root, task="segmentation")
            np.testing.assert_array_equal(data.train.maps[0][0][:, :, 0], upright)
            np.testing.assert_array_equal(np.asarray(data.train.images[0][0].convert("L")), 100 + upright * 40)


def only(name: str, classes: Any) -> Callable[[Path], Any]:
    return lambda root: put(root / PARTS[name] / "masks" / f"{name}.png", classes)


def both(classes: Any) -> Callable[[Path], Any]:
    return lambda root: [only(name, classes)(root) for name in ("a", "b")]


def coarse_and_fine(root: Path) -> None:
    for name, part in PARTS.items():
        for kind in ("fine", "coarse"):
            put(root / part / "masks" / kind / f"{name}.png", np.arange(24).reshape(4, 6))


TROUBLES = {
    "another size": (only("c", np.zeros((3, 6))), r"^The mask 'val/masks/c.png' of 'another size' is 6 x 3 px and its "
                     r"image 6 x 4 px; expected the same size"),
    "a value without a name": (only("b", np.full((4, 6), 9)), r"1 value of masks, 25 % of their pixels, are none of "
                               r"the classes of classes.txt, such as 9, the first in The mask 'train/masks/b.png'"),
    "classes that are none": (coarse_and_fine, "taken for one of a single class, by its"),
    "no image": (lambda root: put(root / "masks" / "z.png", TRUTH["a"]), None),
    "no file of an image": (lambda root: (root / "train/masks/a.png").write_bytes(b"this is none"), "cannot be read"),
    "cut off": (lambda root: (root / "train/masks/a.png").write_bytes((root / "train/masks/b.png").read_bytes()[:60]),
                "The mask 'train/masks/a.png' of 'cut off' cannot be read"),
    "one class": (both(np.zeros((4, 6))), "All masks of 'one class' to train on show one class, 'sky'"),
    "two masks": (lambda root: put(root / "train/masks/a_mask.png", TRUTH["a"]), "two masks of 'train/images/a.png'"),
    "other names": (lambda root: [path.rename(path.with_name(f"9{path.stem}.png")) for path in root.glob("*/masks/*")],
                    "No mask in .* has the name of an image, such as 'train/masks/9a.png'"),
    "odd names": (lambda root: (root / "classes.txt").write_bytes(b"\xff\xfe"), "no text in UTF-8"),
    "no masks": (lambda root: [path.unlink() for path in root.glob("*/masks/*")], "holds no masks; expected images/"),
    "all is ignored": (lambda root: [only(name, np.full((4, 6), 255))(root) for name in TRUTH], "one class, 'none'"),
}  # fmt: skip


@for_each(TROUBLES)
def test_what_is_wrong_with_masks_is_one_sentence(trouble: str, tmp_path: Path) -> None:
    spoil, words = TROUBLES[trouble]
    root = lay_out(tmp_path / trouble, "{part}/images/{name}.png", "{part}/masks/{name}.png")
    (root / "classes.txt").write_text("\n".join(NAMES))
    spoil(root)
    if words is None:
        data = open_dense(root, task="segmentation")
        assert "1 of 5 masks without an image left out, the first is 'masks/z.png'" in notes(data)
        return
    with pytest.raises(DataError, match=words) as caught:
        open_dense(root, task="segmentation")
    assert str(caught.value).count(". ") == 0 and "\n" not in str(caught.value)


def test_an_image_whose_mask_is_all_ignored_is_left_out_and_an_empty_one_is_background(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "{part}/images/{name}.png", "{part}/masks/{name}.png")
    put(root / "train/images/e.png", picture("e"))
    put(root / "train/masks/e.png", np.full((4, 6), 255))
    put(root / "val/masks/d.png", np.zeros((4, 6)))
    data: DenseData = open_dense(root, task="segmentation")
    assert len(data.train) == 2 and isinstance(data.train, MapSet)
    assert "1 image is left out, for all pixels of the mask are ignored, the first is 'train/i" in notes(data)
    assert not data.val.maps[1][0].any() and data.val.maps[1][1].all()


COCO_TROUBLES = {
    "boxes alone": ({"segmentation": []}, r"1 of 1 objects of .* have no segmentation; expected images with id"),
    "no such category": ({"category_id": 5}, r"has no 5 where COCO's JSON has it"),
    "run lengths of another size": ({"segmentation": {"counts": [3, 2], "size": [2, 2]}}, "be read .run lengths of"),
    "a corner that is none": ({"segmentation": [[0, 0, 1, None, 2, 2]]}, "cannot be read .a corner is not finite"),
    "half a corner": ({"segmentation": [[0, 0, 1, 1, 2]]}, "cannot be read"),
}  # fmt: skip


@for_each(COCO_TROUBLES)
def test_what_is_wrong_with_cocos_json_is_one_sentence(trouble: str, tmp_path: Path) -> None:
    changed, words = COCO_TROUBLES[trouble]
    usual = {"image_id": 7, "category_id": 3, "segmentation": box(0, 0, 3, 2)}
    with pytest.raises(DataError, match=words):
        open_dense(coco(tmp_path / "all.json", "abcd", [usual | changed]), task="segmentation")


def test_coco_files_of_two_parts_lie_next_to_their_images(tmp_path: Path) -> None:
    for part, names in (("train", "ab"), ("val", "cd")):
        file = tmp_path / f"{part}2017" / "x.json"
        file.parent.mkdir()
        objects = [{"image_id": 7, "category_id": 3, "segmentation": box(0, 0, 3, 2)}]
        (tmp_path / "annotations").mkdir(exist_ok=True)
        coco(file, names, objects).rename(tmp_path / "annotations" / f"instances_{part}2017.json")
    data = open_dense(tmp_path, task="segmentation")
    assert [data.train.images.names, len(data.val), data.is_split_here] == [["a.png", "b.png"], 2, False]
    assert data.val.maps[0][0].sum() == 6
