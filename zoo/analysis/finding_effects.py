"""Methods by which effects of design choices were studied, asked the same questions, and how they fare.

Four methods: the plain association; controlled pairs (:mod:`zoo.analysis.controlled`); the global linear model
(:mod:`zoo.analysis.linear`); boosted trees with SHAP values (:mod:`zoo.analysis.importance`). A method finds an effect
if its p-value is at most 0.05, trees if the difference of mean SHAP values exceeds 1 % of the mean outcome.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import QueryError
from ..optional import requires_extra
from .controlled import controlled_effect
from .importance import LITTLE, Importance, tree_importance
from .known_effects import Floats, Question
from .linear import global_linear_effect
from .ols import design_of, null_vectors
from .table import StudyTable

with requires_extra("study", needed_for="Finding effects"):
    import numpy as np
    import pandas as pd
    from scipy import stats

ASSOCIATION, CONTROLLED, LINEAR, TREES = "association", "controlled pairs", "global linear model", "trees with SHAP"
METHODS = (ASSOCIATION, CONTROLLED, LINEAR, TREES)
LEVEL = 0.05  # p-value up to which a linear method finds an effect
TREE_SET = "filtered"  # of zoo.analysis.trees.TREE_FEATURES: the one that has every choice that is asked for
_HIGH_LEVERAGE = 1e-9  # share of itself that a row leaves over, below which a column of its own fits it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """How one linear method answers one question: the independent columns of its design, and what to read."""

    method: str
    question: Question
    rows: pd.Index  # encoders that take part
    design: Floats  # (n, n_columns), of full rank
    weights: Floats  # (n_columns,): the answer is this sum of coefficients


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Answers of one method to one question, for one or many outcomes; NaN where there is none."""

    method: str
    question: Question
    n: int  # encoders that take part; 0 if the question cannot be answered
    value: Floats  # (n_draws,), in percentage points for the question's change
    low: Floats  # ends of the 95 % interval; NaN of trees
    high: Floats
    low_robust: Floats  # with HC3 standard errors
    high_robust: Floats
    p: Floats
    found: np.ndarray  # bool: the method says that there is an effect
    why: str = ""  # why there is no answer

    @property
    def answered(self) -> np.ndarray:
        """Whether there is a value, (n_draws,)."""
        return np.isfinite(self.value)


def linear_answers(
    table: StudyTable, questions: Sequence[Question], outcome: str, outcomes: pd.DataFrame | None = None
) -> list[Answers]:
    """Answers of association, controlled pairs and the global linear model to every question.

    ``outcomes`` are drawn ones, (n_encoders, n_draws), for the encoders of the table; by default the ``outcome``, a
    column of the table, without which an encoder is left out.
    """
    y = table.frame[[outcome]] if outcomes is None else outcomes
    found = []
    for method in METHODS[:3]:
        for question in questions:
            try:
                found.append(answered_by(plan_of(table, method, question, outcome), y))
            except QueryError as error:
                found.append(no_answer(method, question, y.shape[1], str(error)))
    return found


def plan_of(table: StudyTable, method: str, question: Question, outcome: str) -> Plan:
    """The design by which a linear method answers a question; QueryError if it cannot."""
    options: dict[str, Any]
    if method == ASSOCIATION:
        return _association(table, question, outcome)
    if method == CONTROLLED:
        options = {"reference": question.against} if question.level else {}
        effect: Any = controlled_effect(table, question.column, outcome, **options)
    else:
        options = {"references": {question.column: question.against}} if question.level else {}
        if question.column == "family":
            options = {"levels": (question.against, question.level)}
            if table.frame.groupby("family")["patch_size"].nunique().max() == 1:
                options["without"] = ("patch_size",)  # it says nothing but the family
        effect = global_linear_effect(table, question.column, outcome, **options)
    fit = effect.fit
    term = f"{question.column}[{question.level}]" if question.level else f"log({question.column})"
    known = {one.term: one for one in effect.estimates}
    if term not in known:
        raise QueryError(f"No encoder that takes part has the {question.column} {question.level}.")
    if known[term].value is None:
        raise QueryError(f"{term} is {known[term].note}.")
    independent = [name for name in fit.design if name not in null_vectors(fit.design)]
    weights = np.zeros(len(independent))
    weights[independent.index(term)] = _factor(table, question)
    return Plan(
        method=method, question=question, rows=fit.design.index, design=fit.design[independent].to_numpy(float),
        weights=weights,
    )  # fmt: skip


def _association(table: StudyTable, question: Question, outcome: str) -> Plan:
    frame = table.frame.dropna(subset=[outcome])
    values = frame[question.column]
    if question.column == "projection2_arch":
        values = values.fillna(frame["projection1_arch"]).fillna("identity")
    frame = frame.assign(**{question.column: values}).dropna(subset=[question.column])
    if question.level:
        frame = frame[frame[question.column].isin([question.level, question.against])]
    if frame[question.column].nunique() < 2 or len(frame) < 4:
        raise QueryError(f"{question.column} hardly varies among the {len(frame)} encoders with {outcome}.")
    if question.level:
        design = design_of(frame, categorical=[question.column], references={question.column: question.against}).matrix
    else:
        design = design_of(frame, log=[question.column]).matrix
    return Plan(
        method=ASSOCIATION, question=question, rows=frame.index, design=design.to_numpy(float),
        weights=np.array([0.0, _factor(table, question)]),
    )  # fmt: skip


def _factor(table: StudyTable, question: Question) -> float:
    """What a coefficient is multiplied by, so that it answers the question."""
    if question.level:
        return 1.0
    if question.ratio:
        return math.log(question.ratio)
    return 1 / float(table.frame[question.column].mean())  # one more, at the mean, of a logarithm


def answered_by(plan: Plan, outcomes: pd.DataFrame) -> Answers:
    """Least squares of each outcome, (n_encoders, n_draws), on the design of a plan, as by ``fit_ols``.

    An HC3 interval is NaN if the answer needs a row that a column of its own fits exactly.
    """
    y = outcomes.loc[plan.rows].to_numpy(float)  # (n, n_draws)
    n, k = plan.design.shape
    q, r = np.linalg.qr(plan.design)
    direction = np.linalg.solve(r.T, plan.weights)  # (k,): the value is q @ direction, times y
    reads = q @ direction  # (n,)
    value = reads @ y
    rest = y - q @ (q.T @ y)
    freedom = n - k
    error = math.sqrt(float(reads @ reads)) * np.sqrt((rest**2).sum(axis=0) / freedom)
    free = 1 - (q**2).sum(axis=1)
    usual = free > _HIGH_LEVERAGE
    if np.abs(reads[~usual]).max(initial=0.0) < _HIGH_LEVERAGE * np.abs(reads).max():
        robust = np.sqrt(((reads[usual, None] * rest[usual] / free[usual, None]) ** 2).sum(axis=0))
    else:
        robust = np.full(y.shape[1], np.nan)
    width = float(stats.t.ppf(0.975, freedom))
    p = 2 * stats.t.sf(np.abs(value) / error, freedom)
    return Answers(
        method=plan.method, question=plan.question, n=n, value=value, low=value - width * error,
        high=value + width * error, low_robust=value - width * robust, high_robust=value + width * robust, p=p,
        found=p <= LEVEL,
    )  # fmt: skip


def no_answer(method: str, question: Question, n_draws: int, why: str) -> Answers:
    """Nothing but the reason."""
    nothing = np.full(n_draws, np.nan)
    return Answers(
        method=method, question=question, n=0, value=nothing, low=nothing, high=nothing, low_robust=nothing,
        high_robust=nothing, p=nothing, found=np.zeros(n_draws, dtype=bool), why=why,
    )  # fmt: skip


def tree_answers(
    table: StudyTable,
    questions: Sequence[Question],
    outcome: str,
    outcomes: pd.DataFrame | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> list[Answers]:
    """Answers of boosted trees: differences of mean SHAP values, scaled to the question's change.

    ``parameters`` are settings of the trees, by default the stored ones; a model is trained for each column of
    ``outcomes`` (see :func:`linear_answers`).
    """
    y = table.frame[[outcome]] if outcomes is None else outcomes
    columns: dict[str, list[tuple[float, bool, int, str]]] = {question.name: [] for question in questions}
    for draw in y:
        own = replace(table, frame=table.frame.assign(**{outcome: y[draw].where(table.frame[outcome].notna())}))
        importance = tree_importance(own, outcome, features=TREE_SET, parameters=parameters, seed=seed, fast=True)
        mean = float((importance.shap.sum(axis=1) + importance.base).abs().mean())
        for question in questions:
            columns[question.name].append(_asked(importance, question, own, mean))
    answers = []
    for question in questions:
        value, found, n, why = zip(*columns[question.name], strict=True)
        nothing = no_answer(TREES, question, len(value), next((one for one in why if one), ""))
        answers.append(replace(nothing, n=max(n), value=np.array(value), found=np.array(found)))
    return answers


def _asked(importance: Importance, question: Question, table: StudyTable, mean: float) -> tuple[float, bool, int, str]:
    """Value, whether it is more than little, encoders, and why there is none."""
    shap = importance.shap[question.column].to_numpy(float)
    encoders = importance.shap.index
    if question.level:
        levels = table.frame.loc[encoders, question.column]
        if question.column == "projection2_arch":
            levels = levels.fillna("identity")
        first, second = ((levels == level).to_numpy(bool) for level in (question.level, question.against))
        change = 1.0
    else:
        numbers = importance.values[question.column].to_numpy(float)
        raw = table.frame.loc[encoders, question.column].to_numpy(float)
        cuts = sorted(set(numbers[np.isfinite(numbers)].tolist()))[1:]
        if not cuts:
            return math.nan, False, 0, f"{question.column} does not vary, as the trees round it."
        cut = min(cuts, key=lambda one: abs(int((numbers >= one).sum()) - int(np.isfinite(numbers).sum()) / 2))
        first, second = numbers >= cut, numbers < cut
        scaled = np.log(raw) / math.log(question.ratio) if question.ratio else raw
        change = float(scaled[first].mean() - scaled[second].mean()) if first.any() and second.any() else math.nan
    if not first.any() or not second.any():
        return math.nan, False, 0, f"No encoder has the {question.column} {question.level or question.words}."
    apart = float(shap[first].mean() - shap[second].mean())
    return apart / change, abs(apart) >= LITTLE * mean, int(first.sum() + second.sum()), ""


def agreement(first: Answers, second: Answers) -> Answers:
    """The answers of the first of two methods, found only where both find an effect of the same sign."""
    same = np.sign(first.value) == np.sign(second.value)
    return replace(first, method=f"{first.method}, and {second.method}", found=first.found & second.found & same)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fared:
    """How the answers of a method to a question fared against the known effect, over draws."""

    method: str
    question: str
    n_draws: int
    n_encoders: int
    answered: int
    with_effect: int  # answered draws in which the effect is not 0
    right_sign: int  # of these, those whose answer has the sign of the effect
    found: int  # of these, those in which the method finds it with the right sign
    wrong: int  # of these, those in which it finds the opposite
    without_effect: int  # answered draws in which there is none
    false: int  # of these, those in which the method finds one
    with_interval: int
    covered: int  # of these, those whose interval has the effect
    with_robust: int
    covered_robust: int  # the same with HC3 standard errors
    effect: float  # mean of the effect, in percentage points
    bias: float  # mean of answer less effect
    rmse: float
    product: float  # mean of answer times effect, and
    square: float  # mean of the squared effect, over draws with an effect: their ratio is how much of it is answered


def fared(answers: Answers, truth: Floats) -> Fared:
    """Counts and means of answers against the effects that are known, (n_draws,)."""
    answered = answers.answered
    there = answered & (truth != 0)
    none = answered & (truth == 0)
    sign = np.sign(answers.value) == np.sign(truth)
    interval, robust = np.isfinite(answers.low), np.isfinite(answers.low_robust)
    miss = (answers.value - truth)[answered]
    return Fared(
        method=answers.method,
        question=answers.question.name,
        n_draws=len(truth),
        n_encoders=answers.n,
        answered=int(answered.sum()),
        with_effect=int(there.sum()),
        right_sign=int((there & sign).sum()),
        found=int((there & sign & answers.found).sum()),
        wrong=int((there & ~sign & answers.found).sum()),
        without_effect=int(none.sum()),
        false=int((none & answers.found).sum()),
        with_interval=int(interval.sum()),
        covered=int((interval & (answers.low <= truth) & (truth <= answers.high)).sum()),
        with_robust=int(robust.sum()),
        covered_robust=int((robust & (answers.low_robust <= truth) & (truth <= answers.high_robust)).sum()),
        effect=float(truth.mean()),
        bias=float(miss.mean()) if len(miss) else math.nan,
        rmse=float(np.sqrt((miss**2).mean())) if len(miss) else math.nan,
        product=float((answers.value * truth)[there].mean()) if there.any() else math.nan,
        square=float((truth**2)[there].mean()) if there.any() else math.nan,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaredTogether:
    """How all answers of a method about one outcome fared together, a mean over draws with its standard error."""

    method: str
    n_draws: int
    false_share: float  # of what was found: no effect, or of the other sign; 0 of a draw in which nothing was found
    false_share_error: float
    order: float  # rank correlation of the sizes of answers and effects, over questions with an answer
    order_error: float


def fared_together(answers: Sequence[Answers], truths: Sequence[Floats], spreads: Sequence[float]) -> FaredTogether:
    """False discoveries and order of one method over its questions.

    ``spreads`` are standard deviations of the changes among encoders (:func:`zoo.analysis.known_effects.positions`).
    """
    value, truth = np.stack([one.value for one in answers]), np.stack(truths)  # (n_questions, n_draws)
    found = np.stack([one.found for one in answers])
    false = found & (np.sign(value) != np.sign(truth))
    shares = false.sum(axis=0) / np.maximum(found.sum(axis=0), 1)
    weight = np.array(spreads)[:, None]
    orders = []
    for draw in range(value.shape[1]):
        known = np.isfinite(value[:, draw])
        sizes = np.abs(value * weight)[known, draw], np.abs(truth * weight)[known, draw]
        if known.sum() > 2 and all(np.ptp(one) > 0 for one in sizes):
            orders.append(float(stats.spearmanr(*sizes).statistic))

    def summary(values: Any) -> tuple[float, float]:
        values = np.asarray(values, dtype=float)
        if len(values) < 2:
            return math.nan, math.nan
        return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))

    (share, share_error), (order, order_error) = summary(shares), summary(orders)
    return FaredTogether(
        method=answers[0].method, n_draws=value.shape[1], false_share=share, false_share_error=share_error,
        order=order, order_error=order_error,
    )  # fmt: skip
