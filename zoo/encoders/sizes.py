"""Encoders for images of another size than their card's.

Position embeddings are interpolated, as timm and transformers do it (``zoo:dinov2`` as its authors do), when a caller
asks for another size and never otherwise. Networks that were built for one size are built again for the other one; what
every network accepts is found out by running it on the meta device, where nothing is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..cards.schema import EncoderCard, Preprocess
from ..errors import BuildError, QueryError, warn_name_note
from .build import build_empty_encoder, build_encoder
from .encoder import ERRORS, Encoder
from .layouts.convert import interpolate_positions
from .layouts.steps import Misfit


def preprocess_at(preprocess: Preprocess, px: int) -> Preprocess:
    """The same preprocessing for images of another side: the scale before the crop changes with it."""
    return replace(preprocess, crop_px=px, resize_px=round(preprocess.resize_px * px / preprocess.crop_px))


def derive_sized_card(card: EncoderCard, px: int) -> EncoderCard:
    """The card of an encoder for images of ``px`` x ``px``; QueryError names the sizes that it takes.

    ``card`` is its own, not one of other features.
    """
    if isinstance(px, bool) or not isinstance(px, int) or px < 1:
        raise QueryError(f"Found px={px!r} for {card.id!r}, expected a whole number of pixels from 1.")
    if px == card.preprocess.crop_px:
        return card
    network = build_encoder(card, device="meta")
    steps = _steps(card, network.backbone)
    fitting = _fitting(card, network, px) if px % steps[0] == 0 else None
    if fitting is not None:
        return fitting
    own = card.preprocess.crop_px
    for step in steps:
        near = [side for side in (px // step * step, (px // step + 1) * step) if side not in (0, own, px)]
        taken = [side for side in near if _fitting(card, network, side) is not None]
        if taken:
            such = " or ".join(map(str, taken))
            raise QueryError(f"Found px={px} for {card.id!r}, expected {own} or a multiple of {step}, such as {such}.")
    raise QueryError(f"Found px={px} for {card.id!r}, whose network takes images of {own} px alone; leave out px.")


def _fitting(card: EncoderCard, network: Encoder, px: int) -> EncoderCard | None:
    """The card for this size, with a network built for it where need be; None if there is none."""
    sized = replace(card, preprocess=preprocess_at(card.preprocess, px))
    if _takes(network, px):
        return sized
    options = card.architecture.options | {"img_size": px}
    rebuilt = replace(sized, architecture=replace(card.architecture, options=options))
    try:
        other = build_encoder(rebuilt, device="meta")
        return rebuilt if _takes(other, px) and not _unfitted(network, other) else None
    except (BuildError, *ERRORS):  # an option that it does not have, or a size that it cannot be built for
        return None


def resize_encoder(encoder: Encoder, card: EncoderCard, sized: EncoderCard) -> Encoder:
    """An encoder with the same weights for images of another size: ``sized`` is the card of :func:`derive_sized_card`.

    A note says which position embeddings are interpolated, and so does the ``repr``.
    """
    px = sized.preprocess.crop_px
    if px == card.preprocess.crop_px:
        return encoder
    device = next(encoder.parameters()).device
    if sized.architecture == card.architecture:
        other = encoder
        network: Any = encoder.backbone
        is_changed = isinstance(getattr(network, "pos_embed", None), Tensor)  # which timm then interpolates by itself
        if hasattr(network, "interpolates_positions"):
            network.interpolates_positions = is_changed = _interpolates_on_demand(network)
        is_changed = is_changed or isinstance(card.architecture.native_px, int)
    else:
        other = build_encoder(sized, device="meta") if device.type == "meta" else build_empty_encoder(sized)
        if device.type != "meta":
            state = _interpolated(encoder, other, card)
            other.load_state_dict(state, assign=True)
            other = other.requires_grad_(False).to(device)
        other.reading = encoder.reading
        before, after = encoder.state_dict(), other.state_dict()
        is_changed = any(before[name].shape != tensor.shape for name, tensor in after.items() if name in before)
    other.px, other.card = px, replace(card, preprocess=sized.preprocess)
    native = card.architecture.native_px
    learned = native if isinstance(native, int) else card.preprocess.crop_px
    if is_changed and learned != px:
        other.interpolated_px = (learned, px)
        warn_name_note(f"The position embeddings of {card.id!r} are for {learned} px, and interpolated to {px} px.")
    return other


def _interpolated(encoder: Encoder, other: Encoder, card: EncoderCard) -> dict[str, Tensor]:
    beside = {name: tensor for name, tensor in encoder.state_dict().items() if not name.startswith("backbone.")}
    try:
        changed = interpolate_positions(encoder.backbone.state_dict(), other.backbone)
    except Misfit as error:
        raise QueryError(f"The weights of {card.id!r} cannot be interpolated: {error}.") from error
    kept = {f"backbone.{name}": changed[name].contiguous() for name in other.backbone.state_dict()}
    return kept | beside


def _unfitted(network: Encoder, other: Encoder) -> list[str]:
    """Names of tensors that timm does not fit to the network of another size, as its plain Hiera's positions."""
    state = network.backbone.state_dict()
    try:
        changed = interpolate_positions(state, other.backbone)
    except Misfit:  # a function that computes with numbers, which those on the meta device do not have
        return []
    wanted = other.backbone.state_dict()
    return [name for name, tensor in wanted.items() if name not in changed or changed[name].shape != tensor.shape]


def _steps(card: EncoderCard, backbone: nn.Module) -> tuple[int, ...]:
    """Of which numbers of pixels sides may be multiples, the likeliest first."""
    known = card.architecture.size_step_px
    if isinstance(known, int):
        return (known,)
    embed = getattr(backbone, "patch_embed", None)
    patch: Any = getattr(embed, "patch_size", None) or getattr(backbone, "patch_px", 1)
    return tuple(dict.fromkeys((int(patch[0] if isinstance(patch, tuple | list) else patch), 32)))


def _takes(encoder: Encoder, px: int) -> bool:
    backbone: Any = encoder.backbone
    if hasattr(backbone, "interpolates_positions"):
        from .transformers_models import accepts_size

        return accepts_size(backbone, px)
    try:
        with torch.device("meta"):
            encoder.pooling(encoder.backbone, torch.empty(1, 3, px, px))
    except ERRORS:
        return False
    return True


def _interpolates_on_demand(backbone: nn.Module) -> bool:
    from .transformers_models import can_interpolate

    return can_interpolate(backbone)
