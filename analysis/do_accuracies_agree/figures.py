"""Figure 27: how far published accuracies are from measured ones, and which encoders are farthest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.analysis.correlations import PairedComparison
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import COLOURS, Figure, letter, new_figure
from zoo.optional import requires_extra

from .tables import FAR, SETTINGS, known_fault

with requires_extra("study", needed_for="A figure"):
    from matplotlib.lines import Line2D

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_HEIGHTS = dict(zip(SETTINGS, (0.0, -0.45, -0.8), strict=True))  # of the dots of a setting
_COLOURS = dict(zip(SETTINGS, COLOURS, strict=False))


def differences_figure(
    table: StudyTable,
    differences: Mapping[str, pd.Series[float]],
    compared: Mapping[str, PairedComparison | None],
) -> Figure:
    """Figure 27, and the pairs of Table 8 beside it."""
    counted = ", ".join(f"{len(pairs)} encoders ({name})" for name, pairs in differences.items())
    return Figure(
        name="figure27",
        title="Published minus measured accuracy (Figure 27)",
        caption="Published minus our top-1 accuracy on ImageNet-1K, in percentage points; above 0 our probe "
        f"is worse. (a) {counted}; black diamonds and bars are means and their 95 % intervals. (b) Those more "
        f"than {FAR:g} points away (Table 8)."
        f"{'' if table.corrected else ' Crosses have a fault that the corrected table repairs.'}",
        draw=lambda: draw(table, differences, compared),
    )


def draw(
    table: StudyTable, differences: Mapping[str, pd.Series[float]], compared: Mapping[str, PairedComparison | None]
) -> Drawing:
    drawing, (left, right) = new_figure(height=3.6, n_columns=2, width_ratios=[1.2, 1])
    _draw_all(left, table, differences, compared)
    _draw_far(right, table, differences)
    for axes in (left, right):
        axes.axvline(0, color="#444444", linewidth=0.8, zorder=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("published - measured\naccuracy [points]\nabove 0 our probe is worse")
    letter([left, right])
    entries = [(mark, "#555555", words) for mark, words in (("o", "encoder"), ("X", "encoder with a known fault"))]
    entries += [("D", "black", "mean, 95 % interval"), *(("s", ink, name) for name, ink in _COLOURS.items())]
    handles = [Line2D([], [], linestyle="", marker=mark, color=ink, label=words) for mark, ink, words in entries]
    drawing.legend(handles=handles, loc="outside lower center", ncols=3)
    return drawing


def _draw_all(
    axes: Axes,
    table: StudyTable,
    differences: Mapping[str, pd.Series[float]],
    compared: Mapping[str, PairedComparison | None],
) -> None:
    """Every difference as a dot, those of the same half point upon each other, and the mean of each setting."""
    for name, pairs in differences.items():
        stacked: dict[int, int] = {}
        for encoder, value in pairs.sort_values().items():
            level = stacked[round(2 * value)] = stacked.get(round(2 * value), -1) + 1
            height = _HEIGHTS[name] + 0.033 * level
            axes.plot(value, height, _mark(encoder, table), color=_COLOURS[name], markersize=2.6)
        one = compared[name]
        if one and one.mean.value is not None and one.mean.ci_low is not None and one.mean.ci_high is not None:
            error = [[one.mean.value - one.mean.ci_low], [one.mean.ci_high - one.mean.value]]
            axes.errorbar(
                one.mean.value, _HEIGHTS[name] - 0.1, xerr=error, fmt="D", color="black", markersize=3.5, capsize=2
            )
    axes.set_yticks([*_HEIGHTS.values()], [f"{name}\n({len(pairs)})" for name, pairs in differences.items()])


def _draw_far(axes: Axes, table: StudyTable, differences: Mapping[str, pd.Series[float]]) -> None:
    """The pairs that are far apart, one row each, in the order of their differences."""
    far = sorted(
        (value, str(encoder), name)
        for name in SETTINGS
        for encoder, value in differences[name].items()
        if abs(value) > FAR
    )
    for row, (value, encoder, name) in enumerate(far):
        axes.plot([0, value], [row, row], color=_COLOURS[name], linewidth=1)
        axes.plot(value, row, _mark(encoder, table), color=_COLOURS[name])
    axes.set_yticks(range(len(far)), [encoder for _, encoder, _ in far], fontsize=6)


def _mark(encoder: object, table: StudyTable) -> str:
    return "X" if not table.corrected and known_fault(str(encoder)) else "o"
