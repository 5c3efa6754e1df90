"""Turns in writing: one process at a time, as far as the file system has locks.

The lock is one of the operating system on an open file, so that it ends with its process, however that ends; the file
itself stays. A file system that knows no locks grants every turn at once, and so does one that only pretends to.
"""

from __future__ import annotations

import errno
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ResultsError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PATIENCE_S = 120.0
_LOOK_S = 0.004
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


@contextmanager
def turn(path: Path, *, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Waits for the turn of this process, or thread; it ends with the block.

    Parameters
    ----------
    path : Path
        The file that is locked; it is made, with its folder, and stays.
    patience_s : float
        How long to wait.

    Raises
    ------
    ResultsError
        If another process keeps its turn for that long.
    OSError
        If the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        deadline = time.monotonic() + patience_s
        while not _take(descriptor):
            if time.monotonic() > deadline:
                raise ResultsError(
                    f"Another process has kept {path} locked for {patience_s:.0f} seconds, expected a moment; end that "
                    "process if it hangs, and try again."
                )
            time.sleep(random.uniform(_LOOK_S / 2, 2 * _LOOK_S))
        try:
            yield
        finally:
            _give_back(descriptor)  # by itself: a child that was forked meanwhile has the same open file
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """False if another has it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _give_back(descriptor: int) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in (*_TAKEN, *_NO_LOCKS):  # Windows has EACCES for a lock that was never there
            raise
