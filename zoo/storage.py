"""A place for files: a folder of this machine, or any address that fsspec understands, such as s3://bucket/folder.

Files are written whole or not at all, and a file can be written only if there is none of its name. Nothing is locked.
Every failure of a library below becomes a :class:`~zoo.errors.StoreError` that names the place without its password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Place(Protocol):
    """Files by their names, which may have "/" in them."""

    @property
    def folder(self) -> Path | None:
        """The folder of this machine; None of an address."""

    @property
    def shown(self) -> str:
        """As it may be printed: without user, password and query."""

    def below(self, name: str) -> Place:
        """The place below this one."""

    def names(self) -> list[str]:
        """Names of the files directly in it, sorted; none if there is no such place. Half-written ones do not count."""

    def places(self) -> list[str]:
        """Names of the places directly in it, sorted."""

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if it is missing."""

    def read(self, name: str, start: int = 0, n_bytes: int | None = None) -> bytes | None:
        """A file or a part of it; None if it is missing."""

    def write(self, name: str, content: bytes | Path) -> None:
        """Writes a file, in place of one that is there: one PUT of an object store."""

    def write_new(self, name: str, content: bytes | Path) -> bool:
        """Writes a file unless one of its name is there, or appears meanwhile; False if so."""

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""

    def modified_s(self, name: str) -> float | None:
        """When a file was written, in seconds since 1970 by the clock of the place; None if it is missing."""

    def states(self) -> dict[str, tuple[int, str]]:
        """Bytes of each file directly in it, and a text that is another one when the file has changed, by one listing.

        The text is empty where the place says nothing that would change, and -1 stands for an unknown size.
        """


def place_at(where: str | Path) -> Place:
    """The place of a path or an address; QueryError if it is neither."""
    raise NotImplementedError
