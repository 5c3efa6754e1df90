"""Earlier exports: which may be replaced, for nobody has touched them, and which come back after a crash."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from ..errors import QueryError, StoreError
from ..metadata import EncoderCard

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
FORMAT = "zoo-export-1"
ASIDE = ".earlier"  # end of the name of an export that has stepped aside for the next one
_CHECKSUM = "config_sha256"


def config_bytes(facts: dict[str, Any]) -> bytes:
    """``config.json``: the facts, and at their end the SHA-256 of the same file without that line."""
    checksum = hashlib.sha256(_json(facts)).hexdigest()
    return _json(facts | {_CHECKSUM: checksum})


def difference(folder: Path, names: set[str], card: EncoderCard) -> str | None:
    """How a folder of these files differs from what an export of this encoder left there; None if it does not.

    Every file is read, the weights last and only if their size is right.
    """
    if missing := sorted({WEIGHTS, CONFIG, CARD} - names):
        return f"{missing[0]} is missing"
    try:
        content = (folder / CONFIG).read_bytes()
        config = json.loads(content)
        checksum = hashlib.sha256((folder / CARD).read_bytes()).hexdigest()
    except (OSError, ValueError, RecursionError):
        return f"{CONFIG} or {CARD} cannot be read"
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        return f"{CONFIG} is of another kind"
    if config.get("encoder") != card.id:
        return f"it is one of {config.get('encoder')!r}"
    if _CHECKSUM not in config:
        return f"{CONFIG} has no checksum of its own"
    if not _is_untouched(content, config):
        return f"{CONFIG} was changed since"
    if config.get("model_card_sha256") != checksum:
        return f"{CARD} was changed since"
    return _difference_of_weights(folder / WEIGHTS, config.get("weights"))


def restore_interrupted(target: Path) -> None:
    """Gives an earlier export its name back if a crash has left it aside, with nothing under its name.

    Raises
    ------
    QueryError
        If several were left aside.
    StoreError
        If the folder around them cannot be listed or changed.
    """
    if os.path.lexists(target):
        return
    aside = re.compile(re.escape(f".{target.name}-") + r"[0-9a-f]{8}\.tmp" + re.escape(ASIDE))
    try:
        left = sorted(name for name in os.listdir(target.parent) if aside.fullmatch(name))
        if len(left) == 1:
            os.rename(target.parent / left[0], target)
    except (FileNotFoundError, NotADirectoryError):  # nothing to restore, or another process has just done it
        return
    except OSError as error:
        raise StoreError(
            f"Cannot look in {target.parent} for what an interrupted export to {target.name} has left there "
            f"({error.strerror or error}); make that folder readable and writable."
        ) from error
    if len(left) > 1:
        raise QueryError(
            f"{target} is absent and {len(left)} earlier exports lie beside it, left by interrupted ones "
            f"({', '.join(left)}), expected one at most; rename the right one to {target.name} or remove them."
        )


def _is_untouched(content: bytes, config: dict[str, Any]) -> bool:
    facts = {key: value for key, value in config.items() if key != _CHECKSUM}
    try:
        return config_bytes(facts) == content  # so that spaces, order and repeated names count too
    except (ValueError, RecursionError):  # a text that is none, or too deep
        return False


def _difference_of_weights(path: Path, facts: Any) -> str | None:
    size = facts.get("size_bytes") if isinstance(facts, dict) else None
    try:
        if path.stat().st_size == size:
            with open(path, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == facts.get("sha256"):
                    return None
    except OSError:
        return f"{WEIGHTS} cannot be read"
    return f"{WEIGHTS} was changed since"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
