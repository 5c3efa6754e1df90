"""The tables of the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import get_direction, get_metric_title
from zoo.analysis.randomised import OF_OBJECTIVE, OUTCOMES, UNITS, RandomisedPopulation
from zoo.evaluation.drawing import COLOURS, MARKS, Figure, draw_legend_below, make_figure, write_panel_letters
from zoo.studies.findings import FindingsTable, RowsUsed
from zoo.studies.tables import format_estimate, format_p_value, format_unsigned

from .effects import RandomisedEffect
from .experiment import (
    ALL,
    ALPHA,
    ARCHITECTURE,
    BASELINE,
    CERTAIN,
    FREE,
    KINDS,
    LABELLED,
    SEARCH,
    SHARED,
    SIGNS,
    TARGETS,
    WITHIN,
    Experiment,
    Fitted,
    Laws,
    Orders,
    W,
    kind_of,
    of_kind,
    robust,
)

POINTS = "Percentage points, lower is better."


def effects_tables(experiment: Experiment) -> list[FindingsTable]:
    """One table an outcome, one row a contrast, both analyses."""
    n = len(experiment.population)
    return [
        FindingsTable(
            title=f"What each choice changes: {words.lower()}",
            headers=[
                "contrast",
                "encoders",
                "difference in means, or slope",
                "least squares [95 %, HC3]",
                "p",
                "family-wise p",
                "self-supervised alone [95 %, HC3]",
                "p, self-supervised alone",
            ],
            rows=[
                [
                    UNITS[term],
                    str(effect.n),
                    f"{_value(effect):+.2f}",
                    format_estimate(robust(effect.beside), digits=2),
                    format_p_value(effect.p),
                    format_p_value(effect.p_family),
                    *_second(experiment, term, outcome),
                ]
                for (term, of), effect in experiment.first.items()
                if of == outcome
            ],
            note=f"{POINTS} {n} encoders, of which {experiment.n_second} are self-supervised. p by permutation, of the "
            f"difference in means; family-wise over the {len(experiment.first)} contrasts and outcomes of the first "
            "analysis, which counts.",
        )
        for outcome, words in OUTCOMES.items()
    ]


def _second(experiment: Experiment, term: str, outcome: str) -> list[str]:
    effect = experiment.second.get((term, outcome))
    return ["", ""] if effect is None else [format_estimate(robust(effect.beside), digits=2), format_p_value(effect.p)]


def _value(effect: RandomisedEffect) -> float:
    return (effect.alone or effect.beside).value or 0.0


def together_table(experiment: Experiment) -> FindingsTable:
    """The mean effect of the augmentations, one row an outcome."""
    return FindingsTable(
        title="What one augmentation changes, the mean of five",
        headers=["outcome", "slope on their number", "least squares [95 %, HC3]", "p", "family-wise p"],
        rows=[
            [
                OUTCOMES[outcome],
                f"{_value(effect):+.2f}",
                format_estimate(robust(effect.beside), digits=2),
                format_p_value(effect.p),
                format_p_value(effect.p_family),
            ]
            for (_, outcome), effect in experiment.together.items()
        ],
        note=f"{POINTS} No part of the family that was stated beforehand: family-wise over these outcomes.",
    )


def interactions_table(experiment: Experiment) -> FindingsTable:
    """One row an interaction that was stated beforehand."""
    return FindingsTable(
        title="Interactions that were stated beforehand",
        headers=["interaction", "outcome", "value [95 %, HC3]", "p", "family-wise p", "expected", "verdict"],
        rows=[
            [
                one.effect.term,
                OUTCOMES[one.effect.outcome],
                format_estimate(robust(one.effect.beside), digits=2),
                format_p_value(one.effect.p),
                format_p_value(one.effect.p_family),
                SIGNS[one.expected],
                one.verdict,
            ]
            for one in experiment.interactions
        ],
        note="By how many percentage points the first changes the outcome more where the second is one larger; "
        "below 0 it lowers it more. p by permuted residuals; family-wise over these six.",
    )


def smallest_table(experiment: Experiment) -> FindingsTable:
    """What could have been found, one row an outcome and a kind of contrast; medians over the contrasts."""
    rows = []
    for outcome, words in OUTCOMES.items():
        spread = float(experiment.population.outcomes[outcome].std())
        for kind in KINDS:
            effects = [experiment.first[term, outcome] for term in of_kind(experiment.population.contrasts, kind)]
            sizes = [_half(effects), *(_median(experiment, effects, of_family=of) for of in (False, True))]
            rows.append([words, f"{spread:.2f}", kind, *(f"{size:.2f}" for size in sizes)])
    return FindingsTable(
        title="What could have been found",
        headers=[
            "outcome",
            "standard deviation over encoders",
            "contrast",
            "half of the interval of least squares",
            f"found in four of five at p {CERTAIN:g}",
            f"found in four of five at family-wise p {CERTAIN:g}",
        ],
        rows=rows,
        note="Sizes of an effect in percentage points, medians over contrasts of a kind. An effect that was not found "
        "is no absent one: it may have any size up to about these.",
    )


def _half(effects: Sequence[RandomisedEffect]) -> float:
    own = [robust(one.beside) for one in effects]
    return float(np.median([((one.ci_high or 0.0) - (one.ci_low or 0.0)) / 2 for one in own]))


def _median(experiment: Experiment, effects: Sequence[RandomisedEffect], *, of_family: bool) -> float:
    return float(np.median([experiment.smallest(one, of_family=of_family) for one in effects]))


def approximation_table(population: RandomisedPopulation) -> FindingsTable:
    """The error of the supervised twin of every architecture, one column a number of dimensions."""
    frame = population.choices[["network", "size", "dim"]].assign(approx=population.outcomes["approx"])
    cells = {key: f"{value:.2f}" for key, value in frame.groupby(["network", "size", "dim"])["approx"].mean().items()}
    widths = sorted({int(one) for one in frame["dim"]})
    return FindingsTable(
        title="Approximation: the training error of the supervised twin of each architecture",
        headers=["network", "size", *(f"{width} dimensions" for width in widths)],
        rows=[
            [network, size, *(cells.get((network, size, width), "") for width in widths)]
            for network in sorted(set(frame["network"]))
            for size in sorted(set(frame["size"]), reverse=True)
        ],
        note=f"{POINTS} A property of the architecture, so that no choice of the training changes it, and nothing is "
        "tested; empty where no encoder of the population has the architecture.",
    )


def law_table(laws: Laws) -> FindingsTable:
    """One row a law, and the differences."""
    rows = [
        [
            one.dataset,
            str(one.law.n_encoders),
            str(one.law.n_rows),
            f"{one.law.n_measured:,.0f}",
            *(
                format_unsigned(value, digits)
                for value, digits in ((one.law.alpha, 3), (one.law.W, 2), (one.law.r2, 3))
            ),
            format_unsigned(one.left_out, 3),
            f"{one.full_shot_only:.3f}",
        ]
        for one in laws.each()
    ]
    if laws.imagenet is not None:
        differences = [format_estimate(laws.difference(name), digits=digits) for name, digits in ((ALPHA, 3), (W, 2))]
        rows.append(["difference", "", "", "", *differences, "", "", ""])
    return FindingsTable(
        title="The scaling law of these encoders and of ImageNet's",
        headers=[
            "encoders of", "encoders", "errors", "labels of the components", "alpha", "W", "R2",
            "R2 of encoders left out", "R2, full-shot error alone",
        ],
        rows=rows,
        note="95 % intervals over resampled encoders; of the difference both are resampled independently.",
    )  # fmt: skip


def misses_table(laws: Laws) -> FindingsTable:
    """Measured minus predicted by number of labels, of each law."""
    rows = [
        [one.dataset, f"{n:,}", str(count), f"{bias:+.2f} [{low:+.2f}, {high:+.2f}]", f"{rmse:.2f}"]
        for one in laws.each()
        for n, count, bias, low, high, rmse in one.misses().itertuples(index=False)
    ]
    return FindingsTable(
        title="Where the law misses",
        headers=["encoders of", "labels", "encoders", "measured minus predicted", "root mean square"],
        rows=rows,
        note="Percentage points of error, positive where the law is too optimistic, each law on the encoders that it "
        "was fitted to; means with 95 % intervals over encoders.",
    )


def orders_tables(orders: Orders) -> list[FindingsTable]:
    """One table per target, one row per metric, one column per kind of pairs."""
    metrics = ranked(orders)
    n_pairs = {pairs: orders.n_pairs(pairs) for pairs in SHARED}
    return [
        FindingsTable(
            title=f"How metrics order encoders by {words}",
            headers=["metric", "kind", "encoders", *(f"{pairs} ({n_pairs[pairs]:,} pairs)" for pairs in SHARED)],
            rows=[
                [
                    get_metric_title(metric) + (", no direction is claimed" if get_direction(metric) == "none" else ""),
                    kind_of(metric),
                    str(orders.one(metric, target, ALL).n),
                    *(_tau(orders.one(metric, target, pairs)) for pairs in SHARED),
                ]
                for metric in metrics
            ],
            note="Kendall's tau over pairs of encoders that share what the column says, every metric turned so that "
            "more is better as its paper reads it: 1 if it orders all such pairs as the error does. 95 % intervals "
            "over resampled encoders. One width is one number of dimensions of the features.",
        )
        for target, words in TARGETS.items()
    ]


def ranked(orders: Orders) -> list[str]:
    """The metrics by kind, each kind with the best order of all encoders by the error with all labels first."""
    metrics = [str(name) for name in orders.predictors]
    kinds = list(dict.fromkeys(map(kind_of, metrics)))
    return sorted(metrics, key=lambda name: (kinds.index(kind_of(name)), -(orders.one(name, "full", ALL).value or 0.0)))


def missing_table(missing: dict[str, dict[str, int]], n: int) -> FindingsTable:
    """Which metrics some encoders lack, and why."""
    return FindingsTable(
        title="Metrics that some encoders lack",
        headers=["metric", "encoders with it", "encoders without it", "why"],
        rows=[
            [get_metric_title(name), str(n - sum(why.values())), str(number), words]
            for name, why in missing.items()
            for words, number in why.items()
        ],
    )


def runs_table(population: RandomisedPopulation) -> FindingsTable:
    """Result of the runs, one row per objective."""
    log, objectives = population.log, population.choices["objective"]
    rows = []
    for name in [*sorted(set(objectives)), "all"]:
        own = log if name == "all" else log[objectives == name]
        counts = [str(int((own["state"] == state).sum())) for state in ("trained", "collapsed", "failed")]
        rows.append(
            [name, str(len(own)), *counts, f"{own['seconds'].median():.0f}", f"{own['seconds'].sum() / 3600:.2f}"]
        )
    return FindingsTable(
        title="The runs",
        headers=["objective", "runs", "trained", "collapsed", "failed", "median seconds", "hours in all"],
        rows=rows,
        note="Collapsed: RankMe of the features below 2, or hardly any spread; such runs stay in the population.",
    )


def choices_table(population: RandomisedPopulation) -> FindingsTable:
    """How often each level of each choice was drawn."""
    rows = []
    for name in population.choices:
        cells = population.choices[name].dropna()
        counts = cells.value_counts()
        levels = sorted(counts.index, key=lambda level: (isinstance(level, str), level))
        rows.append([str(name).replace("_", " "), ", ".join(f"{_level(one)}: {counts[one]}" for one in levels)])
    return FindingsTable(title="The choices that were drawn", headers=["choice", "encoders by level"], rows=rows)


def _level(level: object) -> str:
    if isinstance(level, bool | np.bool_):
        return "on" if level else "off"
    return f"{level:g}" if isinstance(level, float) else str(level)


def rows_used(experiment: Experiment, laws: Laws, orders: Orders, missing: dict[str, dict[str, int]]) -> list[RowsUsed]:
    """How many encoders every part used, and why others were left out."""
    population, n = experiment.population, len(experiment.population)
    waiting = {"trained and not measured yet": len(population.unmeasured)} if population.unmeasured else {}
    used = [
        RowsUsed(part="effects, first analysis", used=n, left_out=waiting),
        RowsUsed(
            part="effects, self-supervised alone",
            used=experiment.n_second,
            left_out={"supervised": n - experiment.n_second} if n > experiment.n_second else {},
        ),
        *(
            RowsUsed(part=f"scaling law of {one.dataset}", used=one.law.n_rows, unit="errors of encoders")
            for one in laws.each()
        ),
        RowsUsed(part="metrics without labels", used=len(orders.predictors)),
    ]
    return [
        *used,
        *(
            RowsUsed(part=get_metric_title(name), used=n - sum(why.values()), left_out=why)
            for name, why in missing.items()
        ),
    ]


def _tau(estimate: Estimate) -> str:
    return "" if estimate.value is None else format_estimate(estimate, digits=2)


FOUND, PERHAPS, NONE = "#0072B2", "#56B4E9", "#888888"
_WORDS = {
    "projector_width": "projector 256 against 64 wide", "projector linear": "linear projector",
    "projector mlp": "MLP projector", "dim": "dimensions, 4 times", "vit": "ViT against ResNet",
    "large": "large against small", "epochs": "epochs, 2 times", "batch_size": "batch, 2 times",
    "rate_factor": "learning rate, 3 times", "n_views": "four views against two",
}  # fmt: skip
_INKS = {FREE: "#009E73", LABELLED: "#D55E00", BASELINE: "#444444"}
_LABELS = {30: "30", 300: "300", 3_000: "3k", 60_000: "60k", 30_000: "30k", 1_281_167: "1.28M"}


def all_figures(experiment: Experiment, laws: Laws, orders: Orders) -> list[Figure]:
    n = len(experiment.population)
    return [
        Figure(
            name="effects",
            title="What each choice changes",
            caption=f"Effects on five errors of {n} encoders, in percentage points; below 0 the error falls. Dots are "
            "by least squares adjusted for all other choices, with 95 % intervals (HC3); strokes the difference in "
            f"means. An objective is against the mean of the others, a projector against none. Blue: family-wise p "
            f"at most {CERTAIN:g}; light blue: p at most {CERTAIN:g} alone, of which some are due to chance.",
            draw=partial(draw_effects, experiment),
        ),
        Figure(
            name="interactions",
            title="Interactions that were stated beforehand",
            caption=f"How much more the first choice changes (a) usability or the error with all labels and (b) a "
            f"generalization error where the second is made, or is one step larger, of {n} encoders, in percentage "
            "points, by least squares adjusted for all choices with 95 % intervals (HC3). Arrows are the expectation, "
            f"a ring that none was expected. Blue: family-wise p at most {CERTAIN:g} of six; light blue: p at most "
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
    drawing, panels = make_figure(height=0.155 * len(terms) + 1.1, n_columns=len(OUTCOMES), sharey=True)
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
    write_panel_letters(
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
    draw_legend_below(drawing, panels[0], n_columns=4)
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
    drawing, panels = make_figure(height=2.1, n_columns=2)
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
    write_panel_letters(panels)
    return drawing


def _interaction_words(effect: RandomisedEffect) -> str:
    first, second = (_WORDS.get(one, one).split(",")[0] for one in effect.term.split(" x "))
    return f"{first} x {second}\n{OUTCOMES[effect.outcome].lower()}"


def draw_laws(laws: Laws) -> Drawing:
    """One panel a population: errors by labels, its own law and that of the other one."""
    each = laws.each()
    drawing, panels = make_figure(height=3.2, n_columns=len(each), sharey=True)
    for number, (panel, fitted) in enumerate(zip(panels, each, strict=True)):
        _draw_law(panel, fitted, each[1 - number] if len(each) == 2 else None)
        panel.set_xlabel("labels of the probe [number]")
    panels[0].set_ylabel("error [%], lower is better")
    write_panel_letters(panels, [f"{one.dataset}, {one.law.n_encoders} encoders" for one in each])
    draw_legend_below(drawing, panels[0], n_columns=4)
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
    """One panel per target and kind of pairs, one row per metric."""
    metrics = ranked(orders)
    drawing, panels = make_figure(height=0.155 * len(metrics) + 1.2, n_columns=len(shown), sharey=True, sharex=True)
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
    write_panel_letters(
        panels, [_words(target, pairs, alone=len({one for one, _ in shown}) == 1) for target, pairs in shown]
    )
    for kind, ink in _INKS.items():
        panels[0].plot([], [], MARKS[kinds.index(kind)], linestyle="-", color=ink, label=kind)
    draw_legend_below(drawing, panels[0], n_columns=3)
    return drawing


def _words(target: str, pairs: str, *, alone: bool) -> str:
    """What a panel shows, in two lines at most; its target only where others have another one."""
    if not alone:
        return f"{target} error,\n{pairs}"
    return pairs.replace(", network", ",\nnetwork").replace(" network and width", " network\nand width")


def _short(metric: str) -> str:
    """The words for a metric without what stands in brackets, but for views."""
    title = get_metric_title(metric)
    return title if title.endswith("(aug.)") else title.partition(" (")[0]


def _draw_tau(panel: Axes, place: float, one: Estimate, kind: str) -> None:
    if one.value is None:
        return
    if one.ci_low is not None and one.ci_high is not None:
        panel.hlines(place, one.ci_low, one.ci_high, color=_INKS[kind], linewidth=1.1)
    panel.plot(one.value, place, MARKS[list(_INKS).index(kind)], color=_INKS[kind], markersize=3.6)
