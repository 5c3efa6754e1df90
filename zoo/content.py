"""Where the zoo's content lies: in a checkout, in an installed wheel, and in the user's own folder.

The code never writes next to the content it ships. What a user adds lives in :func:`user_folder`, which has the same
two folders, ``metadata/`` and ``results/``; what can be recomputed lives in :func:`cache_folder`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .errors import ContentError

_PACKAGE = Path(__file__).resolve().parent


def content_folder(name: str) -> Path:
    """The shipped folder ``metadata`` or ``results``.

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


def user_folder() -> Path:
    """The user's own content: ``$ZOO_HOME``, or ``ssl-zoo`` in the platform's data folder. It need not exist."""
    return _from_environment("ZOO_HOME") or _platform_folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")


def cache_folder() -> Path:
    """Recomputable files: ``$ZOO_CACHE``, or ``ssl-zoo`` in the platform's cache folder. It need not exist."""
    return _from_environment("ZOO_CACHE") or _platform_folder("XDG_CACHE_HOME", ".cache", "TEMP")


def content_files(name: str, suffix: str) -> list[Path]:
    """All files of a content folder, the shipped ones first, then the user's, each group in name order.

    Raises
    ------
    ContentError
        If the shipped folder is missing or holds no such file.
    """
    shipped = sorted(content_folder(name).rglob(f"*{suffix}"))
    if not shipped:
        raise ContentError(f"The folder {content_folder(name)} holds no {suffix} file; clone the repository again.")
    return shipped + sorted((user_folder() / name).rglob(f"*{suffix}"))


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None


def _platform_folder(xdg: str, below_home: str, windows: str) -> Path:
    base = os.environ.get(windows if sys.platform == "win32" else xdg)
    return (Path(base) if base else Path.home() / below_home) / "ssl-zoo"
