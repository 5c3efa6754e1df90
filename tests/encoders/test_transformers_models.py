"""Backbones of transformers: their tokens are those that transformers gives, and every known type is built."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BeitConfig, BeitForMaskedImageModeling

from tests.each import for_each
from zoo.encoders.encoder import average_patch_tokens, select_class_token
from zoo.encoders.layouts.steps import Misfit
from zoo.encoders.maps import compute_feature_map
from zoo.encoders.transformers_models import (
    KINDS,
    TokenNetwork,
    build_transformers_model,
    parse_configuration,
    rename_as_transformers,
)

SMALL = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 32,
    "patch_size": 8,
}
_OWN: dict[str, dict[str, Any]] = {  # what they call otherwise, or need too; None: an option that they do not have
    "pixio": {"intermediate_size": None},
    "dinov2": {"intermediate_size": None},
    "dinov2_with_registers": {"intermediate_size": None},
    "tipsv2_vision_model": {"intermediate_size": None},
    "siglip2_vision_model": {"image_size": None, "num_patches": 16},
    "radio": {"intermediate_size": None, "patch_dim": 192},
    "sapiens2": {"num_key_value_heads_per_layer": [4] * 3, "num_key_value_attention_heads": 4},
    "vjepa2": {"intermediate_size": None, "image_size": None, "crop_size": 32, "frames_per_clip": 4},
}


def small(model_type: str, **options: Any) -> nn.Module:
    """A network of three blocks, with 16 patches in an image of 32 px."""
    asked = SMALL | _OWN.get(model_type, {}) | options
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module, width = build_transformers_model(
            model_type, **{key: value for key, value in asked.items() if value is not None}
        )
    assert width == 48
    return module.eval()


def images(n: int = 2, px: int = 32) -> Tensor:
    """Random numbers, which are the same every time."""
    return torch.randn(n, 3, px, px, generator=torch.Generator().manual_seed(5))


@for_each(KINDS)
@torch.no_grad()
def test_tokens_of_the_last_block_after_the_norm_are_the_tokens(model_type: str) -> None:
    network = small(model_type)
    assert isinstance(network, TokenNetwork)
    tokens = network.forward_features(images())
    assert tokens.shape == (2, network.num_prefix_tokens + 16, 48)
    assert len(network.blocks) == len(network.feature_info) == 3
    ((patches, prefix),) = network.forward_intermediates(
        images(), indices=[-1], return_prefix_tokens=True, norm=True, output_fmt="NLC"
    )
    assert torch.equal(torch.cat((prefix, patches), dim=1), tokens)
    (grid,) = network.forward_intermediates(images(), indices=1, norm=True)
    assert torch.equal(grid.flatten(2).transpose(1, 2), patches)
    assert network(images()).shape == (2, 48)


@torch.no_grad()
def test_class_token_of_clip_is_what_clip_pools() -> None:
    network = small("clip_vision_model")
    torch.testing.assert_close(network.forward_features(images())[:, 0], network(images()), rtol=0, atol=1e-5)


@torch.no_grad()
def test_mae_hides_no_patch_and_keeps_their_order() -> None:
    network, plain = small("vit_mae"), small("vit")
    plain.load_state_dict(network.state_dict())
    torch.testing.assert_close(network.forward_features(images()), plain.forward_features(images()), rtol=0, atol=1e-5)


@torch.no_grad()
def test_an_image_is_a_video_that_stands_still() -> None:
    network = small("vjepa2")
    whole = network.network(pixel_values_videos=torch.stack([images()] * 2, dim=1), skip_predictor=True)
    assert torch.equal(network.forward_features(images()), whole.last_hidden_state)
    assert not any("predictor" in name for name in network.state_dict())


@torch.no_grad()
def test_patches_are_cut_as_the_image_processor_of_transformers_cuts_them() -> None:
    network = small("siglip2_vision_model")
    image = images(1)
    rows = [
        image[0, :, 8 * r : 8 * r + 8, 8 * c : 8 * c + 8].permute(1, 2, 0).reshape(-1)
        for r in range(4)
        for c in range(4)
    ]
    output = network.network(
        pixel_values=torch.stack(rows)[None],
        pixel_attention_mask=torch.ones(1, 16, dtype=torch.int64),
        spatial_shapes=torch.tensor([[4, 4]]),
    )
    assert torch.equal(network.forward_features(image), output.last_hidden_state)


@torch.no_grad()
def test_networks_without_tokens_give_what_they_pool() -> None:
    network, width = build_transformers_model("resnet", hidden_sizes=[8, 16], depths=[1, 1], embedding_size=8)
    network.eval()
    last = network.network(pixel_values=images()).last_hidden_state
    assert width == 16
    torch.testing.assert_close(network(images()), last.mean(dim=(2, 3)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("model_type", "options", "found"),
    [
        ("nonsense", {}, "transformers has no type 'nonsense'"),
        ("bert", {}, "transformers' bert is no vision backbone"),
        ("vit", {"hiden_size": 48}, "the configuration of vit has no 'hiden_size'"),
    ],
)
def test_a_type_or_option_that_is_unknown_is_refused(model_type: str, options: dict[str, Any], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        build_transformers_model(model_type, **options)


@torch.no_grad()
@for_each(["beit", "data2vec-vision"])
def test_the_norm_after_a_mean_of_patches_is_taken_where_transformers_takes_it(model_type: str) -> None:
    config = SMALL | {"model_type": model_type, "use_mean_pooling": True}
    facts = parse_configuration(config | {"architectures": ["BeitForImageClassification"]})
    assert facts["representation"]["layer"] == "avg"
    network, _ = build_transformers_model(model_type, **facts["architecture"]["options"])
    for parameter in network.eval().parameters():
        nn.init.normal_(parameter, std=0.2)
    own = network.network(pixel_values=images()).pooler_output
    torch.testing.assert_close(average_patch_tokens(network, images()), own, rtol=0, atol=1e-5)
    torch.testing.assert_close(network(images()), own, rtol=0, atol=1e-5)
    state = network.network.state_dict()
    assert rename_as_transformers(state, network).keys() == {f"network.{name}" for name in state}
    others = parse_configuration(config | {"architectures": ["BeitForSemanticSegmentation"]})
    without, _ = build_transformers_model(model_type, **others["architecture"]["options"])
    with pytest.raises(Misfit, match=r"pooler.layernorm.* is left over"):
        rename_as_transformers(state, without)


@torch.no_grad()
def test_beit_after_pretraining_keeps_the_norm_that_its_repository_has_next_to_the_backbone() -> None:
    config = SMALL | {"use_shared_relative_position_bias": True, "use_mask_token": True}
    whole = BeitForMaskedImageModeling(BeitConfig(**config)).eval()
    for parameter in whole.parameters():
        nn.init.normal_(parameter, std=0.2)
    facts = parse_configuration(whole.config.to_dict() | {"architectures": ["BeitForMaskedImageModeling"]})
    assert facts["representation"]["layer"] == "cls"
    network, _ = build_transformers_model("beit", **facts["architecture"]["options"])
    network.eval().load_state_dict(rename_as_transformers(whole.state_dict(), network))
    normed = whole.layernorm(whole.beit(images()).last_hidden_state)
    torch.testing.assert_close(select_class_token(network, images()), normed[:, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(average_patch_tokens(network, images()), normed[:, 1:].mean(dim=1), rtol=0, atol=1e-5)


@torch.no_grad()
def test_radio_joins_the_class_tokens_that_its_summary_joins() -> None:
    config: dict[str, Any] = {key: value for key, value in SMALL.items() if key != "intermediate_size"}
    facts = parse_configuration(config | {"model_type": "radio", "summary_idxs": [0, 2]})
    assert facts["representation"] == {"dim": 96, "layer": "pooled", "order": "not applicable"}
    network, _ = build_transformers_model("radio", **facts["architecture"]["options"])
    network.eval()
    assert torch.equal(network(images()), network.network(pixel_values=images()).summary)
    assert network(images()).shape == (2, 96)
    assert parse_configuration(config | {"model_type": "radio", "summary_idxs": [0]})["representation"]["dim"] == 48


@torch.no_grad()
def test_maps_of_networks_that_pool_by_themselves_are_what_they_pool() -> None:
    small_stages = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
    network, width = build_transformers_model("dinov3_convnext", **small_stages)
    network.eval()
    maps = compute_feature_map(network, images(px=64))
    assert maps.shape == (2, 32, 2, 2) and width == 32
    last = network.network(pixel_values=images(px=64)).last_hidden_state
    assert torch.equal(maps.flatten(2).transpose(1, 2), last[:, 1:])


@torch.no_grad()
def test_maps_whose_channels_are_last_are_pooled_over_their_places() -> None:
    with torch.device("meta"):
        network, width = build_transformers_model("sam2_vision_model")
        assert compute_feature_map(network, torch.empty(1, 3, 224, 224)).shape == (1, width, 7, 7) == (1, 768, 7, 7)
