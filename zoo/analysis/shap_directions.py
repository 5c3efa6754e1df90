"""Which way a choice moves an outcome, by the SHAP values of trees: up, down, or hardly at all (Table 3).

SHAP values describe what trees that predict an outcome lean on. They are no effects: choices that come together share
their credit, and trees that predict badly have nothing to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from ..errors import QueryError
from ..optional import requires_extra
from .estimates import Estimate
from .importance import Importance, tree_importance
from .studycolumns import STUDY_COLUMNS
from .table import StudyTable

with requires_extra("study", needed_for="A direction of SHAP values"):
    import numpy as np
    from scipy import stats

Direction = Literal["raises", "lowers", "little"]
METHOD = "difference of mean SHAP values"
LITTLE = 0.01  # share of the outcome's mean size, below which a difference counts as none


def level_effect(importance: Importance, feature: str, levels: Sequence[str]) -> Estimate:
    """Mean SHAP value of a feature for encoders with some of its values, minus that for all others.

    Parameters
    ----------
    importance : Importance
        Of the outcome.
    feature : str
        A feature of the trees that is no number, such as ``"ssl_mode"``.
    levels : sequence of str
        Values of it; a missing one counts as another value.

    Returns
    -------
    Estimate
        In the outcome's unit; negative means that the trees lower the risk for these encoders. No interval: it
        describes one model.

    Raises
    ------
    QueryError
        If the trees lack the feature, or all or none of the encoders have the values.
    """
    shap = _shap_of(importance, feature)
    chosen = importance.values[feature].astype(object).isin(list(levels)).to_numpy(bool)
    if chosen.all() or not chosen.any():
        raise QueryError(
            f"{int(chosen.sum())} of the {len(chosen)} encoders with {importance.outcome} have {feature} "
            f"{' or '.join(levels)}, expected some with and some without."
        )
    return Estimate(
        term=f"{feature} = {' or '.join(levels)}", value=float(shap[chosen].mean() - shap[~chosen].mean()),
        n=len(chosen), unit=STUDY_COLUMNS[importance.outcome].unit, outcome=importance.outcome,
        method=METHOD, note=f"{int(chosen.sum())} against {int((~chosen).sum())} encoders",
    )  # fmt: skip


def number_effect(importance: Importance, feature: str, *, encoders: Collection[str] | None = None) -> Estimate:
    """Mean SHAP value of a feature for encoders with large numbers, minus that for encoders with small ones.

    The numbers are cut where the two halves are most alike in size. Encoders without a number are left out. The note
    tells the rank correlation of SHAP values and numbers.

    Parameters
    ----------
    encoders : collection of str, optional
        Those to look at; by default all.

    Returns
    -------
    Estimate
        As of :func:`level_effect`.

    Raises
    ------
    QueryError
        If the trees lack the feature, or its numbers do not vary.
    """
    chosen = np.ones(importance.n, dtype=bool) if encoders is None else importance.shap.index.isin(list(encoders))
    shap, numbers = _shap_of(importance, feature)[chosen], importance.values[feature].to_numpy(dtype=float)[chosen]
    known = np.isfinite(numbers)
    shap, numbers = shap[known], numbers[known]
    cuts = sorted(set(numbers.tolist()))[1:]
    if not cuts:
        raise QueryError(
            f"The {len(numbers)} encoders with {importance.outcome} have fewer than two values of {feature}, expected "
            "several to compare."
        )
    cut = min(cuts, key=lambda one: abs(int((numbers >= one).sum()) - len(numbers) / 2))
    large = numbers >= cut
    correlation = float(stats.spearmanr(numbers, shap).statistic) if np.ptp(shap) > 0 else 0.0
    return Estimate(
        term=f"{feature} >= {cut:g}", value=float(shap[large].mean() - shap[~large].mean()), n=len(shap),
        unit=STUDY_COLUMNS[importance.outcome].unit, outcome=importance.outcome, method=METHOD,
        note=f"{int(large.sum())} against {int((~large).sum())} encoders; rank correlation of SHAP values and numbers "
        f"{correlation:+.2f}",
    )  # fmt: skip


def subsampled(
    table: StudyTable, outcome: str, *, features: str = "few", parameters: Mapping[str, Any] | None = None,
    n_subsamples: int = 8, share: float = 0.8, seed: int = 0,
) -> Iterator[Importance]:  # fmt: skip
    """The trees of an outcome trained again and again on a random part of the encoders, to see what depends on which.

    Parameters
    ----------
    n_subsamples : int
        How often.
    share : float
        Part of the encoders with the outcome that each is trained on, drawn without replacement.

    Raises
    ------
    UnknownName, QueryError
        As :func:`zoo.analysis.importance.tree_importance`.
    """
    encoders = table.complete(outcome).index.to_numpy()
    for number in range(n_subsamples):
        drawn = np.random.default_rng([seed, number]).permutation(len(encoders))[: max(2, round(share * len(encoders)))]
        part = table.only(encoders[drawn].tolist(), because="not in the subsample")
        yield tree_importance(part, outcome, features=features, parameters=parameters, seed=seed)


def mean_by_value(importance: Importance, feature: str) -> tuple[Estimate, ...]:
    """Mean SHAP value of a feature by its own values, lowest first; terms are the values.

    Raises
    ------
    QueryError
        If the trees lack the feature.
    """
    shap, values = _shap_of(importance, feature), importance.values[feature].astype(object)
    known = values[values.notna()].astype(str)
    found = []
    for value in sorted(known.unique()):
        chosen = shap[(values.astype(str) == value).to_numpy(bool)]
        found.append(
            Estimate(
                term=value, value=float(chosen.mean()), n=len(chosen), unit=STUDY_COLUMNS[importance.outcome].unit,
                outcome=importance.outcome, method=f"mean SHAP value of {feature}",
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (one.value or 0.0, one.term)))


def direction(effect: Estimate, *, mean: float) -> Direction:
    """A difference of mean SHAP values in words.

    Parameters
    ----------
    mean : float
        Mean absolute value of the outcome; a difference below 1 % of it is little.

    >>> direction(Estimate(term="z_dim", value=-0.5, n=9, unit="percentage points"), mean=6.0)
    'lowers'
    """
    if effect.value is None or abs(effect.value) < LITTLE * mean:
        return "little"
    return "raises" if effect.value > 0 else "lowers"


def _shap_of(importance: Importance, feature: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if feature not in importance.shap.columns:
        raise QueryError(
            f"The trees of {importance.outcome} do not know {feature}; expected one of "
            f"{', '.join(importance.shap.columns)}."
        )
    return importance.shap[feature].to_numpy(dtype=float)
