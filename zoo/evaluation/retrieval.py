"""The images of a gallery nearest to others, and which pairs are near duplicates: one rule for all that looks for them.

Were images as dense around one as far as its k-th neighbour, at the distances d_1 <= ... <= d_k in D dimensions, the
shares of that volume (d_j / d_k)^D, j < k, would be k - 1 uniform numbers in order. So each is a p-value of a pair, and
Benjamini and Hochberg (1995) estimate from all pairs which share of those that are as near is there by chance. Pairs
are named up to the share :data:`SURER`, or up to :data:`FALSE_SHARE` where these are a tenth more, most of which are
then true, and :data:`FEW` or more: at most about 5 % of the pairs are false, and 1 % of the sets without near
duplicates have any that is named. Pairs never make groups.

D is estimated from medians over the set, of d_2 / d_k and of that in the middle, which near duplicates leave as it is
where most images have fewer than k / 2; the larger counts. Where the distances of the farther half grow more than is
usual, in the mean over images with a common neighbour, D is smaller in proportion (Renyi's spacings).

It cannot tell anything of fewer than :data:`FEWEST_NEAR` neighbours, of an image with k near duplicates or more, or of
a set most of whose images have k / 2; a copy that is altered so much that others are as near is not seen. Where
dimensions differ much within a set, few test images may have false pairs. Where an image has fewer than k like it, as
in a small class far from the others, its k-th neighbour is of another class: so the usual distance of a fifth neighbour
over the set, in place of that, counts where it makes a pair less near. That fails where most have fewer than five.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..errors import QueryError
from ..features import Features, require_comparable
from ..optional import require_extra
from .arrays import Array, check_rows, check_width
from .nearest_neighbours import CosineIndex
from .streamed_training import LabelledRows

with require_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch
    from scipy.special import betaincinv

SURER, FALSE_SHARE, FEW = 0.01, 0.05, 5
N_NEAR, FEWEST_NEAR = 20, 5  # neighbours that are compared, and below which no pair is named
_FAR = 30.0  # how many times the usual volume is that of an image whose last neighbour is not like it
_BLOCK_BYTES = 1 << 26
_FARTHEST = -60.0  # logarithm of a distance over that of the k-th neighbour, in place of that of 0


def nearest(query: Any, gallery: Any, k: int, *, device: str | None = None) -> tuple[Array, Array]:
    """The k images of a gallery nearest to each query, by cosine distance: exact, of equally near ones the first.

    ``query`` and ``gallery`` are :class:`~zoo.features.Features` of one encoder, or float arrays (m, dim) and (n, dim).
    Where they are the same object, no image is its own neighbour. By default a GPU computes if there is one.

    Returns
    -------
    indices : int64 (m, k)
        Rows of the gallery, the nearest first.
    distances : float64 (m, k)
        1 - cosine, from 0 to 2; 1 for features that are all 0.

    Raises
    ------
    QueryError
        If k is no number from 1 to that of the images.
    DataError
        If the features are not of one encoder or width, or not finite.

    Examples
    --------
    >>> indices, distances = nearest([[2.0, 0.1]], [[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], 2)
    >>> indices.tolist(), distances.round(3).tolist()
    ([[1, 0]], [[0.001, 0.95]])
    """
    is_same = query is gallery
    if isinstance(query, Features) and isinstance(gallery, Features):
        require_comparable(replace(query, classes=()), gallery)  # labels may mean anything
    sides = []
    for one, name in ((gallery, "gallery"), (query, "query")):
        x = check_rows(one.x if isinstance(one, Features) else one, name)
        sides.append(LabelledRows(x, np.zeros(x.shape[0], np.int64), name=name, is_wide=True))
    among, asked = sides
    check_width(asked.x, among.dim, "query", "the gallery")
    n = len(among) - is_same
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
        raise QueryError(f"Got {k!r} neighbours, expected a number from 1 to {n:,}, that of the images in the gallery.")
    asked.require_finite()
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    reference = CosineIndex.of(among, device=on, block_bytes=_BLOCK_BYTES)
    similarities, rows = zip(*reference.nearest(asked, int(k), left_out=is_same), strict=True)
    return np.concatenate(rows), np.maximum(1 - np.concatenate(similarities), 0.0)


def _false_shares(distances: Array, rows: Array) -> Array:
    """Shares of false pairs (n, k) among those at least as near as each; 1 for the last, and where it cannot tell."""
    shares = np.ones(distances.shape)
    known = np.flatnonzero(distances[:, -1] > 0)
    if distances.shape[1] >= FEWEST_NEAR and len(known):
        with np.errstate(divide="ignore"):
            logs = np.log(distances[known] / distances[known, -1:])
        dimensions = _dimensions(np.maximum(logs, _FARTHEST), rows[known])
        volumes = np.exp(logs[:, :-1] * dimensions[:, None])
        usual = float(np.median(distances[known, FEWEST_NEAR - 1]))
        if usual > 0:  # of the set: images that have fewer like them have no last neighbour to be compared with
            times = (distances[known, -1] / usual) ** dimensions * FEWEST_NEAR / distances.shape[1]
            volumes = np.minimum(volumes * np.where(times > _FAR, times, 1.0)[:, None], 1.0)
        from scipy.stats import false_discovery_control  # slow to import

        shares[known, :-1] = false_discovery_control(volumes, axis=None).reshape(volumes.shape)
    return shares


def _dimensions(logs: Array, rows: Array) -> Array:
    """The dimension around each image, (n,), from logarithms of distances over that of the last neighbour (n, k)."""
    k = logs.shape[1]
    half = k // 2
    medians = [(j, min(float(np.median(logs[:, j - 1])), -1e-6)) for j in (2, half)]
    of_set = max(math.log(betaincinv(j, k - j, 0.5)) / median for j, median in medians)
    spacings = np.diff(logs[:, half - 1 :]) @ np.arange(half, k)  # (n,): of the mean (k - half) / dimension
    totals, n = np.bincount(rows.ravel(), np.repeat(spacings, k)), np.bincount(rows.ravel())
    around = np.maximum(totals[rows].sum(axis=1) / n[rows].sum(axis=1), 1e-9)
    found: Array = of_set * np.minimum(1, np.median(around) / around)
    return found


def find_near_pairs(distances: Array, rows: Array, itself: Array | None = None) -> tuple[Array, Array, Array]:
    """Near duplicates, the nearest first: pairs (m, 2) of an image and a neighbour, distances, shares of false ones.

    ``distances`` (n, k), ascending, are Euclidean ones to the neighbours ``rows`` (n, k). Images are positions among
    the n, or the numbers ``itself`` (n,) that ``rows`` name them by: then a pair is the smaller number and the larger
    one, each once, whichever of the two it was found from.
    """
    every = _false_shares(distances, rows)
    at, place = np.nonzero(every <= FALSE_SHARE)
    pairs = np.stack([at if itself is None else itself[at], rows[at, place]], axis=1)
    if itself is not None:
        pairs.sort(axis=1)
    order = np.lexsort((every[at, place], distances[at, place]))
    pairs, apart, shares = pairs[order], distances[at, place][order], every[at, place][order]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    surer = first[shares[first] <= SURER]
    if len(first) < FEW or len(first) <= 1.1 * len(surer):
        first = surer
    return pairs[first], apart[first], shares[first]
