"""Connections that end: closed when too little comes of them, and to public hosts alone where a stranger names one.

A socket waits anew at every byte, so that headers a byte at a time, or one "100 Continue" after the other, would never
end: the connections of a request are registered here, and closed from a thread.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from ..errors import WeightsRefused
from ..optional import require_extra

with require_extra("models", needed_for="Downloading weights"):
    import requests

_current: ContextVar[Connections] = ContextVar("connections")


class Connections:
    """The connections of one request, redirections among them; a context that ends with its answer.

    Closed once fewer than ``least_bytes`` have come in ``window_s`` seconds, by what is added to ``n_bytes``.
    ``is_public``: none is made to a host of this machine or of a network that is not public.
    """

    def __init__(self, *, window_s: float = 60.0, least_bytes: float = 1.0, is_public: bool = False) -> None:
        self.window_s, self.least_bytes = window_s, least_bytes
        self.is_public = is_public and os.environ.get("ZOO_PRIVATE_HOSTS", "").strip() in ("", "0")
        self.n_bytes, self.is_over = 0, False
        self._sockets: list[socket.socket] = []  # copies, which outlive that TLS takes the socket over
        self._has_ended = threading.Event()

    def __enter__(self) -> Connections:
        self._token = _current.set(self)
        threading.Thread(target=self._watch, name="zoo-connections", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._has_ended.set()
        _current.reset(self._token)
        for one in self._sockets:
            one.close()

    def _watch(self) -> None:
        before = 0
        while not self._has_ended.wait(self.window_s):
            if self.n_bytes - before < self.least_bytes:
                self.is_over = True
                for one in self._sockets:
                    with suppress(OSError):  # closed meanwhile
                        one.shutdown(socket.SHUT_RDWR)
            before = self.n_bytes

    def add(self, connected: socket.socket) -> None:
        """Registers a connection."""
        self._sockets.append(connected.dup())

    def require_public(self, host: str, addresses: Iterable[str]) -> None:
        """Refuses a host if one of its addresses is not public, and that matters."""
        for address in addresses if self.is_public else ():
            try:
                ip: Any = ipaddress.ip_address(address.partition("%")[0])
            except ValueError:  # a name
                continue
            if not (getattr(ip, "ipv4_mapped", None) or ip).is_global:
                raise WeightsRefused(
                    f"The card names the host {host} ({ip}), which is of this machine or of a network that is not "
                    "public, expected a public one; get the file yourself and give its path, or set "
                    "ZOO_PRIVATE_HOSTS=1 if you trust the card."
                )


class _RegisteredConnection:
    """A connection of urllib3 that registers itself."""

    host: str
    port: int
    proxy: Any

    def _new_conn(self) -> socket.socket:
        of = _current.get()
        is_direct = self.proxy is None  # or the host is that of the proxy, which the user has set
        if is_direct and of.is_public:
            with suppress(socket.gaierror):  # said when it is connected
                found = socket.getaddrinfo(self.host.strip("[]"), self.port, type=socket.SOCK_STREAM)
                of.require_public(self.host, (str(one[4][0]) for one in found))
        connected: socket.socket = super()._new_conn()  # type: ignore[misc]
        of.add(connected)
        if is_direct:  # again, for a name may mean another host a moment later
            of.require_public(self.host, [connected.getpeername()[0]])
        return connected


@cache
def _watched(kind: type) -> Any:
    return (
        kind
        if issubclass(kind, _RegisteredConnection)
        else type("WatchedConnection", (_RegisteredConnection, kind), {})
    )


class RegisteringAdapter(requests.adapters.HTTPAdapter):
    """Transport of requests whose connections register themselves with the current :class:`Connections`."""

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        """One request, redirections apart, of which a proxy may never say the address of its host."""
        host = urlsplit(request.url or "").hostname or ""
        _current.get().require_public(host, ["127.0.0.1" if host == "localhost" else host])
        return super().send(request, *arguments, **options)

    def get_connection_with_tls_context(self, *arguments: Any, **options: Any) -> Any:
        """The pool for a request."""
        pool: Any = super().get_connection_with_tls_context(*arguments, **options)
        pool.ConnectionCls = _watched(pool.ConnectionCls)
        return pool
