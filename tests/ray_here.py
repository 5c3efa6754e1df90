"""A Ray cluster of two nodes on this machine, at loopback, with a token; started once a module.

A module of tests takes it by ``pytest_plugins = ("tests.ray_here",)`` and the fixture ``ray_here``.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
_OBJECT_STORE_BYTES = 100_000_000  # a node; two may be at once


class RayHere:
    """Nodes of one CPU each: the first, which the driver is on, and others that come and go, such as ``second``."""

    def __init__(self, n_nodes: int = 2, *, n_cpus: int = 1, object_store_bytes: int = _OBJECT_STORE_BYTES) -> None:
        from ray import _raylet as compiled
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        compiled.Config.initialize("")
        compiled.AuthenticationTokenLoader.instance().reset_cache()
        ray_constants.ENABLE_RAY_CLUSTER = False  # 127.0.0.1 is an address of nodes; as if Ray were imported anew
        self._with = {
            "node_ip_address": "127.0.0.1",
            "object_store_memory": object_store_bytes,
            "num_cpus": n_cpus,
            "include_log_monitor": False,
        }
        head = {**self._with, "include_dashboard": False, "no_monitor": True}
        self._cluster = Cluster(head_node_args=head, initialize_head=True)
        self.address: str = self._cluster.address
        others = [self.add_node() for _ in range(n_nodes - 1)]
        self.second = others[0] if others else None

    def add_node(self) -> Any:
        """Starts another node."""
        return self._cluster.add_node(**self._with)

    def kill_node(self, node: Any) -> None:
        """Kills all processes of a node but the first one, its workers too, as if the machine were gone."""
        for started in node.all_processes.values():
            for process in [below for one in started for below in processes_below(one.process.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        """Ends all nodes."""
        self._cluster.shutdown()


def processes_below(process: int) -> set[int]:
    """A process and all that it started, as far as they live."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    added = {process}
    while added:
        found |= added
        added = {one for one, parent in parents.items() if parent in found} - found
    return found


ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else all addresses of this machine are listened at
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(REPOSITORY),  # where workers find the zoo and the tests
}


@pytest.fixture(scope="module")
def ray_here() -> Iterator[RayHere]:
    """The cluster, with the environment that lets this process in."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (ENVIRONMENT | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}).items():
            patch.setenv(name, value)
        cluster = RayHere()
        yield cluster
        cluster.end()
