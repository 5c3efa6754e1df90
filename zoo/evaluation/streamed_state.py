"""The folder in which a long fit keeps what it has done, so that it can go on from there."""

from __future__ import annotations

import io
import json
import pickle
import time
from collections.abc import Callable
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from ..atomic import replaced
from ..errors import StoreError
from ..optional import requires_extra
from .streamed_rows import Labelled
from .streamed_space import Candidate

with requires_extra("evaluate", needed_for="Training probes"):
    import numpy as np
    import torch

Trial: TypeAlias = dict[str, Any]
State: TypeAlias = dict[str, Any]
_SAMPLED = 64  # rows of features that tell one data set from another


class Kept:
    """What is kept of a fit: its identity, the finished trials, and the training that is under way.

    Parameters
    ----------
    folder : path or None
        Made if it does not exist; None keeps nothing.
    identity : dict
        All that the result depends on. A folder with another identity is refused.
    every_s : float
        Seconds between two copies of a training that is under way; 0 for one after every epoch.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], *, every_s: float) -> None:
        self._folder, self._every_s, self._last = folder, every_s, time.monotonic()
        if folder is None:
            return
        identity = json.loads(json.dumps(identity))
        found = self._read_json("fit.json")
        if found is None:
            self._write_json("fit.json", identity)
        elif found != identity:
            differing = sorted(key for key in found.keys() | identity if found.get(key) != identity.get(key))
            raise StoreError(
                f"The folder {folder} keeps the state of another fit (it differs in {', '.join(differing)}); "
                "give this fit a folder of its own, or remove that one."
            )

    def trials(self) -> list[Trial]:
        """Those that are finished."""
        found = self._read_json("trials.json")
        return [] if found is None else list(found)

    def keep_trials(self, trials: list[Trial]) -> None:
        """Instead of those that were kept."""
        self._write_json("trials.json", trials)

    def training(self, name: str) -> dict[str, Any] | None:
        """The state of the training of that name, if one is kept."""
        if self._folder is None or not (self._folder / "training.pt").exists():
            return None
        path = self._folder / "training.pt"
        try:
            found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise StoreError(
                f"The state of a training in {path} is damaged ({error}); remove the file to repeat that training."
            ) from error
        return found["state"] if found["name"] == name else None

    def keep_training(self, name: str, state: Callable[[], dict[str, Any]], *, at_once: bool = False) -> None:
        """Keeps a state, if the last one is old enough or ``at_once``."""
        if self._folder is None or (not at_once and time.monotonic() - self._last < self._every_s):
            return
        content = io.BytesIO()  # torch makes no OSError of a disk that is full
        torch.save({"name": name, "state": state()}, content)
        self._write("training.pt", content.getbuffer())
        self._last = time.monotonic()

    def _read_json(self, name: str) -> Any:
        if self._folder is None:
            return None
        path = self._folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read ({error}); remove the folder to begin the fit again.") from error

    def _write_json(self, name: str, content: Any) -> None:
        self._write(name, json.dumps(content, indent=1).encode())

    def _write(self, name: str, content: bytes | memoryview) -> None:
        if self._folder is None:
            return
        try:
            with replaced(self._folder / name) as file:
                file.write(content)
        except OSError as error:
            raise StoreError(
                f"The state of the fit could not be written to {self._folder} ({error}); what was kept before is "
                "whole, and a fit with that folder goes on from there."
            ) from error


def identity_of(settings: dict[str, Any], data: Labelled, validation: Labelled | None) -> dict[str, Any]:
    """All that a fit depends on; of the features the shape, the labels and rows spread over the whole."""
    described = dict(settings)
    for name, part in (("x", data), ("x_val", validation)):
        if part is None:
            described[name] = None
            continue
        digest = blake2b(digest_size=16)
        digest.update(np.ascontiguousarray(part.y).tobytes())
        for row in sorted({int(row) for row in np.linspace(0, len(part) - 1, _SAMPLED)}):
            digest.update(part.read(slice(row, row + 1)).tobytes())
        described[name] = [len(part), part.dim, digest.hexdigest()]
    return described


def trial_of(
    candidate: Candidate,
    *,
    error: float | None,
    log_loss: float | None,
    train_loss: float | None,
    diverged_at_epoch: int | None,
) -> Trial:
    """A trial as it is kept and reported."""
    return {
        **asdict(candidate),
        "learning_rate": candidate.learning_rate,
        "validation_error_percent": error,
        "validation_log_loss": log_loss,
        "train_loss": train_loss,
        "diverged_at_epoch": diverged_at_epoch,
    }


def candidate_of(trial: Trial) -> Candidate:
    """The settings of a trial."""
    return Candidate(**{name: trial[name] for name in Candidate.__dataclass_fields__})
