"""Runs verbs of the command ``zoo`` in this process, for tests."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

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
