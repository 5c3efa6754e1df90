"""Measuring an encoder: probes on its features, the decomposition of their errors, and their intervals.

Everything is imported, with the libraries that it needs, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .attentive import AttentiveProbe as AttentiveProbe
    from .classification import classification_metrics as classification_metrics
    from .classification import tag_metrics as tag_metrics
    from .evaluating import Evaluation as Evaluation
    from .evaluating import Request as Request
    from .evaluating import evaluate as evaluate
    from .logistic import LogisticProbe as LogisticProbe
    from .measuring import label_setting as label_setting
    from .measuring import measure as measure
    from .measuring import measure_seeds as measure_seeds
    from .neighbours import NeighbourProbe as NeighbourProbe
    from .risk import RiskReport as RiskReport
    from .risk import decompose as decompose
    from .saved_probes import SavedProbe as SavedProbe
    from .saved_probes import load_probe as load_probe
    from .saved_probes import save_probe as save_probe
    from .streamed import StreamedProbe as StreamedProbe
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "attentive": ["AttentiveProbe"],
            "classification": ["classification_metrics", "tag_metrics"],
            "evaluating": ["Evaluation", "Request", "evaluate"],
            "logistic": ["LogisticProbe"],
            "measuring": ["label_setting", "measure", "measure_seeds"],
            "neighbours": ["NeighbourProbe"],
            "risk": ["RiskReport", "decompose"],
            "saved_probes": ["SavedProbe", "load_probe", "save_probe"],
            "streamed": ["StreamedProbe"],
        },
    )
