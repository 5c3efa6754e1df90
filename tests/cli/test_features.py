"""The verb features on images with labels and without: what is taken, what is written for others, what is refused."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import zoo
from tests.children import ForkedCommand
from tests.cli_runner import document, run
from zoo.features import extract_features, load_features, parse_map_grid

ENCODER = "pocket_init_rn"
NAMES = (
    *("2022/w.jpg", "2023/paris/x.png", "2023/paris/y.png", "2023/rome/1.jpg", "2023/rome/2.jpg", "2024/b.jpg"),
    *("2024/c.jpg", "2024/deep/e.png", "2024/deep/er/d.jpg", "a.jpg", "y.jpg", "z.png"),
)


def save_images(root: Path, names: Any) -> Path:
    """Images of various sizes in files."""
    draws = np.random.default_rng(0)
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = draws.integers(0, 255, (40 + 3 * number, 60 - 2 * number, 3), np.uint8)
        Image.fromarray(pixels).save(root / name)
    return root


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_images(tmp_path_factory.mktemp("holidays") / "photos", NAMES)


def features_of(*arguments: str | Path, **options: Any) -> Any:
    return document("features", ENCODER, *map(str, arguments), "--device", "cpu", **options)


def beside(path: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(Path(f"{path}.json").read_text())
    return held


def test_photos_in_nested_folders_become_an_array_and_a_table_whose_rows_are_those_of_a_plain_loop(
    photos: Path, tmp_path: Path
) -> None:
    npy, parquet = tmp_path / "deep" / "out.npy", tmp_path / "out.parquet"
    found = features_of(photos, "--npy", npy, "--parquet", parquet)
    assert [(one["part"], one["n_images"]) for one in found["features"]] == [("all", 12)]
    assert [one["file"] for one in found["files"]] == [str(parquet), str(npy)]
    (note,) = found["images"]["notes"]
    assert note.startswith("without labels: ") and "without a label" in note
    x, about = np.load(npy), beside(npy)
    encoder, preprocess = zoo.load(ENCODER)
    with torch.no_grad():
        plain = [encoder.eval()(preprocess(Image.open(photos / name))[None])[0].numpy() for name in NAMES]
    assert (x.dtype, about["image"], about["classes"]) == (np.float32, list(NAMES), [])
    np.testing.assert_allclose(x, plain, rtol=1e-4, atol=1e-5)
    assert "label" not in about
    table = pd.read_parquet(parquet)
    assert table["image"].tolist() == list(NAMES) and "label" not in table.columns
    np.testing.assert_array_equal(np.stack(table["features"].tolist()), x)
    same = json.loads(pq.read_schema(parquet).metadata[b"zoo"])
    assert same == {name: about[name] for name in same}
    origin, card = same["origin"], zoo.card(ENCODER)
    assert origin["encoder"] == ENCODER and len(origin["weights_hash"]) == len(origin["preprocess_hash"]) == 32
    assert (same["pooling"], same["image_size_px"]) == (card.representation.layer, card.preprocess.crop_px)
    stored = load_features(found["features"][0]["folder"])
    assert stored.classes == () and stored.y.tolist() == [-1] * 12


def test_the_same_command_again_writes_nothing_and_other_images_replace_the_file(photos: Path, tmp_path: Path) -> None:
    out = ("--npy", tmp_path / "out.npy", "--parquet", tmp_path / "out.parquet")
    features_of(photos, *out)
    written = {path: path.stat().st_ino for path in tmp_path.iterdir()}
    features_of(photos, *out)
    assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == written and len(written) == 3
    features_of(photos / "2023", *out)
    assert np.load(out[1]).shape[0] == len(pd.read_parquet(out[3])) == len(beside(Path(out[1]))["image"]) == 4


def sources(root: Path, photos: Path) -> dict[str, tuple[list[Path], list[str]]]:
    """Images without labels in many forms, and the names that they have."""
    paths = [f"photos/{name}" for name in NAMES]
    lists = {"one.csv": ["path", *paths], "bare.csv": paths, "list.txt": paths}
    lists["parts.csv"] = [
        "file,split",
        *(f"{path},{'val' if number % 3 else 'train'}" for number, path in enumerate(paths)),
    ]
    for name, lines in lists.items():
        (root / name).write_text("\n".join(lines))
    (root / "list.json").write_text(json.dumps(paths))
    (root / "photos").symlink_to(photos)
    pixels = np.zeros((5, 8, 8, 3), np.uint8) + np.arange(5, dtype=np.uint8)[:, None, None, None]
    np.save(root / "many.npy", pixels)
    np.savez(root / "x.npz", x=pixels)
    np.savez(root / "two.npz", x_train=pixels[:3], x_test=pixels[3:])
    single = save_images(root / "single", ["only.png"])
    found = {name: ([root / name], paths) for name in (*lists, "list.json")}
    found |= {name: ([root / name], list("01234")) for name in ("many.npy", "x.npz")}
    found["two.npz"] = [root / "two.npz"], ["train/0", "train/1", "train/2", "test/0", "test/1"]
    found["one file"] = [photos / "a.jpg"], [str(photos / "a.jpg")]
    several = [photos / "z.png", photos / "a.jpg", single]
    found["files"] = several, [str(several[0]), str(several[1]), f"{single}/only.png"]
    found["one in a folder"] = [single], ["only.png"]
    return found


def test_files_lists_tables_and_arrays_without_labels_are_taken_whole_and_in_their_order(
    photos: Path, tmp_path: Path
) -> None:
    for kind, (arguments, names) in sources(tmp_path, photos).items():
        found = features_of(*arguments, "--npy", tmp_path / "out.npy")
        assert beside(tmp_path / "out.npy")["image"] == names, kind
        assert np.load(tmp_path / "out.npy").shape == (len(names), 48), kind
        assert [one["part"] for one in found["features"]] == ["all"], kind
        assert extract_features(ENCODER, list(map(str, arguments))).classes == (), kind


def test_tar_and_parquet_files_without_labels_are_taken_whole(photos: Path, tmp_path: Path) -> None:
    import tarfile

    import pyarrow as pa

    files = [photos / name for name in NAMES[:6]]
    for part, some in (("train", files[:4]), ("test", files[4:])):
        (tmp_path / "tar").mkdir(exist_ok=True)
        with tarfile.open(tmp_path / "tar" / f"{part}-0.tar", "w") as tar:
            for file in some:
                tar.add(file, file.name)
    pq.write_table(pa.table({"image": [file.read_bytes() for file in files]}), tmp_path / "six.parquet")
    for source in (tmp_path / "tar", tmp_path / "six.parquet"):
        features_of(source, "--npy", tmp_path / "out.npy")
        assert np.load(tmp_path / "out.npy").shape == (6, 48)


def test_what_has_classes_keeps_them_and_is_split_only_without_a_file_for_others(tmp_path: Path) -> None:
    root = save_images(tmp_path / "pets", [f"{'cat' if n % 2 else 'dog'}/{n}.png" for n in range(20)])
    assert [one["part"] for one in features_of(root)["features"]] == ["train", "val"]
    features_of(root, "--npy", tmp_path / "out.npy")
    about = beside(tmp_path / "out.npy")
    labels = [about["classes"][label] for label in about["label"]]
    assert labels == [name.split("/")[0] for name in about["image"]] and len(labels) == 20 and "split" not in about
    features_of(root, "--npy", tmp_path / "out.npy", "--split", "train")
    assert len(beside(tmp_path / "out.npy")["image"]) < 20
    save_images(tmp_path / "parts", ["train/cat/1.png", "train/dog/2.png", "val/cat/1.png", "val/dog/2.png"])
    features_of(tmp_path / "parts", "--parquet", tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table["split"].tolist() == ["train"] * 2 + ["val"] * 2 and table["label"].tolist() == [0, 1, 0, 1]


def test_a_damaged_image_is_left_out_and_named_and_shifts_no_row(photos: Path, tmp_path: Path) -> None:
    folder = save_images(tmp_path / "some", ["a.png", "b.png", "c.png"])
    whole = features_of(folder, "--npy", tmp_path / "out.npy")
    before = np.load(tmp_path / "out.npy")
    (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:200])
    text = run("features", ENCODER, str(folder), "--npy", str(tmp_path / "out.npy"), "--device", "cpu").output
    assert "was left out: b.png" in text and whole["features"][0]["n_images"] == 3
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), before[[0, 2]], rtol=1e-4, atol=1e-6)
    about = beside(tmp_path / "out.npy")
    assert about["image"] == ["a.png", "c.png"] and [one["image"] for one in about["skipped"]] == ["b.png"]
    refused = run("features", ENCODER, str(folder), "--no-skip-corrupt", "--to", str(tmp_path / "to"), code=1)
    assert "'b.png'" in refused.output


@pytest.mark.parametrize(
    ("images", "options", "words", "code"),
    [
        (["empty"], [], "The folder .*empty holds no image", 1),
        (["texts"], [], r"holds no image \(1 other file: 1 .txt\)|The folder .*texts holds no image", 1),
        (["nowhere/at/all"], [], "There is no folder or file", 2),
        (["photos"], ["--npy", "table.csv"], "table.csv is no folder; name a file ending with .npy", 1),
        (["photos"], ["--npy", "mine.npy"], "mine.npy is there and holds no features", 1),
        (["photos"], ["--parquet", "folder.parquet"], "folder.parquet is a folder", 1),
        (["photos"], ["--npy", "table.csv/out.npy"], "table.csv is no folder", 1),
        (["pocket_init_vit", "photos"], ["--npy", "out.npy"], "2 sets of features cannot go into the one file", 2),
        (["photos"], ["--split", "val"], "--split val has no effect: images without labels are not split", 2),
        (["photos/a.jpg", "photos/a.jpg"], [], "asked for twice", 2),
        (["table.csv"], ["--label-column", "kind"], "no column 'kind'", 1),
    ],
)
def test_what_cannot_be_done_is_one_sentence_before_any_work(
    images: list[str],
    options: list[str],
    words: str,
    code: int,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").symlink_to(photos)
    for folder in ("empty", "texts", "folder.parquet"):
        (tmp_path / folder).mkdir()
    (tmp_path / "texts" / "a.txt").write_text("no image")
    (tmp_path / "table.csv").write_text("path\nphotos/a.jpg\n")
    (tmp_path / "mine.npy").write_bytes(b"mine")
    there = sorted(tmp_path.rglob("*"))
    said = run("features", ENCODER, *images, *options, "--device", "cpu", code=code).output
    assert re.search(words, said.replace("\n", " ")), said
    assert sorted(tmp_path.rglob("*")) == there and (tmp_path / "mine.npy").read_bytes() == b"mine"


def test_verbs_that_need_labels_say_so_of_features_without(photos: Path, tmp_path: Path) -> None:
    whole, part = (features_of(folder)["features"][0]["folder"] for folder in (photos, photos / "2023"))
    assert "12 images of 'photos' (all) have no label" in run("probe", whole, part, code=1).output
    assert "y is missing" in run("metric", "logme", whole, code=2).output
    assert document("metric", "rankme", whole)
    for verb in ("evaluate", "choose"):
        assert "without a label" in run(verb, *[ENCODER] * (verb == "evaluate"), str(photos), code=1).output


def test_several_encoders_fill_a_folder_and_workers_make_the_same_files(photos: Path, tmp_path: Path) -> None:
    run("features", ENCODER, "pocket_init_vit", str(photos), "--npy", str(tmp_path / "out"), "--device", "cpu")
    names = [path.name for path in sorted((tmp_path / "out").glob("*.npy"))]
    assert [name.partition("-photos-all-")[0] for name in names] == [ENCODER, "pocket_init_vit"]
    to = ("--to", str(tmp_path / "to"), "--on", "local:1", "--npy", str(tmp_path / "workers.npy"))
    run("features", ENCODER, str(photos / "a.jpg"), str(photos / "2023"), *to)
    assert np.load(tmp_path / "workers.npy").shape == (5, 48)


def test_a_stopped_command_leaves_no_file_and_goes_on_from_what_is_finished(tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", np.random.default_rng(0).integers(0, 255, (8_000, 32, 32, 3), np.uint8))
    out, to = tmp_path / "out.npy", tmp_path / "to"
    arguments = ["features", ENCODER, str(tmp_path / "many.npy"), "--to", str(to), "--npy", str(out), "--device", "cpu"]
    running = ForkedCommand(*arguments)
    running.wait_for(lambda: bool(list(to.rglob("shard-*.safetensors"))))
    code, _, said = running.end_by(signal.SIGINT)
    finished = {path: path.stat().st_ino for path in to.rglob("shard-*.safetensors")}
    assert code == 130 and "go on" in said and not out.exists() and 0 < len(finished) < 8
    assert document(*arguments)["features"][0]["n_images"] == 8_000
    assert {path: path.stat().st_ino for path in finished} == finished and np.load(out).shape == (8_000, 48)


def test_maps_of_several_layers_are_read_back_with_their_grids(tmp_path: Path) -> None:
    few = "shapes:classes=2,train=12,val=4,size_px=32"
    how = ("--maps", "--layers", "0,-1", "--px", "40", "--store", "float16", "--class-token", "--to", tmp_path)
    found = document("features", "pocket_dino_vit_shapes", few, *map(str, how), "--device", "cpu")["maps"]
    assert [(one["map"], one["part"], one["n_images"], one["n_places"]) for one in found] == [
        (f"cls+map:{block} 10x10x40", part, n, 101) for block in (0, 2) for part, n in (("train", 12), ("val", 4))
    ]
    for one in found:
        features = load_features(one["folder"])
        assert features.dim == 101 * 40 and parse_map_grid(features.origin.representation).channels == 40
        assert 2 * features.dim * len(features) < one["bytes"] < 2 * features.dim * len(features) + 4_000


def test_maps_say_what_their_components_keep_and_how_to_read_them(tmp_path: Path) -> None:
    few = "shapes:classes=2,train=12,val=4,size_px=32"
    shown = run("features", "pocket_dino_vit_shapes", few, "--maps", "--components", "5", "--to", str(tmp_path))
    assert re.search(r"map:2 8x8x5 of 40 \([0-9.]+ % of variance", shown.stdout)
    assert "zoo.features.iterate_maps" in shown.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--px", "48"), "--px 48 has no effect: features are of whole images"),
        (("--maps", "--on", "local:2"), "--on local:2 has no effect: maps are computed by this process"),
        (("--maps", "--layers", "9"), "from 0 to 2"),
        (("--maps", "--px", "42"), "multiple of 4"),
    ],
)
def test_what_maps_cannot_be_is_refused(options: tuple[str, ...], sentence: str) -> None:
    refused = run("features", "pocket_dino_vit_shapes", "shapes:classes=2,train=12,val=4,size_px=32", *options, code=2)
    assert sentence in refused.stderr
