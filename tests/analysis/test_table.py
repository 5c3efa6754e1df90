"""The study table: which rows, which cells, and why a cell or a row is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.own_encoder import MINE, add_own_encoder
from tests.shipped import shipped_table
from zoo.analysis.columns import COMPONENTS, OUTCOMES, STUDY_COLUMNS
from zoo.analysis.table import build_table, study_table
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED
from zoo.errors import QueryError, UnknownName

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


def test_the_corrected_table_is_signed_and_lacks_the_wrong_row() -> None:
    published, corrected = shipped_table(), shipped_table(corrected=True)
    assert set(published.frame.index) - set(corrected.frame.index) == {WRONG}
    assert corrected.left_out == {"measured wrongly, says an erratum": (WRONG,)}
    assert (published.frame[[component.column for component in COMPONENTS]].min() >= 0).all()
    assert (corrected.frame["usability"] < 0).sum() == 12
    parts = corrected.frame[["approx_plus_usability", "probe_gen", "enc_gen"]].sum(axis=1)
    assert (parts - corrected.frame["train_test"]).abs().max() < 1e-9


def test_every_column_says_what_it_is() -> None:
    table = study_table("all")
    assert list(table.frame.columns) == list(STUDY_COLUMNS)
    for column in STUDY_COLUMNS.values():
        assert column.label
        assert column.meaning
        assert column.is_number == (table.frame[column.name].dtype == "float64"), column.name
    assert OUTCOMES.keys() <= STUDY_COLUMNS.keys()
    assert table.column("z_dim").unit == "dimensions"
    with pytest.raises(UnknownName, match=r"z_dims.*z_dim"):
        table.column("z_dims")


def test_the_two_reasons_for_a_missing_cell_survive() -> None:
    table = shipped_table(corrected=True)
    assert table.why_missing.loc["mae_vitB16", "n_negatives"] == "not applicable"
    assert table.why_missing.loc["mugs_vits16_ep800", "usability"] == "not published"
    assert table.why_missing.loc["mae_vitB16", "z_dim"] == ""
    assert ((table.why_missing == "") == table.frame.notna()).all(axis=None)


def test_complete_rows_and_those_left_out_make_the_table() -> None:
    table = shipped_table()
    left_out = table.n_left_out("usability", "train-nperclass-30_test")
    assert left_out == {"usability not published": 23, "train-nperclass-30_test not published": 1}
    assert len(table.complete("usability", "train-nperclass-30_test")) + sum(left_out.values()) == len(table)
    with pytest.raises(QueryError, match="None of the 16 encoders of the table has z_dim and n_classes"):
        study_table("untrained").complete("z_dim", "n_classes")


def test_a_planted_table_keeps_its_cells_and_knows_its_columns() -> None:
    table = build_table(
        {"a": {"z_dim": 3, "optimizer": "adam", "n_negatives": NOT_APPLICABLE}, "b": {"z_dim": NOT_PUBLISHED}}
    )
    assert table.frame.loc["a", "z_dim"] == 3.0
    assert table.why_missing.loc["a", "n_negatives"] == "not applicable"
    assert table.why_missing.loc["b", "z_dim"] == "not published"
    with pytest.raises(UnknownName, match="zdim"):
        build_table({"a": {"zdim": 3}})


def test_encoders_of_the_user_enter_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_own_encoder(tmp_path, monkeypatch)
    assert MINE not in study_table().frame.index
    table = study_table(with_mine=True)
    assert table.mine == (MINE,)
    assert len(table) == 170
    row = table.frame.loc[MINE]
    assert (row["train_test"], row["approx"], row["usability"]) == (24.5, 1.5, 10.5)
    assert (row["probe_gen"], row["enc_gen"], row["train-nperclass-3_test"]) == (10.0, 2.5, 51.0)
    assert (row["z_dim"], row["epochs"], row["nviews"], row["n_augmentations"]) == (384, 800, 12, 2)


def test_the_newest_source_of_a_statistic_counts_and_its_seeds_are_averaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_own_encoder(tmp_path, monkeypatch)
    home = tmp_path / "results" / "statistics.csv"
    header, *_ = (tmp_path / "results" / "mine.csv").read_text().splitlines()
    row = f"{MINE},correlation_rank,imagenet-1k,train,,{{seed}},{{value}},dimensions,,,mine,me,{{date}}"
    cells = [(0, 100, "2026-01-02"), (1, 300, "2026-01-02"), (2, 900, "2025-12-31")]
    home.write_text("\n".join([header, *(row.format(seed=s, value=v, date=d) for s, v, d in cells)]) + "\n")
    assert study_table(with_mine=True).frame.loc[MINE, "train_rank"] == 200
