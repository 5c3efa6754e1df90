"""What the script measures of two encoders of the randomised population, on small image sets made up here."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import measure_randomised as script
import numpy as np
import pytest
from PIL import Image

from zoo.cards.catalogue import load_catalogue
from zoo.datasets import ImageData
from zoo.datasets.images import ImageSet
from zoo.results.vocabulary import LABEL_FREE_METRICS

WITH_VIEWS, WITHOUT_VIEWS = "randomised_020", "randomised_045"  # whose augmentations do, and do not, make views
PARTS = ("approximation", "usability", "probe_generalization", "encoder_generalization")
OF_VIEWS = {name for name, one in LABEL_FREE_METRICS.items() if one.needs == "views"}


def bands(name: str, *, n_each: int, seed: int) -> ImageData:
    """Grey images of three classes, brighter at the top, in the middle and at the bottom."""
    chance = np.random.default_rng(seed)

    def part(split: str, n_each: int) -> ImageSet:
        labels = np.arange(3 * n_each) % 3
        pixels = chance.integers(0, 120, (len(labels), 28, 28)).astype(np.uint8)
        for image, label in zip(pixels, labels, strict=True):
            image[9 * label : 9 * label + 9] += 90
        return ImageSet(
            name=name,
            split=split,
            images=[Image.fromarray(one) for one in pixels],
            labels=labels,
            classes=("top", "middle", "bottom"),
            names=[f"{number:03}" for number in range(len(labels))],
            fingerprint=f"{name} {split}".encode().hex(),
        )

    return ImageData(name=name, train=part("train", n_each), val=part("val", 15))


@pytest.fixture(scope="module")
def sets() -> Mapping[str, ImageData]:
    """Images by the names under which the script asks for them."""
    own, *others = [
        bands(f"bands {seed}", n_each=n_each, seed=seed) for seed, n_each in enumerate((40, 16, 16), start=1)
    ]
    return {script.OWN: own, **dict(zip(script.OTHERS, others, strict=True))}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_twin_is_the_supervised_network_of_the_same_architecture() -> None:
    for name, card in script.cards().items():
        twin = load_catalogue()[script.twin_of(card)]
        assert (twin.objective.name, twin.architecture.exact) == ("supervised", card.architecture.exact), name
        assert "_twin_" in twin.id


def test_errors_parts_and_metrics_become_rows_once_and_what_is_refused_or_differs_is_told(
    sets: Mapping[str, ImageData], tmp_path: Path
) -> None:
    def measure(name: str) -> script.Outcome:
        return script.measured(name, tmp_path / "scratch", tmp_path / "rows", images=sets.__getitem__)

    done = {name: measure(name) for name in (WITH_VIEWS, WITHOUT_VIEWS)}
    files = {path.name: path.read_bytes() for path in (tmp_path / "rows").iterdir() if path.is_file()}
    metrics = {}
    for name in done:
        rows = rows_of(tmp_path / "rows" / f"{name}.csv")
        assert done[name].n_new == len(rows)
        assert {row["dataset"] for row in rows if row["metric"] == "linear_probe_error"} == {
            one.name for one in sets.values()
        }
        metrics[name] = {row["metric"] for row in rows if row["dataset"] == sets[script.OWN].name}
        assert metrics[name] >= {"linear_probe_error", "knn_error", *PARTS}
    assert metrics[WITH_VIEWS] >= OF_VIEWS and not metrics[WITHOUT_VIEWS] & OF_VIEWS
    told = dict(line.split(": ", 1)[::-1] for line in done[WITHOUT_VIEWS].refused)
    (reason,) = [reason for reason, which in told.items() if set(which.split(", ")) == OF_VIEWS]
    assert "none of which makes views that differ" in reason
    for name in done:
        again = measure(name)
        assert again.n_new == 0 and again.refused == done[name].refused and not again.differing
    assert {path.name: path.read_bytes() for path in (tmp_path / "rows").iterdir() if path.is_file()} == files
    path = tmp_path / "rows" / f"{WITH_VIEWS}.csv"
    (value,) = [row["value"] for row in rows_of(path) if row["metric"] == "stable_rank"]
    path.write_text(path.read_text().replace(f",{value},", ",1.5,"))
    changed = path.read_bytes()
    (line,) = measure(WITH_VIEWS).differing
    assert "stable_rank" in line and "recorded: 1.5" in line
    assert path.read_bytes() == changed
