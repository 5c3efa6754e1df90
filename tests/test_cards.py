"""Reading card files: what merges, what is refused and in which words, and the compiled copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import zoo
from tests.card_text import VALID
from zoo import cards
from zoo.cardfiles import parse_cards
from zoo.errors import CardError, UnknownName


def parse(text: str, *, name: str = "tiny.toml") -> dict:
    return parse_cards({Path(name): text.encode()})


def test_defaults_like_and_own_facts_are_laid_over_each_other() -> None:
    facts = parse(VALID)
    twin = cards.build_card(facts["tiny_vitS16_twin"])
    assert twin.representation.dim == 1536
    assert twin.weights.url == "https://example.org/tiny.pth"
    assert twin.pretraining.augmentations == ("crop", "flip")
    assert twin.family == "tiny"


def test_an_erratum_keeps_what_was_published_beside_the_corrected_fact() -> None:
    twin = cards.build_card(parse(VALID)["tiny_vitS16_twin"])
    assert twin.fact("representation.dim") == 1536
    assert twin.fact("representation.dim", as_published=True) == 384
    assert twin.fact("architecture.n_parameters", as_published=True) == 21665664


def test_does_not_apply_and_nobody_published_it_stay_different() -> None:
    card = cards.build_card(parse(VALID)["tiny_vitS16"])
    assert card.objective.n_negatives is zoo.NOT_APPLICABLE
    assert card.pretraining.duration_hours is zoo.NOT_PUBLISHED
    assert card.objective.n_negatives != card.pretraining.duration_hours


REFUSALS = [
    # what is broken, what replaces it, what the sentence must name
    ("epochs = 800", "epoch = 800", ["tiny.toml", "tiny_vitS16", "pretraining.epoch", "pretraining.epochs"]),
    ("epochs = 800", "", ["tiny_vitS16", "pretraining.epochs", "found nothing", "a whole number"]),
    ("epochs = 800", 'epochs = "many"', ["pretraining.epochs", "'many'", "a whole number", "not published"]),
    ("epochs = 800", "epochs = true", ["pretraining.epochs", "True", "a whole number"]),
    ("epochs = 800", "epochs = 800.5", ["pretraining.epochs", "800.5", "a whole number"]),
    ("dim = 384", 'dim = "not published"', ["representation.dim", "'not published'", "a whole number"]),
    ('optimizer = "adamw"', 'optimizer = ""', ["pretraining.optimizer", "''", "a text"]),
    ('layer = "cls"', 'layer = "class token"', ["representation.layer", "'class token'", "'cls+avg'"]),
    ('augmentations = ["crop", "flip"]', 'augmentations = ["crop", 3]', ["pretraining.augmentations", "a list"]),
    ('released = "2021-04"', 'released = "April 2021"', ["released", "'April 2021'", "2021-04"]),
    ('released = "2021-04"', "", ["released", "found nothing", "2021-04"]),
    ('weights = "Apache-2.0"', 'weights = "Apache 2.0"', ["licence.weights", "'Apache 2.0'", "SPDX"]),
    ('weights = "Apache-2.0"', 'weights = "apache-2.0"', ["licence.weights", "'apache-2.0'", "'Apache-2.0'"]),
    ("[defaults.representation]", "[defaults.representaton]", ["representaton", "representation"]),
    ("[defaults]", "[default]", ["tiny.toml", "'default'", "[defaults]"]),
    ('like = "tiny_vitS16"', 'like = "tiny_vitL16"', ["tiny_vitS16_twin", "like", "tiny_vitL16"]),
    ('weights.same_file_as = "tiny_vitS16"', "", ["tiny_vitS16_twin", "weights.url", "tiny_vitS16"]),
    ('same_file_as = "tiny_vitS16"', 'same_file_as = "nobody"', ["tiny_vitS16_twin", "same_file_as", "nobody"]),
    ("published = 384", 'published = "384"', ["erratum 1", "representation.dim", "'384'", "a whole number"]),
    ('field = "representation.dim"', 'field = "representation.size"', ["erratum 1", "representation.size"]),
    ('reason = "The', 'because = "The', ["erratum 1", "reason"]),
    ("[encoders.tiny_vitS16]\n", "[encoders.tiny_vitS16\n", ["tiny.toml", "TOML", "line"]),
]


@pytest.mark.parametrize(("found", "replacement", "named"), REFUSALS)
def test_a_broken_card_is_refused_in_one_sentence_that_names_the_place(
    found: str, replacement: str, named: list[str]
) -> None:
    assert found in VALID
    with pytest.raises(CardError) as refusal:
        parse(VALID.replace(found, replacement, 1))
    message = str(refusal.value)
    assert "\n" not in message and message.endswith(".")
    for word in named:
        assert word in message


def test_a_card_file_cut_in_the_middle_is_refused() -> None:
    with pytest.raises(CardError, match=r"tiny\.toml"):
        parse(VALID[: VALID.index('"crop", "flip"]')])


def test_a_file_without_encoders_is_refused() -> None:
    with pytest.raises(CardError, match="holds no encoder"):
        parse("[defaults]\n")


def test_two_ids_that_are_equal_without_case_are_refused_and_both_files_named() -> None:
    with pytest.raises(CardError) as refusal:
        parse_cards({Path("a.toml"): VALID.encode(), Path("b.toml"): VALID.replace("tiny_", "TINY_").encode()})
    assert "a.toml" in str(refusal.value) and "b.toml" in str(refusal.value)


def test_one_file_used_by_two_encoders_is_refused_unless_an_erratum_explains_it() -> None:
    with_erratum = VALID.replace('weights.same_file_as = "tiny_vitS16"', "") + (
        "\n[[encoders.tiny_vitS16_twin.errata]]\n"
        'field = "weights.url"\npublished = "not published"\nreason = "One file was published for both."\n'
    )
    assert len(parse(with_erratum)) == 2


def test_a_circle_of_likes_is_refused() -> None:
    circle = VALID.replace("[encoders.tiny_vitS16]\n", '[encoders.tiny_vitS16]\nlike = "tiny_vitS16_twin"\n')
    with pytest.raises(CardError, match="circle"):
        parse(circle)


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "metadata"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return folder


def test_the_users_own_cards_join_the_catalogue_and_lookups_ignore_case(overlay: Path) -> None:
    (overlay / "tiny.toml").write_text(VALID)
    catalogue = cards.catalogue()
    assert catalogue["TINY_vits16"].id == "tiny_vitS16"
    assert "tiny_VITS16_twin" in catalogue and "dino_vits16" in catalogue
    assert list(catalogue)[-2:] == ["tiny_vitS16", "tiny_vitS16_twin"]


def test_an_unknown_encoder_lists_the_nearest_ones() -> None:
    with pytest.raises(UnknownName) as refusal:
        zoo.card("dino_vits61")
    assert "dino_vitS16" in str(refusal.value)
    assert "dino_vitS16" in refusal.value.nearest


def test_the_compiled_copy_is_used_renewed_and_never_trusted_when_damaged(overlay: Path, tmp_path: Path) -> None:
    source = overlay / "tiny.toml"
    source.write_text(VALID)
    read = cards._catalogue.__wrapped__  # without the memory of this process
    files = (source,)
    assert read(files)["tiny_vitS16"].pretraining.epochs == 800
    (compiled,) = (tmp_path / "cache").glob("cards-*.json")

    compiled.write_text(compiled.read_text().replace('"epochs":800', '"epochs":801'))
    assert read(files)["tiny_vitS16"].pretraining.epochs == 801  # it really is what is read

    compiled.write_text("{ damaged")
    assert read(files)["tiny_vitS16"].pretraining.epochs == 800

    source.write_text(VALID.replace("epochs = 800", "epochs = 300"))
    assert read(files)["tiny_vitS16"].pretraining.epochs == 300
    assert [path for path in (tmp_path / "cache").iterdir() if path == compiled] == []


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("ZOO_CACHE", str(blocked / "cache"))
    (overlay / "tiny.toml").write_text(VALID)
    assert cards._catalogue.__wrapped__((overlay / "tiny.toml",))["tiny_vitS16"].representation.dim == 384
    assert os.listdir(tmp_path) != []
