"""Executors by name, and parts of the work by number."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tests.execution.pieces import squared
from zoo.errors import QueryError
from zoo.execution import WAIT, Resources, open_executor
from zoo.execution.executor import n_cores
from zoo.execution.opening import parse_part
from zoo.execution.part import PartOf
from zoo.execution.processes import Processes


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_all_parts_together_do_every_piece_once(n: int) -> None:
    done: list[Any] = []
    sizes = set()
    for k in range(1, n + 1):
        with closing(open_executor(None, resources=Resources(), part=(k, n))) as part:
            values = [one.value for one in part.map_unordered(squared, range(25), Resources())]
        done += values
        sizes.add(len(values))
    assert sorted(done) == [number**2 for number in range(25)]
    assert max(sizes) - min(sizes) <= 1


def test_waiting_passes_through_a_part_and_counts_for_nothing() -> None:
    share = PartOf(Processes(0), 2, 2).share(["a", WAIT, "b", "c", WAIT, "d"])
    assert [*share] == [WAIT, "b", WAIT, "d"]


def test_executors_have_names() -> None:
    assert open_executor(None, resources=Resources()).n_workers == 1
    assert open_executor("local:3", resources=Resources()).n_workers == 3
    assert open_executor("local", resources=Resources()).n_workers == n_cores()
    assert open_executor("local", resources=Resources(n_cpus=10_000)).n_workers == 1
    part = open_executor("local:2", resources=Resources(), part=(3, 4))
    assert isinstance(part, PartOf) and (part.k, part.n, part.n_workers) == (3, 4, 2)


@pytest.mark.parametrize(
    "name", ["", "local:", "local:0", "local:-1", "local:2.0", "local:9999", "rays", "ray:", "gpu"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(QueryError, match=r"^Got --on .*, expected local"):
        open_executor(name, resources=Resources())


def test_gpus_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(QueryError, match=r"with 0\.5 GPUs each, expected at most 0 with the 0 GPUs"):
        open_executor("local", resources=Resources(n_gpus=0.5))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    seen = [open_executor("local", resources=Resources(n_gpus=each)) for each in (0.5, 1.0, 2.0)]
    assert [getattr(one, "_gpus", None) for one in seen] == [("5", "6", "5", "6"), ("5", "6"), ("5,6",)]


@pytest.mark.parametrize("text", ["9/8", "0/4", "1/0", "1", "a/b", "1/2/3", "-1/2", "", "²/3"])
def test_parts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="expected K/N"):
        parse_part(text)
    assert parse_part("7/64") == (7, 64)


def test_a_part_outside_of_all_is_refused() -> None:
    with pytest.raises(QueryError, match="expected K/N with K from 1 to 8"):
        open_executor(None, resources=Resources(), part=(9, 8))
