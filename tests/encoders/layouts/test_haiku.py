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
from tests.sources import saved
from tests.sources.haiku import NETWORK, Modules, byol_experiment, byol_features, byol_file, byol_tensors
from tests.sources.resnet_forward import (
    SHAPES,
    Draw,
    State,
    assert_same,
    largest_difference,
    resnet_tensors,
)
from zoo.cards.catalogue import catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, fingerprints, layout_named
from zoo.errors import WeightsRefused

IMAGES = exact_images(2, 224)
CARD = catalogue()["byol_rn50_bs4096"]
FIRST, LAST = f"{NETWORK}initial_conv", f"{NETWORK}block_group_3/~/block_2/~/batchnorm_2"


@cache
def network() -> tuple[Modules, Modules]:
    return byol_tensors(Draw(), bottleneck=1 / 4)


SLIM = pytest.mark.usefixtures("slim_resnets")


@cache
def encoder() -> Encoder:
    return build_encoder(CARD)


def converted(content: Any) -> State:
    return convert([content], encoder(), layout="byol", what="a file", untrained=lambda: fingerprints(encoder()))


@SLIM
@torch.no_grad()
def test_an_encoder_of_byol_has_the_features_that_haiku_computes() -> None:
    parameters, state = network()
    file = byol_file(byol_experiment(parameters, state, Draw(seed=7)))
    found = load_served(CARD.id, file, filename="pretrain_res50x1.pkl", crop_px=64)[0].double()(IMAGES)
    assert_same(found, byol_features(parameters, state, IMAGES))
    padded_alike = byol_features(parameters, state, IMAGES, symmetric=True)
    assert largest_difference(found, padded_alike) > 0.1  # here 0.42: torchvision's padding is another network


@SLIM
@torch.no_grad()
def test_byols_first_layer_may_be_numbered() -> None:
    parameters, state = byol_tensors(Draw(), stem="initial_conv_1", bottleneck=1 / 4)
    content = byol_experiment(parameters, state, Draw(seed=7))
    numbered, plain = converted(content), converted(byol_experiment(*network(), Draw(seed=7)))
    assert numbered.keys() == plain.keys()
    assert all(torch.equal(numbered[name], plain[name]) for name in plain)


@SLIM
@torch.no_grad()
def test_what_others_have_converted_gives_the_same_encoder() -> None:
    """A flat file of torchvision's names, with the classifier and without counts of batches."""
    weights = {
        name: tensor
        for name, tensor in resnet_tensors(SHAPES["resnet50 slim"], Draw()).items()
        if not name.endswith("num_batches_tracked")
    }
    found = load_served(CARD.id, saved(weights | Draw().linear("fc", 2048, 1000), legacy=True), crop_px=64)[0].double()(
        IMAGES
    )
    parameters, state = as_haiku(weights)
    assert_same(found, byol_features(parameters, state, IMAGES))


def as_haiku(weights: State) -> tuple[Modules, Modules]:
    """Weights under torchvision's names as modules of Haiku."""
    parts = {"weight": "scale", "bias": "offset", "running_mean": "mean_ema", "running_var": "var_ema"}
    parameters: Modules = {}
    state: Modules = {}
    for name, tensor in weights.items():
        *module, part = name.split(".")
        at = NETWORK
        if module[0].startswith("layer"):
            at += f"block_group_{int(module[0][-1]) - 1}/~/block_{module[1]}/~/"
            module = module[2:]
        if module[0] == "downsample":
            at += "shortcut_conv" if module[1] == "0" else "shortcut_batchnorm"
        else:
            number = "initial_{}" if at == NETWORK else "{}_" + str(int(module[0][-1]) - 1)
            at += number.format("conv" if module[0].startswith("conv") else "batchnorm")
        if tensor.ndim == 4:
            parameters[at] = {"w": tensor.permute(2, 3, 1, 0)}
        elif part.startswith("running"):
            state[f"{at}/~/{parts[part]}"] = {"average": tensor}
        else:
            parameters.setdefault(at, {})[parts[part]] = tensor
    return parameters, state


BYOL_CARDS = [card for card in catalogue().values() if card.weights.converter == "byol"]


def test_byols_file_has_exactly_the_tensors_of_the_encoder() -> None:
    networks = {(card.architecture.backbone, repr(card.architecture.options)) for card in BYOL_CARDS}
    assert len(BYOL_CARDS) == 13 and len(networks) == 1
    full = build_encoder(CARD, device="meta")
    target = {name.removeprefix("backbone."): tensor for name, tensor in full.state_dict().items()}
    draw = Draw(device="meta")
    state = layout_named("byol").convert(byol_experiment(*byol_tensors(draw), draw), target=target)
    counters = {name for name in target if name.endswith("num_batches_tracked")}
    assert state.keys() | counters == target.keys()
    assert all(tensor.shape == target[name].shape for name, tensor in state.items())


def put(tensor: Callable[[Tensor], Any], module: str, name: str) -> Callable[[Modules], None]:
    def change(modules: Modules) -> None:
        modules[module][name] = tensor(modules[module][name])

    return change


def nan(tensor: Tensor) -> Tensor:
    wrong = tensor.clone()
    wrong.flatten()[0] = torch.nan
    return wrong


AVERAGE = f"{LAST}/~/var_ema"
WRONG: dict[str, tuple[str, Callable[[Modules], Any], str]] = {
    "a weight is missing": ("online_params", lambda m: m[FIRST].pop("w"), r"'conv1\.weight' is missing"),
    "a module is missing": (
        "online_params",
        lambda m: m.pop(LAST),
        r"'layer4\.2\.bn3\.bias' is missing \(and 1 more\)",
    ),
    "an average is missing": ("online_state", lambda m: m[AVERAGE].pop("average"), "expected the key 'average'"),
    "a bias too many": (
        "online_params",
        lambda m: m[FIRST].update(b=torch.ones(64)),
        "found 'b' in the module 'initial_conv', expected w, scale, offset",
    ),
    "a block too many": (
        "online_params",
        lambda m: m.update({LAST.replace("block_2", "block_3"): m[LAST]}),
        r"'layer4\.3\.bn3\.bias' is left over",
    ),
    "a layer too many": (
        "online_params",
        lambda m: m.update({LAST.replace("norm_2", "norm_3"): m[LAST]}),
        "found 'batchnorm_3' in the module",
    ),
    "two first layers": (
        "online_params",
        lambda m: m.update({f"{FIRST}_1": m[FIRST]}),
        r"found two tensors for 'conv1\.weight'",
    ),
    "a module of another network": (
        "online_params",
        lambda m: m.update({"stranger/linear": {"w": torch.ones(2, 2)}}),
        "found the module 'stranger/linear'",
    ),
    "another shape": ("online_params", put(lambda t: t[:6], FIRST, "w"), r"'conv1\.weight' has shape \(64, 3, 6, 7\)"),
    "two dimensions": ("online_params", put(lambda t: t[0, 0], FIRST, "w"), "found no tensor of 1 or 4 dimensions"),
    "no tensor": ("online_params", put(lambda t: None, FIRST, "w"), "found no tensor of 1 or 4 dimensions"),
    "double precision": ("online_params", put(Tensor.double, FIRST, "w"), r"'conv1\.weight' is float64"),
    "no number": ("online_state", put(nan, AVERAGE, "average"), r"'layer4\.2\.bn3\.running_var' has 1 numbers of 2048"),
    "as before training": ("online_params", put(torch.ones_like, LAST, "scale"), "is as it was before training"),
}


@SLIM
@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_that_is_not_exactly_byols_network_is_refused(wrong: str) -> None:
    field, change, message = WRONG[wrong]
    experiment = byol_experiment(*network(), Draw(seed=7))
    modules = {module: dict(values) for module, values in experiment["experiment_state"][field].items()}
    change(modules)
    experiment["experiment_state"][field] = modules
    with pytest.raises(WeightsRefused, match=message):
        converted(experiment)


@SLIM
@pytest.mark.parametrize("content", [{}, {"experiment_state": {}}, {"experiment_state": {"online_params": [1]}}, []])
def test_what_is_no_checkpoint_of_byol_is_refused(content: Any) -> None:
    with pytest.raises(WeightsRefused, match="as files of the layout 'byol' do"):
        converted(content)
