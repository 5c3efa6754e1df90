"""What is recorded of the methods on drawn populations, as scripts/simulate_methods.py leaves it: counts, pooled."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.analysis.columns import Estimate
from zoo.analysis.importance import ExplainedVariance, explained_variance
from zoo.analysis.randomised import RandomisedPopulation
from zoo.analysis.table import StudyTable
from zoo.analysis.trees import read_tuned_parameters
from zoo.errors import ContentError, QueryError
from zoo.studies.running import StudyOptions

from .known_effects import (
    CERTAIN,
    METHODS,
    STUDY_OUTCOMES,
    TREE_SET,
    Answers,
    KnownEffects,
    Question,
    for_trees,
    known_effects,
    linear_answers,
    questions_of,
    randomised_table,
    tree_answers,
)

HERE = Path(__file__).parent
RANDOMISED, CONFOUNDED, WIDE = "randomised", "confounded", "wide ranges"  # scenarios
LEAST_COVERAGE = 0.90  # of 95 % intervals
MOST_FALSE = 0.10  # of choices without an effect, twice the level of the tests
LEAST_SIGN = 0.90  # of effects, with the sign of the answer
SIGN, TEST, INTERVAL = "sign", "test", "interval"
_COUNTED = {
    SIGN: ("right_sign", "with_effect"),
    TEST: ("false", "without_effect"),
    INTERVAL: ("covered", "with_interval"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """Counts by scenario, outcome, method and question, and what they were computed from."""

    fared: pd.DataFrame  # columns of known_effects.Fared, with "scenario" and "outcome"
    together: pd.DataFrame  # columns of FaredTogether, likewise
    inflation: pd.DataFrame  # encoders, n_encoders, question, inflation: variance against that of independent choices
    provenance: Mapping[str, Any]

    @property
    def n_draws(self) -> int:
        """Populations that were drawn in a scenario."""
        return int(self.provenance["n_draws"])

    @property
    def scenarios(self) -> Mapping[str, str]:
        """Name and words of each."""
        return dict(self.provenance["scenarios"])

    @property
    def methods(self) -> list[str]:
        """The methods, and last where two of them agree."""
        return [*METHODS, *(one for one in self.fared["method"].unique() if one not in METHODS)]

    @property
    def agreeing(self) -> str:
        """The name of the answers on which two methods agree."""
        return self.methods[-1]

    def rows(
        self,
        scenario: str,
        method: str,
        *,
        questions: Iterable[str] | None = None,
        outcomes: Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """The counts of a method in a scenario."""
        rows = _split_by_method(self).get((scenario, method), self.fared[:0])
        if questions is not None:
            rows = rows[rows["question"].isin(list(questions))]
        if outcomes is not None:
            rows = rows[rows["outcome"].isin(list(outcomes))]
        return rows

    def share(
        self,
        scenario: str,
        method: str,
        of: str,
        among: str,
        *,
        questions: Iterable[str] | None = None,
        outcomes: Iterable[str] | None = None,
    ) -> Estimate:
        """One count as a share of another, with the interval of as many independent answers as draws (the widest)."""
        rows = self.rows(scenario, method, questions=questions, outcomes=outcomes)
        return _share(f"{of} of {among}", int(rows[of].sum()), int(rows[among].sum()), self.n_draws)

    def n_asked(self, scenario: str) -> int:
        """Questions about outcomes that a scenario has, each draw counted once."""
        first = self.fared[self.fared["scenario"] == scenario]
        return len(first[["outcome", "question"]].drop_duplicates()) * self.n_draws

    def answered(self, scenario: str, method: str) -> Estimate:
        """The share of questions about outcomes to which a method has an answer."""
        return _share(
            "answered", int(self.rows(scenario, method)["answered"].sum()), self.n_asked(scenario), self.n_draws
        )

    def size(self, scenario: str, method: str, *, questions: Iterable[str] | None = None) -> Estimate:
        """Slope of answers on effects through 0, outcomes in residual standard deviations; 1 is unbiased."""
        rows = self.rows(scenario, method, questions=questions)
        rows = rows[rows["with_effect"] > 0]
        weights = rows["with_effect"] / rows["outcome"].map(dict(self.provenance["residual_sd"])) ** 2
        label = Estimate(term="size", n=int(rows["with_effect"].sum()), unit="share of the effect")
        if rows.empty:
            return label.described(note="no answer about an effect")
        return label.with_value(float((weights * rows["product"]).sum() / (weights * rows["square"]).sum()))

    def whole(self, scenario: str, method: str, what: str) -> Estimate:
        """``false_share`` or ``order`` of a method, a mean over outcomes with the interval over draws."""
        rows = self.together[(self.together["scenario"] == scenario) & (self.together["method"] == method)]
        values, errors = rows[what].dropna(), rows[f"{what}_error"].dropna()
        if values.empty:
            return Estimate(term=what, n=self.n_draws, unit="share")
        margin = 1.96 * math.sqrt(float((errors**2).sum())) / len(values)
        return Estimate(term=what, n=self.n_draws, unit="share").with_value(
            float(values.mean()), (float(values.mean()) - margin, float(values.mean()) + margin)
        )

    def questions(self, scenario: str) -> list[str]:
        """Those that any method answers in a scenario, in the order in which they are asked."""
        return [str(one) for one in self.fared[self.fared["scenario"] == scenario]["question"].unique()]


@lru_cache(maxsize=4)
def _split_by_method(recorded: Recorded) -> dict[tuple[str, str], pd.DataFrame]:
    """The counts by scenario and method, for they are asked for hundreds of times."""
    return {
        (str(scenario), str(method)): rows
        for (scenario, method), rows in recorded.fared.groupby(["scenario", "method"], sort=False)
    }


def _share(term: str, count: int, total: int, n_draws: int) -> Estimate:
    label = Estimate(term=term, n=total, unit="share")
    if total == 0:
        return label.described(note="nothing to count")
    value = count / total
    n = min(n_draws, total)
    spread = 1.96 * math.sqrt(value * (1 - value) / n + 1.96**2 / (4 * n * n))  # Wilson's interval
    centre = value + 1.96**2 / (2 * n)
    scale = 1 + 1.96**2 / n
    return label.with_value(value, ((centre - spread) / scale, (centre + spread) / scale))


@cache
def recorded(folder: Path = HERE) -> Recorded:
    """The tables next to this file; ContentError if one is damaged."""
    names = ("fared.csv", "together.csv", "inflation.csv")
    try:
        fared, together, inflation = (pd.read_csv(folder / name) for name in names)
        provenance = tomllib.loads((folder / "provenance.toml").read_text(encoding="utf-8"))
        found = Recorded(fared=fared, together=together, inflation=inflation, provenance=provenance)
        found.share(CONFOUNDED, METHODS[0], "covered", "with_interval")
        _ = found.n_draws, found.scenarios
    except (OSError, ValueError, KeyError) as error:
        raise ContentError(
            f"What is recorded of the methods in {folder} cannot be read ({error}); run scripts/simulate_methods.py."
        ) from error
    return found


def required(estimate: Estimate) -> float:
    """The value of an estimate; QueryError if there is none."""
    if estimate.value is None:
        raise QueryError(f"There is no {estimate.term}: {estimate.note or 'nothing was counted'}.")
    return estimate.value


def believed(found: Recorded, method: str, question: str) -> dict[str, bool] | None:
    """What may be believed of a method about a choice of the published encoders; None if it does not answer."""
    rows = found.rows(CONFOUNDED, method, questions=[question])
    if rows.empty or not rows["answered"].sum():
        return None
    answers = {}
    for name, (of, among) in _COUNTED.items():
        total, count = int(rows[among].sum()), int(rows[of].sum())
        if total:
            least = LEAST_SIGN if name == SIGN else LEAST_COVERAGE
            answers[name] = count <= MOST_FALSE * total if name == TEST else count >= least * total
    return answers


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

    population: RandomisedPopulation
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


def on_randomised(population: RandomisedPopulation, options: StudyOptions) -> OnRandomised:
    """Asks every method every question about every outcome of the randomised population."""
    table = randomised_table(population)
    of_trees, questions = for_trees(table), questions_of(table)
    columns = list(STUDY_OUTCOMES.values())
    linear = linear_answers(table, questions, columns[0], table.frame[columns])  # every outcome is complete
    known, held, explained = {}, [], {}
    for step, (own, column) in enumerate(STUDY_OUTCOMES.items()):
        options.progress("randomised population", step, len(STUDY_OUTCOMES))
        known[column] = known_effects(population, own)
        parameters = read_tuned_parameters(column, TREE_SET, path=TUNED)
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
