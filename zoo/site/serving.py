"""Serves the folder of a site on this machine alone, for a look at it before it is put on the web."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import QueryError
from ..files import describe_irregular_file

HOST = "127.0.0.1"
_TEXTS = ("text/html", "text/css", "text/javascript", "application/json", "text/csv", "image/svg+xml", "text/plain")


class SiteServer:
    """A server that listens from the beginning and answers in :meth:`serve`; use it as a context.

    ``port`` is 0 for a free one. QueryError if the port cannot be had.
    """

    def __init__(self, port: int = 0) -> None:
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            raise QueryError(
                f"Port {port} of {HOST} cannot be used ({error.strerror}), expected a free one; name another port, or "
                "none for any that is free."
            ) from error

    @property
    def address(self) -> str:
        """Of the first page."""
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def __enter__(self) -> SiteServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.server_close()

    def serve(self, folder: Path) -> None:
        """Answers requests for files of a folder until it is interrupted, or :meth:`stop` is called elsewhere."""
        self._server.RequestHandlerClass = partial(_Handler, directory=str(folder.absolute()))
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Ends :meth:`serve`, which runs in another thread."""
        self._server.shutdown()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that has gone before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(SimpleHTTPRequestHandler):
    timeout = 30  # seconds for a browser to say what it wants

    def send_head(self) -> Any:
        """Refuses other names of this machine, under which a stranger's page could ask, and links that lead out."""
        port = self.connection.getsockname()[1]
        names = [f"{name}:{port}" for name in ("localhost", HOST, "[::1]")]
        path = self.translate_path(self.path)
        if self.headers.get("Host", names[0]).lower() not in names:
            return self.send_error(421, "This server has another name")
        if "\0" in unquote(self.path):
            return self.send_error(400, "No address has this character")
        file = os.path.realpath(os.path.join(path, "index.html") if os.path.isdir(path) else path)
        if not Path(file).is_relative_to(os.path.realpath(self.directory)) or describe_irregular_file(file):
            return self.send_error(404, "There is no such page")
        return super().send_head()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing of each request."""

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        """No folder is listed."""
        self.send_error(404, "There is no such page")

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        kind = super().guess_type(path)
        return f"{kind}; charset=utf-8" if kind in _TEXTS else kind

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()


def open_browser(address: str) -> bool:
    """Opens the browser without waiting for it; False if there is no screen for one."""
    if sys.platform.startswith(("linux", "freebsd")) and not any(
        os.environ.get(variable) for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    ):
        return False
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # some wait until it is closed
    return True
