"""Runs on a Ray cluster whose workers and nodes are killed (SIGKILL) every few seconds.

    python tests/stress/cluster_kills.py [--runs 100] [--every 3] [--items] [--seed 0]

A cluster of two nodes of one CPU each is started on this machine. Every run computes the features of two toy encoders
on rendered shapes, in 20 items, into an empty folder, with one worker a node. Meanwhile either a worker is
killed, or the second node with all its processes, which comes back a second later; between two kills lie ``--every``
seconds on average. With ``--items`` the items are a sleep and a file instead, which takes less of the processor.
Expected: indexes, and the files next to them, are those of a run in one process without a kill; the workers' deaths
that items met with are no more than the kills, so that none cost more than one item. The command exits with 1
otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.ray_here import ENVIRONMENT, RayHere, processes_below
from zoo.execution.executor import Executor, Resources
from zoo.execution.processes import Processes
from zoo.execution.ray_cluster import Ray

_ENCODERS = ("pocket_simclr_rn_shapes", "pocket_barlow_rn_shapes")
_IMAGES = "shapes:train=800,val=400"
_SHARD_SIZE = 60
_N_ITEMS = 40
_ITEM_S = 0.5
_AWAY_S = 1.0  # that a killed node is away
ONE = Resources(n_cpus=1)


@dataclass(slots=True, kw_only=True)
class Done:
    """What a run left."""

    digest: str  # of all its files
    n_items: int
    n_deaths: int  # of workers, that items met with
    failures: str = ""


def main() -> int:
    """Runs, kills, and prints one table."""
    parser = argparse.ArgumentParser(description="Kill workers and nodes of a cluster while features are computed.")
    parser.add_argument("--runs", type=int, default=100, help="how many [100]")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two kills, on average [3]")
    parser.add_argument("--items", action="store_true", help="items that sleep and write a file instead of features")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of who is killed [0]")
    options = parser.parse_args()
    do = _items if options.items else _features
    os.environ.update(ENVIRONMENT | {"RAY_AUTH_TOKEN": secrets.token_hex(32)})
    with tempfile.TemporaryDirectory() as folder:
        calm = Processes(0)
        right = do(Path(folder), calm)
        calm.close()
    if right.failures:
        print(f"Without kills: {right.failures}")
        return 1
    print(f"{right.n_items} items a run; without kills its files have the digest {right.digest[:16]}\n")
    print(f"{'run':>4} {'seconds':>8} {'workers killed':>15} {'nodes killed':>13} {'items lost':>11}  digest")
    n_right = n_kills = n_lost = 0
    within = True
    cluster = RayHere()
    try:
        for number in range(options.runs):
            killer = _Killer(cluster, random.Random(f"{options.seed} {number}"), options.every)
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder, closing(Ray(cluster.address, ONE)) as executor:
                with ThreadPoolExecutor(1) as thread:  # the run; nodes end with the thread that started them
                    running = thread.submit(do, Path(folder), executor)
                    killer.kill_until_done(running)
                done = running.result()
            kills = killer.n_workers + killer.n_nodes
            is_right = done.digest == right.digest and not done.failures
            n_right, n_kills, n_lost = n_right + is_right, n_kills + kills, n_lost + done.n_deaths
            within = within and done.n_deaths <= kills
            print(
                f"{number + 1:>4} {time.monotonic() - began:>8.1f} {killer.n_workers:>15} {killer.n_nodes:>13} "
                f"{done.n_deaths:>11}  {done.digest[:16]}{'' if is_right else ' is WRONG ' + done.failures}",
                flush=True,
            )
    finally:
        cluster.end()
    print(
        f"\n{n_right} of {options.runs} runs right; {n_lost} items were lost to {n_kills} kills, "
        f"{'at most one' if within else 'MORE THAN ONE'} a kill in every run."
    )
    return 0 if n_right == options.runs and within else 1


class _Killer:
    """Kills while something runs."""

    def __init__(self, cluster: RayHere, chance: random.Random, every: float) -> None:
        self._cluster, self._chance, self._every = cluster, chance, every
        self.n_workers = self.n_nodes = 0

    def kill_until_done(self, running: Future[Done]) -> None:
        """Kills a worker or a node now and then."""
        while True:
            with suppress(TimeoutError):
                running.exception(self._chance.uniform(0.5, 1.5) * self._every)
                return
            if self._chance.random() < 0.5:
                self._kill_worker()
            else:
                self._cluster.kill_node(self._cluster.second)
                self.n_nodes += 1
                time.sleep(_AWAY_S)
                self._cluster.second = self._cluster.add_node()

    def _kill_worker(self) -> None:
        """Kills one that is there, if one is: at work, between two items, or not ready yet."""
        workers = []
        for process in sorted(processes_below(os.getpid())):
            try:
                name = Path(f"/proc/{process}/cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::_Actor"):
                workers.append(process)
        if workers:
            try:
                os.kill(self._chance.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                return
            self.n_workers += 1


def _features(folder: Path, executor: Executor) -> Done:
    """Features of two encoders by any executor."""
    from zoo.datasets import open_images
    from zoo.execution.journal import Journal, list_run_records
    from zoo.features.running import build_run_spec, run_features
    from zoo.features.work_items import FeatureRunSettings, FeaturisingOptions, locate_features
    from zoo.progress import SilentProgress
    from zoo.storage import resolve_place

    source = partial(open_images, _IMAGES)
    data = source()
    parts = ("train", "val")
    setting = FeatureRunSettings(
        source=source,
        place=str(folder),
        fingerprints={part: getattr(data, part).fingerprint for part in parts},
        how=FeaturisingOptions(batch_size=8, device="cpu"),
        shard_size=_SHARD_SIZE,
    )
    asked = build_run_spec(setting, _ENCODERS, data, parts, resources=ONE)
    with Journal(resolve_place(folder), asked, engine="ray", n_workers=2) as journal:
        report = run_features(setting, _ENCODERS, data, parts, executor, journal, SilentProgress(), resources=ONE)
    digest = sha256()
    for name in _ENCODERS:
        for part in parts:
            place = locate_features(setting, name, getattr(data, part))
            for file in sorted(place.names()):
                digest.update(f"{name} {part} {file}\n".encode() + (place.read(file) or b""))
    n_deaths = list_run_records(resolve_place(folder))[0].total("deaths")
    sentences = "; ".join(one.sentence for one in report.failures)
    return Done(digest=digest.hexdigest(), n_items=report.n_items, n_deaths=n_deaths, failures=sentences)


def _item(number: int, *, folder: Path) -> str:
    from zoo.files import replace_file

    time.sleep(_ITEM_S)
    content = sha256(str(number).encode()).hexdigest()
    with replace_file(folder / f"{number:03}-{content[:8]}") as file:
        file.write(content.encode())
    return content[:8]


def _items(folder: Path, executor: Executor) -> Done:
    """Files by any executor, and an index of what their items returned."""
    function: Callable[[int], str] = partial(_item, folder=folder)
    values, n_deaths, failures = {}, 0, []
    for outcome in executor.map_unordered(function, range(_N_ITEMS), ONE):
        values[outcome.work] = outcome.value
        n_deaths += sum(failure.kind == "WorkerDied" for failure in outcome.failures)
        failures += [failure.text for failure in outcome.failures if outcome.failed]
    digest = sha256(str(sorted(values.items())).encode())
    for path in sorted(folder.glob("[!.]*")):  # a killed writer leaves a hidden file
        digest.update(path.name.encode() + path.read_bytes())
    return Done(digest=digest.hexdigest(), n_items=_N_ITEMS, n_deaths=n_deaths, failures="; ".join(failures))


if __name__ == "__main__":
    sys.exit(main())
