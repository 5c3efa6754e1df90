"""Images among the others of their set, by the directions of their features: the nearest ones, and a layout of all."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from ..errors import QueryError, format_count
from ..evaluation.arrays import Array
from ..evaluation.nearest_neighbours import find_nearest
from ..optional import require_extra
from .components import principal_components

with require_extra("models", needed_for="Looking at features"):
    import numpy as np

LAYOUTS = ("pca", "umap")


def nearest_images(features: Array, k: int, *, contents: Array | None = None) -> tuple[Array, Array]:
    """The k nearest other images of every image, by cosine distance: exact, equal ones in the order of their numbers.

    ``features`` are (n, dim), n > 1. ``contents``, uint64 (n,), are hashes of the images: exact copies of an image are
    none of its neighbours.

    Returns
    -------
    distances : float64 (n, k or n - 1)
        1 - cos, from 0 to 2, lower is nearer, ascending; NaN where there are no more neighbours.
    rows : int64 of the same shape
        Numbers of the neighbours; -1 where there are no more.

    Raises
    ------
    DataError
        If the features of an image are all 0, which have no direction, or there is one image.

    Examples
    --------
    >>> distances, rows = nearest_images(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), 1)
    >>> distances[:, 0].round(12).tolist(), rows[:, 0].tolist()
    ([0.0, 0.0, 1.0], [1, 0, 0])
    """
    most_copies = 0 if contents is None else int(np.unique(contents, return_counts=True)[1].max()) - 1
    apart, rows = find_nearest(features, max(1, min(k + most_copies, len(features) - 1)), metric="cosine")
    distances = apart**2 / 2
    if contents is not None and most_copies:
        is_copy = contents[rows] == contents[:, None]
        order = np.argsort(is_copy, axis=1, kind="stable")  # copies last
        distances = np.take_along_axis(np.where(is_copy, np.nan, distances), order, axis=1)
        rows = np.take_along_axis(np.where(is_copy, -1, rows), order, axis=1)
    return distances[:, :k], rows[:, :k]


def require_layout(layout: str) -> None:
    """Refuses a layout that is not known, or cannot be made here, before anything is computed."""
    if layout not in LAYOUTS:
        raise QueryError(f"Got the layout {layout!r}, expected {' or '.join(LAYOUTS)}.")
    if layout == "umap" and find_spec("umap") is None:
        raise QueryError(
            "The layout umap needs the library umap-learn, which is not installed; run: pip install umap-learn, or "
            "take the layout pca."
        )


def laid_out(features: Array, *, layout: str = "pca", seed: int = 0) -> tuple[Array, float | None]:
    """Places of images, (n, dim), in two dimensions, so that images with similar features are near each other.

    ``layout`` "pca" takes the first two principal components of features of length 1: distances mean what they do in
    the features, as far as two dimensions have it. "umap" shows groups, but neither their sizes nor their distances
    mean anything; it needs the library umap-learn, takes ``seed``, and more than 4 images.

    Returns
    -------
    places : float64 (n, 2)
        From 0 to 1, both axes with the same scale; the shorter one is centred.
    explained : float or None
        Share of the variance that the two components have; None for UMAP.

    Raises
    ------
    QueryError
        For another layout, for UMAP without umap-learn, or of too few images.
    DataError
        If all features are the same.

    Source: McInnes, Healy and Melville 2018, UMAP.
    """
    require_layout(layout)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    x = features / np.where(lengths > 0, lengths, 1)
    if layout == "pca":
        places, shares = principal_components(x, 2)
    elif len(x) < 5:
        raise QueryError(
            f"Got {format_count(len(x), 'image')} for the layout umap, expected 5 or more; take layout pca."
        )
    else:
        made = import_module("umap").UMAP(n_neighbors=min(15, len(x) - 1), metric="cosine", random_state=seed, n_jobs=1)
        places = np.asarray(made.fit_transform(x), np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    spread = float((high - low).max())
    return 0.5 + (places - (low + high) / 2) / (spread or 1), float(shares.sum()) if layout == "pca" else None


def select_apart(places: Array, size: float) -> list[int]:
    """Numbers of images whose squares of this side around their places do not overlap, the first ones first.

    >>> select_apart(np.array([[0.0, 0.0], [0.05, 0.0], [0.0, 0.2]]), 0.1)
    [0, 2]
    """
    taken: list[int] = []
    for number, place in enumerate(places):
        if (np.abs(places[taken] - place).max(axis=1) >= size).all():
            taken.append(number)
    return taken
