"""Labelled features of training and of validation images, checked for metrics that learn from the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..streamed_checks import Array, classes_of, labels_of, numbered, width_checked
from .arrays import features_of, require_varied

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LabelledFeatures:
    """Features (n, dim), the number of each row's class among ``classes`` (ascending), int64 (n,)."""

    z: Array
    y: Array
    classes: Array


def labelled_of(z: Any, y: Any, *, least: int, needed_for: str) -> LabelledFeatures:
    """What a classifier is trained on.

    Raises
    ------
    DataError
        If features are not a finite table of ``least`` rows or are all the same, if there is not one label a row, or
        if there is one class only.
    """
    rows = features_of(z, "z", least=least, needed_for=needed_for)
    require_varied(rows, "z", needed_for=needed_for)
    labels = _labels(y, len(rows), "y")
    classes = classes_of(labels)
    return LabelledFeatures(z=rows, y=numbered(labels, classes), classes=classes)


def validation_of(train: LabelledFeatures, z_val: Any, y_val: Any, *, needed_for: str) -> LabelledFeatures:
    """What it is tested on, of the same width and of classes that training has.

    Raises
    ------
    DataError
        If features have another width, labels do not match rows, or a class has no training image.
    """
    rows = features_of(z_val, "z_val", needed_for=needed_for)
    width_checked(rows, train.z.shape[1], "z_val", needed_for)
    labels = _labels(y_val, len(rows), "y_val")
    if (labels.dtype.kind in "US") != (train.classes.dtype.kind in "US"):
        raise DataError(f"y_val holds {labels.dtype} and y {train.classes.dtype}, expected labels of one kind in both.")
    numbers = numbered(labels, train.classes)
    if (numbers < 0).any():
        missing = np.unique(labels[numbers < 0])
        raise DataError(
            f"{len(missing)} class{'es' * (len(missing) > 1)} of y_val ({missing[0].item()!r} first) "
            f"{'have' if len(missing) > 1 else 'has'} no image in y, but {needed_for} needs training images of every "
            "class: add some, or leave the class out of the validation images."
        )
    return LabelledFeatures(z=rows, y=numbers, classes=train.classes)


def _labels(y: Any, n: int, name: str) -> Array:
    if y is None:
        raise DataError(f"{name} is None, expected one label for each of the {n} rows.")
    return labels_of(y.detach().cpu() if hasattr(y, "detach") else y, n, name)
