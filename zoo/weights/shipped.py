"""Weights that come with the zoo: files of the content folder, which no load has to fetch.

``shipped:pocket/NAME.safetensors`` is ``metadata/pocket/NAME.safetensors`` of the checkout or of the wheel. Such a
place means the same file on every machine, and its card states the hash of it.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ..errors import QueryError, WeightsUnavailable
from ..files import content_folder

SCHEME = "shipped"


def is_shipped(place: str) -> bool:
    """True for a place in the content folder.

    >>> is_shipped("shipped:pocket/a.safetensors"), is_shipped("https://host/shipped:a")
    (True, False)
    """
    return place.partition(":")[0].lower() == SCHEME


def shipped_file(place: str) -> Path:
    """Where the file of such a place is.

    Raises
    ------
    QueryError
        If the place would lead out of the content folder.
    WeightsUnavailable
        If the file is not there.
    ContentError
        If the content folder is not there.
    """
    name = place.partition(":")[2]
    parts = PurePosixPath(name)
    if not name or parts.is_absolute() or ".." in parts.parts or any(mark in name for mark in "\\:\0"):
        raise QueryError(
            f"The place {place!r} names no file that comes with the zoo, expected shipped:FOLDER/NAME.safetensors."
        )
    path = content_folder("metadata").joinpath(*parts.parts)
    if not path.is_file():
        raise WeightsUnavailable(f"The file {path} is missing; reinstall ssl-zoo or clone the repository again.")
    return path
