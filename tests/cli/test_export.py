"""``zoo export``: what it writes, says and refuses, and what is left when it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from tests.cli_runner import document, run
from tests.servers import serving
from tests.tiny import checkpoint, write_card
from zoo.cards.catalogue import load_catalogue
from zoo.regression_check import get_recording_path


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


def test_it_says_what_was_written(tmp_path: Path) -> None:
    assert get_recording_path(load_catalogue()["tiny"]).is_file()  # by the first one
    result = run("export", "TINY", "--hub", str(tmp_path / "out"))
    assert result.stdout.startswith(f"Wrote tiny to {tmp_path / 'out'}: model.safetensors (")
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert ModelCard.load(tmp_path / "out" / "README.md").data.library_name == "ssl-zoo"
    written = document("export", "tiny", "--hub", str(tmp_path / "out"))
    files = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    assert {one["file"]: one["size_bytes"] for one in written["files"]} == files
    assert written["sha256"] == sha256((tmp_path / "out" / "model.safetensors").read_bytes()).hexdigest()


def test_weights_that_cannot_be_had_leave_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    result = run("export", "absent", "--hub", str(tmp_path / "out"), code=1)
    assert "The weights of 'absent' cannot be loaded" in result.stderr
    assert not (tmp_path / "out").exists()


def test_no_key_in_an_address_reaches_what_is_published(tmp_path: Path) -> None:
    """From wherever it may come: the page, the paper, the place of the weights, a note."""
    secret = "token=SECRET123"
    with serving({"/secret.pth": checkpoint("tiny")}) as server:
        path = write_card("secret", f"{server.url}/secret.pth?{secret}", mirrors=[f"https://h.invalid/w?{secret}"])
        with path.open("a") as card:
            card.write(f'provenance.url = "https://me:SECRET123@h.invalid/page?id=7&{secret}"\n')
            card.write('licence.weights = "not published"\n')
            card.write(f'paper.url = "https://h.invalid/paper?{secret}"\n')
            card.write(f'weights.note = "Also at https://h.invalid/other?{secret}, and so on."\n')
        try:
            results = [run("export", "secret", "--hub", str(tmp_path / "out")) for _ in range(2)]
        finally:
            path.unlink()
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert len(written) == 3
    for text in [*written.values(), *(one.encode() for result in results for one in (result.stdout, result.stderr))]:
        assert b"SECRET123" not in text
    readme = written["README.md"].decode()
    assert ModelCard(readme).data.license_link == "https://h.invalid/page?id=7"
    assert "Also at https://h.invalid/other, and so on." in readme
    assert f"{server.url}/secret.pth`" in readme
    assert b'"released_at": "https://h.invalid/page?id=7"' in written["config.json"]
