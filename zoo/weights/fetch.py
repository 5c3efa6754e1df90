"""One place -> one checked file.

Whatever the place is, the file that comes back is whole and has the hash and size that were expected of it; anything
else is one error of one sentence, and nothing wrong is left behind. No lock is taken: of several processes that want
the same place each gets the whole file, and at worst one of them has fetched it for nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import QueryError, WeightsUnavailable
from .environment import is_offline, torch_checkpoints
from .http import download, finished_record
from .http_requests import POLICY, Policy
from .places import Expected, Source, shown, source
from .progress import Bar, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One file, whole and checked."""

    path: Path
    sha256: str  # of the file, in hexadecimal
    size_bytes: int
    origin: str  # the address or path it came from, without anything secret
    is_ours: bool  # True: in our folder, to be deleted once it is converted; False: the user's or another cache's


def fetch(
    place: str,
    *,
    folder: Path,
    sha256: str | None = None,
    size_bytes: int | None = None,
    progress: Progress | None = None,
    policy: Policy = POLICY,
) -> Fetched:
    """The file at a place, from a cache on this machine if it is in one, otherwise from the network.

    Parameters
    ----------
    place : str
        An address, ``hf:``, ``timm:``, ``torchvision:`` or a path; see :mod:`zoo.weights.places`.
    folder : Path
        The folder of weights: ``downloads/`` and ``partial/`` are made in it.
    sha256 : str, optional
        What the file must have, 64 hexadecimal digits; without it, what the publisher put into its name.
    size_bytes : int, optional
        What the file must have.
    progress : Progress, optional
        Told how far the download is; without one, a bar is drawn where stderr is a terminal.
    policy : Policy
        How long and how often to try; huggingface_hub has its own.

    Raises
    ------
    QueryError
        If the place or the hash cannot be understood.
    WeightsUnavailable
        If the file cannot be had: no network, no such file, no access, a server that fails or stalls.
    WeightsRefused
        If the file is not the expected one, or the way to it is unsafe.
    StoreError
        If the disk is full, or cannot be read or written.
    MissingExtra
        If a library that knows the place is not installed.
    """
    found = source(place)
    expected = _expected(found, sha256, size_bytes)
    if found.kind == "path":
        return _own_file(found, expected)
    if found.kind == "hub":
        from .huggingface import fetch_hub  # half a second that only places on the Hub need

        return fetch_hub(found, expected=expected, progress=progress)
    assert found.url is not None  # of an http place
    kept = _kept(found, expected, folder)
    if kept is not None:
        return kept
    if is_offline():
        raise WeightsUnavailable(
            f"The file at {shown(place)} is not on this machine, and ZOO_OFFLINE forbids to fetch it; unset "
            "ZOO_OFFLINE once, or give the path of a copy."
        )
    path, digest, size = download(
        found.url,
        name=found.filenames[0],
        expected=expected,
        folder=folder,
        progress=Bar() if progress is None else progress,
        policy=policy,
    )
    return Fetched(path=path, sha256=digest, size_bytes=size, origin=shown(found.url), is_ours=True)


def file_sha256(path: Path) -> tuple[str, int]:
    """The sha256 of a file in hexadecimal, and its size in bytes."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return digest.hexdigest(), file.tell()


def _expected(found: Source, sha256: str | None, size_bytes: int | None) -> Expected:
    whole = (sha256 or "").lower()
    if not re.fullmatch("(?:[0-9a-f]{64})?", whole):
        raise QueryError(f"The sha256 {sha256!r} for {shown(found.place)} is none, expected 64 hexadecimal digits.")
    return Expected(place=found.place, sha256=whole, sha256_prefix=found.sha256_prefix, size_bytes=size_bytes)


def _own_file(found: Source, expected: Expected) -> Fetched:
    assert found.path is not None  # of a path
    path = found.path
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a folder, or a pipe that could be waited on for ever
            raise WeightsUnavailable(f"{path} is not a file, expected one of weights; correct the path.")
        digest, size = file_sha256(path)
    except OSError as error:
        raise WeightsUnavailable(
            f"The file {path} cannot be read ({error.strerror or error}), expected one of weights; correct the path."
        ) from error
    expected.check(digest, size)
    return Fetched(path=path, sha256=digest, size_bytes=size, origin=os.path.abspath(path), is_ours=False)


def _kept(found: Source, expected: Expected, folder: Path) -> Fetched | None:
    """The file if this machine has it: downloaded before and not used since, or in torch.hub's cache."""
    known = expected.hash if len(expected.hash) == 64 else _finished(found.place, folder)
    ours = folder / "downloads" / known
    if known and (there := _right(ours, expected, whole=known)):
        return Fetched(path=ours, sha256=there[0], size_bytes=there[1], origin=shown(found.url or ""), is_ours=True)
    theirs = torch_checkpoints() / found.filenames[0]
    # without a hash nothing tells whether a file of that name is the one of this address: names repeat
    if expected.hash and (there := _right(theirs, expected)):
        return Fetched(path=theirs, sha256=there[0], size_bytes=there[1], origin=f"{theirs}", is_ours=False)
    return None


def _finished(place: str, folder: Path) -> str:
    """The sha256 of a download that ended well and that nobody has used yet, "" if there is none."""
    try:
        said = finished_record(folder, place).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return said if re.fullmatch("[0-9a-f]{64}", said) else ""


def _right(path: Path, expected: Expected, *, whole: str = "") -> tuple[str, int] | None:
    """Hash and size of a file, if it is there and is the expected one; what is wrong is left to be replaced."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        digest, size = file_sha256(path)
    except (OSError, ValueError):  # not there, not readable, or no possible name of a file
        return None
    is_right = digest.startswith(whole) and digest.startswith(expected.hash) and expected.size_bytes in (None, size)
    return (digest, size) if is_right else None
