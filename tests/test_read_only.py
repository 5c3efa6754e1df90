"""Machines on which nothing can be written: what is there loads and shows, what is not is refused in one sentence."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
import torch

import zoo
from tests.cli_runner import document, run
from tests.servers import serving
from tests.tiny import checkpoint, state, write_card
from tests.weights.test_maintenance import folders
from zoo.errors import StoreError
from zoo.files import NO_HOME, get_cache_folder, get_user_folder

__all__ = ["folders"]  # a fixture
POCKET = "pocket_simclr_rn_shapes"


@pytest.fixture(params=["a file is in its place", "it is on a read-only disk"])
def unwritable(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A cache in which not even root can write."""
    cache = tmp_path / "read-only"
    monkeypatch.setenv("ZOO_CACHE", str(cache))
    if request.param == "a file is in its place":
        cache.touch()
        return cache
    make = os.mkdir

    def refuse(path: str | Path, *arguments: object, **more: object) -> None:
        if Path(path).is_relative_to(cache):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        make(path, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "mkdir", refuse)
    return cache


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_shipped_weights_load_as_they_do_elsewhere(unwritable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, _ = zoo.load(POCKET)
    assert not list(unwritable.parent.rglob("*.safetensors"))
    monkeypatch.setenv("ZOO_CACHE", str(unwritable.parent / "writable"))
    kept, _ = zoo.load(POCKET)
    assert same(there, kept)


def test_ones_own_file_loads_and_may_be_removed_then(unwritable: Path, tmp_path: Path) -> None:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    path = tmp_path / "mine.pth"
    buffer = io.BytesIO()
    torch.save(state("tiny"), buffer)
    path.write_bytes(buffer.getvalue())
    encoder, _ = zoo.load("tiny", weights=str(path))
    path.write_bytes(b"")
    loaded = {name.removeprefix("backbone."): tensor for name, tensor in encoder.state_dict().items()}
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state("tiny").items())


def test_what_must_be_downloaded_is_refused_before_it_is_asked_for(unwritable: Path) -> None:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    with serving({"/a.pth": checkpoint("tiny")}) as server:
        write_card("tiny", f"{server.url}/a.pth")
        with pytest.raises(StoreError, match="ZOO_CACHE"):
            zoo.load("tiny")
        assert server.sent_bytes == 0
        (one,) = document("get", "tiny", code=1)["encoders"]
    assert one["state"] == "failed"


def test_fetching_what_cannot_be_kept_is_a_failure(unwritable: Path) -> None:
    assert "set ZOO_CACHE" in run("get", POCKET, code=1).stderr


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose home is no folder, as that of a service."""
    for variable in (
        "ZOO_HOME",
        "ZOO_CACHE",
        "TORCH_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "ZOO_LOCK",
        "ZOO_MIRROR",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_without_a_home_everything_that_only_reads_works(homeless: None, tmp_path: Path) -> None:
    assert get_user_folder() == get_cache_folder() == NO_HOME
    for arguments in (("list",), ("show", POCKET), ("results", "simclr_rn50"), ("recommend", "--labels", "5000")):
        assert run(*arguments).stdout
    zoo.load(POCKET)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_the_doctor_calls_a_missing_home_a_problem(homeless: None) -> None:
    checks = {check["name"]: check for check in document("doctor", "--offline", code=1)["checks"]}
    assert checks["your own folder"]["status"] == "problem"
    assert "set ZOO_CACHE" in checks["zoo (ZOO_CACHE)"]["detail"]
