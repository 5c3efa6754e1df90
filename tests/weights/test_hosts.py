"""Hosts that cannot be reached: asked once a command whatever is wrong, told apart, and forgotten afterwards."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import zoo
from tests.cli_runner import document, run
from tests.servers import serving
from tests.tiny import checkpoint, write_card
from tests.weights.test_care import folders
from zoo.errors import WeightsUnavailable
from zoo.weights import hosts
from zoo.weights.hosts import HUB, asking_once, why_unreachable

__all__ = ["folders"]  # a fixture

NOBODY = "hf:nobody-has/such-a-repository/a.pth"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Resolver:
    """Names as a machine without network resolves them, except for those of this machine; counts what is asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers: Callable[[str], None] = self.fail
        self.known = {"127.0.0.1"}
        self.over = threading.Event()
        self._resolve = socket.getaddrinfo

    def __call__(self, host: Any, *arguments: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked[name] += 1
        if name not in self.known:
            self.answers(name)
        return self._resolve("127.0.0.1", *arguments, **more)

    @staticmethod
    def fail(name: str) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def hang(self, name: str) -> None:
        self.over.wait(60)
        self.fail(name)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    found = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", found)
    monkeypatch.setattr(hosts, "CONNECT_TIMEOUT_S", 0.5)
    yield found
    found.over.set()


def tiny_body() -> bytes:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    return checkpoint("tiny")


@pytest.mark.parametrize("answer", ["fail", "hang"])
def test_a_command_without_network_asks_every_host_once_and_says_so_once(
    folders: Path, resolver: Resolver, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    resolver.answers = getattr(resolver, answer)
    for number in range(4):
        write_card(f"away{number}", f"https://one.invalid/{number}.pth", mirrors=[NOBODY])
    write_card("other", "https://two.invalid/a.pth")
    result = run("get", "away*", "other", code=1)
    assert resolver.asked == {"one.invalid": 1, "two.invalid": 1, "huggingface.co": 1}
    heading, away, other = result.stderr.partition("Error: ")[2].splitlines()
    assert heading == "5 of 5 could not be obtained."
    assert away.strip().startswith("away0, away1, away2, away3: ")
    assert all(host in away for host in ("one.invalid", "huggingface.co"))
    assert other.strip().startswith("other: ")
    assert "two.invalid" in other
    assert not [record for record in caplog.records if record.name.startswith("huggingface_hub")]


def test_every_place_and_why_it_failed_is_in_the_error(folders: Path, resolver: Resolver) -> None:
    write_card("away", "https://one.invalid/a.pth", mirrors=[NOBODY, "https://two.invalid/b.pth"])
    with pytest.raises(WeightsUnavailable) as caught:
        zoo.load("away")
    said = str(caught.value)
    places = [said.index(part) for part in ("(1) https://one.invalid/a.pth", f"(2) The file at {NOBODY}", "(3) https:")]
    assert places == sorted(places)
    assert len(caught.value.unreached) == 3


def test_a_host_that_is_down_does_not_hide_one_that_works(folders: Path, resolver: Resolver) -> None:
    with serving({"/a.pth": tiny_body()}) as server:
        write_card("down", "https://one.invalid/a.pth")
        write_card("up", "https://one.invalid/up.pth", mirrors=[f"{server.url}/a.pth"])
        found = document("get", "down", "up", code=1)["encoders"]
    assert {one["encoder"]: one["state"] for one in found} == {"down": "failed", "up": "fetched"}


def test_the_next_call_asks_again(folders: Path, resolver: Resolver) -> None:
    with serving({"/a.pth": tiny_body()}) as server:
        write_card("tiny", server.url.replace("127.0.0.1", "localhost") + "/a.pth")
        with pytest.raises(WeightsUnavailable, match="no host localhost"):
            zoo.load("tiny")
        resolver.known.add("localhost")
        zoo.load("tiny")


def test_a_long_command_asks_again_after_a_while(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_VALID_S", 0.0)
    with asking_once():
        assert why_unreachable("https://one.invalid/a")
        assert why_unreachable("https://one.invalid/b")
    assert resolver.asked["one.invalid"] == 2


def test_hosts_that_may_be_needed_are_asked_only_while_another_keeps_one_waiting(resolver: Resolver) -> None:
    with asking_once(["https://one.invalid/a", "https://two.invalid/a", NOBODY]):
        assert "no host one.invalid" in why_unreachable("https://one.invalid/a")
    assert resolver.asked == {"one.invalid": 1}
    resolver.answers = resolver.hang
    with asking_once(["https://one.invalid/a", "https://two.invalid/a"]):
        assert why_unreachable("https://one.invalid/a") == "one.invalid gave no answer in 0.5 seconds"
    assert resolver.asked == {"one.invalid": 2, "two.invalid": 1}


class Proxy(ThreadingHTTPServer):
    """A proxy that lets nobody through."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Refusing)


class _Refusing(BaseHTTPRequestHandler):
    server: Proxy

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(403)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def test_a_proxy_that_refuses_is_asked_once_for_a_host(
    folders: Path, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy() as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        for number in range(3):
            write_card(f"away{number}", f"https://one.invalid/{number}.pth")
        said = run("get", "away*", code=1).stderr
        proxy.shutdown()
    assert proxy.asked == ["one.invalid:443"]
    assert said.count("403") == 1


@pytest.mark.parametrize("kind", [ConnectionRefusedError, TimeoutError])
def test_a_host_that_takes_no_connection_is_tried_once(
    folders: Path, monkeypatch: pytest.MonkeyPatch, kind: type[OSError]
) -> None:
    tried = []

    def connect(address: tuple[str, int], *arguments: Any, **more: Any) -> None:
        tried.append(address)
        raise kind("as a firewall does it")

    monkeypatch.setattr(socket, "create_connection", connect)
    for number in range(3):
        write_card(f"away{number}", f"https://one.invalid/{number}.pth")
    said = run("get", "away*", code=1).stderr
    assert tried == [("one.invalid", 443)]
    assert said.count("as a firewall does it") == 1


def test_the_hub_is_reached_by_its_own_client(resolver: Resolver) -> None:
    assert "no host huggingface.co" in why_unreachable(HUB)
