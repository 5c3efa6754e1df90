"""How verbs show reported numbers: apart, marked, and ranked by only if asked."""

from __future__ import annotations

import csv
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.cli_runner import document, names, run
from tests.reported_rows import reported_text
from zoo.cards.catalogue import catalogue
from zoo.choosing import budget_ranking
from zoo.results.derived import summaries
from zoo.results.reported import preferred_numbers, reported_numbers
from zoo.results.reported_values import COLUMNS, FILE


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the ranks that measured encoders may have, of which nothing is asked here."""
    monkeypatch.setattr(budget_ranking, "rank_odds", partial(budget_ranking.rank_odds, n_draws=50))


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that reports of an encoder of its own, and doubtfully of a measured one."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text(VALID)
    rows = [
        {"encoder": "tiny_vitS16", "value": "99.10"},
        {"encoder": "tiny_vitS16", "value": "55.0", "protocol": "reported-zero-shot", "split": "val"},
        {"encoder": "mugs_vitb16_ep400", "value": "79.0", "protocol": "reported-knn", "doubt": "Printed twice."},
    ]
    (tmp_path / "results" / FILE).write_text(reported_text(*({**row, "standing": "authors"} for row in rows)))


def test_list_has_columns_of_their_own_that_are_marked(reports: None) -> None:
    columns = "encoder,train_test,reported,reported_linear,reported_knn,reported_zero_shot"
    result = run("list", "*", "--where", 'encoder in ("tiny_vitS16", "mugs_vitb16_ep400")', "--columns", columns)
    cells = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:]}
    assert cells["tiny_vitS16"] == ["?", "99.10*", "linear", "99.10*", ".", "55.0*"]
    assert cells["mugs_vitb16_ep400"][1:] == ["79.0*!", "k-NN", "?", "79.0*!", "."]
    assert "*  an accuracy (higher is better) that somebody reported" in result.stderr
    assert "*!  reported and doubtful" in result.stderr
    assert names("list", "--where", "reported_linear > 99") == ["tiny_vitS16"]
    assert document("list", "tiny_vitS16", "--columns", "reported_linear")["encoders"][0]["reported_linear"] == 99.1


def test_show_says_who_reported_and_where(reports: None) -> None:
    text = run("show", "tiny_vitS16").stdout
    assert "Reported (measured by none of our protocols" in text
    assert "imagenet-1k 99.10 %; 224 px; somebody: somebody/list, README.md" in text
    assert "doubtful: Printed twice." in run("show", "mugs_vitb16_ep400").stdout
    shown = document("show", "tiny_vitS16")
    assert [number["printed"] for number in shown["reported"]] == ["99.10", "55.0"]
    assert shown["results"] is None


def test_compare_shows_them_beside_each_other(reports: None) -> None:
    lines = run("compare", "tiny_vitS16", "dino_vitS16").stdout.splitlines()
    assert [line.split()[1:] for line in lines if line.startswith("reported_linear")] == [["99.10*", "77.0*"]]


def test_results_show_them_alone_and_as_they_are_printed(reports: None) -> None:
    lines = list(csv.reader(StringIO(run("results", "tiny_vitS16", "--reported", "--csv").stdout)))
    assert lines[0] == list(COLUMNS)
    assert [line[4] for line in lines[1:]] == ["99.10", "55.0"]
    knn = document("results", "--reported", "--protocol", "reported-knn", "--dataset", "IMAGENET-1K")["reported"]
    assert "mugs_vitb16_ep400" in {number["encoder"] for number in knn}
    assert {number["protocol"] for number in knn} == {"reported-knn"}
    assert "others reported 2 numbers, see --reported" in run("results", "tiny_vitS16", code=1).stderr
    assert "--setting 1% has no effect" in run("results", "--reported", "--setting", "1%", code=2).stderr


def test_recommend_ranks_by_them_only_if_it_is_told_to(reports: None) -> None:
    measured = document("recommend", "--labels", "1281167", "--top", "500")
    assert "tiny_vitS16" not in [record["encoder"] for record in measured["encoders"]]
    assert measured["not_measured"]["reported"]["reported-linear"][0]["encoder"] == "tiny_vitS16"
    told = document("recommend", "--by", "reported-linear", "--top", "500")
    assert told["encoders"][0]["encoder"] == "tiny_vitS16"
    assert told["encoders"][0]["error_measured"] is None
    values = [record["reported"]["value"] for record in told["encoders"]]
    assert values == sorted(values, reverse=True)
    modes = {catalogue()[record["encoder"]].objective.mode for record in told["encoders"]}
    assert not modes & {"supervised", "initialized"}


def test_a_user_with_labels_sees_encoders_that_nobody_measured(reports: None) -> None:
    text = run("recommend", "--labels", "1281167").stderr
    known, cards = summaries(), catalogue()
    others = [card for encoder, card in cards.items() if encoder not in known and card.weights.availability != "gone"]
    n = sum(card.objective.mode not in ("supervised", "initialized") for card in others)
    assert f"not ranked, for they were not measured on ImageNet-1K: {n};" in text
    assert "reported-linear, accuracy: tiny_vitS16 99.10*" in text
    assert "not ranked" in run("recommend", "--labels", "1281167", "--max-dim", "384").stderr


def test_a_ranking_by_reported_numbers_says_what_they_are_worth(reports: None) -> None:
    result = run("recommend", "--by", "reported-linear", "--labels", "5000", "--top", "3")
    assert "not measured here" in result.stdout.splitlines()[0]
    assert "99.10*" in result.stdout
    assert "encoders with both, nine in ten reported accuracies differ" in result.stdout
    assert "nothing of 5,000" in result.stdout
    assert "is not known: 0 encoders have both" in run("recommend", "--by", "reported-zero-shot").stdout


def test_filters_hold_for_reported_numbers_too() -> None:
    small = document("recommend", "--by", "reported-linear", "--max-parameters", "30M", "--top", "500")
    assert small["encoders"]
    assert all(record["n_parameters"] <= 30e6 for record in small["encoders"])
    assert "removes all" in run("recommend", "--by", "reported-linear", "--max-dim", "3", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("recommend",), "Missing option '--labels'", 2),
        (("recommend", "--by", "reported-liner"), "reported-linear", 2),
        (("recommend", "--by", "reported-linear", "--dataset", "shapes"), "has no effect", 2),
        (("results", "init_rn50", "--reported"), "Nothing was reported of init_rn50", 1),
        (("results", "dino_vitS16", "--reported", "--dataset", "imagenet"), "did you mean imagenet-1k", 2),
    ],
)
def test_refusals_are_one_sentence(arguments: tuple[str, ...], message: str, code: int) -> None:
    assert message in run(*arguments, code=code).stderr


def test_what_is_listed_is_what_is_preferred() -> None:
    preferred = preferred_numbers()
    listed = document("list", "--columns", "reported_linear")["encoders"]
    known = {record["encoder"]: record["reported_linear"] for record in listed if record["reported_linear"] is not None}
    assert known == {
        encoder: found["reported-linear"].value for encoder, found in preferred.items() if "reported-linear" in found
    }
    assert {one.encoder for one in reported_numbers() if one.is_of_imagenet} == preferred.keys()
