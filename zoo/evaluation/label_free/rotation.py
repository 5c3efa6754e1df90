"""Rotation prediction: can nearest neighbours tell from the features by how much an image was turned?"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..neighbours import NeighbourProbe
from ..streamed_checks import Array, width_checked
from .arrays import require_varied, views_of
from .cosine_rows import in_range

with requires_extra("evaluate", needed_for="Rotation prediction"):
    import numpy as np

ROTATIONS_DEGREES = (0, 90, 180, 270)
"""In the order in which they are expected."""
_LEAST = 4
_NEEDED_FOR = "rotation prediction"


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationAccuracy:
    """Accuracy in percent, 25 being chance, and how it came about.

    ``value`` is over all turned validation images; ``standard_error`` (percentage points) takes the four turns of an
    image as one observation, and is None for a single validation image; ``per_rotation`` are the accuracies for 0, 90,
    180 and 270 degrees. ``k`` is smaller than was asked for where there are fewer training rows. ``n_train`` and
    ``n_val`` count images, not turned ones. ``n_shared`` validation images have, unturned, exactly the features of a
    training image.
    """

    value: float
    standard_error: float | None
    per_rotation: tuple[float, float, float, float]
    k: int
    temperature: float
    n_train: int
    n_val: int
    n_shared: int


def rotation_accuracy(
    z: Any,
    z_val: Any,
    *,
    k: int = 20,
    temperature: float = 0.07,
    one_each: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> RotationAccuracy:
    """Accuracy at telling 0, 90, 180 and 270 degrees apart, from features of turned images.

    Neighbours are sought by cosine similarity among the turned training images, and vote with the weight
    exp(similarity / temperature) (:class:`zoo.evaluation.neighbours.NeighbourProbe`). Of equal votes the smaller turn
    wins, so that features which do not change with the turn give 25 percent.

    Parameters
    ----------
    z : array, shape (n_images, 4, dim)
        Features of training images, each turned by 0, 90, 180 and 270 degrees, in that order.
    z_val : array, shape (n_images, 4, dim)
        The same of other images. No image belongs in both, for an image would then find itself.
    k : int
        Neighbours that vote. The paper does not say how many.
    temperature : float
    one_each : bool
        Train on one turn of each image, drawn by ``seed``, as a loader that turns images at random would give them.
        By default all four are used, which no draw of a seed can change.
    seed : int
    device : str, optional
        Of torch; None takes a GPU if there is one.

    Returns
    -------
    RotationAccuracy
        ``value`` in percent; higher is better.

    Raises
    ------
    DataError
        If the shape is not (n_images, 4, dim), there are fewer than 4 training or 2 validation images, widths differ,
        features are not finite or all the same, or the validation images are all among the training images.
    QueryError
        If an option is out of its range.

    References
    ----------
    CLID, arXiv:2206.01251, section 3.2, after Reed et al. 2021.

    Examples
    --------
    >>> turns = np.eye(4)[None] + np.zeros((6, 1, 1))  # each turn has a direction of its own
    >>> found = rotation_accuracy(turns, turns[:3] + [0.25, 0.0, 0.0, 0.0], k=3)
    >>> found.value, found.n_train
    (100.0, 6)
    """
    rows, n_train = _turned(z, "z")
    rows_val, n_val = _turned(z_val, "z_val")
    width_checked(rows_val, rows.shape[1], "z_val", _NEEDED_FOR)
    if n_train < _LEAST:
        raise DataError(f"z has {n_train} images, but {_NEEDED_FOR} needs at least {_LEAST} to learn from.")
    require_varied(rows, "z", needed_for=_NEEDED_FOR)
    n_shared = _shared(rows[::4], rows_val[::4])
    if n_shared == n_val:
        raise DataError(
            f"All {n_val} images of z_val are also in z, but {_NEEDED_FOR} tests on images that it has not learnt "
            "from: divide the images first, with all four turns of an image on one side."
        )
    turns = np.tile(np.arange(4), n_train)
    if one_each:
        drawn = 4 * np.arange(n_train) + np.random.default_rng(seed).integers(4, size=n_train)
        rows, turns = rows[drawn], turns[drawn]
        if len(np.unique(turns)) < 4:
            raise DataError(
                f"Of the turns of {n_train} images, drawn one each with the seed {seed}, some were never drawn, "
                "expected all four: give it more images, or leave out one_each."
            )
    probe = NeighbourProbe(k=k, temperature=temperature, device=device).fit(in_range(rows), turns)
    correct = (probe.predict(in_range(rows_val)) == np.tile(np.arange(4), n_val)).reshape(n_val, 4)
    shares = correct.mean(axis=1)
    zero, quarter, half, three_quarters = (100 * correct.mean(axis=0)).tolist()
    return RotationAccuracy(
        value=100 * float(correct.mean()),
        standard_error=100 * float(shares.std(ddof=1)) / n_val**0.5,
        per_rotation=(zero, quarter, half, three_quarters),
        k=int(probe.k_),
        temperature=float(temperature),
        n_train=n_train,
        n_val=n_val,
        n_shared=n_shared,
    )


def _turned(z: Any, name: str) -> tuple[Array, int]:
    """Features of turned images as rows (4 n_images, dim), the four turns of an image in succession."""
    shape = tuple(getattr(z, "shape", ())) or np.shape(z)
    if len(shape) != 3 or shape[1] != 4:
        raise DataError(
            f"{name} has the shape {shape}, expected (n_images, 4, dim): the features of each image turned by 0, 90, "
            "180 and 270 degrees, in that order."
        )
    return views_of(z, name=name, needed_for=_NEEDED_FOR)[0], int(shape[0])


def _shared(rows: Array, rows_val: Array) -> int:
    """How many validation rows equal a training row to the last digit."""
    dtype = np.result_type(rows, rows_val)
    known = {_digest(row) for row in rows.astype(dtype, copy=False)}
    return sum(_digest(row) in known for row in rows_val.astype(dtype, copy=False))


def _digest(row: Array) -> bytes:
    return blake2b(row.tobytes(), digest_size=16).digest()
