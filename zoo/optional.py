"""Missing optional libraries, slow ones, and names that are imported on first use.

>>> with require_extra("models", needed_for="Reading images"):
...     import libraw  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
zoo.errors.MissingExtra: Reading images needs the library 'libraw', which is not installed; run: ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .errors import MissingExtra

_ZOO = __name__.partition(".")[0]


@contextmanager
def require_extra(extra: str, *, needed_for: str) -> Iterator[None]:
    """Raises MissingExtra if a library imported in the block is not installed.

    ``extra`` installs it (``"models"``); ``needed_for`` is the subject of "... needs the library 'torch'". Other errors
    pass: a library that is installed and broken, or a missing module of the zoo.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == _ZOO:
            raise
        raise MissingExtra(error.name, extra=extra, needed_for=needed_for) from error


class _SlowImports:
    """Tells which library is about to be imported that takes a second or more; finds none itself."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in ("torch", "timm", "transformers"):
            self._tell(f"loading {name}")


@contextmanager
def announce_slow_imports(tell: Callable[[str], None]) -> Iterator[None]:
    """Whatever imports a slow library in the block says so, for it would be silent before its first words."""
    finder = _SlowImports(tell)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def make_lazy_exports(
    module: str, names: Mapping[str, Iterable[str]], *, submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose public names are imported on first use.

    ``names`` has the public names by the module of the package that defines them; ``submodules`` are attributes too,
    and not in ``__all__``. Type checkers do not see the table; the package imports the same names for them::

        if TYPE_CHECKING:
            from .risk import decompose as decompose
        else:
            __getattr__, __dir__, __all__ = lazy(__name__, {"risk": ["decompose"]})
    """
    this = sys.modules[module]
    homes = {name: home for home, public in names.items() for name in public}
    submodules = frozenset(submodules)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in homes:
            return getattr(import_module(f".{homes[name]}", this.__package__), name)
        if name in submodules:
            return import_module(f".{name}", this.__package__)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*vars(this), *homes, *submodules})

    return __getattr__, __dir__, sorted(homes)
