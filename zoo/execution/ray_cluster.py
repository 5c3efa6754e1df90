"""Work on a Ray cluster: one worker a slot on every node, as many as fit; the only module that imports Ray.

Of Ray it takes actors alone. What is tried again, where and how often is decided here, so that it is the same on every
executor. Pieces of work and their values pass inline, the function once by the object store, nothing else.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Generic, Literal, TypeVar

from ..errors import QueryError
from ..optional import requires_extra
from .executor import N_TRIES, WAIT, Failure, Outcome, Resources, Wait, attempt, n_cores
from .processes import THREADS, worker_name
from .versions import difference, versions

W = TypeVar("W")
R = TypeVar("R")

OBJECT_STORE_BYTES = 200_000_000
"""Of a cluster that is started here; nothing large passes through it."""

DEFAULT_PORT = 6379
_STATUS = re.compile(rb"grpc-status(\x01\d|\x02\d\d)")
_UNAUTHENTICATED = b"\x0216"
NO_TOKEN = "the token is missing or another one"
_ANSWER_S = 5.0  # in which a port must take a connection
_CONNECT_S = 20.0  # in which Ray must be connected to a port that does
_START_S = 120.0  # in which a cluster of this machine must have started
_PATIENCE_S = 120.0  # without any worker, after which a run ends
_LOST_S = 15.0  # after which a cluster that does not answer counts as lost
_LOOK_S = 1.0  # between two looks at the nodes
_SOON_S = 30.0  # in which a worker that was asked for counts as one
_LONGEST_FOLDER = 40  # of a name, for sockets lie below it, whose names may have 107 characters
_INLINE_BYTES = 100 * 1024  # what is larger goes through the object store
_LOOPBACK = "127.0.0.1"
_SWITCH = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Where it is 0, a node that is started has the address 127.0.0.1 and its processes listen there alone; otherwise they
listen at all addresses of the machine, whatever address Ray is given."""


class _Worker:
    """What runs in a process of the cluster."""

    def __init__(self) -> None:
        self._function: Callable[[Any], Any]
        self._n_cpus = 1

    def hello(self, n_cpus: int) -> tuple[str, dict[str, str]]:
        """Its name, and the versions it computes with."""
        self._n_cpus = n_cpus
        os.environ.update(dict.fromkeys(THREADS, str(n_cpus)))  # for what is imported from here on
        return worker_name(), versions()

    def begin(self, function: bytes) -> None:
        """Takes the function of the pieces that follow."""
        try:
            self._function = pickle.loads(function)
        except Exception as error:  # an import may raise anything, which every piece is then told
            self._function = partial(_raise, error)

    def do(self, work: bytes, number: int) -> bytes:
        """Value, failure and seconds of a try of a piece of work."""
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(self._n_cpus)
        value, failure, seconds = attempt(self._function, pickle.loads(work), number)
        return _dumps((value, failure, seconds))


@dataclass(eq=False, slots=True, kw_only=True)
class _Slot:
    """A worker on a node, from the moment it was asked for."""

    actor: Any
    node: str
    hello: Any  # reference of its answer, None once it was there
    began: float
    name: str = ""
    number: int
    function: int = 0  # number of the function that it has


@dataclass(eq=False, slots=True, kw_only=True)
class _Piece(Generic[W]):
    work: W
    payload: bytes
    failures: list[Failure] = field(default_factory=list)
    slots: set[int] = field(default_factory=set)  # ids of those that tried it
    nodes: set[str] = field(default_factory=set)


class Ray:
    """Workers on a Ray cluster: one for each slot of ``resources`` that a node has room for.

    Nodes that join get workers, and workers that died are replaced while their node is there. A worker that computes
    with other versions than this process is not used.

    Parameters
    ----------
    address : str, optional
        ``"HOST:PORT"`` of a cluster that runs (port 6379 if not given), ``"auto"`` for the one that ``RAY_ADDRESS``
        or the last ``ray start`` of this machine names. None starts one on this machine that others cannot reach.
    resources : Resources
        What a piece of work takes, for :attr:`n_workers`.
    n_cpus : int, optional
        Of a cluster that is started here; all cores if not given.
    mixed_versions : bool
        Uses workers with other versions, too, and notes them in :attr:`marked`.
    patience : float
        Seconds without any worker after which a run ends.

    Attributes
    ----------
    address : str
        Of the cluster.
    marked, refused : dict of str to str
        Workers with other versions that are used, or are not, and what differs.
    stored_bytes : int
        What was put into the object store, in bytes.

    Raises
    ------
    MissingExtra
        Ray is not installed.
    QueryError
        There is no cluster at the address, it does not answer in time, or does not let this process in.
    """

    def __init__(
        self,
        address: str | None = None,
        resources: Resources = Resources(),  # noqa: B008 frozen
        *,
        n_cpus: int | None = None,
        mixed_versions: bool = False,
        patience: float = _PATIENCE_S,
    ) -> None:
        self._wanted = versions()
        self._resources, self._mixed, self._patience = resources, mixed_versions, patience
        self.marked: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.stored_bytes = 0
        self._slots: list[_Slot] = []
        self._refused_nodes: set[str] = set()
        self._held: Resources | None = None  # what the slots have
        self._n_slots = self._n_functions = 0
        self._is_running = False
        self._look_again = self._answered = self._had_worker = 0.0
        self._why_none = ""  # no worker could start
        _room({"CPU": 1.0}, resources)
        self._ray = _import_ray()
        self._connection = _Connection(self._ray, address, n_cpus)
        self.address = self._connection.address
        self._remote = self._ray.remote(_Worker)

    @property
    def n_workers(self) -> int:
        """Workers that there is room for now, at least one."""
        nodes = self._ray.nodes()
        return max(1, sum(_room(node["Resources"], self._resources) for node in nodes if node["Alive"]))

    @property
    def n_nodes(self) -> int:
        """Nodes on which pieces can be done, which share no memory; at least 1."""
        nodes = self._ray.nodes()
        return max(1, sum(_room(node["Resources"], self._resources) > 0 for node in nodes if node["Alive"]))

    def map_unordered(
        self, function: Callable[[W], R], work: Iterable[W | Literal[Wait.WAIT]], resources: Resources
    ) -> Iterator[Outcome[W, R]]:
        """Outcomes of all pieces of work, in the order in which they end.

        See :meth:`Executor.map_unordered <zoo.execution.executor.Executor.map_unordered>`.

        Raises QueryError if no worker may be used, none has been there for the time of ``patience``, or the cluster
        does not answer any more.
        """
        if self._is_running:
            raise RuntimeError("this executor is at other work already; end that first")
        _room({"CPU": 1.0}, resources)
        self._is_running = True
        busy: dict[Any, tuple[_Slot, _Piece[W], float]] = {}
        try:
            yield from self._outcomes(function, iter(work), resources, busy)
        finally:
            self._is_running = False
            for slot, _, _ in busy.values():
                self._end(slot)

    def _outcomes(
        self,
        function: Callable[[W], R],
        work: Iterator[W | Literal[Wait.WAIT]],
        resources: Resources,
        busy: dict[Any, tuple[_Slot, _Piece[W], float]],
    ) -> Iterator[Outcome[W, R]]:
        ray = self._ray
        if self._held != resources:
            for slot in [*self._slots]:
                self._end(slot)
            self._held = resources
        self._n_functions += 1
        pickled = _dumps(function)
        self.stored_bytes += len(pickled)
        function_at = ray.put(pickled)
        again: list[_Piece[W]] = []
        is_over = waits = False
        self._look_again, self._had_worker = 0.0, monotonic()
        while True:
            self._follow(resources)
            for slot in self._idle(busy):
                piece = self._take_again(again, slot)
                if piece is None and not is_over and not waits:
                    one = next(work, None)
                    if one is None:
                        is_over = True
                    elif one is WAIT:
                        waits = True
                    else:
                        piece = _Piece(work=one, payload=_dumps(one))
                if piece is not None:
                    busy[self._hand(slot, piece, function_at)] = slot, piece, monotonic()
            if not busy and not again:
                if is_over:
                    return
                if waits:
                    raise RuntimeError("the work waits for an outcome while none is under way")
            self._make_room(again, busy)
            for ref in self._ready(busy):
                slot, piece, began = busy.pop(ref)
                value, failure, seconds = self._answer(ref, slot, began)
                if failure is not None:
                    piece.failures.append(failure)
                    if not failure.is_final and len(piece.failures) < N_TRIES:
                        again.append(piece)
                        continue
                waits = False
                yield Outcome(
                    work=piece.work,
                    value=value,
                    failures=tuple(piece.failures),
                    worker=slot.name,
                    seconds=seconds,
                )

    def close(self) -> None:
        """Ends the workers, and the cluster if it was started here."""
        if self._connection.is_open:
            for slot in [*self._slots]:
                self._end(slot)
            self._connection.close()

    def _follow(self, resources: Resources) -> None:
        """Lets the workers follow the nodes; raises QueryError where there is nothing to wait for."""
        now = monotonic()
        if now < self._look_again:
            return
        self._look_again = now + _LOOK_S
        if self._connection.is_cut:
            raise QueryError(
                f"Ray's processes on this machine, by which it is in the cluster at {self.address}, have ended; "
                "start Ray again and go on with 'zoo runs resume'."
            )
        if not self._connection.answers():
            if now - self._connection.answered > _LOST_S:
                raise QueryError(
                    f"The Ray cluster at {self.address} has not answered for {_LOST_S:.0f} s, as if its first node "
                    "were gone; start it again and go on with 'zoo runs resume'."
                )
            return
        nodes = {node["NodeID"]: node["Resources"] for node in self._ray.nodes() if node["Alive"]}
        for slot in [*self._slots]:
            if slot.node not in nodes:
                self._end(slot)
        for node, has in nodes.items():
            if node not in self._refused_nodes:
                for _ in range(_room(has, resources) - sum(slot.node == node for slot in self._slots)):
                    self._slots.append(self._start(node, resources))
        if any(slot.hello is None for slot in self._slots):
            self._had_worker = now
        elif self.refused and not self._slots:
            name, what = next(iter(self.refused.items()))
            raise QueryError(
                f"No worker of the Ray cluster at {self.address} may be used: {name} has {what}; install there what is "
                "installed here, or take other versions with --mixed-versions."
            )
        elif now - self._had_worker > self._patience:
            raise QueryError(
                f"No worker of the Ray cluster at {self.address} could start within {self._patience:.0f} s: "
                + (self._why_none or f"{_shown(nodes.values())}, and a piece of work takes {_shown_taken(resources)}")
                + "; 'ray status' tells what is in use."
            )

    def _start(self, node: str, resources: Resources) -> _Slot:
        self._n_slots += 1
        actor = self._remote.options(
            num_cpus=resources.n_cpus,
            num_gpus=resources.n_gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote()
        hello = actor.hello.remote(resources.n_cpus)
        return _Slot(actor=actor, node=node, hello=hello, began=monotonic(), number=self._n_slots)

    def _end(self, slot: _Slot) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(slot.actor, no_restart=True)

    def _greet(self, slot: _Slot) -> None:
        """Takes in a worker that has answered, or not."""
        try:
            slot.name, here = self._ray.get(slot.hello)
        except self._ray.exceptions.RayTaskError as error:  # it lacks the zoo, or has one without this module
            self._refuse(slot, f"node {slot.node[:8]}", f"no usable zoo ({_last_line(error)})")
            return
        except self._ray.exceptions.RayError as error:
            self._why_none = _last_line(error)
            self._end(slot)
            return
        slot.hello = None
        what = difference(self._wanted, here)
        if what and self._mixed:
            self.marked[slot.name] = what
        elif what:
            self._refuse(slot, slot.name, what)

    def _refuse(self, slot: _Slot, name: str, what: str) -> None:
        self.refused[name] = what
        self._refused_nodes.add(slot.node)
        for other in [*self._slots]:
            if other.node == slot.node:
                self._end(other)

    def _idle(self, busy: Mapping[Any, tuple[_Slot, _Piece[W], float]]) -> list[_Slot]:
        at_work = {slot.number for slot, _, _ in busy.values()}
        return [slot for slot in self._slots if slot.hello is None and slot.number not in at_work]

    def _take_again(self, again: list[_Piece[W]], slot: _Slot) -> _Piece[W] | None:
        """Takes a piece that failed elsewhere: on another node, if one has workers."""
        for piece in again:
            if slot.number in piece.slots:
                continue
            if slot.node in piece.nodes and any(
                other.node not in piece.nodes and (other.hello is None or monotonic() - other.began < _SOON_S)
                for other in self._slots
            ):
                continue
            again.remove(piece)
            return piece
        return None

    def _make_room(self, again: list[_Piece[W]], busy: Mapping[Any, tuple[_Slot, _Piece[W], float]]) -> None:
        """Replaces a worker by a new one if a piece has failed on all that there are."""
        for piece in again:
            if self._slots and all(slot.number in piece.slots for slot in self._slots):
                for slot in self._idle(busy)[:1]:
                    self._end(slot)
                    self._look_again = 0.0

    def _hand(self, slot: _Slot, piece: _Piece[W], function_at: Any) -> Any:
        """Reference of the answer of a worker that is given a piece of work."""
        piece.slots.add(slot.number)
        piece.nodes.add(slot.node)
        if slot.function != self._n_functions:
            slot.actor.begin.remote(function_at)
            slot.function = self._n_functions
        if len(piece.payload) > _INLINE_BYTES:
            self.stored_bytes += len(piece.payload)
        return slot.actor.do.remote(piece.payload, len(piece.failures) + 1)

    def _ready(self, busy: Mapping[Any, tuple[_Slot, _Piece[W], float]]) -> list[Any]:
        """References of pieces that ended; waits a moment for one, and greets workers meanwhile."""
        hellos = {slot.hello: slot for slot in self._slots if slot.hello is not None}
        pending = [*busy, *hellos]
        if not pending:
            sleep(_LOOK_S / 4)
            return []
        ready, _ = self._ray.wait(pending, num_returns=1, timeout=_LOOK_S)
        for ref in ready:
            if ref in hellos:
                self._greet(hellos[ref])
        lost = [ref for ref, (slot, _, _) in busy.items() if slot not in self._slots]
        return [ref for ref in ready if ref in busy] + [ref for ref in lost if ref not in ready]

    def _answer(self, ref: Any, slot: _Slot, began: float) -> tuple[Any, Failure | None, float]:
        """What a worker made of a piece of work."""
        seconds = monotonic() - began
        try:
            answer = self._ray.get(ref, timeout=None if slot in self._slots else 0.0)
        except self._ray.exceptions.RayTaskError as error:
            return None, Failure(kind=type(error.cause).__name__, text=_last_line(error), is_final=False), seconds
        except self._ray.exceptions.RayError as error:
            self._end(slot)
            memory = " because the memory of its node ran out" if "low on memory" in str(error) else ""
            text = f"The worker {slot.name} was killed, crashed or lost its node after {seconds:.1f} s{memory}."
            return None, Failure(kind="WorkerDied", text=text, is_final=False), seconds
        if len(answer) > _INLINE_BYTES:
            self.stored_bytes += len(answer)
        value, failure, seconds = pickle.loads(answer)
        return value, failure, seconds


class _Connection:
    """The connection of this process to a cluster, and the cluster if it was started for it."""

    def __init__(self, ray: Any, address: str | None, n_cpus: int | None) -> None:
        self._ray = ray
        self._ended = threading.Event()
        self._environment: dict[str, str | None] = {}
        self._folder: Path | None = None
        self._token = ""
        self._say: Callable[..., None] | None = None
        self.is_open = self._is_ours = False
        self.answered = monotonic()
        if ray.is_initialized():
            self.address, self._token = ray.get_runtime_context().gcs_address, _token()
            if address not in (None, "auto", self.address):
                raise QueryError(
                    f"This process is connected to the Ray cluster at {self.address} and cannot be to {address!r}, "
                    "too; end the first connection with ray.shutdown(), or take another process."
                )
        else:
            self._is_ours = True
            try:
                if address is None:
                    self._start(n_cpus)
                else:
                    self._connect(address)
            except BaseException:
                self.is_open = True
                self.close()
                raise
        self.is_open = True
        here = ray.get_runtime_context().get_node_id()
        (node,) = [node for node in ray.nodes() if node["NodeID"] == here]
        self._node = node["NodeManagerAddress"], node["NodeManagerPort"]
        atexit.register(self.close)

    @property
    def is_cut(self) -> bool:
        """True if the node of this process has ended; Ray then ends this process without a word, but seconds later."""
        try:
            with socket.create_connection(self._node, timeout=_ANSWER_S):
                return False
        except ConnectionRefusedError:
            return True
        except OSError:
            return False

    def answers(self) -> bool:
        """True if the first node of the cluster answers."""
        host, port = _host_port(self.address)
        if refusal(host, port, token=self._token):
            return False
        self.answered = monotonic()
        return True

    def close(self) -> None:
        """Disconnects, unless somebody else connected; ends what was started, and puts the environment back."""
        if not self.is_open:
            return
        self.is_open = False
        atexit.unregister(self.close)
        if self._is_ours:
            self._ray.shutdown()
            if self._say is not None:
                self._ray._private.worker.print_to_stdstream = self._say
            self._ended.set()
            for name, value in self._environment.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, n_cpus: int | None) -> None:
        """Starts a cluster of this machine that listens on loopback alone and lets nobody in without its token."""
        folder = tempfile.gettempdir()
        self._folder = Path(
            tempfile.mkdtemp(prefix="zoo-ray-", dir=folder if len(folder) < _LONGEST_FOLDER else "/tmp")
        )
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        self._set(
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),
            RAY_AUTH_TOKEN_PATH=None,
            RAY_ADDRESS=None,
            PYTHONPATH=os.pathsep.join(filter(None, paths)),
            **{_SWITCH: "0"},
        )
        self._keep_to_loopback(True)
        self._within(
            _START_S,
            "a Ray cluster of this machine",
            lambda: self._ray.init(
                "local",
                num_cpus=n_cpus or n_cores(),
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
                _node_ip_address=_LOOPBACK,
                _temp_dir=str(self._folder),
            ),
        )
        self.address, self._token = self._ray.get_runtime_context().gcs_address, _token()
        elsewhere = {node["NodeManagerAddress"] for node in self._ray.nodes()} - {_LOOPBACK}
        if elsewhere or _host_port(self.address)[0] != _LOOPBACK:
            raise QueryError(
                f"Ray {self._ray.__version__} listens at {', '.join(sorted(elsewhere)) or self.address} instead of "
                f"{_LOOPBACK}, so the cluster was ended again; start one with 'ray start --head' and name its address."
            )

    def _connect(self, address: str) -> None:
        """Connects to a cluster that runs, with the token that this user has for it."""
        if address == "auto":
            try:
                address = self._ray._private.services.get_ray_address_from_environment("auto", None)
            except ConnectionError:
                raise QueryError(
                    "No Ray cluster was found on this machine; start one with 'ray start --head', or name the address "
                    "of another: --on ray:HOST:PORT."
                ) from None
        host, port = _host_port(address)
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._set()
        if "RAY_AUTH_MODE" not in os.environ and _token(ignore_mode=True):
            self._set(RAY_AUTH_MODE="token")
        self._token = _token()
        why = refusal(host, port, token=self._token)
        if why == NO_TOKEN:
            raise QueryError(
                f"The Ray cluster at {self.address} lets nobody in without its token, and here {NO_TOKEN}; put it into "
                "~/.ray/auth_token or into a file that RAY_AUTH_TOKEN_PATH names."
            )
        if why:
            raise QueryError(
                f"No Ray cluster answers at {self.address} ({why}); look whether 'ray start --head' runs there and its "
                "port can be reached from this machine."
            )
        self._keep_to_loopback(_is_loopback(host) and self._is_on_loopback_alone(port))
        self._within(
            _CONNECT_S,
            f"the Ray cluster at {self.address}",
            lambda: self._ray.init(self.address, log_to_driver=False, logging_level="ERROR"),
        )
        self.address = self._ray.get_runtime_context().gcs_address

    def _within(self, seconds: float, what: str, connect: Callable[[], object]) -> None:
        """Calls what connects this process, and gives up after a time.

        It does so in a thread: in the main one, Ray would replace the handler of SIGTERM. The thread stays until this
        is closed, for what it starts is to end with it.
        """
        outcome: list[BaseException | None] = []
        is_there = threading.Event()

        def run() -> None:
            try:
                connect()
                outcome.append(None)
            except BaseException as error:  # raised again below
                outcome.append(error)
            is_there.set()
            self._ended.wait()

        said, breakpoints = self._ray._private.worker, "PYTHONBREAKPOINT"
        self._say, said.print_to_stdstream = said.print_to_stdstream, _say_nothing
        self._environment.setdefault(breakpoints, os.environ.get(breakpoints))
        threading.Thread(target=run, name="connection to Ray", daemon=True).start()
        if not is_there.wait(seconds):
            raise QueryError(
                f"Could not start or join {what} within {seconds:.0f} s; join one from a machine of its own, where "
                "'ray start --address=HOST:PORT' has run."
            )
        error = outcome[0]
        if isinstance(error, self._ray.exceptions.AuthenticationError):
            raise QueryError(
                f"RAY_AUTH_MODE is 'token', and there is no token for {what}; put it into ~/.ray/auth_token or into a "
                "file that RAY_AUTH_TOKEN_PATH names."
            ) from error
        if error is not None:
            raise QueryError(f"Could not start or join {what}: {_last_line(error)}") from error

    def _set(self, **variables: str | None) -> None:
        """Sets variables of the environment until this is closed; what Ray has read of them is read again."""
        always = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
        for name, value in [*always.items(), *variables.items()]:
            self._environment.setdefault(name, os.environ.get(name))
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _read_again()

    def _keep_to_loopback(self, alone: bool) -> None:
        """Whether Ray takes 127.0.0.1 for an address of this machine, which it decides when it is imported."""
        self._ray._private.ray_constants.ENABLE_RAY_CLUSTER = not alone

    def _is_on_loopback_alone(self, port: int) -> bool:
        """True if a port takes connections at loopback and not at the address that Ray would take for it."""
        self._keep_to_loopback(False)
        return bool(refusal(self._ray.util.get_node_ip_address(), port))


def refusal(host: str, port: int, *, token: str = "") -> str:
    """Why no server of Ray answers at a port, empty if one does; asked as gRPC does, but in a second and silently.

    ``token`` is what goes into the header ``authorization``.
    """
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/ray.rpc.NodeInfoGcsService/GetClusterId",
        ":authority": f"{host}:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
        "authorization": token,
    }
    pairs = [(name.encode(), value.encode()) for name, value in headers.items() if value]
    block = b"".join(b"\0%c%b%c%b" % (len(name), name, len(value), value) for name, value in pairs if len(value) < 127)
    question = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"") + _frame(1, 4, 1, block)
    answer, until = b"", monotonic() + _ANSWER_S
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_S) as connection:
            connection.sendall(question + _frame(0, 1, 1, bytes(5)))
            while not _STATUS.search(answer) and monotonic() < until:
                part = connection.recv(4096)
                if not part:
                    break
                answer += part
    except TimeoutError:
        return f"no answer within {_ANSWER_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    status = _STATUS.search(answer)
    if status is None:
        return "what answers there is not Ray"
    return NO_TOKEN if status[1] == _UNAUTHENTICATED else ""


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _import_ray() -> Any:
    """Ray, imported without its hook for exceptions, and with its statistics of use off."""
    hook = sys.excepthook
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with requires_extra("cluster", needed_for="Work on a Ray cluster"):
            import ray
            import ray.util.scheduling_strategies
    finally:
        sys.excepthook = hook
    return ray


def _read_again() -> None:
    """Lets Ray's compiled part read the environment again."""
    from ray import _raylet as compiled

    compiled.Config.initialize("")  # type: ignore[attr-defined]
    compiled.AuthenticationTokenLoader.instance().reset_cache()  # type: ignore[attr-defined]


def _token(*, ignore_mode: bool = False) -> str:
    """What this user's requests to a cluster have in their header ``authorization``."""
    from ray import _raylet as compiled

    tokens = compiled.AuthenticationTokenLoader.instance()  # type: ignore[attr-defined]
    if not tokens.has_token(ignore_auth_mode=True) or not (ignore_mode or os.environ.get("RAY_AUTH_MODE") == "token"):
        return ""
    return str(next(iter(tokens.get_token_for_http_header().values()), "a token"))


def _say_nothing(*_: object, **__: object) -> None:
    """In place of what prints every death of a worker on standard output, where results go."""


def _raise(error: Exception, work: object) -> None:
    raise error


def _dumps(one: object) -> bytes:
    from ray import cloudpickle  # which takes functions of a script and lambdas, too

    return bytes(cloudpickle.dumps(one))  # type: ignore[no-untyped-call]


def _host_port(address: str) -> tuple[str, int]:
    """Host and port of an address; raises QueryError if it is none.

    >>> _host_port("node7"), _host_port("[::1]:6380")
    (('node7', 6379), ('::1', 6380))
    """
    if "://" in address:
        raise QueryError(
            f"The address {address!r} of a Ray cluster begins with a protocol, and Ray's client is not used here; run "
            "the command on a machine of the cluster, with --on ray:HOST:PORT."
        )
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/\[\]]+))(?::(\d{1,5}))?", address)
    if match is None or not 0 < int(match[3] or DEFAULT_PORT) < 65536:
        raise QueryError(
            f"The address of a Ray cluster is HOST:PORT, such as 10.0.0.5:{DEFAULT_PORT}; got {address!r}."
        )
    return match[1] or match[2], int(match[3] or DEFAULT_PORT)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


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


def _shown(nodes: Iterable[Mapping[str, float]]) -> str:
    """What nodes have, for a sentence."""
    had = [f"{has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs" for has in nodes]
    return f"its nodes have {'; '.join(sorted(set(had)))}" if had else "it has no node"


def _shown_taken(resources: Resources) -> str:
    return f"{resources.n_cpus} CPUs and {resources.n_gpus:g} GPUs"


def _last_line(error: BaseException) -> str:
    """The line of a message of Ray that says what happened."""
    cause = getattr(error, "cause", None)
    lines = [line.strip() for line in str(cause or error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(cause or error).__name__
