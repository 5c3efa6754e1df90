"""Maps of an encoder: what it gives for every place of an image, of one block or at several depths.

:func:`compute_feature_map` reads one map of any network, as :meth:`zoo.encoders.Encoder.maps` says, and
:func:`compute_block_maps` those of several blocks at once. Tokens take their places row by row; of a clip, that is a
mean over the times that one place has.

A dense decoder starts from maps (:func:`build_stage_reader`), which three kinds of backbones have:

* ResNets of torchvision and of :mod:`zoo.encoders.resnet`: the stem before its max pool, then every stage. The last
  block of ``zoo:resnet50_last_block`` takes the place of the last stage, for its output is what is pooled;
* networks of timm whose maps get smaller (ConvNeXt, CLIP's ResNets, Swin, ...): the deepest map of each size;
* transformers, and other networks of timm whose maps keep their size: four blocks, evenly spaced, including the last
  one, or all if there are fewer. Patch tokens take their places in the image, row by row; class and register tokens
  are left out. Every block goes through the final norm, as in :mod:`zoo.cards.representations`. All four maps have the
  stride of the patches: a decoder that wants a pyramid of them resizes its projections, which is cheaper.

A user's backbone is read like those of timm, if it has their ``feature_info`` and ``forward_intermediates``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor, nn

from ..errors import QueryError
from .blocks import (
    compute_block_tokens,
    extract_patch_maps,
    has_class_token,
    has_tokens,
    list_block_modules,
    read_block_outputs,
)
from .residual_networks import is_resnet

if TYPE_CHECKING:
    from .encoder import Encoder


def compute_feature_map(backbone: Any, images: Tensor, *, layer: int | None = None) -> Tensor:
    """The map of a block, (n, channels, rows, columns), or without one of what the network pools; or QueryError."""
    ((found, _),) = compute_block_maps(backbone, images, [layer])
    return found


def compute_block_maps(
    backbone: Any, images: Tensor, layers: Sequence[int | None]
) -> list[tuple[Tensor, Tensor | None]]:
    """The map of each layer, (n, channels, rows, columns), and its class token, (n, channels), if it has one.

    Layers are those of :func:`compute_feature_map`, in any order. Blocks are read in one forward pass; what a network
    pools is read in another one where that is no block. QueryError as there.
    """
    places = partial(_take_places, backbone, images.shape[-2:])
    found: dict[int | None, tuple[Tensor, Tensor | None]] = {}
    numbers = {layer: None if layer is None else _number(backbone, layer) for layer in layers}
    blocks = sorted({number for number in numbers.values() if number is not None})
    if None in numbers.values():
        found[None] = _read_pooled(backbone, images, places)
    if blocks and has_tokens(backbone):
        for block, (tokens, prefix) in zip(blocks, compute_block_tokens(backbone, images, blocks), strict=True):
            found[block] = places(tokens.transpose(1, 2)), prefix[:, 0] if has_class_token(backbone) else None
    elif blocks:
        for block, rows in zip(blocks, read_block_outputs(backbone, images, blocks, read=_in_rows), strict=True):
            found[block] = places(rows), None
    return [found[numbers[layer]] for layer in layers]


def find_map_layer(backbone: Any, layer: int | None) -> int | None:
    """The number of a block from 0; None where what is pooled (``layer=None``) is not the output of a block."""
    if layer is None and (has_tokens(backbone) or is_resnet(backbone)):
        layer = -1
    return None if layer is None else _number(backbone, layer)


def _read_pooled(backbone: Any, images: Tensor, places: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor | None]:
    output = _last(backbone, images)
    if not isinstance(output, Tensor):
        _has_none(backbone, f"gives a {type(output).__name__} of several")
    patches = extract_patch_maps(backbone, output, n_prefix=getattr(backbone, "num_prefix_tokens", 0))
    return places(patches), output[:, 0] if output.ndim == 3 and has_class_token(backbone) else None


def _take_places(backbone: Any, size: Sequence[int], patches: Tensor) -> Tensor:
    """Patches, (n, channels, places), by their rows and columns; a map is one already."""
    if patches.ndim == 4:
        return patches
    embed = getattr(backbone, "patch_embed", None) or getattr(backbone, "embeds", None)
    times = getattr(embed, "n_tubelets", 1)
    n_places = patches.shape[2] // times if patches.ndim == 3 else 0
    rows, columns = _grid(backbone, embed, n_places, *size)
    if rows * columns != n_places or not n_places:
        _has_none(backbone, f"gives {tuple(patches.shape)}, which fill no rows and columns")
    return patches.unflatten(2, (times, rows, columns)).mean(dim=2)  # type: ignore[no-untyped-call, no-any-return]


def _grid(backbone: Any, embed: Any, n_places: int, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of tokens: those of the patches, or of later stages as the shape of the image says."""
    rows, columns = 0, 0
    if hasattr(embed, "dynamic_feat_size"):
        rows, columns = embed.dynamic_feat_size((height, width))
    elif hasattr(backbone, "patch_px"):
        rows, columns = height // backbone.patch_px, width // backbone.patch_px
    if rows * columns == n_places or n_places == 1:  # a single token of a whole image is of its class
        return rows, columns
    return round((n_places * height / width) ** 0.5), round((n_places * width / height) ** 0.5)


def _in_rows(backbone: Any, output: Tensor, block: int) -> Tensor:
    if hasattr(backbone, "reroll"):  # Hiera's tokens are in the order of its windows
        output = backbone.reroll(output, block).flatten(1, 2)
    return extract_patch_maps(backbone, output).clone()  # a later block may work in its input's place


def _last(backbone: Any, images: Tensor) -> Any:
    """What a network pools, as it gives it."""
    if hasattr(backbone, "forward_features"):
        return backbone.forward_features(images)
    taken: list[Tensor] = []
    *_, pool = getattr(backbone, "avgpool", nn.Identity()).modules()  # zoo:resnet50_last_block has a block before it
    if not isinstance(pool, nn.AdaptiveAvgPool2d):
        _has_none(backbone, "has neither timm's forward_features nor torchvision's avgpool")
    with pool.register_forward_pre_hook(lambda module, inputs: taken.append(inputs[0])):
        backbone(images)
    return taken[0]


def _number(backbone: Any, layer: int) -> int:
    """A block counted from 0."""
    n = len(backbone.blocks) if has_tokens(backbone) else sum(map(len, list_block_modules(backbone)))
    if not n:
        raise QueryError(
            f"Found layer={layer!r}, but the zoo does not know the blocks of a {type(backbone).__name__}; leave it out."
        )
    if isinstance(layer, bool) or not hasattr(layer, "__index__") or not -n <= operator.index(layer) < n:
        raise QueryError(
            f"Found layer={layer!r}, expected the number of a block, from 0 to {n - 1}, or from the end, as -1."
        )
    return operator.index(layer) % n


def _has_none(backbone: Any, why: str) -> NoReturn:
    raise QueryError(
        f"The encoder has no maps: its backbone, a {type(backbone).__name__}, {why}; take another encoder."
    )


N_DEPTHS = 4  # maps of a backbone that does not change their size


@dataclass(frozen=True, slots=True, eq=False)
class StageReader:
    """From images to the maps of an encoder's stages; shares the modules of the encoder.

    ``channels`` of each stage, shallow first; ``strides`` are the pixels of the input from one cell of a map to the
    next, ascending, equal for depths of a transformer.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    read: Callable[[Tensor], list[Tensor]]

    def __call__(self, images: Tensor) -> list[Tensor]:
        """Maps, each (n, channels, height, width), shallow first, of normalised images, float32 (n, 3, px, px)."""
        maps = list(self.read(images))
        channels = tuple(each.shape[1] for each in maps)
        if channels != self.channels:
            raise QueryError(
                f"The backbone gives maps of {channels} channels, and its feature_info says {self.channels}; correct "
                "its feature_info, or take another encoder."
            )
        return maps


def build_stage_reader(encoder: Encoder, *, px: int) -> StageReader:
    """The maps of an encoder for images of ``px`` x ``px``; QueryError if it has none, or none of this size."""
    backbone = encoder.backbone
    if is_resnet(backbone):
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
    for number, layer in enumerate(layers):
        maps.append(layer(maps[-1] if number else pool(maps[0])))
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
        partial(backbone.forward_intermediates, indices=taken, norm=norm, intermediates_only=True),
    )


def _check_size(backbone: Any, px: int) -> None:
    """Transformers with a table of positions need images of one size; all need whole patches."""
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
    return int(of_both_axes[0] if isinstance(of_both_axes, tuple | list) else of_both_axes)
