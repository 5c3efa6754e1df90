"""Facts of encoders as trees take them: three sets of columns, rounded and encoded (Dubois et al. 2023, App. C.4)."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import QueryError
from ..optional import requires_extra
from .studycolumns import STUDY_COLUMNS
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A study"):
    import numpy as np
    import pandas as pd

_ALL = (
    "objective", "ssl_mode", "is_stopgrad", "is_ema", "architecture_exact", "architecture", "family", "patch_size",
    "n_parameters", "z_dim", "z_layer", "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay",
    "scheduler", "pretraining_data", "img_size", "is_aug_invariant", "year", "is_official", "is_industry", "n_classes",
    "pred_dim", "projection_hid_width", "projection_hid_depth", "projection1_arch", "projection2_arch",
    "projection_same", "n_negatives", "finetuning_data", "other", "nviews", "n_augmentations",
    "projection_nparameters_hidden", "is_aug_autoaug", "is_aug_blur", "is_aug_color", "is_aug_crop", "is_aug_erasing",
    "is_aug_flip", "is_aug_gray", "is_aug_jigsaw", "is_aug_masking", "is_aug_normalize", "is_aug_photometric",
    "is_aug_rotate", "is_aug_solarize", "is_aug_anygeometric", "is_aug_anycolor",
)  # fmt: skip
_FILTERED = frozenset((
    "objective", "ssl_mode", "architecture", "family", "patch_size", "n_parameters", "z_dim", "z_layer", "epochs",
    "batch_size", "optimizer", "learning_rate", "scheduler", "pretraining_data", "is_aug_invariant", "is_official",
    "n_classes", "pred_dim", "projection1_arch", "projection2_arch", "projection_same", "n_negatives",
    "finetuning_data", "nviews", "n_augmentations", "projection_nparameters_hidden",
))  # fmt: skip
_FEW = frozenset((
    "objective", "architecture", "patch_size", "epochs", "pretraining_data", "projection2_arch", "nviews", "z_dim",
    "family", "ssl_mode", "n_parameters", "n_augmentations", "optimizer", "projection_nparameters_hidden",
))  # fmt: skip
TREE_FEATURES: dict[str, tuple[str, ...]] = {
    "all": _ALL,  # 51: what Appendix C.4 counts
    "filtered": tuple(name for name in _ALL if name in _FILTERED),  # 26: the models behind Table 6's "pre-filtering"
    "few": tuple(name for name in _ALL if name in _FEW),  # 14: the list in Appendix C.4
}
_STEPS = {"epochs": 200.0, "n_augmentations": 2.0}  # rounded to a multiple of it
_BASES = {  # rounded to a power of it
    **dict.fromkeys(
        ("batch_size", "z_dim", "patch_size", "pred_dim", "n_negatives", "n_classes", "nviews", "n_parameters"), 2.0
    ),
    **dict.fromkeys(("learning_rate", "weight_decay"), 10.0),
}


def prepared(table: StudyTable, features: str | Sequence[str] = "few") -> pd.DataFrame:
    """Facts of encoders, rounded so that encoders which hardly differ look alike.

    Epochs are rounded to multiples of 200, the number of augmentations to multiples of 2; sizes and counts to the
    nearest power of 2 and rates to the nearest power of 10, both on the logarithmic scale, so that 384 becomes 512 and
    768 becomes 1024. The published code rounds down instead, and by its floating-point logarithm takes 8 for less than
    the third power of 2; the models come out alike.

    Parameters
    ----------
    table : StudyTable
    features : str or sequence of str
        A set of :data:`TREE_FEATURES`, or columns.

    Returns
    -------
    DataFrame
        Encoder x feature. Numbers are float64; text, and true or false, is categorical, its categories sorted. What is
        missing is NaN: trees send it the way that suits them.

    Raises
    ------
    QueryError
        If there is no set of that name, or no column is given.
    UnknownName
        If the table has no such column.
    """
    names = feature_names(features)
    return pd.DataFrame({name: _prepared(table.frame[name]) for name in names}, index=table.frame.index)


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """What :func:`prepared` gave as numbers alone: a category is its position among the sorted categories.

    One column stays one feature, so a SHAP value needs no summing; the published models split on such positions too.
    They are as many as the table has, so a model is of use for this table only.
    """
    return pd.DataFrame(
        {
            name: frame[name].cat.codes.astype("float64").where(frame[name].notna())
            if isinstance(frame[name].dtype, pd.CategoricalDtype)
            else frame[name]
            for name in frame
        },
        index=frame.index,
    )


def feature_names(features: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of a set of features; errors are those of :func:`prepared`."""
    if isinstance(features, str):
        if features not in TREE_FEATURES:
            known = ", ".join(f"{name!r} ({len(columns)})" for name, columns in TREE_FEATURES.items())
            raise QueryError(f"Got the set of features {features!r}, expected one of {known}, or a list of columns.")
        return TREE_FEATURES[features]
    names = tuple(dict.fromkeys(features))
    if not names:
        raise QueryError("Got no features, expected at least one column; name some, or take the set 'few'.")
    require_columns(names)
    return names


def named_features(features: str | Sequence[str]) -> str:
    """The name of a set of features, or its columns by comma."""
    return features if isinstance(features, str) else ", ".join(features)


def _prepared(column: pd.Series) -> pd.Series:
    name = str(column.name)
    if STUDY_COLUMNS[name].kind == "true or false":
        return column.astype(pd.CategoricalDtype([False, True]))
    if not STUDY_COLUMNS[name].is_number:
        return column.astype(pd.CategoricalDtype(sorted(column.dropna().unique())))
    if name in _STEPS:
        return (column / _STEPS[name]).round() * _STEPS[name]
    if name in _BASES:
        return pd.Series(nearest_power(column.to_numpy(), _BASES[name]), index=column.index, name=name)
    return column


def nearest_power(x: np.ndarray, base: float) -> np.ndarray:
    """Powers of a base that are nearest on the logarithmic scale; what is not above 0 stays as it is.

    >>> nearest_power(np.array([384.0, 768.0, 8.0, 0.0]), 2.0).tolist()
    [512.0, 1024.0, 8.0, 0.0]
    >>> nearest_power(np.array([0.2, 4e-4, np.nan]), 10.0).tolist()
    [0.1, 0.001, nan]
    """
    rounded = np.asarray(x, dtype="float64").copy()
    positive = rounded > 0
    rounded[positive] = base ** np.round(np.log(rounded[positive]) / np.log(base))
    return rounded
