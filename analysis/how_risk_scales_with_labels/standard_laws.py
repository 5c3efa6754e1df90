"""The standard scaling laws, which know nothing of an encoder but a group e, and the parameters p of the probe.

With 1,000 classes per dimension in p, the error with n labels is

    cut(cut(I_e + C_e / n^a_e) + K / p^b)

with I, and C at 3,000 labels, in [0, 100]; a in [0, 1]; b in [0, 3]; and a last term of at most 100 points, which is
not negative unless a K of either sign is asked for.

Dubois et al. 2023, Appendix F.4; the form is that of Rosenfeld 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from zoo.analysis.scaling_law import Floats
from zoo.errors import QueryError, format_count

STANDARD_LAWS: dict[str, str | None] = {
    "Std": None,
    "e = family": "family",
    "e = architecture": "architecture",
    "e = objective": "objective",
    "e = encoder": "encoder",
}
"""The laws of Table 9 by what makes a group; the last one is not printed there."""
N_CLASSES = 1000
FEWEST_LABELS = 3000  # C is fitted as its contribution there, so that it has a scale
_LARGEST_EXPONENT, _LARGEST_SIZE_EXPONENT, _LARGEST_TERM = 1.0, 3.0, 100.0
_SIZE_EXPONENTS = (0.03, 0.1, 0.3, 1.0, 2.5)  # the fit starts at each
FLAT = "b = 0"  # a limit at which the term of size is a constant
_NEAR_LIMIT = 1e-3  # of a limit, which the search approaches from inside
_TIE_BREAK_WEIGHT = 1e-6  # decides between parameters that fit equally well; far below what rows can tell


@dataclass(frozen=True, slots=True)
class StandardLaw:
    """A fitted standard law; arrays of shape (n_groups,)."""

    by: str | None  # column that makes the groups; None for one group
    groups: tuple[Any, ...]  # values of that column, in the order of the arrays
    floor: Floats  # I, percent
    fall: Floats  # C / 3,000^a, percentage points
    exponent: Floats  # a
    size: float  # K / (smallest p)^b, percentage points
    size_exponent: float  # b
    smallest: float  # smallest p of the rows it was fitted to
    loss: float  # sum of squares over those rows

    @property
    def at_limits(self) -> tuple[str, ...]:
        """Which shared parameters the fit would move further if the search let it: none, "b = 3", "b = 0", "K"."""
        if self.size == 0.0:
            return ()
        reached_by = {
            f"b = {_LARGEST_SIZE_EXPONENT:g}": self.size_exponent >= _LARGEST_SIZE_EXPONENT - _NEAR_LIMIT,
            FLAT: self.size_exponent <= _NEAR_LIMIT,
            "K": abs(self.size) >= _LARGEST_TERM - _NEAR_LIMIT,
        }
        return tuple(name for name, reached in reached_by.items() if reached)


def count_parameters(rows: pd.DataFrame, by: str | None) -> int:
    """Parameters of a standard law of all the groups in these rows."""
    return 3 * (1 if by is None else rows[by].nunique()) + 2


def fit_standard_law(rows: pd.DataFrame, *, by: str | None = None, falls_with_size: bool = True) -> StandardLaw:
    """Least squares from several starts, without randomness; the column ``by`` makes the groups.

    For given K and b, each group's exponent is searched on a refined grid, I and C being a linear fit; least squares
    over everything ends the search, from five values of b. Where every group has encoders of one size only, K is left
    out. Of values that fit equally well those nearest to the law of all encoders are taken.
    """
    needed = ["z_dim", *([by] if by else [])]
    lacking = int(rows[needed].isna().any(axis=1).sum())
    if rows.empty or lacking:
        raise QueryError(
            f"Got {format_count(len(rows), 'row')}, {lacking} of them without {' or '.join(needed)}, expected at "
            "least one "
            "and all with it to fit a standard scaling law; leave out the encoders that lack it."
        )
    _check_sizes(rows)
    group, groups = _groups(rows, by)
    x = np.log(rows["n"].to_numpy("float64") / FEWEST_LABELS)
    y = rows["error"].to_numpy("float64")
    p = rows["z_dim"].to_numpy("float64") * N_CLASSES
    s = np.log(p / p.min())
    pooled = _fit_groups(x, y, np.zeros(len(y), "int64"), 1, np.array([[20.0], [40.0], [0.25]]))
    sizes = pd.Series(s).groupby(group).nunique()
    if (sizes == 1).all() and len(groups) > 1:
        floor, fall, exponent = _fit_groups(x, y, group, len(groups), pooled)
        size, size_exponent = 0.0, 0.0
    else:
        problem = _StandardProblem(x, y, s, group, len(groups), -_LARGEST_TERM * (not falls_with_size))
        ends = [problem.solve(problem.start(b, pooled)) for b in _SIZE_EXPONENTS]
        best = min(ends, key=problem.loss)
        floor, fall, exponent = best[:-2].reshape(3, -1)
        size, size_exponent = float(best[-2]), float(best[-1])
    law = StandardLaw(by, groups, floor, fall, exponent, size, size_exponent, float(p.min()), 0.0)
    loss = float(((predict_standard(law, rows) - y) ** 2).sum())
    return StandardLaw(by, groups, floor, fall, exponent, size, size_exponent, float(p.min()), loss)


def predict_standard(law: StandardLaw, rows: pd.DataFrame) -> Floats:
    """Errors in percent, shape (n_rows,); NaN where the law never saw the row's group."""
    _check_sizes(rows)
    keys = pd.Index(["all"] * len(rows) if law.by is None else rows[law.by])
    group = pd.Index(law.groups).get_indexer(keys)
    n, p = rows["n"].to_numpy("float64"), rows["z_dim"].to_numpy("float64") * N_CLASSES
    labels = law.floor[group] + law.fall[group] * (n / FEWEST_LABELS) ** -law.exponent[group]
    predicted = _cut(_cut(labels) + law.size * (p / law.smallest) ** -law.size_exponent)
    return np.where(group >= 0, predicted, np.nan)


def _check_sizes(rows: pd.DataFrame) -> None:
    if (wrong := rows["z_dim"] <= 0).any():
        first = rows[wrong].iloc[0]
        raise QueryError(
            f"Got z_dim {first['z_dim']:g} of {first['encoder']!r}, expected a positive number of dimensions for a "
            "standard scaling law; correct the card of the encoder or leave it out."
        )


def _groups(rows: pd.DataFrame, by: str | None) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    if by is None:
        return np.zeros(len(rows), "int64"), ("all",)
    codes, values = pd.factorize(rows[by])
    return codes.astype("int64"), tuple(values)


def _cut(percent: Floats) -> Floats:
    return np.clip(percent, 0, 100)


def _fit_groups(x: Floats, y: Floats, group: Any, n_groups: int, near: Floats) -> Floats:
    """I, C and a of each group, shape (3, n_groups), without the term of size; ``near``, (3, 1), breaks ties."""
    candidates = np.repeat(_LARGEST_EXPONENT * np.linspace(0, 1, 41)[:, None] ** 2, n_groups, axis=1)  # (a, groups)
    while True:
        fitted, loss = _linear_fits(x, y, group, candidates, near)
        best = loss.argmin(axis=0)
        low, high = (
            np.take_along_axis(candidates, np.clip(best + step, 0, len(candidates) - 1)[None], axis=0)
            for step in (-1, 1)
        )
        if (high - low).max() < 1e-5:
            exponent = np.take_along_axis(candidates, best[None], axis=0)
            return np.concatenate([np.take_along_axis(part, best[None], axis=0) for part in fitted] + [exponent])
        candidates = low + (high - low) * np.linspace(0, 1, 13)[:, None]


def _linear_fits(x: Floats, y: Floats, group: Any, exponent: Floats, near: Floats) -> tuple[Sequence[Floats], Floats]:
    """I and C for each candidate exponent and group, and the sum of squares; all of shape (n_candidates, n_groups)."""
    power = np.exp(-exponent[:, group] * x)  # (candidates, rows)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(exponent.shape[1]))

    def total(cells: Floats) -> Floats:
        return np.asarray(np.add.reduceat(np.atleast_2d(cells)[:, order], first, axis=1))

    n, s_y, s_yy = total(np.ones_like(y)), total(y), total(y**2)
    s_x, s_xx, s_xy = total(power), total(power**2), total(power * y)
    # normal equations, with a tie-break towards ``near``
    n_, s_xx_ = n + _TIE_BREAK_WEIGHT, s_xx + _TIE_BREAK_WEIGHT
    right_0, right_1 = s_y + _TIE_BREAK_WEIGHT * near[0], s_xy + _TIE_BREAK_WEIGHT * near[1]
    determinant = n_ * s_xx_ - s_x**2
    floor = (s_xx_ * right_0 - s_x * right_1) / determinant
    fall = (n_ * right_1 - s_x * right_0) / determinant
    without_floor, without_fall = np.maximum(right_1 / s_xx_, 0), np.maximum(right_0 / n_, 0)
    rising, sinking = fall < 0, (floor < 0) & (fall >= 0)
    floor = np.minimum(np.where(rising, without_fall, np.where(sinking, 0, floor)), _LARGEST_TERM)
    fall = np.minimum(np.where(rising, 0, np.where(sinking, without_floor, fall)), _LARGEST_TERM)
    loss = s_yy - 2 * (floor * s_y + fall * s_xy) + n * floor**2 + 2 * floor * fall * s_x + fall**2 * s_xx
    ties = (floor - near[0]) ** 2 + (fall - near[1]) ** 2 + (100 * (exponent - near[2])) ** 2
    return (floor, fall), loss + _TIE_BREAK_WEIGHT * ties


class _StandardProblem:
    """Least squares over all parameters: the groups' I, then C, then a, then K and b, in one array."""

    def __init__(self, x: Floats, y: Floats, s: Floats, group: Any, n_groups: int, lowest_size: float) -> None:
        self.x, self.y, self.s, self.group, self.n_groups = x, y, s, group, n_groups
        self.low = np.concatenate([np.zeros(3 * n_groups), [lowest_size, 0.0]])
        upper = (_LARGEST_TERM, _LARGEST_TERM, _LARGEST_EXPONENT)
        self.high = np.concatenate([np.repeat(upper, n_groups), [_LARGEST_TERM, _LARGEST_SIZE_EXPONENT]])

    def start(self, size_exponent: float, near: Floats) -> Floats:
        """Best parameters for a given b, K being fitted with one exponent for all groups."""
        one_hot = np.eye(self.n_groups)[self.group]
        size = np.exp(-size_exponent * self.s)
        design = np.column_stack([one_hot, one_hot * np.exp(-near[2] * self.x)[:, None], size])
        factor = float(np.clip(np.linalg.lstsq(design, self.y, rcond=None)[0][-1], self.low[-2], self.high[-2]))
        of_groups = _fit_groups(self.x, self.y - factor * size, self.group, self.n_groups, near)
        return np.concatenate([of_groups.ravel(), [factor, size_exponent]])

    def parts(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        floor, fall, exponent = parameters[:-2].reshape(3, -1)
        power = np.exp(-exponent[self.group] * self.x)
        return floor[self.group] + fall[self.group] * power, power, np.exp(-parameters[-1] * self.s)

    def misses(self, parameters: Floats) -> Floats:
        labels, _, size = self.parts(parameters)
        return _cut(_cut(labels) + parameters[-2] * size) - self.y

    def loss(self, parameters: Floats) -> float:
        return float((self.misses(parameters) ** 2).sum())

    def slopes(self, parameters: Floats) -> Floats:
        """Derivatives of :meth:`misses`, shape (n_rows, n_parameters)."""
        labels, power, size = self.parts(parameters)
        whole = _cut(labels) + parameters[-2] * size
        outer = ((whole > 0) & (whole < 100)).astype(float)
        inner = outer * ((labels > 0) & (labels < 100))
        derivatives = np.zeros((len(self.y), len(parameters)))
        row, fall = np.arange(len(self.y)), parameters[self.n_groups + self.group]
        for position, by_parameter in enumerate((np.ones_like(power), power, -fall * power * self.x)):
            derivatives[row, position * self.n_groups + self.group] = inner * by_parameter
        derivatives[:, -2], derivatives[:, -1] = outer * size, -outer * parameters[-2] * size * self.s
        return derivatives

    def solve(self, start: Floats) -> Floats:
        inside = np.clip(start, self.low + 1e-9, self.high - 1e-9)
        bounds = (self.low, self.high)
        fitted = least_squares(self.misses, inside, jac=self.slopes, bounds=bounds, x_scale="jac", max_nfev=200)
        return np.asarray(min((inside, fitted.x), key=self.loss))
