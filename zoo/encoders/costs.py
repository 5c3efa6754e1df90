"""What a network costs: counted on tensors without content, and expected on a device.

* :func:`compute_card_cost` runs a network on the meta device, where nothing is computed. Operations of matrix products,
  convolutions and attention are counted by ``torch.utils.flop_counter``; the others are a few percent. Memory follows
  from the storages of all intermediate results, from the operation that makes them until the last reference is gone, as
  PyTorch's eager mode has it. Attention is counted as one fused operation, as CPUs and GPUs compute it.
* :func:`estimate_images_per_second` times three small networks on a device, once, and expects of any other network that
  its seconds are a sum of operations, bytes written and calls, each at the rate of those three.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import re
import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from ..cards.costs import Cost, explain_unknown_cost, find_cost
from ..cards.schema import EncoderCard
from ..errors import BuildError, MissingExtra, QueryError
from ..files import get_cache_folder, replace_file
from ..optional import require_extra
from .processor import use_fast_forward

with require_extra("models", needed_for="Costs of networks"):
    import torch
    from torch import Tensor, nn
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

_LARGE_BATCH = 64  # the other of the two batches from which memory by batch follows


class MemoryTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Memory of a forward pass: storages are added up as operations make them, until their last reference goes.

    Storages of ``before`` are not counted, nor is what an operation allocates and frees by itself.
    """

    def __init__(self, before: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak_bytes = 0  # most bytes of images and intermediate results alive at once
        self.written_bytes = 0  # by all operations
        self.n_operations = 0
        self._alive_bytes = 0
        self._known: dict[int, Any] = {}
        self._before = {id(tensor.untyped_storage()) for tensor in before}

    def count(self, tensor: Tensor) -> None:
        """Counts the storage of a tensor from now on; a second time has no effect."""
        storage = tensor.untyped_storage()
        key, n_bytes = id(storage), storage.nbytes()
        if key in self._known or key in self._before:
            return

        def forget(_: Any) -> None:
            self._alive_bytes -= n_bytes
            del self._known[key]

        self._known[key] = weakref.ref(storage, forget)
        self._alive_bytes += n_bytes
        self.peak_bytes = max(self.peak_bytes, self._alive_bytes)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {id(one.untyped_storage()) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        has_written = False
        for tensor in tree_leaves(result):
            if not isinstance(tensor, Tensor):
                continue
            if func._schema.is_mutable or id(tensor.untyped_storage()) not in given:  # else it is a view
                self.written_bytes += tensor.numel() * tensor.element_size()
                has_written = True
            self.count(tensor)
        self.n_operations += has_written
        return result


class _FusedAttention(TorchFunctionMode):
    """Attention on the meta device as one operation; there PyTorch would otherwise write out all weights."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            about = given | dict(zip(names, args, strict=False))
            if about["query"].dim() == 4 and not about.get("enable_gqa"):
                return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                    *(about["query"], about["key"], about["value"], 0.0, about.get("is_causal", False)),
                    attn_mask=about.get("attn_mask"),
                    scale=about.get("scale"),
                )[0]
        return func(*args, **given)


def track_memory(network: nn.Module, images: Tensor) -> MemoryTracker:
    """Memory of a forward pass without gradients, on the meta device or a real one; images count as alive throughout.

    On a real device the result is what its eager kernels ask for, in bytes of tensors: an allocator rounds each up.
    """
    follower, was_enabled = MemoryTracker(_tensors(network)), gc.isenabled()
    gc.disable()  # tensors end with their last reference alone, so that the same pass gives the same number
    try:
        with torch.no_grad(), follower:
            follower.count(images)
            with _FusedAttention() if images.is_meta else nullcontext():
                network(images)
    finally:
        if was_enabled:
            gc.enable()
    return follower


def compute_network_cost(network: nn.Module, px: int) -> Cost:
    """The cost of a network on the meta device for images of ``px`` x ``px`` in three channels.

    Memory is followed for 1 and for 64 images: it is exact for both, and between them never too little, for the most of
    several straight lines is convex. Raises what the network raises for such images.
    """
    with torch.device("meta"):
        one, many = (torch.empty(n, 3, px, px) for n in (1, _LARGE_BATCH))
        from torch.utils.flop_counter import FlopCounterMode  # slow to import

        counter = FlopCounterMode(display=False)
        with torch.no_grad(), _FusedAttention(), counter:
            network(one)
        alone, together = track_memory(network, one), track_memory(network, many)
    an_image = math.ceil((together.peak_bytes - alone.peak_bytes) / (_LARGE_BATCH - 1))
    storages = [tensor.untyped_storage() for tensor in _tensors(network)]  # those that are shared count once
    return Cost(
        px=px,
        gflops=round(counter.get_total_flops() / 1e9, 6),
        parameter_bytes=sum({id(storage): storage.nbytes() for storage in storages}.values()),
        activation_bytes=an_image,
        fixed_bytes=max(alone.peak_bytes - an_image, 0),
        written_bytes=math.ceil((together.written_bytes - alone.written_bytes) / (_LARGE_BATCH - 1)),
        n_operations=alone.n_operations,
    )


def _tensors(network: nn.Module) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]


def compute_card_cost(card: EncoderCard) -> Cost:
    """The cost of an encoder at the size of images of its card, computed from its network without its weights.

    BuildError if the network cannot be built, or does not run on tensors without content.
    """
    from .build import build_encoder
    from .encoder import ERRORS

    network = build_encoder(card, device="meta")
    px = card.preprocess.crop_px
    try:
        return compute_network_cost(network, px)
    except (*ERRORS, ArithmeticError, LookupError) as error:
        why = str(error).strip().partition("\n")[0]
        raise BuildError(
            f"The cost of {card.id!r} is not known, for its network does not run on tensors without content at {px} px "
            f"({type(error).__name__}: {why}); measure it on a device instead."
        ) from error


def obtain_cost(card: EncoderCard) -> Cost | None:
    """The cost of any encoder: from the table, or computed now, as for a user's own; None if it cannot be computed."""
    known = find_cost(card)
    if known is not None or explain_unknown_cost(card):
        return known
    try:
        return compute_card_cost(card)
    except (BuildError, MissingExtra):
        return None


FACTOR = 2.0
"""Nine in ten measured speeds are expected within this factor of the expected one.

On two cores nine in ten of 13 networks were within 1.44, the worst, the smallest toy encoder, at 2.01
(``benchmarks/expected_speed.py``); no GPU was measured.
"""


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """What a device takes, by small networks timed there."""

    s_per_gflop: float
    s_per_written_byte: float
    s_per_operation: float


def estimate_images_per_second(cost: Cost, device: torch.device | str | None = None, *, batch_size: int = 64) -> float:
    """The speed to expect of a network on a device, from its cost alone: forward passes in float32.

    The first call on a device times three small networks there (:func:`get_device_rates`). Convolutions and matrix
    products of other shapes run at other rates, so that the expectation is good for a factor (``FACTOR``), not for
    percents.
    """
    return 1 / estimate_seconds_per_image(cost, get_device_rates(device), batch_size)


def estimate_seconds_per_image(cost: Cost, rates: DeviceRates, batch_size: int) -> float:
    """Seconds per image, by the rates of a device."""
    calls = rates.s_per_operation * cost.n_operations / batch_size
    return rates.s_per_gflop * cost.gflops + rates.s_per_written_byte * cost.written_bytes + calls


_REFERENCES = {
    "torchvision:resnet18": Cost(224, 3.627123, 44744608, 7024640, 512, 34523136, 87),
    "timm:vit_tiny_patch16_224": Cost(224, 2.506982, 22097664, 2417664, 0, 33352120, 124),
    "timm:efficientnet_lite0": Cost(224, 0.767815, 13652488, 12644352, 768, 79377280, 190),
}
"""Networks that set the rates: convolutions, matrix products with attention, and writing much for few operations."""
_CALIBRATION_BATCH = {"cpu": 4}
_RATES = "rates-1"
_KEPT_S = 86_400


def get_device_rates(device: torch.device | str | None = None) -> DeviceRates:
    """Rates of a device (default: the first GPU, else the CPU), timed once and kept for a day.

    The three networks take about two seconds. What is kept lies in ``rates-1`` of the cache folder, a small file a
    device, number of threads and version of torch; removing it has them timed again. QueryError if torch cannot use the
    device.
    """
    try:
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise QueryError(
            f"Speeds on {str(device)!r} cannot be timed here ({why}); expected a device of this machine."
        ) from error
    kind = f"{platform.machine()}-{os.cpu_count()}-{torch.get_num_threads()}"
    if place.type == "cuda":
        kind = torch.cuda.get_device_name(place)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{place.type}-{kind}-{torch.__version__}")
    path = get_cache_folder() / _RATES / f"{name}.json"
    try:
        if time.time() - path.stat().st_mtime < _KEPT_S:  # how busy a machine is changes
            return DeviceRates(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # not there, or nothing that this wrote
        pass
    rates = calibrate_device(place)
    try:
        with replace_file(path) as file:
            file.write(json.dumps(asdict(rates)).encode())
    except OSError:  # a cache that cannot be written costs the two seconds again
        pass
    return rates


def time_forward_passes(
    network: nn.Module,
    px: int,
    device: torch.device | str,
    batch_size: int,
    *,
    seconds: float,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> float:
    """Images per second of the median forward pass without gradients, of at least two that take so many seconds.

    Images are random, after one pass that is not timed; the network is moved to the device.
    """
    place = torch.device(device)
    network.to(place)
    images = torch.randn(batch_size, 3, px, px, generator=torch.Generator().manual_seed(0)).to(place)
    images = images.contiguous(memory_format=memory_format)
    times: list[float] = []
    while len(times) < 3 or sum(times[1:]) < seconds:
        began = time.perf_counter()
        with torch.no_grad(), use_fast_forward(network, place):  # as features are computed
            network(images)
        if images.is_cuda:
            torch.cuda.synchronize(images.device)
        elif images.device.type == "mps":
            torch.mps.synchronize()
        times.append(time.perf_counter() - began)
    return batch_size / statistics.median(times[1:])


def calibrate_device(device: torch.device | str, *, seconds: float = 0.25) -> DeviceRates:
    """Rates of a device from the reference networks, each timed for at least so many seconds."""
    place = torch.device(device)
    batch_size = _CALIBRATION_BATCH.get(place.type, 64)
    measured = []
    for backbone, cost in _REFERENCES.items():
        layout = torch.contiguous_format if "vit" in backbone else torch.channels_last
        with torch.random.fork_rng(devices=[]):
            network = _reference(backbone).to(place).to(memory_format=layout)
        speed = time_forward_passes(network, cost.px, place, batch_size, seconds=seconds, memory_format=layout)
        measured.append((cost, 1 / speed))
    small = time_forward_passes(network, 32, place, 1, seconds=seconds / 4, memory_format=layout)
    per_call = 1 / small / cost.n_operations
    rest = [max(taken - per_call * cost.n_operations / batch_size, taken / 10) for cost, taken in measured]
    rows = [(cost.gflops / taken, cost.written_bytes / taken) for (cost, _), taken in zip(measured, rest, strict=True)]
    return DeviceRates(*_two_rates(rows), per_call)


def _two_rates(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The a and b, neither negative, with the smallest sum of (a x + b y - 1)^2 over the rows (x, y).

    >>> _two_rates([(1.0, 0.0), (0.0, 4.0)])
    (1.0, 0.25)
    """
    xx, xy, yy = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    x, y = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = xx * yy - xy * xy
    both = ((x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant) if determinant > 0 else (-1.0, -1.0)
    choices = [both, (x / xx, 0.0), (0.0, y / yy)]

    def miss(rates: tuple[float, float]) -> float:
        return sum((rates[0] * row[0] + rates[1] * row[1] - 1) ** 2 for row in rows)

    return min((pair for pair in choices if min(pair) >= 0), key=miss)


def _reference(backbone: str) -> nn.Module:
    from . import resnet, timm_models  # slow to import

    library, _, name = backbone.partition(":")
    network, _ = (
        resnet.build_torchvision_resnet(name) if library == "torchvision" else timm_models.build_timm_model(name)
    )
    return network.eval().requires_grad_(False)
