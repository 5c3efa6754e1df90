"""The tables of the report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import direction_of, title_of
from zoo.analysis.randomised import RandomisedEffect
from zoo.analysis.randomised_population import OUTCOMES, UNITS, Population
from zoo.studies.findings import Rows, Table
from zoo.studies.tables import interval, probability

from .claims import SIGNS
from .experiment import CERTAIN, KINDS, Experiment, of_kind, robust
from .law import ALPHA, Laws, W
from .orders import ALL, SHARED, TARGETS, Orders, kind_of

POINTS = "Percentage points, lower is better."


def effects_tables(experiment: Experiment) -> list[Table]:
    """One table an outcome, one row a contrast, both analyses."""
    n = len(experiment.population)
    return [
        Table(
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
                    interval(robust(effect.beside), digits=2),
                    probability(effect.p),
                    probability(effect.p_family),
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
    return ["", ""] if effect is None else [interval(robust(effect.beside), digits=2), probability(effect.p)]


def _value(effect: RandomisedEffect) -> float:
    return (effect.alone or effect.beside).value or 0.0


def together_table(experiment: Experiment) -> Table:
    """The mean effect of the augmentations, one row an outcome."""
    return Table(
        title="What one augmentation changes, the mean of five",
        headers=["outcome", "slope on their number", "least squares [95 %, HC3]", "p", "family-wise p"],
        rows=[
            [
                OUTCOMES[outcome],
                f"{_value(effect):+.2f}",
                interval(robust(effect.beside), digits=2),
                probability(effect.p),
                probability(effect.p_family),
            ]
            for (_, outcome), effect in experiment.together.items()
        ],
        note=f"{POINTS} No part of the family that was stated beforehand: family-wise over these outcomes.",
    )


def interactions_table(experiment: Experiment) -> Table:
    """One row an interaction that was stated beforehand."""
    return Table(
        title="Interactions that were stated beforehand",
        headers=["interaction", "outcome", "value [95 %, HC3]", "p", "family-wise p", "expected", "verdict"],
        rows=[
            [
                one.effect.term,
                OUTCOMES[one.effect.outcome],
                interval(robust(one.effect.beside), digits=2),
                probability(one.effect.p),
                probability(one.effect.p_family),
                SIGNS[one.expected],
                one.verdict,
            ]
            for one in experiment.interactions
        ],
        note="By how many percentage points the first changes the outcome more where the second is one larger; "
        "below 0 it lowers it more. p by permuted residuals; family-wise over these six.",
    )


def smallest_table(experiment: Experiment) -> Table:
    """What could have been found, one row an outcome and a kind of contrast; medians over the contrasts."""
    rows = []
    for outcome, words in OUTCOMES.items():
        spread = float(experiment.population.outcomes[outcome].std())
        for kind in KINDS:
            effects = [experiment.first[term, outcome] for term in of_kind(experiment.population.contrasts, kind)]
            sizes = [_half(effects), *(_median(experiment, effects, of_family=of) for of in (False, True))]
            rows.append([words, f"{spread:.2f}", kind, *(f"{size:.2f}" for size in sizes)])
    return Table(
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


def approximation_table(population: Population) -> Table:
    """The error of the supervised twin of every architecture, one column a number of dimensions."""
    frame = population.choices[["network", "size", "dim"]].assign(approx=population.outcomes["approx"])
    cells = {key: f"{value:.2f}" for key, value in frame.groupby(["network", "size", "dim"])["approx"].mean().items()}
    widths = sorted({int(one) for one in frame["dim"]})
    return Table(
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


def law_table(laws: Laws) -> Table:
    """One row a law, and the differences."""
    rows = [
        [
            one.dataset,
            str(one.law.n_encoders),
            str(one.law.n_rows),
            f"{one.law.n_measured:,.0f}",
            *(_plain(value, digits) for value, digits in ((one.law.alpha, 3), (one.law.W, 2), (one.law.r2, 3))),
            _plain(one.left_out, 3),
            f"{one.full_shot_only:.3f}",
        ]
        for one in laws.each()
    ]
    if laws.imagenet is not None:
        differences = [interval(laws.difference(name), digits=digits) for name, digits in ((ALPHA, 3), (W, 2))]
        rows.append(["difference", "", "", "", *differences, "", "", ""])
    return Table(
        title="The scaling law of these encoders and of ImageNet's",
        headers=[
            "encoders of",
            "encoders",
            "errors",
            "labels of the components",
            "alpha",
            "W",
            "R2",
            "R2 of encoders left out",
            "R2, full-shot error alone",
        ],
        rows=rows,
        note="95 % intervals over resampled encoders; of the difference both are resampled independently.",
    )


def misses_table(laws: Laws) -> Table:
    """Measured minus predicted by number of labels, of each law."""
    rows = [
        [one.dataset, f"{n:,}", str(count), f"{bias:+.2f} [{low:+.2f}, {high:+.2f}]", f"{rmse:.2f}"]
        for one in laws.each()
        for n, count, bias, low, high, rmse in one.misses().itertuples(index=False)
    ]
    return Table(
        title="Where the law misses",
        headers=["encoders of", "labels", "encoders", "measured minus predicted", "root mean square"],
        rows=rows,
        note="Percentage points of error, positive where the law is too optimistic, each law on the encoders that it "
        "was fitted to; means with 95 % intervals over encoders.",
    )


def orders_tables(orders: Orders) -> list[Table]:
    """One table a target, one row a metric, one column a kind of pairs."""
    metrics = ranked(orders)
    n_pairs = {pairs: orders.n_pairs(pairs) for pairs in SHARED}
    return [
        Table(
            title=f"How metrics order encoders by {words}",
            headers=["metric", "kind", "encoders", *(f"{pairs} ({n_pairs[pairs]:,} pairs)" for pairs in SHARED)],
            rows=[
                [
                    title_of(metric) + (", no direction is claimed" if direction_of(metric) == "none" else ""),
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


def missing_table(missing: dict[str, dict[str, int]], n: int) -> Table:
    """Which metrics some encoders lack, and why."""
    return Table(
        title="Metrics that some encoders lack",
        headers=["metric", "encoders with it", "encoders without it", "why"],
        rows=[
            [title_of(name), str(n - sum(why.values())), str(number), words]
            for name, why in missing.items()
            for words, number in why.items()
        ],
    )


def runs_table(population: Population) -> Table:
    """What became of the runs, one row an objective."""
    log, objectives = population.log, population.choices["objective"]
    rows = []
    for name in [*sorted(set(objectives)), "all"]:
        own = log if name == "all" else log[objectives == name]
        counts = [str(int((own["state"] == state).sum())) for state in ("trained", "collapsed", "failed")]
        rows.append(
            [name, str(len(own)), *counts, f"{own['seconds'].median():.0f}", f"{own['seconds'].sum() / 3600:.2f}"]
        )
    return Table(
        title="The runs",
        headers=["objective", "runs", "trained", "collapsed", "failed", "median seconds", "hours in all"],
        rows=rows,
        note="Collapsed: RankMe of the features below 2, or hardly any spread; such runs stay in the population.",
    )


def choices_table(population: Population) -> Table:
    """How often each level of each choice was drawn."""
    rows = []
    for name in population.choices:
        cells = population.choices[name].dropna()
        counts = cells.value_counts()
        levels = sorted(counts.index, key=lambda level: (isinstance(level, str), level))
        rows.append([str(name).replace("_", " "), ", ".join(f"{_level(one)}: {counts[one]}" for one in levels)])
    return Table(title="The choices that were drawn", headers=["choice", "encoders by level"], rows=rows)


def _level(level: object) -> str:
    if isinstance(level, bool | np.bool_):
        return "on" if level else "off"
    return f"{level:g}" if isinstance(level, float) else str(level)


def rows_used(experiment: Experiment, laws: Laws, orders: Orders, missing: dict[str, dict[str, int]]) -> list[Rows]:
    """How many encoders every part used, and why others were left out."""
    population, n = experiment.population, len(experiment.population)
    waiting = {"trained and not measured yet": len(population.unmeasured)} if population.unmeasured else {}
    used = [
        Rows(part="effects, first analysis", used=n, left_out=waiting),
        Rows(
            part="effects, self-supervised alone",
            used=experiment.n_second,
            left_out={"supervised": n - experiment.n_second} if n > experiment.n_second else {},
        ),
        *(
            Rows(part=f"scaling law of {one.dataset}", used=one.law.n_rows, unit="errors of encoders")
            for one in laws.each()
        ),
        Rows(part="metrics without labels", used=len(orders.predictors)),
    ]
    return [
        *used,
        *(Rows(part=title_of(name), used=n - sum(why.values()), left_out=why) for name, why in missing.items()),
    ]


def _plain(estimate: Estimate, digits: int) -> str:
    return interval(estimate, digits=digits, signed=False)


def _tau(estimate: Estimate) -> str:
    return "" if estimate.value is None else interval(estimate, digits=2)
