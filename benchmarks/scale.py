"""What featurising on workers costs and keeps: engines against each other, overheads, decoding once, kills, resuming.

    python benchmarks/scale.py [--quick] [--only digests overhead ...] [--json benchmarks/scale.json]

Real runs of :func:`zoo.features.running.run_features` on this machine, over JPEG files of 500 x 375 px in tar shards,
into new folders: toy encoders, and a ResNet-50 with random weights. Ray runs on several nodes of this
machine, with a core each, which ``ray.cluster_utils`` starts.

* ``digests``: one digest of all that an index promises, for this process, processes, parts of the work, and Ray with
  1, 2 and 4 nodes. Goal: one.
* ``overhead``: items of about 10 s, by one process and by one Ray worker alternately. Goal: at most 5 % more.
* ``store``: bytes through Ray's object store. Goal: less than 1 MB.
* ``decoding``: 4 and 8 encoders of one preprocessing, decoding once and once per encoder, alternately.
* ``resume``: a run that is broken off and gone on from with another number of workers: what is computed twice.
* ``simulation``: what the simulation (``benchmarks/scale_simulation.py``) needs and is checked against: seconds of
  items, starts, restarts and the driver, and runs on 1 and 2 workers with and without kills.

Runs under kills, and how many of them are right, are what ``tests/stress/cluster_kills.py`` counts.

``--json`` puts what was measured into a file, along with what earlier calls put there. On a busy machine times are
wrong: look at the load, which is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import secrets
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks.featurise import jpegs
from tests.shard_files import tar
from zoo.datasets import ImageData, open_images
from zoo.execution.executor import Executor, Resources, WorkResult, select_part
from zoo.execution.journal import Journal
from zoo.execution.processes import Processes
from zoo.execution.ray_cluster import Ray
from zoo.features.running import build_run_spec, run_features
from zoo.features.store import INDEX, load_features
from zoo.features.work_items import FeatureRunSettings, compute_item, make_items, split_by_encoder
from zoo.progress import SilentProgress
from zoo.storage import resolve_place

ROOT = Path(__file__).resolve().parent.parent
POCKET = (
    "pocket_simclr_rn_shapes", "pocket_barlow_rn_shapes", "pocket_simclr_vit_shapes", "pocket_dino_vit_shapes",
    "pocket_vicreg_rn_shapes", "pocket_rotnet_rn_shapes", "pocket_mae_vit_shapes", "pocket_sup_rn_shapes",
)  # fmt: skip
RESNET = "random_rn50"
ONE = Resources(n_cpus=1)
OVERHEAD, STORE_BYTES = 1.05, 1_000_000  # goals
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # nodes listen at 127.0.0.1 alone
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(ROOT),  # where workers find this file
}


def random_resnet(name: str) -> tuple[torch.nn.Module, Any]:
    """A ResNet-50 with random weights, and its preprocessing."""
    from zoo.cards.catalogue import load_catalogue
    from zoo.encoders import build_encoder
    from zoo.encoders.preprocess import build_preprocess

    torch.manual_seed(0)
    card = load_catalogue()["simclr_rn50"]
    return build_encoder(card).eval(), build_preprocess(card.preprocess)


def nothing(number: int) -> int:
    """An item of no work."""
    return number


@dataclass(slots=True)
class Watched:
    """Another executor, and the outcomes that it had, each with the time when it came."""

    executor: Executor
    began: float = 0.0
    part: tuple[int, int] | None = None
    outcomes: list[tuple[float, WorkResult[Any, Any]]] = field(default_factory=list)

    @property
    def n_workers(self) -> int:
        return self.executor.n_workers

    def map_unordered(self, function: Any, work: Iterable[Any], resources: Resources) -> Iterator[WorkResult[Any, Any]]:
        self.began = time.monotonic()
        with closing(self.executor.map_unordered(function, work, resources)) as found:  # type: ignore[type-var]
            for outcome in found:
                self.outcomes.append((time.monotonic() - self.began, outcome))
                yield outcome

    def close(self) -> None:
        self.executor.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run: its seconds from the first hand-out to the last outcome, and its items."""

    seconds: float
    item_s: list[float]
    ends_s: list[float]
    n_deaths: int  # tries that ended with their worker
    n_done: int
    n_there: int
    n_failed: int
    digest: str


class Images:
    """An image set in tar shards, in a folder of its own."""

    def __init__(self, folder: Path, n_train: int, n_val: int) -> None:
        files = jpegs(min(n_train, 64))
        folder.mkdir(parents=True)
        for part, n, first in (("train", n_train, 0), ("val", n_val, 10**6)):
            for start in range(0, n, 500):
                members = []
                for number in range(start, min(start + 500, n)):
                    # a comment behind the end of the JPEG, so that no two images are copies
                    content = files[number % len(files)] + f"{first + number}".encode()
                    members += [(f"{number:07d}.jpg", content), (f"{number:07d}.cls", b"%d" % (number % 2))]
                (folder / f"{part}-{start // 500:04d}.tar").write_bytes(tar(members))
        self.source = partial(open_images, f"webdataset:{folder}")
        self.data: ImageData = self.source()

    def setting(self, place: Path, *, load: Any = None, shard_size: int) -> FeatureRunSettings:
        fingerprints = {"train": self.data.train.fingerprint, "val": self.data.val.fingerprint}
        return FeatureRunSettings(
            source=self.source, place=str(place), fingerprints=fingerprints, load=load, shard_size=shard_size
        )


def featurised(
    images: Images,
    names: Sequence[str],
    executor: Executor,
    place: Path,
    *,
    shard_size: int,
    load: Any = None,
    parts: Sequence[str] = ("train", "val"),
    part: tuple[int, int] | None = None,
    stop_after: int | None = None,
) -> Ran:
    """The features of some encoders at a place, by an executor, which stays open; stops after so many items."""
    setting = images.setting(place, load=load, shard_size=shard_size)
    asked = build_run_spec(setting, names, images.data, parts, resources=ONE)
    watched = Watched(executor if stop_after is None else _Stopping(executor, stop_after))
    with Journal(resolve_place(place), asked, engine="benchmark", n_workers=executor.n_workers, part=part) as journal:
        shared = watched if part is None else select_part(watched, *part)
        report = None
        with suppress(_Stopped):
            report = run_features(setting, names, images.data, parts, shared, journal, SilentProgress(), resources=ONE)
    ended = [when for when, _ in watched.outcomes]
    return Ran(
        seconds=max(ended, default=0.0),
        item_s=[outcome.seconds for _, outcome in watched.outcomes],
        ends_s=ended,
        n_deaths=sum(failure.kind == "WorkerDied" for _, one in watched.outcomes for failure in one.failures),
        n_done=0 if report is None else report.n_done,
        n_there=0 if report is None else report.n_there,
        n_failed=0 if report is None else len(report.failures),
        digest=digest_of(place),
    )


class _Stopped(Exception):
    pass


@dataclass(slots=True)
class _Stopping:
    """An executor whose driver dies after some outcomes."""

    executor: Executor
    n: int
    part: tuple[int, int] | None = None

    @property
    def n_workers(self) -> int:
        return self.executor.n_workers

    def map_unordered(self, function: Any, work: Iterable[Any], resources: Resources) -> Iterator[WorkResult[Any, Any]]:
        with closing(self.executor.map_unordered(function, work, resources)) as found:  # type: ignore[type-var]
            for number, outcome in enumerate(found, 1):
                yield outcome
                if number == self.n:
                    raise _Stopped

    def close(self) -> None:
        self.executor.close()


def digest_of(place: Path) -> str:
    """A hash of all indexes of features at a place, whose shards are named by their content; "" if one is missing."""
    total = hashlib.blake2b(digest_size=8)
    folders = sorted(folder for folder in place.glob("*/features/*") if folder.is_dir())
    for folder in folders:
        if not (folder / INDEX).is_file():
            return ""
        load_features(folder)  # which refuses what is not whole
        names = sorted(path.name for path in folder.glob("*.safetensors"))
        total.update("\n".join([str(folder.relative_to(place)), *names]).encode())
        total.update((folder / INDEX).read_bytes())
    return total.hexdigest() if folders else ""


class Nodes:
    """A Ray cluster of nodes of this machine, with a core each; as many as there shall be workers."""

    def __init__(self, n_nodes: int) -> None:
        from tests.ray_here import RayHere

        self._here = RayHere(n_nodes)
        self.address = self._here.address

    def end(self) -> None:
        self._here.end()


@contextmanager
def on_ray(n_nodes: int) -> Iterator[Ray]:
    """Ray's workers on so many nodes."""
    nodes = Nodes(n_nodes)
    try:
        with closing(Ray(nodes.address, ONE)) as executor:
            yield executor
    finally:
        nodes.end()


class Killer:
    """Kills a worker every few seconds until the block ends."""

    def __init__(self, executor: Executor, every_s: float, *, seed: int = 0) -> None:
        self._executor, self._every_s = executor, every_s
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.times: list[float] = []  # since the block began

    def __enter__(self) -> Killer:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *about: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s * self._random.uniform(0.7, 1.3)):
            if pids := _pids(self._executor):
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(pids), signal.SIGKILL)
                    self.times.append(time.monotonic() - self._began)


def _pids(executor: Executor) -> list[int]:
    """Processes of the workers of an executor."""
    assert isinstance(executor, Processes | Ray)
    return [int(worker.name.rpartition("-")[2]) for worker in executor.workers if worker.piece and worker.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where benchmarks work, and how much."""

    folder: Path
    quick: bool

    def new(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def images(self, n_train: int, n_val: int) -> Images:
        return Images(self.new() / "jpegs", n_train, n_val)


def digests(bench: Bench) -> dict[str, Any]:
    """The same digest, whoever computes."""
    images = bench.images(60 if bench.quick else 400, 30 if bench.quick else 100)
    names, shard_size = POCKET[:4], 10 if bench.quick else 50

    def one(executor: Executor, place: Path, **options: Any) -> Ran:
        return featurised(images, names, executor, place, shard_size=shard_size, **options)

    found: dict[str, str] = {}
    for name, n in (("this process", 0), ("1 process", 1), ("2 processes", 2)):
        with closing(Processes(n)) as executor:
            found[name] = one(executor, bench.new()).digest
    place = bench.new()
    for k in (2, 3, 1):
        with closing(Processes(0)) as executor:
            found["parts 2, 3 and 1 of 3"] = one(executor, place, part=(k, 3)).digest
    stored = {}
    for n_nodes in (1, 2) if bench.quick else (1, 2, 4):
        with on_ray(n_nodes) as ray:
            found[f"Ray, {n_nodes} workers"] = one(ray, bench.new()).digest
            stored[str(n_nodes)] = ray.stored_bytes
    return {
        "digests": found,
        "n_digests": len(set(found.values())),
        "right": len(set(found.values())) == 1 and all(found.values()),
        "stored_bytes": stored,
    }


def overhead(bench: Bench) -> dict[str, Any]:
    """Items of about 10 s by one process and by one Ray worker, alternately."""
    rate = 1 / seconds_an_image(bench)
    wanted_s, n_items, rounds = (1.0, 2, 1) if bench.quick else (10.0, 3, 6)
    shard_size = max(1, round(wanted_s * rate))
    images = bench.images(n_items * shard_size, 2)
    walls: dict[str, list[float]] = {"local": [], "ray": []}
    items: dict[str, list[float]] = {"local": [], "ray": []}
    with on_ray(1) as ray, closing(Processes(1)) as local:
        for number in range(rounds + 1):  # the first starts the workers, which load the encoder
            for side, executor in (("local", local), ("ray", ray)):
                ran = featurised(
                    images, [RESNET], executor, bench.new(), shard_size=shard_size, load=random_resnet, parts=("train",)
                )
                if number:
                    walls[side].append(ran.seconds)
                    items[side] += ran.item_s
        stored = ray.stored_bytes
    medians = {side: statistics.median(found) for side, found in walls.items()}
    return {
        "item_s": {side: statistics.median(found) for side, found in items.items()},
        "run_s": walls,
        "ratio": medians["ray"] / medians["local"],
        # wall beyond the items themselves, which noise of the machine does not touch
        "beyond_items_s": {
            side: statistics.median(
                wall - sum(items[side][i * n_items : (i + 1) * n_items]) for i, wall in enumerate(walls[side])
            )
            for side in walls
        },
        "n_items": n_items,
        "stored_bytes": stored,
        "right": medians["ray"] / medians["local"] <= OVERHEAD and stored < STORE_BYTES,
    }


def seconds_an_image(bench: Bench) -> float:
    """Of the ResNet-50 by itself, on one core."""
    images = bench.images(24, 2)
    torch.set_num_threads(1)
    setting = images.setting(bench.new(), load=random_resnet, shard_size=12)
    first, second = make_items(setting, [RESNET], images.data, ["train"])
    compute_item(setting, first)
    began = time.perf_counter()
    compute_item(setting, second)
    return (time.perf_counter() - began) / 12


def decoding(bench: Bench) -> dict[str, Any]:
    """Seconds of items that decode once for all encoders, and once for each."""
    torch.set_num_threads(1)
    n, rounds = (16, 1) if bench.quick else (200, 5)
    images = bench.images(n * 2, 2)
    found: dict[str, Any] = {"n_images": n}
    for n_encoders in (4, 8):
        walls: dict[str, list[float]] = {"once": [], "each": []}
        used: dict[str, list[float]] = {"once": [], "each": []}  # processor seconds, which other programs do not touch
        for number in range(rounds + 1):
            for side in walls:
                setting = images.setting(bench.new(), shard_size=n)
                item = make_items(setting, POCKET[:n_encoders], images.data, ["train"])[number % 2]
                assert len(item.encoders) == n_encoders
                began, before = time.perf_counter(), time.process_time()
                for one in [item] if side == "once" else split_by_encoder(item):
                    compute_item(setting, one)
                if number:
                    walls[side].append(time.perf_counter() - began)
                    used[side].append(time.process_time() - before)
        once, each = (statistics.median(walls[side]) for side in ("once", "each"))
        once_used, each_used = (statistics.median(used[side]) for side in ("once", "each"))
        found[str(n_encoders)] = {
            "once_s": once,
            "each_s": each,
            "ratio": each / once,
            "once_processor_s": once_used,
            "each_processor_s": each_used,
            "processor_ratio": each_used / once_used,
        }
    preprocess = random_resnet(RESNET)[1]
    for what, do in (("decode", lambda image: image), ("decode_and_preprocess", preprocess)):
        before = time.process_time()
        for i in range(n):
            do(images.data.train.images[i])
        found[f"{what}_s_an_image"] = (time.process_time() - before) / n  # of a processor
    found["jpeg_bytes"] = statistics.mean(len(one) for one in jpegs(64))
    found["right"] = found["4"]["processor_ratio"] > 1 and found["8"]["processor_ratio"] > 1
    return found


def resume(bench: Bench) -> dict[str, Any]:
    """A run on two Ray workers whose driver dies half-way, and another one on a process that goes on."""
    images = bench.images(60 if bench.quick else 400, 2)
    shard_size, names, place = 10 if bench.quick else 25, POCKET[:4], bench.new()
    with closing(Processes(1)) as executor:
        whole = featurised(images, names, executor, bench.new(), shard_size=shard_size)
    n_items = len(whole.item_s)
    with on_ray(2) as ray:
        featurised(images, names, ray, place, shard_size=shard_size, stop_after=n_items // 2)
    with closing(Processes(1)) as executor:
        rest = featurised(images, names, executor, place, shard_size=shard_size)
    return {
        "n_items": n_items,
        "n_before": n_items // 2,
        "n_after": len(rest.item_s),
        "twice": n_items // 2 + len(rest.item_s) - n_items,
        "right": rest.digest == whole.digest and n_items // 2 + len(rest.item_s) <= n_items,
    }


def simulation(bench: Bench) -> dict[str, Any]:
    """What the simulation is made of, and the runs that it must foretell."""
    rate = 1 / seconds_an_image(bench)
    item_s, n_items = (0.5, 6) if bench.quick else (3.0, 20)
    shard_size = max(1, round(item_s * rate))
    images = bench.images(n_items * shard_size, 2)
    runs: list[dict[str, Any]] = []

    def one(executor: Executor, engine: str, n_workers: int, *, every_s: float = 0.0, seed: int = 0) -> None:
        options = {"shard_size": shard_size, "load": random_resnet, "parts": ("train",)}
        times: list[float] = []
        if every_s:
            with Killer(executor, every_s, seed=seed) as killer:
                ran = featurised(images, [RESNET], executor, bench.new(), **options)
            times = killer.times
        else:
            ran = featurised(images, [RESNET], executor, bench.new(), **options)
        runs.append(
            {
                "engine": engine,
                "n_workers": n_workers,
                "seconds": round(ran.seconds, 3),
                "item_s": [round(seconds, 3) for seconds in ran.item_s],
                "ends_s": [round(seconds, 3) for seconds in ran.ends_s],
                "kills_s": [round(seconds, 2) for seconds in times],
                "n_lost": ran.n_deaths,
            }
        )
        say(f"{engine}, {n_workers} workers, {len(times)} kills: {ran.seconds:.1f} s for {len(ran.item_s)} items")

    for n_workers in (1, 2):
        for every_s in (0.0, 0.0, 2.0 if bench.quick else 15.0):
            with closing(Processes(n_workers)) as local:
                one(local, "local", n_workers, every_s=every_s, seed=n_workers)
    nodes = Nodes(2)
    try:
        for every_s in (0.0, 0.0, 2.0 if bench.quick else 15.0):
            with closing(Ray(nodes.address, ONE)) as ray:  # a new one, whose workers start as the others' do
                one(ray, "ray", 2, every_s=every_s, seed=3)
        with closing(Ray(nodes.address, ONE)) as ray:
            drivers = {"ray": driver_seconds(ray)}
    finally:
        nodes.end()
    with closing(Processes(2)) as local:
        drivers["local"] = driver_seconds(local)
    return {"images_an_item": shard_size, "runs": runs, "driver_s": drivers, "right": True}


def driver_seconds(executor: Executor) -> float:
    """Seconds of an item without any work."""
    for n in (50, 500):  # the first starts workers
        began = time.monotonic()
        for outcome in executor.map_unordered(nothing, range(1, n), ONE):
            assert outcome.value
    return (time.monotonic() - began) / 500


BENCHMARKS = {one.__name__: one for one in (digests, overhead, decoding, resume, simulation)}


def say(text: str) -> None:
    print(f"{text}  (load {os.getloadavg()[0]:.1f})", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="few and small items: to try it, not to measure")
    parser.add_argument("--json", type=Path, help="put what was measured into this file")
    options = parser.parse_args()
    os.environ |= ENVIRONMENT | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}  # before Ray is imported
    wrong = []
    with tempfile.TemporaryDirectory(prefix="zoo-scale-") as folder:
        os.environ["ZOO_CACHE"] = str(Path(folder, "cache"))
        bench = Bench(folder=Path(folder), quick=options.quick)
        for name in options.only:
            say(name)
            began, load = time.monotonic(), os.getloadavg()[0]
            found = BENCHMARKS[name](bench)
            found |= {"took_s": round(time.monotonic() - began, 1), "load_before": round(load, 1)}
            print(json.dumps(found, indent=1), flush=True)
            wrong += [] if found["right"] else [name]
            if options.json:
                known = json.loads(options.json.read_text()) if options.json.exists() else {}
                known[name] = found
                known["machine"] = {
                    "processor": platform.machine(),
                    "cores": len(os.sched_getaffinity(0)),
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                }
                options.json.write_text(json.dumps(known, indent=1) + "\n")
    print(f"not as it should be: {', '.join(wrong)}" if wrong else "all as it should be")
    return len(wrong) > 0


if __name__ == "__main__":
    from benchmarks import scale  # whose functions workers find by this name

    raise SystemExit(scale.main())
