"""What ``zoo doctor`` looks at: libraries, content, caches and the network, one small check each."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata as installed
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from ..cards import catalogue
from ..content import cache_folder, content_folder, user_folder
from ..errors import ZooError
from ..metadata import Missing
from ..version import __version__
from .reach import host_of, unreachable

DISTRIBUTION = "ssl-zoo"
EXTRAS = {
    "tables": ("pandas",),
    "models": ("timm", "torch", "torchvision", "safetensors"),
    "demo": ("scikit-learn",),
}
_ALWAYS = ("click", "packaging", "prettytable", "rich")
_OLDEST_PYTHON = (3, 11)
_LEAST_FREE = 2 * 1024**3  # bytes; the largest checkpoints need more than one GiB
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
_OFFLINE = ("ZOO_OFFLINE", "HF_HUB_OFFLINE")
_SECONDS = 4.0

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what was found."""

    topic: str
    name: str
    status: Status
    detail: str


def versions() -> Iterator[Check]:
    """Python, the zoo, its libraries and the extras they belong to."""
    topic = "versions"
    old = sys.version_info < _OLDEST_PYTHON
    wanted = ".".join(map(str, _OLDEST_PYTHON))
    yield Check(topic, "python", "problem" if old else "ok", platform.python_version() + (f", needs {wanted}" * old))
    own = _version(DISTRIBUTION)
    if own is None:
        yield Check(topic, DISTRIBUTION, "ok", f"{__version__}, run from a folder without being installed")
    elif own != __version__:
        detail = f"{__version__} runs, but {own} is installed; run: pip install -e . in the folder of the zoo"
        yield Check(topic, DISTRIBUTION, "warning", detail)
    else:
        yield Check(topic, DISTRIBUTION, "ok", own)
    wanted_versions = _specifiers() if own else {}
    for library in _ALWAYS:
        yield _library(library, wanted_versions, "problem", "run: pip install ssl-zoo")
    for extra, libraries in EXTRAS.items():
        for library in libraries:
            yield _library(library, wanted_versions, "ok", f"pip install 'ssl-zoo[{extra}]' adds it")


def _library(name: str, wanted: Mapping[str, str], if_absent: Status, remedy: str) -> Check:
    version = _version(name)
    if version is None:
        return Check("versions", name, if_absent, f"not installed; {remedy}")
    if name in wanted:
        from packaging.specifiers import SpecifierSet

        if not SpecifierSet(wanted[name]).contains(version, prereleases=True):
            return Check("versions", name, "problem", f"{version}, but the zoo needs {wanted[name]}")
    return Check("versions", name, "ok", version)


def _version(distribution: str) -> str | None:
    try:
        return installed.version(distribution)
    except installed.PackageNotFoundError:
        return None


def _specifiers() -> dict[str, str]:
    from packaging.requirements import Requirement

    requirements = map(Requirement, installed.requires(DISTRIBUTION) or [])
    return {requirement.name: str(requirement.specifier) for requirement in requirements if requirement.specifier}


def content() -> Iterator[Check]:
    """The folders of content, and whether every card and every row in them can be read."""
    for name in ("metadata", "results"):
        try:
            yield Check("content", f"{name} folder", "ok", str(content_folder(name)))
        except ZooError as error:
            yield Check("content", f"{name} folder", "problem", str(error))
            return
    own = user_folder()
    yield Check("content", "your own folder", "ok", f"{own}{'' if own.is_dir() else ' (none yet)'}")
    try:
        yield Check("content", "cards", "ok", f"{len(catalogue()):,} read")
    except ZooError as error:
        yield Check("content", "cards", "problem", str(error))
        return  # results name encoders and cannot be checked without cards
    from ..resultfiles import errata, read_rows

    try:
        yield Check("content", "results", "ok", f"{len(read_rows()):,} rows and {len(errata())} errata read")
    except ZooError as error:
        yield Check("content", "results", "problem", str(error))


def caches() -> Iterator[Check]:
    """Where files are kept, how much they take, and how much is free there."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    torch_home = Path(os.environ.get("TORCH_HOME") or base / "torch").expanduser()
    hf_home = Path(os.environ.get("HF_HOME") or base / "huggingface").expanduser()
    folders = {"zoo (ZOO_CACHE)": cache_folder(), "torch.hub (TORCH_HOME)": torch_home / "hub", "hf (HF_HOME)": hf_home}
    for name, folder in folders.items():
        existing = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
        free = shutil.disk_usage(existing).free
        used = f"{_bytes(_size(folder))} used" if folder.is_dir() else "empty"
        detail = f"{folder}: {used}, {_bytes(free)} free"
        if not os.access(existing, os.W_OK):
            yield Check("caches", name, "warning", f"{detail}; nothing can be written there")
        elif free < _LEAST_FREE:
            yield Check("caches", name, "warning", f"{detail}; too little for large weights")
        else:
            yield Check("caches", name, "ok", detail)


def _size(folder: Path) -> int:
    """Bytes of all files below, links not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # deleted by somebody else in the meantime
                continue
    return total


def _bytes(n: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def network(*, offline: bool) -> Iterator[Check]:
    """Proxies, and whether the hosts that the cards name answer."""
    for variable in (*_PROXIES, *_OFFLINE):
        if os.environ.get(variable):
            yield Check("network", variable, "ok", _without_password(os.environ[variable]))
    if offline or os.environ.get("ZOO_OFFLINE") not in (None, "", "0"):
        yield Check("network", "hosts", "ok", "not asked (--offline or ZOO_OFFLINE)")
        return
    try:
        cards = list(catalogue().values())
    except ZooError:
        return  # said among the contents
    users: dict[str, int] = {}
    for card in cards:
        places = {card.weights.url, *card.weights.mirrors, *card.weights.companions}
        for host in {host_of(place) for place in places if not isinstance(place, Missing)} - {None}:
            users[str(host)] = users.get(str(host), 0) + 1
    reasons = unreachable([f"https://{host}/" for host in users], seconds=_SECONDS)
    for host, n in sorted(users.items(), key=lambda pair: (-pair[1], pair[0])):
        has = f"has weights of {n} encoder{'s' if n > 1 else ''}"
        reason = reasons.get(f"https://{host}/")
        if reason is not None:
            yield Check("network", host, "warning", f"{has}; does not answer: {reason}")
        else:
            yield Check("network", host, "ok", f"{has}; answers")


def _without_password(value: str) -> str:
    parts = urlsplit(value)
    if not parts.username and not parts.password:
        return value
    return urlunsplit(parts._replace(netloc=f"***@{parts.hostname}{f':{parts.port}' if parts.port else ''}"))
