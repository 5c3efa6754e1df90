"""The lock file: what it remembers, what it refuses, and that it is never half written."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.weights.test_store import every_fault, files_below
from zoo.errors import StoreError, WeightsRefused
from zoo.weights import lock

A, B = "a" * 64, "b" * 64
PLACE = "https://host/path/checkpoint.pth"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own lock file; the working folder is another one."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOO_LOCK", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def remember(place: str, sha256: str = A, *, size_bytes: int = 7, is_download: bool = True) -> None:
    lock.remember(place, sha256=sha256, size_bytes=size_bytes, is_download=is_download)


def test_the_lock_files_are_the_named_one_alone_or_the_folders_and_the_users_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lock.list_lock_files() == [home / "zoo.lock"]
    Path("zoo.lock").touch()
    assert lock.list_lock_files() == [Path("zoo.lock").absolute(), home / "zoo.lock"]
    monkeypatch.setenv("ZOO_LOCK", str(tmp_path / "named.lock"))
    assert lock.list_lock_files() == [tmp_path / "named.lock"]
    monkeypatch.delenv("ZOO_LOCK")
    home.mkdir()
    (home / "zoo.lock").touch()
    monkeypatch.chdir(home)
    assert lock.list_lock_files() == [home / "zoo.lock"]


def test_downloads_are_lines_below_a_header_sorted_by_place_and_written_once(home: Path) -> None:
    remember(PLACE)
    header, line = (home / "zoo.lock").read_text().splitlines()
    assert header.startswith("# SSL Zoo")
    assert line == f"sha256:{A} 7 {PLACE}"
    assert lock.find_locked_file(PLACE) == lock.LockEntry(place=PLACE, sha256=A, size_bytes=7, lock=home / "zoo.lock")
    assert lock.find_locked_file("https://host/other.pth") is None
    before = (home / "zoo.lock").stat()
    remember(PLACE)
    assert (home / "zoo.lock").stat().st_mtime_ns == before.st_mtime_ns
    places = ["timm:b", "hf:owner/repository/pretrained models/a.pth", "https://host/ä.pth", "timm:b", PLACE]
    for place in places:
        remember(place)
    assert [line.split(" ", 2)[2] for line in lines(home / "zoo.lock")] == sorted(set(places))
    assert all(lock.find_locked_file(place) is not None for place in places)


def test_an_empty_file_in_the_working_folder_starts_a_lock_of_the_experiment(home: Path, tmp_path: Path) -> None:
    Path("zoo.lock").touch()
    remember(PLACE, is_download=False)  # weights from a cache are written for the experiment only
    assert lines(Path("zoo.lock")) == [f"sha256:{A} 7 {PLACE}"]
    assert not home.exists()
    remember(PLACE)
    assert lines(Path("zoo.lock")) == lines(home / "zoo.lock") == [f"sha256:{A} 7 {PLACE}"]
    Path("zoo.lock").rename(tmp_path / "shared.lock")
    Path("zoo.lock").symlink_to(tmp_path / "shared.lock")
    remember("timm:b")
    assert Path("zoo.lock").is_symlink()
    assert len(lines(tmp_path / "shared.lock")) == 2


def test_another_file_at_a_known_place_is_refused_and_both_are_named(home: Path) -> None:
    remember(PLACE)
    for sha256, size_bytes in ((B, 7), (A, 8)):
        with pytest.raises(WeightsRefused) as caught:
            remember(PLACE, sha256, size_bytes=size_bytes)
        for part in (PLACE, f"{sha256} ({size_bytes} bytes)", f"{A} (7 bytes)", str(home / "zoo.lock")):
            assert part in str(caught.value)
    assert lines(home / "zoo.lock") == [f"sha256:{A} 7 {PLACE}"]
    Path("zoo.lock").write_text(f"sha256:{B} 7 {PLACE}\n")
    with pytest.raises(WeightsRefused) as caught:  # lock files that contradict each other
        lock.find_locked_file(PLACE)
    assert all(str(part) in str(caught.value) for part in (Path("zoo.lock").absolute(), home / "zoo.lock", A, B))
    for character in "\n\r\u2028\x00\ud800":  # which would break the file
        with pytest.raises(WeightsRefused, match="one line"):
            remember(f"https://host/a{character}b")


def test_lines_of_other_editors_and_of_two_branches_are_read() -> None:
    text = ["# mine", "", f"sha256:{A} 7 {PLACE}", f"sha256:{A} 7 {PLACE}", "   ", f"sha256:{B} 8 timm:b"]
    for newline in ("\n", "\r\n"):
        Path("zoo.lock").write_bytes(b"\xef\xbb\xbf" + newline.join(text).encode())
        first, second = lock.find_locked_file(PLACE), lock.find_locked_file("timm:b")
        assert first is not None and second is not None
        assert (first.sha256, second.sha256, second.size_bytes) == (A, B, 8)
    Path("zoo.lock").write_text(f"sha256:{A} 7 {PLACE}\nsha256:{B} 7 {PLACE}\n")
    with pytest.raises(WeightsRefused, match="locked it at"):
        lock.find_locked_file("timm:b")


def test_what_cannot_be_read_is_named_by_its_line_and_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in ("<<<<<<< HEAD", f"sha256:{A[:-1]} 7 {PLACE}", f"sha256:{A} 7", f"{A} 7 {PLACE}", "x" * 5_000):
        Path("zoo.lock").write_text(f"# mine\nsha256:{B} 8 timm:b\n{line}\n")
        with pytest.raises(StoreError, match=r"zoo\.lock, line 3: found '.*expected 'sha256:HEX BYTES PLACE'") as no:
            lock.find_locked_file(PLACE)
        assert len(str(no.value)) < 500
    named = tmp_path / "named.lock"
    monkeypatch.setenv("ZOO_LOCK", str(named))
    named.write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="cannot be read"):
        lock.find_locked_file(PLACE)
    named.unlink()
    os.mkfifo(named)
    for call in (lock.find_locked_file, remember):
        with pytest.raises(StoreError, match="no regular file"):
            call(PLACE)
    assert named.is_fifo()


def test_after_any_fault_the_old_or_the_new_file_is_there_and_nothing_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "lock_for_writing", lambda path: nullcontext())  # only saves work, and may fail
    remember("timm:b", B)
    old = (home / "zoo.lock").read_bytes()
    new = old + f"sha256:{A} 7 https://z\n".encode()

    def write() -> None:
        (home / "zoo.lock").write_bytes(old)
        remember("https://z")

    def check(was_named: bool) -> None:
        (content,) = files_below(home).values()
        assert sorted(content.splitlines()) == sorted((new if was_named else old).splitlines())

    assert "replace" in every_fault(write, check, StoreError)


def test_many_processes_lose_no_line_and_leave_a_file_that_can_be_read(home: Path) -> None:
    script = (
        "import sys\nfrom zoo.weights import lock\n"
        "for number in range(10):\n"
        "    place = f'https://host/{sys.argv[1]}{number}'\n"
        "    lock.remember(place, sha256='a' * 64, size_bytes=7, is_download=True)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, letter]) for letter in "abcd"]
    while any(writer.poll() is None for writer in writers):
        assert lock.find_locked_file(PLACE) is None  # and above all no error
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert list(files_below(home)) == ["zoo.lock"]
    assert len(lines(home / "zoo.lock")) == len(set(lines(home / "zoo.lock"))) == 40
