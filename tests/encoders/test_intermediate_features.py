"""All features of an encoder from one forward pass: those that each name gives by itself, and what stopping costs."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.each import for_each
from tests.encoder_checks import (
    SAME,
    encoder_with_random_statistics,
    random_images,
    reduced_transformer,
    relative_difference,
)
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import derive_card, infer_transformer
from zoo.encoders import build_encoder
from zoo.encoders.blocks import compute_block_means
from zoo.encoders.build import replace_pooling
from zoo.encoders.intermediate_features import (
    CachedForward,
    IntermediateFeatures,
    compute_truncation_costs,
    list_feature_variants,
)
from zoo.encoders.sizes import derive_sized_card, resize_encoder
from zoo.encoders.transformers_models import build_transformers_model
from zoo.errors import QueryError
from zoo.loading import load


@pytest.mark.parametrize(
    ("name", "px", "blocks"),
    [
        ("dino_vitS16", 224, [1, 3]),  # four class tokens by itself
        ("dino_vitS16_extractB", 224, [0, 4]),  # interleaved by itself
        ("clip_vitL14_px336_extractPred", 336, [4]),  # a projection, quantised by itself
        ("mae_vitB16", 224, [2, 4]),
        ("eva02_vitT14_mim_in22k", 224, [3]),  # rotary positions
        ("pocket_simclr_vit_shapes", 32, None),
        ("sup_efficientnet_lite0", 64, None),
        ("sup_rn18", 64, None),
        ("fcmae_convnextv2A", 64, None),  # a norm after its average
    ],
)
def test_each_variant_is_what_its_name_gives_by_itself(name: str, px: int, blocks: list[int] | None) -> None:
    card = load_catalogue()[name]
    network = infer_transformer(card)
    if network is not None and network.width > 192:
        card = reduced_transformer(card, depth=5, width=192)
    encoder = encoder_with_random_statistics(card)
    images = random_images(2, px).double()
    taps = list_feature_variants(card, blocks=blocks)
    wide = IntermediateFeatures(encoder, taps)
    rows = wide(images)
    assert rows.shape == (2, wide.width) and len(taps) >= 3
    for tap in taps:
        alone = (encoder if tap.card is card else replace_pooling(encoder, tap.card))(images)
        assert alone.shape == (2, tap.dim)
        assert relative_difference(alone, rows[:, wide.columns[tap.name]]) < SAME, tap.name


@for_each(
    [(name, px) for name in ("pocket_simclr_vit_shapes", "pocket_simclr_rn_shapes") for px in (32, 48)], arguments=2
)
def test_trained_variants_are_those_that_load_gives(name: str, px: int) -> None:
    encoder, _ = load(name, px=px)
    taps = list_feature_variants(load_catalogue()[name])
    wide, images = IntermediateFeatures(encoder, taps), random_images(3, px)  # type: ignore[arg-type]
    rows = wide(images)
    for tap in taps:
        alone, _ = load(tap.name, px=px)
        # the same operations on the same batch: what differs is rounding of float32, a few units of the last place
        assert relative_difference(alone(images), rows[:, wide.columns[tap.name]]) < 1e-5, tap.name


def test_a_transformer_offers_every_token_pooling_of_every_block() -> None:
    taps = list_feature_variants(load_catalogue()["dino_vitS16_last"])
    names = {tap.name.partition("@")[2] for tap in taps}
    assert len(taps) == 3 * 12 + 1  # class token, mean and both of each block; the last four class tokens
    assert {"", "avg", "cls+avg", "cls:0", "avg:5", "cls+avg:10", "4xcls"} <= names
    assert taps[0].name == "dino_vitS16_last" and taps[0].block == 11 and taps[0].words == "cls"
    projected = {
        tap.name.partition("@")[2] for tap in list_feature_variants(load_catalogue()["clip_vitL14_px336_extractPred"])
    }
    assert {"", "proj+cls", "cls"} <= projected


def test_a_residual_network_offers_the_mean_of_every_block() -> None:
    taps = list_feature_variants(load_catalogue()["sup_rn50"])
    assert [tap.label for tap in taps[1:4]] == ["1.1", "1.2", "1.3"] and taps[0].label == "4.3"
    assert [tap.dim for tap in taps] == [2048] + [256] * 3 + [512] * 4 + [1024] * 6 + [2048] * 2
    assert [tap.name for tap in taps[-2:]] == ["sup_rn50@avg:13", "sup_rn50@avg:14"]


def test_blocks_that_are_not_there_are_refused() -> None:
    with pytest.raises(QueryError, match=r"no block 16 of 'sup_rn50', which has blocks 0 to 15"):
        list_feature_variants(load_catalogue()["sup_rn50"], blocks=[3, 16])
    with pytest.raises(QueryError, match=r"blocks for 'jigsaw_alexnet', whose blocks the zoo does not know"):
        list_feature_variants(load_catalogue()["jigsaw_alexnet"], blocks=[0])
    assert len(list_feature_variants(load_catalogue()["jigsaw_alexnet"])) == 1
    assert [tap.block for tap in list_feature_variants(load_catalogue()["sup_rn50"], blocks=[-1, 0])] == [15, 0]


def test_networks_of_transformers_are_read_in_one_pass() -> None:
    options = {"hidden_size": 48, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
    network, _ = build_transformers_model("dinov2", num_hidden_layers=3, **options)
    network = network.eval().double()
    images = random_images(2, 32).double()
    done = CachedForward(network, images, [0, 2])
    expected = network.forward_intermediates(images, [0, 2], return_prefix_tokens=True, norm=True, output_fmt="NLC")
    given = done.forward_intermediates(images, [0, 2], return_prefix_tokens=True)
    for (patches, prefix), (same_patches, same_prefix) in zip(given, expected, strict=True):
        torch.testing.assert_close(patches, same_patches)
        torch.testing.assert_close(prefix, same_prefix)
    torch.testing.assert_close(done(images), network(images))
    torch.testing.assert_close(done.forward_features(images), network.forward_features(images))


@for_each(["pocket_simclr_rn_shapes", "pocket_simclr_vit_shapes"])
def test_stopping_later_costs_more_and_the_whole_costs_what_it_costs(name: str) -> None:
    card = load_catalogue()[name]
    sized = derive_sized_card(card, 48)
    encoder = resize_encoder(build_encoder(card), card, sized)
    stops = compute_truncation_costs(encoder, sized, px=48, device=torch.device("cpu"), batch_size=2)
    operations = [stops[number].gflops for number in (0, 1, 2, None)]
    assert list(stops) == [0, 1, 2, None] and operations[0] < operations[1] < operations[2] <= operations[3]
    empty = build_encoder(sized, device="meta")
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        empty(torch.empty(1, 3, 48, 48))
    assert operations[-1] == pytest.approx(counter.get_total_flops() / 1e9)
    assert all(stop.seconds > 0 for stop in stops.values())


@for_each(["sup_rn18", "pocket_simclr_rn_shapes", "simclrv1_rn50", "dissl_resnet50_d4096_e100_m2"])
def test_the_last_block_of_a_residual_network_is_what_it_pools(name: str) -> None:
    card = load_catalogue()[name]
    assert derive_card(card, features="avg") is card
    encoder = build_encoder(card).double()
    images = random_images(1, 64).double()
    assert relative_difference(encoder(images), compute_block_means(encoder.backbone, images, blocks=(-1,))) < SAME
