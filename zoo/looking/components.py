"""Patches of images: their principal components as colours, and how similar they are to one of them.

Maps, (n, dim, rows, columns), have the features of every cell of a grid over n images, a patch.
"""

from __future__ import annotations

from ..errors import DataError, QueryError
from ..evaluation.arrays import Array
from ..evaluation.eigen import compute_eigh
from ..optional import require_extra

with require_extra("models", needed_for="Looking at maps"):
    import numpy as np
    import torch


def principal_components(rows: Array, k: int) -> tuple[Array, Array]:
    """Rows, (n, dim), along the k directions in which they vary most, and the shares of the variance that these have.

    Rows are centred and not scaled. Of the two signs of a direction the one is taken in which its largest loading is
    positive (as scikit-learn's ``svd_flip``), so that scores are the same on every processor and for every order of the
    rows, up to rounding, as long as no two shares are equal.

    Returns
    -------
    scores : float64 (n, k), in units of the features; 0 along directions without variance
    explained : float64 (k,), from 0 to 1, descending

    Raises
    ------
    DataError
        If all rows are the same, or a number is not finite.

    Examples
    --------
    >>> scores, explained = principal_components(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]), 2)
    >>> scores[:, 0].tolist(), explained.tolist()
    ([-2.0, 0.0, 2.0], [1.0, 0.0])
    """
    centred = np.array(rows, np.float64)
    if not np.isfinite(centred).all():
        raise DataError("Features to look at are not finite; check the weights and the images.")
    rounding = 1e-24 * float(np.vdot(centred, centred))
    centred -= centred.mean(axis=0)
    if (total := float(np.vdot(centred, centred))) <= rounding:
        raise DataError("All features to look at are the same, and have no principal components; look at other images.")
    is_wide = centred.shape[1] > len(centred)  # then the products of rows have the same eigenvalues, and are fewer
    products = centred @ centred.T if is_wide else centred.T @ centred
    values, vectors = (one.numpy() for one in compute_eigh(torch.from_numpy(products)))
    scores, explained = np.zeros((len(centred), k)), np.zeros(k)
    for place in range(min(k, len(values))):
        value, axis = float(values[-1 - place]), vectors[:, -1 - place]
        if value > 1e-12 * total:
            axis = centred.T @ axis / value**0.5 if is_wide else axis
            explained[place] = value / total
            scores[:, place] = centred @ axis * np.sign(axis[np.abs(axis).argmax()])
    return scores, explained


def component_colours(maps: Array) -> tuple[Array, Array]:
    """The first three principal components of all patches of all images as red, green and blue.

    All images, (n, dim, rows, columns), have one basis and one scale, so that a colour means the same in each of them:
    from 0 at the quantile 1 % of a component over all patches to 255 at 99 %.

    Returns
    -------
    colours : uint8 (n, rows, columns, 3); 128 where a component has no variance
    explained : float64 (3,)
        Share of the variance of the patches that each component has, descending.

    Raises
    ------
    DataError
        If all patches are the same, or a number is not finite.

    Source: Oquab et al. 2024, DINOv2, Section 7.5, without their threshold on the first component.
    """
    patches = np.moveaxis(maps, 1, 3)
    scores, explained = principal_components(patches.reshape(-1, maps.shape[1]), 3)
    low, high = np.quantile(scores, (0.01, 0.99), axis=0)
    shares = np.where(high > low, (scores - low) / np.where(high > low, high - low, 1), 0.5)
    return np.rint(255 * shares.clip(0, 1)).astype(np.uint8).reshape(*patches.shape[:3], 3), explained


def patch_similarity(maps: Array, image: int, at: tuple[int, int]) -> Array:
    """Cosine of the features of every patch of all images with those of one patch.

    Parameters
    ----------
    maps : (n, dim, rows, columns)
    image : int
        Number of the image with the patch.
    at : (int, int)
        Its row and column, from 0 at the top left.

    Returns
    -------
    similarity : float64 (n, rows, columns)
        From -1 to 1, higher is more similar: 1 at the patch itself, and 0 where features are 0.

    Raises
    ------
    QueryError
        If the patch is outside of the grid.
    """
    n_rows, n_columns = maps.shape[2:]
    if not (0 <= at[0] < n_rows and 0 <= at[1] < n_columns):
        raise QueryError(
            f"Got the patch {at[0]},{at[1]} of a grid of {n_rows} rows and {n_columns} columns, expected 0,0 to "
            f"{n_rows - 1},{n_columns - 1}; name another one."
        )
    patch = maps[image, :, at[0], at[1]].astype(np.float64)
    similarity = np.empty((len(maps), n_rows, n_columns))
    for found, one in zip(similarity, maps, strict=True):
        lengths = np.linalg.norm(one.astype(np.float64), axis=0) * np.linalg.norm(patch)
        found[:] = np.tensordot(patch, one, 1) / np.where(lengths > 0, lengths, 1)
    return similarity.clip(-1, 1)
