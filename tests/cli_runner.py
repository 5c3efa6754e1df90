"""Runs verbs of the command ``zoo`` in this process, for tests."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.children import ForkedCommand
from zoo.cli import zoo


def run(*arguments: str, code: int = 0) -> Result:
    """Run one verb and check its exit code; a traceback is never an answer."""
    result = CliRunner().invoke(zoo, arguments)
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    return result


def document(*arguments: str, code: int = 0) -> Any:
    """What a verb prints with --json; NaN would not be read."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(run(*arguments, "--json", code=code).stdout, parse_constant=refuse)


def names(*arguments: str) -> list[str]:
    return [record["encoder"] for record in document(*arguments)["encoders"]]


def table(*arguments: str) -> list[list[str]]:
    """Cells of a table in a pipe, by line; the first line is the header."""
    return [line.split() for line in run(*arguments).stdout.splitlines()]


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a new process."""
    command = [sys.executable, "-m", "zoo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def on_terminal(columns: int, *arguments: str, fresh: bool = False, **environment: str) -> str:
    """What a verb prints on a terminal of that many columns: in a fork, or in a new process where ``fresh``."""
    import fcntl
    import termios

    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    variables = {**inherited, "TERM": "xterm", **environment}
    running: subprocess.Popen[bytes] | ForkedCommand
    if fresh:
        command = [sys.executable, "-m", "zoo", *arguments]
        running = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=variables)
    else:
        running = ForkedCommand(*arguments, terminal=terminal, environment=variables)
    os.close(terminal)
    printed = b""
    while True:
        try:
            chunk = os.read(controller, 65_536)
        except OSError:  # how Linux says that the process has ended
            break
        if not chunk:
            break
        printed += chunk
    os.close(controller)
    assert (running.wait() if isinstance(running, subprocess.Popen) else running.finish()[0]) == 0, printed
    return printed.decode().replace("\r\n", "\n")


def answered(answer: str, *arguments: str, code: int) -> str:
    """What a verb prints on a terminal whose user types ``answer``."""
    controller, terminal = os.openpty()
    os.write(controller, answer.encode())
    printed = io.StringIO()
    with (
        os.fdopen(terminal) as stdin,
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed),
        redirect_stderr(printed),
        pytest.raises(SystemExit) as ended,
    ):
        patch.setattr(sys, "stdin", stdin)
        zoo(arguments)
    os.close(controller)
    assert ended.value.code == code, printed.getvalue()
    return printed.getvalue()
