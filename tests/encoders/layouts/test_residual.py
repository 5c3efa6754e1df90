"""Files of ResNets and ConvNeXts, loaded as a user loads them, against a forward pass of what was saved."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.encoder_checks import exact_images
from tests.encoders.layouts.served import load_served
from tests.sources import saved
from tests.sources.residual import Source
from tests.sources.residual_convnext import SIZES, convnext_features, convnext_tensors
from tests.sources.residual_files import SOURCES, last_block, last_block_tensors
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
from zoo.encoders import Encoder

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
# The other kinds of files of a layout are compared tensor by tensor, in test_residual_strict.py.
FIRST = [next(source for source in SOURCES if source.layout == layout) for layout in CARDS]
BY_NAME = {source.name: source for source in SOURCES}


pytestmark = pytest.mark.usefixtures("slim_resnets", "reduced_convnexts")


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


@pytest.mark.parametrize("source", FIRST, ids=lambda source: source.layout)
def test_a_resnet50_has_the_features_that_its_source_computes(source: Source) -> None:
    encoder = loaded(CARDS[source.layout], source.file(network("resnet50 slim")))
    assert_same(encoder(IMAGES), features("resnet50 slim", source.conv))


def test_a_deeper_resnet_has_the_features_that_its_source_computes() -> None:
    source = BY_NAME["VISSL, training with LARS"]
    file = source.file(network("resnet101 slim"))
    encoder = loaded("simclr_rn101", file)
    assert_same(encoder(IMAGES), features("resnet101 slim", source.conv))


def test_the_class_of_wide_resnets_has_the_features_that_its_source_computes() -> None:
    source = BY_NAME["SwAV, training"]
    file = source.file(network("resnet50 slim"))
    reduced = {"backbone": "zoo:resnet50_wide", "options": {"width": 1}}
    encoder = loaded("swav_rn50w2", file, architecture=reduced, dim=2048)
    assert_same(encoder(IMAGES), features("resnet50 slim", source.conv))


@torch.no_grad()
def test_the_block_that_widens_dissl_has_the_features_that_its_source_computes() -> None:
    weights = network("resnet50 slim") | last_block_tensors(4096, Draw(seed=1))
    encoder = loaded("dissl_resnet50_d4096_e100_m2", saved(weights, legacy=False))
    assert_same(encoder(IMAGES), last_block(weights, resnet_map(weights, IMAGES)).mean(dim=(2, 3)))


@torch.no_grad()
def test_vicregl_normalises_the_map_of_its_convnext_before_it_pools() -> None:
    size = SIZES["reduced"]
    weights = convnext_tensors(size, Draw())
    encoder = loaded("vicregl_convnexts_alpha09", saved(weights, legacy=False))
    found = encoder(IMAGES)
    assert_same(found, convnext_features(weights, IMAGES, size))
    assert largest_difference(found, convnext_features(weights, IMAGES, size, pool_first=True)) > 0.5  # here 1.8
