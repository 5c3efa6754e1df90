"""The processor and its memory while networks compute: fast kernels, how much memory there is, and want of it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import QueryError
from ..optional import require_extra

with require_extra("models", needed_for="Computing features"):
    import torch
    from torch.overrides import TorchFunctionMode

# of glibc's malloc.h: parameter, value
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = (-1, 2**31 - 1), (-2, 1 << 28), (-4, 0)


@cache
def keep_memory() -> bool:
    """Lets this process keep the memory that tensors give back; False where the C library is not glibc.

    glibc returns every large tensor to the kernel and takes it again, page by page: half of the time of a convolutional
    network on a CPU. From here on the process keeps, until it ends, what it once had. Its peak grew by up to a quarter.
    """
    try:
        mallopt, _ = ctypes.CDLL(None).mallopt, ctypes.CDLL(None).gnu_get_libc_version  # musl has neither
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no such library
        return False
    return all(mallopt(*one) for one in (_M_MMAP_MAX, _M_TRIM_THRESHOLD, _M_TOP_PAD))


def use_fast_forward(network: torch.nn.Module, device: torch.device) -> AbstractContextManager[object]:
    """For forward passes without gradients on a CPU: memory is kept, and oneDNN computes linear layers in float32.

    That moves features by rounding (up to 1.4e-6 over 30 networks). On a GPU nothing changes, nor where torch has no
    oneDNN or MKL. A network without linear layers is spared the look at each of its functions. The context may be
    entered again and again.
    """
    if device.type != "cpu":
        return nullcontext()
    keep_memory()
    # torch takes MKL for these, which is half as fast as oneDNN on processors that are not Intel's
    backends: Any = torch.backends
    has_both = backends.mkl.is_available() and backends.mkldnn.is_available()
    is_linear = any(isinstance(module, torch.nn.Linear) for module in network.modules())
    return _OneDNN() if has_both and is_linear else nullcontext()


class _OneDNN(TorchFunctionMode):
    """Linear layers by the kernel that torch's compiler takes for them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_left = torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()  # a user's compiled encoder
        if function is torch.nn.functional.linear and not kwargs and not is_left:
            x, weight, bias = (*args, None)[:3]
            if x.dtype == weight.dtype == torch.float32 and x.numel() and x.layout == torch.strided and not x.is_meta:
                return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return function(*args, **(kwargs or {}))


_CONTROL_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def read_memory_size(device: torch.device) -> int:
    """Bytes of memory of a GPU, or of the machine or its control group; QueryError if the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):  # Windows
        raise QueryError("This system does not say how much memory it has, by which work is planned; use another one.")
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _CONTROL_GROUPS:
        text = limit.read_text().strip() if limit.is_file() else ""
        if text.isdecimal():  # "max" where there is no limit
            sizes.append(int(text))
    return min(sizes)


_NO_MEMORY = "DefaultCPUAllocator"  # torch has no class of its own for this


def is_out_of_memory(error: Exception) -> bool:
    """True if an encoder failed because its batch does not fit into the memory."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or _NO_MEMORY in str(error)


@contextmanager
def explain_memory_errors(batch_size: int, device: torch.device) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise QueryError(
            f"{batch_size} images at once do not fit into the memory of {str(device)!r}; ask for a "
            "smaller batch_size, finished shards stay."
        ) from error
