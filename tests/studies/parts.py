"""What a study finds, and one claim or estimate of it, for the tests of studies."""

from __future__ import annotations

from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyFunction, StudyOptions


def find(study: StudyFunction, table: StudyTable) -> Findings:
    """What it finds on a table, without options."""
    found = study(table, StudyOptions())
    assert isinstance(found, Findings)
    return found


def claim(findings: Findings, words: str) -> Claim:
    """The claim with these words, of which there must be one."""
    (found,) = [one for one in findings.claims if words in one.claim]
    return found


def one(findings: Findings, term: str, outcome: str) -> Estimate:
    """The estimate of a term and an outcome, of which there must be one."""
    (estimate,) = [one for one in findings.estimates if (one.term, one.outcome) == (term, outcome)]
    return estimate
