"""Work on a Ray cluster: an actor for each piece of work that nodes have room for; the only module that imports Ray.

Pieces of work and their values pass inline, the function once by the object store, nothing else.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ..errors import QueryError
from ..optional import require_extra
from .executor import (
    DIED,
    THREADS,
    Ended,
    Failure,
    PendingWork,
    Pool,
    Resources,
    Worker,
    count_cores,
    describe_version_difference,
    try_work,
)
from .executor import collect_versions as collect_versions
from .processes import format_worker_name, unpickle_function

OBJECT_STORE_BYTES = 200_000_000
"""Of a cluster that is started here; nothing large passes through it."""
DEFAULT_PORT = 6379
_LOOK_S = 1.0  # between two looks at the nodes
_ANSWER_S = 5.0  # in which a port must take a connection
_PATIENCE_S = 120.0  # without any worker, after which a run ends
_LOOPBACK = "127.0.0.1"
_LONGEST_FOLDER = 40  # of a name, for sockets lie below it, whose names may have 107 characters
_ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # at 127.0.0.1; otherwise Ray listens at all addresses of the machine
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}


class _Actor:
    """What runs in a process of the cluster."""

    def hello(self, n_cpus: int) -> tuple[str, str, dict[str, str]]:
        """Its name, its node, and the versions it computes with."""
        import ray

        os.environ.update(dict.fromkeys(THREADS, str(n_cpus)))  # for what is imported from here on
        return format_worker_name(), ray.get_runtime_context().get_node_id(), collect_versions()

    def do(self, function: bytes, work: bytes, n_cpus: int) -> bytes:
        """Value, failure and seconds of a try of a piece of work."""
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(n_cpus)
        return _dumps(try_work(lambda pickled: unpickle_function(function)(pickle.loads(pickled)), work))


class _Slot(Worker):
    """An actor, from the moment it was asked for."""

    def __init__(self, actor: Any, hello: Any) -> None:
        self.actor, self.hello = actor, hello
        self.answer: Any = None  # reference of the outcome of its piece


class Ray(Pool):
    """Workers on a Ray cluster: as many as nodes have room for.

    Nodes that join get workers, and workers that died are replaced. Workers with other versions than this process end
    the work, unless ``mixed_versions`` allows them. ``address`` is ``"HOST:PORT"`` of a cluster that runs (port 6379 if
    not given), or ``"auto"`` for the one that ``RAY_ADDRESS`` or the last ``ray start`` of this machine names; without
    it one is started on this machine, with ``n_cpus`` or all, that others cannot reach. ``resources`` are what a piece
    of work takes.

    MissingExtra if Ray is not installed; QueryError if there is no cluster at the address, or it does not let this
    process in.
    """

    def __init__(
        self,
        address: str | None = None,
        resources: Resources = Resources(),  # noqa: B008 frozen
        *,
        n_cpus: int | None = None,
        mixed_versions: bool = False,
    ) -> None:
        super().__init__()
        _room({"CPU": 1.0}, resources)
        self._resources, self._mixed = resources, mixed_versions
        self.marked: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.stored_bytes = 0
        self._coming: list[_Slot] = []  # that have not answered yet
        self._look_again = self._had_worker = 0.0
        self._why_none = ""  # no worker could start
        self._folder: Path | None = None
        self._before = dict(os.environ)
        self._ray = _import_ray()
        self._is_ours = not self._ray.is_initialized()
        said = self._ray._private.worker  # prints every death of a worker on standard output, where results go
        self._print, said.print_to_stdstream = said.print_to_stdstream, lambda *_, **__: None
        if self._is_ours:
            try:
                self._connect(address, n_cpus)
            except BaseException:
                self.close()
                raise
        self.address: str = self._ray.get_runtime_context().gcs_address
        self._remote = self._ray.remote(_Actor)

    @property
    def n_workers(self) -> int:
        """Workers that there is room for now, at least one."""
        return max(1, sum(_room(has, self._resources) for has in self._nodes()))

    @property
    def n_nodes(self) -> int:
        """Nodes on which pieces can be done, which share no memory; at least 1."""
        return max(1, sum(_room(has, self._resources) > 0 for has in self._nodes()))

    def close(self) -> None:
        """Ends the workers, and the cluster if it was started here."""
        if self._ray.is_initialized():
            for slot in [*self.workers, *self._coming]:
                self._end(slot)
        if self._is_ours:
            self._is_ours = False
            self._ray.shutdown()
            self._ray._private.worker.print_to_stdstream = self._print
            for name in os.environ.keys() | self._before.keys():
                if name.startswith("RAY_") or name in ("PYTHONPATH", "PYTHONBREAKPOINT"):
                    os.environ.pop(name, None)
                    os.environ.update({name: self._before[name]} if name in self._before else {})
            _read_again()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self, address: str | None, n_cpus: int | None) -> None:
        """Joins a cluster, or starts one of this machine that lets nobody in without its token."""
        os.environ.update(_ALONE if address is None else {})
        how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        where = address or "local"
        if address is None:
            paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # where workers find the zoo
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
            os.environ.pop("RAY_ADDRESS", None)
            parent = tempfile.gettempdir()
            parent = parent if len(parent) < _LONGEST_FOLDER else "/tmp"
            self._folder = Path(tempfile.mkdtemp(prefix="zoo-ray-", dir=parent))
            how |= {
                "num_cpus": n_cpus or count_cores(),
                "object_store_memory": OBJECT_STORE_BYTES,
                "include_dashboard": False,
                "_node_ip_address": _LOOPBACK,
                "_temp_dir": str(self._folder),
            }
        elif address != "auto":
            host, port = _host_port(address)
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            _require_answer(host, port)
        _read_again()
        from ray._private import ray_constants

        is_main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM)
        ray_constants.ENABLE_RAY_CLUSTER = os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1") != "0"
        try:
            self._ray.init(where, **how)
        except (self._ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise QueryError(
                f"Could not start or join the Ray cluster at {where}: {_last_line(error)}. One that runs is joined "
                "from a machine of its own, with its token in ~/.ray/auth_token if it has one."
            ) from error
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, handler)  # which Ray replaces

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _take(self, function: Callable[[Any], Any], resources: Resources) -> None:
        _room({"CPU": 1.0}, resources)
        if self._resources != resources:
            for slot in [*self.workers, *self._coming]:
                self._end(slot)
        self._resources = resources
        pickled = _dumps(function)
        self.stored_bytes += len(pickled)
        self._function = self._ray.put(pickled)
        self._look_again, self._had_worker = 0.0, monotonic()

    def _follow(self) -> None:
        """Asks for as many workers as there is room for; QueryError if there has been none for two minutes."""
        now = monotonic()
        if now < self._look_again:
            return
        self._look_again = now + _LOOK_S
        nodes = self._nodes()
        for _ in range(sum(_room(has, self._resources) for has in nodes) - len(self.workers) - len(self._coming)):
            actor = self._remote.options(
                num_cpus=self._resources.n_cpus,
                num_gpus=self._resources.n_gpus,
                scheduling_strategy="SPREAD",
            ).remote()
            self._coming.append(_Slot(actor, actor.hello.remote(self._resources.n_cpus)))
        if self.workers:
            self._had_worker = now
        elif now - self._had_worker > _PATIENCE_S:
            has = "; ".join(sorted({f"{one.get('CPU', 0):g} CPUs and {one.get('GPU', 0):g} GPUs" for one in nodes}))
            raise QueryError(
                f"No worker of the Ray cluster at {self.address} could start within {_PATIENCE_S:.0f} s: "
                + (self._why_none or f"its nodes have {has or 'nothing'}, and a piece of work takes {self._resources}")
                + "; 'ray status' tells what is in use."
            )

    def _begin(self, worker: Worker, piece: PendingWork) -> None:
        assert isinstance(worker, _Slot)
        worker.answer = worker.actor.do.remote(self._function, _dumps(piece.work), self._resources.n_cpus)

    def _ended(self) -> Iterator[Ended]:
        busy = {slot.answer: slot for slot in self.workers if isinstance(slot, _Slot) and slot.piece}
        coming = {slot.hello: slot for slot in self._coming}
        if not busy and not coming:
            sleep(_LOOK_S)
            return
        ready, _ = self._ray.wait([*busy, *coming], num_returns=1, timeout=_LOOK_S)
        for answer in ready:
            if answer in coming:
                self._greet(coming[answer])
                continue
            slot = busy[answer]
            seconds = monotonic() - slot.began
            try:
                yield slot, *pickle.loads(self._ray.get(answer))
            except self._ray.exceptions.RayTaskError as error:  # the value cannot be pickled
                yield slot, None, Failure(kind="RayTaskError", text=_last_line(error), is_final=False), seconds
            except self._ray.exceptions.RayError as error:
                memory = " because the memory of its node ran out" if "low on memory" in str(error) else ""
                text = f"The worker {slot.name} was killed, crashed or lost its node after {seconds:.1f} s{memory}."
                self._end(slot)
                yield slot, None, Failure(kind=DIED, text=text, is_final=False), seconds

    def _greet(self, slot: _Slot) -> None:
        """Takes in a worker that has answered, or not."""
        self._coming.remove(slot)
        try:
            slot.name, slot.place, there = self._ray.get(slot.hello)
        except self._ray.exceptions.RayTaskError as error:
            raise QueryError(
                f"A worker of the Ray cluster at {self.address} has no usable zoo ({_last_line(error)}); install there "
                "what is installed here."
            ) from error
        except self._ray.exceptions.RayError as error:
            self._why_none = _last_line(error)
            return
        what = describe_version_difference(collect_versions(), there)
        if what and not self._mixed:
            self.refused[slot.name] = what
            raise QueryError(
                f"The worker {slot.name} of the Ray cluster at {self.address} has {what}; install there what is "
                "installed here, or take other versions with --mixed-versions."
            )
        if what:
            self.marked[slot.name] = what
        self.workers.append(slot)

    def _end(self, worker: Worker) -> None:
        assert isinstance(worker, _Slot)
        for slots in (self.workers, self._coming):
            if worker in slots:
                slots.remove(worker)
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(worker.actor, no_restart=True)


def _import_ray() -> Any:
    """Ray, imported without its hook for exceptions, and with its statistics of use off."""
    hook = sys.excepthook
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with require_extra("cluster", needed_for="Work on a Ray cluster"):
            import ray
    finally:
        sys.excepthook = hook
    return ray


def _read_again() -> None:
    """Lets Ray's compiled part read the environment again."""
    from ray import _raylet as compiled

    compiled.Config.initialize("")  # type: ignore[attr-defined]
    compiled.AuthenticationTokenLoader.instance().reset_cache()  # type: ignore[attr-defined]


def _dumps(one: object) -> bytes:
    from ray import cloudpickle  # which takes functions of a script and lambdas, too

    return bytes(cloudpickle.dumps(one))  # type: ignore[no-untyped-call]


def _require_answer(host: str, port: int) -> None:
    """Refuses a port that takes no connection, for which Ray would wait longer."""
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except OSError as error:
        raise QueryError(
            f"No Ray cluster answers at {host}:{port} ({error.strerror or error}); look whether 'ray start --head' "
            "runs there and its port can be reached from this machine."
        ) from error


def _host_port(address: str) -> tuple[str, int]:
    """Host and port of an address; raises QueryError if it is none.

    >>> _host_port("node7"), _host_port("[::1]:6380")
    (('node7', 6379), ('::1', 6380))
    """
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/\[\]]+))(?::(\d{1,5}))?", address)
    if match is None or not 0 < int(match[3] or DEFAULT_PORT) < 65536:
        raise QueryError(
            f"The address of a Ray cluster is HOST:PORT, such as 10.0.0.5:{DEFAULT_PORT}, without a protocol; got "
            f"{address!r}."
        )
    return match[1] or match[2], int(match[3] or DEFAULT_PORT)


def _room(has: Mapping[str, float], resources: Resources) -> int:
    """Pieces of work that run at once on a node.

    >>> _room({"CPU": 16.0, "GPU": 2.0}, Resources(n_cpus=2, n_gpus=0.5))
    4
    """
    n_cpus, n_gpus = resources.n_cpus, resources.n_gpus
    if n_cpus < 1 or n_gpus < 0 or (n_gpus > 1 and n_gpus != int(n_gpus)):
        raise QueryError(
            f"On a Ray cluster a piece of work takes one CPU or more, and a part of a GPU or whole ones; got {n_cpus} "
            f"CPUs and {n_gpus:g} GPUs."
        )
    room = int(has.get("CPU", 0) // n_cpus)
    if n_gpus:
        gpus = int(has.get("GPU", 0))
        room = min(room, gpus // int(n_gpus) if n_gpus >= 1 else gpus * int(1 / n_gpus + 1e-9))
    return room


def _last_line(error: BaseException) -> str:
    """The line of a message of Ray that says what happened."""
    cause = getattr(error, "cause", None)
    lines = [line.strip() for line in str(cause or error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(cause or error).__name__
