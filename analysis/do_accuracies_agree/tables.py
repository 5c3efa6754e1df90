"""Published minus measured accuracies: the pairs, Table 8 as it is printed, and the tables of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import PairedComparison, paired_comparison
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import catalogue
from zoo.results.rows import errata
from zoo.studies.findings import Table
from zoo.studies.tables import interval, read_printed

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = {  # words -> published accuracy, measured error
    "full-shot": ("top1acc_in1k_official", "train_test"),
    "1 % of labels": ("top1acc_in1k-1%_official", "train-balsbst-ntrain0.01_test"),
    "5-shot": ("top1acc_in1k-c5_official", "train-nperclass-5_test"),
}
TABLE_8 = {  # (encoder, setting) -> printed difference
    (row["encoder"], row["setting"]): row["difference"] for row in read_printed(Path(__file__).with_name("table8.tsv"))
}
FAR = 3.0  # percentage points, of Table 8
DIFFERENCE = "published minus measured accuracy"


def differences_of(table: StudyTable, setting: str) -> pd.Series[float]:
    """Published minus measured accuracy by encoder, in percentage points, of the encoders that have both."""
    published, error = SETTINGS[setting]
    pairs = table.frame.dropna(subset=[published, error])
    return pairs[published] - (100 - pairs[error])


def compared(table: StudyTable, term: str, pairs: pd.Series[float]) -> PairedComparison | None:
    """The paired comparison, also clustered by objective; None if fewer than two differences differ."""
    if pairs.nunique() < 2:
        return None
    objectives = table.frame["objective"].reindex(pairs.index).fillna("unknown")
    return paired_comparison(pairs, term=term, outcome=DIFFERENCE, groups=objectives)


def known_fault(encoder: str) -> str:
    """What is known to be wrong with the published accuracy, or with the measurement, of an encoder."""
    cards = catalogue()
    facts = cards[encoder].errata if encoder in cards else ()
    reasons = [erratum.reason for erratum in facts if erratum.field == "reported.top1_percent"]
    return " ".join([*reasons, *(one.reason for one in errata() if one.encoder == encoder and one.exclude)])


def summary_table(comparisons: Sequence[PairedComparison]) -> Table:
    """One row a setting: mean, standard deviation and median of the differences, with their tests."""
    rows = [
        [
            one.mean.term,
            str(one.n),
            _with_interval(one.mean),
            f"{one.sd:.2f}",
            _p(one.mean),
            _p(one.by_group) if one.by_group else "",
            _with_interval(one.median),
            _p(one.median),
            f"{one.detectable:.1f}",
        ]
        for one in comparisons
    ]
    return Table(
        title="Published minus measured top-1 accuracy, in percentage points",
        headers=[
            "setting",
            "pairs",
            "mean [95 % interval]",
            "sd",
            "p, paired t",
            "p, clustered by objective",
            "median [95 % interval]",
            "p, Wilcoxon",
            "detectable",
        ],
        rows=rows,
        note="Positive: our probe is worse. Detectable: the mean difference that a paired t-test would find in four of "
        "five repetitions with as many pairs and as much spread.",
    )


def table_8(table: StudyTable, ours: Mapping[tuple[str, str], float]) -> Table:
    """Every pair that is far apart in print or in the table; ``ours`` are differences by encoder and setting."""
    facts = table.frame[["objective", "architecture_exact", "pretraining_data"]].fillna("")
    rows = []
    for encoder, name in sorted({pair for pair, value in ours.items() if abs(value) > FAR} | set(TABLE_8)):
        value = ours.get((encoder, name))
        rows.append(
            [
                encoder,
                *(list(facts.loc[encoder]) if encoder in facts.index else ["", "", ""]),
                name,
                TABLE_8.get((encoder, name), ""),
                "" if value is None else f"{value:.2f}",
                known_fault(encoder),
            ]
        )
    return Table(
        title=f"Encoders more than {FAR:g} points from their published accuracy (Table 8)",
        headers=["encoder", "objective", "architecture", "pretraining data", "setting", "paper", "ours", "known fault"],
        rows=rows,
        note="Published minus measured accuracy, in percentage points.",
    )


def _with_interval(estimate: Estimate) -> str:
    return interval(estimate, digits=2, signed=False)


def _p(estimate: Estimate) -> str:
    return "" if estimate.p is None else f"{estimate.p:.1e}" if estimate.p < 0.001 else f"{estimate.p:.3f}"
