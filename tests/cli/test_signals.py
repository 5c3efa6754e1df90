"""Signals end every verb, whatever its threads wait for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ENCODER = "pocket_simclr_rn_shapes"
BOUND_S = 200  # a hang, and no measure of speed: reading the file would take hours
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


def opens(process: subprocess.Popen[str], file: Path) -> bool:
    """Whether a process has a file open."""
    try:
        descriptors = os.listdir(f"/proc/{process.pid}/fd")
        return any(os.path.realpath(f"/proc/{process.pid}/fd/{one}") == str(file) for one in descriptors)
    except OSError:  # it has ended, or has closed one meanwhile
        return False


def check_end(command: list[str], number: int, await_start: Callable[[subprocess.Popen[str]], None]) -> None:
    """A process that is sent a signal once it has started ends by it, in a sentence."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            await_start(process)
            process.send_signal(number)
            _, said = process.communicate(timeout=BOUND_S)
        finally:
            process.kill()
    assert process.returncode == 128 + number
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
    command = [sys.executable, "-m", "zoo", *arguments]

    def await_reading(process: subprocess.Popen[str]) -> None:
        patience = time.monotonic() + 200
        while not opens(process, images / "cat" / "0.png") and time.monotonic() < patience:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)

    check_end(command, number, await_reading)


_SLEEPS = """
import signal, threading
import click
import zoo.cli

def run():
    threading.Thread(target=threading.Event().wait, daemon=True).start()  # to which the signal is delivered
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    print("waits", flush=True)
    threading.Event().wait()

zoo.cli.load_command = lambda verb, name: click.Command("list", callback=run)
zoo.cli.main("list")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_verb_whose_main_thread_it_does_not_wake(number: int) -> None:
    def await_words(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"

    check_end([sys.executable, "-c", _SLEEPS], number, await_words)
