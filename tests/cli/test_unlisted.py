"""Encoders of an experiment, of a card file with ``listed = false``: there by name, listed only for whom asks."""

from __future__ import annotations

import csv
from pathlib import Path

import click
import pytest

import zoo
from tests.card_text import VALID
from tests.cli_runner import document, names, run
from zoo.analysis.label_free import measured_rows
from zoo.cards.catalogue import catalogue
from zoo.cards.reading import parse_cards
from zoo.cli.list import show_command
from zoo.cli.options import dataset_names, encoder_names, family_names
from zoo.errors import CardError
from zoo.hub import card_text, entry_points
from zoo.results import measurements, seed_means, summaries
from zoo.results.rows import read_rows
from zoo.results.values import read_files
from zoo.site.contents import gather

MEASURED = [f"randomised_{number:03}" for number in range(64)]


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


def test_a_listing_has_them_by_name_or_family_alone() -> None:
    drawn = names("list", "randomised")
    assert {"randomised_000", "randomised_twin_vit_small_16"} <= set(drawn)
    assert names("list", "--family", "Randomised") == names("list", "--where", "card_family == 'randomised'") == drawn
    assert names("list", "--family", "randomised", "--dataset", "fashion-mnist") == MEASURED
    assert names("list", "--family", "dino") == names("list", "--where", "card_family == 'dino'")
    assert not set(names("list", "--dataset", "shapes")) & set(drawn)
    assert "asked for by name" in run("list", "randomised", "--limit", "1").stderr
    assert "asked for by name" not in run("list", "dino", "--limit", "1").stderr
    assert "did you mean randomised" in run("list", "--family", "randomise", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("list --dataset fashion-mnist", "No encoder was measured on fashion-mnist but 64 of an experiment; "),
        ("results --dataset fashion-mnist", "No encoder was measured on fashion-mnist but 64 of an experiment; "),
        ("list vit_28", "No encoder has a name like 'vit_28' but 28 of an experiment; "),
        ('list --where architecture=="vit_28"', "but 28 of an experiment; "),
    ],
)
def test_what_finds_only_them_says_how_to_see_them(arguments: str, said: str) -> None:
    result = run(*arguments.split(), code=1)
    assert said + "--family randomised shows them." in result.stderr and result.stdout == ""


def test_results_have_them_by_name_or_family_alone() -> None:
    def encoders(*arguments: str) -> list[str]:
        return list(dict.fromkeys(row["encoder"] for row in document("results", *arguments)["measurements"]))

    for asked in (["--family", "randomised"], ["randomised_*"], ["--family", "randomised", "--dataset", "digits"]):
        assert encoders(*asked) == MEASURED
    assert encoders("randomised_00*", "--dataset", "shapes") == MEASURED[:10]
    assert encoders("randomised_000", "--metric", "rankme") == ["randomised_000"]
    assert encoders("pocket_*", "--family", "pocket", "--dataset", "shapes") == encoders(
        "pocket_*", "--dataset", "shapes"
    )
    for dataset in ("shapes", "digits"):
        beside = encoders("--dataset", dataset)
        assert beside and all(map(catalogue().lists, beside))
        assert "randomised" not in run("results", "--dataset", dataset).output


def test_rows_are_read_for_whom_names_them() -> None:
    assert all(catalogue().lists(row.encoder) for row in (*measurements(), *seed_means()))
    assert summaries(dataset="fashion-mnist") == {}
    assert list(summaries(dataset="fashion-mnist", encoders=MEASURED)) == MEASURED
    assert {row.encoder for row in measurements(encoders="RANDOMISED_000")} == {"randomised_000"}
    assert {mean.encoder for mean in seed_means("randomised_000")} == {"randomised_000"}


def test_their_shipped_rows_are_in_files_of_their_names() -> None:
    for path, content in read_files(".csv").items():
        others = {line.partition(b",")[0].decode() for line in content.splitlines()[1:]} - {path.stem}
        assert all(map(catalogue().lists, others)), path


def test_rows_of_the_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    own = [
        row._replace(dataset="fashion-mnist", encoder=encoder, source="own")
        for row in read_rows(["knn_error"])
        if row.encoder == "pocket_init_rn" and row.dataset == "digits"
        for encoder in ("pocket_init_rn", "randomised_000")
    ]
    path = tmp_path / "results" / "measured" / "mine.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([own[0]._fields, *own])
    shown = document("results", "--dataset", "fashion-mnist")["measurements"]
    assert {(row["encoder"], row["source"]) for row in shown} == {("pocket_init_rn", "own"), ("randomised_000", "own")}


def test_errors_of_theirs_are_named_beside_no_recommendation() -> None:
    assert "randomised" not in run("recommend", "--labels", "10000", "--dataset", "shapes").output
    said = run("recommend", "--labels", "10000", "--dataset", "fashion-mnist", code=2).stderr
    assert "only encoders of an experiment were measured, which are no candidates" in " ".join(said.split())


def test_a_shell_completes_them_where_no_other_begins_so() -> None:
    with click.Context(show_command) as context:
        assert encoder_names(context, show_command.params[0], "randomised_00")[0] == "randomised_000"
        assert "randomised_000" not in encoder_names(context, show_command.params[0], "r")
        assert family_names(context, show_command.params[0], "ra") == ["randomised"]
        assert dataset_names(context, show_command.params[0], "fashion-") == []


def test_torch_hub_hides_their_entries_behind_an_underscore() -> None:
    entries = entry_points()
    assert {name for name in entries if name.startswith("_")} == {f"_{name}" for name in names("list", "randomised")}
    assert entries["_randomised_000"].__doc__ == card_text(zoo.card("randomised_000"))


def test_they_load_and_are_compared_by_name() -> None:
    encoder, _ = zoo.load("randomised_000")
    assert sum(one.numel() for one in encoder.parameters()) == zoo.card("randomised_000").architecture.n_parameters
    assert names("compare", "randomised_000", "randomised_001") == ["randomised_000", "randomised_001"]


def test_their_rows_are_in_no_population_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    shipped = measured_rows()
    (row,) = [row for row in shipped if row.metric == "knn_error" and row.encoder == "pocket_init_rn"][:1]
    path = tmp_path / "results" / "measured" / "mine.csv"
    path.parent.mkdir(parents=True)
    own = [row._replace(encoder=name, source="own") for name in ("pocket_init_rn", "randomised_000")]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([row._fields, *own])
    lists = catalogue().lists
    assert all(lists(row.encoder) for row in shipped)
    assert measured_rows(with_mine=True) == [*shipped, own[0]]


def test_a_site_has_them_only_where_they_are_asked_for() -> None:
    assert not {"randomised_000", "randomised_001"} & set(gather().entries)
    asked = gather(only=["randomised_00*", "dino_vitS16"])
    assert next(iter(asked.entries)) == "dino_vitS16" and len(asked.entries) == 11
    assert not any(entry.is_mine for entry in asked.entries.values())
    assert asked.entries["randomised_000"].elsewhere.keys() == {"fashion-mnist", "digits", "shapes"}


def test_whether_a_file_is_listed_is_true_or_false() -> None:
    with pytest.raises(CardError, match="'listed' is 'no', expected true, or false"):
        parse_cards({Path("drawn.toml"): ('listed = "no"\n' + VALID).encode()})
