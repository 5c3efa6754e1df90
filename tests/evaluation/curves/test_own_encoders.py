"""Encoders of the user's own: what tells their runs apart, and what is refused before anything is trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.curves.curve_runs import HOW, PREPROCESS
from zoo.encoders import Encoder
from zoo.errors import QueryError
from zoo.evaluation.curves.inputs import transfer_data
from zoo.evaluation.curves.models import Candidate, candidate, own_candidate
from zoo.evaluation.curves.report import CurveRequest, learning_curves

REQUEST = CurveRequest(regimes=(20, "all"), seeds=(0,))


class Mine(nn.Module):
    """A network with a setting that it does not tell."""

    def __init__(self, power: int = 1) -> None:
        super().__init__()
        self.layer, self.power = nn.Conv2d(3, 4, 3), power

    def forward(self, images: Tensor) -> Tensor:
        return torch.as_tensor(self.layer(images) ** self.power)


class Other(Mine):
    """The same tensors, and another network."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.as_tensor(self.layer(images).abs())


def mean(network: nn.Module, images: Tensor) -> Tensor:
    return torch.as_tensor(network(images).mean(dim=(2, 3)))


def largest(network: nn.Module, images: Tensor) -> Tensor:
    return torch.as_tensor(network(images).amax(dim=(2, 3)))


def scaled(network: nn.Module, images: Tensor, *, by: float) -> Tensor:
    return by * mean(network, images)


def made(seed: int = 0, *, network: type[Mine] = Mine, pooling: Any = mean, **options: Any) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Encoder(network(**options), pooling, dim=4)


def own(**options: Any) -> Candidate:
    return own_candidate(
        "mine", preprocess=PREPROCESS, pretrained=partial(made, **options), untrained=partial(made, **options)
    )


def test_networks_with_the_same_tensors_that_compute_something_else_are_told_apart() -> None:
    several = [
        own(),
        own(pooling=largest),
        own(pooling=partial(scaled, by=2.0)),
        own(pooling=partial(scaled, by=3.0)),
        own(pooling=lambda network, images: mean(network, images)),
        own(power=2),
        own(network=type("Mine", (Other,), {})),  # which says of itself what the first says
    ]
    assert len({one.weights_hash for one in several}) == 1
    assert len({one.architecture_hash for one in several}) == len(several)
    assert own().architecture_hash == own().architecture_hash
    assert own(pooling=partial(scaled, by=2.0)).architecture_hash == several[2].architecture_hash


def test_a_network_that_is_no_encoder_is_refused_with_what_to_do() -> None:
    with pytest.raises(QueryError, match=r"'mine' gave a Mine; expected a zoo\.encoders\.Encoder: put a network into"):
        own_candidate("mine", preprocess=PREPROCESS, pretrained=Mine, untrained=lambda seed: Mine())  # type: ignore


def test_an_encoder_without_spatial_features_is_refused_by_name_before_others_are_trained(tmp_path: Path) -> None:
    data = transfer_data("shapes:classes=4,train=40,val=8,size_px=16", "depth")
    both = [candidate("pocket_simclr_rn_shapes"), own()]
    with pytest.raises(QueryError, match="mine: The encoder has no spatial features: its backbone is a Mine"):
        learning_curves(both, data, REQUEST, folder=tmp_path, how=HOW)
    assert not list(tmp_path.iterdir())
