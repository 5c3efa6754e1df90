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

from typing import TYPE_CHECKING

from ...optional import lazy

if TYPE_CHECKING:
    from .blind import majority_class as majority_class
    from .blind import mean_target as mean_target
    from .blind import pixelwise_direction as pixelwise_direction
    from .blind import pixelwise_median as pixelwise_median
    from .calibration import calibrated_risk as calibrated_risk
    from .candidates import Candidate as Candidate
    from .candidates import candidate as candidate
    from .candidates import own_candidate as own_candidate
    from .curve import CalibratedCurve as CalibratedCurve
    from .curve import Drawn as Drawn
    from .curve import calibrated_curve as calibrated_curve
    from .data import transfer_data as transfer_data
    from .improvement import cumulative_improvement as cumulative_improvement
    from .measuring import CurveRequest as CurveRequest
    from .measuring import learning_curves as learning_curves
    from .recipe import Recipe as Recipe
    from .savings import labels_saved as labels_saved
    from .tuning import Training as Training
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "blind": ["majority_class", "mean_target", "pixelwise_direction", "pixelwise_median"],
            "calibration": ["calibrated_risk"],
            "candidates": ["Candidate", "candidate", "own_candidate"],
            "curve": ["CalibratedCurve", "Drawn", "calibrated_curve"],
            "data": ["transfer_data"],
            "improvement": ["cumulative_improvement"],
            "measuring": ["CurveRequest", "learning_curves"],
            "recipe": ["Recipe"],
            "savings": ["labels_saved"],
            "tuning": ["Training"],
        },
    )
