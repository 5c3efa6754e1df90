"""The pocket: encoders that we trained ourselves, whose weights come with the zoo and are had without a network."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zoo
from tests.cli_runner import document, run
from tests.each import for_each
from tests.weights.test_care import folders
from zoo.cards.catalogue import catalogue
from zoo.cards.schema import EncoderCard, Missing
from zoo.datasets import open_images
from zoo.encoders import build_encoder
from zoo.errors import QueryError, WeightsRefused, WeightsUnavailable
from zoo.files import content_folder
from zoo.weights import lock
from zoo.weights.places import is_shipped, source

__all__ = ["folders"]  # a fixture: a cache and a folder of the user's own, both empty

POCKET = [card for card in catalogue().values() if card.family == "pocket"]
TRAINED = [card for card in POCKET if not card.is_untrained]
FOLDER = content_folder("metadata") / "pocket"
ONE = "pocket_simclr_rn_shapes"
ONE_CHOICE_APART = {  # encoder -> facts in which it differs from ONE
    "pocket_simclr_rn_shapes_t1": {"objective.variant"},
    "pocket_simclr_rn_shapes_lin": {
        "projector.first_arch",
        "projector.second_arch",
        "projector.hidden_width",
        "projector.hidden_depth",
        "projector.n_parameters",
    },
    "pocket_simclr_rn_shapes_ep2": {"pretraining.epochs"},
    "pocket_simclr_rn_shapes_d24": {
        "architecture.exact",
        "architecture.options",
        "architecture.n_parameters",
        "representation.dim",
        "projector.n_parameters",
    },
    "pocket_simclr_rn_shapes_flip": {"pretraining.augmentations"},
}
OF_THE_RUN = {"pretraining.duration_hours", "weights.url", "weights.sha256", "weights.size_bytes"}


for_each_card = for_each(TRAINED, name=lambda card: card.id)


def facts_of(card: EncoderCard) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for part in fields(card):
        value = getattr(card, part.name)
        if is_dataclass(value):
            facts |= {f"{part.name}.{field.name}": getattr(value, field.name) for field in fields(value)}
    return facts


def test_every_kind_of_objective_is_there_on_both_data_sets_and_both_architectures() -> None:
    assert len(TRAINED) >= 12
    assert {card.objective.mode for card in POCKET} == {
        "contrastive",
        "siamese",
        "clustering",
        "generative",
        "transform",
        "supervised",
        "initialized",
    }
    assert {card.pretraining.dataset for card in TRAINED} == {"shapes", "digits"}
    assert {card.architecture.family for card in TRAINED} == {"resnet", "vit"}
    assert {card.architecture.family for card in POCKET if card.is_untrained} == {"resnet", "vit"}


@for_each_card
def test_an_encoder_has_a_supervised_twin_of_its_architecture_and_its_data(card: EncoderCard) -> None:
    twins = {
        (twin.architecture.exact, twin.pretraining.dataset) for twin in TRAINED if twin.objective.mode == "supervised"
    }
    assert (card.architecture.exact, card.pretraining.dataset) in twins


@pytest.mark.parametrize("name", ONE_CHOICE_APART)
def test_a_variant_differs_from_its_neighbour_in_one_choice_alone(name: str) -> None:
    one, other = facts_of(catalogue()[ONE]), facts_of(catalogue()[name])
    differing = {field for field, value in one.items() if other[field] != value}
    assert differing - OF_THE_RUN == ONE_CHOICE_APART[name]


@for_each_card
def test_the_file_is_small_and_the_one_that_the_card_describes(card: EncoderCard) -> None:
    assert card.weights.url == f"shipped:pocket/{card.id}.safetensors"
    content = (FOLDER / f"{card.id}.safetensors").read_bytes()
    assert len(content) == card.weights.size_bytes
    assert len(content) <= 200_000
    assert hashlib.sha256(content).hexdigest() == card.weights.sha256


@for_each_card
def test_the_cards_leave_nothing_of_our_own_training_open(card: EncoderCard) -> None:
    facts = facts_of(card)
    assert [field for field, value in facts.items() if value is Missing.NOT_PUBLISHED] == []
    duration: Any = card.pretraining.duration_hours
    assert 0 < duration < 0.1
    assert (card.licence.code, card.licence.weights) == ("MIT", "MIT")


@for_each_card
def test_it_loads_without_a_network_and_holds_what_the_file_holds(
    card: EncoderCard, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    encoder, preprocess = zoo.load(card.id)
    state, shipped = encoder.state_dict(), load_file(FOLDER / f"{card.id}.safetensors")
    assert state.keys() == shipped.keys()
    assert all(torch.equal(tensor, shipped[name]) for name, tensor in state.items())
    assert {tensor.dtype for tensor in state.values()} <= {torch.float32, torch.int64}
    features = encoder(preprocess(Image.new("RGB", (50, 40), "teal")).unsqueeze(0))
    assert features.shape == (1, card.representation.dim)
    assert features.isfinite().all()
    again, _ = zoo.load(card.id.upper())
    assert all(torch.equal(tensor, state[name]) for name, tensor in again.state_dict().items())


@for_each_card
def test_training_has_moved_every_weight(card: EncoderCard) -> None:
    shipped = load_file(FOLDER / f"{card.id}.safetensors")
    random = build_encoder(card, seed=0)
    assert not [name for name, tensor in random.named_parameters() if torch.equal(tensor, shipped[name])]


def test_a_mirror_is_not_asked_for_what_comes_with_the_zoo(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mirror").mkdir()
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    first, _ = zoo.load(ONE)
    again, _ = zoo.load(ONE)
    assert all(torch.equal(*pair) for pair in zip(first.parameters(), again.parameters(), strict=True))
    assert not list((tmp_path / "mirror").iterdir())


def test_the_lock_file_of_an_experiment_has_the_place_and_that_of_the_user_has_not(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo.load(ONE)
    assert [path for path in lock.lock_files() if path.exists()] == []
    monkeypatch.setenv("ZOO_LOCK", str(tmp_path / "experiment.lock"))
    zoo.load(ONE)
    weights = catalogue()[ONE].weights
    line = (tmp_path / "experiment.lock").read_text().splitlines()[-1]
    assert line == f"sha256:{weights.sha256} {weights.size_bytes} {weights.url}"


def test_a_file_that_was_changed_is_refused(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "metadata" / "pocket" / f"{ONE}.safetensors"
    copy.parent.mkdir(parents=True)
    content = bytearray((FOLDER / copy.name).read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    monkeypatch.setattr("zoo.weights.places.content_folder", lambda name: tmp_path / name)
    with pytest.raises(WeightsRefused, match=f"shipped:pocket/{ONE}.*has the sha256"):
        zoo.load(ONE)
    copy.unlink()
    with pytest.raises(WeightsUnavailable, match="is missing; reinstall ssl-zoo or clone"):
        zoo.load(ONE)


@pytest.mark.parametrize("place", ["shipped:", "shipped:/etc/passwd", "shipped:../setup.cfg", "shipped:a\\..\\b"])
def test_a_place_that_leads_out_of_the_content_is_refused(place: str) -> None:
    assert is_shipped(place)
    with pytest.raises(QueryError, match="names no file that comes with the zoo"):
        source(place)


def test_the_verbs_of_the_command_know_them(folders: Path, tmp_path: Path) -> None:
    (had,) = document("get", ONE, "--dry-run")["encoders"]
    assert (had["state"], had["size_bytes"]) == ("to fetch", catalogue()[ONE].weights.size_bytes)
    states = [document("get", ONE)["encoders"][0]["state"] for _ in range(2)]
    assert states == ["fetched", "there"]
    assert document("verify", ONE)["sound"]
    assert document("check", ONE)["encoders"][0]["state"] == "same"
    assert document("list", "--where", 'pretraining_data == "digits" and ssl_mode == "contrastive"')["n_matching"] == 1
    assert "shapes" in run("show", ONE).stdout
    assert document("doctor", "--offline")["sound"]
    run("export", ONE, "--hub", str(tmp_path / "hub"))
    assert f"shipped:pocket/{ONE}.safetensors" in (tmp_path / "hub" / "README.md").read_text()


def test_a_mirror_of_them_names_no_path_of_this_machine(folders: Path, tmp_path: Path) -> None:
    run("mirror", str(tmp_path / "mirror"), ONE)
    (record,) = (tmp_path / "mirror" / "records").iterdir()
    assert str(content_folder("metadata").parent) not in record.read_text()
    assert (tmp_path / "mirror" / "metadata" / "shipped" / "pocket.toml").is_file()


@pytest.mark.parametrize("name", ["pocket_simclr_rn_digits", "pocket_mae_vit_digits"])
def test_its_features_serve_better_than_random_ones(name: str) -> None:
    card, digits = catalogue()[name], open_images("digits")
    assert card.pretraining.dataset == digits.name
    trained, preprocess = zoo.load(name)
    train, val = (torch.stack([preprocess(image) for image in part.images]) for part in (digits.train, digits.val))
    errors = []
    for encoder in (trained, build_encoder(card, seed=0)):
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        probe.fit(encoder(train).numpy(), digits.train.labels)
        errors.append(1 - probe.score(encoder(val).numpy(), digits.val.labels))
    assert errors[0] < errors[1] / 2


@pytest.mark.parametrize(("dim", "n_parameters"), [(48, 43_740), (24, 22_284)])
def test_the_small_resnet_halves_the_image_three_times(dim: int, n_parameters: int) -> None:
    name = ONE if dim == 48 else f"{ONE}_d24"
    network = build_encoder(catalogue()[name]).backbone
    assert sum(parameter.numel() for parameter in network.parameters()) == n_parameters
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    stem = network.relu(network.bn1(network.conv1(x)))  # type: ignore[operator]
    maps = network.layer3(network.layer2(network.layer1(stem)))  # type: ignore[operator]
    assert (stem.shape, maps.shape) == ((2, 12, 16, 16), (2, dim, 4, 4))
    torch.testing.assert_close(network(x), maps.mean(dim=(2, 3)))
