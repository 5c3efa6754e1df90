"""What a study returns: claims held against the paper, estimates, tables, figures, and the rows behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..analysis.estimates import Estimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

Verdict = Literal["agrees", "compatible", "corrected", "not reproducible"]
"""What a printed number or statement comes to; :mod:`zoo.studies.claims` has the rule."""
Cell = str | int | float | None


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


def shown_verdict(verdict: str, rests_on: str) -> str:
    """A verdict as it is shown, with the encoders that alone decide it.

    >>> shown_verdict("corrected", "one encoder, of sela"), shown_verdict("agrees", "")
    ('corrected (rests on one encoder, of sela)', 'agrees')
    """
    return f"{verdict} (rests on {rests_on})" if rests_on else verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How many rows one part of a study used, and why it left the others out."""

    part: str  # "Figure 4", "controlled, z_dim"
    used: int
    unit: str = "encoders"
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> number


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a report; numbers are shown as the cells' own text."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @classmethod
    def of(cls, title: str, frame: pd.DataFrame, *, digits: int = 2, note: str = "") -> Table:
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
class Figure:
    """A figure that is drawn only when somebody wants the file."""

    name: str  # of the file, without suffix; unique within a study: "usability_by_objective"
    title: str  # "Usability by type of objective (Figure 12)"
    caption: str  # what is shown, of how many encoders, in which unit, and which direction is better
    draw: Callable[[], Drawing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that one study found on one table."""

    claims: Sequence[Claim]
    estimates: Sequence[Estimate] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    rows: Sequence[Rows] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # further texts for the report: name of the file -> text
    notes: Sequence[str] = ()  # what is not identified, what a reader should not conclude
