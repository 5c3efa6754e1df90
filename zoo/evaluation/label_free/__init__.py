"""Metrics of features that need no labels: RankMe, LiDAR, CLID, and the metrics they are compared with.

>>> import numpy as np
>>> from zoo.evaluation.label_free import compute, rankme
>>> round(rankme(np.eye(4)), 4), round(compute("rankme", z=np.eye(4)).value, 4)
(4.0, 4.0)

:mod:`zoo.results.vocabulary` has an entry for each with its unit, direction, options and source, and the package
exports their functions; :class:`Monitor` follows several metrics during a training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import make_lazy_exports
from ...results.vocabulary import LABEL_FREE_METRICS

if TYPE_CHECKING:
    from .catalogue import clid as clid
    from .catalogue import compute as compute
    from .catalogue import w_clid as w_clid
    from .clusters import *  # noqa: F403
    from .dimension import *  # noqa: F403
    from .labelled import *  # noqa: F403
    from .mine import *  # noqa: F403
    from .rank import *  # noqa: F403
    from .rank import Monitor as Monitor
    from .scatter import *  # noqa: F403
else:
    _modules = {"catalogue": ["clid", "compute", "w_clid"], "rank": ["Monitor"]}
    for _metric in LABEL_FREE_METRICS.values():
        _module, _, _function = _metric.function.partition(".")
        _modules.setdefault(_module, []).append(_function)
    __getattr__, __dir__, __all__ = make_lazy_exports(__name__, _modules)
