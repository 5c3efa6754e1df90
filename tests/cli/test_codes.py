"""Exit codes: 0 fine, 1 found a problem or something is in the way, 2 misuse of the command line, 130 interrupted."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import zoo.errors
from tests.card_text import VALID
from tests.children import Child
from tests.cli_runner import run
from tests.servers import Fault, serving
from tests.tiny import checkpoint, write_card
from tests.weights.test_care import folders, put
from zoo.cli import AFTER_INTERRUPT, VERBS
from zoo.cli import zoo as command_line
from zoo.cli.list import list_command
from zoo.errors import CorruptImage, MissingExtra, PlaceError, QueryError, UnknownName, ZooError
from zoo.weights.places import weights_folder

__all__ = ["folders"]  # a fixture


def kinds(base: type[ZooError] = ZooError) -> Iterator[type[ZooError]]:
    yield base
    for kind in base.__subclasses__():
        if kind.__module__ == zoo.errors.__name__:
            yield from kinds(kind)


def raised(kind: type[ZooError]) -> ZooError:
    if issubclass(kind, UnknownName):
        return kind("encoder", "dino", ["dino_rn50"])
    if issubclass(kind, MissingExtra):
        return kind("torch", extra="models", needed_for="Loading")
    if issubclass(kind, PlaceError):
        return kind("a sentence.", reason="a reason")
    return kind("3.png", "a sentence.") if issubclass(kind, CorruptImage) else kind("a sentence.")


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
def test_only_what_another_command_line_would_mend_is_misuse(
    kind: type[ZooError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> None:
        raise raised(kind)

    monkeypatch.setattr(list_command, "callback", refuse)
    assert run("list", code=2 if issubclass(kind, (QueryError, UnknownName)) else 1).stderr.startswith("Error: ")


@pytest.mark.parametrize(
    ("situation", "arguments", "code"),
    [
        ("", "list", 0),
        ("", "get init_vitS16", 0),
        ("", "verify", 0),
        ("", "list nosuchthing", 1),
        ("", "list --limit 0", 2),
        ("", "list --where z_dim", 2),
        ("", "show dino_vits1", 2),
        ("", "recommend --labels none", 2),
        ("no network", "get dino_vitS16", 1),
        ("no network", "check dino_vitS16", 1),
        ("no network", "mirror here dino_vitS16", 1),
        ("no network", "export dino_vitS16 --hub out", 1),
        ("no network", "evaluate dino_vitS16 shapes:classes=2,train=12,val=8,size_px=16 --settings full", 1),
        ("no network", "features dino_vitS16 shapes:classes=2,train=12,val=8,size_px=16", 1),
        ("no network", "curve dino_vitS16 shapes --task depth", 1),
        ("no network", "register https://one.invalid/a.pth --like dino_vitS16 --id mine", 1),
        ("", "get pirl_rn50", 1),
        ("", "evaluate pocket_simclr_rn_shapes nowhere/at/all", 2),
        ("", "metric rankme nowhere.npy", 1),
        ("", "probe nowhere nothing", 1),
        ("a file for a cache", "get pocket_simclr_rn_shapes", 1),
        ("a file for a cache", "features pocket_simclr_rn_shapes shapes:classes=2,train=12,val=8,size_px=16", 1),
        ("a broken card", "list", 0),
        ("a broken card", "show dino_vitS16", 0),
        ("a broken card", "recommend --labels 5000", 0),
        ("a broken card", "show tiny_vitS16", 2),
        ("damaged weights", "verify", 1),
        ("a broken lock file", "verify", 1),
    ],
)
def test_a_situation_has_its_code(
    situation: str, arguments: str, code: int, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if situation == "no network":
        monkeypatch.setenv("ZOO_OFFLINE", "1")
    elif situation == "a file for a cache":
        (tmp_path / "file").touch()
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "file"))
    elif situation == "a broken card":
        Path(os.environ["ZOO_HOME"], "metadata").mkdir(parents=True)
        Path(os.environ["ZOO_HOME"], "metadata", "mine.toml").write_text(VALID.replace("epochs = 800", "epochs = -1"))
    elif situation == "damaged weights":
        record = put("dino_rn50")
        (weights_folder() / "tensors" / f"{record.sha256}.safetensors").write_bytes(b"x" * record.size_bytes)
    elif situation == "a broken lock file":
        put("dino_rn50")
        Path("zoo.lock").write_text("nonsense\n")
    run(*arguments.split(), code=code)


def test_a_disk_that_refuses_a_file_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "from zoo.cli import list as listing, main\n"
        f"def refuse(**options): raise OSError({errno.ENOSPC}, 'No space left on device', '/full/file')\n"
        "listing.list_command.callback = refuse\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "/full/file: No space left on device" in done.stderr


@pytest.mark.parametrize("verb", AFTER_INTERRUPT)
def test_an_interrupted_verb_says_what_is_kept_and_what_to_do(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    command = getattr(import_module(f"zoo.cli.{VERBS[verb].module}"), f"{verb}_command")
    monkeypatch.setattr(command, "make_context", interrupted)
    result = run(verb, code=130)
    assert result.stdout == ""
    assert result.stderr.startswith("Stopped. ")
    assert "run the same command again" in result.stderr
    assert result.stderr.count("\n") == 1


def interruptible() -> tuple[int, str]:
    """Exit code of ``zoo get tiny`` and what it says; interrupts are ignored in the background otherwise."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result = CliRunner().invoke(command_line, ["get", "tiny"])
    return result.exit_code, result.stderr


def test_an_interrupted_download_goes_on_where_it_was(folders: Path) -> None:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    body = checkpoint("tiny")
    with serving({"/a.pth": body}) as server:
        server.plan("/a.pth", Fault(stall=len(body) // 2, piece_bytes=4096, pause_s=0.005))
        write_card("tiny", f"{server.url}/a.pth")
        child = Child(interruptible)
        while not any(path.stat().st_size > 40_000 for path in weights_folder().glob("partial/*.part")):
            assert child.process.is_alive()
            time.sleep(0.01)
        os.kill(child.process.pid or 0, signal.SIGINT)
        code, said = child.result()
        assert code == 130
        assert said.startswith("Stopped. ")
        assert said.count("\n") == 1
        run("get", "tiny")
        assert server.log[-1].range.startswith("bytes=")
    assert not list(weights_folder().glob("partial/*.part"))
