"""Work on several processes or machines: the only place that starts workers.

An :class:`Executor` does pieces of work in any order and gives their outcomes as they come. There are three: processes
of this machine, a Ray cluster, and a part of the work by its number, for job arrays and anything else that can count.
"""

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
        __name__,
        {
            "executor": ["WAIT", "Executor", "Outcome", "Resources"],
            "opening": ["open_executor"],
        },
    )
