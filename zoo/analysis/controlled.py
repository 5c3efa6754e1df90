"""The controlled analysis: encoders that are equal in every core choice but one, and what that choice changes.

Within groups of such encoders, ``outcome = level of the group + effect x log(choice)`` is fitted by ordinary least
squares (Dubois et al. 2023, Section 5.3 and Appendix C.4). The published code counted an encoder once for each column
that varies in its group, which doubles the residual degrees of freedom; ``as_the_paper_did=True`` repeats that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import QueryError, format_count
from ..optional import require_extra
from .columns import Estimate
from .linear import OlsFit, build_design, fit_ols
from .table import StudyTable, require_columns

with require_extra("study", needed_for="A study"):
    import pandas as pd

CORE_COLUMNS = (
    "objective", "version", "architecture", "patch_size", "z_dim", "z_layer", "epochs", "batch_size", "optimizer",
    "learning_rate", "weight_decay", "scheduler", "pretraining_data", "img_size", "year", "nviews", "finetuning_data",
    "projection1_arch", "projection2_arch", "projection_same", "n_augmentations", "other",
)  # fmt: skip
_REPRESENTATION = ("z_dim", "z_layer")  # more dimensions of a ViT come from more of its tokens or layers
_PROJECTOR = ("projection_same", "projection1_arch", "projection2_arch")
VARIED_TOGETHER = dict.fromkeys(_REPRESENTATION, _REPRESENTATION) | dict.fromkeys(_PROJECTOR, _PROJECTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledEffect:
    """What one choice changes among encoders that are equal in all others."""

    treatment: str
    outcome: str
    varied: tuple[str, ...]  # columns in which encoders of a group may differ: the treatment and what comes with it
    reference: str  # level that the others are held against; empty for numbers
    estimates: tuple[Estimate, ...]  # of the treatment: one for a number, one a level for categories
    fit: OlsFit
    rows: pd.DataFrame  # index "enc"; columns "group" (id of its first encoder), the varied ones, the outcome
    n_groups: int
    n_encoders: int  # distinct ones
    left_out: Mapping[str, int]  # reason -> encoders of the table

    def estimate(self, level: str | None = None) -> Estimate:
        """The estimate of a level, or the only one; QueryError if none fits, or several do."""
        names = [estimate.term for estimate in self.estimates]
        wanted = f"{self.treatment}[{level}]" if level is not None else names[0]
        if wanted not in names or (level is None and len(names) > 1):
            raise QueryError(f"Got the level {level!r} of {self.treatment}, expected one of {', '.join(names)}.")
        return self.estimates[names.index(wanted)]

    def standard_error(self, level: str | None = None) -> float:
        """Classical standard error of an estimate; NaN where it is not identified."""
        return float(self.fit.results.bse.get(self.estimate(level).term, float("nan")))

    def changes(self, start: str | None = None, end: str | None = None) -> pd.Series[float]:
        """Change of the outcome inside each group that has both values; negative is better for risks.

        ``start`` and ``end`` are levels; a number goes from the smallest to the largest of each group.
        """
        means = self.rows.groupby(["group", self.treatment], sort=False)[self.outcome].mean().reset_index()
        changes = {}
        for group, members in means.groupby("group", sort=False):
            cells = members.set_index(self.treatment)[self.outcome]
            ends = (start, end) if start is not None and end is not None else (cells.index.min(), cells.index.max())
            if all(level in cells.index for level in ends):
                changes[group] = cells[ends[1]] - cells[ends[0]]
        return pd.Series(changes, dtype="float64", name=self.outcome)


def find_controlled_groups(
    table: StudyTable, varied: Sequence[str], *, among: Collection[str] | None = None
) -> pd.DataFrame:
    """Groups of encoders that are equal in all core columns but the varied ones, of which at least one varies.

    A missing cell is a value of its own, and "does not apply" differs from "not published". A group is named by the id
    of its first encoder in the table. Columns are ``group``, ``n_varying`` and the varied ones; the index is "enc".
    """
    names = list(dict.fromkeys(varied))
    require_columns(names)
    fixed = [name for name in CORE_COLUMNS if name not in names]
    columns = [*fixed, *names]
    reasons = table.why_missing[columns]
    cells = table.frame[columns].astype(object).mask(reasons != "", reasons)
    number = cells.groupby(fixed, sort=False).ngroup()

    rows = pd.Series(True if among is None else table.frame.index.isin(list(among)), index=table.frame.index)
    counts = cells.loc[rows, names].groupby(number[rows]).nunique().gt(1).sum(axis=1)
    n_varying = number.map(counts).where(rows, 0).fillna(0).astype(int)
    first = pd.Series(table.frame.index, index=table.frame.index).groupby(number).transform("first")
    members = table.frame.loc[n_varying > 0, names]
    members.insert(0, "group", first[members.index])
    members.insert(1, "n_varying", n_varying[members.index])
    return members


def controlled_effect(
    table: StudyTable,
    treatment: str,
    outcome: str,
    *,
    reference: str | None = None,
    as_the_paper_did: bool = False,
) -> ControlledEffect:
    """Effect of one choice on one measurement, among encoders that are equal in every other core choice.

    Parameters
    ----------
    treatment, outcome : str
        Columns of the study table; the outcome is a number. A number enters as its natural logarithm. What has to
        change with the treatment may (``VARIED_TOGETHER``).
    reference : str, optional
        Level that the other levels of a categorical treatment are compared with; by default the first in the alphabet.
    as_the_paper_did : bool
        Each row as often as varied columns vary in its group, which is a fault; see the top of this file.

    Returns
    -------
    ControlledEffect
        Estimates in units of the outcome: per unit of log(treatment), or of a level against the reference; negative is
        better for risks. Intervals and p-values are those of Student's t; HC3 stands next to them.

    Raises
    ------
    UnknownName
        If a column is none of the study table.
    QueryError
        If the treatment varies in no group or has no logarithm, the rows leave no residual degree of freedom, or the
        outcome is no number or is held fixed.
    """
    together = tuple(dict.fromkeys([treatment, *VARIED_TOGETHER.get(treatment, ())]))
    require_columns([*together, outcome])
    _check_outcome(table, outcome, together)
    is_number = table.column(treatment).is_number
    frame, left_out = _used_rows(table, treatment, outcome, together)
    if as_the_paper_did:
        frame = frame.loc[frame.index.repeat(frame["n_varying"])]
    n_encoders = int(frame.index.nunique())
    design = build_design(
        frame,
        log=[treatment] if is_number else [],
        categorical=["group"] if is_number else ["group", treatment],
        references={} if reference is None else {treatment: reference},
    )
    fit = fit_ols(
        design.matrix,
        frame[outcome],
        terms=design.terms[treatment],
        outcome_name=outcome,
        unit=design.units(_unit(table, outcome)),
        method="controlled" + (", rows repeated as the paper did" if as_the_paper_did else ""),
    )
    n_groups = int(frame["group"].nunique())
    if fit.residual_df < 1:
        raise QueryError(
            f"The controlled effect of {treatment} on {outcome} has {n_encoders} encoders in {n_groups} groups and no "
            "residual to judge it by; expected at least one encoder more, so measure one that differs in "
            f"{treatment} alone."
        )
    return ControlledEffect(
        treatment=treatment,
        outcome=outcome,
        varied=together,
        reference=design.references.get(treatment, ""),
        estimates=tuple(_with_repeats(estimate, n_encoders) for estimate in fit.estimates),
        fit=fit,
        rows=frame.drop(columns="n_varying"),
        n_groups=n_groups,
        n_encoders=n_encoders,
        left_out=left_out,
    )


def _check_outcome(table: StudyTable, outcome: str, together: Sequence[str]) -> None:
    if not table.column(outcome).is_number:
        raise QueryError(f"Got the outcome {outcome}, which holds {table.column(outcome).kind}; expected numbers.")
    if outcome in CORE_COLUMNS or outcome in together:
        raise QueryError(
            f"Got the outcome {outcome}, which is a choice that groups of encoders share or differ in; expected a "
            "measurement such as usability."
        )


def _used_rows(
    table: StudyTable, treatment: str, outcome: str, together: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows of the fit, distinct, and how many of the table are left out, by the first reason."""
    is_number = table.column(treatment).is_number
    values = table.frame[treatment]
    if not is_number:  # a choice that does not apply is a level of its own
        values = values.mask(table.why_missing[treatment] == "not applicable", "not applicable")
    measured = table.frame[outcome].notna()
    usable = measured & values.notna()
    groups = find_controlled_groups(table, together, among=table.frame.index[usable])
    groups[treatment] = values[groups.index] if is_number else values[groups.index].astype(str)
    groups[outcome] = table.frame.loc[groups.index, outcome]
    frame = groups[groups.groupby("group")[treatment].transform("nunique") > 1]
    if frame.empty:
        also = f" and {', '.join(together[1:])}" if len(together) > 1 else ""
        raise QueryError(
            f"{treatment} varies in no group of the {format_count(int(usable.sum()), 'encoder')} with it and "
            f"{outcome}: no two are equal in every core choice but {treatment}{also}; expected such a pair, so add "
            "encoders or let more columns vary."
        )
    counts = {
        f"{outcome} missing": int((~measured).sum()),
        f"{treatment} missing": int((measured & ~usable).sum()),
        f"no other encoder differs in {treatment} alone": int(usable.sum()) - len(frame),
    }
    return frame, {reason: count for reason, count in counts.items() if count}


def _unit(table: StudyTable, outcome: str) -> str:
    unit = table.column(outcome).unit
    return "percentage points" if unit == "percent" else unit or outcome


def _with_repeats(estimate: Estimate, n_encoders: int) -> Estimate:
    if estimate.n == n_encoders:
        return estimate
    repeated = f"{format_count(estimate.n, 'row')} of {format_count(n_encoders, 'encoder')}"
    return replace(estimate, note=f"{repeated}; {estimate.note}" if estimate.note else repeated)
