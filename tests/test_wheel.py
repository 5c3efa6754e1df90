"""The wheel: what is in it, and that it works in an environment that has never seen the checkout."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import zoo
from tests.conftest import LIBRARIES, REPOSITORY
from zoo.files import list_shipped_studies


def run(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the checkout, without network."""
    folder = tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "build", "dist")
    copy = shutil.copytree(REPOSITORY, folder / "checkout", ignore=unwanted)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, copy, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """A fresh environment with the wheel. A .pth file lends it the libraries, but not the .pth files among them:
    the editable installation of the checkout, if there is one, cannot be seen from here."""
    folder = wheel.parent / "environment"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    install = [sys.executable, "-m", "pip", "--python", python_of(folder), "install", "--no-index", "--no-deps"]
    run(*install, "--quiet", wheel, cwd=wheel.parent)
    (site_packages_of(folder) / "libraries.pth").write_text("\n".join(LIBRARIES) + "\n")
    return folder


def python_of(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def site_packages_of(environment: Path) -> Path:
    (found,) = environment.rglob("site-packages")
    return found


def test_the_wheel_holds_the_package_and_its_content_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"zoo", f"ssl_zoo-{zoo.__version__}.dist-info"}
    cards = {path.name for path in (REPOSITORY / "metadata").glob("*.toml")}
    assert cards == {
        Path(name).name for name in names if name.startswith("zoo/_content/metadata/") and name.endswith(".toml")
    }
    assert "zoo/_content/metadata/costs.tsv" in names
    tables = {path.relative_to(REPOSITORY / "results").as_posix() for path in (REPOSITORY / "results").rglob("*.csv")}
    assert tables == {
        name.removeprefix("zoo/_content/results/")
        for name in names
        if name.startswith("zoo/_content/results/") and name.endswith(".csv")
    }
    found = [
        path.relative_to(REPOSITORY / "analysis") for path in (REPOSITORY / "analysis").rglob("*") if path.is_file()
    ]
    studies = {path.as_posix() for path in found if "__pycache__" not in path.parts}
    before = "zoo/_content/analysis/"
    assert studies == {name.removeprefix(before) for name in names if name.startswith(before)}
    assert {"zoo/py.typed", "zoo/studies/report.html.jinja", "zoo/choosing/page.html.jinja"} <= set(names)
    texts = {path.name for path in (REPOSITORY / "docs").glob("*.md")}
    docs = {name.removeprefix("zoo/_content/docs/") for name in names if "/docs/" in name}
    shown = ("flow", "looking", "maps", "parts", "pooling", "protocols", "segmenting")
    pictures = {"probes.svg", *(f"pictures/{name}.png" for name in shown)}
    assert docs == {*texts, *pictures, "quickstart.ipynb"}
    assert not [name for name in names if "test" in name.split("/")[-1] or "__pycache__" in name]


def test_the_randomised_population_takes_less_than_four_megabytes_and_leaves_its_weights_out(wheel: Path) -> None:
    its = [one for one in zipfile.ZipFile(wheel).infolist() if "randomised" in one.filename]
    weights = sorted((REPOSITORY / "metadata" / "randomised").glob("*.safetensors"))
    assert weights and not [one.filename for one in its if one.filename.endswith(".safetensors")]
    assert sum(one.compress_size for one in its) < 4_000_000
    content = {one.filename.removeprefix("zoo/_content/") for one in its}
    assert {"metadata/randomised.toml", "metadata/randomised/log.csv"} <= content
    rows = (REPOSITORY / "results" / "randomised").glob("*.*")
    assert {f"results/randomised/{path.name}" for path in rows if path.name[0] != "."} <= content


def test_the_installed_package_says_where_weights_are_that_it_lacks(environment: Path, tmp_path: Path) -> None:
    script = (
        "import zoo; from zoo.errors import WeightsUnavailable; from zoo.weights.locations import resolve_source\n"
        "for name in ('pocket_simclr_rn_shapes', 'randomised_000'):\n"
        "    try: print(resolve_source(zoo.card(name).weights.url).path.is_file())\n"
        "    except WeightsUnavailable as error: print(error)\n"
    )
    there, lacking = run(python_of(environment), "-c", script, cwd=tmp_path).splitlines()
    assert there == "True"
    assert lacking == (
        "The file metadata/randomised/randomised_000.safetensors is in the repository of ssl-zoo and in no installed "
        "package: clone the repository and load it there, or train it anew by scripts/train_randomised.py."
    )


def test_the_wheel_takes_one_name_in_site_packages(environment: Path) -> None:
    (record,) = site_packages_of(environment).glob("ssl_zoo-*.dist-info/RECORD")
    with record.open(newline="") as file:
        installed = {row[0].split("/")[0] for row in csv.reader(file)}
    assert installed - {".."} == {"zoo", record.parent.name}  # ".." leads to the command zoo


def test_the_installed_command_lists_every_encoder(environment: Path, tmp_path: Path) -> None:
    command = python_of(environment).with_name("zoo.exe" if os.name == "nt" else "zoo")
    listed = json.loads(run(command, "list", "--json", cwd=tmp_path))
    assert {row["encoder"] for row in listed["encoders"]} == set(zoo.list_encoders())


def test_the_installed_command_runs_a_study_and_writes_its_report(environment: Path, tmp_path: Path) -> None:
    command = python_of(environment).with_name("zoo.exe" if os.name == "nt" else "zoo")
    listed = json.loads(run(command, "study", "--json", cwd=tmp_path))
    assert {study["name"] for study in listed["studies"]} == set(list_shipped_studies())
    run(command, "study", "do_accuracies_agree", "--out", "report", cwd=tmp_path)  # a folder of modules
    assert '<h2 id="do_accuracies_agree">' in (tmp_path / "report" / "index.html").read_text()


def test_the_installed_package_reads_its_own_content(environment: Path, tmp_path: Path) -> None:
    script = (
        "import json, zoo; from zoo.files import get_content_folder;"
        "print(json.dumps([zoo.__file__, str(get_content_folder('metadata')), "
        "zoo.card('dino_vitS16').representation.dim]))"
    )
    file, folder, dim = json.loads(run(python_of(environment), "-c", script, cwd=tmp_path))
    home = site_packages_of(environment).resolve()
    assert Path(file).resolve() == home / "zoo" / "__init__.py"
    assert Path(folder).resolve() == home / "zoo" / "_content" / "metadata"
    assert dim == zoo.card("dino_vitS16").representation.dim
