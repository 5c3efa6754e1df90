"""``zoo doctor``: what it finds sound, what it calls a problem, and that it never waits for long."""

from __future__ import annotations

import socket
import threading
import time
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from zoo.cards import catalogue
from zoo.cli.checks import EXTRAS
from zoo.cli.reach import host_of, unreachable

from .card_text import VALID
from .cli_runner import document, run


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    return tmp_path


@pytest.fixture
def grumpy_server() -> Iterator[str]:
    """A server that refuses everything, which is an answer."""

    class Refuse(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:  # the standard library chose the name
            self.send_response(403)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def found(*arguments: str, code: int = 0) -> dict[str, tuple[str, str]]:
    """Status and detail by name of the check."""
    checks = document("doctor", "--offline", *arguments, code=code)["checks"]
    return {check["name"]: (check["status"], check["detail"]) for check in checks}


def test_a_sound_installation_has_no_problem() -> None:
    checks = found()
    assert checks["cards"] == ("ok", f"{len(catalogue())} read")
    assert checks["results"][0] == "ok"
    assert checks["hosts"] == ("ok", "not asked (--offline or ZOO_OFFLINE)")
    assert document("doctor", "--offline")["sound"] is True
    assert "No problem found." in run("doctor", "--offline").stdout


def test_a_broken_card_is_a_problem_and_exit_code_1(own_folder: Path) -> None:
    (own_folder / "metadata" / "mine.toml").write_text(VALID.replace("epochs = 800", 'epochs = "many"'))
    status, detail = found(code=1)["cards"]
    assert status == "problem"
    assert "field 'pretraining.epochs'" in detail
    result = run("doctor", "--offline", code=1)
    assert "PROBLEM: mine.toml" in result.stdout
    assert result.stderr == "Error: 1 problem: cards.\n"


def test_a_broken_row_is_a_problem(own_folder: Path) -> None:
    (own_folder / "results").mkdir()
    (own_folder / "results" / "mine.csv").write_text("encoder,value\n")
    assert found(code=1)["results"][0] == "problem"


def test_the_extras_are_those_of_the_project(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    for extra, libraries in EXTRAS.items():
        declared = {Requirement(text).name for text in project["optional-dependencies"][extra]}
        assert declared - {"ssl-zoo"} == set(libraries)


def test_no_network_is_asked_if_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert "hosts" in {check["name"] for check in document("doctor")["checks"]}


def test_the_password_of_a_proxy_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy.example.org:3128")
    text = run("doctor", "--offline").stdout
    assert "http://***@proxy.example.org:3128" in text
    assert "secret" not in text


def test_every_location_of_weights_has_a_host() -> None:
    for card in catalogue().values():
        places = [place for place in (card.weights.url, *card.weights.mirrors) if isinstance(place, str)]
        assert all(host_of(place) for place in places)


def test_any_http_status_is_an_answer(grumpy_server: str) -> None:
    assert unreachable([grumpy_server], seconds=5) == {}


def test_a_closed_port_is_told_from_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    assert "refused" in unreachable([address], seconds=5)[address]


def test_many_silent_hosts_together_take_no_longer_than_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        start = time.monotonic()
        reasons = unreachable([f"{base}/{n}" for n in range(8)], seconds=0.3)
    assert len(reasons) == 8
    assert time.monotonic() - start < 0.3 * 8
