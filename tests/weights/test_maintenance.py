"""The care of folders of weights: whose they are, what is damaged, what may go and what must stay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest

from zoo.cards.catalogue import load_catalogue
from zoo.errors import StoreError
from zoo.weights import maintenance, store
from zoo.weights.locations import get_weights_folder

HOUR, DAY = 3_600, 86_400
NOTHING: list[str] = []


@pytest.fixture(autouse=True)
def folders(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of the user's own; returns that of the cached weights."""
    for variable in ("ZOO_MIRROR", "ZOO_LOCK"):
        monkeypatch.delenv(variable, raising=False)
    return get_weights_folder()


def put(
    encoder: str,
    *,
    folder: Path | None = None,
    places: Sequence[str] | None = None,
    content: bytes | None = None,
    layout: str = "dino",
    layout_version: int = 1,
    age_s: float = 0,
) -> store.WeightsRecord:
    """Weights and their record, as a load would keep them; without torch, for nobody reads the numbers here."""
    shelf = folder or get_weights_folder()
    body = encoder.encode() * 100 if content is None else content
    if places is None:
        weights = load_catalogue()[encoder].weights
        places = [str(weights.url), *weights.companions]
    origins = tuple(store.FileOrigin(place=p, address=p, sha256="a" * 64, size_bytes=7, format="x") for p in places)
    record = store.WeightsRecord(
        encoder=encoder,
        origins=origins,
        layout=layout,
        layout_version=layout_version,
        architecture="c" * 32,
        sha256=sha256(body).hexdigest(),
        size_bytes=len(body),
        sums=("00000000",),
        created="2026-01-31",
        versions={},
    )
    path = store.get_tensors_path(shelf, record.sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    store.write_record(shelf, record)
    for touched in (path, store.get_record_path(shelf, record.key)):
        age(touched, age_s)
    return record


def age(path: Path, seconds: float) -> Path:
    """Makes a file as if nobody had touched it for so long."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def made(path: Path, seconds: float, body: bytes = b"half") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return age(path, seconds)


def in_cache() -> list[maintenance.StoredRecord]:
    return [
        item
        for shelf in maintenance.list_stores()
        if shelf.kind != "mirror"
        for item in maintenance.list_store_records(shelf)
    ]


def left(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_shelves_are_cache_copies_registered_and_a_mirror_in_a_folder(
    tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [shelf.kind for shelf in maintenance.list_stores()] == ["cache", "registered"]
    assert in_cache() == maintenance.find_garbage(layouts=None) == []
    (folders / "mirrors" / "0123").mkdir(parents=True)
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    assert {shelf.kind: shelf.folder for shelf in maintenance.list_stores()} == {
        "cache": folders,
        "copy of a mirror": folders / "mirrors" / "0123",
        "registered": tmp_path / "zoo_home" / "weights",
        "mirror": tmp_path / "mirror",
    }
    monkeypatch.setenv("ZOO_MIRROR", "s3://bucket/zoo")
    assert "mirror" not in {shelf.kind for shelf in maintenance.list_stores()}
    (folders / "mirrors" / "0123").rmdir()
    monkeypatch.setenv("ZOO_HOME", os.environ["ZOO_CACHE"])
    monkeypatch.setenv("ZOO_MIRROR", f"{folders}/")
    assert [shelf.kind for shelf in maintenance.list_stores()] == [
        "cache"
    ]  # a folder that is several of them is listed once


def test_encoders_that_share_a_file_and_a_network_read_the_same_weights() -> None:
    known = maintenance.group_by_places(load_catalogue().values())
    expected = ("dino_vitS16", "dino_vitS16_last", "dino_vitS16_extractB")
    for encoder in expected:
        assert maintenance.find_loading_encoders(put(encoder), known) == expected
    (mirror,) = load_catalogue()["dino_vitS16"].weights.mirrors
    assert maintenance.find_loading_encoders(put("dino_vitS16", places=[mirror]), known) == expected
    assert maintenance.find_loading_encoders(put("dino_vitS16", places=["sha256:" + "b" * 64]), known) == (
        "dino_vitS16",
    )
    assert maintenance.find_loading_encoders(put("gone", places=["https://host/gone.pth"]), known) == ("gone",)


def test_what_the_cards_say_of_sharing_agrees_with_the_state_dicts() -> None:
    """For a file that several encoders read, with and without the projection of CLIP."""
    from zoo.encoders import build_encoder
    from zoo.loading import hash_architecture

    known = maintenance.group_by_places(load_catalogue().values())
    for encoder in ("clip_vitL14_px336", "sup_vitS16"):
        cards = known[(str(load_catalogue()[encoder].weights.url),)]
        hashes = {card.id: hash_architecture(build_encoder(card, device="meta")) for card in cards}
        for one, other in combinations(hashes, 2):
            shared = other in maintenance.find_loading_encoders(
                put(one, places=[str(load_catalogue()[encoder].weights.url)]), known
            )
            assert shared == (hashes[one] == hashes[other]), (one, other)


def test_a_file_concerns_every_encoder_that_is_made_of_it_but_a_companion_not_its_own() -> None:
    record = put("lossyless_vitb32_b001")
    assert len(record.origins) == 2
    assert [card.id for card in load_catalogue().values() if maintenance.is_record_for(record, card)] == [
        "lossyless_vitb32_b001"
    ]
    record = put("clip_vitL14_px336")
    concerned = {card.id for card in load_catalogue().values() if maintenance.is_record_for(record, card)}
    assert {"clip_vitL14_px336", "clip_vitL14_px336_extractPred"} <= concerned
    assert "dino_vitS16" not in concerned


def test_every_bit_and_every_length_of_weights_counts() -> None:
    record = put("dino_vitS16", content=bytes(range(40)))
    path = store.get_tensors_path(get_weights_folder(), record.sha256)
    whole = path.read_bytes()
    seen: list[int] = []
    assert maintenance.find_damage(path, record, progress=seen.append) == ""
    assert sum(seen) == 40
    for position in range(40):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        assert maintenance.find_damage(path, record).startswith("its sha256 is ")
    path.write_bytes(whole[:-1])
    assert maintenance.find_damage(path, record) == "it has 39 bytes, expected 40"
    path.unlink()
    assert maintenance.find_damage(path, record) == "it cannot be read (No such file or directory)"


def test_weights_go_with_the_last_record_that_needs_them(folders: Path) -> None:
    first = put("dino_vitS16", content=b"shared")
    second = put("dino_vitS16", places=["timm:twin"], content=b"shared")
    weights = store.get_tensors_path(folders, first.sha256)
    items = {item.record.key: item for item in in_cache() if item.record}
    assert maintenance.remove([items[first.key]]) == 0
    assert weights.exists()
    assert maintenance.remove([items[second.key]]) == 6
    assert left(folders) == set()
    assert maintenance.remove([items[second.key]]) >= 0  # what is gone already is no error
    store.get_record_path(folders, first.key).mkdir()
    with pytest.raises(StoreError, match="cannot be removed"):
        maintenance.remove([items[first.key]])


def test_nothing_of_it_imports_torch() -> None:
    put("dino_vitS16")
    script = (
        "import sys\nfrom zoo.weights import maintenance\n"
        "stores = maintenance.list_stores()\n"
        "assert [item.record.encoder for store in stores for item in maintenance.list_store_records(store)] "
        "== ['dino_vitS16']\n"
        "assert maintenance.find_garbage(layouts=None) == []\n"
        "print(sorted({'torch', 'safetensors', 'numpy', 'fsspec', 'timm'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"[]\n"
