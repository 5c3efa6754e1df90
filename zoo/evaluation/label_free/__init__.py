"""How good a representation is, told without labels: RankMe, LiDAR, CLID and what they are compared with.

>>> import numpy as np
>>> from zoo.evaluation.label_free import compute
>>> round(compute("rankme", z=np.eye(4)).value, 4)
4.0

:mod:`zoo.results.vocabulary` is the table of contents, ``catalogue`` calls a metric by its name.

"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import lazy

if TYPE_CHECKING:
    from .catalogue import compute as compute
    from .monitor import Monitor as Monitor
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "catalogue": ["compute"],
            "monitor": ["Monitor"],
        },
    )
