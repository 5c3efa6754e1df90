"""Pages of mistakes: --page of evaluate, choose and predict, with real encoders on real images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.choosing.test_page import Reader
from tests.cli_runner import document, run
from zoo.datasets import open_images
from zoo.errors import StoreError
from zoo.looking import pages

ENCODER = "pocket_init_rn"
IMAGES = "shapes:classes=4,train=120,val=40,size_px=16"
QUICK = ("--settings", "full", "--no-knn", "--no-record", "--device", "cpu")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with a page and a saved probe, and the document."""
    root = tmp_path_factory.mktemp("pages")
    options = ("--decompose", "--subsets", "1", "--page", str(root / "page.html"), "--save", str(root / "probe"))
    (found,) = document("evaluate", ENCODER, IMAGES, *QUICK, *options)["evaluations"]
    return root, found


def test_evaluate_shows_what_the_probe_gets_wrong(evaluated: tuple[Path, dict[str, Any]]) -> None:
    root, found = evaluated
    assert found["page"] == str(root / "page.html")
    mistakes = found["mistakes"]
    (error,) = found["errors"]
    assert mistakes["n_wrong"] == round(error["value"] * 40 / 100) > 0
    first = mistakes["confident"][0]
    assert first["label"] != first["predicted"] and first["image"] in open_images(IMAGES).val.names
    assert mistakes["wrong_labels"]["n_judged"] == 160 and mistakes["near_duplicates"]["pairs"] == []
    page = text_of(root / "page.html")
    said = Reader(page).text
    for words in ("Errors by number of labels", "Components of the full-shot error", "cannot be told", "Least sure"):
        assert words in said
    assert f"{first['label']} → {first['predicted']}" in said
    assert page.count("<img ") > 20 and 'class="small"' in page


def test_the_page_of_several_numbers_of_labels_has_the_learning_curve(
    evaluated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    few = ("--settings", "full,5-shot,10-shot", *QUICK[2:], "--page", str(tmp_path / "page.html"))
    (found,) = document("evaluate", ENCODER, IMAGES, *few)["evaluations"]
    page = Reader(text_of(tmp_path / "page.html"))
    told = next(one for one in page.labels if one.startswith("Error by number of labels"))
    assert "Learning curve" in page.text
    for one in found["errors"]:
        assert f"{one['value']:.1f} % with {one['n_train']:,}" in told
    assert "Learning curve" not in text_of(evaluated[0] / "page.html")  # of one number there is none


def test_names_alone_and_a_page_for_each_encoder(evaluated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    names = (ENCODER, "pocket_sup_rn_shapes_d24")
    found = document("evaluate", *names, IMAGES, *QUICK, "--page", str(tmp_path / "all.html"), "--no-images")
    written = {one["encoder"]: one["page"] for one in found["evaluations"]}
    assert len(written) == 2 and written[ENCODER] == str(tmp_path / f"all-{ENCODER}.html")
    for encoder, page in written.items():
        text = text_of(Path(page))
        assert "<img" not in text and encoder in text and "<strong>" in text
    assert all(one["metrics"] is None for one in found["evaluations"])  # which are not asked for


def test_what_no_page_can_be_made_of_is_refused(tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    nowhere = run("evaluate", ENCODER, IMAGES, *QUICK, "--page", str(tmp_path / "page.pdf"), code=2)
    assert "ends in .html" in nowhere.output
    assert "no page is written" in run("evaluate", ENCODER, IMAGES, *QUICK, "--no-images", code=2).output
    assert "no page is written" in run("choose", IMAGES, "--no-images", code=2).output
    assert "no page is written" in run("predict", str(tmp_path), IMAGES, "--no-images", code=2).output
    workers = run("evaluate", ENCODER, IMAGES, *QUICK, "--page", page, "--on", "local:1", "--to", str(tmp_path), code=2)
    assert "keep no probe" in workers.output
    assert not list(tmp_path.iterdir())


def test_predict_shows_mistakes_where_labels_are_known(evaluated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    page = tmp_path / "val.html"
    found = document("predict", str(evaluated[0] / "probe"), IMAGES, "--device", "cpu", "--page", str(page))
    assert found["page"] == str(page)
    said = Reader(text_of(page)).text
    n_wrong = evaluated[1]["mistakes"]["n_wrong"]
    assert "Images by predicted class" in said and "Most sure" in said
    assert f"{n_wrong} of 40 images are predicted wrongly: {2.5 * n_wrong:.1f} %" in said


def test_predict_shows_images_without_labels_and_names_those_that_are_gone(
    evaluated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "new <b>"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(folder / f"{number}<i>.png")
    (folder / "bad.jpg").write_bytes(b"no image")
    page = tmp_path / "new.html"
    run("predict", str(evaluated[0] / "probe"), str(folder), "--page", str(page), "--skip-corrupt", "--device", "cpu")
    text = text_of(page)
    said = Reader(text).text
    assert "0<i>.png" in said and "<i>" not in text and "<b>" not in text
    assert "Most confident mistakes" not in said and "✗" not in said and "bad.jpg" not in said
    assert text.count("<img ") == 12


def test_choose_shows_the_mistakes_of_the_winner(tmp_path: Path) -> None:
    few = "shapes:classes=3,train=48,val=30,size_px=32,seed=1"
    names = "pocket_simclr_rn_shapes,pocket_sup_rn_shapes_d24"
    page = tmp_path / "page.html"
    found = document(
        "choose", few, "--encoders", names, "--device", "cpu", "--out", str(tmp_path / "kept"), "--page", str(page)
    )
    assert found["mistakes"]["encoder"] == found["winner"]
    assert found["mistakes"]["n_wrong"] == round(found["race"]["standings"][0]["error"]["value"] * 30 / 100)
    said = Reader(text_of(page)).text
    assert f"What {found['winner']} gets wrong" in said and "<img " in text_of(page)


def test_what_was_measured_stays_if_the_page_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(text: str, path: Path) -> None:
        raise StoreError("The page cannot be written (No space left on device).")

    monkeypatch.setattr(pages, "write_page", full)
    failed = run("evaluate", ENCODER, IMAGES, *QUICK, "--page", str(tmp_path / "page.html"), code=1)
    assert "No space left" in failed.stderr and "full" in failed.stdout
