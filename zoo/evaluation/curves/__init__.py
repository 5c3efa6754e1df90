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
``blind``, ``directions``       constants with the lowest risk; that of angles
``curve``                       all of it for one encoder, with intervals (``draws``) and sentences (``curve_notes``)
``tasks``, ``recipe``           what is transferred to, how it is trained, and the name of that protocol
``data``, ``candidates``        images with classes or maps; encoders with their architecture at random weights
``decoders``, ``models``        linear head, U-Net; an encoder with one of them
``tuning``                      one run: ``choosing`` its learning rate, ``fitting``, and its ``training_state``;
                                ``inputs`` (read by ``reading``) and ``losses``; ``blind_runs`` see no image
``nested``, ``regimes``         which labels; how many are worth asking for, by ``searching``
``measuring``                   ``learning_curves``: all runs of several encoders; ``jobs`` that ``running`` gets done,
                                each by ``performing`` it, ``kept`` as they finish, with ``progress``
``assembling``, ``bootstrap``   from runs to curves; intervals over test images and seeds
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
    from .blind import majority_class, mean_target, pixelwise_direction, pixelwise_median
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
    "majority_class": "blind",
    "mean_target": "blind",
    "pixelwise_direction": "blind",
    "pixelwise_median": "blind",
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
    "majority_class",
    "mean_target",
    "own_candidate",
    "pixelwise_direction",
    "pixelwise_median",
    "transfer_data",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:  # some of them import torch
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
