"""Vision transformers: which tokens are read, after which norm, in which order."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from tests.each import for_each
from tests.encoder_checks import SAME, encoder_with_random_statistics, exact_images, random_images, relative_difference
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder

WIDTH = 192  # of tokens, which 6, 12 and 16 heads divide


def reduced(name: str) -> Encoder:
    """Five blocks of narrow tokens."""
    return encoder_with_random_statistics(name, depth=5, width=WIDTH)


@cache
def shared(name: str) -> Encoder:
    """For tests that leave the encoder as it is."""
    return reduced(name)


IMAGES = exact_images(2, 224)


def block_outputs(encoder: Encoder, images: Tensor) -> list[Tensor]:
    """Tokens after every block, before the final norm, seen from outside by hooks."""
    seen: list[Tensor] = []
    hooks = [block.register_forward_hook(lambda *call: seen.append(call[-1])) for block in encoder.backbone.blocks]
    encoder(images)
    for hook in hooks:
        hook.remove()
    return seen


def test_the_class_token_is_the_first_one_after_the_final_norm() -> None:
    encoder = shared("dino_vitS16_last")
    by_hand = encoder.backbone.norm(block_outputs(encoder, IMAGES)[-1])[:, 0]
    assert relative_difference(by_hand, encoder(IMAGES)) < SAME


def test_four_class_tokens_come_from_the_last_four_blocks_the_earliest_first() -> None:
    encoder = shared("dino_vitS16")
    last_four = block_outputs(encoder, IMAGES)[1:5]
    by_hand = torch.cat([encoder.backbone.norm(tokens)[:, 0] for tokens in last_four], dim=1)
    assert relative_difference(by_hand, encoder(IMAGES)) < SAME


def test_dino_alternates_the_dimensions_of_class_token_and_mean() -> None:
    encoder = shared("dino_vitS16_extractB")
    tokens = encoder.backbone.norm(block_outputs(encoder, IMAGES)[-1])
    features = encoder(IMAGES)
    assert load_catalogue()["dino_vitS16_extractB"].representation.order == "interleaved"
    assert relative_difference(tokens[:, 0], features[:, 0::2]) < SAME
    assert relative_difference(tokens[:, 1:].mean(dim=1), features[:, 1::2]) < SAME


def test_the_mean_is_over_patches_and_leaves_out_every_other_token() -> None:
    card = load_catalogue()["dino_vitS16_extractB"]
    architecture = replace(card.architecture, options={"depth": 2, "reg_tokens": 4})
    encoder = build_encoder(replace(card, architecture=architecture))
    images = random_images(1, 224)
    tokens = encoder.backbone.forward_features(images)
    assert tokens.shape[1] == 1 + 4 + 14 * 14
    torch.testing.assert_close(encoder(images)[:, 1::2], tokens[:, 5:].mean(dim=1))


def test_clip_puts_the_mean_behind_the_class_token() -> None:
    encoder = shared("clip_vitL14_px336_extractB")
    images = exact_images(1, 336)
    tokens = encoder.backbone.norm(block_outputs(encoder, images)[-1])
    by_hand = torch.cat((tokens[:, 0], tokens[:, 1:].mean(dim=1)), dim=1)
    assert load_catalogue()["clip_vitL14_px336_extractB"].representation.order == "concatenated"
    assert relative_difference(by_hand, encoder(images)) < SAME


def test_the_small_transformer_of_mocov3_has_twelve_heads() -> None:
    encoder = shared("mocov3_vitS_ep300")
    assert {block.attn.num_heads for block in encoder.backbone.blocks} == {12}
    six = reduced("dino_vitS16_last")
    six.load_state_dict(encoder.state_dict(), strict=True)
    assert relative_difference(encoder(IMAGES), six(IMAGES)) > 0.1


@for_each(["beit_vitB16_pt22k", "beitv2_vitB16_pt1k"])
def test_beit_keeps_its_final_norm_and_a_table_of_positions_in_every_block(name: str) -> None:
    backbone = build_encoder(load_catalogue()[name], device="meta").backbone
    assert isinstance(backbone.norm, nn.LayerNorm)
    assert isinstance(backbone.fc_norm, nn.Identity)
    assert {block.attn.relative_position_bias_table.shape for block in backbone.blocks} == {(27 * 27 + 3, 12)}
    assert backbone.pos_embed is None


def test_beit_reads_normed_tokens_and_its_positions_matter() -> None:
    encoder = reduced("beitv2_vitB16_pt1k_extractB")
    tokens = encoder.backbone.norm(block_outputs(encoder, IMAGES)[-1])
    features = encoder(IMAGES)
    assert relative_difference(tokens[:, 0], features[:, 0::2]) < SAME
    assert relative_difference(tokens[:, 1:].mean(dim=1), features[:, 1::2]) < SAME
    for block in encoder.backbone.blocks:
        block.attn.relative_position_bias_table.zero_()
    assert relative_difference(features, encoder(IMAGES)) > 0.1


def mlp_by_hand(block: nn.Module, tokens: Tensor, activation: str) -> Tensor:
    hidden = block.mlp.fc1(tokens)
    hidden = hidden * torch.sigmoid(1.702 * hidden) if activation == "quick" else nn.functional.gelu(hidden)
    return block.mlp.fc2(hidden)


@for_each([("clip_vitB32", "quick", "exact"), ("openclip_vitB32", "exact", "quick")], arguments=3)
def test_clip_of_openai_has_the_quick_gelu_and_open_clip_the_exact_one(name: str, used: str, other: str) -> None:
    encoder = shared(name)
    block = encoder.backbone.blocks[0]
    tokens = IMAGES.new_zeros(2, 5, WIDTH) + torch.linspace(-3, 3, WIDTH)
    assert relative_difference(mlp_by_hand(block, tokens, used), block.mlp(tokens)) < SAME
    assert relative_difference(mlp_by_hand(block, tokens, other), block.mlp(tokens)) > 1e-3


@for_each(["clip_vitB32", "clip_vitL14", "clip_vitL14_px336", "openclip_vitB32", "openclip_vitG14"])
def test_clip_norms_before_the_first_block_with_its_own_epsilon(name: str) -> None:
    backbone = build_encoder(load_catalogue()[name], device="meta").backbone
    norms = [module for module in backbone.modules() if isinstance(module, nn.LayerNorm)]
    assert isinstance(backbone.norm_pre, nn.LayerNorm)
    assert backbone.patch_embed.proj.bias is None
    assert {norm.eps for norm in norms} == {1e-5}


def test_the_projection_is_one_matrix_on_the_class_token() -> None:
    encoder = shared("openclip_vitH14_extractPred")
    token = encoder.backbone.norm(block_outputs(encoder, IMAGES)[-1])[:, 0]
    assert relative_difference(token @ encoder.backbone.head.weight.T, encoder(IMAGES)) < SAME
    assert encoder.backbone.head.bias is None


def test_the_class_token_comes_before_its_projection() -> None:
    encoder = shared("clip_vitL14_px336_extractPredCls")
    images = exact_images(1, 336)
    token = encoder.backbone.norm(block_outputs(encoder, images)[-1])[:, 0]
    features = encoder(images)
    assert relative_difference(token, features[:, :WIDTH]) < SAME
    assert relative_difference(token @ encoder.backbone.head.weight.T, features[:, WIDTH:]) < SAME


def test_the_quantised_projection_is_decoded_from_whole_steps() -> None:
    encoder = reduced("lossyless_vitb32_b01")
    encoder.pooling.scaling.copy_(torch.linspace(-1.0, 2.0, 512))
    token = encoder.backbone.norm(block_outputs(encoder, IMAGES)[-1])[:, 0]
    z = (token @ encoder.backbone.head.weight.T).double()
    steps_a_unit = encoder.pooling.scaling.double().exp()
    biasing, medians = encoder.pooling.biasing.double(), encoder.pooling.medians.double()
    n_steps = (z + biasing) * steps_a_unit - medians
    features = encoder(IMAGES).double()
    decoded_steps = (features + biasing) * steps_a_unit - medians
    assert (decoded_steps - decoded_steps.round()).abs().max() < 1e-4
    assert (decoded_steps - n_steps).abs().max() < 0.5 + 1e-4
    assert relative_difference(z, features) > 0.1
