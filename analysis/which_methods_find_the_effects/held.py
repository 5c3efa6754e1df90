"""The answers of every method about the randomised population itself, held against what its randomisation shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.analysis.columns import Estimate
from zoo.analysis.finding_effects import TREE_SET, Answers, linear_answers, tree_answers
from zoo.analysis.importance import ExplainedVariance, explained_variance
from zoo.analysis.known_effects import (
    CERTAIN,
    STUDY_OUTCOMES,
    KnownEffects,
    Question,
    for_trees,
    known_effects,
    questions_of,
    randomised_table,
)
from zoo.analysis.randomised_population import Population
from zoo.analysis.table import StudyTable
from zoo.analysis.trees import tuned_parameters
from zoo.studies.running import StudyOptions

N_REPEATS = 1  # divisions into folds, of the explained variance
TUNED = Path(__file__).with_name("tuned_trees.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One answer of a method, and the randomised effect."""

    method: str
    question: Question
    outcome: str  # column of the study table
    answer: Estimate  # no value if the method has none, and why
    found: bool  # the method says that there is an effect
    randomised: Estimate

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return self.answer.value is not None

    @property
    def certain(self) -> bool:
        """Whether randomisation tells the effect from none."""
        return self.randomised.p is not None and self.randomised.p <= CERTAIN

    @property
    def same_sign(self) -> bool:
        """Whether the answer has the sign of the randomised effect."""
        return self.answered and _number(self.answer) * _number(self.randomised) > 0

    @property
    def covered(self) -> bool | None:
        """Whether the method's interval has the randomised effect; None if it has no interval."""
        low, high = self.answer.ci_low, self.answer.ci_high
        return None if low is None or high is None else low <= _number(self.randomised) <= high

    @property
    def covered_robust(self) -> bool | None:
        """The same with HC3 standard errors."""
        low, high = self.answer.ci_low_robust, self.answer.ci_high_robust
        return None if low is None or high is None else low <= _number(self.randomised) <= high


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnRandomised:
    """Everything that the methods say of the randomised population."""

    population: Population
    table: StudyTable
    known: Mapping[str, KnownEffects]  # by column of the study table
    held: Sequence[Held]
    explained: Mapping[str, ExplainedVariance]  # by trees, of each outcome

    def of(self, method: str, *, certain: bool | None = None) -> list[Held]:
        """The answers of a method, all or those about effects that are (not) certain."""
        return [one for one in self.held if one.method == method and (certain is None or one.certain == certain)]

    def size(self, method: str) -> float:
        """Slope of answers on randomised effects through 0, outcomes in residual standard deviations; NaN if none."""
        product = square = 0.0
        for one in self.of(method):
            if one.answered:
                variance = float(self.known[one.outcome].residuals.var())
                product += _number(one.answer) * _number(one.randomised) / variance
                square += _number(one.randomised) ** 2 / variance
        return product / square if square else math.nan


def on_randomised(population: Population, options: StudyOptions) -> OnRandomised:
    """Asks every method every question about every outcome of the randomised population."""
    table = randomised_table(population)
    of_trees, questions = for_trees(table), questions_of(table)
    columns = list(STUDY_OUTCOMES.values())
    linear = linear_answers(table, questions, columns[0], table.frame[columns])  # every outcome is complete
    known, held, explained = {}, [], {}
    for step, (own, column) in enumerate(STUDY_OUTCOMES.items()):
        options.progress("randomised population", step, len(STUDY_OUTCOMES))
        known[column] = known_effects(population, own)
        parameters = tuned_parameters(column, TREE_SET, path=TUNED)
        trees = tree_answers(of_trees, questions, column, parameters=parameters, seed=options.seed)
        for draw, answers in ((step, linear), (0, trees)):
            for one in answers:
                effect = known[column].estimates[one.question.name]
                held.append(
                    Held(
                        method=one.method, question=one.question, outcome=column, answer=_estimate(one, draw, column),
                        found=bool(one.found[draw]), randomised=effect,
                    )
                )  # fmt: skip
        explained[column] = explained_variance(
            of_trees, column, features=TREE_SET, parameters=parameters, seed=options.seed, n_repeats=N_REPEATS
        )
    return OnRandomised(population=population, table=table, known=known, held=held, explained=explained)


def _estimate(answers: Answers, draw: int, outcome: str) -> Estimate:
    """One answer as an estimate; without a value, and with the reason, if there is none."""
    label = Estimate(
        term=answers.question.words, n=answers.n, unit="percentage points", outcome=outcome, method=answers.method
    )
    if not answers.answered[draw]:
        return label.described(note=answers.why)
    numbers = {
        name: _finite(getattr(answers, name)[draw])
        for name in ("value", "low", "high", "low_robust", "high_robust", "p")
    }
    return label.with_value(
        numbers["value"], (numbers["low"], numbers["high"]), p=numbers["p"], ci_low_robust=numbers["low_robust"],
        ci_high_robust=numbers["high_robust"],
    )  # fmt: skip


def counts_of(found: OnRandomised, method: str) -> dict[str, int]:
    """How the answers of a method compare with randomisation, as counts."""
    answers = found.of(method)
    intervals = [one.covered for one in answers if one.covered is not None]
    robust = [one.covered_robust for one in answers if one.covered_robust is not None]
    return {
        "asked": len(answers),
        "answered": sum(one.answered for one in answers),
        "certain": sum(one.answered and one.certain for one in answers),
        "right sign": sum(one.same_sign and one.certain for one in answers),
        "found": sum(one.found and one.same_sign and one.certain for one in answers),
        "opposite": sum(one.found and one.certain and not one.same_sign for one in answers),
        "uncertain": sum(one.answered and not one.certain for one in answers),
        "unconfirmed": sum(one.found and not one.certain for one in answers),
        "intervals": len(intervals),
        "covered": sum(intervals),
        "robust intervals": len(robust),
        "robust covered": sum(robust),
    }


def _number(estimate: Estimate) -> float:
    return math.nan if estimate.value is None else estimate.value


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
