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
from zoo.analysis.label_prediction import missed_elsewhere
from zoo.evaluation.evaluating import evaluations_folder
from zoo.results.rows import measurements

ENCODER = "pocket_simclr_rn_shapes"
IMAGES = "shapes:classes=4,train=120,val=40,size_px=16"
DATASET = "shapes-4-classes-16px"
QUICK = ("--settings", "full,5-shot", "--seeds", "2", "--subsets", "2")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of a user who has measured nothing; the cache of features stays, for it changes no number."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


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


def test_the_table_has_no_law_of_other_data_and_says_where_the_assumption_fails(home: Path) -> None:
    text = run("evaluate", ENCODER, IMAGES, *QUICK, "--decompose", "--no-record").output
    assert "law predicts" not in text and "5-shot" in text and "encoder generalization" in text
    assert f"{ENCODER} was pretrained on shapes, not on {DATASET}" in text
    assert not (home / "results").exists()


def test_on_other_data_the_exponent_is_fitted_or_the_law_extrapolated_under_its_own_heading() -> None:
    few = ("--decompose", "--subsets", "1", "--seeds", "2", "--no-knn", "--no-record")
    (fitted,) = document("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot,10-shot", *few)["evaluations"]
    assert all(error["predicted"] is None for error in fitted["errors"])
    law = fitted["law"]
    assert law["extrapolated"] is None and law["fitted"]["n_labels"] == [12, 40]
    assert law["fitted"]["ci_low"] <= law["fitted"]["exponent"] <= law["fitted"]["ci_high"]
    text = run("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot,10-shot", *few).output
    assert f"exponent {law['fitted']['exponent']:.2f}" in text and "fitted to 2 errors with 12, 40 labels" in text
    (alone,) = document("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot", *few)["evaluations"]
    assert alone["law"]["fitted"] is None and "got 1" in alone["law"]["not_fitted"]
    missed = missed_elsewhere()
    assert alone["law"]["extrapolated"]["missed_elsewhere"]["mean_absolute"] == missed.mean_absolute
    assert [one["setting"] for one in alone["law"]["extrapolated"]["errors"]] == ["3-shot"]
    text = run("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot", *few).output
    assert "\nImageNet's law, extrapolated\n" in text
    assert f"off by {missed.mean_absolute:.1f} points in the mean and {missed.largest:.1f} at most" in text
    plain = run("evaluate", ENCODER, IMAGES, "--settings", "full,3-shot", "--no-record").output
    assert "law" not in plain  # nothing was decomposed


def test_the_single_steps_give_what_the_whole_gives(folders: dict[str, str]) -> None:
    (whole,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose", "--no-record")["evaluations"]
    probed = document("probe", folders["train"], folders["val"], *QUICK[:4])
    assert [(error["setting"], error["value"]) for error in probed["errors"]] == [
        (error["setting"], error["value"]) for error in whole["errors"]
    ]
    parts = document("decompose", folders["train"], folders["val"], "--subsets", "2")["parts"]
    assert parts == whole["decomposition"]["parts"]


def test_a_changed_setting_is_another_protocol(folders: dict[str, str]) -> None:
    few = ("--settings", "5-shot", "--seeds", "1", "--no-knn")
    usual = document("probe", folders["train"], folders["val"], *few)
    changed = document("probe", folders["train"], folders["val"], *few, "--set", "stop=scikit-learn", "--set", "Cs=5")
    assert usual["protocol"] == "zoo-logistic-2"
    assert changed["protocol"] == 'zoo-logistic-2 (Cs=5, stop="scikit-learn")'
    assert changed["errors"][0]["runs"][0]["report"]["stop"] == "scikit-learn"
    for wrong, says in (("speed=9", "speed"), ("tol", "NAME=VALUE"), ("select=beauty", "beauty")):
        assert says in run("probe", folders["train"], folders["val"], *few, "--set", wrong, code=2).output


def test_a_twin_splits_approximation_from_usability(folders: dict[str, str]) -> None:
    found = document("decompose", folders["train"], folders["val"], "--subsets", "1", "--supervised", "2.5")
    assert found["parts"]["approximation"]["value"] == 2.5
    own = run("decompose", folders["train"], folders["val"], "--supervised", folders["train"], code=1).output
    assert "trained as 'contrastive'" in own
    twin = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose", "--supervised", "pocket_sup_rn_shapes")
    parts = twin["evaluations"][0]["decomposition"]["parts"]
    assert parts["approximation"]["value"] + parts["usability"]["value"] == pytest.approx(
        parts["approximation_plus_usability"]["value"]
    )


def test_several_representations_are_measured_each_on_its_own() -> None:
    names = ("pocket_init_vit@avg", "pocket_init_vit@cls:1")
    few = "shapes:classes=2,train=16,val=8,size_px=16"
    found = document("evaluate", *names, few, "--settings", "full", "--no-knn", "--no-record")["evaluations"]
    assert [(one["encoder"], one["dim"]) for one in found] == [(name, 40) for name in names]


def test_an_encoder_that_cannot_be_measured_does_not_stop_the_others() -> None:
    few = "shapes:classes=2,train=12,val=8,size_px=16"
    result = run("evaluate", "pirl_rn50", ENCODER, few, "--settings", "full", "--json", code=1)
    assert '"failed": [\n  {"encoder": "pirl_rn50"' in result.stdout and "1 of 2 encoders" in result.stderr


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


def test_features_of_another_encoder_or_the_same_images_are_refused(folders: dict[str, str], tmp_path: Path) -> None:
    few = "shapes:classes=4,train=24,val=16,size_px=16"
    other = document("features", "pocket_simclr_rn_shapes_d24", few, "--split", "val", "--out", str(tmp_path))[
        "features"
    ][0]["folder"]
    assert "encoder" in run("probe", folders["train"], other, code=1).output
    assert "same" in run("probe", folders["train"], folders["train"], code=1).output
    assert "training images first" in run("probe", folders["val"], folders["train"], code=1).output
    assert "no features folder" in run("probe", folders["train"], str(tmp_path / "none"), code=1).output


def test_what_is_kept_lies_in_the_cache_unless_a_folder_is_named(tmp_path: Path) -> None:
    found = document("features", ENCODER, IMAGES, "--split", "val")["features"][0]
    assert Path(found["folder"]).is_relative_to(evaluations_folder())
    elsewhere = document("features", ENCODER, IMAGES, "--split", "val", "--out", str(tmp_path))["features"][0]
    assert Path(elsewhere["folder"]).is_relative_to(tmp_path)


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

    def test_with_a_name_of_their_own_or_without_recording_they_are_measured(self, two: tuple[Path, Path]) -> None:
        few = ("--settings", "full", "--no-knn")
        (mine,) = document("evaluate", ENCODER, str(two[0]), *few)["evaluations"]
        (theirs,) = document("evaluate", ENCODER, str(two[1]), *few, "--dataset", "theirs")["evaluations"]
        (again,) = document("evaluate", ENCODER, str(two[1]), *few, "--no-record")["evaluations"]
        assert theirs["recorded"]["new"] == 1 and again["recorded"] is None
        assert mine["errors"][0]["value"] != theirs["errors"][0]["value"] == again["errors"][0]["value"]

    def test_another_split_of_the_same_images_is_refused_too(self, two: tuple[Path, Path]) -> None:
        document("evaluate", ENCODER, str(two[0]), "--settings", "full", "--no-knn")
        assert "other images" in run("evaluate", ENCODER, str(two[0]), "--split-seed", "1", code=1).stderr


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

        monkeypatch.setattr("zoo.results.recording.replaced", full)
        monkeypatch.setattr("zoo.evaluation.measuring.replaced", full)
        few = self.FEW if arguments[0] == "evaluate" else ()
        result = run(*arguments, IMAGES, *few, code=1)
        assert "full" in result.stdout or "RankMe" in result.stdout
        assert "not added to your results" in result.stderr and "No space left on device" in result.stderr
        found = document(*arguments, IMAGES, *few, code=1)
        (one,) = found["evaluations"] if arguments[0] == "evaluate" else (found,)
        assert one["recorded"] is None and "No space left" in one["not_recorded"]

    def test_a_home_that_cannot_be_written_takes_nothing_away(self, home: Path) -> None:
        (home / "results").mkdir(parents=True, exist_ok=True)
        (home / "results" / "measured").write_text("no folder")
        result = run("evaluate", ENCODER, IMAGES, *self.FEW, code=1)
        assert "120" in result.stdout and "not added to your results" in result.stderr

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

    def test_the_users_rows_stand_beside_the_shipped_ones_of_the_same_encoder(self) -> None:
        shipped = [row for row in measurements(encoders=ENCODER) if row.dataset == "digits"]
        (found,) = document("evaluate", ENCODER, "digits", *self.FEW)["evaluations"]
        assert found["recorded"]["new"] == 1 and not found["recorded"]["differing"]
        own = [row for row in measurements(encoders=ENCODER) if row.dataset == "digits" and row not in shipped]
        assert [row.source for row in own] == ["own"] and {row.source for row in shipped} == {"measured"}


class TestOptionsWithoutEffect:
    """They are refused in one sentence before anything is read."""

    @pytest.mark.parametrize(
        ("arguments", "idle"),
        [
            (("evaluate", ENCODER, "digits", "--supervised", "3"), "--supervised 3"),
            (("evaluate", ENCODER, "digits", "--order", "standard"), "--order standard"),
            (("evaluate", ENCODER, "digits", "--subsets", "2"), "--subsets 2"),
            (("evaluate", ENCODER, "digits", "--refit", "20"), "--refit 20"),
            (("evaluate", ENCODER, "digits", "--refit", "20", "--subsets", "4"), "--subsets 4 and --refit 20 have"),
            (("evaluate", ENCODER, "digits", "--decompose", "--order", "alternative", "--subsets", "2"), "--subsets 2"),
            (("evaluate", ENCODER, "digits", "--settings", "full,100%", "--seeds", "2"), "--seeds 2"),
            (("evaluate", ENCODER, "digits", "--no-record", "--source", "me"), "--source me"),
            (("evaluate", ENCODER, IMAGES, "--val-share", "0.5"), "--val-share 0.5"),
            (("evaluate", ENCODER, IMAGES, "--split-seed", "0"), "--split-seed 0"),
            (("features", ENCODER, "digits", "--label-column", "fine"), "--label-column fine"),
            (("probe", "train", "val", "--settings", "full", "--seeds", "3"), "--seeds 3"),
            (("decompose", "train", "val", "--seeds", "3"), "--seeds 3"),
            (("decompose", "train", "val", "--order", "alternative", "--subsets", "3"), "--subsets 3"),
            (("metric", "rankme", ENCODER, "digits", "--views", "5"), "--views 5"),
            (("metric", "rankme", ENCODER, "digits", "--augmentations", "crop"), "--augmentations crop"),
            (("metric", "rankme", ENCODER, "digits", "--views-of", "5"), "--views-of 5"),
            (("metric", "rankme", ENCODER, "digits", "--target", "shapes"), "--target shapes"),
            (("metric", "lidar", ENCODER, "digits", "--n-images", "50"), "--n-images 50"),
            (("metric", "rotation_accuracy", ENCODER, "digits", "--split", "val"), "--split val"),
            (("metric", "rankme", ENCODER, "digits", "--no-record", "--source", "me"), "--source me"),
            (("metric", "rankme", "z.npy", "--seed", "1"), "--seed 1"),
            (("metric", "rankme", "z.npy", "--val", "other.npy"), "--val other.npy"),
            (("metric", "rankme", "z.npy", "--record"), "--record"),
            (("metric", "--list", "--views", "5"), "--views 5"),
            (("curve", ENCODER, "digits", "--task", "classification", "--regimes", "50", "--count", "3"), "--count 3"),
            (("curve", ENCODER, "shapes", "--task", "depth", "--val-share", "0.5"), "--val-share 0.5"),
            (("curve", ENCODER, "shapes", "--task", "depth", "--image-column", "x"), "--image-column x"),
            (("curve", ENCODER, "digits", "--task", "classification", "--no-record", "--source", "me"), "--source me"),
        ],
    )
    def test_an_option_that_would_do_nothing_is_named(self, arguments: tuple[str, ...], idle: str) -> None:
        message = run(*arguments, code=2).stderr
        assert idle in message and "no effect" in message and len(message.strip().splitlines()) == 1
