"""Claims that a table may be unable to answer."""

from __future__ import annotations

import pytest

from zoo.analysis.columns import Estimate
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import Answer, answered, excludes_zero, one_of, some_of

ESTIMATE = Estimate(term="usability", outcome="train_test", value=0.4, ci_low=0.1, ci_high=0.7, n=9, unit="tau")


def ask(answer: Answer | Exception) -> tuple[str, str, str]:
    def compute() -> Answer:
        if isinstance(answer, Exception):
            raise answer
        return answer

    claim = answered("It falls", source="Figure 4", paper="falls", answer=compute)
    return claim.ours, claim.verdict, claim.reason


def test_an_answer_decides_the_verdict() -> None:
    assert ask(Answer(ours="-3", holds=True, reason="unused")) == ("-3", "agrees", "")
    assert ask(Answer(ours="+1", holds=False, reason="it rises")) == ("+1", "not reproducible", "it rises")
    assert ask(Answer(ours="+1", holds=False, held_as_the_paper_did=True, reason="a fault")) == (
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
    assert one_of([ESTIMATE], "usability", "train_test") is ESTIMATE
    with pytest.raises(QueryError, match=r"^Too few encoders of the table have what usability with enc_gen needs"):
        one_of([ESTIMATE], "usability", "enc_gen")
    with pytest.raises(QueryError, match=r"^Too few encoders of the table have components to compare"):
        some_of([], "components")


def test_an_interval_excludes_zero_only_if_there_is_one() -> None:
    assert excludes_zero(ESTIMATE)
    assert not excludes_zero(ESTIMATE.described(ci_low=-0.1))
    assert not excludes_zero(ESTIMATE.described(ci_low=None, ci_high=None))
