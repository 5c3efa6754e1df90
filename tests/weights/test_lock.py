"""The lock file: what it remembers, what it refuses, and that it is never half written."""

from __future__ import annotations

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


class TestFiles:
    def test_without_anything_said_it_is_the_users_own(self, home: Path) -> None:
        assert lock.lock_files() == [home / "zoo.lock"]

    def test_one_in_the_working_folder_counts_before_the_users_own(self, home: Path) -> None:
        Path("zoo.lock").touch()
        assert lock.lock_files() == [Path("zoo.lock").absolute(), home / "zoo.lock"]

    def test_one_that_is_named_counts_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("zoo.lock").touch()
        monkeypatch.setenv("ZOO_LOCK", str(tmp_path / "named.lock"))
        assert lock.lock_files() == [tmp_path / "named.lock"]

    def test_the_users_own_is_read_once_where_it_is_the_working_folders(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home.mkdir()
        (home / "zoo.lock").touch()
        monkeypatch.chdir(home)
        assert lock.lock_files() == [home / "zoo.lock"]


class TestRemembering:
    def test_a_download_is_one_line_below_a_header(self, home: Path) -> None:
        remember(PLACE)
        header, line = (home / "zoo.lock").read_text().splitlines()
        assert header.startswith("# SSL Zoo")
        assert line == f"sha256:{A} 7 {PLACE}"
        assert lock.known(PLACE) == lock.Entry(place=PLACE, sha256=A, size_bytes=7, lock=home / "zoo.lock")
        assert lock.known("https://host/other.pth") is None

    def test_lines_are_sorted_by_place_and_written_once(self, home: Path) -> None:
        places = ["timm:b", "hf:owner/repository/pretrained models/a.pth", "https://host/ä.pth", "timm:b"]
        for place in places:
            remember(place)
        assert [line.split(" ", 2)[2] for line in lines(home / "zoo.lock")] == sorted(set(places))
        assert all(lock.known(place) is not None for place in places)

    def test_what_is_known_already_is_not_written_again(self, home: Path) -> None:
        remember(PLACE)
        before = (home / "zoo.lock").stat()
        remember(PLACE)
        assert (home / "zoo.lock").stat().st_mtime_ns == before.st_mtime_ns

    def test_an_empty_file_in_the_working_folder_starts_a_lock_of_the_experiment(self, home: Path) -> None:
        Path("zoo.lock").touch()
        remember(PLACE)
        assert lines(Path("zoo.lock")) == lines(home / "zoo.lock") == [f"sha256:{A} 7 {PLACE}"]

    def test_weights_from_a_cache_are_written_for_the_experiment_only(self, home: Path) -> None:
        Path("zoo.lock").touch()
        remember(PLACE, is_download=False)
        assert lines(Path("zoo.lock")) == [f"sha256:{A} 7 {PLACE}"]
        assert not home.exists()

    @pytest.mark.parametrize(("sha256", "size_bytes"), [(B, 7), (A, 8)])
    def test_another_file_at_a_known_place_is_refused_and_both_are_named(
        self, home: Path, sha256: str, size_bytes: int
    ) -> None:
        remember(PLACE)
        with pytest.raises(WeightsRefused) as caught:
            remember(PLACE, sha256, size_bytes=size_bytes)
        for part in (PLACE, f"{sha256} ({size_bytes} bytes)", f"{A} (7 bytes)", str(home / "zoo.lock")):
            assert part in str(caught.value)
        assert lines(home / "zoo.lock") == [f"sha256:{A} 7 {PLACE}"]


class TestReading:
    def test_lock_files_that_contradict_each_other_are_both_named(self, home: Path) -> None:
        remember(PLACE)
        Path("zoo.lock").write_text(f"sha256:{B} 7 {PLACE}\n")
        with pytest.raises(WeightsRefused) as caught:
            lock.known(PLACE)
        assert all(str(part) in str(caught.value) for part in (Path("zoo.lock").absolute(), home / "zoo.lock", A, B))
        assert lock.known("https://host/other.pth") is None

    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    def test_comments_empty_lines_and_equal_lines_of_two_branches_are_read(self, newline: str) -> None:
        text = ["# mine", "", f"sha256:{A} 7 {PLACE}", f"sha256:{A} 7 {PLACE}", "   ", f"sha256:{B} 8 timm:b"]
        Path("zoo.lock").write_bytes(newline.join(text).encode())
        first, second = lock.known(PLACE), lock.known("timm:b")
        assert first is not None
        assert second is not None
        assert (first.sha256, second.sha256, second.size_bytes) == (A, B, 8)

    def test_different_lines_of_two_branches_are_refused(self) -> None:
        Path("zoo.lock").write_text(f"sha256:{A} 7 {PLACE}\nsha256:{B} 7 {PLACE}\n")
        with pytest.raises(WeightsRefused, match="locked it at"):
            lock.known("timm:b")

    @pytest.mark.parametrize(
        "line",
        [
            "<<<<<<< HEAD",
            f"sha256:{A[:-1]} 7 {PLACE}",
            f"sha256:{A.upper()} 7 {PLACE}",
            f"sha256:{A} 7",
            f"{A} 7 {PLACE}",
            f"sha256:{A} seven {PLACE}",
            "x" * 5_000,
        ],
        ids=lambda line: line[:12],
    )
    def test_a_damaged_line_is_named_by_its_number(self, line: str) -> None:
        Path("zoo.lock").write_text(f"# mine\nsha256:{B} 8 timm:b\n{line}\n")
        with pytest.raises(
            StoreError, match=r"zoo\.lock, line 3: found '.*expected 'sha256:HEX BYTES PLACE'"
        ) as caught:
            lock.known(PLACE)
        assert len(str(caught.value)) < 500

    def test_a_file_that_cannot_be_read_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        named = tmp_path / "named.lock"
        monkeypatch.setenv("ZOO_LOCK", str(named))
        named.write_bytes(b"\xff\xfe")
        with pytest.raises(StoreError, match="cannot be read"):
            lock.known(PLACE)
        named.unlink()
        named.mkdir()
        with pytest.raises(StoreError, match="no regular file"):
            lock.known(PLACE)
        with pytest.raises(StoreError, match="no regular file"):
            remember(PLACE)


class TestWriting:
    def test_after_any_fault_the_old_or_the_new_file_is_there_and_nothing_else(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lock, "one_at_a_time", lambda path: nullcontext())  # only saves work, and may fail
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

    def test_two_processes_at_once_leave_a_file_that_can_be_read(self, home: Path) -> None:
        script = (
            "import sys\nfrom zoo.weights import lock\n"
            "for number in range(40):\n"
            "    place = f'https://host/{sys.argv[1]}{number}'\n"
            "    lock.remember(place, sha256='a' * 64, size_bytes=7, is_download=True)\n"
        )
        writers = [subprocess.Popen([sys.executable, "-c", script, letter]) for letter in "ab"]
        while any(writer.poll() is None for writer in writers):
            assert lock.known(PLACE) is None  # and above all no error
        assert [writer.wait(60) for writer in writers] == [0, 0]
        assert list(files_below(home)) == ["zoo.lock"]
        found = lines(home / "zoo.lock")
        assert f"sha256:{A} 7 https://host/a39" in found or f"sha256:{A} 7 https://host/b39" in found
        for letter in "ab":  # what was lost comes back at the next load
            for number in range(40):
                remember(f"https://host/{letter}{number}")
        assert len(lines(home / "zoo.lock")) == 80
