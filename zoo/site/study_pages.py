"""Not made yet."""

from __future__ import annotations

from collections.abc import Iterator

from .contents import Contents
from .rendering import File, Renderer


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """Nothing yet."""
    yield from ()
