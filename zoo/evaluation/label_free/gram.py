"""Sums from which every spectral metric can be computed, that add up over batches and over processes.

``Gram`` keeps the number of rows, their sum and the sum of their outer products, of features that were moved by
``shift`` and multiplied by ``scale``, near their mean and to a spread of about 1: what float32 rounds is then small
against what is to be told apart, a feature that never changes has a sum of squares of exactly 0, and features of any
scale do not overflow. Only the upper triangle is computed, in stripes of columns over blocks of rows.

A product in float32 is exact to seven digits of the largest eigenvalue and no more. How much was lost is measured: some
columns of some blocks are multiplied again in float64, and the root mean square of the difference is kept with the sums
(``lost``). It tells :mod:`.spectrum` which of the singular values are to be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ..streamed_checks import Array
from .moments import ROUNDING, Moments
from .row_blocks import require_finite, tensor_of
from .stripes import COLUMNS, block_rows, empty, stripes, sum_of_rows

try:
    import numpy as np
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="A spectral metric") from error

_FIRST_ROWS = 512  # that decide on shift and scale
_SAMPLED = 8
_MEASURED = frozenset({0} | {4**power for power in range(1, 20)})  # blocks whose rounding is measured
_ACROSS = 512  # columns at least that each of the sampled ones is multiplied with
_LARGEST = 2.0**480  # beyond it a sum of squares may end at infinity
_SMALLEST = 2.0**-1000


class Gram:
    """Count, sum and second moments of rows that come in batches, in float64.

    Parameters
    ----------
    precision : "float64" or "float32"
        Of products within a block of 2,048 rows or more; sums are float64. In float32 it is about twice as fast, and
        singular values below a few ten-thousandths of the largest are noise.

    Notes
    -----
    Memory: 8 bytes times dim squared (34 MB for 2,048 features, 537 MB for 8,192), on the device of the first batch.
    On a GPU no update but the first waits for it; NaN is found when the sums are read.

    Examples
    --------
    >>> gram, other = Gram(), Gram()
    >>> gram.update(np.array([[1.0, 0.0], [3.0, 4.0]]))
    >>> other.update(np.array([[5.0, 2.0]]))
    >>> (gram + other).count
    3
    """

    def __init__(self, *, precision: str = "float64") -> None:
        if precision not in ("float64", "float32"):
            raise QueryError(f"The precision of the sums is {precision!r}, expected 'float64' or 'float32'.")
        self.precision = precision
        self.count = 0
        self._blocks = 0
        self._single = False  # whether float32 holds the scales
        self._shift = self._scale = self._total = self._moment = torch.empty(0, dtype=torch.float64)
        self._lost = self._worst = torch.zeros((), dtype=torch.float64)

    @property
    def dim(self) -> int:
        """Number of features; 0 before the first batch."""
        return len(self._shift)

    @property
    def in_range(self) -> bool:
        """Whether all numbers were finite, and no sum of squares overflowed or vanished."""
        squares = self._moment.diagonal()
        return bool(
            (torch.isfinite(squares) & torch.isfinite(self._total) & ((squares > 0) | (self._total == 0))).all()
        )

    @torch.no_grad()
    def update(self, batch: Any) -> None:
        """Adds rows (n, dim), an array or a tensor of any device.

        Raises
        ------
        DataError
            If they are no table of finite numbers, or have another number of features than those before.
        """
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
        """:meth:`update` by rows of :func:`.row_blocks.tensor_of` that were checked."""
        if not self.dim:
            self._start(rows[:_FIRST_ROWS])
        rows = rows.to(self._shift.device)
        step = block_rows(self.dim)
        product = None
        if self.precision == "float32" and len(rows) > step and rows.device.type == "cpu":
            product = torch.zeros(self.dim, self.dim)  # of which the lower triangle stays so
        for start in range(0, len(rows), step):
            self._add(rows[start : start + step], product)

    def merge(self, other: Gram) -> None:
        """Adds what another one has seen, which stays as it is."""
        if not other.dim:
            return
        if not self.dim:
            self.__dict__.update(other.copy().__dict__, precision=self.precision, _blocks=0)
            return
        if other.dim != self.dim:
            raise DataError(
                f"Sums of {other.dim} and of {self.dim} features cannot be added: expected the same number."
            )
        shift, scale, total, moment, lost = (
            one.to(self._shift.device) for one in (other._shift, other._scale, other._total, other._moment, other._lost)
        )
        ratio = self._scale / scale  # powers of two
        step = (shift - self._shift) * self._scale
        before, moment = _trace(moment), moment * ratio * ratio[:, None]
        total = total * ratio
        self._lost += lost * (_trace(moment) / before.clamp_min(_SMALLEST)).square()
        for left, right, factor in ((step, total, 1), (total, step, 1), (step, step, other.count)):
            moment.addr_(left, right, alpha=factor)
        self._moment += moment
        self._lost += (4 * ROUNDING * _trace(moment)).square()
        self._total += total + other.count * step
        self.count += other.count

    def __add__(self, other: Gram) -> Gram:
        both = self.copy()
        both.merge(other)
        return both

    def copy(self) -> Gram:
        """Another one that has seen the same."""
        new = Gram(precision=self.precision)
        for name, value in self.__dict__.items():
            setattr(new, name, value.clone() if isinstance(value, Tensor) else value)
        return new

    def state(self) -> dict[str, Array]:
        """The sums as float64 arrays that may be added, each to its own, with those of other processes.

        ``count`` (), ``total`` (dim,) and ``moment`` (dim, dim) are of the features as they are, ``lost`` () is the
        square of what rounding cost. Sums about zero know a feature's spread to no better than 1e-8 of its mean;
        :meth:`merge` and pickling do.

        Raises
        ------
        DataError
            If there are no rows yet, or squares of the features may overflow.
        """
        moments = self.moments()
        if not 1 / _LARGEST < moments.unit < _LARGEST:
            raise DataError(
                f"The features are as large as {moments.unit:.0e}, too far from 1 to add squares: scale them."
            )
        unit = moments.unit
        return {
            "count": np.array(float(moments.count)),
            "total": (moments.mean * (moments.count * unit)).cpu().numpy(),
            "moment": (moments.second_moment * unit**2).cpu().numpy(),
            "lost": np.array((moments.lost * float(moments.squares.sum()) * unit**2) ** 2),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, precision: str = "float64") -> Gram:
        """Sums that :meth:`state` gave, of one process or added over several."""
        new = cls(precision=precision)
        new._total, moment, lost = (
            torch.tensor(np.asarray(state[name]), dtype=torch.float64) for name in ("total", "moment", "lost")
        )
        if moment.shape != 2 * new._total.shape:
            raise DataError(
                f"The sums have the shapes {tuple(new._total.shape)} and {tuple(moment.shape)}, expected (dim,) and "
                "(dim, dim): pass what state() returned."
            )
        new.count, new._single = round(float(state["count"])), True
        new._moment, new._lost = moment, lost + (4 * ROUNDING * _trace(moment)).square()
        new._shift, new._scale = torch.zeros_like(new._total), torch.ones_like(new._total)
        return new

    def moments(self) -> Moments:
        """Mean and scatter of all rows so far.

        Raises
        ------
        DataError
            If there are none, or a number that is not finite is among them.
        """
        if not self.count:
            raise DataError("No features were seen yet: update with a batch first.")
        if not bool(torch.isfinite(self._moment.diagonal()).all() & torch.isfinite(self._total).all()):
            raise DataError(
                f"NaN, infinity or a number too large for {self.precision} is in the {self.count} rows that were added "
                "up, expected finite features."
            )
        spread = 1 / self._scale
        unit = _power_of_two(torch.maximum(spread, (self._shift + self._total / self.count * spread).abs()).max())
        spread /= unit
        return Moments(
            count=self.count,
            unit=float(unit),
            mean=self._shift / unit + self._total / self.count * spread,
            scatter=self._scatter(spread),
            squares=self._moment.diagonal() * spread.square(),
            lost=float(self._lost.sqrt() / _trace(self._moment).clamp_min(_SMALLEST)),
        )

    def _scatter(self, spread: Tensor) -> Tensor:
        """Sum of outer products of deviations from the mean, scaled; by stripes that stay in the cache."""
        found = empty(self.dim, self._moment)
        for start in range(0, self.dim, COLUMNS):
            stop = start + COLUMNS
            stripe, left, right = found[start:stop, start:], self._total[start:stop], self._total[start:]
            torch.addr(self._moment[start:stop, start:], left, right, alpha=-1 / self.count, out=stripe)
            stripe.mul_(spread[start:]).mul_(spread[start:stop, None])
            own = stripe[:, : len(stripe)]
            own.copy_(own.triu() + own.triu(1).T)
            found[start:stop, :start] = found[:start, start:stop].T
        found.diagonal().clamp_min_(0)
        return found

    def _start(self, rows: Tensor) -> None:
        """Shift and scale from the first rows; where a feature is the same in all of them the shift is exactly that."""
        first = rows[0].double()
        own = rows.double() - first
        middle = first + own.mean(dim=0)
        self._shift = middle.to(rows.dtype).double()
        spread = (own - (self._shift - first)).abs().amax(dim=0)
        for other in (self._shift.abs(), spread.max(), torch.ones_like(spread)):
            spread = torch.where(spread > _SMALLEST, spread, other)
        self._scale = 1 / _power_of_two(spread)
        self._single = bool((self._scale < 2.0**120).all() & (self._scale > 2.0**-120).all())
        self._total = torch.zeros_like(self._shift)
        self._moment = empty(len(first), self._shift).zero_()
        self._lost, self._worst = torch.zeros_like(spread[0]), torch.zeros_like(spread[0])

    def _add(self, rows: Tensor, product: Tensor | None) -> None:
        moved = self._moved(rows)
        before = self._moment.diagonal().clone()
        last = (self.dim - 1) // COLUMNS * COLUMNS  # where the last stripe starts
        step = max(1, (self.dim - last) // _SAMPLED)
        measured = self.precision == "float32" and self._blocks in _MEASURED
        across = slice(None, None, max(1, self.dim // _ACROSS))
        parts = []
        for start, tile in stripes(moved, product):
            self._moment[start : start + COLUMNS, start:] += tile
            if measured:
                parts.append(tile[-start % across.step :: across.step, last - start :: step])
        self._total += sum_of_rows(moved)
        relative: Tensor | float = ROUNDING * math.sqrt(len(rows))
        if measured:
            own, products = self._moment.diagonal() - before, self._exact(rows, across, slice(last, None, step))
            numbers = torch.arange(self.dim, device=rows.device)
            upper = numbers[across, None] <= numbers[last::step]  # (across, sampled), the entries that were computed
            difference = (torch.cat(parts).double() - products) * upper
            size = (own[across, None] * own[last::step] * upper).sum()  # the most that the sample's squares add up to
            self._worst = torch.maximum(self._worst, (difference.square().sum() / size.clamp_min(_SMALLEST)).sqrt())
        if self.precision == "float32":
            relative = self._worst
        self._lost += (relative * (_trace(self._moment) - before.sum())).square()
        self.count += len(rows)
        self._blocks += 1

    def _exact(self, rows: Tensor, across: slice, sampled: slice) -> Tensor:
        """Products of some columns with some, in float64."""
        left, right = (
            (rows[:, chosen].double() - self._shift[chosen]) * self._scale[chosen] for chosen in (across, sampled)
        )
        return left.T @ right

    def _moved(self, rows: Tensor) -> Tensor:
        """Rows less the shift, times the scale, in :attr:`precision`."""
        if self.precision == "float32" and rows.dtype == torch.float32 and self._single:
            return torch.addcmul((-self._shift * self._scale).float(), rows, self._scale.float())  # powers of two
        return ((rows.double() - self._shift) * self._scale).to(getattr(torch, self.precision))


def _trace(moment: Tensor) -> Tensor:
    return moment.diagonal().sum()


def _power_of_two(values: Tensor) -> Tensor:
    """The next one below each positive value."""
    return values / (2 * torch.frexp(values)[0])  # exact, as ldexp is not, whose powers are float32
