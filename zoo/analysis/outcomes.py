"""What studies explain: the components of the full-shot error and the errors by labels, with their words and units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """One risk, as a column of the study table; lower is better."""

    column: str  # published name
    label: str  # in figures and tables
    unit: str
    n_labels: int | None = None  # of the probe; None for a component


COMPONENTS = (
    Outcome("approx", "Approximation", "percentage points"),
    Outcome("usability", "Usability", "percentage points"),
    Outcome("probe_gen", "Probe generalization", "percentage points"),
    Outcome("enc_gen", "Encoder generalization", "percentage points"),
)
ERRORS = (
    Outcome("train_test", "Full-shot error", "percent", 1_281_167),
    Outcome("train-nperclass-30_test", "30-shot error", "percent", 30_000),
    Outcome("train-balsbst-ntrain0.01_test", "1 % error", "percent", 12_811),
    Outcome("train-nperclass-5_test", "5-shot error", "percent", 5_000),
    Outcome("train-nperclass-3_test", "3-shot error", "percent", 3_000),
)
OUTCOMES = {outcome.column: outcome for outcome in (*COMPONENTS, *ERRORS)}
TREE_OUTCOMES = ("approx", "usability", "probe_gen", "enc_gen", "train_test", "train-nperclass-3_test")  # Table 6
