"""Who is writing a partial download, and is that process still there: told without any lock.

File locks are not to be trusted on the network file systems that caches lie on, and a lock file outlives a killed
process. A process is named by its machine, its number and the moment at which it started, as no later process is.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal

FREE = "free"
_OWNER = re.compile(r"(?P<machine>[0-9a-z]+)-(?P<number>[0-9]+)-(?P<started>[0-9]+)")
State = Literal["free", "alive", "dead", "elsewhere"]


@dataclass(frozen=True, slots=True)
class _Process:
    started: str
    is_zombie: bool


def owner() -> str:
    """Name of this process: its machine, number and start, in characters that every file system takes."""
    own = _process("self")
    return f"{_machine()}-{os.getpid()}-{own.started if own else '0'}"


def state_of(name: str) -> State:
    """What has become of the process that :func:`owner` named so.

    "elsewhere" means that this machine cannot tell: the process runs on another one, in another container, ran before
    this machine was started, or there is no ``/proc``.
    """
    if name == FREE:
        return "free"
    match = _OWNER.fullmatch(name)
    if not match or match["machine"] != _machine() or _process("self") is None:
        return "elsewhere"
    process = _process(match["number"])
    if process is not None:
        return "alive" if process.started == match["started"] and not process.is_zombie else "dead"
    try:
        os.kill(int(match["number"]), 0)  # signal 0 asks and does nothing
    except ProcessLookupError:
        return "dead"
    except OSError:  # somebody else's process, which a strict /proc hides
        return "alive"
    return "alive"


@cache
def _machine() -> str:
    """The running kernel and the set of process numbers in it: containers of one machine share the first alone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"
    return blake2b(f"{boot}{numbers}".encode(), digest_size=8).hexdigest()


def _process(number: str) -> _Process | None:
    try:
        text = Path("/proc", number, "stat").read_text(errors="replace")
    except OSError:
        return None
    # proc(5): the second field, the command in brackets, may hold anything; the state is the third, the start the 22nd
    fields = text.rpartition(")")[2].split()
    return _Process(started=fields[19], is_zombie=fields[0] in "ZX")
