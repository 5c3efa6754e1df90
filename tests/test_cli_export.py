"""``zoo export``: what it writes, says and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from zoo.cards import catalogue
from zoo.drift import recording_path

from .cli_runner import document, run
from .servers import serving
from .tiny import checkpoint, write_card


@pytest.fixture(scope="module", autouse=True)
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The weights of a small encoder, fetched by an export."""
    with pytest.MonkeyPatch.context() as patched:
        for variable in ("ZOO_HOME", "ZOO_CACHE"):
            patched.setenv(variable, str(tmp_path_factory.mktemp(variable.lower())))
        patched.delenv("ZOO_OFFLINE", raising=False)
        write_card("tiny", "https://nowhere.invalid/tiny.pth")
        write_card("absent", "https://nowhere.invalid/absent.pth")
        with serving({"/tiny.pth": checkpoint("tiny")}) as server:
            write_card("tiny", f"{server.url}/tiny.pth")
            run("export", "tiny", "--hub", str(tmp_path_factory.mktemp("first")))
        yield


def test_the_weights_are_fetched_first_and_their_features_recorded() -> None:
    assert recording_path(catalogue()["tiny"]).is_file()


def test_it_says_what_was_written(tmp_path: Path) -> None:
    result = run("export", "TINY", "--hub", str(tmp_path / "out"))
    assert result.stdout.startswith(f"Wrote tiny to {tmp_path / 'out'}: model.safetensors (")
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert ModelCard.load(tmp_path / "out" / "README.md").data.library_name == "ssl-zoo"


def test_json_names_the_files_and_the_hash(tmp_path: Path) -> None:
    written = document("export", "tiny", "--hub", str(tmp_path))
    files = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert {one["file"]: one["size_bytes"] for one in written["files"]} == files
    assert written["sha256"] == sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    assert (written["encoder"], written["folder"], written["note"]) == ("tiny", str(tmp_path), None)


def test_a_restrictive_licence_is_told(tmp_path: Path) -> None:
    path = Path(write_card("tiny", str(catalogue()["tiny"].weights.url)))
    before = path.read_text()
    try:
        path.write_text(before + 'licence.weights = "CC-BY-NC-4.0"\n')
        result = run("export", "tiny", "--hub", str(tmp_path))
        note = document("export", "tiny", "--hub", str(tmp_path))["note"]
    finally:
        path.write_text(before)
    assert result.stderr == note + "\n"
    assert "CC-BY-NC-4.0, forbids commercial use" in note


def test_an_untrained_encoder_is_misuse(tmp_path: Path) -> None:
    result = run("export", "init_rn50", "--hub", str(tmp_path), code=2)
    assert "random by definition and has no weights to export" in result.stderr


def test_a_folder_with_other_files_is_misuse_before_anything_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    result = run("export", "absent", "--hub", str(tmp_path), code=2)
    assert "it holds 'thesis.tex'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_weights_that_cannot_be_had_leave_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    result = run("export", "absent", "--hub", str(tmp_path / "out"), code=2)
    assert "The weights of 'absent' cannot be had" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_must_be_named() -> None:
    assert "Missing option '--hub'" in run("export", "tiny", code=2).stderr


def test_an_unknown_name_lists_the_nearest(tmp_path: Path) -> None:
    assert "did you mean" in run("export", "dino_vitS1", "--hub", str(tmp_path / "out"), code=2).stderr
