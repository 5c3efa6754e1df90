"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


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
