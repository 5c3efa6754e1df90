"""How fast the eigenvalues of features fall: alpha-ReQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ..streamed_checks import Array
from .spectrum import CENTRED, Resolved, spectrum_of

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="models", needed_for="A label-free metric") from error

_LAST = 100
_LEAST_RANKS = 3
_NULL, _SHARE_THERE = 1e-5, 0.9  # singular values, of the largest, that are null; share of the range that must be there
_AIM = 1e-5
_NOISE = 16 * np.finfo(np.float64).eps  # of singular values that float64 finds in features without them


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """A power law fitted to eigenvalues: the one of rank i falls as ``i ** -value``.

    ``first`` and ``last`` are the ranks that were fitted, from 1; ``r_squared`` the share of the weighted variance of
    the logarithms that the line explains; ``uncertainty`` what rounding may have done to the exponent.
    """

    value: float
    r_squared: float
    first: int
    last: int
    uncertainty: float


def alpha_req(z: Any, *, first: int = 4, last: int | None = None, weighted: bool = True) -> PowerLaw:
    """alpha-ReQ: the exponent at which the eigenvalues of the covariance of the features fall with their rank.

    A straight line through the logarithms of eigenvalues and ranks, by least squares.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`.rank.rankme` takes it.
    first, last : int
        The first and the last rank that are fitted, counted from 1. The paper does not tell its range; its published
        code fits ranks 4 to 100, the default, up to min(n_images - 1, dim) if that is less, and without the last tenth
        at most where those eigenvalues are 0 (a layer norm makes one so). Stringer et al., whose method it is, fit 11
        to 500.
    weighted : bool
        With weights 1 / rank, as both do: each stretch of the logarithmic axis then counts the same.

    Returns
    -------
    PowerLaw
        ``value`` is the exponent; neither high nor low is better: 1 is held to be best, more means collapse.

    Raises
    ------
    DataError
        If there are fewer than 12 rows, all are equal, or one holds NaN; if an eigenvalue in the range is 0, or not
        to be told from the rounding of the features.
    QueryError
        If the range has fewer than 3 ranks, or more than there are.

    References
    ----------
    Agrawal et al. 2022, alpha-ReQ, section 3; Stringer et al. 2019, Nature 571, p. 361 (methods).

    Examples
    --------
    >>> rows = np.concatenate([np.diag(np.arange(1.0, 21) ** -0.5), -np.diag(np.arange(1.0, 21) ** -0.5)])
    >>> found = alpha_req(rows, last=20)
    >>> round(found.value, 6), round(found.r_squared, 6)
    (1.0, 1.0)
    """
    spectrum = spectrum_of(z).require(12, "alpha-ReQ")
    there = min(spectrum.n - 1, spectrum.dim)
    end = min(_LAST, there) if last is None else last
    if first < 1 or end - first + 1 < _LEAST_RANKS or end > there:
        raise QueryError(
            f"Ranks {first} to {end} were to be fitted, expected at least {_LEAST_RANKS} of the {there} that "
            f"{spectrum.n} rows of {spectrum.dim} features have: choose another first and last rank."
        )
    ranks = np.arange(first, end + 1)
    found = spectrum.resolve(CENTRED, lambda resolved: _blur(resolved, ranks).max() <= _AIM)
    chosen, blur = found.values[ranks - 1], _blur(found, ranks)
    lost = (blur >= 1) | (chosen <= max(spectrum.resolution, _NOISE) * found.largest)
    there = int(lost.argmax())
    if last is None and lost.any() and blur[there] < 1 and _is_null(chosen[there:], found, there / len(ranks)):
        ranks, chosen, blur, lost, end = ranks[:there], chosen[:there], blur[:there], lost[:there], first + there - 1
    _require_told_apart(lost, blur, first)
    x, y = np.log(ranks), 2 * np.log(chosen)
    weights = 1 / ranks if weighted else np.ones(len(ranks))
    weights = weights / weights.sum()
    x_mean, y_mean = weights @ x, weights @ y
    leverage = weights * (x - x_mean) / (weights @ (x - x_mean) ** 2)
    slope = leverage @ y
    spread = weights @ (y - y_mean) ** 2
    residual = weights @ (y - y_mean - slope * (x - x_mean)) ** 2
    return PowerLaw(
        value=float(-slope),
        r_squared=float(1 - residual / spread) if spread > 0 else 1.0,
        first=first,
        last=end,
        uncertainty=float(np.abs(leverage) @ blur),
    )


def _blur(found: Resolved, ranks: Array) -> Array:
    """How far each eigenvalue may be off by rounding, relative to it; 1 where nothing is known of it."""
    squares = found.values[ranks - 1] ** 2
    if not found.norm_error:
        return np.zeros(len(ranks))
    known = squares > 4 * found.norm_error
    relative = np.ones(len(ranks))
    spread = found.spread[ranks - 1][known]
    relative[known] = 4 * spread / squares[known] + (found.norm_error / squares[known]) ** 2 / 4
    return np.minimum(relative, 1)


def _is_null(values: Array, found: Resolved, share: float) -> bool:
    """Whether a few last directions are none: not what rounding of an offset buries, and no collapse."""
    return bool((values <= _NULL * found.values[0]).all()) and share >= _SHARE_THERE


def _require_told_apart(lost: Array, blur: Array, first: int) -> None:
    if lost.any():
        rank = first + int(lost.argmax())
        of = "sums" if blur[rank - first] >= 1 else "the features"
        raise DataError(
            f"Eigenvalue {rank} of the covariance is 0 or below the rounding of {of}, and a power law has none: fit "
            f"ranks below it (last={rank - 1}), or take the representation for collapsed to {rank - 1} dimensions."
        )
