"""The verb look, with toy encoders on real images."""

from __future__ import annotations

import re
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.datasets import open_images
from zoo.datasets.images import LazyImages
from zoo.encoders import Encoder
from zoo.errors import QueryError
from zoo.loading import load
from zoo.looking import showing
from zoo.looking.showing import figures_of, render_look_page
from zoo.looking.visualization import look

RESNET, TRANSFORMER = "pocket_simclr_rn_shapes", "pocket_simclr_vit_shapes"
SHAPES = "shapes:classes=4,train=40,val=40,size_px=32"
ODD = "$x_{$ <b>&"
PARTS = {"components.png", "similarity.png", "neighbours.png", "layout.png"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight images without labels, two of which are the same, with a name to be escaped."""
    folder = tmp_path_factory.mktemp("photos")
    images = open_images(SHAPES).val
    for number in range(7):
        images.images[number].save(folder / f"{number}.png")
    images.images[0].save(folder / "<b>&.png")
    return folder


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What look prints of two encoders, and its folder."""
    out = tmp_path_factory.mktemp("looked") / "out"
    return document("look", RESNET, TRANSFORMER, SHAPES, "--at", "0,3", "--out", str(out), "--device", "cpu"), out


def test_a_page_and_a_picture_of_each_part_are_written(looked: tuple[dict[str, Any], Path]) -> None:
    found, out = looked
    assert {path.name for path in out.iterdir()} == PARTS | {"index.html"}
    assert found["written"][0] == str(out / "index.html") and len(found["written"]) == 5
    for name in PARTS:
        with Image.open(out / name) as image:
            assert min(image.size) > 100
    page = (out / "index.html").read_text(encoding="utf-8")
    assert len(page) < 3_000_000 and "<script" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'symbol id="([^"]+)"', page))


def test_what_was_seen_is_said(looked: tuple[dict[str, Any], Path]) -> None:
    found, _ = looked
    resnet, transformer = found["encoders"]
    assert (found["n_images"], len(found["shown"])) == (40, 12)
    assert (resnet["grid"], transformer["grid"]) == ([4, 4], [8, 8])
    assert resnet["patch"] == [0, 3] and transformer["patch"] == [1, 7]  # the middle of 0,3 is between 0,6 and 1,7
    for view in (resnet, transformer):
        assert view["explained"] == sorted(view["explained"], reverse=True) and 0 < sum(view["explained"]) <= 1
        assert view["agreement_by_chance"] == pytest.approx(100 * 4 * 10 * 9 / (40 * 39))  # four classes of ten
        assert 0 <= view["agreement"] <= 100 and 0 < view["layout_explained"] <= 1
        for query, near in view["neighbours"].items():
            distances = [one["distance"] for one in near]
            assert len(near) == 6 and distances == sorted(distances) and query not in {one["image"] for one in near}


def test_a_folder_without_labels(photos: Path, tmp_path: Path) -> None:
    found = document("look", RESNET, str(photos), "--queries", "3.png,0.png", "--out", str(tmp_path / "out"))
    (view,) = found["encoders"]
    assert found["shown"][0] == "3.png" and view["agreement"] is None
    assert [*view["neighbours"]] == ["3.png", "0.png"]
    assert "<b>&.png" not in {one["image"] for one in view["neighbours"]["0.png"]}  # its copy
    assert {one["label"] for near in view["neighbours"].values() for one in near} == {None}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;&amp;.png" in page and "<b>&." not in page


def test_names_are_never_formulas_or_tags(photos: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    for place, of_class in enumerate((ODD, "鳥")):
        (tmp_path / "birds" / of_class).mkdir(parents=True)
        for number in range(5):
            image = photos / f"{(number + 3 * place) % 7}.png"
            (tmp_path / "birds" / of_class / f"{number}.png").write_bytes(image.read_bytes())
    found = document("look", RESNET, str(tmp_path / "birds"), "--split", "both", "--out", str(tmp_path / "out"))
    assert len(found["written"]) == 5 and not recwarn.list
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "$x_{$ &lt;b&gt;&amp;" in page and "<b>&" not in page
    read = {name: (tmp_path / "birds" / name.partition("/")[2]).read_bytes() for name in found["shown"]}
    for query, near in found["encoders"][0]["neighbours"].items():  # copies of the other part are none
        assert near and not any(read[query] == read[one["image"]] for one in near)


def test_images_of_any_kind_and_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number, shape in enumerate([(1, 1, 3), (3, 2000, 3), (900, 4, 3), (20, 30, 4), (20, 30)]):
        Image.fromarray(rng.integers(0, 256, shape, np.uint8)).save(tmp_path / f"{number}.png")
    Image.fromarray(rng.integers(0, 65536, (20, 30), np.uint16)).save(tmp_path / "deep.png")
    found = document("look", TRANSFORMER, str(tmp_path), "--queries", "6", "--out", str(tmp_path.parent / "kinds"))
    assert found["n_images"] == len(found["encoders"][0]["neighbours"]) == 6


def test_as_many_queries_as_asked_for(tmp_path: Path) -> None:
    found = document("look", RESNET, SHAPES, "--queries", "20", "--out", str(tmp_path / "out"))
    assert len(found["encoders"][0]["neighbours"]) == 20 and {*found["encoders"][0]["neighbours"]} <= {*found["shown"]}


def test_one_image_has_maps_alone(photos: Path, tmp_path: Path) -> None:
    found = document("look", TRANSFORMER, str(photos / "1.png"), "--out", str(tmp_path / "out"))
    assert {Path(path).name for path in found["written"]} == {"index.html", "components.png", "similarity.png"}
    assert any("one image" in note for note in found["notes"])


def test_an_earlier_look_is_replaced_and_nothing_else(photos: Path, tmp_path: Path) -> None:
    several = run("look", RESNET, str(photos / "1.png"), str(photos / "2.png"), "--out", str(tmp_path)).stderr
    assert "Written" in several and (tmp_path / "layout.png").exists()
    run("look", RESNET, str(photos / "1.png"), "--out", str(tmp_path))
    assert not (tmp_path / "layout.png").exists()
    (tmp_path / "thesis.tex").write_text("")
    assert "'thesis.tex'" in run("look", RESNET, str(photos / "1.png"), "--out", str(tmp_path), code=1).stderr


def test_many_images_are_sampled(tmp_path: Path) -> None:
    found = document("look", RESNET, "digits", "--images", "30", "--per-class", "20", "--out", str(tmp_path / "out"))
    assert found["n_images"] == 30 and len(found["shown"]) == 30
    assert any("30 of 451 images were drawn" in note for note in found["notes"])


def test_an_encoder_without_maps_shows_the_rest(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def maps(self: Encoder, images: object, layer: int | None = None) -> object:
        raise QueryError("The encoder has no maps.")

    monkeypatch.setattr(Encoder, "maps", maps)
    found = document("look", RESNET, str(photos), "--out", str(tmp_path / "out"))
    assert {Path(path).name for path in found["written"]} == {"index.html", "neighbours.png", "layout.png"}
    assert any("has no maps to show" in note for note in found["notes"])
    refused = run("look", RESNET, str(photos), "--at", "0,0", "--out", str(tmp_path / "none"), code=2)
    assert refused.stderr.count("\n") <= 4 and "nothing to show" in refused.stderr
    run("look", RESNET, str(photos / "1.png"), "--out", str(tmp_path / "none"), code=2)
    assert not (tmp_path / "none").exists()


def test_bad_input_is_one_sentence_and_writes_nothing(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "a file").write_text("")
    for arguments, code, sentence in (
        (["--at", "9,9"], 2, "9,9 of a grid of 8 rows and 8 columns"),
        (["--at", "middle"], 2, "expected ROW,COLUMN"),
        (["--queries", "none.png"], 2, "There is no image named 'none.png'"),
        (["--queries", "0"], 2, "1 to 24"),
        (["--queries", "0.png", "--queries", str(tmp_path / "a file")], 2, "no image named '0.png'"),
        (["--queries", str(tmp_path / "a file")], 1, "a file"),
        (["--queries", str(tmp_path / "gone")], 2, "files or folders that are there"),
        (["--queries", str(photos), "--nearest", "9"], 2, "Got 9 neighbours, expected 1 to 8"),
        (["--queries", str(photos), "--layout", "pca"], 2, "compared with all images"),
        (["--nearest", "8"], 2, "at most 7"),
        (["--duplicates", "--nearest", "2"], 2, "has no effect"),
        (["--duplicates", "--queries", "0.png", "--images", "9"], 2, "have no effect"),
        (["--queries", ","], 2, "1 to 24"),
        (["--px", "1"], 2, "px=1"),
        (["--split", "train"], 2, "has no effect"),
        (["--out", str(tmp_path / "a file")], 2, "is a file"),
        (["--out", str(photos / "look")], 2, "would be among the images"),
        (["--layer", "99"], 2, "has no maps to show"),
    ):
        found = run("look", TRANSFORMER, str(photos), "--out", str(out), *arguments, code=code)
        assert sentence in found.stderr, (arguments, found.output)
        assert "features of" not in found.stderr or arguments[0] in ("--at", "--px", "--layer"), arguments
        assert not out.exists(), arguments


def test_queries_from_outside_have_their_nearest_images_in_the_whole_set(photos: Path, tmp_path: Path) -> None:
    others, images = tmp_path / "others", open_images(SHAPES).val
    others.mkdir()
    images.images[20].save(others / "new, of today.png")
    (others / "copy.png").write_bytes((photos / "5.png").read_bytes())
    command = ["look", RESNET, TRANSFORMER, str(photos), "--out", str(tmp_path / "out"), "--device", "cpu"]
    found = document(*command, "--queries", str(others), "--nearest", "3")
    assert found["n_images"] == 8 and [len(found["pairs"]), found["skipped"]] == [12, []]
    for name in (RESNET, TRANSFORMER):
        copy, new = ([one for one in found["pairs"] if one["encoder"] == name][3 * at :][:3] for at in (0, 1))
        assert {one["image"] for one in copy} == {"copy.png"} and {one["image"] for one in new} == {"new, of today.png"}
        assert (copy[0]["nearest"], copy[0]["is_copy"], new[0]["is_copy"]) == ("5.png", True, False)
        assert copy[0]["distance"] == pytest.approx(0, abs=1e-6) and copy[0]["nearest_label"] is None
        assert [one["distance"] for one in new] == sorted(one["distance"] for one in new)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "exact copy" in page and "<script" not in page and len(page) < 3_000_000
    files = ["--queries", str(others / "new, of today.png"), "--queries", str(others / "copy.png")]
    table = run(*command, *files).stdout.splitlines()
    assert len(table) == 1 + 2 * 2 * 6 and sum(line.endswith("copy") for line in table) == 2


def test_a_labelled_set_is_searched_in_both_parts_unless_one_is_named(photos: Path, tmp_path: Path) -> None:
    command = ["look", RESNET, SHAPES, "--queries", str(photos / "1.png"), "--out", str(tmp_path), "--nearest"]
    both, val = document(*command, "5"), document(*command, "40", "--split", "val")
    assert (both["n_images"], val["n_images"], len(val["pairs"])) == (80, 40, 40)
    assert all(one["nearest"].startswith(("train/", "val/")) and one["nearest_label"] for one in both["pairs"])


def test_near_duplicates_and_copies_of_a_folder_are_told_in_pairs(tmp_path: Path) -> None:
    folder, images = tmp_path / "many", open_images("shapes:classes=4,train=100,val=4,size_px=32").train
    folder.mkdir()
    for number in range(100):
        images.images[number].save(folder / f"{number:02}.png")
    for number in range(10):
        images.images[number].point(lambda value: value * 63 // 64).save(folder / f"darker {number:02}.png")
    (folder / "same.png").write_bytes((folder / "42.png").read_bytes())
    command = ["look", RESNET, str(folder), "--duplicates", "--out", str(tmp_path / "out")]
    pairs = document(*command)["pairs"]
    found = {(one["nearest"], one["image"]) for one in pairs if not one["is_copy"]}
    planted = {(f"{number:02}.png", f"darker {number:02}.png") for number in range(10)}
    assert planted <= found and len(found) <= 11
    assert [(one["nearest"], one["image"]) for one in pairs if one["is_copy"]] == [("42.png", "same.png")]
    lines = run(*command).stdout.splitlines()
    assert len(lines) == 1 + len(pairs) and lines[-1].split()[1:] == ["same.png", "42.png", "0", "copy"]
    assert "darker 03.png" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_copies_are_found_and_queries_answered_among_images_of_a_table_without_labels(tmp_path: Path) -> None:
    images = open_images(SHAPES).val
    for number in range(6):
        images.images[number].save(tmp_path / f"{number}.png")
    (tmp_path / "again.png").write_bytes((tmp_path / "0.png").read_bytes())
    (tmp_path / "images.csv").write_text("image\n" + "".join(f"{n}.png\n" for n in (*range(6), "again")))
    command = ["look", RESNET, str(tmp_path / "images.csv"), "--out", str(tmp_path / "out")]
    (pair,) = [one for one in document(*command, "--duplicates")["pairs"] if one["is_copy"]]
    assert (pair["image"], pair["nearest"], pair["label"]) == ("again.png", "0.png", None)
    (tmp_path / "query.png").write_bytes((tmp_path / "1.png").read_bytes())
    asked = document(*command, "--queries", str(tmp_path / "query.png"), "--nearest", "1")["pairs"]
    assert [one["nearest"] for one in asked] == ["1.png"]


def test_near_duplicates_say_in_which_parts_they_are(photos: Path, tmp_path: Path) -> None:
    for number in range(16):
        place = tmp_path / "birds" / ("train", "val")[number % 2] / ("ant", "bee")[number // 8]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes((photos / f"{number % 7}.png").read_bytes())
    pairs = document("look", RESNET, str(tmp_path / "birds"), "--duplicates", "--out", str(tmp_path / "out"))["pairs"]
    copies = {(one["nearest"], one["image"], one["nearest_label"], one["label"]) for one in pairs if one["is_copy"]}
    assert ("train/ant/0.png", "val/ant/7.png", "ant", "ant") in copies
    assert ("train/bee/8.png", "val/ant/1.png", "bee", "ant") in copies


def test_a_corrupt_image_is_refused_or_skipped(photos: Path, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes((photos / f"{number}.png").read_bytes())
    (tmp_path / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    out = tmp_path.parent / f"{tmp_path.name}-out"
    assert "2.png" in run("look", RESNET, str(tmp_path), "--out", str(out), code=1).stderr and not out.exists()
    found = document("look", RESNET, str(tmp_path), "--out", str(out), "--skip-corrupt")
    assert found["skipped"] == ["2.png"] and found["n_images"] == 2


def test_pages_that_would_be_too_large_have_fewer_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look([RESNET], open_images(SHAPES).val, load, per_class=1, device="cpu")
    whole, notes = render_look_page(found)
    assert not notes and len(re.findall(r"M[0-9.]+ [0-9.]+h0", whole)) == len(found.images)  # dots
    monkeypatch.setattr(showing, "MOST_BYTES", 120_000)
    text, notes = render_look_page(found)
    assert len(text) < min(len(whole), 120_000) and "layouts" in notes[0] and len(notes) == 1
    monkeypatch.setattr(showing, "MOST_BYTES", 40_000)
    with pytest.raises(QueryError, match="fewer"):
        render_look_page(found)


def test_images_without_tags_are_called_so(photos: Path, tmp_path: Path) -> None:
    rows = [f"{photos}/{number}.png,{('', 'dark', 'dark|round')[number % 3]}" for number in range(7)]
    (tmp_path / "tags.csv").write_text("\n".join(["path,label", *rows]))
    arguments = ["--multi-label", "--split", "both", "--out", str(tmp_path / "out")]
    assert document("look", RESNET, str(tmp_path / "tags.csv"), *arguments)["n_images"] == 7
    assert ">(no tag)<" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_images_are_never_held_together() -> None:
    val, read = open_images(SHAPES).val, list[weakref.ref[Image.Image]]()
    most = 0

    def one(number: int) -> Image.Image:
        nonlocal most
        image = val.images[number].resize((320, 320))
        read.append(weakref.ref(image))
        most = max(most, sum(ref() is not None for ref in read))
        return image

    images = replace(val, images=LazyImages(one, np.arange(len(val))))
    found = look([RESNET], images, load, per_class=10, device="cpu", batch_size=4)
    render_look_page(found)
    figures_of(found)
    assert len(found.shown) == len(val) == 40 and most <= 4
