"""The output folder of a site: written beside its place and renamed, so that it is whole at every moment.

``site.json`` lists what was written; a folder with anything else in it, or with a file that was changed since, is
refused before any work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import ContentError, QueryError, StoreError
from ..files import replace_folder
from ..version import __version__
from .rendering import File

FORMAT = "zoo-site-1"
MANIFEST = "site.json"
_NO_JEKYLL = ".nojekyll"  # lest GitHub Pages look for templates in the pages
_OF_DESKTOPS = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_SAFE_PART = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_MOST_NAMED = 3  # files in a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What writing a site did."""

    folder: Path
    n_pages: int  # HTML files of the site
    n_files: int  # all files of the site but their list
    n_written: int  # those that are new or have another content
    n_unchanged: int
    n_removed: int  # those of the earlier site that this one has not
    n_bytes: int  # of all files


def require_site_folder(folder: Path) -> Path:
    """The folder that a site would be written to, with all links resolved.

    Raises
    ------
    QueryError
        If there is anything but nothing, an empty folder, or an untouched earlier site; if the folder above is missing.
    StoreError
        If it cannot be read or written.
    """
    return _checked(folder)[0]


def _checked(folder: Path) -> tuple[Path, dict[str, str]]:
    """The folder of a site, and the SHA-256 by path of what an earlier one has there."""
    target = Path(os.path.realpath(folder))
    if not target.parent.is_dir():
        raise QueryError(
            f"There is no folder {target.parent}, expected it to make {target.name}/ there; make it first."
        )
    if target == Path.cwd() or os.path.ismount(target):
        raise QueryError(f"{folder} is the current folder or a disk, which cannot be replaced; name a folder below it.")
    if target.exists() and not target.is_dir():
        raise QueryError(f"{folder} is no folder, expected one for the site; choose another name.")
    for place in (target.parent, target):
        if place.exists() and not os.access(place, os.W_OK | os.X_OK):
            raise StoreError(
                f"The folder {place} cannot be written, expected to put the site there; make it writable, or name "
                "another folder."
            )
    try:
        return target, _earlier(target)
    except OSError as error:
        raise StoreError(f"The folder {target} cannot be read ({error.strerror}); name another folder.") from error


def _earlier(target: Path) -> dict[str, str]:
    """SHA-256 by path of the files of an untouched earlier site; nothing of an absent or empty folder."""
    known: dict[str, str] = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or a site.json of somebody else
        document: Any = json.loads((target / MANIFEST).read_bytes())
        known = dict(document["files"]) if document["format"] == FORMAT else {}
    files = (path for path in target.rglob("*") if path.is_symlink() or not path.is_dir())
    present = {path.relative_to(target).as_posix(): path for path in files if path.name not in _OF_DESKTOPS}
    if known:
        present.pop(MANIFEST, None)
    wrong = sorted(name for name, path in present.items() if name not in known or _differs(path, known[name]))
    if wrong:
        named = ", ".join(map(repr, wrong[:_MOST_NAMED])) + (" and more" if len(wrong) > _MOST_NAMED else "")
        raise QueryError(
            f"{target} holds {named}, which is not of a site or was changed since it was written, expected an absent "
            "or empty folder or an untouched earlier site; nothing is overwritten: move what is yours away, or name "
            "another folder."
        )
    return known


def _differs(path: Path, checksum: str) -> bool:
    return path.is_symlink() or hashlib.sha256(path.read_bytes()).hexdigest() != checksum


def write_site(files: Iterable[File], folder: Path, *, title: str = "") -> Written:
    """Writes the files of a site into a folder that is absent, empty, or an untouched earlier site.

    The earlier site stays until the new one is whole, and for good if an error is raised.

    Parameters
    ----------
    files : iterable of File
        With distinct paths that are safe on every file system; written while they come.
    folder : Path
        See :func:`require_site_folder`.
    title : str
        For the list of files, ``site.json``.

    Raises
    ------
    QueryError
        If the folder is refused.
    StoreError
        If the disk refuses a file.
    ContentError
        If a path is not safe, or comes twice.
    """
    target, known = _checked(folder)
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    sums: dict[str, str] = {}
    folded: set[str] = set()  # paths without regard to case, as some file systems have them
    n_bytes = 0
    try:
        for file in chain([File(_NO_JEKYLL, b"")], files):
            is_safe = all(map(_SAFE_PART.fullmatch, file.path.split("/"))) and file.path != MANIFEST
            if not is_safe and (file.path != _NO_JEKYLL or sums):
                raise ContentError(
                    f"The site has a file {file.path!r}, expected names of ASCII letters, digits, '-', '_' and inner "
                    "dots, joined by '/'; nothing was written."
                )
            if file.path.casefold() in folded:
                raise ContentError(
                    f"The site has two files {file.path!r}, expected one of each name; nothing was written."
                )
            folded.add(file.path.casefold())
            _write(temporary / file.path, file.content, target)
            sums[file.path] = hashlib.sha256(file.content).hexdigest()
            n_bytes += len(file.content)
        listed = {"format": FORMAT, "version": __version__, "title": title, "files": dict(sorted(sums.items()))}
        list_of_files = json.dumps(listed, indent=1).encode() + b"\n"
        _write(temporary / MANIFEST, list_of_files, target)
        _earlier(target)  # somebody may have put a file there in the meantime
        try:
            replace_folder(temporary, target)
        except OSError as error:
            raise _store_error(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    n_unchanged = sum(known.get(path) == checksum for path, checksum in sums.items())
    return Written(
        folder=target,
        n_pages=sum(path.endswith(".html") for path in sums),
        n_files=len(sums),
        n_written=len(sums) - n_unchanged,
        n_unchanged=n_unchanged,
        n_removed=len(known.keys() - sums.keys()),
        n_bytes=n_bytes + len(list_of_files),
    )


def _write(path: Path, content: bytes, target: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise _store_error(target, error) from error


def _store_error(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"The site cannot be written to {target} ({error.strerror or error}), and what was there is as it was; make "
        "room or make it accessible, or name another folder."
    )
