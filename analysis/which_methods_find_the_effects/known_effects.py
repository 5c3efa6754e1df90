"""Known effects of design choices, and how methods that look for such effects fare.

A question names a change of a choice. Its answer in the population whose choices were drawn at random is a sum of
least-squares coefficients (:func:`known_effects`); :func:`drawn` simulates outcomes with these effects for any study
table. The methods are the plain association, controlled pairs, the global linear model and trees with SHAP values: they
find an effect if p is at most 0.05, trees if mean SHAP values differ by more than 1 % of the mean outcome.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zoo.analysis.columns import Estimate
from zoo.analysis.controlled import controlled_effect
from zoo.analysis.importance import LITTLE, Importance, tree_importance
from zoo.analysis.linear import CONSTANT, build_design, find_null_vectors, fit_ols, global_linear_effect
from zoo.analysis.randomised import JOINT_EMBEDDING, SWITCHES, RandomisedPopulation, find_randomised_cards
from zoo.analysis.table import StudyTable, build_table
from zoo.errors import QueryError
from zoo.optional import require_extra
from zoo.results.tables import list_study_facts

with require_extra("study", needed_for="Effects that are known"):
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
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
    independent = [name for name in fit.design if name not in find_null_vectors(fit.design)]
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
        design = build_design(
            frame, categorical=[question.column], references={question.column: question.against}
        ).matrix
    else:
        design = build_design(frame, log=[question.column]).matrix
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
        importance = tree_importance(own, outcome, features=TREE_SET, parameters=parameters, seed=seed)
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

    ``spreads`` are standard deviations of the changes among encoders (:func:`positions`).
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


Floats = NDArray[np.float64]
STUDY_OUTCOMES: Mapping[str, str] = {  # of the randomised population -> column of the study table
    "usability": "usability", "probe_gen": "probe_gen", "enc_gen": "enc_gen", "full": "train_test",
    "3-shot": "train-nperclass-3_test",
}  # fmt: skip
CERTAIN = 0.05  # p-value up to which an effect of the randomised population counts as detected
MODE_OF = {
    "vicreg": "siamese", "byol": "siamese", "swav": "clustering", "dino": "distillation",
    "context_encoder": "generative", "rotnet": "transform", "supervised": "supervised",
}  # fmt: skip
REFERENCE_MODE, REFERENCE_OBJECTIVE = "contrastive", "simclr"
LIKE_MODE = {"hierarchical": "distillation"}  # mode of published encoders -> the randomised mode that stands for it
SIZE_RATIO = 2.36  # parameters of a large network to those of a small one, geometric mean over networks and dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A change of one design choice, whose effect is asked for."""

    name: str
    words: str  # "4 times the dimensions"
    column: str  # of the study table
    ratio: float = 0.0  # of a number: the change is this factor; 0 if the change is one more, or of a level
    level: str = ""  # of a category: the change is to this level ...
    against: str = ""  # ... from this one
    contrasts: Mapping[str, float] | None = None  # of the randomised population, that add up to it; None: it has none


def _mode(mode: str) -> Question:
    objectives = [f"objective {name}" for name, its_mode in MODE_OF.items() if its_mode == mode]
    return Question(
        name=f"mode {mode}", words=f"{mode} against {REFERENCE_MODE}", column="ssl_mode", level=mode,
        against=REFERENCE_MODE, contrasts={name: 1 / len(objectives) for name in objectives},
    )  # fmt: skip


QUESTIONS: tuple[Question, ...] = (
    Question(name="dim", words="4 times the dimensions", column="z_dim", ratio=4, contrasts={"dim": 1}),
    Question(
        name="size", words=f"{SIZE_RATIO:g} times the parameters", column="n_parameters", ratio=SIZE_RATIO,
        contrasts={"large": 1},
    ),
    Question(name="vit", words="ViT against ResNet", column="family", level="vit", against="resnet",
             contrasts={"vit": 1}),
    Question(name="linear", words="linear projector against none", column="projection2_arch", level="linear",
             against="identity", contrasts={"projector linear": 1}),
    Question(name="mlp", words="MLP projector against none", column="projection2_arch", level="mlp",
             against="identity", contrasts={"projector mlp": 1}),
    Question(name="width", words="4 times the projector's output", column="pred_dim", ratio=4,
             contrasts={"projector_width": 1}),
    Question(name="epochs", words="twice the epochs", column="epochs", ratio=2, contrasts={"epochs": 1}),
    Question(name="batch", words="twice the batch", column="batch_size", ratio=2, contrasts={"batch_size": 1}),
    Question(name="rate", words="3 times the learning rate", column="learning_rate", ratio=3,
             contrasts={"rate_factor": 1}),
    Question(name="views", words="twice the views", column="nviews", ratio=2, contrasts={"n_views": 1}),
    Question(name="augmentations", words="one more augmentation", column="n_augmentations",
             contrasts={name: 1 / len(SWITCHES) for name in SWITCHES}),
    *(_mode(mode) for mode in ("siamese", "clustering", "distillation", "generative", "transform", "supervised")),
)  # fmt: skip
PRODUCTS: tuple[tuple[str, str], ...] = (
    ("mlp", "joint embedding"), ("crop", "joint embedding"), ("views", "joint embedding"), ("dim", "mlp"),
    ("epochs", "size"), ("epochs", "vit"),
)  # fmt: skip
"""The interactions that were stated before the first run, as questions; "joint embedding" is a group of modes."""
_CONTRAST = {"mlp": "projector mlp", "views": "n_views", "size": "large"}  # of factors of PRODUCTS with another name
_JOINT_MODES = frozenset({REFERENCE_MODE, *(MODE_OF[name] for name in JOINT_EMBEDDING if name in MODE_OF)})


def questions_of(table: StudyTable) -> tuple[Question, ...]:
    """The questions that the choices of a table allow, and those about choices that have no effect by construction.

    Of optimizers and pretraining data every level is compared with the most frequent one.
    """
    frame = table.frame
    found = []
    stands_for = {modelled: mode for mode, modelled in LIKE_MODE.items() if (frame["ssl_mode"] == mode).any()}
    for question in QUESTIONS:
        level = stands_for.get(question.level, question.level)
        if question.column == "ssl_mode" and not (frame["ssl_mode"] == level).any():
            continue
        words = question.words.replace(question.level, level) if level else question.words
        found.append(replace(question, level=level, words=words))
    if frame.groupby("family")["patch_size"].nunique().max() > 1:
        found.append(Question(name="patch size", words="twice the patch size", column="patch_size", ratio=2))
    for column, word in (("optimizer", "optimizer"), ("pretraining_data", "data")):
        counts = frame[column].value_counts()
        for level in sorted(counts.index[1:]):
            found.append(
                Question(
                    name=f"{word} {level}", words=f"{word} {level} against {counts.index[0]}", column=column,
                    level=str(level), against=str(counts.index[0]),
                )
            )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownEffects:
    """The effects of all choices on one outcome of the randomised population, by least squares on all of them."""

    outcome: str  # column of the study table
    estimates: Mapping[str, Estimate]  # by question; intervals and p-values are HC3's
    products: Mapping[tuple[str, str], float]  # of the products of PRODUCTS, by least squares adjusted for all
    spreads: Mapping[str, float]  # question about a number -> standard deviation of its changes among the encoders
    residuals: Floats  # (n,), as large as errors of new encoders
    mean: float  # of the outcome

    def values(self, *, certain_only: bool) -> dict[str, float]:
        """Effects by question, in percentage points; optionally 0 for those that were not detected."""
        return {
            name: 0.0 if certain_only and (one.p or 0.0) > CERTAIN else one.value or 0.0
            for name, one in self.estimates.items()
        }


def known_effects(population: RandomisedPopulation, outcome: str) -> KnownEffects:
    """Answers of the randomised population to :data:`QUESTIONS` about an outcome (a key of its ``OUTCOMES``)."""
    y = population.outcomes[outcome].astype("float64")
    column = STUDY_OUTCOMES[outcome]
    design = population.contrasts.fillna(0.0).drop(columns=f"objective {REFERENCE_OBJECTIVE}")
    design.insert(0, CONSTANT, 1.0)
    fit = fit_ols(design, y, outcome_name=column, unit="percentage points", method="randomised")
    if fit.not_identified:
        raise QueryError(
            f"The choices {', '.join(fit.not_identified)} of the {len(y)} randomised encoders add up to others; "
            "expected choices that vary independently, so draw more encoders."
        )
    robust = fit.results.get_robustcov_results("HC3", use_t=True)
    coefficients, covariance = np.asarray(robust.params), np.asarray(robust.cov_params())
    estimates = {}
    for question in QUESTIONS:
        weights = np.array([(question.contrasts or {}).get(str(name), 0.0) for name in design])
        value = float(weights @ coefficients)
        error = math.sqrt(float(weights @ covariance @ weights))
        margin = float(stats.t.ppf(0.975, fit.residual_df)) * error
        estimates[question.name] = Estimate(
            term=question.words, n=len(y), unit="percentage points", outcome=column, method="randomised, least squares"
        ).with_value(
            value, (value - margin, value + margin), p=2 * float(stats.t.sf(abs(value) / error, fit.residual_df))
        )
    return KnownEffects(
        outcome=column,
        estimates=estimates,
        products=_products(population, design, y),
        spreads=_spreads(population),
        residuals=np.asarray(fit.results.resid) * math.sqrt(len(y) / fit.residual_df),
        mean=float(y.mean()),
    )


def _spreads(population: RandomisedPopulation) -> dict[str, float]:
    contrasts = population.contrasts.fillna(0.0)
    return {
        question.name: float(contrasts[list(question.contrasts or {})].sum(axis=1).std())
        for question in QUESTIONS
        if not question.level
    }


def _products(
    population: RandomisedPopulation, design: pd.DataFrame, y: pd.Series[float]
) -> dict[tuple[str, str], float]:
    objective = population.choices["objective"]
    factors = design.assign(**{"joint embedding": objective.isin(JOINT_EMBEDDING).astype("float64")})
    factors = factors - factors.mean()
    factors = factors.rename(columns={contrast: name for name, contrast in _CONTRAST.items()})
    products = {pair: factors[pair[0]] * factors[pair[1]] for pair in PRODUCTS}
    with_them = design.assign(**{" x ".join(pair): product for pair, product in products.items()})
    fit = fit_ols(with_them, y, outcome_name="", unit="", method="")
    return {pair: fit.estimate(" x ".join(pair)).value or 0.0 for pair in products}


def randomised_table(population: RandomisedPopulation) -> StudyTable:
    """The randomised encoders as a study table, so that whatever studies published encoders can study them."""
    cards = find_randomised_cards()
    rows: dict[str, dict[str, Any]] = {}
    outcomes = population.outcomes.astype("float64")
    for name in map(str, outcomes.index):
        measured = {column: float(outcomes[own][name]) for own, column in STUDY_OUTCOMES.items()}
        measured["approx"] = float(outcomes["approx"][name])
        measured["approx_plus_usability"] = measured["approx"] + measured["usability"]
        rows[name] = {**list_study_facts(cards[name], False), **measured}
    return build_table(rows, corrected=True)


def for_trees(table: StudyTable) -> StudyTable:
    """The table with epochs in units that trees can tell apart, for they round them to multiples of 200."""
    return replace(table, frame=table.frame.assign(epochs=200 * table.frame["epochs"]))


def positions(table: StudyTable) -> pd.DataFrame:
    """How much of each change every encoder has: one column per question of :data:`QUESTIONS` that is no mode.

    Numbers count in logarithms to the base of the question's ratio, centred; levels are 1 or 0.
    """
    frame = table.frame
    projector = frame["projection2_arch"].fillna(frame["projection1_arch"]).fillna("identity")
    columns = {}
    for question in QUESTIONS:
        if question.column == "ssl_mode":
            continue
        if question.level:
            values = projector if question.column == "projection2_arch" else frame[question.column]
            columns[question.name] = (values == question.level).astype("float64")
        else:
            number = frame[question.column].astype("float64")
            scaled: pd.Series[float] = number.map(math.log) / math.log(question.ratio) if question.ratio else number
            columns[question.name] = (scaled - scaled.mean()).fillna(0.0)
    return pd.DataFrame(columns, index=frame.index)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """Outcomes that were drawn for the encoders of a table, and the effects that they have."""

    outcomes: Floats  # (n_encoders, n_draws), in percentage points
    truth: Mapping[str, Floats]  # question -> effect in each draw, (n_draws,)


def drawn(
    table: StudyTable,
    known: KnownEffects,
    *,
    n_draws: int,
    seed: int,
    certain_only: bool = True,
    rescaled: bool = True,
    shuffled_modes: bool = False,
    releases: Sequence[str] | None = None,
    share_of_release: float = 0.0,
    with_products: bool = False,
) -> Drawn:
    """Outcomes for the encoders of a table, with known effects and residuals resampled from the randomised population.

    ``certain_only`` sets effects that were not detected to 0. ``rescaled`` scales the effect of a number by the ratio
    of its spreads in both populations. ``shuffled_modes`` permutes the effects of the modes in every draw.
    ``share_of_release`` is the share of the residual variance that encoders of one of the ``releases`` have in common.
    ``with_products`` adds the interactions of :data:`PRODUCTS`.
    """
    chance = np.random.default_rng(seed)
    effects = known.values(certain_only=certain_only)
    place = positions(table)
    for name, spread in known.spreads.items() if rescaled else ():
        if (own := float(place[name].std())) > 0:
            effects[name] *= spread / own
            place[name] *= spread / own  # for the products
    modes = table.frame["ssl_mode"].map(lambda mode: LIKE_MODE.get(mode, mode))
    present = [REFERENCE_MODE, *(mode for mode in dict.fromkeys(MODE_OF.values()) if (modes == mode).any())]
    if unknown := sorted(set(modes.dropna()) - set(present)):
        raise QueryError(f"The table has the modes {', '.join(unknown)}, expected some of {', '.join(present)}.")
    of_modes = np.array([0.0, *(effects[f"mode {mode}"] for mode in present[1:])])
    order = np.tile(np.arange(len(present)), (n_draws, 1))
    by_mode = of_modes[chance.permuted(order, axis=1) if shuffled_modes else order]  # (n_draws, n_modes)
    indicator = np.stack([(modes == mode).to_numpy(float) for mode in present], axis=1)  # (n, n_modes)
    fixed = positions(table).to_numpy() @ np.array([effects[str(name)] for name in place])
    if with_products:
        fixed = fixed + _of_products(known, place, modes)
    systematic = fixed[:, None] + indicator @ by_mode.T
    noise = chance.choice(known.residuals, size=(len(place), n_draws))
    if share_of_release:
        if releases is None or len(releases) != len(place):
            raise QueryError("Got a share of the variance for releases without the release of every encoder; give it.")
        numbers = pd.factorize(pd.Series(list(releases)))[0]
        common = chance.choice(known.residuals, size=(int(numbers.max()) + 1, n_draws))[numbers]
        noise = math.sqrt(share_of_release) * common + math.sqrt(1 - share_of_release) * noise
    truth: dict[str, Floats] = {str(name): np.full(n_draws, effects[str(name)]) for name in place}
    truth |= {f"mode {mode}": by_mode[:, position] - by_mode[:, 0] for position, mode in enumerate(present) if position}
    return Drawn(outcomes=known.mean + systematic - systematic.mean(axis=0) + noise, truth=truth)


def _of_products(known: KnownEffects, place: pd.DataFrame, modes: pd.Series) -> Floats:
    factors = place.assign(**{"joint embedding": modes.isin(_JOINT_MODES).astype("float64")})
    factors = factors - factors.mean()
    total = np.zeros(len(place))
    for pair, coefficient in known.products.items():
        if set(pair) <= set(factors):
            total += coefficient * (factors[pair[0]] * factors[pair[1]]).to_numpy()
    return total


def release_share(residuals: pd.Series[float], releases: Mapping[str, str]) -> Estimate:
    """The share of the variance of residuals that encoders of a release have in common (intraclass correlation).

    By the mean squares between and within releases of a one-way analysis of variance; 0 where that is negative.
    """
    groups = residuals.groupby([releases[str(name)] for name in residuals.index])
    n, k = len(residuals), groups.ngroups
    if k < 2 or n <= k:
        raise QueryError(f"Got {n} encoders of {k} releases, expected several releases with several encoders each.")
    within = float(((residuals - groups.transform("mean")) ** 2).sum()) / (n - k)
    sizes = groups.size()
    between = float((sizes * (groups.mean() - residuals.mean()) ** 2).sum()) / (k - 1)
    size = (n - float((sizes**2).sum()) / n) / (k - 1)
    value = max(0.0, (between - within) / (between + (size - 1) * within))
    return Estimate(term="share of variance within releases", value=value, n=n, unit="share of variance")


def variance_inflation(table: StudyTable) -> dict[str, float]:
    """How many times the variance of each question's coefficient is that of independent choices, at least 1.

    Infinite where a choice follows from the others. Modes are among the others.
    """
    modes = pd.get_dummies(table.frame["ssl_mode"], dtype="float64").iloc[:, 1:]
    place = positions(table).join(modes.add_prefix("objective "))
    found = {}
    for question in QUESTIONS:
        if question.name not in place:
            continue
        y = place[question.name] - place[question.name].mean()
        if float((y**2).sum()) == 0:
            continue
        others = place.drop(columns=question.name)
        x = (others - others.mean()).to_numpy()
        rest = y.to_numpy() - x @ np.linalg.lstsq(x, y.to_numpy(), rcond=None)[0]
        left = float(rest @ rest) / float((y**2).sum())
        found[question.name] = 1 / left if left > 1e-9 else math.inf
    return found
