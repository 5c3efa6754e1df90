"""The controlled analysis: encoders that are equal in every core choice but one, and what that choice changes.

Groups of such encoders are found first. Then, over all groups, ``outcome = level of the group + effect x f(choice)`` is
fitted by ordinary least squares (Dubois et al. 2023, Section 5.3 and Appendix C.4), so whatever else sets groups apart
cannot be taken for the effect. f is the natural logarithm of a number, always: the paper took the logarithm or the
number, "whichever is best", and the better of two fits has a p-value that is too small.

Every encoder is one row. The published code found the groups once for each of the columns that vary together and put
the rows of all findings below one another, so an encoder whose group differs in two columns counted twice. Coefficients
hardly move, but the residual degrees of freedom more than double; ``as_the_paper_did=True`` repeats it to show where
the printed p-values come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import QueryError
from ..optional import requires_extra
from .columns import Estimate
from .ols import OlsFit, design_of, fit_ols
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A study"):
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
        """Change of the outcome inside each group that has both values, in its unit; negative is better for risks.

        ``start`` and ``end`` are levels of a categorical treatment; a number goes from the smallest to the largest of
        each group.
        """
        means = self.rows.groupby(["group", self.treatment], sort=False)[self.outcome].mean().reset_index()
        changes = {}
        for group, members in means.groupby("group", sort=False):
            cells = members.set_index(self.treatment)[self.outcome]
            ends = (start, end) if start is not None and end is not None else (cells.index.min(), cells.index.max())
            if all(level in cells.index for level in ends):
                changes[group] = cells[ends[1]] - cells[ends[0]]
        return pd.Series(changes, dtype="float64", name=self.outcome)


def controlled_groups(
    table: StudyTable, varied: str | Sequence[str], *, among: Collection[str] | None = None
) -> pd.DataFrame:
    """Groups of encoders that are equal in all core columns but the varied ones, of which at least one varies.

    A missing cell is a value of its own, and "does not apply" is another one than "not published". Only encoders
    ``among`` the given ones count; a group has the id of its first encoder of the table as its name, whatever they are.
    The index is "enc" in the order of the table; columns are ``group``, ``n_varying`` (how many of the varied columns
    vary in the group) and the varied ones.
    """
    names = [varied] if isinstance(varied, str) else list(dict.fromkeys(varied))
    require_columns(names)
    fixed = [name for name in CORE_COLUMNS if name not in names]
    if not names or not fixed:
        raise QueryError(f"Got {len(names)} columns that may vary in a group, expected at least one and not all.")
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
    varied: Sequence[str] | None = None,
    log: bool | None = None,
    reference: str | None = None,
    as_the_paper_did: bool = False,
) -> ControlledEffect:
    """Effect of one choice on one measurement, among encoders that are equal in every other core choice.

    Parameters
    ----------
    treatment, outcome : str
        Columns of the study table; the outcome is a number.
    varied : sequence of str, optional
        What may change together with the treatment; by default what has to, see ``VARIED_TOGETHER``: the layer with
        the dimensions, and the three columns of the projector.
    log : bool, optional
        Whether a number enters as its natural logarithm, which it does by default.
    reference : str, optional
        Level that the other levels of a categorical treatment are held against; by default the first in the alphabet.
    as_the_paper_did : bool
        Each row as often as varied columns vary in its group, which is a fault; see the top of this file.

    Returns
    -------
    ControlledEffect
        Estimates in units of the outcome: per unit of log(treatment), or of a level against the reference; negative is
        better for risks. Intervals and p-values are those of Student's t; HC3 stands beside.

    Raises
    ------
    UnknownName
        If a column is none of the study table.
    QueryError
        If the treatment varies in no group, the rows leave no residual degree of freedom, the outcome is no number or
        is held fixed, or a logarithm is asked of what has none.

    Notes
    -----
    Only groups in which the treatment itself varies are used, so a group that differs in what may come with it alone
    says nothing of the treatment.
    """
    together = tuple(dict.fromkeys([treatment, *(VARIED_TOGETHER.get(treatment, ()) if varied is None else varied)]))
    require_columns([*together, outcome])
    _check_outcome(table, outcome, together)
    is_number = table.column(treatment).is_number
    if log and not is_number:
        raise QueryError(f"{treatment} is no number and has no logarithm; leave out log=True.")
    frame, left_out = _used_rows(table, treatment, outcome, together)
    takes_log = is_number and log is not False
    if takes_log and (frame[treatment] <= 0).any():
        raise QueryError(
            f"{treatment} is {frame[treatment].min():g} in some rows and has no logarithm there; pass log=False."
        )
    if as_the_paper_did:
        frame = frame.loc[frame.index.repeat(frame["n_varying"])]
    n_encoders = int(frame.index.nunique())
    design = design_of(
        frame,
        log=[treatment] if takes_log else [],
        numeric=[treatment] if is_number and not takes_log else [],
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
    groups = controlled_groups(table, together, among=table.frame.index[usable])
    groups[treatment] = values[groups.index] if is_number else values[groups.index].astype(str)
    groups[outcome] = table.frame.loc[groups.index, outcome]
    frame = groups[groups.groupby("group")[treatment].transform("nunique") > 1]
    if frame.empty:
        also = f" and {', '.join(together[1:])}" if len(together) > 1 else ""
        raise QueryError(
            f"{treatment} varies in no group of the {int(usable.sum())} encoders with it and {outcome}: no two are "
            f"equal in every core choice but {treatment}{also}; expected such a pair, so add encoders or let more "
            "columns vary."
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
    repeated = f"{estimate.n} rows of {n_encoders} encoders"
    return replace(estimate, note=f"{repeated}; {estimate.note}" if estimate.note else repeated)
