"""Signals end every verb, whatever its threads wait for."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

import zoo.cli
from tests.children import ForkedCommand

ENCODER = "pocket_simclr_rn_shapes"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="sees what is open")]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in two classes, one of which has four terabytes, though none on the disk."""
    root = tmp_path_factory.mktemp("large")
    for number in range(12):
        file = root / ("cat", "dog")[number % 2] / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)).save(file)
    with open(root / "cat" / "0.png", "r+b") as large:
        large.truncate(2**42)
    return root


def opens(pid: int, file: Path) -> bool:
    """Whether a process has a file open."""
    try:
        return any(os.path.realpath(f"/proc/{pid}/fd/{one}") == str(file) for one in os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # it has ended, or has closed one meanwhile
        return False


def check_end(process: ForkedCommand, number: int) -> None:
    """A process that is sent a signal ends by it, in a sentence."""
    code, _, said = process.end_by(number)
    assert code == 128 + number
    assert "Stopped" in said and "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("verb", ["evaluate", "features", "look", "look at files"])
def test_a_signal_ends_a_verb_whose_threads_read_without_end(
    verb: str, number: int, images: Path, tmp_path: Path
) -> None:
    arguments = {
        "evaluate": ("evaluate", ENCODER, str(images), "--no-record"),
        "features": ("features", ENCODER, str(images), "--out", str(tmp_path / "features")),
        "look": ("look", ENCODER, str(images), "--out", str(tmp_path / "look")),
        "look at files": ("look", ENCODER, str(images / "cat"), "--out", str(tmp_path / "look")),
    }[verb]
    process = ForkedCommand(*arguments)
    process.wait_for(lambda: opens(process.pid, images / "cat" / "0.png"))
    check_end(process, number)


def wait_without_waking() -> None:
    """The command, whose main thread no signal reaches."""

    def wait() -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # to which the signal is delivered
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        print("waits", flush=True)
        threading.Event().wait()

    vars(zoo.cli)["load_command"] = lambda verb, name: click.Command("list", callback=wait)  # of the fork
    zoo.cli.main("list")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_verb_whose_main_thread_it_does_not_wake(number: int) -> None:
    process = ForkedCommand(run=wait_without_waking)
    process.wait_for(lambda: process.said()[0] == "waits\n")
    check_end(process, number)
