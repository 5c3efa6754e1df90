"""Calibrated learning curves of encoders on a task: the runs they need, done or found, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from ...cards.catalogue import catalogue
from ...datasets.imagefiles import notes_on
from ...encoders.preprocess import build_preprocess
from ...errors import DataError, QueryError
from ...features import code_version
from ...features.store import preprocess_hash
from ...files import cache_folder
from ...optional import requires_extra
from ...results.rows import Measurement
from ...results.vocabulary import METRICS
from ..bootstrap import N_DRAWS, Drawn, Interval, Resampled, constant_draws, resampled
from .calibration import calibrated_risk, no_scale
from .curve import CalibratedCurve, calibrated_curve
from .losses import TransferData, images_of, labels_of
from .models import Candidate, transfer_model
from .progress import CurveProgress
from .recipe import Recipe, protocol_of, recipe_dict, recipe_digest
from .regimes import Ends, Regime, ends, ladder, least_images, resolved_regimes, spread
from .running import Runner, Setup, Train, Watch
from .runs import CONTROLS, Control, CurveRun, Job, Workload, all_jobs, distinct, ends_of_scale
from .tuning import Training, train_run

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

_PERCENT = (0.0, 100.0)

Runs = Mapping[str, CurveRun]
Keys = tuple[str, ...]  # of the runs behind a mean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembled:
    """What runs amount to; as the report has it."""

    curves: tuple[CalibratedCurve, ...]
    runs: dict[tuple[str, Control], tuple[CurveRun, ...]]
    intervals: dict[tuple[str, Control, str], tuple[Interval, ...]]


def mean_risk(runs: Runs, jobs: Sequence[Job], metric: str) -> float:
    """Of runs that differ in their seed."""
    return sum(runs[job.key].risk(metric) for job in jobs) / len(jobs)


def maximal_jobs(work: Workload, candidate: Candidate, seeds: Sequence[int]) -> tuple[Job, ...]:
    """The runs behind maximal supervision; none, if its risk was recorded."""
    return tuple(work.scratch(candidate, work.n_all, seed) for seed in seeds) if work.has_maximal else ()


def require_scale(
    work: Workload,
    candidates: Sequence[Candidate],
    runs: Runs,
    *,
    metrics: Sequence[str],
    seeds: Sequence[int],
    recorded: float | None,
) -> None:
    """Refuses to go on once it is known that maximal supervision is no better than the blind guess.

    Raises
    ------
    DataError
        Says both risks.
    """
    for candidate in candidates:
        blind, maximal = work.blind(candidate), maximal_jobs(work, candidate, seeds)
        if any(job.key not in runs for job in (blind, *maximal)):
            continue
        for metric in metrics:
            low = mean_risk(runs, maximal, metric) if maximal else recorded
            high = runs[blind.key].risk(metric)
            if low is not None and low >= high:
                where = f" ({metric} on {work.data.name}, architecture of {candidate.name})"
                raise DataError(no_scale(blind=high, maximal=low, where=where))


def assembled(
    work: Workload,
    candidates: Sequence[Candidate],
    runs: Runs,
    *,
    regimes: Sequence[int],
    metrics: Sequence[str],
    seeds: Sequence[int],
    recorded: float | None,
    n_draws: int,
    bootstrap_seed: int,
) -> Assembled:
    """Curves of every candidate by every metric.

    Parameters
    ----------
    work : Workload
    candidates : sequence of Candidate
    runs : mapping from the key of a job to CurveRun
        All that :func:`zoo.evaluation.curves.runs.all_jobs` names.
    regimes : sequence of int
        Ascending.
    metrics : sequence of str
        Of the curves; single runs have intervals by every metric of the task.
    seeds : sequence of int
    recorded : float or None
        Risk of maximal supervision by the one metric, if it was not measured.
    n_draws, bootstrap_seed : int
        Of the bootstrap, which draws the same test images for all runs.
    """
    by_role: dict[tuple[str, Control], tuple[tuple[Job, ...], ...]] = {}  # a tuple of seeds a regime
    for candidate in candidates:
        name = candidate.name
        by_role[name, "blind"] = ((work.blind(candidate),),)
        by_role[name, "maximal"] = (found,) if (found := maximal_jobs(work, candidate, seeds)) else ()
        by_role[name, "scratch"] = tuple(tuple(work.scratch(candidate, n, seed) for seed in seeds) for n in regimes)
        by_role[name, "encoder"] = tuple(tuple(work.encoder(candidate, n, seed) for seed in seeds) for n in regimes)
    keys = list(dict.fromkeys(job.key for groups in by_role.values() for jobs in groups for job in jobs))
    place = {key: number for number, key in enumerate(keys)}
    members = {_keys(jobs): [place[job.key] for job in jobs] for groups in by_role.values() for jobs in groups}
    pools = {  # by how many labels they had; all of them are too few networks to stand by themselves
        _keys(jobs): min(jobs[0].n, max(regimes))
        for role, groups in by_role.items()
        for jobs in groups
        if role[1] != "blind"
    }
    drawn: dict[str, Resampled[Keys]] = {
        metric: resampled(
            [runs[key].risks[metric] for key in keys], members, pools=pools, n_draws=n_draws,
            seed=bootstrap_seed, bounds=_PERCENT if METRICS[metric].unit == "percent" else None,
        )
        for metric in work.data.task.metrics
    }  # fmt: skip
    curves = tuple(
        _curve(work, candidate, by_role, drawn[metric], metric, regimes=regimes, recorded=recorded, n_draws=n_draws)
        for candidate in candidates
        for metric in metrics
    )
    flat = {role: tuple(job for jobs in groups for job in jobs) for role, groups in by_role.items()}
    return Assembled(
        curves=curves,
        runs={
            role: tuple(replace(runs[job.key], control=role[1], n_requested=job.n) for job in jobs)
            for role, jobs in flat.items()
        },
        intervals={
            (*role, metric): tuple(drawn[metric].runs[place[job.key]] for job in jobs)
            for role, jobs in flat.items()
            for metric in work.data.task.metrics
        },
    )


def _curve(
    work: Workload,
    candidate: Candidate,
    by_role: Mapping[tuple[str, Control], tuple[tuple[Job, ...], ...]],
    drawn: Resampled[Keys],
    metric: str,
    *,
    regimes: Sequence[int],
    recorded: float | None,
    n_draws: int,
) -> CalibratedCurve:
    def means(control: Control) -> list[Drawn]:
        return [drawn.means[_keys(jobs)] for jobs in by_role[candidate.name, control]]

    data, recipe = work.data, work.recipe
    (blind,) = means("blind")
    maximal = means("maximal")[0] if recorded is None else constant_draws(recorded, n_draws=n_draws)
    return calibrated_curve(
        encoder=candidate.name,
        task=data.task.name,
        metric=metric,
        unit=METRICS[metric].unit,
        dataset=data.name,
        protocol=protocol_of(data.task, recipe),
        frozen=recipe.frozen,
        regimes=[(n, n) for n in regimes],
        risks=means("encoder"),
        scratch=means("scratch"),
        blind=blind,
        maximal=maximal,
        n_seeds=[len(jobs) for jobs in by_role[candidate.name, "encoder"]],
        n_test=len(data.test),
        maximal_n=work.n_all if recorded is None else None,
    )


def _keys(jobs: Sequence[Job]) -> Keys:
    return tuple(job.key for job in jobs)


def searched_regimes(
    runner: Runner,
    work: Workload,
    candidates: Sequence[Candidate],
    *,
    seeds: Sequence[int],
    recorded: float | None,
    count: int,
    watch: Watch | None = None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers of images, ascending, and notes on what they do not cover.

    By the first metric of the task and the first seed. Where candidates have several scratch controls, the regimes
    reach from the first that is near the blind guess to the last that is near maximal supervision.

    Parameters
    ----------
    runner : Runner
    work : Workload
    candidates : sequence of Candidate
    seeds : sequence of int
        Of maximal supervision; the first is that of the search.
    recorded : float or None
        Risk of maximal supervision, if it is not measured.
    count : int
        Regimes to find.
    watch : callable, optional
        As for :meth:`zoo.evaluation.curves.running.Runner.do`.

    Raises
    ------
    DataError
        If there are too few images.
    ZooError
        As :meth:`zoo.evaluation.curves.running.Runner.do`.
    """
    rungs = ladder(least_images(work.data.train), work.n_all)
    runner.do(ends_of_scale(work, candidates, seeds), watch=watch)
    controls = list({candidate.control_hash: candidate for candidate in reversed(candidates)}.values())[::-1]
    while True:
        found = [_ends(runner, work, candidate, rungs, seeds=seeds, recorded=recorded) for candidate in controls]
        pilots = [
            work.scratch(candidate, n, seeds[0])
            for candidate, known in zip(controls, found, strict=True)
            for n in known.untried
        ]
        if not pilots:
            break
        runner.do(distinct(pilots), watch=watch)
    low, high = min(known.low for known in found), max(known.high for known in found)
    notes = [
        f"{candidate.name}: {note}" if len(controls) > 1 else note
        for candidate, known in zip(controls, found, strict=True)
        for note in known.notes
    ]
    return spread(low, high, count=count), tuple(notes)


def _ends(
    runner: Runner,
    work: Workload,
    candidate: Candidate,
    rungs: Sequence[int],
    *,
    seeds: Sequence[int],
    recorded: float | None,
) -> Ends:
    metric = work.data.task.metrics[0]
    blind = runner.runs[work.blind(candidate).key].risk(metric)
    measured = maximal_jobs(work, candidate, seeds)
    maximal = mean_risk(runner.runs, measured, metric) if recorded is None else recorded
    jobs = {n: work.scratch(candidate, n, seeds[0]) for n in rungs}
    risks = {n: runner.runs[job.key].risk(metric) for n, job in jobs.items() if job.key in runner.runs}
    if measured:
        risks[work.n_all] = maximal  # by construction, whatever one of the seeds may be
    calibrated = {n: float(calibrated_risk(risk, blind=blind, maximal=maximal)) for n, risk in risks.items()}
    return ends(rungs, calibrated)


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


SOURCE = "measured"
_ALL = "train -> val"
_NOT_TOLD = ("seconds",)  # it differs from one time to the next

Rows = dict[Measurement, dict[str, Any]]


def rows_of_curves(report: CurveReport, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements with their provenance, for :func:`zoo.results.recording.record`: one row a run and metric.

    The controls are there for every encoder, under its name, and say in their protocol which they are. A recorded risk
    of maximal supervision is a row without seed and interval.

    Parameters
    ----------
    report : CurveReport
    source : str
        Who measured.
    day : date, optional
        Today by default.

    Raises
    ------
    QueryError
        If an encoder has no card, so that no row could name it.
    """
    cards, rows = catalogue(), Rows()
    for candidate in report.candidates:
        if candidate.name not in cards:
            raise QueryError(
                f"The encoder {candidate.name!r} has no card, so that its results cannot be recorded; register it with "
                "zoo register, and measure it by the id that it has then."
            )
        writing = _Writing(report, candidate, source, (day or date.today()).isoformat())
        for control in (*CONTROLS, "encoder"):
            rows |= dict(writing.rows(control))
        if report.request.maximal is not None:
            rows |= dict([writing.recorded(report.request.maximal)])
    return rows


class _Writing:
    """What all rows of one encoder share."""

    def __init__(self, report: CurveReport, candidate: Candidate, source: str, day: str) -> None:
        self.report, self.candidate, self.source, self.day = report, candidate, source, day
        self.preprocess_hash = preprocess_hash(build_preprocess(candidate.preprocess))

    def rows(self, control: Control) -> Iterator[tuple[Measurement, dict[str, Any]]]:
        name = self.candidate.name
        runs = self.report.runs[name, control]
        for metric in self.report.data.task.metrics:
            for run, found in zip(runs, self.report.intervals[name, control, metric], strict=True):
                yield self.row(metric, run.control, run, found), self.provenance(run.control, run)

    def recorded(self, risk: float) -> tuple[Measurement, dict[str, Any]]:
        n_all = len(self.report.data.train)
        run = CurveRun(
            control="maximal", n_requested=n_all, n_actual=n_all, seed=None, risks={},
            report={"recorded_elsewhere": True},
        )  # fmt: skip
        found = Interval(value=risk, ci_low=None, ci_high=None)
        return self.row(self.report.data.task.metrics[0], "maximal", run, found), self.provenance("maximal", run)

    def row(self, metric: str, control: Control, run: CurveRun, found: Interval) -> Measurement:
        data = self.report.data
        split = _ALL if run.n_requested == len(data.train) else f"train {run.n_requested} images -> val"
        is_recorded = bool(run.report.get("recorded_elsewhere"))
        return Measurement(
            encoder=self.candidate.name, metric=metric, dataset=data.name, split=split,
            n_train=None if is_recorded else run.n_actual, seed=run.seed, value=found.value,
            unit=METRICS[metric].unit, ci_low=found.ci_low, ci_high=found.ci_high,
            protocol=self.report.protocols[control], source=self.source, date=self.day,
        )  # fmt: skip

    def provenance(self, control: Control, run: CurveRun) -> dict[str, Any]:
        data, recipe = self.report.data, self.report.request.recipe
        told = {key: value for key, value in run.report.items() if key not in _NOT_TOLD}
        about = {"control": control, "task": data.task.name, "n_requested": run.n_requested, "n_actual": run.n_actual}
        return {
            "weights_hash": self.candidate.weights_hash if control == "encoder" else None,
            "preprocess_hash": self.preprocess_hash,
            "images_hash": {"train": data.train.fingerprint, "val": data.test.fingerprint},
            "data_hash": {"train": images_of(data.train).fingerprint, "val": images_of(data.test).fingerprint},
            "features_hash": None,
            "subset_hash": run.report.get("subset_hash"),
            "code_version": code_version(),
            "settings": recipe_dict(recipe if control == "encoder" else recipe.of_controls)
            | {"digest": recipe_digest(data.task)},
            "report": about | told,
        }
