"""The trees of several outcomes at once, as studies need them; an outcome that cannot be fitted is told, not fatal."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..analysis.importance import Importance, tree_importance
from ..analysis.outcomes import OUTCOMES
from ..analysis.shap_directions import subsampled
from ..analysis.table import StudyTable
from ..analysis.tree_tuning import Tuned, tune_all, written_parameters
from ..analysis.trees import number_of_workers, sample_of
from ..errors import QueryError
from .findings import Rows
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
        """SHAP values of one outcome.

        Raises
        ------
        QueryError
            With the reason, if it could not be fitted.
        """
        if outcome not in self.fitted:
            raise QueryError(self.refused.get(outcome, f"No trees of {outcome} were asked for."))
        return self.fitted[outcome]

    @property
    def notes(self) -> list[str]:
        """One sentence an outcome that could not be fitted."""
        return [f"No trees of {OUTCOMES[outcome].label.lower()}: {why}" for outcome, why in self.refused.items()]

    def rows(self, table: StudyTable) -> list[Rows]:
        """How many encoders each model was trained on."""
        return [
            Rows(part=f"trees of {OUTCOMES[outcome].label.lower()}", used=found.n, left_out=table.n_left_out(outcome))
            for outcome, found in self.fitted.items()
        ]


def tuned_trees(
    table: StudyTable, outcomes: Sequence[str], options: StudyOptions, *, features: str = "few"
) -> dict[str, Tuned]:
    """What was searched anew by outcome, if the options ask for it; else nothing, so the stored settings count.

    An outcome that this table cannot answer is not in it.
    """
    if not options.tune:
        return {}
    possible = []
    for outcome in outcomes:
        try:
            sample_of(table, outcome, features, n_least=N_FOLDS)
        except QueryError:  # training tells the reason
            continue
        possible.append(outcome)

    def progress(outcome: str, done: int, total: int) -> None:
        options.progress(f"tuned {OUTCOMES[outcome].label.lower()}, {features} choices", done, total)

    return tune_all(table, possible, features=features, n_trials=options.n_trials, n_folds=N_FOLDS, seed=options.seed,
                     n_workers=options.n_workers, progress=progress) if possible else {}  # fmt: skip


def settings_of(tuned: Mapping[str, Tuned]) -> dict[str, Mapping[str, Any]]:
    """Settings of the trees by outcome."""
    return {outcome: one.parameters for outcome, one in tuned.items()}


def tuned_files(table: StudyTable, *tuned: Mapping[str, Tuned], name: str = FILE) -> dict[str, str]:
    """The file of a report that keeps what was searched, laid out as the stored settings; none if nothing was."""
    found = [one for own in tuned for one in own.values()]
    if not found:
        return {}
    rows = f"{len(table)} {'corrected' if table.corrected else 'published'} rows"
    rows += f", {len(table.mine)} of them measured by the user" if table.mine else ""
    with tempfile.TemporaryDirectory() as folder:
        path = written_parameters(found, Path(folder) / name, date=f"{datetime.now(UTC):%Y-%m-%d}", table=rows)
        return {name: path.read_text(encoding="utf-8")}


def fitted_trees(
    table: StudyTable,
    outcomes: Sequence[str],
    options: StudyOptions,
    *,
    features: str = "few",
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    n_subsamples: int = 0,
    again_for: Collection[str] | None = None,
) -> Trees:
    """SHAP values of the trees of each outcome, several outcomes at a time.

    An outcome that this table cannot answer, such as one that too few encoders have, is among ``refused``.

    Parameters
    ----------
    parameters : mapping, optional
        Settings of the trees by outcome, as of :func:`settings_of`; the stored ones where there are none.
    n_subsamples : int
        How often the trees of each outcome are trained again on four fifths of its encoders, where these suffice.
    again_for : collection of str, optional
        The outcomes for which they are; by default all.
    """

    def fit(outcome: str) -> tuple[Importance, list[Importance]] | str:
        settings = (parameters or {}).get(outcome)
        try:
            found = tree_importance(table, outcome, features=features, parameters=settings, seed=options.seed)
            n_again = n_subsamples if again_for is None or outcome in again_for else 0
        except QueryError as error:
            return str(error)
        again = subsampled(table, outcome, features=features, parameters=settings, n_subsamples=n_again,
                           seed=options.seed)  # fmt: skip
        try:
            return found, list(again)
        except QueryError:  # four fifths are too few, or all alike
            return found, []

    answers = {}
    with ThreadPoolExecutor(number_of_workers(options.n_workers)) as pool:  # XGBoost works outside Python's lock
        for step, (outcome, answer) in enumerate(zip(outcomes, pool.map(fit, outcomes), strict=True), start=1):
            answers[outcome] = answer
            options.progress("trees", step, len(outcomes))
    fitted = {outcome: answer for outcome, answer in answers.items() if not isinstance(answer, str)}
    return Trees(
        {outcome: found for outcome, (found, _) in fitted.items()},
        {outcome: answer for outcome, answer in answers.items() if isinstance(answer, str)},
        {outcome: again for outcome, (_, again) in fitted.items()},
    )
