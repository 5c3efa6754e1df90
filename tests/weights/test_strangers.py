"""What other versions, people and processes may leave where the zoo reads: one sentence, and nothing lost."""

from __future__ import annotations

import hashlib
import json
import socket
import traceback
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from tests.cli_runner import run
from tests.weights.test_store import RECORD
from zoo.errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable
from zoo.files import content_files
from zoo.storage import shown_place
from zoo.weights import lock, mirror, store
from zoo.weights.places import weights_folder
from zoo.weights.tensors import read_tensors, write_tensors


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "zoo_home"


def sealed(facts: object) -> bytes:
    """A record with a right checksum, whatever is in it."""
    body = json.dumps(facts).encode()
    return blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def test_a_record_of_another_version_is_neither_read_nor_taken_for_damage(tmp_path: Path) -> None:
    store.write_record(tmp_path, RECORD)
    path = store.record_path(tmp_path, RECORD.key)
    path.write_bytes(sealed({"format": "zoo-record-2", "all": "new"}))
    with pytest.raises(StoreError, match="another version of the zoo"):
        store.find(tmp_path, RECORD.key)
    assert list(store.records(tmp_path)) == []
    assert path.exists()


@pytest.mark.parametrize("character", ["\n", "\r", "\u2028", "\u0085", "\x00", "\ud800"])
def test_a_place_that_would_break_the_lock_file_is_refused(home: Path, character: str) -> None:
    with pytest.raises(WeightsRefused, match="one line") as caught:
        lock.remember(f"https://host/a{character}b", sha256="a" * 64, size_bytes=1, is_download=True)
    assert "\n" not in str(caught.value)
    assert not home.exists()


def test_a_lock_file_from_another_editor_is_read(home: Path) -> None:
    Path("zoo.lock").write_bytes(b"\xef\xbb\xbf# ours\r\nsha256:" + b"a" * 64 + b" 7 https://host/a b.pth\r\n")
    entry = lock.known("https://host/a b.pth")
    assert entry is not None
    assert (entry.sha256, entry.size_bytes) == ("a" * 64, 7)


@pytest.mark.parametrize("stand_in", ["nothing", "a folder"])
def test_weights_that_vanish_before_they_are_read_are_one_sentence(tmp_path: Path, stand_in: str) -> None:
    content = write_tensors(tmp_path, {"a": torch.ones(3)}, about={})
    path = tmp_path / f"{content.sha256}.safetensors"
    path.unlink()
    if stand_in == "a folder":
        path.mkdir()
    with pytest.raises(StoreError, match=r"cannot be read.*; load it again") as caught:
        read_tensors(path, content, remedy="load it again")
    assert "\n" not in str(caught.value)


def test_weights_that_vanish_after_they_were_read_are_still_there(tmp_path: Path) -> None:
    content = write_tensors(tmp_path, {"a": torch.arange(3.0)}, about={})
    path = tmp_path / f"{content.sha256}.safetensors"
    tensors = read_tensors(path, content, remedy="load it again")
    path.unlink()
    assert tensors["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("place", ["ftp://127.0.0.1:9/mirror", "zip://a::/nowhere/mirror.zip"])
def test_a_mirror_that_does_not_answer_is_one_sentence(place: str) -> None:
    with pytest.raises(WeightsUnavailable, match="cannot be read") as caught:
        mirror.local_copy(place, ["a" * 32])
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot be written"):
        mirror.write_mirror(place, [], {}, zoo_version="1")


@pytest.mark.parametrize(
    "place",
    [
        "ftp://127.0.0.1:9/mirror",
        "hf://datasets/owner/mirror",
        "memory://a::ftp://127.0.0.1:9/mirror",
        "simplecache::ftp://127.0.0.1:9/mirror",
        "nosuch://host/mirror",
    ],
)
def test_offline_no_socket_is_opened_for_a_mirror(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    asked: list[object] = []

    def refuse(*arguments: object, **keywords: object) -> None:
        asked.append(arguments)
        raise OSError("asked")

    monkeypatch.setenv("ZOO_OFFLINE", "1")
    for name in ("getaddrinfo", "create_connection", "socket"):
        monkeypatch.setattr(socket, name, refuse)
    with pytest.raises(WeightsUnavailable, match="ZOO_OFFLINE forbids"):
        mirror.local_copy(place, ["a" * 32])
    with pytest.raises(StoreError, match="ZOO_OFFLINE forbids"):
        mirror.write_mirror(place, [], {}, zoo_version="1")
    assert "ZOO_OFFLINE forbids" in run("mirror", place, "init_vitS16", code=1).stderr
    assert asked == []


@pytest.mark.parametrize("form", ["{}", "file://{}", "memory://{}"])
def test_offline_a_mirror_of_this_machine_is_written_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    place = form.format(tmp_path / "there")
    assert mirror.write_mirror(place, [], {"shipped/a.toml": b""}, zoo_version="1") == 0
    assert store.find(mirror.local_copy(place, [RECORD.key]), RECORD.key) is None


class Complaint(Exception):
    """What a library raises that knows nothing of OSError."""


class Strange(MemoryFileSystem):
    """Files in memory; one of the methods complains."""

    protocol = "strange"
    cachable = False
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    says = "no luck.\nmany details"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("strange://").strip("/")


def complain(*arguments: object, **keywords: object) -> None:
    raise Complaint(Strange.says)


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A mirror with a record and its weights, by a file system that fsspec has not known before."""
    fsspec.register_implementation("strange", Strange, clobber=True)
    monkeypatch.setattr(Strange, "store", {})
    weights = tmp_path / "weights"
    weights.write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    record = replace(RECORD, sha256=sha256, size_bytes=7)
    path = weights.rename(tmp_path / f"{sha256}.safetensors")
    item = mirror.Item(encoder="dino", record=record, path=path, licence="MIT")
    assert mirror.write_mirror("strange://mirror", [item], {}, zoo_version="1") == 7
    return "strange://mirror"


@pytest.mark.parametrize("method", ["__init__", "cat_file", "open"])
def test_whatever_a_library_raises_a_mirror_that_cannot_be_read_is_one_sentence(
    strange: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Strange, method, complain)
        with pytest.raises(WeightsUnavailable) as caught:
            mirror.local_copy(strange, [RECORD.key])
    assert str(caught.value).startswith("The mirror strange://mirror cannot be read (no luck); ")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, Complaint)
    assert [path for path in weights_folder().rglob("*") if path.is_file()] == []
    assert store.find(mirror.local_copy(strange, [RECORD.key]), RECORD.key) is not None


@pytest.mark.parametrize("method", ["__init__", "cat_file", "makedirs", "pipe_file"])
def test_whatever_a_library_raises_a_mirror_that_cannot_be_written_is_one_sentence(
    strange: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    before = Strange.store["/mirror/manifest.json"].getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(Strange, method, complain)
    with pytest.raises(StoreError, match=r"^The mirror strange://mirror cannot be written \(no luck\); every file"):
        mirror.write_mirror(strange, [], {"own/a.toml": b""}, zoo_version="1")
    assert Strange.store["/mirror/manifest.json"].getvalue() == before  # type: ignore[attr-defined]


def test_a_library_that_repeats_the_password_is_not_quoted(strange: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Strange, "__init__", complain)
    for says in ("no access to strange://me:sec%41ret@host", "bad port: 'secAret'"):
        monkeypatch.setattr(Strange, "says", says)
        with pytest.raises(WeightsUnavailable, match=r"strange://\*\*\*@host/m cannot be read \(Complaint\)") as caught:
            mirror.local_copy("strange://me:sec%41ret@host/m", [RECORD.key])
        assert "ret" not in "".join(traceback.format_exception_only(caught.value))
        assert caught.value.__cause__ is None


def test_a_record_of_other_weights_is_refused(strange: str) -> None:
    other = "b" * 32
    Strange.store[f"/mirror/records/{other}.json"] = Strange.store[f"/mirror/records/{RECORD.key}.json"]
    with pytest.raises(WeightsRefused, match=f"{other}.json is of other weights"):
        mirror.local_copy(strange, [other])
    assert [path for path in weights_folder().rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("ftp://me:secret@host:2121/m", "ftp://***@host:2121/m"),
        ("sftp://me:se/cr@et@host/m", "sftp://***@host/m"),
        ("https://secret@host/m?key=secret", "https://***@host/m?***"),
        ("zip://a.zip::ftp://me:secret@host/m", "zip://***@host/m"),
        ("simplecache::sftp://me:se::cret@host/m", "simplecache::sftp://***@host/m"),
        ("zip://folder/a::ftp://me:secret@host/m", "zip://folder/a::ftp://***@host/m"),
        ("hf://datasets/me/mirror@main", "hf://datasets/me/mirror@main"),
        ("/data/me:you@host/m?", "/data/me:you@host/m?"),
    ],
)
def test_the_password_of_a_mirror_is_never_shown(place: str, shown: str) -> None:
    assert shown_place(place) == shown


@pytest.mark.parametrize("password", ["secret", "/secret", "secret@", "0:secret"])
@pytest.mark.parametrize("scheme", ["ftp", "sftp", "https", "nosuch", "zip://a::ftp", "ftp://127.0.0.1:9/x::hf"])
def test_no_message_of_a_mirror_has_its_password(scheme: str, password: str) -> None:
    place = f"{scheme}://me:{password}@127.0.0.1:9/mirror"
    with pytest.raises((WeightsUnavailable, QueryError)) as reading:
        mirror.local_copy(place, ["a" * 32])
    with pytest.raises((StoreError, QueryError)) as writing:
        mirror.write_mirror(place, [], {}, zoo_version="1")
    for caught in (reading, writing):
        assert "***@" in str(caught.value)
        assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("place", ["reference://x", "filecache://x", "ftp://a..b/m"])
def test_an_address_that_lacks_something_is_refused(place: str) -> None:
    with pytest.raises(QueryError, match="neither a folder nor an address"):
        mirror.local_copy(place, ["a" * 32])
    with pytest.raises(QueryError, match="neither a folder nor an address"):
        mirror.write_mirror(place, [], {}, zoo_version="1")


def test_an_address_of_no_known_kind_is_refused() -> None:
    with pytest.raises(QueryError, match="neither a folder nor an address"):
        mirror.local_copy("gopher://host/mirror", ["a" * 32])


@pytest.mark.parametrize("manifest", [{"format": "zoo-mirror-1"}, {"format": "other", "encoders": {}}, [1], "text"])
def test_the_manifest_of_something_else_is_never_replaced(tmp_path: Path, manifest: object) -> None:
    path = tmp_path / "there" / "manifest.json"
    path.parent.mkdir()
    path.write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="belongs to no mirror"):
        mirror.write_mirror(str(path.parent), [], {}, zoo_version="1")
    assert json.loads(path.read_text()) == manifest


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_mirror_in_a_folder_brings_its_makers_own_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    card = tmp_path / "there" / "metadata" / "own" / "registered" / "mine" / "dino.toml"
    card.parent.mkdir(parents=True)
    card.touch()
    monkeypatch.setenv("ZOO_MIRROR", form.format(tmp_path / "there"))
    assert card in content_files("metadata", ".toml")
