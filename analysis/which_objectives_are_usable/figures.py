"""Figures of types of objective: usability of every encoder by type and by year, and SHAP values by objective."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from zoo.analysis.columns import OUTCOMES, TREE_OUTCOMES, Estimate
from zoo.analysis.importance import Importance
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import (
    MODE_COLOURS,
    Figure,
    legend_below,
    letter,
    new_figure,
    palette,
    scatter_groups,
)
from zoo.optional import requires_extra
from zoo.studies.shap import draw_choice, scatter
from zoo.studies.tables import risk_label
from zoo.studies.trees import Trees

from .claims import FEWEST, PROJECTOR

with requires_extra("study", needed_for="A figure"):
    import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_GROUP_STEP = 0.13  # years between the columns of two groups of one year
SHOWN = ("usability", "probe_gen", "train_test", "train-nperclass-3_test")  # in Figure 13


def figures_of(table: StudyTable, means: Sequence[Estimate], trees: Trees) -> list[Figure]:
    """All figures; ``means`` are those of usability by type."""
    n = sum(one.n for one in means)
    figures = [
        Figure(
            name="usability_by_type",
            title="Usability error by type of objective (Figures 12 and 23a)",
            caption=f"Usability error in percentage points, lower is better, of {n} encoders, each a point, their "
            "number in brackets; diamonds are means with 95 % intervals.",
            draw=partial(draw_means, table, means, outcome="usability", by="ssl_mode"),
        ),
        Figure(
            name="usability_by_year",
            title="How the year and the type of objective go together",
            caption=f"Usability error of {n} encoders in percentage points, lower is better, by the year of their "
            "method; types stand side by side within the band of a year.",
            draw=partial(draw_by_year, table, outcome="usability", by="ssl_mode"),
        ),
    ]
    if "usability" in trees.fitted:
        found = trees.fitted["usability"]
        panels = (("type of objective", ("ssl_mode",)), ("projector", PROJECTOR))
        types = Figure(
            name="shap_of_types",
            title="SHAP values by type of objective (Figures 22 and 23b)",
            caption=f"SHAP values on the usability error of {found.n} encoders, of (a) the type and (b) the projector "
            "(its architecture and hidden parameters, added), which generative encoders lack.",
            draw=partial(draw_types, found, panels),
        )
        figures.append(types)
    counts = table.frame["objective"].value_counts()
    clustering = table.frame.loc[table.frame["ssl_mode"] == "clustering", "objective"].value_counts()
    for name, title, names, outcomes, fewest in (
        ("clustering_objectives", "Clustering objectives (Figure 13)", clustering, SHOWN, 1),
        ("objectives", "Objectives (Figure 24)", counts[counts >= FEWEST], TREE_OUTCOMES, FEWEST),
    ):
        models = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if models and len(names):
            shown = ", ".join(f"{one.n} ({OUTCOMES[one.outcome].label})" for one in models)
            ending = f"; objectives of fewer than {fewest} are left out." if fewest > 1 else "."
            objectives = Figure(
                name=name,
                title=title,
                caption=f"SHAP values of the objective, each point one of {shown} encoders{ending}",
                draw=partial(
                    draw_choice,
                    models,
                    [OUTCOMES[one.outcome].label for one in models],
                    "objective",
                    label="",
                    only=[str(one) for one in names.index],
                ),
            )
            figures.append(objectives)
    return figures


def draw_means(table: StudyTable, means: Sequence[Estimate], *, outcome: str, by: str) -> Drawing:
    """Every encoder as a point, a row a group, with the group's mean and its interval."""
    rows = table.complete(outcome, by)
    drawing, (axes,) = new_figure(height=0.42 * len(means) + 0.6)
    for position, mean in enumerate(means):
        own = rows.loc[rows[by].astype(str) == mean.term, outcome]
        values = own.to_numpy(float)
        moves = np.random.default_rng(position).uniform(-0.25, 0.25, len(values))
        colour = palette([mean.term], MODE_COLOURS)[mean.term][0]
        axes.scatter(values, position + moves, s=9, c=colour, linewidths=0, alpha=0.55, zorder=2)
        if mean.ci_low is not None and mean.ci_high is not None:
            axes.plot([mean.ci_low, mean.ci_high], [position, position], color="black", linewidth=1.1, zorder=3)
        axes.scatter(
            [mean.value or 0.0], [position], s=34, marker="D", c=colour, edgecolors="black", linewidths=0.9, zorder=4
        )
    axes.set_yticks(range(len(means)), [f"{mean.term} ({mean.n})" for mean in means])
    axes.set_ylim(len(means) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(risk_label(outcome))
    return drawing


def draw_by_year(table: StudyTable, *, outcome: str, by: str) -> Drawing:
    """Every encoder by the year of its method, which is a band; the groups of a year stand side by side within it."""
    rows = table.complete(outcome, by, "year")
    drawing, (axes,) = new_figure(height=3.3)
    years = rows["year"].to_numpy(float)
    order = sorted(rows[by].astype(str).unique(), key=lambda group: -int((rows[by] == group).sum()))
    rows = rows.iloc[np.argsort([order.index(str(group)) for group in rows[by]], kind="stable")]
    groups = [str(group) for group in rows[by]]
    present = {year: set(own) for year, own in rows[by].astype(str).groupby(rows["year"].astype(float))}
    places = {year: [group for group in order if group in own] for year, own in present.items()}
    x = [
        year + _GROUP_STEP * (places[year].index(group) - (len(places[year]) - 1) / 2)
        for year, group in zip(rows["year"].astype(float), groups, strict=True)
    ]
    scatter_groups(axes, x, rows[outcome].astype(float).tolist(), groups, colours=MODE_COLOURS, size=13)
    every = range(int(years.min()), int(years.max()) + 1)
    for year in every[::2]:
        axes.axvspan(year - 0.5, year + 0.5, color="#F3F3F3", zorder=0, linewidth=0)
    counts = rows["year"].astype(int).value_counts()
    axes.set_xticks(every, [f"{year}\nn = {counts.get(year, 0)}" for year in every])
    axes.set_xlim(every[0] - 0.5, every[-1] + 0.5)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("year of publication of the method")
    axes.set_ylabel(risk_label(outcome))
    legend_below(drawing, axes, n_columns=3)
    return drawing


def draw_types(found: Importance, panels: Sequence[tuple[str, Sequence[str]]]) -> Drawing:
    """SHAP values by type of objective: a panel a group of features, whose values are added."""
    drawing, axes = new_figure(height=2.9, n_columns=len(panels))
    modes = found.values["ssl_mode"]
    order = found.shap["ssl_mode"].groupby(modes.astype(object)).mean().sort_values().index
    places = [encoder for mode in order for encoder in found.shap.index[modes == mode]]
    for one, (title, features) in zip(axes, panels, strict=True):
        shares = found.shap.loc[places, list(features)].sum(axis=1).rename(title)
        scatter(one, shares, modes[places])
        one.set_ylabel(f"SHAP value of the {title} [points]\nnegative is better")
    letter(axes)
    return drawing
