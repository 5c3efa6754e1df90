"""I-JEPA's checkpoints: the network that is averaged over the training, without class token."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.encoder_checks import random_images
from tests.encoders.layouts.served import load_served
from tests.sources import saved
from tests.sources.vit_checkpoints import optimizer_state, under
from tests.sources.vit_names import REDUCED, Shapes, State, filled, vit_shapes
from zoo.errors import WeightsRefused

OPTIONS = {"embed_dim": REDUCED.width, "depth": REDUCED.depth, "num_heads": REDUCED.n_heads, "patch_size": 16}


def shapes() -> Shapes:
    whole = vit_shapes(REDUCED) | {"pos_embed": (1, REDUCED.side**2, REDUCED.width)}
    return {name: shape for name, shape in whole.items() if name != "cls_token"}


def ijepa_training(target: State, anchor: State, *, wrapped: bool) -> dict[str, Any]:
    """``save_checkpoint`` of ``src/train.py``; wrapped if there was more than one process."""
    prefix = "module." if wrapped else ""
    return {
        "encoder": under(prefix, anchor),
        "predictor": under(prefix, filled({"predictor_embed.weight": (32, REDUCED.width)}, seed=3)),
        "target_encoder": under(prefix, target),
        "opt": optimizer_state(anchor, WD_exclude=True),
        "scaler": None,
        "epoch": 300,
        "loss": 0.11,
        "batch_size": 128,
        "world_size": 16 if wrapped else 1,
        "lr": 0.001,
    }


@pytest.mark.parametrize("wrapped", [True, False])
@torch.no_grad()
def test_the_averaged_network_is_read_and_its_patch_tokens_are_averaged(wrapped: bool) -> None:
    target, anchor = filled(shapes(), seed=1), filled(shapes(), seed=2)
    encoder, _ = load_served(
        "ijepa_vitH14_in1k",
        saved(ijepa_training(target, anchor, wrapped=wrapped), legacy=False),
        architecture={"backbone": "timm:vit_huge_patch14_gap_224", "options": OPTIONS | {"class_token": False}},
        dim=REDUCED.width,
        crop_px=224,
    )
    state = encoder.backbone.state_dict()
    assert state.keys() == target.keys()
    assert all(torch.equal(state[name], tensor.to(state[name].dtype)) for name, tensor in target.items())
    images = random_images(2, 224)
    tokens = encoder.backbone.forward_features(images)
    assert torch.allclose(encoder(images), tokens.mean(dim=1), atol=1e-6)


def test_a_file_without_the_averaged_network_is_refused() -> None:
    content = ijepa_training(filled(shapes(), seed=1), filled(shapes(), seed=2), wrapped=True)
    del content["target_encoder"]
    with pytest.raises(WeightsRefused, match="expected the key 'target_encoder'"):
        load_served(
            "ijepa_vitH14_in1k",
            saved(content, legacy=False),
            architecture={"backbone": "timm:vit_huge_patch14_gap_224", "options": OPTIONS | {"class_token": False}},
            dim=REDUCED.width,
            crop_px=224,
        )
