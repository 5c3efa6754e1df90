"""Products of float32 rows: by the library that is fastest on the processor, and with all 24 bits.

torch multiplies dense float32 matrices with MKL, which reaches less than half of what oneDNN does on processors of
another maker; oneDNN multiplies matrices that are laid out for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import MissingExtra

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="Nearest neighbours") from error

_BACKENDS: Any = torch.backends
_WORTH_IT = 1 << 28  # multiplications below which laying out anew takes longer than it saves


@contextmanager
def full_precision() -> Iterator[None]:
    """All bits of float32 in :func:`product`, whatever the user has allowed torch to leave out."""
    owner: Any = _BACKENDS.mkldnn.matmul if hasattr(_BACKENDS, "fp32_precision") else None
    before = torch.get_float32_matmul_precision() if owner is None else owner.fp32_precision
    try:
        if owner is None:  # torch before 2.9
            torch.set_float32_matmul_precision("highest")
        else:
            owner.fp32_precision = "ieee"
        yield
    finally:
        if owner is None:
            torch.set_float32_matmul_precision(before)
        else:
            owner.fp32_precision = before


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """All products of rows (m, dim) and rows (n, dim): float32 (m, n)."""
    if len(left) * len(right) * left.shape[1] < _WORTH_IT or not _BACKENDS.mkldnn.is_available():
        return left @ right.T
    found: torch.Tensor = torch.nn.functional.linear(left.to_mkldnn(), right.to_mkldnn()).to_dense()
    return found
