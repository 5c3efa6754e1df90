"""Folders for the Hugging Face Hub: complete, true, the same every time, and never at the cost of anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

import zoo
from tests.tiny import checkpoint, write_card
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import build_encoder
from zoo.encoders.preprocess import build_preprocess
from zoo.errors import QueryError, StoreError, WeightsRefused
from zoo.hub.export import export_to_hub_folder
from zoo.loading import StoredWeights, load, obtain, store_weights
from zoo.results.derived import summaries
from zoo.results.values import SETTINGS
from zoo.weights.store import FileOrigin

FILES = ("model.safetensors", "config.json", "README.md")
SMALL: dict[str, Any] = {"depth": 4, "embed_dim": 32, "num_heads": 2}


def small(name: str) -> EncoderCard:
    """The card of a published vision transformer, which keeps its results, with a network that is soon built."""
    card = load_catalogue()[name]
    architecture = replace(card.architecture, options={**card.architecture.options, **SMALL})
    return replace(card, architecture=architecture, representation=replace(card.representation, dim=128))


def kept(card: EncoderCard, folder: Path, *, place: str | None = None) -> StoredWeights:
    """Random weights, as if they had been fetched from the place of the card."""
    encoder = build_encoder(card)
    source = torch.Generator().manual_seed(1)
    tensors = {name: torch.randn(tensor.shape, generator=source) * 0.1 for name, tensor in encoder.state_dict().items()}
    where = str(card.weights.url) if place is None else place
    origin = FileOrigin(place=where, address=where, sha256="1" * 64, size_bytes=12_345, format="torch pickle")
    return store_weights(folder, card.id, tensors, encoder=encoder, origins=(origin,), layout="dino")


@pytest.fixture(scope="module")
def card() -> EncoderCard:
    return small("dino_vitS16")


@pytest.fixture(scope="module")
def found(card: EncoderCard, tmp_path_factory: pytest.TempPathFactory) -> StoredWeights:
    return kept(card, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def exported(card: EncoderCard, found: StoredWeights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "below" / "dino"
    assert export_to_hub_folder(card, found, folder) == [folder / name for name in FILES]
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_has_the_weights_byte_for_byte_and_nothing_but_three_files(
    exported: Path, found: StoredWeights
) -> None:
    files = content(exported)
    assert sorted(files) == sorted(FILES)
    assert files["model.safetensors"] == found.path.read_bytes()
    assert hashlib.sha256(files["model.safetensors"]).hexdigest() == found.record.sha256
    assert [path.name for path in exported.parent.iterdir()] == ["dino"]


def test_the_facts_rebuild_the_encoder_and_say_where_it_comes_from(
    exported: Path, card: EncoderCard, found: StoredWeights
) -> None:
    config = json.loads((exported / "config.json").read_bytes())
    assert config["encoder"] == "dino_vitS16"
    assert config["architecture"]["backbone"] == card.architecture.backbone
    assert config["architecture"]["options"] == card.architecture.options
    assert config["representation"] == {"dim": 128, "layer": "4xcls", "order": None}
    assert config["missing"]["representation.order"] == "not applicable"
    assert config["preprocess"]["interpolation"] == "bicubic"
    assert config["preprocess"]["mean"] == list(card.preprocess.mean)
    assert config["zoo_version"] == zoo.__version__
    assert config["weights"]["sha256"] == found.record.sha256
    (source,) = config["provenance"]["sources"]
    assert source == {
        "place": card.weights.url,
        "sha256": "1" * 64,
        "size_bytes": 12_345,
        "format": "torch pickle",
    }


def test_the_model_card_is_read_by_the_hubs_own_classes_with_every_result(exported: Path) -> None:
    read = ModelCard.load(exported / "README.md")
    assert str(read) == (exported / "README.md").read_text()
    errors = summaries()["dino_vitS16"].errors
    assert len(read.data.eval_results) == len(SETTINGS)
    for result, setting in zip(read.data.eval_results, SETTINGS, strict=True):
        assert result.metric_type == "accuracy"
        assert result.metric_value == pytest.approx(100 - errors[setting.name], abs=5e-4)
        assert result.metric_args == {"n_train": setting.n_labels}
        assert (result.dataset_type, result.dataset_split) == ("imagenet-1k", "validation")
        assert (result.source_name, result.source_url) == ("arXiv:2302.03068", "https://arxiv.org/abs/2302.03068")


def test_front_matter_and_text_say_what_the_hub_and_a_user_look_for(exported: Path) -> None:
    read = ModelCard.load(exported / "README.md")
    data, text = read.data.to_dict(), read.text
    assert (data["license"], data["library_name"]) == ("apache-2.0", "ssl-zoo")
    assert (data["pipeline_tag"], data["datasets"]) == ("image-feature-extraction", ["imagenet-1k"])
    assert {"self-supervised-learning", "dino", "vit"} < {*data["tags"]}
    assert data["model-index"][0]["name"] == "dino_vitS16"
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert " ".join(headings) == "Use Preprocessing Results Training Corrections Licence Citation Provenance"
    for part in (
        'zoo.load("dino_vitS16", weights=repository)',
        "| resize | shorter side to 256 px, bicubic, antialiased |",
        "| 100% of the labels | 1,281,167 | 75.4 |",
        "state a top-1 accuracy of 77 %",
        "| epochs of pretraining | 800 |",
        "Weights: Apache-2.0.",
        "eprint = {2104.14294}",
        "| torch pickle | 12,345 |",
    ):
        assert part in text


def test_exporting_again_gives_the_same_bytes_also_behind_a_link(
    exported: Path, card: EncoderCard, found: StoredWeights, tmp_path: Path
) -> None:
    first = content(exported)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for folder in (tmp_path / "new", tmp_path / "link", tmp_path / "link"):
        export_to_hub_folder(card, found, folder)
        assert content(folder) == first
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "new", "real"]


def edited(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


CHANGES: dict[str, Callable[[Path], object]] = {
    "it holds 'notes.txt'": lambda folder: (folder / "notes.txt").write_text("mine"),
    "it lacks 'model.safetensors'": lambda folder: (folder / "model.safetensors").unlink(),
    "README.md was changed since": edited("README.md", lambda text: text + b"My own words."),
    "or is of another kind": edited("config.json", lambda text: b'{"model_type": "vit"}'),
    "config.json cannot be read": edited("config.json", lambda text: b"{"),
    "config.json was changed since": edited("config.json", lambda text: text.replace(b": 224", b": 196")),
    "config.json was changed": edited("config.json", lambda text: text + b" "),
    "model.safetensors was changed since": edited("model.safetensors", lambda weights: weights[:-5] + b"12345"),
    "it is one of 'mae_vitB16'": edited("config.json", lambda text: text.replace(b"dino_vitS16", b"mae_vitB16")),
}


def test_nothing_of_anybodys_is_overwritten(card: EncoderCard, found: StoredWeights, tmp_path: Path) -> None:
    for number, (reason, change) in enumerate(CHANGES.items()):
        folder = tmp_path / str(number)
        export_to_hub_folder(card, found, folder)
        change(folder)
        before = content(folder)
        with pytest.raises(QueryError, match=r"nothing is overwritten; choose another folder\.$") as caught:
            export_to_hub_folder(card, found, folder)
        assert reason in str(caught.value)
        assert content(folder) == before


def test_damaged_weights_are_not_exported_and_the_earlier_export_stays(card: EncoderCard, tmp_path: Path) -> None:
    found = kept(card, tmp_path / "store")
    export_to_hub_folder(card, found, tmp_path / "out")
    before = content(tmp_path / "out")
    damaged = bytearray(found.path.read_bytes())
    damaged[-5] ^= 4
    found.path.write_bytes(damaged)
    for target in ("out", "new"):
        with pytest.raises(WeightsRefused, match="nothing was exported"):
            export_to_hub_folder(card, found, tmp_path / target)
    assert content(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


def test_what_cannot_be_exported_is_one_sentence(card: EncoderCard, found: StoredWeights, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="nothing was changed there") as caught:
        export_to_hub_folder(card, found, tmp_path / "file" / "out")
    assert "\n" not in str(caught.value)
    with pytest.raises(QueryError, match="is no folder"):
        export_to_hub_folder(card, found, tmp_path / "file")
    with pytest.raises(QueryError, match="random by definition"):
        export_to_hub_folder(load_catalogue()["init_rn50"], found, tmp_path / "out")
    other = kept(card, tmp_path / "store", place="sha256:" + "2" * 64)
    with pytest.raises(QueryError, match="register other weights with 'zoo register'"):
        export_to_hub_folder(card, other, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def home(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    return own_folders


def test_what_was_exported_is_loaded_with_the_same_features(home: Path) -> None:
    card = load_catalogue()["tiny"]
    found = kept(card, home / "store")
    export_to_hub_folder(card, found, home / "out")
    encoder, preprocess = load("tiny", weights=home / "out" / "model.safetensors")
    original = build_encoder(card)
    original.load_state_dict(found.tensors(remedy=""))
    image = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoder(image), original(image))
    assert repr(preprocess) == repr(build_preprocess(card.preprocess))


def test_a_registered_encoder_names_no_path_of_this_machine(home: Path) -> None:
    (home / "mine.pth").write_bytes(checkpoint("tiny", seed=7))
    card = zoo.register(str(home / "mine.pth"), like="tiny", name="my_dino")
    found = obtain(card, build_encoder(card, device="meta"))
    export_to_hub_folder(card, found, home / "out")
    readme = (home / "out" / "README.md").read_text()
    assert str(home) not in readme + (home / "out" / "config.json").read_text()
    assert "zoo register hf:OWNER/REPO --like ID --id my_dino --layout zoo" in readme
    assert "a file of the publisher" in readme
    assert ModelCard.load(home / "out" / "README.md").data.license == "other"
