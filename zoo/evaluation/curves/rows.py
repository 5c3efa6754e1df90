"""From learning curves to the rows of ``results/``, and what each of them was measured from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from ...cards import catalogue
from ...errors import QueryError
from ...features import code_version
from ...features.hashes import preprocess_hash
from ...measurements import Measurement
from ...preprocess import build_preprocess
from ...vocabulary import METRICS
from ..intervals import Interval
from .candidates import Candidate
from .data import images_of
from .measuring import CurveReport
from .recipe import recipe_dict, recipe_digest
from .runs import CONTROLS, Control, CurveRun

SOURCE = "measured"
_ALL = "train -> val"
_NOT_TOLD = ("seconds",)  # it differs from one time to the next

Rows = dict[Measurement, dict[str, Any]]


def rows_of_curves(report: CurveReport, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements with their provenance, for :func:`zoo.recording.record`: one row a run and metric.

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
