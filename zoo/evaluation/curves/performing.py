"""One run of a learning curve: found where it was kept, or trained, tested and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...encoders import Encoder
from ...errors import (
    BuildError,
    DataError,
    MissingExtra,
    QueryError,
    StoreError,
    WeightsRefused,
    WeightsUnavailable,
    ZooError,
)  # fmt: skip
from ...metadata import Preprocess
from ...optional import requires_extra
from .blind_runs import blind_run
from .data import TransferData
from .jobs import Job, Workload
from .kept import KeptCurveRuns
from .recipe import Recipe
from .runs import CurveRun
from .tuning import Step, Trained, Training, train_run

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

_KINDS = (QueryError, DataError, StoreError, BuildError, WeightsUnavailable, WeightsRefused)
_BLIND_BYTES = 1 << 30  # of maps for the blind guess; fixed, for where there are more it moves the number
_HOPELESS = (StoreError, MissingExtra)  # for the other runs too


class Train(Protocol):
    """Trains one network and tests it, as :func:`zoo.evaluation.curves.tuning.train_run` does."""

    def __call__(
        self,
        encoder: Encoder,
        data: TransferData,
        *,
        train: np.ndarray,
        validation: np.ndarray,
        preprocess: Preprocess,
        recipe: Recipe,
        seed: int,
        how: Training,
        state: Path | None = None,
        tell: Callable[[Step], None] | None = None,
    ) -> Trained:
        """Risks of every test image, in the metrics of the task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setup:
    """What all runs of a report are done with; goes to other processes."""

    data: TransferData
    recipe: Recipe
    folder: Path
    how: Training
    train: Train = train_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run could not be done, in a form that passes between processes."""

    kind: type[ZooError]
    text: str
    is_hopeless: bool  # the other runs would meet it too

    @classmethod
    def of(cls, error: ZooError) -> Failure:
        """The failure that an error is."""
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), ZooError)
        return cls(kind=kind, text=str(error), is_hopeless=isinstance(error, _HOPELESS))


def perform(job: Job, setup: Setup, *, tell: Callable[[Step], None] | None = None) -> CurveRun | Failure | None:
    """Does a job, unless it was done before; its run is kept.

    Returns
    -------
    CurveRun, Failure or None
        None if another process is at the same job.
    """
    kept = KeptCurveRuns(setup.folder)
    try:
        with kept.turn(job) as is_ours:
            if not is_ours:
                return None
            found = kept.find(job, n_test=len(setup.data.test))  # another process may just have ended it
            return _done(job, setup, kept, tell) if found is None else found
    except ZooError as error:
        return Failure.of(error)


def _done(job: Job, setup: Setup, kept: KeptCurveRuns, tell: Callable[[Step], None] | None) -> CurveRun:
    begun_s = time.monotonic()
    trained, about = _trained(job, setup, kept.state_folder(job), tell)
    report = {"seconds": time.monotonic() - begun_s, **trained.report, **about}  # a training knows of earlier processes
    run = CurveRun(
        control=job.control,
        n_requested=job.n,
        n_actual=job.n,
        seed=job.seed,
        risks={metric: np.asarray(risks, np.float32) for metric, risks in trained.risks.items()},
        examples=trained.examples,
        report=json.loads(json.dumps(report)),  # as it comes back from where it is kept
    )
    _check(job, run, setup.data)
    kept.keep(job, run)
    return run


def _trained(
    job: Job, setup: Setup, state: Path, tell: Callable[[Step], None] | None
) -> tuple[Trained, dict[str, Any]]:
    """What came out, and which images went in."""
    data, preprocess = setup.data, job.candidate.preprocess
    if job.seed is None:
        everything = np.arange(len(data.train), dtype=np.int64)
        found = blind_run(
            data, preprocess, train=everything, memory_bytes=_BLIND_BYTES, n_workers=setup.how.n_workers
        )  # fmt: skip
        return found, {"subset_hash": None, "n_train": len(everything), "n_validation": 0}
    work = Workload(data=data, recipe=setup.recipe)
    subset = work.subset(job.n, job.seed)
    is_encoder = job.control == "encoder"
    trained = setup.train(
        job.candidate.pretrained() if is_encoder else job.candidate.untrained(job.seed),
        data,
        train=subset.train,
        validation=subset.validation,
        preprocess=preprocess,
        recipe=setup.recipe if is_encoder else setup.recipe.of_controls,
        seed=job.seed,
        how=setup.how,
        state=state,
        tell=tell,
    )
    n_train, n_validation = len(subset.train), len(subset.validation)
    return trained, {"subset_hash": subset.fingerprint, "n_train": n_train, "n_validation": n_validation}


def _check(job: Job, run: CurveRun, data: TransferData) -> None:
    """Refuses risks that are none, before they are kept."""
    if set(run.risks) != set(data.task.metrics):
        raise DataError(
            f"The run {job.label!r} gave the risks {', '.join(sorted(run.risks)) or 'of nothing'}; expected those of "
            f"{data.task.name}: {', '.join(data.task.metrics)}."
        )
    for metric, risks in run.risks.items():
        if risks.shape != (len(data.test),) or not np.isfinite(risks).all():
            raise DataError(
                f"The run {job.label!r} gave {metric} of shape {risks.shape}, {int((~np.isfinite(risks)).sum())} of "
                f"them not finite; expected a finite number for each of {len(data.test):,} test images: lower the "
                "learning rates if the training diverged."
            )
