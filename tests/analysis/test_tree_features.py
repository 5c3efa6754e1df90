"""Facts as trees take them: what is rounded, what is kept, what becomes a number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.each import for_each
from tests.shipped import shipped_table
from zoo.analysis.table import table_of
from zoo.analysis.trees import TREE_FEATURES, coded, prepared


@for_each(
    [
        ("epochs", 310.0, 400.0),
        ("epochs", 105.0, 200.0),
        ("epochs", 32.0, 0.0),
        ("n_augmentations", 7.0, 8.0),
        ("n_augmentations", 6.0, 6.0),
        ("z_dim", 384.0, 512.0),  # above 256 * sqrt(2) = 362
        ("z_dim", 768.0, 1024.0),
        ("z_dim", 720.0, 512.0),  # below 512 * sqrt(2) = 724
        ("patch_size", 7.0, 8.0),
        ("patch_size", 8.0, 8.0),
        ("nviews", 12.0, 16.0),
        ("n_parameters", 23_508_032.0, 2.0**24),
        ("batch_size", 4096.0, 4096.0),
        ("n_negatives", 65_535.0, 65_536.0),
        ("learning_rate", 0.2, 0.1),
        ("learning_rate", 4e-4, 1e-3),  # above 10^-3.5
        ("weight_decay", 1e-6, 1e-6),
        ("weight_decay", 0.0, 0.0),
        ("projection_nparameters_hidden", 134_222_784.0, 134_222_784.0),
        ("year", 2021.0, 2021.0),
    ],
    arguments=3,
)
def test_numbers_are_rounded_by_the_rule_of_their_column(column: str, published: float, rounded: float) -> None:
    table = table_of({"one": {column: published}, "two": {column: published}})
    assert prepared(table, [column])[column].tolist() == pytest.approx([rounded] * 2, rel=1e-12)


def test_what_is_missing_stays_missing_in_numbers_and_in_text() -> None:
    table = table_of({"a": {"z_dim": 512.0, "family": "vit", "is_ema": True}, "b": {}})
    frame = prepared(table, ["z_dim", "family", "is_ema"])
    assert frame.loc["b"].isna().all()
    codes = coded(frame)
    assert codes.loc["b"].isna().all()
    assert codes.loc["a"].tolist() == [512.0, 0.0, 1.0]


@for_each(TREE_FEATURES)
def test_the_published_table_becomes_numbers_that_decode_to_its_text(features: str) -> None:
    table = shipped_table()
    frame = prepared(table, features)
    codes = coded(frame)
    assert frame.shape == codes.shape == (169, len(TREE_FEATURES[features]))
    assert set(codes.dtypes) == {np.dtype("float64")}
    assert (codes.isna() == frame.isna()).all(axis=None)
    for name in frame.select_dtypes("category"):
        decoded = codes[name].map(dict(enumerate(frame[name].cat.categories)))
        pd.testing.assert_series_equal(decoded.astype(object), table.frame[name].astype(object), check_names=False)
