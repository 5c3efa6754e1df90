"""Which kind of probe a data set of some size gets for its full-shot error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zoo.evaluation.evaluating import SHARE_OF_MEMORY, full_shot_kind, path_bytes
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.streamed import StreamedProbe


def test_the_path_is_solved_where_it_fits_and_no_further() -> None:
    enough = int(path_bytes(5000, 64, 10) / SHARE_OF_MEMORY) + 1
    assert full_shot_kind(5000, 64, 10, memory_bytes=enough)[0] == "logistic"
    assert full_shot_kind(5000, 64, 10, memory_bytes=enough - 2)[0] == "streamed"


def test_the_need_grows_with_every_size() -> None:
    assert path_bytes(100, 50, 5) < min(path_bytes(101, 50, 5), path_bytes(100, 51, 5), path_bytes(100, 50, 6))
    assert path_bytes(1_281_167, 2048, 1000) > 4 * 1_281_167 * (2048 + 1000)


def test_the_reason_names_sizes_and_memory() -> None:
    _, reason = full_shot_kind(1_281_167, 2048, 1000, memory_bytes=16_000_000_000)
    assert reason.startswith("streamed: the path solver would need ")
    assert "1281167 x 2048 features, more than 50 % of 16.0 GB" in reason


def test_the_memory_is_that_of_the_machine_by_default() -> None:
    assert full_shot_kind(100, 8, 2, device="cpu")[0] == "logistic"


@pytest.mark.parametrize(
    "probe",
    [
        LogisticProbe(device="cpu"),
        StreamedProbe(n_trials=4, epochs=20, batch_size=(16,), tuning_share=0.5, device="cpu"),
    ],
    ids=["logistic", "streamed"],
)
def test_either_probe_learns_what_there_is_to_learn(probe: Any) -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 240)
    x = (3 * np.eye(3)[y] @ generator.normal(size=(3, 6)) + generator.normal(size=(240, 6))).astype(np.float32)
    probe.fit(x[:160], y[:160], x_val=x[160:], y_val=y[160:])
    error = 100 * (probe.predict(x[160:]) != y[160:]).mean()
    assert error <= 15
    assert probe.report_["validation_error_percent"] == pytest.approx(error)
