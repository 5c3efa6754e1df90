"""A fit that is interrupted goes on where it was, and ends as if it had not been."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evaluation.test_streamed import SMALL, drawn
from zoo.errors import StoreError
from zoo.evaluation.streamed import STANDARD, PassProgress, Space, StreamedProbe, proposed, rounds
from zoo.evaluation.streamed_training import Candidate

SPACE = Space(
    learning_rate_per_256=(1e-3, 1.0),
    weight_decay=(1e-8, 2e-4),
    batch_size=(512, 1024, 2048, 4096),
    batch_norm=(True, False),
    optimizer=("adam", "sgd", "lars"),
    schedule=("multistep", "cosine", "warmcosine"),
)


class Interrupted(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    x, y = drawn(150, 0)
    x_val, y_val = drawn(80, 1)
    return {"x": x, "y": y, "x_val": x_val, "y_val": y_val}


@pytest.fixture(scope="module")
def whole(data: Any) -> StreamedProbe:
    return StreamedProbe(**SMALL).fit(**data)


def in_folder(folder: Path, **options: Any) -> StreamedProbe:
    return StreamedProbe(**{**SMALL, "folder": folder, "checkpoint_every_s": 0, **options})


@pytest.mark.parametrize("after", [1, 3, 6, 8, 12, 20, 24])
def test_a_resumed_fit_equals_an_uninterrupted_one_bit_for_bit(
    after: int, data: Any, whole: StreamedProbe, tmp_path: Path
) -> None:
    told: list[PassProgress] = []

    def interrupt(progress: PassProgress) -> None:
        told.append(progress)
        if len(told) == after:
            raise Interrupted

    with pytest.raises(Interrupted):
        in_folder(tmp_path, progress=interrupt).fit(**data)
    more: list[PassProgress] = []
    resumed = in_folder(tmp_path, progress=more.append).fit(**data)
    assert np.array_equal(resumed.coef_, whole.coef_) and np.array_equal(resumed.intercept_, whole.intercept_)
    assert resumed.report_ == whole.report_
    assert len(more) == 24 - after


def test_a_finished_fit_is_read_rather_than_repeated(data: Any, whole: StreamedProbe, tmp_path: Path) -> None:
    in_folder(tmp_path).fit(**data)
    told: list[PassProgress] = []
    again = in_folder(tmp_path, progress=told.append).fit(**data)
    assert not told
    assert np.array_equal(again.coef_, whole.coef_)


def test_a_folder_of_another_fit_is_refused_with_what_differs(data: Any, tmp_path: Path) -> None:
    in_folder(tmp_path).fit(**data)
    with pytest.raises(StoreError, match=r"differs in epochs, seed"):
        in_folder(tmp_path, epochs=7, seed=5).fit(**data)
    with pytest.raises(StoreError, match=r"differs in x\)"):
        in_folder(tmp_path).fit(**{**data, "x": data["x"] + 1})
    with pytest.raises(StoreError, match=r"differs in x_val\)"):
        in_folder(tmp_path).fit(data["x"], data["y"])


def test_a_damaged_state_is_refused_by_name(data: Any, tmp_path: Path) -> None:
    in_folder(tmp_path).fit(**data)
    (tmp_path / "training.pt").write_bytes(b"nothing")
    with pytest.raises(StoreError, match=r"training\.pt is damaged"):
        in_folder(tmp_path).fit(**data)


def test_a_full_disk_is_one_sentence_and_what_was_kept_stays(data: Any, whole: StreamedProbe, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(progress: PassProgress) -> None:
        if progress.n_trials_done == 4 and progress.epoch == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))

    try:
        with pytest.raises(StoreError, match="state of the fit could not be written") as refused:
            in_folder(tmp_path, progress=fill).fit(**data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.glob("*.tmp"))
    assert np.array_equal(in_folder(tmp_path).fit(**data).coef_, whole.coef_)


def told(n: int) -> list[tuple[Candidate, float | None]]:
    """Trials whose error falls with the learning rate; some diverged."""
    candidates = proposed(SPACE, range(n), [], seed=5, n_startup=n, standard_first=False)
    return [
        (one, None if number % 9 == 8 else 50 - 10 * np.log10(one.learning_rate_per_256))
        for number, one in enumerate(candidates)
    ]


def test_the_first_trials_are_standard_settings_and_the_space_is_covered_at_random() -> None:
    found = proposed(SPACE, range(20), [], seed=0, n_startup=20, standard_first=True)
    assert tuple(found[:6]) == STANDARD
    assert all(one in SPACE for one in found)
    assert len(set(found)) == 20
    assert {one.optimizer for one in found[6:]} == {"adam", "sgd", "lars"}


def test_trials_at_random_do_not_depend_on_how_they_are_dealt_out_to_rounds() -> None:
    together = proposed(SPACE, range(20), [], seed=0, n_startup=20, standard_first=True)
    apart = [
        one
        for numbers in (range(7), range(7, 20))
        for one in proposed(SPACE, numbers, told(numbers.start), seed=0, n_startup=20, standard_first=True)
    ]
    assert together == apart


def test_later_trials_learn_from_earlier_ones_and_differ_among_themselves() -> None:
    found = proposed(SPACE, range(20, 30), told(20), seed=0, n_startup=20, standard_first=True)
    assert len(set(found)) == 10
    assert np.median([one.learning_rate_per_256 for one in found]) > 0.2  # of 0.001 to 1, the larger the better
    assert found == proposed(SPACE, range(20, 30), told(20), seed=0, n_startup=20, standard_first=True)


def test_standard_settings_outside_the_space_are_left_out() -> None:
    small = Space(
        learning_rate_per_256=(1e-3, 1.0),
        weight_decay=(1e-8, 2e-4),
        batch_size=(512,),
        batch_norm=(True,),
        optimizer=("sgd",),
        schedule=("multistep",),
    )
    found = proposed(small, range(3), [], seed=0, n_startup=3, standard_first=True)
    assert found[0] == STANDARD[2] and not set(found[1:]) & set(STANDARD)


def test_rounds_cover_every_trial_once_and_part_where_learning_begins() -> None:
    for n_trials, n_startup, at_once in ((30, 20, 10), (30, 20, 7), (5, 20, 2), (6, 0, 4)):
        found = rounds(n_trials, n_startup, at_once)
        assert [number for one in found for number in one] == list(range(n_trials))
        assert all(len(one) <= at_once for one in found)
        assert not any(one.start < n_startup < one.stop for one in found)
