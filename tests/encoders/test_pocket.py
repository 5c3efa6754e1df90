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

import zoo
from tests.cli_runner import document, run
from tests.each import for_each
from tests.weights.test_maintenance import folders
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard, Missing
from zoo.datasets import open_images
from zoo.encoders import build_encoder
from zoo.errors import QueryError, WeightsRefused, WeightsUnavailable
from zoo.files import get_content_folder
from zoo.weights import lock
from zoo.weights.locations import is_shipped, resolve_source

__all__ = ["folders"]  # a fixture: a cache and a folder of the user's own, both empty

POCKET = [card for card in load_catalogue().values() if card.family == "pocket"]
TRAINED = [card for card in POCKET if not card.is_untrained]
FOLDER = get_content_folder("metadata") / "pocket"
ONE = "pocket_simclr_rn_shapes"
for_each_card = for_each(TRAINED, name=lambda card: card.id)


def facts_of(card: EncoderCard) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for part in fields(card):
        value = getattr(card, part.name)
        if is_dataclass(value):
            facts |= {f"{part.name}.{field.name}": getattr(value, field.name) for field in fields(value)}
    return facts


@for_each_card
def test_a_card_is_complete_and_describes_its_small_file(card: EncoderCard) -> None:
    twins = {(one.architecture.exact, one.pretraining.dataset) for one in TRAINED if one.objective.mode == "supervised"}
    assert (card.architecture.exact, card.pretraining.dataset) in twins
    assert [field for field, value in facts_of(card).items() if value is Missing.NOT_PUBLISHED] == []
    assert card.weights.url == f"shipped:pocket/{card.id}.safetensors"
    content = (FOLDER / f"{card.id}.safetensors").read_bytes()
    assert len(content) == card.weights.size_bytes and len(content) <= 200_000
    assert hashlib.sha256(content).hexdigest() == card.weights.sha256
    random, shipped = build_encoder(card, seed=0), load_file(FOLDER / f"{card.id}.safetensors")
    assert not [name for name, tensor in random.named_parameters() if torch.equal(tensor, shipped[name])]


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


def test_the_lock_file_of_an_experiment_has_the_place_and_that_of_the_user_has_not(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo.load(ONE)
    assert [path for path in lock.list_lock_files() if path.exists()] == []
    monkeypatch.setenv("ZOO_LOCK", str(tmp_path / "experiment.lock"))
    zoo.load(ONE)
    weights = load_catalogue()[ONE].weights
    line = (tmp_path / "experiment.lock").read_text().splitlines()[-1]
    assert line == f"sha256:{weights.sha256} {weights.size_bytes} {weights.url}"


def test_a_file_that_was_changed_is_refused(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "metadata" / "pocket" / f"{ONE}.safetensors"
    copy.parent.mkdir(parents=True)
    content = bytearray((FOLDER / copy.name).read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    monkeypatch.setattr("zoo.weights.locations.get_content_folder", lambda name: tmp_path / name)
    with pytest.raises(WeightsRefused, match=f"shipped:pocket/{ONE}.*has the sha256"):
        zoo.load(ONE)
    copy.unlink()
    with pytest.raises(WeightsUnavailable, match="is missing; reinstall ssl-zoo or clone"):
        zoo.load(ONE)


@for_each(["shipped:", "shipped:/etc/passwd", "shipped:../setup.cfg", "shipped:a\\..\\b"])
def test_a_place_that_leads_out_of_the_content_is_refused(place: str) -> None:
    assert is_shipped(place)
    with pytest.raises(QueryError, match="names no file that comes with the zoo"):
        resolve_source(place)


def test_the_verbs_of_the_command_know_them(folders: Path, tmp_path: Path) -> None:
    (had,) = document("get", ONE, "--dry-run")["encoders"]
    assert (had["state"], had["size_bytes"]) == ("to fetch", load_catalogue()[ONE].weights.size_bytes)
    states = [document("get", ONE)["encoders"][0]["state"] for _ in range(2)]
    assert states == ["fetched", "there"]
    assert document("verify", ONE)["sound"]
    assert document("check", ONE)["encoders"][0]["state"] == "same"
    assert document("list", "--where", 'pretraining_data == "digits" and ssl_mode == "contrastive"')["n_matching"] == 1
    assert "shapes" in run("show", ONE, "--all").stdout
    assert document("doctor", "--offline")["sound"]
    run("export", ONE, "--hub", str(tmp_path / "hub"))
    assert f"shipped:pocket/{ONE}.safetensors" in (tmp_path / "hub" / "README.md").read_text()


@for_each(["pocket_simclr_rn_digits", "pocket_mae_vit_digits"])
def test_its_features_serve_better_than_random_ones(name: str) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    card, digits = load_catalogue()[name], open_images("digits")
    assert card.pretraining.dataset == digits.name
    trained, preprocess = zoo.load(name)
    train, val = (torch.stack([preprocess(image) for image in part.images]) for part in (digits.train, digits.val))
    errors = []
    for encoder in (trained, build_encoder(card, seed=0)):
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        probe.fit(encoder(train).numpy(), digits.train.labels)
        errors.append(1 - probe.score(encoder(val).numpy(), digits.val.labels))
    assert errors[0] < errors[1] / 2
