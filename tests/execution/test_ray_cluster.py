"""Work on a real Ray cluster of two nodes of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.execution.pieces import Following
from tests.ray_here import RayHere, processes_below
from zoo.errors import MissingExtra, QueryError
from zoo.execution import ray_cluster
from zoo.execution.executor import N_TRIES, Resources, WorkResult
from zoo.execution.ray_cluster import Ray

pytest_plugins = ("tests.ray_here",)
ONE = Resources(n_cpus=1)


def _do(piece: str, *, folder: Path) -> str:
    """What a piece says: to fail, to die, to take long; leaves a line of its node and threads for each try."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    with (folder / piece).open("a") as lines:
        lines.write(f"{here} {os.environ['OMP_NUM_THREADS']}\n")
    is_first = len(_lines(folder / piece)) == 1
    match piece.split("-"):
        case ["fails"]:
            raise ValueError("as it should")
        case ["refused"]:
            raise QueryError("never")
        case ["once"] if is_first:
            raise OSError("a disk")
        case ["dies"] if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["long"]:
            time.sleep(60)
        case ["long", node, _] if node == here:
            time.sleep(60)
        case ["short", _]:
            time.sleep(0.05)
    return here


@pytest.fixture(scope="module")
def ray(ray_here: RayHere) -> Iterator[Ray]:
    executor = Ray(ray_here.address, ONE)
    yield executor
    executor.close()


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_a_worker_with_other_versions_is_refused_or_marked(
    ray_here: RayHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ray_cluster.collect_versions()
    do = partial(_do, folder=tmp_path)
    strict, mixed = Ray(ray_here.address, ONE), Ray(ray_here.address, ONE, mixed_versions=True)
    monkeypatch.setattr(ray_cluster, "collect_versions", lambda: here | {"torch": "1.0", "timm": "1.1"})
    what = f"torch {here['torch']} instead of 1.0, timm {here['timm']} instead of 1.1"
    with pytest.raises(QueryError, match=f"The worker .* has {what}; .* --mixed-versions"):
        next(strict.map_unordered(do, ["a"], ONE))
    assert not (tmp_path / "a").exists() and {*strict.refused.values()} == {what}
    (outcome,) = mixed.map_unordered(do, ["a"], ONE)
    assert mixed.marked[outcome.worker] == what and not mixed.refused
    mixed.close()
    strict.close()


def test_every_piece_is_done_and_tried_again(ray: Ray, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: dict[str, WorkResult[str, str]] = {}

    work = deque(("a", "fails", "once", "refused", "dies"))
    for outcome in ray.map_unordered(partial(_do, folder=tmp_path), Following(work), ONE):
        seen[outcome.work] = outcome
        work.extend(["after"] * (len(seen) == 5))
    assert seen.keys() == {"a", "fails", "once", "refused", "dies", "after"}
    assert {piece for piece, outcome in seen.items() if outcome.failed} == {"fails", "refused"}
    kinds = {piece: [failure.kind for failure in outcome.failures] for piece, outcome in seen.items()}
    assert kinds["fails"] == ["ValueError"] * N_TRIES and not kinds["after"]
    assert kinds["once"] == ["OSError"] and kinds["dies"] == ["WorkerDied"] and kinds["refused"] == ["QueryError"]
    assert len(_lines(tmp_path / "fails")) == N_TRIES
    assert [threads for _, threads in _lines(tmp_path / "once")] == ["1", "1"]
    captured = capfd.readouterr()
    assert not captured.out and not captured.err, "results go there"


def test_closing_the_iterator_ends_what_runs(ray: Ray, tmp_path: Path) -> None:
    do = partial(_do, folder=tmp_path)
    outcomes = ray.map_unordered(do, ["long", "a", "b"], ONE)
    assert next(outcomes).work == "a"
    outcomes.close()
    again = {outcome.value for outcome in ray.map_unordered(do, [f"short-{number}" for number in range(300)], ONE)}
    assert len(again) == 2, "no node is busy"


def test_a_lost_node_costs_the_piece_that_it_was_at_and_one_that_joins_gets_work(
    ray: Ray, ray_here: RayHere, tmp_path: Path
) -> None:
    lost = ray_here.second
    pieces = [f"long-{lost.node_id}-{number}" for number in range(4)]

    def kill_when_at_work() -> None:
        for _ in range(300):
            if any(line[0] == lost.node_id for piece in pieces for line in _lines(tmp_path / piece)):
                break
            time.sleep(0.1)
        ray_here.kill_node(lost)

    killer = threading.Thread(target=kill_when_at_work)
    killer.start()
    outcomes = [*ray.map_unordered(partial(_do, folder=tmp_path), pieces, ONE)]
    killer.join()
    assert {outcome.work for outcome in outcomes} == {*pieces} and not any(outcome.failed for outcome in outcomes)
    assert [failure.kind for outcome in outcomes for failure in outcome.failures] == ["WorkerDied"]
    ray_here.second = ray_here.add_node()
    worked: set[str | None] = set()

    def until_it_works() -> Iterator[str]:
        for number in range(900):
            if ray_here.second.node_id not in worked:
                yield f"short-{number}"

    for outcome in ray.map_unordered(partial(_do, folder=tmp_path), until_it_works(), ONE):
        worked.add(outcome.value)
    assert ray_here.second.node_id in worked and lost.node_id not in worked


_ALONE = """
import os, signal, sys
from tests.execution.test_ray_cluster import ONE, listening
from time import sleep
from zoo.execution.ray_cluster import Ray
from zoo.errors import QueryError

for address in sys.argv[1:]:
    try:
        Ray(address)
    except QueryError as error:
        print(error, flush=True)
before = dict(os.environ), sys.excepthook, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
executor = Ray(n_cpus=1)
assert (sys.excepthook, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before[1:]
print(sorted({address for address in listening()}), bool(os.environ["RAY_AUTH_TOKEN"]), flush=True)
try:
    for outcome in executor.map_unordered(sleep, [60], ONE):
        print("done")
except KeyboardInterrupt:
    executor.close()
    changed = {name for name, value in os.environ.items() if before[0].get(name) != value}
    print("interrupted", changed, flush=True)
"""


def listening() -> Iterator[str]:
    """Addresses at which this process and those it started listen, in hexadecimal digits, as the kernel has them."""
    sockets = set()
    for process in processes_below(os.getpid()):
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                sockets.add(os.readlink(path))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and f"socket:[{columns[9]}]" in sockets:
                yield columns[1].partition(":")[0]


def test_an_address_without_a_cluster_is_one_sentence_and_a_cluster_of_ones_own_is_for_nobody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    process = subprocess.Popen(
        [sys.executable, "-c", _ALONE, f"127.0.0.1:{port}", "ray://127.0.0.1:10001", "127.0.0.1:99999", "a b"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    said = [process.stdout.readline() for _ in range(5)]
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and not errors, errors
    for sentence, words in zip(
        said,
        (
            f"No Ray cluster answers at 127.0.0.1:{port} (Connection refused); look whether",
            "without a protocol; got 'ray://127.0.0.1:10001'",
            "is HOST:PORT, such as 10.0.0.5:6379, without a protocol; got '127.0.0.1:99999'",
            "got 'a b'",
            "['0000000000000000FFFF00000100007F', '0100007F'] True",
        ),
        strict=True,
    ):
        assert words in sentence
    assert rest == "interrupted set()\n"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=re.escape("Work on a Ray cluster needs the library 'ray'")):
        Ray()


def test_parts_of_gpus_are_packed_and_nonsense_is_refused() -> None:
    with pytest.raises(QueryError, match=re.escape("got 1 CPUs and 1.5 GPUs")):
        Ray(resources=Resources(n_gpus=1.5))
    for resources, n in (((1, 0.5), 4), ((1, 0.3), 6), ((1, 2), 1), ((8, 0.5), 2), ((3, 0.0), 5)):
        assert ray_cluster._room({"CPU": 16.0, "GPU": 2.0}, Resources(n_cpus=resources[0], n_gpus=resources[1])) == n
    assert ray_cluster._room({"CPU": 16.0}, Resources(n_gpus=0.5)) == 0


def test_the_files_for_clusters_are_what_slurm_and_ray_take(repository: Path) -> None:
    folder, rays = repository / "docs" / "cluster", find_spec("ray")
    assert rays is not None and rays.origin is not None
    schema = json.loads((Path(rays.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(yaml.safe_load((folder / "ray_cluster.yaml").read_text()), schema)
    array = (folder / "slurm_array.sbatch").read_text()
    assert subprocess.run(["bash", "-n", folder / "slurm_array.sbatch"], check=False).returncode == 0
    (last,), (parts,) = re.findall(r"#SBATCH --array=1-(\d+)", array), re.findall(r"PARTS:-(\d+)", array)
    assert last == parts, "a task a part"
