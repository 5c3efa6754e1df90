"""Generated documentation is fresh, and what the documentation promises is there."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

import zoo
from tests.conftest import Run
from zoo.encoders import build_encoder
from zoo.provenance import keep
from zoo.weights.store import Origin


@pytest.fixture(scope="session")
def generate(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", repository / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", ["README.md", "metadata/README.md", "results/README.md"])
def test_generated_parts_are_fresh(generate: ModuleType, repository: Path, file: str) -> None:
    text = (repository / file).read_text()
    assert generate.render(text, generate.GENERATED[file]) == text, "run: make docs"


def test_a_stale_part_is_renewed_and_the_rest_is_left_alone(generate: ModuleType) -> None:
    text = "before\n<!-- n:begin -->\nold\n<!-- n:end -->\nafter\n"
    assert generate.render(text, {"n": lambda: "new"}) == text.replace("old", "new")


def test_a_lost_marker_is_refused(generate: ModuleType) -> None:
    with pytest.raises(SystemExit, match="markers"):
        generate.render("no markers", {"n": lambda: "new"})


def test_the_table_of_families_names_every_card_file(repository: Path) -> None:
    readme = (repository / "README.md").read_text()
    for file in (repository / "metadata").glob("*.toml"):
        assert f"(metadata/{file.name})" in readme


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "metadata/README.md", "results/README.md"])
def test_links_to_files_lead_somewhere(repository: Path, file: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (repository / file).read_text())
    for link in links:
        if not link.startswith("http"):
            assert ((repository / file).parent / link).exists(), link


def test_the_versions_of_package_changelog_and_citation_agree(repository: Path) -> None:
    assert f"## {zoo.__version__}" in (repository / "CHANGELOG.md").read_text()
    assert f"version: {zoo.__version__}" in (repository / "CITATION.cff").read_text()


def test_constraints_name_versions_and_nothing_else(repository: Path) -> None:
    lines = [line for line in (repository / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.+]*", line), line
    assert not any(line.startswith("torch==2.13.0") for line in lines)


def test_every_dependency_of_the_project_is_pinned(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=!~]", one)[0].lower() for one in wanted} - {"ssl-zoo"}
    pinned = {line.split("==")[0].lower() for line in (repository / "constraints.txt").read_text().splitlines()}
    assert names <= pinned


@pytest.fixture
def mirror_of_dino_rn50(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror that has random weights where the trained ones of an encoder would be."""
    card = zoo.card("dino_rn50")
    encoder = build_encoder(card, seed=5)
    origin = Origin(place=str(card.weights.url), address="", sha256="0" * 64, size_bytes=1, format="torch pickle")
    folder = tmp_path / "mirror"
    keep(folder, card.id, encoder.state_dict(), encoder=encoder, origins=(origin,), layout="dino")
    monkeypatch.setenv("ZOO_MIRROR", str(folder))
    return folder


def test_the_python_of_the_readme_runs_as_it_stands(
    repository: Path, tmp_path: Path, run_apart: Run, mirror_of_dino_rn50: Path
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (repository / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    Image.new("CMYK", (400, 300), (10, 200, 30, 40)).save(tmp_path / "photo.jpg")
    code = "\n".join(blocks).replace('"."', repr(str(repository)))  # the one thing that a clone would not need
    shapes = "print(list(features.shape), table.shape, zoo.card('dino_vitS16').pretraining.epochs)"
    done = run_apart(f"{code}\n{shapes}\n", cwd=tmp_path)
    assert done.stdout.splitlines()[-1:] == ["[1, 2048] (169, 117) 800"], done.stderr
