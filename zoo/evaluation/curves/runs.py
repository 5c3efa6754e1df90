"""The runs of learning curves: which ones a report needs, their cache in a folder, and doing them here or in processes.

Candidates of one architecture that see their images alike share the scratch control; scratch with all labels is maximal
supervision; and the constant baseline depends on no network. The key of a run is a hash of everything that decides its
result: the protocol, the images and their division, the preprocessing, the weights or the architecture, the seed. A
finished run is one file of that name, so that no run is done twice, and another recipe, other weights or other images
find no file.

A run that fails does not stop the others; what went wrong is raised at the end. When the command ends or is killed, its
processes end too; finished runs stay.
"""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

from ...encoders import Encoder
from ...errors import DataError, QueryError, StoreError, ZooError
from ...execution.executor import (
    DIED,
    Executor,
    Failure,
    Resources,
    WorkResult,
    count_cores,
    select_share,
)
from ...execution.journal import Journal
from ...execution.processes import Processes, send_message
from ...execution.work_queue import WorkQueue
from ...files import replace_file
from ...optional import require_extra
from .data import RegimeSubset, TransferData, release_inputs, select_regime_subset
from .models import Candidate
from .recipe import Recipe, hash_recipe
from .training import OnStep, Training, TrainingStep, TransferResult, TransferSetup, run_constant_baseline, train_run

with require_extra("evaluate", needed_for="A learning curve"):
    import numpy as np
    import torch

Control = Literal["encoder", "scratch", "maximal", "blind"]
CONTROLS: tuple[Control, ...] = ("blind", "maximal", "scratch")
Train: TypeAlias = Callable[[Encoder, TransferSetup, Training, OnStep | None], TransferResult]
"""Trains one network and tests it, as :func:`zoo.evaluation.curves.training.train_run` does."""

_FORMAT = "zoo-curve-run-1"
_RISK = "risk "  # before the name of a metric
_FATAL = ("StoreError", "MissingExtra")  # kinds of errors that the other runs would meet too
_BLIND_BYTES = 1 << 30  # of maps for the constant baseline; fixed, for where there are more it moves the number
_TOLD_S = 0.2  # between two steps that are told


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveRun:
    """A :class:`~zoo.evaluation.curves.training.TransferResult` network, or a control, of a regime."""

    control: Control
    n_requested: int  # labelled images, the validation part included
    n_actual: int
    seed: (
        int | None
    )  # of subset, validation part, order of the images and random weights; None of the constant baseline
    risks: Mapping[str, np.ndarray]
    examples: np.ndarray | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    def risk(self, metric: str) -> float:
        """Mean over the test images, in the unit of the metric."""
        return float(np.mean(self.risks[metric], dtype=np.float64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveJob:
    """One run, done or not; made by a :class:`CurveWorkload`."""

    control: Control
    candidate: Candidate  # of a control, the first of those that share it
    n: int  # labelled images
    seed: int | None  # None of the constant baseline
    n_steps: int  # of the optimizer, at most; 0 where nothing is trained
    key: str  # hash of everything that decides the result

    @property
    def label(self) -> str:
        """In words."""
        who = {"encoder": self.candidate.name, "maximal": "maximal supervision", "blind": "constant baseline"}
        return who.get(self.control, "scratch") + f", {self.n:,} images, seed {self.seed}" * (self.seed is not None)

    @property
    def entry(self) -> dict[str, Any]:
        """As a journal has it."""
        return {"encoders": [self.candidate.name], "part": self.label, "number": None}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveWorkload:
    """What all runs of a report have in common; makes their jobs."""

    data: TransferData
    recipe: Recipe
    has_maximal: bool = True  # it is measured; False: its risk was recorded
    _subsets: dict[tuple[int, int], RegimeSubset] = field(default_factory=dict)

    @property
    def n_all(self) -> int:
        """Training images."""
        return len(self.data.train)

    def subset(self, n: int, seed: int) -> RegimeSubset:
        """The images of a regime, drawn once."""
        if (n, seed) not in self._subsets:
            share = self.recipe.validation_share
            self._subsets[n, seed] = select_regime_subset(self.data.train, n, seed=seed, validation_share=share)
        return self._subsets[n, seed]

    def blind(self, candidate: Candidate) -> CurveJob:
        """The constant guess; of maps it depends on how images are cropped."""
        about = candidate.preprocess.hashed if self.data.task.is_dense else None
        key = self._hash("blind", about)
        return CurveJob(control="blind", candidate=candidate, n=self.n_all, seed=None, n_steps=0, key=key)

    def scratch(self, candidate: Candidate, n: int, seed: int) -> CurveJob:
        """The network from random weights; with all images it is maximal supervision."""
        control: Control = "maximal" if n == self.n_all and self.has_maximal else "scratch"
        return self._trained(control, candidate, n, seed, self.recipe.of_controls, candidate.architecture_hash)

    def encoder(self, candidate: Candidate, n: int, seed: int) -> CurveJob:
        """The candidate itself."""
        about = [candidate.architecture_hash, candidate.weights_hash]
        return self._trained("encoder", candidate, n, seed, self.recipe, about)

    def _trained(
        self, control: Control, candidate: Candidate, n: int, seed: int, recipe: Recipe, network: object
    ) -> CurveJob:
        subset = self.subset(n, seed)
        kind = "encoder" if control == "encoder" else "scratch"
        key = self._hash(kind, asdict(recipe), candidate.preprocess.hashed, network, subset.fingerprint, seed)
        n_steps = recipe.n_steps(len(subset.train))
        return CurveJob(control=control, candidate=candidate, n=n, seed=seed, n_steps=n_steps, key=key)

    def _hash(self, *about: object) -> str:
        data = [self.data.train.fingerprint, self.data.test.fingerprint, self.data.n_outputs]
        text = json.dumps([_FORMAT, self.data.task.name, hash_recipe(self.data.task), data, *about], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()


def make_scale_jobs(work: CurveWorkload, candidates: Sequence[Candidate], seeds: Sequence[int]) -> tuple[CurveJob, ...]:
    """The constant baseline and maximal supervision, by which every other risk is calibrated."""
    jobs = [work.blind(candidate) for candidate in candidates]
    if work.has_maximal:
        jobs += [work.scratch(candidate, work.n_all, seed) for seed in seeds for candidate in candidates]
    return select_distinct_jobs(jobs)


def make_all_jobs(
    work: CurveWorkload, candidates: Sequence[Candidate], regimes: Sequence[int], seeds: Sequence[int]
) -> tuple[CurveJob, ...]:
    """Every run, each once: the ends of the scale, then the regimes from small to large."""
    jobs = list(make_scale_jobs(work, candidates, seeds))
    for n in sorted(regimes):
        for seed in seeds:
            jobs += [work.scratch(candidate, n, seed) for candidate in candidates]
            jobs += [work.encoder(candidate, n, seed) for candidate in candidates]
    return select_distinct_jobs(jobs)


def select_distinct_jobs(jobs: Iterable[CurveJob]) -> tuple[CurveJob, ...]:
    """Each run once, at its first place."""
    first: dict[str, CurveJob] = {}
    for job in jobs:
        first.setdefault(job.key, job)
    return tuple(first.values())


def find_run(folder: Path, job: CurveJob, *, n_test: int) -> CurveRun | None:
    """The finished run of a job, or None; a file that is not whole counts as none, for the run can be repeated."""
    try:
        with np.load(folder / f"{job.key}.npz", allow_pickle=False) as arrays:
            about = json.loads(bytes(arrays["about"]))
            risks = {name.removeprefix(_RISK): arrays[name] for name in arrays.files if name.startswith(_RISK)}
            examples = arrays["examples"] if "examples" in arrays.files else None
        is_whole = about["format"] == _FORMAT and about["key"] == job.key and bool(risks)
        if not is_whole or any(each.shape != (n_test,) for each in risks.values()):
            return None
        n_actual, report = int(about["n_actual"]), dict(about["report"])
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile, zlib.error):
        return None
    return CurveRun(
        control=job.control,
        n_requested=job.n,
        n_actual=n_actual,
        seed=job.seed,
        risks=risks,
        examples=examples,
        report=report,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveSetup:
    """What all runs of a report are done with; goes to other processes."""

    data: TransferData
    recipe: Recipe
    folder: Path
    how: Training
    train: Train = train_run


def perform(setup: CurveSetup, job: CurveJob) -> bool | Failure:
    """Does a job, whose run is a file of the folder afterwards: what a worker does."""
    last_s = 0.0

    def on_step(step: TrainingStep) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _TOLD_S:
            last_s = time.monotonic()
            send_message((job.key, step))

    try:
        trained = _trained(setup, job, on_step)
    except ZooError as error:
        return Failure.of(error)
    path = setup.folder / f"{job.key}.npz"
    about = {"format": _FORMAT, "key": job.key, "n_actual": job.n, "report": trained.report}
    arrays = {_RISK + metric: risks for metric, risks in trained.risks.items()}
    arrays |= {} if trained.examples is None else {"examples": trained.examples}
    try:
        with replace_file(path) as file:
            np.savez(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    except OSError as error:
        text = f"The run {job.label!r} could not be written to {path} ({error.strerror}); make room or name another "
        return Failure.of(StoreError(f"{text}folder."))
    return True


def _trained(setup: CurveSetup, job: CurveJob, on_step: OnStep) -> TransferResult:
    began_s, data, preprocess = time.monotonic(), setup.data, job.candidate.preprocess
    about: dict[str, Any] = {"subset_hash": None, "n_train": len(data.train), "n_validation": 0}
    if job.seed is None:
        trained = run_constant_baseline(data, preprocess, memory_bytes=_BLIND_BYTES, n_workers=setup.how.n_workers)
    else:
        subset = CurveWorkload(data=data, recipe=setup.recipe).subset(job.n, job.seed)
        is_encoder = job.control == "encoder"
        transfer = TransferSetup(
            data=data,
            train=subset.train,
            validation=subset.validation,
            preprocess=preprocess,
            recipe=setup.recipe if is_encoder else setup.recipe.of_controls,
            seed=job.seed,
        )
        encoder = job.candidate.pretrained() if is_encoder else job.candidate.untrained(job.seed)
        trained = setup.train(encoder, transfer, setup.how, on_step)
        about = {
            "subset_hash": subset.fingerprint,
            "n_train": len(subset.train),
            "n_validation": len(subset.validation),
        }
    risks = {metric: np.asarray(each, np.float32) for metric, each in trained.risks.items()}
    for metric in data.task.metrics:
        if metric not in risks or risks[metric].shape != (len(data.test),) or not np.isfinite(risks[metric]).all():
            raise DataError(
                f"The run {job.label!r} gave no finite {metric} for each of {len(data.test):,} test images; lower the "
                "learning rates if the training diverged."
            )
    report = {"seconds": time.monotonic() - began_s, **trained.report, **about}
    return TransferResult(risks=risks, examples=trained.examples, report=report)


class CurveProgress:
    """Called as runs go on; this one shows nothing."""

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Runs begin, ``n_done`` of which were done before; the others take ``n_steps`` steps in all, at most.

        Called again when it is known what else is to be done.
        """

    def began(self, job: CurveJob) -> None:
        """A run begins."""

    def step(self, job: CurveJob, step: TrainingStep) -> None:
        """A run has done a step."""

    def ended(self, job: CurveJob, run: CurveRun | None) -> None:
        """A run is done and in the cache; None if it failed."""

    def end(self) -> None:
        """No more will come, whether all are done or not."""


class CurveRunner:
    """Does jobs on workers; used as a context, at whose end processes that it started are gone.

    ``runs`` has the runs that are done, by the key of their job. ``watch`` is called with them before the first job and
    after each that ends; what it raises ends the rest. ``executor`` does the jobs, on machines that reach the folder;
    without it they are done here or in ``n_processes``. Of a part of the work it does the jobs of that part, and
    :class:`UnfinishedParts` is raised if others are left. ``journal`` notes what becomes of each.
    """

    def __init__(
        self,
        setup: CurveSetup,
        *,
        n_processes: int = 1,
        executor: Executor | None = None,
        resources: Resources | None = None,
        progress: CurveProgress | None = None,
        watch: Callable[[Mapping[str, CurveRun]], None] = lambda runs: None,
        journal: Journal | None = None,
    ) -> None:
        if isinstance(n_processes, bool) or n_processes < 1:
            raise QueryError(f"Asked for {n_processes} processes; expected at least 1.")
        self.runs: dict[str, CurveRun] = {}
        self._is_ours = executor is None
        self._executor: Executor = Processes(n_processes if n_processes > 1 else 0) if executor is None else executor
        workers, n_workers = self._executor, self._executor.n_workers
        if resources is None:
            resources = Resources(
                n_cpus=max(1, count_cores() // n_workers) if n_workers > 1 else torch.get_num_threads()
            )
        self._resources = resources
        if isinstance(workers, Processes):
            workers.listen = self._listen
            setup = replace(setup, how=replace(setup.how, memory_bytes=setup.how.memory_bytes // n_workers))
        self._setup = setup
        self._progress = CurveProgress() if progress is None else progress
        self._watch, self._journal = watch, journal
        self._open: dict[str, CurveJob] = {}  # handed out, by their keys
        self._failures: list[tuple[CurveJob, Failure]] = []

    def __enter__(self) -> CurveRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_ours:
            self._executor.close()
        self._progress.end()
        release_inputs()  # of runs in this process: gigabytes that are the user's again

    def do(self, jobs: Iterable[CurveJob]) -> None:
        """Does the jobs that are not done; the results are in ``runs``.

        The error of the first run that failed is raised once the others are done, and says how many are finished.
        """
        wanted, runs, self._failures = select_distinct_jobs(jobs), self.runs, []
        share = select_share(self._executor, wanted)  # which does not depend on which are done
        runs |= {job.key: run for job in wanted if job.key not in runs and (run := self._find(job)) is not None}
        own = [job for job in share if job.key not in runs]
        self._progress.start(len(wanted), len(wanted) - len(own), n_steps=sum(job.n_steps for job in own))
        self._watch(runs)
        queue = WorkQueue(own, self._journal, hand_out=self._begin)
        queue.run(partial(perform, self._setup), partial(self._take, queue), self._executor, self._resources)
        n_done = sum(job.key in runs for job in wanted)
        if self._failures:
            raise self._error(n_done, len(wanted))
        if n_done < len(wanted):
            part = self._executor.part or (1, 1)
            raise UnfinishedParts(part=part, n_jobs=len(wanted), n_done=n_done, at=self._setup.folder)

    def _find(self, job: CurveJob) -> CurveRun | None:
        return find_run(self._setup.folder, job, n_test=len(self._setup.data.test))

    def _begin(self, job: CurveJob) -> CurveJob:
        self._open[job.key] = job
        self._progress.began(job)
        return job

    def _take(self, queue: WorkQueue[CurveJob], outcome: WorkResult[CurveJob, bool | Failure]) -> None:
        """Takes the run that a worker has finished; without the constant baseline, or a folder, there are no others."""
        job, value = self._open.pop(outcome.work.key), outcome.value
        if isinstance(value, Failure):  # which another try would meet too
            outcome = replace(outcome, value=None, failures=(*outcome.failures, value))
        if self._journal is not None:
            self._journal.outcome(outcome, job.entry)
        if outcome.failed:
            failure = outcome.failures[-1]
            self._failures.append((job, failure))
            self._progress.ended(job, None)
            if failure.kind in _FATAL or job.control == "blind":
                queue.clear()
            return
        run = self._find(job)
        if run is None:
            raise StoreError(
                f"The run {job.label!r} was finished by {outcome.worker} and is not in {self._setup.folder} here; name "
                "a folder of runs that all machines reach."
            )
        self.runs[job.key] = run
        self._progress.ended(job, run)
        self._watch(self.runs)

    def _error(self, n_done: int, n_all: int) -> ZooError:
        """The error of the first run that failed, with how many are finished."""
        job, first = self._failures[0]
        rest = f", and {len(self._failures) - 1} more failed" if len(self._failures) > 1 else ""
        hint = "; go on with fewer processes if memory is short" if first.kind == DIED else ""
        text = (
            f"{first.text.removesuffix('.')}{hint} (in the run {job.label!r}{rest}; {n_done} of {n_all} runs are "
            f"finished and kept in {self._setup.folder})."
        )
        return replace(first, text=text).error()

    def _listen(self, told: tuple[str, TrainingStep]) -> None:
        key, step = told
        if key in self._open:
            self._progress.step(self._open[key], step)


class UnfinishedParts(ZooError):
    """The runs of part k of n of the work are done, ``n_done`` of all ``n_jobs``, and those of other parts are not."""

    def __init__(self, *, part: tuple[int, int], n_jobs: int, n_done: int, at: Path) -> None:
        self.part, self.n_jobs, self.n_done, self.at = part, n_jobs, n_done, at
        super().__init__(
            f"Part {part[0]}/{part[1]} is done; {n_done} of {n_jobs} runs are finished and kept in {at}, and the "
            "report can be had when the other parts are done, too."
        )
