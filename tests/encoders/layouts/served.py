"""Checkpoints served over loopback and loaded the way a user loads them: through a card and ``zoo.load``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zoo
from tests.servers import serving
from zoo.encoders import Encoder


def load_served(
    like: str,
    content: bytes,
    *,
    companions: Sequence[bytes] = (),
    filename: str = "checkpoint.pth",
    architecture: Mapping[str, Any] | None = None,
    dim: int | None = None,
    crop_px: int | None = None,
) -> tuple[Encoder, Any]:
    """What ``zoo.load`` makes of a file, for an encoder like a published one whose card names a server on loopback.

    Parameters
    ----------
    like : str
        Id of the published encoder.
    content : bytes
        Of the file that the card's ``weights.url`` names.
    companions : sequence of bytes
        Of the files that ``weights.companions`` name.
    filename : str
        Last word of the address.
    architecture : mapping, optional
        Facts that differ, for a reduced copy: ``{"backbone": ..., "options": {...}}``.
    dim, crop_px : int, optional
        ``representation.dim`` and ``preprocess.crop_px`` of the reduced copy.

    Returns
    -------
    encoder, preprocess
    """
    folder = os.urandom(8).hex()  # a port may come back, and a lock file remembers what was behind it
    files = {f"{folder}/{filename}": content}
    files |= {f"{folder}/companion-{number}.pth": more for number, more in enumerate(companions)}
    with serving({f"/{name}": body for name, body in files.items()}) as server:
        urls = [f"{server.url}/{name}" for name in files]
        name = f"served_{os.urandom(8).hex()}"
        facts: dict[str, Any] = {
            "like": like,
            "weights": {
                "url": urls[0],
                "mirrors": [],
                "companions": urls[1:],
                "same_file_as": "not applicable",
                "availability": "open",
            },
        }
        if architecture is not None:
            facts["architecture"] = dict(architecture)
        if dim is not None:
            facts["representation"] = {"dim": dim}
        if crop_px is not None:
            facts["preprocess"] = {"crop_px": crop_px, "resize_px": crop_px}
        card = Path(os.environ["ZOO_HOME"], "metadata", f"{name}.toml")
        card.parent.mkdir(parents=True, exist_ok=True)
        card.write_text(f"[encoders.{name}]\n" + "".join(_toml(facts)))
        try:
            return zoo.load(name)  # type: ignore[return-value]
        finally:
            card.unlink()


def _toml(facts: Mapping[str, Any]) -> list[str]:
    """Dotted keys; JSON's texts, numbers and lists are TOML's as well."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            lines += [f"{key}.{_line(inner, item)}" for inner, item in value.items()]
        else:
            lines.append(_line(key, value))
    return lines


def _line(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{key} = {{ {', '.join(f'{name} = {json.dumps(item)}' for name, item in value.items())} }}\n"
    return f"{key} = {json.dumps(value)}\n"
