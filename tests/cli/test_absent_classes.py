"""A class that has training images and no test image is measured by every verb, which says so."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.datasets import open_images, pixels_of

pytestmark = pytest.mark.usefixtures("home")

ENCODER, OTHER = "pocket_simclr_rn_shapes", "pocket_sup_rn_shapes"
NOTE = "1 of 4 classes has no test image, so that no test metric covers it: "


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same rendered images as a folder, a table and arrays, without a test image of the first class."""
    root = tmp_path_factory.mktemp("absent")
    data = open_images("shapes:classes=4,train=80,val=40,size_px=16")
    named = [name.replace(" ", "-") for name in data.train.classes]
    rows, arrays = [("path", "label", "split", "tags")], {}
    for part, images in (("train", data.train), ("val", data.val)):
        kept = np.arange(len(images)) if part == "train" else np.flatnonzero(images.labels)
        for i in kept.tolist():
            label = named[images.labels[i]]
            path = root / "folder" / part / label / f"{i:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            images.images[i].save(path)
            rows.append((str(path), label, part, ("disk", "box", "box|cone", "")[images.labels[i]]))
        arrays |= {f"x_{part}": pixels_of(images)[kept], f"y_{part}": images.labels[kept]}
    with open(root / "table.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    np.savez(root / "arrays.npz", classes=np.array(named), **arrays)
    shutil.copytree(root / "folder", root / "new")
    shutil.rmtree(root / "new" / "train" / named[1])
    return {name.split(".")[0]: str(root / name) for name in ("folder", "table.csv", "arrays.npz", "new")} | {
        "first": named[0]
    }


@for_each(["table", "arrays"])
def test_it_is_measured_with_few_and_all_labels_and_in_no_metric_of_a_class(
    source: str, sources: dict[str, str]
) -> None:
    asked = ("evaluate", ENCODER, sources[source], "--settings", "full,5-shot", "--seeds", "1", "--no-record")
    assert NOTE + repr(sources["first"]) in run(*asked).output
    whole = document(*asked, "--metrics")
    (found,) = whole["evaluations"]
    assert NOTE + repr(sources["first"]) in json.dumps(whole) and found["n_classes"] == 4
    by_name = {one["name"]: one for one in found["metrics"]["per_class"]}
    absent, others = by_name.pop(sources["first"]), by_name.values()
    assert [absent[name] for name in ("n_images", "error", "auroc", "average_precision")] == [0, None, None, None]
    for mean, of_class in (("balanced_error", "error"), ("auroc", "auroc"), ("average_precision",) * 2):
        values = [one[of_class]["value"] for one in others]
        assert found["metrics"]["metrics"][mean]["value"] == pytest.approx(np.mean(values)), mean


def test_a_choice_says_it_on_the_screen_in_json_and_on_its_page(sources: dict[str, str], tmp_path: Path) -> None:
    asked = ("choose", sources["folder"], "--encoders", f"{ENCODER},{OTHER}", "--time", "1m")
    assert NOTE + repr(sources["first"]) in run(*asked, "--page", str(tmp_path / "page.html")).output
    assert NOTE in (tmp_path / "page.html").read_text()
    assert NOTE + repr(sources["first"]) in document(*asked)["data"]["notes"]
