"""Work on several processes or machines: the only place that starts workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .executor import Executor as Executor
    from .executor import Resources as Resources
    from .executor import WorkResult as WorkResult
    from .opening_executors import open_executor as open_executor
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__, {"executor": ["Executor", "WorkResult", "Resources"], "opening_executors": ["open_executor"]}
    )
