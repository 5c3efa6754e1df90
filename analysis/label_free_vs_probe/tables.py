"""Tables of how label-free metrics predict accuracy, and the printed numbers next to ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import get_direction, get_metric_title
from zoo.analysis.table import StudyTable
from zoo.evaluation.drawing import (
    COLOURS,
    FULL_WIDTH,
    MARKS,
    MODE_COLOURS,
    SMALLEST,
    Figure,
    draw_legend_below,
    make_figure,
    plot_groups,
    write_above,
    write_panel_letters,
)
from zoo.results.paper_tables import PAPERS, PrintedNumber
from zoo.studies.findings import FindingsTable, RowsUsed
from zoo.studies.tables import build_cross_table, format_estimate, format_p_value, format_unsigned

from .agreement import (
    ACCURACY,
    ANY,
    CHANCE,
    GAIN,
    ORACLE,
    OVERALL,
    REGRET,
    STATISTICS,
    WITHIN,
    Predictions,
    Selection,
)
from .populations import TOLD, MetricPopulation, get_metric_unit

_TARGETS = ("imagenet-1k", "ood-average")  # of the printed numbers that are shown
_PAPER_OF = {identifier: title for title, identifier in PAPERS.items()}


def correlations_table(found: Predictions) -> FindingsTable:
    """One row per metric: how it is read, encoders, correlations with the oracle, and Kendall's within objectives."""
    rows = []
    for metric in found.population.predictors:
        one = {name: found.correlation(str(metric), name) for name in STATISTICS}
        tau, within = one["Kendall"], found.within_of(str(metric))
        if tau is None:
            continue
        rows.append(
            [
                get_metric_title(str(metric)),
                TOLD[get_direction(str(metric))],
                str(tau.n),
                *(_cell(one[name]) for name in STATISTICS),
                format_p_value(tau.p),
                format_p_value(tau.p_adjusted),
                _cell(within),
                "" if within is None else str(within.n),
            ]
        )
    return FindingsTable(
        title=f"Metrics with {found.population.oracle.name} accuracy: {found.population.name}",
        headers=[
            "metric",
            "read",
            "encoders",
            *(f"{name} [95 % interval]" for name in STATISTICS),
            "p of Kendall",
            "false-discovery rate",
            "Kendall within an objective",
            "encoders there",
        ],
        rows=rows,
        note="Above 0: the metric predicts. p-values take encoders as independent, the intervals do not.",
    )


def settings_table(found: Predictions) -> FindingsTable:
    """Kendall's tau of each metric with each accuracy."""
    columns = {
        str(accuracy): [
            tau.described(term=get_metric_title(str(metric)))
            for metric in found.population.predictors
            if (tau := found.correlation(str(metric), "Kendall", str(accuracy))) is not None
        ]
        for accuracy in found.population.accuracies
    }
    return build_cross_table(
        f"Kendall's tau by kind of accuracy: {found.population.name}", "metric", columns, signed=False
    )


def joint_table(joint: Mapping[str, Sequence[Estimate]]) -> FindingsTable:
    """One row a population and metric: tau of the first oracle alone, of the joint rank, and what the metric adds."""
    rows = []
    for where, estimates in joint.items():
        for both, alone, added in zip(estimates[::3], estimates[1::3], estimates[2::3], strict=True):
            metric = both.term.partition(" with ")[0]
            rows.append([where, get_metric_title(metric), str(both.n), _cell(alone), _cell(both), _cell(added)])
    return FindingsTable(
        title="Joint rank product of a metric and an accuracy that is known (CLID, Table 3)",
        headers=[
            "first oracle -> accuracy to predict", "metric", "encoders", "Kendall, oracle alone",
            "Kendall, joint rank", "the metric adds",
        ],
        rows=rows,
        note="Joint rank: the geometric mean of the rank by the metric and of that by the first oracle, 1 being best.",
    )  # fmt: skip


def selection_table(found: Predictions) -> FindingsTable:
    """One row per kind of group and metric: what is recovered of the oracle's accuracy."""
    rows = [
        [
            kind_of_group(kind, found.population.facts),
            get_metric_title(one.metric),
            str(len(one.picks)),
            str(one.estimate(ACCURACY).n),
            str(one.n_singles),
            str(one.n_ties),
            *(_cell(one.estimate(outcome), digits=1) for outcome in (ACCURACY, ORACLE, CHANCE, REGRET)),
            _cell(one.estimate(GAIN)),
        ]
        for kind, selections in found.selected.items()
        for one in selections
    ]
    return FindingsTable(
        title=f"Accuracy recovered by choosing without labels: {found.population.name}",
        headers=[
            "encoders differ in", "metric", "groups", "encoders", "alone, left out", "ties", "recovered", "oracle",
            "at random", "regret", "gain recovered",
        ],
        rows=rows,
        note=f"{found.population.oracle.name} accuracy in percent, mean over groups. Gain: 0 is a choice at random, 1 "
        "the oracle's.",
    )  # fmt: skip


def printed_table(printed: Iterable[PrintedNumber], ours: Mapping[str, Predictions]) -> FindingsTable:
    """Printed correlations, one row each, and the same statistic of the same metric in each population of ours."""
    rows = []
    for one in (number for number in printed if number.target in _TARGETS):
        cells = [_cell(_same(one, found)) for found in ours.values()]
        rows.append(
            [
                _PAPER_OF[one.paper],
                one.table,
                one.population,
                one.target,
                one.hyperparameter.replace("_", " "),
                get_metric_title(one.metric) + (f" ({one.variant})" if one.variant else ""),
                one.statistic.capitalize(),
                printed_text(one),
                *cells,
                one.note,
            ]
        )
    return FindingsTable(
        title="Printed correlations next to ours",
        headers=[
            "paper", "table", "its encoders", "accuracy on", "what varies", "metric", "statistic", "printed", *ours,
            "note",
        ],
        rows=rows,
        note="No two columns are of the same encoders; empty: not measured.",
    )  # fmt: skip


def recovered_table(printed: Sequence[PrintedNumber]) -> FindingsTable:
    """Printed accuracies that metrics recover, with what they lack of the oracle's."""
    oracles = {_place(one): one for one in printed if one.metric == "oracle"}
    rows = []
    for one in (number for number in printed if number.target in _TARGETS):
        oracle = oracles.get(_place(one))
        if one.metric == "oracle" or oracle is None:  # which recovers all of it
            continue
        rows.append(
            [
                _PAPER_OF[one.paper],
                one.table,
                one.population,
                one.target,
                one.hyperparameter.replace("_", " "),
                get_metric_title(one.metric) + (f" ({one.variant})" if one.variant else ""),
                printed_text(oracle),
                printed_text(one),
                f"{oracle.value - one.value:.{one.decimals}f}",
            ]
        )
    return FindingsTable(
        title="Printed accuracy recovered, in percent",
        headers=[
            "paper", "table", "its encoders", "accuracy on", "what varies", "metric", "oracle", "recovered", "regret",
        ],
        rows=rows,
    )  # fmt: skip


def printed_regrets(printed: Sequence[PrintedNumber], metric: str) -> list[float]:
    """Percentage points that a metric's choices lack of the oracle's, one a printed cell."""
    oracles = {_place(one): one.value for one in printed if one.metric == "oracle"}
    return [oracles[_place(one)] - one.value for one in printed if one.metric == metric and _place(one) in oracles]


def printed_text(one: PrintedNumber) -> str:
    """The number as it is printed."""
    return f"{one.value:.{one.decimals}f}"


def grid_table(estimates: Sequence[Estimate]) -> FindingsTable:
    """One row per setting of cluster learnability."""
    by_term: dict[tuple[str, str], list[str]] = {}
    for one in estimates:
        by_term.setdefault((one.method.partition(", ")[2], one.term), []).append(_cell(one))
    return FindingsTable(
        title="CLID with other numbers of clusters and neighbours (CLID, Figure 2)",
        headers=["encoders", "setting", *STATISTICS],
        rows=[[*names, *cells] for names, cells in by_term.items()],
    )


def rows_of(population: MetricPopulation, found: Predictions) -> list[RowsUsed]:
    """How many encoders of a population were used, and how many groups of a kind."""
    used = [RowsUsed(part=population.name, used=len(population), left_out=population.left_out)]
    for kind in (ANY, WITHIN):
        most = max(found.selected.get(kind, ()), key=lambda one: one.estimate(ACCURACY).n, default=None)
        if most is not None:
            gone = {"alone in its group": most.n_singles} if most.n_singles else {}
            used.append(
                RowsUsed(
                    part=f"{population.name}: groups that differ in {kind}"
                    if kind == ANY
                    else f"{population.name}: groups of {kind}",
                    used=len(most.picks),
                    unit="groups",
                    left_out=gone,
                )
            )
    return used


def kind_of_group(kind: str, facts: StudyTable) -> str:
    """The words for what the encoders of a group differ in."""
    words = {ANY: "any one choice", WITHIN: "anything but the objective", OVERALL: "anything"}
    return words[kind] if kind in words else facts.column(kind).label


def text_of(selection: Selection, outcome: str = REGRET) -> str:
    """One outcome of a selection in words.

    The unit stands behind it: ``"1.2 [0.4, 2.0] percentage points"``.
    """
    one = selection.estimate(outcome)
    return f"{format_unsigned(one)} {one.unit}"


def _same(one: PrintedNumber, found: Predictions) -> Estimate | None:
    elsewhere = next((str(name) for name in found.population.accuracies if " on " in str(name)), "")
    accuracy = None if one.target == _TARGETS[0] else elsewhere
    return found.correlation(one.metric, one.statistic.capitalize(), accuracy)


def _place(one: PrintedNumber) -> tuple[str, ...]:
    return one.paper, one.table, one.population, one.target, one.hyperparameter


def _cell(estimate: Estimate | None, *, digits: int = 2) -> str:
    return "" if estimate is None else format_estimate(estimate, digits=digits, signed=False)


_WIDE = 100  # a metric that spans more than so many times its least value gets a logarithmic axis
_PANELS = 3  # a row
_LONGEST = 24  # characters of a metric below a panel
_INCHES, _NARROW, _MOST_WIDE = 0.5, 0.33, 14  # of a cell of a matrix, of one with more columns than that
_BOUNDS = {ORACLE: "black", CHANCE: "#777777"}
_FIRST = ("rankme", "lidar", "clid", "w_clid", "correlation_rank", "alpha_req", "uniformity", "alignment")
_MOST = 8  # metrics in one figure of recovered accuracy, by colour


def label_free_figures(found: Mapping[str, Predictions]) -> list[Figure]:
    """Matrix, scatter and recovered accuracy of each population; the keys are the names of the files."""
    figures = []
    for key, one in found.items():
        population = one.population
        n, where = len(population), population.name
        metrics = len(population.predictors.columns)
        figures.append(
            Figure(
                name=f"kendall_{key}",
                title=f"Kendall's tau of metrics and accuracies: {where}",
                caption=f"Kendall's tau-b of each two of {metrics} metrics and {len(population.accuracies.columns)} "
                f"accuracies, of {n} encoders, every metric turned so that more is better; 1: the same order.",
                draw=partial(draw_matrix, one),
            )
        )
        figures.append(
            Figure(
                name=f"scatter_{key}",
                title=f"Metrics against accuracy: {where}",
                caption=f"{population.oracle.name} accuracy in percent, higher is better, of {n} encoders against each "
                "metric as it is measured, by type of objective. Over a panel, Kendall's tau with its 95 % interval, "
                "the metric turned so that more is better, and the number of encoders that have it.",
                draw=partial(draw_scatter, one),
            )
        )
        if kinds := _kinds(one):
            figures.append(
                Figure(
                    name=f"recovered_{key}",
                    title=f"Accuracy recovered without labels: {where}",
                    caption=f"{population.oracle.name} accuracy in percent of the encoders that a metric chooses "
                    "(dots), mean over groups of encoders that differ in one choice, with 95 % intervals where there "
                    "are 3 groups, or one of at least 5 encoders. Black lines: the oracle's choice; dashed: a choice "
                    "at random; they are broken where metrics are known of different encoders, whose groups differ. "
                    f"{len(kinds)} kinds of group, the number of groups in brackets."
                    f"{f' {_MOST} of the metrics of the table.' if len(population.choosers) > _MOST else ''}",
                    draw=partial(draw_recovered, one),
                )
            )
    return figures


def grid_figure(dataset: str, estimates: Sequence[Estimate]) -> Figure:
    """Pearson's r of CLID by numbers of clusters and neighbours."""
    pearson = [one for one in estimates if one.method.startswith("Pearson")]
    return Figure(
        name=f"grid_{file_key(dataset)}",
        title=f"Robustness of CLID to its hyper-parameters on {dataset} (CLID, Figure 2)",
        caption=f"Pearson's r of CLID with full-shot accuracy of {pearson[0].n} encoders, by the number of k-means "
        "clusters and of neighbours behind cluster learnability.",
        draw=partial(draw_grid, pearson),
    )


def draw_matrix(found: Predictions) -> Drawing:
    """Kendall's tau of each two metrics and accuracies."""
    population = found.population
    accuracies = [str(name) for name in population.accuracies]
    names = [str(name) for name in population.predictors]
    values = np.full((len(names), len(names) + len(accuracies)), np.nan)
    for one in found.mutual:
        if one.unit == "tau" and one.value is not None:
            row, column = names.index(one.term), names.index(one.outcome)
            values[row, column] = values[column, row] = one.value
    for one in found.correlations:
        if one.unit == "tau" and one.value is not None:
            values[names.index(one.term), len(names) + accuracies.index(one.outcome)] = one.value
    cell = _INCHES if values.shape[1] <= _MOST_WIDE else _NARROW
    width = max(FULL_WIDTH * 0.6, cell * values.shape[1] + 2.6)
    drawing, (axes,) = make_figure(width=width, height=0.8 * cell * len(names) + 1.8)
    image = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(
        range(values.shape[1]),
        [*map(get_metric_title, names), *accuracies],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
    )
    axes.set_yticks(range(len(names)), [get_metric_title(name) for name in names])
    axes.axvline(len(names) - 0.5, color="black", linewidth=1)
    _write_cells(axes, values)
    drawing.colorbar(image, ax=axes, label="Kendall's tau [-1 to 1]", shrink=0.8, pad=0.01, aspect=30)
    return drawing


def _write_cells(axes: Axes, values: NDArray[np.float64]) -> None:
    """The numbers of a heat map, without the zero before the point: cells are narrow."""
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}".replace("0.", ".", 1).replace("-.00", ".00")
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                size=SMALLEST,
                color="white" if abs(value) > 0.6 else "black",
            )


def draw_scatter(found: Predictions) -> Drawing:
    """Accuracy against each metric as measured, one panel a metric."""
    population = found.population
    names = [str(name) for name in population.predictors]
    n_rows = math.ceil(len(names) / _PANELS)
    n_columns = min(_PANELS, len(names))
    drawing, panels = make_figure(height=2.3 * n_rows + 0.5, n_rows=n_rows, n_columns=n_columns, sharey=True)
    modes = population.facts.frame["ssl_mode"].fillna("unknown").astype(str)
    every = sorted(modes.unique())
    for axes, name in zip(panels, names, strict=False):
        rows = population.values[name].dropna()
        ordered = sorted(rows.index, key=lambda encoder: every.index(modes[encoder]))
        plot_groups(
            axes,
            rows[ordered].tolist(),
            population.oracle[ordered].tolist(),
            modes[ordered].tolist(),
            colours=MODE_COLOURS,
        )
        if rows.min() > 0 and rows.max() > _WIDE * rows.min():
            axes.set_xscale("log")
        axes.set_xlabel(metric_label(name))
        if (tau := found.correlation(name, "Kendall")) is not None:
            write_above(axes, f"tau {format_unsigned(tau)}, n = {tau.n}")
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    for axes in panels[::n_columns]:
        axes.set_ylabel(f"{population.oracle.name} accuracy [%]\nhigher is better")
    write_panel_letters(panels[: len(names)])
    shown_modes = [modes[population.values[name].dropna().index].nunique() for name in names]
    fullest = shown_modes.index(max(shown_modes))
    draw_legend_below(drawing, panels[fullest], n_columns=6)
    return drawing


def draw_recovered(found: Predictions) -> Drawing:
    """Accuracy that each metric recovers, a row per kind of group, between the oracle's and that of chance."""
    kinds = _kinds(found)
    metrics = list(dict.fromkeys(one.metric for kind in kinds for one in found.selected[kind]))
    metrics.sort(key=lambda name: name not in _FIRST)  # as a whole, the order of the table
    metrics = metrics[:_MOST]
    drawing, (axes,) = make_figure(height=max(0.3, 0.075 * len(metrics)) * len(kinds) + 1.5)
    for row, kind in enumerate(kinds):
        if row % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="#F5F5F5", zorder=0, linewidth=0)
        chosen = {one.metric: one for one in found.selected[kind] if one.metric in metrics}
        for outcome, line in ((CHANCE, "--"), (ORACLE, "-")):
            for metric, one in chosen.items():
                if (value := one.estimate(outcome).value) is not None:
                    ends = [_height(row, metrics.index(metric) + half, metrics) for half in (-0.5, 0.5)]
                    axes.plot([value] * 2, ends, color=_BOUNDS[outcome], linestyle=line, linewidth=1.0, zorder=2)
        for metric, one in chosen.items():
            place, estimate = metrics.index(metric), one.estimate(ACCURACY)
            height, colour = _height(row, place, metrics), COLOURS[place]
            if estimate.ci_low is not None and estimate.ci_high is not None:
                axes.plot([estimate.ci_low, estimate.ci_high], [height, height], color=colour, linewidth=0.9, zorder=3)
            if estimate.value is not None:
                axes.plot(estimate.value, height, MARKS[place], color=colour, zorder=4)
    labels = [f"{kind_of_group(kind, found.population.facts)} [{_n_groups(found.selected[kind])}]" for kind in kinds]
    axes.set_yticks(range(len(kinds)), labels)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"{found.population.oracle.name} accuracy [%], mean over groups, higher is better")
    axes.set_ylabel("encoders differ in [number of groups]")
    handles = [
        Line2D([], [], color=COLOURS[place], marker=MARKS[place], linewidth=0.9, label=get_metric_title(metric))
        for place, metric in enumerate(metrics)
    ]
    handles += [
        Line2D([], [], color=_BOUNDS[ORACLE], linewidth=1.0, label="oracle"),
        Line2D([], [], color=_BOUNDS[CHANCE], linestyle="--", linewidth=1.0, label="at random"),
    ]
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)
    return drawing


def _height(row: int, place: float, metrics: Sequence[str]) -> float:
    """Where a metric has its line in the row of a kind of group."""
    return row + 0.8 * ((place + 0.5) / len(metrics) - 0.5)


def draw_grid(pearson: Sequence[Estimate]) -> Drawing:
    """Pearson's r as a heat map: clusters by neighbours."""
    places = [tuple(int(part.partition("=")[2]) for part in one.term.split(", ")) for one in pearson]
    clusters, neighbours = (sorted({place[axis] for place in places}) for axis in (0, 1))
    values = np.full((len(clusters), len(neighbours)), np.nan)
    for (n_clusters, k), one in zip(places, pearson, strict=True):
        values[clusters.index(n_clusters), neighbours.index(k)] = np.nan if one.value is None else one.value
    drawing, (axes,) = make_figure(width=FULL_WIDTH * 0.6, height=_INCHES * 0.8 * len(clusters) + 1.2)
    image = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(len(neighbours)), [str(k) for k in neighbours])
    axes.set_yticks(range(len(clusters)), [str(n) for n in clusters])
    axes.set(xlabel="number of neighbours", ylabel="number of clusters")
    _write_cells(axes, values)
    drawing.colorbar(image, ax=axes, label="Pearson's r [-1 to 1]", shrink=0.8)
    return drawing


def _kinds(found: Predictions) -> list[str]:
    last = [kind for kind in (ANY, WITHIN, OVERALL) if kind in found.selected]
    return [kind for kind in found.selected if kind not in last] + last


def _n_groups(found: Sequence[Selection]) -> str:
    counts = sorted({len(one.picks) for one in found})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def file_key(name: str) -> str:
    """The name of a population as part of the name of a file.

    >>> file_key("encoders measured on shapes")
    'encoders_measured_on_shapes'
    """
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


def metric_label(name: str) -> str:
    """An axis of a metric: what it is, in which unit, and which direction is better as its paper reads it.

    >>> metric_label("lidar"), metric_label("uniformity")
    ('LiDAR [dimensions]\\nhigher is better', 'uniformity [no unit]\\nlower is better')
    """
    better = {
        "more": "higher is better",
        "less": "lower is better",
        "1": "1 is best",
        "none": "no direction is claimed",
    }[get_direction(name)]
    title = get_metric_title(name)
    title = title if title.endswith("(aug.)") or len(title) <= _LONGEST else title.partition(" (")[0]
    return f"{title} [{get_metric_unit(name) or 'no unit'}]\n{better}"
