"""Records, locks and places that somebody has made to deceive: refused in one sentence, and no secret is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.servers import serving
from tests.tiny import checkpoint, state, write_card
from zoo.errors import ContentError, StoreError, WeightsRefused
from zoo.files import replaced
from zoo.weights import lock, store
from zoo.weights.places import weights_folder
from zoo.weights.tensors import write_tensors


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    return tmp_path


@pytest.fixture
def server() -> Iterator[Any]:
    with serving({"/tiny.pth": checkpoint("tiny"), "/other.pth": checkpoint("tiny", seed=2)}) as running:
        write_card("tiny", f"{running.url}/tiny.pth")
        write_card("other", f"{running.url}/other.pth")
        yield running


def sealed(facts: object) -> bytes:
    body = json.dumps(facts).encode()
    return blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def facts_of(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_bytes().partition(b"\n")[2]))


def test_a_record_in_the_place_of_another_is_refused(server: Any) -> None:
    zoo.load("tiny")
    (tiny,) = weights_folder().glob("records/*")
    zoo.load("other")
    (other,) = set(weights_folder().glob("records/*")) - {tiny}
    other.write_bytes(tiny.read_bytes())
    with pytest.raises(WeightsRefused, match="is of other weights"):
        zoo.load("other")


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.pop("origins"),
        lambda facts: facts.pop("sha256"),
        lambda facts: facts.update(origins=[]),
        lambda facts: facts.update(origins=[3]),
        lambda facts: facts.update(sums=5),
        lambda facts: facts.update(sums=[]),
        lambda facts: facts.update(sums=[1]),
        lambda facts: facts.update(size_bytes="9"),
        lambda facts: facts.update(sha256="../../../etc/passwd"),
        lambda facts: facts.update(unheard_of=1),
        lambda facts: facts.update(versions=[]),
    ],
)
def test_a_sealed_record_of_nonsense_is_refused_in_one_sentence(
    server: Any, change: Callable[[dict[str, Any]], object]
) -> None:
    zoo.load("tiny")
    (path,) = weights_folder().glob("records/*")
    facts = facts_of(path)
    change(facts)
    path.write_bytes(sealed(facts))
    with pytest.raises(WeightsRefused) as caught:
        zoo.load("tiny")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: {name: tensor.half() for name, tensor in tensors.items()}, "is float16"),
        (lambda tensors: {name: tensor * float("nan") for name, tensor in tensors.items()}, "not finite"),
        (lambda tensors: dict(list(tensors.items())[1:]), "is missing"),
        (lambda tensors: tensors | {"extra": torch.ones(1)}, "is left over"),
        (lambda tensors: {name: tensor.unsqueeze(0) for name, tensor in tensors.items()}, "has shape"),
    ],
)
def test_a_mirror_that_somebody_made_to_deceive_is_refused(
    folders: Path, monkeypatch: pytest.MonkeyPatch, server: Any, change: Callable[[Any], Any], words: str
) -> None:
    zoo.load("tiny")
    (path,) = weights_folder().glob("records/*")
    tensors = {f"backbone.{name}": tensor for name, tensor in state("tiny").items()}
    content = write_tensors(folders / "mirror" / "tensors", change(tensors), about={})
    (folders / "mirror" / "records").mkdir()
    facts = facts_of(path) | asdict(content)
    (folders / "mirror" / "records" / path.name).write_bytes(sealed(facts))
    monkeypatch.setenv("ZOO_MIRROR", str(folders / "mirror"))
    with pytest.raises(WeightsRefused, match=words) as caught:
        zoo.load("tiny")
    assert "\n" not in str(caught.value)


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folders / "pipe")
    with pytest.raises(OSError, match="no regular file"), replaced(folders / "pipe") as file:
        file.write(b"x")
    monkeypatch.setenv("ZOO_LOCK", str(folders / "pipe"))
    with pytest.raises(StoreError, match="no regular file"):
        lock.remember("https://host/a", sha256="a" * 64, size_bytes=1, is_download=True)
    assert (folders / "pipe").is_fifo()


def test_a_lock_file_behind_a_link_is_written_where_it_is(folders: Path) -> None:
    (folders / "shared.lock").touch()
    Path("zoo.lock").symlink_to(folders / "shared.lock")
    lock.remember("https://host/a", sha256="a" * 64, size_bytes=1, is_download=True)
    assert Path("zoo.lock").is_symlink()
    assert "https://host/a" in (folders / "shared.lock").read_text()


def test_many_processes_lose_no_line_of_the_lock_file(folders: Path) -> None:
    script = (
        "import sys; from zoo.weights import lock\n"
        "for number in range(6):\n"
        "    place = f'https://host/{sys.argv[1]}-{number}'\n"
        "    lock.remember(place, sha256='a' * 64, size_bytes=3, is_download=True)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(number)]) for number in range(6)]
    assert [process.wait(timeout=60) for process in running] == [0] * 6
    lines = [line for line in (folders / "zoo_home" / "zoo.lock").read_text().splitlines() if line[0] != "#"]
    assert len(lines) == len(set(lines)) == 36


def test_the_users_own_lock_file_is_compared_at_every_load(folders: Path, server: Any) -> None:
    zoo.load("tiny")
    own = folders / "zoo_home" / "zoo.lock"
    lines = own.read_text().replace("sha256:", f"sha256:{'1' * 64} 5 {server.url}/other.pth\nsha256:")
    own.write_text(
        lines.replace(
            f"sha256:{facts_of(next(weights_folder().glob('records/*')))['origins'][0]['sha256']}", f"sha256:{'2' * 64}"
        )
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


def test_a_mirror_does_not_hide_the_users_own_checkpoint(
    folders: Path, monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    (folders / "mirror").mkdir()
    monkeypatch.setenv("ZOO_MIRROR", str(folders / "mirror"))
    zoo.load("tiny", weights=f"{server.url}/tiny.pth")
    n_requests = len(server.log)
    zoo.load("tiny", weights=f"{server.url}/tiny.pth")
    assert len(server.log) == n_requests


def test_offline_a_later_place_that_is_on_this_machine_is_found(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folders / "copy.pth").write_bytes(checkpoint("tiny"))
    write_card("tiny", "https://nowhere.invalid/tiny.pth", mirrors=[str(folders / "copy.pth")])
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    zoo.load("tiny")


@pytest.mark.parametrize("variable", ["ZOO_LOCK", "ZOO_MIRROR", "TORCH_HOME"])
def test_a_home_that_does_not_exist_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, server: Any, variable: str
) -> None:
    monkeypatch.setenv(variable, "~nobody-is-called-that/x")
    if variable == "TORCH_HOME":
        monkeypatch.delenv("ZOO_CACHE")
    with pytest.raises(ContentError, match="no such home folder") as caught:
        zoo.load("tiny")
    assert "\n" not in str(caught.value)


def test_a_refused_registration_leaves_nothing(folders: Path) -> None:
    Path("mine.pth").write_bytes(checkpoint("tiny"))
    home = folders / "zoo_home"
    (home / "metadata" / "registered").write_text("in the way")
    before = sorted(path for path in folders.rglob("*") if path.is_file() and "cards-" not in path.name)
    with pytest.raises(StoreError, match="cannot be written"):
        zoo.register("mine.pth", like="tiny", name="mine")
    assert sorted(path for path in folders.rglob("*") if path.is_file() and "cards-" not in path.name) == before


def test_a_refused_download_leaves_no_note_of_it(server: Any) -> None:
    server.files["/tiny.pth"] = b"no checkpoint at all"
    with pytest.raises(WeightsRefused):
        zoo.load("tiny")
    assert [path for path in weights_folder().rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_folder_in_the_place_of_a_record_stops_nobody(server: Any) -> None:
    zoo.load("tiny")
    (weights_folder() / "records" / "folder.json").mkdir()
    assert len(list(store.records(weights_folder()))) == 1
