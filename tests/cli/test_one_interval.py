"""One error has one interval, whichever verb prints it: with groups, and with copies of images."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.evaluation import classification_metrics

ENCODER = "pocket_simclr_vit_shapes"


def write_table(folder: Path) -> Path:
    """Two classes that overlap, three images of each patient, and a copy of each image of some patients."""
    random, lines = np.random.default_rng(0), ["path,label,patient"]
    folder.mkdir(parents=True)
    for patient in range(60):
        level = random.normal(100 + 30 * (patient % 2), 25)
        for image in range(3):
            pixels = np.clip(random.normal(level, 60, (32, 32, 3)), 0, 255).astype(np.uint8)
            for copy in range(1 + (patient % 6 == 0)):
                name = f"{patient:02}-{image}-{copy}.png"
                Image.fromarray(pixels).save(folder / name)
                lines.append(f"{name},{('bright', 'dark')[patient % 2]},{patient}")
    table = folder / "images.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def ends(found: dict[str, Any]) -> tuple[float, ...]:
    """Value and ends in percent, without the last digits."""
    return tuple(round(float(found[name]), 9) for name in ("value", "ci_low", "ci_high"))


@for_each([(), ("--group", "patient")])
def test_every_verb_prints_one_interval_of_one_error(
    grouping: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / f"{len(grouping)} options"
    monkeypatch.setenv("ZOO_HOME", str(here / "home"))
    images = str(write_table(here / "images"))
    probe = here / "probe"
    arguments = (ENCODER, images, "--settings", "full", "--seed", "3", *grouping)
    measured = document("evaluate", *arguments, "--save", str(probe), "--decompose", "--subsets", "2")
    (found,) = measured["evaluations"]
    error = ends(found["errors"][0])
    assert 0 < error[1] < error[0] < error[2] < 100
    predicted = document("predict", str(probe), images, *grouping)
    assert predicted["metrics"].items() <= found["metrics"].items()
    assert ends(found["metrics"]["metrics"]["error"]) == ends(found["decomposition"]["full_shot_error"]) == error
    (default,) = (
        one
        for one in document("layers", ENCODER, images, "--probes", "1", "--seed", "3", *grouping)["variants"]
        if one["is_default"]
    )
    assert ends(default["probe_error"]) == error
    (leader,) = document("choose", images, "--encoders", ENCODER, "--seed", "3", *grouping)["race"]["standings"]
    assert ends(leader["error"]) == error
    (row,) = (
        row
        for path in (here / "home" / "results").rglob(f"{ENCODER}.csv")
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        if (row["split"], row["metric"]) == ("train -> val", "linear_probe_error")
    )
    assert ends(row) == error
    printed = f"{error[0]:.1f}\\s+{error[1]:.1f} to {error[2]:.1f}"
    assert len(re.findall(printed, run("evaluate", *arguments, "--save", str(probe)).output)) >= 2


def test_of_two_classes_the_ranking_of_one_has_the_interval_that_is_printed_of_both() -> None:
    random = np.random.default_rng(0)
    y, shares = random.integers(0, 2, 90), random.random(90)
    found = classification_metrics(y, np.stack([1 - shares, shares], axis=1))
    assert found.metrics["auroc"] == found.per_class[1].auroc
    assert found.metrics["average_precision"] == found.per_class[1].average_precision
