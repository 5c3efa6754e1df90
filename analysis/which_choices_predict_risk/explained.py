"""Explained variance of several outcomes, held against printed percentages: by the paper's definition and pooled."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.importance import ExplainedVariance, explained_variance
from zoo.analysis.table import StudyTable
from zoo.analysis.trees import TREE_FEATURES, stored_tuning
from zoo.errors import QueryError
from zoo.studies.findings import NOT_AVAILABLE, WIDEST, Answer, Claim, Claims, Table, number_claim
from zoo.studies.running import StudyOptions
from zoo.studies.trees import error_of

SAME = 1.0  # percentage points of explained variance by which two definitions may differ and be called the same


@dataclass(frozen=True, slots=True)
class Explained:
    """Explained variance by set of features and outcome, and why an outcome has none."""

    found: Mapping[tuple[str, str], ExplainedVariance]
    refused: Mapping[tuple[str, str], str]  # the sentence of the error

    def of(self, features: str, outcome: str) -> ExplainedVariance:
        """That of one outcome; QueryError with the reason if it could not be computed."""
        if (features, outcome) not in self.found:
            raise QueryError(self.refused.get((features, outcome), f"Nobody asked for the trees of {outcome}."))
        return self.found[features, outcome]


def explained_variances(
    table: StudyTable,
    outcomes: Sequence[str],
    options: StudyOptions,
    *,
    repeats: Mapping[str, int],
    parameters: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> Explained:
    """Cross-validation of each outcome with each set of features.

    ``repeats`` are divisions into folds by set of features; ``parameters`` settings of the trees by set and outcome,
    the stored ones where there are none.
    """
    found: dict[tuple[str, str], ExplainedVariance] = {}
    refused: dict[tuple[str, str], str] = {}
    tasks = [(features, outcome) for features in repeats for outcome in outcomes]
    for step, (features, outcome) in enumerate(tasks):
        options.progress("explained variance", step, len(tasks))
        try:
            found[features, outcome] = explained_variance(
                table,
                outcome,
                features=features,
                parameters=parameters.get(features, {}).get(outcome),
                seed=options.seed,
                n_repeats=repeats[features],
                n_workers=options.n_workers,
            )
        except QueryError as error:
            refused[features, outcome] = str(error)
    return Explained(found, refused)


def nested_percentages(features: Sequence[str], outcomes: Sequence[str]) -> list[Estimate]:
    """What was found when the settings were stored: explained variance where settings, too, never saw the fold.

    Of the published rows, by both definitions; outcomes and sets without such a number are left out.
    """
    found = []
    for name in features:
        for outcome in outcomes:
            try:
                stored = stored_tuning(outcome, name)
            except QueryError:  # no settings are stored
                continue
            for definition in ("by_fold", "pooled"):
                if f"nested_{definition}" in stored:
                    found.append(
                        Estimate(
                            term=f"explained variance, {definition.replace('_', ' ')}",
                            n=int(stored["n"]),
                            value=float(stored[f"nested_{definition}"]),
                            unit="percent",
                            outcome=outcome,
                            method=f"boosted trees, nested tuning, {len(TREE_FEATURES[name])} choices",
                            note="of the published rows; each fold is predicted with settings searched without it",
                        )
                    )
    return found


def chance_of_folds(found: ExplainedVariance) -> tuple[float, float]:
    """Where the paper's percentage may come out with other folds: 95 %, from the spread of the folds' errors.

    Folds of one division share no encoder; further divisions of the same encoders are not counted as more evidence.
    """
    mean = statistics.fmean(found.fold_errors)
    half = 1.96 * statistics.stdev(found.fold_errors) / math.sqrt(found.n_folds)
    variance = mean**2 / (1 - found.by_fold / 100)
    return 100 * (1 - (mean + half) ** 2 / variance), 100 * (1 - max(mean - half, 0.0) ** 2 / variance)


def claim_of_number(explained: Explained, features: str, outcome: str, printed: str, *, words: str) -> Claim:
    """A printed percentage beside ours, by the paper's definition; the interval is over other folds."""
    claim = f"Percentage of variance explained {words}, by the paper's definition: {error_of(outcome)}"
    try:
        found = explained.of(features, outcome)
    except QueryError as error:
        return number_claim(claim, source="Table 6", printed=printed, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    low, high = chance_of_folds(found)
    return number_claim(
        claim,
        source="Table 6",
        printed=printed,
        ours=found.by_fold,
        interval=(low, high),
        widest=100 * WIDEST,
        shown=f"{found.by_fold:.2f} (other folds: {low:.0f} to {high:.0f})",
        reason=f"the printed models were trained on another, older set of encoders; ours on {found.n}",
    )


of_definition = Claims(source="Table 6, Appendix C.4")


@of_definition("Table 6 gives the percentage of explained test variance: {error}", paper="{printed}")
def the_percentage_is_of_test_variance(explained: Explained, features: str, outcome: str) -> Answer:
    """Explained test variance is that of all encoders out of fold, pooled."""
    found = explained.of(features, outcome)
    least, most = found.n // found.n_folds, -(-found.n // found.n_folds)
    sizes = f"{least} or {most} encoders" if least < most else f"{most} encoder{'' if most == 1 else 's'}"
    return Answer(
        ours=f"pooled {_pooled(found)}",
        value=found.pooled,
        holds=found.by_fold - found.pooled < SAME,
        contradicted=found.by_fold - found.pooled >= SAME,
        reason=f"the mean of root-mean-square errors, of folds of {sizes}, is below the root of their "
        f"mean square, which turns {found.pooled:.1f} into {found.by_fold:.1f}",
    )


def explained_table(
    explained: Explained,
    outcomes: Sequence[str],
    printed: Mapping[str, Mapping[str, str]],
    words: Mapping[str, str],
    nested: Sequence[Estimate],
) -> Table:
    """Table 6 with both definitions, and what nested tuning leaves of the pooled one."""
    strict = {(one.method, one.outcome): f"{one.value:.1f}" for one in nested if one.term.endswith("pooled")}
    rows = []
    for features, numbers in printed.items():
        for outcome in outcomes:
            number = numbers[outcome]
            found = explained.found.get((features, outcome))
            cells = ["not available"] * 2 + [""]
            if found is not None:
                cells = [f"{found.by_fold:.2f}", _pooled(found), str(found.n)]
            method = f"boosted trees, nested tuning, {len(TREE_FEATURES[features])} choices"
            if strict:
                cells.insert(2, strict.get((method, outcome), ""))
            rows.append([OUTCOMES[outcome].label, words[features], number, *cells])
    column = ["pooled, nested"] if strict else []
    said = "Nested: pooled, of the published rows, with settings searched without the fold. " if strict else ""
    return Table(
        title="Percentage of variance that trees explain of encoders left out (Table 6)",
        headers=["outcome", "choices", "printed", "same definition", "pooled [95 %]", *column, "encoders"],
        rows=rows,
        note="Same definition as printed: 1 - (mean of the folds' RMSE)^2 / variance. Pooled: 1 - mean squared error / "
        f"variance. {said}Folds are drawn among all encoders, so relatives of an encoder are mostly in training, "
        "and the settings were searched on the same encoders.",
    )


def _pooled(found: ExplainedVariance) -> str:
    return f"{found.pooled:.1f} [{found.pooled_ci_low:.1f}, {found.pooled_ci_high:.1f}]"
