"""A fit that is interrupted goes on where it was, and ends as if it had not been."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from tests.evaluation.test_streamed import SMALL, drawn
from zoo.errors import StoreError
from zoo.evaluation import streamed
from zoo.evaluation.streamed import STANDARD, PassProgress, SearchSpace, StreamedProbe, propose_candidates
from zoo.evaluation.streamed_training import Hyperparameters

SPACE = SearchSpace(
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


@for_each([1, 6, 8, 20, 24])
def test_a_resumed_fit_equals_an_uninterrupted_one_bit_for_bit(
    after: int, data: Any, whole: StreamedProbe, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told: list[PassProgress] = []
    folder = tmp_path_factory.mktemp("fit")

    def interrupt(progress: PassProgress) -> None:
        told.append(progress)
        if len(told) == after:
            raise Interrupted

    with pytest.raises(Interrupted):
        in_folder(folder, progress=interrupt).fit(**data)
    more: list[PassProgress] = []
    resumed = in_folder(folder, progress=more.append).fit(**data)
    assert np.array_equal(resumed.coef_, whole.coef_) and np.array_equal(resumed.intercept_, whole.intercept_)
    assert resumed.report_ == whole.report_
    assert len(more) == 24 - after


def test_a_finished_fit_is_read_rather_than_repeated(data: Any, whole: StreamedProbe, tmp_path: Path) -> None:
    in_folder(tmp_path).fit(**data)
    told: list[PassProgress] = []
    again = in_folder(tmp_path, progress=told.append).fit(**data)
    assert not told
    assert np.array_equal(again.coef_, whole.coef_)


def test_the_state_of_another_fit_and_a_damaged_one_are_refused(data: Any, tmp_path: Path) -> None:
    in_folder(tmp_path).fit(**data)
    for other, arrays in (
        ({"epochs": 7}, data),
        ({}, {**data, "x": data["x"] + 1}),
        ({}, {"x": data["x"], "y": data["y"]}),
    ):
        with pytest.raises(StoreError, match="another fit"):
            in_folder(tmp_path, **other).fit(**arrays)
    (tmp_path / "fit.pt").write_bytes(b"nothing")
    with pytest.raises(StoreError, match="cannot be read"):
        in_folder(tmp_path).fit(**data)


def test_a_full_disk_is_one_sentence_and_what_was_kept_stays(
    data: Any, whole: StreamedProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> Any:
        raise OSError(28, "No space left on device")

    def fill(progress: PassProgress) -> None:
        if progress.n_trials_done == 4 and progress.epoch == 3:
            monkeypatch.setattr(streamed, "replace_file", full)

    with pytest.raises(StoreError, match="could not be written"):
        in_folder(tmp_path, progress=fill).fit(**data)
    monkeypatch.undo()
    assert np.array_equal(in_folder(tmp_path).fit(**data).coef_, whole.coef_)


def told(n: int) -> list[tuple[Hyperparameters, float | None]]:
    """Trials whose error falls with the learning rate; some diverged."""
    candidates = propose_candidates(SPACE, range(n), [], seed=5, n_startup=n, standard_first=False)
    return [
        (one, None if number % 9 == 8 else 50 - 10 * np.log10(one.learning_rate_per_256))
        for number, one in enumerate(candidates)
    ]


def test_the_first_trials_are_standard_settings_and_the_space_is_covered_at_random() -> None:
    found = propose_candidates(SPACE, range(20), [], seed=0, n_startup=20, standard_first=True)
    assert tuple(found[:6]) == STANDARD
    assert all(one in SPACE for one in found)
    assert len(set(found)) == 20
    assert {one.optimizer for one in found[6:]} == {"adam", "sgd", "lars"}


def test_later_trials_learn_from_earlier_ones_and_differ_among_themselves() -> None:
    found = propose_candidates(SPACE, range(20, 30), told(20), seed=0, n_startup=20, standard_first=True)
    assert len(set(found)) == 10
    assert np.median([one.learning_rate_per_256 for one in found]) > 0.2  # of 0.001 to 1, the larger the better
    assert found == propose_candidates(SPACE, range(20, 30), told(20), seed=0, n_startup=20, standard_first=True)


def test_standard_settings_outside_the_space_are_left_out() -> None:
    small = replace(SPACE, batch_size=(512,), batch_norm=(True,), optimizer=("sgd",), schedule=("multistep",))
    found = propose_candidates(small, range(3), [], seed=0, n_startup=3, standard_first=True)
    assert found[0] == STANDARD[2] and not set(found[1:]) & set(STANDARD)
