"""Singular values of features, as precisely as the question that is asked of them needs.

=============  ===============================================================  ========================================
step           what is computed                                                 certain down to, of the largest value
=============  ===============================================================  ========================================
float32        Gram matrix, products in float32 (:mod:`.gram`), one pass, and   3e-4
               eigenvalues in float32 (:mod:`.eigenvalues`)
float32 sums   the same sums, eigenvalues in float64                            3e-4
float64 sums   the same with products in float64, a second pass                 2e-8
QR             triangular factor of the rows in float64 and its singular        1e-15
               values, a third pass
=============  ===============================================================  ========================================

A metric takes the first step whose estimated error is small enough for it: a decaying spectrum is settled by the first,
values that collapsed to the rounding of the features need the last. Few rows (n < dim) go through the n x n side in
float64, or the singular value decomposition of the rows. Sums alone (:class:`.gram.Gram`, or batches that come once)
have one step, and metrics say so where it is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...errors import DataError, MissingExtra
from ..streamed_checks import Array
from ..threads import threads_for
from .eigenvalues import SINGLE, eigenvalues, in_float32, largest_error, spread
from .gram import Gram
from .moments import ROUNDING, Moments
from .row_blocks import RowBlocks
from .stripes import block_rows

try:
    import numpy as np
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="models", needed_for="A spectral metric") from error

AS_THEY_ARE, CENTRED, STANDARDISED = "as they are", "centred", "standardised"
"""What singular values are asked of: features, features less their mean, and those over their standard deviation times
the root of n, whose squares are the eigenvalues of the correlation matrix."""

_SUMS_ONLY = "float32 sums"
_SINGLE_FROM = 1024  # features; of fewer, eigenvalues in float64 take a moment too
_DIRECT = 3e8  # n * dim * min(n, dim) up to which the plain decomposition takes a moment only
_QR_NUMBERS = 1 << 25  # of a block of rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolved:
    """Singular values, descending, float64 (k,), in units of ``unit``, and how far they can be trusted.

    ``entry_error`` is the root mean square error of an entry of the matrix whose eigenvalues their squares are,
    ``matrix_error`` that of the matrix as a whole, in squared units, and ``rounding`` the relative rounding with which
    its eigenvalues were computed. All are 0 if the values come from the rows themselves. ``largest`` is the largest
    singular value of the features as they are, or a little less.
    """

    values: Array
    unit: float
    largest: float
    entry_error: float = 0.0
    matrix_error: float = 0.0
    rounding: float = 0.0
    n_constant: int = 0  # features that never change

    @property
    def norm_error(self) -> float:
        """What no square is off by more than, in squared units."""
        return self.matrix_error + largest_error(self.values**2, self.rounding)

    @property
    def spread(self) -> Array:
        """Standard deviation of the error of each square (k,), where it stands clear of :attr:`norm_error`."""
        squares = self.values**2
        of_matrix = math.sqrt(2) * np.hypot(self.entry_error, self.entry_error / squares.mean() * squares)
        found: Array = np.hypot(of_matrix, spread(squares, self.rounding))
        return found


class Spectrum:
    """The spectral side of some features: what every spectral metric reads.

    Attributes
    ----------
    n, dim : int
        Rows and features.
    resolution : float
        Relative rounding of the numbers that the features are stored in; of sums, that of float32.
    """

    def __init__(self, source: RowBlocks | Moments) -> None:
        self._source = source
        self._moments: dict[str, Moments] = {}
        self._known: dict[tuple[str, str], Resolved] = {}
        if isinstance(source, Moments):
            self.n, self.dim, self.resolution = source.count, len(source.mean), torch.finfo(torch.float32).eps
            self._steps: tuple[str, ...] = ("sums",)
            return
        self.n, self.dim, self.resolution = source.n, source.dim, torch.finfo(source.dtype).eps
        if self.n * self.dim * min(self.n, self.dim) <= _DIRECT:
            self._steps = ("decomposition",)
        elif self.n < self.dim:
            self._steps = ("rows", "decomposition")
        else:
            self._steps = ("float32", _SUMS_ONLY, "float64", "QR")

    def resolve(self, of: str, enough: Callable[[Resolved], bool]) -> Resolved:
        """Singular values of the features ``of`` that description, at the first precision that is enough, or the last.

        Raises
        ------
        DataError
            If a number is not finite, or all rows are equal.
        """
        found: Resolved | None = None
        for step in self._steps:
            if found and step == _SUMS_ONLY and not enough(replace(found, rounding=ROUNDING)):
                continue  # better eigenvalues of the same sums are of no use
            found = self._known.get((step, of)) or self._found(step, of)
            self._known[step, of] = found
            if enough(found):
                break
        assert found is not None
        return found

    def require(self, least: int, needed_for: str) -> Spectrum:
        """Itself, if it has so many rows.

        Raises
        ------
        DataError
        """
        if self.n < least:
            raise DataError(
                f"The features have {self.n} row{'s' * (self.n != 1)}, but {needed_for} needs at least {least}: "
                "give it more images."
            )
        return self

    def _found(self, step: str, of: str) -> Resolved:
        if step in ("rows", "decomposition"):
            return self._of_rows(step, of)
        if step == "QR":
            return self._of_triangle(of)
        return self._of_moments(self._sums(step.removesuffix(" sums")), of, single=step == "float32")

    def _sums(self, step: str) -> Moments:
        if step not in self._moments:
            self._moments[step] = self._source if isinstance(self._source, Moments) else self._summed(step)
        _require_varied(bool(self._moments[step].constant.all()), self.n)
        return self._moments[step]

    def _summed(self, precision: str) -> Moments:
        assert isinstance(self._source, RowBlocks)
        gram = Gram(precision=precision)
        with threads_for(0):  # PyTorch's would wait in loops for their next work, on the cores that BLAS needs
            for rows in self._source.blocks(4 * block_rows(self.dim)):
                gram.add(rows)
        return gram.moments() if precision == "float64" or gram.in_range else self._sums("float64")

    def _of_moments(self, moments: Moments, of: str, *, single: bool) -> Resolved:
        kept = ~moments.constant
        rounded = moments.lost * float(moments.squares.sum()) / self.dim
        single = single and self.dim >= _SINGLE_FROM and moments.scatter.device.type == "cpu"
        matrix, mean = moments.scatter, moments.mean if of == AS_THEY_ARE else None
        if of == STANDARDISED:
            variances = moments.scatter.diagonal()[kept]
            matrix = moments.scatter[kept][:, kept] / variances.sqrt() / variances.sqrt()[:, None]
            rounded = moments.lost * float((moments.squares[kept] / variances).mean())
        if single:
            matrix = in_float32(matrix, mean, moments.count)
        elif of == AS_THEY_ARE:
            matrix = moments.second_moment
        values = eigenvalues(matrix)[: self._rank_at_most(of)].clamp_min_(0).sqrt_().cpu().numpy()
        offset = math.sqrt(self.n) * float(torch.linalg.vector_norm(moments.mean))
        return Resolved(
            values=values,
            unit=moments.unit,
            largest=max(float(values[0]), offset),
            entry_error=rounded,
            matrix_error=2 * rounded * math.sqrt(len(matrix)),
            rounding=SINGLE if single else ROUNDING,
            n_constant=self.dim - int(kept.sum()),
        )

    def _of_rows(self, step: str, of: str) -> Resolved:
        """From all rows in float64: few, or of few features."""
        assert isinstance(self._source, RowBlocks)
        rows = self._source.in_float64()
        kept = (rows != rows[0]).any(dim=0)
        _require_varied(not bool(kept.any()), self.n)
        unit = math.ldexp(1.0, math.frexp(float(rows.abs().max()))[1] - 1)
        rows /= unit
        mean = rows[0] + (rows - rows[0]).mean(dim=0)
        if of != AS_THEY_ARE:
            rows -= mean
        if of == STANDARDISED:
            rows = rows[:, kept]
            rows /= torch.linalg.vector_norm(rows, dim=0)
        offset = math.sqrt(self.n) * float(torch.linalg.vector_norm(mean))
        n_constant, rounding, error = self.dim - int(kept.sum()), 0.0, 0.0
        if step == "rows":
            values = eigenvalues(rows @ rows.T).clamp_min_(0).sqrt_()
            rounding, error = ROUNDING, ROUNDING * math.sqrt(self.dim) * float(rows.square().sum()) / self.n
        else:
            values = torch.linalg.svdvals(rows)
        found = values[: self._rank_at_most(of)].cpu().numpy()
        return Resolved(
            values=found,
            unit=unit,
            largest=max(float(found[0]), offset),
            entry_error=error,
            matrix_error=2 * error * math.sqrt(self.n),
            rounding=rounding,
            n_constant=n_constant,
        )

    def _of_triangle(self, of: str) -> Resolved:
        """From the triangular factor of all rows, which a pass over them in float64 makes."""
        assert isinstance(self._source, RowBlocks)
        moments = self._sums("float64")
        kept = ~moments.constant if of == STANDARDISED else slice(None)
        spread = moments.scatter.diagonal()[kept].sqrt()
        triangle: Tensor | None = None
        for rows in self._source.blocks(max(self.dim // 2, min(4 * self.dim, _QR_NUMBERS // self.dim))):
            block = rows.double() / moments.unit
            if of != AS_THEY_ARE:
                block -= moments.mean
            if of == STANDARDISED:
                block = block[:, kept] / spread
            stacked = block if triangle is None else torch.cat([triangle, block])
            triangle = torch.linalg.qr(stacked, mode="r")[1]
        assert triangle is not None
        values = torch.linalg.svdvals(triangle)[: self._rank_at_most(of)].cpu().numpy()
        offset = math.sqrt(self.n) * float(torch.linalg.vector_norm(moments.mean))
        return Resolved(
            values=values,
            unit=moments.unit,
            largest=max(float(values[0]), offset),
            n_constant=int(moments.constant.sum()),
        )

    def _rank_at_most(self, of: str) -> int:
        return min(self.n - (of != AS_THEY_ARE), self.dim)


def spectrum_of(z: Any, name: str = "z") -> Spectrum:
    """Features ready for spectral metrics, all of which read from one pass over them.

    Parameters
    ----------
    z : array, tensor, :attr:`zoo.features.Features.x`, shape (n, dim); or :class:`Gram`, or an iterator of batches
        What can be read again is read again where more precision is needed, in blocks: it may be larger than memory.
        An iterator is read once, with products in float64.
    name : str
        What errors call it.

    Examples
    --------
    >>> import torch
    >>> spectrum_of(torch.eye(3).double()).dim
    3
    """
    if isinstance(z, Spectrum):
        return z
    if isinstance(z, Iterator):
        batches, z = z, Gram()
        for batch in batches:
            z.update(batch)
    return Spectrum(z.moments() if isinstance(z, Gram) else RowBlocks(z, name))


def _require_varied(constant: bool, n: int) -> None:
    if constant:
        raise DataError(
            f"All {n} rows of the features are equal, so that a spectral metric is not defined: the representation has "
            "collapsed to a point, or it is always the same image."
        )
