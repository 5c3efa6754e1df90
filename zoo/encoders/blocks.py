"""Blocks of networks that have no tokens of one width, and the means of their maps.

A block is what its authors repeat: a residual block of a ResNet, an inverted bottleneck of an EfficientNet, a block of
ConvNeXt, Swin or Hiera. What is read is its output as the next block gets it, without the layers behind the last block:
the mean over all positions. For a ResNet, that of the last block is what the network pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import QueryError
from .residual_networks import is_resnet

Seen = Callable[[int, Tensor], object]
"""Called with the number of a block and its output."""

_CONTAINERS = ("stages", "layers", "blocks")
_CLASS_LATER = ("cls_attn_blocks", "blocks_token_only")  # of networks whose other blocks see patches alone


def list_block_modules(backbone: Any) -> list[list[nn.Module]]:
    """The blocks of each stage, the first first; none where they are not known."""
    if is_resnet(backbone):
        stages = [list(layer.children()) for name, layer in backbone.named_children() if name.startswith("layer")]
        stages[-1] += list(backbone.avgpool.children())[:-1]  # zoo:resnet50_last_block has a block before its average
        return stages
    network = getattr(backbone, "network", None)
    if isinstance(network, nn.Module):  # of transformers, whose class the zoo wraps
        return [list(getattr(backbone, "blocks", ()))]
    for prefix in ("layer", "s"):  # of timm's ResNets and RegNets
        found = [part for name, part in backbone.named_children() if name.removeprefix(prefix) in "12345678"]
        found = [part for part in found if len(list(part.children()))]
        if len(found) > 1:
            return [_inside(stage) for stage in found]
    for name in _CONTAINERS:
        container = getattr(backbone, name, None)
        if isinstance(container, nn.Sequential | nn.ModuleList) and len(container):
            return _stages_in(container)
    return []


def _stages_in(container: nn.Module) -> list[list[nn.Module]]:
    """Stages of a container, or one stage if what it holds are blocks."""
    parts = list(container.children())
    is_staged = all(isinstance(part, nn.Sequential) or _blocks_within(part) is not None for part in parts)
    return [_inside(part) for part in parts] if is_staged else [parts]


def _inside(stage: nn.Module) -> list[nn.Module]:
    within = _blocks_within(stage)
    return list((stage if within is None else within).children())


def _blocks_within(stage: nn.Module) -> nn.Module | None:
    within = getattr(stage, "blocks", None)
    return within if isinstance(within, nn.Sequential | nn.ModuleList) and len(within) else None


class _StopForward(Exception):
    """All that was asked for has been computed."""


@contextmanager
def watch_blocks(modules: Sequence[nn.Module], seen: Seen) -> Iterator[None]:
    """Calls ``seen`` for every block of these that runs within."""

    def hook(number: int) -> Callable[..., None]:
        def after(module: nn.Module, arguments: Any, output: Any) -> None:
            seen(number, output[0] if isinstance(output, tuple) else output)

        return after

    handles = [module.register_forward_hook(hook(number)) for number, module in enumerate(modules)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def extract_patch_maps(backbone: Any, output: Tensor, *, n_prefix: int | None = None) -> Tensor:
    """Channels before places, (n, channels, rows, columns) or, of tokens, (n, channels, places).

    ``output`` is a map, (n, channels, rows, columns) or with its channels last, or tokens, (n, tokens, channels), the
    first ``n_prefix`` of which have no place; those of a block unless their number is given.
    """
    if output.ndim == 4:
        return output.permute(0, 3, 1, 2) if _has_channels_last(backbone, output) else output
    if n_prefix is None:
        is_later = any(hasattr(backbone, name) for name in _CLASS_LATER)
        n_prefix = 0 if is_later else getattr(backbone, "num_prefix_tokens", 0)
    return output[:, n_prefix:].transpose(1, -1)


def average_map(backbone: Any, output: Tensor) -> Tensor:
    """The mean over all positions of a block's output, (n, channels); class and register tokens do not count."""
    patches = extract_patch_maps(backbone, output)
    return patches.mean(dim=tuple(range(2, patches.ndim)))


def _has_channels_last(backbone: Any, output: Tensor) -> bool:
    if getattr(backbone, "output_fmt", "NCHW") == "NHWC":
        return True
    about = getattr(backbone, "feature_info", None)
    known = {stage["num_chs"] for stage in about} if isinstance(about, list) else set()
    known.add(getattr(backbone, "num_features", None))  # of a layer behind the last block
    _, first, columns, last = output.shape
    return last != columns and first not in known and last in known


def read_block_outputs(
    backbone: Any, images: Tensor, blocks: Sequence[int], *, read: Callable[[Any, Tensor, int], Tensor]
) -> list[Tensor]:
    """What is read from the outputs of blocks, in their order here; what comes after the last is not computed.

    ``read`` gets the backbone, an output and the number of its block.
    """
    modules = [module for stage in list_block_modules(backbone) for module in stage]
    numbers = [block % len(modules) for block in blocks]
    found: dict[int, Tensor] = {}

    def seen(number: int, output: Tensor) -> None:
        if number in numbers:
            found[number] = read(backbone, output, number)
            if len(found) == len(numbers) and not torch.compiler.is_exporting():  # a graph leaves out the rest itself
                raise _StopForward

    try:
        with watch_blocks(modules, seen):
            backbone(images)
    except _StopForward:
        pass
    if len(found) < len(numbers):
        raise QueryError(
            f"The blocks of a {type(backbone).__name__} do not run as the zoo knows blocks; leave them out."
        )
    return [found[number] for number in numbers]


def compute_block_means(backbone: Any, images: Tensor, *, blocks: tuple[int, ...]) -> Tensor:
    """Means of the maps of blocks, the earliest first."""
    means = read_block_outputs(backbone, images, blocks, read=lambda network, output, _: average_map(network, output))
    return torch.cat(means, dim=-1)


def has_tokens(backbone: Any) -> bool:
    """Whether :func:`compute_block_tokens` reads it: a vision transformer of timm, of transformers or of the zoo."""
    return hasattr(backbone, "forward_intermediates") and hasattr(backbone, "fc_norm") and hasattr(backbone, "blocks")


def has_class_token(backbone: Any) -> bool:
    """Whether the first token of a network is of its class; one with registers alone says so as timm's do."""
    is_there = getattr(backbone, "has_class_token", getattr(backbone, "cls_token", True) is not None)
    return getattr(backbone, "num_prefix_tokens", 0) > 0 and bool(is_there)


def compute_block_tokens(backbone: Any, images: Tensor, blocks: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Patch tokens of blocks and those before them, each (n, tokens, width), through the final norm.

    The earliest block comes first; those after the last are not computed.
    """
    has_prefix = backbone.num_prefix_tokens > 0  # class and register tokens
    outputs = backbone.forward_intermediates(
        images,
        indices=list(blocks),
        return_prefix_tokens=has_prefix,
        norm=True,
        stop_early=True,
        output_fmt="NLC",
        intermediates_only=True,
    )
    return list(outputs) if has_prefix else [(patches, patches[:, :0]) for patches in outputs]
