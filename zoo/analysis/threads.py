"""How many threads linear algebra gets: one, for matrices as small as those of a study.

Threads of BLAS wait for each other by spinning. On problems of a few hundred rows that wait is nearly all they do:
comparing the scaling laws on two cores that others used too took 124 s of processor time with them, and 10 s without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..optional import requires_extra

with requires_extra("study", needed_for="A study"):
    from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of BLAS for everything in the block; a function may be decorated with it too."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
