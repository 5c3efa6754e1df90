"""Tar files as webdataset writes them, and encoded images to put into shards."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

Members = list[tuple[str, bytes]]

BEFORE_S = 100.0  # a shard that is older than that is not taken for one that is still written


def pixels(number: int, *, px: int = 8) -> np.ndarray:
    """The pixels of an image, uint8 (px, px, 3)."""
    return np.random.default_rng(number).integers(0, 256, (px, px, 3), np.uint8)


def png(number: int, **options: int) -> bytes:
    """An image as a PNG."""
    held = io.BytesIO()
    Image.fromarray(pixels(number, **options)).save(held, "PNG")
    return held.getvalue()


def samples(numbers: range, *, n_classes: int = 3) -> Members:
    """Members of images with a number as their label, and a text that nothing reads."""
    found: Members = []
    for number in numbers:
        key = f"some/{number:05d}"
        found += [(f"{key}.cls", str(number % n_classes).encode()), (f"{key}.png", png(number)), (f"{key}.txt", b"?")]
    return found


def tar(members: Members) -> bytes:
    """A tar file."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as file:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return held.getvalue()


def put(path: Path, content: bytes) -> Path:
    """Writes a file that has not been changed for a while."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    then = path.stat().st_mtime - BEFORE_S
    os.utime(path, (then, then))
    return path
