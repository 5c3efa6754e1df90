"""Hosts that do not answer: one sentence, not waited for again, and asked again later."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.servers import serving
from zoo.errors import WeightsUnavailable
from zoo.progress import Silent
from zoo.weights import hosts
from zoo.weights.download import Policy, fetch

ONCE = Policy(timeout_s=1.0, attempts=2, first_wait_s=0.01)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_silent", {})


def closed_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


def test_a_host_that_takes_no_connection_is_one_sentence_and_not_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{closed_port()}/a.pth"
    said = []
    for _ in range(2):
        with pytest.raises(
            WeightsUnavailable, match="could not be downloaded: there is no connection to 127"
        ) as caught:
            fetch(address, folder=tmp_path, progress=Silent(), policy=ONCE)
        said.append(caught.value.unreached)
        monkeypatch.setattr("requests.get", None)  # nothing is asked the second time
    assert said[0] == said[1] != ()
    monkeypatch.undo()
    monkeypatch.setattr("zoo.weights.hosts._VALID_S", 0.0)
    assert hosts.no_answer(address) == ""


def test_a_name_that_no_resolver_knows_is_told(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match=r"no connection to weights\.invalid"):
        fetch("https://weights.invalid/a.pth", folder=tmp_path, progress=Silent(), policy=ONCE)


def test_a_proxy_that_is_down_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(WeightsUnavailable, match="through the proxy"):
        fetch("https://weights.example/a.pth", folder=tmp_path, progress=Silent(), policy=ONCE)


def test_hosts_that_cannot_be_reached_are_named_with_the_reason() -> None:
    down = f"http://127.0.0.1:{closed_port()}/"
    with serving({"/": b"here"}) as server:
        assert hosts.unreachable([down, f"{server.url}/", f"{server.url}/absent"], seconds=2.0).keys() == {down}
