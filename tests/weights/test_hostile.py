"""Loads where somebody has prepared something to deceive them: refused in one sentence, and no secret is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import zoo
from tests.servers import serving
from tests.tiny import checkpoint, state, write_card
from tests.weights.test_store import sealed
from zoo.errors import ContentError, StoreError, WeightsRefused
from zoo.weights.locations import get_weights_folder
from zoo.weights.tensors import write_tensors


@pytest.fixture(autouse=True)
def folders(own_folders: Path) -> Path:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    return own_folders


@pytest.fixture
def server() -> Iterator[Any]:
    with serving({"/tiny.pth": checkpoint("tiny")}) as running:
        write_card("tiny", f"{running.url}/tiny.pth")
        yield running


def test_a_mirror_that_somebody_made_to_deceive_is_refused(
    folders: Path, monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    import torch

    zoo.load("tiny")
    (path,) = get_weights_folder().glob("records/*")
    good = {f"backbone.{name}": tensor for name, tensor in state("tiny").items()}
    monkeypatch.setenv("ZOO_MIRROR", str(folders / "mirror"))
    for tensors, words in (
        ({name: tensor.half() for name, tensor in good.items()}, "is float16"),
        ({name: tensor * float("nan") for name, tensor in good.items()}, "not finite"),
        (dict(list(good.items())[1:]), "is missing"),
        (good | {"extra": torch.ones(1)}, "is left over"),
        ({name: tensor.unsqueeze(0) for name, tensor in good.items()}, "has shape"),
    ):
        content = write_tensors(folders / "mirror" / "tensors", tensors, about={})
        (folders / "mirror" / "records").mkdir(exist_ok=True)
        facts = json.loads(path.read_bytes().partition(b"\n")[2]) | asdict(content)
        (folders / "mirror" / "records" / path.name).write_bytes(sealed(facts))
        with pytest.raises(WeightsRefused, match=words) as caught:
            zoo.load("tiny")
        assert "\n" not in str(caught.value)


def test_the_users_own_lock_file_is_compared_at_every_load(folders: Path, server: Any) -> None:
    zoo.load("tiny")
    own = folders / "zoo_home" / "zoo.lock"
    own.write_text(
        "".join(f"sha256:{'2' * 64}{line[71:]}\n" for line in own.read_text().splitlines() if line[0] == "s")
    )
    with pytest.raises(WeightsRefused, match="2222"):
        zoo.load("tiny")


def test_no_secret_of_an_address_is_kept_anywhere(folders: Path, server: Any) -> None:
    place = f"{server.url}/tiny.pth?token=SECRET123"
    zoo.load("tiny", weights=place)
    zoo.register(place, like="tiny", name="mine")
    kept = [path for path in folders.rglob("*") if path.is_file()]
    assert len(kept) > 5
    assert not [path for path in kept if b"SECRET123" in path.read_bytes()]
    n_requests = len(server.log)
    zoo.load("tiny", weights=place)  # and yet it is known again
    assert len(server.log) == n_requests


def test_neither_a_mirror_nor_being_offline_hides_a_file_that_is_here(
    folders: Path, monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    (folders / "mirror").mkdir()
    monkeypatch.setenv("ZOO_MIRROR", str(folders / "mirror"))
    zoo.load("tiny", weights=f"{server.url}/tiny.pth")
    n_requests = len(server.log)
    zoo.load("tiny", weights=f"{server.url}/tiny.pth")
    assert len(server.log) == n_requests
    monkeypatch.delenv("ZOO_MIRROR")
    (folders / "copy.pth").write_bytes(checkpoint("tiny"))
    write_card("tiny", "https://nowhere.invalid/tiny.pth", mirrors=[str(folders / "copy.pth")])
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    zoo.load("tiny")


def test_a_home_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch, server: Any) -> None:
    for variable in ("ZOO_LOCK", "ZOO_MIRROR", "TORCH_HOME"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "~nobody-is-called-that/x")
            if variable == "TORCH_HOME":
                patch.delenv("ZOO_CACHE")
            with pytest.raises(ContentError, match="no such home folder"):
                zoo.load("tiny")


def test_a_refused_registration_or_download_leaves_nothing(folders: Path, server: Any) -> None:
    Path("mine.pth").write_bytes(checkpoint("tiny"))
    (folders / "zoo_home" / "metadata" / "registered").write_text("in the way")

    def files() -> list[Path]:
        return sorted(path for path in folders.rglob("*") if path.is_file() and "cards-" not in path.name)

    before = files()
    with pytest.raises(StoreError, match="cannot be written"):
        zoo.register("mine.pth", like="tiny", name="mine")
    assert files() == before
    server.files["/tiny.pth"] = b"no checkpoint at all"
    with pytest.raises(WeightsRefused):
        zoo.load("tiny")
    assert [path for path in files() if path not in before and path.suffix != ".lock"] == []
