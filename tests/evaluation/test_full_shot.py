"""Which kind of probe a data set of some size gets for its full-shot error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from zoo.evaluation.evaluating import SHARE_OF_MEMORY, full_shot_kind, path_bytes
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.streamed import StreamedProbe


def test_the_path_is_solved_where_it_fits_and_no_further() -> None:
    enough = int(path_bytes(5000, 64, 10) / SHARE_OF_MEMORY) + 1
    assert full_shot_kind(5000, 64, 10, memory_bytes=enough)[0] == "logistic"
    assert full_shot_kind(5000, 64, 10, memory_bytes=enough - 2)[0] == "streamed"


@for_each(
    [
        LogisticProbe(device="cpu"),
        StreamedProbe(n_trials=4, epochs=20, batch_size=(16,), tuning_share=0.5, device="cpu"),
    ]
)
def test_either_probe_learns_what_there_is_to_learn(probe: Any) -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 240)
    x = (3 * np.eye(3)[y] @ generator.normal(size=(3, 6)) + generator.normal(size=(240, 6))).astype(np.float32)
    probe.fit(x[:160], y[:160], x_val=x[160:], y_val=y[160:])
    error = 100 * (probe.predict(x[160:]) != y[160:]).mean()
    assert error <= 15
    assert probe.report_["validation_error_percent"] == pytest.approx(error)
