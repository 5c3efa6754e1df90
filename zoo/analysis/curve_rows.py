"""Learning curves among the rows of ``results/``: the runs of an encoder, and those of its controls.

A curve is the rows of one encoder, data set, metric and source whose protocol is of one task and one recipe. Its
controls have the protocol with the same options, but for ``frozen``, which no control has, and with ``control``. Rows
that are no curve yet, for a control is missing, are told and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..evaluation.curves.recipe import base_protocol
from ..evaluation.curves.tasks import TASKS, Task
from ..measurements import Measurement, measurements, row_of
from ..resultchecks import key_of
from ..vocabulary import known_split
from .label_free_measured import measured_rows

ALL_LABELS = "train -> val"
CURVE_METRICS = tuple(dict.fromkeys(metric for task in TASKS.values() for metric in task.metrics))
HOW_TO_MEASURE = "run 'zoo curve NAME... DATA --task classification', or depth, or normals"
_TASK_OF = {base_protocol(task): task for task in TASKS.values()}
_OPTION = re.compile(r", (?=\w+=)")  # between options; a list among their values has commas too


@dataclass(frozen=True, slots=True)
class Run:
    """One row: what one trained network, or one control, got wrong."""

    n_requested: int
    n_actual: int | None  # labels; None of a recorded risk, and of a blind guess that nobody counted
    seed: int | None
    value: float
    ci_low: float | None
    ci_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRows:
    """All rows of one curve, in the order of its regimes."""

    encoder: str
    task: str
    metric: str
    unit: str
    dataset: str
    protocol: str  # of the encoder's rows
    frozen: bool
    source: str
    regimes: tuple[tuple[int, int], ...]  # labels that were asked for and that were used, ascending
    encoder_runs: tuple[tuple[Run, ...], ...]  # one tuple a regime, one run a seed
    scratch_runs: tuple[tuple[Run, ...], ...]
    blind: tuple[Run, ...]
    maximal: tuple[Run, ...]
    n_alone: int = 0  # regimes of the encoder that scratch was not trained in


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCurves:
    """What results have of learning curves."""

    curves: tuple[CurveRows, ...] = ()
    refused: Mapping[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    """(data set, metric, protocol) -> a sentence for each encoder whose rows are no curve, with what is missing."""


def curve_measurements(*, with_mine: bool = False, exclude_wrong: bool = False) -> list[Measurement]:
    """Rows of results that may belong to a curve: the shipped ones, and with ``with_mine`` those of the user.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    """
    kept = {key_of(row) for row in measured_rows(with_mine=with_mine, exclude_wrong=exclude_wrong)}
    return [one for one in measurements(metrics=CURVE_METRICS) if key_of(row_of(one)) in kept]


def found_curves(rows: Iterable[Measurement]) -> FoundCurves:
    """The curves among rows, of each encoder those of the source that measured last.

    Parameters
    ----------
    rows : iterable of Measurement
        In any order; those of other protocols than curves' are passed over.
    """
    controls: dict[tuple[str, ...], list[Measurement]] = {}  # by all that an encoder shares with its controls
    own: dict[tuple[str, ...], dict[str, list[Measurement]]] = {}  # by what a curve is, and by source
    for row in rows:
        protocol = parsed_protocol(row.protocol)
        if protocol is None or row.metric not in protocol.task.metrics:
            continue
        if protocol.control is None:
            key = (row.encoder, row.dataset, row.metric, row.protocol)
            own.setdefault(key, {}).setdefault(row.source, []).append(row)
        else:
            controls.setdefault(_place_of(row, protocol), []).append(row)
    curves, refused = [], {}  # type: list[CurveRows], dict[tuple[str, str, str], tuple[str, ...]]
    for (_, dataset, metric, name), by_source in sorted(own.items()):
        chosen = max(by_source.values(), key=lambda some: (max(row.date for row in some), some[0].source))
        found = _curve(chosen, controls)
        if isinstance(found, CurveRows):
            curves.append(found)
        else:
            refused[dataset, metric, name] = (*refused.get((dataset, metric, name), ()), found)
    return FoundCurves(curves=tuple(curves), refused=refused)


@dataclass(frozen=True, slots=True)
class Protocol:
    """What the name of a protocol says."""

    task: Task
    control: str | None  # None: of an encoder
    frozen: bool
    others: tuple[str, ...]  # options that an encoder and its controls have in common


def parsed_protocol(name: str) -> Protocol | None:
    """The parts of a name; None if it is not that of a curve.

    >>> found = parsed_protocol("zoo-curve-depth-1 (epochs=3.0, frozen=true, learning_rates=[0.001, 0.003])")
    >>> found.task.name, found.control, found.frozen, found.others
    ('depth', None, True, ('epochs=3.0', 'learning_rates=[0.001, 0.003]'))
    """
    base, _, told = name.partition(" (")
    if base not in _TASK_OF:
        return None
    options = _OPTION.split(told.removesuffix(")")) if told else []
    named = dict(option.split("=", 1) for option in options)
    others = tuple(option for option in options if option.split("=", 1)[0] not in ("control", "frozen"))
    return Protocol(_TASK_OF[base], named.get("control"), named.get("frozen") == "true", others)


def _place_of(row: Measurement, protocol: Protocol, control: str | None = None) -> tuple[str, ...]:
    which = control or protocol.control or ""
    options = () if which == "blind" else protocol.others  # nothing is trained
    return (row.encoder, row.dataset, row.metric, row.source, protocol.task.name, which, *options)


def _curve(rows: Sequence[Measurement], controls: Mapping[tuple[str, ...], list[Measurement]]) -> CurveRows | str:
    first = rows[0]
    protocol = parsed_protocol(first.protocol)
    assert protocol is not None  # as they were chosen
    scratch, maximal, blind = (
        controls.get(_place_of(first, protocol, name), []) for name in ("scratch", "maximal", "blind")
    )
    where = f"{first.encoder} has {first.metric} on {first.dataset} by {first.protocol!r}"
    lacking = [name for name, some in (("scratch", scratch), ("maximal", maximal), ("blind", blind)) if not some]
    if lacking:
        return f"{where}, but no rows with control={' and control='.join(lacking)}; {HOW_TO_MEASURE} for it again."
    maximal = [row for row in maximal if row.seed is not None] or maximal  # a recorded risk is none of its seeds
    sizes = sorted({row.n_train for row in (*blind, *(row for row in maximal if row.seed is not None)) if row.n_train})
    if len(sizes) > 1:  # rows tell no other trace of it
        told = " and ".join(f"{size:,}" for size in sizes)
        return (
            f"{where}, with controls of {told} images, which are several data sets under one name and no curve; "
            "measure each of them under a name of its own, by zoo curve --dataset."
        )
    trained, untrained = _by_regime(rows), _by_regime(scratch)
    regimes = sorted(trained.keys() & untrained.keys(), key=lambda regime: regime[::-1])
    if not regimes:
        return f"{where} in no regime in which scratch was trained; {HOW_TO_MEASURE} for it again."
    return CurveRows(
        encoder=first.encoder, task=protocol.task.name, metric=first.metric, unit=first.unit, dataset=first.dataset,
        protocol=first.protocol, frozen=protocol.frozen, source=first.source, regimes=tuple(regimes),
        encoder_runs=tuple(trained[regime] for regime in regimes),
        scratch_runs=tuple(untrained[regime] for regime in regimes),
        blind=_runs(blind), maximal=_runs(maximal), n_alone=len(trained.keys() - untrained.keys()),
    )  # fmt: skip


def _by_regime(rows: Iterable[Measurement]) -> dict[tuple[int, int], tuple[Run, ...]]:
    """Runs by the labels that were asked for and used; those that nobody counted are in no regime."""
    groups: dict[tuple[int, int], list[Measurement]] = {}
    for row in rows:
        if row.n_train is not None:
            groups.setdefault((_requested(row), row.n_train), []).append(row)
    return {regime: _runs(some) for regime, some in groups.items()}


def _runs(rows: Iterable[Measurement]) -> tuple[Run, ...]:
    return tuple(
        Run(_requested(row), row.n_train, row.seed, row.value, row.ci_low, row.ci_high)
        for row in sorted(rows, key=lambda row: (row.seed is not None, row.seed or 0))
    )


def _requested(row: Measurement) -> int:
    """Labels that were asked for; all of them are those that were used."""
    if row.split == ALL_LABELS:
        return row.n_train or 0
    return known_split(row.split).n_train or 0
