"""What error to expect of an encoder by its number of ImageNet labels: two laws, computed once for all pages.

The label-budget study interpolates an encoder's own measurements and continues them (:mod:`zoo.analysis.label_budget`);
the scaling law (:mod:`zoo.analysis.scaling_law`) predicts them from the components of its full-shot error with two
parameters that all encoders share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..analysis.label_budget import (
    FEWEST_LABELS,
    MOST_LABELS,
    Curve,
    HeldOutError,
    held_out_error,
    noise_of,
    predict_error,
)
from ..cards.catalogue import catalogue
from ..results.derived import summaries
from ..results.values import SETTINGS, RiskDecomposition, Summary

TABLED = (1_000, 2_000, 3_000, 5_000, 10_000, 12_811, 30_000, 100_000, 300_000, 1_281_167)
"""Numbers of labels of the table beside the figure: those of the settings, and round ones between them."""
_N_DRAWN = 33  # points of a drawn curve
_NO_TRIAL = ("supervised", "initialized")


@dataclass(frozen=True, slots=True)
class Expected:
    """An error at a number of labels, measured or to be expected."""

    n_labels: int
    error: float  # percent, lower is better
    kind: str  # measured, interpolated, extrapolated
    low: float | None  # 90 % interval, where it is known how far such predictions miss
    high: float | None


@dataclass(frozen=True, slots=True)
class FittedLaw:
    """The scaling law with its two parameters."""

    alpha: float
    w: float
    n_encoders: int  # that it was fitted to


class LabelCurves:
    """Trials and fits that all pages share."""

    def __init__(self) -> None:
        self._trials: dict[tuple[int, tuple[int, ...]], HeldOutError | None] = {}

    def prepare(self) -> None:
        """Reads what the trials and the law are made from."""
        assert self._pool is not None and self.law is not None

    @cached_property
    def _pool(self) -> list[Curve]:
        """Curves of the encoders that the label-budget study ranks."""
        cards = catalogue()
        found = [
            curve_of(summary) for one, summary in summaries().items() if cards[one].objective.mode not in _NO_TRIAL
        ]
        return [curve for curve in found if len(curve) > 2 and min(curve.values()) > 0]

    @cached_property
    def law(self) -> FittedLaw:
        """Eq. 25, fitted to all published encoders that have the components it needs."""
        from ..analysis.scaling_law import fit_scaling_law, law_rows  # pandas and SciPy
        from ..analysis.table import study_table

        fitted = fit_scaling_law(law_rows(study_table(), complete_only=False), n_resamples=0)
        assert fitted.alpha.value is not None and fitted.W.value is not None
        return FittedLaw(fitted.alpha.value, fitted.W.value, fitted.n_encoders)

    def expected(self, curve: Curve, n_labels: Sequence[int]) -> list[Expected]:
        """What the label-budget study expects; numbers of labels about which it says nothing are left out."""
        if not curve or min(curve.values()) <= 0:
            return []
        found = []
        for n in n_labels:
            predicted = predict_error(curve, n)
            if predicted is None:
                continue
            noise = noise_of(curve, predicted, None if n in curve else self._trial(n, tuple(sorted(curve))))
            low, high = noise.interval(predicted.error) if noise else (None, None)
            found.append(Expected(n, predicted.error, predicted.kind, low, high))
        return found

    def _trial(self, n_labels: int, settings: tuple[int, ...]) -> HeldOutError | None:
        """How far such predictions missed, of encoders measured in these settings; once for all encoders with them."""
        key = n_labels, settings
        if key not in self._trials:
            some = [{n: curve[n] for n in settings} for curve in self._pool if curve.keys() >= set(settings)]
            self._trials[key] = held_out_error(some, n_labels)
        return self._trials[key]

    def by_law(self, parts: RiskDecomposition, n_labels: Sequence[int]) -> list[float]:
        """What the scaling law predicts from the components, in percent."""
        from ..analysis.scaling_law import law_errors

        cells = {
            "n": list(n_labels),
            "T": [parts.approximation_plus_usability] * len(n_labels),
            "probe_gen": [parts.probe_generalization] * len(n_labels),
            "enc_gen": [parts.encoder_generalization] * len(n_labels),
        }
        return [float(error) for error in law_errors(cells, alpha=self.law.alpha, w=self.law.w)]


def curve_of(summary: Summary) -> Curve:
    """The measured errors by number of labels."""
    return {setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors}


def drawn_at() -> list[int]:
    """Numbers of labels at which curves are drawn, evenly spaced by ratio, with those of the settings."""
    ratio = (MOST_LABELS / FEWEST_LABELS) ** (1 / (_N_DRAWN - 1))
    evenly = {round(FEWEST_LABELS * ratio**step) for step in range(_N_DRAWN - 1)} | {MOST_LABELS}
    return sorted(evenly | {setting.n_labels for setting in SETTINGS})
