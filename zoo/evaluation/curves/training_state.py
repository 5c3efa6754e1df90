"""The folder in which a training keeps how far it is, so that it goes on from there after it was killed."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from ...atomic import replaced
from ...errors import StoreError
from ...optional import requires_extra

with requires_extra("models", needed_for="Training a transfer"):
    import torch

State: TypeAlias = dict[str, Any]
"""Tensors, numbers, texts, lists and dicts: what torch reads without running anything."""

_NAME = "training.pt"
_PATIENCE = 20  # times what a state costs, until the next


class KeptTraining:
    """The last state of one training.

    Parameters
    ----------
    folder : path or None
        Of this training alone; made with the first state. None keeps nothing.
    identity : dict
        Of all that the result depends on, as JSON holds it; a state of something else is not used.
    every_s : float
        Seconds between two states at least; more, up to 20 times as many, where writing one takes over a twentieth of
        them.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], *, every_s: float) -> None:
        self._path = None if folder is None else folder / _NAME
        self._identity = json.dumps(identity, sort_keys=True)
        self._every_s, self._rest_s, self._last_s = every_s, every_s, time.monotonic()

    def find(self) -> State | None:
        """The state to go on from; None if there is none, or it is of another training or not whole.

        Raises
        ------
        StoreError
            If there is one that may not be read.
        """
        if self._path is None:
            return None
        try:
            found = torch.load(self._path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"The state of a training in {self._path} cannot be read ({error.strerror or error}); make it readable "
                "or remove it."
            ) from error
        except (RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError):
            return None  # a damaged file costs a repetition, and nothing else
        known = isinstance(found, dict) and found.get("identity") == self._identity
        return found["state"] if known else None

    def keep(self, state: Callable[[], State]) -> None:
        """Keeps a state, if the last one is old enough.

        Raises
        ------
        StoreError
            If it cannot be written; the last one is then still there.
        """
        began_s = time.monotonic()
        if self._path is None or began_s - self._last_s < self._rest_s:
            return
        content = {"identity": self._identity, "state": state()}
        try:
            with replaced(self._path) as file:
                torch.save(content, file)
        except (OSError, RuntimeError) as error:  # torch makes a RuntimeError of a disk that is full
            reason = error.__context__ if isinstance(error.__context__, OSError) else error
            raise StoreError(
                f"The state of a training could not be written to {self._path.parent} ({reason}); the one before it is "
                "whole, so make room and run the same again to go on from there."
            ) from error
        self._last_s = time.monotonic()
        cost_s = self._last_s - began_s  # gigabytes to a slow disk would else take half of the time
        self._rest_s = max(self._every_s, _PATIENCE * min(cost_s, self._every_s))


def copied(value: Any) -> Any:
    """The same on the CPU, sharing no memory with what training goes on with."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(one) for one in value)
    return value
