"""Work on several processes or machines: the only place that starts workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import lazy

if TYPE_CHECKING:
    from .executor import WAIT as WAIT
    from .executor import Executor as Executor
    from .executor import Outcome as Outcome
    from .executor import Resources as Resources
    from .opening import open_executor as open_executor
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__, {"executor": ["WAIT", "Executor", "Outcome", "Resources"], "opening": ["open_executor"]}
    )
