"""Effects of all choices, the interactions, the scaling laws, and how metrics order encoders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import title_of
from zoo.analysis.randomised import RandomisedEffect
from zoo.analysis.randomised_population import OF_OBJECTIVE, OUTCOMES, UNITS
from zoo.evaluation.drawing import COLOURS, MARKS, Figure, legend_below, letter, new_figure

from .experiment import CERTAIN, Experiment, robust
from .law import Fitted, Laws
from .orders import ALL, ARCHITECTURE, BASELINE, FREE, LABELLED, SEARCH, TARGETS, WITHIN, Orders, kind_of
from .tables import ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

FOUND, PERHAPS, NONE = "#0072B2", "#56B4E9", "#888888"
_WORDS = {
    "projector_width": "projector 256 against 64 wide",
    "projector linear": "linear projector",
    "projector mlp": "MLP projector",
    "dim": "dimensions, 4 times",
    "vit": "ViT against ResNet",
    "large": "large against small",
    "epochs": "epochs, 2 times",
    "batch_size": "batch, 2 times",
    "rate_factor": "learning rate, 3 times",
    "n_views": "four views against two",
}
_INKS = {FREE: "#009E73", LABELLED: "#D55E00", BASELINE: "#444444"}
_LABELS = {30: "30", 300: "300", 3_000: "3k", 60_000: "60k", 30_000: "30k", 1_281_167: "1.28M"}


def all_figures(experiment: Experiment, laws: Laws, orders: Orders) -> list[Figure]:
    """In the order of the report."""
    n = len(experiment.population)
    return [
        Figure(
            name="effects",
            title="What each choice changes",
            caption=f"Effects on five errors of {n} encoders, in percentage points; below 0 the error falls. Dots are "
            "by least squares beside all other choices, with 95 % intervals (HC3); strokes the difference in means. An "
            f"objective is against the mean of the others, a projector against none. Blue: family-wise p at most "
            f"{CERTAIN:g}; light blue: p at most {CERTAIN:g} alone, of which some are due to chance.",
            draw=partial(draw_effects, experiment),
        ),
        Figure(
            name="interactions",
            title="Interactions that were stated beforehand",
            caption=f"How much more the first choice changes (a) usability or the error with all labels and (b) a "
            f"generalization error where the second is made, or is one step larger, of {n} encoders, in percentage "
            "points, by least squares beside all choices with 95 % intervals (HC3). Arrows are the expectation, a ring "
            f"that none was expected. Blue: family-wise p at most {CERTAIN:g} of six; light blue: p at most "
            f"{CERTAIN:g} alone.",
            draw=partial(draw_interactions, experiment),
        ),
        Figure(
            name="laws",
            title="Errors by number of labels, and the law of either population",
            caption=f"Error in percent, lower is better, by labels of the probe: means over {laws.ours.law.n_encoders} "
            f"randomised encoders on {laws.ours.dataset}"
            + (f" (a) and {laws.imagenet.law.n_encoders} published ones on ImageNet (b)" if laws.imagenet else "")
            + ". Bands hold eight of ten encoders. Lines are the mean of the law over the same encoders, with the "
            "exponent and weight fitted to them, and, dashed, with those of the other population.",
            draw=partial(draw_laws, laws),
        ),
        _orders_figure(
            orders,
            "orders",
            "How metrics order encoders, among all and among alike ones",
            [("full", pairs) for pairs in (ALL, WITHIN, ARCHITECTURE, SEARCH)],
        ),
        _orders_figure(
            orders,
            "orders_of_other_errors",
            "How metrics order encoders by other errors",
            [(target, pairs) for target in ("usability", "3-shot") for pairs in (ALL, WITHIN)],
        ),
    ]


def draw_effects(experiment: Experiment) -> Drawing:
    """One panel an outcome, one row a contrast."""
    terms = [name for name in UNITS if (name, "usability") in experiment.first]
    drawing, panels = new_figure(height=0.155 * len(terms) + 1.1, n_columns=len(OUTCOMES), sharey=True)
    places = [-place - 0.6 * (term not in OF_OBJECTIVE) for place, term in enumerate(terms)]
    for panel, outcome in zip(panels, OUTCOMES, strict=True):
        for place, term in zip(places, terms, strict=True):
            _draw_effect(panel, place, experiment.first[term, outcome])
        panel.axvline(0, color="black", linewidth=0.7)
        panel.set_xlabel("effect [points]")
        panel.grid(visible=False, axis="y")
        panel.tick_params(axis="y", length=0)
        panel.margins(x=0.06)
    panels[0].set_yticks(
        places, [_WORDS.get(term, term.removeprefix("objective ").replace("_", " ")) for term in terms]
    )
    panels[0].set_ylim(places[-1] - 0.7, 0.7)
    letter(
        panels,
        [
            words.replace("Error with ", "Error with\n").replace(" generalization", "\ngeneralization")
            for words in OUTCOMES.values()
        ],
    )
    for ink, words in (
        (FOUND, f"family-wise p at most {CERTAIN:g}"),
        (PERHAPS, f"p at most {CERTAIN:g}"),
        (NONE, "not detected"),
    ):
        panels[0].plot([], [], "o-", color=ink, label=words)
    panels[0].plot([], [], "|", color=NONE, markersize=6, label="difference in means")
    legend_below(drawing, panels[0], n_columns=4)
    return drawing


def _draw_effect(panel: Axes, place: float, effect: RandomisedEffect) -> None:
    ink = FOUND if effect.p_family <= CERTAIN else PERHAPS if effect.p <= CERTAIN else NONE
    one = robust(effect.beside)
    panel.hlines(place, one.ci_low or 0.0, one.ci_high or 0.0, color=ink, linewidth=1.6 if ink == FOUND else 1.1)
    panel.plot(one.value or 0.0, place, "o", color=ink, markersize=4.5 if ink == FOUND else 3.2)
    if effect.alone is not None:
        panel.plot(effect.alone.value or 0.0, place, "|", color=ink, markersize=6)


_GENERALIZATION = ("probe_gen", "enc_gen")
_EXPECTED = {-1: "<", 0: "o", 1: ">"}


def draw_interactions(experiment: Experiment) -> Drawing:
    """One row an interaction, errors and generalization errors in panels of their own."""
    parts = [
        [one for one in experiment.interactions if (one.effect.outcome in _GENERALIZATION) == is_general]
        for is_general in (False, True)
    ]
    drawing, panels = new_figure(height=2.1, n_columns=2)
    for panel, part in zip(panels, parts, strict=True):
        for place, one in enumerate(part):
            _draw_effect(panel, -place, one.effect)
            panel.plot(
                0,
                0.36 - place,
                _EXPECTED[one.expected],
                color="black",
                markersize=4,
                markerfacecolor="none",
            )
        panel.set_yticks([-place for place in range(len(part))], [_interaction_words(one.effect) for one in part])
        panel.set_ylim(0.7 - len(part), 0.7)
        panel.axvline(0, color="black", linewidth=0.7)
        panel.set_xlabel("interaction [points]\nbelow 0 the error falls more")
        panel.grid(visible=False, axis="y")
    letter(panels)
    return drawing


def _interaction_words(effect: RandomisedEffect) -> str:
    first, second = (_WORDS.get(one, one).split(",")[0] for one in effect.term.split(" x "))
    return f"{first} x {second}\n{OUTCOMES[effect.outcome].lower()}"


def draw_laws(laws: Laws) -> Drawing:
    """One panel a population: errors by labels, its own law and that of the other one."""
    each = laws.each()
    drawing, panels = new_figure(height=3.2, n_columns=len(each), sharey=True)
    for number, (panel, fitted) in enumerate(zip(panels, each, strict=True)):
        _draw_law(panel, fitted, each[1 - number] if len(each) == 2 else None)
        panel.set_xlabel("labels of the probe [number]")
    panels[0].set_ylabel("error [%], lower is better")
    letter(panels, [f"{one.dataset}, {one.law.n_encoders} encoders" for one in each])
    legend_below(drawing, panels[0], n_columns=4)
    return drawing


def _draw_law(panel: Axes, fitted: Fitted, other: Fitted | None) -> None:
    by_labels = fitted.rows.groupby("n")["error"]
    mean = by_labels.mean()
    n, low, high = mean.index.to_numpy(float), *(by_labels.quantile(share).to_numpy(float) for share in (0.1, 0.9))
    panel.fill_between(n, low, high, color="#DDDDDD", linewidth=0, label="eight of ten encoders")
    panel.plot(n, mean.to_numpy(float), "o", color="black", label="mean of the encoders")
    line = np.geomspace(n[0], n[-1], 60)
    panel.plot(line, fitted.mean_curve(line, *_parameters(fitted)), color=COLOURS[0], label="law fitted to them")
    if other is not None:
        there = fitted.mean_curve(line, *_parameters(other))
        panel.plot(line, there, "--", color=COLOURS[5], label="alpha and W of the other population")
    panel.set_xscale("log")
    ticks = [one for one in _LABELS if n[0] <= one <= n[-1]]
    panel.set_xticks(ticks, [_LABELS[one] for one in ticks])
    panel.minorticks_off()


def _parameters(fitted: Fitted) -> tuple[float, float]:
    return fitted.law.alpha.value or 0.0, fitted.law.W.value or 0.0


def _orders_figure(orders: Orders, name: str, title: str, panels: Sequence[tuple[str, str]]) -> Figure:
    shown = "; ".join(
        f"({place}) {TARGETS[target]}, {pairs}" for place, (target, pairs) in zip("abcdef", panels, strict=False)
    )
    return Figure(
        name=name,
        title=title,
        caption=f"Kendall's tau between a metric and an error of {len(orders.predictors)} encoders, over pairs of "
        f"encoders that share something: {shown}. Metrics are turned so that more is better as their papers read them; "
        "1 if all pairs are ordered as the error orders them. 95 % intervals over resampled encoders; width is the "
        "number of dimensions of the features.",
        draw=partial(draw_orders, orders, panels),
    )


def draw_orders(orders: Orders, shown: Sequence[tuple[str, str]]) -> Drawing:
    """One panel a target and kind of pairs, one row a metric."""
    metrics = ranked(orders)
    drawing, panels = new_figure(height=0.155 * len(metrics) + 1.2, n_columns=len(shown), sharey=True, sharex=True)
    kinds = list(_INKS)
    places = [-place - 0.6 * kinds.index(kind_of(metric)) for place, metric in enumerate(metrics)]
    for panel, (target, pairs) in zip(panels, shown, strict=True):
        for place, metric in zip(places, metrics, strict=True):
            _draw_tau(panel, place, orders.one(metric, target, pairs), kind_of(metric))
        panel.axvline(0, color="black", linewidth=0.7)
        panel.set_xlabel("tau [-1 to 1]")
        panel.grid(visible=False, axis="y")
        panel.tick_params(axis="y", length=0)
        panel.set_xlim(-0.75, 1.05)
    panels[0].set_yticks(places, [_short(metric) for metric in metrics])
    panels[0].set_ylim(places[-1] - 0.7, 0.7)
    letter(panels, [_words(target, pairs, alone=len({one for one, _ in shown}) == 1) for target, pairs in shown])
    for kind, ink in _INKS.items():
        panels[0].plot([], [], MARKS[kinds.index(kind)], linestyle="-", color=ink, label=kind)
    legend_below(drawing, panels[0], n_columns=3)
    return drawing


def _words(target: str, pairs: str, *, alone: bool) -> str:
    """What a panel shows, in two lines at most; its target only where others have another one."""
    if not alone:
        return f"{target} error,\n{pairs}"
    return pairs.replace(", network", ",\nnetwork").replace(" network and width", " network\nand width")


def _short(metric: str) -> str:
    """The words for a metric without what stands in brackets, but for views."""
    title = title_of(metric)
    return title if title.endswith("(aug.)") else title.partition(" (")[0]


def _draw_tau(panel: Axes, place: float, one: Estimate, kind: str) -> None:
    if one.value is None:
        return
    if one.ci_low is not None and one.ci_high is not None:
        panel.hlines(place, one.ci_low, one.ci_high, color=_INKS[kind], linewidth=1.1)
    panel.plot(one.value, place, MARKS[list(_INKS).index(kind)], color=_INKS[kind], markersize=3.6)
