"""Words of calibrated learning curves that figures, tables and pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import QueryError

if TYPE_CHECKING:
    from ..bootstrap import Interval
    from .curve import CalibratedCurve


def label_of(curve: CalibratedCurve) -> str:
    """How a curve is called in a legend."""
    return f"{curve.encoder} (frozen)" if curve.frozen else curve.encoder


def improvement_text(improvement: Interval | None) -> str:
    """A calibrated cumulative improvement as figures and tables show it.

    >>> from zoo.evaluation.bootstrap import Interval
    >>> improvement_text(Interval(value=0.42, ci_low=0.3, ci_high=0.55)), improvement_text(None)
    ('0.42 [0.30, 0.55]', 'not identified')
    """
    if improvement is None:
        return "not identified"
    text = f"{improvement.value:z.2f}"
    if improvement.ci_low is None or improvement.ci_high is None:
        return text
    return f"{text} [{improvement.ci_low:z.2f}, {improvement.ci_high:z.2f}]"


def caption_of(curves: Sequence[CalibratedCurve]) -> str:
    """What is shown, in which unit, of how many images, over which range, and what an odd place of a curve means."""
    first = curves[0]
    points = [point for curve in curves for point in curve.points]
    seeds = sorted({point.n_seeds for point in points})
    n_seeds = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    tested = "" if first.n_test is None else f" of {first.n_test:,} test images"
    has_intervals = any(point.calibrated.ci_low is not None for point in points)
    images_only = any(curve.images_only for curve in curves)
    over = " over test images only, without how much seeds vary" if images_only else ""
    sentences = [
        f"Risk is {words_of(first.metric)}{in_unit(first.unit)}{tested}, calibrated so that the blind guess "
        f"({first.blind.value:.4g}) lies at 1 and maximal supervision ({first.maximal.value:.4g}) at 0; lower is "
        "better.",
        f"Mean over {n_seeds} seed{'' if seeds == [1] else 's'}"
        + (f", bands and bars are 95 % intervals{over}." if has_intervals else ", without intervals."),
    ]
    ranges = sorted({curve.improvement_range for curve in curves if curve.improvement_range is not None})
    if ranges:
        low, high = min(map(min, ranges)), max(map(max, ranges))
        over = (
            f"from {low:z.2f} to {high:z.2f}" if len(ranges) == 1 else f"of its own, within {low:z.2f} to {high:z.2f}"
        )
        sentences.append(
            "CCI: area between an encoder's curve and the diagonal over the area below the diagonal, for cR of scratch "
            f"{over}; 0 is worth nothing, 1 reaches maximal supervision throughout."
        )
    if any(point.calibrated.value < 0 or point.calibrated_scratch.value < 0 for point in points):
        sentences.append(
            "Below 0 the risk is lower than with maximal supervision, which there is no approximation of the best that "
            "labels can buy; comparisons with scratch stay valid."
        )
    if any(point.calibrated.value > 1 or point.calibrated_scratch.value > 1 for point in points):
        sentences.append("Above 1 the risk is higher than that of the blind guess.")
    if len({curve.maximal.value for curve in curves}) > 1:
        sentences.append("Each encoder is calibrated by the maximal supervision of its own architecture.")
    return " ".join(sentences)


def require_drawable(curves: Sequence[CalibratedCurve]) -> None:
    """Refuses curves that do not belong into one figure.

    Raises
    ------
    QueryError
        If there is none, or if they are of several metrics, data sets or tasks, or two of them of one encoder.
    """
    if not curves:
        raise QueryError("Got no curve to draw, expected at least one.")
    for name in ("metric", "dataset", "task"):
        found = sorted({getattr(curve, name) for curve in curves})
        if len(found) > 1:
            raise QueryError(
                f"Got curves of {' and '.join(found)} for one figure, expected one {name}; draw a figure for each."
            )
    labels = [label_of(curve) for curve in curves]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None:
        raise QueryError(f"Got two curves of {repeated!r} for one figure, expected one curve an encoder.")


def words_of(name: str) -> str:
    """The name of a metric as words.

    >>> words_of("depth_l1_error")
    'depth L1 error'
    """
    return " ".join("L1" if word == "l1" else word for word in name.split("_"))


def in_unit(unit: str) -> str:
    """The unit of a metric behind its name.

    >>> in_unit("degrees"), in_unit("dimensionless")
    (' in degrees', '')
    """
    return "" if unit == "dimensionless" else f" in {unit}"
