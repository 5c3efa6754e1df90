"""Files of ResNets and ConvNeXts: loaded against a forward pass of what was saved, and name by name at full size."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.each import for_each
from tests.encoder_checks import exact_images
from tests.encoders.layouts.served import load_served
from tests.sources import saved
from tests.sources.residual import SOURCES, Source, last_block, last_block_tensors
from tests.sources.residual_convnext import SIZES, convnext_features, convnext_tensors
from tests.sources.resnet_forward import (
    SHAPES,
    Draw,
    State,
    Window,
    assert_same,
    largest_difference,
    resnet_features,
    resnet_map,
    resnet_tensors,
)
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, get_layout, hash_parameters
from zoo.errors import WeightsRefused
from zoo.weights.checkpoints import read_checkpoint

IMAGES = exact_images(2, 96)
CARDS = {
    "vissl": "simclr_rn50",
    "vissl_converted": "jigsaw_rn50",
    "swav": "swav_rn50",
    "moco": "mocov2_rn50_ep800",
    "mocov3": "mocov3_rn50_ep300",
    "simsiam": "simsiam_rn50_bs256_ep100",
    "vicreg": "vicreg_rn50",
    "vicregl": "vicregl_rn50_alpha09",
    "pycontrast": "infomin_rn50_800ep",
    "issl": "dissl_resnet50_dNone_e100_m2",
    "speccl": "speccl_resnet50_bs384_ep100",
    "mmselfsup": "densecl_rn50_200ep_mmselfsup",
    "lightly": "simclr_rn50_ep100_lightly",
    "pixpro": "pixpro_rn50_ep100",
    "twist": "twist_rn50_ep850",
    "mmpretrain": "mocov2_rn50_ep200_mm",
    "esvit": "esvit_rn50",
    "satlas": "satlas_s2_rn50_si_rgb",
    "spark": "spark_rn50",
}
# The other kinds of files of a layout are compared tensor by tensor below.
FIRST = [next(source for source in SOURCES if source.layout == layout) for layout in CARDS]
BY_NAME = {source.name: source for source in SOURCES}


REDUCED = pytest.mark.usefixtures("slim_resnets", "reduced_convnexts")


def loaded(card: str, file: bytes, **facts: Any) -> Encoder:
    """In float64. Small crops save time where the features of a newly loaded encoder are recorded."""
    return load_served(card, file, crop_px=64, **facts)[0].double()


@lru_cache(maxsize=1)
def network(shape: str) -> State:
    return resnet_tensors(SHAPES[shape], Draw())


@cache
@torch.no_grad()
def features(shape: str, conv: Window) -> Tensor:
    """Of a network, which sources compute with one of two convolutions."""
    return resnet_features(network(shape), IMAGES, conv=conv)


@REDUCED
@for_each(FIRST, name=lambda source: source.layout)
def test_a_resnet50_has_the_features_that_its_source_computes(source: Source) -> None:
    encoder = loaded(CARDS[source.layout], source.file(network("resnet50 slim")))
    assert_same(encoder(IMAGES), features("resnet50 slim", source.conv))


@REDUCED
def test_the_class_of_wide_resnets_has_the_features_that_its_source_computes() -> None:
    source = BY_NAME["SwAV, training"]
    file = source.file(network("resnet50 slim"))
    reduced = {"backbone": "zoo:resnet50_wide", "options": {"width": 1}}
    encoder = loaded("swav_rn50w2", file, architecture=reduced, dim=2048)
    assert_same(encoder(IMAGES), features("resnet50 slim", source.conv))


@REDUCED
@torch.no_grad()
def test_the_block_that_widens_dissl_has_the_features_that_its_source_computes() -> None:
    weights = network("resnet50 slim") | last_block_tensors(4096, Draw(seed=1))
    encoder = loaded("dissl_resnet50_d4096_e100_m2", saved(weights, legacy=False))
    assert_same(encoder(IMAGES), last_block(weights, resnet_map(weights, IMAGES)).mean(dim=(2, 3)))


@REDUCED
@torch.no_grad()
def test_vicregl_normalises_the_map_of_its_convnext_before_it_pools() -> None:
    size = SIZES["reduced"]
    weights = convnext_tensors(size, Draw())
    encoder = loaded("vicregl_convnexts_alpha09", saved(weights, legacy=False))
    found = encoder(IMAGES)
    assert_same(found, convnext_features(weights, IMAGES, size))
    assert largest_difference(found, convnext_features(weights, IMAGES, size, pool_first=True)) > 0.5  # here 1.8


LAYOUTS = {source.layout for source in SOURCES}
ALL_CARDS = [
    card
    for card in load_catalogue().values()
    if card.weights.converter in LAYOUTS
    and card.architecture.family in ("resnet", "convnext")
    and not card.architecture.exact.endswith("without norm")  # in test_convolutional.py
]
KINDS = {(card.weights.converter, card.architecture.exact, repr(card.architecture)): card for card in ALL_CARDS}


def source_tensors(card: EncoderCard) -> State:
    """The network of a card as its source names it, on the meta device."""
    draw, exact = Draw(device="meta"), card.architecture.exact
    if exact in SIZES:
        return convnext_tensors(SIZES[exact], draw)
    network, _, dim = exact.partition("d") if exact[-1].isdigit() else (exact, "", "")
    return resnet_tensors(SHAPES[network], draw) | (last_block_tensors(int(dim), draw) if dim else {})


@for_each(KINDS.values(), name=lambda card: card.id)
def test_the_sources_files_have_exactly_the_tensors_of_the_encoder(card: EncoderCard) -> None:
    target = {
        name.removeprefix("backbone."): tensor
        for name, tensor in build_encoder(card, device="meta").state_dict().items()
    }
    weights = source_tensors(card)
    parameters = (tensor for name, tensor in weights.items() if not re.search("running|num_batches", name))
    assert sum(tensor.numel() for tensor in parameters) == card.architecture.n_parameters
    for source in SOURCES:
        if source.layout == card.weights.converter:
            content = source.content(weights, Draw(device="meta"))
            state = get_layout(source.layout).convert(content, target=target)
            counters = {name for name in target if name.endswith("num_batches_tracked")}
            assert state.keys() | counters == target.keys(), source.name
            for name, tensor in state.items():
                assert tensor.shape == target[name].shape, (source.name, name)
                assert tensor.dtype == target[name].dtype, (source.name, name)


@cache
def thin() -> State:
    return resnet_tensors(SHAPES["resnet50 thin"], Draw())


WRAPPED = [source for source in SOURCES if source.prefix.startswith("module.")]
OF_MMSELFSUP = [source for source in SOURCES if source.layout == "mmselfsup"]


@cache
def encoder() -> Encoder:
    """A ResNet-50 with a channel for 64 inside its blocks, as it is before training."""
    card = load_catalogue()["simclr_rn50"]
    options = {"width_per_group": 1}
    return build_encoder(replace(card, architecture=replace(card.architecture, options=options)))


def changed(content: Any, path: tuple[str, ...], change: Callable[[State], object]) -> Any:
    """The content with another state dict under ``path``; what is cached stays as it is."""
    if path:
        return content | {path[0]: changed(content[path[0]], path[1:], change)}
    state = dict(content)
    change(state)
    return state


def converted(source: Source, content: Any) -> State:
    return convert(
        [content], encoder(), layout=source.layout, what="a file", untrained=lambda: hash_parameters(encoder())
    )


@for_each(WRAPPED, name=lambda source: source.name)
def test_processes_wrap_all_of_a_network_or_none_of_it(source: Source) -> None:
    full = f"{source.prefix}layer1.0.conv1.weight"

    def unwrapped(state: State) -> None:
        state[full.removeprefix("module.")] = state.pop(full)

    with pytest.raises(WeightsRefused, match=r"expected names that start with 'module\.'"):
        converted(source, changed(source.content(thin(), Draw(seed=7)), source.path, unwrapped))


@for_each(OF_MMSELFSUP, name=lambda source: source.name)
def test_a_network_on_sobel_filtered_images_is_refused_for_its_first_layer(source: Source) -> None:
    sobel = {f"{source.prefix}conv1.weight": thin()["conv1.weight"][:, :2]}
    content = changed(source.content(thin(), Draw(seed=7)), source.path, lambda state: state.update(sobel))
    with pytest.raises(WeightsRefused, match="takes the 2 channels of a Sobel filter, expected the 3 channels"):
        converted(source, content)


@for_each(SOURCES, name=lambda source: source.name)
def test_a_file_gives_its_network_and_one_that_is_not_exactly_it_is_refused(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pth"
    path.write_bytes(source.file(thin()))
    state = converted(source, read_checkpoint(path, what="a file").content)
    assert state.keys() == encoder().state_dict().keys()
    for name, tensor in thin().items():
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(state[f"backbone.{name}"], tensor)
    content, prefix, norm = source.content(thin(), Draw(seed=7)), source.prefix, "layer2.0.bn1.weight"
    changes: list[tuple[Callable[[State], object], str]] = [
        (lambda state: state.pop(f"{prefix}layer1.0.downsample.0.weight"), r"downsample\.0\.weight' is missing"),
        (lambda state: state.update({f"{prefix}layer4.3.conv1.weight": torch.ones(8, 8, 1, 1)}), "is left over"),
        (lambda state: state.update({"stranger.weight": torch.ones(3)}), r"'stranger\.weight'"),
        (lambda state: state.update({f"{prefix}{norm}": thin()[norm].half()}), f"'{norm}' is float16, expected"),
        (lambda state: state.update({f"{prefix}{norm}": torch.ones(2)}), f"'{norm}' is as it was before training"),
    ]
    for change, said in changes:
        with pytest.raises(WeightsRefused, match=said):
            converted(source, changed(content, source.path, change))


@for_each(sorted({source.layout for source in SOURCES}))
def test_what_is_no_checkpoint_of_the_layout_is_refused(layout: str) -> None:
    contents: list[Any] = [{}, {"weights": torch.ones(3)}, {"epoch": 100}, [torch.ones(3)], {"model": None}, None]
    for content in contents:
        with pytest.raises(WeightsRefused, match=f"as files of the layout '{layout}' do"):
            convert([content], encoder(), layout=layout, what="a file", untrained=lambda: hash_parameters(encoder()))
