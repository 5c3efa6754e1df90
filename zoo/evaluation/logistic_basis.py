"""Features as coordinates in which a logistic regression is solved: centred, scaled and uncorrelated.

Features are centred (the intercept takes the mean), scaled by one number so that no square can overflow, and turned by
one eigendecomposition of their Gram matrix, of images if there are fewer of them than features, else of features. What
is orthogonal to all images has no weight at the optimum, so nothing is lost; and in this basis the Hessian under every
penalty is close to a diagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..optional import require_extra
from .arrays import BLOCK_ROWS, Array
from .eigen import compute_eigh, compute_svd
from .logistic_solver import LogisticProblem

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Where features become coordinates: ``(x - mean) / scale @ axes``."""

    mean: Tensor  # (dim,) float64
    scale: float
    axes: Tensor  # (dim, rank), orthonormal columns

    def coordinates(self, x: Array) -> Tensor:
        """Features (n, dim) as coordinates (n, rank + 1), the last of them 1 for the intercept."""
        out = torch.ones(len(x), self.axes.shape[1] + 1, dtype=self.axes.dtype, device=self.axes.device)
        for start in range(0, len(x), BLOCK_ROWS):
            rows = centre_and_scale(x[start : start + BLOCK_ROWS], self.mean, self.scale, self.axes)
            out[start : start + len(rows), :-1] = rows @ self.axes
        return out

    def weights(self, parameters: Tensor) -> Tensor:
        """Parameters (n_classes, rank + 1) as float64 weights and intercepts (n_classes, dim + 1) of features."""
        return torch.cat([parameters[:, :-1] @ self.axes.T, parameters[:, -1:]], dim=1).double()

    def parameters(self, weights: Tensor) -> Tensor:
        """The inverse: float64 (n_classes, dim + 1) -> (n_classes, rank + 1), in the precision of the basis."""
        return torch.cat([weights[:, :-1] @ self.axes.double(), weights[:, -1:]], dim=1).to(self.axes.dtype)


def compute_centre(x: Array) -> tuple[Tensor, float]:
    """Means of the features, float64 (dim,), and the largest distance from them; 1 where no feature changes."""
    mean = np.mean(x, axis=0, dtype=np.float64)
    scale = float(np.maximum(np.abs(x.max(axis=0) - mean), np.abs(x.min(axis=0) - mean)).max()) or 1.0
    if x.dtype == np.float32:
        mean = mean.astype(np.float32).astype(np.float64)  # the same number is taken off in float32 and in float64
    return torch.from_numpy(mean), scale


def build_problem(
    x: Array,
    y: Array,
    *,
    n_classes: int,
    dtype: torch.dtype,
    device: torch.device,
    centre: tuple[Tensor, float] | None = None,
) -> tuple[Basis, LogisticProblem]:
    """The basis of features (n, dim) and the problem in it; ``centre`` is by default that of :func:`compute_centre`.

    An eigenbasis of the features' Gram matrix is orthonormal whatever its rounding, and the spectrum is measured again
    in it; one that comes from the images' Gram matrix is divided by singular values. Both are found in float64.
    """
    n, dim = x.shape
    mean, scale = centre or compute_centre(x)
    like = torch.empty(0, dtype=dtype, device=device)
    rows = centre_and_scale(x, mean.to(device), scale, like)
    if n < dim and dtype == torch.float64:
        left, values, right = compute_svd(rows)
        used = values > values.max() * dim * torch.finfo(dtype).eps
        axes = right[used].T
        z = torch.ones(n, axes.shape[1] + 1, dtype=dtype, device=device)
        z[:, :-1] = left[:, used] * values[used]
    elif n < dim:
        tall = rows.double()
        values, vectors = compute_eigh(tall @ tall.T)
        used = values > max(float(values[-1]), 0.0) * n * 1e-14
        values, vectors = values[used].flip(0), vectors[:, used].flip(1)
        axes = (tall.T @ (vectors / values.sqrt())).to(dtype)  # (dim, rank)
        z = torch.ones(n, axes.shape[1] + 1, dtype=dtype, device=device)
        z[:, :-1] = vectors * values.sqrt()
    else:
        varying = torch.from_numpy(np.flatnonzero(x.max(axis=0) > x.min(axis=0))).to(device)  # others have no weight
        vectors = compute_eigh((rows.T @ rows)[varying][:, varying].double())[1]
        axes = torch.zeros(dim, len(varying), dtype=dtype, device=device)
        axes[varying] = vectors.flip(1).to(dtype)
        z = torch.ones(n, len(varying) + 1, dtype=dtype, device=device)
        torch.mm(rows, axes, out=z[:, :-1])
    norms = torch.linalg.vector_norm(z, dim=0)
    if n >= dim:
        used = norms > max(norms[:-1].tolist(), default=0.0) * math.sqrt(dim) * torch.finfo(dtype).eps
        used[-1] = True
        if not bool(used.all()):
            z, axes, norms = z[:, used], axes[:, used[:-1]], norms[used]
    spectrum = norms.square()
    labels = torch.as_tensor(y, dtype=torch.int64, device=device)
    basis = Basis(mean=mean.to(device), scale=scale, axes=axes.contiguous())
    return basis, LogisticProblem(z=z, y=labels, n_classes=n_classes, spectrum=spectrum)


def centre_and_scale(x: Array, mean: Tensor, scale: float, like: Tensor) -> Tensor:
    """Centred rows over the scale, computed in float64 if they are float64 or the scale is at the ends of float32."""
    if x.dtype != np.float64:
        x = np.ascontiguousarray(x, dtype=np.float32)
        if scale < 1e18 and scale > 1e-18:
            rows = torch.tensor(x, device=like.device).to(like.dtype)
            return rows.sub_(mean.to(like.dtype)).mul_(1.0 / scale)
    rows = torch.tensor(np.ascontiguousarray(x, dtype=np.float64), device=like.device)
    return ((rows - mean) / scale).to(like.dtype)
