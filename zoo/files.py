"""Files and folders: where the zoo's content lies, files that appear whole or not at all, and one kind of lock.

The code never writes next to the content it ships. What a user adds lives in :func:`user_folder`, which has the same
two folders, ``metadata/`` and ``results/``; what can be recomputed lives in :func:`cache_folder`.

Everything is written by :func:`replaced` or :func:`new_folder`, so that readers need no lock. Where several processes
would write the same file or do the same work, :func:`locked` lets one at a time, as far as the file system can.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

from .errors import ContentError, StoreError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)

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


@contextmanager
def replaced(target: Path, *, must_be_new: bool = False) -> Iterator[BinaryIO]:
    """A new file to write; when the block ends well it is ``target``, otherwise it is gone.

    The bytes are on the disk before the name is, and the name is before this returns. Whoever reads ``target`` sees the
    old file or the new one, whatever else happens; of several writers the last one wins. No lock is taken. Like any
    file, it may be read by whom the user's umask lets.

    Parameters
    ----------
    target : Path
        Its folder is made if it does not exist.
    must_be_new : bool
        Refuse to replace a file, even one that appears while this one is written.

    Raises
    ------
    FileExistsError
        If ``target`` must be new and is there.
    OSError
        If the folder cannot be made or the file cannot be written; ``target`` is then as it was, or already the whole
        new file if it was only its name that could not be made lasting.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():  # a device or a pipe would become a file
        raise OSError(errno.EEXIST, "something that is no regular file has its name", str(target))
    temporary = target.parent / f".{target.name[:100]}-{os.urandom(8).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if must_be_new:
            _publish_new(temporary, target)
        else:
            publish(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A new folder to fill; when the block ends well it is ``target``, otherwise it is gone.

    It appears with everything that is in it. No lock is taken: of several writers the first one wins.

    Raises
    ------
    FileExistsError
        If something has the name, even if it appears while this one is filled; an empty folder gives way.
    OSError
        If the folder cannot be made; or, then with ``target`` whole, if its name could not be made lasting.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name[:100]}-{os.urandom(8).hex()}.tmp"
    try:
        temporary.mkdir()
        yield temporary
        synchronise_folder(temporary)
        try:
            os.rename(temporary, target)
        except OSError as error:
            if not os.path.lexists(target):
                raise
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        synchronise_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _publish_new(temporary: Path, target: Path) -> None:
    """Takes the name unless a file has it; a look before replacing would leave a gap, and is for want of links."""
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        publish(temporary, target)
    else:
        temporary.unlink()
        synchronise_folder(target.parent)


def publish(temporary: Path, target: Path) -> None:
    """Gives a finished, synchronised file of the same file system its name, in one step that a crash cannot halve."""
    os.replace(temporary, target)
    synchronise_folder(target.parent)


def synchronise_folder(folder: Path) -> None:
    """Makes the names in a folder as lasting as the files they name."""
    if os.name == "nt":  # Windows opens no folders; NTFS journals its names
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, patience_s: float = 120.0) -> Iterator[bool]:
    """Lock between processes and between threads; it ends with the block, or with its process.

    Yields True if it keeps others out. False says that the file system has no locks or only pretends to, and nobody is
    kept out: what the block writes must be right all the same, by names made of the content and by :func:`replaced`.

    Parameters
    ----------
    path : Path
        The file that is locked; it is made, with its folder, and stays.
    patience_s : float
        How long to wait for another process.

    Raises
    ------
    StoreError
        If another process has it for that long.
    OSError
        If the file cannot be made.
    """
    from filelock import FileLock, Timeout  # 60 ms, which listing and reading do without

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, poll_interval=0.01, fallback_to_soft=False)
    try:
        lock.acquire(timeout=patience_s)
    except Timeout as error:
        raise StoreError(
            f"Another process has kept {path} locked for {patience_s:.0f} seconds, expected a moment; end that process "
            "if it hangs, and try again."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        yield False
        return
    try:
        yield _excludes(path)
    finally:
        lock.release()


def _excludes(path: Path) -> bool:
    """False if a file that is locked can be locked a second time, as where locks do nothing."""
    from filelock import FileLock, Timeout

    second = FileLock(path, fallback_to_soft=False)
    try:
        second.acquire(timeout=0)
    except Timeout:
        return True
    second.release()
    return False
