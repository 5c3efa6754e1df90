"""The walk of docs/choosing.md and docs/measuring.md on grey images of 16 bits of patients, from nothing to a page."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run

TWO = "pocket_simclr_rn_shapes,pocket_sup_rn_shapes_d24"
N_IMAGES, N_PATIENTS = 240, 60


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def xrays(tmp_path: Path) -> Path:
    """A table of narrow images, some with bright spots, their labels, a few of them wrong, and patients."""
    random = np.random.default_rng(0)
    down, across = np.mgrid[0:32, 0:32]
    (tmp_path / "img").mkdir()
    rows = []
    for number in range(N_IMAGES):
        patient, opacity = int(random.integers(N_PATIENTS)), number % 3 == 0
        pixels = 2000 + 9000 * np.exp(-(((down - 16) / 10) ** 2 + ((across - 16) / 12) ** 2)) + 300 * (patient % 7)
        if opacity:
            row, column = random.integers(8, 24, 2)
            pixels = pixels + 6000 * np.exp(-(((down - row) / 3) ** 2 + ((across - column) / 3) ** 2))
        pixels = pixels + random.normal(0, 300, pixels.shape)
        name = f"img/{number:03}.png"
        Image.fromarray(pixels.clip(0, 65535).astype(np.uint16)).save(tmp_path / name)
        rows.append((name, ("normal", "opacity")[opacity != (number % 40 == 1)], f"P{patient:02}"))
    with (tmp_path / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "patient"), *rows])
    return tmp_path


def test_from_a_shortlist_to_a_page_and_predictions(xrays: Path) -> None:
    table, page = str(xrays / "images.csv"), xrays / "choice.html"
    constraints = ("--max-memory", "8GB", "--licence", "commercial")
    assert document("recommend", "--classes", "2", "--labels", "5000", *constraints)["encoders"]

    race = ("choose", table, "--group", "patient", *constraints, "--offline", "--time", "6m", "--encoders", TWO)
    assert all(name in run(*race, "--dry-run").output for name in TWO.split(","))
    chosen = document(*race, "--device", "cpu", "--out", str(xrays / "out"), "--page", str(page))
    winner = chosen["winner"]
    assert winner in TWO.split(",")
    assert chosen["race"]["standings"][0]["error"]["value"] < 30  # a third of the images are of the rarer class
    assert page.read_text(encoding="utf-8").count(winner) > 1

    words = shlex.split(chosen["commands"]["evaluate"])[1:]
    assert words[:2] == ["evaluate", winner]
    saved = str(xrays / "probe")
    words[words.index("DIR")] = saved
    (evaluated,) = document(*words, "--settings", "full,5-shot", "--device", "cpu")["evaluations"]
    assert evaluated["encoder"] == winner
    found = document("results", winner, "--dataset", "images")["measurements"]
    assert {one["metric"] for one in found} >= {"linear_probe_error", "knn_error"}

    run("predict", saved, str(xrays / "img"), "--out", str(xrays / "new.csv"), "--device", "cpu")
    with (xrays / "new.csv").open(newline="") as file:
        predicted = list(csv.DictReader(file))
    assert len(predicted) == N_IMAGES
    assert {row["predicted"] for row in predicted} == {"normal", "opacity"}

    same, other = (
        document("predict", saved, table, "--device", "cpu", *group) for group in (("--group", "patient"), ())
    )
    assert (same["split_otherwise"], other["split_otherwise"]) == (False, True)
    assert "split otherwise than when the probe was trained" in run("predict", saved, table, "--device", "cpu").output
