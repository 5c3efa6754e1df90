"""What surrounds a download: the user's own files, disks, proxies, safe addresses, old leftovers, the bar."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.servers import Fault, serving
from zoo.errors import StoreError, WeightsRefused, WeightsUnavailable
from zoo.progress import Bar, Silent
from zoo.weights.download import fetch

BODY = random.Random(4).randbytes(300_000)
SHA = sha256(BODY).hexdigest()
_LIMITED = """
import resource, sys
from pathlib import Path
from zoo.errors import ZooError
from zoo.weights.download import fetch
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    fetch(sys.argv[1], folder=Path(sys.argv[2]))
except ZooError as error:
    print(f"{type(error).__name__}: {error}")
"""


class Terminal(io.StringIO):
    """A stderr that draws bars."""

    def isatty(self) -> bool:
        return True


def test_a_users_own_file_is_checked_where_it_lies_and_never_ours(tmp_path: Path) -> None:
    own = tmp_path / "own.pth"
    own.write_bytes(BODY)
    for place in (str(own), own.as_uri(), os.path.relpath(own)):
        got = fetch(place, folder=tmp_path / "w", sha256=SHA.upper(), size_bytes=len(BODY))
        assert (got.sha256, got.size_bytes, got.is_ours) == (SHA, len(BODY), False)
        assert got.path.samefile(own)
        assert got.origin == str(own)
    with pytest.raises(WeightsRefused, match=f"{SHA} \\(300000 bytes\\), expected {'0' * 64}"):
        fetch(str(own), folder=tmp_path / "w", sha256="0" * 64)
    with pytest.raises(WeightsRefused, match=r"expected .* \(7 bytes\)"):
        fetch(str(own), folder=tmp_path / "w", size_bytes=7)
    assert own.read_bytes() == BODY
    assert not (tmp_path / "w").exists()


def test_what_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, says in (("absent.pth", "No such file"), (".", "is not a file"), ("pipe", "is not a file")):
        with pytest.raises(WeightsUnavailable, match=says) as caught:
            fetch(str(tmp_path / place), folder=tmp_path / "w")
        assert str(caught.value).endswith("correct the path.")


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with serving({"/a.pth": BODY}) as server:
        done = subprocess.run(  # a process that may write no file of more than 100 kB
            [sys.executable, "-c", _LIMITED, f"{server.url}/a.pth", str(tmp_path / "w")],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout.startswith("StoreError: The folder ") and "make room" in done.stdout
    assert "ZOO_CACHE" in done.stdout
    assert done.stdout.count("\n") == 1
    assert not [path for path in (tmp_path / "w").rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuses)
    with serving({"/a.pth": BODY}) as server, pytest.raises(StoreError, match="a file system without locks"):
        fetch(f"{server.url}/a.pth", folder=tmp_path, progress=Silent())
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".part"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with serving({"/a.pth": BODY}) as server, pytest.raises(StoreError, match="cannot be written") as caught:
        fetch(f"{server.url}/a.pth", folder=tmp_path / "file/weights", progress=Silent())
    assert str(caught.value).endswith("set ZOO_CACHE to a folder on another disk.")
    assert server.log == []


def test_the_proxy_of_the_environment_is_used_and_http_needs_a_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://weights.invalid/a.pth"
    with serving({address: BODY}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        for unsafe in ({}, {"size_bytes": len(BODY)}):
            with pytest.raises(WeightsRefused, match="plain http"):
                fetch(address, folder=tmp_path, progress=Silent(), **unsafe)  # type: ignore[arg-type]
        assert proxy.log == []
        got = fetch(address, folder=tmp_path, sha256=SHA, progress=Silent())
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
    assert "300k/300k" in drawn
    assert drawn.count("\n") == 1  # one bar, though there were two requests
    assert shown(io.StringIO(), "b") == ""
    for variable in ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(variable, "1")
        assert shown(Terminal(), variable) == ""
        monkeypatch.delenv(variable)


def test_without_tqdm_work_goes_on_without_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    bar = Bar("B")
    bar.start("model.pth", 1000, 0)
    bar.advance(1000)
    bar.end()
    assert terminal.getvalue() == ""


def test_the_bar_goes_on_from_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = Bar("B")
    bar.start("model.pth", 1000, 400)
    bar.advance(600)
    bar.end()
    first, last = terminal.getvalue().split("\r")[1], terminal.getvalue().split("\r")[-1]
    assert "40%" in first
    assert "100%" in last
