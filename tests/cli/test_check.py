"""``zoo check``: what it prints, what it records, and its exit codes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.cli_runner import document, run
from tests.servers import serving
from tests.tiny import checkpoint, state, write_card
from zoo.regression_check import IMAGES


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with cards of small encoders, one of them untrained."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("home")
        patched.setenv("ZOO_HOME", str(folder))
        patched.delenv("ZOO_OFFLINE", raising=False)
        write_card("tiny", "https://nowhere.invalid/tiny.pth")
        write_random("random", interpolation="bicubic")
        yield folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))


def write_random(name: str, *, interpolation: str) -> None:
    path = write_card(name, "https://nowhere.invalid/none.pth")
    facts = f'objective.mode = "initialized"\npreprocess.interpolation = "{interpolation}"\n'
    path.write_text(path.read_text().replace("preprocess =", "# preprocess =") + facts)


def states(*arguments: str, code: int = 0) -> dict[str, str]:
    return {one["encoder"]: one["state"] for one in document("check", *arguments, code=code)["encoders"]}


def test_json_says_what_was_compared_with_what() -> None:
    first = document("check", "random")
    (one,) = first["encoders"]
    assert (first["n_drifted"], first["n_not_checked"], first["tolerance"]) == (0, 0, 1e-4)
    assert (one["state"], one["is_recorded"], one["compared_with"], one["images"]) == ("recorded", True, None, [])
    (one,) = document("check", "random")["encoders"]
    assert (one["state"], one["is_recorded"], one["changes"]) == ("same", False, [])
    assert [image["image"] for image in one["images"]] == [*IMAGES]
    assert {image["relative"] for image in one["images"]} == {0}


def test_a_change_of_preprocessing_is_told_with_its_reason_until_it_is_accepted() -> None:
    try:
        run("check", "random")
        write_random("random", interpolation="bilinear")
        result = run("check", "random", code=1)
        assert result.stderr.endswith("Error: 1 of 1: random drifted.\n")
        lines = result.stdout.splitlines()
        assert lines[0].startswith("random: drifted, recorded on 20")
        assert lines[1].split() == ["image", "largest", "difference", "relative", "cosine"]
        assert [line.split()[0] for line in lines[2:6]] == [*IMAGES]
        assert lines[6].split()[:2] == ["preprocess", "changed"] and "bicubic" in lines[6] and "bilinear" in lines[6]
        accepted = run("check", "random", "--record").stdout
        assert "random: drifted" in accepted and accepted.endswith("  Recorded anew.\n")
        assert states("random") == {"random": "same"}
    finally:
        write_random("random", interpolation="bicubic")


def test_numbers_that_are_not_finite_are_drift_and_null_in_json() -> None:
    overflowing = state("tiny")
    overflowing["norm.weight"] = torch.full_like(overflowing["norm.weight"], 3e38)
    overflowing["norm.bias"] = torch.full_like(overflowing["norm.bias"], 3e38)
    buffer = io.BytesIO()
    torch.save(overflowing, buffer)
    with serving({"/1.pth": checkpoint("tiny"), "/2.pth": buffer.getvalue()}) as server:
        for number in (1, 2):
            write_card("served", f"{server.url}/{number}.pth")
            found = document("check", "served", code=number - 1)
    (one,) = found["encoders"]
    assert one["state"] == "drifted"
    assert [image["relative"] for image in one["images"]] == [None] * len(IMAGES)
    assert "inf" in run("check", "served", code=1).stdout


def test_what_cannot_be_had_does_not_keep_the_others_from_being_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert states("tiny", "random", code=1) == {"tiny": "not checked", "random": "recorded"}
    result = run("check", "tiny", "random", code=1)
    assert "ZOO_OFFLINE forbids" in result.stdout
    assert result.stderr == "Error: 1 of 2: tiny not checked.\n"


def test_a_device_that_cannot_compute_is_misuse() -> None:
    result = run("check", "random", "--device", "banana", code=2)
    assert "The device 'banana' c" in result.stderr and result.stderr.count("\n") == 1
