"""Names without a card: weights of timm and of the Hub, from the name to recorded rows, against a Hub on loopback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save
from torch import Tensor, nn

import zoo
from tests.cli_runner import document, run
from tests.encoder_checks import exact_images
from tests.hub_here import use_hub
from tests.servers import COMMIT, Server, put_into_hub, serving_hub
from zoo.cards import catalogue as cards
from zoo.encoders import unlisted
from zoo.errors import MissingExtra, NameNote, QueryError, WeightsRefused, WeightsUnavailable, ZooError
from zoo.files import get_user_folder
from zoo.weights.download import fetch

TIMM = "test_vit.r160_in1k"
SMALL: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 32,
    "patch_size": 8,
}
PREPROCESSOR = {
    "size": {"height": 32, "width": 32},
    "resample": 3,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.25, 0.25],
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr(unlisted, "_BY_PLACE", {})
    monkeypatch.setattr(cards, "_UNLISTED", {})
    with serving_hub({"own/empty": {}, "own/pickle": {}, "own/vit": {}}, gated=("own/gated",)) as server:
        use_hub(server, monkeypatch)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        yield server


@cache
def timm_network() -> nn.Module:
    """timm's smallest transformer, with its classifier, trained by nobody."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        network = timm.create_model("test_vit")
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.1)
    return network.eval()


@cache
def vit() -> nn.Module:
    """A classifier of transformers, trained by nobody."""
    from transformers import ViTConfig, ViTForImageClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12)
        network = ViTForImageClassification(ViTConfig(**SMALL))
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.1)
    return network.eval()


def as_published(network: nn.Module) -> dict[str, Tensor]:
    """The tensors of :func:`vit` by the names that files of such networks have on the Hub."""
    names = {
        "layers.": "encoder.layer.",
        "q_proj": "attention.query",
        "k_proj": "attention.key",
        "v_proj": "attention.value",
        "attention.o_proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense",
        "mlp.fc2": "output.dense",
    }
    published = {}
    for name, tensor in network.state_dict().items():
        for new, old in names.items():
            name = name.replace(new, old)
        published[name] = tensor.clone()
    return published


def publish(hub: Server, repository: str, files: Mapping[str, object]) -> None:
    """Puts files into a repository, at its newest commit."""
    for name, content in files.items():
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        for revision in ("main", COMMIT):
            put_into_hub(hub, repository, name, body, revision=revision)


def publish_vit(hub: Server, repository: str = "own/vit", **files: object) -> None:
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"], **SMALL}
    file = {"model.safetensors": save(as_published(vit()))}
    publish(hub, repository, {"config.json": config, "preprocessor_config.json": PREPROCESSOR} | file | files)


def refusal(name: str, kind: type[ZooError]) -> str:
    with pytest.raises(kind) as caught:
        zoo.load(name)
    message = str(caught.value)
    assert message.endswith((".", ".)"))
    assert "\n" not in message
    return message


@torch.no_grad()
def test_weights_of_timm_load_with_a_card_made_of_what_timm_says(hub: Server) -> None:
    publish(hub, f"timm/{TIMM}", {"model.safetensors": save(timm_network().state_dict())})
    encoder, _ = zoo.load(f"timm:{TIMM}")
    images = exact_images(2, 160).float()
    own = timm_network().forward_head(timm_network().forward_features(images), pre_logits=True)
    torch.testing.assert_close(encoder(images), own, rtol=0, atol=1e-5)
    card = zoo.card(f"TIMM:{TIMM.upper()}")
    assert card.id == "timm_test_vit_r160_in1k"
    assert card.objective.mode is card.paper.title is card.licence.weights is zoo.NOT_RECORDED
    assert card.licence.timm == "Apache-2.0"
    assert card.id not in list(zoo.list_encoders())
    assert zoo.load(f"timm:{TIMM}@cls+avg", pretrained=False)[0].dim == 128


@torch.no_grad()
def test_a_repository_of_transformers_loads_by_its_configuration_at_one_commit(hub: Server) -> None:
    publish_vit(hub)
    encoder, _ = zoo.load("hf:own/vit")
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    own = vit().vit(pixel_values=images).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder(images), own, rtol=0, atol=1e-5)
    card = zoo.card("hf:own/vit")
    assert (card.id, card.weights.url, card.weights.revision) == ("hf_own_vit", f"hf:own/vit@{COMMIT}", COMMIT)
    assert (card.preprocess.crop_px, card.preprocess.interpolation, card.preprocess.std[0]) == (32, "bicubic", 0.25)
    assert card.preprocess.fit == "squash"
    assert card.architecture.n_parameters == sum(p.numel() for p in encoder.parameters())
    averaged, _ = zoo.load("hf:own/vit@avg")
    own = vit().vit(pixel_values=images).last_hidden_state[:, 1:].mean(dim=1)
    torch.testing.assert_close(averaged(images), own, rtol=0, atol=1e-5)
    assert zoo.card(f"hf:own/vit@{COMMIT}@avg").id == f"hf_own_vit_{COMMIT[:12]}@avg"


@torch.no_grad()
def test_a_repository_that_was_fetched_loads_without_a_network(
    hub: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_vit(hub)
    images = exact_images(1, 32).float()
    features = zoo.load("hf:own/vit")[0](images)

    def loaded() -> Tensor:
        unlisted._BY_PLACE.clear()
        cards._UNLISTED.clear()
        found: Tensor = zoo.load("hf:own/vit")[0](images)
        return found

    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert torch.equal(loaded(), features)
    (repository,) = (tmp_path / "hub").glob("models--*")
    shutil.rmtree(repository / ".no_exist")  # as a copy is that another library has fetched
    with pytest.raises(WeightsUnavailable, match=r"processor_config\.json.* ZOO_OFFLINE forbids to fetch it"):
        loaded()
    (repository / "snapshots" / COMMIT / ".gitattributes").touch()  # and one of all files of the repository
    assert torch.equal(loaded(), features)
    with pytest.raises(WeightsUnavailable, match=r"other\.bin.* is not in huggingface_hub's cache"):
        fetch(f"hf:own/vit@{COMMIT}/other.bin", folder=tmp_path)


@torch.no_grad()
def test_somebody_elses_network_of_timm_loads_by_its_configuration(hub: Server) -> None:
    network = timm.create_model("test_vit", num_classes=0, embed_dim=32, num_heads=2).eval()
    config = {
        "architecture": "test_vit",
        "model_args": {"embed_dim": 32, "num_heads": 2, "num_classes": 0},
        "pretrained_cfg": {"input_size": [3, 160, 160], "mean": [0.1, 0.2, 0.3], "std": [1, 1, 1], "crop_pct": 1.0},
    }
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.1)
    publish(hub, "own/timm", {"config.json": config, "model.safetensors": save(network.state_dict())})
    encoder, _ = zoo.load("hf:own/timm")
    images = exact_images(2, 160).float()
    torch.testing.assert_close(encoder(images), network(images), rtol=0, atol=1e-5)
    assert zoo.card("hf:own/timm").preprocess.mean == (0.1, 0.2, 0.3)


def test_rows_of_a_name_without_a_card_bring_its_card_into_the_users_folder(hub: Server) -> None:
    publish_vit(hub)
    run("evaluate", "hf:own/vit", "digits", "--settings", "5-shot", "--seeds", "1", "--device", "cpu")
    kept = get_user_folder() / "metadata" / "unlisted" / "hf_own_vit.toml"
    assert 'family = "hf"' in kept.read_text()
    hub.missing = lambda path: pytest.fail("the Hub is asked for what is known")
    cards._UNLISTED.clear()
    unlisted._BY_PLACE.clear()
    with pytest.warns(NameNote, match="hf:own/vit is 'hf_own_vit', which has a card"):
        assert zoo.card("hf:own/vit").id == "hf_own_vit"
    assert "hf_own_vit" in zoo.list_encoders()
    assert document("results", "hf_own_vit", "--dataset", "digits")


def test_a_name_without_a_card_is_shown_checked_and_registered_like(hub: Server, tmp_path: Path) -> None:
    publish_vit(hub)
    assert "transformers:vit" in run("show", "hf:own/vit", "--all").stdout
    zoo.load("hf:own/vit")
    run("check", "hf:own/vit")
    other = {name: tensor + 0.01 for name, tensor in as_published(vit()).items()}
    (tmp_path / "mine.safetensors").write_bytes(save(other))
    run("register", str(tmp_path / "mine.safetensors"), "--like", "hf:own/vit", "--id", "mine_vit")
    encoder, _ = zoo.load("mine_vit")
    weight = encoder.state_dict()["backbone.network.layernorm.weight"]
    assert torch.equal(weight, vit().state_dict()["vit.layernorm.weight"] + 0.01)


def test_a_name_that_has_a_card_is_the_encoder_of_that_card() -> None:
    with pytest.warns(NameNote, match=r"timm:vit_base_patch14_dinov2.lvd142m is 'dinov2_vitB14', which has a card"):
        assert zoo.card("timm:vit_base_patch14_dinov2.lvd142m").id == "dinov2_vitB14"
    with pytest.warns(NameNote):
        assert zoo.card("hf:timm/vit_base_patch14_dinov2.lvd142m@cls+avg").id == "dinov2_vitB14@cls+avg"


def test_what_cannot_be_an_encoder_is_refused_in_one_sentence(hub: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has no weights 'test_vitt', expected ARCH.TAG, such as test_vit" in refusal("timm:test_vitt", QueryError)
    publish(hub, "own/text", {"config.json": {"model_type": "bert"}, "preprocessor_config.json": PREPROCESSOR})
    assert "transformers' bert is no vision backbone" in refusal("hf:own/text", QueryError)
    publish(hub, "own/new", {"config.json": {"model_type": "of_tomorrow"}})
    assert "transformers has no type 'of_tomorrow'" in refusal("hf:own/new", QueryError)
    publish(hub, "own/damaged", {"config.json": b'{"model_type": "vi'})
    assert "config.json of 'hf:own/damaged'" in refusal("hf:own/damaged", WeightsRefused)
    publish_vit(hub, "own/raw", **{"preprocessor_config.json": {"size": "large"}})
    assert "does not say how images are made ready" in refusal("hf:own/raw", WeightsRefused)
    assert "has no file config.json" in refusal("hf:own/empty", WeightsUnavailable)
    assert "There is no Hugging Face repository own/nowhere" in refusal("hf:own/nowhere", WeightsUnavailable)
    assert f"{hub.url}/own/gated" in refusal("hf:own/gated", WeightsUnavailable)
    assert "expected hf:ORG/NAME" in refusal("hf:nonsense", QueryError)
    publish_vit(hub, "own/deeper", **{"config.json": {"model_type": "vit", **SMALL, "num_hidden_layers": 1}})
    assert "is left over" in refusal("hf:own/deeper", WeightsRefused)
    publish_vit(hub, "own/wider", **{"config.json": {"model_type": "vit", **SMALL, "num_hidden_layers": 3}})
    assert "is missing" in refusal("hf:own/wider", WeightsRefused)
    assert not list(get_user_folder().glob("**/*.toml"))


def test_without_transformers_one_sentence_says_what_to_install(hub: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    publish_vit(hub)
    monkeypatch.delitem(sys.modules, "zoo.encoders.transformers_models", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra) as caught:
        zoo.load("hf:own/vit")
    message = str(caught.value)
    assert message.startswith("Building an encoder of transformers needs the library 'transformers'")
    assert message.endswith("install ssl-zoo with its extra [transformers]")


def test_a_repository_of_the_network_of_a_card_says_so_where_features_may_differ(hub: Server) -> None:
    config = {"model_type": "dinov2", "patch_size": 14, "image_size": 518, "hidden_size": 384, "num_attention_heads": 6}
    settings = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}, "crop_size": 224}
    publish(hub, "own/dinov2-small", {"config.json": config, "preprocessor_config.json": settings})
    with pytest.warns(NameNote, match=r"of the same weights may be 'dinov2_vitS14' .*position embeddings"):
        card = zoo.card("hf:own/dinov2-small")
    assert (card.preprocess.crop_px, card.preprocess.crop_rounding) == (224, "down")


def test_a_repository_of_the_weights_of_a_card_says_what_is_different(hub: Server) -> None:
    config = {"model_type": "dinov2", "patch_size": 14, "image_size": 518, "hidden_size": 384, "num_attention_heads": 6}
    settings = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}, "crop_size": 224}
    publish(hub, "facebook/dinov2-small", {"config.json": config, "preprocessor_config.json": settings})
    with pytest.warns(NameNote, match=r"of the same weights is 'dinov2_vitS14', whose features are others: positions "):
        zoo.card("hf:facebook/dinov2-small")
    (told,) = document("show", "hf:facebook/dinov2-small")["same_weights"]
    assert told["encoder"] == "dinov2_vitS14" and "the same at 518 px" in told["says"]
    assert "other features than dinov2_vitS14, of the same weights: positions" in " ".join(
        run("show", "hf:facebook/dinov2-small", "--all").stdout.split()
    )


def test_a_processor_that_the_zoo_cannot_follow_is_refused_by_its_name(hub: Server) -> None:
    padded = {"image_processor_type": "Owlv2ImageProcessor", "size": {"height": 96, "width": 96}}
    publish_vit(hub, "own/padded", **{"preprocessor_config.json": padded})
    assert "its Owlv2ImageProcessor makes other pixels than any resize" in refusal("hf:own/padded", WeightsRefused)
    nested = {"image_processor": PREPROCESSOR | {"image_processor_type": "ViTImageProcessor", "resample": 2}}
    publish_vit(hub, "own/nested", **{"processor_config.json": nested})
    assert zoo.card("hf:own/nested").preprocess.interpolation == "bilinear"


@torch.no_grad()
def test_a_network_without_registers_has_none_that_are_untrained(hub: Server) -> None:
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    network = DINOv3ViTModel(DINOv3ViTConfig(**SMALL, num_register_tokens=0)).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.1)
    config = {"model_type": "dinov3_vit", "architectures": ["DINOv3ViTModel"], "num_register_tokens": 0, **SMALL}
    settings = {"image_processor_type": "DINOv3ViTImageProcessor", "size": {"height": 32, "width": 32}}
    file = {name: tensor for name, tensor in network.state_dict().items() if "mask_token" not in name}
    files = {"config.json": config, "preprocessor_config.json": settings, "model.safetensors": save(file)}
    publish(hub, "own/dinov3", files)
    encoder, _ = zoo.load("hf:own/dinov3")
    images = exact_images(2, 32).float()
    torch.testing.assert_close(encoder(images), network(images).pooler_output, rtol=0, atol=1e-5)
