"""The verbs evaluate, features, probe and decompose, with real encoders on real images."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.analysis.label_prediction import measure_misses_elsewhere
from zoo.results.rows import measurements

pytestmark = pytest.mark.usefixtures("home")

ENCODER = "pocket_simclr_rn_shapes"
IMAGES = "shapes:classes=4,train=120,val=40,size_px=16"
DATASET = "shapes-4-classes-16px"
QUICK = ("--settings", "full,5-shot", "--seeds", "2", "--subsets", "2")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("features")
    found = document("features", ENCODER, IMAGES, "--out", str(root))
    return {one["part"]: one["folder"] for one in found["features"]}


def test_an_encoder_is_measured_and_every_number_recorded_once(home: Path) -> None:
    (first,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose")["evaluations"]
    assert {error["setting"]: error["n_train"] for error in first["errors"]} == {"5-shot": 20, "full": 120}
    parts = first["decomposition"]["parts"]
    assert parts["approximation"] is None
    total = sum(part["value"] for part in parts.values() if part)
    assert total == pytest.approx(first["decomposition"]["full_shot_error"]["value"])
    assert first["recorded"]["new"] == len([row for row in measurements() if row.dataset == DATASET]) == 10
    (again,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose")["evaluations"]
    assert (again["recorded"]["new"], again["recorded"]["known"]) == (0, 10)
    assert again["errors"] == first["errors"]
    rows = document("results", "--dataset", DATASET)["measurements"]
    assert {row["metric"] for row in rows} >= {"linear_probe_error", "knn_error", "encoder_generalization"}
    assert (home / "results" / "measured" / f"{ENCODER}.csv").is_file()


def test_on_other_data_the_exponent_is_fitted_or_the_law_extrapolated() -> None:
    few = ("--decompose", "--subsets", "1", "--seeds", "1", "--no-knn", "--no-record")
    (fitted,) = document("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot,10-shot", *few)["evaluations"]
    law = fitted["law"]
    assert law["extrapolated"] is None and law["fitted"]["n_labels"] == [12, 40]
    assert law["fitted"]["ci_low"] <= law["fitted"]["exponent"] <= law["fitted"]["ci_high"]
    asked = ("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot", *few)
    (alone,) = document(*asked)["evaluations"]
    assert alone["law"]["fitted"] is None and "got 1" in alone["law"]["not_fitted"]
    missed = measure_misses_elsewhere()
    assert alone["law"]["extrapolated"]["missed_elsewhere"]["mean_absolute"] == missed.mean_absolute
    result = run(*asked)
    assert "\nImageNet's law, extrapolated\n" in result.stdout and "encoder generalization" in result.stdout
    assert f"{ENCODER} was pretrained on shapes, not on {DATASET}" in result.stderr
    assert len(result.stderr.splitlines()) <= 5 < len(run(*asked, "--verbose").stderr.splitlines())


def test_a_changed_setting_is_another_protocol(folders: dict[str, str]) -> None:
    few = ("--settings", "5-shot", "--seeds", "1", "--no-knn")
    usual = document("probe", folders["train"], folders["val"], *few)
    before = (*few, "--protocol", "zoo-logistic-2")
    changed = document(
        "probe", folders["train"], folders["val"], *before, "--set", "stop=scikit-learn", "--set", "Cs=5"
    )
    assert usual["protocol"] == "zoo-logistic-3"
    assert document("probe", folders["train"], folders["val"], *before)["protocol"] == "zoo-logistic-2"
    assert changed["protocol"] == 'zoo-logistic-2 (Cs=5, stop="scikit-learn")'
    assert changed["errors"][0]["runs"][0]["report"]["stop"] == "scikit-learn"
    for wrong, says in (
        ("speed=9", "speed"),
        ("tol", "NAME=VALUE"),
        ("select=beauty", "beauty"),
        ("stop=scikit-learn", "as zoo-logistic-2 has them"),
        ('preparations=["bleached"]', "There is no preparation 'bleached'"),
    ):
        assert says in run("probe", folders["train"], folders["val"], *few, "--set", wrong, code=2).output


def folder_of_images(root: Path, counts: dict[str, int]) -> Path:
    random = np.random.default_rng(0)
    for name, n in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(n):
            pixels = random.integers(0, 256, size=(16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def test_a_corrupt_image_ends_the_run_with_its_name_and_can_be_left_out(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "pets", {"cat": 20, "dog": 20})
    (root / "cat" / "3.png").write_bytes(b"no image")
    refused = run("evaluate", ENCODER, str(root), "--settings", "full", code=1).output
    assert "3.png" in refused and "--skip-corrupt" in refused
    (found,) = document("evaluate", ENCODER, str(root), "--settings", "full", "--skip-corrupt")["evaluations"]
    assert [name.rsplit("/", 1)[-1] for part in found["skipped"].values() for name in part] == ["3.png"]
    assert found["n_train"] + found["n_test"] == 39


@pytest.mark.parametrize(
    ("counts", "arguments", "says", "code"),
    [
        ({"cat": 30}, (), "class", 1),
        ({"cat": 30, "dog": 6}, ("--settings", "10-shot"), "dog", 1),
        ({"cat": 30, "dog": 30}, ("--settings", "many"), "many", 2),
        ({"cat": 30, "dog": 30}, ("--device", "abacus"), "abacus", 2),
        ({"cat": 30, "dog": 30}, ("--supervised", "no_such_encoder"), "no_such_encoder", 2),
        ({"cat": 30, "dog": 30}, ("--decompose", "--supervised", "130"), "130", 2),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, counts: dict[str, int], arguments: Any, says: str, code: int
) -> None:
    root = folder_of_images(tmp_path / "pets", counts)
    message = run("evaluate", ENCODER, str(root), *arguments, code=code).stderr
    assert says in message and len(message.strip().splitlines()) == 1


class TestOtherImages:
    """Two folders of one name."""

    @pytest.fixture
    def two(self, tmp_path: Path) -> tuple[Path, Path]:
        """Of the same names, sizes of files and classes, but with other pixels."""
        found = []
        for seed, parent in enumerate(("mine", "theirs")):
            root = tmp_path / parent / "data"
            random = np.random.default_rng(seed)
            for label in ("cat", "dog"):
                (root / label).mkdir(parents=True)
                for number in range(30):
                    pixels = random.integers(0, 256, size=(16, 16, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(root / label / f"{number}.bmp")
            found.append(root)
        return found[0], found[1]

    @pytest.mark.parametrize("arguments", [("evaluate",), ("metric", "rankme"), ("curve",)])
    def test_they_are_refused_before_anything_is_computed(
        self, two: tuple[Path, Path], home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
    ) -> None:
        document("evaluate", ENCODER, str(two[0]), "--settings", "full", "--no-knn")
        before = {path: path.read_bytes() for path in (home / "results").rglob("*.*")}

        def refuse(*arguments: object, **options: object) -> None:
            raise AssertionError("something was computed")

        for computing in ("zoo.loading.load", "zoo.evaluation.curves.models.candidate"):
            monkeypatch.setattr(computing, refuse)
        more = ("--task", "classification") if arguments[0] == "curve" else ()
        refused = run(*arguments, "pocket_sup_rn_shapes", str(two[1]), *more, code=1)
        assert "other images than those recorded as 'data'" in refused.stderr and "--dataset NAME" in refused.stderr
        assert {path: path.read_bytes() for path in (home / "results").rglob("*.*")} == before


class TestNothingIsThrownAway:
    """What was measured is printed, whatever becomes of the results."""

    FEW = ("--settings", "full", "--no-knn")

    @pytest.mark.parametrize("arguments", [("evaluate", ENCODER), ("metric", "rankme", ENCODER)])
    def test_on_a_full_disk_the_table_and_the_document_are_printed(
        self, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
    ) -> None:
        @contextmanager
        def full(*arguments: object, **options: object) -> Iterator[None]:
            raise OSError(errno.ENOSPC, "No space left on device")
            yield

        monkeypatch.setattr("zoo.results.recording.replace_file", full)
        monkeypatch.setattr("zoo.evaluation.measuring.replace_file", full)
        few = self.FEW if arguments[0] == "evaluate" else ()
        result = run(*arguments, IMAGES, *few, code=1)
        assert "full" in result.stdout or "RankMe" in result.stdout
        assert "not added to your results" in result.stderr and "No space left on device" in result.stderr
        found = document(*arguments, IMAGES, *few, code=1)
        (one,) = found["evaluations"] if arguments[0] == "evaluate" else (found,)
        assert one["recorded"] is None and "No space left" in one["not_recorded"]

    def test_another_number_for_a_recorded_row_is_printed_and_the_recorded_one_stays(self, home: Path) -> None:
        document("evaluate", ENCODER, IMAGES, *self.FEW)
        (path,) = (home / "results" / "measured").glob("*.csv")
        (row,) = [row for row in measurements() if row.dataset == DATASET]
        moved = {"value": row.value + 2.5, "ci_low": row.ci_low, "ci_high": row.ci_high}  # as if one image had flipped
        text = path.read_text().replace(f",{row.value!r},percent,", f",{moved['value']!r},percent,")
        path.write_text(text)
        result = run("evaluate", ENCODER, IMAGES, "--settings", "full,5-shot", "--seeds", "1", "--no-knn", code=1)
        assert f"{row.value:.1f}" in result.stdout  # the table
        assert f"recorded: {moved['value']:.6g}, now: {row.value:.6g}; the recorded one stays" in result.output
        assert path.read_text().startswith(text) and "train 5-shot -> val" in path.read_text()
        (found,) = document("evaluate", ENCODER, IMAGES, *self.FEW, code=1)["evaluations"]
        (told,) = found["recorded"]["differing"]
        assert (told["recorded"], told["now"]) == (moved["value"], row.value)


@for_each(
    [
        (("evaluate", ENCODER, "digits", "--refit", "20", "--subsets", "4"), "--subsets 4 and --refit 20 have"),
        (("evaluate", ENCODER, "digits", "--no-record", "--source", "me"), "--source me"),
        (("evaluate", ENCODER, IMAGES, "--val-share", "0.5"), "--val-share 0.5"),
        (("features", ENCODER, "digits", "--label-column", "fine"), "--label-column fine"),
        (("metric", "rankme", ENCODER, "digits", "--val", "x.npy"), "--val x.npy"),
        (("metric", "rankme", "z.npy", "--views", "5"), "--views 5"),
        (("curve", ENCODER, "digits", "--task", "classification", "--regimes", "50", "--count", "3"), "--count 3"),
    ],
    arguments=2,
)
def test_an_option_that_would_do_nothing_is_refused_in_one_sentence(arguments: tuple[str, ...], idle: str) -> None:
    message = run(*arguments, code=2).stderr
    assert idle in message and "no effect" in message and len(message.strip().splitlines()) == 1
