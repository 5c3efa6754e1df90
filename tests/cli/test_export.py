"""``zoo export``: what it writes, says and refuses, and what is left when it is interrupted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from tests.cli_runner import document, run
from tests.conftest import Run
from tests.servers import serving
from tests.tiny import checkpoint, write_card
from zoo.cards.catalogue import catalogue
from zoo.drift import recording_path
from zoo.hub.export import require_exportable


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


def test_the_current_folder_is_misuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "current folder, which cannot be replaced" in run("export", "tiny", "--hub", ".", code=2).stderr


def test_weights_that_cannot_be_had_leave_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    result = run("export", "absent", "--hub", str(tmp_path / "out"), code=1)
    assert "The weights of 'absent' cannot be loaded" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_must_be_named() -> None:
    assert "Missing option '--hub'" in run("export", "tiny", code=2).stderr


def test_an_unknown_name_lists_the_nearest(tmp_path: Path) -> None:
    assert "did you mean" in run("export", "dino_vitS1", "--hub", str(tmp_path / "out"), code=2).stderr


CRASH = """
import os, sys
from pathlib import Path
from zoo import files
new, old = map(Path, sys.argv[1:])
new.mkdir()
names = []
def stop(event, arguments):
    if event == "os.rename":
        names.append(arguments)
        if len(names) == 2:
            os._exit(9)  # between the two renames
sys.addaudithook(stop)
files.replace_folder(new, old)
"""


def test_an_export_that_is_killed_between_old_and_new_loses_nothing(
    tmp_path: Path, run_apart: Run, repository: Path
) -> None:
    out, card = tmp_path / "out", catalogue()["tiny"]
    run("export", "tiny", "--hub", str(out))
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    done = run_apart(CRASH, tmp_path / ".out-0123abcd.tmp", out, path=[repository], warm=True)
    assert done.returncode == 9, done.stderr
    assert not out.exists()
    require_exportable(card, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    os.rename(out, tmp_path / ".out-0123abcd.tmp.earlier")
    run("export", "tiny", "--hub", str(out))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out-0123abcd.tmp", "out"]


def test_what_comes_back_after_a_crash_is_not_overwritten_if_somebody_changed_it(tmp_path: Path) -> None:
    aside = tmp_path / ".out-0123abcd.tmp.earlier"
    aside.mkdir()
    (aside / "model.safetensors").write_text("mine")
    result = run("export", "tiny", "--hub", str(tmp_path / "out"), code=2)
    assert "README.md is missing), and nothing is overwritten" in result.stderr
    assert (tmp_path / "out" / "model.safetensors").read_text() == "mine"


def test_of_several_exports_left_aside_none_is_chosen(tmp_path: Path) -> None:
    names = [f".out-0123abc{digit}.tmp.earlier" for digit in "de"]
    for name in [*names, ".out-mine.tmp.earlier"]:
        (tmp_path / name).mkdir()
    result = run("export", "absent", "--hub", str(tmp_path / "out"), code=2)
    assert f"2 earlier exports lie beside it, left by interrupted ones ({', '.join(names)})" in result.stderr
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


def test_a_missing_huggingface_hub_is_said_in_one_sentence(run_apart: Run, repository: Path) -> None:
    script = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
    del sys.modules[name]
sys.modules["huggingface_hub"] = None
from zoo.errors import MissingExtra
try:
    import zoo.hub.export
except MissingExtra as error:
    print(error)
"""
    done = run_apart(script, path=[repository], warm=True)
    assert "'huggingface_hub', which is not installed" in done.stdout, done.stderr
