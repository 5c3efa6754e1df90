"""Ranks from sums alone, or the sentence that says why sums do not tell them."""

from __future__ import annotations

from ...errors import DataError
from .rank import CERTAIN, correlation_rank, effective_rank
from .spectrum import Spectrum

_WORTH_TELLING = 0.1  # relative error of RankMe above which there is no value


def certain_rankme(spectrum: Spectrum, *, eps: float, precision: str, notes: dict[str, str]) -> float:
    """RankMe from sums, if it is known to a tenth; ``notes`` is told how far where that is not far."""
    found = effective_rank(spectrum, eps=eps)
    certain = f"to {found.relative_error:.0e} only, for many singular values are below what rounding leaves of sums"
    if found.relative_error > _WORTH_TELLING:
        raise DataError(f"RankMe would be certain {certain} in {precision}.")
    if found.relative_error > CERTAIN:
        notes["rankme"] = f"The value is certain {certain} in {precision}."
    return found.value


def certain_correlation_rank(spectrum: Spectrum, *, precision: str) -> float:
    """The rank of correlations from sums, if they tell it."""
    found = correlation_rank(spectrum)
    if found.n_uncertain:
        raise DataError(
            f"{found.n_uncertain} eigenvalues of the correlation matrix are too close to the threshold to be told "
            f"from it by sums in {precision}."
        )
    return found.value
