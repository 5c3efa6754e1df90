"""The output folder of a site: written beside its place and renamed, so that it is whole at every moment.

What is unchanged is taken over as a hard link, so that its inode and its time stay. ``site.json`` lists what was
written; a folder with anything else in it is refused before any work. The files are on the disk before the folder gets
its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..errors import ContentError, QueryError, StoreError
from ..files import one_at_a_time, replace_folder, restore_interrupted
from ..version import __version__
from .rendering import File

FORMAT = "zoo-site-1"
MANIFEST = "site.json"
_NO_JEKYLL = ".nojekyll"  # lest GitHub Pages look for templates in the pages
_OF_DESKTOPS = frozenset(
    {".DS_Store", "Thumbs.db", "desktop.ini"}
)  # come by looking at a folder, and are nobody's work
_SAFE_PART = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_MOST_NAMED = 3  # files in a refusal
_ABANDONED_AFTER_S = 86_400.0  # since the last file of an unfinished site, which takes minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What writing a site did."""

    folder: Path
    n_pages: int  # HTML files of the site
    n_files: int  # all files of the site but their list
    n_written: int  # those that are new or have another content
    n_unchanged: int  # those that were taken over
    n_removed: int  # those of the earlier site that this one has not
    n_bytes: int  # of all files


def require_site_folder(folder: Path) -> Path:
    """The folder that a site would be written to, with all links resolved.

    If an earlier writing was interrupted between old and new, the old site is restored first.

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
    if folder.is_symlink():
        raise QueryError(
            f"{folder} is a symbolic link, expected a folder, which is replaced as a whole; name the folder itself, "
            f"{os.path.realpath(folder)}."
        )
    target = Path(os.path.realpath(folder))
    if not target.parent.is_dir():
        raise QueryError(
            f"There is no folder {target.parent}, expected it to make {target.name}/ there; make it first."
        )
    if target == Path.cwd() or os.path.ismount(target):
        what = "the current folder" if target == Path.cwd() else "where a disk begins"
        raise QueryError(f"{folder} is {what}, which cannot be replaced as a whole; name a folder below it.")
    if target.exists() and not target.is_dir():
        raise QueryError(f"{folder} is no folder, expected one for the site; choose another name.")
    for place in (target.parent, target):
        if place.exists() and not os.access(place, os.W_OK | os.X_OK):
            raise StoreError(
                f"The folder {place} cannot be written, expected to put the site there; make it writable, or name "
                "another folder."
            )
    with one_at_a_time(target):  # lest a site that is just being replaced be taken for an interrupted or changed one
        restore_interrupted(target, "site")
        _remove_abandoned(target)
        return target, _earlier(target)


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
        If the folder is refused, or was changed by somebody else in the meantime.
    StoreError
        If the disk refuses a file.
    ContentError
        If a path is not safe, or comes twice.
    """
    target, known = _checked(folder)
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    new = _NewSite(temporary, target)
    try:
        with _as_store_error(target):
            temporary.mkdir()
        for file in chain([File(_NO_JEKYLL, b"")], files):
            new.require_safe(file.path)
            with _as_store_error(target):
                new.add(file, is_known=file.path in known)
        with _as_store_error(target):
            n_written = new.n_written
            new.add(new.manifest(title), is_known=bool(known))
            removed = known.keys() - new.sums.keys()
            if new.n_written or removed:
                _synchronise()
                with one_at_a_time(target):
                    _earlier(target)  # somebody may have put a file there in the meantime
                    replace_folder(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Written(
        folder=target,
        n_pages=sum(path.endswith(".html") for path in new.sums),
        n_files=len(new.sums) - 1,
        n_written=n_written,
        n_unchanged=len(new.sums) - 1 - n_written,
        n_removed=len(removed),
        n_bytes=new.n_bytes,
    )


class _NewSite:
    """A site that is being written, and the folder of the earlier one."""

    def __init__(self, folder: Path, earlier: Path) -> None:
        self.folder, self.earlier = folder, earlier
        self.sums: dict[str, str] = {}  # SHA-256 by path
        self.n_written = self.n_bytes = 0
        self._folded: set[str] = set()  # paths without regard to case, as some file systems have them

    def require_safe(self, path: str) -> None:
        """Refuses a path that leaves the folder, that some file system has not, or that is there already."""
        parts = path.split("/")
        is_ours = path == _NO_JEKYLL and not self.sums
        if not is_ours and (path == MANIFEST or not all(map(_SAFE_PART.fullmatch, parts))):
            raise ContentError(
                f"The site has a file {path!r}, expected names of ASCII letters, digits, '-', '_' and inner dots, "
                "joined by '/'; nothing was written."
            )
        if path.casefold() in self._folded:
            raise ContentError(f"The site has two files {path!r}, expected one of each name; nothing was written.")
        self._folded.add(path.casefold())

    def add(self, file: File, *, is_known: bool) -> None:
        """Takes the file over from the earlier site if that has the same, or writes it."""
        path, before = self.folder / file.path, self.earlier / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (is_known and _has(before, file.content) and _taken_over(before, path)):
            with open(path, "xb") as stream:
                stream.write(file.content)
            self.n_written += 1
        self.sums[file.path] = hashlib.sha256(file.content).hexdigest()
        self.n_bytes += len(file.content)

    def manifest(self, title: str) -> File:
        """The list of all files that were added."""
        listed = {"format": FORMAT, "version": __version__, "title": title, "files": dict(sorted(self.sums.items()))}
        return File(MANIFEST, json.dumps(listed, indent=1).encode() + b"\n")


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:  # somebody has removed it, or another process has replaced the site
        return False


def _taken_over(before: Path, path: Path) -> bool:
    """Links a file, or copies it with its time where links are not possible."""
    try:
        os.link(before, path)
    except FileNotFoundError:
        return False
    except OSError:
        try:
            shutil.copy2(before, path)
        except FileNotFoundError:
            return False
    return True


def _earlier(target: Path) -> dict[str, str]:
    """SHA-256 by path of the files of an untouched earlier site; nothing of an absent or empty folder."""
    with _as_store_error(target):
        known = _listed(target / MANIFEST)
        foreign = list(islice((path for path in _paths(target) if path not in known), _MOST_NAMED + 1))
        if foreign:
            raise QueryError(_refusal(target, "holds", foreign, f"not listed in a {MANIFEST} of a site there"))
        changed = [path for path, checksum in known.items() if checksum and _changed(target / path, checksum)]
        if changed:
            raise QueryError(_refusal(target, "has", changed, "changed since the site was written"))
    return known


def _refusal(target: Path, verb: str, paths: Collection[str], what: str) -> str:
    named = ", ".join(map(repr, islice(paths, _MOST_NAMED))) + (" and more" if len(paths) > _MOST_NAMED else "")
    return (
        f"{target} {verb} {named}, {what}, expected an absent or empty folder or an untouched earlier site; nothing is "
        "overwritten: move what is yours away, or name another folder."
    )


def _listed(manifest: Path) -> dict[str, str]:
    """What a site's list of files says, and the list itself; nothing if there is none that is ours."""
    try:
        document: Any = json.loads(manifest.read_bytes())
        files = document["files"] if document["format"] == FORMAT else {}
        return {MANIFEST: ""} | {str(path): str(checksum) for path, checksum in files.items()} if files else {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # a site.json of somebody else
        return {}


def _paths(folder: Path) -> Iterator[str]:
    """Everything in a folder that is no folder, and links to folders, in the order of their names."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name) if folder.is_dir() else ():
        if entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{path}" for path in _paths(Path(entry.path)))
        elif entry.name not in _OF_DESKTOPS:
            yield entry.name


def _changed(path: Path, checksum: str) -> bool:
    """True for a file with another content, and for what is no plain file; one that was removed is nobody's loss."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return True
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != checksum


@contextmanager
def _as_store_error(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The site cannot be written to {target} ({error.strerror or error}), and what was there is as it was; "
            "make room or make it accessible, or name another folder."
        ) from error


def _remove_abandoned(target: Path) -> None:
    """Removes unfinished sites that killed processes have left beside this one."""
    unfinished = re.compile(re.escape(f".{target.name}-") + r"[0-9a-f]{8}\.tmp")
    with suppress(OSError):  # they are in nobody's way
        for entry in os.scandir(target.parent):
            if unfinished.fullmatch(entry.name) and time.time() - entry.stat().st_mtime > _ABANDONED_AFTER_S:
                shutil.rmtree(entry.path, ignore_errors=True)


def _synchronise() -> None:
    """Everything written is on the disk; at once, for a single file takes milliseconds."""
    if hasattr(os, "sync"):  # not on Windows
        os.sync()
