"""Claims that a table may be unable to answer: too few years, an encoder that is not there, a risk not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..analysis.estimates import Estimate
from ..errors import QueryError, UnknownName
from .claims import statement_claim
from .findings import Claim

NOT_AVAILABLE = "not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a table says of a statement, as computed."""

    ours: str
    holds: bool
    held_as_the_paper_did: bool = False
    contradicted: bool = False
    reason: str = ""
    caveat: str = ""
    rests_on: str = ""
    value: float | None = None


def answered(claim: str, *, source: str, paper: str, answer: Callable[[], Answer]) -> Claim:
    """The claim with its answer, or "not available" and the reason where the table cannot give one.

    Parameters
    ----------
    answer : callable
        Computes; a :class:`~zoo.errors.QueryError` or :class:`~zoo.errors.UnknownName` that it raises is the reason.
    """
    try:
        found = answer()
    except (QueryError, UnknownName) as error:
        return statement_claim(claim, source=source, paper=paper, ours=NOT_AVAILABLE, holds=False, reason=str(error))
    return statement_claim(
        claim, source=source, paper=paper, ours=found.ours, holds=found.holds,
        held_as_the_paper_did=found.held_as_the_paper_did, contradicted=found.contradicted, reason=found.reason,
        caveat=found.caveat, rests_on=found.rests_on, value=found.value,
    )  # fmt: skip


def one_of(estimates: Sequence[Estimate], term: str, outcome: str) -> Estimate:
    """The estimate of a term and outcome.

    Raises
    ------
    QueryError
        If it was not estimated, because too few encoders have what it needs.
    """
    for estimate in estimates:
        if (estimate.term, estimate.outcome) == (term, outcome):
            return estimate
    raise QueryError(f"Too few encoders of the table have what {term} with {outcome} needs; measure some.")


def some_of(estimates: Sequence[Estimate], what: str) -> Sequence[Estimate]:
    """The estimates, if there are any.

    Raises
    ------
    QueryError
        If there are none, because too few encoders have ``what``.
    """
    if not estimates:
        raise QueryError(f"Too few encoders of the table have {what} to compare; measure some.")
    return estimates


def undone_by_hc3(estimate: Estimate, *, level: float = 0.05) -> str:
    """What HC3 standard errors say of a p-value below ``level`` that is not below it with them; empty if it stays.

    >>> one = Estimate(term="log(z_dim)", value=-4.0, p=0.01, p_robust=0.2, n=30, unit="points")
    >>> undone_by_hc3(one), undone_by_hc3(one.described(p_robust=0.02)), undone_by_hc3(one.described(p=0.3))
    ('with HC3 standard errors, which allow for unequal variances, p is 0.2', '', '')
    """
    if estimate.p is None or estimate.p >= level:
        return ""
    if estimate.p_robust is None:
        return "HC3 standard errors, which allow for unequal variances, cannot be had, so that p stands unchecked"
    if estimate.p_robust < level:
        return ""
    return f"with HC3 standard errors, which allow for unequal variances, p is {estimate.p_robust:.2g}"


def excludes_zero(estimate: Estimate) -> bool:
    """True if there is an interval and 0 lies outside."""
    low, high = estimate.ci_low, estimate.ci_high
    return low is not None and high is not None and not low <= 0 <= high
