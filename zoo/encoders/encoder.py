"""The module that users hold: images in, features out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torchvision.models.resnet import ResNet

from ..cards.representations import PROJECTED, tokens_of
from ..cards.schema import LAYERS, EncoderCard
from ..errors import BuildError, QueryError
from .resnet import SmallResNet

if TYPE_CHECKING:
    from ..weights.store import Reading

Pooling: TypeAlias = Callable[[Any, Tensor], Tensor]
"""Backbone and images -> features.

The backbone is typed ``Any``: its own attributes (``forward_features``, ``head``) are seen by no type checker.
"""


class Encoder(nn.Module):
    """A backbone and the pooling that makes one feature vector an image of what it computes.

    Keys of the state dict are those of torchvision or timm behind the prefix ``backbone.``
    (``backbone.layer1.0.conv1.weight``, ``backbone.blocks.0.attn.qkv.weight``). Further keys, for what neither has:

    * ``backbone.avgpool.0.{conv1,bn1,conv2,bn2,conv3,bn3}.*`` for the last block of ``zoo:resnet50_last_block``;
    * ``backbone.head.weight``, shape (proj, width), for CLIP's projection, which has no bias;
    * ``pooling.{scaling,biasing,medians}`` for the quantised projection.

    Parameters ask for no gradient, so a forward pass records none; to fine-tune, call ``requires_grad_()``. Gradients
    with respect to the images are to be had by asking for them.

    Attributes
    ----------
    backbone : nn.Module
        For use without the pooling, as in dense prediction.
    pooling : callable
    dim : int
        Dimensions of the features.
    reading : Reading or None
        What was taken of the user's own file that the weights are from, and what was done to it; None for others.
    """

    def __init__(self, backbone: nn.Module, pooling: Pooling, *, dim: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = pooling
        self.dim = dim
        self.reading: Reading | None = None

    def forward(self, images: Tensor) -> Tensor:
        """Features, float32 (n, dim), of normalised images, float32 (n, 3, px, px)."""
        return self.pooling(self.backbone, images)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


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
    words = LAYERS[layer].tokens.split("+")  # one, of what a network pools by itself
    n_widths = len(words) * LAYERS[layer].n_blocks
    if "proj" not in words and dim != n_widths * width:
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
    """The pooling of a card that :mod:`zoo.cards.representations` has derived.

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


N_DEPTHS = 4
"""Of a backbone that keeps the size of its maps."""


@dataclass(frozen=True, slots=True, eq=False)
class StageReader:
    """From images to the maps of an encoder's stages.

    Shares the modules of the encoder, and follows them to another device, into training and out of it.

    Attributes
    ----------
    channels : tuple of int
        Of each stage, shallow first.
    strides : tuple of int
        Pixels of the input from one cell of its map to the next, ascending; equal for depths of a transformer.
    read : callable
        Images -> maps.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    read: Callable[[Tensor], list[Tensor]]

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Maps, each (n, channels, height, width), shallow first, of normalised images, float32 (n, 3, px, px).

        Raises
        ------
        QueryError
            If a backbone of the user's own does not do what it says.
        """
        maps = self.read(images)
        found = tuple(each.shape[1] for each in maps)
        if found != self.channels:
            raise QueryError(
                f"The backbone gives maps of {found} channels, and its feature_info says {self.channels}; correct its "
                "feature_info, or take another encoder."
            )
        return maps


def stage_reader(encoder: Encoder, *, px: int) -> StageReader:
    """The maps that an encoder has.

    Parameters
    ----------
    encoder : Encoder
    px : int
        Height and width of the images.

    Raises
    ------
    QueryError
        If the encoder has no spatial features, or not for images of this size.
    """
    backbone = encoder.backbone
    if isinstance(backbone, ResNet | SmallResNet):
        return _of_resnet(backbone)
    if not (getattr(backbone, "feature_info", None) and hasattr(backbone, "forward_intermediates")):
        raise QueryError(
            f"The encoder has no spatial features: its backbone is a {type(backbone).__name__}, expected a ResNet of "
            "torchvision, a network of timm, or one with timm's feature_info and forward_intermediates; take another "
            "encoder, or the task classification."
        )
    _check_size(backbone, px)
    return _of_timm(backbone)


def _of_resnet(backbone: Any) -> StageReader:
    channels = [backbone.conv1.out_channels]
    strides = [_one(backbone.conv1.stride)]
    layers = [layer for name, layer in backbone.named_children() if name.startswith("layer")]
    pool = getattr(backbone, "maxpool", nn.Identity())
    stride = strides[0] * _one(getattr(pool, "stride", 1))  # networks for small images have nn.Identity here
    for layer in layers:
        norms = [module for name, module in layer[-1].named_children() if name.startswith("bn")]
        stride *= _one(layer[0].stride)
        channels.append(norms[-1].num_features)
        strides.append(stride)
    last = list(backbone.avgpool.children())[:-1]  # zoo:resnet50_last_block has a block before its average
    if last:
        channels[-1] = last[-1].bn3.num_features
        layers[-1] = nn.Sequential(layers[-1], *last)
    stem = nn.Sequential(backbone.conv1, backbone.bn1, backbone.relu)
    return StageReader(tuple(channels), tuple(strides), partial(_read_resnet, [stem, pool, *layers]))


def _read_resnet(parts: list[nn.Module], images: Tensor) -> list[Tensor]:
    stem, pool, *layers = parts
    maps = [stem(images)]
    x = pool(maps[0])
    for layer in layers:
        x = layer(x)
        maps.append(x)
    return maps


def _of_timm(backbone: Any) -> StageReader:
    about = list(backbone.feature_info)
    strides = [_one(stage["reduction"]) for stage in about]
    if len(about) > 1 and len(set(strides)) == 1:
        n, n_depths = len(about), min(N_DEPTHS, len(about))
        taken = [(depth + 1) * n // n_depths - 1 for depth in range(n_depths)]
        norm = True
    else:
        taken = [i for i, stride in enumerate(strides) if stride not in strides[i + 1 :]]
        norm = hasattr(backbone, "norm_pre")  # ConvNeXt: what is pooled; others cannot all norm their maps
    return StageReader(
        tuple(about[i]["num_chs"] for i in taken),
        tuple(strides[i] for i in taken),
        partial(_read_timm, backbone, taken=taken, norm=norm),
    )


def _read_timm(backbone: Any, images: Tensor, *, taken: list[int], norm: bool) -> list[Tensor]:
    return list(backbone.forward_intermediates(images, indices=taken, norm=norm, intermediates_only=True))


def _check_size(backbone: Any, px: int) -> None:
    """Transformers with a table of positions see images of one size; none sees a part of a patch."""
    embed = getattr(backbone, "patch_embed", None)
    patch_px, built_px = _one(getattr(embed, "patch_size", 1)), _one(getattr(embed, "img_size", None) or px)
    overlaps = patch_px != _one(backbone.feature_info[0]["reduction"])  # then windows, which are padded
    expected = ""
    if built_px != px and getattr(embed, "strict_img_size", True):
        expected = f"{built_px} px, for which its positions are"
    elif px % patch_px and not overlaps and not getattr(embed, "dynamic_img_pad", False):
        expected = f"a multiple of its patches of {patch_px} px"
    if expected:
        raise QueryError(
            f"The encoder has no spatial features for images of {px} px: its backbone, a {type(backbone).__name__}, "
            f"needs {expected}; correct the crop of its preprocessing."
        )


def _one(of_both_axes: Any) -> int:
    return int(of_both_axes[0]) if isinstance(of_both_axes, tuple | list) else int(of_both_axes)
