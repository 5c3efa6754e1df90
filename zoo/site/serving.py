"""Serves the folder of a site on this machine alone, for a look at it before it is put on the web."""

from __future__ import annotations

import errno
import os
import sys
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ..errors import QueryError
from ..version import __version__

HOST = "127.0.0.1"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".bib": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_UNKNOWN = "application/octet-stream"
_NO_ROOM = {
    errno.EADDRINUSE: "is taken",
    errno.EACCES: "may not be used",
    errno.EADDRNOTAVAIL: "is not there",
}


class SiteServer:
    """A server that listens from the beginning and answers in :meth:`serve`; use it as a context.

    Parameters
    ----------
    port : int
        0 for a free one.

    Raises
    ------
    QueryError
        If the port cannot be had.
    """

    def __init__(self, port: int = 0) -> None:
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise QueryError(
                f"Port {port} of {HOST} {_NO_ROOM[error.errno]}, expected a free one; name another port, or none for "
                "any that is free."
            ) from error

    @property
    def address(self) -> str:
        """Where the first page is."""
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def __enter__(self) -> SiteServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.server_close()

    def serve(self, folder: Path) -> None:
        """Answers requests for files of a folder until it is interrupted, or :meth:`stop` is called elsewhere.

        The folder is looked up at every request, so that it may be replaced by a new one meanwhile.
        """
        self._server.folder = folder.absolute()
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Ends :meth:`serve`, which runs in another thread."""
        self._server.shutdown()


class _Server(ThreadingTCPServer):
    """Not HTTPServer, which asks for the name of this machine, perhaps in the network."""

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # where it would let two servers have one port
    request_queue_size = 64
    folder = Path(os.devnull)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that has gone before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server_version = f"ssl-zoo/{__version__}"
    sys_version = ""
    timeout = 30  # seconds for a browser to say what it wants

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def log_message(self, format: str, *arguments: Any) -> None:
        """The address is printed once, and nothing of each request."""

    def _answer(self, *, with_content: bool) -> None:
        assert isinstance(self.server, _Server)
        path = file_of(self.server.folder, self.path)
        if path is not None and path.is_dir():  # without its slash, relative links would lead elsewhere
            self.send_response(HTTPStatus.MOVED_PERMANENTLY)
            self.send_header("Location", f"/{quote(path.relative_to(self.server.folder).as_posix())}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        try:
            content = None if path is None else path.read_bytes()
        except OSError:  # gone in the meantime
            content = None
        if path is None or content is None:
            self.send_error(HTTPStatus.NOT_FOUND, "There is no such page")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _TYPES.get(path.suffix.lower(), _UNKNOWN))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_content:
            self.wfile.write(content)


def file_of(folder: Path, address: str) -> Path | None:
    """The file that the address of a request means, ``index.html`` behind a slash; None if it is not in the folder.

    A folder without its slash is returned as it is. Links that lead out of the folder lead nowhere.
    """
    path = unquote(urlsplit(address).path)
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or any(part.startswith(".") or set("\\:\0") & set(part) for part in parts):
        return None
    found = folder.joinpath(*parts, *["index.html"] * path.endswith("/"))
    try:
        real = found.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    is_inside = real.is_relative_to(folder.resolve())
    return found if is_inside and (real.is_file() or real.is_dir()) else None


def open_browser(address: str) -> bool:
    """Opens the browser without waiting for it; False if there is no screen for one."""
    if sys.platform.startswith(("linux", "freebsd")) and not any(
        os.environ.get(variable) for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    ):
        return False
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # some wait until it is closed
    return True
