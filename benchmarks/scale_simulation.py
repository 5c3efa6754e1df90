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

from zoo.cards.catalogue import catalogue
from zoo.cards.costs import Cost, cost_of, memory_bytes

MEASURED = Path(__file__).resolve().parent / "scale.json"
SHARD_SIZE = 1024  # images an item
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
    load_s: float = 0.0  # once a worker, and again after a restart: the weights of the group


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


class _Run:
    """One simulated run."""

    def __init__(self, works: Iterable[Work], cluster: Cluster, seed: int) -> None:
        self.cluster, self.found = cluster, Simulated()
        self.random = np.random.default_rng(seed)
        self.env = simpy.Environment()
        self.driver, self.link = simpy.Resource(self.env), simpy.Resource(self.env)
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
                    yield from self.held(self.driver, self.cluster.driver_s, "driver_s")
                    yield from self.done(item.work, load=item.work is not loaded)
                    loaded, item = item.work, None
                    self.finished()
            except simpy.Interrupt:
                if item is not None:
                    self.lost(item, self.env.now - begun)
                start_s = self.cluster.restart_s + self.cluster.start_s

    def done(self, work: Work, *, load: bool) -> Events:
        """One item on a worker."""
        factor = float(self.random.choice(self.cluster.spread)) if len(self.cluster.spread) > 1 else 1.0
        compute_s, decode_s = work.compute_s * factor, work.decode_s * factor
        if load and work.load_s:
            yield self.env.timeout(work.load_s)
        reading = self.env.process(self.transfer(work.read_bytes)) if work.read_bytes else None
        try:
            yield self.env.timeout(max(compute_s, decode_s / self.cluster.decode_cores))
            if reading is not None and reading.is_alive:
                yield reading
        except simpy.Interrupt:
            if reading is not None and reading.is_alive:
                reading.interrupt()
            raise
        if work.n_puts and self.cluster.put_s:
            yield self.env.timeout(work.n_puts * self.cluster.put_s)
        if work.written_bytes:
            yield from self.held(self.link, work.written_bytes / self.cluster.bytes_a_second, "link_s")
        self.found.compute_s += compute_s
        self.found.decode_s += decode_s

    def transfer(self, n_bytes: float) -> Events:
        try:
            yield from self.held(self.link, n_bytes / self.cluster.bytes_a_second, "link_s")
        except simpy.Interrupt:
            return

    def held(self, resource: simpy.Resource, seconds: float, what: str) -> Events:
        """Uses what serves one after the other."""
        if not seconds:
            return
        with resource.request() as turn:
            yield turn
            yield self.env.timeout(seconds)
        setattr(self.found, what, getattr(self.found, what) + seconds)

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
            yield self.env.timeout(float(self.random.exponential(self.cluster.failure_every_s)))
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
    peak: dict[str, float]  # operations a second by precision, dense
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
    for name, card in sorted(catalogue().items()):
        cost, dim = cost_of(card), card.representation.dim
        if cost is None or not isinstance(dim, int):
            continue
        if cost.parameter_bytes <= 4e9 and 0 < cost.gflops <= most_gflops:
            found.append(Planned(name, repr(card.preprocess), cost, dim))
    return [found[round(place)] for place in np.linspace(0, len(found) - 1, min(n, len(found)))]


def groups_of(encoders: Sequence[Planned], *, group_bytes: float, precision: str) -> list[list[Planned]]:
    """Encoders of one preprocessing, as many as fit into memory together, as :func:`zoo.features.items.plan` has it."""
    by_preprocess: dict[str, list[Planned]] = defaultdict(list)
    for encoder in encoders:
        by_preprocess[encoder.preprocess].append(encoder)
    groups: list[list[Planned]] = []
    for members in by_preprocess.values():
        group: list[Planned] = []
        taken = 0.0
        for member in sorted(members, key=lambda one: one.name):
            alive = memory_bytes(member.cost, 64, precision) - member.cost.parameter_bytes  # type: ignore[arg-type]
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
    """The items of the plan; ``speed`` in operations a second of an accelerator, ``decode_s`` an image on one core."""
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
