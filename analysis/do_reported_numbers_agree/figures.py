"""Reported against measured accuracies, how often both order encoders alike, and protocols and sources side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import (
    COLOURS,
    MODE_COLOURS,
    Figure,
    legend_below,
    letter,
    new_figure,
    palette,
    scatter_groups,
)

from .pairs import Pairs, TwoSources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


def agreement_figure(pairs: Pairs, table: StudyTable, order: Sequence[Estimate]) -> Figure:
    """Every pair of a reported linear accuracy and a measured one, and how often two encoders are ordered alike."""
    return Figure(
        name="reported_against_measured",
        title="Reported against measured linear accuracy",
        caption=f"Top-1 accuracy on ImageNet-1K with all labels, in percent, of {len(pairs)} encoders: (a) as "
        "reported, and as the published linear probe finds it; on the dashed line both are the same, above it the "
        "reported one is higher. (b) Of two encoders, how often the one with the higher reported accuracy is also the "
        "better by the probe, by how far the reported ones are apart; bars are 95 % intervals, the dotted line is what "
        "a coin gives, and small numbers count pairs of encoders.",
        draw=lambda: _draw_agreement(pairs, table, order),
    )


def _draw_agreement(pairs: Pairs, table: StudyTable, order: Sequence[Estimate]) -> Drawing:
    drawing, (left, right) = new_figure(height=3.6, n_columns=2, width_ratios=[1.15, 1])
    modes = table.frame["ssl_mode"].reindex(pairs.first.index).fillna("unknown").astype(str)
    ends = (min(pairs.first.min(), pairs.second.min()) - 2, max(pairs.first.max(), pairs.second.max()) + 2)
    left.plot(ends, ends, "--", color="#888888", linewidth=0.8)
    scatter_groups(left, pairs.second.tolist(), pairs.first.tolist(), modes.tolist(), colours=MODE_COLOURS)
    left.set(
        xlabel="measured accuracy [%], higher is better",
        ylabel="reported accuracy [%]\nhigher is better",
        xlim=ends,
        ylim=ends,
        aspect="equal",
    )
    _draw_order(right, order)
    letter([left, right])
    legend_below(drawing, left, n_columns=3)
    return drawing


def _draw_order(axes: Axes, order: Sequence[Estimate]) -> None:
    known = [one for one in order if one.value is not None]
    for place, one in enumerate(known):
        if one.ci_low is not None and one.ci_high is not None:
            axes.vlines(place, 100 * one.ci_low, 100 * one.ci_high, color=COLOURS[0], linewidth=1.2)
        axes.plot(place, 100 * (one.value or 0.0), "o", color=COLOURS[0])
        axes.annotate(f"{one.n:,}", (place, 44), ha="center", va="bottom", fontsize=6, color="#555555")
    axes.axhline(50, color="#444444", linewidth=0.8, linestyle=":")
    words = [one.term.removesuffix(" points").replace("above ", ">").replace(" to ", "-") for one in known]
    axes.set_xticks(range(len(known)), words)
    axes.set(
        xlabel="reported accuracies apart by [points]",
        ylabel="pairs in the same order [%]\nhigher is better",
        xlim=(-0.5, len(known) - 0.5),
        ylim=(42, 102),
    )


def protocols_figure(groups: Sequence[Pairs], sources: Sequence[TwoSources]) -> Figure:
    """Two protocols against each other, by source, and how far two sources of one number are apart."""
    counted = [f"{pairs.name}, {len(pairs)} encoders" for pairs in groups]
    names = "; ".join(f"({chr(ord('a') + place)}) {words}" for place, words in enumerate(counted))
    last = chr(ord("a") + len(groups))
    return Figure(
        name="protocols_and_sources",
        title="Two protocols, and two sources, of the same encoder",
        caption=f"Top-1 accuracy on ImageNet-1K as reported, in percent, higher is better: {names}; marks are those "
        f"who reported, and on the dashed line both are the same. ({last}) The same weights by the same protocol at "
        "the same size of images, as two sources print it, second minus first in percentage points.",
        draw=lambda: _draw_protocols(groups, sources),
    )


def _draw_protocols(groups: Sequence[Pairs], sources: Sequence[TwoSources]) -> Drawing:
    drawing, axes = new_figure(height=5.2, n_rows=2, n_columns=2, height_ratios=[1.4, 1])
    shown, last = axes[: len(groups)], axes[3]
    for spare in axes[len(groups) : 3]:
        spare.remove()
    grid = last.get_gridspec()
    assert grid is not None
    last.set_subplotspec(grid[1, :])
    everyone = sorted({_short(name) for pairs in groups for name in pairs.clusters})
    inks = palette(everyone)
    for panel, pairs in zip(shown, groups, strict=True):
        first, _, second = pairs.name.partition(" and ")
        panel.axline((50, 50), slope=1, linestyle="--", color="#888888", linewidth=0.8)
        for name, (ink, mark) in inks.items():
            own = pairs.clusters.map(_short) == name
            panel.scatter(
                pairs.first[own],
                pairs.second[own],
                s=16,
                c=ink,
                marker=mark,
                linewidths=0.3,
                edgecolors="white",
                label=name,
            )
        panel.set(
            xlabel=f"{first} [%], higher is better",
            ylabel=f"{second} [%], higher is better",
            xlim=(pairs.first.min() - 2, pairs.first.max() + 2),
            ylim=(pairs.second.min() - 2, pairs.second.max() + 2),
        )
    _draw_sources(last, sources)
    letter([*shown, last])
    legend_below(drawing, shown[0], n_columns=3)
    return drawing


def _short(sources: str) -> str:
    """Names of repositories without their owners."""
    return " and ".join(name.rpartition("/")[2] for name in sources.split(" and "))


def _draw_sources(axes: Axes, sources: Sequence[TwoSources]) -> None:
    rows: dict[str, list[float]] = {}
    for one in sources:
        if one.first.source != one.second.source:
            rows.setdefault(_short(one.between).replace(" and ", ", "), []).append(one.difference)
    for place, gaps in enumerate(rows.values()):
        stacked: dict[float, int] = {}
        for gap in sorted(gaps):
            level = stacked[round(gap, 2)] = stacked.get(round(gap, 2), -1) + 1
            axes.plot(gap, -place + 0.07 * level, "o", color=COLOURS[0], markersize=3)
    axes.axvline(0, color="#444444", linewidth=0.8, zorder=0)
    axes.grid(axis="y", visible=False)
    axes.set_yticks([-place for place in range(len(rows))], [f"{name} ({len(gaps)})" for name, gaps in rows.items()])
    axes.set(xlabel="second minus first [points]", ylim=(-len(rows) + 0.4, 1.3))
