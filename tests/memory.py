"""A pytest plugin that keeps the processes of the tests small, and fails a run in which one was not.

A machine with eight cores runs eight of them. About 1.1 GB of each are libraries, most of it PyTorch with CUDA; the
half of that which is pages of their files is in memory once for all processes, and does not count.
"""

from __future__ import annotations

import ctypes
import gc
import re
import resource
import sys
from collections.abc import Generator
from dataclasses import astuple, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LIMIT_MB = 1792  # of which collecting the tests, with every library and 1,085 cards, takes 1,240
_GROWN_MB = 32
_C_LIBRARY = ctypes.CDLL(None)
_PAGES_A_MB = 2**20 // resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Growth:
    """What one step of a run has added to the memory of its process, in MB."""

    peak: float
    kept: float
    step: str


def _resident_mb() -> float:
    """Memory in use, 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) / _PAGES_A_MB
    except OSError:
        return 0.0


def _peak_mb() -> float:
    """The largest that the process has been, without the pages of files that it shares with others."""
    return _whole_peak_mb() - _of_files_mb()


def _of_files_mb() -> float:
    """Pages of files in memory, 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[2]) / _PAGES_A_MB
    except OSError:
        return 0.0


def _whole_peak_mb() -> float:
    try:  # of this program; Linux lets the peak of getrusage begin with the size of the process that started it
        (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except (OSError, ValueError):
        units = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return units / 2**20 if sys.platform == "darwin" else units / 2**10
    return int(peak) / 2**10


class Memory:
    """Watches one process of a run; the one that starts the others gathers what they say."""

    def __init__(self) -> None:
        self.steps: list[Growth] = []
        self.too_large: list[tuple[str, float, list[Growth]]] = []  # process, peak, its worst steps

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        gc.disable()
        try:
            result = yield from self._watched("collection")
        finally:
            gc.enable()
        gc.collect()
        gc.freeze()  # libraries and tests stay; to look through all their objects takes half a second each time
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        result = yield from self._watched(item.nodeid)
        module = getattr(item, "module", None)
        if module is not None and getattr(nextitem, "module", None) is not module:
            _forget(module)
        return result

    def _watched(self, step: str) -> Generator[None, object, object]:
        before, peak_before = _resident_mb(), _peak_mb()
        result = yield
        if _resident_mb() > before + _GROWN_MB:
            _give_back()
        self.steps.append(Growth(_peak_mb() - peak_before, _resident_mb() - before, step))
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        gc.unfreeze()
        peak, output = _peak_mb(), getattr(session.config, "workeroutput", None)
        if peak > LIMIT_MB:
            worst = sorted(self.steps, key=lambda step: max(step.peak, step.kept), reverse=True)[:10]
            if output is None:
                self.too_large.append(("this process", peak, worst))
            else:
                output["memory"] = (peak, [astuple(step) for step in worst])
        if self.too_large and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        peak, worst = getattr(node, "workeroutput", {}).get("memory", (0.0, []))
        if peak:
            self.too_large.append((node.gateway.id, peak, [Growth(*step) for step in worst]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for process, peak, worst in self.too_large:
            terminalreporter.section("memory", red=True)
            terminalreporter.line(f"{process} has grown to {peak:.0f} MB, and {LIMIT_MB} MB are allowed; the most by")
            for step in worst:
                terminalreporter.line(f"  {step.peak:6.0f} MB, of which {step.kept:6.0f} MB stayed: {step.step}")


def _forget(module: ModuleType) -> None:
    """What the functions of a file of tests have cached, once its tests are over."""
    for function in vars(module).values():
        if getattr(function, "__module__", None) == module.__name__ and hasattr(function, "cache_clear"):
            function.cache_clear()
    _give_back()
    gc.freeze()  # what is left stays as well: cards, rows and libraries that were imported late


def _give_back() -> None:
    """To the system, what was let go of: the C library keeps freed memory for the next, the more the larger it was."""
    gc.collect()
    if hasattr(_C_LIBRARY, "malloc_trim"):
        _C_LIBRARY.malloc_trim(0)
