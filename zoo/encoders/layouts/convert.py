"""Applies a layout, and insists that what comes out is the encoder: exactly, and all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UnknownName, WeightsRefused
from ..encoder import Encoder
from . import contrastive, haiku, libraries, residual, transformers
from .steps import Layout, Misfit, State

LAYOUTS: dict[str, Layout] = {
    **residual.LAYOUTS,
    **transformers.LAYOUTS,
    **contrastive.LAYOUTS,
    **haiku.LAYOUTS,
    **libraries.LAYOUTS,
}

_COUNTER = "num_batches_tracked"  # of BatchNorm; counts batches, plays no part in features, and JAX has none
_PREFIX = "backbone."
_OWN = "zoo"


def layout_named(name: str) -> Layout:
    """The layout that a card or a user names.

    Raises
    ------
    UnknownName
        If there is none; lists the nearest ones.
    """
    if name not in LAYOUTS:
        raise UnknownName("layout of weights", name, LAYOUTS)
    return LAYOUTS[name]


def convert(
    contents: Sequence[Any], encoder: Encoder, *, layout: str, what: str, initial: Mapping[str, Tensor]
) -> State:
    """The state dict of an encoder, from what its file holds.

    Parameters
    ----------
    contents : sequence
        What the card's file holds, then what each of its companions holds, as ``read_checkpoint`` gives them.
    encoder : Encoder
        Of the card, on any device; only names, shapes and types are read.
    layout : str
        Name of the layout of the first file. A file that has the encoder's own names, which no source uses, is one that
        the zoo has written, and is taken for that whatever is said here.
    what : str
        How messages name the file.
    initial : mapping of str to Tensor
        State dict of the encoder before training; no parameter may be equal to it.

    Returns
    -------
    dict of str to Tensor
        Contiguous, on the CPU, under the names of ``encoder.state_dict()``.

    Raises
    ------
    WeightsRefused
        If anything is missing, left over, of another shape or type, not finite or untrained; names the first tensor.
    """
    wanted = encoder.state_dict()
    target = {name.removeprefix(_PREFIX): tensor for name, tensor in wanted.items()}
    is_own = _has_own_names(contents[0], wanted)
    chosen = layout_named(_OWN if is_own else layout)
    try:
        state = chosen.convert(*(contents[:1] if is_own else contents), target=target)
        _complete_counters(state, target)
        _check_names(state, target)
        trained = {name for name, _ in encoder.named_parameters()}
        result: State = {}
        for name in wanted:
            short = name.removeprefix(_PREFIX)
            tensor = _fitting(short, state[short], wanted[name], half=chosen.half)
            if name in trained and torch.equal(tensor, initial[name].cpu()):
                raise Misfit(f"{short!r} is as it was before training")
            result[name] = tensor
    except Misfit as misfit:
        raise WeightsRefused(
            f"The weights of {what} do not fit the encoder as files of the layout {layout!r} do: {misfit}; "
            "nothing was loaded, check that this is the right file for this encoder."
        ) from misfit
    return result


def require_fit(state: Mapping[str, Tensor], encoder: Encoder, *, what: str, is_trusted: bool) -> None:
    """Refuses a state dict that is not exactly the encoder's, before it becomes the encoder's.

    Parameters
    ----------
    state : mapping of str to Tensor
    encoder : Encoder
    what : str
        How messages name the file.
    is_trusted : bool
        Converted on this machine, so that every number is known to be finite.

    Raises
    ------
    WeightsRefused
        If a tensor is missing, left over, of another shape or type, or not finite; names the first one.
    """
    wanted = encoder.state_dict()
    try:
        _check_names(dict(state), wanted)
        for name, tensor in wanted.items():
            if is_trusted and (state[name].shape, state[name].dtype) == (tensor.shape, tensor.dtype):
                continue
            _fitting(name, state[name], tensor, half=False)
    except Misfit as misfit:
        raise WeightsRefused(f"The converted weights {what} do not fit the encoder: {misfit}; remove them.") from misfit


def _has_own_names(content: Any, wanted: Mapping[str, Tensor]) -> bool:
    return isinstance(content, Mapping) and content.keys() == wanted.keys()


def _complete_counters(state: State, target: Mapping[str, Tensor]) -> None:
    for name in target:
        if name.endswith(_COUNTER) and name not in state:
            state[name] = torch.zeros((), dtype=torch.int64)


def _check_names(state: State, target: Mapping[str, Tensor]) -> None:
    for kind, names in (("is missing", [*(target.keys() - state)]), ("is left over", [*(state.keys() - target)])):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise Misfit(f"the tensor {min(names)!r} {kind}{more}")


def _fitting(name: str, tensor: Tensor, wanted: Tensor, *, half: bool) -> Tensor:
    if tensor.shape != wanted.shape:
        raise Misfit(f"{name!r} has shape {tuple(tensor.shape)}, expected {tuple(wanted.shape)}")
    if tensor.dtype != wanted.dtype:
        if not (half and tensor.dtype in (torch.float16, torch.bfloat16) and wanted.dtype == torch.float32):
            raise Misfit(f"{name!r} is {_named(tensor.dtype)}, expected {_named(wanted.dtype)}")
        tensor = tensor.float()
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        n = int((~torch.isfinite(tensor)).sum())
        raise Misfit(f"{name!r} has {n} numbers of {tensor.numel()} that are not finite")
    return tensor.detach().contiguous()


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
