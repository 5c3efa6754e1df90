"""Reading card files: what merges, what is refused and in which words, and the compiled copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import zoo
from tests.card_text import VALID
from tests.each import for_each
from zoo.cards import catalogue as cards
from zoo.cards import content_cache, reading
from zoo.cards.reading import parse_cards
from zoo.errors import CardError, ContentError, ContentWarning, UnknownName
from zoo.files import get_content_folder


def parse(text: str, *, name: str = "tiny.toml") -> dict:
    return parse_cards({Path(name): text.encode()})[0]


def test_defaults_like_and_own_facts_are_laid_over_each_other() -> None:
    facts = parse(VALID)
    twin = cards.build_card(facts["tiny_vitS16_twin"])
    assert twin.representation.dim == 1536
    assert twin.weights.url == "https://example.org/tiny.pth"
    assert twin.pretraining.augmentations == ("crop", "flip")
    assert twin.family == "tiny"


def test_an_erratum_keeps_what_was_published_next_to_the_corrected_fact() -> None:
    twin = cards.build_card(parse(VALID)["tiny_vitS16_twin"])
    assert twin.fact("representation.dim") == 1536
    assert twin.fact("representation.dim", as_published=True) == 384
    assert twin.fact("architecture.n_parameters", as_published=True) == 21665664


REFUSALS = [
    # what is broken, what replaces it, what the sentence must name
    ("epochs = 800", "epoch = 800", ["tiny.toml", "tiny_vitS16", "pretraining.epoch", "pretraining.epochs"]),
    ("crop_px = 224, ", "", ["tiny_vitS16", "preprocess.crop_px", "found nothing", "a whole number"]),
    ("epochs = 800", 'epochs = "many"', ["pretraining.epochs", "'many'", "a whole number", "not published"]),
    ("epochs = 800", "epochs = true", ["pretraining.epochs", "True", "a whole number"]),
    ("epochs = 800", "epochs = 800.5", ["pretraining.epochs", "800.5", "a whole number"]),
    ("dim = 384", 'dim = "not published"', ["representation.dim", "'not published'", "a whole number"]),
    ('optimizer = "adamw"', 'optimizer = ""', ["pretraining.optimizer", "''", "a text"]),
    ('layer = "cls"', 'layer = "class token"', ["representation.layer", "'class token'", "'cls+avg'"]),
    ('augmentations = ["crop", "flip"]', 'augmentations = ["crop", 3]', ["pretraining.augmentations", "a list"]),
    ('released = "2021-04"', 'released = "April 2021"', ["released", "'April 2021'", "2021-04"]),
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
    ('like = "tiny_vitS16"', 'like = ["tiny_vitS16"]', ["tiny_vitS16_twin", "like", "['tiny_vitS16']"]),
    ("[encoders.tiny_vitS16]\n", '[encoders.tiny_vitS16]\nlike = "tiny_vitS16_twin"\n', ["tiny_vitS16", "circle"]),
    ('like = "tiny_vitS16"', "like = { a = 1 }", ["tiny_vitS16_twin", "like", "{'a': 1}"]),
    ("options = {}", "options = { day = 1979-05-27 }", ["architecture.options", "a table"]),
    ("learning_rate = 5e-4", "learning_rate = nan", ["pretraining.learning_rate", "nan", "finite"]),
    ("learning_rate = 5e-4", "learning_rate = -inf", ["pretraining.learning_rate", "-inf", "finite"]),
    ("batch_size = 1024", "batch_size = 1000000000000000000000", ["pretraining.batch_size", "64 bits"]),
    ("batch_size = 1024", "batch_size = 0", ["pretraining.batch_size", "found 0", "from 1"]),
    ("dim = 384", "dim = -384", ["representation.dim", "-384", "from 1"]),
    ("crop_px = 224", "crop_px = 0", ["preprocess.crop_px", "found 0", "from 1"]),
    ("mean = [0.5, 0.5, 0.5]", "mean = [0.5, 0.5]", ["preprocess.std", "found [0.2, 0.2, 0.2]", "channels, 2"]),
    ("std = [0.2, 0.2, 0.2]", "std = [0.2, 0, 0.2]", ["preprocess.std", "found 0", "above 0"]),
    ('top1_percent = "not published"', "top1_percent = 764", ["reported.top1_percent", "764", "percentage"]),
    ('released = "2021-04"', 'released = "0000-01"', ["released", "'0000-01'", "2021-04"]),
    ('sha256 = "not published"', 'revision = "main"', ["weights.revision", "'main'", "40 hexadecimal digits"]),
    ('sha256 = "not published"', 'sha256 = "0676ba61"', ["weights.sha256", "64 hexadecimal digits"]),
    (
        "extracted = false }",
        'extracted = false, adapted_from = "A model" }',
        ["adapted_from", "'A model'", "id"],
    ),
    (
        "extracted = false }",
        'extracted = false, distilled_from = ["SAM"] }',
        ["distilled_from", "'SAM'", "space"],
    ),
    ("extracted = false }", 'extracted = false, distilled_from = "DINO g" }', ["distilled_from", "'DINO g'", "a list"]),
    (
        "[encoders.tiny_vitS16]\n",
        '[encoders.tiny_vitS16]\nprovenance.distilled_from = ["tiny_vitS16"]\n',
        ["tiny_vitS16", "distilled_from", "does not descend from this one"],
    ),
    ("[encoders.tiny_vitS16_twin]", '[encoders."tiny vitS16"]', ["tiny.toml", "'tiny vitS16'", "letters, digits"]),
    ("[encoders.tiny_vitS16_twin]", '[encoders."a\\nb"]', ["tiny.toml", "letters, digits"]),
    ("[encoders.tiny_vitS16_twin]", "[encoders.results_df]", ["tiny.toml", "'results_df'", "none of"]),
]


@for_each(REFUSALS, arguments=3)
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


def test_an_encoder_that_descends_from_itself_by_way_of_others_is_refused() -> None:
    own = '[encoders.tiny_vitS16]\nprovenance.distilled_from = ["DINOv2 g/14", "tiny_vitS16_twin"]\n'
    twin = '[encoders.tiny_vitS16_twin]\nprovenance = { adapted_from = "tiny_vitS16", distilled_from = [] }\n'
    straight = VALID.replace("[encoders.tiny_vitS16_twin]\n", twin)
    assert parse(straight)["tiny_vitS16_twin"]["provenance"]["adapted_from"] == "tiny_vitS16"
    with pytest.raises(CardError, match=r"'tiny_vitS16'.*distilled_from'.*found 'tiny_vitS16_twin'.*not descend"):
        parse(straight.replace("[encoders.tiny_vitS16]\n", own))


def test_a_fact_that_no_table_states_is_not_recorded() -> None:
    text = VALID.replace("epochs = 800", "").replace('released = "2021-04"', "")
    card = cards.build_card(parse(text)["tiny_vitS16"])
    assert card.pretraining.epochs is card.released is card.provenance.superseded_by is zoo.NOT_RECORDED


def test_what_was_derived_lies_below_the_defaults_and_the_encoders_own_facts() -> None:
    derived = """
        [encoders.tiny_derived]
        architecture.backbone = "timm:vit_small_patch16_224"
        pretraining = { epochs = 1, batch_size = 7 }
        weights.authors_url = "timm:a.b"
        [encoders.tiny_vitS16]
        pretraining.batch_size = 9
        architecture.native_px = 96
    """
    shared = VALID.replace("[encoders.tiny_vitS16]", "[derive]\n[encoders.tiny_vitS16]", 1)
    paths = {Path("metadata/tiny.toml"): f'family = "small"\n{shared}', Path("metadata/derived/tiny.toml"): derived}
    facts = parse_cards({path: text.encode() for path, text in paths.items()})[0]
    one, both = cards.build_card(facts["tiny_derived"]), cards.build_card(facts["tiny_vitS16"])
    assert one.family == both.family == "small"
    assert one.pretraining.epochs == 800 and one.weights.authors_url == "timm:a.b"
    assert (both.pretraining.batch_size, both.architecture.native_px, both.patch_grid) == (1024, 96, (6, 6))


def test_two_ids_that_are_equal_without_case_are_refused_and_both_files_named() -> None:
    with pytest.raises(CardError) as refusal:
        parse_cards({Path("a.toml"): VALID.encode(), Path("b.toml"): VALID.replace("tiny_", "TINY_").encode()})
    assert "a.toml" in str(refusal.value) and "b.toml" in str(refusal.value)


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "metadata"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return folder


def test_the_users_own_cards_join_the_catalogue_and_lookups_ignore_case(overlay: Path) -> None:
    (overlay / "tiny.toml").write_bytes(b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode())  # as on Windows
    catalogue = cards.load_catalogue()
    assert catalogue["TINY_vits16"].id == "tiny_vitS16"
    assert "tiny_VITS16_twin" in catalogue and "dino_vits16" in catalogue
    assert list(catalogue)[-2:] == ["tiny_vitS16", "tiny_vitS16_twin"]
    with pytest.raises(UnknownName) as refusal:
        zoo.card("dino_vits61")
    assert "dino_vitS16" in refusal.value.nearest
    for name in (None, 3, ""):
        with pytest.raises(UnknownName):
            zoo.card(name)  # type: ignore[arg-type]


def rewrite(path: Path, content: bytes) -> None:
    """Replaces a file by another one, which has another stamp even on a clock that is coarse."""
    beside = path.with_name("another")
    beside.write_bytes(content)
    os.replace(beside, path)


def test_a_card_that_was_edited_is_read_again_in_the_same_process(overlay: Path) -> None:
    source = overlay / "tiny.toml"
    source.write_text(VALID)
    assert cards.load_catalogue()["tiny_vitS16"].pretraining.epochs == 800
    rewrite(source, VALID.replace("epochs = 800", "epochs = 300").encode())
    assert cards.load_catalogue()["tiny_vitS16"].pretraining.epochs == 300
    source.unlink()
    assert "tiny_vitS16" not in cards.load_catalogue()


def test_an_own_card_may_be_like_a_shipped_one(overlay: Path) -> None:
    (overlay / "mine.toml").write_text(
        '[encoders.my_dino]\nlike = "dino_vitS16"\npretraining.epochs = 100\nweights.same_file_as = "dino_vitS16"\n'
    )
    mine, shipped = cards.load_catalogue()["my_dino"], cards.load_catalogue()["dino_vitS16"]
    assert (mine.pretraining.epochs, shipped.pretraining.epochs) == (100, 800)
    assert mine.representation == shipped.representation
    assert mine.family == "mine"


UNREADABLE = [b"\xff\xfe\x00garbage", b"", b"# nothing\n", b"[encoders]\n", b"encoders = 3\n", b"defaults = 3\n"]


def test_a_file_that_holds_no_cards_is_left_out_by_its_full_name(overlay: Path) -> None:
    (overlay / "tiny.toml").write_text(VALID)
    before = list(cards.load_catalogue())
    for content in UNREADABLE:
        rewrite(overlay / "mine.toml", content)
        for _ in range(2):
            with pytest.warns(ContentWarning) as caught:
                assert list(cards.load_catalogue()) == before
            (message,) = {str(warning.message) for warning in caught}
            assert str(overlay / "mine.toml") in message and "\n" not in message


WRONG = [  # what is wrong of tiny_vitS16_twin, what replaces it, what is left
    ("dim = 1536", 'dim = "many"', ["tiny_vitS16"]),
    ("encoders.tiny_vitS16_twin", 'encoders."tiny vitS16"', ["tiny_vitS16"]),
    ("encoders.tiny_vitS16_twin", "encoders.dino_vits16", ["tiny_vitS16"]),  # is there already
    ('like = "tiny_vitS16"', 'like = "nobody"', ["tiny_vitS16"]),
    ('url = "https://example.org/tiny.pth"', "url = 3", []),  # and the twin is like it
    ('same_file_as = "tiny_vitS16"', 'same_file_as = "dino_vitS16"', ["tiny_vitS16"]),
]


def test_a_wrong_card_of_the_users_own_takes_nothing_along_but_what_is_built_on_it(overlay: Path) -> None:
    shipped = list(cards.load_catalogue())
    for old, new, left in WRONG:
        assert old in VALID
        rewrite(overlay / "tiny.toml", VALID.replace(old, new).encode())
        with pytest.warns(ContentWarning, match=rf"{overlay / 'tiny.toml'}.*left out\.$"):
            assert list(cards.load_catalogue()) == shipped + left


def test_a_shipped_card_must_be_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(get_content_folder("metadata"), tmp_path / "metadata")
    monkeypatch.setattr("zoo.files._PACKAGE", tmp_path / "zoo")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    assert "dino_vitS16" in cards.load_catalogue()
    broken = tmp_path / "metadata" / "dino.toml"
    rewrite(broken, broken.read_bytes().replace(b"epochs = 800", b'epochs = "many"'))
    with pytest.raises(CardError, match=str(broken)):
        cards.load_catalogue()
    broken.unlink()
    broken.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CardError, match="cannot be read"):
        cards.load_catalogue()


def test_a_dangling_link_is_left_out_and_hidden_files_and_folders_are_not_read(overlay: Path) -> None:
    (overlay / "._tiny.toml").write_bytes(b"\x00\x05\x16\x07")
    (overlay / ".ipynb_checkpoints").mkdir()
    (overlay / ".ipynb_checkpoints" / "tiny.toml").write_text("[broken")
    (overlay / "folder.toml").mkdir()
    assert "dino_vitS16" in cards.load_catalogue()
    (overlay / "mine.toml").symlink_to(overlay / "nowhere.toml")
    with pytest.warns(ContentWarning, match=r"mine\.toml cannot be read .*remove it"):
        assert "dino_vitS16" in cards.load_catalogue()


@pytest.mark.parametrize("place", ["home", "home/metadata"])
def test_a_file_where_a_folder_of_content_should_be_is_refused(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("not a folder")
    with pytest.raises(ContentError, match="is not a folder"):
        cards.load_catalogue()


def test_a_column_is_the_fact_of_every_card(overlay: Path) -> None:
    known = cards.load_catalogue()
    for field in (*cards._LISTED, "commercial_use", "paper.title"):  # the last one is no column of the copy
        column = known.column(field)
        assert {encoder: known[encoder].fact(field) for encoder in known} == dict(column)
    assert known.column("n_errata") == {card.id: len(card.errata) for card in known.values()}


def test_the_copies_are_used_and_made_again_when_they_break_off(
    overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = overlay / "tiny.toml"
    source.write_text(VALID)
    monkeypatch.setattr(content_cache, "_SETTLED_NS", -(10**9))  # a change soon after has its stamp

    def epochs() -> int:
        for remembered in (cards._catalogue, cards._shipped):
            remembered.cache_clear()
        return cards.load_catalogue()["tiny_vitS16"].pretraining.epochs

    assert epochs() == 800
    (kept,) = (tmp_path / "cache").glob("own_cards-*.json")
    whole = kept.read_bytes()
    kept.write_bytes(whole.replace(b'"epochs":800', b'"epochs":801'))
    assert epochs() == 801  # it really is what is read
    for damage in (b"", b"{}", b"[1,2,3]\n", whole[:-1], whole + b" "):
        kept.write_bytes(damage)
        assert epochs() == 800 and kept.read_bytes() == whole
    rewrite(source, VALID.replace("epochs = 800", "epochs = 300").encode())
    assert epochs() == 300
    (tmp_path / "file").touch()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "file" / "cache"))  # no cache costs time alone
    assert epochs() == 300


def test_a_users_card_has_the_shipped_ones_compiled_once(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards.load_catalogue()
    parsed = []
    parse = reading.check_facts
    monkeypatch.setattr(reading, "check_facts", lambda where, facts: parsed.append(where) or parse(where, facts))
    (overlay / "tiny.toml").write_text(VALID)
    assert "tiny_vitS16" in cards.load_catalogue()
    assert len(parsed) == 2
