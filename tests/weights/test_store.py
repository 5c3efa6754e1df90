"""Records of converted weights, and the files that appear whole or not at all, whatever fails on the way."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from zoo import files
from zoo.errors import StoreError, WeightsRefused
from zoo.files import lock_file, replace_file
from zoo.weights import store

DISK_FAULTS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)
RECORD = store.WeightsRecord(
    encoder="tiny",
    origins=(
        store.FileOrigin(
            place="https://host/a.pth", address="https://host/a.pth", sha256="a" * 64, size_bytes=7, format="x"
        ),
        store.FileOrigin(place="timm:b", address="https://hub/b", sha256="b" * 64, size_bytes=8, format="safetensors"),
    ),
    layout="dino",
    layout_version=1,
    architecture="c" * 32,
    sha256="d" * 64,
    size_bytes=9,
    sums=("00000000", "ffffffff"),
    created="2026-01-31",
    versions={"torch": "2.4"},
)


@contextmanager
def failing(number: int, code: int, *, for_ever: bool) -> Iterator[list[str]]:
    """Makes one system call of :mod:`zoo.files` fail, counted from 0, or also all after it; lists the calls."""
    calls: list[str] = []

    def check(name: str) -> None:
        calls.append(name)
        if len(calls) - 1 == number or (for_ever and len(calls) > number):
            raise OSError(code, os.strerror(code))

    def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            check(name)
            return function(*arguments, **keywords)

        return call

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            half = len(data) // 2
            if half:
                super().write(memoryview(data)[:half])  # as a disk that runs full in the middle
            check("write")
            return half + super().write(memoryview(data)[half:])

    def opened(path: Path, mode: str) -> io.BufferedWriter:
        check("create")
        return io.BufferedWriter(File(path, mode), buffer_size=256)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "open", opened, raising=False)
        for name in ("fsync", "replace", "link", "open"):
            patch.setattr(os, name, checked(name, getattr(os, name)))
        yield calls


def every_fault(write: Callable[[], Any], check: Callable[[bool], None], error: type[Exception]) -> list[str]:
    """Runs ``write`` once for every fault of every call that it makes, then without; returns the names of the calls.

    ``check`` is told whether the file had its name already when the fault came.
    """
    names: list[str] = []
    for for_ever in (False, True):
        for number in range(100):
            with failing(number, DISK_FAULTS[number % len(DISK_FAULTS)], for_ever=for_ever) as calls:
                try:
                    write()
                except error:
                    failed = True
                else:
                    failed = False
            if not failed:
                assert len(calls) <= number, f"call {number} failed, and nobody was told: {calls}"
                names = calls
                break
            check(bool({"replace", "link"} & set(calls[:number])))
        else:
            pytest.fail("more than 100 calls")
    return names


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestReplaced:
    @pytest.mark.parametrize("must_be_new", [False, True])
    def test_after_any_fault_the_file_is_the_old_or_the_new_one_and_nothing_else_is_left(
        self, tmp_path: Path, must_be_new: bool
    ) -> None:
        target, old, new = tmp_path / "file", b"old" * 500, b"new" * 700

        def write() -> None:
            target.unlink(missing_ok=True)
            if not must_be_new:
                target.write_bytes(old)
            with replace_file(target, must_be_new=must_be_new) as file:
                for start in range(0, len(new), 300):
                    file.write(new[start : start + 300])

        def check(was_named: bool) -> None:
            before = {} if must_be_new else {"file": old}
            assert files_below(tmp_path) == ({"file": new} if was_named else before)

        calls = every_fault(write, check, OSError)
        assert calls.count("write") >= 5
        naming = "link" if must_be_new else "replace"
        assert [name for name in calls if name != "write"] == ["create", "fsync", naming, "open", "fsync"]
        assert files_below(tmp_path) == {"file": new}

    def test_an_error_of_the_writer_leaves_the_old_file_and_a_new_one_does_not_replace_another(
        self, tmp_path: Path
    ) -> None:
        target = tmp_path / "file"
        target.write_bytes(b"old")
        for error in (ValueError, KeyboardInterrupt):
            with pytest.raises(error), replace_file(target) as file:
                file.write(b"half")
                raise error
        assert files_below(tmp_path) == {"file": b"old"}
        target.unlink()
        with pytest.raises(FileExistsError), replace_file(target, must_be_new=True) as file:
            file.write(b"mine")
            target.write_bytes(b"theirs")  # appears while this one is written
        assert files_below(tmp_path) == {"file": b"theirs"}
        target.unlink()
        os.mkfifo(target)
        with pytest.raises(OSError, match="no regular file"), replace_file(target) as file:
            file.write(b"x")
        assert target.is_fifo()

    def test_a_file_may_be_read_by_whom_the_umask_lets(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            with replace_file(tmp_path / "file") as file:
                file.write(b"x")
        finally:
            os.umask(before)
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640

    def test_a_full_disk_or_a_killed_writer_leaves_the_old_file(self, tmp_path: Path) -> None:
        target = tmp_path / "file"
        target.write_bytes(b"old")
        script = (
            "import os, resource, signal, sys\nfrom pathlib import Path\nfrom zoo.files import replace_file\n"
            "if len(sys.argv) > 2:\n"  # the system itself refuses to write more than 100 kB
            "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
            "try:\n"
            "    with replace_file(Path(sys.argv[1])) as file:\n"
            "        file.write(bytes(200_000))\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "except OSError as error:\n"
            "    print(error.strerror)\n"
        )
        command = [sys.executable, "-c", script, str(target)]
        full = subprocess.run([*command, "limited"], capture_output=True, text=True, check=True)
        assert full.stdout == "File too large\n"
        assert files_below(tmp_path) == {"file": b"old"}
        assert subprocess.run(command, check=False).returncode == -9
        assert target.read_bytes() == b"old"
        (left,) = [name for name in files_below(tmp_path) if name != "file"]
        assert (left[:6], left[-4:]) == (".file-", ".tmp")  # known for garbage


class TestLocks:
    def test_a_lock_keeps_others_out_until_its_block_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "lock"
        with lock_file(path), pytest.raises(StoreError, match="for 0 seconds"), lock_file(path, patience_s=0):
            pytest.fail("two have it")
        with lock_file(path, patience_s=0):
            (tmp_path / "file").touch()
        with pytest.raises(FileExistsError), lock_file(tmp_path / "file" / "lock"):
            pytest.fail("there is nothing to lock")

    def test_a_file_system_without_locks_keeps_nobody_out_and_errors_are_those_of_the_block(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):

            def flock(*_: object, number: int = number) -> None:
                raise OSError(number, os.strerror(number))

            monkeypatch.setattr(fcntl, "flock", flock)
            with lock_file(tmp_path / "lock"), lock_file(tmp_path / "lock"):
                pass
            with pytest.raises(OSError, match="of the block") as caught, lock_file(tmp_path / "lock"):
                raise OSError(number, "of the block")
            assert caught.value.__context__ is None


def sealed(facts: object) -> bytes:
    """A record with a right checksum, whatever is in it."""
    body = json.dumps(facts).encode()
    return blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


class TestRecords:
    def test_a_record_survives_the_round_trip_and_its_key_is_a_hash_of_what_goes_in(self) -> None:
        reading = store.FileReading(layout="dino", unwrapped=("module.",), left_out=("head",))
        for record in (RECORD, replace(RECORD, selection="own", reading=reading)):
            assert store.parse_record(store.encode_record(record), where="here") == record
        text = "https://host/a.pth\0timm:b\0dino\0001\0" + "c" * 32
        assert RECORD.key == blake2b(text.encode(), digest_size=16).hexdigest()
        for change in (
            {"layout": "timm"},
            {"layout_version": 2},
            {"architecture": "0" * 32},
            {"origins": RECORD.origins[:1]},
            {"origins": RECORD.origins[::-1]},
        ):
            assert replace(RECORD, **change).key != RECORD.key
        other = replace(RECORD, encoder="twin", sha256="0" * 64, size_bytes=1, sums=(), created="", versions={})
        assert other.key == RECORD.key

    def test_any_change_of_any_byte_is_refused(self) -> None:
        content = store.encode_record(RECORD)
        damaged = [content[:end] for end in range(len(content))] + [content + b"\n", b"", b"\n"]
        damaged += [
            content[:position] + bytes([content[position] ^ 1 << position % 8]) + content[position + 1 :]
            for position in range(len(content))
        ]
        for one in damaged:
            with pytest.raises(WeightsRefused, match=r"^The record here is damaged .*; remove the file"):
                store.parse_record(one, where="here")

    def test_a_sealed_record_of_nonsense_is_refused_and_one_of_another_version_left_alone(self, tmp_path: Path) -> None:
        facts = json.loads(store.encode_record(RECORD).partition(b"\n")[2])
        for change in (
            {"origins": []},
            {"origins": [3]},
            {"sums": 5},
            {"size_bytes": "9"},
            {"sha256": "../../../etc/passwd"},
            {"unheard_of": 1},
        ):
            with pytest.raises(WeightsRefused) as caught:
                store.parse_record(sealed(facts | change), where="here")
            assert "\n" not in str(caught.value)
        for missing in ("origins", "sha256", "sums"):
            with pytest.raises(WeightsRefused):
                store.parse_record(sealed({name: fact for name, fact in facts.items() if name != missing}), where="")
        store.write_record(tmp_path, RECORD)
        store.get_record_path(tmp_path, RECORD.key).write_bytes(sealed({"format": "zoo-record-2", "all": "new"}))
        with pytest.raises(StoreError, match="another version of the zoo"):
            store.find(tmp_path, RECORD.key)
        assert list(store.iterate_weights_records(tmp_path)) == []


class TestFolders:
    def test_a_record_is_found_only_with_its_weights(self, tmp_path: Path) -> None:
        assert store.find(tmp_path, RECORD.key) is None
        store.write_record(tmp_path, RECORD)
        assert store.find(tmp_path, RECORD.key) is None
        weights = store.get_tensors_path(tmp_path, RECORD.sha256)
        weights.parent.mkdir()
        weights.write_bytes(b"weights")
        assert store.find(tmp_path, RECORD.key) == RECORD
        assert store.find(tmp_path, "0" * 32) is None
        store.get_record_path(tmp_path, "b" * 32).write_bytes(store.encode_record(RECORD))
        with pytest.raises(WeightsRefused, match="is of other weights"):
            store.find(tmp_path, "b" * 32)
        for folder in (tmp_path / "absent", weights, weights / "below"):
            assert store.find(folder, RECORD.key) is None
            assert list(store.iterate_weights_records(folder)) == []
        store.get_record_path(tmp_path, "c" * 32).mkdir()
        with pytest.raises(StoreError, match=r"cannot be read \(Is a directory\)"):
            store.find(tmp_path, "c" * 32)

    def test_records_come_in_the_order_of_their_names_and_damaged_ones_as_none(self, tmp_path: Path) -> None:
        other = replace(RECORD, layout="timm")
        for record in (RECORD, other):
            store.write_record(tmp_path, record)
        broken = tmp_path / "records" / "0.json"
        broken.write_bytes(b"{}")
        (tmp_path / "records" / ".x.json-0123456789abcdef.tmp").write_bytes(b"half")
        (tmp_path / "records" / "folder.json").mkdir()
        first, *rest = store.iterate_weights_records(tmp_path)
        assert first == (broken, None)
        assert [path.stem for path, _ in rest] == sorted([RECORD.key, other.key])
        assert all(record in (RECORD, other) for _, record in rest)
