"""How long it takes to tune boosted trees on the table: the zoo against ``xgb.cv`` with its defaults.

    python benchmarks/tree_tuning.py [--targets usability,probe_gen] [--sets 5] [--trials 50] [--busy 2] [--json]

Two experiments, both sides in one run.

1. Equal work: random settings of the search space, ten folds. ``xgb.cv`` with its default threads, then with one,
   then the zoo in one process and in one process per core, in turns, on the same folds and settings; the scores must be
   equal.
2. Equal result: a search of ``--trials`` trials in which each is an ``xgb.cv``, then the zoo's search until it has
   found an error as small, over the same space. Theirs is Optuna's TPE as it comes; both depend on luck, so several
   seeds (``--repetitions``), which have other folds too, say more than several targets. "To its best" counts the other
   side's time only until it found its best, though it could not know that this was the end.

On two quiet cores (load 1.4): equal work 11.3 s a round by ``xgb.cv`` with its default threads, 10.1 with one thread,
4.3 by the zoo, so 2.65 times faster; while others used the machine (load 2.6 to 6.1) 154, 10.5 and 4.4 s, so 35 times.
Equal result, 50 trials, seed 0: usability 325 and 31 s, approximation 126 and 31, probe generalization 92 (36 until its
best) and 9, encoder generalization 140 (123) and 9: 4 to 16 times faster, 4 to 14 to its best. (The last two were
measured with a search that began with 10 random trials and not with 20; usability was not reached by that one in 400.)

``--busy`` starts that many processes that do nothing but compute, and ends them. ``seed_per_iteration`` is set on both
sides: otherwise the folds of ``xgb.cv`` draw from one stream of random numbers, and no fold can be repeated alone.
Matrices and folds are made before the clock runs, processes are started before it; what starting took is printed. The
sides take turns, after each set of settings in the first experiment and after as many targets as there are cores in the
second; a target's time of ours is then its share of what those took together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import optuna
import xgboost

from zoo.analysis.columns import TREE_OUTCOMES
from zoo.analysis.table import study_table
from zoo.analysis.trees import (
    FIXED,
    ROUNDS,
    Tuned,
    compute_fold_errors,
    draw_folds,
    list_rows_outside,
    number_of_workers,
    predict_out_of_fold,
    select_sample,
    suggest_settings,
    tune,
)

N_FOLDS = 10
MOST_TRIALS = 8  # of ours, in multiples of the other side's; a search that is no better by then is reported as that


class Target:
    """An outcome with its rows and folds, and what both sides make of settings."""

    def __init__(self, outcome: str, seed: int) -> None:
        self.outcome, self.seed = outcome, seed
        self.sample = select_sample(study_table(), outcome, "few")
        self.folds = draw_folds(self.sample.n, N_FOLDS, seed=seed, draw=0)
        self.pairs = [(list_rows_outside(self.sample.n, fold), fold) for fold in self.folds]
        self.matrix = xgboost.DMatrix(self.sample.x, label=self.sample.y)

    def theirs(self, settings: dict[str, Any], n_threads: int | None = None) -> float:
        """Mean fold RMSE by ``xgb.cv``; threads as XGBoost likes unless said."""
        own = {name: value for name, value in {**FIXED, **settings}.items() if name not in ("nthread", "rounds")}
        threads = {} if n_threads is None else {"nthread": n_threads}
        course = xgboost.cv({**own, **threads, "seed": self.seed}, self.matrix, settings["rounds"], folds=self.pairs)
        return float(course["test-rmse-mean"].iloc[-1])

    def ours(self, settings: dict[str, Any]) -> float:
        """Mean fold RMSE by the zoo, in this process with one thread."""
        predictions = predict_out_of_fold(self.sample, settings, [self.folds], seed=self.seed, n_workers=1)
        return float(compute_fold_errors(self.sample.y, predictions[0], self.folds).mean())


_targets: dict[str, Target] = {}  # of a worker


def _prepare(outcomes: list[str], seed: int) -> None:
    _targets.update({outcome: Target(outcome, seed) for outcome in outcomes})


def _cross_validate(outcome: str, settings: dict[str, Any]) -> tuple[float, float]:
    start = time.process_time()
    return _targets[outcome].ours(settings), time.process_time() - start


def _search(outcome: str, stop_at: float, n_trials: int, seed: int) -> tuple[Tuned, float]:
    start = time.process_time()
    tuned = tune(study_table(), outcome, n_trials=n_trials, n_folds=N_FOLDS, seed=seed, stop_at=stop_at)
    return tuned, time.process_time() - start


def equal_work(targets: list[Target], pool: ProcessPoolExecutor, n_sets: int, seed: int) -> dict[str, Any]:
    """Seconds of each side, one number a round; a round is one parameter set for every target."""
    sides = ("xgb.cv, default threads", "xgb.cv, one thread", "zoo, one process", "zoo, one process per core")
    seconds: dict[str, dict[str, list[float]]] = {side: {"wall": [], "cpu": []} for side in sides}
    apart = 0.0
    for number in range(n_sets):
        chosen = {
            target.outcome: _random_settings(seed + 1000 * number + place) for place, target in enumerate(targets)
        }
        scores: dict[str, list[float]] = {}
        turns = sides if number % 2 == 0 else sides[::-1]
        for side in turns:
            wall, cpu = time.perf_counter(), time.process_time()
            if side == sides[3]:
                found = list(pool.map(_cross_validate, chosen, chosen.values()))
                scores[side], cpu = [score for score, _ in found], cpu - sum(spent for _, spent in found)
            elif side == sides[2]:
                scores[side] = [target.ours(chosen[target.outcome]) for target in targets]
            else:
                n_threads = 1 if side == sides[1] else None
                scores[side] = [target.theirs(chosen[target.outcome], n_threads) for target in targets]
            seconds[side]["wall"].append(time.perf_counter() - wall)
            seconds[side]["cpu"].append(time.process_time() - cpu)
        reference = np.array(scores[sides[0]])
        apart = max(apart, *(float(np.max(np.abs(np.array(own) / reference - 1))) for own in scores.values()))
    return {"seconds": seconds, "largest_relative_difference_of_scores": apart}


def equal_result(targets: list[Target], pool: ProcessPoolExecutor, n_trials: int) -> list[dict[str, Any]]:
    """A few targets: the search by ``xgb.cv`` of one after the other, then the zoo's of all until each is as good."""
    theirs = [_their_search(target, n_trials) for target in targets]
    start = time.perf_counter()
    tasks = [
        pool.submit(_search, target.outcome, found["error"], n_trials * MOST_TRIALS, target.seed)
        for target, found in zip(targets, theirs, strict=True)
    ]
    ours = [task.result() for task in tasks]
    wall = (time.perf_counter() - start) / len(targets)  # each target's share of the time that all took together
    return [
        {
            "target": target.outcome, **found, "error_ours": tuned.error, "reached": tuned.error <= found["error"],
            "trials_ours": tuned.n_trials, "share_boosted": tuned.share_boosted, "wall_ours": wall, "cpu_ours": cpu,
        }
        for target, found, (tuned, cpu) in zip(targets, theirs, ours, strict=True)
    ]  # fmt: skip


def _their_search(target: Target, n_trials: int) -> dict[str, float]:
    search = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=target.seed))
    start, cpu = time.perf_counter(), time.process_time()
    best, at_best = float("inf"), 0.0
    for _ in range(n_trials):
        trial = search.ask()
        settings = {"rounds": trial.suggest_categorical("rounds", ROUNDS), **suggest_settings(trial)}
        error = target.theirs(settings)
        search.tell(trial, error)
        if error < best:
            best, at_best = error, time.perf_counter() - start
    wall = time.perf_counter() - start
    return {"error": best, "wall": wall, "wall_to_best": at_best, "cpu": time.process_time() - cpu}


def _random_settings(seed: int) -> dict[str, Any]:
    trial = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask()
    return {"rounds": trial.suggest_categorical("rounds", ROUNDS), **suggest_settings(trial)}


@contextmanager
def busy(n_processes: int) -> Iterator[None]:
    """Other work on the machine: processes that compute for as long as this lasts."""
    others_at_work = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        yield
    finally:
        for process in others_at_work:
            process.kill()
            process.wait()


def _print_work(found: dict[str, Any], n_sets: int, n_targets: int) -> None:
    print(f"\n1. Equal work: {n_sets} settings of {n_targets} targets, {N_FOLDS} folds; seconds, medians over settings")
    print(f"{'':26}{'wall':>9}{'CPU':>9}{'times faster':>14}")
    reference = median(next(iter(found["seconds"].values()))["wall"])
    for side, seconds in found["seconds"].items():
        wall = median(seconds["wall"])
        print(f"{side:26}{wall:>9.2f}{median(seconds['cpu']):>9.2f}{reference / wall:>14.2f}")
    print(f"scores differ by {found['largest_relative_difference_of_scores']:.1e} of themselves at most", flush=True)


def _print_result(one: dict[str, Any]) -> None:
    print(
        f"{one['target']:24}{one['error']:>8.4f}{one['error_ours']:>8.4f}{one['trials_ours']:>8}"
        f"{one['share_boosted']:>8.0%}{one['wall']:>10.1f}{one['wall_to_best']:>9.1f}{one['wall_ours']:>8.1f}"
        f"{'' if one['reached'] else '  not reached'}",
        flush=True,
    )


def _print_total(found: list[dict[str, Any]]) -> None:
    total = {name: sum(one[name] for one in found) for name in ("wall", "wall_to_best", "wall_ours", "cpu", "cpu_ours")}
    faster = [total[name] / total["wall_ours"] for name in ("wall", "wall_to_best")]
    print(
        f"{'all':24}{'':32}{total['wall']:>10.1f}{total['wall_to_best']:>9.1f}{total['wall_ours']:>8.1f}  "
        f"{faster[0]:.1f} times faster, {faster[1]:.1f} to its best"
    )
    ratios = median(one["wall"] / one["wall_ours"] for one in found)
    to_best = median(one["wall_to_best"] / one["wall_ours"] for one in found)
    print(f"medians of the ratios: {ratios:.1f}, {to_best:.1f} to its best")
    print(f"CPU seconds: xgb.cv {total['cpu']:.0f}, ours {total['cpu_ours']:.0f}")


def main() -> None:
    """Run both experiments and print two tables, or one JSON document."""
    parser = argparse.ArgumentParser(description="Time to tune boosted trees: the zoo against xgb.cv.")
    parser.add_argument("--targets", default=",".join(TREE_OUTCOMES), help="outcomes, by comma [the six of Table 6]")
    parser.add_argument("--sets", type=int, default=5, help="settings of the first experiment; 0 leaves it out [5]")
    parser.add_argument("--trials", type=int, default=50, help="of the second experiment; 0 leaves it out [50]")
    parser.add_argument("--repetitions", type=int, default=1, help="of the second experiment, with other seeds [1]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep the machine busy [0]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    outcomes, cores = options.targets.split(","), number_of_workers(0)
    targets = [Target(outcome, options.seed) for outcome in outcomes]
    record: dict[str, Any] = {**vars(options), "cores": cores, "load": os.getloadavg()}
    say = not options.json
    if say:
        print(f"{cores} cores, {options.busy} processes to keep them busy, load average {_load()} before")
    start = time.perf_counter()
    with (
        busy(options.busy),
        ProcessPoolExecutor(
            cores, mp_context=get_context("spawn"), initializer=_prepare, initargs=(outcomes, options.seed)
        ) as pool,
    ):
        list(pool.map(time.sleep, [0.5] * cores))
        record["start_s"] = time.perf_counter() - start - 0.5
        if say:
            print(f"starting the processes took {record['start_s']:.1f} s, once")
        if options.sets:
            record["equal_work"] = equal_work(targets, pool, options.sets, options.seed)
            if say:
                _print_work(record["equal_work"], options.sets, len(targets))
        record["equal_result"] = []
        if say and options.trials:
            print(f"\n2. Equal result: {options.trials} trials a target by xgb.cv, ours until the error is as small")
            print(f"{'':24}{'best':>8}{'':8}{'trials':>8}{'rounds':>8}{'wall, xgb.cv':>19}{'wall':>8}")
            print(f"{'':24}{'xgb.cv':>8}{'ours':>8}{'ours':>8}{'ours':>8}{'s':>10}{'to best':>9}{'ours s':>8}")
        for seed in range(options.seed, options.seed + options.repetitions) if options.trials else ():
            for first in range(0, len(outcomes), cores):  # as many targets at a time as there are cores, to take turns
                some = [Target(outcome, seed) for outcome in outcomes[first : first + cores]]
                found = equal_result(some, pool, options.trials)
                record["equal_result"] += found
                for one in found if say else ():
                    _print_result(one)
    record["load_after"] = os.getloadavg()
    if options.json:
        print(json.dumps(record, indent=1))
        return
    if record["equal_result"]:
        _print_total(record["equal_result"])
    print(f"\nload average {_load()} after")


def _load() -> str:
    return ", ".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    main()
