"""What ``zoo doctor`` looks at outside the zoo: caches, proxies and hosts, one small check each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..cards import catalogue
from ..errors import ZooError
from ..files import NO_HOME, cache_folder
from ..metadata import Missing
from ..weights.environment import OFF, ON, is_offline, mirror_place, weights_folder
from ..weights.mirror import shown_mirror, without_password
from ..weights.reach import host_of, unreachable
from .checks import Check, is_writable, nearest, obstacle_to, unwritable

_LEAST_FREE = 2 * 1024**3  # bytes; the largest checkpoints need more than one GiB
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
_OFFLINE = "ZOO_OFFLINE"
_SECONDS = 4.0


def caches() -> Iterator[Check]:
    """Where files are kept, how much they take, and how much is free there."""
    yield _cache("zoo", "ZOO_CACHE", cache_folder)
    yield _cache("weights", "ZOO_CACHE or TORCH_HOME", weights_folder)
    if place := mirror_place():
        yield Check("caches", "mirror (ZOO_MIRROR)", "ok", f"{shown_mirror(place)}: every load comes from there")
    yield _cache("torch.hub", "TORCH_HOME", lambda: _home("TORCH_HOME", "torch") / "hub", is_needed=False)
    yield _cache("hf", "HF_HOME", lambda: _home("HF_HOME", "huggingface"))


def _home(variable: str, name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(variable) or Path(base) / name).expanduser()


def _cache(owner: str, variable: str, locate: Callable[[], Path], *, is_needed: bool = True) -> Check:
    """One folder of files; the zoo only reads from a cache that is not needed."""
    name = f"{owner} ({variable})"
    try:
        folder = locate()
    except (ZooError, RuntimeError) as error:  # pathlib says so of a home that it cannot find
        return Check("caches", name, "problem", f"{error}; set {variable} to a folder".replace(".;", ";"))
    obstacle = None if folder.is_relative_to(NO_HOME) else obstacle_to(folder)
    if obstacle is not None:
        return Check("caches", name, "problem", f"{obstacle}, so {folder} cannot be one; set {variable} to a folder")
    used = f"{_bytes(_size(folder))} used" if os.path.isdir(folder) else "empty"
    existing = nearest(folder)
    if not is_writable(existing):
        detail = f"{unwritable(folder)} ({used}); set {variable} to a folder that can be written"
        return Check("caches", name, "problem" if is_needed else "warning", detail)
    free = shutil.disk_usage(existing).free
    detail = f"{folder}: {used}, {_bytes(free)} free"
    if free < _LEAST_FREE:
        return Check("caches", name, "warning", f"{detail}; too little for large weights")
    return Check("caches", name, "ok", detail)


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
    for variable in (*_PROXIES, "HF_HUB_OFFLINE"):
        if os.environ.get(variable):
            yield Check("network", variable, "ok", without_password(os.environ[variable]))
    stated = os.environ.get(_OFFLINE, "").strip()
    if stated.casefold() not in (*ON, *OFF):
        yield Check("network", _OFFLINE, "warning", f"{stated!r} is taken for yes, expected 1 or 0")
    elif stated:
        yield Check("network", _OFFLINE, "ok", stated)
    if offline or is_offline():
        yield Check("network", "hosts", "ok", f"not asked (--offline or {_OFFLINE})")
        return
    try:
        users = _users_of_hosts()
    except ZooError as error:
        yield Check("network", "hosts", "problem", f"not known, for the cards cannot be read: {error}")
        return
    reasons = unreachable([f"https://{host}/" for host in users], seconds=_SECONDS)
    for host, n in sorted(users.items(), key=lambda pair: (-pair[1], pair[0])):
        has = f"has weights of {n} encoder{'s' if n > 1 else ''}"
        reason = reasons.get(f"https://{host}/")
        if reason is not None:
            yield Check("network", host, "warning", f"{has}; does not answer: {reason}")
        else:
            yield Check("network", host, "ok", f"{has}; answers")


def _users_of_hosts() -> dict[str, int]:
    """How many encoders have weights on each host."""
    users: dict[str, int] = {}
    for card in catalogue().values():
        places = {card.weights.url, *card.weights.mirrors, *card.weights.companions}
        for host in {host_of(place) for place in places if not isinstance(place, Missing)} - {None}:
            users[str(host)] = users.get(str(host), 0) + 1
    return users
