"""One run of studies as a plain document: what ``--json`` prints, and what the report's files are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

from ..analysis.estimates import records
from ..analysis.table import StudyTable
from ..version import __version__
from .findings import Claim, Findings, Verdict
from .running import StudyRun

VERDICTS: tuple[str, ...] = get_args(Verdict)
"""From the best to the worst."""
FORMAT = "zoo-study-1"


def document_of(runs: Sequence[StudyRun]) -> dict[str, Any]:
    """Everything but the drawings, as JSON can hold it; a missing number is None."""
    table = runs[0].table
    return {
        "format": FORMAT,
        "version": __version__,
        "table": {
            "name": table_name(table),
            "encoders": len(table),
            "corrected": table.corrected,
            "mine": list(table.mine),
            "left_out": {reason: list(encoders) for reason, encoders in table.left_out.items()},
        },
        "verdicts": verdict_counts(claim for run in runs for claim in run.findings.claims),
        "studies": [_study(run) for run in runs],
    }


def table_name(table: StudyTable) -> str:
    """How to speak of a table: as published, or corrected; and with whose encoders."""
    name = "corrected" if table.corrected else "as published"
    n_mine = len(table.mine)
    return f"{name}, with {n_mine} encoder{'s' * (n_mine != 1)} of yours" if n_mine else name


def other_name(run: StudyRun) -> str:
    """How to speak of the second table of a run."""
    return "as published" if run.table.corrected or run.table.mine else "corrected"


def verdict_counts(claims: Any) -> dict[str, int]:
    """Number of claims by verdict, in the order of :data:`VERDICTS`."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def differing(run: StudyRun) -> dict[str, str]:
    """By claim, what the other table says where it says something else."""
    if run.other is None:
        return {}
    others = {claim.claim: claim for claim in run.other.claims}
    found = {}
    for claim in run.findings.claims:
        other = others.get(claim.claim)
        if other is None:
            found[claim.claim] = "not available"
        elif other.ours != claim.ours:
            found[claim.claim] = other.ours
    return found


def figure_file(study: str, figure: str) -> str:
    """Where a report has a figure, without suffix; there is one as .png and one as .svg."""
    return f"figures/{study}-{figure}"


def _study(run: StudyRun) -> dict[str, Any]:
    different = differing(run)
    document = {
        "name": run.study.name,
        "question": run.study.question,
        "verdicts": verdict_counts(run.findings.claims),
        "claims": [_claim(claim, different.get(claim.claim)) for claim in run.findings.claims],
        **_numbers(run.findings),
        "notes": list(run.findings.notes),
        "figures": [
            {
                "name": figure.name,
                "title": figure.title,
                "caption": figure.caption,
                "file": figure_file(run.study.name, figure.name),
            }
            for figure in run.findings.figures
        ],
    }
    if run.other is not None:
        document["other_table"] = {"name": other_name(run), **_numbers(run.other)}
    return document


def _claim(claim: Claim, different: str | None) -> dict[str, Any]:
    plain = asdict(claim)
    return plain if different is None else plain | {"ours_on_other_table": different}


def _numbers(findings: Findings) -> dict[str, Any]:
    return {
        "estimates": records(findings.estimates),
        "tables": [
            {"title": table.title, "headers": list(table.headers), "rows": [list(row) for row in table.rows],
             "note": table.note}
            for table in findings.tables
        ],
        "rows": [
            {"part": rows.part, "used": int(rows.used), "unit": rows.unit,
             "left_out": {reason: int(number) for reason, number in rows.left_out.items()}}
            for rows in findings.rows
        ],
    }  # fmt: skip
