"""Order and regret of every score by number of labels, and regret beside seconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zoo.evaluation.drawing import COLOURS, MARKS, Figure, legend_below, letter, new_figure

from .measured import BLIND, LABEL_FREE, LABELLED, PROBE, SCORES, Measurements
from .predicting import ALL, MOST, ORDER, REGRET, Quality, seconds_by_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_INKS = dict(zip((PROBE, LABELLED, LABEL_FREE, BLIND), ("#0072B2", "#D55E00", "#009E73", "#444444"), strict=True))


def order_figure(quality: Quality) -> Figure:
    """Kendall's tau of every score, by number of labels and data set."""
    return _dots(
        quality,
        ORDER,
        name="order_of_scores",
        title="How well scores of a few labels order encoders",
        caption="Kendall's tau between score and the accuracy of a probe with as many labels",
        axis="Kendall's tau [-1 to 1]\nhigher is better",
    )


def regret_figure(quality: Quality) -> Figure:
    """The regret of every score, by number of labels and data set."""
    return _dots(
        quality,
        REGRET,
        name="regret_of_scores",
        title="What choosing by a score of a few labels costs",
        caption="Error of the encoder that a score chooses less that of the best one, in percentage points, of probes "
        "with as many labels",
        axis="regret [points]\nlower is better",
    )


def _dots(quality: Quality, what: str, *, name: str, title: str, caption: str, axis: str) -> Figure:
    panels = ", ".join(f"({chr(ord('a') + place)}) {labels}" for place, labels in enumerate(quality.labels))
    return Figure(
        name=name,
        title=title,
        caption=f"{caption}, of {quality.n_encoders} encoders, with {panels} labels a class. Small marks are the data "
        f"sets, means over {quality.n_draws} draws of the labels; large dots are their means, with 95 % intervals "
        "over encoders and draws, coloured by kind of score.",
        draw=lambda: _draw_dots(quality, what, axis),
    )


def _draw_dots(quality: Quality, what: str, axis: str) -> Drawing:
    drawing, panels = new_figure(
        height=0.9 + 0.22 * len(quality.scores), n_columns=len(quality.labels), sharey=True, sharex=True
    )
    for panel, labels in zip(panels, quality.labels, strict=True):
        for place, name in enumerate(quality.scores):
            for number, data in enumerate(quality.data):
                value = quality.one(what, name, data, labels).value or 0.0
                panel.plot(
                    value, -place, MARKS[1 + number], color="#999999", markersize=2.5, label=data if not place else None
                )
            one = quality.one(what, name, ALL, labels)
            if one.ci_low is not None and one.ci_high is not None:
                panel.hlines(-place, one.ci_low, one.ci_high, color=_INKS[SCORES[name].kind], linewidth=1.2)
            panel.plot(one.value or 0.0, -place, "o", color=_INKS[SCORES[name].kind], markersize=4.5)
        _set_scores(panel, quality)
        panel.set_xlabel(axis)
        if what == REGRET:  # most are small
            panel.set_xscale("symlog", linthresh=1)
            panel.set_xticks([0, 1, 10, 50], ["0", "1", "10", "50"])
            panel.minorticks_off()
    letter(panels, [f"{labels} labels a class" for labels in quality.labels])
    for kind, ink in _INKS.items():
        panels[0].plot([], [], "o-", color=ink, label=kind)
    legend_below(drawing, panels[0], n_columns=4)
    return drawing


def cost_figure(quality: Quality, measured: Measurements) -> Figure:
    """Regret for the most labels beside seconds, by number of labels."""
    return Figure(
        name="regret_and_seconds",
        title="What a choice for later costs and takes",
        caption="(a) Error, by probes "
        f"with {quality.labels[-1]} labels a class, of the encoder that a score of fewer labels chooses less that of "
        f"the best one, in percentage points: means over {len(quality.data)} data sets and {quality.n_draws} draws, "
        f"with 95 % intervals over {quality.n_encoders} encoders and draws. (b) Seconds that a score takes "
        "an encoder, on one thread.",
        draw=lambda: _draw_cost(quality, measured),
    )


def _draw_cost(quality: Quality, measured: Measurements) -> Drawing:
    drawing, (left, right) = new_figure(height=1.0 + 0.22 * len(quality.scores), n_columns=2, sharey=True)
    seconds = seconds_by_score(measured)
    for number, labels in enumerate(quality.labels):
        ink, mark, shift = COLOURS[number], MARKS[number], 0.22 * (1 - number)
        for place, name in enumerate(quality.scores):
            if labels != quality.labels[-1]:
                one = quality.one(REGRET, name, ALL, labels, MOST)
                if one.ci_low is not None and one.ci_high is not None:
                    left.hlines(shift - place, one.ci_low, one.ci_high, color=ink, linewidth=1.0)
                left.plot(one.value or 0.0, shift - place, mark, color=ink)
            taken = seconds[name][labels] if SCORES[name].kind != BLIND else math.nan
            right.plot(taken, shift - place, mark, color=ink, label=f"{labels} labels a class" if not place else None)
    for panel in (left, right):
        _set_scores(panel, quality)
    left.set_xlabel("regret with the most labels [points]\nlower is better")
    right.set_xlabel("time an encoder takes [seconds]\nlower is better")
    right.set_xscale("log")
    letter([left, right])
    legend_below(drawing, right, n_columns=3)
    return drawing


def _set_scores(panel: Axes, quality: Quality) -> None:
    panel.set_yticks([-place for place in range(len(quality.scores))], [SCORES[name].label for name in quality.scores])
    panel.set_ylim(-len(quality.scores) + 0.4, 0.6)


def all_figures(quality: Quality, measured: Measurements) -> list[Figure]:
    """In the order of the report."""
    return [regret_figure(quality), order_figure(quality), cost_figure(quality, measured)]
