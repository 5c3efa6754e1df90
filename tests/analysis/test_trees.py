"""Boosted trees out of fold: equal to xgb.cv, independent of workers, and explained variance by its definitions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost

from tests.each import for_each
from tests.shipped import shipped_table
from zoo.analysis.table import StudyTable, build_table
from zoo.analysis.trees import (
    FIXED,
    TREE_FEATURES,
    compute_fold_errors,
    compute_pooled_r2,
    compute_r2_by_fold,
    draw_folds,
    encode_categories,
    list_rows_outside,
    predict_out_of_fold,
    prepare_facts,
    select_sample,
)
from zoo.errors import QueryError, UnknownName

PARAMETERS = {
    "rounds": 30,
    "eta": 0.2,
    "max_depth": 4,
    "min_child_weight": 2,
    "lambda": 1.0,
    "alpha": 0.01,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
}


@pytest.fixture(scope="module")
def published() -> StudyTable:
    return shipped_table()


def test_scores_of_the_same_folds_and_settings_are_those_of_xgb_cv(published: StudyTable) -> None:
    sample = select_sample(published, "usability", "few")
    folds = draw_folds(sample.n, 10, seed=3, draw=0)
    settings = {name: value for name, value in {**FIXED, **PARAMETERS}.items() if name not in ("rounds", "nthread")}
    pairs = [(list_rows_outside(sample.n, fold), fold) for fold in folds]
    matrix = xgboost.DMatrix(sample.x, label=sample.y)
    reference = xgboost.cv({**settings, "seed": 3, "nthread": 1}, matrix, PARAMETERS["rounds"], folds=pairs)
    predictions = predict_out_of_fold(sample, dict(PARAMETERS), [folds], seed=3)
    ours = compute_fold_errors(sample.y, predictions[0], folds).mean()
    assert ours == pytest.approx(reference["test-rmse-mean"].iloc[-1], rel=1e-6)  # XGBoost's metric is in float32


def test_predictions_do_not_depend_on_the_number_of_workers_nor_on_what_ran_before(published: StudyTable) -> None:
    sample = select_sample(published, "probe_gen", "few")
    divisions = [draw_folds(sample.n, 5, seed=0, draw=draw) for draw in (1, 2)]
    settings = dict(PARAMETERS)
    alone = predict_out_of_fold(sample, settings, divisions, seed=0, n_workers=1)
    together = predict_out_of_fold(sample, settings, divisions, seed=0, n_workers=4)
    backwards = predict_out_of_fold(sample, settings, divisions[::-1], seed=0, n_workers=1)[::-1]
    assert (alone == together).all()
    assert (alone == backwards).all()


def test_both_percentages_are_what_their_definitions_say() -> None:
    y = np.array([0.0, 2.0, 4.0, 6.0])  # variance 5
    predictions = np.array([0.0, 2.0, 2.0, 2.0])  # errors 0, 0, 2, 4
    folds = (np.array([0, 1]), np.array([2]), np.array([3]))
    errors = compute_fold_errors(y, predictions, folds)
    assert errors.tolist() == [0.0, 2.0, 4.0]
    assert compute_r2_by_fold(errors, y) == pytest.approx(100 * (1 - 2.0**2 / 5))  # mean of 0, 2 and 4
    assert compute_pooled_r2(y, predictions[None]) == pytest.approx(100 * (1 - 5.0 / 5))  # (0 + 0 + 4 + 16) / 4
    assert compute_pooled_r2(y, np.array([y, predictions])) == pytest.approx(100 * (1 - 2.5 / 5))  # two repeats


def test_outcomes_that_cannot_be_explained_are_refused_in_one_sentence() -> None:
    table = build_table({str(number): {"z_dim": float(number), "usability": 3.0} for number in range(5)})
    with pytest.raises(QueryError, match="usability is 3 for all 5 encoders"):
        select_sample(table, "usability", ["z_dim"])
    with pytest.raises(QueryError, match="Only 0 of the 5 encoders of the table have approx, expected at least 2"):
        select_sample(table, "approx", ["z_dim"])
    with pytest.raises(QueryError, match="family holds text"):
        select_sample(table, "family", ["z_dim"])
    with pytest.raises(QueryError, match="z_dim as outcome and as feature"):
        select_sample(table, "z_dim", ["z_dim"])
    with pytest.raises(UnknownName, match="usability"):
        select_sample(table, "usabilty", ["z_dim"])


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
    table = build_table({"one": {column: published}, "two": {column: published}})
    assert prepare_facts(table, [column])[column].tolist() == pytest.approx([rounded] * 2, rel=1e-12)


def test_what_is_missing_stays_missing_in_numbers_and_in_text() -> None:
    table = build_table({"a": {"z_dim": 512.0, "family": "vit", "is_ema": True}, "b": {}})
    frame = prepare_facts(table, ["z_dim", "family", "is_ema"])
    assert frame.loc["b"].isna().all()
    codes = encode_categories(frame)
    assert codes.loc["b"].isna().all()
    assert codes.loc["a"].tolist() == [512.0, 0.0, 1.0]


@for_each(TREE_FEATURES)
def test_the_published_table_becomes_numbers_that_decode_to_its_text(features: str) -> None:
    table = shipped_table()
    frame = prepare_facts(table, features)
    codes = encode_categories(frame)
    assert frame.shape == codes.shape == (169, len(TREE_FEATURES[features]))
    assert set(codes.dtypes) == {np.dtype("float64")}
    assert (codes.isna() == frame.isna()).all(axis=None)
    for name in frame.select_dtypes("category"):
        decoded = codes[name].map(dict(enumerate(frame[name].cat.categories)))
        pd.testing.assert_series_equal(decoded.astype(object), table.frame[name].astype(object), check_names=False)
