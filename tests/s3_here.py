"""A real S3 server on loopback (moto's), with a bucket, to which the environment leads whoever opens ``s3://``.

with s3_here() as server:
    place_at(f"s3://{server.bucket}/anything").write("a", b"...")  # in this process and in those it starts
    server.refuse("PUT", "index.json")

moto looks whether there is an object and writes it in two steps, between which another thread may come. S3 decides
conditional requests one after the other, and so does this server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

_FORBIDDEN = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@dataclass
class Server:
    """Where it is, what it was asked, and what it refuses."""

    url: str
    bucket: str
    log: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, range of bytes
    _refused: list[tuple[str, str]] = field(default_factory=list)
    _cut: list[str] = field(default_factory=list)

    def refuse(self, method: str, part: str) -> None:
        """Answers requests of a method whose path has this part in it with 403, until :meth:`allow`."""
        self._refused.append((method, part))

    def cut(self, part: str) -> None:
        """Reads half of what is put to such a path, and closes the connection, until :meth:`allow`."""
        self._cut.append(part)

    def allow(self) -> None:
        """Answers everything again."""
        self._refused.clear()
        self._cut.clear()

    def is_refused(self, method: str, path: str) -> bool:
        return any(method == one and part in path for one, part in self._refused)

    def is_cut(self, method: str, path: str) -> bool:
        return method == "PUT" and any(part in path for part in self._cut)

    def asked(self, method: str, part: str = "") -> list[str]:
        """The ranges of the requests of a method for paths with this part in them; "" where all was asked for."""
        return [asked for one, path, asked in self.log if one == method and part in path]


@contextmanager
def s3_here(bucket: str = "zoo") -> Iterator[Server]:
    """A server with a bucket, for as long as the block lasts."""
    import s3fs
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            return

    one_at_a_time = threading.Lock()
    inner = DomainDispatcherApplication(create_backend_app)
    server = Server(url="", bucket=bucket)

    def answered(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        server.log.append((method, path, environ.get("HTTP_RANGE", "")))
        if server.is_refused(method, path):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [] if method == "HEAD" else [_FORBIDDEN]
        if server.is_cut(method, path):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0) // 2)
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        if "HTTP_IF_NONE_MATCH" in environ:
            with one_at_a_time:
                return list(inner(environ, start_response))
        return inner(environ, start_response)  # type: ignore[no-any-return]

    running = make_server("127.0.0.1", 0, answered, threaded=True, request_handler=Quiet)
    server.url = f"http://127.0.0.1:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        patch.setenv("AWS_ACCESS_KEY_ID", "loopback")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "loopback-secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.delenv("AWS_PROFILE", raising=False)
        s3fs.S3FileSystem.clear_instance_cache()  # what was opened for another server
        try:
            s3fs.S3FileSystem().makedirs(bucket, exist_ok=True)  # moto keeps its buckets for a process
            yield server
        finally:
            s3fs.S3FileSystem.clear_instance_cache()
            running.shutdown()
            thread.join()
            running.server_close()
