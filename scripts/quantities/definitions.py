"""Quantities that the zoo has not, as their papers define them, and what formulas of the page call in addition to the
zoo.

Kornblith et al. 2019 (linear and RBF CKA), Song et al. 2007 with Nguyen et al. 2021 (unbiased, minibatches), Huh et al.
2024 (mutual neighbours), Levina and Bickel 2005 with MacKay and Ghahramani 2005 (dimension by neighbours). All float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors

from zoo.evaluation.neighbours import NeighbourProbe

Array = np.ndarray[Any, Any]


def squared_distances(z: Array) -> Array:
    """Between all rows, (n, n), exactly 0 between equal ones."""
    rows = z.astype(np.float64)
    return np.stack([np.square(rows - row).sum(axis=1) for row in rows])


def linear_gram(z: Array) -> Array:
    """Products of all rows, (n, n)."""
    rows = z.astype(np.float64)
    return rows @ rows.T


def rbf_gram(z: Array, width: float | None = None) -> Array:
    """exp(-d^2 / 2 width^2), (n, n); by default the width is the median distance of two rows that are not the same."""
    squared = squared_distances(z)
    if width is None:
        width = float(np.sqrt(np.median(squared[np.triu_indices(len(z), 1)])))
    return np.exp(-squared / (2 * width**2))


def centred(gram: Array) -> Array:
    """H K H with H = I - 1 1^T / n."""
    return gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()


def u_centred(gram: Array) -> Array:
    """The same without the diagonal, so that products of two such are unbiased (Szekely and Rizzo 2014)."""
    n, apart = len(gram), gram - np.diag(np.diag(gram))
    means = apart.sum(axis=0) / (n - 2)
    means -= means.sum() / (2 * (n - 1))
    apart = apart - means - means[:, None]
    return apart - np.diag(np.diag(apart))


def alignment_of(k: Array, other: Array) -> float:
    """The cosine of two matrices taken as vectors."""
    return float((k * other).sum() / np.sqrt((k * k).sum() * (other * other).sum()))


def linear_cka(a: Array, b: Array) -> float:
    """CKA of the products of rows (Kornblith et al. 2019), from 0 to 1."""
    return alignment_of(centred(linear_gram(a)), centred(linear_gram(b)))


def rbf_cka(a: Array, b: Array, width: float | None = None) -> float:
    """CKA of Gaussian kernels (Kornblith et al. 2019), whose width is by default the median distance."""
    return alignment_of(centred(rbf_gram(a, width)), centred(rbf_gram(b, width)))


def unbiased_cka(a: Array, b: Array) -> float:
    """CKA from unbiased estimates of HSIC, about 0 for unrelated features, where linear CKA is above 0."""
    return alignment_of(u_centred(linear_gram(a)), u_centred(linear_gram(b)))


def minibatch_cka(a: Array, b: Array, batch: int = 100) -> float:
    """CKA whose three HSIC are sums over batches (Nguyen et al. 2021, Eq. 2-3)."""
    sums = []
    for start in range(0, len(a), batch):
        k, other = (u_centred(linear_gram(z[start : start + batch])) for z in (a, b))
        sums.append([(k * other).sum(), (k * k).sum(), (other * other).sum()])
    xy, xx, yy = np.sum(sums, axis=0)
    return float(xy / np.sqrt(xx * yy))


def sum_of_batches(a: Array, b: Array, batch: int = 100) -> float:
    """The sum over batches of the linear CKA of each."""
    return sum(linear_cka(a[at : at + batch], b[at : at + batch]) for at in range(0, len(a), batch))


def neighbours_of(z: Array, k: int, metric: str) -> Array:
    """Rows of the k nearest others, (n, k)."""
    found = NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute").fit(z.astype(np.float64))
    return found.kneighbors(return_distance=False)


def neighbour_shares(a: Array, b: Array, k: int = 10, jaccard: bool = False, metric: str = "cosine") -> float:
    """Mean share of the k nearest neighbours that are the same in both; Jaccard: of those in either."""
    pairs = zip(neighbours_of(a, k, metric), neighbours_of(b, k, metric), strict=True)
    both = [len(set(one) & set(other)) for one, other in pairs]
    return float(np.mean([n / (2 * k - n if jaccard else k) for n in both]))


def neighbour_accuracy(z: Array, y: Array, z_test: Array, y_test: Array, temperature: float = 0.07) -> float:
    """Accuracy of the zoo's 20 nearest neighbours, in percent."""
    probe = NeighbourProbe(k=20, temperature=temperature, device="cpu").fit(z, y)
    return 100 * float(np.mean(probe.predict(z_test) == y_test))


def dimension_by_neighbours(z: Array, k: int = 20, inverse: bool = True) -> float:
    """Levina and Bickel's estimate from distances to k neighbours; the mean over rows of its inverse, or of itself."""
    distances = NearestNeighbors(n_neighbors=k).fit(z.astype(np.float64)).kneighbors()[0]
    inverses = np.log(distances[:, -1:] / distances[:, :-1]).sum(axis=1) / (k - 1)
    return float(1 / inverses.mean() if inverse else (1 / inverses).mean())


def cosines(z: Array, z_test: Array) -> Array:
    """Cosines of the rows of a gallery with queries, float64 (n_queries, n)."""
    gallery, asked = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (z.astype(float), z_test.astype(float))
    )
    return asked @ gallery.T


def retrieval_precision(
    z: Array, y: Array, z_test: Array, y_test: Array, *, first: int | None = None, above: float = -2.0
) -> Array:
    """Average precision of each query among the images of a gallery by cosine, (n_queries,); NaN without a match.

    ``first``: only of so many of the nearest, over the number of all of the class; 0 is that number.
    ``above``: those of the class with another cosine do not count.
    """
    found = []
    for scores, label in zip(cosines(z, z_test), y_test, strict=True):
        relevant = (y == label) & (scores > above)
        if first is None:
            found.append(float(average_precision_score(relevant, scores)) if relevant.any() else float("nan"))
            continue
        hits = relevant[np.argsort(-scores, kind="stable")][: first or relevant.sum()]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        found.append(float((precision * hits).sum() / relevant.sum()) if relevant.any() else float("nan"))
    return np.array(found)


def retrieval_map(z: Array, y: Array, z_test: Array, y_test: Array) -> float:
    """Mean average precision over the queries that have a match in the gallery, of the whole ranking."""
    return float(np.nanmean(retrieval_precision(z, y, z_test, y_test)))


HELPERS = {
    one.__name__: one
    for one in (
        *(
            squared_distances,
            linear_gram,
            rbf_gram,
            centred,
            u_centred,
            alignment_of,
            linear_cka,
            rbf_cka,
            unbiased_cka,
        ),
        *(minibatch_cka, sum_of_batches, neighbour_shares, dimension_by_neighbours, retrieval_precision, retrieval_map),
        neighbour_accuracy,
    )
}
"""By name, for formulas."""
