"""A checkpoint of the user's own becomes an encoder like any other, and is never changed again."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from zoo.errors import CardError, DataError, QueryError, StoreError, UnknownName, WeightsRefused, WeightsUnavailable
from zoo.registration import registered_folder

from .cli_runner import document, names, run
from .tiny import checkpoint, state, write_card

IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=7))


def everything() -> dict[str, bytes]:
    """Every file of the user's own folder."""
    home = Path(os.environ["ZOO_HOME"])
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def register(name: str = "my_dino", **options: Any) -> zoo.EncoderCard:
    return zoo.register("mine.pth", like="tiny", name=name, **options)


def test_a_registered_encoder_is_listed_shown_and_loaded_like_any_other() -> None:
    card = register(facts={"pretraining.epochs": 100})
    assert card.pretraining.epochs == 100
    assert "my_dino" in zoo.list_encoders()
    assert names("list", "my_dino") == ["my_dino"]
    assert document("show", "my_dino")["facts"]["pretraining.epochs"] == 100
    assert "my_dino" in zoo.metadata_df().index
    encoder, _ = zoo.load("MY_DINO")
    assert torch.equal(encoder.state_dict()["backbone.cls_token"], state("tiny", seed=7)["cls_token"])
    assert encoder(IMAGE).shape == (1, 32)


def test_a_registered_encoder_survives_its_file_and_the_cache() -> None:
    register()
    Path("mine.pth").unlink()
    for path in Path(os.environ["ZOO_CACHE"]).rglob("*"):
        if path.is_file():
            path.unlink()
    encoder, _ = zoo.load("my_dino")
    assert encoder(IMAGE).shape == (1, 32)


def test_a_registered_card_has_every_fact_and_none_of_what_is_true_of_its_model_alone() -> None:
    card = register()
    (path,) = registered_folder().rglob("*.toml")
    written = tomllib.loads(path.read_text())["encoders"]["my_dino"]
    assert "like" not in written
    assert card.family == "tiny"
    assert card.errata == ()
    assert card.licence.weights is zoo.NOT_PUBLISHED
    assert card.reported.top1_percent is zoo.NOT_PUBLISHED
    assert card.paper == zoo.card("tiny").paper
    assert card.weights.sha256 in str(card.weights.url)


def test_the_same_registration_again_changes_nothing() -> None:
    register(facts={"pretraining.epochs": 100})
    before = everything()
    assert register(facts={"pretraining.epochs": 100}).id == "my_dino"
    assert everything() == before


def test_the_same_id_with_other_weights_is_refused() -> None:
    register()
    before = everything()
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=8))
    with pytest.raises(QueryError, match="'my_dino' is taken"):
        register()
    assert everything() == before


def test_the_same_id_with_other_facts_is_refused() -> None:
    register()
    before = everything()
    with pytest.raises(QueryError, match="with other facts"):
        register(facts={"pretraining.epochs": 3})
    assert everything() == before


def test_the_id_of_a_published_encoder_is_refused() -> None:
    with pytest.raises(QueryError, match="'dino_vitS16' is taken"):
        register("dino_vits16")
    assert not registered_folder().exists()


def test_two_encoders_may_share_one_checkpoint() -> None:
    register()
    card = register("my_dino_avg", facts={"representation.layer": "cls+avg", "representation.dim": 64,
                                          "representation.order": "interleaved"})  # fmt: skip
    assert card.weights.same_file_as == "my_dino"
    assert zoo.load("my_dino_avg")[0](IMAGE).shape == (1, 64)
    assert len(list(Path(os.environ["ZOO_HOME"], "weights", "tensors").iterdir())) == 1


def test_a_file_that_does_not_fit_leaves_nothing() -> None:
    before = everything()
    torch.save({"cls_token": torch.ones(1, 1, 32)}, "mine.pth")
    with pytest.raises(WeightsRefused, match="do not fit"):
        register()
    Path("mine.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(WeightsRefused):
        register()
    Path("mine.pth").unlink()
    with pytest.raises(WeightsUnavailable):
        register()
    assert everything() == before


def test_weights_whose_features_are_not_finite_leave_nothing() -> None:
    broken = {name: tensor * 1e30 for name, tensor in state("tiny", seed=7).items()}
    torch.save(broken, "mine.pth")
    before = everything()
    with pytest.raises(DataError, match="not finite"):
        register()
    assert everything() == before


def test_a_card_whose_name_could_not_be_made_lasting_keeps_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        if folder.name == "my_dino":  # where the card is, the last thing that is written
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("zoo.atomic.synchronise_folder", fail)
        with pytest.raises(StoreError):
            register()
    assert register().id == "my_dino"
    assert zoo.load("my_dino")[0](IMAGE).shape == (1, 32)


def test_the_features_of_a_registered_encoder_are_recorded_for_the_check() -> None:
    register()
    assert document("check", "my_dino")["encoders"][0]["state"] == "same"


@pytest.mark.parametrize(
    ("field", "value", "error", "words"),
    [
        ("pretraining.epoch", 3, QueryError, "did you mean 'pretraining.epochs'"),
        ("weights.url", "https://x.org", QueryError, "no fact 'weights.url'"),
        ("pretraining.epochs", "many", CardError, "expected a whole number"),
        ("representation.dim", 31, zoo.errors.BuildError, "expected 32"),
        ("licence.weights", "my own", CardError, "SPDX"),
    ],
)
def test_a_wrong_fact_is_refused_before_anything_is_written(
    field: str, value: object, error: type[Exception], words: str
) -> None:
    before = everything()
    with pytest.raises(error, match=words) as caught:
        register(facts={field: value})
    assert "\n" not in str(caught.value)
    assert everything() == before


@pytest.mark.parametrize("name", ["my-dino", "9dino", "", "results_df", "a/b"])
def test_an_id_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(CardError, match="found the id"):
        register(name)


def test_an_unknown_model_or_layout_lists_the_nearest() -> None:
    with pytest.raises(UnknownName, match="dino_vitS16"):
        zoo.register("mine.pth", like="dino_vitS17", name="x")
    with pytest.raises(UnknownName, match="dino"):
        register(layout="dinos")


def test_the_command_registers_and_says_how_to_go_on() -> None:
    result = run("register", "mine.pth", "--like", "tiny", "--id", "my_dino", "--set", "pretraining.epochs=100",
                 "--set", 'pretraining.dataset=iNaturalist "2021" \u00e9')  # fmt: skip
    assert 'zoo.load("my_dino")' in result.output
    card = zoo.card("my_dino")
    assert (card.pretraining.epochs, card.pretraining.dataset) == (100, 'iNaturalist "2021" \u00e9')
    again = document("register", "mine.pth", "--like", "tiny", "--id", "my_dino", "--set", "pretraining.epochs=100",
                     "--set", 'pretraining.dataset=iNaturalist "2021" \u00e9')  # fmt: skip
    assert again["sha256"] == card.weights.sha256


def test_the_command_refuses_a_setting_without_a_value() -> None:
    result = run("register", "mine.pth", "--like", "tiny", "--id", "x", "--set", "pretraining.epochs", code=2)
    assert "expected FACT=VALUE" in result.output
