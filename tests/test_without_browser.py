"""A run without Chromium leaves the tests of pages out and says so, and fails where it was told that it needs one."""

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
TESTS = "def test_page(open_page):\n    pass\ndef test_other():\n    pass\n"


@pytest.mark.parametrize(("required", "processes"), [("", []), ("1", ["--numprocesses", "1"])], ids=["", "required"])
def test_tests_without_their_browser_are_left_out_aloud(
    required: str, processes: list[str], tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_pages.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *processes]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=repository,
        env={**os.environ, "CHROMIUM": "/nowhere/chromium", "ZOO_REQUIRE_BROWSER": required},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == (1 if required else 0), done.stdout + done.stderr
    last = done.stdout.partition("NOT TESTED IN A BROWSER")[2].splitlines()
    assert len(last) <= 5 and last[1].endswith("::test_page") and "1 passed" in last[-1], done.stdout
    assert last[2].startswith("1 tests DID NOT RUN: there is no Chromium")
