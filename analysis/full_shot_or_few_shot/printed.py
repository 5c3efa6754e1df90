"""Tables 2 and 4 of the paper, as they are printed, beside the accuracies of the encoders that a table finds.

Accuracy is 100 minus the error, in percent. The full-shot accuracy of the last row of Table 4 shares every digit with
that of another encoder, which an erratum calls suspicious.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.analysis.columns import Estimate
from zoo.analysis.groups import ANY_FEATURES, TABLE_2, Category, Winner, error_difference, members, winner
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Table, agrees_with, answered, beside
from zoo.studies.tables import accuracy_label, read_printed

from .tables import winners_table

FULL, ONE, THREE = "train_test", "train-balsbst-ntrain0.01_test", "train-nperclass-3_test"
SHOWN = (FULL, ONE, THREE)


@dataclass(frozen=True, slots=True)
class PrintedWinner:
    """A row of Table 2."""

    category: Category
    best_at: tuple[str, ...]  # columns of the errors for which it is underlined
    name: str
    accuracies: tuple[str, str, str]  # full-shot, 1 %, 3-shot
    million_parameters: str


@dataclass(frozen=True, slots=True)
class PrintedFeatures:
    """A row of Table 4."""

    encoder: str  # id, from objective, architecture and dimensions
    name: str
    ours: bool  # extracted by the authors of the paper
    dimensions: str
    accuracies: tuple[str, str, str]


SETTINGS = {"full-shot": FULL, "1 %": ONE, "3-shot": THREE}  # as the printed tables name them
CATEGORIES = {category.name: category for category in TABLE_2}
WINNERS = [
    PrintedWinner(
        category=CATEGORIES[row["category"]],
        best_at=tuple(SETTINGS[setting] for setting in row["best_at"].split(", ")),
        name=row["name"],
        accuracies=(row["full-shot"], row["1 %"], row["3-shot"]),
        million_parameters=row["million_parameters"],
    )
    for row in read_printed(Path(__file__).with_name("table2.tsv"))
]
FEATURES = [
    PrintedFeatures(
        encoder=row["encoder"],
        name=row["name"],
        ours=row["extracted_by"] == "the paper",
        dimensions=row["dimensions"],
        accuracies=(row["full-shot"], row["1 %"], row["3-shot"]),
    )
    for row in read_printed(Path(__file__).with_name("table4.tsv"))
]


def winner_claims(table: StudyTable) -> list[Claim]:
    """One claim a row of Table 2, and that no encoder is the best both in full-shot and in 3-shot."""
    rows = [
        answered(
            f"Table 2, {row.category.name}: best at {' and '.join(map(accuracy_label, row.best_at))}",
            source="Table 2",
            paper=f"{row.name}, {row.million_parameters}M: {' / '.join(row.accuracies)}",
            answer=lambda row=row: _winner_answer(table, row),  # type: ignore[misc]
        )
        for row in WINNERS
    ]
    never = answered(
        "The best encoder in full-shot is never the best in 3-shot (5 categories)",
        source="Section 5.2.2, Table 2",
        paper="never",
        answer=lambda: _never_both(table),
    )
    return [*rows, never]


def feature_claims(table: StudyTable) -> list[Claim]:
    """One claim a row of Table 4, and what the paper concludes from its pairs."""
    rows = [
        answered(
            f"Table 4, {row.name}, {'features of this paper' if row.ours else 'published features'}",
            source="Table 4",
            paper=f"{row.dimensions} dimensions: {' / '.join(row.accuracies)}",
            answer=lambda row=row: _feature_answer(table, row),  # type: ignore[misc]
        )
        for row in FEATURES
    ]
    return [
        *rows,
        answered(
            "Features of fewer dimensions improve few-shot accuracy (both pairs of Table 4)",
            source="Section 5.3.1, Table 4",
            paper="improve",
            answer=lambda: _smaller_helps(table),
        ),
        answered(
            "Smaller features of OpenCLIP are the best of all encoders at 1 %",
            source="Section 5.3.1, Table 4",
            paper="best",
            answer=lambda: _best_at_one_percent(table),
        ),
    ]


def accuracies_of(table: StudyTable, encoder: str) -> tuple[float, ...]:
    """Accuracies of an encoder in full-shot, 1 % and 3-shot, in percent.

    Raises
    ------
    QueryError
        If it is not in the table or lacks one of them.
    """
    errors = [float(table.frame[setting].get(encoder, float("nan"))) for setting in SHOWN]
    if any(error != error for error in errors):
        raise QueryError(f"{encoder} has no error in full-shot, 1 % and 3-shot in the table; expected all, measure it.")
    return tuple(100 - error for error in errors)


def winners_of(table: StudyTable) -> list[Winner]:
    """The winner of each category of Table 2, and of all features, in full-shot, 1 % and 3-shot, where there is one."""
    return [
        winner(table, category, setting)
        for category in (*TABLE_2, ANY_FEATURES)
        for setting in SHOWN
        if members(table, category)[setting].notna().any()
    ]


def winners_report(table: StudyTable) -> Table:
    """Table 2: ids, accuracies beside the printed ones, and leads over the runners-up."""
    printed = {
        (row.category.name, setting): f"{row.name}: {' / '.join(row.accuracies)}"
        for row in WINNERS
        for setting in row.best_at
    }
    return winners_table("Best encoders by category and setting (Table 2)", winners_of(table), table, SHOWN, printed)


def features_report(table: StudyTable) -> Table:
    """Table 4: ids, dimensions and accuracies beside the printed ones."""
    rows = []
    for row in FEATURES:
        if row.encoder in table.frame.index:
            dimensions = table.frame["z_dim"][row.encoder]
            found = [100 - float(table.frame[setting][row.encoder]) for setting in SHOWN]
            shown = ["" if value != value else f"{value:.1f}" for value in found]
            rows.append(
                [row.encoder, "yes" if row.ours else "no", f"{dimensions:g}", *shown, " / ".join(row.accuracies)]
            )
    return Table(
        title="Smaller features of the same encoders (Table 4)",
        rows=rows,
        headers=["encoder", "ours", "dimensions", *map(accuracy_label, SHOWN), "paper"],
        note="Accuracy in percent, higher is better. Ours: extracted by the authors of the paper.",
    )


def accuracy_estimates(table: StudyTable) -> list[Estimate]:
    """The accuracies of Tables 2 and 4, each row in full-shot, 1 % and 3-shot, in percent; higher is better.

    The rows are those of :func:`winners_report` and :func:`features_report`. A winner of two settings is there twice,
    so ``method`` tells the table, and in Table 2 the category and the setting by which it is the best.
    """
    rows = [
        (one.encoder, f"Table 2, {one.category}, best by {accuracy_label(one.setting)}") for one in winners_of(table)
    ]
    rows += [(row.encoder, "Table 4") for row in FEATURES if row.encoder in table.frame.index]
    return [
        _accuracy(encoder, setting, float(table.frame[setting][encoder]), method)
        for encoder, method in rows
        for setting in SHOWN
    ]


def costs_of_choosing(table: StudyTable) -> list[tuple[str, Estimate, Estimate]]:
    """By category: what the 3-shot winner costs in full-shot, and what the full-shot winner costs in 3-shot."""
    best = {(one.category, one.setting): one.encoder for one in winners_of(table)}
    found = []
    for category in (*TABLE_2, ANY_FEATURES):
        full, three = best.get((category.name, FULL)), best.get((category.name, THREE))
        if full is None or three is None or table.frame.loc[[full, three], [FULL, THREE]].isna().any(axis=None):
            continue
        costs = [error_difference(table, three, full, FULL), error_difference(table, full, three, THREE)]
        labelled = [cost.described(method=f"{cost.method}, {category.name}") for cost in costs]
        found.append((category.name, labelled[0], labelled[1]))
    return found


def _accuracy(encoder: str, setting: str, error: float, method: str) -> Estimate:
    known = error == error
    return Estimate(
        term=encoder,
        value=100 - error if known else None,
        n=1,
        unit="percent accuracy",
        outcome=setting,
        method=method,
        note="" if known else "the table has no such error of it",
    )


def _winner_answer(table: StudyTable, row: PrintedWinner) -> Answer:
    winners = list(dict.fromkeys(winner(table, row.category, setting).encoder for setting in row.best_at))
    accuracies = accuracies_of(table, winners[0])
    million = float(table.frame["n_parameters"][winners[0]]) / 1e6
    found = len(winners) == 1 and _all_agree(row.accuracies, accuracies)
    reason = (
        "its accuracies are those printed, its card has another number of parameters"
        if found
        else ("another encoder of the table is better in this category")
    )
    return Answer(
        ours=f"{' and '.join(winners)}, {million:.0f}M: {_shown(row.accuracies, accuracies)}",
        reason=reason,
        holds=found and agrees_with(row.million_parameters, million),
        held_as_the_paper_did=found,
    )


def _never_both(table: StudyTable) -> Answer:
    both = [
        category.name
        for category in TABLE_2
        if winner(table, category, FULL).encoder == winner(table, category, THREE).encoder
    ]
    return Answer(
        ours=f"different encoders in {len(TABLE_2) - len(both)} of {len(TABLE_2)} categories",
        holds=not both,
        value=float(len(TABLE_2) - len(both)),
        reason=f"the same encoder in {', '.join(both)}",
    )


def _feature_answer(table: StudyTable, row: PrintedFeatures) -> Answer:
    accuracies = accuracies_of(table, row.encoder)
    dimensions, extracted = float(table.frame["z_dim"][row.encoder]), bool(table.frame["is_our_extract"][row.encoder])
    same = agrees_with(row.dimensions, dimensions) and extracted is row.ours and _all_agree(row.accuracies, accuracies)
    return Answer(
        ours=f"{row.encoder}, {dimensions:g} dimensions: {_shown(row.accuracies, accuracies)}",
        holds=same,
        reason="the table has other values for these features",
    )


def _smaller_helps(table: StudyTable) -> Answer:
    gains = []
    for large, small in zip(FEATURES[::2], FEATURES[1::2], strict=True):
        before, after = accuracies_of(table, large.encoder), accuracies_of(table, small.encoder)
        gains.append([new - old for old, new in zip(before, after, strict=True)])
    shown = "; ".join(f"{one:+.1f} at 1 % and {three:+.1f} at 3-shot" for _, one, three in gains)
    return Answer(ours=shown, holds=all(min(one, three) > 0 for _, one, three in gains), reason="not in both pairs")


def _best_at_one_percent(table: StudyTable) -> Answer:
    published, small = FEATURES[2], FEATURES[3]
    best = winner(table, ANY_FEATURES, ONE)
    dimensions = table.frame["z_dim"].reindex([published.encoder, small.encoder])
    lead = "" if best.margin is None else f", {best.margin:.2f} points ahead of {best.runner_up}"
    accuracy = 100 - best.error
    return Answer(
        ours=f"{best.encoder}: {accuracy:.2f} % accuracy, best of {best.n}{lead}",
        value=accuracy,
        holds=best.encoder == small.encoder and bool(dimensions.iloc[1] < dimensions.iloc[0]),
        reason="another encoder of the table is better at 1 %",
    )


def _all_agree(printed: Sequence[str], values: Sequence[float]) -> bool:
    return all(agrees_with(one, value) for one, value in zip(printed, values, strict=True))


def _shown(printed: Sequence[str], values: Sequence[float]) -> str:
    return " / ".join(beside(one, value) for one, value in zip(printed, values, strict=True))
