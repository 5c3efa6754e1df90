"""Fetching from addresses and paths: caches, several processes at once, disks, proxies, offline, progress."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.servers import Fault, serving
from zoo.errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable
from zoo.progress import ProgressBar, SilentProgress
from zoo.weights.download import RetryPolicy, fetch

BODY = random.Random(3).randbytes(400_000)
SHA = sha256(BODY).hexdigest()
HALF = 200_000
ONCE = RetryPolicy(timeout_s=2, attempts=1, first_wait_s=0.01)
_FETCH = """
import resource, sys
from pathlib import Path
from zoo.errors import ZooError
from zoo.weights.download import fetch
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
opened = []
sys.addaudithook(lambda event, arguments: opened.append(event) if event.startswith("socket.") else None)
try:
    print(fetch(sys.argv[1], folder=Path(sys.argv[2])).sha256)
except ZooError as error:
    print(f"{type(error).__name__}: {error}")
print("sockets:", len(opened))
"""


class Recorder:
    """A progress that remembers, and may interrupt."""

    def __init__(self, *, interrupt_at: float = float("inf")) -> None:
        self.starts: list[tuple[str, int | None, int]] = []
        self.n_bytes, self.ends, self.interrupt_at = 0, 0, interrupt_at

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        self.starts.append((name, total_bytes, done_bytes))

    def advance(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes
        if self.n_bytes >= self.interrupt_at:
            raise KeyboardInterrupt

    def end(self) -> None:
        self.ends += 1


class Terminal(io.StringIO):
    """A stderr that draws bars."""

    def isatty(self) -> bool:
        return True


def apart(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _FETCH, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    return process.communicate(timeout=60)[0].splitlines()


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_finished_download_says_where_it_came_from_and_is_not_fetched_again_unless_it_rotted(tmp_path: Path) -> None:
    progress = Recorder()
    with serving({"/a/model.pth": BODY}) as server:
        place = f"{server.url}/a/model.pth?dl=1&token=secret"
        got = fetch(place, folder=tmp_path, progress=progress)
        (request,) = server.log
        assert got.path.parent == tmp_path / "downloads"
        assert got.path.read_bytes() == BODY
        assert (got.sha256, got.size_bytes, got.is_ours) == (SHA, len(BODY), True)
        assert got.origin == f"{server.url}/a/model.pth?dl=1"
        assert request.path.endswith("token=secret")
        assert request.headers["accept-encoding"] == "identity"
        assert progress.starts == [("model.pth", len(BODY), 0)]
        assert (progress.n_bytes, progress.ends) == (len(BODY), 1)
        assert all(b"secret" not in path.read_bytes() for path in left(tmp_path))
        assert fetch(place, folder=tmp_path, progress=SilentProgress()) == got
        assert len(server.log) == 1
        got.path.write_bytes(BODY[:-1] + b"!")
        assert fetch(place, folder=tmp_path, progress=SilentProgress()).path.read_bytes() == BODY
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
        by_name = fetch(f"{server.url}/{named}", folder=tmp_path / "w", progress=SilentProgress())
        by_hash = fetch(f"{server.url}/net.pth", folder=tmp_path / "w", sha256=SHA, progress=SilentProgress())
        assert server.log == []
        assert [got.path for got in (by_name, by_hash)] == [folder / named, folder / "net.pth"]
        assert by_name.origin == str(folder / named)
        unknown = fetch(f"{server.url}/net.pth", folder=tmp_path / "w", progress=SilentProgress())
        assert (unknown.is_ours, len(server.log)) == (True, 1)
        unknown.path.unlink()
        (folder / "net.pth").write_bytes(b"something else")
        got = fetch(f"{server.url}/net.pth", folder=tmp_path / "w", sha256=SHA, progress=SilentProgress())
        assert (got.is_ours, got.path.read_bytes()) == (True, BODY)
    assert (folder / "net.pth").read_bytes() == b"something else"


def test_a_users_own_file_is_checked_where_it_lies_and_never_ours(tmp_path: Path) -> None:
    own = tmp_path / "own.pth"
    own.write_bytes(BODY)
    for place in (str(own), own.as_uri(), os.path.relpath(own)):
        got = fetch(place, folder=tmp_path / "w", sha256=SHA.upper(), size_bytes=len(BODY))
        assert (got.sha256, got.size_bytes, got.is_ours, got.origin) == (SHA, len(BODY), False, str(own))
    with pytest.raises(WeightsRefused, match=f"{SHA} \\(400000 bytes\\), expected {'0' * 64}"):
        fetch(str(own), folder=tmp_path / "w", sha256="0" * 64)
    with pytest.raises(WeightsRefused, match=r"expected .* \(7 bytes\)"):
        fetch(str(own), folder=tmp_path / "w", size_bytes=7)
    os.mkfifo(tmp_path / "pipe")
    for place, says in (("absent.pth", "No such file"), (".", "is not a file"), ("pipe", "is not a file")):
        with pytest.raises(WeightsUnavailable, match=says):
            fetch(str(tmp_path / place), folder=tmp_path / "w")
    with pytest.raises(QueryError, match="64 hexadecimal digits"):
        fetch("https://host.invalid/a.pth", folder=tmp_path, sha256="0676ba61")
    assert not (tmp_path / "w").exists()


def test_offline_no_socket_is_opened_and_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    own = tmp_path / "own.pth"
    own.write_bytes(BODY)
    processes = [apart(place, tmp_path / "w", ZOO_OFFLINE="1") for place in ("https://host.invalid/a.pth", own)]
    (sentence, opened), own_said = (said(process) for process in processes)
    assert sentence.startswith("WeightsUnavailable: ")
    assert "ZOO_OFFLINE" in sentence
    assert opened == "sockets: 0"
    assert own_said == [SHA, "sockets: 0"]


def test_an_interrupted_download_is_gone_on_with_and_its_bar_with_it(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.plan("/a.pth", Fault(piece_bytes=50_000, pause_s=0.005))
        with pytest.raises(KeyboardInterrupt):
            fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Recorder(interrupt_at=HALF))
        (part,) = (tmp_path / "partial").glob("*.part")
        done = part.stat().st_size
        assert BODY.startswith(part.read_bytes())
        progress = Recorder()
        got = fetch(f"{server.url}/a.pth", folder=tmp_path, progress=progress)
        assert server.log[-1].range == f"bytes={done}-"
    assert got.path.read_bytes() == BODY
    assert progress.starts == [("a.pth", len(BODY), done)]
    assert progress.n_bytes == len(BODY) - done


def test_bytes_that_are_not_of_the_file_are_noticed_by_the_hash_and_fetched_again(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        server.plan("/a.pth", Fault(truncate=HALF))
        with pytest.raises(WeightsUnavailable, match="200000 bytes that came are kept"):
            fetch(f"{server.url}/a.pth", folder=tmp_path, progress=SilentProgress(), policy=ONCE)
        (part,) = (tmp_path / "partial").glob("*.part")
        part.write_bytes(bytes(HALF))
        assert fetch(f"{server.url}/a.pth", folder=tmp_path, sha256=SHA, progress=SilentProgress()).sha256 == SHA
        assert [request.range for request in server.log] == ["", f"bytes={HALF}-", ""]


def test_several_processes_and_threads_at_once_all_get_the_whole_file(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY, "/b.pth": BODY}) as server:
        server.always("/a.pth", Fault(piece_bytes=20_000, pause_s=0.002))
        server.always("/b.pth", Fault(piece_bytes=20_000, pause_s=0.02))

        def got(name: str, _: int) -> str:
            return fetch(f"{server.url}/{name}", folder=tmp_path, progress=SilentProgress()).sha256

        processes = [apart(f"{server.url}/a.pth", tmp_path) for _ in range(2)]
        with ThreadPoolExecutor(8) as pool:
            assert {*pool.map(got, ["a.pth", "b.pth"] * 4, range(8))} == {SHA}
        assert [said(process)[0] for process in processes] == [SHA, SHA]
        assert len([request for request in server.log if request.path == "/b.pth"]) == 1  # others wait and take it
    assert {path.read_bytes() == BODY for path in (tmp_path / "downloads").iterdir()} == {True}
    assert list((tmp_path / "partial").glob("*.part")) == []


def test_faults_of_the_disk_are_one_sentence_and_leave_nothing(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY, "/net-0123abcd.pth": BODY}) as server:
        full, _ = said(apart(f"{server.url}/a.pth", tmp_path / "w", "limited"))
        assert full.startswith("StoreError: The folder ") and "make room" in full and "ZOO_CACHE" in full
        with pytest.raises(WeightsRefused, match="begins with 0123abcd"):
            fetch(f"{server.url}/net-0123abcd.pth", folder=tmp_path / "w", progress=SilentProgress())
        assert left(tmp_path) == []
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(StoreError, match=r"cannot be written .* set ZOO_CACHE to a folder on another disk\.$"):
            fetch(f"{server.url}/a.pth", folder=tmp_path / "file/weights", progress=SilentProgress())


def test_a_file_system_without_locks_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (errno.ENOLCK, errno.ENOSYS):

        def refuses(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", refuses)
        with serving({"/a.pth": BODY}) as server, pytest.raises(StoreError, match="a file system without locks"):
            fetch(f"{server.url}/a.pth", folder=tmp_path, progress=SilentProgress())
    assert left(tmp_path) == []


def test_the_proxy_of_the_environment_is_used_and_http_needs_a_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://weights.invalid/a.pth"
    with serving({address: BODY}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with pytest.raises(WeightsRefused, match="plain http"):
            fetch(address, folder=tmp_path, progress=SilentProgress(), size_bytes=len(BODY))
        assert proxy.log == []
        got = fetch(address, folder=tmp_path, sha256=SHA, progress=SilentProgress())
        assert [request.path for request in proxy.log] == [address]
    assert got.path.read_bytes() == BODY


def test_the_bar_shows_bytes_on_a_terminal_and_nothing_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(stderr: io.StringIO, folder: str) -> str:
        monkeypatch.setattr(sys, "stderr", stderr)
        with serving({"/model.pth": BODY}) as server:
            server.plan("/model.pth", Fault(truncate=100_000))
            fetch(f"{server.url}/model.pth", folder=tmp_path / folder)
        return stderr.getvalue()

    drawn = shown(Terminal(), "a")
    assert "model.pth: 100%" in drawn
    assert "400k/400k" in drawn
    assert drawn.count("\n") == 1  # one bar, though there were two requests
    assert shown(io.StringIO(), "b") == ""
    for variable in ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(variable, "1")
        assert shown(Terminal(), variable) == ""
        monkeypatch.delenv(variable)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # without tqdm work goes on without a bar
    bar = ProgressBar("B")
    bar.start("model.pth", 1000, 400)
    bar.advance(600)
    bar.end()
