"""A Ray cluster of two nodes on this machine, at loopback, with a token; started once a module.

A module of tests takes it by ``pytest_plugins = ("tests.ray_here",)`` and the fixture ``ray_here``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
_OBJECT_STORE_BYTES = 100_000_000  # a node; two may be at once


class RayHere:
    """Nodes of one CPU each: the first, which the driver is on, and others that come and go."""

    def __init__(self, *, n_cpus: int = 1, object_store_bytes: int = _OBJECT_STORE_BYTES) -> None:
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
        self._cluster = Cluster(head_node_args={**self._with, "include_dashboard": False}, initialize_head=True)
        self.address: str = self._cluster.address
        self.second = self.add_node()

    def add_node(self) -> Any:
        """Starts another node."""
        return self._cluster.add_node(**self._with)

    def kill_node(self, node: Any) -> None:
        """Kills all processes of a node but the first, as if the machine were gone."""
        self._cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        """Ends all nodes."""
        self._cluster.shutdown()


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
