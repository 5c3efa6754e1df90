"""Figures of trees: which facts matter most for an outcome, and which way one choice moves several outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zoo.analysis.columns import OUTCOMES, STUDY_COLUMNS, TREE_OUTCOMES
from zoo.analysis.importance import Importance
from zoo.evaluation.drawing import Figure
from zoo.studies.shap import draw_bars, draw_choice, draw_swarms
from zoo.studies.trees import Trees

from .claims import FEW, FULL, TABLE_3_OUTCOMES

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


SMALL_FIGURES = (  # name, figure, feature, outcomes
    ("dimensions", "Figure 7", "z_dim", TABLE_3_OUTCOMES),
    ("views", "Figure 9a", "nviews", TABLE_3_OUTCOMES),
    ("family", "Figure 10a", "family", TREE_OUTCOMES),
    ("parameters", "Figure 10b", "n_parameters", TREE_OUTCOMES),
    ("dimensions_by_setting", "Figure 20", "z_dim", (FULL, FEW)),
)


def figures_of(trees: Trees) -> list[Figure]:
    """All figures."""
    if not trees.fitted:
        return []
    found = [*trees.fitted.values()]
    counts = {one.outcome: f"{OUTCOMES[one.outcome].label} {one.n}" for one in found}
    titles = [ROWS[one.outcome] for one in found]
    names = {str(feature) for one in found for feature in one.shap}
    labels = {name: TICKS.get(name, STUDY_COLUMNS[name].label) for name in names}
    figures = [
        Figure(
            name="most_important",
            title="Most important choices (Figure 18)",
            caption="Mean absolute SHAP value of the eight most important choices for each outcome, with the number "
            "of encoders; the last bar is the sum of the others. Axes differ in scale.",
            draw=partial(draw_bars, found, titles, labels),
        ),
        Figure(
            name="all_choices",
            title="Impact of choices (Figure 17)",
            caption=f"SHAP values in percentage points, each point an encoder ({', '.join(counts.values())}); negative "
            "is better. Blue are small numbers and red large ones, grey are choices that are no numbers. Axes differ "
            "in scale.",
            draw=partial(draw_swarms, found, titles, labels),
            data=partial(shap_rows, found),
        ),
    ]
    for name, where, feature, outcomes in SMALL_FIGURES:
        chosen = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if chosen:
            label = STUDY_COLUMNS[feature].label
            unit = "" if feature == "family" else " [number]"
            figure = Figure(
                name=name,
                title=f"Impact of {label} ({where})",
                caption=f"SHAP values in percentage points, each point an encoder "
                f"({', '.join(counts[one.outcome] for one in chosen)}). Negative is better.",
                draw=partial(
                    draw_choice, chosen, [ROWS[one.outcome] for one in chosen], feature, label=f"{label}{unit}"
                ),
            )
            figures.append(figure)
    return figures


def shap_rows(found: Sequence[Importance]) -> list[list[object]]:
    """Every SHAP value with its encoder, outcome and choice; headers first."""
    rows: list[list[object]] = [["encoder", "outcome", "choice", "value", "shap"]]
    for one in found:
        for feature in one.shap:
            cells = zip(one.shap.index, one.values[feature].astype(object), one.shap[feature], strict=True)
            rows += [
                [encoder, one.outcome, feature, "" if value != value else value, f"{share:.6g}"]
                for encoder, value, share in cells
            ]
    return rows
