"""Servers that never come to an end: bodies, headers, redirections; and hosts that a card may not name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from tests.servers import Fault, serving
from zoo.errors import WeightsRefused, WeightsUnavailable, ZooError
from zoo.progress import SilentProgress
from zoo.weights.access import RecordedFile, ask
from zoo.weights.download import RetryPolicy, fetch

QUICK = RetryPolicy(timeout_s=1.0, attempts=3, first_wait_s=0.01, longest_wait_s=0.1, most_bytes=5_000_000)
BODY = bytes(range(256)) * 400
SHA = sha256(BODY).hexdigest()
PIECE = b"x" * 65_536
MOST_BYTES = 60_000_000  # that a client may leave in buffers and in a file; without an end it would be all of the disk


class Talking:
    """A server that sends one thing again and again, and counts it."""

    def __init__(self, first: bytes, again: bytes, pause_s: float) -> None:
        self.first, self.again, self.pause_s = first, again, pause_s
        self.n_bytes, self.asked = 0, list[bytes]()
        self.is_over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._talk, args=(self._listening.accept()[0],), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.asked.append(connection.recv(65_536))
            connection.sendall(self.first)
            while not self.is_over.wait(self.pause_s) and self.n_bytes < MOST_BYTES:
                connection.sendall(self.again)
                self.n_bytes += len(self.again)

    def close(self) -> None:
        self.is_over.set()
        self._listening.close()


@contextmanager
def talking(first: str, again: bytes, pause_s: float = 0.0) -> Iterator[Talking]:
    server = Talking(first.replace("\n", "\r\n").encode(), again, pause_s)
    try:
        yield server
    finally:
        server.close()


def refused(url: str, folder: Path, **known: object) -> str:
    """The sentence of a download that may take no more than a minute."""
    came: list[str] = []

    def download() -> None:
        try:
            fetch(url, folder=folder, progress=SilentProgress(), policy=QUICK, **known)  # type: ignore[arg-type]
            came.append("it came")
        except ZooError as error:
            came.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=download, daemon=True)
    thread.start()
    thread.join(60)
    assert came, "the download has no end"
    return came[0]


CHUNK = b"10000\r\n" + PIECE + b"\r\n"
HEAD = "HTTP/1.1 200 OK\nContent-Type: application/octet-stream\n"


@pytest.mark.parametrize(
    ("first", "again", "known", "says"),
    [
        (
            f"{HEAD}Transfer-Encoding: chunked\n\n",
            CHUNK,
            {"sha256": SHA, "size_bytes": 300_000},
            "300,000 bytes that are",
        ),
        (f"{HEAD}Transfer-Encoding: chunked\n\n", CHUNK, {"size_bytes": 300_000}, "300,000 bytes that are expected"),
        (f"{HEAD}Transfer-Encoding: chunked\n\n", CHUNK, {"sha256": SHA}, "5,000,000 bytes that a file of unknown"),
        (f"{HEAD}Transfer-Encoding: chunked\n\n", CHUNK, {}, "5,000,000 bytes that a file of unknown length may have"),
        (f"{HEAD}\n", PIECE, {"sha256": SHA}, "5,000,000 bytes that a file of unknown length may have"),
        (f"{HEAD}\n", PIECE, {"sha256": SHA, "size_bytes": 300_000}, "300,000 bytes that are expected"),
        (f"{HEAD}Content-Length: 300000\n\n", PIECE, {"sha256": SHA}, "has the sha256"),
    ],
)
def test_a_body_without_an_end_is_left_at_the_length_that_is_known(
    first: str, again: bytes, known: dict[str, object], says: str, tmp_path: Path
) -> None:
    with talking(first, again) as server:
        said = refused(f"http://{server.host}/a.pth", tmp_path, **known)
    assert said.startswith("WeightsRefused: The ") and says in said and server.host in said, said
    assert "disk" not in said and str(tmp_path) not in said
    assert server.n_bytes < MOST_BYTES
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".part" or path.parent.name == "downloads"]


@pytest.mark.parametrize(
    ("first", "again", "pause_s"),
    [
        ("HTTP/1.1 ", b"2", 0.05),
        ("HTTP/1.1 200 OK\nX: ", b"x", 0.05),
        ("", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
        (f"{HEAD}Transfer-Encoding: chunked\n\n", b"0", 0.05),
        (f"{HEAD}Content-Length: 300000\n\n", b"x", 0.05),
    ],
)
def test_what_comes_drop_by_drop_ends_without_progress(
    first: str, again: bytes, pause_s: float, tmp_path: Path
) -> None:
    with talking(first, again, pause_s) as server:
        said = refused(f"http://{server.host}/a.pth", tmp_path, sha256=SHA, size_bytes=300_000)
        assert said.startswith("WeightsUnavailable: ") and "next to nothing came for 2 s, tried 2 times" in said, said
        assert ask(RecordedFile(place="http://127.0.0.1:1/a.pth")).access == "unreachable"


def test_a_slow_file_that_goes_on_is_fetched(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.always("/a.pth", Fault(piece_bytes=2048, pause_s=0.1))  # 20 kB in a second, for more than one window
        assert fetch(f"{server.url}/a.pth", folder=tmp_path, progress=SilentProgress(), policy=QUICK).sha256 == SHA


def redirected(to: Callable[[], str], folder: Path) -> tuple[str, str]:
    """What a download says whose server redirects, and the host of that server."""
    with serving({}) as server:
        server.always("/a.pth", Fault(redirect=to()))
        server.files["/a.pth"] = b""
        return refused(f"{server.url}/a.pth", folder, sha256=SHA), server.url.removeprefix("http://")


def test_behind_a_redirection_the_host_that_failed_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    said, host = redirected(lambda: f"http://{gone}/b.pth", tmp_path)
    assert f"there is no connection to {gone}" in said and f"to {host} " not in said
    with serving({}) as other:
        there = other.url.removeprefix("http://")
        for fault, says in (
            (Fault(status=404), f"The server answered 404 Not Found when asked for http://{there}/b.pth"),
            (Fault(status=503), f"the server answered 503 Service Unavailable (at {there}, where it redirects to)"),
            (Fault(stall=-1), f"nothing came for 1 s (at {there}, where it redirects to)"),
        ):
            other.files["/b.pth"] = b""
            other.always("/b.pth", fault)
            said, _ = redirected(lambda: f"{other.url}/b.pth", tmp_path)
            assert says in said, said


def test_a_redirection_with_an_endless_body_is_followed_at_once(tmp_path: Path) -> None:
    with (
        serving({"/b.pth": BODY}) as server,
        talking(f"HTTP/1.1 302 Found\nLocation: {server.url}/b.pth\n\n", PIECE) as other,
    ):
        assert (
            fetch(f"http://{other.host}/a.pth", folder=tmp_path, progress=SilentProgress(), policy=QUICK).sha256 == SHA
        )
        assert other.n_bytes < MOST_BYTES


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_a_card_may_not_name_a_host_that_is_not_public(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZOO_PRIVATE_HOSTS")
    with serving({"/a.pth": BODY}) as server:
        url = f"http://{host}:{server.url.rpartition(':')[2]}/a.pth"
        for proxy in ("", server.url):
            monkeypatch.setenv("http_proxy", proxy)
            if proxy and host not in ("127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"):
                continue  # which only the proxy could resolve
            with pytest.raises(WeightsRefused, match=r"not public, expected a public one; .* ZOO_PRIVATE_HOSTS=1"):
                fetch(url, folder=tmp_path, sha256=SHA, is_public=True, progress=SilentProgress(), policy=QUICK)
            assert "not public" in ask(RecordedFile(place=url)).detail
        assert not server.log


def test_cloud_metadata_are_not_asked_for_and_private_hosts_are_allowed_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZOO_PRIVATE_HOSTS")
    tried: list[object] = []
    connect = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", lambda self, where: (tried.append(where), connect(self, where))[1])
    for place in ("http://169.254.169.254/latest/a.pth", "https://10.0.0.1/a.pth", "https://192.168.0.1/a.pth"):
        with pytest.raises(WeightsRefused, match="not public"):
            fetch(place, folder=tmp_path, sha256=SHA, is_public=True, progress=SilentProgress(), policy=QUICK)
    assert not tried
    with serving({"/a.pth": BODY}) as server:
        assert (
            fetch(f"{server.url}/a.pth", folder=tmp_path / "own", sha256=SHA, progress=SilentProgress()).sha256 == SHA
        )
        monkeypatch.setenv("ZOO_PRIVATE_HOSTS", "1")
        found = fetch(
            f"{server.url}/a.pth", folder=tmp_path / "card", sha256=SHA, is_public=True, progress=SilentProgress()
        )
        assert found.sha256 == SHA
    with pytest.raises(WeightsUnavailable, match="no connection"):
        fetch("http://127.0.0.1:9/a.pth", folder=tmp_path, sha256=SHA, progress=SilentProgress(), policy=QUICK)
