"""A pytest plugin that keeps the processes of the tests small and garbage collections short; it limits nothing."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Generator
from types import ModuleType

import pytest

_C_LIBRARY = ctypes.CDLL(None)


class Memory:
    """Lets go of what collecting, and then each file of tests, has left."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        gc.disable()
        try:
            result = yield
        finally:
            gc.enable()
        gc.collect()
        gc.freeze()  # libraries and tests stay; to look through all their objects takes half a second each time
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        result = yield
        module = getattr(item, "module", None)
        if module is not None and getattr(nextitem, "module", None) is not module:
            _forget(module)
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        gc.unfreeze()  # libraries report what is left at the end as leaks


def _forget(module: ModuleType) -> None:
    """What the functions of a file of tests have cached, once its tests are over; the memory goes to the system."""
    for function in vars(module).values():
        if getattr(function, "__module__", None) == module.__name__ and hasattr(function, "cache_clear"):
            function.cache_clear()
    gc.collect()
    if hasattr(_C_LIBRARY, "malloc_trim"):  # else the C library keeps freed memory for the next
        _C_LIBRARY.malloc_trim(0)
    gc.freeze()  # what is left stays as well: cards, rows and libraries that were imported late
