"""What was measured: rows of ``results/`` as values, and the risks of each encoder derived from them.

The decomposition of the full-shot error is derived here from the raw risks and never clipped: a component may be
negative, and the components sum to the full-shot error. With R_PhiF the training error of a supervised network of the
same architecture, R_AF the error of a probe on its own training images, R_AS its error on held-out training images and
R_US the full-shot error on the validation images::

    approximation          = R_PhiF
    usability              = R_AF - R_PhiF
    probe_generalization   = R_AS - R_AF
    encoder_generalization = R_US - R_AS

An encoder without a supervised twin has only the sum of the first two, R_AF.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import resultfiles as files
from .cards import catalogue
from .errors import QueryError, UnknownName
from .metadata import NOT_PUBLISHED, Maybe, Missing
from .resultfiles import ResultErratum, Row, errata
from .vocabulary import IMAGENET, METRICS, SPLITS

__all__ = [
    "METRICS",
    "PUBLISHED_SOURCE",
    "SETTINGS",
    "SPLITS",
    "Measurement",
    "ResultErratum",
    "RiskDecomposition",
    "Setting",
    "Summary",
    "errata",
    "measurements",
    "summaries",
]

PUBLISHED_SOURCE = "arXiv:2302.03068"
ASSUMED_ZERO = "assumed zero"  # protocol of a twin that was not measured
_PROBE, _TWIN = "linear_probe_error", "supervised_twin_error"
_FULL_SHOT = "train -> val"
_OWN_TRAINING_SET = "train -> train"
_HELD_OUT = "train minus subset -> subset"
_RISKS = (_PROBE, _TWIN, "probe_generalization", "encoder_generalization")


@dataclass(frozen=True, slots=True)
class Setting:
    """How many labels a probe had; the published table has one column for each setting."""

    name: str
    column: str  # in results_df
    n_labels: int
    split: str  # in the rows


SETTINGS = (
    Setting("100%", "train_test", 1_281_167, _FULL_SHOT),
    Setting("30-shot", "train-nperclass-30_test", 30_000, "train 30-shot -> val"),
    Setting("1%", "train-balsbst-ntrain0.01_test", 12_811, "train 1% -> val"),
    Setting("5-shot", "train-nperclass-5_test", 5_000, "train 5-shot -> val"),
    Setting("3-shot", "train-nperclass-3_test", 3_000, "train 3-shot -> val"),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of a results file; ``results/README.md`` explains the columns."""

    encoder: str
    metric: str
    dataset: str
    split: str
    n_train: int | None  # None: no probe was trained
    seed: int | None  # None: unknown
    value: float
    unit: str
    ci_low: float | None  # None: no interval was stated
    ci_high: float | None
    protocol: str
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskDecomposition:
    """Parts of the full-shot error in percentage points, signed; lower is better."""

    approximation: Maybe[float]
    usability: Maybe[float]
    approximation_plus_usability: float
    probe_generalization: float
    encoder_generalization: float
    approximation_assumed: bool  # the approximation is 0 by assumption, not by measurement

    @property
    def full_shot_error(self) -> float:
        """Sum of the components, in percent."""
        return self.approximation_plus_usability + self.probe_generalization + self.encoder_generalization


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The ImageNet-1K risks of one encoder."""

    encoder: str
    errors: dict[str, float]  # by name of the setting, in percent; only settings that were measured
    decomposition: RiskDecomposition | None  # None if the risks it needs were not measured
    errata: tuple[ResultErratum, ...]  # those that name this encoder


def measurements(
    *, metrics: Iterable[str] | None = None, encoders: Iterable[str] | None = None, exclude_wrong: bool = False
) -> list[Measurement]:
    """Rows of all results files, the shipped ones first, then the user's.

    Parameters
    ----------
    metrics, encoders : iterable of str, optional
        Only these; the case of an encoder's id does not matter.
    exclude_wrong : bool
        Without the rows that an erratum excludes.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    UnknownName
        If there is no such metric or encoder.
    """
    wanted = None if metrics is None else _known_metrics(metrics)
    cards = catalogue()
    ids = None if encoders is None else {cards.id_of(name) for name in encoders}
    rows = files.read_rows(wanted)
    if ids is not None:
        rows = [row for row in rows if row[files.ENCODER] in ids]
    if exclude_wrong:
        rows = _without_wrong(rows, errata())
    return [_measurement(row) for row in rows]


def summaries(*, exclude_wrong: bool = False, source: str | None = None) -> dict[str, Summary]:
    """The ImageNet-1K risks of every encoder that has any, in the order of the rows.

    All linear-probe errors of one encoder come from one campaign, which is one source and one protocol. Without
    ``source`` that is the published one where there is one, else the newest by date, and of several of the same date
    the one that is read last. Rows that differ only in their seed are averaged.

    Parameters
    ----------
    exclude_wrong : bool
        Without the rows that an erratum excludes.
    source : str, optional
        Only rows of this source.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    QueryError
        If no row comes from ``source``.
    """
    rows = [row for row in files.read_rows(_RISKS) if row[files.DATASET] == IMAGENET]
    known_errata = errata()
    if source is not None:
        sources = sorted({row[files.SOURCE] for row in rows})
        if source not in sources:
            raise QueryError(f"No ImageNet-1K risk comes from the source {source!r}, expected one of {sources}.")
        rows = [row for row in rows if row[files.SOURCE] == source]
    if exclude_wrong:
        rows = _without_wrong(rows, known_errata)
    by_encoder: dict[str, list[Row]] = {}
    for row in rows:
        by_encoder.setdefault(row[files.ENCODER], []).append(row)
    named: dict[str, list[ResultErratum]] = {}
    for erratum in known_errata:
        named.setdefault(erratum.encoder, []).append(erratum)
    found = {}
    for encoder, own in by_encoder.items():
        risks = _risks_of_one_campaign(own)
        if risks:
            found[encoder] = _summary(encoder, risks, tuple(named.get(encoder, ())))
    return found


Risks = dict[tuple[str, str], tuple[float, str]]  # metric, split -> mean over seeds, protocol


def _risks_of_one_campaign(rows: Sequence[Row]) -> Risks:
    probes = [row for row in rows if row[files.METRIC] == _PROBE]
    if not probes:
        return {}
    best = _preferred(probes)
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row[files.SOURCE] != best[files.SOURCE]:
            continue
        if row[files.METRIC] == _PROBE and row[files.PROTOCOL] != best[files.PROTOCOL]:
            continue
        key = (row[files.METRIC], row[files.SPLIT], row[files.PROTOCOL])
        values.setdefault(key, []).append(float(row[files.VALUE]))
    return {(metric, split): (sum(seeds) / len(seeds), protocol) for (metric, split, protocol), seeds in values.items()}


def _preferred(rows: Sequence[Row]) -> Row:
    """The row whose source and protocol are taken: the published one, else the newest, else the last."""
    best = rows[0]
    for row in rows[1:]:
        if _precedence(row) >= _precedence(best):
            best = row
    return best


def _precedence(row: Row) -> tuple[bool, str]:
    return row[files.SOURCE] == PUBLISHED_SOURCE, row[files.DATE]


def _summary(encoder: str, risks: Risks, found: tuple[ResultErratum, ...]) -> Summary:
    errors = {setting.name: risks[_PROBE, setting.split][0] for setting in SETTINGS if (_PROBE, setting.split) in risks}
    return Summary(encoder=encoder, errors=errors, decomposition=_decomposition(risks), errata=found)


def _decomposition(risks: Risks) -> RiskDecomposition | None:
    """The components from the raw risks; from the published components where the raw risks were never published."""
    value = {key: pair[0] for key, pair in risks.items()}
    full_shot = value.get((_PROBE, _FULL_SHOT))
    own, held_out = value.get((_PROBE, _OWN_TRAINING_SET)), value.get((_PROBE, _HELD_OUT))
    if full_shot is None:
        return None
    if own is not None and held_out is not None:
        probe, encoder = held_out - own, full_shot - held_out
    elif ("probe_generalization", _FULL_SHOT) in value and ("encoder_generalization", _FULL_SHOT) in value:
        probe, encoder = value["probe_generalization", _FULL_SHOT], value["encoder_generalization", _FULL_SHOT]
        own = full_shot - probe - encoder
    else:
        return None
    twin, protocol = risks.get((_TWIN, _OWN_TRAINING_SET), (NOT_PUBLISHED, ""))
    return RiskDecomposition(
        approximation=twin,
        usability=NOT_PUBLISHED if isinstance(twin, Missing) else own - twin,
        approximation_plus_usability=own,
        probe_generalization=probe,
        encoder_generalization=encoder,
        approximation_assumed=protocol == ASSUMED_ZERO,
    )


def _without_wrong(rows: Iterable[Row], known_errata: Iterable[ResultErratum]) -> list[Row]:
    wrong = [erratum for erratum in known_errata if erratum.exclude]
    return [row for row in rows if not any(erratum.covers(row[files.ENCODER], row[files.METRIC]) for erratum in wrong)]


def _known_metrics(names: Iterable[str]) -> list[str]:
    wanted = list(names)
    for name in wanted:
        if name not in METRICS:
            raise UnknownName("metric", name, METRICS, hint="results/README.md explains them all.")
    return wanted


def _measurement(row: Row) -> Measurement:
    n_train, seed, low, high = row[files.N_TRAIN], row[files.SEED], row[files.CI_LOW], row[files.CI_HIGH]
    return Measurement(
        encoder=row[files.ENCODER],
        metric=row[files.METRIC],
        dataset=row[files.DATASET],
        split=row[files.SPLIT],
        n_train=int(n_train) if n_train else None,
        seed=int(seed) if seed else None,
        value=float(row[files.VALUE]),
        unit=row[files.UNIT],
        ci_low=float(low) if low else None,
        ci_high=float(high) if high else None,
        protocol=row[files.PROTOCOL],
        source=row[files.SOURCE],
        date=row[files.DATE],
    )
