"""BYOL's files: what Haiku computes from them is what the encoder computes, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.encoder_checks import exact_images
from tests.encoders.layouts.served import load_served
from tests.sources.haiku import NETWORK, Modules, byol_experiment, byol_features, byol_file, byol_tensors
from tests.sources.resnet_forward import (
    SHAPES,
    Draw,
    State,
    assert_same,
    largest_difference,
    resnet_tensors,
)
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, get_layout, hash_parameters
from zoo.errors import WeightsRefused

IMAGES = exact_images(2, 224)
CARD = load_catalogue()["byol_rn50_bs4096"]
FIRST, LAST = f"{NETWORK}initial_conv", f"{NETWORK}block_group_3/~/block_2/~/batchnorm_2"


@cache
def network() -> tuple[Modules, Modules]:
    return byol_tensors(Draw(), bottleneck=1 / 4)


SLIM = pytest.mark.usefixtures("slim_resnets")


@cache
def encoder() -> Encoder:
    return build_encoder(CARD)


def converted(content: Any) -> State:
    return convert([content], encoder(), layout="byol", what="a file", untrained=lambda: hash_parameters(encoder()))


@SLIM
@torch.no_grad()
def test_an_encoder_of_byol_has_the_features_that_haiku_computes() -> None:
    parameters, state = network()
    file = byol_file(byol_experiment(parameters, state, Draw(seed=7)))
    found = load_served(CARD.id, file, filename="pretrain_res50x1.pkl", crop_px=64)[0].double()(IMAGES)
    assert_same(found, byol_features(parameters, state, IMAGES))
    padded_alike = byol_features(parameters, state, IMAGES, symmetric=True)
    assert largest_difference(found, padded_alike) > 0.1  # here 0.42: torchvision's padding is another network


def test_a_flat_file_of_torchvisions_names_without_counters_is_taken_as_it_is() -> None:
    weights = resnet_tensors(SHAPES["resnet50 slim"], Draw())
    weights = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
    found = get_layout("byol").convert(weights | Draw().linear("fc", 2048, 1000), target={})
    assert found == weights


BYOL_CARDS = [card for card in load_catalogue().values() if card.weights.converter == "byol"]


def test_byols_file_has_exactly_the_tensors_of_the_encoder() -> None:
    networks = {(card.architecture.backbone, repr(card.architecture.options)) for card in BYOL_CARDS}
    assert len(BYOL_CARDS) == 13 and len(networks) == 1
    full = build_encoder(CARD, device="meta")
    target = {name.removeprefix("backbone."): tensor for name, tensor in full.state_dict().items()}
    draw = Draw(device="meta")
    state = get_layout("byol").convert(byol_experiment(*byol_tensors(draw), draw), target=target)
    counters = {name for name in target if name.endswith("num_batches_tracked")}
    assert state.keys() | counters == target.keys()
    assert all(tensor.shape == target[name].shape for name, tensor in state.items())


def nan(tensor: Tensor) -> Tensor:
    wrong = tensor.clone()
    wrong.flatten()[0] = torch.nan
    return wrong


AVERAGE = f"{LAST}/~/var_ema"
PARAMETERS, STATE = "online_params", "online_state"
WRONG: list[tuple[str, Callable[[Modules], Any], str]] = [
    (PARAMETERS, lambda m: m[FIRST].pop("w"), r"'conv1\.weight' is missing"),
    (PARAMETERS, lambda m: m.pop(LAST), r"'layer4\.2\.bn3\.bias' is missing \(and 1 more\)"),
    (STATE, lambda m: m[AVERAGE].pop("average"), r"'layer4\.2\.bn3\.running_var' is missing"),
    (PARAMETERS, lambda m: m[FIRST].update(b=torch.ones(64)), "'conv1/b' is left over"),
    (PARAMETERS, lambda m: m.update({LAST.replace("block_2", "block_3"): m[LAST]}), r"'layer4\.3\.bn3\.bias' is left"),
    (PARAMETERS, lambda m: m.update({LAST.replace("norm_2", "norm_3"): m[LAST]}), "batchnorm_3"),
    (PARAMETERS, lambda m: m.update({f"{FIRST}_1": m[FIRST]}), r"found two tensors for 'conv1\.weight'"),
    (PARAMETERS, lambda m: m.update({"stranger/linear": {"w": torch.ones(2, 2)}}), "found the tensor 'stranger/linear"),
    (PARAMETERS, lambda m: m[FIRST].update(w=m[FIRST]["w"][:6]), r"'conv1\.weight' has shape \(64, 3, 6, 7\)"),
    (PARAMETERS, lambda m: m[FIRST].update(w=None), "found NoneType under"),
    (PARAMETERS, lambda m: m[FIRST].update(w=m[FIRST]["w"].double()), r"'conv1\.weight' is float64"),
    (STATE, lambda m: m[AVERAGE].update(average=nan(m[AVERAGE]["average"])), r"running_var' has 1 numbers of 2048"),
    (PARAMETERS, lambda m: m[LAST].update(scale=torch.ones_like(m[LAST]["scale"])), "is as it was before training"),
]


@SLIM
def test_a_file_that_is_not_exactly_byols_network_is_refused() -> None:
    experiment = byol_experiment(*network(), Draw(seed=7))
    whole = experiment["experiment_state"]
    for field, change, message in WRONG:
        modules = {module: dict(values) for module, values in whole[field].items()}
        change(modules)
        with pytest.raises(WeightsRefused, match=message):
            converted(experiment | {"experiment_state": whole | {field: modules}})
    nothing: list[Any] = [{}, {"experiment_state": {}}, {"experiment_state": {"online_params": [1]}}, []]
    for content in nothing:
        with pytest.raises(WeightsRefused, match="as files of the layout 'byol' do"):
            converted(content)
