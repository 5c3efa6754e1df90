"""Encoders: the module that users hold, and the features it takes from a backbone.

There is one pooling function for each ``representation.layer`` of the cards, and one for the other tokens that a
transformer offers. Each takes the backbone and the images, and gives one row per image. Tokens are read after the last
block's final norm, class token first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from ..cards.catalogue import get_base_card
from ..cards.representations import PROJECTED, HierarchicalNetwork, infer_network, parse_tokens
from ..cards.schema import LAYERS, EncoderCard
from ..errors import BuildError, DataError, ZooError, format_count
from .blocks import compute_block_means, compute_block_tokens
from .maps import compute_feature_map

if TYPE_CHECKING:
    from ..weights.store import FileReading

ERRORS = (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""What networks raise for images that they cannot take."""

Pooling: TypeAlias = Callable[[Any, Tensor], Tensor]
"""From backbone and images to features. A backbone is ``Any``, for type checkers do not know its attributes."""


class Encoder(nn.Module):
    """A backbone and the pooling that makes one feature vector an image of its output.

    Keys of the state dict are those of torchvision or timm behind the prefix ``backbone.``
    (``backbone.layer1.0.conv1.weight``, ``backbone.blocks.0.attn.qkv.weight``). Further keys, for what neither has:

    * ``backbone.avgpool.0.{conv1,bn1,conv2,bn2,conv3,bn3}.*`` for the last block of ``zoo:resnet50_last_block``;
    * ``backbone.head.weight``, shape (proj, width), for CLIP's projection, which has no bias;
    * ``pooling.{scaling,biasing,medians}`` for the quantised projection.

    Parameters require no gradient, so a forward pass records none; to fine-tune, call ``requires_grad_()``. For
    gradients with respect to the images, let the images require them.

    Encoders that a card describes answer images that they cannot take with one sentence (DataError); an encoder that
    you make of a network of your own leaves that to the network.

    Attributes
    ----------
    backbone : nn.Module
        For use without the pooling, as in dense prediction.
    pooling : callable
    dim : int
        Dimensions of the features.
    reading : Reading or None
        For weights from a user's file: what was read from it, and what was done to it.
    interpolated_px : tuple of int or None
        For which side of images its position embeddings were learned, and for which they were interpolated.
    px : int or None
        Side of the images that its preprocessing makes; None for a network of your own.
    card : EncoderCard or None
        What it was built by, with the preprocessing for images of its size; None for a network of your own.
    """

    def __init__(self, backbone: nn.Module, pooling: Pooling, *, dim: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = pooling
        self.dim = dim
        self.reading: FileReading | None = None
        self.interpolated_px: tuple[int, int] | None = None
        self.px: int | None = None
        self.card: EncoderCard | None = None

    def forward(self, images: Tensor) -> Tensor:
        """Features, float32 (n, dim), of normalised images, float32 (n, 3, px, px)."""
        return self._answered(self.pooling, images, call="encoder")

    def maps(self, images: Tensor, layer: int | None = None) -> Tensor:
        """Patch features, (n, channels, rows, columns), of normalised images, float32 (n, 3, px, px).

        The map is what the network pools: tokens of the last block after the final norm, without those of class and
        registers, or the last map of a convolutional network with all that is behind its last block. Its mean over
        rows and columns is the encoder's average, but for a norm or a layer behind that. Which features an encoder
        gives has no part in it: that of ``dino_vitS16@cls:9`` is of the last block too.

        ``layer`` is a block, counted from 0 or, negative, from the end, as ``zoo layers`` numbers them. Tokens of
        vision transformers go through the final norm; maps of other networks are as the block gives them. DataError as
        for features; QueryError if the encoder has no maps, or no such block.
        """
        return self._answered(partial(compute_feature_map, layer=layer), images, call="encoder.maps")

    def to_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Writes the network as an ONNX model, from ``images`` float32 (n, 3, px, px) to ``features`` float32 (n, dim).

        n is any number, ``images`` are as the preprocessing makes them. The metadata has ``encoder``, ``weights_hash``
        and ``pooling`` as text and, as JSON, ``dim``, ``px`` and ``preprocess``: size, crop and interpolation, and
        ``mean`` and ``std`` of pixels from 0 to 1. Weights are float32, next to the model where they have 2 GB or more
        (``NAME.data``). QueryError if the network cannot be exported, no card describes it, or the model differs from
        it by more than 1e-4 of the largest feature; StoreError if the file cannot be written; MissingExtra without the
        libraries of the extra ``onnx``. Then nothing is written.
        """
        from .exporting import write_encoder

        return write_encoder(self, Path(path))

    def _answered(self, read: Pooling, images: Tensor, *, call: str) -> Tensor:
        if self.px is None:
            return read(self.backbone, images)
        # some networks would give something all the same; a trace would warn of a condition on the shape
        is_checked = isinstance(images, Tensor) and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if is_checked and (images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point()):
            raise DataError(self._why_not(images, px=self.px, call=call))
        # of transformers, some refuse another size than theirs, some interpolate, some give what nobody meant
        if is_checked and hasattr(self.backbone, "interpolates_positions") and images.shape[2:] != (self.px, self.px):
            raise DataError(self._why_not(images, px=self.px, call=call))
        try:
            return read(self.backbone, images)
        except ERRORS as error:
            is_said = isinstance(error, ZooError) or "memory" in str(error) or isinstance(images, torch.fx.Proxy)
            sentence = "" if is_said else self._why_not(images, px=self.px, call=call)
            if not sentence:
                raise
            raise DataError(sentence) from error

    def _why_not(self, images: Any, *, px: int, call: str) -> str:
        """What is wrong with images that the encoder has not taken; "" if they are as they should be."""
        first = next(self.parameters())
        dtype, device = str(first.dtype).removeprefix("torch."), first.device
        expected = f"{dtype} (n, 3, {px}, {px}) as preprocess makes it"
        each = f"{call}(preprocess(image)[None])"
        if not isinstance(images, Tensor):
            found = f"a value of type {type(images).__name__!r}"
            if isinstance(images, list | tuple):
                each = f"{call}(torch.stack([preprocess(image) for image in images]))"
            do = f"call {each}"
        else:
            found = f"{str(images.dtype).removeprefix('torch.')} {tuple(images.shape)}"
            halves = (torch.float16, torch.bfloat16, torch.float32)
            can_cast = torch.amp.is_autocast_available(device.type)
            is_cast = can_cast and torch.is_autocast_enabled(device.type) and images.dtype in halves
            if images.is_floating_point() and images.ndim == 3 and len(images) == 3:
                do = f"call {call}(image[None]) for one image"
            elif images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
                do = f"call {each}"
            elif images.device != device:
                found, expected = f"images on {str(images.device)!r}", f"them on {str(device)!r}"
                do = f"call {call}(images.to({str(device)!r}))"
            elif images.dtype != first.dtype and not is_cast:
                do = f"call {call}(images.to(torch.{dtype}))"
            elif images.shape[2:] != (px, px):
                do = "load the encoder with px=... for images of another size"
            else:
                return ""
        return f"The encoder got {found}, expected {expected}; {do}."

    def extra_repr(self) -> str:
        if self.interpolated_px is None:
            return f"dim={self.dim}"
        learned, asked = self.interpolated_px
        return f"dim={self.dim}, px={asked}, positions interpolated from {learned} px"


def build_pooling(card: EncoderCard, *, width: int) -> Pooling:
    """The pooling of a card; ``width`` counts the channels of the backbone's last feature map, or of one token.

    BuildError if the layer cannot have the card's dimensions, or its order is missing.
    """
    layer, dim = card.representation.layer, card.representation.dim
    words = LAYERS[layer].tokens.split("+")  # one, of what a network pools by itself
    n_widths = len(words) * LAYERS[layer].n_blocks
    if "proj" not in words and dim != n_widths * width:
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.dim': found {dim}, expected {n_widths * width}, "
            f"for {layer!r} of {card.architecture.backbone!r} is {n_widths} x {width}; correct the card."
        )
    match layer:
        case "avgpool" | "attnpool" | "pooled":
            return apply_backbone
        case "cls":
            return select_class_token
        case "avg":
            return average_patch_tokens
        case "cls+avg":
            return partial(join_class_and_patches, interleave=_is_interleaved(card))
        case "4xcls":
            return partial(join_block_tokens, words=("cls",), blocks=(-4, -3, -2, -1))
        case "proj":
            return project_class_token
        case "proj+cls":
            return join_class_and_projection
        case "pred":
            return QuantisedProjection(dim)


def build_derived_pooling(card: EncoderCard, backbone: Any) -> Pooling:
    """The pooling of a card that :mod:`zoo.cards.representations` has derived, on the backbone of the encoder."""
    layer, dim = card.representation.layer, card.representation.dim
    tokens, n_blocks = parse_tokens(layer), len(getattr(backbone, "blocks", ()))
    if tokens is not None and isinstance(infer_network(get_base_card(card)), HierarchicalNetwork):
        return partial(compute_block_means, blocks=tokens.blocks)
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
            f"Encoder {card.id!r}: found {format_count(dim, 'dimension')}, expected {expected} for {layer!r} of tokens "
            f"of {backbone.num_features}; correct embed_dim in the options of the card."
        )
    if tokens.words in PROJECTED:
        return project_class_token if tokens.words == "proj" else join_class_and_projection
    return partial(join_block_tokens, words=tuple(tokens.words.split("+")), blocks=tokens.blocks)


def get_projection_dim(card: EncoderCard, *, width: int) -> int:
    """Dimensions of the projection that a card's layer needs; 0 if it needs none."""
    words = LAYERS[card.representation.layer].tokens.split("+")
    if "proj" not in words:
        return 0
    taken = width * sum(word != "proj" for word in words)
    dim = card.representation.dim - taken
    if dim < 1:
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.dim': found {card.representation.dim}, "
            f"expected more than the {taken} dimensions of the class token; correct the card."
        )
    return dim


def apply_backbone(backbone: Any, images: Tensor) -> Tensor:
    """The output of the backbone, which pools by itself."""
    return cast(Tensor, backbone(images))  # (n, width)


def select_class_token(backbone: Any, images: Tensor) -> Tensor:
    """The class token."""
    return cast(Tensor, backbone.forward_features(images)[:, 0])  # (n, width)


def average_patch_tokens(backbone: Any, images: Tensor) -> Tensor:
    """The mean of the patch tokens; a backbone that norms what it has pooled (``fc_norm``) norms it here too."""
    tokens = backbone.forward_features(images)  # (n, prefix + patches, width)
    mean = tokens[:, backbone.num_prefix_tokens :].mean(dim=1)
    norm = getattr(backbone, "fc_norm", None)
    return cast(Tensor, mean if norm is None else norm(mean))


def join_class_and_patches(backbone: Any, images: Tensor, *, interleave: bool) -> Tensor:
    """The class token and the mean of the patch tokens.

    Interleaved, the dimensions alternate (class 0, mean 0, class 1, mean 1, ...), as in DINO's linear evaluation;
    otherwise the mean follows the class token. A linear probe cannot tell the two apart, a comparison of features can.
    """
    tokens = backbone.forward_features(images)  # (n, prefix + patches, width)
    both = (tokens[:, 0], tokens[:, backbone.num_prefix_tokens :].mean(dim=1))
    return torch.stack(both, dim=-1).flatten(1) if interleave else torch.cat(both, dim=-1)  # (n, 2 * width)


def join_block_tokens(backbone: Any, images: Tensor, *, words: tuple[str, ...], blocks: tuple[int, ...]) -> Tensor:
    """Class tokens (``cls``) and means of the patch tokens (``avg``) of blocks, each through the final norm.

    Blocks count from 0, or from -1 backwards; the earliest comes first. Blocks after the last one that is asked for are
    not computed. A backbone that norms its pooled tokens (``fc_norm``) has no norm of tokens; then its norm follows the
    pooling here too, so that the mean of the last block is the output of the backbone.
    """
    taken = []
    for patches, prefix in compute_block_tokens(backbone, images, blocks):
        taken += [prefix[:, 0] if word == "cls" else patches.mean(dim=1) for word in words]
    return torch.cat([backbone.fc_norm(pooled_tokens) for pooled_tokens in taken], dim=-1)


def project_class_token(backbone: Any, images: Tensor) -> Tensor:
    """CLIP's projection of the class token, not normalised to unit length."""
    return cast(Tensor, backbone.head(select_class_token(backbone, images)))  # (n, proj)


def join_class_and_projection(backbone: Any, images: Tensor) -> Tensor:
    """The class token, then its projection."""
    token = select_class_token(backbone, images)
    return torch.cat((token, backbone.head(token)), dim=-1)  # (n, width + proj)


class QuantisedProjection(nn.Module):
    """CLIP's projection after a lossy compressor: what a receiver would decode, with the coding left out.

    Every dimension is shifted, scaled, rounded to whole steps around its median and brought back, so features are
    ``biasing`` and ``1 / exp(scaling)`` apart from a grid of integers. With ``instead``, other features of the same
    backbone, the parameters stay, for they belong to the weights of the encoder.

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
        steps = (project_class_token(backbone, images) + self.biasing) * self.scaling.exp()
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
