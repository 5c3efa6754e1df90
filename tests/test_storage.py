"""Places: a folder, memory and a real S3 server keep the same promises; failures are one sentence without passwords."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.children import Child
from tests.s3_here import Server, s3_here
from zoo.errors import PlaceError, QueryError
from zoo.storage import LocalLocation, Location, require_writable, resolve_place


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_here() as server:
        yield server


@pytest.fixture(params=["folder", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, s3: Server) -> Location:
    """An empty place of each kind."""
    s3.allow()
    return resolve_place(
        {"folder": str(tmp_path), "memory": f"memory:/{tmp_path}", "s3": f"s3://zoo{tmp_path}"}[request.param]
    )


def test_files_are_written_read_listed_and_removed(place: Location, tmp_path: Path) -> None:
    assert (place.names(), place.places(), place.sizes()) == ([], [], {})
    assert (place.read("a"), place.size("a"), place.modified_s("a")) == (None, None, None)
    place.write("a", b"0123456789")
    (tmp_path / "outside").write_bytes(b"of a file")
    place.write("deep/er/b", tmp_path / "outside")
    assert place.below("deep").below("er").read("b") == place.read("deep/er/b") == b"of a file"
    assert set(place.names()) - {"outside"} == {"a"} and place.places() == ["deep"]
    assert place.below("deep/er").sizes() == {"b": 9} and place.size("a") == 10
    assert [place.read("a", 3), place.read("a", 2, 4), place.read("a", 8, 9)] == [b"3456789", b"2345", b"89"]
    assert b"".join(place.blocks("a")) == b"0123456789"
    assert abs((place.modified_s("a") or 0) - time.time()) < 100
    place.write("a", b"shorter")
    assert place.read("a") == b"shorter"
    for _ in range(2):
        place.remove("a")
    assert place.read("a") is None and "a" not in place.names()
    with pytest.raises(PlaceError, match="cannot be read"):
        list(place.blocks("a"))


def test_a_file_is_new_once_and_of_several_writers_one_wins(place: Location) -> None:
    assert place.write_new("a", b"first") and not place.write_new("a", b"second")
    assert place.read("a") == b"first"
    copies = [pickle.loads(pickle.dumps(place)) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for number in range(3):
            won = list(threads.map(lambda n: copies[n].write_new(f"r{number}", b"%d" % n * 999), range(4)))  # noqa: B023
            assert sum(won) == 1 and place.read(f"r{number}") == b"%d" % won.index(True) * 999


def test_a_file_that_changes_has_another_state(place: Location) -> None:
    place.write("a", b"1234")
    place.write("b", b"12345")
    first = place.states()
    assert first["a"][0] == 4 and first["b"][0] == 5 and first["a"][1] and place.states() == first
    place.write("a", b"4321")
    second = place.states()
    assert second["a"][0] == 4 and second["a"][1] != first["a"][1] and second["b"] == first["b"]


def test_a_writable_place_is_left_as_it_was(place: Location) -> None:
    require_writable(place)
    assert place.names() == [] and (place.folder is None or os.listdir(place.folder) == [])


def test_names_stay_in_their_place(place: Location) -> None:
    for name in ("../a", "/a", "a/../../b", "a\\b"):
        with pytest.raises(QueryError, match="leads out of its place"):
            place.read(name)


def test_another_process_opens_the_address_again(s3: Server, tmp_path: Path) -> None:
    place = resolve_place(f"s3://zoo{tmp_path}")
    place.write("a", b"1")
    assert Child(lambda: place.read("a")).result() == b"1"
    assert "secret" not in repr(place)


def test_a_bucket_that_is_missing_or_forbidden_is_one_sentence_and_none_is_made(s3: Server, tmp_path: Path) -> None:
    with pytest.raises(
        PlaceError, match=r"^The place s3://absent/a cannot be written \(The specified bucket"
    ) as caught:
        require_writable(resolve_place("s3://absent/a"))
    assert "\n" not in str(caught.value) and resolve_place("s3://absent/a").names() == []
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason
    place = resolve_place(f"s3://zoo{tmp_path}")
    s3.refuse("PUT", tmp_path.name)
    with pytest.raises(PlaceError, match=r"cannot be written \(Access Denied\); make it writable"):
        require_writable(place)
    s3.allow()
    for method in ("GET", "HEAD"):
        s3.refuse(method, tmp_path.name)
    with pytest.raises(PlaceError, match=r"cannot be read \(PermissionError: Forbidden\)"):
        place.read("a")
    s3.allow()
    s3.cut(tmp_path.name)
    with pytest.raises(PlaceError, match="cannot be written"):
        place.write("a", b"x" * 100_000)
    s3.allow()
    assert place.names() == []


def test_a_folder_without_write_permission_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        PlaceError, match=r"file/below cannot be written \(.*\); make it writable, or name another"
    ) as caught:
        require_writable(LocalLocation(tmp_path / "file" / "below"))
    assert "\n" not in str(caught.value)
    assert (
        resolve_place(tmp_path / "file" / "below").names() == [] and resolve_place(tmp_path / "file").read("a") is None
    )


class Renaming(MemoryFileSystem):
    """Files in memory that can be seen while they are written, and be renamed, as those of SFTP."""

    protocol = "renaming"
    cachable = False
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    seen: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("renaming://").strip("/")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **how: object) -> None:
        self.seen.append(path.rpartition("/")[2])
        super().pipe_file(path, value, mode=mode)

    def mv(self, path1: str, path2: str, **how: object) -> None:
        assert path2 not in self.store
        self.store[path2] = self.store.pop(path1)


def test_where_files_can_be_seen_half_written_they_get_their_name_at_the_end() -> None:
    fsspec.register_implementation("renaming", Renaming, clobber=True)
    place = resolve_place("renaming://host/a")
    place.write("b", b"1")
    place.write("b", b"2")
    assert place.read("b") == b"2" and place.names() == ["b"]
    assert len(Renaming.seen) == 2 and all(name.startswith(".b-") and name.endswith(".tmp") for name in Renaming.seen)


def test_offline_nothing_but_this_machine_is_a_place(
    monkeypatch: pytest.MonkeyPatch, s3: Server, tmp_path: Path
) -> None:
    opened = resolve_place(f"s3://zoo{tmp_path}")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    for ask in (lambda: resolve_place("s3://zoo/a"), lambda: opened.read("a"), lambda: opened.write("a", b"")):
        with pytest.raises(PlaceError, match="ZOO_OFFLINE forbids"):
            ask()
    assert resolve_place("memory://a").names() == [] and resolve_place(tmp_path).names() == []


def test_no_message_has_a_password_and_other_addresses_are_refused(s3: Server) -> None:
    with pytest.raises(PlaceError) as caught:
        resolve_place("ftp://me:secret@127.0.0.1:9/x")
    assert "ftp://***@127.0.0.1:9/x" in str(caught.value) and "secret" not in str(caught.value)
    with pytest.raises(QueryError, match="'gopher://host/x' is neither a folder nor an address that works"):
        resolve_place("gopher://host/x")
