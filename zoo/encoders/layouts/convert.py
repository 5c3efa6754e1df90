"""Applies a layout, and checks that the result is the encoder: exactly, and all of it.

The layouts of libraries are here: files with the wanted names already, or other names for the same network.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...cards.schema import LAYOUT_NAMES
from ...errors import UnknownName, WeightsRefused
from ...weights.store import FileReading
from ..encoder import ERRORS, Encoder
from . import clip, convolutional, transformers
from .steps import (
    Layout,
    Misfit,
    State,
    Target,
    build_layouts,
    drop_tensors,
    hash_tensors,
    rename_tensors,
    require_names,
    require_state_dict,
    strip_prefix,
)
from .wrappers import COUNTER, LIBRARIES, AmbiguousMisfit, Role, find_encoder, has_fitting_layout

_CLASSIFIERS = ("fc.", "head.fc.", "head.weight", "head.bias")  # of networks that do not say what theirs is called
_POSITIONS = ("pos_embed", "positional_embedding", "position_embedding", "relative_position_bias_table")


def convert_torchvision(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """torchvision's ResNets."""
    return drop_tensors(require_state_dict(content), "fc.")


def convert_torchvision_children(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """``nn.Sequential(*resnet.children())`` of torchvision's ResNets, with or without pool and classifier.

    The numbers are those of the children: 2 and 3 are activation and pool. Source: lightly, the examples for PyTorch
    Lightning.
    """
    stages = tuple((rf"^{number}\.", f"layer{number - 3}.") for number in (4, 5, 6, 7))
    return drop_tensors(
        rename_tensors(require_state_dict(content), (r"^0\.", "conv1."), (r"^1\.", "bn1."), *stages, (r"^9\.", "fc.")),
        "fc.",
    )


def drop_classifier(state: State, target: Mapping[str, Tensor], backbone: nn.Module | None) -> State:
    """The tensors without those of a classifier that the encoder does not have."""
    named = getattr(backbone, "pretrained_cfg", None) or {}
    names = named.get("classifier") or ()
    names = (names,) if isinstance(names, str) else tuple(names)
    parents = (name.rpartition(".")[0] for name in names)  # a norm next to the classifier goes with it
    whole = [f"{parent}." for parent in parents if parent and not any(key.startswith(f"{parent}.") for key in target)]
    prefixes = (*_CLASSIFIERS, *(f"{name}." for name in names), *whole)
    return {name: tensor for name, tensor in state.items() if name in target or not name.startswith(prefixes)}


def rename_as_timm(state: State, target: Mapping[str, Tensor], backbone: nn.Module) -> State:
    """The tensors by the names that timm gives them when it loads such a file; unchanged if it changes none.

    Timm would fit position embeddings to another size of images: here they must have the size of the network's.
    """
    rename = _renaming(backbone)
    if rename is None:
        return state
    counts = {_n_positions(tensor) for name, tensor in target.items() if name.endswith(_POSITIONS)}
    n_prefix = int(getattr(backbone, "num_prefix_tokens", 0))  # a file may have positions of these, too
    for name, tensor in state.items():
        if not name.endswith(_POSITIONS) or not counts:
            continue
        if all(abs(_n_positions(tensor) - count) > n_prefix for count in counts):
            raise Misfit(f"{name!r} has shape {tuple(tensor.shape)}, which is for images of another size")
    return _renamed(rename, state, backbone)


def _n_positions(tensor: Tensor) -> int:
    return tensor.numel() // tensor.shape[-1] if tensor.ndim else 0


def interpolate_positions(state: State, backbone: nn.Module) -> State:
    """The tensors of a network of timm, position embeddings interpolated to the size that this one is built for."""
    rename = _renaming(backbone)
    return state if rename is None else _renamed(rename, state, backbone)


def _renamed(rename: Any, state: State, backbone: nn.Module) -> State:
    try:
        changed = rename(dict(state), backbone)
    except (*ERRORS, KeyError) as error:  # of a function that expects files of one project
        raise Misfit(f"timm cannot read it as a file of this network ({type(error).__name__}: {error})") from error
    return {name: tensor for name, tensor in changed.items() if isinstance(tensor, Tensor)}


def _renaming(backbone: nn.Module) -> Any:
    """The function by which timm changes the names of a file; None if it has none."""
    config = getattr(backbone, "pretrained_cfg", None) or {}
    models = sys.modules.get("timm.models")
    if models is None or not config.get("architecture"):
        return None
    module = sys.modules[models.model_entrypoint(config["architecture"]).__module__]
    return getattr(module, "checkpoint_filter_fn", None)


def convert_timm(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """timm's files, also of weights that timm has copied: the classifier's name depends on the architecture.

    Names that timm has changed since, or that it takes over from other projects, are changed by timm itself.
    """
    backbone = getattr(target, "backbone", None)
    state = drop_classifier(require_state_dict(content), target, backbone)
    if backbone is not None and state.keys() != set(target):
        state = drop_classifier(rename_as_timm(state, target, backbone), target, backbone)
    return state


def convert_transformers_library(content: Any, *parts: Any, target: Mapping[str, Tensor]) -> State:
    """Files of the library transformers: of the backbone alone, or of a model that it is a part of; maybe in parts.

    The backbone of SAM 3 stands deeper in its file than transformers itself looks.
    """
    backbone = getattr(target, "backbone", None)
    if not any(name.startswith("network.") for name in target) or backbone is None:
        raise Misfit("it is read for networks of transformers alone")
    from .. import transformers_models  # which is an extra of its own

    state = {name: tensor for part in (content, *parts) for name, tensor in require_state_dict(part).items()}
    state = rename_tensors(state, (r"^detector_model\.vision_encoder\.backbone\.", ""))
    return transformers_models.rename_as_transformers(state, backbone)


def convert_zoo(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The zoo's files: the state dict of an encoder, or of its backbone alone where the pooling has no weights."""
    state = require_state_dict(content)
    if not any(name.startswith("backbone.") for name in state):
        return state
    pooling = {name: tensor for name, tensor in state.items() if name.startswith("pooling.")}
    return strip_prefix(state, "backbone.", beside=("pooling.",)) | pooling


LAYOUTS: dict[str, Layout] = {
    **transformers.LAYOUTS,
    **convolutional.LAYOUTS,
    **clip.LAYOUTS,
    **build_layouts(convert_torchvision, convert_torchvision_children, convert_timm),
    **build_layouts(convert_zoo, half=True),
    "transformers": Layout(convert=convert_transformers_library, half=True),
}

_PREFIX = "backbone."
_HALVES = (torch.float16, torch.bfloat16)
_ZOO = "zoo"


def get_layout(name: str) -> Layout:
    """The layout that a card or a user names; UnknownName if there is none."""
    if name not in LAYOUTS:
        raise UnknownName("layout of weights", name, LAYOUTS, hint=f"Layouts are {', '.join(LAYOUT_NAMES)}.")
    return LAYOUTS[name]


def convert(
    contents: Sequence[Any],
    encoder: Encoder,
    *,
    layout: str,
    what: str,
    untrained: Callable[[], Mapping[str, bytes]],
) -> Converted:
    """The state dict of an encoder, from the contents of the card's file and its companions.

    Of ``encoder`` only names, shapes and types are read. A file with the names of the encoder's state dict, which no
    other source uses, is one that the zoo has written, and is read as such whatever ``layout`` is. ``untrained`` gives
    the fingerprints of the encoder before training, none of which a parameter may have; it is called once names and
    shapes are right. ``what`` names the file in messages.

    WeightsRefused if anything is missing, left over, of another shape or type, not finite or untrained.
    """
    wanted = encoder.state_dict()
    is_ours = isinstance(contents[0], Mapping) and contents[0].keys() == wanted.keys()
    chosen = get_layout(_ZOO if is_ours else layout)
    try:
        state = chosen.convert(*(contents[:1] if is_ours else contents), target=_target(encoder))
        return _checked(state, encoder, types=_HALVES if chosen.half else (), untrained=untrained)
    except Misfit as misfit:
        raise _refused(what, layout, misfit) from misfit


def convert_own(
    contents: Sequence[Any],
    encoder: Encoder,
    *,
    layout: str,
    is_only: bool,
    checkpoint_key: str,
    role: Role,
    what: str,
    untrained: Callable[[], Mapping[str, bytes]],
) -> tuple[Converted, FileReading]:
    """The state dict of an encoder from a user's file, out of the wrappers that it may be in, and how it was read.

    As :func:`convert`, but: half precision is always widened, and double rounded; unless ``is_only`` the layouts of the
    libraries are tried too, and where none of these fits all the others; ``checkpoint_key`` decides between several
    encoders in the file, if empty the rules of :mod:`.wrappers` with ``role``, the one of student and teacher that the
    method publishes.
    Refused also if several encoders fit and no rule decides.
    """
    names = list(dict.fromkeys((layout, *(() if is_only else LIBRARIES))))
    try:
        taken, reading = find_encoder(
            contents,
            _target(encoder),
            layouts=LAYOUTS,
            wanted=names,
            is_only=is_only,
            checkpoint_key=checkpoint_key,
            role=role,
        )
        state = {  # counters of batches that were made floats with everything else do not affect features
            name: tensor
            for name, tensor in taken.state.items()
            if not (name.endswith(COUNTER) and tensor.is_floating_point())
        }
        converted = _checked(state, encoder, types=(*_HALVES, torch.float64), untrained=untrained)
    except AmbiguousMisfit as misfit:
        raise WeightsRefused(f"The file of {what} {misfit}; nothing was loaded.") from misfit
    except Misfit as misfit:
        raise _refused(what, "", misfit) from misfit
    return converted, replace(reading, widened_from=converted.widened_from)


def is_complete_file(content: Any, encoder: Encoder) -> bool:
    """True if a user's file holds all of the encoder, also what a card takes from a companion."""
    return has_fitting_layout(content, _target(encoder), layouts={_ZOO: LAYOUTS[_ZOO]})


def hash_parameters(encoder: Encoder) -> dict[str, bytes]:
    """A hash of the numbers of each parameter, by its name in the state dict."""
    return hash_tensors({name: parameter.detach().cpu() for name, parameter in encoder.named_parameters()})


def require_fit(state: Mapping[str, Tensor], encoder: Encoder, *, what: str, is_trusted: bool) -> None:
    """Refuses a state dict that is not exactly the encoder's, by its names, shapes and types, and finite numbers.

    ``is_trusted``: it was converted on this machine, so that every number is known to be finite.
    """
    wanted = encoder.state_dict()
    try:
        require_names(state, wanted)
        for name, tensor in wanted.items():
            _check_form(name, state[name], tensor, types=())
            if not is_trusted:
                _check_finite(name, state[name])
    except Misfit as misfit:
        raise WeightsRefused(f"The converted weights {what} do not fit the encoder: {misfit}; remove them.") from misfit


_HELD_BYTES = 1 << 28  # of tensors that are held together


class Converted(Mapping[str, Tensor]):
    """A state dict whose tensors are views of a file until they are asked for, one by one.

    Each is then contiguous and of the encoder's type, a copy if the file has it otherwise: they are never all in memory
    at once.
    """

    def __init__(self, state: State, wanted: Mapping[str, Tensor]) -> None:
        self._state = state
        self._types = {name: tensor.dtype for name, tensor in wanted.items()}
        self._n_bytes = sum(tensor.nbytes for tensor in wanted.values())

    def __getitem__(self, name: str) -> Tensor:
        return self._state[name].detach().to(self._types[name]).contiguous()

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def hold(self) -> Mapping[str, Tensor]:
        """All tensors at once where they take little memory, else this, which gives them one by one."""
        return dict(self) if self._n_bytes <= _HELD_BYTES else self

    @property
    def widened_from(self) -> tuple[str, ...]:
        """Types of the file that are not the encoder's."""
        pairs = ((self._state[name].dtype, dtype) for name, dtype in self._types.items())
        return tuple(sorted({_named(stored) for stored, wanted in pairs if stored != wanted}))


def _refused(what: str, layout: str, misfit: Misfit) -> WeightsRefused:
    as_expected = f" as files of the layout {layout!r} do" if layout else ""
    return WeightsRefused(
        f"The weights of {what} do not fit the encoder{as_expected}: {misfit}; "
        "nothing was loaded, check that this is the right file for this encoder."
    )


def _target(encoder: Encoder) -> Target:
    wanted = {name.removeprefix(_PREFIX): tensor for name, tensor in encoder.state_dict().items()}
    return Target(wanted, encoder.backbone)


def _checked(
    state: State, encoder: Encoder, *, types: tuple[torch.dtype, ...], untrained: Callable[[], Mapping[str, bytes]]
) -> Converted:
    """The state under the encoder's names, after every number of it was checked, a tensor at a time."""
    wanted = encoder.state_dict()
    target = _target(encoder)
    for name in target:
        if name.endswith(COUNTER) and name not in state:
            state[name] = torch.zeros((), dtype=torch.int64)
    require_names(state, target)
    for name, tensor in target.items():
        _check_form(name, state[name], tensor, types=types)
    converted = Converted({name: state[name.removeprefix(_PREFIX)] for name in wanted}, wanted)
    before, held = untrained(), converted.hold()
    for name in wanted:
        _check_finite(name.removeprefix(_PREFIX), held[name])
    for name, found in hash_tensors(held, [name for name in wanted if name in before]).items():
        if found == before[name]:
            raise Misfit(f"{name.removeprefix(_PREFIX)!r} is as it was before training")
    return converted


def _check_form(name: str, tensor: Tensor, wanted: Tensor, *, types: tuple[torch.dtype, ...]) -> None:
    if tensor.shape != wanted.shape:
        raise Misfit(f"{name!r} has shape {tuple(tensor.shape)}, expected {tuple(wanted.shape)}")
    is_cast = wanted.dtype == torch.float32 and tensor.dtype in types
    if tensor.dtype != wanted.dtype and not is_cast:
        raise Misfit(f"{name!r} is {_named(tensor.dtype)}, expected {_named(wanted.dtype)}")


def _check_finite(name: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        n = int((~torch.isfinite(tensor)).sum())
        raise Misfit(f"{name!r} has {n} numbers of {tensor.numel()} that are not finite")


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
