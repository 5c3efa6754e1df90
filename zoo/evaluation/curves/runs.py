"""What one trained network, or one control, got wrong on the test images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...optional import requires_extra

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

Control = Literal["encoder", "scratch", "maximal", "blind"]
CONTROLS: tuple[Control, ...] = ("blind", "maximal", "scratch")
N_EXAMPLES = 8  # first test images, whose predictions are kept to look at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveRun:
    """One run; what names it is in its job.

    Attributes
    ----------
    control : str
        "encoder", or which control.
    n_requested, n_actual : int
        Labelled images that were asked for and that were used, validation part included.
    seed : int or None
        Of subset, validation part, order of the images and random weights; None of the blind guess.
    risks : mapping from a metric to float32 array, shape (n_test,)
        Of each test image, in the unit of the metric; lower is better. An error in percent is 0 or 100.
    examples : float16 array, shape (n_examples, n_outputs, px, px), or None
        Predictions for the first test images, of dense tasks.
    report : mapping
        What JSON holds: learning rate that was chosen, steps, validation history, hash of the subset, seconds.
    """

    control: Control
    n_requested: int
    n_actual: int
    seed: int | None
    risks: Mapping[str, np.ndarray]
    examples: np.ndarray | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    def risk(self, metric: str) -> float:
        """Mean over the test images, in the unit of the metric."""
        return float(np.mean(self.risks[metric], dtype=np.float64))
