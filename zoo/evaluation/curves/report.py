"""Calibrated learning curves of encoders on a task: the search for regimes, the curves, and rows of results.

A curve says most between the numbers of labels with which a network trained from scratch is no better than a blind
guess, and as good as maximal supervision. The search for these ends tries scratch with one seed on rungs of a ladder,
from both ends and then halving what lies between; regimes are spread evenly over the logarithm of n.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...cards.catalogue import load_catalogue
from ...datasets.notes import describe_decoding
from ...encoders.preprocess import build_preprocess
from ...errors import DataError, QueryError, format_count
from ...execution.executor import collect_versions
from ...execution.journal import RunSpec, format_current_time
from ...features import get_code_version
from ...features.origin import CODE_NUMBER
from ...features.store import hash_preprocess
from ...files import get_cache_folder
from ...optional import require_extra
from ...results.rows import Measurement
from ...results.vocabulary import METRICS
from ..bootstrap import N_DRAWS, Drawn, Interval, ResampledRisks, make_constant_draws, resample_risks
from .calibration import NEAR_BLIND, NEAR_MAXIMAL, calibrated_risk, describe_missing_scale
from .curve import CalibratedCurve, calibrated_curve
from .data import Regime, TransferData, check_regime, compute_least_regime, get_class_labels, get_image_set
from .models import Candidate, build_transfer_model
from .recipe import Recipe, describe_recipe, format_protocol_name, hash_recipe
from .runs import (
    CONTROLS,
    Control,
    CurveJob,
    CurveProgress,
    CurveRun,
    CurveRunner,
    CurveSetup,
    CurveWorkload,
    Train,
    make_all_jobs,
    make_scale_jobs,
    select_distinct_jobs,
)
from .training import Training, train_run

with require_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from ...execution.executor import Executor, Resources
    from ...execution.journal import Journal

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([km]?)", re.ASCII)
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_STEPS = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), tuple(1.0 + 0.1 * i for i in range(90)))


def parse_regimes(text: str) -> tuple[Regime, ...]:
    """Regimes from text: numbers of images by comma, with k or m for thousands and millions, or "all".

    >>> parse_regimes("50, 200, 1k, all")
    (50, 200, 1000, 'all')
    """
    regimes: list[Regime] = []
    for part in (part.strip().lower() for part in text.split(",")):
        match = _NUMBER.fullmatch(part)
        number = float(match[1]) * _FACTORS[match[2]] if match else 0.0
        if part != "all" and (number < 1 or not number.is_integer()):
            raise QueryError(
                f"The regime {part!r} is no number of images; expected whole numbers from 1, with k or m for thousands "
                "and millions, or all, with commas between them, such as 50,200,1k,all."
            )
        regimes.append("all" if part == "all" else int(number))
    return tuple(regimes)


def resolve_regimes(regimes: Sequence[Regime], n_all: int, *, name: str = "the data") -> tuple[int, ...]:
    """Numbers of images, ascending; refuses none at all, more than there are, and the same twice.

    >>> resolve_regimes(("all", 50), 200)
    (50, 200)
    """
    numbers = tuple(sorted(check_regime(n, n_all, name=name) for n in regimes))
    if not numbers or len(set(numbers)) < len(numbers):
        raise QueryError(
            f"The regimes {', '.join(map(str, regimes)) or '(none)'} were asked for; expected different numbers of "
            "images, each once, such as 50,200,1k,all."
        )
    return numbers


def build_ladder(n_least: int, n_all: int, *, fineness: int = 0) -> tuple[int, ...]:
    """Numbers of images from the least possible to all, in steps of 1, 2, 5, 10 or finer ones, and both ends.

    >>> build_ladder(11, 1346)
    (11, 20, 50, 100, 200, 500, 1000, 1346)
    """
    if n_least > n_all:
        raise DataError(f"Regimes start at {format_count(n_least, 'image')}, but there are {n_all:,}; add images.")
    powers = range(len(str(n_all)))
    between = {round(step * 10**power) for power in powers for step in _STEPS[fineness]}
    return tuple(sorted({n_least, n_all} | {n for n in between if n_least < n < n_all}))


def find_scale_ends(rungs: Sequence[int], calibrated: Mapping[int, float]) -> tuple[int, int, list[int]]:
    """Where the range from near blind to near maximal begins and ends, and which rungs of the ladder to try next.

    ``calibrated`` has the calibrated risk of scratch on those rungs that were tried. No rung is left to try when the
    ends are known.
    """
    last = len(rungs) - 1
    tried = {number: calibrated[n] for number, n in enumerate(rungs) if n in calibrated}
    if not {0, last} <= tried.keys():
        return rungs[0], rungs[-1], [rungs[number] for number in sorted({0, last} - tried.keys())]
    learnt = min((number for number, risk in tried.items() if risk < NEAR_BLIND), default=0)  # the first that is
    low = max((number for number in tried if number < learnt), default=0)
    high = min((number for number, risk in tried.items() if number > low and risk <= NEAR_MAXIMAL), default=last)
    short = max((number for number in tried if number < high), default=0)  # the last that is not near maximal yet
    halves = {(low + learnt) // 2} if low < learnt else set()
    halves |= {(short + high) // 2} if tried[high] <= NEAR_MAXIMAL else set()
    return rungs[low], rungs[high], [rungs[number] for number in sorted(halves - tried.keys())]


def select_spread_regimes(low: int, high: int, *, count: int) -> tuple[int, ...]:
    """Round numbers from ``low`` to ``high``, both among them, as evenly over their logarithm as there are.

    >>> select_spread_regimes(11, 1346, count=5), select_spread_regimes(3, 5, count=5)
    ((11, 50, 100, 500, 1346), (3, 4, 5))
    """
    if high - low < count:
        return tuple(range(low, high + 1))
    ladders = (build_ladder(low, high, fineness=fineness) for fineness in range(len(_STEPS)))
    known = next((rungs for rungs in ladders if len(rungs) >= count), tuple(range(low, high + 1)))
    wanted = np.linspace(math.log(low), math.log(high), count)
    chosen: list[int] = []
    for number, place in enumerate(wanted):
        first = known.index(chosen[-1]) + 1 if chosen else 0
        free = known[first : len(known) - (count - 1 - number)]  # so that enough are left for those to come
        chosen.append(min(free, key=lambda n: (abs(math.log(n) - place), n)))
    return tuple(chosen)


RunsByKey: TypeAlias = Mapping[str, CurveRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRequest:
    """Regimes, seeds and recipe to measure learning curves with.

    Attributes
    ----------
    regimes : tuple of int or "all", or None
        Numbers of labelled images; None to search for ``count`` of them, which costs some more runs of scratch.
    seeds : tuple of int
        For subsets, random weights and the order of the images.
    recipe : Recipe
    maximal : float or None
        Risk of maximal supervision by the first metric of the task, if it was recorded elsewhere; the curves are then
        of that metric alone.
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
        are_seeds = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in self.seeds)
        if not are_seeds or not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise QueryError(f"The seeds are {self.seeds!r}; expected different whole numbers from 0 on, at least one.")
        if self.maximal is not None and not 0 <= self.maximal < float("inf"):
            raise QueryError(
                f"The recorded risk of maximal supervision is {self.maximal!r}; expected a finite number from 0 on."
            )
        if self.regimes is None and self.count < 2:
            raise QueryError(f"{self.count!r} regimes were to be looked for; expected at least two, for a curve.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveReport:
    """Everything that was measured, by :func:`learning_curves`."""

    data: TransferData
    request: CurveRequest
    candidates: tuple[Candidate, ...]
    regimes: tuple[int, ...]  # labelled images, ascending
    curves: tuple[CalibratedCurve, ...]  # all metrics of the first candidate, then of the next
    runs: Mapping[tuple[str, Control], tuple[CurveRun, ...]]
    """By candidate and control; by number of images, then seed. Controls that several candidates share are there for
    each of them, and scratch with all images also as maximal supervision."""
    intervals: Mapping[tuple[str, Control, str], tuple[Interval, ...]]
    """By candidate, control and metric: risks of the same runs, with 95 % intervals over test images."""
    protocols: Mapping[Control, str]  # names of how the runs were done
    notes: tuple[str, ...] = ()  # how images are read


def build_curve_spec(
    candidates: Sequence[Candidate], data: TransferData, request: CurveRequest, *, command: Sequence[str] = ()
) -> RunSpec:
    """What is asked for, as a journal begins with it; ``command`` are arguments that ask the same again."""
    settings = {
        "encoders": sorted(one.name for one in candidates),
        "dataset": data.name,
        "images": {"train": data.train.fingerprint, "val": data.test.fingerprint},
        "task": data.task.name,
        "request": asdict(request),
    }
    facts = {"part": "curve", "folder": "", "n_images": len(data.train), "n_shards": 1}
    return RunSpec(
        verb="curve",
        command=tuple(command),
        settings=settings,
        features=tuple({"encoder": one.name, **facts} for one in candidates),
        versions=collect_versions(code=CODE_NUMBER),
        started=format_current_time(),
    )


def learning_curves(
    candidates: Sequence[Candidate],
    data: TransferData,
    request: CurveRequest,
    *,
    folder: Path | None = None,
    how: Training | None = None,
    n_processes: int = 1,
    executor: Executor | None = None,
    resources: Resources | None = None,
    progress: CurveProgress | None = None,
    train: Train = train_run,
    journal: Journal | None = None,
) -> CurveReport:
    """Measures what encoders are worth on a task, by runs with few to many labels and by their controls.

    Parameters
    ----------
    candidates : sequence of Candidate
    data : TransferData
    request : CurveRequest
    folder : Path, optional
        Cache of finished runs; ``curves`` of the zoo's cache by default. Other measurements may share it.
    how : Training, optional
        Device, processes and memory, which move no number.
    n_processes : int
        That train at the same time, on this machine.
    executor, resources : Executor, Resources, optional
        Does the runs instead, on machines that reach the folder, and what each run takes of them; those of its part.
    progress : CurveProgress, optional
        Called as runs go on.
    train : callable
        Trains and tests one network, called as :func:`zoo.evaluation.curves.training.train_run`; for another recipe,
        which then needs another folder.
    journal : Journal, optional
        Of this process, of a run by :func:`build_curve_spec`.

    Raises
    ------
    QueryError
        If there is no candidate, two have one name, a regime is larger than the data or comes twice, or the task asks
        an encoder for what it does not have, such as spatial features.
    DataError
        If a regime is so small that a class is missing, a class of the test images is not in the training images, or
        maximal supervision is no better than the constant baseline. Finished runs stay in the cache.
    Unfinished
        If the runs of a part are done, and those of other parts are not.
    ZooError
        Of a run that failed, once the others are done; says how many are finished.
    """
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) != len(names):
        raise QueryError(f"Learning curves of {names} were asked for; expected at least one encoder, each named once.")
    train_labels, test_labels = get_class_labels(data.train), get_class_labels(data.test)
    if train_labels is not None and test_labels is not None:
        unknown = np.setdiff1d(test_labels, train_labels)
        if unknown.size:
            n, name = int((test_labels == unknown[0]).sum()), get_image_set(data.test).classes[int(unknown[0])]
            raise DataError(
                f"{data.name!r} has {format_count(n, 'test image')} of the class {name!r}, which no training image "
                "has; expected every class in both."
            )
    work = CurveWorkload(data=data, recipe=request.recipe, has_maximal=request.maximal is None)
    if request.regimes is not None:
        regimes = resolve_regimes(request.regimes, work.n_all, name=data.name)
        make_all_jobs(work, candidates, regimes, request.seeds)  # refuses regimes that are too small at once
    controls = list({candidate.control_hash: candidate for candidate in reversed(candidates)}.values())[::-1]
    for each in controls:  # refused before any run, not when the other encoders are done
        try:
            n_outputs, px, frozen = data.n_outputs, each.preprocess.crop_px, request.recipe.frozen
            build_transfer_model(each.untrained(0), data.task, n_outputs=n_outputs, px=px, frozen=frozen, seed=0)
        except QueryError as error:
            raise QueryError(f"{each.name}: {error}") from error

    def require_scale(runs: RunsByKey) -> None:
        """Refuses to go on once it is known that maximal supervision is no better than the constant baseline."""
        for candidate in controls:
            for metric in _metrics(data, request):
                blind, maximal = _ends_of_scale(work, candidate, runs, request, metric)
                if blind is not None and maximal is not None and maximal >= blind:
                    where = f" ({metric} on {data.name}, architecture of {candidate.name})"
                    raise DataError(describe_missing_scale(blind=blind, maximal=maximal, where=where))

    cache = get_cache_folder() / "curves" if folder is None else folder
    setup = CurveSetup(data=data, recipe=request.recipe, folder=cache, how=how or Training(), train=train)
    with CurveRunner(
        setup,
        n_processes=n_processes,
        executor=executor,
        resources=resources,
        progress=progress,
        watch=require_scale,
        journal=journal,
    ) as runner:
        if request.regimes is None:
            regimes = _searched_regimes(runner, work, controls, request)
        runner.do(make_all_jobs(work, candidates, regimes, request.seeds))
        found = _report(work, candidates, request, runner.runs, regimes)
    if journal is not None:
        for one in candidates:
            journal.complete(one.name, "curve")
    return found


def _metrics(data: TransferData, request: CurveRequest) -> tuple[str, ...]:
    """Those of the curves: a recorded risk of maximal supervision is of the first alone."""
    return data.task.metrics if request.maximal is None else data.task.metrics[:1]


def _ends_of_scale(
    work: CurveWorkload, candidate: Candidate, runs: RunsByKey, request: CurveRequest, metric: str
) -> tuple[float | None, float | None]:
    """Risks of the constant baseline and of maximal supervision, recorded or the mean over seeds; None if unknown."""
    blind = runs.get(work.blind(candidate).key)
    jobs = [work.scratch(candidate, work.n_all, seed) for seed in request.seeds]
    maximal = request.maximal
    if maximal is None and all(job.key in runs for job in jobs):
        maximal = sum(runs[job.key].risk(metric) for job in jobs) / len(jobs)
    return None if blind is None else blind.risk(metric), maximal


def _searched_regimes(
    runner: CurveRunner, work: CurveWorkload, controls: Sequence[Candidate], request: CurveRequest
) -> tuple[int, ...]:
    """Numbers of images, ascending, by scratch with the first seed and the first metric, on rungs of a ladder.

    They reach from the first control that is near the constant baseline to the last that is near maximal supervision.
    """
    metric, rungs = work.data.task.metrics[0], build_ladder(compute_least_regime(work.data.train), work.n_all)
    pilots = make_scale_jobs(work, controls, request.seeds)
    while pilots:
        runner.do(pilots)
        found, untried = [], []
        for candidate in controls:
            blind, maximal = _ends_of_scale(work, candidate, runner.runs, request, metric)
            jobs = {n: work.scratch(candidate, n, request.seeds[0]) for n in rungs}
            risks = {n: runner.runs[job.key].risk(metric) for n, job in jobs.items() if job.key in runner.runs}
            if work.has_maximal:
                risks[work.n_all] = maximal or 0.0  # by construction, whatever the risk of a single seed is
            scale: dict[str, Any] = {"blind": blind, "maximal": maximal}
            low, high, more = find_scale_ends(
                rungs, {n: float(calibrated_risk(risk, **scale)) for n, risk in risks.items()}
            )
            found.append((low, high))
            untried += [jobs[n] for n in more]
        pilots = select_distinct_jobs(untried)
    return select_spread_regimes(min(low for low, _ in found), max(high for _, high in found), count=request.count)


def _report(
    work: CurveWorkload,
    candidates: Sequence[Candidate],
    request: CurveRequest,
    runs: RunsByKey,
    regimes: tuple[int, ...],
) -> CurveReport:
    """Curves of every candidate by every metric; the bootstrap draws the same test images for all runs."""
    data, seeds = work.data, request.seeds
    groups: dict[tuple[str, Control], list[list[CurveJob]]] = {}  # a list of seeds a regime
    for one in candidates:
        groups[one.name, "blind"] = [[work.blind(one)]]
        groups[one.name, "maximal"] = [[work.scratch(one, work.n_all, seed) for seed in seeds]] * work.has_maximal
        groups[one.name, "scratch"] = [[work.scratch(one, n, seed) for seed in seeds] for n in regimes]
        groups[one.name, "encoder"] = [[work.encoder(one, n, seed) for seed in seeds] for n in regimes]
    flat = {role: [job for jobs in some for job in jobs] for role, some in groups.items()}
    keys = list(dict.fromkeys(job.key for jobs in flat.values() for job in jobs))
    place = {key: number for number, key in enumerate(keys)}
    members, pools = {}, {}
    for (_, control), some in groups.items():
        for jobs in some:
            means = tuple(job.key for job in jobs)
            members[means] = [place[key] for key in means]
            if control != "blind":  # by how many labels they had; all of them are too few networks by themselves
                pools[means] = min(jobs[0].n, max(regimes))
    drawn: dict[str, ResampledRisks[tuple[str, ...]]] = {
        metric: resample_risks(
            [runs[key].risks[metric] for key in keys],
            members,
            pools=pools,
            n_draws=request.n_draws,
            seed=request.seed,
            bounds=(0.0, 100.0) if METRICS[metric].unit == "percent" else None,
        )
        for metric in data.task.metrics
    }
    curves = []
    for name, metric in ((one.name, metric) for one in candidates for metric in _metrics(data, request)):
        risks: dict[Control, list[Drawn]] = {
            control: [drawn[metric].means[tuple(job.key for job in jobs)] for jobs in groups[name, control]]
            for control in ("encoder", *CONTROLS)
        }
        recorded = request.maximal
        curve = calibrated_curve(
            encoder=name,
            task=data.task.name,
            metric=metric,
            unit=METRICS[metric].unit,
            dataset=data.name,
            protocol=format_protocol_name(data.task, request.recipe),
            frozen=request.recipe.frozen,
            regimes=[(n, n) for n in regimes],
            risks=risks["encoder"],
            scratch=risks["scratch"],
            blind=risks["blind"][0],
            maximal=risks["maximal"][0] if recorded is None else make_constant_draws(recorded, n_draws=request.n_draws),
            n_seeds=[len(seeds)] * len(regimes),
            n_test=len(data.test),
            maximal_n=work.n_all if recorded is None else None,
        )
        curves.append(curve)
    return CurveReport(
        data=data,
        request=request,
        candidates=tuple(candidates),
        regimes=regimes,
        curves=tuple(curves),
        runs={
            role: tuple(replace(runs[job.key], control=role[1], n_requested=job.n) for job in jobs)
            for role, jobs in flat.items()
        },
        intervals={
            (*role, metric): tuple(drawn[metric].runs[place[job.key]] for job in jobs)
            for role, jobs in flat.items()
            for metric in data.task.metrics
        },
        protocols={
            name: format_protocol_name(data.task, request.recipe, control=name) for name in ("encoder", *CONTROLS)
        },
        notes=tuple(describe_decoding([get_image_set(data.train), get_image_set(data.test)])),
    )


SOURCE = "measured"
Rows: TypeAlias = dict[Measurement, dict[str, Any]]


def make_curve_rows(report: CurveReport, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements with their provenance, for :func:`zoo.results.recording.record`: one row per run and metric.

    The controls are there for every encoder, under its name, and say in their protocol which they are. A recorded risk
    of maximal supervision is a row without seed and interval. An encoder without a card is refused.
    """
    rows, data, recipe, n_all = Rows(), report.data, report.request.recipe, len(report.data.train)
    for candidate in report.candidates:
        name = candidate.name
        if name not in load_catalogue():
            raise QueryError(
                f"The encoder {name!r} has no card, so that its results cannot be recorded; register it with zoo "
                "register, and measure it by the id that it has then."
            )
        every = [
            (metric, run, interval)
            for control in (*CONTROLS, "encoder")
            for metric in data.task.metrics
            for run, interval in zip(report.runs[name, control], report.intervals[name, control, metric], strict=True)
        ]
        if report.request.maximal is not None:
            about = {"recorded_elsewhere": True}
            run = CurveRun(control="maximal", n_requested=n_all, n_actual=n_all, seed=None, risks={}, report=about)
            interval = Interval(value=report.request.maximal, ci_low=None, ci_high=None)
            every.append((data.task.metrics[0], run, interval))
        hashed = hash_preprocess(build_preprocess(candidate.preprocess))
        for metric, run, interval in every:
            is_encoder = run.control == "encoder"
            row = Measurement(
                encoder=name,
                metric=metric,
                dataset=data.name,
                split="train -> val" if run.n_requested == n_all else f"train {run.n_requested} images -> val",
                n_train=None if run.report.get("recorded_elsewhere") else run.n_actual,
                seed=run.seed,
                value=interval.value,
                unit=METRICS[metric].unit,
                ci_low=interval.ci_low,
                ci_high=interval.ci_high,
                protocol=report.protocols[run.control],
                source=source,
                date=(day or date.today()).isoformat(),
            )
            settings = describe_recipe(recipe if is_encoder else recipe.of_controls)
            found: dict[str, Any] = {"control": run.control, "task": data.task.name}
            found |= {"n_requested": run.n_requested, "n_actual": run.n_actual, **run.report}
            found.pop("seconds", None)  # which differ from one time to the next
            rows[row] = {
                "weights_hash": candidate.weights_hash if is_encoder else None,
                "preprocess_hash": hashed,
                "images_hash": {"train": data.train.fingerprint, "val": data.test.fingerprint},
                "data_hash": {
                    "train": get_image_set(data.train).fingerprint,
                    "val": get_image_set(data.test).fingerprint,
                },
                "features_hash": None,
                "subset_hash": run.report.get("subset_hash"),
                "code_version": get_code_version(),
                "settings": settings | {"digest": hash_recipe(data.task)},
                "report": found,
            }
    return rows
