"""Encoders with decoders: shapes, what a skip carries, what a frozen encoder keeps, and that training helps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import zoo
from tests.encoder_checks import random_images
from zoo.cards.catalogue import catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.errors import QueryError
from zoo.evaluation.curves.models import (
    LEAST_CHANNELS,
    MOST_CHANNELS,
    LinearHead,
    TransferModel,
    UNetDecoder,
    pyramid,
    transfer_model,
)
from zoo.evaluation.curves.recipe import TASKS

POCKET = ("pocket_simclr_rn_shapes", "pocket_simclr_vit_shapes")


def built(name: str, *, device: str = "cpu") -> Encoder:
    return build_encoder(catalogue()[name], device=device)


def loaded(name: str) -> Encoder:
    encoder = zoo.load(name, device="cpu")[0]
    assert isinstance(encoder, Encoder)
    return encoder


def dense(encoder: Encoder, *, frozen: bool = False, seed: int = 0, task: str = "depth", px: int = 32) -> TransferModel:
    n_outputs = TASKS[task].n_channels
    assert n_outputs is not None
    return transfer_model(encoder, TASKS[task], n_outputs=n_outputs, px=px, frozen=frozen, seed=seed)


def linear(encoder: Encoder, *, frozen: bool = False, seed: int = 0) -> TransferModel:
    return transfer_model(encoder, TASKS["classification"], n_outputs=5, px=32, frozen=frozen, seed=seed)


def unet(channels: tuple[int, ...], strides: tuple[int, ...], *, px: int) -> UNetDecoder:
    """The same at every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return UNetDecoder(channels, strides, 1, px)


def stages_of(channels: tuple[int, ...], strides: tuple[int, ...], *, n: int, px: int) -> list[Tensor]:
    source = torch.Generator().manual_seed(2)
    sizes = [px // stride for stride in strides]
    return [torch.randn(n, c, size, size, generator=source) for c, size in zip(channels, sizes, strict=True)]


def halves(n: int) -> Tensor:
    """Whether the left half of each image is the brighter one, seen in the images themselves."""
    return torch.arange(n) % 2


def images_with_a_bright_half(n: int) -> Tensor:
    images = random_images(n, 32)
    images[halves(n) == 0, :, :, :16] += 1.5
    images[halves(n) == 1, :, :, 16:] += 1.5
    return images


def maps_of(images: Tensor) -> Tensor:
    """A target that needs the image at every pixel: its brightness, smoothed."""
    return F.avg_pool2d(images.mean(dim=1, keepdim=True), 3, stride=1, padding=1)


@pytest.mark.parametrize(
    ("name", "px"),
    [
        ("simclr_rn50", 224),
        ("relativeloc_rn50_70ep_mmselfsup", 255),
        ("simclr_rn50w4", 96),
        ("simclr_rn50", 20),
        ("init_rn50_d512", 65),
        ("clip_rn50x4", 288),
        ("sup_convnextS", 150),
        ("dino_vitS16", 224),
        ("clip_vitL14", 224),
        ("msn_vitl7_ep200", 224),
        ("msn_vitb4_ep300", 224),
        ("sup_vitB32", 224),
        ("beit_vitB16_pt22k", 224),
        ("pocket_init_rn", 32),
        ("pocket_init_rn", 37),
        ("pocket_init_vit", 32),
    ],
)
def test_a_map_has_the_size_of_the_image(name: str, px: int) -> None:
    encoder = built(name, device="meta")
    for task in ("depth", "normals"):
        model = dense(encoder, px=px, task=task)
        assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
        prediction = model(torch.empty(2, 3, px, px, device="meta"))
        assert prediction.shape == (2, TASKS[task].n_channels, px, px)
        assert prediction.dtype == torch.float32


@pytest.mark.parametrize(
    ("strides", "level_strides", "levels"),
    [
        ((1, 2, 4, 8, 16, 32), [32, 16, 8, 4, 2, 1], [5, 4, 3, 2, 1, 0]),
        ((1, 4, 8, 16, 32), [32, 16, 8, 4, 2, 1], [5, 3, 2, 1, 0]),  # ConvNeXt has nothing of stride 2
        ((1, 2, 2, 4, 8), [8, 4, 2, 1], [3, 3, 2, 1, 0]),
        ((1, 16, 16, 16, 16), [16, 8, 4, 2, 1], [4, 3, 2, 1, 0]),
        ((1, 14, 14, 14, 14), [14, 7, 3.5, 1.75, 1], [4, 3, 2, 1, 0]),
        ((1, 4, 4, 4, 4), [4, 2, 1], [2, 2, 2, 1, 0]),
        ((1, 1), [1, 1], [1, 0]),
    ],
)
def test_stages_join_at_their_own_resolution_or_as_a_pyramid(
    strides: tuple[int, ...], level_strides: list[float], levels: list[int]
) -> None:
    assert pyramid(strides) == (level_strides, levels)


@pytest.mark.parametrize("name", ["simclr_rn50", "simclr_rn50w4", "dino_vitS16", "pocket_init_rn"])
def test_channels_halve_from_those_of_the_encoder_within_bounds(name: str) -> None:
    model = dense(built(name, device="meta"), px=catalogue()[name].preprocess.crop_px)
    assert isinstance(model.head, UNetDecoder) and model.reader is not None
    deepest = model.head.projections[-1]
    widths = [
        next(each.out_channels for each in reversed([*block.modules()]) if isinstance(each, nn.Conv2d))
        for block in model.head.blocks
    ]
    assert isinstance(deepest, nn.Sequential)
    assert deepest[0].out_channels == min(MOST_CHANNELS, model.reader.channels[-1])
    assert widths[0] == deepest[0].out_channels // 2
    assert all(LEAST_CHANNELS <= after <= max(LEAST_CHANNELS, before) for before, after in pairwise(widths))
    assert len(model.head.blocks) == 1 + math.log2(model.reader.strides[-1])


@pytest.mark.parametrize("joined", range(5))
def test_every_stage_and_the_image_reach_the_map(joined: int) -> None:
    channels, strides = (6, 8, 10, 12), (2, 4, 4, 8)
    decoder = unet(channels, strides, px=32)
    inputs = [random_images(2, 32), *stages_of(channels, strides, n=2, px=32)]
    inputs[joined].requires_grad_()
    decoder(inputs[1:], inputs[0]).square().sum().backward()
    gradient = inputs[joined].grad
    assert gradient is not None and bool((gradient.flatten(1).norm(dim=1) > 0).all())


def test_a_map_moves_with_its_image() -> None:
    """Nothing is turned over or transposed between a stage and the pixels above it."""
    decoder = unet((16,), (4,), px=32)
    stage, image = torch.zeros(1, 16, 8, 8), torch.zeros(1, 3, 32, 32)
    changed = stage.clone()
    changed[0, :8, 1, 6] = 5.0  # the cell of rows 4 to 7 and columns 24 to 27
    with torch.no_grad():
        difference = (decoder([changed], image) - decoder([stage], image)).abs()[0, 0]
    row, column = divmod(int(difference.argmax()), 32)
    assert 2 <= row <= 9 and 22 <= column <= 29


def test_the_scale_of_a_stage_does_not_matter() -> None:
    decoder = unet((16, 24), (2, 4), px=16)
    stages, images = stages_of((16, 24), (2, 4), n=2, px=16), random_images(2, 16)
    with torch.no_grad():
        torch.testing.assert_close(
            decoder([100 * stages[0], stages[1]], images), decoder(stages, images), rtol=1e-3, atol=1e-3
        )


def test_an_image_is_read_alike_alone_and_among_others_in_training() -> None:
    decoder = unet((16, 24), (2, 4), px=16).train()
    stages, images = stages_of((16, 24), (2, 4), n=3, px=16), random_images(3, 16)
    with torch.no_grad():
        alone = decoder([stage[:1] for stage in stages], images[:1])
        torch.testing.assert_close(decoder(stages, images)[:1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [dense, linear])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_seed_decides_the_decoder_and_nothing_global(make: Callable[..., TransferModel], frozen: bool) -> None:
    encoder = built("pocket_init_rn")
    before = torch.get_rng_state()
    one, again, other = (make(copy.deepcopy(encoder), frozen=frozen, seed=seed).head.state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(value, again[key]) for key, value in one.items())
    assert any(not torch.equal(value, other[key]) for key, value in one.items())


@pytest.mark.parametrize("make", [dense, linear])
@pytest.mark.parametrize("name", POCKET)
def test_a_frozen_encoder_never_changes(name: str, make: Callable[..., TransferModel]) -> None:
    model = make(loaded(name), frozen=True)
    before = copy.deepcopy(model.encoder.state_dict())
    head = copy.deepcopy(model.head.state_dict())
    assert all(parameter.requires_grad for parameter in model.head.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(2):
        model.train()
        assert model.head.training and not any(module.training for module in model.encoder.modules())
        model(random_images(4, 32)).square().mean().backward()
        optimizer.step()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.encoder.state_dict().items())
    assert all(not torch.equal(value, head[key]) for key, value in model.head.state_dict().items())


@pytest.mark.parametrize("make", [dense, linear])
@pytest.mark.parametrize("name", POCKET)
def test_a_fine_tuned_encoder_is_trained_throughout(name: str, make: Callable[..., TransferModel]) -> None:
    model = make(loaded(name))
    before = copy.deepcopy(model.encoder.state_dict())
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(random_images(4, 32)).square().mean().backward()
    optimizer.step()
    same = {key for key, value in model.encoder.state_dict().items() if torch.equal(value, before[key])}
    assert not same
    assert not any(module.training for module in model.eval().modules())


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", POCKET)
def test_a_few_steps_lower_the_loss_of_maps(name: str, frozen: bool) -> None:
    images = images_with_a_bright_half(16)
    losses = losses_of(dense(loaded(name), frozen=frozen), images, maps_of(images), F.l1_loss, n_steps=25)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", [*POCKET, "pocket_simclr_vit_shapes@avg", "pocket_simclr_vit_shapes@cls:1"])
def test_a_few_steps_lower_the_loss_of_classes(name: str, frozen: bool) -> None:
    images = images_with_a_bright_half(16)
    model = linear(loaded(name), frozen=frozen)
    assert isinstance(model.head, LinearHead) and model.reader is None
    losses = losses_of(model, images, halves(16), F.cross_entropy, n_steps=25)
    assert losses[-1] < 0.7 * losses[0]


def losses_of(
    model: TransferModel, images: Tensor, target: Tensor, loss_of: Callable[[Tensor, Tensor], Tensor], *, n_steps: int
) -> list[float]:
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    losses = []
    for _ in range(n_steps):
        loss = loss_of(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_a_linear_head_on_kept_features_gives_what_the_model_gives() -> None:
    model = linear(loaded("pocket_simclr_rn_shapes"), frozen=True)
    images = random_images(4, 32)
    features = model.encoder_features(images)
    assert features.shape == (4, 48) and not features.requires_grad
    torch.testing.assert_close(model.head(features), model(images))


def test_a_model_goes_on_as_its_copy_does() -> None:
    """The stages of a copy are those of the copied encoder: whoever trains from a copy trains the copy."""
    model = dense(loaded("pocket_simclr_rn_shapes"))
    other = copy.deepcopy(model)
    losses_of(other, random_images(4, 32), maps_of(random_images(4, 32)), F.l1_loss, n_steps=1)
    fresh = dense(loaded("pocket_simclr_rn_shapes"))
    fresh.load_state_dict(other.state_dict())
    images = random_images(2, 32)
    with torch.no_grad():
        assert torch.equal(fresh.eval()(images), other.eval()(images))
        assert not torch.equal(model.eval()(images), other(images))


def test_features_that_are_rounded_cannot_be_fine_tuned() -> None:
    with pytest.raises(QueryError, match="rounded, so that no gradient reaches its weights; expected it frozen"):
        linear(built("lossyless_vitb32_b01", device="meta"))
    frozen = linear(built("lossyless_vitb32_b01", device="meta"), frozen=True)
    assert frozen(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 5)
    other = linear(built("lossyless_vitb32_b01@cls", device="meta"))
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_maps_of_an_encoder_without_spatial_features_are_refused() -> None:
    own = Encoder(nn.Flatten(), lambda backbone, images: backbone(images), dim=12)
    with pytest.raises(QueryError, match="has no spatial features"):
        dense(own, px=2)
    assert linear(own)(random_images(2, 2)).shape == (2, 5)  # classes are fine
