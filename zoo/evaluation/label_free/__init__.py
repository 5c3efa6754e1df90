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

from ...optional import lazy
from ...results.vocabulary import LABEL_FREE_METRICS

if TYPE_CHECKING:
    from .catalogue import clid as clid
    from .catalogue import compute as compute
    from .catalogue import w_clid as w_clid
    from .clusters import cluster_learnability as cluster_learnability
    from .clusters import coding_rate_reduction as coding_rate_reduction
    from .dimension import idest as idest
    from .dimension import intrinsic_dimension as intrinsic_dimension
    from .dimension import local_dimension_entropy as local_dimension_entropy
    from .labelled import neural_collapse as neural_collapse
    from .labelled import one_shot_accuracy as one_shot_accuracy
    from .labelled import rotation_accuracy as rotation_accuracy
    from .labelled import source_label_entropy as source_label_entropy
    from .labelled import target_label_entropy as target_label_entropy
    from .mine import mutual_information as mutual_information
    from .rank import Monitor as Monitor
    from .rank import alpha_req as alpha_req
    from .rank import correlation_rank as correlation_rank
    from .rank import feature_rank as feature_rank
    from .rank import matrix_entropy as matrix_entropy
    from .rank import nesum as nesum
    from .rank import rankme as rankme
    from .rank import rankme_augmented as rankme_augmented
    from .rank import stable_rank as stable_rank
    from .scatter import alignment as alignment
    from .scatter import contrast as contrast
    from .scatter import lidar as lidar
    from .scatter import uniformity as uniformity
else:
    _modules = {"catalogue": ["clid", "compute", "w_clid"], "rank": ["Monitor"]}
    for _metric in LABEL_FREE_METRICS.values():
        _module, _, _function = _metric.function.partition(".")
        _modules.setdefault(_module, []).append(_function)
    __getattr__, __dir__, __all__ = lazy(__name__, _modules)
