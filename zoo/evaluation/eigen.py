"""Eigenvalues, singular values and determinants of float64 matrices, found for every matrix of finite numbers.

The routines that PyTorch calls, divide and conquer, do not always converge: in float32 they fail on the products of
features of which many never change, and nothing promises more in float64. Where one fails, SciPy's QR iteration, which
is slower, takes its place.
"""

from __future__ import annotations

from typing import Any

from ..errors import DataError
from ..optional import require_extra

with require_extra("models", needed_for="A decomposition of features"):
    import torch
    from torch import Tensor

_NOT_FOUND: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


def compute_eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (k,), ascending, and eigenvectors, the columns of (k, k), of a symmetric float64 matrix."""
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except _NOT_FOUND:
        found = _scipy().eigh(_finite(matrix), driver="ev")
        values, vectors = (torch.from_numpy(one).to(matrix.device) for one in found)
    return values, vectors


def compute_eigvalsh(matrix: Tensor, *, UPLO: str = "L") -> Tensor:  # noqa: N803  (torch's name)
    """Eigenvalues alone, ascending, from the lower or the upper triangle."""
    try:
        values: Tensor = torch.linalg.eigvalsh(matrix, UPLO=UPLO)
    except _NOT_FOUND:
        found = _scipy().eigh(_finite(matrix), lower=UPLO == "L", eigvals_only=True, driver="ev")
        values = torch.from_numpy(found).to(matrix.device)
    return values


def compute_svd(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Left singular vectors (n, k), singular values (k,), descending, and right ones (k, dim), of float64 (n, dim)."""
    try:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    except _NOT_FOUND:
        found = _scipy().svd(_finite(matrix), full_matrices=False, lapack_driver="gesvd")
        left, values, right = (torch.from_numpy(one).to(matrix.device) for one in found)
    return left, values, right


def compute_svdvals(matrix: Tensor) -> Tensor:
    """Singular values alone, descending."""
    try:
        values: Tensor = torch.linalg.svdvals(matrix)
    except _NOT_FOUND:
        values = compute_svd(matrix)[1]
    return values


def compute_log_det_one_plus(products: Tensor) -> float:
    """log det(1 + P) of a positive semi-definite float64 matrix P (k, k)."""
    raised = products.clone()
    raised.diagonal().add_(1.0)
    factor, failed = torch.linalg.cholesky_ex(raised)
    if int(failed):  # the 1 is lost in the rounding of products above 1e15
        return float(compute_eigvalsh(products).clamp_min(0).log1p().sum())
    return 2 * float(factor.diagonal().log().sum())


def _scipy() -> Any:
    with require_extra("evaluate", needed_for="Eigenvalues that PyTorch did not find"):  # spectra need it for no other
        import scipy.linalg
    return scipy.linalg


def _finite(matrix: Tensor) -> Any:
    if not bool(matrix.isfinite().all()):
        raise DataError(
            "Products of the features are too large for float64; expected features whose squares can be added up: "
            "multiply them by a small number."
        )
    return matrix.cpu().numpy()
