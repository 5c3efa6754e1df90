"""Effects of choices that were drawn at random, with the p-values that the draw itself permits.

A contrast is a number an encoder: 1 or 0 for a switch or a level, the position of a level for a number, NaN where it
says nothing of the encoder: a level is held against another, and the encoder has a third; the choice does not apply.
Its effect on an outcome is estimated twice: alone, as the slope on it (of a switch the difference in means), and by
least squares beside all other contrasts, which takes away what they add to the scatter.

If a choice changes nothing, any other assignment of the encoders' outcomes was as likely as the one that was seen. So
outcomes are permuted over encoders, whole rows of them, and the slope's t statistic is compared with those of the
permutations. The largest statistic over contrasts and outcomes gives p-values that hold for the whole family, stepped
down from the largest to the smallest.

References
----------
P. H. Westfall and S. S. Young 1993, Resampling-Based Multiple Testing (the stepped-down maximum).
D. Freedman and D. Lane 1983, A Nonstochastic Interpretation of Reported Significance Levels (permuting residuals).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import QueryError, UnknownName
from ..optional import requires_extra
from .columns import Estimate
from .ols import CONSTANT, fit_ols

with requires_extra("study", needed_for="A randomised experiment"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

N_PERMUTATIONS = 9_999
ALONE, BESIDE = "difference in means", "least squares on all choices"
_TIES = 1e-9  # statistics that differ by less are as large as each other


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomisedEffect:
    """The effect of one contrast, or of one interaction, on one outcome."""

    term: str
    outcome: str
    alone: Estimate | None  # the slope on the contrast alone; None of an interaction
    beside: Estimate  # by least squares beside all contrasts; its robust interval is HC3
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

    Parameters
    ----------
    contrasts : DataFrame
        (n_encoders, n_contrasts), float64; NaN where one says nothing of an encoder, which enters as 0 beside others:
        so code levels against a third as 1 and 0, and what does not apply to all about 0.
    outcomes : DataFrame
        (n_encoders, n_outcomes) with the same index, complete.
    factors : sequence of sequence of str
        Contrasts that are all levels of one choice, each 1 for the level and 0 for the others: every level is then held
        against the mean of the others.
    units : mapping, optional
        What a unit of a contrast is: ``{"dim": "4 times the dimensions"}``.
    unit : str
        Of the outcomes.
    n_permutations : int
        The least p-value is one by this and one.
    seed : int
        Of the permutations.

    Raises
    ------
    QueryError
        If encoders differ, an outcome is missing, a contrast never varies, or there are too few encoders.
    """
    _check(contrasts, outcomes)
    p, p_family = permutation_p(contrasts, outcomes, n_permutations=n_permutations, seed=seed)
    found = []
    for term in map(str, contrasts.columns):
        model = _model(contrasts, factors, term)
        x = contrasts[term].dropna()
        words = f"{unit} per {(units or {}).get(term, term)}"
        for outcome in map(str, outcomes.columns):
            y = outcomes[outcome]
            label: dict[str, Any] = {"terms": [term], "outcome_name": outcome, "unit": words}
            beside = fit_ols(model, y, method=f"randomised, {BESIDE}", **label).estimate(term)
            slope = pd.DataFrame({CONSTANT: 1.0, term: x})
            alone = fit_ols(slope, y.loc[x.index], method=f"randomised, {ALONE}", **label).estimate(term)
            place = (contrasts.columns.get_loc(term), outcomes.columns.get_loc(outcome))
            found.append(
                RandomisedEffect(
                    term=term,
                    outcome=outcome,
                    alone=alone.described(p=float(p[place])),
                    beside=beside,
                    p=float(p[place]),
                    p_family=float(p_family[place]),
                    n=len(x),
                )
            )
    return found


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

    ``pairs`` are two contrasts and an outcome. The model has all contrasts and the product of the two, each less its
    mean; residuals of the model without the product are permuted (Freedman and Lane).
    """
    _check(contrasts, outcomes)
    for first, second, outcome in pairs:
        for name, known in ((first, contrasts), (second, contrasts), (outcome, outcomes)):
            if name not in known:
                raise UnknownName("contrast or outcome", name, [str(one) for one in known])
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
        basis: NDArray[np.float64] = np.linalg.qr(_independent(model))[0].astype(np.float64)
        rest = _residual(np.asarray(product, dtype=np.float64), basis)
        residual = _residual(y.to_numpy(dtype=np.float64), basis)
        freedom = len(model) - basis.shape[1] - 1
        shuffled = residual[order]  # (n_permutations, n)
        shuffled = shuffled - (shuffled @ basis) @ basis.T
        seen.append(_t(rest, residual[None], freedom)[0])
        drawn.append(_t(rest, shuffled, freedom))
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
    y = outcomes.to_numpy(dtype=float)
    order = _orders(len(y), n_permutations, seed)
    shape = (contrasts.shape[1], y.shape[1])
    seen, drawn = np.empty(shape), np.empty((n_permutations, *shape))
    for number, term in enumerate(contrasts):
        x = contrasts[term].to_numpy(dtype=float)
        applies = np.isfinite(x)
        centred = x[applies] - x[applies].mean()
        for position in range(y.shape[1]):
            values = np.concatenate([y[None, applies, position], y[:, position][order][:, applies]])
            values = values - values.mean(axis=1, keepdims=True)
            t = _t(centred, values, int(applies.sum()) - 2)
            seen[number, position], drawn[:, number, position] = t[0], t[1:]
    p, p_family = _stepped_down(seen.ravel(), drawn.reshape(n_permutations, -1))
    return p.reshape(shape), p_family.reshape(shape)


def _t(x: NDArray[np.float64], y: NDArray[np.float64], freedom: int) -> NDArray[np.float64]:
    """Absolute t statistics of slopes; x (n,) and y (n_draws, n) have mean 0."""
    r = (y @ x) / np.sqrt(np.maximum((x @ x) * np.einsum("ij,ij->i", y, y), 1e-300))
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
    if n_permutations < 1:
        raise QueryError(f"Got {n_permutations} permutations, expected at least 1.")
    return np.random.default_rng(seed).permuted(np.tile(np.arange(n), (n_permutations, 1)), axis=1)


def _model(contrasts: pd.DataFrame, factors: Sequence[Sequence[str]], term: str) -> pd.DataFrame:
    """The constant and every contrast, 0 where it says nothing.

    Of a factor all levels would add up to the constant. Beside one of them, ``term``, the others enter as differences
    from the last, so that its coefficient is against their mean.
    """
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


def _independent(model: pd.DataFrame) -> NDArray[np.float64]:
    """The columns that do not add up to earlier ones."""
    matrix = model.to_numpy(dtype=float)
    kept: list[int] = []
    for column in range(matrix.shape[1]):
        if np.linalg.matrix_rank(matrix[:, [*kept, column]]) > len(kept):
            kept.append(column)
    return matrix[:, kept]


def _centred(x: pd.Series[float]) -> pd.Series[float]:
    return (x - x.mean()).fillna(0.0)


def _residual(y: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    return y - basis @ (basis.T @ y)


def _check(contrasts: pd.DataFrame, outcomes: pd.DataFrame) -> None:
    if not contrasts.index.equals(outcomes.index):
        raise QueryError("The encoders of contrasts and outcomes differ; expected the same ones in the same order.")
    gone = [str(name) for name in outcomes if not np.isfinite(outcomes[name].to_numpy(dtype=float)).all()]
    if gone:
        raise QueryError(
            f"The outcome {gone[0]} is missing for an encoder; expected it for all that were drawn, for leaving some "
            "out would choose among them."
        )
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
