"""Mirrors: what they hold, that loads come from them alone, and that nothing damaged ever does."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

import zoo
from tests.tiny import checkpoint, write_card
from tests.weights.test_store import files_below
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import build_encoder
from zoo.errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable
from zoo.files import list_content_files
from zoo.loading import find_cached_weights, list_weights_sources
from zoo.weights import store
from zoo.weights.locations import get_weights_folder
from zoo.weights.mirror import MirrorItem, copy_from_mirror, write_mirror

IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
CARDS = {"shipped/dino.toml": b"# cards\n"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MirrorItem]:
    """The user's folder and a cache with a small encoder, to be copied; its source is gone."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("ZOO_HOME", "ZOO_CACHE"):
            patch.setenv(variable, str(folder / variable.lower()))
        source = folder / "source.pth"
        write_card("tiny", str(source))
        source.write_bytes(checkpoint("tiny"))
        zoo.load("tiny")
        source.unlink()
        found = find_cached_weights(
            list_weights_sources(load_catalogue()["tiny"], build_encoder(load_catalogue()["tiny"], device="meta"))
        )
    assert found is not None
    return folder, MirrorItem(encoder="tiny", record=found.record, path=found.path, licence="Apache-2.0")


@pytest.fixture
def item(prepared: tuple[Path, MirrorItem], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirrorItem:
    """A small encoder in the cache, to be mirrored."""
    folder, item = prepared
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        shutil.copytree(folder / variable.lower(), tmp_path / variable.lower())
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    return replace(item, path=store.get_tensors_path(get_weights_folder(), item.record.sha256))


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, item: MirrorItem, tmp_path: Path) -> Iterator[str]:
    """Where the mirror is; it is made by the test."""
    if request.param == "folder":
        yield str(tmp_path / "mirror")
        return
    yield f"memory://{tmp_path}/mirror"
    fsspec.filesystem("memory").rm(str(tmp_path), recursive=True)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> str:
    """The same mirror from a machine without a network that has loaded nothing yet."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "another_cache"))
    monkeypatch.setenv("ZOO_MIRROR", place)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    return place


def written(place: str, items: list[MirrorItem]) -> int:
    return write_mirror(place, items, CARDS, zoo_version="1.2.3")


def content(place: str, name: str) -> bytes:
    files, root = fsspec.core.url_to_fs(place)
    return bytes(files.cat_file(f"{root}/{name}"))


def put(place: str, name: str, body: bytes) -> None:
    files, root = fsspec.core.url_to_fs(place)
    files.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
    files.pipe_file(f"{root}/{name}", body)


def weights_of(item: MirrorItem) -> str:
    return f"tensors/{item.record.sha256}.safetensors"


class TestWriting:
    def test_a_mirror_holds_weights_records_cards_and_a_manifest(self, place: str, item: MirrorItem) -> None:
        assert written(place, [item]) == item.record.size_bytes
        assert content(place, weights_of(item)) == item.path.read_bytes()
        record = content(place, f"records/{item.record.key}.json")
        assert store.parse_record(record, where="") == item.record
        assert content(place, "metadata/shipped/dino.toml") == b"# cards\n"
        manifest = json.loads(content(place, "manifest.json"))
        assert (manifest["format"], manifest["zoo"]) == ("zoo-mirror-1", "1.2.3")
        assert manifest["encoders"]["tiny"] == {
            "record": item.record.key,
            "sha256": item.record.sha256,
            "size_bytes": item.record.size_bytes,
            "licence": "Apache-2.0",
            "places": [origin.place for origin in item.record.origins],
        }

    def test_what_is_there_is_not_copied_again_and_what_was_there_stays(self, place: str, item: MirrorItem) -> None:
        written(place, [item])
        twin = MirrorItem(encoder="tiny_twin", record=item.record, path=item.path, licence="MIT")
        assert written(place, [twin]) == 0
        assert list(json.loads(content(place, "manifest.json"))["encoders"]) == ["tiny", "tiny_twin"]

    def test_half_a_file_is_copied_again(self, place: str, item: MirrorItem) -> None:
        written(place, [item])
        put(place, weights_of(item), item.path.read_bytes()[:1000])
        assert written(place, [item]) == item.record.size_bytes
        assert content(place, weights_of(item)) == item.path.read_bytes()

    def test_a_place_that_belongs_to_something_else_is_left_alone(self, place: str, item: MirrorItem) -> None:
        for manifest in (
            b"{}",
            b'{"format": "other", "encoders": {}}',
            b'{"format": "zoo-mirror-1"}',
            b"[]",
            b"half {",
        ):
            put(place, "manifest.json", manifest)
            with pytest.raises(StoreError, match=r"manifest\.json"):
                written(place, [item])
            assert content(place, "manifest.json") == manifest

    def test_a_folder_that_cannot_be_made_is_one_sentence(self, tmp_path: Path, item: MirrorItem) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StoreError, match="cannot be written"):
            written(str(tmp_path / "file" / "mirror"), [item])


class TestLoading:
    def test_every_load_comes_from_the_mirror(
        self, item: MirrorItem, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = zoo.load("tiny")[0](IMAGE)
        written(place, [item])
        monkeypatch.setenv("ZOO_CACHE", f"{get_weights_folder()}_elsewhere")
        monkeypatch.setenv("ZOO_OFFLINE", "1")
        with pytest.raises(WeightsUnavailable):
            zoo.load("tiny")
        monkeypatch.setenv("ZOO_MIRROR", place)
        assert torch.equal(zoo.load("tiny")[0](IMAGE), expected)
        n_kept = len(files_below(get_weights_folder() / "tensors")) if get_weights_folder().exists() else 0
        assert n_kept == 0  # an address is copied into a folder of its own

    def test_an_address_is_copied_once(self, tmp_path: Path, item: MirrorItem, monkeypatch: pytest.MonkeyPatch) -> None:
        address = f"memory://{tmp_path}/once"
        written(address, [item])
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "another_cache"))
        monkeypatch.setenv("ZOO_MIRROR", address)
        first, _ = zoo.load("tiny")
        fsspec.filesystem("memory").rm(f"{tmp_path}/once", recursive=True)
        again, _ = zoo.load("tiny")
        assert torch.equal(first(IMAGE), again(IMAGE))
        copy = copy_from_mirror(address, [item.record.key])
        assert store.find(copy, item.record.key) == item.record

    def test_the_cache_does_not_stand_in_for_a_mirror(
        self, item: MirrorItem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(str(tmp_path / "mirror"), [])
        zoo.load("tiny")
        monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
        with pytest.raises(WeightsUnavailable, match="has no weights of 'tiny'"):
            zoo.load("tiny")

    def test_a_mirror_of_another_architecture_says_that_it_does_not_fit(self, item: MirrorItem, elsewhere: str) -> None:
        written(elsewhere, [item])
        card = write_card("tiny", item.record.origins[0].place)
        card.write_text(card.read_text().replace("depth = 2", "depth = 3"))
        with pytest.raises(WeightsUnavailable, match="has no weights of 'tiny' that fit this version of the zoo") as no:
            zoo.load("tiny")
        assert f"{elsewhere} (ZOO_MIRROR)" in str(no.value)

    def test_what_is_damaged_or_missing_is_one_sentence(self, item: MirrorItem, elsewhere: str) -> None:
        written(elsewhere, [item])
        for position in (0, 20, 5_000, -1):
            body = bytearray(item.path.read_bytes())
            body[position] ^= 4
            put(elsewhere, weights_of(item), bytes(body))
            with pytest.raises(WeightsRefused, match="make the mirror again"):
                zoo.load("tiny")
        files, root = fsspec.core.url_to_fs(elsewhere)
        files.rm(f"{root}/{weights_of(item)}")
        with pytest.raises(WeightsUnavailable, match="The mirror"):
            zoo.load("tiny")
        name = f"records/{item.record.key}.json"
        put(elsewhere, name, content(elsewhere, name).replace(b'"dino"', b'"Dino"'))
        with pytest.raises(WeightsRefused, match=r"The record .* is damaged"):
            zoo.load("tiny")
        assert not [name for name in files_below(get_weights_folder()) if "tensors" in name]

    def test_an_absent_folder_is_one_sentence(self, item: MirrorItem, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZOO_MIRROR", "/nonexistent/mirror")
        with pytest.raises(WeightsUnavailable, match="There is no mirror at /nonexistent/mirror; correct ZOO_MIRROR"):
            zoo.load("tiny")


class TestPlaces:
    def test_whatever_a_library_raises_is_one_sentence(
        self, item: MirrorItem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Complaint(Exception):
            """What a library raises that knows nothing of OSError."""

        def complain(*arguments: object, **keywords: object) -> None:
            raise Complaint("no luck.\nmany details")

        address = f"memory://{tmp_path}/mirror"
        for method in ("cat_file", "makedirs", "pipe_file"):
            with monkeypatch.context() as patch:
                patch.setattr(MemoryFileSystem, method, complain)
                with pytest.raises(StoreError) as caught:
                    written(address, [item])
            assert str(caught.value).startswith(f"The mirror {address} cannot be written (no luck); ")
        written(address, [item])
        for method in ("cat_file", "open"):
            with monkeypatch.context() as patch:
                patch.setattr(MemoryFileSystem, method, complain)
                with pytest.raises(WeightsUnavailable) as unread:
                    copy_from_mirror(address, [item.record.key])
            assert str(unread.value).startswith(f"The mirror {address} cannot be read (no luck); ")
            assert "\n" not in str(unread.value)
            assert isinstance(unread.value.__cause__, Complaint)
        assert not files_below(get_weights_folder() / "mirrors")
        put(address, f"records/{'b' * 32}.json", content(address, f"records/{item.record.key}.json"))
        with pytest.raises(WeightsRefused, match=r"is of other weights"):
            copy_from_mirror(address, ["b" * 32])

    def test_no_message_of_a_mirror_that_does_not_answer_has_its_password(self) -> None:
        for place in ("ftp://me:secret@127.0.0.1:9/mirror", "nosuch://me:/secret@host/mirror"):
            with pytest.raises((WeightsUnavailable, QueryError)) as reading:
                copy_from_mirror(place, ["a" * 32])
            with pytest.raises((StoreError, QueryError)) as writing:
                written(place, [])
            for caught in (reading, writing):
                assert "***@" in str(caught.value)
                assert "secret" not in "".join(traceback.format_exception(caught.value))

    def test_offline_a_mirror_of_this_machine_is_written_and_read_and_brings_its_cards(
        self, item: MirrorItem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ZOO_OFFLINE", "1")
        with pytest.raises(WeightsUnavailable, match="ZOO_OFFLINE forbids"):
            copy_from_mirror("ftp://127.0.0.1:9/m", ["a" * 32])
        with pytest.raises(StoreError, match="ZOO_OFFLINE forbids"):
            written("hf://datasets/owner/m", [])
        for place in (f"{tmp_path}/there", f"file://{tmp_path}/there", f"memory://{tmp_path}/there"):
            assert written(place, [item]) in (0, item.record.size_bytes)
            assert store.find(copy_from_mirror(place, [item.record.key]), item.record.key) == item.record
        card = tmp_path / "there" / "metadata" / "own" / "registered" / "mine" / "dino.toml"
        card.parent.mkdir(parents=True)
        card.touch()
        for form in ("{}", "file://{}"):
            monkeypatch.setenv("ZOO_MIRROR", form.format(tmp_path / "there"))
            assert card in list_content_files("metadata", ".toml")
