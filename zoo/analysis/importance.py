"""What boosted trees say of an outcome: how much of it the facts of an encoder explain, which facts matter, which way.

XGBoost with SHAP values (Dubois et al. 2023, Appendix C.4, Tables 3 and 6, Figures 7, 17 and 18), by stored settings.
The paper compares the squared mean of 30 fold errors with the variance, which is optimistic with five encoders a fold;
the pooled out-of-fold R2 is not. Settings were tuned on the same encoders: :func:`estimate_nested_variance` measures
that optimism. SHAP values describe what trees rely on; they are no causal effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import QueryError, format_count
from ..optional import require_extra
from .columns import STUDY_COLUMNS, Estimate
from .table import StudyTable
from .trees import (
    Array,
    Search,
    TreeSample,
    compute_fold_errors,
    compute_pooled_r2,
    compute_r2_by_fold,
    describe_tree_features,
    draw_folds,
    hash_predictions,
    iterate_searches,
    list_rows_outside,
    predict_out_of_fold,
    read_stored_predictions,
    read_tuned_parameters,
    resample_pooled_r2,
    select_sample,
    train_trees,
)

with require_extra("study", needed_for="The importance of design choices"):
    import numpy as np
    import pandas as pd
    from scipy import stats

FEWEST = 10  # encoders that trees are trained on; of fewer they learn next to nothing
Direction = Literal["raises", "lowers", "little"]
LITTLE = 0.01  # share of the outcome's mean size, below which a difference counts as none
_SHAP_NOTE = (
    "the interval covers which encoders are averaged over; the model is held fixed, and SHAP values share out what the "
    "model does, not what causes the outcome"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedVariance:
    """How much of the variance of an outcome trees explain for encoders that they were not shown; percent."""

    outcome: str
    features: str  # name of the set in TREE_FEATURES, or the columns
    by_fold: float  # the paper's definition: 1 - (mean of the fold RMSEs)^2 / variance
    pooled: float  # 1 - (mean squared error out of fold) / variance, over all encoders and repeats
    pooled_ci_low: float  # 95 %, bootstrap over encoders
    pooled_ci_high: float
    n: int  # encoders
    n_folds: int
    n_repeats: int
    fold_errors: tuple[float, ...]  # RMSE of each fold, n_repeats x n_folds of them, in the outcome's unit
    predictions: pd.DataFrame  # out of fold: one row per encoder, one column a repeat (0, 1, ...)
    measured: pd.Series  # the outcome, in the same order

    @property
    def estimates(self) -> tuple[Estimate, Estimate]:
        """The two percentages as records: terms "explained variance, by fold" and "explained variance, pooled"."""
        method = f"boosted trees, {self.n_folds} folds x {self.n_repeats}"
        label = Estimate(term="explained variance", n=self.n, unit="percent", outcome=self.outcome, method=method)
        note = "1 - (mean of the fold RMSEs)^2 / variance, which is optimistic"
        by_fold = label.with_value(self.by_fold, term="explained variance, by fold", note=note)
        interval = self.pooled_ci_low, self.pooled_ci_high
        note = "out-of-fold R2; the interval covers which encoders were measured, with the models held fixed"
        return by_fold, label.with_value(self.pooled, interval, term="explained variance, pooled", note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """SHAP values of one model of an outcome, trained on all encoders that have it."""

    outcome: str
    features: str
    shap: pd.DataFrame  # encoder x feature, in the outcome's unit; negative lowers the risk
    base: float  # shap.sum(axis=1) + base is the model's prediction
    values: pd.DataFrame  # encoder x feature, as the model saw them: rounded numbers, text; NaN where missing
    n: int
    mean_absolute: pd.Series  # feature -> mean |SHAP|, largest first
    estimates: tuple[Estimate, ...]  # mean |SHAP| a feature, largest first; the term is the feature


def explained_variance(
    table: StudyTable,
    outcome: str,
    *,
    features: str | Sequence[str] = "few",
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    n_folds: int = 30,
    n_repeats: int = 3,
    n_workers: int = 0,
) -> ExplainedVariance:
    """How well trees predict an outcome of encoders left out of training; predictions of shipped rows are stored.

    Parameters
    ----------
    outcome : str
        A column in numbers; encoders without it are left out.
    features : str or sequence of str
        A set of :data:`~zoo.analysis.trees.TREE_FEATURES`, or columns.
    parameters : mapping, optional
        Settings of the trees, ``rounds`` and those of XGBoost; by default the stored ones.
    seed : int
        Of the folds and of the trees. The folds are others than those of tuning with the same seed.
    n_folds, n_repeats : int
        The paper has one division into 30 folds; three divisions depend less on chance.
    n_workers : int
        Threads; 0 takes one per core. The result does not depend on it.

    Raises
    ------
    UnknownName
        If the outcome or a feature is no column.
    QueryError
        If fewer encoders than folds have the outcome, it never varies, or no settings are stored.

    References
    ----------
    Dubois et al. 2023, Table 6.
    """
    sample = select_sample(table, outcome, features, n_least=n_folds)
    settings = read_tuned_parameters(outcome, features) if parameters is None else parameters
    divisions = [draw_folds(sample.n, n_folds, seed=seed, draw=1 + repeat) for repeat in range(n_repeats)]
    predictions = read_stored_predictions(hash_predictions(sample, settings, divisions, seed))
    if predictions is None:
        predictions = predict_out_of_fold(sample, settings, divisions, seed=seed, n_workers=n_workers)
    return _explained(sample, outcome, features, divisions, predictions, seed)


def estimate_nested_variance(
    table: StudyTable,
    outcome: str,
    *,
    features: str | Sequence[str] = "few",
    n_trials: int = 50,
    n_folds: int = 30,
    seed: int = 0,
    n_workers: int = 0,
) -> ExplainedVariance:
    """:func:`explained_variance` with one repeat, each fold predicted with settings that were tuned without it.

    It takes a search for each fold, ``n_workers`` of them at a time in processes.
    """
    sample = select_sample(table, outcome, features, n_least=2 * n_folds)
    folds = draw_folds(sample.n, n_folds, seed=seed, draw=1)
    searches = [
        Search(
            sample=sample.only(list_rows_outside(sample.n, fold)),
            outcome=outcome,
            features=describe_tree_features(features),
            n_trials=n_trials,
            n_folds=10,
            seed=seed,
        )
        for fold in folds
    ]
    predictions = np.empty((1, sample.n))
    for fold, search, tuned in zip(folds, searches, iterate_searches(searches, n_workers), strict=True):
        booster = train_trees(search.sample, tuned.parameters, seed=seed)
        predictions[0, fold] = booster.predict(sample.matrix(fold))
    return _explained(sample, outcome, features, [folds], predictions, seed)


def tree_importance(
    table: StudyTable,
    outcome: str,
    *,
    features: str | Sequence[str] = "few",
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Importance:
    """Which facts of an encoder the trees that explain an outcome go by, and in which direction.

    Parameters and errors are those of :func:`explained_variance`; QueryError also below :data:`FEWEST` encoders, and if
    no feature varies.

    References
    ----------
    Lundberg and Lee 2017, A Unified Approach to Interpreting Model Predictions.
    Dubois et al. 2023, Figures 7, 17 and 18.
    """
    sample = select_sample(table, outcome, features)
    _require_something_to_learn(sample, outcome)
    settings = read_tuned_parameters(outcome, features) if parameters is None else parameters
    model = train_trees(sample, settings, seed=seed)
    credit = model.predict(sample.matrix(np.arange(sample.n)), pred_contribs=True)  # those of shap.TreeExplainer
    shares = pd.DataFrame(
        credit[:, :-1], index=sample.values.index, columns=sample.values.columns, dtype="float64"
    )  # the base is last
    estimates = _mean_absolute(shares, outcome, sample, seed=seed)
    return Importance(
        outcome=outcome,
        features=describe_tree_features(features),
        shap=shares,
        base=float(credit[0, -1]),
        values=sample.values,
        n=sample.n,
        estimates=estimates,
        mean_absolute=pd.Series({estimate.term: estimate.value for estimate in estimates}, dtype="float64"),
    )


def _explained(
    sample: TreeSample,
    outcome: str,
    features: str | Sequence[str],
    divisions: Sequence[Sequence[Array]],
    predictions: Array,
    seed: int,
) -> ExplainedVariance:
    errors = np.concatenate(
        [
            compute_fold_errors(sample.y, predicted, folds)
            for predicted, folds in zip(predictions, divisions, strict=True)
        ]
    )
    low, high = resample_pooled_r2(sample.y, predictions, seed=seed)
    encoders = sample.values.index
    return ExplainedVariance(
        outcome=outcome,
        features=describe_tree_features(features),
        by_fold=compute_r2_by_fold(errors, sample.y),
        pooled=compute_pooled_r2(sample.y, predictions),
        pooled_ci_low=low,
        pooled_ci_high=high,
        n=sample.n,
        n_folds=len(divisions[0]),
        n_repeats=len(divisions),
        fold_errors=tuple(errors.tolist()),
        predictions=pd.DataFrame(predictions.T, index=encoders),
        measured=pd.Series(sample.y, index=encoders, name=outcome),
    )


def _mean_absolute(shares: pd.DataFrame, outcome: str, sample: TreeSample, *, seed: int) -> tuple[Estimate, ...]:
    sizes = shares.abs().to_numpy()  # (n, n_features)
    counts = np.random.default_rng([seed, sample.n]).multinomial(sample.n, np.full(sample.n, 1 / sample.n), size=1000)
    low, high = np.percentile(counts @ sizes / sample.n, [2.5, 97.5], axis=0)
    means = sizes.mean(axis=0)
    unit, method = STUDY_COLUMNS[outcome].unit, "mean absolute SHAP value"
    label = Estimate(term="", n=sample.n, unit=unit, outcome=outcome, method=method, note=_SHAP_NOTE)
    return tuple(
        label.with_value(means[position], (low[position], high[position]), term=str(shares.columns[position]))
        for position in np.argsort(-means, kind="stable")
    )


def _require_something_to_learn(sample: TreeSample, outcome: str) -> None:
    if sample.n < FEWEST:
        raise QueryError(
            f"Only {sample.n} of the encoders have {outcome}, expected at least {FEWEST} to train trees on; "
            "measure more of them."
        )
    if not any(sample.values[name].nunique(dropna=False) > 1 for name in sample.values):
        raise QueryError(
            f"None of the {len(sample.values.columns)} features varies among the {sample.n} encoders that have "
            f"{outcome}, expected at least one that does; take other features or a larger population."
        )


def estimate_level_effect(importance: Importance, feature: str, levels: Sequence[str]) -> Estimate:
    """Mean SHAP value of a feature for encoders with some of its values (``levels``), minus that for all others.

    In the outcome's unit; negative lowers the risk. A missing value counts as another one.
    """
    shap = get_shap_values(importance, feature)
    chosen = importance.values[feature].astype(object).isin(list(levels)).to_numpy(bool)
    if chosen.all() or not chosen.any():
        raise QueryError(
            f"{int(chosen.sum())} of the {len(chosen)} encoders with {importance.outcome} have {feature} "
            f"{' or '.join(levels)}, expected some with and some without."
        )
    term = f"{feature} = {' or '.join(levels)}"
    return _difference(importance, term, shap[chosen], shap[~chosen])


def number_effect(importance: Importance, feature: str, *, encoders: Collection[str] | None = None) -> Estimate:
    """Mean SHAP value of a feature for encoders with large numbers, minus that for encoders with small ones.

    The cut is nearest to the median; encoders without a number, or not among ``encoders``, are left out.
    """
    chosen = np.ones(importance.n, dtype=bool) if encoders is None else importance.shap.index.isin(list(encoders))
    shap = get_shap_values(importance, feature)[chosen]
    numbers = importance.values[feature].to_numpy(dtype=float)[chosen]
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
    effect = _difference(importance, f"{feature} >= {cut:g}", shap[large], shap[~large])
    note = f"{effect.note}; rank correlation of SHAP values and numbers {correlation:+.2f}"
    return effect.described(note=note)


def _difference(importance: Importance, term: str, first: Array, second: Array) -> Estimate:
    """Mean SHAP value of some encoders minus that of others."""
    return Estimate(
        term=term,
        value=float(first.mean() - second.mean()),
        n=len(first) + len(second),
        unit=STUDY_COLUMNS[importance.outcome].unit,
        outcome=importance.outcome,
        method="difference of mean SHAP values",
        note=f"{len(first)} against {format_count(len(second), 'encoder')}",
    )


def iterate_subsampled_trees(
    table: StudyTable,
    outcome: str,
    *,
    features: str = "few",
    parameters: Mapping[str, Any] | None = None,
    n_subsamples: int = 8,
    share: float = 0.8,
    seed: int = 0,
) -> Iterator[Importance]:
    """The trees of an outcome trained again on random parts of the encoders, each a ``share`` of them."""
    encoders = table.complete(outcome).index.to_numpy()
    for number in range(n_subsamples):
        drawn = np.random.default_rng([seed, number]).permutation(len(encoders))[: max(2, round(share * len(encoders)))]
        part = table.only(encoders[drawn].tolist(), because="not in the subsample")
        yield tree_importance(part, outcome, features=features, parameters=parameters, seed=seed)


def describe_direction(effect: Estimate, *, mean: float) -> Direction:
    """A difference of mean SHAP values in words; below 1 % of the outcome's mean absolute value it is little.

    >>> describe_direction(Estimate(term="z_dim", value=-0.5, n=9, unit="percentage points"), mean=6.0)
    'lowers'
    """
    if effect.value is None or abs(effect.value) < LITTLE * mean:
        return "little"
    return "raises" if effect.value > 0 else "lowers"


def get_shap_values(importance: Importance, feature: str) -> Array:
    """SHAP values (n,) of a feature, in the unit of the outcome; QueryError if the trees do not know it."""
    if feature not in importance.shap.columns:
        raise QueryError(
            f"The trees of {importance.outcome} do not know {feature}; expected one of "
            f"{', '.join(importance.shap.columns)}."
        )
    return importance.shap[feature].to_numpy(dtype=float)
