"""Executors by name, parts of the work by number, and versions."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from tests.execution.pieces import squared
from zoo.errors import QueryError
from zoo.execution import Resources, open_executor
from zoo.execution.executor import (
    ABSENT,
    collect_versions,
    count_cores,
    describe_version_difference,
    parse_part,
    select_part,
    select_share,
)
from zoo.execution.processes import Processes


def test_all_parts_together_do_every_piece_once() -> None:
    for n in (1, 3, 64):
        done: list[Any] = []
        sizes = set()
        for k in range(1, n + 1):
            with closing(open_executor(None, resources=Resources(), part=(k, n))) as part:
                own = select_share(part, range(25))
                values = [one.value for one in part.map_unordered(squared, own, Resources())]
            done += values
            sizes.add(len(values))
        assert sorted(done) == [number**2 for number in range(25)]
        assert max(sizes) - min(sizes) <= 1
    workers = Processes(0)
    assert select_share(workers, "abcd") == "abcd" and select_share(select_part(workers, 2, 2), "abcd") == "bd"


def test_executors_have_names_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {None: 1, "local:3": 3, "local": count_cores()}
    assert {name: open_executor(name, resources=Resources()).n_workers for name in sizes} == sizes
    assert open_executor("local", resources=Resources(n_cpus=10_000)).n_workers == 1
    part = open_executor("local:2", resources=Resources(), part=(3, 4))
    assert (part.part, part.n_workers) == ((3, 4), 2)
    for name in ("", "local:", "local:0", "local:-1", "local:2.0", "local:9999", "rays", "ray:", "gpu"):
        with pytest.raises(QueryError, match=r"^Got --on .*, expected local"):
            open_executor(name, resources=Resources())
    for text in ("9/8", "0/4", "1/0", "1", "a/b", "1/2/3", "-1/2", "", "²/3"):
        with pytest.raises(QueryError, match="expected K/N"):
            parse_part(text)
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(QueryError, match=r"with 0\.5 GPUs each, expected at most 0 with the 0 GPUs"):
        open_executor("local", resources=Resources(n_gpus=0.5))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [open_executor("local", resources=Resources(n_gpus=each)).n_workers for each in (0.5, 1.0, 2.0)] == [4, 2, 1]


def test_versions_are_known_without_imports_and_a_difference_names_what_differs() -> None:
    script = (
        "import sys; from zoo.execution.executor import collect_versions; "
        "print(collect_versions()); print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = collect_versions()
    assert said.stdout.splitlines() == [str(here), "False"], "the same in another process"
    assert describe_version_difference(here, here) == ""
    assert describe_version_difference(here | {"torch": "1.0"}, here | {"timm": ABSENT}) == (
        f"torch {here['torch']} instead of 1.0, timm {ABSENT} instead of {here['timm']}"
    )
