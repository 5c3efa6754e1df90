"""From what was measured to the rows of ``results/`` and what each of them was measured from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from hashlib import blake2b
from typing import Any

from ..features import Features
from ..measurements import Measurement
from ..optional import requires_extra
from ..recording import Recorded, record
from .evaluating import Evaluation
from .intervals import Interval
from .measuring import ProbeRun, mean_error
from .protocols import Protocol
from .risk import FULL, RiskReport

with requires_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np

SOURCE = "measured"
_PARTS = (
    "approximation", "usability", "approximation_plus_usability", "probe_generalization", "encoder_generalization",
)  # fmt: skip
_PERCENT, _POINTS = "percent", "percentage points"

_BLOCK_ROWS = 8192

Rows = dict[Measurement, dict[str, Any]]


def record_evaluation(evaluation: Evaluation, *, source: str = SOURCE, day: date | None = None) -> Recorded:
    """Adds everything that was measured to the user's results, one row a number.

    Raises
    ------
    ResultsError
        As :func:`zoo.recording.record`.
    """
    return record(rows_of_evaluation(evaluation, source=source, day=day))


def rows_of_evaluation(evaluation: Evaluation, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements with their provenance: one row for each probe, and one for each part of the full-shot error.

    Parameters
    ----------
    evaluation : Evaluation
    source : str
        Who measured.
    day : date, optional
        Today by default.
    """
    writing = _Writing(evaluation, source, (day or date.today()).isoformat())
    rows: Rows = {}
    for metric, protocol, run in _runs(evaluation):
        measured = writing.row(metric, run.split, run.n_train, run.seed, mean_error((run,)), _PERCENT, protocol)
        rows[measured] = writing.provenance(protocol, report=run.report | {"n_tuning": run.n_tuning}, run=run)
    if evaluation.risk is not None:
        rows |= _rows_of_parts(writing, evaluation.risk)
    return rows


def _runs(evaluation: Evaluation) -> Iterator[tuple[str, Protocol, ProbeRun]]:
    seen = set()
    linear = [("linear_probe_error", run) for result in evaluation.settings for run in result.runs]
    if evaluation.risk is not None:
        linear += [(risk.metric, run) for risk in evaluation.risk.risks.values() for run in risk.runs]
    for metric, run in linear:
        if (metric, run.split, run.seed) not in seen:  # R_US is the full-shot error of the first seed
            seen.add((metric, run.split, run.seed))
            yield metric, evaluation.protocols.errors, run
    if evaluation.neighbours is not None:
        for run in evaluation.neighbours.runs:
            yield "knn_error", evaluation.neighbours_protocol, run


def _rows_of_parts(writing: _Writing, report: RiskReport) -> Rows:
    protocol = writing.evaluation.protocols.parts
    told = {
        "order": report.order, "n_train": report.n_train, "n_test": report.n_test, "warning": report.warning,
        "risks_percent": {name: risk.error.value for name, risk in report.risks.items()},
    }  # fmt: skip
    rows: Rows = {}
    for part in _PARTS:
        if part in report.intervals:
            found = report.intervals[part]
            measured = writing.row(part, FULL.split, report.n_train, report.seed, found, _POINTS, protocol)
            rows[measured] = writing.provenance(protocol, report=told, run=None)
    twin = report.risks.get("R_PhiF")
    if twin is not None and not twin.runs:  # its error was given, not measured
        measured = writing.row(twin.metric, twin.split, report.n_train, None, twin.error, _PERCENT, protocol)
        rows[measured] = writing.provenance(protocol, report={"recorded_elsewhere": True}, run=None)
    return rows


class _Writing:
    """What all rows of one evaluation share."""

    def __init__(self, evaluation: Evaluation, source: str, day: str) -> None:
        self.evaluation, self.source, self.day = evaluation, source, day
        self.parts = {"train": evaluation.train, "val": evaluation.test}
        self.digests = {part: features_digest(features) for part, features in self.parts.items()}

    def row(
        self, metric: str, split: str, n_train: int, seed: int | None, found: Interval, unit: str, protocol: Protocol
    ) -> Measurement:
        origin = self.evaluation.train.origin
        return Measurement(
            encoder=origin.encoder, metric=metric, dataset=origin.dataset, split=split, n_train=n_train, seed=seed,
            value=found.value, unit=unit, ci_low=found.ci_low, ci_high=found.ci_high, protocol=protocol.name,
            source=self.source, date=self.day,
        )  # fmt: skip

    def provenance(self, protocol: Protocol, *, report: dict[str, Any], run: ProbeRun | None) -> dict[str, Any]:
        origin = self.evaluation.train.origin
        return {
            "weights_hash": origin.weights_hash,
            "preprocess_hash": origin.preprocess_hash,
            "images_hash": {part: features.origin.images_hash for part, features in self.parts.items()},
            "features_hash": self.digests,
            "subset_hash": None if run is None else dict(run.rows),
            "code_version": origin.code_version,
            "representation": origin.representation,
            "precision": origin.precision,
            "settings": protocol.as_dict(),
            "report": report,
        }


def features_digest(features: Features) -> str:
    """Hash of the numbers and labels, row by row; the same in whatever shards they lie, or in memory."""
    digest = blake2b(digest_size=16)
    for x, y in features.batches(_BLOCK_ROWS):
        digest.update(np.ascontiguousarray(x, dtype="<f4").tobytes())
        digest.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    return digest.hexdigest()
