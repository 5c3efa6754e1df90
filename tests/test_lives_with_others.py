"""Loaded through torch.hub, the zoo takes one name of the user's process, ``zoo``, and nothing else of it.

Each test is a process of its own, in which the repository is on sys.path only while torch.hub puts it there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import Run
from tests.image_files import exif

NAMES = ("analysis", "results", "metadata", "utils", "hub")
SMALL = "init_vitS16"

PRELUDE = f"""
import importlib, json, os, sys
import torch
NAMES = {NAMES!r}
def load(repo, name={SMALL!r}, **options):
    before = list(sys.path)
    loaded = torch.hub.load(repo, name, source="local", **options)
    assert sys.path == before
    return loaded
def use(repo):
    encoder, preprocess = load(repo, device="meta")
    import zoo
    again, _ = zoo.load({SMALL!r}, device="meta")
    assert [p.shape for p in again.parameters()] == [p.shape for p in encoder.parameters()]
    return len(zoo.results_df()), len(zoo.metadata_df())
"""


def report(done: subprocess.CompletedProcess[str]) -> dict:
    """The last line that a script printed, as JSON."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "users own"
    folder.mkdir()
    return folder


def make_packages(folder: Path) -> None:
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWNER = 'user'\n")


def make_plain_folders(folder: Path) -> None:
    for name in (*NAMES, "zoo"):  # a folder named zoo that nobody imports does no harm
        (folder / name).mkdir()
        (folder / name / "notes.py").write_text("OWNER = 'user'\n")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("make", [make_packages, make_plain_folders])
def test_the_users_own_names_stay_the_users(
    run_apart: Run, repository: Path, users_folder: Path, make: Callable[[Path], None], when: str
) -> None:
    make(users_folder)
    suffix = ".notes" if make is make_plain_folders else ""
    script = PRELUDE + (
        f"take = lambda: {{name: importlib.import_module(name + {suffix!r}) for name in NAMES}}\n"
        f"mine = take() if {when == 'before'} else None\n"
        "rows = use(sys.argv[1])\n"
        "mine = mine or take()\n"
        "same = all(sys.modules[module.__name__] is module for module in mine.values())\n"
        "print(json.dumps([{name: [module.OWNER, module.__file__] for name, module in mine.items()}, same, rows]))\n"
    )
    mine, same, rows = report(run_apart(script, repository, path=[users_folder]))
    assert same
    assert all(rows)
    for name in NAMES:
        owner, file = mine[name]
        assert owner == "user"
        assert Path(file).is_relative_to(users_folder / name)


COMPLAINT = (
    r"ImportError: SSL Zoo \S+ \([^\n]*\) cannot be loaded: another package named 'zoo' \([^\n]*\) {}; [^\n]*\.\n"
)


def make_foreign(folder: Path, kind: str) -> None:
    if kind == "module":
        (folder / "zoo.py").write_text("ANIMALS = 3\n")
        return
    (folder / "zoo").mkdir()
    (folder / "zoo" / ("__init__.py" if kind == "package" else "animals.py")).write_text("ANIMALS = 3\n")
    (folder / "zoo" / "cards.py").write_text("NAMES = 'of files tell nothing'\n")


@pytest.mark.parametrize(
    ("kind", "imported", "state"),
    [
        ("package", True, "is already imported"),
        ("module", True, "is already imported"),
        ("plain folder", True, "is already imported"),
        ("package", False, "is on sys.path"),
        ("module", False, "is on sys.path"),
    ],
)
def test_another_package_of_our_name_is_said_in_one_sentence(
    run_apart: Run, repository: Path, users_folder: Path, kind: str, imported: bool, state: str
) -> None:
    make_foreign(users_folder, kind)
    script = PRELUDE + ("import zoo\n" if imported else "") + "load(sys.argv[1])"
    done = run_apart(script, repository, path=[users_folder])
    assert done.returncode == 1
    assert re.search(COMPLAINT.format(state) + r"\Z", done.stderr), done.stderr
    assert str(users_folder) in done.stderr.splitlines()[-1]


def copy_of(repository: Path, target: Path) -> Path:
    """What torch.hub unpacks from a zip: the files, without history, environments and caches."""
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "demo-output")
    return shutil.copytree(repository, target, ignore=unwanted)


def test_an_ssl_zoo_of_another_version_is_said_in_one_sentence(
    run_apart: Run, repository: Path, tmp_path: Path
) -> None:
    other = copy_of(repository, tmp_path / "other")
    (other / "zoo" / "version.py").write_text("__version__ = '0.0.0.other'\n")
    for module in (other / "zoo").glob("[ch]*.py"):  # as a version may name its modules otherwise
        module.rename(module.with_stem(f"{module.stem}_of_old"))
    done = run_apart(PRELUDE + "import zoo; load(sys.argv[1])", repository, path=[other])
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: SSL Zoo ") and f"SSL Zoo 0.0.0.other ({other}" in last, done.stderr
    assert last.endswith("is already imported; restart Python or use that version.")


@pytest.mark.parametrize("given", ["in full, with a slash at its end", "as the dot"])
def test_the_repository_may_lie_anywhere_and_be_used_from_elsewhere(
    run_apart: Run, repository: Path, tmp_path: Path, given: str
) -> None:
    home = copy_of(repository, tmp_path / "a cöpy with spaces")
    (tmp_path / "elsewhere").mkdir()
    script = PRELUDE + (
        "load(sys.argv[1], device='meta')\n"
        "os.chdir(sys.argv[2])\n"
        "import zoo\n"
        f"zoo.load({SMALL!r}, device='meta')\n"
        "rows = len(zoo.results_df()), len(load(sys.argv[3], 'metadata_df')), len(load(sys.argv[4], 'metadata_df'))\n"
        "print(json.dumps([zoo.__file__, *rows]))\n"
    )
    argument = "." if given == "as the dot" else f"{home}/"
    done = run_apart(script, argument, tmp_path / "elsewhere", home, repository, cwd=home)
    file, *rows = report(done)  # the second copy has the same version, so the first may serve it
    assert Path(file).is_relative_to(home) and all(rows)


def test_workers_that_cannot_import_the_zoo_preprocess_deep_and_turned_images_like_the_process_that_can(
    run_apart: Run, repository: Path, tmp_path: Path
) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (300, 260), np.uint8)
    (tmp_path / "images" / "one class").mkdir(parents=True)
    folder = tmp_path / "images" / "one class"
    turned = Image.fromarray(grey).transpose(Image.Transpose.ROTATE_90)
    turned.save(folder / "turned.png", exif=exif(6))
    Image.fromarray(grey.astype(np.uint16) * 257).save(folder / "deep.png")
    Image.fromarray((grey / 255).astype(np.float32)).save(folder / "shares.tif")
    Image.fromarray(grey).save(folder / "usual.png")
    script = PRELUDE + (
        "from importlib.machinery import PathFinder\n"
        "from PIL import Image\n"
        "from torch.utils.data import DataLoader\n"
        "from torchvision.datasets import ImageFolder\n"
        "_, preprocess = load(sys.argv[1], device='meta')\n"
        "assert PathFinder.find_spec('zoo') is None\n"
        "def batch():\n"
        "    images = ImageFolder(sys.argv[2], transform=preprocess, loader=Image.open)\n"
        "    ((found, _),) = DataLoader(images, batch_size=9, num_workers=1, multiprocessing_context='spawn')\n"
        "    return found, torch.stack([images[index][0] for index in range(len(images))])\n"
        "there, here = batch()\n"
        "same = [torch.equal(there, here), *(torch.equal(one, there[-1]) for one in there)]\n"
        "Image.new('F', (9, 9), 255).save(os.path.join(sys.argv[2], 'one class', 'wide.tif'))\n"
        "try: batch()\n"
        "except ValueError as error: print(json.dumps([same, str(error)]))\n"
    )
    same, refusal = report(run_apart(script, repository, tmp_path / "images"))
    assert same == [True] * 5
    assert refusal.rstrip().splitlines()[-1].startswith("ValueError: The image has floating point from 255 to 255; ")


def test_it_works_where_torch_hub_unpacks_it(
    run_apart: Run, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    unpacked = copy_of(repository, tmp_path / "torch" / "hub" / "someone_ssl-zoo_main")
    script = (
        "import torch, json\n"
        "repo = 'someone/ssl-zoo:main'\n"
        "names = torch.hub.list(repo, trust_repo=True)\n"
        f"encoder, preprocess = torch.hub.load(repo, {SMALL!r}, trust_repo=True)\n"
        "features = encoder(torch.zeros(1, 3, 224, 224))\n"
        "import zoo\n"
        "n_rows = len(zoo.results_df())\n"
        "from importlib.util import find_spec\n"
        f"taken = [name for name in {NAMES} if find_spec(name)]\n"
        "print(json.dumps([zoo.__file__, len(names), list(features.shape), n_rows, taken]))\n"
    )
    file, n_names, shape, n_rows, taken = report(run_apart(script))
    assert Path(file).is_relative_to(unpacked)
    assert n_names > 200
    assert shape == [1, 384]
    assert n_rows
    assert taken == [], "names that the user does not have must not be ours either"
