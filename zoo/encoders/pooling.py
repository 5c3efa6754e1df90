"""Which features are taken from a backbone: one function for each ``representation.layer`` of the cards, and one for
whatever else a transformer offers.

Every function takes the backbone and the images, and gives one row an image. Tokens are read after the last block's
final norm, class token first.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import BuildError
from ..metadata import EncoderCard, Layer
from ..tokens import PROJECTED, tokens_of
from .encoder import Pooling

TOKEN_LAYERS: frozenset[Layer] = frozenset({"cls", "cls+avg", "4xcls", "proj", "proj+cls", "pred"})
"""Layers that are read from the tokens of a transformer."""

PROJECTED_LAYERS: frozenset[Layer] = frozenset({"proj", "proj+cls", "pred"})
"""Layers that need the projection of the class token, which CLIP trains with the backbone."""


def build_pooling(card: EncoderCard, *, width: int) -> Pooling:
    """The pooling that a card asks for.

    Parameters
    ----------
    card : EncoderCard
    width : int
        Channels of the backbone's last feature map, or of one token.

    Raises
    ------
    BuildError
        If the layer cannot have the dimensions that the card says, or its order is missing.
    """
    layer, dim = card.representation.layer, card.representation.dim
    n_widths = {"avgpool": 1, "attnpool": 1, "cls": 1, "cls+avg": 2, "4xcls": 4}.get(layer)
    if n_widths is not None and dim != n_widths * width:
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.dim': found {dim}, expected {n_widths * width}, "
            f"for {layer!r} of {card.architecture.backbone!r} is {n_widths} x {width}; correct the card."
        )
    match layer:
        case "avgpool" | "attnpool":
            return pooled
        case "cls":
            return class_token
        case "cls+avg":
            return partial(class_and_average, interleave=_is_interleaved(card))
        case "4xcls":
            return partial(last_class_tokens, n_blocks=4)
        case "proj":
            return projected
        case "proj+cls":
            return class_and_projected
        case "pred":
            return QuantisedProjection(dim)


def other_pooling(card: EncoderCard, backbone: Any) -> Pooling:
    """The pooling of a card that :mod:`zoo.representations` has derived.

    Parameters
    ----------
    card : EncoderCard
    backbone : nn.Module
        Of the card that it was derived from.

    Raises
    ------
    BuildError
        If the backbone does not have such features, or they have other dimensions.
    """
    layer, dim = card.representation.layer, card.representation.dim
    tokens, n_blocks = tokens_of(layer), len(getattr(backbone, "blocks", ()))
    if tokens is None or not all(-n_blocks <= block < n_blocks for block in tokens.blocks):
        raise BuildError(
            f"Encoder {card.id!r}: found the layer {layer!r}, but {card.architecture.backbone!r} has {n_blocks} blocks "
            "of tokens; correct the options of the card, or ask for other layers."
        )
    n_projected = backbone.head.out_features if "proj" in tokens.words else 0
    n_tokens = len(tokens.blocks) * sum(word != "proj" for word in tokens.words.split("+"))
    expected = n_tokens * backbone.num_features + n_projected
    if dim != expected:
        raise BuildError(
            f"Encoder {card.id!r}: found {dim} dimensions, expected {expected} for {layer!r} of tokens of "
            f"{backbone.num_features}; correct embed_dim in the options of the card."
        )
    if tokens.words in PROJECTED:
        return projected if tokens.words == "proj" else class_and_projected
    return partial(tokens_of_blocks, words=tuple(tokens.words.split("+")), blocks=tokens.blocks)


def projection_dim(card: EncoderCard, *, width: int) -> int:
    """Dimensions of the projection that a card's layer needs; 0 if it needs none.

    Raises
    ------
    BuildError
        If nothing is left for the projection.
    """
    if card.representation.layer not in PROJECTED_LAYERS:
        return 0
    taken = width if card.representation.layer == "proj+cls" else 0
    dim = card.representation.dim - taken
    if dim < 1:
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.dim': found {card.representation.dim}, "
            f"expected more than the {taken} dimensions of the class token; correct the card."
        )
    return dim


def pooled(backbone: Any, images: Tensor) -> Tensor:
    """What the backbone pools by itself."""
    return cast(Tensor, backbone(images))  # (n, width)


def class_token(backbone: Any, images: Tensor) -> Tensor:
    """The class token."""
    return cast(Tensor, backbone.forward_features(images)[:, 0])  # (n, width)


def class_and_average(backbone: Any, images: Tensor, *, interleave: bool) -> Tensor:
    """The class token and the mean of the patch tokens.

    Interleaved, the dimensions alternate (class 0, mean 0, class 1, mean 1, ...), as in DINO's linear evaluation;
    otherwise the mean follows the class token. A linear probe cannot tell the two apart, a comparison of features can.
    """
    tokens = backbone.forward_features(images)  # (n, prefix + patches, width)
    both = (tokens[:, 0], tokens[:, backbone.num_prefix_tokens :].mean(dim=1))
    return torch.stack(both, dim=-1).flatten(1) if interleave else torch.cat(both, dim=-1)  # (n, 2 * width)


def last_class_tokens(backbone: Any, images: Tensor, *, n_blocks: int) -> Tensor:
    """The class tokens of the last blocks, the earliest block first, each through the final norm."""
    blocks = backbone.forward_intermediates(
        images, indices=n_blocks, return_prefix_tokens=True, norm=True, output_fmt="NLC", intermediates_only=True
    )
    return torch.cat([prefix[:, 0] for _, prefix in blocks], dim=-1)  # (n, n_blocks * width)


def tokens_of_blocks(backbone: Any, images: Tensor, *, words: tuple[str, ...], blocks: tuple[int, ...]) -> Tensor:
    """Class tokens and means of the patch tokens of blocks, in this order, each through the final norm.

    Blocks after the last one that is asked for are not computed. A backbone that norms what it has pooled (``fc_norm``)
    has no norm of tokens; then its norm is put behind our pooling too, so that the mean of the last block is what the
    backbone gives by itself.

    Parameters
    ----------
    backbone : nn.Module
    images : Tensor
    words : tuple of str
        ``cls`` and ``avg``: what is taken of every block.
    blocks : tuple of int
        From 0, or from -1 backwards; the earliest first.
    """
    has_prefix = backbone.num_prefix_tokens > 0  # class and register tokens
    found = backbone.forward_intermediates(
        images,
        indices=list(blocks),
        return_prefix_tokens=has_prefix,
        norm=True,
        stop_early=True,
        output_fmt="NLC",
        intermediates_only=True,
    )
    taken = []
    for block in found:
        patches, prefix = block if has_prefix else (block, block[:, :0])  # (n, patches, width), (n, prefix, width)
        taken += [prefix[:, 0] if word == "cls" else patches.mean(dim=1) for word in words]
    return torch.cat([backbone.fc_norm(pooled_tokens) for pooled_tokens in taken], dim=-1)


def projected(backbone: Any, images: Tensor) -> Tensor:
    """CLIP's projection of the class token, not normalised to unit length."""
    return cast(Tensor, backbone.head(class_token(backbone, images)))  # (n, proj)


def class_and_projected(backbone: Any, images: Tensor) -> Tensor:
    """The class token, then its projection."""
    token = class_token(backbone, images)
    return torch.cat((token, backbone.head(token)), dim=-1)  # (n, width + proj)


class QuantisedProjection(nn.Module):
    """CLIP's projection after a lossy compressor: what a receiver would decode, with the coding left out.

    Every dimension is shifted, scaled, rounded to whole steps around its median and brought back, so features are
    ``biasing`` and ``1 / exp(scaling)`` apart from a grid of integers.

    Parameters
    ----------
    dim : int
        Dimensions of the projection.
    instead : callable, optional
        Other features of the same backbone; the parameters stay, for they belong to the weights of the encoder.

    References
    ----------
    Dubois et al. 2021, Lossy Compression for Lossless Prediction.
    """

    def __init__(self, dim: int, *, instead: Pooling | None = None) -> None:
        super().__init__()
        self.instead = instead
        self.scaling = nn.Parameter(torch.ones(dim))  # logarithm of steps a unit
        self.biasing = nn.Parameter(torch.zeros(dim))
        self.medians = nn.Parameter(torch.zeros(dim))  # of the shifted and scaled values

    def forward(self, backbone: Any, images: Tensor) -> Tensor:
        if self.instead is not None:
            return self.instead(backbone, images)
        steps = (projected(backbone, images) + self.biasing) * self.scaling.exp()
        decoded = torch.round(steps - self.medians) + self.medians
        return decoded / self.scaling.exp() - self.biasing  # (n, dim)


def _is_interleaved(card: EncoderCard) -> bool:
    order = card.representation.order
    if order not in ("interleaved", "concatenated"):
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.order': found {order!r}, expected 'interleaved' or "
            f"'concatenated', for {card.representation.layer!r} joins two tokens; correct the card."
        )
    return order == "interleaved"
