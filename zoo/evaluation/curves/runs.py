"""What one trained network, or one control, got wrong on the test images."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from ...errors import DataError, StoreError
from ...files import locked, replaced
from ...optional import requires_extra
from .losses import TransferData
from .models import Candidate
from .recipe import Recipe, recipe_digest
from .regimes import RegimeSubset, regime_subset

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

Control = Literal["encoder", "scratch", "maximal", "blind"]
CONTROLS: tuple[Control, ...] = ("blind", "maximal", "scratch")
N_EXAMPLES = 8  # first test images, whose predictions are kept to look at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveRun:
    """One run; what names it is in its job.

    Attributes
    ----------
    control : str
        "encoder", or which control.
    n_requested, n_actual : int
        Labelled images that were asked for and that were used, validation part included.
    seed : int or None
        Of subset, validation part, order of the images and random weights; None of the blind guess.
    risks : mapping from a metric to float32 array, shape (n_test,)
        Of each test image, in the unit of the metric; lower is better. An error in percent is 0 or 100.
    examples : float16 array, shape (n_examples, n_outputs, px, px), or None
        Predictions for the first test images, of dense tasks.
    report : mapping
        What JSON holds: learning rate that was chosen, steps, validation history, hash of the subset, seconds.
    """

    control: Control
    n_requested: int
    n_actual: int
    seed: int | None
    risks: Mapping[str, np.ndarray]
    examples: np.ndarray | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    def risk(self, metric: str) -> float:
        """Mean over the test images, in the unit of the metric."""
        return float(np.mean(self.risks[metric], dtype=np.float64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """One run, done or not.

    Attributes
    ----------
    control : str
        "encoder", or which control.
    candidate : Candidate
        Of a control, the first of those that share it.
    n : int
        Labelled images.
    seed : int or None
        None of the blind guess.
    n_steps : int
        Of the optimizer, at most; 0 where nothing is trained.
    key : str
        Hash of everything that decides the result.
    """

    control: Control
    candidate: Candidate
    n: int
    seed: int | None
    n_steps: int
    key: str

    @property
    def label(self) -> str:
        """In words."""
        if self.control == "blind":
            return "blind guess"
        who = {"encoder": self.candidate.name, "scratch": "scratch", "maximal": "maximal supervision"}[self.control]
        return f"{who}, {self.n:,} images, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
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
        """The images of a regime.

        Raises
        ------
        QueryError, DataError
            As :func:`~zoo.evaluation.curves.regimes.regime_subset`.
        """
        if (n, seed) not in self._subsets:
            share = self.recipe.validation_share
            self._subsets[n, seed] = regime_subset(self.data.train, n, seed=seed, validation_share=share)
        return self._subsets[n, seed]

    def blind(self, candidate: Candidate) -> Job:
        """The constant guess; of maps it depends on how images are cropped."""
        about = asdict(candidate.preprocess) if self.data.task.is_dense else None
        key = self._hash("blind", about)
        return Job(control="blind", candidate=candidate, n=self.n_all, seed=None, n_steps=0, key=key)

    def scratch(self, candidate: Candidate, n: int, seed: int) -> Job:
        """The network from random weights; with all images it is maximal supervision."""
        control: Control = "maximal" if n == self.n_all and self.has_maximal else "scratch"
        return self._trained(control, candidate, n, seed, self.recipe.of_controls, candidate.architecture_hash)

    def encoder(self, candidate: Candidate, n: int, seed: int) -> Job:
        """The candidate itself."""
        about = [candidate.architecture_hash, candidate.weights_hash]
        return self._trained("encoder", candidate, n, seed, self.recipe, about)

    def _trained(
        self, control: Control, candidate: Candidate, n: int, seed: int, recipe: Recipe, network: object
    ) -> Job:
        subset = self.subset(n, seed)
        kind = "encoder" if control == "encoder" else "scratch"
        key = self._hash(kind, asdict(recipe), asdict(candidate.preprocess), network, subset.fingerprint, seed)
        n_steps = recipe.n_steps(len(subset.train))
        return Job(control=control, candidate=candidate, n=n, seed=seed, n_steps=n_steps, key=key)

    def _hash(self, *about: object) -> str:
        data = [self.data.train.fingerprint, self.data.test.fingerprint, self.data.n_outputs]
        text = json.dumps([_FORMAT, self.data.task.name, recipe_digest(self.data.task), data, *about], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()


def ends_of_scale(work: Workload, candidates: Sequence[Candidate], seeds: Sequence[int]) -> tuple[Job, ...]:
    """The blind guess and maximal supervision, which every other risk is seen against."""
    jobs = [work.blind(candidate) for candidate in candidates]
    if work.has_maximal:
        jobs += [work.scratch(candidate, work.n_all, seed) for seed in seeds for candidate in candidates]
    return distinct(jobs)


def all_jobs(
    work: Workload, candidates: Sequence[Candidate], regimes: Sequence[int], seeds: Sequence[int]
) -> tuple[Job, ...]:
    """Every run, each once, in an order that soon gives something to look at.

    First the ends of the scale, then the regimes from small to large, and in each of them all candidates with one seed
    after the other.
    """
    jobs = list(ends_of_scale(work, candidates, seeds))
    for n in sorted(regimes):
        for seed in seeds:
            jobs += [work.scratch(candidate, n, seed) for candidate in candidates]
            jobs += [work.encoder(candidate, n, seed) for candidate in candidates]
    return distinct(jobs)


def distinct(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Each run once, at its first place."""
    found: dict[str, Job] = {}
    for job in jobs:
        found.setdefault(job.key, job)
    return tuple(found.values())


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
                stack.enter_context(locked(path, patience_s=0))
            except StoreError:  # another process is at it
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
