"""Preparations of features for a linear probe: none, standardised, or whitened with shrinkage.

A penalised probe measures the scale of features in addition to what is in them: what varies little costs much. Each
preparation is an affine map, found on the training rows alone, so that a probe of prepared features is a probe of the
features, too (:meth:`Preparations.weights`). ``standardised`` divides every unit by its standard deviation; ``whitened
0.1`` turns features onto their principal directions and divides each by the root of its variance plus 0.1 times the
mean variance of all directions. A unit that does not change, up to the rounding of float32, has no weight.

Whitened features are the coordinates that the solver works in (:mod:`.logistic_basis`), each times a number: one
eigendecomposition serves all strengths and unscaled features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import DataError, QueryError
from ..optional import require_extra
from .arrays import BLOCK_ROWS, Array
from .logistic_basis import Basis, build_problem, centre_and_scale, compute_centre
from .logistic_certificate import Float64Problem
from .logistic_path import FoldPaths, LocatedPenalty, RegularisationPath, locate_penalty
from .logistic_solver import LogisticProblem, ValidationSet

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from torch import Tensor

AS_THEY_ARE, STANDARDISED, WHITENED = "as they are", "standardised", "whitened"
_ROUNDING = 1e-6  # standard deviation of a unit, as a share of its largest size, that float32 can have by rounding


def parse_strength(preparation: str) -> float | None:
    """The shrinkage of a whitening; None for another preparation. QueryError if there is no such one."""
    kind, _, number = preparation.partition(" ")
    if preparation in (AS_THEY_ARE, STANDARDISED):
        return None
    try:
        strength = float(number) if kind == WHITENED else 0.0
    except ValueError:
        strength = 0.0
    if not 0.0 < strength < np.inf:
        raise QueryError(
            f"There is no preparation {preparation!r} of features; expected {AS_THEY_ARE!r}, {STANDARDISED!r}, or "
            f"{WHITENED!r} and a shrinkage above 0, as in '{WHITENED} 0.1'."
        )
    return strength


@dataclass(slots=True, eq=False)
class PreparedRows:
    """Training rows by one preparation, as a problem of the solver."""

    name: str
    basis: Basis  # of the prepared features
    problem: LogisticProblem
    exact: Float64Problem
    scales: Tensor | None  # of the units (dim,) or of the directions (rank,); None if unscaled


class Preparations:
    """The training rows (n, dim) in any preparation."""

    def __init__(self, x: Array, y: Array, *, n_classes: int, dtype: torch.dtype, device: torch.device) -> None:
        self.x, self.y, self.n_classes, self.dtype, self.device = x, y, n_classes, dtype, device
        self.mean, self.scale = compute_centre(x)

    @cached_property
    def _plain(self) -> tuple[Basis, LogisticProblem]:
        return build_problem(self.x, self.y, n_classes=self.n_classes, dtype=self.dtype, device=self.device)

    def prepared(self, name: str) -> PreparedRows:
        """The rows by the preparation of this name."""
        strength = parse_strength(name)
        if name == STANDARDISED:
            return self._standardised()
        basis, problem = self._plain
        if strength is None or problem.z.shape[1] == 1:  # unscaled, or no unit changes
            return PreparedRows(name, basis, problem, Float64Problem(self.x, problem.y, self.n_classes, basis), None)
        variances = problem.spectrum[:-1] / len(problem.y)
        scales = (variances + strength * variances.mean()).rsqrt()
        z = problem.z * torch.cat([scales, scales.new_ones(1)])
        eye = torch.eye(len(scales), dtype=self.dtype, device=self.device)
        turned = Basis(mean=torch.zeros(len(scales), dtype=torch.float64, device=self.device), scale=1.0, axes=eye)
        spectrum = torch.cat([problem.spectrum[:-1] * scales.square(), problem.spectrum[-1:]])
        whitened = LogisticProblem(z=z, y=problem.y, n_classes=self.n_classes, spectrum=spectrum)
        exact = Float64Problem(z[:, :-1].cpu().numpy(), problem.y, self.n_classes, turned)
        return PreparedRows(name, turned, whitened, exact, scales)

    def path(
        self, name: str, validation: tuple[Array, Array] | None, **options: Any
    ) -> tuple[PreparedRows, RegularisationPath]:
        """The path of one preparation, judged by rows (m, dim) and labels (m,); ``options`` are those of the path."""
        prepared, judge = self.prepared(name), None
        if validation is not None:
            labels = torch.as_tensor(validation[1], device=self.device)
            judge = ValidationSet(
                self.coordinates(prepared, validation[0]), labels, is_training=validation[0] is self.x
            )
        factor = (2.0 if self.n_classes == 2 else 1.0) / prepared.basis.scale**2
        path = RegularisationPath(
            prepared.basis, prepared.problem, prepared.exact, judge, c_times_penalty=factor, **options
        )
        return prepared, path

    def coordinates(self, prepared: PreparedRows, x: Array) -> Tensor:
        """Other rows (m, dim) as coordinates (m, rank + 1) of the preparation's problem."""
        if prepared.scales is None:
            return prepared.basis.coordinates(x)
        if prepared.name == STANDARDISED:
            return prepared.basis.coordinates(self._over(x, prepared.scales))
        z = self._plain[0].coordinates(x)
        z[:, :-1] *= prepared.scales
        return z

    def weights(self, prepared: PreparedRows, weights: Tensor) -> Tensor:
        """Weights of a fit (n_classes, rank + 1) as those of the centred features over their scale, and intercepts."""
        if prepared.scales is None:
            return weights
        if prepared.name == STANDARDISED:
            scaled = weights[:, :-1] * (prepared.scales.double() / prepared.basis.scale)
            shift = (weights[:, :-1] @ prepared.basis.mean) / prepared.basis.scale
            return torch.cat([scaled, (weights[:, -1] - shift)[:, None]], dim=1)
        axes = self._plain[0].axes.double()
        return torch.cat([(weights[:, :-1] * prepared.scales.double()) @ axes.T, weights[:, -1:]], dim=1)

    def _standardised(self) -> PreparedRows:
        total = torch.zeros(self.x.shape[1], dtype=torch.float64, device=self.device)
        for start in range(0, len(self.x), BLOCK_ROWS):
            rows = centre_and_scale(self.x[start : start + BLOCK_ROWS], self.mean.to(self.device), self.scale, total)
            total += rows.square().sum(dim=0)
        deviations = (total / len(self.x)).sqrt()
        sizes = torch.from_numpy(np.maximum(self.x.max(axis=0), -self.x.min(axis=0)).astype(np.float64))
        varies = deviations > _ROUNDING * sizes.to(self.device) / self.scale
        scales = torch.where(varies, 1.0 / deviations, 0.0)
        prepared = self._over(self.x, scales)
        basis, problem = build_problem(prepared, self.y, n_classes=self.n_classes, dtype=self.dtype, device=self.device)
        exact = Float64Problem(prepared, problem.y, self.n_classes, basis)
        return PreparedRows(STANDARDISED, basis, problem, exact, scales)

    def _over(self, x: Array, scales: Tensor) -> Array:
        """Rows centred and times ``scales``, in the precision of the solver."""
        out = np.empty(x.shape, np.float64 if self.dtype == torch.float64 else np.float32)
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        for start in range(0, len(x), BLOCK_ROWS):
            rows = centre_and_scale(x[start : start + BLOCK_ROWS], self.mean.to(self.device), self.scale, like)
            out[start : start + len(rows)] = (rows * scales.to(rows.dtype)).cpu().numpy()
        return out


def tune_penalties(
    ways: Preparations,
    names: Sequence[str],
    *,
    folds: Sequence[tuple[Array, Array]],
    values: Sequence[float],
    most: int,
    **options: Any,
) -> dict[str, tuple[LocatedPenalty, float]]:
    """By preparation the best penalty of a path over folds, and its C: of ``values``, or searched by ``most`` fits.

    Each fold, rows of training and rows left out, prepares the features by its training rows alone.
    """
    parts = [
        Preparations(ways.x[rows], ways.y[rows], n_classes=ways.n_classes, dtype=ways.dtype, device=ways.device)
        for rows, _ in folds
    ]
    labels = torch.as_tensor(ways.y[np.concatenate([out for _, out in folds])], device=ways.device)
    found = {}
    for name in names:
        whole = ways.path(name, None, **options)[1]
        paths = [
            part.path(name, (ways.x[out], ways.y[out]), is_fold=True, **options)[1]
            for part, (_, out) in zip(parts, folds, strict=True)
        ]
        penalties = sorted((whole.c_times_penalty / value for value in values), reverse=True)
        best = locate_penalty(FoldPaths(whole, paths, labels), most, penalties)
        found[name] = best, whole.c_times_penalty / best.penalty
    return found


def split_folds(y: Array, n: int, *, seed: int, groups: Array | None = None) -> list[tuple[Array, Array]]:
    """Rows of training and rows left out of at most ``n`` stratified folds; rows of one of ``groups`` are together.

    Every class stays among the training rows of each fold: rows of a class that would not are never left out. DataError
    if that leaves none.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold  # slow to import

    n_groups = len(y) if groups is None else len(np.unique(groups))
    groups = None if n_groups == len(y) else groups
    n = min(n, int(np.bincount(y).max()), n_groups)
    drawn: list[tuple[Array, Array]] = []
    if n >= 2:
        kind: Callable[..., Any] = StratifiedKFold if groups is None else StratifiedGroupKFold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than folds
            drawn = list(kind(n, shuffle=True, random_state=seed).split(y, y, groups))
    joined = np.arange(len(y)) if groups is None else groups
    found = []
    for rows, out in drawn:
        lonely = np.setdiff1d(y[out], y[rows])
        kept = np.isin(joined[out], joined[out][np.isin(y[out], lonely)])
        if not kept.all():
            found.append((np.sort(np.append(rows, out[kept])), out[~kept]))
    if not found:
        raise DataError(
            "No class has two images that are neither copies nor of one group, so none can be left out to choose the "
            "probe's settings on; pass x_val and y_val, or C and one preparation."
        )
    return found
