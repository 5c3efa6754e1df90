"""Intrinsic dimension of features by TwoNN and by spanning trees, and their entropy from that around each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import require_extra
from ..arrays import Array
from ..nearest_neighbours import PointSet, build_points, find_first_equals, find_nearest_points
from ..retrieval import N_NEAR, find_near_pairs
from .arrays import check_feature_rows, require_choice, require_number, require_varied

with require_extra("evaluate", needed_for="The intrinsic dimension"):
    import numpy as np
    import torch
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

DISTANCES = ("euclidean", "cosine", "squared_cosine")
FITS = {"linear": 0.1, "maximum_likelihood": 0.0}  # forms of the fit, and the share of the largest ratios each discards
EQUAL = 1e-12  # logarithms of ratios below it are the rounding of equal distances
LEAST_ROWS = 12  # distinct ones
_LEAST_OF_TREES, _LEAST_OF_A_TREE = 50, 10  # distinct rows altogether, and of the smallest tree
_NOTABLE = 0.005  # share of the rows that are duplicates from which notes say so


@dataclass(frozen=True, slots=True, kw_only=True)
class IntrinsicDimension:
    """An estimate by TwoNN, and what it rests on."""

    value: float  # dimensions; higher means more expressive
    fit: str
    distance: str
    n: int
    n_duplicates: int  # rows that equal an earlier one; they are left out
    n_used: int  # distinct rows, whose ratios are ranked
    n_discarded: int  # largest ratios that the fit leaves out, or treats as censored
    n_near_duplicates: int  # distinct rows that are nearer to another than chance explains
    value_without_near_duplicates: float | None  # of one row of each pair, if they are more than 0.5 % of the rows
    notes: tuple[str, ...] = ()


def intrinsic_dimension(
    z: Any, *, fit: str = "linear", discard: float | None = None, distance: str = "euclidean"
) -> IntrinsicDimension:
    """The dimension of the manifold that features lie on, by TwoNN.

    The ratio mu of the distances of a row to its second and to its first neighbour is Pareto distributed with the
    dimension as its exponent. "linear" fits a line through the origin to the points (log mu, -log(1 - F)), F = i / n
    for the i-th smallest of n ratios, without the largest share of ``discard``, and never with the very largest.
    "maximum_likelihood" is (n - 1) / sum(log mu); ratios that it discards count as censored at the largest that is
    left.

    Rows that equal an earlier one, whose ratio would be infinite, are left out and counted. Near duplicates, pairs that
    are nearer than chance explains (:mod:`zoo.evaluation.retrieval`), lower the value and stay, for the method has no
    rule for them; where they are more than 0.5 % of the rows, ``notes`` say so, with the value without them.

    Raises DataError if there are too few distinct rows, all second neighbours are as far as the first, or a number is
    not finite; QueryError if an option is out of its range.

    Source: Facco et al. 2017, "Estimating the intrinsic dimension of datasets by a minimal neighborhood information";
    Lu et al. 2023, CLID, arXiv:2206.01251, section 2.2. Both forms are those of TwoNN in scikit-dimension 0.5.

    >>> found = intrinsic_dimension(np.random.default_rng(0).random((2000, 3)))
    >>> round(found.value), found.n_duplicates, found.n_discarded
    (3, 0, 200)

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
        At least 12 distinct rows.
    fit : str
        "linear" or "maximum_likelihood".
    discard : float, optional
        Share of the largest ratios, from 0 to below 1; by default 0.1 for the line, as its authors advise, else 0.
    distance : str
        "euclidean"; "cosine": that of rows scaled to length 1, sqrt(2 - 2 cos); or "squared_cosine": 2 - 2 cos, as
        CLID prints in its note 3, which gives exactly half the dimension.

    Returns
    -------
    IntrinsicDimension
        ``value`` in dimensions; higher is more expressive.
    """
    require_choice(fit, "fit", tuple(FITS))
    require_choice(distance, "distance", DISTANCES)
    discard = FITS[fit] if discard is None else discard
    require_number(discard, "discard", least=0, below=1)
    rows = check_feature_rows(z, least=LEAST_ROWS, needed_for="the intrinsic dimension by TwoNN")
    require_varied(rows, "z", needed_for="the intrinsic dimension")
    metric = "euclidean" if distance == "euclidean" else "cosine"

    def fitted(apart: Array) -> tuple[float, int]:
        n = len(apart)
        n_kept = min(int(n * (1 - discard)), n - (fit == "linear"))
        logs = np.sort(np.log(apart[:, 1] / apart[:, 0]))[:n_kept] * (2 if distance == "squared_cosine" else 1)
        if n_kept < 2 or logs[-1] < EQUAL:
            raise DataError(
                "The two nearest neighbours of the rows of z are equally far, or too few ratios of their distances are "
                "left to fit, so TwoNN sees no dimension: give it more images, or discard fewer."
            )
        if fit == "linear":
            heights = -np.log1p(-np.arange(1, n_kept + 1) / n)
            return float(logs @ heights) / float(logs @ logs), n - n_kept
        return (n_kept - 1) / float(logs.sum() + (n - n_kept) * logs[-1]), n - n_kept

    needs: dict[str, Any] = {"metric": metric, "least": LEAST_ROWS, "needed_for": "TwoNN"}
    apart, n_duplicates, n_near, without = _estimates(rows, 2, lambda other: fitted(other)[0], **needs)
    value, n_discarded = fitted(apart)
    return IntrinsicDimension(
        value=value,
        fit=fit,
        distance=distance,
        n=len(rows),
        n_duplicates=n_duplicates,
        n_used=len(apart),
        n_discarded=n_discarded,
        n_near_duplicates=n_near,
        value_without_near_duplicates=without,
        notes=_notes(n_duplicates, n_near, len(rows), without),
    )


def is_notable(n_duplicates: int, n: int) -> bool:
    """Whether so many duplicates among ``n`` rows call for a note."""
    return n_duplicates > _NOTABLE * n


def _estimates(
    rows: Array, k: int, estimate: Callable[[Array], float], *, metric: str, least: int, needed_for: str
) -> tuple[Array, int, int, float | None]:
    """Distances (n_used, k) of distinct rows to their nearest ones, and how many rows equal an earlier one.

    And the number of near duplicates, and, if it is notable, the estimate from one row of each pair of them, which is
    None if too few rows are left.
    """
    points = build_points(rows, metric)
    everything = np.arange(len(points))
    distances, neighbours, distinct = _distinct_neighbours(points, everything, k, least, needed_for)
    pairs, *_ = find_near_pairs(distances[:, :N_NEAR], neighbours[:, :N_NEAR], distinct)
    n_near, without = len(np.unique(pairs)), None
    if is_notable(n_near, len(distinct)):
        with suppress(DataError):
            kept = np.setdiff1d(distinct, pairs[:, 1])
            without = estimate(_distinct_neighbours(points, kept, k, least, needed_for)[0][:, :k])
    return distances[:, :k], len(rows) - len(distinct), n_near, without


def _notes(n_duplicates: int, n_near: int, n: int, without: float | None) -> tuple[str, ...]:
    """Notes for a metric that leaves equal rows out, and treats near duplicates as neighbours."""
    notes = []
    if is_notable(n_duplicates, n):
        notes.append(f"{n_duplicates:,} of {n:,} rows equal an earlier one and are left out.")
    if is_notable(n_near, n - n_duplicates):
        value = "" if without is None else f"; with one row of each pair of them it is {without:.4g}"
        notes.append(
            f"{n_near:,} of {n - n_duplicates:,} rows are near duplicates, nearer to another row than chance explains, "
            f"which lowers the value{value}: remove near duplicates from the images."
        )
    return tuple(notes)


def _distinct_neighbours(
    points: PointSet, distinct: Array, k: int, least: int, needed_for: str
) -> tuple[Array, Array, Array]:
    """Distances and rows of the nearest ones of distinct rows, at least k, and these; at distance 0 the first stays."""
    while len(distinct) >= max(least, k + 1):
        wanted = max(k, min(N_NEAR, len(distinct) - 1))
        distances, neighbours = find_nearest_points(points, wanted, queries=distinct, among=distinct)
        copies = (distances[:, 0] == 0) & (neighbours[:, 0] < distinct)  # of equal neighbours the first is named
        if not copies.any():
            return distances, neighbours, distinct
        distinct = distinct[~copies]
    raise DataError(
        f"z has {len(distinct)} distinct row{'s' * (len(distinct) != 1)} among {len(points)}, but {needed_for} needs "
        f"at least {max(least, k + 1)}: give it more images, and each of them once."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDimension:
    """An estimate by the growth of spanning trees, and what it rests on."""

    value: float  # dimensions
    slope: float  # of the logarithm of the length over that of the number of rows
    r_squared: float  # share of the variance of the logarithms that the line explains
    sizes: tuple[int, ...]  # numbers of rows of the trees
    n: int
    n_duplicates: int  # rows that equal an earlier one; they are left out
    n_used: int  # distinct rows that trees are drawn from
    notes: tuple[str, ...] = ()


def idest(
    z: Any,
    *,
    power: float = 1.0,
    distance: str = "euclidean",
    most: int = 4096,
    smallest: float = 0.1,
    n_sizes: int = 8,
    n_draws: int = 3,
    seed: int = 0,
) -> TreeDimension:
    """IdEst: the dimension of features by how the length of their minimum spanning tree grows with their number.

    The sum of the edges of the tree of n rows, each to a power a, grows as n^((d - a) / d) for rows of a density on a
    manifold of dimension d > a. Trees of random subsets of the rows are measured at ``n_sizes`` numbers, from
    ``smallest`` of the rows to all, evenly on a logarithmic axis, and ``n_draws`` subsets of each number but the last.
    A straight line through the logarithms of mean length and number, by least squares, has the slope m; the dimension
    is a / (1 - m). The numbers, draws and limits are ours.

    In many dimensions the estimate is far too low for any number of images that one has; it still orders features by
    how they fill a volume. Rows that equal an earlier one are left out.

    Raises DataError if there are too few distinct rows, a number is not finite, or the trees grow in proportion to the
    rows, so that no dimension fits; QueryError if an option is out of its range.

    Source: Mordacq, Kalogeiton and Oudot 2026, IdEst, arXiv:2606.03338; growth of the tree: Steele 1988; as an
    estimator of dimension: Costa and Hero 2004, Schweinhart 2021.

    >>> found = idest(np.random.default_rng(0).random((2000, 2)))
    >>> abs(found.value - 2) < 0.2
    True

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
        At least 50 distinct rows.
    power : float
        Of the length of edges, above 0.
    distance : {"euclidean", "cosine"}
        "cosine" is that of rows scaled to length 1.
    most : int
        Rows that are drawn if there are more; time and memory grow with its square (134 MB for 4,096).
    smallest : float
        Share of the rows in the smallest tree, above 0 and below 1; at least 10 rows.
    n_sizes, n_draws : int
    seed : int
        Of the draws.

    Returns
    -------
    TreeDimension
        ``value`` in dimensions; lower is better: the paper finds the accuracy of linear probes to fall with it, unlike
        CLID, which takes :func:`intrinsic_dimension` to be better if higher.
    """
    require_number(power, "power", above=0)
    require_choice(distance, "distance", DISTANCES[:2])
    require_number(most, "most", least=_LEAST_OF_TREES, whole=True)
    require_number(smallest, "smallest", above=0, below=1)
    require_number(n_sizes, "n_sizes", least=2, whole=True)
    require_number(n_draws, "n_draws", least=1, whole=True)
    needed_for = "the dimension by spanning trees"
    rows = check_feature_rows(z, least=_LEAST_OF_TREES, needed_for=needed_for)
    require_varied(rows, "z", needed_for=needed_for)
    points = build_points(rows, distance)
    distinct = np.unique(find_first_equals(points, np.arange(len(points))))
    if len(distinct) < _LEAST_OF_TREES:
        raise DataError(
            f"z has {len(distinct)} distinct rows among {len(rows)}, but {needed_for} needs at least "
            f"{_LEAST_OF_TREES}: give it more images, and each of them once."
        )
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = distinct if len(distinct) <= most else np.sort(generator.permutation(distinct)[:most])
    apart = _all_distances(points, drawn)
    first = max(_LEAST_OF_A_TREE, smallest * len(drawn))
    sizes = np.unique(np.geomspace(first, len(drawn), n_sizes).round().astype(np.int64))
    lengths = []
    for size in sizes.tolist():
        draws = [generator.permutation(len(drawn))[:size] for _ in range(n_draws if size < len(drawn) else 1)]
        lengths.append(float(np.mean([_tree_length(apart[np.ix_(some, some)], power) for some in draws])))
    x, y = np.log(sizes), np.log(lengths)
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y / (x @ x))
    if not slope < 1:
        raise DataError(
            f"Spanning trees of the rows of z grow as their number to the power {slope:.3f}, which no dimension has: "
            "give it more images."
        )
    n_duplicates = len(rows) - len(distinct)
    return TreeDimension(
        value=power / (1 - slope),
        slope=slope,
        r_squared=float((slope * x) @ y / (y @ y)) if (y @ y) > 0 else 1.0,
        sizes=tuple(sizes.tolist()),
        n=len(rows),
        n_duplicates=n_duplicates,
        n_used=len(distinct),
        notes=_notes(n_duplicates, 0, len(rows), None),
    )


def _all_distances(points: PointSet, rows: Array) -> Array:
    """Distances of all pairs of rows, float64 (n, n)."""
    exact = points.exact(rows) - points.centre
    squares = np.einsum("nd,nd->n", exact, exact)
    found: Array = np.sqrt(np.maximum(squares + squares[:, None] - 2 * exact @ exact.T, 0.0))
    np.fill_diagonal(found, 0.0)
    return found


def _tree_length(apart: Array, power: float) -> float:
    """Sum of the edges of the minimum spanning tree to a power; single linkage joins at their lengths."""
    edges = linkage(squareform(apart, checks=False), "single")[:, 2]
    return float((edges**power).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDimensionEntropy:
    """An estimate of the entropy, and what it rests on."""

    value: float  # nats; higher is more expressive
    k: int
    normalised: bool
    mean_dimension: float  # mean of the local dimensions
    n: int
    n_duplicates: int  # rows that equal an earlier one; they are left out
    n_used: int  # distinct rows
    n_near_duplicates: int  # distinct rows that are nearer to another than chance explains
    value_without_near_duplicates: float | None  # of one row of each pair, if they are more than 0.5 % of the rows
    notes: tuple[str, ...] = ()


def local_dimension_entropy(z: Any, *, k: int = 10, normalised: bool = False) -> LocalDimensionEntropy:
    """Differential entropy of features from the local dimension and the distance of the k-th neighbour.

    Around each row, with its neighbours at the distances T_1 <= ... <= T_k, the dimension is
    D = (k - 1) / sum over j < k of log(T_k / T_j), and the log density log(k - 1) - D log T_k - log V(D), where V(D) is
    the volume of the unit ball; the entropy is the mean of its negative. That is what CLID prints: the density is a
    number of rows per volume, so that the value falls by log n for n rows of the same distribution.
    ``normalised=True`` adds log(n - 1), which makes it an estimate of the entropy of the distribution.

    The value depends on the unit of the features: scaled by c it grows by the mean dimension times log c. Rows that
    equal an earlier one are left out and counted. Near duplicates lower it, and ``notes`` say so where they are more
    than 0.5 % of the rows.

    Raises DataError if there are too few distinct rows, one has all its neighbours at one distance, or a number is not
    finite; QueryError if k is below 3.

    Source: Lu et al. 2023, CLID, arXiv:2206.01251, Appendix B, Eq. 3-4; Levina and Bickel 2004.

    >>> z = np.random.default_rng(0).random((4000, 2))  # of entropy 0
    >>> found = local_dimension_entropy(z, k=100, normalised=True)
    >>> abs(found.value) < 0.2, round(found.mean_dimension, 1)
    (True, 2.0)

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
        At least 12 and at least k + 1 distinct rows.
    k : int
        Neighbours, at least 3.
    normalised : bool
        Whether the density is divided by the number of rows.

    Returns
    -------
    LocalDimensionEntropy
        ``value`` in nats; higher is more expressive.
    """
    require_number(k, "k", least=3, whole=True)
    needed_for = f"the local dimension from {k} neighbours"
    least = max(LEAST_ROWS, k + 1)
    rows = check_feature_rows(z, least=least, needed_for=needed_for)
    require_varied(rows, "z", needed_for=needed_for)
    needs: dict[str, Any] = {"metric": "euclidean", "least": least, "needed_for": needed_for}
    distances, n_duplicates, n_near, without = _estimates(
        rows, k, lambda other: _entropy(other, normalised)[0], **needs
    )
    value, mean_dimension = _entropy(distances, normalised)
    return LocalDimensionEntropy(
        value=value,
        k=k,
        normalised=normalised,
        mean_dimension=mean_dimension,
        n=len(rows),
        n_duplicates=n_duplicates,
        n_used=len(distances),
        n_near_duplicates=n_near,
        value_without_near_duplicates=without,
        notes=_notes(n_duplicates, n_near, len(rows), without),
    )


def _entropy(distances: Array, normalised: bool) -> tuple[float, float]:
    """The entropy and the mean dimension from the distances (n, k) of rows to their nearest ones."""
    k = distances.shape[1]
    logs = np.log(distances)
    mean_log_ratio = (logs[:, -1:] - logs[:, :-1]).mean(axis=1)
    flat = mean_log_ratio < EQUAL
    if flat.any():
        raise DataError(
            f"{int(flat.sum())} of {len(distances)} rows of z have their {k} nearest neighbours all at "
            "the same distance, where no local dimension is defined: take a larger k."
        )
    dimensions = 1 / mean_log_ratio
    log_volumes = dimensions / 2 * math.log(math.pi) - torch.lgamma(torch.from_numpy(dimensions / 2 + 1)).numpy()
    value = float((dimensions * logs[:, -1] + log_volumes).mean()) - math.log(k - 1)
    return value + (math.log(len(distances) - 1) if normalised else 0.0), float(dimensions.mean())
