"""What the environment says about weights: whether the network may be used, and where files are kept."""

from __future__ import annotations

import os
from pathlib import Path

from ..files import cache_folder, expanded

ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def is_offline() -> bool:
    """True if ``ZOO_OFFLINE`` says that no socket may be opened; an unknown word counts as yes."""
    return os.environ.get("ZOO_OFFLINE", "").strip().casefold() not in OFF


def weights_folder() -> Path:
    """Where weights are cached: ``$ZOO_CACHE/weights``; without that, ``$TORCH_HOME/ssl-zoo``; else the user's cache.

    It need not exist.

    Raises
    ------
    ContentError
        If there is no telling where that is.
    """
    torch_home = os.environ.get("TORCH_HOME")
    if torch_home and not os.environ.get("ZOO_CACHE"):
        return expanded("TORCH_HOME", torch_home) / "ssl-zoo"
    return cache_folder() / "weights"


def torch_checkpoints() -> Path:
    """Where torch.hub keeps the files it downloads: they are taken from there if their hash is right."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("TORCH_HOME") or str(Path(base) / "torch")
    return expanded("TORCH_HOME", home) / "hub" / "checkpoints"


def mirror_place() -> str | None:
    """The folder or address that every load must come from, ``ZOO_MIRROR``; None if there is none."""
    return os.environ.get("ZOO_MIRROR") or None
