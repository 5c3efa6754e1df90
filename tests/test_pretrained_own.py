"""A checkpoint of the user's own instead of the published one: ``zoo.load(name, weights=...)``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.servers import serving
from tests.tiny import checkpoint, state, write_card
from zoo.errors import QueryError, WeightsRefused, WeightsUnavailable
from zoo.weights.locations import get_weights_folder

IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def own_card(own_folders: Path) -> None:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")


@pytest.fixture
def server() -> Iterator[Any]:
    with serving({}) as running:
        yield running


def left() -> list[str]:
    """Files of weights, records and downloads."""
    folder = get_weights_folder()
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def test_a_checkpoint_of_ones_own_is_loaded_from_a_path() -> None:
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=7))
    expected = state("tiny", seed=7)
    for place in ("mine.pth", Path("mine.pth").absolute()):
        encoder, _ = zoo.load("tiny", weights=place)
        assert torch.equal(encoder.state_dict()["backbone.cls_token"], expected["cls_token"])
    assert Path("mine.pth").is_file()
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=8))  # another file under the same name is another file
    encoder, _ = zoo.load("tiny", weights="mine.pth")
    assert torch.equal(encoder.state_dict()["backbone.cls_token"], state("tiny", seed=8)["cls_token"])


def test_a_checkpoint_of_ones_own_is_loaded_from_an_address(server: Any) -> None:
    server.files["/mine.pth"] = checkpoint("tiny", seed=7)
    encoder, _ = zoo.load("tiny", weights=f"{server.url}/mine.pth")
    assert torch.equal(encoder.state_dict()["backbone.cls_token"], state("tiny", seed=7)["cls_token"])


def test_the_state_dict_of_an_encoder_can_be_loaded_again() -> None:
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=7))
    encoder, _ = zoo.load("tiny", weights="mine.pth")
    torch.save(encoder.state_dict(), "saved.pth")
    again, _ = zoo.load("tiny", weights="saved.pth")
    assert torch.equal(encoder(IMAGE), again(IMAGE))


def test_a_file_of_another_encoder_is_refused_and_leaves_nothing() -> None:
    torch.save({"conv1.weight": torch.ones(64, 3, 7, 7)}, "other.pth")
    with pytest.raises(WeightsRefused, match="do not fit the encoder"):
        zoo.load("tiny", weights="other.pth")
    assert left() == []


def test_a_network_that_was_never_trained_is_refused() -> None:
    encoder, _ = zoo.load("tiny", pretrained=False, seed=3)
    torch.save(encoder.state_dict(), "saved.pth")
    with pytest.raises(WeightsRefused, match="as it was before training"):
        zoo.load("tiny", weights="saved.pth")


def test_weights_that_are_not_there_are_one_sentence() -> None:
    with pytest.raises(WeightsUnavailable, match=r"absent\.pth"):
        zoo.load("tiny", weights="absent.pth")


def test_weights_and_no_weights_contradict_each_other() -> None:
    with pytest.raises(QueryError, match="one of the two"):
        zoo.load("tiny", weights="x.pth", pretrained=False)
