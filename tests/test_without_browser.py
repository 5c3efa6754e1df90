"""A run without Chromium leaves the tests of pages out and says so; its exit code is that of the tests that ran."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import pytest
from tests.browser import WithoutBrowser

def pytest_configure(config):
    config.pluginmanager.register(WithoutBrowser(), "without browser")

@pytest.fixture
def browser():
    assert False, "there is none"

@pytest.fixture
def open_page(browser):
    pass
"""


@pytest.mark.parametrize(("other", "code"), [("pass", 0), ("assert False", 1)], ids=["", "one fails"])
@pytest.mark.parametrize("processes", [["--numprocesses", "1"]], ids=["in a worker"])
def test_tests_without_their_browser_are_left_out_aloud(
    processes: list[str], other: str, code: int, tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_pages.py").write_text(f"def test_page(open_page):\n    pass\ndef test_other():\n    {other}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *processes]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=repository,
        env={**os.environ, "CHROMIUM": "/nowhere/chromium"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    last = done.stdout.partition("NOT TESTED IN A BROWSER")[2].splitlines()
    assert len(last) <= 5 + code and last[1].endswith("::test_page"), done.stdout
    assert ("1 failed" if code else "1 passed") in last[-1], done.stdout
    assert last[2].startswith("1 tests DID NOT RUN: there is no Chromium")
