"""Singular values of features in float64, each with an interval that holds the true one; sums of products of rows.

Features (n, dim) are read in blocks, so that they may be larger than memory. Their second moments are added up
(:class:`Gram`; where n < dim, the n x n products of the rows) and LAPACK gives the eigenvalues. Squaring loses singular
values below about 1e-6 of the largest. Each metric states how narrow the intervals have to be; where those of the sums
are too wide, the values come from a matrix with the scatter of the rows that was never squared: the rows themselves, or
the triangular factor of QR decompositions of their blocks. Sums alone have no rows to go back to.

The intervals follow from the arithmetic, on any processor and with any number of threads:

* A sum of m products in any order is off by at most m u / (1 - m u) times the sum of their absolute values, with
  u = 2**-53 (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1). Blocks are added up one by one,
  so that m is the rows of a block plus the number of blocks.
* If the entries of an error E are at most sqrt(e_i e_j), no eigenvalue moves by more than |E| <= sum(e) (Weyl).
* LAPACK's eigenvalues of A are those of a matrix at most p(k) u |A| away, and singular values likewise; p(k) = 10 k is
  what its Users' Guide advises (3rd ed., sections 4.1 and 4.7).

Memory: about four matrices of 8 min(n, dim)**2 bytes (0.13 GB for 2,048 features, 2.1 GB for 8,192) and a block of
rows; for the triangular factor, or where n < dim, about three times 8 min(n, 5 dim) dim bytes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..arrays import Array
from ..eigen import eigvalsh, svdvals
from .arrays import RowBlocks, collapsed, require_finite, require_rows, tensor_of

with requires_extra("models", needed_for="A spectral metric"):
    import numpy as np
    import torch
    from torch import Tensor

# Descriptions: singular values of the features, of the features less their mean, and of those over their standard
# deviation times the root of n, whose squares are the eigenvalues of the correlation matrix.
AS_THEY_ARE, CENTRED, STANDARDISED = "as they are", "centred", "standardised"

ROUNDING = 2.0**-53  # relative, of float64
_LAPACK_FACTOR = 10  # p(k) / k
_BLOCK_ROWS, _STRIPE_COLUMNS = 2048, 256  # of one product
_SHIFT_ROWS = 512  # the first ones, by whose mean all rows are shifted
_SVD_OPERATIONS = 3e8  # n * dim * min(n, dim) up to which the singular values of the rows are taken directly
_QR_NUMBERS = 1 << 25  # of a block of rows
_LARGEST = 2.0**300  # features between its inverse and it have squares that add up without overflow or underflow
_MOST_PROCESSES = 4096  # whose states may be added up


class Products:
    """Sum of the outer products of rows: float64 ``upper`` (dim, dim), of which the upper triangle is valid."""

    def __init__(self, dim: int, device: Any = "cpu") -> None:
        self.upper = torch.zeros(dim, dim, dtype=torch.float64, device=device)
        self.longest = 0  # roundings that a term of an entry may have passed through

    def add(self, rows: Tensor) -> None:
        """Adds float64 rows (m, dim)."""
        for block in torch.split(rows, _BLOCK_ROWS):
            for start in range(0, len(self.upper), _STRIPE_COLUMNS):  # only blocks on and above the diagonal
                stop = start + _STRIPE_COLUMNS
                self.upper[start:stop, start:] += block[:, start:stop].T @ block[:, start:]
            self.longest = max(self.longest, len(block)) + 1


def rounding_of_lapack(k: int) -> float:
    """Error bound of eigenvalues or singular values of a matrix of k rows and columns, relative to its norm."""
    return _LAPACK_FACTOR * k * ROUNDING


def second_moments(pieces: Iterable[Tensor], dim: int) -> Tensor:
    """Sum of the outer products of float64 rows in pieces (m, dim): float64 (dim, dim), symmetric."""
    products = Products(dim)
    for rows in _joined(pieces, _BLOCK_ROWS):
        products.add(rows)
    return mirrored(products.upper)


def triangular_factor(pieces: Iterable[Tensor], dim: int) -> tuple[Tensor, float]:
    """Upper triangular R with R'R the second moments of float64 rows in pieces (m, dim), and its relative error.

    Nothing is squared, so that directions of 1e-10 of the largest survive. R is the exact factor of rows that are, in
    the Frobenius norm, at most the error times their norm away.
    """
    factor, error = torch.zeros(0, dim, dtype=torch.float64), 0.0
    for rows in _joined(pieces, max(dim, min(4 * dim, _QR_NUMBERS // dim))):
        stacked = torch.cat([factor.to(rows.device), rows])
        factor = torch.linalg.qr(stacked, mode="r")[1]
        error += rounding_of_lapack(len(stacked))
    return factor, error


def eigenvalues(upper: Tensor) -> Tensor:
    """Eigenvalues of the symmetric matrix (k, k) with this upper triangle: descending, none below 0."""
    return eigvalsh(upper, UPLO="U").flip(0).clamp_min_(0)


def mirrored(upper: Tensor) -> Tensor:
    """Copy the upper triangle of a matrix to the lower one, in place."""
    for start in range(0, len(upper), 256):
        stop = start + 256
        block = upper[start:stop, start:stop]
        block.copy_(block.triu() + block.triu(1).T)
        upper[stop:, start:stop] = upper[start:stop, stop:].T
    return upper


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Mean and scatter of all rows: float64 tensors, in units of ``unit``.

    ``scatter`` (dim, dim), of which the upper triangle is valid, is the sum of outer products of deviations from the
    mean. Its entry (i, j) is off by at most sqrt(e_i e_j) for e = ``error``, (dim,); likewise that of
    :attr:`second_moment` for e = ``error_as_they_are``.
    """

    count: int
    unit: float
    mean: Tensor
    scatter: Tensor
    error: Tensor
    error_as_they_are: Tensor

    @property
    def second_moment(self) -> Tensor:
        """Sum of outer products of the rows as they are, (dim, dim); the upper triangle is valid."""
        return torch.addr(self.scatter, self.mean, self.mean, alpha=self.count)

    @property
    def constant(self) -> Tensor:
        """Features that do not vary by more than the error of the sums, bool (dim,)."""
        return self.scatter.diagonal() <= self.error


class Gram:
    """Count, sum and second moments of rows that come in batches, in float64.

    Rows are shifted by the mean of the first ones before they are multiplied, so that features far from the origin lose
    no digits, and a feature that never changes has a sum of squares of exactly 0. Memory: 8 dim**2 bytes (34 MB for
    2,048 features) on the device of the first batch. On a GPU only the first update waits for the device, and NaN is
    reported when the sums are read.

    >>> gram, other = Gram(), Gram()
    >>> gram.update(np.array([[1.0, 0.0], [3.0, 4.0]]))
    >>> other.update(np.array([[5.0, 2.0]]))
    >>> gram.merge(other)
    >>> gram.count
    3
    """

    def __init__(self) -> None:
        self.count = 0
        self._unit = 1.0  # a power of two; 1 unless squares of features are out of range
        self._products = Products(0)
        self._shift = self._total = torch.empty(0, dtype=torch.float64)
        self._more_squares = self._given_error = torch.empty(0, dtype=torch.float64)

    @property
    def dim(self) -> int:
        """Number of features; 0 before the first batch."""
        return len(self._shift)

    @torch.no_grad()
    def update(self, batch: Any) -> None:
        """Add rows (n, dim), an array or a tensor of any device; refuses NaN and another number of features."""
        rows = tensor_of(batch, "the batch")
        if not rows.numel():
            return
        if self.dim and rows.shape[1] != self.dim:
            raise DataError(f"A batch has {rows.shape[1]} features, but those before it had {self.dim}.")
        if rows.device.type == "cpu":
            require_finite(rows, self.count, "the batches so far")
        with torch.autocast(rows.device.type, enabled=False):
            self.add(rows)

    def add(self, rows: Tensor) -> None:
        """:meth:`update` by rows of :func:`.arrays.tensor_of` that were checked."""
        if not self.dim:
            self._start(rows[:_SHIFT_ROWS])
        for part in torch.split(rows.to(self._shift.device), _BLOCK_ROWS):
            moved = part.to(torch.float64, copy=True).sub_(self._shift)
            if self._unit != 1:
                moved /= self._unit
            self._products.add(moved)
            self._total += moved.sum(dim=0)
        self.count += len(rows)

    def merge(self, other: Gram) -> None:
        """Add the sums of another one, which stays as it is."""
        if not other.dim:
            return
        if not self.dim:
            self.__dict__.update(copy.deepcopy(other.__dict__))
            return
        if other.dim != self.dim:
            raise DataError(
                f"Sums of {other.dim} and of {self.dim} features cannot be added: expected the same number."
            )
        ratio = other._unit / self._unit
        step = (other._shift.to(self._shift.device) - self._shift) / self._unit
        upper, total, more, given = (
            one.to(self._shift.device) * factor
            for one, factor in (
                (other._products.upper, ratio**2),
                (other._total, ratio),
                (other._more_squares, ratio**2),
                (other._given_error, ratio**2),
            )
        )
        squares = upper.diagonal() + more
        for left, right, factor in ((step, total, 1), (total, step, 1), (step, step, other.count)):
            upper.addr_(left, right, alpha=factor)
        squares = (squares.sqrt() + math.sqrt(other.count) * step.abs()).square()
        self._more_squares += (squares - upper.diagonal()).clamp_min(0)  # of terms that cancelled
        self._given_error += given
        self._products.upper += upper
        self._products.longest = max(self._products.longest, other._products.longest + 6) + 1
        self._total += total + other.count * step
        self.count += other.count

    def state(self) -> dict[str, Array]:
        """The sums as float64 arrays that may be added, each to its own, with those of up to 4,096 processes.

        ``count`` (), ``total`` (dim,) and ``moment`` (dim, dim) are of the features as they are, ``lost`` (dim,) bounds
        the rounding. Sums about zero resolve the spread of a feature to no better than 1e-6 of its mean; :meth:`merge`
        and pickling do better. Refuses features so far from 1 that squares may overflow.
        """
        moments = self.moments()
        if moments.unit != 1:
            raise DataError(
                f"The features are as large as {moments.unit:.0e}, too far from 1 to add squares: scale them."
            )
        return {
            "count": np.array(float(moments.count)),
            "total": (moments.mean * moments.count).cpu().numpy(),
            "moment": mirrored(moments.second_moment).cpu().numpy(),
            "lost": 3 * moments.error_as_they_are.cpu().numpy(),  # of the moment, and of the total in the scatter
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Gram:
        """Sums that :meth:`state` gave, of one process or added over several."""
        new = cls()
        new._total, moment, new._given_error = (
            torch.tensor(np.asarray(state[name]), dtype=torch.float64) for name in ("total", "moment", "lost")
        )
        if moment.shape != 2 * new._total.shape or new._given_error.shape != new._total.shape:
            raise DataError(
                f"The sums have the shapes {tuple(new._total.shape)} and {tuple(moment.shape)}, expected (dim,) and "
                "(dim, dim): pass what state() returned."
            )
        new.count = round(float(state["count"]))
        new._products.upper, new._products.longest = moment, _MOST_PROCESSES
        new._shift = torch.zeros_like(new._total)
        new._more_squares = torch.zeros_like(new._total)
        return new

    def moments(self) -> Moments:
        """Mean and scatter of all rows so far; refuses NaN and infinity among them."""
        if not self.count:
            raise DataError("No features were seen yet: update with a batch first.")
        squares = self._products.upper.diagonal() + self._more_squares
        if not bool(torch.isfinite(squares).all() & torch.isfinite(self._total).all()):
            raise DataError(
                f"NaN, infinity or a number too large for float64 is in the {self.count} rows that were added up, "
                "expected finite features."
            )
        root = math.sqrt(self.count)
        mean = self._shift / self._unit + self._total / self.count
        scatter = torch.addr(self._products.upper, self._total, self._total, alpha=-1 / self.count)
        scatter.diagonal().clamp_min_(0)
        lost = (self._products.longest + 4) * ROUNDING  # of the sums, and four roundings of what is made of them
        summed = squares + 2 * (self._total / root).square()
        return Moments(
            count=self.count,
            unit=self._unit,
            mean=mean,
            scatter=scatter,
            error=lost * summed + self._given_error,
            error_as_they_are=lost * (summed.sqrt() + root * mean.abs()).square() + self._given_error,
        )

    def _start(self, rows: Tensor) -> None:
        """Shift by the mean of the first rows; exactly by its value where a feature is the same in all of them."""
        first = rows[0].double()
        deviations = rows.double() - first
        self._shift = first + deviations.mean(dim=0)
        largest = max(float(self._shift.abs().max()), float(deviations.abs().max()))
        if largest and not 1 / _LARGEST < largest < _LARGEST:
            self._unit = _power_of_two(largest)
        self._products = Products(len(first), self._shift.device)
        self._total, self._more_squares, self._given_error = (torch.zeros_like(self._shift) for _ in range(3))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SingularValues:
    """Singular values, descending, float64 (k,), and the ends of the intervals that hold the true ones.

    ``unit``, a power of two, is their unit; it is 1 for standardised features.
    """

    values: Array
    low: Array
    high: Array
    unit: float
    largest: float  # a lower bound of the largest singular value of the features as they are
    n_constant: int  # features that never change
    from_sums: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Unsquared:
    """A matrix (k, dim) with the scatter of the rows, and their mean, in units of ``unit``.

    No column of the matrix is off by more than ``error`` relative to its length.
    """

    matrix: Tensor
    mean: Tensor
    unit: float
    constant: Tensor  # bool (dim,): features that never change
    error: float

    def error_of(self, of: str) -> float:
        """Relative error of the rows under that description; standardising divides by a length that is off, too."""
        return 2 * self.error if of == STANDARDISED else self.error


class Spectrum:
    """The spectrum of some features, computed in one pass for all spectral metrics and cached.

    ``n`` rows of ``dim`` features, stored to a relative ``resolution``; of sums it is that of float32.
    """

    def __init__(self, source: RowBlocks | Moments) -> None:
        self._rows = source if isinstance(source, RowBlocks) else None
        self._moments = source if isinstance(source, Moments) else None
        self._root: _Unsquared | None = None
        self._known: dict[tuple[str, bool], SingularValues] = {}
        if self._rows is None:
            assert self._moments is not None
            self.n, self.dim = self._moments.count, len(self._moments.mean)
            self.resolution = torch.finfo(torch.float32).eps
        else:
            self.n, self.dim, self.resolution = self._rows.n, self._rows.dim, torch.finfo(self._rows.dtype).eps

    @property
    def is_of_sums(self) -> bool:
        """Whether there are sums only, so that rows cannot be read again."""
        return self._rows is None

    @property
    def _is_small(self) -> bool:
        return self._rows is not None and self.n * self.dim * min(self.n, self.dim) <= _SVD_OPERATIONS

    def resolve(self, of: str, enough: Callable[[SingularValues], bool]) -> SingularValues:
        """Singular values under description ``of``: from sums where ``enough`` accepts them, else from the rows."""
        steps = [False] if self._is_small else [True] if self._rows is None else [True, False]
        for from_sums in steps:
            key = (of, from_sums)
            if key not in self._known:
                self._known[key] = self._from_sums(of) if from_sums else self._from_rows(of)
            if enough(self._known[key]):
                break
        return self._known[key]

    def require(self, least: int, needed_for: str) -> Spectrum:
        """This spectrum; refuses fewer than ``least`` rows."""
        require_rows(self.n, least, "z", needed_for=needed_for)
        return self

    def _from_sums(self, of: str) -> SingularValues:
        if self._rows is not None and self.n < self.dim:
            return self._from_products_of_rows(of)
        moments = self._summed()
        constant = moments.constant
        error = float((moments.error_as_they_are if of == AS_THEY_ARE else moments.error).sum())
        if of == AS_THEY_ARE:
            squares = eigenvalues(moments.second_moment)
        elif of == CENTRED:
            squares = eigenvalues(moments.scatter)
        else:
            varying = ~constant
            variances = moments.scatter.diagonal()[varying]
            lengths = variances.sqrt()
            squares = eigenvalues(moments.scatter[varying][:, varying].div_(lengths).div_(lengths[:, None]))
            relative = moments.error[varying] / variances  # that of the variances multiplies eigenvalues
            error = float(relative.sum() + (relative.max() + 4 * ROUNDING) * squares[0])
        return self._of_squares(of, squares, error, moments)

    def _from_products_of_rows(self, of: str) -> SingularValues:
        """From the n x n products of the rows, of which there are fewer than features."""
        root, rows = self._unsquared(), self._matrix(of)
        products = Products(len(rows), rows.device)
        products.add(rows.T)
        lost = (products.longest + 2) * ROUNDING + 2 * root.error_of(of)
        error = lost * float(products.upper.diagonal().sum())
        return self._of_squares(of, eigenvalues(products.upper), error, root)

    def _of_squares(self, of: str, squares: Tensor, error: float, source: Moments | _Unsquared) -> SingularValues:
        """Roots of eigenvalues of products, which are off by at most ``error`` and the rounding of LAPACK."""
        error += rounding_of_lapack(len(squares)) * float(squares[0])
        found = squares.cpu().numpy()
        low, values, high = (np.sqrt(np.maximum(found + by, 0)) for by in (-error, 0.0, error))
        return self._found(of, values, low, high, source, from_sums=True)

    def _from_rows(self, of: str) -> SingularValues:
        root, matrix = self._unsquared(), self._matrix(of)
        values = svdvals(matrix).cpu().numpy()
        lost = root.error_of(of) + rounding_of_lapack(max(matrix.shape))
        error = lost * float(np.linalg.norm(values))
        low, high = np.maximum(values - error, 0), values + error
        return self._found(of, values, low, high, root, from_sums=False)

    def _found(
        self, of: str, values: Array, low: Array, high: Array, source: Moments | _Unsquared, *, from_sums: bool
    ) -> SingularValues:
        offset = math.sqrt(self.n) * float(torch.linalg.vector_norm(source.mean))
        most = min(self.n - (of != AS_THEY_ARE), self.dim)
        return SingularValues(
            values=values[:most],
            low=low[:most],
            high=high[:most],
            unit=1.0 if of == STANDARDISED else source.unit,
            largest=max(float(values[0]), offset),
            n_constant=int(source.constant.sum()),
            from_sums=from_sums,
        )

    def _matrix(self, of: str) -> Tensor:
        """A matrix with the singular values of the features under description ``of``, of no more rows than needed."""
        root = self._unsquared()
        if of == AS_THEY_ARE:
            return torch.cat([root.matrix, math.sqrt(self.n) * root.mean[None]])
        if of == CENTRED:
            return root.matrix
        varying = root.matrix[:, ~root.constant]
        standardised: Tensor = varying / torch.linalg.vector_norm(varying, dim=0)
        return standardised

    def _unsquared(self) -> _Unsquared:
        if self._root is None:
            assert self._rows is not None
            if self._is_small or self.n < self.dim:
                rows = self._rows.in_float64()
                constant = (rows == rows[0]).all(dim=0)
                self._require_varied(constant)
                unit = _power_of_two(float(rows.abs().max()))
                rows /= unit
                mean = rows[0] + (rows - rows[0]).mean(dim=0)
                rest = rows.sub_(mean).mean(dim=0)  # that rounding of a large mean left
                self._root = _Unsquared(rows.sub_(rest), mean + rest, unit, constant, 4 * self.n * ROUNDING)
            else:
                moments = self._summed()
                blocks = (rows.double() / moments.unit - moments.mean for rows in self._rows.blocks(_BLOCK_ROWS))
                factor, error = triangular_factor(blocks, self.dim)
                variances = moments.scatter.diagonal()
                rounded = ROUNDING * math.sqrt(self.n) * moments.mean.abs() / variances.sqrt()
                error += float((moments.error / variances + rounded)[~moments.constant].max())  # of the mean
                self._root = _Unsquared(factor, moments.mean, moments.unit, moments.constant, error)
        return self._root

    def _summed(self) -> Moments:
        if self._moments is None:
            assert self._rows is not None
            gram = Gram()
            for rows in self._rows.blocks(_BLOCK_ROWS):
                gram.add(rows)
            self._moments = gram.moments()
        self._require_varied(self._moments.constant)
        return self._moments

    def _require_varied(self, constant: Tensor) -> None:
        if bool(constant.all()):
            raise collapsed(self.n, "z", "a spectral metric")


def spectrum_of(z: Any, name: str = "z") -> Spectrum:
    """Features ready for spectral metrics, all of which share one pass over them.

    ``z`` is an array, a tensor or :attr:`zoo.features.Features.x` (n, dim), which may be larger than memory and is read
    again, in blocks, where sums are not precise enough; or a :class:`Gram`; or an iterator of batches, which is read
    once.

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


def _joined(pieces: Iterable[Tensor], n_rows: int) -> Iterator[Tensor]:
    """Pieces of rows as blocks of ``n_rows``, which share one buffer: each is valid until the next."""
    block, filled = torch.empty(0), 0
    for piece in pieces:
        if not len(block):
            block = piece.new_empty(n_rows, piece.shape[1])
        while len(piece):
            taken = piece[: n_rows - filled]
            block[filled : filled + len(taken)] = taken
            filled, piece = filled + len(taken), piece[len(taken) :]
            if filled == n_rows:
                yield block
                filled = 0
    if filled:
        yield block[:filled]


def _power_of_two(size: float) -> float:
    """The largest power of two up to a positive number."""
    return math.ldexp(1.0, math.frexp(size)[1] - 1)
