"""The columns of the study table, with kinds, units, labels and meanings; and what an analysis returns.

Every analysis gives one :class:`Estimate` a quantity, with its uncertainty and what it was estimated from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from ..cards.schema import COLUMNS
from ..results.tables import EXTENDED_LAYOUT, RAW_RISKS, STATISTICS
from ..results.vocabulary import METRICS, SPLITS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class OutcomeColumn:
    """One risk, as a column of the study table; lower is better."""

    column: str  # published name
    label: str  # in figures and tables
    unit: str
    n_labels: int | None = None  # of the probe; None for a component


COMPONENTS = (
    OutcomeColumn("approx", "Approximation", "percentage points"),
    OutcomeColumn("usability", "Usability", "percentage points"),
    OutcomeColumn("probe_gen", "Probe generalization", "percentage points"),
    OutcomeColumn("enc_gen", "Encoder generalization", "percentage points"),
)
ERRORS = (
    OutcomeColumn("train_test", "Full-shot error", "percent", 1_281_167),
    OutcomeColumn("train-nperclass-30_test", "30-shot error", "percent", 30_000),
    OutcomeColumn("train-balsbst-ntrain0.01_test", "1 % error", "percent", 12_811),
    OutcomeColumn("train-nperclass-5_test", "5-shot error", "percent", 5_000),
    OutcomeColumn("train-nperclass-3_test", "3-shot error", "percent", 3_000),
)
OUTCOMES = {outcome.column: outcome for outcome in (*COMPONENTS, *ERRORS)}
TREE_OUTCOMES = ("approx", "usability", "probe_gen", "enc_gen", "train_test", "train-nperclass-3_test")  # Table 6


Role = Literal["outcome", "raw risk", "design choice", "metadata", "statistic"]
_FACTS = {column.name: column for column in COLUMNS}
_ROLES: dict[str, Role] = {
    "risk_decomposition": "outcome", "metrics": "outcome", "hyperparameters": "design choice",
    "metadata": "metadata", "statistics": "statistic",
}  # fmt: skip
_UNITS = {
    "n_negatives": "negatives", "n_classes": "classes", "pred_dim": "dimensions", "projection_hid_width": "units",
    "projection_hid_depth": "layers", "patch_size": "pixels", "n_parameters": "parameters",
    "projection_nparameters": "parameters", "projection_nparameters_hidden": "parameters", "z_dim": "dimensions",
    "epochs": "epochs", "batch_size": "images", "img_size": "pixels", "n_augmentations": "augmentations",
    "nviews": "views", "year": "years", "month": "months", "n_pus": "processors", "time_hours": "hours",
    "top1acc_in1k_official": "percent", "top1acc_in1k-1%_official": "percent", "top1acc_in1k-c5_official": "percent",
}  # fmt: skip
_LABELS = {
    "ssl_mode": "type of objective", "z_dim": "representation dimensions", "n_parameters": "encoder parameters",
    "projection_nparameters": "projector parameters", "projection_nparameters_hidden": "hidden projector parameters",
    "projection1_arch": "first projector", "projection2_arch": "second projector", "nviews": "views",
    "projection_same": "same projector twice", "n_augmentations": "augmentations",
    "pretraining_data": "pretraining data", "img_size": "image size",
    "family": "architecture family", "patch_size": "patch size", "z_layer": "layer",
    "batch_size": "batch size", "architecture_exact": "exact architecture", "n_classes": "classes of the objective",
    "finetuning_data": "fine-tuning data", "pred_dim": "projector output dimensions", "n_negatives": "negatives",
    "is_stopgrad": "stop-gradient", "is_ema": "moving-average branch", "learning_rate": "learning rate",
    "weight_decay": "weight decay", "is_industry": "trained in industry", "is_official": "official weights",
    "train_rank": "effective dimensionality", "train_uniformity": "uniformity",
    "trainrealaug_alignment": "alignment of augmentations", "train_alignment": "alignment within a class",
    "projection_hid_width": "projector width", "projection_hid_depth": "projector depth",
}  # fmt: skip
_DERIVED = {
    "n_augmentations": ("number", "how many kinds of augmentation"),
    "nviews": ("whole number", "crops per image"),
    "projection_nparameters_hidden": ("number", "parameters of the projector beyond its first layer"),
    "date_published": ("text", "first day of the month of publication"),
    "augmentations": ("text", "augmentations of pretraining, as a list in text"),
    "approx_is_assumed": ("true or false", "the approximation error is 0 because it was not measured"),
}


@dataclass(frozen=True, slots=True)
class StudyColumn:
    """One column: what it holds, its unit, and its label."""

    name: str  # published
    role: Role
    kind: str  # "number", "whole number", "text", "true or false"
    unit: str  # "dimensions"; empty where there is none
    label: str  # for axes and tables
    meaning: str

    @property
    def is_number(self) -> bool:
        """True if the cells are float64; whole numbers are, so that a missing one can be NaN."""
        return self.kind in ("number", "whole number")


def _column(section: str, name: str) -> StudyColumn:
    role = _ROLES[section]
    if name in OUTCOMES:
        outcome = OUTCOMES[name]
        return StudyColumn(name, role, "number", outcome.unit, outcome.label, f"{outcome.label.lower()} of the encoder")
    if name in STATISTICS:
        metric, split = STATISTICS[name]
        label = _LABELS.get(name, f"{metric.replace('_', ' ')} ({split})")
        meaning = f"{METRICS[metric].meaning}; on {SPLITS[split].meaning}"
        return StudyColumn(name, role, "number", METRICS[metric].unit, label, meaning)
    if name in _DERIVED:
        kind, meaning = _DERIVED[name]
    elif name.startswith("is_aug_any"):
        kind, meaning = "whole number", f"1 if any augmentation is of {name.removeprefix('is_aug_any')}"
    elif name.startswith("is_aug_") and name not in _FACTS:
        kind, meaning = "whole number", f"1 if the augmentations include {name.removeprefix('is_aug_')}"
    elif name == "approx_plus_usability":
        kind, meaning = "number", "error of the probe on its own training images, signed and never clipped"
    else:
        kind, meaning = _FACTS[name].kind, _FACTS[name].meaning
    unit = "percentage points" if name == "approx_plus_usability" else _UNITS.get(name, "")
    return StudyColumn(name, role, kind, unit, _LABELS.get(name, name.replace("_", " ")), meaning)


STUDY_COLUMNS: dict[str, StudyColumn] = {name: _column(section, name) for section, name in EXTENDED_LAYOUT} | {
    name: StudyColumn(name, "raw risk", "number", "percent", f"error, {split}", SPLITS[split].meaning)
    for name, split in RAW_RISKS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One estimated quantity.

    ``value`` is None where the data do not identify the term; ``note`` then says why, and there is no interval and no
    p-value. Intervals are at 95 %.
    """

    term: str  # "log(z_dim)": what the quantity belongs to
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None  # two-sided, of the hypothesis that the value is 0
    n: int  # rows it was estimated from
    unit: str  # "percentage points per unit of log(z_dim)"
    outcome: str = ""  # column that is explained: "usability"
    method: str = ""  # "controlled", "global linear", "scaling law", ...
    ci_low_robust: float | None = None  # with HC3 standard errors
    ci_high_robust: float | None = None
    p_robust: float | None = None
    p_adjusted: float | None = None  # false-discovery rate (Benjamini-Hochberg) within the family of tests
    family: str = ""  # the tests that p_adjusted was computed over
    note: str = ""

    def with_value(
        self,
        value: float | None,
        interval: tuple[float | None, float | None] = (None, None),
        *,
        p: float | None = None,
        **changes: object,
    ) -> Estimate:
        """The same estimate with a value, its 95 % interval and p-value, as Python floats, and other labels."""
        value, low, high, p = (None if number is None else float(number) for number in (value, *interval, p))
        return self.described(value=value, ci_low=low, ci_high=high, p=p, **changes)

    def described(self, **changes: object) -> Estimate:
        """The same estimate with other labels."""
        return replace(self, **changes)  # type: ignore[arg-type]


FIELDS = tuple(field.name for field in fields(Estimate))


def list_estimates(estimates: Iterable[Estimate]) -> list[dict[str, object]]:
    """Plain records, one an estimate, for JSON: Python numbers, None where there is none."""
    return [{name: _plain(value) for name, value in asdict(estimate).items()} for estimate in estimates]


def _plain(value: object) -> object:
    if isinstance(value, str) or value is None:
        return value
    number = float(value) if isinstance(value, float) else int(value)  # type: ignore[call-overload]
    return number if math.isfinite(number) else None


def estimates_frame(estimates: Sequence[Estimate]) -> pd.DataFrame:
    """One row an estimate, one column a field of :class:`Estimate`; numbers are float64, missing ones NaN."""
    import pandas as pd

    frame = pd.DataFrame(list_estimates(estimates), columns=list(FIELDS))
    numbers = [field.name for field in fields(Estimate) if "float" in str(field.type)]
    return frame.astype(dict.fromkeys(numbers, "float64"))
