"""Effects of choices that were drawn at random, with permutation p-values.

An effect is estimated alone, as the slope on its contrast, and by least squares adjusted for all other contrasts.
Outcomes are permuted over encoders, whole rows of them; family-wise p-values are those of the stepped-down maximum of t
(Westfall and Young 1993). Interactions permute residuals (Freedman and Lane 1983).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from zoo.analysis.columns import Estimate
from zoo.analysis.linear import CONSTANT, find_null_vectors, fit_ols
from zoo.errors import QueryError

N_PERMUTATIONS = 9_999
ALONE, BESIDE = "difference in means", "least squares on all choices"
_TIES = 1e-9  # statistics that differ by less are as large as each other


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomisedEffect:
    """The effect of one contrast, or of one interaction, on one outcome."""

    term: str
    outcome: str
    alone: Estimate | None  # the slope on the contrast alone; None of an interaction
    beside: Estimate  # by least squares adjusted for all contrasts; its robust interval is HC3
    p: float  # by permutation, two-sided
    p_family: float  # the same, held for all terms and outcomes of the family
    n: int  # encoders to which the choice applies


def randomised_effects(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    *,
    factors: Sequence[Sequence[str]] = (),
    units: Mapping[str, str] | None = None,
    unit: str = "percentage points",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[RandomisedEffect]:
    """Effects of all contrasts on all outcomes, one family of tests.

    ``contrasts`` is (n_encoders, n_contrasts), NaN where one does not apply, and ``outcomes`` (n_encoders, n_outcomes)
    with the same index, complete. ``factors`` are contrasts that are all levels of one choice: each level is compared
    with the mean of the others. ``units`` are words for a unit of a contrast. QueryError if a contrast hardly
    varies, or there are too few encoders.
    """
    _check(contrasts)
    p, p_family = permutation_p(contrasts, outcomes, n_permutations=n_permutations, seed=seed)
    words = {name: f"{unit} per {(units or {}).get(name, name)}" for name in map(str, contrasts)}
    levels = [name for factor in factors for name in factor]
    beside = _beside(_model(contrasts, factors, ""), outcomes, [name for name in words if name not in levels], words)
    for name in levels:
        beside |= _beside(_model(contrasts, factors, name), outcomes, [name], words)
    return [
        _effect(contrasts[name], outcomes[outcome], beside[name, outcome], p[row, column], p_family[row, column])
        for row, name in enumerate(words)
        for column, outcome in enumerate(map(str, outcomes))
    ]


def randomised_mean(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    terms: Sequence[str],
    *,
    name: str,
    factors: Sequence[Sequence[str]] = (),
    unit: str = "percentage points",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[RandomisedEffect]:
    """The mean of the effects of several switches on each outcome: what one more of them changes on average.

    ``terms`` are contrasts of at least two switches that apply to all encoders, ``name`` what they are together; other
    arguments are those of :func:`randomised_effects`.
    """
    _check(contrasts)
    number = contrasts[list(terms)].sum(axis=1, skipna=False)
    if len(terms) < 2 or number.isna().any():
        raise QueryError(f"Got {' and '.join(terms)} for a mean, expected two switches or more that apply to all.")
    p, p_family = permutation_p(number.to_frame(name), outcomes, n_permutations=n_permutations, seed=seed)
    model = _model(contrasts, factors, "")
    # sum b_i x_i = mean(b) sum x_i + sum (b_i - mean(b)) (x_i - x_last)
    differences = {term: contrasts[term] - contrasts[terms[-1]] for term in terms[:-1]}
    model = model.drop(columns=list(terms)).assign(**differences, **{name: number})
    beside = _beside(model, outcomes, [name], {name: f"{unit} per {name}"})
    return [
        _effect(number.rename(name), outcomes[outcome], one, p[0, column], p_family[0, column])
        for column, ((_, outcome), one) in enumerate(beside.items())
    ]


def _beside(
    model: pd.DataFrame, outcomes: pd.DataFrame, terms: Sequence[str], units: Mapping[str, str]
) -> dict[tuple[str, str], Estimate]:
    """Coefficients of some terms of a model on every outcome, by term and outcome."""
    method = f"randomised, {BESIDE}"
    found: dict[tuple[str, str], Estimate] = {}
    for outcome in map(str, outcomes):
        fit = fit_ols(model, outcomes[outcome], terms=terms, outcome_name=outcome, unit=units, method=method)
        found |= {(term, outcome): fit.estimate(term) for term in terms}
    return found


def _effect(
    contrast: pd.Series[float], outcome: pd.Series[float], beside: Estimate, p: float, p_family: float
) -> RandomisedEffect:
    """An effect, with the slope on the contrast alone."""
    x = contrast.dropna()
    fit = fit_ols(
        pd.DataFrame({CONSTANT: 1.0, beside.term: x}),
        outcome.loc[x.index],
        terms=[beside.term],
        outcome_name=beside.outcome,
        unit=beside.unit,
        method=f"randomised, {ALONE}",
    )
    return RandomisedEffect(
        term=beside.term,
        outcome=beside.outcome,
        alone=fit.estimate(beside.term).described(p=float(p)),
        beside=beside,
        p=float(p),
        p_family=float(p_family),
        n=len(x),
    )


def randomised_interactions(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    pairs: Sequence[tuple[str, str, str]],
    *,
    factors: Sequence[Sequence[str]] = (),
    unit: str = "percentage points",
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[RandomisedEffect]:
    """How much more one contrast changes an outcome where another is one larger; one family of tests.

    ``pairs`` are two contrasts and an outcome. The model has all contrasts and the centred product of the two.
    """
    _check(contrasts)
    order = _orders(len(contrasts), n_permutations, seed)
    model = _model(contrasts, factors, "")
    estimates, seen, drawn = [], [], []
    for first, second, outcome in pairs:
        term = f"{first} x {second}"
        product = _centred(contrasts[first]) * _centred(contrasts[second])
        y = outcomes[outcome]
        fit = fit_ols(
            model.assign(**{term: product}),
            y,
            terms=[term],
            outcome_name=outcome,
            unit=f"{unit} more per {first} for each {second}",
            method=f"randomised, {BESIDE}",
        )
        estimates.append(fit.estimate(term))
        independent = model.drop(columns=list(find_null_vectors(model))).to_numpy(dtype=np.float64)
        basis: NDArray[np.float64] = np.linalg.qr(independent)[0]
        rest = _residual(np.asarray(product, dtype=np.float64), basis)
        residual = _residual(y.to_numpy(dtype=np.float64), basis)
        freedom = len(model) - basis.shape[1] - 1
        shuffled = residual[order]  # (n_permutations, n)
        shuffled = shuffled - (shuffled @ basis) @ basis.T
        seen.append(_t(rest[:, None], residual[None], freedom)[0, 0])
        drawn.append(_t(rest[:, None], shuffled, freedom)[:, 0])
    p, p_family = _stepped_down(np.array(seen), np.stack(drawn, axis=1))
    return [
        RandomisedEffect(
            term=one.term, outcome=one.outcome, alone=None, beside=one, p=float(own), p_family=float(family), n=one.n
        )
        for one, own, family in zip(estimates, p, p_family, strict=True)
    ]


def permutation_p(
    contrasts: pd.DataFrame, outcomes: pd.DataFrame, *, n_permutations: int = N_PERMUTATIONS, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided p-values of all contrasts alone, and those that hold for the family; (n_contrasts, n_outcomes)."""
    seen, drawn = _permuted(contrasts, outcomes, n_permutations, seed)
    p, p_family = _stepped_down(seen.ravel(), drawn.reshape(n_permutations, -1))
    return p.reshape(seen.shape), p_family.reshape(seen.shape)


def critical_t(
    contrasts: pd.DataFrame,
    outcomes: pd.DataFrame,
    *,
    level: float = 0.05,
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> float:
    """The t statistic that the maximum over a family without any effect exceeds with a probability of ``level``."""
    _, drawn = _permuted(contrasts, outcomes, n_permutations, seed)
    return float(np.quantile(drawn.max(axis=(1, 2)), 1 - level))


def detectable(effect: RandomisedEffect, t: float, *, power: float = 0.8) -> float:
    """The effect that would have a t statistic above ``t`` with a probability of ``power``, in the effect's unit."""
    alone = effect.alone
    if alone is None or alone.ci_low is None or alone.ci_high is None:
        raise QueryError(f"The effect of {effect.term} on {effect.outcome} has no interval to judge its power by.")
    error = (alone.ci_high - alone.ci_low) / 2 / float(student.ppf(0.975, effect.n - 2))
    return (t + float(student.ppf(power, effect.n - 2))) * error


def _permuted(
    contrasts: pd.DataFrame, outcomes: pd.DataFrame, n_permutations: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Absolute t statistics as seen (n_contrasts, n_outcomes), and of permuted outcomes, (n_permutations, ...)."""
    x, y = contrasts.to_numpy(dtype=float), outcomes.to_numpy(dtype=float)
    order = np.concatenate([np.arange(len(y))[None], _orders(len(y), n_permutations, seed)])
    t = np.empty((len(order), x.shape[1], y.shape[1]))
    whole = np.isfinite(x).all(axis=0)
    for place in range(y.shape[1]):
        values = (y[:, place] - y[:, place].mean())[order]  # (1 + n_permutations, n)
        t[:, whole, place] = _t(x[:, whole] - x[:, whole].mean(axis=0), values, len(y) - 2)
        for number in np.flatnonzero(~whole):
            applies = np.isfinite(x[:, number])
            some, own = values[:, applies], x[applies, number, None]
            some = some - some.mean(axis=1, keepdims=True)
            t[:, [number], place] = _t(own - own.mean(), some, int(applies.sum()) - 2)
    return t[0], t[1:]


def _t(x: NDArray[np.float64], y: NDArray[np.float64], freedom: int) -> NDArray[np.float64]:
    """Absolute t statistics (n_draws, k) of slopes; x (n, k) and y (n_draws, n) have mean 0."""
    spread = np.einsum("ij,ij->i", y, y)[:, None] * np.einsum("ij,ij->j", x, x)
    r = (y @ x) / np.sqrt(np.maximum(spread, 1e-300))
    return np.abs(r) * np.sqrt(freedom / np.maximum(1 - r**2, 1e-12))  # type: ignore[no-any-return]


def _stepped_down(
    seen: NDArray[np.float64], drawn: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p-values of each statistic, and by the largest of those no larger than it; seen (k,), drawn (n_draws, k)."""
    n = len(drawn) + 1
    p = (1 + (drawn >= seen - _TIES).sum(axis=0)) / n
    order = np.argsort(-seen, kind="stable")
    largest = np.maximum.accumulate(drawn[:, order][:, ::-1], axis=1)[:, ::-1]
    stepped = np.maximum.accumulate((1 + (largest >= seen[order] - _TIES).sum(axis=0)) / n)
    p_family = np.empty_like(stepped)
    p_family[order] = stepped
    return p, p_family


def _orders(n: int, n_permutations: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permuted(np.tile(np.arange(n), (n_permutations, 1)), axis=1)


def _model(contrasts: pd.DataFrame, factors: Sequence[Sequence[str]], term: str) -> pd.DataFrame:
    """The constant and every contrast, 0 where it does not apply; levels of a factor as differences from the last."""
    columns: dict[str, pd.Series[float]] = {CONSTANT: pd.Series(1.0, index=contrasts.index)}
    differences: dict[str, str] = {}
    for factor in factors:
        others = [name for name in factor if name != term]
        differences |= dict.fromkeys(others, others[-1])
    for name in map(str, contrasts.columns):
        x = contrasts[name].astype("float64")
        if name not in differences:
            columns[name] = x.fillna(0.0)
        elif name != differences[name]:
            columns[name] = x - contrasts[differences[name]]
    return pd.DataFrame(columns)


def _centred(x: pd.Series[float]) -> pd.Series[float]:
    return (x - x.mean()).fillna(0.0)


def _residual(y: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    return y - basis @ (basis.T @ y)


def _check(contrasts: pd.DataFrame) -> None:
    for term in contrasts:
        x = contrasts[term].dropna()
        least = min(int((x > x.mean()).sum()), int((x < x.mean()).sum()))
        if least < 2:
            raise QueryError(
                f"{term} hardly varies among the {len(x)} encoders it applies to, expected at least 2 on either side "
                "of its mean; draw more encoders."
            )
    if len(contrasts) <= contrasts.shape[1] + 2:
        raise QueryError(
            f"Got {len(contrasts)} encoders and {contrasts.shape[1]} contrasts, expected more encoders than that; "
            "draw more of them or fewer choices."
        )
