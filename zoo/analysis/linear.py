"""Global linear analysis: what a design choice changes on average, other choices and likely confounders held equal.

Ordinary least squares of one outcome on one treatment and :data:`CONTROLS`, without those that the treatment determines
(:data:`TIED`): the "GLA" of Dubois et al. 2023, appendix C.4. Rows have the outcome, the treatment and every control.
Numbers enter as natural logarithms, but for the number of augmentations, the patch size and the year; categories as
dummies against the first level in alphabetical order. The control ``projector`` is the second projector's architecture,
else the first's, else ``none``; beside the size of the projector it does not fall back on the first (the printed
coefficient of usability, -0.68, comes out only so). Terms that are not identified have no value (:mod:`~.ols`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import QueryError, UnknownName
from ..optional import requires_extra
from .columns import STUDY_COLUMNS, Estimate
from .ols import Design, OlsFit, design_of, factor_test, fit_ols
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A linear model"):
    import pandas as pd

Scale = Literal["log", "number", "category", "truth"]
METHOD = "global linear"
PROJECTOR = "projector"  # derived from the columns of both projectors
CONTROLS: Mapping[str, Scale] = {
    "pretraining_data": "category", "ssl_mode": "category", "epochs": "log", "batch_size": "log", "nviews": "log",
    "n_augmentations": "number", PROJECTOR: "category", "n_parameters": "log", "family": "category", "z_dim": "log",
    "patch_size": "number", "year": "number", "is_industry": "truth", "is_official": "truth",
}  # fmt: skip
_OF_ARCHITECTURE = ("n_parameters", "family", "z_dim", "patch_size")
TIED: Mapping[str, tuple[str, ...]] = {  # treatment -> controls that it is made of
    "objective": ("ssl_mode",), "architecture": _OF_ARCHITECTURE, "architecture_exact": _OF_ARCHITECTURE,
    "projection1_arch": (PROJECTOR,), "projection2_arch": (PROJECTOR,), "projection_same": (PROJECTOR,),
    "train_rank": ("z_dim",), "test_rank": ("z_dim",), "train_rank_Z": ("z_dim",), "test_rank_Z": ("z_dim",),
    "views": ("nviews",), "date_published": ("year",), "where": ("is_industry",),
}  # fmt: skip
_BOTH = ("projection2_arch", "projection1_arch")
_SIZES = ("projection_nparameters", "projection_nparameters_hidden")
_DATES = ("year", "month")  # numbers whose logarithm means nothing
_KINDS: Mapping[str, Scale] = {"text": "category", "true or false": "truth"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearEffect:
    """The effect of one treatment on one outcome, and the model that it comes from."""

    treatment: str
    outcome: str
    estimates: tuple[Estimate, ...]  # of the treatment: one, or one a level against the reference level
    test: Estimate | None  # F test of all levels together; None if the treatment has one term
    controls: tuple[str, ...]  # that take part; one that never varies among the rows does not
    references: Mapping[str, str]  # categorical column -> reference level
    left_out: Mapping[str, int]  # reason -> encoders
    fit: OlsFit  # of the treatment alone its estimates; of everything its design

    @property
    def used(self) -> int:
        """Encoders that the model is fitted to."""
        return self.fit.n

    def estimate(self, term: str) -> Estimate:
        """The estimate of one term of the treatment, such as ``projection2_arch[mlp]``; UnknownName if it has none."""
        known = {estimate.term: estimate for estimate in self.estimates}
        if term not in known:
            raise UnknownName(f"term of {self.treatment}", term, known)
        return known[term]

    def standard_error(self, term: str) -> float | None:
        """The classical standard error of a term; None if it has no interval."""
        return None if self.estimate(term).p is None else float(self.fit.results.bse[term])


def global_linear_effect(
    table: StudyTable,
    treatment: str,
    outcome: str,
    *,
    levels: Sequence[str] = (),
    references: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    projectors: Sequence[str] | None = None,
) -> LinearEffect:
    """Effect of a treatment on an outcome, the controls held equal.

    Parameters
    ----------
    treatment, outcome : str
        Columns; the outcome is a number. Lower is better for risks, so a negative effect is an improvement.
    levels : sequence of str, optional
        Compares only these levels of a category, against the first of them: ``("resnet", "vit")``. By default all.
    references : mapping, optional
        Reference levels of categorical columns, where not the first in alphabetical order.
    without : sequence of str
        Further controls to leave out.
    projectors : sequence of str, optional
        Columns that the control ``projector`` is read from, the first that has a value.

    Returns
    -------
    LinearEffect
        Coefficients in the unit of the outcome (percentage points, if it is in percent), per unit of the logarithm, per
        unit, or against the reference level.

    Raises
    ------
    UnknownName
        If a column is none of the table, or a name in ``without`` or ``references`` is no control.
    QueryError
        If the outcome is no number or is the treatment, the treatment is not positive or never varies, or there are
        no more rows than columns.
    """
    require_columns([treatment, outcome, *(projectors or ())])
    for name in (*without, *(references or {})):
        if name not in CONTROLS and name != treatment:
            raise UnknownName("control of the linear model", name, CONTROLS)
    if not STUDY_COLUMNS[outcome].is_number or outcome == treatment:
        raise QueryError(
            f"Got the outcome {outcome!r} of the treatment {treatment!r}, expected another column of numbers."
        )
    scale = _scale(treatment)
    if projectors is None:
        projectors = _BOTH[:1] if treatment in _SIZES else _BOTH
    dropped = {treatment, outcome, *TIED.get(treatment, ()), *without}
    controls = {name: kind for name, kind in CONTROLS.items() if name not in dropped}
    cells, left_out = _complete(table, [outcome, treatment, *controls], treatment, tuple(projectors))
    if levels:
        wanted = cells[treatment].astype(str).isin(list(levels))
        if gone := int((~wanted).sum()):
            left_out = {**left_out, f"{treatment} is neither {' nor '.join(levels)}": gone}
        cells = cells[wanted]
    _check(cells, treatment, outcome, scale, levels)
    controls = {name: kind for name, kind in controls.items() if cells[name].nunique() > 1}
    design = _design(
        cells, {**controls, treatment: scale}, {**(references or {}), **({treatment: levels[0]} if levels else {})}
    )
    if len(cells) <= design.matrix.shape[1]:
        raise QueryError(
            f"Only {_encoders(len(cells))} {'has' if len(cells) == 1 else 'have'} {outcome}, {treatment} and every "
            f"control, for a linear model of {design.matrix.shape[1]} columns; expected more encoders, so take a "
            "larger population or fewer controls."
        )
    column = STUDY_COLUMNS[outcome]
    fit = fit_ols(
        design.matrix,
        cells[outcome],
        terms=design.terms[treatment],
        outcome_name=outcome,
        method=METHOD,
        unit=design.units("percentage points" if column.unit == "percent" else column.unit or f"units of {outcome}"),
    )
    return LinearEffect(
        treatment=treatment,
        outcome=outcome,
        estimates=fit.estimates,
        controls=tuple(controls),
        left_out=left_out,
        references=design.references,
        fit=fit,
        test=factor_test(fit, design.terms[treatment], name=treatment) if len(fit.estimates) > 1 else None,
    )


def _scale(treatment: str) -> Scale:
    column = STUDY_COLUMNS[treatment]
    if not column.is_number:
        return _KINDS[column.kind]
    return "number" if treatment in _DATES else "log"


def _complete(
    table: StudyTable, names: Sequence[str], treatment: str, projectors: tuple[str, ...]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that have every column, and how many are left out by the first that is missing."""
    cells, left_out, missing = {}, {}, {}
    remaining = pd.Series(True, index=table.frame.index)
    for name in names:
        if name == PROJECTOR:
            cells[name], why = _projector(table, projectors, none=True)
        elif name == treatment == "projection2_arch":
            cells[name], why = _projector(table, _BOTH, none=False)
        else:
            cells[name], why = table.frame[name], table.why_missing[name]
        for reason in sorted(set(why[remaining]) - {""}):
            left_out[f"{name} {reason}"] = int((why[remaining] == reason).sum())
        missing[name] = int((why != "").sum())
        remaining &= why == ""
    if not remaining.any():
        most = max(missing, key=missing.__getitem__)
        raise QueryError(
            f"None of the {_encoders(len(table))} of the table has {names[0]}, {treatment} and every control; "
            f"{most} is missing most often, for {missing[most]} of them; expected at least one encoder with all, so "
            "fill it in or take a larger population" + ("." if most in names[:2] else ", or leave that control out.")
        )
    return pd.DataFrame(cells, index=table.frame.index)[remaining], left_out


def _projector(table: StudyTable, columns: tuple[str, ...], *, none: bool) -> tuple[pd.Series[str], pd.Series[str]]:
    """The first of some columns that has a value; "none" where there is no projector, missing where it is unknown."""
    values, why = table.frame[columns[0]], table.why_missing[columns[0]]
    for column in columns[1:]:
        values, why = values.where(why == "", table.frame[column]), why.where(why == "", table.why_missing[column])
    if none:
        absent = why == "not applicable"
        values, why = values.mask(absent, "none"), why.mask(absent, "")
    return values, why


def _encoders(number: int) -> str:
    return f"{number} encoder{'' if number == 1 else 's'}"


def _check(cells: pd.DataFrame, treatment: str, outcome: str, scale: Scale, levels: Sequence[str]) -> None:
    values = (
        sorted(cells[treatment].astype(str).unique()) if scale in ("category", "truth") else cells[treatment].unique()
    )
    rows = f"the {_encoders(len(cells))} with {outcome} and every control"
    if missing := [level for level in levels if level not in values]:
        raise QueryError(
            f"{treatment} is never {' nor '.join(missing)} among {rows}; expected {' and '.join(levels)}, so take a "
            "larger population or other levels."
        )
    if len(values) < 2:
        same = f", it is always {values[0]}" if len(values) else ""
        raise QueryError(
            f"{treatment} never varies among {rows}{same}; expected at least two values, so take a larger population."
        )
    if scale == "log" and (least := float(cells[treatment].min())) <= 0:
        raise QueryError(
            f"{treatment} is {least:g} for an encoder and has no logarithm; expected positive numbers, so leave such "
            "encoders out."
        )


def _design(cells: pd.DataFrame, scales: Mapping[str, Scale], references: Mapping[str, str]) -> Design:
    def of(scale: Scale) -> list[str]:
        return [name for name, its_scale in scales.items() if its_scale == scale]

    return design_of(
        cells,
        numeric=of("number"),
        log=of("log"),
        categorical=of("category"),
        boolean=of("truth"),
        references={name: level for name, level in references.items() if name in scales},
    )
