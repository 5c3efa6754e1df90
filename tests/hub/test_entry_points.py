"""torch.hub as its users meet it: what is listed, what help prints, what load returns and what it refuses."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest
import torch

import zoo
from tests.card_text import VALID
from tests.conftest import Run
from tests.each import for_each
from zoo import hub
from zoo.errors import ContentWarning, WeightsUnavailable

TABLES = {"metadata_dict", "metadata_df", "results_df"}


@pytest.fixture
def cached(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The repository by the name under which torch.hub finds it in its cache, so that nothing is downloaded."""
    folder = tmp_path / "torch" / "hub"
    folder.mkdir(parents=True)
    (folder / "someone_ssl-zoo_main").symlink_to(repository, target_is_directory=True)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return "someone/ssl-zoo:main"


@pytest.fixture
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The metadata folder of a user who keeps cards."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "home" / "metadata"
    folder.mkdir(parents=True)
    return folder


def test_the_list_is_every_encoder_and_the_tables_and_nothing_else(cached: str) -> None:
    listed = torch.hub.list(cached, trust_repo=True, verbose=False)
    assert set(listed) == {*zoo.list_encoders(), *TABLES}
    assert len(listed) == len(set(listed)) > 204


def test_help_prints_the_card_and_how_a_table_is_asked_for(cached: str) -> None:
    for encoder in ("dino_rn50", "init_rn50", "clip_vitL14_px336_extractS"):
        assert torch.hub.help(cached, encoder, trust_repo=True) == hub.format_card_text(zoo.card(encoder))
    for table in TABLES:
        assert torch.hub.help(cached, table, trust_repo=True) == getattr(zoo, table).__doc__


@for_each(zoo.list_encoders())
def test_the_text_of_a_card_says_what_goes_in_and_what_comes_out(encoder: str) -> None:
    card = zoo.card(encoder)
    text = hub.format_card_text(card)
    assert text.startswith(f"{encoder}: ")
    assert f"(n, 3, {card.preprocess.crop_px}, {card.preprocess.crop_px})" in text
    assert f"(n, {card.representation.dim})" in text
    assert all(erratum.reason in text for erratum in card.errata)
    assert "Missing" not in text and "NOT_" not in text


def test_load_gives_the_encoder_of_the_card_and_its_preprocessing(repository: Path) -> None:
    before = list(sys.path)
    encoder, preprocess = torch.hub.load(str(repository), "init_vitS16", source="local", seed=3)
    assert sys.path == before
    twin, _ = zoo.load("init_vitS16", seed=3)
    assert not encoder.training
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(encoder.parameters(), twin.parameters(), strict=True))
    assert callable(preprocess)
    for options in ({"pretrained": True}, {"pretrained": False}):  # it needs no weights
        encoder, _ = torch.hub.load(str(repository), "init_vitS16", source="local", device="meta", **options)
        assert next(encoder.parameters()).is_meta


def test_load_wants_trained_weights_unless_told_otherwise(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(WeightsUnavailable, match=r"^The weights of 'dino_rn50' .*ZOO_OFFLINE.*pretrained=False"):
        torch.hub.load(str(repository), "dino_rn50", source="local")


def test_tables_are_those_of_the_package(repository: Path) -> None:
    hubs = torch.hub.load(str(repository), "metadata_df", source="local", is_lower=False)
    assert hubs.equals(zoo.metadata_df(is_lower=False))
    assert torch.hub.load(str(repository), "results_df", source="local").equals(zoo.results_df())
    assert torch.hub.load(str(repository), "metadata_dict", source="local") == zoo.metadata_dict()


def test_an_own_card_is_an_entry_point_at_once(cached: str, own_cards: Path) -> None:
    (own_cards / "tiny.toml").write_text(VALID)
    assert {"tiny_vitS16", "tiny_vitS16_twin"} <= set(torch.hub.list(cached, trust_repo=True, verbose=False))
    assert "The published metadata repeats" in torch.hub.help(cached, "tiny_vitS16_twin", trust_repo=True)


def test_a_wrong_card_of_the_users_own_stops_nothing_but_itself_and_is_named(cached: str, own_cards: Path) -> None:
    shipped = torch.hub.list(cached, trust_repo=True, verbose=False)
    for card_file, reason in (
        (VALID.replace("epochs = 800", 'epochs = "many"'), r"tiny\.toml.*'pretraining\.epochs'"),
        ("[defaults", r"tiny\.toml is not readable"),
        (VALID.replace("tiny_vitS16", "results_df"), r"tiny\.toml: found the id 'results_df'"),
        (VALID.replace("tiny_vitS16", "_tiny"), r"tiny\.toml: found the id '_tiny'"),
    ):
        (own_cards / "tiny.toml").write_text(card_file)
        with pytest.warns(ContentWarning, match=reason):
            assert torch.hub.list(cached, trust_repo=True, verbose=False) == shipped


def test_an_entry_can_be_inspected_like_a_function() -> None:
    entry = hub.entry_points()["dino_vitS16"]
    assert entry.__name__ == "dino_vitS16"
    assert str(inspect.signature(entry)).startswith("(*, pretrained: 'bool' = True, weights: ")
    assert repr(entry) == "<SSL Zoo encoder dino_vitS16>"


def test_hubconf_itself_imports_neither_torch_nor_pandas(run_apart: Run, repository: Path) -> None:
    script = "import sys; import hubconf; print(len(vars(hubconf)), *({'torch', 'pandas', 'numpy'} & set(sys.modules)))"
    done = run_apart(script, path=[repository])
    assert re.fullmatch(r"\d+\n", done.stdout), done.stdout + done.stderr


def test_without_a_library_that_torch_hub_does_not_ask_for_one_sentence_names_it(
    run_apart: Run,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "old" / "packaging").mkdir(parents=True)
    (tmp_path / "old" / "packaging" / "__init__.py").touch()
    done = run_apart("import hubconf", path=[tmp_path / "old", repository])
    assert done.stderr.splitlines()[-1] == (
        "zoo.errors.MissingExtra: Checking the licences of cards needs the library 'packaging>=24.2', "
        "which is not installed; run: pip install 'packaging>=24.2', or install ssl-zoo with its extra [models]"
    )


def test_everything_else_in_hubconf_is_private(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    monkeypatch.syspath_prepend(repository)
    monkeypatch.delitem(sys.modules, "hubconf", raising=False)
    import hubconf

    public = {name for name in vars(hubconf) if not name.startswith("_")}
    assert public == {*zoo.list_encoders(), *TABLES, "dependencies"}
    assert hubconf.dependencies == ["torch", "torchvision", "timm"]
