"""Servers of files on loopback that can be told to answer wrongly, and keep a log of what was asked and sent.

with serving({"/a.pth": body}) as server:
    server.plan("/a.pth", Fault(truncate=1000), Fault(status=503))  # the first two answers; the rest are right
    fetch(f"{server.url}/a.pth", folder=folder)
    assert [request.range for request in server.log] == ["", "bytes=1000-", "bytes=1000-"]
"""

from __future__ import annotations

import gzip
import os
import re
import select
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

LAST_MODIFIED = "Wed, 21 Oct 2015 07:28:00 GMT"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
_STALL_S = 60.0  # at most, and only while the client is there


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How one request is answered; as it stands, rightly."""

    status: int = 0  # with a short text instead of the file
    headers: Mapping[str, str | None] = field(default_factory=dict)  # more, other, or (None) fewer ones
    redirect: str = ""  # address to go to
    body: bytes | None = None  # another file under the same name, with validators of its own
    truncate: int | None = None  # closes after so many bytes of this answer
    reset: int | None = None  # breaks the connection after so many
    stall: int | None = None  # falls silent after so many; -1: before the first line
    surplus: bytes = b""  # sent after the promised length
    ignores_range: bool = False
    ignores_if_range: bool = False  # goes on with a body that has changed
    is_gzipped: bool = False
    is_chunked: bool = False
    piece_bytes: int = 0  # sends so many at once
    pause_s: float = 0.0  # and waits so long after each


RIGHT = Fault()


@dataclass(slots=True)
class Request:
    """One request and what was sent for it."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    status: int = 0
    sent_bytes: int = 0  # of the body; given to the connection, though perhaps never read

    @property
    def range(self) -> str:
        """The header Range, "" if there was none."""
        return self.headers.get("range", "")


class Server:
    """A server of files, running until its ``with`` block ends."""

    def __init__(self, files: Mapping[str, bytes], *, send_buffer_bytes: int = 0) -> None:
        self.files = dict(files)  # by path, without a query
        self.headers: dict[str, dict[str, str]] = defaultdict(dict)  # of right answers, by path
        self.log: list[Request] = []
        self.missing: Callable[[str], Fault] = lambda path: Fault(status=404)
        self.stopped = threading.Event()
        self._plans: dict[str, list[Fault]] = defaultdict(list)
        self._always: dict[str, Fault] = {}
        self._lock = threading.Lock()

        class Handler(_Handler):
            server_of_files = self

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Clients are killed here on purpose."""

        self._listener = Listener(("127.0.0.1", 0), Handler)
        if send_buffer_bytes:  # inherited by every connection
            self._listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self.url = f"http://127.0.0.1:{self._listener.server_address[1]}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopped.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(timeout=10)
        self.files = {}  # which may be large, and the classes above refer to this object in a circle
        self._plans.clear()
        self._always.clear()

    def plan(self, path: str, *faults: Fault) -> None:
        """How the next requests for a path are answered, one after the other; the path may carry a query."""
        with self._lock:
            self._plans[path].extend(faults)

    def always(self, path: str, fault: Fault) -> None:
        """How every request for a path is answered, after those that are planned."""
        self._always[path] = fault

    def next_fault(self, path: str) -> Fault:
        """Taken from the plan of the path as it is, or without its query."""
        bare = path.partition("?")[0]
        with self._lock:
            planned = self._plans.get(path) or self._plans.get(bare)
            return planned.pop(0) if planned else self._always.get(path, self._always.get(bare, RIGHT))

    @property
    def sent_bytes(self) -> int:
        """Of all bodies."""
        return sum(request.sent_bytes for request in list(self.log))


@contextmanager
def serving(files: Mapping[str, bytes], *, send_buffer_bytes: int = 0) -> Iterator[Server]:
    """A server of these files, by path (``{"/a.pth": content}``); its address is ``server.url``."""
    with Server(files, send_buffer_bytes=send_buffer_bytes) as server:
        yield server


@contextmanager
def serving_hub(repositories: Mapping[str, Mapping[str, bytes]], *, gated: tuple[str, ...] = ()) -> Iterator[Server]:
    """What huggingface_hub needs of the Hub, for ``{"owner/repository": {"model.safetensors": content}}``.

    Point ``HF_ENDPOINT`` to ``server.url`` before huggingface_hub is imported.
    """
    with Server({}) as server:
        for repository, contents in repositories.items():
            for name, content in contents.items():
                put_into_hub(server, repository, name, content)

        def missing(path: str) -> Fault:
            repository = "/".join(unquote(path).split("/")[1:3])
            if repository in gated:
                return Fault(
                    status=403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"}
                )
            if repository not in repositories:
                return Fault(status=404, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "Not found"})
            return Fault(status=404, headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})

        server.missing = missing
        yield server


def put_into_hub(server: Server, repository: str, name: str, content: bytes, *, revision: str = "main") -> str:
    """Puts a large file into a repository; returns its path on the server."""
    path = f"/{repository}/resolve/{revision}/{quote(name)}"
    server.files[path] = content
    server.headers[path] = {
        "X-Repo-Commit": COMMIT,
        "X-Linked-Etag": f'"{sha256(content).hexdigest()}"',
        "X-Linked-Size": str(len(content)),
    }
    return path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_files: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        server = self.server_of_files
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers)
        server.log.append(request)
        path = self.path.partition("?")[0]
        fault = server.next_fault(self.path)
        if fault is RIGHT and path not in server.files:
            fault = server.missing(path)
        if fault.stall == -1:
            self._stall()
            return
        if fault.redirect:
            self._send(request, fault, fault.status or 302, b"", {"Location": fault.redirect}, with_body=False)
            return
        if fault.status:
            text = f"status {fault.status}".encode()
            self._send(request, fault, fault.status, text, {"Content-Type": "text/plain"}, with_body=with_body)
            return
        content = server.files[path] if fault.body is None else fault.body
        validators = {"ETag": f'"{sha256(content).hexdigest()[:16]}"', "Last-Modified": LAST_MODIFIED}
        more = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **validators}
        more |= server.headers.get(path, {})
        status = 200
        first = self._first_byte(fault, {**more, **fault.headers})
        if first >= len(content) > 0 and first:
            status, more["Content-Range"], content = 416, f"bytes */{len(content)}", b""
        elif first:
            status, more["Content-Range"] = 206, f"bytes {first}-{len(content) - 1}/{len(content)}"
            content = content[first:]
        if fault.is_gzipped:
            content, more["Content-Encoding"] = gzip.compress(content, 1), "gzip"
        self._send(request, fault, status, content, more, with_body=with_body)

    def _first_byte(self, fault: Fault, headers: Mapping[str, str | None]) -> int:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not match or fault.ignores_range:
            return 0
        condition = self.headers.get("If-Range")
        if condition in (None, headers.get("ETag"), headers.get("Last-Modified")) or fault.ignores_if_range:
            return int(match[1])
        return 0

    def _send(
        self,
        request: Request,
        fault: Fault,
        status: int,
        content: bytes,
        headers: Mapping[str, str],
        *,
        with_body: bool,
    ) -> None:
        request.status = status
        self.send_response(status)
        framing = {"Transfer-Encoding": "chunked"} if fault.is_chunked else {"Content-Length": str(len(content))}
        for name, value in {**framing, **headers, **fault.headers}.items():
            if value is not None:
                self.send_header(name, value)
        if {**headers, **fault.headers}.get("Content-Length", "") is None:
            self.close_connection = True
        self.end_headers()
        if not with_body:
            return
        ends = [n for n in (fault.truncate, fault.reset, fault.stall) if n is not None]
        self._send_body(request, content[: min(ends)] if ends else content, fault)
        if fault.reset is not None:
            self._reset()
        elif fault.stall is not None:
            self._stall()
        elif fault.truncate is not None:
            self.close_connection = True
        elif fault.is_chunked:
            self.wfile.write(b"0\r\n\r\n")
        if fault.surplus:
            self.wfile.write(fault.surplus)
            self.close_connection = True

    def _send_body(self, request: Request, content: bytes, fault: Fault) -> None:
        size = fault.piece_bytes or 64 * 1024
        for start in range(0, len(content), size):
            piece = content[start : start + size]
            framed = b"%x\r\n%s\r\n" % (len(piece), piece) if fault.is_chunked else piece
            self.wfile.write(framed)
            request.sent_bytes += len(piece)
            if fault.pause_s and self.server_of_files.stopped.wait(fault.pause_s):
                return

    def _stall(self) -> None:
        """Until the client goes away."""
        self.close_connection = True
        for _ in range(int(_STALL_S / 0.02)):
            gone = select.select([self.connection], [], [], 0.02)[0]
            if gone or self.server_of_files.stopped.is_set():
                return

    def _reset(self) -> None:
        """Closes in a way that the other side sees as an error, not as an end."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
