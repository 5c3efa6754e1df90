"""Encoders with decoders: shapes, what a skip carries, what a frozen encoder keeps, losses, and candidates."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import zoo
from tests.encoder_checks import random_images
from tests.evaluation.curves.curve_runs import PREPROCESS
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.errors import DataError, QueryError
from zoo.evaluation.curves.models import (
    Candidate,
    TargetScale,
    TransferModel,
    UNetDecoder,
    build_transfer_model,
    compute_angles,
    compute_loss,
    compute_pyramid,
    compute_risks,
    compute_target_scale,
    count_loss_terms,
    own_candidate,
)
from zoo.evaluation.curves.recipe import TASKS

POCKET = ("pocket_simclr_rn_shapes", "pocket_simclr_vit_shapes")
DEPTH, NORMALS, CLASSES = TASKS["depth"], TASKS["normals"], TASKS["classification"]


def built(name: str, *, device: str = "cpu") -> Encoder:
    return build_encoder(load_catalogue()[name], device=device)


def dense(encoder: Encoder, *, px: int = 32, frozen: bool = False, seed: int = 0) -> TransferModel:
    return build_transfer_model(encoder, DEPTH, n_outputs=1, px=px, frozen=frozen, seed=seed)


def linear(encoder: Encoder, *, frozen: bool = False, seed: int = 0) -> TransferModel:
    return build_transfer_model(encoder, CLASSES, n_outputs=5, px=32, frozen=frozen, seed=seed)


BOTH = pytest.mark.parametrize("make", [dense, linear])


@pytest.mark.parametrize(
    ("name", "px"),
    [
        ("relativeloc_rn50_70ep_mmselfsup", 255),
        ("simclr_rn50w4", 20),
        ("sup_convnextS", 150),
        ("msn_vitl7_ep200", 224),
        ("pocket_init_rn", 37),
        ("pocket_init_vit", 32),
    ],
)
def test_a_map_has_the_size_of_the_image(name: str, px: int) -> None:
    model = dense(built(name, device="meta"), px=px)
    assert model(torch.empty(2, 3, px, px, device="meta")).shape == (2, 1, px, px)


@pytest.mark.parametrize(
    ("strides", "level_strides", "levels"),
    [
        ((1, 2, 4, 8, 16, 32), [32, 16, 8, 4, 2, 1], [5, 4, 3, 2, 1, 0]),
        ((1, 4, 8, 16, 32), [32, 16, 8, 4, 2, 1], [5, 3, 2, 1, 0]),  # ConvNeXt has nothing of stride 2
        ((1, 2, 2, 4, 8), [8, 4, 2, 1], [3, 3, 2, 1, 0]),
        ((1, 14, 14, 14, 14), [14, 7, 3.5, 1.75, 1], [4, 3, 2, 1, 0]),
        ((1, 4, 4, 4, 4), [4, 2, 1], [2, 2, 2, 1, 0]),
        ((1, 1), [1, 1], [1, 0]),
    ],
)
def test_stages_join_at_their_own_resolution_or_as_a_pyramid(strides: Any, level_strides: Any, levels: Any) -> None:
    assert compute_pyramid(strides) == (level_strides, levels)


def unet(channels: tuple[int, ...], strides: tuple[int, ...]) -> UNetDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return UNetDecoder(channels, strides, 1, 32)


def test_every_stage_and_the_image_reach_the_map_each_at_its_own_scale() -> None:
    channels, strides = (8, 16, 16, 24), (2, 4, 4, 8)
    decoder, source = unet(channels, strides), torch.Generator().manual_seed(2)
    stages = [torch.randn(2, c, 32 // s, 32 // s, generator=source) for c, s in zip(channels, strides, strict=True)]
    inputs = [each.requires_grad_() for each in (random_images(2, 32), *stages)]
    found = decoder(inputs[1:], inputs[0])
    found.square().sum().backward()
    assert all(bool((one.grad.flatten(1).norm(dim=1) > 0).all()) for one in inputs if one.grad is not None)
    assert all(one.grad is not None for one in inputs)
    with torch.no_grad():
        louder = decoder([*stages[:1], 100 * stages[1], *stages[2:]], inputs[0])
        torch.testing.assert_close(louder, found, rtol=1e-3, atol=1e-3)
        alone = decoder([stage[:1] for stage in stages], inputs[0][:1])
        torch.testing.assert_close(alone, found[:1], rtol=1e-4, atol=1e-5)


@BOTH
def test_a_seed_decides_the_decoder_and_nothing_global(make: Callable[..., TransferModel]) -> None:
    encoder, before = built("pocket_init_rn"), torch.get_rng_state()
    one, again, other = (make(copy.deepcopy(encoder), seed=seed).head.state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(value, again[key]) for key, value in one.items())
    assert any(not torch.equal(value, other[key]) for key, value in one.items())


@BOTH
@pytest.mark.parametrize("name", POCKET)
@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_encoder_never_changes_and_another_is_trained_throughout(
    name: str, make: Callable[..., TransferModel], frozen: bool
) -> None:
    encoder = zoo.load(name, device="cpu")[0]
    assert isinstance(encoder, Encoder)
    model, before = make(encoder, frozen=frozen), copy.deepcopy(encoder.state_dict())
    assert model.head.training and all(module.training is not frozen for module in model.encoder.modules())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5)
    model(random_images(4, 32)).square().mean().backward()
    optimizer.step()
    changed = {key for key, value in encoder.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == (set() if frozen else before.keys())


def test_what_no_gradient_or_map_can_come_from_is_refused() -> None:
    with pytest.raises(QueryError, match="expected it frozen"):
        linear(built("lossyless_vitb32_b01", device="meta"))
    frozen = linear(built("lossyless_vitb32_b01", device="meta"), frozen=True)
    assert frozen(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 5)
    own = Encoder(nn.Flatten(), lambda backbone, images: backbone(images), dim=12)
    with pytest.raises(QueryError, match="has no spatial features"):
        dense(own, px=2)
    assert linear(own)(random_images(2, 2)).shape == (2, 5)  # classes are fine


# losses


def maps(n_channels: int) -> tuple[Tensor, Tensor, Tensor]:
    random = np.random.default_rng(0)
    prediction, target = random.standard_normal((2, 5, n_channels, 4, 4)).astype(np.float32)
    valid = random.random((5, 4, 4)) < 0.6
    valid[:, 0, 0] = True
    return torch.from_numpy(prediction), torch.from_numpy(target), torch.from_numpy(valid)


@pytest.mark.parametrize("task", [DEPTH, NORMALS])
def test_only_valid_pixels_count_and_parts_of_a_batch_make_the_whole(task: Any) -> None:
    prediction, target, valid = maps(task.n_channels)
    wrong = (prediction - target).abs().permute(0, 2, 3, 1)[valid].numpy()  # (n_valid, c)
    prediction = torch.where(valid.unsqueeze(1), prediction, 1e6).requires_grad_()
    loss = compute_loss(task, prediction, target, valid)
    loss.backward()
    assert prediction.grad is not None
    assert torch.equal(prediction.grad != 0, valid.unsqueeze(1).expand_as(prediction))
    np.testing.assert_allclose(loss.detach(), wrong.mean(), rtol=1e-6)
    parts = [(prediction[some], target[some], valid[some]) for some in (slice(0, 1), slice(1, 3), slice(3, 5))]
    weighted = sum(compute_loss(task, *part) * count_loss_terms(task, *part[1:]) for part in parts)
    np.testing.assert_allclose((weighted / count_loss_terms(task, target, valid)).detach(), wrong.mean(), rtol=1e-6)  # type: ignore[union-attr]
    risks = compute_risks(task, prediction.detach(), target, valid, scale=TargetScale())
    for image in range(5):
        one, other = (x[image].permute(1, 2, 0)[valid[image]].detach().double().numpy() for x in (prediction, target))
        np.testing.assert_allclose(risks[task.metrics[0]][image], np.abs(one - other).mean(), rtol=1e-6)
        if task is NORMALS:
            cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
            degrees = np.degrees(np.arccos(cosine)).mean()
            np.testing.assert_allclose(risks["normals_angular_error"][image], degrees, rtol=1e-5)


def test_errors_of_classes_are_percent_and_angles_are_exact_at_both_ends() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    risks = compute_risks(CLASSES, logits, torch.tensor([0, 2]), None, scale=TargetScale())
    assert risks["transfer_error"].tolist() == [0, 100]
    turn = torch.tensor([0.0, 1e-3, 30.0, 90.0, 179.999, 180.0], dtype=torch.float64).deg2rad()
    one = torch.stack([turn.sin(), torch.zeros_like(turn), turn.cos()], dim=1).float()
    other = torch.tensor([[0.0, 0.0, 1.0]]).expand(6, 3)
    for scale in (1.0, 1e-6, 1e6):
        np.testing.assert_allclose(compute_angles(scale * one, other), turn.rad2deg(), rtol=1e-4, atol=1e-5)
    assert compute_angles(torch.zeros(1, 3), other[:1]).item() == pytest.approx(90)


def test_depths_are_trained_without_their_unit_and_measured_in_it() -> None:
    prediction, target, valid = maps(1)
    scale, in_mm = (
        compute_target_scale(f * target[:, 0][valid].numpy()[:, None] + f, what="depths") for f in (1, 1000)
    )
    standardised = scale.standardised(target)
    torch.testing.assert_close(in_mm.standardised(1000 * target + 1000), scale.standardised(target + 1))
    own = compute_risks(DEPTH, prediction, target + 1, valid, scale=scale)["depth_l1_error"]
    other = compute_risks(DEPTH, prediction, 1000 * target + 1000, valid, scale=in_mm)["depth_l1_error"]
    torch.testing.assert_close(other, 1000 * own, rtol=1e-4, atol=1e-2)
    assert (standardised[:, 0][valid] + 1 / scale.spread).abs().mean().item() == pytest.approx(1, rel=1e-5)
    with pytest.raises(DataError, match="All of the depths are"):
        compute_target_scale(np.full((7, 1), 2.5, np.float32), what="the depths")


# candidates of the user's own


class Mine(nn.Module):
    """A network with a setting that it does not tell."""

    def __init__(self, power: int = 1) -> None:
        super().__init__()
        self.layer, self.power = nn.Conv2d(3, 4, 3), power

    def forward(self, images: Tensor) -> Tensor:
        return torch.as_tensor(self.layer(images) ** self.power)


def mean(network: nn.Module, images: Tensor, *, by: float = 1.0) -> Tensor:
    return torch.as_tensor(by * network(images).mean(dim=(2, 3)))


def made(seed: int = 0, *, pooling: Any = mean, power: int = 1) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Encoder(Mine(power), pooling, dim=4)


def own(**options: Any) -> Candidate:
    make = partial(made, **options)
    return own_candidate("mine", preprocess=PREPROCESS, pretrained=make, untrained=make)


def test_networks_with_the_same_tensors_that_compute_something_else_are_told_apart() -> None:
    others = [{}, *({"pooling": partial(mean, by=factor)} for factor in (2.0, 3.0)), {"power": 2}]
    several = [own(**options) for options in others]
    assert len({one.weights_hash for one in several}) == 1
    assert len({one.architecture_hash for one in several}) == len(several)
    assert own().architecture_hash == several[0].architecture_hash
    with pytest.raises(QueryError, match=r"expected a zoo\.encoders\.Encoder"):
        own_candidate("mine", preprocess=PREPROCESS, pretrained=Mine, untrained=lambda seed: Mine())  # type: ignore
