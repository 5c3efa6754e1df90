"""Layouts of folders, as people have them: which folders are parts, which are classes, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.datasets import ImageData, open_images
from zoo.datasets.notes import describe_decoding
from zoo.errors import DataError, QueryError

COLOURS = ("blue", "green", "red")
Make = Callable[[Path], Any]
_count = iter(range(1 << 30))


def put(folder: Path, n: int = 1) -> list[str]:
    """Images of one grey pixel row each, no two of which are alike; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number in (next(_count) for _ in range(n)):
        names.append(f"{number:05}.png")
        row = np.array([[number % 256, number // 256, 7]], np.uint8)
        Image.fromarray(row).save(folder / names[-1])
    return names


def new(folder: Path) -> Path:
    """A folder that is not there yet."""
    return folder / f"set{next(_count)}"


def classes(folder: Path, n: int, names: tuple[str, ...] = COLOURS) -> None:
    for name in names:
        put(folder / name, n)


def parts(*folders: str) -> Make:
    """PART/CLASS/IMAGE: 5 images of each class, 3 in the second folder, 2 in others."""

    def make(root: Path) -> None:
        for folder, n in zip(folders, (5, 3, *[2] * len(folders)), strict=False):
            classes(root / folder, n)

    return make


def counts(data: ImageData) -> dict[str, tuple[int, int]]:
    n_of = zip(data.train.n_per_class().tolist(), data.val.n_per_class().tolist(), strict=True)
    return dict(zip(data.train.classes, n_of, strict=True))


def notes(data: ImageData) -> str:
    return "; ".join(describe_decoding([data.train, data.val]))


OF_PARTS = dict.fromkeys(COLOURS, (5, 3))


@for_each(
    [
        ("Training", "Testing"),
        ("Train", "Test"),
        ("TRAIN", "VAL"),
        ("training_set", "test_set"),
        ("train", "valid"),
        ("train", "dev"),
        ("train", "holdout"),
        ("train_images", "test-images"),
        ("train2017", "val2017"),
        ("trainset", "evaluation"),
        ("data/train", "data/test"),
        ("birds/birds/Train", "birds/birds/Test"),
        ("train/images", "val/images"),
        ("images/train", "images/val"),
        ("seg_train/seg_train", "seg_test/seg_test"),
        ("asl alphabet train", "asl alphabet test"),
        ("trainA", "testA"),
        ("train", "test1"),
    ]
)
def test_folders_of_parts_are_known_by_every_usual_name(folders: tuple[str, str], tmp_path: Path) -> None:
    root = new(tmp_path)
    parts(*folders)(root)
    data = open_images(root)
    assert counts(data) == OF_PARTS and not data.is_split_here and data.train.names[0].startswith("blue/")


def test_names_of_the_folders_of_parts_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    parts("train", "val")(tmp_path / "a")
    plain = open_images(tmp_path / "a")
    for old, new in (("train", "Training"), ("val", "Testing")):
        (tmp_path / "a" / old).rename(tmp_path / "a" / new)
    renamed = open_images(tmp_path / "a")
    assert (renamed.train.fingerprint, renamed.val.fingerprint) == (plain.train.fingerprint, plain.val.fingerprint)


def test_what_lies_next_to_the_parts_is_left_out_and_counted(tmp_path: Path) -> None:
    parts("train", "valid", "test", "more")(tmp_path)
    put(tmp_path, 4)
    data = open_images(tmp_path)
    assert counts(data) == OF_PARTS
    assert notes(data) == "16 images in more/, test/ next to train/ and valid/ are left out"


def class_then_part(root: Path) -> None:
    for colour in COLOURS:
        put(root / colour / "train", 5)
        put(root / colour / "test", 3)


def coco(root: Path, *, labels: Callable[[int], list[int]] = lambda k: [k]) -> None:
    for part, n in (("train", 5), ("valid", 3)):
        images, found = [], []
        for k in range(3):
            for name in put(root / part, n):
                images.append({"id": len(images), "file_name": name})
                found += [{"image_id": images[-1]["id"], "category_id": one} for one in labels(k)]
        images.append({"id": len(images), "file_name": put(root / part)[0]})  # which nobody annotated
        categories = [{"id": k, "name": colour} for k, colour in enumerate(COLOURS)]
        text = json.dumps({"images": images, "annotations": found, "categories": categories})
        (root / part / "_annotations.coco.json").write_text(text)


def coco_2017(root: Path) -> None:
    coco(root)
    (root / "annotations").mkdir()
    for part in ("train", "valid"):
        shutil.move(root / part / "_annotations.coco.json", root / "annotations" / f"instances_{part}2017.json")
        (root / part).rename(root / f"{part}2017")


def yolo(root: Path, form: str = "{part}/{kind}") -> None:
    for part, n in (("train", 5), ("valid", 3)):
        for k in range(3):
            labels = root / form.format(part=part, kind="labels")
            labels.mkdir(parents=True, exist_ok=True)
            for name in put(root / form.format(part=part, kind="images"), n):
                (labels / name.replace(".png", ".txt")).write_text(f"{k} .5 .5 .4 .4\n{k} .1 .1 .2 .2\n")
    (root / "data.yaml").write_text("path: .\nnames:\n  0: blue\n  1: green\n  2: 'red'\nnc: 3\n")


def kaggle_imagenet(root: Path) -> None:
    images = root / "ILSVRC" / "Data" / "CLS-LOC"
    classes(images / "train", 5)
    put(images / "test", 2)
    rows = [f"{name[:-4]},{colour} 1 2 3 4" for colour in COLOURS for name in put(images / "val", 3)]
    (root / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *rows]))
    (root / "LOC_synset_mapping.txt").write_text("blue a colour\n")


def metadata(root: Path, ending: str = "jsonl") -> None:
    for part, n in (("train", 5), ("test", 3)):
        rows = [(name, colour) for colour in COLOURS for name in put(root / part, n)]
        if ending == "jsonl":
            lines = [json.dumps({"file_name": name, "label": colour, "size": 3}) for name, colour in rows]
        else:
            lines = ["file_name,label", *(f"{name},{colour}" for name, colour in rows)]
        (root / part / f"metadata.{ending}").write_text("\n".join(lines))


def metadata_above(root: Path) -> None:
    rows = [(part, name, colour) for part, n in (("train", 5), ("test", 3)) for colour in COLOURS
            for name in put(root / part, n)]  # fmt: skip
    lines = [json.dumps({"file_name": f"{part}/{name}", "label": colour}) for part, name, colour in rows]
    (root / "metadata.jsonl").write_text("\n".join(lines))


def coco_of_equal_names(root: Path) -> None:
    """COCO's folders, in which images of both parts have the same names."""
    coco_2017(root)
    for part in ("train", "valid"):
        file = root / "annotations" / f"instances_{part}2017.json"
        found = json.loads(file.read_text())
        for number, one in enumerate(found["images"]):
            (root / f"{part}2017" / one["file_name"]).rename(root / f"{part}2017" / f"{number}.png")
            one["file_name"] = f"{number}.png"
        file.write_text(json.dumps(found))


@for_each(
    [
        (metadata_above, "labels of metadata.jsonl"),
        (coco_of_equal_names, "2 images without a label there are left out"),
        (class_then_part, "train/ and test/ in each folder of a class"),
        (coco, "2 images without a label there are left out"),
        (coco_2017, "2 images without a label there are left out"),
        (yolo, ""),
        (lambda root: yolo(root, "{kind}/{part}"), ""),
        (kaggle_imagenet, "6 images"),
        (metadata, ""),
        (lambda root: metadata(root, "csv"), ""),
    ],
    arguments=2,
)
def test_labels_and_parts_are_those_of_the_layout(make: Make, said: str, tmp_path: Path) -> None:
    root = new(tmp_path)
    make(root)
    data = open_images(root)
    if make is kaggle_imagenet:
        assert "what the classes mean is in " in notes(data) and "2 images in test/ next to" in notes(data)
        assert data.train.reading.left_out == {".txt": 1}
        said = ""
    assert counts(data) == OF_PARTS and not data.is_split_here and data.train.reading.layout
    assert said in f"{notes(data)} {data.train.reading.layout}"


def domains(root: Path) -> None:
    for domain, n in (("art", 5), ("photo", 4), ("sketch", 3)):
        classes(root / domain, n)


def office(root: Path) -> None:
    for domain, n in (("amazon", 5), ("dslr", 4), ("webcam", 3)):
        classes(root / domain / "images", n)


def folds(root: Path) -> None:
    for fold in range(5):
        classes(root / f"fold_{fold}", 2)


@for_each(
    [
        (domains, "sketch", (9, 3)),
        (office, "webcam", (9, 3)),
        (folds, "fold_4", (8, 2)),
        (parts("train", "val", "test"), "test", (8, 2)),
    ],
    arguments=3,
)
def test_one_of_several_folders_is_tested_on(make: Make, tested: str, n: tuple[int, int], tmp_path: Path) -> None:
    root = new(tmp_path)
    make(root)
    data = open_images(root, test_folder=tested)
    assert counts(data) == dict.fromkeys(COLOURS, n) and not data.is_split_here
    assert all(name.startswith(f"{tested}/") for name in data.val.names)
    with pytest.raises(QueryError, match=r"'nowhere'; expected one of two or more folders .*, which has .*\.$"):
        open_images(root, test_folder="nowhere")


def test_the_folder_of_a_path_that_names_the_class_can_be_said(tmp_path: Path) -> None:
    domains(tmp_path / "domains")
    for level, expected in (("first", ("art", "photo", "sketch")), ("last", COLOURS), ("2", COLOURS)):
        data = open_images(tmp_path / "domains", class_folder=level)
        assert data.train.classes == expected and len(data.train) + len(data.val) == 36
        assert ("of art/, photo/, sketch/ may be on both sides of the split" in notes(data)) == (level != "first")
    for wrong in ("0", "middle", "-1"):
        with pytest.raises(QueryError, match="expected first, last or a number from 1"):
            open_images(tmp_path / "domains", class_folder=wrong)
    with pytest.raises(DataError, match="lies below 2 folders; expected 3"):
        open_images(tmp_path / "domains", class_folder="3")
    with pytest.raises(QueryError, match="class_folder is of folders"):
        open_images("digits", class_folder="last")


def test_species_below_genera_are_of_the_genus_unless_the_innermost_folder_is_asked_for(tmp_path: Path) -> None:
    for genus, species in (("Acer", ("palmatum", "rubrum")), ("Rosa", ("canina", "rugosa"))):
        classes(tmp_path / genus, 8, species)
    data = open_images(tmp_path)
    assert data.train.classes == ("Acer", "Rosa")
    assert "the 2 folders Acer/, Rosa/ are the classes" in notes(data) and "--class-folder last" in notes(data)
    assert open_images(tmp_path, class_folder="last").train.classes == ("canina", "palmatum", "rubrum", "rugosa")


@for_each([("bus", "car", "train"), ("bus", "test1", "train"), ("car", "test", "train"), ("fail", "pass", "val")])
def test_a_class_may_be_called_like_a_part_where_all_folders_hold_images_themselves(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    root = new(tmp_path)
    classes(root, 15, names)
    data = open_images(root)
    assert data.train.classes == names and "are taken for classes" in notes(data)


def deep_vehicles(root: Path) -> None:
    for vehicle in ("bus", "car", "train"):
        classes(root / vehicle, 4, (f"old {vehicle}", f"new {vehicle}"))


def test_a_class_called_train_with_folders_in_it_is_refused_until_the_class_is_said(tmp_path: Path) -> None:
    deep_vehicles(tmp_path)
    with pytest.raises(DataError, match=r"has train/ but none of val/.*--class-folder first takes bus/, car/, train/"):
        open_images(tmp_path)
    assert open_images(tmp_path, class_folder="first").train.classes == ("bus", "car", "train")


def masks(root: Path) -> None:
    put(root / "images", 9)
    put(root / "masks", 9)


def masks_of_parts(root: Path) -> None:
    for part in ("train", "val"):
        masks(root / part)


def carvana(root: Path) -> None:
    put(root / "train", 9)
    put(root / "train_masks", 9)


def mvtec(root: Path) -> None:
    for category in ("bottle", "cable"):
        classes(root / category / "train", 5, ("good",))
        classes(root / category / "test", 3, ("broken", "good"))
        classes(root / category / "ground_truth", 3, ("broken",))


def some_classes_with_parts(root: Path) -> None:
    class_then_part(root)
    put(root / "yellow", 3)


def flat_val(root: Path) -> None:
    classes(root / "train", 5)
    put(root / "val", 3)


def flat_with_table(root: Path) -> None:
    names = put(root, 9)
    (root / "labels.csv").write_text("\n".join(["id,breed", *(f"{name},a" for name in names)]))


def flat_parts_with_table(root: Path) -> None:
    put(root / "train", 9)
    put(root / "test", 9)
    (root / "train.csv").write_text("id,breed\n1,a\n")


def kaggle(root: Path) -> None:
    flat_parts_with_table(root)
    for name in ("sample_submission.csv", "test.csv"):
        (root / name).write_text("id,breed\n1,a\n")


def labels_within(root: Path, part: str, name: str) -> None:
    (classes if part == "val" else put)(root / "train", 9)
    put(root / "val", 3)
    (root / part / name).write_text("1.png a\n")


def patients(root: Path) -> None:
    classes(root / "train", 3, ("patient1", "patient2"))
    classes(root / "valid", 3, ("patient3",))
    (root / "valid.csv").write_text("Path,Edema\n1,1\n")
    (root / "train.csv").write_text("Path,Edema\n1,1\n")


@for_each(
    [
        (domains, "two readings, .*hold folders of the same names, blue/, green/, red/.*--class-folder last.*first.*"),
        (office, "two readings, .*amazon/, dslr/, webcam/.*--test-folder webcam"),
        (folds, "folders of folds, fold_0/, fold_1/.*--test-folder fold_4 .*--class-folder last"),
        (lambda root: classes(root, 3, ("fold1", "fold2", "fold3")), "folders of folds"),
        (parts("Train"), r"has Train/ but none of val/, .* or give \S*Train to have it split"),
        (parts("train", "training", "val"), "has train/ and training/, which say the same part"),
        (parts("val", "test"), "has test/, val/ but no train/"),
        (masks, "holds images/ and masks/, .*no classes"),
        (masks_of_parts, "train holds images/ and masks/, .*no classes"),
        (carvana, "holds train/ and train_masks/, .*no classes"),
        (mvtec, "bottle/, cable/ in .* data sets of their own do; give one of them, such as .*bottle"),
        (
            lambda root: classes(root, 5, ("testA", "testB", "trainA", "trainB")),
            "trainA/ and trainB/, which say the same",
        ),
        (
            lambda root: classes(root, 5, ("fold1_test", "fold1_train", "fold2_test", "fold2_train")),
            "say the same part",
        ),
        (lambda root: classes(root, 5, ("train", "test1")), r"train holds 5 images outside .*expected train/CLASS"),
        (kaggle, r"train holds 9 images outside .*or give \S*/train\.csv, if"),
        (lambda root: labels_within(root, "train", "_classes.csv"), r"or give \S*train/_classes\.csv, if"),
        (lambda root: labels_within(root, "val", "val_annotations.txt"), r"or give \S*val/val_annotations\.txt, if"),
        (patients, r"have no class in common, the first are 'patient1' and .*or give \S*train\.csv, if"),
        (
            lambda root: parts("art", "Real World")(root),
            "--test-folder art tests on|--test-folder 'Real World' tests on",
        ),
        (lambda root: put(root / "blue"), "Splitting the 1 image of 'set"),
        (some_classes_with_parts, "hold train/ and test/, but yellow/ do not"),
        (flat_val, r"val holds 3 images outside a folder of a class, .*or give \S*train to have it split"),
        (flat_with_table, r"holds 9 images outside a folder .*or give \S*labels\.csv"),
        (flat_parts_with_table, r"holds 9 images outside a folder .*or give \S*train\.csv"),
        (lambda root: coco(root, labels=lambda k: [k, 2]), r"16 of 24 images .*several classes, .*'blue\|red'"),
    ],
    arguments=2,
)
def test_what_has_two_readings_or_no_labels_is_refused_in_one_sentence(make: Make, words: str, tmp_path: Path) -> None:
    root = new(tmp_path)
    make(root)
    with pytest.raises(DataError, match=words) as caught:
        open_images(root)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_images_with_several_classes_in_their_annotations_may_have_tags(tmp_path: Path) -> None:
    coco(tmp_path, labels=lambda k: [k, (k + 1) % 3] if k < 2 else [k])
    data = open_images(tmp_path, multi_label=True)
    assert data.train.tags == COLOURS and (len(data.train), len(data.val)) == (15, 9)


# --- lists and JSON --------------------------------------------------------------------------------------------------


@pytest.fixture
def listed(tmp_path: Path) -> tuple[Path, list[str]]:
    return tmp_path, [f"some images/{name}" for name in put(tmp_path / "some images", 30)]


def records(names: list[str]) -> list[dict[str, Any]]:
    return [{"file_name": name, "label": COLOURS[i % 3], "remark": None} for i, name in enumerate(names)]


def inaturalist(names: list[str]) -> str:
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    found = [{"image_id": i, "category_id": i % 3} for i in range(len(names))]
    categories = [{"id": k, "name": colour} for k, colour in enumerate(COLOURS)]
    return json.dumps({"images": images, "annotations": found, "categories": categories})


@for_each(
    [
        ("list.txt", lambda names: "".join(f"{name} {COLOURS[i % 3]}\n" for i, name in enumerate(names))),
        ("list.txt", lambda names: "".join(f"{name}\t{COLOURS[i % 3]}\n" for i, name in enumerate(names))),
        ("list.txt", lambda names: "path,label\n" + "".join(f"{n}, {COLOURS[i % 3]}\n" for i, n in enumerate(names))),
        ("list.csv", lambda names: "path label\n" + "".join(f"{n} {COLOURS[i % 3]}\n" for i, n in enumerate(names))),
        ("all.jsonl", lambda names: "\n".join(map(json.dumps, records(names)))),
        ("all.json", lambda names: json.dumps(records(names))),
        ("all.json", lambda names: json.dumps({one["file_name"]: one["label"] for one in records(names)})),
        ("all.json", inaturalist),
    ],
    arguments=2,
)
def test_lists_of_paths_and_labels_are_read(name: str, text: Any, listed: tuple[Path, list[str]]) -> None:
    root, names = listed
    (root / name).write_text(text(names))
    data = open_images(root / name)
    assert counts(data) == dict.fromkeys(COLOURS, (8, 2)) and data.is_split_here
    (root / name).unlink()


@for_each(
    [
        ("list.txt", "a.png\n", "Line 1 of .* has no label, 'a.png'; expected the path of an image and its label"),
        ("list.txt", "nowhere.png 0\nnowhere2.png 1\n", "2 of 2 images .* are not there"),
        ("list.txt", "", "names no image with a label"),
        ("all.json", "{", "is no JSON"),
        ("all.json", "3", "something else than paths and labels"),
        ("all.json", '{"images": [{"file": 1}], "annotations": []}', "names no image with a label|has no 'id'"),
        ("all.jsonl", '{"file_name": "a", "label": ["x", "y"]}\n', "1 of 1 images .* have several classes"),
        ("absent.txt", None, "There is no file"),
    ],
    arguments=3,
)
def test_lists_of_something_else_are_refused(name: str, text: str | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        open_images(tmp_path / name)


# --- long tails ------------------------------------------------------------------------------------------------------


def test_an_image_alone_in_its_class_is_trained_on_with_every_seed(tmp_path: Path) -> None:
    for number in range(40):
        put(tmp_path / f"c{number:02}", 1 if number < 25 else 5)
    for seed in range(5):
        data = open_images(tmp_path, seed=seed)
        assert all(n_train > 0 for n_train, _ in counts(data).values()) and len(data.val) > 5
        assert all(counts(data)[f"c{number:02}"] == (1, 0) for number in range(25))
        assert "of 40 classes have no test image" in notes(data)


# --- zoo data --------------------------------------------------------------------------------------------------------


def test_the_verb_data_says_first_what_evaluate_says_first_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    office(tmp_path / "office")
    kept = tmp_path / "office.toml"
    said = run("data", str(tmp_path / "office"), "--test-folder", "webcam", "--write", str(kept))
    first = "Images: trained on amazon/, dslr/, tested on webcam/; a folder per class in each: 27 training and 9 test"
    assert said.stdout.startswith(first)
    quick = ("--settings", "full", "--no-knn", "--no-record")
    told = run("evaluate", "pocket_simclr_rn_shapes", str(kept), *quick)
    assert told.stderr.startswith(said.stdout.splitlines()[0])
    understood, images = kept.read_text().split("# left out: nothing\n")
    assert images == f'images = "{tmp_path / "office"}"\ntest_folder = "webcam"\n'
    facts = dict(line.removeprefix("# ").split(": ", 1) for line in understood.splitlines())
    assert facts["layout"] == "trained on amazon/, dslr/, tested on webcam/; a folder per class in each"
    assert facts["parts"] == "27 training and 9 test images, parts as the source has them"
    assert facts["classes"] == f"3: {', '.join(f'{colour} (9 + 3)' for colour in COLOURS)}"
    assert (facts["groups"], facts["scale"]) == ("none", "8 bits per channel")
    found = document("data", str(kept))
    assert found["classes"] == [{"name": colour, "train": 9, "test": 3} for colour in COLOURS]
    assert (found["n_train"], found["n_test"], found["is_split_here"], found["doubts"]) == (27, 9, False, [])
    kept.write_text('images = "office"\ntest_folder = "webcam"\nsize = 3\n')
    with pytest.raises(QueryError, match="has size = 3 in line 3; expected images, name"):
        open_images(kept)
    kept.write_text('images = "office"\ntest_folder = "webcam"\n')  # below the folder of the file
    names = put(tmp_path / "there", 8)
    (tmp_path / "office.csv").write_text("path,label\n" + "".join(f"{one},{i % 2}\n" for i, one in enumerate(names)))
    monkeypatch.chdir(tmp_path)
    run("data", "office.csv", "--image-folder", "there", "--write", "other.toml")
    monkeypatch.chdir("/")
    assert len(open_images(tmp_path / "other.toml").train) == 6
    assert open_images(kept).name == "office" and open_images(kept, test_folder="dslr").val.names[0][:4] == "dslr"


def test_the_verb_data_asks_about_what_is_likely_to_be_misunderstood(tmp_path: Path) -> None:
    classes(tmp_path / "bench", 15, ("car", "test", "train"))
    assert document("data", str(tmp_path / "bench"))["doubts"] == [
        "of 3 classes 2 have names of parts of a data set: 'test', 'train'"
    ]
    classes(tmp_path / "ages", 2, tuple(map(str, range(30))))
    put(tmp_path / "ages" / "1", 200)
    numbers, rare = document("data", str(tmp_path / "ages"))["doubts"]
    assert "the 30 classes are numbers" in numbers and rare.startswith("'1' has 202 images")


def masks_beside_images(root: Path) -> None:
    for colour in COLOURS:
        for name in put(root / colour, 9):
            for ending in ("_mask.png", "_mask_1.png", "-Segmentation.png"):
                shutil.copy(root / colour / name, root / colour / name.replace(".png", ending))
        (root / colour / "a_mask.png").write_bytes((root / colour / name).read_bytes())  # of no image here


def masks_in_folders(root: Path) -> None:
    for colour in COLOURS:
        masks(root / colour)
        put(root / colour / "images")


@for_each(
    [
        (masks_beside_images, "81 files were left out: 54 *_mask (maps), 27 *_segmentation (maps)"),
        (masks_in_folders, "3 folders were left out: 3 masks/"),
    ],
    arguments=2,
)
def test_maps_next_to_the_images_of_a_class_are_left_out_and_said(make: Make, said: str, tmp_path: Path) -> None:
    root = new(tmp_path)
    make(root)
    for option in (None, "first"):
        data = open_images(root, class_folder=option)
        assert (len(data.train) + len(data.val), data.train.classes) == (30, COLOURS) and said in notes(data)


@for_each(["train.csv", "meta/test.txt", "labels/train1.txt", "train_test_split.txt", "splits/split_zhou.json"])
def test_files_that_may_say_a_split_next_to_the_classes_are_named(file: str, tmp_path: Path) -> None:
    root = new(tmp_path)
    classes(root / "images", 9)
    plain = open_images(root)
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text("")
    (root / "classes.txt").write_text("")
    data = open_images(root)
    assert f"; {file} next to the classes may say a split, which is not used" in notes(data)
    assert "may say a split" not in notes(plain) and data.train.fingerprint == plain.train.fingerprint
