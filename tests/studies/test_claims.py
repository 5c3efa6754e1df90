"""Verdicts: computed from numbers, at the printed precision."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.each import for_each
from zoo.analysis.columns import Estimate
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import (
    ClaimAnswer,
    agrees_at_precision,
    answer_claim,
    find_estimate,
    has_interval_without_zero,
    number_claim,
    require_estimates,
)


@for_each(
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
    arguments=3,
)
def test_a_value_agrees_if_it_is_the_printed_number_at_its_precision(printed: str, value: float, agrees: bool) -> None:
    assert agrees_at_precision(printed, value) is agrees


def test_what_is_no_printed_number_is_refused() -> None:
    with pytest.raises(ValueError, match="'about 3'"):
        agrees_at_precision("about 3", 3)


INSIDE, OUTSIDE, WIDE = (0.30, 0.80), (0.61, 0.80), (-0.70, 0.80)


@for_each(
    [
        ("0.60", 0.604, {}, "agrees"),
        ("0.60", 0.604, {"interval": OUTSIDE}, "agrees"),  # what rounds to it needs no interval
        ("0.60", 0.55, {"interval": INSIDE}, "compatible"),
        ("0.60", 0.55, {"interval": OUTSIDE}, "not reproducible"),
        ("0.60", 0.55, {"interval": WIDE}, "not reproducible"),  # it would hold nearly every number
        ("60", 55.0, {"interval": (3.0, 80.0), "widest": 100.0}, "compatible"),  # in percent
        ("60", 55.0, {"interval": (3.0, 80.0)}, "not reproducible"),
        ("0.60", 0.55, {"interval": (None, None)}, "not reproducible"),
        ("0.60", None, {"interval": INSIDE}, "not reproducible"),
        ("<0.60", 0.65, {"interval": INSIDE}, "not reproducible"),  # a bound has no place in an interval
        ("0.60", 0.55, {"interval": INSIDE, "as_the_paper_did": 0.601}, "corrected"),  # a proof goes before a chance
        ("0.60", 0.55, {"interval": INSIDE, "as_the_paper_did": 0.62}, "compatible"),
        ("0.60", 0.607, {"cut_off": True}, "corrected"),
        ("0.60", 0.607, {}, "not reproducible"),
        ("0.60", 0.597, {"cut_off": True}, "agrees"),
        ("0.60", 0.617, {"cut_off": True}, "not reproducible"),
        ("<1e-9", 2e-4, {"misprint_of": "4e-9", "as_the_paper_did": 3.96e-9}, "corrected"),
        ("<1e-9", 2e-4, {"misprint_of": "4e-9", "as_the_paper_did": 3.2e-9}, "not reproducible"),
    ],
    arguments=4,
)
def test_one_rule_gives_every_verdict(printed: str, ours: float | None, more: dict[str, Any], verdict: str) -> None:
    claim = number_claim("x", source="s", printed=printed, ours=ours, reason="r", **more)
    assert claim.verdict == verdict
    assert bool(claim.reason) == (verdict != "agrees")


def test_a_caveat_is_shown_whatever_the_verdict() -> None:
    agreeing = number_claim("x", source="s", printed="4e-2", ours=0.042, reason="never shown", caveat="HC3 undoes it")
    assert (agreeing.verdict, agreeing.reason) == ("agrees", "HC3 undoes it")
    other = number_claim("x", source="s", printed="4e-2", ours=0.052, reason="why", caveat="HC3 undoes it")
    assert other.reason == "why; HC3 undoes it"


ESTIMATE = Estimate(term="usability", outcome="train_test", value=0.4, ci_low=0.1, ci_high=0.7, n=9, unit="tau")


def ask(answer: ClaimAnswer | Exception) -> tuple[str, str, str]:
    def compute() -> ClaimAnswer:
        if isinstance(answer, Exception):
            raise answer
        return answer

    claim = answer_claim("It falls", source="Figure 4", paper="falls", answer=compute)
    return claim.ours, claim.verdict, claim.reason


def test_an_answer_decides_the_verdict() -> None:
    assert ask(ClaimAnswer(ours="-3", holds=True, reason="unused")) == ("-3", "agrees", "")
    assert ask(ClaimAnswer(ours="+1", holds=False, reason="it rises")) == ("+1", "not reproducible", "it rises")
    assert ask(ClaimAnswer(ours="+1", holds=False, held_as_the_paper_did=True, reason="a fault")) == (
        "+1",
        "corrected",
        "a fault",
    )


def test_what_a_table_cannot_answer_is_not_available_for_the_reason_it_gives() -> None:
    assert ask(QueryError("No encoder is of 2016.")) == ("not available", "not reproducible", "No encoder is of 2016.")
    assert ask(UnknownName("column", "usabilty", ["usability"]))[0] == "not available"


def test_a_fault_of_the_program_is_no_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(ZeroDivisionError("1 / 0"))


def test_an_estimate_is_found_by_term_and_outcome_or_missed_in_one_sentence() -> None:
    assert find_estimate([ESTIMATE], "usability", "train_test") is ESTIMATE
    with pytest.raises(QueryError, match=r"^Too few encoders of the table have what usability with enc_gen needs"):
        find_estimate([ESTIMATE], "usability", "enc_gen")
    with pytest.raises(QueryError, match=r"^Too few encoders of the table have components to compare"):
        require_estimates([], "components")


def test_an_interval_excludes_zero_only_if_there_is_one() -> None:
    assert has_interval_without_zero(ESTIMATE)
    assert not has_interval_without_zero(ESTIMATE.described(ci_low=-0.1))
    assert not has_interval_without_zero(ESTIMATE.described(ci_low=None, ci_high=None))
