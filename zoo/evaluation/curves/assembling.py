"""From runs to calibrated curves: means over seeds, intervals, and which control belongs to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import DataError
from ...vocabulary import METRICS
from ..intervals import Interval
from .bootstrap import Resampled, constant_draws, resampled
from .calibration import no_scale
from .candidates import Candidate
from .curve import CalibratedCurve, Drawn, calibrated_curve
from .jobs import Job, Workload
from .recipe import protocol_of
from .runs import Control, CurveRun

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
        All that :func:`zoo.evaluation.curves.jobs.all_jobs` names.
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
