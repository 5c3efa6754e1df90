"""A race over masks: who wins, what is compared, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cli_runner import document, run
from zoo.choosing.mask_race import MaskContender, MaskTask, choose_for_masks
from zoo.choosing.successive_halving import Plan
from zoo.datasets import open_dense
from zoo.errors import DataError, QueryError

SHAPES = "shapes:classes=4,train=96,val=64,size_px=32"
NAMES = ("pocket_init_vit", "pocket_mae_vit_shapes")


@pytest.fixture(scope="module")
def data() -> Any:
    return open_dense(SHAPES, task="segmentation")


def test_the_better_encoder_wins_and_differences_are_paired_by_image(data: Any) -> None:
    found = choose_for_masks(NAMES, data, plan=Plan(share=None, first_images=64))
    assert found.winner == "pocket_mae_vit_shapes"
    leader, other = found.race.standings
    assert leader.score == "probe" and (leader.n_train, leader.n_test) == (96, 64)
    assert leader.error is not None and other.error is not None and other.behind is not None
    assert leader.error.ci_low is not None and leader.error.ci_high is not None
    assert other.behind.value == pytest.approx(other.error.value - leader.error.value, abs=1 + leader.error.value)
    assert other.behind.ci_low is not None and other.behind.ci_low > 0
    assert [one["encoder"] for one in found.as_dict()["encoders"]] == ["pocket_mae_vit_shapes", "pocket_init_vit"]


def test_a_loss_is_the_share_of_the_pixels_of_an_image(data: Any) -> None:
    contender = MaskContender("pocket_mae_vit_shapes", data, px=None, how=None)
    task = MaskTask(
        y_train=np.zeros(96, np.int64),
        y_test=np.zeros(64, np.int64),
        classes=data.train.classes,
        data=data,
        contenders={contender.name: contender},
    )
    x = contender.features("train", np.arange(40))
    losses = task.fit(contender.name, np.arange(40), x)(contender.features("val", np.array([5, 2])), [5, 2])
    assert losses.shape == (2,) and ((losses > 0) & (losses < 1)).all()
    assert (contender.n_missing("train", np.arange(50)), contender.n_missing("val", np.arange(5))) == (10, 4)


def test_what_is_no_race_over_masks_is_refused(data: Any) -> None:
    with pytest.raises(QueryError, match="two or more"):
        choose_for_masks(NAMES[:1], data)
    with pytest.raises(QueryError, match="expected masks"):
        choose_for_masks(NAMES, open_dense(SHAPES, task="depth"))
    with pytest.raises(DataError, match="at least 8"):
        choose_for_masks(NAMES, open_dense("shapes:classes=4,train=4,val=4,size_px=32", task="segmentation"))


def test_zoo_choose_races_on_masks_and_says_what_it_takes() -> None:
    few, both = "shapes:classes=4,train=48,val=24,size_px=32", ("--encoders", ",".join(NAMES))
    found = document("choose", few, "--task", "segment", *both)
    assert {one["encoder"] for one in found["encoders"]} == {*NAMES} and found["winner"] in NAMES
    for more, said in ((("--encoders", "3"), "names of encoders"), ((*both, "--decompose"), "has no effect")):
        assert said in run("choose", few, "--task", "segment", *more, code=2).output
