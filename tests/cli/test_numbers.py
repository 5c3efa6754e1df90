"""Labels that are numbers, from the command line: measured, predicted, chosen for, refused where classes are meant."""

from __future__ import annotations

import csv
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.evaluation import load_probe
from zoo.evaluation.regression import RidgeProbe

ENCODER, OTHER = "pocket_init_rn", "pocket_simclr_rn_shapes"
AGE = ("--label-column", "age", "--device", "cpu")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images as bright as their number says, with noise, two of each patient."""
    folder, random = tmp_path_factory.mktemp("aged"), np.random.default_rng(0)
    lines = ["path,age,grade,patient"]
    for number in range(160):
        age = random.uniform(20, 80)
        pixels = np.clip(2.5 * age + random.normal(0, 25, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:03}.png")
        lines.append(f"{number:03}.png,{age:.2f},{age // 20:.0f},p{number // 2}")
    (folder / "images.csv").write_text("\n".join(lines) + "\n")
    return folder / "images.csv"


pytestmark = pytest.mark.usefixtures("home")


def test_numbers_are_measured_recorded_apart_and_predicted(table: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "probe", tmp_path / "ages.csv"
    settings = ("--settings", "full,25%", "--seeds", "2", "--group", "patient", "--save", str(folder))
    (found,) = document("evaluate", ENCODER, str(table), *AGE, *settings)["evaluations"]
    few, full = found["errors"]
    assert (found["target"], few["n_train"], full["n_train"]) == ("age", 32, 128)
    assert full["metrics"]["r2"]["value"] > 0.8 and full["n_groups"] == 16
    assert full["value"] == pytest.approx(100 * (1 - full["metrics"]["r2"]["value"]))
    rows = document("results", "--dataset", "images")["measurements"]
    assert {(row["metric"], row["protocol"], row["unit"]) for row in rows} == {
        ("unexplained_variance", "zoo-ridge-1", "percent of the variance")
    }
    assert found["recorded"]["new"] == len(rows) == 3
    assert "There is no data set" in run("compare", ENCODER, OTHER, "--dataset", "images", code=2).output

    predicted = document("predict", str(folder), str(table), *AGE, "--group", "patient", "--out", str(out))
    for name, one in found["metrics"]["metrics"].items():
        assert predicted["metrics"]["metrics"][name] == pytest.approx(one, abs=1e-3)
    with open(out, encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 32 and set(cells[0]) == {"path", "prediction"}
    unlabelled = document("predict", str(folder), str(table.parent), "--device", "cpu")
    of_path = {one["path"]: one["prediction"] for one in unlabelled["predictions"]}
    assert len(of_path) == 160 and unlabelled["metrics"] is None
    assert all(float(row["prediction"]) == pytest.approx(of_path[row["path"]], rel=1e-3) for row in cells)
    assert load_probe(folder).kind == "numbers"
    text = run("evaluate", ENCODER, str(table), *AGE, "--settings", "full", "--no-record").output
    assert "R2" in text and "MAE" in text and "Spearman" in text and "numbers (age)" in text


def test_zoo_evaluate_finds_the_probe_of_numbers_that_a_choice_trained(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("--to", str(tmp_path / "kept"))
    winner = document("choose", str(table), *AGE, "--encoders", f"{ENCODER},{OTHER}", *kept)["race"]["standings"][0]
    fitted, fit = list[int](), RidgeProbe.fit

    def counted(self: RidgeProbe, x: Any, y: Any, **more: Any) -> RidgeProbe:
        fitted.append(len(y))
        return fit(self, x, y, **more)

    monkeypatch.setattr(RidgeProbe, "fit", counted)
    (found,) = document("evaluate", winner["name"], str(table), *AGE, "--settings", "full,25%", *kept)["evaluations"]
    assert set(fitted) == {32}  # of 128
    assert found["errors"][-1]["metrics"]["r2"]["value"] > 0.8


def test_a_choice_for_numbers_is_in_words_of_numbers(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "choice.html"
    text = run("choose", str(table), *AGE, "--encoders", f"{ENCODER},{OTHER}", "--page", str(page), "--verbose").output
    assert "leaves the least of the variance of 'age' unexplained" in text and "R2 0." in text
    value, low, high = map(float, re.search(r"(\d+\.\d) +(\d+\.\d) to (\d+\.\d)", text).groups())  # type: ignore[union-attr]
    assert low <= value <= high < 50  # much of the number is in the images
    assert "unexplained %" in text and "error %" not in text and "--label-column age" in text
    shown = page.read_text()
    assert "unexplained variance, percent" in shown and "error, percent" not in shown and "a class;" not in shown
    plan = document("choose", str(table), *AGE, "--encoders", f"{ENCODER},{OTHER}", "--dry-run")
    assert plan["protocol"] == "zoo-ridge-1" and all(one["expected_error"] is None for one in plan["encoders"])


def test_layers_are_chosen_by_the_variance_that_they_leave_unexplained(table: Path) -> None:
    layers = ("layers", OTHER, str(table), *AGE, "--group", "patient", "--resolutions", "32")
    found = document(*layers)
    (measured,) = document(
        "evaluate", OTHER, str(table), *AGE, "--group", "patient", "--settings", "full", "--no-record"
    )["evaluations"]
    (card,) = (one for one in found["variants"] if one["is_default"])
    assert card["test_error"]["value"] == pytest.approx(measured["errors"][0]["value"], abs=1e-3)
    left_out_r2 = measured["errors"][0]["runs"][0]["report"]["left_out_r2"]
    assert card["train_error"]["value"] == pytest.approx(100 * (1 - left_out_r2), abs=1e-3)
    assert (found["target"], found["probe"], found["n_train"]) == ("age", "zoo-ridge-1", 128)
    best = min(one["train_error"]["value"] for one in found["variants"])
    (chosen,) = (one for one in found["variants"] if one["is_chosen"])
    assert chosen["train_error"]["value"] == best and chosen["test_error"]["value"] < 50
    assert document(*layers, "--n-images", "60", "--n-test", "20")["n_train"] == 60
    text = run(*layers, "--verbose").output
    assert "unexplained variance of ridge probes in percent" in text and "R2 on test images: " in text


def test_one_error_has_one_interval_in_evaluate_layers_choose_and_predict(table: Path, tmp_path: Path) -> None:
    def ends(found: dict[str, float]) -> list[float]:
        return [found["value"], found["ci_low"], found["ci_high"]]

    for label, groups in product(("age", "grade"), ((), ("--group", "patient"))):
        how, folder = (
            (str(table), "--label-column", label, "--device", "cpu", *groups),
            tmp_path / "".join([label, *groups]),
        )
        layers = document("layers", OTHER, *how, "--resolutions", "32")
        settings = ("--settings", "full", "--no-record", "--save", str(folder))
        (measured,) = document("evaluate", OTHER, *how, *settings)["evaluations"]
        chosen = document("choose", *how, "--encoders", f"{ENCODER},{OTHER}")
        again = document("choose", *how, "--encoders", f"{OTHER},{ENCODER}")
        predicted = document("predict", str(folder), *how, "--out", str(tmp_path / "out.csv"))["metrics"]["metrics"]
        (error,) = measured["errors"]
        (variant,) = (one for one in layers["variants"] if one["is_default"])
        (curve,) = (one["points"][-1]["error"] for one in chosen["label_curves"] if one["encoder"] == OTHER)
        (raced,) = (one for one in chosen["race"]["standings"] if one["name"] == OTHER)
        raised = chosen["race"]["optimism"] if raced["verdict"] == "leader" else 0.0
        expected = pytest.approx(ends(error), rel=1e-9)
        assert ends(variant["test_error"] if label == "age" else variant["probe_error"]) == expected
        assert ends(curve) == expected
        assert [one - raised for one in ends(raced["error"])] == expected
        assert again["race"]["standings"] == chosen["race"]["standings"]
        if label == "age":
            r2 = predicted["r2"]
            of_saved = [100 * (1 - r2[end]) for end in ("value", "ci_high", "ci_low")]
            assert of_saved == pytest.approx(ends(error), abs=1e-3)  # its coefficients are saved in float32
        else:
            assert ends(predicted["error"]) == expected


def test_a_probe_of_numbers_predicts_tables_and_lists_without_numbers(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "probe"
    run("evaluate", ENCODER, str(table), *AGE, "--settings", "full", "--no-record", "--save", str(folder))
    names = [f"{number:03}.png" for number in range(4)]
    for file, lines in (
        ("list.txt", names),
        ("paths.csv", ["path", *names]),
        ("blank.csv", ["Image Index", *names]),
        ("kinds.csv", ["path,label", *(f"{name},{'ab'[at % 2]}" for at, name in enumerate(names))]),
    ):
        (table.parent / file).write_text("\n".join(lines) + "\n")
        found = document("predict", str(folder), str(table.parent / file), "--device", "cpu")
        assert [one["path"] for one in found["predictions"]] == names and found["metrics"] is None


def test_features_of_images_with_numbers_are_written_with_the_numbers(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    run("features", ENCODER, str(table), *AGE, "--parquet", str(out), "--npy", str(tmp_path / "out.npy"))
    ages = pd.read_csv(table)["age"].tolist()
    assert pd.read_parquet(out)["label"].tolist() == ages
    assert json.loads((tmp_path / "out.npy.json").read_text())["label"] == ages


def test_too_few_images_with_numbers_are_refused_with_a_way_out_by_choose_and_evaluate(table: Path) -> None:
    few = table.parent / "few.csv"
    few.write_text("".join(table.read_text().splitlines(keepends=True)[:41]))
    for verb in (["choose", str(few), "--encoders", ENCODER], ["evaluate", ENCODER, str(few)]):
        text = run(*verb, *AGE, code=1).output
        assert "32 training and 8 test images with numbers; expected at least 10 of both" in text
        assert "--val-share" in text


def test_what_needs_classes_refuses_numbers_in_a_sentence(table: Path, tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        return run(words[0], *words[1:], code=2).output

    evaluate = ("evaluate", ENCODER, str(table), *AGE)
    for option in (["--decompose"], ["--no-knn"], ["--page", str(tmp_path / "page.html")]):
        said = refused(*evaluate, *option)
        assert f"{option[0]} " in said and "has numbers for labels, and ridge regression to them" in said
    assert "'30-shot' is a number of labels per class" in refused(*evaluate, "--settings", "30-shot")
    assert "zoo look works with classes" in refused("look", OTHER, str(table), *AGE)
    assert "ridge regression to them" in refused("layers", OTHER, str(table), *AGE, "--probes", "2")
    assert "are numbers" in refused("choose", str(table), *AGE, "--encoders", ENCODER, "--decompose")
    (found,) = document(*evaluate[:3], "--label-column", "grade", "--settings", "full", "--no-knn")["evaluations"]
    assert found["n_classes"] == 3 and found["errors"][0]["setting"] == "full"
