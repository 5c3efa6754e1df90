"""The rows of ``results/`` as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from .cards import catalogue
from .errors import UnknownName
from .resultchecks import Row
from .resultfiles import errata, read_rows, without_wrong
from .results import SeedMean
from .vocabulary import CI_HIGH, CI_LOW, ENCODER, METRICS, N_TRAIN, SEED, VALUE


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of a results file; ``results/README.md`` explains the columns."""

    encoder: str
    metric: str
    dataset: str
    split: str
    n_train: int | None  # None: no probe was trained
    seed: int | None  # None: unknown, or a mean over several
    value: float
    unit: str
    ci_low: float | None  # None: no interval was stated
    ci_high: float | None
    protocol: str
    source: str
    date: str

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        """What no two measurements have in common: everything but value, unit, interval and date."""
        return (
            self.encoder, self.metric, self.dataset, self.split, self.n_train, self.seed, self.protocol, self.source,
        )  # fmt: skip


def measurements(
    *,
    metrics: str | Iterable[str] | None = None,
    encoders: str | Iterable[str] | None = None,
    exclude_wrong: bool = False,
) -> list[Measurement]:
    """Rows of all results files, the shipped ones first, then the user's.

    Parameters
    ----------
    metrics, encoders : str or iterable of str, optional
        Only this one or these; the case of an encoder's id does not matter.
    exclude_wrong : bool
        Without the rows that an erratum excludes.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    UnknownName
        If there is no such metric or encoder.
    """
    wanted = None if metrics is None else [_known_metric(name) for name in _names(metrics)]
    ids = None if encoders is None else {catalogue().id_of(name) for name in _names(encoders)}
    rows = read_rows(wanted)
    if ids is not None:
        rows = [row for row in rows if row[ENCODER] in ids]
    if exclude_wrong:
        rows = without_wrong(rows, errata())
    return [_measurement(row) for row in rows]


def means_over_seeds(rows: Iterable[Measurement]) -> list[SeedMean]:
    """The rows, those that differ in their seed only together, in the order of the first of each."""
    groups: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for row in rows:
        key = (row.encoder, row.metric, row.dataset, row.split, row.n_train, row.unit, row.protocol, row.source)
        groups.setdefault(key, []).append(row)
    return [_mean(same) for same in groups.values()]


def _mean(same: list[Measurement]) -> SeedMean:
    first, values = same[0], [row.value for row in same]
    low, high = (first.ci_low, first.ci_high) if len(same) == 1 else (min(values), max(values))
    return SeedMean(
        first.encoder, first.metric, first.dataset, first.split, first.n_train, first.unit, first.protocol,
        first.source, fmean(values), len(same), low, high,
    )  # fmt: skip


def row_of(measurement: Measurement) -> Row:
    """The fields of its row, as text from which every number comes back equal.

    >>> row = row_of(Measurement("a", "b", "c", "d", 5, None, 0.1 + 0.2, "percent", None, None, "e", "f", "2026-11"))
    >>> ",".join(row)
    'a,b,c,d,5,,0.30000000000000004,percent,,,e,f,2026-11'
    """
    value, low, high = (
        "" if number is None else repr(float(number))
        for number in (measurement.value, measurement.ci_low, measurement.ci_high)
    )
    n_train, seed = ("" if number is None else str(number) for number in (measurement.n_train, measurement.seed))
    return [
        measurement.encoder, measurement.metric, measurement.dataset, measurement.split, n_train, seed, value,
        measurement.unit, low, high, measurement.protocol, measurement.source, measurement.date,
    ]  # fmt: skip


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _known_metric(name: str) -> str:
    if name not in METRICS:
        raise UnknownName("metric", name, METRICS, hint="results/README.md explains them all.")
    return name


def _measurement(row: Row) -> Measurement:
    encoder, metric, dataset, split = row[:N_TRAIN]
    unit, (protocol, source, date) = row[VALUE + 1], row[CI_HIGH + 1 :]
    n_train, seed, low, high = row[N_TRAIN], row[SEED], row[CI_LOW], row[CI_HIGH]
    return Measurement(
        encoder=encoder,
        metric=metric,
        dataset=dataset,
        split=split,
        n_train=int(n_train) if n_train else None,
        seed=int(seed) if seed else None,
        value=float(row[VALUE]),
        unit=unit,
        ci_low=float(low) if low else None,
        ci_high=float(high) if high else None,
        protocol=protocol,
        source=source,
        date=date,
    )
