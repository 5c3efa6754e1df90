"""Versions of what may change numbers, here and on a worker."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..version import __version__

LIBRARIES = ("torch", "torchvision", "timm", "pillow", "numpy")
ABSENT = "not installed"


def versions(*, code: int | None = None) -> dict[str, str]:
    """Versions of the zoo, of Python and of the libraries that compute features; imports none of them.

    The zoo's has a hash of its source, for checkouts differ more often than their version does. ``code`` is the number
    that counts versions with other features (``zoo.features.origin.CODE_NUMBER``).

    >>> versions()["python"].count(".")
    1
    """
    numbers = {"zoo": f"{__version__}+{_source()}"}
    if code is not None:
        numbers["features"] = str(code)
    numbers["python"] = f"{sys.version_info.major}.{sys.version_info.minor}"
    return numbers | {library: _installed(library) for library in LIBRARIES}


def difference(wanted: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs as part of a sentence, empty if nothing does.

    >>> difference({"torch": "2.9.0", "timm": "1.0.26"}, {"torch": "2.8.0", "timm": "1.0.26"})
    'torch 2.8.0 instead of 2.9.0'
    """
    return ", ".join(
        f"{name} {here.get(name, ABSENT)} instead of {wanted.get(name, ABSENT)}"
        for name in dict.fromkeys([*wanted, *here])
        if here.get(name, ABSENT) != wanted.get(name, ABSENT)
    )


def _installed(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ABSENT


@cache
def _source() -> str:
    """Start of a hash of all modules of this package."""
    folder = Path(__file__).parents[1]
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
