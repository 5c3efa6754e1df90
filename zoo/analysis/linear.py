"""Linear models by statsmodels, and the global linear analysis of design choices.

Coefficients that the rows do not identify are named and have no value. The global linear analysis ("GLA", Dubois et al.
2023, appendix C.4) is least squares of one outcome on one treatment and :data:`CONTROLS`, without those that the
treatment determines (:data:`TIED`), over rows with all of them. Numbers enter as natural logarithms, but for the number
of augmentations, the patch size and the year. The control ``projector`` is the second projector's architecture, else
the first's, else ``none``; together with the size of the projector it does not fall back on the first, for only so the
printed coefficient of usability, -0.68, comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import QueryError, UnknownName, format_list
from ..optional import require_extra
from .columns import STUDY_COLUMNS, Estimate
from .table import StudyTable, require_columns

with require_extra("study", needed_for="A linear model"):
    import numpy as np
    import pandas as pd
    from statsmodels.regression.linear_model import OLS
    from statsmodels.stats.multitest import multipletests


CONSTANT = "constant"
COLLINEAR = 1e-9  # share of a column's length that the other columns leave over, below which they add up to it
LEAST_WEIGHT = 1e-7  # on columns of length 1, from which a column takes part in a collinearity
COLUMNS_IN_A_NOTE = 4
EXACT_FIT = 1e-12  # share of the outcome's length that may stay unexplained in an exact fit


def find_null_vectors(design: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Columns that earlier ones add up to, with the weights of every column that takes part (columns of length 1)."""
    matrix = design.to_numpy(dtype=float)
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(lengths > 0, lengths, 1.0)
    if lengths.all() and np.linalg.matrix_rank(scaled, tol=COLLINEAR) == scaled.shape[1]:
        return {}
    null: dict[str, dict[str, float]] = {}
    independent: list[int] = []
    names = list(design.columns)
    for position, name in enumerate(names):
        earlier = scaled[:, independent]
        weights = np.linalg.lstsq(earlier, scaled[:, position], rcond=None)[0]
        if np.linalg.norm(scaled[:, position] - earlier @ weights) > COLLINEAR:
            independent.append(position)
        else:
            involved = {names[one]: float(weight) for one, weight in zip(independent, weights, strict=True)}
            null[name] = {other: weight for other, weight in involved.items() if abs(weight) > LEAST_WEIGHT}
    return null


def find_coinciding_columns(term: str, null: Mapping[str, Mapping[str, float]]) -> list[str] | None:
    """The fewest other columns that a term is tied to, or None if it is tied to none: if it is identified."""
    ties = [[*weights, name] for name, weights in null.items() if name == term or term in weights]
    return min(([other for other in tie if other != term] for tie in ties), key=len, default=None)


def explain_not_identified(term: str, design: pd.DataFrame, others: Sequence[str]) -> str:
    """The sentence for a term that is tied to other columns."""
    if not others:
        return "not identified: 0 in every row"
    if list(others) == [CONSTANT]:
        return f"not identified: {design[term].iloc[0]:g} in every row"
    return f"not identified: coincides with {format_list(others, COLUMNS_IN_A_NOTE)}"


@dataclass(frozen=True, slots=True)
class Design:
    """A design matrix, with the words for its terms."""

    matrix: pd.DataFrame  # float64, one row per row of the data, one column per term, "constant" first
    per: Mapping[str, str]  # term -> "per unit of log(z_dim)" or "mlp against identity"
    terms: Mapping[str, tuple[str, ...]]  # column of the data -> its terms; none if the column never varies
    references: Mapping[str, str]  # categorical column -> the level that the others are held against

    def units(self, unit: str) -> dict[str, str]:
        """Unit of each term's coefficient, of an outcome in ``unit``."""
        return {term: f"{unit} {words}" for term, words in self.per.items()}


@dataclass(frozen=True, slots=True)
class OlsFit:
    """One fitted linear model."""

    estimates: tuple[Estimate, ...]  # of the terms that were asked for
    n: int
    n_columns: int  # of the whole design
    rank: int  # fewer than the columns if some coincide
    residual_df: int
    r_squared: float  # NaN if the outcome never varies
    not_identified: tuple[str, ...]  # terms of the whole design
    results: Any  # of statsmodels, on the first ``rank`` columns that do not depend on earlier ones
    design: pd.DataFrame  # whole

    def estimate(self, term: str) -> Estimate:
        """The estimate of one term; KeyError if it was not asked for."""
        return {estimate.term: estimate for estimate in self.estimates}[term]


def build_design(
    frame: pd.DataFrame,
    *,
    numeric: Sequence[str] = (),
    log: Sequence[str] = (),
    categorical: Sequence[str] = (),
    boolean: Sequence[str] = (),
    references: Mapping[str, str] | None = None,
) -> Design:
    """The design matrix of some columns: constant, numbers, natural logarithms, truth values, dummies of categories.

    Terms are named ``n_augmentations``, ``log(z_dim)``, ``is_official`` and ``projection2_arch[mlp]``; reference levels
    are by default the first in alphabetical order.
    """
    for name in (*numeric, *log, *categorical, *boolean):
        if gone := int(frame[name].isna().sum()):
            raise QueryError(
                f"{name} is missing in {gone} of {len(frame)} rows of a linear model; leave them out first."
            )
    matrix: dict[str, Any] = {CONSTANT: np.ones(len(frame))}
    per = {CONSTANT: "where every other term is 0"}
    terms: dict[str, tuple[str, ...]] = {}
    held_against: dict[str, str] = {}
    for name in numeric:
        matrix[name], per[name], terms[name] = frame[name].astype(float), f"per unit of {name}", (name,)
    for name in log:
        values, term = frame[name].astype(float), f"log({name})"
        if (values <= 0).any():
            raise QueryError(f"{name} has the value {values.min():g} and no logarithm; expected positive numbers only.")
        matrix[term], per[term], terms[name] = np.log(values), f"per unit of {term}", (term,)
    for name in boolean:
        matrix[name], per[name], terms[name] = frame[name].astype(float), "true against false", (name,)
    for name in categorical:
        text = frame[name].astype(str)
        levels = sorted(text.unique())
        reference = (references or {}).get(name, levels[0] if levels else "")
        if levels and reference not in levels:
            raise QueryError(f"{name} has no level {reference!r} to hold others against; it has {', '.join(levels)}.")
        others = [level for level in levels if level != reference]
        for level in others:
            matrix[f"{name}[{level}]"] = (text == level).astype(float)
            per[f"{name}[{level}]"] = f"{level} against {reference}"
        terms[name], held_against[name] = tuple(f"{name}[{level}]" for level in others), reference
    return Design(pd.DataFrame(matrix, index=frame.index, dtype="float64"), per, terms, held_against)


def fit_ols(
    design: pd.DataFrame,
    outcome: pd.Series[float],
    *,
    terms: Sequence[str] | None = None,
    outcome_name: str,
    unit: Mapping[str, str] | str,
    method: str,
) -> OlsFit:
    """Ordinary least squares, with terms that the rows do not identify left without a value.

    Classical intervals and p-values are of Student's t; those with HC3 standard errors stand next to them. ``design``
    is (n_rows, n_terms) with the constant as a column; ``terms`` are those wanted as estimates, by default all;
    ``unit`` is that of every coefficient, or of each.
    """
    _check_rows(design, outcome, outcome_name)
    null = find_null_vectors(design)
    independent = [term for term in design.columns if term not in null]
    rank, residual_df = len(independent), len(design) - len(independent)
    if np.linalg.matrix_rank(design[independent].to_numpy()) < rank:
        raise QueryError(
            f"The columns of a linear model of {outcome_name} differ too much in scale to be told apart in double "
            "precision; expected similar ones, so take logarithms or other units."
        )
    results = OLS(outcome.astype(float), design[independent]).fit()
    coincident = {term: find_coinciding_columns(term, null) for term in design.columns}
    values = outcome.to_numpy(dtype=float)
    why_no_test = ""
    if residual_df == 0:
        why_no_test = f"as many independent columns ({rank}) as rows, so there is no residual to judge it by"
    elif results.ssr <= (EXACT_FIT * np.linalg.norm(values)) ** 2:
        why_no_test = "the design fits the outcome exactly, so there is no residual to judge it by"
    classical = {} if why_no_test else _inference(results, independent)
    robust = {} if why_no_test else _robust_inference(design[independent], values)
    plain = Estimate(term="", n=len(design), outcome=outcome_name, method=method, unit="")
    estimates = []
    for term in design.columns if terms is None else terms:
        label = plain.described(term=term, unit=unit if isinstance(unit, str) else unit[term])
        if (others := coincident[term]) is not None:
            estimates.append(label.described(note=explain_not_identified(term, design, others)))
            continue
        low, high, p = classical.get(term, (None, None, None))
        robust_low, robust_high, robust_p = robust.get(term, (None, None, None))
        note = why_no_test or ("" if term in robust else "no HC3 interval: rows that no other row resembles fix it")
        label = label.described(note=note, ci_low_robust=robust_low, ci_high_robust=robust_high, p_robust=robust_p)
        estimates.append(label.with_value(results.params[term], (low, high), p=p))
    total = float(((values - values.mean()) ** 2).sum())
    return OlsFit(
        estimates=tuple(estimates),
        n=len(design),
        n_columns=design.shape[1],
        rank=rank,
        residual_df=residual_df,
        r_squared=float(results.rsquared) if total > (EXACT_FIT * np.linalg.norm(values)) ** 2 else float("nan"),
        not_identified=tuple(term for term, others in coincident.items() if others is not None),
        results=results,
        design=design,
    )


def compute_factor_test(fit: OlsFit, columns: Sequence[str], *, name: str) -> Estimate:
    """F test of the model with some terms against the one without, sound where single terms are not identified.

    The unit says the degrees of freedom; there is no value where the terms add nothing or no residual is left.
    """
    outcome = fit.estimates[0].outcome if fit.estimates else ""
    method = f"{fit.estimates[0].method}, joint F test" if fit.estimates else "joint F test"
    without = fit.design.drop(columns=list(columns))
    null = find_null_vectors(without)
    independent = [term for term in without.columns if term not in null]
    added = fit.rank - len(independent)
    unit = f"F statistic, {added} and {fit.residual_df} degrees of freedom"
    label = Estimate(term=name, n=fit.n, outcome=outcome, method=method, unit=unit)
    if added == 0:
        return label.described(note="not identified: the other columns already span these")
    endog = fit.results.model.endog
    if fit.residual_df == 0 or fit.results.ssr <= (EXACT_FIT * np.linalg.norm(endog)) ** 2:
        return label.described(note="there is no residual to judge it by")
    statistic, p, _ = fit.results.compare_f_test(OLS(endog, without[independent].to_numpy()).fit())
    return label.with_value(statistic, p=p)


def adjust_discovery_rates(estimates: Sequence[Estimate], *, family: str) -> list[Estimate]:
    """The same estimates with their false-discovery rates (Benjamini-Hochberg), over those that have a p-value."""
    tested = [position for position, estimate in enumerate(estimates) if estimate.p is not None]
    corrected = list(estimates)
    if tested:
        rates = multipletests([estimates[position].p for position in tested], method="fdr_bh")[1]
        for position, rate in zip(tested, rates, strict=True):
            corrected[position] = corrected[position].described(p_adjusted=float(rate), family=family)
    return corrected


def _check_rows(design: pd.DataFrame, outcome: pd.Series[float], name: str) -> None:
    if 0 in design.shape:
        raise QueryError(
            f"A linear model of {name} has {design.shape[0]} rows and {design.shape[1]} columns, expected some."
        )
    if not design.index.equals(outcome.index):
        raise QueryError(
            f"The rows of {name} are not those of its design matrix; expected the same, in the same order."
        )
    for column, cells in (*design.items(), (name, outcome)):
        if wrong := int((~np.isfinite(cells.to_numpy(dtype=float))).sum()):
            raise QueryError(f"{column} is missing or infinite in {wrong} of {len(cells)} rows of a linear model.")


def _inference(results: Any, terms: Sequence[str]) -> dict[str, tuple[float, float, float]]:
    """Interval and p-value of each term, in the order of the fit, whose standard error is more than 0."""
    errors, intervals = np.asarray(results.bse), np.asarray(results.conf_int(alpha=0.05))
    with np.errstate(divide="ignore", invalid="ignore"):  # by a standard error of 0, of terms that are left out below
        p = np.asarray(results.pvalues)
    return {
        term: (float(intervals[position, 0]), float(intervals[position, 1]), float(p[position]))
        for position, term in enumerate(terms)
        if errors[position] > 0
    }


def _robust_inference(design: pd.DataFrame, endog: Any) -> dict[str, tuple[float, float, float]]:
    """Interval and p-value of each term with HC3 standard errors, for a design of independent columns.

    A row with leverage 1, such as the only member of a group, makes HC3 0 / 0; without such rows and the columns that
    only they fix, all other coefficients are the same. A term that needs such a row has none.
    """
    exog = design.to_numpy(dtype=float)
    orthonormal = np.linalg.qr(exog / np.linalg.norm(exog, axis=0))[0]
    usual = 1 - (orthonormal**2).sum(axis=1) > COLLINEAR
    rest = design[usual]
    null = {} if usual.all() else find_null_vectors(rest)
    independent = [term for term in design.columns if term not in null]
    inferred = _inference(
        OLS(endog[usual], rest[independent]).fit().get_robustcov_results("HC3", use_t=True), independent
    )
    return {term: numbers for term, numbers in inferred.items() if find_coinciding_columns(term, null) is None}


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
        test=compute_factor_test(fit, design.terms[treatment], name=treatment) if len(fit.estimates) > 1 else None,
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

    return build_design(
        cells,
        numeric=of("number"),
        log=of("log"),
        categorical=of("category"),
        boolean=of("truth"),
        references={name: level for name, level in references.items() if name in scales},
    )
