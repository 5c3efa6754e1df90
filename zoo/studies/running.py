"""Runs studies on a table, and on the published one beside it, so that a changed number is told from a wrong one.

The verdict of a claim belongs to the table as published, for that is what the paper speaks of. With encoders of the
user added it stays what it was there. On the corrected table a claim that agreed on the published rows and no longer
does is *corrected*; no claim fares better there than on the published rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis.table import StudyTable, study_table
from ..analysis.threads import one_thread
from ..errors import QueryError
from .findings import Claim, Findings
from .known import Study, load_study
from .options import StudyOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """What one study found, on one table and perhaps on a second one."""

    study: Study
    table: StudyTable
    findings: Findings
    other: Findings | None = None  # of the same study on the other table: corrected if ``table`` is as published


@one_thread()
def run_studies(
    chosen: Sequence[Study],
    *,
    corrected: bool = False,
    with_mine: bool = False,
    compare: bool = False,
    options: StudyOptions | None = None,
) -> list[StudyRun]:
    """Runs studies one after the other.

    Parameters
    ----------
    chosen : sequence of Study
        In the order in which they run.
    corrected, with_mine : bool
        Which table, see :func:`zoo.analysis.table.study_table`.
    compare : bool
        Run on the corrected table too where the chosen one is as published, for a report that shows both. Another table
        than the published one is always compared with that.
    options : StudyOptions, optional
        Seed, tuning and the like.

    Raises
    ------
    QueryError
        If a study cannot be answered on this table; names the study.
    ZooError
        If content is missing or wrong, or a library is not installed.
    """
    settings = options or StudyOptions()
    functions = [load_study(study) for study in chosen]  # all of them first: a missing library shows before any work
    table = study_table(corrected=corrected, with_mine=with_mine)
    is_published = not corrected and not table.mine
    other_table = study_table(corrected=is_published) if compare or not is_published else None
    corrected_table = study_table(corrected=True) if corrected and table.mine else table
    runs = []
    for position, (study, function) in enumerate(zip(chosen, functions, strict=True)):
        steps = _in_study(settings, study, position, len(chosen))
        findings = _answered(study, function(table, steps))
        other = None
        if other_table is not None:  # with the trees' stored settings, for a search would be done twice
            other = _answered(study, function(other_table, replace(steps, tune=False)))
        if other is not None and not is_published:
            known = other.claims
            if corrected and table.mine:  # the errata may change a verdict, the user's encoders may not
                without = _answered(study, function(corrected_table, replace(steps, tune=False)))
                known = _against_published(without.claims, known, corrected_table)
            findings = replace(findings, claims=_against_published(findings.claims, known, table))
        runs.append(StudyRun(study=study, table=table, findings=findings, other=other))
    settings.progress("done", len(chosen), len(chosen))
    return runs


def _in_study(options: StudyOptions, study: Study, position: int, total: int) -> StudyOptions:
    def progress(what: str, done: int, steps: int) -> None:
        options.progress(f"{study.name}: {what} {done}/{steps}" if steps else f"{study.name}: {what}", position, total)

    options.progress(study.name, position, total)
    return replace(options, progress=progress)


def _answered(study: Study, findings: Findings) -> Findings:
    """Refuses claims that could not be told apart or that say nothing, before anybody reads them."""
    if not isinstance(findings, Findings):
        raise QueryError(
            f"The study {study.path} returned a {type(findings).__name__}, expected Findings of zoo.studies.findings."
        )
    names = [claim.claim for claim in findings.claims]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise QueryError(f"The study {study.path} makes the claim {repeated!r} twice; give each its own words.")
    unexplained = next((claim for claim in findings.claims if claim.verdict != "agrees" and not claim.reason), None)
    if unexplained is not None:
        raise QueryError(f"The study {study.path} gives no reason for {unexplained.claim!r}; add one line.")
    return findings


def _against_published(claims: Sequence[Claim], published: Sequence[Claim], table: StudyTable) -> list[Claim]:
    """Verdicts of claims on a changed table, knowing how they came out on the published rows."""
    before = {claim.claim: claim for claim in published}
    return [_judged(claim, before[claim.claim], table) if claim.claim in before else claim for claim in claims]


def _judged(claim: Claim, known: Claim, table: StudyTable) -> Claim:
    """A claim with the verdict that it had on the table before: published, or corrected without the user's encoders."""
    if table.mine:
        if claim.ours == known.ours:
            return replace(claim, verdict=known.verdict, reason=known.reason, rests_on=known.rests_on)
        mine = f"{len(table.mine)} encoder{'s' * (len(table.mine) != 1)} of yours"
        reason = f"without {mine}, {known.ours}" + (f": {known.reason}" if known.reason else "")
        return replace(claim, verdict=known.verdict, reason=reason, rests_on=known.rests_on)
    if known.verdict != "agrees":
        reason = f"on the published rows, {known.ours}: {known.reason}"
        return replace(claim, verdict=known.verdict, reason=reason, rests_on=known.rests_on)
    if claim.verdict == "agrees":
        return claim
    reason = f"{known.ours} on the published rows, which agrees; here errata applied and components signed"
    return replace(claim, verdict="corrected", reason=reason)
