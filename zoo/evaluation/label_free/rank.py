"""How many dimensions features use, from their singular values.

RankMe, the classical rank, the rank of the correlation matrix, alpha-ReQ, NESum, the stable rank, and matrix entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..arrays import Array
from .arrays import require_number, views_of
from .spectrum import AS_THEY_ARE, CENTRED, STANDARDISED, SingularValues, spectrum_of

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np

CERTAIN = 1e-5  # relative error up to which RankMe is returned without a remark

_LAST_RANK, _LEAST_RANKS = 100, 3  # that alpha-ReQ fits
_NULL = 1e-5  # singular values up to this share of the largest count as 0
_LEAST_SHARE_OF_RANKS = 0.9  # that alpha-ReQ still fits when it leaves out a null tail
_NOISE = 16 * np.finfo(np.float64).eps  # relative size of singular values that rounding makes of zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRank:
    """RankMe, and a bound of its relative error by rounding."""

    value: float
    relative_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRank:
    """Number of values above a threshold, and of those so close to it that rounding may have moved them across."""

    value: float
    n_uncertain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationRank:
    """Rank of the correlation matrix."""

    value: float
    threshold: float  # an eigenvalue counts above it
    n_constant: int  # features that never change: they have no correlation and add nothing
    n_uncertain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """A power law fitted to eigenvalues: the one of rank i falls as ``i ** -value``."""

    value: float
    r_squared: float  # share of the weighted variance of the logarithms that the line explains
    first: int  # rank, from 1, of the first and of the last eigenvalue that were fitted
    last: int
    uncertainty: float  # bound of the error of the exponent by rounding


def rankme(z: Any, *, eps: float = 1e-7) -> float:
    """Effective rank of a feature matrix: exp of the entropy of its normalised singular values.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        One row an image, neither centred nor scaled: an array, a tensor, an iterator of batches, sums
        (:class:`.spectrum.Gram`), or :func:`.spectrum.spectrum_of` any of these. The paper takes 25,600 images.
    eps : float
        Added to each normalised singular value.

    Returns
    -------
    float
        From 1 to min(n_images, dim), plus what eps adds, in dimensions; higher is better, 1 means full collapse.
        Within 1e-5 of the exact value for the features as they are stored, whatever their spectrum.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN; if sums were given that are not precise
        enough for this spectrum (:func:`effective_rank` bounds the error).
    QueryError
        If eps is below 0, or 1 or above.

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
            f"RankMe of these features ({found.value:.6g}) is known to {found.relative_error:.0e} only, for many of "
            "their singular values are below the rounding of sums: pass the features, or take effective_rank."
        )
    return found.value


def effective_rank(z: Any, *, eps: float = 1e-7) -> EffectiveRank:
    """:func:`rankme` with a bound of its error, also from sums that are not precise enough for the spectrum.

    >>> effective_rank(np.eye(5)).relative_error < 1e-9
    True
    """
    require_number(eps, "eps", least=0, below=1)
    spectrum = spectrum_of(z).require(2, "RankMe")
    found = spectrum.resolve(AS_THEY_ARE, lambda one: _effective_rank(one, eps).relative_error <= CERTAIN)
    return _effective_rank(found, eps)


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
    float
        A whole number from 1 to min(n_images, dim), in dimensions; higher is better.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN; if sums were given and a value is too close
        to the threshold for their precision (:func:`threshold_rank` counts such values).
    QueryError
        If eps is below 0, or 1 or above; if the threshold is above the largest value, as with eps = 1e-7 from ten
        million images on.

    References
    ----------
    Garrido et al. 2023, RankMe, arXiv:2210.02885, section 3.1 (after Press et al. 2007).

    Examples
    --------
    >>> feature_rank(np.diag([1.0, 1.0, 1e-3, 1e-9]))
    3.0
    """
    spectrum = spectrum_of(z)
    found = threshold_rank(spectrum, eps=eps)
    if found.n_uncertain and spectrum.is_of_sums:
        raise DataError(
            f"{found.n_uncertain} singular values are too close to the threshold of the rank for the precision of "
            "sums: pass the features, or take threshold_rank."
        )
    return found.value


def threshold_rank(z: Any, *, eps: float = 1e-7) -> ThresholdRank:
    """:func:`feature_rank`, and how many values are too close to the threshold, also from sums.

    >>> threshold_rank(np.eye(3))
    ThresholdRank(value=3.0, n_uncertain=0)
    """
    require_number(eps, "eps", least=0, below=1)
    spectrum = spectrum_of(z).require(2, "the rank")
    relative = max(spectrum.n, spectrum.dim) * eps
    if relative >= 1:
        raise QueryError(
            f"With {max(spectrum.n, spectrum.dim)} rows or features and eps = {eps:g} no singular value can pass the "
            "threshold of the rank: take a smaller eps, or fewer images."
        )

    def n_close(one: SingularValues) -> int:
        return int(((one.low <= relative * one.high[0]) & (one.high >= relative * one.low[0])).sum())

    found = spectrum.resolve(AS_THEY_ARE, lambda one: not n_close(one))
    return ThresholdRank(value=float((found.values > relative * found.values[0]).sum()), n_uncertain=n_close(found))


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
        If a tolerance is negative or not finite.

    References
    ----------
    Dubois et al. 2023, arXiv:2302.03068, Appendix F.6.

    Examples
    --------
    >>> correlation_rank([[0.0, 0.0, 7.0], [1.0, 2.0, 7.0], [2.0, 4.0, 7.0]]).value
    1.0
    """
    require_number(atol, "atol", least=0)
    require_number(rtol, "rtol", least=0)
    spectrum = spectrum_of(z).require(2, "effective dimensionality")

    def n_close(one: SingularValues) -> int:
        least, most = (max(atol, rtol * float(end[0]) ** 2) for end in (one.low, one.high))
        return int(((one.low**2 <= most) & (one.high**2 >= least)).sum())

    found = spectrum.resolve(STANDARDISED, lambda one: not n_close(one))
    threshold = max(atol, rtol * float(found.values[0]) ** 2)
    return CorrelationRank(
        value=float((found.values**2 > threshold).sum()),
        threshold=threshold,
        n_constant=found.n_constant,
        n_uncertain=n_close(found),
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
    float
        In dimensions, as :func:`rankme`; higher is better.

    Raises
    ------
    DataError, QueryError
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


def alpha_req(z: Any, *, first: int = 4, last: int | None = None, weighted: bool = True) -> PowerLaw:
    """alpha-ReQ: the exponent at which the eigenvalues of the covariance of the features fall with their rank.

    A straight line through the logarithms of eigenvalues and ranks, by least squares.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it.
    first, last : int
        First and last rank of the fit, counted from 1. The paper does not state its range. The default is that of its
        published code, ranks 4 to 100, or to min(n_images - 1, dim) if that is less; up to a tenth of the range is left
        out at its end where eigenvalues are 0 (a layer norm makes one 0). Stringer et al., whose method it is, fit 11
        to 500.
    weighted : bool
        With weights 1 / rank, as both do: each stretch of the logarithmic axis then counts the same.

    Returns
    -------
    PowerLaw
        ``value`` is the exponent, dimensionless; neither higher nor lower is better: 1 is held to be best, more means
        collapse.

    Raises
    ------
    DataError
        If there are fewer than 12 rows, all are equal, or one holds NaN; if an eigenvalue in the range is 0 or below
        the rounding of the features.
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
    n_ranks = min(spectrum.n - 1, spectrum.dim)
    end = min(_LAST_RANK, n_ranks) if last is None else last
    if first < 1 or end - first + 1 < _LEAST_RANKS or end > n_ranks:
        raise QueryError(
            f"Ranks {first} to {end} were to be fitted, expected at least {_LEAST_RANKS} of the {n_ranks} that "
            f"{spectrum.n} rows of {spectrum.dim} features have: choose another first and last rank."
        )
    ranks = np.arange(first, end + 1)
    found = spectrum.resolve(CENTRED, lambda one: _blur(one, ranks).max() <= CERTAIN)
    chosen, blur = found.values[ranks - 1], _blur(found, ranks)
    lost = np.isinf(blur) | (chosen <= max(spectrum.resolution, _NOISE) * found.largest)
    n_left = int(lost.argmax())
    null = (
        found.high[ranks[n_left:] - 1] <= _NULL * found.values[0]
    )  # zeros, not values that an offset's rounding hides
    if last is None and lost.any() and null.all() and n_left >= _LEAST_SHARE_OF_RANKS * len(ranks):
        end = first + n_left - 1
        ranks, chosen, blur, lost = ranks[:n_left], chosen[:n_left], blur[:n_left], lost[:n_left]
    if lost.any():
        rank = first + int(lost.argmax())
        of = "sums" if found.from_sums and np.isinf(blur[rank - first]) else "the features"
        raise DataError(
            f"Eigenvalue {rank} of the covariance is 0 or below the rounding of {of}, which no power law has: fit "
            f"ranks below it (last={rank - 1}), or treat the representation as collapsed to {rank - 1} dimensions."
        )
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


def nesum(z: Any) -> float:
    """NESum: sum of the eigenvalues of the covariance of the features over the largest one.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it.

    Returns
    -------
    float
        From 1 to min(n_images - 1, dim), in dimensions; higher is better, by the paper: eigenvalues that fall less lose
        less to collapse. Within 1e-5 of the exact value.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN.

    References
    ----------
    He and Ozay 2022, "Exploring the gap between collapsed and whitened features in self-supervised learning", NESum.

    Examples
    --------
    >>> round(nesum([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 4)
    2.0
    """
    return _over_the_largest(z, CENTRED, "NESum")


def stable_rank(z: Any) -> float:
    """Stable rank: sum of the squared singular values of the feature matrix over the largest one.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it; not centred, so that a large mean counts as one direction.

    Returns
    -------
    float
        From 1 to the rank of z, in dimensions; higher is better. Unlike the rank it hardly changes with small changes
        of the features. Within 1e-5 of the exact value.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN.

    References
    ----------
    Rudelson and Vershynin 2007, "Sampling from large matrices"; for embeddings, Tsitsulin et al. 2023,
    arXiv:2305.16562.

    Examples
    --------
    >>> round(stable_rank(np.diag([2.0, 1.0, 1.0])), 4)
    1.5
    """
    return _over_the_largest(z, AS_THEY_ARE, "the stable rank")


def matrix_entropy(z: Any, *, order: float = 1.0, centred: bool = False) -> float:
    """Matrix-based entropy: Renyi's entropy of the eigenvalues of the Gram matrix z z', divided by its trace.

    Of order 1 it is von Neumann's entropy -sum p log p; else log(sum p^order) / (1 - order). RankMe is the exp of the
    same entropy of the singular values themselves, which weighs small ones more.

    Parameters
    ----------
    z : float array, shape (n_images, dim)
        As :func:`rankme` takes it.
    order : float
        Above 0; the higher, the more the largest eigenvalues count.
    centred : bool
        Whether the mean of the features is taken off first.

    Returns
    -------
    float
        From 0 to log min(n_images, dim), in nats; higher means that more directions are used. Within 1e-5 of the exact
        value.

    Raises
    ------
    DataError
        If there are fewer than two rows, all are equal, or one holds NaN; if sums were given that are not precise
        enough for this order.
    QueryError
        If the order is not above 0.

    References
    ----------
    Giraldo et al. 2014, "Measures of entropy from data using infinitely divisible kernels"; Skean et al. 2025, "Layer
    by layer", arXiv:2502.02013, section 3.

    Examples
    --------
    >>> round(matrix_entropy(np.eye(4)), 6), round(float(np.log(4)), 6)
    (1.386294, 1.386294)
    """
    require_number(order, "order", above=0)
    spectrum = spectrum_of(z).require(2, "matrix entropy")
    found = spectrum.resolve(CENTRED if centred else AS_THEY_ARE, lambda one: _matrix_entropy(one, order)[1] <= CERTAIN)
    value, error = _matrix_entropy(found, order)
    if error > CERTAIN:
        raise DataError(
            f"Matrix entropy of order {order:g} ({value:.6g}) is known to {error:.0e} only, for many eigenvalues are "
            "below the rounding of sums: pass the features, or take a higher order."
        )
    return value


def _over_the_largest(z: Any, of: str, needed_for: str) -> float:
    """Sum of the squared singular values over the largest one."""

    def ends(one: SingularValues) -> tuple[float, float]:
        squares = one.low**2, one.high**2
        return float(squares[0].sum() / squares[1][0]), float(squares[1].sum() / max(squares[0][0], 1e-300))

    def is_enough(one: SingularValues) -> bool:
        low, high = ends(one)
        return high - low <= CERTAIN * low

    found = spectrum_of(z).require(2, needed_for).resolve(of, is_enough)
    squares = found.values**2
    if not is_enough(found):
        raise DataError(
            f"{needed_for[0].upper()}{needed_for[1:]} of these features is lost in the rounding of a mean that is much "
            "larger than their spread: pass the features and not sums, or take the mean off first."
        )
    return float(squares.sum() / squares[0])


def _matrix_entropy(found: SingularValues, order: float) -> tuple[float, float]:
    """The entropy, and how far at most it is off within the intervals of the singular values."""
    squares, lows, highs = found.values**2, found.low**2, found.high**2
    shares = squares / squares.sum()
    low = lows / np.maximum(lows + (highs.sum() - highs), 1e-300)
    high = highs / np.maximum(highs + (lows.sum() - lows), 1e-300)
    if order == 1:
        entropy = float(_terms(shares).sum())
        ends = np.stack([_terms(low), _terms(high)])
        highest = np.where((low < np.exp(-1)) & (high > np.exp(-1)), np.exp(-1), ends.max(axis=0))
        return entropy, max(float(highest.sum()) - entropy, entropy - float(ends.min(axis=0).sum()), 0.0)
    entropy, one_end, other_end = (_renyi(part, order) for part in (shares, low, high))
    return entropy, max(abs(one_end - entropy), abs(other_end - entropy))


def _renyi(shares: Array, order: float) -> float:
    largest = float(shares.max())  # apart, so that high orders do not underflow
    return (float(np.log(((shares / largest) ** order).sum())) + order * float(np.log(largest))) / (1 - order)


def _effective_rank(found: SingularValues, eps: float) -> EffectiveRank:
    """RankMe, and the most that it can differ from it within the intervals of the singular values."""
    entropy = _terms(found.values / found.values.sum() + eps).sum()
    others_high, others_low = found.high.sum() - found.high, found.low.sum() - found.low
    low = found.low / (found.low + others_high) + eps
    high = found.high / (found.high + others_low) + eps
    ends = np.stack([_terms(low), _terms(high)])
    highest = np.where((low < np.exp(-1)) & (high > np.exp(-1)), np.exp(-1), ends.max(axis=0))  # -x log x peaks at 1/e
    error = max(highest.sum() - entropy, entropy - ends.min(axis=0).sum(), 0.0)
    return EffectiveRank(value=float(np.exp(entropy)), relative_error=float(np.expm1(error)))


def _terms(shares: Array) -> Array:
    """-x log x, and 0 at 0."""
    logs: Array = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return -shares * logs


def _blur(found: SingularValues, ranks: Array) -> Array:
    """Half the width of the interval of the logarithm of each eigenvalue; infinite where the eigenvalue may be 0."""
    low, value, high = (end[ranks - 1] for end in (found.low, found.values, found.high))
    known = low > 0
    blur = np.full(len(ranks), np.inf)
    blur[known] = 2 * np.log(np.maximum(value[known] / low[known], high[known] / value[known]))
    return blur
