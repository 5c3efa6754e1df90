"""``scripts/release.py``: the address of the repository in every file that names it, and tags that fit."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

from scripts.release import FILES, PLACEHOLDER, find_disagreements, put_address
from tests.conftest import REPOSITORY
from tests.each import for_each
from zoo.version import REPOSITORY as ADDRESS
from zoo.version import __version__


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in (*FILES, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def test_one_command_puts_the_address_where_the_placeholder_is(checkout: Path) -> None:
    assert put_address(checkout, "https://github.com/ann/own-zoo.git") == [*FILES]
    assert put_address(checkout, "https://github.com/ann/own-zoo") == []
    urls = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["urls"]
    assert all(one.startswith("https://github.com/ann/own-zoo") for one in urls.values())
    assert 'torch.hub.load("ann/own-zoo", "dino_rn50")' in (checkout / "README.md").read_text()
    citation = yaml.safe_load((checkout / "CITATION.cff").read_text())
    assert citation["repository-code"] == "https://github.com/ann/own-zoo" and citation["version"] == __version__


def test_the_places_name_one_repository(checkout: Path) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Repository"] == ADDRESS
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["repository-code"] == ADDRESS
    mentions = {
        str(path.relative_to(REPOSITORY))
        for pattern in ("*.*", "docs/*.md", "zoo/**/*.py")
        for path in REPOSITORY.glob(pattern)
        if path.is_file() and PLACEHOLDER in path.read_text(encoding="utf-8", errors="ignore")
    }
    assert mentions <= {*FILES}


@for_each(["ann/ssl-zoo", "https://github.com/ann", "http://github.com/ann/zoo"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SystemExit, match="expected an address"):
        put_address(REPOSITORY, address)


def test_a_tag_that_disagrees_with_version_or_changelog_is_named(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(f"## {__version__} (unreleased)\n")
    said = find_disagreements(checkout, "v9.9")
    assert f"expected v{__version__}" in said[0] and "date the section" in said[1] and "still has" in said[2]
    (checkout / "CHANGELOG.md").write_text(f"## {__version__} (2026-12-01)\n")
    put_address(checkout, "https://github.com/ann/ssl-zoo")
    assert find_disagreements(checkout, f"v{__version__}") == []


def test_a_tag_builds_wheel_sdist_and_site_and_tries_the_wheel() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text())
    steps = " ".join(step.get("run", "") for step in workflow["jobs"]["build"]["steps"])
    for part in ("scripts/release.py", "python -m build", "[demo,site]", "zoo demo", "zoo site --out", "gh release"):
        assert part in steps
