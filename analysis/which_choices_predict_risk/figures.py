"""Figures of trees: which facts matter most for an outcome, and which way one choice moves several outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from zoo.analysis.columns import OUTCOMES, STUDY_COLUMNS, TREE_OUTCOMES
from zoo.analysis.importance import Importance
from zoo.analysis.table import StudyTable
from zoo.analysis.trees import TREE_FEATURES
from zoo.evaluation.drawing import COMPONENT_COLOURS, FULL_WIDTH, MODE_COLOURS, Figure, letter, new_figure
from zoo.studies.shap import Colours, Swarm, beeswarm, colours_for, explain_colours, explain_colours_in, importance_bars
from zoo.studies.trees import Trees

from .claims import FEW, FULL, TABLE_3_OUTCOMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


ROWS = {  # outcomes as rows of a swarm, where room is scarce
    "approx": "Approximation",
    "usability": "Usability",
    "probe_gen": "Probe gen.",
    "enc_gen": "Encoder gen.",
    "train_test": "Full-shot error",
    "train-nperclass-3_test": "3-shot error",
}
TICKS = {  # facts as labels of bars, where room is scarce
    "z_dim": "dimensions",
    "n_parameters": "parameters",
    "projection2_arch": "projector",
    "projection_nparameters_hidden": "hidden proj. param.",
    "pretraining_data": "data",
    "ssl_mode": "objective type",
    "family": "family",
}


FIGURE_17 = (
    "z_dim",
    "n_augmentations",
    "nviews",
    "ssl_mode",
    "projection2_arch",
    "projection_nparameters_hidden",
    "family",
    "n_parameters",
    "patch_size",
    "pretraining_data",
    "epochs",
    "optimizer",
    "batch_size",
    "n_classes",
)
SMALL_FIGURES = (  # name, figure, feature, outcomes, normalised
    ("dimensions", "Figure 7", "z_dim", TABLE_3_OUTCOMES, True),
    ("views", "Figure 9a", "nviews", TABLE_3_OUTCOMES, True),
    ("family", "Figure 10a", "family", TREE_OUTCOMES, True),
    ("parameters", "Figure 10b", "n_parameters", TREE_OUTCOMES, True),
    ("dimensions_by_setting", "Figure 20", "z_dim", (FULL, FEW), False),
)


def figures_of(table: StudyTable, trees: Trees, before: Trees) -> list[Figure]:
    """All figures; ``before`` are the trees that know the choices before filtering."""
    if not trees.fitted:
        return []
    counts = {outcome: f"{OUTCOMES[outcome].label} {found.n}" for outcome, found in trees.fitted.items()}
    panels = [(name, [*(trees if name in TREE_FEATURES["few"] else before).fitted.values()]) for name in FIGURE_17]
    figures = [
        Figure(
            name="most_important",
            title="Most important choices (Figure 18)",
            caption="Mean absolute SHAP value of the eight most important choices for each outcome, with the number "
            "of encoders. Axes differ in scale.",
            draw=partial(draw_importances, [*trees.fitted.values()]),
        ),
        Figure(
            name="all_choices",
            title="Impact of choices (Figure 17)",
            caption="SHAP values as shares of the mean outcome, each point an encoder "
            f"({', '.join(counts.values())}); negative is better. Axes differ in scale: "
            "what is far apart in one panel is close together in another. Batch size and classes are from the trees "
            "before filtering.",
            draw=partial(draw_choices, panels, table),
        ),
    ]
    for name, where, feature, outcomes, normalised in SMALL_FIGURES:
        found = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if found:
            unit = "as shares of the mean outcome" if normalised else "in percentage points"
            figure = Figure(
                name=name,
                title=f"Impact of {table.column(feature).label} ({where})",
                caption=f"SHAP values {unit}, each point an encoder "
                f"({', '.join(counts[one.outcome] for one in found)}). Negative is better.",
                draw=partial(draw_choice, found, feature, table, normalised=normalised),
            )
            figures.append(figure)
    return figures


def choice_swarms(
    found: Sequence[Importance], feature: str, table: StudyTable, *, normalised: bool = True
) -> list[Swarm]:
    """SHAP values of one feature on several outcomes, a row an outcome, with the feature's published values.

    Normalised they are shares of the mean absolute value of the outcome, as in Figure 17; else in the outcome's unit.
    """
    swarms = []
    for one in found:
        rows = table.frame.loc[one.shap.index]
        scale = float(rows[one.outcome].abs().mean()) if normalised else 1.0
        swarms.append(
            Swarm(ROWS[one.outcome], (one.shap[feature] / scale).tolist(), rows[feature].tolist(), list(rows.index))
        )
    return swarms


def draw_choice(found: Sequence[Importance], feature: str, table: StudyTable, *, normalised: bool = True) -> Drawing:
    """One choice: a row an outcome, a point an encoder, coloured by what it chose."""
    swarms = choice_swarms(found, feature, table, normalised=normalised)
    colours = _colours(feature, swarms)
    drawing, (axes,) = new_figure(width=0.66 * FULL_WIDTH, height=0.42 * len(swarms) + 1.25)
    beeswarm(axes, swarms, colours, size=9)
    axes.set_xlabel(f"SHAP value [{'share of the mean outcome' if normalised else 'points'}], negative is better")
    explain_colours(drawing, [axes], colours, swarms, label=STUDY_COLUMNS[feature].label)
    return drawing


def draw_choices(
    panels: Sequence[tuple[str, Sequence[Importance]]], table: StudyTable, *, n_columns: int = 2
) -> Drawing:
    """Several choices, a panel each with its own axis and colours below it: SHAP values as shares of the mean."""
    n_rows = -(-len(panels) // n_columns)
    heights = (1.6, 0.5)  # inches of a panel, and of what explains its colours
    drawing, axes = new_figure(
        height=(sum(heights) + 0.15) * n_rows, n_rows=2 * n_rows, n_columns=n_columns, height_ratios=heights * n_rows
    )
    places = [2 * n_columns * (place // n_columns) + place % n_columns for place in range(n_rows * n_columns)]
    for position, (place, (feature, found)) in enumerate(zip(places, panels, strict=False)):
        one, key = axes[place], axes[place + n_columns]
        swarms = choice_swarms(found, feature, table)
        colours = _colours(feature, swarms)
        beeswarm(one, swarms, colours, size=5, rasterized=True)
        one.tick_params(axis="y", labelleft=position % n_columns == 0)
        one.set_xlabel("SHAP value [share of the mean], negative is better", fontsize=7)
        explain_colours_in(drawing, key, colours, swarms, label=STUDY_COLUMNS[feature].label)
    letter([axes[place] for place in places[: len(panels)]])
    for place in places[len(panels) :]:
        axes[place].set_visible(False)
        axes[place + n_columns].set_visible(False)
    return drawing


def draw_importances(found: Sequence[Importance], *, n_features: int = 8, n_columns: int = 3) -> Drawing:
    """The facts with the largest mean absolute SHAP value, a panel an outcome."""
    n_rows = -(-len(found) // n_columns)
    names = {str(feature) for one in found for feature in one.shap}
    labels = {name: TICKS.get(name, STUDY_COLUMNS[name].label) for name in names}
    drawing, axes = new_figure(height=n_rows * (0.17 * n_features + 0.7), n_rows=n_rows, n_columns=n_columns)
    for one, importance in zip(axes, found, strict=False):
        means = {str(feature): float(mean) for feature, mean in importance.mean_absolute.items()}
        colour = COMPONENT_COLOURS.get(importance.outcome, "#444444")
        importance_bars(one, means, labels, n_features=n_features, colour=colour)
        one.set_xlabel(f"{ROWS[importance.outcome]}, n = {importance.n}\nmean |SHAP| [points]")
    for one in axes[len(found) :]:
        one.set_visible(False)
    letter(axes[: len(found)])
    return drawing


def _colours(feature: str, swarms: Sequence[Swarm]) -> Colours:
    choices = [choice for swarm in swarms for choice in swarm.choices]
    return colours_for(choices, MODE_COLOURS if feature == "ssl_mode" else None)
