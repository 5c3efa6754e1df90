"""All files of a site, and the folder they are written to: next to its place, and renamed once it is whole.

``site.json`` lists what was written; a folder with anything else in it, or with a file that was changed since, is
refused before any work.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, QueryError, StoreError
from ..files import replace_folder
from ..studies.running import LIBRARIES as STUDY_LIBRARIES
from ..version import __version__
from . import (
    about_page,
    choose_page,
    compare_page,
    data_tables,
    dataset_pages,
    docs_pages,
    encoder_pages,
    first_page,
    look_page,
    notebook_page,
    study_pages,
)
from .contents import Contents
from .rendering import File, SiteRenderer

Maker = Callable[[Contents, SiteRenderer], Iterator[File]]
MAKERS: dict[str, Maker] = {
    "first page": first_page.build_files,
    "encoders": encoder_pages.build_files,
    "comparison": compare_page.build_files,
    "choice": choose_page.build_files,
    "look": look_page.build_files,
    "data sets": dataset_pages.build_files,
    "studies": study_pages.build_files,
    "data": data_tables.build_files,
    "about": about_page.build_files,
    "notebook": notebook_page.build_files,
    "docs": docs_pages.build_files,
}
"""What makes each kind of page, in the order in which progress names them."""

Progress = Callable[[str, int, int], None]
"""Told what is being made, how many kinds of pages are done, and of how many."""

FORMAT = "zoo-site-1"
MANIFEST = "site.json"
_OF_DESKTOPS = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})


def require_libraries(*, with_studies: bool) -> None:
    """MissingExtra if a library is missing that a site needs; nothing is imported."""
    for library in ("jinja2", "markdown_it", *(STUDY_LIBRARIES if with_studies else ())):
        if find_spec(library) is None:
            raise MissingExtra(library, extra="site", needed_for="A site")


def site_files(contents: Contents, progress: Progress = lambda what, done, total: None) -> Iterator[File]:
    """Every file of the site, pages first, assets last; the same for the same contents. MissingExtra as above."""
    require_libraries(with_studies=contents.with_studies)
    renderer = SiteRenderer(contents)
    for number, (name, make) in enumerate(MAKERS.items()):
        tell = partial(lambda name, number, what: progress(f"{name}: {what}", number, len(MAKERS)), name, number)
        progress(name, number, len(MAKERS))
        renderer.tell = tell
        for count, file in enumerate(make(contents, renderer), start=1):
            yield file
            tell(str(count))
    yield from renderer.assets.values()
    progress("done", len(MAKERS), len(MAKERS))


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


def require_site_folder(folder: Path) -> tuple[Path, dict[str, str]]:
    """The folder of a site with links resolved, and the SHA-256 by path of an earlier site there.

    QueryError if there is anything but nothing, an empty folder, or an untouched earlier site, or the folder above is
    missing; StoreError if it cannot be read or written.
    """
    target = Path(os.path.realpath(folder))
    if not target.parent.is_dir():
        raise QueryError(
            f"There is no folder {target.parent}, expected it to make {target.name}/ there; make it first."
        )
    if target == Path.cwd() or os.path.ismount(target):
        raise QueryError(f"{folder} is the current folder or a disk, which cannot be replaced; name a folder below it.")
    if target.exists() and not target.is_dir():
        raise QueryError(f"{folder} is no folder, expected one for the site; choose another name.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise StoreError(
            f"The folder {target.parent} cannot be written, expected to put the site there; make it writable, or name "
            "another folder."
        )
    try:
        return target, _earlier(target)
    except OSError as error:
        raise StoreError(f"The folder {target} cannot be read ({error.strerror}); name another folder.") from error


def _earlier(target: Path) -> dict[str, str]:
    """SHA-256 by path of the files of an untouched earlier site; nothing of an absent or empty folder."""
    known: dict[str, str] = {}
    with suppress(OSError, ValueError, KeyError, TypeError):  # none, or a site.json of another program
        document: Any = json.loads((target / MANIFEST).read_bytes())
        known = dict(document["files"]) if document["format"] == FORMAT else {}
    wrong = []
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        if path.name in _OF_DESKTOPS or (known and name == MANIFEST) or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or known.get(name) != hashlib.sha256(path.read_bytes()).hexdigest():
            wrong.append(name)
    if wrong:
        named = ", ".join(map(repr, wrong[:3])) + " and more" * (len(wrong) > 3)
        raise QueryError(
            f"{target} holds {named}, which is not of a site or was changed since it was written, expected an absent "
            "or empty folder or an untouched earlier site; nothing is overwritten: move what is yours away, or name "
            "another folder."
        )
    return known


def write_site(files: Iterable[File], folder: Path, *, title: str = "") -> Written:
    """Writes the files of a site into a folder that is absent, empty, or an untouched earlier site.

    The earlier site stays until the new one is whole, and for good if an error is raised: QueryError if the folder is
    refused (:func:`require_site_folder`), StoreError if the disk refuses a file. Files have distinct paths, and are
    written while they come; ``title`` is for their list, ``site.json``.
    """
    target, known = require_site_folder(folder)
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    sums: dict[str, str] = {}
    n_bytes = 0

    def write(path: str, content: bytes) -> None:
        nonlocal n_bytes
        try:
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).write_bytes(content)
        except OSError as error:
            raise _store_error(target, error) from error
        n_bytes += len(content)

    try:
        for file in chain([File(".nojekyll", b"")], files):  # lest GitHub Pages look for templates in the pages
            write(file.path, file.content)
            sums[file.path] = hashlib.sha256(file.content).hexdigest()
        listed = {"format": FORMAT, "version": __version__, "title": title, "files": dict(sorted(sums.items()))}
        write(MANIFEST, json.dumps(listed, indent=1).encode() + b"\n")
        _earlier(target)  # a file may have been put there in the meantime
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
        n_bytes=n_bytes,
    )


def _store_error(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"The site cannot be written to {target} ({error.strerror or error}), and what was there is as it was; make "
        "room or make it accessible, or name another folder."
    )
