"""The boosted trees of studies: their settings, stored or searched anew, their fits, and which way choices go."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..analysis.columns import OUTCOMES, Estimate
from ..analysis.importance import (
    Importance,
    describe_direction,
    estimate_level_effect,
    iterate_subsampled_trees,
    number_effect,
    tree_importance,
)
from ..analysis.table import StudyTable
from ..analysis.trees import Tuned, number_of_workers, select_sample, tune_all, write_parameters
from ..errors import QueryError
from .findings import Claim, ClaimAnswer, RowsUsed, answer_claim
from .running import StudyOptions

FILE = "tuned_trees.toml"
N_FOLDS = 10  # of tuning


@dataclass(frozen=True, slots=True)
class Trees:
    """SHAP values by outcome, and why an outcome has none."""

    fitted: Mapping[str, Importance]
    refused: Mapping[str, str]  # outcome -> the sentence of the error
    again: Mapping[str, Sequence[Importance]] = field(default_factory=dict)  # trained on parts of the encoders

    def of(self, outcome: str) -> Importance:
        """SHAP values of one outcome; QueryError with the reason if it could not be fitted."""
        if outcome not in self.fitted:
            raise QueryError(self.refused.get(outcome, f"No trees of {outcome} were asked for."))
        return self.fitted[outcome]

    @property
    def notes(self) -> list[str]:
        """One sentence an outcome that could not be fitted."""
        return [f"No trees of {OUTCOMES[outcome].label.lower()}: {why}" for outcome, why in self.refused.items()]

    def rows(self, table: StudyTable) -> list[RowsUsed]:
        """How many encoders each model was trained on."""
        return [
            RowsUsed(
                part=f"trees of {OUTCOMES[outcome].label.lower()}",
                used=importance.n,
                left_out=table.n_left_out(outcome),
            )
            for outcome, importance in self.fitted.items()
        ]


def tune_trees(
    table: StudyTable, outcomes: Sequence[str], options: StudyOptions, *, features: str = "few"
) -> dict[str, Tuned]:
    """The settings that were searched anew, by outcome, if the options ask for it; else none, so the stored ones count.

    An outcome that this table cannot answer is not in it.
    """
    if not options.tune:
        return {}
    possible = []
    for outcome in outcomes:
        try:
            select_sample(table, outcome, features, n_least=N_FOLDS)
        except QueryError:  # training gives the reason
            continue
        possible.append(outcome)

    def progress(outcome: str, done: int, total: int) -> None:
        options.progress(f"tuned {OUTCOMES[outcome].label.lower()}, {features} choices", done, total)

    return (
        tune_all(
            table,
            possible,
            features=features,
            n_trials=options.n_trials,
            n_folds=N_FOLDS,
            seed=options.seed,
            n_workers=options.n_workers,
            progress=progress,
        )
        if possible
        else {}
    )


def get_tree_settings(tuned: Mapping[str, Tuned]) -> dict[str, Mapping[str, Any]]:
    """Settings of the trees by outcome."""
    return {outcome: one.parameters for outcome, one in tuned.items()}


def build_tuned_files(table: StudyTable, *tuned: Mapping[str, Tuned], name: str = FILE) -> dict[str, str]:
    """The file of a report that keeps what was searched, laid out as the stored settings; none if nothing was."""
    searches = [one for by_outcome in tuned for one in by_outcome.values()]
    if not searches:
        return {}
    rows = f"{len(table)} {'corrected' if table.corrected else 'published'} rows"
    rows += f", {len(table.mine)} of them measured by the user" if table.mine else ""
    with tempfile.TemporaryDirectory() as folder:
        path = write_parameters(searches, Path(folder) / name, date=f"{datetime.now(UTC):%Y-%m-%d}", table=rows)
        return {name: path.read_text(encoding="utf-8")}


def fit_trees(
    table: StudyTable,
    outcomes: Sequence[str],
    options: StudyOptions,
    *,
    features: str = "few",
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    n_subsamples: int = 0,
    again_for: Collection[str] | None = None,
) -> Trees:
    """SHAP values of the trees of each outcome, several outcomes at a time, by given or stored settings.

    An outcome that this table cannot answer is among ``refused``. The trees of ``again_for``, by default all, are
    trained again ``n_subsamples`` times on four fifths of their encoders.
    """

    def fit(outcome: str) -> tuple[Importance, list[Importance]] | str:
        settings = (parameters or {}).get(outcome)
        try:
            importance = tree_importance(table, outcome, features=features, parameters=settings, seed=options.seed)
            n_again = n_subsamples if again_for is None or outcome in again_for else 0
        except QueryError as error:
            return str(error)
        again = iterate_subsampled_trees(
            table, outcome, features=features, parameters=settings, n_subsamples=n_again, seed=options.seed
        )
        try:
            return importance, list(again)
        except QueryError:  # four fifths are too few, or all alike
            return importance, []

    answers = {}
    # Threads, not the processes of zoo.execution: XGBoost works outside Python's lock, and all fits read one table.
    with ThreadPoolExecutor(number_of_workers(options.n_workers)) as pool:
        for step, (outcome, answer) in enumerate(zip(outcomes, pool.map(fit, outcomes), strict=True), start=1):
            answers[outcome] = answer
            options.progress("trees", step, len(outcomes))
    fitted = {outcome: answer for outcome, answer in answers.items() if not isinstance(answer, str)}
    return Trees(
        {outcome: importance for outcome, (importance, _) in fitted.items()},
        {outcome: answer for outcome, answer in answers.items() if isinstance(answer, str)},
        {outcome: again for outcome, (_, again) in fitted.items()},
    )


STEADY = 0.75  # share of models of parts of the encoders that must give an effect the same sign
ARROWS = {"raises": "↑", "lowers": "↓", "little": "·"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChoice:
    """One design choice as the paper speaks of it."""

    words: str  # "more dimensions": the error is lower with ...
    feature: str
    levels: tuple[str, ...] = ()  # values of it that count as the choice; empty for a larger number
    smaller: bool = False  # the choice is a smaller number
    family: str = ""  # only among encoders of this family of architecture
    tied: tuple[str, ...] = ()  # other features that the choice settles: generative encoders have no projector

    def effect(self, importance: Importance) -> Estimate:
        """Mean SHAP value with the choice minus without; negative lowers the risk."""
        if self.levels:
            return estimate_level_effect(importance, self.feature, self.levels)
        among = None
        if self.family:
            among = importance.values.index[importance.values["family"] == self.family].tolist()
        effect = number_effect(importance, self.feature, encoders=among)
        if self.smaller and effect.value is not None:
            effect = effect.described(term=effect.term.replace(">=", "<"), value=-effect.value)
        return effect.described(term=f"{effect.term}, {self.family} only") if self.family else effect

    def tied_effect(self, importance: Importance) -> float:
        """The same of the features that the choice settles, their SHAP values added."""
        chosen = importance.values[self.feature].astype(object).isin(list(self.levels))
        shap = importance.shap[list(self.tied)].sum(axis=1)
        return float(shap[chosen].mean() - shap[~chosen].mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What the trees say of one choice and one outcome."""

    effect: Estimate
    share: float  # of the outcome's mean absolute value
    found: str  # "raises", "lowers" or "little"
    same: int  # of the models of parts of the encoders, those with the same sign
    again: int  # of those models

    @property
    def steady(self) -> bool:
        """True if the sign hardly depends on which encoders the trees are trained on."""
        return self.same >= STEADY * self.again

    @property
    def text(self) -> str:
        """The size of the effect, and how steady its sign is."""
        steady = f", same sign in {self.same} of {self.again} refits" if self.again else ""
        return f"{self.effect.value:+.2f} points ({100 * self.share:+.1f} % of the mean{steady})"


def find_effect_direction(choice: TreeChoice, outcome: str, trees: Trees) -> Way:
    """Which way a choice moves an outcome; QueryError if all or none of the encoders have made the choice."""
    importance = trees.of(outcome)
    effect = choice.effect(importance)
    value = effect.value or 0.0
    mean = float(
        (importance.shap.sum(axis=1) + importance.base).abs().mean()
    )  # of the predictions, which are as large on average
    again = []
    for one in trees.again.get(outcome, ()):
        try:
            again.append(choice.effect(one).value or 0.0)
        except QueryError:  # no encoder of this part made the choice
            continue
    same = sum((other > 0) == (value > 0) for other in again)
    steady = f"; same sign in {same} of {len(again)} models of four fifths of the encoders" if again else ""
    return Way(
        effect=effect.described(note=f"{effect.note}{steady}"),
        share=value / mean,
        found=describe_direction(effect, mean=mean),
        same=same,
        again=len(again),
    )


def claim_of_way(choice: TreeChoice, outcome: str, way: str, trees: Trees, *, source: str, paper: str = "") -> Claim:
    """The claim that an outcome is lower or higher with a choice, about the same (``little``), or not higher.

    Lower and higher hold only if three of four models of parts of the encoders agree in sign; a sign that is as printed
    only in the model of all encoders is corrected.
    """
    words = {"raises": "higher", "lowers": "lower", "little": "about the same", "no worse": "not higher"}[way]

    def answer() -> ClaimAnswer:
        moved = find_effect_direction(choice, outcome, trees)
        if not moved.steady:
            reason = "the sign depends on which encoders the trees are trained on"
        elif moved.found == "little":
            reason = "its mean SHAP difference is below 1 % of the mean"
        else:
            reason = f"the trees put it at {100 * moved.share:+.1f} % of the mean, and their sign is steady"
        if choice.tied:
            tied = choice.tied_effect(trees.of(outcome))
            reason += f"; they put {tied:+.2f} points on {' and '.join(choice.tied)}, which it settles"
        holds = moved.found == way and (moved.steady or way == "little")
        holds = holds or (way == "no worse" and moved.found != "raises")
        value = moved.effect.value or 0.0
        by_sign = (way == "raises" and value > 0) or (way == "lowers" and value < 0)
        return ClaimAnswer(
            ours=moved.text,
            value=value,
            holds=holds,
            held_as_the_paper_did=by_sign,
            reason=f"the sign in one model is as printed, but {reason}" if by_sign else reason,
        )

    return answer_claim(
        f"By SHAP, the {describe_outcome(outcome)} is {words} with {choice.words}",
        source=source,
        paper=paper or words,
        answer=answer,
    )


def describe_outcome(outcome: str) -> str:
    """An outcome as the object of a sentence.

    >>> describe_outcome("usability"), describe_outcome("train_test")
    ('usability error', 'full-shot error')
    """
    label = OUTCOMES[outcome].label
    words = label if label[0].isdigit() else label[0].lower() + label[1:]
    return words if words.endswith("error") else f"{words} error"
