"""Scores of labelled features that say how well a probe on them may do, without training a tuned one.

>>> from zoo.evaluation.transferability import h_score, ridge_predictions
>>> z, y = [[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1]
>>> h_score(z, y).value, ridge_predictions(z, y).value
(1.0, 100.0)

They are entries of the catalogue of metrics (:mod:`zoo.results.vocabulary`), in addition to those that need no labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import make_lazy_exports
from ...results.vocabulary import TRANSFERABILITY_SCORES

if TYPE_CHECKING:
    from .leave_one_out import *  # noqa: F403
    from .scores import *  # noqa: F403
else:
    _modules = {"leave_one_out": ["LeaveOneOut", "neighbour_predictions", "ridge_predictions"]}
    for _metric in TRANSFERABILITY_SCORES.values():
        _module, _, _function = _metric.function.partition(".")
        _modules.setdefault(_module, []).append(_function)
    __getattr__, __dir__, __all__ = make_lazy_exports(__name__, _modules)
