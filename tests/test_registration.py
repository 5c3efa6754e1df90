"""A checkpoint of the user's own becomes an encoder like any other, and is never changed again."""

from __future__ import annotations

import json
import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.cli_runner import answered, document, names, run
from tests.each import for_each
from tests.tiny import checkpoint, state, write_card
from zoo.datasets.recipes import build_recipe
from zoo.errors import (
    CardError,
    ContentWarning,
    DataError,
    QueryError,
    UnknownName,
    WeightsRefused,
    WeightsUnavailable,
)
from zoo.registration import get_registered_folder
from zoo.results.rows import measurements
from zoo.results.values import COLUMNS
from zoo.weights.locations import get_weights_folder

IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def own_card(own_folders: Path) -> None:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=7))


def everything() -> dict[str, bytes]:
    """Every file of the user's own folder but locks."""
    home = Path(os.environ["ZOO_HOME"])
    files = (path for path in home.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


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


def test_a_registered_card_has_every_fact_and_none_of_what_is_true_of_its_model_alone() -> None:
    card = register()
    (path,) = get_registered_folder().rglob("*.toml")
    written = tomllib.loads(path.read_text())["encoders"]["my_dino"]
    assert "like" not in written
    assert card.family == "tiny"
    assert card.errata == ()
    assert card.released is zoo.NOT_PUBLISHED
    assert card.weights.sha256 in str(card.weights.url)
    assert card.provenance.url == "mine.pth"


UNSTATED = ("objective", "pretraining", "projector", "licence", "paper", "reported", "provenance")


def values_of(card: zoo.EncoderCard, part: str) -> set[object]:
    return {
        value
        for name, value in asdict(getattr(card, part)).items()
        if f"{part}.{name}" not in ("licence.published", "provenance.url")
    }


def test_what_was_not_stated_of_the_training_is_not_published_and_what_makes_the_features_is_inherited() -> None:
    model, card = zoo.card("tiny"), register()
    assert (model.pretraining.processor, model.pretraining.duration_hours) == ("V100", 194)
    assert {part: values_of(card, part) for part in UNSTATED} == {part: {zoo.NOT_PUBLISHED} for part in UNSTATED}
    for part in ("architecture", "representation", "preprocess"):
        assert getattr(card, part) == getattr(model, part)
    assert not card.is_untrained


def test_the_training_of_the_model_is_inherited_on_purpose_only() -> None:
    model, card = zoo.card("tiny"), register(inherit=["pretraining"], facts={"pretraining.epochs": 7})
    assert card.pretraining == replace(model.pretraining, epochs=7)
    assert (card.objective, card.projector) == (model.objective, model.projector)
    assert card.paper.title is card.licence.code is zoo.NOT_PUBLISHED
    more = register("my_second", inherit=["paper", "licence"])
    assert (more.paper, more.licence.weights) == (model.paper, model.licence.weights)
    assert more.pretraining.dataset is zoo.NOT_PUBLISHED
    with pytest.raises(QueryError, match="nothing named 'weights' to inherit; expected one of 'pretraining', "):
        register("my_third", inherit=["weights"])


FACTS_TOML = """
released = "2026-01"
[objective]
name = "dino"
mode = "clustering"
[pretraining]
epochs = 100
augmentations = ["crop", "flip"]
"""
FACTS_JSON = {
    "released": "2026-01",
    "objective": {"name": "dino", "mode": "clustering"},
    "pretraining.epochs": 100,
    "pretraining": {"augmentations": ["crop", "flip"]},
}


def test_facts_come_from_a_file_and_a_setting_counts_more() -> None:
    Path("facts.toml").write_text(FACTS_TOML)
    Path("facts.json").write_text(json.dumps(FACTS_JSON))
    for kind in ("toml", "json"):
        options = f"--id my_{kind} --facts facts.{kind} --set pretraining.epochs=3 --inherit paper"
        run("register", "mine.pth", "--like", "tiny", *options.split())
        card = zoo.card(f"my_{kind}")
        assert (card.released, card.objective.name, card.objective.mode) == ("2026-01", "dino", "clustering")
        assert (card.pretraining.epochs, card.pretraining.augmentations) == (3, ("crop", "flip"))
        assert card.pretraining.dataset is card.objective.version is zoo.NOT_PUBLISHED
        assert card.paper == zoo.card("tiny").paper
        assert build_recipe(card).augmentations == ("crop", "flip")


@for_each(
    [
        ("facts.yaml", "", "ends in .toml or .json"),
        ("facts.toml", "[pretraining", "is no TOML"),
        ("facts.json", "[1]", "holds list, expected tables"),
        ("facts.json", '{"pretraining": {"epochs": null}}', "has null for 'pretraining.epochs'"),
        ("facts.toml", "[pretraning]\nepochs = 3", "There is no fact 'pretraning'"),
        ("facts.toml", '[weights]\nurl = "x"', "There is no fact 'weights.url'"),
        ("facts.toml", "[pretraining]\nepochs = 'many'", "expected a whole number"),
        ("absent.toml", None, "cannot be read"),
    ],
    arguments=3,
)
def test_a_file_that_states_no_facts_is_refused(name: str, content: str | None, words: str) -> None:
    if content is not None:
        Path(name).write_text(content)
    before = everything()
    result = run("register", "mine.pth", "--like", "tiny", "--id", "my_dino", "--facts", name, code=2)
    assert words in result.stderr
    assert everything() == before


def test_what_is_registered_is_never_changed() -> None:
    register(facts={"pretraining.epochs": 100})
    before = everything()
    assert register(facts={"pretraining.epochs": 100}).id == "my_dino"
    with pytest.raises(QueryError, match="with other facts"):
        register(facts={"pretraining.epochs": 3})
    Path("mine.pth").write_bytes(checkpoint("tiny", seed=8))
    with pytest.raises(QueryError, match="'my_dino' is taken"):
        register(facts={"pretraining.epochs": 100})
    assert everything() == before


def test_the_id_of_a_published_encoder_is_refused() -> None:
    with pytest.raises(QueryError, match="'dino_vitS16' is taken"):
        register("dino_vits16")
    assert not list(get_registered_folder().glob("*/*"))


def test_two_encoders_may_share_one_checkpoint() -> None:
    register()
    card = register(
        "my_dino_avg",
        facts={"representation.layer": "cls+avg", "representation.dim": 64, "representation.order": "interleaved"},
    )
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


@for_each(
    [
        ("pretraining.epoch", 3, QueryError, "did you mean 'pretraining.epochs'"),
        ("weights.url", "https://x.org", QueryError, "no fact 'weights.url'"),
        ("pretraining.epochs", "many", CardError, "expected a whole number"),
        ("representation.dim", 31, zoo.errors.BuildError, "expected 32"),
        ("licence.weights", "my own", CardError, "SPDX"),
    ],
    arguments=4,
)
def test_a_wrong_fact_is_refused_before_anything_is_written(
    field: str, value: object, error: type[Exception], words: str
) -> None:
    before = everything()
    with pytest.raises(error, match=words) as caught:
        register(facts={field: value})
    assert "\n" not in str(caught.value)
    assert everything() == before


@for_each(["my-dino", "9dino", "", "results_df", "a/b"])
def test_an_id_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(CardError, match="found the id"):
        register(name)


def test_an_unknown_model_or_layout_lists_the_nearest() -> None:
    with pytest.raises(UnknownName, match="dino_vitS16"):
        zoo.register("mine.pth", like="dino_vitS17", name="x")
    with pytest.raises(UnknownName, match="dino"):
        register(layout="dinos")


def test_the_command_registers_and_says_how_to_go_on() -> None:
    settings = ["--set", "pretraining.epochs=100", "--set", 'pretraining.dataset=iNaturalist "2021" \u00e9']
    asked = ["register", "mine.pth", "--like", "tiny", "--id", "my_dino", *settings]
    assert 'zoo.load("my_dino")' in run(*asked).output
    card = zoo.card("my_dino")
    assert (card.pretraining.epochs, card.pretraining.dataset) == (100, 'iNaturalist "2021" \u00e9')
    assert document(*asked)["sha256"] == card.weights.sha256
    assert "expected FACT=VALUE" in run(*asked[:-1], "pretraining.epochs", code=2).output


def test_of_two_who_register_one_id_at_once_one_is_refused_and_leaves_nothing() -> None:
    Path("other.pth").write_bytes(checkpoint("tiny", seed=8))
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(zoo.register, path, like="tiny", name="my_dino") for path in ("mine.pth", "other.pth")]
    (error,) = [one.exception() for one in both if one.exception() is not None]
    assert isinstance(error, QueryError) and "The id 'my_dino' is taken" in str(error)
    assert document("check", "my_dino")["encoders"][0]["state"] == "same"
    assert len(list(Path(os.environ["ZOO_HOME"], "weights", "tensors").iterdir())) == 1


def whole() -> dict[str, bytes]:
    """Every file that a registration may write, its record of features among them."""
    checks = {f"checks/{path.name}": path.read_bytes() for path in (get_weights_folder() / "checks").glob("*")}
    return everything() | checks


class TestUnregistering:
    @pytest.fixture
    def rows(self) -> Path:
        """Results of the encoder in the file that recording has, and in one that the user has written."""
        add = "my_dino,linear_probe_error,digits,train -> val,1347,0,12.5,percent,,,mine,me,2026-11-20\n"
        folder = Path(os.environ["ZOO_HOME"], "results")
        (folder / "measured").mkdir(parents=True)
        (folder / "measured" / "my_dino.csv").write_text(",".join(COLUMNS) + "\n" + add)
        (folder / "measured" / "my_dino.provenance.jsonl").write_text("{}\n")
        (folder / "own.csv").write_text(
            ",".join(COLUMNS) + "\n" + add.replace("mine", "other") + add.replace("my_dino", "dino_vitS16")
        )
        return folder

    def test_nothing_is_left_but_what_was_there_before(self) -> None:
        before = whole()
        register()
        said = document("unregister", "MY_DINO", "--yes")["encoders"][0]
        assert said["freed_bytes"] > 0
        assert (said["encoder"], said["n_rows_kept"], said["kept_in"], said["left_out_in"]) == ("my_dino", 0, [], [])
        assert whole() == before
        assert "my_dino" not in zoo.list_encoders()
        Path("mine.pth").write_bytes(checkpoint("tiny", seed=8))
        assert register().id == "my_dino"  # the id is free again

    def test_results_are_kept_under_a_name_that_nothing_reads_and_come_back_with_the_weights(self, rows: Path) -> None:
        register()
        assert len(measurements(encoders="my_dino")) == 2
        own = (rows / "own.csv").read_bytes()
        result = run("unregister", "my_dino", "--yes")
        kept = next((rows / "measured").glob("my_dino.csv.unregistered-*"))
        assert f"1 row of results is kept in {kept}" in result.stdout
        assert f"name it in {rows / 'own.csv'} are left out" in result.stdout
        assert (rows / "own.csv").read_bytes() == own
        with pytest.warns(ContentWarning, match=r"own.csv, line 2, .*found 'my_dino'.* this is left out"):
            assert [row.encoder for row in measurements() if row.source == "me"] == ["dino_vitS16"]

        Path("mine.pth").write_bytes(checkpoint("tiny", seed=8))
        register()  # other weights, to which those rows do not belong
        assert kept.exists() and [row.protocol for row in measurements(encoders="my_dino")] == ["other"]
        run("unregister", "my_dino", "--yes")
        Path("mine.pth").write_bytes(checkpoint("tiny", seed=7))
        register()
        assert sorted(row.protocol for row in measurements(encoders="my_dino")) == ["mine", "other"]
        assert sorted(path.name for path in (rows / "measured").iterdir()) == [
            "my_dino.csv",
            "my_dino.provenance.jsonl",
        ]

    def test_weights_that_another_encoder_reads_stay_and_it_is_unregistered_first(self) -> None:
        register()
        register("my_second", facts={"pretraining.epochs": 3})
        before = whole()
        result = run("unregister", "my_dino", "--yes", code=2)
        assert "'my_second' reads the weights of 'my_dino'" in result.stderr
        assert whole() == before
        assert document("unregister", "my_second", "--yes")["freed_bytes"] == 0
        assert zoo.load("my_dino")[0](IMAGE).shape == (1, 32)
        register("my_second", facts={"pretraining.epochs": 3})
        assert document("unregister", "my_dino", "my_second", "--yes")["freed_bytes"] > 0
        assert not list(Path(os.environ["ZOO_HOME"], "weights", "tensors").iterdir())

    def test_what_was_not_registered_or_is_needed_is_refused(self) -> None:
        assert "'dino_vitS16' was not registered" in run("unregister", "dino_vitS16", "--yes", code=2).stderr
        assert "'tiny' was not registered" in run("unregister", "tiny", "--yes", code=2).stderr
        assert "no encoder named 'nobody'" in run("unregister", "nobody", "--yes", code=2).stderr
        register()
        path = Path(os.environ["ZOO_HOME"], "metadata", "mine.toml")
        path.write_text('[encoders.child]\nlike = "my_dino"\nweights.same_file_as = "my_dino"\n')
        assert "'child' reads the weights" in run("unregister", "my_dino", "--yes", code=2).stderr
        path.write_text('[encoders.child]\nlike = "my_dino"\nweights.url = "other.pth"\n')
        assert f"card of 'child' in {path} is like" in run("unregister", "my_dino", "--yes", code=2).stderr
        path.write_text('[encoders.child]\nlike = "my_dino"\npretraining.epochs = "many"\n')  # a card that is left out
        run("unregister", "my_dino", "--yes")
        assert "my_dino" not in zoo.list_encoders()

    def test_without_yes_it_asks_on_a_terminal_alone(self) -> None:
        register()
        assert "Got no --yes" in run("unregister", "my_dino", code=2).stderr
        printed = answered("n\n", "unregister", "my_dino", code=1)
        assert "Remove these encoders and their weights? [y/N]" in printed
        assert "Nothing was removed" in printed
        assert "my_dino" in zoo.list_encoders()


class TestPaths:
    def test_no_file_of_a_registered_encoder_names_a_folder_of_this_machine(self, tmp_path: Path) -> None:
        zoo.register(tmp_path / "mine.pth", like="tiny", name="my_dino")
        run("mirror", str(tmp_path / "mirror"), "my_dino")
        run("export", "my_dino", "--hub", str(tmp_path / "exported"))
        assert naming(tmp_path, Path(os.environ["ZOO_HOME"], "metadata", "registered")) == []
        assert naming(tmp_path, Path(os.environ["ZOO_HOME"], "weights")) == []
        assert naming(tmp_path, tmp_path / "mirror") == []
        assert naming(tmp_path, tmp_path / "exported") == []

    def test_no_file_of_a_mirror_does_although_a_card_or_an_older_one_did(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_card("by_hand", str(tmp_path / "mine.pth"), mirrors=[str(tmp_path / "copy.pth")])
        register()
        (path,) = get_registered_folder().rglob("*.toml")
        path.write_text(path.read_text().replace('"mine.pth"', json.dumps(str(tmp_path / "mine.pth"))))
        features = zoo.load("by_hand")[0](IMAGE)
        run("mirror", str(tmp_path / "mirror"), "by_hand", "my_dino")
        run("export", "by_hand", "--hub", str(tmp_path / "exported"))
        assert naming(tmp_path, tmp_path / "mirror") == naming(tmp_path, tmp_path / "exported") == []
        for variable in ("ZOO_HOME", "ZOO_CACHE"):  # on another machine
            monkeypatch.setenv(variable, str(tmp_path / f"another_{variable.lower()}"))
        monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
        Path("mine.pth").unlink()
        assert torch.equal(zoo.load("by_hand")[0](IMAGE), features)
        assert zoo.load("my_dino")[0](IMAGE).shape == (1, 32)

    def test_the_folder_may_be_moved(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = Path(os.environ["ZOO_HOME"])
        register()
        (home / "runs").mkdir()
        (home / "runs" / "second.pth").write_bytes(checkpoint("tiny", seed=8))
        write_card("second", "runs/second.pth")  # below the folder, wherever one works
        home.rename(tmp_path / "moved")
        monkeypatch.setenv("ZOO_HOME", str(tmp_path / "moved"))
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "fresh"))
        assert zoo.load("my_dino")[0](IMAGE).shape == zoo.load("second")[0](IMAGE).shape == (1, 32)


def naming(what: Path, folder: Path) -> list[str]:
    """Files below a folder that name a path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [str(path) for path in files if str(what).encode() in path.read_bytes()]
