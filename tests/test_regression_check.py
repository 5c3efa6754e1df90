"""Recorded features: what passes as rounding, what does not, and that a recording is never lost or half."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.each import for_each
from tests.servers import serving
from tests.tiny import checkpoint, write_card
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard, Preprocess
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.preprocess import build_preprocess
from zoo.errors import DataError, StoreError
from zoo.loading import load
from zoo.regression_check import IMAGES, TOLERANCE, RegressionCheck, compare_features, get_recording_path

Change = Callable[[EncoderCard, Encoder], tuple[Encoder, Any]]


@pytest.fixture(scope="module", autouse=True)
def card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncoderCard]:
    """Of a small encoder, in a folder of its own that all these tests share: reading the cards takes longest."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZOO_HOME", str(tmp_path_factory.mktemp("home")))
        patched.delenv("ZOO_OFFLINE", raising=False)
        write_card("tiny", "https://nowhere.invalid/tiny.pth")
        yield load_catalogue()["tiny"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))


def encoder_of(card: EncoderCard) -> Encoder:
    """With weights large enough for an image to matter."""
    encoder = build_encoder(card)
    source = torch.Generator().manual_seed(1)
    for tensor in encoder.state_dict().values():
        tensor.add_(torch.randn(tensor.shape, generator=source) * 0.1)
    return encoder


def check(
    card: EncoderCard, encoder: Encoder | None = None, preprocess: Any = None, **options: bool
) -> RegressionCheck | None:
    return compare_features(
        card, None, encoder or encoder_of(card), preprocess or build_preprocess(card.preprocess), **options
    )


def test_the_same_encoder_is_the_same(card: EncoderCard) -> None:
    assert check(card) is None
    found = check(card)
    assert found is not None
    assert (found.verdict, found.changes) == ("same", ())
    assert [image.image for image in found.images] == [*IMAGES]
    assert all((image.absolute, image.relative, image.cosine) == (0, 0, 1) for image in found.images)


def test_rounding_is_no_drift(card: EncoderCard) -> None:
    from torchvision import transforms

    check(card)
    preprocess = build_preprocess(card.preprocess)
    found = check(card, encoder_of(card).double(), transforms.Compose([preprocess, torch.Tensor.double]))
    assert found is not None
    assert found.verdict == "within rounding"
    assert 0 < max(image.relative for image in found.images) < TOLERANCE / 10


def with_preprocess(**facts: Any) -> Change:
    def change(card: EncoderCard, encoder: Encoder) -> tuple[Encoder, Any]:
        return encoder, build_preprocess(replace(card.preprocess, **facts))

    return change


def with_tensor_resize(card: EncoderCard, encoder: Encoder) -> tuple[Encoder, Any]:
    from torchvision import transforms
    from torchvision.transforms import v2

    how: Preprocess = card.preprocess
    resize = transforms.Resize(how.resize_px, interpolation=transforms.InterpolationMode(how.interpolation))
    crop, normalise = transforms.CenterCrop(how.crop_px), transforms.Normalize(how.mean, how.std)
    return encoder, transforms.Compose([v2.RGB(), transforms.ToTensor(), resize, crop, normalise])


def with_half_precision(card: EncoderCard, encoder: Encoder) -> tuple[Encoder, Any]:
    return encoder.half().float(), build_preprocess(card.preprocess)


def with_other_epsilon(card: EncoderCard, encoder: Encoder) -> tuple[Encoder, Any]:
    for module in encoder.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-3
    return encoder, build_preprocess(card.preprocess)


@for_each(
    [
        with_preprocess(interpolation="bilinear"),
        with_preprocess(resize_px=225),
        with_preprocess(std=(0.228, 0.224, 0.225)),
        with_tensor_resize,
        with_half_precision,
        with_other_epsilon,
    ]
)
def test_a_small_mistake_is_drift(change: Change, card: EncoderCard) -> None:
    check(card)
    found = check(card, *change(card, encoder_of(card)))
    assert found is not None
    assert found.verdict == "drifted"
    assert max(image.relative for image in found.images) > TOLERANCE


def test_weights_that_are_fetched_again_are_held_against_the_old_recording() -> None:
    with serving({f"/{seed}.pth": checkpoint("tiny", seed=seed) for seed in (1, 2)}) as server:
        for seed in (1, 2):
            write_card("served", f"{server.url}/{seed}.pth")
            encoder, preprocess = load("served")
    found = check(load_catalogue()["served"], encoder, preprocess)
    assert found is not None
    assert found.verdict == "drifted"


def damage_by_cutting(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def damage_a_number(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)


@for_each([damage_by_cutting, damage_a_number, lambda path: path.write_bytes(b"no")])
def test_a_damaged_recording_is_refused_until_it_is_replaced(damage: Callable[[Path], None], card: EncoderCard) -> None:
    check(card)
    damage(get_recording_path(card))
    with pytest.raises(StoreError, match="run 'zoo check tiny --record' to record its features again") as caught:
        check(card)
    assert "\n" not in str(caught.value)
    assert check(card, record=True) is None
    again = check(card)
    assert again is not None and again.verdict == "same"


def test_a_number_that_is_not_finite_is_drift_and_never_recorded(card: EncoderCard) -> None:
    broken = encoder_of(card)
    broken.backbone.norm.bias[3] = torch.nan
    check(card)
    found = check(card, broken)
    assert found is not None
    assert found.verdict == "drifted"
    assert {image.relative for image in found.images} == {float("inf")}
    with pytest.raises(DataError, match="not finite for the bundled image 'landscape'"):
        check(card, broken, record=True)
    assert check(card, broken) == found


def test_another_number_of_dimensions_is_drift(card: EncoderCard) -> None:
    check(card)
    wider = replace(card, representation=replace(card.representation, dim=64, layer="cls+avg", order="interleaved"))
    found = check(wider)
    assert found is not None
    assert (found.verdict, found.images) == ("drifted", ())
    assert [(change.what, change.then, change.now) for change in found.changes] == [("dimensions", "32", "64")]


def test_the_users_own_precision_plays_no_part_and_stays(card: EncoderCard) -> None:
    check(card)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = check(card)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert found is not None
    assert found.verdict in ("same", "within rounding")
