"""Views around the mean of their image: what LiDAR and neural collapse are made from, without a copy of the rows.

All sums are taken of deviations from the mean of an image, which are formed in float64, so that features far from the
origin lose nothing; columns are scaled by powers of two, so that features of any size stay in range. The products of
deviations (:mod:`.row_products`) are the expensive part and may be taken in float32; whether that is good enough is for
the caller to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import MissingExtra
from ..streamed_checks import Array

try:
    import numpy as np
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="The scatter of views") from error

_PIECE_BYTES = 1 << 22  # of float64 deviations, so that they stay in the cache while they are made


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Views:
    """Rows of images, and the mean of each image.

    Attributes
    ----------
    rows : array (n_rows, dim)
        As they were given.
    ids : int64 tensor (n_rows,)
        Number of the image of each.
    counts : float64 tensor (n_images,)
        Views of each image.
    means : float64 tensor (n_images, dim)
    n_each : int
        Views of every image, if all have as many and follow each other; else 0.
    scale : float64 tensor (dim,)
        Power of two that brings the largest number of a column to between 0.5 and 1; 1 for a column of zeros.
    """

    rows: Array
    ids: torch.Tensor
    counts: torch.Tensor
    means: torch.Tensor
    scale: torch.Tensor
    n_each: int = 0

    @property
    def dim(self) -> int:
        """Columns."""
        return int(self.rows.shape[1])

    @property
    def n_images(self) -> int:
        """Images."""
        return len(self.counts)

    @property
    def within_freedom(self) -> int:
        """Rows less images: what the scatter within images is divided by, and the largest rank that it can have."""
        return len(self.rows) - self.n_images

    @property
    def n_views(self) -> tuple[int, int]:
        """Views of the image with the fewest, and with the most."""
        return int(self.counts.min()), int(self.counts.max())

    def deviations(self) -> Iterator[torch.Tensor]:
        """Scaled deviations of the rows from the mean of their image, float64 (m, dim), piece by piece."""
        for part in _pieces(len(self.rows), self.dim):
            piece = _tensor(self.rows[part]).to(torch.float64, copy=True)
            yield piece.sub_(self.means[self.ids[part]]).mul_(self.scale)

    def contrasts(self, *, single: bool = False) -> Iterator[torch.Tensor]:
        """Rows (m, dim) whose products add up to those of :meth:`deviations`, piece by piece.

        If all images have q views each and in order, there are q - 1 of an image: differences d from its first view,
        less (1 - 1 / sqrt(q)) / (q - 1) of their sum, for I - 11'/q is the square of I - c 11' with that c. In float32,
        on request, where that loses nothing that counts: differences of views of one image are exact, and so is the
        scale.
        """
        if not self.n_each:
            yield from self.deviations()
            return
        kind = torch.float32 if single else torch.float64
        share, scale = (1 - self.n_each**-0.5) / (self.n_each - 1), self.scale.to(kind)
        for part in _pieces(self.n_images, self.n_each * self.dim, 4 if single else 8):
            views = _tensor(self.rows[part.start * self.n_each : part.stop * self.n_each]).to(kind)
            views = views.view(-1, self.n_each, self.dim)
            away = (views[:, 1:] - views[:, :1]).mul_(scale)
            away -= away.sum(dim=1, keepdim=True).mul_(share)
            yield away.view(-1, self.dim)

    def centred_means(self) -> torch.Tensor:
        """Scaled means of images, less the mean of these, float64 (n_images, dim)."""
        return torch.cat(list(self.pieces_of_means()))

    def pieces_of_means(self) -> Iterator[torch.Tensor]:
        """The same (m, dim), piece by piece."""
        middle = self.means.mean(dim=0)
        for part in _pieces(self.n_images, self.dim):
            yield (self.means[part] - middle).mul_(self.scale)

    def squared_means(self) -> torch.Tensor:
        """Sum over rows of the squares of the scaled mean of their image, float64 (dim,)."""
        total = torch.zeros_like(self.scale)
        for part in _pieces(self.n_images, self.dim):
            total += self.counts[part] @ (self.means[part] * self.scale).square_()
        return total


def grouped(rows: Array, ids: Array, *, scaled: bool = True) -> Views:
    """Rows with the means of their images, which one pass over the rows gives.

    Parameters
    ----------
    rows : float array (n_rows, dim)
    ids : int64 array (n_rows,)
        Numbers from 0 without gaps.
    scaled : bool
        False for a scale of 1.
    """
    numbers = torch.from_numpy(np.ascontiguousarray(ids))
    counts = torch.bincount(numbers).double()
    n_each = len(rows) // len(counts)
    if rows.dtype == np.float32 and np.array_equal(ids, np.repeat(np.arange(len(counts)), n_each)):
        return _grouped_in_order(rows, numbers, counts, n_each, scaled=scaled)
    sums = torch.zeros((len(counts), rows.shape[1]), dtype=torch.float64)
    largest = torch.zeros(rows.shape[1], dtype=torch.float64)
    for part in _pieces(len(rows), rows.shape[1]):
        piece = _tensor(rows[part]).double()
        sums.index_add_(0, numbers[part], piece)
        largest = torch.maximum(largest, torch.maximum(-piece.amin(dim=0), piece.amax(dim=0)))
    scale = torch.ones_like(largest)
    if scaled:
        scale = torch.where(largest > 0, torch.exp2(-torch.frexp(largest)[1].double()), scale)
    return Views(rows=rows, ids=numbers, counts=counts, means=sums / counts[:, None], scale=scale)


def _grouped_in_order(rows: Array, ids: torch.Tensor, counts: torch.Tensor, n_each: int, *, scaled: bool) -> Views:
    """The same for float32 rows of images that have equally many views, one image after the other."""
    dim = rows.shape[1]
    means = torch.empty((len(counts), dim), dtype=torch.float64)
    largest = torch.zeros(dim)
    for part in _pieces(len(counts), n_each * dim, 4):
        piece = _tensor(rows[part.start * n_each : part.stop * n_each])
        first = piece[::n_each]
        away = piece.view(-1, n_each, dim) - first[:, None]
        means[part] = first.double() + away.mean(dim=1)
        extremes = np.maximum(piece.numpy().max(axis=0), -piece.numpy().min(axis=0))  # less time than torch takes
        largest = torch.maximum(largest, torch.from_numpy(extremes))
    scale = torch.ones(dim, dtype=torch.float64)
    if scaled:
        scale = torch.where(largest > 0, torch.exp2(-torch.frexp(largest.double())[1].double()), scale)
    in_range = bool(((scale > 2.0**-100) & (scale < 2.0**100)).all())  # of float32, squares included
    return Views(rows=rows, ids=ids, counts=counts, means=means, scale=scale, n_each=n_each if in_range else 0)


def unit_roundoff(given: Any, rows: Array) -> float:
    """Largest relative error that a number of the rows has from being stored: half a unit in its last place.

    float64 numbers that are float32 numbers all of them were stored as such once.

    >>> unit_roundoff(None, np.ones((2, 2), dtype=np.float32)) == 2.0**-24
    True
    """
    kind = str(getattr(given, "dtype", ""))
    if kind.endswith("bfloat16"):
        return 2.0**-8
    if kind.endswith("float16"):
        return 2.0**-11
    if rows.dtype == np.float32:
        return _roundoff_of_single(rows)
    with np.errstate(over="ignore", under="ignore"):
        for part in _pieces(len(rows), rows.shape[1]):
            if not np.array_equal(rows[part], rows[part].astype(np.float32)):
                return 2.0**-53
    return 2.0**-24


def _roundoff_of_single(rows: Array) -> float:
    """Of float32 numbers, which an encoder that computed in half precision has rounded before."""
    for kind, unit in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
        halves, whole = True, True
        for part in _pieces(len(rows), rows.shape[1]):
            piece = _tensor(rows[part])
            halves = bool((piece.to(kind).float() == piece).all())
            whole = whole and bool((piece == piece.round()).all())
            if not halves:
                break
        if halves and not whole:  # small whole numbers are exact in any precision
            return unit
    return 2.0**-24


def _pieces(n_rows: int, dim: int, n_bytes: int = 8) -> Iterator[slice]:
    step = max(1, _PIECE_BYTES // (n_bytes * dim))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _tensor(rows: Array) -> torch.Tensor:
    """Rows as a tensor; copied where torch could not share the memory of it."""
    rows = np.ascontiguousarray(rows)
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())
