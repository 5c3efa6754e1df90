"""Calibrated learning curves from the rows of ``results/``, by data set, task and protocol, with draws of their risks.

A curve is the rows of one encoder, data set, metric and source by one protocol; its controls have the same options, but
for ``frozen``, and ``control``. Draws of mean risks are made from intervals of rows (test images: two half normal
distributions, fully correlated over seeds) and from the variance over seeds, pooled over all networks of a task with as
many labels (scaled chi squared). Equal rows give equal draws, such as of a shared control; all else is drawn
independently, so that intervals of differences between encoders are conservative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, get_args

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import read_measured_rows
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import Missing
from zoo.errors import DataError
from zoo.evaluation.bootstrap import N_DRAWS, Drawn, compute_share_beyond
from zoo.evaluation.curves.calibration import compute_improvements
from zoo.evaluation.curves.curve import CalibratedCurve, calibrated_curve
from zoo.evaluation.curves.recipe import TASKS, TransferTask, format_base_protocol
from zoo.optional import require_extra
from zoo.results.rows import Measurement, convert_measurement, measurements
from zoo.results.values import get_row_key
from zoo.results.vocabulary import find_split

with require_extra("study", needed_for="A study of learning curves"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ALL_LABELS = "train -> val"
CURVE_METRICS = tuple(dict.fromkeys(metric for task in TASKS.values() for metric in task.metrics))
HOW_TO_MEASURE = "run 'zoo curve NAME... DATA --task classification', or depth, or normals"
_TASK_OF = {format_base_protocol(task): task for task in TASKS.values()}
_OPTION = re.compile(r", (?=\w+=)")  # between options; a list among their values has commas too


@dataclass(frozen=True, slots=True)
class Run:
    """One row: what one trained network, or one control, got wrong."""

    n_requested: int
    n_actual: int | None  # labels; None of a recorded risk, and of a constant baseline without a count
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
    encoder_runs: tuple[tuple[Run, ...], ...]  # one tuple per regime, one run per seed
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
    """Rows of results that may belong to a curve: the shipped ones, and with ``with_mine`` those of the user."""
    keys = {get_row_key(row) for row in read_measured_rows(with_mine=with_mine, exclude_wrong=exclude_wrong)}
    return [one for one in measurements(metrics=CURVE_METRICS) if get_row_key(convert_measurement(one)) in keys]


def found_curves(rows: Iterable[Measurement]) -> FoundCurves:
    """The curves among rows, of each encoder those of the source that measured last; other protocols are skipped."""
    controls: dict[tuple[str, ...], list[Measurement]] = {}  # by all that an encoder shares with its controls
    encoder_rows: dict[tuple[str, ...], dict[str, list[Measurement]]] = {}  # by what a curve is, and by source
    for row in rows:
        protocol = parsed_protocol(row.protocol)
        if protocol is None or row.metric not in protocol.task.metrics:
            continue
        if protocol.control is None:
            key = (row.encoder, row.dataset, row.metric, row.protocol)
            encoder_rows.setdefault(key, {}).setdefault(row.source, []).append(row)
        else:
            controls.setdefault(_place_of(row, protocol), []).append(row)
    curves, refused = [], {}  # type: list[CurveRows], dict[tuple[str, str, str], tuple[str, ...]]
    for (_, dataset, metric, name), by_source in sorted(encoder_rows.items()):
        chosen = max(by_source.values(), key=lambda some: (max(row.date for row in some), some[0].source))
        curve = _curve(chosen, controls)
        if isinstance(curve, CurveRows):
            curves.append(curve)
        else:
            refused[dataset, metric, name] = (*refused.get((dataset, metric, name), ()), curve)
    return FoundCurves(curves=tuple(curves), refused=refused)


@dataclass(frozen=True, slots=True)
class Protocol:
    """The parts of a protocol's name."""

    task: TransferTask
    control: str | None  # None: of an encoder
    frozen: bool
    others: tuple[str, ...]  # options that an encoder and its controls have in common


def parsed_protocol(name: str) -> Protocol | None:
    """The parts of a name; None if it is not that of a curve.

    >>> found = parsed_protocol("zoo-curve-depth-1 (epochs=3.0, frozen=true, learning_rates=[0.001, 0.003])")
    >>> found.task.name, found.control, found.frozen, found.others
    ('depth', None, True, ('epochs=3.0', 'learning_rates=[0.001, 0.003]'))
    """
    base, _, listed = name.partition(" (")
    if base not in _TASK_OF:
        return None
    options = _OPTION.split(listed.removesuffix(")")) if listed else []
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
        shown = " and ".join(f"{size:,}" for size in sizes)
        return (
            f"{where}, with controls of {shown} images, which are several data sets under one name and no curve; "
            "measure each of them under a name of its own, by zoo curve --dataset."
        )
    trained, untrained = _by_regime(rows), _by_regime(scratch)
    regimes = sorted(trained.keys() & untrained.keys(), key=lambda regime: regime[::-1])
    if not regimes:
        return f"{where} in no regime in which scratch was trained; {HOW_TO_MEASURE} for it again."
    return CurveRows(
        encoder=first.encoder,
        task=protocol.task.name,
        metric=first.metric,
        unit=first.unit,
        dataset=first.dataset,
        protocol=first.protocol,
        frozen=protocol.frozen,
        source=first.source,
        regimes=tuple(regimes),
        encoder_runs=tuple(trained[regime] for regime in regimes),
        scratch_runs=tuple(untrained[regime] for regime in regimes),
        blind=_runs(blind),
        maximal=_runs(maximal),
        n_alone=len(trained.keys() - untrained.keys()),
    )


def _by_regime(rows: Iterable[Measurement]) -> dict[tuple[int, int], tuple[Run, ...]]:
    """Runs by the labels that were asked for and used; those without a count of labels are in no regime."""
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
    return find_split(row.split).n_train or 0


_Z_OF_95_PERCENT = 1.959963984540054  # of a normal distribution, 95 % lie so many deviations about its mean


def seed_variances(
    groups: Iterable[Sequence[Run]], *, whose: Sequence[str], seed: int = 0, n_draws: int = N_DRAWS
) -> Floats | None:
    """Draws of the variance over seeds, shape (n_draws,), in the squared unit of the runs; None with one seed each.

    Each group has the runs of one network; the same ones count once. ``whose`` keeps the draws of other groups apart.
    """
    several = sorted({tuple(runs) for runs in groups if len(runs) > 1}, key=repr)
    n_free = sum(len(runs) - 1 for runs in several)
    if not n_free:
        return None
    squares = sum(float(np.var([run.value for run in runs])) * len(runs) for runs in several)
    random = np.random.default_rng([seed, *_key([run for runs in several for run in runs], whose)])
    return np.asarray(squares / random.chisquare(n_free, size=n_draws))


def drawn_mean(
    runs: Sequence[Run], *, whose: Sequence[str], variances: Floats | None = None, seed: int = 0, n_draws: int = N_DRAWS
) -> Drawn:
    """The mean of runs that differ in their seed, with draws of it; ``variances`` are those of :func:`seed_variances`.

    ``whose`` keeps the draws of other runs with the same numbers apart. A recorded risk, without seed or interval, is
    exact; a run with a seed and no interval has no draws.
    """
    values = np.array([run.value for run in runs])  # (n_seeds,)
    mean = float(values.mean())
    if any(run.seed is not None and (run.ci_low is None or run.ci_high is None) for run in runs):
        return Drawn(value=mean)
    random = np.random.default_rng([seed, *_key(runs, whose)])
    normal = random.standard_normal(n_draws)
    down, up = (float(np.mean([_deviation(run, end) for run in runs])) for end in ("ci_low", "ci_high"))
    draws = mean + np.where(normal < 0, normal * down, normal * up)
    if variances is not None and runs[0].seed is not None:
        draws = draws + np.sqrt(variances / len(runs)) * random.standard_normal(n_draws)
    return Drawn(value=mean, draws=draws)


def mean_of(several: Sequence[Drawn]) -> Drawn:
    """Mean of several quantities, draw by draw; without draws if one of them has none."""
    return _combined(several, lambda values: values.mean(axis=-1))


def difference_of(one: Drawn, other: Drawn) -> Drawn:
    """The first less the second."""
    return _combined([one, other], lambda values: values[..., 0] - values[..., 1])


def spread_of(several: Sequence[Drawn]) -> Drawn:
    """Standard deviation of at least two quantities over each other, not over draws."""
    return _combined(several, lambda values: values.std(axis=-1, ddof=1))


def largest_of(several: Sequence[Drawn]) -> Drawn:
    """The largest of several quantities."""
    return _combined(several, lambda values: values.max(axis=-1))


def estimate_of(
    drawn: Drawn, *, term: str, outcome: str, n: int, unit: str, method: str, is_pulled: bool = False
) -> Estimate:
    """A quantity as a record, with its 95 % interval where at least 95 % of its draws are finite.

    ``is_pulled`` is for a spread or a maximum, which noise biases upwards: the interval is that of the basic bootstrap.
    """
    draws = drawn.draws[np.isfinite(drawn.draws)]
    beyond = compute_share_beyond(len(draws), len(drawn.draws))
    if beyond is None:
        note = "undefined in too many draws" if len(drawn.draws) else "a run has no interval"
        return Estimate(term=term, value=drawn.value, n=n, unit=unit, outcome=outcome, method=method, note=note)
    placed = 2 * drawn.value - draws if is_pulled else draws
    low, high = (float(end) for end in np.percentile(placed, [100 * beyond, 100 * (1 - beyond)]))
    if is_pulled and draws.min() >= 0:
        low = max(low, 0.0)  # as of a deviation, which is never below
    return Estimate(term=term, n=n, unit=unit, outcome=outcome, method=method).with_value(
        drawn.value, (min(low, drawn.value), max(high, drawn.value))
    )


def _combined(several: Sequence[Drawn], of: Callable[[Floats], Floats]) -> Drawn:
    value = float(of(np.array([one.value for one in several])))
    if not all(len(one.draws) for one in several):
        return Drawn(value=value)
    return Drawn(value=value, draws=of(np.stack([one.draws for one in several], axis=-1)))


def _deviation(run: Run, end: str) -> float:
    """Standard deviation on one side of the value; 0 without an interval."""
    limit = getattr(run, end)
    return 0.0 if limit is None else abs(float(limit) - run.value) / _Z_OF_95_PERCENT


def _key(runs: Sequence[Run], whose: Sequence[str]) -> list[int]:
    """Numbers for a random generator that are the same for the same rows, whatever was asked for when they were
    measured.
    """
    numbers = [(run.n_actual, run.seed, run.value, run.ci_low, run.ci_high) for run in runs]
    digest = blake2b(repr((list(whose), numbers)).encode(), digest_size=16).digest()
    return [int.from_bytes(digest[start : start + 4], "little") for start in range(0, 16, 4)]


Kind = Literal["contrastive", "non-contrastive", "supervised", "untrained", "unknown"]  # unknown: a user's, in no group
_NOT_CONTRASTIVE = ("generative", "transform")  # pretext tasks; the paper counts SwAV, SimSiam and Barlow Twins as such
_KIND_OF_OTHER_MODES: dict[str, Kind] = {"supervised": "supervised", "initialized": "untrained"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredCurve:
    """One encoder's curve, with the draws that its intervals come from."""

    rows: CurveRows
    kind: Kind
    curve: CalibratedCurve
    calibrated: tuple[Drawn, ...]  # one a regime
    calibrated_scratch: tuple[Drawn, ...]
    improvement: Drawn | None  # None where it is not identified

    @property
    def encoder(self) -> str:
        """Id of its card."""
        return self.rows.encoder

    @property
    def gains(self) -> tuple[Drawn, ...]:
        """Calibrated risk of scratch less that of the encoder, one a regime; above 0 the encoder is better."""
        return tuple(map(difference_of, self.calibrated_scratch, self.calibrated))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """The curves of one metric on one data set by one protocol, one an encoder."""

    dataset: str
    task: str
    metric: str
    protocol: str
    curves: tuple[MeasuredCurve, ...]
    refused: tuple[str, ...] = ()
    is_only: bool = False  # no other protocol has this metric on this data set, so that its name needs no options

    @property
    def is_dense(self) -> bool:
        """True if the task has a map an image."""
        return TASKS[self.task].is_dense

    @property
    def name(self) -> str:
        """The words for it in tables, with metric and options where other panels have the same task and data set."""
        options = "" if self.is_only else self.protocol.partition(" (")[2].removesuffix(")")
        others = [words for words in (self.metric * (self.metric != TASKS[self.task].metrics[0]), options) if words]
        return f"{self.task} on {self.dataset}" + (f" ({', '.join(others)})" if others else "")

    def of(self, *kinds: Kind) -> tuple[MeasuredCurve, ...]:
        """The curves of encoders of these kinds."""
        return tuple(curve for curve in self.curves if curve.kind in kinds)


def kind_of(encoder: str) -> Kind:
    """The paper's name for the pre-training of an encoder; clustering and siamese methods count as contrastive.

    >>> kind_of("pocket_vicreg_rn_shapes"), kind_of("pocket_mae_vit_shapes"), kind_of("pocket_sup_rn_shapes")
    ('contrastive', 'non-contrastive', 'supervised')
    """
    mode = load_catalogue()[encoder].objective.mode
    if isinstance(mode, Missing):
        return "unknown"
    return _KIND_OF_OTHER_MODES.get(mode, "non-contrastive" if mode in _NOT_CONTRASTIVE else "contrastive")


def panels_of(found: FoundCurves, *, seed: int = 0, n_draws: int = N_DRAWS) -> tuple[Panel, ...]:
    """All curves, by task, data set and protocol; a panel has no curve if all of its rows were refused."""
    together: dict[tuple[str, str, str], list[CurveRows]] = {}
    for rows in found.curves:
        together.setdefault((rows.dataset, rows.metric, rows.protocol), []).append(rows)
    curves: dict[tuple[str, str, str], list[MeasuredCurve]] = {}
    refused = {place: list(sentences) for place, sentences in found.refused.items()}
    for place, peers in together.items():
        for rows in peers:
            try:
                one = measured_curve(rows, peers=peers, seed=seed, n_draws=n_draws)
            except DataError as error:
                refused.setdefault(place, []).append(f"{rows.encoder}, {rows.metric} on {rows.dataset}: {error}")
            else:
                curves.setdefault(place, []).append(one)
    tasks = {metric: task for task in TASKS.values() for metric in task.metrics}
    order = list(tasks)
    places = sorted({**curves, **refused}, key=lambda place: (place[0], order.index(place[1]), place[2]))
    return tuple(
        Panel(
            dataset=place[0],
            task=tasks[place[1]].name,
            metric=place[1],
            protocol=place[2],
            curves=tuple(sorted(curves.get(place, ()), key=_order)),
            refused=tuple(refused.get(place, ())),
            is_only=sum(other[:2] == place[:2] for other in places) == 1,
        )
        for place in places
    )


def measured_curve(
    rows: CurveRows, *, peers: Sequence[CurveRows] = (), seed: int = 0, n_draws: int = N_DRAWS
) -> MeasuredCurve:
    """The calibrated curve of rows; ``peers`` are the curves of the same task, which pool the variance over seeds.

    DataError where maximal supervision is no better than the constant baseline.
    """
    where = (rows.dataset, rows.metric)
    most = max(n for _, n in rows.regimes)

    def drawn(runs: Sequence[Run], n_labels: int | None, *whose: str) -> Drawn:
        groups = _with_labels(peers or [rows], n_labels, most)
        variances = seed_variances(groups, whose=where, seed=seed, n_draws=n_draws)
        return drawn_mean(runs, whose=(*where, *whose), variances=variances, seed=seed, n_draws=n_draws)

    labels = [n for _, n in rows.regimes]
    risks = [drawn(runs, n, rows.encoder) for runs, n in zip(rows.encoder_runs, labels, strict=True)]
    scratch = [drawn(runs, n) for runs, n in zip(rows.scratch_runs, labels, strict=True)]  # alike for every encoder
    blind, maximal = drawn(rows.blind, None), drawn(rows.maximal, rows.maximal[0].n_actual)
    counted = [run.n_actual for run in rows.maximal if run.n_actual is not None]
    curve = calibrated_curve(
        encoder=rows.encoder,
        task=rows.task,
        metric=rows.metric,
        unit=rows.unit,
        dataset=rows.dataset,
        protocol=rows.protocol,
        frozen=rows.frozen,
        regimes=rows.regimes,
        risks=risks,
        scratch=scratch,
        blind=blind,
        maximal=maximal,
        n_seeds=[min(map(len, both)) for both in zip(rows.encoder_runs, rows.scratch_runs, strict=True)],
        maximal_n=max(counted, default=None),
    )
    calibrated = tuple(_calibrated(risk, blind, maximal) for risk in risks)
    untrained = tuple(_calibrated(risk, blind, maximal) for risk in scratch)
    return MeasuredCurve(
        rows=rows,
        kind=kind_of(rows.encoder),
        curve=curve,
        calibrated=calibrated,
        calibrated_scratch=untrained,
        improvement=_improvement(curve, calibrated, untrained),
    )


def main_panels(panels: Iterable[Panel]) -> tuple[Panel, ...]:
    """One panel a task and data set, for claims: of its first metric, fine-tuned if possible, of most encoders."""
    chosen: dict[tuple[str, str], Panel] = {}

    def preference(panel: Panel) -> tuple[bool, int, int, str]:
        frozen = panel.curves[0].rows.frozen
        return frozen, -len(panel.curves), len(panel.protocol), panel.protocol

    for panel in panels:
        if panel.curves and panel.metric == TASKS[panel.task].metrics[0]:
            place = panel.dataset, panel.task
            chosen[place] = min(chosen.get(place, panel), panel, key=preference)
    return tuple(replace(panel, is_only=True) for panel in chosen.values())


def _order(curve: MeasuredCurve) -> tuple[int, str]:
    return get_args(Kind).index(curve.kind), curve.encoder


def _calibrated(risk: Drawn, blind: Drawn, maximal: Drawn) -> Drawn:
    """Eq. 2, draw by draw; NaN where a draw has maximal supervision no better than the constant baseline."""
    value = (risk.value - maximal.value) / (blind.value - maximal.value)
    if not (len(risk.draws) and len(blind.draws) and len(maximal.draws)):
        return Drawn(value=value)
    scale = blind.draws - maximal.draws
    return Drawn(value=value, draws=(risk.draws - maximal.draws) / np.where(scale > 0, scale, np.nan))


def _with_labels(peers: Iterable[CurveRows], n_labels: int | None, most: int) -> list[tuple[Run, ...]]:
    """Runs of networks with so many labels; of maximal supervision with more than any, those with the most as well."""
    if n_labels is None:
        return []
    networks = []
    for rows in peers:
        for (_, n), pretrained, scratch in zip(rows.regimes, rows.encoder_runs, rows.scratch_runs, strict=True):
            if n == n_labels or n == most < n_labels:
                networks += [pretrained, scratch]
        if rows.maximal[0].n_actual == n_labels:
            networks.append(rows.maximal)
    return networks


def _improvement(curve: CalibratedCurve, pretrained: Sequence[Drawn], scratch: Sequence[Drawn]) -> Drawn | None:
    if curve.improvement is None:
        return None
    several = [*pretrained, *scratch]
    if not all(len(one.draws) for one in several):
        return Drawn(value=curve.improvement.value)
    draws = [np.stack([one.draws for one in some], axis=1) for some in (pretrained, scratch)]  # (n_draws, n_regimes)
    return Drawn(value=curve.improvement.value, draws=compute_improvements(*draws))
