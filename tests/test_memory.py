"""Memory of computing stays with the process, and a batch that does not fit is told."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import torch

from zoo.errors import QueryError
from zoo.memory import memory_told

FAULTS = """
import resource, sys
import torch
from zoo.memory import keep_memory
kept = keep_memory() if sys.argv[1] == "keep" else None
torch.ones(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(1 << 24)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> tuple[str, int]:
    """Whether memory is kept, and page faults of a new process that makes a tensor of 64 MB ten times."""
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    kept, number = done.stdout.split()
    return kept, int(number)


def test_tensors_of_the_same_size_take_the_memory_of_the_last_one() -> None:
    (kept, few), (_, many) = faults("keep"), faults("as it is")
    if platform.libc_ver()[0] == "glibc":
        assert kept == "True" and few < many / 2
    else:
        assert kept == "False"


def test_a_batch_that_does_not_fit_is_told_with_its_size() -> None:
    told = "64 images at once do not fit into the memory of 'cpu'"
    with pytest.raises(QueryError, match=told), memory_told(64, torch.device("cpu")):
        raise MemoryError
    with pytest.raises(RuntimeError, match="another"), memory_told(64, torch.device("cpu")):
        raise RuntimeError("another")
