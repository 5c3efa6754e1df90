"""Predictions of a choice's probes, cached on disk: a probe is trained only where an image has no prediction yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..files import replaced
from ..optional import requires_extra
from .judging import Predict, Probe

with requires_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

_FORMAT = "zoo-choice-probe-1"
_UNKNOWN = -1  # no label is below 0


def cached(probe: Probe, *, n_test: int, facts: Callable[[str], tuple[Path, dict[str, Any]]]) -> Probe:
    """The same probe, whose predictions are cached.

    ``facts`` gives, for the name of a contender, the folder and everything that decides a prediction beside the rows
    and labels of the training images: features, protocol, seed, test images.
    """

    def made(name: str, rows: Rows, x: Any, y: Any) -> Predict:
        folder, decisive = facts(name)
        text = json.dumps([_FORMAT, decisive, _hash(rows), _hash(y)], sort_keys=True)
        path = folder / f"choice-{blake2b(text.encode(), digest_size=16).hexdigest()}.npy"
        trained: list[Predict] = []

        def predict(x_test: Any, rows_test: Rows) -> Rows:
            known = _read(path, n_test)
            missing = known[rows_test] == _UNKNOWN
            if missing.any():
                if not trained:
                    trained.append(probe(name, rows, x, y))
                known[rows_test[missing]] = trained[0](x_test[missing], rows_test[missing])
                _write(path, known)
            return np.asarray(known[rows_test])

        return predict

    return made


def _read(path: Path, n_test: int) -> Rows:
    """Predicted labels of all test images; a damaged file counts as none, for the probe can be trained again."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        found = np.empty(0, np.int64)
    if found.dtype == np.int64 and found.shape == (n_test,):
        return np.asarray(found)
    return np.full(n_test, _UNKNOWN, np.int64)


def _write(path: Path, known: Rows) -> None:
    try:
        with replaced(path) as file:
            np.save(file, known)
    except OSError as error:
        raise DataError(
            f"The predictions of a probe could not be kept in {path} ({error.strerror or error}); make room, or name "
            "another folder."
        ) from error


def _hash(numbers: Rows) -> str:
    return blake2b(np.ascontiguousarray(numbers, dtype="<i8").tobytes(), digest_size=16).hexdigest()
