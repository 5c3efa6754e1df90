"""Loading other features of an encoder: by name, by arguments, through torch.hub; the weights are had once for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.encoder_checks import random_images
from tests.servers import serving
from tests.tiny import checkpoint, write_card
from zoo import hub
from zoo.cards.catalogue import load_catalogue
from zoo.regression_check import compare_features, get_recording_path
from zoo.weights.locations import get_weights_folder

SMALL_BEIT = """
[encoders.small_beit]
like = "beit_vitB16_pt22k"
architecture = { options = { depth = 12, embed_dim = 48, num_heads = 4 }, n_parameters = 1 }
representation.dim = 48
weights.same_file_as = "beit_vitB16_pt22k"
"""


@pytest.mark.parametrize("name", ["init_vitS16", "small_beit"])
def test_name_arguments_and_torch_hub_load_the_same_encoder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "small.toml").write_text(SMALL_BEIT)
    images = random_images(1, 224)
    encoder, _ = zoo.load(f"{name}@cls+avg:2+11", pretrained=False, seed=4)
    own, _ = zoo.load(name, pretrained=False, seed=4)
    by_arguments, _ = zoo.load(name, pretrained=False, seed=4, features="avg+cls", layers=[-1, 2])
    by_hub, _ = hub.entry_points()[name](pretrained=False, seed=4, features="cls+avg", layers=(2, 11))
    features = encoder(images)
    assert features.shape == (1, encoder.dim) == (1, load_catalogue()[f"{name}@cls+avg:2+11"].representation.dim)
    assert torch.equal(by_arguments(images), features)
    assert torch.equal(by_hub(images), features)
    width = encoder.backbone.num_features
    assert torch.equal(own(images), features[:, 2 * width : 3 * width])
    assert not any(parameter.requires_grad for parameter in encoder.parameters()) and not encoder.training


@pytest.fixture
def server(own_folders: Path) -> Iterator[Any]:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    with serving({"/tiny.pth": checkpoint("tiny")}) as running:
        write_card("tiny", f"{running.url}/tiny.pth")
        yield running


def kept() -> list[str]:
    folder = get_weights_folder()
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_weights_are_fetched_and_kept_once_whichever_features_come_first(server: Any) -> None:
    zoo.load("tiny@avg:0")
    n_requests, files = len(server.log), kept()
    assert get_recording_path(load_catalogue()["tiny"]).is_file()
    assert not any("@" in file for file in files)
    images = random_images(1, 224)
    loaded = {name: zoo.load(name)[0](images) for name in ("tiny", "tiny@cls+avg", "tiny@avg:0", "tiny@2xcls")}
    assert (len(server.log), kept()) == (n_requests, files)
    assert torch.equal(loaded["tiny"], loaded["tiny@cls+avg"][:, :32])
    assert torch.equal(loaded["tiny"], loaded["tiny@2xcls"][:, 32:])
    assert not torch.equal(loaded["tiny@avg:0"], loaded["tiny@cls+avg"][:, 32:])


def test_what_the_first_load_records_are_the_features_of_the_card(server: Any) -> None:
    zoo.load("tiny@cls+avg")
    encoder, preprocess = zoo.load("tiny")
    found = compare_features(load_catalogue()["tiny"], None, encoder, preprocess)
    assert found is not None
    assert {image.relative for image in found.images} == {0.0}


def test_a_checkpoint_of_ones_own_gives_other_features_too(server: Any, tmp_path: Path) -> None:
    path = tmp_path / "own.pth"
    path.write_bytes(checkpoint("tiny", seed=2))
    images = random_images(1, 224)
    both, _ = zoo.load("tiny", weights=path, features="cls+avg")
    own, _ = zoo.load("tiny", weights=path)
    assert torch.equal(both(images)[:, :32], own(images))
    assert not torch.equal(own(images), zoo.load("tiny")[0](images))
