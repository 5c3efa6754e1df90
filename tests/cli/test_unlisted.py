"""Encoders of an experiment, of a card file with ``listed = false``: there by name, listed only for whom asks."""

from __future__ import annotations

from pathlib import Path

import pytest

import zoo
from tests.card_text import VALID
from tests.cli_runner import document, names, run
from zoo.cards.catalogue import catalogue
from zoo.cards.reading import parse_cards
from zoo.errors import CardError


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "metadata"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    (folder / "drawn.toml").write_text("listed = false\n" + VALID)
    return folder


def test_they_are_counted_nowhere_and_looked_up_like_any_other(experiment: Path) -> None:
    cards = catalogue()
    assert "tiny_vitS16" not in list(cards) and len(list(cards)) == len(cards)
    assert "tiny_vitS16" in cards and cards["TINY_vits16"].family == "drawn"
    assert cards.id_of("tiny_vits16@avg").startswith("tiny_vitS16@")
    assert "tiny_vitS16" not in cards.column("family")
    everything = cards.with_unlisted
    unlisted = set(everything) - set(cards)
    assert {one for one in unlisted if everything[one].family == "drawn"} == {"tiny_vitS16", "tiny_vitS16_twin"}
    assert everything.column("family")["tiny_vitS16"] == "drawn"
    assert cards.listing(["dino_vitS16"]) is cards and cards.listing(["tiny_vitS16"]) is everything


def test_a_listing_has_them_for_words_and_globs_that_find_no_other(experiment: Path) -> None:
    assert "tiny_vitS16" not in names("list")
    assert "tiny_vitS16" not in names("list", "dino")
    assert names("list", "drawn") == ["tiny_vitS16", "tiny_vitS16_twin"]
    assert names("list", "tiny_*", "--where", "z_dim > 1000") == ["tiny_vitS16_twin"]
    assert names("list", "drawn", "--sort", "z_dim", "--descending") == ["tiny_vitS16_twin", "tiny_vitS16"]
    families = document("list", "--families", "drawn")["families"]
    assert [(one["family"], one["n_encoders"]) for one in families] == [("drawn", 2)]
    assert run("list", "drawn").stdout.count("tiny_vitS16") == 2
    assert document("show", "tiny_vitS16")["family"] == "drawn"
    assert "drawn" not in {one["family"] for one in document("list", "--families")["families"]}


def test_none_is_recommended_or_offered(experiment: Path) -> None:
    found = document("recommend", "--labels", "10000", "--top", "400")
    assert len(str(found)) > 1000 and "tiny_vitS16" not in str(found)
    assert "tiny_vitS16" not in zoo.list_encoders()


def test_whether_a_file_is_listed_is_true_or_false() -> None:
    with pytest.raises(CardError, match="'listed' is 'no', expected true, or false"):
        parse_cards({Path("drawn.toml"): ('listed = "no"\n' + VALID).encode()})
