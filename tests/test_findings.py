"""The scripts of findings/ have their form, and the page lists each of them once."""

from __future__ import annotations

import re
from pathlib import Path


def test_every_finding_is_listed_once_with_versions_behaviour_and_why_it_matters(repository: Path) -> None:
    """A row has four cells, none of them empty."""
    folder = repository / "findings"
    rows = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("| [")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert all(len(row) == 4 and all(row) for row in cells)
    names = [re.fullmatch(r"\[(\w+)\]\(\1\.sh\)", row[0]) for row in cells]
    assert all(names), [row[0] for row, name in zip(cells, names, strict=True) if not name]
    assert sorted(name[1] for name in names if name) == sorted(path.stem for path in folder.glob("*.sh"))


def test_every_finding_opens_with_its_guess_and_installs_pinned_packages_alone(repository: Path) -> None:
    """It neither imports the project nor installs a package without its version."""
    for path in (repository / "findings").glob("*.sh"):
        text = path.read_text()
        head, _, body = text.partition("set -eu\n")
        assert head.startswith("#!/bin/sh\n# Guess: "), path.name
        assert all(word in head for word in ("\n# Behaviour (", "Output seen", "Exits 0 while that is so.")), path.name
        installed = " ".join(re.findall(r"pip\" install (.*?)(?<!\\)\n", body, flags=re.DOTALL)).replace("\\\n", " ")
        packages = [word for word in installed.split() if not word.startswith("-")]
        assert packages, path.name
        assert all("==" in word for word in packages), (path.name, packages)
        assert not re.search(r"^\s*(import|from) zoo\b", body, flags=re.MULTILINE), path.name
