"""Calibrated learning curves of all encoders that were measured, by data set, task and protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..cards import catalogue
from ..errors import DataError
from ..evaluation.curves.curve import CalibratedCurve, Drawn, calibrated_curve
from ..evaluation.curves.improvement import cumulative_improvements
from ..evaluation.curves.tasks import TASKS
from ..evaluation.intervals import N_DRAWS
from ..metadata import Missing
from ..optional import requires_extra
from .curve_draws import difference_of, drawn_mean, seed_variances
from .curve_rows import CurveRows, FoundCurves, Run

with requires_extra("study", needed_for="A study of learning curves"):
    import numpy as np

Kind = Literal["contrastive", "non-contrastive", "supervised", "untrained", "unknown"]  # unknown: a user's, in no group
_NOT_CONTRASTIVE = ("generative", "transform")  # pretext tasks; the paper counts SwAV, SimSiam and Barlow Twins as such
_OTHERS: dict[str, Kind] = {"supervised": "supervised", "initialized": "untrained"}


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
    is_only: bool = False  # no other protocol has this metric on this data set, so that its options need not be told

    @property
    def is_dense(self) -> bool:
        """True if the task has a map an image."""
        return TASKS[self.task].is_dense

    @property
    def name(self) -> str:
        """The words for it in tables.

        It tells the options of the protocol where there is another, and the metric where it is not the task's first.
        """
        options = "" if self.is_only else self.protocol.partition(" (")[2].removesuffix(")")
        others = [words for words in (self.metric * (self.metric != TASKS[self.task].metrics[0]), options) if words]
        return f"{self.task} on {self.dataset}" + (f" ({', '.join(others)})" if others else "")

    def of(self, *kinds: Kind) -> tuple[MeasuredCurve, ...]:
        """The curves of encoders of these kinds."""
        return tuple(curve for curve in self.curves if curve.kind in kinds)


def kind_of(encoder: str) -> Kind:
    """What the paper would call the pre-training of an encoder.

    It calls contrastive whatever learns that views of one image belong together, clusterings and siamese networks
    included; everything else without labels is a pretext task.

    >>> kind_of("pocket_vicreg_rn_shapes"), kind_of("pocket_mae_vit_shapes"), kind_of("pocket_sup_rn_shapes")
    ('contrastive', 'non-contrastive', 'supervised')
    """
    mode = catalogue()[encoder].objective.mode
    if isinstance(mode, Missing):
        return "unknown"
    return _OTHERS.get(mode, "non-contrastive" if mode in _NOT_CONTRASTIVE else "contrastive")


def panels_of(found: FoundCurves, *, seed: int = 0, n_draws: int = N_DRAWS) -> tuple[Panel, ...]:
    """All curves, by task, data set and protocol; a panel may be without any, if all of its rows were refused.

    Parameters
    ----------
    found : FoundCurves
    seed : int
        Of the draws.
    n_draws : int
    """
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
            dataset=place[0], task=tasks[place[1]].name, metric=place[1], protocol=place[2],
            curves=tuple(sorted(curves.get(place, ()), key=_order)), refused=tuple(refused.get(place, ())),
            is_only=sum(other[:2] == place[:2] for other in places) == 1,
        )
        for place in places
    )  # fmt: skip


def measured_curve(
    rows: CurveRows, *, peers: Sequence[CurveRows] = (), seed: int = 0, n_draws: int = N_DRAWS
) -> MeasuredCurve:
    """The calibrated curve of rows.

    Parameters
    ----------
    rows : CurveRows
    peers : sequence of CurveRows
        The curves of the same task, whose seeds tell how much networks vary; only ``rows`` by default.
    seed : int
        Of the draws.
    n_draws : int

    Raises
    ------
    DataError
        If the rows cannot be calibrated, as where maximal supervision is no better than the blind guess.
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
        encoder=rows.encoder, task=rows.task, metric=rows.metric, unit=rows.unit, dataset=rows.dataset,
        protocol=rows.protocol, frozen=rows.frozen, regimes=rows.regimes, risks=risks, scratch=scratch, blind=blind,
        maximal=maximal, n_seeds=[min(map(len, both)) for both in zip(rows.encoder_runs, rows.scratch_runs,
                                                                     strict=True)],
        maximal_n=max(counted, default=None),
    )  # fmt: skip
    own = tuple(_calibrated(risk, blind, maximal) for risk in risks)
    untrained = tuple(_calibrated(risk, blind, maximal) for risk in scratch)
    return MeasuredCurve(
        rows=rows, kind=kind_of(rows.encoder), curve=curve, calibrated=own, calibrated_scratch=untrained,
        improvement=_improvement(curve, own, untrained),
    )  # fmt: skip


def main_panels(panels: Iterable[Panel]) -> tuple[Panel, ...]:
    """One panel a task and data set, which claims are held against.

    Of its first metric; fine-tuned, as in the paper, if there is such a one; by the protocol that most encoders have,
    and of several the one with the shortest name.
    """
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
    """Eq. 2, draw by draw; NaN where a draw has maximal supervision no better than the blind guess."""
    value = (risk.value - maximal.value) / (blind.value - maximal.value)
    if not (len(risk.draws) and len(blind.draws) and len(maximal.draws)):
        return Drawn(value=value)
    scale = blind.draws - maximal.draws
    return Drawn(value=value, draws=(risk.draws - maximal.draws) / np.where(scale > 0, scale, np.nan))


def _with_labels(peers: Iterable[CurveRows], n_labels: int | None, most: int) -> list[tuple[Run, ...]]:
    """Runs of networks with so many labels; of maximal supervision with more than any, those with the most as well."""
    if n_labels is None:
        return []
    found = []
    for rows in peers:
        for (_, n), own, scratch in zip(rows.regimes, rows.encoder_runs, rows.scratch_runs, strict=True):
            if n == n_labels or n == most < n_labels:
                found += [own, scratch]
        if rows.maximal[0].n_actual == n_labels:
            found.append(rows.maximal)
    return found


def _improvement(curve: CalibratedCurve, own: Sequence[Drawn], scratch: Sequence[Drawn]) -> Drawn | None:
    if curve.improvement is None:
        return None
    several = [*own, *scratch]
    if not all(len(one.draws) for one in several):
        return Drawn(value=curve.improvement.value)
    draws = [np.stack([one.draws for one in some], axis=1) for some in (own, scratch)]  # (n_draws, n_regimes)
    return Drawn(value=curve.improvement.value, draws=cumulative_improvements(*draws))
