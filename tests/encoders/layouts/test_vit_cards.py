"""Every published transformer and every CLIP, the largest too: what their files hold is the encoder, name by name.

Names and shapes alone, without memory: files as their sources' model code names them, at the sizes of the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import timm
import torch
from torch import Tensor

from tests.each import for_each
from tests.published import PUBLISHED
from tests.sources.clip_checkpoints import (
    ARCHIVED_NUMBERS,
    clip_resnet_shapes,
    clip_text_shapes,
    clip_vit_shapes,
    rate_shapes,
)
from tests.sources.resnet_forward import SHAPES, Draw, resnet_tensors
from tests.sources.vit_checkpoints import head_of_dino, mae_decoder, relation_block, under
from tests.sources.vit_names import Shapes, Size, beit_shapes, linear_shapes, prefixed, vit_shapes, without_memory
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import build_encoder
from zoo.encoders.layouts import get_layout

PAPERS = {  # width, blocks, heads
    "vits": (384, 12, 6),
    "vitb": (768, 12, 12),
    "vitl": (1024, 24, 16),
    "vith": (1280, 32, 16),
    "vitg": (1408, 40, 16),
}
RESNETS_OF_CLIP = {  # blocks a stage, channels of the stem, dimensions shared with text, pixels
    "resnet50": ((3, 4, 6, 3), 64, 1024, 224),
    "resnet101": ((3, 4, 23, 3), 64, 512, 224),
    "resnet50w4": ((4, 6, 10, 6), 80, 640, 288),
    "resnet50w16": ((6, 8, 18, 8), 96, 768, 384),
    "resnet50w64": ((3, 15, 36, 10), 128, 1024, 448),
}
PROJECTIONS = {"vitb": 512, "vitl": 768, "vith": 1024, "vitg": 1024}
ON_IMAGES = ("dino", "ibot", "mugs", "mae", "msn", "beit", "mocov3")
CONTRASTIVE = ("clip", "openclip", "lossyless")
CARDS = {card.id: card for card in PUBLISHED if card.weights.converter in (*ON_IMAGES, *CONTRASTIVE)}


def size_of(card: EncoderCard) -> Size:
    width, depth, n_heads = PAPERS[card.architecture.name]
    patch_px = card.architecture.patch_size_px
    assert isinstance(patch_px, int)
    mlp_width = 6144 if card.architecture.name == "vitg" else 0
    return Size(width, depth, n_heads, patch_px, image_px=card.preprocess.crop_px, mlp_width=mlp_width)


def file_of(card: EncoderCard) -> Any:
    """What a source's file holds, nested as in the file."""
    converter = card.weights.converter
    if card.architecture.name == "resnet50":
        resnet = resnet_tensors(SHAPES["resnet50"], Draw(device="meta"))
        return {"state_dict": under("module.base_encoder.", resnet)} if converter == "mocov3" else resnet
    size = size_of(card)
    network: Shapes = vit_shapes(size)
    match converter:
        case "dino":
            return without_memory(network)
        case "ibot":
            return {"state_dict": without_memory(network | prefixed("head.", head_of_dino(size.width)))}
        case "mugs":
            return {"state_dict": without_memory(network | relation_block(size.width))}
        case "mae":
            decoder = mae_decoder(width=size.width, n_tokens=size.side**2 + 1, patch_px=size.patch_px)
            return {"model": without_memory(network | decoder)}
        case "msn":
            return {"target_encoder": without_memory(prefixed("module.", network | linear_shapes("fc.fc1", 8, 8)))}
        case "mocov3":
            head = linear_shapes("head.0", size.width, 8, bias=False)
            return {"state_dict": without_memory(prefixed("module.base_encoder.", network | head))}
        case "beit":
            return {"model": without_memory(beit_shapes(size, version=2 if "beitv2" in card.id else 1))}
    raise AssertionError(converter)


def file_of_clip(card: EncoderCard) -> dict[str, Tensor]:
    """Both towers, as OpenAI and OpenCLIP keep them."""
    if card.architecture.family == "resnet":
        layers, width, projection, px = RESNETS_OF_CLIP[card.architecture.name]
        image_tower = clip_resnet_shapes(layers, width=width, projection=projection, image_px=px)
    else:
        projection = PROJECTIONS[card.architecture.name]
        image_tower = clip_vit_shapes(size_of(card), projection=projection)
    numbers = {} if card.weights.converter == "openclip" else {name: torch.tensor(1) for name in ARCHIVED_NUMBERS}
    return without_memory(image_tower | clip_text_shapes(projection=projection)) | numbers


@cache
def copy_by_timm(backbone: str, projection: int) -> Mapping[str, Tensor]:
    """The state dict of timm's own network with the projection as classifier, which is what its copies are."""
    with torch.device("meta"):
        state = timm.create_model(backbone.removeprefix("timm:"), num_classes=projection).state_dict()
    if "head.bias" in state:
        state["head.bias"] = torch.zeros(projection)
    return state


@cache
def wanted(name: str) -> Mapping[str, tuple[tuple[int, ...], torch.dtype]]:
    """Names, shapes and types of the encoder's own tensors, those of the backbone without its prefix."""
    state = build_encoder(load_catalogue()[name], device="meta").state_dict()
    return described({key.removeprefix("backbone."): tensor for key, tensor in state.items()})


def described(state: Mapping[str, Tensor]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in state.items()}


def converted(card: EncoderCard, *contents: Any) -> Mapping[str, Tensor]:
    twin = first_alike(card)
    target = {name: torch.empty(shape, dtype=dtype, device="meta") for name, (shape, dtype) in wanted(twin).items()}
    return get_layout(str(card.weights.converter)).convert(*contents, target=target)


def first_alike(card: EncoderCard) -> str:
    """The first card with the same network, for many differ in what is read from it alone."""

    def network(other: EncoderCard) -> tuple[Any, ...]:
        representation = other.representation
        has_projection = representation.layer in ("proj", "proj+cls", "pred")
        projection = (representation.layer, representation.dim) if has_projection else None
        return other.architecture.backbone, sorted(other.architecture.options.items()), projection

    return next(name for name, other in CARDS.items() if network(other) == network(card))


@for_each([name for name, card in CARDS.items() if card.weights.converter in ON_IMAGES])
def test_the_file_of_every_transformer_trained_on_images_is_its_encoder(name: str) -> None:
    assert described(converted(CARDS[name], file_of(CARDS[name]))) == wanted(first_alike(CARDS[name]))


@for_each([name for name, card in CARDS.items() if card.weights.converter in CONTRASTIVE])
def test_the_file_of_every_clip_is_its_encoder_whoever_names_the_tensors(name: str) -> None:
    card = CARDS[name]
    source = file_of_clip(card)
    copy = copy_by_timm(card.architecture.backbone, source["text_projection"].shape[-1])
    first = [without_memory(rate_shapes(512))] if card.weights.converter == "lossyless" else []
    for content in (source, copy):
        assert described(converted(card, *first, content)) == wanted(first_alike(card))
