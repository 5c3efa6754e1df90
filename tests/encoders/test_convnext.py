"""ConvNeXts: where the norm is, and whether the layers are scaled."""

from __future__ import annotations

import pytest
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tests.encoder_checks import SAME, encoder_with_random_statistics, exact_images, relative_difference
from zoo.encoders import Encoder

IMAGES = exact_images(2, 64)


def last_feature_map(encoder: Encoder) -> Tensor:
    """The output of the last stage, without any norm."""
    seen: list[Tensor] = []
    hook = encoder.backbone.stages[3].register_forward_hook(lambda *call: seen.append(call[-1]))
    encoder(IMAGES)
    hook.remove()
    return seen[0]  # (n, dim, 2, 2)


@pytest.mark.usefixtures("reduced_convnexts")
def test_vicregl_norms_every_position_and_then_averages() -> None:
    encoder = encoder_with_random_statistics("vicregl_convnexts_alpha09")
    feature_map = last_feature_map(encoder)
    scale, shift = encoder.backbone.norm_pre.weight, encoder.backbone.norm_pre.bias
    positions = feature_map.flatten(2).transpose(1, 2)  # (n, positions, dim)
    by_hand = F.layer_norm(positions, (768,), scale, shift, eps=1e-6).mean(dim=1)
    averaged_first = F.layer_norm(positions.mean(dim=1), (768,), scale, shift, eps=1e-6)
    assert relative_difference(by_hand, encoder(IMAGES)) < SAME
    assert relative_difference(averaged_first, encoder(IMAGES)) > 0.05
    encoder.backbone.stages[2].blocks[5].mlp.fc2.weight.zero_()  # a scale of zero would have silenced every block
    assert relative_difference(by_hand, encoder(IMAGES)) > 0.001


@pytest.mark.usefixtures("reduced_convnexts")
def test_the_supervised_convnext_averages_and_then_norms() -> None:
    encoder = encoder_with_random_statistics("sup_convnextS")
    scale, shift = encoder.backbone.head.norm.weight, encoder.backbone.head.norm.bias
    by_hand = F.layer_norm(last_feature_map(encoder).mean(dim=(2, 3)), (768,), scale, shift, eps=1e-6)
    assert relative_difference(by_hand, encoder(IMAGES)) < SAME
