"""Verdicts: computed from numbers, at the printed precision."""

from __future__ import annotations

import math

import pytest

from zoo.studies.claims import agrees_with, number_claim, statement_claim


@pytest.mark.parametrize(
    ("printed", "value", "agrees"),
    [
        ("-3.9", -3.94, True),
        ("-3.9", -3.96, False),
        ("3.9", -3.9, False),
        ("4e-9", 4.49e-9, True),
        ("4e-9", 4.51e-9, False),
        ("2.5e-3", 2.54e-3, True),
        ("<1e-9", 1e-10, True),
        ("<1e-9", 1e-9, False),
        (">3", 3.1, True),
        ("93", 93.49, True),
        ("93", 93.51, False),
        (".51", 0.5149, True),
        ("0.3", 0.25, True),
        ("41.35 %", 41.3451, True),
        ("10.77", 10.774, True),
        ("1", math.nan, False),
    ],
)
def test_a_value_agrees_if_it_is_the_printed_number_at_its_precision(printed: str, value: float, agrees: bool) -> None:
    assert agrees_with(printed, value) is agrees


def test_what_is_no_printed_number_is_refused() -> None:
    with pytest.raises(ValueError, match="'about 3'"):
        agrees_with("about 3", 3)


def test_a_number_that_only_the_papers_own_fault_gives_is_corrected() -> None:
    claim = number_claim("x", source="D.1", printed="4e-9", ours=2.2e-4, as_the_paper_did=3.96e-9, reason="rows twice")
    assert (claim.verdict, claim.reason, claim.ours) == ("corrected", "rows twice", "2.2e-04")


def test_a_number_that_nothing_gives_is_not_reproducible_and_says_why() -> None:
    claim = number_claim("x", source="D.1", printed="0.6", ours=0.8, as_the_paper_did=0.7)
    assert claim.verdict == "not reproducible"
    assert claim.reason


def test_a_number_that_agrees_needs_no_reason() -> None:
    claim = number_claim("x", source="D.1", printed="-3.9", ours=-3.8812, reason="never shown")
    assert (claim.verdict, claim.reason, claim.ours, claim.value) == ("agrees", "", "-3.88", -3.8812)


def test_a_misprint_is_corrected_by_what_should_have_been_printed() -> None:
    assert (
        number_claim("x", source="D.5", printed="2e-3", ours=0.0243, misprint_of="2e-2", reason="r").verdict
        == "corrected"
    )
    other = number_claim("x", source="D.5", printed="2e-3", ours=0.043, misprint_of="2e-2", reason="r")
    assert other.verdict == "not reproducible"


def test_a_count_settles_what_another_number_does_not() -> None:
    assert number_claim("x", source="E.1", printed="2", ours=23, settled=True, reason="r").verdict == "corrected"
    assert number_claim("x", source="E.1", printed="2", ours=2, settled=True, reason="r").verdict == "agrees"
    assert (
        number_claim("x", source="E.1", printed="2", ours=None, settled=True, reason="r").verdict == "not reproducible"
    )


def test_a_statement_whose_opposite_the_rows_show_is_corrected() -> None:
    claim = statement_claim("x", source="F.2", paper="a", ours="b", holds=False, contradicted=True, reason="r")
    assert claim.verdict == "corrected"


def test_what_the_data_do_not_identify_never_agrees() -> None:
    claim = number_claim("x", source="D.4", printed="3e-4", ours=None, as_the_paper_did=3.1e-4, reason="collinear")
    assert (claim.verdict, claim.ours) == ("corrected", "not identified")


@pytest.mark.parametrize(
    ("holds", "held", "verdict"),
    [(True, False, "agrees"), (False, True, "corrected"), (False, False, "not reproducible")],
)
def test_a_statement_gets_the_verdict_of_its_computation(holds: bool, held: bool, verdict: str) -> None:
    claim = statement_claim("x", source="5.1", paper="a", ours="b", holds=holds, held_as_the_paper_did=held, reason="r")
    assert claim.verdict == verdict
