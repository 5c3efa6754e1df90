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
def forget(*names):
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]
    importlib.invalidate_caches()
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


@pytest.mark.parametrize("make", [make_packages, make_plain_folders])
def test_the_users_own_names_stay_the_users(
    run_apart: Run, repository: Path, users_folder: Path, make: Callable[[Path], None]
) -> None:
    """Those that were imported before the zoo, and those that are imported after it."""
    make(users_folder)
    suffix = ".notes" if make is make_plain_folders else ""
    script = PRELUDE + (
        f"take = lambda: {{name: importlib.import_module(name + {suffix!r}) for name in NAMES}}\n"
        "say = lambda mine: {name: [module.OWNER, module.__file__] for name, module in mine.items()}\n"
        "before = take()\n"
        "rows = use(sys.argv[1])\n"
        "same = all(sys.modules[module.__name__] is module for module in before.values())\n"
        "forget(*NAMES)\n"
        "print(json.dumps([say(before), same, rows, say(take())]))\n"
    )
    before, same, rows, after = report(run_apart(script, repository, path=[users_folder], warm=True))
    assert same
    assert all(rows)
    for name in NAMES:
        for owner, file in (before[name], after[name]):
            assert owner == "user"
            assert Path(file).is_relative_to(users_folder / name)


COMPLAINT = r"SSL Zoo \S+ \([^\n]*\) cannot be loaded: another package named 'zoo' \([^\n]*\) {}; [^\n]*\."


def make_foreign(folder: Path, kind: str) -> None:
    folder.mkdir()
    if kind == "module":
        (folder / "zoo.py").write_text("ANIMALS = 3\n")
        return
    (folder / "zoo").mkdir()
    (folder / "zoo" / ("__init__.py" if kind == "package" else "animals.py")).write_text("ANIMALS = 3\n")
    (folder / "zoo" / "cards.py").write_text("NAMES = 'of files tell nothing'\n")


def test_another_package_of_our_name_is_said_in_one_sentence(
    run_apart: Run, repository: Path, tmp_path: Path, copy: Path
) -> None:
    states = {
        ("package", True): "is already imported",
        ("module", True): "is already imported",
        ("plain folder", True): "is already imported",
        ("package", False): "is on sys.path",
        ("module", False): "is on sys.path",
    }
    folders = [tmp_path / f"{kind}, imported {imported}" for kind, imported in states]
    for folder, (kind, _) in zip(folders, states, strict=True):
        make_foreign(folder, kind)
    (copy / "zoo" / "version.py").write_text("__version__ = '0.0.0.other'\n")
    for module in (copy / "zoo").glob("[ch]*.py"):  # as a version may name its modules otherwise
        module.rename(module.with_stem(f"{module.stem}_of_old"))
    asked = [[str(folder), imported] for folder, (_, imported) in zip(folders, states, strict=True)]
    script = PRELUDE + (
        "def complaint(folder, imported):\n"
        "    sys.path.insert(0, folder)\n"
        "    if imported: import zoo\n"
        "    try: load(sys.argv[1])\n"
        "    except ImportError as error: return str(error)\n"
        "    finally:\n"
        "        sys.path.remove(folder)\n"
        "        forget('zoo')\n"
        "print(json.dumps([complaint(*each) for each in json.loads(sys.argv[2])]))\n"
    )
    said = report(run_apart(script, repository, json.dumps([*asked, [str(copy), True]]), warm=True))
    for sentence, folder, state in zip(said, folders, states.values(), strict=False):
        assert re.fullmatch(COMPLAINT.format(state), sentence) and str(folder) in sentence, said
    other = said[-1]
    assert other.startswith("SSL Zoo ") and f"SSL Zoo 0.0.0.other ({copy}" in other
    assert other.endswith("is already imported; restart Python or use that version.") and "\n" not in other


def copy_of(repository: Path, target: Path) -> Path:
    """What torch.hub unpacks from a zip: the files, without history, environments and caches."""
    unwanted = shutil.ignore_patterns(".*", "tests", "build", "dist", "demo-output")
    return shutil.copytree(repository, target, ignore=unwanted)


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    return copy_of(repository, tmp_path / "a cöpy with spaces")


def test_the_repository_may_lie_anywhere_and_be_used_from_elsewhere(
    run_apart: Run, repository: Path, tmp_path: Path, copy: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = PRELUDE + (
        "_, home, elsewhere, repository = sys.argv\n"
        "def used(given):\n"
        "    os.chdir(home)\n"
        "    load(given, device='meta')\n"
        "    os.chdir(elsewhere)\n"
        "    import zoo\n"
        f"    zoo.load({SMALL!r}, device='meta')\n"
        "    tables = zoo.results_df(), load(home, 'metadata_df'), load(repository, 'metadata_df')\n"
        "    forget('zoo')\n"
        "    return [zoo.__file__, *map(len, tables)]\n"
        "print(json.dumps([used('.'), used(home + '/')]))\n"
    )
    for file, *rows in report(run_apart(script, copy, tmp_path / "elsewhere", repository, warm=True)):
        assert Path(file).is_relative_to(copy) and all(rows)  # the repository has the same version: the copy serves it


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
    Image.new("F", (9, 9), 255).save(folder / "wide.tif")  # the last one, which is refused
    script = PRELUDE + (
        "from importlib.machinery import PathFinder\n"
        "from PIL import Image\n"
        "from torch.utils.data import DataLoader\n"
        "from torchvision.datasets import ImageFolder\n"
        "_, preprocess = load(sys.argv[1], device='meta')\n"
        "assert PathFinder.find_spec('zoo') is None\n"
        "images = ImageFolder(sys.argv[2], transform=preprocess, loader=Image.open)\n"
        "there = []\n"
        "try:\n"
        "    for batch, _ in DataLoader(images, num_workers=1, multiprocessing_context='spawn'): there.extend(batch)\n"
        "except ValueError as error: refusal = str(error)\n"
        "same = [torch.equal(one, images[index][0]) for index, one in enumerate(there)]\n"
        "print(json.dumps([[*same, *(torch.equal(one, there[-1]) for one in there)], refusal]))\n"
    )
    same, refusal = report(run_apart(script, repository, tmp_path / "images", warm=True))
    assert same == [True] * 8
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
    file, n_names, shape, n_rows, taken = report(run_apart(script, warm=True))
    assert Path(file).is_relative_to(unpacked)
    assert n_names > 200
    assert shape == [1, 384]
    assert n_rows
    assert taken == [], "names that the user does not have must not be ours either"
