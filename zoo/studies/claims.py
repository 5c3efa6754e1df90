"""Holding a number or a statement against the paper's: the verdict is computed, never written down.

A number *agrees* if it is the printed one at the printed precision, a statement if it holds on our rows. It is
*corrected* if the rows settle that it is wrong: the paper's own computation, fault included, gives the printed number,
or that is a misprint of ours, or a count, or the rows show the opposite of the statement. Otherwise it is *not
reproducible*: the printed number does not come out and nothing shows why, or what it needs was never published.
"""

from __future__ import annotations

import math
import re

from .findings import Claim, Verdict

_NUMBER = re.compile(r"([<>]?)\s*([+-]?\d*\.?\d+)(?:e([+-]?\d+))?(\s*%)?$")


def agrees_with(printed: str, value: float) -> bool:
    """True if a value is the printed number at its printed precision; ``<1e-9`` and ``>3`` are bounds.

    >>> agrees_with("-3.9", -3.8841), agrees_with("4e-9", 4.4e-9), agrees_with("<1e-9", 3e-12)
    (True, True, True)
    >>> agrees_with("-3.9", -3.82), agrees_with(".51", 0.5051)
    (False, True)
    """
    found = _NUMBER.match(printed.strip())
    if found is None:
        raise ValueError(f"got {printed!r}, expected one printed number such as '-3.9', '4e-9' or '<1e-9'")
    bound, digits, exponent, _ = found.groups()
    number = float(f"{digits}e{exponent or 0}")
    if math.isnan(value):
        return False
    if bound:
        return value < number if bound == "<" else value > number
    decimals = len(digits.partition(".")[2]) - int(exponent or 0)
    # half a unit of the last printed place, and a little for the ties that binary fractions blur
    return abs(value - number) <= 0.5 * 10.0**-decimals * (1 + 1e-9)


def number_claim(
    claim: str,
    *,
    source: str,
    printed: str,
    ours: float | None,
    as_the_paper_did: float | None = None,
    misprint_of: str | None = None,
    settled: bool = False,
    reason: str = "",
    shown: str | None = None,
) -> Claim:
    """A printed number beside ours.

    Parameters
    ----------
    claim, source : str
        What the number is, and where the paper prints it.
    printed : str
        As printed: ``-3.9``, ``4e-9``, ``<1e-9``.
    ours : float or None
        By a sound computation; None if the data do not identify it.
    as_the_paper_did : float, optional
        By the paper's own computation, faults included, where it differs from the sound one.
    misprint_of : str, optional
        What should have been printed; the claim is corrected if that agrees with ours.
    settled : bool
        The rows leave no doubt, as of a count: another number than the printed one corrects it.
    reason : str
        One line on why ours differs, shown only if it does.
    shown : str, optional
        ``ours`` as text; by default it has one digit more than is printed.
    """
    explained = as_the_paper_did is not None and agrees_with(printed, as_the_paper_did)
    misprint = misprint_of is not None and ours is not None and agrees_with(misprint_of, ours)
    agrees = ours is not None and agrees_with(printed, ours)
    verdict = _verdict(agrees, explained or misprint or (settled and ours is not None))
    text = shown or ("not identified" if ours is None else beside(printed, ours))
    return Claim(claim=claim, source=source, paper=printed, ours=text, verdict=verdict,
                 reason=_reason(verdict, reason, claim), value=ours)  # fmt: skip


def statement_claim(
    claim: str,
    *,
    source: str,
    paper: str,
    ours: str,
    holds: bool,
    held_as_the_paper_did: bool = False,
    contradicted: bool = False,
    reason: str = "",
    value: float | None = None,
) -> Claim:
    """A statement in words: it agrees if it holds on our table, as a computation decided.

    It is corrected if it held by the paper's own computation with a known fault, or if our rows show the opposite; a
    statement that they merely fail to show is not reproducible.
    """
    verdict = _verdict(holds, held_as_the_paper_did or contradicted)
    return Claim(claim=claim, source=source, paper=paper, ours=ours, verdict=verdict,
                 reason=_reason(verdict, reason, claim), value=value)  # fmt: skip


def beside(printed: str, value: float) -> str:
    """A value as text, with one digit more than the number printed beside it.

    >>> beside("-3.9", -3.8231), beside("4e-9", 3.961e-9), beside("<1e-9", 2.2e-4)
    ('-3.82', '4.0e-09', '2.2e-04')
    """
    found = _NUMBER.match(printed.strip())
    if found is None or found[3] or found[1]:
        return f"{value:.1e}" if value and (abs(value) < 1e-3 or abs(value) >= 1e5) else f"{value:.3g}"
    return f"{value:.{len(found[2].partition('.')[2]) + 1}f}"


def _verdict(holds: bool, explained: bool) -> Verdict:
    if holds:
        return "agrees"
    return "corrected" if explained else "not reproducible"


def _reason(verdict: Verdict, reason: str, claim: str) -> str:
    if verdict == "agrees":
        return ""
    return reason or "ours is computed from the published rows as the paper describes it, and differs"
