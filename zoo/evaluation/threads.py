"""One thread for small products: threads that synchronise at every step cost more than they bring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..optional import require_extra

with require_extra("evaluate", needed_for="Training probes"):
    import torch

SMALL = 50_000_000
"""Multiplications of one matrix product, some milliseconds of one core.

Below it a second thread has little to gain; and where the cores are busy, each of the thousands of steps waits for a
thread that is not running, which was seen to take fifty times as long.
"""


@contextmanager
def limit_threads(n_multiplications: float) -> Iterator[None]:
    """Lets torch use one thread in the block if its products are small; restores the number after it."""
    before = torch.get_num_threads()
    if n_multiplications >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
