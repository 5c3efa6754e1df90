"""The columns of the study table: their kinds, units, labels in figures, and meanings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..columns import COLUMNS
from ..publishedlayout import EXTENDED_LAYOUT, STATISTICS
from ..studyrows import RAW_RISKS
from ..vocabulary import METRICS, SPLITS
from .outcomes import OUTCOMES

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
    "nviews": ("whole number", "crops an image"),
    "projection_nparameters_hidden": ("number", "parameters of the projector beyond its first layer"),
    "date_published": ("text", "first day of the month of publication"),
    "augmentations": ("text", "augmentations of pretraining, as a list in text"),
    "approx_is_assumed": ("true or false", "the approximation error is 0 because nobody measured it"),
}


@dataclass(frozen=True, slots=True)
class StudyColumn:
    """One column: what it holds and how to speak of it."""

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
