"""Probes that were measured already, kept in a folder so that a run that ended early goes on where it was.

One file a probe, named by a hash of everything that decides its result: protocol, origins of the features, rows, seed.
So a changed protocol, other weights or other images find nothing, and nothing kept is ever wrong for what is asked.
"""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic import replaced
from ..errors import DataError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from ..features import Features
    from .runs import ProbeRun

_FORMAT = "zoo-probe-run-1"


class KeptRuns:
    """Measured probes of one protocol in a folder.

    Parameters
    ----------
    folder : path
        Made with the first run.
    protocol : str
        Name of how probes are tuned and trained.
    """

    def __init__(self, folder: str | Path, *, protocol: str) -> None:
        self.folder = Path(folder)
        self.protocol = protocol
        self.problems: list[str] = []  # why runs could not be kept

    def key(self, train: Features, evaluation: Features, **what: Any) -> str:
        """Name of a run: the same for everything that gives the same result."""
        origins = [
            asdict(features.origin) | {"code_version": features.origin.code_version.rpartition(",")[2]}  # not the zoo's
            for features in (train, evaluation)
        ]
        text = json.dumps([_FORMAT, self.protocol, origins, what], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def find(self, key: str) -> ProbeRun | None:
        """A run that was kept, or None; a file that is not whole counts as none, for the run can be repeated."""
        from .runs import ProbeRun

        try:
            text = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"The kept run {self._path(key)} cannot be read ({error}); make it readable.") from error
        try:
            found = json.loads(text)
            if found.pop("format") != _FORMAT:
                return None
            found["correct"] = _unpacked(found["correct"])
            if found["evaluated"] is not None:
                found["evaluated"] = np.array(found["evaluated"], dtype=np.int64)
            return ProbeRun(**found)
        except (ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, run: ProbeRun) -> None:
        """Writes a run, whole or not at all.

        Raises
        ------
        DataError
            If it cannot be written.
        """
        fields = {name: getattr(run, name) for name in run.__slots__}
        fields |= {
            "format": _FORMAT,
            "correct": {"n": len(run.correct), "bits": base64.b64encode(np.packbits(run.correct).tobytes()).decode()},
            "evaluated": None if run.evaluated is None else run.evaluated.tolist(),
        }
        path = self._path(key)
        try:
            with replaced(path) as file:
                file.write(json.dumps(fields).encode())
            if self.state_folder(key).is_dir():  # of a fit that has ended
                shutil.rmtree(self.state_folder(key))
        except OSError as error:
            raise DataError(
                f"The measured probe could not be kept in {path} ({error.strerror or error}); what was finished before "
                "stays, make room or name another folder."
            ) from error

    def state_folder(self, key: str) -> Path:
        """Where a long fit may keep how far it is; it is removed with the end of the run."""
        return self.folder / f"{key}.fit"

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _unpacked(packed: dict[str, Any]) -> Any:
    bits = np.frombuffer(base64.b64decode(packed["bits"], validate=True), dtype=np.uint8)
    return np.unpackbits(bits, count=packed["n"]).astype(bool)
