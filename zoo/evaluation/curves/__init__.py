"""Calibrated learning curves: what pre-training is worth on a task, compared with guessing, scratch and all labels.

From a table of risks:

>>> from zoo.evaluation.curves import calibrated_risk, cumulative_improvement
>>> scratch = calibrated_risk([46.0, 28.0, 16.0], blind=50.0, maximal=10.0)
>>> encoder = calibrated_risk([28.0, 19.0, 13.0], blind=50.0, maximal=10.0)
>>> round(cumulative_improvement(encoder, scratch).value, 3)
0.5

References
----------
Measuring the Effectiveness of Self-Supervised Learning using Calibrated Learning Curves, submitted to ICLR 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import make_lazy_exports

if TYPE_CHECKING:
    from ..bootstrap import Drawn as Drawn
    from .calibration import calibrated_risk as calibrated_risk
    from .calibration import cumulative_improvement as cumulative_improvement
    from .calibration import labels_saved as labels_saved
    from .calibration import majority_class as majority_class
    from .calibration import pixelwise_direction as pixelwise_direction
    from .calibration import pixelwise_median as pixelwise_median
    from .curve import CalibratedCurve as CalibratedCurve
    from .curve import calibrated_curve as calibrated_curve
    from .data import transfer_data as transfer_data
    from .models import Candidate as Candidate
    from .models import candidate as candidate
    from .models import own_candidate as own_candidate
    from .recipe import Recipe as Recipe
    from .report import CurveRequest as CurveRequest
    from .report import learning_curves as learning_curves
    from .training import Training as Training
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "calibration": [
                "calibrated_risk",
                "cumulative_improvement",
                "labels_saved",
                "majority_class",
                "pixelwise_direction",
                "pixelwise_median",
            ],
            "curve": ["CalibratedCurve", "Drawn", "calibrated_curve"],
            "data": ["transfer_data"],
            "models": ["Candidate", "candidate", "own_candidate"],
            "recipe": ["Recipe"],
            "report": ["CurveRequest", "learning_curves"],
            "training": ["Training"],
        },
    )
