"""Plans featurising on many GPUs by a discrete-event simulation, which is checked against small real runs.

    python benchmarks/scale_simulation.py --check             # against the runs of benchmarks/scale.json
    python benchmarks/scale_simulation.py --docs docs/scale.md   # writes the tables between its markers
    python benchmarks/scale_simulation.py --gpus 1,8,64 --gpu a100 --precision bfloat16 --cores 16

What is simulated: workers that take items from a driver, which serves one after the other; an item reads its images
over a link that all share, decodes them on the cores of its worker while the accelerator computes, writes its shards
over the same link, and returns. Times of items are drawn from measured ones, which have a tail. Nodes fail at a rate,
lose the items of their workers, and come back later; a lost item is done again first.

What is measured comes from ``benchmarks/scale.json``, which ``benchmarks/scale.py`` writes. What is not measured is in
:data:`GPUS` and :class:`Assumed`, with its source.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import simpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import Cost, estimate_memory, find_cost

MEASURED = Path(__file__).resolve().parent / "scale.json"
SHARD_SIZE = 1024  # images per item
MOST = 64  # encoders an item
TOLERANCE = 0.10  # between simulated and real seconds

Events = Generator[simpy.Event, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Items of one kind: the images of a shard for a group of encoders."""

    n_items: int
    compute_s: float  # seconds of a worker's accelerator an item, or all seconds where decoding is contained
    decode_s: float = 0.0  # seconds of one core
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    n_puts: int = 0
    load_s: float = 0.0  # once per worker, and again after a restart: the weights of the group


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Workers, and what they share."""

    n_workers: int = 1
    workers_a_node: int = 1
    decode_cores: float = 1.0  # of each worker
    start_s: float = 0.0  # until a worker takes its first item
    driver_s: float = 0.0  # of the driver, for each item, one item after the other
    bytes_a_second: float = math.inf  # between all workers and the storage
    put_s: float = 0.0  # until a PUT is answered
    spread: tuple[float, ...] = (1.0,)  # seconds of items over their median, as measured
    failure_every_s: float = math.inf  # mean time between failures of a node
    restart_s: float = 0.0  # until a node that failed starts its workers again
    kills: tuple[tuple[float, int], ...] = ()  # seconds since the start, and the number of the node
    n_tries: int = 4


@dataclass(slots=True, kw_only=True)
class Simulated:
    """What a simulated run took."""

    seconds: float = 0.0
    n_done: int = 0
    n_lost: int = 0  # items that were in progress when their node failed
    lost_s: float = 0.0  # their seconds
    n_given_up: int = 0  # items lost as often as they are tried
    n_failures: int = 0  # of nodes
    compute_s: float = 0.0  # seconds that accelerators were busy, of items that counted
    decode_s: float = 0.0  # the same of cores
    link_s: float = 0.0
    driver_s: float = 0.0
    idle_s: float = 0.0  # of workers that had nothing to do while the last items were computed

    def shares(self, cluster: Cluster) -> dict[str, float]:
        """The share of the time in which each resource was busy."""
        workers = self.seconds * cluster.n_workers
        return {
            "accelerators": self.compute_s / workers,
            "decoding": self.decode_s / workers / cluster.decode_cores,
            "link": self.link_s / self.seconds,
            "driver": self.driver_s / self.seconds,
        }


@dataclass(slots=True)
class _Item:
    work: Work
    n_lost: int = 0


class _Server:
    """What serves one after the other, each in a time that is known: a driver, a link."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env, self.free_at, self.busy_s = env, 0.0, 0.0

    def served_in(self, seconds: float) -> float:
        """Seconds until it has served the one who asks now."""
        self.free_at = max(self.free_at, self.env.now) + seconds
        self.busy_s += seconds
        return self.free_at - self.env.now


class _Run:
    """One simulated run."""

    def __init__(self, works: Iterable[Work], cluster: Cluster, seed: int) -> None:
        self.cluster, self.found = cluster, Simulated()
        self.random = random.Random(seed)
        self.env = simpy.Environment()
        self.driver, self.link = _Server(self.env), _Server(self.env)
        self.queue = deque(_Item(work) for work in works for _ in range(work.n_items))
        self.n_left = len(self.queue)
        self.waiting: deque[simpy.Event] = deque()
        self.end = self.env.event()
        n_nodes = -(-cluster.n_workers // cluster.workers_a_node)
        self.nodes: list[list[simpy.Process]] = [[] for _ in range(n_nodes)]
        for number in range(cluster.n_workers):
            self.nodes[number // cluster.workers_a_node].append(self.env.process(self.worker()))
        for number in range(n_nodes if math.isfinite(cluster.failure_every_s) else 0):
            self.env.process(self.failing(number))
        self.env.process(self.killing())

    def run(self) -> Simulated:
        if self.n_left:
            self.env.run(until=self.end)
        self.found.seconds = self.env.now
        self.found.driver_s, self.found.link_s = self.driver.busy_s, self.link.busy_s
        return self.found

    def worker(self) -> Events:
        """Takes items for ever; starts anew after each failure."""
        start_s = self.cluster.start_s
        while True:
            item: _Item | None = None
            begun = self.env.now
            try:
                yield self.env.timeout(start_s)
                loaded: Work | None = None
                while True:
                    while not self.queue:
                        idle_since = self.env.now
                        self.waiting.append(self.env.event())
                        yield self.waiting[-1]
                        self.found.idle_s += self.env.now - idle_since
                    item, begun = self.queue.popleft(), self.env.now
                    if self.cluster.driver_s:
                        yield self.env.timeout(self.driver.served_in(self.cluster.driver_s))
                    yield from self.done(item.work, load=item.work is not loaded)
                    loaded, item = item.work, None
                    self.finished()
            except simpy.Interrupt:
                if item is not None:
                    self.lost(item, self.env.now - begun)
                start_s = self.cluster.restart_s + self.cluster.start_s

    def done(self, work: Work, *, load: bool) -> Events:
        """One item on a worker."""
        cluster = self.cluster
        factor = self.random.choice(cluster.spread)
        compute_s, decode_s = work.compute_s * factor, work.decode_s * factor
        if load and work.load_s:
            yield self.env.timeout(work.load_s)
        read_s = self.link.served_in(work.read_bytes / cluster.bytes_a_second)
        yield self.env.timeout(max(compute_s, decode_s / cluster.decode_cores, read_s))  # all at once
        if work.n_puts and cluster.put_s:
            yield self.env.timeout(work.n_puts * cluster.put_s)
        if work.written_bytes:
            yield self.env.timeout(self.link.served_in(work.written_bytes / cluster.bytes_a_second))
        self.found.compute_s += compute_s
        self.found.decode_s += decode_s

    def finished(self) -> None:
        self.found.n_done += 1
        self.ended()

    def ended(self) -> None:
        self.n_left -= 1
        if not self.n_left:
            self.end.succeed()

    def lost(self, item: _Item, seconds: float) -> None:
        self.found.n_lost += 1
        self.found.lost_s += seconds
        item.n_lost += 1
        if item.n_lost >= self.cluster.n_tries:
            self.found.n_given_up += 1
            self.ended()
            return
        self.queue.appendleft(item)
        while self.waiting:  # all of them, for one that failed meanwhile does not listen
            self.waiting.popleft().succeed()

    def failing(self, node: int) -> Events:
        while True:
            yield self.env.timeout(self.random.expovariate(1 / self.cluster.failure_every_s))
            self.fail(node)

    def killing(self) -> Events:
        for at, node in sorted(self.cluster.kills):
            yield self.env.timeout(max(at - self.env.now, 0))
            self.fail(node)

    def fail(self, node: int) -> None:
        self.found.n_failures += 1
        for process in self.nodes[node]:
            process.interrupt()


def simulate(works: Iterable[Work], cluster: Cluster, *, seed: int = 0) -> Simulated:
    """A run of all items, in the order of ``works``, from the start of the workers to the end of the last item.

    >>> simulate([Work(n_items=7, compute_s=2.0)], Cluster(n_workers=3)).seconds
    6.0
    """
    return _Run(works, cluster, seed).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What its maker says of a GPU, and which share of that is assumed to be had."""

    name: str
    memory_bytes: float
    peak: dict[str, float]  # operations per second by precision, dense
    source: str


GPUS = {
    "a100": Gpu(
        name="A100 80 GB",
        memory_bytes=80e9,
        peak={"float32": 19.5e12, "bfloat16": 312e12},
        source="NVIDIA A100 Tensor Core GPU, data sheet (SXM)",
    ),
    "h100": Gpu(
        name="H100 80 GB",
        memory_bytes=80e9,
        peak={"float32": 67e12, "bfloat16": 989e12},
        source="NVIDIA H100 Tensor Core GPU, data sheet (SXM; 1,979 TFLOPS of bfloat16 are with sparsity)",
    ),
}
SHARE_OF_PEAK = {"float32": 0.6, "bfloat16": 0.35}
"""Assumed: inference of vision networks in PyTorch, without compilation. Without TF32, which the zoo does not use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What is neither measured here nor known of the cards."""

    gpus_a_node: int = 8
    cores_a_gpu: float = 16.0  # as fast as the one that was measured
    link_a_node: float = 1.25e9  # bytes a second: 10 Gbit/s
    weights_bytes_a_second: float = 1e9  # from the node's disk to the GPU
    build_s: float = 1.0  # an encoder: its network, before the weights
    put_s: float = 0.05  # until an object store answers
    failure_every_s: float = (
        24 * 3600.0
    )  # of a node: rented ones that may be taken away; owned ones fail far less often
    restart_s: float = 600.0  # until another node is there
    gpu_hour: float = 2.0  # dollars
    stored_month: float = 0.023  # dollars for a gigabyte: list price of S3 Standard, us-east-1
    thousand_puts: float = 0.005  # dollars, of the same list


ASSUMED = Assumed()
IMAGES = {"train": 1_281_167, "val": 50_000}  # of ImageNet-1K
IMAGE_BYTES = (147_897_477_120 + 6_744_924_160) / sum(IMAGES.values())  # of the two tar files that are distributed
N_ENCODERS = 300
POPULATIONS = {
    "to ViT-L": 200.0,  # gigaoperations an image, at most
    "to 1 billion parameters": math.inf,
}


@dataclass(frozen=True, slots=True)
class Planned:
    """An encoder of the plan."""

    name: str
    preprocess: str
    cost: Cost
    dim: int


def population(most_gflops: float, n: int = N_ENCODERS) -> list[Planned]:
    """Encoders with up to a billion parameters, evenly over the alphabet of all that cost no more."""
    found = []
    for name, card in sorted(load_catalogue().items()):
        cost, dim = find_cost(card), card.representation.dim
        if cost is None or not isinstance(dim, int):
            continue
        if cost.parameter_bytes <= 4e9 and 0 < cost.gflops <= most_gflops:
            found.append(Planned(name, repr(card.preprocess), cost, dim))
    return [found[round(place)] for place in np.linspace(0, len(found) - 1, min(n, len(found)))]


def groups_of(encoders: Sequence[Planned], *, group_bytes: float, precision: str) -> list[list[Planned]]:
    """Encoders of one preprocessing, as many as fit into memory; see :func:`zoo.features.work_items.make_items`."""
    by_preprocess: dict[str, list[Planned]] = defaultdict(list)
    for encoder in encoders:
        by_preprocess[encoder.preprocess].append(encoder)
    groups: list[list[Planned]] = []
    for members in by_preprocess.values():
        group: list[Planned] = []
        taken = 0.0
        for member in sorted(members, key=lambda one: one.name):
            alive = estimate_memory(member.cost, 64, precision) - member.cost.parameter_bytes  # type: ignore[arg-type]
            if group and (taken + member.cost.parameter_bytes + alive > group_bytes or len(group) == MOST):
                groups.append(group)
                group, taken = [], 0.0
            group.append(member)
            taken += member.cost.parameter_bytes
        groups.append(group)
    return groups


def works_of(
    groups: Sequence[Sequence[Planned]],
    *,
    speed: float,
    decode_s: float,
    item_bytes: int = 4,
    assumed: Assumed = ASSUMED,
) -> list[Work]:
    """The items of the plan; ``speed`` in operations per second of a device, ``decode_s`` per image on one core."""
    works = []
    for group in groups:
        load_s = sum(assumed.build_s + one.cost.parameter_bytes / assumed.weights_bytes_a_second for one in group)
        for n_images in IMAGES.values():
            n_items = -(-n_images // SHARD_SIZE)
            held = n_images / n_items
            works.append(
                Work(
                    n_items=n_items,
                    compute_s=held * sum(one.cost.gflops for one in group) * 1e9 / speed,
                    decode_s=held * decode_s,
                    read_bytes=held * IMAGE_BYTES,
                    written_bytes=held * sum(one.dim for one in group) * item_bytes,
                    n_puts=len(group),
                    load_s=load_s,
                )
            )
    return works


def cluster_of(n_gpus: int, measured: dict[str, Any], assumed: Assumed = ASSUMED) -> Cluster:
    """The machines of the plan."""
    a_node = min(n_gpus, assumed.gpus_a_node)
    return Cluster(
        n_workers=n_gpus,
        workers_a_node=a_node,
        decode_cores=assumed.cores_a_gpu,
        start_s=measured["start_s"],
        driver_s=measured["driver_s"],
        bytes_a_second=assumed.link_a_node * n_gpus / a_node,
        put_s=assumed.put_s,
        spread=tuple(measured["spread"]),
        failure_every_s=assumed.failure_every_s,
        restart_s=assumed.restart_s,
    )


def checked(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Each real run next to what the simulation says of it, from its own items and from those of another run.

    The other run is the first one with as many workers and without kills; between the two, the load of the machine may
    change. Simulated seconds are medians of 20 runs.
    """
    found = []
    runs = measured["simulation"]["runs"]
    for number, run in enumerate(runs):
        alike = [one for one in runs if (one["engine"], one["n_workers"]) == (run["engine"], run["n_workers"])]
        known = next(one for one in alike if not one["kills_s"])
        by_own = _simulated(run, *_by_own_items(run, measured), number)
        row = {
            "engine": run["engine"],
            "workers": run["n_workers"],
            "items": len(run["item_s"]),
            "kills": len(run["kills_s"]),
            "lost": run["n_lost"],
            "real_s": run["seconds"],
            "own_s": by_own,
            "own_error": by_own / run["seconds"] - 1,
        }
        if known is not run:
            by_other = _simulated(run, *_as_measured(known, measured), number)
            row |= {"other_s": by_other, "other_error": by_other / run["seconds"] - 1}
        found.append(row)
    return found


def _simulated(run: dict[str, Any], work: Work, cluster: Cluster, number: int) -> float:
    """Seconds of a run as it is simulated, with its kills at their moments, each of any worker."""
    found = []
    for seed in range(20):
        victims = np.random.default_rng([number, seed]).integers(run["n_workers"], size=len(run["kills_s"]))
        kills = tuple(zip(run["kills_s"], victims.tolist(), strict=True))
        work = replace(work, n_items=len(run["item_s"]))
        found.append(simulate([work], replace(cluster, kills=kills), seed=seed).seconds)
    return statistics.median(found)


def _by_own_items(run: dict[str, Any], measured: dict[str, Any]) -> tuple[Work, Cluster]:
    """Items as a run had them, the first ones of its workers among them."""
    _, cluster = _as_measured(run, measured)
    item_s = statistics.median(run["item_s"])
    spread = tuple(seconds / item_s for seconds in run["item_s"])
    return Work(n_items=len(run["item_s"]), compute_s=item_s), replace(cluster, spread=spread)


def _as_measured(run: dict[str, Any], measured: dict[str, Any]) -> tuple[Work, Cluster]:
    """Items and workers as a run without kills had them."""
    n_workers = run["n_workers"]
    later = run["item_s"][n_workers:]  # the first of each worker loads libraries, images and encoders
    first_s = statistics.mean(run["item_s"][:n_workers])
    item_s = statistics.median(later)
    begin_s = statistics.mean(
        end - seconds for end, seconds in list(zip(run["ends_s"], run["item_s"], strict=True))[:n_workers]
    )
    cluster = Cluster(
        n_workers=n_workers,
        start_s=max(begin_s, 0.0),
        driver_s=measured["simulation"]["driver_s"][run["engine"]],
        spread=tuple(seconds / item_s for seconds in later),
        n_tries=100,
    )
    return Work(
        n_items=len(run["item_s"]), compute_s=item_s, load_s=max(first_s - statistics.mean(later), 0.0)
    ), cluster


def facts_of(measured: dict[str, Any]) -> dict[str, Any]:
    """What the plan takes from the measurements: start, driver, spread of items, and decoding."""
    runs = [run for run in measured["simulation"]["runs"] if not run["kills_s"]]
    spread: list[float] = []
    starts = []
    for run in runs:
        work, cluster = _as_measured(run, measured)
        spread += cluster.spread
        starts.append(cluster.start_s + work.load_s)
    return {
        "start_s": max(starts),
        "driver_s": measured["simulation"]["driver_s"]["ray"],
        "spread": spread,
        "decode_s": measured["decoding"]["decode_and_preprocess_s_an_image"],
    }


def planned(
    gpu: Gpu,
    precision: str,
    n_gpus: int,
    encoders: Sequence[Planned],
    measured: dict[str, Any],
    assumed: Assumed = ASSUMED,
) -> dict[str, Any]:
    """One row of the plan."""
    speed = SHARE_OF_PEAK[precision] * gpu.peak[precision]
    facts = facts_of(measured)
    groups = groups_of(encoders, group_bytes=gpu.memory_bytes / 2, precision=precision)
    works = works_of(groups, speed=speed, decode_s=facts["decode_s"], assumed=assumed)
    cluster = cluster_of(n_gpus, facts, assumed)
    run = simulate(works, cluster)
    bound_s = sum(work.n_items * work.compute_s for work in works) / n_gpus
    return {
        "gpu": gpu.name,
        "precision": precision,
        "n_gpus": n_gpus,
        "hours": run.seconds / 3600,
        "bound_hours": bound_s / 3600,
        "at_peak_hours": bound_s / 3600 * SHARE_OF_PEAK[precision],
        "dollars": run.seconds / 3600 * n_gpus * assumed.gpu_hour,
        "shares": run.shares(cluster),
        "n_failures": run.n_failures,
        "n_lost": run.n_lost,
        "lost_hours": run.lost_s / 3600,
        "n_items": run.n_done,
    }


def totals(encoders: Sequence[Planned], measured: dict[str, Any], assumed: Assumed = ASSUMED) -> dict[str, float]:
    """What the work is made of, whatever computes it."""
    n_images, facts = sum(IMAGES.values()), facts_of(measured)
    n_preprocessings = len({one.preprocess for one in encoders})
    groups = groups_of(encoders, group_bytes=GPUS["a100"].memory_bytes / 2, precision="float32")
    n_shards = sum(-(-n // SHARD_SIZE) for n in IMAGES.values())
    written = 4 * n_images * sum(one.dim for one in encoders)
    return {
        "encoders": len(encoders),
        "preprocessings": n_preprocessings,
        "groups": len(groups),
        "items": n_shards * len(groups),
        "shards": n_shards * len(encoders),
        "operations": 1e9 * n_images * sum(one.cost.gflops for one in encoders),
        "written_bytes": written,
        "read_bytes": n_images * IMAGE_BYTES * len(groups),
        "weights_bytes": float(sum(one.cost.parameter_bytes for one in encoders)),
        "decode_core_s": n_images * facts["decode_s"] * len(groups),
        "decode_each_core_s": n_images * facts["decode_s"] * len(encoders),
        "put_dollars": n_shards * len(encoders) / 1000 * assumed.thousand_puts,
        "month_dollars": written / 1e9 * assumed.stored_month,
    }


def saturating(encoders: Sequence[Planned], gpu: Gpu, precision: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """For groups of every size: cores a GPU that decoding takes to keep up, and GPUs that a link and a driver feed."""
    speed, facts = SHARE_OF_PEAK[precision] * gpu.peak[precision], facts_of(measured)
    mean_gflops = statistics.mean(one.cost.gflops for one in encoders)
    mean_dim = statistics.mean(one.dim for one in encoders)
    rows = []
    for n in (1, 4, 8, 16, 64):
        image_s = n * mean_gflops * 1e9 / speed
        through = IMAGE_BYTES + 4 * n * mean_dim
        rows.append(
            {
                "encoders": n,
                "images_a_second": 1 / image_s,
                "cores": facts["decode_s"] / image_s,
                "mb_a_second": through / image_s / 1e6,
                "gpus_a_driver": SHARD_SIZE * image_s / facts["driver_s"],
            }
        )
    return rows


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


PLANS = (("a100", "float32"), ("a100", "bfloat16"), ("h100", "float32"), ("h100", "bfloat16"))
SIZES = (1, 8, 64)


def parts(measured: dict[str, Any]) -> dict[str, str]:
    """The generated parts of the page, by the names of their markers."""
    return {
        "engines": _engines(measured),
        "check": _check_table(measured),
        "work": _work_table(measured),
        "plan": _plan_table(measured),
        "saturates": _saturating_table(measured),
        "assumed": _assumed_table(measured),
    }


def _engines(measured: dict[str, Any]) -> str:
    digests, over, decoding = measured["digests"], measured["overhead"], measured["decoding"]
    resume = measured["resume"]
    n_ways = len(digests["digests"])
    stored = max(over["stored_bytes"], *digests["stored_bytes"].values())
    rows: list[Sequence[object]] = [
        (f"different digests of {n_ways} ways to compute ({', '.join(digests['digests'])})", digests["n_digests"], "1"),
        (
            f"Ray over one process, one worker, items of {over['item_s']['local']:.1f} s",
            f"{100 * (over['ratio'] - 1):+.1f} %",
            "at most 5 %",
        ),
        (
            "seconds of such a run outside its items, a process and Ray",
            " and ".join(f"{over['beyond_items_s'][side]:.3f}" for side in ("local", "ray")),
            "",
        ),
        ("bytes through Ray's object store in a run, at most", f"{stored:,}", "below 1,000,000"),
        *(
            (
                f"{n} encoders of one preprocessing, decoding once per encoder over decoding once",
                f"{decoding[n]['processor_ratio']:.2f} times the processor, {decoding[n]['ratio']:.2f} times the clock",
                "above 1",
            )
            for n in ("4", "8")
        ),
        (
            f"items computed twice when a run of {resume['n_items']} items lost its driver, and another worker went on",
            resume["twice"],
            "at most 0",
        ),
    ]
    loads = ", ".join(
        f"{name} {measured[name]['load_before']}" for name in ("digests", "overhead", "decoding", "resume")
    )
    rows.append((f"load of the machine, which has {measured['machine']['cores']} cores", loads, "below the cores"))
    return table(("Measured", "found", "goal"), rows)


def _check_table(measured: dict[str, Any]) -> str:
    rows = []
    for row in checked(measured):
        other = f"{row['other_s']:.1f} ({100 * row['other_error']:+.1f} %)" if "other_s" in row else "is the other run"
        rows.append(
            (
                f"{row['engine']}, {row['workers']} workers, {row['kills']} kills",
                row["items"],
                row["lost"],
                f"{row['real_s']:.1f}",
                f"{row['own_s']:.1f} ({100 * row['own_error']:+.1f} %)",
                other,
            )
        )
    return table(("Run", "items", "lost", "real, s", "simulated, by its items, s", "by those of another run, s"), rows)


def _work_table(measured: dict[str, Any]) -> str:
    found = {name: totals(population(most), measured) for name, most in POPULATIONS.items()}
    lines: list[tuple[str, Callable[[dict[str, float]], str]]] = [
        ("encoders / preprocessings / groups", lambda t: f"{t['encoders']} / {t['preprocessings']} / {t['groups']}"),
        ("items / shards", lambda t: f"{t['items']:,} / {t['shards']:,}"),
        ("operations, 10^18", lambda t: f"{t['operations'] / 1e18:,.1f}"),
        (
            "features, TB: float32 / float16",
            lambda t: f"{t['written_bytes'] / 1e12:.2f} / {t['written_bytes'] / 2e12:.2f}",
        ),
        ("images read, TB", lambda t: f"{t['read_bytes'] / 1e12:.1f}"),
        ("weights, GB per node", lambda t: f"{t['weights_bytes'] / 1e9:.0f}"),
        ("decoding, core-hours: once per group", lambda t: f"{t['decode_core_s'] / 3600:,.0f}"),
        ("decoding, core-hours: once per encoder", lambda t: f"{t['decode_each_core_s'] / 3600:,.0f}"),
        ("PUTs of shards, $", lambda t: f"{t['put_dollars']:.2f}"),
        ("features kept, $ a month", lambda t: f"{t['month_dollars']:.0f}"),
    ]
    rows = [(name, *(show(one) for one in found.values())) for name, show in lines]
    return table(("Work", *found), rows)


def _plan_table(measured: dict[str, Any]) -> str:
    rows = []
    for name, most in POPULATIONS.items():
        encoders = population(most)
        for gpu, precision in PLANS if name == next(iter(POPULATIONS)) else PLANS[1:2]:
            for n_gpus in SIZES:
                row = planned(GPUS[gpu], precision, n_gpus, encoders, measured)
                shares = row["shares"]
                rows.append(
                    (
                        f"{name}, {row['gpu']}, {precision}",
                        n_gpus,
                        f"{row['hours']:,.1f}",
                        f"{row['bound_hours']:,.1f}",
                        f"{row['at_peak_hours']:,.1f}",
                        *(f"{100 * shares[what]:.0f} %" for what in ("accelerators", "decoding", "link", "driver")),
                        f"{row['n_failures']} / {row['n_lost']} / {row['lost_hours']:.1f}",
                        f"{row['dollars']:,.0f}",
                    )
                )
                print(*rows[-1], sep="  ", flush=True)
    head = ("Encoders, GPU, precision", "GPUs", "hours", "GPUs alone", "at peak", "GPU", "decoding", "link", "driver")
    return table((*head, "failures / items / hours lost", "$"), rows)


def _saturating_table(measured: dict[str, Any]) -> str:
    encoders = population(POPULATIONS["to ViT-L"])
    rows = [
        (
            row["encoders"],
            f"{row['images_a_second']:,.0f}",
            f"{row['cores']:.1f}",
            f"{row['mb_a_second']:,.0f}",
            f"{row['gpus_a_driver']:,.0f}",
        )
        for row in saturating(encoders, GPUS["a100"], "bfloat16", measured)
    ]
    return table(("Encoders of a group", "images/s a GPU", "cores a GPU", "MB/s a GPU", "GPUs a driver feeds"), rows)


def _assumed_table(measured: dict[str, Any]) -> str:
    facts, assumed = facts_of(measured), ASSUMED
    spread = facts["spread"]
    rows: list[Sequence[object]] = [
        (
            "decoding and preprocessing an image, one core",
            f"{1000 * facts['decode_s']:.1f} ms",
            "measured here: made-up JPEG files of 500 x 375 px and 53 kB; those of ImageNet have 116 kB",
        ),
        ("the driver, an item (Ray)", f"{1000 * facts['driver_s']:.1f} ms", "measured here, without work"),
        ("start of a worker, with libraries and encoder", f"{facts['start_s']:.0f} s", "measured here"),
        (
            "an item over the median of its run",
            f"{min(spread):.2f} to {max(spread):.2f}, {len(spread)} items",
            "measured here; drawn for every item",
        ),
        *(
            (
                f"{gpu.name}: operations per second, {precision}",
                f"{gpu.peak[precision] / 1e12:,.1f} x 10^12, of which {100 * SHARE_OF_PEAK[precision]:.0f} % are had",
                f"peak: {gpu.source}; share: assumed",
            )
            for gpu in GPUS.values()
            for precision in gpu.peak
        ),
        ("cores a GPU, as fast as the one here", f"{assumed.cores_a_gpu:.0f}", "assumed"),
        ("GPUs a node", assumed.gpus_a_node, "assumed"),
        ("between a node and the storage", f"{assumed.link_a_node / 1e9:.2f} GB/s", "assumed: 10 Gbit/s"),
        ("answer to a PUT, one after the other", f"{1000 * assumed.put_s:.0f} ms", "assumed"),
        (
            "weights of an encoder",
            f"{assumed.build_s:.0f} s and {assumed.weights_bytes_a_second / 1e9:.0f} GB/s",
            "assumed, from the node's disk, once per worker",
        ),
        (
            "failures",
            f"a node every {assumed.failure_every_s / 3600:.0f} h, {assumed.restart_s / 60:.0f} min until replaced",
            "assumed: rented nodes that are taken away",
        ),
        ("bytes of an image", f"{IMAGE_BYTES:,.0f}", "the two tar files that ImageNet-1K is distributed as"),
        ("a GPU-hour", f"${assumed.gpu_hour:.2f}", "assumed, for both GPUs"),
        (
            "storage",
            f"${assumed.stored_month} a GB and month, ${assumed.thousand_puts} a thousand PUTs",
            "list price of S3 Standard in us-east-1; look it up",
        ),
    ]
    return table(("What", "value", "from"), rows)


def written(page: str, found: dict[str, str]) -> str:
    """The page with new parts between its markers."""
    for name, text in found.items():
        begin, end = f"<!-- scale: {name} -->\n", "<!-- end -->"
        before, marker, rest = page.partition(begin)
        if not marker or end not in rest:
            raise SystemExit(f"the page has no part {name!r} between {begin.strip()} and {end}")
        page = before + begin + text + "\n" + end + rest.partition(end)[2]
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, default=MEASURED, help="what benchmarks/scale.py wrote")
    parser.add_argument(
        "--check", action="store_true", help="hold the simulation against the real runs; 1 if it is off"
    )
    parser.add_argument("--docs", type=Path, help="write the tables into this page")
    parser.add_argument("--gpus", default="1,8,64", help="numbers of GPUs to plan for")
    parser.add_argument("--gpu", choices=GPUS, default="a100")
    parser.add_argument("--precision", choices=SHARE_OF_PEAK, default="bfloat16")
    parser.add_argument("--cores", type=float, default=ASSUMED.cores_a_gpu, help="for decoding, a GPU")
    parser.add_argument("--most-gflops", type=float, default=POPULATIONS["to ViT-L"], help="of an encoder, an image")
    options = parser.parse_args()
    measured = json.loads(options.measured.read_text())
    if options.docs:
        options.docs.write_text(written(options.docs.read_text(), parts(measured)))
    elif options.check:
        print(_check_table(measured))
        return max(abs(row["own_error"]) for row in checked(measured)) > TOLERANCE
    else:
        encoders = population(options.most_gflops)
        assumed = replace(ASSUMED, cores_a_gpu=options.cores)
        for n_gpus in map(int, options.gpus.split(",")):
            row = planned(GPUS[options.gpu], options.precision, n_gpus, encoders, measured, assumed)
            print(json.dumps(row, indent=1), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
