"""Calibrated learning curves of encoders on a task: the runs they need, done or found, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...content import cache_folder
from ...datasets.imagefiles import notes_on
from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..intervals import N_DRAWS, Interval
from .assembling import assembled, require_scale
from .candidates import Candidate
from .curve import CalibratedCurve
from .data import TransferData, images_of, labels_of
from .jobs import Workload, all_jobs
from .models import transfer_model
from .nested import Regime
from .performing import Setup, Train
from .progress import CurveProgress
from .recipe import Recipe, protocol_of
from .regimes import resolved_regimes
from .running import Runner
from .runs import CONTROLS, Control, CurveRun
from .searching import searched_regimes
from .tuning import Training, train_run

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRequest:
    """What is to be measured.

    Attributes
    ----------
    regimes : tuple of int or "all", or None
        Numbers of labelled images; None to look for them, which costs some more runs of the scratch control.
    seeds : tuple of int
        Of subsets, random weights and the order of the images.
    recipe : Recipe
    maximal : float or None
        Risk of maximal supervision by the first metric of the task, if it was recorded elsewhere; there are curves of
        that metric alone, then.
    count : int
        Regimes, if they are looked for.
    n_draws, seed : int
        Of the bootstrap.
    """

    regimes: tuple[Regime, ...] | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    recipe: Recipe = field(default_factory=Recipe)
    maximal: float | None = None
    count: int = 5
    n_draws: int = N_DRAWS
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = [seed for seed in self.seeds if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0]
        if wrong or not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise QueryError(f"The seeds are {self.seeds!r}; expected different whole numbers from 0 on, at least one.")
        if self.maximal is not None and not 0 <= self.maximal < float("inf"):
            raise QueryError(
                f"The recorded risk of maximal supervision is {self.maximal!r}; expected a finite number from 0 on."
            )
        if self.regimes is None and self.count < 2:
            raise QueryError(f"{self.count!r} regimes were to be looked for; expected at least two, for a curve.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveReport:
    """Everything that was measured.

    Attributes
    ----------
    data : TransferData
    request : CurveRequest
    candidates : tuple of Candidate
    regimes : tuple of int
        Labelled images, ascending.
    curves : tuple of CalibratedCurve
        One a candidate and metric: all metrics of the first candidate, then of the next.
    runs : mapping from (candidate, control) to tuple of CurveRun
        By number of images, then seed. Controls that several candidates share are there for each of them, and scratch
        with all images also as maximal supervision.
    intervals : mapping from (candidate, control, metric) to tuple of Interval
        Of the same runs, each with its 95 % interval over test images.
    protocols : mapping from a control, or "encoder", to str
        Names of how the runs were done.
    notes : tuple of str
        What the search for regimes did not reach, and how images are read.
    """

    data: TransferData
    request: CurveRequest
    candidates: tuple[Candidate, ...]
    regimes: tuple[int, ...]
    curves: tuple[CalibratedCurve, ...]
    runs: Mapping[tuple[str, Control], tuple[CurveRun, ...]]
    intervals: Mapping[tuple[str, Control, str], tuple[Interval, ...]]
    protocols: Mapping[Control, str]
    notes: tuple[str, ...] = ()


def learning_curves(
    candidates: Sequence[Candidate],
    data: TransferData,
    request: CurveRequest,
    *,
    folder: Path | None = None,
    how: Training | None = None,
    n_processes: int = 1,
    progress: CurveProgress | None = None,
    train: Train = train_run,
) -> CurveReport:
    """Measures what encoders are worth on a task.

    Parameters
    ----------
    candidates : sequence of Candidate
    data : TransferData
    request : CurveRequest
    folder : Path, optional
        Where each finished run is kept and found again; ``curves`` of the zoo's cache by default. It may be shared by
        whatever is measured, and by several commands at once.
    how : Training, optional
        What moves no number.
    n_processes : int
        That train at the same time.
    progress : CurveProgress, optional
        Told how far it is.
    train : callable
        Trains and tests one network; for a recipe of one's own, which then needs a folder of its own.

    Returns
    -------
    CurveReport

    Raises
    ------
    QueryError
        If there is no candidate, two have one name, a regime is larger than the data or comes twice, or the task asks
        an encoder for what it does not have, as for spatial features.
    DataError
        If a regime is so small that a class is missing, a class of the test images is nowhere in the training images,
        or maximal supervision is no better than the blind guess. What was finished is kept.
    ZooError
        Of a run that failed, once the others are done; says how many are finished.
    """
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) != len(names):
        raise QueryError(f"Learning curves were asked for of {names}; expected at least one encoder, each named once.")
    _check_classes(data)
    metrics = data.task.metrics if request.maximal is None else data.task.metrics[:1]
    work = Workload(data=data, recipe=request.recipe, has_maximal=request.maximal is None)
    notes: tuple[str, ...] = ()
    if request.regimes is not None:
        regimes = resolved_regimes(request.regimes, work.n_all, name=data.name)
        all_jobs(work, candidates, regimes, request.seeds)  # refuses at once what cannot be
    for one in {candidate.control_hash: candidate for candidate in candidates}.values():
        _require_decodable(one, data, request.recipe)
    home = cache_folder() / "curves" if folder is None else folder
    setup = Setup(data=data, recipe=request.recipe, folder=home, how=how or Training(), train=train)

    def watch(runs: Mapping[str, CurveRun]) -> None:
        require_scale(work, candidates, runs, metrics=metrics, seeds=request.seeds, recorded=request.maximal)

    with Runner(setup, n_processes=n_processes, progress=progress) as runner:
        if request.regimes is None:
            regimes, notes = searched_regimes(
                runner, work, candidates, seeds=request.seeds, recorded=request.maximal, count=request.count,
                watch=watch,
            )  # fmt: skip
        runner.do(all_jobs(work, candidates, regimes, request.seeds), watch=watch)
        found = assembled(
            work, candidates, runner.runs, regimes=regimes, metrics=metrics, seeds=request.seeds,
            recorded=request.maximal, n_draws=request.n_draws, bootstrap_seed=request.seed,
        )  # fmt: skip
    controls: tuple[Control, ...] = ("encoder", *CONTROLS)
    return CurveReport(
        data=data,
        request=request,
        candidates=tuple(candidates),
        regimes=regimes,
        curves=found.curves,
        runs=found.runs,
        intervals=found.intervals,
        protocols={name: protocol_of(data.task, request.recipe, control=name) for name in controls},
        notes=(*notes, *notes_on([images_of(data.train), images_of(data.test)])),
    )


def _require_decodable(candidate: Candidate, data: TransferData, recipe: Recipe) -> None:
    """Refuses at once, and by name, what would else end the report when the other encoders are done."""
    px = candidate.preprocess.crop_px
    try:
        transfer_model(
            candidate.untrained(0), data.task, n_outputs=data.n_outputs, px=px, frozen=recipe.frozen, seed=0
        )  # fmt: skip
    except QueryError as error:
        raise QueryError(f"{candidate.name}: {error}") from error


def _check_classes(data: TransferData) -> None:
    train, test = labels_of(data.train), labels_of(data.test)
    if train is None or test is None:
        return
    unknown = np.setdiff1d(np.asarray(test), np.asarray(train))
    if unknown.size:
        n, name = int((np.asarray(test) == unknown[0]).sum()), images_of(data.test).classes[int(unknown[0])]
        raise DataError(
            f"{n:,} test images of {data.name!r} have the class {name!r}, which no training image has; expected every "
            "class in both."
        )
