"""What ``zoo doctor`` looks at inside the zoo: libraries and content, one small check each."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata as installed
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from ..cards import catalogue
from ..errors import ZooError
from ..files import NO_HOME, content_folder, user_folder
from ..version import __version__

DISTRIBUTION = "ssl-zoo"
EXTRAS = {
    "tables": ("pandas",),
    "models": (
        "numpy", "pillow", "timm", "torch", "torchvision", "safetensors", "huggingface-hub", "fsspec", "tqdm",
    ),
    "study": ("jinja2", "matplotlib", "numpy", "optuna", "scipy", "shap", "statsmodels", "threadpoolctl", "xgboost"),
    "evaluate": ("optuna", "scikit-learn", "scipy", "threadpoolctl"),
    "images": ("datasets",),
    "dicom": ("pydicom",),
    "pocket": ("lightly",),
}  # fmt: skip
_ALWAYS = ("click", "filelock", "packaging", "prettytable", "rich")
_OLDEST_PYTHON = (3, 11)

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what was found."""

    topic: str
    name: str
    status: Status
    detail: str


def versions() -> Iterator[Check]:
    """Python, the zoo, its libraries and the extras they belong to."""
    topic = "versions"
    old = sys.version_info < _OLDEST_PYTHON
    wanted = ".".join(map(str, _OLDEST_PYTHON))
    yield Check(topic, "python", "problem" if old else "ok", platform.python_version() + (f", needs {wanted}" * old))
    own = _version(DISTRIBUTION)
    if own is None:
        yield Check(topic, DISTRIBUTION, "ok", f"{__version__}, run from a folder without being installed")
    elif own != __version__:
        detail = f"{__version__} runs, but {own} is installed; run: pip install -e . in the folder of the zoo"
        yield Check(topic, DISTRIBUTION, "warning", detail)
    else:
        yield Check(topic, DISTRIBUTION, "ok", own)
    wanted_versions = _specifiers() if own else {}
    for library in _ALWAYS:
        yield _library(library, wanted_versions, "problem", "run: pip install ssl-zoo")
    for extra, libraries in EXTRAS.items():
        for library in libraries:
            yield _library(library, wanted_versions, "ok", f"pip install 'ssl-zoo[{extra}]' adds it")


def _library(name: str, wanted: Mapping[str, str], if_absent: Status, remedy: str) -> Check:
    version = _version(name)
    if version is None:
        return Check("versions", name, if_absent, f"not installed; {remedy}")
    if name in wanted:
        from packaging.specifiers import SpecifierSet

        if not SpecifierSet(wanted[name]).contains(version, prereleases=True):
            return Check("versions", name, "problem", f"{version}, but the zoo needs {wanted[name]}")
    return Check("versions", name, "ok", version)


def _version(distribution: str) -> str | None:
    try:
        return installed.version(distribution)
    except installed.PackageNotFoundError:
        return None


def _specifiers() -> dict[str, str]:
    from packaging.requirements import Requirement

    requirements = map(Requirement, installed.requires(DISTRIBUTION) or [])
    return {requirement.name: str(requirement.specifier) for requirement in requirements if requirement.specifier}


def content() -> Iterator[Check]:
    """The folders of content, and whether every card and every row in them can be read."""
    for name in ("metadata", "results", "analysis"):
        try:
            yield Check("content", f"{name} folder", "ok", str(content_folder(name)))
        except ZooError as error:
            yield Check("content", f"{name} folder", "problem", str(error))
    yield _own_folder()
    try:
        cards = catalogue()
    except ZooError as error:
        yield Check("content", "cards", "problem", str(error))
        yield Check("content", "results", "warning", "not read, for they name encoders and the cards cannot be read")
    else:
        yield Check("content", "cards", "ok", f"{len(cards):,} read")
        if cards.left_out:
            yield Check("content", "your own cards", "problem", " ".join(cards.left_out))
        yield from _results()
    yield _intact()


def _own_folder() -> Check:
    name = "your own folder"
    try:
        folder = user_folder()
    except ZooError as error:
        return Check("content", name, "problem", str(error))
    obstacle = None if folder.is_relative_to(NO_HOME) else obstacle_to(folder)
    if obstacle is not None:
        return Check("content", name, "problem", f"{obstacle}; move it, or set ZOO_HOME to another folder")
    if not is_writable(nearest(folder)):
        return Check("content", name, "problem", f"{unwritable(folder)}; set ZOO_HOME to a folder that can be written")
    return Check("content", name, "ok", f"{folder}{'' if os.path.isdir(folder) else ' (none yet)'}")


def _results() -> Iterator[Check]:
    from ..resultfiles import errata, read_rows

    left_out: list[str] = []
    try:
        n_rows, n_errata = len(read_rows(left_out=left_out)), len(errata(left_out=left_out))
    except ZooError as error:
        yield Check("content", "results", "problem", str(error))
        return
    yield Check("content", "results", "ok", f"{n_rows:,} rows and {n_errata} errata read")
    if left_out:
        yield Check("content", "your own results", "problem", " ".join(left_out))


def _intact() -> Check:
    from ..resultfiles import damaged_files

    name = "results intact"
    try:
        damaged = damaged_files()
    except ZooError as error:
        return Check("content", name, "problem", str(error))
    if damaged:
        differ = f"{', '.join(damaged)}: not as the checksums say"
        return Check("content", name, "problem", f"{differ}; restore what was shipped, or install ssl-zoo again")
    return Check("content", name, "ok", "all shipped files are as their checksums say")


def obstacle_to(folder: Path) -> str | None:
    """What stands where a folder, or one above it, should be; None if nothing does."""
    place = nearest(folder)
    return None if place.is_dir() else f"{place} is not a folder"


def nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if os.path.exists(place)), Path.cwd())


def unwritable(folder: Path) -> str:
    """That nothing can be written to a folder."""
    if folder.is_relative_to(NO_HOME):
        return "there is no home folder that may be looked into"
    return f"{folder}: nothing can be written there"


def is_writable(folder: Path) -> bool:
    """True if a file can be made there; makes one without a name, for permissions alone do not tell."""
    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
