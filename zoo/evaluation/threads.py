"""One thread for small work: threads that wait for each other at every step cost more than they bring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Training probes"):
    import torch

with requires_extra("study", needed_for="A study"):
    from threadpoolctl import threadpool_limits

SMALL = 50_000_000
"""Multiplications of one matrix product, some milliseconds of one core.

Below it a second thread has little to gain; and where the cores are busy, each of the thousands of steps waits for a
thread that is not running, which was seen to take fifty times as long.
"""


@contextmanager
def threads_for(n_multiplications: float) -> Iterator[None]:
    """Lets torch use one thread in the block if its products are small; as many as before after it."""
    before = torch.get_num_threads()
    if n_multiplications >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of BLAS for everything in the block; a function may be decorated with it too."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
