"""Where the zoo's content lies: in a checkout, in an installed wheel, and in the user's own folder.

The code never writes next to the content it ships. What a user adds lives in :func:`user_folder`, which has the same
two folders, ``metadata/`` and ``results/``; what can be recomputed lives in :func:`cache_folder`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from .errors import ContentError

_PACKAGE = Path(__file__).resolve().parent

NO_HOME = Path(os.devnull, "ssl-zoo")
"""Stands for a folder in the home of a user who has none, or may not look into it: nothing is or can be made there."""


def content_folder(name: str) -> Path:
    """The shipped folder ``metadata``, ``results`` or ``analysis``.

    Raises
    ------
    ContentError
        If neither the wheel's copy nor the checkout's folder exists.
    """
    candidates = (_PACKAGE / "_content" / name, _PACKAGE.parent / name)
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise ContentError(
        f"The zoo's {name}/ folder is missing (looked at {candidates[0]} and {candidates[1]}); "
        "reinstall ssl-zoo or clone the repository again."
    )


def shipped_studies() -> dict[str, Path]:
    """Files and folders of the shipped studies, by name, in name order.

    A study is ``analysis/QUESTION.py``, or the folder ``analysis/QUESTION/`` with ``__init__.py``.

    Raises
    ------
    ContentError
        If the folder ``analysis`` is missing.
    """
    found = {path.stem: path for path in content_folder("analysis").glob("*.py")}
    found |= {path.parent.name: path.parent for path in content_folder("analysis").glob("*/__init__.py")}
    return {name: found[name] for name in sorted(found) if name[0] not in "._"}


def user_folder() -> Path:
    """The user's own content: ``$ZOO_HOME``, or ``ssl-zoo`` in the platform's data folder. It need not exist.

    Raises
    ------
    ContentError
        If ZOO_HOME begins in a home folder that there is not.
    """
    return _from_environment("ZOO_HOME") or _platform_folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")


def cache_folder() -> Path:
    """Recomputable files: ``$ZOO_CACHE``, or ``ssl-zoo`` in the platform's cache folder. It need not exist.

    Raises
    ------
    ContentError
        If ZOO_CACHE begins in a home folder that there is not.
    """
    return _from_environment("ZOO_CACHE") or _platform_folder("XDG_CACHE_HOME", ".cache", "TEMP")


def content_files(name: str, suffix: str) -> list[Path]:
    """All files of a content folder, the shipped ones first, then the user's, each group in name order.

    Hidden files and folders are left out: editors and file systems leave copies there.

    Raises
    ------
    ContentError
        If the shipped folder is missing or holds no such file, or the user's folder cannot be listed.
    """
    shipped = _files_below(content_folder(name), suffix)
    if not shipped:
        raise ContentError(f"The folder {content_folder(name)} holds no {suffix} file; clone the repository again.")
    own = user_folder()
    added = _files_below(own / name, suffix) if _is_folder(own) and _is_folder(own / name) else []
    return shipped + added + _mirrored(name, suffix, {path.relative_to(own / name) for path in added})


def _mirrored(name: str, suffix: str, known: set[Path]) -> list[Path]:
    """What a mirror in a folder brings of its maker's own content, but for what the user has here already."""
    place = os.environ.get("ZOO_MIRROR")
    mirror = local_folder(place) if place else None
    folder = None if mirror is None else mirror / name / "own"
    if folder is None or not folder.is_dir():
        return []
    return [path for path in _files_below(folder, suffix) if path.relative_to(folder) not in known]


def local_folder(place: str) -> Path | None:
    """The folder that the place of a mirror names; None for an address.

    >>> local_folder("memory://mirror"), local_folder("file:///data/mirror").as_posix()
    (None, '/data/mirror')
    """
    for scheme in ("file://", "local://", "file:", "local:"):
        place = place.removeprefix(scheme)
    return None if "://" in place or "::" in place else expanded("The mirror", place).absolute()


def _is_folder(path: Path) -> bool:
    """False if nothing is there; what is there must be a folder."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        if path.is_relative_to(NO_HOME):
            return False
        _refuse_to_list(error)
    if not path.is_dir():
        raise ContentError(f"{path} is not a folder, expected one with your own content; move it or set ZOO_HOME.")
    return True


def _files_below(folder: Path, suffix: str) -> list[Path]:
    found = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_to_list):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in names if name.endswith(suffix) and not name.startswith(".")]
    return sorted(found)


def _refuse_to_list(error: OSError) -> NoReturn:
    raise ContentError(
        f"The folder {error.filename} cannot be listed ({error.strerror}); make it readable or set ZOO_HOME."
    ) from error


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return expanded(variable, value) if value else None


def expanded(variable: str, value: str) -> Path:
    """The path that an environment variable names.

    Raises
    ------
    ContentError
        If it starts in a home folder that there is not.
    """
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ContentError(
            f"{variable} is {value!r}, and there is no such home folder ({error}); correct it."
        ) from error


def _platform_folder(xdg: str, below_home: str, windows: str) -> Path:
    base = os.environ.get(windows if sys.platform == "win32" else xdg)
    try:
        folder = Path(base or Path.home() / below_home) / "ssl-zoo"
        os.stat(folder)
    except (RuntimeError, PermissionError, NotADirectoryError):  # a service or a container without a home of its own
        return NO_HOME
    except OSError:  # not there yet
        return folder
    return folder
