"""The results of a user beside the shipped ones: which count, and what the user's errata exclude."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.result_rows import ERRATUM, AddRows, user_of
from zoo import NOT_PUBLISHED
from zoo.cards.catalogue import catalogue
from zoo.errors import QueryError
from zoo.results.derived import summaries
from zoo.results.rows import errata, measurements
from zoo.results.values import PUBLISHED_SOURCE, Summary

PUBLISHED = summaries()
UNMEASURED = next(name for name in catalogue() if name not in PUBLISHED)
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


def test_a_row_of_the_user_is_one_more_measurement(add_rows: AddRows) -> None:
    add_rows({})
    mine = measurements()[-1]
    assert (mine.encoder, mine.value, mine.seed, mine.ci_low, mine.source) == ("dino_vitS16", 24.5, 0, 24.1, "me")


def test_the_published_source_counts_unless_another_is_asked_for(add_rows: AddRows) -> None:
    add_rows({})
    assert summaries() == PUBLISHED
    assert summaries(source=PUBLISHED_SOURCE) == PUBLISHED
    assert summaries(source="me") == {
        "dino_vitS16": Summary(encoder="dino_vitS16", errors={"100%": 24.5}, decomposition=None, errata=())
    }
    with pytest.raises(QueryError, match=r"'you'.*arXiv:2302.03068.*me"):
        summaries(source="you")


def test_of_several_sources_of_an_unpublished_encoder_the_newest_counts_with_its_seeds_averaged(
    add_rows: AddRows,
) -> None:
    new = {"encoder": UNMEASURED.upper(), "source": "new", "date": "2026-11", "ci_low": "", "ci_high": ""}
    add_rows(
        new | {"seed": "0", "value": "30"},
        new | {"seed": "1", "value": "31"},
        new | {"split": "train -> train", "value": "10"},
        new | {"split": "train minus subset -> subset", "n_train": "", "value": "28"},
        new | {"dataset": "cifar-10", "n_train": "50000", "value": "2"},
        {"encoder": UNMEASURED, "source": "old", "date": "2026-10-31"},
    )
    part = summaries()[UNMEASURED].decomposition
    assert part is not None
    assert part.full_shot_error == 30.5
    assert (part.approximation_plus_usability, part.probe_generalization, part.encoder_generalization) == (10, 18, 2.5)
    assert part.usability is NOT_PUBLISHED
    assert summaries(source="old")[UNMEASURED].errors == {"100%": 24.5}


def test_an_erratum_of_the_user_excludes_too(add_rows: AddRows) -> None:
    add_rows().with_name("errata.toml").write_text(ERRATUM)
    assert set(PUBLISHED) - set(summaries(exclude_wrong=True)) == {WRONG, "dino_vitS16"}
    assert summaries()["dino_vitS16"].errata[0].reason == "Measured after lunch."
    assert measurements(encoders=["dino_vitS16"], metrics=["uniformity"], exclude_wrong=True)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(add_rows: AddRows) -> None:
    path = add_rows({})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    path.with_name("errata.toml").write_bytes(b"\xef\xbb\xbf" + ERRATUM.replace("\n", "\r\n").encode())
    assert b"\r\n" in path.read_bytes()
    assert measurements()[-1].date == "2026-11-20"
    assert errata()[-1].reason == "Measured after lunch."


def test_errata_of_the_user_may_be_none(add_rows: AddRows) -> None:
    shipped = errata()
    add_rows().with_name("errata.toml").write_text("# nothing yet\n")
    assert errata() == shipped


def test_a_file_without_rows_adds_nothing(add_rows: AddRows) -> None:
    shipped = measurements()
    add_rows()
    assert measurements() == shipped
    assert summaries() == PUBLISHED
