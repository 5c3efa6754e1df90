"""What other versions, people and processes may leave where the zoo reads: one sentence, and nothing lost."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

import pytest
import torch

from zoo.content import content_files
from zoo.errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable
from zoo.weights import lock, mirror, store
from zoo.weights.tensors import read_tensors, write_tensors

from .test_weights_store import RECORD


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
    store.keep(tmp_path, RECORD)
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


def test_weights_that_vanish_while_they_are_read_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = write_tensors(tmp_path, {"a": torch.ones(3)}, about={})
    path = tmp_path / f"{content.sha256}.safetensors"
    monkeypatch.setattr("zoo.weights.tensors._check", lambda path, content, remedy: path.unlink())
    with pytest.raises(StoreError, match=r"cannot be read.*; load it again") as caught:
        read_tensors(path, content, remedy="load it again")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["ftp://127.0.0.1:9/mirror", "zip://a::/nowhere/mirror.zip"])
def test_a_mirror_that_does_not_answer_is_one_sentence(place: str) -> None:
    with pytest.raises(WeightsUnavailable, match="cannot be read") as caught:
        mirror.local_copy(place, ["a" * 32])
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot be written"):
        mirror.write_mirror(place, [], {}, zoo_version="1")


def test_offline_no_mirror_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: str) -> None:
        raise AssertionError(f"{place} was opened")

    monkeypatch.setenv("ZOO_OFFLINE", "1")
    monkeypatch.setattr("zoo.weights.mirror._opened", refuse)
    with pytest.raises(WeightsUnavailable, match="ZOO_OFFLINE"):
        mirror.local_copy("https://host/mirror", ["a" * 32])


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
