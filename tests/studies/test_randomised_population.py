"""The randomised population as it is shipped: what is read of its cards, rows and log, and held against the files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from analysis.what_randomised_choices_change.measured import label_free_values, randomised_law_rows
from zoo.analysis.randomised import (
    DATASET,
    OUTCOMES,
    UNITS,
    load_randomised_population,
)
from zoo.files import get_content_folder
from zoo.results.derived import summaries
from zoo.results.vocabulary import LABEL_FREE_METRICS

POPULATION = load_randomised_population()


@pytest.fixture(scope="module")
def written(repository: Path) -> dict[str, list[dict[str, str]]]:
    """The rows of every encoder of the population, read from its file."""
    return {
        name: list(csv.DictReader((repository / "results" / "randomised" / f"{name}.csv").open(encoding="utf-8")))
        for name in POPULATION.choices.index
    }


def test_every_measured_encoder_is_there_with_its_run(repository: Path) -> None:
    files = sorted(path.stem for path in (repository / "results" / "randomised").glob("*.csv"))
    assert list(POPULATION.choices.index) == [name for name in files if "_twin_" not in name]
    assert list(POPULATION.log.index) == list(POPULATION.choices.index)
    assert set(POPULATION.log["state"]) <= {"trained", "collapsed", "failed"}
    assert list(POPULATION.contrasts) == list(UNITS)
    assert not POPULATION.outcomes[list(OUTCOMES)].isna().any().any()


def test_rows_of_the_law_are_those_of_the_files(written: dict[str, list[dict[str, str]]]) -> None:
    rows, n_measured = randomised_law_rows(POPULATION)
    assert not rows.duplicated(["encoder", "n"]).any()
    assert (rows.groupby("encoder").size() == 5).all()
    for name, own in rows.groupby("encoder"):
        lines = [row for row in written[str(name)] if row["dataset"] == DATASET]
        for row in own.to_dict("records"):
            values = [
                float(line["value"])
                for line in lines
                if line["metric"] == "linear_probe_error"
                and line["split"].endswith("-> val")
                and int(line["n_train"]) == row["n"]
            ]
            assert row["error"] == pytest.approx(np.mean(values))
        (held_out,) = [line for line in lines if line["split"] == "train minus subset -> subset"]
        assert n_measured == int(held_out["n_train"])


def test_metrics_are_those_of_the_files(written: dict[str, list[dict[str, str]]]) -> None:
    values = label_free_values(POPULATION)
    for name, lines in written.items():
        expected = {
            row["metric"]: float(row["value"])
            for row in lines
            if row["metric"] in LABEL_FREE_METRICS and row["dataset"] == DATASET
        }
        assert values.loc[name].dropna().to_dict() == expected


def test_rows_of_the_user_take_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = load_randomised_population().outcomes
    rows = (get_content_folder("results") / "randomised" / "randomised_000.csv").read_text(encoding="utf-8")
    folder = tmp_path / "results" / "measured"
    folder.mkdir(parents=True)
    changed = rows.replace(",measured,2026-11-24", ",own,2026-12-24").replace(",percent,", "1,percent,")
    (folder / "randomised_000.csv").write_text(changed, encoding="utf-8")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    own = summaries(dataset="fashion-mnist")["randomised_000"].errors["100%"]
    assert own != shipped["full"]["randomised_000"]  # the newest counts elsewhere
    assert load_randomised_population().outcomes.equals(shipped)
