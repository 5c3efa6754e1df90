"""k-means, and two metrics of its clusters: cluster learnability and coding-rate reduction.

k-means is Lloyd's iteration without the rows whose cluster cannot have changed: for every row an upper bound of its
distance to its centroid and a lower bound of that to the others are stored (Hamerly 2010). A greedy k-means++ start and
the first rounds run in 128 directions that hold most of the variance. Products are in float32, sums of rows in float64.
Random numbers are drawn for rows in the order of their :func:`~zoo.evaluation.nearest_neighbours.compute_fingerprints`,
so that the clusters do not depend on the order of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import require_extra
from ..arrays import Array, check_labels, check_width
from ..eigen import compute_log_det_one_plus
from ..nearest_neighbours import (
    PointSet,
    build_points,
    compute_fingerprints,
    find_first_equals,
    find_nearest_points,
    multiply_rows,
    split_into_blocks,
)
from ..retrieval import N_NEAR, find_near_pairs
from ..threads import limit_threads
from .arrays import check_feature_rows, describe_coarseness, require_number, require_varied
from .dimension import is_notable
from .scatter import normalise_all_rows

with require_extra("evaluate", needed_for="k-means"):
    import numpy as np
    import torch

_DIRECTIONS = 128  # in which k-means starts
_SKETCHED_ROWS = 1536  # from which these are found
_SEEDING_ROUNDS = 50  # of Lloyd's iteration in these directions
_MOST_ROUNDS = 300
_TOLERANCE = 1e-4  # squared shifts of the centroids, over the mean variance of a feature, as in scikit-learn
_LEAST_WIDTH = 1024  # of a row, for the number of rows that are compared together
_ROUNDING = 1e-5  # of a float32 distance, relative to the length of the row
_FOR = "cluster learnability"
_ONE_DIRECTION = 1e-6  # spread of rows of length 1 that is float32 rounding


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Clusters:
    """A partition of rows by k-means."""

    labels: Array  # int64 (n,): cluster of each row, 0 to n_clusters - 1; none is empty
    objective: float  # mean squared distance of a row from its centroid
    n_iterations: int  # with all features


def fit_kmeans(z: Any, n_clusters: int, *, seed: int = 0) -> Clusters:
    """Partition of features (n, dim) around centroids by Euclidean distance.

    It ends when no row changes its cluster, or when the squared shifts of all centroids add up to less than 1e-4 times
    the mean variance of a feature, or after 300 rounds. The same rows in another order get the same clusters. Refuses
    more clusters than distinct rows.

    >>> found = fit_kmeans([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> found.objective, bool(found.labels[0] == found.labels[1])
    (0.25, True)
    """
    require_number(n_clusters, "n_clusters", least=1, whole=True)
    rows = check_feature_rows(z, least=n_clusters, needed_for=f"k-means with {n_clusters} clusters")
    points = build_points(rows, "euclidean")
    return fit_kmeans_points(points, n_clusters, seed=seed, marks=compute_fingerprints(points))


def fit_kmeans_points(points: PointSet, n_clusters: int, *, seed: int, marks: Array) -> Clusters:
    """:func:`fit_kmeans` of points whose fingerprints are ``marks``; of rows of length 1 if these are for cosines."""
    _, distinct = np.unique(marks, return_inverse=True)
    n_distinct = int(distinct.max()) + 1
    if n_clusters > n_distinct:
        raise DataError(
            f"z has {n_distinct} distinct row{'s' * (n_distinct != 1)}, but k-means was asked for {n_clusters} "
            "clusters: ask for fewer, or give it more images."
        )
    order = np.argsort(marks, kind="stable")
    x = torch.from_numpy(np.empty((len(points), points.dim), dtype=np.float32))  # in large pages
    for part in split_into_blocks(len(points), points.dim):
        x[part] = points.block(order[part])
    if n_clusters == n_distinct:
        labels, n_iterations = torch.from_numpy(distinct[order]), 0
        sums, counts = _sums(x, labels, n_clusters)
    else:
        with limit_threads(0):  # next to NumPy's products, threads of torch would wait for these
            generator = np.random.default_rng((seed, 0))
            few = _reduced(x, generator)
            centroids = few[torch.from_numpy(_spread_rows(few, n_clusters, generator))].double()
            enough = _TOLERANCE * float(torch.linalg.vector_norm(x, dim=1).double().square().mean()) / x.shape[1]
            labels = torch.full((len(x),), -1)
            if few is not x:
                labels = _lloyd(few, labels, centroids, _SEEDING_ROUNDS, enough)[0]
            labels, sums, counts, n_iterations = _lloyd(x, labels, centroids, _MOST_ROUNDS, enough)
    single = (sums / counts[:, None]).float()
    total = 0.0
    for part in split_into_blocks(*x.shape):
        apart = x[part] - single[labels[part]]
        total += float(torch.linalg.vector_norm(apart, dim=1).double().square().sum())
    in_order = np.empty(len(points), dtype=np.int64)
    in_order[order] = labels.numpy()
    unit = points.scale if points.lengths is None else 1.0
    return Clusters(labels=in_order, objective=total / len(x) / unit / unit, n_iterations=n_iterations)


def _reduced(x: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Centred rows (n, dim) in 128 directions with most of their variance (Halko et al. 2011); ``x`` if dim <= 128."""
    if x.shape[1] <= _DIRECTIONS:
        return x
    drawn = generator.standard_normal((x.shape[1], _DIRECTIONS), dtype=np.float32)
    some = x[:: -(-len(x) // _SKETCHED_ROWS)].contiguous().numpy()
    basis = torch.linalg.qr(torch.from_numpy(some.T @ (some @ drawn)))[0]  # (dim, 128)
    return multiply_rows(x, basis.T)


def _spread_rows(x: torch.Tensor, n_clusters: int, generator: np.random.Generator) -> Array:
    """Rows to start from, int64 (n_clusters,): greedy k-means++ (Arthur and Vassilvitskii 2007, as in scikit-learn)."""
    n_draws = 2 + int(math.log(n_clusters))
    squares = x.square().sum(dim=1)

    def squared_distances(rows: torch.Tensor) -> torch.Tensor:  # of these rows from all, float32 (m, n)
        found = (squares[rows, None] + squares).sub_(multiply_rows(x, x[rows]).T, alpha=2)
        return found.clamp_(min=0).scatter_(1, rows[:, None], 0.0)

    chosen = [int(generator.integers(len(x)))]
    left = squared_distances(torch.tensor(chosen))[0]
    for _ in range(1, n_clusters):
        sums = left.double().cumsum(dim=0)
        marks = torch.from_numpy(generator.random(n_draws)) * sums[-1]
        draws = torch.searchsorted(sums, marks, right=True).clamp_(max=len(x) - 1)
        after = torch.minimum(squared_distances(draws), left)  # (n_draws, n)
        best = int(after.sum(dim=1, dtype=torch.float64).argmin())
        chosen.append(int(draws[best]))
        left = after[best]
    return np.array(chosen)


def _lloyd(
    x: torch.Tensor, labels: torch.Tensor, centroids: torch.Tensor, max_iter: int, enough: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Labels, sums and numbers of the rows of each cluster, and iterations; from centroids where labels are -1."""
    n_clusters = len(centroids)
    started = bool(labels[0] >= 0)
    if started:
        sums, counts = _sums(x, labels, n_clusters)
        centroids = sums / counts[:, None]
    lengths = torch.linalg.vector_norm(x, dim=1)
    slack = _ROUNDING * (lengths + float(centroids.norm(dim=1).max()))
    labels, above, below = labels.clone(), torch.full((len(x),), math.inf), torch.zeros(len(x))
    for iteration in range(1, max_iter + 1):
        active = torch.nonzero(below < above + slack)[:, 0]
        if not len(active):
            return labels, sums, counts, iteration
        nearest = _compare(x, lengths, active, centroids, above, below)
        moved = active[nearest != labels[active]]
        before, labels[active] = labels[moved], nearest
        if iteration == 1 and not started:
            sums, counts = _sums(x, labels, n_clusters)
        else:
            _add(sums, counts, x, moved, before, -1)
            _add(sums, counts, x, moved, labels[moved], 1)
        empty = torch.nonzero(counts == 0)[:, 0].tolist()
        candidates = iter(torch.argsort(above, descending=True).tolist() if empty else [])
        for cluster in empty:  # takes the row farthest from its centroid that is not alone
            row = next(row for row in candidates if counts[labels[row]] > 1)
            at = torch.tensor([row])
            _add(sums, counts, x, at, labels[at], -1)
            labels[row], above[row], below[row] = cluster, 0.0, 0.0
            _add(sums, counts, x, at, labels[at], 1)
        if not empty and not len(moved):
            return labels, sums, counts, iteration
        new = sums / counts[:, None]
        shifts = (new - centroids).norm(dim=1)  # (n_clusters,)
        centroids = new
        if not empty and float(shifts.square().sum()) <= enough:
            return labels, sums, counts, iteration
        shifts = shifts.float() * (1 + _ROUNDING)
        above += shifts[labels]
        below -= shifts.max()
    return labels, sums, counts, max_iter


def _compare(
    x: torch.Tensor,
    lengths: torch.Tensor,
    active: torch.Tensor,
    centroids: torch.Tensor,
    above: torch.Tensor,
    below: torch.Tensor,
) -> torch.Tensor:
    """Nearest centroids of the ``active`` rows; sets their bounds to the distances to it and to the next one."""
    single = centroids.float()
    half = (0.5 * centroids.square().sum(dim=1)).float()
    found = []
    every = len(active) == len(x)
    for part in split_into_blocks(len(active), max(x.shape[1], len(centroids), _LEAST_WIDTH)):
        at = part if every else active[part]
        rows = x[part] if every else torch.from_numpy(x.numpy()[active[part].numpy()])
        scores = multiply_rows(rows, single).sub_(
            half
        )  # (m, n_clusters), half the squared length less half the distance's
        nearest = torch.from_numpy(scores.numpy().argmax(axis=1))
        squares = lengths[at].square()
        above[at] = (squares - 2 * scores.gather(1, nearest[:, None])[:, 0]).clamp_(min=0).sqrt_()
        others = scores.scatter_(1, nearest[:, None], -math.inf).amax(dim=1)
        below[at] = (squares - 2 * others).clamp_(min=0).sqrt_()
        found.append(nearest)
    return torch.cat(found)


def _add(
    sums: torch.Tensor, counts: torch.Tensor, x: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor, sign: int
) -> None:
    """Add rows to the sums of their clusters (``sign`` 1) or subtract them (-1)."""
    for part in split_into_blocks(len(rows), x.shape[1]):
        some = torch.from_numpy(x.numpy()[rows[part].numpy()])
        sums.index_add_(0, labels[part], some.double(), alpha=sign)
    counts.index_add_(0, labels, torch.ones_like(labels), alpha=sign)


def _sums(x: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of the rows of each cluster, float64 (n_clusters, dim), and their numbers, int64 (n_clusters,)."""
    sums = torch.zeros(n_clusters, x.shape[1], dtype=torch.float64)
    for part in split_into_blocks(*x.shape):
        sums.index_add_(0, labels[part], x[part].double())
    return sums, torch.bincount(labels, minlength=n_clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLearnability:
    """Cluster learnability, and what it rests on."""

    value: float  # share of validation rows whose cluster their neighbours predict, 0 to 1; higher is more learnable
    n_clusters: int
    k: int
    n_train: int
    n_val: int
    objective: float  # of k-means: mean squared distance of a row of length 1 from its centroid
    n_duplicates: int  # rows that equal an earlier one; equal rows are on one side of the split
    n_near_duplicates: int  # validation rows that are nearer to a training row than chance explains
    value_without_near_duplicates: float | None  # among the other validation rows, if those are more than 0.5 %
    notes: tuple[str, ...] = ()


def cluster_learnability(
    z: Any,
    z_val: Any = None,
    *,
    n_clusters: int | None = None,
    k: int = 1,
    train_share: float = 0.5,
    seed: int = 0,
) -> ClusterLearnability:
    """How often nearest neighbours predict the k-means cluster of an image that they have not seen.

    Features are scaled to length 1. All rows, training and validation, are clustered by k-means; the k nearest training
    rows of a validation row vote for its cluster, and of clusters with equal votes that of the nearest voter wins.

    Equal rows are drawn together, so that no row is predicted from its copy; rows of z_val that equal one of z are left
    out. Near duplicates on both sides are counted.

    Raises DataError if there are fewer rows than clusters or neighbours, a row is 0 or not finite, or all have one
    direction; or if every row of z_val equals one of z; QueryError if an option is out of its range.

    Source: Lu et al. 2023, CLID, arXiv:2206.01251, Eq. 2 and section 3.1.

    >>> z = np.repeat(np.eye(4), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((200, 4))
    >>> cluster_learnability(z, n_clusters=4).value
    1.0

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
    z_val : the same, optional
        Validation rows; by default a share of z, drawn by ``seed``.
    n_clusters : int, optional
        By default the square root of the number of all rows, rounded.
    k : int
        Neighbours that vote.
    train_share : float
        Share of z that is learnt from if there is no z_val, above 0 and below 1.
    seed : int
        Of the split and of k-means.

    Returns
    -------
    ClusterLearnability
        ``value`` from 0 to 1; higher is better.
    """
    require_number(k, "k", least=1, whole=True)
    require_number(train_share, "train_share", above=0, below=1)
    rows = check_feature_rows(z, least=4 if z_val is None else 1, needed_for=_FOR)
    n_given = len(rows)
    if z_val is not None:
        other = check_feature_rows(z_val, "z_val", needed_for=_FOR)
        check_width(other, rows.shape[1], "z_val", _FOR)
        rows = np.concatenate([rows, other])
    n_clusters = round(math.sqrt(len(rows))) if n_clusters is None else n_clusters
    require_number(n_clusters, "n_clusters", least=1, whole=True)
    require_varied(rows, "z", needed_for=_FOR)
    points = build_points(rows, "cosine")
    if points.squares.max() < _ONE_DIRECTION**2:
        raise DataError(
            f"All {len(rows)} rows of z have the same direction, so {_FOR} is not defined: "
            f"{describe_coarseness(rows)}the representation has collapsed, or its mean is far larger than what differs."
        )
    marks, firsts = compute_fingerprints(points), find_first_equals(points, np.arange(len(points)))
    if z_val is not None:
        train, val = np.arange(n_given), n_given + np.flatnonzero(firsts[n_given:] >= n_given)
        if not len(val):
            raise DataError(f"Every row of z_val equals a row of z, so {_FOR} would predict each from its copy.")
    else:
        train, val = _split(marks, firsts, train_share, seed)
    if k > len(train):
        raise DataError(
            f"z has {len(train)} row{'s' * (len(train) != 1)} to learn from, but {k} neighbours are to vote: give it "
            "more images, or ask for fewer neighbours."
        )
    clusters = fit_kmeans_points(points, n_clusters, seed=seed, marks=marks)
    distances, neighbours = find_nearest_points(points, max(k, min(N_NEAR, len(train))), queries=val, among=train)
    right = vote_labels(clusters.labels[neighbours[:, :k]]) == clusters.labels[val]
    near = np.isin(np.arange(len(val)), find_near_pairs(distances[:, :N_NEAR], neighbours[:, :N_NEAR])[0][:, 0])
    n_duplicates, n_near = len(rows) - len(np.unique(firsts)), int(near.sum())
    without, notes = None, []
    if is_notable(n_duplicates, n := len(train) + len(val)):
        notes.append(f"{n_duplicates:,} of {n:,} rows equal an earlier one; copies lie on one side of the split.")
    if is_notable(n_near, len(val)):
        without = float(right[~near].mean()) if n_near < len(val) else None
        value = "" if without is None else f"; of the others {without:.4g} are"
        notes.append(
            f"{n_near:,} of {len(val):,} validation rows are near duplicates of training rows, nearer than chance "
            f"explains, and are predicted by these{value}: remove near duplicates from the images."
        )
    return ClusterLearnability(
        value=float(right.mean()),
        n_clusters=n_clusters,
        k=k,
        n_train=len(train),
        n_val=len(val),
        objective=clusters.objective,
        n_duplicates=n_duplicates,
        n_near_duplicates=n_near,
        value_without_near_duplicates=without,
        notes=tuple(notes),
    )


def vote_labels(labels: Array) -> Array:
    """The most frequent label of each row (m, k), nearest voter first; of equally frequent ones that of the nearest."""
    votes = sum((labels == labels[:, place, None]).astype(np.int64) for place in range(labels.shape[1]))
    found: Array = np.take_along_axis(labels, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
    return found


def _split(marks: Array, firsts: Array, train_share: float, seed: int) -> tuple[Array, Array]:
    """Training and validation rows, ascending, at least one each; equal rows, which share a ``firsts``, on one side."""
    order = np.argsort(marks, kind="stable")
    _, start, group = np.unique(firsts[order], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(start))  # of each group, by its first row in the order
    drawn = np.random.default_rng(seed).permutation(len(start))
    ends = np.cumsum(np.bincount(place[group])[drawn])
    n_train = min(max(1, round(train_share * len(order))), len(order) - 1)
    n_groups = min(max(1, int((ends <= n_train).sum())), len(start) - 1)
    is_train = np.isin(place[group], drawn[:n_groups])
    return np.sort(order[is_train]), np.sort(order[~is_train])


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingRateReduction:
    """Coding rates, in nats per image."""

    value: float  # rate less rate_within; higher is better
    rate: float  # of all features together
    rate_within: float  # mean of the rates within clusters, weighted by their sizes
    n_clusters: int
    n: int
    eps2: float


def coding_rate_reduction(
    z: Any, *, clusters: Any = None, n_clusters: int | None = None, eps2: float = 0.5, seed: int = 0
) -> CodingRateReduction:
    """Coding-rate reduction Delta R (MCR2) of normalised features, with clusters by k-means unless they are given.

    R = 1/2 logdet(I + dim / (n eps2) Z Z') for the normalised features Z (dim, n), and R_c the mean of the same within
    clusters, weighted by their sizes; the answer is R - R_c.

    Raises DataError if there are fewer than 4 rows; on NaN or infinity; if a row is all 0; if clusters do not match the
    rows, or there is one only; QueryError if eps2 is not above 0, n_clusters is no number from 2 to n - 1, or clusters
    and n_clusters are both given.

    Source: Yu et al. 2020, Learning Diverse and Discriminative Representations via the Principle of Maximal Coding Rate
    Reduction, Eq. 6; Lu et al. 2023, CLID, arXiv:2206.01251, Section 3.2.

    >>> found = coding_rate_reduction([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], clusters=[0, 0, 1, 1])
    >>> round(found.rate, 6), round(found.rate_within, 6)  # log 3, and half of log 5
    (1.098612, 0.804719)

    Parameters
    ----------
    z : float array, shape (n, dim)
        Features of images, neither centred nor scaled; rows are divided by their Euclidean length here.
    clusters : n numbers or names, optional
        Classes, or clusters from elsewhere.
    n_clusters : int, optional
        For k-means of the normalised features; the square root of n, rounded, by default.
    eps2 : float
        Squared distortion up to which features are coded. 0.5 is the default of the authors' code, whose argument
        ``eps`` is this square; CLID uses that code unchanged.
    seed : int
        Of k-means.

    Returns
    -------
    CodingRateReduction
        ``value`` is in nats, 0 or above; higher is better.
    """
    require_number(eps2, "eps2", above=0)
    unit: Array = normalise_all_rows(check_feature_rows(z, least=4, needed_for="coding-rate reduction")).numpy()
    if clusters is not None and n_clusters is not None:
        raise QueryError("Got both clusters and n_clusters, expected the clusters or their number for k-means.")
    if clusters is None:
        wanted = round(math.sqrt(len(unit))) if n_clusters is None else n_clusters
        require_number(wanted, "n_clusters", least=2, below=len(unit), whole=True)
        clusters = fit_kmeans(unit, wanted, seed=seed).labels
    numbers: Array = np.unique(check_labels(clusters, len(unit), "clusters"), return_inverse=True)[1]
    if not numbers.any():
        raise DataError(
            f"All {len(unit)} rows are in one cluster, but coding-rate reduction compares at least 2: it would be 0 "
            "for any features."
        )
    members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])
    rate, within = _rate(unit, eps2), sum(len(some) / len(unit) * _rate(unit[some], eps2) for some in members)
    return CodingRateReduction(
        value=rate - within, rate=rate, rate_within=within, n_clusters=len(members), n=len(unit), eps2=eps2
    )


def _rate(unit: Array, eps2: float) -> float:
    """1/2 logdet(I + dim / (n eps2) Z Z') by the smaller of Z Z' and Z' Z, whose determinants are equal."""
    n, dim = unit.shape
    products = unit.T @ unit if dim <= n else unit @ unit.T
    return 0.5 * compute_log_det_one_plus(torch.from_numpy(products * (dim / (n * eps2))))
