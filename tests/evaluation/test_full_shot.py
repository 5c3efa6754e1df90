"""Which probe a data set of some size gets for its full-shot error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zoo.errors import QueryError
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.probes import SHARE_OF_MEMORY, full_shot_probe, path_bytes
from zoo.evaluation.streamed import StreamedProbe


def test_the_path_is_solved_where_it_fits_and_no_further() -> None:
    needed = path_bytes(5000, 64, 10)
    enough = int(needed / SHARE_OF_MEMORY) + 1
    within = full_shot_probe(5000, 64, 10, memory_bytes=enough, device="cpu")
    beyond = full_shot_probe(5000, 64, 10, memory_bytes=enough - 2, device="cpu")
    assert within.name == "logistic" and isinstance(within.probe, LogisticProbe)
    assert beyond.name == "streamed" and isinstance(beyond.probe, StreamedProbe)
    assert within.needed_bytes == beyond.needed_bytes == needed


def test_the_need_grows_with_every_size() -> None:
    assert path_bytes(100, 50, 5) < min(path_bytes(101, 50, 5), path_bytes(100, 51, 5), path_bytes(100, 50, 6))
    assert path_bytes(1_281_167, 2048, 1000) > 4 * 1_281_167 * (2048 + 1000)


def test_the_reason_names_sizes_and_memory() -> None:
    found = full_shot_probe(1_281_167, 2048, 1000, memory_bytes=16_000_000_000, device="cpu")
    assert found.reason.startswith("streamed: the path solver would need ")
    assert "1281167 x 2048 features, more than 50 % of 16.0 GB" in found.reason


def test_without_being_told_the_memory_is_that_of_the_machine() -> None:
    found = full_shot_probe(100, 8, 2, device="cpu")
    assert found.name == "logistic"
    assert found.memory_bytes > 100_000_000


def test_options_reach_the_probe_that_is_chosen() -> None:
    options: dict[str, Any] = {"memory_bytes": 1000, "streamed": {"epochs": 7, "seed": 3}, "device": "cpu"}
    probe = full_shot_probe(1000, 8, 2, **options).probe
    assert (probe.epochs, probe.seed, probe.device) == (7, 3, "cpu")


def test_either_probe_learns_what_there_is_to_learn() -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 240)
    x = (3 * np.eye(3)[y] @ generator.normal(size=(3, 6)) + generator.normal(size=(240, 6))).astype(np.float32)
    streamed: dict[str, Any] = {"n_trials": 4, "epochs": 20, "batch_size": (16,), "tuning_share": 0.5}
    for memory_bytes in (1000, 1 << 30):
        probe = full_shot_probe(160, 6, 3, memory_bytes=memory_bytes, device="cpu", streamed=streamed).probe
        probe.fit(x[:160], y[:160], x_val=x[160:], y_val=y[160:])
        error = 100 * (probe.predict(x[160:]) != y[160:]).mean()
        assert error <= 15
        assert probe.report_["validation_error_percent"] == pytest.approx(error)


@pytest.mark.parametrize(("sizes", "share"), [((0, 8, 2), 0.5), ((10, 0, 2), 0.5), ((10, 8, 2), 0.0)])
def test_sizes_that_cannot_be_are_refused(sizes: tuple[int, int, int], share: float) -> None:
    with pytest.raises(QueryError, match="expected sizes of at least 1"):
        full_shot_probe(*sizes, share=share)
