"""Calibrated learning curves: what pre-training is worth on a task, beside guessing, scratch and all labels.

Of anybody's table of risks:

>>> from zoo.evaluation.curves import calibrated_risk, cumulative_improvement
>>> scratch = calibrated_risk([46.0, 28.0, 16.0], blind=50.0, maximal=10.0)
>>> encoder = calibrated_risk([28.0, 19.0, 13.0], blind=50.0, maximal=10.0)
>>> round(cumulative_improvement(encoder, scratch).value, 3)
0.5

==============================  ==================================================================================
``calibration``                 calibrated risk (Eq. 2 and 3)
``improvement``, ``savings``    calibrated cumulative improvement; labels that scratch needs for the same risk
``curve``                       all of it for one encoder, with intervals and what they do not say
``blind``                       constants with the lowest risk
``tasks``, ``recipe``           what is transferred to, how it is trained, and the name of that protocol
``data``, ``candidates``        images with classes or maps; encoders with their architecture at random weights
``decoders``, ``models``        linear head, U-Net; an encoder with one of them
``tuning``, ``fitting``         one run: learning rate, early stopping, resuming; ``inputs`` and ``losses`` of it
``blind_runs``                  the run that sees no image
``nested``, ``regimes``         which labels; how many are worth asking for
``measuring``                   ``learning_curves``: all runs of several encoders; ``jobs``, ``running``, ``kept``
``bootstrap``                   intervals over test images and seeds
``rows``                        measurements for the results
==============================  ==================================================================================

References
----------
Measuring the Effectiveness of Self-Supervised Learning using Calibrated Learning Curves, submitted to ICLR 2022.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calibration import calibrated_risk
    from .candidates import Candidate, candidate, own_candidate
    from .curve import CalibratedCurve, Drawn, calibrated_curve
    from .data import transfer_data
    from .improvement import cumulative_improvement
    from .measuring import CurveRequest, learning_curves
    from .recipe import Recipe
    from .savings import labels_saved
    from .tuning import Training

_HOMES = {
    "CalibratedCurve": "curve",
    "Candidate": "candidates",
    "CurveRequest": "measuring",
    "Drawn": "curve",
    "Recipe": "recipe",
    "Training": "tuning",
    "calibrated_curve": "curve",
    "calibrated_risk": "calibration",
    "candidate": "candidates",
    "cumulative_improvement": "improvement",
    "labels_saved": "savings",
    "learning_curves": "measuring",
    "own_candidate": "candidates",
    "transfer_data": "data",
}

__all__ = [
    "CalibratedCurve",
    "Candidate",
    "CurveRequest",
    "Drawn",
    "Recipe",
    "Training",
    "calibrated_curve",
    "calibrated_risk",
    "candidate",
    "cumulative_improvement",
    "labels_saved",
    "learning_curves",
    "own_candidate",
    "transfer_data",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:  # some of them import torch
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
