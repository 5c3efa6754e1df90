"""Cluster learnability: how well nearest neighbours tell the k-means cluster of rows that they have not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import Array, width_checked
from .arrays import features_of, require_varied
from .clusters import Clusters, kmeans_points, require_n_clusters
from .dimension import near_duplicates, worth_telling
from .distinct import fingerprints, first_equals
from .nearest import nearest_points, require_k
from .points import points_of

with requires_extra("evaluate", needed_for="Cluster learnability"):
    import numpy as np

_FOR = "cluster learnability"
_ONE_DIRECTION = 1e-6  # of a row of length 1: within float32 rounding of all others


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLearnability:
    """A value and how it came about."""

    value: float
    """Share of validation rows whose cluster was told, 0 to 1; higher is more learnable."""
    n_clusters: int
    k: int
    n_train: int
    n_val: int
    objective: float
    """Of k-means: mean squared distance of a row of length 1 from its centroid."""
    n_duplicates: int
    """Rows that equal an earlier one; all of them are on one side of the split."""
    n_near_duplicates: int
    """Validation rows a thousand times nearer to a training row than the median."""
    value_without_near_duplicates: float | None
    """The share among the other validation rows, if those are more than 0.5 %."""
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
    """How often the nearest neighbours of an image tell its k-means cluster.

    Features are scaled to length 1, so that Euclidean and cosine distances order rows alike. All rows, training and
    validation, are clustered by k-means; the k nearest training rows of a validation row vote for its cluster, of
    clusters with equal votes that of the nearest voter. With one cluster the value is 1; with one cluster for each row
    it is 0, for no validation row's cluster is among those of the training rows.

    Rows that equal each other are drawn together, so that none is told by its own copy; of z_val, rows that equal one
    of z are left out. Rows that nearly equal each other are counted where they lie on both sides.

    Nothing depends on the order of the rows: the split and the start of k-means are drawn for rows in an order of their
    own.

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
        Share of z that is learnt from where there is no z_val, above 0 and below 1.
    seed : int
        Of the split and of k-means.

    Returns
    -------
    ClusterLearnability
        ``value`` from 0 to 1; higher is better.

    Raises
    ------
    DataError
        If there are fewer rows than clusters or neighbours, a row is 0 or not finite, or all have one direction; or if
        every row of z_val equals one of z.
    QueryError
        If an option is out of its range.

    References
    ----------
    Lu et al. 2023, CLID, arXiv:2206.01251, Eq. 2 and section 3.1.

    Examples
    --------
    >>> z = np.repeat(np.eye(4), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((200, 4))
    >>> cluster_learnability(z, n_clusters=4).value
    1.0
    """
    wanted = None if n_clusters is None else [n_clusters]
    return cluster_learnability_grid(z, z_val, n_clusters=wanted, k=[k], train_share=train_share, seed=seed)[0]


def cluster_learnability_grid(
    z: Any,
    z_val: Any = None,
    *,
    n_clusters: Iterable[int] | None = None,
    k: Iterable[int] = (1,),
    train_share: float = 0.5,
    seed: int = 0,
) -> tuple[ClusterLearnability, ...]:
    """The same for numbers of clusters and of neighbours, each with each, those of neighbours changing faster.

    As for Figure 2 of the paper; k-means is run once for each number of clusters, and neighbours are sought once.

    Raises
    ------
    DataError, QueryError
        As :func:`cluster_learnability`.
    """
    numbers_of_neighbours = list(k)
    for number in numbers_of_neighbours:
        require_k(number)
    if not 0 < train_share < 1:
        raise QueryError(f"train_share is {train_share}, expected a share above 0 and below 1.")
    rows = features_of(z, least=4 if z_val is None else 1, needed_for=_FOR)
    n_given = len(rows)
    if z_val is not None:
        other = features_of(z_val, "z_val", needed_for=_FOR)
        width_checked(other, rows.shape[1], "z_val", _FOR)
        rows = np.concatenate([rows, other])
    numbers_of_clusters = [round(math.sqrt(len(rows)))] if n_clusters is None else list(n_clusters)
    for number in numbers_of_clusters:
        require_n_clusters(number)
    if not numbers_of_clusters or not numbers_of_neighbours:
        raise QueryError("n_clusters or k is empty, expected at least one number each.")
    require_varied(rows, "z", needed_for=_FOR)
    points = points_of(rows, "cosine")
    if points.squares.max() < _ONE_DIRECTION**2:
        raise DataError(
            f"All {len(rows)} rows of z have the same direction, so {_FOR} is not defined: the representation has "
            "collapsed."
        )
    marks, firsts = fingerprints(points), first_equals(points, np.arange(len(points)))
    if z_val is not None:
        train, val = np.arange(n_given), n_given + np.flatnonzero(firsts[n_given:] >= n_given)
        if not len(val):
            raise DataError(f"Every row of z_val equals a row of z, so {_FOR} would tell each by its own copy.")
    else:
        train, val = _split(marks, firsts, train_share, seed)
    most = max(numbers_of_neighbours)
    if most > len(train):
        raise DataError(
            f"z has {len(train)} row{'s' * (len(train) != 1)} to learn from, but {most} neighbours are to vote: give "
            "it more images, or ask for fewer neighbours."
        )
    partitions = [kmeans_points(points, number, seed=seed, marks=marks) for number in numbers_of_clusters]
    distances, neighbours = nearest_points(points, max(most, min(2, len(train))), queries=val, among=train)
    n_duplicates = len(rows) - len(np.unique(firsts))
    near = near_duplicates(distances) if distances.shape[1] > 1 else np.zeros(len(val), dtype=bool)
    found = []
    for clusters in partitions:
        for voters in numbers_of_neighbours:
            right = voted(clusters.labels[neighbours[:, :voters]]) == clusters.labels[val]
            found.append(_record(clusters, right, near, voters, len(train), n_duplicates))
    return tuple(found)


def voted(labels: Array) -> Array:
    """The most frequent label of each row (m, k), nearest voter first; of equally frequent ones that of the nearest.

    >>> voted(np.array([[3, 1, 1], [5, 2, 7]])).tolist()
    [1, 5]
    """
    votes = np.zeros(labels.shape, dtype=np.int64)
    for place in range(labels.shape[1]):
        votes += labels == labels[:, place, None]
    found: Array = np.take_along_axis(labels, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
    return found


def _split(marks: Array, firsts: Array, train_share: float, seed: int) -> tuple[Array, Array]:
    """Training and validation rows, ascending, at least one of each; equal rows, of one ``firsts``, on one side."""
    order = np.argsort(marks, kind="stable")
    _, start, group = np.unique(firsts[order], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(start))  # of each group, by its first row in the order
    drawn = np.random.default_rng(seed).permutation(len(start))
    ends = np.cumsum(np.bincount(place[group])[drawn])
    n_train = min(max(1, round(train_share * len(order))), len(order) - 1)
    n_groups = min(max(1, int((ends <= n_train).sum())), len(start) - 1)
    is_train = np.isin(place[group], drawn[:n_groups])
    return np.sort(order[is_train]), np.sort(order[~is_train])


def _record(
    clusters: Clusters, right: Array, near: Array, k: int, n_train: int, n_duplicates: int
) -> ClusterLearnability:
    n_val, n_near = len(right), int(near.sum())
    without, notes = None, []
    if worth_telling(n_duplicates, n_train + n_val):
        notes.append(
            f"{n_duplicates:,} of {n_train + n_val:,} rows equal an earlier one; copies lie on one side of the split."
        )
    if worth_telling(n_near, n_val):
        without = float(right[~near].mean()) if n_near < n_val else None
        value = "" if without is None else f"; of the others {without:.4g} are"
        notes.append(
            f"{n_near:,} of {n_val:,} validation rows are near duplicates of training rows, a thousand times nearer "
            f"than is usual, and are told by these{value}: remove near duplicates from the images."
        )
    return ClusterLearnability(
        value=float(right.mean()),
        n_clusters=clusters.n_clusters,
        k=k,
        n_train=n_train,
        n_val=n_val,
        objective=clusters.objective,
        n_duplicates=n_duplicates,
        n_near_duplicates=n_near,
        value_without_near_duplicates=without,
        notes=tuple(notes),
    )
