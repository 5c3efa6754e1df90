"""The randomised population as it is shipped: what is read of its cards, rows and log, and held against the files."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoo.analysis import randomised_population as module
from zoo.analysis.randomised_population import (
    DATASET,
    EXPECTED_SIGNS,
    INTERACTIONS,
    OUTCOMES,
    UNITS,
    label_free_values,
    randomised_law_rows,
    randomised_population,
)
from zoo.errors import ContentError, QueryError
from zoo.files import content_folder
from zoo.results.derived import summaries
from zoo.results.vocabulary import LABEL_FREE_METRICS

POPULATION = randomised_population()


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


def test_the_components_of_the_rows_add_up_to_the_error_with_all_labels() -> None:
    rows, _ = randomised_law_rows(POPULATION)
    full = rows[rows["setting"] == "100%"]
    assert (full["T"] + full["probe_gen"] + full["enc_gen"]).to_numpy() == pytest.approx(full["error"].to_numpy())
    assert full["error"].to_numpy() == pytest.approx(full["train_test"].to_numpy())


def test_components_measured_with_different_numbers_of_labels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    means = module.seed_means(POPULATION.choices.index)
    changed = [
        replace(one, n_train=40_000)
        if one.encoder == POPULATION.choices.index[0] and one.split == "train minus subset -> subset"
        else one
        for one in means
    ]
    monkeypatch.setattr(module, "seed_means", lambda _: changed)
    with pytest.raises(QueryError, match=r"40000, 50000 labels, expected one number"):
        randomised_law_rows(POPULATION)


def test_metrics_are_those_of_the_files(written: dict[str, list[dict[str, str]]]) -> None:
    values = label_free_values(POPULATION)
    for name, lines in written.items():
        expected = {
            row["metric"]: float(row["value"])
            for row in lines
            if row["metric"] in LABEL_FREE_METRICS and row["dataset"] == DATASET
        }
        assert values.loc[name].dropna().to_dict() == expected


def test_of_a_metric_measured_in_two_ways_the_one_of_most_encoders_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    means = module.seed_means(POPULATION.choices.index)
    rankme = next(one for one in means if one.metric == "rankme" and one.encoder == POPULATION.choices.index[0])
    monkeypatch.setattr(module, "seed_means", lambda _: [replace(rankme, protocol="mine", value=-1.0), *means])
    assert label_free_values(POPULATION).at[rankme.encoder, "rankme"] == rankme.value


def test_interactions_and_what_was_expected_are_those_of_the_design(repository: Path) -> None:
    text = (repository / "docs" / "randomised.md").read_text(encoding="utf-8")
    table = text.partition("| choices | outcome | expected |")[2].partition("\n\n")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    words = {"usability": "usability", "full": "error with all labels", "probe_gen": "probe generalization"}
    words |= {"enc_gen": "encoder generalization"}
    assert [line[1] for line in lines] == [words[outcome] for _, _, outcome in INTERACTIONS]
    assert [line[2] == "none" for line in lines] == [sign == 0 for sign in EXPECTED_SIGNS]
    assert [" help" in line[2] for line in lines] == [sign == -1 for sign in EXPECTED_SIGNS[:-1]] + [False]


def test_an_encoder_without_a_line_of_the_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    log = module.runs_log()
    monkeypatch.setattr(module, "runs_log", lambda: log.drop(index=POPULATION.choices.index[3]))
    with pytest.raises(ContentError, match=rf"has no line of {POPULATION.choices.index[3]}, which was measured"):
        randomised_population()


def test_an_encoder_that_lacks_a_few_shot_error_counts_as_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = module.summaries(dataset=DATASET, encoders=POPULATION.choices.index)
    name = POPULATION.choices.index[2]
    errors = {setting: error for setting, error in found[name].errors.items() if setting != "3-shot"}
    monkeypatch.setattr(module, "summaries", lambda **_: {**found, name: replace(found[name], errors=errors)})
    some = randomised_population()
    assert len(some) == len(POPULATION) - 1 and name in some.unmeasured


def test_rows_of_the_user_take_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = randomised_population().outcomes
    rows = (content_folder("results") / "randomised" / "randomised_000.csv").read_text(encoding="utf-8")
    folder = tmp_path / "results" / "measured"
    folder.mkdir(parents=True)
    changed = rows.replace(",measured,2026-11-24", ",own,2026-12-24").replace(",percent,", "1,percent,")
    (folder / "randomised_000.csv").write_text(changed, encoding="utf-8")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    own = summaries(dataset="fashion-mnist")["randomised_000"].errors["100%"]
    assert own != shipped["full"]["randomised_000"]  # the newest counts elsewhere
    assert randomised_population().outcomes.equals(shipped)
