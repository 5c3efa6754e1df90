"""What a study returns: claims held against the paper, estimates, tables, figures, and the rows behind them.

A verdict is computed, never written down. One rule decides every number, and the first verdict that fits is given:

* it *agrees* if ours is the printed one at the printed precision;
* it is *corrected* if the rows settle that the printed one is wrong: the paper's own computation, fault included, gives
  the printed number; or that is a misprint, or cut off where it should have been rounded; or a count;
* it is *compatible* if the printed number is of other encoders, folds or random splits than ours and lies within our
  95 % interval over these, which is no wider than half a unit, a quarter of all correlations and half of a variance
  (50 where it is in percent);
* it is *not reproducible* if nothing of this holds, or if what it needs was never published.

A statement agrees if it holds on our rows, is corrected if it held by the paper's own computation with a fault or if
the rows show the opposite, and is not reproducible otherwise: words have no interval to be compatible with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..analysis.columns import Estimate
from ..errors import QueryError, UnknownName
from ..evaluation.drawing import Figure

if TYPE_CHECKING:
    import pandas as pd


Verdict = Literal["agrees", "compatible", "corrected", "not reproducible"]
"""What a printed number or statement comes to; the module says by which rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement of the paper, and what the table says of it."""

    claim: str  # "Larger z_dim lowers usability error (coefficient of log z_dim)"; unique within a study
    source: str  # where it is printed: "Appendix D.1", "Table 9"
    paper: str  # what is printed: "-3.9"
    ours: str  # what we get: "-3.82"
    verdict: Verdict
    reason: str = ""  # one line; never empty unless it agrees, and then a caveat
    value: float | None = None  # the number behind ``ours``, if it is one
    rests_on: str = ""  # if a handful of encoders decide the verdict, which: "one encoder, of sela"


def format_verdict(verdict: str, rests_on: str) -> str:
    """A verdict as it is shown, with the encoders that alone decide it.

    >>> format_verdict("corrected", "one encoder, of sela"), format_verdict("agrees", "")
    ('corrected (rests on one encoder, of sela)', 'agrees')
    """
    return f"{verdict} (rests on {rests_on})" if rests_on else verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """How many rows one part of a study used, and why it left the others out."""

    part: str  # "Figure 4", "controlled, z_dim"
    used: int
    unit: str = "encoders"
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> number


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsTable:
    """A table of a report; numbers are shown as the cells' own text."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @classmethod
    def of(cls, title: str, frame: pd.DataFrame, *, digits: int = 2, note: str = "") -> FindingsTable:
        """A DataFrame without its index; numbers rounded, missing cells empty."""

        def text(cell: object) -> str:
            if isinstance(cell, bool):
                return "yes" if cell else "no"
            if isinstance(cell, float):
                return "" if cell != cell else f"{cell:.{digits}f}"
            return "" if cell is None else str(cell)

        rows = [[text(cell) for cell in row] for row in frame.astype(object).itertuples(index=False)]
        return cls(title=title, headers=[str(name) for name in frame.columns], rows=rows, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that one study found on one table."""

    claims: Sequence[Claim]
    answer: str = ""  # to the question, one sentence with its main numbers; none of the user's studies needs one
    estimates: Sequence[Estimate] = ()
    tables: Sequence[FindingsTable] = ()
    figures: Sequence[Figure] = ()
    rows: Sequence[RowsUsed] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # further texts for the report: name of the file -> text
    notes: Sequence[str] = ()  # what is not identified, what a reader should not conclude


TOO_FEW = "Too few rows to say."


def answer_in_sentence(answer: Callable[[], str]) -> str:
    """The answer, or that rows are too few where a QueryError or UnknownName says so."""
    try:
        return answer()
    except (QueryError, UnknownName):
        return TOO_FEW


def require_value(estimate: Estimate) -> float:
    """The value of an estimate; QueryError if it has none."""
    if estimate.value is None:
        raise QueryError(f"{estimate.term} is not identified; choose a larger table.")
    return estimate.value


def format_statement(estimate: Estimate, digits: int = 2, *, unit: str = "", is_turned: bool = False) -> str:
    """A value with its interval for a sentence; ``is_turned`` shows it with the other sign, as of less instead of more.

    >>> one = Estimate(term="slope", value=-2.0, ci_low=-3.5, ci_high=-0.5, n=9, unit="points")
    >>> format_statement(one, 1), format_statement(one, 1, unit="points", is_turned=True)
    ('-2.0 (-3.5 to -0.5)', '2.0 points (0.5 to 3.5)')
    """
    sign = -1 if is_turned else 1
    text = f"{sign * require_value(estimate):.{digits}f}" + (f" {unit}" if unit else "")
    if estimate.ci_low is None or estimate.ci_high is None:
        return text
    low, high = sorted((sign * estimate.ci_low, sign * estimate.ci_high))
    return f"{text} ({low:.{digits}f} to {high:.{digits}f})"


WIDEST = 0.5
"""Width of a 95 % interval of a correlation or a share of variance beyond which it holds nearly anything."""
Interval = tuple[float | None, float | None]
_NUMBER = re.compile(r"([<>]?)\s*([+-]?\d*\.?\d+)(?:e([+-]?\d+))?(\s*%)?$")


def agrees_at_precision(printed: str, value: float) -> bool:
    """True if a value is the printed number at its printed precision; ``<1e-9`` and ``>3`` are bounds.

    >>> agrees_at_precision("-3.9", -3.8841), agrees_at_precision("4e-9", 4.4e-9), agrees_at_precision("<1e-9", 3e-12)
    (True, True, True)
    >>> agrees_at_precision("-3.9", -3.82), agrees_at_precision(".51", 0.5051)
    (False, True)
    """
    bound, number, decimals = _read(printed)
    if math.isnan(value):
        return False
    if bound:
        return value < number if bound == "<" else value > number
    # half a unit of the last printed place, and a little for the ties that binary fractions blur
    return abs(value - number) <= 0.5 * 10.0**-decimals * (1 + 1e-9)


def is_cut_off(printed: str, value: float) -> bool:
    """True if the printed number is a value whose further digits were left out instead of rounded.

    >>> is_cut_off("-.58", -0.588), is_cut_off("-.58", -0.581), is_cut_off("-.58", -0.579)
    (True, True, False)
    """
    bound, number, decimals = _read(printed)
    if bound or not math.isfinite(value):
        return False
    scaled = value * 10.0**decimals
    return math.isclose(math.trunc(scaled * (1 + 1e-9)), number * 10.0**decimals, abs_tol=1e-6)


def is_compatible(printed: str, interval: Interval | None, *, widest: float = WIDEST) -> bool:
    """True if the printed number lies within an interval that is no wider than ``widest``.

    >>> is_compatible("0.26", (-0.04, 0.35)), is_compatible("0.42", (-0.04, 0.35)), is_compatible("0.42", (0.1, 0.8))
    (True, False, False)
    """
    bound, number, _ = _read(printed)
    low, high = interval or (None, None)
    if bound or low is None or high is None:
        return False
    return low <= number <= high and high - low <= widest


def number_claim(
    claim: str,
    *,
    source: str,
    printed: str,
    ours: float | None,
    as_the_paper_did: float | None = None,
    misprint_of: str | None = None,
    cut_off: bool = False,
    settled: bool = False,
    interval: Interval | None = None,
    widest: float = WIDEST,
    reason: str = "",
    caveat: str = "",
    shown: str | None = None,
) -> Claim:
    """A printed number next to ours, with its verdict by the rule at the top of this module.

    ``ours`` is by a sound computation, None if not identified; ``as_the_paper_did`` by the paper's own, faults and all.
    ``misprint_of`` is what should have been printed; ``cut_off``: printed with its last digits left out; ``settled``:
    a count. ``interval`` is at 95 %, over encoders, folds or splits that differ. ``reason`` is one line on why ours
    differs, ``caveat`` one for any verdict; ``shown`` is ours as text.
    """
    agrees = ours is not None and agrees_at_precision(printed, ours)
    explained = as_the_paper_did is not None and agrees_at_precision(printed, as_the_paper_did)
    meant = misprint_of is not None and any(
        one is not None and agrees_at_precision(misprint_of, one) for one in (ours, as_the_paper_did)
    )
    is_cut = cut_off and ours is not None and is_cut_off(printed, ours)
    verdict = _verdict(
        agrees,
        explained or meant or is_cut or (settled and ours is not None),
        compatible=ours is not None and is_compatible(printed, interval, widest=widest),
    )
    if is_cut and verdict == "corrected":
        more = format_like_printed(printed, ours or 0.0)
        reason = f"cut off, not rounded: {more} is printed as {printed}" + (f"; {reason}" if reason else "")
    text = shown or ("not identified" if ours is None else format_like_printed(printed, ours))
    return Claim(
        claim=claim,
        source=source,
        paper=printed,
        ours=text,
        verdict=verdict,
        reason=_reason(verdict, reason, caveat),
        value=ours,
    )


def answer_statement(
    claim: str,
    *,
    source: str,
    paper: str,
    ours: str,
    holds: bool,
    held_as_the_paper_did: bool = False,
    contradicted: bool = False,
    reason: str = "",
    caveat: str = "",
    rests_on: str = "",
    value: float | None = None,
) -> Claim:
    """A statement in words: it agrees if it holds on our table.

    It is corrected if it held by the paper's own computation with a known fault, or if our rows show the opposite.
    ``rests_on`` names the handful of encoders without which the verdict would be another.
    """
    verdict = _verdict(holds, held_as_the_paper_did or contradicted)
    return Claim(
        claim=claim,
        source=source,
        paper=paper,
        ours=ours,
        verdict=verdict,
        reason=_reason(verdict, reason, caveat),
        value=value,
        rests_on=rests_on,
    )


def format_like_printed(printed: str, value: float) -> str:
    """A value as text, with one digit more than the number printed next to it.

    >>> printed = ("-3.9", -3.8231), ("4e-9", 3.961e-9), ("<1e-9", 2.2e-4)
    >>> [format_like_printed(*one) for one in printed]
    ['-3.82', '4.0e-09', '2.2e-04']
    """
    match = _NUMBER.match(printed.strip())
    if match is None or match[3] or match[1]:
        return f"{value:.1e}" if value and (abs(value) < 1e-3 or abs(value) >= 1e5) else f"{value:.3g}"
    return f"{value:.{len(match[2].partition('.')[2]) + 1}f}"


def _read(printed: str) -> tuple[str, float, int]:
    """Bound ("<", ">" or ""), number, and the decimal place of its last digit."""
    match = _NUMBER.match(printed.strip())
    if match is None:
        raise ValueError(f"got {printed!r}, expected one printed number such as '-3.9', '4e-9' or '<1e-9'")
    bound, digits, exponent, _ = match.groups()
    return bound, float(f"{digits}e{exponent or 0}"), len(digits.partition(".")[2]) - int(exponent or 0)


def _verdict(agrees: bool, explained: bool, *, compatible: bool = False) -> Verdict:
    if agrees:
        return "agrees"
    if explained:
        return "corrected"
    return "compatible" if compatible else "not reproducible"


def _reason(verdict: Verdict, reason: str, caveat: str) -> str:
    if verdict == "agrees":
        return caveat
    if verdict == "compatible":
        reason = "it lies within our 95 % interval" + (f"; {reason}" if reason else "")
    reason = reason or "ours is computed from the published rows as the paper describes it, and differs"
    return f"{reason}; {caveat}" if caveat else reason


NOT_AVAILABLE = "not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """The answer of a table to a statement, as computed."""

    ours: str
    holds: bool
    held_as_the_paper_did: bool = False
    contradicted: bool = False
    reason: str = ""
    caveat: str = ""
    rests_on: str = ""
    value: float | None = None


def answer_claim(claim: str, *, source: str, paper: str, answer: Callable[[], ClaimAnswer]) -> Claim:
    """The claim with its answer, or "not available" where a QueryError or UnknownName says why the table has none."""
    try:
        decided = answer()
    except (QueryError, UnknownName) as error:
        return answer_statement(claim, source=source, paper=paper, ours=NOT_AVAILABLE, holds=False, reason=str(error))
    return answer_statement(
        claim,
        source=source,
        paper=paper,
        ours=decided.ours,
        holds=decided.holds,
        held_as_the_paper_did=decided.held_as_the_paper_did,
        contradicted=decided.contradicted,
        reason=decided.reason,
        caveat=decided.caveat,
        rests_on=decided.rests_on,
        value=decided.value,
    )


Decides = TypeVar("Decides", bound=Callable[..., ClaimAnswer])


class Claims:
    """Statements of a paper, in the order in which they are written, each above the function that decides it.

    ``source`` is where the statements are printed that name no other place: ``"Section 5.1, Figure 4"``.

    >>> claims = Claims(source="Section 5.1")
    >>> @claims("Usability is the largest source of error ({which})", paper="largest")
    ... def usability_is_largest(errors):
    ...     largest = max(errors.values())
    ...     return ClaimAnswer(ours=f"{errors['usability']:.1f} points", holds=errors["usability"] == largest)
    >>> (claim,) = claims.judged({"usability": 8.6, "probe_gen": 15.2}, which="all encoders")
    >>> claim.claim, claim.ours, claim.verdict
    ('Usability is the largest source of error (all encoders)', '8.6 points', 'not reproducible')
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._statements: list[tuple[str, str, str, Callable[..., ClaimAnswer]]] = []

    def __call__(self, claim: str, *, paper: str, source: str = "") -> Callable[[Decides], Decides]:
        """Adds a statement, which the decorated function decides; ``{words}`` in its texts are filled in later."""

        def add(decides: Decides) -> Decides:
            self._statements.append((claim, source or self.source, paper, decides))
            return decides

        return add

    def judged(self, *given: Any, **words: object) -> list[Claim]:
        """Every statement with its answer; ``given`` are the arguments of the functions."""
        return [
            answer_claim(
                claim.format(**words), source=source, paper=paper.format(**words), answer=partial(decides, *given)
            )
            for claim, source, paper, decides in self._statements
        ]


def find_estimate(estimates: Sequence[Estimate], term: str, outcome: str) -> Estimate:
    """The estimate of a term and outcome; QueryError if too few encoders have what it needs."""
    for estimate in estimates:
        if (estimate.term, estimate.outcome) == (term, outcome):
            return estimate
    raise QueryError(f"Too few encoders of the table have what {term} with {outcome} needs; measure some.")


def require_estimates(estimates: Sequence[Estimate], what: str) -> Sequence[Estimate]:
    """The estimates; QueryError if there are none, because too few encoders have ``what``."""
    if not estimates:
        raise QueryError(f"Too few encoders of the table have {what} to compare; measure some.")
    return estimates


def describe_hc3_change(estimate: Estimate, *, level: float = 0.05) -> str:
    """What HC3 standard errors say of a p-value below ``level`` that is not below it with them; empty if it stays.

    >>> one = Estimate(term="log(z_dim)", value=-4.0, p=0.01, p_robust=0.2, n=30, unit="points")
    >>> describe_hc3_change(one)
    "by HC3 standard errors and Student's t, which allow for unequal variances, p is 0.2"
    >>> describe_hc3_change(one.described(p_robust=0.02)), describe_hc3_change(one.described(p=0.3))
    ('', '')
    """
    if estimate.p is None or estimate.p >= level:
        return ""
    if estimate.p_robust is None:
        return "HC3 standard errors, which allow for unequal variances, cannot be had, so that p stands unchecked"
    if estimate.p_robust < level:
        return ""
    return f"by HC3 standard errors and Student's t, which allow for unequal variances, p is {estimate.p_robust:.2g}"


def has_interval_without_zero(estimate: Estimate) -> bool:
    """True if there is an interval and 0 lies outside."""
    low, high = estimate.ci_low, estimate.ci_high
    return low is not None and high is not None and not low <= 0 <= high
