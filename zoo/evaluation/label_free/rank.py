"""How many dimensions a representation uses: RankMe, the classical rank, the rank of the correlation matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ..streamed_checks import Array
from .arrays import views_of
from .eigenvalues import TOGETHER
from .spectrum import AS_THEY_ARE, STANDARDISED, Resolved, spectrum_of

try:
    import numpy as np
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="models", needed_for="A label-free metric") from error

CERTAIN = 1e-5
"""Relative error up to which a RankMe is given as a number without more words."""

_AIM = CERTAIN / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRank:
    """RankMe, and how far rounding may have moved it, relative to it (four standard deviations)."""

    value: float
    relative_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRank:
    """Number of values above a threshold, and of those so close to it that rounding may have moved them across."""

    value: float
    n_uncertain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationRank:
    """Rank of the correlation matrix.

    ``threshold`` is the eigenvalue that had to be passed, ``n_constant`` the features without a correlation, which add
    nothing to the rank.
    """

    value: float
    threshold: float
    n_constant: int
    n_uncertain: int


def rankme(z: Any, *, eps: float = 1e-7) -> float:
    """Effective rank of a feature matrix: exp of the entropy of its normalised singular values.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        One row an image, neither centred nor scaled; or a :func:`.spectrum.spectrum_of`, or sums
        (:class:`.gram.Gram`). The paper takes 25,600 images.
    eps : float
        Added to each normalised singular value.

    Returns
    -------
    float from 1 to min(n_images, dim) but for what eps adds, in dimensions; higher is better, 1 means full collapse.
    Within 1e-5 of what float64 gives, whatever the type and the spectrum of the features.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN; if sums were given that are not precise
        enough for this spectrum (:func:`effective_rank` says how far off they are).
    QueryError
        If eps is not from 0 to 1.

    References
    ----------
    Garrido et al. 2023, RankMe, arXiv:2210.02885, Eq. 1-2.

    Examples
    --------
    >>> round(rankme(np.eye(5)), 4)
    5.0
    """
    found = effective_rank(z, eps=eps)
    if found.relative_error > CERTAIN:
        raise DataError(
            f"Sums tell RankMe of these features ({found.value:.6g}) to {found.relative_error:.0e} only, for many of "
            "their singular values are below what rounding leaves of sums: pass the features, or take effective_rank."
        )
    return found.value


def effective_rank(z: Any, *, eps: float = 1e-7) -> EffectiveRank:
    """:func:`rankme` with an estimate of its error, also from sums that are not precise enough for the spectrum.

    Examples
    --------
    >>> effective_rank(np.eye(5)).relative_error
    0.0
    """
    _require_share(eps, "eps")
    spectrum = spectrum_of(z).require(2, "RankMe")
    found = spectrum.resolve(AS_THEY_ARE, lambda resolved: _relative_error(resolved, eps) <= _AIM)
    shares = found.values / found.values.sum() + eps
    return EffectiveRank(value=float(np.exp(_entropy(shares))), relative_error=_relative_error(found, eps))


def feature_rank(z: Any, *, eps: float = 1e-7) -> float:
    """Classical rank: number of singular values above the largest one times max(n_images, dim) times eps.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it.
    eps : float
        1e-7 in the paper, for float32 features.

    Returns
    -------
    float, a whole number from 1 to min(n_images, dim), in dimensions; higher is better.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN; if sums were given that cannot tell on which
        side of the threshold a value is (:func:`threshold_rank` says how many).
    QueryError
        If the threshold is above the largest value, which with eps = 1e-7 happens from ten million images on.

    References
    ----------
    Garrido et al. 2023, RankMe, arXiv:2210.02885, section 3.1 (after Press et al. 2007).

    Examples
    --------
    >>> feature_rank(np.diag([1.0, 1.0, 1e-3, 1e-9]))
    3.0
    """
    found = threshold_rank(z, eps=eps)
    if found.n_uncertain:
        raise DataError(
            f"{found.n_uncertain} singular values are too close to the threshold of the rank to be told from it by "
            "sums: pass the features, or take threshold_rank."
        )
    return found.value


def threshold_rank(z: Any, *, eps: float = 1e-7) -> ThresholdRank:
    """:func:`feature_rank`, and how many values are too close to the threshold, also from sums.

    Examples
    --------
    >>> threshold_rank(np.eye(3))
    ThresholdRank(value=3.0, n_uncertain=0)
    """
    _require_share(eps, "eps")
    spectrum = spectrum_of(z).require(2, "the rank")
    relative = max(spectrum.n, spectrum.dim) * eps
    if relative >= 1:
        raise QueryError(
            f"With {max(spectrum.n, spectrum.dim)} rows or features and eps = {eps:g} no singular value can pass the "
            "threshold of the rank: take a smaller eps, or fewer images."
        )
    found = spectrum.resolve(AS_THEY_ARE, lambda resolved: not _close(resolved, _threshold(resolved, relative)))
    level = _threshold(found, relative)
    return ThresholdRank(value=float((found.values**2 > level).sum()), n_uncertain=_close(found, level))


def correlation_rank(z: Any, *, atol: float = 1e-4, rtol: float = 0.01) -> CorrelationRank:
    """Effective dimensionality: rank of the correlation matrix of the features.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it.
    atol, rtol : float
        An eigenvalue counts above max(atol, rtol times the largest one), the rule of ``torch.linalg.matrix_rank``.

    Returns
    -------
    CorrelationRank
        ``value`` is a whole number from 1 to dim, in dimensions; higher is better. A feature that never changes has
        no correlation: it adds nothing and is counted in ``n_constant``.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN.
    QueryError
        If a tolerance is below 0 or not finite.

    References
    ----------
    Dubois et al. 2023, arXiv:2302.03068, Appendix F.6.

    Examples
    --------
    >>> correlation_rank([[0.0, 0.0, 7.0], [1.0, 2.0, 7.0], [2.0, 4.0, 7.0]]).value
    1.0
    """
    for name, tolerance in (("atol", atol), ("rtol", rtol)):
        if not 0 <= tolerance < np.inf:
            raise QueryError(f"{name} is {tolerance}, expected a number from 0 on.")
    spectrum = spectrum_of(z).require(2, "effective dimensionality")

    def level(resolved: Resolved) -> float:
        return float(max(atol, rtol * resolved.values[0] ** 2))

    found = spectrum.resolve(STANDARDISED, lambda resolved: not _close(resolved, level(resolved)))
    return CorrelationRank(
        value=float((found.values**2 > level(found)).sum()),
        threshold=level(found),
        n_constant=found.n_constant,
        n_uncertain=_close(found, level(found)),
    )


def rankme_augmented(z: Any, *, ids: Any = None, eps: float = 1e-7) -> float:
    """RankMe of augmented views: of all views of all images as rows of one feature matrix.

    Parameters
    ----------
    z : float array, shape (n_images, n_views, dim), or (n, dim) with ``ids``
        LiDAR's paper takes 10,000 images with 10 views each.
    ids : n numbers or names, optional
        Which image each row is a view of.
    eps : float
        Added to each normalised singular value.

    Returns
    -------
    float, as :func:`rankme`; higher is better.

    Raises
    ------
    DataError
        As :func:`rankme`, and if there are fewer than two images or an image has one view only.

    References
    ----------
    Thilak et al. 2023, LiDAR, arXiv:2312.04000, section 4.2.

    Examples
    --------
    >>> round(rankme_augmented(np.eye(4).reshape(2, 2, 4)), 4)
    4.0
    """
    return rankme(views_of(z, ids, needed_for="RankMe of views")[0], eps=eps)


def _entropy(shares: Array) -> float:
    present = shares[shares > 0]
    return -float((present * np.log(present)).sum())


def _relative_error(found: Resolved, eps: float) -> float:
    """What rounding may have done to RankMe, relative to it, which is what it may have done to the entropy.

    Of a value that stands clear of the error of the matrix, a change of its square is the entry of the error along its
    singular vector and that of finding the eigenvalue: random, so that many add up as their squares do, but for a part
    that may have one direction; and a part of second order. Of a value below, nothing is known but how far it can be
    from where it seems to be.
    """
    if not found.norm_error:
        return 0.0
    values, squares, total = found.values, found.values**2, found.values.sum()
    low, high = np.sqrt(np.maximum(squares - found.norm_error, 0)), np.sqrt(squares + found.norm_error)
    tiny = np.finfo(np.float64).tiny
    weights = -1 - np.log(np.maximum(values / total + eps, tiny))  # of a change of a share in the entropy
    steepest = -1 - np.log(np.maximum(low / total + eps, found.norm_error / total**2 if not eps else 0))
    average = float((weights * values).sum() / total)
    clear = squares > 4 * found.norm_error
    signed = (weights - average)[clear] / total
    slopes = np.abs(signed)
    each = found.spread[clear] / (2 * values[clear])
    first = 4 * np.sqrt(((slopes * each) ** 2).sum())
    first += TOGETHER * max((signed * each).clip(min=0).sum(), (-signed * each).clip(min=0).sum())
    second = (slopes * (found.matrix_error**2 + found.spread[clear] ** 2) / (8 * values[clear] ** 3)).sum()
    furthest = np.maximum(np.abs(weights - average), np.abs(steepest - average))[~clear] / total
    unknown = (furthest * np.maximum(high - values, values - low)[~clear]).sum()
    return float(first + second + unknown)


def _threshold(found: Resolved, relative: float) -> float:
    return float((found.values[0] * relative) ** 2)


def _close(found: Resolved, level: float) -> int:
    """How many squares are within the error of a level."""
    return int((np.abs(found.values**2 - level) <= found.norm_error).sum()) if found.norm_error else 0


def _require_share(eps: float, name: str) -> None:
    if not 0 <= eps < 1:
        raise QueryError(f"{name} is {eps}, expected a number from 0 to 1.")
