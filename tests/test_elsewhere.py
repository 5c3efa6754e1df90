"""The page "Use it elsewhere": every line of it runs, in its order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUNNER = """
import shlex, subprocess, sys
from pathlib import Path

names = {"__name__": "elsewhere"}
for number, kind, text in BLOCKS:
    if kind == "python":
        exec(compile("\\n" * number + text, PAGE, "exec"), names)
    for line in text.splitlines() if kind == "sh" else ():
        program, *arguments = shlex.split(line)
        assert program == "zoo", line
        subprocess.run([sys.executable, "-m", "zoo", *arguments], check=True)
print("the end of the page")
"""


def blocks_of(page: str) -> list[tuple[int, str, str]]:
    """Every block of a page: the line before it, its language and its text."""
    return [(page[: found.start(2)].count("\n"), found[1], found[2]) for found in FENCE.finditer(page)]


def test_every_line_of_the_page_runs_in_its_order(repository: Path, tmp_path: Path) -> None:
    page = repository / "docs" / "elsewhere.md"
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    assert {kind for _, kind, _ in blocks} == {"python", "sh"}
    done = subprocess.run(
        [sys.executable, "-c", f"BLOCKS, PAGE = {blocks!r}, {str(page)!r}\n{RUNNER}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository), "ZOO_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "the end of the page"
