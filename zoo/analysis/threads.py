"""One thread of linear algebra: on a few hundred rows the threads of BLAS mostly wait for each other, by spinning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..optional import requires_extra

with requires_extra("study", needed_for="A study"):
    from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of BLAS for everything in the block; it also decorates functions."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield
