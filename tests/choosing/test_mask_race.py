"""A race over masks: who wins, what is compared, what is kept, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli_runner import document, run
from zoo.choosing import Choice, Constraints, choose, plan_choice
from zoo.choosing.boards import SEGMENTATION
from zoo.choosing.candidates import RaceContext
from zoo.choosing.mask_race import MaskContender, build_mask_task
from zoo.choosing.shortlist import select_shortlist
from zoo.choosing.successive_halving import Plan, race
from zoo.datasets import open_dense
from zoo.errors import DataError, QueryError
from zoo.evaluation import segmentation_runs
from zoo.evaluation.segmentation_runs import measure_segmentation

SHAPES = "shapes:classes=4,train=400,val=64,size_px=32"
GOOD, POOR = "pocket_mae_vit_shapes", "pocket_rotnet_rn_digits"


@pytest.fixture(scope="module")
def data() -> Any:
    return open_dense(SHAPES, task="segmentation")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("maps")


@pytest.fixture(scope="module")
def found(data: Any, root: Path) -> Choice:
    return choose(data, encoders=[POOR, GOOD], root=root, device="cpu")


def test_the_better_encoder_wins_and_differences_are_paired_by_image(found: Choice) -> None:
    assert found.winner == GOOD
    leader, other = found.race.standings
    assert (
        found.plan.plan.score == "coarse probe"
        and leader.score == "probe"
        and (leader.n_train, leader.n_test) == (400, 64)
    )
    assert leader.error is not None and other.error is not None and other.behind is not None
    assert leader.error.ci_low is not None and leader.error.ci_high is not None
    assert other.behind.ci_low is not None and other.behind.ci_low > 0
    (table,) = found.build_tables()
    assert [one["encoder"] for one in table.records] == [GOOD, POOR]
    assert f"{GOOD} names the fewest pixels wrongly" in table.answer[0] and "masks of 6 classes" in table.title
    assert found.commands["evaluate"].startswith(f"zoo segment {GOOD} IMAGES --out ")


def _refuse(name: str, **options: Any) -> Any:
    raise AssertionError(f"{name} was loaded")


def test_what_a_race_computed_is_not_computed_again(
    found: Choice, data: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(one.n_computed == one.n_images for one in found.costs)
    again = choose(data, encoders=[POOR, GOOD], root=root, device="cpu", load=_refuse)
    assert all(one.n_computed == 0 for one in again.costs) and again.race.leader.error == found.race.leader.error
    counted = list[int]()
    whole = segmentation_runs.load_for_whole_images

    def load(name: str, *, px: int | None = None) -> Any:
        encoder, transform, preprocess = whole(name, px=px)
        encoder.register_forward_pre_hook(lambda module, given: counted.append(len(given[0])))
        return encoder, transform, preprocess

    monkeypatch.setattr(segmentation_runs, "load_for_whole_images", load)
    (variant,) = measure_segmentation([GOOD], data, root=root, n_draws=50)
    assert sum(counted) == 0 and variant.result.n_train == 400


def test_a_race_that_was_stopped_goes_on_where_it_was(data: Any, tmp_path: Path) -> None:
    def load(name: str) -> Any:
        if name == POOR:
            raise KeyboardInterrupt
        return MaskContender._load(name)

    options: Any = {"encoders": [GOOD, POOR], "root": tmp_path, "device": "cpu"}
    with pytest.raises(KeyboardInterrupt):
        choose(data, load=load, **options)
    planned = plan_choice(data, **options)
    assert planned.seconds is not None and planned.protocol == "zoo-segment-2"
    done = choose(data, **options)
    n_first = sum(done.plan.sizes[0])
    assert {one.name: one.n_images - one.n_computed for one in done.costs} == {GOOD: n_first, POOR: 0}


def test_a_loss_is_the_share_of_the_pixels_of_an_image_and_maps_are_read_from_the_disk(
    data: Any, tmp_path: Path
) -> None:
    task = build_mask_task(data)
    plan = Plan(score=task.judge, share=None, first_images=190)
    schedule = plan.schedule(task)
    contender = MaskContender(GOOD, RaceContext(data=data, schedule=schedule, root=tmp_path))
    task.contenders[GOOD] = contender
    train, test = schedule.train[: schedule.sizes[0][0]], np.array([5, 2])
    assert contender.n_missing("train", train) == len(train)
    losses = task.fit(GOOD, train, contender.features("train", train))(contender.features("val", test), test)
    assert losses.shape == (2,) and ((losses > 0) & (losses < 1)).all()
    assert contender.n_missing("train", train) == 0 and contender.n_missing("train", schedule.train) > 0
    maps = contender.read("train", train[:3])
    rungs = race([contender], task, plan, probe=task.fit).rungs
    assert [rungs[0].score, rungs[-1].score] == ["coarse probe", "probe"]
    assert maps.shape == (3, contender.grid.width) and maps[np.array([2, 0])][1].tolist() == maps[:1][0].tolist()


def test_a_shortlist_of_masks_begins_with_the_best_of_the_board() -> None:
    how: Any = {"n_labels": 400, "n_classes": 6, "board": SEGMENTATION}
    found = select_shortlist(4, **how)
    assert [entry.name for entry in found.chosen[:2]] == ["dinov2_vitB14", "dinov2_vitS14"] and len(found.chosen) == 4
    assert "mean IoU" in found.chosen[0].why and "rests on reported-decoder" in found.notes[0]
    small = select_shortlist(4, Constraints(max_parameters=60_000), **how)
    assert "for 0 encoders" in small.notes[0] and len(small.chosen) == 4


def test_what_is_no_race_over_masks_is_refused(data: Any) -> None:
    with pytest.raises(QueryError, match="expected masks"):
        choose(open_dense(SHAPES, task="depth"), encoders=[GOOD])
    with pytest.raises(DataError, match="at least 8"):
        choose(open_dense("shapes:classes=4,train=4,val=4,size_px=32", task="segmentation"), encoders=[GOOD])
    with pytest.raises(QueryError, match="no decomposition"):
        choose(data, encoders=[GOOD], decompose=True)


def test_zoo_choose_races_on_masks_with_a_plan_and_a_page(tmp_path: Path) -> None:
    few = ("choose", "shapes:classes=4,train=48,val=24,size_px=32", "--task", "segment", "--encoders", f"{GOOD},{POOR}")
    assert document(*few, "--dry-run")["dry_run"] is True
    found = document(*few, "--page", str(tmp_path / "page.html"))
    assert found["winner"] in (GOOD, POOR) and found["data"]["has_masks"] is True
    page = (tmp_path / "page.html").read_text()
    assert "pixels wrong %" in page and "zoo segment" in page and "coarse probe before all labels" in page
    assert "next, mIoU and each class: zoo segment" in run(*few).output
    assert "--decompose has no effect" in run(*few, "--decompose", code=2).output
