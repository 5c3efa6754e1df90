"""ResNets are torchvision's, to the last bit: names, first weights and outputs."""

from __future__ import annotations

import torch
from torchvision import models

from tests.each import for_each
from zoo.encoders.residual_networks import RESNETS, make_resnet

CASES = [(name, {}) for name in RESNETS] + [("resnet50", {"width_per_group": 16, "zero_init_residual": True})]


@for_each(CASES, arguments=2)
def test_a_resnet_is_that_of_torchvision(name: str, options: dict[str, int]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        ours = make_resnet(name, **options).eval()
        torch.manual_seed(3)
        theirs = models.get_model(name, weights=None, **options).eval()
    expected = theirs.state_dict()
    found = ours.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    images = torch.linspace(-2, 2, 3 * 64 * 64).sin().reshape(1, 3, 64, 64)
    with torch.inference_mode():
        assert torch.equal(ours(images), theirs(images))
