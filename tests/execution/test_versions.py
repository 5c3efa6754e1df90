from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from zoo.execution.versions import ABSENT, difference, versions


def test_versions_are_known_without_importing_what_has_them() -> None:
    script = "import sys; from zoo.execution.versions import versions; print(versions()); print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == [str(versions()), "False"], "the same in another process"
    assert versions(code=3) == versions() | {"features": "3"}
    assert versions()["numpy"] == version("numpy")


def test_a_difference_names_what_differs() -> None:
    here = versions()
    assert difference(here, here) == ""
    assert difference(here | {"torch": "1.0"}, here | {"timm": ABSENT}) == (
        f"torch {here['torch']} instead of 1.0, timm {ABSENT} instead of {here['timm']}"
    )
    assert difference({"zoo": "1"}, {}) == f"zoo {ABSENT} instead of 1"
