"""Descriptions of data sets as files: ``zoo data --write``, and ``--data`` of every verb that takes images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.datasets import open_images
from zoo.datasets.sources import is_table, open_any_images, open_dense
from zoo.errors import QueryError

ENCODER = "pocket_simclr_rn_shapes"


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with 24 images of 12 patients and their table, which is described in scans.toml next to it."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "scans"
    folder.mkdir()
    lines = ["file,kind,finding,patient"]
    for number in range(24):
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{'ab'[number // 12]},{('ill', 'well')[number % 4 // 2]},p{number // 2}")
    (folder / "scans.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    described = ("--label-column", "finding", "--group", "patient", "--val-share", "0.5")
    run("data", "scans/scans.csv", *described, "--write", "scans.toml")
    return tmp_path / "scans.toml"


def test_a_file_says_what_was_understood_and_stands_for_images_and_options(scans: Path) -> None:
    text = scans.read_text()
    assert "# classes: 2: ill (6 + 6), well (6 + 6)\n# groups: 6 of training and 6 of test images\n" in text
    own = open_images(scans.parent / "scans/scans.csv", label_column="finding", group="patient", val_share=0.5)
    kept = open_images(scans)
    assert (kept.train.fingerprint, kept.val.fingerprint) == (own.train.fingerprint, own.val.fingerprint)
    assert document("data", "--data", str(scans)) == document("data", str(scans))


@for_each(
    (
        ("layers", ENCODER, "--n-images", "16"),
        ("metric", "rankme", ENCODER, "--no-record"),
        ("features", ENCODER),
        ("evaluate", ENCODER, "--settings", "full", "--no-knn", "--no-record"),
        ("choose", "--encoders", ENCODER, "--dry-run"),
        ("look", ENCODER, "--out", "seen"),
    ),
)
def test_every_verb_that_takes_images_takes_their_file(line: tuple[str, ...], scans: Path) -> None:
    # before an option that would take what follows it
    found = document(line[0], "--data", "scans.toml", *line[1:])
    assert found


def test_options_next_to_a_file_win_or_are_refused(scans: Path) -> None:
    other = document("data", "--data", str(scans), "--label-column", "kind", "--val-share", "0.25")
    assert [one["name"] for one in other["classes"]] == ["a", "b"] and other["n_test"] < 12
    scans.write_text(scans.read_text() + 'background = "drop"\nseed = 3\n')
    said = run("data", "--data", str(scans), "--background", "white", code=2).stderr
    assert "Got --background white, but" in said and "take that line out of the file" in said
    assert "has seed = 3" in run("data", "--data", str(scans), "--split-seed", "0", code=2).stderr
    assert document("data", "--data", str(scans), "--split-seed", "1")["n_test"] > 0


@for_each(
    (
        ("grup = 'patient'", "grup = 'patient' in line 2; expected images, name, .*; did you mean group?"),
        ("[scale]\nlow = 3", r"scale = {'low': 3} in line 2; expected two numbers with the smaller one first"),
        ("scale = [9, 1]", r"scale = \[9, 1\] in line 2; expected two numbers with the smaller one first"),
        ("val_share = 20", "val_share = 20 in line 2; expected a number between 0 and 1"),
        ("seed = true", "seed = True in line 2; expected a whole number from 0 on"),
        ("label_columns = 'a,b'", "label_columns = 'a,b' in line 2; expected a list of texts"),
        ("label_kind = 'ages'", 'label_kind = \'ages\' in line 2; expected "class" or "number"'),
        ("group = patient", r"is no TOML file \(.*line 2"),
    ),
    arguments=2,
)
def test_a_wrong_line_of_a_file_is_named(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "set.toml").write_text(f'images = "digits"\n{line}\n')
    with pytest.raises(QueryError, match=said):
        open_any_images(tmp_path / "set.toml")


def test_paths_in_a_file_are_relative_to_it(scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (scans.parent / "near.toml").write_text(
        'images = "scans/scans.csv"\nimage_folder = "scans"\nlabel_column = "kind"\n'
    )
    monkeypatch.chdir("/")
    assert len(open_images(scans.parent / "near.toml").train.classes) == 2
    (scans.parent / "far.toml").write_text('images = "webdataset:shards/{000..003}.tar"\n')
    with pytest.raises(Exception, match=f"{scans.parent}/shards"):
        open_images(scans.parent / "far.toml")
    (scans.parent / "drawn.toml").write_text('images = "shapes:classes=4,train=8,val=4,size_px=16"\nname = "drawn"\n')
    assert open_images(scans.parent / "drawn.toml").name == "drawn"
    assert len(open_dense(scans.parent / "drawn.toml", task="depth").train) == 8
    (scans.parent / "drawn.toml").write_text('images = "shapes"\ngroup = "patient"\n')
    with pytest.raises(QueryError, match="has group, and images with maps of depth have none"):
        open_dense(scans.parent / "drawn.toml", task="depth")


def test_names_of_any_script_are_kept_and_nothing_is_half_written(scans: Path) -> None:
    strange = scans.parent / "scans \N{GRINNING FACE}\x7f.csv"
    strange.write_text((scans.parent / "scans/scans.csv").read_text())
    run("data", str(strange), "--image-folder", "scans", "--label-column", "kind", "--write", "strange.toml")
    assert open_images(scans.parent / "strange.toml").train.classes == ("a", "b")
    before = scans.read_bytes()
    run("data", "scans/scans.csv", "--label-column", "none", "--write", str(scans), code=1)
    assert scans.read_bytes() == before


def test_a_file_that_names_a_folder_is_asked_about_tables_at_the_folder(tmp_path: Path) -> None:
    (tmp_path / "birds/wren").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "birds/wren/0.png")
    (tmp_path / "birds.toml").write_text('images = "birds"\n')
    assert not is_table(str(tmp_path / "birds.toml"))  # `zoo predict PROBE --data birds.toml` asks it
