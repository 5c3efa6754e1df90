"""Bootstrap draws of what is computed from risks: calibrated risks, improvements, labels, and their intervals.

A draw in which a number is not identified is NaN, and counts as outside of its interval, which holds 95 % of all draws:
where 3 % are lost, each end leaves out 1 % of them instead of 2.5. If more than 5 % are lost there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import DataError
from ...optional import requires_extra
from ..intervals import Interval
from .calibration import calibrated_risk, calibrated_risk_draws
from .improvement import Improvement, cumulative_improvement, cumulative_improvements
from .savings import labels_of_scratch

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_LOST = 0.05  # share of the draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """A risk with its bootstrap draws.

    Attributes
    ----------
    value : float
        As measured; the mean over seeds, if there are several.
    draws : float array, shape (n_draws,)
        Draw i of one risk and draw i of another are of the same resample of test images and seeds. Empty, if nothing
        is known of the uncertainty: whatever is computed from it has no interval either. A risk that is to be taken as
        exact has the same number in all draws.
    """

    value: float
    draws: Floats = field(default_factory=lambda: np.empty(0))


def calibrated_draws(risks: Sequence[Drawn], *, blind: Drawn, maximal: Drawn) -> list[Drawn]:
    """Calibrated risks, one a risk.

    Raises
    ------
    DataError
        As :func:`~zoo.evaluation.curves.calibration.calibrated_risk`, of the values.
    """
    values = calibrated_risk([each.value for each in risks], blind=blind.value, maximal=maximal.value)
    draws = [
        calibrated_risk_draws(each.draws, blind=blind.draws, maximal=maximal.draws)
        if _all_drawn(each, blind, maximal)
        else np.empty(0)
        for each in risks
    ]
    return [Drawn(value=float(value), draws=own) for value, own in zip(values, draws, strict=True)]


def relative_draws(calibrated: Drawn, scratch: Drawn) -> Drawn | None:
    """Share of scratch's calibrated risk that the encoder takes away; None where nothing is there to be taken.

    >>> relative_draws(Drawn(value=0.25), Drawn(value=1.0)).value
    0.75
    """
    if scratch.value <= 0:
        return None
    draws = np.empty(0)
    if _all_drawn(calibrated, scratch):
        with np.errstate(over="ignore", invalid="ignore"):
            draws = 1 - calibrated.draws / np.where(scratch.draws > 0, scratch.draws, np.nan)
    return Drawn(value=(scratch.value - calibrated.value) / scratch.value, draws=draws)


def improvement_draws(
    calibrated: Sequence[Drawn], scratch: Sequence[Drawn]
) -> tuple[Improvement | None, Drawn | None, str]:
    """Cumulative improvement with its draws and an empty text; or None, None, and the sentence on why there is none."""
    try:
        found = cumulative_improvement([each.value for each in calibrated], [each.value for each in scratch])
    except DataError as error:
        return None, None, str(error)
    draws = np.empty(0)
    if _all_drawn(*calibrated, *scratch):
        draws = cumulative_improvements(
            *(np.stack([each.draws for each in some], axis=1) for some in (calibrated, scratch))
        )
    return found, Drawn(value=found.value, draws=draws), ""


def scratch_ends(n: Sequence[int], risk: Drawn, scratch: Sequence[Drawn]) -> tuple[float | None, float | None]:
    """95 % interval of the labels that scratch needs for a risk; None for an end beyond ``n``, or without draws."""
    if not _all_drawn(risk, *scratch):
        return None, None
    needed = labels_of_scratch(n, risk.draws, np.stack([each.draws for each in scratch], axis=1))
    known = np.sort(needed[~np.isnan(needed)])
    beyond = share_beyond(len(known), len(needed))
    if beyond is None:
        return None, None
    ends = (known[int(beyond * (len(known) - 1))], known[-1 - int(beyond * (len(known) - 1))])
    return tuple(float(end) if 0 < end < np.inf else None for end in ends)  # type: ignore[return-value]  # two


def interval_of(drawn: Drawn) -> Interval:
    """Its 95 % interval, which holds the value; the ends are None without draws, or if too many are lost."""
    value, known = float(drawn.value), drawn.draws[np.isfinite(drawn.draws)]
    beyond = share_beyond(len(known), len(drawn.draws))
    if beyond is None:
        return Interval(value=value, ci_low=None, ci_high=None)
    low, high = (float(end) for end in np.percentile(known, [100 * beyond, 100 * (1 - beyond)]))
    return Interval(value=value, ci_low=min(low, value), ci_high=max(high, value))


def n_lost(drawn: Drawn) -> int:
    """Draws in which it is not identified."""
    return int((~np.isfinite(drawn.draws)).sum())


def share_beyond(n_known: int, n_draws: int) -> float | None:
    """Share of the known draws beyond either end, so that 95 % of all are between; None where they are too few.

    >>> share_beyond(4000, 4000), share_beyond(3800, 4000), share_beyond(3799, 4000)
    (0.025, 0.0, None)
    """
    n_lost = n_draws - n_known
    if n_known == 0 or n_lost > MOST_LOST * n_draws:
        return None
    return (MOST_LOST * n_draws - n_lost) / 2 / n_known


def _all_drawn(*risks: Drawn) -> bool:
    return all(len(each.draws) for each in risks)
