"""What a full-shot linear probe costs: 30 tuned trainings as a user would write them, against the zoo's two probes.

Command: python benchmarks/full_shot.py --out full_shot.json

On the same synthetic features, in the same run:

* protocol: PyTorch as one would write it today. Features in memory as tensors, ``nn.Linear`` (after ``BatchNorm1d``
  without scale and shift where the trial has it), autograd, the optimizers and schedulers of ``torch.optim``, 30 trials
  of Optuna's TPE one after the other on a stratified tenth of the training set, each 100 epochs, the best settings then
  once on all of it. Space and first settings are those of ``zoo/evaluation/streamed.py``.
* streamed: ``StreamedProbe``, the same number of trials and epochs, many candidates a pass.
* path: ``LogisticProbe``, the whole regularisation path on all of the training set.

The features are not real: noise in 2048 directions of the variance j^-0.8, as the spectra of trained encoders decay,
class means with 1.75^2 / j times that, rotated and moved. Losses depend on that; the cost of an epoch does not.

The floor is what a side's products take at the float32 rate of one of a batch. A run that was stopped
goes on from ``--out``; the streamed side begins again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import optuna
import torch

from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.streamed import STANDARD, PassProgress, SearchSpace, StreamedProbe
from zoo.evaluation.streamed_training import MOMENTUM, Hyperparameters, select_stratified
from zoo.files import replace_file

SPACE = SearchSpace(
    learning_rate_per_256=(1e-3, 1.0), weight_decay=(1e-8, 2e-4), batch_size=(512, 1024, 2048, 4096),
    batch_norm=(True, False), optimizer=("adam", "sgd"), schedule=("multistep", "cosine", "warmcosine"),
)  # fmt: skip
SIDES = ("protocol", "streamed", "path")
_OUTCOME = ("validation_log_loss", "validation_accuracy_percent")


class Record:
    """What was measured so far, on disk after every step."""

    def __init__(self, path: Path | None, options: dict[str, Any]) -> None:
        self.path, self.content = path, {"options": options, "load_before": os.getloadavg()}
        if path is not None and path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["options"] != options:
                raise SystemExit(f"{path} was made with other options ({found['options']}); name another file.")
            self.content = found

    def keep(self) -> None:
        """Writes it."""
        if self.path is not None:
            with replace_file(self.path) as file:
                file.write(json.dumps(self.content, indent=1).encode())


def synthetic(n: int, n_val: int, dim: int, n_classes: int, signal: float, seed: int) -> list[torch.Tensor]:
    """Features and labels of the training and the validation set."""
    generator = torch.Generator().manual_seed(seed)
    deviation = torch.arange(1, dim + 1, dtype=torch.float32).pow(-0.4)
    deviation *= (dim / deviation.square().sum()).sqrt()  # 1 on average
    means = torch.randn(n_classes, dim, generator=generator) * signal * torch.arange(1, dim + 1).pow(-0.5)
    rotation = torch.linalg.qr(torch.randn(dim, dim, generator=generator))[0]
    offset = torch.randn(dim, generator=generator)
    found = []
    for size in (n, n_val):
        y = torch.arange(size) % n_classes
        x = torch.randn(size, dim, generator=generator).add_(means[y]).mul_(deviation)
        found += [(x @ rotation).add_(offset), y]
    return found


def gflops_per_s(batch: int, dim: int, n_classes: int) -> float:
    """Rate of the two products of a step, float32."""
    x, w, g = torch.randn(batch, dim), torch.randn(n_classes, dim), torch.randn(batch, n_classes)
    out, seconds = torch.empty(n_classes, dim), []
    for _ in range(9):
        start = time.perf_counter()
        torch.mm(x, w.T)
        torch.mm(g.T, x, out=out)
        seconds.append(time.perf_counter() - start)
    return 4 * batch * dim * n_classes / median(seconds[2:]) / 1e9


def trained(
    x: torch.Tensor, y: torch.Tensor, candidate: Hyperparameters, epochs: int, n_classes: int
) -> torch.nn.Module:
    """One training as a user of PyTorch writes it."""
    linear = torch.nn.Linear(x.shape[1], n_classes)
    layers = [torch.nn.BatchNorm1d(x.shape[1], affine=False), linear] if candidate.batch_norm else [linear]
    model = torch.nn.Sequential(*layers)
    rate, decay = candidate.learning_rate, candidate.weight_decay
    optimizer: torch.optim.Optimizer
    if candidate.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM, weight_decay=decay)
    schedules, warm = torch.optim.lr_scheduler, max(1, epochs // 10)
    scheduler: torch.optim.lr_scheduler.LRScheduler
    if candidate.schedule == "multistep":
        scheduler = schedules.MultiStepLR(optimizer, [int(0.6 * epochs), int(0.8 * epochs)])
    elif candidate.schedule == "cosine":
        scheduler = schedules.CosineAnnealingLR(optimizer, epochs)
    else:
        rise = schedules.LinearLR(optimizer, 1 / (warm + 1), total_iters=warm)
        fall = schedules.CosineAnnealingLR(optimizer, max(1, epochs - warm))
        scheduler = schedules.SequentialLR(optimizer, [rise, fall], [warm])
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(candidate.batch_size):
            if candidate.batch_norm and len(batch) == 1:
                continue  # has no variance
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        scheduler.step()
    return model.eval()


@torch.no_grad()
def scores(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """Log loss and accuracy of a model on the validation set."""
    logits = torch.cat([model(part) for part in x.split(4096)])
    loss = torch.nn.functional.cross_entropy(logits, y).item()
    accuracy = (logits.argmax(dim=1) == y).double().mean().item()
    return dict(zip(_OUTCOME, (loss, 100 * accuracy), strict=True))


def protocol(data: list[torch.Tensor], options: argparse.Namespace, record: Record) -> None:
    """All trials, one after the other, then the final training; goes on after the trials that are recorded."""
    x, y, x_val, y_val = data
    side = record.content.setdefault("protocol", {"trials": []})
    tenth = torch.from_numpy(select_stratified(y.numpy(), 0.1, seed=(options.seed, 2), keep_one=False))
    some_x, some_y = x[tenth], y[tenth]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=options.seed, n_startup_trials=20))
    trained(x[:8], y[:8], STANDARD[1], 1, options.classes)  # what PyTorch loads at its first step is no part of a trial
    for one in STANDARD:
        study.enqueue_trial(asdict(one))
    for number in range(options.trials):
        trial = study.ask(SPACE.distributions)
        if number >= len(side["trials"]):
            torch.manual_seed(options.seed * 1000 + number)
            candidate = Hyperparameters(**trial.params)
            start = time.perf_counter()
            found = scores(trained(some_x, some_y, candidate, options.epochs, options.classes), x_val, y_val)
            seconds = time.perf_counter() - start
            side["trials"].append({"parameters": trial.params, "seconds": seconds, **found})
            record.keep()
            _say(f"protocol: trial {number + 1} of {options.trials}, {seconds:.1f} s, {_short(found)}")
        study.tell(trial, 100 - side["trials"][number]["validation_accuracy_percent"])
    best = max(side["trials"], key=lambda one: one["validation_accuracy_percent"])
    torch.manual_seed(options.seed)
    start = time.perf_counter()
    final = trained(x, y, Hyperparameters(**best["parameters"]), options.epochs, options.classes)
    side["final_seconds"] = time.perf_counter() - start
    side["seconds"] = side["final_seconds"] + sum(one["seconds"] for one in side["trials"])
    rows = options.epochs * (len(tenth) * options.trials + len(x))
    side.update(scores(final, x_val, y_val), chosen=best["parameters"], gflop=_training_gflop(rows, options))


def streamed(data: list[torch.Tensor], options: argparse.Namespace, record: Record) -> None:
    """The zoo's probe of the same protocol."""
    side = record.content["streamed"] = {"seconds": 0.0}
    last = time.perf_counter()

    def progress(done: PassProgress) -> None:
        nonlocal last
        now = time.perf_counter()
        side["seconds"], last = side["seconds"] + now - last, now
        if done.epoch % max(1, options.epochs // 10) == 0:
            record.keep()
            _say(f"streamed: {done.stage}, {done.n_trials_done} of {done.n_trials} trials done, epoch {done.epoch}")

    probe = StreamedProbe(n_trials=options.trials, epochs=options.epochs, seed=options.seed, progress=progress)
    x, y, x_val, y_val = (one.numpy() for one in data)
    probe.fit(x, y, x_val=x_val, y_val=y_val)
    side["seconds"] += time.perf_counter() - last
    report = probe.report_
    tenth = len(select_stratified(y, probe.tuning_share, seed=(options.seed, 2), keep_one=False))
    rows = options.epochs * (tenth * options.trials + len(x))
    side.update(
        validation_log_loss=report["validation_log_loss"], gflop=_training_gflop(rows, options),
        validation_accuracy_percent=100 - report["validation_error_percent"], chosen=report["chosen"],
    )  # fmt: skip


def path(data: list[torch.Tensor], options: argparse.Namespace, record: Record) -> None:
    """The whole regularisation path, chosen by log loss or by error."""
    x, y, x_val, y_val = (one.numpy() for one in data)
    side: dict[str, Any] = {}
    probe = LogisticProbe(
        select=options.select,
        precision=options.path_precision,
        tol=options.tol,
        progress=lambda point: _say(f"path: C = {point.C:.3g} fitted"),
    )
    start = time.perf_counter()
    probe.fit(x, y, x_val=x_val, y_val=y_val)
    side["seconds"] = time.perf_counter() - start
    probabilities = probe.predict_proba(x_val)
    side["validation_log_loss"] = float(-np.log(probabilities[np.arange(len(y_val)), y_val]).mean())
    side["validation_accuracy_percent"] = 100 * probe.score(x_val, y_val)
    side["report"] = {name: value for name, value in probe.report_.items() if isinstance(value, int | float | str)}
    numbers = options.classes * min(len(x), x.shape[1])  # of a probe in the span of the data
    rows = probe.report_["products_of_all"] * len(x) + probe.report_["n_fits"] * len(x_val)
    side["gflop"] = 2e-9 * numbers * rows
    record.content["path"] = side


def _training_gflop(rows: int, options: argparse.Namespace) -> float:
    """Two products for each row that a training sees, and one for the validation rows of each trial."""
    return 2e-9 * options.dim * options.classes * (2 * rows + (options.trials + 1) * options.n_val)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _short(found: dict[str, float]) -> str:
    return f"log loss {found['validation_log_loss']:.4f}, accuracy {found['validation_accuracy_percent']:.2f} %"


def main() -> None:
    """Run the sides one after the other and print a table."""
    parser = argparse.ArgumentParser(
        description="Cost of a full-shot probe: PyTorch's trials against the zoo's probes."
    )
    parser.add_argument("--n", type=int, default=50_000, help="training images [50000]")
    parser.add_argument("--n-val", type=int, default=10_000, help="validation images [10000]")
    parser.add_argument("--dim", type=int, default=2048, help="features [2048]")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--signal", type=float, default=1.75, help="of class means over that in a class [1.75]")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--path-precision", default="float32", help="of the path: float32 or float64 [float32]")
    parser.add_argument("--tol", type=float, default=1e-4, help="of the path's last fit [1e-4]")
    parser.add_argument("--select", default="log_loss", help="the path's C by log_loss or error [log_loss]")
    parser.add_argument("--sides", default=",".join(SIDES), help="by comma [all]")
    parser.add_argument("--threads", type=int, default=0, help="[as PyTorch chooses]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file to write as it goes, and to go on from")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if options.threads:
        torch.set_num_threads(options.threads)
    described = {name: value for name, value in vars(options).items() if name not in ("out", "json", "sides")}
    record = Record(options.out, described)
    data = synthetic(options.n, options.n_val, options.dim, options.classes, options.signal, options.seed)
    for name in options.sides.split(","):
        if "validation_log_loss" not in record.content.get(name, {}):
            rate = gflops_per_s(1024, options.dim, options.classes)
            {"protocol": protocol, "streamed": streamed, "path": path}[name](data, options, record)
            side = record.content[name]
            side["gflops_per_s"] = max(rate, gflops_per_s(1024, options.dim, options.classes))
            side["load_after"] = os.getloadavg()
            if "gflop" in side:
                side["multiple_of_floor"] = side["seconds"] * side["gflops_per_s"] / side["gflop"]
            record.keep()
            _say(f"{name}: {side['seconds']:.1f} s, {_short(side)}")
    if options.json:
        print(json.dumps(record.content, indent=1))
        return
    print(f"\n{options.n} x {options.dim}, {options.classes} classes, {options.trials} trials, {options.epochs} epochs")
    print(f"{'':10}{'seconds':>10}{'times faster':>14}{'log loss':>10}{'accuracy':>10}{'of floor':>10}")
    reference = record.content.get("protocol", {}).get("seconds")
    for name in options.sides.split(","):
        side = record.content[name]
        ratio = f"{reference / side['seconds']:.1f}" if reference else ""
        floor = f"{side['multiple_of_floor']:.2f}" if "multiple_of_floor" in side else ""
        print(
            f"{name:10}{side['seconds']:>10.1f}{ratio:>14}{side['validation_log_loss']:>10.4f}"
            f"{side['validation_accuracy_percent']:>9.2f}%{floor:>10}"
        )
    before, after = record.content["load_before"], os.getloadavg()
    print(f"load average {before[0]:.1f} before, {after[0]:.1f} after")


if __name__ == "__main__":
    main()
