"""Choosing among small networks on small images: the answer, what is kept, what goes wrong, and what is said."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from tests.each import for_each
from zoo.choosing.candidates import ImageContender, RaceContext, complete_race
from zoo.choosing.choosing import Choice, choose, plan_choice
from zoo.choosing.constraints import Constraints
from zoo.choosing.scoring import Task, build_task
from zoo.choosing.successive_halving import Plan
from zoo.datasets import ImageData, ImageSet
from zoo.datasets.images import array_images
from zoo.errors import CorruptImage, DataError, QueryError, WeightsUnavailable
from zoo.evaluation.evaluating import Request, evaluate, featurise_data, get_runs_folder
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.refit import keep_probe
from zoo.features import Features, load_features
from zoo.features.work_items import FeaturisingOptions

GOOD, FAIR, POOR = "pocket_simclr_rn_shapes", "pocket_barlow_rn_shapes", "pocket_vicreg_rn_shapes"
LATE = "pocket_sup_rn_shapes"
NOISE = {GOOD: 0.0, FAIR: 0.6, POOR: 3.0, LATE: 0.0}
PX, CLASSES = 4, ("ant", "bee", "cow")


class Blurred(nn.Module):
    """Pixels, with noise that hides them: the same for the same image."""

    def __init__(self, noise: float, *, fits: int = 1_000) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixing = nn.Parameter(noise * torch.randn(3 * PX * PX, 3 * PX * PX))
        self.fits = fits

    def forward(self, pixels: Tensor) -> Tensor:
        if len(pixels) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        flat = pixels.flatten(1)
        return flat + torch.sin(40 * flat @ self.mixing)


def small(image: Any) -> Tensor:
    return torch.from_numpy(np.asarray(image.convert("RGB"), np.float32) / 255).permute(2, 0, 1)


def load(name: str, **changed: Any) -> tuple[nn.Module, Any]:
    return Blurred(NOISE[name], **changed), small


def images(n: int, *, split: str, seed: int, groups: bool = False) -> ImageSet:
    random = np.random.default_rng(seed)
    y = (np.arange(n) % 3).astype(np.int64)
    centres = np.random.default_rng(0).integers(60, 190, (3, PX, PX, 3))
    pixels = (centres[y] + random.normal(0, 70, (n, PX, PX, 3))).clip(0, 255).astype(np.uint8)
    found = array_images(pixels, y, name="insects", split=split, classes=CLASSES)
    return replace(found, groups=(np.arange(n) // 6).astype(np.uint64) + 1000 * seed) if groups else found


@pytest.fixture(scope="module")
def data() -> ImageData:
    return ImageData(name="insects", train=images(90, split="train", seed=1), val=images(150, split="val", seed=2))


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    for variable in ("ZOO_MIRROR", "ZOO_LOCK", "ZOO_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)


def chosen(data: ImageData, root: Path, **options: Any) -> Choice:
    return choose(data, **{"encoders": [GOOD, FAIR, POOR], "root": root, "device": "cpu", "load": load, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("choosing")


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def first(data: ImageData, folder: Path, said: list[str]) -> Choice:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(folder / "home"))
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        return chosen(data, folder, tell=said.append)


def test_the_best_wins_with_costs_a_label_curve_and_the_next_commands(
    first: Choice, said: list[str], folder: Path
) -> None:
    by_name = {one.name: one for one in first.race.standings}
    assert (first.winner, by_name[POOR].verdict, first.failed, first.race.is_complete) == (GOOD, "worse", {}, True)
    assert POOR not in first.ties
    assert [one.name for one in first.costs] == [one.name for one in first.race.standings]
    for one in first.costs:
        assert one.images_per_second is not None and one.images_per_second > 0
        assert (one.dim, one.feature_bytes) == (48, 4 * 48 * 240)
        assert one.n_computed == one.n_images > 0
    curve = first.curves[0]
    assert [point.n_labels for point in curve.points[-2:]] == [45, 90]
    assert curve.points[-1].error.value == pytest.approx(first.race.leader.error.value)  # type: ignore[union-attr]
    document = json.loads(json.dumps(first.as_dict()))
    assert document["plan"]["plan"]["score"] == "ridge"
    assert (document["winner"], document["race"]["standings"][0]["verdict"]) == (GOOD, "leader")
    assert (document["data"]["classes"], document["label_curves"][0]["encoder"]) == (list(CLASSES), GOOD)
    assert first.commands == {
        "load": f'encoder, preprocess = zoo.load("{GOOD}")',
        "evaluate": f"zoo evaluate {GOOD} IMAGES --to {folder} --device cpu --save DIR",
    }
    assert said[0] == f"3 encoders on insects: {GOOD}, {FAIR}, {POOR}"
    for words in ("rung 1: 3 encoders on 90 training and", f"{GOOD} leads with", f"beyond doubt: {POOR}"):
        assert any(words in text for text in said)


def test_a_second_choice_computes_only_what_is_new(first: Choice, data: ImageData, folder: Path) -> None:
    again = chosen(data, folder, encoders=[GOOD, POOR], load=partial(_no_load))
    assert {one.name: one.n_computed for one in again.costs} == {GOOD: 0, POOR: 0}
    of_first = {one.name: one.error for one in first.race.standings}
    assert of_first[GOOD] == again.race.leader.error
    with_new = chosen(data, folder, encoders=[GOOD, FAIR], load=load, seed=1)
    assert {one.name: one.n_computed for one in with_new.costs}[GOOD] == 0  # whole parts are of every seed


def test_an_encoder_whose_features_were_there_is_timed_on_a_few_images(
    first: Choice, data: ImageData, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "runs")
    for file in (tmp_path / "runs").rglob("speed.json"):
        file.unlink()
    again = chosen(data, tmp_path / "runs", encoders=[GOOD, POOR])
    assert (again.costs[0].n_computed, (again.costs[0].images_per_second or 0) > 0) == (0, True)


def test_nothing_is_timed_for_longer_than_a_choice_may_take(data: ImageData, tmp_path: Path) -> None:
    ground = RaceContext(data=data, schedule=Plan().schedule(build_task(data)), root=tmp_path, load=load)
    contender = ImageContender(GOOD, ground)
    contender.measure_speed(0.0)
    assert contender.speed is None
    contender.measure_speed(math.inf)
    assert contender.speed is not None and contender.n_computed == 0


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("n_test", [150, 1500])  # of so many a race need not look at all
def test_zoo_evaluate_computes_no_feature_and_no_probe_again_that_a_race_had(
    n_test: int, groups: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, val = images(90, split="train", seed=1, groups=groups), images(n_test, split="val", seed=2, groups=groups)
    data = ImageData(name="insects", train=train, val=val)
    seen, fitted = list[int](), list[int]()

    def counted(name: str) -> tuple[nn.Module, Any]:
        network, preprocess = load(name)
        network.register_forward_pre_hook(lambda module, pixels: seen.append(len(pixels[0])))
        return network, preprocess

    def fit(self: LogisticProbe, x: Any, y: Any, **more: Any) -> LogisticProbe:
        fitted.append(len(y))
        return whole_fit(self, x, y, **more)

    whole_fit = LogisticProbe.fit
    monkeypatch.setattr(LogisticProbe, "fit", fit)
    leader = chosen(data, tmp_path, encoders=[GOOD, POOR], load=counted, seed=3).race.leader
    assert 90 in fitted and (leader.n_train, leader.n_test < n_test) == (90, n_test == 1500)
    seen.clear()
    fitted.clear()
    how, runs = (
        {"root": tmp_path, "how": FeaturisingOptions(device="cpu"), "load": counted},
        get_runs_folder(tmp_path, leader.name),
    )
    complete_race(leader.name, data, seed=3, **how)
    n_warming = 4 if leader.n_test < n_test else 0
    assert sum(seen) == n_test - leader.n_test + n_warming
    features = featurise_data(leader.name, data, **how)
    request = Request(seed=3, device="cpu")
    found = evaluate(features["train"], features["val"], request, cache=runs)
    kept = keep_probe(found, request, cache=runs)
    assert sum(seen) == n_test - leader.n_test + n_warming and max(fitted) < 90 and kept.n_different == 0
    if leader.n_test == n_test:
        (full,) = (one for one in found.settings if one.setting.is_full)
        assert full.error.value == pytest.approx(leader.error.value)  # type: ignore[union-attr]


def _no_load(name: str) -> tuple[nn.Module, Any]:
    raise AssertionError(f"{name} was loaded")


def test_kept_features_are_used_unless_of_other_weights_or_another_preprocessing(
    data: ImageData, tmp_path: Path
) -> None:
    train, val = np.arange(90), np.arange(150)
    contender = ImageContender(GOOD, _ground(data, tmp_path, load))
    contender.features("train", train)
    assert (contender.n_missing("train", train), contender.n_missing("val", val)) == (0, 150)
    other = ImageContender(GOOD, _ground(data, tmp_path, lambda name: load(POOR)))
    other.features("train", train)
    with pytest.raises(DataError, match="of other weights"):
        other.features("val", val)
    ground = _ground(data, tmp_path / "whole", load)
    featurise_data(GOOD, data, root=ground.root, load=load)
    assert ImageContender(GOOD, ground).n_missing("val", val) == 0
    with pytest.raises(DataError, match="another preprocessing than that of its card"):
        ImageContender(GOOD, replace(ground, load=None)).features("train", train)


def test_features_that_were_read_stay_open(data: ImageData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def counted(folder: Path) -> Features:
        opened.append(folder)
        return load_features(folder)

    monkeypatch.setattr("zoo.choosing.candidates.load_features", counted)
    contender = ImageContender(GOOD, _ground(data, tmp_path, load))
    several = [contender.features("val", np.arange(150)) for _ in range(3)]
    assert np.array_equal(several[0], several[2]) and len(opened) == len(set(opened)) > 0


def test_a_choice_that_was_stopped_goes_on(data: ImageData, tmp_path: Path) -> None:
    class Stopping:
        n = 0

        def start(self, name: str, total: int | None, done: int) -> None: ...

        def advance(self, n: int) -> None:
            Stopping.n += n
            if Stopping.n > 300:
                raise KeyboardInterrupt

        def end(self) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        chosen(data, tmp_path, encoders=[GOOD, POOR], progress=lambda part: Stopping())
    found = chosen(data, tmp_path, encoders=[GOOD, POOR])
    assert 0 < sum(one.n_computed for one in found.costs) < sum(one.n_images for one in found.costs)
    assert found.winner == GOOD


def test_encoders_that_fail_are_named_and_the_others_go_on(data: ImageData, tmp_path: Path) -> None:
    def picky(name: str) -> tuple[nn.Module, Any]:
        def larger(image: Any) -> Tensor:
            raise DataError("The image has 4 pixels a side; expected 32 or more.")

        if name == FAIR:
            raise WeightsUnavailable("its host cannot be reached")
        return (load(name)[0], larger) if name == LATE else load(name, fits=0 if name == POOR else 1_000)

    found = chosen(data, tmp_path, encoders=[GOOD, FAIR, POOR, LATE], load=picky)
    assert (found.winner, found.race.standings[-1].verdict) == (GOOD, "failed")
    assert found.failed.keys() == {FAIR, POOR, LATE}
    assert found.failed[FAIR] == "its host cannot be reached"
    assert found.failed[LATE].startswith("The image has 4 pixels")
    assert "not even with one image at a time" in found.failed[POOR]


def _unreachable(name: str) -> tuple[nn.Module, Any]:
    raise WeightsUnavailable("there is no host example.org.")


def _torn(name: str) -> tuple[nn.Module, Any]:
    def preprocess(image: Any) -> Tensor:
        raise CorruptImage("7.png", "The image '7.png' is cut off.")

    return load(name)[0], preprocess


@for_each(
    [
        (
            DataError,
            r"None of the 3 encoders .* no host example\.org.*these can be tried here: ",
            {"load": _unreachable},
        ),
        (CorruptImage, "cut off", {"load": _torn}),
        (QueryError, f"'--max-dim 20' removes all 3.*the nearest: .*{GOOD}", {"constraints": Constraints(max_dim=20)}),
        (QueryError, "within 0 seconds", {"time_s": 0.0}),
        (QueryError, "'RTX 4090' was measured elsewhere", {"constraints": Constraints(device="rtx 4090")}),
    ],
    arguments=3,
)
def test_what_ends_a_choice_is_said(
    kind: type[Exception], match: str, options: dict[str, Any], data: ImageData, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=match):
        chosen(data, tmp_path, **options)


def test_a_batch_that_does_not_fit_is_halved_until_it_does(data: ImageData, tmp_path: Path) -> None:
    found = chosen(data, tmp_path, encoders=[GOOD, POOR], load=partial(load, fits=20))
    assert found.winner == GOOD
    notes = [note for note in found.notes if note.startswith(GOOD)]
    assert [note.split(",")[0] for note in notes] == [f"{GOOD}: batches of 32", f"{GOOD}: batches of 16"]


def _ground(data: ImageData, root: Path, how: Callable[[str], tuple[nn.Module, Any]], **options: Any) -> RaceContext:
    task = Task(y_train=data.train.labels, y_test=data.val.labels)
    return RaceContext(
        data=data,
        schedule=Plan(first_images=40).schedule(task),
        root=root,
        how=FeaturisingOptions(device="cpu"),
        load=how,
        **options,
    )


def test_features_are_those_of_the_images_whatever_their_chunks(data: ImageData, tmp_path: Path) -> None:
    contender = ImageContender(GOOD, _ground(data, tmp_path / "chunks", load))
    whole = featurise_data(GOOD, data, root=tmp_path / "whole", load=load)
    assert len(contender.ground.chunks["train"]) > 1
    for part, n in (("train", 90), ("val", 150)):
        rows = np.random.default_rng(0).permutation(n)[: n // 2]
        found = contender.features(part, rows)
        assert np.allclose(found, np.asarray(whole[part].x)[rows], rtol=1e-4, atol=1e-4)  # batches differ, so rounding
    assert contender.part("train").origin.images_hash == data.train.fingerprint
    assert contender.whole("train") is not None


def test_a_slower_encoder_than_asked_for_is_out_when_it_was_measured(data: ImageData, tmp_path: Path) -> None:
    contender = ImageContender(GOOD, _ground(data, tmp_path, load, least_images_per_second=1e12))
    with pytest.raises(QueryError, match=r"images per second on .*, 1e\+12 were asked for"):
        contender.features("train", np.arange(90))


def test_the_winner_s_error_is_decomposed_or_a_note_says_why_not(data: ImageData, tmp_path: Path) -> None:
    fewer = ImageData(name="insects", train=data.train, val=data.val.subset(np.arange(60), split="val"))
    found = chosen(fewer, tmp_path / "fewer", encoders=[GOOD, POOR], decompose=True)
    assert found.risk is not None
    assert (found.risk.encoder, found.risk.n_train, found.risk.n_test) == (GOOD, 90, 60)
    error = found.race.leader.error.value  # type: ignore[union-attr]
    assert found.risk.decomposition.full_shot_error == error
    assert found.as_dict()["risk"]["parts"]["full_shot_error"]["value"] == pytest.approx(error)
    found = chosen(data, tmp_path, encoders=[GOOD], decompose=True)
    assert found.risk is None
    assert found.notes[-1].startswith(f"The error of {GOOD} could not be decomposed: The test set has 150 images")


def test_a_plan_says_what_it_would_do_and_does_nothing(
    data: ImageData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.encoders.costs.estimate_images_per_second", lambda *args, **options: 50.0)
    root = tmp_path / "root"
    found = plan_choice(data, encoders=[GOOD, POOR], root=root, device="cpu", spelled="./insects")
    assert [(one.name, one.why) for one in found.encoders] == [(GOOD, "you named it"), (POOR, "you named it")]
    assert (found.fetch_bytes, found.encoders[0].here) == (0, "shipped")
    assert (found.sizes[0], found.sizes[-1]) == ((90, 128), (90, 150))
    assert (found.data.n_train, found.data.labels_a_class, found.data.image_px) == (90, (30, 30), 4)
    assert found.full_seconds == pytest.approx(2 * 240 / 50)
    assert {one.seconds_source for one in found.encoders} == {"expected"}
    assert not root.exists()
    json.dumps(found.as_dict())


@pytest.mark.slow
def test_a_plan_imports_no_library_that_only_a_race_needs(tmp_path: Path) -> None:
    for name, one in zip(CLASSES, range(3), strict=True):
        (tmp_path / "insects" / name).mkdir(parents=True)
        for number in range(9):
            pixels = np.full((PX, PX, 3), 10 * number + one, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "insects" / name / f"{number}.png")
    script = """
import sys
from zoo.choosing.choosing import plan_choice
from zoo.encoders import costs
costs.get_device_rates = lambda device=None: costs.DeviceRates(1e-3, 1e-10, 1e-5)
plan = plan_choice(sys.argv[1])
print(len(plan.encoders), *{"torch", "torchvision", "timm", "sklearn", "pandas", "scipy.stats"} & {*sys.modules})
"""
    command = [sys.executable, "-c", script, str(tmp_path / "insects")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["12", "torch"]


def test_groups_go_together_and_are_counted(tmp_path: Path) -> None:
    grouped = ImageData(
        name="insects",
        train=images(90, split="train", seed=1, groups=True),
        val=images(150, split="val", seed=2, groups=True),
    )
    found = chosen(grouped, tmp_path, encoders=[GOOD, POOR])
    assert found.data.n_groups == (15, 25)
    assert found.winner == GOOD
    assert all(rung.n_test % 6 == 0 for rung in found.race.rungs)


def test_a_short_time_still_gives_an_answer(data: ImageData, tmp_path: Path) -> None:
    found = chosen(data, tmp_path, time_s=0.01)
    assert found.race.leader.status == "probed"
    assert len(found.curves) == 1
