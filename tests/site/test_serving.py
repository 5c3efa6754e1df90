"""The server of a site: what it answers, with which headers, and that nothing outside of the folder is read."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import for_each
from zoo.errors import QueryError
from zoo.site.serving import HOST, SiteServer, file_of, open_browser

PAGES = {
    "index.html": "<p>first</p>",
    "encoders/index.html": "all",
    "encoders/a.html": "é",
    "badges/a.svg": "<svg/>",
    "assets/a.js": "1",
    "assets/a.css": "p{}",
    "data/a.csv": "a,b",
    "data/a.json": "{}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, text in PAGES.items():
        (tmp_path / "site" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / path).write_text(text)
    (tmp_path / "secret.html").write_text("secret")
    (tmp_path / "site" / "out.html").symlink_to(tmp_path / "secret.html")
    (tmp_path / "site" / ".hidden").write_text("secret")
    return tmp_path / "site"


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with SiteServer() as server:
        thread = threading.Thread(target=server.serve, args=(folder,))
        thread.start()
        yield int(server.address.rstrip("/").rpartition(":")[2])
        server.stop()
        thread.join(10)


def asked(port: int, address: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, address)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_files_come_with_their_type_in_utf_8_and_are_asked_for_again(port: int) -> None:
    types = {
        "/": "text/html",
        "/encoders/a.html?choice=1": "text/html",
        "/badges/a.svg": "image/svg+xml",
        "/assets/a.js": "text/javascript",
        "/assets/a.css": "text/css",
        "/data/a.csv": "text/csv",
        "/data/a.json": "application/json",
    }
    for address, kind in types.items():
        response, _ = asked(port, address)
        assert (response.status, response.headers["Content-Type"]) == (200, f"{kind}; charset=utf-8"), address
        assert response.headers["Cache-Control"] == "no-cache"
    assert asked(port, "/encoders/a.html")[1] == "é".encode()
    assert asked(port, "/encoders/")[1] == b"all"


def test_a_folder_gets_its_slash_and_no_folder_is_listed(port: int) -> None:
    response, _ = asked(port, "/encoders")
    assert (response.status, response.headers["Location"]) == (301, "/encoders/")
    assert asked(port, "/data/")[0].status == 404


def test_only_the_head_of_a_page_is_told_and_nothing_is_taken(port: int) -> None:
    response, body = asked(port, "/", "HEAD")
    assert (response.status, response.headers["Content-Length"], body) == (200, str(len(PAGES["index.html"])), b"")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert asked(port, "/index.html", method)[0].status == 501


OUTSIDE = (
    "/../secret.html",
    "/%2e%2e/secret.html",
    "/..%2fsecret.html",
    "/encoders/../../secret.html",
    "/..\\secret.html",
    "//secret.html",
    "/out.html",
    "/.hidden",
    "/index.html/",
    "/index.html%00",
    "/c:/secret.html",
    "/%ff",
    "/absent.html",
    f"/{'a' * 5000}.html",
    "index.html",
    "*",
)


@for_each(OUTSIDE)
def test_no_address_leaves_the_folder(address: str, folder: Path, port: int) -> None:
    assert file_of(folder, address) is None
    with socket.create_connection((HOST, port), timeout=10) as connection:  # as it is, which no client would send
        connection.sendall(f"GET {address} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b" 404 " in answer.partition(b"\r\n")[0] and b"secret" not in answer.partition(b"\r\n\r\n")[2]


def test_a_folder_that_is_replaced_is_served_anew(folder: Path, port: int) -> None:
    os.rename(folder, folder.parent / "old")
    assert asked(port, "/")[0].status == 404
    folder.mkdir()
    (folder / "index.html").write_text("new")
    assert asked(port, "/")[1] == b"new"


def test_a_browser_that_goes_away_is_not_spoken_of(folder: Path, port: int, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "large.html").write_bytes(b"x" * 20_000_000)
    with socket.create_connection((HOST, port), timeout=10) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # it hangs up at once
        connection.sendall(b"GET /large.html HTTP/1.0\r\n\r\n")
        connection.recv(10)
    assert asked(port, "/")[0].status == 200
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(QueryError, match=rf"Port {taken} of 127\.0\.0\.1 is taken, expected a free one"):
            SiteServer(taken)


def test_the_browser_is_opened_where_there_is_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("sys.platform", "linux")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(variable, raising=False)
    assert not open_browser("http://127.0.0.1:1/")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_browser("http://127.0.0.1:2/")
    until = time.monotonic() + 10
    while not opened and time.monotonic() < until:
        time.sleep(0.001)
    assert opened == ["http://127.0.0.1:2/"]
