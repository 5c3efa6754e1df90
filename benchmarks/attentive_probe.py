"""Attentive probes: what ``zoo-attentive-2`` costs and how often it errs, next to the recipe that it replaces.

Command: python benchmarks/attentive_probe.py MAPS.npz... --out attentive.json

Each file holds maps of one encoder on one data set: x_train, x_val (n, places, channels) float32 and y_train, y_val.

* recipe: efficient probing (Psomas et al., ICLR 2026) as one would write it in PyTorch: ``--queries`` queries without
  keys, one linear space of values cut into slices, one linear classifier behind a batch norm; AdamW, 90 epochs, weight
  decay 0.05, batches of 128, rising for a tenth and falling by a cosine. Its learning rate is tuned on the same fifth
  of the training images, then all of them are trained on. Patches are pooled before they are projected, which is
  several times as fast as the published order, and the same.
* official: the same with the pooling of the authors, ``poolings/ep.py`` of a checkout of billpsomas/efficient-probing
  that ``--official`` names, at the rate that the recipe chose; only its last training is run and timed.
* probe: ``AttentiveProbe`` as the protocol has it, penalty and pooling tuned on that fifth, then refitted.
* quick: the same with ``quick=True``.
* linear: the converged linear probe of the averages alone.

Sides take turns in one process, on one thread; times are seconds of the processor, of all with tuning and of the last
training alone. ``--growth`` measures the probe at half and all of the images and of the places, ``--memory`` its peak.
``--coverage N`` simulates the paired interval of ``zoo evaluate`` N times, for test sets whose difference is known.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.evaluation.attentive import AttentiveProbe
from zoo.evaluation.bootstrap import Drawn, build_outcome_table, compute_drawn_interval, resample_errors
from zoo.evaluation.logistic import LogisticProbe, select_held_out_mask
from zoo.evaluation.protocols import PROTOCOLS

RATES = (3e-3, 1e-2, 3e-2)
EPOCHS, BATCH, DECAY = 90, 128, 0.05


class Recipe(torch.nn.Module):
    """Efficient probing with its published initialisation."""

    def __init__(self, channels: int, n_classes: int, n_queries: int) -> None:
        super().__init__()
        width = channels // n_queries
        self.queries = torch.nn.Parameter(torch.randn(n_queries, channels) * 0.02)
        self.values = torch.nn.Parameter((torch.rand(n_queries, channels, width) * 2 - 1) / channels**0.5)
        self.head = torch.nn.Sequential(
            torch.nn.BatchNorm1d(n_queries * width, affine=False), torch.nn.Linear(n_queries * width, n_classes)
        )
        self.size = channels**-0.5

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        attention = torch.softmax(self.size * self.queries @ maps.transpose(1, 2), dim=2)
        values = torch.bmm((attention @ maps).transpose(0, 1), self.values)
        return self.head(values.transpose(0, 1).flatten(1))


class Official(torch.nn.Module):
    """The authors' pooling, with the head of the recipe."""

    def __init__(self, pooling: torch.nn.Module, channels: int, n_classes: int) -> None:
        super().__init__()
        self.pooling = pooling
        self.head = torch.nn.Sequential(
            torch.nn.BatchNorm1d(channels, affine=False), torch.nn.Linear(channels, n_classes)
        )

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return self.head(self.pooling(maps))


def load_official(folder: Path) -> Any:
    """Their class, from their file."""
    spec = importlib.util.spec_from_file_location("ep", folder / "poolings" / "ep.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EfficientProbing


def train_recipe(
    x: torch.Tensor, y: torch.Tensor, *, rate: float, n_queries: int, seed: int, official: Any = None
) -> torch.nn.Module:
    torch.manual_seed(seed)
    channels, n_classes = x.shape[2], int(y.max()) + 1
    if official is None:
        model: torch.nn.Module = Recipe(channels, n_classes, n_queries)
    else:
        model = Official(official(channels, num_queries=n_queries), channels, n_classes)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=DECAY)
    n_steps = EPOCHS * -(-len(y) // BATCH)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=n_steps // 10),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps - n_steps // 10),
        ],
        [n_steps // 10],
    )
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def measure_error(model: torch.nn.Module, x: torch.Tensor, y: np.ndarray) -> float:
    with torch.inference_mode():
        found = torch.cat([model(rows).argmax(dim=1) for rows in x.split(256)])
    return 100 * float((found.numpy() != y).mean())


def run_recipe(data: dict[str, np.ndarray], seed: int, n_queries: int, official: Any) -> dict[str, Any]:
    begun = time.process_time()
    x, y = data["x_train"], data["y_train"]
    out = select_held_out_mask(y, seed)
    mean, deviation = x.mean(axis=(0, 1)), x.std(axis=(0, 1)) + 1e-6
    scaled, test = (torch.from_numpy((one - mean) / deviation) for one in (x, data["x_val"]))
    errors = {}
    for rate in RATES:
        model = train_recipe(scaled[~out], torch.from_numpy(y[~out]), rate=rate, n_queries=n_queries, seed=seed)
        errors[rate] = measure_error(model, scaled[out], y[out])
    best, refit = min(errors, key=lambda rate: errors[rate]), time.process_time()
    model = train_recipe(scaled, torch.from_numpy(y), rate=best, n_queries=n_queries, seed=seed)
    done = time.process_time()
    found = {
        "error": measure_error(model, test, data["y_val"]),
        "rate": best,
        "seconds": done - begun,
        "seconds_of_refit": done - refit,
    }
    if official is not None:
        begun = time.process_time()
        model = train_recipe(scaled, torch.from_numpy(y), rate=best, n_queries=n_queries, seed=seed, official=official)
        found["official_seconds_of_refit"] = time.process_time() - begun
        found["official_error"] = measure_error(model, test, data["y_val"])
    return found


def run_probe(data: dict[str, np.ndarray], seed: int, *, quick: bool = False) -> dict[str, Any]:
    begun = time.process_time()
    x, y = data["x_train"], data["y_train"]
    out = select_held_out_mask(y, seed)
    settings = {**PROTOCOLS["zoo-attentive-2"].settings, "quick": quick}
    probe = AttentiveProbe(**settings, seed=seed).fit(x[~out], y[~out], x_val=x[out], y_val=y[out])
    chosen, refit = probe.report_, time.process_time()
    probe.refit(x, y)
    done = time.process_time()
    return {
        "error": 100 * float((probe.predict(data["x_val"]) != data["y_val"]).mean()),
        "kept": probe.kept_,
        "penalty": chosen["penalty"],
        "seconds": done - begun,
        "seconds_of_refit": done - refit,
    }


def run_linear(data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    begun = time.process_time()
    x, y = data["x_train"].mean(axis=1), data["y_train"]
    out = select_held_out_mask(y, seed)
    settings = {**PROTOCOLS["zoo-logistic-3"].settings, "folds": 0}
    probe = LogisticProbe(**settings, seed=seed).fit(x[~out], y[~out], x_val=x[out], y_val=y[out])
    probe.refit(x, y)
    error = 100 * float((probe.predict(data["x_val"].mean(axis=1)) != data["y_val"]).mean())
    return {"error": error, "seconds": time.process_time() - begun}


def measure_growth(data: dict[str, np.ndarray]) -> dict[str, float]:
    """Seconds of one training of all penalties, by images and places."""
    found = {}
    for images, places in ((2, 1), (1, 2), (1, 1)):
        x, y = data["x_train"], data["y_train"]
        x, y = x[: len(x) // images, : x.shape[1] // places], y[: len(y) // images]
        probe = AttentiveProbe(n_steps=1)  # as many passes whatever the number of images
        probe.channels_, probe.n_features_in_, probe.classes_ = x.shape[2], x[0].size, np.unique(y)
        rows, numbers = x.reshape(len(x), -1), np.searchsorted(probe.classes_, y)
        maps = probe._standardise(rows, probe._scale(rows))
        begun = time.process_time()
        probe._train(maps, numbers, probe.penalties, 2)
        found[f"{len(x)} images, {x.shape[1]} places"] = time.process_time() - begun
    return found


def measure_coverage(n_simulated: int, *, n_test: int = 450) -> float:
    """Share of paired 95 % intervals that hold the true difference, of correlated probes with errors of 30 and 25 %."""
    draws, held = np.random.default_rng(0), 0
    for seed in range(n_simulated):
        hard = draws.random(n_test)  # what both probes find hard
        right = [draws.random(n_test) > np.clip(2 * error * hard, 0, 1) for error in (0.30, 0.25)]
        table = build_outcome_table(n_test, [(None, one) for one in right])
        drawn = resample_errors(table, {"linear": [0], "attentive": [1]}, n_draws=1000, seed=seed)
        linear, attentive = drawn["linear"], drawn["attentive"]
        found = compute_drawn_interval(
            Drawn(value=attentive.value - linear.value, draws=attentive.draws - linear.draws)
        )
        held += found.ci_low <= -5 <= found.ci_high
    return 100 * held / n_simulated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--official", type=Path)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--coverage", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).zero_grad()  # what it imports is of no side
    official = load_official(options.official) if options.official else None
    found: dict[str, Any] = {}
    if options.coverage:
        found["coverage_percent"] = measure_coverage(options.coverage)
        print(found, flush=True)
    for path in options.files:
        with np.load(path) as arrays:
            data = {name: arrays[name] for name in arrays.files}
        data |= {name: data[name][: options.images] for name in ("x_train", "y_train")}
        cell: dict[str, Any] = {}
        for seed in range(options.seeds):
            sides = {"quick": run_probe(data, seed, quick=True), "probe": run_probe(data, seed)}
            if options.memory:
                cell["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            sides |= {"recipe": run_recipe(data, seed, options.queries, official), "linear": run_linear(data, seed)}
            cell[f"seed {seed}"] = sides
            for name, side in sides.items():
                print(path.stem, seed, name, json.dumps(side), flush=True)
        if options.growth:
            cell["growth"] = measure_growth(data)
            print(path.stem, cell["growth"], flush=True)
        found[path.stem] = cell
        if options.out:
            options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
