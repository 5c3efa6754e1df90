"""Fetching from addresses and paths: caches, several processes at once, disks, proxies, progress."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.servers import Fault, serving
from zoo.errors import QueryError, WeightsRefused, WeightsUnavailable
from zoo.progress import Silent
from zoo.weights.download import Policy, fetch

BODY = random.Random(3).randbytes(400_000)
SHA = sha256(BODY).hexdigest()
HALF = 200_000
QUICK = Policy(timeout_s=0.4, first_wait_s=0.01)
ONCE = Policy(timeout_s=2, attempts=1, first_wait_s=0.01)
_FETCH = """
import sys
from pathlib import Path
from zoo.errors import ZooError
from zoo.weights.download import fetch
opened = []
sys.addaudithook(lambda event, arguments: opened.append(event) if event.startswith("socket.") else None)
try:
    print(fetch(sys.argv[1], folder=Path(sys.argv[2])).sha256)
except ZooError as error:
    print(f"{type(error).__name__}: {error}")
print("sockets:", len(opened))
"""


class Recorder:
    """A progress that remembers."""

    def __init__(self, *, interrupt_at: int | None = None) -> None:
        self.starts: list[tuple[str, int | None, int]] = []
        self.n_bytes, self.ends, self.interrupt_at = 0, 0, interrupt_at

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        self.starts.append((name, total_bytes, done_bytes))

    def advance(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes
        if self.interrupt_at is not None and self.n_bytes >= self.interrupt_at:
            raise KeyboardInterrupt

    def end(self) -> None:
        self.ends += 1


def apart(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _FETCH, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    return process.communicate(timeout=60)[0].splitlines()


def partials(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "partial").glob("*.part"))


def test_a_finished_download_lies_under_its_hash_and_says_where_it_came_from(tmp_path: Path) -> None:
    progress = Recorder()
    with serving({"/a/model.pth": BODY}) as server:
        got = fetch(f"{server.url}/a/model.pth?dl=1&token=secret", folder=tmp_path, progress=progress)
        (request,) = server.log
    assert got.path.parent == tmp_path / "downloads"
    assert got.path.read_bytes() == BODY
    assert (got.sha256, got.size_bytes, got.is_ours) == (SHA, len(BODY), True)
    assert got.origin == f"{server.url}/a/model.pth?dl=1"
    assert request.path.endswith("token=secret")
    assert request.headers["accept-encoding"] == "identity"
    assert not {"authorization", "cookie"} & request.headers.keys()
    assert progress.starts == [("model.pth", len(BODY), 0)]
    assert (progress.n_bytes, progress.ends) == (len(BODY), 1)
    assert all(b"secret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_download_that_nobody_came_to_use_is_not_fetched_again_unless_it_rotted(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        first = fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Silent())
        assert fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Silent()) == first
        assert len(server.log) == 1
        first.path.write_bytes(BODY[:-1] + b"!")
        assert fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Silent()).path.read_bytes() == BODY
        assert len(server.log) == 2


def test_the_file_of_torch_hub_is_used_if_its_hash_is_right_and_left_alone_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    folder = tmp_path / "torch/hub/checkpoints"
    folder.mkdir(parents=True)
    named = f"net-{SHA[:8]}.pth"
    for name in (named, "net.pth"):
        (folder / name).write_bytes(BODY)
    with serving({f"/{named}": BODY, "/net.pth": BODY}) as server:
        by_name = fetch(f"{server.url}/{named}", folder=tmp_path / "w", progress=Silent())
        by_hash = fetch(f"{server.url}/net.pth", folder=tmp_path / "w", sha256=SHA, progress=Silent())
        assert server.log == []
        assert [(got.path, got.is_ours) for got in (by_name, by_hash)] == [
            (folder / named, False),
            (folder / "net.pth", False),
        ]
        assert by_name.origin == str(folder / named)
        unknown = fetch(f"{server.url}/net.pth", folder=tmp_path / "w", progress=Silent())
        assert (unknown.is_ours, len(server.log)) == (True, 1)
        unknown.path.unlink()
        (folder / "net.pth").write_bytes(b"something else")
        got = fetch(f"{server.url}/net.pth", folder=tmp_path / "w", sha256=SHA, progress=Silent())
        assert (got.is_ours, got.path.read_bytes()) == (True, BODY)
    assert (folder / "net.pth").read_bytes() == b"something else"


def test_a_wrong_beginning_of_the_hash_in_the_name_refuses_the_file(tmp_path: Path) -> None:
    with serving({"/net-0123abcd.pth": BODY}) as server, pytest.raises(WeightsRefused, match="begins with 0123abcd"):
        fetch(f"{server.url}/net-0123abcd.pth", folder=tmp_path, progress=Silent())
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_hash_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="64 hexadecimal digits"):
        fetch("https://host.invalid/a.pth", folder=tmp_path, sha256="0676ba61")


def test_offline_no_socket_is_opened_and_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    own = tmp_path / "own.pth"
    own.write_bytes(BODY)
    processes = [apart(place, tmp_path / "w", ZOO_OFFLINE="1") for place in ("https://host.invalid/a.pth", own)]
    (sentence, opened), own_said = (said(process) for process in processes)
    assert sentence.startswith("WeightsUnavailable: ")
    assert "ZOO_OFFLINE" in sentence
    assert opened == "sockets: 0"
    assert own_said == [SHA, "sockets: 0"]


def test_a_host_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(WeightsUnavailable, match=r"there is no connection to 127.0.0.1:.*check the network"):
            fetch(
                f"http://127.0.0.1:{closed.getsockname()[1]}/a.pth",
                folder=tmp_path,
                progress=Silent(),
                policy=Policy(first_wait_s=0.01),
            )
    assert partials(tmp_path) == []


def test_an_interrupted_download_is_gone_on_with_and_its_bar_with_it(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.plan("/a.pth", Fault(piece_bytes=50_000, pause_s=0.005))
        with pytest.raises(KeyboardInterrupt):
            fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Recorder(interrupt_at=HALF))
        (left,) = (tmp_path / "partial").glob("*.part")
        done = left.stat().st_size
        assert BODY.startswith(left.read_bytes())
        progress = Recorder()
        got = fetch(f"{server.url}/a.pth", folder=tmp_path, progress=progress)
        assert server.log[-1].range == f"bytes={done}-"
    assert got.path.read_bytes() == BODY
    assert progress.starts == [("a.pth", len(BODY), done)]
    assert progress.n_bytes == len(BODY) - done


def test_several_processes_and_threads_at_once_all_get_the_whole_file(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.always("/a.pth", Fault(piece_bytes=20_000, pause_s=0.002))
        address = f"{server.url}/a.pth"
        processes = [apart(address, tmp_path) for _ in range(2)]
        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda _: fetch(address, folder=tmp_path, progress=Silent()), range(4)))
        assert {file.sha256 for file in got} == {SHA}
        assert [said(process)[0] for process in processes] == [SHA, SHA]
    assert [path.read_bytes() == BODY for path in (tmp_path / "downloads").iterdir()] == [True]
    assert partials(tmp_path) == []


def test_a_process_waits_for_another_one_that_gets_on_and_takes_what_it_got(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.always("/a.pth", Fault(piece_bytes=20_000, pause_s=0.05))
        address = f"{server.url}/a.pth"
        with ThreadPoolExecutor(4) as pool:
            got = list(
                pool.map(
                    lambda _: fetch(address, folder=tmp_path, progress=Silent(), policy=Policy(timeout_s=0.5)), range(4)
                )
            )
        assert {file.sha256 for file in got} == {SHA}
        assert len(server.log) == 1
    assert partials(tmp_path) == []


def test_bytes_that_are_not_of_the_file_are_noticed_by_the_hash_and_fetched_again(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.plan("/a.pth", Fault(truncate=HALF))
        with pytest.raises(WeightsUnavailable, match="200000 bytes that came are kept"):
            fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Silent(), policy=ONCE)
        (left,) = (tmp_path / "partial").glob("*.part")
        left.write_bytes(bytes(HALF))
        assert fetch(f"{server.url}/a.pth", folder=tmp_path, sha256=SHA, progress=Silent()).sha256 == SHA
        assert [request.range for request in server.log] == ["", f"bytes={HALF}-", ""]
