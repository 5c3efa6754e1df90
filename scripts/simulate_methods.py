"""Asks the methods of the studies for effects that are known, for the study ``which_methods_find_the_effects``.

    python scripts/simulate_methods.py [--draws 200] [--processes 2] [--scratch DIR] [--out DIR] [--tune]

Outcomes are drawn with the effects of the randomised population, for the encoders of the scenarios below, and every
method answers every question about each of them (``known_effects.py`` of the study).
Written are ``fared.csv`` (a row a scenario, outcome, method and question), ``together.csv`` (a row a scenario, outcome
and method), ``inflation.csv`` and ``provenance.toml``. ``--tune`` searches the settings of the trees of the randomised
population first and writes ``tuned_trees.toml``, as those of the published encoders were searched; these keep theirs.

A scenario and outcome that is finished is kept in the scratch folder under what it depends on, so that the script may
be killed at any time. It takes a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.which_methods_find_the_effects import known_effects as methods
from analysis.which_methods_find_the_effects.known_effects import (
    LINEAR,
    METHODS,
    STUDY_OUTCOMES,
    TREE_SET,
    TREES,
    Answers,
    Fared,
    FaredTogether,
    agreement,
    drawn,
    fared,
    fared_together,
    for_trees,
    known_effects,
    linear_answers,
    positions,
    questions_of,
    randomised_table,
    release_share,
    tree_answers,
    variance_inflation,
)
from zoo.analysis.randomised import load_randomised_population
from zoo.analysis.table import StudyTable, limit_to_one_thread, study_table
from zoo.analysis.trees import read_tuned_parameters, tune_all, write_parameters
from zoo.cards.catalogue import load_catalogue
from zoo.files import get_content_folder, replace_file

STUDY = get_content_folder("analysis") / "which_methods_find_the_effects"
SEED = 20261125
N_TRIALS, N_FOLDS = 50, 10  # of tuning, as for the published encoders
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "xgboost", "optuna")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Which encoders outcomes are drawn for, and how."""

    name: str
    words: str
    published: bool = True  # choices of the published encoders; else those that were drawn at random
    certain_only: bool = True  # effects that the randomised population does not tell from none are none
    rescaled: bool = True  # numbers move an outcome as much as among randomised encoders; else as fitted, by change
    share_of_release: float = 0.0  # of the residual variance, that encoders of a release have in common
    with_products: bool = False  # with the interactions that were stated beforehand, as fitted


SCENARIOS = (
    Scenario(name="randomised", words="choices drawn at random, effects that were found", published=False),
    Scenario(name="confounded", words="choices of the published encoders, effects that were found"),
    Scenario(name="all effects", words="choices of the published encoders, every effect as fitted", certain_only=False),
    Scenario(
        name="wide ranges",
        words="the same as confounded, effects by change as fitted, however widely choices differ",
        rescaled=False,
    ),
    Scenario(
        name="releases",
        words="the same as confounded, half of the residual variance shared within releases",
        share_of_release=0.5,
    ),
    Scenario(name="interactions", words="the same as confounded, with the interactions as fitted", with_products=True),
)


def main() -> None:
    """Draw, ask, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="outcomes that are drawn in a scenario")
    parser.add_argument("--processes", type=int, default=2, help="how many at once, each on one thread")
    parser.add_argument("--scratch", type=Path, help="folder of what is finished; a temporary one unless given")
    parser.add_argument("--out", type=Path, default=STUDY, help="folder that is written to")
    parser.add_argument("--tune", action="store_true", help="search the trees' settings of the randomised population")
    options = parser.parse_args()
    if options.draws < 2 or options.processes < 1:
        parser.error("expected at least 2 draws and 1 process")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.tune:
        tune(options.out / "tuned_trees.toml", options.processes)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        parts = [(scenario, outcome) for scenario in SCENARIOS for outcome in STUDY_OUTCOMES]
        done: dict[tuple[str, str], dict[str, Any]] = {}
        with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
            tasks = {
                pool.submit(part, scenario, outcome, options.draws, scratch, options.out): (scenario.name, outcome)
                for scenario, outcome in parts
            }
            for task in as_completed(tasks):
                done[tasks[task]] = task.result()
                print(f"{len(done):3} of {len(parts)}  {', '.join(tasks[task])}", flush=True)
    write(options.out, options.draws, [done[scenario.name, outcome] for scenario, outcome in parts])


def tune(path: Path, n_workers: int) -> None:
    """Searches the settings of the trees of the randomised population."""
    table = for_trees(randomised_table(load_randomised_population()))
    found = tune_all(
        table, list(STUDY_OUTCOMES.values()), features=TREE_SET, n_trials=N_TRIALS, n_folds=N_FOLDS, n_workers=n_workers
    )
    rows = f"{len(table)} randomised encoders"
    write_parameters(found.values(), path, date=f"{datetime.now(UTC):%Y-%m-%d}", table=rows)


@limit_to_one_thread()
def part(scenario: Scenario, outcome: str, n_draws: int, scratch: Path, out: Path) -> dict[str, Any]:
    """All answers about one outcome in one scenario, as counts; from the scratch folder if they are there."""
    population = load_randomised_population()
    known = known_effects(population, outcome)
    column = known.outcome
    table = study_table() if scenario.published else randomised_table(population)
    parameters = (
        read_tuned_parameters(column, TREE_SET)
        if scenario.published
        else read_tuned_parameters(column, TREE_SET, path=out / "tuned_trees.toml")
    )
    key = [asdict(scenario), outcome, n_draws, SEED, known.values(certain_only=False), list(table.frame.index)]
    key += [known.residuals.tolist(), sorted(parameters.items()), code()]
    path = scratch / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    outcomes = drawn(
        table, known, n_draws=n_draws, seed=SEED, certain_only=scenario.certain_only, rescaled=scenario.rescaled,
        shuffled_modes=scenario.published, releases=[release_of(name) for name in table.frame.index],
        share_of_release=scenario.share_of_release, with_products=scenario.with_products,
    )  # fmt: skip
    columns = pd.DataFrame(outcomes.outcomes, index=table.frame.index)
    questions = questions_of(table)
    of_trees = table if scenario.published else for_trees(table)
    answers = [
        *linear_answers(table, questions, column, columns),
        *tree_answers(of_trees, questions, column, columns, parameters=parameters),
    ]
    found = summed(answers, outcomes.truth, spreads_of(table), n_draws)
    head = {"scenario": scenario.name, "outcome": column}
    result = {
        "fared": [{**head, **asdict(one)} for one in found[0]],
        "together": [{**head, **asdict(one)} for one in found[1]],
        "residual_sd": float(known.residuals.std()),
    }
    with replace_file(path) as file:
        file.write(json.dumps(result).encode())
    return result


@cache
def code() -> str:
    """Hash of what draws outcomes and answers about them."""
    return hashlib.sha256(Path(methods.__file__).read_bytes()).hexdigest()


def release_of(name: str) -> str:
    """The family of a card, which is one method or one release."""
    return load_catalogue()[name].family


def release_share_of(table: StudyTable, outcome: str) -> float:
    """What encoders of a release have in common of an outcome, in addition to the choices that are asked for."""
    frame = positions(table).join(pd.get_dummies(table.frame["ssl_mode"], dtype="float64"))
    frame = frame[table.frame[outcome].notna()]
    y = table.frame.loc[frame.index, outcome].to_numpy(float)
    rest = y - frame.to_numpy() @ np.linalg.lstsq(frame.to_numpy(), y, rcond=None)[0]
    share = release_share(
        pd.Series(rest, index=frame.index), {str(name): release_of(str(name)) for name in frame.index}
    )
    return share.value or 0.0


def spreads_of(table: StudyTable) -> dict[str, float]:
    """Standard deviations of the changes among the encoders of a table; of choices without a part, of the column."""
    spreads = {str(name): float(values.std()) for name, values in positions(table).items()}
    for question in questions_of(table):
        if question.name not in spreads:
            values = table.frame[question.column]
            position = (values == question.level) if question.level else np.log2(values.astype(float))
            spreads[question.name] = float(position.astype(float).std())
    return spreads


def summed(
    answers: Sequence[Answers], truth: Mapping[str, Any], spreads: Mapping[str, float], n_draws: int
) -> tuple[list[Fared], list[FaredTogether]]:
    """How every method fared, and where the linear model and the trees agree."""
    none = np.zeros(n_draws)
    by = {(one.method, one.question.name): one for one in answers}
    names = list(dict.fromkeys(name for _, name in by))
    both = [agreement(by[LINEAR, name], by[TREES, name]) for name in names]
    every = {method: [by[method, name] for name in names] for method in METHODS}
    every[both[0].method] = both
    truths = [truth.get(name, none) for name in names]
    weights = [spreads[name] for name in names]
    single = [fared(one, known) for found in every.values() for one, known in zip(found, truths, strict=True) if one.n]
    return single, [fared_together(found, truths, weights) for found in every.values()]


def write(out: Path, n_draws: int, parts: Sequence[Mapping[str, Any]]) -> None:
    """The three tables and the provenance, each replaced whole."""
    write_rows(out / "fared.csv", ["scenario", "outcome", *(one.name for one in fields(Fared))],
               [row for one in parts for row in one["fared"]])  # fmt: skip
    write_rows(out / "together.csv", ["scenario", "outcome", *(one.name for one in fields(FaredTogether))],
               [row for one in parts for row in one["together"]])  # fmt: skip
    population = load_randomised_population()
    tables = {"randomised": randomised_table(population), "published": study_table()}
    inflation = [
        {"encoders": name, "n_encoders": len(table), "question": question, "inflation": value}
        for name, table in tables.items()
        for question, value in variance_inflation(table).items()
    ]
    write_rows(out / "inflation.csv", ["encoders", "n_encoders", "question", "inflation"], inflation)
    shares = {outcome: release_share_of(tables["published"], outcome) for outcome in STUDY_OUTCOMES.values()}
    spreads = {one["together"][0]["outcome"]: one["residual_sd"] for one in parts}
    lines = [
        "# What fared.csv, together.csv and inflation.csv were computed from; scripts/simulate_methods.py writes it.",
        f"date = {datetime.now(UTC):%Y-%m-%d}",
        f"n_draws = {n_draws}",
        f"seed = {SEED}",
        f"n_randomised = {len(population)}",
        f"n_published = {len(tables['published'])}",
        f"libraries = {json.dumps(', '.join(f'{name} {version(name)}' for name in LIBRARIES))}",
        "",
        "[scenarios]",
        *(f"{json.dumps(one.name)} = {json.dumps(one.words)}" for one in SCENARIOS),
        "",
        "[release_share]  # of the variance that the choices leave over, of the published encoders",
        *(f"{json.dumps(name)} = {value:.3f}" for name, value in shares.items()),
        "",
        "[residual_sd]  # of the randomised encoders, in percentage points",
        *(f"{json.dumps(name)} = {value:.4g}" for name, value in spreads.items()),
        "",
    ]
    with replace_file(out / "provenance.toml") as file:
        file.write("\n".join(lines).encode())


def write_rows(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV file of numbers to five digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.5g}" if isinstance(value, float) else value for key, value in row.items()})
    with replace_file(path) as file:
        file.write(text.getvalue().encode())


if __name__ == "__main__":
    main()
