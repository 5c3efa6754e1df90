"""Runs of learning curves in a folder, one file each, so that none is ever done twice.

A file is named by a hash of everything that decides its result: the protocol, the images and their division, the
preprocessing, the weights or the architecture, the seed. So a changed recipe, other weights or other images find
nothing, and nothing kept is ever wrong for what is asked.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ...atomic import replaced
from ...errors import DataError, ResultsError, StoreError
from ...optional import requires_extra
from ...recording.turns import turn
from .jobs import Job
from .runs import CurveRun

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

_FORMAT = "zoo-curve-run-1"
_RISK = "risk "  # before the name of a metric


class KeptCurveRuns:
    """Finished runs in a folder.

    Parameters
    ----------
    folder : path
        Made with the first run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def find(self, job: Job, *, n_test: int) -> CurveRun | None:
        """The run of a job, or None; a file that is not whole counts as none, for the run can be repeated.

        Raises
        ------
        DataError
            If it is there and may not be read.
        """
        path = self._path(job)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"The kept run {path} cannot be read ({error}); make it readable.") from error
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                about = json.loads(bytes(arrays["about"]))
                risks = {name.removeprefix(_RISK): arrays[name] for name in arrays.files if name.startswith(_RISK)}
                examples = arrays["examples"] if "examples" in arrays.files else None
            whole = about["format"] == _FORMAT and about["key"] == job.key and bool(risks)
            if not whole or any(found.shape != (n_test,) for found in risks.values()):
                return None
            n_actual, report = int(about["n_actual"]), dict(about["report"])
        except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile, zlib.error):
            return None
        return CurveRun(
            control=job.control, n_requested=job.n, n_actual=n_actual, seed=job.seed, risks=risks, examples=examples,
            report=report,
        )  # fmt: skip

    def keep(self, job: Job, run: CurveRun) -> None:
        """Writes a run, whole or not at all, and removes the state of its training.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        about = {"format": _FORMAT, "key": job.key, "n_actual": run.n_actual, "report": dict(run.report)}
        arrays = {_RISK + metric: np.asarray(risks, np.float32) for metric, risks in run.risks.items()}
        if run.examples is not None:
            arrays["examples"] = run.examples
        content = io.BytesIO()
        np.savez(content, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
        try:
            with replaced(self._path(job)) as file:
                file.write(content.getbuffer())
            shutil.rmtree(self.state_folder(job), ignore_errors=True)  # nobody misses what is left of it
        except OSError as error:
            raise StoreError(
                f"The run {job.label!r} could not be kept in {self._path(job)} ({error.strerror or error}); what was "
                "finished before stays, make room or name another folder."
            ) from error

    def state_folder(self, job: Job) -> Path:
        """Where a training may keep how far it is."""
        return self.folder / f"{job.key}.fit"

    @contextmanager
    def turn(self, job: Job) -> Iterator[bool]:
        """True if no other process is at the same job, which then waits for the end of the block.

        Raises
        ------
        StoreError
            If the folder cannot be written to.
        """
        path = self.folder / f"{job.key}.lock"
        with ExitStack() as stack:
            try:
                stack.enter_context(turn(path, patience_s=0))
            except ResultsError:  # somebody is at it
                yield False
                return
            except OSError as error:
                raise StoreError(
                    f"The folder {self.folder} of finished runs cannot be written to ({error.strerror or error}); make "
                    "it writable or name another one."
                ) from error
            yield True
            if self._path(job).exists():  # whoever gets the lock now or later finds the run
                with suppress(OSError):  # Windows removes nothing that is open
                    path.unlink()

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.key}.npz"
