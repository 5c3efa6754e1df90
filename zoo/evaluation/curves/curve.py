"""A calibrated learning curve: every number of one encoder on one task, from its risks and those of its controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import DataError
from ..intervals import Interval
from .calibration import no_scale
from .curve_notes import Lost, notes_of
from .draws import Drawn as Drawn
from .draws import calibrated_draws, improvement_draws, interval_of, n_lost, relative_draws, scratch_ends
from .savings import Bound, labels_saved


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One data regime of a calibrated learning curve.

    Attributes
    ----------
    n_requested, n_actual : int
        Labels that were asked for, and that were used.
    n_seeds : int
        Runs behind the means.
    risk, risk_scratch : Interval
        Of the encoder and of scratch, in the curve's unit; lower is better.
    calibrated, calibrated_scratch : Interval
        The same between blind guess (1) and maximal supervision (0).
    relative_improvement : Interval or None
        (calibrated_scratch - calibrated) / calibrated_scratch, the share of scratch's risk that the encoder takes
        away; higher is better. None where scratch is no worse than maximal supervision, so that nothing is left.
    scratch_n : float or None
        Labels that scratch needs for the encoder's risk; None where only a bound is known.
    scratch_bound : "=", ">" or "<"
        Whether scratch needs as many labels as ``scratch_limit``, more, or fewer.
    scratch_limit : float
        ``scratch_n``, or the most or the fewest labels that scratch was measured with.
    scratch_n_low, scratch_n_high : float or None
        95 % interval of the labels that scratch needs; None for an end beyond what was measured, or without draws.
    share_saved : float
        1 - n_actual / scratch_limit, with the same bound: the share of scratch's labels that is saved.
    """

    n_requested: int
    n_actual: int
    n_seeds: int
    risk: Interval
    risk_scratch: Interval
    calibrated: Interval
    calibrated_scratch: Interval
    relative_improvement: Interval | None
    scratch_n: float | None
    scratch_bound: Bound
    scratch_limit: float
    scratch_n_low: float | None
    scratch_n_high: float | None
    share_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCurve:
    """What an encoder is worth on a task, over several data regimes.

    Attributes
    ----------
    encoder, task, metric, unit, dataset, protocol : str
        The unit is that of the risks.
    frozen : bool
        Whether the encoder stayed as it was while its decoder was trained.
    blind, maximal : Interval
        Risks of the controls.
    points : tuple of CurvePoint
        The regimes, from the fewest labels to the most.
    improvement : Interval or None
        Calibrated cumulative improvement; higher is better, 0 is worth nothing, 1 is maximal supervision throughout.
        None where it is not identified; a note says why.
    improvement_range : (float, float) or None
        Calibrated risks of scratch between which it is measured, that with the fewest labels first.
    n_test : int or None
        Test images.
    notes : tuple of str
        What a reader must know: sentences on negative values, on the range that is covered, on seeds and intervals.
    """

    encoder: str
    task: str
    metric: str
    unit: str
    dataset: str
    protocol: str
    frozen: bool
    blind: Interval
    maximal: Interval
    points: tuple[CurvePoint, ...]
    improvement: Interval | None
    improvement_range: tuple[float, float] | None
    n_test: int | None
    notes: tuple[str, ...]

    @property
    def images_only(self) -> bool:
        """Whether intervals are over test images alone: a single seed says nothing of how seeds vary."""
        return min(point.n_seeds for point in self.points) == 1

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it; ``intervals_over`` says what the intervals are of."""
        found = asdict(self)
        found["intervals_over"] = ["test images"] if self.images_only else ["test images", "seeds"]
        found["improvement_range"] = None if self.improvement_range is None else list(self.improvement_range)
        return found | {"points": list(found["points"]), "notes": list(self.notes)}


def calibrated_curve(
    *,
    encoder: str,
    task: str,
    metric: str,
    unit: str,
    dataset: str,
    protocol: str,
    frozen: bool,
    regimes: Sequence[tuple[int, int]],
    risks: Sequence[Drawn],
    scratch: Sequence[Drawn],
    blind: Drawn,
    maximal: Drawn,
    n_seeds: Sequence[int],
    n_test: int | None = None,
    maximal_n: int | None = None,
) -> CalibratedCurve:
    """Calibrates risks, and computes all that follows from them, with intervals.

    Every number is computed anew from each bootstrap draw of the risks that it depends on, so that what they share
    cancels. A draw in which a number is not identified (maximal supervision no better than the blind guess, or scratch
    not improving) counts as outside of its interval; if they are more than 5 %, there is none. Notes say how many.

    Parameters
    ----------
    encoder, task, metric, unit, dataset, protocol : str
        What was measured; they go into the result as they are.
    frozen : bool
        Whether the encoder stayed as it was.
    regimes : sequence of (int, int)
        Labels that were asked for and that were used, both from the fewest to the most.
    risks, scratch : sequence of Drawn, one a regime
        Of the encoder and of scratch, means over seeds, in ``unit``; lower is better.
    blind, maximal : Drawn
        Risks of the controls, in ``unit``.
    n_seeds : sequence of int, one a regime
        Runs behind each mean.
    n_test : int, optional
        Test images.
    maximal_n : int, optional
        Labels of maximal supervision, if it is scratch with all labels; None for a recorded risk.

    Returns
    -------
    CalibratedCurve

    Raises
    ------
    DataError
        If maximal supervision is no better than the blind guess, there is no regime, one entry a regime is not what was
        handed in, labels do not rise, a risk is not finite, or risks have different numbers of draws.

    Examples
    --------
    >>> curve = calibrated_curve(
    ...     encoder="mine", task="classification", metric="transfer_error", unit="percent", dataset="digits",
    ...     protocol="ours", frozen=False, regimes=[(50, 50), (400, 400)], risks=[Drawn(value=50.0), Drawn(value=20.0)],
    ...     scratch=[Drawn(value=90.0), Drawn(value=30.0)], blind=Drawn(value=90.0), maximal=Drawn(value=10.0),
    ...     n_seeds=[3, 3], maximal_n=3200,
    ... )
    >>> [point.calibrated.value for point in curve.points], round(curve.points[1].scratch_n)
    ([0.5, 0.125], 1131)
    >>> curve.improvement_range, round(curve.improvement.value, 3)
    ((1.0, 0.25), 0.5)
    """
    _check_lengths(regimes, risks, scratch, n_seeds)
    _check_draws([*risks, *scratch, blind, maximal])
    if maximal.value >= blind.value:
        raise DataError(no_scale(blind=blind.value, maximal=maximal.value, where=f" ({metric} on {dataset})"))
    y, x = (calibrated_draws(some, blind=blind, maximal=maximal) for some in (risks, scratch))
    relative = [relative_draws(own, other) for own, other in zip(y, x, strict=True)]
    n = [n_actual for _, n_actual in regimes]
    further = [maximal_n] if maximal_n is not None and maximal_n > n[-1] else []  # one more point of scratch
    saved = labels_saved(
        n, [each.value for each in risks], [each.value for each in scratch],
        maximal=(further[0], maximal.value) if further else None,
    )  # fmt: skip
    path = [*scratch, maximal] if further else scratch
    ends = [scratch_ends([*n, *further], risk, path) for risk in risks]
    points = tuple(
        CurvePoint(
            n_requested=int(regimes[i][0]), n_actual=int(n[i]), n_seeds=int(n_seeds[i]),
            risk=interval_of(risks[i]), risk_scratch=interval_of(scratch[i]),
            calibrated=interval_of(y[i]), calibrated_scratch=interval_of(x[i]),
            relative_improvement=None if (own := relative[i]) is None else interval_of(own),
            scratch_n=saved.scratch_n[i], scratch_bound=saved.bound[i], scratch_limit=saved.limit[i],
            scratch_n_low=ends[i][0], scratch_n_high=ends[i][1], share_saved=saved.share_saved[i],
        )
        for i in range(len(regimes))
    )  # fmt: skip
    found, improved, reason = improvement_draws(y, x)
    improvement = None if improved is None else interval_of(improved)
    lost = [Lost("calibrated", max(n_lost(each) for each in (*y, *x)))]  # of all alike, for it lies with the controls
    lost += [Lost("relative", n_lost(each), int(n)) for each, (n, _) in zip(relative, regimes, strict=True) if each]
    lost += [Lost("improvement", n_lost(improved))] if improved else []
    return CalibratedCurve(
        encoder=encoder, task=task, metric=metric, unit=unit, dataset=dataset, protocol=protocol, frozen=frozen,
        blind=interval_of(blind), maximal=interval_of(maximal), points=points, improvement=improvement,
        improvement_range=None if found is None else (found.from_scratch, found.to_scratch),
        n_test=None if n_test is None else int(n_test),
        notes=notes_of(
            points, improvement=improvement, no_improvement=reason, frozen=frozen, maximal_n=maximal_n, lost=lost,
            n_draws=[len(each.draws) for each in (*y, *x)],
        ),
    )  # fmt: skip


def _check_lengths(
    regimes: Sequence[tuple[int, int]], risks: Sequence[Drawn], scratch: Sequence[Drawn], n_seeds: Sequence[int]
) -> None:
    lengths = (len(regimes), len(risks), len(scratch), len(n_seeds))
    if not lengths[0] or len(set(lengths)) > 1:
        raise DataError(
            "A curve was given {} regimes, {} risks, {} risks of scratch and {} numbers of seeds; expected one of each "
            "a regime, and at least one regime.".format(*lengths)
        )


def _check_draws(risks: Sequence[Drawn]) -> None:
    sizes = sorted({each.draws.shape for each in risks if each.draws.size})
    if len(sizes) > 1 or any(len(size) != 1 for size in sizes):
        raise DataError(
            f"The draws of the risks have the shapes {', '.join(map(str, sizes))}; expected as many of each risk, "
            "shape (n_draws,), draw i of all of one resample."
        )
