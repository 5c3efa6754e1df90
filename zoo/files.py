"""Files and folders: where content lies, files that appear whole or not at all, and locks between processes.

The code never writes into the shipped content. The user's content lies in :func:`get_user_folder`, which has the same
two folders, ``metadata/`` and ``results/``; what can be recomputed lies in :func:`get_cache_folder`.

Everything is written by :func:`replace_file` or :func:`make_new_folder`, so that readers need no lock. Where several
processes would write the same file or do the same work, :func:`lock_file` admits one at a time, if the file system has
locks.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

from .errors import ContentError, StoreError, ZooError

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)

_PACKAGE = Path(__file__).resolve().parent

NO_HOME = Path(os.devnull, "ssl-zoo")
"""Placeholder for a folder in the home of a user without a readable home: it does not exist and cannot be created."""
_shipped_only: ContextVar[bool] = ContextVar("shipped_only", default=False)
_seen: ContextVar[dict[tuple[object, ...], object] | None] = ContextVar("seen", default=None)
_N_THREADS = 8  # that read files at once
_Found = TypeVar("_Found")
_Item = TypeVar("_Item")


def get_content_folder(name: str) -> Path:
    """The shipped folder ``metadata``, ``results``, ``analysis`` or ``docs``: the wheel's copy or the checkout's."""
    candidates = (_PACKAGE / "_content" / name, _PACKAGE.parent / name)
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise ContentError(
        f"The zoo's {name}/ folder is missing (looked at {candidates[0]} and {candidates[1]}); "
        "reinstall ssl-zoo or clone the repository again."
    )


def list_shipped_studies() -> dict[str, Path]:
    """The shipped studies by name, in name order: files ``analysis/QUESTION.py`` and folders ``analysis/QUESTION/``."""
    found = {path.stem: path for path in get_content_folder("analysis").glob("*.py")}
    found |= {path.parent.name: path.parent for path in get_content_folder("analysis").glob("*/__init__.py")}
    return {name: found[name] for name in sorted(found) if name[0] not in "._"}


def get_user_folder() -> Path:
    """The user's content: ``$ZOO_HOME``, or ``ssl-zoo`` in the platform's data folder. It need not exist."""
    if _shipped_only.get():
        return NO_HOME
    return _from_environment("ZOO_HOME") or _platform_folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")


@contextmanager
def use_shipped_only() -> Iterator[None]:
    """Content that is read in the block is the shipped one, as if the user had none."""
    token = _shipped_only.set(True)
    try:
        yield
    finally:
        _shipped_only.reset(token)


def get_cache_folder() -> Path:
    """Recomputable files: ``$ZOO_CACHE``, or ``ssl-zoo`` in the platform's cache folder. It need not exist."""
    return _from_environment("ZOO_CACHE") or _platform_folder("XDG_CACHE_HOME", ".cache", "TEMP")


def get_evaluations_folder() -> Path:
    """Default folder of features, measured probes and answers."""
    return get_cache_folder() / "evaluations"


def format_path_part(text: str) -> str:
    """A text as a part of a path on every system."""
    return re.sub(r"[^\w.+-]", "_", text) or "_"


@contextmanager
def cache_lookups() -> Iterator[None]:
    """What :func:`make_cached_lookup` functions find holds for the whole block, or until this thread writes a file."""
    token = _seen.set({})
    try:
        yield
    finally:
        _seen.reset(token)


def make_cached_lookup(find: Callable[..., _Found]) -> Callable[..., _Found]:
    """A function that looks at all files of content, which takes long of many: in :func:`cache_lookups` only once."""

    @wraps(find)
    def found(*arguments: Any) -> _Found:
        seen = _seen.get()
        if seen is None:
            return find(*arguments)
        key = (find, _shipped_only.get(), *arguments)
        if key not in seen:
            seen[key] = find(*arguments)
        return cast(_Found, seen[key])

    return found


def list_content_files(name: str, suffix: str) -> list[Path]:
    """All files of a content folder, the shipped ones first, then the user's, each group in name order.

    Hidden files and folders are left out: editors and file systems leave copies there.
    """
    return list(map(Path, list_content_names(name, suffix)))


def list_content_names(name: str, suffix: str) -> list[str]:
    """The paths of :func:`list_content_files` as texts, which take less time than those of thousands of files."""
    shipped = _files_below(get_content_folder(name), suffix)
    if not shipped:
        raise ContentError(f"The folder {get_content_folder(name)} holds no {suffix} file; clone the repository again.")
    user = get_user_folder()
    added = _files_below(user / name, suffix) if _is_folder(user) and _is_folder(user / name) else []
    return shipped + added + _mirrored(name, suffix, user / name, added)


def read_contents(paths: Iterable[Path], name: str, error: type[ZooError], left_out: list[str]) -> dict[Path, bytes]:
    """Content by file of a content folder; what cannot be read raises ``error``, or is noted if it is the user's."""
    contents = {}
    for path in paths:
        try:
            with open_regular(path) as file:
                contents[path] = file.read()
        except OSError as reason:
            kind = {"metadata": "card"}.get(name, name)
            sentence = f"The {kind} file {path} cannot be read ({reason.strerror}); make it readable or remove it."
            if not is_of_user(path, name):
                raise error(sentence) from reason
            left_out.append(f"{sentence.removesuffix('.')}, for it is left out.")
    return contents


def is_of_user(path: Path, name: str) -> bool:
    """True for a file of the user's, in which something wrong is left out and stops nothing else."""
    return not path.is_relative_to(get_content_folder(name))


def _mirrored(name: str, suffix: str, user: Path, added: list[str]) -> list[str]:
    """Files of the user who made the mirror, if it is a folder, except those that this user has too."""
    place = None if _shipped_only.get() else os.environ.get("ZOO_MIRROR")
    mirror = parse_local_folder(place) if place else None
    folder = None if mirror is None else mirror / name / "own"
    if folder is None or not folder.is_dir():
        return []
    known = {os.path.relpath(path, user) for path in added}
    return [path for path in _files_below(folder, suffix) if os.path.relpath(path, folder) not in known]


def parse_local_folder(place: str) -> Path | None:
    """The folder that a place, such as that of a mirror, names; None for an address.

    >>> parse_local_folder("memory://mirror"), parse_local_folder("file:///data/mirror").as_posix()
    (None, '/data/mirror')
    """
    for scheme in ("file://", "local://", "file:", "local:"):
        place = place.removeprefix(scheme)
    return None if "://" in place or "::" in place else expand_path("The place", place).absolute()


def describe_irregular_file(path: str | os.PathLike[str]) -> str:
    """What is there, links followed, if it is neither a regular file nor a folder; "" if it is one, or not there."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return "link in a circle" if error.errno == errno.ELOOP else ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def require_regular(path: str | os.PathLike[str]) -> None:
    """OSError of what would be waited on forever, as a pipe, or has no end, as a device; nothing is opened."""
    if what := describe_irregular_file(path):
        raise OSError(errno.EINVAL, f"it is a {what}, no regular file", os.fspath(path))


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """A file to read its bytes; OSError as of :func:`require_regular`."""
    require_regular(path)
    return open(path, "rb")


def map_in_threads(function: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """What a function that reads a file returns on each item, in their order; several are read at once, for files may
    be far away.

    A thread is given a block of items: handing over takes as long as opening a file that is near.
    """
    from concurrent.futures import ThreadPoolExecutor  # most commands read no image

    step = max(1, min(32, len(items) // (4 * _N_THREADS)))
    blocks = [items[first : first + step] for first in range(0, len(items), step)]
    with ThreadPoolExecutor(_N_THREADS) as threads:
        return [one for found in threads.map(lambda block: [*map(function, block)], blocks) for one in found]


def escape_csv_cell(value: object) -> object:
    """A cell of a CSV file for people: a text that a spreadsheet would take for a formula begins with an apostrophe.

    >>> [escape_csv_cell(one) for one in ("=1+1", "-0.5", "@cat", "cat", -0.5)]
    ["'=1+1", '-0.5', "'@cat", 'cat', -0.5]
    """
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _is_folder(path: Path) -> bool:
    """False if nothing is there; anything but a folder is refused."""
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


def _files_below(folder: Path, suffix: str) -> list[str]:
    return [path for path in _everything_below(folder) if path.endswith(suffix)]


@make_cached_lookup
def _everything_below(folder: Path) -> list[str]:
    """All files in the order of their paths; links to folders are not followed."""
    found: list[str] = []
    waiting: list[tuple[str, bool]] = [(os.fspath(folder), True)]
    while waiting:
        path, is_folder = waiting.pop()
        if not is_folder:
            found.append(path)
            continue
        try:
            with os.scandir(path) as entries:
                inside = [
                    (one.path, one.is_dir(follow_symlinks=False))
                    for one in entries
                    if one.name[0] != "." and not (one.is_symlink() and os.path.isdir(one.path))
                ]
        except OSError as error:
            _refuse_to_list(error)
        waiting += sorted(inside, reverse=True)  # all of one folder, so that this is the order of their names
    return found


def _refuse_to_list(error: OSError) -> NoReturn:
    raise ContentError(
        f"The folder {error.filename} cannot be listed ({error.strerror}); make it readable or set ZOO_HOME."
    ) from error


def _from_environment(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return expand_path(variable, value) if value else None


def expand_path(variable: str, value: str) -> Path:
    """The path that an environment variable names; ContentError if its home folder does not exist."""
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
    except (RuntimeError, PermissionError, NotADirectoryError):  # a service or a container without a home folder
        return NO_HOME
    except OSError:  # not there yet
        return folder
    return folder


@contextmanager
def replace_file(target: Path, *, must_be_new: bool = False) -> Iterator[BinaryIO]:
    """A new file to write; when the block ends well it is ``target``, otherwise it is gone.

    File and name are on the disk before this returns. A reader of ``target`` sees the old file or the new one; of
    several writers the last one wins. No lock is taken. Like any new file it has the permissions that the umask leaves,
    whatever the old one had. With ``must_be_new`` an existing file raises FileExistsError, even one that appears while
    this one is written. If OSError is raised, ``target`` is as it was, or already the whole new file if only its name
    could not be synchronised.
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
def make_new_folder(target: Path) -> Iterator[Path]:
    """A new folder to fill; when the block ends well it is ``target`` with everything in it, otherwise it is gone.

    No lock is taken: of several writers the first one wins, and FileExistsError is raised for the others; an empty
    folder at ``target`` is replaced. If OSError is raised, ``target`` is absent, or whole if only its name could not be
    synchronised.
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
    """Takes the name unless a file has it; without hard links a gap stays between looking and renaming."""
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
    """Renames a finished, synchronised file of the same file system in one atomic step."""
    os.replace(temporary, target)
    synchronise_folder(target.parent)


def replace_folder(temporary: Path, target: Path) -> None:
    """Renames a finished folder; an earlier one is set aside first, and restored if that fails."""
    synchronise_folder(temporary)
    earlier = target.parent / f"{temporary.name}.earlier"
    if not target.exists():
        os.rename(temporary, target)
    else:
        try:
            os.rename(target, earlier)
            os.rename(temporary, target)
        finally:
            if not target.exists():
                os.rename(earlier, target)
    synchronise_folder(target.parent)
    shutil.rmtree(earlier, ignore_errors=True)


def synchronise_folder(folder: Path) -> None:
    """Writes the names in a folder to the disk."""
    if (seen := _seen.get()) and folder != get_cache_folder():  # where copies of content lie, which change no content
        seen.clear()
    if os.name == "nt":  # Windows opens no folders; NTFS journals its names
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_file(path: Path, *, patience_s: float = 120.0) -> Iterator[None]:
    """Lock between processes and threads; it ends with the block, or with its process.

    ``path`` is created, with its folder, and stays. StoreError if another process holds the lock for ``patience_s``
    seconds. On a file system without locks the block runs all the same.
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
        if error.errno not in NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()


@contextmanager
def lock_for_writing(path: Path) -> Iterator[None]:
    """One process of the user at a time writes to a path, as far as the cache can be written to and has locks."""
    from hashlib import sha256  # which listing and reading do without

    name = sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    with ExitStack() as stack:
        with suppress(OSError):  # a cache that cannot be written to
            stack.enter_context(lock_file(get_cache_folder() / "locks" / f"{name[:16]}.lock"))
        yield
