"""The figures of scaling laws: predicted against measured errors, curves of single encoders, and the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.analysis.columns import ERRORS, Estimate
from zoo.analysis.scaling_law import N_FULL_SHOT, ScalingLaw, explained, predict
from zoo.evaluation.drawing import (
    COLOURS,
    FULL_WIDTH,
    HALF_WIDTH,
    MARKS,
    legend_below,
    letter,
    new_figure,
    scatter_groups,
)
from zoo.optional import requires_extra

with requires_extra("study", needed_for="A figure"):
    import numpy as np
    import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


SETTINGS = {outcome.n_labels: outcome.label.removesuffix(" error") for outcome in ERRORS}
_TICKS = {3_000: "3k", 10_000: "10k", 30_000: "30k", 100_000: "100k", 300_000: "300k", 1_281_167: "1.28M"}
_QUANTILES = {0.0: "best fitted", 0.25: "", 0.5: "median", 0.75: "", 1.0: "worst fitted"}


def draw_predicted(law: ScalingLaw, rows: pd.DataFrame) -> Drawing:
    """Figure 5b: predicted on the x-axis, measured on the y-axis, one colour a number of labels."""
    drawing, (axes,) = new_figure(width=HALF_WIDTH + 0.8, height=4.4)
    predicted = predict(law, rows)
    order = rows["n"].sort_values(ascending=False).index
    groups = [SETTINGS.get(n, f"{n:,} labels") for n in rows.loc[order, "n"]]
    positions = rows.index.get_indexer(order)
    errors = rows.loc[order, "error"].tolist()
    scatter_groups(axes, list(predicted[positions]), errors, groups, size=10, alpha=0.75)
    axes.plot([0, 100], [0, 100], color="#444444", linewidth=0.9, zorder=0)
    low = 10 * np.floor(min(predicted.min(), rows["error"].min()) / 10)
    axes.set(
        xlim=(low, 101),
        ylim=(low, 101),
        aspect="equal",
        xlabel="predicted error [%], lower is better",
        ylabel="measured error [%], lower is better",
    )
    few = (rows["n"] < N_FULL_SHOT).to_numpy()
    words = f"$R^2$ = {explained(rows['error'], predicted):.3f}"
    if few.sum() > 1:
        words += f"\n{explained(rows['error'][few], predicted[few]):.3f} without full-shot"
    axes.text(0.04, 0.96, words, transform=axes.transAxes, va="top")
    legend_below(drawing, axes, n_columns=3, title="labels of the probe (number of encoders)")
    return drawing


def draw_curves(
    law: ScalingLaw, laws: Mapping[str, ScalingLaw], rows: pd.DataFrame, *, printed: tuple[float, float]
) -> Drawing:
    """Curves of five encoders with their measurements, and alpha and W over resampled encoders of each population.

    ``printed`` are the alpha and W of the paper.
    """
    drawing, (left, right) = new_figure(width=FULL_WIDTH, height=3.9, n_columns=2)
    for position, (encoder, label) in enumerate(examples(law, rows).items()):
        _draw_encoder(left, law, rows[rows["encoder"] == encoder], label, position)
    left.set_xscale("log")
    left.set_xticks(list(_TICKS), list(_TICKS.values()))
    left.set_xticks([], minor=True)
    left.set(xlabel="number of labels of the probe", ylabel="error [%], lower is better")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), title="root mean square of the misses [points]")
    for (name, one), colour in zip(laws.items(), COLOURS, strict=False):
        _draw_cloud(right, one, f"{name} ({one.n_encoders})", colour)
    right.set(xlabel="alpha [exponent]", ylabel="W [weight of T]")
    right.plot(*printed, "x", color="black", markersize=6, label="printed", zorder=5)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, title="encoders (number)")
    letter([left, right])
    return drawing


def examples(law: ScalingLaw, rows: pd.DataFrame) -> dict[str, str]:
    """Five encoders from the best to the worst fitted, by quantile of their root mean square miss, with labels."""
    missed = (rows["error"] - predict(law, rows)) ** 2
    by_encoder = missed.groupby(rows["encoder"]).mean().pow(0.5).sort_values(kind="stable")
    found = {}
    for quantile, words in _QUANTILES.items():
        encoder = by_encoder.index[round(quantile * (len(by_encoder) - 1))]
        found[encoder] = f"{encoder}: {by_encoder[encoder]:.1f}{f', {words}' if words else ''}"
    return found


def _draw_encoder(axes: Axes, law: ScalingLaw, own: pd.DataFrame, label: str, position: int) -> None:
    n = np.geomspace(3_000, 1_281_167, 100)
    cells = {name: np.full(len(n), own[name].iloc[0]) for name in ("T", "probe_gen", "enc_gen")}
    axes.plot(n, predict(law, {"n": n, **cells}), color=COLOURS[position])
    axes.plot(own["n"], own["error"], linestyle="none", marker=MARKS[position], color=COLOURS[position], label=label)


def _draw_cloud(axes: Axes, law: ScalingLaw, label: str, colour: str) -> None:
    alpha, w = law.draws.T
    axes.scatter(alpha, w, s=4, alpha=0.15, color=colour, linewidths=0)
    axes.errorbar(
        law.alpha.value or 0.0,
        law.W.value or 0.0,
        xerr=_arms(law.alpha),
        yerr=_arms(law.W),
        color=colour,
        elinewidth=1.4,
    )
    axes.plot(
        law.alpha.value or 0.0,
        law.W.value or 0.0,
        "o",
        color=colour,
        markeredgecolor="white",
        markersize=6,
        label=label,
    )


def _arms(estimate: Estimate) -> list[list[float]]:
    value, low, high = estimate.value or 0.0, estimate.ci_low, estimate.ci_high
    # the value may lie outside its percentile interval by a hair, when it sits on a bound
    return [[max(value - (value if low is None else low), 0.0)], [max((value if high is None else high) - value, 0.0)]]
