"""The server of a site: what it answers, and that nothing outside of the folder is read."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import for_each
from zoo.errors import QueryError
from zoo.site.serving import HOST, SiteServer


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    for name, text in {"index.html": "first", "encoders/a.html": "é", "assets/a.js": "1", "data/a.csv": "a,b"}.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    (tmp_path / "secret.html").write_text("secret")
    with SiteServer() as server:
        thread = threading.Thread(target=server.serve, args=(tmp_path / "site",))
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
    for address, kind in {
        "/": "text/html",
        "/encoders/a.html?choice=1": "text/html",
        "/assets/a.js": "text/javascript",
        "/data/a.csv": "text/csv",
    }.items():
        response, _ = asked(port, address)
        assert (response.status, response.headers["Content-Type"]) == (200, f"{kind}; charset=utf-8"), address
        assert response.headers["Cache-Control"] == "no-cache"
    assert asked(port, "/encoders/a.html")[1] == "é".encode()
    assert asked(port, "/encoders")[0].status == 301
    assert asked(port, "/", "POST")[0].status == 501


@for_each(["/../secret.html", "/%2e%2e/secret.html", "/..%2fsecret.html", "/data/", "/no"])
def test_no_address_leaves_the_folder_and_no_folder_is_listed(address: str, port: int) -> None:
    with socket.create_connection((HOST, port), timeout=10) as connection:  # as it is, which no client would send
        connection.sendall(f"GET {address} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert b" 404 " in answer.partition(b"\r\n")[0] and b"secret" not in answer.partition(b"\r\n\r\n")[2]


def answered(port: int, request: str) -> bytes:
    with socket.create_connection((HOST, port), timeout=10) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@for_each(["/%00", "/index.html%00", "/%00/../index.html"])
def test_an_address_with_a_character_of_no_address_is_refused(address: str, port: int) -> None:
    assert b" 400 " in answered(port, f"GET {address} HTTP/1.0\r\n\r\n").partition(b"\r\n")[0]


def test_links_out_of_the_folder_and_pipes_are_not_followed(port: int, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "link.html").symlink_to(tmp_path / "secret.html")
    (site / "folder").symlink_to(tmp_path)
    (site / "inside.html").symlink_to("index.html")
    (site / "loop.html").symlink_to("loop.html")
    (tmp_path / "index.html").write_text("secret")
    os.mkfifo(site / "pipe.html")
    for address in ("/link.html", "/folder/secret.html", "/folder/", "/loop.html", "/pipe.html"):
        response, content = asked(port, address)
        assert response.status == 404 and b"secret" not in content, address
    assert asked(port, "/inside.html")[1] == b"first"


def test_only_its_own_name_is_answered(port: int) -> None:
    for host, status in {
        f"localhost:{port}": 200, f"127.0.0.1:{port}": 200, f"[::1]:{port}": 200, f"LOCALHOST:{port}": 200,
        "evil.example": 421, f"evil.example:{port}": 421, "localhost:1": 421, "": 421, f"127.0.0.1.nip.io:{port}": 421,
    }.items():  # fmt: skip
        said = answered(port, f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n")
        assert said.split()[1] == str(status).encode(), host
        assert (b"first" in said) == (status == 200)


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(QueryError, match=f"Port {taken}"):
            SiteServer(taken)
