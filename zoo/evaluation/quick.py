"""Where products in bfloat16 take half the time of those in float32, and are worth their rounding."""

from __future__ import annotations

from typing import Any

from ..errors import MissingExtra

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="Training probes") from error

LARGE = 1_000_000_000
"""Multiplications of one matrix product, some ten milliseconds of two cores, below which there is little to gain."""
_INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
_AMPERE = (8, 0)


def precision_for(n_multiplications: float, device: torch.device) -> str:
    """``"bfloat16"`` for products of this size where the device has instructions for it, else ``"float32"``.

    Examples
    --------
    >>> precision_for(1e6, torch.device("cpu"))
    'float32'
    """
    return "bfloat16" if n_multiplications >= LARGE and _has_instructions(device) else "float32"


def _has_instructions(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= _AMPERE
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions do not tell
    return device.type == "cpu" and any(capabilities.get(name, False) for name in _INSTRUCTIONS)
