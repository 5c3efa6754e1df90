"""The search for regimes: scratch with one seed on rungs of a ladder, every run of which is kept for the curve."""

from __future__ import annotations

from collections.abc import Sequence

from .assembling import maximal_jobs, mean_risk
from .calibration import calibrated_risk
from .candidates import Candidate
from .jobs import Workload, distinct, ends_of_scale
from .nested import least_images
from .regimes import Ends, ends, ladder, spread
from .running import Runner, Watch


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
