"""The tables with the published column names: what was published to the last digit, and what is corrected in them."""

from __future__ import annotations

import json
import sys
from hashlib import sha256

import pandas as pd
import pytest

from zoo import NOT_APPLICABLE, NOT_PUBLISHED, metadata_df, metadata_dict, results_df
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import COLUMNS, Missing
from zoo.errors import MissingExtra
from zoo.results.derived import summaries

# SHA-256 of the table published with arXiv:2302.03068 as a CSV file, every byte of it.
PUBLISHED_FILE = "7206cb87a3758ef3be989038b47181efd1ebc352927cbbab52e430ed3c5c1f2f"
# SHA-256 of the published facts as JSON, in the published order of encoders and sections, keys of a section sorted.
PUBLISHED_FACTS = "2a11110abb3ab4a7ef5608b271c2441bda93d19cde335a7e815316258a9778c2"
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return results_df(as_published=True)


@pytest.fixture(scope="module")
def corrected() -> pd.DataFrame:
    return results_df()


def test_the_table_as_published_writes_the_published_file(published: pd.DataFrame) -> None:
    assert sha256(published.to_csv(lineterminator="\n").encode()).hexdigest() == PUBLISHED_FILE


def test_the_published_table_has_169_encoders_and_117_columns_in_order(corrected: pd.DataFrame) -> None:
    assert corrected.shape == (169, 117)
    assert corrected.index.name == "enc"
    assert list(corrected.index) == sorted(corrected.index)
    sections = corrected.columns.get_level_values(0)
    assert list(dict.fromkeys(sections)) == [
        "risk_decomposition",
        "metrics",
        "hyperparameters",
        "metadata",
        "statistics",
    ]
    assert [int((sections == name).sum()) for name in dict.fromkeys(sections)] == [4, 5, 52, 14, 42]
    names = list(corrected.columns.get_level_values(1))
    assert names[:9] == [
        "approx",
        "usability",
        "probe_gen",
        "enc_gen",
        "train_test",
        "train-nperclass-30_test",
        "train-balsbst-ntrain0.01_test",
        "train-nperclass-5_test",
        "train-nperclass-3_test",
    ]
    assert names[-1] == "testrealaug_nc1norm"
    flat = results_df(False, False)
    assert list(flat.columns) == names
    assert list(flat.index) == [load_catalogue().id_of(name) for name in corrected.index]


def test_components_are_signed_by_default_and_clipped_as_published(
    published: pd.DataFrame, corrected: pd.DataFrame
) -> None:
    ours, theirs = corrected["risk_decomposition"], published["risk_decomposition"]
    assert dict((ours < 0).sum()) == {"approx": 0, "usability": 12, "probe_gen": 0, "enc_gen": 1}
    assert not (theirs < 0).any().any()
    assert (ours.clip(lower=0) - theirs).abs().max().max() < 1e-6
    assert list(ours.isna().sum()) == [23, 23, 0, 0]
    total = ours.sum(axis=1)[ours["approx"].notna()]
    assert (total - corrected["metrics", "train_test"]).abs().max() < 1e-6


def test_the_sum_that_the_published_layout_has_no_column_for_is_an_extension(corrected: pd.DataFrame) -> None:
    extended = results_df(extended=True)
    names = ["approx", "usability", "probe_gen", "enc_gen", "approx_plus_usability", "approx_is_assumed"]
    assert list(extended["risk_decomposition"].columns) == names
    assert extended.drop(columns=[("risk_decomposition", name) for name in names[4:]]).equals(corrected)
    parts = extended["risk_decomposition"]
    assert parts["approx_plus_usability"].dtype == "float64"
    assert parts["approx_is_assumed"].dtype == "bool"
    total = parts[["approx_plus_usability", "probe_gen", "enc_gen"]].sum(axis=1)
    assert (total - extended["metrics", "train_test"]).abs().max() < 1e-6
    assert parts["approx_is_assumed"].sum() == 12
    assert (parts["approx"] == 0).equals(parts["approx_is_assumed"])
    by_id = {name.lower(): summary.decomposition for name, summary in summaries().items()}
    for name, value in parts["approx_plus_usability"].items():
        part = by_id[str(name)]
        assert part is not None
        assert value == part.approximation_plus_usability
    clipped = results_df(as_published=True, extended=True)
    assert clipped["risk_decomposition", "approx_plus_usability"].equals(parts["approx_plus_usability"])


def test_facts_differ_from_the_published_ones_only_where_an_erratum_says_so(
    published: pd.DataFrame, corrected: pd.DataFrame
) -> None:
    ids = {name.lower(): name for name in load_catalogue()}
    fields = {column.name: column.field for column in COLUMNS}
    derived = {
        "nviews": "pretraining.views",
        "date_published": "released",
        "n_augmentations": "pretraining.augmentations",
        "projection_nparameters_hidden": "projector.n_parameters",
    }
    n_corrected = 0
    for section in ("hyperparameters", "metadata"):
        for column in set(published[section].columns) - {"license", "augmentations"}:
            field = derived.get(column) or fields.get(column, "pretraining.augmentations")
            for name in published.index:
                old, new = published.loc[name, (section, column)], corrected.loc[name, (section, column)]
                if not (old == new or (pd.isna(old) and pd.isna(new))):
                    assert field in {erratum.field for erratum in load_catalogue()[ids[name]].errata}, (name, column)
                    n_corrected += 1
    assert n_corrected > 0


def test_both_kinds_of_missing_survive_in_every_table() -> None:
    table = results_df(drop_missing=False)
    assert table.loc["dino_vits16_last", ("risk_decomposition", "usability")] is NOT_PUBLISHED
    assert table.loc["dino_vits16_last", ("hyperparameters", "finetuning_data")] is NOT_APPLICABLE
    assert not table.isna().any().any()
    facts = metadata_df(drop_missing=False)
    assert facts.loc["barlow_rn50", "patch_size"] is NOT_APPLICABLE
    assert facts.loc["dino_vits16", "patch_size"] == 16
    assert not facts.isna().any().any()
    sections = metadata_dict(drop_missing=False)["barlow_rn50"]
    assert sections["model"]["patch_size"] is NOT_APPLICABLE


def test_metadata_dict_leaves_missing_facts_out_and_keeps_every_section() -> None:
    for encoder, sections in metadata_dict().items():
        assert list(sections) == list(dict.fromkeys(column.section for column in COLUMNS))
        assert not any(isinstance(value, Missing) for facts in sections.values() for value in facts.values())
        assert sections["representation"]["z_dim"] == load_catalogue()[encoder].representation.dim
    assert "patch_size" not in metadata_dict(True)["barlow_rn50"]["model"]
    assert list(metadata_dict(is_lower=True)) == [encoder.lower() for encoder in metadata_dict()]


def test_metadata_df_has_one_typed_column_for_each_fact() -> None:
    table = metadata_df()
    assert set(table.columns) == {column.name for column in COLUMNS}
    assert table.index.name is None
    assert list(table.index) == [encoder.lower() for encoder in load_catalogue()]
    expected = {"text": "string", "whole number": "Int64", "number": "float64", "true or false": "boolean"}
    for column in COLUMNS:
        assert str(table[column.name].dtype) == expected.get(column.kind, "object")
    assert table["patch_size"].isna()["barlow_rn50"]
    assert list(metadata_df(is_lower=False).index) == list(load_catalogue())
    sections = {column.name: column.section for column in COLUMNS}
    assert list(metadata_df(True).columns) == [(sections[name], name) for name in table.columns]


def test_metadata_as_published_are_the_published_facts_in_the_published_order() -> None:
    facts = metadata_dict(as_published=True)
    in_order = [[encoder, [list(section) for section in sections.items()]] for encoder, sections in facts.items()]
    canonical = json.dumps(in_order, sort_keys=True, separators=(",", ":"))
    assert sha256(canonical.encode()).hexdigest() == PUBLISHED_FACTS
    assert list(metadata_df(False, False, as_published=True).index) == list(facts)
    assert len(facts) == 200
    assert set(facts) < set(load_catalogue())
    assert not {"npidpp_rn50w2", "swav_rn50w5", "selav2_rn50_ep400_2x160_4x96", "init_rn50_d8192"} & set(facts)


@pytest.mark.parametrize("table", [metadata_df, results_df])
def test_a_table_without_pandas_names_the_extra_to_install(table: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # makes the import fail as if it were not installed
    with pytest.raises(MissingExtra, match=r"'pandas'.*\[tables\]"):
        table()  # type: ignore[operator]
    assert metadata_dict()["dino_vitS16"]["model"]["patch_size"] == 16
