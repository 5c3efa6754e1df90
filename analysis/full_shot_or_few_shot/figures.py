"""How risks are drawn by setting, against each other, and with the errors that they rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.groups import PARTS
from zoo.evaluation.drawing import (
    COLOURS,
    MARKS,
    MODE_COLOURS,
    Figure,
    draw_legend_below,
    make_figure,
    plot_groups,
    write_above,
    write_panel_letters,
)
from zoo.studies.tables import draw_with_bars, label_risk_axis

from .tradeoffs import pareto_front

_LAST_YEAR = 2022  # of the published encoders


def settings_figure(estimates: Sequence[Estimate], settings: Sequence[str], fraction: float) -> Figure:
    """Figure 5a; see :func:`draw_by_setting`."""
    n = estimates[0].n if estimates else 0
    return Figure(
        name="risks_of_the_best_by_setting",
        title="Risks of the best 20 % of encoders in each setting (Figure 5a)",
        caption=f"Mean components of the {n} best encoders by the error of each setting, of those with all components "
        "and errors, in percentage points, lower is better; bars are 95 % bootstrap intervals over encoders.",
        draw=lambda: draw_by_setting(estimates, settings, fraction),
    )


def tradeoff_figure(chosen: pd.DataFrame, *, since: int) -> Figure:
    """Figure 6; see :func:`draw_tradeoff`."""
    return Figure(
        name="best_of_each_year_traded_off",
        title="Usability against probe generalization, best 20 % of each year (Figure 6)",
        caption=f"{len(chosen)} ImageNet-1K encoders, the best of each year by full-shot error among those with all "
        "components; percentage points, lower is better: (a) all years, (b) since "
        f"{since}. Lines join those of a year that no other one beats in both. "
        "Choosing for a low sum makes such curves by itself.",
        draw=lambda: draw_tradeoff(chosen, since=since),
    )


def pairs_figure(name: str, title: str, frame: pd.DataFrame, correlations: Sequence[Estimate]) -> Figure:
    """Figure 31; see :func:`draw_pairs`."""
    by_pair = {(estimate.term, estimate.outcome): estimate for estimate in correlations}
    return Figure(
        name=name,
        title=title,
        draw=lambda: draw_pairs(frame, by_pair),
        caption=f"{len(frame)} encoders, those without a component left out of its panels; axes in percentage points, "
        "lower is better; Kendall's tau over the encoders of a panel.",
    )


def correlations_figure(estimates: Sequence[Estimate], settings: Sequence[str]) -> Figure:
    """Rank correlations; see :func:`draw_correlations`."""
    counts = sorted({estimate.n for estimate in estimates})
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else "".join(map(str, counts))
    return Figure(
        name="what_ranks_encoders",
        title="Which risk ranks encoders in which setting",
        caption=f"Kendall's tau between each component and the error of each setting, over {n} encoders; bars are 95 % "
        "bootstrap intervals over encoders.",
        draw=lambda: draw_correlations(estimates, settings),
    )


def full_against_few_figure(frame: pd.DataFrame, few: str) -> Figure:
    """Errors in two settings; see :func:`draw_full_against_few`."""
    n = int(frame[["train_test", few]].notna().all(axis=1).sum())
    return Figure(
        name="full_shot_against_few_shot",
        title="Full-shot against 3-shot error",
        caption=f"{n} encoders by type of objective; errors in percent, lower is better. The line joins those that no "
        "other one beats in both settings.",
        draw=lambda: draw_full_against_few(frame, few),
    )


def draw_by_setting(estimates: Iterable[Estimate], settings: Sequence[str], fraction: float) -> Drawing:
    """Mean components of the best encoders in each setting, with 95 % intervals."""
    terms = {
        (f"best {100 * fraction:g} % by {setting}", part): (setting, part) for setting in settings for part in PARTS
    }
    found = {(estimate.term, estimate.outcome): estimate for estimate in estimates}
    drawing, (axes,) = make_figure(height=2.8)
    _draw_settings(axes, {terms[key]: one for key, one in found.items() if key in terms}, settings)
    axes.set_xlabel("Labels by which the best are chosen (fewer to the right)")
    axes.set_ylabel("Mean risk component [points]\nlower is better")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    draw_legend_below(drawing, axes)
    return drawing


def draw_tradeoff(chosen: pd.DataFrame, *, since: int) -> Drawing:
    """Usability against probe generalization, all years and recent ones; lines join those that no other one beats."""
    drawing, axes = make_figure(height=3.2, n_columns=2)
    recent = chosen[chosen["year"] >= since]
    for panel, rows in zip(axes, (chosen, recent), strict=True):
        _scatter_years(panel, rows, "usability", "probe_gen", size=22.0)
        for year, group in rows.groupby("year"):
            front = pareto_front(group, "usability", "probe_gen")
            panel.plot(
                front["usability"], front["probe_gen"], color=_year_look(year)[0], linewidth=0.9, alpha=0.7, zorder=1
            )
        panel.set_xlabel(label_risk_axis("usability", lines=True))
        panel.set_ylabel(label_risk_axis("probe_gen", lines=True))
    write_panel_letters(axes)
    draw_legend_below(drawing, axes[0], n_columns=8, title="Year (encoders chosen)")
    return drawing


def draw_pairs(frame: pd.DataFrame, correlations: Mapping[tuple[str, str], Estimate]) -> Drawing:
    """All six pairs of components, coloured by year; each panel says Kendall's tau where it is given."""
    drawing, axes = make_figure(height=4.6, n_rows=2, n_columns=3)
    for panel, (first, second) in zip(axes, combinations(PARTS, 2), strict=True):
        rows = frame.dropna(subset=[first, second, "year"])
        _scatter_years(panel, rows, first, second, size=10.0 if len(rows) > 50 else 22.0)
        _label_risks(panel, first, second)
        tau = correlations.get((first, second))
        if tau is not None and tau.value is not None:
            write_above(panel, f"τ = {tau.value:.2f}, n = {tau.n}")
        else:
            write_above(panel, f"n = {len(rows)}")
    draw_legend_below(drawing, axes[0], n_columns=7, title="Year (encoders of panel a); lower is better on every axis")
    write_panel_letters(axes)
    return drawing


def draw_correlations(estimates: Iterable[Estimate], settings: Sequence[str]) -> Drawing:
    """Kendall's tau of each component with the error of each setting, with 95 % intervals."""
    drawing, (axes,) = make_figure(height=2.8)
    _draw_settings(axes, {(estimate.outcome, estimate.term): estimate for estimate in estimates}, settings)
    axes.axhline(0, color="#444444", linewidth=0.7)
    axes.set_xlabel("Error that is ranked (fewer labels to the right)")
    axes.set_ylabel("Kendall's τ with the component\n[-1 to 1; 1: ranks encoders alike]")
    draw_legend_below(drawing, axes)
    return drawing


def draw_full_against_few(frame: pd.DataFrame, few: str, *, full: str = "train_test") -> Drawing:
    """Errors of all encoders in two settings, with the front of those that no other one beats in both."""
    rows = frame.dropna(subset=[full, few])
    front = pareto_front(rows, full, few)
    drawing, (axes,) = make_figure(width=4.6, height=3.8)
    modes = rows["ssl_mode"].fillna("unknown").astype(str)
    order = [*(mode for mode in MODE_COLOURS if (modes == mode).any()), *sorted(set(modes) - set(MODE_COLOURS))]
    ranked = rows.assign(mode=modes, rank=modes.map(order.index)).sort_values("rank", kind="stable")
    plot_groups(
        axes,
        ranked[full].tolist(),
        ranked[few].tolist(),
        ranked["mode"].tolist(),
        colours=MODE_COLOURS,
    )
    axes.plot(
        front[full],
        front[few],
        color="#222222",
        linewidth=0.9,
        zorder=3,
        marker="o",
        markersize=6,
        markerfacecolor="none",
        markeredgewidth=0.7,
        label=f"beaten by none in both ({len(front)})",
    )
    axes.set_xlabel(label_risk_axis(full))
    axes.set_ylabel(label_risk_axis(few))
    draw_legend_below(drawing, axes, n_columns=3, title="Type of objective (encoders)")
    return drawing


def _draw_settings(axes: Axes, found: Mapping[tuple[str, str], Estimate], settings: Sequence[str]) -> None:
    for offset, part in enumerate(PARTS):
        positions = [position for position, setting in enumerate(settings) if (setting, part) in found]
        estimates = [found[settings[position], part] for position in positions]
        draw_with_bars(axes, [position + 0.08 * (offset - 1.5) for position in positions], estimates, part)
    axes.set_xticks(range(len(settings)), [_setting(setting) for setting in settings])


def _scatter_years(axes: Axes, rows: pd.DataFrame, first: str, second: str, *, size: float) -> None:
    for year, group in rows.groupby("year"):
        colour, mark = _year_look(year)
        axes.scatter(
            group[first],
            group[second],
            s=size,
            c=colour,
            marker=mark,
            alpha=0.8,
            linewidths=0.3,
            edgecolors="white",
            label=f"{float(str(year)):.0f} ({len(group)})",
        )


def _year_look(year: object) -> tuple[str, str]:
    """Colour and mark of a year, the same in every panel, whichever years it has."""
    position = _LAST_YEAR - int(float(str(year)))
    return COLOURS[position % len(COLOURS)], MARKS[position % len(MARKS)]


def _label_risks(axes: Axes, first: str, second: str) -> None:
    axes.set_xlabel(f"{OUTCOMES[first].label} [points]")
    axes.set_ylabel(f"{OUTCOMES[second].label} [points]")


def _setting(setting: str) -> str:
    outcome = OUTCOMES[setting]
    return f"{outcome.label.removesuffix(' error')}\n{outcome.n_labels:,} labels"
