"""Mean and scatter of features, and how much of them rounding took."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import MissingExtra

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="models", needed_for="A spectral metric") from error

ROUNDING = 2.0**-53  # of float64, relative


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """What sums say of all rows, in units of ``unit``: float64 tensors.

    By rounding, an entry (i, j) of the scatter is about ``lost * sqrt(squares[i] * squares[j])`` off.
    """

    count: int
    unit: float
    mean: Tensor  # (dim,)
    scatter: Tensor  # (dim, dim), sum of outer products of deviations from the mean
    squares: Tensor  # (dim,), sums of squares about the shift
    lost: float

    @property
    def second_moment(self) -> Tensor:
        """Sum of outer products of the rows as they are, (dim, dim)."""
        return torch.addr(self.scatter, self.mean, self.mean, alpha=self.count)

    @property
    def constant(self) -> Tensor:
        """Which features did not change, or by no more than rounding, bool (dim,)."""
        return self.scatter.diagonal() <= 64 * ROUNDING * self.squares
