"""Numbers that somebody reported: the shipped file, those of cards, which one listings show, and wrong rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli_runner import document
from tests.conftest import REPOSITORY
from tests.each import for_each
from tests.reported_rows import ROW, reported_text
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import Missing
from zoo.errors import ContentWarning
from zoo.results.evidence import read_evidence_origins
from zoo.results.reported import reported_numbers, select_preferred_accuracies
from zoo.results.reported_values import CARD, EVIDENCE, FILE, METRICS, PREFIX, PROTOCOLS, ReportedNumber, choose
from zoo.results.rows import measurements
from zoo.results.vocabulary import METRICS as MEASURED

Report = Callable[..., Path]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Makes a home whose reported.tsv has a row for each set of changes to ROW."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "results").mkdir()

    def write(*changes: dict[str, str]) -> Path:
        path = tmp_path / "results" / FILE
        path.write_text(reported_text(*changes))
        return path

    return write


def test_reported_and_measured_share_neither_words_nor_rows() -> None:
    assert all(name.startswith(PREFIX) for name in PROTOCOLS)
    assert not METRICS.keys() & MEASURED.keys()
    assert not any(row.protocol.startswith(PREFIX) or row.metric in METRICS for row in measurements())


def test_what_cards_state_are_reported_numbers_of_the_right_kind() -> None:
    stated = {(one.encoder, one.place): one for one in reported_numbers() if one.source == CARD}
    expected = {}
    for card in load_catalogue().values():
        for name in ("top1_percent", "top1_percent_with_1_percent_labels", "top1_percent_with_5_shot"):
            value = getattr(card.reported, name)
            if not isinstance(value, Missing):
                expected[card.id, f"reported.{name}"] = value
    assert {key: one.value for key, one in stated.items()} == expected
    supervised = {encoder for encoder, card in load_catalogue().items() if card.objective.mode == "supervised"}
    heads = {encoder for (encoder, _), one in stated.items() if one.protocol == "reported-own-head"}
    assert heads and heads == {encoder for encoder, place in stated if encoder in supervised}
    assert stated["sup_rn101", "reported.top1_percent"].printed == "77.374"


def test_rows_of_the_users_own_join_and_never_become_measurements(report: Report) -> None:
    before, measured = reported_numbers("dino_vitS16"), measurements(encoders="dino_vitS16")
    report({"encoder": "DINO_vits16"})
    (new,) = [one for one in reported_numbers("dino_vitS16") if one not in before]
    assert (new.encoder, new.value, new.printed, new.standing) == ("dino_vitS16", 77.1, "77.10", "third party")
    assert measurements(encoders="dino_vitS16") == measured


CHOICES: list[tuple[list[dict[str, str]], str]] = [
    ([{"value": "80.0"}, {"value": "79.0", "place": "b"}], "79.0"),  # never the more flattering one
    ([{"value": "79.0"}, {"value": "80.0", "standing": "authors", "place": "b"}], "80.0"),
    ([{"value": "79.0"}, {"value": "80.0", "standing": "reproduction", "place": "b"}], "80.0"),
    ([{"value": "79.0", "standing": "second hand"}, {"value": "80.0", "place": "b"}], "80.0"),
    ([{"value": "79.0", "resolution": "448"}, {"value": "80.0", "place": "b"}], "80.0"),  # the card's size is 224
    ([{"value": "79.0", "standing": "authors", "doubt": "A copy."}, {"value": "80.0", "place": "b"}], "80.0"),
    ([{"value": "79.0", "dataset": "ImageNet-V2", "split": ""}, {"value": "80.0"}], "80.0"),
]


@for_each(CHOICES, name=lambda case: str(case[0]), arguments=2)
def test_of_several_numbers_lists_show(changes: list[dict[str, str]], expected: str) -> None:
    rows = [{**ROW, **change} for change in changes]
    numbers = [
        ReportedNumber(printed=row["value"], **{**row, "value": float(row["value"])})  # type: ignore[arg-type]
        for row in rows
    ]
    card = load_catalogue()["dino_vitS16"]
    assert choose(numbers, card)["reported-linear"].printed == expected
    assert choose(numbers[::-1], card)["reported-linear"].printed == expected


WRONG = {
    "encoder": ("nosuch_encoder", "expected the id of a card"),
    "metric": ("linear_probe_error", "expected a metric of reported numbers"),
    "unit": ("fraction", "expected percent"),
    "protocol": ("reported-liner", "near are: 'reported-linear'"),
    "standing": ("enemies", "expected one of authors, reproduction, third party, second hand"),
    "split": ("val", "column 'split': found 'val', expected nothing, but of imagenet-1k 'train -> val'"),
    "date": ("2026-13", "expected a date like '2026-11-22' or '2026-11'"),
    "resolution": ("224px", "expected pixels such as '224'"),
    "value": ("77,1", "expected a number as it is printed, from 0 to 100"),
    "source": ("", "column 'source': found nothing, expected a text"),
    "place": (" ", "column 'place': found ' ', expected a text"),
}


def test_a_wrong_cell_of_the_users_is_left_out_with_a_sentence_that_names_it(report: Report) -> None:
    path = report(*({column: text} for column, (text, _) in WRONG.items()), {"value": "78.2"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        numbers = reported_numbers("dino_vitS16")
    assert [one.printed for one in numbers if one.source == "somebody/list"] == ["78.2"]
    sentences = [str(one.message) for one in caught if issubclass(one.category, ContentWarning)]
    for line, (column, (_, expected)) in enumerate(WRONG.items(), start=2):
        (sentence,) = [text for text in sentences if text.startswith(f"{path}, line {line}, column {column!r}: ")]
        assert expected in sentence and "\n" not in sentence


def test_a_damaged_file_of_the_users_stops_nothing(report: Report) -> None:
    whole, before = report({}).read_text(), reported_numbers("dino_rn50")
    for text, message in (
        (whole[:-1], "the file breaks off"),
        (whole.replace("encoder\t", "model\t", 1), "line 1: found model metric"),
        (whole + whole.split("\n")[1] + "\n", "line 3: found 77.10 for what .*line 2 has already"),
        (whole.replace("\tREADME.md", "", 1), "line 2: found 15 fields, expected 16"),
    ):
        report({}).write_text(text)
        with pytest.warns(ContentWarning, match=message):
            assert reported_numbers("dino_rn50") == before


def test_the_shipped_rows_have_every_printed_digit() -> None:
    results = REPOSITORY / "results"
    evidence = [results / EVIDENCE / f"{name}.tsv" for name in read_evidence_origins()]
    files = [path.read_text().split("\n") for path in (results / FILE, *evidence)]
    rows = [line.split("\t") for lines in files for line in lines[1:-1]]
    read = [one for one in reported_numbers() if one.source != CARD]
    assert sorted((row[0], row[4]) for row in rows) == sorted((one.encoder, one.printed) for one in read)


def test_an_own_number_is_preferred_by_the_same_rules_and_the_doctor_names_a_wrong_one(report: Report) -> None:
    path = report({"encoder": "init_vitS16", "value": "9.0", "doubt": "Printed twice."}, {"value": "many"})
    checks = {check["name"]: check for check in document("doctor", "--offline", code=1)["checks"]}
    assert f"{path}, line 3, column 'value'" in checks["your own results"]["detail"]
    with pytest.warns(ContentWarning):
        one = select_preferred_accuracies()["init_vitS16"]["reported-linear"]
    assert (one.value, one.printed, one.is_doubtful) == (9.0, "9.0", True)
