"""How long it takes to tune a logistic probe: the zoo's whole path against 30 rounds of TPE over scikit-learn.

    python benchmarks/probe_path.py [--workloads 3-shot,3-shot-384] [--trials 30] [--precision float32] [--json]

Both sides get the same features and the same validation images, choose C by validation log loss, and run in one process
one after the other, ours before and after theirs, each after a pause in which the other's threads fall asleep. Theirs:
Optuna's TPE, C log-uniform over ``C_RANGE``, each trial a ``LogisticRegression(C, max_iter=1000)``, lbfgs at its
default tolerance. Ours: ``LogisticProbe(select="log_loss")``, of unscaled features, and with every preparation of
``zoo-logistic-3``, each with its whole path. With fewer ``--trials`` their seconds are scaled up to
30, and it is said so; 0 leaves them out.

Then one C, scikit-learn's default of 1, from a cold start: ours, scikit-learn at tol 1e-4, and ``torch.optim.LBFGS``
with a strong Wolfe search until it is as low as that (at most 500 iterations); ours stops at the loosest power of ten
of ``tol`` that is no worse. Objectives are computed in float64 from each side's weights. "Floor" is what our products
would take at the machine's rate for one of that shape, measured in the same run, and nothing else; the multiple says
how far we are from it.

The features are drawn, not an encoder's: the spectrum of the noise falls as rank ** -0.5 as features' spectra do, and
that of the class means faster, so that the first directions hold most of what tells classes apart and regularisation
matters; half of the means' variance is shared by groups of ten classes, which get confused; a ReLU-like offset makes
features positive on average. Only an encoder's features can say what the error of a probe is; how solvers compare on
large, ill-conditioned problems these do.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import optuna
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.protocols import PROTOCOLS
from zoo.evaluation.scaling import AS_THEY_ARE

C_RANGE = (1e-5, 1e5)
_SETTLE = 1.0  # seconds that waiting threads may spin after a product, in the way of whoever comes next
ROUNDS = 30


@dataclass(frozen=True)
class Workload:
    """A label setting, and how many times faster the path has to be."""

    n_classes: int
    n_train: int
    dim: int
    n_val: int
    aim: float


WORKLOADS = {
    "3-shot": Workload(1000, 3000, 2048, 5000, 40),
    "3-shot-384": Workload(1000, 3000, 384, 5000, 50),
    "5-shot-100": Workload(100, 500, 2048, 2000, 100),
    "1%": Workload(1000, 12_800, 2048, 12_800, 20),
    "small": Workload(20, 100, 64, 400, 1),
}
Data = tuple[np.ndarray, np.ndarray]


def drawn(workload: Workload, seed: int) -> tuple[Data, Data]:
    """Training and validation features, float32."""
    generator = np.random.default_rng(seed)
    k, dim = workload.n_classes, workload.dim
    ranks = np.arange(1, dim + 1, dtype=np.float32)
    noise, signal = ranks**-0.5, 1.8 * ranks**-0.9
    groups = generator.standard_normal((-(-k // 10), dim), dtype=np.float32)[np.arange(k) // 10]
    means = (groups + generator.standard_normal((k, dim), dtype=np.float32)) * signal / math.sqrt(2)
    turn = np.linalg.qr(generator.standard_normal((dim, dim), dtype=np.float32))[0]

    def part(n: int) -> Data:
        y = np.arange(n) % k
        x = (means[y] + generator.standard_normal((n, dim), dtype=np.float32) * noise) @ turn
        return 4.0 * x + np.float32(0.45), y

    return part(workload.n_train), part(workload.n_val)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it gives, after the threads of the other side's library went to sleep."""
    time.sleep(_SETTLE)
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def objective(x: np.ndarray, y: np.ndarray, weights: np.ndarray, intercepts: np.ndarray, c: float) -> float:
    """Of the weights of all classes, in float64 but for the products of features."""
    logits = torch.from_numpy(x @ weights.T.astype(np.float32) + intercepts.astype(np.float32)).double()
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y), reduction="sum")
    return float(loss) + 0.5 / c * float(np.square(weights, dtype=np.float64).sum())


def theirs(train: Data, val: Data, n_trials: int, seed: int) -> dict[str, Any]:
    """Rounds of TPE over scikit-learn: seconds and the best validation log loss with its error."""
    best: dict[str, Any] = {"log_loss": math.inf}

    def trial_loss(trial: optuna.Trial) -> float:
        c = trial.suggest_float("C", *C_RANGE, log=True)
        probabilities = LogisticRegression(C=c, max_iter=1000).fit(*train).predict_proba(val[0])
        loss = float(log_loss(val[1], probabilities, labels=np.arange(probabilities.shape[1])))
        if loss < best["log_loss"]:
            error = 100 * float((probabilities.argmax(axis=1) != val[1]).mean())
            best.update(log_loss=loss, error_percent=error, C=c)
        return loss

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    seconds, _ = timed(lambda: study.optimize(trial_loss, n_trials=n_trials))
    return {**best, "seconds_measured": seconds, "seconds": seconds * ROUNDS / n_trials}


def ours(
    train: Data, val: Data, precision: str, tol: float, preparations: tuple[str, ...] = (AS_THEY_ARE,)
) -> dict[str, Any]:
    """The whole path of each preparation."""
    probe = LogisticProbe(select="log_loss", precision=precision, tol=tol, preparations=preparations)
    seconds, _ = timed(lambda: probe.fit(*train, x_val=val[0], y_val=val[1]))
    report = probe.report_
    return {"seconds": seconds, "log_loss": report["validation_log_loss"], "C": report["C"],
            "error_percent": report["validation_error_percent"], "fits": report["n_fits"],
            "iterations": report["iterations_of_all"], "products": report["products_of_all"],
            "precision": report["precision"], "converged": report["converged"]}  # fmt: skip


def by_torch(x: np.ndarray, y: np.ndarray, c: float, enough: float, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """torch.optim.LBFGS from zero until the objective is ``enough`` or lower."""
    features, labels = torch.from_numpy(x), torch.from_numpy(y)
    weights = torch.zeros(n_classes, x.shape[1], requires_grad=True)
    intercepts = torch.zeros(n_classes, requires_grad=True)
    solver = torch.optim.LBFGS([weights, intercepts], max_iter=10, history_size=10, line_search_fn="strong_wolfe",
                               tolerance_grad=0.0, tolerance_change=0.0)  # fmt: skip

    def closure() -> torch.Tensor:
        solver.zero_grad()
        logits = features @ weights.T + intercepts
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") + 0.5 / c * weights.square().sum()
        loss = loss / len(labels)
        loss.backward()
        return loss

    for _ in range(50):  # of 10 iterations; it says its objective before the first of them
        if solver.step(closure).item() * len(labels) <= enough:
            break
    return weights.detach().numpy(), intercepts.detach().numpy()


def cold(train: Data, c: float, n_classes: int, precision: str) -> dict[str, Any]:
    """One fit a side, from nothing."""
    x, y = train
    model = LogisticRegression(C=c, max_iter=1000)
    their_seconds, _ = timed(lambda: model.fit(x, y))
    value = {"scikit-learn": objective(x, y, model.coef_, model.intercept_, c)}
    enough = value["scikit-learn"]
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):  # the loosest that is no worse
        probe = LogisticProbe(C=c, tol=tol, precision=precision)
        our_seconds, _ = timed(partial(probe.fit, x, y))
        value["ours"] = objective(x, y, probe.coef_, probe.intercept_, c)
        if value["ours"] <= enough:
            break
    torch_seconds, found = timed(lambda: by_torch(x, y, c, enough, n_classes))
    value["torch"] = objective(x, y, *found, c)
    return {"C": c, "tol": tol, "seconds": {"ours": our_seconds, "scikit-learn": their_seconds, "torch": torch_seconds},
            "objective": value, "times_faster": {"scikit-learn": their_seconds / our_seconds,
                                                 "torch": torch_seconds / our_seconds}}  # fmt: skip


def floor_seconds(workload: Workload, products: int, fits: int, precision: str) -> float:
    """What the products alone take: with the training images, with the validation images once a fit, and the basis's.

    Those of the basis are the Gram matrix, the axes or coordinates made of it, and the validation images' coordinates.
    """
    n, dim, k = workload.n_train, workload.dim, workload.n_classes
    rank = min(n - 1, dim)
    a, b = torch.randn(n, rank), torch.randn(rank, k)
    if precision == "float64":
        a, b = a.double(), b.double()
    one = median(timed(lambda: a @ b)[0] for _ in range(5))
    basis = (min(n, dim) * n * dim + (n + workload.n_val) * dim * rank) / (n * rank * k)
    return one * (products + fits * workload.n_val / n + basis)


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One workload."""
    workload = WORKLOADS[name]
    train, val = drawn(workload, options.seed)
    every = PROTOCOLS["zoo-logistic-3"].settings["preparations"]
    first = ours(train, val, options.precision, options.tol)
    prepared = [ours(train, val, options.precision, options.tol, every)]
    record: dict[str, Any] = {"workload": name, **asdict(workload), "load": os.getloadavg()}
    if options.trials:
        record["theirs"] = theirs(train, val, options.trials, options.seed)
    second = ours(train, val, options.precision, options.tol)
    prepared.append(ours(train, val, options.precision, options.tol, every))
    seconds = [first["seconds"], second["seconds"]]
    record["ours"] = {**second, "seconds": median(seconds), "seconds_of_each": seconds}
    of_each = [one["seconds"] for one in prepared]
    record["prepared"] = {**prepared[-1], "seconds": median(of_each), "seconds_of_each": of_each}
    record["times_the_path"] = record["prepared"]["seconds"] / record["ours"]["seconds"]
    record["floor_seconds"] = floor_seconds(workload, second["products"], second["fits"], second["precision"])
    record["multiple_of_floor"] = record["ours"]["seconds"] / record["floor_seconds"]
    if options.trials:
        record["times_faster"] = record["theirs"]["seconds"] / record["ours"]["seconds"]
        record["prepared_times_faster"] = record["theirs"]["seconds"] / record["prepared"]["seconds"]
    if not options.no_cold:
        record["cold"] = cold(train, options.cold_c, workload.n_classes, options.precision)
    return record


def printed(record: dict[str, Any], n_trials: int) -> None:
    """Seven lines a workload."""
    mine = record["ours"]
    print(
        f"\n{record['workload']}: {record['n_train']} images, {record['n_classes']} classes, {record['dim']} features"
    )
    print(f"  path      {mine['seconds']:9.2f} s  log loss {mine['log_loss']:.4f}  error {mine['error_percent']:.2f} %")
    print(f"            {mine['fits']} fits, {mine['iterations']} iterations, {mine['products']} products in "
          f"{mine['precision']}, {record['multiple_of_floor']:.1f} times their floor")  # fmt: skip
    every = record["prepared"]
    faster = f", {record['prepared_times_faster']:.1f} times faster than TPE" if "theirs" in record else ""
    print(
        f"  prepared  {every['seconds']:9.2f} s  log loss {every['log_loss']:.4f}  error {every['error_percent']:.2f} %"
    )
    print(f"            {record['times_the_path']:.1f} times the path of unscaled features{faster}")
    if "theirs" in record:
        other = record["theirs"]
        scaled = "" if n_trials == ROUNDS else f"  (from {n_trials} trials, scaled to {ROUNDS})"
        print(f"  TPE       {other['seconds']:9.2f} s  log loss {other['log_loss']:.4f}  "
              f"error {other['error_percent']:.2f} %{scaled}")  # fmt: skip
        print(f"  {record['times_faster']:.1f} times faster (aim {record['aim']:g}); log loss "
              f"{'no worse' if mine['log_loss'] <= other['log_loss'] else 'WORSE'}")  # fmt: skip
    if "cold" in record:
        one = record["cold"]
        for side, seconds in one["seconds"].items():
            faster = f"  ours {one['times_faster'][side]:.1f} times faster" if side in one["times_faster"] else ""
            print(f"  one cold fit at C {one['C']:.3g}, {side:13} {seconds:8.2f} s  "
                  f"objective {one['objective'][side]:.4f}{faster}")  # fmt: skip


def main() -> None:
    """Run the workloads and print them, or one JSON document."""
    parser = argparse.ArgumentParser(
        description="Time to tune a logistic probe: the zoo against TPE over scikit-learn."
    )
    parser.add_argument("--workloads", default=",".join(list(WORKLOADS)[:-1]), help="by comma [all but small]")
    parser.add_argument("--tol", type=float, default=1e-4, help="of our path's last fit [1e-4]")
    parser.add_argument("--trials", type=int, default=ROUNDS, help=f"of TPE; 0 leaves it out [{ROUNDS}]")
    parser.add_argument("--precision", default="float32", help="of our path: float32 or float64 [float32]")
    parser.add_argument("--cold-c", type=float, default=1.0, help="of the cold fits [1, scikit-learn's default]")
    parser.add_argument("--no-cold", action="store_true", help="leave out the cold fits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if not options.json:
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{torch.get_num_threads()} threads, load average {load} before")
    records = []
    for name in options.workloads.split(","):
        records.append(measured(name, options))
        if not options.json:
            printed(records[-1], options.trials)
    if options.json:
        print(json.dumps({**vars(options), "results": records, "load_after": os.getloadavg()}, indent=1))
    else:
        print(f"\nload average {', '.join(f'{one:.1f}' for one in os.getloadavg())} after")


if __name__ == "__main__":
    main()
